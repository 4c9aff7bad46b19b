"""How long `kafkakit snapshot` takes on a sandbox of three brokers, as a command, from start to file on disk.

Run: python bench/snapshot.py [--partitions 5000] [--topics 50] [--rounds 5]
Makes the topics (two replicas each) and prints one JSON object with each round's seconds and the median.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml
from machine import shape

from kafkakit.adapters.kafka.admin import KafkaAdmin
from kafkakit.config.security import Security
from kafkakit.core.documents import decode_snapshot

NAME = "bench-snapshot"


def kafkakit(*words: str, env: dict[str, str]) -> None:
    subprocess.run([sys.executable, "-m", "kafkakit", *words], check=True, env=env, capture_output=True)


def make_topics(address: str, topics: int, partitions: int) -> None:
    """Spread partitions over topics and replicas over brokers, and wait for every leader."""
    admin = KafkaAdmin(address, Security(), request_timeout_s=60)
    brokers = [b.id for b in admin.cluster().brokers]
    for number in range(topics):
        count = partitions // topics + (number < partitions % topics)
        lists = {n: (brokers[n % 3], brokers[(n + 1) % 3]) for n in range(count)}
        problem = admin.create_topic(f"bench-{number:05d}", lists, {"retention.ms": "7200000"})
        if problem:
            raise SystemExit(f"topic {number}: {problem}")
    admin.close()


def measure(env: dict[str, str], target: Path, rounds: int) -> list[float]:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        kafkakit("--profile", NAME, "snapshot", "--output-file", str(target), env=env)
        times.append(round(time.perf_counter() - began, 2))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=5_000)
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="kafkakit-bench-"))
    env = os.environ | {"XDG_STATE_HOME": str(home / "state"), "XDG_CONFIG_HOME": str(home / "config")}
    try:
        kafkakit("sandbox", "up", "--brokers", "3", "--racks", "3", "--log-dirs", "2", "--name", NAME, env=env)
        profile = home / "config" / "kafkakit" / "profiles.d" / f"{NAME}.yaml"
        make_topics(yaml.safe_load(profile.read_text())["bootstrap_server"], given.topics, given.partitions)
        target = home / "snapshot.json"
        times = measure(env, target, given.rounds)
        snapshot = decode_snapshot(target.read_bytes(), str(target))
        sized = sum(len(p.replica_bytes) for _, p in snapshot.partitions())
    finally:
        kafkakit("sandbox", "down", "--name", NAME, env=env)
        shutil.rmtree(home, ignore_errors=True)
    report = {
        "bench": "snapshot",
        "machine": shape(),
        "topics": given.topics,
        "partitions": given.partitions,
        "copies_with_size": sized,
        "rounds_s": times,
        "median_s": statistics.median(times),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
