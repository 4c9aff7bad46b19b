"""The pacer on real brokers: moves that another tool began are throttled, adapted, and freed of every throttle."""

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import pytest

from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.throttle import FOLLOWER_LIST, FOLLOWER_RATE, LEADER_LIST, LEADER_RATE
from kafkakit.ports.admin import ClusterAdmin
from tests.clusters.plans import make_plan
from tests.integration.conftest import LeaseClusters, SandboxCluster
from tests.integration.test_reassign import (
    KB,
    MB,
    A,
    B,
    C,
    D,
    alive,
    kit_running,
    make_topic,
    save,
    set_config,
    throttles,
)
from tests.integration.writers import traffic
from tests.rigs.cluster_pool import FOUR
from tests.rigs.metrics_http import Datadog, Reply, Request, serving
from tests.rigs.prometheus import PrometheusServer, broker_metrics, broker_totals, prometheus_server
from tests.rigs.waiting import becomes, until

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def brokers(lease: LeaseClusters) -> SandboxCluster:
    return lease(FOUR)[0]


@pytest.fixture
def admin(brokers: SandboxCluster) -> Iterator[ClusterAdmin]:
    found = brokers.open_admin()
    until(lambda: len(alive(found)) == 4)
    yield found
    found.close()


@pytest.fixture(scope="module")
def metrics(brokers: SandboxCluster) -> Iterator[str]:
    """The address of an exporter of what the brokers measure."""
    with broker_metrics(brokers.state) as address:
        yield address


@pytest.fixture(scope="module")
def prometheus(metrics: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    """Scrapes the brokers every second."""
    with prometheus_server(tmp_path_factory.mktemp("prometheus"), metrics) as server:
        server.wait_for("kafka_server_brokertopicmetrics_bytesin_total", 4)
        yield server


@pytest.fixture
def datadog(metrics: str, tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """The options for a service that answers with what the brokers, each on a host of its own, sent and received."""
    (tmp_path / "key").write_text("0123456789abcdef\n")
    (tmp_path / "key").chmod(0o600)
    with serving(LiveDatadog(metrics)) as service:
        yield ("--source", "datadog", "--datadog-site", service.url, "--api-key-file", str(tmp_path / "key"),
               "--app-key-file", str(tmp_path / "key"))  # fmt: skip


class LiveDatadog(Datadog):
    """Means of the last seconds, from looks at the brokers."""

    def __init__(self, exporter: str) -> None:
        super().__init__(time.time, span_s=1)
        self._exporter, self._lock = exporter, Lock()
        self._looks: list[tuple[float, dict[tuple[str, str], float]]] = []

    def __call__(self, request: Request) -> Reply:
        with self._lock:
            self._looks = [one for one in self._looks if one[0] > time.monotonic() - 5]
            if not self._looks:
                self._looks.append((time.monotonic(), broker_totals(self._exporter)))
                time.sleep(1)
            if len(self._looks) == 1 or time.monotonic() > self._looks[-1][0] + 1:
                self._looks.append((time.monotonic(), broker_totals(self._exporter)))
            (then, before), (now, after) = self._looks[0], self._looks[-1]
            grown = {key: (total - before[key]) / (now - then) for key, total in after.items()}
            for broker in sorted({b for b, _ in after}):
                out, into = (grown[broker, f"bytes{s}"] + grown[broker, f"replicationbytes{s}"] for s in ("out", "in"))
                self.add(f"host-{broker}", int(broker), "big", out, into)
        return super().__call__(request)


def words(cluster: SandboxCluster, *given: str) -> list[str]:
    return [sys.executable, "-m", "kafkakit", "--profile", cluster.name, "autothrottle", *given]


def pace(cluster: SandboxCluster, *given: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words(cluster, *given), env=cluster.env, capture_output=True, text=True, timeout=120, check=False
    )


@contextmanager
def pacing(cluster: SandboxCluster, *given: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(words(cluster, *given), env=cluster.env, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def begin(admin: ClusterAdmin, topic: str, target: tuple[int, ...]) -> None:
    """As any tool begins a move; a rate that is there first keeps it from ending at once."""
    assert admin.reassign({TopicPartition(topic, 0): target})[TopicPartition(topic, 0)] is None


def slow(admin: ClusterAdmin, topic: str, broker: int) -> None:
    """A throttle of another process on the destination, so that the copy takes long."""
    set_config(admin, ResourceKind.BROKER, str(broker), FOLLOWER_RATE, "50000")
    set_config(admin, ResourceKind.TOPIC, topic, FOLLOWER_LIST, f"0:{broker}")


def hasten(admin: ClusterAdmin, topic: str, broker: int) -> None:
    """The other process takes its throttle away, once the pacer's holds the source: else a copy ends at once."""
    until(lambda: LEADER_LIST in throttles(admin, topic).get(topic, {}))
    unset(admin, topic, broker)


def unset(admin: ClusterAdmin, topic: str, broker: int) -> None:
    """What `slow` set is taken away."""
    set_config(admin, ResourceKind.BROKER, str(broker), FOLLOWER_RATE, None)
    set_config(admin, ResourceKind.TOPIC, topic, FOLLOWER_LIST, None)


def test_once_throttles_the_moves_of_another_tool_and_removes_all_when_they_end(
    brokers: SandboxCluster, admin: ClusterAdmin
) -> None:
    make_topic(brokers, admin, "once", {0: (A, B)}, 20 * MB)
    slow(admin, "once", C)
    before = throttles(admin, "once")
    begin(admin, "once", (C, B))
    ran = pace(brokers, "once", "--rate", "200kB", "--sample", "1s", "-o", "json")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["moves"] == 1
    assert any(f"broker {C}" in note and "50000" in note for note in found["notes"])
    becomes(
        lambda: throttles(admin, "once"),
        {
            **before,
            str(A): {LEADER_RATE: "200000"},
            str(B): {LEADER_RATE: "200000"},
            "once": {**before["once"], LEADER_LIST: f"0:{B},0:{A}"},
        },
    )
    quiet = pace(brokers, "once", "--rate", "200kB", "--sample", "1s")
    assert (quiet.returncode, json.loads(pace(brokers, "show", "-o", "json").stdout)["moves"]) == (0, 1)
    shown = pace(brokers, "show")
    assert f"set by the pacer: broker {A} {LEADER_RATE}=200000" in shown.stdout, shown.stderr
    assert f"set by others, not changed: broker {C} {FOLLOWER_RATE}=50000" in shown.stdout
    admin.cancel([TopicPartition("once", 0)])
    ended = pace(brokers, "once", "--rate", "200kB")
    assert ended.returncode == 0, ended.stderr
    becomes(lambda: throttles(admin, "once"), before)
    nothing = pace(brokers, "once", "--rate", "200kB")
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (0, "", "")
    unset(admin, "once", C)


def test_a_killed_service_is_followed_by_another_one_that_removes_what_it_set(
    brokers: SandboxCluster, admin: ClusterAdmin
) -> None:
    make_topic(brokers, admin, "run", {0: (A, B)}, 20 * MB)
    before = throttles(admin, "run")
    options = ("--rate", "100kB", "--sample", "1s", "--interval", "2s", "--no-token", "--listen")
    with pacing(brokers, "run", *options, "127.0.0.1:0") as first:
        assert first.stderr is not None
        address = next(line for line in first.stderr if "serving" in line).split()[1].removesuffix("/throttle,")
        slow(admin, "run", D)
        begin(admin, "run", (D, B))
        until(lambda: str(A) in throttles(admin, "run"))
        hasten(admin, "run", D)
        wanted = {
            **before,
            str(A): {LEADER_RATE: "100000"},
            str(B): {LEADER_RATE: "100000"},
            str(D): {FOLLOWER_RATE: "100000"},
            "run": {LEADER_LIST: f"0:{B},0:{A}", FOLLOWER_LIST: f"0:{D}"},
        }
        becomes(lambda: throttles(admin, "run"), wanted)
        busy = pace(brokers, "once", "--rate", "1MB")
        assert (busy.returncode, busy.stdout) == (75, "")
        assert "autothrottle run" in busy.stderr
        request = urllib.request.Request(f"{address}/throttle/{D}?rate=1", method="POST")
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.read().decode() == f"broker {D}: throttle successfully set to 1MB/s, autoremove==false\n"
        becomes(lambda: throttles(admin, "run")[str(D)], {FOLLOWER_RATE: "1000000"})
        with pacing(brokers, "run", *options, "none") as second:
            assert second.stderr is not None
            assert "waiting: another instance is the leader" in next(second.stderr)
            first.send_signal(signal.SIGKILL)
            first.wait()
            assert any("became leader" in line for line in second.stderr)
            assert pace(brokers, "remove", "--broker", str(D)).returncode == 0
            becomes(lambda: throttles(admin, "run"), wanted)
            admin.cancel([TopicPartition("run", 0)])
            becomes(lambda: throttles(admin, "run"), before)
            second.send_signal(signal.SIGTERM)
            assert second.wait(60) == 143


def test_a_run_of_kafkakit_gets_the_rates_as_a_request(
    brokers: SandboxCluster, admin: ClusterAdmin, tmp_path_factory: pytest.TempPathFactory
) -> None:
    make_topic(brokers, admin, "apply", {0: (A, B)}, 20 * MB)
    before = throttles(admin, "apply")
    path = save(make_plan(admin, {("apply", 0): (C, B)}), tmp_path_factory.mktemp("plan"))
    with kit_running(brokers, "apply", path, "--yes", "--join", "--throttle", "50kB") as process:
        until(lambda: len(admin.reassignments()) == 1)
        ran = pace(brokers, "once", "--rate", "90kB", "--sample", "1s", "-o", "json")
        assert ran.returncode == 0, ran.stderr
        assert "reassign apply" in json.loads(ran.stdout)["requested_from"]
        becomes(lambda: throttles(admin, "apply")[str(A)], {LEADER_RATE: "90000"})
        process.send_signal(signal.SIGINT)
        process.wait(60)
    admin.cancel([TopicPartition("apply", 0)])
    subprocess.run(
        [sys.executable, "-m", "kafkakit", "--profile", brokers.name, "reassign", "cleanup", "--yes"],
        env=brokers.env,
        capture_output=True,
        check=True,
        timeout=60,
    )
    becomes(lambda: throttles(admin, "apply"), before)


def rate_of(admin: ClusterAdmin, topic: str, broker: int, key: str = LEADER_RATE) -> int:
    """What is set on a broker, 0 for nothing."""
    return int(throttles(admin, topic).get(str(broker), {}).get(key, "0"))


def slo(capacity: str, *source: str) -> tuple[str, ...]:
    """The law by traffic of the last seconds, which keeps 10 % of the capacity free and needs no more than 100 kB/s."""
    return ("--law", "slo", "--capacity", capacity, "--min-rate", "100kB", "--metrics-window", "5s", "--sample", "1s",
            *source)  # fmt: skip


def reasons(cluster: SandboxCluster, *given: str) -> dict[tuple[int, str], dict[str, Any]]:
    """Why `explain` would set which rate, by broker and direction."""
    ran = pace(cluster, "explain", *given, "-o", "json")
    assert ran.returncode == 0, ran.stderr
    return {(r["broker"], r["direction"]): r for r in json.loads(ran.stdout)["reasons"]}


@pytest.mark.parametrize("source", ["prometheus", "datadog"])
def test_rates_follow_the_traffic_that_a_service_measures(
    brokers: SandboxCluster,
    admin: ClusterAdmin,
    prometheus: PrometheusServer,
    datadog: tuple[str, ...],
    source: str,
) -> None:
    """Clients use the broker that a copy leaves: what they take is left to them, and is the copy's when they end."""
    topic, other = f"paced-{source}", f"clients-{source}"
    make_topic(brokers, admin, topic, {0: (A, B)}, 100 * MB)
    make_topic(brokers, admin, other, {0: (A, B)})
    before = throttles(admin, topic)
    with traffic(brokers, other, 1, size=20 * KB, gap_s=0.1) as flow:
        # What filled the topic is over, and clients are measured.
        prometheus.wait_for('rate(kafka_server_brokertopicmetrics_bytesin_total{broker_id="1001"}[5s]) > 5e5 < 15e5', 1)
        slow(admin, topic, C)
        begin(admin, topic, (C, B))
        options = slo("3MB", *(datadog if source == "datadog" else ("--prometheus-url", prometheus.url)))
        assert pace(brokers, "once", *options).returncode == 0
        # Before the copy's burst, which for some seconds is not told from the traffic of clients.
        until(lambda: "10% reserve and" in reasons(brokers, *options)[A, "out"]["why"])
        hasten(admin, topic, C)
        with pacing(brokers, "run", *options, "--interval", "2s", "--listen", "none"):
            until(lambda: rate_of(admin, topic, C, FOLLOWER_RATE))
            beside = until(lambda: rate if (rate := rate_of(admin, topic, A)) < 0.9 * 3 * MB - 0.5 * MB else 0)
            flow.stop()
            until(lambda: rate_of(admin, topic, A) > beside + 0.3 * MB)
            assert rate_of(admin, topic, A) <= 0.9 * 3 * MB
            admin.cancel([TopicPartition(topic, 0)])
            becomes(lambda: throttles(admin, topic), before)
    flow.check()


def test_rates_stay_and_then_fall_while_prometheus_is_away_and_rise_when_it_is_back(
    brokers: SandboxCluster, admin: ClusterAdmin, prometheus: PrometheusServer
) -> None:
    make_topic(brokers, admin, "blind", {0: (A, B)}, 120 * MB)
    prometheus.wait_for('rate(kafka_server_brokertopicmetrics_bytesin_total{broker_id="1001"}[5s]) < 1e4', 1)
    # The other process keeps its throttle: the copy takes 40 minutes, whatever rate its source may use.
    slow(admin, "blind", C)
    before = throttles(admin, "blind")
    begin(admin, "blind", (C, B))
    # Enough that a fetch of 1 MB, which averages of 5 s may take for traffic of clients, leaves more than is asked for.
    options = (*slo("2MB", "--prometheus-url", prometheus.url), "--hold", "25s", "--interval", "2s")
    lines: list[str] = []
    with pacing(brokers, "run", *options, "--listen", "none") as process:
        assert process.stderr is not None
        Thread(target=lambda found=process.stderr: lines.extend(found), daemon=True).start()
        until(lambda: rate_of(admin, "blind", A) > 300 * KB)
        prometheus.kill()
        try:
            until(lambda: any("no usable metrics, 2 look(s) in a row" in line for line in lines))
            until(lambda: any(f"Prometheus {prometheus.url} gives no answer" in line for line in lines))
            assert rate_of(admin, "blind", A) > 100 * KB
            # Some twenty looks, each of which asks several times.
            until(lambda: rate_of(admin, "blind", A) == 100 * KB, "the least rate", wait_s=600)
        finally:
            prometheus.start()
        until(lambda: rate_of(admin, "blind", A) > 300 * KB)
        admin.cancel([TopicPartition("blind", 0)])
        becomes(lambda: throttles(admin, "blind"), before)
    unset(admin, "blind", C)
