"""The client as applications use it: a stream made by the command, rules, rejected records, and a batch too large."""

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from kafkakit.config.read.environment import read_environment
from kafkakit.config.read.settings import Given, load_settings
from kafkakit.config.security import to_confluent
from kafkakit.core.errors import UsageError
from kafkakit.streams.client import dead_letters as dead_letter_lane
from kafkakit.streams.client.client import StreamClient
from kafkakit.streams.client.connect import connect
from kafkakit.streams.client.consumer import StreamConsumer
from kafkakit.streams.client.dead_letters import BOMB_REASON, ConsumerOptions
from kafkakit.streams.client.decide.work_rules import Mode, RejectError, RetryRule, WorkLimits, WorkRules
from kafkakit.streams.client.workers import StreamRecord
from kafkakit.streams.model.route import LaneRule
from kafkakit.streams.routes.api_act import RouteStore
from kafkakit.wiring import open_control, system_clock
from tests.integration.conftest import LeaseClusters, SandboxCluster
from tests.rigs.cluster_pool import SINGLE

pytestmark = pytest.mark.kafka
LIMIT_S = 240.0
MIB = 1 << 20


class Seen:
    """Counts what was handled, by lane and value; rejects values that begin with `bad`."""

    def __init__(self) -> None:
        self.records: Counter[tuple[str, bytes | None]] = Counter()
        self._lock = threading.Lock()

    def __call__(self, record: StreamRecord) -> None:
        if (record.value or b"").startswith(b"bad"):
            raise RejectError("not an order")
        with self._lock:
            self.records[record.lane, record.value] += 1


@pytest.fixture(scope="module")
def cluster(lease: LeaseClusters) -> Iterator[SandboxCluster]:
    cluster = lease(SINGLE)[0]
    with pytest.MonkeyPatch.context() as patched:
        for name, value in cluster.env.items():
            patched.setenv(name, value)
        yield cluster


@pytest.fixture
def client(cluster: SandboxCluster) -> Iterator[StreamClient]:
    with connect(cluster.name) as client:
        yield client


def command(cluster: SandboxCluster, *words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "kafkakit", "--profile", cluster.name, "-o", "json", "streams", *words],
        env=cluster.env, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout else None


def make(cluster: SandboxCluster, stream: str) -> None:
    command(cluster, "create", stream, "--partitions", "1", "--yes")


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def has_committed(consumer: StreamConsumer) -> bool:
    """Whether all that was there at the latest commit is committed, in every lane, and nothing is under way."""
    partitions = consumer.figures().partitions
    return len(partitions) == 3 and all(not (one.lag or one.buffered or one.undurable) for one in partitions)


def test_rules_choose_lanes_and_rejected_records_keep_their_provenance(
    cluster: SandboxCluster, client: StreamClient
) -> None:
    make(cluster, "orders")
    settings = load_settings(Given(profile=cluster.name), read_environment(), warn=print, input_allowed=False)
    store = RouteStore(open_control(settings))
    rules = (LaneRule(lane="slow", where='tenant = "bulk"'),)
    store.change(
        "orders", lambda route: replace(route, rules=rules), by="a test", what="rules",
        at_ms=int(system_clock().now().timestamp() * 1000),
    )  # fmt: skip
    until(lambda: client.follower("orders").current().rules == rules)
    seen = Seen()
    with client.producer("orders") as producer, client.consumer("orders", "billing", handler=seen) as consumer:
        sent = [producer.send(b"%d" % n, headers=[("tenant", b"bulk")] if n % 2 else []) for n in range(200)]
        bad = producer.send(b"bad", key=b"k", headers=[("origin", b"till")])
        lanes = Counter(delivery.result(LIMIT_S).lane for delivery in sent)
        until(lambda: len(seen.records) == 200 and consumer.figures().dead_letters_written == 1)
        until(lambda: has_committed(consumer))
    assert lanes == {"live": 100, "slow": 100}
    assert seen.records == Counter(("slow" if n % 2 else "live", b"%d" % n) for n in range(200))
    (letter,) = command(cluster, "dlq", "list", "orders")["records"]
    found = letter["provenance"]
    assert (found["group"], found["lane"], found["offset"]) == ("billing", "live", bad.result(0).offset)
    assert found["error_text"] == "not an order"


def test_records_out_of_tries_leave_the_live_lane_and_come_back_later(
    cluster: SandboxCluster, client: StreamClient
) -> None:
    """One is handled at last, one never is; another group of the stream handles each record once."""
    make(cluster, "later")
    seen, others, failed = Seen(), Seen(), Counter[tuple[str, bytes | None]]()

    def handle(record: StreamRecord) -> None:
        if record.value in (b"never", b"late") and (record.value == b"never" or record.lane == "live"):
            failed[record.lane, record.value] += 1
            raise ValueError("no")
        seen(record)

    work = WorkRules(retry=RetryRule(first_ms=10, max_ms=50, max_tries=2))
    options = ConsumerOptions(work=work, commit_every_s=0.2, retry_after_s=(0.2, 0.5))
    with (
        client.producer("later") as producer,
        client.consumer("later", "billing", handler=handle, options=options) as consumer,
        client.consumer("later", "mail", handler=others) as second,
    ):
        sent = [producer.send(value, key=value) for value in (b"never", b"late")]

        def is_over() -> bool:
            sent.append(producer.send(b"good"))
            return consumer.figures().dead_letters_written == 4 and seen.records["retry", b"late"] == 1

        until(is_over)
        assert all(delivery.result(LIMIT_S).lane == "live" for delivery in sent)
        until(lambda: others.records["live", b"never"] and others.records["live", b"late"])
        until(lambda: has_committed(consumer) and has_committed(second))
        assert {one.lane for one in consumer.figures().partitions if one.failures} == {"live", "retry"}
    assert others.records[("live", b"never")] == others.records[("live", b"late")] == 1
    assert {lane for lane, _ in others.records} == {"live"}
    assert min(failed.values()) >= 2
    (letter,) = command(cluster, "dlq", "list", "later")["records"]
    found = letter["provenance"]
    assert (found["lane"], found["offset"], found["reason"], found["hops"]) == (
        "live", sent[0].result(0).offset, "max-tries", 3
    )  # fmt: skip


@pytest.mark.parametrize("strict", [False, True])
def test_a_batch_that_is_too_large_is_noted_and_the_records_after_it_are_handled(
    cluster: SandboxCluster, client: StreamClient, *, strict: bool
) -> None:
    stream = f"bombed-{strict}".lower()
    make(cluster, stream)
    segment = client.follower(stream).current().lanes[0].segments[0]
    values = [b"before", *[bytes(MIB)] * 64, b"after"]
    seen = Seen()
    options = ConsumerOptions(concurrency=2, strict_guard=strict)
    with client.consumer(stream, "billing", handler=seen, options=options) as consumer:
        for batch in (values[:1], values[1:-1], values[-1:]):
            produce(cluster, segment.topic, batch)
        until(lambda: len(seen.records) == 2 and has_committed(consumer))
        assert consumer.figures().unreadable >= 1
    assert seen.records == Counter([("live", b"before"), ("live", b"after")])
    (letter,) = command(cluster, "dlq", "list", stream)["records"]
    found = letter["provenance"]
    assert (found["reason"], found["offset"], found["lane"]) == (BOMB_REASON, 1, "live")


def test_without_a_dlq_lane_records_are_rejected_by_reference_and_copied_later(
    cluster: SandboxCluster, client: StreamClient
) -> None:
    command(cluster, "create", "plain", "--lanes", "live", "--partitions", "1", "--yes")
    with client.producer("plain") as producer, client.consumer("plain", "billing", handler=Seen()) as consumer:
        places = [producer.send(value).result(LIMIT_S) for value in (b"good", b"bad 1", b"good", b"bad 2", b"good")]
        until(lambda: consumer.figures().dead_letters_written == 2)
        until(lambda: [(one.lag, one.base) for one in consumer.figures().partitions] == [(0, 5)])
        assert consumer.figures().total("undurable") == 0
    letters = command(cluster, "dlq", "list", "plain")["records"]
    assert [(one["held"], one["place"]) for one in letters] == [
        ("reference", f"{place.topic}/0@{place.offset}") for place in (places[1], places[3])
    ]
    command(cluster, "lane", "add", "plain", "dlq", "--partitions", "1", "--yes")
    command(cluster, "dlq", "copy", "plain", "--once", "--all")
    letters = command(cluster, "dlq", "list", "plain")["records"]
    assert [(one["held"], one["provenance"]["offset"]) for one in letters] == [
        ("copy", places[1].offset), ("copy", places[3].offset),
    ]  # fmt: skip


def test_a_dlq_lane_that_is_paused_holds_up_no_partition_for_good(
    cluster: SandboxCluster, client: StreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letter_lane, "WRITE_S", 0.5)
    make(cluster, "stuck")
    command(cluster, "lane", "pause", "stuck", "dlq", "--yes")
    work = WorkRules(mode=Mode.UNORDERED, limits=WorkLimits(records=20))
    options = ConsumerOptions(work=work, poll_records=5)
    with client.producer("stuck") as producer:
        for number in range(40):
            producer.send(b"bad %d" % number).result(LIMIT_S)
        with client.consumer("stuck", "billing", handler=Seen(), options=options) as consumer:
            until(lambda: consumer.figures().total("rejected") == 40)
            noted = command(cluster, "dlq", "list", "stuck")["matching"]
            assert noted >= 20
            command(cluster, "lane", "resume", "stuck", "dlq", "--yes")
            until(lambda: has_committed(consumer))
    letters = command(cluster, "dlq", "list", "stuck")["records"]
    rejected = [
        one["provenance"]["offset"] if one["held"] == "copy" else int(one["place"].rpartition("@")[2])
        for one in letters
    ]
    assert set(rejected) == set(range(40))


def test_a_stream_that_is_not_there(client: StreamClient) -> None:
    with pytest.raises(UsageError, match="there is no stream nothing"):
        client.consumer("nothing", "billing", handler=Seen())


def produce(cluster: SandboxCluster, topic: str, values: list[bytes]) -> None:
    """One batch, compressed with zstd: a flush ends it, however slowly it is filled."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers, "compression.type": "zstd", "linger.ms": 60_000,
            "batch.size": 200 * MIB, "message.max.bytes": 300 * MIB, "queue.buffering.max.kbytes": 300 * 1024,
            **to_confluent(cluster.security),
        }
    )  # fmt: skip
    failures: list[str] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failures.append(str(error)) if error else None)
    assert producer.flush(LIMIT_S) == 0
    assert not failures
