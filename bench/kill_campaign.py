"""Runs killed at random instants on a sandbox of real brokers: what is wrong, left behind or lost afterwards.

Run: python bench/kill_campaign.py [--kills 100] [--seed 1] [--throttle 4MB]

Plans are applied and rolled back, brokers drained, replaced, decommissioned and rejoined. Each command is killed with
SIGKILL at a random instant; after every second kill the journal is damaged, cut short, emptied or removed. From then on
only commands are run that kafkakit printed (`reassign status`, hints), some of which are killed, too, until it has
nothing more to print; without a printed command, the killed one is run again, and counted. A writer with acks=all works
throughout. Lists, throttles and records are then read with confluent-kafka and kafka-python. Prints one JSON object.
"""

import argparse
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from machine import shape

GOAL = {"kills": 100, "wrong_lists": 0, "throttles_left": 0, "records_lost": 0}
TOPIC, PARTITIONS, BROKERS = "campaign", 8, (1001, 1002, 1003, 1004, 1005)
DAMAGES = ("flipped", "cut", "emptied", "removed")
PRINTED = re.compile(r"kafkakit (?:--profile \S+ )?(?:reassign|broker) [^;`()\n]+")
USED = ("resume", "apply", "abort", "rollback", "cleanup", "drain", "replace", "decommission", "rejoin")
TURNS = ("apply", "rollback", "drain", "rejoin", "decommission", "rejoin", "replace", "rejoin")
LIMIT_S = 120
STEPS = 12
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A command that ended, or was killed (`code` None)."""

    words: tuple[str, ...]
    code: int | None
    text: str

    @property
    def verb(self) -> str:
        """What it was to do."""
        return next((w for w in self.words if w in USED), "status")


@dataclass(slots=True)
class Tally:
    """What happened so far."""

    kills: Counter[str] = field(default_factory=Counter)
    damages: Counter[str] = field(default_factory=Counter)
    run_again: int = 0
    commands: int = 0
    episodes: int = 0
    problems: list[str] = field(default_factory=list)


class Campaign:
    """One sandbox, one topic, one writer."""

    def __init__(self, home: Path, seed: int, throttle: str, say: Any) -> None:
        self.home, self.chance, self.throttle, self.say = home, random.Random(seed), throttle, say
        self.env = os.environ | {
            "XDG_STATE_HOME": f"{home}/state",
            "XDG_CONFIG_HOME": f"{home}/config",
            "KAFKAKIT_LOCK_DIR": f"{home}/locks",
            "KAFKAKIT_PROFILE": "campaign",
        }
        self.tally, self.took = Tally(), {"status": 1.0}

    def run(self, *words: str, kill_after_s: float | None = None) -> Ran:
        """Run a command of kafkakit; killed after a time, if it still runs then."""
        self.tally.commands += 1
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "kafkakit", *words], env=self.env, cwd=self.home, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            text, _ = process.communicate(timeout=LIMIT_S if kill_after_s is None else kill_after_s)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            text, _ = process.communicate()
            code = None
        ran = Ran(words=words, code=code, text=text)
        if code == 0:
            self.took[ran.verb] = max(self.took.get(ran.verb, 0.0), time.monotonic() - began)
        return ran

    def must(self, *words: str) -> Ran:
        """Run what has to work for the campaign to continue at all."""
        ran = self.run(*words)
        if ran.code:
            sys.exit(f"kafkakit {shlex.join(words)}: exit {ran.code}\n{ran.text}")
        return ran

    def killed(self, *words: str) -> Ran:
        """Run a command and kill it at a random instant of the time that it takes; damage the journal each 2nd time."""
        verb = next(w for w in words if w in USED)
        ran = self.run(*words, kill_after_s=self.chance.uniform(0.7, max(2.0, 0.9 * self.took.get(verb, 8.0))))
        if ran.code is None:
            self.tally.kills[ran.verb] += 1
            if self.tally.kills.total() % 2:
                self.damage()
        return ran

    def damage(self) -> None:
        """Spoil the newest journal."""
        found = sorted((self.home / "state").rglob("*.journal"), key=lambda p: p.stat().st_mtime)
        if not found:
            return
        path, how = found[-1], DAMAGES[self.tally.damages.total() % len(DAMAGES)]
        data = path.read_bytes()
        self.tally.damages[how] += 1
        if how == "removed":
            path.unlink()
        elif how == "flipped" and data:
            place = self.chance.randrange(len(data))
            path.write_bytes(data[:place] + bytes([data[place] ^ 1 << self.chance.randrange(8)]) + data[place + 1 :])
        else:
            path.write_bytes(data[: self.chance.randrange(len(data))] if how == "cut" and data else b"")

    def finish(self, last: Ran) -> Ran:
        """Run what was printed until nothing more is; returns the last command that changed something."""
        typed = last.words
        for step in range(STEPS):
            status = self.run("reassign", "status")
            # What failed says what to do next, and so does what is part of something greater; else the status does.
            following = last.text if last.code else last.text.partition("\nnext:\n")[2]
            offered = self.offered(following) or self.offered(status.text)
            if status.code == 0 and not offered and last.code == 0:
                return last
            if not offered:
                self.tally.run_again += 1
                offered = [typed]
            words = self.chance.choice(offered)
            words += () if "--yes" in words else ("--yes",)  # the answer to its question
            last = self.killed(*words) if step < 2 and self.chance.random() < 0.5 else self.run(*words)
            self.say(f"    {shlex.join(words)}: {'killed' if last.code is None else last.code}")
            if last.code:
                self.say("      | " + last.text[-600:].replace("\n", "\n      | "))
        self.problem(f"no end after {STEPS} commands", last)
        return last

    def offered(self, text: str) -> list[tuple[str, ...]]:
        """The commands in a text that carry a run on or back."""
        found = {tuple(shlex.split(m.group().rstrip(" .,:"))[1:]) for m in PRINTED.finditer(text)}
        return sorted(w for w in found if any(v in w for v in USED))

    def problem(self, what: str, ran: Ran) -> None:
        """Note what must not be."""
        self.tally.problems.append(f"{what}; {shlex.join(ran.words)} (exit {ran.code}): {ran.text[-1500:]}")
        self.say(f"  PROBLEM {self.tally.problems[-1]}")

    def episode(self, turn: str) -> None:
        """One turn: prepare, kill, finish with what is printed, look at the result."""
        self.tally.episodes += 1
        began, before = time.time(), self.lists()
        pace = ("--yes", "--ingest-sample", "0", "--throttle", self.throttle)
        if turn in ("apply", "rollback"):
            plan = f"plan-{self.tally.episodes}.json"
            onto = ",".join(map(str, sorted(self.chance.sample(BROKERS, 4))))
            words = ("--topics", TOPIC, "--brokers", onto, "--force-rebuild", "--plan", plan, "--out-path", ".")
            self.must("topicmappr", "rebuild", *words)
            if turn == "rollback":
                self.must("reassign", "apply", plan, "--yes", "--ingest-sample", "0")
            last = self.killed("reassign", turn, plan, *pace)
        elif turn == "rejoin":
            last = self.killed("broker", "rejoin", str(self.leaving), "--restore", "last", *pace)
        elif turn == "replace":
            self.leaving = self.chance.choice(BROKERS[3:])  # which share their racks with 1001 and 1002
            self.must("sandbox", "kill", str(self.leaving), "--name", "campaign")
            last = self.killed("broker", "replace", str(self.leaving), "--with", str(self.leaving - 3), *pace)
        else:
            self.leaving = self.chance.choice(BROKERS)
            last = self.killed("broker", turn, str(self.leaving), *pace)
        self.say(f"  {turn} of {self.tally.episodes}: {'killed' if last.code is None else f'ended with {last.code}'}")
        if last.code is None or last.code:
            last = self.finish(last)
        if turn == "replace":
            self.must("sandbox", "restart", str(self.leaving), "--name", "campaign")
        self.judge(last, before, began)

    leaving, since = BROKERS[0], 0.0

    def judge(self, last: Ran, before: Mapping[int, list[int]], began: float) -> None:
        """Compare the cluster with what the commands promised, with other clients than kafkakit's."""
        # What a rejoin takes back is in the plan of the turn before.
        plans = [p for p in self.home.rglob("*.json") if p.stat().st_mtime >= self.since]
        self.since = began
        allowed = {number: [found] for number, found in before.items()}
        for path in plans:
            for move in json.loads(path.read_bytes()).get("moves", ()):
                if move["topic"] == TOPIC:
                    allowed[move["partition"]] += [move["before"], move["after"]]
        now = self.lists()
        for number, found in now.items():
            if found not in allowed[number]:
                self.problem(f"wrong list of {number}: {found}, not in {allowed[number]}", last)
        if last.verb in ("drain", "decommission", "replace") and last.code == 0:
            held = [n for n, found in now.items() if self.leaving in found]
            if held and "rejoin" not in last.words:
                self.problem(f"broker {self.leaving} still holds {held}", last)
        if moving := self.moving():
            self.problem(f"moves in flight: {moving}", last)
        if left := self.throttles():
            self.problem(f"throttles left: {left}", last)

    def connect(self) -> None:
        """Clients that share no code with what is judged."""
        from confluent_kafka.admin import AdminClient
        from kafka.admin import KafkaAdminClient

        (profile,) = (self.home / "config").rglob("campaign.yaml")
        self.servers = re.search(r"bootstrap_servers?: *[\"']?([^\s\"']+)", profile.read_text())[1]  # type: ignore[index]
        self.metadata = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        self.admin = KafkaAdminClient(bootstrap_servers=self.servers.split(","))

    def fill(self) -> None:
        """Make the topic: two copies of each partition, 4 MB in each."""
        from confluent_kafka import Producer
        from confluent_kafka.admin import NewTopic

        for made in self.metadata.create_topics([NewTopic(TOPIC, PARTITIONS, 2)]).values():
            made.result()
        producer = Producer({"bootstrap.servers": self.servers, "acks": "all"})
        for number in range(40 * PARTITIONS):
            producer.produce(TOPIC, bytes(100_000), partition=number % PARTITIONS)
            producer.poll(0)
        producer.flush(120)

    def lists(self) -> dict[int, list[int]]:
        """The replicas of each partition."""
        found = self.metadata.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions
        return {number: list(p.replicas) for number, p in sorted(found.items())}

    def moving(self) -> Any:
        """What Kafka says is in flight."""
        return self.admin.list_partition_reassignments()

    def throttles(self) -> list[str]:
        """Rates and lists that are set."""
        from confluent_kafka.admin import ConfigResource

        wanted = [ConfigResource("TOPIC", TOPIC), *(ConfigResource("BROKER", str(b)) for b in BROKERS)]
        found = []
        for resource in wanted:  # at most one broker a request
            (future,) = self.metadata.describe_configs([resource], request_timeout=30).values()
            for name, entry in future.result().items():
                if name in (*RATES, *LISTS) and not entry.is_default and entry.value:
                    found.append(f"{resource.name}: {name}={entry.value}")
        return sorted(found)


class Writer:
    """Writes with acks=all until it is stopped, and then reads everything back."""

    def __init__(self, servers: str) -> None:
        from confluent_kafka import Producer

        self.servers, self.acknowledged, self.stopped = servers, set[bytes](), threading.Event()
        # No idempotence: a broker that forgot a producer while it was away would end this one.
        self.producer = Producer({"bootstrap.servers": servers, "acks": "all", "linger.ms": 20, "log_level": 0})
        self.thread = threading.Thread(target=self.write)
        self.thread.start()

    def write(self) -> None:
        """Fifty records a second."""
        number = 0
        while not self.stopped.wait(0.02):
            value = b"record %d" % number
            self.producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=self.told)
            self.producer.poll(0)
            number += 1
        self.producer.flush(120)

    def told(self, error: Any, message: Any) -> None:
        """Remember what was acknowledged."""
        if error is None:
            self.acknowledged.add(message.value())

    def lost(self) -> tuple[int, int]:
        """How many acknowledged records cannot be read, of how many."""
        from confluent_kafka import Consumer, TopicPartition

        self.stopped.set()
        self.thread.join()
        settings = {"bootstrap.servers": self.servers, "group.id": "check", "auto.offset.reset": "earliest"}
        reader = Consumer(settings | {"enable.partition.eof": True, "enable.auto.commit": False})
        reader.assign([TopicPartition(TOPIC, n, 0) for n in range(PARTITIONS)])
        missing, ended = set(self.acknowledged), set[int]()
        while len(ended) < PARTITIONS:
            message = reader.poll(60)
            if message is None:
                break
            if message.error():
                ended.add(message.partition())
            else:
                missing.discard(message.value())
        reader.close()
        return len(missing), len(self.acknowledged)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--throttle", default="4MB")
    given = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="kafkakit-bench-"))
    work = Campaign(home, given.seed, given.throttle, lambda line: print(line, file=sys.stderr, flush=True))
    began = time.monotonic()
    try:
        work.must("sandbox", "up", "--brokers", "5", "--racks", "3", "--name", "campaign")
        work.connect()
        work.fill()
        writer = Writer(work.servers)
        try:
            while work.tally.kills.total() < given.kills and not work.tally.problems:
                work.say(f"{work.tally.kills.total()} kills, {len(work.tally.problems)} problems")
                work.episode(TURNS[work.tally.episodes % len(TURNS)])
        finally:
            lost, acknowledged = writer.lost()
    finally:
        work.run("sandbox", "down", "--name", "campaign")
        shutil.rmtree(home, ignore_errors=True)
    tally = work.tally
    figures: dict[str, Any] = {
        "bench": "kill_campaign", "machine": shape(), "goal": GOAL, "seed": given.seed,
        "kills": tally.kills.total(), "kills_by_command": dict(tally.kills), "damaged_journals": dict(tally.damages),
        "episodes": tally.episodes, "commands": tally.commands, "killed_commands_run_again": tally.run_again,
        "records_acknowledged": acknowledged, "records_lost": lost, "problems": tally.problems,
        "seconds": round(time.monotonic() - began),
    }  # fmt: skip
    print(json.dumps(figures))
    sys.exit(1 if tally.problems or lost else 0)


if __name__ == "__main__":
    main()
