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
    RaiseFence,
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
    waiting_producers,
)
from kafkakit.streams.failover.decide.evidence import Evidence, TopicFacts
from kafkakit.streams.failover.decide.fences import choose_fence, judge_fences
from kafkakit.streams.failover.decide.journal import OperationRecord
from kafkakit.streams.failover.decide.operation import FenceKind, FenceWish, LaneMove, Step
from kafkakit.streams.failover.decide.quiet import Basis, window_s
from kafkakit.streams.failover.decide.standing import settled, standing
from kafkakit.streams.routes.api import Segment, SegmentState

FENCE_AFTER_S = 5.0
"""How long registered producers have to move before an automatic fence goes up, which fails their sends."""


def next_step(record: OperationRecord, evidence: Evidence, until: Step = Step.RETIRED) -> Action:
    """The next action of an operation, whose id the route must have."""
    step = standing(record.operation, evidence.route)
    match step:
        case None:
            return Finished(step=record.end or settled(record, evidence.route) or Step.ABORTED)
        case Step.PLANNED:
            return _prepare(record, evidence) or ChangeRoute(edit=RouteEdit.OPEN)
        case Step.OPENED:
            return _switch(record, evidence)
        case Step.ROUTED | Step.STRANDED if until is Step.ROUTED:
            return _strand(record, evidence) or Finished(step=step)
        case Step.ROUTED | Step.STRANDED:
            return _quiesce(record, evidence, step)
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
    if dict(facts.configs) != dict(move.configs):
        yield f"topic {move.topic} has other configurations than planned"
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
    """True for a live group of stream clients: nobody else can commit for it, and they begin at a log's start."""
    found = facts.groups.get(group)
    is_live = found is not None and found.state not in (GroupState.EMPTY, GroupState.DEAD)
    return is_live and bool(evidence.consumers(group))


def _switch(record: OperationRecord, evidence: Evidence) -> Action:
    """Consumers must read the new segments before producers write to them, except in an emergency."""
    prepared = _prepare(record, evidence)
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


def _strand(record: OperationRecord, evidence: Evidence) -> Action | None:
    gone = [segment for _, segment in record.operation.old_segments(evidence.route) if _is_away(segment, evidence)]
    if record.request.is_emergency and any(segment.state is not SegmentState.STRANDED for segment in gone):
        return ChangeRoute(edit=RouteEdit.STRAND)
    return None


def _quiesce(record: OperationRecord, evidence: Evidence, step: Step) -> Action:
    """Old topics until they can be sealed."""
    old = [segment for _, segment in record.operation.old_segments(evidence.route)]
    away = [segment for segment in old if _is_away(segment, evidence)]
    if away:
        lines = tuple(f"{each.topic}: {_problem(each, evidence)}" for each in away)
        reason = "stranded" if record.request.is_emergency else "source-unreachable"
        return _strand(record, evidence) or Wait(reason=reason, lines=lines)
    problems = tuple(f"{each.topic}: {evidence.old[each.id].problem}" for each in old if evidence.old[each.id].problem)
    if problems:
        return Refuse(reason="source-differs", lines=problems)
    fence = _fence(record, evidence, old)
    if fence is not None:
        return fence
    open_in = [each.topic for each in old if _has_open(evidence.old[each.id])]
    if open_in:
        return Wait(reason=Item.TRANSACTIONS, lines=tuple(f"{topic}: a transaction is open" for topic in open_in))
    quiet = evidence.quiet
    if quiet is None:
        return Wait(reason="quiet", lines=("not every end of an old log could be read",))
    wanted = window_s(record.request, Basis(quiet.basis), evidence)
    if quiet.seconds < wanted:
        behind = waiting_producers(evidence, record.routed_epoch or evidence.route.epoch)
        words = f"the ends of old logs must stay the same for {wanted:g} s (basis: {quiet.basis})"
        moving = tuple(f"producer {each} has not moved yet" for each in behind[:5])
        return Wait(reason="quiet", lines=(words, *moving), seconds=wanted - quiet.seconds)
    if any(len(evidence.old[each.id].effective) < each.partitions for each in old):
        return Wait(reason="effective-ends", lines=("the last records of old logs could not be found yet",))
    return ChangeRoute(edit=RouteEdit.SEAL)


def _fence(record: OperationRecord, evidence: Evidence, old: list[Segment]) -> Action | None:
    """Raise a fence where one is wanted and can be used; take one away that holds up a transaction."""
    wish, epoch = record.request.fence, record.routed_epoch or evidence.route.epoch
    for segment in old:
        writers = evidence.writers.get(segment.id)
        if writers is None or wish is FenceWish.NONE:
            continue
        if writers.problem and wish is not FenceWish.AUTO:
            return Wait(reason="fence-unknown", lines=(f"{segment.topic}: {writers.problem}",))
        raised = [each.kind for each in record.fences if each.segment == segment.id]
        if FenceKind.CONFIG in raised and writers.open_transactions:
            return LowerFence(segment=segment, transactions=writers.open_transactions)
        is_early = waiting_producers(evidence, epoch) and evidence.routed_for_s < FENCE_AFTER_S
        if segment.id in evidence.fenced or (wish is FenceWish.AUTO and is_early):
            continue
        kind = raised[0] if raised else choose_fence(wish, judge_fences(evidence.old[segment.id], writers))
        if kind is not FenceKind.NONE:
            return RaiseFence(segment=segment, kind=kind)
    return None


def _drain(record: OperationRecord, evidence: Evidence, until: Step) -> Action:
    """Sealed topics until they are drained, certified and out of the route."""
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
    if not record.certificate:
        return Certify()
    if until in (Step.SEALED, Step.DRAINED):
        return Finished(step=Step.DRAINED)
    if evidence.unknown_groups is None:
        return Wait(reason=Item.UNKNOWN, lines=("the groups of the old clusters could not be listed",))
    if evidence.unknown_groups:
        names = ", ".join(evidence.unknown_groups[:20])
        lines = (f"groups that are not part of the operation committed for old topics: {names}",)
        return Refuse(reason=Item.UNKNOWN_GROUPS, lines=lines)
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


def _is_away(segment: Segment, evidence: Evidence) -> bool:
    facts = evidence.old.get(segment.id)
    return facts is None or not facts.is_reachable


def _problem(segment: Segment, evidence: Evidence) -> str:
    facts = evidence.old.get(segment.id)
    return "it was not looked at" if facts is None else facts.problem


def _has_open(facts: TopicFacts) -> bool:
    return any(span.stable < span.end for span in (facts.whole_spans or {}).values())
