"""Clients and moves on a loopback that carries no more than a network does, in a network namespace of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

READY = "ip link set lo up && tc qdisc add dev lo root tbf rate 1gbit burst 1mb latency 50ms"
TICK_S = 0.01


def lacking() -> str:
    """Why this machine gives no network namespace with tc, empty where it does."""
    try:
        tried = subprocess.run(["unshare", "--net", "sh", "-c", READY], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        return str(error)
    reason = f"no network namespace with tc (root, Debian's iproute2): {tried.stderr.strip()}"
    return reason if tried.returncode else ""


def run_inside(words: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments in a network namespace of its own, whose loopback is up."""
    inside = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, *words]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(inside, env=env, text=True, check=False, **options)


def cap_loopback(bytes_per_s: int, *, queue_ms: int) -> None:
    """Let this namespace's loopback carry so much, all that is sent together, and drop what waits longer."""
    words = f"tc qdisc replace dev lo root tbf rate {bytes_per_s}bps burst 256kb latency {queue_ms}ms"
    subprocess.run(words.split(), check=True)


class SteadyClients:
    """Writes so many bytes a second to the partitions of a topic, in records of `size` bytes.

    Each is acknowledged by all copies in sync; `latencies` are the seconds that took, and when they ended.
    """

    def __init__(self, servers: str, topic: str, partitions: int, bytes_per_s: int, size: int = 10_000) -> None:
        from confluent_kafka import Producer

        self.sent, self.failed = 0, 0
        self.latencies: list[tuple[float, float]] = []
        settings = {"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True, "linger.ms": 5}
        self._producer = Producer({**settings, "log_level": 0, "delivery.timeout.ms": 120_000})
        self._topic, self._partitions, self._rate, self._size = topic, partitions, bytes_per_s / size, size
        self._stop = Event()
        self._thread = Thread(target=self._write)

    def percentile_ms(self, share: float, begin_s: float, end_s: float) -> float:
        """What share of the records that were acknowledged between two times (`time.monotonic`) took no longer."""
        found = sorted(took for at, took in self.latencies if begin_s <= at <= end_s)
        return round(1000 * found[min(len(found) - 1, int(share * len(found)))], 1) if found else float("nan")

    def _write(self) -> None:
        value, began = os.urandom(self._size), time.monotonic()
        while not self._stop.wait(TICK_S):
            while self.sent < (time.monotonic() - began) * self._rate:
                self._producer.produce(
                    self._topic, value=value, partition=self.sent % self._partitions, on_delivery=self._told
                )
                self.sent += 1
            self._producer.poll(0)

    def _told(self, error: object, message: Any) -> None:
        if error is None:
            self.latencies.append((time.monotonic(), message.latency()))
        else:
            self.failed += 1

    @contextmanager
    def running(self) -> Iterator["SteadyClients"]:
        """Write while the block runs, and then wait for what is not acknowledged yet."""
        self._thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self._thread.join()
            self.failed += self._producer.flush(120)
