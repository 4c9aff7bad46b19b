"""Single-object queries against columns, provenance over many hops and hostile bytes, and entries of the ledger.

Properties of guarded reads. Properties of verdicts. A `DoneSet` is what a plain set of offsets is, whatever is marked
and opened again in whatever order. Operations on `OffsetRanges` are those of sets.
"""

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkakit.core.cluster_facts import FetchedBatches, LogSpan
from kafkakit.core.errors import UsageError
from kafkakit.core.query import Field, NumberField, TextField, compile_query, match_objects
from kafkakit.core.query_text import parse_query
from kafkakit.streams.model.commit import OffsetRanges
from kafkakit.streams.model.done_set import DoneSet
from kafkakit.streams.model.guarded_reads import GuardedRead, VerdictKind, batch_verdict, measure_batch
from kafkakit.streams.model.guarded_reads import verdicts_of as walk
from kafkakit.streams.model.log_batches import Codec, WalkEnd
from kafkakit.streams.model.provenance import (
    OWN_HEADERS,
    LedgerReject,
    RecordFailure,
    RecordOrigin,
    bound_texts,
    decode_reject,
    encode_reject,
    provenance_headers,
    read_provenance,
)
from tests.clusters.streams_batches import Rec, batch, marker
from tests.property.test_core import KEYS, objects, queries, table_of
from tests.rigs.bombs import CODECS, batch_of, only_batch, packed, zstd_zeros

MOST_BYTES_ADDED = 6_000


def single(row_keys: set[str]) -> Callable[[str], Field[dict[str, Any]] | None]:
    def field(key: str) -> Field[dict[str, Any]] | None:
        if key not in row_keys:
            return None
        kind = NumberField if key in ("count", "size_bytes") else TextField
        return kind(lambda row: row.get(key))

    return field


@given(queries, objects)
def test_single_objects_match_as_columns_say(query: tuple[str, Any], rows: list[dict[str, Any]]) -> None:
    node = parse_query(query[0])
    matches = compile_query(node, single({key for row in rows for key in row}))
    assert [matches(row) for row in rows] == match_objects(node, table_of(rows)).tolist()
    everywhere = compile_query(node, single(set(KEYS)))
    assert [everywhere(row) for row in rows] == [matches(row) for row in rows]


@given(
    st.text("0123456789.-", max_size=24),
    st.sampled_from(["=", "<", "<=", ">", ">="]),
    st.text("0123456789.", min_size=1),
)
def test_numbers_in_texts_compare_as_columns_say(own: str, relation: str, value: str) -> None:
    try:
        node = parse_query(f"tier {relation} {value}")
    except UsageError:
        return
    rows = [{"tier": own}]
    assert [compile_query(node, single({"tier"}))(row) for row in rows] == match_objects(node, table_of(rows)).tolist()


@pytest.mark.parametrize("own", ["9" * 30, "9" * 31, "9" * 5000, "-" + "1" * 18, "1" * 19])
def test_long_digits_compare_as_columns_say(own: str) -> None:
    for query in ("tier > 8", "tier < 8", f"tier = {own[:40]}", f"tier in (1, {own[:40]})"):
        node, rows = parse_query(query), [{"tier": own}]
        assert [compile_query(node, single({"tier"}))(row) for row in rows] == match_objects(
            node, table_of(rows)
        ).tolist()


def test_a_long_query_and_one_compared_with_text() -> None:
    node = parse_query(" or ".join(f"tier = {n}" for n in range(300)))
    matches = compile_query(node, single({"tier"}))
    assert [matches({"tier": "299"}), matches({"tier": "300"})] == [True, False]
    with pytest.raises(UsageError, match="a number"):
        compile_query(parse_query("count > many"), single({"count"}))


names = st.text("abcXYZ019._-", min_size=1, max_size=20).filter(lambda name: name not in (".", ".."))
numbers = st.integers(0, 2**63 - 1)
anything = st.text(max_size=30) | st.text("é\U0001f600x", min_size=300, max_size=1200)
origins = st.builds(
    RecordOrigin,
    stream=names,
    lane=st.sampled_from(["live", "slow", "retry-2"]),
    segment=numbers,
    epoch=numbers,
    cluster_id=names,
    topic=names,
    partition=st.integers(0, 2**31 - 1),
    offset=numbers,
    at_ms=st.none() | numbers,
)
failures = st.builds(
    RecordFailure,
    group=anything,
    reason=anything,
    at_ms=numbers,
    tries=numbers,
    error_class=anything,
    error_text=anything,
)
own_names = st.sampled_from(sorted(OWN_HEADERS))
headers = st.lists(
    st.tuples(own_names | st.text(max_size=8), st.none() | st.binary(max_size=40) | numbers.map(lambda n: b"%d" % n)),
    max_size=20,
)


def size(found: Any) -> int:
    return sum(len(name) + len(value or b"") for name, value in found)


@given(headers, origins, st.lists(failures, min_size=1, max_size=4))
def test_the_first_origin_stays_hops_are_counted_and_nothing_grows(
    given: list[tuple[str, bytes | None]], here: RecordOrigin, hops: list[RecordFailure]
) -> None:
    found: Any = given
    before = read_provenance(given)
    for count, last in enumerate(hops, 1):
        place = here if count == 1 else RecordOrigin(
            stream="other", lane="dlq", segment=9, epoch=9, cluster_id="x", topic="t", partition=0, offset=count
        )  # fmt: skip
        found = provenance_headers(found, place, last)
        read = read_provenance(found)
        assert read is not None
        assert read.origin == (before.origin if before else here)
        assert read.hops == count + (before.hops if before else 0)
        assert (read.failure.at_ms, read.failure.tries) == (last.at_ms, last.tries)
        for text, kept in ((last.reason, read.failure.reason), (last.error_text, read.failure.error_text)):
            assert text.encode("utf-8", "replace").startswith(kept.encode())
        assert [h for h in found if h[0] not in OWN_HEADERS] == [h for h in given if h[0] not in OWN_HEADERS]
        assert len([h for h in found if h[0] in OWN_HEADERS]) == len(OWN_HEADERS)
        assert size(found) - size([h for h in given if h[0] not in OWN_HEADERS]) <= MOST_BYTES_ADDED


@given(origins, failures, st.data())
def test_damaged_headers_are_no_provenance_or_another_one_and_never_raise(
    here: RecordOrigin, last: RecordFailure, data: st.DataObject
) -> None:
    found = list(provenance_headers((), here, last))
    at = data.draw(st.integers(0, len(found) - 1))
    value = data.draw(st.none() | st.binary(max_size=30) | st.just(b"9" * 5000))
    found[at] = (found[at][0], value)
    read = read_provenance(found)
    assert read is None or (value is not None and len(value) < 5000)
    assert read_provenance(found[:at] + found[at + 1 :]) is None


rejects = st.builds(LedgerReject, topic_id=st.binary(min_size=16, max_size=16), place=origins, failure=failures)


@given(rejects, rejects, st.binary(max_size=60))
def test_entries_of_the_ledger_come_back_and_others_are_none(
    one: LedgerReject, other: LedgerReject, noise: bytes
) -> None:
    key, value = encode_reject(one)
    read = decode_reject(key, value)
    assert read == replace(one, failure=bound_texts(one.failure))
    assert len(value) < 8_000
    assert decode_reject(noise, value) is None
    assert decode_reject(key, noise) is None
    assert decode_reject(None, value) is None
    assert decode_reject(key, value[:-3]) is None
    if (other.failure.group, other.place.partition, other.place.offset) != (
        one.failure.group, one.place.partition, one.place.offset,
    ):  # fmt: skip
        assert decode_reject(other.key, value) is None


def test_a_group_may_have_slashes_and_an_entry_has_a_limit() -> None:
    place = RecordOrigin(
        stream="s", lane="live", segment=1, epoch=1, cluster_id="c", topic="t", partition=1, offset=2
    )  # fmt: skip
    entry = LedgerReject(topic_id=bytes(16), place=place, failure=RecordFailure(group="a/b/1/2", reason="r", at_ms=1))
    assert decode_reject(*encode_reject(entry)) == entry
    half = RecordFailure(group="g", reason="r\ud800", at_ms=1, error_text="x" * 20_000)
    read = decode_reject(*encode_reject(LedgerReject(topic_id=bytes(16), place=place, failure=half)))
    assert read is not None
    assert (read.failure.reason, len(read.failure.error_text)) == ("r?", 1000)
    large = LedgerReject(topic_id=bytes(16), place=place, failure=replace(half, group="g" * 20_000))
    with pytest.raises(UsageError, match="at most 16,384"):
        encode_reject(large)


LIMIT = 1 << 20
PRODUCERS = ((7, 0), (8, 0))
Expected = tuple[int, bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]
TEXTS = st.text(max_size=5)
RECORDS = st.builds(
    Rec,
    st.none() | st.binary(max_size=20),
    st.none() | st.binary(max_size=200) | st.integers(0, 20_000).map(bytes),
    st.integers(-1_000_000, 1 << 41),
    headers=st.lists(st.tuples(TEXTS.map(str.encode), st.none() | st.binary(max_size=10)), max_size=3).map(tuple),
)


@dataclass(frozen=True, slots=True)
class Log:
    """Batches with the offset after each, the records that count, aborted transactions (with the marker), the end."""

    batches: list[tuple[int, bytes]]
    expected: list[Expected]
    aborted: list[tuple[int, int, int]]
    end: int

    @property
    def data(self) -> bytes:
        return b"".join(data for _, data in self.batches)


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """A log with transactions, gaps and codecs."""
    batches: list[tuple[int, bytes]] = []
    at, aborted = draw(st.integers(0, 1 << 40)), []
    records: dict[tuple[int, int] | None, list[Expected]] = {None: []}
    began: dict[tuple[int, int], int] = {}
    for _ in range(draw(st.integers(0, 12))):
        producer = draw(st.sampled_from((None, *PRODUCERS)))
        at += draw(st.sampled_from((0, 0, 0, 1, 9)))
        if producer in began and draw(st.booleans()):
            commits = draw(st.booleans())
            batches.append((at + 1, marker(at, producer, commits=commits)))
            first, held = began.pop(producer), records.pop(producer)
            if commits:
                records[None] += held
            else:
                aborted.append((producer[0], first, at))
            at += 1
            continue
        some = draw(st.lists(RECORDS, max_size=6))
        deltas = sorted(draw(st.sets(st.integers(0, 300), min_size=len(some), max_size=len(some))))
        last = max(deltas, default=0) + draw(st.integers(0, 3))
        made = [Rec(r.key, r.value, r.delta_ms, d, r.headers) for r, d in zip(some, deltas, strict=True)]
        base_ms = draw(st.integers(1_000_000, 1 << 41))
        plain = batch(
            at, made, base_ms=base_ms, last_offset_delta=last, producer=producer or (-1, -1),
            transactional=producer is not None,
        )  # fmt: skip
        codec = draw(st.sampled_from(Codec))
        made_whole = plain if codec is Codec.NONE or not some else recompressed(plain, codec)
        batches.append((at + last + 1, made_whole))
        if producer is not None:
            began.setdefault(producer, at)
        records.setdefault(producer, []).extend(
            (at + d, r.key, r.value, base_ms + r.delta_ms, tuple((name.decode(), value) for name, value in r.headers))
            for r, d in zip(some, deltas, strict=True)
        )
        at += last + 1
    for producer in list(began):  # a broker sends nothing of what is open: let it be committed
        batches.append((at + 1, marker(at, producer, commits=True)))
        records[None] += records.pop(producer)
        at += 1
    return Log(batches, sorted(records[None], key=lambda one: one[0]), aborted, at)


def recompressed(plain: bytes, codec: Codec) -> bytes:
    """The batch with its records compressed; its header stays."""
    made = batch_of(packed(plain[61:], codec), codec)
    attributes = struct.unpack_from(">h", plain, 21)[0] | codec
    return plain[:8] + made[8:12] + plain[12:21] + struct.pack(">h", attributes) + plain[23:61] + made[61:]


def guarded(data: bytes, start: int, aborted: tuple[tuple[int, int], ...] = ()) -> GuardedRead:
    fetched = FetchedBatches(records=data, span=LogSpan(start=0, stable=1 << 60, end=1 << 60), aborted=aborted)
    return GuardedRead(fetched=fetched, start=start, limit_bytes=LIMIT)


@given(logs(), st.integers(0, 400))
def test_records_come_out_as_they_went_in(log: Log, skipped: int) -> None:
    start = min(log.end, struct.unpack_from(">q", log.data)[0] + skipped) if log.batches else log.end
    # A broker sends whole batches from this offset on, and the transactions that were aborted at it or later.
    sent = b"".join(data for end, data in log.batches if end > start)
    read = guarded(sent, start, tuple((pid, first) for pid, first, marked in log.aborted if marked >= start))
    found = list(read.pieces())
    assert not any(piece.stopped for piece in found)
    records = [record for piece in found for record in piece.records]
    assert [
        (one.offset(), one.key(), one.value(), one.timestamp()[1], tuple(one.headers() or ())) for one in records
    ] == [one for one in log.expected if one[0] >= start]
    assert found[-1].next_offset == read.next_offset == log.end


@given(logs(), st.data())
def test_altered_bytes_raise_nothing_and_a_read_never_goes_back(log: Log, data: st.DataObject) -> None:
    altered = bytearray(log.data)
    first = struct.unpack_from(">q", altered)[0] if altered else 0
    for _ in range(data.draw(st.integers(1, 4)) if altered else 0):
        altered[data.draw(st.integers(0, len(altered) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(altered)))
    check(bytes(altered[:cut]), first)


@given(st.binary(max_size=300), st.integers(0, 1 << 40))
@example(bytes(100), 5)
def test_no_bytes_raise(data: bytes, start: int) -> None:
    check(data, start)
    check(batch_of(data, Codec.NONE, base=start, count=3), start)


def check(data: bytes, start: int) -> None:
    at = start
    for piece in guarded(data, start).pieces():
        assert not at < start
        offsets = [record.at for record in piece.records]
        assert offsets == sorted(set(offsets))
        assert all(at <= offset < piece.next_offset for offset in offsets)
        assert piece.next_offset >= at
        for record in piece.records:
            record.headers()
            record.timestamp()
        at = piece.next_offset


STARTS = (b"", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18\x60\x40\x82", b"\x82SNAPPY\x00" + bytes(8), b"\x1f\x8b\x08\0")
LIMITS = st.integers(0, 1 << 22)


@given(st.sampled_from(STARTS), st.binary(max_size=300), st.sampled_from(CODECS), LIMITS)
def test_no_bytes_raise_and_safe_ones_are_bounded(start: bytes, rest: bytes, codec: Codec, limit: int) -> None:
    data = batch_of(start + rest, codec)
    found = measure_batch(data, batch_verdict(data, only_batch(data), limit), limit)
    assert found.kind is not VerdictKind.SUSPECT
    if found.is_safe:
        assert found.at_most_bytes <= limit


@given(st.binary(max_size=400), st.integers(0, 400), st.integers(0, 255), st.sampled_from(CODECS), LIMITS)
def test_what_decoders_make_of_altered_bytes_is_within_the_bound(
    held: bytes, at: int, byte: int, codec: Codec, limit: int
) -> None:
    body = bytearray(packed(held * 50, codec))
    body[at % len(body)] = byte
    data = batch_of(bytes(body), codec)
    found = measure_batch(data, batch_verdict(data, only_batch(data), limit), limit)
    if found.is_safe and codec in (Codec.ZSTD, Codec.GZIP):
        assert len(decoded(bytes(body), codec)) <= limit


def decoded(body: bytes, codec: Codec) -> bytes:
    """What a decoder gives before it finds damage."""
    out = b""
    try:
        if codec is Codec.GZIP:
            reader = zlib.decompressobj(31)
            for at in range(len(body)):
                out += reader.decompress(body[at : at + 1])
        else:
            stream = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)
            for at in range(len(body)):
                out += stream.decompress(body[at : at + 1])
    except (zlib.error, zstandard.ZstdError):
        pass
    return out


@st.composite
def logs_batch_verdicts(draw: st.DrawFn) -> tuple[bytes, int]:
    """Batches of all kinds with the gaps that compaction leaves, and an offset to start from."""
    made, offset = [], draw(st.integers(0, 50))
    first = offset
    for _ in range(draw(st.integers(0, 12))):
        offset += draw(st.sampled_from((0, 0, 0, 1, 7)))
        count = draw(st.integers(1, 5))
        body, codec = draw(
            st.sampled_from(
                ((b"v", Codec.NONE), (zstd_zeros(1 << 21), Codec.ZSTD), (zstd_zeros(1_000), Codec.ZSTD),
                 (b"\xff" * 9_000, Codec.LZ4), (b"", Codec.ZSTD))
            )
        )  # fmt: skip
        one = bytearray(batch_of(body, codec, base=offset, count=count))
        if draw(st.integers(0, 6)) == 0:
            one[16] = 1  # another format
        made.append(bytes(one))
        offset += count
    return b"".join(made), draw(st.integers(first, offset))


@given(logs_batch_verdicts())
def test_verdicts_come_in_the_order_of_the_log(log: tuple[bytes, int]) -> None:
    data, start = log
    verdicts = [item for item in walk(data, start, 1 << 20) if not isinstance(item, WalkEnd)]
    assert all(earlier.end <= later.end for earlier, later in pairwise(verdicts))
    assert all(verdict.start <= verdict.end >= start for verdict in verdicts)
    assert all(verdict.size > 0 for verdict in verdicts)


# Around the edges of chunks of 256, and wide enough for whole chunks to be full.
OFFSETS = st.one_of(st.integers(0, 40), st.integers(240, 270), st.integers(500, 530), st.integers(0, 2200))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("mark"), OFFSETS, st.just(1)),
        st.tuples(st.just("mark"), OFFSETS, st.sampled_from([2, 12, 256, 300, 1100])),
        st.tuples(st.just("range"), OFFSETS, st.sampled_from([0, 1, 17, 256, 511, 1500])),
        st.tuples(st.just("reopen"), OFFSETS, st.sampled_from([0, 1, 17, 256, 511, 1500])),
        st.tuples(st.just("look"), st.just(0), st.just(0)),
    ),
    max_size=30,
)


class Plain:
    """The same with a set of integers: everything below `floor` is done."""

    def __init__(self, base: int) -> None:
        self.done = set(range(base))

    @property
    def base(self) -> int:
        return next(n for n in range(10_000) if n not in self.done)


@settings(max_examples=250, deadline=None)
@given(base=OFFSETS, steps=STEPS)
def test_it_is_what_a_plain_set_is(base: int, steps: list[tuple[str, int, int]]) -> None:
    ours, plain = DoneSet(base), Plain(base)
    for verb, offset, length in steps:
        span = set(range(offset, offset + length))
        if verb == "mark":
            # One by one, upwards and downwards by turns.
            for one in sorted(span, reverse=length % 2 == 0):
                assert ours.mark(one) == (one not in plain.done)
                plain.done.add(one)
        elif verb == "range":
            assert ours.mark_range(offset, offset + length) == len(span - plain.done)
            plain.done |= span
        elif verb == "reopen":
            assert ours.reopen(offset, offset + length) == len(span & plain.done)
            plain.done -= span
        else:
            assert ours.base == plain.base
    agrees(ours, plain)


def agrees(ours: DoneSet, plain: Plain) -> None:
    base, top = plain.base, max(plain.done, default=-1)
    above = {n for n in plain.done if n > base}
    assert ours.base == base
    assert ours.end == max(base, top + 1)
    assert ours.count == len(above)
    found = ours.ranges()
    assert found == OffsetRanges.of((n, n + 1) for n in above)
    assert {n for start, end in ours.pending() for n in range(start, end)} == set(range(base, ours.end)) - above
    assert all((n in ours) == (n in plain.done) for n in range(0, 3600, 7))
    assert DoneSet(base, found).ranges() == found


SETS = st.frozensets(st.integers(0, 40), max_size=30)


def ranges(offsets: frozenset[int]) -> OffsetRanges:
    return OffsetRanges.of((n, n + 1) for n in offsets)


@settings(max_examples=100)
@given(one=SETS, other=SETS, start=st.integers(0, 41), end=st.integers(0, 41))
def test_operations_are_those_of_sets(one: frozenset[int], other: frozenset[int], start: int, end: int) -> None:
    a, b, span = ranges(one), ranges(other), frozenset(range(start, end))
    assert a.union(b) == ranges(one | other)
    assert a.minus(b) == ranges(one - other)
    assert a.intersection(b) == ranges(one & other)
    assert a.within(start, end) == ranges(one & span)
    assert a.gaps(start, end) == ranges(span - one)
    assert a.is_subset_of(b) == (one <= other)
    assert a.count == len(one)
    assert all((n in a) == (n in one) for n in range(42))
