"""Every stream of a cluster moved to another one, at a pace, by processes that are killed in the middle.

Run: python bench/streams_evacuate.py [--streams 200] [--at-once 10] [--per-hour 1000] [--kills 2]

Two sandbox clusters of one broker each, routes in files of this host. Each stream has a topic of two partitions with
some records that group `reports` has read; `--live` of them are written and read by clients of streams meanwhile, as
group `billing`: members that are alive on the new cluster keep other processes from committing a first offset there.
`kafkakit streams evacuate` is started, killed with SIGKILL when a share of the streams has moved, and started again.
Whether the pace was kept is counted here from the journals of the operations, which the command under test does not
count by. Prints one JSON object.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from machine import shape
from sandboxes import start_cluster

sys.path.insert(0, str(Path(__file__).parent.parent))

from confluent_kafka import Consumer, Producer, TopicPartition

from kafkakit.adapters.control_file import FileControl
from kafkakit.adapters.files import write_file
from kafkakit.adapters.host import SystemClock
from kafkakit.streams.client.connect import connect
from kafkakit.streams.client.dead_letters import ConsumerOptions
from kafkakit.streams.client.workers import StreamRecord
from kafkakit.streams.failover.act.run import OperationJournals
from kafkakit.streams.failover.decide.operation import Step
from kafkakit.streams.model.route import Lane, Route, Segment, SegmentState
from kafkakit.streams.routes.api_act import RouteStore, find_topics
from tests.integration.conftest import Home, SandboxCluster

PARTITIONS, RECORDS = 2, 20
IDLE_GROUP, LIVE_GROUP = "reports", "billing"
LIMIT_S = 3600
HOUR_MS = 3_600_000


def make_streams(old: SandboxCluster, routes: RouteStore, names: list[str], live: list[str]) -> None:
    """Topics with records that the group has read, and the routes over them."""
    admin = old.open_admin()
    for name in names:
        admin.create_topic(f"{name}.live.1", dict.fromkeys(range(PARTITIONS), old.broker_ids), {})
    topics = find_topics(admin, {f"{name}.live.1" for name in names})
    producer = Producer({"bootstrap.servers": old.bootstrap_servers})
    for name in names:
        for number in range(RECORDS * PARTITIONS):
            producer.produce(f"{name}.live.1", b"%d" % number, partition=number % PARTITIONS)
        producer.poll(0)
    producer.flush(60)
    reader = Consumer({"bootstrap.servers": old.bootstrap_servers, "group.id": IDLE_GROUP})
    keys = [(f"{name}.live.1", number) for name in names if name not in live for number in range(PARTITIONS)]
    reader.commit(offsets=[TopicPartition(topic, number, RECORDS) for topic, number in keys], asynchronous=False)
    reader.close()
    for name in names:
        topic = f"{name}.live.1"
        segment = Segment(
            id=1, cluster=old.name, cluster_id=old.cluster_id, topic=topic, topic_id=topics[topic].topic_id or "",
            partitions=PARTITIONS, state=SegmentState.ACTIVE,
        )  # fmt: skip
        route = Route(stream=name, epoch=1, next_segment=2, lanes=(Lane(name="live", segments=(segment,)),))
        routes.create(route, by="bench", what="create", at_ms=1)
    admin.close()


@dataclass
class Traffic:
    """A producer and a consumer of each live stream, in threads of this process."""

    names: list[str]
    home: Home
    profile: str
    sent: dict[tuple[str, bytes], str] = field(default_factory=dict)
    handled: Counter[tuple[str, bytes]] = field(default_factory=Counter)
    stop: threading.Event = field(default_factory=threading.Event)
    closing: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        self.threads = [
            threading.Thread(target=work, args=(name,), daemon=True)
            for name in self.names
            for work in (self.write, self.read)
        ]
        for thread in self.threads:
            thread.start()

    def write(self, name: str) -> None:
        with connect(self.profile, environment=self.home.env) as client, client.producer(name) as producer:
            number = 0
            while not self.stop.is_set():
                value = b"live-%d" % number
                done = producer.send(value, key=b"%d" % (number % 50)).result(300)
                with self.lock:
                    self.sent[name, value] = f"{done.topic}-{done.partition} at {done.offset}"
                number += 1
                time.sleep(0.02)

    def read(self, name: str) -> None:
        def handle(record: StreamRecord) -> None:
            with self.lock:
                self.handled[name, record.value or b""] += 1

        options = ConsumerOptions(concurrency=2, commit_every_s=0.2)
        with (
            connect(self.profile, environment=self.home.env) as client,
            client.consumer(name, LIVE_GROUP, handler=handle, options=options),
        ):
            self.closing.wait()

    def end(self) -> None:
        """Stop writing, let everything be read, stop reading."""
        self.stop.set()
        for thread in self.threads[::2]:  # the writers: what they sent last counts, too
            thread.join(300)
        until_s = time.monotonic() + 120
        while self.lost() and time.monotonic() < until_s:
            time.sleep(0.2)
        self.closing.set()
        for thread in self.threads:
            thread.join(60)

    def lost(self) -> int:
        with self.lock:
            return len(self.sent.keys() - self.handled.keys())

    def lost_where(self) -> list[str]:
        """Where the first of them were written."""
        with self.lock:
            return sorted(self.sent[key] for key in self.sent.keys() - self.handled.keys())[:10]

    def twice(self) -> int:
        with self.lock:
            return sum(count - 1 for key, count in self.handled.items() if key in self.sent)


def moved(routes: RouteStore, names: list[str], cluster_id: str) -> int:
    """Streams that are on a cluster alone, without an open operation."""
    found = (routes.existing(name).route for name in names)
    return sum(r.operation is None and {s.cluster_id for _, s in r.segments()} == {cluster_id} for r in found)


def spans(store: FileControl, names: list[str]) -> list[tuple[int, int]]:
    """When each operation began and when its old topics were retired, by the operations' own journals."""
    found = []
    for name in names:
        for record in OperationJournals(store, SystemClock(), name).records():
            if record.reached_ms:
                end_ms = record.reached_ms.get(Step.RETIRED, 1 << 60)
                found.append((record.operation.started_ms, end_ms))
    return found


def most_at_once(found: list[tuple[int, int]]) -> int:
    marks = sorted([(first, 1) for first, _ in found] + [(last, -1) for _, last in found])
    now = most = 0
    for _, step in marks:
        now += step
        most = max(most, now)
    return most


def most_in_an_hour(found: list[tuple[int, int]]) -> int:
    starts = sorted(first for first, _ in found)
    return max((sum(at - HOUR_MS < other <= at for other in starts) for at in starts), default=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--live", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=10)
    parser.add_argument("--per-hour", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=2)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="streams-evacuate-") as folder, ExitStack() as stack:
        home = Home(folder=Path(folder), cache=Path.home() / ".cache" / "kafkakit")
        old, new = start_cluster(home, "old"), start_cluster(home, "new")
        stack.callback(old.down)
        stack.callback(new.down)
        store = FileControl(home.state_dir / "control", write_file)
        routes, names = RouteStore(store), [f"s{number:04d}" for number in range(asked.streams)]
        live = names[:: max(1, asked.streams // asked.live)][: asked.live]
        make_streams(old, routes, names, live)
        traffic = Traffic(live, home, new.name)
        traffic.start()
        stack.callback(traffic.closing.set)
        stack.callback(traffic.stop.set)
        words = [
            sys.executable, "-m", "kafkakit", "--profile", new.name, "-o", "json", "streams", "evacuate", old.name,
            "--to", new.name, "--at-once", str(asked.at_once), "--per-hour", str(asked.per_hour),
            "--quiet-for", "2s", "--yes",
        ]  # fmt: skip
        began_s, runs, at_kill = time.monotonic(), [], []
        for number in range(asked.kills + 1):
            goal = asked.streams * (number + 1) // (asked.kills + 1)
            out = Path(folder) / f"run-{number}.json"
            with out.open("wb") as stdout:
                process = subprocess.Popen(words, env=home.env, stdout=stdout, stderr=subprocess.DEVNULL)
                stack.callback(process.kill)
                while process.poll() is None and time.monotonic() - began_s < LIMIT_S:
                    if number < asked.kills and moved(routes, names, new.cluster_id) >= goal:
                        process.kill()
                        at_kill.append(moved(routes, names, new.cluster_id))
                    time.sleep(1)
                process.kill()
            runs.append(process.wait())
        seconds = time.monotonic() - began_s
        traffic.end()
        report, found = json.loads(out.read_text()), spans(store, names)
        result = {
            "streams": asked.streams,
            "moved": moved(routes, names, new.cluster_id),
            "exit_codes": runs,
            "moved_at_kill": at_kill,
            "seconds": round(seconds, 1),
            "seconds_a_stream": round(seconds / asked.streams, 2),
            "at_once_allowed": asked.at_once,
            "at_once_most": most_at_once(found),
            "an_hour_allowed": asked.per_hour,
            "an_hour_most": most_in_an_hour(found),
            "operations": len(found),
            "report": {key: report[key] for key in ("result", "done", "most_at_once", "most_in_an_hour", "left")},
            "live": {
                "sent": len(traffic.sent),
                "lost": traffic.lost(),
                "lost_where": traffic.lost_where(),
                "twice": traffic.twice(),
            },
            "goal": {"moved": asked.streams, "at_once_most": asked.at_once, "lost": 0},
            "machine": shape(),
        }
    print(json.dumps(result, indent=2))
    sys.exit(result["moved"] != asked.streams or result["at_once_most"] > asked.at_once or bool(traffic.lost()))


if __name__ == "__main__":
    main()
