"""Plots of what was measured over time, as SVG files for the documentation, made of the charts that pages have."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil
from pathlib import Path

from kafkakit.report.pages import Area, Box, Chart, Curve, Label, px, round_top

WIDTH, LEFT, RIGHT = 800, 66, 18
TITLE_Y, LEGEND_Y, MARKS_Y, ROW, PANELS, GAP, FOOT = 26, 50, 76, 15, 320, 42, 40
LETTER, MOST_TITLE = 7.0, 86
BLUE, GREY, DARK, DASHED, LIMIT = "blue", "grey", "dark", "dashed", "limit"
STYLE = """text { font: 12px Helvetica, Arial, sans-serif; fill: #1b1f24; font-variant-numeric: tabular-nums }
text.title { font-size: 15px; font-weight: bold } text.mark { fill: #57606a }
text.axis { fill: #57606a; stroke: #ffffff; stroke-width: 4; paint-order: stroke }
text.blue { fill: #1858c4 } text.limit { fill: #a40e26 } text.grey { fill: #57606a }
rect.paper { fill: #ffffff } rect.blue { fill: #1858c4 } rect.limit { fill: #a40e26 } rect.grey { fill: #6b7785 }
rect.dark, rect.dashed { fill: #1b1f24 } polyline { fill: none; stroke-width: 2; stroke-linejoin: round }
.grid { stroke: #e4e8ec; stroke-width: 1 } .mark { stroke: #9aa4af; stroke-width: 1; stroke-dasharray: 3 3 }
text.mark { stroke: none } polyline.blue { stroke: #1858c4; stroke-width: 2.5 } polyline.dark { stroke: #1b1f24 }
polyline.grey { stroke: #6b7785 } polyline.dashed { stroke: #1b1f24; stroke-dasharray: 5 3; stroke-width: 1.5 }
polyline.limit { stroke: #a40e26; stroke-dasharray: 8 4; stroke-width: 1.5 }"""


@dataclass(frozen=True, slots=True)
class Line:
    """A name for the legend, or none; (second, value) in order; a value of `is_step` holds until the next."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: str
    is_step: bool = False

    def drawn(self, span_s: float) -> Iterator[tuple[float, float]]:
        """The corners within the plot."""
        before: float | None = None
        for at, value in self.points:
            if not 0 <= at <= span_s:
                continue
            if self.is_step and before is not None:
                yield at, before
            yield at, value
            before = value
        if self.is_step and before is not None:
            yield span_s, before


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines over one value axis, which begins at 0; `unit` is what its values are."""

    unit: str
    lines: Sequence[Line]

    def area(self, begin: int, high: int, height: int, span_s: float) -> Area:
        """Its place in a picture of a height, from `begin` down."""
        most = max((value for line in self.lines for _, value in line.drawn(span_s)), default=0.0)
        return Area(
            width=WIDTH, height=height, left=LEFT, right=RIGHT, top=begin, bottom=height - begin - high,
            reach=span_s, most=round_top(max(4, ceil(most))),
        )  # fmt: skip


def plot(title: str, panels: Sequence[Panel], marks: Sequence[tuple[float, str]], span_s: float) -> Chart:
    """Panels with the same time axis; marks are lines through all of them, with their words above."""
    assert len(title) <= MOST_TITLE, title
    rows = list(_rows_of(marks, span_s))
    top = MARKS_Y + ROW * (max((row for *_, row in rows), default=0) + 1) + 14
    high = (PANELS - GAP * (len(panels) - 1)) // len(panels)
    height = top + PANELS + FOOT
    areas = [panel.area(top + number * (high + GAP), high, height, span_s) for number, panel in enumerate(panels)]
    curves = [curve for area in areas for curve in area.grid()]
    boxes = [Box("0", "0", str(WIDTH), str(height), "paper")]
    labels = [Label(title, "14", str(TITLE_Y), "start", "title")]
    for at, words, x, row in rows:
        y = MARKS_Y + ROW * row
        curves.append(Curve([(px(areas[0].x(at)), px(y + 4)), (px(areas[0].x(at)), px(height - FOOT))], "mark"))
        labels.append(Label(words, px(x), px(y), "start", "mark"))
    for panel, area in zip(panels, areas, strict=True):
        labels.append(Label(panel.unit, "14", px(area.top - 13), "start", "axis"))
        labels += area.scale(lambda value: f"{value:,}", 8)
        curves += [area.line(line.drawn(span_s), line.colour) for line in panel.lines]
    x = 14.0
    for line in (line for panel in panels for line in panel.lines if line.name):
        boxes.append(Box(px(x), px(LEGEND_Y - 8), "14", "8" if line.colour == BLUE else "5", line.colour))
        labels.append(Label(line.name, px(x + 20), str(LEGEND_Y), "start", line.colour))
        x += 20 + LETTER * len(line.name) + 24
    step = next(s for s in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600) if span_s / s <= 10)
    for at in range(0, int(span_s) + 1, step):
        labels.append(Label(str(at), px(areas[0].x(at)), px(height - FOOT + 16), "middle", "axis"))
    labels.append(Label("seconds", px(LEFT), px(height - FOOT + 32), "start", "axis"))
    return Chart(title=title, width=WIDTH, height=height, boxes=boxes, curves=curves, labels=labels)


def _rows_of(marks: Sequence[tuple[float, str]], span_s: float) -> Iterator[tuple[float, str, float, int]]:
    """Each mark with where its words begin and in which row, so that none lie on each other."""
    ends: list[float] = []
    for at, words in sorted(marks):
        wide = LETTER * len(words)
        x = min(LEFT + at * (WIDTH - LEFT - RIGHT) / span_s + 3, WIDTH - 6 - wide)
        row = next((number for number, end in enumerate(ends) if end < x), len(ends))
        ends[row : row + 1] = [x + wide + 4]
        yield at, words, x, row


def draw_plot(chart: Chart, path: Path) -> None:
    """Write a chart as a file that needs nothing else: neither styles of a page nor fonts."""
    parts = [f'<rect x="{b.x}" y="{b.y}" width="{b.width}" height="{b.height}" class="{b.style}"/>'
             for b in chart.boxes]  # fmt: skip
    for curve in chart.curves:
        places = " ".join(f"{x},{y}" for x, y in curve.places)
        parts.append(f'<polyline points="{places}" class="{curve.style}"/>')
    parts += [f'<text x="{one.x}" y="{one.y}" text-anchor="{one.anchor}" class="{one.style}">{escape(one.text)}</text>'
              for one in chart.labels]  # fmt: skip
    head = f'width="{chart.width}" height="{chart.height}" viewBox="0 0 {chart.width} {chart.height}" role="img"'
    parts = [f"<title>{escape(chart.title)}</title>", f"<style>{STYLE}</style>", *parts, "</svg>\n"]
    path.write_text("\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {head}>', *parts]))
