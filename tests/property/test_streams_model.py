"""Routes in a control store.

Whatever a commit's metadata is. Pathway headers under any bytes, and sketches and buckets under any values. What a
client of streams keeps whatever it meets.
"""

import base64
import struct
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import zstandard
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.errors import ConflictError, InputError, KafkakitError, RefusedError, TryLaterError, UsageError
from kafkakit.core.records import TopicIdentity
from kafkakit.streams.client.control_store import RouteFollower
from kafkakit.streams.client.decide.figures import PathwayTotals
from kafkakit.streams.client.decide.outgoing import check_place, lane_target
from kafkakit.streams.client.decide.partition_work import restore_commit
from kafkakit.streams.client.decide.reading import reading_plan
from kafkakit.streams.model.commit import (
    CommitIdentity,
    CommitState,
    OffsetRanges,
    PayloadProblem,
    Reading,
    RouteMark,
    Writer,
)
from kafkakit.streams.model.dialects.kafka_streams import LATEST_TIME, write_kafka_streams
from kafkakit.streams.model.dialects.parallel_consumer import write_parallel_consumer
from kafkakit.streams.model.dialects.registry import read_metadata
from kafkakit.streams.model.kkm1.encode import encode_commit
from kafkakit.streams.model.mirrormaker import skipped_by_copy
from kafkakit.streams.model.pathways import (
    FOLDED_TAGS,
    HEADER,
    OLD_HEADER,
    Bucket,
    ContextFault,
    DDSketch,
    PathwayBuckets,
    PathwayContext,
    PathwayNode,
    PathwayPoint,
    checkpoint_in,
    checkpoint_out,
    consume_tags,
    context_of,
    decode_binary,
    decode_header,
    encode_binary,
    encode_header,
    merged_edges,
    produce_tags,
)
from kafkakit.streams.model.route import (
    DLQ,
    LIVE,
    Lane,
    PartitionSeal,
    Route,
    RouteOperation,
    Segment,
    SegmentState,
    decode_route,
    encode_route,
    problem_of,
    route_path,
)
from kafkakit.streams.model.route_edits import (
    begin_operation,
    drop_opened,
    end_operation,
    new_route,
    open_segments,
    pause_lane,
    retire_segments,
    route_lanes,
    seal_segments,
    strand_segments,
    unseal_segments,
    with_topic,
    without_lane,
)
from kafkakit.streams.routes.api_act import RouteStore
from kafkakit.streams.routes.pathways import SeenStream, seen_edges
from tests.fakes.admin import FakeClock
from tests.fakes.control import FakeControlStore
from tests.rigs.routes import CutStore, Killed, route, segment

WRITERS = ("a", "b", "c")
FAULTS = ("none", "lost", "refused", "killed before", "killed after")


def pushed(found: Route) -> Route:
    """The route with one more segment id used: each change can be counted."""
    return replace(found, next_segment=found.next_segment + 1)


class Interleaved(CutStore):
    """Before a write, another writer may make a whole change."""

    def __init__(self, others: list[tuple[int, str]]) -> None:
        super().__init__()
        self.others = others
        self.inside = False
        self.done: list[str] = []

    def _replace(self, path: str, value: bytes, expected: int | None) -> int:
        due = [other for other in self.others if other[0] == self.count]
        if due and not self.inside:
            self.others.remove(due[0])
            self.inside = True
            try:
                act(self, due[0][1], "change")
            finally:
                self.inside = False
        return super()._replace(path, value, expected)


def act(store: Interleaved, name: str, verb: str) -> None:
    routes = RouteStore(store)
    try:
        if verb == "create":
            routes.create(route(), by=name, what=verb, at_ms=1)
        elif verb == "delete":
            routes.delete("orders", routes.existing("orders").route, by=name, what=verb, at_ms=1)
        else:
            routes.change("orders", pushed, by=name, what=verb, at_ms=1)
    except (UsageError, ConflictError, TryLaterError):
        return
    except Killed:
        store.cut = None
        return
    store.done.append(verb)


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(WRITERS), st.sampled_from(("create", "change", "change", "delete")),
                  st.sampled_from(FAULTS), st.integers(0, 3)),
        max_size=12,
    ),
    others=st.lists(st.tuples(st.integers(0, 30), st.sampled_from(WRITERS)), max_size=6),
)  # fmt: skip
def test_epochs_grow_and_every_change_that_was_reported_is_in_the_history(
    steps: list[tuple[str, str, str, int]], others: list[tuple[int, str]]
) -> None:
    store = Interleaved(list(others))
    epochs: list[int] = []
    for name, verb, fault, ahead in steps:
        at = store.count + ahead
        if fault == "lost":
            store.lost.add(at)
        elif fault == "refused":
            store.refused.add(at)
        elif fault != "none":
            store.cut, store.after = at, fault == "killed after"
        act(store, name, verb)
        store.cut = None
        found = RouteStore(store).read("orders")
        if found is not None:
            epochs.append(found.route.epoch)
    assert epochs == sorted(epochs)
    store.lost, store.refused = set(), set()
    kept = RouteStore(store).history("orders")
    came = [each.change for each in kept if each.in_effect]
    found = RouteStore(store).read("orders")
    if found is not None:
        assert came[-1].route == found.route
        created = max(n for n, change in enumerate(came) if change.what == "create")
        assert found.route.next_segment == route().next_segment + len(came) - 1 - created
    for verb in ("create", "change", "delete"):
        assert [change.what for change in came].count(verb) >= store.done.count(verb)


EDITS = st.tuples(st.sampled_from(("add", "add", "pause", "resume", "remove")), st.sampled_from((LIVE, "a", "b", "c")))


@given(st.lists(EDITS, max_size=30))
def test_every_edit_leaves_a_valid_route_that_keeps_what_it_does_not_name(edits: list[tuple[str, str]]) -> None:
    found = new_route("orders", [(LIVE, segment(0, topic="t0"))])
    used = {1}
    for number, (verb, lane) in enumerate(edits, 1):
        before = found
        try:
            if verb == "add":
                found = with_topic("orders", found, lane, segment(0, topic=f"t{number}"))
            elif verb == "remove":
                found = without_lane(found, lane)
            else:
                found = pause_lane(found, lane, is_paused=verb == "pause")
        except UsageError:
            assert before.lane(lane) is None or (verb, lane) == ("remove", LIVE)
            continue
        assert problem_of(found) is None
        assert decode_route(encode_route(found), "r") == found
        fresh = {s.id for _, s in found.segments()} - {s.id for _, s in before.segments()}
        assert len(fresh) == (verb == "add")
        assert fresh.isdisjoint(used)
        used |= fresh
        assert [each for each in found.lanes if each.name != lane] == [e for e in before.lanes if e.name != lane]


MOVES = st.tuples(
    st.sampled_from(("open", "open", "route", "route", "back", "strand", "seal", "unseal", "retire", "end")),
    st.sampled_from(("live", "bulk")),
)


@given(st.lists(MOVES, max_size=40))
def test_whatever_operations_do_each_lane_has_one_active_segment_and_nothing_unsealed_leaves(
    moves: list[tuple[str, str]],
) -> None:
    found = route("orders", "live", "bulk")
    for number, (verb, name) in enumerate(moves):
        before, target = found, {name: segment(0, topic=f"t-{number}", cluster="c2")}
        lane = found.lane(name)
        assert lane is not None
        try:
            found = begin_operation(found, RouteOperation(id=f"f-{number}", kind="move", step="planned"))
        except RefusedError:
            assert before.operation is not None
        left = [each for each in lane.segments if each.state not in (SegmentState.OPENED, SegmentState.ACTIVE)]
        ids = [each.id for each in left]
        try:
            match verb:
                case "open":
                    found = open_segments(found, target)
                case "route":
                    found = route_lanes(found, (name,))
                case "back":
                    found = drop_opened(found, {name: lane.segments[-1]})
                case "strand":
                    found = strand_segments(found, ids)
                case "seal":
                    seals = {each.id: (PartitionSeal(0, number, 0, 0), PartitionSeal(1, 9, 9, 9)) for each in left}
                    found = seal_segments(found, seals, at_ms=1 + number)
                case "unseal":
                    found = unseal_segments(found, ids)
                case "retire":
                    found = retire_segments(found, ids)
                case _:
                    found = end_operation(found, found.operation.id if found.operation else "none")
        except RefusedError:
            assert verb not in ("open", "end")
        assert problem_of(found) is None
        assert decode_route(encode_route(found), "r") == found
        for old, new in zip(before.lanes, found.lanes, strict=True):
            assert new.active is not None
            gone = {each.id: each for each in old.segments if each.id not in {s.id for s in new.segments}}
            assert all(each.seal or (verb == "back" and each.state is SegmentState.OPENED) for each in gone.values())
            assert new == old or new.name == name


@given(st.binary(max_size=300) | st.text(max_size=200).map(lambda text: encode_route(route()) + text.encode()))
def test_any_bytes_are_a_route_or_an_input_error(data: bytes) -> None:
    store = CutStore()
    store.cas("streams/orders/route", data or b" ", None)
    found = None
    with suppress(InputError):
        found = RouteStore(store).existing("orders").route
    assert found in (None, route())


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
@example(base64.b64encode(b"e" + struct.pack(">2i", 1, (1 << 31) - 1)).decode(), 0)
def test_a_map_is_read_as_the_client_reads_it(text: str, offset: int) -> None:
    reading = read_metadata(text, offset)
    if reading.dialect != "parallel-consumer" or reading.problem is not None:
        return
    if reading.state.done.count > 1_000_000:  # a bitmap that is read as runs may hold billions
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
        assert reading.problem in (PayloadProblem.TOO_LARGE, PayloadProblem.BAD_BODY)


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


INT64 = st.integers(-(2**63), 2**63 - 1)
CONTEXTS = st.tuples(st.integers(0, 2**64 - 1), INT64, INT64).map(lambda parts: PathwayContext(*parts))
NOW = 1_700_000_000_000
TIMES = st.integers(NOW - 100_000, NOW + 100_000)
FOLDED = (FOLDED_TAGS, 0, 0)
NODE = PathwayNode("svc", "prod")
VALUES = st.lists(st.floats(0, 1e12) | st.integers(0, 10_000).map(lambda ms: ms / 1000), max_size=40)


@given(CONTEXTS)
def test_what_is_written_is_read(context: PathwayContext) -> None:
    assert decode_binary(encode_binary(context)) == context
    assert decode_header(encode_header(context)) == context
    assert 10 <= len(encode_binary(context)) <= 26


@given(CONTEXTS, st.integers(0, 25))
def test_what_is_cut_is_a_fault(context: PathwayContext, size: int) -> None:
    data = encode_binary(context)
    if size < len(data):
        assert isinstance(decode_binary(data[:size]), ContextFault)


@given(
    st.lists(st.tuples(st.sampled_from([HEADER, OLD_HEADER, "x"]), st.none() | st.binary(max_size=60)), max_size=4),
    st.integers(0, 2**62),
)
def test_no_headers_make_a_reader_raise(headers: list[tuple[str, bytes | None]], now_ms: int) -> None:
    found = context_of(headers, now_ms)
    assert found is None or isinstance(found, ContextFault | PathwayContext)
    context, point = checkpoint_in(NODE, headers, consume_tags("t", "g"), now_ms)
    assert point.pathway_ms >= 0 <= point.edge_ms
    assert decode_header(encode_header(context)) == PathwayContext(context.hash, context.start_ms, now_ms)


@given(st.none() | TIMES, st.lists(TIMES, min_size=1, max_size=6))
def test_produces_in_a_row_count_as_the_last_of_them(read_at_ms: int | None, produced_at_ms: list[int]) -> None:
    read: PathwayContext | None = None
    if read_at_ms is not None:
        headers, _, _ = checkpoint_out(PathwayNode("origin"), None, produce_tags("s"), NOW)
        read, _ = checkpoint_in(NODE, headers, consume_tags("s", "g"), read_at_ms)
    context, tags = read, produce_tags("t")
    for at_ms in produced_at_ms:
        headers, context, point = checkpoint_out(NODE, context, tags, at_ms)
    alone, _, only = checkpoint_out(NODE, read, tags, produced_at_ms[-1])
    assert (headers, point) == (alone, only)
    assert (point.parent, point.pathway_ms) == ((read.hash, max(point.at_ms - NOW, 0)) if read else (0, 0))


def made(values: list[float]) -> DDSketch:
    sketch = DDSketch()
    for value in values:
        sketch.add(value)
    return sketch


@given(VALUES, VALUES)
def test_a_merged_sketch_is_that_of_all_values_in_any_order(left: list[float], right: list[float]) -> None:
    merged = made(left)
    merged.merge(made(right))
    whole = made(sorted(left + right))
    assert merged.encode() == whole.encode()
    assert (merged.count, merged.largest, merged.quantile(0.5)) == (whole.count, whole.largest, whole.quantile(0.5))


@given(st.lists(st.integers(0, 10**9).map(lambda ms: ms / 1000), min_size=1, max_size=60), st.floats(0, 1))
def test_a_quantile_is_within_the_error(values: list[float], share: float) -> None:
    exact = sorted(values)[int(share * (len(values) - 1))]
    found = made(values).quantile(share)
    assert found is not None
    assert abs(found - exact) <= 0.00776 * exact
    assert found <= max(values)


@given(st.lists(st.tuples(TIMES, st.integers(0, 9), st.booleans()), max_size=60), st.integers(1, 5), st.integers(1, 4))
def test_each_point_is_in_a_bucket_or_counted_as_dropped(
    steps: list[tuple[int, int, bool]], max_pathways: int, max_buckets: int
) -> None:
    buckets = PathwayBuckets(max_pathways=max_pathways, max_buckets=max_buckets)
    taken: list[Bucket] = []
    for at_ms, hash_, takes in steps:
        buckets.add(PathwayPoint(at_ms, ("t",), hash_, 0, 5, 5, 1, is_skewed=False))
        taken += buckets.take(at_ms) if takes else ()
    taken += buckets.take()
    assert all(len(bucket.edges) <= max_pathways + 1 for bucket in taken)
    held = sum(sums.edge_s.count for bucket in taken for sums in bucket.edges.values())
    assert held + buckets.dropped == len(steps)
    folded = [bucket.edges[FOLDED] for bucket in taken if FOLDED in bucket.edges]
    assert sum(sums.edge_s.count for sums in folded) == buckets.folded


POINTS = st.lists(st.tuples(TIMES, st.integers(1, 4), st.integers(0, 50_000), st.integers(0, 3)), max_size=60)


@given(POINTS)
def test_buckets_that_are_merged_are_one_of_all_points(points: list[tuple[int, int, int, int]]) -> None:
    several, one = [PathwayBuckets() for _ in range(4)], PathwayBuckets()
    for at_ms, hash_, ms, owner in points:
        point = PathwayPoint(at_ms, ("t",), hash_, 0, ms, ms // 2, ms + 1, is_skewed=False)
        several[owner].add(point)
        one.add(point._replace(at_ms=NOW))
    parts = [bucket for buckets in several for bucket in buckets.take()]
    before = [sums.edge_s.encode() for bucket in parts for sums in bucket.edges.values()]
    merged, whole = merged_edges(parts), merged_edges(one.take())
    assert merged.keys() == whole.keys()
    for key, sums in merged.items():
        for name in ("pathway_s", "edge_s", "payload_bytes"):
            mine, theirs = getattr(sums, name), getattr(whole[key], name)
            assert (mine.encode(), mine.count, mine.largest) == (theirs.encode(), theirs.count, theirs.largest)
            assert abs(mine.total - theirs.total) < 1e-6
    # The parts are left as they were.
    assert [sums.edge_s.encode() for bucket in parts for sums in bucket.edges.values()] == before


@given(POINTS, st.integers(1, 4))
def test_sums_since_the_start_hold_every_point(points: list[tuple[int, int, int, int]], takes: int) -> None:
    totals = PathwayTotals()
    for part in range(takes):
        buckets = PathwayBuckets()
        for at_ms, hash_, ms, _ in points[part::takes]:
            buckets.add(PathwayPoint(at_ms, ("direction:in", "topic:t"), hash_, 0, ms, ms, 1, is_skewed=False))
        totals.add(buckets.take(), folded=0, dropped=0, skewed=0)
    (latency, *_) = totals.families()
    assert sum(count for _, count, _ in latency.totals) == len(points)
    assert abs(sum(total for *_, total in latency.totals) - sum(ms for _, _, ms, _ in points) / 1000) < 1e-6


STREAMS, SERVICES, GROUPS = ("a", "b", "c"), ("s1", "s2", "g1"), ("g1", "g2")
HOPS = st.lists(
    st.tuples(st.sampled_from(SERVICES), st.sampled_from(STREAMS), st.sampled_from(GROUPS)), min_size=1, max_size=5
)


@given(st.lists(HOPS, max_size=12), st.sets(st.sampled_from(SERVICES)), st.sampled_from(("name", "topic", "both")))
def test_edges_are_those_that_records_took_through_named_services(
    ways: list[list[tuple[str, str, str]]], named: set[str], tags: str
) -> None:
    hashes: dict[str, Counter[int]] = {name: Counter() for name in STREAMS}
    edges: dict[tuple[str, str, str, str], int] = Counter()
    hidden: Counter[str] = Counter()
    for way in ways:
        context, before = None, ("", "")
        for service, stream, group in way:
            topic, cluster = (stream, "") if tags == "name" else (f"t-{stream}", "C1" if tags == "both" else "")
            node = PathwayNode(service, "test")
            if before != ("", ""):
                source = before[0] if tags == "name" else f"t-{before[0]}"
                headers = ((HEADER, encode_header(context)),) if context else ()
                context, _ = checkpoint_in(node, headers, consume_tags(source, before[1], cluster), NOW)
            _, context, _ = checkpoint_out(node, context, produce_tags(topic, cluster), NOW)
            hashes[stream][context.hash] += 1
            if service in named or service == before[1]:
                edges[(*before, service, stream)] += 1
            else:
                hidden[stream] += 1
            before = (stream, group)
    seen = [
        SeenStream(name=name, topics=(("C1", f"t-{name}"),), groups=GROUPS, hashes=hashes[name]) for name in STREAMS
    ]
    found = seen_edges(seen, sorted(named), "test")
    assert {(e.source, e.group, e.service, e.target): e.records for e in found.edges} == edges
    assert found.unexplained == {name: hidden[name] for name in STREAMS}
    assert seen_edges(seen, sorted(named), "other").edges == ()


EPOCHS = st.integers(1, 6)
DOCUMENTS = st.one_of(
    EPOCHS.map(lambda epoch: encode_route(route(epoch=epoch))),
    EPOCHS.map(lambda epoch: encode_route(route("payments", epoch=epoch))),
    st.binary(min_size=1, max_size=20),
    st.just(b""),  # a deletion
    st.just(None),  # the store is away
)


@given(documents=st.lists(DOCUMENTS, max_size=12))
def test_a_client_acts_on_epochs_that_grow_whatever_the_store_holds(documents: list[bytes | None]) -> None:
    store, path = FakeControlStore(), route_path("orders")
    follower = RouteFollower(store, "orders", FakeClock())
    store.cas(path, encode_route(route(epoch=1)), None)
    follower.refresh()
    seen: list[int] = []
    follower.subscribe(lambda found: seen.append(found.epoch))
    best = 1
    for data in documents:
        store.away = data is None
        if data is not None:
            found = store.get(path)
            if data:
                store.cas(path, data, found.version if found else None)
            elif found is not None:
                store.delete(path, found.version)
            best = max(best, *(epoch for epoch in range(1, 7) if data == encode_route(route(epoch=epoch))), 0)
        try:
            follower.refresh()
        except KafkakitError:
            assert store.away
        assert follower.epoch == best
    assert seen == sorted(set(seen))
    assert seen[-1] == best


SEGMENTS = st.lists(st.tuples(st.sampled_from("ab"), st.booleans(), st.booleans()), min_size=1, max_size=4)
LANES = st.dictionaries(
    st.sampled_from((LIVE, "slow", DLQ)), st.tuples(SEGMENTS, st.booleans(), st.booleans()), min_size=1
)


def made_stream_client_invariants(lanes: dict[str, tuple[list[tuple[str, bool, bool]], bool, bool]]) -> Route:
    """Lanes whose last segment is active, or the one before it while the last one is opened."""
    number, found = 0, []
    for name, (places, is_paused, is_opened) in lanes.items():
        segments: list[Segment] = []
        active = len(places) - 1 - (is_opened and len(places) > 1)
        for place, (cluster, is_held, is_stranded) in enumerate(places):
            number += 1
            left = SegmentState.STRANDED if is_stranded else SegmentState.DRAINING
            state = SegmentState.ACTIVE if place == active else left if place < active else SegmentState.OPENED
            one = segment(number, cluster=cluster, state=state)
            segments.append(replace(one, topic_id=f"{number:032x}", is_held=is_held and place >= active))
        found.append(Lane(name=name, segments=tuple(segments), is_paused=is_paused))
    return Route(stream="orders", epoch=3, next_segment=number + 1, lanes=tuple(found))


@given(lanes=LANES)
def test_one_segment_is_written_and_all_are_read(
    lanes: dict[str, tuple[list[tuple[str, bool, bool]], bool, bool]],
) -> None:
    found = made_stream_client_invariants(lanes)
    plan = reading_plan(found, None)
    read = {source.segment for sources in plan.sources.values() for source in sources.values()}
    for lane in found.lanes:
        target = lane_target(found, lane.name)
        states = {each.id: each.state for each in lane.segments}
        assert (target.segment is None) == lane.is_paused
        if target.segment is not None:
            assert [number for number, state in states.items() if state is SegmentState.ACTIVE] == [target.segment.id]
        assert all(each.state is SegmentState.OPENED for each in target.next_segments)
        wanted = {each.id for place, each in enumerate(lane.segments) if not each.is_held or not place}
        assert read & set(states) == (set() if lane.is_paused or lane.name == DLQ else wanted)
    for cluster_id, sources in plan.sources.items():
        assert all(source.cluster_id == cluster_id and source.topic == topic for topic, source in sources.items())


IDS = st.sampled_from([f"{number:032x}" for number in (1, 2)])
CLUSTER_IDS = st.sampled_from(["a-id", "b-id"])


@given(wanted=st.tuples(CLUSTER_IDS, IDS), there=st.tuples(CLUSTER_IDS, IDS))
def test_no_other_cluster_and_no_topic_made_again_is_written(wanted: tuple[str, str], there: tuple[str, str]) -> None:
    meant = replace(segment(1), cluster_id=wanted[0], topic_id=wanted[1])
    found = TopicIdentity(cluster_id=there[0], topic_id=there[1], partitions=2)
    try:
        check_place("orders", "live", meant, found)
        is_taken = True
    except KafkakitError:
        is_taken = False
    assert is_taken == (wanted == there)


IDENTITIES = st.builds(
    CommitIdentity,
    cluster_id=CLUSTER_IDS,
    topic_id=st.sampled_from([bytes(16), bytes(range(16)), b"\xff" * 16]),
    partition=st.integers(0, 2),
    group=st.sampled_from(["billing", "billing2"]),
)
STATES = st.builds(
    lambda base, gaps: CommitState(
        base=base,
        done=OffsetRanges.of((base + 2 + 5 * gap, base + 4 + 5 * gap) for gap in sorted(gaps)),
        route=RouteMark(epoch=7, segment=2),
        writer=Writer(member_hash=1, generation=3),
    ),
    st.integers(0, 1 << 40),
    st.sets(st.integers(0, 2_000), max_size=400),
)


@given(
    state=STATES,
    mine=IDENTITIES,
    other=IDENTITIES,
    moved=st.integers(-3, 3),
    limit_chars=st.sampled_from([200, 1_000, 4_095]),
)
def test_metadata_count_for_the_commit_that_they_were_written_for_and_carry_its_epoch(
    state: CommitState, mine: CommitIdentity, other: CommitIdentity, moved: int, limit_chars: int
) -> None:
    written = encode_commit(state, mine, limit_chars=limit_chars, alphabets=("b",))
    offset = max(0, state.base + moved)
    restored = restore_commit(CommittedOffset(offset=offset, metadata=written.text), other)
    if (other, offset) == (mine, state.base):
        assert (restored.problem, restored.state.route) == ("", state.route)
        assert restored.state.done.minus(state.done).count == 0
    else:
        assert (restored.state.base, restored.state.done.count, restored.state.marks) == (offset, 0, ())
    if other != mine:
        assert (restored.state, bool(restored.problem)) == (CommitState(base=offset), True)
