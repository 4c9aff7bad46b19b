"""A real Prometheus that scrapes a small exporter: what `metricsfetcher` and the client get of it."""

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kafkakit.adapters.metrics_services import PrometheusApi
from kafkakit.core.cluster_facts import MetricSample
from kafkakit.core.errors import InputError, OperationFailedError, TryLaterError
from tests.rigs.command_line import Home
from tests.rigs.prometheus import prometheus_server

METRICS = """\
kafka_log_log_size{topic="orders",partition="0",broker="1"} 1000
kafka_log_log_size{topic="orders",partition="0",broker="2"} 1500
kafka_log_log_size{topic="orders",partition="1",broker="2"} 7e9
node_filesystem_avail_bytes{mountpoint="/data",broker_id="1"} 5e9
node_filesystem_avail_bytes{mountpoint="/data",broker_id="2"} 6e9
node_filesystem_avail_bytes{mountpoint="/",broker_id="1"} 1
kubelet_volume_stats_available_bytes{persistentvolumeclaim="data-0-prod-kafka-1"} 1e9
kubelet_volume_stats_available_bytes{persistentvolumeclaim="data-1-prod-kafka-1"} 2e9
kubelet_volume_stats_available_bytes{persistentvolumeclaim="data-prod-zookeeper-1"} 4e9
"""


class Exporter(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        # Values with times of their own stay when a scrape gets no answer within its second.
        self.wfile.write(METRICS.replace("\n", f" {time.time_ns() // 1_000_000}\n").encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's word
        pass


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Exporter) as exporter:
        threading.Thread(target=exporter.serve_forever, daemon=True).start()
        try:
            address = f"127.0.0.1:{exporter.server_port}"
            with prometheus_server(tmp_path_factory.mktemp("prometheus"), address) as server:
                server.wait_for("kafka_log_log_size", 3)
                yield server.url
        finally:
            exporter.shutdown()


def query(url: str, expression: str) -> tuple[MetricSample, ...]:
    return PrometheusApi(url, warn=pytest.fail).query(expression, datetime.now(UTC))


def test_samples_are_those_of_the_server(url: str) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)  # the server's times are cut to milliseconds
    (sample,) = query(url, 'kafka_log_log_size{broker="2",partition="0"}')
    assert (sample.labels["topic"], sample.labels["job"], sample.value) == ("orders", "kafka", 1500)
    assert before <= sample.time <= datetime.now(UTC)
    assert [s.value for s in query(url, "1 + 1")] == [2]
    assert query(url, "nothing") == ()


def test_errors_are_those_of_the_server(url: str) -> None:
    with pytest.raises(OperationFailedError, match=r"HTTP 400: .*parse error"):
        query(url, "sum(")
    with pytest.raises(OperationFailedError, match=r"HTTP 422: .*(many-to-many|duplicate series)"):
        query(url, "kafka_log_log_size + on (topic) kafka_log_log_size")
    with pytest.raises(InputError, match="gives a matrix"):
        query(url, "kafka_log_log_size[1m]")
    with pytest.raises(OperationFailedError, match=r"HTTP 404"):
        query(f"{url}/elsewhere", "1")
    with pytest.raises(TryLaterError):
        PrometheusApi("http://127.0.0.1:1", warn=pytest.fail, pause=lambda s: None).query("1", datetime.now(UTC))


@pytest.mark.parametrize(
    ("names", "free"), [("jmx", {"1": 5_000_000_000, "2": 6_000_000_000}), ("strimzi", {"1": 3_000_000_000})]
)
def test_fetch_with_the_usual_queries(url: str, names: str, free: dict[str, int], tmp_path: Path) -> None:
    words = ("fetch", "--source", "prometheus", "--prometheus-url", url, "--to", "-", "--query-set", names)
    ran = Home(tmp_path).run("metricsfetcher", *words, "--prometheus-selector", 'job="kafka"')
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.json["partitionmeta"] == {"orders": {"0": {"Size": 1500}, "1": {"Size": 7_000_000_000}}}
    assert {broker: value["StorageFree"] for broker, value in ran.json["brokermetrics"].items()} == free


def test_the_spread_of_copies_comes_from_a_query_without_max(url: str, tmp_path: Path) -> None:
    words = ("fetch", "--source", "prometheus", "--prometheus-url", url, "--to", "-")
    ran = Home(tmp_path).run("metricsfetcher", *words, "--partition-size-query", "kafka_log_log_size")
    assert ran.json["partitionmeta"]["orders"]["0"] == {"Size": 1500, "Smallest": 1000}
