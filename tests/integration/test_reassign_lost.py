"""Runs whose plan file or journal is gone, on real brokers: nothing in flight is forgotten, no throttle stays."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.core.documents import encode_plan
from kafkakit.core.plan import identity_of
from kafkakit.execution.act.run_journal import journal_path
from kafkakit.ports.admin import ClusterAdmin
from tests.clusters.plans import make_plan
from tests.integration.conftest import SandboxCluster
from tests.integration.test_reassign import (
    HELD,
    LARGE,
    PATIENCE_S,
    A,
    B,
    C,
    D,
    admin,
    brokers,
    kit,
    kit_running,
    make_topic,
    replicas,
    save,
    set_config,
    throttles,
)
from tests.invariants.journal import verify_journal
from tests.rigs.waiting import becomes, until

__all__ = ["admin", "brokers"]

pytestmark = pytest.mark.kafka


def stopped(cluster: SandboxCluster, cluster_admin: ClusterAdmin, path: str, moves: int) -> str:
    """What an apply prints that is stopped by Ctrl-C with its moves in flight."""
    with kit_running(cluster, "apply", path, "--yes", "--throttle", HELD) as process:
        until(lambda: len(cluster_admin.reassignments()) == moves)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    return err


def test_a_run_whose_plan_file_was_overwritten_is_undone_without_a_file(
    brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path
) -> None:
    make_topic(brokers, admin, "orphan", {0: (A, B), 1: (B, A)}, LARGE)
    plan = make_plan(admin, {("orphan", 0): (D, B), ("orphan", 1): (D, A)}, topics=["orphan"])
    path = save(plan, tmp_path)
    stopped(brokers, admin, path, 2)
    words = ("topicmappr", "rebuild", "--topics", "orphan", "--brokers", "-2", "--plan", path)
    command = [*brokers_command(brokers), *words]
    planned = subprocess.run(command, env=brokers.env, capture_output=True, text=True, timeout=400, check=False)
    assert planned.returncode == 2, planned.stderr
    assert "is the plan of an unfinished run" in planned.stderr
    Path(path).write_bytes(encode_plan(make_plan(admin, {("orphan", 0): (C, B)}, topics=["orphan"])))
    assert identity_of(plan)[7:15] in kit(brokers, "rollback", path, "--yes").stderr
    back = kit(brokers, "rollback", "--yes")
    assert back.returncode == 0, back.stderr
    becomes(lambda: replicas(admin, "orphan"), {0: (A, B), 1: (B, A)})
    assert not admin.reassignments()
    becomes(lambda: throttles(admin, "orphan"), {})


@pytest.mark.parametrize("loss", ["flipped", "emptied", "state deleted"])
def test_a_run_whose_journal_is_lost_leaves_no_throttle(
    brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path, loss: str
) -> None:
    topic = f"lost-{loss.replace(' ', '-')}"
    make_topic(brokers, admin, topic, {0: (A, B), 1: (B, A)}, LARGE)
    plan = make_plan(admin, {(topic, 0): (D, B), (topic, 1): (D, A)}, topics=[topic])
    path = save(plan, tmp_path)
    stopped(brokers, admin, path, 2)
    set_by_us = throttles(admin, topic)
    assert set_by_us
    file = journal_path(brokers.home.state_dir, plan.cluster_id, identity_of(plan))
    if loss == "state deleted":
        shutil.rmtree(brokers.home.state_dir / "journals")
        shutil.rmtree(brokers.home.state_dir / "plans")
    else:
        data = file.read_bytes()
        file.write_bytes(b"" if loss == "emptied" else data.replace(b'"what":"throttle"', b'"what":"thruttle"'))
    if loss == "emptied":
        early = kit(brokers, "cleanup", "--plan", path, "--yes")
        assert early.returncode == 1, early.stdout
        assert "2 moves still run under them" in early.stdout
        becomes(lambda: throttles(admin, topic), set_by_us)
    ended = kit(brokers, "rollback" if loss == "flipped" else "apply", path, "--yes", "--throttle", "50MB")
    assert ended.returncode == 0, ended.stderr
    becomes(lambda: throttles(admin, topic), {})
    done = {0: (A, B), 1: (B, A)} if loss == "flipped" else {0: (D, B), 1: (D, A)}
    becomes(lambda: replicas(admin, topic), done)
    verify_journal(file.read_bytes())


def test_throttles_of_a_run_that_is_forgotten_are_named_and_cleaned_by_its_plan(
    brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path
) -> None:
    make_topic(brokers, admin, "forgotten", {0: (A, B)}, LARGE)
    plan = make_plan(admin, {("forgotten", 0): (D, B)}, topics=["forgotten"])
    path = save(plan, tmp_path)
    stopped(brokers, admin, path, 1)
    shutil.rmtree(brokers.home.state_dir / "journals")
    shutil.rmtree(brokers.home.state_dir / "plans")
    lists = throttles(admin, "forgotten")["forgotten"]
    for key in lists:
        set_config(admin, ResourceKind.TOPIC, "forgotten", key, None)
    until(lambda: not admin.reassignments())
    for key, value in lists.items():
        set_config(admin, ResourceKind.TOPIC, "forgotten", key, value)
    assert "leftover throttle on broker" in kit(brokers, "status", "--window", "0").stdout
    doctor = [*brokers_command(brokers), "doctor"]
    told = subprocess.run(doctor, env=brokers.env, capture_output=True, text=True, timeout=400, check=False)
    assert "left over: broker 1001, 1002, 1004" in told.stdout
    verified = kit(brokers, "cleanup", "--plan", path, "--yes")
    assert verified.returncode == 0, verified.stdout
    becomes(lambda: throttles(admin, "forgotten"), {})


def brokers_command(cluster: SandboxCluster) -> list[str]:
    """The program with its profile, without a group."""
    return [sys.executable, "-m", "kafkakit", "--profile", cluster.name]
