"""The connection under the control adapters: reaching a cluster, asking it, and healing what kafka-python keeps stale.

kafka-python 3.0 caches the controller for ever and retries nothing, and its public calls drop error
texts. So requests go to its connection manager, here and nowhere else; a client that fails is replaced.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kafkakit.adapters.kafka.connect import connect, described
from kafkakit.config.security import Security
from kafkakit.core.errors import OperationFailedError, TooOldError, TryLaterError

ATTEMPTS = 4
BACKOFF_S = (0.1, 0.4, 1.0)
NOT_CONTROLLER = 41
Errors = Callable[[Any], set[int]]


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
                time.sleep(BACKOFF_S[attempt - 1])
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
        raise TryLaterError(f"{what}: the cluster gave no answer ({described(fault)})", hint="is the cluster healthy?")

    def request_brokers(self, requests: Mapping[int, Any]) -> dict[int, Any]:
        """Send one request to each named broker, side by side; a value is the response or the exception.

        Takes at most about `request_timeout_s`: a broker that hangs costs the others nothing. Brokers
        that look unknown or in backoff get the request once more with a new client.
        """
        answers = self._fan_out(requests)
        stale = {b: requests[b] for b, answer in answers.items() if isinstance(answer, Exception) and _stale(answer)}
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
                answers[broker] = error
        for broker, future in futures.items():
            try:
                left_ms = max(1.0, (deadline - time.monotonic()) * 1000)
                answers[broker] = await manager.wait_for(future, left_ms)
            except KafkaTimeoutError:
                answers[broker] = KafkaTimeoutError(f"no answer within {self.request_timeout_s:g} s")
            except Exception as error:
                answers[broker] = error
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
            except Exception:
                continue
        deadline = time.monotonic() + min(5.0, self.bootstrap_timeout_s)
        while connections and time.monotonic() < deadline:
            for broker, connection in connections.items():
                if connection.connected:
                    return int(broker)
            await manager._net.sleep(0.005)
        return None

    @staticmethod
    def _refuse_unexpected(what: str, error: Exception) -> None:
        from kafka.errors import AuthorizationError, IncompatibleBrokerVersion, KafkaError

        if isinstance(error, TryLaterError):
            raise error
        if isinstance(error, AuthorizationError):
            raise OperationFailedError(
                f"{what}: refused ({described(error)})", hint="see the rights the docs list"
            ) from None
        if isinstance(error, IncompatibleBrokerVersion):
            raise TooOldError(f"{what}: this Kafka is too old ({described(error)})") from None
        if not isinstance(error, KafkaError | OSError):
            raise error


def _never_sent(error: Exception) -> bool:
    from kafka.errors import NodeNotReadyError, UnknownBrokerIdError

    return isinstance(error, NodeNotReadyError | UnknownBrokerIdError)


def _stale(error: Exception) -> bool:
    from kafka.errors import KafkaConnectionError

    return _never_sent(error) or isinstance(error, KafkaConnectionError)
