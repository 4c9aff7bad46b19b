"""The reports of an audit, a check, an explanation and a frontier, and the frontier as a page.

An audit says what the map does, what it reaches, what that must cost, what is wrong. A frontier is a table, a plot for
terminals, rows and data; its page is self-contained: the plot with bound and plan, the table, and why points are
impossible.
"""

from collections.abc import Iterator, Sequence

from kafkakit.core.findings import COLUMNS, FailOn, exit_code_of, finding_rows, findings_data
from kafkakit.core.quantities import count_of, format_bytes
from kafkakit.core.text import ShellCommand, few_of, sanitize
from kafkakit.placement.by_size.lp_relaxation import PPM
from kafkakit.report.pages import Area, Box, Chart, Label, PageTable, html_page, px
from kafkakit.report.report import (
    INDENT,
    Bar,
    NextCommands,
    Part,
    Remarks,
    Report,
    ResultTable,
    Section,
    attributes,
    findings_sections,
    gap_text,
    lines_of,
    text_plot,
)
from kafkakit.topicmappr.decide.audit import Audit, Yardstick, as_band
from kafkakit.topicmappr.decide.check import CheckReport
from kafkakit.topicmappr.decide.check_rules import CHECK_RULES, UNCHECKED_FOR
from kafkakit.topicmappr.decide.explain import BrokerReason, PartitionExplanation
from kafkakit.topicmappr.decide.frontier import Frontier, Point
from kafkakit.topicmappr.decide.requests import Metric
from kafkakit.topicmappr.report.balance import ids, sizes_words

Line = tuple[object, ...]


def audit_report(audit: Audit, source: str, fail_on: FailOn) -> Report:
    """What the map does, what it reaches and must cost, and what is wrong with it."""
    return Report(
        command="topicmappr audit",
        data=audit_data(audit, source),
        sections=audit_sections(audit, source),
        table=ResultTable(COLUMNS, finding_rows(audit.findings)),
        code=exit_code_of(audit.findings, fail_on),
    )


def audit_sections(audit: Audit, source: str) -> Iterator[Part]:
    """Everything for people, worst findings first, and what each of them risks."""
    yield from (*_audit_head(audit, source), "")
    yield ResultTable(("measure", "before", "after", "best"), _measures(audit))
    if costs := _costs(audit):
        yield from ("", "The same balance at the least cost:")
        yield ResultTable(("unit", "this map", "our plan", "lower bound", "gap"), costs)
        yield from (f"{INDENT}{name}: {y.argument}" for name, y in _yardsticks(audit))
    yield from ("", *findings_sections(audit.findings))
    told = {rule.name: rule.risk for rule in audit.rules}
    yield Section(
        "if it is applied:", [f"{name}: {told[name]}" for name in dict.fromkeys(f.rule for f in audit.findings)]
    )
    yield Remarks("note", audit.notes)


def _audit_head(audit: Audit, source: str) -> list[str]:
    t = audit.tally
    size = "" if not t.copies else ", of unknown size" if t.bytes_moved is None else f", {format_bytes(t.bytes_moved)}"
    return [
        f"Audit of {source} for cluster {audit.cluster_id}",
        f"  {count_of(t.entries, 'entry', 'entries')}: {t.changed} move replicas, {t.reordered} change the order only, "
        f"{t.unchanged} change nothing",
        f"  {count_of(t.copies, 'copy', 'copies')} to make{size}; {count_of(t.removed, 'replica')} to remove; "
        f"{count_of(t.leaders_moved, 'preferred leader')} to change",
        f"  judged over {count_of(len(audit.brokers), 'broker')}, {count_of(audit.topics, 'topic')}, "
        f"{count_of(audit.partitions, 'partition')}; {sizes_words(audit.storage)}",
    ]


def _measures(audit: Audit) -> list[Line]:
    rows: list[Line] = []
    best = audit.by_bytes.finest if audit.by_bytes else None
    if audit.free_range:
        shown = "-" if best is None or audit.banded else format_bytes(best)
        rows.append(("range of free bytes", *map(format_bytes, audit.free_range), shown))
    if audit.used_range:
        rows.append(("range of used bytes", *map(format_bytes, audit.used_range), "-"))
    if audit.band:
        shown = "-" if best is None or not audit.banded else f"{as_band(best):.4g}%"
        rows.append(("band of used bytes", *(f"{as_band(b):.4g}%" for b in audit.band), shown))
    old, new = audit.before, audit.after
    rows.append(("replicas a broker", f"{old.replicas_min} to {old.replicas_max}",
                 f"{new.replicas_min} to {new.replicas_max}", "-"))  # fmt: skip
    rows.append(("leaders a broker", f"{old.leaders_min} to {old.leaders_max}",
                 f"{new.leaders_min} to {new.leaders_max}", "-"))  # fmt: skip
    return rows


def _yardsticks(audit: Audit) -> Iterator[tuple[str, Yardstick]]:
    if audit.by_bytes is not None:
        yield "bytes", audit.by_bytes
    if audit.by_count is not None:
        yield "copies", audit.by_count


def _costs(audit: Audit) -> list[Line]:
    rows: list[Line] = []
    for name, y in _yardsticks(audit):
        best = None if y.best is None else _amount(name, y.best)
        bound = _amount(name, y.bound) if y.possible else "-"
        rows.append((name, _amount(name, y.spent), best, bound, gap_text(y.gap)))
    return rows


def _amount(unit: str, value: int) -> str:
    return format_bytes(value) if unit == "bytes" else str(value)


def audit_data(audit: Audit, source: str) -> dict[str, object]:
    """The audit for JSON and YAML."""
    return {
        "cluster_id": audit.cluster_id,
        "map": source,
        **attributes(audit, "brokers topics partitions"),
        "sizes": audit.storage,
        "tally": audit.tally,
        "free_range_bytes": _pair(audit.free_range),
        "used_range_bytes": _pair(audit.used_range),
        "band_millionths": _pair(audit.band),
        "replicas": _pair((audit.before.replicas_max - audit.before.replicas_min,
                           audit.after.replicas_max - audit.after.replicas_min)),
        "leaders": _pair((audit.before.leaders_max - audit.before.leaders_min,
                          audit.after.leaders_max - audit.after.leaders_min)),
        "bytes": _yardstick(audit.by_bytes),
        "copies": _yardstick(audit.by_count),
        **findings_data(audit.findings),
        # `mend` is the name of earlier versions for `repair`.
        "rules": [{"rule": r.name, "severity": r.severity, "risk": r.risk, "repair": r.repair, "mend": r.repair}
                  for r in audit.rules],
        "notes": audit.notes,
    }  # fmt: skip


def _pair(values: tuple[int, int] | None) -> dict[str, int] | None:
    return None if values is None else {"before": values[0], "after": values[1]}


def _yardstick(y: Yardstick | None) -> dict[str, object] | None:
    if y is None:
        return None
    return {
        "spent": y.spent,
        "lower_bound": y.bound if y.possible else None,
        "gap": y.gap,
        "best_plan": y.best,
        "max_deviation_before": y.before,
        "max_deviation_reached": y.reached,
        "max_deviation_compared": y.goal,
        # Names of earlier versions for the same.
        "tightness_before": y.before,
        "tightness_reached": y.reached,
        "tightness_compared": y.goal,
        "tightest_for_the_same": y.finest,
        **attributes(y, "possible argument"),
    }


def check_report(report: CheckReport, fail_on: FailOn) -> Report:
    """The findings, what they were looked for in, and which rules could not be checked."""
    unchecked = set(report.unchecked)
    return Report(
        command="topicmappr check",
        data={
            **attributes(report, "cluster_id brokers"),
            "topics": len(report.selection.selected),
            "topics_excluded": report.selection.excluded,
            **attributes(report, "partitions replicas"),
            "sizes": report.storage,
            **findings_data(report.findings),
            "rules": [
                {"rule": r.name, "severity": r.severity, "about": r.about, "checked": r.name not in unchecked}
                for r in CHECK_RULES.values()
            ],
            "notes": report.notes,
        },
        sections=_check_sections(report),
        table=ResultTable(COLUMNS, finding_rows(report.findings)),
        code=exit_code_of(report.findings, fail_on),
    )


def _check_sections(report: CheckReport) -> Iterator[Part]:
    yield (
        f"cluster {report.cluster_id}: {count_of(len(report.brokers), 'broker')}, "
        f"{count_of(len(report.selection.selected), 'topic')}, {count_of(report.partitions, 'partition')}, "
        f"{count_of(report.replicas, 'replica')}; {sizes_words(report.storage)}"
    )
    yield from ("", *findings_sections(report.findings))
    if report.unchecked:
        yield from ("", f"skipped: {', '.join(f'{name} ({UNCHECKED_FOR[name]})' for name in report.unchecked)}")
    yield Remarks("note", report.notes)


_SINGLY = 4


def explain_report(found: PartitionExplanation) -> Report:
    """A partition's fate and the reasons, with one row a broker."""
    parts = (("leaves", found.leaving), ("comes", found.coming), ("not-there", found.others))
    return Report(
        command="topicmappr explain",
        data=explanation_data(found),
        sections=explanation_lines(found),
        table=ResultTable(
            ("broker", "part", "kind", "words"),
            tuple((r.broker, part, r.kind, r.words) for part, reasons in parts for r in reasons),
        ),
    )


def explanation_lines(found: PartitionExplanation) -> Iterator[str]:
    """The explanation for people; brokers that are refused for one and the same reason stand on one line."""
    return map(sanitize, lines_of(_explanation(found)))


def _explanation(found: PartitionExplanation) -> Iterator[Part]:
    size = f" ({format_bytes(found.size_bytes)})" if found.size_bytes is not None else ""
    yield f"{found.key.topic} p{found.key.partition}{size}: {ids(found.before)} -> {ids(found.after)} {found.outcome}"
    if found.now is not None:
        shown = ids(found.now) if found.now else "no such partition"
        yield f"{INDENT}the cluster shows another list now: {shown}; the plan is out of date"
    yield from (INDENT + line for line in found.whole)
    yield from (f"{INDENT}warning: {line}" for line in found.warnings)
    for title, reasons in (("Leaves:", found.leaving), ("Comes:", found.coming)):
        yield Section(title, [f"{r.broker}: {r.words}" for r in reasons])
    yield Section("Not on the other brokers:", _group_reasons(found.others))


def _group_reasons(reasons: Sequence[BrokerReason]) -> Iterator[str]:
    """One line for brokers with the same words; many of a kind with their own words each are summed up."""
    same: dict[tuple[str, str], list[int]] = {}
    for reason in reasons:
        same.setdefault((reason.kind, reason.words), []).append(reason.broker)
    kinds: dict[str, list[tuple[str, list[int]]]] = {}
    for (kind, words), brokers in same.items():
        kinds.setdefault(kind, []).append((words, brokers))
    for kind, rows in kinds.items():
        yield from (f"{few_of(brokers)}: {words}" for words, brokers in rows[:_SINGLY])
        rest = [b for _, brokers in rows[_SINGLY:] for b in brokers]
        if rest:
            yield f"{few_of(rest)}: {kind} too (each with its figures in -o json)"


def explanation_data(found: PartitionExplanation) -> dict[str, object]:
    """The explanation for JSON and YAML."""
    return {
        **attributes(found.key, "topic partition"),
        **attributes(found, "before after now size_bytes outcome"),
        "summary": found.whole,
        **attributes(found, "leaving coming others warnings"),
    }


def deviation_text(metric: Metric, deviation: int) -> str:
    """A deviation in the flag's words: `5%`, or bytes."""
    if metric is Metric.BAND:
        return f"{deviation / PPM * 100:.4f}".rstrip("0").rstrip(".") + "%"
    return format_bytes(deviation)


def goal_option(metric: Metric, deviation: int) -> tuple[str, str]:
    """A deviation as an exact option of `topicmappr rebalance`."""
    if metric is Metric.BAND:
        return "--band", deviation_text(metric, deviation)
    return "--free-range", f"{deviation}B"


def frontier_report(frontier: Frontier, next_command: str | None, *, plain: bool) -> Report:
    """Table, plot and reasons; in the rows deviations are in millionths of the share or in bytes."""
    rows = tuple(
        (p.max_deviation, p.cost, p.bound, None if p.gap is None else f"{p.gap:.6g}", p.moves, p.reached, _code(p))
        for p in frontier.points
    )
    return Report(
        command="topicmappr frontier",
        data=frontier_data(frontier, next_command),
        sections=frontier_sections(frontier, next_command, plain=plain),
        table=ResultTable(("goal", "plan_bytes", "bound_bytes", "gap", "moves", "reached", "state"), rows),
    )


def frontier_sections(frontier: Frontier, next_command: str | None, *, plain: bool = False) -> Iterator[Part]:
    """Head, table, plot, reasons, what is the tightest, and the next command on a line of its own."""
    yield from (*_frontier_head(frontier), "")
    yield _table(frontier)
    yield from ("", *_plot(frontier, plain))
    reasons = [p for p in frontier.points if p.impossible]
    yield Section(
        "impossible:", [f"{deviation_text(frontier.metric, p.max_deviation)}: {p.impossible}" for p in reasons]
    )
    if frontier.tightest is not None:
        yield from ("", f"{_best_words(frontier.metric)}: {deviation_text(frontier.metric, frontier.tightest)}")
    yield Remarks("note", frontier.notes)
    yield Remarks("warning", frontier.warnings)
    if next_command:
        yield ""
        yield NextCommands((next_command,), f"next, for example{_refused_text(frontier)}:")


def _frontier_head(f: Frontier) -> list[str]:
    return [
        f"Bytes to copy for each {measure_text(f.metric)}",
        f"  cluster {f.cluster_id}: {counts(f)}; {sizes_words(f.storage)}",
        f"  {_now_words(f.metric)}: {deviation_text(f.metric, f.today)}",
    ]


def measure_text(metric: Metric) -> str:
    """What the metric measures."""
    return "band of used space" if metric is Metric.BAND else "range of free bytes"


def _now_words(metric: Metric) -> str:
    return "widest deviation now" if metric is Metric.BAND else "range of free bytes now"


def _best_words(metric: Metric) -> str:
    return "best achievable band" if metric is Metric.BAND else "best achievable range"


def counts(f: Frontier) -> str:
    """How much the frontier is about."""
    return (
        f"{count_of(f.brokers, 'broker')}, {count_of(len(f.topics), 'topic')}, "
        f"{count_of(f.partitions, 'partition')}, {count_of(f.replicas, 'replica')}"
    )


def _table(f: Frontier) -> ResultTable:
    name = "band" if f.metric is Metric.BAND else "free range"
    rows = [
        (
            deviation_text(f.metric, p.max_deviation),
            "-" if p.cost is None else format_bytes(p.cost),
            format_bytes(p.bound) if not p.impossible else "-",
            gap_text(p.gap),
            p.moves,
            state_of(f.metric, p),
        )
        for p in f.points
    ]
    return ResultTable((name, "plan", "lower bound", "gap", "moves", "state"), rows)


def state_of(metric: Metric, p: Point) -> str:
    """Impossible, no plan found, optimal, or whose plan it is."""
    if p.impossible:
        return "impossible"
    if p.cost is None:
        return "no plan found; not proven impossible"
    words = "optimal" if p.gap == 0 else "planned"
    return words if p.borrowed is None else f"{words}, the plan for {deviation_text(metric, p.borrowed)}"


def _plot(f: Frontier, plain: bool) -> list[str]:
    bars = [
        Bar(
            label=deviation_text(f.metric, p.max_deviation),
            bound=p.bound if not p.impossible else 0,
            value=p.cost,
            words="impossible" if p.impossible else "no plan" if p.cost is None else format_bytes(p.cost),
        )
        for p in f.points
    ]
    if not bars:
        return []
    key = "# lower bound, + plan above it" if plain else "\u2588 lower bound, \u2591 plan above it"
    return [*text_plot(bars, plain=plain), key]


def best_point(frontier: Frontier) -> Point | None:
    """The tightest point with a plan that copies something; None when there is none."""
    return next((p for p in reversed(frontier.points) if p.cost), None)


def rebalance_command(frontier: Frontier, options: tuple[tuple[str, str | None], ...], program: str) -> str | None:
    """The rebalance for the tightest point; `options` are those of the same selection and rules."""
    point = best_point(frontier)
    if point is None:
        return None
    goal = goal_option(frontier.metric, point.max_deviation)
    return str(ShellCommand("topicmappr rebalance", (), (*options, goal, ("--plan", "plan.json")), program))


def _code(p: Point) -> str:
    if p.impossible:
        return "impossible"
    return "not-found" if p.cost is None else "optimal" if p.gap == 0 else "feasible"


def frontier_data(frontier: Frontier, next_command: str | None) -> dict[str, object]:
    """The result for JSON and YAML; with the metric `band` `max_deviation` is in millionths of the share.

    `tightness` is its name before, and goes with the next version.
    """
    metric = frontier.metric
    return {
        "cluster_id": frontier.cluster_id,
        "metric": metric.value,
        **attributes(frontier, "brokers topics partitions replicas"),
        "sizes": frontier.storage,
        "today": frontier.today,
        "tightest_by_bound": frontier.tightest,
        "points": [
            {"goal": deviation_text(metric, p.max_deviation), "max_deviation": p.max_deviation,
             "tightness": p.max_deviation, "state": _code(p),
             "plan_bytes": p.cost, "bound_bytes": None if p.impossible else p.bound,
             **attributes(p, "gap moves reached"), "plan_of": p.borrowed, "reason": p.impossible}
            for p in frontier.points
        ],
        "next": next_command,
        **attributes(frontier, "notes warnings"),
    }  # fmt: skip


_MOST_REASONS = 50


def frontier_page(frontier: Frontier, next_command: str | None = None) -> bytes:
    """The page as UTF-8; the same frontier gives the same bytes."""
    metric = frontier.metric
    impossible = [(deviation_text(metric, p.max_deviation), p.impossible) for p in frontier.points if p.impossible]
    # A drawing of a single dot shows nothing.
    has_chart = len({p.max_deviation for p in frontier.points if not p.impossible}) > 1
    return html_page(
        "frontier.html",
        title=_result(frontier),
        frontier=frontier,
        measured=measure_text(metric),
        counts=counts(frontier),
        cards=_cards(frontier),
        chart=frontier_chart(frontier) if has_chart else None,
        points=_page_table(frontier),
        impossible=impossible[:_MOST_REASONS],
        next_command=next_command,
        refused=_refused_text(frontier),
        remarks=[*frontier.warnings, *frontier.notes][:_MOST_REASONS],
    )


def _result(f: Frontier) -> str:
    """What the loosest and the tightest goal with a plan cost, in a sentence."""
    planned = [p for p in f.points if p.cost is not None]
    name = "band" if f.metric is Metric.BAND else "free range"
    if not planned:
        return f"No goal for {f.cluster_id} has a plan"
    ends = dict.fromkeys((planned[0], planned[-1]))
    costs = [f"{deviation_text(f.metric, p.max_deviation)} costs {format_bytes(p.cost)}" for p in ends]
    return f"A {name} of {', '.join(costs)}"


def _cards(f: Frontier) -> list[tuple[str, str]]:
    tight = "unknown" if f.tightest is None else deviation_text(f.metric, f.tightest)
    cards = [(deviation_text(f.metric, f.today), _now_words(f.metric)), (tight, _best_words(f.metric))]
    planned = [p for p in f.points if p.cost is not None]
    if planned:
        last = planned[-1]
        cards.append((format_bytes(last.cost), f"to copy for {deviation_text(f.metric, last.max_deviation)}"))
        cards.append((gap_text(max(planned, key=lambda p: p.gap or 0).gap), "largest gap to the bound"))
    return cards


def frontier_chart(frontier: Frontier) -> Chart:
    """Two lines over the max deviation, the smallest at the left: plans and bound; impossible points are crosses."""
    points = sorted(frontier.points, key=lambda p: p.max_deviation)
    known = [p for p in points if not p.impossible]
    top = max((*(p.cost or p.bound for p in known), 1))
    reach = max((*(p.max_deviation for p in points), 1))
    area = Area(width=760, height=360, left=78, right=16, top=14, bottom=44, reach=reach, most=top)
    boxes = []
    if known and points[0].impossible:
        edge = max(frontier.tightest or 0, points[0].max_deviation)
        width = area.x(min(edge, known[0].max_deviation)) - area.left
        height = area.height - area.top - area.bottom
        boxes.append(Box(px(area.left), px(area.top), px(width), px(height), "shade"))
    bottom = px(area.height - area.bottom - 3)
    return Chart(
        title=f"Bytes to copy for each {measure_text(frontier.metric)}, with the proven lower bound",
        width=area.width,
        height=area.height,
        boxes=boxes,
        curves=[
            *area.grid(),
            area.line([(p.max_deviation, p.bound) for p in known], "lb dash", "b"),
            area.line([(p.max_deviation, p.cost) for p in known if p.cost is not None], "la", "a"),
        ],
        labels=[
            *area.scale(format_bytes, 6),
            *_ticks(area, frontier.metric, points),
            *(Label("\u00d7", px(area.x(p.max_deviation)), bottom, "middle") for p in points if p.impossible),
        ],
    )


def _ticks(area: Area, metric: Metric, points: Sequence[Point]) -> list[Label]:
    """Labels under the points, leaving out those that would overlap."""
    labels: list[Label] = []
    free = float(area.left)
    for p in points:
        label = deviation_text(metric, p.max_deviation)
        x, half = area.x(p.max_deviation), 3.4 * len(label)
        if x - half >= free - 20:
            labels.append(Label(label, px(x), px(area.height - 26), "middle", "axis"))
            free = x + half + 26
    middle = px((area.left + area.width - area.right) / 2)
    return [*labels, Label(measure_text(metric), middle, px(area.height - 8), "middle", "axis")]


def _page_table(f: Frontier) -> PageTable:
    columns = (("Goal", True), ("Plan", True), ("Lower bound", True), ("Gap", True), ("Moves", True), ("State", False))
    rows = [
        (deviation_text(f.metric, p.max_deviation), "-" if p.cost is None else format_bytes(p.cost),
         "-" if p.impossible else format_bytes(p.bound), gap_text(p.gap), "-" if p.moves is None else f"{p.moves:,}",
         state_of(f.metric, p))
        for p in f.points
    ]  # fmt: skip
    return PageTable(caption="Cost of each target, loosest first", columns=columns, rows=rows)


def _refused_text(frontier: Frontier) -> str:
    """What else the next command needs: what a frontier warns of keeps a plan from being written."""
    return " (once what the warnings say is repaired, or with --ignore-warns)" if frontier.warnings else ""
