"""The producer on two real clusters: changes of the route under load, clusters that die and hang, a store away."""

import asyncio
import itertools
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

import pytest

from kafkakit.adapters.control_kafka import KafkaControl
from kafkakit.adapters.host import SystemClock
from kafkakit.adapters.kafka.data import KafkaData
from kafkakit.adapters.kafka.log import KafkaLog
from kafkakit.adapters.kafka.stream_producer import KafkaStreamCluster
from kafkakit.core.cluster_facts import LogSpan
from kafkakit.core.errors import RefusedError, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.ports.stores import ControlStore
from kafkakit.ports.streams import StreamCluster
from kafkakit.streams.client import control_store as route_follower
from kafkakit.streams.client.client import StreamClient
from kafkakit.streams.client.connect import connect
from kafkakit.streams.client.decide.outgoing import NotAcknowledgedError, ProducerLimits
from kafkakit.streams.client.delivery import Delivery
from kafkakit.streams.client.producer import DualPolicy, DualProducer, Producer
from kafkakit.streams.model.compressed_sizes import zstd_size
from kafkakit.streams.model.record_identity import reconcile, seen_record
from kafkakit.streams.model.route import Segment, SegmentState
from tests.contracts.stream_producer import StreamProducerContract
from tests.integration.conftest import LeaseClusters, SandboxCluster
from tests.places import ROOT
from tests.rigs.cluster_pool import SINGLE
from tests.rigs.command_line import Home
from tests.rigs.stream_routes import Routes
from tests.rigs.waiting import until

pytestmark = pytest.mark.kafka

LIMIT_S = 240.0
LIMITS = ProducerLimits(delivery_s=LIMIT_S)
_numbers = itertools.count(1)


class Pair:
    """Two clusters of one broker, their profiles, and a control store in files."""

    def __init__(self, clusters: dict[str, SandboxCluster]) -> None:
        self.clusters = clusters

    def new_topic(self, name: str, partitions: int, **configs: str) -> str:
        cluster, topic = self.clusters[name], f"orders.live.{next(_numbers)}"
        admin = cluster.open_admin()
        broker = cluster.broker_ids[0]
        kept = {"retention.ms": "-1", **configs}  # the records of the contract are of 1970
        assert admin.create_topic(topic, dict.fromkeys(range(partitions), (broker,)), kept) is None
        admin.close()
        return topic

    def segment(self, name: str, number: int, partitions: int = 3, **configs: str) -> Segment:
        """A new topic as a segment."""
        topic, cluster = self.new_topic(name, partitions, **configs), self.clusters[name]
        admin = cluster.open_admin()
        states = admin.partition_states([topic])
        admin.close()
        return Segment(
            id=number,
            cluster=cluster.name,
            cluster_id=cluster.cluster_id,
            topic=topic,
            topic_id=states[TopicPartition(topic, 0)].topic_id or "",
            partitions=partitions,
            state=SegmentState.ACTIVE,
        )

    def data(self, name: str) -> KafkaData:
        return KafkaData(self.clusters[name].bootstrap_servers, self.clusters[name].security)

    def read(self, name: str, topic: str) -> list[Record]:
        """Everything in a topic."""
        data = self.data(name)
        keys = [TopicPartition(topic, number) for number in range(3)]
        ends: Mapping[TopicPartition, range] = {}
        deadline = time.monotonic() + LIMIT_S
        while not ends:
            try:
                ends = data.offsets(keys, LIMIT_S)
            except TryLaterError:  # a broker that was killed and revived leads nothing at first
                assert time.monotonic() < deadline
                time.sleep(0.1)
        consumer = data.consumer([key for key in keys if key in ends])
        found: list[Record] = []
        while len(consumer.ended()) < len(ends):
            assert time.monotonic() < deadline
            found += consumer.poll(0.05, 5_000)
        consumer.close()
        return found


@pytest.fixture(scope="module")
def pair(lease: LeaseClusters) -> Iterator[Pair]:
    clusters = dict(zip("ab", lease(SINGLE, SINGLE), strict=True))
    with pytest.MonkeyPatch.context() as patched:
        for name, value in clusters["a"].env.items():
            patched.setenv(name, value)
        yield Pair(clusters)


@pytest.fixture
def client(pair: Pair) -> Iterator[StreamClient]:
    client = connect(pair.clusters["a"].name)
    yield client
    client.close(0)


@pytest.fixture
def routes(pair: Pair) -> Routes:
    return Routes(files(pair), f"orders-{next(_numbers)}")


def files(pair: Pair) -> ControlStore:
    from kafkakit.adapters.control_file import FileControl
    from kafkakit.wiring import write_file

    return FileControl(pair.clusters["a"].home.state_dir / "control", write_file)


class KafkaRig:
    def __init__(self, pair: Pair) -> None:
        self._pair, one = pair, pair.clusters["a"]
        self.cluster: StreamCluster = KafkaStreamCluster(one.bootstrap_servers, one.security)
        self.cluster_id = one.cluster_id

    def new_topic(self, partitions: int) -> str:
        return self._pair.new_topic("a", partitions)

    def read(self, topic: str) -> list[Record]:
        return self._pair.read("a", topic)

    def away(self) -> StreamCluster:
        return KafkaStreamCluster("127.0.0.1:1", self._pair.clusters["a"].security)


class TestKafkaStreamCluster(StreamProducerContract):
    @pytest.fixture
    def rig(self, pair: Pair) -> KafkaRig:
        return KafkaRig(pair)


class Load:
    """Sends numbered records from a thread of its own until it is told to stop."""

    def __init__(self, producer: Producer, per_s: int = 2_000) -> None:
        self._producer, self._pause_s = producer, 20 / per_s
        self.deliveries: list[Delivery] = []
        self.first_on: dict[int, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(LIMIT_S)

    def await_segment(self, number: int) -> float:
        """When the first record was acknowledged on a segment."""
        until(lambda: number in self.first_on)
        return self.first_on[number]

    def _send(self) -> None:
        while not self._stop.is_set():
            for _ in range(20):
                number = len(self.deliveries)
                delivery = self._producer.send(b"%d" % number, b"key-%d" % (number % 50))
                delivery.add_done_callback(self._note)
                self.deliveries.append(delivery)
            time.sleep(self._pause_s)

    def _note(self, delivery: object) -> None:
        if isinstance(delivery, Delivery) and delivery.exception() is None:
            self.first_on.setdefault(delivery.result().segment, time.monotonic())


def check(pair: Pair, producer: Producer, load: Load, places: dict[str, str]) -> int:
    """Every record is there, and at the place where it was acknowledged; how many are there twice."""
    written = [delivery.result(LIMIT_S) for delivery in load.deliveries]
    logs = {topic: pair.read(name, topic) for topic, name in places.items()}
    at = {(topic, r.partition.partition, r.offset): r.value for topic, log in logs.items() for r in log}
    assert all(at[w.topic, w.partition, w.offset] == b"%d" % n for n, w in enumerate(written))
    copies = Counter(r.value for log in logs.values() for r in log)
    assert set(copies) == {b"%d" % n for n in range(len(written))}
    duplicates = sum(copies.values()) - len(copies)
    (counters,) = (lane.counters for lane in producer.metrics().lanes)
    assert duplicates <= counters.sent_again
    assert counters.acknowledged == len(written)
    return duplicates


@pytest.mark.parametrize("opens_first", [True, False])
def test_the_route_changes_five_times_under_load(
    pair: Pair, client: StreamClient, routes: Routes, opens_first: bool
) -> None:
    first = pair.segment("a", 1)
    routes.create(first)
    places, times_s = {first.topic: "a"}, list[float]()
    producer = client.producer(routes.stream, limits=LIMITS)
    with Load(producer) as load:
        load.await_segment(1)
        for number, name in enumerate("babab", 2):
            segment = pair.segment(name, number)
            places[segment.topic] = name
            if opens_first:
                live = routes.read().lane("live")
                assert live is not None
                routes.change("live", segments=(*live.segments, replace(segment, state=SegmentState.OPENED)))
                time.sleep(1.0)  # clients connect meanwhile, as they have time to in a planned failover
            changed_s = time.monotonic()
            routes.move(segment)
            times_s.append(load.await_segment(number) - changed_s)
            time.sleep(0.3)
    duplicates = check(pair, producer, load, places)
    (counters,) = (lane.counters for lane in producer.metrics().lanes)
    print(
        f"opened first: {opens_first}; {len(load.deliveries)} records, {duplicates} duplicates, at most "
        f"{counters.sent_again}; change to first record: {', '.join(f'{s * 1000:.0f}' for s in times_s)} ms"
    )
    assert counters.switches == 5


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_cluster_that_dies_or_hangs_under_load_loses_nothing(
    pair: Pair, client: StreamClient, routes: Routes, is_killed: bool
) -> None:
    first, second = pair.segment("b", 1), pair.segment("a", 2)
    routes.create(first)
    producer = client.producer(routes.stream, limits=LIMITS)
    broker = pair.clusters["b"].broker_ids[0]
    with Load(producer) as load:
        load.await_segment(1)
        time.sleep(0.3)
        if is_killed:
            pair.clusters["b"].kill(broker)
            try:
                failed_over(producer, load, routes, second)
            finally:
                pair.clusters["b"].revive()
        else:
            with pair.clusters["b"].hung():
                failed_over(producer, load, routes, second)
    duplicates = check(pair, producer, load, {first.topic: "b", second.topic: "a"})
    (counters,) = (lane.counters for lane in producer.metrics().lanes)
    print(f"killed: {is_killed}; {len(load.deliveries)} records, {duplicates} duplicates of {counters.sent_again}")


def failed_over(producer: Producer, load: Load, routes: Routes, segment: Segment) -> None:
    time.sleep(0.5)
    changed_s = time.monotonic()
    routes.move(segment)
    print(f"first record after {(load.await_segment(segment.id) - changed_s) * 1000:.0f} ms")
    # The dead side is dropped in the background: no later record waits for it.
    before = len(load.deliveries)
    until(lambda: len(load.deliveries) > before + 1_000)
    assert load.deliveries[before + 500].result(LIMIT_S).segment == segment.id
    until(lambda: producer.metrics().lanes[0].counters.sent_again > 0)


APPLICATION = """
import itertools, sys
from kafkakit.streams.client.connect import connect

def tell(number, place):
    sys.stdout.write(f"{number}\\n")

producer = connect(profile=sys.argv[1]).producer(sys.argv[2])
for number in itertools.count():
    producer.send(b"%d" % number).add_done_callback(lambda delivery, number=number: tell(number, delivery.result()))
    if number % 100 == 0:
        sys.stdout.flush()
"""


def test_what_a_killed_application_was_told_is_there(pair: Pair, routes: Routes) -> None:
    """SIGKILL while it sends, before and after a change of the route."""
    first, second = pair.segment("a", 1), pair.segment("b", 2)
    routes.create(first)
    for segment in (first, second):
        if segment is second:
            routes.move(second)
        arguments = [sys.executable, "-c", APPLICATION, pair.clusters["a"].name, routes.stream]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, cwd=ROOT) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(3_000)]
            process.kill()
            lines += process.stdout.read().splitlines(keepends=True)
        told = {line.strip() for line in lines if line.endswith(b"\n")}
        assert len(told) >= 3_000
        name = "a" if segment is first else "b"
        written = Counter(record.value for record in pair.read(name, segment.topic))
        assert told <= set(written)
        assert max(written.values()) == 1
        print(f"told of {len(told)} records, {len(written)} are there")


def test_a_hung_cluster_fails_records_by_our_own_time_limit(pair: Pair, client: StreamClient, routes: Routes) -> None:
    routes.create(pair.segment("b", 1))
    producer = client.producer(routes.stream, limits=replace(LIMITS, delivery_s=2.0))
    until(lambda: producer.send(b"before").exception(LIMIT_S) is None)  # on a slow machine later than after 2 s
    with pair.clusters["b"].hung():
        delivery = producer.send(b"x")
        with pytest.raises(NotAcknowledgedError, match="given up after") as raised:
            delivery.result(LIMIT_S)  # librdkafka itself reports nothing for 10 to 20 s, and in other words
        assert raised.value.may_be_written
        report = producer.close(0.2)
        assert not report
        # While the cluster still hangs, no thread but the one that drops its connection is left.
        until(lambda: "kafkakit-producer-" + routes.stream not in {t.name for t in threading.enumerate()})


def test_the_last_route_stays_in_use_while_the_store_hangs(
    pair: Pair, routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is a topic of one cluster, the stream is on the other one."""
    monkeypatch.setattr(route_follower, "WAIT_S", 1.0)
    monkeypatch.setenv("KAFKAKIT_CONTROL_STORE", "kafka")
    one = pair.clusters["a"]
    store = KafkaControl(pair.data("a"), one.open_admin)
    kept = Routes(store, routes.stream)
    kept.create(pair.segment("b", 1))
    client = connect(one.name)
    producer = client.producer(routes.stream, limits=LIMITS)
    producer.send(b"before").result(LIMIT_S)
    with pair.clusters["a"].hung():
        until(lambda: bool(producer.metrics().route.problem))
        assert producer.send(b"meanwhile").result(LIMIT_S).segment == 1
        assert producer.metrics().route.stale_s >= 0
    following = pair.segment("b", 2)
    until(lambda: moved(kept, following))
    until(lambda: producer.metrics().route.epoch == 2 and not producer.metrics().route.problem)
    assert producer.send(b"after").result(LIMIT_S).segment == 2
    client.close(1)
    store.close()


def moved(routes: Routes, segment: Segment) -> bool:
    with suppress(TryLaterError):  # it may be written, though no answer came
        if routes.read().epoch == 1:
            routes.move(segment)
        return True
    return False


def test_another_cluster_behind_the_address_is_refused(pair: Pair, client: StreamClient, routes: Routes) -> None:
    right = pair.segment("a", 1)
    routes.create(replace(right, cluster=pair.clusters["b"].name))
    with pytest.raises(RefusedError, match=f"answers as cluster {pair.clusters['b'].cluster_id}"):
        client.producer(routes.stream, limits=LIMITS).send(b"x").result(LIMIT_S)
    assert pair.read("a", right.topic) == []


def test_no_batch_is_larger_than_the_limit_before_compression(pair: Pair, client: StreamClient, routes: Routes) -> None:
    """The fetched batches themselves are measured, by the headers of their zstd frames."""
    limit = 2 << 20
    segment = pair.segment("a", 1, partitions=1, **{"max.message.bytes": "4000000"})
    routes.create(segment)
    limits = ProducerLimits(batch_bytes=limit, linger_ms=200, delivery_s=LIMIT_S)
    producer = client.producer(routes.stream, limits=limits)
    sizes = [50_000] * 60 + [limit - 300, 10, limit - 300, 900_000, 900_000, 999_000, 5] + [200_000] * 30
    deliveries = [producer.send(bytes(size)) for size in sizes]
    for delivery in deliveries:
        delivery.result(LIMIT_S)
    found = batch_bytes(pair, segment.topic)
    print(f"{len(sizes)} records, {sum(sizes):,} bytes, in batches of {sorted(found)}")
    assert sum(found) > sum(sizes)
    assert limit - 300 < max(found) <= limit
    assert len(found) < len(sizes) // 2


def batch_bytes(pair: Pair, topic: str) -> list[int]:
    """The bytes that the records of each batch have without compression."""
    one, key = pair.clusters["a"], TopicPartition(topic, 0)
    log = KafkaLog(one.bootstrap_servers, one.security, request_timeout_s=10, bootstrap_timeout_s=10)
    end = log.spans([key])[key]
    assert isinstance(end, LogSpan)
    found, offset = list[int](), 0
    while offset < end.end:
        data = log.fetch({key: offset}, max_bytes=8 << 20, wait_ms=100)[key].records
        at = 0
        while len(data) - at >= 61:
            length = int.from_bytes(data[at + 8 : at + 12], "big")
            if at + 12 + length > len(data):
                break
            assert data[at + 22] & 7 == 4  # zstd
            found.append(zstd_size(data[at + 61 : at + 12 + length]).at_most)
            base, last = int.from_bytes(data[at : at + 8], "big"), int.from_bytes(data[at + 23 : at + 27], "big")
            offset, at = base + last + 1, at + 12 + length
    log.close()
    return found


def test_both_sides_of_a_dual_write_agree_after_a_failure(pair: Pair, client: StreamClient, routes: Routes) -> None:
    copies = Routes(files(pair), f"{routes.stream}-copies")
    here, there = pair.segment("a", 1), pair.segment("b", 1)
    routes.create(here)
    copies.create(there)
    # What the primary has no answer for in time is never repaired: there it has time, however slow the machine is.
    first, second = (
        client.producer(name, limits=replace(LIMITS, delivery_s=limit_s))
        for name, limit_s in ((routes.stream, LIMIT_S), (copies.stream, 1.0))
    )
    producer = DualProducer(first, second, DualPolicy.PRIMARY_THEN_REPAIR, SystemClock())
    for number in range(300):
        producer.send(b"%d" % number, b"%d" % number)
    assert not producer.flush(LIMIT_S)
    with pair.clusters["b"].hung():
        for number in range(300):
            producer.send(b"again %d" % number, b"%d" % number)
        until(lambda: producer.figures().failed > 0)
    assert not producer.flush(LIMIT_S)
    sides = [
        [seen_record(record.headers, record.key) for record in pair.read(name, topic)]
        for name, topic in (("a", here.topic), ("b", there.topic))
    ]
    found = reconcile(sides[0], sides[1], 0, 1 << 47)
    assert (found.is_equal, found.primary.identities, found.primary.duplicates) == (True, 600, 0)
    cluster = pair.clusters["a"]
    home = Home(cluster.home.folder)
    words = ("--profile", cluster.name, "streams", "reconcile", routes.stream, copies.stream, "--until", "-1ms")
    ran = home.run(*words, "-o", "json")
    assert (ran.code, ran.json["both"], ran.json["is_equal"]) == (0, 600, True), ran.stderr
    producer.primary.send(b"on one side alone").result(LIMIT_S)
    ran = home.run(*words, "-o", "json")
    assert (ran.code, ran.json["both"], ran.json["only_in_primary"]) == (1, 600, 1), ran.stderr
    producer.close()


def test_asyncio_on_real_clusters(pair: Pair, client: StreamClient, routes: Routes) -> None:
    first, second = pair.segment("a", 1), pair.segment("b", 2)
    routes.create(first)

    async def send() -> Counter[int]:
        async with client.async_producer(routes.stream, limits=replace(LIMITS, lane_records=500)) as producer:
            found: Counter[int] = Counter()
            for turn in range(4):
                deliveries = [await producer.send(b"%d" % n, b"%d" % n) for n in range(1_000)]
                found.update([(await delivery).segment for delivery in deliveries])
                if turn == 1:
                    await asyncio.to_thread(routes.move, second)
                    while producer.metrics().route.epoch < 2:
                        await asyncio.sleep(0.01)
            return found

    assert asyncio.run(send()) == {1: 2_000, 2: 2_000}
