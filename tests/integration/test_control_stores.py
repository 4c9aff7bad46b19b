"""Control stores on a real Kafka topic and in a real ZooKeeper: the contract, faults, and compaction."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from kafkakit.adapters import control_kafka
from kafkakit.adapters.control_kafka import TOPIC, KafkaControl
from kafkakit.adapters.host import SystemClock
from kafkakit.adapters.kafka.data import KafkaData
from kafkakit.adapters.zookeeper import ZooKeeperControl
from kafkakit.autothrottle.act.pacer import ZnodeOverrides
from kafkakit.autothrottle.decide.pacer import MB, Override, Overrides
from kafkakit.config.read.settings import GivenSettings, load_settings
from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, ResourceKind
from kafkakit.core.errors import ConflictError, TryLaterError, UsageError
from kafkakit.core.lease import Holder, Life
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.execution.act.leases import Lease
from kafkakit.ports.stores import ControlStore
from kafkakit.sandbox import lifecycle as run
from kafkakit.sandbox.lifecycle import start_node
from kafkakit.wiring import read_old_moves
from tests.contracts.control import ControlContract, Rig, increment
from tests.integration.conftest import LeaseClusters, SandboxCluster
from tests.rigs.cluster_pool import ZOOKEEPER
from tests.rigs.waiting import until

pytestmark = pytest.mark.kafka

TP = TopicPartition(TOPIC, 0)
SHARED = (TOPIC, "__consumer_offsets")


class KafkaRig:
    def __init__(self, cluster: SandboxCluster) -> None:
        self.cluster = cluster
        self.data = KafkaData(cluster.bootstrap_servers, cluster.security)

    def open(self, answer_limit_s: float = 30) -> KafkaControl:
        return KafkaControl(self.data, self.cluster.open_admin, answer_limit_s=answer_limit_s)

    def records(self) -> list[Record]:
        """Everything that the topic holds now."""
        end = self.data.offsets([TP], 10)[TP].stop
        consumer = self.data.consumer([TP])
        found: list[Record] = []
        try:
            while not found or found[-1].offset < end - 1:
                found += consumer.poll(1)
        finally:
            consumer.close()
        return found


class ZooKeeperRig:
    def __init__(self, cluster: SandboxCluster) -> None:
        self.cluster = cluster

    def open(self, answer_limit_s: float = 30) -> ZooKeeperControl:
        return ZooKeeperControl(f"{self.cluster.state.layout.keeper.address}/chroot", answer_limit_s=answer_limit_s)

    def kill(self) -> None:
        process = run.load_state(self.cluster.store).nodes[0].process
        assert process is not None
        assert self.cluster.machine.processes.kill([process])

    def revive(self) -> None:
        store = self.cluster.store
        with store.locked():
            state = run.load_state(store)
            store.save(start_node(self.cluster.machine, store, state, state.layout.keeper))


@pytest.fixture
def kafka_rig(cluster: SandboxCluster) -> KafkaRig:
    return KafkaRig(cluster)


@pytest.fixture(scope="module")
def keeper(lease: LeaseClusters) -> SandboxCluster:
    return lease(ZOOKEEPER)[0]


@pytest.fixture
def zookeeper_rig(keeper: SandboxCluster) -> ZooKeeperRig:
    return ZooKeeperRig(keeper)


class TestKafkaControl(ControlContract):
    @pytest.fixture
    def rig(self, kafka_rig: KafkaRig) -> KafkaRig:
        return kafka_rig


def test_who_only_looks_sees_what_is_written_and_writes_nothing(kafka_rig: KafkaRig) -> None:
    looker = KafkaControl(kafka_rig.data, kafka_rig.cluster.open_admin, only_looks=True)
    with closing(kafka_rig.open()) as writer, closing(looker):
        first = writer.cas("looked/a", b"1", None)
        written = len(kafka_rig.records())
        found = looker.get("looked/a")
        assert found is not None
        assert (found.value, found.version) == (b"1", first)
        assert len(kafka_rig.records()) == written
        second = writer.cas("looked/a", b"2", first)
        until(lambda: (now := looker.get("looked/a")) is not None and now.version == second, "the change is seen")


@pytest.mark.zookeeper
class TestZooKeeperControl(ControlContract):
    @pytest.fixture
    def rig(self, zookeeper_rig: ZooKeeperRig) -> ZooKeeperRig:
        from kazoo.client import KazooClient

        client = KazooClient(hosts=zookeeper_rig.cluster.state.layout.keeper.address)
        client.start(timeout=60)
        client.ensure_path("/chroot")
        client.stop()
        client.close()
        return zookeeper_rig


def one_wins(rig: Rig, path: str) -> None:
    """Four claims at the same moment: one token, the others are told who has it."""
    gate, won, refused = threading.Barrier(4), list[int](), list[str]()

    def claim(number: int) -> None:
        store = rig.open()
        holder = Holder(host="h", user=f"u{number}", command="c", pid=1)
        lease = Lease(store, SystemClock(), path, holder, what="it", life_of=lambda _: Life.ALIVE, say=lambda _: None)
        gate.wait()
        try:
            won.append(lease.acquire())
        except TryLaterError as error:
            refused.append(error.message)
        store.close()

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [1]
    assert len(refused) == 3
    assert len(set(refused)) == 1


def test_one_lease_in_kafka(kafka_rig: KafkaRig) -> None:
    one_wins(kafka_rig, "races/kafka")


@pytest.mark.zookeeper
def test_one_lease_in_zookeeper(zookeeper_rig: ZooKeeperRig) -> None:
    one_wins(zookeeper_rig, "races/zookeeper")


@contextmanager
def hurried(store: KafkaControl | ZooKeeperControl, limit_s: float) -> Iterator[None]:
    """The store waits for answers for so long at most, as it is away."""
    usual = store._answer_limit_s
    store._answer_limit_s = limit_s
    try:
        yield
    finally:
        store._answer_limit_s = usual


def survives(
    store: KafkaControl | ZooKeeperControl,
    fresh: ControlStore,
    path: str,
    cut: Callable[[], None],
    repair: Callable[[], None],
    limit_s: float,
) -> None:
    """Count, take the store away, count on, bring it back: errors are TryLaterError, and no count is lost.

    A write that was not answered may have happened once, and no more.
    """
    sure, unsure = 0, 0
    for _ in range(3):
        sure += increment(store, path)
    found = None
    try:
        with hurried(store, limit_s):
            cut()
            for _ in range(2):
                with pytest.raises(TryLaterError):
                    store.get(path)
            try:
                store.cas(path, b"1000", 1)
            except TryLaterError:
                unsure += 1
            except ConflictError:
                pass  # known without asking, as the version is an old one
    finally:
        repair()
    end = time.monotonic() + 180
    while found is None:
        try:
            found = store.get(path)
        except TryLaterError:
            assert time.monotonic() < end
    assert found.value == b"3"
    for _ in range(3):
        sure += increment(store, path)
    last = fresh.get(path)
    assert last is not None
    assert int(last.value) == sure == 6
    assert unsure in (0, 1)


@pytest.mark.zookeeper
def test_zookeeper_may_be_away_for_a_while(zookeeper_rig: ZooKeeperRig) -> None:
    store, fresh = zookeeper_rig.open(), zookeeper_rig.open()
    survives(store, fresh, "away/counter", zookeeper_rig.kill, zookeeper_rig.revive, 2)
    store.close()
    fresh.close()


def test_two_brokers_of_three_may_be_away_for_a_while(kafka_rig: KafkaRig) -> None:
    """One dead broker is borne, with two dead nothing counts as written."""
    cluster = kafka_rig.cluster
    first, second, third = cluster.broker_ids
    store, fresh = kafka_rig.open(), kafka_rig.open()
    assert increment(store, "one-away/counter")
    cluster.kill(first)
    try:
        end = time.monotonic() + 180
        while True:
            try:
                assert increment(store, "one-away/counter")
                break
            except TryLaterError:
                assert time.monotonic() < end

        def cut() -> None:
            cluster.kill(second)
            until(lambda: is_away(store))

        survives(store, fresh, "away/counter", cut, cluster.revive, 4)
    finally:
        cluster.revive()
        with closing(cluster.open_admin()) as admin:  # the next test may kill others
            until(lambda: all(len(s.isr) == len(s.replicas) for s in admin.partition_states(SHARED).values()))
    assert third in cluster.broker_ids
    store.close()
    fresh.close()


def test_the_topic_is_made_safe_and_an_unsafe_one_is_refused(kafka_rig: KafkaRig) -> None:
    store = kafka_rig.open()
    store.cas("made/a", b"1", None)
    admin = kafka_rig.cluster.open_admin()
    try:
        configs = admin.dynamic_configs(ResourceKind.TOPIC, [TOPIC])[TOPIC]
        assert (configs["cleanup.policy"], configs["min.insync.replicas"]) == ("compact", "2")
        assert configs["unclean.leader.election.enable"] == "false"
        assert len(admin.partition_states([TOPIC])[TP].replicas) == 3
        assert list(admin.alter_configs([topic_change("cleanup.policy", "compact,delete")]).values()) == [None]
        until(lambda: admin.dynamic_configs(ResourceKind.TOPIC, [TOPIC])[TOPIC]["cleanup.policy"] != "compact")
        until(lambda: refusal(kafka_rig) != "")  # another client may read from a broker that has not heard of it
        assert "cleanup.policy is compact,delete, not" in refusal(kafka_rig)
    finally:
        admin.alter_configs([topic_change("cleanup.policy", "compact")])
        until(lambda: admin.dynamic_configs(ResourceKind.TOPIC, [TOPIC])[TOPIC]["cleanup.policy"] == "compact")
        until(lambda: refusal(kafka_rig) == "")
        admin.close()
        store.close()


def test_compaction_changes_nothing(kafka_rig: KafkaRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cleaner runs at once instead of after half an hour; old and new readers see what was there before."""
    monkeypatch.setattr(control_kafka, "COMPACTION_LAG_MS", 0)
    store, other = kafka_rig.open(), kafka_rig.open()
    store.cas("compact/first", b"kept", None)
    admin = kafka_rig.cluster.open_admin()
    eager = {
        "min.compaction.lag.ms": "0",
        "max.compaction.lag.ms": "500",
        "segment.ms": "300",
        "min.cleanable.dirty.ratio": "0.001",
        "delete.retention.ms": "100",
    }
    try:
        assert set(admin.alter_configs([topic_change(k, v) for k, v in eager.items()]).values()) == {None}
        for number in range(60):
            door = (store, other)[number % 2]
            assert increment(door, "compact/counter")
            with pytest.raises(ConflictError):
                door.cas("compact/counter", b"lost", 1)
            time.sleep(0.02)
        gone = store.cas("compact/gone", b"x", None)
        store.delete("compact/gone", gone)
        written = kafka_rig.data.offsets([TP], 10)[TP].stop
        until(lambda: poke(store) and len(kafka_rig.records()) < written // 3, wait_s=300)
        for door in (store, other, kafka_rig.open()):
            counter = door.get("compact/counter")
            assert counter is not None
            assert counter.value == b"60"
            first = door.get("compact/first")
            assert first is not None
            assert first.value == b"kept"
            assert door.get("compact/gone") is None
            with pytest.raises(ConflictError):
                door.cas("compact/counter", b"lost", counter.version - 1)
        fresh = kafka_rig.open()
        assert increment(fresh, "compact/counter")
        assert fresh.cas("compact/gone", b"y", None) > gone
    finally:
        admin.alter_configs(
            [topic_change(k, v) for k, v in control_kafka._CONFIGS.items() if k in eager]
            + [
                ConfigChange(kind=ResourceKind.TOPIC, name=TOPIC, key=k, op=ConfigOp.DELETE)
                for k in eager
                if k not in control_kafka._CONFIGS
            ]
        )
        admin.close()
        store.close()
        other.close()


def refusal(rig: KafkaRig) -> str:
    """Why a client that comes now refuses the topic; empty when it does not."""
    store = rig.open()
    try:
        store.get("made/a")
    except UsageError as error:
        return error.message
    finally:
        store.close()
    return ""


def is_away(store: ControlStore) -> bool:
    try:
        store.get("away/counter")
    except TryLaterError:
        return True
    return False


def poke(store: ControlStore) -> bool:
    """Give the broker a reason to roll its segment."""
    time.sleep(0.5)
    return store.get("compact/first") is not None


def topic_change(key: str, value: str) -> ConfigChange:
    return ConfigChange(kind=ResourceKind.TOPIC, name=TOPIC, key=key, op=ConfigOp.SET, value=value)


@pytest.mark.zookeeper
def test_overrides_of_the_pacer_are_znodes_of_kafka_kit(zookeeper_rig: ZooKeeperRig) -> None:
    """What kafka-kit wrote is read, what it reads is written, and a removed broker's znode is gone."""
    from kazoo.client import KazooClient

    address, rate = zookeeper_rig.cluster.state.layout.keeper.address, 40 * MB
    client = KazooClient(hosts=address)
    client.start(timeout=60)
    store = ZooKeeperControl(f"{address}/chroot", root="")
    try:
        client.create("/autothrottle/override_rate", b'{"rate":40,"autoremove":true}', makepath=True)
        client.create("/autothrottle/override_rate/1001", b'{"rate":5,"autoremove":false}')
        overrides = ZnodeOverrides(store, "autothrottle")
        assert overrides.read() == Overrides(
            every=Override(into=rate, out=rate, autoremove=True), of={1001: Override(into=5 * MB, out=5 * MB)}
        )
        overrides.put(1002, Override(into=MB, out=MB))
        overrides.put(1001, None)
        overrides.put(None, None)
        assert client.get("/autothrottle/override_rate/1002")[0] == b'{"rate":1,"autoremove":false}'
        assert client.get("/autothrottle/override_rate/1001")[0] == b'{"rate":0,"autoremove":false}'
        overrides.settle()
        assert client.get_children("/autothrottle/override_rate") == ["1002"]
        assert client.get("/autothrottle/override_rate")[0] == b'{"rate":0,"autoremove":false}'
        found = store.get("autothrottle/override_rate/1002")
        assert found is not None
        client.set("/autothrottle/override_rate/1002", b'{"rate":2,"autoremove":false}')
        with pytest.raises(ConflictError):
            store.delete("autothrottle/override_rate/1002", found.version)
        assert overrides.read().of == {1002: Override(into=2 * MB, out=2 * MB)}
    finally:
        store.close()
        client.stop()
        client.close()


@pytest.mark.zookeeper
def test_moves_of_an_old_cluster_are_read_from_their_znode(zookeeper_rig: ZooKeeperRig, tmp_path: Path) -> None:
    """Below the prefix of Kafka, that of the address or that of the settings; no znode is no moves."""
    from kazoo.client import KazooClient

    address, moves = zookeeper_rig.cluster.state.layout.keeper.address, b'{"version":1,"partitions":[]}'

    def read(*overrides: str) -> bytes:
        given = GivenSettings(overrides=overrides)
        return read_old_moves(load_settings(given, {"HOME": str(tmp_path)}, warn=pytest.fail, input_allowed=False))

    client = KazooClient(hosts=address)
    client.start(timeout=60)
    try:
        client.create("/old/kafka/admin/reassign_partitions", moves, makepath=True)
    finally:
        client.stop()
        client.close()
    assert read(f"zookeeper.addr={address}/old/kafka") == moves
    assert read(f"zookeeper.addr={address}", "zookeeper.prefix=/old/kafka/") == moves
    assert read(f"zookeeper.addr={address}", "zookeeper.prefix=other") == b""
    with pytest.raises(UsageError, match="moves of Kafka before"):
        read()
