"""The monitor's HTTP server: pages, refusals and limits over a real socket on loopback."""

import http.client
import socket
import threading
from collections.abc import Iterator

import pytest

from kafkakit.adapters.http_server import MAX_AT_ONCE, HttpServer, parse_listen
from kafkakit.core.errors import UsageError
from kafkakit.core.rpc import HttpPage, Query, answer_pages


def text(query: Query) -> HttpPage:
    return HttpPage(body=f"hello {query.get('group', '')}\n".encode(), media="text/plain")


def broken(query: Query) -> HttpPage:
    raise ValueError("with a secret in it")


def picky(query: Query) -> HttpPage:
    raise UsageError("no such view", hint="ask for groups")


@pytest.fixture
def server() -> Iterator[HttpServer]:
    served = HttpServer("127.0.0.1:0", answer_pages({"/metrics": text, "/broken": broken, "/picky": picky}))
    yield served
    served.close()


def ask(server: HttpServer, path: str, method: str = "GET") -> tuple[int, str, str]:
    host, port = server.address.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=120)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers["Content-Type"]
    finally:
        connection.close()


def test_a_page_is_served_with_its_query(server: HttpServer) -> None:
    assert ask(server, "/metrics?group=a%20b") == (200, "hello a b\n", "text/plain")
    assert ask(server, "/metrics", "HEAD") == (200, "", "text/plain")


def test_what_is_not_there_is_told_with_what_is(server: HttpServer) -> None:
    status, body, _ = ask(server, "/")
    assert (status, body) == (404, "there is /broken /metrics /picky\n")
    assert ask(server, "/metrics?" + "x" * 3000)[0] == 414
    assert ask(server, "/metrics", "POST")[0] == 501


def test_a_fault_of_a_page_tells_no_details_and_ends_nothing(server: HttpServer) -> None:
    assert ask(server, "/broken")[:2] == (500, "ValueError\n")
    assert ask(server, "/picky")[:2] == (400, "no such view; ask for groups\n")
    assert ask(server, "/metrics")[0] == 200


def test_too_many_at_once_are_told_to_come_again() -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()

    def slow(query: Query) -> HttpPage:
        begun.release()
        go_on.wait(180)
        return HttpPage(body=b"", media="text/plain")

    served = HttpServer("127.0.0.1:0", answer_pages({"/slow": slow}))
    try:
        waiting = [threading.Thread(target=ask, args=(served, "/slow")) for _ in range(MAX_AT_ONCE)]
        for thread in waiting:
            thread.start()
        for _ in waiting:
            assert begun.acquire(timeout=120)
        assert ask(served, "/slow")[0] == 503
        go_on.set()
        for thread in waiting:
            thread.join(120)
        assert ask(served, "/slow")[0] == 200
    finally:
        go_on.set()
        served.close()


def test_a_port_in_use_is_a_usage_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match="cannot listen on"):
            HttpServer(f"127.0.0.1:{taken.getsockname()[1]}", answer_pages({}))


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
