"""A rolling restart of six brokers by its runbook, under load, with a watcher that shares no code with kafkakit."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kafkakit.core.cluster_facts import PartitionState
from kafkakit.core.model import TopicPartition
from tests.integration.conftest import SandboxCluster
from tests.integration.runbooks import blocks, run_blocks
from tests.integration.test_reassign import settled
from tests.integration.writers import traffic
from tests.places import ROOT
from tests.rigs import kubectl
from tests.rigs.waiting import becomes

pytestmark = pytest.mark.kafka

WRITTEN, MINIMUM = "restarted", 2
OTHERS = ("single", "strict")


class IsrWatcher:
    """Reads a topic's partitions all the time, as clients see them; notes the fewest in sync of each."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._client = AdminClient({"bootstrap.servers": bootstrap, "socket.timeout.ms": 3_000})
        self._topic, self._stop = topic, Event()
        self._thread = Thread(target=self._watch)
        self.fewest: dict[int, int] = {}
        self.leaders: dict[int, set[int]] = {}
        self.views = 0

    @contextmanager
    def watching(self) -> Iterator["IsrWatcher"]:
        self._thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self._thread.join()

    def _watch(self) -> None:
        while not self._stop.is_set():
            try:
                found = self._client.list_topics(self._topic, timeout=3).topics[self._topic].partitions
            except KafkaException:  # the broker that was asked went down
                continue
            self.views += 1
            for number, partition in found.items():
                self.fewest[number] = min(self.fewest.get(number, 99), len(partition.isrs))
                self.leaders.setdefault(number, set()).add(partition.leader)
            time.sleep(0.1)


def states(cluster: SandboxCluster) -> dict[TopicPartition, PartitionState]:
    with closing(cluster.open_admin()) as admin:
        return dict(settled(admin).states({WRITTEN, *OTHERS}))


def test_a_rolling_restart_under_load_loses_nothing(cluster6: SandboxCluster, tmp_path: Path) -> None:
    first, ids = cluster6.broker_ids[0], cluster6.broker_ids
    lists = {n: (ids[n], ids[(n + 1) % 6], ids[(n + 2) % 6]) for n in range(6)}  # one in each rack
    with closing(cluster6.open_admin()) as admin:
        assert admin.create_topic(WRITTEN, lists, {"min.insync.replicas": str(MINIMUM)}) is None
        assert admin.create_topic("single", {0: ids[:1]}, {"min.insync.replicas": "1"}) is None
        assert admin.create_topic("strict", {0: ids[1:4]}, {"min.insync.replicas": "3"}) is None
    before = states(cluster6)
    assert {state.leader for state in before.values()} == set(ids)
    replace = kubectl.of_sandbox(cluster6.store.root, first, cluster6.bootstrap_servers)
    state = kubectl.place(tmp_path, "kafka", 6, replace=replace)
    env = {
        **cluster6.env,
        "PYTHONPATH": str(ROOT),
        "PATH": f"{tmp_path}:{cluster6.env['PATH']}",
        "KAFKAKIT_PROFILE": cluster6.name,
        "STATEFULSET": "kafka",
        "NAMESPACE": "data",
        "FIRST_ID": str(first),
        "AT_ONCE": "2",
    }
    steps = blocks("rolling-restart.md", undo=False)
    assert len(steps) == 6
    watcher = IsrWatcher(cluster6.bootstrap_servers, WRITTEN)
    with traffic(cluster6, WRITTEN, len(lists), gap_s=0.1) as work, watcher.watching():
        done = run_blocks(steps, tmp_path, env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "done: 6 of 6 pods replaced" in done.stdout
    assert "done: 0 of 6 pods replaced" in done.stdout, "the second run restarts nothing"
    deleted = [line.split()[1:] for line in kubectl.load(state)["log"] if line.startswith("delete")]
    assert sorted(pod for pods in deleted for pod in pods) == [f"kafka-{n}" for n in range(6)]
    assert [len(pods) for pods in deleted] == [2, 2, 2]
    assert work.check() > 100
    assert watcher.views > 10
    assert min(watcher.fewest.values()) >= MINIMUM, watcher.fewest
    assert not any(-1 in leaders for leaders in watcher.leaders.values()), "no partition was without a leader"
    led = {line.rpartition("-")[0] for line in (tmp_path / "led").read_text("utf-8").split()}
    assert led & {WRITTEN, *OTHERS} == {"single"}, "what others can lead had gone before its pod did"
    becomes(lambda: {k: (s.replicas, s.leader) for k, s in states(cluster6).items()},
            {k: (s.replicas, s.leader) for k, s in before.items()})  # fmt: skip
