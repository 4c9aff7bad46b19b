"""A stream with a live, a retry and a DLQ lane on one cluster in memory, and helpers to fill them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import epoch_ms
from kafkakit.core.records import Record
from kafkakit.ports.data import Headers
from kafkakit.streams.lanes.act.dead_letters import StreamClusters
from kafkakit.streams.lanes.act.reject_ledger import RejectLedger
from kafkakit.streams.model.commit import topic_id_text
from kafkakit.streams.model.provenance import (
    REJECTS_TOPIC,
    LedgerReject,
    RecordFailure,
    RecordOrigin,
    provenance_headers,
)
from kafkakit.streams.model.route import Lane, LaneRule, Route, Segment, SegmentState, encode_route, route_path
from tests.fakes.admin import FakeClock, FakeCluster
from tests.fakes.control import FakeControlStore
from tests.fakes.data import FakeData
from tests.fakes.groups import FakeGroups
from tests.fakes.log_reader import FakeLogReader

CLUSTER, STREAM = "C1", "orders"
LANES = ("live", "retry", "dlq")
PARTITIONS = 2


def segment(number: int, lane: str, topic_id: bytes, **more: Any) -> Segment:
    given = {
        "cluster": "p",
        "cluster_id": CLUSTER,
        "partitions": PARTITIONS,
        "state": SegmentState.ACTIVE,
        "topic": f"{STREAM}.{lane}.1",
    }
    return Segment(id=number, topic_id=topic_id_text(topic_id), **{**given, **more})


def failure(group: str = "billing", reason: str = "poison", at_ms: int = 5_000, **more: Any) -> RecordFailure:
    return RecordFailure(group=group, reason=reason, at_ms=at_ms, **more)


@dataclass
class LaneWorld:
    """One cluster `C1` of profile `p`, with the fakes of all its ports."""

    admin: FakeCluster = field(default_factory=lambda: FakeCluster({1: None}, cluster_id=CLUSTER))
    log: FakeLogReader = field(default_factory=lambda: FakeLogReader(CLUSTER))
    groups: FakeGroups = field(default_factory=FakeGroups)
    clock: FakeClock = field(default_factory=FakeClock)
    store: FakeControlStore = field(default_factory=FakeControlStore)
    rules: tuple[LaneRule, ...] = ()

    def __post_init__(self) -> None:
        self.data = FakeData(self.log)
        self.data.now_ms = self.now_ms
        self.admin.logs = self.log
        self.admin.before_call.append(self._made)
        for lane in LANES:
            self.add_topic(f"{STREAM}.{lane}.1", PARTITIONS)
        ids = [self.log.places([f"{STREAM}.{lane}.1"])[f"{STREAM}.{lane}.1"].topic_id for lane in LANES]
        segments = [segment(n, lane, key) for n, (lane, key) in enumerate(zip(LANES, ids, strict=True), 1)]
        lanes = tuple(Lane(name=name, segments=(one,)) for name, one in zip(LANES, segments, strict=True))
        self.route = Route(stream=STREAM, epoch=1, next_segment=9, lanes=lanes, rules=self.rules)
        self.store.cas(route_path(STREAM), encode_route(self.route), None)
        self.clusters = StreamClusters(lambda profile: self)
        self.ledger = RejectLedger(self, self.clock, wait_s=5)

    @property
    def now_ms(self) -> int:
        return epoch_ms(self.clock.now())

    def add_topic(self, name: str, partitions: int) -> None:
        self.log.add_topic(name, partitions)
        self.groups.add_topic(name, partitions)
        self.admin.add_topic(name, dict.fromkeys(range(partitions), (1,)))

    def _made(self, call: str, argument: Any) -> None:
        if call == "create_topic" and REJECTS_TOPIC in str(argument):
            self.log.add_topic(REJECTS_TOPIC, 1)

    def origin(self, offset: int = 0, partition: int = 0, lane: str = "live", **more: Any) -> RecordOrigin:
        given = {"stream": STREAM, "lane": lane, "segment": LANES.index(lane) + 1, "epoch": 1, "cluster_id": CLUSTER}
        topic = f"{STREAM}.{lane}.1"
        return RecordOrigin(**{**given, "topic": topic, "partition": partition, "offset": offset, **more})

    def put(
        self, lane: str, *values: bytes, partition: int = 0, key: bytes | None = b"k", headers: Headers = ()
    ) -> None:
        producer = self.data.producer()
        for value in values:
            producer.send(TopicPartition(f"{STREAM}.{lane}.1", partition), value, key, headers)

    def kill(self, *values: bytes, partition: int = 0, of: RecordFailure | None = None, lane: str = "live") -> None:
        """Put records with provenance into the DLQ lane."""
        for value in values:
            headers = provenance_headers((("trace", b"1"),), self.origin(7, partition, lane), of or failure())
            self.put("dlq", value, partition=partition, headers=headers)

    def reject(self, *offsets: int, partition: int = 0, at_ms: int | None = None, group: str = "billing") -> None:
        """Put references to records of the live lane into the ledger."""
        self.ledger.add(
            [
                LedgerReject(
                    topic_id=self.log.places([f"{STREAM}.live.1"])[f"{STREAM}.live.1"].topic_id,
                    place=self.origin(offset, partition, at_ms=self.now_ms if at_ms is None else at_ms),
                    failure=failure(group),
                )
                for offset in offsets
            ]
        )

    def records(self, lane: str, partition: int = 0) -> list[Record]:
        return self.data.records(TopicPartition(f"{STREAM}.{lane}.1", partition))

    def values(self, lane: str) -> Sequence[bytes]:
        return [record.value for number in range(PARTITIONS) for record in self.records(lane, number)]
