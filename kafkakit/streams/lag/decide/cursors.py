"""Where the partitions of an offsets topic are read, and what the reading counted."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.log_reads import LogSpan
from kafkakit.streams.model.offsets_log.commits import FeedCounts, KeyTable, OpenTransaction
from kafkakit.streams.model.offsets_log.feed import OffsetsFeed


class ResumePoint(NamedTuple):
    """Where an earlier run stopped in a partition: from `at` on it is to be read, everything visible below `known_to`
    is known already, and all commits until `as_of_ms` are."""

    at: int
    known_to: int
    as_of_ms: int


Resume = Mapping[int, ResumePoint]
NO_RESUME = ResumePoint(-1, -1, -1)


@dataclass(slots=True)
class LogCursor:
    """Where one partition is read: `next` None while its log's ends are not known.

    `first` is where reading began, `target` the end that was seen then: below it the past is read. `began` counts how
    often the partition was read from its start, `is_sweeping` is True while it is. `as_of_ms` is until when surely all
    commits have been seen, by our clock, -1 while unknown; `asked_ms` when the request on its way was sent. `error` is
    why the last fetch brought nothing; `is_whole` is True while the last answer went to the end of the log. `every`
    is the feed's.
    """

    partition: int
    feed: OffsetsFeed
    next: int | None = None
    first: int = 0
    target: int = -1
    end: int = -1
    began: int = 0
    is_sweeping: bool = False
    as_of_ms: int = -1
    asked_ms: int = -1
    error: ItemError | None = None
    is_whole: bool = False
    empty_tries: int = 0
    stopped_tries: int = 0
    open_transactions: tuple[OpenTransaction, ...] = ()
    open_transaction_count: int = 0
    held_back: int = 0
    every: bool = False

    @property
    def is_behind(self) -> bool:
        """True while the partition's past is being read."""
        return self.next is None or self.next < self.target

    def begin(self, keys: KeyTable, span: LogSpan, point: ResumePoint) -> None:
        """Read on from `point`, or from the log's start where the log no longer holds that place."""
        is_warm = span.start <= point.at <= point.known_to <= span.end and not self.began
        self.next = self.first = point.at if is_warm else span.start
        known_to = point.known_to if is_warm else 0
        self.feed = OffsetsFeed(self.partition, keys, next_offset=self.next, known_to=known_to, every=self.every)
        self.as_of_ms = point.as_of_ms if is_warm else -1
        self.target = self.end = span.end
        self.began += not is_warm
        self.is_sweeping = not is_warm
        self.error = None

    def start_over(self, keys: KeyTable) -> None:
        """Forget what was read; the log's ends are to be found again."""
        self.next, self.target, self.as_of_ms, self.asked_ms = None, -1, -1, -1
        self.feed = OffsetsFeed(self.partition, keys, every=self.every)
        self.is_whole = False
        self.open_transactions = ()
        self.open_transaction_count = self.held_back = 0

    def skip_to_end(self) -> int:
        """Continue behind all that is there now; returns how many offsets were passed over."""
        self.stopped_tries = 0
        at = self.next or 0
        self.next = max(at, self.end)
        return self.next - at


@dataclass(slots=True)
class ReadTotals(FeedCounts):
    """What was counted since the start.

    `started_over` counts partitions that had to be read again, `skipped_offsets` what lay behind bytes that are no
    batch.
    """

    started_over: int = 0
    skipped_offsets: int = 0


def progress_of(cursors: Collection[LogCursor]) -> tuple[int, int]:
    """How many offsets of the past were read in this pass over it, and how many there are."""
    located = [(c.first, c.next, c.target) for c in cursors if c.next is not None]
    return sum(min(now, to) - at for at, now, to in located), sum(to - at for at, _, to in located)


def resume_points_of(cursors: Collection[LogCursor]) -> dict[int, ResumePoint]:
    """From where another run can continue, for partitions whose past was read."""
    return {
        c.partition: ResumePoint(c.feed.resume_offset, c.next, c.as_of_ms)
        for c in sorted(cursors, key=lambda c: c.partition)
        if c.next is not None and not c.is_behind
    }
