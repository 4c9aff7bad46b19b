"""Producers and consumers of a stream killed at random while clusters hang and die: what is lost, and what comes twice.

Run: python bench/streams_campaign.py [--minutes 10] [--seed 1] [--rate 300] [--only bombs]

Two sandbox clusters of one broker each. An episode is a stream of its own with two producers and three consumers, in
processes of their own, one of each with a wall clock that jumps; its mode, kind of handler, codec, guard, partitions
and whether its topics are compacted are chosen at random. Some faults follow at random: processes killed with SIGKILL
together, the route moved to the other cluster, a cluster stopped with SIGSTOP and continued, or killed and started
again, its controller killed, the control store taken away, also while clients start, a dependency down. Then all of
them run to the end, and `tests/rigs/stream_checker.py`, which shares no code with the client, counts. Prints one JSON
object.

In one of four episodes (`--only bombs`: in all of them) batches of 18 to 80 MiB lie among the records, in all
codecs. An operator scans for them and copies them into files while consumers run and are killed, is refused to commit
for a group that has members, and once all are dead has the group pass a bomb. Each record of a bomb must be handled, be
a dead letter, be within the note of a batch that was left out, or be in the files of the operator as it was written.
"""

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from machine import shape
from sandboxes import start_cluster

sys.path.insert(0, str(Path(__file__).parent.parent))

from kafkakit.streams.model.log_batches import Codec
from kafkakit.streams.model.route import LIVE, SegmentState
from tests.integration.conftest import Home, SandboxCluster
from tests.rigs.bombs import CODECS as BOMB_CODECS
from tests.rigs.bombs import numbered_batch
from tests.rigs.stream_checker import Spot
from tests.rigs.stream_world import World
from tests.rigs.waiting import until

GOAL = {"problems": 0}
FAULTS = ("kill", "kill", "kill", "move", "hang", "die", "store", "birth", "outage", "controller")
MODES = ("key", "unordered", "partition")
HANDLERS = ("handler", "batch_handler", "async_handler")
CODECS = ("zstd", "snappy", "lz4", "gzip", "none")
BOMB_FAULTS = ("bomb", "bomb", "scan", "quarantine", "pass", "kill", "kill", "move", "hang", "die")
BOMB_BYTES, BOMB_RECORDS = 512 << 10, {Codec.SNAPPY: 36, Codec.ZSTD: 160}
"""Of others 48. Snappy's have to stay below `max.message.bytes`, and zstd's are more than librdkafka takes."""
OPERATORS = ("bomb", "scan", "quarantine", "pass")
COMPACTED = {
    "cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "0",
    "max.compaction.lag.ms": "1000",
}  # fmt: skip


class Bomb(NamedTuple):
    """A batch that becomes large, and where it lies."""

    topic: str
    partition: int
    offset: int
    numbers: range
    data: bytes


class Operator:
    """Writes bombs, and runs the commands against them; what is wrong is in `problems`."""

    def __init__(self, world: World, chosen: random.Random, first: int) -> None:
        self.world, self.chosen, self.next = world, chosen, first
        self.bombs, self.problems, self.counts = list[Bomb](), list[str](), Counter[str]()
        self.files = world.folder / "kept"

    def bomb(self) -> Bomb:
        """One more, where records are written now; it is in the ledger as what a producer had acknowledged."""
        codec = self.chosen.choice(BOMB_CODECS)
        numbers = range(self.next, self.next + BOMB_RECORDS.get(codec, 48))
        self.next = numbers.stop
        data = numbered_batch(numbers, BOMB_BYTES, codec, at_ms=int(time.time() * 1000))
        lane = self.world.routes.read().lane(LIVE)
        (topic,) = (each.topic for each in lane.segments if each.state is SegmentState.ACTIVE) if lane else ()
        partition = self.chosen.randrange(self.world.partitions)
        offset = self.world.append_batch(topic, partition, data)
        with (self.world.folder / "producer-bombs-1.trace").open("a") as trace:
            for at, number in enumerate(numbers):
                trace.write(f"sent {number}\nacked {number} {topic} {partition} {offset + at}\n")
        self.counts[f"bombs_{codec.name.lower()}"] += 1
        self.bombs.append(Bomb(topic, partition, offset, numbers, data))
        return self.bombs[-1]

    def run(self, topic: str, *words: str) -> "subprocess.CompletedProcess[str]":
        profile = self.world.clusters[self.world.topics[topic]].name
        command = [sys.executable, "-m", "kafkakit", "--profile", profile, "-o", "json", "streams", "bombs", *words]
        return subprocess.run(
            [*command, "--limit", "12MiB"], env=self.world.env, capture_output=True, text=True, check=False, timeout=300
        )

    def scan(self) -> None:
        """It finds exactly the bombs of a topic."""
        topic = self.chosen.choice(self.bombs).topic
        ran, wanted = self.run(topic, "scan", topic), {(b.partition, b.offset) for b in self.bombs if b.topic == topic}
        found = (
            {(b["partition"], b["offset"]) for b in json.loads(ran.stdout)["listed"]} if ran.returncode == 1 else None
        )
        self.counts["scans"] += 1
        if found != wanted:
            self.problems.append(f"scan of {topic}: {found}, not {wanted}: {ran.returncode} {ran.stderr[-300:]}")

    def quarantine(self) -> None:
        """It copies all bombs of a topic while consumers run, and no commit is made for their group meanwhile."""
        bomb = self.chosen.choice(self.bombs)
        ran = self.run(bomb.topic, "quarantine", bomb.topic, "--out-path", str(self.files), "--yes")
        self.counts["quarantines"] += 1
        if ran.returncode:
            self.problems.append(f"quarantine of {bomb.topic}: {ran.returncode} {ran.stderr[-300:]}")
        for each in self.bombs:
            if each.topic == bomb.topic and not ran.returncode:
                self.compare(each)
        if self.world.at_work() and all(worker.is_alive for worker in self.world.workers):
            self.counts["refused_with_members"] += 1
            if not (ran := self.commit(bomb)).returncode:
                self.problems.append(f"{bomb.topic}: a group with members was committed for: {ran.stdout[-300:]}")

    def commit(self, bomb: Bomb) -> "subprocess.CompletedProcess[str]":
        where = ["--partition", str(bomb.partition), "--offsets", str(bomb.offset), "--out-path", str(self.files)]
        return self.run(bomb.topic, "quarantine", bomb.topic, *where, "--group", self.world.group, "--yes")

    def passes(self) -> None:
        """All consumers die, a bomb comes, and the group, once its sessions are over, is made to pass it unread."""
        for worker in self.world.workers:
            if worker.name.startswith("consumer"):
                worker.kill()
        bomb, until = self.bomb(), time.monotonic() + 120
        while (ran := self.commit(bomb)).returncode and time.monotonic() < until:
            if "the group committed nothing there" in ran.stderr:  # there is nothing to edit: consumers get the bomb
                self.counts["refused_without_commit"] += 1
                return
            time.sleep(1)
        self.counts["passed_by_operator"] += 1
        if ran.returncode:
            self.problems.append(f"the group cannot be made to pass {bomb.topic}: {ran.stderr[-300:]}")
            return
        self.compare(bomb)
        for at, number in enumerate(bomb.numbers):
            self.world.kept[Spot(bomb.topic, bomb.partition, bomb.offset + at)] = number

    def compare(self, bomb: Bomb) -> None:
        """The file of a bomb is the batch as it was written, but for the offset and the epoch that brokers gave it."""
        cluster = self.world.clusters[self.world.topics[bomb.topic]].cluster_id
        path = self.files / cluster / f"{bomb.topic}-{bomb.partition}" / f"{bomb.offset:020}.log"
        found = path.read_bytes() if path.exists() else b""
        if found[16:] != bomb.data[16:] or int.from_bytes(found[:8]) != bomb.offset:
            self.problems.append(f"{path} has {len(found)} bytes, not the batch of {len(bomb.data)}")

    def act(self, kind: str) -> None:
        """One of its kinds of work."""
        {"bomb": self.bomb, "scan": self.scan, "quarantine": self.quarantine, "pass": self.passes}[kind]()


def fault(world: World, chosen: random.Random, kind: str) -> None:
    """One fault, for some seconds; what was killed is started again after it."""
    with ExitStack() as stack:
        if kind == "move":
            world.move(chosen.choice("ab"))
        elif kind == "hang":
            stack.enter_context(world.hung(*chosen.choice(("a", "b", "ab"))))
        elif kind == "die":
            stack.enter_context(world.gone(chosen.choice("ab")))
        elif kind == "controller":
            stack.enter_context(world.controller_gone(chosen.choice("ab")))
        elif kind in ("store", "birth"):
            stack.enter_context(world.store_away())
        elif kind == "outage":
            world.outage.touch()
            stack.callback(world.outage.unlink)
        time.sleep(chosen.uniform(0.5, 3))
        if kind == "kill" or chosen.random() < 0.5:
            world.kill_some(chosen)
        if kind == "birth":  # clients are started while their store is away
            world.kill_some(chosen)
            world.revive()
        time.sleep(chosen.uniform(0.5, 12 if kind in ("hang", "die", "controller") else 3))
    world.revive()


def episode(
    clusters: dict[str, SandboxCluster], folder: Path, chosen: random.Random, rate: int, bombs_from: int = 0
) -> tuple[Counter[str], list[str]]:
    """One stream, some faults; its counts and problems. With `bombs_from` there are bombs, with numbers from there."""
    counts: Counter[str] = Counter()
    configs = COMPACTED if chosen.random() < 0.2 and not bombs_from else {}
    partitions = chosen.choice((1, 3, 12))
    with World(
        clusters=clusters, folder=folder, dlq_on=chosen.choice("ab"), partitions=partitions, configs=configs
    ) as world:
        mode, codec, handler = chosen.choice(MODES), chosen.choice(CODECS), chosen.choice(HANDLERS)
        counts.update([mode, codec, handler, *(["compacted"] if configs else [])])
        given: dict[str, Any] = {"mode": mode, "handler": handler, "strict": chosen.random() < 0.5}
        counts["strict"] += given["strict"]
        if mode == "partition":  # one record after another, with the waits of those that fail
            rate = min(rate, 20 * partitions)
        world.add("producer", per_s=rate, compression=codec)
        world.add("producer", per_s=rate, compression=codec, jumps=True)
        world.add("consumer", 2, **given)
        # A commit that is short of space leaves out what an operator marked as done, and it is handled.
        limits = (4095, 60_000) if bombs_from else (64, 200, 4095, 60_000)
        world.add("consumer", **given, jumps=True, limit_chars=chosen.choice(limits))
        until(lambda: world.handled() > 50, "nothing is handled")
        operator = Operator(world, chosen, bombs_from)
        for kind in (*(["bomb"] if bombs_from else []), *_chosen_faults(chosen, bool(bombs_from))):
            counts[kind] += 1
            if kind in OPERATORS:
                operator.act(kind)
                world.revive()
            else:
                fault(world, chosen, kind)
        counts += operator.counts
        try:
            verdict = world.finish(300)
        except AssertionError as error:
            return counts, [f"{folder.name}: {problem}" for problem in (*operator.problems, error)]
    found = {name: getattr(verdict, name) for name in verdict.__slots__ if name != "problems"}
    counts.update({name: value for name, value in found.items() if name != "longest_chars"})
    return counts, [f"{folder.name}: {problem}" for problem in (*operator.problems, *verdict.problems)]


def _chosen_faults(chosen: random.Random, has_bombs: bool) -> list[str]:
    count = chosen.randint(4, 8) if has_bombs else chosen.randint(3, 6)
    return [chosen.choice(BOMB_FAULTS if has_bombs else FAULTS) for _ in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=300, help="records a second of each of the two producers")
    parser.add_argument("--only", choices=("bombs",), help="only episodes of this kind")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    chosen, until_s = random.Random(asked.seed), time.monotonic() + 60 * asked.minutes
    folder = Path(tempfile.mkdtemp(prefix="streams-campaign-"))
    home = Home(folder=folder, cache=Path.home() / ".cache" / "kafkakit")
    counts, problems = Counter[str](), list[str]()
    with ExitStack() as stack:
        clusters = {}
        for name in "ab":
            clusters[name] = start_cluster(home, name)
            stack.callback(clusters[name].down)
        while time.monotonic() < until_s:
            counts["episodes"] += 1
            number = counts["episodes"]
            bombs_from = 1_000_000_000 + 1_000_000 * number if asked.only or number % 4 == 0 else 0
            counts["episodes_with_bombs"] += bool(bombs_from)
            found, wrong = episode(clusters, folder / f"episode-{number}", chosen, asked.rate, bombs_from)
            counts += found
            problems += wrong
            print(f"episode {counts['episodes']}: {dict(found)} {wrong}", file=sys.stderr, flush=True)
    if not problems:
        shutil.rmtree(folder, ignore_errors=True)
    result = {"seed": asked.seed, **counts, "problems": problems, "goal": GOAL, "machine": shape()}
    print(json.dumps(result, indent=2))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
