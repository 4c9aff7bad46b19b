"""Connections that say nothing must not grow the service without bound."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from kafkakit.adapters import http_server
from kafkakit.adapters.http_server import MAX_CONNECTIONS, HttpServer
from kafkakit.core.rpc import HttpPage, answer_pages


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpServer]:
    monkeypatch.setattr(http_server, "IDLE_S", 180.0)  # none is let go of while a slow machine opens them
    made = HttpServer("127.0.0.1:0", answer_pages({"/x": lambda _: HttpPage(body=b"x", media="text/plain")}))
    yield made
    made.close()


def test_silent_clients_take_a_bounded_number_of_threads_and_free_them(server: HttpServer) -> None:
    host, _, port = server.address.rpartition(":")
    before = threading.active_count()
    with ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=120)).send(b"GET /x")
        late = stack.enter_context(socket.create_connection((host, int(port)), timeout=120))
        assert late.recv(10) == b"", "one too many is let go of at once"
        assert threading.active_count() - before <= MAX_CONNECTIONS
    end_s = time.monotonic() + 120
    while time.monotonic() < end_s:
        with socket.create_connection((host, int(port)), timeout=120) as again:
            again.sendall(b"GET /x HTTP/1.0\r\n\r\n")
            if again.recv(12) == b"HTTP/1.0 200":
                return
        time.sleep(0.01)
    pytest.fail("places were not freed")
