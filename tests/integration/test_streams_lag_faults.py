"""The lag monitor while a broker dies and comes back, and two services that share a cluster while one is killed."""

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from kafkakit.streams.lag.decide.monitors import MonitorPhase
from tests.integration.conftest import SandboxCluster, StartCluster
from tests.integration.lag_watch import new_topic, watching
from tests.integration.runbooks import blocks, run_blocks
from tests.integration.stream_clients import commit_with_kafka_python, produce
from tests.invariants.exposition import Samples, parse
from tests.rigs.waiting import until

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def single(sandbox_cluster: StartCluster) -> SandboxCluster:
    return sandbox_cluster(brokers=1, racks=1, log_dirs=(1,), offsets_partitions=4)


def test_a_broker_that_dies_is_told_and_one_that_comes_back_is_followed(single: SandboxCluster) -> None:
    key = new_topic(single)
    produce(single, key, [b"x"] * 10)
    commit_with_kafka_python(single, "g-dies", {key: (4, "")})
    with watching(single) as watch:
        before = watch.until("g-dies", key, lambda r: r.lag == 6 and r.backlog.is_exact)
        single.kill(single.broker_ids[0])
        try:
            until(lambda: watch.watcher.condition().phase is MonitorPhase.UNREACHABLE, "it is not told")
            row = watch.rows("g-dies")[key]
            time.sleep(1)
            assert watch.rows("g-dies")[key].backlog.as_of_ms == row.backlog.as_of_ms, "an old figure looks new"
            assert watch.watcher.condition().notes
        finally:
            single.revive()
        commit_with_kafka_python(single, "g-dies", {key: (8, "")})
        after = watch.until("g-dies", key, lambda r: r.lag == 2 and r.backlog.is_exact)
        assert after.backlog.as_of_ms > before.backlog.as_of_ms
        until(lambda: watch.watcher.condition().phase is MonitorPhase.LIVE, "it is not live again")
        until(lambda: any("answer again" in line for line in watch.said), "it is not told that brokers answer")


def free_address(cluster: SandboxCluster) -> str:
    """An address to listen on; no client's outgoing connection can take it meanwhile."""
    (port,) = cluster.machine.processes.free_ports(1)
    return f"127.0.0.1:{port}"


class Served:
    """`lag serve` in a process of its own."""

    def __init__(self, cluster: SandboxCluster) -> None:
        self.address = free_address(cluster)
        words = ["--profile", cluster.name, "streams", "lag", "serve", "--listen", self.address]
        words += ["--partition-series", "g-*"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kafkakit", *words], env=cluster.env, stderr=subprocess.PIPE, text=True
        )

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self.address}{path}", timeout=30) as answer:
            return str(answer.read().decode())

    def metrics(self) -> Samples:
        with suppress(OSError):
            return parse(self.get("/metrics"))
        return {}

    def carries(self, cluster: SandboxCluster) -> bool:
        return self.metrics().get(("kafkakit_lag_carried", (("cluster", cluster.name),))) == 1

    def lag_of(self, group: str) -> float | None:
        found = [v for (name, labels), v in self.metrics().items()
                 if name == "kafkakit_lag_records" and ("group", group) in labels]  # fmt: skip
        return found[0] if found else None

    def is_healthy_alone(self, cluster: SandboxCluster) -> bool:
        with suppress(OSError):  # it answers 503 while something is not read
            health = json.loads(self.get("/healthz"))
            return (health["healthy"], health["instance"]["carries"]) == (True, [cluster.name])
        return False


@contextmanager
def serving(cluster: SandboxCluster) -> Iterator[Served]:
    served = Served(cluster)
    try:
        yield served
    finally:
        if served.process.poll() is None:
            served.process.kill()
        served.process.communicate(timeout=180)


def test_two_services_share_a_cluster_and_one_takes_over(single: SandboxCluster) -> None:
    key = new_topic(single)
    produce(single, key, [b"x"] * 10)
    commit_with_kafka_python(single, "g-served", {key: (4, "")})
    with serving(single) as first:
        until(lambda: first.lag_of("g-served") == 6, "the first service shows nothing")
        of_partition = (("cluster", single.name), ("group", "g-served"), ("topic", key.topic), ("partition", "0"))
        partition_series = "kafkakit_lag_partition_records", of_partition
        until(lambda: first.metrics().get(partition_series) == 6, "the first service shows no partition")
        with serving(single) as second:
            until(lambda: second.metrics().get(("kafkakit_lag_instances", ())) == 2, "they do not see each other")
            # Whoever pauses for longer than a lease lasts, 6 s, loses it to the other one.
            both, parted = (first, second), [(False, None), (True, 6)]
            until(
                lambda: sorted(((one.carries(single), one.lag_of("g-served")) for one in both), key=str) == parted,
                "not exactly one of two services publishes the figures",
            )
            dying, other = both if first.carries(single) else (second, first)
            dying.process.kill()
            until(lambda: other.lag_of("g-served") == 6, "the other service did not take over")
            commit_with_kafka_python(single, "g-served", {key: (9, "")})
            until(lambda: other.lag_of("g-served") == 1, "the other service does not follow")
            until(lambda: other.is_healthy_alone(single), "the other service is not healthy")
            query = "/json?by=group&group=g-served"
            until(
                lambda: [line["lag"] for line in json.loads(other.get(query))["lines"]] == [1], "there is no JSON of it"
            )
            other.process.send_signal(signal.SIGTERM)
            _, told = other.process.communicate(timeout=180)
            assert other.process.returncode == 143, told
            assert "the state is saved" in told


SERVICES = {
    "lag": "streams lag serve --listen {}",
    "assigner": "streams assigner run --listen {}",
    "autothrottle": "autothrottle run --rate 40MB --listen {} --no-token",
    "registry": "registry serve --http-listen {} --grpc-listen none",
    "ui": "ui --listen {}",
}


def test_services_live_on_while_their_broker_is_away(single: SandboxCluster) -> None:
    addresses = {name: free_address(single) for name in SERVICES}
    program = [sys.executable, "-m", "kafkakit", "--profile", single.name, "-X", "control_store=kafka"]

    def answer(name: str, path: str) -> int:
        try:
            with urllib.request.urlopen(f"http://{addresses[name]}{path}", timeout=30) as page:
                return int(page.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    with ExitStack() as stack:
        running = []
        for name, words in SERVICES.items():
            command = [*program, *words.format(addresses[name]).split()]
            running.append(stack.enter_context(subprocess.Popen(command, env=single.env, stderr=subprocess.DEVNULL)))
            stack.callback(running[-1].kill)
        ready = dict.fromkeys(SERVICES, (200, 200))
        until(lambda: {name: (answer(name, "/startupz"), answer(name, "/readyz")) for name in SERVICES} == ready)
        single.kill(single.broker_ids[0])
        try:
            until(lambda: answer("assigner", "/readyz") == 503, "the assigner does not see that the broker is away")
            assert {name: answer(name, "/livez") for name in SERVICES} == dict.fromkeys(SERVICES, 200)
        finally:
            single.revive()
        until(lambda: answer("assigner", "/readyz") == 200, "the assigner does not see that the broker is back")
        for process in running:
            process.terminate()
        assert [process.wait(180) for process in running] == [143] * len(running)


def test_the_runbook_works_as_it_stands(single: SandboxCluster, tmp_path: Path) -> None:
    key = new_topic(single)
    produce(single, key, [b"x"] * 10)
    commit_with_kafka_python(single, "g-runbook", {key: (4, "")})
    env = {**single.env, "KAFKAKIT_PROFILE": single.name, "LISTEN": free_address(single)}
    done = run_blocks(blocks("lag-monitor.md", undo=False), tmp_path, env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "g-runbook" in done.stdout
    assert "LAG OK - " in done.stdout
    assert '"healthy":true' in done.stdout
    paged = {**env, "GROUP": "g-runbook", "TOPIC": key.topic}
    traced = run_blocks(blocks("lag-alerts.md", undo=False), tmp_path, paged)
    assert traced.returncode == 0, traced.stdout + traced.stderr
    assert "LAG OK - 1 group-partitions" in traced.stdout
    assert f"{key.topic}-0 of group g-runbook: committed 4" in traced.stdout
