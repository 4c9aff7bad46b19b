"""The arithmetic of views: the tables of several clusters as one set of columns, summed up by line."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.core.columns import Columns
from kafkakit.streams.lag.decide.measure.figures import UNBOUNDED, FigureFlag, Figures
from kafkakit.streams.lag.decide.measure.forecast import Forecast
from kafkakit.streams.lag.decide.measure.status import LagStatus
from kafkakit.streams.lag.decide.measure.topics import NONE
from kafkakit.streams.lag.decide.views.naming import stream_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kafkakit.streams.lag.decide.measure.table import LagTable

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

_MEASURED = ("partition", "lag", "pending", "lost", "status", "committed_ms", "window_ms", "lag_as_of_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRows(Columns):
    """The rows of all tables: for each kind of `names` its places in them, and the columns that lines sum up."""

    names: dict[str, tuple[str, ...]]
    cluster: "Ints"
    group: "Ints"
    topic: "Ints"
    stream: "Ints"
    partition: "Ints"
    lag: "Ints"
    pending: "Ints"
    lost: "Ints"
    status: "Ints"
    committed_ms: "Ints"
    window_ms: "Ints"
    lag_as_of_ms: "Ints"
    backlog: Figures
    arrival: Figures
    live: Figures
    forecast: Forecast

    def __len__(self) -> int:
        return len(self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSums:
    """Columns by line; `first` is any row of the line, `worst` and those beside it the rows with the worst figures."""

    first: "Ints"
    worst: "Ints"
    worst_arrival: "Ints"
    worst_live: "Ints"
    partitions: "Ints"
    unknown: "Ints"
    stale: "Ints"
    lag: "Ints"
    pending: "Ints"
    lost: "Ints"
    max_lag: "Ints"
    max_low_ms: "Ints"
    status: "Ints"
    counts: "Ints"
    committed_ms: "Ints"
    window_ms: "Ints"
    lag_as_of_ms: "Ints"
    oldest_as_of_ms: "Ints"
    consumed_per_s: "Floats"
    produced_per_s: "Floats"
    eta_ms: "Ints"
    retention_left_ms: "Ints"
    retention_low_ms: "Ints"
    retention_basis: "Ints"


def stack(tables: "Sequence[LagTable]") -> TableRows:
    """Put tables, one at the least, below one another, with common codes for names."""
    import numpy as np

    names = {
        "cluster": tuple(sorted({t.cluster for t in tables})),
        "group": tuple(sorted({name for t in tables for name in t.groups})),
        "topic": tuple(sorted({name for t in tables for name in t.topics})),
    }
    streams = [stream_of(topic) for topic in names["topic"]]
    names["stream"] = tuple(sorted(set(streams)))
    places = {kind: {name: at for at, name in enumerate(words)} for kind, words in names.items()}
    stream_code = np.array([places["stream"][s] for s in streams], dtype=np.int64)

    def code(kind: str, words: tuple[str, ...], column: "Ints") -> "Ints":
        return np.array([places[kind][word] for word in words], dtype=np.int64)[column]

    topic = np.concatenate([code("topic", t.topics, t.topic) for t in tables])
    return TableRows(
        names=names,
        cluster=np.concatenate([np.full(len(t), places["cluster"][t.cluster]) for t in tables]),
        group=np.concatenate([code("group", t.groups, t.group) for t in tables]),
        topic=topic,
        stream=stream_code[topic],
        **{name: np.concatenate([getattr(t, name) for t in tables]) for name in _MEASURED},
        backlog=Figures.stacked([t.backlog for t in tables]),
        arrival=Figures.stacked([t.arrival for t in tables]),
        live=Figures.stacked([t.live for t in tables]),
        forecast=Forecast.stacked([t.forecast for t in tables]),
    )


def line_numbers(all_rows: TableRows, kinds: tuple[str, ...]) -> "tuple[Ints, int]":
    """For each row the number of its line; a line is identified by these kinds of names (and `partition`)."""
    import numpy as np

    number = np.zeros(len(all_rows), dtype=np.int64)
    for kind in kinds:
        column = getattr(all_rows, kind)
        number = number * (int(column.max(initial=0)) + 1) + column
        number = np.unique(number, return_inverse=True)[1].reshape(-1)
    return number, int(number.max(initial=-1)) + 1


def summed(all_rows: TableRows, number: "Ints", lines: int) -> LineSums:
    """Sum up rows by line; O(rows log rows)."""
    import numpy as np

    order = np.argsort(number, kind="stable")
    starts = np.searchsorted(number[order], np.arange(lines))

    def each(operation: "np.ufunc", column: "Ints") -> "Ints":
        values: Ints = operation.reduceat(column[order], starts)
        return values

    def each_rate(column: "Floats") -> "Floats":
        return np.bincount(number, np.nan_to_num(column), minlength=lines).astype(np.float64)

    def worst(figures: Figures) -> "Ints":
        rank = np.lexsort((all_rows.lag, figures.low_ms, figures.estimate_ms, number))
        last: Ints = rank[np.append(starts[1:], len(all_rows)) - 1]
        return last

    cast = all_rows.forecast
    left = cast.retention_left_ms
    soonest = each(np.minimum, np.where(left < 0, UNBOUNDED, left))
    low = each(np.minimum, np.where(left < 0, UNBOUNDED, cast.retention_low_ms))
    oldest = each(np.minimum, np.where(all_rows.lag < 0, UNBOUNDED, all_rows.lag_as_of_ms))
    statuses = len(LagStatus)
    counts = np.bincount(number * statuses + all_rows.status, minlength=lines * statuses).reshape(lines, statuses)
    return LineSums(
        first=order[starts],
        worst=worst(all_rows.backlog),
        worst_arrival=worst(all_rows.arrival),
        worst_live=worst(all_rows.live),
        partitions=np.bincount(number, minlength=lines),
        unknown=np.bincount(number, all_rows.lag < 0, minlength=lines).astype(np.int64),
        stale=each(np.add, (all_rows.backlog.flags & int(FigureFlag.STALE) != 0).astype(np.int64)),
        lag=each(np.add, np.maximum(0, all_rows.lag)),
        pending=each(np.add, np.maximum(0, all_rows.pending)),
        lost=each(np.add, all_rows.lost),
        max_lag=each(np.maximum, np.maximum(0, all_rows.lag)),
        max_low_ms=each(np.maximum, all_rows.backlog.low_ms),
        status=each(np.maximum, all_rows.status),
        counts=counts,
        committed_ms=each(np.minimum, all_rows.committed_ms),
        window_ms=each(np.maximum, all_rows.window_ms),
        consumed_per_s=each_rate(cast.consumed_per_s),
        produced_per_s=each_rate(cast.produced_per_s),
        eta_ms=np.where(each(np.minimum, cast.eta_ms) < 0, NONE, each(np.maximum, cast.eta_ms)),
        retention_left_ms=np.where(soonest == UNBOUNDED, NONE, soonest),
        retention_low_ms=np.where(soonest == UNBOUNDED, NONE, low),
        retention_basis=each(np.maximum, np.where(left == soonest[number], cast.retention_basis, 0)),
        lag_as_of_ms=np.where(oldest == UNBOUNDED, NONE, oldest),
        oldest_as_of_ms=each(np.minimum, all_rows.backlog.as_of_ms),
    )
