"""Pathway headers under any bytes, and sketches and buckets under any values."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kafkakit.streams.client.decide.figures import PathwayTotals
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
from kafkakit.streams.routes.pathways import SeenStream, seen_edges

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
