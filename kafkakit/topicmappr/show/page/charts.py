"""Charts as inline SVG: bars for few brokers, sorted load curves for many, and the frontier's plot."""

from collections.abc import Sequence

from kafkakit.core.quantities import format_bytes
from kafkakit.report.chart import Area, px, round_top, svg
from kafkakit.report.markup import Html, el
from kafkakit.topicmappr.decide.frontier.trace import FrontierPoint
from kafkakit.topicmappr.show.page.figures import Measure

MOST_BARS = 40
_MOST_POINTS = 1000
_WIDTH, _HEIGHT = 440, 230
_GAP = 5


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
            el("rect", x=96, y=y + 1, width=px(old * room / top), height=7, class_="b"),
            el("rect", x=96, y=y + 9, width=px(new * room / top), height=9, class_="a"),
            el("text", labels[k], x=px(100 + max(old, new) * room / top), y=y + 14),
        ]
    return svg(_WIDTH, 22 * max(1, len(names)) + 4, f"{measure.title}, before and after", parts)


def _short(name: str) -> str:
    return name if len(name) <= 14 else f"{name[:13]}\u2026"


def _curves(measure: Measure) -> Html:
    area = _area(
        max(1, min(len(measure.before), _MOST_POINTS) - 1), max((*measure.before, *measure.after, 1)), measure.unit
    )
    shapes = area.grid(lambda value: amount(value, measure.unit), _GAP)
    for values, mark in ((measure.before, "lb"), (measure.after, "la")):
        shapes += area.line(list(enumerate(_falling(values))), mark)
    shapes += area.ends("fullest broker", "emptiest")
    return svg(_WIDTH, _HEIGHT, f"{measure.title} in falling order, before and after", shapes)


def _area(reach: float, most: int, unit: str) -> Area:
    top = round_top(most, unit)
    return Area(width=_WIDTH, height=_HEIGHT, left=58, right=10, top=10, bottom=26, reach=reach, most=top)


def _falling(values: Sequence[int]) -> list[int]:
    """At most a thousand of the values, the largest first."""
    ordered = sorted(values, reverse=True)
    count = min(len(ordered), _MOST_POINTS)
    return [ordered[k * (len(ordered) - 1) // max(1, count - 1)] for k in range(count)]


def frontier_plot(points: Sequence[FrontierPoint]) -> Html:
    """Bytes to move against the band, and below it the proven bound."""
    low, high = min(p.band_percent for p in points), max(p.band_percent for p in points)
    area = _area(high - low or 1.0, max((*(p.moved_bytes for p in points), 1)), "bytes")
    shapes = [
        *area.grid(lambda value: amount(value, "bytes"), _GAP),
        *area.line([(p.band_percent - low, p.bound_bytes) for p in points], "lb dash", "b"),
        *area.line([(p.band_percent - low, p.moved_bytes) for p in points], "la", "a"),
        *area.ends(f"band {low:g} %", f"{high:g} %"),
    ]
    return svg(_WIDTH, _HEIGHT, "Bytes to move for each band, with the proven lower bound", shapes)
