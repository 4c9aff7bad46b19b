"""gRPC's health checks: whether reads are answered."""

import asyncio
from collections.abc import AsyncIterator, Callable

from kafkakit.core.rpc import RpcAnswer, RpcCall, RpcCode, RpcError, RpcStream
from kafkakit.ports.rpc import MessageCodec
from kafkakit.registry.decide.requests import SERVICE
from kafkakit.registry.decide.v2.calls import SERVICE_V2

HEALTH = "grpc.health.v1.Health"
SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3
MAX_WATCHES = 100
LOOK_S = 2.0
_KNOWN = frozenset({"", SERVICE, SERVICE_V2})


class Health:
    """Answers without a token, as load balancers ask; `MAX_WATCHES` at once are told of each change."""

    def __init__(self, codec: MessageCodec, is_fresh: Callable[[], bool]) -> None:
        self._codec, self._is_fresh = codec, is_fresh
        self._watches = 0
        self._is_closed = False

    def close(self) -> None:
        """End every watch at its next look."""
        self._is_closed = True

    async def grpc(self, call: RpcCall) -> RpcAnswer | RpcStream:
        """Answer `Check` and `Watch`."""
        try:
            service = str(self._codec.decode("HealthCheckRequest", call.body)["service"])
        except RpcError as error:
            return RpcAnswer(body=b"", code=error.code, message=error.message)
        if call.method == "Check":
            if service not in _KNOWN:
                return RpcAnswer(body=b"", code=RpcCode.NOT_FOUND, message="unknown service")
            return RpcAnswer(body=self._encoded(self._status(service)))
        if self._watches >= MAX_WATCHES:
            return RpcAnswer(body=b"", code=RpcCode.RESOURCE_EXHAUSTED, message="too many watches are open")
        return RpcStream(parts=self._changes(service))

    async def _changes(self, service: str) -> AsyncIterator[bytes]:
        self._watches += 1
        try:
            last = 0
            while not self._is_closed:
                status = self._status(service)
                if status != last:
                    last = status
                    yield self._encoded(status)
                await asyncio.sleep(LOOK_S)
        finally:
            self._watches -= 1

    def _status(self, service: str) -> int:
        if service not in _KNOWN:
            return SERVICE_UNKNOWN
        return SERVING if self._is_fresh() else NOT_SERVING

    def _encoded(self, status: int) -> bytes:
        return self._codec.encode("HealthCheckResponse", {"status": status})
