"""Runs whose plan file or journal is gone, on real brokers: nothing in flight is forgotten, no throttle stays."""

import signal
import subprocess
from pathlib import Path

import pytest

from kafkakit.core.documents import encode_plan
from kafkakit.core.plan import identity_of
from kafkakit.ports.admin import ClusterAdmin
from tests.clusters.plans import make_plan
from tests.integration.conftest import SandboxCluster
from tests.integration.test_reassign import (
    MB,
    PATIENCE_S,
    A,
    B,
    C,
    D,
    admin,
    becomes,
    brokers,
    kit,
    kit_running,
    make_topic,
    replicas,
    save,
    throttles,
    until,
)

__all__ = ["admin", "brokers"]

pytestmark = pytest.mark.kafka


def stopped(cluster: SandboxCluster, cluster_admin: ClusterAdmin, path: str, moves: int) -> str:
    """What an apply prints that is stopped by Ctrl-C with its moves in flight."""
    with kit_running(cluster, "apply", path, "--yes", "--throttle", "500kB") as process:
        until(lambda: len(cluster_admin.reassignments()) == moves)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    return err


def test_a_run_whose_plan_file_was_overwritten_is_undone_without_a_file(
    brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path
) -> None:
    make_topic(brokers, admin, "orphan", {0: (A, B), 1: (B, A)}, 8 * MB)
    plan = make_plan(admin, {("orphan", 0): (D, B), ("orphan", 1): (D, A)}, topics=["orphan"])
    path = save(plan, tmp_path)
    stopped(brokers, admin, path, 2)
    words = ("topicmappr", "rebuild", "--topics", "orphan", "--brokers", "-2", "--plan", path)
    command = [*brokers_command(brokers), *words]
    planned = subprocess.run(command, env=brokers.env, capture_output=True, text=True, timeout=60, check=False)
    assert planned.returncode == 2, planned.stderr
    assert "is the plan of an unfinished run" in planned.stderr
    Path(path).write_bytes(encode_plan(make_plan(admin, {("orphan", 0): (C, B)}, topics=["orphan"])))
    assert identity_of(plan)[7:15] in kit(brokers, "rollback", path, "--yes").stderr
    back = kit(brokers, "rollback", "--yes")
    assert back.returncode == 0, back.stderr
    becomes(lambda: replicas(admin, "orphan"), {0: (A, B), 1: (B, A)})
    assert not admin.reassignments()
    becomes(lambda: throttles(admin, "orphan"), {})


def brokers_command(cluster: SandboxCluster) -> list[str]:
    """The program with its profile, without a group."""
    import sys

    return [sys.executable, "-m", "kafkakit", "--profile", cluster.name]
