"""Instant queries to Prometheus, against a loopback stand-in; a real server answers in tests/integration.

Sending to Datadog's API, against a server on loopback. Datadog's timeseries, against a loopback server with the
documented shapes. Sums of pathways on their way to an agent.
"""

import gzip
import json
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count
from typing import Any

import msgspec
import pytest

from kafkakit.adapters import metrics_services as datadog_api
from kafkakit.adapters import metrics_services as http_service
from kafkakit.adapters.metrics_services import MOST_EXPRESSION, DatadogAgent, DatadogApi, DatadogQueries, PrometheusApi
from kafkakit.config.security import Secret
from kafkakit.core.errors import InputError, KafkakitError, OperationFailedError, TryLaterError, UsageError
from kafkakit.streams.model.pathways import (
    Bucket,
    PathwayBuckets,
    PathwayNode,
    PayloadSender,
    checkpoint_out,
    encode_payload,
    produce_tags,
)
from tests.rigs.metrics_http import Reply, Server, serving, timeseries, vector

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
def test_a_refusal_is_not_tried_again_datadog_api(status: int) -> None:
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
    with pytest.raises(UsageError, match="is not a Datadog site"):
        DatadogApi(Secret(KEY), site)


NOW_DATADOG_QUERIES = datetime.fromtimestamp(1_700_000_000, UTC)
KEYS = (Secret("api-k3y"), Secret("app-k3y"))


def client_datadog_queries(server: Server, **options: Any) -> DatadogQueries:
    options.setdefault("pause", lambda seconds: None)
    return DatadogQueries(*KEYS, server.url, span_s=3600, **options)


def test_the_newest_value_of_each_series_comes_with_the_tags_of_its_scope() -> None:
    series = timeseries(
        ("topic:a,partition:0", [(1, 5.0), (3, 7.5), (2, 6.0), (4, None)]),
        ("partition:1, topic:x:y", [(1, None)]),
        ("*", []),
    )
    with serving(series) as server:
        first, second, third = client_datadog_queries(server).query("max:x{*} by {topic}", NOW_DATADOG_QUERIES)
    assert first == ({"topic": "a", "partition": "0"}, 7.5, datetime.fromtimestamp(0.003, UTC))
    assert second.labels == {"topic": "x", "partition": "1"}
    assert math.isnan(second.value)
    assert second.time == third.time == NOW_DATADOG_QUERIES
    assert third.labels == {}
    (got,) = server.got
    assert got.path == "/api/v1/query"
    assert got.words == {"from": "1699992800", "to": "1700000000", "query": "max:x{*} by {topic}"}
    assert (got.headers["Dd-Api-Key"], got.headers["Dd-Application-Key"]) == ("api-k3y", "app-k3y")


@pytest.mark.parametrize(
    ("reply", "kind", "match"),
    [
        (Reply({"errors": ["Forbidden app-k3y"]}, 403), OperationFailedError, r"403: Forbidden \*\*\*.*credential"),
        (Reply({"errors": ["Rate limit"]}, 429, {"X-RateLimit-Reset": "2"}), TryLaterError, "HTTP 429: Rate limit"),
        (Reply({"status": "error", "error": "Rule 'x' is\nno query"}), OperationFailedError, "cannot answer"),
        (Reply(b"<html>"), InputError, "not valid JSON"),
        (Reply({"status": "ok", "series": [{"scope": 1}]}), InputError, "series"),
        (timeseries(("a:b", [(1e300, 1.0)])), InputError, "not a time in milliseconds"),
        (Reply(b" " * 2000), InputError, "more than 1,000 bytes"),
    ],
)  # fmt: skip
def test_faults_are_told_in_one_line(reply: Reply, kind: type[KafkakitError], match: str) -> None:
    with serving(reply) as server, pytest.raises(kind, match=match) as told:
        client_datadog_queries(server, most_bytes=1000).query("x", NOW_DATADOG_QUERIES)
    assert "\n" not in str(told.value)
    assert "k3y" not in str(told.value)


def test_a_key_that_no_header_can_hold_is_refused() -> None:
    with pytest.raises(UsageError, match="no header") as told:
        DatadogQueries(Secret("a\nb"), Secret("c"), span_s=60)
    assert "a\nb" not in str(told.value)


@pytest.mark.parametrize(
    ("site", "base"),
    [
        ("datadoghq.eu", "https://api.datadoghq.eu"),
        ("https://api.datadoghq.eu/", "https://api.datadoghq.eu"),
        ("https://proxy.example:8443", "https://proxy.example:8443"),
        ("http://127.0.0.1:5", "http://127.0.0.1:5"),
        ("http://api.datadoghq.eu", None),
        ("https://api.datadoghq.eu/x", None),
        ("https://user:pw@api.datadoghq.eu", None),
        ("nonsense", None),
    ],
)
def test_a_site_may_be_an_address_but_keys_go_nowhere_in_the_clear(site: str, base: str | None) -> None:
    if base is None:
        with pytest.raises(UsageError, match="not a Datadog site"):
            DatadogQueries(*KEYS, site, span_s=60)
    else:
        assert DatadogQueries(*KEYS, site, span_s=60)._service._base == base


def test_the_shapes_are_those_of_datadogs_own_client() -> None:
    library = pytest.importorskip("datadog_api_client", reason="datadog-api-client: pip install 'kafkakit[datadog]'")
    from datadog_api_client.v1.api.metrics_api import MetricsApi  # type: ignore[import-not-found,unused-ignore]

    with serving(timeseries(("topic:a,partition:0", [(1, 5.0), (2, None)]))) as server:
        configuration = library.Configuration(host=server.url)
        configuration.api_key = {"apiKeyAuth": "api-k3y", "appKeyAuth": "app-k3y"}
        with library.ApiClient(configuration) as opened:
            answer = MetricsApi(opened).query_metrics(_from=1_699_992_800, to=1_700_000_000, query="max:x{*}")
        client_datadog_queries(server).query("max:x{*}", NOW_DATADOG_QUERIES)
    assert answer["series"][0]["scope"] == "topic:a,partition:0"
    theirs, ours = server.got
    assert (theirs.path, theirs.words) == (ours.path, {**ours.words, "query": "max:x{*}"})


NOW_DATADOG_AGENT = 1_700_000_000_000
NODE = PathwayNode("svc-a", "prod")
SENDER = PayloadSender(node=NODE, tracer_version="1.2.3")


def buckets() -> tuple[Bucket, ...]:
    made = PathwayBuckets()
    made.add(checkpoint_out(NODE, None, produce_tags("orders"), NOW_DATADOG_AGENT, 120)[2])
    return made.take()


def agent(server: Server, pauses: list[float] | None = None) -> DatadogAgent:
    return DatadogAgent(server.url.removeprefix("http://"), pause=(pauses if pauses is not None else []).append)


def test_the_agent_gets_the_body_and_what_it_is() -> None:
    with serving(Reply(b"{}")) as server:
        agent(server).send(SENDER, buckets())
    (got,) = server.got
    headers = {name.lower(): value for name, value in got.headers.items()}
    assert got.path == "/v0.1/pipeline_stats"
    assert (headers["content-type"], headers["content-encoding"]) == ("application/msgpack", "gzip")
    assert (headers["datadog-meta-lang"], headers["datadog-meta-tracer-version"]) == ("python", "1.2.3")
    assert got.body == encode_payload(SENDER, buckets())
    (bucket,) = msgspec.msgpack.decode(gzip.decompress(got.body))["Stats"]
    assert [one["Hash"] for one in bucket["Stats"]] == [12637414960767859789]


def test_an_old_agent_refuses_and_a_busy_one_is_tried_again() -> None:
    with serving(Reply(status=404)) as server, pytest.raises(OperationFailedError, match="HTTP 404"):
        agent(server).send(SENDER, buckets())
    pauses: list[float] = []
    with serving(Reply(status=503), Reply(b"{}")) as server:
        agent(server, pauses).send(SENDER, buckets())
    assert (len(server.got), len(pauses)) == (2, 1)
    with serving(Reply(status=503)) as server, pytest.raises(TryLaterError, match="HTTP 503"):
        agent(server, pauses).send(SENDER, buckets())
    assert len(server.got) == 3


@pytest.mark.parametrize("address", ["", "localhost", ":8126", "h:0", "h:65536", "h:x", "h:\u0663"])
def test_an_address_has_a_host_and_a_port(address: str) -> None:
    with pytest.raises(UsageError, match="is not the address of an agent"):
        DatadogAgent(address)
