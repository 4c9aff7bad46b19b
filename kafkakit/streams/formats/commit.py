"""The nouns of committed offsets: what a commit's metadata says, and how it was read.

`CommitState` is what a KKM1 payload carries; `Reading` is what any metadata string means to its reader, whatever
wrote it. Offsets are absolute everywhere; times are milliseconds since 1970 by the clock of the records.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from kafkakit.streams.formats.offset_ranges import OffsetRanges


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


class Problem(StrEnum):
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
    problem: Problem | None = None
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
