"""What every `ports.StorageMetrics` keeps: run against the in-memory fake and against a real ZooKeeper."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

import pytest

from kafkakit.core.errors import TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.services import StorageMetrics

SIZES = {TopicPartition("orders", 0): 1_000, TopicPartition("pay.ments", 12): 0}
FREE = {1001: 5_000, 1002: 0}


class Rig(Protocol):
    """A place for metrics that a test fills; `pass_time` lets at least 50 ms go by."""

    metrics: StorageMetrics

    def put_sizes(self, sizes: Mapping[TopicPartition, int]) -> None: ...

    def put_free(self, free: Mapping[int, int]) -> None: ...

    def pass_time(self) -> None: ...

    def now(self) -> datetime: ...


class StorageMetricsContract:
    def test_an_empty_place_asks_to_try_later(self, rig: Rig) -> None:
        with pytest.raises(TryLaterError, match=r".") as caught:
            rig.metrics.read()
        assert "metricsfetcher" in (caught.value.hint or "")

    def test_one_half_is_not_enough(self, rig: Rig) -> None:
        rig.put_sizes(SIZES)
        with pytest.raises(TryLaterError):
            rig.metrics.read()

    def test_what_was_put_is_read(self, rig: Rig) -> None:
        before = rig.now()
        rig.put_sizes(SIZES)
        rig.put_free(FREE)
        reading = rig.metrics.read()
        assert reading.sizes.bytes_of == SIZES
        assert reading.free.bytes_of == FREE
        assert reading.source
        assert before <= reading.taken_at <= rig.now()

    def test_the_older_half_is_the_age(self, rig: Rig) -> None:
        rig.put_free(FREE)
        rig.pass_time()
        rig.put_sizes(SIZES)
        reading = rig.metrics.read()
        assert reading.taken_at == reading.free.taken_at < reading.sizes.taken_at
        rig.pass_time()
        rig.put_free(FREE)
        again = rig.metrics.read()
        assert again.taken_at == again.sizes.taken_at == reading.sizes.taken_at

    def test_closing_twice_is_harmless(self, rig: Rig) -> None:
        rig.metrics.close()
        rig.metrics.close()
