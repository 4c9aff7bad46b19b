"""Record what the lag service exports while a consumer dies and a broker is away: input for promtool's tests.

Run: python bench/lag_outage.py; its series are those of tests/cases/prometheus/outage.test.yaml

A sandbox of three brokers, a topic that is written to all the time, and one group that is caught up. At 2 min the
consumer dies, at 6 min it is back, at 8 min all brokers are killed, at 11 min they are started, one after the other;
the service is asked every 15 s for 13 min. Prints `input_series` with one value a look, for promtool.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from itertools import pairwise
from pathlib import Path

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


def main() -> None:
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


if __name__ == "__main__":
    main()
