"""A plot for terminals: a bar a point, its solid part the bound and its shaded part what the plan costs above it."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One line of the plot: a label, the bound and the value above it (None: no plan), and words behind it."""

    label: str
    bound: int
    value: int | None
    words: str


def text_plot(bars: Sequence[Bar], *, width: int = 48, plain: bool = False) -> list[str]:
    """Lines of bars, all on one scale that ends at the largest value; `plain` uses ASCII only.

    A value that is not nothing shows at least the thinnest mark, so that nothing looks free that is not.
    """
    top = max((b.value if b.value is not None else b.bound for b in bars), default=0) or 1
    labels = max((len(b.label) for b in bars), default=0)
    return [f"{b.label.rjust(labels)} {_axis(plain)}{_bar(b, top, width, plain)} {b.words}".rstrip() for b in bars]


def _axis(plain: bool) -> str:
    return "|" if plain else "\u2502"


def _bar(bar: Bar, top: int, width: int, plain: bool) -> str:
    solid, shade, none = ("#", "+", ".") if plain else ("\u2588", "\u2591", "\u00b7")
    if bar.value is None:
        return none * min(width, 3)
    if plain:
        low, high = (_cells(v, top, width, 1) for v in (bar.bound, bar.value))
        return solid * low + shade * (high - low)
    low, high = (_cells(v, top, width, 8) for v in (bar.bound, bar.value))
    full, part = divmod(low, 8)
    # A cell that is partly solid cannot be shaded too, so the shade begins in the next one.
    rest = -(-high // 8) - full - bool(part)
    return solid * full + (chr(0x2590 - part) if part else "") + shade * max(0, rest)


def _cells(value: int, top: int, width: int, steps: int) -> int:
    return max(1, value * width * steps // top) if value > 0 else 0
