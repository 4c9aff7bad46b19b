"""What a worker of the Assigner measures of itself."""

from collections.abc import Callable

from kafkakit.ports.clock import Clock
from kafkakit.streams.client.decide.work_grants import WorkerReading

EVERY_S = 2.0


class WorkerMeter:
    """`cpu_s` is the process's CPU time so far, `memory_bytes` its memory, `handled` the records it has handled."""

    def __init__(
        self, clock: Clock, cpu_s: Callable[[], float], memory_bytes: Callable[[], int], handled: Callable[[], int]
    ) -> None:
        self._clock, self._cpu_s, self._memory_bytes, self._handled = clock, cpu_s, memory_bytes, handled
        self._last = (clock.monotonic(), cpu_s(), 0)
        self._reading = WorkerReading()

    def read(self) -> WorkerReading:
        """The averages of the last 2 s; any thread may ask, one at a time."""
        now_s = self._clock.monotonic()
        before_s, before_cpu_s, before = self._last
        if now_s - before_s >= EVERY_S:
            self._last = (now_s, self._cpu_s(), self._handled())
            span_s = now_s - before_s
            self._reading = WorkerReading(
                cpu=round(max(0.0, self._last[1] - before_cpu_s) / span_s, 3),
                memory_bytes=self._memory_bytes(),
                records_per_s=round(max(0, self._last[2] - before) / span_s, 1),
            )
        return self._reading
