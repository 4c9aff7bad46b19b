"""Workers: threads that run synchronous handlers, and tasks of an event loop that run asynchronous ones."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence

from kafkakit.ports.clock import Clock
from kafkakit.streams.client.decide.failures import failure_of
from kafkakit.streams.client.records import StreamRecord, StreamRecords
from kafkakit.streams.client.shared_work import SLICE_S, SharedWork, Task

Handler = Callable[[StreamRecord], object]
AsyncHandler = Callable[[StreamRecord], Awaitable[object]]
BatchHandler = Callable[[Sequence[StreamRecord]], Mapping[int, BaseException] | None]
"""Handles records in order and returns those that failed, by position; an error that it raises fails them all.

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
    ) -> None:
        self._shared = shared
        self._clock = clock
        self._handler = handler
        self._batch_handler = batch_handler
        self._checkpoint = checkpoint
        self._threads = [
            threading.Thread(target=self._work, name=f"kafkakit-worker-{n}", daemon=True) for n in range(count)
        ]

    def start(self) -> None:
        """Begin to handle."""
        for thread in self._threads:
            thread.start()

    def _work(self) -> None:
        task: Task | None = None
        while not self._shared.is_stopping or task is not None:
            task = self._shared.next(task, _WAIT_S)
            if task is None:
                continue
            if self._batch_handler is not None:
                self._handle_batch(task, self._batch_handler)
            elif self._handler is not None:
                self._handle_each(task, self._handler)

    def _handle_each(self, task: Task, handler: Handler) -> None:
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
                    handler(record)
                except BaseException as error:
                    chunk.failed(index, failure_of(error))
            if index & often:
                continue
            chunk.handled = index + 1
            if monotonic() > deadline_s:
                return
        chunk.handled = len(chunk.records)

    def _handle_batch(self, task: Task, handler: BatchHandler) -> None:
        chunk, origin = task.chunk, task.owned.origin
        records = StreamRecords(chunk.records, origin, chunk.tries)
        try:
            for record in records if self._checkpoint is not None else ():
                self._checkpoint(record)  # type: ignore[misc]
            failed = handler(records) or {}
        except BaseException as error:
            failed = dict.fromkeys(range(len(records)), error)
        for index in sorted(failed):
            if 0 <= index < len(records) and index not in chunk.skipped:
                chunk.failed(index, failure_of(failed[index]))
        chunk.handled = len(records)


class TaskWorkers:
    """So many tasks of the running event loop with an asynchronous handler."""

    def __init__(
        self, shared: SharedWork, clock: Clock, *, handler: AsyncHandler, checkpoint: Checkpoint | None, count: int
    ) -> None:
        self._shared = shared
        self._clock = clock
        self._handler = handler
        self._checkpoint = checkpoint
        self._count = count

    async def run(self) -> None:
        """Handle until the work is stopped."""
        loop = asyncio.get_running_loop()
        wake = asyncio.Event()

        def announce() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(wake.set)

        self._shared.on_work = announce
        try:
            await asyncio.gather(*(self._work(wake) for _ in range(self._count)))
        finally:
            self._shared.on_work = None

    async def _work(self, wake: asyncio.Event) -> None:
        task: Task | None = None
        while not self._shared.is_stopping or task is not None:
            wake.clear()
            task = self._shared.next(task, 0.0)
            if task is not None:
                await self._handle(task)
                continue
            try:
                await asyncio.wait_for(wake.wait(), _WAIT_S)
            except TimeoutError:
                continue

    async def _handle(self, task: Task) -> None:
        chunk, origin = task.chunk, task.owned.origin
        deadline_s = task.began_s + _LONGEST_S
        for index, record in enumerate(StreamRecords(chunk.records, origin, chunk.tries)):
            if index not in chunk.skipped:
                try:
                    if self._checkpoint is not None:
                        self._checkpoint(record)
                    await self._handler(record)
                except asyncio.CancelledError:
                    self._shared.hand_in(task)
                    raise
                except Exception as error:
                    chunk.failed(index, failure_of(error))
            chunk.handled = index + 1
            if self._clock.monotonic() > deadline_s:
                return
