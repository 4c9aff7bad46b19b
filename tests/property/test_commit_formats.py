"""The fast path through `__consumer_offsets` says what a plain reader, record by record, says; on broken bytes too.

KKM1 over random states and damage. The inspector's sums against plain sets of offsets, and everything it shows for any
metadata at all.
"""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkakit.core.cluster_facts import LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.core.text import plain_value
from kafkakit.report.report import text_of
from kafkakit.streams.commits.decide.documents import CommitDocument, state_of
from kafkakit.streams.commits.decide.offset_states import difference, duplicates_of, explain, tally_of
from kafkakit.streams.commits.report.commits import (
    ASCII,
    COMMIT_COLUMNS,
    commit_data,
    commit_row,
    commit_sections,
    draw,
)
from kafkakit.streams.model.binary import uvarint, uvarint_size
from kafkakit.streams.model.commit import (
    CommitIdentity,
    CommitState,
    Mark,
    MarkState,
    OffsetRanges,
    ReplayWindow,
    RouteMark,
    Spill,
    Watermark,
    Writer,
    state_data,
)
from kafkakit.streams.model.dialects.dialect import CommitFacts
from kafkakit.streams.model.dialects.registry import read_metadata
from kafkakit.streams.model.kkm1.decode import bind_of, read_kkm1
from kafkakit.streams.model.kkm1.encode import EncodedState, columns, encode_commit, ranges_size
from kafkakit.streams.model.kkm1.sections import FEW_BYTES, pack_bitmap, pack_rice, pack_runs, runs_of, unpack
from kafkakit.streams.model.kkm1.text import Cursor
from kafkakit.streams.model.log_batches import Batch, LogRecord, RecordFault, WalkEnd, batches_of, record_at, records_of
from kafkakit.streams.model.offsets_log import rows as rows_module
from kafkakit.streams.model.offsets_log.commits import TOMBSTONE, CommitColumns, FeedFacts, KeyTable
from kafkakit.streams.model.offsets_log.entries import (
    GROUP_TYPES,
    OFFSET_TYPES,
    OffsetCommit,
    OffsetsEntry,
    UndecodableEntry,
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
        if isinstance(entry, UndecodableEntry):
            self.count("undecodable")
            return
        if not isinstance(entry, OffsetsEntry) or record.key is None:
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


IDENTITY = CommitIdentity(cluster_id="c-1", topic_id=bytes(range(16)), partition=3, group="orders")
TOP = 2**63 - 1
SMALL_KKM1 = st.integers(1, 6)
LENGTHS = st.one_of(SMALL_KKM1, st.integers(1, 300), st.integers(1, 2**40))
BASES = st.one_of(st.integers(0, 300), st.integers(0, 2**45))


@st.composite
def done_sets(draw: st.DrawFn, base: int, *, lengths: st.SearchStrategy[int] = LENGTHS, most: int = 30) -> OffsetRanges:
    """Islands above base; sometimes the same two lengths again and again."""
    pairs = draw(st.lists(st.tuples(lengths, lengths), max_size=most))
    pairs *= draw(st.sampled_from([1, 1, 1, 7]))
    ranges, at = [], base
    for pending, done in pairs:
        ranges.append((at + pending, at + pending + done))
        at += pending + done
    return OffsetRanges(tuple(ranges))


@st.composite
def states(draw: st.DrawFn) -> CommitState:
    """Any state that a payload can hold."""
    base = draw(BASES)
    done = draw(done_sets(base))
    marks: list[Mark] = []
    for start, end in done.ranges[: draw(st.integers(0, 4))]:
        state = draw(st.sampled_from([MarkState.REJECTED, MarkState.SKIPPED]))
        first = draw(st.integers(start, end - 1))
        marks.append(
            Mark(start=first, end=draw(st.integers(first + 1, end)), state=state, count=draw(st.integers(0, 15)))
        )
    for start, end in (*done.gaps(base, done.end or base), (done.end or base, (done.end or base) + 9)):
        if draw(st.integers(0, 3)) == 0 and len(marks) < 12:
            deferred = draw(st.booleans())
            first = draw(st.integers(start, end - 1))
            marks.append(
                Mark(
                    start=first,
                    end=draw(st.integers(first + 1, end)),
                    state=MarkState.DEFERRED if deferred else MarkState.RETRYING,
                    count=draw(st.integers(0, 15)),
                    deferred_s=draw(st.integers(0, 2**32 - 1)) if deferred else 0,
                )
            )
    times = st.integers(0, 2 * 10**12)
    numbers = st.integers(0, 2**64 - 1)
    window = draw(st.tuples(st.integers(base, base + 500), st.integers(1, 500)))
    return CommitState(
        base=base,
        done=done,
        watermark=draw(st.none() | st.builds(Watermark, oldest_ms=times, newest_done_ms=times)),
        route=draw(st.none() | st.builds(RouteMark, epoch=numbers, segment=numbers)),
        marks=tuple(sorted(marks, key=lambda mark: mark.start)),
        spill=draw(
            st.none()
            | st.builds(
                Spill,
                partition=st.integers(0, 99),
                offset=st.integers(0, TOP),
                digest=st.binary(min_size=8, max_size=8),
            )
        ),
        writer=draw(st.none() | st.builds(Writer, member_hash=st.integers(0, 2**32 - 1), generation=numbers)),
        replay=draw(
            st.none() | st.builds(ReplayWindow, start=st.just(window[0]), end=st.just(sum(window)), request_id=numbers)
        ),
        forgotten=draw(st.sampled_from([0, 0, 1, 2**40])),
    )


def check(encoded: EncodedState, state: CommitState, limit: int) -> None:
    """What holds for every encoding, whatever had to be left out."""
    assert encoded.chars == len(encoded.text) <= max(limit, 0)
    written = encoded.written
    assert written.done.is_subset_of(state.done)
    assert encoded.forgotten == state.done.count - written.done.count
    assert encoded.lost_marks == len(state.marks) - len(written.marks)
    assert set(written.marks) <= set(state.marks)
    if not encoded.is_lossy:
        assert written == state
    if not encoded.text:
        assert written == CommitState(base=state.base)
        return
    assert written.forgotten == state.forgotten + encoded.forgotten
    reading = read_kkm1(encoded.text, state.base, IDENTITY)
    assert (reading.problem, reading.reason, reading.state) == (None, "", written)
    assert reading.is_lossy == (written.forgotten > 0)
    assert (reading.raw_bytes, reading.is_compressed) == (encoded.raw_bytes, encoded.is_compressed)
    # A rejected offset that is still done is still known as rejected.
    rejected = OffsetRanges.of((m.start, m.end) for m in state.marks if m.state is MarkState.REJECTED)
    known = OffsetRanges.of((m.start, m.end) for m in written.marks if m.state is MarkState.REJECTED)
    assert rejected.intersection(written.done) == known


@settings(max_examples=120, deadline=None)
@given(state=states(), alphabet=st.sampled_from("bbwj"))
def test_what_is_written_is_read_back(state: CommitState, alphabet: str) -> None:
    encoded = encode_commit(state, IDENTITY, limit_chars=60_000, alphabets=(alphabet,))
    assert not encoded.is_lossy
    assert encoded.fill <= 1
    check(encoded, state, 60_000)


@settings(max_examples=120, deadline=None)
@given(state=states(), limit=st.integers(-1, 200), alphabets=st.sampled_from(["b", "w", "j", "bw"]))
def test_what_does_not_fit_is_left_out_and_counted(state: CommitState, limit: int, alphabets: str) -> None:
    encoded = encode_commit(state, IDENTITY, limit_chars=limit, alphabets=tuple(alphabets))
    check(encoded, state, limit)
    assert (encoded.fill > 1) == encoded.is_lossy or not encoded.text


@settings(max_examples=150, deadline=None)
@given(base=st.integers(0, 2**45), data=st.data())
def test_sizes_are_those_of_the_smallest_packing(base: int, data: st.DataObject) -> None:
    done = data.draw(done_sets(base, most=60))
    runs = runs_of(base, done)
    if not runs:
        return
    span = sum(runs)
    packings = [pack_runs(runs), pack_rice(runs), *([pack_bitmap(runs)] if span < 10_000 else [])]
    for packed in packings:
        assert unpack(packed.encoding, Cursor(packed.data), base, span) == done
    few = len(packings[0].data) <= FEW_BYTES  # which stay runs
    data_bytes = min(len(packed.data) for packed in packings[: 1 if few else None])
    size = data_bytes + uvarint_size(base) + uvarint_size(span) + 1
    assert ranges_size(base, *columns(done)) == 1 + uvarint_size(size) + size


@settings(max_examples=200, deadline=None)
@given(
    text=st.one_of(
        st.text(max_size=60),
        st.text(max_size=60).map("~b".__add__),
        st.text(alphabet="ABCDEFabcdef0123-_", max_size=60).map("~bE".__add__),
        st.text(alphabet=st.characters(min_codepoint=0x3400, max_codepoint=0xD7FF), max_size=40).map("~w".__add__),
        st.text(alphabet='{}[]:,"0123456789.e-abvinds', max_size=60).map("~j".__add__),
    ),
    offset=st.sampled_from([-1, 0, 100, TOP, 2**70]),
    bound=st.booleans(),
)
@example(text="", offset=0, bound=True)
@example(text="~b\0\0", offset=0, bound=True)
def test_no_text_is_an_error_and_none_is_believed(text: str, offset: int, bound: bool) -> None:
    reading = read_kkm1(text, offset, IDENTITY if bound else None)
    assert reading.state.base == offset
    if bound:
        assert not reading.state.done
        assert reading.problem is not None


@settings(max_examples=100, deadline=None)
@given(state=states(), alphabet=st.sampled_from("bwj"), data=st.data())
def test_damaged_text_never_holds_more_than_was_written(state: CommitState, alphabet: str, data: st.DataObject) -> None:
    text = encode_commit(state, IDENTITY, limit_chars=60_000, alphabets=(alphabet,)).text
    at = data.draw(st.integers(2, len(text) - 1))
    kind = data.draw(st.sampled_from(["flip", "cut", "drop", "twice"]))
    if kind == "flip":
        text = text[:at] + chr(ord(text[at]) ^ 1 << data.draw(st.integers(0, 6))) + text[at + 1 :]
    else:
        text = {"cut": text[:at], "drop": text[:at] + text[at + 1 :], "twice": text[:at] + text[at - 1 :]}[kind]
    reading = read_kkm1(text, state.base, IDENTITY)
    assert reading.state.done.is_subset_of(state.done)
    assert reading.state == (state if reading.problem is None else CommitState(base=state.base))


@settings(max_examples=100, deadline=None)
@given(state=states(), data=st.data())
def test_damaged_bytes_that_are_bound_anew_stay_within_the_format(state: CommitState, data: st.DataObject) -> None:
    text = encode_commit(state, IDENTITY, limit_chars=60_000).text
    raw = bytearray(base64.urlsafe_b64decode(text[2:] + "=="))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] ^= 1 << data.draw(st.integers(0, 7))
    raw[1:5] = bind_of(IDENTITY, bytes(raw[:1] + raw[5:])).to_bytes(4, "little")
    text = "~b" + base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("=")
    reading = read_kkm1(text, state.base, IDENTITY)
    if reading.problem is not None:
        assert reading.state == CommitState(base=state.base)
        return
    # It is now what a writer may have written, so it must be a state like any other: written and read again as is.
    again = encode_commit(reading.state, IDENTITY, limit_chars=80_000)
    assert again.written == reading.state
    assert read_kkm1(again.text, state.base, IDENTITY).state == reading.state


@settings(max_examples=100, deadline=None)
@given(raw=st.binary(max_size=80))
def test_random_bodies_that_are_bound_never_fail(raw: bytes) -> None:
    for first in (0x10, 0x11, 0x12, 0x14, 0x17):
        sealed = bytes((first,)) + bind_of(IDENTITY, bytes((first,)) + raw).to_bytes(4, "little") + raw
        read_kkm1("~b" + base64.urlsafe_b64encode(sealed).decode().rstrip("="), 100, IDENTITY)


@given(value=st.integers(0, 2**64 - 1))
def test_numbers_are_read_back(value: int) -> None:
    data = uvarint(value)
    assert len(data) == uvarint_size(value)
    assert Cursor(data).uvarint() == value


ROUNDS_COMMITS_INSPECTOR = settings(max_examples=300, deadline=None, derandomize=True)
LETTERS = {MarkState.REJECTED: "x", MarkState.SKIPPED: "s", MarkState.RETRYING: "r", MarkState.DEFERRED: "d"}


@st.composite
def states_commits_inspector(draw_from: st.DrawFn) -> CommitState:
    """A state of up to 40 offsets, each with a letter of its own."""
    base = draw_from(st.integers(0, 20))
    letters = draw_from(st.lists(st.sampled_from("#.xsrd"), max_size=40))
    if letters:
        letters[0] = draw_from(st.sampled_from(".rd"))
    done = OffsetRanges.of((base + i, base + i + 1) for i, letter in enumerate(letters) if letter in "#xs")
    kinds = {letter: kind for kind, letter in LETTERS.items()}
    marks = tuple(
        Mark(start=base + i, end=base + i + 1, state=kinds[letter], count=3 if letter == "r" else 0)
        for i, letter in enumerate(letters)
        if letter in kinds
    )
    return CommitState(base=base, done=done, marks=marks)


def letter_of(state: CommitState, offset: int) -> str:
    mark = next((m for m in state.marks if m.start <= offset < m.end), None)
    if mark is not None:
        return LETTERS[mark.state]
    return "#" if offset in state.done else "."


@ROUNDS_COMMITS_INSPECTOR
@given(states_commits_inspector())
def test_each_offset_has_its_own_cell_and_is_counted_once(state: CommitState) -> None:
    end = max([state.end, *(m.end for m in state.marks)])
    expected = "".join(letter_of(state, offset) for offset in range(state.base, end))
    picture = draw(state, width=200, style=ASCII)
    assert (picture.rows[0].split()[1] if picture else "") == expected
    tally = tally_of(state, end + 5)
    assert (tally.done, tally.rejected, tally.skipped, tally.pending, tally.retrying, tally.deferred) == tuple(
        expected.count(letter) for letter in "#xs.rd"
    )
    assert (tally.span, tally.untouched) == (len(expected), 5)


def done_of(state: CommitState) -> set[int]:
    return {*range(state.base), *(offset for start, end in state.done for offset in range(start, end))}


def marked(state: CommitState, kind: MarkState) -> set[int]:
    return {offset for m in state.marks if m.state is kind for offset in range(m.start, m.end)}


def offsets(ranges: OffsetRanges) -> set[int]:
    return {offset for start, end in ranges for offset in range(start, end)}


@ROUNDS_COMMITS_INSPECTOR
@given(states_commits_inspector(), states_commits_inspector())
def test_a_difference_is_that_of_sets(before: CommitState, after: CommitState) -> None:
    found = difference(before, after)
    rejected = marked(after, MarkState.REJECTED) - marked(before, MarkState.REJECTED)
    skipped = marked(after, MarkState.SKIPPED) - marked(before, MarkState.SKIPPED)
    assert offsets(found.reopened) == done_of(before) - done_of(after)
    assert offsets(found.rejected) == rejected
    assert offsets(found.became_done) == done_of(after) - done_of(before) - rejected - skipped
    newly = marked(after, MarkState.RETRYING) - marked(before, MarkState.RETRYING)
    assert {offset for start, end, *_ in found.retried for offset in range(start, end)} == newly
    assert difference(before, before).is_empty


@ROUNDS_COMMITS_INSPECTOR
@given(states_commits_inspector())
def test_a_state_survives_json(state: CommitState) -> None:
    document = msgspec.convert({"offset": state.base, "state": msgspec.to_builtins(state_data(state))}, CommitDocument)
    assert state_of(document, "test") == state


VECTORS = (
    "~bEBiF-6gBB2QKAAECAgUCCLawy6eWM-gHBAIHAgYGAgEQAAIj",
    "ZQAAAAEAAMNL",
    "bAAK5gMA",
    "AgAAAZlk8tg2AAAAAQAAAANrLTEAAAAAAAAAKg==",
    "",
)
SPANS = st.one_of(
    st.none(),
    st.tuples(st.integers(-1, 300), st.integers(0, 300)).map(
        lambda pair: LogSpan(start=pair[0], stable=pair[0] + pair[1], end=pair[0] + pair[1])
    ),
)


@st.composite
def hostile_metadata(draw_from: st.DrawFn) -> str:
    """Any text, or a real payload with something changed in it."""
    if draw_from(st.booleans()):
        return draw_from(st.text(max_size=60))
    text = draw_from(st.sampled_from(VECTORS))
    at = draw_from(st.integers(0, len(text)))
    return text[:at] + draw_from(st.text(max_size=2)) + text[at + draw_from(st.integers(0, 2)) :]


@ROUNDS_COMMITS_INSPECTOR
@given(hostile_metadata(), st.integers(0, 2**63 - 1) | st.integers(0, 200), SPANS, st.booleans())
def test_whatever_was_committed_can_be_shown(text: str, offset: int, span: LogSpan | None, exists: bool) -> None:
    identity = CommitIdentity(cluster_id="c", topic_id=bytes(16), partition=0, group="g\x1b")
    facts = CommitFacts(
        offset=offset,
        metadata=text,
        reading=read_metadata(text, offset, identity),
        at_ms=1_758_335_260_726,
        key=TopicPartition("t", 0),
        group="g\x1b",
        identity=identity,
        span=span,
        topic_exists=exists,
        owner="o\x07",
    )
    shown = text_of(commit_sections(facts, width=60, style=ASCII))
    assert shown.replace("\n", "").isprintable()
    assert json.loads(json.dumps(plain_value(commit_data(facts))))["offset"] == offset
    assert len(commit_row(facts)) == len(COMMIT_COLUMNS)
    again = duplicates_of(facts)
    assert 0 <= again.low <= (again.low if again.high is None else again.high)
    assert explain(facts).sentences
