"""kafka-kit's metrics znodes in a real ZooKeeper: the contract of `StorageMetrics`, and planning commands on them."""

import gzip
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from kafkakit.adapters.metrics.znodes import ZooKeeperMetrics
from kafkakit.core.errors import InputError, OperationFailedError, TryLaterError
from kafkakit.core.metrics_znodes import (
    BROKER_STORAGE,
    PARTITION_SIZES,
    Compression,
    encode_broker_storage,
    encode_partition_sizes,
)
from kafkakit.core.model import TopicPartition
from tests.contracts.storage_metrics import StorageMetricsContract
from tests.integration.conftest import SandboxCluster, StartCluster

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
    client.start(timeout=60)
    yield client
    client.stop()
    client.close()


class ZooKeeperRig:
    """A prefix of its own for each test; written to as kafka-kit does, by an unconditional set."""

    def __init__(self, address: str, client: Any) -> None:
        self.prefix = f"metrics{next(_prefixes)}"
        self.client = client
        self.metrics = ZooKeeperMetrics(address, self.prefix)

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
    admin = keeper.open_admin()
    first, second = keeper.broker_ids
    assert admin.create_topic("sized", {0: (first, second), 1: (first, second)}, {}) is None
    admin.close()
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
    assert "below its share" in found["broker-share", f"broker {second}"]
    time.sleep(1.1)
    ran = kafkakit(keeper, tmp_path, *check, "--metrics-age", "0")
    assert (ran.returncode, "Metrics metadata is older than allowed: " in ran.stderr) == (75, True), ran.stderr
    rig.put(BROKER_STORAGE, b'{"x":1}')
    ran = kafkakit(keeper, tmp_path, *check)
    assert ran.returncode == 2
    assert "brokermetrics" in ran.stderr
    assert "Traceback" not in ran.stderr
