"""What a payload can say: states are brought into that form before they are written, and wrong ones are refused."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kafkakit.streams.formats.commit import CommitState, Mark, MarkState, ReplayWindow, Watermark
from kafkakit.streams.formats.kkm1.sections import MAX_COUNT
from kafkakit.streams.formats.kkm1.varint import MAX_UVARINT
from kafkakit.streams.formats.offset_ranges import MAX_OFFSET, OffsetRanges

DIGEST_BYTES = 8
MAX_TIME_MS = 253_402_300_799_999  # the end of the year 9999
MAX_DEFERRED_S = (1 << 32) - 1


def writable(state: CommitState) -> CommitState:
    """The state as a payload tells it; raises `ValueError` for one that cannot be (a mistake of the program).

    Marks and a replay window lose what lies below base, counts end at 15, and a watermark without a real time (Kafka
    has records whose time is -1) is left out. A second call changes nothing.
    """
    check_done(state.base, state.done)
    if state.forgotten < 0 or state.forgotten > MAX_UVARINT:
        raise ValueError(f"{state.forgotten} acknowledgements cannot have been forgotten")
    _check_small(state)
    marks = tuple(_above(state.base, state.marks)) if state.marks else ()
    wrong = next(contradictions(marks, state.done), None)
    if wrong is not None:
        raise ValueError(f"offsets {wrong.start} to {wrong.end - 1} are not what their mark {wrong.state.name} says")
    return replace(
        state,
        marks=marks,
        watermark=state.watermark if is_real(state.watermark) else None,
        replay=_clipped(state.base, state.replay),
    )


def check_done(base: int, done: OffsetRanges) -> None:
    """Raise `ValueError` unless the done set is sorted, joined and above base."""
    if base < 0 or (done.end or base) > MAX_OFFSET:
        raise ValueError(f"offsets from {base} to {done.end} are not those of a log")
    at = base
    for start, end in done.ranges:
        if start <= at or end <= start:
            raise ValueError(f"the done offsets {start} to {end - 1} do not lie above {at}, apart from the others")
        at = end


def is_real(mark: Watermark | None) -> bool:
    """True for times of this era, which everything that reads them can show."""
    return mark is not None and 0 <= mark.oldest_ms <= MAX_TIME_MS and 0 <= mark.newest_done_ms <= MAX_TIME_MS


def contradictions(marks: Iterable[Mark], done: OffsetRanges) -> Iterator[Mark]:
    """The marks that disagree with the done set: done ones that are pending there, and the other way round.

    Both are sorted; the cost is their sum.
    """
    ranges = done.ranges
    at = 0
    for mark in marks:
        while at < len(ranges) and ranges[at][1] <= mark.start:
            at += 1
        touches = at < len(ranges) and ranges[at][0] < mark.end
        inside = touches and ranges[at][0] <= mark.start and mark.end <= ranges[at][1]
        if (mark.state.is_done and not inside) or (not mark.state.is_done and touches):
            yield mark


def without_contradictions(marks: tuple[Mark, ...], done: OffsetRanges) -> tuple[Mark, ...]:
    """The marks that agree with the done set."""
    wrong = set(contradictions(marks, done)) if marks else set()
    return tuple(mark for mark in marks if mark not in wrong) if wrong else marks


def _check_small(state: CommitState) -> None:
    route, spill, writer = state.route, state.spill, state.writer
    if route and not (0 <= route.epoch <= MAX_UVARINT and 0 <= route.segment <= MAX_UVARINT):
        raise ValueError(f"{route} is no route")
    if spill and (
        not (0 <= spill.partition <= MAX_UVARINT and 0 <= spill.offset <= MAX_OFFSET)
        or len(spill.digest) != DIGEST_BYTES
    ):
        raise ValueError(f"{spill} points nowhere")
    if writer and not (0 <= writer.member_hash < 1 << 32 and 0 <= writer.generation <= MAX_UVARINT):
        raise ValueError(f"{writer} is no writer")


def _above(base: int, marks: tuple[Mark, ...]) -> Iterator[Mark]:
    at = 0
    for mark in marks:
        late = mark.deferred_s
        if mark.start < at or mark.end <= mark.start or mark.end > MAX_OFFSET or mark.count < 0:
            raise ValueError(f"{mark} is no run of offsets after {at}")
        if late < 0 or late > MAX_DEFERRED_S or (late and mark.state is not MarkState.DEFERRED):
            raise ValueError(f"{mark} cannot be deferred by {late} s")
        at = mark.end
        if mark.end > base:
            start, count = max(base, mark.start), min(mark.count, MAX_COUNT)
            same = start == mark.start and count == mark.count
            yield mark if same else replace(mark, start=start, count=count)


def _clipped(base: int, window: ReplayWindow | None) -> ReplayWindow | None:
    if window is None:
        return None
    if window.end <= window.start or window.end > MAX_OFFSET or not 0 <= window.request_id <= MAX_UVARINT:
        raise ValueError(f"{window} is no window")
    if window.end <= base:
        return None
    return window if window.start >= base else replace(window, start=base)
