"""Partitions that members of groups own and for which the group never committed, as rows of the table of lag.

The commit log does not know them: a group that is stuck at its first record, or that was given new partitions, has
committed nothing there. Brokers do not know either where such a group reads: `auto.offset.reset` is a setting of its
consumers. So the lag is 0 where the log is empty, and elsewhere it is not known: at most all that lies in the log.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kafkakit.core.cluster_facts import GroupDescription, GroupState, GroupType, ItemError, LogSpan, holders_of
from kafkakit.core.model import TopicPartition
from kafkakit.streams.lag.decide.measure.ends import NONE
from kafkakit.streams.lag.decide.measure.table import LagForecast, LagStatus, LagTable
from kafkakit.streams.lag.decide.measure.time_lag import (
    UNBOUNDED,
    UNESTIMATED,
    EstimateSource,
    FigureFlag,
    Figures,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

GroupKey = tuple[str, TopicPartition]
LISTED = (GroupType.CLASSIC, GroupType.CONSUMER)
"""The groups that commit and whose members are listed with their partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedPartitions:
    """What members owned without a commit at `as_of_ms`, with the ends of those logs; `problem` is what is missing.

    `left` are the groups that all members have left, sorted.
    """

    as_of_ms: int
    keys: tuple[GroupKey, ...] = ()
    spans: Mapping[TopicPartition, LogSpan | ItemError] = field(default_factory=dict)
    problem: str = ""
    left: tuple[str, ...] = ()


def left_by_all(described: Iterable[GroupDescription | ItemError]) -> tuple[str, ...]:
    """The groups that had members and have none, sorted."""
    return tuple(
        sorted(
            one.group
            for one in described
            if isinstance(one, GroupDescription)
            and one.type in LISTED
            and one.had_members
            and one.state is GroupState.EMPTY
        )
    )


def with_dead(table: LagTable, owned: OwnedPartitions) -> LagTable:
    """The table with groups STOPPED that are held back, and that all members left.

    A group that waits for an open transaction commits nothing, so its silence proves nothing; that nobody waits does.
    """
    import numpy as np

    is_held = table.status == int(LagStatus.HELD_BACK)
    if not owned.left or not is_held.any():
        return table
    left = {*owned.left}
    is_left = np.array([name in left for name in table.groups], dtype=bool)
    since_ms = np.maximum(table.committed_ms, table.held_ms)
    is_dead = is_held & is_left[table.group] & (table.at_ms - since_ms > table.window_ms)
    return replace(table, status=np.where(is_dead, int(LagStatus.STOPPED), table.status))


def owned_by(described: Iterable[GroupDescription | ItemError]) -> tuple[GroupKey, ...]:
    """What the members of these groups own, sorted."""
    return tuple(
        sorted(
            (one.group, key)
            for one in described
            if isinstance(one, GroupDescription) and one.type in LISTED
            for key in holders_of(one.members)
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedKeys:
    """The group-partitions with a commit: names, and columns of places in them."""

    groups: Sequence[str]
    topics: Sequence[str]
    group: "Ints"
    topic: "Ints"
    partition: "Ints"

    def lacking(self, keys: Sequence[GroupKey]) -> tuple[GroupKey, ...]:
        """Those of the keys that have no commit; O(rows log rows)."""
        import numpy as np

        groups = {name: at for at, name in enumerate(self.groups)}
        topics = {name: at for at, name in enumerate(self.topics)}
        places = [(groups.get(group, -1), topics.get(key.topic, -1), key.partition) for group, key in keys]
        if not places:
            return ()
        wanted = np.array(places, dtype=np.int64)
        width = int(max(self.partition.max(initial=0), wanted[:, 2].max())) + 1
        here = (self.group * (len(topics) + 1) + self.topic) * width + self.partition
        codes = (wanted[:, 0] * (len(topics) + 1) + wanted[:, 1]) * width + wanted[:, 2]
        is_known = (wanted[:, 0] >= 0) & (wanted[:, 1] >= 0) & np.isin(codes, here)
        return tuple(key for key, known in zip(keys, is_known.tolist(), strict=True) if not known)


def with_owned(table: LagTable, owned: OwnedPartitions, *, stale_after_ms: int) -> LagTable:
    """The table with a row for each partition that is owned and has no commit yet, in order; see also `with_dead`."""
    import numpy as np

    if table.at_ms - owned.as_of_ms <= stale_after_ms:
        table = with_dead(table, owned)
    held = CommittedKeys(
        groups=table.groups, topics=table.topics, group=table.group, topic=table.topic, partition=table.partition
    )
    keys = held.lacking(owned.keys)
    if not keys:
        return table
    groups = tuple(sorted({*table.groups, *(group for group, _ in keys)}))
    topics = tuple(sorted({*table.topics, *(key.topic for _, key in keys)}))
    place_of = {name: at for at, name in enumerate(groups)}
    topic_of = {name: at for at, name in enumerate(topics)}

    def recoded(places: Mapping[str, int], names: Sequence[str], column: "Ints") -> "Ints":
        return np.array([places[name] for name in names], dtype=np.int64)[column] if len(column) else column

    is_old = table.at_ms - owned.as_of_ms > stale_after_ms
    both = LagTable.stacked(
        [
            replace(
                table,
                group=recoded(place_of, table.groups, table.group),
                topic=recoded(topic_of, table.topics, table.topic),
            ),
            _rows(table, owned, keys, place_of, topic_of, is_old=is_old),
        ]
    )
    found = replace(both, groups=groups, topics=topics)
    return found.taken(np.lexsort((found.partition, found.topic, found.group)))


def _rows(
    table: LagTable,
    owned: OwnedPartitions,
    keys: Sequence[GroupKey],
    groups: Mapping[str, int],
    topics: Mapping[str, int],
    *,
    is_old: bool,
) -> LagTable:
    import numpy as np

    spans = [owned.spans.get(key) for _, key in keys]
    ends = [(span.start, span.end) if isinstance(span, LogSpan) else (NONE, NONE) for span in spans]
    start, end = np.array(ends, dtype=np.int64).T
    is_known, is_empty = end >= 0, (end >= 0) & (end <= start)
    none = np.full(len(keys), NONE, dtype=np.int64)
    flags = int(FigureFlag.NO_COMMIT) * ~is_empty + int(FigureFlag.NO_END) * ~is_known + int(FigureFlag.STALE) * is_old
    figures = Figures(
        estimate_ms=np.where(is_empty, 0, UNESTIMATED),
        low_ms=0 * none,
        high_ms=np.where(is_empty, 0, UNBOUNDED),
        source=np.where(is_empty, int(EstimateSource.CAUGHT_UP), int(EstimateSource.UNKNOWN)),
        as_of_ms=np.full(len(keys), owned.as_of_ms, dtype=np.int64),
        flags=flags,
    )
    rates = np.full(len(keys), np.nan)
    status = np.where(is_empty, int(LagStatus.OK), int(LagStatus.NO_COMMIT))
    lag = np.where(is_empty, 0, NONE)
    return replace(
        table,
        row=none,
        group=np.array([groups[group] for group, _ in keys], dtype=np.int64),
        topic=np.array([topics[key.topic] for _, key in keys], dtype=np.int64),
        partition=np.array([key.partition for _, key in keys], dtype=np.int64),
        committed=none,
        committed_ms=none,
        end=end,
        start=start,
        lag=lag,
        uncommitted=lag,
        pending=lag,
        lost=0 * none,
        unread=np.where(is_known, end - start, 0),
        status=np.where(is_known & (not is_old), status, int(LagStatus.UNKNOWN)),
        held_ms=none,
        window_ms=0 * none,
        lag_as_of_ms=np.where(is_empty, owned.as_of_ms, NONE),
        backlog=figures,
        arrival=figures,
        live=figures,
        forecast=LagForecast(
            consumed_per_s=rates,
            produced_per_s=rates,
            eta_ms=np.where(is_empty, 0, NONE),
            retention_left_ms=none,
            retention_low_ms=0 * none,
            retention_basis=0 * none,
        ),
    )
