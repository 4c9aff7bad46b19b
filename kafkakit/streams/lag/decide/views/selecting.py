"""The lines that a request asks for: rows by globs over groups and topics, a level, an order and a limit."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase

from kafkakit.streams.lag.decide.measure.table import LagTable
from kafkakit.streams.lag.decide.views.views import LagView, ViewLevel, ViewLine, view

INTERNAL = "__"


class LineOrder(StrEnum):
    """What the lines are ordered by; WORST is status, then time lag."""

    WORST = "worst"
    LAG = "lag"
    TIME = "time"
    NAME = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """The rows whose group and topic match one of the globs each (none given: all).

    `internal` False leaves out topics that begin with two underscores.
    """

    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    internal: bool = True

    def of(self, tables: Sequence[LagTable]) -> tuple[LagTable, ...]:
        """The rows of each table that match; cost: the names, not the rows."""
        return tuple(self._of_one(table) for table in tables)

    def _of_one(self, table: LagTable) -> LagTable:
        import numpy as np

        is_group = np.array([matches(name, self.groups) for name in table.groups], bool)
        is_topic = np.array(
            [matches(name, self.topics) and (self.internal or not name.startswith(INTERNAL)) for name in table.topics],
            bool,
        )
        if is_group.all() and is_topic.all():
            return table
        return table.taken(np.flatnonzero(is_group[table.group] & is_topic[table.topic]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRequest:
    """Which view of which rows is wanted, with at most `top` lines."""

    level: ViewLevel
    order: LineOrder
    top: int
    rows: RowFilter = field(default_factory=RowFilter)

    def of(self, tables: Sequence[LagTable]) -> LagView:
        """The view; in another order than WORST, lines beyond `top` are counted without a sum."""
        chosen = self.rows.of(tables)
        if self.order is LineOrder.WORST:
            return view(chosen, self.level, top=self.top)
        lines = sorted(view(chosen, self.level).lines, key=self._key)
        return LagView(level=self.level, lines=tuple(lines[: self.top]), others_count=max(0, len(lines) - self.top))

    def _key(self, line: ViewLine) -> tuple[object, ...]:
        name = (line.stream, line.cluster, line.group, line.topic, line.partition)
        if self.order is LineOrder.LAG:
            return (-line.lag, *name)
        if self.order is LineOrder.TIME:
            return (1 if line.backlog.estimate_ms is None else -line.backlog.estimate_ms, -line.lag, *name)
        return name


def matches(name: str, globs: Sequence[str]) -> bool:
    """True when one of the globs matches, or when there are none."""
    return not globs or any(fnmatchcase(name, glob) for glob in globs)
