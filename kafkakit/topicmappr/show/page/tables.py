"""The parts of the page that list and draw: brokers, racks, moves, moves between log dirs, loads, the frontier."""

from collections.abc import Sequence

from kafkakit.core.plan import Plan
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.report.chart import Area, px, round_top, svg
from kafkakit.report.markup import Html, el, table, text
from kafkakit.topicmappr.decide.frontier.trace import FrontierPoint
from kafkakit.topicmappr.show.page.figures import BrokerRow, Measure, RackRow, largest_moves, measures_of

MOST_BARS = 40
_MOST_POINTS = 1000
_WIDTH, _HEIGHT = 440, 230
_GAP = 5
_LEAST_BAR = 3


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
            el("rect", x=96, y=y + 1, width=_bar(old, room / top), height=7, class_="b"),
            el("rect", x=96, y=y + 9, width=_bar(new, room / top), height=9, class_="a"),
            el("text", labels[k], x=px(100 + max(old, new) * room / top), y=y + 14),
        ]
    return svg(_WIDTH, 22 * max(1, len(names)) + 4, f"{measure.title}, before and after", parts)


def _bar(value: int, scale: float) -> str:
    """The width of a bar; what is not nothing can be seen."""
    return px(max(value * scale, _LEAST_BAR) if value > 0 else 0)


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


SHOWN_MOVES = 500
_SHOWN_BROKERS = 2000
_SHOWN_IDS = 12
_KEY = el(
    "p",
    el("span", Html('<i class="kb"></i>'), "before"),
    el("span", Html('<i class="ka"></i>'), "after"),
    class_="key",
)


def brokers_section(rows: Sequence[BrokerRow], targets: frozenset[int]) -> Html:
    """Charts of what every broker carries, and the same as a table."""
    names = [str(row.broker) for row in rows]
    charts = [load_chart(measure, names) for measure in measures_of(rows, targets)]
    listed = _broker_table(rows)
    if len(rows) > MOST_BARS:
        listed = el("details", el("summary", f"All {len(rows)} brokers as a table"), listed)
    return el("section", el("h2", "Brokers"), _KEY, el("div", *charts, class_="charts"), listed)


def _broker_table(rows: Sequence[BrokerRow]) -> Html:
    used = any(row.before.used_bytes is not None for row in rows)
    head = [("Broker", True), ("Rack", False), ("Replicas", True), ("after", True), ("Leaders", True), ("after", True),
            ("Copies in", True), ("out", True), ("Bytes of these topics", True), ("after", True)]  # fmt: skip
    if used:
        head += [("Disk used", True), ("after", True), ("Capacity", True)]
    body = []
    for row in rows[:_SHOWN_BROKERS]:
        old, new = row.before, row.after
        counts = (old.replicas, new.replicas, old.leaders, new.leaders, row.copies_in, row.copies_out)
        cells: list[str] = [str(row.broker), text(row.rack or "none", 60), *(f"{n:,}" for n in counts)]
        cells += [_size(old.bytes), _size(new.bytes)]
        if used:
            cells += [_size(old.used_bytes), _size(new.used_bytes), _size(new.capacity_bytes)]
        body.append(cells)
    more = f", the first {_SHOWN_BROKERS}" if len(rows) > _SHOWN_BROKERS else ""
    return table(f"Each broker before and after, within the plan's topics{more}", head, body)


def _size(value: int | None) -> str:
    return "unknown" if value is None else format_bytes(value)


def racks_section(rows: Sequence[RackRow]) -> Html:
    """What every rack carries."""
    shown = rows[:200]
    names = [row.rack or "none" for row in shown]
    replicas = (tuple(r.before[0] for r in shown), tuple(r.after[0] for r in shown))
    leaders = (tuple(r.before[1] for r in shown), tuple(r.after[1] for r in shown))
    measures = [
        Measure("Replicas by rack", *replicas, "count"),
        Measure("Preferred leaders by rack", *leaders, "count"),
    ]
    if all(r.before[2] is not None and r.after[2] is not None for r in shown):
        pair = (tuple(r.before[2] or 0 for r in shown), tuple(r.after[2] or 0 for r in shown))
        measures.append(Measure("Bytes by rack", *pair, "bytes"))
    head = (("Rack", False), ("Brokers", True), ("Replicas", True), ("after", True), ("Leaders", True), ("after", True),
            ("Bytes", True), ("after", True))  # fmt: skip
    body = [
        (text(r.rack or "none", 60), str(r.brokers), f"{r.before[0]:,}", f"{r.after[0]:,}", f"{r.before[1]:,}",
         f"{r.after[1]:,}", _size(r.before[2]), _size(r.after[2]))
        for r in shown
    ]  # fmt: skip
    more = f", the first {len(shown)} of {len(rows)}" if len(rows) > len(shown) else ""
    charts = el("div", *(load_chart(m, names) for m in measures), class_="charts")
    return el("section", el("h2", "Racks"), _KEY, charts, table(f"Each rack before and after{more}", head, body))


def moves_section(plan: Plan) -> Html:
    """The partitions that change, those with the most bytes first."""
    if not plan.moves:
        return el("section", el("h2", "Moves"), el("p", "No replica list changes."))
    shown = largest_moves(plan.moves, SHOWN_MOVES)
    rest = len(plan.moves) - len(shown)
    head = (("Topic", False), ("Partition", True), ("Before", False), ("After", False), ("To copy", True),
            ("Bytes", True))  # fmt: skip
    body = [
        (text(m.topic, 120), str(m.partition), _ids(m.before), _ids(m.after), str(len(m.adding)),
         _size(m.bytes_moved) if m.adding else "0 B")
        for m in shown
    ]  # fmt: skip
    more = f"; {rest:,} smaller not shown, they are in the plan file" if rest else ""
    caption = f"{counted(len(shown), 'partition')} of {len(plan.moves):,}, the largest first{more}"
    return el("section", el("h2", "Moves"), table(caption, head, body))


def _ids(replicas: Sequence[int]) -> str:
    more = f", \u2026 ({len(replicas)})" if len(replicas) > _SHOWN_IDS else ""
    return ", ".join(map(str, replicas[:_SHOWN_IDS])) + more


def dir_moves_section(plan: Plan) -> Html | None:
    """Copies that change their log dir inside a broker; None when there are none."""
    if not plan.dir_moves:
        return None
    shown = sorted(plan.dir_moves, key=lambda d: (-(d.size_bytes or 0), d.topic, d.partition, d.broker))[:SHOWN_MOVES]
    rest = len(plan.dir_moves) - len(shown)
    head = (("Broker", True), ("Topic", False), ("Partition", True), ("From", False), ("To", False), ("Bytes", True))
    body = [
        (str(d.broker), text(d.topic, 120), str(d.partition), text(d.source_dir, 120), text(d.target_dir, 120),
         _size(d.size_bytes))
        for d in shown
    ]  # fmt: skip
    more = f"; {rest} smaller ones not shown" if rest else ""
    caption = f"{counted(len(shown), 'copy', 'copies')} of {len(plan.dir_moves)}, the largest first{more}"
    return el("section", el("h2", "Moves between log dirs"), table(caption, head, body))


def frontier_section(points: Sequence[FrontierPoint]) -> Html | None:
    """What other bands would cost; None when they were not worked out."""
    if not points:
        return None
    ordered = sorted(points, key=lambda p: p.band_percent)
    head = (("Band", True), ("Bytes to move", True), ("Lower bound", True), ("Partitions", True))
    body = [
        (f"{p.band_percent:g} %", format_bytes(p.moved_bytes), format_bytes(p.bound_bytes), str(p.moves))
        for p in ordered[:SHOWN_MOVES]
    ]
    key = el(
        "p",
        el("span", Html('<i class="ka"></i>'), "bytes to move"),
        el("span", Html('<i class="kb"></i>'), "no plan needs less"),
        class_="key",
    )
    drawn = len({point.band_percent for point in ordered}) > 1  # one dot shows nothing that the table does not
    chart = el(
        "div", el("figure", el("figcaption", "Bytes to move for each band"), frontier_plot(ordered)), class_="charts"
    )
    plot = (key, chart) if drawn else ()
    return el("section", el("h2", "What other bands cost"), *plot, table("What each band costs", head, body))
