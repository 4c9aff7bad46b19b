"""The rows of a table that somebody asked for: by globs over groups and topics."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from kafkakit.streams.lag.decide.measure.table import LagTable
from kafkakit.streams.lag.decide.views.views import LagView, ViewLine

INTERNAL = "__"


def selected(
    table: LagTable, *, groups: Sequence[str] = (), topics: Sequence[str] = (), internal: bool = True
) -> LagTable:
    """The rows whose group and topic match one of the globs each (none given: all); cost: the names, not the rows.

    `internal` False leaves out topics that begin with two underscores.
    """
    import numpy as np

    is_group = np.array([_matches(name, groups) for name in table.groups], bool)
    is_topic = np.array(
        [_matches(name, topics) and (internal or not name.startswith(INTERNAL)) for name in table.topics], bool
    )
    if is_group.all() and is_topic.all():
        return table
    return table.taken(np.flatnonzero(is_group[table.group] & is_topic[table.topic]))


def _matches(name: str, globs: Sequence[str]) -> bool:
    return not globs or any(fnmatchcase(name, glob) for glob in globs)


def sorted_by(found: LagView, order: str, top: int) -> LagView:
    """The lines of a whole view in another order: `lag` and `time` the largest first, `name` ascending.

    Lines beyond `top` are left out and counted, without a sum.
    """

    def key(line: ViewLine) -> tuple[object, ...]:
        name = (line.stream, line.cluster, line.group, line.topic, line.partition)
        estimate = -1 if line.backlog.estimate_ms is None else line.backlog.estimate_ms
        return {"lag": (-line.lag, *name), "time": (-estimate, -line.lag, *name)}.get(order, name)

    lines = tuple(sorted(found.lines, key=key))
    return LagView(level=found.level, lines=lines[:top], others_count=max(0, len(lines) - top))
