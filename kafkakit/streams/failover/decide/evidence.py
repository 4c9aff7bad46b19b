"""What one look at a stream and its clusters found, as values; what could not be read is absent or says why.

Old topics count as quiet after two equal readings of their ends, far enough apart, on a stated basis. A reading that
failed proves nothing and changes nothing. A change of the basis (a fence went up, the last producer moved) begins the
window again, since what was seen before it may have been written under the weaker one.

The effective end is the offset after the last record that readers get: markers, aborted records and emptied batches do
not count. A client that commits the last record's offset plus one never reaches the end of a log that ends with
markers, so a proof needs this offset instead. The walk goes back from the end, one raw read at a time.

Commits for old topics say how far members have moved, and what comes a second time.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from kafkakit.core.cluster_facts import (
    AclBinding,
    CommittedOffset,
    GroupDescription,
    GroupState,
    GroupType,
    ItemError,
    LogSpan,
    OpenTransaction,
    ProducerState,
    Quotas,
)
from kafkakit.core.errors import UsageError
from kafkakit.core.findings import Severity
from kafkakit.core.model import TopicPartition
from kafkakit.streams.failover.decide.operation import (
    DEFAULT_QUIET_S,
    SHORT_WINDOW_S,
    SKEW_S,
    Failover,
    FailoverRequest,
    FenceKind,
)
from kafkakit.streams.model.commit import CommitIdentity, Reading, topic_id_bytes
from kafkakit.streams.model.dialects.dialect import CommitFacts
from kafkakit.streams.model.dialects.registry import read_metadata
from kafkakit.streams.model.log_batches import Batch, LogRecord, batches_of, records_of
from kafkakit.streams.model.route import Route, Segment

Commits = Mapping[int, CommittedOffset | ItemError]
"""What a group committed for a topic, by partition; a partition without a commit is absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStanding:
    """A group on one cluster, as far as one topic concerns it.

    `epochs` are the route epochs in its commits' metadata by partition; `held` are the partitions that each member
    holds. `has_stream_time` is true for commits that only Kafka Streams makes.
    """

    group: str
    type: GroupType
    state: GroupState
    commits: Commits = field(default_factory=dict)
    epochs: Mapping[int, int] = field(default_factory=dict)
    held: tuple[frozenset[int], ...] = ()
    has_stream_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStanding:
    """The topic of a segment, or of one that is to be made, on its live cluster.

    `problem` says why it is not the one that is meant, or why nothing is known of it; `is_reachable` is false in the
    latter case. `spans` hold an error where a leader did not answer. `effective` are the offsets after the last record
    that a reader gets, by partition, where the stable end was the end. `topic_id` is None where there is no topic.
    A topic of lane `dlq` that `is_gone` counts as an empty one, at its seal if it has one.
    """

    cluster_id: str = ""
    topic_id: str | None = None
    partitions: int = 0
    problem: str = ""
    is_reachable: bool = True
    configs: Mapping[str, str] = field(default_factory=dict)
    spans: Mapping[int, LogSpan | ItemError] = field(default_factory=dict)
    effective: Mapping[int, int] = field(default_factory=dict)
    groups: Mapping[str, GroupStanding] = field(default_factory=dict)
    is_gone: bool = False

    @property
    def whole_spans(self) -> Mapping[int, LogSpan] | None:
        """The spans, where every partition was read; None otherwise: an error proves nothing."""
        found = {number: span for number, span in self.spans.items() if isinstance(span, LogSpan)}
        return found if self.partitions and len(found) == self.partitions else None

    @property
    def records(self) -> int | None:
        """How many offsets the logs hold; None where one is not known."""
        spans = self.whole_spans
        return None if spans is None else sum(span.end - span.start for span in spans.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterFacts:
    """Who writes to a topic, what keeps writers away, and what fences its cluster offers.

    `bindings` None: the cluster has no authorizer. `allows_everyone` is `allow.everyone.if.no.acl.found`, None where
    the brokers do not say. `quotas` are all of the cluster's, None where they cannot be read. `problem` says why the
    rest is not known.
    """

    producers: Mapping[int, tuple[ProducerState, ...]] = field(default_factory=dict)
    transactions: tuple[OpenTransaction, ...] = ()
    bindings: tuple[AclBinding, ...] | None = None
    allows_everyone: bool | None = None
    quotas: Quotas | None = None
    problem: str = ""

    @property
    def open_transactions(self) -> tuple[str, ...]:
        """Transactions that wait for their markers: their ids, or producer ids where no coordinator names one."""
        named = {each.producer_id: each.transactional_id for each in self.transactions}
        found = {
            named.get(state.producer_id, f"producer {state.producer_id}")
            for states in self.producers.values()
            for state in states
            if state.transaction_start is not None
        }
        return tuple(sorted(found | set(named.values())))

    def words_of(self, partitions: Iterable[int]) -> tuple[str, ...]:
        """The producers that partitions remember, in words: Kafka keeps neither client ids nor hosts of them."""
        return tuple(
            f"partition {number}: producer {state.producer_id}, epoch {state.producer_epoch}, last at {state.last_ms}"
            for number in partitions
            for state in self.producers.get(number, ())
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFacts:
    """A client of the stream as it registered itself; `is_silent` once it has not written for its delivery timeout.

    `lanes` are those that a consumer reads; none stand for all but `dlq`.
    """

    id: str
    is_producer: bool
    group: str
    epoch: int
    delivery_timeout_s: float
    is_silent: bool = False
    lanes: tuple[str, ...] = ()


class References(NamedTuple):
    """Records that were rejected by reference: `held` are in the log, `gone` were deleted before they were copied."""

    held: int = 0
    gone: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietPeriod:
    """How long the ends of all old logs have been the same, by this process's looks alone, and on what basis."""

    basis: str
    seconds: float
    fence: FenceKind = FenceKind.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One look. `old` are topics by segment id, `targets` by lane, `writers` by segment id.

    `rejects` are the records that were rejected by reference, by segment id: absent where not read, and then
    `rejects_problem` may say why. `unknown_groups` are
    those with commits for an old topic that the operation neither requires nor ignores, None where not listed.
    `fenced` are the old segments whose fence was seen in place by this look, `delayed` those whose quota was.
    """

    route: Route
    now_ms: int
    old: Mapping[int, TopicStanding] = field(default_factory=dict)
    targets: Mapping[str, TopicStanding] = field(default_factory=dict)
    writers: Mapping[int, WriterFacts] = field(default_factory=dict)
    clients: tuple[ClientFacts, ...] = ()
    rejects: Mapping[int, References] = field(default_factory=dict)
    rejects_problem: str = ""
    unknown_groups: tuple[str, ...] | None = None
    fenced: frozenset[int] = frozenset()
    delayed: frozenset[int] = frozenset()
    quiet: QuietPeriod | None = None
    routed_for_s: float = 0.0

    def producers(self) -> tuple[ClientFacts, ...]:
        """The producers that registered themselves and are not silent."""
        return tuple(client for client in self.clients if client.is_producer and not client.is_silent)

    def consumers(self, group: str) -> tuple[ClientFacts, ...]:
        """The consumers of a group that registered themselves and are not silent."""
        found = (client for client in self.clients if not client.is_producer and client.group == group)
        return tuple(client for client in found if not client.is_silent)


def references_in(places: Iterable[tuple[int, int]], spans: Mapping[int, LogSpan]) -> References:
    """What references (partition and offset) lead to; without a span a record counts as there."""
    found = [partition in spans and offset < spans[partition].start for partition, offset in places]
    return References(held=found.count(False), gone=found.count(True))


def letters_in(segment: Segment, facts: TopicStanding | None) -> int | None:
    """How many dead letters a topic holds, at most: markers are among them before it is sealed. None: not known."""
    spans = None if facts is None else facts.whole_spans
    if spans is None:
        return None
    ends = {seal.partition: seal.effective_end for seal in segment.seal}
    return sum(max(0, ends.get(number, span.end) - span.start) for number, span in spans.items())


def has_read(group: GroupStanding) -> bool:
    """Whether a group reads a topic: a member holds a partition, or it committed more than a beginning.

    Earlier failovers committed the beginning of lane `dlq` for every group.
    """
    commits = (each for each in group.commits.values() if isinstance(each, CommittedOffset))
    return any(group.held) or any(each.offset > 0 or each.metadata.rstrip("\0") for each in commits)


def empty_topic(segment: Segment, facts: TopicStanding) -> TopicStanding:
    """The facts of a topic that was deleted, as those of an empty log that ends where it was sealed."""
    ends = {seal.partition: seal.end for seal in segment.seal} or dict.fromkeys(range(segment.partitions), 0)
    return replace(
        facts,
        partitions=segment.partitions,
        problem="",
        spans={number: LogSpan(start=end, stable=end, end=end) for number, end in ends.items()},
        effective=ends,
        is_gone=True,
    )


def unreachable_topics(segments: tuple[Segment, ...], why: str) -> dict[int, TopicStanding]:
    """The facts of segments whose cluster does not answer."""
    return {segment.id: TopicStanding(problem=why, is_reachable=False) for segment in segments}


Ends: TypeAlias = Mapping[tuple[int, int], int]
"""End offsets by segment id and partition."""


class QuietBasis(StrEnum):
    """Why the ends are not expected to grow; FENCE is the strongest."""

    FENCE = "fence"
    ACKNOWLEDGED = "acknowledged"
    TIME = "time"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietWatch:
    """The readings of one process: `since_s` is after the first equal one, `seen_s` before the latest equal one."""

    basis: QuietBasis
    ends: Ends
    since_s: float
    seen_s: float

    @property
    def seconds(self) -> float:
        """How far the first and the latest equal reading are apart."""
        return max(0.0, self.seen_s - self.since_s)


def watch_ends(
    watch: QuietWatch | None, basis: QuietBasis, ends: Ends | None, began_s: float, ended_s: float
) -> QuietWatch | None:
    """Take one more reading into account, which began and ended at these times of a clock that never goes back."""
    if ends is None:
        return watch if watch is None or watch.basis is basis else None
    if watch is None or watch.basis is not basis or watch.ends != ends:
        return QuietWatch(basis=basis, ends=ends, since_s=ended_s, seen_s=ended_s)
    return QuietWatch(basis=basis, ends=ends, since_s=watch.since_s, seen_s=began_s)


def ends_of(operation: Failover, route: Route, old: Mapping[int, TopicStanding]) -> Ends | None:
    """The ends of all old logs; None unless every one was read."""
    found: dict[tuple[int, int], int] = {}
    for _, segment in operation.old_segments(route):
        facts = old.get(segment.id)
        spans = None if facts is None or facts.problem else facts.whole_spans
        if spans is None:
            return None
        found |= {(segment.id, number): span.end for number, span in spans.items()}
    return found


def basis_of(evidence: Evidence, old: Iterable[int], epoch: int) -> QuietBasis:
    """The strongest basis that this look shows: fences on all old topics, or every registered producer has moved."""
    if set(old) <= evidence.fenced:
        return QuietBasis.FENCE
    producers = evidence.producers()
    silent = any(client.is_producer and client.is_silent for client in evidence.clients)
    is_moved = bool(producers) and all(client.epoch >= epoch for client in producers)
    return QuietBasis.ACKNOWLEDGED if is_moved and not silent else QuietBasis.TIME


def window_s(request: FailoverRequest, basis: QuietBasis, evidence: Evidence) -> float:
    """How long the ends must stay the same: short on a proof, else as long as a producer may keep trying.

    A window of the operator is about producers that nothing is known of: one that is registered, lives and has not
    moved may still write for its delivery timeout.
    """
    if basis is not QuietBasis.TIME:
        return SHORT_WINDOW_S
    if request.quiet_s is not None:
        behind = [each.delivery_timeout_s for each in evidence.producers() if each.epoch < evidence.route.epoch]
        return max(request.quiet_s, max(behind) + SKEW_S) if behind else request.quiet_s
    longest = max((client.delivery_timeout_s for client in evidence.clients if client.is_producer), default=0.0)
    return max(DEFAULT_QUIET_S, longest) + SKEW_S


def quiet_of(watch: QuietWatch | None, fence: FenceKind) -> QuietPeriod | None:
    """The watch as evidence."""
    return None if watch is None else QuietPeriod(basis=watch.basis, seconds=watch.seconds, fence=fence)


MOST_STEPS = 200
"""Reads of one partition before the walk gives up and takes the end itself, which is never too low."""
_ABORT = b"\0\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndWalk:
    """A walk back from `end`: everything from `position` on holds no record for readers.

    `aborted` are producers whose records below are of an aborted transaction. `found` is the effective end once known.
    """

    start: int
    end: int
    position: int
    aborted: frozenset[int] = frozenset()
    step: int = 1
    steps: int = 0
    found: int | None = None

    @classmethod
    def of(cls, start: int, end: int) -> "EndWalk":
        """A walk over a log; an empty one ends where it begins."""
        return cls(start=start, end=end, position=end, found=end if end <= start else None)

    @property
    def offset(self) -> int:
        """Where to read next."""
        return max(self.start, self.position - self.step)

    def after(self, buffer: bytes) -> "EndWalk":
        """Take what a raw read from `offset` returned into account; never raises, for any bytes."""
        walk = replace(self, steps=self.steps + 1)
        if walk.steps > MOST_STEPS:
            return replace(walk, found=self.end)
        batches = [each for each in batches_of(buffer) if isinstance(each, Batch)]
        below = [batch for batch in batches if batch.base_offset < self.position]
        if not below or below[-1].next_offset < self.position:
            # Compaction took batches away, or the answer was cut before the position: begin lower, up to the start.
            at_start = self.offset <= self.start and not below
            return replace(walk, step=self.step * 4, found=self.start if at_start else None)
        for batch in reversed(below):
            walk = _with_batch(walk, buffer, batch)
            if walk.found is not None:
                return walk
        return replace(walk, step=1, found=self.start if walk.position <= self.start else None)


def _with_batch(walk: EndWalk, buffer: bytes, batch: Batch) -> EndWalk:
    aborted, lower = walk.aborted, replace(walk, position=batch.base_offset)
    if batch.is_control:
        is_abort = _is_abort(buffer, batch)
        return replace(lower, aborted=aborted | {batch.producer_id} if is_abort else aborted - {batch.producer_id})
    if batch.is_transactional and batch.producer_id in aborted:
        return lower
    last = _last_record(buffer, batch)
    return lower if last is None else replace(lower, found=max(walk.start, last + 1))


def _is_abort(buffer: bytes, batch: Batch) -> bool:
    marker = next(iter(records_of(buffer, batch)), None)
    return isinstance(marker, LogRecord) and marker.key is not None and marker.key[2:4] == _ABORT


def _last_record(buffer: bytes, batch: Batch) -> int | None:
    """The offset of a batch's last record, its last offset where that cannot be read; None without records."""
    if batch.count == 0:
        return None
    if batch.count == batch.last_offset_delta + 1:
        return batch.next_offset - 1
    last = None
    for record in records_of(buffer, batch):
        if not isinstance(record, LogRecord):
            return batch.next_offset - 1
        last = record.offset
    return last


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateBudget:
    """How many records come a second time to groups that restart from their commits as they stand.

    `most` is None where nothing bounds it: `unbounded` names the groups. What was handled since the last commit, and is
    known to members alone, is not in it: clients commit before they hand partitions over.
    """

    least: int = 0
    most: int | None = 0
    unbounded: tuple[str, ...] = ()

    def problem(self, limit: int | None) -> str:
        """Why the budget is above a limit, empty where it is not, or there is none."""
        if limit is None or (self.most is not None and self.most <= limit):
            return ""
        count = f"at most {self.most:,}" if self.most is not None else "an unknown number of"
        return f"{count} records may come a second time, --max-duplicates is {limit:,}"


def group_facts(segment: Segment, about: GroupDescription, commits: Mapping[TopicPartition, object]) -> GroupStanding:
    """A group's commits and members, as far as the topic of a segment concerns it."""
    own: dict[int, CommittedOffset | ItemError] = {}
    epochs: dict[int, int] = {}
    has_stream_time = False
    for key, commit in commits.items():
        if key.topic != segment.topic or not isinstance(commit, CommittedOffset | ItemError):
            continue
        own[key.partition] = commit
        reading = _read_commit(segment, about.group, key.partition, commit)
        if reading is not None and reading.problem is None:
            has_stream_time |= reading.stream_time_ms is not None
            if reading.state.route is not None and reading.state.route.segment == segment.id:
                epochs[key.partition] = reading.state.route.epoch
    held = (frozenset(k.partition for k in m.partitions if k.topic == segment.topic) for m in about.members)
    return GroupStanding(
        group=about.group,
        type=about.type,
        state=about.state,
        commits=own,
        epochs=epochs,
        held=tuple(held),
        has_stream_time=has_stream_time,
    )


def duplicate_budget(old: Mapping[int, tuple[Segment, TopicStanding]], groups: tuple[str, ...]) -> DuplicateBudget:
    """The budget of groups over old segments, by their commits as they stand."""
    from kafkakit.streams.commits.api import duplicates_of

    least, most, unbounded = 0, 0, set[str]()
    for name, _, facts in _commits_of(old, groups):
        found = None if facts is None else duplicates_of(facts)
        least += 0 if found is None else found.low
        if found is None or found.high is None:
            unbounded.add(name)
        else:
            most += found.high
    return DuplicateBudget(least=least, most=None if unbounded else most, unbounded=tuple(sorted(unbounded)))


def metadata_hazards(
    old: Mapping[int, tuple[Segment, TopicStanding]], groups: tuple[str, ...]
) -> tuple[tuple[str, str, str], ...]:
    """What may go wrong with the commits of groups: group, topic and words, one of each kind with its first place."""
    from kafkakit.streams.commits.api import hazards_of

    found: dict[tuple[str, str, str], list[str]] = {}
    for name, topic, facts in _commits_of(old, groups):
        for hazard in () if facts is None else hazards_of(facts):
            if hazard.severity is not Severity.NOTE and facts is not None and facts.key is not None:
                words = f"partition {facts.key.partition}: {hazard.message}"
                found.setdefault((name, topic, hazard.rule), []).append(words)
    return tuple(
        (name, topic, each[0] if len(each) == 1 else f"{each[0]} ({len(each):,} partitions are like this)")
        for (name, topic, _), each in sorted(found.items())
    )


def _commits_of(
    old: Mapping[int, tuple[Segment, TopicStanding]], groups: tuple[str, ...]
) -> Iterator[tuple[str, str, CommitFacts | None]]:
    """Each commit of groups for old segments, with its topic; None for one that is not known."""
    for segment, facts in old.values():
        for name in groups:
            commits: Commits = facts.groups[name].commits if name in facts.groups else {}
            for number, commit in commits.items():
                reading = _read_commit(segment, name, number, commit)
                if reading is None or isinstance(commit, ItemError):
                    yield name, segment.topic, None
                    continue
                span = facts.spans.get(number)
                yield (
                    name,
                    segment.topic,
                    CommitFacts(
                        offset=commit.offset,
                        metadata=commit.metadata,
                        reading=reading,
                        key=TopicPartition(segment.topic, number),
                        group=name,
                        span=span if isinstance(span, LogSpan) else None,
                    ),
                )


def _read_commit(segment: Segment, group: str, partition: int, commit: CommittedOffset | ItemError) -> Reading | None:
    if isinstance(commit, ItemError):
        return None
    try:
        topic_id = topic_id_bytes(segment.topic_id)
    except UsageError:
        identity = None
    else:
        identity = CommitIdentity(cluster_id=segment.cluster_id, topic_id=topic_id, partition=partition, group=group)
    return read_metadata(commit.metadata, commit.offset, identity)
