"""Balance by bytes on real brokers with unlike log dirs: planned, applied, measured again."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kafkakit.adapters.kafka.data import KafkaData
from kafkakit.core.documents import encode_snapshot
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.ports.admin import ClusterAdmin
from tests.integration.conftest import SandboxCluster, StartCluster
from tests.integration.test_reassign import settled
from tests.invariants.plan import verify_plan
from tests.rigs.waiting import becomes

pytestmark = pytest.mark.kafka

A, B, C = 1001, 1002, 1003
DIRS = {A: 1, B: 2, C: 3}
KB = 1000
PATIENCE_S = 180.0
QUICK = ("--yes", "--ingest-sample", "0")
BAND = 0.10
STEADY = {"min.insync.replicas": "1", "retention.ms": "-1", "retention.bytes": "-1", "segment.bytes": "1000000000"}


@pytest.fixture(scope="module")
def brokers(sandbox_cluster: StartCluster) -> Iterator[SandboxCluster]:
    cluster = sandbox_cluster(brokers=3, racks=3, log_dirs=(1, 2, 3))
    yield cluster
    cluster.down()


@pytest.fixture(scope="module")
def admin(brokers: SandboxCluster) -> Iterator[ClusterAdmin]:
    found = brokers.open_admin()
    yield found
    found.close()


def kit(cluster: SandboxCluster, *words: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "kafkakit", "--profile", cluster.name, *words],
        env=cluster.env,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr + ran.stdout
    return ran.stdout


def load(cluster: SandboxCluster, admin: ClusterAdmin, name: str, lists: Mapping[int, tuple[int, ...]]) -> None:
    """A topic whose partition n holds 100 kB x (n + 1)."""
    assert admin.create_topic(name, lists, STEADY) is None
    producer = KafkaData(cluster.bootstrap_servers, cluster.security).producer()
    for number in lists:
        for _ in range(number + 1):
            producer.send(TopicPartition(name, number), bytes(100 * KB))
    assert producer.flush(PATIENCE_S) == 0


def seen(admin: ClusterAdmin) -> ClusterSnapshot:
    return admin.snapshot(now=datetime.now(UTC), sizes=True)


def arrived(admin: ClusterAdmin, plan: Mapping[str, Any]) -> ClusterSnapshot:
    """What is seen once all brokers show the planned lists."""
    wanted = {TopicPartition(m["topic"], m["partition"]): tuple(m["after"]) for m in plan["moves"]}
    topics = {key.topic for key in wanted}
    becomes(lambda: {k: s.replicas for k, s in settled(admin).states(topics).items() if k in wanted}, wanted)
    return seen(admin)


def planned(path: Path, snapshot: ClusterSnapshot) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads(path.read_bytes())
    verify_plan(plan, json.loads(encode_snapshot(snapshot)))
    return plan


def used(snapshot: ClusterSnapshot) -> dict[int, int]:
    """The bytes of all copies on each broker, as measured."""
    found = dict.fromkeys(DIRS, 0)
    for _, p in snapshot.partitions():
        for broker, size in p.replica_bytes.items():
            found[broker] += size
    return found


def used_by_dir(snapshot: ClusterSnapshot) -> dict[tuple[int, str], int]:
    found = {(b.id, d.path): 0 for b in snapshot.brokers for d in b.log_dirs}
    for _, p in snapshot.partitions():
        for broker, path in p.replica_dirs.items():
            found[broker, path] += p.replica_bytes[broker]
    return found


def off_share(loads: Mapping[Any, int], capacity: Mapping[Any, int]) -> float:
    """How far the worst load is from its share, as a part of the share."""
    total, whole = sum(loads.values()), sum(capacity.values())
    return max(abs(load - total * capacity[k] / whole) / (total * capacity[k] / whole) for k, load in loads.items())


def test_a_band_over_unlike_brokers_holds_when_measured_after_the_moves(
    brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path
) -> None:
    becomes(lambda: {b.id: len(b.log_dirs) for b in seen(admin).brokers}, DIRS)
    load(brokers, admin, "wide", dict.fromkeys(range(16), (A, B)))
    load(brokers, admin, "single", dict.fromkeys(range(12), (A,)))
    before = seen(admin)
    assert off_share(used(before), DIRS) > 0.9
    path = tmp_path / "p.json"
    words = ("--topics", "wide,single", "--brokers", "-2", "--band", "10%", "--out-path", str(tmp_path))
    text = kit(brokers, "topicmappr", "rebalance", *words, "--balance-dirs", "10%", "--plan", str(path))
    assert "Log dirs:" in text
    plan = planned(path, before)
    named = {(m["topic"], m["partition"], int(b)): d for m in plan["moves"] for b, d in m.get("dirs", {}).items()}
    arriving = {(m["topic"], m["partition"], b) for m in plan["moves"] for b in m["after"] if b not in m["before"]}
    assert named.keys() == {key for key in arriving if DIRS[key[2]] > 1}
    assert "applied" in kit(brokers, "reassign", "apply", str(path), *QUICK)
    after = arrived(admin, plan)
    assert off_share(used(after), DIRS) <= BAND
    copies = {(t, p.partition): p for t, p in after.partitions()}
    assert {key: copies[key[:2]].replica_dirs[key[2]] for key in named} == named
    told = {b["broker"]: b["used_bytes"] for b in plan["after"]["brokers"]}
    assert {b: pytest.approx(n, rel=0.01) for b, n in told.items()} == used(after)
    dirs = used_by_dir(after)
    assert {(d["broker"], d["path"]): pytest.approx(d["used_after_bytes"], rel=0.01) for d in plan["dirs"]} == {
        key: n for key, n in dirs.items() if DIRS[key[0]] > 1
    }
    assert "complete" in kit(brokers, "reassign", "verify", str(path))
    again = kit(brokers, "topicmappr", "rebalance", *words)
    assert "0 partitions to change" in again


def test_log_dirs_are_levelled_inside_brokers(brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path) -> None:
    load(brokers, admin, "crowd", dict.fromkeys(range(15), (C,)))
    before = seen(admin)
    path = tmp_path / "d.json"
    words = ("topicmappr", "rebalance-dirs", "--brokers", str(C), "--topics", "crowd,wide,single", "--band", "5%")
    kit(brokers, *words, "--plan", str(path))
    plan = planned(path, before)
    assert plan["moves"] == []
    assert {m["broker"] for m in plan["dir_moves"]} <= {C}
    assert "applied" in kit(brokers, "reassign", "apply", str(path), *QUICK)
    after = seen(admin)
    dirs = {path: n for (broker, path), n in used_by_dir(after).items() if broker == C}
    assert off_share(dirs, dict.fromkeys(dirs, 1)) <= 0.05
    copies = {(t, p.partition): p for t, p in after.partitions()}
    for m in plan["dir_moves"]:
        assert copies[m["topic"], m["partition"]].replica_dirs[C] == m["target_dir"]
    assert "0 copies to move" in kit(brokers, *words)
    kit(brokers, "reassign", "rollback", str(path), *QUICK)
    becomes(lambda: used_by_dir(seen(admin)), used_by_dir(before))
