"""Pages: HTML from templates of this package, in which every value is text, and the numbers that their charts show.

The templates lie in `kafkakit/report/templates/`: `base.html` has the head and the style of all pages, `parts.html`
what several of them show. A name that a template uses and did not get is an error.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from kafkakit.core.quantities import count_of
from kafkakit.core.text import cell
from kafkakit.report.report import (
    BarChart,
    FactList,
    NextCommands,
    Part,
    RawDocument,
    Remarks,
    Report,
    ResultTable,
    Section,
)

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

MOST_TEXT = 400
# Control and direction-changing characters could hide or reorder what a person reads.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
QUARTERS = 4
MOST_ROWS, MOST_TITLE, MOST_OF_DOCUMENT = 5_000, 200, 200_000
_NUMBER = re.compile(r"-?[0-9][0-9,.]*( ?%| ?[kKMGTP]?i?B(/s)?| m?s)?|-|", re.ASCII)


def html_page(template: str, **values: object) -> bytes:
    """The page that a template makes of the values, as UTF-8; the same values give the same bytes."""
    return _environment().get_template(template).render(values).encode()


def package_text(name: str) -> str:
    """A style or script among the templates, as it is."""
    environment = _environment()
    return environment.loader.get_source(environment, name)[0] if environment.loader else ""


@cache
def _environment() -> "Environment":
    # Most commands make no page, and need not load this.
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    made = Environment(
        loader=PackageLoader("kafkakit.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_cell_text,
    )
    made.globals = {"file": lambda name: Markup(package_text(name))}
    made.filters = {
        **made.filters,
        "cut": lambda value, most: Markup.escape(cut_text(visible(value), most)),
        "whole": lambda value: Markup.escape(visible(value)),
        "number": lambda value: f"{value:,.6g}",
        "counted": count_of,
        "time": lambda at: f"{at:%Y-%m-%d %H:%M:%S} UTC",
    }
    return made


def _cell_text(value: object) -> object:
    """What a template shows of any value; markup that the templates made themselves passes."""
    return value if hasattr(value, "__html__") else cut_text(visible(value))


def visible(value: object) -> str:
    """The value as text in which nothing hides or turns around what is beside it; None is nothing."""
    return "" if value is None else _UNSEEN.sub("\ufffd", str(value))


def cut_text(text: str, most: int = MOST_TEXT) -> str:
    """The text; longer than `most` characters it is cut, and says so."""
    return text if len(text) <= most else f"{text[:most]}\u2026 ({len(text)} characters)"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTable:
    """A table; `columns` are (title, numeric?), and numbers stand to the right."""

    caption: str
    columns: Sequence[tuple[str, bool]]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True, slots=True)
class Label:
    """Words in a chart, at a place in pixels; `anchor` is which end of them lies there."""

    text: str
    x: str
    y: str
    anchor: str = "start"
    style: str = ""


@dataclass(frozen=True, slots=True)
class Box:
    """A filled rectangle in a chart, in pixels."""

    x: str
    y: str
    width: str
    height: str
    style: str


@dataclass(frozen=True, slots=True)
class Curve:
    """A line in a chart through places in pixels; with `dot` each of them has one, in that style."""

    places: Sequence[tuple[str, str]]
    style: str
    dot: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A drawing with a title that screen readers read, and the words above and below it; boxes lie at the bottom."""

    title: str
    width: int
    height: int
    boxes: Sequence[Box] = ()
    curves: Sequence[Curve] = ()
    labels: Sequence[Label] = ()
    caption: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """A drawing area in pixels with its margins; both axes begin at 0 and end at `reach` and `most`."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    reach: float
    most: int

    def x(self, value: float) -> float:
        """Where a value lies from left to right."""
        return self.left + value * (self.width - self.left - self.right) / self.reach

    def y(self, value: float) -> float:
        """Where a value lies from the top down."""
        return self.height - self.bottom - value * (self.height - self.top - self.bottom) / self.most

    def quarters(self) -> list[int]:
        """The values at the quarters of the value axis."""
        return [self.most * quarter // QUARTERS for quarter in range(QUARTERS + 1)]

    def grid(self) -> list[Curve]:
        """Lines at the quarters of the value axis."""
        ends = px(self.left), px(self.width - self.right)
        return [Curve([(x, px(self.y(value))) for x in ends], "grid") for value in self.quarters()]

    def scale(self, label: Callable[[int], str], gap: int) -> list[Label]:
        """What the lines of the grid stand for, `gap` pixels beside them."""
        x = px(self.left - gap)
        return [Label(label(value), x, px(self.y(value) + 4), "end", "axis") for value in self.quarters()]

    def line(self, points: Iterable[tuple[float, float]], style: str, dot: str = "") -> Curve:
        """A line through (x value, y value)."""
        return Curve([(px(self.x(x)), px(self.y(y))) for x, y in points], style, dot)

    def ends(self, left: str, right: str) -> list[Label]:
        """Labels at both ends of the horizontal axis."""
        y = px(self.height - 8)
        return [
            Label(left, px(self.left), y, "start", "axis"),
            Label(right, px(self.width - self.right), y, "end", "axis"),
        ]


def round_top(most: int, unit: str = "") -> int:
    """The first value from `most` on whose quarters are round in the unit: in bytes, or any number."""
    base = 1
    while unit == "bytes" and most >= 1024 * base:
        base *= 1024
    steps = [base // 4, base // 2] if base > 1 else []
    scale = base
    while True:
        steps += [scale * tenth // 10 for tenth in (10, 20, 25, 30, 40, 50, 60, 80) if scale * tenth % 10 == 0]
        scale *= 10
        for step in steps:
            if 4 * step >= most:
                return 4 * step


def px(value: float) -> str:
    """Pixels to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


_SVG = "http://www.w3.org/2000/svg"
_SHAPES = frozenset({"svg", "g", "polygon", "polyline", "path", "ellipse", "text"})
_PLACES = frozenset(
    {"class", "cx", "cy", "d", "height", "points", "rx", "ry", "text-anchor", "transform", "viewBox", "width", "x", "y"}
)


def checked_drawing(svg: str) -> "Markup | None":
    """A drawing of another program with nothing in it but shapes, their places and text; None for anything else."""
    from markupsafe import Markup

    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError:
        return None
    for each in root.iter():
        each.tag, each.text, each.tail = each.tag.removeprefix(f"{{{_SVG}}}"), visible(each.text), ""
        if each.tag not in _SHAPES:
            return None
        each.attrib = {key: value for key, value in sorted(each.attrib.items()) if key in _PLACES}
        # Titles are names of the other program's own.
        each[:] = [part for part in each if part.tag != f"{{{_SVG}}}title"]
    return Markup(ElementTree.tostring(root, encoding="unicode", short_empty_elements=False))


def sections_page(report: Report, called: Callable[[str], str] = str, at: datetime | None = None) -> bytes:
    """A page of what a command found at a time, with all its sections; a table shows at most 5,000 rows and says so.

    Its title is the first line, where that is a sentence, else the command. `called` gives a text with its commands for
    the cluster of this invocation.
    """
    parts = tuple(report.sections)
    first = parts[0] if parts and isinstance(parts[0], str) else ""
    is_title = bool(first.strip()) and "  " not in first and len(first) <= MOST_TITLE
    plain, cluster = report.cluster or ("", "")
    failure = report.failure
    return html_page(
        "report.html",
        title=(first.replace(plain, cluster, 1) if plain else first) if is_title else f"kafkakit {report.command}",
        command=f"kafkakit {report.command}",
        cluster=cluster,
        at=at,
        warnings=[called(warning) for warning in report.warnings],
        failure=failure,
        hint=called(failure.hint) if failure is not None and failure.hint else "",
        blocks=[b for group in _join_lines(_shown_parts(report, parts[is_title:])) for b in _blocks(group)],
    )


def _shown_parts(report: Report, parts: Sequence[Part]) -> Sequence[Part]:
    """The parts; a long document for programs is shown by its rows, where it has any."""
    is_long = sum(len(part.text) for part in parts if isinstance(part, RawDocument)) > MOST_OF_DOCUMENT
    if report.table is None or not report.table.rows or not (is_long or all(part == RawDocument("") for part in parts)):
        return parts
    return (report.table,)


def _join_lines(parts: Iterable[Part]) -> Iterator[Part | list[str]]:
    """The parts, with lines that follow each other as one list."""
    for are_lines, group in groupby(parts, key=lambda part: isinstance(part, str)):
        if are_lines:
            yield [part for part in group if isinstance(part, str)]
        else:
            yield from group


def _blocks(part: Part | list[str]) -> Iterator[tuple[str, object]]:
    """What the template shows of a part: a kind with its values."""
    match part:
        case list():
            yield from _line_blocks(part)
        case Section(title=title, parts=below) if any(part.lines()):
            yield "section", (title.removesuffix(":"), [b for group in _join_lines(below) for b in _blocks(group)])
        case ResultTable(rows=rows) if rows or part.empty != "":
            yield from _table_blocks(part)
        case FactList(pairs=pairs):
            yield "facts", [(name.rstrip(" :"), cell(value)) for name, value in pairs]
        case Remarks(label=label, sentences=sentences) if sentences:
            yield "remarks", (label, sentences)
        case NextCommands(commands=commands, purpose=purpose) if commands:
            yield from (("text", [purpose]), ("commands", commands))
        case BarChart() if part.bars:
            yield "chart", _bar_chart(part)
        case RawDocument(text=text):
            yield "aligned", text.split("\n")


def _line_blocks(lines: Sequence[str]) -> Iterator[tuple[str, object]]:
    """Lines as paragraphs, commands, or as they are where blanks align something in them."""
    for is_empty, group in groupby(lines, key=lambda line: not line.strip()):
        if is_empty:
            continue
        for is_command, same in groupby(group, key=lambda line: line.strip().startswith("kafkakit ")):
            found = list(same)
            aligned = any("  " in line.rstrip() for line in found)
            yield (
                "commands" if is_command else "aligned" if aligned else "text",
                [line.strip() if is_command else line for line in found],
            )


def _table_blocks(table: ResultTable) -> Iterator[tuple[str, object]]:
    if table.title:
        yield "section", (table.title.removesuffix(":"), [])
    if not table.rows:
        yield "text", [table.empty or "none"]
        return
    shown = table.rows[:MOST_ROWS]
    columns = [
        (name.replace("_", " "), all(_NUMBER.fullmatch(str("" if cell is None else cell)) for cell in column))
        for name, column in zip(table.columns, zip(*shown, strict=True), strict=True)
    ]
    cells = [[cell(value) for value in row] for row in shown]
    yield "table", PageTable(caption=count_of(len(table.rows), "row"), columns=columns, rows=cells)
    if len(table.rows) > len(shown):
        yield "text", [table.rest.format(len(table.rows) - len(shown))]


def _bar_chart(chart: BarChart) -> Chart:
    """The bars below each other in pixels, in the order of the text."""
    boxes, labels = [], []
    for number, bar in enumerate(chart.bars):
        y, low, high = number * 22, *(400 * value // chart.top for value in (bar.bound, bar.value or bar.bound))
        for left, right, style in ((0, low, "b"), (low, high, "a")):
            if right > left:
                boxes.append(Box(str(110 + left), str(y + 4), str(right - left), "14", style))
        labels.append(Label(bar.label, "104", str(y + 15), "end"))
        labels.append(Label(bar.words, str(116 + max(low, high)), str(y + 15)))
    return Chart(title="; ".join(f"{bar.label} {bar.words}" for bar in chart.bars), width=760,
                 height=22 * len(chart.bars), boxes=boxes, labels=labels)  # fmt: skip
