"""ZooKeeper, keeper and control store at once, away while a plan is carried out; and the controller lost."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkakit.ports.admin import ClusterAdmin
from kafkakit.sandbox import lifecycle as sandbox
from tests.clusters.plans import make_plan
from tests.integration import test_reassign
from tests.integration.conftest import Home, LeaseClusters, SandboxCluster
from tests.integration.test_reassign import HELD, LARGE, alive, hasten, journal, kit_running, save, tidy
from tests.integration.test_reassign_faults import (
    QUICK,
    end_of,
    finished,
    go_on_if_it_ended,
    in_place,
    make_guarded,
    spread,
)
from tests.integration.writers import traffic
from tests.invariants.journal import verify_journal
from tests.rigs.cluster_pool import ZOOKEEPER
from tests.rigs.waiting import becomes, until

AWAY_S, LEASE_S = 60, 30  # seconds; a lease runs 15 s, and a line that is about to be written may be late

pytestmark = [pytest.mark.kafka, pytest.mark.zookeeper]


class ControlledHome(Home):
    """A home whose runs agree through ZooKeeper."""

    @property
    def env(self) -> dict[str, str]:
        return super().env | {"KAFKAKIT_CONTROL_STORE": "zookeeper"}


@pytest.fixture(scope="module")
def brokers(lease: LeaseClusters) -> SandboxCluster:
    (cluster,) = lease(ZOOKEEPER)
    cluster.home = ControlledHome(folder=cluster.home.folder, cache=cluster.home.cache)
    return cluster


@pytest.fixture
def admin(brokers: SandboxCluster) -> Iterator[ClusterAdmin]:
    brokers.revive()
    found = brokers.open_admin()
    until(lambda: len(alive(found)) == 4)
    yield found
    brokers.revive()
    tidy(brokers, found)
    found.close()


def kill_keeper(cluster: SandboxCluster) -> None:
    keeper = sandbox.load_state(cluster.store).nodes[0]
    assert keeper.process is not None
    assert cluster.machine.processes.kill([keeper.process])


def start_keeper(cluster: SandboxCluster) -> None:
    state = sandbox.load_state(cluster.store)
    sandbox.start_node(cluster.machine, cluster.store, state, state.nodes[0].node)


def controller_of(cluster: SandboxCluster) -> int | None:
    """The broker that is controller; None while there is none."""
    from kazoo.client import KazooClient
    from kazoo.exceptions import NoNodeError

    client = KazooClient(sandbox.load_state(cluster.store).nodes[0].node.address)
    client.start(timeout=60)
    try:
        return int(json.loads(client.retry(client.get, "/controller")[0])["brokerid"])
    except NoNodeError:
        return None
    finally:
        client.stop()
        client.close()


def test_zookeeper_away_for_a_minute_is_waited_for(
    brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path
) -> None:
    """Four times as long as a lease runs: nothing new is begun meanwhile, and then the same run continues."""
    make_guarded(brokers, admin, "minute", LARGE)
    path = save(plan := make_plan(admin, spread("minute")), tmp_path)
    with traffic(brokers, "minute", 3) as flow:
        with kit_running(brokers, "apply", path, *QUICK, "--throttle", HELD, "--max-in", "1") as process:
            until(admin.reassignments)
            kill_keeper(brokers)
            try:
                time.sleep(LEASE_S)
                begun = journal(brokers, plan)
                time.sleep(AWAY_S - LEASE_S)
                assert process.poll() is None
                assert journal(brokers, plan) == begun, "nothing is begun without the lease"
                assert verify_journal(begun, settled=False)[-1]["what"] != "end"
            finally:
                start_keeper(brokers)
            hasten(brokers, path, process)
            code, told = finished(process)
        # A request that itself hung in Kafka until ZooKeeper was back has nothing to wait for, and no line to print.
        assert ("nothing new is begun until it answers" in told) == ("the lease is still ours" in told), told
        go_on_if_it_ended(brokers, admin, path, code, told)
        until(lambda: in_place(admin, plan))
        becomes(lambda: end_of(admin, "minute")[2:], ({}, ()))
    verify_journal(journal(brokers, plan))
    assert flow.check() > 100


def test_throttles_are_exact_and_restored_here_too(
    brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path
) -> None:
    test_reassign.test_apply_throttles_exactly_restores_and_a_second_apply_does_nothing(brokers, admin, tmp_path)


def test_controller_killed_so_that_another_broker_takes_over(
    brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path
) -> None:
    make_guarded(brokers, admin, "headed", LARGE)
    path = save(plan := make_plan(admin, spread("headed")), tmp_path)
    with traffic(brokers, "headed", 3) as flow:
        with kit_running(brokers, "apply", path, *QUICK, "--throttle", HELD, "--max-in", "1") as process:
            until(admin.reassignments)
            head = controller_of(brokers)
            assert head is not None
            brokers.kill(head)
            until(lambda: controller_of(brokers) not in (None, head))
            brokers.restart(head)
            hasten(brokers, path, process)
            code, told = finished(process)
        go_on_if_it_ended(brokers, admin, path, code, told)
        until(lambda: in_place(admin, plan))
        becomes(lambda: end_of(admin, "headed")[2:], ({}, ()))
    verify_journal(journal(brokers, plan))
    assert flow.check() > 100
