"""The connection under the control adapters: first contact, requests, errors.

kafka-python 3.0 caches the controller for ever and retries nothing, and its public calls drop error texts. So requests
go to its connection manager, here and nowhere else; a client that fails is replaced, and what kafka-python keeps stale
is refreshed. First contact finds which address answers, or why none does. Kafka's error codes and kafka-python's
exceptions become kafkakit's errors. Large answers are received without copies, from kafka-python's socket itself.

Requests that kafka-python 3.0 lacks are defined here: UnregisterBroker (KIP-631) and DescribeShareGroupOffsets
(KIP-932, KIP-1226). Its message classes take their schema from a file of kafka-python that their name picks; ours takes
that one's place. Schemas: Kafka 4.4, clients/src/main/resources/common/message.
"""

import logging
import re
import socket
import ssl
import time
import types
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any

from kafka.protocol.api_message import ApiMessage

from kafkakit.adapters.kafka.listener_probe import CHECK_HINT, explain
from kafkakit.config.security import Security, to_kafka_python
from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import (
    ConnectRefusedError,
    KafkakitError,
    MissingRightError,
    OperationFailedError,
    TooOldError,
    TryLaterError,
)
from kafkakit.ports.acting import pause

ATTEMPTS = 4
BACKOFF_S = (0.1, 0.4, 1.0)
NOT_CONTROLLER = 41
Errors = Callable[[Any], set[int]]


def load_modules() -> None:
    """Import every module of the two clients that an adapter uses, also those that it imports where it needs them."""
    for package in ("kafka", "confluent_kafka.admin"):
        import_module(package)


class KafkaSession:
    """One client at a time, made on first use.

    `request_timeout_s` bounds a request to one broker, `bootstrap_timeout_s` the first contact.
    """

    def __init__(
        self, bootstrap_servers: str, security: Security, request_timeout_s: float, bootstrap_timeout_s: float
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.request_timeout_s = request_timeout_s
        self.bootstrap_timeout_s = bootstrap_timeout_s
        self._security = security
        self._client: Any = None
        self._home: int | None = None
        self._controller: int | None = None

    def close(self) -> None:
        """Drop the client; the next request makes a new one."""
        client, self._client, self._home, self._controller = self._client, None, None, None
        if client is not None:
            client.close()

    @property
    def version(self) -> tuple[int, ...] | None:
        """The newest Kafka release whose protocol the broker supports, as far as the client knows releases."""
        version = self._connected()._manager.broker_version
        return tuple(version) if version else None

    def request(self, what: str, request: Any, *, errors: Errors | None = None, repeat: bool = True) -> Any:
        """Send to a broker that answers, or with `errors` (codes in a response) to the controller.

        Retries on a new client while the fault looks passing; `repeat` False only where the request
        cannot have been sent. All attempts together end after twice `request_timeout_s`. Raises `TryLaterError` when
        nothing helps; `what` names the request.
        """
        fault: Exception | None = None
        end_s = time.monotonic() + 2 * self.request_timeout_s
        for attempt in range(ATTEMPTS):
            if attempt:
                pause(time, BACKOFF_S[attempt - 1])
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                break
            try:
                response = self._send(request, errors is not None, min(left_s, self.request_timeout_s))
                codes = errors(response) if errors else set()
                if NOT_CONTROLLER not in codes:
                    return response
                fault = OperationFailedError("the broker is not the controller")
                self._find_controller()
            except Exception as error:
                self._refuse_unexpected(what, error)
                fault = error
                self.close()
                if not repeat and not _never_sent(error):
                    break
        raise TryLaterError(
            f"{what}: the cluster gave no answer ({describe_error(fault)})", hint="is the cluster healthy?"
        )

    def request_brokers(self, requests: Mapping[int, Any]) -> dict[int, Any]:
        """Send one request to each named broker, side by side; a value is the response or the exception.

        An exception is of Kafka or of the network: what else is raised is a fault of ours, and raised here too.
        Takes at most about `request_timeout_s`: a broker that hangs costs the others nothing. Brokers that look
        unknown or in backoff get the request once more with a new client.
        """
        answers = self._fan_out(requests)
        stale = {b: requests[b] for b, answer in answers.items() if isinstance(answer, Exception) and _is_stale(answer)}
        if stale:
            self.close()
            answers |= self._fan_out(stale)
        return answers

    def _send(self, request: Any, to_controller: bool, timeout_s: float) -> Any:
        client = self._connected()
        target = self._controller if to_controller and self._controller is not None else self._home
        return client._manager.run(self._sending, client._manager, request, target, timeout_s * 1000)

    async def _sending(self, manager: Any, request: Any, broker: int | None, timeout_ms: float) -> Any:
        future = manager.send(request, node_id=broker, request_timeout_ms=timeout_ms)
        return await manager.wait_for(future, timeout_ms)

    def _fan_out(self, requests: Mapping[int, Any]) -> dict[int, Any]:
        client = self._connected()
        return dict(client._manager.run(self._requesting_all, client._manager, requests))

    async def _requesting_all(self, manager: Any, requests: Mapping[int, Any]) -> dict[int, Any]:
        from kafka.errors import KafkaTimeoutError

        deadline = time.monotonic() + self.request_timeout_s
        answers: dict[int, Any] = {}
        futures: dict[int, Awaitable[Any]] = {}
        for broker, request in requests.items():
            try:
                futures[broker] = manager.send(
                    request, node_id=broker, request_timeout_ms=self.request_timeout_s * 1000
                )
            except Exception as error:
                answers[broker] = require_expected(error)
        for broker, future in futures.items():
            try:
                left_ms = max(1.0, (deadline - time.monotonic()) * 1000)
                answers[broker] = await manager.wait_for(future, left_ms)
            except KafkaTimeoutError:
                answers[broker] = KafkaTimeoutError(f"no answer within {self.request_timeout_s:g} s")
            except Exception as error:
                answers[broker] = require_expected(error)
        return answers

    def _find_controller(self) -> None:
        from kafka.protocol.metadata import MetadataRequest

        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        found = self._send(request, False, self.request_timeout_s).controller_id
        self._controller = found if found is not None and found >= 0 else None

    def _connected(self) -> Any:
        if self._client is None:
            self._client = connect(
                self.bootstrap_servers, self._security, self.request_timeout_s, self.bootstrap_timeout_s
            )
            self._home = self._client._manager.run(self._first_ready, self._client._manager)
        return self._client

    async def _first_ready(self, manager: Any) -> int | None:
        # A stopped process accepts connections and never answers, so take the broker that answers first.
        connections = {}
        for broker in manager.cluster.brokers():
            try:
                connections[broker.node_id] = manager.get_connection(broker.node_id)
            except Exception as error:  # one address that cannot be used; the others may answer
                require_expected(error)
        deadline = time.monotonic() + min(5.0, self.bootstrap_timeout_s)
        while connections and time.monotonic() < deadline:
            for broker, connection in connections.items():
                if connection.connected:
                    return int(broker)
            await manager._net.sleep(0.005)
        return None

    @staticmethod
    def _refuse_unexpected(what: str, error: Exception) -> None:
        from kafka.errors import AuthorizationError, IncompatibleBrokerVersion

        if isinstance(error, TryLaterError):
            raise error
        if isinstance(error, AuthorizationError):
            raise OperationFailedError(
                f"{what}: refused ({describe_error(error)})", hint="see the rights the docs list"
            ) from None
        if isinstance(error, IncompatibleBrokerVersion):
            raise TooOldError(f"{what}: this Kafka is too old ({describe_error(error)})") from None
        require_expected(error)


def require_expected(error: Exception) -> Exception:
    """The error, which is of Kafka or of the network; raises any other: a fault of ours is not a broker's silence."""
    from kafka.errors import KafkaError

    # kafka-python's transport and selector raise it for what was closed meanwhile.
    is_closed = type(error) is RuntimeError and "closed" in str(error)
    if not (is_closed or isinstance(error, KafkaError | OSError | KafkakitError)):
        raise error
    return error


def _never_sent(error: Exception) -> bool:
    from kafka.errors import NodeNotReadyError, UnknownBrokerIdError

    return isinstance(error, NodeNotReadyError | UnknownBrokerIdError)


def _is_stale(error: Exception) -> bool:
    from kafka.errors import KafkaConnectionError

    return _never_sent(error) or isinstance(error, KafkaConnectionError)


REFUSED_LIMIT_S = 2.0
ROUND_PAUSE_S = 0.25
_NOISE = re.compile(r" \((?:_ssl\.c:\d+|backoff [\d.]+ secs)\)")


class _LastWords(logging.Handler):
    """Takes kafka-python's log lines off the terminal and keeps the last reason of a failed connection of each client.

    Each client has a thread of its own that connects, by whose number reasons are kept: many connect side by side.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._reasons: dict[int | None, str] = {}

    def take(self, thread: int | None) -> str:
        """The reason that the client with this thread gave last; empty where it gave none."""
        return self._reasons.pop(thread, "")

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.endswith("net.manager") and record.args and "failed" in record.msg:
            text = re.sub(r"\s+", " ", record.getMessage())
            if "Unable to bootstrap" in text:  # the sum of what went before, and says less
                return
            reason = re.sub(r"^.*?failed: (?:\[Error \d+\] )?", "", _NOISE.sub("", text))
            self._reasons[record.thread] = reason[:160]


def connect(bootstrap_servers: str, security: Security, request_timeout_s: float, bootstrap_timeout_s: float) -> Any:
    """Make a kafka-python admin client through the first address that works.

    Addresses are tried one by one, each with a part of the time, so that one that hangs does not use up
    all of it; when every one is refused the wait ends after 2 s. Raises `TryLaterError` with the reason, or
    `ConnectRefusedError` if the settings are the cause at an address that speaks Kafka, and no other address works.
    """
    from kafka.errors import KafkaError

    _listen()
    start = time.monotonic()
    servers = [s.strip() for s in bootstrap_servers.split(",") if s.strip()]
    limit_s = min(bootstrap_timeout_s, REFUSED_LIMIT_S)
    reason = "no address given"
    while servers:
        failed: list[str] = []
        refusals: list[ConnectRefusedError] = []
        for server in servers:
            left = bootstrap_timeout_s - (time.monotonic() - start)
            if left <= 0:
                break
            refused = _refuses(server, min(left, REFUSED_LIMIT_S))
            if refused:
                reason = f"{server}: {refused}"
                continue
            # Brokers of one cluster mostly refuse the same settings, and a client takes seconds to give up.
            refusal = explain(server, security) if refusals else None
            if refusal is None:
                try:
                    left = min(left, max(2.0, bootstrap_timeout_s / 3))
                    return _new_client(server, security, request_timeout_s, left)
                except (KafkaError, OSError, ValueError) as error:
                    reason = f"{server}: {getattr(error, '__notes__', [describe_error(error)])[-1]}"
                    if not isinstance(error, KafkaError):
                        raise TryLaterError(f"cannot connect to {reason}", hint=CHECK_HINT) from None
                    limit_s = bootstrap_timeout_s
                refusal = explain(server, security)
            failed.append(server)
            refusals += [] if refusal is None else [refusal]
        if refusals and len(refusals) < len(failed):  # some are not Kafka, or would take the settings
            refusals = [found for found in [explain(",".join(failed), security)] if found is not None]
        if refusals:
            raise refusals[0]
        if time.monotonic() - start + ROUND_PAUSE_S > limit_s:
            break
        pause(time, ROUND_PAUSE_S)
    prefix = "" if reason.startswith(f"{bootstrap_servers}: ") else f"{bootstrap_servers}: "
    raise TryLaterError(f"cannot connect to {prefix}{reason}", hint=CHECK_HINT)


def _new_client(server: str, security: Security, request_timeout_s: float, timeout_s: float) -> Any:
    """A client; an error has as its note what the connection said, if it said anything."""
    from kafka.admin import KafkaAdminClient

    options: dict[str, Any] = to_kafka_python(security)
    client = KafkaAdminClient.__new__(KafkaAdminClient)
    try:
        client.__init__(
            bootstrap_servers=[server],
            client_id="kafkakit",
            bootstrap_timeout_ms=int(timeout_s * 1000),
            request_timeout_ms=int(request_timeout_s * 1000),
            max_in_flight_requests_per_connection=64,
            metadata_max_age_ms=2000,
            reconnect_backoff_max_ms=1000,
            **options,
        )
    except BaseException as error:
        # A client that could not connect leaves its thread running, and only this object can stop it.
        if hasattr(client, "_net"):
            thread = client._net._io_thread
            client._client.close()
            client._net.stop()
            if said := _listen().take(thread.ident if thread is not None else None):
                error.add_note(said)
        raise
    return client


def describe_error(error: Exception | None) -> str:
    """An exception in one short line."""
    return re.sub(r"\s+", " ", str(error) or type(error).__name__)[:160]


def _listen() -> _LastWords:
    logger = logging.getLogger("kafka")
    for handler in logger.handlers:
        if isinstance(handler, _LastWords):
            return handler
    words = _LastWords()
    logger.addHandler(words)
    logger.propagate = False
    return words


def _refuses(server: str, timeout_s: float) -> str | None:
    """Say why nothing listens there; asking costs a refused address no time-out."""
    host, colon, port = server.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = server, "9092"
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout_s):
            return None
    except (OSError, ValueError, OverflowError) as error:
        return getattr(error, "strerror", None) or str(error) or type(error).__name__


UNKNOWN_TOPIC = 3
INVALID_TOPIC = 17
TOPIC_DENIED = 29
CLUSTER_DENIED = 31
UNKNOWN_TOPIC_ID = 100


def error_of(code: int, text: str | None = None) -> ItemError | None:
    """The error of a code and the broker's text; None for 0."""
    if code == 0:
        return None
    from kafka import errors

    kind = errors.for_code(code)
    name = kind.__name__ if kind.__name__ != "UnrecognizedBrokerError" else f"Error{code}"
    return ItemError(name=name, message=" ".join((text or "").split())[:300], retriable=bool(kind.retriable))


def error_from(exception: Exception) -> ItemError:
    """The error of a request that did not come back; worth another try. Raises what `require_expected` raises."""
    require_expected(exception)
    text = " ".join(str(exception).split())
    name = type(exception).__name__
    return ItemError(name=name, message=text.removeprefix(name).removeprefix(": ")[:300], retriable=True)


def refused_error(what: str, right: str) -> MissingRightError:
    """The failure of a read for a missing right, which Kafka would otherwise report as empty data."""
    return MissingRightError(f"{what}: not permitted", hint=f"grant {right} to this user")


Field = dict[str, Any]


def _field(name: str, kind: str, *, since: int = 0, fields: tuple[Field, ...] = (), **more: Any) -> Field:
    return {"name": name, "type": kind, "versions": f"{since}+", **more} | ({"fields": list(fields)} if fields else {})


def _text(name: str) -> Field:
    return _field(name, "string", nullableVersions="0+")


def _message(kind: str, name: str, key: int, versions: str, *fields: Field) -> Any:
    """The class of a request or a response; kafka-python finds responses by the request's number."""
    schema = {
        "apiKey": key, "type": kind, "name": f"{name}{kind.capitalize()}", "validVersions": versions,
        "flexibleVersions": "0+", "fields": list(fields),
    }  # fmt: skip
    body = {"json_patch": classmethod(lambda _cls, _json: schema)}
    return types.new_class(f"EndTxn{kind.capitalize()}", (ApiMessage,), {}, lambda names: names.update(body))


UnregisterBroker = _message("request", "UnregisterBroker", 64, "0", _field("BrokerId", "int32"))
_UNREGISTERED = _message(
    "response",
    "UnregisterBroker",
    64,
    "0",
    _field("ThrottleTimeMs", "int32"),
    _field("ErrorCode", "int16"),
    _text("ErrorMessage"),
)

_TOPIC = (_field("TopicName", "string"), _field("Partitions", "[]int32"))
DescribeShareGroupOffsets = _message(
    "request",
    "DescribeShareGroupOffsets",
    90,
    "0-1",
    _field(
        "Groups",
        "[]ShareGroupAsked",
        fields=(
            _field("GroupId", "string"),
            _field("Topics", "[]ShareTopicAsked", nullableVersions="0+", fields=_TOPIC),
        ),
    ),
)
_ERROR = (_field("ErrorCode", "int16"), _text("ErrorMessage"))
_PLACE = (
    _field("PartitionIndex", "int32"),
    _field("StartOffset", "int64"),
    _field("LeaderEpoch", "int32"),
    _field("Lag", "int64", since=1, ignorable=True, default=-1),
    *_ERROR,
)
_SHARE_OFFSETS = _message(
    "response",
    "DescribeShareGroupOffsets",
    90,
    "0-1",
    _field("ThrottleTimeMs", "int32"),
    _field(
        "Groups",
        "[]ShareGroupFound",
        fields=(
            _field("GroupId", "string"),
            _field(
                "Topics",
                "[]ShareTopicFound",
                fields=(
                    _field("TopicName", "string"),
                    _field("TopicId", "uuid"),
                    _field("Partitions", "[]SharePartitionFound", fields=_PLACE),
                ),
            ),
            *_ERROR,
        ),
    ),
)
"""Held here: kafka-python keeps weak references to responses."""


KEPT_BYTES = 8 << 20
"""An answer is received into memory that its connection keeps, up to so much of it: a larger one has its own."""
_FETCH = 1


def receive_whole_answers(manager: Any, *, with_views: bool) -> None:
    """Make connections receive an answer into memory that is there, and decode it from there.

    `with_views`: records of a large fetch stay where they were received, and are not copied.

    kafka-python reads 4 KB at once and copies an answer six times, mostly into new memory, which costs more than to
    receive it. Each read also releases the interpreter's lock, and a thread that decodes meanwhile keeps it for 5 ms.
    """
    build = manager._build_transport

    async def built(*args: Any, **options: Any) -> Any:
        transport = await build(*args, **options)
        transport._sock_recv = AnswerReader(transport, with_views).receive
        return transport

    manager._build_transport = built
    for connection in list(manager._conns.values()):
        if connection.transport is not None:
            connection.transport._sock_recv = AnswerReader(connection.transport, with_views).receive


class AnswerReader:
    """The receiving side of one connection: frames of 4 bytes with a length, and so many bytes."""

    def __init__(self, transport: Any, with_views: bool) -> None:
        self._transport, self._with_views = transport, with_views
        self._memory = memoryview(bytearray(1 << 16))
        self._received, self._wanted = 0, 4
        self._in_answer = False

    def receive(self) -> tuple[list[Any], Exception | None]:
        """What has come, decoded, in place of bytes: the parser of the connection takes it as it is."""
        from kafka.errors import KafkaConnectionError, KafkaError

        transport, answers = self._transport, list[Any]()
        parser = transport._protocol.parser
        parser.receive_bytes = list
        try:
            while size := transport._sock.recv_into(self._memory[self._received : self._wanted]):
                self._received += size
                if self._received == self._wanted:
                    answers += self._whole(parser)
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return answers, None
        except KafkaError as error:
            return answers, error
        except (OSError, AttributeError, ValueError) as error:
            return answers, KafkaConnectionError(str(error))
        return answers, KafkaConnectionError("socket disconnected")

    def _whole(self, parser: Any) -> list[Any]:
        """The answer that is complete; none where it was a length."""
        memory, size, was_answer = self._memory, self._wanted, self._in_answer
        self._received, self._in_answer = 0, not was_answer
        if was_answer:
            self._wanted = 4
            if len(memory) > KEPT_BYTES:
                self._memory = memoryview(bytearray(1 << 16))
            if self._with_views and size > KEPT_BYTES and parser.in_flight_requests[0].request_api_key == _FETCH:
                return [_decoded_in_place(parser, _AnswerBytes(memory[:size]))]
            return [parser._process_response(_AnswerBytes(memory[:size]))]
        self._wanted = int.from_bytes(memory[:4], "big", signed=True)
        parser._validate_frame_size(self._wanted)
        if self._wanted > len(memory):
            self._memory = memoryview(bytearray(self._wanted))
        return []


def _decoded_in_place(parser: Any, data: "_AnswerBytes") -> tuple[int, Any]:
    """An answer with its number, decoded field by field: kafka-python's compiled decoders copy each field."""
    from kafka.errors import CorrelationIdError

    header = parser.in_flight_requests.popleft()
    kind = header.get_response_class()
    if kind.parse_header(data).correlation_id != header.correlation_id:
        raise CorrelationIdError("an answer to another request")
    version, is_flexible = kind._class_version, kind.flexible_version_q(kind._class_version)
    decoded = kind._struct.decode(data, version=version, compact=is_flexible, tagged=is_flexible, data_class=kind[None])
    return header.correlation_id, decoded


class _AnswerBytes:
    """What kafka-python decodes an answer from: a field is copied once, and a large one is not."""

    def __init__(self, memory: memoryview) -> None:
        self._memory, self._at = memory, 0

    def read(self, size: int | None = None) -> bytes | memoryview:
        start = self._at
        self._at = len(self._memory) if size is None else min(start + size, len(self._memory))
        found = self._memory[start : self._at]
        return found if size is None or size > KEPT_BYTES else bytes(found)

    def seek(self, at: int) -> None:
        self._at = at

    def tell(self) -> int:
        return self._at
