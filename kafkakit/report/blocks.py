"""Blocks of a report: lines, sections, lists that are cut short, gaps to a bound; and parts of its data."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from kafkakit.core.text import plain_value

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


def capped(
    items: Sequence[T], line: Callable[[T], str], most: int, rest: str = "... and {} more (all of them with -o tsv)"
) -> list[str]:
    """A line for each item, `most` of them; `rest` is the last line then, with how many more there are in its `{}`."""
    lines = [line(item) for item in items[:most]]
    return [*lines, rest.format(len(items) - most)] if len(items) > most else lines


def gap_text(gap: float | None) -> str:
    """A relative gap: `0` only when it is exactly nothing, `-` when there is none."""
    if gap is None:
        return "-"
    return "0" if gap == 0 else f"{gap * 100:.3g} %"


def attributes(value: object, *names: str) -> dict[str, object]:
    """Attributes of a value as plain data under their own names; each of `names` may hold several, blanks between."""
    return {name: plain_value(getattr(value, name)) for name in " ".join(names).split()}


class Deferred(Iterable[object]):
    """Items of a report's data that are made when JSON or YAML is written: most reports are printed as text alone."""

    __slots__ = ("_items",)

    def __init__(self, items: Callable[[], Iterable[object]]) -> None:
        self._items = items

    def __iter__(self) -> Iterator[object]:
        return iter(self._items())


def records(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[dict[str, object]]:
    """The rows of a report as data, each cell under its column."""
    return [dict(zip(columns, row, strict=True)) for row in rows]
