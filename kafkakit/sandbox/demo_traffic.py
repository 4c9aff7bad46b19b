"""The demo's traffic: a producer that keeps writing and a consumer that keeps reading while the cluster changes."""

import threading

from kafkakit.core.errors import OperationFailedError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.ports.data import DataPlane
from kafkakit.sandbox.decide.demo import Tally, tally

TOPIC = "demo-traffic"
_VALUE_BYTES = 200
_PAUSE_S = 0.025
_PER_PAUSE = 5


def make_topic(admin: ClusterAdmin, assignments: dict[int, tuple[int, ...]]) -> None:
    """Make the topic that the traffic uses: an acknowledged record is on at least two brokers."""
    error = admin.create_topic(TOPIC, assignments, {"min.insync.replicas": "2"})
    if error is not None:
        raise OperationFailedError(f"cannot make the topic {TOPIC}: {error}")


class Traffic:
    """A writing and a reading thread; `stop` ends both and compares what went in with what came out."""

    def __init__(self, plane: DataPlane, clock: Clock, partitions: int) -> None:
        self._plane = plane
        self._clock = clock
        self._partitions = [TopicPartition(TOPIC, n) for n in range(partitions)]
        self._acknowledged: list[int] = []
        self._read: list[int] = []
        self._no_more_writes = threading.Event()
        self._no_more_reads = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, name="demo-producer", daemon=True),
            threading.Thread(target=self._consume, name="demo-consumer", daemon=True),
        ]

    def start(self) -> None:
        """Begin to write and read."""
        for thread in self._threads:
            thread.start()

    @property
    def so_far(self) -> tuple[int, int]:
        """Records acknowledged and read until now."""
        return len(self._acknowledged), len(self._read)

    def stop(self, drain_s: float) -> Tally:
        """Stop writing, wait up to `drain_s` seconds for the reader to see all of it, and count."""
        writer, reader = self._threads
        self._no_more_writes.set()
        writer.join(drain_s)
        end = self._clock.monotonic() + drain_s
        while self._clock.monotonic() < end and len(set(self._read)) < len(self._acknowledged):
            self._clock.sleep(0.1)
        self._no_more_reads.set()
        reader.join(drain_s)
        return tally(self._acknowledged, self._read)

    def _write(self) -> None:
        producer = self._plane.producer(self._note)
        number = 0
        while not self._no_more_writes.is_set():
            for _ in range(_PER_PAUSE):
                value = f"{number:012d}".encode().ljust(_VALUE_BYTES, b".")
                producer.send(self._partitions[number // _PER_PAUSE % len(self._partitions)], value)
                number += 1
            self._clock.sleep(_PAUSE_S)
        producer.flush(60)

    def _note(self, record: Record) -> None:
        self._acknowledged.append(int(record.value[:12]))

    def _consume(self) -> None:
        consumer = self._plane.consumer(self._partitions)
        try:
            while not self._no_more_reads.is_set():
                self._read.extend(int(record.value[:12]) for record in consumer.poll(0.5))
        finally:
            consumer.close()
