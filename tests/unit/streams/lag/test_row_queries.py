"""Queries in the place of globs in the choice of lag's rows."""

import pytest

from kafkakit.core.errors import UsageError
from kafkakit.streams.lag.decide.views import RowFilter
from tests.clusters.lag_rows import Harness

TAGS = {"c1": {"a-1": {"tier": "hot"}, "b-1": {"tier": "cold"}}}


def names(rows: RowFilter) -> list[tuple[str, str]]:
    bench = Harness()
    for group in ("g1", "g2"):
        for topic in ("a-1", "b-1", "__x"):
            bench.commit(group, 5, 0, topic=topic)
            bench.end(7, 0, topic=topic)
    (table,) = rows.of([bench.table(1000)])
    return sorted({(table.groups[g], table.topics[t]) for g, t in zip(table.group, table.topic, strict=True)})


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (RowFilter(groups=("where name = g1",), topics=("a*",)), [("g1", "a-1")]),
        (RowFilter(groups=("where name != g1",), topics=("where name ~ *-1",)), [("g2", "a-1"), ("g2", "b-1")]),
        (RowFilter(patterns=("b.*",)), [("g1", "b-1"), ("g2", "b-1")]),
        (RowFilter(groups=("g1",), topics=("a*",), patterns=("b-1",)), [("g1", "a-1"), ("g1", "b-1")]),
        (RowFilter(groups=("g1", "where name = g2"), topics=("a-1",)), [("g1", "a-1"), ("g2", "a-1")]),
        (RowFilter(groups=("g1",), topics=("where tier = hot",), topic_tags=TAGS), [("g1", "a-1")]),
        (RowFilter(groups=("g1",), topics=("where tier != hot",), topic_tags=TAGS, internal=False), [("g1", "b-1")]),
        (RowFilter(groups=("g1",), topics=("where tier = hot",), topic_tags={}), []),
    ],
)
def test_rows_by_queries(rows: RowFilter, expected: list[tuple[str, str]]) -> None:
    assert names(rows) == expected


def test_tags_that_are_not_known_are_refused() -> None:
    assert RowFilter(topics=("where tier = hot",)).tags_needed
    assert not RowFilter(topics=("where name = hot", "tier"), groups=("where name = a",)).tags_needed
    with pytest.raises(UsageError, match="the query looks at tags, and none are known here"):
        names(RowFilter(topics=("where tier = hot",)))


def test_groups_have_a_name_alone() -> None:
    with pytest.raises(UsageError, match="groups have no tier"):
        names(RowFilter(groups=("where tier = hot",)))
