"""Routes, and workers that keep to their grants, without processes: for tests of what the Assigner decides."""

from collections.abc import Mapping
from dataclasses import replace

from kafkakit.core.lease import Holder
from kafkakit.streams.assigner.decide.assignment import Assignment, AssignmentStep
from kafkakit.streams.client.api import GrantDocument, PartitionKey, Subscription, WorkerDocument
from kafkakit.streams.model.route import Lane, Route, Segment, SegmentState

HOLDER = Holder(host="h", user="u", command="worker", pid=1)
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAA"


def segment(number: int, partitions: int, *, cluster: str = "a", stream: str = "orders", lane: str = "live") -> Segment:
    return Segment(
        id=number,
        cluster=cluster,
        cluster_id=f"{cluster}-id",
        topic=f"{stream}.{lane}.{number}",
        topic_id=f"{TOPIC_ID}{number:02d}",
        partitions=partitions,
        state=SegmentState.ACTIVE,
    )


def route(partitions: int, *, stream: str = "orders", epoch: int = 1, cluster: str = "a") -> Route:
    lane = Lane(name="live", segments=(segment(1, partitions, stream=stream, cluster=cluster),))
    return Route(stream=stream, epoch=epoch, next_segment=2, lanes=(lane,))


def moved(before: Route, cluster: str, partitions: int) -> Route:
    """The route after a failover to another cluster: the old segment drains, and both are read."""
    lane = before.lanes[0]
    number = before.next_segment
    old = tuple(replace(each, state=SegmentState.DRAINING) for each in lane.segments)
    new = segment(number, partitions, cluster=cluster, stream=before.stream)
    return replace(
        before, epoch=before.epoch + 1, next_segment=number + 1, lanes=(replace(lane, segments=(*old, new)),)
    )


def worker(
    name: str, *, streams: tuple[str, ...] = ("orders",), group: str = "g", capacity: int = 100, zone: str = ""
) -> WorkerDocument:
    return WorkerDocument(
        id=f"id-{name}",
        beat=1,
        ttl_s=1.5,
        holder=HOLDER,
        capacity=capacity,
        zone=zone,
        subscriptions=tuple(Subscription(stream=stream, group=group) for stream in streams),
    )


class World:
    """Workers by slot that apply a grant when `apply` is called, and what each of them reads."""

    def __init__(self, token: int = 1) -> None:
        self.assignment = Assignment(token)
        self.workers: dict[str, WorkerDocument] = {}
        self.store: dict[str, GrantDocument] = {}
        self.reads: dict[str, dict[PartitionKey, int]] = {}

    def add(self, slot: str, document: WorkerDocument | None = None) -> None:
        self.workers[slot] = document or worker(slot)
        self.reads[slot] = {}

    def kill(self, slot: str) -> None:
        del self.workers[slot], self.reads[slot]
        self.assignment.drop(slot)
        self.store.pop(slot, None)

    def restart(self, token: int) -> None:
        """Another Assigner takes over."""
        self.assignment = Assignment(token)
        self.store = dict(self.assignment.adopt(dict(self.store), self.workers))
        for slot in [slot for slot in self.store if slot not in self.workers]:
            self.assignment.drop(slot)
            del self.store[slot]

    def step(self, routes: Mapping[str, Route], **options: object) -> AssignmentStep:
        step = self.assignment.step(self.workers, routes, **options)  # type: ignore[arg-type]
        self.store.update(step.documents)
        return step

    def apply(self, slot: str) -> None:
        """The worker reads what its document grants, and nothing else, and writes so."""
        document = self.store.get(slot)
        if document is not None and document.worker == self.workers[slot].id:
            self.reads[slot] = dict(document.leases())
            self.workers[slot] = replace(self.workers[slot], round=document.round)

    def settle(self, routes: Mapping[str, Route], **options: object) -> int:
        """Steps until nothing is written any more; how many partitions changed their owner on the way."""
        before = dict(self.assignment.owners)
        for _ in range(200):
            step = self.step(routes, **options)
            for slot in self.workers:
                self.apply(slot)
            if not step.documents and not step.waiting:
                break
        else:
            raise AssertionError("it does not settle")
        return sum(before.get(key) != slot for key, slot in self.assignment.owners.items())
