"""Records in and out of Kafka, with confluent-kafka (librdkafka), and the settings that all its clients have here.

librdkafka logs through a callback and never to stderr; settings are named in its CONFIGURATION.md. How its errors are
read is defined here for all its clients.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from kafkakit.adapters.kafka.listener_probe import CHECK_HINT, UNREACHED, explain
from kafkakit.config.security import Security, to_confluent
from kafkakit.core.errors import ConnectRefusedError, OperationFailedError, TryLaterError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record, headers_of
from kafkakit.ports.data import Consumer, DurableProducer, Headers

_QUEUE_BYTES_KB = 64 * 1024
_DELIVERY_LIMIT_MS = 120_000
_POLL_S = 0.05


class KafkaData:
    """Implements `ports.DataPlane`; makes a client for each producer, consumer and question."""

    def __init__(self, bootstrap_servers: str, security: Security) -> None:
        self._settings = client_settings(bootstrap_servers, security)
        self._explain: Explain = partial(explain, bootstrap_servers, security)

    def reach(self, timeout_s: float) -> tuple[int, ...]:
        """Ask for metadata; one connection and one request."""
        from confluent_kafka import Producer as Client

        # Not a consumer: looking for its group's coordinator makes the cluster create __consumer_offsets.
        return tuple(sorted(_metadata(make_client(Client, self._settings), timeout_s, self._explain).brokers))

    def offsets(self, partitions: Collection[TopicPartition], timeout_s: float) -> Mapping[TopicPartition, range]:
        """One request a partition, after one for metadata."""
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as Place

        with self._reader() as client:
            topics = _metadata(client, timeout_s, self._explain).topics
            found: dict[TopicPartition, range] = {}
            for wanted in sorted(partitions):
                if wanted.topic not in topics or wanted.partition not in topics[wanted.topic].partitions:
                    continue
                try:
                    low, high = client.get_watermark_offsets(Place(*wanted), timeout=timeout_s)
                except KafkaException as error:
                    raise unanswered_error(f"cannot read the offsets of {wanted}", error, self._explain) from None
                found[wanted] = range(low, high)
            return found

    def producer(self, on_acknowledged: Callable[[Record], None] | None = None) -> DurableProducer:
        """An idempotent producer with batches of up to 1 MB and a queue of 64 MB."""
        return _ConfluentProducer(self._settings, on_acknowledged)

    def consumer(
        self, partitions: Collection[TopicPartition], offsets: Mapping[TopicPartition, int] | None = None
    ) -> Consumer:
        """A consumer with assigned partitions: no group, nothing committed."""
        return _ConfluentConsumer(self._settings, partitions, offsets or {}, self._explain)

    def _reader(self) -> contextlib.closing[Any]:
        from confluent_kafka import Consumer as Client

        return contextlib.closing(make_client(Client, _reader_settings(self._settings)))


class _ConfluentProducer:
    def __init__(self, settings: Mapping[str, Any], on_acknowledged: Callable[[Record], None] | None) -> None:
        from confluent_kafka import Producer as Client

        self._acknowledged = 0
        self._failed = 0
        self._last_error: str | None = None
        self._fatal = FatalError()
        self._notify = on_acknowledged
        self._client = make_client(
            Client,
            {
                **settings,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 20,
                "batch.size": 1_000_000,
                "queue.buffering.max.kbytes": _QUEUE_BYTES_KB,
                "delivery.timeout.ms": _DELIVERY_LIMIT_MS,
                "error_cb": self._on_error,
                "logger": quiet_logger(self._fatal),
            },
        )

    @property
    def acknowledged(self) -> int:
        return self._acknowledged

    @property
    def failed(self) -> int:
        return self._failed

    @property
    def last_error(self) -> str | None:
        return self._last_error

    def send(
        self, partition: TopicPartition, value: bytes | None, key: bytes | None = None, headers: Headers = ()
    ) -> None:
        """See `ports.data`; waits while the client's queue is full."""
        from confluent_kafka import KafkaException

        while True:
            try:
                self._client.produce(
                    partition.topic,
                    value=value,
                    key=key,
                    partition=partition.partition,
                    headers=list(headers),
                    on_delivery=self._on_delivery,
                )
            except BufferError:
                self._client.poll(_POLL_S)
            except KafkaException as error:
                raise OperationFailedError(f"cannot write to {partition}: {reason(error)}") from None
            else:
                break
        self._client.poll(0)

    def flush(self, timeout_s: float) -> int:
        from confluent_kafka import KafkaException

        try:
            return int(self._client.flush(timeout_s))
        except (KafkaException, SystemError) as error:  # a fatal error: the right to write is missing, say
            cause = error.__cause__ if isinstance(error.__cause__, KafkaException) else error
            raise OperationFailedError(f"cannot write: {self._fatal.reason or reason(cause)}") from None

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failed += 1
            self._last_error = str(error.str())
            return
        self._acknowledged += 1
        if self._notify is not None:
            self._notify(_record(message))

    def _on_error(self, error: Any) -> None:
        self._last_error = str(error.str())


class _ConfluentConsumer:
    def __init__(
        self,
        settings: Mapping[str, Any],
        partitions: Collection[TopicPartition],
        offsets: Mapping[TopicPartition, int],
        explain_failure: "Explain",
    ) -> None:
        from confluent_kafka import OFFSET_BEGINNING
        from confluent_kafka import Consumer as Client
        from confluent_kafka import TopicPartition as Place

        self._access = AccessWatch(explain_failure)
        # An offset that retention has deleted meanwhile is followed by the first one that is left.
        more = {"enable.partition.eof": True, "auto.offset.reset": "earliest", "error_cb": self._access.note}
        self._ended: set[TopicPartition] = set()
        self._explain = explain_failure
        self._client: Any = make_client(Client, _reader_settings(settings) | more)
        self._client.assign([Place(*tp, offsets.get(tp, OFFSET_BEGINNING)) for tp in sorted(partitions)])

    def poll(self, timeout_s: float, limit: int = 500) -> Sequence[Record]:
        from confluent_kafka import KafkaError, KafkaException

        if self._client is None:
            return ()
        try:
            messages = self._client.consume(num_messages=limit, timeout=timeout_s)
        except KafkaException as error:
            refusal = self._explain() if code_of(error) in UNREACHED else None
            raise refusal or OperationFailedError(f"cannot read: {reason(error)}") from None
        if not messages:
            self._access.require()
        found = []
        for message in messages:
            trouble = message.error()
            if trouble is None:
                found.append(_record(message))
            elif trouble.code() == KafkaError._PARTITION_EOF:
                self._ended.add(TopicPartition(message.topic(), message.partition()))
            elif trouble.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                continue  # the name of the group is librdkafka's need; no group is used
            elif trouble.fatal() or not trouble.retriable():
                refusal = self._explain() if trouble.code() in UNREACHED else None
                raise refusal or OperationFailedError(f"cannot read: {trouble.str()}")
        return found

    def ended(self) -> Collection[TopicPartition]:
        return frozenset(self._ended)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def _reader_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    # librdkafka wants a group name even where nothing is ever committed.
    return {**settings, "group.id": "kafkakit", "enable.auto.commit": False, "enable.partition.eof": False}


Explain = Callable[[], ConnectRefusedError | None]
"""Says why the cluster does not take the settings, if that is so; takes some seconds."""


class AccessWatch:
    """Takes note of brokers that are gone, and finds out if they refuse our settings.

    A look takes seconds, in which nothing is read: at least `every_s` pass between two.
    """

    def __init__(self, explain_failure: Explain, every_s: float = 0.0) -> None:
        self._explain, self._every_s = explain_failure, every_s
        self._looked_s, self._is_unreached = -every_s, False

    def note(self, error: Any) -> None:
        """The `error_cb` of a client."""
        self._is_unreached = self._is_unreached or error.code() in UNREACHED

    def require(self) -> None:
        """Raise `ConnectRefusedError` if brokers are gone because they refuse our settings."""
        if not self._is_unreached or time.monotonic() - self._looked_s < self._every_s:
            return
        self._is_unreached = False
        refusal = self._explain()
        self._looked_s = time.monotonic()
        if refusal is not None:
            raise refusal


def _metadata(client: Any, timeout_s: float, explain_failure: Explain) -> Any:
    from confluent_kafka import KafkaException

    try:
        return client.list_topics(timeout=timeout_s)
    except KafkaException as error:
        raise unanswered_error("cannot reach the cluster", error, explain_failure) from None


def unanswered_error(what: str, error: Exception, explain_failure: Explain) -> TryLaterError:
    """The error of a request without an answer; librdkafka says "timed out" of most causes, so they are looked for."""
    is_open = isinstance(error, TimeoutError) or code_of(error) in UNREACHED
    refusal = explain_failure() if is_open else None
    return refusal or TryLaterError(f"{what}: {reason(error) or 'no answer in time'}", hint=CHECK_HINT)


def code_of(error: Exception) -> int:
    """The code of the first error inside a `KafkaException`; 0 if there is none."""
    inner = error.args[0] if error.args else error
    return int(inner.code()) if hasattr(inner, "code") else 0


def _record(message: Any) -> Record:
    return Record(
        partition=TopicPartition(message.topic(), message.partition()),
        offset=message.offset(),
        value=message.value() or b"",
        key=message.key(),
        at_ms=message.timestamp()[1] if message.timestamp()[0] else None,
        headers=tuple(headers_of(message)),
        is_null=message.value() is None,
    )


def client_settings(bootstrap_servers: str, security: Security) -> dict[str, Any]:
    """How to reach a cluster; the password is revealed in the result."""
    return {
        "bootstrap.servers": bootstrap_servers,
        "client.id": "kafkakit",
        "log_level": 2,
        "logger": quiet_logger(),
        "socket.connection.setup.timeout.ms": 5_000,
        "reconnect.backoff.max.ms": 1_000,
        "topic.metadata.refresh.interval.ms": 5_000,
        **to_confluent(security),
    }


_PROFILE = "it comes from the profile"
_MEMBER = "ConsumerOptions.member sets it"
_PRODUCER = "ProducerLimits set it"
_ACKNOWLEDGED = "an acknowledged record must be on all in-sync replicas, once and in order"
_COMMITTED = "the client commits what was handled, and nothing else"
NEEDED_SETTINGS: Mapping[str, str] = {
    **dict.fromkeys(("bootstrap.servers", "metadata.broker.list", "security.protocol"), _PROFILE),
    **dict.fromkeys(("group.instance.id", "session.timeout.ms", "heartbeat.interval.ms"), _MEMBER),
    **dict.fromkeys(
        ("batch.size", "message.max.bytes", "compression.type", "compression.codec", "delivery.timeout.ms",
         "message.timeout.ms", "queue.buffering.max.kbytes", "queue.buffering.max.messages", "linger.ms",
         "queue.buffering.max.ms"),
        _PRODUCER,
    ),
    **dict.fromkeys(
        ("acks", "request.required.acks", "enable.idempotence", "partitioner", "retries", "message.send.max.retries",
         "max.in.flight", "max.in.flight.requests.per.connection", "transactional.id"),
        _ACKNOWLEDGED,
    ),
    **dict.fromkeys(
        ("enable.auto.commit", "enable.auto.offset.store", "auto.offset.reset", "isolation.level",
         "partition.assignment.strategy", "group.protocol", "enable.partition.eof", "max.poll.interval.ms"),
        _COMMITTED,
    ),
    **dict.fromkeys(("client.id", "group.id", "log_level", "debug", "statistics.interval.ms"), "the client sets it"),
    "receive.message.max.bytes": "it bounds what a batch may become",
    "allow.auto.create.topics": "topics of streams are made by kafkakit",
}  # fmt: skip
"""Settings of librdkafka that an application may not change, and why."""
_PROFILE_PREFIXES = ("sasl.", "ssl.", "enable.ssl.")


def own_settings(given: Mapping[str, str | int | float | bool]) -> dict[str, Any]:
    """An application's settings of librdkafka; `UsageError` for one that is needed as it is, or that is not known."""
    if not given:
        return {}
    from confluent_kafka import Producer as Client

    for name, value in given.items():
        why = _PROFILE if name.startswith(_PROFILE_PREFIXES) else NEEDED_SETTINGS.get(name)
        if callable(value) or name.endswith("_cb") or name in ("logger", "on_commit", "plugin.library.paths"):
            why = "functions and plugins are not taken"
        if why is not None:
            raise UsageError(f"librdkafka setting {name} cannot be given: {why}", hint="leave it out")
    make_client(Client, {"log_level": 0, "logger": quiet_logger(), **given})  # connects to nothing
    return dict(given)


def make_client(client: Callable[[dict[str, Any]], Any], settings: dict[str, Any]) -> Any:
    """Make a client; librdkafka refuses certificates and keys here that it cannot use."""
    from confluent_kafka import KafkaException

    try:
        return client(settings)
    except KafkaException as error:
        raise UsageError(f"the data client refuses its settings: {reason(error)}") from None


def reason(error: Exception) -> str:
    """librdkafka's words for the first error inside a `KafkaException`."""
    inner = error.args[0] if error.args else error
    return str(inner.str()) if hasattr(inner, "str") else str(inner)


class FatalError(logging.Handler):
    """Keeps the reason of a fatal error, which the client tells its log for certain, and Python only at times."""

    reason: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Only fatal errors are critical."""
        if record.levelno >= logging.CRITICAL:
            self.reason = record.getMessage().partition("Fatal error: ")[2] or record.getMessage()


def quiet_logger(handler: logging.Handler | None = None) -> logging.Logger:
    """A logger that only the handler hears."""
    logger = logging.Logger("kafkakit.librdkafka")  # not from the tree of loggers: nothing comes to stderr
    logger.addHandler(handler or logging.NullHandler())
    return logger
