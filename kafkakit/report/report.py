"""The one value that a command ends with, and the blocks of text and plots that several tools print.

`Report` is rendered as text, rows or data, and decides the exit code.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from kafkakit.core.errors import ExitCode, KafkakitError
from kafkakit.core.text import plain_value

_FIRST_LINES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a command found or did.

    `command` is the command's words (`reassign verify`); `data` is for JSON and YAML, `text` for people, `rows`
    (with `columns`) for TSV. A `failure` is raised after the report was written; without one the command exits
    with `code`. `warnings` go to stderr before it. With `refused` the text says what was not done: programs
    get the failure alone. With `is_document` the text is in a format of its own, which programs read.
    """

    command: str
    data: Mapping[str, object]
    text: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    warnings: tuple[str, ...] = ()
    failure: KafkakitError | None = None
    refused: bool = False
    is_document: bool = False
    code: int = ExitCode.DONE

    def naming(self, cluster_id: str, profile: str | None) -> "Report":
        """Name the cluster and the profile in use in the first lines of the text, unless it is a document."""
        if self.is_document or not self.text:
            return self
        used = cluster_words(cluster_id, profile)
        end = sum(len(line) for line in self.text.splitlines(keepends=True)[:_FIRST_LINES])
        first, rest = self.text[:end], self.text[end:]
        if f"cluster {cluster_id}" in first:
            return replace(self, text=first.replace(f"cluster {cluster_id}", used, 1) + rest)
        return replace(self, text=f"{used}\n{self.text}")


def cluster_words(cluster_id: str, profile: str | None) -> str:
    """`cluster X (profile prod)`, how a text names the cluster that it is about."""
    return f"cluster {cluster_id} (profile {profile})" if profile else f"cluster {cluster_id}"


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
