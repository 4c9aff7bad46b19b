"""The main job on other Kafka versions: load, snapshot, plan, apply with a throttle, verify, all as commands."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import SandboxCluster, StartCluster
from tests.invariants.plan import verify_plan


def kafkakit(cluster: SandboxCluster, folder: Path, *words: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "kafkakit", *words],
        cwd=folder,
        env=cluster.env,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ended.returncode == 0, f"{words}: {ended.stderr}"
    return ended.stdout


@pytest.mark.kafka
@pytest.mark.parametrize("version", ["4.1.2", "3.9.2"])
def test_the_main_job(version: str, sandbox_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = sandbox_cluster(brokers=4, racks=2, kafka=version)
    try:
        profile = ("--profile", cluster.name)
        load = ("load", "--topics", "2", "--partitions", "5", "--data", "8MB", "--replication", "2")
        kafkakit(cluster, tmp_path, "sandbox", *load, "--name", cluster.name)
        kafkakit(cluster, tmp_path, *profile, "snapshot", "--output-file", "now.json")
        rebuild = ("topicmappr", "rebuild", "--topics", "load-.*", "--force-rebuild", "--plan", "p.json")
        kafkakit(cluster, tmp_path, *profile, *rebuild, "--brokers", "1001,1002,1003,1004")
        plan = json.loads((tmp_path / "p.json").read_bytes())
        verify_plan(plan, json.loads((tmp_path / "now.json").read_bytes()))
        assert plan["moves"]
        apply = ("reassign", "apply", "p.json", "--yes", "--ingest-sample", "0")
        applied = kafkakit(cluster, tmp_path, *profile, *apply, "--throttle", "20MB")
        assert "throttles: none of ours is left" in applied
        verified = json.loads(kafkakit(cluster, tmp_path, *profile, "reassign", "verify", "p.json", "-o", "json"))
        assert verified["complete"] is True
        again = kafkakit(cluster, tmp_path, *profile, *apply)
        assert "already applied" in again
    finally:
        cluster.down()
