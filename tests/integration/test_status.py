"""Faults of real brokers as `kafkakit status` shows them, each gone once the command that its line prints has run."""

import json
import os
import pty
import resource
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.throttle import LEADER_LIST, LEADER_RATE
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.sandbox import lifecycle as sandbox
from tests.integration.conftest import LeaseClusters, SandboxCluster
from tests.integration.runbooks import run_blocks, sections
from tests.integration.stream_clients import loner, produce
from tests.integration.test_autothrottle import begin, slow, unset
from tests.integration.test_reassign import (
    LARGE,
    MB,
    PATIENCE_S,
    A,
    B,
    C,
    D,
    alive,
    make_topic,
    replicas,
    set_config,
    settled,
    throttles,
    tidy,
)
from tests.rigs import kubernetes
from tests.rigs.cluster_pool import FOUR
from tests.rigs.waiting import becomes, until

pytestmark = pytest.mark.kafka
Fault = Callable[[SandboxCluster, ClusterAdmin], AbstractContextManager[None]]


@pytest.fixture(scope="module")
def brokers(lease: LeaseClusters) -> SandboxCluster:
    return lease(FOUR)[0]


@pytest.fixture
def admin(brokers: SandboxCluster) -> Iterator[ClusterAdmin]:
    """At the end nothing is left that `status` has a word for."""
    found = brokers.open_admin()
    try:
        yield found
    finally:
        brokers.revive()
        until(lambda: len(alive(found)) == 4)
        tidy(brokers, found)
        for topic in found.topic_names():
            if not topic.startswith("__"):
                found.delete_topic(topic)
        found.close()


def status(cluster: SandboxCluster, *options: str) -> Mapping[str, Any]:
    """The cluster as `status -o json` has it."""
    words = ["--profile", cluster.name, "status", "-o", "json", *options]
    ran = subprocess.run(
        [sys.executable, "-m", "kafkakit", *words], env=cluster.env, capture_output=True, text=True, timeout=PATIENCE_S,
        check=False,
    )  # fmt: skip
    (found,) = json.loads(ran.stdout)["clusters"]
    errors = [f for f in found["findings"] if f["severity"] == "error"]
    unread = [name for name in ("brokers", "partitions") if found["parts"][name]["error"]]
    assert ran.returncode == (1 if errors else 75 if unread else 0), ran.stdout + ran.stderr
    return dict(found)


def finding(cluster: SandboxCluster, rule: str, where: str = "") -> Mapping[str, Any] | None:
    """What stands under a check now, and in its place."""
    return next((f for f in status(cluster)["findings"] if f["rule"] == rule and f["where"].startswith(where)), None)


def comes(cluster: SandboxCluster, rule: str, severity: str, where: str = "") -> str:
    """Wait for a finding of this severity; gives the command that its line prints."""

    def found() -> str:
        shown = finding(cluster, rule, where)
        return shown["command"] if shown is not None and shown["severity"] == severity else ""

    return until(found, rule, seen=lambda: status(cluster)["findings"])


def goes(cluster: SandboxCluster, rule: str, where: str = "") -> None:
    """Wait until nothing stands under a check."""
    until(lambda: finding(cluster, rule, where) is None, rule, seen=lambda: status(cluster)["findings"])


def carry_out(cluster: SandboxCluster, line: str, folder: Path) -> str:
    """Run a printed command in a terminal where `yes` has been typed; gives what it prints."""
    program, *words = shlex.split(line)
    assert program == "kafkakit"
    ours, theirs = pty.openpty()
    try:
        os.write(ours, b"yes\n")
        env = {name: value for name, value in cluster.env.items() if name != "CI"}
        ran = subprocess.run(
            [sys.executable, "-m", "kafkakit", *words], env=env, cwd=folder, stdin=theirs, capture_output=True,
            text=True, timeout=2 * PATIENCE_S, check=False,
        )  # fmt: skip
    finally:
        os.close(ours)
        os.close(theirs)
    assert ran.returncode == 0, line + ran.stdout + ran.stderr
    return ran.stdout


def follow(cluster: SandboxCluster, printed: str, verb: str, folder: Path) -> None:
    """Run the command of this verb that a command has printed as the next one."""
    (line,) = {line.strip() for line in printed.splitlines() if line.strip().startswith("kafkakit ") and verb in line}
    carry_out(cluster, line, folder)


def key_in_second_dir(cluster: SandboxCluster, admin: ClusterAdmin, topic: str, broker: int) -> TopicPartition:
    """A partition in the second log dir: the first one holds the metadata log, without which a broker halts."""
    record = sandbox.load_state(cluster.store).broker(broker)
    assert record is not None

    def found() -> TopicPartition | None:
        copies = admin.log_dirs([broker])[broker].replicas
        return next((k for k, r in copies.items() if k.topic == topic and r.log_dir == record.node.log_dirs[1]), None)

    return until(found)


@contextmanager
def small_files(cluster: SandboxCluster, broker: int, size: int) -> Iterator[None]:
    """A broker that cannot write larger files: as on a full disk, its log dir goes offline. A new process can."""
    record = sandbox.load_state(cluster.store).broker(broker)
    assert record is not None
    assert record.process is not None
    hard = resource.prlimit(record.process.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(record.process.pid, resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            resource.prlimit(record.process.pid, resource.RLIMIT_FSIZE, (hard, hard))


def test_without_faults_all_is_well(brokers: SandboxCluster, admin: ClusterAdmin) -> None:
    make_topic(brokers, admin, "well", {0: (A, B, C), 1: (B, C, D)})
    until(lambda: status(brokers)["health"] == "ok", seen=lambda: status(brokers))
    found = status(brokers)
    assert found["cluster_id"] == brokers.cluster_id
    assert [row["state"] for row in found["brokers"]] == ["alive"] * 4
    assert all(part["error"] is None for part in found["parts"].values())
    assert found["controller"]["leader"] in {voter["id"] for voter in found["controller"]["voters"]}


def test_a_killed_broker(brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path) -> None:
    make_topic(brokers, admin, "held", {0: (A, B, D), 1: (D, A, B)})
    brokers.kill(D)
    line = comes(brokers, "broker-down", "error")
    assert status(brokers)["health"] == "error"
    assert comes(brokers, "under-replicated", "warning")
    carry_out(brokers, line, tmp_path)
    goes(brokers, "broker-down")
    goes(brokers, "under-replicated")


def test_a_throttle_that_was_left(brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path) -> None:
    make_topic(brokers, admin, "idle", {0: (A, B)})
    set_config(admin, ResourceKind.BROKER, str(A), LEADER_RATE, "1000000")
    set_config(admin, ResourceKind.TOPIC, "idle", LEADER_LIST, f"0:{A}")
    carry_out(brokers, comes(brokers, "leftover-throttle", "warning"), tmp_path)
    goes(brokers, "leftover-throttle")
    becomes(lambda: throttles(admin, "idle"), {})


def test_a_group_that_stopped_behind(brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path) -> None:
    key = TopicPartition("behind", 0)
    make_topic(brokers, admin, key.topic, {0: (A, B)})
    produce(brokers, key, [b"x"] * 10)
    with loner(brokers, "reader") as client:
        client.commit({key: (4, "")})
        line = comes(brokers, "group-stopped", "warning", "group reader")
        assert "6 records behind" in carry_out(brokers, line, tmp_path)
        client.commit({key: (10, "")})
        goes(brokers, "group-stopped", "group reader")


def test_a_move_that_another_tool_began(brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path) -> None:
    make_topic(brokers, admin, "moved", {0: (A, B)}, LARGE)
    try:
        slow(admin, "moved", C)
        begin(admin, "moved", (C, B))
        line = comes(brokers, "moving", "note")
        shown = finding(brokers, "moving")
        assert shown is not None
        assert "another tool" in shown["message"]
        assert finding(brokers, "leftover-throttle") is None
    finally:
        unset(admin, "moved", C)
    carry_out(brokers, line, tmp_path)  # it watches until nothing moves
    goes(brokers, "moving")
    becomes(lambda: replicas(admin, "moved"), {0: (C, B)})


def test_a_partition_below_its_minimum_in_sync(brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path) -> None:
    assert admin.create_topic("short", {0: (A, D)}, {"min.insync.replicas": "2"}) is None
    brokers.kill(D)
    comes(brokers, "broker-down", "error")  # the ISR may be smaller before that: then the line describes the partition
    line = comes(brokers, "under-min-isr", "error")
    follow(brokers, carry_out(brokers, line, tmp_path), "reassign apply", tmp_path)
    goes(brokers, "under-min-isr")
    until(lambda: D not in replicas(admin, "short")[0])
    comes(brokers, "broker-down", "note" if not _holds(brokers, D) else "error")


def _holds(cluster: SandboxCluster, broker: int) -> int:
    (row,) = [row for row in status(cluster)["brokers"] if row["id"] == broker]
    return int(row["replicas"])


def test_a_log_dir_that_went_away(brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path) -> None:
    make_topic(brokers, admin, "failing", dict.fromkeys(range(4), (B, D)))
    key = key_in_second_dir(brokers, admin, "failing", D)
    with small_files(brokers, D, 12 * MB):
        produce(brokers, key, [bytes(100_000)] * 160)
        line = comes(brokers, "dir-offline", "error", f"broker {D}")
        repair_lost_volume(brokers, key, admin, tmp_path)
    carry_out(brokers, line, tmp_path)
    goes(brokers, "dir-offline")
    until(lambda: set(settled(admin).states(["failing"])[key].isr) == set(replicas(admin, "failing")[key.partition]))


def repair_lost_volume(brokers: SandboxCluster, key: TopicPartition, admin: ClusterAdmin, folder: Path) -> None:
    """The broker's claim is lost as well: its line has the command that makes its replicas anew elsewhere."""
    items = kubernetes.cluster("abcd", first=A)
    items = [each for each in items if each["metadata"]["name"] != f"data-kafka-{D}"]
    file = folder / "objects.json"
    file.write_bytes(kubernetes.printed([*items, kubernetes.claim(f"data-kafka-{D}", phase="Lost")]))
    found = status(brokers, "--pods", str(file))
    (lost,) = [f for f in found["findings"] if f["rule"] == "volume"]
    assert lost["message"] == f"{D}: claim data-kafka-{D} is Lost: the broker lost what it held"
    assert {f["rule"] for f in found["findings"]} & {"pod-missing", "pod-without-broker", "pod-id"} == set()
    follow(brokers, carry_out(brokers, lost["command"], folder), "reassign apply", folder)
    until(lambda: D not in replicas(admin, "failing")[key.partition])


@contextmanager
def killed(brokers: SandboxCluster, admin: ClusterAdmin) -> Iterator[None]:
    make_topic(brokers, admin, "held", {0: (A, B, D), 1: (D, A, B)})
    brokers.kill(D)
    yield


@contextmanager
def without_a_dir(brokers: SandboxCluster, admin: ClusterAdmin) -> Iterator[None]:
    make_topic(brokers, admin, "failing", dict.fromkeys(range(4), (B, D)))
    key = key_in_second_dir(brokers, admin, "failing", D)
    with small_files(brokers, D, 12 * MB):
        produce(brokers, key, [bytes(100_000)] * 160)
        yield


@contextmanager
def below_its_minimum(brokers: SandboxCluster, admin: ClusterAdmin) -> Iterator[None]:
    assert admin.create_topic("short", {0: (A, D)}, {"min.insync.replicas": "2"}) is None
    brokers.kill(D)
    comes(brokers, "broker-down", "error")  # the ISR may be smaller before that
    yield


@contextmanager
def throttled(brokers: SandboxCluster, admin: ClusterAdmin) -> Iterator[None]:
    make_topic(brokers, admin, "idle", {0: (A, B)})
    set_config(admin, ResourceKind.BROKER, str(A), LEADER_RATE, "1000000")
    set_config(admin, ResourceKind.TOPIC, "idle", LEADER_LIST, f"0:{A}")
    yield


@contextmanager
def moved_by_another_tool(brokers: SandboxCluster, admin: ClusterAdmin) -> Iterator[None]:
    make_topic(brokers, admin, "moved", {0: (A, B)}, LARGE)
    try:
        slow(admin, "moved", C)
        begin(admin, "moved", (C, B))
        yield
    finally:
        unset(admin, "moved", C)


@contextmanager
def stopped_behind(brokers: SandboxCluster, admin: ClusterAdmin) -> Iterator[None]:
    key = TopicPartition("behind", 0)
    make_topic(brokers, admin, key.topic, {0: (A, B)})
    produce(brokers, key, [b"x"] * 10)
    with loner(brokers, "reader") as client:
        client.commit({key: (4, "")})
    yield


@pytest.mark.parametrize(
    ("section", "fault", "rule", "severity"),
    [
        (3, killed, "broker-down", "error"),
        (4, without_a_dir, "dir-offline", "error"),
        (5, below_its_minimum, "under-min-isr", "error"),
        (6, throttled, "leftover-throttle", "warning"),
        (7, moved_by_another_tool, "moving", "note"),
        (8, stopped_behind, "group-stopped", "warning"),
    ],
)
def test_the_runbook_goes_from_status_to_repair(
    brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path, section: int, fault: Fault, rule: str, severity: str
) -> None:
    steps = sections("what-is-wrong-now.md")
    assert len(steps) == 9
    topic = "short" if rule == "under-min-isr" else "behind"
    env = {**brokers.env, "KAFKAKIT_PROFILE": brokers.name, "BROKER": str(D), "GROUP": "reader", "TOPIC": topic}
    with fault(brokers, admin):
        comes(brokers, rule, severity)
        if rule == "moving":
            unset(admin, "moved", C)
        if rule == "under-min-isr":
            # The broker stays dead, and may hold replicas of Kafka's own topics.
            steps[8] = steps[8].replace("--fail-on warning", f"--fail-on error --ignore broker:{D}")
        done = run_blocks([steps[0], steps[1], steps[section - 1], steps[8]], tmp_path, env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (rule in done.stdout) == (severity != "note")
    goes(brokers, rule)
