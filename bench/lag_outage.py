"""Record what the lag service exports while a consumer dies and a broker is away: input for promtool's tests.

Run: python bench/lag_outage.py; its series are those of tests/cases/prometheus/outage.test.yaml
Or: python bench/lag_outage.py --minutes 20 [--seed 1], which judges the service beside random faults

A sandbox of three brokers, a topic that is written to all the time, and one group that is caught up. At 2 min the
consumer dies, at 6 min it is back, at 8 min all brokers are killed, at 11 min they are started, one after the other;
the service is asked every 15 s for 13 min. Prints `input_series` with one value a look, for promtool.

With --minutes brokers, also two or all three of them, and the controller are killed, stopped and started again at
random, while `/metrics` is asked each second. Three groups have a lag that is known from what their clients sent and
had acknowledged (`Ledger`, which shares no code with the service): a member that stays 50 records behind, a group that
never commits again, and one whose topic nobody writes to. A figure must be true at some moment between its own
`as_of` and the answer; what is not known must be absent and counted as stale or unknown, or the cluster not carried;
and after each fault all of it must be known again. Prints one JSON object, and exits 1 with its `problems`.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from machine import resident_mib, shape
from sandboxes import new_home, start_cluster

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

STEP_S = 15
DIES_S, BACK_S, KILLED_S, RETURNS_S, END_S = 120, 360, 480, 660, 780
PORT = 19105
KEPT = ("status", "lost_records", "backlog_low_seconds", "monitor_live", "commits_as_of_timestamp_seconds", "carried",
        "instances", "records")  # fmt: skip
SAMPLE = re.compile(r"(kafkakit_lag_(\w+))(\{[^}]*\})? (\S+)")


class Traffic:
    """One record every 200 ms, and a consumer that commits all of them each 5 s while it lives."""

    def __init__(self, servers: str) -> None:
        from confluent_kafka import Consumer, Producer

        self.servers, self.ended, self.written = servers, threading.Event(), 0
        self.producer = Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
        self.committer = Consumer({"bootstrap.servers": servers, "group.id": "billing", "log_level": 0})
        self.lives = True
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self.write, self.commit)]
        for thread in self.threads:
            thread.start()

    def write(self) -> None:
        while not self.ended.wait(0.2):
            self.producer.produce("orders", b"x", partition=0, on_delivery=self.told)
            self.producer.poll(0)

    def told(self, error: object, message: object) -> None:
        self.written += error is None

    def commit(self) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        while not self.ended.wait(5):
            if self.lives:
                try:
                    self.committer.commit(offsets=[TopicPartition("orders", 0, self.written)], asynchronous=False)
                except KafkaException as error:
                    print(f"commit: {error}", file=sys.stderr)


def looked(since: float) -> dict[str, str]:
    """The values of all series that are kept; times are seconds from the beginning."""
    try:
        text = urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=10).read().decode()
    except OSError:
        return {}
    found = {}
    for line in text.splitlines():
        match = SAMPLE.fullmatch(line)
        if match and match[2] in KEPT:
            value = float(match[4])
            if match[2].endswith("_timestamp_seconds") and value:
                value = max(0.0, value - since)
            found[match[1] + (match[3] or "")] = f"{value:.10g}"
    return found


def told(value: str | None, before: str | None) -> str:
    """A sample in promtool's words: a series that goes away is marked stale, as Prometheus does."""
    return value or ("_" if before is None else "stale")


def record() -> None:
    """The 13 minutes."""
    home = Path(tempfile.mkdtemp(prefix="kafkakit-bench-"))
    env = os.environ | {
        "XDG_STATE_HOME": f"{home}/state", "XDG_CONFIG_HOME": f"{home}/config", "KAFKAKIT_LOCK_DIR": f"{home}/locks"
    }  # fmt: skip
    kit = [sys.executable, "-m", "kafkakit", "--profile", "outage"]

    def run(*words: str) -> None:
        subprocess.run([sys.executable, "-m", "kafkakit", *words], env=env, check=True, stdout=sys.stderr)

    run("sandbox", "up", "--brokers", "3", "--name", "outage")
    service = None
    try:
        from confluent_kafka.admin import AdminClient, NewTopic

        (profile,) = (home / "config").rglob("outage.yaml")
        servers = re.search(r"bootstrap_servers?: *[\"']?([^\s\"']+)", profile.read_text())[1]  # type: ignore[index]
        admin = AdminClient({"bootstrap.servers": servers})
        for made in admin.create_topics([NewTopic("orders", 1, 3)]).values():
            made.result()
        traffic = Traffic(servers)
        service = subprocess.Popen([*kit, "streams", "lag", "serve", "--listen", f"127.0.0.1:{PORT}"], env=env)
        time.sleep(30)
        looks, began, since = [], time.monotonic(), time.time()
        plan = {DIES_S: "dies", BACK_S: "back", KILLED_S: "kill", RETURNS_S: "restart"}
        for second in range(0, END_S + 1, STEP_S):
            time.sleep(max(0.0, began + second - time.monotonic()))
            looks.append(looked(since))
            if second in plan:
                what = plan[second]
                print(f"{second} s: {what}", file=sys.stderr, flush=True)
                traffic.lives = what != "dies"
                for broker in ("1001", "1002", "1003") if what in ("kill", "restart") else ():
                    run("sandbox", what, broker, "--name", "outage")
        traffic.ended.set()
    finally:
        if service is not None:
            service.terminate()
            service.wait()
        run("sandbox", "down", "--name", "outage")
    names = sorted({name for look in looks for name in look})
    print("# Recorded by bench/lag_outage.py: see there for what happened when.\ninput_series:")
    for name in names:
        values = " ".join(told(look.get(name), before.get(name)) for before, look in pairwise([{}, *looks]))
        print(f"  - series: {json.dumps(name)}\n    values: {json.dumps(values)}")


PARTITIONS, BEHIND, EVERY_S = 6, 50, 0.1
STANDS, IDLE, IDLE_AT = 30, 40, 25
OLDEST_LIVE_S, OLDEST_S, LIVE_S, SLACK_S, KNOWN_AGAIN_S = 18.0, 63.0, 13.0, 2.0, 90.0
"""A monitor is not live once commits are not known for 10 s, or an end for 15 s; a figure is left out once it is older
than 60 s. A table is published for a second; the rest is for a machine with other work."""
WRONG_STATUS = (5.0, 6.0, 8.0)  # rewind, lost, ahead: nothing of that kind happens
PLACES = tuple(("orders", number) for number in range(PARTITIONS)) + tuple(("idle", n) for n in range(PARTITIONS))
TOPIC_OF = {"billing": "orders", "archive": "orders", "quiet": "idle"}
FAULTS = ("one", "one", "two", "two", "all", "restart", "controller", "controller-and-one", "hang", "blink")


class Ledger:
    """What is certain about ends and commits at any moment: they are monotone, and each is known from and up to."""

    def __init__(self) -> None:
        self.sent: dict[tuple[str, int], list[float]] = {place: [] for place in PLACES}
        self.acked: dict[tuple[str, int], list[float]] = {place: [] for place in PLACES}
        self.started: dict[tuple[str, int], tuple[list[float], list[int]]] = {}
        self.ended: dict[tuple[str, int], tuple[list[float], list[int]]] = {}
        for group in TOPIC_OF:
            for number in range(PARTITIONS):
                self.started[group, number], self.ended[group, number] = ([], []), ([], [])

    def commit(self, group: str, offsets: dict[int, int], call: Callable[[], object]) -> bool:
        """Note a commit around its call; one that fails may have been written."""
        now_s = time.time()
        for number, offset in offsets.items():
            _note(self.started[group, number], now_s, offset)
        try:
            call()
        except Exception:  # of librdkafka, whatever it is
            return False
        now_s = time.time()
        for number, offset in offsets.items():
            _note(self.ended[group, number], now_s, offset)
        return True

    def lags(self, group: str, number: int, from_s: float, to_s: float) -> tuple[int, int]:
        """The least and the most that the lag of a partition can have been within a time."""
        place = TOPIC_OF[group], number
        low_end, high_end = bisect_right(self.acked[place], from_s), bisect_right(self.sent[place], to_s)
        low, high = _last(self.ended[group, number], from_s), _last(self.started[group, number], to_s)
        return max(0, low_end - high), high_end - low

    def ages(self, group: str, number: int, from_s: float, to_s: float) -> tuple[float, float]:
        """The least and the most that the age of the oldest record that is not done can have been within a time."""
        sent = self.sent[TOPIC_OF[group], number]
        low, high = _last(self.ended[group, number], from_s), _last(self.started[group, number], to_s)
        least = max(0.0, from_s - sent[high]) if high < len(sent) else 0.0
        return least, max(0.0, to_s - sent[low]) if low < len(sent) else 0.0

    def exact(self, group: str, number: int) -> int:
        """The lag once nothing is under way."""
        return len(self.acked[TOPIC_OF[group], number]) - self.ended[group, number][1][-1]


def _note(into: tuple[list[float], list[int]], at_s: float, offset: int) -> None:
    into[1].append(offset)
    into[0].append(at_s)


def _last(noted: tuple[list[float], list[int]], at_s: float) -> int:
    count = bisect_right(noted[0], at_s)
    return noted[1][count - 1] if count else 0


class Clients:
    """The producer and the groups, each in a thread of its own until `ended`."""

    def __init__(self, servers: str, ledger: Ledger) -> None:
        from confluent_kafka import Producer

        self.servers, self.ledger, self.ended, self.failed = servers, ledger, threading.Event(), Counter[str]()
        self.errors: list[str] = []
        self.quiet: dict[str, Any] = {"bootstrap.servers": servers, "log_level": 0, "error_cb": lambda error: None}
        # Records are never given up, so that what was sent is what is or will be there.
        self.producer = Producer(
            {**self.quiet, "acks": "all", "enable.idempotence": True, "message.timeout.ms": 0, "linger.ms": 5}
        )

    def begin(self) -> None:
        """The groups that stand still commit once; then the others begin."""
        for topic, count in (("orders", 2 * STANDS), ("idle", IDLE)):
            for _ in range(count):
                self.send(topic)
        self.producer.flush(60)
        for group, offset in (("archive", STANDS), ("quiet", IDLE_AT), ("billing", 0)):
            self.committed(group, self.loner(group), dict.fromkeys(range(PARTITIONS), offset))
        self.threads = [
            threading.Thread(target=self.kept, args=(work,), daemon=True) for work in (self.write, self.read)
        ]
        for thread in self.threads:
            thread.start()

    def kept(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self.errors.append(f"{work.__name__}: {error!r}")

    def loner(self, group: str) -> Any:
        from confluent_kafka import Consumer

        return Consumer({**self.quiet, "group.id": group})

    def send(self, topic: str) -> None:
        for number in range(PARTITIONS):
            self.ledger.sent[topic, number].append(time.time())
            self.producer.produce(topic, b"x" * 100, partition=number, on_delivery=self.told)
        self.producer.poll(0)

    def told(self, error: Any, message: Any) -> None:
        if error is not None:
            self.errors.append(f"a record was given up: {error}")
        self.ledger.acked[message.topic(), message.partition()].append(time.time())

    def write(self) -> None:
        while not self.ended.wait(EVERY_S):
            self.send("orders")
        self.producer.flush(120)

    def committed(self, group: str, consumer: Any, offsets: dict[int, int]) -> bool:
        from confluent_kafka import TopicPartition

        places = [TopicPartition(TOPIC_OF[group], number, offset) for number, offset in offsets.items()]
        return self.ledger.commit(group, offsets, lambda: consumer.commit(offsets=places, asynchronous=False))

    def read(self) -> None:
        """A member of `billing`, which commits each second what it read but for the last `BEHIND` records."""
        from confluent_kafka import Consumer

        settings = {"group.id": "billing", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        consumer = Consumer({**self.quiet, **settings, "session.timeout.ms": 10_000})
        consumer.subscribe(["orders"])
        seen, next_s = dict.fromkeys(range(PARTITIONS), 0), 0.0
        while not self.ended.is_set():
            for message in consumer.consume(500, 0.2):
                if message.error() is None:
                    seen[message.partition()] = max(seen[message.partition()], message.offset() + 1)
            if time.monotonic() > next_s:
                next_s = time.monotonic() + 1
                done = {number: self.ledger.started["billing", number][1][-1] for number in seen}
                new = {number: max(done[number], at - BEHIND) for number, at in seen.items()}
                self.failed["commits" if self.committed("billing", consumer, new) else "failed_commits"] += 1
        while not self.committed("billing", consumer, new):
            time.sleep(1)
        consumer.close()


Look = dict[tuple[str, str, str, int], float]
LABEL = re.compile(r'(\w+)="([^"]*)"')


def asked(port: int) -> Look:
    """Series by name, group, topic and partition (-1 for none); empty where the service does not answer."""
    try:
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20).read().decode()
    except OSError:
        return {}
    found: Look = {}
    for line in text.splitlines():
        if match := SAMPLE.fullmatch(line):
            labels = dict(LABEL.findall(match[3] or ""))
            key = match[2], labels.get("group", ""), labels.get("topic", ""), int(labels.get("partition", -1))
            found[key] = float(match[4])
    return found


class Judge:
    """Compares each look with the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.counts, self.problems = ledger, Counter[str](), list[str]()
        self.slack_s, self.oldest_s = 0.0, {True: 0.0, False: 0.0}

    def look(self, port: int) -> Look:
        """Ask and judge; what was found."""
        from_s = time.time()
        found = asked(port)
        to_s = time.time()
        self.counts["looks"] += 1
        if not found:
            self.problem("the service does not answer")
            return found
        live = found.get(("monitor_live", "", "", -1), 0.0)
        self.counts["looks_live" if live else "looks_not_live"] += 1
        behind_s = from_s - found.get(("commits_as_of_timestamp_seconds", "", "", -1), 0.0)
        if live and behind_s > LIVE_S:
            self.problem(f"live, and commits are known up to {behind_s:.1f} s ago only")
        for group, topic in TOPIC_OF.items():
            self.group(found, group, topic, from_s, to_s)
        return found

    def group(self, found: Look, group: str, topic: str, from_s: float, to_s: float) -> None:
        """The figures of one group, and that what is not there is called unknown."""
        status = found.get(("status", group, topic, -1))
        as_of_s = found.get(("as_of_timestamp_seconds", group, topic, -1))
        records = found.get(("records", group, topic, -1))
        if status in WRONG_STATUS:
            self.problem(f"{group}: status {status}")
        if found.get(("lost_records", group, topic, -1)):
            self.problem(f"{group}: lost records")
        if records is None:
            self.absent(found, group, topic)
        else:
            self.shown(found, group, topic, as_of_s, from_s, to_s)

    def absent(self, found: Look, group: str, topic: str) -> None:
        counts = [found.get((name, group, topic, -1), 0.0) for name in ("stale_partitions", "unknown_partitions")]
        carried = found.get(("carried", "", "", -1), 0.0)
        reason = "not_carried" if not carried else "marked" if any(counts) else "without_a_mark"
        self.counts[f"absent_{reason}"] += 1
        if reason == "without_a_mark":
            self.problem(f"{group}: no figure, and no mark: live {found.get(('monitor_live', '', '', -1))}")

    def shown(self, found: Look, group: str, topic: str, as_of_s: float | None, from_s: float, to_s: float) -> None:
        self.counts["shown"] += 1
        if as_of_s is None:
            self.problem(f"{group}: a figure without its time")
            return
        is_live, old_s = bool(found.get(("monitor_live", "", "", -1))), from_s - as_of_s
        self.counts["shown_while_not_live"] += not is_live
        self.oldest_s[is_live] = max(self.oldest_s[is_live], old_s)
        if old_s > (OLDEST_LIVE_S if is_live else OLDEST_S):
            self.problem(f"{group}: a figure {old_s:.1f} s old is shown, live {is_live}")
        records = found["records", group, topic, -1]
        sums = [self.ledger.lags(group, number, as_of_s - SLACK_S, to_s) for number in range(PARTITIONS)]
        self.within(f"{group}: records", records, sum(s[0] for s in sums), sum(s[1] for s in sums))
        for number in range(PARTITIONS):
            lag = found.get(("partition_records", group, topic, number))
            if lag is None:
                continue
            self.counts["partitions_shown"] += 1
            self.needs(group, number, lag, as_of_s, to_s)
            self.within(f"{group}-{number}", lag, *self.ledger.lags(group, number, as_of_s - SLACK_S, to_s))
            low = found.get(("partition_backlog_low_seconds", group, topic, number))
            high = found.get(("partition_backlog_high_seconds", group, topic, number))
            least, most = self.ledger.ages(group, number, as_of_s - SLACK_S, to_s)
            if low is not None and low > most + SLACK_S:
                self.problem(f"{group}-{number}: backlog at least {low:.1f} s, is at most {most:.1f} s")
            if high is not None and high < least - SLACK_S:
                self.problem(f"{group}-{number}: backlog at most {high:.1f} s, is at least {least:.1f} s")

    def needs(self, group: str, number: int, lag: float, as_of_s: float, to_s: float) -> None:
        """How much earlier than it says a figure was true, if it was."""
        for slack_s in (0.0, 0.1, 0.2, 0.5, 1.0, 2.0):
            low, high = self.ledger.lags(group, number, as_of_s - slack_s, to_s)
            if low <= lag <= high:
                self.slack_s = max(self.slack_s, slack_s)
                self.counts["earlier_than_told"] += slack_s > 0
                return

    def within(self, what: str, value: float, low: int, high: int) -> None:
        if not low <= value <= high:
            self.problem(f"{what}: {value:g}, is from {low} to {high}")

    def problem(self, text: str) -> None:
        self.counts["problems"] += 1
        if len(self.problems) < 40:
            self.problems.append(f"{time.strftime('%H:%M:%S')} {text}")
            print(f"PROBLEM {text}", file=sys.stderr, flush=True)


class Faults:
    """Kills and starts brokers and the controller of a sandbox."""

    def __init__(self, cluster: Any, chosen: random.Random) -> None:
        self.cluster, self.chosen, self.counts = cluster, chosen, Counter[str]()

    def one(self) -> None:
        """A fault, for some seconds; all processes run and are registered at its end."""
        kind = self.chosen.choice(FAULTS)
        self.counts[kind] += 1
        count = {"two": 2, "all": 3}.get(kind, 1)
        brokers = self.chosen.sample(self.cluster.broker_ids, count)
        away_s = self.chosen.uniform(3, 40)
        print(f"{time.strftime('%H:%M:%S')} {kind} {brokers} {away_s:.0f} s", file=sys.stderr, flush=True)
        with ExitStack() as stack:
            if kind.startswith("controller"):
                stack.callback(self.start_controller)
                self.kill_controller()
            if kind == "restart":  # one after another, as a rolling restart does
                for broker in self.cluster.broker_ids:
                    self.cluster.restart(broker)
            elif kind == "hang":
                stack.enter_context(self.cluster.hung(*brokers))
                time.sleep(away_s)
            elif kind == "blink":
                self.cluster.kill(brokers[0])
            else:
                for broker in brokers if kind != "controller" else ():
                    self.cluster.kill(broker)
                    time.sleep(self.chosen.choice((0, 0, 3)))
                time.sleep(away_s)
        self.cluster.revive()

    def _record(self, index: int) -> Any:
        from kafkakit.sandbox import lifecycle

        return lifecycle.load_state(self.cluster.store).nodes[index]

    def kill_controller(self) -> None:
        self.cluster.machine.processes.kill([self._record(0).process])

    def start_controller(self) -> None:
        from kafkakit.sandbox import lifecycle

        state = lifecycle.load_state(self.cluster.store)
        self.cluster.state = lifecycle.start_node(self.cluster.machine, self.cluster.store, state, state.nodes[0].node)


def known(found: Look, since_s: float) -> bool:
    """Whether all groups have figures of after a moment."""
    return bool(found.get(("monitor_live", "", "", -1))) and all(
        found.get(("as_of_timestamp_seconds", group, topic, -1), 0.0) > since_s
        and ("records", group, topic, -1) in found
        and not found.get(("stale_partitions", group, topic, -1))
        and not found.get(("unknown_partitions", group, topic, -1))
        for group, topic in TOPIC_OF.items()
    )


class Campaign:
    """Looks each second from a thread, while faults come one after another."""

    def __init__(self, cluster: Any, judge: Judge, port: int) -> None:
        self.cluster, self.judge, self.port = cluster, judge, port
        self.ended, self.found, self.again_s = threading.Event(), Look(), list[float]()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def watch(self) -> None:
        while not self.ended.wait(1.0):
            self.found = self.judge.look(self.port)

    def known_again(self, limit_s: float = KNOWN_AGAIN_S) -> None:
        """Wait until all is known as of now."""
        since_s, began = time.time(), time.monotonic()
        while not known(self.found, since_s) and time.monotonic() < began + 3 * limit_s:
            time.sleep(0.2)
        self.again_s.append(round(time.monotonic() - began, 1))
        if self.again_s[-1] > limit_s:
            self.judge.problem(f"after {self.again_s[-1]} s not all is known again: {self.found}")

    def play(self, faults: Faults, minutes: float, service: "subprocess.Popen[bytes]") -> None:
        until = time.monotonic() + 60 * minutes
        while time.monotonic() < until and service.poll() is None:
            faults.one()
            self.known_again()
            time.sleep(faults.chosen.uniform(0, 15))


def truths_read(servers: str, ledger: Ledger) -> list[str]:
    """Where ends and commits that are read from the brokers differ from the ledger at the end."""
    from confluent_kafka import Consumer, TopicPartition

    wrong = []
    for group, topic in TOPIC_OF.items():
        reader = Consumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})
        for place in reader.committed([TopicPartition(topic, n) for n in range(PARTITIONS)], timeout=30):
            end = reader.get_watermark_offsets(TopicPartition(topic, place.partition), timeout=30)[1]
            if end - place.offset != ledger.exact(group, place.partition):
                wrong.append(f"the ledger of {group}-{place.partition} is wrong: {place.offset} of {end}")
        reader.close()
    return wrong


def settled(campaign: Campaign, ledger: Ledger) -> list[str]:
    """Where figures differ from what is exactly known once nothing is written any more."""
    until = time.monotonic() + KNOWN_AGAIN_S
    while True:
        wrong = [
            f"at the end {group} has {campaign.found.get(('records', group, topic, -1))}, not {total}"
            for group, topic in TOPIC_OF.items()
            if campaign.found.get(("records", group, topic, -1))
            != (total := sum(ledger.exact(group, number) for number in range(PARTITIONS)))
        ]
        if not wrong or time.monotonic() > until:
            return wrong
        time.sleep(0.5)


def judged(minutes: float, seed: int) -> int:
    """Random faults for so long; 1 with problems."""
    from confluent_kafka.admin import AdminClient, NewTopic

    from kafkakit.adapters.processes import LocalProcesses

    home = new_home("kafkakit-bench-")
    with ExitStack() as stack:
        cluster = start_cluster(home, "outage", brokers=3, racks=3)
        stack.callback(cluster.down)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        for made in admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in ("orders", "idle")]).values():
            made.result()
        ledger, (port,) = Ledger(), LocalProcesses().free_ports(1)
        clients, judge = Clients(cluster.bootstrap_servers, ledger), Judge(ledger)
        clients.begin()
        words = ["streams", "lag", "serve", "--listen", f"127.0.0.1:{port}", "--partition-series", "*"]
        log = stack.enter_context((home.folder / "service.log").open("wb"))
        service = subprocess.Popen(
            [sys.executable, "-m", "kafkakit", "--profile", "outage", *words], env=home.env, stdout=log, stderr=log
        )
        stack.callback(service.wait)
        stack.callback(service.terminate)
        while not asked(port):
            time.sleep(0.5)
        campaign, faults = Campaign(cluster, judge, port), Faults(cluster, random.Random(seed))
        campaign.thread.start()
        campaign.known_again()
        began_mib = resident_mib(service.pid)
        campaign.play(faults, minutes, service)
        clients.ended.set()
        for thread in clients.threads:
            thread.join(180)
        wrong = settled(campaign, ledger)
        campaign.ended.set()
        campaign.thread.join()
        if service.poll() is not None:
            wrong.append(f"the service ended with {service.returncode}")
        ended_mib = 0.0
        with suppress(OSError):
            ended_mib = resident_mib(service.pid)
        wrong += clients.errors + truths_read(cluster.bootstrap_servers, ledger)
    again = sorted(campaign.again_s[1:])
    problems = judge.problems + wrong
    oldest = {name: round(judge.oldest_s[is_live], 1) for name, is_live in (("live", True), ("not_live", False))}
    result = {
        "bench": "lag_outage", "seed": seed, "minutes": minutes, "machine": shape(), "faults": dict(faults.counts),
        "looks": dict(judge.counts), "commits": dict(clients.failed),
        "records": sum(len(found) for found in ledger.acked.values()), "oldest_figure_s": oldest,
        "slack_s": judge.slack_s, "known_again_s": {"median": again[len(again) // 2], "most": again[-1]},
        "resident_mib": [began_mib, ended_mib], "log": str(home.folder / "service.log"), "problems": problems,
    }  # fmt: skip
    print(json.dumps(result, indent=2))
    return int(bool(problems))


def main() -> int:
    about, _, more = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=about, epilog=more, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, help="judge the service beside random faults for so long")
    parser.add_argument("--seed", type=int, default=1, help="of the faults")
    given = parser.parse_args()
    if given.minutes is not None:
        return judged(given.minutes, given.seed)
    record()
    return 0


if __name__ == "__main__":
    sys.exit(main())
