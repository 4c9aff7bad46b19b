"""Run by `test_reassign_narrow_network.py` in a network namespace of its own, whose loopback it makes narrow."""

import subprocess
from contextlib import closing
from pathlib import Path

from tests.clusters.plans import make_plan
from tests.integration.conftest import StartCluster
from tests.integration.test_reassign import journal, kit, kit_running, make_topic, save
from tests.integration.test_reassign_faults import end_of, finished, in_place
from tests.integration.writers import traffic
from tests.invariants.journal import verify_journal
from tests.rigs.waiting import becomes, until

A, B, C, D = 1001, 1002, 1003, 1004
PARTITIONS, SIZE = 300, 200_000
NARROW = "tc qdisc add dev lo root tbf rate 64mbit burst 256kb latency 400ms"


def test_hundreds_of_moves_over_a_narrow_network_end_well(sandbox_cluster: StartCluster, tmp_path: Path) -> None:
    """All brokers and clients share 8 MB/s: under a throttle of 50 MB/s on each broker, and without one."""
    cluster = sandbox_cluster(brokers=4, racks=2)
    with closing(cluster.open_admin()) as admin:
        make_topic(cluster, admin, "wide", dict.fromkeys(range(PARTITIONS), (A, B)), SIZE)
        make_topic(cluster, admin, "busy", dict.fromkeys(range(3), (A, B)), 0)
        wanted = {("wide", n): (C, D) if n % 2 else (B, C) for n in range(PARTITIONS)}
        path = save(plan := make_plan(admin, wanted), tmp_path)
        subprocess.run(NARROW.split(), check=True)
        with traffic(cluster, "busy", 3) as flow:
            words = ("--yes", "--throttle", "50MB", "--max-in", "100", "--max-out", "100")
            with kit_running(cluster, "apply", path, *words) as process:
                until(lambda: admin.reassignments() or process.poll() is not None)
                seen = kit(cluster, "status", "--window", "0", "-o", "json")
                assert seen.returncode == 0, seen.stderr
                code, told = finished(process)
            assert code == 0, told
            until(lambda: in_place(admin, plan))
            becomes(lambda: end_of(admin, "wide")[2:], ({}, ()))
            back = kit(cluster, "rollback", path, "--yes", "--max-in", "100", "--max-out", "100")
            assert back.returncode == 0, back.stderr
            until(lambda: set(end_of(admin, "wide").replicas.values()) == {(A, B)})
        qdisc = subprocess.run(["tc", "-s", "qdisc", "show", "dev", "lo"], capture_output=True, text=True, check=True)
        assert "overlimits 0 " not in qdisc.stdout, "the network was never full"
        assert flow.check() > 50
        verify_journal(journal(cluster, plan))
