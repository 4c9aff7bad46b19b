"""The compiled query against a naive reading of every object, the canonical text, and hostile texts.

Whatever a snapshot or map file holds. Whatever bytes a metrics znode holds.
"""

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kafkakit.core.documents import decode_partition_map, decode_snapshot, encode_snapshot
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.core.plan_rules import check_partition_map, check_snapshot
from kafkakit.core.query import Column, ObjectTable, explain, match_objects, number_column, text_column
from kafkakit.core.query_text import NUMBER, QueryError, glob_matcher, keys_of, parse_query, parse_rules, text_of
from kafkakit.core.storage_documents import (
    Compression,
    decode_broker_storage,
    decode_partition_sizes,
    encode_broker_storage,
    encode_partition_sizes,
)
from tests.fakes.admin import FakeCluster

KEYS = ["name", "count", "size_bytes", "tier", "odd key", "in"]
VALUES = ["", "a", "b", "ab", "aab", "10", "10.0", "9", "-3", "2k", "1KiB", "1.5", 'q"\\', "ü", "true"]
texts = st.sampled_from(VALUES)
keys = st.sampled_from(KEYS)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def key_text(key: str) -> str:
    return key if key.isidentifier() and key != "in" else quoted(key)


@st.composite
def leaves(draw: Any) -> tuple[str, Any]:
    """A test as text, and as what the naive reader takes."""
    key, kind = (
        draw(keys),
        draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "in", "not in", "~", "!~", "exists"])),
    )
    number = key in ("count", "size_bytes")
    values = draw(
        st.lists(st.sampled_from(["10", "9", "-3", "1.5", "1024"]) if number else texts, min_size=1, max_size=3)
    )
    bare = [draw(st.booleans()) and v.strip("-").replace(".", "").isalnum() for v in values]
    words = [v if b else quoted(v) for v, b in zip(values, bare, strict=True)]
    pairs = [(v, b) for v, b in zip(values, bare, strict=True)]
    name = key_text(key)
    if kind == "exists":
        return f"exists({name})", (kind, key, [])
    if kind in ("~", "!~"):
        pattern = draw(st.text("ab1*?", max_size=5))
        return f"{name} {kind} {quoted(pattern)}", (kind, key, [(pattern, False)])
    if kind in ("in", "not in"):
        return f"{name} {kind} ({','.join(words)})", (kind, key, pairs)
    return f"{name}{kind}{words[0]}", (kind, key, pairs[:1])


def grown(inner: st.SearchStrategy[tuple[str, Any]]) -> st.SearchStrategy[tuple[str, Any]]:
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        inner.map(lambda part: (f"not ({part[0]})", ("not", part[1]))),
        several.map(lambda parts: ("(" + ") and (".join(p[0] for p in parts) + ")", ("and", [p[1] for p in parts]))),
        several.map(lambda parts: (" OR ".join(f"( {p[0]} )" for p in parts), ("or", [p[1] for p in parts]))),
    )


queries = st.recursive(leaves(), grown, max_leaves=8)
objects = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "name": texts,
            "tier": texts,
            "odd key": texts,
            "in": texts,
            "count": st.sampled_from([10, 9, -3, 2**62]),
            "size_bytes": st.sampled_from([1024, 9, 0]),
        },
    ),
    max_size=6,
)


def naive(query: Any, row: dict[str, Any]) -> bool:
    """The language read from its description: one object at a time, by plain recursion."""
    kind = query[0]
    if kind == "not":
        return not naive(query[1], row)
    if kind == "and":
        return all(naive(part, row) for part in query[1])
    if kind == "or":
        return any(naive(part, row) for part in query[1])
    _, key, values = query
    if kind == "exists":
        return key in row
    if kind in ("!=", "not in", "!~"):
        return not naive(({"!=": "=", "not in": "in", "!~": "~"}[kind], key, values), row)
    if key not in row:
        return False
    own = row[key]
    if kind == "~":
        return naive_glob(values[0][0], str(own))
    return any(compare("=" if kind == "in" else kind, key, own, *value) for value in values)


def compare(kind: str, key: str, own: Any, value: str, bare: bool) -> bool:
    right: Any = None
    if NUMBER.fullmatch(value) and (bare or isinstance(own, int)):
        right = Fraction(value)
    elif bare and key == "size_bytes":
        right = {"2k": Fraction(2000), "1KiB": Fraction(1024)}.get(value)
    left: Any = Fraction(own) if isinstance(own, int) or NUMBER.fullmatch(own) else None
    if left is None or right is None:
        left, right = str(own), value
    holds = {"=": left == right, "<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}
    return bool(holds[kind])


def naive_glob(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(naive_glob(pattern[1:], text[k:]) for k in range(len(text) + 1))
    return bool(text) and pattern[0] in ("?", text[0]) and naive_glob(pattern[1:], text[1:])


def table_of(rows: list[dict[str, Any]]) -> ObjectTable:
    def column(key: str) -> Column | None:
        found = [row.get(key) for row in rows]
        if all(v is None for v in found):
            return None
        return number_column(found) if key in ("count", "size_bytes") else text_column(found)

    return ObjectTable(tuple(str(i) for i in range(len(rows))), column)


@given(queries, objects)
def test_columns_answer_like_a_naive_reader(query: tuple[str, Any], rows: list[dict[str, Any]]) -> None:
    text, tree = query
    table = table_of(rows)
    assert match_objects(parse_query(text), table).tolist() == [naive(tree, row) for row in rows]


@given(queries)
def test_the_canonical_text_reads_as_the_same_query(query: tuple[str, Any]) -> None:
    node = parse_query(query[0])
    assert parse_query(text_of(node)) == node
    assert text_of(parse_query(text_of(node))) == text_of(node)


@given(queries, objects.filter(bool))
def test_explain_agrees_and_gives_a_reason(query: tuple[str, Any], rows: list[dict[str, Any]]) -> None:
    node, table = parse_query(query[0]), table_of(rows)
    holds, reasons = explain(node, table, 0)
    assert holds == naive(query[1], rows[0])
    assert reasons
    assert all(any(f"{key} is " in reason for key in keys_of(node)) for reason in reasons)


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=10))
def test_globs_match_like_their_definition(pattern: str, text: str) -> None:
    assert glob_matcher(pattern)(text) == naive_glob(pattern, text)


def error_of(read: Callable[[str], object], text: str) -> QueryError | None:
    try:
        read(text)
    except QueryError as error:
        return error
    return None


@settings(max_examples=300)
@given(st.one_of(st.text(max_size=60), st.text("a1 =<>!~()\"'\\,:;ndotriu{}*", max_size=60)))
def test_any_text_is_a_query_or_a_named_column(text: str) -> None:
    for read in (parse_query, lambda t: parse_rules(t, "topics", "brokers")):
        error = error_of(read, text)
        if error is not None:
            assert 1 <= error.column <= len(text) + 1
            shown, caret = error.lines
            assert shown.isprintable()
            assert caret.strip() == "^"
            assert "\n" not in error.message


def test_a_pattern_made_to_backtrack_is_matched_at_once() -> None:
    # Tried one after another, the ways to place 30 stars in 3,000 characters would not end.
    assert not glob_matcher("a*" * 30 + "b")("a" * 3000)
    assert not glob_matcher("*a?" * 30 + "b")("a" * 3000)


def test_a_number_beside_text_is_refused() -> None:
    with pytest.raises(UsageError):
        match_objects(parse_query("count < many"), table_of([{"count": 1}]))


ROUNDS = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def good_bytes() -> bytes:
    cluster = FakeCluster({1: "a", 2: "b", 3: "c"})
    cluster.add_topic("t", {0: (1, 2), 1: (2, 3)}, size_bytes=100, configs={"retention.ms": "1"})
    return encode_snapshot(cluster.snapshot(now=datetime(2026, 1, 1, tzinfo=UTC)))


GOOD = good_bytes()
MAP = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**31, 2**63, -1, 10**400, 1.5, float("nan"), float("inf"), -0.0, 1e308]),
    st.text(max_size=8),
    st.sampled_from(["\x00", "\x1b[2J", "x" * 300, "\ud800", "2026-01-01", "__proto__", ".."]),
    st.lists(st.integers(-2, 4), max_size=4),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def read_snapshot(data: bytes) -> None:
    check_snapshot(decode_snapshot(data, "f"), "f")


def read_map(data: bytes) -> None:
    check_partition_map(decode_partition_map(data, "f"), "f")


def only_input_errors(read: Callable[[bytes], None], data: bytes) -> bool:
    """True when it was read; any exception but a one-line `InputError` fails the test."""
    refusal = None
    try:
        read(data)
    except InputError as error:
        refusal = str(error)
    if refusal is not None:
        assert refusal.startswith("f: ")
        assert "\n" not in refusal
        assert len(refusal) < 2_000
    return refusal is None


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [at]
    if isinstance(value, dict):
        found += [p for k, v in value.items() for p in paths(v, (*at, k))]
    if isinstance(value, list):
        found += [p for k, v in enumerate(value) for p in paths(v, (*at, k))]
    return found


def changed(document: bytes, path: tuple[Any, ...], value: Any) -> bytes:
    tree = {"root": json.loads(document)}
    node: Any = tree
    steps = ("root", *path)
    for step in steps[:-1]:
        node = node[step]
    node[steps[-1]] = value
    return json.dumps(tree["root"]).encode()


def test_the_untouched_files_are_read() -> None:
    assert only_input_errors(read_snapshot, GOOD)
    assert only_input_errors(read_map, MAP)


@ROUNDS
@given(st.sampled_from(paths(json.loads(GOOD))), ODD)
def test_any_value_anywhere_in_a_snapshot(path: tuple[Any, ...], value: Any) -> None:
    only_input_errors(read_snapshot, changed(GOOD, path, value))


@ROUNDS
@given(st.sampled_from(paths(json.loads(MAP))), ODD)
def test_any_value_anywhere_in_a_map(path: tuple[Any, ...], value: Any) -> None:
    only_input_errors(read_map, changed(MAP, path, value))


@ROUNDS
@given(st.integers(0, len(GOOD) - 2))
def test_a_snapshot_cut_anywhere_is_refused(length: int) -> None:
    assert not only_input_errors(read_snapshot, GOOD[:length])


@ROUNDS
@given(st.integers(0, len(GOOD) - 1), st.binary(min_size=1, max_size=3))
def test_any_bytes_written_over_a_snapshot(start: int, noise: bytes) -> None:
    only_input_errors(read_snapshot, GOOD[:start] + noise + GOOD[start + len(noise) :])


@ROUNDS
@given(st.binary(max_size=60))
def test_any_bytes_at_all(data: bytes) -> None:
    assert not only_input_errors(read_snapshot, data)
    only_input_errors(read_map, data)


HEAD = b'{"kafkakit":{"kind":"cluster-snapshot","schema":1},"cluster_id":"c","taken_at":"2026-01-01T00:00:00Z",'


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 10_000,
        b'{"a":' * 10_000,
        b"[" * 10_000 + b"]" * 10_000,
        HEAD + b'"x":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        HEAD + b'"brokers":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        HEAD + b'"source":"s","topics":[],"brokers":[{"id":' + b"9" * 1_000_000 + b"}]}",
        HEAD + b'"source":"s","topics":[],"brokers":[{"id":1,"port":1e999999}]}',
        HEAD + b'"source":"s","topics":[],"brokers":[{"id":NaN}]}',
        HEAD + b'"source":"\xff\xfe","topics":[],"brokers":[]}',
        HEAD + b'"source":"\\ud800","topics":[],"brokers":[]}',
        b"\xef\xbb\xbf" + GOOD,
        GOOD.decode().encode("utf-16"),
        GOOD + GOOD,
        b"",
        b"null",
        GOOD.replace(b'"schema":1', b'"schema":2'),
        GOOD.replace(b'"kind":"cluster-snapshot"', b'"kind":"plan"'),
        GOOD.replace(b'"replicas":[1,2]', b'"replicas":[1,9]'),
        GOOD.replace(b'"partition":1', b'"partition":0'),
        GOOD.replace(b'"sizes_taken":true', b'"sizes_taken":1'),
    ],
)
def test_hostile_files_are_refused(data: bytes) -> None:
    assert data != GOOD
    assert not only_input_errors(read_snapshot, data)


ROUNDS_ZNODES = settings(max_examples=300, deadline=None, derandomize=True)
KEYS_ZNODES = st.builds(TopicPartition, st.text("abz._-", min_size=1, max_size=5), st.integers(0, 2**31 - 1))
SIZES = st.dictionaries(KEYS_ZNODES, st.integers(0, 2**53), max_size=8)
FREE = st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**53), max_size=8)
GOOD_ZNODES = encode_partition_sizes({TopicPartition("orders", 3): 12})


def only_input_errors_znodes(data: bytes) -> None:
    for decode in (decode_partition_sizes, decode_broker_storage):
        refusal = ""
        try:
            values = decode(data, "znode")
        except InputError as error:
            refusal = str(error)
        else:
            assert all(isinstance(v, int) and 0 <= v < 2**63 for v in values.values())
        assert not refusal or refusal.startswith("znode: ")
        assert "\n" not in refusal
        assert len(refusal) < 1_000


@ROUNDS_ZNODES
@given(st.binary(max_size=200))
@example(b'{"t":{"0":{"Size":1e400}}}')
@example(b'{"t":{"0":{"Size":9223372036854775807}}}')
def test_random_bytes(data: bytes) -> None:
    only_input_errors_znodes(data)
    only_input_errors_znodes(b"\x1f\x8b" + data)
    only_input_errors_znodes(gzip.compress(data))
    only_input_errors_znodes(b"\x28\xb5\x2f\xfd" + data)
    only_input_errors_znodes(zstandard.compress(data))


@ROUNDS_ZNODES
@given(st.integers(0, len(GOOD_ZNODES) - 1), st.integers(0, 255), st.integers(0, len(GOOD_ZNODES)))
def test_a_good_znode_with_a_byte_changed_or_its_end_cut_off(place: int, value: int, end: int) -> None:
    data = bytearray(GOOD_ZNODES)
    data[place] = value
    only_input_errors_znodes(bytes(data))
    only_input_errors_znodes(GOOD_ZNODES[:end])


@ROUNDS_ZNODES
@given(SIZES, FREE, st.sampled_from(Compression))
def test_what_is_written_is_read(
    sizes: dict[TopicPartition, int], free: dict[int, int], compression: Compression
) -> None:
    assert decode_partition_sizes(encode_partition_sizes(sizes, compression), "z") == sizes
    assert decode_broker_storage(encode_broker_storage(free, compression), "z") == free
