"""Dual writes: each record goes to two streams under one id, so that `reconcile` can compare them.

With BOTH, a record whose delivery succeeded is on both sides; after any failure or crash it may be on one. With
PRIMARY_THEN_REPAIR and SHADOW, a delivery is that of the primary alone. The repair queue is memory: a crash, or a
`close` that cannot empty it, leaves those records on the primary only, and so does each that did not fit into it.
`reconcile` (`kafkakit.streams.model.record_identity`) and `kafkakit streams reconcile` find all of these by their ids.
"""

import threading
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Unpack

from kafkakit.core.deliveries import OutgoingRecord
from kafkakit.core.errors import KafkakitError
from kafkakit.ports.clock import Clock
from kafkakit.streams.client.decide.figures import ProducerMetrics
from kafkakit.streams.client.decide.outgoing import record_bytes
from kafkakit.streams.client.decide.send_errors import DualWriteError
from kafkakit.streams.client.delivery import Delivery, settle
from kafkakit.streams.client.producer import SEND_WAIT_S, Producer, RecordParts, Unacknowledged

REPAIR_BATCH = 500
REPAIR_AGAIN_S = 1.0
JOIN_S = 5.0


class DualPolicy(StrEnum):
    """When a delivery succeeds: BOTH once both sides have the record, the others once the primary has it.

    PRIMARY_THEN_REPAIR then writes it to the secondary, in the order of acknowledgement, until that succeeds. SHADOW
    sends to both at once and only counts what fails on the secondary.
    """

    BOTH = "both"
    PRIMARY_THEN_REPAIR = "primary-then-repair"
    SHADOW = "shadow"


@dataclass(slots=True, kw_only=True)
class DualFigures:
    """The secondary's side: records acknowledged there, failed there, waiting for repair, and dropped by the queue."""

    written: int = 0
    failed: int = 0
    repair_waiting: int = 0
    repair_dropped: int = 0


class DualProducer:
    """Two producers as one, with the primary's lanes and time limits. Closes both."""

    def __init__(
        self, primary: Producer, secondary: Producer, policy: DualPolicy, clock: Clock, repair_bytes: int = 64 << 20
    ) -> None:
        self.primary, self.secondary, self._policy, self._clock = primary, secondary, policy, clock
        self.prepared = primary.prepared
        self._repair_limit, self._repair_bytes = repair_bytes, 0
        self._changed = threading.Condition()
        self._repairs: deque[tuple[OutgoingRecord, str]] = deque()
        self._figures = DualFigures()
        self._is_closed = False
        self._repairer = threading.Thread(target=self._repair, name="kafkakit-repair", daemon=True)
        if policy is DualPolicy.PRIMARY_THEN_REPAIR:
            self._repairer.start()

    def send(
        self,
        value: bytes | None,
        key: bytes | None = None,
        *,
        lane: str | None = None,
        wait_s: float = SEND_WAIT_S,
        **parts: Unpack[RecordParts],
    ) -> Delivery:
        """Hand over a record; raises as `Producer.send` for the primary, and with BOTH for the secondary."""
        return self.send_record(self.prepared(value, key, **parts), lane=lane, wait_s=wait_s)

    def send_record(self, record: OutgoingRecord, *, lane: str | None = None, wait_s: float = SEND_WAIT_S) -> Delivery:
        """Send what `prepared` made; raises as `send`."""
        first = self.primary.send_record(record, lane=lane, wait_s=wait_s)
        if self._policy is DualPolicy.PRIMARY_THEN_REPAIR:
            first.add_done_callback(partial(self._queue_repair, record))
            return first
        second = self._sent_to_secondary(record, lane, wait_s if self._policy is DualPolicy.BOTH else 0)
        return _both(first, second) if self._policy is DualPolicy.BOTH else first

    def flush(self, timeout_s: float) -> Unacknowledged:
        """Wait for both sides and the repairs; what is missing, with the secondary's lanes as `secondary/LANE`."""
        until_s = self._clock.monotonic() + timeout_s
        first = self.primary.flush(timeout_s)
        with self._changed:
            while self._repairs and (left_s := until_s - self._clock.monotonic()) > 0:
                self._changed.wait(left_s)
            waiting = len(self._repairs)
        return _together(first, self.secondary.flush(max(0.0, until_s - self._clock.monotonic())), waiting)

    def close(self, timeout_s: float = 30.0) -> Unacknowledged:
        """Flush, then give up what has no answer; records in the repair queue stay on the primary alone."""
        self.flush(timeout_s)
        with self._changed:
            self._is_closed, waiting = True, len(self._repairs)
            self._changed.notify_all()
        first, second = self.primary.close(0), self.secondary.close(0)
        if self._repairer.is_alive():
            self._repairer.join(JOIN_S)
        return _together(first, second, waiting)

    def metrics(self) -> ProducerMetrics:
        """The primary's."""
        return self.primary.metrics()

    def figures(self) -> DualFigures:
        """The secondary's side; `secondary.metrics()` has the rest."""
        with self._changed:
            found = self._figures
            return DualFigures(
                written=found.written,
                failed=found.failed,
                repair_waiting=len(self._repairs),
                repair_dropped=found.repair_dropped,
            )

    def __enter__(self) -> "DualProducer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _sent_to_secondary(self, record: OutgoingRecord, lane: str | None, wait_s: float) -> Delivery:
        try:
            delivery = self.secondary.send_record(record, lane=lane, wait_s=wait_s)
        except KafkakitError as error:
            delivery = Delivery()
            settle([(delivery, error)])
        delivery.add_done_callback(self._count)
        return delivery

    def _count(self, delivery: Delivery) -> None:
        with self._changed:
            has_failed = delivery.exception() is not None
            self._figures.failed += has_failed
            self._figures.written += not has_failed

    def _queue_repair(self, record: OutgoingRecord, first: Delivery) -> None:
        if first.exception() is not None:
            return
        size = record_bytes(record)
        with self._changed:
            if self._is_closed or self._repair_bytes + size > self._repair_limit:
                self._figures.repair_dropped += 1
                return
            self._repairs.append((record, first.result().lane))
            self._repair_bytes += size
            self._changed.notify_all()

    def _repair(self) -> None:
        while True:
            with self._changed:
                while not self._repairs and not self._is_closed:
                    self._changed.wait(1.0)
                if self._is_closed:
                    return
                batch = [self._repairs[at] for at in range(min(len(self._repairs), REPAIR_BATCH))]
            deliveries = [self._sent_to_secondary(record, lane, SEND_WAIT_S) for record, lane in batch]
            failures = [at for at, delivery in enumerate(deliveries) if delivery.exception() is not None]
            # What follows a record that failed is written again after it, so that the last record of a key stays last.
            done = failures[0] if failures else len(batch)
            with self._changed:
                for _ in range(done):
                    record, _lane = self._repairs.popleft()
                    self._repair_bytes -= record_bytes(record)
                self._changed.notify_all()
                if failures and not self._is_closed:
                    self._changed.wait(REPAIR_AGAIN_S)


def _both(first: Delivery, second: Delivery) -> Delivery:
    """Done when both are, with the primary's place."""
    joined = Delivery()
    lock, left = threading.Lock(), [2]

    def count_down(_: object) -> None:
        with lock:
            left[0] -= 1
            if left[0]:
                return
        errors = first.exception(), second.exception()
        settle([(joined, first.result() if errors == (None, None) else DualWriteError(*errors))])

    first.add_done_callback(count_down)
    second.add_done_callback(count_down)
    return joined


def _together(first: Unacknowledged, second: Unacknowledged, repairs: int) -> Unacknowledged:
    lanes = [*first.lanes, *((f"secondary/{lane}", count) for lane, count in second.lanes)]
    return Unacknowledged((*lanes, *((("secondary/repairs", repairs),) if repairs else ())))
