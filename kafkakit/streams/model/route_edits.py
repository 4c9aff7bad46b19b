"""Changes of a route as pure functions; each raises `UsageError` for what the route does not allow.

All raise `RefusedError` while an operation is open.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kafkakit.core.errors import RefusedError, UsageError
from kafkakit.streams.model.route import LIVE, Lane, Route, Segment, SegmentState


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
    and nothing is written to it yet.
    """
    if route is None:
        if name != LIVE:
            raise UsageError(f"stream {stream} does not exist, and its first lane must be {LIVE}")
        return new_route(stream, [(name, segment)])
    refuse_open_operation(route)
    lane = route.lane(name)
    if lane is None:
        return with_lane(route, name, segment)
    state = SegmentState.ACTIVE if lane.active is None else SegmentState.OPENED
    added = replace(segment, id=route.next_segment, state=state)
    changed = replace(route, next_segment=route.next_segment + 1)
    return with_changed(changed, replace(lane, segments=(*lane.segments, added)))


def without_lane(route: Route, name: str) -> Route:
    """The route without a lane; rules must not name it, and records without a rule need the lane `live`."""
    refuse_open_operation(route)
    lane = existing_lane(route, name)
    if any(rule.lane == name for rule in route.rules):
        raise RefusedError(f"a rule of stream {route.stream} sends records to lane {name}")
    if name == LIVE or len(route.lanes) == 1:
        raise RefusedError(f"lane {name} takes the records that no rule sends elsewhere", hint="pause it instead")
    return replace(route, lanes=tuple(each for each in route.lanes if each is not lane))


def paused(route: Route, name: str, *, is_paused: bool) -> Route:
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
                command = f"kafkakit streams lane quota {after.stream} {name} {old.quota_bytes_per_s}B"
                yield f"the quota of lane {name} is not set on cluster {segment.cluster_id} yet: {command} sets it"


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
            hint=f"kafkakit streams failover status {route.stream} prints it; resume or abort it",
        )


def with_changed(route: Route, changed: Lane) -> Route:
    """The route with another version of one lane."""
    return replace(route, lanes=tuple(changed if lane.name == changed.name else lane for lane in route.lanes))
