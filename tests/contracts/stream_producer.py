"""What `ports.StreamCluster` promises, as tests that run against the fake and against a real cluster.

A subclass gives the `rig` fixture.
"""

import time
from collections.abc import Iterator
from typing import Protocol

import pytest

from kafkakit.core.errors import TryLaterError
from kafkakit.core.records import (
    BatchLimits,
    DeliveredRecord,
    FailureKind,
    NotDelivered,
    OutgoingRecord,
    Record,
    TopicIdentity,
)
from kafkakit.ports.streams import StreamCluster, StreamProducer

LIMITS = BatchLimits(
    record_bytes=1 << 20,
    linger_ms=1,
    delivery_timeout_ms=180_000,
    queue_bytes=8 << 20,
    queue_records=1_000,
    compression="zstd",
)
LIMIT_S = 180.0


class Rig(Protocol):
    """A cluster and what a test may do to it."""

    cluster: StreamCluster
    cluster_id: str

    def new_topic(self, partitions: int) -> str:
        """Create a topic for this test alone."""
        ...

    def read(self, topic: str) -> list[Record]:
        """Everything that is in a topic."""
        ...

    def away(self) -> StreamCluster:
        """A cluster that gives no answer."""
        ...


class StreamProducerContract:
    @pytest.fixture
    def topic(self, rig: Rig) -> str:
        return rig.new_topic(3)

    @pytest.fixture
    def producer(self, rig: Rig, topic: str) -> Iterator[StreamProducer]:
        made = rig.cluster.producer(topic, LIMITS, "contract")
        yield made
        made.close()

    def test_a_topic_is_known_by_its_cluster_and_id(self, rig: Rig, topic: str) -> None:
        found = rig.cluster.identify(topic, LIMIT_S)
        other = rig.cluster.identify(rig.new_topic(1), LIMIT_S)
        assert (found.cluster_id, found.partitions, other.partitions) == (rig.cluster_id, 3, 1)
        assert found.topic_id != other.topic_id
        assert found == rig.cluster.identify(topic, LIMIT_S)

    def test_a_topic_that_is_not_there_is_not_made(self, rig: Rig) -> None:
        for _ in range(2):
            found = rig.cluster.identify("no-such-topic", LIMIT_S)
            assert found == TopicIdentity(cluster_id=rig.cluster_id, topic_id="", partitions=0)

    def test_what_is_acknowledged_is_in_the_log_as_it_was_sent(
        self, rig: Rig, topic: str, producer: StreamProducer
    ) -> None:
        records = [
            OutgoingRecord(value=b"one\0", key=b"k\0", headers=(("ü", b"\0"), ("b", None), ("b", b"")), at_ms=1_700),
            OutgoingRecord(value=None, key=b"gone", partition=2),
            OutgoingRecord(value=b"", partition=1, at_ms=5),
        ]
        answers = sent(producer, records)
        read = {(r.partition.partition, r.offset): r for r in rig.read(topic)}
        for record, answer in zip(records, answers, strict=True):
            assert isinstance(answer, DeliveredRecord)
            found = read[answer.partition, answer.offset]
            assert (found.value or b"", found.is_null, found.key) == (
                record.value or b"",
                record.value is None,
                record.key,
            )
            assert found.headers == record.headers
            assert record.partition in (None, answer.partition)
            assert record.at_ms in (None, found.at_ms)

    def test_a_key_stays_in_its_partition(self, producer: StreamProducer) -> None:
        records = [OutgoingRecord(value=b"%d" % n, key=b"key-%d" % (n % 7)) for n in range(70)]
        places: dict[bytes | None, set[int]] = {}
        for record, answer in zip(records, sent(producer, records), strict=True):
            assert isinstance(answer, DeliveredRecord)
            places.setdefault(record.key, set()).add(answer.partition)
        assert all(len(found) == 1 for found in places.values())

    def test_a_full_queue_takes_no_record(self, rig: Rig) -> None:
        producer = rig.away().producer("anything", LIMITS, "contract")
        answers = producer.answers
        taken = [producer.send(OutgoingRecord(value=b"x"), n) for n in range(LIMITS.queue_records + 5)]
        assert taken == [True] * LIMITS.queue_records + [False] * 5
        producer.poll(0)
        assert not answers
        producer.purge()
        deadline = time.monotonic() + LIMIT_S
        while len(answers) < LIMITS.queue_records and time.monotonic() < deadline:
            producer.poll(0.1)
        assert {found.kind for _, found in answers if isinstance(found, NotDelivered)} == {FailureKind.UNANSWERED}
        assert sorted(token for token, _ in answers) == list(range(LIMITS.queue_records))
        producer.close()
        producer.close()

    def test_a_cluster_that_is_away_is_not_identified(self, rig: Rig) -> None:
        with pytest.raises(TryLaterError, match="cannot reach the cluster"):
            rig.away().identify("anything", 0.5)


def sent(producer: StreamProducer, records: list[OutgoingRecord]) -> list[DeliveredRecord | NotDelivered]:
    """Send records and wait for all answers, in the order of sending."""
    for number, record in enumerate(records):
        assert producer.send(record, number)
    deadline = time.monotonic() + LIMIT_S
    while len(producer.answers) < len(records) and time.monotonic() < deadline:
        producer.poll(0.1)
    answers = dict(producer.answers)
    found = [answers[number] for number in range(len(records))]
    return [each if isinstance(each, NotDelivered) else DeliveredRecord(*each) for each in found]
