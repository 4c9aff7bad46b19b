"""Charts as inline SVG: bars for few brokers, sorted load curves for many, and the frontier's plot."""

from collections.abc import Sequence

from kafkakit.core.quantities import format_bytes
from kafkakit.report.markup import Html, el, join, text
from kafkakit.topicmappr.decide.frontier.trace import FrontierPoint
from kafkakit.topicmappr.show.page.figures import Measure

MOST_BARS = 40
_MOST_POINTS = 1000
_WIDTH, _HEIGHT = 440, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 10, 10, 26


def amount(value: int, unit: str) -> str:
    """A value in its unit: a count, bytes, or tenths of a percent."""
    if unit == "bytes":
        return format_bytes(value)
    return f"{value / 10:.1f} %" if unit == "permille" else f"{value:,}"


def load_chart(measure: Measure, names: Sequence[str]) -> Html:
    """Before and after for each broker or rack: bars for up to forty of them, else the loads in falling order."""
    drawn = _bars(measure, names) if len(names) <= MOST_BARS else _curves(measure)
    return el("figure", el("figcaption", measure.title), drawn, el("p", _range_words(measure), class_="soft"))


def _range_words(measure: Measure) -> str:
    """The ranges before and after; where it is measured over some brokers only, it says so."""

    def span(values: Sequence[int]) -> str:
        inside = [v for k, v in enumerate(values) if measure.over is None or k in measure.over]
        low, high = (amount(f(inside, default=0), measure.unit) for f in (min, max))
        return f"{low} to {high}"

    partly = measure.over is not None and len(measure.over) < len(measure.before)
    where = f" (the {len(measure.over or ())} brokers that remain targets)" if partly else ""
    return f"before {span(measure.before)}, after {span(measure.after)}{where}"


def _bars(measure: Measure, names: Sequence[str]) -> Html:
    top = max((*measure.before, *measure.after, 1))
    labels = [
        f"{amount(old, measure.unit)} \u2192 {amount(new, measure.unit)}" if old != new else amount(new, measure.unit)
        for old, new in zip(measure.before, measure.after, strict=True)
    ]
    # Digits are about six and a half units wide at this font size.
    room = _WIDTH - 96 - 8 - 6.5 * max((len(label) for label in labels), default=0)
    parts = []
    for k, (name, old, new) in enumerate(zip(names, measure.before, measure.after, strict=True)):
        y = 22 * k + 2
        parts += [
            el("text", _short(name), x=90, y=y + 13, text_anchor="end"),
            el("rect", x=96, y=y + 1, width=_px(old * room / top), height=7, class_="b"),
            el("rect", x=96, y=y + 9, width=_px(new * room / top), height=9, class_="a"),
            el("text", labels[k], x=_px(100 + max(old, new) * room / top), y=y + 14),
        ]
    return _svg(22 * max(1, len(names)) + 4, f"{measure.title}, before and after", join(parts))


def _short(name: str) -> str:
    return name if len(name) <= 14 else f"{name[:13]}\u2026"


def _curves(measure: Measure) -> Html:
    top = _round_top(max((*measure.before, *measure.after, 1)), measure.unit)
    shapes = [_grid(0, top, measure.unit)]
    for values, mark in ((measure.before, "lb"), (measure.after, "la")):
        shapes.append(el("polyline", points=_falling(values, top), class_=mark))
    shapes += [
        el("text", "fullest broker", x=_LEFT, y=_HEIGHT - 8, class_="axis"),
        el("text", "emptiest", x=_WIDTH - _RIGHT, y=_HEIGHT - 8, text_anchor="end", class_="axis"),
    ]
    return _svg(_HEIGHT, f"{measure.title} in falling order, before and after", join(shapes))


def _falling(values: Sequence[int], top: int) -> Html:
    ordered = sorted(values, reverse=True)
    count = min(len(ordered), _MOST_POINTS)
    picked = [ordered[k * (len(ordered) - 1) // max(1, count - 1)] for k in range(count)]
    return _points([(_x(k, 0, max(1, count - 1)), _y(value, 0, top)) for k, value in enumerate(picked)])


def _points(places: Sequence[tuple[float, float]]) -> Html:
    return Html(" ".join(f"{_px(x)},{_px(y)}" for x, y in places))


def frontier_plot(points: Sequence[FrontierPoint]) -> Html:
    """Bytes to move against the band, and below it the proven bound."""
    top = _round_top(max((*(p.moved_bytes for p in points), 1)), "bytes")
    low, high = min(p.band_percent for p in points), max(p.band_percent for p in points)
    wide = high - low or 1.0
    shapes = [_grid(0, top, "bytes")]
    for mark, value in (("lb dash", "bound_bytes"), ("la", "moved_bytes")):
        line = [(_x(p.band_percent - low, 0, wide), _y(getattr(p, value), 0, top)) for p in points]
        shapes.append(el("polyline", points=_points(line), class_=mark))
        dot = "a" if value == "moved_bytes" else "b"
        shapes += [el("circle", cx=_px(x), cy=_px(y), r=3, class_=dot) for x, y in line]
    shapes += [
        el("text", f"band {low:g} %", x=_LEFT, y=_HEIGHT - 8, class_="axis"),
        el("text", f"{high:g} %", x=_WIDTH - _RIGHT, y=_HEIGHT - 8, text_anchor="end", class_="axis"),
    ]
    return _svg(_HEIGHT, "Bytes to move for each band, with the proven lower bound", join(shapes))


def _round_top(most: int, unit: str) -> int:
    """The first value from `most` on whose quarters are round in the unit."""
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


def _grid(low: int, top: int, unit: str) -> Html:
    parts = []
    for k in range(5):
        value = low + (top - low) * k // 4
        y = _y(value, low, top)
        parts.append(el("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=_px(y), y2=_px(y), class_="grid"))
        parts.append(el("text", amount(value, unit), x=_LEFT - 5, y=_px(y + 4), text_anchor="end", class_="axis"))
    return join(parts)


def _x(value: float, low: float, high: float) -> float:
    return _LEFT + (value - low) * (_WIDTH - _LEFT - _RIGHT) / (high - low)


def _y(value: float, low: float, high: float) -> float:
    return _HEIGHT - _BOTTOM - (value - low) * (_HEIGHT - _TOP - _BOTTOM) / (high - low)


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _svg(height: int, title: str, shapes: Html) -> Html:
    return Html(
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{text(title)}">'
        f"<title>{text(title)}</title>{shapes}</svg>"
    )
