"""A loopback server that answers as an HTTP API of metrics does, and with faults on demand."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Points = Sequence[tuple[float, float | None]]


@dataclass
class Reply:
    """What one request gets; `drip_s` is the pause before each byte, `missing` how many announced bytes never come."""

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    drip_s: float = 0
    missing: int = 0


@dataclass
class Request:
    path: str
    words: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any = None


class Server:
    """`replies` are given in turn, the last one for ever; a function makes one of the request."""

    def __init__(self, *replies: Reply | Callable[[Request], Reply]) -> None:
        self.replies = list(replies)
        self.got: list[Request] = []
        self.url = ""

    def reply(self, request: Request) -> Reply:
        self.got.append(request)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return reply(request) if callable(reply) else reply


class _Handler(BaseHTTPRequestHandler):
    server_of_replies: Server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        words = {name: values[0] for name, values in parse_qs(parts.query).items()}
        sent = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        is_json = sent and self.headers["Content-Type"] == "application/json"
        request = Request(parts.path, words, dict(self.headers), json.loads(sent) if is_json else sent or None)
        reply = self.server_of_replies.reply(request)
        body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) + reply.missing))
        self.end_headers()
        try:
            for byte in body if reply.drip_s else ():
                time.sleep(reply.drip_s)
                self.wfile.write(bytes([byte]))
            if not reply.drip_s:
                self.wfile.write(body)
        except OSError:
            self.close_connection = True

    do_POST = do_GET  # noqa: N815 - the name that the parent calls

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's word
        pass


@contextmanager
def serving(*replies: Reply | Callable[[Request], Reply]) -> Iterator[Server]:
    rig = Server(*replies)
    handler = type("Made", (_Handler,), {"server_of_replies": rig})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        threading.Thread(target=lambda: server.serve_forever(poll_interval=0.02), daemon=True).start()
        rig.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield rig
        finally:
            server.shutdown()


def vector(*series: tuple[Mapping[str, str], object], at: float = 1_700_000_000.25, **more: object) -> Reply:
    """What Prometheus answers to an instant query."""
    result = [{"metric": dict(labels), "value": [at, str(value)]} for labels, value in series]
    return Reply({"status": "success", "data": {"resultType": "vector", "result": result}, **more})


def timeseries(*series: tuple[str, Points]) -> Reply:
    """What Datadog answers to a query of timeseries; points are milliseconds and values."""
    body = [{"scope": scope, "pointlist": points, "metric": "m", "length": len(points)} for scope, points in series]
    return Reply({"status": "ok", "res_type": "time_series", "series": body, "query": "q", "error": ""})


class Datadog:
    """An organisation of hosts: `tags` by host, `values` (bytes/s sent and received) by host, all of them now.

    Points begin at whole `span_s`. `points` replaces a host's points of what was sent, and `copies` is what every host
    has for a query of copies; `faults` are replies by a piece of the query or of the path.
    """

    def __init__(self, now: Callable[[], float], span_s: int = 120) -> None:
        self.now, self.span_s = now, span_s
        self.tags: dict[str, list[str]] = {}
        self.values: dict[str, tuple[float, float]] = {}
        self.points: dict[str, Points] = {}
        self.copies = 0.0
        self.faults: dict[str, Reply] = {}
        self.events: list[tuple[str, str, list[str]]] = []

    def add(self, host: str, broker: int, kind: str = "big", sent: float = 0.0, received: float = 0.0) -> None:
        self.tags[host] = [f"broker_id:{broker}", f"instance-type:{kind}", "service:kafka"]
        self.values[host] = sent, received

    def __call__(self, request: Request) -> Reply:
        asked = request.words.get("query", request.path)
        fault = next((reply for piece, reply in self.faults.items() if piece in asked), None)
        if fault is not None:
            return fault
        if request.path == "/api/v1/events":
            self.events.append((request.body["title"], request.body["text"], request.body["tags"]))
            return Reply({"status": "ok"}, 202)
        if request.path.startswith("/api/v1/tags/hosts/"):
            found = self.tags.get(unquote(request.path.rpartition("/")[2]))
            return Reply({"errors": ["no such host"]}, 404) if found is None else Reply({"tags": found})
        is_sent = "bytes_sent" in asked
        begun_ms = self.now() // self.span_s * self.span_s * 1000
        points: dict[str, Points] = {
            h: [(begun_ms, self.copies if "copies" in asked else values[not is_sent])]
            for h, values in self.values.items()
        }
        return timeseries(*((f"host:{h}", p) for h, p in ({**points, **self.points} if is_sent else points).items()))
