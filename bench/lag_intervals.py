"""Whether the intervals of time lag hold the truth on real brokers, how many are bounded, and how wide they are.

Run: python bench/lag_intervals.py [--seconds 180]

A sandbox of three brokers, three topics that are written to all the time (records stamped by the producer, by the
broker, and in transactions), and on each of them four groups: one that is always 7 s behind, one that is caught up, one
that reads every 10 s, and one that dies after a third of the time. The service is asked every 500 ms for the lag of
each partition. Of each answer the truth is known: the moment that the figure is of, minus the time of the oldest record
that the commit of that moment does not cover. What was under way at that moment, a record or a commit, may count or
not. Prints one JSON object.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from machine import shape

PORT, LOOK_S, WARM_S = 19106, 0.5, 30
TOPICS = {"by-producer": {}, "by-broker": {"message.timestamp.type": "LogAppendTime"}, "in-transactions": {}}
GROUPS = ("steady", "caught-up", "every-10s", "dies")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Truth:
    """What was written to one topic and committed by each group, with the moments of request and answer."""

    offsets: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)
    commits: dict[str, list[tuple[int, int, int]]] = field(default_factory=lambda: {g: [] for g in GROUPS})

    def lags(self, group: str, at_ms: int) -> set[int]:
        """All that may be true at a moment."""
        commits = self.commits[group]
        surely = max((i for i, (_, answered, _) in enumerate(commits) if answered <= at_ms), default=-1)
        held = [o for i, (asked, _, o) in enumerate(commits) if i >= surely >= 0 and asked <= at_ms]
        found = set()
        for committed in held:
            for written in (self.sent, self.stored):
                first = next((i for i, o in enumerate(self.offsets) if o >= committed and written[i] <= at_ms), None)
                found.add(0 if first is None else max(0, at_ms - self.times[first]))
        return found


class Traffic:
    """One writer and one committer for each topic."""

    def __init__(self, servers: str, dies_at: float) -> None:
        self.servers, self.dies_at, self.ended = servers, dies_at, threading.Event()
        self.truths = {topic: Truth() for topic in TOPICS}
        self.threads = [threading.Thread(target=w, args=(t,)) for t in TOPICS for w in (self.write, self.commit)]
        for thread in self.threads:
            thread.start()

    def write(self, topic: str) -> None:
        from confluent_kafka import Producer

        truth, in_transactions = self.truths[topic], topic == "in-transactions"
        settings: dict[str, Any] = {"bootstrap.servers": self.servers, "acks": "all", "linger.ms": 0, "log_level": 0}
        producer = Producer(settings | ({"transactional.id": topic} if in_transactions else {}))
        if in_transactions:
            producer.init_transactions()
        while not self.ended.wait(0.1):
            asked = now_ms()
            if in_transactions:
                producer.begin_transaction()

            def told(error: object, message: Any, asked: int = asked) -> None:
                assert error is None, error
                truth.times.append(message.timestamp()[1])
                truth.sent.append(asked)
                truth.stored.append(now_ms())
                truth.offsets.append(message.offset())

            producer.produce(topic, b"x", partition=0, timestamp=asked, on_delivery=told)
            if in_transactions:
                producer.commit_transaction()
            producer.flush()

    def commit(self, topic: str) -> None:
        from confluent_kafka import Consumer, TopicPartition

        truth = self.truths[topic]
        clients = {
            g: Consumer({"bootstrap.servers": self.servers, "group.id": f"{g}.{topic}", "log_level": 0}) for g in GROUPS
        }
        rounds = 0
        while not self.ended.wait(1):
            rounds += 1
            for group, client in clients.items():
                read = len(truth.offsets)
                if group == "steady":
                    read = sum(1 for at in truth.times[:read] if at < now_ms() - 7_000)
                skips = (group == "every-10s" and rounds % 10) or (group == "dies" and time.monotonic() > self.dies_at)
                if not read or skips:
                    continue
                offset, asked = truth.offsets[read - 1] + 1, now_ms()
                client.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
                truth.commits[group].append((asked, now_ms(), offset))


def looked() -> list[dict[str, Any]]:
    url = f"http://127.0.0.1:{PORT}/json?by=partition&top=1000"
    try:
        return json.loads(urllib.request.urlopen(url, timeout=10).read())["lines"] or []
    except OSError:
        return []


def judged(truths: dict[str, Truth], lines: list[dict[str, Any]]) -> dict[str, object]:
    """Of each group on each topic: figures, the part of them that holds the truth, that is bounded, and widths."""
    found: dict[str, object] = {}
    for topic, truth in truths.items():
        for group in GROUPS:
            own = [line for line in lines if (line["group"], line["topic"]) == (f"{group}.{topic}", topic)]
            told = [(truth.lags(group, line["as_of_ms"]), line["low_ms"], line["high_ms"]) for line in own]
            told = [one for one in told if one[0]]
            bounded = sorted(high - low for _, low, high in told if high is not None)
            holds = sum(any(low <= lag and (high is None or lag <= high) for lag in lags) for lags, low, high in told)
            found[f"{group}, {topic}"] = {
                "figures": len(told),
                "truth_inside_percent": round(100 * holds / max(1, len(told)), 2),
                "bounded_percent": round(100 * len(bounded) / max(1, len(told)), 1),
                "width_ms_median": bounded[len(bounded) // 2] if bounded else None,
                "width_ms_p99": bounded[int(len(bounded) * 0.99)] if bounded else None,
            }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=180)
    seconds = parser.parse_args().seconds
    home = Path(tempfile.mkdtemp(prefix="kafkakit-bench-"))
    env = os.environ | {
        "XDG_STATE_HOME": f"{home}/state", "XDG_CONFIG_HOME": f"{home}/config", "KAFKAKIT_LOCK_DIR": f"{home}/locks"
    }  # fmt: skip
    kit = [sys.executable, "-m", "kafkakit"]
    subprocess.run(
        [*kit, "sandbox", "up", "--brokers", "3", "--name", "intervals"], env=env, check=True, stdout=sys.stderr
    )
    service, lines = None, []
    try:
        from confluent_kafka.admin import AdminClient, NewTopic

        (profile,) = (home / "config").rglob("intervals.yaml")
        servers = re.search(r"bootstrap_servers?: *[\"']?([^\s\"']+)", profile.read_text())[1]  # type: ignore[index]
        admin = AdminClient({"bootstrap.servers": servers})
        for made in admin.create_topics([NewTopic(t, 1, 3, config=c) for t, c in TOPICS.items()]).values():
            made.result()
        traffic = Traffic(servers, time.monotonic() + WARM_S + seconds / 3)
        words = ("--profile", "intervals", "streams", "lag", "serve", "--listen", f"127.0.0.1:{PORT}")
        service = subprocess.Popen([*kit, *words], env=env)
        time.sleep(WARM_S)
        began = time.monotonic()
        for look in range(int(seconds / LOOK_S)):
            time.sleep(max(0.0, began + look * LOOK_S - time.monotonic()))
            lines += looked()
        text = urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=10).read().decode()
        reads = re.search(r"^kafkakit_lag_record_reads\S* (\S+)$", text, re.MULTILINE)
        traffic.ended.set()
        for thread in traffic.threads:
            thread.join()
    finally:
        if service is not None:
            service.terminate()
            service.wait()
        subprocess.run([*kit, "sandbox", "down", "--name", "intervals"], env=env, check=True, stdout=sys.stderr)
    goal = {"truth_inside_percent": 99, "bounded_percent_of_steady_groups": 90}
    told = {"bench": "lag_intervals", "machine": shape(), "goal": goal, "seconds": seconds}
    cost = {"record_reads_per_s": reads and round(float(reads[1]) / (WARM_S + seconds), 1)}
    print(json.dumps(told | cost | {"groups": judged(traffic.truths, lines)}))


if __name__ == "__main__":
    main()
