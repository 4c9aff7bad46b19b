"""The lines that a request asks for: rows by globs over groups and topics, a level, an order and a limit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase

from kafkakit.core.errors import UsageError
from kafkakit.core.query.columns import ObjectTable, tag_column, tag_keys, text_column
from kafkakit.core.query.evaluate import matching
from kafkakit.core.query.parser import parse_query
from kafkakit.core.topic_selection import matching_topics, query_of
from kafkakit.streams.lag.decide.measure.table import LagTable
from kafkakit.streams.lag.decide.views.views import LagView, ViewLevel, ViewLine, view

INTERNAL = "__"
NAME = frozenset({"name"})
TagsByTopic = Mapping[str, Mapping[str, str]]


class LineOrder(StrEnum):
    """What the lines are ordered by; WORST is status, then time lag."""

    WORST = "worst"
    LAG = "lag"
    TIME = "time"
    NAME = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """The rows whose group and topic match one of the globs each (none given: all).

    In the place of a glob `where QUERY` may stand, over `name` and, for topics, `topic_tags` by cluster and topic
    (None: not known). `patterns` select topics like `--topics` everywhere, beside the globs. `internal` False leaves
    out topics that begin with two underscores.
    """

    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    internal: bool = True
    topic_tags: Mapping[str, TagsByTopic] | None = None

    @property
    def tags_needed(self) -> bool:
        """True where a query looks at tags; `UsageError` for one over groups, which have none."""
        for query in filter(None, map(query_of, self.groups)):
            if keys := tag_keys(parse_query(query), NAME):
                raise UsageError(f"groups have no {', '.join(keys)}", hint="a query over groups sees their name")
        return any(tag_keys(parse_query(query), NAME) for query in filter(None, map(query_of, self.topics)))

    def of(self, tables: Sequence[LagTable]) -> tuple[LagTable, ...]:
        """The rows of each table that match; cost: the names, not the rows. `UsageError` where tags are not known."""
        if self.topic_tags is None and self.tags_needed:
            raise UsageError("the query looks at tags, and none are known here")
        return tuple(self._of_one(table) for table in tables)

    def _of_one(self, table: LagTable) -> LagTable:
        import numpy as np

        tags = {} if self.topic_tags is None else self.topic_tags.get(table.cluster, {})
        is_group = np.array(_chosen(table.groups, self.groups, {}), bool)
        is_topic = np.array(self._is_chosen_topic(table.topics, tags), bool)
        if not self.internal:
            is_topic &= np.array([not name.startswith(INTERNAL) for name in table.topics], bool)
        if is_group.all() and is_topic.all():
            return table
        return table.taken(np.flatnonzero(is_group[table.group] & is_topic[table.topic]))

    def _is_chosen_topic(self, names: Sequence[str], tags: TagsByTopic) -> list[bool]:
        if not self.patterns:
            return _chosen(names, self.topics, tags)
        named = matching_topics(frozenset(names), self.patterns)
        by_glob = _chosen(names, self.topics, tags) if self.topics else [False] * len(names)
        return [glob or name in named for glob, name in zip(by_glob, names, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRequest:
    """Which view of which rows is wanted, with at most `top` lines."""

    level: ViewLevel
    order: LineOrder
    top: int
    rows: RowFilter = field(default_factory=RowFilter)

    def of(self, tables: Sequence[LagTable]) -> LagView:
        """The view; in another order than WORST, lines beyond `top` are counted without a sum."""
        rows = self.rows.of(tables)
        if self.order is LineOrder.WORST:
            return view(rows, self.level, top=self.top)
        lines = sorted(view(rows, self.level).lines, key=self._key)
        return LagView(level=self.level, lines=tuple(lines[: self.top]), others_count=max(0, len(lines) - self.top))

    def _key(self, line: ViewLine) -> tuple[object, ...]:
        name = (line.stream, line.cluster, line.group, line.topic, line.partition)
        if self.order is LineOrder.LAG:
            return (-line.lag, *name)
        if self.order is LineOrder.TIME:
            return (1 if line.backlog.estimate_ms is None else -line.backlog.estimate_ms, -line.lag, *name)
        return name


def _chosen(names: Sequence[str], patterns: Sequence[str], tags: TagsByTopic) -> list[bool]:
    """Which names one of the patterns selects, globs and queries; all without any."""
    globs = [p for p in patterns if query_of(p) is None]
    found = [matches(name, globs) and bool(globs or not patterns) for name in names]
    for query in filter(None, map(query_of, patterns)):
        table = ObjectTable(
            tuple(names),
            lambda key: text_column(names) if key in NAME else tag_column([tags.get(n, {}) for n in names], key),
        )
        found = [old or new for old, new in zip(found, matching(parse_query(query), table).tolist(), strict=True)]
    return found


def matches(name: str, globs: Sequence[str]) -> bool:
    """True when one of the globs matches, or when there are none."""
    return not globs or any(fnmatchcase(name, glob) for glob in globs)
