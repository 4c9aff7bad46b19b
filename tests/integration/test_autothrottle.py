"""The pacer on real brokers: moves that another tool began are throttled, adapted, and freed of every throttle."""

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.throttle import FOLLOWER_LIST, FOLLOWER_RATE, LEADER_LIST, LEADER_RATE
from kafkakit.ports.admin import ClusterAdmin
from tests.clusters.plans import make_plan
from tests.integration.conftest import SandboxCluster, StartCluster
from tests.integration.test_reassign import (
    MB,
    A,
    B,
    C,
    D,
    alive,
    becomes,
    kit_running,
    make_topic,
    save,
    set_config,
    throttles,
    until,
)

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def brokers(sandbox_cluster: StartCluster) -> Iterator[SandboxCluster]:
    cluster = sandbox_cluster(brokers=4, racks=2)
    yield cluster
    cluster.down()


@pytest.fixture
def admin(brokers: SandboxCluster) -> Iterator[ClusterAdmin]:
    found = brokers.open_admin()
    until(lambda: len(alive(found)) == 4)
    yield found
    found.close()


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
    """The other process takes its throttle away."""
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
    assert f"set by others, left alone: broker {C} {FOLLOWER_RATE}=50000" in shown.stdout
    admin.cancel([TopicPartition("once", 0)])
    ended = pace(brokers, "once", "--rate", "200kB")
    assert ended.returncode == 0, ended.stderr
    becomes(lambda: throttles(admin, "once"), before)
    nothing = pace(brokers, "once", "--rate", "200kB")
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (0, "", "")


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
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert answer.read().decode() == f"broker {D}: throttle successfully set to 1MB/s, autoremove==false\n"
        becomes(lambda: throttles(admin, "run")[str(D)], {FOLLOWER_RATE: "1000000"})
        with pacing(brokers, "run", *options, "none") as second:
            assert second.stderr is not None
            assert "waits: another instance leads" in "".join(next(second.stderr) for _ in range(1))
            first.send_signal(signal.SIGKILL)
            first.wait()
            assert "leads from now on" in next(second.stderr)
            assert pace(brokers, "remove", "--broker", str(D)).returncode == 0
            becomes(lambda: throttles(admin, "run"), wanted)
            admin.cancel([TopicPartition("run", 0)])
            becomes(lambda: throttles(admin, "run"), before)
            second.send_signal(signal.SIGTERM)
            assert second.wait(20) == 143


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
