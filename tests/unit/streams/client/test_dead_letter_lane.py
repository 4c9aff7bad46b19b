"""Rejected records in the lane `dlq`: whole, or without what this producer does not write."""

from collections.abc import Iterator

import pytest

from kafkakit.core.model import TopicPartition
from kafkakit.streams.client.client import StreamClient
from kafkakit.streams.client.dead_letters import (
    LEFT_OUT_HEADER,
    LEFT_OUT_HEADERS_HEADER,
    DeadLetterLane,
    RejectedRecord,
)
from kafkakit.streams.client.decide.outgoing import ProducerLimits
from kafkakit.streams.client.decide.reading import Source
from kafkakit.streams.client.workers import RecordOrigin, StreamRecord
from kafkakit.streams.model.provenance import read_provenance
from kafkakit.streams.model.route import DLQ, Segment
from tests.fakes.group_consumer import FakeRecord
from tests.rigs.stream_routes import FakeClusters

Headers = tuple[tuple[str, bytes | None], ...]


class Lane:
    def __init__(self) -> None:
        self.fakes = FakeClusters()
        self.segment: Segment = self.fakes.segment("a")
        self.fakes.routes.create(self.segment, lanes=(DLQ,))
        self.client: StreamClient = self.fakes.client()

    def rejected(self, value: bytes, headers: Headers) -> tuple[bytes | None, dict[str, bytes | None]]:
        """The dead letter of a record: its value and headers."""
        source = Source(lane="live", segment=1, cluster_id="c1", topic="orders.live.1", topic_id=bytes(16))
        origin = RecordOrigin(stream="orders", source=source, partition=TopicPartition("orders.live.1", 0))
        record = StreamRecord((FakeRecord(at=7, the_key=b"k", the_value=value, the_headers=headers), origin, 3))
        DeadLetterLane(self.client.producer("orders", limits=ProducerLimits(batch_bytes=20_000)))(
            RejectedRecord(
                record=record, reason="handler", tries=3, error="E", text="t", group="billing", epoch=1, at_ms=5
            )
        )
        ((_, written),) = self.fakes.clusters["a"].topics[self.segment.topic].log
        found = read_provenance(written.headers)
        assert found is not None
        assert (found.origin.topic, found.origin.offset, found.failure.group) == ("orders.live.1", 7, "billing")
        return written.value, dict(written.headers)


@pytest.fixture
def lane() -> Iterator[Lane]:
    lane = Lane()
    yield lane
    lane.client.close(0)


def test_a_record_keeps_its_headers(lane: Lane) -> None:
    value, headers = lane.rejected(b"v", (("trace", b"1"),))
    assert value == b"v"
    assert headers["trace"] == b"1"
    assert LEFT_OUT_HEADERS_HEADER not in headers


@pytest.mark.parametrize("bad", [(("", b""),), (("n" * 40_000, b"v"),), tuple((f"h{n}", b"v") for n in range(1_000))])
def test_headers_that_the_producer_refuses_are_left_out(lane: Lane, bad: Headers) -> None:
    value, headers = lane.rejected(b"v", (("trace", b"1"), *bad))
    assert value == b"v"
    assert headers[LEFT_OUT_HEADERS_HEADER] == b"%d" % (len(bad) + 1)
    assert "trace" not in headers


@pytest.mark.parametrize("bad", [(), (("", b""),)])
def test_a_value_that_is_too_large_is_left_out(lane: Lane, bad: Headers) -> None:
    value, headers = lane.rejected(b"v" * 19_900, bad)
    assert value is None
    assert headers[LEFT_OUT_HEADER] == b"19901"
