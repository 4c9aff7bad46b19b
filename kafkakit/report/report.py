"""The one value that a command ends with: sections, which are rendered as text, rows or data, and an exit code.

A section is a plain line, or one of the values below it: lines under a title, a table, facts by name, remarks with a
label, commands that come next, or a document in a format of its own. Tools make sections; only this module lays them
out.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from kafkakit.core.errors import ExitCode, KafkakitError
from kafkakit.core.findings import COLUMNS, SHOWN_OF_A_RULE, SHOWN_SUBJECTS, Finding, totals
from kafkakit.core.quantities import count_of
from kafkakit.core.text import plain_value, text_table

T = TypeVar("T")
INDENT = "  "
MORE = "... and {} more (all of them with -o tsv)"
_FIRST_LINES = 3
_ID = re.compile(r"[0-9]+[,:]?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Section:
    """Parts below a title, indented, after an empty line; nothing at all where its parts have no line."""

    title: str
    parts: Iterable["Part"]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))

    def lines(self) -> Iterator[str]:
        """The lines of the text."""
        below: list[str] = []
        for part in self.parts:
            own = 1 if isinstance(part, NextCommands) else None
            lines = list(lines_of((part,)))
            below += [*(INDENT + line for line in lines[:own]), *(lines[own:] if own else ())]
        if below:
            yield from ("", self.title, *below)


@dataclass(frozen=True, slots=True)
class ResultTable:
    """Rows under columns, with a title as a section of its own; the first one of a report gives the rows for TSV.

    Without rows the text has the headings alone, or the line `empty`, or nothing where that is "". It shows `most`
    rows; `rest` is the line behind them then, never indented, with how many more there are in its `{}`.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str = ""
    empty: str | None = None
    most: int | None = None
    rest: str = MORE

    def records(self) -> list[dict[str, object]]:
        """The rows as data."""
        return records(self.columns, self.rows)

    def lines(self) -> Iterator[str]:
        """The lines of the text."""
        if self.rows or self.empty is None:
            table = text_table(self.columns, self.rows[: self.most]).split("\n")
        else:
            table = [self.empty] if self.empty else []
        yield from Section(self.title, table).lines() if self.title else table
        if self.most is not None and len(self.rows) > self.most:
            yield self.rest.format(len(self.rows) - self.most)


def single_row(cells: Mapping[str, object]) -> ResultTable:
    """A table of one row, with the names of its cells as columns."""
    return ResultTable(tuple(cells), (tuple(cells.values()),))


@dataclass(frozen=True, slots=True)
class FactList:
    """Names with their values, one a line, the values below each other behind names of `width` characters."""

    pairs: Iterable[tuple[str, object]]
    width: int
    indent: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "pairs", tuple(self.pairs))

    def lines(self) -> Iterator[str]:
        """The lines of the text."""
        return (f"{self.indent}{name:<{self.width}}{value}" for name, value in self.pairs)


@dataclass(frozen=True, slots=True)
class Remarks:
    """Sentences of one kind, each behind the label of that kind: `note`, `problem`, `warning`."""

    label: str
    sentences: Iterable[object]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sentences", tuple(self.sentences))

    def lines(self) -> Iterator[str]:
        """The lines of the text."""
        return (f"{self.label}: {sentence}" for sentence in self.sentences)


@dataclass(frozen=True, slots=True)
class NextCommands:
    """Commands to paste, each on a line of its own that is never indented, below what they are for."""

    commands: Sequence[str]
    purpose: str = "next:"

    def lines(self) -> Iterator[str]:
        """The lines of the text."""
        if self.commands:
            yield from (self.purpose, *self.commands)


@dataclass(frozen=True, slots=True)
class RawDocument:
    """A whole text in a format of its own, which programs read; it is the only section of its report."""

    text: str

    def lines(self) -> Iterator[str]:
        """The lines of the text."""
        return iter(self.text.split("\n"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One line of a chart: a label, the bound and the value above it (None: no value), and words behind it."""

    label: str
    bound: int
    value: int | None
    words: str


@dataclass(frozen=True, slots=True)
class BarChart:
    """Bars below each other, all on one scale that ends at the largest value; `key` says what the shades stand for.

    A text has `width` characters for the longest bar; `plain` uses ASCII only.
    """

    bars: Sequence[Bar]
    key: str = ""
    width: int = 48
    plain: bool = False

    @property
    def top(self) -> int:
        """Where the scale ends; never 0."""
        return max((b.value if b.value is not None else b.bound for b in self.bars), default=0) or 1

    def lines(self) -> Iterator[str]:
        """The lines of the text; a value that is not nothing shows at least the thinnest mark."""
        labels = max((len(b.label) for b in self.bars), default=0)
        axis = "|" if self.plain else "\u2502"
        for b in self.bars:
            yield f"{b.label.rjust(labels)} {axis}{_bar(b, self.top, self.width, self.plain)} {b.words}".rstrip()
        if self.bars and self.key:
            yield self.key


Part: TypeAlias = str | Section | ResultTable | FactList | Remarks | NextCommands | BarChart | RawDocument


def lines_of(parts: Iterable[Part]) -> Iterator[str]:
    """The lines of the text of some parts."""
    for part in parts:
        if isinstance(part, str):
            yield part
        else:
            yield from part.lines()


def text_of(parts: Iterable[Part]) -> str:
    """Parts as text; the last line is ended, too, but for a document, which stays as it is."""
    parts = tuple(parts)
    if len(parts) == 1 and isinstance(parts[0], RawDocument):
        return parts[0].text
    return "".join(f"{line}\n" for line in lines_of(parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a command found or did.

    `command` is the command's words (`reassign verify`); `data` is for JSON and YAML, `sections` for people, `table`
    for TSV: the first one of the sections where none is given. A `failure` is raised after the report was written;
    without one the command exits with `code`. `warnings` go to stderr before it. With `refused` the text says what was
    not done: programs get the failure alone. `cluster` has the words for the cluster in the text, and those to write
    in their place. With `colored` a severity at the beginning of a line, and the word for health in the first one,
    has its colour on a terminal. `names` are those of the objects that a list shows, for `-o name`. `page`
    makes the web page where it is another than that of the sections. What `is_private`, as records are, goes to files
    that nobody else may read.
    """

    command: str
    data: Mapping[str, object]
    sections: Iterable[Part]
    table: ResultTable | None = None
    warnings: tuple[str, ...] = ()
    failure: KafkakitError | None = None
    refused: bool = False
    colored: bool = False
    names: tuple[str, ...] | None = None
    code: int = ExitCode.DONE
    cluster: tuple[str, str] | None = None
    page: Callable[[], bytes] | None = None
    is_private: bool = False

    def __post_init__(self) -> None:
        sections = tuple(self.sections)
        object.__setattr__(self, "sections", sections)
        if self.table is None:
            object.__setattr__(self, "table", next((p for p in sections if isinstance(p, ResultTable)), None))

    @property
    def rows(self) -> Sequence[Sequence[object]]:
        """The rows for TSV."""
        return () if self.table is None else self.table.rows

    @property
    def is_document(self) -> bool:
        """True when the text is in a format of its own."""
        return any(isinstance(part, RawDocument) for part in self.sections)

    @property
    def text(self) -> str:
        """The sections for people."""
        text = text_of(self.sections)
        if self.cluster is None or self.is_document or not text:
            return text
        plain, used = self.cluster
        end = sum(len(line) for line in text.splitlines(keepends=True)[:_FIRST_LINES])
        first, rest = text[:end], text[end:]
        return first.replace(plain, used, 1) + rest if plain in first else f"{used}\n{text}"

    def naming(self, cluster_id: str, profile: str | None) -> "Report":
        """Name the cluster and the profile in use in the first lines of the text, unless it is a document."""
        return replace(self, cluster=(f"cluster {cluster_id}", cluster_words(cluster_id, profile)))


def cluster_words(cluster_id: str, profile: str | None) -> str:
    """`cluster X (profile prod)`, how a text names the cluster that it is about."""
    return f"cluster {cluster_id} (profile {profile})" if profile else f"cluster {cluster_id}"


def lines_from(text: str) -> list[str]:
    """A text that was made elsewhere (a log, a file, findings) as lines of a report; none where it is empty."""
    return text.removesuffix("\n").split("\n") if text else []


def cap_lines(items: Sequence[T], line: Callable[[T], str], most: int, rest: str = MORE) -> list[str]:
    """A line for each item, `most` of them; `rest` is the last line then, with how many more there are in its `{}`."""
    lines = [line(item) for item in items[:most]]
    return [*lines, rest.format(len(items) - most)] if len(items) > most else lines


def findings_sections(findings: Sequence[Finding]) -> Iterator[Part]:
    """A table for people with at most 20 lines a rule, then a hint that repairs all of a rule, then the totals."""
    if not findings:
        yield "no findings"
        return
    numbers: Counter[str] = Counter()
    rows: list[tuple[object, ...]] = []
    hints: dict[str, dict[str, None]] = {}
    for f in findings:
        numbers[f.rule] += 1
        if numbers[f.rule] <= SHOWN_OF_A_RULE:
            rows.append((f.severity.value, f.rule, f.where, f.count, f.message))
        if f.hint:
            hints.setdefault(f.rule, {})[f.hint] = None
    yield ResultTable(COLUMNS[:5], rows)
    for rule, number in numbers.items():
        if number > SHOWN_OF_A_RULE:
            yield f"{rule}: {count_of(number - SHOWN_OF_A_RULE, 'more finding')}, see -o json or -o tsv"
    yield from ("", "to repair:")
    for rule, own in hints.items():
        yield from (f"{INDENT}{rule}: {hint}" for hint in _merge_hints(list(own))[:SHOWN_SUBJECTS])
    yield from ("", totals(findings))


def _merge_hints(hints: list[str]) -> list[str]:
    """One hint for all where they differ in nothing but an id, such as that of a broker; else all of them."""
    words = list(zip(*(hint.split(" ") for hint in hints), strict=False))
    same_length = len({len(hint.split(" ")) for hint in hints}) == 1
    if not same_length or any(len(set(at)) > 1 and not all(_ID.fullmatch(word) for word in at) for at in words):
        return hints
    return [" ".join(_join_words(at) for at in words)]


def _join_words(words: Sequence[str]) -> str:
    """The words of one place as one: ids with commas, and what ended the last of them."""
    distinct = list(dict.fromkeys(words))
    end = distinct[-1].lstrip("0123456789")
    return distinct[0] if len(distinct) == 1 else ",".join(word.removesuffix(end) for word in distinct) + end


def gap_text(gap: float | None) -> str:
    """A relative gap: `0` only when it is exactly nothing, `-` when there is none."""
    if gap is None:
        return "-"
    return "0" if gap == 0 else f"{gap * 100:.3g} %"


def attributes(value: object, *names: str) -> dict[str, object]:
    """Attributes of a value as plain data under their own names; each of `names` may hold several, blanks between."""
    return {name: plain_value(getattr(value, name)) for name in " ".join(names).split()}


class DeferredItems(Iterable[object]):
    """Items of a report's data that are made when JSON or YAML is written: most reports are printed as text alone."""

    __slots__ = ("_items",)

    def __init__(self, items: Callable[[], Iterable[object]]) -> None:
        self._items = items

    def __iter__(self) -> Iterator[object]:
        return iter(self._items())


def records(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[dict[str, object]]:
    """The rows of a report as data, each cell under its column."""
    return [dict(zip(columns, row, strict=True)) for row in rows]


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
