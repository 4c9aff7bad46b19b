"""Records as handlers get them, and the workers that handle them.

The work of all partitions of a consumer lies behind one lock: readers put records in, workers take chunks out. Workers
are threads that run synchronous handlers, and tasks of an event loop that run asynchronous ones. However one of them
ends, the consumer learns of it in one place.
"""

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import repeat
from operator import index as integer
from operator import methodcaller
from types import CoroutineType
from typing import Any, overload

from kafkakit.core.errors import KafkakitError, OperationFailedError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import headers_of
from kafkakit.ports.acting import Clock
from kafkakit.ports.streams import NO_LEASE, MemberLease, ReadRecord
from kafkakit.streams.client.decide.figures import ConsumerState
from kafkakit.streams.client.decide.partition_work import (
    CommitRule,
    NextCommit,
    PartitionWork,
    RecordFields,
    next_commit,
)
from kafkakit.streams.client.decide.reading import Chunk, LaneShares, TopicSource
from kafkakit.streams.client.decide.work_rules import NotYetError, failure_of
from kafkakit.streams.model.commit import CommitIdentity, CommitState, RouteMark, Writer

_LOG = logging.getLogger("kafkakit.streams.client")
EXITS = (SystemExit, KeyboardInterrupt)
"""What a callback raises to end the process: it ends the consumer, and no record is tried again for it."""


class WrongReturnError(TypeError):
    """A handler returned what means nothing: a fault of the program, which no further try mends."""


class ConsumerLifecycle:
    """Where every thread and task of a consumer ends; thread-safe. The first error is the reason why it failed."""

    def __init__(self, name: str) -> None:
        self.stopping = threading.Event()
        self.error: BaseException | None = None
        self._name = name
        self._lock = threading.Lock()
        self._is_new, self._is_running, self._is_raised = True, False, False

    @property
    def state(self) -> ConsumerState:
        """Failed from the first error on; running until the last thread was told to end."""
        if self.error is not None:
            return ConsumerState.FAILED
        return ConsumerState.RUNNING if self._is_running else ConsumerState.STOPPED

    @property
    def reason(self) -> str:
        """Why it failed; empty while it did not."""
        error = self.error
        if error is None:
            return ""
        failure = failure_of(error)
        return failure.text if isinstance(error, KafkakitError) else f"{failure.error}: {failure.text}".rstrip(": ")

    def begin(self) -> None:
        """It starts; `UsageError` after the first time, and after its end."""
        with self._lock:
            if not self._is_new:
                raise UsageError("a consumer can be started only once", hint="make another one of the client")
            self._is_new, self._is_running = False, True

    def fail(self, error: BaseException) -> None:
        """A part of it ended by an error: it stops, and says why."""
        with self._lock:
            if self.error is not None:
                return
            self.error = error
        is_told = isinstance(error, (*EXITS, KafkakitError))
        _LOG.error("%s failed and stops: %s", self._name, self.reason, exc_info=None if is_told else error)
        self.stopping.set()

    def ended(self) -> None:
        """Nothing of it is running any more, but for what hangs."""
        with self._lock:
            self._is_new = self._is_running = False

    def thread(self, name: str, target: Callable[[], object]) -> threading.Thread:
        """A thread of the consumer, not started; whatever ends it but its return fails the consumer."""

        def run() -> None:
            try:
                target()
            except BaseException as error:
                self.fail(error)

        return threading.Thread(target=run, name=name, daemon=True)

    def raise_error(self) -> None:
        """Raise why it failed, if it did."""
        if self.error is not None:
            self._is_raised = True
            raise self.error

    def raise_once(self) -> None:
        """Raise why it failed, unless that was raised before."""
        if not self._is_raised:
            self.raise_error()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOrigin:
    """Where records come from: stream, lane, segment, cluster and partition."""

    stream: str
    source: TopicSource
    partition: TopicPartition


class StreamRecord(tuple[ReadRecord, PartitionOrigin, int]):
    """One record of a stream. Its parts are read from the client's memory when they are asked for.

    A tuple of the client's record, its origin and its tries, since there are a million of them in a second.
    """

    __slots__ = ()

    @property
    def origin(self) -> PartitionOrigin:
        """Where it comes from."""
        return self[1]

    @property
    def tries(self) -> int:
        """How often its handling failed before."""
        return self[2]

    @property
    def offset(self) -> int:
        """Its place in the partition."""
        return self[0].offset()

    @property
    def key(self) -> Any:
        """Its key: bytes, or what the consumer's deserializer made of them."""
        return self[0].key()

    @property
    def value(self) -> Any:
        """Its value: bytes, None for a tombstone, or what the consumer's deserializer made of it."""
        return self[0].value()

    @property
    def timestamp_ms(self) -> int | None:
        """Its time; None where it has none."""
        kind, time_ms = self[0].timestamp()
        return time_ms if kind else None

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """Its headers, in order; names may repeat."""
        return headers_of(self[0])

    @property
    def lane(self) -> str:
        """The lane that it came by."""
        return self[1].source.lane


def readable_headers(record: StreamRecord) -> Sequence[tuple[str, bytes | None]]:
    """Its headers, none where the client cannot read their names: for what must not fail the record."""
    try:
        return record.headers
    except Exception:
        return ()


FIELDS: RecordFields[ReadRecord] = RecordFields(
    time_ms=lambda record: max(0, record.timestamp()[1]), key=methodcaller("key"), size=len
)


class StreamRecords(Sequence[StreamRecord]):
    """Records of one origin, with the tries of all or of each.

    Each is made when it is asked for, so that thousands of them cost no memory.
    """

    __slots__ = ("_origin", "_reads", "_tries")

    def __init__(self, reads: Sequence[ReadRecord], origin: PartitionOrigin, tries: int | Sequence[int]) -> None:
        self._reads, self._origin, self._tries = reads, origin, tries

    def __len__(self) -> int:
        return len(self._reads)

    def __iter__(self) -> Iterator[StreamRecord]:
        tries = repeat(self._tries) if isinstance(self._tries, int) else self._tries
        return map(StreamRecord, zip(self._reads, repeat(self._origin), tries, strict=False))

    @overload
    def __getitem__(self, at: int) -> StreamRecord: ...

    @overload
    def __getitem__(self, at: slice) -> "StreamRecords": ...

    def __getitem__(self, at: int | slice) -> "StreamRecord | StreamRecords":
        tries = self._tries
        if isinstance(at, slice):
            return StreamRecords(self._reads[at], self._origin, tries if isinstance(tries, int) else tries[at])
        return StreamRecord((self._reads[at], self._origin, tries if isinstance(tries, int) else tries[at]))


SLICE_S = 0.02
"""How long a worker is to be busy with one chunk, by what earlier records of the lane took."""
_MOST = 2_000
_GROWTH = 4


@dataclass(slots=True, kw_only=True, eq=False)
class OwnedPartition:
    """A partition of this member. `work` is None while nothing is known of where its log begins.

    `written` is what the latest commit says, `end` the log's end at that time. `still_at` is where reading stands still
    before that end, since `still_s` of the monotonic clock. Nothing is given out once the `lease` has run out. One that
    `is_queued` may have records that are not done.
    """

    origin: PartitionOrigin
    identity: CommitIdentity
    rule: CommitRule
    work: PartitionWork[ReadRecord] | None
    written: CommitState | None
    is_paused: bool = False
    is_gone: bool = False
    is_queued: bool = False
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
class HandlerTask:
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
    """Gives chunks to workers by the shares of lanes, and by turns among the partitions of a lane that hold records.

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
        self._tasks: list[HandlerTask] = []
        self._is_stopping = False

    def now_ms(self) -> int:
        """The monotonic clock, as the pure parts count it."""
        return int(self._clock.monotonic() * 1000)

    def update_lanes(self, weights: Mapping[str, int]) -> None:
        """The lanes of a newer route."""
        with self.lock:
            self._shares.update(weights)

    def add(self, owned: OwnedPartition) -> None:
        """Records of a partition were read; call with the lock. Those without any cost nothing."""
        if not owned.is_queued:
            owned.is_queued = True
            self._lanes.setdefault(owned.origin.source.lane, _LaneQueue()).partitions.append(owned)

    def remove(self, partitions: Collection[OwnedPartition], wait_s: float) -> None:
        """Give out no more of these, and wait for what workers have of them, at most so long; call with the lock.

        What workers have after that is handled again by the next owner.
        """
        for owned in partitions:
            if owned.is_queued:
                owned.is_queued = False
                self._lanes[owned.origin.source.lane].partitions.remove(owned)
        gone = set(map(id, partitions))
        self.lock.wait_for(lambda: not any(id(task.owned) in gone for task in self._tasks), wait_s)
        for owned in partitions:
            if owned.work is not None:
                owned.work.settle_all(self.now_ms())
                owned.work.abandon()

    def hanging(self, limit_s: float) -> Iterator[str]:
        """Partitions of which a handler has had a record for longer than that; call with the lock."""
        now_s = self._clock.monotonic()
        for task in self._tasks:
            chunk, for_s = task.chunk, now_s - task.began_s
            if for_s >= limit_s and chunk.handled < len(chunk.offsets):
                offset = chunk.offsets[chunk.handled]
                yield f"{task.owned.partition} at {offset}: a handler has not returned for {for_s:.0f} s"

    def announce(self) -> None:
        """There may be work: wake a worker; call with the lock."""
        self._workers.notify()
        if self.on_work is not None:
            self.on_work()

    def announce_work(self) -> None:
        """Wake a worker if there is work: a time may have come; call with the lock."""
        if self._ready(self.now_ms()):
            self.announce()

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

    def next(self, finished: HandlerTask | None, wait_s: float) -> HandlerTask | None:
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

    def hand_in(self, task: HandlerTask) -> None:
        """Hand a task in without taking another."""
        with self.lock:
            self._finish(task)
            self.announce()

    def commit_of(self, owned: OwnedPartition, epoch: int, member_hash: int) -> NextCommit | None:
        """What to commit of a partition now; None where the latest commit says it already. Call with the lock."""
        work = owned.work
        if work is None:
            return None
        work.settle_all(self.now_ms())
        if work.relieve():
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

    def _finish(self, task: HandlerTask) -> None:
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

    def _take(self) -> HandlerTask | None:
        if self._is_stopping:
            return None
        now_ms = self.now_ms()
        ready = self._ready(now_ms)
        for name in self._shares.order(ready):
            lane = self._lanes[name]
            limit = max(1, min(_MOST, int(SLICE_S / lane.record_s))) if lane.record_s > 0 else _MOST
            for _ in range(len(lane.partitions)):
                owned = lane.partitions[0]
                if owned.work is None or not owned.work.buffered_records:
                    owned.is_queued = False
                    lane.partitions.popleft()
                    continue
                lane.partitions.rotate(-1)
                chunk = owned.work.take(limit, now_ms) if _is_ours(owned, now_ms) else None
                if chunk is not None:
                    self._shares.started(name, len(chunk.offsets), ready)
                    task = HandlerTask(owned=owned, chunk=chunk, lane=name, began_s=self._clock.monotonic())
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


Handler = Callable[[StreamRecord], object]
AsyncHandler = Callable[[StreamRecord], Awaitable[object]]
BatchHandler = Callable[[Sequence[StreamRecord]], Mapping[int, BaseException] | None]
"""Handles records in order and returns errors by position, or None; an error that it raises fails them all.

Where records have an order, the later ones of a failed one's key are handled again.
"""
Checkpoint = Callable[[StreamRecord], object]
"""Called before each record is handled."""
_WAIT_S = 0.5
_LONGEST_S = 4 * SLICE_S
_LONG = 200


class ThreadWorkers:
    """So many threads with a synchronous handler: of single records, or of batches."""

    def __init__(
        self,
        shared: SharedWork,
        clock: Clock,
        *,
        handler: Handler | None,
        batch_handler: BatchHandler | None,
        checkpoint: Checkpoint | None,
        count: int,
        lifecycle: ConsumerLifecycle,
    ) -> None:
        self._shared = shared
        self._clock = clock
        self._handler = handler
        self._batch_handler = batch_handler
        self._checkpoint = checkpoint
        self._threads = [lifecycle.thread(f"kafkakit-worker-{n}", self._work) for n in range(count)]

    def start(self) -> None:
        """Begin to handle."""
        for thread in self._threads:
            thread.start()

    def _work(self) -> None:
        task: HandlerTask | None = None
        while not self._shared.is_stopping or task is not None:
            task = self._shared.next(task, _WAIT_S)
            if task is None:
                continue
            try:
                if self._batch_handler is not None:
                    self._handle_batch(task, self._batch_handler)
                elif self._handler is not None:
                    self._handle_each(task, self._handler)
            except BaseException:
                self._shared.hand_in(task)
                raise

    def _handle_each(self, task: HandlerTask, handler: Handler) -> None:
        """One after another, for a bounded time: what is left goes back to the others."""
        chunk, origin, monotonic = task.chunk, task.owned.origin, self._clock.monotonic
        checkpoint, skipped = self._checkpoint, chunk.skipped
        deadline_s = task.began_s + _LONGEST_S
        # A long chunk is one of a fast handler: its time is looked at, and its records count, 16 at a time.
        often = 0 if len(chunk.records) < _LONG else 15
        for index, record in enumerate(StreamRecords(chunk.records, origin, chunk.tries)):
            if not skipped or index not in skipped:
                try:
                    if checkpoint is not None:
                        checkpoint(record)
                    if (returned := handler(record)) is not None:
                        check_returned(returned)
                except (*EXITS, WrongReturnError):
                    chunk.handled = index
                    raise
                except BaseException as error:
                    chunk.failed(index, failure_of(error))
            if index & often:
                continue
            chunk.handled = index + 1
            if monotonic() > deadline_s:
                return
        chunk.handled = len(chunk.records)

    def _handle_batch(self, task: HandlerTask, handler: BatchHandler) -> None:
        chunk, origin = task.chunk, task.owned.origin
        records = StreamRecords(chunk.records, origin, chunk.tries)
        try:
            early = self._before(records)
            if early:  # the others come back one by one, and at once
                for index in range(len(records)):
                    chunk.failed(index, failure_of(early.get(index, NotYetError(0))))
                chunk.handled = len(records)
                return
            returned = handler(records)
        except (*EXITS, WrongReturnError):
            raise
        except BaseException as error:
            failed = dict.fromkeys(range(len(records)), error)
        else:
            failed = failed_positions(returned, len(records))
        for index in sorted(failed):
            if index not in chunk.skipped:
                chunk.failed(index, failure_of(failed[index]))
        chunk.handled = len(records)

    def _before(self, records: StreamRecords) -> dict[int, NotYetError]:
        """Call the checkpoint for each record; those whose time has not come."""
        early = {}
        for index, record in enumerate(records if self._checkpoint is not None else ()):
            try:
                self._checkpoint(record)  # type: ignore[misc]
            except NotYetError as error:
                early[index] = error
        return early


def check_returned(returned: object) -> None:
    """`WrongReturnError` for a coroutine, of which nothing has run: its record would count as done."""
    if isinstance(returned, CoroutineType):
        returned.close()
        raise WrongReturnError("the handler is asynchronous and was not awaited; give it as async_handler")


def failed_positions(returned: object, count: int) -> dict[int, BaseException]:
    """The errors of a batch of so many records by position, as its handler returned them; `WrongReturnError` else."""
    if returned is None:
        return {}
    check_returned(returned)
    wanted = "a batch_handler returns None, or a mapping of positions in its records to errors"
    if not isinstance(returned, Mapping):
        raise WrongReturnError(f"{wanted}, not {_of_type(returned)}")
    failed = {}
    for key, error in returned.items():
        try:
            position = -1 if isinstance(key, bool) else integer(key)
        except TypeError:
            position = -1
        if not 0 <= position < count:
            raise WrongReturnError(f"{wanted}; {_of_type(key)} is not a position among {count} (0 to {count - 1})")
        if not isinstance(error, BaseException):
            raise WrongReturnError(f"{wanted}; {_of_type(error)} at {position} is not an error")
        failed[position] = error
    return failed


def _of_type(value: object) -> str:
    """A value in a message: its type, and what it is if it is a number."""
    name = type(value).__name__
    return f"{name} {value}" if type(value) in (int, float, bool) else f"a value of type {name}"


class TaskWorkers:
    """So many tasks of the running event loop with an asynchronous handler."""

    def __init__(
        self,
        shared: SharedWork,
        clock: Clock,
        *,
        handler: AsyncHandler,
        checkpoint: Checkpoint | None,
        count: int,
        lifecycle: ConsumerLifecycle,
        limit_s: float = 0.0,
    ) -> None:
        self._shared, self._lifecycle = shared, lifecycle
        self._clock = clock
        self._handler = handler
        self._checkpoint = checkpoint
        self._count, self._limit_s = count, limit_s or None

    async def run(self) -> None:
        """Handle until the work is stopped; raises nothing, since what ends a task of it fails the consumer."""
        loop = asyncio.get_running_loop()
        wake = asyncio.Event()

        def announce() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(wake.set)

        self._shared.on_work = announce
        try:
            await asyncio.gather(*(self._guarded(wake) for _ in range(self._count)))
        finally:
            self._shared.on_work = None

    async def _guarded(self, wake: asyncio.Event) -> None:
        """An exit must not leave the task: it would end the loop before the consumer is closed."""
        try:
            await self._work(wake)
        except asyncio.CancelledError:
            if not self._shared.is_stopping:
                self._lifecycle.fail(OperationFailedError("a task of the consumer was cancelled by the application"))
        except BaseException as error:
            self._lifecycle.fail(error)

    async def _work(self, wake: asyncio.Event) -> None:
        task: HandlerTask | None = None
        while not self._shared.is_stopping or task is not None:
            wake.clear()
            task = self._shared.next(task, 0.0)
            if task is not None:
                try:
                    await self._handle(task)
                except BaseException:
                    self._shared.hand_in(task)
                    raise
                continue
            try:
                await asyncio.wait_for(wake.wait(), _WAIT_S)
            except TimeoutError:
                continue

    async def _handle(self, task: HandlerTask) -> None:
        chunk, origin = task.chunk, task.owned.origin
        deadline_s, cancelled = task.began_s + _LONGEST_S, _times_cancelled()
        for index, record in enumerate(StreamRecords(chunk.records, origin, chunk.tries)):
            if index not in chunk.skipped:
                try:
                    if self._checkpoint is not None:
                        self._checkpoint(record)
                    if self._limit_s is None:
                        await checked_awaitable(self._handler(record))
                    else:
                        async with asyncio.timeout(self._limit_s):
                            await checked_awaitable(self._handler(record))
                except (*EXITS, WrongReturnError):
                    raise
                except BaseException as error:
                    if isinstance(error, asyncio.CancelledError) and _times_cancelled() > cancelled:
                        raise  # the task itself is cancelled, and not something that the handler awaited
                    chunk.failed(index, failure_of(error))
            chunk.handled = index + 1
            if self._clock.monotonic() > deadline_s:
                return


def checked_awaitable(returned: Awaitable[object]) -> Awaitable[object]:
    """What an asynchronous handler returned; `WrongReturnError` for one that was not asynchronous."""
    if not inspect.isawaitable(returned):
        raise WrongReturnError(f"an async_handler returns what can be awaited, not {_of_type(returned)}")
    return returned


def _times_cancelled() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
