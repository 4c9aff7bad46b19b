"""Where an operation stands, by its route: live state decides, the journal only says how an operation ended."""

from collections.abc import Iterable

from kafkakit.core.errors import UsageError
from kafkakit.streams.failover.decide.journal import OperationRecord
from kafkakit.streams.failover.decide.operation import Operation, Step
from kafkakit.streams.model.route import Route, SegmentState


def standing(operation: Operation, route: Route) -> Step | None:
    """Where an operation stands by its route alone; None where the route is of another operation, or of none.

    A route that fits no state of the operation is refused with `UsageError`: then another tool changed it.
    """
    if route.operation is None or route.operation.id != operation.id:
        return None
    lanes = [lane for lane in route.lanes if operation.move_of(lane.name) is not None]
    targets = [operation.target_in(lane) for lane in lanes]
    states = {None if target is None else target.state for target in targets}
    if len(lanes) == len(operation.moves) and len(states) == 1:
        old = [segment for _, segment in operation.old_segments(route)]
        if states == {None}:
            return Step.PLANNED
        if states == {SegmentState.OPENED}:
            return Step.OPENED
        if states == {SegmentState.ACTIVE} and old:
            if all(segment.seal for segment in old):
                return Step.SEALED
            is_stranded = any(segment.state is SegmentState.STRANDED for segment in old)
            return Step.STRANDED if is_stranded else Step.ROUTED
    raise UsageError(
        f"the route of stream {route.stream} is in no state of operation {operation.id}",
        hint="kafkakit streams history names the change; nothing is done until the route is put right",
    )


def routed_at(operation: Operation, routes: Iterable[Route]) -> int | None:
    """The first epoch in which an operation's targets were active, from the routes that came into effect."""
    for route in sorted(routes, key=lambda each: each.epoch):
        targets = [operation.target_in(lane) for lane in route.lanes if operation.move_of(lane.name) is not None]
        if targets and all(each is not None and each.state is SegmentState.ACTIVE for each in targets):
            return route.epoch
    return None


def settled(record: OperationRecord, route: Route) -> Step | None:
    """How an operation that the route does not name any more ended; None where its journal says so already, or the
    route is still its own. One that was cut before it began counts as aborted."""
    if record.end is not None or (route.operation is not None and route.operation.id == record.operation.id):
        return None
    if record.reached_ms and record.operation.old_segments(route) and Step.ROUTED in record.reached_ms:
        return Step.SUPERSEDED
    is_active = bool(record.reached_ms) and routed_at(record.operation, [route]) is not None
    return Step.RETIRED if is_active and not record.operation.old_segments(route) else Step.ABORTED
