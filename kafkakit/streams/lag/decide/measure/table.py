"""The lag of everything that groups of one cluster have committed, as one table; rows are those of the book.

Beside the lag stand the status by Burrow's rules, on arrays, and a forecast. Both need the last commits of every
group-partition, which are kept as a ring of samples.

Burrow's documentation ("Consumer Lag Evaluation Rules") states, for the window of the last ten commits of a partition,
each with its offset, its time and the lag when it was seen:

1. If any lag in the window is zero, the status is OK.
2. If the offset does not change over the window and the lag is fixed or increasing, the consumer is in error, and the
   partition STALLED.
3. If offsets increase over the window, but the lag stays the same or increases between every pair of commits, the
   consumer is slow: WARNING.
4. If the time since the last commit is greater than the time between the first and the last commit of the window, the
   consumer is in error, and the partition STOPPED; but not when the offset is that of the broker, so that there is
   nothing to do.
5. Lag that is unknown counts as no lag. Not so here: after a restart it is unknown for all commits of the past, and a
   group that died before would stay OK without an end. It is only that growth to and from an unknown lag is not
   judged.

Its program adds REWIND, when an offset is lower than the one before it. Its newer versions judge STOPPED first, and 1
after it: a group that was caught up and then died had no lag in its window. So do we: no lag now is OK, then come
STOPPED, 1, REWIND, STALLED, WARNING. Silence counts from when there surely was something to do: many clients commit
nothing while nothing comes. A lag of no more than the markers of transactions at the log's end is none.

Two or three commits in a row prove little: a window that is shorter than nine steps counts as that long in rule 4,
and one over fewer than ten steps is not judged by rules 2 and 3. Added are LOST (records were deleted before the
group did them), AHEAD (the commit lies beyond the end of the log, so that the lag is not known and consumers will
start over as `auto.offset.reset` says), HELD_BACK (a transaction that is open for longer than the default
`transaction.timeout.ms` keeps readers of committed data waiting, so that no lag is not "nothing to do"), NO_COMMIT (a
member owns the partition and the group never committed for it; see `owned_partitions.py`), and UNKNOWN (no end of the
log, or figures too old to judge by, which comes before LOST), which never passes for OK.

The forecast says how fast a partition is produced and consumed, when the group will have caught up, and when it will
lose records. Rates are measured: consumption over the commits of Burrow's window, production over end samples of about
the last ten minutes. Nothing is extrapolated further than that present rates continue.

Records are lost when the log's start passes the first offset that is not done. Two facts bound or foretell that:

* retention.ms: brokers delete a segment once its newest record is older than that, so no record goes before its own
  time plus the retention. What is left is at least retention.ms minus the record's age; segments make it longer.
* the movement of the log's start, whatever moves it (time, size, DeleteRecords): at its pace over the last ten to
  twenty minutes, a guess.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

from kafkakit.core.columns import Columns
from kafkakit.streams.lag.decide.measure.ends import NONE, UNKNOWN_LAG, WINDOW_SAMPLES
from kafkakit.streams.lag.decide.measure.time_lag import (
    UNBOUNDED,
    UNESTIMATED,
    FigureFlag,
    Figures,
    LagEvidence,
    arrival_lag,
    backlog_lag,
    live_lag,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kafkakit.streams.lag.decide.measure.book import LagBook
    from kafkakit.streams.lag.decide.measure.ends import CommitWindow
    from kafkakit.streams.model.offsets_log.commits import Names

    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]
    Floats = NDArray[np.float64]


_ROWS_AT_ONCE = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class LagForecast(Columns):
    """Columns of one length; rates are records/s and NaN for unknown, times are ms and -1 for never or unknown.

    `eta_ms` is how long until nothing is left to do (0: nothing is), -1 when the group does not gain on the producers
    or the rates are unknown. `retention_left_ms` is the likely time until records are lost, `retention_low_ms` the
    time for which they surely stay (0 when that is not known), `retention_basis` a `RetentionBasis`.
    """

    consumed_per_s: "Floats"
    produced_per_s: "Floats"
    eta_ms: "Ints"
    retention_left_ms: "Ints"
    retention_low_ms: "Ints"
    retention_basis: "Ints"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredColumns(Columns):
    """What is measured of group-partitions, a column each; -1 for unknown.

    `lag` counts offsets from the committed one (or the log's start, if that is higher) to the end that the group can
    read to (`EndSamples.readable_end`), `uncommitted` those to the end that readers of uncommitted data reach;
    `pending` counts those of `lag` that the metadata does not call done, `lost` those deleted before they were done;
    all four are of the moment `lag_as_of_ms`, and time lags of moments of their own. `status` is a `LagStatus`, judged
    over the last `window_ms`; `held_ms` is since when a transaction is open that a group which reads committed data has
    reached and waits for, and `unread` what lies in a log for which there is no commit. `backlog` is by the times that
    records carry, `arrival` by when they came into the log.
    """

    partition: "Ints"
    committed_ms: "Ints"
    lag: "Ints"
    uncommitted: "Ints"
    pending: "Ints"
    lost: "Ints"
    unread: "Ints"
    status: "Ints"
    held_ms: "Ints"
    window_ms: "Ints"
    lag_as_of_ms: "Ints"
    backlog: Figures
    arrival: Figures
    live: Figures
    forecast: LagForecast


@dataclass(frozen=True, slots=True, kw_only=True)
class LagTable(MeasuredColumns):
    """Columns ordered by group, topic and partition.

    `group` and `topic` are places in `groups` and `topics`, both sorted. `row` is the book's.
    """

    cluster: str
    at_ms: int
    groups: tuple[str, ...]
    topics: tuple[str, ...]
    row: "Ints"
    group: "Ints"
    topic: "Ints"
    committed: "Ints"
    end: "Ints"
    start: "Ints"

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
    groups, group, topics, topic = places_of(book, book.rows())
    rows = book.rows()
    order = np.lexsort((book.keys.partition[rows], topic, group))
    rows = rows[order]
    as_of = np.asarray(commits_as_of_ms, dtype=np.int64)
    parts = []
    for at in range(0, max(1, len(rows)), _ROWS_AT_ONCE):
        some = rows[at : at + _ROWS_AT_ONCE]
        parts.append(_measure_rows(book, some, as_of[some] if as_of.ndim else np.full(len(some), as_of), now_ms, rules))
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
        forecast=LagForecast.stacked([part.forecast for part in parts]),
        **columns,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Some rows of a table to be."""

    columns: "dict[str, Ints]"
    backlog: Figures
    arrival: Figures
    live: Figures
    forecast: LagForecast


def _measure_rows(book: "LagBook", rows: "Ints", as_of_ms: "Ints", now_ms: int, rules: MeasureRules) -> _Part:
    import numpy as np

    # Of a commit at the end or beyond, the metadata has nothing to add.
    end = np.where(book.slot[rows] >= 0, book.ends.end[book.slot[rows]], NONE)
    book.read(rows[(end < 0) | (book.offset[rows] < end)])
    e = gather(book, rows, as_of_ms, now_ms, rules)
    slots = np.where(book.slot[rows] >= 0, book.slot[rows], 0)
    newest = backlog_lag(e, skew_ms=rules.skew_ms)
    bounded = book.kept.instead(rows, newest, book.ends.generation[slots], e.at_position.low_before_ms, now_ms)
    backlog = _with_age(bounded, e, now_ms, rules)
    arrival = _with_age(arrival_lag(e), e, now_ms, rules)
    live = _with_age(live_lag(e, skew_ms=rules.skew_ms), e, now_ms, rules)
    has_end = (e.end >= 0) & ~e.is_other_topic
    lost = np.where(has_end, np.maximum(0, np.minimum(e.start, e.end) - e.committed), 0)
    limit = book.ends.readable_end(slots, e.committed)
    is_ahead = (newest.flags & int(FigureFlag.AHEAD)) != 0
    backlog, arrival, live = (figures.without(is_ahead) for figures in (backlog, arrival, live))
    has_end &= ~is_ahead
    from_offset = np.maximum(e.committed, e.start)
    lag = np.where(has_end, np.maximum(0, limit - from_offset), NONE)
    to_end = book.ends.readable_end(slots, e.committed, is_uncommitted=True)
    uncommitted = np.where(has_end, np.maximum(lag, to_end - from_offset), NONE)
    is_waiting = has_end & (lag == 0) & (uncommitted > 0)
    held_ms = np.where(is_waiting, _open_since(e, now_ms), NONE)
    beyond = np.maximum(0, limit - np.maximum(e.done_end, e.start))
    present = CurrentColumns(
        lag=lag,
        lost=lost,
        flags=backlog.flags,
        since_ms=book.behind_since(rows, e.record_ms, now_ms),
        tail=np.where(has_end, book.ends.tail[slots], 0),
        is_held=is_waiting & (now_ms - held_ms > OPEN_LIMIT_MS),
    )
    columns = {
        "row": rows,
        "partition": book.keys.partition[rows].astype(np.int64),
        "committed": e.committed,
        "committed_ms": e.committed_ms,
        "end": np.where(has_end | is_ahead, e.end, NONE),
        "start": np.where(has_end | is_ahead, e.start, NONE),
        "lag": lag,
        "uncommitted": uncommitted,
        "held_ms": held_ms,
        "pending": np.where(has_end, np.minimum(lag, beyond + book.metadata.pending[rows]), NONE),
        "lost": lost,
        "unread": 0 * lost,
        "window_ms": book.window.length_ms(rows),
        "lag_as_of_ms": np.where(has_end, np.minimum(e.commits_as_of_ms, e.before_ms), NONE),
        "status": judge(book.window, rows, present, now_ms=now_ms),
    }
    cast = forecast(book, rows, e, lag, backlog, now_ms)
    return _Part(columns=columns, backlog=backlog, arrival=arrival, live=live, forecast=cast)


def _open_since(e: LagEvidence, now_ms: int) -> "Ints":
    """Since when the transaction is open whose first record stands at the position of each row: the time of that
    record, but not before the last sample of an end that did not have it; without a time, the row's commit."""
    import numpy as np

    has_time = (e.record_offset == e.position) & (e.record_ms >= 0) & (e.record_ms <= now_ms)
    return np.maximum(np.where(has_time, e.record_ms, e.committed_ms), e.at_position.low_before_ms)


def keep_bounded(book: "LagBook", rows: "Ints", *, now_ms: int, commits_as_of_ms: "Ints", rules: MeasureRules) -> None:
    """Keep the figures of these rows that are bounded now, for when their groups have moved on; O(rows)."""
    rows = rows[book.slot[rows] >= 0]
    figures = backlog_lag(gather(book, rows, commits_as_of_ms[rows], now_ms, rules), skew_ms=rules.skew_ms)
    book.kept.keep(rows, figures, book.ends.generation[book.slot[rows]])


def places_of(book: "LagBook", rows: "Ints") -> "tuple[tuple[str, ...], Ints, tuple[str, ...], Ints]":
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


def gather(book: "LagBook", rows: "Ints", commits_as_of_ms: "Ints", now_ms: int, rules: MeasureRules) -> LagEvidence:
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

    return LagEvidence(
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


def _with_age(figures: Figures, evidence: LagEvidence, now_ms: int, rules: MeasureRules) -> Figures:
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


class LagStatus(IntEnum):
    """Health. The numbers are those of metrics, and never change; `SEVERITY` orders them."""

    OK = 0
    UNKNOWN = 1
    WARNING = 2
    STALLED = 3
    STOPPED = 4
    REWIND = 5
    LOST = 6
    HELD_BACK = 7
    AHEAD = 8
    NO_COMMIT = 9

    @property
    def word(self) -> str:
        """The name as outputs and labels write it."""
        return self.name.lower()


SEVERITY = (
    LagStatus.OK,
    LagStatus.UNKNOWN,
    LagStatus.NO_COMMIT,
    LagStatus.WARNING,
    LagStatus.HELD_BACK,
    LagStatus.STALLED,
    LagStatus.STOPPED,
    LagStatus.REWIND,
    LagStatus.LOST,
    LagStatus.AHEAD,
)
"""The worst last."""

OPEN_LIMIT_MS = 60_000
"""The default transaction.timeout.ms of producers: a transaction that is open for longer is unusual."""


def severity(status: "Ints") -> "Ints":
    """The place of each status in `SEVERITY`."""
    import numpy as np

    places: Ints = np.argsort(np.array(SEVERITY, dtype=np.int64))
    return places[status]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentColumns:
    """What is known of each row now, beside its commits; columns of one length.

    `lag` is up to the end that the group can reach, `lost` as in `LagTable`, `flags` those of its figures. `since_ms`
    is the last commit, or the moment from which on there surely was something to do if that was later. `tail`: see
    `EndSamples`. `is_held` says that an open transaction keeps the group waiting for too long; None for no row.
    """

    lag: "Ints"
    lost: "Ints"
    flags: "Ints"
    since_ms: "Ints"
    tail: "Ints"
    is_held: "Bools | None" = None


def is_silent(window: "CommitWindow", rows: "Ints", since_ms: "Ints", now_ms: int) -> "Bools":
    """True where more time has passed since then than the group's window is long."""
    found: Bools = now_ms - since_ms > window.length_ms(rows)
    return found


def judge(window: "CommitWindow", rows: "Ints", present: CurrentColumns, *, now_ms: int) -> "Ints":
    """The `LagStatus` of each row. O(rows)."""
    import numpy as np

    offset, _, lags, count = window.ordered(rows)
    first = WINDOW_SAMPLES - count
    pairs = np.arange(1, WINDOW_SAMPLES) > first[:, None]
    is_sample = np.arange(WINDOW_SAMPLES) >= first[:, None]
    step, growth = np.diff(offset, axis=1), np.diff(lags, axis=1)
    had_none = (is_sample & (lags != UNKNOWN_LAG) & (lags <= present.tail[:, None])).any(axis=1)
    has_lag = (present.lag > 0) & (count > 0)
    rewound = (pairs & (step < 0)).any(axis=1)
    is_fixed = ~(pairs & (step != 0)).any(axis=1)
    is_known = (lags[:, 1:] != UNKNOWN_LAG) & (lags[:, :-1] != UNKNOWN_LAG)
    never_less = window.is_full(rows) & ~(pairs & ((growth < 0) | ~is_known)).any(axis=1)

    def has(flags: FigureFlag) -> "Bools":
        found: Bools = (present.flags & int(flags)) != 0
        return found

    rules = [
        (has(FigureFlag.STALE), LagStatus.UNKNOWN),
        (present.lost > 0, LagStatus.LOST),
        (has(FigureFlag.AHEAD), LagStatus.AHEAD),
        (has(FigureFlag.NO_END | FigureFlag.OTHER_TOPIC), LagStatus.UNKNOWN),
        (np.zeros(len(rows), bool) if present.is_held is None else present.is_held, LagStatus.HELD_BACK),
        (~has_lag, LagStatus.OK),
        (is_silent(window, rows, present.since_ms, now_ms), LagStatus.STOPPED),
        (had_none, LagStatus.OK),
        (rewound, LagStatus.REWIND),
        (is_fixed & never_less, LagStatus.STALLED),
        (never_less, LagStatus.WARNING),
    ]
    return np.select([found for found, _ in rules], [int(s) for _, s in rules], int(LagStatus.OK)).astype(np.int64)


HORIZON_MS = 600_000


class RetentionBasis(IntEnum):
    """What the time left until records are lost rests on."""

    NONE = 0
    RETENTION_TIME = 1
    START_MOVEMENT = 2

    @property
    def word(self) -> str:
        """The name as outputs write it."""
        return self.name.lower()


def forecast(
    book: "LagBook", rows: "Ints", evidence: "LagEvidence", lag: "Ints", backlog: Figures, now_ms: int
) -> LagForecast:
    """Forecasts for rows of the book, from what was measured for them; O(rows)."""
    import numpy as np

    consumed, produced = consumption(book, rows, now_ms), production_rates(book, rows, evidence)
    gain = consumed - produced
    gains = (lag > 0) & (gain > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        eta = np.where(gains, np.minimum(lag / np.where(gains, gain, 1.0) * 1000.0, 1e15), -1.0)
    eta_ms = np.where(lag == 0, 0, np.ceil(eta).astype(np.int64))
    left, low, basis = _retention(book, rows, evidence, lag, backlog)
    return LagForecast(
        consumed_per_s=consumed,
        produced_per_s=produced,
        eta_ms=eta_ms,
        retention_left_ms=left,
        retention_low_ms=low,
        retention_basis=basis,
    )


def consumption(book: "LagBook", rows: "Ints", now_ms: int) -> "Floats":
    """Records/s between the first and the last commit of the window.

    NaN with fewer than two moments, after a rewind, and once the group has been silent for longer than its window.
    """
    import numpy as np

    offset, at_ms, _, count = book.window.ordered(rows)
    first = np.minimum(WINDOW_SAMPLES - count, WINDOW_SAMPLES - 1)
    row = np.arange(len(rows))
    span_ms = at_ms[:, -1] - at_ms[row, first]
    step = offset[:, -1] - offset[row, first]
    known = (count >= 2) & (span_ms > 0) & (step >= 0) & ~is_silent(book.window, rows, book.committed_ms[rows], now_ms)
    return np.where(known, step * 1000.0 / np.maximum(1, span_ms), np.nan)


def production_rates(book: "LagBook", rows: "Ints", evidence: "LagEvidence") -> "Floats":
    """Records/s over the end samples of the last `HORIZON_MS`, or since the first one after; NaN with one sample."""
    import numpy as np

    has_slot = book.slot[rows] >= 0
    slots = np.where(has_slot, book.slot[rows], 0)
    then_end, then_ms = book.ends.sample_since(slots, evidence.after_ms - HORIZON_MS)
    span_ms = evidence.after_ms - then_ms
    known = has_slot & (evidence.end >= 0) & (then_ms >= 0) & (span_ms > 0)
    return np.where(known, (evidence.end - then_end) * 1000.0 / np.maximum(1, span_ms), np.nan)


def _retention(
    book: "LagBook", rows: "Ints", evidence: "LagEvidence", lag: "Ints", backlog: Figures
) -> "tuple[Ints, Ints, Ints]":
    """Likely and sure time left, and the basis; nothing is at risk where there is no lag."""
    import numpy as np

    e = evidence
    has_slot = book.slot[rows] >= 0
    slots = np.where(has_slot, book.slot[rows], 0)
    at_risk = has_slot & (lag > 0)
    retention = book.ends.topics.retention_ms(slots)
    limited = at_risk & (retention >= 0)
    by_time = np.maximum(0, retention - np.where(backlog.estimate_ms == UNESTIMATED, 0, backlog.estimate_ms))
    by_time = np.where(limited & (backlog.estimate_ms != UNESTIMATED), by_time, NONE)
    low = np.where(backlog.high_ms == UNBOUNDED, 0, np.maximum(0, retention - backlog.high_ms))
    moved, span_ms = book.ends.start_movement(slots)
    moves = at_risk & (moved > 0) & (span_ms > 0)
    pace = np.where(moves, (e.position - e.start) * (span_ms / np.maximum(1, moved)), -1.0)
    by_pace = np.minimum(pace, 1e15).astype(np.int64)
    sooner = moves & ((by_time < 0) | (by_pace < by_time))
    left = np.where(sooner, by_pace, by_time)
    basis = np.where(
        left < 0,
        int(RetentionBasis.NONE),
        np.where(sooner, int(RetentionBasis.START_MOVEMENT), int(RetentionBasis.RETENTION_TIME)),
    )
    return left, np.where(limited, low, 0), basis
