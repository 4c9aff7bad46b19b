"""The parts of the page that list things: brokers, racks, moves, moves between log dirs, the frontier."""

from collections.abc import Sequence

from kafkakit.core.plan import Plan
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.report.markup import Html, el, table, text
from kafkakit.topicmappr.decide.frontier.trace import FrontierPoint
from kafkakit.topicmappr.show.page.charts import MOST_BARS, frontier_plot, load_chart
from kafkakit.topicmappr.show.page.figures import BrokerRow, Measure, RackRow, largest_moves, measures_of

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
    chart = el(
        "div", el("figure", el("figcaption", "Bytes to move for each band"), frontier_plot(ordered)), class_="charts"
    )
    return el("section", el("h2", "Frontier"), key, chart, table("What each band costs", head, body))
