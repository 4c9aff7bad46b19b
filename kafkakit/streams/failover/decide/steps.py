"""What to do next with an operation: one pure function of the operation and of what one look found.

The order of its questions is the order of the states. It never concludes anything from what it could not read: then it
waits. Every action can be repeated: after a crash the same look leads to the same action.
"""

from collections.abc import Iterator

from kafkakit.core.group_facts import GroupState
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import counted
from kafkakit.streams.failover.decide.actions import (
    Action,
    Certify,
    ChangeRoute,
    CreateTopics,
    Finished,
    LowerFence,
    Refuse,
    ReportLate,
    RouteEdit,
    SeedGroups,
    Wait,
)
from kafkakit.streams.failover.decide.drained import (
    AckKind,
    Item,
    Missing,
    ack_of,
    late_partitions,
    missing_items,
)
from kafkakit.streams.failover.decide.evidence import Evidence, TopicFacts
from kafkakit.streams.failover.decide.journal import OperationRecord
from kafkakit.streams.failover.decide.operation import FenceKind, LaneMove, Step
from kafkakit.streams.failover.decide.preconditions import differing_configs
from kafkakit.streams.failover.decide.quiescing import quiesce, refuse_others, strand
from kafkakit.streams.failover.decide.standing import settled, standing


def next_step(record: OperationRecord, evidence: Evidence, until: Step = Step.RETIRED) -> Action:
    """The next action of an operation, whose id the route must have."""
    step = standing(record.operation, evidence.route)
    match step:
        case None:
            return Finished(step=record.end or settled(record, evidence.route) or Step.ABORTED)
        case Step.PLANNED:
            return _prepare(record, evidence) or ChangeRoute(edit=RouteEdit.OPEN)
        case Step.OPENED if Step.ROUTED in record.reached_ms:
            # The store lost its newest write: producers may be at the target, which is where they are sent again.
            return ChangeRoute(edit=RouteEdit.ROUTE)
        case Step.OPENED:
            return _switch(record, evidence)
        case Step.ROUTED | Step.STRANDED if until is Step.ROUTED:
            return strand(record, evidence) or Finished(step=step)
        case Step.ROUTED | Step.STRANDED:
            return quiesce(record, evidence)
        case _:
            return _drain(record, evidence, until)


def _prepare(record: OperationRecord, evidence: Evidence) -> Action | None:
    """The target's topics, then the offsets of the groups in them; None: both are there."""
    refused, absent, seeds = [], [], dict[str, dict[TopicPartition, int]]()
    for move in record.operation.moves:
        facts = evidence.targets.get(move.lane)
        if facts is None or not facts.is_reachable:
            why = "the target was not looked at" if facts is None else facts.problem
            return Wait(reason="target-unreachable", lines=(why,))
        if facts.cluster_id != record.operation.cluster_id:
            refused.append(f"profile {record.request.to} reaches cluster {facts.cluster_id}, not the planned one")
        elif facts.topic_id is None and move.lane not in record.topic_ids:
            absent.append(move)
        else:
            problems = tuple(_unlike(move, facts, record.topic_ids.get(move.lane)))
            refused += problems
            if not problems and facts.whole_spans is None:
                return Wait(reason="target-unreachable", lines=(f"{move.topic}: not every leader answers",))
    if refused:
        return Refuse(reason="target-differs", lines=tuple(refused))
    if absent:
        return CreateTopics(moves=tuple(absent))
    for move in record.operation.moves:
        if move.lane not in record.topic_ids:
            return CreateTopics(moves=record.operation.moves)  # adopts what is there, and records the ids
        for group, missing in _unseeded(record, evidence.targets[move.lane]):
            if not _starts_itself(group, evidence.targets[move.lane], evidence):
                seeds.setdefault(group, {}).update(
                    {TopicPartition(move.topic, number): offset for number, offset in missing.items()}
                )
    return SeedGroups(offsets=seeds) if seeds else None


def _unlike(move: LaneMove, facts: TopicFacts, recorded: str | None) -> Iterator[str]:
    """Why a topic that is there cannot be the target: another id, another shape, or records in it."""
    if recorded is not None and facts.topic_id != recorded:
        found = "it does not exist any more" if facts.topic_id is None else f"its id is {facts.topic_id}"
        yield f"topic {move.topic} is not the one that was created: {found}"
        return
    if facts.partitions != move.partitions:
        yield f"topic {move.topic} has {facts.partitions} partitions, {move.partitions} are planned"
    differing = differing_configs(move, facts)
    if differing:
        yield f"topic {move.topic} has other configurations than planned: {', '.join(differing)}"
    if facts.records:
        yield f"topic {move.topic} is not empty: {counted(facts.records, 'record')}"


def _unseeded(record: OperationRecord, facts: TopicFacts) -> Iterator[tuple[str, dict[int, int]]]:
    """Required groups with the starts of the partitions for which they have no offset."""
    for name in record.operation.groups:
        commits = facts.groups[name].commits if name in facts.groups else {}
        missing = {n: span.start for n, span in (facts.whole_spans or {}).items() if n not in commits}
        if missing:
            yield name, missing


def _starts_itself(group: str, facts: TopicFacts, evidence: Evidence) -> bool:
    """True for a live group of stream clients: only members can commit for it, and they begin at the start of a log."""
    found = facts.groups.get(group)
    is_live = found is not None and found.state not in (GroupState.EMPTY, GroupState.DEAD)
    return is_live and bool(evidence.consumers(group))


def _switch(record: OperationRecord, evidence: Evidence) -> Action:
    """Consumers must read the new segments before producers write to them, except in an emergency."""
    prepared = _prepare(record, evidence) or refuse_others(record, evidence)
    if prepared is not None:
        return prepared
    unready = []
    for name in record.operation.groups:
        known = [facts.groups[name] for facts in evidence.old.values() if name in facts.groups]
        for facts in (*known, *(() if known else (None,))):
            kind, behind = ack_of(name, facts, evidence, evidence.route.epoch)
            # Commits of an old topic need not come before there is something to read: offsets in the target are enough.
            if behind and kind is AckKind.REGISTERED:
                unready.append((name, behind))
                break
    if unready and not record.request.is_emergency:
        return Wait(reason="consumers-behind", lines=tuple(behind for _, behind in unready))
    return ChangeRoute(edit=RouteEdit.ROUTE, unready=tuple(name for name, _ in unready))


def _drain(record: OperationRecord, evidence: Evidence, until: Step) -> Action:
    """Sealed topics until they are drained, certified and out of the route."""
    differing = refuse_others(record, evidence)
    if differing is not None:
        return differing
    grown = tuple(
        (segment.id, partition, more)
        for _, segment in record.operation.old_segments(evidence.route)
        for partition, more in late_partitions(segment, evidence.old.get(segment.id, TopicFacts()))
    )
    if grown:
        return ReportLate(grown=grown)
    missing = missing_items(record, evidence)
    if missing:
        return _wait_for(missing)
    if not record.certificate or record.certified_epoch != evidence.route.epoch:
        return Certify()
    if until in (Step.SEALED, Step.DRAINED):
        return Finished(step=Step.DRAINED)
    if evidence.unknown_groups is None:
        return Wait(reason=Item.UNKNOWN, lines=("the groups of the old clusters could not be listed",))
    if evidence.unknown_groups:
        names = ", ".join(evidence.unknown_groups[:20])
        lines = (
            f"groups that are not part of the operation committed for old topics: {names}",
            "name each with --require-group, to wait for it, or --ignore-group",
        )
        return Refuse(reason=Item.UNKNOWN_GROUPS, lines=lines)
    # A quota is on the lane's producers, wherever they write on that cluster: it must not outlive the operation.
    quotas = {fence.segment for fence in record.fences if fence.kind is FenceKind.QUOTA}
    for _, segment in record.operation.old_segments(evidence.route):
        if segment.id in quotas:
            return LowerFence(segment=segment, transactions=())
    return ChangeRoute(edit=RouteEdit.RETIRE)


def _wait_for(missing: tuple[Missing, ...]) -> Action:
    lost = [each for each in missing if each.item is Item.LOST]
    if lost and all(each.item is Item.LOST for each in missing):
        return Refuse(reason=Item.LOST, lines=tuple(each.text for each in lost))
    return Wait(
        reason=missing[0].item,
        lines=tuple(each.text for each in missing),
        records=sum(each.records for each in missing if each.item is Item.BACKLOG),
    )
