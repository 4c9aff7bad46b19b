"""kafka-kit's metrics znodes in a real ZooKeeper: the contract of `StorageMetrics`, and planning commands on them."""

import gzip
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from kafkakit.adapters.kafka.data import KafkaData
from kafkakit.adapters.zookeeper import MOST_WRITTEN, ZooKeeperMetrics
from kafkakit.core.cluster_facts import FreeStorage, PartitionSizes, StorageReading
from kafkakit.core.errors import InputError, OperationFailedError, TryLaterError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.core.storage_documents import (
    BROKER_STORAGE,
    PARTITION_SIZES,
    Compression,
    encode_broker_storage,
    encode_partition_sizes,
)
from kafkakit.ports.admin import ClusterAdmin
from tests.contracts.storage_metrics import StorageMetricsContract
from tests.integration.conftest import SandboxCluster, StartCluster
from tests.rigs.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.zookeeper]

KAFKAKIT = Path(sys.executable).parent / "kafkakit"
_prefixes = itertools.count()


@pytest.fixture(scope="module")
def keeper(sandbox_cluster: StartCluster) -> Iterator[SandboxCluster]:
    cluster = sandbox_cluster(brokers=2, racks=2, log_dirs=(1,), mode="zookeeper")
    try:
        yield cluster
    finally:
        cluster.down()


@pytest.fixture(scope="module")
def zookeeper(keeper: SandboxCluster) -> Iterator[Any]:
    client = KazooClient(hosts=keeper.state.layout.keeper.address)
    client.start(timeout=120)
    yield client
    client.stop()
    client.close()


class ZooKeeperRig:
    """A prefix of its own for each test; written to as kafka-kit does, by an unconditional set."""

    def __init__(self, address: str, client: Any) -> None:
        self.prefix = f"metrics{next(_prefixes)}"
        self.client = client
        self.metrics = ZooKeeperMetrics(address, self.prefix, timeout_s=60)

    def put(self, name: str, data: bytes) -> None:
        path = f"/{self.prefix}/{name}"
        if self.client.exists(path):
            self.client.set(path, data)
        else:
            self.client.create(path, data, makepath=True)

    def put_sizes(self, sizes: Mapping[TopicPartition, int]) -> None:
        self.put(PARTITION_SIZES, encode_partition_sizes(sizes))

    def put_free(self, free: Mapping[int, int]) -> None:
        self.put(BROKER_STORAGE, encode_broker_storage(free, Compression.NONE))

    def pass_time(self) -> None:
        time.sleep(0.05)

    def now(self) -> datetime:
        now = datetime.now(UTC)
        return now.replace(microsecond=now.microsecond // 1000 * 1000)  # ZooKeeper's times are whole milliseconds


@pytest.fixture
def rig(keeper: SandboxCluster, zookeeper: Any) -> Iterator[ZooKeeperRig]:
    rig = ZooKeeperRig(keeper.state.layout.keeper.address, zookeeper)
    yield rig
    rig.metrics.close()


class TestZooKeeperMetrics(StorageMetricsContract):
    pass


def test_chroot_several_addresses_and_an_empty_prefix(keeper: SandboxCluster, rig: ZooKeeperRig) -> None:
    rig.put_sizes({})
    rig.put_free({1: 2})
    address = f"127.0.0.1:1,{keeper.state.layout.keeper.address}/{rig.prefix}"
    metrics = ZooKeeperMetrics(address, "")
    try:
        assert metrics.read().free.bytes_of == {1: 2}
    finally:
        metrics.close()


def test_faults_are_told_apart(keeper: SandboxCluster, rig: ZooKeeperRig) -> None:
    rig.put(PARTITION_SIZES, gzip.compress(b'{"t":{"0":{"Size":'))
    with pytest.raises(InputError, match=rf"znode /{rig.prefix}/partitionmeta: not valid JSON"):
        rig.metrics.read()
    rig.put(PARTITION_SIZES, b"\x1f\x8bnonsense")
    with pytest.raises(InputError, match="cannot be unpacked"):
        rig.metrics.read()
    from kazoo.security import make_digest_acl

    rig.client.set_acls(f"/{rig.prefix}/{PARTITION_SIZES}", [make_digest_acl("someone", "else", all=True)])
    with pytest.raises(OperationFailedError, match="not allowed to read"):
        rig.metrics.read()
    with pytest.raises(TryLaterError, match="no znode /nowhere/partitionmeta"):
        ZooKeeperMetrics(keeper.state.layout.keeper.address, "nowhere").read()


def kafkakit(cluster: SandboxCluster, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [KAFKAKIT, "--profile", cluster.name, *words],
        cwd=folder,
        env=cluster.env,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


def test_check_takes_sizes_from_the_znodes(keeper: SandboxCluster, rig: ZooKeeperRig, tmp_path: Path) -> None:
    first, second = keeper.broker_ids
    with closing(keeper.open_admin()) as admin:
        assert admin.create_topic("sized", {0: (first, second), 1: (first, second)}, {}) is None
        until(lambda: all(len(sizes) == 2 for sizes in sizes_of(admin, "sized")))
    own = json.loads(kafkakit(keeper, tmp_path, "topicmappr", "check", "--topics", "sized", "-o", "json").stdout)
    assert own["sizes"]["source"] == "brokers"
    assert not [f for f in own["findings"] if f["rule"] in ("unknown-size", "rack-rule", "no-live-copy")]
    place = ("--zk-addr", keeper.state.layout.keeper.address, "--zk-metrics-prefix", rig.prefix)
    rules = ("--topics", "sized", "--max-disk-use", "75%", "--sizes-from", "zookeeper")
    check = ("topicmappr", "check", *rules, *place, "-o", "json")
    ran = kafkakit(keeper, tmp_path, *check)
    assert (ran.returncode, "metricsfetcher" in ran.stderr) == (75, True), ran.stderr
    keys = [TopicPartition("sized", 0), TopicPartition("sized", 1)]
    rig.put_sizes(dict.fromkeys(keys, 40_000_000))
    rig.put_free({first: 20_000_000, second: 920_000_000})
    ran = kafkakit(keeper, tmp_path, *check)
    assert ran.returncode == 1, ran.stderr
    report = json.loads(ran.stdout)
    assert report["sizes"]["source"].startswith("ZooKeeper ")
    found = {(f["rule"], f["where"]): f["message"] for f in report["findings"]}
    assert found["disk-use", f"broker {first}"].startswith("80% of 95.4 MiB in use")
    assert "under the -" in found["broker-share", f"broker {second}"]
    time.sleep(1.1)
    ran = kafkakit(keeper, tmp_path, *check, "--metrics-age", "0")
    assert (ran.returncode, "Metrics metadata is older than allowed: " in ran.stderr) == (75, True), ran.stderr
    rig.put(BROKER_STORAGE, b'{"x":1}')
    ran = kafkakit(keeper, tmp_path, *check)
    assert ran.returncode == 2
    assert "brokermetrics" in ran.stderr
    assert "Traceback" not in ran.stderr


def fetched(cluster: SandboxCluster, rig: ZooKeeperRig, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    place = ("--zk-addr", cluster.state.layout.keeper.address, "--zk-prefix", rig.prefix)
    return kafkakit(cluster, folder, "metricsfetcher", "fetch", *place, *more)


def make_sized(cluster: SandboxCluster, name: str) -> TopicPartition:
    """A topic with an empty partition and one of some 100 kB, whose copies are alike when this returns."""
    key = TopicPartition(name, 0)
    with closing(cluster.open_admin()) as admin:
        assert admin.create_topic(name, {0: cluster.broker_ids, 1: cluster.broker_ids}, {}) is None
        producer = KafkaData(cluster.bootstrap_servers, cluster.security).producer()
        for _ in range(100):
            producer.send(key, b"x" * 1000)
        assert producer.flush(180) == 0
        until(lambda: all(len(s) == 2 and len(set(s.values())) == 1 for s in sizes_of(admin, name)))
    return key


def sizes_of(admin: ClusterAdmin, topic: str) -> list[Mapping[int, int]]:
    """The bytes of each partition of a topic, by broker: no broker may have heard of it yet, or have made its log."""
    found = admin.snapshot(now=datetime.now(UTC), topics=[topic]).topics
    return [partition.replica_bytes for each in found for partition in each.partitions] or [{}]


def test_what_brokers_report_is_written_as_kafka_kit_does_and_planned_with(
    keeper: SandboxCluster, rig: ZooKeeperRig, tmp_path: Path
) -> None:
    key = make_sized(keeper, "fetched")
    admin = keeper.open_admin()
    snapshot = admin.snapshot(now=datetime.now(UTC))
    admin.close()
    sizes = {
        TopicPartition(t.name, p.partition): max(p.replica_bytes.values())
        for t in snapshot.topics
        for p in t.partitions
    }
    assert sizes[key] > 100_000
    ran = fetched(keeper, rig, tmp_path)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    data = gzip.decompress(rig.client.get(f"/{rig.prefix}/{PARTITION_SIZES}")[0])
    topics: dict[str, Any] = {}
    for tp, size in sizes.items():
        topics.setdefault(tp.topic, {})[str(tp.partition)] = {"Size": size}
    # Go's encoding/json: no blanks, keys of maps sorted as text.
    assert data == json.dumps(topics, separators=(",", ":"), sort_keys=True).encode()
    free = json.loads(gzip.decompress(rig.client.get(f"/{rig.prefix}/{BROKER_STORAGE}")[0]))
    assert set(free) == {str(b) for b in keeper.broker_ids}
    assert all(value["StorageFree"] > 0 for value in free.values())
    reading = rig.metrics.read()
    assert reading.sizes.bytes_of == sizes
    place = ("--zk-addr", keeper.state.layout.keeper.address, "--zk-metrics-prefix", rig.prefix)
    rebuild = ("topicmappr", "rebuild", "--topics", "fetched", "--brokers", "-2", "--placement", "storage")
    ran = kafkakit(keeper, tmp_path, *rebuild, "--sizes-from", "zookeeper", *place, "--plan", "plan.json", "-o", "json")
    assert ran.returncode == 0, ran.stderr
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["storage"]["source"] == reading.source
    shown = kafkakit(keeper, tmp_path, "metricsfetcher", "show", *place[:2], "--zk-prefix", rig.prefix, "-o", "json")
    values = json.loads(shown.stdout)
    assert (values["partitions"], values["brokers"]) == (len(sizes), 2)
    # Again, over what is there, in another compression; the znodes change together.
    ran = fetched(keeper, rig, tmp_path, "--compression", "zstd")
    assert ran.returncode == 0, ran.stderr
    stats = [rig.client.get(f"/{rig.prefix}/{name}")[1] for name in (PARTITION_SIZES, BROKER_STORAGE)]
    assert stats[0].last_modified_transaction_id == stats[1].last_modified_transaction_id
    assert rig.metrics.read().sizes.bytes_of == sizes


def reading_of(partitions: int) -> StorageReading:
    now = datetime.now(UTC)
    sizes = {TopicPartition("large", n): 1 for n in range(partitions)}
    return StorageReading(
        source="a test",
        sizes=PartitionSizes(bytes_of=sizes, taken_at=now),
        free=FreeStorage(bytes_of={1: 1}, taken_at=now),
    )


def test_the_largest_request_that_is_sent_is_taken_and_a_larger_one_is_not_sent(
    keeper: SandboxCluster, rig: ZooKeeperRig
) -> None:
    store = ZooKeeperMetrics(
        keeper.state.layout.keeper.address, rig.prefix, compression=Compression.NONE, read_only=False
    )
    most = MOST_WRITTEN // 19  # "12345":{"Size":1}, is 19 bytes at most
    try:
        assert sum(store.write(reading_of(most)).values()) > MOST_WRITTEN - 25_000
        with pytest.raises(UsageError, match=r"do not fit below znode .*--compression zstd"):
            store.write(reading_of(most + 3_000))
        assert len(store.read().sizes.bytes_of) == most
    finally:
        store.close()


def test_neither_znode_changes_where_one_may_not_be_written(keeper: SandboxCluster, rig: ZooKeeperRig) -> None:
    from kazoo.security import ACL, Id

    store = ZooKeeperMetrics(keeper.state.layout.keeper.address, rig.prefix, read_only=False)
    try:
        store.write(reading_of(1))
        rig.client.set_acls(f"/{rig.prefix}/{BROKER_STORAGE}", [ACL(1, Id("world", "anyone"))])
        with pytest.raises(OperationFailedError, match="not allowed to read or write"):
            store.write(reading_of(2))
        assert len(store.read().sizes.bytes_of) == 1
    finally:
        store.close()


@pytest.mark.parametrize(("chroot", "prefix"), [("/below/{}", ""), ("", "/"), ("", "{}/deep/er/")])
def test_znodes_are_made_wherever_they_are_to_be(
    keeper: SandboxCluster, rig: ZooKeeperRig, chroot: str, prefix: str
) -> None:
    address = keeper.state.layout.keeper.address + chroot.format(rig.prefix)
    store = ZooKeeperMetrics(address, prefix.format(rig.prefix), read_only=False)
    try:
        written = store.write(reading_of(3))
        assert len(store.read().sizes.bytes_of) == 3
        path = f"{chroot.format(rig.prefix)}/{prefix.format(rig.prefix).strip('/')}".rstrip("/")
        assert set(written) == {f"znode {path}/{PARTITION_SIZES}", f"znode {path}/{BROKER_STORAGE}"}
        assert rig.client.exists(f"{path}/{PARTITION_SIZES}")
    finally:
        store.close()


def test_values_go_to_a_compacted_topic_and_come_back(keeper: SandboxCluster, tmp_path: Path) -> None:
    command = ("metricsfetcher", "fetch", "--to", "topic:kit_sizes")
    with closing(keeper.open_admin()) as admin:
        for _ in range(2):
            ran = kafkakit(keeper, tmp_path, *command)
            assert ran.returncode == 0, ran.stderr
            until(lambda: all(len(sizes) == 2 for sizes in sizes_of(admin, "kit_sizes")))
    ran = kafkakit(keeper, tmp_path, "metricsfetcher", "show", "--from", "topic:kit_sizes", "-o", "json")
    assert ran.returncode == 0, ran.stderr
    values = json.loads(ran.stdout)
    assert "kit_sizes" in {entry["topic"] for entry in values["sizes"]}, "the second one knows the topic of the first"
    assert values["age_s"] < 300


def wait_for_controller(rig: ZooKeeperRig, broker: int) -> None:
    """A dead controller's place is free when its session has expired, 18 s after its last word."""

    def is_controller() -> bool:
        with suppress(NoNodeError):
            return bool(json.loads(rig.client.get("/controller")[0])["brokerid"] == broker)
        return False

    until(is_controller)


def test_a_dead_broker_is_named_and_what_is_stored_stays(
    keeper: SandboxCluster, rig: ZooKeeperRig, tmp_path: Path
) -> None:
    make_sized(keeper, "outage")
    assert fetched(keeper, rig, tmp_path).returncode == 0
    before = rig.client.get(f"/{rig.prefix}/{PARTITION_SIZES}")
    first, second = keeper.broker_ids
    keeper.kill(second)
    try:
        wait_for_controller(rig, first)
        ran = fetched(keeper, rig, tmp_path, "-X", "request_timeout=60s")
        assert ran.returncode == 1, ran.stderr
        assert f"broker {second} gave no answer" in ran.stderr or f"of brokers {second}" in ran.stderr, ran.stderr
        assert rig.client.get(f"/{rig.prefix}/{PARTITION_SIZES}") == before
        ran = fetched(keeper, rig, tmp_path, "-X", "request_timeout=60s", "--allow-partial")
        assert ran.returncode == 0, ran.stderr
        assert set(rig.metrics.read().free.bytes_of) == {first}
    finally:
        keeper.revive()
