"""One partition's segments as Kafka handles them, append by append: the oracle of the formulas in `kafkakit/rules/`.

Written after `LogSegment.append` and `shouldRoll`, `UnifiedLog.maybeRoll`, `deletableSegments` and `deleteOldSegments`;
shares no code with the formulas.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Rules:
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    segment_ms: int = 604_800_000
    segment_bytes: int = 1 << 30
    jitter_ms: int = 0
    index_bytes: int = 10 << 20
    index_interval: int = 4096
    check_ms: int = 300_000


@dataclass
class Segment:
    jitter: int
    size: int = 0
    first: int | None = None
    last: int | None = None
    time_entries: int = 0
    since_entry: int = 0


@dataclass
class Partition:
    """Appends and retention checks in order of time; what was seen is in the fields below."""

    rules: Rules
    seed: int = 0
    segments: list[Segment] = field(default_factory=list)
    oldest_deleted_ms: int = 0
    peak_bytes: int = 0
    peak_segments: int = 0
    longest_segment_ms: int = 0
    rolls: dict[str, int] = field(default_factory=dict)
    emptied_at_ms: int | None = None
    deletions: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.segments = [self._new()]

    def run(self, appends: Iterable[tuple[int, int]], until_ms: int, phase_ms: int = 0) -> "Partition":
        """Append (time in ms, bytes) in order of time, with a check every `check_ms` from the phase on."""
        next_check = phase_ms
        for at, size in appends:
            while next_check < at:
                self._check(next_check)
                next_check += self.rules.check_ms
            self._append(at, size)
        while next_check <= until_ms:
            self._check(next_check)
            next_check += self.rules.check_ms
        return self

    @property
    def size(self) -> int:
        return sum(s.size for s in self.segments)

    def _new(self) -> Segment:
        most = min(self.rules.jitter_ms, self.rules.segment_ms)
        return Segment(self.random.randrange(most) if most > 0 else 0)

    def _append(self, at: int, size: int) -> None:
        cause = self._why_roll(at, size)
        if cause:
            self.rolls[cause] = self.rolls.get(cause, 0) + 1
            self.segments.append(self._new())
        active = self.segments[-1]
        if active.since_entry > self.rules.index_interval:
            active.time_entries += 1
            active.since_entry = 0
        active.size += size
        active.since_entry += size
        active.first = at if active.first is None else active.first
        active.last = at
        self.longest_segment_ms = max(self.longest_segment_ms, at - active.first)
        self.peak_bytes = max(self.peak_bytes, self.size)
        self.peak_segments = max(self.peak_segments, len(self.segments))

    def _why_roll(self, at: int, size: int) -> str:
        active = self.segments[-1]
        if active.size > self.rules.segment_bytes - size:
            return "size"
        if active.first is not None and at - active.first > self.rules.segment_ms - active.jitter:
            return "time"
        if active.time_entries >= self.rules.index_bytes // 12 - 1:
            return "index"
        return ""

    def _check(self, now: int) -> None:
        if self.rules.retention_bytes >= 0:
            over = self.size - self.rules.retention_bytes
            while self.segments[0].size and over - self.segments[0].size >= 0:
                over -= self.segments[0].size
                self._delete(now)
        if self.rules.retention_ms >= 0:
            while self.segments[0].last is not None and now - self.segments[0].last > self.rules.retention_ms:
                self._delete(now)
        if self.deletions and self.size == 0 and self.emptied_at_ms is None:
            self.emptied_at_ms = now

    def _delete(self, now: int) -> None:
        gone = self.segments.pop(0)
        assert gone.first is not None
        self.oldest_deleted_ms = max(self.oldest_deleted_ms, now - gone.first)
        self.deletions += 1
        if not self.segments:
            self.segments.append(self._new())


def steady(every_ms: int, size: int, until_ms: int) -> Iterable[tuple[int, int]]:
    """The same append again and again."""
    return ((at, size) for at in range(0, until_ms, every_ms))


def first_roll_is_by_index(segment_bytes: int, interval: int, index_bytes: int, batch: int) -> bool:
    """Fill one segment with batches of one size, step by step, and see whether the time index ends it."""
    size = entries = since = 0
    while size <= segment_bytes - batch:
        if entries >= index_bytes // 12 - 1:
            return True
        if since > interval:
            entries, since = entries + 1, 0
        size, since = size + batch, since + batch
    return False
