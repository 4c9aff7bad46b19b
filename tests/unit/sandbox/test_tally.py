"""Counting records in and out."""

from collections.abc import Callable, Sequence

import pytest

from kafkakit.adapters.host import SystemClock
from kafkakit.core.errors import ConnectRefusedError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.sandbox.decide.workload import tally
from kafkakit.sandbox.demo import SandboxTraffic


def test_nothing_lost_although_read_twice() -> None:
    counted = tally([1, 2, 3], [1, 2, 2, 3])
    assert counted.is_whole
    assert (counted.acknowledged, counted.read, counted.repeated) == (3, 4, 1)


def test_what_was_acknowledged_and_never_read_is_lost() -> None:
    assert tally([1, 2, 3], [3, 1]).lost == (2,)
    assert not tally([1], []).is_whole
    assert tally([], [7]).is_whole


class BrokenPlane:
    """Takes all records, and gives none: its consumer is refused."""

    def producer(self, note: Callable[[Record], object]) -> "BrokenPlane":
        self.note = note
        return self

    def send(self, partition: TopicPartition, value: bytes) -> None:
        self.note(Record(partition=partition, offset=0, value=value))

    def flush(self, timeout_s: float) -> None: ...

    def close(self) -> None: ...

    def consumer(self, partitions: Sequence[TopicPartition]) -> "BrokenPlane":
        return self

    def poll(self, timeout_s: float) -> Sequence[Record]:
        raise ConnectRefusedError("login refused (PLAIN, user demo)")


def test_records_that_nobody_could_read_are_not_called_lost() -> None:
    traffic = SandboxTraffic(BrokenPlane(), SystemClock(), 3)  # type: ignore[arg-type]
    traffic.start()
    with pytest.raises(ConnectRefusedError, match="login refused"):
        traffic.stop(30)
