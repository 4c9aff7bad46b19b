"""Which clusters, topics and brokers a scope stands for."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.audit.decide import request as scope
from kafkakit.audit.decide.request import (
    Rows,
    Tables,
    chosen_brokers,
    chosen_clusters,
    chosen_topics,
    tables_for_brokers,
    tables_for_topics,
)
from kafkakit.core.errors import UsageError
from kafkakit.core.findings import NAMED_IN_WHERE
from kafkakit.core.query_text import QueryError


def topics(tags: Mapping[str, Mapping[str, str]] | None) -> dict[str, list[Any]]:
    names = ["__consumer_offsets", "orders", "pay"]
    own = [None if tags is None else tags.get(name, {}) for name in names]
    return {
        "topic": names,
        "tag_keys": [None if t is None else list(t) for t in own],
        "tag_values": [None if t is None else list(t.values()) for t in own],
    }


BROKERS: dict[str, list[Any]] = {
    "broker": [1, 2, 3],
    "rack": ["a", "b", None],
    "host": ["h1", "h2", None],
    "is_alive": [True, True, False],
    "tag_keys": [["power"], [], []],
    "tag_values": [["A"], [], []],
}
PARTITIONS: dict[str, list[Any]] = {
    "topic": ["orders", "orders", "pay"],
    "partition": [0, 1, 0],
    "replicas": [[1, 2], [2, 1], [1]],
    "isr": [[1, 2], [2], None],
    "size_bytes": [10, 20, None],
}
REPLICAS: dict[str, list[Any]] = {
    "topic": ["orders", "orders", "orders"],
    "partition": [0, 0, 1],
    "broker": [1, 2, 2],
    "size_bytes": [10, 9, 20],
    "is_future": [False, False, False],
}
CONFIGS: dict[str, list[Any]] = {"topic": ["pay"], "key": ["retention.ms"], "value": ["1000"]}
TABLES: dict[str, Tables] = {
    "a": {
        "topics": topics({"orders": {"tier": "hot"}}),
        "partitions": PARTITIONS,
        "replicas": REPLICAS,
        "topic_configs": CONFIGS,
        "brokers": BROKERS,
        "log_dirs": {"broker": [1], "path": ["/d"], "total_bytes": [100], "usable_bytes": [30]},
    },
    "b": {"topics": topics({}), "brokers": {**BROKERS, "rack": ["a", "a", "a"]}},
}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("where tier = hot", {"a": ("orders",)}),
        ("where not exists(tier) and not internal = true", {"a": ("pay",), "b": ("orders", "pay")}),
        ("where config.retention.ms <= 1000", {"a": ("pay",)}),
        ("where bytes = 39", {"a": ("orders",)}),
        ("where under_replicated = true", {"a": ("orders",)}),
        ("where partitions = 2 and replication = 2", {"a": ("orders",)}),
        ("pay", {"a": ("pay",), "b": ("pay",)}),
        ("or.*,^p", {"a": ("orders", "pay"), "b": ("orders", "pay")}),
    ],
)
def test_topics_by_name_tag_attribute_and_setting(text: str, found: Mapping[str, Any]) -> None:
    assert chosen_topics(text, TABLES) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("where rack = a", {"a": ("1",), "b": ("1", "2", "3")}),
        ("where power = A and free_bytes < 31", {"a": ("1",)}),
        ("where not is_alive = true", {"a": ("3",), "b": ("3",)}),
        ("where replicas = 3", {"a": ("1",)}),
        ("2,9", {"a": ("2",), "b": ("2",)}),
    ],
)
def test_brokers_by_id_tag_and_attribute(text: str, found: Mapping[str, Any]) -> None:
    assert chosen_brokers(text, TABLES) == found


def test_clusters_by_name_attribute_and_label() -> None:
    tables: dict[str, Rows] = {
        "a": {"env": ["prod"], "labels": [["tier-1", "team=pay"]], "kafka_version": ["4.1"]},
        "b": {"env": [None], "labels": [None]},
        "c": {},
    }
    assert chosen_clusters("b,a,b", tables) == ("a", "b")
    assert chosen_clusters("where env = prod", tables) == ("a",)
    assert chosen_clusters("where env != prod", tables) == ("b", "c")
    assert chosen_clusters("where exists(tier-1) and team = pay and name ~ a*", tables) == ("a",)
    for text, said in (
        ("a,z", "--clusters names z; the clusters of that day are a, b, c"),
        (",", "names no cluster"),
        ("where env = x", "no cluster of the store matches"),
    ):
        with pytest.raises(UsageError, match=re.escape(said)):
            chosen_clusters(text, tables)


def test_tags_that_were_not_collected_are_refused_by_cluster() -> None:
    tables: dict[str, Tables] = {**TABLES, "old": {"topics": topics(None), "brokers": {"broker": [1]}}}
    for choose, text, key in (
        (chosen_topics, "where tier = hot or name = pay", "tier"),
        (chosen_brokers, "where not power = A", "power"),
    ):
        with pytest.raises(UsageError) as caught:
            choose(text, tables)
        assert caught.value.message == f"{key} can only be tags, and the snapshots of old have none on record"
        assert "kafkakit fleet collect --tags" in str(caught.value.hint)
    assert chosen_topics("where name = pay", tables)["old"] == ("pay",)
    assert chosen_brokers("where id = 1", tables)["old"] == ("1",)


@pytest.mark.parametrize(
    ("choose", "text"),
    [
        (chosen_topics, "where tier = cold"), (chosen_topics, "none"), (chosen_brokers, "where id > 7"),
        (chosen_brokers, "9"), (chosen_brokers, "-1"), (chosen_brokers, "x"), (chosen_topics, "where tier"),
    ],
)  # fmt: skip
def test_what_names_nothing_is_refused(choose: Any, text: str) -> None:
    with pytest.raises(UsageError):
        choose(text, TABLES)


def test_why_nothing_matches_is_shown() -> None:
    with pytest.raises(UsageError) as caught:
        chosen_topics("where tier = cold", TABLES)
    assert '  orders: tier = "cold": tier is hot' in caught.value.lines


def test_more_names_than_a_job_takes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope, "MAX_NAMES", 3)
    assert chosen_topics("pay", TABLES)
    with pytest.raises(UsageError, match="the scope has 4 names, at most 3"):
        chosen_topics("where name in (pay, orders)", TABLES)


def test_only_what_a_query_looks_at_is_read() -> None:
    assert tables_for_topics("a,b") == tables_for_topics("where tier = hot and internal = true") == ("topics",)
    assert tables_for_topics("where config.x = 1") == ("topics", "topic_configs")
    assert tables_for_topics("where bytes > 1") == ("topics", "partitions", "replicas")
    assert tables_for_brokers("1") == tables_for_brokers("where rack = a") == ("brokers",)
    assert tables_for_brokers("where leaders > 1") == ("brokers", "topics", "partitions", "log_dirs")
    with pytest.raises(QueryError):
        tables_for_topics("where tier hot")


NAMES = st.text("ab-1._", min_size=1, max_size=8)


@given(NAMES, st.integers(0, 99), st.sampled_from(["c", "c of d", "a-1"]))
def test_findings_name_what_they_are_about(name: str, number: int, cluster: str) -> None:
    def named(kind: str, where: str) -> str:
        found = re.match(NAMED_IN_WHERE[kind], where)
        return "".join(part or "" for part in found.groups()) if found else ""

    for where, topic, broker in (
        (f"topic {name} of {cluster}", name, ""),
        (f"partition {name}-{number} of {cluster}", name, ""),
        (f"broker {number} of {cluster}", "", str(number)),
        (f"controller {number} of {cluster}", "", str(number)),
        (f"log dirs of broker {number} of {cluster}", "", str(number)),
        (f"log dir {number}:/var/of {name} of {cluster}", "", str(number)),
        (f"group topic {name} of {cluster}", "", ""),
        (f"cluster {cluster}", "", ""),
    ):
        assert (named("topics", where), named("brokers", where)) == (topic, broker)
