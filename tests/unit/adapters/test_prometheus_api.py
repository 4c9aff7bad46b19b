"""Instant queries to Prometheus, against a loopback stand-in; a real server answers in tests/integration."""

import math
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from kafkakit.adapters import metrics_services as http_service
from kafkakit.adapters.metrics_services import MOST_EXPRESSION, PrometheusApi
from kafkakit.config.security import Secret
from kafkakit.core.errors import InputError, KafkakitError, OperationFailedError, TryLaterError, UsageError
from tests.rigs.metrics_http import Reply, Server, serving, vector

NOW = datetime(2026, 3, 4, 5, 6, 7, 890_000, tzinfo=UTC)
TOKEN = "t0ken-of-the-reader"


def client(server: Server, authorization: str | None = None, **options: Any) -> PrometheusApi:
    options.setdefault("pause", lambda seconds: None)
    options.setdefault("warn", pytest.fail)
    return PrometheusApi(server.url, Secret(authorization) if authorization else None, **options)


def test_a_vector_comes_as_labels_values_and_times() -> None:
    with serving(vector(({"topic": "a", "partition": "0"}, 1.5e9), ({}, "NaN"))) as server:
        first, second = client(server, f"Bearer {TOKEN}").query("max by (topic) (x) + 1", NOW)
    assert (first.labels, first.value) == ({"topic": "a", "partition": "0"}, 1.5e9)
    assert first.time == datetime.fromtimestamp(1_700_000_000.25, UTC)
    assert math.isnan(second.value)
    (got,) = server.got
    assert got.path == "/api/v1/query"
    words = {"query": "max by (topic) (x) + 1", "time": f"{NOW.timestamp():.3f}", "partial_response": "false"}
    assert got.words == words
    assert got.headers["Authorization"] == f"Bearer {TOKEN}"


def test_a_scalar_is_one_sample_without_labels_and_a_prefix_is_kept() -> None:
    body = {"status": "success", "data": {"resultType": "scalar", "result": [1_700_000_000, "+Inf"]}}
    with serving(Reply(body)) as server:
        server.url += "/prometheus/"
        assert client(server).query("1/0", NOW) == (({}, math.inf, datetime.fromtimestamp(1_700_000_000, UTC)),)
    assert server.got[0].path == "/prometheus/api/v1/query"


def test_warnings_of_an_answer_are_handed_on() -> None:
    told: list[str] = []
    with serving(vector(({}, 1), warnings=["a store\x1b[2J is down"])) as server:
        client(server, warn=told.append).query("x", NOW)
    assert told == [f"Prometheus {server.url}: a store\\x1b[2J is down"]


def failed(kind: type[KafkakitError], match: str | None, *replies: Reply, **options: Any) -> Server:
    with serving(*replies) as server, pytest.raises(kind, match=match) as told:
        client(server, f"Bearer {TOKEN}", **options).query("x", NOW)
    assert TOKEN not in str(told.value)
    return server


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_tried_four_times(status: int) -> None:
    pauses: list[float] = []
    busy = Reply({"error": "query timed out"}, status, {"Retry-After": "3"})
    server = failed(TryLaterError, f"HTTP {status}: query timed out", busy, pause=pauses.append)
    assert (len(server.got), pauses) == (4, [3.0, 3.0, 4.0])


@pytest.mark.parametrize("status", [302, 400, 401, 404, 422])
def test_a_refusal_is_not_tried_again(status: int) -> None:
    body = {"status": "error", "error": f"parse error\nnear {TOKEN}"}
    with serving(vector()) as other:
        reply = Reply(body, status, {"Location": f"{other.url}/api/v1/query"})
        server = failed(OperationFailedError, rf"HTTP {status}: parse error near \*\*\*", reply)
    assert (len(server.got), other.got) == (1, [])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"status":1}',
        b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1]}]}}',
        b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"many"]}]}}',
        b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1e300,"1"]}]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[]}}',
        b"[" * 100_000,
    ],
)
def test_an_answer_that_makes_no_sense_is_an_input_error(body: bytes) -> None:
    failed(InputError, None, Reply(body))


def test_an_error_with_status_200_is_told() -> None:
    failed(OperationFailedError, "cannot answer: no", Reply({"status": "error", "error": "no"}))


def test_size_and_time_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    failed(InputError, "more than 100 bytes", Reply(b" " * 101), most_bytes=100)
    failed(TryLaterError, "timed out", Reply(b" " * 50, drip_s=0.5), timeout_s=0.1)
    failed(TryLaterError, "ends early", Reply(b"{}", missing=5), timeout_s=60)
    monkeypatch.setattr(http_service, "monotonic", count(0, 70).__next__)
    server = failed(TryLaterError, "longer than 60 s", Reply(b" "), timeout_s=60)
    assert len(server.got) == 4


def test_a_server_that_is_down_is_named() -> None:
    with serving(vector()) as server:
        pass
    with pytest.raises(TryLaterError, match=f"Prometheus {server.url} gives no answer: Connection refused"):
        client(server).query("x", NOW)


@pytest.mark.parametrize(
    "url",
    ["", "prom:9090", "ftp://prom", "http://", "http://u:p@prom", "http://prom?x=1", "http://p/#", "http://p:99999",
     "http://a b", "http://pröm", "http://[::1"],
)  # fmt: skip
def test_an_address_that_cannot_be_used_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        PrometheusApi(url, warn=pytest.fail)


def test_credentials_are_not_sent_in_the_clear_beyond_this_host() -> None:
    for url in ("http://127.0.0.1.evil.example:9090", "http://prom:9090"):
        PrometheusApi(url, warn=pytest.fail)
        with pytest.raises(UsageError, match="unencrypted"):
            PrometheusApi(url, Secret("Bearer x"), warn=pytest.fail)
    PrometheusApi("https://prom", Secret("Bearer x"), warn=pytest.fail)


def test_an_expression_too_long_for_an_address_is_refused() -> None:
    with serving(vector()) as server, pytest.raises(UsageError, match="characters"):
        client(server).query("x" * (MOST_EXPRESSION + 1), NOW)
