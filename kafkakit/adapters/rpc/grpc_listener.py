"""A gRPC server whose handlers get bytes and give bytes."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import grpc
from grpc_reflection.v1alpha import reflection

from kafkakit.core.errors import UsageError
from kafkakit.core.rpc import RpcAnswer, RpcCall, RpcCode, RpcError
from kafkakit.ports.services import Answer, GrpcService

MAX_AT_ONCE = 1000
STATUS = {code.value[0]: code for code in grpc.StatusCode}


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcTls:
    """PEM texts: our key and certificate, and the authorities of clients that must have one (None: any client)."""

    key: bytes
    certificate: bytes
    client_authorities: bytes | None = None


class GrpcListener:
    """Implements `ports.RpcListener` for some services, and for reflection from the descriptors of `pool`."""

    def __init__(
        self,
        listen: str,
        services: Sequence[GrpcService],
        *,
        pool: Any,
        max_body_bytes: int,
        tls: GrpcTls | None = None,
    ) -> None:
        self._listen, self._services, self._pool, self._tls = listen, services, pool, tls
        self._max_body_bytes = max_body_bytes
        self._server: Any = None
        self.failure = ""
        """See `ports.RpcListener`; the server of grpc has no part that could end by itself."""

    async def start(self) -> str:
        options = [
            ("grpc.max_receive_message_length", self._max_body_bytes),
            ("grpc.max_metadata_size", 16384),
            ("grpc.so_reuseport", 0),
        ]
        self._server = server = grpc.aio.server(options=options, maximum_concurrent_rpcs=MAX_AT_ONCE)
        for service in self._services:
            handlers = {name: _method(name, service) for name in service.methods}
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.name, handlers),))
        names = (*(service.name for service in self._services), reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server, pool=self._pool)
        try:
            port = self._add_port(server)
        except RuntimeError:
            raise UsageError(f"cannot listen on {self._listen}", hint="choose another address") from None
        await server.start()
        return f"{self._listen.rpartition(':')[0]}:{port}"

    async def stop(self, grace_s: float) -> None:
        if self._server is not None:
            await self._server.stop(grace_s)

    def _add_port(self, server: Any) -> int:
        tls = self._tls
        if tls is None:
            return int(server.add_insecure_port(self._listen))
        credentials = grpc.ssl_server_credentials(
            [(tls.key, tls.certificate)],
            root_certificates=tls.client_authorities,
            require_client_auth=tls.client_authorities is not None,
        )
        return int(server.add_secure_port(self._listen, credentials))


def _method(name: str, service: GrpcService) -> Any:
    if name in service.streams:
        return grpc.unary_stream_rpc_method_handler(_stream_handler(name, service.answer))
    return grpc.unary_unary_rpc_method_handler(_handler(name, service.answer))


def _handler(name: str, answer: Answer) -> Any:
    async def handle(body: bytes, context: Any) -> bytes:
        answered = await answer(_call(name, body, context))
        return _finish(answered, context) if isinstance(answered, RpcAnswer) else b""

    return handle


def _stream_handler(name: str, answer: Answer) -> Any:
    async def handle(body: bytes, context: Any) -> AsyncIterator[bytes]:
        answered = await answer(_call(name, body, context))
        if isinstance(answered, RpcAnswer):
            _finish(answered, context)
            return
        try:
            async for part in answered.parts:
                yield part
        except RpcError as error:
            _finish(RpcAnswer(body=b"", code=error.code, message=error.message), context)

    return handle


def _call(name: str, body: bytes, context: Any) -> RpcCall:
    headers = {key: value for key, value in context.invocation_metadata() if isinstance(value, str)}
    left_s = context.time_remaining()
    return RpcCall(method=name, body=body, remote=_remote(context.peer()), headers=headers, deadline_s=left_s or None)


def _finish(answer: RpcAnswer, context: Any) -> bytes:
    if answer.headers:
        context.set_trailing_metadata(tuple((key.lower(), value) for key, value in answer.headers))
    if answer.code is not RpcCode.OK:
        context.set_code(STATUS[int(answer.code)])
        context.set_details(answer.message)
    return answer.body


def _remote(peer: str) -> str:
    """`ipv4:10.0.0.1:5000` and `ipv6:[::1]:5000` as the address alone."""
    return unquote(peer).partition(":")[2].rpartition(":")[0].strip("[]") or peer
