"""Workers that share streams, and what they are to read, as one placement problem for each pool of them."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kafkakit.streams.assigner.decide.problem import NONE, PlacementProblem
from kafkakit.streams.client.api import PartitionKey, WorkerDocument
from kafkakit.streams.model.route import DLQ, LIVE, SLOW, Route

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Ints

LEVELS = {LIVE: 0, SLOW: 2, DLQ: 3}
OTHER_LEVEL = 1
"""The importance of lanes, most important first: `live`, then `retry` and lanes of other names, `slow`, `dlq`."""
BASE_LOAD = 100
"""What a partition costs a worker beside its records, in records a second."""
MAX_RATE = 10_000_000


class PartitionFacts(NamedTuple):
    """What was measured of a partition: records written a second, and the rack of its leader, empty where unknown."""

    records_per_s: int = 0
    zone: str = ""


def rounded(records_per_s: int) -> int:
    """The rate as the next power of two, so that small changes of traffic move nothing; 0 stays."""
    return 1 << (records_per_s - 1).bit_length() if records_per_s > 0 else 0


Facts = Mapping[tuple[str, str], tuple[PartitionFacts, ...]]
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
    problem: PlacementProblem


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
                    rate, zone = known[partition] if partition < len(known) else PartitionFacts()
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
    problem = PlacementProblem(
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
