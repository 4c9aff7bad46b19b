"""Emptying brokers and bringing them back on real ones, with a writer and a reader at work."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, ResourceKind
from kafkakit.ports.admin import ClusterAdmin
from tests.integration.conftest import SandboxCluster, StartCluster
from tests.integration.test_reassign import (
    HELD,
    LARGE,
    MB,
    PATIENCE_S,
    alive,
    leaders,
    make_topic,
    replicas,
    throttles,
    tidy,
)
from tests.integration.test_reassign import arguments as reassign_arguments
from tests.integration.writers import traffic
from tests.invariants.journal import verify_journal
from tests.rigs.waiting import becomes, until

pytestmark = pytest.mark.kafka

A, B, C, D = 1001, 1002, 1003, 1004
LISTS = {0: (A, B, C), 1: (B, C, A), 2: (C, A, B), 3: (A, C, B)}
QUICK = ("--yes", "--ingest-sample", "0")


@pytest.fixture(scope="module")
def brokers(sandbox_cluster: StartCluster) -> Iterator[SandboxCluster]:
    """Racks a, b, c, a: what leaves broker 1001 fits on 1004, and back."""
    cluster = sandbox_cluster(brokers=4, racks=3)
    yield cluster
    cluster.down()


@pytest.fixture
def admin(brokers: SandboxCluster) -> Iterator[ClusterAdmin]:
    with closing(brokers.open_admin()) as found:
        until(lambda: len(alive(found)) == 4)
        yield found
        brokers.revive()
        tidy(brokers, found)


def arguments(cluster: SandboxCluster, *words: str) -> list[str]:
    return [word if word != "reassign" else "broker" for word in reassign_arguments(cluster, words)]


def records(cluster: SandboxCluster) -> list[Path]:
    folder = cluster.home.state_dir / "operations" / cluster.cluster_id
    return sorted(p for p in folder.glob("*.json") if ".plan." not in p.name)


def kit(cluster: SandboxCluster, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments(cluster, *words), env=cluster.env, capture_output=True, text=True, timeout=400, check=False
    )


@contextmanager
def kit_running(cluster: SandboxCluster, *words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        arguments(cluster, *words),
        env=cluster.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_drain_under_traffic_killed_twice_goes_on_and_is_taken_back(
    brokers: SandboxCluster, admin: ClusterAdmin
) -> None:
    make_topic(brokers, admin, "drained", LISTS, LARGE)
    with traffic(brokers, "drained", len(LISTS)) as work:
        with kit_running(brokers, "drain", str(A), "--throttle", HELD, *QUICK) as process:
            until(admin.reassignments)
            until(lambda: A not in leaders(admin, "drained").values())
            assert admin.reassignments(), "leaderships pass before copies leave"
            process.kill()
        (record,) = records(brokers)
        assert json.loads(record.read_bytes())["stage"] == "moving"
        with kit_running(brokers, "drain", str(A), "--throttle", HELD, *QUICK) as process:
            until(lambda: work.acknowledged > 500)
            process.kill()
        assert admin.reassignments()
        assert throttles(admin, "drained"), "a killed run leaves its throttle, and its journal knows"
        done = kit(brokers, "drain", str(A), "--throttle", "80MB", *QUICK, "-o", "json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["verdict"] == "done"
        assert f"resuming {record}" in done.stderr
        until(lambda: all(A not in found for found in replicas(admin, "drained").values()))
        becomes(lambda: throttles(admin, "drained"), {})
        again = kit(brokers, "drain", str(A), *QUICK)
        assert (again.returncode, again.stdout.splitlines()[1]) == (0, f"nothing to do: drain broker {A}")
        with kit_running(brokers, "rejoin", str(A), "--restore", str(record), "--throttle", HELD, *QUICK) as process:
            until(admin.reassignments)
            process.kill()
        back = kit(brokers, "rejoin", str(A), "--restore", str(record), "--throttle", "80MB", *QUICK)
        assert back.returncode == 0, back.stderr
    assert work.check() > 500
    becomes(lambda: replicas(admin, "drained"), LISTS)
    becomes(lambda: leaders(admin, "drained"), {n: found[0] for n, found in LISTS.items()})
    becomes(lambda: throttles(admin, "drained"), {})
    for path in brokers.home.state_dir.rglob(f"journals/{brokers.cluster_id}/*.journal"):
        verify_journal(path.read_bytes())


def test_replace_a_dead_broker_and_rejoin_waits_for_it(brokers: SandboxCluster, admin: ClusterAdmin) -> None:
    make_topic(brokers, admin, "kept", {0: (B, C), 1: (C, B)}, 2 * MB)
    make_topic(brokers, admin, "replaced", {0: (D, B, C), 1: (B, D, C)}, 2 * MB)
    brokers.kill(D)
    until(lambda: D not in alive(admin))
    other_rack = kit(brokers, "replace", str(D), "--with", str(B), *QUICK)
    assert other_rack.returncode == 4, other_rack.stderr
    done = kit(brokers, "replace", str(D), "--with", str(A), *QUICK)
    assert done.returncode == 0, done.stderr
    becomes(lambda: replicas(admin, "replaced"), {0: (A, B, C), 1: (B, A, C)})
    becomes(lambda: leaders(admin, "replaced"), {0: A, 1: B})
    brokers.restart(D)
    until(lambda: D in alive(admin))
    brokers.kill(B)
    until(lambda: leaders(admin, "kept") == {0: C, 1: C})
    with kit_running(brokers, "rejoin", str(B), "--wait", "180s", "--leaders-pause", "0", "--yes") as process:
        brokers.restart(B)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert out.splitlines()[1] == f"broker {B} has rejoined"
    becomes(lambda: leaders(admin, "kept"), {0: B, 1: C})
    becomes(lambda: leaders(admin, "replaced")[1], B)


def test_a_stopped_broker_is_taken_off_the_list_and_left_out_of_plans_until_then(
    brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path
) -> None:
    def planned() -> subprocess.CompletedProcess[str]:
        words = ["--profile", brokers.name, "topicmappr", "place", "soon", "--partitions", "8", "--replication", "1"]
        command = [sys.executable, "-m", "kafkakit", *words, "-o", "json"]
        return subprocess.run(
            command, cwd=tmp_path, env=brokers.env, capture_output=True, text=True, timeout=400, check=False
        )

    assert kit(brokers, "rejoin", str(D), *QUICK).returncode == 0, "a test before may have replaced it"
    make_topic(brokers, admin, "leaving", {0: (D, B)}, MB)
    assert str(D) in planned().stdout
    done = kit(brokers, "decommission", str(D), *QUICK, "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["unregistered"] == []
    becomes(lambda: set(replicas(admin, "leaving")[0]), {A, B})
    without = planned()
    assert str(D) not in without.stdout
    assert f"broker {D} is excluded from plans since it was decommissioned on " in without.stderr
    brokers.kill(D)
    until(lambda: D not in alive(admin))
    gone = kit(brokers, "decommission", str(D), *QUICK, "-o", "json")
    assert gone.returncode == 0, gone.stderr
    assert json.loads(gone.stdout)["unregistered"] == [D]
    until(lambda: D not in {b.id for b in admin.cluster().brokers})
    assert admin.unregister_broker(D) is None, "what is off the list already counts as done"
    until(lambda: "nothing to do" in kit(brokers, "decommission", str(D), *QUICK).stdout)
    brokers.restart(D)
    until(lambda: D in alive(admin))
    back = planned()
    assert "is left out" not in back.stderr
    assert str(D) in back.stdout


def test_restart_check_and_gate_follow_a_broker_that_dies_and_returns(cluster: SandboxCluster) -> None:
    with closing(cluster.open_admin()) as admin:
        until(lambda: len(alive(admin)) == 3)
        quorum = admin.quorum()
        voters_first = sorted(alive(admin), key=lambda b: (b not in (quorum.ids if quorum else ()), b))
        first, second, last = voters_first  # the last one is not needed by the controllers
        assert admin.create_topic("guarded", {0: (first, second, last), 1: (second, last, first)}, MIN_TWO) is None
        becomes(lambda: in_sync(admin, "guarded"), {0: {first, second, last}, 1: {first, second, last}})
        yes = restart(cluster, "check", str(second))
        assert (yes.returncode, yes.stdout.splitlines()[1]) == (
            0,
            f"yes: broker {second} may go down now (2 partitions checked)",
        ), yes.stdout + yes.stderr
        plan = restart(cluster, "plan", "--all", "--at-once", "3", "-o", "json")
        assert (plan.returncode, json.loads(plan.stdout)["bound"]) == (0, 3), plan.stdout + plan.stderr
        try:
            cluster.kill(last)
            becomes(lambda: in_sync(admin, "guarded"), {0: {first, second}, 1: {first, second}})
            no = restart(cluster, "check", str(second), "-o", "json")
            found = json.loads(no.stdout)
            assert (no.returncode, found["answer"], found["checked"]) == (1, "no", 2)
            assert [(p["topic"], p["partition"], p["left"]) for p in found["partitions"]] == [
                ("guarded", 0, 1),
                ("guarded", 1, 1),
            ]
            closed = restart(cluster, "gate", str(second), "--timeout", "8s")
            assert closed.returncode == 75, closed.stdout + closed.stderr
            assert "the gate is closed" in closed.stderr
            with cluster.hung(first, second):
                for words in ((str(second),), (str(last), "--starting")):
                    away = restart(cluster, "gate", *words, "--timeout", "4s")
                    assert (away.returncode, away.stdout) == (75, ""), away.stderr
            starts = restart(cluster, "gate", str(last), "--starting", "--timeout", "60s")
            assert starts.returncode == 0, starts.stderr
        finally:
            cluster.restart(last)
        opened = restart(cluster, "gate", str(second), "--timeout", "200s")
        assert opened.returncode == 0, opened.stderr
        becomes(lambda: in_sync(admin, "guarded"), {0: {first, second, last}, 1: {first, second, last}})
        assert admin.delete_topic("guarded") is None


def test_a_cordoned_broker_gets_no_topic_from_kafka_or_from_here(cluster: SandboxCluster) -> None:
    """Another one's cordoned dir stays; a broker that is down is marked, and told when it is back."""
    first, second, last = cluster.broker_ids
    with closing(cluster.open_admin()) as admin:
        until(lambda: len(alive(admin)) == 3)
        (own, _) = (d.path for d in admin.log_dirs([second], ())[second].log_dirs)
        shut = ConfigChange(kind=ResourceKind.BROKER, name=str(second), key=DIRS, op=ConfigOp.SET, value=own)
        assert admin.alter_configs([shut]) == {shut: None}
        becomes(lambda: dirs(admin, second), own)
        done = called(cluster, "broker", "cordon", f"{first},{second}", "--reason", "disk swap", "--yes")
        assert done.returncode == 0, done.stderr
        assert [dirs(admin, b) for b in (first, second, last)] == ["*", "*", None]
        until(lambda: admin.create_topic("by-hand", {0: (first,)}, {}) is not None)
        made = called(cluster, "topic", "create", "soon", "--partitions", "3", "--replication", "1", "--yes")
        assert made.returncode == 0, made.stderr
        becomes(lambda: {b for row in replicas(admin, "soon").values() for b in row}, {last})
        assert admin.delete_topic("soon") is None
        try:
            cluster.kill(last)
            until(lambda: last not in alive(admin))
            marked = called(cluster, "broker", "cordon", str(last), "--yes")
            assert (marked.returncode, "is down and Kafka is not told" in marked.stdout) == (0, True), marked.stderr
        finally:
            cluster.restart(last)
        until(lambda: last in alive(admin))
        assert called(cluster, "broker", "cordon", str(last), "--yes").returncode == 0
        assert dirs(admin, last) == "*"
        back = called(cluster, "broker", "uncordon", ",".join(map(str, cluster.broker_ids)), "--yes")
        assert back.returncode == 0, back.stdout + back.stderr
        assert [dirs(admin, b) for b in (first, second, last)] == [None, own, None]
        assert admin.alter_configs([replace(shut, op=ConfigOp.DELETE, value=None)])


DIRS = "cordoned.log.dirs"


def dirs(admin: ClusterAdmin, broker: int) -> str | None:
    return admin.dynamic_configs(ResourceKind.BROKER, [str(broker)])[str(broker)].get(DIRS)


MIN_TWO = {"min.insync.replicas": "2"}


def in_sync(admin: ClusterAdmin, topic: str) -> dict[int, set[int]]:
    return {key.partition: set(state.isr) for key, state in admin.partition_states([topic]).items()}


def restart(cluster: SandboxCluster, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
    return called(cluster, "broker", f"restart-{verb}", *words)


def called(cluster: SandboxCluster, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kafkakit", "--profile", cluster.name, *words],
        env=cluster.env,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
