"""Counts of offsets by their state, and words for how a commit is packed."""

from dataclasses import dataclass

from kafkakit.streams.model.commit import CommitState, MarkState, OffsetRanges, Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many offsets are in each state, from the committed one up to the highest done one.

    `done` leaves out rejected and skipped ones, `pending` retrying and deferred ones. `untouched` counts offsets from
    there to the end of the log, None where that is not known.
    """

    done: int = 0
    rejected: int = 0
    skipped: int = 0
    pending: int = 0
    retrying: int = 0
    deferred: int = 0
    untouched: int | None = None

    @property
    def span(self) -> int:
        """All offsets that the payload describes."""
        return self.done + self.rejected + self.skipped + self.pending + self.retrying + self.deferred


def tally_of(state: CommitState, log_end: int | None = None) -> Tally:
    """Count a state's offsets; marks above the highest done offset count too, and shift where `untouched` begins."""
    marked = dict.fromkeys(MarkState, 0)
    for mark in state.marks:
        marked[mark.state] += mark.end - mark.start
    reach = reach_of(state)
    done = state.done.count
    pending = reach - state.base - done
    return Tally(
        done=max(0, done - marked[MarkState.REJECTED] - marked[MarkState.SKIPPED]),
        rejected=marked[MarkState.REJECTED],
        skipped=marked[MarkState.SKIPPED],
        pending=max(0, pending - marked[MarkState.RETRYING] - marked[MarkState.DEFERRED]),
        retrying=marked[MarkState.RETRYING],
        deferred=marked[MarkState.DEFERRED],
        untouched=None if log_end is None else max(0, log_end - reach),
    )


def reach_of(state: CommitState) -> int:
    """One past the highest offset that the payload describes."""
    return max([state.end, *(mark.end for mark in state.marks)])


def marked(state: CommitState, kind: MarkState) -> OffsetRanges:
    """The offsets that carry this mark."""
    return OffsetRanges.of((mark.start, mark.end) for mark in state.marks if mark.state is kind)


def dialect_words(reading: Reading) -> str:
    """The dialect with its packing, for people: `kkm1, runs, alphabet b`."""
    words = [reading.dialect]
    if reading.encoding:
        words.append(reading.encoding)
    if reading.alphabet:
        words.append(f"alphabet {reading.alphabet}")
    if reading.is_compressed:
        words.append("zstd")
    if reading.is_lossy:
        words.append("coarsened")
    return ", ".join(words)
