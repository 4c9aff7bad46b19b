"""The nouns of committed offsets: what a commit belongs to, what its metadata says, and how it was read.

`CommitState` is what a KKM1 payload carries; `Reading` is what any metadata string means to its reader, whatever wrote
it. Offsets are absolute everywhere; sets of them are sorted half-open ranges (`OffsetRanges`), the value that codecs,
readings and plans exchange. Times are milliseconds since 1970 by the clock of the records. Topic ids are 16 bytes, and
text in Kafka's base64. Ranges, amounts, times and ages are also written here as people read them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum, StrEnum

from kafkakit.core.errors import UsageError
from kafkakit.core.quantities import count_of, format_rough_time

Range = tuple[int, int]
MAX_OFFSET = (1 << 63) - 1
"""The highest offset that Kafka's protocol can name."""


@dataclass(frozen=True, slots=True)
class OffsetRanges:
    """Offsets as `(start, end)` pairs, end exclusive, sorted, never empty, never touching one another.

    Make one with `OffsetRanges.of`, which sorts and joins; the constructor trusts its argument. Operations on two
    sets cost the sum of their ranges; membership costs a binary search.
    """

    ranges: tuple[Range, ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[Range]) -> "OffsetRanges":
        """The union of any ranges, in any order; empty ones are left out."""
        joined: list[Range] = []
        for start, end in sorted(r for r in ranges if r[0] < r[1]):
            if joined and start <= joined[-1][1]:
                if end > joined[-1][1]:
                    joined[-1] = (joined[-1][0], end)
            else:
                joined.append((start, end))
        return cls(tuple(joined))

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __iter__(self) -> Iterator[Range]:
        return iter(self.ranges)

    def __contains__(self, offset: object) -> bool:
        if not isinstance(offset, int):
            return False
        at = bisect_right(self.ranges, (offset, 1 << 64)) - 1
        return at >= 0 and self.ranges[at][0] <= offset < self.ranges[at][1]

    @property
    def count(self) -> int:
        """How many offsets the set holds."""
        return sum([end - start for start, end in self.ranges])

    @property
    def first(self) -> int | None:
        """The lowest offset."""
        return self.ranges[0][0] if self.ranges else None

    @property
    def end(self) -> int | None:
        """One past the highest offset."""
        return self.ranges[-1][1] if self.ranges else None

    def union(self, other: "OffsetRanges") -> "OffsetRanges":
        """What either set holds."""
        return OffsetRanges.of((*self.ranges, *other.ranges))

    def minus(self, other: "OffsetRanges") -> "OffsetRanges":
        """What this set holds and the other does not."""
        left: list[Range] = []
        others = other.ranges
        at = 0
        for start, end in self.ranges:
            while at < len(others) and others[at][1] <= start:
                at += 1
            begin, look = start, at
            while look < len(others) and others[look][0] < end:
                if begin < others[look][0]:
                    left.append((begin, others[look][0]))
                begin = max(begin, others[look][1])
                look += 1
            if begin < end:
                left.append((begin, end))
        return OffsetRanges(tuple(left))

    def intersection(self, other: "OffsetRanges") -> "OffsetRanges":
        """What both sets hold."""
        return self.minus(self.minus(other))

    def within(self, start: int, end: int) -> "OffsetRanges":
        """What the set holds of `start` to `end` (exclusive). Cost: two binary searches, and what it holds."""
        first, past = bisect_right(self.ranges, (start, start)), bisect_left(self.ranges, (end, end))
        cut = ((max(start, a), min(end, b)) for a, b in self.ranges[max(0, first - 1) : past])
        return OffsetRanges(tuple((a, b) for a, b in cut if a < b))

    def gaps(self, start: int, end: int) -> "OffsetRanges":
        """What the set does not hold of `start` to `end` (exclusive)."""
        return OffsetRanges.of([(start, end)]).minus(self)

    def is_subset_of(self, other: "OffsetRanges") -> bool:
        """True when the other set holds every offset of this one."""
        return not self.minus(other)


TOPIC_ID_BYTES = 16
NO_TOPIC_ID = bytes(TOPIC_ID_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitIdentity:
    """The cluster, topic, partition and group of one committed offset; what a KKM1 payload is bound to.

    `topic_id` has 16 bytes, all zero where the cluster gives topics no ids.
    """

    cluster_id: str
    topic_id: bytes
    partition: int
    group: str


def topic_id_bytes(text: str) -> bytes:
    """The 16 bytes of a topic id as Kafka's clients print it: a UUID, with or without dashes, or 22 base64url
    characters; raises `UsageError` for anything else."""
    from base64 import urlsafe_b64decode

    plain = text.replace("-", "")
    try:
        found = urlsafe_b64decode(text + "==") if len(text) == 22 else bytes.fromhex(plain)
    except ValueError:
        found = b""
    # Both decoders skip characters that are not theirs, so the length has the last word.
    if len(found) == TOPIC_ID_BYTES and (len(text) == 22 or len(plain) == 2 * TOPIC_ID_BYTES):
        return found
    raise UsageError(f"{text!r} is not a topic id", hint="give a UUID or the 22 characters that Kafka's tools print")


def topic_id_text(topic_id: bytes) -> str:
    """A topic id as a UUID in the usual five groups."""
    digits = topic_id.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def is_other_topic(wanted: str, found: str) -> bool:
    """True where two ids, in any form, are of different topics; False where one of them is not known."""
    if not wanted or not found:
        return False  # clusters before 2.8 give topics no ids
    ids = topic_id_bytes(wanted), topic_id_bytes(found)
    return ids[0] != ids[1] and NO_TOPIC_ID not in ids


class MarkState(IntEnum):
    """The state of a range beyond done and pending; the numbers are those of the payload.

    REJECTED and SKIPPED offsets are done, RETRYING and DEFERRED ones are pending.
    """

    REJECTED = 1
    RETRYING = 2
    DEFERRED = 3
    SKIPPED = 4

    @property
    def is_done(self) -> bool:
        """True when offsets of this state are in the done set."""
        return self in (MarkState.REJECTED, MarkState.SKIPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A run of offsets in one state, `start` to `end` (exclusive); `count` is tries so far, 15 means 15 or more.

    `deferred_s` is for DEFERRED alone: not before this many seconds after the watermark's oldest record.
    """

    start: int
    end: int
    state: MarkState
    count: int = 0
    deferred_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """Record times: of the oldest pending record (the one at base), and of the newest done one."""

    oldest_ms: int
    newest_done_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteMark:
    """The route epoch that the member acted on, and the segment it read."""

    epoch: int
    segment: int


DIGEST_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Spill:
    """Where the ledger holds the exact state; `digest` (8 bytes) tells that it is the right one."""

    partition: int
    offset: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """The member that committed: a hash of its id (32 bits), and its generation or member epoch."""

    member_hash: int
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayWindow:
    """Offsets that an operator opened again as pending, `start` to `end` (exclusive)."""

    start: int
    end: int
    request_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitState:
    """What a commit says of a partition: `base` is the committed offset, `done` what is done at or above it.

    Everything below `base` is done, and everything from `base` on that is not in `done` is pending. `base` itself
    is never in `done`. `forgotten` counts acknowledgements that coarsening dropped, so that the payload would fit.
    `marks` are sorted and disjoint, and agree with `done`.
    """

    base: int
    done: OffsetRanges = field(default_factory=OffsetRanges)
    watermark: Watermark | None = None
    route: RouteMark | None = None
    marks: tuple[Mark, ...] = ()
    spill: Spill | None = None
    writer: Writer | None = None
    replay: ReplayWindow | None = None
    forgotten: int = 0

    @property
    def end(self) -> int:
        """One past the highest done offset; `base` when nothing above it is done."""
        return self.done.end or self.base

    @property
    def pending(self) -> OffsetRanges:
        """The holes: offsets from `base` up to the highest done one that are not done."""
        return self.done.gaps(self.base, self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkDocument:
    """A `Mark` with its state by name."""

    start: int
    end: int
    state: str
    count: int = 0
    deferred_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpillDocument:
    """A `Spill` with its digest as 16 hex digits."""

    partition: int
    offset: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDocument:
    """A `CommitState` as JSON has it; `done` are `[start, end]` pairs, end exclusive."""

    base: int
    done: tuple[tuple[int, int], ...] = ()
    watermark: Watermark | None = None
    route: RouteMark | None = None
    marks: tuple[MarkDocument, ...] = ()
    spill: SpillDocument | None = None
    writer: Writer | None = None
    replay: ReplayWindow | None = None
    forgotten: int = 0


def state_data(state: CommitState) -> dict[str, object]:
    """A state as JSON has it and `StateDocument` reads it: None and nothing for parts that it lacks."""
    watermark, route, writer, replay = (
        None if part is None else asdict(part) for part in (state.watermark, state.route, state.writer, state.replay)
    )
    return {
        "base": state.base,
        "done": [list(pair) for pair in state.done.ranges],
        "watermark": watermark,
        "route": route,
        "marks": [asdict(mark) | {"state": mark.state.name.lower()} for mark in state.marks],
        "spill": None if state.spill is None else asdict(state.spill) | {"digest": state.spill.digest.hex()},
        "writer": writer,
        "replay": replay,
        "forgotten": state.forgotten,
    }


def state_from(document: StateDocument) -> CommitState:
    """The state that a document tells; `ValueError` for a mark or digest that cannot be. Numbers are not checked."""
    return CommitState(
        base=document.base,
        done=OffsetRanges(document.done),
        watermark=document.watermark,
        route=document.route,
        marks=tuple(_mark_from(mark) for mark in document.marks),
        spill=None if document.spill is None else _spill_from(document.spill),
        writer=document.writer,
        replay=document.replay,
        forgotten=document.forgotten,
    )


def _mark_from(given: MarkDocument) -> Mark:
    name = given.state.upper()
    if name not in MarkState.__members__:
        known = ", ".join(kind.name.lower() for kind in MarkState)
        raise ValueError(f"mark {given.state!r:.40} is not one of {known}")
    return Mark(start=given.start, end=given.end, state=MarkState[name], count=given.count, deferred_s=given.deferred_s)


def _spill_from(given: SpillDocument) -> Spill:
    try:
        digest = bytes.fromhex(given.digest)
    except ValueError:
        digest = b""
    if len(digest) != DIGEST_BYTES:
        raise ValueError("spill.digest is not 16 hex digits")
    return Spill(partition=given.partition, offset=given.offset, digest=digest)


class PayloadProblem(StrEnum):
    """Why a payload was not used; its reader continues from the committed offset with an empty done set."""

    BAD_TEXT = "bad text"
    BAD_BODY = "bad body"
    UNKNOWN_VERSION = "unknown version"
    UNKNOWN_SECTION = "unknown critical section"
    FOREIGN = "bound to something else"
    BASE_MISMATCH = "written for another offset"
    TOO_LARGE = "too large"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one metadata string means for the offset that it was committed with; reading never fails.

    `dialect` is the name of a record in `dialects.registry`. `state` is what may be relied upon: its done set is empty
    where `problem` gives the reason why the payload was not used. `claimed` is the state that the payload itself holds
    where it could be parsed and yet must not be used (foreign, or written for another offset). `is_bound` is None
    where the identity was not given or the dialect has none. `stream_time_ms` and `processor` are of Kafka Streams
    alone. `encoding` names the packing in the dialect's own words (`rice`, `BitSetV2`, `v1`), `chars` counts UTF-16
    units as brokers do.
    """

    dialect: str
    state: CommitState
    chars: int
    problem: PayloadProblem | None = None
    reason: str = ""
    claimed: CommitState | None = None
    encoding: str = ""
    alphabet: str = ""
    raw_bytes: int = 0
    is_lossy: bool = False
    is_compressed: bool = False
    is_bound: bool | None = None
    stream_time_ms: int | None = None
    processor: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_proven(self) -> bool:
        """True where the metadata prove that they were written for the commit that was asked about."""
        return self.problem is None and bool(self.is_bound)


SHOWN_RANGES = 6


def ranges_text(ranges: OffsetRanges, shown: int = SHOWN_RANGES) -> str:
    """Ranges with both ends in them: `100, 103-104 and 12 more ranges`."""
    words = [str(start) if end - start == 1 else f"{start}-{end - 1}" for start, end in ranges.ranges[:shown]]
    more = len(ranges.ranges) - shown
    return ", ".join(words) + (f" and {count_of(more, 'more range')}" if more > 0 else "")


def amount(number: int, noun: str) -> str:
    """A large count with its noun: `1 record`, `49,995 records`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def utc_text(ms: int) -> str:
    """Milliseconds since 1970 as ISO 8601 in UTC; `ms N` where no calendar reaches, which a payload may well claim."""
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return f"ms {ms}"


def age_text(ms: int, now_ms: int) -> str:
    """How long ago that was, or how far ahead it is."""
    seconds = (now_ms - ms) / 1000
    return f"{format_rough_time(seconds)} ago" if seconds >= 0 else f"{format_rough_time(-seconds)} ahead"


def interval_text(low_ms: int, high_ms: int) -> str:
    """One time, or both ends where they differ."""
    return utc_text(low_ms) if low_ms == high_ms else f"between {utc_text(low_ms)} and {utc_text(high_ms)}"
