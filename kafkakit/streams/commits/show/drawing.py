"""A drawing of a done set: one row of characters or a few, scaled to the width, readable without any colour."""

from collections.abc import Iterable
from dataclasses import dataclass

from kafkakit.streams.commits.decide.tally import reach_of
from kafkakit.streams.model.commit import CommitState, MarkState, Range

MAX_ROWS = 4
MIN_CELLS = 8
_LETTERS = {MarkState.REJECTED: "x", MarkState.RETRYING: "r", MarkState.DEFERRED: "d", MarkState.SKIPPED: "s"}
_MARK_ORDER = (MarkState.REJECTED, MarkState.RETRYING, MarkState.DEFERRED, MarkState.SKIPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawingStyle:
    """The characters for done, mostly done, half done, little done, pending, and pending or forgotten."""

    done: str
    most: str
    half: str
    little: str
    pending: str
    unsure: str = "?"


BLOCKS = DrawingStyle(done="█", most="▓", half="▒", little="░", pending="·")
ASCII = DrawingStyle(done="#", most="+", half="+", little="+", pending=".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Rows to print, and what the characters in them mean."""

    rows: tuple[str, ...]
    legend: str


def draw(state: CommitState, *, width: int, style: DrawingStyle = BLOCKS, lossy: bool = False) -> Drawing | None:
    """Draw the offsets from `base` to the highest one that the state speaks of; None when there are none.

    `width` is that of the terminal; each row begins with its first offset. A cell of several offsets shows a mark
    when one of them has it, so that no rejected or retrying record is lost in the scale; the letter of a done one is
    a capital where something in its cell is pending, so that no hole is lost either. With `lossy` a pending
    offset is drawn as one that may be done and forgotten. Cost: the ranges plus the cells.
    """
    base, end = state.base, reach_of(state)
    if end <= base:
        return None
    label = len(str(end))
    columns = max(MIN_CELLS, width - label - 4)
    per_cell = _per_cell(end - base, columns)
    cells = -(-(end - base) // per_cell)
    marks = {kind: _spread((_runs(state, kind)), base, per_cell, cells) for kind in _MARK_ORDER}
    done = _spread(state.done.ranges, base, per_cell, cells)
    text = "".join(
        _cell(
            [kind for kind in _MARK_ORDER if marks[kind][i]],
            done[i] / min(per_cell, end - base - i * per_cell),
            style,
            lossy,
        )
        for i in range(cells)
    )
    rows = tuple(f"  {base + at * per_cell:>{label}} {text[at : at + columns]}" for at in range(0, cells, columns))
    return Drawing(rows=rows, legend=_legend(text, per_cell, style))


def _runs(state: CommitState, kind: MarkState) -> Iterable[Range]:
    return ((mark.start, mark.end) for mark in state.marks if mark.state is kind)


def _per_cell(span: int, columns: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50 ... with which the span fits: in a few rows unscaled, else in one."""
    if span <= columns * MAX_ROWS:
        return 1
    size = 1
    while True:
        for step in (1, 2, 5):
            if -(-span // (size * step)) <= columns:
                return size * step
        size *= 10


def _spread(ranges: Iterable[Range], base: int, per_cell: int, cells: int) -> list[int]:
    """How many offsets of each cell the ranges hold; ranges are disjoint, so whole cells are filled once."""
    counts = [0] * cells
    for low, high in ranges:
        start, end = max(low, base) - base, min(high - base, cells * per_cell)
        if start >= end:
            continue
        first, last = start // per_cell, (end - 1) // per_cell
        if first == last:
            counts[first] += end - start
            continue
        counts[first] += (first + 1) * per_cell - start
        counts[last] += end - last * per_cell
        for cell in range(first + 1, last):
            counts[cell] = per_cell
    return counts


def _cell(marks: list[MarkState], share: float, style: DrawingStyle, lossy: bool) -> str:
    if marks:
        letter = _LETTERS[marks[0]]
        return letter.upper() if marks[0].is_done and share < 1 else letter
    if share >= 1:
        return style.done
    if share <= 0:
        return style.unsure if lossy else style.pending
    return style.most if share >= 2 / 3 else style.half if share >= 1 / 3 else style.little


def _legend(text: str, per_cell: int, style: DrawingStyle) -> str:
    names = [
        (style.done, "done"),
        (style.pending, "pending"),
        (style.unsure, "pending, or done and forgotten"),
        *((_LETTERS[kind], kind.name.lower()) for kind in _MARK_ORDER),
        *((_LETTERS[kind].upper(), f"{kind.name.lower()} beside pending") for kind in _MARK_ORDER if kind.is_done),
    ]
    mixed = "".join(dict.fromkeys(c for c in (style.most, style.half, style.little) if c in text))
    words = [f"{char} {name}" for char, name in names if char in text]
    if mixed:
        words.append(f"{mixed} partly done")
    scale = "one offset each" if per_cell == 1 else f"{per_cell:,} offsets each"
    return f"{'  '.join(words)}  ({scale})"
