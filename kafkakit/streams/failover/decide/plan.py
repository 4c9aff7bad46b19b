"""The plan of a failover: a verdict for each precondition, the fences, the window, and the duplicate budget."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kafkakit.core.acls import AclBinding, AclPattern
from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import RefusedError, UsageError
from kafkakit.core.group_facts import GroupType
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.streams.failover.decide.commits import DuplicateBudget, duplicate_budget
from kafkakit.streams.failover.decide.drained import left_in
from kafkakit.streams.failover.decide.evidence import Evidence, TopicFacts, WriterFacts
from kafkakit.streams.failover.decide.fences import FenceVerdict, judge_fences
from kafkakit.streams.failover.decide.operation import FailoverRequest, FenceWish, LaneMove, Operation
from kafkakit.streams.failover.decide.quiet import Basis, window_s
from kafkakit.streams.routes.api import Lane, Route, Segment, SegmentState, topic_name

COMPACT = "compact"
_ON_TARGET = frozenset({"create", "describe"})


class Level(StrEnum):
    """What a verdict means for the plan."""

    OK = "ok"
    WARNING = "warning"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One precondition: `check` names it for programs, `where` is a topic, a group or a cluster."""

    check: str
    level: Level
    where: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPlace:
    """The cluster that is to take the writes. `free_bytes` None: not known. `rights` None: brokers do not say.

    `bindings` are the ACLs that concern each target topic's name, None without an authorizer.
    """

    profile: str
    cluster_id: str
    brokers: int
    free_bytes: int | None = None
    rights: frozenset[str] | None = None
    bindings: Mapping[str, tuple[AclBinding, ...] | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogRow:
    """What a group still has to read of an old segment; None where a commit is not known."""

    group: str
    topic: str
    offsets: int | None
    is_known_type: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverPlan:
    """What would be done and what speaks against it. `fences` are by old segment id, `window_s` by basis."""

    operation: Operation
    verdicts: tuple[Verdict, ...]
    backlog: tuple[BacklogRow, ...] = ()
    fences: Mapping[int, tuple[FenceVerdict, ...]] = field(default_factory=dict)
    windows_s: Mapping[Basis, float] = field(default_factory=dict)
    budget: DuplicateBudget = field(default_factory=DuplicateBudget)

    @property
    def refused(self) -> tuple[Verdict, ...]:
        """The verdicts that keep the operation from being begun."""
        return tuple(verdict for verdict in self.verdicts if verdict.level is Level.REFUSED)


def moves_of(request: FailoverRequest, route: Route, configs: Mapping[str, Mapping[str, str]]) -> tuple[LaneMove, ...]:
    """The lanes that move and the topics that take their writes, of the shape of those that are written now.

    Raises `UsageError` for a lane that the stream does not have, and where no lane is left to move.
    """
    unknown = sorted(set(request.lanes) - {lane.name for lane in route.lanes})
    if unknown:
        raise UsageError(f"stream {route.stream} has no lane {', '.join(unknown)}")
    chosen = [lane for lane in route.lanes if lane.active and (not request.lanes or lane.name in request.lanes)]
    opened = [lane.name for lane in chosen for each in lane.segments if each.state is SegmentState.OPENED]
    if opened:
        raise RefusedError(f"lane {opened[0]} has a segment that is opened already", hint="finish or remove it first")
    if not chosen:
        raise UsageError(f"stream {route.stream} has no active segment that could move")
    return tuple(_move(route, lane, configs.get(lane.name, {})) for lane in chosen)


def required_groups(request: FailoverRequest, route: Route, evidence: Evidence) -> tuple[str, ...]:
    """The groups that must have read the old segments: those of the route, those that are named, those that registered
    or committed for an old topic; without the ignored ones."""
    found = {rule.name for rule in route.groups} | set(request.groups)
    found |= {client.group for client in evidence.clients if not client.is_producer and client.group}
    found |= {name for facts in evidence.old.values() for name in facts.groups}
    return tuple(sorted(found - set(request.ignored)))


def make_plan(
    operation: Operation, evidence: Evidence, place: TargetPlace, sizes: Mapping[int, int | None]
) -> FailoverPlan:
    """Judge every precondition; `sizes` are the bytes of one copy of each old segment."""
    old = {s.id: (s, evidence.old[s.id]) for _, s in operation.old_segments(evidence.route) if s.id in evidence.old}
    budget = duplicate_budget(old, operation.groups)
    request = operation.request
    verdicts = [*_of_target(operation, evidence, place), *_of_topics(operation, evidence)]
    for segment, facts in old.values():
        verdicts += _of_source(operation, segment, facts)
        verdicts += _of_writers(request, segment, facts, evidence.writers.get(segment.id))
    verdicts += _of_groups(operation, old.values())
    verdicts += _of_disk(operation, place, sizes)
    verdicts += _of_rights(operation, evidence, place)
    over = budget.problem(request.max_duplicates)
    if over:
        verdicts.append(Verdict(check="duplicates", level=Level.REFUSED, where=operation.stream, text=over))
    if request.is_emergency:
        text = "consumers are not waited for, and the settings of the old topics are not read: the target's apply"
        verdicts.append(Verdict(check="emergency", level=Level.WARNING, where=operation.stream, text=text))
    return FailoverPlan(
        operation=operation,
        verdicts=tuple(verdicts),
        backlog=tuple(_backlog(operation, old.values())),
        fences={
            number: judge_fences(facts, evidence.writers[number])
            for number, (_, facts) in old.items()
            if number in evidence.writers
        },
        windows_s={basis: window_s(request, basis, evidence) for basis in Basis},
        budget=budget,
    )


def _move(route: Route, lane: Lane, configs: Mapping[str, str]) -> LaneMove:
    assert lane.active is not None
    return LaneMove(
        lane=lane.name,
        sources=tuple(segment.id for segment in lane.segments),
        topic=topic_name(route.stream, lane.name, route.epoch + 1),
        partitions=lane.active.partitions,
        replication=0,
        configs=tuple(sorted(configs.items())),
    )


def _of_target(operation: Operation, evidence: Evidence, place: TargetPlace) -> Iterator[Verdict]:
    homes = {s.cluster_id for _, s in operation.old_segments(evidence.route) if s.state is SegmentState.ACTIVE}
    if operation.cluster_id in homes:
        text = f"profile {place.profile} reaches cluster {place.cluster_id}, where the stream is written already"
        yield Verdict(check="target", level=Level.REFUSED, where=place.profile, text=text)
    else:
        text = f"cluster {place.cluster_id} with {counted(place.brokers, 'live broker')}"
        yield Verdict(check="target", level=Level.OK, where=place.profile, text=text)
    for move in operation.moves:
        if move.replication > place.brokers:
            text = f"{move.topic} needs {move.replication} replicas, {counted(place.brokers, 'broker')} are alive"
            yield Verdict(check="target-size", level=Level.REFUSED, where=place.profile, text=text)


def _of_topics(operation: Operation, evidence: Evidence) -> Iterator[Verdict]:
    for move in operation.moves:
        facts = evidence.targets.get(move.lane)
        if facts is None or facts.topic_id is None:
            continue
        if facts.records or facts.whole_spans is None:
            text = "exists on the target and is not empty" if facts.records else "exists, and its log cannot be read"
            yield Verdict(check="target-empty", level=Level.REFUSED, where=move.topic, text=text)
        elif facts.partitions != move.partitions or dict(facts.configs) != dict(move.configs):
            text = "exists on the target with another shape"
            yield Verdict(check="target-empty", level=Level.REFUSED, where=move.topic, text=text)
        else:
            yield Verdict(check="target-empty", level=Level.OK, where=move.topic, text="exists, is empty, and is taken")


def _of_source(operation: Operation, segment: Segment, facts: TopicFacts) -> Iterator[Verdict]:
    request = operation.request
    if facts.problem:
        level = Level.WARNING if request.is_emergency and not facts.is_reachable else Level.REFUSED
        yield Verdict(check="source", level=level, where=segment.topic, text=facts.problem)
        return
    if COMPACT in facts.configs.get("cleanup.policy", ""):
        text = "it is compacted: that it was read does not mean that it may be deleted"
        level = Level.WARNING if request.allow_compacted else Level.REFUSED
        yield Verdict(check="compacted", level=level, where=segment.topic, text=text)
    if facts.whole_spans is None:
        yield Verdict(check="source", level=Level.REFUSED, where=segment.topic, text="not every leader answers")
    else:
        yield Verdict(check="source", level=Level.OK, where=segment.topic, text=counted(facts.records or 0, "offset"))
    for move in operation.moves:
        if segment.id in move.sources and segment.partitions != move.partitions:
            text = f"{segment.partitions} partitions become {move.partitions}: keys go to other partitions"
            yield Verdict(check="partitions", level=Level.WARNING, where=segment.topic, text=text)


def _of_writers(
    request: FailoverRequest, segment: Segment, facts: TopicFacts, writers: WriterFacts | None
) -> Iterator[Verdict]:
    if writers is None or facts.problem:
        return
    if writers.problem:
        yield Verdict(check="writers", level=Level.WARNING, where=segment.topic, text=writers.problem)
    open_here = any(span.stable < span.end for span in (facts.whole_spans or {}).values())
    if open_here or writers.open_transactions:
        names = ", ".join(writers.open_transactions[:3]) or "unknown producers"
        text = f"transactions are open ({names}): the old topic is sealed when they have ended"
        yield Verdict(check="transactions", level=Level.WARNING, where=segment.topic, text=text)
    if request.fence not in (FenceWish.AUTO, FenceWish.NONE):
        for verdict in judge_fences(facts, writers):
            if verdict.kind.value == request.fence.value and not verdict.is_usable:
                text = f"fence {verdict.kind}: {'; '.join(verdict.reasons)}"
                yield Verdict(check="fence", level=Level.REFUSED, where=segment.topic, text=text)


def _of_groups(operation: Operation, old: Iterable[tuple[Segment, TopicFacts]]) -> Iterator[Verdict]:
    allowed = operation.request.allow_transactions
    for segment, facts in old:
        for name, group in sorted(facts.groups.items()):
            if name not in operation.groups:
                yield Verdict(check="groups", level=Level.WARNING, where=name, text=f"not waited for: {segment.topic}")
                continue
            unstable = any(isinstance(commit, ItemError) for commit in group.commits.values())
            if group.has_stream_time or group.type is GroupType.STREAMS or unstable:
                text = "it commits in transactions, which do not reach across clusters"
                level = Level.WARNING if allowed else Level.REFUSED
                yield Verdict(check="transactional-group", level=level, where=name, text=text)
            elif group.type is GroupType.SHARE:
                text = "a share group has no offsets that could prove anything"
                yield Verdict(check="share-group", level=Level.REFUSED, where=name, text=text)
    if not operation.groups:
        text = "no group is required: the old segments count as drained once they are quiet"
        yield Verdict(check="groups", level=Level.WARNING, where=operation.stream, text=text)


def _of_disk(operation: Operation, place: TargetPlace, sizes: Mapping[int, int | None]) -> Iterator[Verdict]:
    known = [size for number, size in sizes.items() if number in operation.sources and size is not None]
    if place.free_bytes is None or not known:
        yield Verdict(check="disk", level=Level.WARNING, where=place.profile, text="free space or sizes are not known")
        return
    # The new topics grow to what the old ones hold before retention takes as much as comes in.
    needed = sum(known) * max(move.replication for move in operation.moves)
    level = Level.REFUSED if needed > place.free_bytes else Level.OK
    text = f"{format_bytes(needed)} when as full as the old topics, {format_bytes(place.free_bytes)} are free"
    yield Verdict(check="disk", level=level, where=place.profile, text=text)


def _of_rights(operation: Operation, evidence: Evidence, place: TargetPlace) -> Iterator[Verdict]:
    if place.rights is not None and not (place.rights >= _ON_TARGET or "all" in place.rights):
        missing = ", ".join(sorted(_ON_TARGET - place.rights)).upper()
        yield Verdict(check="rights", level=Level.REFUSED, where=place.profile, text=f"the operator lacks {missing}")
    for move in operation.moves:
        there = place.bindings.get(move.topic)
        for number in move.sources:
            writers = evidence.writers.get(number)
            if writers is None or not writers.bindings or there is None:
                continue
            lacking = lacking_bindings(writers.bindings, there)
            if lacking:
                names = ", ".join(sorted({f"{each.principal} {each.operation}" for each in lacking})[:5])
                text = f"lacks ACLs that the old topic has: {names}"
                yield Verdict(check="acls", level=Level.REFUSED, where=move.topic, text=text)


def lacking_bindings(old: Iterable[AclBinding], there: Iterable[AclBinding]) -> tuple[AclBinding, ...]:
    """Bindings of an old topic's name or prefix without a counterpart for the new one; `*` is the cluster's."""
    found = {(each.principal, each.host, each.operation, each.permission) for each in there}
    return tuple(
        each
        for each in old
        if (each.pattern is AclPattern.PREFIXED or each.name != "*")
        and (each.principal, each.host, each.operation, each.permission) not in found
    )


def _backlog(operation: Operation, old: Iterable[tuple[Segment, TopicFacts]]) -> Iterator[BacklogRow]:
    for segment, facts in old:
        for name in operation.groups:
            commits = facts.groups[name].commits if name in facts.groups else {}
            spans = facts.whole_spans
            known = spans is not None and not any(isinstance(each, ItemError) for each in commits.values())
            left = (left_in(commits.get(n), span.end, span.start) for n, span in (spans or {}).items())
            offsets = sum(left) if known else None
            yield BacklogRow(group=name, topic=segment.topic, offsets=offsets)
