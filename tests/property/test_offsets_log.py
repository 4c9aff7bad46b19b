"""The fast path through `__consumer_offsets` says what a plain reader, record by record, says; on broken bytes too."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkakit.streams.model.log_batches import Batch, LogRecord, RecordFault, WalkEnd, batches_of, record_at, records_of
from kafkakit.streams.model.offsets_log import rows as rows_module
from kafkakit.streams.model.offsets_log.commits import TOMBSTONE, CommitColumns, FeedFacts, KeyTable
from kafkakit.streams.model.offsets_log.entries import (
    GROUP_TYPES,
    OFFSET_TYPES,
    Entry,
    OffsetCommit,
    Undecodable,
    decode_entry,
)
from kafkakit.streams.model.offsets_log.feed import OffsetsFeed
from tests.clusters.streams_batches import Rec, batch, group_key, marker, offset_key, offset_value

ROUNDS = settings(max_examples=120, deadline=None, derandomize=True)

Seen = tuple[int, int, int, int, bytes, bytes]
"""Offset in the log, committed offset, time, leader epoch, topic id, metadata."""


@dataclass
class Pending:
    epoch: int
    since: int
    rows: dict[bytes, Seen] = field(default_factory=dict)


@dataclass
class PlainReader:
    """What a broker does when it loads a partition, with dictionaries; offsets count by their place in the log."""

    next_offset: int = 0
    state: dict[bytes, Seen] = field(default_factory=dict)
    newest: dict[bytes, int] = field(default_factory=dict)
    pending: dict[int, Pending] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, *names: str, by: int = 1) -> None:
        for name in names:
            self.counts[name] = self.counts.get(name, 0) + by

    def feed(self, buffer: bytes) -> None:
        self.counts = {}
        passed = 0
        for found in batches_of(buffer):
            if isinstance(found, Batch):
                if found.next_offset > self.next_offset:
                    self.count("batches")
                    self.take(buffer, found)
                    self.next_offset = found.next_offset
            elif isinstance(found, WalkEnd):
                self.count("stopped", by=int(found.is_corrupt))
            else:
                self.count("unreadable")
                base = int.from_bytes(buffer[found.position : found.position + 8], "big", signed=True)
                if found.reason in ("message format 0", "message format 1") and 0 <= base < 1 << 62:
                    passed = max(passed, base + 1)
        self.next_offset = max(self.next_offset, passed)

    def take(self, buffer: bytes, found: Batch) -> None:
        records = []
        for record in records_of(buffer, found, rows_module.MAX_INFLATED):
            if isinstance(record, RecordFault):
                self.count("unreadable")
            elif found.is_control or record.offset >= self.next_offset:
                records.append(record)
        if found.is_control:
            kinds = [r.key[2:4] for r in records if r.key is not None and len(r.key) >= 4]
            known = [k for k in kinds if k in (b"\0\0", b"\0\1")]
            if known:
                self.end(found.producer_id, found.producer_epoch, commits=known[-1] == b"\0\1")
            return
        pending: Pending | None = None
        is_dropped = False
        if found.is_transactional and records:
            pending = self.pending.get(found.producer_id)
            is_dropped = pending is not None and found.producer_epoch < pending.epoch
            if pending is None or found.producer_epoch > pending.epoch:
                self.count("dropped", by=len(pending.rows) if pending else 0)
                pending = self.pending[found.producer_id] = Pending(found.producer_epoch, found.base_offset)
        for record in records:
            self.record(record, pending, is_dropped)

    def record(self, record: LogRecord, pending: Pending | None, is_dropped: bool) -> None:
        self.count("records")
        self.count("tombstones", by=int(record.value is None))
        number = int.from_bytes(record.key[:2], "big", signed=True) if record.key and len(record.key) >= 2 else None
        if number is not None:
            self.count(f"type {number}")
            self.count("opaque", by=int(number not in OFFSET_TYPES | GROUP_TYPES))
        entry = decode_entry(record.key, record.value)
        if isinstance(entry, Undecodable):
            self.count("undecodable")
            return
        if not isinstance(entry, Entry) or record.key is None:
            return
        key = b"\0\1" + record.key[2:]
        if isinstance(entry.value, OffsetCommit):
            v = entry.value
            seen = (record.offset, v.offset, v.committed_ms, v.leader_epoch, v.topic_id, v.metadata)
        else:
            seen = (record.offset, TOMBSTONE, -1, -1, bytes(16), b"")
        if is_dropped:
            self.count("dropped")
        elif pending is not None:
            self.count("dropped", by=0)
            pending.rows[key] = seen
        else:
            self.see(key, seen)

    def see(self, key: bytes, seen: Seen) -> None:
        if seen[0] <= self.newest.get(key, -1):
            return
        self.newest[key] = seen[0]
        if seen[1] == TOMBSTONE:
            self.state.pop(key, None)
        else:
            self.state[key] = seen

    def end(self, producer: int, epoch: int, *, commits: bool) -> None:
        pending = self.pending.get(producer)
        if pending is None or epoch < pending.epoch:
            return
        del self.pending[producer]
        if commits:
            for key, seen in sorted(pending.rows.items(), key=lambda item: item[1][0]):
                self.see(key, seen)


@contextmanager
def worked_on_in(piece_bytes: int, abreast: int) -> Iterator[None]:
    """With small pieces, and few batches walked abreast, short streams go all the ways."""
    before = rows_module.PIECE_BYTES, rows_module.MIN_ABREAST
    rows_module.PIECE_BYTES, rows_module.MIN_ABREAST = piece_bytes, abreast
    try:
        yield
    finally:
        rows_module.PIECE_BYTES, rows_module.MIN_ABREAST = before


def apply(state: dict[bytes, Seen], columns: CommitColumns, table: KeyTable) -> None:
    rows = columns.rows()
    assert len({r.key for r in rows}) == len(rows)
    assert [r.at for r in rows] == sorted(r.at for r in rows)
    for row in rows:
        key = table.bytes_of(row.key)
        if row.offset == TOMBSTONE:
            state.pop(key, None)
        else:
            state[key] = (row.at, row.offset, row.committed_ms, row.leader_epoch, row.topic_id, row.metadata)


def compare(facts: FeedFacts, plain: PlainReader) -> None:
    counts = plain.counts
    assert facts.next_offset == plain.next_offset
    names = ("batches", "records", "tombstones", "opaque", "undecodable")
    assert {n: getattr(facts.counts, n) for n in names} == {n: counts.get(n, 0) for n in names}
    assert facts.counts.unreadable_batches == counts.get("unreadable", 0)
    assert facts.counts.by_type == {int(n[5:]): c for n, c in counts.items() if n.startswith("type ")}
    assert bool(facts.stopped) == bool(counts.get("stopped"))
    assert bool(facts.counts.first_reason) == bool(facts.counts.undecodable or facts.counts.unreadable_batches)
    assert facts.open_transaction_count == len(plain.pending)
    told = {t.producer_id: (t.producer_epoch, t.since_offset) for t in facts.open_transactions}
    assert told == {pid: (p.epoch, p.since) for pid, p in plain.pending.items()}
    still = sum(seen[0] > plain.newest.get(key, -1) for p in plain.pending.values() for key, seen in p.rows.items())
    assert facts.held_back == still


def same(buffers: list[bytes], piece_bytes: int = 4 << 20, abreast: int = 200) -> None:
    """Feed both readers, and compare what they know after each buffer."""
    table = KeyTable()
    feed, plain = OffsetsFeed(3, table), PlainReader()
    state: dict[bytes, Seen] = {}
    with worked_on_in(piece_bytes, abreast):
        for buffer in buffers:
            columns, facts = feed.feed(buffer)
            plain.feed(buffer)
            apply(state, columns, table)
            assert state == plain.state
            compare(facts, plain)
            assert feed.resume_offset == min([p.since for p in plain.pending.values()] + [plain.next_offset])


SMALL = st.integers(0, 2)
TAGS = st.sampled_from([None, b"\0", b"\1\7\1a", b"\2\0\x10" + bytes(range(16)) + b"\5\0", b"\1\0\2ab", b"\x7f", b""])
VALUES = st.builds(
    offset_value,
    st.sampled_from([0, 1, 41, 2**62, -1, -7]),
    version=st.sampled_from([0, 1, 2, 3, 3, 4, 4, 4, 5, 9, -3]),
    metadata=st.sampled_from(["", "m", "x" * 126, "y" * 200, "z" * 3000, "ü"]),
    committed_ms=st.sampled_from([1_758_335_260_726, 5, -1]),
    leader_epoch=st.sampled_from([-1, 7]),
    topic_id=st.sampled_from([bytes(16), bytes(range(16))]),
    tags=TAGS,
)
KEYS = st.builds(offset_key, st.sampled_from("ab"), st.sampled_from("tu"), SMALL, st.sampled_from([1, 1, 1, 1, 0]))
OTHER_KEYS = st.one_of(
    st.builds(group_key, st.sampled_from([2, 3, 4, 6, 11, 17, 19, 24, 99, -1]), st.sampled_from("ab")),
    st.builds(group_key, st.sampled_from([5, 7, 8, 10, 16]), st.sampled_from("ab"), st.just("m1")),
    st.sampled_from([None, b"", b"\0", b"\0\1", b"\0\1\0\1\xff\0\1t\0\0\0\0", offset_key("a", "t", -1)]),
    st.builds(lambda k: k + b"!", KEYS),
)
RECORDS = st.one_of(
    st.builds(Rec, KEYS, VALUES, delta_ms=st.sampled_from([0, -5, 100, 2**40])),
    st.builds(Rec, KEYS, VALUES),
    st.builds(Rec, KEYS, st.none()),
    st.builds(Rec, KEYS, st.one_of(VALUES.map(lambda v: v[:-3]), st.binary(max_size=12))),
    st.builds(Rec, OTHER_KEYS, st.one_of(st.none(), VALUES, st.binary(max_size=30))),
)


@dataclass(frozen=True)
class Step:
    """A batch of a stream to be written; a producer below 0 means no transaction."""

    records: list[Rec]
    hole: int = 0
    codec: str = "none"
    producer: int = -1
    epoch: int = 0
    ends: bool | None = None


STEPS = st.one_of(
    st.builds(
        Step,
        st.lists(RECORDS, max_size=5),
        hole=SMALL,
        codec=st.sampled_from(["none", "none", "none", "gzip", "zstd", "lz4"]),
        producer=st.sampled_from([-1, -1, 0, 1, 2]),
        epoch=st.sampled_from([0, 0, 0, 1]),
    ),
    st.builds(Step, st.just([]), producer=SMALL, epoch=st.sampled_from([0, 1]), ends=st.booleans()),
)


def written(steps: list[Step]) -> list[bytes]:
    """The batches of a stream."""
    found = []
    offset = 0
    for step in steps:
        producer = (step.producer, step.epoch if step.producer >= 0 else -1)
        if step.ends is not None:
            found.append(marker(offset, producer, commits=step.ends))
            offset += 1
            continue
        last = max(len(step.records) - 1, 0) + step.hole
        is_transactional = step.producer >= 0
        found.append(
            batch(
                offset,
                step.records,
                codec=step.codec,
                transactional=is_transactional,
                producer=producer,
                last_offset_delta=last,
            )
        )
        offset += last + 1 + step.hole
    return found


@ROUNDS
@given(
    st.lists(STEPS, max_size=25),
    st.lists(st.integers(0, 25), max_size=6),
    st.sampled_from([150, 1_000, 4 << 20]),
    st.sampled_from([1, 3, 200]),
)
def test_the_fast_path_equals_the_plain_reader(
    steps: list[Step], cuts: list[int], piece_bytes: int, abreast: int
) -> None:
    batches = written(steps)
    edges = sorted({0, len(batches), *(min(c, len(batches)) for c in cuts)})
    # Every buffer begins a batch early and ends with a cut one, as fetches do.
    buffers = [
        b"".join(batches[max(a - 1, 0) : b]) + (batches[b][:-1] if b < len(batches) else b"")
        for a, b in pairwise(edges)
    ]
    same([*buffers, *buffers[-1:]], piece_bytes, abreast)


@ROUNDS
@given(
    st.lists(STEPS, min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=6),
    st.sampled_from([150, 4 << 20]),
    st.sampled_from([1, 3, 200]),
)
def test_broken_bytes_are_read_alike_and_never_raise(
    steps: list[Step], changes: list[tuple[int, int]], piece_bytes: int, abreast: int
) -> None:
    data = bytearray(b"".join(written(steps)))
    for at, byte in changes:
        data[at % len(data)] = byte
    same([bytes(data)], piece_bytes, abreast)
    for offset in (0, 3, 2**40):
        record_at(bytes(data), offset)


def test_values_cut_or_overwritten_anywhere_are_read_alike() -> None:
    whole = [
        offset_value(7, version=v, metadata=m, topic_id=t, tags=tags)
        for v, m, t, tags in [
            *((v, m, bytes(16), None) for v in range(5) for m in ("", "abc")),
            (4, "x" * 200, bytes(range(16)), None),
            (4, "abc", bytes(16), b"\1\0\x10"),
            (4, "abc", bytes(16), b"\1\0\x11" + bytes(17)),
        ]
    ]
    cut = [v[:-n] for v in whole for n in range(1, min(len(v), 40))]
    lengths = [v[: at - 1] + b"\xff" + bytes([b]) + v[at + 1 :] for v in whole for at in (11, 15) for b in (0xFE, 0xFF)]
    over = [v[:at] + b"\xff" * 6 + v[at + 6 :] for v in whole for at in range(2, min(len(v), 40), 3)]
    for many in (cut, lengths, over):
        records = [Rec(offset_key("g", "t", n), value) for n, value in enumerate(many)]
        same([batch(0, records)])
        same([b"".join(batch(n, [record]) for n, record in enumerate(records))])


def flipped(mask: int, byte: int) -> bytes:
    return bytes([byte ^ mask])


@pytest.mark.parametrize("abreast", [1, 10**9])
def test_records_with_any_byte_changed_are_read_alike(abreast: int) -> None:
    records = [Rec(offset_key("g", "t", n), offset_value(n, metadata="m" * n), delta_ms=n) for n in (1, 40, 2)]
    size = len(batch(0, records))
    changes: list[Callable[[int], bytes]] = [partial(flipped, mask) for mask in (1, 2, 4, 0x40, 0x80, 0xFF)]
    changes += [lambda _: b"\xff" * 6, lambda _: b"\xff" * 11, lambda _: b"\0\0"]
    for change in changes:
        batches = []
        for at in range(61, size):
            data = bytearray(batch(3 * at, records))
            new = change(data[at])
            data[at : min(at + len(new), size)] = new[: size - at]
            batches.append(bytes(data))
        same([b"".join(batches)], abreast=abreast)


@ROUNDS
@given(st.binary(max_size=300))
@example(bytes(61))
def test_any_bytes_are_no_error(data: bytes) -> None:
    same([data, data])
    same([data + batch(5, [Rec(data, data)], codec="zstd")])
    record_at(data, 0)
    decode_entry(data, data)
    for number in range(25):
        head = number.to_bytes(2, "big")
        for key in (head + data, group_key(number, "g", "m")):
            decode_entry(key, b"\0\0" + data)
            decode_entry(key, b"\0\4" + data)


@ROUNDS
@given(st.lists(STEPS, max_size=20), st.integers(0, 20))
def test_a_restart_gives_again_nothing_that_was_known(steps: list[Step], cut: int) -> None:
    batches = written(steps)
    table = KeyTable()
    first = OffsetsFeed(0, table)
    state: dict[bytes, Seen] = {}
    apply(state, first.feed(b"".join(batches[:cut]))[0], table)
    again = OffsetsFeed(0, table, next_offset=first.resume_offset, known_to=first.next_offset)
    columns, _ = again.feed(b"".join(batches))
    live, _ = first.feed(b"".join(batches))
    without = {row.at: row for row in columns.rows() if row.offset != TOMBSTONE}
    assert without == {row.at: row for row in live.rows() if row.offset != TOMBSTONE}
    apply(state, columns, table)
    plain = PlainReader()
    plain.feed(b"".join(batches))
    assert state == plain.state
