"""Lag by partitions, topics, groups and clusters: sums, worst cases and counts, deterministically ordered."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from kafkakit.streams.lag.decide.measure.figures import TimeLag
from kafkakit.streams.lag.decide.measure.forecast import RetentionBasis
from kafkakit.streams.lag.decide.measure.status import LagStatus
from kafkakit.streams.lag.decide.views.aggregation import LineSums, TableRows, line_numbers, stack, summed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kafkakit.streams.lag.decide.measure.table import LagTable

    Ints = NDArray[np.int64]


class ViewLevel(StrEnum):
    """What one line of a view is about; streams are summed up over clusters and lanes, for each group apart."""

    PARTITION = "partition"
    GROUP_TOPIC = "group_topic"
    GROUP = "group"
    TOPIC = "topic"
    STREAM = "stream"
    CLUSTER = "cluster"


KINDS = {
    ViewLevel.PARTITION: ("cluster", "group", "topic", "partition"),
    ViewLevel.GROUP_TOPIC: ("cluster", "group", "topic"),
    ViewLevel.GROUP: ("cluster", "group"),
    ViewLevel.TOPIC: ("cluster", "topic"),
    ViewLevel.STREAM: ("group", "stream"),
    ViewLevel.CLUSTER: ("cluster",),
}
"""The names that identify a line of each level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartition:
    """One group-partition."""

    cluster: str
    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewLine:
    """One line of a view: the names it is about (others are empty, the partition -1), sums over its partitions, and
    the worst of them.

    `lag`, `pending` and `lost` are sums over partitions whose end is known; `unknown` counts the others. `backlog`
    is that of the partition `worst`, the one with the highest estimate, and `arrival` and `live` are the worst of
    their kinds; the estimates are None where none is known. `max_low_ms` is the highest low bound of any backlog: some
    partition is surely that far behind. `status` is the worst, `counts` says how many partitions have each that
    occurs, and `stale` how many figures are old; it is judged over `window_ms` at most, and no partition's last commit
    is older than `committed_ms`. The oldest lag that went in is of
    the moment `lag_as_of_ms`, and the oldest time lag of `oldest_as_of_ms`. Rates are sums over the
    group-partitions where they are known; `eta_ms` is the longest, None when one partition does not catch up at the
    present rates or its rates are unknown; `retention_left_ms` is the shortest, None when no partition has one;
    `retention_basis` is what it rests on, and `retention_low_ms` the time for which all records surely stay.
    """

    cluster: str = ""
    group: str = ""
    topic: str = ""
    stream: str = ""
    partition: int = -1
    partitions: int
    unknown: int
    stale: int
    lag: int
    pending: int
    lost: int
    max_lag: int
    max_low_ms: int
    backlog: TimeLag
    arrival: TimeLag
    live: TimeLag
    worst: GroupPartition
    status: LagStatus
    counts: tuple[tuple[LagStatus, int], ...]
    committed_ms: int
    window_ms: int
    lag_as_of_ms: int
    oldest_as_of_ms: int
    consumed_per_s: float
    produced_per_s: float
    eta_ms: int | None
    retention_left_ms: int | None
    retention_low_ms: int | None
    retention_basis: RetentionBasis


@dataclass(frozen=True, slots=True, kw_only=True)
class LagView:
    """The worst lines first; `others` sums up the `others_count` lines beyond the limit, None when there are none."""

    level: ViewLevel
    lines: tuple[ViewLine, ...]
    others: ViewLine | None = None
    others_count: int = 0


def view(tables: "Sequence[LagTable]", level: ViewLevel, *, top: int | None = None) -> LagView:
    """Sum up the tables of several clusters at a level.

    Lines are ordered by status, surest backlog, its estimate and records, each the worst first, then by name. Costs
    O(rows log rows), and some microseconds for each line that is returned.
    """
    import numpy as np

    if not any(map(len, tables)):
        return LagView(level=level, lines=())
    all_rows = stack(tables)
    number, lines = line_numbers(all_rows, KINDS[level])
    sums = summed(all_rows, number, lines)
    # Numbers ascend by name, so a stable sort leaves equals in the order of their names.
    estimate = all_rows.backlog.estimate_ms[sums.worst]
    order = np.lexsort((np.arange(lines), -sums.lag, -estimate, -sums.max_low_ms, -sums.status))
    shown = order if top is None else order[: max(0, top)]
    found = tuple(_line(all_rows, sums, at, KINDS[level]) for at in shown.tolist())
    left = order[len(shown) :]
    if not len(left):
        return LagView(level=level, lines=found)
    is_left = np.zeros(lines, dtype=bool)
    is_left[left] = True
    rest = all_rows.taken(np.flatnonzero(is_left[number]))
    others = _line(rest, summed(rest, np.zeros(len(rest), dtype=np.int64), 1), 0, ())
    return LagView(level=level, lines=found, others=others, others_count=len(left))


def _line(all_rows: TableRows, sums: LineSums, at: int, kinds: tuple[str, ...]) -> ViewLine:
    first, worst = int(sums.first[at]), int(sums.worst[at])

    def name(kind: str, row: int) -> str:
        return all_rows.names[kind][int(getattr(all_rows, kind)[row])]

    named = {kind: name(kind, first) for kind in kinds if kind != "partition"}
    counts = ((status, int(sums.counts[at, int(status)])) for status in LagStatus)
    return ViewLine(
        **named,
        partition=int(all_rows.partition[first]) if "partition" in kinds else -1,
        partitions=int(sums.partitions[at]),
        unknown=int(sums.unknown[at]),
        stale=int(sums.stale[at]),
        lag=int(sums.lag[at]),
        pending=int(sums.pending[at]),
        lost=int(sums.lost[at]),
        max_lag=int(sums.max_lag[at]),
        max_low_ms=int(sums.max_low_ms[at]),
        backlog=all_rows.backlog.at(worst),
        arrival=all_rows.arrival.at(int(sums.worst_arrival[at])),
        live=all_rows.live.at(int(sums.worst_live[at])),
        worst=GroupPartition(
            cluster=name("cluster", worst),
            group=name("group", worst),
            topic=name("topic", worst),
            partition=int(all_rows.partition[worst]),
        ),
        status=LagStatus(int(sums.status[at])),
        committed_ms=int(sums.committed_ms[at]),
        window_ms=int(sums.window_ms[at]),
        counts=tuple((status, count) for status, count in counts if count),
        lag_as_of_ms=int(sums.lag_as_of_ms[at]),
        oldest_as_of_ms=int(sums.oldest_as_of_ms[at]),
        consumed_per_s=round(float(sums.consumed_per_s[at]), 3),
        produced_per_s=round(float(sums.produced_per_s[at]), 3),
        eta_ms=_known(sums.eta_ms, at),
        retention_left_ms=_known(sums.retention_left_ms, at),
        retention_low_ms=_known(sums.retention_low_ms, at),
        retention_basis=RetentionBasis(int(sums.retention_basis[at])),
    )


def _known(column: "Ints", at: int) -> int | None:
    value = int(column[at])
    return None if value < 0 else value
