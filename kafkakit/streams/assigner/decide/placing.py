"""Partitions on unlike workers: sticky, in proportion to capacity, in their own zone where there is space.

Workers that share streams make a pool; what a pool is to read is one placement problem on arrays.

First every partition that has no worker, or none that it may keep, gets one; then, where a worker is out of the
tolerance around its share, a limited number of partitions move: only such that are better off after it. Lanes are
taken by importance, each with the more important ones below it, so that each worker's load of `live` is even, that of
`live` and `slow` too, and what exceeds the capacity of all is of the least important lanes. Loads of like size make
one class, heaviest first; a class is one minimum-cost flow, solved exactly. Placing heavy before light is the rule of
longest processing times (Graham 1969; Gonzalez, Ibarra and Sahni 1977 for machines of unlike speed).

Cost: about twenty flows of some thousand arcs each; deterministic.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kafkakit.streams.client.api import PartitionKey, WorkerDocument
from kafkakit.streams.model.route import DLQ, LIVE, SLOW, Route

if TYPE_CHECKING:
    from kafkakit.core.columns import Bools, Ints


NONE = -1
TOLERANCE = 0.1
"""How far a worker's load may be from its share before partitions move because of it."""
MOST_PARTITIONS = 1000
"""Of a worker: what fits into its grant document, unless names are long."""

Fills = tuple[tuple[float, int], ...]
MOVE, OTHER_ZONE, NO_WORKER = 1000, 300, 1_000_000
"""What a move, a reader in another zone and a partition without a worker cost, beside the fills below."""
PLACING = (
    (0.3, -2600), (0.6, -2500), (0.8, -2400), (1 - TOLERANCE, -2300), (0.95, -100), (1.0, 0), (1.05, 100),
    (1 + TOLERANCE, 200), (1.25, 2300), (1.5, 2600), (2.0, 2900), (4.0, 3200),
)  # fmt: skip
"""What a partition costs that fills its worker up to a part of the share. Inside the tolerance, and outside of it on
one side, steps are smaller than a move; from outside to inside they are larger than a move to another zone."""
BALANCING = (
    (1 - 3 * TOLERANCE, -2300), (1 - 2 * TOLERANCE, -2200), (1 + 2 * TOLERANCE, 0), (1.5, 2300), (2.0, 2600),
    (4.0, 2900),
)  # fmt: skip
"""What a partition that has a worker costs: twice the tolerance, so that it stays when shares change."""
OVERFULL = 3500
_RATIO = 1.5
_LIGHTEST = 200
"""Partitions below this part of a mean share are one class."""
BESIDE_PART, BALANCE_PART = 0.1, 0.05
"""How many partitions move for balance: the first part of those without a worker, the second of all where none is."""
_GAIN = 0.15
"""A partition moves for balance where its new worker is fuller than its old one was by this part of the share less."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AssignmentProblem:
    """Partitions with loads (positive, any unit), and workers with capacities (any unit; 0: takes nothing).

    `level` is 0 for the most important lanes. `kind` chooses the column of `serves` (workers by kinds) that tells
    which workers can handle the partition. Zones are numbers, `NONE` for unknown; `owner` is the worker now or `NONE`.
    """

    load: "Ints"
    level: "Ints"
    kind: "Ints"
    zone: "Ints"
    owner: "Ints"
    capacity: "Ints"
    worker_zone: "Ints"
    serves: "Bools"
    most: int = MOST_PARTITIONS

    @property
    def size(self) -> tuple[int, int]:
        """How many partitions and workers there are."""
        return len(self.load), len(self.capacity)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlacementAnswer:
    """The worker of each partition (`NONE`: no worker may take it), and how many had to move or were moved for balance.

    `orphans` had no worker that may keep them; `moves` left a worker that could have kept them.
    """

    owner: "Ints"
    orphans: int
    moves: int


def place(problem: AssignmentProblem, *, may_balance: bool = True) -> PlacementAnswer:
    """Solve it; without `may_balance` only partitions without a worker get one, and one in ten beside them moves."""
    import numpy as np

    partitions, workers = problem.size
    owner = problem.owner.copy()
    if workers == 0:
        return PlacementAnswer(owner=np.full(partitions, NONE, dtype=np.int64), orphans=partitions, moves=0)
    held = owner >= 0
    able = (problem.capacity > 0)[owner] & problem.serves[owner, problem.kind]
    owner[held & ~able] = NONE
    orphans = owner == NONE
    classes = _classes(problem)
    _place_orphans(problem, classes, owner)
    waiting = int(orphans.sum())
    budget = int(BESIDE_PART * waiting) if waiting else max(1, int(BALANCE_PART * partitions)) * may_balance
    taken = 0
    for level in np.unique(problem.level):
        if taken < budget and not _is_even(problem, owner, int(level)):
            wanted = owner.copy()
            for members in _members(problem, classes, int(level), owner >= 0):
                _place_class(problem, wanted, members, int(level), BALANCING)
            taken += _improve(problem, owner, wanted, int(level), budget - taken)
    if taken:
        _place_orphans(problem, classes, owner)  # where a move has left space
    # Some of what was taken over had no worker before.
    moves = int((~orphans & (owner != problem.owner)).sum())
    return PlacementAnswer(owner=owner, orphans=waiting, moves=moves)


def _place_orphans(problem: AssignmentProblem, classes: "Ints", owner: "Ints") -> None:
    """Give what has no worker one, in `owner`, the most important lanes first."""
    import numpy as np

    orphans = owner == NONE
    for level in np.unique(problem.level):
        for members in _members(problem, classes, int(level), orphans):
            _place_class(problem, owner, members, int(level), PLACING)


def _improve(problem: AssignmentProblem, owner: "Ints", wanted: "Ints", level: int, budget: int) -> int:
    """Take over the moves of `wanted` that make workers more even, those of the fullest workers first; how many.

    Only a part of the moves may be taken: each of them must leave its target with at most `most` partitions.
    """
    import numpy as np

    share = np.maximum(1, shares_of(problem, level)).astype(np.float64)
    load = loads_of(problem, owner, level).astype(np.float64)
    moved = np.nonzero((wanted != owner) & (wanted >= 0))[0]
    order = moved[np.lexsort((moved, -problem.load[moved], -(load / share)[owner[moved]]))]
    held = np.bincount(owner[owner >= 0], minlength=len(problem.capacity))
    count = 0
    for partition in order.tolist():
        source, target, amount = int(owner[partition]), int(wanted[partition]), float(problem.load[partition])
        full, empty = load[source] / share[source], load[target] / share[target]
        is_outside = full > 1 + 2 * TOLERANCE or empty < 1 - 2 * TOLERANCE
        is_better = is_outside and empty + amount / share[target] <= full - _GAIN
        if count < budget and held[target] < problem.most and is_better:
            owner[partition] = target
            held[source] -= 1
            held[target] += 1
            load[source] -= amount
            load[target] += amount
            count += 1
    return count


def _classes(problem: AssignmentProblem) -> "Ints":
    """A number for each partition, lowest for the heaviest."""
    import numpy as np

    mean = max(1.0, float(problem.load.sum()) / max(1, int((problem.capacity > 0).sum())))
    # Sizes of absolute numbers: a change of the mean must not sort other partitions together.
    sizes = np.floor(np.log(problem.load) / np.log(_RATIO)).astype(np.int64)
    heaviest = int(np.log(mean) / np.log(_RATIO))
    lightest = heaviest - int(np.log(_LIGHTEST) / np.log(_RATIO))
    classes: Ints = -np.clip(sizes, lightest, heaviest)
    return classes


def _members(problem: AssignmentProblem, classes: "Ints", level: int, wanted: "Bools") -> "list[Ints]":
    """The wanted partitions of a level, class by class."""
    import numpy as np

    found = np.nonzero((problem.level == level) & wanted)[0]
    return [found[classes[found] == each] for each in np.unique(classes[found])]


def _is_even(problem: AssignmentProblem, owner: "Ints", level: int) -> bool:
    share, load = shares_of(problem, level), loads_of(problem, owner, level)
    ready = problem.capacity > 0
    outside = (load > (1 + 2 * TOLERANCE) * share) | (load < (1 - 2 * TOLERANCE) * share)
    return not bool((outside & ready).any())


def _place_class(problem: AssignmentProblem, owner: "Ints", members: "Ints", level: int, fills: Fills) -> None:
    """Place partitions of like load anew in `owner`, all others left where they are."""
    import numpy as np

    from kafkakit.placement.network import FlowNetwork

    workers = len(problem.capacity)
    unit = max(1, int(problem.load[members].mean()))
    before = owner[members]
    owner[members] = NONE
    base = loads_of(problem, owner, level)
    counts = np.bincount(owner[owner >= 0], minlength=workers)
    rows = np.stack([before, problem.kind[members], problem.zone[members]], axis=1)
    groups, member_group, sizes = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    member_group = member_group.reshape(-1)
    pools, group_pool = np.unique(groups[:, 1:], axis=0, return_inverse=True)
    group_pool = group_pool.reshape(-1)

    net = FlowNetwork()
    first_group, first_pool, first_worker = net.nodes(len(groups)), net.nodes(len(pools)), net.nodes(workers)
    sink = net.nodes(1)
    net.supply(first_group + np.arange(len(groups)), sizes)
    net.supply(sink, -len(members))
    numbers = first_group + np.arange(len(groups))
    stays = np.nonzero(groups[:, 0] >= 0)[0]
    at = groups[stays, 0]
    stay = net.arcs(first_group + stays, first_worker + at, sizes[stays], _zone_cost(problem, groups[stays, 2], at))
    move = net.arcs(numbers, first_pool + group_pool, sizes, MOVE)
    net.arcs(numbers, sink, sizes, NO_WORKER)
    pool, worker = np.nonzero(problem.serves[:, pools[:, 0]].T & (problem.capacity > 0)[None, :])
    take = net.arcs(first_pool + pool, first_worker + worker, len(members), _zone_cost(problem, pools[pool, 1], worker))
    space = np.where(problem.capacity > 0, np.maximum(0, problem.most - counts), 0)
    share = shares_of(problem, level)
    used = np.zeros(workers, dtype=np.int64)
    for part, cost in (*fills, (np.inf, OVERFULL)):
        end = (
            space
            if part == np.inf
            else np.minimum((np.maximum(0, part * share - base) // unit).astype(np.int64), space)
        )
        net.arcs(first_worker + np.arange(workers), sink, end - used, cost)
        used = end
    net.solve()

    flows = net.flow(take)
    moved = net.flow(move)
    staying = np.zeros(len(groups), dtype=np.int64)
    staying[stays] = net.flow(stay)
    # Which partitions of a group stay and which move: the order of their numbers.
    order = np.argsort(member_group, kind="stable")
    rank = np.empty(len(members), dtype=np.int64)
    rank[order] = np.arange(len(members)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_kept = rank < staying[member_group]
    is_moved = ~is_kept & (rank < (staying + moved)[member_group])
    owner[members[is_kept]] = before[is_kept]
    for number in range(len(pools)):
        mine = members[is_moved & (group_pool[member_group] == number)]
        mine = mine[np.argsort(-problem.load[mine], kind="stable")]
        owner[mine] = _deal_workers(worker[pool == number], flows[pool == number])


def _zone_cost(problem: AssignmentProblem, zones: "Ints", workers: "Ints") -> "Ints":
    import numpy as np

    there = problem.worker_zone[workers]
    return np.where((zones >= 0) & (there >= 0) & (zones != there), OTHER_ZONE, 0).astype(np.int64)


def _deal_workers(workers: "Ints", amounts: "Ints") -> "Ints":
    """Each worker as often as its amount, in turns that go forth and back, so that falling loads spread evenly."""
    import numpy as np

    repeated = np.repeat(workers, amounts)
    turn = np.arange(len(repeated)) - np.repeat(np.cumsum(amounts) - amounts, amounts)
    return repeated[np.lexsort((np.where(turn % 2, -repeated, repeated), turn))]


def shares_of(problem: AssignmentProblem, level: int) -> "Ints":
    """Each worker's share of the load of lanes down to a level: of each kind, by capacity among those that serve it.

    In units of load, rounded up.
    """
    import numpy as np

    counted = problem.level <= level
    kinds = problem.serves.shape[1]
    loads = np.bincount(problem.kind[counted], weights=problem.load[counted], minlength=kinds)
    able = np.where(problem.serves, problem.capacity[:, None], 0).astype(np.float64)
    total = np.maximum(able.sum(axis=0), 1.0)
    shares: Ints = np.ceil(able @ (loads / total)).astype(np.int64)
    return shares


def loads_of(problem: AssignmentProblem, owner: "Ints", level: int) -> "Ints":
    """The load of lanes down to a level that each worker has."""
    import numpy as np

    counted = (problem.level <= level) & (owner >= 0)
    sums = np.bincount(owner[counted], weights=problem.load[counted], minlength=len(problem.capacity))
    return sums.astype(np.int64)


LEVELS = {LIVE: 0, SLOW: 2, DLQ: 3}
OTHER_LEVEL = 1
"""The importance of lanes, most important first: `live`, then `retry` and lanes of other names, `slow`, `dlq`."""
BASE_LOAD = 100
"""What a partition costs a worker beside its records, in records a second."""
MAX_RATE = 10_000_000


class PartitionTraffic(NamedTuple):
    """What was measured of a partition: records written a second, and the rack of its leader, empty where unknown."""

    records_per_s: int = 0
    zone: str = ""


def round_rate(records_per_s: int) -> int:
    """The rate as the next power of two, so that small changes of traffic move nothing; 0 stays."""
    return 1 << (records_per_s - 1).bit_length() if records_per_s > 0 else 0


Facts = Mapping[tuple[str, str], tuple[PartitionTraffic, ...]]
"""By cluster id and topic, for each partition; what is not there is not known."""
Owners = Mapping[PartitionKey, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Workers, and the groups of streams that any of them handles: no other worker handles one of these.

    `lanes` are those that a worker handles of a group, by group and slot; none are all but `dlq`.
    """

    slots: tuple[str, ...]
    lanes: Mapping[tuple[str, str], Mapping[str, tuple[str, ...]]]

    @property
    def streams(self) -> tuple[str, ...]:
        """Their names, sorted."""
        return tuple(sorted({stream for stream, _ in self.lanes}))


def pools_of(workers: Mapping[str, WorkerDocument]) -> tuple[Pool, ...]:
    """The pools, in the order of their first slots; a group that Kafka's own protocol shares out is in none."""
    lanes: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}
    grouped = set()
    for slot, document in workers.items():
        for each in document.subscriptions:
            lanes.setdefault((each.stream, each.group), {})[slot] = each.lanes
            if each.is_grouped:
                grouped.add((each.stream, each.group))
    parent = {slot: slot for slot in workers}

    def root(slot: str) -> str:
        while parent[slot] != slot:
            parent[slot] = parent[parent[slot]]
            slot = parent[slot]
        return slot

    for serving in lanes.values():
        first, *rest = map(root, serving)
        for other in rest:
            low, high = sorted((root(first), root(other)))
            parent[high] = low
    slots: dict[str, list[str]] = {}
    for slot in sorted(workers):
        slots.setdefault(root(slot), []).append(slot)
    kinds: dict[str, dict[tuple[str, str], dict[str, tuple[str, ...]]]] = {}
    for kind in sorted(lanes.keys() - grouped):
        kinds.setdefault(root(next(iter(lanes[kind]))), {})[kind] = lanes[kind]
    return tuple(Pool(slots=tuple(found), lanes=kinds.get(first, {})) for first, found in sorted(slots.items()))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoolProblem:
    """A pool as arrays; `keys` are the partitions in their order, with the ids of their topics."""

    keys: tuple[PartitionKey, ...]
    topic_ids: tuple[str, ...]
    problem: AssignmentProblem


def problem_of(
    pool: Pool,
    routes: Mapping[str, Route],
    workers: Mapping[str, WorkerDocument],
    draining: Set[str],
    owners: Owners,
    facts: Facts,
) -> PoolProblem:
    """What a pool is to read, and who reads it now; the ids of workers that must get rid of theirs are `draining`."""
    import numpy as np

    number = {slot: n for n, slot in enumerate(pool.slots)}
    zones: dict[str, int] = {"": NONE}
    kinds: dict[frozenset[str], int] = {}
    keys: list[PartitionKey] = []
    topic_ids: list[str] = []
    columns: list[tuple[int, int, int, int, int]] = []
    for (stream, group), serving in pool.lanes.items():
        route = routes.get(stream)
        for lane in () if route is None else route.lanes:
            able = frozenset(s for s, lanes in serving.items() if (lane.name in lanes if lanes else lane.name != DLQ))
            if not able or lane.is_paused:
                continue
            kind = kinds.setdefault(able, len(kinds))
            level = LEVELS.get(lane.name, OTHER_LEVEL)
            for segment in lane.segments:
                known = facts.get((segment.cluster_id, segment.topic), ())
                for partition in range(segment.partitions):
                    key = PartitionKey(stream, group, segment.cluster_id, segment.topic, partition)
                    rate, zone = known[partition] if partition < len(known) else PartitionTraffic()
                    owner = number.get(owners.get(key, ""), NONE)
                    load = BASE_LOAD + min(rate, MAX_RATE)
                    keys.append(key)
                    topic_ids.append(segment.topic_id)
                    columns.append((load, level, kind, zones.setdefault(zone, len(zones) - 1), owner))
    loads, levels, kind_column, zone_column, owner_column = _columns(columns)
    serves = np.zeros((len(pool.slots), max(1, len(kinds))), dtype=np.bool_)
    for able, kind in kinds.items():
        serves[[number[slot] for slot in able], kind] = True
    documents = [workers[slot] for slot in pool.slots]
    problem = AssignmentProblem(
        load=loads,
        level=levels,
        kind=kind_column,
        zone=zone_column,
        owner=owner_column,
        capacity=np.array(
            [0 if each.is_leaving or each.id in draining else each.capacity for each in documents], dtype=np.int64
        ),
        worker_zone=np.array([zones.get(each.zone, len(zones)) if each.zone else NONE for each in documents]),
        serves=serves,
    )
    return PoolProblem(keys=tuple(keys), topic_ids=tuple(topic_ids), problem=problem)


def _columns(rows: list[tuple[int, int, int, int, int]]) -> "tuple[Ints, ...]":
    import numpy as np

    table = np.array(rows, dtype=np.int64).reshape(len(rows), 5)
    return tuple(table[:, column].copy() for column in range(5))
