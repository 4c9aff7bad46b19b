"""Clients and moves on a loopback that carries no more than a network does, in a network namespace of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, ResourceKind
from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.throttle import FOLLOWER_LIST, FOLLOWER_RATE, LEADER_LIST, LEADER_RATE
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.sandbox.decide.processes import properties_file
from tests.integration.conftest import SandboxCluster
from tests.rigs.waiting import until

SOURCES, TARGET = (1001, 1002, 1004), 1003
SOURCE_OF = {TopicPartition("copied", n): SOURCES[n % len(SOURCES)] for n in range(12)}
CLIENTS = tuple(TopicPartition("clients", n) for n in range(4))
SMALL_FETCHES = "replica.fetch.max.bytes=32768\nreplica.fetch.response.max.bytes=131072\nreplica.fetch.backoff.ms=10\n"
"""A network of 25 MB/s is 1/50 of 10 Gbit/s; so are these of what a follower gets at once, else a single response would
fill the network for longer than any latency objective, under every throttle."""
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


def prepare(cluster: SandboxCluster, admin: ClusterAdmin, size: int) -> None:
    """Topics to copy (so many bytes on three brokers) and for clients (two copies), and brokers with small fetches."""
    from confluent_kafka import Producer

    leaders = {key.partition: (source,) for key, source in SOURCE_OF.items()}
    assert admin.create_topic("copied", leaders, {}) is None
    assert admin.create_topic("clients", {key.partition: (SOURCES[0], SOURCES[2]) for key in CLIENTS}, {}) is None
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0}
    producer = Producer({**settings, "batch.size": 30_000})
    value = os.urandom(15_000)
    for number in range(size // len(value)):
        while len(producer) > 1000:
            producer.poll(0.05)
        producer.produce("copied", value=value, partition=number % len(SOURCE_OF))
        producer.poll(0)
    assert producer.flush(120) == 0
    for node in cluster.state.layout.brokers:
        with open(properties_file(node), "a") as properties:
            properties.write(SMALL_FETCHES)
    for broker in cluster.broker_ids:  # metrics begin anew, too
        cluster.restart(broker)


def begin_copies(admin: ClusterAdmin) -> None:
    """Three brokers begin to send their partitions to the fourth."""
    assert not any(admin.reassign({key: (source, TARGET) for key, source in SOURCE_OF.items()}).values())


def await_copies(admin: ClusterAdmin) -> None:
    """Wait until none is running."""
    until(lambda: not admin.reassignments(), "the copies end", 900)


def remove_copies(admin: ClusterAdmin) -> None:
    """Take the copies away again, so that they can be made once more."""
    assert not any(admin.reassign({key: (source,) for key, source in SOURCE_OF.items()}).values())
    await_copies(admin)


def throttle_copies(admin: ClusterAdmin, rate: int | None) -> None:
    """The same rate for each broker and exact lists, as an operator sets them; None takes them away."""
    value = None if rate is None else str(rate)
    senders = None if rate is None else ",".join(f"{key.partition}:{source}" for key, source in SOURCE_OF.items())
    receivers = None if rate is None else ",".join(f"{key.partition}:{TARGET}" for key in SOURCE_OF)
    wanted = [(ResourceKind.BROKER, str(broker), LEADER_RATE, value) for broker in SOURCES]
    wanted.append((ResourceKind.BROKER, str(TARGET), FOLLOWER_RATE, value))
    wanted.append((ResourceKind.TOPIC, "copied", LEADER_LIST, senders))
    wanted.append((ResourceKind.TOPIC, "copied", FOLLOWER_LIST, receivers))
    changes = [
        ConfigChange(kind=kind, name=name, key=key, op=ConfigOp.SET if text else ConfigOp.DELETE, value=text or None)
        for kind, name, key, text in wanted
    ]
    assert not any(admin.alter_configs(changes).values())


class SteadyClients:
    """Writes so many bytes a second to the clients' topic, in records of `size` bytes.

    Each is acknowledged by all copies in sync; `latencies` are the seconds that took, and when they ended.
    """

    def __init__(self, servers: str, bytes_per_s: int, size: int = 10_000) -> None:
        from confluent_kafka import Producer

        self.sent, self.failed = 0, 0
        self.latencies: list[tuple[float, float]] = []
        settings = {"bootstrap.servers": servers, "acks": "all", "linger.ms": 5}
        self._producer = Producer({**settings, "log_level": 0, "delivery.timeout.ms": 120_000})
        self._rate, self._size = bytes_per_s / size, size
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
                key = CLIENTS[self.sent % len(CLIENTS)]
                self._producer.produce(key.topic, value=value, partition=key.partition, on_delivery=self._told)
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
