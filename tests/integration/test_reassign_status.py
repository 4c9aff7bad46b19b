"""`reassign status` and `list` on real brokers: bytes, rates and times of a throttled move, and a dead destination."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkakit.ports.admin import ClusterAdmin
from tests.clusters.plans import make_plan
from tests.integration.conftest import SandboxCluster
from tests.integration.test_reassign import MB, PATIENCE_S, alive, kit, kit_running, make_topic, save
from tests.invariants.exposition import parse
from tests.rigs.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.timed]

A, B, C = 1001, 1002, 1003
SIZE = 60 * MB


@pytest.fixture(scope="module")
def brokers(cluster: SandboxCluster) -> SandboxCluster:
    return cluster


@pytest.fixture
def admin(brokers: SandboxCluster) -> Iterator[ClusterAdmin]:
    found = brokers.open_admin()
    until(lambda: len(alive(found)) == 3)
    yield found
    found.close()


def test_a_throttled_move_is_told_in_bytes_rate_and_time_and_a_dead_destination_by_name(
    brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path
) -> None:
    make_topic(brokers, admin, "told", {0: (A, B), 1: (B, A)}, SIZE)
    path = save(make_plan(admin, {("told", 0): (C, B), ("told", 1): (C, A)}), tmp_path)
    idle = kit(brokers, "list")
    assert (idle.returncode, idle.stdout) == (0, "")
    metrics = tmp_path / "kafkakit.prom"
    with kit_running(brokers, "apply", path, "--yes", "--throttle", "2MB", "--ingest-sample", "0") as process:
        until(lambda: len(admin.reassignments()) == 2)
        looked = kit(brokers, "status", "--window", "12s", "-o", "json", "--metrics", str(metrics))
        assert looked.returncode == 0, looked.stderr
        status = json.loads(looked.stdout)
        (run,) = status["runs"]
        assert [m["ours"] for m in status["moves"]] == [True, True]
        assert 5 * MB < status["copied_bytes"] < status["total_bytes"]
        assert status["total_bytes"] == pytest.approx(2 * SIZE, rel=0.05)
        # Brokers reach 70 to 100 % of a throttle, in lumps of up to 2 MB here.
        assert 1 * MB < status["bytes_per_s"] < 2.6 * MB
        left = status["total_bytes"] - status["copied_bytes"]
        assert run["left_bytes"] == pytest.approx(left, rel=0.01)
        assert run["eta_seconds"] == pytest.approx(left / status["bytes_per_s"], rel=0.01)
        assert 0.3 < run["eta_seconds"] / run["promised_eta_seconds"] < 3
        assert (run["working"], run["doing"]) == (True, "copying")
        assert status["lease"]["held"]
        assert status["broker_rates"][str(C)] == {"follower.replication.throttled.rate": "2000000"}
        assert status["partitions"]["under_replicated"] == status["partitions"]["offline"] == 0
        assert status["stalled"] == []
        samples = parse(metrics.read_text())
        ours = (("cluster", brokers.cluster_id), ("owner", "ours"))
        assert samples["kafkakit_reassign_copied_bytes", ours] == status["copied_bytes"]
        listed = kit(brokers, "list", "--ours", "-o", "tsv").stdout.splitlines()
        assert [line.split("\t")[:2] for line in listed] == [["told", "0"], ["told", "1"]]

        brokers.kill(C)
        until(lambda: C not in alive(admin))
        dead = kit(brokers, "status", "--window", "0")
        assert dead.stdout.count(f"broker {C} is stalled: broker {C} is ") == 2
        assert "or cancel the move: " in dead.stdout
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    with kit_running(brokers, "status", "--watch", "--interval", "1s") as watching:
        assert watching.stderr is not None
        line = next(line for line in watching.stderr if "2 stalled: " in line)
        assert "2 stalled: told-0 on broker 1003: broker 1003 is " in line
        watching.send_signal(signal.SIGINT)
        _, told = watching.communicate(timeout=PATIENCE_S)
    assert watching.returncode == 130
    assert "the moves continue by themselves" in told
    assert len(admin.reassignments()) == 2
    undone = kit(brokers, "rollback", path, "--yes")
    assert "1003" in undone.stderr  # its rate is owed until it is back
    assert kit(brokers, "list").stdout == ""
