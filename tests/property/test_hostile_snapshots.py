"""Whatever a snapshot or map file holds: it is read, or refused in one line. Never anything else."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkakit.core.documents import decode_partition_map, decode_snapshot, encode_snapshot
from kafkakit.core.errors import InputError
from kafkakit.core.plan_rules import check_partition_map, check_snapshot
from tests.fakes.admin import FakeCluster

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
