"""Sending to Datadog's API, against a server on loopback."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from kafkakit.adapters import metrics_services as datadog_api
from kafkakit.adapters.metrics_services import DatadogApi
from kafkakit.config.security import Secret
from kafkakit.core.errors import OperationFailedError, TryLaterError, UsageError

KEY = "k3y-of-the-organisation"
SERIES = [{"metric": f"kafkakit.audit.x{n}", "type": 3, "points": [], "tags": ["a:b"]} for n in range(7)]


class Intake(BaseHTTPRequestHandler):
    """Answers with the statuses in turn, the last one for ever, and keeps what it got."""

    statuses: list[int]
    headers_sent: dict[str, str]
    got: list[tuple[str, str, Any]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.got.append((self.path, self.headers["DD-API-KEY"], body))
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        self.send_response(status)
        for name, value in self.headers_sent.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's word
        pass


@contextmanager
def intake(*statuses: int, **headers: str) -> Iterator[tuple[str, list[tuple[str, str, Any]]]]:
    got: list[tuple[str, str, Any]] = []
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    handler = type("Made", (Intake,), {"statuses": list(statuses), "headers_sent": sent, "got": got})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", got
        server.shutdown()


def test_series_arrive_with_the_key_in_a_header_alone() -> None:
    with intake(202) as (site, got):
        assert DatadogApi(Secret(KEY), site).send(SERIES) == 7
    assert got == [("/api/v2/series", KEY, {"series": SERIES})]


def test_many_series_go_in_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datadog_api, "DATADOG_MOST_BYTES", 200)
    with intake(202) as (site, got):
        assert DatadogApi(Secret(KEY), site).send(SERIES) == 7
    assert len(got) > 1
    assert [one for _, _, body in got for one in body["series"]] == SERIES


def test_a_busy_service_is_tried_again_after_the_time_it_asks_for() -> None:
    pauses: list[float] = []
    with intake(503, 429, 202, Retry_After="7") as (site, got):
        assert DatadogApi(Secret(KEY), site, pause=pauses.append).send(SERIES) == 7
    assert (len(got), pauses) == (3, [7.0, 7.0])


def test_no_answer_is_tried_four_times() -> None:
    pauses: list[float] = []
    with intake(500) as (site, got), pytest.raises(TryLaterError, match="HTTP 500") as told:
        DatadogApi(Secret(KEY), site, pause=pauses.append).send(SERIES)
    assert (len(got), pauses) == (4, [1.0, 2.0, 4.0])
    assert KEY not in str(told.value)
    with pytest.raises(TryLaterError):
        DatadogApi(Secret(KEY), site, pause=pauses.append).send(SERIES)


@pytest.mark.parametrize("status", [400, 403, 413])
def test_a_refusal_is_not_tried_again(status: int) -> None:
    with intake(status) as (site, got), pytest.raises(OperationFailedError, match=f"HTTP {status}") as told:
        DatadogApi(Secret(KEY), site).send(SERIES)
    assert len(got) == 1
    assert KEY not in str(told.value)


@pytest.mark.parametrize("status", [302, 307])
def test_the_key_does_not_follow_to_another_host(status: int) -> None:
    with intake(202) as (other, got), intake(status, Location=f"{other}/api/v2/series") as (site, _):
        with pytest.raises(OperationFailedError, match=f"HTTP {status}"):
            DatadogApi(Secret(KEY), site).send(SERIES)
        assert got == []


@pytest.mark.parametrize(
    "site", ["", "http://datadoghq.com", "http://127.0.0.1.evil.example", "a b.com", "x@y.com", "http://evil@h:1"]
)
def test_the_key_is_not_sent_in_the_clear_beyond_this_host(site: str) -> None:
    with pytest.raises(UsageError, match="is no site of Datadog"):
        DatadogApi(Secret(KEY), site)
