"""Streams on real brokers by the command line: topics of lanes, readers, a kill in between, and topics that change."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from kafkakit.adapters.kafka.admin_write import quotas_of, quotas_request
from kafkakit.adapters.kafka.stream_producer import KafkaStreamCluster
from kafkakit.core.cluster_facts import PRODUCER_BYTE_RATE, CommittedOffset, QuotaEntity, Quotas
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import NotDelivered, OutgoingRecord
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.streams import StreamProducer
from kafkakit.streams.model.route import lane_client_id
from tests.contracts.stream_producer import LIMITS
from tests.integration.conftest import LeaseClusters, SandboxCluster
from tests.integration.stream_clients import produce
from tests.integration.test_streams_contract import open_groups
from tests.rigs.cluster_pool import SINGLE, TRIO
from tests.rigs.command_line import Home, Ran
from tests.rigs.waiting import until

pytestmark = pytest.mark.kafka
LANES = "live,slow,retry,dlq,l5,l6,l7,l8"


class Harness:
    """Profiles `a` (three brokers) and `b` (one), with routes in a topic of the first cluster."""

    def __init__(self, folder: Path, one: SandboxCluster, other: SandboxCluster, admin: ClusterAdmin) -> None:
        self.home, self.one, self.other, self.admin = Home(folder), one, other, admin
        for name, cluster in (("a", one), ("b", other)):
            text = f"bootstrap_server: {cluster.bootstrap_servers}\ncontrol_store: kafka\n"
            self.home.write_config(text, f"profiles.d/{name}.yaml")

    def run(self, *words: str) -> Ran:
        return self.home.run("--profile", "a", "streams", *words)

    def done(self, *words: str) -> Ran:
        ran = self.run(*words)
        assert ran.code == 0, ran.stderr
        return ran

    def topics(self, stream: str) -> set[str]:
        states = self.admin.partition_states([f"{stream}.{lane}.1" for lane in LANES.split(",")])
        return {key.topic for key in states}

    def quotas(self) -> list[Quotas | None]:
        """What each broker of the first cluster says, None where it does not answer."""
        requests = dict.fromkeys(self.one.broker_ids, quotas_request())
        answers = self.admin._session.request_brokers(requests)  # type: ignore[attr-defined]
        return [None if isinstance(each, Exception) else quotas_of(each) for each in answers.values()]

    def commit(self, group: str, topic: str, offset: int) -> None:
        with closing(open_groups(self.one)) as groups:
            key = TopicPartition(topic, 0)
            # A coordinator refuses commits for a topic that it does not know yet.
            until(lambda: groups.commit(group, {key: CommittedOffset(offset=offset)}) == {key: None}, "committed")


@pytest.fixture(scope="module")
def scene(lease: LeaseClusters, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    one, other = lease(TRIO, SINGLE)
    with closing(one.open_admin()) as admin:
        yield Harness(tmp_path_factory.mktemp("streams"), one, other, admin)


def test_a_stream_lives_on_two_clusters(scene: Harness) -> None:
    made = scene.done(
        "create", "orders", "--lanes", "live,dlq", "--partitions", "3,dlq=1", "--retention", "1d", "--yes", "-o", "json"
    )
    assert [topic["action"] for topic in made.json["topics"]] == ["create", "create"]
    places = [("orders.dlq.1", 0), *(("orders.live.1", n) for n in range(3))]
    until(lambda: sorted(scene.admin.partition_states(["orders.live.1", "orders.dlq.1"])) == places, "created")
    states = scene.admin.partition_states(["orders.live.1", "orders.dlq.1"])
    assert {len(state.replicas) for state in states.values()} == {3}
    scene.done("lane", "add", "orders", "bulk", "--cluster", "b", "--partitions", "1", "--yes")
    produce(scene.one, TopicPartition("orders.live.1", 0), [b"x"] * 10)
    scene.commit("billing", "orders.live.1", 4)
    shown = scene.done("show", "orders", "-o", "json").json
    assert [(s["lane"], s["cluster"], s["records"], s["problem"]) for s in shown["segments"]] == [
        ("live", "a", 10, ""), ("dlq", "a", 0, ""), ("bulk", "b", 0, ""),
    ]  # fmt: skip
    assert [(r["group"], r["unread"]) for r in shown["readers"]] == [("billing", 6)]
    edges = scene.done("topology", "-o", "json").json["edges"]
    assert [(e["cluster"], e["topic"], e["group"]) for e in edges] == [
        ("a", "orders.live.1", "billing"), ("a", "orders.dlq.1", None), ("b", "orders.bulk.2", None),
    ]  # fmt: skip
    resolved = scene.done("resolve", "orders", "-o", "json").json
    assert {name: (c["bootstrap_servers"], c["is_checked"]) for name, c in resolved["clusters"].items()} == {
        "a": (scene.one.bootstrap_servers, True),
        "b": (scene.other.bootstrap_servers, True),
    }


def test_a_lane_is_removed_once_it_is_read_and_topics_are_deleted_once_no_group_reads_them(scene: Harness) -> None:
    scene.done("create", "pay", "--lanes", "live,slow", "--partitions", "1", "--yes")
    produce(scene.one, TopicPartition("pay.slow.1", 0), [b"x"] * 5)
    scene.commit("reader", "pay.slow.1", 3)
    ran = scene.run("lane", "remove", "pay", "slow", "--yes")
    assert (ran.code, "pay.slow.1: group reader has not read 2 records" in ran.stderr) == (2, True), ran.stderr
    ran = scene.run("delete", "pay", "--topics", "--yes")
    assert (ran.code, "pay.slow.1: group reader (committed for it)" in ran.stderr) == (2, True), ran.stderr
    scene.commit("reader", "pay.slow.1", 5)
    scene.done("lane", "remove", "pay", "slow", "--yes")
    ran = scene.done("delete", "pay", "--topics", "--yes", "-o", "json")
    assert [(t["topic"], t["result"]) for t in ran.json["topics"]] == [("pay.live.1", "deleted")]
    until(lambda: scene.topics("pay") == {"pay.slow.1"}, "deleted")
    assert [c["in_effect"] for c in scene.done("history", "pay", "-o", "json").json["changes"]] == [True] * 3


def acknowledged(producer: StreamProducer, count: int, size: int = 50_000) -> None:
    """Send that many records, each after the answer to the one before."""

    def is_answered() -> bool:
        producer.poll(0.1)
        return bool(producer.answers)

    for number in range(count):
        assert producer.send(OutgoingRecord(value=os.urandom(size)), number)
        until(is_answered, "answered")
        token, answer = producer.answers.popleft()
        assert (token, isinstance(answer, NotDelivered)) == (number, False), answer


def test_a_lane_with_a_quota_holds_up_its_producers_and_no_others(scene: Harness) -> None:
    scene.done("create", "slowed", "--lanes", "live,slow", "--partitions", "1", "--quota", "slow=1kB/s", "--yes")
    quotas = {QuotaEntity(client_id="kafkakit.slowed.slow"): {PRODUCER_BYTE_RATE: 1000.0}}
    until(lambda: scene.quotas() == [quotas] * 3, "limited on each broker")
    cluster = KafkaStreamCluster(scene.one.bootstrap_servers, scene.one.security)
    limits = replace(LIMITS, delivery_timeout_ms=600_000)
    with (
        closing(cluster.producer("slowed.slow.1", limits, lane_client_id("slowed", "slow"))) as slow,
        closing(cluster.producer("slowed.live.1", limits, lane_client_id("slowed", "live"))) as live,
    ):
        # 900 kB at 1 kB/s: the answer comes at once, and what follows is not read before the quota allows it.
        acknowledged(slow, 1, 900_000)
        assert slow.send(OutgoingRecord(value=b"y"), "late")
        acknowledged(live, 20)
        slow.poll(0)
        assert not slow.answers
    scene.done("lane", "remove", "slowed", "slow", "--force", "--yes")
    until(lambda: scene.quotas() == [{}] * 3, "not limited any more")


def test_a_topic_that_was_created_again_is_told_from_the_one_of_the_stream(scene: Harness) -> None:
    replicas = {0: scene.one.broker_ids[:1]}
    assert scene.admin.create_topic("old-topic", replicas, {}) is None
    scene.done("link", "linked", "--topic", "old-topic", "--yes")
    assert scene.done("show", "linked", "-o", "json").json["segments"][0]["problem"] == ""
    assert scene.admin.delete_topic("old-topic") is None
    until(lambda: "the topic does not exist" in scene.run("show", "linked").stdout, "shown as gone")
    until(lambda: scene.admin.create_topic("old-topic", replicas, {}) is None, "created again")
    until(lambda: "the topic was created again (its id is" in scene.run("show", "linked").stdout, "shown")
    assert scene.run("show", "linked").code == 1
    ran = scene.done("delete", "linked", "--topics", "--force", "--yes", "-o", "json")
    assert [t["result"] for t in ran.json["topics"]] == ["kept: it was created again, under another id"]
    assert scene.admin.partition_states(["old-topic"])


def test_a_killed_create_is_continued_by_the_same_command(scene: Harness) -> None:
    words = ("--profile", "a", "streams", "create", "cut", "--lanes", LANES, "--partitions", "1", "--yes")
    with subprocess.Popen(
        [sys.executable, "-m", "kafkakit", *words],
        env={**os.environ, **scene.home.environment()},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        until(lambda: scene.topics("cut") or process.poll() is not None, "some are created")
        process.send_signal(signal.SIGKILL)
    ran = scene.run("create", "cut", "--lanes", LANES, "--partitions", "1", "--yes", "-o", "json")
    if process.returncode == -signal.SIGKILL and ran.code == 0:
        actions = [topic["action"] for topic in ran.json["topics"]]
        assert actions == sorted(actions)
        assert actions[0] == "adopt"
    else:  # it was done before the signal came
        assert "exists already" in ran.stderr
    until(lambda: len(scene.topics("cut")) == 8, "all are created")
    assert scene.done("show", "cut", "-o", "json").json["route"]["lanes"][7]["name"] == "l8"
