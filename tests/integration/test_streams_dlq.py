"""Rejected records on a real broker: listed, shown, replayed with a kill in the middle, copied in time, purged."""

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from itertools import count
from typing import Any

import pytest

from kafkakit.adapters.control_kafka import KafkaControl
from kafkakit.adapters.host import SystemClock
from kafkakit.adapters.kafka.data import KafkaData
from kafkakit.adapters.kafka.log import KafkaLog
from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, ResourceKind
from kafkakit.core.errors import ExitCode, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.ports.data import DataPlane
from kafkakit.streams.lanes.act.reject_ledger import PLACE, RejectLedger
from kafkakit.streams.model.commit import topic_id_text
from kafkakit.streams.model.provenance import (
    LedgerReject,
    RecordFailure,
    RecordOrigin,
    provenance_headers,
    read_provenance,
)
from kafkakit.streams.model.route import Lane, Route, Segment, SegmentState, encode_route, route_path
from tests.contracts.data import DataContract, read_all
from tests.integration.conftest import SandboxCluster
from tests.integration.test_streams_contract import open_groups
from tests.rigs.command_line import Home, Ran
from tests.rigs.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("slow_brokers_answer")]

STREAM = "shop"
PARTITIONS = 2
WAIT_S = 180.0
_names = count()


class Harness:
    """A stream with lanes live and dlq, each a topic of two partitions; the route is in the cluster's control topic."""

    def __init__(self, cluster: SandboxCluster, stack: ExitStack) -> None:
        self.cluster, self.stream = cluster, f"{STREAM}-{next(_names)}"
        self.admin = stack.enter_context(closing(cluster.open_admin()))
        self.log = stack.enter_context(closing(KafkaLog(cluster.bootstrap_servers, cluster.security)))
        self.groups = stack.enter_context(closing(open_groups(cluster)))
        self.data: DataPlane = KafkaData(cluster.bootstrap_servers, cluster.security)
        lanes = tuple(Lane(name=lane, segments=(self._segment(n, lane),)) for n, lane in enumerate(("live", "dlq"), 1))
        self.route = Route(stream=self.stream, epoch=1, next_segment=3, lanes=lanes)
        with closing(KafkaControl(self.data, cluster.open_admin)) as store:
            store.cas(route_path(self.stream), encode_route(self.route), None)
        self.ledger = RejectLedger(self, SystemClock(), wait_s=WAIT_S)

    def _segment(self, number: int, lane: str) -> Segment:
        name = f"{self.stream}.{lane}.1"
        replicas = dict.fromkeys(range(PARTITIONS), self.cluster.broker_ids[:1])
        assert self.admin.create_topic(name, replicas, {"segment.bytes": "1048576"}) is None
        return Segment(
            id=number,
            cluster=self.cluster.name,
            cluster_id=self.cluster.cluster_id,
            topic=name,
            topic_id=topic_id_text(self.log.places([name])[name].topic_id),
            partitions=PARTITIONS,
            state=SegmentState.ACTIVE,
        )

    def key(self, lane: str, partition: int = 0) -> TopicPartition:
        return TopicPartition(f"{self.stream}.{lane}.1", partition)

    def origin(self, offset: int, partition: int = 0, at_ms: int | None = None) -> RecordOrigin:
        return RecordOrigin(
            stream=self.stream, lane="live", segment=1, epoch=1, cluster_id=self.cluster.cluster_id,
            topic=self.key("live").topic, partition=partition, offset=offset, at_ms=at_ms,
        )  # fmt: skip

    def put(self, lane: str, values: Sequence[bytes], partition: int = 0, *, headers: Any = ()) -> None:
        producer = self.data.producer()
        for value in values:
            producer.send(self.key(lane, partition), value, b"k", headers)
        assert (producer.flush(WAIT_S), producer.failed) == (0, 0)

    def bury(self, values: Sequence[bytes], reason: str = "poison", partition: int = 0) -> None:
        headers = provenance_headers((("trace", b"7"),), self.origin(3, partition), failure(reason))
        self.put("dlq", values, partition, headers=headers)

    def reject(self, offsets: Sequence[int], *, at_ms: int) -> None:
        topic_id = self.log.places([self.key("live").topic])[self.key("live").topic].topic_id
        self.ledger.add(
            [
                LedgerReject(topic_id=topic_id, place=self.origin(o, at_ms=at_ms), failure=failure("by reference"))
                for o in offsets
            ]
        )

    def records(self, lane: str) -> list[Record]:
        return [record for number in range(PARTITIONS) for record in read_all(self.data, self.key(lane, number))]

    def count(self, lane: str) -> int:
        """How many records the lane has, 0 where no broker tells it now."""
        keys = [self.key(lane, number) for number in range(PARTITIONS)]
        with suppress(TryLaterError):
            return sum(len(span) for span in self.data.offsets(keys, WAIT_S).values())
        return 0

    def values(self, lane: str) -> list[bytes]:
        return [record.value for record in self.records(lane)]

    def mine(self) -> list[LedgerReject]:
        return [entry for entry in self.ledger.read()[0].values() if entry.place.stream == self.stream]

    @property
    def words(self) -> tuple[str, ...]:
        return ("--profile", self.cluster.name, "-X", "control_store=kafka", "streams", "dlq")

    def run(self, *words: str, code: int = 0) -> Ran:
        ran = Home(self.cluster.home.folder).run(*self.words, *words)
        assert ran.code == code, ran.stdout + ran.stderr
        return ran

    def json(self, *words: str, code: int = 0) -> Any:
        return self.run(*words, "-o", "json", code=code).json


def failure(reason: str) -> RecordFailure:
    return RecordFailure(group="billing", reason=reason, at_ms=1_758_335_260_726, tries=5, error_class="ValueError")


@pytest.fixture
def scene(cluster: SandboxCluster) -> Iterator[Harness]:
    with ExitStack() as stack:
        yield Harness(cluster, stack)


class KafkaDataRig:
    def __init__(self, cluster: SandboxCluster) -> None:
        self.data: DataPlane = KafkaData(cluster.bootstrap_servers, cluster.security)
        self._cluster = cluster

    def new_topic(self) -> str:
        name = f"data-contract-{next(_names)}"
        with closing(self._cluster.open_admin()) as admin:
            assert admin.create_topic(name, dict.fromkeys(range(2), self._cluster.broker_ids[:1]), {}) is None
        return name


class TestKafkaData(DataContract):
    @pytest.fixture
    def data_rig(self, cluster: SandboxCluster) -> KafkaDataRig:
        return KafkaDataRig(cluster)


def test_what_is_rejected_is_listed_shown_and_purged(scene: Harness) -> None:
    scene.put("live", [b"ref-0", b"ref-1"])
    scene.reject([1], at_ms=1)
    scene.bury([b"a", b"b"], "old")
    scene.bury([b"c"], "new")
    garbage = (("kafkakit-stream", b"\xff"), ("kafkakit-offset", None), ("kafkakit-tries", b"9" * 400))
    scene.put("dlq", [b"odd"], headers=garbage)
    producer = scene.data.producer()
    for value in (b"not json", b'{"kafkakit":{"kind":"stream-reject","schema":9}}', b"\xff" * 20_000):
        producer.send(PLACE, value, b"rubbish-%d-" % len(value) + scene.stream.encode())
    assert producer.flush(WAIT_S) == 0
    found = scene.json("list", scene.stream)
    assert found["by_reason"] == {"by reference": 1, "new": 1, "no readable provenance": 1, "old": 2}
    assert found["unreadable_references"] >= 3
    assert found["records"][0]["place"] == f"{scene.key('live').topic}/0@1"
    shown = scene.json("show", scene.stream, f"{scene.key('dlq').topic}/0@2")
    assert (shown["record"]["value"]["text"], shown["provenance"]["reason"]) == ("c", "new")
    assert scene.json("show", scene.stream, f"{scene.key('live').topic}/0@1")["record"]["value"]["text"] == "ref-1"
    plan = scene.json("purge", scene.stream, "--where", "reason = old or held = reference", "--dry-run")
    assert ([cut["records"] for cut in plan["partitions"]], len(scene.values("dlq"))) == ([2], 4)
    scene.run("purge", scene.stream, "--where", "reason = old or held = reference", "--yes")
    assert (scene.values("dlq"), scene.mine()) == ([b"c", b"odd"], [])


def test_a_replay_that_is_killed_continues_and_repeats_a_batch_at_most(scene: Harness) -> None:
    # At 40 a second the replay takes more than a minute: it is not at its end before it is killed.
    first, second = [b"p0-%d" % n for n in range(1_500)], [b"p1-%d" % n for n in range(1_500)]
    scene.bury(first)
    scene.bury(second, partition=1)
    words = [sys.executable, "-m", "kafkakit", *scene.words, "replay", scene.stream, "--rate", "40", "--yes"]
    process = subprocess.Popen(words, env=scene.cluster.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        until(lambda: scene.count("live") >= 60 or process.poll() is not None)
        assert process.poll() is None, process.stdout and process.stdout.read()
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    before = len(scene.values("live"))
    assert 60 <= before < 3_000
    outcome = scene.json("replay", scene.stream, "--rate", "100000", "--yes")
    counts = Counter(scene.values("live"))
    assert sorted(counts) == sorted(first + second)
    twice = sum(counts.values()) - 3_000
    assert twice == before + outcome["replayed"] - 3_000
    assert twice <= outcome["may_be_twice"] <= 40
    assert scene.json("replay", scene.stream, "--yes")["replayed"] == 0
    again = scene.records("live")[0]
    assert (again.key, dict(again.headers)["trace"], again.partition) == (b"k", b"7", scene.key("live", 0))
    look = ("--profile", scene.cluster.name, "streams", "commits", "show", f"kafkakit-dlq-replay.{scene.stream}")
    shown = Home(scene.cluster.home.folder).run(*look)
    assert shown.code == ExitCode.DONE


def test_references_are_copied_before_retention_takes_them(scene: Harness) -> None:
    topic = scene.key("live").topic
    day_ms = 86_400_000
    scene.admin.alter_configs(
        [ConfigChange(kind=ResourceKind.TOPIC, name=topic, key="retention.ms", op=ConfigOp.SET, value=str(7 * day_ms))]
    )
    scene.put("live", [b"soon", b"later", b"gone"], headers=(("trace", b"9"),))
    now_ms = round(time.time() * 1000)
    scene.reject([0], at_ms=now_ms - 6 * day_ms - day_ms // 2)
    scene.reject([1, 2], at_ms=now_ms)
    outcome = scene.json("copy", scene.stream, "--once")
    assert (outcome["copied"], outcome["waiting"], outcome["lost"]) == (1, 2, {})
    assert abs(outcome["next_ms"] - (now_ms + 6 * day_ms)) < 1
    (copied,) = scene.records("dlq")
    found = read_provenance(copied.headers)
    assert found is not None
    assert (copied.value, found.origin.offset, found.failure.reason) == (b"soon", 0, "by reference")
    assert dict(copied.headers)["trace"] == b"9"
    assert sorted(entry.place.offset for entry in scene.mine()) == [1, 2]
    assert scene.admin.delete_records({scene.key("live"): 2}) == {scene.key("live"): None}
    outcome = scene.json("copy", scene.stream, "--once", "--all", code=1)
    assert outcome["copied"] == 1
    assert list(outcome["lost"]) == [f"{topic}/0@1 of group billing"]
    assert scene.values("dlq") == [b"soon", b"gone"]
    assert [entry.place.offset for entry in scene.mine()] == [1]
    assert scene.json("replay", scene.stream, "--yes")["replayed"] == 2
    assert scene.values("live") == [b"gone", b"soon", b"gone"]
