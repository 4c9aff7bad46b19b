"""A small HTTP server for services: no name lookups, limits on everything."""

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6, socket
from threading import BoundedSemaphore, Thread
from urllib.parse import parse_qsl, urlsplit

from kafkakit.core.errors import UsageError
from kafkakit.core.rpc import HttpPage, HttpRequest, plain_page

MAX_AT_ONCE = 16
MAX_CONNECTIONS = 64
"""More are closed at once: each takes a thread, for as long as its client stays idle, up to `IDLE_S`."""
MAX_QUERY = 2000
IDLE_S = 10.0
MAX_BODY = 65536

Answer = Callable[[HttpRequest], HttpPage]


def parse_listen(text: str) -> tuple[str, int]:
    """The host and port of `HOST:PORT`, `[V6]:PORT` or `:PORT` (loopback); `UsageError` for anything else."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(
            f"{text[:60]!r} is not an address to listen on", hint="write HOST:PORT, such as 127.0.0.1:9105"
        )
    return host.strip("[]") or "127.0.0.1", int(port)


class HttpServer:
    """Answers GET, HEAD, POST, PUT and DELETE from threads of its own, until it is closed; bodies are not used.

    `answer` is called for each request, at most `MAX_AT_ONCE` at a time; others get 503.
    """

    def __init__(self, listen: str, answer: Answer) -> None:
        host, port = parse_listen(listen)
        family = AF_INET6 if ":" in host else AF_INET

        class _Bound(ThreadingHTTPServer):
            address_family = family
            daemon_threads = True
            request_queue_size = 64
            places = BoundedSemaphore(MAX_CONNECTIONS)

            def process_request(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
                if self.places.acquire(blocking=False):
                    super().process_request(request, client_address)
                else:
                    self.shutdown_request(request)

            def process_request_thread(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
                try:
                    super().process_request_thread(request, client_address)
                finally:
                    self.places.release()

            def server_bind(self) -> None:
                # The parent's looks up the host's name, which can take seconds where there is no DNS.
                self.socket.bind(self.server_address)
                self.server_address = self.socket.getsockname()
                self.server_name, self.server_port = host, self.server_address[1]

            def handle_error(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
                """Ignore clients that went away."""

        try:
            self._server = _Bound((host, port), _handler(answer))
        except OSError as error:
            raise UsageError(
                f"cannot listen on {listen}: {error.strerror or error}", hint="choose another address with --listen"
            ) from None
        self._thread = Thread(target=self._server.serve_forever, name="http", kwargs={"poll_interval": 0.2})
        self._thread.daemon = True
        self._thread.start()

    @property
    def address(self) -> str:
        """Where it listens, as `HOST:PORT`; the port is the real one where 0 was given."""
        host, port = self._server.server_address[:2]
        name = host.decode() if isinstance(host, bytes | bytearray) else str(host)
        return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"

    def close(self) -> None:
        """Stop answering; requests in progress get a moment to end."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=2.0)


def _handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    places = BoundedSemaphore(MAX_AT_ONCE)

    class _Handler(BaseHTTPRequestHandler):
        timeout = IDLE_S
        server_version = "kafkakit"
        sys_version = ""

        def do_GET(self) -> None:
            self._send(self._page())

        do_HEAD = do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - the names that the parent calls

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the parent's name
            """Log nothing of scrapes."""

        def _page(self) -> HttpPage:
            parts = urlsplit(self.path)
            if len(parts.query) > MAX_QUERY or len(parts.path) > MAX_QUERY:
                return plain_page(414, "the query is too long")
            if not _skip_body(self):
                return plain_page(413, "the body is too long")
            if not places.acquire(blocking=False):
                return plain_page(503, "too many requests at once")
            try:
                return answer(_request_of(self, parts.path, parts.query))
            except UsageError as error:
                return plain_page(400, str(error))
            except Exception as error:  # one bad page must not end the service
                return plain_page(500, f"{type(error).__name__}")
            finally:
                places.release()

        def _send(self, page: HttpPage) -> None:
            self.send_response(page.status)
            self.send_header("Content-Type", page.media)
            self.send_header("Content-Length", str(len(page.body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(page.body)

    return _Handler


def _skip_body(handler: BaseHTTPRequestHandler) -> bool:
    """Read and drop the body; False for one that is too long or of unknown length, whose connection ends."""
    length = handler.headers.get("Content-Length", "0")
    if handler.headers.get("Transfer-Encoding") or not length.isdigit() or int(length[:9]) > MAX_BODY:
        handler.close_connection = True
        return False
    handler.rfile.read(int(length))
    return True


def _request_of(handler: BaseHTTPRequestHandler, path: str, query: str) -> HttpRequest:
    found: dict[str, str] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        found.setdefault(key, value)
    host, port = str(handler.client_address[0]), handler.client_address[1]
    return HttpRequest(
        method=handler.command,
        path=path,
        query=found,
        remote=f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        is_local=host == "::1" or host.removeprefix("::ffff:").startswith("127."),
        authorization=handler.headers.get("Authorization", ""),
        accept=handler.headers.get("Accept", ""),
        uri=handler.path,
    )
