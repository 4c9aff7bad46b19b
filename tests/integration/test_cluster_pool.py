"""The clusters that test files lease: asleep between leases, as they were when they started at each lease."""

import time
from contextlib import closing

import pytest

from kafkakit.core.model import TopicPartition
from tests.integration.conftest import Home, SettledAdmin
from tests.rigs.cluster_pool import SINGLE, TRIO, Lease, Pool

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


def test_a_cluster_sleeps_between_leases_and_is_whole_again(pool: Pool, home: Home) -> None:
    with pool.lease(home, TRIO, SINGLE) as (trio, _):
        first, state = pool.leases[-2], trio.state
        assert first.cluster is trio
        assert states(first) == {"S"}
        with closing(trio.open_admin()) as admin:
            assert admin.create_topic("left-behind", {0: trio.broker_ids}, {}) is None
    assert states(first) == {"T"}
    time.sleep(LONGER_THAN_SESSIONS_S)
    with pool.lease(home, TRIO) as (again,):
        assert (again.name, again.state.nodes) == (trio.name, state.nodes)
        with closing(SettledAdmin(again.bootstrap_servers, again.security)) as admin:
            assert admin.topic_names() == set()
            assert {b.id for b in admin.cluster().brokers if b.is_alive} == set(again.broker_ids)
            assert admin.create_topic("new", {0: again.broker_ids}, {}) is None
            found = admin.states(["new"])[TopicPartition("new", 0)]
            assert set(found.isr) == set(again.broker_ids)
