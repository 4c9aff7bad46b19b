"""Targets that a stream itself tells: the cluster that it left, and the one where it is."""

from collections.abc import Collection, Sequence

from kafkakit.core.errors import RefusedError, UsageError
from kafkakit.streams.model.route import Route


def home_of(route: Route, lanes: Collection[str]) -> str:
    """The profile of the cluster that the first of these lanes is written on; `UsageError` for one that is absent."""
    for name in lanes:
        lane = route.lane(name)
        if lane is None or lane.active is None:
            raise UsageError(f"stream {route.stream} has no lane {name} that is written")
        return lane.active.cluster
    raise UsageError("no lane is named")


def left_cluster(route: Route, history: Sequence[Route], lanes: Collection[str] = ()) -> str:
    """The profile of the cluster that the lanes were written on before the present one; without names all lanes.

    `history` are the routes that came into effect, oldest first. Raises `RefusedError` where no lane was ever on
    another cluster, or lanes came from different ones.
    """
    found: dict[str, list[str]] = {}
    for lane in route.lanes:
        if lane.active is None or (lanes and lane.name not in lanes):
            continue
        for earlier in reversed(history):
            before = earlier.lane(lane.name)
            active = None if before is None else before.active
            if active is not None and active.cluster_id != lane.active.cluster_id:
                found.setdefault(active.cluster, []).append(lane.name)
                break
    if not found:
        raise RefusedError(
            f"stream {route.stream} has not left a cluster", hint="kafkakit streams move STREAM --to CLUSTER"
        )
    if len(found) > 1:
        words = "; ".join(f"{', '.join(names)}: {profile}" for profile, names in sorted(found.items()))
        raise RefusedError(f"lanes of stream {route.stream} came from different clusters: {words}", hint="--lane LANE")
    return next(iter(found))
