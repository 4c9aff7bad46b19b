"""Blocks of a report's text: lines, sections, lists that are cut short, gaps to a bound."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")
INDENT = "  "


def text_of(lines: Iterable[str]) -> str:
    """Lines as text; the last one is ended, too."""
    return "\n".join(lines) + "\n"


def section(title: str, lines: Iterable[str]) -> list[str]:
    """An empty line, a title, and the lines below it."""
    return ["", title, *(INDENT + line for line in lines)]


def optional_section(title: str, lines: Sequence[str]) -> list[str]:
    """A section; nothing without lines."""
    return section(title, lines) if lines else []


def capped(items: Sequence[T], line: Callable[[T], str], most: int, *, elsewhere: str = "with -o tsv") -> list[str]:
    """A line for each item, `most` of them; the last line then says how many more there are, and where."""
    lines = [line(item) for item in items[:most]]
    if len(items) > most:
        lines.append(f"... and {len(items) - most} more (all of them {elsewhere})")
    return lines


def gap_text(gap: float | None) -> str:
    """A relative gap: `0` only when it is exactly nothing, `-` when there is none."""
    if gap is None:
        return "-"
    return "0" if gap == 0 else f"{gap * 100:.3g} %"
