"""Whatever a commit's metadata is: it is read, never more is done than it says, and what we write is read again."""

import base64
import struct

import zstandard
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kafkakit.streams.model.commit import CommitState, OffsetRanges, Problem, Reading
from kafkakit.streams.model.dialects.kafka_streams import LATEST_TIME, write_kafka_streams
from kafkakit.streams.model.dialects.parallel_consumer import write_parallel_consumer
from kafkakit.streams.model.dialects.registry import read_metadata
from kafkakit.streams.model.mirrormaker import skipped_by_copy

ROUNDS = settings(
    max_examples=250, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
OFFSETS = st.integers(0, 2**63 - 1) | st.integers(0, 10_000)
MAGICS = st.sampled_from(b"LlanJoesp\xee\x01\x02")
SIGNED = {"h": st.integers(-(2**15), 2**15 - 1), "i": st.integers(-(2**31), 2**31 - 1) | st.integers(0, 9)}


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=3, write_content_size=False).compress(data)


def texts_of(body: st.SearchStrategy[bytes]) -> st.SearchStrategy[str]:
    packed = body | body.map(zstd)
    return st.builds(lambda magic, data: base64.b64encode(bytes([magic]) + data).decode(), MAGICS, packed)


RUNS = st.sampled_from("hi").flatmap(
    lambda code: st.lists(SIGNED[code], max_size=9).map(lambda runs: struct.pack(f">{len(runs)}{code}", *runs))
)
BITMAPS = st.builds(
    lambda length, width, bits: length.to_bytes(width, "big") + bits[: (length + 7) // 8] + b"\0",
    st.integers(0, 90),
    st.sampled_from([2, 4]),
    st.binary(min_size=12, max_size=12),
)
METADATA = (
    st.text(max_size=40)
    | st.text("~bwjAQgnlLoepJsZ01+/=-_\0", max_size=40)
    | texts_of(st.binary(max_size=40))
    | texts_of(RUNS)
    | texts_of(BITMAPS)
)


@st.composite
def states(draw: st.DrawFn, *, max_run: int = 2**31 - 1) -> CommitState:
    """A base and up to 400 done ranges above it, short or long."""
    size = st.integers(1, 40) | st.integers(1, max_run)
    base = draw(st.integers(0, 2**62))
    at = base
    done = []
    for pending, run in draw(st.lists(st.tuples(size, size), max_size=30)) * draw(st.sampled_from([1, 1, 2, 13])):
        done.append((at + pending, at + pending + run))
        at += pending + run
    return CommitState(base=base, done=OffsetRanges(tuple(done)))


def is_sound(reading: Reading, offset: int) -> None:
    state = reading.state
    assert state.base == offset
    assert state.done == OffsetRanges.of(state.done)
    assert all(start > offset for start, _ in state.done)
    if state.done:
        assert reading.problem is None
        assert reading.dialect in ("parallel-consumer", "kkm1")
        assert state.end <= 2**63 - 1
    if reading.problem is not None:
        assert reading.reason
    assert "\n" not in reading.reason
    assert len(reading.reason) < 300


@ROUNDS
@given(METADATA, OFFSETS, st.integers(0, 2))
@example("\ud800", 0, 0)
@example("\0~", 0, 1)
@example("=", 0, 0)
@example("\U0010ffff" * 5_000, 1, 0)
@example("A" * 100_000, 1, 0)
@example("bg" + "A" * 100_002, 1, 0)
def test_any_text_is_read_and_the_same_way_each_time(text: str, offset: int, nuls: int) -> None:
    reading = read_metadata(text + "\0" * nuls, offset)
    is_sound(reading, offset)
    assert reading == read_metadata(text + "\0" * nuls, offset)
    assert reading.chars == len((text + "\0" * nuls).encode("utf-16-le", "surrogatepass")) // 2
    bare = read_metadata(text.rstrip("\0"), offset)
    assert (reading.state, reading.dialect, reading.problem) == (bare.state, bare.dialect, bare.problem)


def done_as_the_client_reads(text: str, base: int) -> set[int]:
    """The done offsets of a map, read one by one in the way of the client's own decoder."""
    data = base64.b64decode(text)
    body = data[1:]
    kind = chr(data[0])
    if kind in "aJsp":
        body = zstandard.ZstdDecompressor().decompressobj().decompress(body)
        kind = {"a": "l", "J": "n", "s": "o", "p": "e"}[kind]
    if kind in "lo":
        width = 2 if kind == "l" else 4
        length = int.from_bytes(body[:width], "big")
        bits = body[width:]
        return {base + at for at in range(length) if at // 8 < len(bits) and bits[at // 8] >> at % 8 & 1}
    width = 2 if kind == "n" else 4
    done: set[int] = set()
    at, is_done = base, False
    for start in range(0, len(body), width):
        run = int.from_bytes(body[start : start + width], "big")
        done |= set(range(at, at + run)) if is_done else set()
        at, is_done = at + run, not is_done
    return done


SMALL_RUNS = st.lists(st.integers(1, 300), max_size=8).map(lambda runs: struct.pack(f">{len(runs)}i", *runs))


@ROUNDS
@given(texts_of(SMALL_RUNS) | texts_of(BITMAPS), st.integers(0, 1_000))
def test_a_map_is_read_as_the_client_reads_it(text: str, offset: int) -> None:
    reading = read_metadata(text, offset)
    if reading.dialect != "parallel-consumer" or reading.problem is not None:
        return
    offsets = {at for start, end in reading.state.done for at in range(start, end)}
    assert offsets == done_as_the_client_reads(text, offset)


@ROUNDS
@given(states())
def test_a_written_map_is_read_as_the_same_done_set(state: CommitState) -> None:
    text = write_parallel_consumer(state)
    assert text == write_parallel_consumer(state)
    if text is None:
        return
    assert len(text) <= 4096
    reading = read_metadata(text, state.base)
    assert reading.state == state
    assert reading.problem is None
    assert reading.dialect == ("parallel-consumer" if state.done else "plain")


@ROUNDS
@given(states(max_run=900))
def test_a_short_map_that_is_written_is_what_the_client_reads(state: CommitState) -> None:
    text = write_parallel_consumer(state)
    if text:
        offsets = {at for start, end in state.done for at in range(start, end)}
        assert done_as_the_client_reads(text, state.base) == offsets


@ROUNDS
@given(states(max_run=900), st.data())
def test_a_damaged_map_never_raises(state: CommitState, data: st.DataObject) -> None:
    text = write_parallel_consumer(state) or "bgAF"
    at = data.draw(st.integers(0, len(text) - 1))
    char = data.draw(st.sampled_from("AZaz09+/=\0~é"))
    for damaged in (text[:at] + char + text[at + 1 :], text[:at], text[at:], text + char):
        is_sound(read_metadata(damaged, state.base), state.base)


@ROUNDS
@given(st.binary(max_size=4), st.integers(1, 8), MAGICS)
def test_a_bomb_is_refused_whatever_it_holds(pattern: bytes, mebibytes: int, magic: int) -> None:
    body = zstd((pattern + b"\0") * (mebibytes << 20))
    reading = read_metadata(base64.b64encode(bytes([magic]) + body).decode(), 100)
    is_sound(reading, 100)
    assert not reading.state.done
    if reading.encoding.endswith("Compressed") and not reading.encoding.startswith("ByteArray"):
        assert reading.problem in (Problem.TOO_LARGE, Problem.BAD_BODY)


@ROUNDS
@given(
    st.none() | st.integers(0, LATEST_TIME),
    st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=6), st.integers(-(2**63), 2**63 - 1), max_size=4),
)
def test_what_kafka_streams_commits_is_read_again(time_ms: int | None, processor: dict[str, int]) -> None:
    reading = read_metadata(write_kafka_streams(time_ms, processor), 5)
    assert (reading.dialect, reading.encoding) == ("kafka-streams", "v2")
    assert (reading.stream_time_ms, dict(reading.processor)) == (time_ms, processor)
    assert read_metadata(write_kafka_streams(time_ms, version=1), 5).stream_time_ms == time_ms


@ROUNDS
@given(st.lists(st.integers(1, 6), max_size=10), st.integers(0, 60), st.integers(0, 60))
def test_what_a_copy_skips_is_what_is_pending_here_and_done_there(runs: list[int], source: int, target: int) -> None:
    text = base64.b64encode(b"e" + struct.pack(f">{len(runs)}i", *runs)).decode()
    reading = read_metadata(text, 1_000)
    done_here = done_as_the_client_reads(text, source)
    taken = done_as_the_client_reads(text, target) | set(range(source, target))
    expected = {at for at in taken if at >= source} - done_here
    skipped = skipped_by_copy(reading, source, target)
    assert {at for start, end in skipped for at in range(start, end)} == expected
