"""The HTTP server of all services, on uvicorn, with answers by starlette: TLS, limits, times and names of hosts.

`HttpListener` answers calls in its event loop; `PageServer` is one with a thread of its own, whose pages may block.
Every connection has a time for each of its states, since uvicorn limits only idle ones: a head must come and a TLS
handshake end within `HttpLimits.head_s`, a body come within `body_s`, and an answer be taken within `send_s`.
"""

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from threading import Thread
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

import uvicorn
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from kafkakit.config.security import Security
from kafkakit.core.errors import OperationFailedError, UsageError
from kafkakit.core.rpc import (
    HttpPage,
    HttpRequest,
    RpcAnswer,
    RpcCall,
    RpcStream,
    ServiceProbes,
    is_from_another_page,
    is_loopback,
    parse_listen,
    plain_page,
    unknown_name,
)
from kafkakit.ports.services import Answer

_LOG = logging.getLogger(__name__)
_REFUSED: Mapping[int, bytes] = {
    400: b'{"code":3,"message":"the request has a length and chunks","details":[]}',
    408: b'{"code":4,"message":"the request came too slowly","details":[]}',
    431: b'{"code":8,"message":"the head of the request is too large","details":[]}',
    413: b'{"code":8,"message":"the request is too large","details":[]}',
}
_TYPE = b"content-type"
_JSON = (_TYPE, b"application/json")
_NO_STORE = (b"cache-control", b"no-store")
_GRACE_S = 2.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """What a client may take: `connections` beyond the limit get 503, and a quarter more are closed at once."""

    body_bytes: int = 65536
    head_bytes: int = 16384
    connections: int = 1000
    head_s: float = 10.0
    """From the first byte to the end of a head; also to the first byte of a connection, and for a handshake of TLS."""
    body_s: float = 10.0
    send_s: float = 60.0
    idle_s: float = 30.0
    """Between two requests of a connection."""


class _Connection(H11Protocol):
    """uvicorn's, with a limit of their number, and times for heads and for what is still to be sent at the end."""

    limits = HttpLimits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.waits_from_s: float | None = self.loop.time()
        self.left_from_s: float | None = None
        if len(self.connections) > self.limits.connections + max(1, self.limits.connections // 4):
            transport.abort()

    def data_received(self, data: bytes) -> None:
        if self.waits_from_s is None and (self.cycle is None or self.cycle.response_complete):
            self.waits_from_s = self.loop.time()
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self.waits_from_s = None

    def on_response_complete(self) -> None:
        # What is left of a body, and what has come of the next head.
        is_awaited = self.cycle.more_body or self.conn.trailing_data[0]
        self.waits_from_s = self.loop.time() if is_awaited else None
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        try:
            super().send_400_response(msg)
        except Exception:  # in the middle of an answer no other one can be sent
            self.transport.abort()

    def check(self) -> None:
        """Drop it if a head does not come, or nobody takes what is left of an answer that is over."""
        now_s, limits = self.loop.time(), self.limits
        is_answered = self.cycle is None or self.cycle.response_complete
        if is_answered and not self.transport.get_write_buffer_size() and not self.transport.is_closing():
            self.left_from_s = None
        elif self.left_from_s is None and is_answered:
            self.left_from_s = now_s
        waits_s = 0.0 if self.waits_from_s is None else now_s - self.waits_from_s
        left_s = 0.0 if self.left_from_s is None else now_s - self.left_from_s
        if waits_s > limits.head_s or left_s > limits.send_s:
            self.transport.abort()


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to the service, which stops its listeners in its own order."""
        yield


class HttpListener:
    """Implements `ports.RpcListener`. `answer` is called in the event loop, with each body read within the limits.

    `tls` has our key and certificate, and the authorities of clients that must have one (None: any client). `probes`
    are answered before anything else is asked.
    """

    def __init__(
        self,
        listen: str,
        answer: Answer,
        *,
        tls: Security | None = None,
        limits: HttpLimits | None = None,
        probes: ServiceProbes | None = None,
    ) -> None:
        self._listen, self._answer, self._tls, self._probes = listen, answer, tls, probes
        self._limits = limits or HttpLimits()
        self._server: Any = None
        self._serving: asyncio.Task[None] | None = None
        self._is_stopped = False
        self.failure = ""
        """See `ports.RpcListener`."""

    async def start(self) -> str:
        # Bytes that are not a request are the sender's concern, and no line of ours each.
        logger = logging.getLogger("uvicorn.error")
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
        bound = _bind(self._listen)
        try:
            config = self._config()
            config.load()
        except BaseException:
            bound.close()
            raise
        self._server = server = _Server(config)
        self._serving = asyncio.create_task(server.serve(sockets=[]))
        while not server.started and not self._serving.done():
            await asyncio.sleep(0.01)
        if self._serving.done():
            self._serving.result()
        self._serving.add_done_callback(self._note_end)
        # Ours in place of uvicorn's own, which gives a handshake of TLS a minute.
        server.servers.append(
            await asyncio.get_running_loop().create_server(
                lambda: config.http_protocol_class(config=config, server_state=server.server_state, app_state={}),  # type: ignore[call-arg]
                sock=bound,
                ssl=config.ssl,
                backlog=config.backlog,
                ssl_handshake_timeout=None if config.ssl is None else self._limits.head_s,
            )
        )
        host, port = bound.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def stop(self, grace_s: float) -> None:
        self._is_stopped = True
        if self._server is None or self._serving is None:
            return
        self._server.config.timeout_graceful_shutdown = max(1, round(grace_s))
        self._server.should_exit = True
        with suppress(Exception):  # late, or how it ended before
            await asyncio.wait_for(self._serving, grace_s + 5)
        for server in self._server.servers:
            server.close()
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()

    def _note_end(self, serving: "asyncio.Task[None]") -> None:
        if self._is_stopped or serving.cancelled():
            return
        self.failure = f"the HTTP server has ended ({serving.exception()!r}); this is a bug in kafkakit"
        _LOG.error("%s: %s", self._listen, self.failure)

    def _config(self) -> uvicorn.Config:
        from ssl import CERT_NONE, CERT_REQUIRED

        limits, tls = self._limits, dict[str, Any]()
        if self._tls is not None:
            tls = {
                "ssl_keyfile": self._tls.key_file,
                "ssl_certfile": self._tls.cert_file,
                "ssl_ca_certs": self._tls.ca_file,
                "ssl_cert_reqs": CERT_NONE if self._tls.ca_file is None else CERT_REQUIRED,
            }
        return uvicorn.Config(
            self._application,
            interface="asgi3",
            http=type("_LimitedConnection", (_Connection,), {"limits": limits}),
            ws="none",
            loop="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=limits.connections + 1,  # which counts the connection that it refuses
            timeout_keep_alive=limits.idle_s,  # type: ignore[arg-type]
            timeout_graceful_shutdown=5,
            timeout_notify=0,
            callback_notify=self._check_connections,
            h11_max_incomplete_event_size=limits.head_bytes,
            **tls,
        )

    async def _check_connections(self) -> None:
        """Called by uvicorn each second."""
        for connection in list(self._server.server_state.connections):
            connection.check()

    async def _application(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            await self._respond(scope, receive, send)
        except Exception as error:  # uvicorn closes the connection, and says so only to its own log
            _LOG.error("%s %s: the answer ends early: %r", scope["method"], scope["path"], error)
            raise

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _body(scope, receive, self._limits)
        if isinstance(body, int):
            await _send(send, body, [_JSON, (b"connection", b"close")], _REFUSED[body])
            return
        if self._probes is not None and (page := self._probes.page(scope["path"])) is not None:
            await _send(send, page.status, [(_TYPE, page.media.encode()), _NO_STORE], page.body)
            return
        host, port = scope["client"] or ("", 0)
        answer = await self._answer(
            RpcCall(
                method=scope["method"],
                path=scope["raw_path"].decode("latin-1"),
                query=scope["query_string"].decode("latin-1"),
                headers={key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]},
                remote=host,
                remote_port=port,
                body=body,
            )
        )
        if not isinstance(answer, RpcStream):
            headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
            has_type = any(name == _TYPE for name, _ in headers)
            await _send(send, answer.status, headers if has_type else [_JSON, *headers], answer.body)
            return
        try:
            await StreamingResponse(answer.parts, headers=dict(answer.headers))(scope, receive, self._limited(send))
        except* TimeoutError:
            pass  # uvicorn closes a connection whose response did not end
        finally:
            if isinstance(answer.parts, AsyncGenerator):
                await answer.parts.aclose()

    def _limited(self, send: Send) -> Send:
        async def limited(message: Message) -> None:
            await asyncio.wait_for(send(message), self._limits.send_s)

        return limited


async def _send(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    """An answer in one piece; what a client does not take of it ends with its connection: `_Connection.check`."""
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


async def _body(scope: Scope, receive: Receive, limits: HttpLimits) -> bytes | int:
    """The whole body; the status of the refusal if it or the head is too long (413, 431), or it is too slow (408).

    What has a length and chunks (400) may end for a proxy where it does not for h11, which would then read the rest of
    it as the next request.
    """
    # h11 limits only a head that comes in parts.
    if len(scope["raw_path"]) + sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > limits.head_bytes:
        return 431
    if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
        return 400
    if scope["method"] == "GET":
        return b""  # what a client sends with it is never read
    announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    if int(announced) > limits.body_bytes:  # h11 refuses what is not a number
        return 413
    parts, size = [], 0
    try:
        async with asyncio.timeout(limits.body_s):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return b""
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > limits.body_bytes:
                    return 413
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        return 408


def _bind(listen: str) -> socket.socket:
    host, port = parse_listen(listen)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # else a restart fails for a minute
            bound.bind(address)
            bound.listen(1)  # what another process has open is only found now
        except OSError:
            bound.close()
            raise
    except OSError as error:
        raise UsageError(
            f"cannot listen on {listen}: {error.strerror or error}", hint="choose another address with --listen"
        ) from None
    return bound


MAX_PAGES_AT_ONCE = 16
RETRY_AFTER_S = "5"
MAX_TARGET = 2000
"""The longest path, and the longest query, of a page."""
PAGE_LIMITS = HttpLimits(connections=64)
Page = Callable[[HttpRequest], HttpPage]


class PageServer:
    """Answers from threads of its own, from now on until it is closed.

    `page` is called for each request, at most `MAX_PAGES_AT_ONCE` at a time; others get 503. `names` are the host names
    that are answered beside addresses and `localhost` (None: any), and what pages of other servers send is refused.
    Raises `UsageError` for an address that cannot be used.
    """

    def __init__(
        self,
        listen: str,
        page: Page,
        *,
        names: Collection[str] | None = None,
        limits: HttpLimits = PAGE_LIMITS,
        tls: Security | None = None,
        probes: ServiceProbes | None = None,
    ) -> None:
        self._page, self._names, self._busy = page, names, 0
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="http", daemon=True)
        self._listener = HttpListener(listen, self._answer, limits=limits, tls=tls, probes=probes)
        self._is_closed = False
        self._thread.start()
        try:
            self.address = asyncio.run_coroutine_threadsafe(self._listener.start(), self._loop).result()
        except BaseException:
            self.close()
            raise

    def require_listening(self) -> None:
        """Raise `OperationFailedError` if it has ended by itself."""
        if self._listener.failure:
            raise OperationFailedError(self._listener.failure)

    def close(self) -> None:
        """Stop answering; requests in progress get a moment to end. Closing twice is harmless."""
        if self._is_closed:
            return
        self._is_closed = True
        with suppress(TimeoutError):  # the loop ends below, whatever is still in progress
            asyncio.run_coroutine_threadsafe(self._listener.stop(_GRACE_S), self._loop).result(2 * _GRACE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_GRACE_S)
        if not self._thread.is_alive():
            self._loop.close()

    async def _answer(self, call: RpcCall) -> RpcAnswer | RpcStream:
        page = await self._page_for(call)
        headers = (
            ("Content-Type", page.media),
            *(() if any(name == "Cache-Control" for name, _ in page.headers) else (("Cache-Control", "no-store"),)),
            ("X-Content-Type-Options", "nosniff"),
            *page.headers,
        )
        if page.parts is not None:
            return RpcStream(parts=page.parts, headers=headers)
        return RpcAnswer(body=page.body, status=page.status, headers=headers)

    async def _page_for(self, call: RpcCall) -> HttpPage:
        if len(call.path) > MAX_TARGET or len(call.query) > MAX_TARGET:
            return plain_page(414, "the query is too long")
        # A page whose name leads here may send any header: one that nobody has checked says nothing of the sender.
        if name := unknown_name(call.headers, self._names):
            return plain_page(403, f"{name} is not a known name of this server")
        is_signed = bool(call.headers.get("authorization"))  # which no page sends to another server unasked
        if call.method not in ("GET", "HEAD") and not is_signed and is_from_another_page(call.headers):
            return plain_page(403, "comes from a page of another server")
        if self._busy >= MAX_PAGES_AT_ONCE:
            return replace(plain_page(503, "too many requests at once"), headers=(("Retry-After", RETRY_AFTER_S),))
        self._busy += 1
        try:
            return await in_own_thread(partial(self._page, request_of(call)))
        except UsageError as error:
            return plain_page(400, str(error))
        except Exception as error:  # one bad page must not end the service, and its text may hold what is not for all
            _LOG.error("%s %s failed: %r", call.method, call.path, error)
            return plain_page(500, type(error).__name__)
        finally:
            self._busy -= 1


async def in_own_thread(work: Callable[[], T]) -> T:
    """Run what may block in a daemon thread: at its end a process waits for the threads of a pool, however long."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[T] = loop.create_future()

    def settle(give: Callable[[Any], None], what: object) -> None:
        if not ended.done():
            give(what)

    def run() -> None:
        try:
            settled = partial(settle, ended.set_result, work())
        except BaseException as error:
            settled = partial(settle, ended.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settled)

    Thread(target=run, name="request", daemon=True).start()
    return await ended


def request_of(call: RpcCall) -> HttpRequest:
    """The request of a page; also of one that names the whole address, as clients of a proxy do."""
    uri = f"{call.path}?{call.query}" if call.query else call.path
    parts, found = urlsplit(uri), dict[str, str]()
    for key, value in parse_qsl(parts.query, keep_blank_values=True):
        found.setdefault(key, value)
    host, port = call.remote, call.remote_port
    return HttpRequest(
        method=call.method,
        path=parts.path,
        query=found,
        remote=f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        is_local=is_loopback(host),
        authorization=call.headers.get("authorization", ""),
        accept=call.headers.get("accept", ""),
        uri=uri,
        headers=call.headers,
        body=call.body,
    )
