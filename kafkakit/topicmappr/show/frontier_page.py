"""The frontier as one self-contained page: the plot with bound and plan, the table, and why points are impossible."""

from collections.abc import Sequence

from kafkakit.core.quantities import format_bytes
from kafkakit.report.blocks import gap_text
from kafkakit.report.chart import Area, px, svg
from kafkakit.report.markup import Html, card_row, el, html_page, table, text
from kafkakit.topicmappr.decide.frontier.decision import Frontier
from kafkakit.topicmappr.decide.frontier.request import Metric
from kafkakit.topicmappr.decide.frontier.trace import Point
from kafkakit.topicmappr.show.frontier import counts, measured, shown, state_of

_MOST_REASONS = 50


def frontier_page(frontier: Frontier, next_command: str | None = None) -> bytes:
    """The page as UTF-8; the same frontier gives the same bytes."""
    what = measured(frontier.metric)
    taken = f"sizes from {frontier.storage.source} as of {frontier.storage.taken_at:%Y-%m-%d %H:%M:%S UTC}"
    body = [
        el("h1", "kafkakit topicmappr frontier"),
        el("p", "Cluster ", el("code", frontier.cluster_id), f": {counts(frontier)}; {taken}", class_="soft"),
        _cards(frontier),
        el(
            "section",
            el("h2", f"Bytes to copy for each {what}"),
            *_plot(frontier),
            _table(frontier),
        ),
        _reasons(frontier),
        _next(next_command),
        _remarks(frontier),
    ]  # fmt: skip
    return html_page(f"frontier of {frontier.cluster_id}", body)


def _plot(f: Frontier) -> tuple[Html, ...]:
    """The drawing with its key; nothing where it would be a single dot."""
    if len({p.max_deviation for p in f.points if not p.impossible}) < 2:
        return ()
    key = el("p", el("span", Html('<i class="ka"></i>'), "plan found"),
             el("span", Html('<i class="kb"></i>'), "lower bound: no plan needs less"), class_="key")  # fmt: skip
    return key, el("figure", frontier_svg(f))


def _cards(f: Frontier) -> Html:
    tight = "unknown" if f.tightest is None else shown(f.metric, f.tightest)
    cards = [(shown(f.metric, f.today), "today"), (tight, "tightest by the bound")]
    planned = [p for p in f.points if p.cost is not None]
    if planned:
        last = planned[-1]
        cards.append((format_bytes(last.cost), f"to copy for {shown(f.metric, last.max_deviation)}"))
        cards.append((gap_text(max(planned, key=lambda p: p.gap or 0).gap), "largest gap to the bound"))
    return card_row(cards)


def frontier_svg(frontier: Frontier) -> Html:
    """Two lines over the max deviation, the smallest at the left: plans and bound; impossible points are crosses."""
    points = sorted(frontier.points, key=lambda p: p.max_deviation)
    known = [p for p in points if not p.impossible]
    top = max((*(p.cost or p.bound for p in known), 1))
    reach = max((*(p.max_deviation for p in points), 1))
    area = Area(width=760, height=360, left=78, right=16, top=14, bottom=44, reach=reach, most=top)
    shapes = [*area.grid(format_bytes, 6), *_ticks(area, frontier.metric, points)]
    if known and points[0].impossible:
        edge = max(frontier.tightest or 0, points[0].max_deviation)
        width = area.x(min(edge, known[0].max_deviation)) - area.left
        shapes.append(el("rect", x=area.left, y=area.top, width=px(width), height=area.height - area.top - area.bottom,
                         class_="b", opacity="0.15"))  # fmt: skip
    shapes += area.line([(p.max_deviation, p.bound) for p in known], "lb dash", "b")
    shapes += area.line([(p.max_deviation, p.cost) for p in known if p.cost is not None], "la", "a")
    shapes += [
        el("text", "\u00d7", x=px(area.x(p.max_deviation)), y=area.height - area.bottom - 3, text_anchor="middle")
        for p in points
        if p.impossible
    ]
    title = f"Bytes to copy for each {measured(frontier.metric)}, with the proven lower bound"
    return svg(area.width, area.height, title, shapes)


def _ticks(area: Area, metric: Metric, points: Sequence[Point]) -> list[Html]:
    """Labels under the points, leaving out those that would overlap."""
    shapes: list[Html] = []
    free = float(area.left)
    for p in points:
        label = shown(metric, p.max_deviation)
        x, half = area.x(p.max_deviation), 3.4 * len(label)
        if x - half >= free - 20:
            shapes.append(el("text", label, x=px(x), y=area.height - 26, text_anchor="middle", class_="axis"))
            free = x + half + 26
    middle = px((area.left + area.width - area.right) / 2)
    shapes.append(el("text", measured(metric), x=middle, y=area.height - 8, text_anchor="middle", class_="axis"))
    return shapes


def _table(f: Frontier) -> Html:
    head = (("Goal", True), ("Plan", True), ("Lower bound", True), ("Gap", True), ("Moves", True), ("State", False))
    rows = [
        (shown(f.metric, p.max_deviation), "-" if p.cost is None else format_bytes(p.cost),
         "-" if p.impossible else format_bytes(p.bound), gap_text(p.gap), "-" if p.moves is None else f"{p.moves:,}",
         state_of(f.metric, p))
        for p in f.points
    ]  # fmt: skip
    return table("What each goal costs, loose to tight", head, rows)


def _reasons(f: Frontier) -> Html | None:
    why = [p for p in f.points if p.impossible]
    if not why:
        return None
    lines = [el("li", el("b", shown(f.metric, p.max_deviation)), ": ", text(p.impossible, 600)) for p in why]
    return el("section", el("h2", "Impossible"), el("ul", *lines[:_MOST_REASONS]))


def _remarks(f: Frontier) -> Html | None:
    lines = [*f.warnings, *f.notes]
    if not lines:
        return None
    return el("section", el("h2", "Warnings and notes"), el("ul", *(el("li", text(x)) for x in lines[:_MOST_REASONS])))


def _next(command: str | None) -> Html | None:
    if command is None:
        return None
    return el("section", el("h2", "Next"), el("p", "A plan for the tightest goal that has one:"), el("pre", command))
