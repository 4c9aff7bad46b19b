"""Failovers of a stream under load: how long they take, how long producers wait, what is lost, and what comes twice.

Run: python bench/streams_failover.py [--rounds 3] [--per-s 400] [--cases acknowledged,left,copied,fence,killed,hung].
It begins no further round of a case once the case's share of 400 s is used up.

Three sandbox clusters of one broker each, one of them with an authorizer. In every round a stream of 4 partitions is
created on one cluster; two processes with ten producers each write to it and two consumers read it, as applications
do. Then `kafkakit streams failover run` moves it, as a process of its own:

- `acknowledged`: planned, every producer registers that it has moved;
- `left`, `copied`: planned, with 1,000 dead letters in the lane `dlq`, which stay where they are or are copied;
- `fence`: planned, with an ACL on the old topic; the producers are a user that it denies;
- `killed`, `hung`: consumers are stopped for a second so that records are left behind, then every broker of the old
  cluster gets SIGKILL or SIGSTOP. A probe that asks each broker 5 times a second calls a cluster lost when no broker
  has answered for a second; then the failover runs with `--emergency`. Later the cluster returns, `failover status`
  counts what was stranded, and `failover resume` ends the failover. What had no answer is sent again to the new
  topic, so a cluster that hung may hold it, too: `written_twice` is never above `sent_again`, which producers count.

`moved_ms` is, for each producer, from the route's change until it had its first answer from the new topic and its last
one from the old one. What is lost or comes twice is counted from the clients' traces and from the logs, which are read
with confluent-kafka; what was stranded also from the ends of the old logs and the offsets of the group. Prints JSON.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from machine import shape
from sandboxes import start_cluster

sys.path.insert(0, str(Path(__file__).parent.parent))

from kafkakit.config.security import Security, to_confluent
from kafkakit.core.cluster_facts import AclBinding, AclOperation, AclPermission, AclResourceKind
from kafkakit.sandbox.decide.processes import GUEST
from kafkakit.sandbox.decide.spec import ClientSecurity
from kafkakit.streams.client.connect import ConsumerOptions, ProducerLimits, RejectError, connect
from tests.integration.conftest import Home, SandboxCluster

CASES = ("acknowledged", "left", "copied", "fence", "killed", "hung")
LETTERS = {"left": "leave", "copied": "copy"}
DEAD_LETTERS = 1_000
PARTITIONS, PRODUCERS, PROCESSES = 4, 10, 2
FIRST_NUMBERS = 10_000_000
GROUP = "billing"
LIMIT_S = 120.0
LONGEST_S = 400.0
LOST_AFTER_S, PROBE_S, ANSWER_S = 1.0, 0.2, 0.5
ASKED = {
    "end_to_end_s": 10.0, "moved_p99_ms": 1000.0, "detected_s": 2.0, "flows_after_detection_s": 5.0, "lost": 0,
    "handled_again": "the printed budget or fewer", "written_twice": "sent_again or fewer",
}  # fmt: skip


# -- processes of the application -------------------------------------------------------------------


class Trace:
    """Lines with the time, each written at once."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def __call__(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, (round(time.time() * 1000), *words))) + "\n").encode())


def produce(stream: str, trace: Trace, first: int, per_s: float, ended: threading.Event) -> None:
    """Ten producers, each with an equal part of the rate."""

    def note(name: int, number: int, delivery: Any) -> None:
        if delivery.exception() is None:
            place = delivery.result()
            trace("acked", name, number, place.topic, place.partition, place.offset)
        else:
            trace("failed", name, number)

    with connect() as client:
        producers = [client.producer(stream, limits=ProducerLimits(delivery_s=110)) for _ in range(PRODUCERS)]
        began, sent = time.monotonic(), 0
        while not ended.wait(0.005):
            while sent < (time.monotonic() - began) * per_s:
                name, number = sent % PRODUCERS, first + sent
                delivery = producers[name].send(b"%d" % number, b"%d" % (number % 50))
                delivery.add_done_callback(partial(note, name, number))
                sent += 1
        for producer in producers:
            producer.flush(LIMIT_S)
        trace("again", sum(lane.counters.sent_again for each in producers for lane in each.metrics().lanes))


def consume(stream: str, rejects: int, trace: Trace, ended: threading.Event) -> None:
    """A consumer that notes what it handles, and rejects the first records of each producing process."""

    def handle(record: Any) -> None:
        place, number = record.origin.partition, int(record.value or b"-1")
        trace("done", place.topic, place.partition, record.offset, number)
        if number % FIRST_NUMBERS < rejects:
            raise RejectError("one of the first")

    with connect() as client:
        options = ConsumerOptions(concurrency=4, commit_every_s=0.5)
        with client.consumer(stream, GROUP, handler=handle, options=options):
            ended.wait()


def role(given: dict[str, Any]) -> None:
    """A process of the application until SIGTERM."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    trace = Trace(given["trace"])
    if given["role"] == "produce":
        produce(given["stream"], trace, given["first"], given["per_s"], ended)
    else:
        consume(given["stream"], given["rejects"], trace, ended)


# -- the clusters -----------------------------------------------------------------------------------


def answers(address: str) -> bool:
    """Whether a broker answers an ApiVersions request (version 0)."""
    host, _, port = address.rpartition(":")
    body = struct.pack(">hhih", 18, 0, 1, 5) + b"probe"
    try:
        with socket.create_connection((host, int(port)), ANSWER_S) as link:
            link.settimeout(ANSWER_S)
            link.sendall(struct.pack(">i", len(body)) + body)
            return len(link.recv(4)) == 4
    except OSError:
        return False


def wait_until_lost(found: SandboxCluster) -> float:
    """The time at which no broker has answered for `LOST_AFTER_S`."""
    answered_s, deadline = time.time(), time.time() + LIMIT_S
    while time.time() < deadline:
        asked_s = time.time()
        if any(answers(address) for address in found.bootstrap_servers.split(",")):
            answered_s = asked_s
        elif time.time() - answered_s >= LOST_AFTER_S:
            return time.time()
        time.sleep(PROBE_S)
    raise TimeoutError(f"{found.name} answers")


@contextmanager
def killed(found: SandboxCluster) -> Iterator[None]:
    """SIGKILL every broker, and start them again."""
    for broker in found.broker_ids:
        found.kill(broker)
    try:
        yield
    finally:
        found.revive()


def read_topic(servers: str, security: Security, topic: str) -> Iterator[tuple[int, int, int]]:
    """Partition, offset and number of every record of a topic, read to the end."""
    from confluent_kafka import Consumer, TopicPartition

    client = Consumer(
        {"bootstrap.servers": servers, "group.id": "bench-reader", "enable.partition.eof": True, "log_level": 0,
         **to_confluent(security)}
    )  # fmt: skip
    with closing(client):
        client.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        left, deadline = PARTITIONS, time.monotonic() + LIMIT_S
        while left:
            assert time.monotonic() < deadline, f"{topic} is not read to its end"
            for message in client.consume(5_000, 0.1):
                if message.error() is None:
                    yield message.partition() or 0, message.offset() or 0, int(message.value() or b"-1")
                else:
                    left -= 1


def stranded_in(found: SandboxCluster, topic: str) -> int:
    """Ends of a topic's logs without the offsets that the group committed, by confluent-kafka."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": found.bootstrap_servers, "group.id": GROUP, **to_confluent(found.security)}
    with closing(Consumer(settings)) as client:
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        committed = {p.partition: max(0, p.offset) for p in client.committed(places, timeout=LIMIT_S)}
        ends = {p.partition: client.get_watermark_offsets(p, timeout=LIMIT_S)[1] for p in places}
    return sum(ends[number] - committed[number] for number in range(PARTITIONS))


# -- rounds -----------------------------------------------------------------------------------------


def becomes(what: str, check: Callable[[], object]) -> None:
    """Wait until `check` holds."""
    deadline = time.monotonic() + LIMIT_S
    while not check():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@dataclass(kw_only=True)
class Application:
    """The processes of one stream, and what their traces say."""

    folder: Path
    env: dict[str, str]
    stream: str
    per_s: float
    rejects: int = 0
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __enter__(self) -> "Application":
        for number in range(PROCESSES):
            self._start(f"produce-{number}", first=number * FIRST_NUMBERS, per_s=self.per_s / PROCESSES)
            self._start(f"consume-{number}", rejects=self.rejects // PROCESSES)
        becomes("records do not flow, or lag stays", self._is_idle)
        return self

    def _is_idle(self) -> bool:
        """Whether records flow, and consumers keep up with them."""
        done = len(self.lines("done"))
        return done > max(self.per_s, 1.2 * self.rejects) and len(self.lines("acked")) - done < self.per_s / 4

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

    def _start(self, name: str, **more: object) -> None:
        given = {"role": name.partition("-")[0], "stream": self.stream, "trace": str(self.folder / name), **more}
        with (self.folder / "output").open("ab") as output:
            self.processes[name] = subprocess.Popen(
                [sys.executable, __file__, "--role", json.dumps(given)], env=self.env, stdout=output, stderr=output
            )

    def lines(self, word: str) -> list[list[str]]:
        """The lines of a kind of all processes, without one that is not whole."""
        found = []
        for path in self.folder.glob("*-*"):
            for line in path.read_text().splitlines(keepends=True):
                words = line.split()
                if line.endswith("\n") and words[1] == word:
                    found.append([path.name, words[0], *words[2:]])
        return found

    def signal(self, what: str, number: int) -> None:
        """Send a signal to the producers or to the consumers."""
        for name, process in self.processes.items():
            if name.startswith(what):
                process.send_signal(number)

    def end(self, what: str) -> None:
        """End producers or consumers, which close."""
        self.signal(what, signal.SIGTERM)
        for name, process in self.processes.items():
            if name.startswith(what):
                assert process.wait(LIMIT_S) == 0, (self.folder / "output").read_text()[-2000:]


@dataclass(kw_only=True)
class Bench:
    """The clusters, and a folder for traces; `guest_env` has a profile without rights for the secured cluster."""

    clusters: dict[str, SandboxCluster]
    folder: Path
    per_s: float
    env: dict[str, str] = field(default_factory=dict)
    guest_env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        root = str(Path(__file__).parent.parent)
        home = self.clusters["b"].home
        self.env = {**home.env, "PYTHONPATH": root, "KAFKAKIT_PROFILE": "b"}
        guest = self.folder / "guest" / "kafkakit"
        shutil.copytree(home.config_dir, guest)
        profiles = guest / "profiles.d"
        shutil.copy(profiles / f"s-{GUEST}.yaml", profiles / "s.yaml")
        self.guest_env = {**self.env, "XDG_CONFIG_HOME": str(guest.parent)}

    def kit(self, *words: str, codes: tuple[int, ...] = (0,)) -> tuple[Any, float]:
        """A command's result and how long its process took."""
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "kafkakit", "-o", "json", "streams", *words],
            env=self.env, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
        took = time.monotonic() - began
        assert done.returncode in codes, f"{words}: {done.returncode}: {done.stderr}{done.stdout}"
        return json.loads(done.stdout), took

    def round(self, case: str, number: int) -> dict[str, Any]:
        """One failover of a new stream under load."""
        old = self.clusters["s" if case == "fence" else "a"]
        stream = f"{case}-{number}"
        folder = self.folder / stream
        folder.mkdir()
        lanes = "live,dlq" if case in LETTERS else "live"
        self.kit("create", stream, "--cluster", old.name, "--lanes", lanes, "--partitions", str(PARTITIONS), "--yes")
        segments = self.kit("show", stream)[0]["segments"]
        topic = next(segment["topic"] for segment in segments if segment["lane"] == "live")
        if case == "fence":
            self._grant(old, topic)
        env = self.guest_env if case == "fence" else self.env
        rejects = DEAD_LETTERS if case in LETTERS else 0
        with Application(folder=folder, env=env, stream=stream, per_s=self.per_s, rejects=rejects) as app:
            if case in ("killed", "hung"):
                found = self._lost(case, stream, old, topic, app)
            else:
                found = self._planned(case, stream, app)
            return found | self._count(app, stream, old, topic)

    def _grant(self, old: SandboxCluster, topic: str) -> None:
        grants = [
            AclBinding(kind=kind, name=name, principal=f"User:{GUEST}", operation=AclOperation.ALL,
                       permission=AclPermission.ALLOW)
            for kind, name in ((AclResourceKind.TOPIC, topic), (AclResourceKind.GROUP, GROUP))
        ]  # fmt: skip
        with closing(old.open_admin()) as admin:
            assert set(admin.create_acls(grants).values()) == {None}

    def _planned(self, case: str, stream: str, app: Application) -> dict[str, Any]:
        options = ("--fence", "acl") if case == "fence" else ()
        if case in LETTERS:
            options = ("--dead-letters", LETTERS[case])
        plan, _ = self.kit("failover", "plan", stream, "--to", "b", *options)
        ended, took = self.kit("failover", "run", stream, "--to", "b", "--yes", *options)
        assert ended["step"] == "retired", ended
        return {
            "end_to_end_s": round(took, 3),
            "basis": ended["basis"],
            "budget": plan["duplicates"]["most"],
            "steps_ms": _since(ended["reached_ms"]),
            "moved_ms": _moved(app, ended["reached_ms"]["routed"]),
        }

    def _lost(
        self, case: str, stream: str, old: SandboxCluster, topic: str, app: Application
    ) -> dict[str, Any]:  # fmt: skip
        app.signal("consume", signal.SIGSTOP)
        time.sleep(1)
        with killed(old) if case == "killed" else old.hung():
            lost_s = time.time()
            detected_s = wait_until_lost(old)
            ended, took = self.kit("failover", "run", stream, "--to", "b", "--emergency", "--yes", codes=(75,))
            assert ended["reason"] == "stranded", ended
            becomes("no traffic", lambda: any(words[4] != topic for words in app.lines("acked")))
            flows_ms = min(int(words[1]) for words in app.lines("acked") if words[4] != topic)
            routed_ms = ended["reached_ms"]["routed"]
        becomes("the old cluster does not return", lambda: answers(old.bootstrap_servers))
        settles(app)
        view, _ = self.kit("failover", "status", stream, "--watch", "--count", "1")
        told = [each["left"] for each in view["drain"] if each["topic"] == topic]
        counted = stranded_in(old, topic)
        app.signal("consume", signal.SIGCONT)
        ended, resumed = self.kit("failover", "resume", stream, "--yes")
        assert ended["step"] == "retired", ended
        return {
            "detected_s": round(detected_s - lost_s, 3),
            "flows_after_detection_s": round(flows_ms / 1000 - detected_s, 3),
            "flows_after_loss_s": round(flows_ms / 1000 - lost_s, 3),
            "command_s": round(took, 3),
            "stranded": counted,
            "stranded_as_told": told[0] if len(told) == 1 else None,
            "resumed_s": round(resumed, 3),
            "moved_ms": _moved(app, routed_ms),
        }

    def _count(self, app: Application, stream: str, old: SandboxCluster, topic: str) -> dict[str, Any]:
        """End the application, then compare its traces with what the logs hold."""
        time.sleep(1)
        app.end("produce")
        acked = {int(words[3]): (words[4], int(words[5]), int(words[6])) for words in app.lines("acked")}

        def unhandled() -> set[int]:
            return set(acked) - {int(words[5]) for words in app.lines("done")}

        with suppress(AssertionError):
            becomes("not all is handled", lambda: not unhandled())
        app.end("consume")
        route = self.kit("show", stream)[0]
        log: dict[tuple[str, int, int], int] = {}
        new = self.clusters["b"]
        later = [s["topic"] for s in route["segments"] if s["topic"] != topic and s["lane"] == "live"]
        for name, found in ((topic, old), *((each, new) for each in later)):
            for partition, offset, number in read_topic(found.bootstrap_servers, found.security, name):
                log[name, partition, offset] = number
        handled = Counter((words[2], int(words[3]), int(words[4])) for words in app.lines("done"))
        return {
            "acknowledged": len(acked),
            "failed": len(app.lines("failed")),
            "lost": sum(log.get(place) != number for number, place in acked.items()) + len(unhandled()),
            "written_twice": len(log) - len(set(log.values())),
            "sent_again": sum(int(words[2]) for words in app.lines("again")),
            "handled_again": handled.total() - len(handled),
        }


def settles(app: Application) -> None:
    """Wait until producers have answers for what they wrote to the old topic before it was away."""
    seen = -1
    for _ in range(40):
        now = len(app.lines("acked"))
        if seen >= 0 and now > seen:
            return
        seen = now
        time.sleep(0.25)


def _since(reached_ms: dict[str, int]) -> dict[str, int]:
    first = min(reached_ms.values())
    return {step: at - first for step, at in sorted(reached_ms.items(), key=lambda item: item[1])}


def _moved(app: Application, routed_ms: int) -> list[int]:
    """For each producer, from the change of the route until it was done with the old topic and had begun the new."""
    by_producer: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for words in app.lines("acked"):
        by_producer.setdefault((words[0], words[2]), []).append((int(words[1]), words[4]))
    found = []
    for answered in by_producer.values():
        newest = max(answered, key=lambda each: each[0])[1]
        first_new = min(at for at, topic in answered if topic == newest)
        last_old = max((at for at, topic in answered if topic != newest), default=routed_ms)
        found.append(max(0, max(first_new, last_old) - routed_ms))
    return sorted(found)


def summary(case: str, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The rounds of a case, with the worst of each figure."""
    moved = sorted(value for each in rounds for value in each.pop("moved_ms"))
    found: dict[str, Any] = {"rounds": rounds, "producers": len(moved)}
    found["moved_p50_ms"] = statistics.median(moved)
    found["moved_p99_ms"] = moved[max(0, -(-99 * len(moved) // 100) - 1)]
    for name in ("end_to_end_s", "detected_s", "flows_after_detection_s", "flows_after_loss_s"):
        if name in rounds[0]:
            found[f"{name}_worst"] = round(max(each[name] for each in rounds), 3)
    found["lost"] = sum(each["lost"] for each in rounds)
    for name in ("written_twice", "sent_again", "handled_again"):
        found[name] = sum(each[name] for each in rounds)
    print(f"{case}: {found}", file=sys.stderr, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--per-s", type=float, default=400)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--role", default="", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.role:
        role(json.loads(asked.role))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    folder = Path(tempfile.mkdtemp(prefix="streams-failover-"))
    home = Home(folder=folder, cache=Path.home() / ".cache" / "kafkakit")
    found: dict[str, Any] = {}
    began = time.monotonic()
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        clusters = {}
        for name, secure in (("a", ClientSecurity.NONE), ("b", ClientSecurity.NONE), ("s", ClientSecurity.SCRAM)):
            clusters[name] = start_cluster(home, name, secure=secure)
            stack.callback(clusters[name].down)
        bench = Bench(clusters=clusters, folder=folder / "traces", per_s=asked.per_s)
        cases = asked.cases.split(",")
        for place, case in enumerate(cases, 1):
            rounds: list[dict[str, Any]] = []
            # A loaded machine gets fewer rounds, and at least one of each case.
            until_s = began + LONGEST_S * place / len(cases)
            while len(rounds) < asked.rounds and (not rounds or time.monotonic() < until_s):
                rounds.append(bench.round(case, len(rounds)))
            found[case] = summary(case, rounds)
    result = {"per_s": asked.per_s, **found, "asked": ASKED, "seconds": round(time.monotonic() - began)}
    print(json.dumps(result | {"machine": shape()}, indent=2))


if __name__ == "__main__":
    main()
