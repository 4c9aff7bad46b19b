"""An HTTP server for calls with bodies, many at once, over uvicorn."""

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import uvicorn

from kafkakit.core.errors import UsageError
from kafkakit.core.rpc import RpcCall, RpcStream
from kafkakit.ports.services import Answer

MAX_AT_ONCE = 1000
BODY_LIMIT_S = 10.0
SEND_LIMIT_S = 60.0
MAX_HEADER_BYTES = 16384
_TOO_LARGE = b'{"code":8,"message":"the request is too large","details":[]}'
_TYPE = b"content-type"
_JSON = (_TYPE, b"application/json")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpTls:
    """PEM files: our key and certificate, and the authorities of clients that must have one (None: any client)."""

    key_file: str
    certificate_file: str
    client_authorities_file: str | None = None


class HttpListener:
    """Implements `ports.RpcListener`; reads each body up to a limit, within 10 s."""

    def __init__(self, listen: str, answer: Answer, *, max_body_bytes: int, tls: HttpTls | None = None) -> None:
        self._listen, self._answer, self._max_body_bytes, self._tls = listen, answer, max_body_bytes, tls
        self._server: Any = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """See `ports.RpcListener`."""
        from ssl import CERT_NONE, CERT_REQUIRED

        # Bytes that are no request are the sender's concern, and no line of ours each.
        logger = logging.getLogger("uvicorn.error")
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
        bound = _bind(self._listen)
        tls: dict[str, Any] = {}
        if self._tls is not None:
            authorities = self._tls.client_authorities_file
            tls = {
                "ssl_keyfile": self._tls.key_file,
                "ssl_certfile": self._tls.certificate_file,
                "ssl_ca_certs": authorities,
                "ssl_cert_reqs": CERT_NONE if authorities is None else CERT_REQUIRED,
            }
        config = uvicorn.Config(
            self._application,
            interface="asgi3",
            http="h11",
            ws="none",
            loop="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MAX_AT_ONCE,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=5,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
            **tls,
        )
        self._server = uvicorn.Server(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[bound]))
        while not self._server.started and not self._serving.done():
            await asyncio.sleep(0.01)
        if self._serving.done():
            self._serving.result()
        host, port = bound.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def stop(self, grace_s: float) -> None:
        """See `ports.RpcListener`."""
        if self._server is None or self._serving is None:
            return
        self._server.config.timeout_graceful_shutdown = max(1, round(grace_s))
        self._server.should_exit = True
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._serving, grace_s + 5)

    async def _application(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[dict[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        if scope["type"] != "http":
            return
        body = await _body(scope, receive, self._max_body_bytes)
        if body is None:
            await _send(send, 413, [_JSON, (b"connection", b"close")], _TOO_LARGE)
            return
        answer = await self._answer(
            RpcCall(
                method=scope["method"],
                path=scope["raw_path"].decode("latin-1"),
                query=scope["query_string"].decode("latin-1"),
                headers={key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]},
                remote=(scope["client"] or ("",))[0],
                body=body,
            )
        )
        headers = [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in answer.headers]
        if isinstance(answer, RpcStream):
            await _stream(receive, send, headers, answer.parts)
        else:
            has_type = any(name == _TYPE for name, _ in headers)
            await _send(send, answer.status, headers if has_type else [_JSON, *headers], answer.body)


async def _stream(
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
    headers: list[tuple[bytes, bytes]],
    parts: AsyncIterator[bytes],
) -> None:
    """Send parts until there are no more, the client is gone, or takes nothing for 60 s."""
    gone = asyncio.create_task(_disconnected(receive))
    try:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for part in parts:
            if gone.done():
                return
            message = {"type": "http.response.body", "body": part, "more_body": True}
            await asyncio.wait_for(send(message), SEND_LIMIT_S)
        await asyncio.wait_for(send({"type": "http.response.body", "body": b""}), SEND_LIMIT_S)
    except TimeoutError:
        pass  # uvicorn closes a connection whose response did not end
    finally:
        gone.cancel()
        if isinstance(parts, AsyncGenerator):
            await parts.aclose()


async def _disconnected(receive: Callable[[], Awaitable[dict[str, Any]]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(
    send: Callable[[dict[str, Any]], Awaitable[None]], status: int, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


async def _body(scope: dict[str, Any], receive: Callable[[], Awaitable[dict[str, Any]]], limit: int) -> bytes | None:
    """The whole body; None for one that is too long or too slow."""
    if scope["method"] == "GET":
        return b""  # what a client sends with it is never read
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_LIMIT_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return b""
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > limit:
                    return None
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        return None


def _bind(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {listen}: {error.strerror or error}", hint="choose another address"
        ) from None
    return bound
