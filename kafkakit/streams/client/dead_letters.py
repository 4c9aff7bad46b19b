"""Writing rejected records elsewhere, until each is durable there: before that no commit passes it."""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kafkakit.ports.clock import Clock
from kafkakit.ports.stream_consumer import ReadRecord
from kafkakit.streams.client.decide.failures import Rejection
from kafkakit.streams.client.records import StreamRecord
from kafkakit.streams.client.shared_work import OwnedPartition, SharedWork

_FIRST_S, _MOST_S = 0.1, 5.0
_SINK_AGAIN_S = 30.0
"""How long a spare takes what a sink could not: each try of the sink may wait as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRecord:
    """A record for the dead-letter lane: what it was, why it was rejected after how many tries, when, and by what."""

    record: StreamRecord
    reason: str
    tries: int
    error: str
    text: str
    group: str
    epoch: int
    at_ms: int


RejectSink = Callable[[RejectedRecord], object]
"""Writes a rejected record and returns when it is durable; an error means that it may not be, and it is repeated."""


class DeadLetters:
    """One thread that writes rejected records in order, and repeats what fails until it succeeds or is taken away.

    While `sink` fails, records of a partition that is full, and so not fetched, go to `spare`, if there is one. A
    record may be written twice: after an error that came too late, and after a crash before the next commit.
    """

    def __init__(
        self,
        sink: RejectSink,
        shared: SharedWork,
        clock: Clock,
        group: str,
        epoch: Callable[[], int],
        spare: RejectSink | None = None,
    ) -> None:
        self.failures = 0
        self.written = 0
        self.last_error: str | None = None
        self._sink, self._spare = sink, spare
        self._sink_from_s = 0.0
        self._shared = shared
        self._clock = clock
        self._group = group
        self._epoch = epoch
        self._queue: deque[tuple[OwnedPartition, Rejection[ReadRecord]]] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="kafkakit-dead-letters", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def add(self, owned: OwnedPartition, rejections: Iterable[Rejection[ReadRecord]]) -> None:
        """Queue rejected records of a partition."""
        with self._changed:
            self._queue.extend((owned, rejection) for rejection in rejections)
            self._changed.notify_all()

    def wait_empty(self, wait_s: float) -> bool:
        """Wait until all that is queued was written; False after `wait_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queue, wait_s)

    def close(self) -> None:
        """Write no more; what is queued stays rejected in the commits, and is written after a restart."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        delay_s = _FIRST_S
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._is_closed)
                if self._is_closed:
                    return
                owned, rejection = self._queue[0]
            if not owned.is_gone and not self._write(owned, rejection):
                with self._changed:
                    self._changed.wait_for(lambda: self._is_closed, delay_s)
                delay_s = min(2 * delay_s, _MOST_S)
                continue
            delay_s = _FIRST_S
            with self._changed:
                self._queue.popleft()
                self._changed.notify_all()

    def _write(self, owned: OwnedPartition, rejection: Rejection[ReadRecord]) -> bool:
        rejected = RejectedRecord(
            record=StreamRecord((rejection.record, owned.origin, rejection.tries)),
            reason=rejection.reason.value,
            tries=rejection.tries,
            error=rejection.error,
            text=rejection.text,
            group=self._group,
            epoch=self._epoch(),
            at_ms=int(self._clock.now().timestamp() * 1000),
        )
        spare = self._spare if owned.is_paused else None
        if spare is None or self._clock.monotonic() >= self._sink_from_s:
            is_written = self._written(self._sink, rejected)
            self._sink_from_s = 0.0 if is_written else self._clock.monotonic() + _SINK_AGAIN_S
        else:
            is_written = False
        if not is_written and (spare is None or not self._written(spare, rejected)):
            return False
        with self._shared.lock:
            if owned.work is not None:
                owned.work.rejection_is_durable(rejection.offset)
            self._shared.lock.notify_all()
        return True

    def _written(self, sink: RejectSink, rejected: RejectedRecord) -> bool:
        try:
            sink(rejected)
        except Exception as error:
            self.failures += 1
            self.last_error = f"{type(error).__name__}: {error}"
            return False
        self.written += 1
        return True
