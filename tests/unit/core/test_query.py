"""The query language: what it means, how it is printed, and what its errors say."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kafkakit.core.errors import UsageError
from kafkakit.core.model import Broker, BrokerState, ClusterSnapshot, LogDir, Partition, TagSet, Topic
from kafkakit.core.query import (
    broker_table,
    brokers_where,
    explain,
    names_matching,
    object_table,
    text_column,
    topic_table,
    topics_where,
    unknown_keys,
)
from kafkakit.core.query_text import MAX_DEPTH, MAX_LENGTH, MAX_LIST, QueryError, parse_query, parse_rules, text_of

GIB = 1 << 30


def topic(
    name: str, partitions: int, *, size: int | None = None, isr: tuple[int, ...] = (1, 2), **configs: str
) -> Topic:
    part = {"replicas": (1, 2), "isr": isr, "replica_bytes": {} if size is None else {1: size, 2: size}}
    return Topic(
        name=name,
        partitions=tuple(Partition(partition=p, **part) for p in range(partitions)),  # type: ignore[arg-type]
        configs={k.replace("_", "."): v for k, v in configs.items()},
    )


def cluster(tags: TagSet | None = None) -> ClusterSnapshot:
    return ClusterSnapshot(
        cluster_id="c",
        taken_at=datetime(2026, 11, 1, tzinfo=UTC),
        source="test",
        brokers=(
            Broker(id=1, rack="a", host="h1", port=9092, log_dirs=(LogDir(path="/d", usable_bytes=3 * GIB),)),
            Broker(id=2, rack="b", host="h2", port=9092, storage_free_bytes=GIB),
            Broker(id=3, host="h3", state=BrokerState.FENCED),
            Broker(id=4, state=BrokerState.MISSING),
        ),
        topics=(
            topic("orders-eu", 3, size=2 * GIB, retention_ms="86400000"),
            topic("orders-us", 200, size=0, isr=(1,)),
            topic("clicks", 12, cleanup_policy="compact"),
            topic("__consumer_offsets", 50, size=5),
        ),
        tags=tags,
    )


TAGGED = TagSet(
    brokers={1: {"tier": "hot", "slots": "9"}, 2: {"tier": "cold", "slots": "10"}},
    topics={"orders-eu": {"tier": "hot", "owner": "o'neil"}, "clicks": {"tier": "warm", "slots": "007"}},
)

TOPICS: list[tuple[str, list[str]]] = [
    ('name = "clicks"', ["clicks"]),
    ("name != clicks and internal = false", ["orders-eu", "orders-us"]),
    ("partitions > 100", ["orders-us"]),
    ("partitions >= 12 AND partitions <= 50", ["clicks", "__consumer_offsets"]),
    ("partitions < 3.5", ["orders-eu"]),
    ("partitions = 12.0", ["clicks"]),
    ("partitions = 12.5", []),
    ("partitions > -99999999999999999999", ["orders-eu", "orders-us", "clicks", "__consumer_offsets"]),
    (
        "partitions < 99999999999999999999 and replication = 2",
        ["orders-eu", "orders-us", "clicks", "__consumer_offsets"],
    ),
    ("partitions in (3, '12', 13)", ["orders-eu", "clicks"]),
    ("bytes >= 12GiB", ["orders-eu"]),
    ("not exists(bytes)", ["clicks"]),
    ("bytes < 1k and bytes != 0", ["__consumer_offsets"]),
    ("under_replicated = true", ["orders-us"]),
    ('name ~ "orders-*"', ["orders-eu", "orders-us"]),
    ("name like orders-?s", ["orders-us"]),
    ("name !~ *o*", ["clicks"]),
    ("name not like *-*", ["clicks", "__consumer_offsets"]),
    ("config.retention.ms < 1000000000", ["orders-eu"]),
    ("exists(config.cleanup.policy)", ["clicks"]),
    ('tier in ("hot", "warm")', ["orders-eu", "clicks"]),
    ("tier not in (hot) and exists(tier)", ["clicks"]),
    ("tier != hot", ["orders-us", "clicks", "__consumer_offsets"]),
    ("owner = 'o\\'neil' or slots = 7", ["orders-eu", "clicks"]),
    ('slots = "7"', []),
    ("not (tier = hot or tier = warm) and partitions > 60", ["orders-us"]),
    ("tier = hot or tier = warm and partitions > 60", ["orders-eu"]),
    ("tier > hot", ["clicks"]),
    ("unheard = 1", []),
    ("unheard != 1 and name = clicks", ["clicks"]),
]


@pytest.mark.parametrize(("query", "expected"), TOPICS)
def test_topics(query: str, expected: list[str]) -> None:
    assert topics_where(cluster(TAGGED), parse_query(query)) == expected


BROKERS: list[tuple[str, list[int]]] = [
    ("rack = a", [1]),
    ("rack != a", [2, 3]),
    ("id in (2, 3, 4)", [2, 3]),
    ("is_alive = true and free_bytes > 2GiB", [1]),
    ("free_bytes <= 1GiB", [2]),
    ("state = fenced", [3]),
    ("replicas = 265 and leaders = 0", [2]),
    ("port = 9092 and host ~ h*", [1, 2]),
    ("slots > 9", [2]),
    ('slots > "9"', []),
    ("not exists(tier)", [3]),
]


@pytest.mark.parametrize(("query", "expected"), BROKERS)
def test_brokers(query: str, expected: list[int]) -> None:
    assert brokers_where(cluster(TAGGED), parse_query(query)) == expected


CANONICAL = [
    ("rack=a", 'rack = "a"'),
    ("( a = 1 and (b = 2 AND c = 3) )", "a = 1 and b = 2 and c = 3"),
    ("a = 1 and (b = 2 or c = x) or d = 4", 'a = 1 and (b = 2 or c = "x") or d = 4'),
    ("not a = 1", "a != 1"),
    ("not not a != 1", "a != 1"),
    ("not (a < 1)", "not (a < 1)"),
    ("not (a = 1 and b = 2)", "not (a = 1 and b = 2)"),
    ("not a in (1, b,'c d')", 'a not in (1, "b", "c d")'),
    ("a ~ x* and b !~ y", 'a like "x*" and b not like "y"'),
    ("not exists(config.retention.ms)", "not exists(config.retention.ms)"),
    ('"odd key" = "say \\"hi\\" \\u{1F600} \\\\"', '"odd key" = "say \\"hi\\" 😀 \\\\"'),
    ("'and' = 10GiB", '"and" = 10GiB'),
    ("a = '10GiB'", 'a = "10GiB"'),
    ("a = '\\t\\u{0}'", 'a = "\\t\\u{0}"'),
]


@pytest.mark.parametrize(("query", "expected"), CANONICAL)
def test_the_canonical_text(query: str, expected: str) -> None:
    node = parse_query(query)
    assert text_of(node) == expected
    assert parse_query(expected) == node


ERRORS = [
    ("", 1, "found the end, expected a key, not, exists or '('"),
    ("rack", 5, "found the end, expected one of = != < <= > >= ~, in, like or not in after 'rack'"),
    ("rack == a", 7, "found '=', expected a value after a single '='"),
    ("rack = ", 7, "found the end, expected a value"),
    ("rack = and", 8, "found 'and', expected a value"),
    ("rack = a tier = b", 10, "found 'tier', expected and, or, or the end"),
    ("rack = a && tier = b", 10, "found '&&', expected and, or, or the end"),
    ("(rack = a", 10, "found the end, expected ')', and or or"),
    ("tier in hot", 9, "found 'hot', expected '(' and a list of values"),
    ("tier in (hot warm)", 14, "found 'warm', expected ',' or ')'"),
    ("tier in ()", 10, "found ')', expected a value"),
    ("tier not = a", 10, "found '=', expected in or like after 'tier'"),
    ("exists tier", 8, "found 'tier', expected '(' after exists"),
    ("exists(tier", 12, "found the end, expected ')' after the key"),
    ('rack = "a', 8, 'found a text without its end, expected " before the end of the query'),
    ('rack = "a\\x"', 10, "found the escape '\\\\x', expected \\\\, \\\", \\', \\n, \\t, \\r or \\u{hex}"),
    ('rack = "\\u{d800}"', 9, "found the escape '\\\\u', expected \\\\, \\\", \\', \\n, \\t, \\r or \\u{hex}"),
    ("rack = !", 8, "found '!', expected a key, a value or an operator"),
    ("a = 1; b = 2", 6, "found ';', expected and, or, or the end"),
    ("rack \\ a", 6, "found '\\\\', expected a key, a value or an operator"),
    ("a = 1 or", 9, "found the end, expected a key, not, exists or '('"),
    ("(" * (MAX_DEPTH + 1) + "a = 1", MAX_DEPTH + 1, f"more than {MAX_DEPTH} parentheses inside each other"),
    (f"a in ({'1,' * MAX_LIST}1)", 7 + 2 * MAX_LIST, f"more than {MAX_LIST:,} values in a list"),
]


@pytest.mark.parametrize(("query", "column", "problem"), ERRORS)
def test_errors_name_the_column(query: str, column: int, problem: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_query(query)
    assert (caught.value.column, caught.value.message) == (column, f"query, column {column}: {problem}")


def test_a_caret_shows_the_place() -> None:
    with pytest.raises(QueryError) as caught:
        parse_query("rack = a tier\t= b")
    assert caught.value.lines == ("    rack = a tier?= b", "             ^")
    assert caught.value.hint is None
    with pytest.raises(QueryError) as caught:
        parse_query(f"name in ({'x, ' * 100}not)")
    first, second = caught.value.lines
    assert first[second.index("^") :] == "not)"
    assert caught.value.hint == "put a name or value that is a word of the language in quotes"


def test_limits() -> None:
    with pytest.raises(UsageError, match="the query has 4,097 characters, at most 4,096 are read"):
        parse_query("a" * (MAX_LENGTH + 1))
    assert parse_query("not " * 1000 + "a = 1") == parse_query("a = 1")


def test_a_number_is_compared_with_numbers() -> None:
    with pytest.raises(UsageError, match='the query compares partitions, a number, with "many"'):
        topics_where(cluster(), parse_query("partitions > many"))


def test_tags_that_are_not_known_are_refused_and_attributes_are_not() -> None:
    assert topics_where(cluster(), parse_query("partitions > 100 or exists(config.x)")) == ["orders-us"]
    with pytest.raises(UsageError, match="owner, tier can only be tags, and no tags are known here"):
        topics_where(cluster(), parse_query("tier = hot and name = x or owner = me"))
    with pytest.raises(UsageError, match=r"^tier can only be tags"):
        brokers_where(cluster(), parse_query("tier = hot and rack = a"))


EXPLAINED: list[tuple[str, bool, list[str]]] = [
    ("tier = hot and partitions > 2", True, ['tier = "hot": tier is hot', "partitions > 2: partitions is 3"]),
    ("tier = cold and partitions > 100 and name ~ o*", False,
     ['tier = "cold": tier is hot', "partitions > 100: partitions is 3"]),
    ("draining = yes or name = x", False, ['draining = "yes": draining is not set', 'name = "x": name is orders-eu']),
    ("not (tier = hot and partitions = 3)", False, ['tier = "hot": tier is hot', "partitions = 3: partitions is 3"]),
    ("tier != hot", False, ['tier != "hot": tier is hot']),
    ("not exists(owner)", False, ["not exists(owner): owner is o'neil"]),
]  # fmt: skip


@pytest.mark.parametrize(("query", "holds", "reasons"), EXPLAINED)
def test_explain_names_the_parts_that_decide(query: str, holds: bool, reasons: list[str]) -> None:
    found = explain(parse_query(query), topic_table(cluster(TAGGED)), 0)
    assert found == (holds, tuple(reasons))


def test_tables_name_their_objects() -> None:
    assert broker_table(cluster()).names == ("1", "2", "3")
    assert topic_table(cluster()).names[0] == "orders-eu"


def test_a_rule_has_two_queries() -> None:
    text = "topics where tier = hot: brokers where disk in (nvme, 'a:b'); topics where a = 1: brokers where b = 2"
    found = [(text_of(left), text_of(right)) for left, right in parse_rules(text, "topics", "brokers")]
    assert found == [('tier = "hot"', 'disk in ("nvme", "a:b")'), ("a = 1", "b = 2")]


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("tier = hot: brokers where a = 1", 1, "found 'tier', expected 'topics' (of 'topics where ...')"),
        ("topics tier = hot", 8, "found 'tier', expected 'where' (of 'topics where ...')"),
        ("topics where tier = hot", 24, "found the end, expected and, or, or ': brokers where ...'"),
        ("topics where a = 1: brokers where b = 1 x", 41, "found 'x', expected and, or, ';' or the end"),
    ],
)
def test_errors_of_a_rule(text: str, column: int, problem: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_rules(text, "topics", "brokers")
    assert caught.value.message == f"query, column {column}: {problem}"


GLOBS: list[Any] = [
    ("", "", True), ("", "a", False), ("*", "", True), ("**", "ab", True), ("a*", "a", True), ("a*a", "a", False),
    ("a*b*c", "abc", True), ("a*b*c", "acb", False), ("*ab*ab*", "xabab", True), ("*ab*ab*", "xaab", False),
    ("?", "", False), ("?", "a", True), ("*?", "", False), ("a?c*", "abcd", True), ("*a?", "aab", True),
    ("[a]", "a", False),
    ("a*?b", "ab", False), ("a.c", "abc", False),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "text", "fits"), GLOBS)
def test_globs(pattern: str, text: str, fits: bool) -> None:
    from kafkakit.core.query_text import glob_matcher

    assert glob_matcher(pattern)(text) is fits


def test_a_table_has_attributes_settings_and_tags_of_any_objects() -> None:
    objects = [("a", {"tier": "hot"}, {"x": "1"}), ("b", {}, {"x": "2"})]
    own = {"letter": lambda found: text_column([o[0] for o in found])}
    table = object_table(["one", "two"], objects, own, lambda o: o[1], lambda o: o[2])
    query = 'letter in (a, b) and config.x > 0 and (tier = "hot" or config.x = 2)'
    assert names_matching(parse_query(query), table) == ["one", "two"]
    without = object_table(["one", "two"], objects, own, lambda o: o[1])
    assert without.column("config.x") is None


def test_an_unknown_key_comes_with_the_nearest_attribute_unless_it_is_a_setting() -> None:
    table = object_table([], [], {}, lambda o: {})
    query = parse_query("abcx = 1 and other = 2 and config.abcd = 3 and letter = 4")
    assert unknown_keys(query, table, {"abcd", "letter"}) == [("abcx", "abcd"), ("other", None)]
