"""A stream on two sandbox clusters of one broker each, its producers and consumers as processes, and their faults."""

import itertools
import json
import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kafkakit.adapters.control_file import FileControl
from kafkakit.core.model import TopicPartition
from kafkakit.sandbox import lifecycle
from kafkakit.streams.model.route import DLQ, LIVE, Lane, Route, Segment, SegmentState
from kafkakit.wiring import write_file
from tests.clusters.streams_batches import Rec, batch
from tests.integration.conftest import SandboxCluster
from tests.places import ROOT
from tests.rigs import stream_checker
from tests.rigs.bombs import append_batch, checked
from tests.rigs.stream_checker import Spot, Verdict
from tests.rigs.stream_process import is_rejected
from tests.rigs.stream_routes import Routes
from tests.rigs.waiting import WAIT_S, until

_numbers = itertools.count(1)


@dataclass(kw_only=True)
class Worker:
    """A producer or consumer that is started, killed and started again, each life with a trace of its own."""

    world: "World"
    name: str
    given: Mapping[str, object]
    process: subprocess.Popen[bytes] | None = None
    lives: int = 0

    def start(self) -> None:
        """Begin another life."""
        self.lives += 1
        number = next(_numbers)
        given = {
            **self.given,
            "trace": str(self.world.folder / f"{self.name}-{self.lives}.trace"),
            "first": number * 1_000_000,
            "seed": number,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.rigs.stream_process", json.dumps(given)],
            env=self.world.env, cwd=ROOT, stdout=self.world.output, stderr=self.world.output,
        )  # fmt: skip

    @property
    def is_alive(self) -> bool:
        """False before it started and after it ended or was killed."""
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL it."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def end(self, wait_s: float = WAIT_S) -> None:
        """SIGTERM it once it works, and wait until it has closed."""
        assert self.process is not None
        until(lambda: self.lines("figures") or not self.is_alive, "a process does not begin", wait_s)
        self.process.terminate()
        assert self.process.wait(wait_s) == 0, self.world.printed()

    def trace(self) -> str:
        """What its present life did so far."""
        path = self.world.folder / f"{self.name}-{self.lives}.trace"
        return path.read_text() if path.exists() else ""

    def lines(self, word: str) -> int:
        """How many lines of a kind its present life has."""
        return sum(line.startswith(word + " ") for line in self.trace().splitlines())


@dataclass(kw_only=True)
class World:
    """`live` begins on the first cluster and `dlq` is on `dlq_on`; traces are in `folder`."""

    clusters: Mapping[str, SandboxCluster]
    folder: Path
    dlq_on: str = "b"
    partitions: int = 3
    configs: Mapping[str, str] = field(default_factory=dict)
    workers: list[Worker] = field(default_factory=list)
    kept: dict[Spot, int] = field(default_factory=dict)
    """What an operator put into files and had the group pass, by place."""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.first = self.clusters["a"]
        self.env = {**self.first.env, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.control = self.first.home.state_dir / "control"
        self.outage = self.folder / "outage"
        self.output = (self.folder / "output").open("ab")
        self.routes = Routes(FileControl(self.control, write_file), f"faults-{next(_numbers)}")
        self.topics: dict[str, str] = {}
        live, dead = self.segment("a", LIVE, 1), self.segment(self.dlq_on, DLQ, 2)
        lanes = (Lane(name=LIVE, segments=(live,)), Lane(name=DLQ, segments=(dead,)))
        self.routes.write(Route(stream=self.routes.stream, epoch=1, next_segment=3, lanes=lanes))

    @property
    def group(self) -> str:
        """The group of the consumers."""
        return self.routes.stream

    @property
    def servers(self) -> dict[str, str]:
        """The clusters' addresses."""
        return {name: cluster.bootstrap_servers for name, cluster in self.clusters.items()}

    def segment(self, name: str, lane: str, number: int) -> Segment:
        """A new topic on a cluster."""
        cluster, topic = self.clusters[name], f"{self.routes.stream}.{lane}.{number}"
        admin = cluster.open_admin()
        configs = self.configs if lane != DLQ else {}
        assert admin.create_topic(topic, dict.fromkeys(range(self.partitions), cluster.broker_ids[:1]), configs) is None
        topic_id = admin.partition_states([topic])[TopicPartition(topic, 0)].topic_id or ""
        admin.close()
        if lane != DLQ:
            self.topics[topic] = name
        return Segment(
            id=number, cluster=cluster.name, cluster_id=cluster.cluster_id, topic=topic, topic_id=topic_id,
            partitions=self.partitions, state=SegmentState.ACTIVE,
        )  # fmt: skip

    def move(self, name: str) -> None:
        """Writes go to a new segment on a cluster from now on."""
        self.routes.move(self.segment(name, LIVE, self.routes.read().next_segment))

    def add(self, role: str, count: int = 1, **more: object) -> list[Worker]:
        """Workers, started; `more` are their options."""
        names = [f"{role}-{len(self.workers) + n}" for n in range(count)]
        given = {
            "role": role, "profile": self.first.name, "stream": self.routes.stream, "group": self.group,
            "outage": str(self.outage), "mode": "key", "handle_s": 0.001, "per_s": 400, "limit_chars": 4095,
            "limits": {}, "jumps": False, "reads_headers": False, "handler": "handler", "compression": "zstd",
            "strict": False, **more,
        }  # fmt: skip
        added = [Worker(world=self, name=name, given=given) for name in names]
        for worker in added:
            worker.start()
        self.workers += added
        return added

    def at_work(self) -> bool:
        """Whether every worker has begun its present life, as what is killed before leaves no trace."""
        return all(worker.lines("figures") for worker in self.workers)

    def kill_some(self, chosen: random.Random) -> list[Worker]:
        """SIGKILL one worker or more together, at once; returns them: none where all have ended by themselves."""
        alive = [worker for worker in self.workers if worker.is_alive]
        victims = chosen.sample(alive, min(len(alive), chosen.randint(1, max(1, len(alive) - 1))))
        for worker in victims:
            assert worker.process is not None
            worker.process.send_signal(signal.SIGKILL)
        for worker in victims:
            worker.kill()
        return victims

    @contextmanager
    def hung(self, *names: str) -> Iterator[None]:
        """Every broker of the clusters stands still."""
        with ExitStack() as stack:
            for name in names:
                stack.enter_context(self.clusters[name].hung())
            yield

    @contextmanager
    def gone(self, name: str) -> Iterator[None]:
        """SIGKILL every broker of a cluster, and start them again at the end."""
        cluster = self.clusters[name]
        for broker in cluster.broker_ids:
            cluster.kill(broker)
        try:
            yield
        finally:
            cluster.revive()

    @contextmanager
    def controller_gone(self, name: str) -> Iterator[None]:
        """SIGKILL a cluster's only controller, and start it again at the end."""
        cluster = self.clusters[name]
        record = lifecycle.load_state(cluster.store).nodes[0]
        assert record.process is not None
        cluster.machine.processes.kill([record.process])
        try:
            yield
        finally:
            state = lifecycle.load_state(cluster.store)
            cluster.state = lifecycle.start_node(cluster.machine, cluster.store, state, record.node)

    @contextmanager
    def store_away(self) -> Iterator[None]:
        """No file of the control store can be read meanwhile."""
        aside = self.control.with_name("control-aside")
        self.control.rename(aside)
        self.control.touch()
        try:
            yield
        finally:
            self.control.unlink()
            aside.rename(self.control)

    @contextmanager
    def damaged(self, topic: str, partition: int, place: int, mask: int) -> Iterator[range]:
        """Other bits in a byte of a partition's second batch; its offsets."""
        folder = self.clusters[self.topics[topic]].store.root
        (path,) = folder.glob(f"broker-*/data-*/{topic}-{partition}/*.log")
        data = path.read_bytes()
        at = 12 + struct.unpack_from(">i", data, 8)[0]
        place += at
        _write(path, place, bytes([data[place] ^ mask]))
        try:
            first, more = int(struct.unpack_from(">q", data, at)[0]), int(struct.unpack_from(">i", data, at + 23)[0])
            yield range(first, first + more + 1)
        finally:
            _write(path, place, data[place : place + 1])

    def append(self, topic: str, record: Rec) -> None:
        """Write a batch of one record as it is, whatever its headers are."""
        self.append_batch(topic, 0, checked(batch(0, [record], base_ms=int(time.time() * 1000))))

    def append_batch(self, topic: str, partition: int, data: bytes) -> int:
        """Write a batch as it is; the offset of its first record."""
        return append_batch(self.clusters[self.topics[topic]], TopicPartition(topic, partition), data)

    def committed_chars(self) -> int:
        """The longest metadata of a commit so far."""
        return max((len(c.text) for c in stream_checker.commits(self.servers["a"]) if c.group == self.group), default=0)

    def at_end(self, topic: str, ends: Mapping[int, int]) -> bool:
        """Whether partitions are committed to these ends."""
        found = stream_checker.committed(self.servers[self.topics[topic]], self.group, topic)
        return all(found.get(number, 0) == end for number, end in ends.items())

    def letters(self) -> Iterator[tuple[Spot, int]]:
        """The place of each rejected record, by its dead letter's provenance, and the dead letter's time in ms."""
        return stream_checker.letters(self.servers[self.dlq_on], self.dlq())

    def dlq(self) -> list[str]:
        """The topics of the dead letters."""
        return [segment.topic for lane, segment in self.routes.read().segments() if lane.name == DLQ]

    def handled(self) -> int:
        """How many records were handled so far, in all lives."""
        paths = self.folder.glob("consumer-*.trace")
        return sum(path.read_bytes().count(b"\ndone ") for path in paths)

    def problems(self, word: str) -> bool:
        """Whether any process told of a problem with this word."""
        return any(word in p for life in stream_checker.lives(self.folder) for p in life.problems)

    def revive(self) -> None:
        """Start every worker that was killed."""
        for worker in self.workers:
            if worker.process is not None and worker.process.poll():
                worker.start()

    def drained(self) -> bool:
        """Whether every partition is committed to its end; False while brokers that are back do not lead theirs."""
        from confluent_kafka import KafkaException

        try:
            return all(
                self.at_end(topic, stream_checker.ends(self.servers[name], topic))
                for topic, name in self.topics.items()
            )
        except (KafkaException, OSError):
            return False

    def left(self) -> dict[str, object]:
        """What stands: the ends and commits of partitions that differ, and what each process alive last told."""
        found: dict[str, object] = {}
        for topic, name in self.topics.items():
            ends = stream_checker.ends(self.servers[name], topic)
            commits = stream_checker.committed(self.servers[name], self.group, topic)
            found |= {f"{topic}-{at}": (commits.get(at), end) for at, end in ends.items() if commits.get(at, 0) != end}
        for worker in self.workers:
            if worker.is_alive:
                lines = worker.trace().splitlines()
                found[worker.name] = [each for each in lines if each.startswith(("state", "problem"))][-10:]
        return found

    def finish(self, wait_s: float = WAIT_S) -> Verdict:
        """End producers, wait until all is handled and committed, end consumers, and count."""
        self.revive()
        for worker in self.workers:
            if worker.name.startswith("producer") and worker.is_alive:
                worker.end(wait_s)
        until(self.drained, f"not all is committed: {self.printed()}", wait_s, seen=self.left)
        for worker in self.workers:
            if worker.is_alive:
                worker.end(wait_s)
        return self.verdict()

    def verdict(self) -> Verdict:
        """Count what was done so far."""
        return stream_checker.check(
            self.folder, self.servers, topics=self.topics, dlq=self.dlq(), group=self.group, is_rejected=is_rejected,
            is_compacted="compact" in self.configs.get("cleanup.policy", ""), kept=self.kept,
        )  # fmt: skip

    def printed(self) -> str:
        """The end of what the processes printed."""
        return (self.folder / "output").read_text(errors="replace")[-2_000:]

    def stop(self) -> None:
        """Leave no process behind."""
        for worker in self.workers:
            worker.kill()
        self.output.close()

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _write(path: Path, place: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(data)
