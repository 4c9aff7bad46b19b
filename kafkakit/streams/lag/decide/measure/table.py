"""The lag of everything that groups of one cluster have committed, as one table; rows are those of the book."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkakit.core.columns import Columns
from kafkakit.streams.lag.decide.measure.evidence import Evidence
from kafkakit.streams.lag.decide.measure.figures import FigureFlag, Figures
from kafkakit.streams.lag.decide.measure.forecast import Forecast, forecast
from kafkakit.streams.lag.decide.measure.status import Present, judge
from kafkakit.streams.lag.decide.measure.time_lag import arrival_lag, backlog_lag, live_lag
from kafkakit.streams.lag.decide.measure.topics import NONE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kafkakit.streams.lag.decide.measure.book import LagBook
    from kafkakit.streams.model.offsets_log.commits import Names

    Ints = NDArray[np.int64]


_ROWS_AT_ONCE = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class LagTable(Columns):
    """Columns ordered by group, topic and partition; -1 for unknown.

    `group` and `topic` are places in `groups` and `topics`, both sorted. `row` is the book's. `lag` counts offsets
    from the committed one (or the log's start, if that is higher) to the end that the group can read to
    (`EndSamples.readable_end`), `pending` those of them that the metadata does not call done, `lost` those deleted
    before they were done; all three are of the moment `lag_as_of_ms`, and time lags of moments of their own. `status`
    is a `LagStatus`, judged over the last `window_ms`. `backlog` is by the times that records carry, `arrival` by when
    they came into the log.
    """

    cluster: str
    at_ms: int
    groups: tuple[str, ...]
    topics: tuple[str, ...]
    row: "Ints"
    group: "Ints"
    topic: "Ints"
    partition: "Ints"
    committed: "Ints"
    committed_ms: "Ints"
    end: "Ints"
    start: "Ints"
    lag: "Ints"
    pending: "Ints"
    lost: "Ints"
    status: "Ints"
    window_ms: "Ints"
    lag_as_of_ms: "Ints"
    backlog: Figures
    arrival: Figures
    live: Figures
    forecast: Forecast

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRules:
    """How a table is measured: what clocks may differ by, for how long a record read counts, and from what age on
    facts are called stale."""

    skew_ms: int = 1_000
    record_ttl_ms: int = 60_000
    stale_after_ms: int = 60_000


def measure(
    book: "LagBook", *, cluster: str, now_ms: int, commits_as_of_ms: "Ints | int", rules: MeasureRules | None = None
) -> LagTable:
    """Measure every row of the book. Best done right after end offsets came in, when few commits are newer than they.

    `commits_as_of_ms` is until when surely all commits have been applied, one for all or by row of the book. Reads
    the metadata of commits that are not at the end and were not read yet; else some hundred array operations for
    every 16,384 rows: O(rows), and little memory beyond the table.
    """
    import numpy as np

    rules = rules if rules is not None else MeasureRules()
    groups, group, topics, topic = _places(book, book.rows())
    rows = book.rows()
    order = np.lexsort((book.keys.partition[rows], topic, group))
    rows = rows[order]
    as_of = np.asarray(commits_as_of_ms, dtype=np.int64)
    parts = []
    for at in range(0, max(1, len(rows)), _ROWS_AT_ONCE):
        some = rows[at : at + _ROWS_AT_ONCE]
        parts.append(_measured(book, some, as_of[some] if as_of.ndim else np.full(len(some), as_of), now_ms, rules))
    columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns}
    return LagTable(
        cluster=cluster,
        at_ms=now_ms,
        groups=groups,
        topics=topics,
        group=group[order],
        topic=topic[order],
        backlog=Figures.stacked([part.backlog for part in parts]),
        arrival=Figures.stacked([part.arrival for part in parts]),
        live=Figures.stacked([part.live for part in parts]),
        forecast=Forecast.stacked([part.forecast for part in parts]),
        **columns,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Some rows of a table to be."""

    columns: "dict[str, Ints]"
    backlog: Figures
    arrival: Figures
    live: Figures
    forecast: Forecast


def _measured(book: "LagBook", rows: "Ints", as_of_ms: "Ints", now_ms: int, rules: MeasureRules) -> _Part:
    import numpy as np

    # Of a commit at the end or beyond, the metadata has nothing to add.
    end = np.where(book.slot[rows] >= 0, book.ends.end[book.slot[rows]], NONE)
    book.read(rows[(end < 0) | (book.offset[rows] < end)])
    e = gather(book, rows, as_of_ms, now_ms, rules)
    slots = np.where(book.slot[rows] >= 0, book.slot[rows], 0)
    newest = backlog_lag(e, skew_ms=rules.skew_ms)
    backlog = _with_age(book.kept.instead(rows, newest, book.ends.generation[slots], now_ms), e, now_ms, rules)
    arrival = _with_age(arrival_lag(e), e, now_ms, rules)
    live = _with_age(live_lag(e, skew_ms=rules.skew_ms), e, now_ms, rules)
    has_end = (e.end >= 0) & ~e.is_other_topic
    lost = np.where(has_end, np.maximum(0, np.minimum(e.start, e.end) - e.committed), 0)
    limit = book.ends.readable_end(slots, e.committed)
    lag = np.where(has_end, np.maximum(0, limit - np.maximum(e.committed, e.start)), NONE)
    beyond = np.maximum(0, limit - np.maximum(e.done_end, e.start))
    present = Present(
        lag=lag,
        lost=lost,
        flags=backlog.flags,
        since_ms=np.maximum(e.committed_ms, book.behind_since(rows, e.record_ms, now_ms)),
        tail=np.where(has_end, book.ends.tail[slots], 0),
    )
    columns = {
        "row": rows,
        "partition": book.keys.partition[rows].astype(np.int64),
        "committed": e.committed,
        "committed_ms": e.committed_ms,
        "end": np.where(has_end, e.end, NONE),
        "start": np.where(has_end, e.start, NONE),
        "lag": lag,
        "pending": np.where(has_end, np.minimum(lag, beyond + book.metadata.pending[rows]), NONE),
        "lost": lost,
        "window_ms": book.window.length_ms(rows),
        "lag_as_of_ms": np.where(has_end, np.minimum(e.commits_as_of_ms, e.before_ms), NONE),
        "status": judge(book.window, rows, present, now_ms=now_ms),
    }
    cast = forecast(book, rows, e, lag, backlog, now_ms)
    return _Part(columns=columns, backlog=backlog, arrival=arrival, live=live, forecast=cast)


def keep_bounded(book: "LagBook", rows: "Ints", *, now_ms: int, commits_as_of_ms: "Ints", rules: MeasureRules) -> None:
    """Keep the figures of these rows that are bounded now, for when their groups have moved on; O(rows)."""
    rows = rows[book.slot[rows] >= 0]
    figures = backlog_lag(gather(book, rows, commits_as_of_ms[rows], now_ms, rules), skew_ms=rules.skew_ms)
    book.kept.keep(rows, figures, book.ends.generation[book.slot[rows]])


def _places(book: "LagBook", rows: "Ints") -> "tuple[tuple[str, ...], Ints, tuple[str, ...], Ints]":
    """The names of groups and topics in use, sorted, and each row's places among them."""
    keys = book.keys
    groups, group = _names(keys.groups, keys.group_index[rows])
    topics, topic = _names(keys.topics, keys.topic_index[rows])
    return groups, group, topics, topic


def positions(book: "LagBook", rows: "Ints") -> "Ints":
    """The first offset of each row that is not done and not deleted: where to read the time of a record.

    Costs a reading of the metadata where the log's start lies among done ranges, array operations elsewhere.
    """
    import numpy as np

    slots = book.slot[rows]
    found = np.maximum(book.offset[rows], np.where(slots >= 0, book.ends.start[slots], NONE))
    for at in np.flatnonzero((found > book.offset[rows]) & (found < book.metadata.done_end[rows])).tolist():
        found[at] = book.first_pending(int(rows[at]), int(found[at]))
    return found


def gather(book: "LagBook", rows: "Ints", commits_as_of_ms: "Ints", now_ms: int, rules: MeasureRules) -> Evidence:
    """All that is known of these rows."""
    import numpy as np

    ends, topics, records = book.ends, book.ends.topics, book.records
    has_slot = book.slot[rows] >= 0
    slots = np.where(has_slot, book.slot[rows], 0)
    position = positions(book, rows)
    done_end = book.metadata.done_end[rows]
    effective_end = np.where(has_slot, ends.effective_end(slots), NONE)
    is_log_append, is_dense, is_compacted = topics.traits(slots)
    held = records.holds(rows, slots, position, now_ms=now_ms, ttl_ms=rules.record_ttl_ms) & has_slot

    def of_end(column: "Ints") -> "Ints":
        return np.where(has_slot, column[slots], NONE)

    def of_record(column: "Ints") -> "Ints":
        return np.where(held, column[rows], NONE)

    return Evidence(
        committed=book.offset[rows],
        committed_ms=book.committed_ms[rows],
        seen_ms=book.seen_ms[rows],
        commits_as_of_ms=commits_as_of_ms,
        quiet_ms=book.quiet_ms[rows],
        position=position,
        done_end=done_end,
        oldest_ms=book.metadata.oldest_ms[rows],
        newest_done_ms=book.metadata.newest_done_ms[rows],
        stream_ms=book.metadata.stream_ms[rows],
        start=of_end(ends.start),
        stable=of_end(ends.stable),
        end=of_end(ends.end),
        effective_end=effective_end,
        effective_end_is_data=(effective_end >= 0) & ends.effective_is_data[slots],
        before_ms=of_end(ends.before_ms),
        after_ms=of_end(ends.after_ms),
        at_position=ends.bracket(slots, position),
        at_done_end=ends.bracket(slots, np.maximum(done_end, of_end(ends.start))),
        at_last_done=ends.bracket(slots, done_end - 1),
        record_offset=of_record(records.offset),
        record_ms=of_record(records.time_ms),
        record_low_ms=of_record(records.low_ms),
        record_high_ms=of_record(records.high_ms),
        record_read_ms=of_record(records.read_ms),
        record_is_data=records.is_data[rows] & held,
        done_record_ms=np.where(has_slot, records.done_since(rows, slots, book.offset[rows]), NONE),
        is_log_append=has_slot & is_log_append,
        is_dense=has_slot & is_dense,
        is_compacted=has_slot & is_compacted,
        is_other_topic=book.is_of_other_topic(rows, rules.skew_ms),
    )


def _with_age(figures: Figures, evidence: Evidence, now_ms: int, rules: MeasureRules) -> Figures:
    """Mark figures whose facts are old: the moment they hold for, or the end that they rest on."""
    oldest_end = now_ms - evidence.before_ms > rules.stale_after_ms
    is_old = (now_ms - figures.as_of_ms > rules.stale_after_ms) | ((evidence.end >= 0) & oldest_end)
    return replace(figures, flags=figures.flags | int(FigureFlag.STALE) * is_old)


def _names(names: "Names", index: "NDArray[np.int32]") -> "tuple[tuple[str, ...], Ints]":
    """The names in use, sorted, and for each row its place among them."""
    import numpy as np

    used, inverse = np.unique(index, return_inverse=True)
    words = [names[int(number)] for number in used]
    order = sorted(range(len(words)), key=words.__getitem__)
    place = np.empty(len(words), dtype=np.int64)
    place[order] = np.arange(len(words))
    return tuple(words[at] for at in order), place[inverse.reshape(-1)]
