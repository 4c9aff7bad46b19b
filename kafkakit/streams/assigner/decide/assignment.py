"""What each worker is granted, look by look: a partition has one owner, and the next owner a greater epoch.

A partition goes from one living worker to another in two steps: it is left out of the first one's grant, and granted
to the second once the first wrote that it keeps to that grant. What a dead worker had is free once its document is
removed, since it cannot renew it any more. Which workers live follows from their documents and the clock of the
process that watches them.

An Assigner that begins writes every grant again under its own token before anything else: what an earlier one still
sends finds another version and is refused. As it does not know what was left out of grants and is still held, it
grants nothing that is in no grant before all workers of a group keep to theirs.

A simulation does this for a fleet that does not exist: streams, clusters, pools of workers, and deaths. Everything
follows from the numbers and the seed, by a generator of its own, so that every machine finds the same.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

from kafkakit.core.errors import UsageError
from kafkakit.core.lease import VALUE_LIMIT_BYTES, Holder, Life
from kafkakit.core.options import option
from kafkakit.core.quantities import count_of
from kafkakit.streams.assigner.decide.placing import Facts, PartitionTraffic, Pool, place, pools_of, problem_of
from kafkakit.streams.client.api import (
    GRANT_DOCUMENT,
    ROUND_BITS,
    GrantDocument,
    GrantedPartition,
    GrantedTopic,
    PartitionKey,
    Subscription,
    WorkerDocument,
    epoch_of,
)
from kafkakit.streams.model.route import LIVE, Lane, Route, Segment, SegmentState

PLAIN_LEASES = 200
"""So many leases fit into a grant document, however long their names are."""


class _Lease(NamedTuple):
    topic_id: str
    epoch: int


@dataclass(slots=True, kw_only=True)
class _Grant:
    """What a slot's document says; `worker` is its id, `round` that of the document that was written last."""

    worker: str
    round: int
    leases: dict[PartitionKey, _Lease]


class _PendingRelease(NamedTuple):
    slot: str
    round: int


@dataclass(slots=True, kw_only=True)
class _SolvedPool:
    """What a pool's answer depended on; `waiting` partitions are still to be granted."""

    signature: object
    waiting: int = 0
    unserved: int = 0
    is_balanced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentStep:
    """What is to be written, by slot, and figures of the placement behind it.

    `orphans` had no worker that could keep them, `moves` were made for balance; `unserved` have no worker that may take
    them, and `waiting` are still held by their last one. `full` are slots whose document has no space for more.
    """

    documents: Mapping[str, GrantDocument]
    orphans: int = 0
    moves: int = 0
    unserved: int = 0
    waiting: int = 0
    full: tuple[str, ...] = ()


class Assignment:
    """The grants of one Assigner under one fencing token. Cost of a step: that of the pools in which anything changed.

    `adopt` comes first; what `adopt` and `step` return is written before the next step, or the Assignment is given up.
    """

    def __init__(self, token: int) -> None:
        self._token, self._count = token, 0
        self._grants: dict[str, _Grant] = {}
        self._granted: dict[PartitionKey, str] = {}
        self._targets: dict[PartitionKey, str] = {}
        self._releasing: dict[PartitionKey, _PendingRelease] = {}
        self._barrier: dict[str, int] = {}
        self._shape: object = None
        self._pools: tuple[Pool, ...] = ()
        self._solved: dict[tuple[str, ...], _SolvedPool] = {}

    @property
    def owners(self) -> Mapping[PartitionKey, str]:
        """The slot of each partition that is granted."""
        return self._granted

    @property
    def slots(self) -> tuple[str, ...]:
        """The slots with a grant."""
        return tuple(self._grants)

    @property
    def is_used_up(self) -> bool:
        """True where the token has no epoch left: the lease must be taken anew."""
        return self._count >= (1 << ROUND_BITS) - 2

    def adopt(self, documents: Mapping[str, GrantDocument], workers: Iterable[str]) -> dict[str, GrantDocument]:
        """Take over the grants of earlier Assigners, and begin one for each slot of a worker without one."""
        number = self._next_epoch()
        for slot, document in sorted(documents.items()):
            grant = self._grants[slot] = _Grant(worker=document.worker, round=number, leases={})
            self._barrier[slot] = number
            for topic in document.topics:
                for partition, epoch in topic.partitions:
                    key = PartitionKey(topic.stream, topic.group, topic.cluster_id, topic.topic, partition)
                    other = self._granted.get(key)
                    if other is not None:
                        # A fault of the store: of two grants, the later owner is the one that fenced the other.
                        if self._grants[other].leases[key].epoch > epoch:
                            continue
                        del self._grants[other].leases[key]
                    grant.leases[key] = _Lease(topic.topic_id, epoch)
                    self._granted[key] = self._targets[key] = slot
        for slot in sorted(set(workers) - self._grants.keys()):
            self._grants[slot] = _Grant(worker="", round=number, leases={})
            self._barrier[slot] = number
        return {slot: self._document(slot) for slot in self._grants}

    def drop(self, slot: str) -> bool:
        """The worker of a slot is gone for certain, and so is its document; True where the slot had a grant."""
        found = self._grants.pop(slot, None)
        self._barrier.pop(slot, None)
        for key in found.leases if found is not None else ():
            del self._granted[key]
        for key in [key for key, target in self._targets.items() if target == slot]:
            del self._targets[key]
        for key in [key for key, releasing in self._releasing.items() if releasing.slot == slot]:
            del self._releasing[key]
        self._shape = None
        return found is not None

    def step(
        self,
        workers: Mapping[str, WorkerDocument],
        routes: Mapping[str, Route],
        *,
        draining: Set[str] = frozenset(),
        facts: Facts | None = None,
        facts_version: int = 0,
        may_balance: bool = False,
    ) -> AssignmentStep:
        """Decide and note what is written next; `workers` are those that live, and all others were dropped before.

        `draining` are ids of workers; `facts_version` changes with `facts`.
        """
        number = self._next_epoch()
        changed = self._enrol(workers, number)
        self._note_released(workers)
        orphans = moves = 0
        fresh: dict[str, list[PartitionKey]] = {}
        for pool in self._current_pools(workers):
            known = self._solved.get(pool.slots)
            signature = _signature(pool, workers, routes, draining, facts_version)
            is_same = known is not None and known.signature == signature
            if known is not None and is_same and not known.waiting and (known.is_balanced or not may_balance):
                continue
            found = problem_of(pool, routes, workers, draining, self._targets, facts or {})
            answer = place(found.problem, may_balance=may_balance)
            orphans, moves = orphans + answer.orphans, moves + answer.moves
            topic_ids = dict(zip(found.keys, found.topic_ids, strict=True))
            owners = answer.owner.tolist()
            targets = {k: pool.slots[o] for k, o in zip(found.keys, owners, strict=True) if o >= 0}
            self._forget_targets(found.keys, targets)
            self._targets.update(targets)
            changed |= self._revoke(pool, targets, topic_ids, number)
            waiting = self._grant(pool, targets, topic_ids, number, fresh)
            self._solved[pool.slots] = _SolvedPool(
                signature=signature,
                waiting=waiting,
                unserved=len(found.keys) - len(targets),
                is_balanced=may_balance and not answer.moves and not answer.orphans,
            )
        full = [slot for slot, keys in fresh.items() if not self._fits(slot, keys)]
        documents = {}
        for slot in sorted(changed | fresh.keys()):
            self._grants[slot].round = number
            documents[slot] = self._document(slot)
        if not documents:
            self._count -= 1
        return AssignmentStep(
            documents=documents,
            orphans=orphans,
            moves=moves,
            unserved=sum(each.unserved for each in self._solved.values()),
            waiting=sum(each.waiting for each in self._solved.values()),
            full=tuple(sorted(full)),
        )

    def _next_epoch(self) -> int:
        self._count += 1
        return epoch_of(self._token, self._count)

    def _enrol(self, workers: Mapping[str, WorkerDocument], number: int) -> set[str]:
        """A grant for each new worker; one in a slot with another's grant came after that one's end."""
        changed = set()
        for slot, document in workers.items():
            found = self._grants.get(slot)
            if found is None or found.worker != document.id:
                self.drop(slot)
                self._grants[slot] = _Grant(worker=document.id, round=number, leases={})
                changed.add(slot)
        return changed

    def _note_released(self, workers: Mapping[str, WorkerDocument]) -> None:
        for key in [k for k, each in self._releasing.items() if workers[each.slot].round >= each.round]:
            del self._releasing[key]
        for slot in [slot for slot, number in self._barrier.items() if workers[slot].round >= number]:
            del self._barrier[slot]

    def _current_pools(self, workers: Mapping[str, WorkerDocument]) -> tuple[Pool, ...]:
        shape = [
            (slot, [(s.stream, s.group, s.lanes, s.is_grouped) for s in document.subscriptions])
            for slot, document in workers.items()
        ]
        if shape != self._shape:
            self._shape, self._pools = shape, pools_of(workers)
            slots = {pool.slots for pool in self._pools}
            self._solved = {known: each for known, each in self._solved.items() if known in slots}
        return self._pools

    def _forget_targets(self, keys: Iterable[PartitionKey], targets: Mapping[PartitionKey, str]) -> None:
        for key in keys:
            if key not in targets:
                self._targets.pop(key, None)

    def _revoke(
        self, pool: Pool, targets: Mapping[PartitionKey, str], topic_ids: Mapping[PartitionKey, str], number: int
    ) -> set[str]:
        """Leave out of grants what is to go elsewhere, is not read any more, or is another topic of the same name."""
        changed = set()
        for slot in pool.slots:
            leases = self._grants[slot].leases
            gone = [k for k, each in leases.items() if targets.get(k) != slot or topic_ids.get(k) != each.topic_id]
            for key in gone:
                del leases[key], self._granted[key]
                self._releasing[key] = _PendingRelease(slot, number)
                if key not in targets:
                    self._targets.pop(key, None)
                changed.add(slot)
        return changed

    def _grant(
        self,
        pool: Pool,
        targets: Mapping[PartitionKey, str],
        topic_ids: Mapping[PartitionKey, str],
        number: int,
        fresh: dict[str, list[PartitionKey]],
    ) -> int:
        """Grant what no worker holds; how many must wait."""
        waiting = 0
        is_barred = any(slot in self._barrier for slot in pool.slots)
        for key, slot in targets.items():
            if key in self._granted:
                continue
            if is_barred or key in self._releasing:
                waiting += 1
                continue
            self._grants[slot].leases[key] = _Lease(topic_ids[key], number)
            self._granted[key] = slot
            fresh.setdefault(slot, []).append(key)
        return waiting

    def _fits(self, slot: str, keys: list[PartitionKey]) -> bool:
        """Take back what was granted just now where the document would be larger than the store takes."""
        leases = self._grants[slot].leases
        if len(leases) <= PLAIN_LEASES or len(GRANT_DOCUMENT.encode(self._document(slot))) <= VALUE_LIMIT_BYTES:
            return True
        for key in keys:
            del leases[key], self._granted[key]
            self._targets.pop(key, None)
        return False

    def _document(self, slot: str) -> GrantDocument:
        grant = self._grants[slot]
        topics: dict[tuple[str, str, str, str, str], list[GrantedPartition]] = {}
        for key, lease in sorted(grant.leases.items()):
            topics.setdefault((*key[:4], lease.topic_id), []).append(GrantedPartition(key.partition, lease.epoch))
        return GrantDocument(
            worker=grant.worker,
            token=self._token,
            round=grant.round,
            topics=tuple(
                GrantedTopic(
                    stream=stream,
                    group=group,
                    cluster_id=cluster_id,
                    topic=topic,
                    topic_id=topic_id,
                    partitions=tuple(partitions),
                )
                for (stream, group, cluster_id, topic, topic_id), partitions in topics.items()
            ),
        )


def _signature(
    pool: Pool,
    workers: Mapping[str, WorkerDocument],
    routes: Mapping[str, Route],
    draining: Set[str],
    facts_version: int,
) -> object:
    documents = [workers[slot] for slot in pool.slots]
    return (
        [(each.id, each.capacity, each.zone, each.is_leaving or each.id in draining) for each in documents],
        [(stream, routes[stream].epoch if stream in routes else 0) for stream in pool.streams],
        pool.lanes,
        facts_version,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenWorker:
    """A worker's document as it was found, and since when (own monotonic clock) it has not changed."""

    document: WorkerDocument
    version: int
    since_s: float
    is_dead: bool = False


Roster = Mapping[str, SeenWorker]
"""The workers by their slots."""


def observe_workers(
    earlier: Roster,
    found: Mapping[str, tuple[int, WorkerDocument]],
    looked_s: float,
    now_s: float,
    life_of: Callable[[Holder], Life],
) -> dict[str, SeenWorker]:
    """The workers now: dead is who was silent for its `ttl_s`, or whose process is certainly gone.

    Silence since the look of `looked_s` does not count where that is `ttl_s` ago, or minus infinity: the store may have
    been away, and workers could not write either.

    A worker stops by its own clock before this does (`core.lease` has the reasons), and what it must not do after its
    process is gone it cannot.
    """
    roster: dict[str, SeenWorker] = {}
    for slot, (version, document) in found.items():
        before = earlier.get(slot)
        is_same = before is not None and before.version == version and now_s - looked_s < document.ttl_s
        since_s = before.since_s if before is not None and is_same else now_s
        is_dead = now_s - since_s >= document.ttl_s or life_of(document.holder) is Life.GONE
        roster[slot] = SeenWorker(document=document, version=version, since_s=since_s, is_dead=is_dead)
    return roster


def living_workers(roster: Roster) -> dict[str, WorkerDocument]:
    """The documents of those that are not dead, by slot, sorted."""
    return {slot: seen.document for slot, seen in sorted(roster.items()) if not seen.is_dead}


def witnesses(workers: Mapping[str, WorkerDocument]) -> dict[str, tuple[int, int]]:
    """For each cluster that workers read: how many of them it answered lately, and how many it did not."""
    found: dict[str, tuple[int, int]] = {}
    for document in workers.values():
        for cluster_id in document.answering:
            answered, silent = found.get(cluster_id, (0, 0))
            found[cluster_id] = (answered + 1, silent)
        for cluster_id in document.silent:
            answered, silent = found.get(cluster_id, (0, 0))
            found[cluster_id] = (answered, silent + 1)
    return found


MOST_STEPS = 1000
_GROUP = "g"
_HOLDER = Holder(host="simulated", user="simulated", command="worker", pid=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetShape:
    """How many there are of each; a stream has `partitions` of them on one cluster, and is handled by one pool."""

    clusters: int = option(2, "--clusters", min=1, metavar="N", help="Clusters.")
    streams: int = option(10, "--streams", min=1, metavar="N", help="Streams, each on one cluster.")
    partitions: int = option(12, "--partitions", min=1, metavar="N", help="Partitions of each stream.")
    workers: int = option(10, "--workers", min=1, metavar="N", help="Workers, of three sizes.")
    pools: int = option(1, "--pools", min=1, metavar="N", help="Pools that workers and streams are divided into.")
    zones: int = option(3, "--zones", min=1, metavar="N", help="Zones of workers and of leaders.")
    seed: int = option(1, "--seed", metavar="N", help="Seed of the random fleet.")

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
                PartitionTraffic(1 << self._random(12), f"z{self._random(shape.zones)}")
                for _ in range(shape.partitions)
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
                f"--kill-cluster {cluster}: this cluster does not exist, or is the only one",
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
            raise UsageError(f"--kill {count}: there are {count_of(len(self.workers), 'worker')}, and one must be left")
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


def simulate_fleet(fleet: SimulatedFleet, kills: Sequence[int], clusters: Sequence[int]) -> tuple[SimulatedEvent, ...]:
    """The beginning, then so many deaths of workers at a time, then deaths of clusters by their numbers."""
    return (
        fleet.event("all workers begin"),
        *(fleet.event(f"{count_of(count, 'worker')} {'dies' if count == 1 else 'die'}", count) for count in kills),
        *(fleet.fail_over(number) for number in clusters),
    )
