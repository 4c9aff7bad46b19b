"""Throttles on real brokers: a rate for each broker and direction, changed while moves run, cleaned up after a kill."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.execution.decide.throttle import FOLLOWER_LIST, FOLLOWER_RATE, LEADER_LIST, LEADER_RATE
from kafkakit.ports.admin import ClusterAdmin
from tests.clusters.plans import make_plan
from tests.integration.conftest import LeaseClusters, SandboxCluster
from tests.integration.test_reassign import (
    HELD,
    LARGE,
    A,
    B,
    C,
    D,
    alive,
    journal,
    kit,
    kit_running,
    make_topic,
    replicas,
    save,
    set_config,
    throttles,
    tidy,
)
from tests.invariants.journal import verify_journal
from tests.rigs.cluster_pool import FOUR
from tests.rigs.waiting import becomes, until

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def brokers(lease: LeaseClusters) -> SandboxCluster:
    return lease(FOUR)[0]


@pytest.fixture
def admin(brokers: SandboxCluster) -> Iterator[ClusterAdmin]:
    found = brokers.open_admin()
    until(lambda: len(alive(found)) == 4)
    yield found
    tidy(brokers, found)
    found.close()


def test_rates_by_broker_and_direction_change_and_are_cleaned_up_after_a_kill(
    brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path
) -> None:
    make_topic(brokers, admin, "rates", {0: (A, B), 1: (B, A)}, 3 * LARGE)
    set_config(admin, ResourceKind.BROKER, str(A), LEADER_RATE, "123456789")
    set_config(admin, ResourceKind.TOPIC, "rates", FOLLOWER_LIST, "7:1002")
    before = throttles(admin, "rates")
    path = save(plan := make_plan(admin, {("rates", 0): (C, B), ("rates", 1): (D, A)}), tmp_path)
    options = ("--throttle", HELD, "--throttle-broker", f"{D}:in=50kB", "--throttle-broker", f"{A}:out=70kB")
    with kit_running(brokers, "apply", path, "--yes", "--join", *options) as process:
        until(lambda: len(admin.reassignments()) == 2)
        wanted = {
            str(A): {LEADER_RATE: "70000"},
            str(B): {LEADER_RATE: "100000"},
            str(C): {FOLLOWER_RATE: "100000"},
            str(D): {FOLLOWER_RATE: "50000"},
            "rates": {LEADER_LIST: "0:1001,0:1002,1:1002,1:1001", FOLLOWER_LIST: "7:1002,0:1003,1:1004"},
        }
        becomes(lambda: throttles(admin, "rates"), wanted)
        busy = kit(brokers, "cleanup", "--yes")
        assert (busy.returncode, busy.stdout) == (75, "")
        changed = kit(brokers, "throttle", path, "80kB", "--throttle-broker", f"{C}:in=60kB", "-o", "json")
        assert changed.returncode == 0, changed.stderr
        assert json.loads(changed.stdout)["rates"]["into_of"] == {str(C): 60_000}
        wanted |= {
            str(A): {LEADER_RATE: "80000"},
            str(B): {LEADER_RATE: "80000"},
            str(C): {FOLLOWER_RATE: "60000"},
            str(D): {FOLLOWER_RATE: "80000"},
        }
        becomes(lambda: throttles(admin, "rates"), wanted)
        process.kill()
        process.communicate()
    during = throttles(admin, "rates")
    kept = kit(brokers, "cleanup", "--yes")
    assert kept.returncode == 1
    assert "2 moves still run under them" in kept.stdout
    becomes(lambda: throttles(admin, "rates"), during)
    Path(path).unlink()
    faster = kit(brokers, "throttle", "200MB")
    assert faster.returncode == 0, faster.stderr
    becomes(lambda: throttles(admin, "rates").get(str(C)), {FOLLOWER_RATE: "200000000"})
    until(lambda: not admin.reassignments())
    shown = kit(brokers, "cleanup")
    assert shown.returncode == 1
    assert "broker 1001 leader.replication.throttled.rate: 200 MB/s, back to 123 MB/s" in shown.stdout
    done = kit(brokers, "cleanup", "--yes", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "cleaned"
    becomes(lambda: throttles(admin, "rates"), before)
    becomes(lambda: replicas(admin, "rates"), {0: (C, B), 1: (D, A)})
    verify_journal(journal(brokers, plan), settled=False)
    again = kit(brokers, "cleanup", "--yes")
    assert (again.returncode, again.stderr) == (0, "")
    set_config(admin, ResourceKind.BROKER, str(A), LEADER_RATE, None)
