"""`ports.StreamCluster` in memory: clusters that die, hang, lose answers, refuse, and fail for good."""

import threading
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from kafkakit.core.errors import OperationFailedError, TryLaterError
from kafkakit.core.records import (
    BatchLimits,
    ConnectionFigures,
    DeliveredRecord,
    FailureKind,
    NotDelivered,
    OutgoingRecord,
    SentRecord,
    TopicIdentity,
)
from kafkakit.ports.streams import Answer


@dataclass
class FakeTopic:
    topic_id: str
    partitions: int
    log: list[tuple[int, OutgoingRecord]] = field(default_factory=list)


class FakeStreamCluster:
    """Keeps the contract (tests/contracts/stream_producer.py runs against it).

    `is_away`: no answer to anything. `loses_answers`: records are written, and the answers are lost. `refusal`: a
    broker refuses records for this reason. `fail_for_good`: what is open now fails with its next record.
    """

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.is_away = self.loses_answers = False
        self.refusal: str | None = None
        self.topics: dict[str, FakeTopic] = {}
        self.producers: list[FakeStreamProducer] = []
        self.changed = threading.Condition()

    def create(self, topic: str, partitions: int = 1) -> FakeTopic:
        topic_id = f"{len(self.topics) + 1:032x}"
        self.topics[topic] = FakeTopic(topic_id=topic_id, partitions=partitions)
        return self.topics[topic]

    def fail_for_good(self) -> None:
        with self.changed:
            for producer in self.producers:
                producer.is_broken = True

    def identify(self, topic: str, timeout_s: float) -> TopicIdentity:
        if self.is_away:
            raise TryLaterError("cannot reach the cluster: no answer in time")
        found = self.topics.get(topic)
        if found is None:
            return TopicIdentity(cluster_id=self.cluster_id, topic_id="", partitions=0)
        return TopicIdentity(cluster_id=self.cluster_id, topic_id=found.topic_id, partitions=found.partitions)

    def identify_all(self, topics: Collection[str], timeout_s: float) -> Mapping[str, TopicIdentity]:
        return {topic: self.identify(topic, timeout_s) for topic in topics}

    def producer(self, topic: str, limits: BatchLimits, client_id: str) -> "FakeStreamProducer":
        made = FakeStreamProducer(self, topic, limits, client_id)
        self.producers.append(made)
        return made


class FakeStreamProducer:
    def __init__(self, cluster: FakeStreamCluster, topic: str, limits: BatchLimits, client_id: str) -> None:
        self._cluster, self._topic, self._limits, self.client_id = cluster, topic, limits, client_id
        self.answers: deque[Answer] = deque()
        self._waiting: list[tuple[OutgoingRecord, object]] = []
        self._lost: list[tuple[OutgoingRecord, object]] = []
        self.is_broken = self.is_closed = False

    @property
    def last_error(self) -> str | None:
        return "broker down" if self._cluster.is_away else None

    @property
    def figures(self) -> ConnectionFigures | None:
        waiting = [*self._waiting, *self._lost]
        size = sum(len(record.value or b"") for record, _ in waiting)
        return ConnectionFigures(waiting_records=len(waiting), waiting_bytes=size, sent_bytes=0, round_trip_p99_ms=1.0)

    def send(self, record: SentRecord, token: object) -> bool:
        assert not self.is_closed
        with self._cluster.changed:
            if self.is_broken and not self._waiting:
                raise OperationFailedError("the producer failed for good")
            if len(self._waiting) + len(self._lost) >= self._limits.queue_records:
                return False
            self._waiting.append((OutgoingRecord(*record), token))
            self._cluster.changed.notify_all()
        return True

    def poll(self, timeout_s: float) -> None:
        with self._cluster.changed:
            if not self._waiting or self._cluster.is_away:
                self._cluster.changed.wait(timeout_s)
            if self._cluster.is_away:
                return
            taken, self._waiting = self._waiting, []
            answers = [(token, self._written(record, token)) for record, token in taken]
        self.answers.extend((token, found) for token, found in answers if found is not None)

    def purge(self) -> None:
        with self._cluster.changed:
            taken, self._waiting, self._lost = [*self._lost, *self._waiting], [], []
        self.answers.extend((token, NotDelivered(FailureKind.UNANSWERED, "purged")) for _, token in taken)

    def close(self) -> None:
        if not self.is_closed:
            self.purge()
        self.is_closed = True

    def _written(self, record: OutgoingRecord, token: object) -> DeliveredRecord | NotDelivered | None:
        if self.is_broken:
            return NotDelivered(FailureKind.FATAL, "the producer failed for good")
        if self._cluster.refusal:
            return NotDelivered(FailureKind.REFUSED, self._cluster.refusal)
        topic = self._cluster.topics[self._topic]
        partition = record.partition
        if partition is None:
            partition = 0 if record.key is None else sum(record.key) % topic.partitions
        offset = sum(number == partition for number, _ in topic.log)
        topic.log.append((partition, record))
        if self._cluster.loses_answers:
            self._lost.append((record, token))
            return None
        return DeliveredRecord(partition, offset, record.at_ms or 1)
