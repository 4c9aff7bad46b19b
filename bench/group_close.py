"""Does a member that closes while another one joins ever hang?

Run: python bench/group_close.py [--rounds 500] [--workers 4] [--servers HOST:PORT]

librdkafka's `close` can answer a rebalance that it finds waiting to a group that it has ended already: the call never
returns, and the thread holds the lock of Python's interpreter (librdkafka's issues 4041 and 4527). In each round one
member of a cooperative group is there, another one joins, and after a random time one of them closes, from the thread
that polls it. Before that it does not poll for up to `--pause` seconds, as one that waits for its handlers, so that an
assignment or a revocation waits for it. `plain` is only `Consumer.close()`; `served` is the `close` of kafkakit's
member. Each is tried without and with names (`group.instance.id`). A watchdog in C (`faulthandler`) ends a process in
which a round takes too long. Prints one JSON object: rounds, closes that did not return in time, and processes that
stood still.
"""

import argparse
import faulthandler
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from machine import shape
from sandboxes import one_broker

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

CLOSE_S, ROUND_S, PARTITIONS = 20.0, 60.0, 6
WAYS = tuple((way, named) for way in ("plain", "served") for named in (False, True))


class Listener:
    """Counts what the member owns."""

    def __init__(self) -> None:
        self.owned: set[Any] = set()

    def assigned(self, committed: Any) -> None:
        self.owned |= set(committed)

    def revoked(self, partitions: Any) -> None:
        self.owned -= set(partitions)

    lost = revoked

    def committed(self, results: Any) -> None:
        pass


class Member:
    """A member that is polled and closed by a thread of its own."""

    def __init__(self, servers: str, group: str, name: str, way: str) -> None:
        from kafkakit.adapters.kafka.group_consumer import KafkaGroupConsumer
        from kafkakit.config.security import Protocol, Security

        security = Security(protocol=Protocol("PLAINTEXT"))
        self.client = KafkaGroupConsumer(servers, security, group, session_timeout_ms=6_000, instance=name)
        self.name, self.listener, self.way, self.pause_s = name, Listener(), way, 0.0
        self.ending, self.overdue = threading.Event(), False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        from kafkakit.adapters.kafka import group_consumer
        from kafkakit.core.errors import KafkakitError

        self.client.subscribe(["closing"], self.listener)
        while not self.ending.is_set():
            try:
                self.client.poll(100, 0.05)
            except KafkakitError as error:
                print(f"poll: {error}", file=sys.stderr)
        time.sleep(self.pause_s)
        if self.way == "plain":
            group_consumer._call_within(self.client._client.close, CLOSE_S)
        else:
            self.client.close(CLOSE_S)
        self.overdue = any(each.name == "kafkakit-client-call" and each.is_alive() for each in threading.enumerate())

    def end(self, pause_s: float) -> None:
        """Poll no more, and close after so long."""
        self.pause_s = pause_s
        self.ending.set()

    def closed(self) -> bool:
        """Wait for it; False if it was not closed in time."""
        self.thread.join()
        return not self.overdue


def wait_for(member: Member, until_s: float) -> None:
    while not member.listener.owned and time.monotonic() < until_s:
        time.sleep(0.005)


def work(servers: str, way: str, named: bool, rounds: int, seed: int, pause_s: float) -> None:
    """Rounds in a group of its own; prints a line for each that ended, and leaves at one that did not."""
    chosen, group = random.Random(seed), f"closing-{way}-{named}-{seed}"
    names = [f"m{number}" if named else "" for number in range(3)]
    faulthandler.enable()
    here = Member(servers, group, names[0], way)
    wait_for(here, time.monotonic() + 30)
    for number in range(1, rounds + 1):
        faulthandler.dump_traceback_later(ROUND_S, exit=True)
        name = next((each for each in names[number % 3 :] + names if each != here.name), "")
        other = Member(servers, group, name, way)
        leaver, stays = (here, other) if chosen.random() < 0.5 else (other, here)
        kind = chosen.choice(("assigned", "any", "unseen"))
        if kind == "assigned":  # one has its assignment, and the other one a revocation, just now
            wait_for(other, time.monotonic() + 5)
            time.sleep(chosen.uniform(0, 0.05))
        elif kind == "any":
            time.sleep(chosen.uniform(0, 1.5))
        leaver.end(0.0 if kind == "assigned" else chosen.uniform(0, pause_s))
        here = stays
        print("closed" if leaver.closed() else "overdue", flush=True)
        if leaver.overdue:
            break  # its thread is there for good
        if chosen.random() < 0.5:
            wait_for(here, time.monotonic() + 10)
    faulthandler.cancel_dump_traceback_later()
    sys.stdout.flush()
    os._exit(0)  # without the member's thread


def played(servers: str, way: str, named: bool, rounds: int, seed: int, pause_s: float, log: Any) -> Counter[str]:
    """So many rounds, in as many processes as it takes."""
    found = Counter[str]()
    while found["closed"] + found["overdue"] + found["still"] < rounds:
        left = rounds - found["closed"] - found["overdue"] - found["still"]
        words = ["--servers", servers, "--work", way, *(["--named"] if named else []), "--rounds", str(left)]
        words += ["--pause", str(pause_s)]
        ran = subprocess.run(
            [sys.executable, __file__, *words, "--seed", str(seed)], check=False, stdout=subprocess.PIPE, stderr=log,
            text=True,
        )  # fmt: skip
        found.update(ran.stdout.split())
        if ran.returncode and not ran.stdout:
            raise SystemExit("a process failed before its first round: see the log")
        found["still"] += ran.returncode != 0
        seed += 1_000
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=500, help="of each of the four ways")
    parser.add_argument("--workers", type=int, default=4, help="groups at once for each way")
    parser.add_argument("--pause", type=float, default=4.0, help="seconds without a poll before a close, at most")
    parser.add_argument("--servers", help="a running broker instead of a sandbox")
    parser.add_argument("--only", choices=("plain", "served"), help="one of both")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", default="group_close.log", help="tracebacks of processes that stood still")
    parser.add_argument("--work", choices=("plain", "served"), help=argparse.SUPPRESS)
    parser.add_argument("--named", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.servers, given.work, given.named, given.rounds, given.seed, given.pause)
    results: dict[str, Counter[str]] = {}
    with ExitStack() as stack:
        servers = stack.enter_context(one_broker(given.servers or ""))
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": servers})
        for made in admin.create_topics([NewTopic("closing", PARTITIONS, 1)]).values():
            made.result()
        log = stack.enter_context(open(given.log, "a", encoding="utf-8"))
        threads = []
        for way, named in (each for each in WAYS if given.only in (None, each[0])):
            found = results[f"{way}{', named' if named else ''}"] = Counter()
            for worker in range(given.workers):
                each = (way, named, given.rounds // given.workers, given.seed + worker, given.pause)

                def run(found: Counter[str] = found, each: Any = each) -> None:
                    found.update(played(servers, *each, log))

                threads.append(threading.Thread(target=run))
                threads[-1].start()
        for thread in threads:
            thread.join()
    print(json.dumps({"bench": "group_close", "machine": shape(), **results}, indent=2))


if __name__ == "__main__":
    main()
