"""Runbooks that change which brokers there are, run against real clusters of their own."""

from contextlib import closing
from pathlib import Path

import pytest

from kafkakit.sandbox.decide.spec import build_spec
from kafkakit.sandbox.lifecycle import grow
from tests.integration.conftest import SandboxCluster, SilentReporter, StartCluster
from tests.integration.runbooks import blocks, load_topics, run_blocks
from tests.integration.test_reassign import settled
from tests.rigs.waiting import until

pytestmark = pytest.mark.kafka


def holders(cluster: SandboxCluster) -> set[int]:
    """The brokers that have a replica of a loaded partition."""
    with closing(cluster.open_admin()) as admin:
        states = settled(admin).states({"load-000", "load-001"})
    assert len(states) == 12
    return {broker for state in states.values() for broker in state.replicas}


def alive(cluster: SandboxCluster) -> set[int]:
    with closing(cluster.open_admin()) as admin:
        return settled(admin).alive()


def test_replace_a_broker(sandbox_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = sandbox_cluster(brokers=4, racks=3)
    load_topics(cluster)
    cluster.kill(1004)
    spec = build_spec(
        name=cluster.name,
        brokers=5,
        racks=3,
        log_dirs=cluster.state.spec.log_dirs,
        kafka=None,
        mode=cluster.state.spec.mode,
        secure=cluster.state.spec.secure,
    )
    grown = grow(cluster.machine, cluster.store, spec, SilentReporter())
    assert grown is not None
    cluster.state = grown
    until(lambda: 1004 not in alive(cluster))  # the session of a dead broker lasts some seconds
    env = {
        **cluster.env,
        "KAFKAKIT_PROFILE": cluster.name,
        "DEAD": "1004",
        "TARGETS": "1001,1002,1003,1005",
        "THROTTLE": "50MB",
    }
    steps = blocks("replace-a-broker.md", undo=False)
    assert len(steps) >= 6
    done = run_blocks(steps, tmp_path, env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gap 0 (optimal)" in done.stdout
    assert "complete" in done.stdout
    until(lambda: 1004 not in holders(cluster))
    cluster.restart(1004)
    until(lambda: 1004 in alive(cluster))
    undone = run_blocks([steps[0], *blocks("replace-a-broker.md", undo=True)], tmp_path, env)
    assert undone.returncode == 0, undone.stdout + undone.stderr
    until(lambda: 1004 in holders(cluster))
    cluster.down()


def test_rebalance_a_cluster(sandbox_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = sandbox_cluster(brokers=4, racks=3)
    load_topics(cluster)
    spec = build_spec(
        name=cluster.name,
        brokers=6,
        racks=3,
        log_dirs=cluster.state.spec.log_dirs,
        kafka=None,
        mode=cluster.state.spec.mode,
        secure=cluster.state.spec.secure,
    )
    grown = grow(cluster.machine, cluster.store, spec, SilentReporter())
    assert grown is not None
    cluster.state = grown
    env = {**cluster.env, "KAFKAKIT_PROFILE": cluster.name, "BAND": "15%", "THROTTLE": "50MB"}
    steps = blocks("rebalance-a-cluster.md", undo=False)
    assert len(steps) >= 5
    done = run_blocks(steps, tmp_path, env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "complete" in done.stdout
    assert (tmp_path / "rebalance.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    until(lambda: {1005, 1006} & holders(cluster))
    undone = run_blocks([steps[0], *blocks("rebalance-a-cluster.md", undo=True)], tmp_path, env)
    assert undone.returncode == 0, undone.stdout + undone.stderr
    cluster.down()
