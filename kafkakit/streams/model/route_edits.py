"""Changes of a route as pure functions; each raises `UsageError` or `RefusedError` for what the route does not allow.

Lanes, topics and quotas do not change while an operation is open (`RefusedError`): then the operation alone moves the
route through its steps, by opening, routing, stranding, sealing and retiring segments.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from kafkakit.core.errors import RefusedError, UsageError
from kafkakit.core.text import shell_command
from kafkakit.streams.model.commit import is_other_topic
from kafkakit.streams.model.route import (
    LIVE,
    ROUTE_LIMIT_BYTES,
    Lane,
    PartitionSeal,
    Route,
    RouteOperation,
    Segment,
    SegmentState,
    encode_route,
)


def new_route(stream: str, segments: Sequence[tuple[str, Segment]]) -> Route:
    """The first route of a stream, with a lane for each segment; ids of segments are given here."""
    lanes = tuple(
        Lane(name=name, segments=(replace(segment, id=number),)) for number, (name, segment) in enumerate(segments, 1)
    )
    return Route(stream=stream, epoch=1, next_segment=len(lanes) + 1, lanes=lanes)


def with_lane(route: Route, name: str, segment: Segment, weight: int = 1) -> Route:
    """The route with one lane more."""
    refuse_open_operation(route)
    refuse_known_lane(route, name)
    lane = Lane(name=name, segments=(replace(segment, id=route.next_segment),), weight=weight)
    return replace(route, lanes=(*route.lanes, lane), next_segment=route.next_segment + 1)


def refuse_known_lane(route: Route, name: str) -> None:
    """Raise `UsageError` where the stream has the lane already."""
    if route.lane(name) is not None:
        raise UsageError(f"stream {route.stream} has a lane {name} already")


def with_topic(stream: str, route: Route | None, name: str, segment: Segment) -> Route:
    """The route with an existing topic: it becomes a lane of its own, or the next segment of a lane.

    Without a route it is the first one of a new stream. A segment beside an active one is opened: consumers read it,
    and nothing is written to it yet. One that has the name of another segment's topic on its cluster, and another id,
    was created after that topic had been deleted, and takes its place; the other one is left, so that consumers know
    its commits.
    """
    if route is None:
        if name != LIVE:
            raise UsageError(f"stream {stream} does not exist, and its first lane must be {LIVE}")
        return new_route(stream, [(name, segment)])
    refuse_open_operation(route)
    lane = route.lane(name)
    if lane is None:
        return with_lane(route, name, segment)
    gone = replaced_segment(route, name, segment)
    kept = tuple(each for each in lane.segments if each is not gone)
    has_active = any(each.state is SegmentState.ACTIVE for each in kept)
    state = SegmentState.OPENED if has_active else SegmentState.ACTIVE
    added = replace(segment, id=route.next_segment, state=state)
    left = lane.left if gone is None else (*lane.left, replace(gone, state=SegmentState.DRAINING))
    changed = replace(route, next_segment=route.next_segment + 1)
    return with_changed(changed, replace(lane, segments=(*kept, added), left=left))


def replaced_segment(route: Route, name: str, segment: Segment) -> Segment | None:
    """The segment of a lane whose topic was deleted, since this one has its name on its cluster and another id."""
    lane = route.lane(name)
    return next(
        (
            each
            for each in (() if lane is None else lane.segments)
            if (each.cluster_id, each.topic) == (segment.cluster_id, segment.topic)
            and is_other_topic(each.topic_id, segment.topic_id)
        ),
        None,
    )


def without_lane(route: Route, name: str) -> Route:
    """The route without a lane; rules must not name it, and records without a rule need the lane `live`."""
    refuse_open_operation(route)
    lane = existing_lane(route, name)
    if any(rule.lane == name for rule in route.rules):
        raise RefusedError(f"a rule of stream {route.stream} sends records to lane {name}")
    if name == LIVE or len(route.lanes) == 1:
        raise RefusedError(f"lane {name} takes the records that no rule sends elsewhere", hint="pause it instead")
    return replace(route, lanes=tuple(each for each in route.lanes if each is not lane))


def pause_lane(route: Route, name: str, *, is_paused: bool) -> Route:
    """The route with a lane paused or resumed; the same where it is so already."""
    refuse_open_operation(route)
    lane = existing_lane(route, name)
    if not is_paused and lane.active is None:
        raise RefusedError(f"lane {name} has no active segment, so it cannot be resumed")
    return with_changed(route, replace(lane, is_paused=is_paused))


def with_quotas(route: Route, rates: Mapping[str, int | None]) -> Route:
    """The route with the quotas of lanes in bytes/s, None for a lane without one."""
    refuse_open_operation(route)
    for name, rate in rates.items():
        route = with_changed(route, replace(existing_lane(route, name), quota_bytes_per_s=rate))
    return route


def missing_quotas(before: Route | None, after: Route, name: str) -> Iterator[str]:
    """Clusters that a lane with a quota came to, where no quota is set yet, in words."""
    old = None if before is None else before.lane(name)
    if old is not None and old.quota_bytes_per_s is not None:
        known = {segment.cluster_id for segment in old.segments}
        for segment in existing_lane(after, name).segments:
            if segment.cluster_id not in known:
                command = shell_command("streams lane quota", after.stream, name, f"{old.quota_bytes_per_s}B")
                yield f"the quota of lane {name} is not set on cluster {segment.cluster_id} yet; set it with: {command}"


def existing_lane(route: Route, name: str) -> Lane:
    """The lane; `UsageError` that names the lanes for one that the stream does not have."""
    lane = route.lane(name)
    if lane is None:
        known = ", ".join(each.name for each in route.lanes)
        raise UsageError(f"stream {route.stream} has no lane {name[:80]}", hint=f"its lanes are {known}")
    return lane


def refuse_open_operation(route: Route) -> None:
    """Raise `RefusedError` while an operation is open, which names it."""
    found = route.operation
    if found is not None:
        raise RefusedError(
            f"stream {route.stream}: {found.kind} {found.id} is open (step {found.step}), and nothing else changes it",
            hint=f"resume or abort it; it is shown by: {shell_command('streams failover status', route.stream)}",
        )


def with_changed(route: Route, changed: Lane) -> Route:
    """The route with another version of one lane."""
    return replace(route, lanes=tuple(changed if lane.name == changed.name else lane for lane in route.lanes))


SEAL_BYTES = 56
"""At most, of one partition in a document: four numbers, the offsets below 10^15."""


def begin_operation(route: Route, operation: RouteOperation) -> Route:
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


def end_operation(route: Route, operation_id: str) -> Route:
    """The route without the operation; refused where another one is open."""
    if route.operation is None:
        return route
    return replace(at_step(route, operation_id, route.operation.step), operation=None)


def open_segments(route: Route, segments: Mapping[str, Segment]) -> Route:
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


def drop_opened(route: Route, segments: Mapping[str, Segment]) -> Route:
    """The route without the segments that `open_segments` added, which were never written; ids are not used again."""
    for name, segment in segments.items():
        lane = existing_lane(route, name)
        route = with_changed(
            route, replace(lane, segments=tuple(s for s in lane.segments if not _is_opened_as(segment, s)))
        )
    return route


def route_lanes(route: Route, lanes: Collection[str]) -> Route:
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


def strand_segments(route: Route, segments: Collection[int], *, is_stranded: bool = True) -> Route:
    """The route with draining segments marked as out of reach, or as within reach again."""
    state = SegmentState.STRANDED if is_stranded else SegmentState.DRAINING
    return _with_segments(route, {each.id: replace(each, state=state) for each in _draining_segments(route, segments)})


def seal_segments(route: Route, seals: Mapping[int, tuple[PartitionSeal, ...]], *, at_ms: int) -> Route:
    """The route with the ends of segments that are written no more, by segment id; a seal that is there never changes.

    `at_ms` is when the ends were read.
    """
    changed = {}
    for segment in _draining_segments(route, seals):
        seal = seals[segment.id]
        if segment.seal and segment.seal != seal:
            raise RefusedError(f"stream {route.stream}: segment {segment.id} is sealed already, with other ends")
        if not segment.seal:
            changed[segment.id] = replace(segment, seal=seal, sealed_at_ms=at_ms)
    return _with_segments(route, changed)


def unseal_segments(route: Route, segments: Collection[int]) -> Route:
    """The route without the seals of segments that grew after them."""
    found = _draining_segments(route, segments)
    return _with_segments(route, {each.id: replace(each, seal=(), sealed_at_ms=0) for each in found})


def retire_segments(route: Route, segments: Collection[int], left: Collection[int] = ()) -> Route:
    """The route without these segments, which are sealed; consumers stop reading them. Those that are gone are gone.

    Those of them in `left` stay with their lanes for what references lead to, and no client reads them.
    """
    there = {each.id for _, each in route.segments()} & set(segments)
    for segment in _draining_segments(route, there):
        if not segment.seal:
            raise RefusedError(f"stream {route.stream}: segment {segment.id} is not sealed")
    lanes = (
        replace(
            lane,
            segments=tuple(s for s in lane.segments if s.id not in there),
            left=(*lane.left, *(s for s in lane.segments if s.id in there and s.id in left)),
        )
        for lane in route.lanes
    )
    return replace(route, lanes=tuple(lanes))


def release_segments(route: Route, segments: Collection[int]) -> Route:
    """The route in which nothing is held up by these segments, which stay, sealed and read to their ends or not."""
    lanes = (
        replace(lane, segments=tuple(replace(s, is_held=False) for s in lane.segments))
        if any(s.id in segments for s in lane.segments)
        else lane
        for lane in route.lanes
    )
    return replace(route, lanes=tuple(lanes))


def given_up(route: Route, segments: Collection[int]) -> Route:
    """The route without sealed segments that a finished operation left in it; refused while an operation is open."""
    there = {each.id for _, each in (*route.segments(), *route.left())} & set(segments)
    if there:
        refuse_open_operation(route)
        kept = {each.id for _, each in route.left()}
        route = retire_segments(route, there - kept)
    lanes = (replace(lane, left=tuple(s for s in lane.left if s.id not in there)) for lane in route.lanes)
    return replace(route, lanes=tuple(lanes))


def _draining_segments(route: Route, segments: Collection[int]) -> list[Segment]:
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
