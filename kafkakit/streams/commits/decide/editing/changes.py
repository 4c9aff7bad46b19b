"""Arithmetic of done sets: what each verb makes of a state. Nothing here knows of metadata or clusters.

A state is looked at as everything that is done from offset 0 on (`all_done`): verbs add to that set and take from it,
and the new base is its first hole. So base never passes a pending offset, whatever the verb.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kafkakit.streams.model.commit import CommitState, Mark, MarkState, OffsetRanges, ReplayWindow, Watermark

NO_END = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What becomes of base where rejected offsets lie below it: `given_up` is delivered again, None for nothing."""

    done: OffsetRanges
    given_up: int | None = None


def all_done(state: CommitState) -> OffsetRanges:
    """Every done offset, those below base included."""
    return OffsetRanges.of([(0, state.base), *state.done])


def first_pending(done: OffsetRanges) -> int:
    """The first offset that is not in the set."""
    return done.ranges[0][1] if done.ranges and done.ranges[0][0] == 0 else 0


def state_of(done: OffsetRanges, before: CommitState, marks: Iterable[Mark]) -> CommitState:
    """The state with just these offsets done, and of `marks` what agrees with them.

    Route, what is still pending of a replay and the count of what was forgotten are carried over; the watermark only
    where base stays, and the newest done record does. Writer and spill are left out: no member wrote this, and the
    ledger holds the state before it.
    """
    base = first_pending(done)
    above = done.within(base, NO_END)
    is_dated = base == before.base and (above.end or base) >= before.end
    return CommitState(
        base=base,
        done=above,
        watermark=before.watermark if is_dated else None,
        route=before.route,
        marks=fitting(marks, base, above),
        replay=open_part(before.replay, base, above),
        forgotten=before.forgotten,
    )


def open_part(window: ReplayWindow | None, base: int, done: OffsetRanges) -> ReplayWindow | None:
    """A replay's window from base on, None when nothing of it is pending."""
    if window is None:
        return None
    start = max(window.start, base)
    if start >= window.end or not done.gaps(start, window.end):
        return None
    return replace(window, start=start)


def fitting(marks: Iterable[Mark], base: int, done: OffsetRanges) -> tuple[Mark, ...]:
    """What of the marks lies at or above base and agrees with the done set, joined where neighbours are alike."""
    listed = sorted(marks, key=_start)
    end = max((mark.end for mark in listed), default=base)
    closed = [mark for mark in listed if mark.state.is_done]
    waiting = [mark for mark in listed if not mark.state.is_done]
    return _joined([*_cut(closed, done.within(base, end)), *_cut(waiting, done.gaps(base, max(base, end)))])


def marked(marks: Iterable[Mark], offsets: OffsetRanges, state: MarkState | None) -> tuple[Mark, ...]:
    """The marks with these offsets in another state; None takes their marks away."""
    listed = sorted(marks, key=_start)
    end = max((mark.end for mark in listed), default=0)
    kept = _cut(listed, offsets.gaps(0, end))
    if state is not None:
        kept += [Mark(start=start, end=end, state=state) for start, end in offsets]
    return _joined(kept)


def in_state(marks: Iterable[Mark], *states: MarkState) -> OffsetRanges:
    """The offsets that are in one of these states."""
    return OffsetRanges.of((mark.start, mark.end) for mark in marks if mark.state in states)


def held_back(done: OffsetRanges, marks: Iterable[Mark]) -> Held:
    """Keep base below the first rejected offset: without a ledger nothing else remembers it.

    A payload's base is pending, so the offset before it has to be: the nearest one that was neither rejected nor
    skipped is taken out of the done set, and will be delivered once more. `given_up` is -1 where there is none.
    """
    listed = tuple(marks)
    base = first_pending(done)
    rejected = in_state(listed, MarkState.REJECTED).within(0, base)
    if rejected.first is None:
        return Held(done=done)
    decided = in_state(listed, MarkState.REJECTED, MarkState.SKIPPED)
    candidate = rejected.first - 1
    while candidate in decided:
        candidate = next(start for start, end in decided if start <= candidate < end) - 1
    if candidate < 0:
        return Held(done=done, given_up=-1)
    return Held(done=done.minus(OffsetRanges.of([(candidate, candidate + 1)])), given_up=candidate)


def redated(state: CommitState, before: CommitState, watermark: Watermark | None) -> CommitState:
    """The state with another watermark; deferrals, which count from its oldest record, keep their time.

    A deferral without a watermark on both sides has no time any more: its mark is dropped, the record is delivered
    sooner.
    """
    old = before.watermark
    if old is not None and watermark is not None:
        shift_s = -(-(old.oldest_ms - watermark.oldest_ms) // 1000)
        marks = tuple(
            replace(mark, deferred_s=max(0, mark.deferred_s + shift_s)) if mark.state is MarkState.DEFERRED else mark
            for mark in state.marks
        )
    else:
        marks = tuple(mark for mark in state.marks if mark.state is not MarkState.DEFERRED)
    return replace(state, watermark=watermark, marks=marks)


def _cut(marks: Iterable[Mark], allowed: OffsetRanges) -> list[Mark]:
    """The parts of sorted, disjoint marks that lie in a set; costs the sum of both."""
    parts: list[Mark] = []
    ranges, at = allowed.ranges, 0
    for mark in marks:
        while at < len(ranges) and ranges[at][1] <= mark.start:
            at += 1
        look = at
        while look < len(ranges) and ranges[look][0] < mark.end:
            start, end = max(mark.start, ranges[look][0]), min(mark.end, ranges[look][1])
            parts.append(replace(mark, start=start, end=end))
            look += 1
    return parts


def _start(mark: Mark) -> int:
    return mark.start


def _joined(marks: Iterable[Mark]) -> tuple[Mark, ...]:
    joined: list[Mark] = []
    for mark in sorted(marks, key=_start):
        last = joined[-1] if joined else None
        if last is not None and last.end == mark.start and replace(last, start=mark.start, end=mark.end) == mark:
            joined[-1] = replace(last, end=mark.end)
        else:
            joined.append(mark)
    return tuple(joined)
