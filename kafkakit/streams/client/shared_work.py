"""The work of all partitions of a consumer behind one lock: readers put records in, workers take chunks out."""

import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from kafkakit.core.model import TopicPartition
from kafkakit.ports.clock import Clock
from kafkakit.ports.stream_consumer import NO_LEASE, MemberLease, ReadRecord
from kafkakit.streams.client.decide.commits import CommitRule, NextCommit, next_commit
from kafkakit.streams.client.decide.lane_shares import LaneShares
from kafkakit.streams.client.decide.partition_work import PartitionWork
from kafkakit.streams.client.decide.ready import Chunk
from kafkakit.streams.client.records import RecordOrigin
from kafkakit.streams.model.commit import CommitIdentity, CommitState, RouteMark, Writer

SLICE_S = 0.02
"""How long a worker is to be busy with one chunk, by what earlier records of the lane took."""
_MOST = 2_000
_GROWTH = 4


@dataclass(slots=True, kw_only=True, eq=False)
class OwnedPartition:
    """A partition of this member. `work` is None while nothing is known of where its log begins.

    `written` is what the latest commit says, `end` the log's end at that time. `still_at` is where reading stands still
    before that end, since `still_s` of the monotonic clock. Nothing is given out once the `lease` has run out.
    """

    origin: RecordOrigin
    identity: CommitIdentity
    rule: CommitRule
    work: PartitionWork[ReadRecord] | None
    written: CommitState | None
    is_paused: bool = False
    is_gone: bool = False
    end: int | None = None
    still_at: int | None = None
    still_s: float = 0.0
    lease: MemberLease = NO_LEASE
    committed_as: tuple[object, ...] = ()

    @property
    def partition(self) -> TopicPartition:
        """The partition's name on its cluster."""
        return self.origin.partition


@dataclass(slots=True, kw_only=True, eq=False)
class Task:
    """A chunk at a worker, and when it began (seconds of the monotonic clock)."""

    owned: OwnedPartition
    chunk: Chunk[ReadRecord]
    lane: str
    began_s: float


@dataclass(slots=True)
class _LaneQueue:
    partitions: deque[OwnedPartition] = field(default_factory=deque)
    record_s: float = SLICE_S


class SharedWork:
    """Gives chunks to workers by the shares of lanes, and by turns among the partitions of a lane.

    `lock` guards every partition's work, and is notified when a chunk is finished. Workers wait by themselves: one is
    woken for new work, and wakes the next where there is more.
    """

    def __init__(self, shares: LaneShares, clock: Clock) -> None:
        lock = threading.RLock()
        self.lock = threading.Condition(lock)
        self._workers = threading.Condition(lock)
        self.on_work: Callable[[], None] | None = None
        self._shares = shares
        self._clock = clock
        self._lanes: dict[str, _LaneQueue] = {}
        self._tasks: list[Task] = []
        self._is_stopping = False

    def now_ms(self) -> int:
        """The monotonic clock, as the pure parts count it."""
        return int(self._clock.monotonic() * 1000)

    def update_lanes(self, weights: Mapping[str, int]) -> None:
        """The lanes of a newer route."""
        with self.lock:
            self._shares.update(weights)

    def add(self, owned: OwnedPartition) -> None:
        """A partition was assigned; call with the lock."""
        self._lanes.setdefault(owned.origin.source.lane, _LaneQueue()).partitions.append(owned)

    def remove(self, partitions: Collection[OwnedPartition], wait_s: float) -> None:
        """Give out no more of these, and wait for what workers have of them, at most so long; call with the lock.

        What workers have after that is handled again by the next owner.
        """
        for owned in partitions:
            self._lanes[owned.origin.source.lane].partitions.remove(owned)
        gone = set(map(id, partitions))
        self.lock.wait_for(lambda: not any(id(task.owned) in gone for task in self._tasks), wait_s)
        for owned in partitions:
            if owned.work is not None:
                owned.work.settle_all(self.now_ms())
                owned.work.abandon()

    def announce(self) -> None:
        """There may be work: wake a worker; call with the lock."""
        self._workers.notify()
        if self.on_work is not None:
            self.on_work()

    def stop(self, wait_s: float) -> None:
        """Give out nothing more, and wait for what workers have, at most so long."""
        with self.lock:
            self._is_stopping = True
            self._workers.notify_all()
            self.announce()
            self.lock.wait_for(lambda: not self._tasks, wait_s)

    @property
    def is_stopping(self) -> bool:
        """True after `stop`."""
        return self._is_stopping

    def next(self, finished: Task | None, wait_s: float) -> Task | None:
        """Hand a finished task in and take the next one; None after `wait_s` without any, or when stopping."""
        with self.lock:
            if finished is not None:
                self._finish(finished)
            task = self._take()
            if task is None and wait_s and not self._is_stopping:
                self._workers.wait(wait_s)
                task = self._take()
            if task is not None and self._ready(self.now_ms()):
                self.announce()
            return task

    def wait_for_demand(self, wait_s: float) -> None:
        """Wait, at most so long, while all workers are busy and more work is there than they have.

        Records that are read long before they are handled have left the processor's caches, and Python's collector
        looks at each of them some times.
        """
        with self.lock:
            self.lock.wait_for(lambda: not (self._shares.are_all_busy and self._ready(self.now_ms())), wait_s)

    def hand_in(self, task: Task) -> None:
        """Hand a task in without taking another."""
        with self.lock:
            self._finish(task)
            self.announce()

    def commit_of(self, owned: OwnedPartition, epoch: int, member_hash: int) -> NextCommit | None:
        """What to commit of a partition now; None where the latest commit says it already. Call with the lock."""
        work = owned.work
        if work is None:
            return None
        now_ms = self.now_ms()
        work.settle_all(now_ms)
        if work.relieve(now_ms):
            self.announce()
        says = (*work.signature, epoch)
        if says == owned.committed_as:
            return None
        made = next_commit(
            work,
            owned.identity,
            owned.rule,
            route=RouteMark(epoch=epoch, segment=owned.origin.source.segment),
            writer=Writer(member_hash=member_hash, generation=owned.lease.epoch),
        )
        owned.committed_as = says
        return made

    def _finish(self, task: Task) -> None:
        self._tasks.remove(task)
        self._shares.ended(task.lane)
        handled = task.chunk.handled
        if not task.owned.is_gone and task.owned.work is not None:
            task.owned.work.finish(task.chunk, self.now_ms())
        lane = self._lanes[task.lane]
        if handled and not task.chunk.is_again:
            took_s = (self._clock.monotonic() - task.began_s) / handled
            lane.record_s = max(took_s, lane.record_s / _GROWTH)
        self.lock.notify_all()

    def _take(self) -> Task | None:
        if self._is_stopping:
            return None
        now_ms = self.now_ms()
        ready = self._ready(now_ms)
        for name in self._shares.order(ready):
            lane = self._lanes[name]
            limit = max(1, min(_MOST, int(SLICE_S / lane.record_s))) if lane.record_s > 0 else _MOST
            for _ in range(len(lane.partitions)):
                owned = lane.partitions[0]
                lane.partitions.rotate(-1)
                chunk = owned.work.take(limit, now_ms) if owned.work is not None and _is_ours(owned, now_ms) else None
                if chunk is not None:
                    self._shares.started(name, len(chunk.offsets), ready)
                    task = Task(owned=owned, chunk=chunk, lane=name, began_s=self._clock.monotonic())
                    self._tasks.append(task)
                    return task
        return None

    def _ready(self, now_ms: int) -> list[str]:
        """The lanes that may have work."""
        return [
            name
            for name, lane in self._lanes.items()
            if any(
                owned.work is not None and _is_ours(owned, now_ms) and owned.work.has_work(now_ms)
                for owned in lane.partitions
            )
        ]


def _is_ours(owned: OwnedPartition, now_ms: int) -> bool:
    return now_ms < owned.lease.until_s * 1000
