"""How far behind in time each group-partition is: the sources in their order, and the interval that holds the truth.

Two clocks, and two figures that never mix: the time that the records carry, and the moment of their arrival in the log
by the monitor's own clock (`arrival_lag`). Where producers stamp records (CreateTime), a record may be an hour older
than its arrival, and estimates of the one are none of the other; where brokers do, both are the same.

Time is what the records carry. The truth of the *backlog* lag at a moment is that moment minus the time of the oldest
record not done: the one with the lowest offset that is not done and is in the log, or is held by the group as its
commit states. Of the *live* lag it is the moment minus the latest time among the done records, or 0 when no record
lies beyond the highest done one. Neither is below 0.

What each source proves:

* Caught up: the commit was seen before the request that brought the end, and lies at or beyond the (effective) end.
  Its own time would not do: a commit in a transaction takes effect later than that.
* A KKM1 watermark names the record at base exactly if the writer held that record: when something above base is done,
  or when the two times differ. A writer that holds none has only the time of its newest done record to give, and gives
  it twice; that proves nothing of the record at base, except where times rise with offsets (LogAppendTime). That an
  end sample shows an end above base proves no more: the writer need not have fetched the record, and what stands at
  base may be a marker.
* A record read at the position is exact if it surely is data. Where the cleaner works it may be gone a moment later,
  and where it stands above the position another one was there before it: then the figure is that of the moment of
  reading.
* Kafka Streams' stream time is the latest time among done records: the live lag exactly. The record after it may be of
  any time, so it bounds the backlog only with LogAppendTime.
* End samples show when a record was appended: with LogAppendTime that is its time, give or take `skew_ms`. With
  CreateTime a record may be older than its appending, yet not younger: a low bound. Both need a record at the
  position, thus a dense topic.

A commit that came in an answer to a request of before was made while that request was under way: its figure holds for
a moment between the as-of, which is that of the request, and the answer, and its interval covers both.

`skew_ms` is how far the clocks of brokers, producers and the monitor may differ, the time until a record is replicated
included. A log that is cut, or recreated, between the sample of its ends and a newer commit is noticed by the next
sample only.

`TimeLag` is the figure: an estimate inside an interval, its source, the moment it was true at, and its text.
`LagEvidence` is all that is known of many group-partitions at one moment, as columns: the input of the sources.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING

from kafkakit.core.columns import Columns
from kafkakit.core.quantities import format_rough_time
from kafkakit.streams.lag.decide.measure.ends import SampleBracket

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]


class EstimateSource(IntEnum):
    """What the estimate comes from, best first."""

    CAUGHT_UP = 0
    WATERMARK = 1
    RECORD = 2
    STREAM_TIME = 3
    INTERPOLATED = 4
    BOUNDS = 5
    UNKNOWN = 6

    @property
    def word(self) -> str:
        """The name as outputs and labels write it."""
        return self.name.lower()


class FigureFlag(IntFlag):
    """What else is true of a figure.

    FUTURE: a record's time lies ahead of the monitor's clock, the lag was set to 0. CONFLICT: proven sources
    contradict each other (clocks differ by more than was allowed), the best one alone was used. HELD_BACK: an open
    transaction holds the partition's stable end back. LOST: records were deleted before the group did them, lag
    counts from the log's start. AHEAD: committed beyond the end of the log. OTHER_TOPIC: the commit is, or may be, of
    an earlier topic of the name. NO_END: the end was never seen. STALE: the facts are older than is allowed.
    NO_COMMIT: a member owns the partition, and the group never committed for it.
    """

    FUTURE = 1
    CONFLICT = 2
    HELD_BACK = 4
    LOST = 8
    AHEAD = 16
    OTHER_TOPIC = 32
    NO_END = 64
    STALE = 128
    NO_COMMIT = 256

    @property
    def words(self) -> tuple[str, ...]:
        """The names of the flags that are set, as outputs write them, sorted."""
        return tuple(sorted(str(flag.name).lower() for flag in self))


NO_FLAGS = FigureFlag(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLag:
    """The lag at `as_of_ms`, by the monitor's clock: surely at least `low_ms` and, where known, at most `high_ms`.

    Of a commit that was seen later than that, it is the lag at a moment between the two. `estimate_ms` lies inside,
    None where nothing is known.
    """

    estimate_ms: int | None
    low_ms: int
    high_ms: int | None
    source: EstimateSource
    as_of_ms: int
    flags: FigureFlag = NO_FLAGS

    @property
    def is_exact(self) -> bool:
        """True when the interval is one point."""
        return self.low_ms == self.high_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures(Columns):
    """Many `TimeLag`s as columns of one length; `high_ms` is UNBOUNDED and `estimate_ms` UNESTIMATED for none."""

    estimate_ms: "Ints"
    low_ms: "Ints"
    high_ms: "Ints"
    source: "Ints"
    as_of_ms: "Ints"
    flags: "Ints"

    def __len__(self) -> int:
        return len(self.low_ms)

    def without(self, rows: "Bools") -> "Figures":
        """The figures with nothing known of these rows but their flags."""
        import numpy as np

        return replace(
            self,
            estimate_ms=np.where(rows, UNESTIMATED, self.estimate_ms),
            low_ms=np.where(rows, 0, self.low_ms),
            high_ms=np.where(rows, UNBOUNDED, self.high_ms),
            source=np.where(rows, int(EstimateSource.UNKNOWN), self.source),
        )

    def at(self, row: int) -> TimeLag:
        """One row as a value."""
        estimate, high = int(self.estimate_ms[row]), int(self.high_ms[row])
        return TimeLag(
            estimate_ms=None if estimate == UNESTIMATED else estimate,
            low_ms=int(self.low_ms[row]),
            high_ms=None if high == UNBOUNDED else high,
            source=EstimateSource(int(self.source[row])),
            as_of_ms=int(self.as_of_ms[row]),
            flags=FigureFlag(int(self.flags[row])),
        )


def backlog_lag(evidence: "LagEvidence", *, skew_ms: int) -> Figures:
    """Now minus the time of the oldest record that is not done; some tens of array operations, O(rows)."""
    import numpy as np

    e = evidence
    estimates = _Estimates(e, e.position)
    is_pending, is_quiet, hidden = estimates.is_behind, estimates.is_quiet, estimates.is_hidden
    holds = (e.oldest_ms > 0) & (e.position == e.committed) & ~e.is_other_topic
    holds &= (e.done_end > e.committed) | (e.oldest_ms != e.newest_done_ms)
    holds &= ~is_quiet

    found = (e.record_offset >= e.position) & is_pending & (e.record_offset < estimates.limit)
    found &= (e.record_offset == e.position) | (e.record_offset >= e.done_end)
    # Where something is missing from the log, or may soon be, the figure is that of the moment of reading.
    may_be_gone = found & (e.is_compacted | (e.record_offset > e.position)) & ~holds
    was_read_since = (e.seen_ms <= e.record_read_ms) & (e.record_read_ms <= e.commits_as_of_ms)
    moves = may_be_gone & was_read_since
    estimates.as_of[moves] = e.record_read_ms[moves]
    at = estimates.as_of
    existed = (e.record_offset == e.position) & (e.at_position.high_after_ms >= 0)
    existed &= e.at_position.high_after_ms <= at
    existed |= (e.after_ms <= at) | (e.record_read_ms <= at)
    has_time = found & (e.record_ms >= 0)
    proven = has_time & e.record_is_data & ~(may_be_gone & ~was_read_since)
    high = np.where(e.record_low_ms >= 0, at - e.record_low_ms, UNBOUNDED)
    visible = ~(hidden & (e.record_offset >= e.stable))

    estimates.offer(is_quiet, EstimateSource.CAUGHT_UP, 0 * at, low=0 * at, high=0 * at)
    estimates.offer(holds, EstimateSource.WATERMARK, at - e.oldest_ms, low=at - e.oldest_ms, high=at - e.oldest_ms)
    record_low = np.where(existed & visible & (e.record_high_ms >= 0), at - e.record_high_ms, 0)
    estimates.offer(proven, EstimateSource.RECORD, at - e.record_ms, low=record_low, high=high)
    rising = found & e.is_log_append & (e.record_low_ms >= 0) & (was_read_since | (e.record_offset == e.position))
    estimates.bound(rising, high=at - e.record_low_ms + skew_ms)
    estimates.offer(has_time & ~proven, EstimateSource.RECORD, at - e.record_ms)
    estimates.offer(is_pending & (e.stream_ms > 0), EstimateSource.STREAM_TIME, at - e.stream_ms)
    rises = is_pending & e.is_log_append
    for earlier in (e.stream_ms, np.where(e.done_end <= e.position, e.newest_done_ms, -1)):
        estimates.bound(rises & (earlier > 0), high=at - earlier + skew_ms)
    exists = is_pending & e.is_dense & ~hidden & ~moves
    _offer_samples(estimates, e.at_position, e.position, rises, rises, exists, skew_ms)
    estimates.offer(rises, EstimateSource.BOUNDS, estimates.low)
    estimates.bound(estimates.is_unsure & e.is_log_append, high=at - e.before_ms + skew_ms)
    estimates.offer(estimates.is_unsure, EstimateSource.CAUGHT_UP, 0 * at)
    estimates.disclaim((e.start > e.committed) & (e.commits_as_of_ms < e.before_ms))
    held_back = int(FigureFlag.HELD_BACK) * (hidden & is_pending)
    # A commit that came after the sample may be of records that came after it.
    is_ahead = is_quiet & (e.seen_ms <= e.before_ms) & (e.committed > e.end)
    return estimates.figures(held_back + int(FigureFlag.AHEAD) * is_ahead)


def arrival_lag(evidence: "LagEvidence") -> Figures:
    """Since when the oldest record that is not done, and is in the log, is there, by the monitor's clock; O(rows).

    The first sample beyond the position came after its arrival, and the last one that ended there came before it.
    """
    e = evidence
    estimates = _Estimates(e, e.position)
    is_pending, is_quiet, hidden = estimates.is_behind, estimates.is_quiet, estimates.is_hidden
    at = estimates.as_of
    estimates.offer(is_quiet, EstimateSource.CAUGHT_UP, 0 * at, low=0 * at, high=0 * at)
    is_there = e.is_dense | ((e.record_offset == e.position) & e.record_is_data & ~e.is_compacted)
    _offer_samples(estimates, e.at_position, e.position, is_pending, is_pending, is_pending & is_there & ~hidden, 0)
    estimates.bound(estimates.is_unsure, high=at - e.before_ms)
    estimates.offer(estimates.is_unsure, EstimateSource.CAUGHT_UP, 0 * at)
    estimates.disclaim((e.start > e.committed) & (e.commits_as_of_ms < e.before_ms))
    return estimates.figures(int(FigureFlag.HELD_BACK) * (hidden & is_pending))


def live_lag(evidence: "LagEvidence", *, skew_ms: int) -> Figures:
    """Now minus the time of the newest done record while something newer exists; O(rows)."""
    import numpy as np

    e = evidence
    estimates = _Estimates(e, np.maximum(e.done_end, e.start))
    is_behind, is_quiet, hidden = estimates.is_behind, estimates.is_quiet, estimates.is_hidden
    at = estimates.as_of
    has_done = (e.done_end > 0) & ~e.is_other_topic & ~is_quiet
    newer = is_behind & ~hidden & (e.is_dense | e.effective_end_is_data)
    newer &= (e.after_ms <= at) | (
        (e.at_done_end.high_after_ms >= 0) & (e.at_done_end.high_after_ms <= at) & e.is_dense
    )

    estimates.offer(is_quiet, EstimateSource.CAUGHT_UP, 0 * at, low=0 * at, high=0 * at)
    for source, time_ms in ((EstimateSource.WATERMARK, e.newest_done_ms), (EstimateSource.STREAM_TIME, e.stream_ms)):
        is_given = has_done & (time_ms > 0)
        estimates.offer(is_given, source, at - time_ms, low=np.where(newer, at - time_ms, 0), high=at - time_ms)
    estimates.bound(has_done & newer, low=at - e.committed_ms - skew_ms)
    is_given = has_done & (e.done_record_ms > 0)
    estimates.bound(is_given, high=at - e.done_record_ms)
    rises = has_done & e.is_log_append & e.is_dense
    # What is done was done by the commit: a first sample that came later proves less.
    is_late = (e.at_last_done.low_before_ms < 0) & (e.committed_ms < e.at_last_done.high_after_ms)
    stamped = has_done & is_behind & e.is_log_append
    estimates.offer(stamped & is_late, EstimateSource.BOUNDS, at - e.committed_ms)
    _offer_samples(estimates, e.at_last_done, e.done_end - 1, stamped, rises, has_done & newer, skew_ms)
    estimates.offer(stamped, EstimateSource.BOUNDS, at - e.committed_ms)
    estimates.offer(estimates.is_unsure, EstimateSource.CAUGHT_UP, 0 * at)
    return estimates.figures(int(FigureFlag.HELD_BACK) * (hidden & is_behind))


def _offer_samples(
    estimates: "_Estimates",
    near: "SampleBracket",
    offset: "Ints",
    wanted: "Bools",
    rises: "Bools",
    exists: "Bools",
    skew_ms: int,
) -> None:
    """What two end samples prove of the record at `offset`: `rises` where its time is that of its appending, `exists`
    where there surely is such a record (or, of done records, none later)."""
    import numpy as np

    at = estimates.as_of
    has_low, has_high = near.low_before_ms >= 0, near.high_after_ms >= 0
    came_before = exists & has_high & (near.high_after_ms <= at)
    estimates.bound(came_before, low=at - near.high_after_ms - skew_ms)
    estimates.bound(rises & has_low, high=at - near.low_before_ms + skew_ms)
    span = np.maximum(1, near.high_end - near.low_end)
    # Without both samples the numbers mean nothing, and their product may pass 64 bits.
    part = np.where(has_low & has_high, (offset - near.low_end) / span, 0.0)
    between = near.low_before_ms + ((near.high_after_ms - near.low_before_ms) * part).astype(np.int64)
    estimates.offer(wanted & has_low & has_high, EstimateSource.INTERPOLATED, at - between)
    estimates.offer(wanted & has_high, EstimateSource.BOUNDS, at - near.high_after_ms)


class _Estimates:
    """The columns of the answer while sources are offered, best first: bounds are intersected, and the first source
    that has an estimate gives it.

    Of each row: `is_behind` where the position lies before the end, `is_quiet` where it surely is at the end, and
    `is_unsure` where it is, yet records may have come since the end was looked at; `is_hidden` where records at the
    end belong to open transactions.
    """

    def __init__(self, e: "LagEvidence", position: "Ints") -> None:
        import numpy as np

        now = e.commits_as_of_ms
        both = np.where(e.after_ms >= 0, np.minimum(now, e.after_ms), now)
        self.as_of: Ints = np.where(e.seen_ms <= both, both, np.minimum(e.seen_ms, now))
        self.limit: Ints = np.where(e.effective_end >= 0, e.effective_end, e.end)
        has_end = (e.end >= 0) & ~e.is_other_topic
        is_at_tail = has_end & (position >= self.limit)
        self.is_behind: Bools = has_end & ~is_at_tail
        self.is_quiet: Bools = is_at_tail & ((e.seen_ms <= e.before_ms) | (e.quiet_ms == e.before_ms))
        self.is_unsure: Bools = is_at_tail & ~self.is_quiet
        self.is_hidden: Bools = (e.stable >= 0) & (e.stable < e.end)
        self.as_of[self.is_quiet] = np.minimum(now, e.before_ms)[self.is_quiet]
        self._seen_ms = e.seen_ms
        rows = len(e)
        self.low: Ints = np.zeros(rows, dtype=np.int64)
        self.high: Ints = np.full(rows, UNBOUNDED, dtype=np.int64)
        self.own_low, self.own_high = self.low.copy(), self.high.copy()
        self.estimate: Ints = np.full(rows, UNESTIMATED, dtype=np.int64)
        self.source: Ints = np.full(rows, int(EstimateSource.UNKNOWN), dtype=np.int64)
        self.is_future: Bools = np.zeros(rows, dtype=bool)
        self.base_flags: Ints = (
            int(FigureFlag.OTHER_TOPIC) * e.is_other_topic
            + int(FigureFlag.NO_END) * (e.end < 0)
            + int(FigureFlag.LOST) * ((e.start > e.committed) & ~e.is_other_topic)
        )

    def offer(
        self,
        rows: "Bools",
        source: EstimateSource,
        estimate: "Ints",
        *,
        low: "Ints | None" = None,
        high: "Ints | None" = None,
    ) -> None:
        """A source for some rows: its estimate, and what it proves."""
        import numpy as np

        first = rows & (self.source == int(EstimateSource.UNKNOWN))
        self.source[first] = int(source)
        self.estimate[first] = np.maximum(estimate, 0)[first]
        self.is_future |= first & (estimate < 0)
        if low is not None:
            self.own_low[first] = np.maximum(low, 0)[first]
        if high is not None:
            self.own_high[first] = np.maximum(high, 0)[first]
        self.bound(rows, low=low, high=high)

    def bound(self, rows: "Bools", *, low: "Ints | None" = None, high: "Ints | None" = None) -> None:
        """A proof alone."""
        import numpy as np

        if low is not None:
            self.low[rows] = np.maximum(self.low, low)[rows]
        if high is not None:
            self.high[rows] = np.minimum(self.high, np.maximum(high, 0))[rows]

    def disclaim(self, rows: "Bools") -> None:
        """Prove nothing for these rows: the log was cut between the moment that the figure is of and the sample."""
        self.low[rows] = self.own_low[rows] = 0
        self.high[rows] = self.own_high[rows] = UNBOUNDED

    def figures(self, flags: "Ints") -> Figures:
        """The answer: high ends hold until the commits were seen, and estimates are moved into their intervals."""
        import numpy as np

        late = np.where(self.is_quiet, 0, np.maximum(0, self._seen_ms - self.as_of))
        for top in (self.high, self.own_high):
            top[:] = np.where(top == UNBOUNDED, top, top + late)
        clash = self.low > self.high
        low, high = np.where(clash, self.own_low, self.low), np.where(clash, self.own_high, self.high)
        known = self.estimate != UNESTIMATED
        flags = flags + self.base_flags + int(FigureFlag.CONFLICT) * clash + int(FigureFlag.FUTURE) * self.is_future
        return Figures(
            estimate_ms=np.where(known, np.clip(self.estimate, low, high), UNESTIMATED),
            low_ms=low,
            high_ms=high,
            source=self.source,
            as_of_ms=self.as_of,
            flags=flags,
        )


NOT_KNOWN = "?"

UNBOUNDED = (1 << 63) - 1
"""A high bound that is none, in arrays."""

UNESTIMATED = -1
"""An estimate that is none, in arrays."""


def span_text(ms: int | None) -> str:
    """A time lag for people: `480ms`, `12.4s`, `3m 20s`; `?` for none."""
    if ms is None:
        return NOT_KNOWN
    if ms < 1000:
        return f"{ms}ms" if ms else "0s"
    return f"{ms / 1000:.1f}s" if ms < 60_000 else format_rough_time(ms / 1000)


def utc_text(ms: int) -> str:
    """A moment for people: `2026-11-28 16:43:22Z`."""
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%d %H:%M:%SZ}"


def range_text(lag: TimeLag) -> str:
    """The interval that holds the truth; one point is `exact`."""
    if lag.is_exact:
        return "exact"
    return f"[{span_text(lag.low_ms)}, {span_text(lag.high_ms)}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class LagEvidence:
    """Columns of one length, -1 for unknown; times in ms.

    Of the commit: `committed`, `committed_ms` (coordinator's clock), `seen_ms` and `commits_as_of_ms` (monitor's
    clock: when this commit arrived, and until when surely all commits had arrived), `quiet_ms` (the moment of the
    newest end sample that an older commit had reached before it), `position` (the first offset not done at or above
    the log's start), `done_end` (one past the highest done), and what the metadata holds: `oldest_ms`,
    `newest_done_ms`, `stream_ms`.

    Of the log: `start`, `stable`, `end` at a moment between `before_ms` and `after_ms` (monitor's clock),
    `effective_end` where it is known to hold for this `end`: no data that consumers get stands at or above it; and
    `effective_end_is_data` when such data surely stands right below it. `at_position`, `at_done_end` and
    `at_last_done` are the end samples around the position, around `done_end` (or the start, if that is higher), and
    around the offset below `done_end`.

    Of records read: `record_offset` is the first record at or after `position` (as it was when read), its time is
    about `record_ms` and surely in `record_low_ms` to `record_high_ms`, it was there at `record_read_ms`;
    `record_is_data` when it surely is visible data, neither marker nor part of a transaction that is open or aborted.
    `done_record_ms` is the time of any record that is done.

    Of the topic: `is_log_append`, `is_dense`, `is_compacted` (see `TopicLogSettings`). `is_other_topic`: the commit is
    not of this topic.
    """

    committed: "Ints"
    committed_ms: "Ints"
    seen_ms: "Ints"
    commits_as_of_ms: "Ints"
    quiet_ms: "Ints"
    position: "Ints"
    done_end: "Ints"
    oldest_ms: "Ints"
    newest_done_ms: "Ints"
    stream_ms: "Ints"
    start: "Ints"
    stable: "Ints"
    end: "Ints"
    effective_end: "Ints"
    effective_end_is_data: "Bools"
    before_ms: "Ints"
    after_ms: "Ints"
    at_position: SampleBracket
    at_done_end: SampleBracket
    at_last_done: SampleBracket
    record_offset: "Ints"
    record_ms: "Ints"
    record_low_ms: "Ints"
    record_high_ms: "Ints"
    record_read_ms: "Ints"
    record_is_data: "Bools"
    done_record_ms: "Ints"
    is_log_append: "Bools"
    is_dense: "Bools"
    is_compacted: "Bools"
    is_other_topic: "Bools"

    def __len__(self) -> int:
        return len(self.committed)
