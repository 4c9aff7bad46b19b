"""The clusters that test files lease: asleep between leases, as they were when they started at each lease."""

import time
from contextlib import closing

import pytest

from kafkakit.core.model import TopicPartition
from kafkakit.sandbox import lifecycle
from tests.integration.conftest import Home, SettledAdmin
from tests.rigs.cluster_pool import SINGLE, TRIO, Lease, Pool, clean, put_to_sleep, wake
from tests.rigs.waiting import until

pytestmark = pytest.mark.kafka
LONGER_THAN_SESSIONS_S = 6.0


def states(lease: Lease) -> set[str]:
    """What the kernel says of the cluster's processes: S sleeping, T stopped."""
    assert lease.cluster is not None
    pids = [record.process.pid for record in lease.cluster.state.nodes if record.process is not None]
    found = set()
    for pid in pids:
        with open(f"/proc/{pid}/stat") as file:
            found.add(file.read().rpartition(")")[2].split()[0].replace("R", "S").replace("D", "S"))
    return found


def test_a_cluster_sleeps_and_is_whole_again(pool: Pool, home: Home) -> None:
    """All of it within one lease: at its end another worker may take the cluster, and wake it."""
    with pool.lease(home, TRIO, SINGLE) as (trio, _):
        lease, nodes = pool.leases[-2], trio.state.nodes
        assert lease.cluster is trio
        until(lambda: states(lease) == {"S"}, "none is stopped")
        with closing(trio.open_admin()) as admin:
            assert admin.create_topic("left-behind", {0: trio.broker_ids}, {}) is None
        pool.make_ready(lease, clean)
        put_to_sleep(trio)
        until(lambda: states(lease) == {"T"}, "all its processes are stopped")
        time.sleep(LONGER_THAN_SESSIONS_S)
        pool.make_ready(lease, wake)
        assert lease.cluster is trio, "it was taken down"
        until(lambda: states(lease) == {"S"}, "none is stopped")
        assert lifecycle.load_state(trio.store).nodes == nodes
        with closing(SettledAdmin(trio.bootstrap_servers, trio.security)) as admin:
            assert admin.topic_names() == set()
            assert {b.id for b in admin.cluster().brokers if b.is_alive} == set(trio.broker_ids)
            assert admin.create_topic("new", {0: trio.broker_ids}, {}) is None
            found = admin.states(["new"])[TopicPartition("new", 0)]
            assert set(found.isr) == set(trio.broker_ids)
