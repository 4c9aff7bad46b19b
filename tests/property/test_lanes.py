"""Single-object queries against columns, provenance over many hops and hostile bytes, and entries of the ledger."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.errors import UsageError
from kafkakit.core.query import Field, NumberField, TextField, compiled, matching
from kafkakit.core.query_text import parse_query
from kafkakit.streams.model.provenance import (
    OWN_HEADERS,
    RecordFailure,
    RecordOrigin,
    Reject,
    bounded,
    decode_reject,
    encode_reject,
    provenance_headers,
    read_provenance,
)
from tests.property.test_query import KEYS, objects, queries, table_of

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
    matches = compiled(node, single({key for row in rows for key in row}))
    assert [matches(row) for row in rows] == matching(node, table_of(rows)).tolist()
    everywhere = compiled(node, single(set(KEYS)))
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
    assert [compiled(node, single({"tier"}))(row) for row in rows] == matching(node, table_of(rows)).tolist()


@pytest.mark.parametrize("own", ["9" * 30, "9" * 31, "9" * 5000, "-" + "1" * 18, "1" * 19])
def test_long_digits_compare_as_columns_say(own: str) -> None:
    for query in ("tier > 8", "tier < 8", f"tier = {own[:40]}", f"tier in (1, {own[:40]})"):
        node, rows = parse_query(query), [{"tier": own}]
        assert [compiled(node, single({"tier"}))(row) for row in rows] == matching(node, table_of(rows)).tolist()


def test_a_long_query_and_one_compared_with_text() -> None:
    node = parse_query(" or ".join(f"tier = {n}" for n in range(300)))
    matches = compiled(node, single({"tier"}))
    assert [matches({"tier": "299"}), matches({"tier": "300"})] == [True, False]
    with pytest.raises(UsageError, match="a number"):
        compiled(parse_query("count > many"), single({"count"}))


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


rejects = st.builds(Reject, topic_id=st.binary(min_size=16, max_size=16), place=origins, failure=failures)


@given(rejects, rejects, st.binary(max_size=60))
def test_entries_of_the_ledger_come_back_and_others_are_none(one: Reject, other: Reject, noise: bytes) -> None:
    key, value = encode_reject(one)
    read = decode_reject(key, value)
    assert read == replace(one, failure=bounded(one.failure))
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
    entry = Reject(topic_id=bytes(16), place=place, failure=RecordFailure(group="a/b/1/2", reason="r", at_ms=1))
    assert decode_reject(*encode_reject(entry)) == entry
    half = RecordFailure(group="g", reason="r\ud800", at_ms=1, error_text="x" * 20_000)
    read = decode_reject(*encode_reject(Reject(topic_id=bytes(16), place=place, failure=half)))
    assert read is not None
    assert (read.failure.reason, len(read.failure.error_text)) == ("r?", 1000)
    large = Reject(topic_id=bytes(16), place=place, failure=replace(half, group="g" * 20_000))
    with pytest.raises(UsageError, match="at most 16,384"):
        encode_reject(large)
