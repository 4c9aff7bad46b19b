"""The compiled query against a naive reading of every object, the canonical text, and hostile texts."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.core.errors import UsageError
from kafkakit.core.query import Column, ObjectTable, explain, matching, number_column, text_column
from kafkakit.core.query_text import NUMBER, QueryError, glob_matcher, keys_of, parse_query, parse_rules, text_of

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
    assert matching(parse_query(text), table).tolist() == [naive(tree, row) for row in rows]


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
        matching(parse_query("count < many"), table_of([{"count": 1}]))
