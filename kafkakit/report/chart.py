"""Charts as inline SVG: an area with axes, a grid, and lines with dots."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kafkakit.report.markup import Html, el, join, text

QUARTERS = 4


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

    def grid(self, label: Callable[[int], str], gap: int) -> list[Html]:
        """Lines at the quarters of the value axis, each with its label `gap` pixels beside it."""
        shapes = []
        for quarter in range(QUARTERS + 1):
            value = self.most * quarter // QUARTERS
            y = self.y(value)
            shapes.append(el("line", x1=self.left, x2=self.width - self.right, y1=px(y), y2=px(y), class_="grid"))
            shapes.append(el("text", label(value), x=self.left - gap, y=px(y + 4), text_anchor="end", class_="axis"))
        return shapes

    def line(self, points: Sequence[tuple[float, float]], mark: str, dot: str = "") -> list[Html]:
        """A line through (x value, y value), drawn in the style `mark`; with `dot` each point has one."""
        places = [(px(self.x(x)), px(self.y(y))) for x, y in points]
        line = el("polyline", points=Html(" ".join(f"{x},{y}" for x, y in places)), class_=mark)
        return [line, *(el("circle", cx=x, cy=y, r=3, class_=dot) for x, y in places if dot)]

    def ends(self, left: str, right: str) -> list[Html]:
        """Labels at both ends of the horizontal axis."""
        y = self.height - 8
        end = self.width - self.right
        return [
            el("text", left, x=self.left, y=y, class_="axis"),
            el("text", right, x=end, y=y, text_anchor="end", class_="axis"),
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


def svg(width: int, height: int, title: str, shapes: Sequence[Html]) -> Html:
    """A drawing with a title that screen readers read."""
    return Html(
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{text(title)}">'
        f"<title>{text(title)}</title>{join(shapes)}</svg>"
    )
