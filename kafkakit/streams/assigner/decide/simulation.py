"""A fleet that does not exist, for what the Assigner would do with it: streams, clusters, pools of workers, and deaths.

Everything follows from the numbers and the seed, by a generator of its own, so that every machine finds the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kafkakit.core.errors import UsageError
from kafkakit.core.lease import Holder
from kafkakit.core.quantities import counted
from kafkakit.streams.assigner.decide.assignment import Assignment
from kafkakit.streams.assigner.decide.pools import PartitionFacts
from kafkakit.streams.client.api import GrantDocument, PartitionKey, Subscription, WorkerDocument
from kafkakit.streams.model.route import LIVE, Lane, Route, Segment, SegmentState

MOST_STEPS = 1000
_GROUP = "g"
_HOLDER = Holder(host="simulated", user="simulated", command="worker", pid=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetShape:
    """How many there are of each; a stream has `partitions` of them on one cluster, and is handled by one pool."""

    clusters: int = 2
    streams: int = 10
    partitions: int = 12
    workers: int = 10
    pools: int = 1
    zones: int = 3
    seed: int = 1

    def __post_init__(self) -> None:
        if min(self.clusters, self.streams, self.partitions, self.workers, self.pools, self.zones) < 1:
            raise UsageError("a fleet has one of everything, or more")
        if self.pools > min(self.workers, self.streams):
            raise UsageError("a pool has a worker and a stream, or more")
        if self.streams * self.partitions > 2_000_000 or self.workers > 20_000 or self.clusters > 100_000:
            raise UsageError("at most 2,000,000 partitions, 20,000 workers and 100,000 clusters are simulated")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedEvent:
    """What happened, and what it led to: partitions that had no worker, and those that moved beside them.

    `share` is what the dead workers had; `fullest` and `emptiest` are loads of workers as parts of their share.
    """

    what: str
    share: int
    moved: int
    unserved: int
    steps: int
    fullest: float
    emptiest: float


class SimulatedFleet:
    """Workers that keep to their grants from one step to the next; not for threads."""

    def __init__(self, shape: FleetShape) -> None:
        self.assignment = Assignment(1)
        self._shape, self._state = shape, shape.seed & 0xFFFFFFFF
        self.routes = {route.stream: route for route in self._made_routes()}
        self.facts = {
            (route.lanes[0].segments[0].cluster_id, route.lanes[0].segments[0].topic): tuple(
                PartitionFacts(1 << self._random(12), f"z{self._random(shape.zones)}") for _ in range(shape.partitions)
            )
            for route in self.routes.values()
        }
        self.workers = dict(self._made_workers())
        self.unserved = 0

    def step(self, *, may_balance: bool = False) -> bool:
        """One step, which the workers keep to at once; False where nothing had to be written."""
        step = self.assignment.step(self.workers, self.routes, facts=self.facts, may_balance=may_balance)
        for slot, document in step.documents.items():
            self._keep(slot, document)
        self.unserved = step.unserved
        return bool(step.documents) or bool(step.waiting)

    def event(self, what: str, dead: int = 0) -> SimulatedEvent:
        """Kill so many workers at once, and step until nothing changes any more."""
        before = dict(self.assignment.owners)
        slots = self._chosen(dead)
        share = sum(slot in slots for slot in before.values())
        for slot in slots:
            del self.workers[slot]
            self.assignment.drop(slot)
        steps = 1
        while self.step() and steps < MOST_STEPS:
            steps += 1
        after = self.assignment.owners
        fullness = self._fullness()
        return SimulatedEvent(
            what=what,
            share=share,
            moved=sum(before.get(key, slot) != slot for key, slot in after.items()),
            unserved=self.unserved,
            steps=steps,
            fullest=max(fullness, default=0.0),
            emptiest=min(fullness, default=0.0),
        )

    def fail_over(self, cluster: int) -> SimulatedEvent:
        """Send the streams of a cluster to the next one; their old topics are still read."""
        if not 0 <= cluster < self._shape.clusters or self._shape.clusters == 1:
            raise UsageError(
                f"--kill-cluster {cluster}: there is no such cluster, or no other one",
                hint=f"clusters are 0 to {self._shape.clusters - 1}, and their streams need another one",
            )
        count = 0
        for stream, route in sorted(self.routes.items()):
            lane = route.lanes[0]
            if lane.segments[-1].cluster == f"c{cluster}":
                old = tuple(replace(each, state=SegmentState.DRAINING) for each in lane.segments)
                new = self._segment(stream, route.next_segment, (cluster + 1) % self._shape.clusters)
                lanes = (replace(lane, segments=(*old, new)),)
                self.routes[stream] = replace(
                    route, epoch=route.epoch + 1, next_segment=route.next_segment + 1, lanes=lanes
                )
                count += 1
        return self.event(f"cluster c{cluster} is dead: {count} streams go to the next one")

    def _keep(self, slot: str, document: GrantDocument) -> None:
        self.workers[slot] = replace(self.workers[slot], round=document.round)

    def _fullness(self) -> list[float]:
        """Each worker's load as a part of its share of its pool's, by capacity."""
        loads = dict.fromkeys(self.workers, 0)
        for key, slot in self.assignment.owners.items():
            loads[slot] += self._load(key)
        totals: dict[str, tuple[int, int]] = {}
        for slot, document in self.workers.items():
            load, capacity = totals.get(slot[:5], (0, 0))
            totals[slot[:5]] = (load + loads[slot], capacity + document.capacity)
        return [
            loads[slot] * totals[slot[:5]][1] / (totals[slot[:5]][0] * document.capacity)
            for slot, document in self.workers.items()
            if totals[slot[:5]][0]
        ]

    def _load(self, key: PartitionKey) -> int:
        facts = self.facts.get((key.cluster_id, key.topic), ())
        return 100 + (facts[key.partition].records_per_s if key.partition < len(facts) else 0)

    def _chosen(self, count: int) -> frozenset[str]:
        if count >= len(self.workers):
            raise UsageError(f"--kill {count}: there are {counted(len(self.workers), 'worker')}, and one must be left")
        slots = sorted(self.workers)
        chosen: set[str] = set()
        while len(chosen) < count:
            chosen.add(slots[self._random(len(slots))])
        return frozenset(chosen)

    def _made_routes(self) -> Iterator[Route]:
        for number in range(self._shape.streams):
            stream = f"s{number:06d}"
            segment = self._segment(stream, 1, number % self._shape.clusters)
            yield Route(stream=stream, epoch=1, next_segment=2, lanes=(Lane(name=LIVE, segments=(segment,)),))

    def _segment(self, stream: str, number: int, cluster: int) -> Segment:
        return Segment(
            id=number,
            cluster=f"c{cluster}",
            cluster_id=f"c{cluster}-id",
            topic=f"{stream}.live.{number}",
            topic_id=f"{self._random(10**9):09d}{self._random(10**9):09d}0000",
            partitions=self._shape.partitions,
            state=SegmentState.ACTIVE,
        )

    def _made_workers(self) -> Iterator[tuple[str, WorkerDocument]]:
        shape = self._shape
        subscriptions = [
            tuple(Subscription(stream=stream, group=_GROUP) for stream in sorted(self.routes)[pool :: shape.pools])
            for pool in range(shape.pools)
        ]
        for number in range(shape.workers):
            slot = f"{number % shape.pools:05d}-{number:05d}"
            yield (
                slot,
                WorkerDocument(
                    id=slot,
                    beat=1,
                    ttl_s=1.5,
                    holder=_HOLDER,
                    capacity=(50, 100, 200)[self._random(3)],
                    zone=f"z{number % shape.zones}",
                    subscriptions=subscriptions[number % shape.pools],
                ),
            )

    def _random(self, below: int) -> int:
        """The next number of a linear congruential generator (Numerical Recipes)."""
        self._state = (1664525 * self._state + 1013904223) & 0xFFFFFFFF
        return (self._state >> 8) % below


def simulated(fleet: SimulatedFleet, kills: Sequence[int], clusters: Sequence[int]) -> tuple[SimulatedEvent, ...]:
    """The beginning, then so many deaths of workers at a time, then deaths of clusters by their numbers."""
    return (
        fleet.event("all workers begin"),
        *(fleet.event(f"{counted(count, 'worker')} {'dies' if count == 1 else 'die'}", count) for count in kills),
        *(fleet.fail_over(number) for number in clusters),
    )
