"""The HTTP server of all services: pages, refusals and limits over raw sockets on loopback."""

import asyncio
import http.client
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from kafkakit import wiring
from kafkakit.adapters.rpc import http_listener
from kafkakit.adapters.rpc.http_listener import (
    MAX_PAGES_AT_ONCE,
    PAGE_LIMITS,
    HttpLimits,
    HttpListener,
    PageServer,
)
from kafkakit.config.security import Security
from kafkakit.core.errors import MissingExtraError, OperationFailedError, UsageError
from kafkakit.core.rpc import (
    ALIVE_S,
    HttpPage,
    HttpRequest,
    Query,
    RpcAnswer,
    RpcCall,
    ServiceProbes,
    answer_pages,
    is_loopback,
    parse_listen,
)
from tests.rigs.registry import tls_files
from tests.rigs.waiting import until


def text(query: Query) -> HttpPage:
    return HttpPage(body=f"hello {query.get('group', '')}\n".encode(), media="text/plain")


def broken(query: Query) -> HttpPage:
    raise ValueError("with a secret in it")


def picky(query: Query) -> HttpPage:
    raise UsageError("no such view", hint="ask for groups")


@pytest.fixture
def server() -> Iterator[PageServer]:
    served = PageServer("127.0.0.1:0", answer_pages({"/metrics": text, "/broken": broken, "/picky": picky}))
    yield served
    served.close()


def ask(server: PageServer, path: str, method: str = "GET") -> tuple[int, str, str]:
    host, port = server.address.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=120)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers["Content-Type"]
    finally:
        connection.close()


def test_a_page_is_served_with_its_query(server: PageServer) -> None:
    assert ask(server, "/metrics?group=a%20b") == (200, "hello a b\n", "text/plain")
    assert ask(server, "/metrics", "HEAD") == (200, "", "text/plain")


def test_what_is_not_there_is_told_with_what_is(server: PageServer) -> None:
    status, body, _ = ask(server, "/")
    assert (status, body) == (404, "there is /broken /metrics /picky\n")
    assert ask(server, "/metrics?" + "x" * 3000)[0] == 414
    assert ask(server, "/metrics", "POST")[0] == 501


def test_a_fault_of_a_page_is_logged_tells_no_details_and_ends_nothing(
    server: PageServer, caplog: pytest.LogCaptureFixture
) -> None:
    assert ask(server, "/broken")[:2] == (500, "ValueError\n")
    assert [record.getMessage() for record in caplog.records] == [
        "GET /broken failed: ValueError('with a secret in it')"
    ]
    assert ask(server, "/picky")[:2] == (400, "no such view; ask for groups\n")
    assert ask(server, "/metrics")[0] == 200


def test_too_many_at_once_are_told_to_come_again() -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()

    def slow(query: Query) -> HttpPage:
        begun.release()
        go_on.wait(180)
        return HttpPage(body=b"", media="text/plain")

    served = PageServer("127.0.0.1:0", answer_pages({"/slow": slow}))
    try:
        waiting = [threading.Thread(target=ask, args=(served, "/slow")) for _ in range(MAX_PAGES_AT_ONCE)]
        for thread in waiting:
            thread.start()
        for _ in waiting:
            assert begun.acquire(timeout=120)
        refused = told(served.address, GET.replace(b"/x", b"/slow"))
        assert (status(refused), b"\r\nretry-after: " in refused.lower()) == (503, True)
        go_on.set()
        for thread in waiting:
            thread.join(120)
        assert ask(served, "/slow")[0] == 200
    finally:
        go_on.set()
        served.close()


def test_a_page_that_hangs_keeps_no_process_from_its_end() -> None:
    begun, go_on, before = threading.Event(), threading.Event(), set(threading.enumerate())

    def hang(query: Query) -> HttpPage:
        begun.set()
        go_on.wait(180)
        return HttpPage(body=b"", media="text/plain")

    with closing(PageServer("127.0.0.1:0", answer_pages({"/hang": hang}))) as served:
        threading.Thread(target=lambda: ask(served, "/hang"), daemon=True).start()
        assert begun.wait(120)
    assert [thread for thread in set(threading.enumerate()) - before if not thread.daemon] == []
    go_on.set()


def test_a_server_that_ends_by_itself_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken_check(connection: object) -> None:
        raise LookupError("no such state")

    monkeypatch.setattr(http_listener._Connection, "check", broken_check)
    with closing(PageServer("127.0.0.1:0", answer_pages({"/metrics": text}))) as served:
        served.require_listening()
        with connected(served.address):
            until(lambda: "LookupError('no such state')" in caplog.text, "the end is logged")
        with pytest.raises(OperationFailedError, match=r"the HTTP server has ended .*no such state"):
            served.require_listening()


def test_a_server_that_was_stopped_has_not_failed(server: PageServer, caplog: pytest.LogCaptureFixture) -> None:
    server.close()
    server.require_listening()
    assert caplog.text == ""


def test_a_port_in_use_is_a_usage_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match="cannot listen on"):
            PageServer(f"127.0.0.1:{taken.getsockname()[1]}", answer_pages({}))


@pytest.mark.parametrize(
    ("given", "expected"),
    [("127.0.0.1:9105", ("127.0.0.1", 9105)), (":80", ("127.0.0.1", 80)), ("[::1]:9105", ("::1", 9105))],
)
def test_addresses(given: str, expected: tuple[str, int]) -> None:
    assert parse_listen(given) == expected


@pytest.mark.parametrize("given", ["", "9105", "a:b", "a:-1", "a:65536", "a:٣"])
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match="not an address to listen on"):
        parse_listen(given)


QUICK = HttpLimits(connections=64, body_bytes=65536, head_s=0.3, body_s=0.3, send_s=0.3, idle_s=60)
"""Times that are over soon; what must not be over is another one."""


def echo(request: HttpRequest) -> HttpPage:
    return HttpPage(body=f"{request.method} {request.uri}\n".encode(), media="text/plain")


def pages(limits: HttpLimits = PAGE_LIMITS, names: Sequence[str] = ()) -> "closing[PageServer]":
    return closing(PageServer("127.0.0.1:0", echo, names=names, limits=limits))


def connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=120)


def to_end(connection: socket.socket) -> bytes:
    """All that comes until the server closes the connection, in one way or the other."""
    parts = list[bytes]()
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def told(address: str, *parts: bytes) -> bytes:
    """What the server answers until it closes the connection; it may do so while we send."""
    with connected(address) as connection:
        try:
            for part in parts:
                connection.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return to_end(connection)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def post(*fields: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join((b"POST /x HTTP/1.1", b"Host: localhost", b"Connection: close", *fields, b"", b"")) + body


GET = b"GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def test_a_port_is_free_again_at_once_after_requests() -> None:
    with pages() as server:
        address = server.address
        # The side that closes first keeps the connection for a minute.
        assert status(told(address, GET)) == 200
    for _ in range(2):
        with closing(PageServer(address, echo)) as server:
            assert server.address == address
            assert status(told(address, GET)) == 200


@pytest.mark.parametrize(
    ("length", "body", "expected"),
    [
        (b"5", b"12345", 200),
        (b"0000000000005", b"12345", 200),
        (b"65536", b"x" * 65536, 200),
        (b"65537", b"", 413),
        (b"0000000065537", b"", 413),
        (b"000000000999999999", b"x" * 100_000, 413),
        (b"99999999999999999999", b"", 413),
        (b"9" * 5000, b"", 400),
        (b"\xb2", b"", 400),
        ("\u0665".encode(), b"", 400),
        (b"+5", b"12345", 400),
        (b"-1", b"", 400),
        (b"1_0", b"1234567890", 400),
        (b"0x5", b"12345", 400),
        (b"5.0", b"12345", 400),
        (b"5, 6", b"123456", 400),
        (b"", b"", 400),
    ],
)
def test_lengths_of_bodies_are_read_as_numbers_or_refused(length: bytes, body: bytes, expected: int) -> None:
    with pages() as server:
        assert status(told(server.address, post(b"Content-Length: " + length, body=body))) == expected
        assert status(told(server.address, GET)) == 200


@pytest.mark.parametrize("method", [b"GET", b"POST"])
def test_no_request_hides_in_one_with_a_length_and_chunks(method: bytes) -> None:
    head = method + b" /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"0\r\n\r\n" + GET
    with pages() as server:
        answers = told(server.address, head % len(body) + body)
        assert (status(answers), answers.count(b"HTTP/1.1 ")) == (400, 1)


def test_chunked_bodies_have_the_same_limit_and_no_end_is_waited_for() -> None:
    chunked = post(b"Transfer-Encoding: chunked")
    with pages() as server:
        assert status(told(server.address, chunked, b"5\r\nabcde\r\n0\r\n\r\n")) == 200
        assert status(told(server.address, chunked, *(b"2000\r\n" + b"x" * 8192 + b"\r\n",) * 1000)) == 413
        assert status(told(server.address, chunked, b"zz\r\n")) in (400, 200)
        assert status(told(server.address, post(b"Transfer-Encoding: gzip, chunked"))) == 400
    with pages(QUICK) as server:
        assert status(told(server.address, chunked, b"5\r\nabcde\r\n")) == 408
        assert status(told(server.address, post(b"Content-Length: 10", body=b"123"))) == 408
        endless = b"GET /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert status(told(server.address, endless)) == 200


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET", b"GET /x HTTP/1.1\r\nHost: localhost\r\nX: ", b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\nGET /"],
)
def test_a_head_that_does_not_come_ends_its_connection(sent: bytes) -> None:
    with pages(QUICK) as server, connected(server.address) as slow:
        slow.sendall(sent)
        answers = to_end(slow)
        assert answers.count(b"HTTP/1.1 200") == sent.count(b"\r\n\r\n")
        assert status(told(server.address, GET)) == 200


def test_a_head_that_drips_ends_its_connection() -> None:
    with pages(QUICK) as server, connected(server.address) as slow:
        slow.sendall(b"GET /x HTTP/1.1\r\n")
        end_s = time.monotonic() + 120
        with suppress(BrokenPipeError, ConnectionResetError):
            while time.monotonic() < end_s:
                slow.sendall(b"X: y\r\n")
                time.sleep(0.02)
        assert time.monotonic() < end_s


@pytest.mark.parametrize(
    ("head", "refusals"),
    [
        (GET[:-2] + b"X: " + b"y" * 100_000 + b"\r\n\r\n", (400, 431)),
        (GET[:-2] + b"X: y\r\n" * 20_000 + b"\r\n", (400, 431)),
        (GET[:-2] + b"X: " + b"y" * 20_000 + b"\r\n\r\n", (400, 431)),
        (b"GET /" + b"x" * 100_000, (400, 0)),
        (b"GET /" + b"x" * 3000 + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", (414,)),
        (b"\0" * 100_000, (400, 0)),
        (b"GET /x HTTP/1.1\r\n\r\n", (400,)),
        (b"GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", (400,)),
    ],
)  # 0: what was not read any more took the answer with it
def test_heads_that_are_too_large_or_unsound_are_refused(head: bytes, refusals: tuple[int, ...]) -> None:
    with pages() as server:
        assert status(told(server.address, head)) in refusals
        assert status(told(server.address, GET)) == 200


def test_pipelined_requests_are_answered_in_their_order() -> None:
    one = b"GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with pages() as server:
        answers = told(server.address, b"".join(one % number for number in range(50)) + GET)
    assert [line for line in answers.split(b"\n") if line.startswith(b"GET")] == [
        *(b"GET /%d" % number for number in range(50)), b"GET /x",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"GET /x HTTP/1.1\r\nHost: localhost:9105", 200),
        (b"GET /x HTTP/1.1\r\nHost: 127.0.0.1:1", 200),
        (b"GET /x HTTP/1.1\r\nHost: [::1]:1", 200),
        (b"GET /x HTTP/1.1\r\nHost: Lag.Internal:80", 200),
        (b"GET /x HTTP/1.1\r\nHost: evil.example", 403),
        (b"GET /x HTTP/1.1\r\nHost: localhost.evil.example", 403),
        (b"GET /x HTTP/1.1\r\nHost: evil.example:1:80", 403),
        (b"GET /x HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer x", 403),
        (b"GET /x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x", 200),
        (b"POST /x HTTP/1.1\r\nHost: evil.example\r\nAuthorization: x", 403),
        (b"GET /x HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example", 200),
        (b"POST /x HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost", 200),
        (b"POST /x HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example", 403),
        (b"POST /x HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site", 403),
    ],
)
def test_other_names_and_pages_of_other_servers_are_refused(head: bytes, expected: int) -> None:
    with closing(wiring.open_page_server("127.0.0.1:0", echo, ["lag.internal"])) as server:
        assert status(told(server.address, head + b"\r\nConnection: close\r\n\r\n")) == expected


def test_a_server_for_other_machines_answers_all_names() -> None:
    with closing(wiring.open_page_server("0.0.0.0:0", echo)) as server:
        answer = told("127.0.0.1:" + server.address.rpartition(":")[2], GET.replace(b"localhost", b"lag.example"))
        assert status(answer) == 200


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1", True), ("127.1", True), ("::1", True), ("::ffff:127.0.0.1", True), ("localhost", True),
     ("127.0.0.1.evil.example", False), ("127.evil.example", False), ("10.0.0.1", False), ("0.0.0.0", False)],
)  # fmt: skip
def test_names_that_begin_like_an_address_of_this_host_are_not(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected


def test_connections_that_are_too_many_are_told_so_or_closed() -> None:
    with pages(replace(QUICK, connections=8, head_s=60)) as server, ExitStack() as stack:
        silent = [stack.enter_context(connected(server.address)) for _ in range(8)]
        for each in silent:
            each.sendall(b"GET /x")
        assert status(told(server.address, GET)) == 503
        silent += [stack.enter_context(connected(server.address)) for _ in range(2)]
        assert told(server.address, GET) == b""
        for each in silent:
            each.close()
        until(lambda: (answer := told(server.address, GET)) and status(answer) == 200, "places are freed")


def test_an_answer_that_nobody_takes_frees_its_place() -> None:
    def large(request: HttpRequest) -> HttpPage:
        return HttpPage(body=b"x" * (64 << 20 if request.path == "/large" else 1), media="text/plain")

    limits = replace(QUICK, connections=1, head_s=60)
    with closing(PageServer("127.0.0.1:0", large, limits=limits)) as server, connected(server.address) as idle:
        idle.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert idle.recv(8) == b"HTTP/1.1"
        until(lambda: status(told(server.address, GET)) == 200, "the place is freed")


class TlsServer:
    """A listener with TLS in a loop of its own."""

    def __init__(self, folder: Path) -> None:
        files = tls_files(folder)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        tls = Security(key_file=str(files / "server.key"), cert_file=str(files / "server.pem"))
        self._listener = HttpListener("127.0.0.1:0", self.answer, tls=tls, limits=QUICK)
        self.address = asyncio.run_coroutine_threadsafe(self._listener.start(), self._loop).result(120)

    async def answer(self, call: RpcCall) -> RpcAnswer:
        return RpcAnswer(body=call.path.encode())

    def ask(self) -> bytes:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with connected(self.address) as plain, context.wrap_socket(plain) as connection:
            connection.sendall(GET)
            return to_end(connection)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._listener.stop(1), self._loop).result(120)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(120)
        self._loop.close()


def test_signals_stay_with_the_service() -> None:
    async def answer(call: RpcCall) -> RpcAnswer:
        return RpcAnswer(body=b"")

    async def listen() -> None:
        listener, before = HttpListener("127.0.0.1:0", answer), handlers()
        await listener.start()
        assert handlers() == before
        await listener.stop(1)
        assert handlers() == before

    def handlers() -> list[object]:
        return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    assert threading.current_thread() is threading.main_thread()
    asyncio.run(listen())


def test_a_handshake_of_tls_that_stalls_ends_and_holds_nobody_up(tmp_path: Path) -> None:
    with closing(TlsServer(tmp_path)) as server, ExitStack() as stack:
        stalled = [stack.enter_context(connected(server.address)) for _ in range(100)]
        for number, each in enumerate(stalled):
            each.sendall(b"\x16\x03\x01\x02"[: number % 5])
        assert status(server.ask()) == 200
        for each in stalled:
            assert to_end(each) == b""
        told(server.address, GET)
        assert status(server.ask()) == 200


def test_the_extra_is_named_if_it_is_not_installed() -> None:
    without = mock.patch.dict(sys.modules, {"kafkakit.adapters.rpc.http_listener": None})
    with without, pytest.raises(MissingExtraError, match="serving over HTTP requires the package uvicorn") as caught:
        wiring.open_page_server("127.0.0.1:0", echo)
    assert "kafkakit[serve]" in (caught.value.hint or "")


class ProbedService:
    """Probes of a service whose time and readiness a test sets."""

    def __init__(self) -> None:
        self.now_s, self.is_ready, self.lines = 1000.0, True, list[str]()
        self.probes = ServiceProbes(self.tell, lambda: self.now_s, lambda: self.is_ready)

    def tell(self, *lines: str) -> bool:
        self.lines += lines
        return True

    def answers(self) -> list[int]:
        pages = [self.probes.page(path) for path in ("/startupz", "/livez", "/readyz")]
        return [page.status for page in pages if page is not None]


def test_probes_answer_by_what_the_service_manager_is_told() -> None:
    service = ProbedService()
    assert service.answers() == [503, 200, 503]
    assert service.probes.notify("STATUS=reading")
    assert service.answers() == [503, 200, 503], "a status is no work"
    service.probes.notify("WATCHDOG=1")
    assert service.answers() == [200, 200, 200]
    service.is_ready = False
    assert service.answers() == [200, 200, 503]
    service.now_s += ALIVE_S
    assert service.answers() == [200, 200, 503]
    service.now_s += 1
    assert service.answers() == [200, 503, 503], "stuck: only a restart helps"
    service.probes.notify("READY=1")
    assert service.answers() == [200, 200, 503]
    assert service.lines == ["STATUS=reading", "WATCHDOG=1", "READY=1"]
    assert service.probes.page("/metrics") is None


def test_probes_need_neither_a_token_nor_a_name_nor_a_free_thread() -> None:
    service, held = ProbedService(), threading.Event()
    service.probes.notify("WATCHDOG=1")

    def hang(request: HttpRequest) -> HttpPage:
        held.wait(60)
        return HttpPage(body=b"", media="text/plain", status=401)

    with closing(wiring.open_page_server("127.0.0.1:0", hang, probes=service.probes)) as server, ExitStack() as stack:
        stack.callback(held.set)
        for _ in range(MAX_PAGES_AT_ONCE):
            stack.enter_context(connected(server.address)).sendall(GET)
        until(lambda: status(told(server.address, GET)) == 503)
        probe = b"GET /livez HTTP/1.1\r\nHost: 10.1.2.3:8080\r\nConnection: close\r\n\r\n"
        answer = told(server.address, probe)
        assert (status(answer), answer.partition(b"\r\n\r\n")[2]) == (200, b"ok\n")
        assert status(told(server.address, probe.replace(b"10.1.2.3", b"a-pod"))) == 200
        assert status(told(server.address, probe.replace(b"/livez", b"/livez/more"))) in (403, 503)
