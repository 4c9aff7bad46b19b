"""What an operation (a failover, a move) does to a route, as pure functions; `RefusedError` for what it may not do.

All but `routed` change nothing when they are called again with their own result, so a step that was cut is taken again.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from kafkakit.core.errors import RefusedError
from kafkakit.streams.model.route import PartitionSeal, Route, RouteOperation, Segment, SegmentState
from kafkakit.streams.model.route_document import ROUTE_LIMIT_BYTES, encode_route
from kafkakit.streams.model.route_edits import existing_lane, refuse_open_operation, with_changed

SEAL_BYTES = 56
"""At most, of one partition in a document: four numbers, the offsets below 10^15."""


def begun(route: Route, operation: RouteOperation) -> Route:
    """The route with an operation open; one that is open under the same id stays as it is."""
    if route.operation is not None and route.operation.id == operation.id:
        return route
    refuse_open_operation(route)
    return replace(route, operation=operation)


def at_step(route: Route, operation_id: str, step: str) -> Route:
    """The route with its operation at another step; refused where this one is not open any more."""
    found = route.operation
    if found is None or found.id != operation_id:
        there = "none is" if found is None else f"{found.id} is"
        raise RefusedError(f"stream {route.stream}: operation {operation_id} is not open, {there}")
    return replace(route, operation=replace(found, step=step))


def ended(route: Route, operation_id: str) -> Route:
    """The route without the operation; refused where another one is open."""
    if route.operation is None:
        return route
    return replace(at_step(route, operation_id, route.operation.step), operation=None)


def opened(route: Route, segments: Mapping[str, Segment]) -> Route:
    """The route with one segment more at the end of each of these lanes, that is read and not written yet.

    Ids are given here. Those before it are held no more: all of them are to be drained. Refused where the seals of what
    is to be drained would not fit into the document.
    """
    for name, segment in segments.items():
        lane = existing_lane(route, name)
        if not any(_is_opened_as(segment, each) for each in lane.segments):
            added = replace(segment, id=route.next_segment, state=SegmentState.OPENED, seal=(), sealed_at_ms=0)
            route = replace(route, next_segment=route.next_segment + 1)
            there = (replace(each, is_held=False) for each in lane.segments)
            route = with_changed(route, replace(lane, segments=(*there, added)))
    moved = [each for name in segments for each in existing_lane(route, name).segments]
    count = sum(each.partitions for each in moved if not each.seal and each.state is not SegmentState.OPENED)
    if len(encode_route(route)) + SEAL_BYTES * count > ROUTE_LIMIT_BYTES:
        raise RefusedError(
            f"stream {route.stream}: the ends of {count:,} partitions do not fit into its route",
            hint="move fewer lanes at a time",
        )
    return route


def unopened(route: Route, segments: Mapping[str, Segment]) -> Route:
    """The route without the segments that `opened` added, which were never written; ids are not used again."""
    for name, segment in segments.items():
        lane = existing_lane(route, name)
        route = with_changed(
            route, replace(lane, segments=tuple(s for s in lane.segments if not _is_opened_as(segment, s)))
        )
    return route


def routed(route: Route, lanes: Collection[str]) -> Route:
    """The route whose lanes are written to their last segments, which were opened; what was active drains."""
    for name in lanes:
        lane = existing_lane(route, name)
        target = lane.segments[-1] if lane.segments else None
        if target is None or target.state is not SegmentState.OPENED:
            raise RefusedError(f"lane {name} of stream {route.stream} has no opened segment at its end")
        active, draining = replace(target, state=SegmentState.ACTIVE), SegmentState.DRAINING
        old = (replace(s, state=draining) if s is lane.active else s for s in lane.segments[:-1])
        route = with_changed(route, replace(lane, segments=(*old, active)))
    return route


def stranded(route: Route, segments: Collection[int], *, is_stranded: bool = True) -> Route:
    """The route with draining segments marked as out of reach, or as within reach again."""
    state = SegmentState.STRANDED if is_stranded else SegmentState.DRAINING
    return _with_segments(route, {each.id: replace(each, state=state) for each in _draining(route, segments)})


def sealed(route: Route, seals: Mapping[int, tuple[PartitionSeal, ...]], *, at_ms: int) -> Route:
    """The route with the ends of segments that are written no more, by segment id; a seal that is there never changes.

    `at_ms` is when the ends were read.
    """
    changed = {}
    for segment in _draining(route, seals):
        seal = seals[segment.id]
        if segment.seal and segment.seal != seal:
            raise RefusedError(f"stream {route.stream}: segment {segment.id} is sealed already, with other ends")
        if not segment.seal:
            changed[segment.id] = replace(segment, seal=seal, sealed_at_ms=at_ms)
    return _with_segments(route, changed)


def unsealed(route: Route, segments: Collection[int]) -> Route:
    """The route without the seals of segments that grew after them."""
    found = _draining(route, segments)
    return _with_segments(route, {each.id: replace(each, seal=(), sealed_at_ms=0) for each in found})


def retired(route: Route, segments: Collection[int]) -> Route:
    """The route without these segments, which are sealed; consumers stop reading them. Those that are gone are gone."""
    there = {each.id for _, each in route.segments()} & set(segments)
    for segment in _draining(route, there):
        if not segment.seal:
            raise RefusedError(f"stream {route.stream}: segment {segment.id} is not sealed")
    lanes = (replace(lane, segments=tuple(s for s in lane.segments if s.id not in there)) for lane in route.lanes)
    return replace(route, lanes=tuple(lanes))


def _draining(route: Route, segments: Collection[int]) -> list[Segment]:
    """These segments; refused for one that is not there, or is not draining."""
    found = {each.id: each for _, each in route.segments()}
    for number in segments:
        state = found[number].state if number in found else None
        if state not in (SegmentState.DRAINING, SegmentState.STRANDED):
            raise RefusedError(f"stream {route.stream}: segment {number} is {state or 'not there'}, and not draining")
    return [found[number] for number in sorted(segments)]


def _with_segments(route: Route, changed: Mapping[int, Segment]) -> Route:
    lanes = (replace(lane, segments=tuple(changed.get(s.id, s) for s in lane.segments)) for lane in route.lanes)
    return replace(route, lanes=tuple(lanes))


def _is_opened_as(wanted: Segment, found: Segment) -> bool:
    is_same = (wanted.cluster_id, wanted.topic_id) == (found.cluster_id, found.topic_id)
    return is_same and found.state is SegmentState.OPENED
