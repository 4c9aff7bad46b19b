"""Moves of streams on two real clusters: the runbooks as they stand, a series that is killed, keys in order."""

import json
import re
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kafkakit.adapters.control_file import FileControl
from kafkakit.adapters.files import write_file
from kafkakit.core.model import TopicPartition
from kafkakit.streams.client.connect import connect
from kafkakit.streams.client.dead_letters import ConsumerOptions
from kafkakit.streams.client.workers import StreamRecord
from kafkakit.streams.routes.api_act import RouteStore
from tests.integration.conftest import LeaseClusters, SandboxCluster
from tests.integration.runbooks import blocks, run_blocks
from tests.integration.stream_clients import loner
from tests.rigs.cluster_pool import SINGLE
from tests.rigs.waiting import until

pytestmark = pytest.mark.kafka
LIMIT_S = 300.0


class Clusters:
    """Two clusters; routes are in files of this host, which no other module has."""

    def __init__(self, old: SandboxCluster, new: SandboxCluster, state: Path) -> None:
        self.old, self.new, self.state = old, new, state
        self.env = {**old.env, "XDG_STATE_HOME": str(state)}

    def words(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "kafkakit", "--profile", self.new.name, "-o", "json", "streams", *words]

    def run(self, *words: str, code: int = 0) -> Any:
        done = subprocess.run(
            self.words(*words), env=self.env, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        assert done.returncode == code, f"{done.returncode}: {done.stderr}{done.stdout}"
        return json.loads(done.stdout)

    def make(self, *streams: str) -> None:
        """Streams with some records that group `billing` has read."""
        for stream in streams:
            self.run("create", stream, "--cluster", self.old.name, "--lanes", "live", "--partitions", "2", "--yes")
        servers = self.old.bootstrap_servers
        producer = Producer({"bootstrap.servers": servers})
        for stream in streams:
            producer.produce(self.topic(stream), b"1", partition=0)
        assert producer.flush(LIMIT_S) == 0
        with loner(self.old, "billing") as reader:
            reader.commit({TopicPartition(self.topic(s), n): (1 - n, "") for s in streams for n in range(2)})

    def topic(self, stream: str) -> str:
        (segment,) = self.segments(stream)
        return str(segment["topic"])

    def segments(self, stream: str) -> list[Any]:
        return list(self.run("show", stream)["segments"])

    def epoch(self, stream: str) -> int:
        store = FileControl(self.state / "kafkakit" / "control", write_file)
        return RouteStore(store).existing(stream).route.epoch

    def where(self, *streams: str) -> set[str]:
        return {str(segment["cluster"]) for stream in streams for segment in self.segments(stream)}


@pytest.fixture(scope="module")
def clusters(lease: LeaseClusters, tmp_path_factory: pytest.TempPathFactory) -> Clusters:
    old, new = lease(SINGLE, SINGLE)
    return Clusters(old, new, tmp_path_factory.mktemp("moves"))


def test_the_runbook_of_an_evacuation(clusters: Clusters, tmp_path: Path) -> None:
    clusters.make("walked", "driven")
    names = {"KAFKAKIT_PROFILE": clusters.new.name, "OLD": clusters.old.name, "NEW": clusters.new.name}
    env = {**clusters.env, **names, "QUIET": "2s", "GRACE": "0"}
    steps, undo = blocks("evacuate-a-cluster.md", undo=False), blocks("evacuate-a-cluster.md", undo=True)
    assert (len(steps), len(undo)) == (5, 1)
    done = run_blocks([*steps, *undo], tmp_path, env)
    assert done.returncode == 0, done.stdout + done.stderr
    for pattern in (
        r"^nothing to move$",
        r"^verified: certificate",
        r"^ *\S+\.live\.\d+ +deleted",
        r"2 of 2 streams moved",
    ):
        assert re.search(pattern, done.stdout, re.MULTILINE), f"{pattern}\n{done.stdout}"
    assert clusters.where("walked", "driven") == {clusters.old.name}
    clusters.run("delete", "walked", "--yes")
    clusters.run("delete", "driven", "--yes")


def test_the_runbook_of_another_number_of_partitions(clusters: Clusters, tmp_path: Path) -> None:
    clusters.make("counted")
    env = {
        **clusters.env, "KAFKAKIT_PROFILE": clusters.new.name, "STREAM": "counted", "PARTITIONS": "5",
        "BEFORE": "2", "QUIET": "2s", "GRACE": "0",
    }  # fmt: skip
    steps, undo = blocks("change-partition-count.md", undo=False), blocks("change-partition-count.md", undo=True)
    assert (len(steps), len(undo)) == (4, 1)
    done = run_blocks(steps, tmp_path, env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [(each["partitions"], each["cluster"]) for each in clusters.segments("counted")] == [(5, clusters.old.name)]
    done = run_blocks([steps[0], *undo], tmp_path, env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [each["partitions"] for each in clusters.segments("counted")] == [2]
    clusters.run("delete", "counted", "--yes")


def test_an_evacuation_that_is_killed_is_continued(clusters: Clusters) -> None:
    streams = ("one", "two", "three")
    clusters.make(*streams)
    words = ("evacuate", clusters.old.name, "--to", clusters.new.name, "--at-once", "1", "--yes", "--quiet-for")
    process = subprocess.Popen(  # it waits for quiet topics until it is killed
        clusters.words(*words, "10m"), env=clusters.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: any(clusters.epoch(stream) > 1 for stream in streams))
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    report = clusters.run(*words, "2s")
    assert (report["result"], report["done"], report["left"]) == ("done", 3, [])
    assert report["most_at_once"] == 1
    assert clusters.where(*streams) == {clusters.new.name}


def test_a_balance_measures_what_is_written(clusters: Clusters) -> None:
    clusters.make("left", "right")
    producer, stop = Producer({"bootstrap.servers": clusters.old.bootstrap_servers}), threading.Event()

    def write() -> None:
        while not stop.wait(0.02):
            for topic in ("left.live.1", "right.live.1"):
                producer.produce(topic, b"x" * 1000, partition=1)
            producer.flush(LIMIT_S)

    thread = threading.Thread(target=write, daemon=True)
    capacities = [f"--capacity={each.name}=10MB/s" for each in (clusters.old, clusters.new)]
    found: dict[str, Any] = {}

    def is_measured() -> bool:
        """A window in which brokers or this process were held up shows another load."""
        found.update(clusters.run("balance", *capacities, "--window", "3s", "--dry-run", code=0))
        return len(found["moves"]) == 1 and 500 < found["moves"][0]["load"] < 50_000

    thread.start()
    try:
        until(is_measured)
    finally:
        stop.set()
        thread.join(LIMIT_S)
    (move,) = found["moves"]
    assert (move["stream"] in ("left", "right"), move["to"]) == (True, clusters.new.name)
    before = [each["before"] for each in found["figures"]["clusters"]]
    assert before[0] > before[1] == 0
    clusters.run("delete", "left", "--yes")
    clusters.run("delete", "right", "--yes")


def test_records_of_a_key_stay_in_order_when_partitions_change(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in clusters.env.items():
        monkeypatch.setenv(name, value)
    clusters.run("create", "keyed", "--cluster", clusters.old.name, "--lanes", "live", "--partitions", "2", "--yes")
    handled: dict[bytes, list[int]] = defaultdict(list)
    topics: set[str] = set()
    sent, stop, end, lock = [0], threading.Event(), threading.Event(), threading.Lock()

    def handle(record: StreamRecord) -> None:
        time.sleep(0.002)  # so that something is unread when the producer changes over
        with lock:
            topics.add(record.origin.source.topic)
            handled[record.key or b""].append(int(record.value or b"-1"))

    with connect(clusters.new.name) as client:

        def produce() -> None:
            with client.producer("keyed") as producer:
                while not stop.is_set():
                    producer.send(b"%d" % sent[0], key=b"%d" % (sent[0] % 7)).result(LIMIT_S)
                    sent[0] += 1

        def consume() -> None:
            options = ConsumerOptions(concurrency=4, commit_every_s=0.2)
            with client.consumer("keyed", "billing", handler=handle, options=options):
                end.wait(LIMIT_S)

        threads = [threading.Thread(target=work, daemon=True) for work in (produce, consume)]
        for thread in threads:
            thread.start()

        def count(distinct: bool) -> int:
            with lock:
                return sum(len(set(each) if distinct else each) for each in handled.values())

        until(lambda: count(distinct=False) > 50)
        ended = clusters.run(
            "repartition", "keyed", "--lane", "live", "--partitions", "5", "--order", "strict", "--yes"
        )
        assert ended["step"] == "retired"
        until(lambda: len(topics) == 2)
        stop.set()
        threads[0].join(LIMIT_S)
        until(lambda: count(distinct=True) == sent[0])
        end.set()
        threads[1].join(LIMIT_S)
    for key, numbers in handled.items():
        firsts = list(dict.fromkeys(numbers))  # a record may be handled again after a rebalance
        assert firsts == sorted(firsts), key
