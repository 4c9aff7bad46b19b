"""Bad input and faults of failovers where the behaviour of brokers and processes is what matters: two real clusters."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPlace

from kafkakit.adapters.control_file import FileControl
from kafkakit.adapters.files import write_file
from kafkakit.core.cluster_facts import PRODUCER_BYTE_RATE, QuotaEntity
from kafkakit.core.lease import LEASE_DOCUMENT
from kafkakit.core.model import TopicPartition
from kafkakit.streams.failover.decide.operation import lease_of
from tests.integration.conftest import LeaseClusters, SandboxCluster
from tests.integration.stream_clients import loner
from tests.integration.test_stream_failover import Clusters
from tests.rigs.cluster_pool import SINGLE
from tests.rigs.waiting import stop_process, until

pytestmark = pytest.mark.kafka
LIMIT_S = 180.0
QUIET = ("--fence", "none", "--quiet-for", "1s")


@pytest.fixture(scope="module")
def clusters(lease: LeaseClusters) -> Clusters:
    old, new = lease(SINGLE, SINGLE)
    return Clusters(old, new)


class Stream:
    """A stream with one partition on the old cluster, and plain clients of its topic."""

    def __init__(self, clusters: Clusters, name: str, *words: str) -> None:
        self.clusters, self.name, self.topic = clusters, name, f"{name}.live.1"
        self._servers = {"bootstrap.servers": clusters.old.bootstrap_servers}
        clusters.run(
            "create", name, "--cluster", clusters.old.name, "--lanes", "live", "--partitions", "1", "--yes", *words
        )

    def write(self, count: int = 3) -> None:
        """Append records with idempotence, which brokers remember the producer of."""
        client = Producer({**self._servers, "enable.idempotence": True})
        for number in range(count):
            client.produce(self.topic, value=b"%d" % number)
        assert client.flush(LIMIT_S) == 0

    @contextmanager
    def transaction(self, name: str) -> Iterator[Producer]:
        """A producer with a transaction that holds two records and is open."""
        client = Producer({**self._servers, "transactional.id": name, "transaction.timeout.ms": 600_000})
        client.init_transactions(LIMIT_S)
        client.begin_transaction()
        for _ in range(2):
            client.produce(self.topic, value=b"t")
        assert client.flush(LIMIT_S) == 0
        yield client

    def commit(self, group: str, offset: int) -> None:
        """Commit as the member of a plain group does that has read so far."""
        with loner(self.clusters.old, group) as client:
            client.commit({TopicPartition(self.topic, 0): (offset, "")})

    def plan(self, *words: str, code: int = 0) -> Any:
        return self.clusters.run("failover", "plan", self.name, "--to", self.clusters.new.name, *words, code=code)

    def run(self, *words: str, code: int = 0) -> Any:
        """Run the failover to an end that is not waiting."""
        return self.clusters.run("failover", "run", self.name, *self._words("2m"), *words, code=code)

    def waits(self, reason: str, *words: str) -> Any:
        """Run the failover until it waits for this, and for nothing that passes."""
        return self.clusters.run_until(reason, "failover", "run", self.name, *self._words("3s"), *words)

    def _words(self, wait: str) -> tuple[str, ...]:
        return ("--to", self.clusters.new.name, *QUIET, "--yes", "--wait", wait)


def make_again(cluster: SandboxCluster, topic: str) -> None:
    """Delete a topic and create one of the same name."""
    with closing(cluster.open_admin()) as admin:
        assert admin.delete_topic(topic) is None
        until(lambda: admin.create_topic(topic, {0: (cluster.broker_ids[0],)}, {}) is None)


@contextmanager
def reaching(cluster: SandboxCluster, other: SandboxCluster) -> Iterator[None]:
    """The profile of a cluster has the addresses of another one, and does not say which cluster it expects."""
    file = cluster.store.profile_file(cluster.name)
    text = file.read_text(encoding="utf-8")
    assert cluster.bootstrap_servers in text
    changed = text.replace(cluster.bootstrap_servers, other.bootstrap_servers)
    lines = [line for line in changed.splitlines(keepends=True) if not line.startswith("cluster_id")]
    file.write_text("".join(lines), encoding="utf-8")
    try:
        yield
    finally:
        file.write_text(text, encoding="utf-8")


def test_other_clusters_and_other_topics_are_told_by_their_ids(clusters: Clusters) -> None:
    stream = Stream(clusters, "ids")
    stream.write()
    with reaching(clusters.new, clusters.old):
        assert stream.plan(code=2)["reason"] == "target"
    with reaching(clusters.old, clusters.new):
        assert stream.plan(code=2)["reason"] == "source"
    stream.commit("billing", 1)
    ended = stream.waits("backlog")
    assert (ended["step"], ended["records_left"]) == ("sealed", 2)
    with reaching(clusters.old, clusters.new):
        assert stream.run(code=2)["reason"] == "source-differs"
    make_again(clusters.old, stream.topic)
    ended = stream.run(code=2)
    assert (ended["step"], ended["reason"]) == ("sealed", "source-differs")
    assert "created again" in ended["lines"][0]


def test_targets_that_cannot_take_the_stream(clusters: Clusters) -> None:
    stream = Stream(clusters, "targets")
    assert stream.plan("--replication", "2", code=2)["reason"] == "target-size"
    with closing(clusters.new.open_admin()) as admin:
        assert admin.create_topic("targets.live.2", {0: (clusters.new.broker_ids[0],)}, {}) is None
        client = Producer({"bootstrap.servers": clusters.new.bootstrap_servers})
        client.produce("targets.live.2", value=b"foreign")
        assert client.flush(LIMIT_S) == 0
        assert stream.plan(code=2)["reason"] == "target-empty"
        admin.delete_topic("targets.live.2")
    compacted = Stream(clusters, "table", "--topics-config", "cleanup.policy=compact")
    assert compacted.plan(code=2)["reason"] == "compacted"


def test_open_transactions_hold_the_seal_and_markers_are_no_records(clusters: Clusters) -> None:
    stream = Stream(clusters, "bank")
    stream.write()
    with stream.transaction("bank-1") as client:
        assert stream.plan("--fence", "config", code=2)["reason"] == "fence"
        warned = [each["text"] for each in stream.plan()["verdicts"] if each["check"] == "transactions"]
        assert "bank-1" in warned[0]
        stream.commit("billing", 5)
        assert stream.waits("open-transactions")["step"] == "routed"
        client.commit_transaction(LIMIT_S)
    # The log ends at 6 with the marker; the group committed its last record.
    assert stream.run()["step"] == "retired"
    stream = Stream(clusters, "exactly-once")
    stream.write()
    with stream.transaction("eos-1") as client:
        with closing(Consumer({**stream._servers, "group.id": "billing"})) as member:
            place = [ClientPlace(stream.topic, 0, 2)]
            client.send_offsets_to_transaction(place, member.consumer_group_metadata(), LIMIT_S)
        assert stream.plan("--require-group", "billing", code=2)["reason"] == "transactional-group"
        client.abort_transaction(LIMIT_S)


def test_late_writers_and_unknown_groups_keep_the_old_topic(clusters: Clusters) -> None:
    stream = Stream(clusters, "late")
    stream.write()
    stream.commit("billing", 1)
    assert stream.waits("backlog")["step"] == "sealed"
    stream.write(2)
    ended = stream.run(code=1)
    assert (ended["step"], ended["reason"]) == ("routed", "late-writer")
    assert "2 offsets after the seal" in ended["lines"][0]
    assert "producer " in ended["lines"][1]
    stream.commit("billing", 5)
    assert clusters.run("failover", "certify", stream.name, "--yes")["step"] == "drained"
    stream.commit("audit", 1)
    ended = stream.run(code=2)
    assert (ended["reason"], "audit" in ended["lines"][0]) == ("unknown-groups", True)
    assert stream.run("--ignore-group", "audit")["step"] == "retired"
    stream.write(1)
    ended = clusters.run("failover", "reclaim", stream.name, "--grace", "0", "--yes", code=1)
    assert ended["reason"] == "late-writer"


def start(stream: Stream, *words: str) -> "subprocess.Popen[str]":
    clusters = stream.clusters
    command = [
        sys.executable, "-m", "kafkakit", "--profile", clusters.new.name, "-o", "json", "streams", "failover", "run",
        stream.name, "--to", clusters.new.name, "--yes", *words,
    ]  # fmt: skip
    return subprocess.Popen(
        command, env=clusters.old.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def stop_outside_of_writes(pid: int, store: FileControl) -> None:
    """SIGSTOP a process while it cannot have the store's lock, which others would wait for."""
    with store._locked():
        stop_process(pid)


def test_two_operators_and_one_that_lost_its_lease(clusters: Clusters) -> None:
    """The first operator stands still, and loses its lease as one on a host that is away does; the second finishes."""
    stream = Stream(clusters, "operators")
    stream.write()
    stream.commit("billing", 1)
    store, path = FileControl(clusters.new.home.state_dir / "control", write_file), lease_of(stream.name)
    first = start(stream, *QUIET, "--wait", "10m")
    try:
        until(lambda: clusters.run("failover", "status", stream.name).get("step") == "sealed", "sealed")
        assert stream.run(code=75)["error"]["reason"] == "lease-held"
        stop_outside_of_writes(first.pid, store)
        stream.commit("billing", 3)
        found = store.get(path)
        assert found is not None
        lease = replace(LEASE_DOCUMENT.decode(found.value, path), holder=None)
        store.cas(path, LEASE_DOCUMENT.encode(lease), found.version)
        assert stream.run()["step"] == "retired"
        os.kill(first.pid, signal.SIGCONT)
        said = first.communicate(timeout=LIMIT_S)
    finally:
        first.kill()
        first.wait()
    assert first.returncode == 75, said
    assert '"reason": "lease-lost"' in said[0]


def test_a_quota_delays_the_producers_of_the_lane_and_refuses_none(clusters: Clusters) -> None:
    stream = Stream(clusters, "delayed")
    stream.write()
    stream.commit("billing", 1)
    ended = stream.waits("backlog", "--fence", "quota")
    assert (ended["step"], ended["basis"]) == ("sealed", "time")
    name = QuotaEntity(client_id="kafkakit.delayed.live")
    with closing(clusters.old.open_admin()) as admin:
        assert admin.describe_client_quotas()[name] == {PRODUCER_BYTE_RATE: 1}
    servers = {"bootstrap.servers": clusters.old.bootstrap_servers}
    client = Producer({**servers, "client.id": name.client_id, "enable.idempotence": False, "linger.ms": 0})
    client.produce(stream.topic, value=b"x" * 1_000)
    assert client.flush(LIMIT_S) == 0, "the first request is taken, and the next ones wait"
    client.produce(stream.topic, value=b"x" * 1_000)
    assert client.flush(3) == 1
    client.purge()
    ended = stream.run("--fence", "quota", code=1)
    assert (ended["reason"], ended["lines"][0]) == ("late-writer", f"{stream.topic}-0: 1 offset after the seal")
    stream.commit("billing", 4)
    assert stream.run("--fence", "quota")["step"] == "retired"
    with closing(clusters.old.open_admin()) as admin:
        until(lambda: name not in admin.describe_client_quotas(), "the quota is gone")
