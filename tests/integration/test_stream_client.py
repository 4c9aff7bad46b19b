"""The client as applications use it: a stream made by the command, rules, rejected records, and a batch too large."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.serialization import SerializationContext, StringDeserializer, StringSerializer

from kafkakit.config.read.environment import read_environment
from kafkakit.config.read.settings import GivenSettings, load_settings
from kafkakit.config.security import to_confluent
from kafkakit.core.errors import InfeasibleError, RefusedError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.client import dead_letters as dead_letter_lane
from kafkakit.streams.client.client import StreamClient
from kafkakit.streams.client.connect import connect
from kafkakit.streams.client.consumer import StreamConsumer
from kafkakit.streams.client.dead_letters import BOMB_REASON, ConsumerHooks, ConsumerOptions
from kafkakit.streams.client.decide.figures import ConsumerState
from kafkakit.streams.client.decide.work_rules import Mode, RejectError, RetryRule, WorkLimits, WorkRules
from kafkakit.streams.client.producer import RecordHooks, RecordOutputs
from kafkakit.streams.client.workers import StreamRecord
from kafkakit.streams.model.route import LIVE, LaneRule
from kafkakit.streams.routes.api_act import RouteStore
from kafkakit.wiring import open_control, system_clock
from tests.integration.conftest import LeaseClusters, SandboxCluster
from tests.integration.stream_clients import produce
from tests.integration.stream_rig import forget_members
from tests.rigs.bombs import MIB, append_batch, zeros_batch
from tests.rigs.cluster_pool import SINGLE
from tests.rigs.waiting import until

pytestmark = pytest.mark.kafka
LIMIT_S = 240.0


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


def has_committed(consumer: StreamConsumer) -> bool:
    """Whether all that was there at the latest commit is committed, in every lane, and nothing is under way."""
    partitions = consumer.figures().partitions
    return len(partitions) == 3 and all(not (one.lag or one.buffered or one.undurable) for one in partitions)


def test_rules_choose_lanes_and_rejected_records_keep_their_provenance(
    cluster: SandboxCluster, client: StreamClient
) -> None:
    make(cluster, "orders")
    settings = load_settings(GivenSettings(profile=cluster.name), read_environment(), warn=print, input_allowed=False)
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
    key = TopicPartition(segment.topic, 0)
    seen = Seen()
    options = ConsumerOptions(concurrency=2, strict_guard=strict)
    with client.consumer(stream, "billing", handler=seen, options=options) as consumer:
        produce(cluster, key, [b"before"])
        append_batch(cluster, key, zeros_batch(64, MIB))
        produce(cluster, key, [b"after"])
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


def test_a_topic_that_is_made_anew_and_is_as_long_as_before_is_noticed(
    cluster: SandboxCluster, client: StreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The consumer fails with the command to link it; then the new records are handled, and no offset of before counts.

    If reading is fast enough it may find the log cut itself, and says the same.
    """
    monkeypatch.setattr("kafkakit.streams.client.consumer._TOPICS_S", 1.0)
    monkeypatch.setattr("kafkakit.streams.client.consumer._TOPICS_AGAIN_S", 0.2)
    make(cluster, "again")
    (place,) = [
        TopicPartition(segment.topic, 0)
        for lane, segment in client.follower("again").current().segments()
        if lane.name == LIVE
    ]
    seen = Seen()
    with client.producer("again") as producer:
        for n in range(6):
            producer.send(b"%d" % n).result(LIMIT_S)
    consumer = client.consumer("again", "billing", handler=seen)
    consumer.start()
    until(lambda: len(seen.records) == 6 and has_committed(consumer))
    with closing(cluster.open_admin()) as admin:
        assert admin.delete_topic(place.topic) is None
        until(lambda: admin.create_topic(place.topic, {0: cluster.broker_ids[:1]}, {}) is None)
    produce(cluster, place, [b"new %d" % n for n in range(6)])
    until(lambda: consumer.state is ConsumerState.FAILED)
    with pytest.raises(RefusedError, match="it was deleted and created again"):
        consumer.close()
    epoch = client.follower("again").epoch
    words = ("--topic", place.topic, "--lane", "live", "--cluster", cluster.name, "--yes")
    command(cluster, "link", "again", *words)
    until(lambda: client.follower("again").epoch > epoch)
    with client.consumer("again", "billing", handler=seen):
        until(lambda: len(seen.records) == 12)
    assert seen.records == Counter(("live", value) for n in range(6) for value in (b"%d" % n, b"new %d" % n))


def test_a_stream_that_is_not_there(client: StreamClient) -> None:
    with pytest.raises(UsageError, match="there is no stream nothing"):
        client.consumer("nothing", "billing", handler=Seen())


def test_objects_go_through_serializers_and_wrong_bytes_to_the_dead_letters(
    cluster: SandboxCluster, client: StreamClient
) -> None:
    """With confluent-kafka's own for keys, and functions of the application for values."""
    make(cluster, "objects")
    topics, seen = set[str](), list[tuple[str, Any]]()

    def dump(content: object, context: SerializationContext) -> bytes:
        topics.add(context.topic)
        return json.dumps(content).encode()

    def load(content: bytes, context: SerializationContext) -> object:
        topics.add(context.topic)
        return json.loads(content)

    writing = RecordHooks(key_serializer=StringSerializer(), value_serializer=dump)
    reading = ConsumerHooks(key_deserializer=StringDeserializer(), value_deserializer=load)
    with (
        client.producer("objects", hooks=writing) as producer,
        client.producer("objects") as plain,
        client.consumer(
            "objects", "billing", handler=lambda it: seen.append((it.key, it.value)), hooks=reading
        ) as made,
    ):
        producer.send({"total": 1}, "anna").result(LIMIT_S)
        bad = plain.send(b"{", b"bob").result(LIMIT_S)
        producer.send({"total": 2}, "anna").result(LIMIT_S)
        until(lambda: len(seen) == 2 and made.figures().dead_letters_written == 1)
    assert (sorted(seen, key=str), topics) == ([("anna", {"total": 1}), ("anna", {"total": 2})], {"objects"})
    (letter,) = command(cluster, "dlq", "list", "objects")["records"]
    found = letter["provenance"]
    assert (found["offset"], found["error_class"]) == (bad.offset, "DeserializationError")


TRANSFORM = """
import json, os, signal, sys
from kafkakit.adapters.kafka import group_consumer
from kafkakit.streams.client.connect import ConsumerOptions, MemberRule, RetryLaterError, WorkRules, connect

given = json.loads(sys.argv[1])

class Dying:
    \"\"\"A producer that ends the process at a call of a name, with something written that is in the log.\"\"\"

    def __init__(self, producer):
        self._producer, self._has_written = producer, False

    def __getattr__(self, name):
        found = getattr(self._producer, name)
        def call(*args, **more):
            self._has_written |= name == "produce"
            if name == given["dies_before"] and self._has_written:
                assert self._producer.flush(200) == 0
                os.kill(os.getpid(), signal.SIGKILL)
            answer = found(*args, **more)
            if name == given["dies_after"] and self._has_written:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer
        return call

whole = group_consumer.KafkaTransactionalConsumer.__init__
def init(self, *args):
    whole(self, *args)
    self._producer = Dying(self._producer)
group_consumer.KafkaTransactionalConsumer.__init__ = init

def transform(record, outputs):
    number = int(record.value)
    if given["odd_wait"] and number % 2:
        raise RetryLaterError(after_s=1000)
    for part in ("a", "b"):
        outputs.send(b"%d%s" % (number, part.encode()), record.key, headers=[("life", given["life"].encode())])

rule = MemberRule(session_s=given["session_s"], instance=given["instance"])
options = ConsumerOptions(commit_every_s=0.05, member=rule)
with connect(given["profile"]) as client:
    source, target = given["source"], given["target"]
    consumer = client.transformer(source, source, target, transform=transform, options=options)
    signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
    print("ready", flush=True)
    consumer.run()
"""


def transform_process(cluster: SandboxCluster, stream: str, life: str, instance: str, **given: Any) -> Any:
    wanted = {
        "profile": cluster.name, "source": stream, "target": f"{stream}-sums", "life": life, "instance": instance,
        "session_s": 600.0, "dies_before": "", "dies_after": "", "odd_wait": False, **given,
    }  # fmt: skip
    env = cluster.env | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-c", TRANSFORM, json.dumps(wanted)], env=env, stdout=subprocess.PIPE)


def outputs_of(
    cluster: SandboxCluster, topic: str, isolation: str = "read_committed", partitions: int = 2
) -> Counter[tuple[str, str]]:
    """Every record of a topic up to its end, or to where a transaction is open: value and the life that wrote it."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    client = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader", "enable.partition.eof": True,
            "isolation.level": isolation, "enable.auto.commit": False, **to_confluent(cluster.security),
        }
    )  # fmt: skip
    found, ended = Counter[tuple[str, str]](), set[int]()
    client.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    try:
        while len(ended) < partitions:
            message = client.poll(LIMIT_S)
            assert message is not None
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF
                ended.add(message.partition())
            else:
                found[message.value().decode(), dict(message.headers())["life"].decode()] += 1
    finally:
        client.close()
    return found


@pytest.mark.parametrize("instance", ["", "one"])
def test_a_transform_that_is_killed_writes_each_output_once(
    cluster: SandboxCluster, client: StreamClient, instance: str
) -> None:
    """Before its commits are sent, before its transaction ends, and after it has: nothing twice, and nothing lost.

    The third life handles even numbers only; what it committed with gaps is not handled again by the fourth.
    """
    stream, numbers = f"exact-{instance or 'any'}", range(120)
    for name in (stream, f"{stream}-sums"):
        command(cluster, "create", name, "--partitions", "2", "--yes")
    with client.producer(stream) as producer:
        for number in numbers:
            producer.send(b"%d" % number, b"%d" % (number % 7))
    topic = client.follower(f"{stream}-sums").current().lanes[0].segments[0].topic
    lives: list[dict[str, Any]] = [
        {"dies_before": "send_offsets_to_transaction"}, {"dies_before": "commit_transaction"},
        {"dies_after": "commit_transaction", "odd_wait": True},
    ]  # fmt: skip
    for life, given in enumerate(lives):
        process = transform_process(cluster, stream, str(life), instance, **given)
        assert process.wait(LIMIT_S) == -signal.SIGKILL
        if not instance:
            forget_members(cluster, stream)
    last = transform_process(cluster, stream, "3", instance)
    wanted = Counter(f"{number}{part}" for number in numbers for part in "ab")
    until(lambda: Counter(value for value, _ in outputs_of(cluster, topic).elements()) >= wanted)
    last.terminate()
    assert last.wait(LIMIT_S) == 0
    written = outputs_of(cluster, topic)
    assert Counter(value for value, _ in written.elements()) == wanted
    by_life = {life: {int(value[:-1]) for value, found in written if found == life} for life in "0123"}
    assert not by_life["0"] | by_life["1"]
    assert by_life["2"]
    assert all(number % 2 == 0 for number in by_life["2"])
    assert {number for number in numbers if number % 2} <= by_life["3"]
    taken_back = outputs_of(cluster, topic, "read_uncommitted")
    assert all(any(found == life for _, found in taken_back) for life in "01")


def test_a_transform_stops_before_it_writes_to_a_route_that_has_moved_on(
    cluster: SandboxCluster, client: StreamClient
) -> None:
    """And one that is started then is refused, or goes on from what was committed."""
    for name in ("moved", "moved-sums"):
        command(cluster, "create", name, "--partitions", "2", "--yes")

    def double(record: StreamRecord, outputs: RecordOutputs) -> None:
        outputs.send(record.value * 2, record.key, headers=[("life", b"1")])

    first = client.follower("moved-sums").current().lanes[0].segments[0]
    options = ConsumerOptions(commit_every_s=0.05)
    made = client.transformer("moved", "sums", "moved-sums", transform=double, options=options)
    with client.producer("moved") as producer:
        made.start()
        producer.send(b"1").result(LIMIT_S)
        until(lambda: outputs_of(cluster, first.topic) == Counter([("11", "1")]))
        command(cluster, "repartition", "moved-sums", "--lane", "live", "--partitions", "3", "--yes")
        until(lambda: made.state is ConsumerState.FAILED)
        producer.send(b"2").result(LIMIT_S)
    with pytest.raises(InfeasibleError, match="it is segment"):
        made.close()
    assert outputs_of(cluster, first.topic) == Counter([("11", "1")])
    second = client.follower("moved-sums").current().lanes[0].active
    assert second is not None
    with client.transformer("moved", "sums", "moved-sums", transform=double, options=options):
        until(lambda: outputs_of(cluster, second.topic, partitions=3) == Counter([("22", "1")]))


def test_partitions_that_change_hands_write_each_output_once(cluster: SandboxCluster, client: StreamClient) -> None:
    """Also where handlers end after their partition is another member's, and where a member leaves."""
    for name in ("shared", "shared-sums"):
        command(cluster, "create", name, "--partitions", "2", "--yes")
    gate, both = threading.Event(), threading.Event()

    def transform(record: StreamRecord, outputs: RecordOutputs) -> None:
        if int(record.value) >= 50:
            gate.wait(LIMIT_S)
        outputs.send(record.value, record.key, headers=[("life", b"1")])

    def at_once(record: StreamRecord, outputs: RecordOutputs) -> None:
        outputs.send(record.value, record.key, headers=[("life", b"2")])

    topic = client.follower("shared-sums").current().lanes[0].segments[0].topic
    options = ConsumerOptions(commit_every_s=0.05, revoke_s=0.1)
    hooks = ConsumerHooks(on_assign=lambda _: both.set())

    def values() -> Counter[str]:
        return Counter(value for value, _ in outputs_of(cluster, topic).elements())

    with client.producer("shared") as producer:
        for number in range(400):
            producer.send(b"%d" % number, b"%d" % (number % 50))
    with client.transformer("shared", "shared", "shared-sums", transform=transform, options=options) as one:
        until(lambda: one.figures().total("in_flight") >= 8 and len(values()) >= 50)
        with client.transformer("shared", "shared", "shared-sums", transform=at_once, options=options, hooks=hooks):
            until(both.is_set)
            gate.set()
            until(lambda: len(values()) == 400)
            lives = {life for _, life in outputs_of(cluster, topic)}
        with client.producer("shared") as producer:
            for number in range(400, 500):
                producer.send(b"%d" % number, b"%d" % (number % 50))
        until(lambda: len(values()) == 500)
    assert lives == {"1", "2"}
    assert values() == Counter(map(str, range(500)))
