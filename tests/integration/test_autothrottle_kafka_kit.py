"""kafka-kit's command line on real brokers: traffic and events of a loopback Datadog, rates by kafka-kit's formula."""

import json
import signal
import subprocess
import sys
import time

import pytest

from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.throttle import FOLLOWER_RATE, LEADER_RATE
from tests.integration.conftest import LeaseClusters
from tests.integration.test_autothrottle import begin, hasten, slow
from tests.integration.test_reassign import MB, A, B, C, alive, make_topic, throttles
from tests.rigs.cluster_pool import TRIO
from tests.rigs.metrics_http import Datadog, serving
from tests.rigs.waiting import becomes, until

pytestmark = pytest.mark.kafka
CAP_MAP = '{"big": 1.1}'


def test_rates_come_from_datadog_and_events_go_there(lease: LeaseClusters) -> None:
    (cluster,) = lease(TRIO)
    datadog = Datadog(time.time)
    for broker in (A, B, C):
        datadog.add(f"host-{broker}", broker, sent=1.0 * MB, received=1.0 * MB)
    admin = cluster.open_admin()
    try:
        until(lambda: len(alive(admin)) == 3)
        make_topic(cluster, admin, "kit", {0: (A, B)}, 100 * MB)
        before = throttles(admin, "kit")
        with serving(datadog) as server:
            keys = {"AUTOTHROTTLE_API_KEY": "api-k3y", "AUTOTHROTTLE_APP_KEY": "app-k3y", "DATADOG_HOST": server.url}
            variables = {"AUTOTHROTTLE_CAP_MAP": CAP_MAP, "AUTOTHROTTLE_MIN_RATE": "0.05", "AUTOTHROTTLE_INTERVAL": "2"}
            line = ["run", "-law=headroom", "-max-tx-rate", "80", "-max-rx-rate", "60", "-api-listen", "127.0.0.1:0"]
            line += ["--copies-tx-query", "avg:copies{*} by {host}", "--copies-rx-query", "avg:copies{*} by {host}"]
            words = [sys.executable, "-m", "kafkakit", "--profile", cluster.name, "autothrottle", *line]
            service = subprocess.Popen(
                [*words, "-sample=1s", "-o", "json"],
                env={**cluster.env, **keys, **variables},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            try:
                slow(admin, "kit", C)
                begin(admin, "kit", (C, B))
                until(lambda: str(A) in throttles(admin, "kit"))
                hasten(admin, "kit", C)
                # What clients leave of 1.1 MB/s, times 80% and 60%; the copy takes about five minutes.
                becomes(lambda: throttles(admin, "kit").get(str(C)), {FOLLOWER_RATE: "60000"})
                becomes(lambda: throttles(admin, "kit").get(str(A)), {LEADER_RATE: "80000"})
                until(lambda: bool(datadog.events))
                admin.cancel([TopicPartition("kit", 0)])
                becomes(lambda: throttles(admin, "kit"), before)
                until(lambda: any("removed" in title for title, _, _ in datadog.events))
            finally:
                service.send_signal(signal.SIGTERM)
                _, said = service.communicate(timeout=180)
        assert service.returncode == 143, said
        told = [title.partition("] ")[2] for title, _, _ in datadog.events]
        assert told[0] == "Broker replication throttle set"
        assert told[-2:] == ["Topics done reassigning", "Broker replication throttle removed"]
        assert f"[{A}, leader, 0.08], " in datadog.events[0][1]
        ticks = [json.loads(text).get("tick") for text in said.splitlines() if text.startswith("{")]
        assert {1, 0} <= {tick["moves"] for tick in ticks if tick}
        assert "k3y" not in said
    finally:
        admin.close()
