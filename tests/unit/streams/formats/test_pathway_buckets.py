"""Sums of checkpoints: sketches, buckets, and the body that an agent gets."""

import gzip
from typing import Any

import msgspec
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kafkakit.streams.model.pathways import (
    BUCKET_MS,
    FOLDED_TAGS,
    GAMMA,
    MOST_BINS,
    OFFSET,
    DDSketch,
    PathwayBuckets,
    PathwayNode,
    PathwayPoint,
    PayloadSender,
    committed_tags,
    encode_payload,
    produced_tags,
)

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
