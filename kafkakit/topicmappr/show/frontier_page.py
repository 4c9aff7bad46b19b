"""The frontier as one self-contained page: the plot with bound and plan, the table, and why points are impossible."""

from collections.abc import Sequence

from kafkakit.core.quantities import format_bytes
from kafkakit.report.blocks import gap_text
from kafkakit.report.markup import Html, el, html_page, join, table, text
from kafkakit.topicmappr.decide.frontier.decision import Frontier
from kafkakit.topicmappr.decide.frontier.request import Metric
from kafkakit.topicmappr.decide.frontier.trace import Point
from kafkakit.topicmappr.show.frontier import counts, measured, shown, state_of

_WIDTH, _HEIGHT = 760, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 16, 14, 44
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
            el("p", el("span", Html('<i class="ka"></i>'), "plan found"),
               el("span", Html('<i class="kb"></i>'), "no plan needs less"), class_="key"),
            el("figure", frontier_svg(frontier)),
            _table(frontier),
        ),
        _reasons(frontier),
        _remarks(frontier),
        _next(next_command),
    ]  # fmt: skip
    return html_page(f"frontier of {frontier.cluster_id}", body)


def _cards(f: Frontier) -> Html:
    tight = "unknown" if f.tightest is None else shown(f.metric, f.tightest)
    cards = [(shown(f.metric, f.today), "today"), (tight, "tightest by the bound")]
    planned = [p for p in f.points if p.cost is not None]
    if planned:
        last = planned[-1]
        cards.append((format_bytes(last.cost), f"to copy for {shown(f.metric, last.max_deviation)}"))
        cards.append((gap_text(max(planned, key=lambda p: p.gap or 0).gap), "largest gap to the bound"))
    return el("div", *(el("div", el("b", value), el("span", name), class_="card") for value, name in cards),
              class_="cards")  # fmt: skip


def frontier_svg(frontier: Frontier) -> Html:
    """Two lines over tightness, tight to the left: the plans and the bound; impossible points are crosses."""
    points = sorted(frontier.points, key=lambda p: p.max_deviation)
    known = [p for p in points if not p.impossible]
    top = max((*(p.cost or p.bound for p in known), 1))
    reach = max((*(p.max_deviation for p in points), 1))
    shapes: list[Html] = [*_grid(top), *_ticks(frontier.metric, points, reach)]
    if known and points[0].impossible:
        edge = max(frontier.tightest or 0, points[0].max_deviation)
        width = _x(min(edge, known[0].max_deviation), reach) - _LEFT
        shapes.append(el("rect", x=_LEFT, y=_TOP, width=_px(width), height=_HEIGHT - _TOP - _BOTTOM, class_="b",
                         opacity="0.15"))  # fmt: skip
    planned = [p for p in known if p.cost is not None]
    bound = [(_x(p.max_deviation, reach), _y(p.bound, top)) for p in known]
    plans = [(_x(p.max_deviation, reach), _y(p.cost or 0, top)) for p in planned]
    for places, line, dot in ((bound, "lb dash", "b"), (plans, "la", "a")):
        shapes.append(el("polyline", points=Html(" ".join(f"{_px(x)},{_px(y)}" for x, y in places)), class_=line))
        shapes += [el("circle", cx=_px(x), cy=_px(y), r=3, class_=dot) for x, y in places]
    shapes += [
        el("text", "\u00d7", x=_px(_x(p.max_deviation, reach)), y=_HEIGHT - _BOTTOM - 3, text_anchor="middle")
        for p in points
        if p.impossible
    ]
    title = text(f"Bytes to copy for each {measured(frontier.metric)}, with the proven lower bound")
    return Html(
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{title}"><title>{title}</title>'
        f"{join(shapes)}</svg>"
    )


def _grid(top: int) -> list[Html]:
    shapes = []
    for quarter in range(5):
        value = top * quarter // 4
        y = _y(value, top)
        shapes.append(el("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=_px(y), y2=_px(y), class_="grid"))
        shapes.append(el("text", format_bytes(value), x=_LEFT - 6, y=_px(y + 4), text_anchor="end", class_="axis"))
    return shapes


def _ticks(metric: Metric, points: Sequence[Point], reach: int) -> list[Html]:
    """Labels under the points, leaving out those that would overlap."""
    shapes: list[Html] = []
    free = float(_LEFT)
    for p in points:
        label = shown(metric, p.max_deviation)
        x, half = _x(p.max_deviation, reach), 3.4 * len(label)
        if x - half >= free - 20:
            shapes.append(el("text", label, x=_px(x), y=_HEIGHT - 26, text_anchor="middle", class_="axis"))
            free = x + half + 26
    middle = _px((_LEFT + _WIDTH - _RIGHT) / 2)
    shapes.append(el("text", measured(metric), x=middle, y=_HEIGHT - 8, text_anchor="middle", class_="axis"))
    return shapes


def _x(value: int, reach: int) -> float:
    return _LEFT + value * (_WIDTH - _LEFT - _RIGHT) / reach


def _y(value: int, top: int) -> float:
    return _HEIGHT - _BOTTOM - value * (_HEIGHT - _TOP - _BOTTOM) / top


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


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
