"""Runbooks for single brokers, records and commits, run against real clusters that they leave as they found them."""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kafkakit.adapters.kafka.log import KafkaLog
from kafkakit.core.cluster_facts import PartitionState
from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.throttle import LEADER_LIST, LEADER_RATE
from kafkakit.streams.model.commit import CommitIdentity
from tests.integration.conftest import SandboxCluster, StartCluster
from tests.integration.runbooks import blocks, load_topics, run_blocks
from tests.integration.stream_clients import loner, poison_pill, produce
from tests.integration.test_autothrottle import begin, pace, slow, unset
from tests.integration.test_reassign import MB, make_topic, settled, throttles
from tests.integration.test_streams_contract import open_groups
from tests.rigs.waiting import becomes, until

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def five_brokers(sandbox_cluster: StartCluster) -> Iterator[SandboxCluster]:
    """One cluster for the runbooks that leave it as they found it, or with one empty broker."""
    cluster = sandbox_cluster(brokers=5, racks=3)
    load_topics(cluster)
    yield cluster
    cluster.down()


def _broker_env(cluster: SandboxCluster) -> dict[str, str]:
    return {**cluster.env, "KAFKAKIT_PROFILE": cluster.name, "BROKER": "1002", "THROTTLE": "50MB"}


def _states(cluster: SandboxCluster) -> dict[TopicPartition, PartitionState]:
    with closing(cluster.open_admin()) as admin:
        return dict(settled(admin).states({"load-000", "load-001"}))


def test_rejoin_a_broker(five_brokers: SandboxCluster, tmp_path: Path) -> None:
    before = _states(five_brokers)
    five_brokers.kill(1002)
    until(lambda: all(state.leader != 1002 for state in _states(five_brokers).values()))
    five_brokers.restart(1002)
    done = run_blocks(blocks("rejoin-a-broker.md", undo=False), tmp_path, _broker_env(five_brokers))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-2] == "nothing to do: rejoin broker 1002"
    leaders = {k: s.replicas[0] for k, s in before.items()}
    becomes(lambda: {k: s.leader for k, s in _states(five_brokers).items()}, leaders)
    until(lambda: all(set(s.isr) == set(s.replicas) for s in _states(five_brokers).values()))


def test_drain_a_broker_and_bring_everything_back(five_brokers: SandboxCluster, tmp_path: Path) -> None:
    before = {k: s.replicas for k, s in _states(five_brokers).items()}
    assert any(1002 in replicas for replicas in before.values())
    steps = blocks("drain-a-broker.md", undo=False)
    drained = run_blocks(steps[:3], tmp_path, _broker_env(five_brokers))
    assert drained.returncode == 0, drained.stdout + drained.stderr
    assert "broker 1002 has been drained" in drained.stdout
    until(lambda: all(1002 not in s.replicas for s in _states(five_brokers).values()))
    back = run_blocks([steps[0], *steps[3:]], tmp_path, _broker_env(five_brokers))
    assert back.returncode == 0, back.stdout + back.stderr
    assert "broker 1002 has rejoined" in back.stdout
    becomes(lambda: {k: s.replicas for k, s in _states(five_brokers).items()}, before)


def test_decommission_a_broker(five_brokers: SandboxCluster, tmp_path: Path) -> None:
    before = {k: s.replicas for k, s in _states(five_brokers).items()}
    steps = blocks("decommission-a-broker.md", undo=False)
    done = run_blocks(steps, tmp_path, _broker_env(five_brokers))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing to do: decommission broker 1002" in done.stdout
    unregister = f"bin/kafka-cluster.sh unregister --bootstrap-server {five_brokers.bootstrap_servers} --id 1002"
    assert unregister in done.stdout.splitlines()
    until(lambda: all(1002 not in s.replicas for s in _states(five_brokers).values()))
    undone = run_blocks([steps[0], *blocks("decommission-a-broker.md", undo=True)], tmp_path, _broker_env(five_brokers))
    assert undone.returncode == 0, undone.stdout + undone.stderr
    becomes(lambda: {k: s.replicas for k, s in _states(five_brokers).items()}, before)


def test_throttle_the_moves_of_another_tool(five_brokers: SandboxCluster, tmp_path: Path) -> None:
    (port,) = five_brokers.machine.processes.free_ports(1)
    limits = "--capacity 1MB --client-rate 300kB --min-rate 100kB --sample 1s"
    env = {**_broker_env(five_brokers), "LIMITS": limits, "LISTEN": f"127.0.0.1:{port}"}
    steps = blocks("autothrottle.md", undo=False)
    assert len(steps) == 7
    with closing(five_brokers.open_admin()) as admin:
        # Longer than the runbook takes on a slow machine: 1 MB comes every 3 s.
        make_topic(five_brokers, admin, "paced", {0: (1002, 1001)}, 100 * MB)
        try:
            slow(admin, "paced", 1003)
            before = throttles(admin, "paced")
            begin(admin, "paced", (1003, 1001))
            ran = run_blocks(steps[:6], tmp_path, env)
            assert ran.returncode == 0, ran.stdout + ran.stderr
            _, looked, _, overridden, stopped = ran.stdout.split("leader: ")
            assert "the pacer has set nothing" in looked
            assert "lowest possible time" in looked
            assert f"set by the pacer: broker 1002 {LEADER_RATE}=10000000" in overridden
            assert f"set by the pacer: broker 1001 {LEADER_RATE}=20000000" in overridden
            assert "set by others, not changed: broker 1003" in overridden
            assert "override" not in stopped
            # They stay while the move runs.
            becomes(lambda: throttles(admin, "paced")["paced"][LEADER_LIST], "0:1001,0:1002")
            assert json.loads(pace(five_brokers, "show", "-o", "json").stdout)["leader"] is None
            assert admin.cancel([TopicPartition("paced", 0)])
            ended = run_blocks([steps[0], steps[6]], tmp_path, env)
            assert ended.returncode == 0, ended.stdout + ended.stderr
            assert "the pacer has set nothing" in ended.stdout
            becomes(lambda: throttles(admin, "paced"), before)
        finally:
            admin.cancel([TopicPartition("paced", 0)])
            unset(admin, "paced", 1003)


def test_skip_a_record_and_take_it_back(five_brokers: SandboxCluster, tmp_path: Path) -> None:
    key = TopicPartition("load-000", 0)
    with loner(five_brokers, "orders") as client:
        client.commit({key: (7, "")})
    env = {**_broker_env(five_brokers), "GROUP": "orders", "TOPIC": key.topic, "PARTITION": "0", "OFFSET": "7"}
    steps = blocks("skip-a-record.md", undo=False)
    assert len(steps) == 5
    with closing(open_groups(five_brokers)) as groups:
        before = groups.committed("orders")
        skipped = run_blocks(steps[:4], tmp_path, env)
        assert skipped.returncode == 0, skipped.stdout + skipped.stderr
        assert "skip for group orders on cluster" in skipped.stdout
        assert groups.committed("orders") != before
        back = run_blocks([steps[0], steps[4]], tmp_path, env)
        assert back.returncode == 0, back.stdout + back.stderr
        assert groups.committed("orders") == before


def test_stuck_partition(cluster: SandboxCluster, tmp_path: Path) -> None:
    key, group = TopicPartition("stuck", 0), "stuck-group"
    with closing(cluster.open_admin()) as admin:
        assert admin.create_topic(key.topic, {0: cluster.broker_ids[:1]}, {}) is None
    oldest_ms = round(time.time() * 1000) - 3_600_000
    produce(cluster, key, [b"x"] * 300, timestamp_ms=oldest_ms, step_ms=1_000, settings={"linger.ms": 100})
    with closing(KafkaLog(cluster.bootstrap_servers, cluster.security)) as log:
        topic_id = log.places([key.topic])[key.topic].topic_id
    identity = CommitIdentity(cluster_id=cluster.cluster_id, topic_id=topic_id, partition=0, group=group)
    text = poison_pill(identity, stuck=0, done_to=250, oldest_ms=oldest_ms, newest_ms=oldest_ms + 249_000)
    with loner(cluster, group) as client:
        client.commit({key: (0, text)})
    env = {**cluster.env, "KAFKAKIT_PROFILE": cluster.name, "GROUP": group, "TOPIC": key.topic, "PARTITION": "0"}
    steps = [step.replace("--interval 5s", "--interval 300ms") for step in blocks("stuck-partition.md", undo=False)]
    assert len(steps) == 4
    done = run_blocks(steps, tmp_path, env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "exit 1: see the findings above" in done.stdout
    assert "Offset 0 is pending: it was tried 3 times and failed" in done.stdout
    assert done.stdout.endswith("1 commit unchanged\n")


def test_tag_topics_and_brokers_and_plan_by_tags(five_brokers: SandboxCluster, tmp_path: Path) -> None:
    (port,) = five_brokers.machine.processes.free_ports(1)
    env = {**_broker_env(five_brokers), "LISTEN": f"127.0.0.1:{port}", "HOT": "1001,1002,1003"}
    steps = blocks("registry.md", undo=False)
    done = run_blocks(steps, tmp_path, env)
    assert done.returncode == 0, done.stdout + done.stderr
    out = done.stdout
    assert "3 of 3 brokers changed" in out
    assert "brokers-query" in json.loads((tmp_path / "hot.json").read_text())["request"]
    assert "complete" in out
    assert "\n1001\n1002\n1003\n" in out  # where the topic was moved
    assert "-disk:nvme" in out
    assert "orders-hot" in out.partition("ACTION")[2]
    assert "copied the tags of 4 objects; 0 were there already; copied the history of 4; both hold the same" in out
    assert [line.split()[0] for line in out.splitlines()[-3:]] == ["1001", "1002", "1003"]
    undone = run_blocks([steps[0], *blocks("registry.md", undo=True)], tmp_path, env)
    assert undone.returncode == 0, undone.stdout + undone.stderr
