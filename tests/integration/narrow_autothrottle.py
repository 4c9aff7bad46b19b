"""Run by `test_reassign_narrow_network.py` in a network namespace of its own, whose loopback it makes narrow."""

import time
from contextlib import closing
from pathlib import Path

from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.execution.decide.throttle import FOLLOWER_LIST, FOLLOWER_RATE
from tests.integration.conftest import StartCluster
from tests.integration.test_autothrottle import hasten, pacing, rate_of, slow
from tests.integration.test_reassign import MB, set_config, throttles
from tests.rigs.capped_network import (
    SOURCE_OF,
    TARGET,
    SteadyClients,
    await_copies,
    begin_copies,
    cap_loopback,
    prepare,
)
from tests.rigs.prometheus import broker_metrics, broker_totals, prometheus_server
from tests.rigs.waiting import becomes, until

NETWORK, WRITTEN, SIZE = 25 * MB, 2_500_000, 250 * MB
CAPACITY = NETWORK - 2 * WRITTEN
LIMIT = 0.9 * CAPACITY
LEAST_REACHED = 0.7
"""Copies reach less than a setting, which is raised for it, at most by this."""


def test_copies_leave_clients_and_a_reserve_their_part(sandbox_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = sandbox_cluster(brokers=4, racks=1, log_dirs=(1,))
    with closing(cluster.open_admin()) as admin:
        prepare(cluster, admin, SIZE)
        cap_loopback(NETWORK, queue_ms=50)
        before = throttles(admin, "copied")

        def copied() -> float:
            return broker_totals(exporter)[str(TARGET), "reassignmentbytesin"]

        with (
            broker_metrics(cluster.state) as exporter,
            prometheus_server(tmp_path, exporter) as server,
            SteadyClients(cluster.bootstrap_servers, WRITTEN).running() as clients,
        ):
            until(lambda: len(clients.latencies) > 500)
            server.wait_for('rate(kafka_server_brokertopicmetrics_bytesin_total{broker_id="1001"}[5s]) > 1e6', 1)
            options = ("--law", "slo", "--capacity", f"{CAPACITY}B", "--p99", "2s", "--prometheus-url", server.url,
                       "--metrics-window", "5s", "--interval", "2s", "--sample", "1s", "--listen", "none")  # fmt: skip
            with pacing(cluster, "run", *options):
                slow(admin, "copied", TARGET)
                receivers = ",".join(f"{key.partition}:{TARGET}" for key in SOURCE_OF)
                set_config(admin, ResourceKind.TOPIC, "copied", FOLLOWER_LIST, receivers)
                begin_copies(admin)
                hasten(admin, "copied", TARGET)
                rates = [until(lambda: rate_of(admin, "copied", TARGET, FOLLOWER_RATE))]
                began_s, began = time.monotonic(), copied()
                last_s, last = began_s, began
                while admin.reassignments():
                    rates.append(rate_of(admin, "copied", TARGET, FOLLOWER_RATE))
                    last_s, last = time.monotonic(), copied()
                    time.sleep(0.5)
                await_copies(admin)
                becomes(lambda: throttles(admin, "copied"), before)
        # At the beginning a quota's whole window of bytes may pass at once.
        assert last - began <= LIMIT * (last_s - began_s + 11)
        assert max(rates) <= LIMIT / LEAST_REACHED
        assert (clients.failed, len(clients.latencies)) == (0, clients.sent)
