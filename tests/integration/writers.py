"""A writer and a reader that work throughout a fault: every record that was acknowledged is read back, and counted."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from threading import Event, Lock, Thread

from kafkakit.adapters.kafka.data import KafkaData
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from tests.integration.conftest import SandboxCluster

PATIENCE_S = 180.0
_MARK = b"traffic "
_FILLING = b"."
_TOGETHER = 5  # records of a batch: each batch costs the brokers about 5 ms of CPU, with its copies and its readers


class Traffic:
    """What a writer had acknowledged by all copies in sync, and what a reader saw meanwhile, record by record."""

    def __init__(self, cluster: SandboxCluster, keys: Collection[TopicPartition], gap_s: float, size: int) -> None:
        self._data = KafkaData(cluster.bootstrap_servers, cluster.security)
        self._keys, self._gap_s, self._size = sorted(keys), gap_s, size
        self._lock, self._stop = Lock(), Event()
        self._acknowledged: set[tuple[TopicPartition, bytes]] = set()
        self._seen: Counter[tuple[TopicPartition, bytes]] = Counter()
        self._faults: list[str] = []
        self._writer = Thread(target=self._guarded, args=(self._write,))
        self._reader = Thread(target=self._guarded, args=(self._read,))

    @property
    def acknowledged(self) -> int:
        """How many records were acknowledged so far."""
        with self._lock:
            return len(self._acknowledged)

    @property
    def read(self) -> int:
        """How many different ones of our records the reader saw so far."""
        with self._lock:
            return len(self._seen)

    def start(self) -> None:
        """Begin to write and to read."""
        self._writer.start()
        self._reader.start()

    def stop(self) -> None:
        """End both; the writer waits for its last acknowledgements, the reader for all that was acknowledged."""
        self._stop.set()
        self._writer.join()
        self._reader.join()

    def check(self) -> int:
        """Assert that nothing acknowledged was lost and nothing came twice; returns how many records that were."""
        assert not self._faults, self._faults
        assert self._acknowledged, "nothing was written"
        lost = sorted(self._acknowledged - self._seen.keys())
        assert not lost, f"{len(lost)} of {len(self._acknowledged)} acknowledged records are lost, first {lost[0]}"
        twice = sorted(record for record, times in self._seen.items() if times > 1)
        assert not twice, f"{len(twice)} records are there twice, first {twice[0]}"
        return len(self._acknowledged)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # a thread's failure must reach the test
            self._faults.append(repr(error))

    def _told(self, record: Record) -> None:
        with self._lock:
            self._acknowledged.add((record.partition, _number_of(record)))

    def _write(self) -> None:
        producer = self._data.producer(on_acknowledged=self._told)
        number = 0
        while not self._stop.is_set():
            producer.send(
                self._keys[number // _TOGETHER % len(self._keys)], (_MARK + b"%d" % number).ljust(self._size, _FILLING)
            )
            number += 1
            if number % _TOGETHER == 0:
                time.sleep(self._gap_s)
        assert producer.flush(PATIENCE_S) == 0, "records were never answered"
        assert producer.failed == 0, producer.last_error

    def _read(self) -> None:
        with closing(self._data.consumer(self._keys)) as consumer:
            given_up_at: float | None = None
            while given_up_at is None or time.monotonic() < given_up_at:
                found = consumer.poll(0.5)
                with self._lock:
                    self._seen.update((r.partition, _number_of(r)) for r in found if r.value.startswith(_MARK))
                    behind = bool(self._acknowledged - self._seen.keys())
                if self._stop.is_set() and not self._writer.is_alive():
                    if not behind:
                        return
                    given_up_at = given_up_at or time.monotonic() + PATIENCE_S


def _number_of(record: Record) -> bytes:
    return bytes(record.value).rstrip(_FILLING)


@contextmanager
def traffic(
    cluster: SandboxCluster, topic: str, partitions: int, *, gap_s: float = 0.025, size: int = 0
) -> Iterator[Traffic]:
    """Write to and read from the partitions while the block runs; call `check` after it.

    Five records of at least `size` bytes, then a pause of `gap_s`.
    """
    made = Traffic(cluster, [TopicPartition(topic, n) for n in range(partitions)], gap_s, size)
    made.start()
    try:
        yield made
    finally:
        made.stop()
