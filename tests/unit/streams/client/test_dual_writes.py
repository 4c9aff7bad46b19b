"""Dual writes over fake clusters, and the comparison of both sides afterwards; transforms in transactions."""

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from kafkakit.core.errors import InfeasibleError, TryLaterError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import OutgoingRecord
from kafkakit.ports.streams import MemberRule, TransactionalConsumer, TransactionRule
from kafkakit.streams.client import cluster_reader
from kafkakit.streams.client import producer as dual
from kafkakit.streams.client.client import StreamClient
from kafkakit.streams.client.cluster_reader import Outbox, Transform
from kafkakit.streams.client.consumer import StreamConsumer
from kafkakit.streams.client.dead_letters import ConsumerOptions
from kafkakit.streams.client.decide.client_documents import ClientEntry
from kafkakit.streams.client.decide.figures import ConsumerState
from kafkakit.streams.client.decide.outgoing import (
    INGESTED_HEADER,
    BackPressureError,
    DualWriteError,
    ProducerClosedError,
    ProducerLimits,
)
from kafkakit.streams.client.decide.partition_work import MIN_LIMIT_CHARS, CommitRule, NextCommit
from kafkakit.streams.client.decide.reading import TopicSource
from kafkakit.streams.client.decide.work_rules import DependencyDownError, Mode, RetryLaterError, WorkRules
from kafkakit.streams.client.producer import DualPolicy, DualProducer, RecordOutputs
from kafkakit.streams.client.workers import OwnedPartition, PartitionOrigin, StreamRecord
from kafkakit.streams.model.commit import CommitState
from kafkakit.streams.model.kkm1.encode import advise, encode_commit
from kafkakit.streams.model.record_identity import HEADER, Reconciliation, SeenRecord, reconcile, seen_record
from tests.fakes.group_consumer import FakeGroups, FakeRecord
from tests.rigs.stream_routes import FakeClusters, Routes
from tests.rigs.waiting import until
from tests.unit.streams.client.test_dead_letters import FAST

LIMIT_S = 120.0
LIMITS = ProducerLimits(delivery_s=LIMIT_S, drain_s=0.05)
ALWAYS = (0, 1 << 48)


@pytest.fixture
def fakes() -> FakeClusters:
    fakes = FakeClusters()
    fakes.routes.create(fakes.segment("a"))
    Routes(fakes.store, "copies").create(fakes.segment("b"))
    return fakes


@pytest.fixture
def client(fakes: FakeClusters) -> Iterator[StreamClient]:
    client = fakes.client()
    yield client
    client.close(0)


def seen(fakes: FakeClusters, cluster: str) -> list[SeenRecord | None]:
    topics = fakes.clusters[cluster].topics.values()
    return [seen_record(record.headers, record.key) for topic in topics for _, record in topic.log]


def compared(fakes: FakeClusters) -> Reconciliation:
    return reconcile(seen(fakes, "a"), seen(fakes, "b"), *ALWAYS)


def log_b(fakes: FakeClusters) -> list[bytes | None]:
    return [record.value for topic in fakes.clusters["b"].topics.values() for _, record in topic.log]


def test_both_sides_have_what_is_acknowledged(fakes: FakeClusters, client: StreamClient) -> None:
    producer = client.dual_producer("orders", "copies", DualPolicy.BOTH, limits=LIMITS)
    written = [producer.send(b"%d" % n, b"k") for n in range(100)]
    assert {delivery.result(LIMIT_S).cluster_id for delivery in written} == {"cluster-a"}
    found = compared(fakes)
    assert (found.is_equal, found.primary.identities, found.secondary.identities) == (True, 100, 100)
    assert producer.figures().written == 100


def test_both_is_not_acknowledged_by_one_side_alone(fakes: FakeClusters, client: StreamClient) -> None:
    limits = replace(LIMITS, delivery_s=0.2, drain_s=0)
    producer = client.dual_producer("orders", "copies", DualPolicy.BOTH, limits=limits)
    fakes.clusters["b"].is_away = True
    delivery = producer.send(b"x")
    with pytest.raises(DualWriteError, match="not written twice: the secondary: ") as raised:
        delivery.result(LIMIT_S)
    assert raised.value.primary is None
    assert raised.value.may_be_written
    assert compared(fakes).missing == 1


def test_a_secondary_that_takes_no_record_fails_its_delivery_alone(fakes: FakeClusters, client: StreamClient) -> None:
    producer = client.dual_producer("orders", "copies", DualPolicy.BOTH, limits=replace(LIMITS, lane_records=2))
    producer.secondary.close(0)
    with pytest.raises(DualWriteError) as raised:
        producer.send(b"x").result(LIMIT_S)
    assert isinstance(raised.value.secondary, ProducerClosedError)


def test_the_secondary_is_repaired_in_order(
    fakes: FakeClusters, client: StreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dual, "REPAIR_AGAIN_S", 0.05)
    limits = replace(LIMITS, delivery_s=0.3)
    producer = client.dual_producer("orders", "copies", DualPolicy.PRIMARY_THEN_REPAIR, limits=limits)
    producer.send(b"first", b"k").result(LIMIT_S)
    until(lambda: len(log_b(fakes)) == 1)
    fakes.clusters["b"].is_away = True
    for n in range(20):
        producer.send(b"%d" % n, b"k").result(LIMIT_S)
    until(lambda: producer.figures().failed > 0)
    assert producer.flush(0.05).lanes[-1][0] == "secondary/repairs"
    assert compared(fakes).missing == 20
    fakes.clusters["b"].is_away = False
    assert not producer.flush(LIMIT_S)
    found = compared(fakes)
    assert (found.is_equal, producer.figures().repair_waiting) == (True, 0)
    # Records that were sent again keep their order, so the last value of a key is the last one there.
    assert log_b(fakes)[-20:] == [b"%d" % n for n in range(20)]


def test_what_the_repair_queue_cannot_hold_is_counted_and_found(fakes: FakeClusters, client: StreamClient) -> None:
    first, second = client.producer("orders", limits=LIMITS), client.producer("copies", limits=LIMITS)
    fakes.clusters["b"].is_away = True
    clock = client._parts.clock
    producer = DualProducer(first, second, DualPolicy.PRIMARY_THEN_REPAIR, clock, repair_bytes=1_000)
    for n in range(20):
        producer.send(b"%d" % n).result(LIMIT_S)
    dropped = producer.figures().repair_dropped
    assert 10 < dropped < 20
    fakes.clusters["b"].is_away = False
    until(lambda: producer.figures().repair_waiting == 0)
    assert compared(fakes).missing == dropped
    assert len(compared(fakes).examples_missing) == 10
    producer.close()


def test_a_shadow_holds_up_nothing(fakes: FakeClusters, client: StreamClient) -> None:
    limits = replace(LIMITS, lane_records=10)
    producer = client.dual_producer("orders", "copies", DualPolicy.SHADOW, limits=limits)
    fakes.clusters["b"].is_away = True
    for n in range(30):
        assert producer.send(b"%d" % n).result(LIMIT_S).cluster_id == "cluster-a"
    assert producer.figures().failed == 20
    with pytest.raises(BackPressureError):
        producer.secondary.send(b"x", wait_s=0)
    assert producer.close(0.05).lanes == (("secondary/live", 10),)


def test_two_sides_are_two_streams(client: StreamClient) -> None:
    with pytest.raises(UsageError, match="needs two streams"):
        client.dual_producer("orders", "orders", DualPolicy.BOTH)


def test_threads_end_with_the_producer(fakes: FakeClusters) -> None:
    client = fakes.client()
    producer = client.dual_producer("orders", "copies", DualPolicy.PRIMARY_THEN_REPAIR, limits=LIMITS)
    producer.send(b"x").result(LIMIT_S)
    client.close(1)
    until(lambda: not [t for t in threading.enumerate() if t.name.startswith("kafkakit-")])


def test_a_comparison_tells_missing_extra_duplicate_and_other_keys(client: StreamClient) -> None:
    producer = client.producer("orders")
    records = [producer.prepared(b"%d" % n, b"%d" % n) for n in range(6)]
    sides = [seen_record(record.headers, record.key) for record in records]
    other_key = seen_record(records[4].headers, b"other")
    found = reconcile([*sides[:5], sides[0], None], [*sides[1:4], other_key, sides[5]], *ALWAYS)
    assert (found.missing, found.extra, found.other_key, found.is_equal) == (1, 1, 1, False)
    assert (found.primary.duplicates, found.primary.records, found.primary.without_identity) == (1, 6, 1)
    assert found.secondary.duplicates == 0
    assert (len(found.examples_missing), len(found.examples_extra), len(found.examples_other_key)) == (1, 1, 1)
    assert reconcile(sides, [], 0, 1).missing == 0
    with pytest.raises(UsageError, match="is empty"):
        reconcile([], [], 5, 5)
    assert seen_record((("kafkakit-id", b"damaged"),), None) is None
    assert seen_record((("kafkakit-id", None),), None) is None
    assert reconcile([SeenRecord(b"damaged", 0)], [], *ALWAYS).primary.without_identity == 1


class Harness:
    """A stream `orders` of one segment with records 0 to 99, a stream `totals` on the same cluster, and a client."""

    def __init__(self) -> None:
        self.fakes, self.groups = FakeClusters(), FakeGroups()
        self.totals = Routes(self.fakes.store, "totals")
        self.source, self.target = self.fakes.segment("a"), self.fakes.segment("a")
        self.fakes.routes.create(self.source)
        self.totals.create(self.target)
        self.groups.make_topic(self.source.topic, 1)
        self.place = TopicPartition(self.source.topic, 0)
        self.groups.write(self.place, [b"%d" % number for number in range(100)])
        self.rules: list[TransactionRule] = []
        self.client = self.fakes.client()
        self.client._parts = replace(self.client._parts, open_transactional=self.open)

    def open(self, profile: str, group: str, member: MemberRule, rule: TransactionRule) -> TransactionalConsumer:
        self.rules.append(rule)
        return self.groups.open_transactional(group)

    def transformer(self, transform: Transform, **options: Any) -> StreamConsumer:
        given = {"commit_every_s": 0.01, "work": WorkRules(mode=Mode.UNORDERED, retry=FAST), **options}
        return self.client.transformer(
            "orders", "sums", "totals", transform=transform, options=ConsumerOptions(**given)
        )

    def written(self, topic: str = "") -> Counter[bytes | None]:
        with self.groups.lock:
            return Counter(record.value for record in self.groups.written.get(topic or self.target.topic, []))

    def base(self) -> int:
        found = self.groups.commits.get(("sums", self.place))
        return 0 if found is None else found.offset


@pytest.fixture
def desk() -> Iterator[Harness]:
    found = Harness()
    yield found
    found.client.close(0)


def twice(record: StreamRecord, outputs: RecordOutputs) -> None:
    for part in (b"a", b"b"):
        outputs.send(record.value + part, record.key)


WANTED = Counter(b"%d%s" % (number, part) for number in range(100) for part in (b"a", b"b"))


def test_outputs_are_written_once_whatever_becomes_of_transactions(desk: Harness) -> None:
    """One fails, one is done without an answer, and handlers fail after they have sent something."""
    failed = set[bytes]()
    desk.groups.refusals = ["the transaction failed", "lost", "the transaction failed"]

    def transform(record: StreamRecord, outputs: RecordOutputs) -> None:
        twice(record, outputs)
        if int(record.value) % 7 == 0 and record.value not in failed:
            failed.add(record.value)
            raise ValueError("once")

    with desk.transformer(transform) as made:
        until(lambda: desk.base() == 100 and made.figures().reconnects == 1)
        desk.groups.write(desk.place, [b"777"])
        until(lambda: desk.base() == 101)
    assert desk.written() == WANTED + Counter([b"777a", b"777b"])
    assert not desk.groups.refusals
    (rule,) = set(desk.rules)
    assert rule.transactional_id.startswith("kafkakit.orders.sums.")
    (first,) = {tuple(name for name, _ in record.headers) for record in desk.groups.written[desk.target.topic]}
    assert first == (HEADER, INGESTED_HEADER)


def test_what_a_commit_leaves_out_is_not_written_with_it(desk: Harness) -> None:
    """Acknowledgements that do not fit into the metadata are handled again by the next member, and written then."""
    go_on = threading.Event()

    def transform(record: StreamRecord, outputs: RecordOutputs) -> None:
        if int(record.value) % 5 in (0, 2) and not go_on.is_set():
            raise RetryLaterError(after_s=1_000)
        twice(record, outputs)

    commit = CommitRule(limit_chars=MIN_LIMIT_CHARS)
    with desk.transformer(transform, commit=commit) as made:
        until(lambda: made.figures().total("handled") == 60 and desk.written())
        until(lambda: made.figures().partitions[0].duplicates == 60 - sum(desk.written().values()) // 2)
    before = desk.written()
    assert 0 < sum(before.values()) < 120
    go_on.set()
    with desk.transformer(transform):
        until(lambda: desk.base() == 100)
    assert desk.written() == WANTED


@pytest.mark.parametrize("stream", ["orders", "totals"])
def test_a_route_that_moves_on_ends_a_transform_before_it_writes(desk: Harness, stream: str) -> None:
    made = desk.transformer(twice)
    made.start()
    until(lambda: desk.base() == 100)
    moved = desk.fakes.segment("a")
    desk.groups.make_topic(moved.topic, 1)
    routes = desk.fakes.routes if stream == "orders" else desk.totals
    routes.move(moved)
    desk.groups.write(desk.place, [b"late"])
    until(lambda: made.state is ConsumerState.FAILED)
    with pytest.raises(InfeasibleError) as found:
        made.close()
    assert desk.written() == WANTED
    assert not desk.written(moved.topic)
    assert desk.groups.members == {"sums": []}
    if stream == "totals":
        assert f"({moved.topic}) now" in str(found.value)
        with desk.transformer(twice):
            until(lambda: desk.base() == 101)
        assert desk.written(moved.topic) == {b"latea": 1, b"lateb": 1}
    else:
        assert "segment 1 (draining) on a, segment 3 (active) on a" in str(found.value)
        with pytest.raises(InfeasibleError, match="wait until the older ones are drained"):
            desk.transformer(twice)


def test_a_last_commit_that_is_refused_still_lets_the_member_leave_its_group(desk: Harness) -> None:
    made = desk.transformer(twice, commit_every_s=1_000)
    made.start()
    until(lambda: made.figures().total("handled") == 100)
    desk.totals.move(desk.fakes.segment("a"))
    until(lambda: made.state is ConsumerState.FAILED)
    with pytest.raises(InfeasibleError):
        made.close()
    assert (desk.written(), desk.base(), desk.groups.members) == ({}, 0, {"sums": []})


def test_outputs_wait_while_the_lane_is_paused(desk: Harness) -> None:
    with desk.transformer(twice) as made:
        until(lambda: desk.base() == 100)
        desk.totals.change("live", paused=True)
        until(lambda: desk.client.follower("totals").epoch == 2)
        desk.groups.write(desk.place, [b"late"])
        until(
            lambda: made.figures().total("handled") == 101 and any("paused" in one for one in made.figures().problems)
        )
        assert (desk.base(), desk.written()) == (100, WANTED)
        desk.totals.change("live", paused=False)
        until(lambda: desk.base() == 101 and not made.figures().problems)
        assert desk.written() == WANTED + Counter([b"latea", b"lateb"])
        with pytest.raises(UsageError, match="writes for each record once"):
            made.replay(desk.place, 0, 10)
        with pytest.raises(UsageError, match="writes for each record once"):
            made.replay_from(datetime(2026, 1, 31, tzinfo=UTC))


def bytes_of(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value


def test_a_transform_that_no_transaction_holds_is_refused(desk: Harness) -> None:
    refused: dict[str, dict[str, Any]] = {
        "strict_guard": {"strict_guard": True},
        "retry_after_s": {"retry_after_s": (60.0,)},
        "lanes": {"lanes": ("live",)},
    }
    for name, options in refused.items():
        with pytest.raises(UsageError, match=f"a transform has no {name}"):
            desk.transformer(twice, **options)
    with pytest.raises(UsageError, match="into itself"):
        desk.client.transformer("orders", "sums", "orders", transform=twice)
    with pytest.raises(UsageError, match="no lane fast"):
        desk.client.transformer("orders", "sums", "totals", transform=twice, target_lane="fast")
    with pytest.raises(TryLaterError, match="lane slow is paused"):
        desk.client.transformer("orders", "sums", "totals", transform=twice, lane="slow")
    desk.totals.move(desk.fakes.segment("b"))
    until(lambda: desk.client.follower("totals").epoch == 2)
    with pytest.raises(InfeasibleError, match="orders is read on a while totals is written on b"):
        desk.transformer(twice)
    assert desk.rules == []


def test_records_wait_for_space_and_those_of_lost_partitions_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a transaction no more is kept than may be; what a handler brings too late counts nowhere."""
    monkeypatch.setattr(cluster_reader, "_SPACE_S", 0.01)
    groups = FakeGroups()
    groups.make_topic("in", 1)
    place = TopicPartition("in", 0)
    source = TopicSource(lane="live", segment=1, cluster_id="c1", topic="in", topic_id=bytes(16))
    origin, again = (PartitionOrigin(stream="orders", source=source, partition=place) for _ in range(2))
    epochs = iter((3, 4, 5, 6))
    outbox = Outbox(lambda: "out", lambda: next(epochs), lambda value, *_: (OutgoingRecord(bytes_of(value)), 60), 100)
    handle = outbox.handler(lambda record, outputs: outputs.send(record.value))
    outbox.begin(origin)
    reads = [FakeRecord(at=at, the_value=b"%d" % at) for at in range(3)]
    handle(StreamRecord((reads[0], origin, 0)))
    handle(StreamRecord((reads[0], origin, 1)))
    with pytest.raises(DependencyDownError, match="60 bytes wait"):
        handle(StreamRecord((reads[1], origin, 0)))
    outbox.begin(again)
    outbox.forget(origin)
    handle(StreamRecord((reads[0], origin, 0)))
    outbox._limit = 200
    handle(StreamRecord((reads[1], again, 0)))  # which the latest commit says to be done
    handle(StreamRecord((reads[2], again, 0)))
    member = outbox.member = groups.open_transactional("sums")
    groups.owners["sums", place] = member
    owned = OwnedPartition(
        origin=again, identity=source.identity(0, "sums"), rule=CommitRule(), work=None, written=CommitState(base=2)
    )
    text = encode_commit(CommitState(base=3), owned.identity, limit_chars=4_095)
    commit = NextCommit(offset=3, encoded=text, advice=advise(text, ("b",)))
    seen = list[ClientEntry | None]()

    def out() -> str:
        seen.append(outbox.registration())
        return "out"

    outbox._place = out
    assert outbox.commit({place: (owned, commit)}, 1.0) == ""
    assert [record.value for record in groups.written["out"]] == [b"2"]
    seen.append(outbox.registration())
    assert [entry and (entry.kind.value, entry.epoch) for entry in seen] == [("producer", 3), ("producer", 4)]
    outbox.is_over = lambda: True
    assert outbox.registration() is None
    assert outbox._bytes == 0
