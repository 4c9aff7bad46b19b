"""The preconditions of a failover: a verdict for each of them, from what was found."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kafkakit.core.acls import AclBinding, AclPattern
from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.group_facts import GroupType
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.core.rights import lacking
from kafkakit.streams.failover.decide.evidence import Evidence, TopicFacts, WriterFacts
from kafkakit.streams.failover.decide.fences import judge_fences
from kafkakit.streams.failover.decide.operation import DEFAULT_QUIET_S, FenceChoice, LaneMove, Operation, ReadOrder
from kafkakit.streams.model.route import Segment, SegmentState

COMPACT = "compact"


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


def judge_preconditions(
    operation: Operation, evidence: Evidence, place: TargetPlace, sizes: Mapping[int, int | None]
) -> Iterator[Verdict]:
    """A verdict for each precondition; `sizes` are the bytes of one copy of each old segment."""
    old = known_segments(operation, evidence)
    yield from _of_target(operation, evidence, place)
    yield from _of_topics(operation, evidence)
    for segment, facts in old.values():
        yield from _of_source(operation, segment, facts)
        yield from _of_writers(operation, segment, facts, evidence.writers.get(segment.id))
    yield from _of_groups(operation, old.values())
    yield from _of_order(operation, evidence, old.values())
    yield from _of_window(operation)
    yield from _of_disk(operation, place, sizes)
    yield from _of_rights(operation, evidence, place)
    if operation.request.is_emergency:
        text = "consumers are not waited for; the new topics get the settings of the old ones that the route has"
        yield Verdict(check="emergency", level=Level.WARNING, where=operation.stream, text=text)


def known_segments(operation: Operation, evidence: Evidence) -> dict[int, tuple[Segment, TopicFacts]]:
    """The old segments that were looked at, by id."""
    segments = operation.old_segments(evidence.route)
    return {each.id: (each, evidence.old[each.id]) for _, each in segments if each.id in evidence.old}


def _of_target(operation: Operation, evidence: Evidence, place: TargetPlace) -> Iterator[Verdict]:
    homes = {s.cluster_id for _, s in operation.old_segments(evidence.route) if s.state is SegmentState.ACTIVE}
    if operation.request.partitions is not None and homes != {operation.cluster_id}:
        text = f"profile {place.profile} reaches cluster {place.cluster_id}, the lane is written on another one"
        yield Verdict(check="target", level=Level.REFUSED, where=place.profile, text=text)
    elif operation.request.partitions is None and operation.cluster_id in homes:
        text = f"profile {place.profile} reaches cluster {place.cluster_id}, where the stream is written already"
        yield Verdict(check="target", level=Level.REFUSED, where=place.profile, text=text)
    else:
        text = f"cluster {place.cluster_id} with {counted(place.brokers, 'live broker')}"
        yield Verdict(check="target", level=Level.OK, where=place.profile, text=text)
    for move in operation.moves:
        if move.replication > place.brokers:
            text = f"{move.topic} needs {move.replication} replicas, brokers that are alive: {place.brokers}"
            yield Verdict(check="target-size", level=Level.REFUSED, where=place.profile, text=text)


def _of_topics(operation: Operation, evidence: Evidence) -> Iterator[Verdict]:
    for move in operation.moves:
        facts = evidence.targets.get(move.lane)
        if facts is None or facts.topic_id is None:
            continue
        if facts.records or facts.whole_spans is None:
            text = "exists on the target and is not empty" if facts.records else "exists, and its log cannot be read"
            yield Verdict(check="target-empty", level=Level.REFUSED, where=move.topic, text=text)
        elif facts.partitions != move.partitions or differing_configs(move, facts):
            keys = ", ".join(differing_configs(move, facts))
            configs = f", and other configurations: {keys}" if keys else ""
            text = f"exists with {counted(facts.partitions, 'partition')}, {move.partitions} planned{configs}"
            yield Verdict(check="target-empty", level=Level.REFUSED, where=move.topic, text=text)
        else:
            yield Verdict(check="target-empty", level=Level.OK, where=move.topic, text="exists, is empty, and is taken")


def differing_configs(move: LaneMove, facts: TopicFacts) -> tuple[str, ...]:
    """The keys of configurations in which a topic that is there differs from the planned one."""
    wanted = dict(move.configs)
    return tuple(sorted(key for key in {*wanted, *facts.configs} if wanted.get(key) != facts.configs.get(key)))


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
            if request.order is ReadOrder.STRICT:
                yield Verdict(check="partitions", level=Level.OK, where=segment.topic, text=text)
                continue
            text += ", and records of a key are read side by side; --order strict reads the old topic first"
            yield Verdict(check="partitions", level=Level.WARNING, where=segment.topic, text=text)


def _of_writers(
    operation: Operation, segment: Segment, facts: TopicFacts, writers: WriterFacts | None
) -> Iterator[Verdict]:
    request = operation.request
    if writers is None or facts.problem:
        return
    if writers.problem:
        yield Verdict(check="writers", level=Level.WARNING, where=segment.topic, text=writers.problem)
    open_here = any(span.stable < span.end for span in (facts.whole_spans or {}).values())
    if open_here or writers.open_transactions:
        names = ", ".join(writers.open_transactions[:3]) or "unknown producers"
        text = f"transactions are open ({names}): the old topic is sealed when they have ended"
        yield Verdict(check="transactions", level=Level.WARNING, where=segment.topic, text=text)
    if request.fence not in (FenceChoice.AUTO, FenceChoice.NONE):
        for verdict in judge_fences(operation, segment, facts, writers):
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


def _of_order(operation: Operation, evidence: Evidence, old: Iterable[tuple[Segment, TopicFacts]]) -> Iterator[Verdict]:
    """Clients of streams wait with a new topic until the old ones are out of the route, plain clients do not."""
    if operation.request.order is not ReadOrder.STRICT:
        return
    if operation.request.is_emergency:
        text = "--order strict would keep consumers from the new topics while the old cluster is away"
        yield Verdict(check="order", level=Level.REFUSED, where=operation.stream, text=text)
    members = {name for _, facts in old for name, group in facts.groups.items() if any(group.held)}
    for name in operation.groups:
        if evidence.consumers(name):
            text = "its consumers read the new topics once the old ones are retired"
            yield Verdict(check="order", level=Level.OK, where=name, text=text)
        elif name in members:
            text = "its members are plain clients: they would read old and new topics side by side"
            yield Verdict(check="order", level=Level.REFUSED, where=name, text=text)
        else:
            text = "it has no members now: the order is kept where they are clients of streams"
            yield Verdict(check="order", level=Level.WARNING, where=name, text=text)


def _of_window(operation: Operation) -> Iterator[Verdict]:
    quiet_s = operation.request.quiet_s
    if quiet_s is not None and quiet_s < DEFAULT_QUIET_S:
        text = f"--quiet-for {quiet_s:g} s is less than the {DEFAULT_QUIET_S:g} s for which Kafka's producers try by "
        text += "default: without a fence or acknowledgements a record may come after the seal"
        yield Verdict(check="window", level=Level.WARNING, where=operation.stream, text=text)


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
    if lacking({"create"}, place.rights):
        text = "CREATE is not granted on the cluster: it must be on the new topics"
        yield Verdict(check="rights", level=Level.WARNING, where=place.profile, text=text)
    for move in operation.moves:
        there = place.bindings.get(move.topic)
        for number in move.sources:
            writers = evidence.writers.get(number)
            if writers is None or not writers.bindings or there is None:
                continue
            absent = lacking_bindings(writers.bindings, there)
            if absent:
                names = ", ".join(sorted({f"{each.principal} {each.operation}" for each in absent})[:5])
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
