"""The changes of the route that an operation makes, from the evidence that led to them."""

from kafkakit.core.errors import RefusedError
from kafkakit.streams.failover.decide.actions import RouteEdit
from kafkakit.streams.failover.decide.evidence import Evidence
from kafkakit.streams.failover.decide.journal import OperationRecord
from kafkakit.streams.failover.decide.operation import Operation, ReadOrder, Step
from kafkakit.streams.model.route import PartitionSeal, Route, Segment, SegmentState
from kafkakit.streams.model.route_edits import (
    at_step,
    ended,
    opened,
    retired,
    routed,
    sealed,
    stranded,
    unopened,
    unsealed,
)

STEP_AFTER = {
    RouteEdit.OPEN: Step.OPENED,
    RouteEdit.ROUTE: Step.ROUTED,
    RouteEdit.STRAND: Step.STRANDED,
    RouteEdit.SEAL: Step.SEALED,
    RouteEdit.UNSEAL: Step.ROUTED,
    RouteEdit.RETIRE: Step.RETIRED,
}


def edited(record: OperationRecord, route: Route, edit: RouteEdit, evidence: Evidence) -> Route:
    """The route after a change; `RefusedError` where it is not in the state that the change is for."""
    operation = record.operation
    old = [segment for _, segment in operation.old_segments(route)]
    route = at_step(route, operation.id, STEP_AFTER[edit])
    match edit:
        case RouteEdit.OPEN:
            return opened(route, targets_of(operation, evidence))
        case RouteEdit.ROUTE:
            return routed(route, [move.lane for move in operation.moves])
        case RouteEdit.STRAND:
            gone = [each.id for each in old if each.id not in evidence.old or not evidence.old[each.id].is_reachable]
            return stranded(route, gone)
        case RouteEdit.SEAL:
            back = stranded(route, [each.id for each in old], is_stranded=False)
            unsealed_yet = [each for each in old if not each.seal]
            return sealed(back, {each.id: _seal(each, evidence) for each in unsealed_yet}, at_ms=evidence.now_ms)
        case RouteEdit.UNSEAL:
            return unsealed(route, [each.id for each in old])
        case RouteEdit.RETIRE:
            return ended(retired(route, [each.id for each in old]), operation.id)


def withdrawn(operation: Operation, route: Route) -> Route:
    """The route without the operation and what it opened; refused once producers were sent to the target."""
    targets = {lane.name: target for lane in route.lanes if (target := operation.target_in(lane)) is not None}
    active = [name for name, target in targets.items() if target.state is not SegmentState.OPENED]
    if active:
        raise RefusedError(
            f"operation {operation.id} has sent producers to its target, and cannot be aborted",
            hint="a failover back to the old cluster is an operation of its own",
        )
    return ended(unopened(at_step(route, operation.id, Step.ABORTED), targets), operation.id)


def targets_of(operation: Operation, evidence: Evidence) -> dict[str, Segment]:
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
