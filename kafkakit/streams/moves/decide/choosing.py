"""Which streams are moved where: off one cluster, or so that clusters are used alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kafkakit.core.errors import UsageError
from kafkakit.streams.model.route import Route
from kafkakit.streams.moves.decide.series import ClusterShare, PlannedMove, SpreadFigures
from kafkakit.streams.moves.decide.spread import SpreadItem, SpreadProblem, loads_of, spread

Loads = Mapping[tuple[str, str], int]
"""The load of each topic that is written, by cluster id and topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A cluster that takes part: the profile that reaches it, its id, and what it can carry."""

    profile: str
    cluster_id: str
    capacity: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenMoves:
    """What was chosen, why streams stay although they might go, and how good it is (None: there was no choice)."""

    moves: tuple[PlannedMove, ...]
    skipped: Mapping[str, str]
    figures: SpreadFigures | None = None


def evacuated_id(routes: Sequence[Route], profile: str, live_id: str | None) -> str:
    """The id of the cluster that is emptied: what it says itself, or the routes where it is away.

    Raises `UsageError` where both differ, and where no route has the profile.
    """
    known = sorted({s.cluster_id for route in routes for _, s in route.segments() if s.cluster == profile})
    if live_id is not None:
        if known and known != [live_id]:
            raise UsageError(f"profile {profile} reaches cluster {live_id}, routes name {', '.join(known)}")
        return live_id
    if len(known) != 1:
        raise UsageError(f"routes name {len(known)} clusters by profile {profile}, and it does not answer")
    return known[0]


def evacuation(
    routes: Sequence[Route], cluster_id: str, targets: Sequence[Place], loads: Loads, unit: str
) -> ChosenMoves:
    """A move for every stream that is written on the cluster, spread by load over targets that count as alike."""
    if not targets or any(place.cluster_id == cluster_id for place in targets):
        raise UsageError("streams must go to other clusters than the one that is emptied", hint="--to PROFILE")
    leaving = [(route, lanes_on(route, cluster_id)) for route in routes]
    leaving = [(route, lanes) for route, lanes in leaving if lanes]
    items = tuple(SpreadItem(load=_load(route, loads, lanes)) for route, lanes in leaving)
    fixed = _fixed(routes, targets, loads, moving=())
    alike = sum(fixed) + sum(item.load for item in items) or 1
    places = [replace(place, capacity=alike) for place in targets]
    at, figures = _spread(items, places, fixed, 0, unit)
    moves = tuple(
        PlannedMove(stream=route.stream, to=targets[cluster].profile, lanes=_named(route, lanes), load=item.load)
        for (route, lanes), item, cluster in zip(leaving, items, at, strict=True)
    )
    return ChosenMoves(moves=moves, skipped={}, figures=figures if len(targets) > 1 else None)


def balance(routes: Sequence[Route], places: Sequence[Place], loads: Loads, unit: str, within_ppm: int) -> ChosenMoves:
    """Moves of whole streams between clusters so that the fullest one is used as little as possible.

    A stream stays where an operation is open, or its lanes are on several clusters: its load counts where it is.
    """
    number = {place.cluster_id: index for index, place in enumerate(places)}
    moving, skipped = [], dict[str, str]()
    for route in routes:
        homes = {lane.active.cluster_id for lane in route.lanes if lane.active}
        if not homes & number.keys():
            continue
        if route.operation is not None:
            skipped[route.stream] = f"operation {route.operation.id} is open"
        elif len(homes) > 1:
            skipped[route.stream] = "its lanes are on several clusters"
        else:
            moving.append((route, number[homes.pop()]))
    items = tuple(SpreadItem(load=_load(route, loads), home=home) for route, home in moving)
    fixed = _fixed(routes, places, loads, moving=[route.stream for route, _ in moving])
    at, figures = _spread(items, places, fixed, within_ppm, unit)
    moves = tuple(
        PlannedMove(stream=route.stream, to=places[cluster].profile, load=item.load)
        for (route, home), item, cluster in zip(moving, items, at, strict=True)
        if cluster != home
    )
    # The heaviest first: most is won early.
    return ChosenMoves(moves=tuple(sorted(moves, key=lambda m: (-m.load, m.stream))), skipped=skipped, figures=figures)


def lanes_on(route: Route, cluster_id: str) -> tuple[str, ...]:
    """The lanes of a stream that are written on a cluster."""
    return tuple(lane.name for lane in route.lanes if lane.active and lane.active.cluster_id == cluster_id)


def _named(route: Route, lanes: tuple[str, ...]) -> tuple[str, ...]:
    """The lanes of a request: none where all that are written move."""
    return () if len(lanes) == sum(lane.active is not None for lane in route.lanes) else lanes


def _load(route: Route, loads: Loads, lanes: Sequence[str] | None = None) -> int:
    chosen = (lane.active for lane in route.lanes if lane.active and (lanes is None or lane.name in lanes))
    return sum(loads.get((segment.cluster_id, segment.topic), 0) for segment in chosen)


def _fixed(routes: Sequence[Route], places: Sequence[Place], loads: Loads, moving: Sequence[str]) -> list[int]:
    """What the clusters carry that stays there."""
    fixed, gone = dict.fromkeys((place.cluster_id for place in places), 0), set(moving)
    for route in routes:
        for lane in route.lanes if route.stream not in gone else ():
            if lane.active is not None and lane.active.cluster_id in fixed:
                segment = lane.active
                fixed[segment.cluster_id] += loads.get((segment.cluster_id, segment.topic), 0)
    return [fixed[place.cluster_id] for place in places]


def _spread(
    items: tuple[SpreadItem, ...], places: Sequence[Place], fixed: Sequence[int], within_ppm: int, unit: str
) -> tuple[tuple[int, ...], SpreadFigures]:
    problem = SpreadProblem(items=items, capacities=tuple(place.capacity for place in places), fixed=tuple(fixed))
    answer = spread(problem, within_ppm)
    before = list(fixed)
    for item in items:
        if item.home is not None:
            before[item.home] += item.load
    shares = zip(places, before, loads_of(problem, answer.at), strict=True)
    return answer.at, SpreadFigures(
        unit=unit,
        largest_ppm=answer.largest_ppm,
        bound_ppm=answer.bound_ppm,
        is_proven=answer.is_proven,
        clusters=tuple(
            ClusterShare(profile=place.profile, capacity=place.capacity, before=first, after=last)
            for place, first, last in shares
        ),
    )
