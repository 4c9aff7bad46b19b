"""The main job on other Kafka versions: load, snapshot, plan, apply with a throttle, verify, all as commands."""

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kafkakit.adapters.kafka.admin_read import states_of
from kafkakit.adapters.kafka.session import KafkaSession
from kafkakit.core.model import TopicPartition
from tests.integration.conftest import SandboxCluster, StartCluster
from tests.invariants.plan import verify_plan
from tests.rigs.waiting import until


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


def metadata_of_each(cluster: SandboxCluster) -> list[Any]:
    """What each broker tells of the topics: any of them may answer the next command."""
    from kafka.protocol.metadata import MetadataRequest

    session = KafkaSession(cluster.bootstrap_servers, cluster.security, 60, 60)
    with closing(session):
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        return list(session.request_brokers(dict.fromkeys(cluster.broker_ids, request)).values())


def is_done(answer: Any, plan: Mapping[str, Any]) -> bool:
    states = {} if isinstance(answer, Exception) else states_of(answer.topics)
    found = {key: list(state.replicas) for key, state in states.items()}
    return all(found.get(TopicPartition(m["topic"], m["partition"])) == m["after"] for m in plan["moves"])


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
        assert "throttles: all removed" in applied
        until(lambda: all(is_done(answer, plan) for answer in metadata_of_each(cluster)))
        verified = json.loads(kafkakit(cluster, tmp_path, *profile, "reassign", "verify", "p.json", "-o", "json"))
        assert verified["complete"] is True
        again = kafkakit(cluster, tmp_path, *profile, *apply)
        assert "already applied" in again
    finally:
        cluster.down()
