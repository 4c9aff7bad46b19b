"""What to do next with an operation: one pure function of the operation and of what one look found.

The order of its questions is the order of the states. It never concludes anything from what it could not read: then it
waits. Every action can be repeated: after a crash the same look leads to the same action.

From routed to sealed come fences, transactions, and the window in which the ends of old topics stay the same. Changes
of the route follow from the evidence that led to them.
"""

from collections.abc import Iterable, Iterator

from kafkakit.core.cluster_facts import GroupState
from kafkakit.core.errors import RefusedError
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import count_of
from kafkakit.streams.failover.decide.drain_proof import (
    AckKind,
    Item,
    MissingItem,
    ack_of,
    late_partitions,
    letters_left,
    missing_items,
    waiting_producers,
)
from kafkakit.streams.failover.decide.evidence import Evidence, QuietBasis, TopicStanding, window_s
from kafkakit.streams.failover.decide.history import end_by_route
from kafkakit.streams.failover.decide.operation import (
    Action,
    Certify,
    ChangeRoute,
    CopyLetters,
    CreateTopics,
    Failover,
    FenceChoice,
    FenceKind,
    FinishedOperation,
    LaneMove,
    LowerFence,
    OperationRecord,
    RaiseFence,
    ReadOrder,
    Refuse,
    ReportLate,
    RouteEdit,
    SeedGroups,
    Step,
    Wait,
    step_by_route,
)
from kafkakit.streams.failover.decide.plan import choose_fence, differing_configs, judge_fences
from kafkakit.streams.model.route import DLQ, PartitionSeal, Route, Segment, SegmentState
from kafkakit.streams.model.route_edits import (
    at_step,
    drop_opened,
    end_operation,
    open_segments,
    release_segments,
    retire_segments,
    route_lanes,
    seal_segments,
    strand_segments,
    unseal_segments,
)


def next_step(record: OperationRecord, evidence: Evidence, until: Step = Step.RETIRED) -> Action:
    """The next action of an operation, whose id the route must have."""
    step = step_by_route(record.operation, evidence.route)
    match step:
        case None:
            return FinishedOperation(step=record.end or end_by_route(record, evidence.route) or Step.ABORTED)
        case Step.PLANNED:
            return _prepare(record, evidence) or ChangeRoute(edit=RouteEdit.OPEN)
        case Step.OPENED if Step.ROUTED in record.reached_ms:
            # The store lost its newest write: producers may be at the target, which is where they are sent again.
            return ChangeRoute(edit=RouteEdit.ROUTE)
        case Step.OPENED:
            return _switch(record, evidence)
        case Step.ROUTED | Step.STRANDED if until is Step.ROUTED:
            return strand(record, evidence) or FinishedOperation(step=step)
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
            problems = tuple(_why_unlike(move, facts, record.topic_ids.get(move.lane)))
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
        for group, missing in _unseeded_groups(record.operation.begins_in(move.lane), evidence.targets[move.lane]):
            if not _starts_itself(group, evidence.targets[move.lane], evidence):
                seeds.setdefault(group, {}).update(
                    {TopicPartition(move.topic, number): offset for number, offset in missing.items()}
                )
    return SeedGroups(offsets=seeds) if seeds else None


def _why_unlike(move: LaneMove, facts: TopicStanding, recorded: str | None) -> Iterator[str]:
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
        yield f"topic {move.topic} is not empty: {count_of(facts.records, 'record')}"


def _unseeded_groups(groups: Iterable[str], facts: TopicStanding) -> Iterator[tuple[str, dict[int, int]]]:
    """The groups with the starts of the partitions for which they have no offset."""
    for name in groups:
        commits = facts.groups[name].commits if name in facts.groups else {}
        missing = {n: span.start for n, span in (facts.whole_spans or {}).items() if n not in commits}
        if missing:
            yield name, missing


def _starts_itself(group: str, facts: TopicStanding, evidence: Evidence) -> bool:
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
        for partition, more in late_partitions(segment, evidence.old.get(segment.id, TopicStanding()))
    )
    if grown:
        return ReportLate(grown=grown)
    missing = missing_items(record, evidence)
    if missing:
        return _copy_of(record, evidence, missing) or _wait_for(missing)
    if not record.certificate or record.certified_epoch != evidence.route.epoch:
        return Certify()
    if until in (Step.SEALED, Step.DRAINED):
        return FinishedOperation(step=Step.DRAINED)
    if evidence.unknown_groups is None:
        return Wait(reason=Item.UNKNOWN, lines=("the groups of the old clusters could not be listed",))
    if evidence.unknown_groups:
        names = ", ".join(evidence.unknown_groups[:20])
        lines = (
            f"groups that the operation does not wait for committed for old topics: {names}",
            "name each with --require-group, to wait for it, or --ignore-group",
        )
        return Refuse(reason=Item.UNKNOWN_GROUPS, lines=lines)
    # A quota is on the lane's producers, wherever they write on that cluster: it must not outlive the operation.
    quotas = {fence.segment for fence in record.fences if fence.kind is FenceKind.QUOTA}
    for _, segment in record.operation.old_segments(evidence.route):
        if segment.id in quotas:
            return LowerFence(segment=segment, transactions=())
    return ChangeRoute(edit=RouteEdit.RETIRE, left=letters_left(record, evidence))


def _copy_of(record: OperationRecord, evidence: Evidence, missing: tuple[MissingItem, ...]) -> Action | None:
    """Copy dead letters once nothing else is missing; None where something is, or they have no place to go."""
    lane = evidence.route.lane(DLQ)
    if lane is None or lane.active is None or any(each.item not in (Item.LETTERS, Item.REJECTS) for each in missing):
        return None
    segments = {each.segment for each in missing if each.item is Item.LETTERS}
    return CopyLetters(
        segments=tuple(s for _, s in record.operation.old_segments(evidence.route) if s.id in segments),
        references=any(each.item is Item.REJECTS for each in missing),
    )


def _wait_for(missing: tuple[MissingItem, ...]) -> Action:
    lost = [each for each in missing if each.item is Item.LOST]
    if lost and all(each.item is Item.LOST for each in missing):
        return Refuse(reason=Item.LOST, lines=tuple(each.text for each in lost))
    return Wait(
        reason=missing[0].item,
        lines=tuple(each.text for each in missing),
        records=sum(each.records for each in missing if each.item is Item.BACKLOG),
    )


FENCE_AFTER_S = 5.0
"""How long registered producers have to move before an automatic fence goes up, which fails their sends."""


def strand(record: OperationRecord, evidence: Evidence) -> Action | None:
    """Mark what cannot be reached, in an emergency; None: there is nothing to mark."""
    gone = [segment for _, segment in record.operation.old_segments(evidence.route) if _is_away(segment, evidence)]
    if record.request.is_emergency and any(segment.state is not SegmentState.STRANDED for segment in gone):
        return ChangeRoute(edit=RouteEdit.STRAND)
    return None


def quiesce(record: OperationRecord, evidence: Evidence) -> Action:
    """Old topics until they can be sealed."""
    old = [segment for _, segment in record.operation.old_segments(evidence.route)]
    away = [segment for segment in old if _is_away(segment, evidence)]
    if away:
        lines = tuple(f"{each.topic}: {_problem(each, evidence)}" for each in away)
        reason = "stranded" if record.request.is_emergency else "source-unreachable"
        lines = (*lines, "producers have moved; the old topics are sealed and drained once their cluster answers")
        return strand(record, evidence) or Wait(reason=reason, lines=lines)
    differing = refuse_others(record, evidence)
    if differing is not None:
        return differing
    fence = _fence(record, evidence, old)
    if fence is not None:
        return fence
    open_in = [each.topic for each in old if _has_open(evidence.old[each.id])]
    if open_in:
        return Wait(reason=Item.TRANSACTIONS, lines=tuple(f"{topic}: a transaction is open" for topic in open_in))
    quiet = evidence.quiet
    if quiet is None:
        return Wait(reason="quiet", lines=("not every end of an old log could be read",))
    wanted = window_s(record.request, QuietBasis(quiet.basis), evidence)
    if quiet.seconds < wanted:
        behind = waiting_producers(evidence, record.routed_epoch or evidence.route.epoch)
        words = f"the ends of old logs must stay the same for {wanted:g} s (basis: {quiet.basis})"
        moving = tuple(f"producer {each} has not moved yet" for each in behind[:5])
        return Wait(reason="quiet", lines=(words, *moving), seconds=wanted - quiet.seconds)
    if any(len(evidence.old[each.id].effective) < each.partitions for each in old):
        return Wait(reason="effective-ends", lines=("the last records of old logs could not be found yet",))
    return ChangeRoute(edit=RouteEdit.SEAL)


def refuse_others(record: OperationRecord, evidence: Evidence) -> Refuse | None:
    """Refuse where a cluster that answers is another one, or has another topic under the name; None: all are meant."""
    found = ((segment, evidence.old.get(segment.id)) for _, segment in record.operation.old_segments(evidence.route))
    lines = tuple(
        f"{segment.topic}: {facts.problem}"
        for segment, facts in found
        if facts is not None and facts.is_reachable and facts.problem
    )
    return Refuse(reason="source-differs", lines=lines) if lines else None


def _fence(record: OperationRecord, evidence: Evidence, old: list[Segment]) -> Action | None:
    """Raise a fence where one is wanted and can be used; take one away that holds up a transaction."""
    choice, epoch = record.request.fence, record.routed_epoch or evidence.route.epoch
    for segment in old:
        writers = evidence.writers.get(segment.id)
        if writers is None or choice is FenceChoice.NONE or evidence.old[segment.id].is_gone:
            continue
        if writers.problem and choice is not FenceChoice.AUTO:
            return Wait(reason="fence-unknown", lines=(f"{segment.topic}: {writers.problem}",))
        raised = [each.kind for each in record.fences if each.segment == segment.id]
        if FenceKind.CONFIG in raised and writers.open_transactions:
            return LowerFence(segment=segment, transactions=writers.open_transactions)
        is_early = waiting_producers(evidence, epoch) and evidence.routed_for_s < FENCE_AFTER_S
        if segment.id in evidence.fenced | evidence.delayed or (choice is FenceChoice.AUTO and is_early):
            continue
        verdicts = judge_fences(record.operation, segment, evidence.old[segment.id], writers)
        kind = raised[0] if raised else choose_fence(choice, verdicts)
        if kind is not FenceKind.NONE:
            return RaiseFence(segment=segment, kind=kind)
    return None


def _is_away(segment: Segment, evidence: Evidence) -> bool:
    facts = evidence.old.get(segment.id)
    return facts is None or not facts.is_reachable


def _problem(segment: Segment, evidence: Evidence) -> str:
    facts = evidence.old.get(segment.id)
    return "it was not looked at" if facts is None else facts.problem


def _has_open(facts: TopicStanding) -> bool:
    return any(span.stable < span.end for span in (facts.whole_spans or {}).values())


STEP_AFTER = {
    RouteEdit.OPEN: Step.OPENED,
    RouteEdit.ROUTE: Step.ROUTED,
    RouteEdit.STRAND: Step.STRANDED,
    RouteEdit.SEAL: Step.SEALED,
    RouteEdit.UNSEAL: Step.ROUTED,
    RouteEdit.RETIRE: Step.RETIRED,
}


def apply_edit(record: OperationRecord, route: Route, edit: RouteEdit, evidence: Evidence) -> Route:
    """The route after a change; `RefusedError` where it is not in the state that the change is for."""
    operation = record.operation
    old = [segment for _, segment in operation.old_segments(route)]
    route = at_step(route, operation.id, STEP_AFTER[edit])
    match edit:
        case RouteEdit.OPEN:
            return open_segments(route, targets_of(operation, evidence))
        case RouteEdit.ROUTE:
            return route_lanes(route, [move.lane for move in operation.moves])
        case RouteEdit.STRAND:
            gone = [each.id for each in old if each.id not in evidence.old or not evidence.old[each.id].is_reachable]
            return strand_segments(route, gone)
        case RouteEdit.SEAL:
            back = strand_segments(route, [each.id for each in old], is_stranded=False)
            unsealed_yet = [each for each in old if not each.seal]
            return seal_segments(back, {each.id: _seal(each, evidence) for each in unsealed_yet}, at_ms=evidence.now_ms)
        case RouteEdit.UNSEAL:
            return unseal_segments(route, [each.id for each in old])
        case RouteEdit.RETIRE:
            left = letters_left(record, evidence)
            # The topic of dead letters stays what it is to groups that read it; others are read no more.
            stay = {each.id for each in old if each.id in left and operation.lane_of(each.id) == DLQ}
            return end_operation(
                retire_segments(release_segments(route, stay), {each.id for each in old} - stay, left), operation.id
            )


def withdraw_operation(operation: Failover, route: Route) -> Route:
    """The route without the operation and what it opened; refused once producers were sent to the target."""
    targets = {lane.name: target for lane in route.lanes if (target := operation.target_in(lane)) is not None}
    active = [name for name, target in targets.items() if target.state is not SegmentState.OPENED]
    if active:
        raise RefusedError(
            f"operation {operation.id} has sent producers to its target, and cannot be aborted",
            hint="a failover back to the old cluster is an operation of its own",
        )
    return end_operation(drop_opened(at_step(route, operation.id, Step.ABORTED), targets), operation.id)


def targets_of(operation: Failover, evidence: Evidence) -> dict[str, Segment]:
    """The segments of the target by lane, as they were found."""
    return {
        move.lane: Segment(
            id=0,
            cluster=operation.request.to,
            cluster_id=operation.cluster_id,
            topic=move.topic,
            topic_id=evidence.targets[move.lane].topic_id or "",
            partitions=move.partitions,
            state=SegmentState.OPENED,
            settings=move.configs,
            is_held=operation.request.order is ReadOrder.STRICT,
        )
        for move in operation.moves
    }


def _seal(segment: Segment, evidence: Evidence) -> tuple[PartitionSeal, ...]:
    facts = evidence.old[segment.id]
    spans = facts.whole_spans
    if spans is None:
        raise RefusedError(f"{segment.topic}: not every end is known")
    return tuple(
        PartitionSeal(partition=n, end=span.end, stable_end=span.stable, effective_end=facts.effective[n])
        for n, span in sorted(spans.items())
    )
