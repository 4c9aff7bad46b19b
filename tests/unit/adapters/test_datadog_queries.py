"""Datadog's timeseries, against a loopback server with the documented shapes."""

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from kafkakit.adapters.metrics_services import DatadogQueries
from kafkakit.config.security import Secret
from kafkakit.core.errors import InputError, KafkakitError, OperationFailedError, TryLaterError, UsageError
from tests.rigs.metrics_http import Reply, Server, serving, timeseries

NOW = datetime.fromtimestamp(1_700_000_000, UTC)
KEYS = (Secret("api-k3y"), Secret("app-k3y"))


def client(server: Server, **options: Any) -> DatadogQueries:
    options.setdefault("pause", lambda seconds: None)
    return DatadogQueries(*KEYS, server.url, span_s=3600, **options)


def test_the_newest_value_of_each_series_comes_with_the_tags_of_its_scope() -> None:
    series = timeseries(
        ("topic:a,partition:0", [(1, 5.0), (3, 7.5), (2, 6.0), (4, None)]),
        ("partition:1, topic:x:y", [(1, None)]),
        ("*", []),
    )
    with serving(series) as server:
        first, second, third = client(server).query("max:x{*} by {topic}", NOW)
    assert first == ({"topic": "a", "partition": "0"}, 7.5, datetime.fromtimestamp(0.003, UTC))
    assert second.labels == {"topic": "x", "partition": "1"}
    assert math.isnan(second.value)
    assert second.time == third.time == NOW
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
        (timeseries(("a:b", [(1e300, 1.0)])), InputError, "no time in milliseconds"),
        (Reply(b" " * 2000), InputError, "more than 1,000 bytes"),
    ],
)  # fmt: skip
def test_faults_are_told_in_one_line(reply: Reply, kind: type[KafkakitError], match: str) -> None:
    with serving(reply) as server, pytest.raises(kind, match=match) as told:
        client(server, most_bytes=1000).query("x", NOW)
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
        with pytest.raises(UsageError, match="no site of Datadog"):
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
        client(server).query("max:x{*}", NOW)
    assert answer["series"][0]["scope"] == "topic:a,partition:0"
    theirs, ours = server.got
    assert (theirs.path, theirs.words) == (ours.path, {**ours.words, "query": "max:x{*}"})
