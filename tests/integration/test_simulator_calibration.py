"""The simulator against real brokers: the same moves under the same throttle, with a change in the middle.

Both runs are sampled at the same seconds; the total time, and how much was there on average until the change, must
agree within `TOLERANCE`. No single sample is compared: a real copy comes in steps of two lumps a partition at once,
8 MB here, and a sample just before a step and one just after it are both right. Two sizes of batches: of 600 kB only
one fits into a fetch of 1 MiB, and the quota counts what is cut off, too.
"""

import time
from dataclasses import dataclass

import pytest

from kafkakit.adapters.kafka.data import KafkaData
from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, ResourceKind
from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.throttle import FOLLOWER_LIST, FOLLOWER_RATE, LEADER_LIST, LEADER_RATE
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.simulator.cluster import QuotaModel, SimBroker, SimCluster, SimMove, SimPartition, efficiency_of, lump_of
from kafkakit.simulator.simulation import Simulation
from tests.integration.conftest import SandboxCluster
from tests.rigs.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.timed]

A, B, C = 1001, 1002, 1003
MB = 1_000_000
PARTITIONS = 4
SIZE = 12 * MB
FIRST, SECOND = 3 * MB, 6 * MB
CHANGE_S = 8
TOLERANCE = 0.15
# Batches that an answer may bring of each partition. A quota lets answers through whole while it is not used up,
# and forgets what went beyond it with the window: on a busy machine the real copy is often ahead by one answer.
BATCHES = 2
WINDOW_NUM, BACKOFF_MS = 3, 100  # what the sandbox gives its brokers
PATIENCE_S = 90.0


@dataclass(frozen=True)
class Timing:
    """Bytes that were there on average until the rate changed, and seconds until all was copied.

    A busy machine looks late: `looked_s` and `changed_s` say when, and the copies took at least `moving_s`, from the
    answer to the request until the last look that saw one.
    """

    looked_s: tuple[int, ...]
    changed_s: int
    before_change: float
    moving_s: float
    total_s: float


@pytest.fixture(scope="module")
def brokers(cluster: SandboxCluster) -> SandboxCluster:
    return cluster


def set_value(admin: ClusterAdmin, kind: ResourceKind, name: str, key: str, value: str) -> None:
    change = ConfigChange(kind=kind, name=name, key=key, op=ConfigOp.SET, value=value)
    assert admin.alter_configs([change])[change] is None
    until(lambda: admin.dynamic_configs(kind, [name])[name].get(key) == value)


def set_rates(admin: ClusterAdmin, rate: int) -> None:
    set_value(admin, ResourceKind.BROKER, str(A), LEADER_RATE, str(rate))
    set_value(admin, ResourceKind.BROKER, str(C), FOLLOWER_RATE, str(rate))


def real_run(cluster: SandboxCluster, admin: ClusterAdmin, topic: str, value_bytes: int) -> Timing:
    keys = [TopicPartition(topic, n) for n in range(PARTITIONS)]
    assert admin.create_topic(topic, dict.fromkeys(range(PARTITIONS), (A, B)), {}) is None
    producer = KafkaData(cluster.bootstrap_servers, cluster.security).producer()
    for key in keys:
        for _ in range(SIZE // value_bytes):
            producer.send(key, bytes(value_bytes))
    assert producer.flush(PATIENCE_S) == 0
    for name, broker in ((LEADER_LIST, A), (FOLLOWER_LIST, C)):
        entries = ",".join(f"{n}:{broker}" for n in range(PARTITIONS))
        set_value(admin, ResourceKind.TOPIC, topic, name, entries)
    set_rates(admin, FIRST)
    requested = time.monotonic()
    assert set(admin.reassign(dict.fromkeys(keys, (C, B))).values()) == {None}
    began = time.monotonic()
    looked_s, seen = [], []
    for second in range(1, CHANGE_S + 1):
        time.sleep(max(0.0, began + second - time.monotonic()))
        seen.append(sum(r.size_bytes for r in admin.log_dirs([C], keys)[C].replicas.values()))
        looked_s.append(round(time.monotonic() - began))
    set_rates(admin, SECOND)
    changed_s, moving_s = round(time.monotonic() - began), 0.0
    while admin.reassignments():
        moving_s = time.monotonic() - began
        assert moving_s < PATIENCE_S
        time.sleep(0.1)
    total_s = time.monotonic() - requested
    print("MB at seconds:", {at: round(size / MB, 1) for at, size in zip(looked_s, seen, strict=True)})
    return Timing(tuple(looked_s), changed_s, sum(seen) / len(seen), moving_s, total_s)


def simulated_run(batch_bytes: int, real: Timing) -> tuple[float, float]:
    """Bytes on average at the same seconds, and seconds in all, with the change at the same second."""
    keys = [TopicPartition("t", n) for n in range(PARTITIONS)]
    quota = QuotaModel(
        window_num=WINDOW_NUM,
        efficiency=efficiency_of(WINDOW_NUM, BACKOFF_MS, batch_bytes),
        lump_bytes=lump_of(batch_bytes),
    )
    simulation = Simulation(
        SimCluster(
            brokers=tuple(SimBroker(id=b) for b in (A, B, C)),
            partitions=tuple(SimPartition(key=k, replicas=(A, B), size_bytes=SIZE) for k in keys),
            quota=quota,
        )
    )
    seen = []
    for rate, seconds in ((FIRST, real.changed_s), (SECOND, 600)):
        simulation.set_rates(A, into=None, out=rate)
        simulation.set_rates(C, into=rate, out=None)
        if not simulation.now_s:
            simulation.submit(SimMove(key=k, target=(C, B)) for k in keys)
        for _ in range(seconds):
            simulation.advance(1)
            seen.append(simulation.copied_bytes)
    return sum(seen[at - 1] for at in real.looked_s) / len(real.looked_s), max(simulation.finished.values())


@pytest.mark.parametrize(("value_bytes", "batch_bytes"), [(600_000, 600_000), (20_000, 980_000)])
def test_moves_take_as_long_as_on_real_brokers(brokers: SandboxCluster, value_bytes: int, batch_bytes: int) -> None:
    admin = brokers.open_admin()
    try:
        real = real_run(brokers, admin, f"calibration-{value_bytes}", value_bytes)
    finally:
        admin.close()
    before_change, total_s = simulated_run(batch_bytes, real)
    print(f"real {real}, simulated {total_s} s, off by {total_s / real.total_s - 1:+.1%}")
    assert real.moving_s * (1 - TOLERANCE) <= total_s <= real.total_s * (1 + TOLERANCE)
    answer = PARTITIONS * BATCHES * batch_bytes
    assert before_change == pytest.approx(real.before_change, rel=TOLERANCE, abs=answer)
