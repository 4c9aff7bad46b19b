"""The strict guard on real brokers: what it reads is what a plain consumer reads, and bombs cost neither memory nor
the records behind them."""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kafkakit.adapters.kafka.log import KafkaLog
from kafkakit.config.security import to_confluent
from kafkakit.core.cluster_facts import LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.ports.streams import GroupConsumer, ReadBatch
from kafkakit.streams.client.dead_letters import ConsumerHooks, LeftOut
from kafkakit.streams.client.workers import PartitionOrigin, StreamRecord
from kafkakit.streams.model.guarded_reads import BatchVerdict, VerdictKind
from kafkakit.streams.model.log_batches import Codec
from tests.clusters.streams_batches import Rec, batch
from tests.contracts.group_consumer import Member
from tests.integration.conftest import SandboxCluster
from tests.integration.stream_clients import OffsetsTransaction, loner
from tests.integration.stream_rig import StreamRig, guarded_member
from tests.property.test_lanes_and_batches import RECORDS, recompressed
from tests.rigs.bombs import CODECS as BOMB_CODECS
from tests.rigs.bombs import MIB, append_batch, checked, zeros_batch
from tests.rigs.waiting import WAIT_S, until

pytestmark = pytest.mark.kafka

Read = tuple[int, bytes | None, bytes | None, tuple[int, int], tuple[tuple[str, bytes | None], ...]]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MEMORY_BYTES = 60 * MIB
"""Above what a read takes by itself. In snappy, which expands least, 250 MiB of zeros are 12 MB in an answer."""


class Kept(Member):
    """A member that keeps all parts of the records of its one partition."""

    def __init__(self, client: GroupConsumer) -> None:
        super().__init__(client)
        self.found: list[Read] = []

    def keep(self, batch: ReadBatch) -> None:
        self.found += map(parts, batch.records)
        super().keep(batch)


class Harness:
    """Topics of a cluster, what is written to them, and what each kind of consumer reads."""

    def __init__(self, cluster: SandboxCluster) -> None:
        self.cluster = cluster
        self.log = KafkaLog(cluster.bootstrap_servers, cluster.security)
        self.admin = cluster.open_admin()
        self.numbers = iter(range(1_000))

    def topic(self, settings: dict[str, str] | None = None, *, copies: int = 1) -> TopicPartition:
        name, ids = f"guard-{next(self.numbers)}", self.cluster.broker_ids
        assert self.admin.create_topic(name, {0: ids[-copies:]}, settings or {}) is None
        key = TopicPartition(name, 0)
        until(lambda: isinstance(self.log.spans([key])[key], LogSpan), "no leader")
        return key

    def revive(self) -> None:
        """Start the brokers that were killed, and wait until every copy is in sync: the next broker may go."""
        self.cluster.revive()
        names = [name for name in self.admin.topic_names() if name.startswith(("guard-", "__"))]
        until(
            lambda: all(set(s.isr) == set(s.replicas) for s in self.admin.partition_states(names).values()),
            "copies are out of sync",
        )

    def ended(self, key: TopicPartition) -> LogSpan:
        """What is there once every transaction has its marker, which comes after the answer to its end."""
        spans: list[LogSpan] = []

        def is_stable() -> bool:
            span = self.log.spans([key])[key]
            spans[:] = [span] if isinstance(span, LogSpan) else []
            return bool(spans) and spans[0].stable == spans[0].end

        until(is_stable, "a transaction is open")
        return spans[0]

    def producer(self, codec: str, **more: object) -> Any:
        from confluent_kafka import Producer

        return Producer(
            {
                "bootstrap.servers": self.cluster.bootstrap_servers, "compression.type": codec, "linger.ms": 5,
                **more, **to_confluent(self.cluster.security),
            }
        )  # fmt: skip

    def plain(self, key: TopicPartition, start: int = 0) -> tuple[list[Read], int]:
        """What confluent-kafka reads from an offset on up to the end that it sees, and that end."""
        from confluent_kafka import Consumer, KafkaError
        from confluent_kafka import TopicPartition as Place

        client = Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap_servers, "group.id": "plain", "enable.auto.commit": False,
                "auto.offset.reset": "earliest", "enable.partition.eof": True, "check.crcs": True,
                **to_confluent(self.cluster.security),
            }
        )  # fmt: skip
        client.assign([Place(*key, start)])
        found: list[Read] = []
        deadline = time.monotonic() + WAIT_S
        try:
            while time.monotonic() < deadline:
                for one in client.consume(1_000, 0.2):
                    if one.error() is None:
                        found.append(parts(one))
                    elif one.error().code() == KafkaError._PARTITION_EOF:
                        return found, one.offset()
                    else:
                        raise AssertionError(one.error())
        finally:
            client.close()
        raise AssertionError(f"no end after {len(found)} records")

    def strict(self, key: TopicPartition, end: int, start: int | None = None) -> list[Read]:
        """What a member with the guard reads up to `end`; it must not come further."""
        group = f"guarded-{next(self.numbers)}"
        if start is not None:
            with loner(self.cluster, group) as client:
                client.commit({key: (start, "")})
        member = Kept(guarded_member(self.cluster, group))
        member.client.subscribe([key.topic], member)
        try:
            member.until(lambda: member.next.get(key, -1) >= end)
            for _ in range(5):
                member.poll()
            assert member.next[key] == end
        finally:
            member.client.close(30)
        return member.found


def parts(record: Any) -> Read:
    kind, time_ms = record.timestamp()
    return record.offset(), record.key(), record.value(), (kind, time_ms), tuple(record.headers() or ())


@pytest.fixture(scope="module")
def scene(cluster: SandboxCluster) -> Iterator[Harness]:
    made = Harness(cluster)
    with closing(made.log), closing(made.admin):
        yield made


def fill(scene: Harness, key: TopicPartition, chosen: random.Random, rounds: int) -> None:
    """Plain records and transactions of two producers, in turn and in every codec."""
    transactional: dict[str, object] = {"transaction.timeout.ms": 600_000}
    writers = [
        scene.producer(codec, **(transactional | {"transactional.id": f"{key.topic}-{codec}"} if number < 2 else {}))
        for number, codec in enumerate(("zstd", "lz4", *CODECS))
    ]
    is_open = [False, False]
    for writer in writers[:2]:
        writer.init_transactions(90)
    for _ in range(rounds):
        number = chosen.randrange(len(writers))
        writer = writers[number]
        if number < 2:
            if is_open[number] and chosen.random() < 0.5:
                is_open[number] = False
                (writer.commit_transaction if chosen.random() < 0.5 else writer.abort_transaction)(90)
                continue
            if not is_open[number]:
                writer.begin_transaction()
                is_open[number] = True
        for _ in range(chosen.choice((1, 3, 200))):
            writer.produce(
                key.topic,
                value=chosen.choice((None, b"", chosen.randbytes(20), b"v" * chosen.randrange(3_000))),
                key=chosen.choice((None, b"", chosen.randbytes(4))),
                headers=chosen.choice((None, [], [("a", b"1"), ("a", None), ("\u00e9", b"")])),
                timestamp=chosen.choice((0, 1_758_335_260_000 + chosen.randrange(10**6))),
                partition=0,
            )
        assert writer.flush(WAIT_S) == 0
    for writer, still in zip(writers, is_open, strict=False):
        if still:
            writer.commit_transaction(90)


def test_strict_and_plain_consumers_read_the_same(scene: Harness) -> None:
    chosen = random.Random(41)
    key = scene.topic({"retention.ms": "-1", "segment.bytes": str(MIB)})
    fill(scene, key, chosen, 120)
    span = scene.ended(key)
    expected, end = scene.plain(key)
    assert len(expected) > 1_000
    assert end == span.end > len(expected) + 40, "no transactions are in it"
    assert scene.strict(key, end) == expected
    for start in sorted(chosen.sample(range(end), 6)):
        again, until = scene.plain(key, start)
        assert until == end
        assert scene.strict(key, end, start) == again


def test_both_stop_before_an_open_transaction(scene: Harness) -> None:
    key = scene.topic()
    transaction = OffsetsTransaction(scene.cluster, "open")
    transaction.begin()
    transaction.produce(key, b"a", b"b")
    transaction.commit()
    transaction.begin()
    try:
        transaction.produce(key, b"c")
        writer = scene.producer("none")
        writer.produce(key.topic, b"behind", partition=0)
        assert writer.flush(WAIT_S) == 0
        expected, end = scene.plain(key)
        assert ([one[2] for one in expected], end) == ([b"a", b"b"], 3)
        assert scene.strict(key, end) == expected
    finally:
        transaction.abort()
    assert scene.ended(key).end == 6
    expected, end = scene.plain(key)
    assert [one[2] for one in expected] == [b"a", b"b", b"behind"]
    assert scene.strict(key, end) == expected


def test_compacted_topics_are_read_over_their_gaps(scene: Harness) -> None:
    key = scene.topic(
        {
            "cleanup.policy": "compact", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.001",
            "max.compaction.lag.ms": "500", "delete.retention.ms": "100",
        }
    )  # fmt: skip
    transaction = OffsetsTransaction(scene.cluster, "compacted")
    for number in range(4):
        for codec in CODECS:
            writer = scene.producer(codec)
            for one in range(60):
                writer.produce(key.topic, b"%d" % number, key=b"%s%d" % (codec.encode(), one % 7), partition=0)
            assert writer.flush(WAIT_S) == 0
        transaction.begin()
        transaction._client.produce(key.topic, b"%d" % number, key=b"t", partition=0)
        transaction._client.flush(60)
        (transaction.abort if number % 2 else transaction.commit)()
        time.sleep(0.6)  # a segment is closed by the first record that comes after segment.ms

    def is_compacted() -> bool:
        return len(scene.plain(key)[0]) < 700

    scene.ended(key)
    until(is_compacted, "the cleaner did not run")
    until(lambda: scene.plain(key) == scene.plain(key), "the cleaner did not finish")
    expected, end = scene.plain(key)
    found = scene.strict(key, end)
    late = scene.plain(key)[0]
    assert [one for one in found if one in late] == late, "the cleaner may take more between the reads"
    assert set(found) <= set(expected)


def as_c(read: Read) -> Read:
    """With names of headers as librdkafka gives them: up to a NUL."""
    *others, headers = read
    return (*others, tuple((name.partition("\0")[0], value) for name, value in headers))  # type: ignore[return-value]


def test_random_batches_give_what_a_plain_consumer_gives(scene: Harness) -> None:
    key = scene.topic({"retention.ms": "-1", "message.timestamp.after.max.ms": str((1 << 63) - 1)})
    made: list[bytes] = []

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(RECORDS, min_size=1, max_size=12), st.sampled_from(Codec))
    @example([Rec(None, bytes(20_000))] * 5, Codec.LZ4)  # more than one block of a frame
    @example([Rec(None, random.Random(40).randbytes(20_000))] * 5, Codec.LZ4)  # blocks that do not get shorter
    def append(records: list[Rec], codec: Codec) -> None:
        plain = batch(0, records, base_ms=1_758_335_260_000)
        whole = checked(plain if codec is Codec.NONE else recompressed(plain, codec))
        append_batch(scene.cluster, key, whole)
        made.append(whole)

    append()
    expected, end = scene.plain(key)
    assert len(made) >= 60
    for mine, theirs in zip(scene.strict(key, end), expected, strict=True):
        assert as_c(mine) == theirs


@pytest.mark.parametrize(("codec", "mib"), [(codec, 250 if codec is Codec.SNAPPY else 1_000) for codec in BOMB_CODECS])
def test_a_gigabyte_in_a_batch_costs_no_memory_and_holds_nothing_up(scene: Harness, codec: Codec, mib: int) -> None:
    rig = StreamRig(
        scene.cluster, f"gigabyte-{codec.name.lower()}", partitions=1, settings={"max.message.bytes": str(64 * MIB)}
    )
    (segment,) = rig.segments["live"]
    key = TopicPartition(segment.topic, 0)
    rig.write(segment, range(50))
    bomb = append_batch(scene.cluster, key, zeros_batch(mib, MIB, codec=codec))
    rig.write(segment, range(50, 100))
    read_once(scene, rig)
    seen, verdicts = set[bytes | None](), list[BatchVerdict]()

    def guard(origin: PartitionOrigin, offset: int, epoch: int, verdict: BatchVerdict | None) -> LeftOut:
        assert (origin.partition, offset, epoch) == (key, bomb, rig.epoch)
        assert verdict is not None
        verdicts.append(verdict)
        return LeftOut(next_offset=verdict.end)

    def handle(record: StreamRecord) -> None:
        seen.add(record.value)

    before = peak_bytes(restart=True)
    with rig.member(rig.stream, handler=handle, hooks=ConsumerHooks(guard=guard), strict=True):
        until(lambda: len(seen) == 100, "the records behind it are missing")
        until(
            lambda: {n: s.base for n, s in rig.committed(rig.stream, segment).items()} == rig.ends(segment),
            "the end is not committed",
        )
    assert seen == {b"%d" % number for number in range(100)}
    assert [(one.kind, one.start, one.end) for one in verdicts] == [(VerdictKind.BOMB, bomb, bomb + mib)]
    assert peak_bytes() - before < MEMORY_BYTES


def read_once(scene: Harness, rig: StreamRig) -> None:
    """What a first consumer of a process loads is no memory of a bomb."""
    seen = set[bytes | None]()
    other = StreamRig(scene.cluster, f"{rig.stream}-warm", partitions=1)
    other.write(other.segments["live"][0], range(10))
    with other.member(other.stream, handler=lambda record: seen.add(record.value), strict=True):
        until(lambda: len(seen) == 10, "nothing was read")


def peak_bytes(*, restart: bool = False) -> int:
    """The most memory of this process since it was restarted."""
    if restart:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def test_offsets_out_of_range_go_on_as_a_plain_consumer_does(scene: Harness) -> None:
    key = scene.topic({"retention.ms": "-1"})
    writer = scene.producer("zstd")
    for number in range(200):
        writer.produce(key.topic, b"%d" % number, partition=0)
        if number % 50 == 49:
            assert writer.flush(WAIT_S) == 0
    from confluent_kafka import TopicPartition as Place
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": scene.cluster.bootstrap_servers, **to_confluent(scene.cluster.security)})
    for one in admin.delete_records([Place(*key, 120)]).values():
        one.result()
    for start in (0, 119, 5_000):
        expected, end = scene.plain(key, start)
        assert [one[0] for one in expected] == list(range(120, 200))
        assert scene.strict(key, end, start) == expected
    assert scene.strict(key, 200, 150) == scene.plain(key, 150)[0]


def write(scene: Harness, key: TopicPartition, numbers: range) -> None:
    writer = scene.producer("lz4", **{"enable.idempotence": True})
    for number in numbers:
        writer.produce(key.topic, b"%d" % number, partition=0)
    assert writer.flush(WAIT_S) == 0


def test_the_next_leader_is_followed(scene: Harness) -> None:
    key = scene.topic(copies=2)
    write(scene, key, range(500))
    member = Member(guarded_member(scene.cluster, "moved"))
    member.client.subscribe([key.topic], member)
    try:
        member.until(lambda: member.next.get(key) == 500)
        leader = scene.log.places([key.topic])[key.topic].leaders[0]
        assert leader is not None
        scene.cluster.kill(leader)
        write(scene, key, range(500, 1_000))
        member.until(lambda: member.next.get(key) == 1_000)
        until(
            lambda: scene.log.places([key.topic])[key.topic].leaders[0] not in (leader, None),
            "brokers do not know the next leader",
        )
        assert member.values[key] == [b"%d" % number for number in range(1_000)]
    finally:
        scene.revive()
        member.client.close(30)


def test_a_broker_that_is_away_costs_no_record_and_no_other_partition(scene: Harness) -> None:
    keys = [scene.topic(), scene.topic()]
    alone, other = sorted(keys)
    ids = scene.cluster.broker_ids
    assert scene.admin.delete_topic(other.topic) is None
    until(lambda: scene.admin.create_topic(other.topic, {0: ids[:1]}, {}) is None, "the topic is still there")
    for key in keys:
        write(scene, key, range(200))
    member = Member(guarded_member(scene.cluster, "away"))
    member.client.subscribe([key.topic for key in keys], member)
    try:
        member.until(lambda: [member.next.get(key) for key in keys] == [200, 200])
        (victim,) = scene.log.places([alone.topic])[alone.topic].leaders.values()
        assert victim == ids[-1]
        scene.cluster.kill(victim)
        write(scene, other, range(200, 400))
        member.until(lambda: member.next.get(other) == 400)
        assert member.next[alone] == 200
        scene.revive()
        write(scene, alone, range(200, 400))
        member.until(lambda: member.next.get(alone) == 400)
        for key in keys:
            assert [int(value) for value in member.values[key]] == list(range(400))
            assert member.values[key] == [one[2] for one in scene.plain(key)[0]]
    finally:
        scene.revive()
        member.client.close(30)


def test_partitions_that_move_during_reads_repeat_nothing(scene: Harness) -> None:
    rig = StreamRig(scene.cluster, "moving-guard", partitions=4)
    (segment,) = rig.segments["live"]
    rig.write(segment, range(3_000))
    lock, seen = threading.Lock(), Counter[int]()

    def handle(record: StreamRecord) -> None:
        time.sleep(0.002)
        with lock:
            seen[int(record.value or b"-1")] += 1

    with rig.member("moving", handler=handle, concurrency=4, strict=True) as first:
        until(lambda: len(seen) > 200, "nothing is handled")
        with rig.member("moving", handler=handle, concurrency=4, strict=True) as second:
            until(lambda: second.figures().partitions, "the second member gets nothing")
            until(lambda: len(seen) == 3_000, "records are missing")
            until(
                lambda: len(first.figures().partitions) + len(second.figures().partitions) == 4,
                "not all partitions are read",
            )
    assert set(seen.values()) == {1}
    assert {n: s.base for n, s in rig.committed("moving", segment).items()} == rig.ends(segment)
