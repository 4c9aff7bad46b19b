"""Sums of checkpoints; pathway hashes, headers and checkpoints, against what ddtrace computes and writes."""

import gzip
import json
from base64 import b64encode
from typing import Any

import msgspec
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kafkakit.streams.model.pathways import (
    BUCKET_MS,
    EARLIEST_MS,
    FOLDED_TAGS,
    GAMMA,
    HEADER,
    MOST_AHEAD_MS,
    MOST_BINS,
    OFFSET,
    OFFSET_BASIS,
    OLD_HEADER,
    ContextFault,
    DDSketch,
    PathwayBuckets,
    PathwayContext,
    PathwayNode,
    PathwayPoint,
    PayloadSender,
    checkpoint_in,
    checkpoint_out,
    committed_tags,
    consume_tags,
    context_of,
    decode_binary,
    decode_header,
    encode_binary,
    encode_header,
    encode_payload,
    fnv1_64,
    node_hash,
    pathway_hash,
    produce_tags,
    produced_tags,
)
from tests.places import ROOT

NOW = 1_700_000_000_000
TAGS = ("direction:out", "topic:orders", "type:kafka")
SENDER = PayloadSender(node=PathwayNode("svc-a", "prod"), tracer_version="1.2.3", hostname="h")
DOUBLE, MESSAGE, SINT32, ENUM_AS_INT32 = 1, 11, 17, 5


def _message(name: str, *fields: tuple[str, int, int, str]) -> descriptor_pb2.DescriptorProto:
    made = descriptor_pb2.DescriptorProto(name=name)
    for field, number, kind, of in fields:
        repeated = 3 if field == "counts" else 1
        made.field.add(name=field, number=number, type=kind, label=repeated, type_name=of or None)
    return made


def _read_sketch() -> Any:
    """The DDSketch message as sketches-go declares it; the names of fields are shorter, they are not in the bytes."""
    file = descriptor_pb2.FileDescriptorProto(name="test_ddsketch.proto", package="test_ddsketch", syntax="proto3")
    file.message_type.extend(
        (
            _message("Mapping", ("gamma", 1, DOUBLE, ""), ("offset", 2, DOUBLE, ""), ("kind", 3, ENUM_AS_INT32, "")),
            _message("Store", ("counts", 2, DOUBLE, ""), ("first", 3, SINT32, "")),
            _message(
                "Sketch",
                ("mapping", 1, MESSAGE, ".test_ddsketch.Mapping"),
                ("positive", 2, MESSAGE, ".test_ddsketch.Store"),
                ("negative", 3, MESSAGE, ".test_ddsketch.Store"),
                ("zeros", 4, DOUBLE, ""),
            ),
        )
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("test_ddsketch.Sketch")).FromString


READ_SKETCH = _read_sketch()


def sketch(*values: float) -> DDSketch:
    made = DDSketch()
    for value in values:
        made.add(value)
    return made


def bins(made: DDSketch) -> dict[int, float]:
    store = READ_SKETCH(made.encode()).positive
    return {store.first + i: count for i, count in enumerate(store.counts) if count}


def test_a_sketch_is_the_message_that_protobuf_reads() -> None:
    read = READ_SKETCH(sketch(0, 0, 0.001, 1, 1, 60).encode())
    assert (read.mapping.gamma, read.mapping.offset, read.mapping.kind) == (1.015625, 1.8761281912861705, 0)
    assert (read.zeros, sum(read.positive.counts), list(read.negative.counts)) == (2, 4, [])
    assert len(read.positive.counts) == 265 + 444 + 1
    # floor(ln v / ln gamma + offset), by hand: 1 s is in bin 1, 60 s in 265, a millisecond in -444
    assert bins(sketch(0.001, 1, 1, 60)) == {-444: 1, 1: 2, 265: 1}
    assert READ_SKETCH(DDSketch().encode()).mapping.gamma == GAMMA


def test_a_value_lies_between_the_bounds_of_its_bin() -> None:
    for value in (0.001, 0.0155, 0.9, 1, 1.0155, 17, 3600, 1e9):
        (index,) = bins(sketch(value))
        assert GAMMA ** (index - OFFSET) <= value < GAMMA ** (index + 1 - OFFSET)


def test_quantiles_are_within_the_error_and_not_above_the_largest() -> None:
    values = [i / 1000 for i in range(1, 1001)]
    made = sketch(*values)
    for share in (0, 0.5, 0.95, 0.99, 1):
        exact = values[int(share * 999)]
        assert made.quantile(share) == pytest.approx(exact, rel=0.00776)
    assert (made.quantile(1) or 2) <= 1
    assert sketch(0, 0, 0, 5).quantile(0.5) == 0
    assert DDSketch().quantile(0.5) is None


def test_the_lowest_bins_are_joined_when_there_would_be_too_many() -> None:
    values = [10.0**power for power in range(-9, 9)]
    made = sketch(*values)
    found = bins(made)
    assert max(found) - min(found) == MOST_BINS - 1
    assert sum(found.values()) == len(values)
    assert made.quantile(1) == 1e8
    assert len(made.encode()) < 16_500
    assert bins(sketch(*reversed(values))) == found


def test_merged_sketches_are_that_of_all_values() -> None:
    left, right = [0.0, 1e-9, 3, 3], [1e8, 0.5, 0.0]
    one, other = sketch(*left), sketch(*right)
    one.merge(other)
    other.merge(DDSketch())
    assert one.encode() == sketch(*left, *right).encode()
    assert other.encode() == sketch(*right).encode()
    assert (one.count, one.largest) == (7, 1e8)


# What ddsketch 3.0.1 (PyPI, LogCollapsingLowestDenseDDSketch(0.00775, bin_limit=2048)) gives for the same values.
LIBRARY = {0: 0, 0.1: 247.2328, 0.5: 6212.9732, 0.95: 22492.1266, 0.99: 24684.2943, 0.999: 25069.8892}


def test_quantiles_are_those_of_the_library_ddsketch() -> None:
    made = sketch(*((i * 7919 % 5003) ** 2 / 1000 for i in range(5000)))
    for share, theirs in LIBRARY.items():
        assert made.quantile(share) == pytest.approx(theirs, rel=2 * 0.00776)


def point(at_ms: int = NOW, *, hash_: int = 1, ms: int = 250, skewed: bool = False) -> PathwayPoint:
    return PathwayPoint(at_ms, TAGS, hash_, 0, ms, ms // 2, 100, is_skewed=skewed)


def test_points_are_summed_up_by_10_s_and_edge() -> None:
    buckets = PathwayBuckets()
    for at_ms in (NOW, NOW + 9_999, NOW + 10_000, NOW - 1):
        buckets.add(point(at_ms))
    buckets.add(point(hash_=2, skewed=True))
    assert buckets.take(NOW + 9_999)[0].start_ms == NOW - BUCKET_MS
    (first,) = buckets.take(NOW + 19_999)
    assert (first.start_ms, {key: sums.pathway_s.count for key, sums in first.edges.items()}) == (
        NOW,
        {(TAGS, 1, 0): 2, (TAGS, 2, 0): 1},
    )
    assert first.edges[(TAGS, 1, 0)].edge_s.quantile(1) == 0.125
    assert first.edges[(TAGS, 1, 0)].payload_bytes.largest == 100
    assert [bucket.start_ms for bucket in buckets.take()] == [NOW + 10_000]
    assert (buckets.take(), buckets.folded, buckets.dropped, buckets.skewed) == ((), 0, 0, 1)


def test_edges_beyond_the_limit_are_summed_up_as_one_and_counted() -> None:
    buckets = PathwayBuckets(max_pathways=2)
    for hash_ in (1, 2, 3, 4, 1, 3):
        buckets.add(point(hash_=hash_))
    (bucket,) = buckets.take()
    counts = {key: sums.pathway_s.count for key, sums in bucket.edges.items()}
    assert counts == {(TAGS, 1, 0): 2, (TAGS, 2, 0): 1, (FOLDED_TAGS, 0, 0): 3}
    assert (buckets.folded, buckets.dropped) == (3, 0)


def test_buckets_beyond_the_limit_are_left_out_and_counted() -> None:
    buckets = PathwayBuckets(max_buckets=2)
    for at_ms in (NOW, NOW + BUCKET_MS, NOW + 5 * BUCKET_MS, NOW + 1):
        buckets.add(point(at_ms))
    buckets.note_offset(TAGS, 7, NOW + 9 * BUCKET_MS)
    assert (buckets.dropped, [bucket.start_ms for bucket in buckets.take()]) == (2, [NOW, NOW + BUCKET_MS])


def test_the_highest_offset_of_a_bucket_stays() -> None:
    buckets = PathwayBuckets(max_pathways=2)
    produced, committed = produced_tags("orders", 3, "C"), committed_tags("g1", "orders", 3)
    for tags, offset in ((produced, 7), (produced, 12), (produced, 9), (committed, 0), (produced_tags("t", 0), 1)):
        buckets.note_offset(tags, offset, NOW)
    (bucket,) = buckets.take()
    assert bucket.offsets == {
        ("kafka_cluster_id:C", "partition:3", "topic:orders", "type:kafka_produce"): 12,
        ("consumer_group:g1", "partition:3", "topic:orders", "type:kafka_commit"): 0,
    }
    assert buckets.dropped == 1


def body(*points: PathwayPoint) -> bytes:
    buckets = PathwayBuckets()
    for one in points:
        buckets.add(one)
    buckets.note_offset(produced_tags("orders", 0), 41, NOW)
    buckets.note_offset(committed_tags("g1", "orders", 0), 40, NOW)
    return encode_payload(SENDER, buckets.take())


def test_the_body_is_what_an_agent_takes() -> None:
    sent = body(point(), point(ms=500), point(hash_=2**64 - 1))
    read = msgspec.msgpack.decode(gzip.decompress(sent))
    assert {name: value for name, value in read.items() if name != "Stats"} == {
        "Service": "svc-a", "Env": "prod", "Hostname": "h", "Lang": "python", "TracerVersion": "1.2.3"
    }  # fmt: skip
    (bucket,) = read["Stats"]
    assert (bucket["Start"], bucket["Duration"]) == (NOW * 1_000_000, 10_000_000_000)
    assert [(one["EdgeTags"], one["Hash"], one["ParentHash"]) for one in bucket["Stats"]] == [
        (list(TAGS), 1, 0),
        (list(TAGS), 2**64 - 1, 0),
    ]
    latency = READ_SKETCH(bucket["Stats"][0]["PathwayLatency"])
    assert (sum(latency.positive.counts), latency.zeros) == (2, 0)
    assert sum(READ_SKETCH(bucket["Stats"][0]["PayloadSize"]).positive.counts) == 2
    assert bucket["Backlogs"] == [
        {"Tags": list(committed_tags("g1", "orders", 0)), "Value": 40},
        {"Tags": list(produced_tags("orders", 0)), "Value": 41},
    ]


def test_the_order_of_points_does_not_change_the_bytes() -> None:
    points = [point(hash_=i % 7, ms=i * i) for i in range(50)]
    assert body(*points) == body(*reversed(points))


CASES: dict[str, Any] = json.loads((ROOT / "tests/cases/streams/pathways.json").read_text(encoding="utf-8"))
SVC_A, SVC_B, SVC_C = (PathwayNode(f"svc-{name}", "prod") for name in "abc")
OUT_ORDERS, IN_ORDERS = produce_tags("orders"), consume_tags("orders", "g1")
OUT_INVOICES, IN_INVOICES = produce_tags("invoices"), consume_tags("invoices", "g2")
START, IN_B, OUT_B, IN_C = (case["pathway"] for case in CASES["hashes"][:4])


@pytest.mark.parametrize("case", CASES["hashes"])
def test_hashes_are_those_of_ddtrace(case: dict[str, Any]) -> None:
    tags = tuple(sorted([*case["tags"], "type:kafka"]))
    node = node_hash(case["service"], case["env"], tags, bytes.fromhex(case.get("extra", "")))
    assert (node, pathway_hash(node, case["parent"])) == (case["node"], case["pathway"])


def test_the_hash_of_nothing_is_the_basis_and_a_byte_is_multiplied_first() -> None:
    assert fnv1_64(b"") == OFFSET_BASIS
    assert fnv1_64(b"a") == 0xAF63BD4C8601B7BE  # of the authors' list of vectors


def test_tags_of_edges_are_sorted_and_the_cluster_is_left_out_where_it_is_not_known() -> None:
    assert produce_tags("t") == ("direction:out", "topic:t", "type:kafka")
    assert produce_tags("t", "C") == ("direction:out", "kafka_cluster_id:C", "topic:t", "type:kafka")
    assert consume_tags("t", "g", "C") == ("direction:in", "group:g", "kafka_cluster_id:C", "topic:t", "type:kafka")


@pytest.mark.parametrize("case", CASES["headers"])
def test_headers_are_read_and_written_as_ddtrace_does(case: dict[str, Any]) -> None:
    context = PathwayContext(case["hash"], case["start_ms"], case["edge_ms"])
    assert encode_header(context) == case["base64"].encode()
    assert decode_header(case["base64"].encode()) == context
    if "hex" in case:
        assert encode_binary(context) == bytes.fromhex(case["hex"])
        assert decode_binary(bytes.fromhex(case["hex"])) == context


def test_times_of_64_bits_come_back() -> None:
    for ms in (2**62, -(2**62), 2**63 - 1, -(2**63), 2**55, 2**56):
        context = PathwayContext(2**64 - 1, ms, -ms if ms > -(2**63) else ms)
        assert decode_binary(encode_binary(context)) == context
    assert len(encode_binary(PathwayContext(1, 2**63 - 1, -(2**63)))) == 26


@pytest.mark.parametrize("data", [b"", b"\1\2\3", bytes(8), bytes(9), b"\1" * 8 + b"\x80" * 8, b"\xff" * 9])
def test_what_ends_too_early_is_a_fault(data: bytes) -> None:
    assert decode_binary(data) == ContextFault("it ends too early")


def test_what_is_too_long_or_no_base64_is_a_fault() -> None:
    assert decode_binary(b"\xff" * 26) == PathwayContext(2**64 - 1, -(2**63), -(2**63))
    assert decode_binary(b"\xff" * 30) == ContextFault("30 bytes, at most 26 are read")
    for value in (b"TXzGb/MdYa+AoKv++WKAoKv++WI", b"!!!!", "grün".encode(), b"TXzG\nb/MdYa+AoKv++WKAoKv++WI="):
        assert decode_header(value) == ContextFault("not base64")
    assert decode_header(b"A" * 1_000_000) == ContextFault("1000000 characters, at most 36 are read")
    assert decode_binary(bytes.fromhex("0100000000000000017e") + b"more") == PathwayContext(1, -1, 63)


def test_the_newer_header_counts_then_the_older_and_the_last_of_several() -> None:
    one, two = PathwayContext(1, NOW, NOW), PathwayContext(2, NOW, NOW)
    new, other, old = (HEADER, encode_header(one)), (HEADER, encode_header(two)), (OLD_HEADER, encode_binary(two))
    assert context_of([old, new, ("a", None)], NOW) == one
    assert context_of([old], NOW) == two
    assert context_of([(OLD_HEADER, encode_header(one))], NOW) == one
    assert context_of([new, other], NOW) == two
    assert context_of([("a", b"b"), (HEADER, None), (HEADER.upper(), new[1])], NOW) is None
    assert context_of([(HEADER, b"!"), old], NOW) == ContextFault("not base64")
    assert isinstance(context_of([(OLD_HEADER, b"\xff" * 30)], NOW), ContextFault)


@pytest.mark.parametrize(
    ("context", "is_used"),
    [
        (PathwayContext(1, EARLIEST_MS, NOW + MOST_AHEAD_MS), True),
        (PathwayContext(1, EARLIEST_MS - 1, NOW), False),
        (PathwayContext(1, NOW, EARLIEST_MS - 1), False),
        (PathwayContext(1, NOW + MOST_AHEAD_MS + 1, NOW), False),
        (PathwayContext(1, NOW, NOW + MOST_AHEAD_MS + 1), False),
        (PathwayContext(0, NOW, NOW), False),
    ],
)
def test_a_context_without_a_hash_or_with_impossible_times_is_not_used(context: PathwayContext, is_used: bool) -> None:
    for header in ((HEADER, encode_header(context)), (OLD_HEADER, encode_binary(context))):
        assert (context_of([header], NOW) == context) is is_used
        after, point = checkpoint_in(SVC_B, [header], IN_ORDERS, NOW)
        assert (point.parent, after.start_ms) == ((context.hash, context.start_ms) if is_used else (0, NOW))


def test_a_pathway_over_two_topics_has_the_hashes_and_times_of_ddtrace() -> None:
    headers, _, first = checkpoint_out(SVC_A, None, reversed(OUT_ORDERS), NOW, 7)
    assert headers == ((HEADER, CASES["headers"][0]["base64"].encode()),)
    assert (first.hash, first.parent, first.pathway_ms, first.edge_ms, first.payload_bytes) == (START, 0, 0, 0, 7)
    read, second = checkpoint_in(SVC_B, (("x", b"y"), *headers), IN_ORDERS, NOW + 1234)
    assert (second.hash, second.parent, second.pathway_ms, second.edge_ms) == (IN_B, START, 1234, 1234)
    assert encode_header(read) == CASES["headers"][1]["base64"].encode()
    headers, _, third = checkpoint_out(SVC_B, read, OUT_INVOICES, NOW + 1240)
    assert (third.hash, third.parent, third.pathway_ms, third.edge_ms) == (OUT_B, IN_B, 1240, 6)
    _, fourth = checkpoint_in(SVC_C, headers, IN_INVOICES, NOW + 2000)
    assert (fourth.hash, fourth.parent, fourth.pathway_ms, fourth.edge_ms) == (IN_C, OUT_B, 2000, 760)
    assert [point.is_skewed for point in (first, second, third, fourth)] == [False] * 4
    assert first.tags == OUT_ORDERS


def test_a_second_checkpoint_with_one_direction_does_not_lengthen_the_pathway() -> None:
    _, started, _ = checkpoint_out(SVC_A, None, OUT_ORDERS, NOW)
    _, again, point = checkpoint_out(SVC_A, started, OUT_ORDERS, NOW + 50)
    assert (point.hash, point.parent, point.pathway_ms, point.edge_ms) == (START, 0, 0, 0)
    assert (again.hash, again.start_ms, again.edge_ms) == (START, NOW + 50, NOW + 50)


def test_fan_out_after_a_consume_hangs_on_the_consume() -> None:
    headers, _, _ = checkpoint_out(SVC_A, None, OUT_ORDERS, NOW)
    read, _ = checkpoint_in(SVC_B, headers, IN_ORDERS, NOW + 10)
    _, one, _ = checkpoint_out(SVC_B, read, OUT_INVOICES, NOW + 12)
    _, two, point = checkpoint_out(SVC_B, one, OUT_INVOICES, NOW + 15)
    _, _, third = checkpoint_out(SVC_B, two, OUT_INVOICES, NOW + 19)
    assert (point.hash, point.parent, point.pathway_ms, point.edge_ms) == (OUT_B, IN_B, 15, 5)
    assert (third.hash, third.parent, third.pathway_ms, third.edge_ms) == (OUT_B, IN_B, 19, 9)


def test_clocks_that_differ_are_told_and_times_stay_at_zero() -> None:
    headers, _, _ = checkpoint_out(SVC_A, None, OUT_ORDERS, NOW)
    _, point = checkpoint_in(SVC_B, headers, IN_ORDERS, NOW - 1)
    assert (point.pathway_ms, point.edge_ms, point.is_skewed) == (0, 0, True)


@pytest.mark.parametrize("name", [HEADER, OLD_HEADER])
@pytest.mark.parametrize(
    "value", [None, b"", b"\xff" * 30, bytes(8), b64encode(b"\xff" * 26), b"=" * 36, b"\x80" * 5000, b"\xc3\xa9"]
)
def test_hostile_headers_begin_a_pathway(name: str, value: bytes | None) -> None:
    context, point = checkpoint_in(SVC_B, [(name, value)], IN_ORDERS, NOW)
    assert (point.parent, context.start_ms, context.edge_ms) == (0, NOW, NOW)
