"""How far old segments are drained: the items of the proof, the backlog of groups, and the live view.

For the groups that must read them, all is judged against the seal in the route, which never changes, and what clusters
say now. The backlog is how many offsets groups still have to read, since when, and how long it takes at their pace.
The live view adds traffic by segment and what is waited for; it follows from looks of one watcher: rates are between
the oldest look of the window and the newest one.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kafkakit.core.cluster_facts import CommittedOffset, ItemError, LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import count_of
from kafkakit.streams.failover.decide.evidence import Evidence, GroupStanding, References, TopicStanding, letters_in
from kafkakit.streams.failover.decide.operation import (
    Action,
    DeadLetterChoice,
    Failover,
    FinishedOperation,
    LostRange,
    OldCopies,
    OperationRecord,
    Refuse,
    ReportLate,
    Step,
    Wait,
)
from kafkakit.streams.model.route import DLQ, Route, Segment


class Item(StrEnum):
    """The items of the proof, as reasons that programs read."""

    UNKNOWN = "unknown"
    TRANSACTIONS = "open-transactions"
    BACKLOG = "backlog"
    UNSTABLE = "offsets-in-a-transaction"
    LOST = "lost-records"
    REJECTS = "rejected-references"
    LETTERS = "dead-letters"
    BEHIND = "members-behind"
    UNKNOWN_GROUPS = "unknown-groups"


class AckKind(StrEnum):
    """How a group shows that it reads the new segments."""

    REGISTERED = "registered"
    COMMITS = "commits"
    NO_MEMBERS = "no-members"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingItem:
    """What still stands between an old segment and its retirement; `records` where it can be counted."""

    item: Item
    text: str
    segment: int | None = None
    group: str = ""
    records: int = 0


def late_partitions(
    segment: Segment, facts: TopicStanding, copies: OldCopies | None = None
) -> tuple[tuple[int, int], ...]:
    """Partitions that grew after the seal, with how many offsets; what was not read is no detection.

    What was copied since is not late any more.
    """
    return tuple((number, len(found)) for number, found in late_spans(segment, facts, copies).items())


def late_spans(segment: Segment, facts: TopicStanding, copies: OldCopies | None = None) -> dict[int, range]:
    """What came after the seal and was not copied, by partition; without what is empty."""
    spans, offsets = facts.whole_spans or {}, {} if copies is None else copies.offsets
    found = {
        seal.partition: range(max(seal.end, offsets.get(seal.partition, 0)), spans[seal.partition].end)
        for seal in segment.seal
        if seal.partition in spans
    }
    return {number: late for number, late in found.items() if late}


def recovered_partitions(segment: Segment, copies: OldCopies | None) -> tuple[tuple[int, int], ...]:
    """Partitions of which offsets after the seal were copied, with how many."""
    offsets = {} if copies is None else copies.offsets
    found = ((seal.partition, offsets.get(seal.partition, 0) - seal.end) for seal in segment.seal)
    return tuple((number, more) for number, more in found if more > 0)


def late_words(segment: Segment, partition: int, more: int) -> str:
    """How far a partition grew after its seal, in words."""
    return f"{segment.topic}-{partition}: {count_of(more, 'offset')} after the seal"


def missing_items(record: OperationRecord, evidence: Evidence) -> tuple[MissingItem, ...]:
    """Everything that is missing; nothing: the old segments are drained."""
    found: list[MissingItem] = []
    for _, segment in record.operation.old_segments(evidence.route):
        facts = evidence.old.get(segment.id)
        if facts is None or facts.problem or facts.whole_spans is None:
            why = "it was not looked at" if facts is None else facts.problem or "a leader did not answer"
            found.append(MissingItem(item=Item.UNKNOWN, segment=segment.id, text=f"{segment.topic}: {why}"))
            continue
        found += _of_segment(record, evidence, segment, facts)
    if not any(each.item in (Item.BACKLOG, Item.UNKNOWN) for each in found):  # references are counted in the end
        for _, segment in record.operation.old_segments(evidence.route):
            found += _of_letters(record, evidence, segment)
    lost = sum(each.count for each in record.lost)
    if lost > record.request.accept_loss:
        text = f"deleted before they were read: {count_of(lost, 'offset')}; --accept-loss {lost} continues without them"
        found.append(MissingItem(item=Item.LOST, text=text, records=lost))
    return tuple(found)


def losses(record: OperationRecord, evidence: Evidence) -> tuple[LostRange, ...]:
    """What this look shows as deleted before a group read it, by place."""
    found = []
    for _, segment in record.operation.old_segments(evidence.route):
        facts = evidence.old.get(segment.id)
        spans = None if facts is None else facts.whole_spans
        if facts is None or spans is None:
            continue
        starts = record.operation.starts.get(segment.id, ())
        for name in record.operation.readers_of(segment.id):
            commits = facts.groups[name].commits if name in facts.groups else {}
            for number, span in spans.items():
                commit = commits.get(number)
                if isinstance(commit, ItemError):
                    continue
                first = starts[number] if number < len(starts) else 0
                gap = span.start - (first if commit is None else commit.offset)
                if gap > 0:
                    found.append(LostRange(segment=segment.id, partition=number, group=name, count=gap))
    return tuple(found)


def ack_of(group: str, facts: GroupStanding | None, evidence: Evidence, epoch: int) -> tuple[AckKind, str]:
    """How a group shows that its members act on an epoch, and why it does not yet (empty where it does).

    What its consumers registered counts, or the epoch in their commits, whichever is higher. Members of plain clients
    know no epochs: their commits at the end of the old logs are all that there is.
    """
    behind = [client for client in evidence.consumers(group) if client.epoch < epoch]
    if evidence.consumers(group):
        words = f"group {group}: {count_of(len(behind), 'consumer')} not at epoch {epoch} yet"
        return AckKind.REGISTERED, words if behind and not _commits_reach(facts, epoch) else ""
    holding = [] if facts is None else [held for held in facts.held if held]
    if facts is None or not holding:
        return AckKind.NO_MEMBERS, ""
    if not facts.epochs:
        return AckKind.PLAIN, ""
    slow = sum(max((facts.epochs.get(number, 0) for number in held), default=0) < epoch for held in holding)
    words = f"group {group}: {count_of(slow, 'member')} without a commit at epoch {epoch} or later"
    return AckKind.COMMITS, words if slow else ""


def waiting_producers(evidence: Evidence, epoch: int) -> tuple[str, ...]:
    """The ids of registered producers that have not moved to an epoch."""
    return tuple(client.id for client in evidence.producers() if client.epoch < epoch)


def _of_segment(
    record: OperationRecord, evidence: Evidence, segment: Segment, facts: TopicStanding
) -> Iterator[MissingItem]:
    unstable = [n for n, span in (facts.whole_spans or {}).items() if span.stable < span.end]
    if unstable:
        text = f"{segment.topic}: a transaction is open in partition {', '.join(map(str, sorted(unstable)[:5]))}"
        yield MissingItem(item=Item.TRANSACTIONS, segment=segment.id, text=text)
    for seal in segment.seal:
        end = (facts.whole_spans or {})[seal.partition].end
        if end < seal.end:
            # A new leader may say so for a moment; a log that was truncated, or made again, says so from then on.
            text = f"{segment.topic}-{seal.partition} ends at {end}, before its seal at {seal.end}"
            yield MissingItem(item=Item.UNKNOWN, segment=segment.id, text=text)
    for name in record.operation.readers_of(segment.id):
        group = facts.groups.get(name)
        yield from _of_group(segment, name, group, facts.whole_spans or {})
        _, behind = ack_of(name, group, evidence, record.routed_epoch or evidence.route.epoch)
        if behind:
            yield MissingItem(item=Item.BEHIND, segment=segment.id, group=name, text=behind)


def _of_letters(record: OperationRecord, evidence: Evidence, segment: Segment) -> Iterator[MissingItem]:
    """What of dead letters is not where it is to be: nothing where they stay, if it is known how many there are."""
    if segment.id not in evidence.rejects:
        why = evidence.rejects_problem or "they were not read"
        text = f"{segment.topic}: its rejected records cannot be counted yet: {why}"
        yield MissingItem(item=Item.UNKNOWN, segment=segment.id, text=text)
    if record.request.dead_letters is not DeadLetterChoice.COPY:
        return
    copies = record.copies_of(segment.id)
    references = evidence.rejects.get(segment.id, References()).held - copies.gone
    if references > 0:
        text = f"{segment.topic}: {count_of(references, 'rejected record')} to copy to lane {DLQ}"
        if evidence.route.lane(DLQ) is None:
            text += ", which the stream does not have; --dead-letters leave keeps their topic readable"
        yield MissingItem(item=Item.REJECTS, segment=segment.id, text=text, records=references)
    if record.operation.lane_of(segment.id) == DLQ:
        spans = (evidence.old[segment.id].whole_spans if segment.id in evidence.old else None) or {}
        left = sum(len(span) for span in uncopied_ranges(segment, spans, copies).values())
        if left:
            text = f"{segment.topic}: {count_of(left, 'dead letter')} to copy"
            yield MissingItem(item=Item.LETTERS, segment=segment.id, text=text, records=left)


def uncopied_ranges(segment: Segment, spans: Mapping[int, LogSpan], copies: OldCopies) -> dict[int, range]:
    """What of a sealed segment was not copied yet, by partition."""
    found = {}
    for seal in segment.seal:
        if seal.partition in spans:
            start = max(spans[seal.partition].start, copies.offsets.get(seal.partition, 0))
            found[seal.partition] = range(start, max(start, seal.effective_end))
    return found


def with_references(
    before: OldCopies, topic: str, known: References, lost: Iterable[str], failed: Iterable[str]
) -> OldCopies:
    """What is copied of a segment after its references were followed.

    `lost` and `failed` are places (`TOPIC/PARTITION@OFFSET ...`) of records that are gone, or could not be read.
    """
    mine = [sum(place.startswith(f"{topic}/") for place in places) for places in (lost, failed)]
    gone = max(0, mine[0] - known.gone)
    return replace(before, references=before.references + max(0, known.held - gone - mine[1]), gone=gone)


def letters_left(record: OperationRecord, evidence: Evidence) -> tuple[int, ...]:
    """The old segments that the retirement leaves in the route: they hold dead letters, or references lead to them."""
    if record.request.dead_letters is DeadLetterChoice.COPY:
        return ()
    return tuple(
        segment.id
        for lane, segment in record.operation.old_segments(evidence.route)
        if evidence.rejects.get(segment.id, References()).held
        or (lane.name == DLQ and letters_in(segment, evidence.old.get(segment.id)))
    )


def _of_group(
    segment: Segment, name: str, group: GroupStanding | None, spans: Mapping[int, LogSpan]
) -> Iterator[MissingItem]:
    left, unstable = 0, False
    for seal in segment.seal:
        commit = None if group is None else group.commits.get(seal.partition)
        unstable |= isinstance(commit, ItemError)
        left += left_in(commit, seal.effective_end, spans[seal.partition].start)
    if unstable:
        text = f"{segment.topic}: offsets of group {name} are not known, or in an open transaction"
        yield MissingItem(item=Item.UNSTABLE, segment=segment.id, group=name, text=text)
    if left:
        text = f"{segment.topic}: group {name} has {count_of(left, 'offset')} to read"
        yield MissingItem(item=Item.BACKLOG, segment=segment.id, group=name, text=text, records=left)


def left_in(commit: CommittedOffset | ItemError | None, effective_end: int, start: int) -> int:
    """Offsets between the committed one and the effective end; the pointer alone counts, acks above it do not.

    Without a commit everything in the log is left. 0 for an error: the caller has to count such a group as unstable.
    """
    if isinstance(commit, ItemError):
        return 0
    return max(0, effective_end - (start if commit is None else commit.offset))


def _commits_reach(facts: GroupStanding | None, epoch: int) -> bool:
    """Whether every member has committed at the epoch; for clients whose registration is older than their commits."""
    holding = [] if facts is None else [held for held in facts.held if held]
    epochs = {} if facts is None else facts.epochs
    return bool(holding) and all(max((epochs.get(n, 0) for n in held), default=0) >= epoch for held in holding)


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogRow:
    """What a group still has to read of an old segment; None where it is not known.

    `size_bytes` is its share of one copy, by offsets. `time_lag_s` is the age of the oldest record that is not read,
    `eta_s` how long reading takes at the measured pace, both None unless they were measured.
    """

    group: str
    topic: str
    offsets: int | None
    size_bytes: int | None = None
    time_lag_s: float | None = None
    eta_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPace:
    """Two readings of commits `seconds` apart; `later` has the second one by segment id.

    `first_ms` are the times of the records where groups stand, by segment id, partition and offset.
    """

    seconds: float = 0.0
    later: Mapping[int, TopicStanding] = field(default_factory=dict)
    first_ms: Mapping[tuple[int, int, int], int] = field(default_factory=dict)


def unread_places(groups: Iterable[str], facts: TopicStanding, topic: str) -> frozenset[tuple[TopicPartition, int]]:
    """Where required groups stand that have not read everything."""
    return frozenset(
        (TopicPartition(topic, number), offset) for name in groups for number, offset in _positions(name, facts).items()
    )


def backlog_rows(
    operation: Failover,
    old: Iterable[tuple[Segment, TopicStanding]],
    sizes: Mapping[int, int | None],
    pace: CommitPace,
    now_ms: int,
) -> Iterator[BacklogRow]:
    """A row for each required group and old segment; `sizes` are the bytes of one copy by segment id."""
    for segment, facts in old:
        for name in operation.readers_of(segment.id):
            offsets = _unread_offsets(name, facts)
            held, size = facts.records, sizes.get(segment.id)
            share = None if offsets is None or size is None else size * offsets // held if held else 0
            yield BacklogRow(
                group=name,
                topic=segment.topic,
                offsets=offsets,
                size_bytes=share,
                time_lag_s=_time_lag_s(name, segment, facts, pace, now_ms),
                eta_s=_eta_s(name, offsets, facts, pace.later.get(segment.id), pace.seconds),
            )


def _unread_offsets(group: str, facts: TopicStanding) -> int | None:
    commits = facts.groups[group].commits if group in facts.groups else {}
    spans = facts.whole_spans
    if spans is None or any(isinstance(each, ItemError) for each in commits.values()):
        return None
    return sum(left_in(commits.get(number), span.end, span.start) for number, span in spans.items())


def _positions(group: str, facts: TopicStanding) -> dict[int, int]:
    """The next offset of each partition that a group has not read to its end."""
    commits = facts.groups[group].commits if group in facts.groups else {}
    found: dict[int, int] = {}
    for number, span in (facts.whole_spans or {}).items():
        commit = commits.get(number)
        if not isinstance(commit, ItemError):
            found[number] = max(span.start, span.start if commit is None else commit.offset)
    return {number: offset for number, offset in found.items() if offset < (facts.whole_spans or {})[number].end}


def _time_lag_s(group: str, segment: Segment, facts: TopicStanding, pace: CommitPace, now_ms: int) -> float | None:
    """None unless the record of each place was read; clocks of producers may be ahead, then 0."""
    places = [(segment.id, number, offset) for number, offset in _positions(group, facts).items()]
    if not pace.seconds or facts.whole_spans is None or any(place not in pace.first_ms for place in places):
        return None
    return max(0.0, max((now_ms - pace.first_ms[place] for place in places), default=0) / 1000)


def _eta_s(
    group: str, offsets: int | None, facts: TopicStanding, later: TopicStanding | None, seconds: float
) -> float | None:
    """None where nothing was read between the two readings."""
    if not seconds or later is None or offsets is None:
        return None
    if offsets == 0:
        return 0.0
    before, after = (each.groups[group].commits if group in each.groups else {} for each in (facts, later))
    spans = facts.whole_spans or {}
    moved = 0
    for number, commit in after.items():
        was = before.get(number)
        if isinstance(commit, ItemError) or isinstance(was, ItemError) or number not in spans:
            continue
        moved += max(0, commit.offset - (spans[number].start if was is None else was.offset))
    return round(offsets * seconds / moved, 1) if moved else None


WINDOW_S = 10.0
NO_PROCESS = "held by no process"
ACTION_WORDS = {
    "CreateTopics": "creating the target's topics",
    "SeedGroups": "committing first offsets for groups",
    "ChangeRoute": "changing the route",
    "RaiseFence": "putting up a fence",
    "LowerFence": "taking a fence down",
    "CopyLetters": "copying dead letters",
    "Certify": "writing the certificate",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveLook:
    """One look: the ends of the route's segments, or why they are not known, and what the run would do next.

    `at_s` is by a clock that never goes back. Without a `record` no operation is open.
    """

    at_s: float
    at_ms: int
    route: Route
    record: OperationRecord | None = None
    step: Step | None = None
    evidence: Evidence | None = None
    ends: Mapping[int, int] = field(default_factory=dict)
    problems: Mapping[int, str] = field(default_factory=dict)
    action: Action | None = None
    holder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentTraffic:
    """A segment and what is written to it; None for what is not known (yet)."""

    lane: str
    segment: int
    topic: str
    cluster: str
    state: str
    end: int | None
    records_per_s: float | None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDrain:
    """How far a required group is with an old topic: `left` offsets of `total` that the log holds."""

    group: str
    topic: str
    segment: int
    left: int | None
    total: int | None
    records_per_s: float | None
    eta_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveView:
    """An operation now; without `operation` none is open. `reason` is what is waited for, for programs.

    `eta_s` is the time until the old topics are drained: what is left of the window, and the slowest group.
    """

    stream: str
    at_ms: int
    epoch: int
    operation: str = ""
    to: str = ""
    step: str = ""
    step_s: float | None = None
    reason: str = ""
    lines: tuple[str, ...] = ()
    window_left_s: float | None = None
    traffic: tuple[SegmentTraffic, ...] = ()
    drain: tuple[GroupDrain, ...] = ()
    eta_s: float | None = None
    holder: str = ""

    @property
    def is_idle(self) -> bool:
        """True while no operation is open."""
        return not self.operation


class LiveHistory:
    """The looks of one watcher within the window."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._looks: list[tuple[float, Mapping[int, int], Mapping[tuple[int, str], int]]] = []

    def view(self, look: LiveLook) -> LiveView:
        """The newest look, with rates over the window."""
        left = {key: value for key, (value, _) in _backlog(look).items() if value is not None}
        self._looks.append((look.at_s, look.ends, left))
        while len(self._looks) > 2 and look.at_s - self._looks[1][0] >= self._window_s:
            self._looks.pop(0)
        traffic = tuple(self._traffic(look))
        if look.record is None or look.step is None:
            return LiveView(
                stream=look.route.stream, at_ms=look.at_ms, epoch=look.route.epoch, traffic=traffic, holder=look.holder
            )
        drain = tuple(self._drain(look))
        wait = look.action if isinstance(look.action, Wait) else None
        reached_ms = look.record.reached_ms.get(look.step)
        return LiveView(
            stream=look.route.stream,
            at_ms=look.at_ms,
            epoch=look.route.epoch,
            operation=look.record.operation.id,
            to=look.record.request.to,
            step=look.step,
            step_s=None if reached_ms is None else max(0.0, (look.at_ms - reached_ms) / 1000),
            reason=_reason(look.action),
            lines=_lines(look.action),
            window_left_s=None if wait is None else wait.seconds,
            traffic=traffic,
            drain=drain,
            eta_s=_eta(drain, None if wait is None else wait.seconds, look),
            holder=look.holder,
        )

    def _traffic(self, look: LiveLook) -> Iterator[SegmentTraffic]:
        for lane, segment in look.route.segments():
            yield SegmentTraffic(
                lane=lane.name,
                segment=segment.id,
                topic=segment.topic,
                cluster=segment.cluster,
                state="sealed" if segment.seal else segment.state,
                end=look.ends.get(segment.id),
                records_per_s=self._rate(look.at_s, segment.id),
                problem=look.problems.get(segment.id, ""),
            )

    def _drain(self, look: LiveLook) -> Iterator[GroupDrain]:
        topics = {segment.id: segment.topic for _, segment in look.route.segments()}
        for (number, group), (left, total) in _backlog(look).items():
            rate = self._drain_rate(look.at_s, (number, group))
            eta_s = 0.0 if left == 0 else None if left is None or not rate else left / rate
            yield GroupDrain(
                group=group, topic=topics[number], segment=number, left=left, total=total, records_per_s=rate,
                eta_s=eta_s,
            )  # fmt: skip

    def _rate(self, at_s: float, segment: int) -> float | None:
        """What was written a second; the oldest look that has the segment counts."""
        known = [(seen_s, ends[segment]) for seen_s, ends, _ in self._looks if segment in ends]
        return _per_s(known, at_s, 1)

    def _drain_rate(self, at_s: float, key: tuple[int, str]) -> float | None:
        known = [(seen_s, left[key]) for seen_s, _, left in self._looks if key in left]
        return _per_s(known, at_s, -1)


def _per_s(known: list[tuple[float, int]], at_s: float, sign: int) -> float | None:
    if len(known) < 2 or known[-1][0] != at_s or at_s <= known[0][0]:
        return None
    return max(0.0, sign * (known[-1][1] - known[0][1]) / (at_s - known[0][0]))


def _backlog(look: LiveLook) -> dict[tuple[int, str], tuple[int | None, int | None]]:
    """Offsets that each required group has left in each old segment, and how many the log holds."""
    if look.record is None or look.evidence is None:
        return {}
    found: dict[tuple[int, str], tuple[int | None, int | None]] = {}
    for _, segment in look.record.operation.old_segments(look.route):
        facts = look.evidence.old.get(segment.id)
        for name in look.record.operation.readers_of(segment.id):
            found[segment.id, name] = (None, None) if facts is None else _left_of_segment(segment, facts, name)
    return found


def _left_of_segment(segment: Segment, facts: TopicStanding, group: str) -> tuple[int | None, int | None]:
    spans: Mapping[int, LogSpan] = facts.whole_spans or {}
    commits = facts.groups[group].commits if group in facts.groups else {}
    if not spans or any(isinstance(each, ItemError) for each in commits.values()):
        return None, None
    seals = {seal.partition: seal.effective_end for seal in segment.seal}
    ends = {number: seals.get(number, span.end) for number, span in spans.items()}
    left = sum(left_in(commits.get(number), ends[number], span.start) for number, span in spans.items())
    return left, sum(max(0, ends[number] - span.start) for number, span in spans.items())


def _eta(drain: tuple[GroupDrain, ...], window_left_s: float | None, look: LiveLook) -> float | None:
    """None before producers have moved, and while a group's time is not known."""
    if look.step not in (Step.ROUTED, Step.SEALED, Step.DRAINED) or any(each.eta_s is None for each in drain):
        return None
    if look.step is Step.ROUTED and window_left_s is None:
        return None
    slowest_s = max((each.eta_s for each in drain if each.eta_s is not None), default=0.0)
    # The window and the groups advance side by side.
    return max(window_left_s or 0.0, slowest_s)


def _reason(action: Action | None) -> str:
    if isinstance(action, Wait | Refuse):
        return action.reason
    return "late-writer" if isinstance(action, ReportLate) else ""


def _lines(action: Action | None) -> tuple[str, ...]:
    match action:
        case Wait() | Refuse():
            return action.lines
        case ReportLate():
            return (f"{len(action.grown)} partitions grew after the seal",)
        case None | FinishedOperation():
            return ()
        case _:
            return (ACTION_WORDS[type(action).__name__],)
