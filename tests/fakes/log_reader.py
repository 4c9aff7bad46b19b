"""Partition logs in memory, with the contract of `streams.ports.LogReader` (tests/streams_contract.py).

A test appends whole record batches (format v2, as a broker sends them); offsets, stable offsets, time look-ups
and cut tails follow from them as on a broker.
"""

import copy
import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from kafkakit.core.cluster_facts import FetchedBatches, ItemError, LogSpan, TopicPlaces
from kafkakit.core.errors import KafkakitError, TryLaterError
from kafkakit.core.model import TopicPartition

HEADER = struct.Struct(">qiibIhiqqqhii")
CODEC, TRANSACTIONAL, CONTROL = 0x07, 0x10, 0x20
MARKER = slice(HEADER.size + 7, HEADER.size + 9)
"""Where a control batch says which marker it is: 0 aborts."""
NO_SPAN = LogSpan(start=-1, stable=-1, end=-1)
UNKNOWN_TOPIC = ItemError(name="UnknownTopicOrPartitionError", retriable=True)
NOT_LEADER = ItemError(name="NotLeaderForPartitionError", retriable=True)
NO_LEADER = ItemError(name="LeaderNotAvailableError", retriable=True)
OUT_OF_RANGE = ItemError(name="OffsetOutOfRangeError")
RECREATED = ItemError(name="UnknownTopicIdError", message="the topic was created again", retriable=True)
SILENT = ItemError(name="KafkaTimeoutError", message="the leader does not answer", retriable=True)


@dataclass(kw_only=True)
class FakeBatch:
    """One stored batch: its first and last offset, its bytes and what its header says."""

    first: int
    last: int
    data: bytes
    times: tuple[int, ...]
    producer: int
    attributes: int


@dataclass(kw_only=True)
class FakePartitionLog:
    """The log of one partition; `moved` answers the next request with NOT_LEADER, as after an election."""

    leader: int | None = 1
    start: int = 0
    end: int = 0
    moved: bool = False
    batches: list[FakeBatch] = field(default_factory=list)

    @property
    def stable(self) -> int:
        open_since: dict[int, int] = {}
        for batch in self.batches:
            if batch.attributes & CONTROL:
                open_since.pop(batch.producer, None)
            elif batch.attributes & TRANSACTIONAL:
                open_since.setdefault(batch.producer, batch.first)
        return min(open_since.values(), default=self.end)

    def aborted(self, offset: int) -> tuple[tuple[int, int], ...]:
        """Producer and first offset of the transactions that were aborted at this offset or after it."""
        began: dict[int, int] = {}
        found = []
        for batch in self.batches:
            if batch.attributes & CONTROL:
                first = began.pop(batch.producer, None)
                if first is not None and batch.data[MARKER] == b"\0\0" and batch.last >= offset:
                    found.append((batch.producer, first))
            elif batch.attributes & TRANSACTIONAL:
                began.setdefault(batch.producer, batch.first)
        return tuple(found)

    @property
    def span(self) -> LogSpan:
        return LogSpan(start=self.start, stable=self.stable, end=self.end)


class FakeLogReader:
    """`LogReader` in memory.

    `unreachable` makes every call raise; the leaders in `down` do not answer, those in `slow` answer every other
    fetch. `fetches` remembers the offsets of each fetch. `of_committed` reads the same logs, committed data alone.
    """

    def __init__(self, cluster_id: str = "fake-cluster") -> None:
        self.id = cluster_id
        self.unreachable = False
        self.refusal: KafkakitError | None = None
        self.down: set[int] = set()
        self.slow: set[int] = set()
        self._keep_waiting: set[int] = set()
        self.fetches: list[dict[TopicPartition, int]] = []
        self.closed = False
        self.committed = False
        self._ids: dict[str, bytes] = {}
        self._read: dict[TopicPartition, bytes] = {}
        self._logs: dict[TopicPartition, FakePartitionLog] = {}

    def of_committed(self) -> "FakeLogReader":
        """A reader of the same logs that gets committed data alone."""
        other = copy.copy(self)
        other.committed = True
        return other

    def add_topic(self, name: str, partitions: int = 1, *, topic_id: bytes | None = None) -> None:
        """Create a topic; created again it is empty and has another id, unless one is given."""
        self.delete_topic(name)
        self._ids[name] = topic_id if topic_id is not None else self._fresh_id(name)
        for partition in range(partitions):
            self._logs[TopicPartition(name, partition)] = FakePartitionLog()

    def add_partition(self, partition: TopicPartition) -> None:
        """Give a topic one more partition."""
        self._logs[partition] = FakePartitionLog()

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records, if there is one."""
        for key in [key for key in self._logs if key.topic == name]:
            del self._logs[key]

    def log(self, partition: TopicPartition) -> FakePartitionLog:
        """The log of a partition, to look at or to change."""
        return self._logs[partition]

    def append(self, partition: TopicPartition, *batches: bytes) -> int:
        """Append batches as a leader does, which sets their first offsets; returns the new end offset."""
        held = self._logs[partition]
        for data in batches:
            for single in split(data):
                held.end = self._place(held, single, held.end)
        return held.end

    def place(self, partition: TopicPartition, *batches: bytes) -> int:
        """Append batches at the offsets they name, leaving the holes that compaction leaves."""
        held = self._logs[partition]
        for data in batches:
            for single in split(data):
                held.end = self._place(held, single, HEADER.unpack_from(single)[0])
        return held.end

    def trim(self, partition: TopicPartition, start: int) -> None:
        """Drop what retention would: whole batches below `start`, which becomes the first offset."""
        held = self._logs[partition]
        held.start = start
        held.end = max(held.end, start)
        held.batches = [batch for batch in held.batches if batch.last >= start]

    def cluster_id(self) -> str:
        """See `streams.ports.LogReader`."""
        self._reach()
        return self.id

    def places(self, topics: Collection[str] | None = None) -> Mapping[str, TopicPlaces]:
        """See `streams.ports.LogReader`."""
        self._reach()
        found: dict[str, dict[int, int | None]] = {}
        for key, held in sorted(self._logs.items()):
            if topics is None or key.topic in topics:
                found.setdefault(key.topic, {})[key.partition] = held.leader
        return {name: TopicPlaces(topic_id=self._ids[name], leaders=leaders) for name, leaders in found.items()}

    def spans(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogSpan | ItemError]:
        """See `streams.ports.LogReader`."""
        self._reach()
        return {key: self._fault(key) or self._logs[key].span for key in sorted(set(partitions))}

    def offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | ItemError | None]:
        """See `streams.ports.LogReader`."""
        self._reach()
        return {key: self._fault(key) or self._first_at(key, times_ms[key]) for key in sorted(times_ms)}

    def fetch(
        self, offsets: Mapping[TopicPartition, int], *, max_bytes: int, wait_ms: int, partition_bytes: int | None = None
    ) -> Mapping[TopicPartition, FetchedBatches]:
        """See `streams.ports.LogReader`; does not wait."""
        del wait_ms
        self._reach()
        self.fetches.append(dict(sorted(offsets.items())))
        left: dict[int | None, int] = {}
        late = self.slow - self._keep_waiting
        self._keep_waiting = late & {leader for leader in map(self._leader, offsets) if leader is not None}
        found: dict[TopicPartition, FetchedBatches] = {}
        for key, offset in sorted(offsets.items()):
            error = self._fault(key) or self._other_topic(key)
            if error is not None:
                found[key] = FetchedBatches(records=b"", span=NO_SPAN, error=error)
                continue
            held = self._logs[key]
            if held.leader in late:
                found[key] = FetchedBatches(records=b"", span=NO_SPAN)
                continue
            if not held.start <= offset <= held.end:
                found[key] = FetchedBatches(records=b"", span=held.span, error=OUT_OF_RANGE)
                continue
            room = left.setdefault(held.leader, max_bytes)
            batches = [one for one in held.batches if not self.committed or one.first < held.stable]
            records = _cut(batches, offset, min(room, partition_bytes or max_bytes), first=room == max_bytes)
            left[held.leader] = max(0, room - len(records))
            aborted = held.aborted(offset) if self.committed else ()
            found[key] = FetchedBatches(records=records, span=held.span, aborted=aborted)
        return found

    def request_ahead(
        self, offsets: Mapping[TopicPartition, int], *, max_bytes: int, wait_ms: int, partition_bytes: int | None = None
    ) -> None:
        """See `streams.ports.LogReader`; nothing is ever under way here."""
        del offsets, max_bytes, wait_ms, partition_bytes
        self._reach()

    def close(self) -> None:
        """See `streams.ports.LogReader`."""
        self.closed = True

    def _reach(self) -> None:
        if self.refusal is not None:
            raise self.refusal
        if self.unreachable:
            raise TryLaterError("cannot connect to the fake cluster")

    def _fault(self, key: TopicPartition) -> ItemError | None:
        held = self._logs.get(key)
        if held is None:
            return UNKNOWN_TOPIC
        if held.leader is None:
            return NO_LEADER
        if held.leader in self.down:
            return SILENT
        moved, held.moved = held.moved, False
        return NOT_LEADER if moved else None

    def _other_topic(self, key: TopicPartition) -> ItemError | None:
        """Whether the topic is another one than at the last fetch; says so once for each partition."""
        before, self._read[key] = self._read.get(key), self._ids[key.topic]
        return None if before in (None, self._ids[key.topic]) else RECREATED

    def _leader(self, key: TopicPartition) -> int | None:
        return self._logs[key].leader if key in self._logs else None

    def _fresh_id(self, name: str) -> bytes:
        used = int.from_bytes(self._ids.get(name, b"")[-4:], "big")
        return name.encode()[:12].ljust(12, b"\0") + (used + 1).to_bytes(4, "big")

    def _place(self, held: FakePartitionLog, data: bytes, first: int) -> int:
        _, _, _, _, _, attributes, delta, base_ms, max_ms, producer, _, _, _ = HEADER.unpack_from(data)
        held.batches.append(
            FakeBatch(
                first=first,
                last=first + delta,
                data=struct.pack(">q", first) + data[8:],
                times=tuple(_times(data, attributes, base_ms, max_ms)),
                producer=producer,
                attributes=attributes,
            )
        )
        return first + int(delta) + 1

    def _first_at(self, key: TopicPartition, time_ms: int) -> int | None:
        for batch in self._logs[key].batches:
            for delta, stamp in zip(batch.times[::2], batch.times[1::2], strict=True):
                if stamp >= time_ms and batch.first + delta >= self._logs[key].start:
                    return batch.first + delta
        return None


def split(data: bytes) -> Iterable[bytes]:
    """The whole batches of a run of them."""
    at = 0
    while at < len(data):
        size = 12 + HEADER.unpack_from(data, at)[1]
        yield data[at : at + size]
        at += size


def _cut(batches: Iterable[FakeBatch], offset: int, room: int, *, first: bool) -> bytes:
    """Batches from the one that holds the offset on, cut at `room`; the first whole one comes where it may."""
    parts: list[bytes] = []
    size = 0
    for batch in batches:
        if batch.last < offset:
            continue
        if first and not parts:
            room = max(room, len(batch.data))
        if size >= room:
            break
        parts.append(batch.data)
        size += len(batch.data)
    return b"".join(parts)[:room]


def _times(data: bytes, attributes: int, base_ms: int, max_ms: int) -> Iterable[int]:
    """Offset delta and time of each record, flat; of a compressed batch only what its header knows."""
    count = HEADER.unpack_from(data)[-1]
    if attributes & CODEC or attributes & 0x08:
        return [0, max_ms] if count else []
    found: list[int] = []
    at = HEADER.size
    for _ in range(count):
        size, at = _varint(data, at)
        time_delta, place = _varint(data, at + 1)
        offset_delta, _ = _varint(data, place)
        found += [offset_delta, base_ms + time_delta]
        at += size
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
