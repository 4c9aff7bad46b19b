"""Rejected records as values, queries on them, and what is done with them; rules and samples of lanes as files.

* A replay writes a record of the DLQ lane where it came from. What it has written already stands in commits of a group
  of its own: the offsets of the DLQ lane that are done. Before a batch is written its offsets are marked as retrying,
  and as done once it was acknowledged. So whatever stops the program, each record is written at least once, and only
  those that were marked can be written twice.
* A purge cuts logs at an offset, so it deletes only what matches from the first record on.
* A rejected record must be copied to the DLQ lane before its topic may delete it.
* The file of lane rules is a list of which the first rule that matches decides: `- lane: slow` with `where: tenant =
  "imports" and bytes > 100kB`.
* Sample records for lane rules are JSON, a line for each record as `streams records show -o json` has them, or its
  whole results.
"""

from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

import msgspec

from kafkakit.config.keys import did_you_mean
from kafkakit.core.cluster_facts import CommittedOffset, ItemError
from kafkakit.core.documents import decode_json
from kafkakit.core.errors import InfeasibleError, InputError, RefusedError
from kafkakit.core.model import TopicPartition
from kafkakit.core.query import Field, NumberField, TextField, compile_query, fields_of
from kafkakit.core.query_text import parse_query
from kafkakit.core.records import Headers, OutgoingRecord, Record
from kafkakit.core.text import shell_command
from kafkakit.core.yaml_json import list_of, sound_document
from kafkakit.streams.model.commit import CommitIdentity, CommitState, Mark, MarkState, OffsetRanges
from kafkakit.streams.model.done_set import DoneSet
from kafkakit.streams.model.kkm1.decode import read_kkm1
from kafkakit.streams.model.kkm1.encode import encode_commit
from kafkakit.streams.model.provenance import LedgerReject, Provenance, read_provenance
from kafkakit.streams.model.route import (
    DLQ,
    HEADER,
    LIVE,
    LaneChooser,
    LaneRule,
    Route,
    Segment,
    header_text,
    text_of_bytes,
)
from kafkakit.streams.records.api import LogEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A rejected record: one of the DLQ lane, or with `entry` a reference to where it still lies.

    Of a reference only its place and provenance are known. `is_replayed`: a replay has written it again.
    """

    cluster_id: str
    place: TopicPartition
    offset: int
    provenance: Provenance | None
    at_ms: int | None = None
    key: bytes | None = None
    headers: Headers = ()
    size_bytes: int | None = None
    is_replayed: bool = False
    entry: LedgerReject | None = None

    @property
    def name(self) -> str:
        """`TOPIC/PARTITION@OFFSET`, as `dlq show` takes it."""
        return f"{self.place.topic}/{self.place.partition}@{self.offset}"


def letter_of(
    record: Record, segment: Segment, *, is_replayed: bool, provenance: Provenance | None = None
) -> DeadLetter:
    """A record of the DLQ lane; `provenance` if its headers are not kafkakit's."""
    return DeadLetter(
        cluster_id=segment.cluster_id,
        place=record.partition,
        offset=record.offset,
        provenance=provenance or read_provenance(record.headers),
        at_ms=record.at_ms,
        key=record.key,
        headers=record.headers,
        size_bytes=None if record.is_null else len(record.value),
        is_replayed=is_replayed,
    )


def letter_of_entry(
    place: TopicPartition, offset: int, entry: LogEntry | None, cluster_id: str, *, is_replayed: bool
) -> DeadLetter:
    """A record of the DLQ lane as it was read at its offset; None where the log has none there."""
    held = entry is not None and entry.offset == offset
    return DeadLetter(
        cluster_id=cluster_id,
        place=place,
        offset=offset,
        provenance=read_provenance(entry.headers) if entry and held else None,
        at_ms=entry.at_ms if entry and held and entry.at_ms >= 0 else None,
        key=entry.key if entry and held else None,
        headers=entry.headers if entry and held else (),
        size_bytes=len(entry.value) if entry and held and entry.value is not None else None,
        is_replayed=is_replayed,
    )


def letter_of_reject(entry: LedgerReject) -> DeadLetter:
    """A reference, whose provenance is that of the copy to come unless the record itself has an older origin."""
    place = entry.place
    return DeadLetter(
        cluster_id=place.cluster_id,
        place=TopicPartition(place.topic, place.partition),
        offset=place.offset,
        provenance=Provenance(origin=place, failure=entry.failure, hops=0),
        at_ms=place.at_ms,
        entry=entry,
    )


def letter_filter(where: str, now_ms: int) -> Callable[[DeadLetter], bool]:
    """The query as a function; "" is every record. `age_s` is how long ago it failed, the record's time without
    provenance. Raises `UsageError` for a query that cannot be read, or that names another attribute.
    """
    if not where:
        return lambda letter: True

    def age_s(letter: DeadLetter) -> int | None:
        at_ms = letter.provenance.failure.at_ms if letter.provenance else letter.at_ms
        return None if at_ms is None else (now_ms - at_ms) // 1000

    known = fields_of({**_KNOWN, "age_s": NumberField(age_s), HEADER + "NAME": _header("NAME")})

    def field(key: str) -> Field[DeadLetter] | None:
        return _header(key.removeprefix(HEADER)) if key.startswith(HEADER) else known(key)

    return compile_query(parse_query(where), field)


def _header(name: str) -> Field[DeadLetter]:
    return TextField(lambda letter: header_text(letter.headers, name))


def _text(of: Callable[[Provenance], str]) -> Field[DeadLetter]:
    return TextField(lambda letter: of(letter.provenance) if letter.provenance else None)


def _number(of: Callable[[Provenance], int]) -> Field[DeadLetter]:
    return NumberField(lambda letter: of(letter.provenance) if letter.provenance else None)


_KNOWN: Mapping[str, Field[DeadLetter]] = MappingProxyType(
    {
        "key": TextField(lambda letter: text_of_bytes(letter.key)),
        "reason": _text(lambda found: found.failure.reason),
        "group": _text(lambda found: found.failure.group),
        "error_class": _text(lambda found: found.failure.error_class),
        "error_text": _text(lambda found: found.failure.error_text),
        "tries": _number(lambda found: found.failure.tries),
        "hops": _number(lambda found: found.hops),
        "lane": _text(lambda found: found.origin.lane),
        "origin_topic": _text(lambda found: found.origin.topic),
        "topic": TextField(lambda letter: letter.place.topic),
        "partition": NumberField(lambda letter: letter.place.partition),
        "offset": NumberField(lambda letter: letter.offset),
        "bytes": NumberField(lambda letter: letter.size_bytes),
        "replayed": TextField(lambda letter: "true" if letter.is_replayed else "false"),
        "held": TextField(lambda letter: "reference" if letter.entry else "copy"),
    }
)

MOST_AT_ONCE = 500
"""Records of a batch: as many may be written twice after an interruption."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTarget:
    """A segment that takes writes, and a partition of it."""

    segment: Segment
    place: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayBudget:
    """At most `rate` records a second, and `limit` in all (None: every record)."""

    rate: float
    limit: int | None = None

    @property
    def batch(self) -> int:
        """Records of a batch: at most those of a second."""
        return max(1, min(MOST_AT_ONCE, int(self.rate)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutcome:
    """What a replay found and did.

    `matching` records had not been replayed; `replayed` of them were written, or with `is_plan` would be. `uncertain`
    were marked as in flight by a replay that was interrupted: they may have been written before. `stayed` counts those
    without a target, by reason.
    """

    matching: int
    replayed: int
    uncertain: int
    stayed: dict[str, int]
    is_plan: bool = False
    targets: Mapping[str, int] = field(default_factory=dict)
    """Of the matching records that have a target: how many go to which topic."""


def target_of(letter: DeadLetter, route: Route, to: str | None) -> ReplayTarget | str:
    """The active segment of the record's original lane, or of lane `to`; the reason in words where there is none.

    The partition is the original one in its own segment, else that number modulo the segment's partitions: records of
    a key stay together, and with an equal number of partitions they go where new records of the key go.
    """
    origin = letter.provenance.origin if letter.provenance else None
    name = to if to is not None else origin.lane if origin else None
    if name is None:
        return "without readable provenance: name a lane with --to"
    if name == DLQ:
        return "rejected in the DLQ lane itself: name a lane with --to"
    lane = route.lane(name)
    if lane is None:
        return f"lane {name} is not in the route: name a lane with --to"
    if lane.active is None:
        return f"lane {name} has no active segment"
    number = (origin.partition if origin else letter.place.partition) % lane.active.partitions
    return ReplayTarget(segment=lane.active, place=TopicPartition(lane.active.topic, number))


class LetterOrigins(Protocol):
    """Reads where rejected records came from, and says where they go."""

    def letter(self, record: Record, segment: Segment, *, is_replayed: bool) -> DeadLetter:
        """A record of the DLQ lane with its provenance."""
        ...

    def target(self, letter: DeadLetter, to: str | None) -> ReplayTarget | str:
        """Where it is written again, or what `to` names; the reason in words if nowhere."""
        ...


@dataclass(frozen=True, slots=True)
class StreamOrigins:
    """Implements `LetterOrigins` for the lanes of a stream."""

    route: Route

    def letter(self, record: Record, segment: Segment, *, is_replayed: bool) -> DeadLetter:
        return letter_of(record, segment, is_replayed=is_replayed)

    def target(self, letter: DeadLetter, to: str | None) -> ReplayTarget | str:
        return target_of(letter, self.route, to)


def require_target(route: Route, to: str | None) -> None:
    """Raise `RefusedError` for a lane that cannot be replayed to."""
    if to is None:
        return
    lane = route.lane(to)
    if to == DLQ or lane is None or lane.active is None:
        raise RefusedError(f"stream {route.stream}: nothing can be replayed to lane {to[:40]!r}")


LIMIT_CHARS = 4095
"""Kafka's default limit for metadata, less one for the NUL that librdkafka's clients add."""


@dataclass(slots=True)
class ReplayState:
    """One partition of the DLQ lane. `in_flight` are offsets that an interrupted replay may have written."""

    identity: CommitIdentity
    done: DoneSet
    in_flight: OffsetRanges
    first: int
    before: OffsetRanges
    """What earlier replays have done: everything below `first`, and this."""

    def was_done(self, offset: int) -> bool:
        """Whether an earlier replay has written the record."""
        return offset < self.first or offset in self.before

    def skip(self, start: int, end: int) -> None:
        """Offsets that have no record count as done."""
        self.done.mark_range(start, end)

    def sending(self, offsets: OffsetRanges) -> CommittedOffset:
        """The commit before these offsets are written.

        Raises `InfeasibleError` where the metadata could not hold exactly what is done before or after.
        """
        after = DoneSet(self.done.base, self.done.ranges())
        for start, end in offsets:
            after.mark_range(start, end)
        self._commit(CommitState(base=after.base, done=after.ranges()))
        return self._commit(self._state(offsets))

    def sent(self, offsets: OffsetRanges) -> CommittedOffset:
        """The commit after they were acknowledged; raises like `sending`."""
        for start, end in offsets:
            self.done.mark_range(start, end)
        self.in_flight = self.in_flight.minus(offsets)
        return self._commit(self._state(OffsetRanges()))

    def _state(self, sending: OffsetRanges) -> CommitState:
        marked = self.in_flight.union(sending)
        marks = tuple(Mark(start=start, end=end, state=MarkState.RETRYING, count=1) for start, end in marked)
        return CommitState(base=self.done.base, done=self.done.ranges(), marks=marks)

    def _commit(self, state: CommitState) -> CommittedOffset:
        encoded = encode_commit(state, self.identity, limit_chars=LIMIT_CHARS)
        if encoded.is_lossy:
            raise InfeasibleError(
                f"what was replayed of partition {self.identity.partition} is in too many pieces for a commit",
                hint="replay without --where, or purge what was replayed first",
            )
        return CommittedOffset(offset=state.base, metadata=encoded.text)


def read_replay_state(commit: CommittedOffset | None, identity: CommitIdentity, log_start: int) -> ReplayState:
    """What the commit says; without one, nothing was replayed. What the log has lost counts as done.

    Raises `RefusedError` for metadata that another program wrote, or a newer kafkakit: it would all be replayed again.
    """
    state = CommitState(base=0)
    if commit is not None:
        reading = read_kkm1(commit.metadata.rstrip("\0"), commit.offset, identity)
        if reading.problem is not None:
            raise RefusedError(
                f"the commit of group {identity.group} for partition {identity.partition} cannot be used: "
                f"{reading.reason}",
                hint=f"delete it ({shell_command('streams commits delete', identity.group)}), "
                "and all is replayed again",
            )
        state = reading.state
    done = DoneSet(state.base, state.done)
    if log_start > done.base:
        done.mark_range(done.base, log_start)
    marked = OffsetRanges.of((mark.start, mark.end) for mark in state.marks if mark.state is MarkState.RETRYING)
    first, before = done.base, done.ranges()
    in_flight = marked.within(first, max(first, marked.end or 0)).minus(before)
    return ReplayState(identity=identity, done=done, in_flight=in_flight, first=first, before=before)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCut:
    """`records` of a partition of the DLQ lane go, all below `offset`; `behind` more match and stay, since others
    that do not match lie before them."""

    cluster_id: str
    place: TopicPartition
    offset: int
    records: int
    behind: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgePlan:
    """Cuts of the DLQ lane, and the keys of references to remove, by cluster."""

    cuts: tuple[PartitionCut, ...]
    references: dict[str, tuple[bytes, ...]]

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be deleted."""
        return not self.references and not any(cut.records for cut in self.cuts)


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeOutcome:
    """What a purge did; `errors` are of partitions that were not cut."""

    plan: PurgePlan
    errors: dict[str, ItemError]


def plan_purge(letters: Iterable[tuple[DeadLetter, bool]]) -> PurgePlan:
    """The plan for all rejected records, each with whether it matches; records of a partition in order."""
    open_cuts: dict[tuple[str, TopicPartition], PartitionCut] = {}
    closed: set[tuple[str, TopicPartition]] = set()
    references: dict[str, list[bytes]] = {}
    for letter, matches in letters:
        if letter.entry is not None:
            if matches:
                references.setdefault(letter.cluster_id, []).append(letter.entry.key)
            continue
        key = (letter.cluster_id, letter.place)
        cut = open_cuts.get(key) or PartitionCut(
            cluster_id=letter.cluster_id, place=letter.place, offset=letter.offset, records=0, behind=0
        )
        goes = matches and key not in closed
        if not goes:
            closed.add(key)
        open_cuts[key] = PartitionCut(
            cluster_id=cut.cluster_id,
            place=cut.place,
            offset=letter.offset + 1 if goes else cut.offset,
            records=cut.records + goes,
            behind=cut.behind + (matches and not goes),
        )
    return PurgePlan(
        cuts=tuple(open_cuts[key] for key in sorted(open_cuts)),
        references={cluster: tuple(sorted(keys)) for cluster, keys in sorted(references.items())},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRetention:
    """What takes records out of a topic; None where time, or size, does not."""

    retention_ms: int | None = None
    retention_bytes: int | None = None
    is_compacted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOutcome:
    """What one look at the ledgers came to.

    `copied` records are in the DLQ lane now, or with `is_plan` would be. `waiting` need no copy yet, the first one not
    before `next_at_ms` (None: their topics keep them for good). `lost` are gone from their topics, and `failed` could
    not be read this time, each with the reason; all of these stay in the ledger.
    """

    copied: int
    waiting: int
    next_at_ms: int | None
    lost: dict[str, str]
    failed: dict[str, str]
    is_plan: bool = False


def copy_at_ms(at_ms: int | None, settings: SourceRetention, ahead_ms: int) -> int | None:
    """From when on to copy a record of this time: `ahead_ms` before it can be deleted; None where it stays for good.

    Time deletes a segment once the latest record in it is older than `retention.ms` (`UnifiedLog.deletableSegments`),
    so no record before its own time plus `retention.ms`. Neither the size to come nor the next key is known, so what
    size or compaction may take is copied at once (0), and so is a record without a time.
    """
    if settings.is_compacted or settings.retention_bytes is not None:
        return 0
    if settings.retention_ms is None:
        return None
    return 0 if at_ms is None else max(0, at_ms + settings.retention_ms - ahead_ms)


SAMPLES_LIMIT_BYTES = 64 << 20


class _Bytes(msgspec.Struct):
    text: str | None = None
    base64: str | None = None
    size: int | None = msgspec.field(name="bytes", default=None)

    def data(self, source: str) -> bytes:
        """The bytes; those that were cut are filled up with zeros, so that the size is right."""
        try:
            held = self.text.encode() if self.text is not None else b64decode(self.base64 or "", validate=True)
        except ValueError:
            raise InputError(source, "base64 that cannot be read, or text with half a surrogate pair") from None
        size = len(held) if self.size is None else self.size
        if not len(held) <= size <= SAMPLES_LIMIT_BYTES:
            raise InputError(source, f"{size} bytes are named, {len(held)} are there")
        return held + bytes(size - len(held))


class _Header(msgspec.Struct):
    name: str
    value: _Bytes | None = None


class _Record(msgspec.Struct):
    key: _Bytes | None = None
    value: _Bytes | None = None
    headers: tuple[_Header, ...] = ()
    timestamp_ms: int | None = None


class _Line(_Record):
    records: tuple[_Record, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneShare:
    """How many of the sampled records a rule decides on; `rule` counts from 1, None where no rule matches."""

    lane: str
    rule: int | None
    where: str
    records: int


def read_samples(data: bytes, source: str) -> Iterator[OutgoingRecord]:
    """The records in order; raises `InputError` with the line where a record, or a result, begins."""
    for number, text in _pieces(data.splitlines()):
        place = f"{source}:{number}"
        read = decode_json(text, _Line, place)
        for record in (read,) if read.records is None else read.records:
            yield OutgoingRecord(
                key=record.key.data(place) if record.key else None,
                value=record.value.data(place) if record.value else None,
                headers=tuple((h.name, h.value.data(place) if h.value else None) for h in record.headers),
                at_ms=record.timestamp_ms,
            )


def _pieces(lines: list[bytes]) -> Iterator[tuple[int, bytes]]:
    """JSON texts with their first lines: lines, or what stands between a line `{` and a line `}` as results have it."""
    first, held = 0, list[bytes]()
    for number, line in enumerate(lines, 1):
        if held or line == b"{":
            first = first if held else number
            held.append(line)
            if line == b"}" or number == len(lines):
                yield first, b"\n".join(held)
                held = []
        elif line.strip():
            yield number, line


def lane_shares(rules: Sequence[LaneRule], records: Iterable[OutgoingRecord], now_ms: int) -> tuple[LaneShare, ...]:
    """How many records each rule decides on, in the rules' order, and last those that no rule matches.

    A rule may name any lane: one that the stream does not have yet, too.
    """
    chooser = LaneChooser(rules, {rule.lane for rule in rules})
    counts = Counter(chooser.deciding(record, now_ms) for record in records)
    found = [LaneShare(lane=r.lane, rule=n + 1, where=r.where, records=counts[n]) for n, r in enumerate(rules)]
    return (*found, LaneShare(lane=LIVE, rule=None, where="", records=counts[None]))


RULE_FILE_LIMIT_BYTES = 1 << 20
MAX_RULES = 100
_KEYS = ("lane", "where")


def read_rules(data: bytes, source: str) -> tuple[LaneRule, ...]:
    """The rules of a file; raises `InputError` with the line."""
    document = sound_document(data, source)
    nodes = list_of(document.root)
    if not nodes or len(nodes) > MAX_RULES:
        raise InputError(source, f"holds {len(nodes)} rules, 1 to {MAX_RULES} are read")
    found = []
    for node in nodes:
        texts: dict[str, str] = {}
        for key, line, child in document.items(node, "a rule"):
            if key not in _KEYS:
                hint = f"known keys are {', '.join(_KEYS)}"
                raise InputError(f"{source}:{line}", f"unknown key {key!r:.60}{did_you_mean(key, _KEYS)}", hint=hint)
            texts[key] = document.scalar_text(child, key)
        if len(texts) < len(_KEYS):
            raise InputError(document.line_of(node), "a rule has a lane and a query: lane: NAME, where: QUERY")
        found.append(LaneRule(lane=texts["lane"], where=texts["where"]))
    return tuple(found)
