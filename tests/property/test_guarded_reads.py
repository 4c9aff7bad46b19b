"""Properties of guarded reads: records come out as they went in, nothing raises, and a read never goes back."""

import struct
from dataclasses import dataclass

from hypothesis import example, given
from hypothesis import strategies as st

from kafkakit.core.cluster_facts import Fetched, LogSpan
from kafkakit.streams.model.guarded_reads import GuardedRead
from kafkakit.streams.model.log_batches import Codec
from tests.clusters.streams_batches import Rec, batch, marker
from tests.rigs.bombs import batch_of, packed

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
    fetched = Fetched(records=data, span=LogSpan(start=0, stable=1 << 60, end=1 << 60), aborted=aborted)
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
