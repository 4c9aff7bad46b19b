"""The load of a rehearsal: a producer that writes every lane of the shadow stream, and a consumer that counts."""

import threading
from collections import Counter
from functools import partial
from types import TracebackType

from kafkakit.ports.clock import Clock
from kafkakit.streams.client.api_act import ConsumerOptions, Delivery, Producer, StreamClient, StreamRecord
from kafkakit.streams.failover.decide.rehearsal import LoadFigures, Rehearsal

PAUSE_S = 0.01
SEND_WAIT_S = 5.0
END_S = 30.0
_KEYS = 100


class RehearsalLoad:
    """Writes and reads while the context is open; the number of a record is in its value. Closes the client."""

    def __init__(self, client: StreamClient, clock: Clock, rehearsal: Rehearsal, lanes: tuple[str, ...]) -> None:
        self._client, self._clock, self._rehearsal, self._lanes = client, clock, rehearsal, lanes
        self._lock = threading.Lock()
        self._open: set[int] = set()
        self._handled: Counter[int] = Counter()
        self._last_s: dict[str, float] = {}
        self._acknowledged = self._failed = self._pause_ms = 0
        self._sent, self._wrote_s = 0, 0.0
        self._stop = threading.Event()
        self._writer = threading.Thread(target=self._write, name="rehearsal-writer", daemon=True)

    def __enter__(self) -> "RehearsalLoad":
        try:
            options = ConsumerOptions(lanes=self._lanes, commit_every_s=0.5)
            shadow = self._rehearsal.shadow
            self._client.consumer(shadow, shadow, handler=self._handle, options=options).start()
            self._producer: Producer = self._client.producer(shadow)
            self._writer.start()
        except BaseException:
            self._client.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_writing()
        self._client.close()

    def end_writing(self) -> None:
        """Send no more, and wait for the answers; calling it twice is harmless."""
        self._stop.set()
        self._writer.join(END_S)
        self._producer.flush(END_S)

    def figures(self) -> LoadFigures:
        """What was done until now."""
        with self._lock:
            return LoadFigures(
                acknowledged=self._acknowledged,
                failed=self._failed,
                handled=len(self._handled),
                handled_again=self._handled.total() - len(self._handled),
                open=len(self._open),
                longest_pause_ms=self._pause_ms,
                per_s=round(self._acknowledged / self._wrote_s, 3) if self._wrote_s else 0.0,
            )

    def _write(self) -> None:
        began_s, padding = self._clock.monotonic(), bytes(max(0, self._rehearsal.record_bytes - 20))
        while not self._stop.wait(PAUSE_S):
            while not self._stop.is_set() and self._sent < self._wrote_s * self._rehearsal.per_s:
                number, lane = self._sent, self._lanes[self._sent % len(self._lanes)]
                value, key = b"%020d" % number + padding, b"%d" % (number % _KEYS)
                delivery = self._producer.send(value, key, lane=lane, wait_s=SEND_WAIT_S)
                delivery.add_done_callback(partial(self._note, number, lane))
                self._sent += 1
            self._wrote_s = self._clock.monotonic() - began_s

    def _note(self, number: int, lane: str, delivery: Delivery) -> None:
        """The callback must not wait: its lock is held for moments only."""
        now_s = self._clock.monotonic()
        with self._lock:
            if delivery.exception() is not None:
                self._failed += 1
                return
            self._acknowledged += 1
            self._pause_ms = max(self._pause_ms, round((now_s - self._last_s.get(lane, now_s)) * 1000))
            self._last_s[lane] = now_s
            if number not in self._handled:
                self._open.add(number)

    def _handle(self, record: StreamRecord) -> None:
        number = int((record.value or b"")[:20])
        with self._lock:
            self._handled[number] += 1
            self._open.discard(number)
