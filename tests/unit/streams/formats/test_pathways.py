"""Pathway hashes, headers and checkpoints, against what ddtrace computes and writes."""

import json
from base64 import b64encode
from typing import Any

import pytest

from kafkakit.streams.model.pathways import (
    EARLIEST_MS,
    HEADER,
    MOST_AHEAD_MS,
    OFFSET_BASIS,
    OLD_HEADER,
    ContextFault,
    PathwayContext,
    PathwayNode,
    checkpoint_in,
    checkpoint_out,
    consume_tags,
    context_of,
    decode_binary,
    decode_header,
    encode_binary,
    encode_header,
    fnv1_64,
    node_hash,
    pathway_hash,
    produce_tags,
)
from tests.places import ROOT

CASES: dict[str, Any] = json.loads((ROOT / "tests/cases/streams/pathways.json").read_text(encoding="utf-8"))
NOW = 1_700_000_000_000
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
        assert decode_header(value) == ContextFault("no base64")
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
    assert context_of([(HEADER, b"!"), old], NOW) == ContextFault("no base64")
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
