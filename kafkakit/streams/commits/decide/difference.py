"""What changed between two commits of one partition: offsets that became done, pending or rejected."""

from dataclasses import dataclass

from kafkakit.streams.commits.decide.tally import marked
from kafkakit.streams.model.commit import CommitState, MarkState, OffsetRanges


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """From one state to another; a set is empty where nothing of the kind happened.

    `became_done` leaves out what became rejected or skipped. `reopened` was done and is pending again: an operator's
    reset or replay, or a writer that forgot. `rejected` and `skipped` are new marks; `retried` are offsets whose
    count of tries grew, each with both counts.
    """

    base_before: int
    base_after: int
    became_done: OffsetRanges
    reopened: OffsetRanges
    rejected: OffsetRanges
    skipped: OffsetRanges
    deferred: OffsetRanges
    retried: tuple[tuple[int, int, int, int], ...]
    oldest_moved_ms: int | None
    newest_moved_ms: int | None

    @property
    def is_empty(self) -> bool:
        """True when both say the same of every offset."""
        sets = (self.became_done, self.reopened, self.rejected, self.skipped, self.deferred)
        return self.base_before == self.base_after and not any(sets) and not self.retried


def difference(before: CommitState, after: CommitState) -> Difference:
    """Compare two states of one partition; everything below a base counts as done. Costs the ranges of both."""
    low = min(before.base, after.base)
    done_before, done_after = _all_done(before, low), _all_done(after, low)
    # What a base passed is done, and its marks are gone with it: only marks that stand can be new.
    rejected = marked(after, MarkState.REJECTED).minus(marked(before, MarkState.REJECTED))
    skipped = marked(after, MarkState.SKIPPED).minus(marked(before, MarkState.SKIPPED))
    return Difference(
        base_before=before.base,
        base_after=after.base,
        became_done=done_after.minus(done_before).minus(rejected).minus(skipped),
        reopened=done_before.minus(done_after),
        rejected=rejected,
        skipped=skipped,
        deferred=marked(after, MarkState.DEFERRED).minus(marked(before, MarkState.DEFERRED)),
        retried=_retried(before, after),
        oldest_moved_ms=_moved(before, after, "oldest_ms"),
        newest_moved_ms=_moved(before, after, "newest_done_ms"),
    )


def _all_done(state: CommitState, low: int) -> OffsetRanges:
    return OffsetRanges.of([(low, state.base), *state.done.ranges])


def _moved(before: CommitState, after: CommitState, name: str) -> int | None:
    if before.watermark is None or after.watermark is None:
        return None
    return int(getattr(after.watermark, name) - getattr(before.watermark, name))


def _retried(before: CommitState, after: CommitState) -> tuple[tuple[int, int, int, int], ...]:
    """`(start, end, tries before, tries after)` where a range is retrying now and was tried less often before."""
    old = [mark for mark in before.marks if mark.state is MarkState.RETRYING]
    found: list[tuple[int, int, int, int]] = []
    at = 0
    for mark in after.marks:
        if mark.state is not MarkState.RETRYING:
            continue
        start = mark.start
        while at < len(old) and old[at].end <= start:
            at += 1
        look = at
        while start < mark.end:
            if look >= len(old) or old[look].start >= mark.end:
                stop, tries = mark.end, 0
            elif old[look].start > start:
                stop, tries = old[look].start, 0
            else:
                stop, tries = min(mark.end, old[look].end), old[look].count
                look += 1
            if tries < mark.count:
                found.append((start, stop, tries, mark.count))
            start = stop
    return tuple(found)
