"""What the lag monitor does on two cores that it shares with a real broker: speed, memory and latency.

Run: python bench/lag_monitor.py [--records 5000000] [--groups 500] [--seconds 20]

A sandbox of one broker gets a compacted topic that looks like `__consumer_offsets`, filled by confluent-kafka with
commits as Kafka 4.1 and later write them (half with a topic id, half with metadata), in batches of about 16 KiB. Then,
each in processes of their own: reading all of it by raw fetch, decode, book and lag, with one process and with two that
split the partitions; the memory with 100,000 group-partitions, their ends sampled and their lag measured; and, with
real commits to the real topic, the time from the call of commit to a table that shows it. Prints one JSON object.
"""

import argparse
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from machine import resident_mib, shape

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

LOOKALIKE = "lookalike-offsets"
PARTITIONS = 8
TOPICS, TOPIC_PARTITIONS = 20, 10
METADATA = b"~bEMBI7WoCCLawy6eWM-gHBAIHAg"


def keys_of(groups: int) -> list[bytes]:
    """Commit keys: every group has committed for every partition of every topic."""
    found = []
    for group in range(groups):
        name = f"service-{group:04d}".encode()
        for topic in range(TOPICS):
            title = f"bench-{topic:02d}".encode()
            head = struct.pack(">hh", 1, len(name)) + name + struct.pack(">h", len(title)) + title
            found += [head + struct.pack(">i", p) for p in range(TOPIC_PARTITIONS)]
    return found


def value_of(offset: int, now_ms: int, kind: int) -> bytes:
    """An OffsetCommitValue v4: every second one with metadata, every second one with a topic id."""
    text = METADATA if kind & 1 else b""
    tags = b"\x01\x00\x10" + b"0123456789abcdef" if kind & 2 else b"\x00"
    return struct.pack(">hqi", 4, offset, -1) + bytes((len(text) + 1,)) + text + struct.pack(">q", now_ms) + tags


def fill(servers: str, records: int, groups: int) -> float:
    """Write the look-alike; returns the seconds."""
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 5, "batch.size": 16384, "queue.buffering.max.messages": 1_000_000}
    )
    keys = keys_of(groups)
    place = [hash_of(key) % PARTITIONS for key in keys]
    started = time.perf_counter()
    now_ms = int(time.time() * 1000)
    count = len(keys)
    for number in range(records):
        at = number * 7919 % count
        while True:
            try:
                producer.produce(LOOKALIKE, value_of(number % 1000, now_ms, number), keys[at], partition=place[at])
                break
            except BufferError:
                producer.poll(0.05)
        if not number % 10_000:
            producer.poll(0)
    producer.flush()
    return time.perf_counter() - started


def hash_of(key: bytes) -> int:
    return sum(key) * 31 + len(key)


def monitor_of(servers: str, only: Any = None, topic: str = LOOKALIKE) -> Any:
    from kafkakit.adapters.host import SystemClock
    from kafkakit.adapters.kafka.log import KafkaLog
    from kafkakit.config.security import Protocol, Security
    from kafkakit.streams.lag.act.monitor import ClusterMonitor

    reader = KafkaLog(servers, Security(protocol=Protocol("PLAINTEXT")))
    return ClusterMonitor(reader, SystemClock(), "bench", reader.cluster_id(), topic=topic, only=only)


def read(servers: str, parts: int, part: int) -> dict[str, object]:
    """Read the past of every `parts`th partition; the seconds run from the first request to the last record applied."""
    monitor = monitor_of(servers, lambda partition: partition % parts == part)
    started, cpu = time.perf_counter(), time.process_time()
    while not monitor.is_live:
        monitor.tick()
    condition = monitor.condition()
    took = time.perf_counter() - started
    return {
        "records": condition.totals.records, "started": time.time() - took, "ended": time.time(),
        "seconds": round(took, 2), "cpu_seconds": round(time.process_time() - cpu, 2),
        "group_partitions": condition.group_partitions, "notes": list(condition.notes), "peak_rss_mib": peak_mib(),
    }  # fmt: skip


def hold(servers: str) -> dict[str, object]:
    """Memory and the cost of one table, with everything read, all ends sampled and records read."""
    monitor = monitor_of(servers)
    until = time.monotonic() + 120
    while not (monitor.is_live and monitor.rounds >= 2) and time.monotonic() < until:
        monitor.tick()
    for _ in range(30):
        monitor.tick()
    started = time.perf_counter()
    table = monitor.table()
    took = time.perf_counter() - started
    return {
        "group_partitions": len(table),
        "table_seconds": round(took, 3),
        "rss_mib": resident_mib(os.getpid()),
        "peak_rss_mib": peak_mib(),
    }


def latency(servers: str, seconds: float) -> dict[str, object]:
    """From the call of commit until a table shows it, with real commits one after another."""
    import threading

    from confluent_kafka import Consumer, TopicPartition

    monitor = monitor_of(servers, topic="__consumer_offsets")
    stop = threading.Event()

    def follow() -> None:
        while not stop.is_set():
            monitor.tick()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "bench-latency", "enable.auto.commit": False})
    place = TopicPartition("bench-00", 0, 0)
    found: list[float] = []
    offset, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        offset += 1
        place.offset = offset
        started = time.perf_counter()
        consumer.commit(offsets=[place], asynchronous=False)
        while not any(monitor.table().committed == offset):
            time.sleep(0.002)
        found.append((time.perf_counter() - started) * 1000)
    stop.set()
    thread.join(5)
    consumer.close()
    found.sort()
    return {
        "commits": len(found),
        "p50_ms": round(found[len(found) // 2], 1),
        "p99_ms": round(found[len(found) * 99 // 100], 1),
        "max_ms": round(found[-1], 1),
    }


def peak_mib() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def apart(*words: str) -> subprocess.Popen[str]:
    """This script in a process of its own, for one job."""
    return subprocess.Popen([sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True)


def answers(*jobs: subprocess.Popen[str]) -> list[Any]:
    found = [json.loads(job.communicate()[0]) for job in jobs]
    if any(job.returncode for job in jobs):
        raise SystemExit("a job failed")
    return found


@contextmanager
def sandbox() -> Iterator[str]:
    """One broker, with topics for the groups and the look-alike."""
    with tempfile.TemporaryDirectory(prefix="kafkakit-bench-") as folder:
        env = {**os.environ, "XDG_STATE_HOME": f"{folder}/state", "XDG_CONFIG_HOME": f"{folder}/config"}
        tool = [sys.executable, "-m", "kafkakit"]
        name = f"bench{os.getpid()}"
        subprocess.run(
            [*tool, "sandbox", "up", "--brokers", "1", "--name", name], env=env, check=True, cwd=ROOT, stdout=2
        )
        try:
            ran = subprocess.run(
                [*tool, "--profile", name, "profile", "show", "-o", "json"],
                env=env, check=True, cwd=ROOT, capture_output=True, text=True,
            )  # fmt: skip
            servers = json.loads(ran.stdout)["values"]["bootstrap_server"]["value"]
            make_topics(servers)
            yield servers
        finally:
            subprocess.run([*tool, "sandbox", "down", "--name", name], env=env, check=False, cwd=ROOT, stdout=2)


def make_topics(servers: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    compact = {"cleanup.policy": "compact", "segment.bytes": str(100 << 20)}
    topics = [NewTopic(f"bench-{n:02d}", TOPIC_PARTITIONS, 1) for n in range(TOPICS)]
    for future in admin.create_topics([*topics, NewTopic(LOOKALIKE, PARTITIONS, 1, config=compact)]).values():
        future.result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--servers", help="a running broker instead of a sandbox; its topics must be there")
    parser.add_argument(
        "--job", choices=["fill", "read", "hold", "latency"], help="one part alone, for the parts' processes"
    )
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--part", type=int, default=0)
    given = parser.parse_args()
    if given.job:
        jobs: dict[str, Any] = {
            "fill": lambda: fill(given.servers, given.records, given.groups),
            "read": lambda: read(given.servers, given.parts, given.part),
            "hold": lambda: hold(given.servers),
            "latency": lambda: latency(given.servers, given.seconds),
        }
        print(json.dumps(jobs[given.job]()))
        return
    with sandbox() as servers:
        at = ["--servers", servers, "--records", str(given.records), "--groups", str(given.groups)]
        (filled,) = answers(apart("--job", "fill", *at))
        one = min((answers(apart("--job", "read", *at))[0] for _ in range(2)), key=lambda r: r["seconds"])
        two = answers(*(apart("--job", "read", *at, "--parts", "2", "--part", str(p)) for p in range(2)))
        (held,) = answers(apart("--job", "hold", *at))
        (late,) = answers(apart("--job", "latency", *at, "--seconds", str(given.seconds)))
    wall = max(r["ended"] for r in two) - min(r["started"] for r in two)
    print(
        json.dumps(
            {
                "machine": shape(),
                "records": one["records"],
                "fill_seconds": round(filled, 1),
                "one_process": {**one, "records_per_s": round(one["records"] / one["seconds"])},
                "two_processes": {
                    "seconds": round(wall, 2),
                    "records_per_s": round(sum(r["records"] for r in two) / wall),
                    "parts": two,
                },
                "memory": held,
                "commit_to_visible": late,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
