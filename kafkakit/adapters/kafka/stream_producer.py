"""Producers of streams, with confluent-kafka (librdkafka).

`batch.size` bounds what is added to a batch after its first record, and `message.max.bytes` a record, both before
compression (librdkafka's CONFIGURATION.md); so no batch is larger than the larger of both.
"""

import json
from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, wait
from functools import partial
from types import MethodType
from typing import Any

from kafkakit.adapters.kafka.data import (
    Explain,
    client_settings,
    code_of,
    make_client,
    quiet_logger,
    reason,
    unanswered_error,
)
from kafkakit.adapters.kafka.listener_probe import explain
from kafkakit.config.security import Security
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.records import (
    BatchLimits,
    ConnectionFigures,
    FailureKind,
    NotDelivered,
    SentRecord,
    TopicIdentity,
)
from kafkakit.ports.streams import Answer

_BATCH_BYTES = 1_000_000
_FRAMING_BYTES = 4_096
_FIGURES_EVERY_MS = 5_000
_ANY_PARTITION = -1


def serialization_contexts() -> Callable[[str, str, list[tuple[str, bytes | None]]], object]:
    """What makes the contexts of confluent-kafka's serializers; needs none of the schema registry's packages."""
    from confluent_kafka.serialization import MessageField, SerializationContext

    fields = {field.value: field for field in MessageField}
    return lambda topic, field, headers: SerializationContext(topic, fields[field], headers)


class KafkaStreamCluster:
    """Implements `ports.StreamCluster`; connects on first use. `own` are settings that passed `own_settings`."""

    def __init__(self, bootstrap_servers: str, security: Security, own: Mapping[str, Any] | None = None) -> None:
        self._settings = {**client_settings(bootstrap_servers, security), **(own or {})}
        self._explain: Explain = partial(explain, bootstrap_servers, security)

    def identify(self, topic: str, timeout_s: float) -> TopicIdentity:
        return self.identify_all([topic], timeout_s)[topic]

    def identify_all(self, topics: Collection[str], timeout_s: float) -> Mapping[str, TopicIdentity]:
        """Two requests at once, with a client of their own; topics that are not there are not created by them."""
        from confluent_kafka import KafkaException, TopicCollection
        from confluent_kafka.admin import AdminClient

        admin = make_client(AdminClient, self._settings)
        try:
            cluster = admin.describe_cluster(request_timeout=timeout_s)
            asked = admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=timeout_s)
            _await_all(admin, [cluster, *asked.values()], timeout_s)
            cluster_id = str(cluster.result(0).cluster_id)
        except (KafkaException, TimeoutError) as error:
            raise unanswered_error("cannot reach the cluster", error, self._explain) from None
        return {topic: self._identity(topic, cluster_id, asked[topic]) for topic in asked}

    def _identity(self, topic: str, cluster_id: str, asked: "Future[Any]") -> TopicIdentity:
        from confluent_kafka import KafkaException

        try:
            found = asked.result(0)
        except (KafkaException, TimeoutError) as error:
            code = code_of(error)
            if code in _UNKNOWN_TOPIC:
                return TopicIdentity(cluster_id=cluster_id, topic_id="", partitions=0)
            if code in _DENIED:
                raise OperationFailedError(f"topic {topic} cannot be described: {reason(error)}") from None
            raise unanswered_error("cannot reach the cluster", error, self._explain) from None
        return TopicIdentity(cluster_id=cluster_id, topic_id=str(found.topic_id), partitions=len(found.partitions))

    def producer(self, topic: str, limits: BatchLimits, client_id: str) -> "KafkaStreamProducer":
        """One client, with a thread for each broker that it speaks to."""
        return KafkaStreamProducer({**self._settings, "client.id": client_id}, topic, limits)


_GRACE_S = 5.0
_unanswered: list[Any] = []


def _await_all(admin: Any, asked: Collection["Future[Any]"], timeout_s: float) -> None:
    """Wait for all answers, also where one of them has failed.

    librdkafka (2.16) ends the process with an assertion (`rd_kafka_admin_response_parse`) if metadata come while their
    client is let go of. Requests end by themselves after `timeout_s`; a client whose do not is kept for good.
    """
    if wait(asked, timeout_s + _GRACE_S).not_done:
        _unanswered.append(admin)


def producer_settings(limits: BatchLimits) -> dict[str, Any]:
    """How records of streams are written; keys are spread as Java's producers spread them."""
    return {
        "acks": "all",
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "linger.ms": limits.linger_ms,
        "batch.size": min(_BATCH_BYTES, limits.record_bytes),
        "message.max.bytes": limits.record_bytes + _FRAMING_BYTES,
        "compression.type": limits.compression,
        "delivery.timeout.ms": limits.delivery_timeout_ms,
        "queue.buffering.max.kbytes": -(-limits.queue_bytes // 1024),
        "queue.buffering.max.messages": limits.queue_records,
    }


class KafkaStreamProducer:
    """Implements `ports.StreamProducer`. Keys are spread as Java's producers spread them."""

    def __init__(self, settings: Mapping[str, Any], topic: str, limits: BatchLimits) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka import Producer as Client

        self._refusals = KafkaException
        self.answers: deque[Answer] = deque()
        self._answered = _note_answers(self.answers)
        self._topic = topic
        self._last_error: str | None = None
        self._figures: ConnectionFigures | None = None
        self._client: Any = make_client(
            Client,
            {
                **settings,
                **producer_settings(limits),
                "statistics.interval.ms": _FIGURES_EVERY_MS,
                "stats_cb": self._on_figures,
                "error_cb": self._on_error,
                "logger": quiet_logger(),
            },
        )

    @property
    def last_error(self) -> str | None:
        """Of any broker; it stays after the trouble is over."""
        return self._last_error

    @property
    def figures(self) -> ConnectionFigures | None:
        """librdkafka's statistics, every 5 s."""
        return self._figures

    def send(self, record: SentRecord, token: object) -> bool:
        """See `ports.streams.StreamProducer`; headers must be checked before: some names crash librdkafka's binding."""
        value, key, headers, at_ms, partition = record
        where = _ANY_PARTITION if partition is None else partition
        answered = MethodType(self._answered, token)  # as `partial`, in half of the time
        try:  # by position: by name it takes 300 ns longer
            self._client.produce(self._topic, value, key, where, answered, None, at_ms or 0, list(headers))
        except BufferError:
            return False
        except self._refusals as error:
            raise OperationFailedError(f"cannot write to {self._topic}: {reason(error)}") from None
        return True

    def poll(self, timeout_s: float) -> None:
        self._client.poll(timeout_s)

    def purge(self) -> None:
        """Takes back what is queued and what is on its way, without waiting for librdkafka's threads."""
        self._client.purge(in_queue=True, in_flight=True, blocking=False)
        self._client.poll(0)

    def close(self) -> None:
        """Gives up what has no answer; the client itself ends with its last reference."""
        if self._client is not None:
            self.purge()
            self._client = None

    def _on_error(self, error: Any) -> None:
        self._last_error = str(error.str())

    def _on_figures(self, text: str) -> None:
        found = json.loads(text)
        trips = [broker.get("rtt", {}).get("p99", 0) for broker in found.get("brokers", {}).values()]
        self._figures = ConnectionFigures(
            waiting_records=int(found.get("msg_cnt", 0)),
            waiting_bytes=int(found.get("msg_size", 0)),
            sent_bytes=int(found.get("tx_bytes", 0)),
            round_trip_p99_ms=max(trips, default=0) / 1000,
        )


def _note_answers(answers: deque[Answer]) -> Callable[[object, Any, Any], None]:
    """What takes librdkafka's report on the record of a token."""
    append = answers.append

    def note(token: object, error: Any, message: Any) -> None:
        if error is None:
            append((token, (message.partition(), message.offset(), message.timestamp()[1])))
        else:
            append((token, _not_delivered(error)))

    return note


def _not_delivered(error: Any) -> NotDelivered:
    if error.fatal() or error.code() in _FATAL:
        kind = FailureKind.FATAL
    else:
        kind = FailureKind.REFUSED if error.code() in _REFUSED else FailureKind.UNANSWERED
    return NotDelivered(kind, str(error.str()))


# Codes of Kafka's protocol and, below zero, of librdkafka, by number, so that this module loads without the library:
# _FATAL, _STATE
_FATAL = frozenset({-150, -172})
# UNKNOWN_TOPIC_OR_PART, _UNKNOWN_TOPIC
_UNKNOWN_TOPIC = frozenset({3, -188})
# INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED
_DENIED = frozenset({17, 29, 31})
# _UNKNOWN_PARTITION, MSG_SIZE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_TIMESTAMP,
# POLICY_VIOLATION, INVALID_RECORD, and the above
_REFUSED = frozenset({-190, 10, 18, 32, 44, 87}) | _UNKNOWN_TOPIC | _DENIED
