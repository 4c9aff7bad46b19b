"""`audit report --html`: one self-contained page about a run, with what is new first, and charts.

No script, nothing from the network (a content security policy says so), nothing but text that was escaped: names,
owners and messages come from outside. The page is bounded in size whatever the fleet's. Charts show how values of the
jobs' tables are distributed, and numbers over earlier runs.
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

from kafkakit.audit.report.results import RunView, severities, totals, worst_first
from kafkakit.core.findings import AuditFinding, Severity
from kafkakit.core.fleet_tables import JobResult
from kafkakit.core.quantities import counted, format_rough_time
from kafkakit.core.text import cell
from kafkakit.report.pages import Area, Child, Html, card_row, el, html_page, join, px, round_top, svg, table

MOST_NEW = 200
MOST_WORST = 100
MOST_OF_A_JOB = 50
MOST_CLUSTERS = 300
MOST_RULES = 12
MOST_SENTENCES = 200
_FINDING = (
    ("severity", False), ("rule", False), ("where", False), ("what", False), ("score", True), ("since", False),
    ("owner", False), ("change", False),
)  # fmt: skip


def audit_page(view: RunView) -> bytes:
    """The page as UTF-8; the same run and history give the same bytes. O(findings log findings), below 2 MB."""
    parts = [
        *_head(view),
        _sentences("Failed jobs: what they would have found is missing here", view.failed),
        _sentences("Left out, though it is part of that day", view.left_out),
        *_news(view),
        _owners(view),
        _fleet(view),
        _findings_section("Worst first", view.run.findings, MOST_WORST),
        _charts("Distributions", distribution_charts(view)),
        _charts("Over the days", [*filter(None, [finding_trend(view)]), *fact_trends(view)]),
        *_jobs(view),
        _sentences("Not looked at", view.skipped),
    ]
    return html_page(f"Fleet audits of {view.run.spec.snapshot_date}", parts)


def _head(view: RunView) -> list[Html]:
    run = view.run
    compared = f"compared with {view.comparison.earlier}" if view.comparison else "no earlier run to compare with"
    words = f"run {run.spec.run_id} by kafkakit {run.spec.version or 'of unknown version'}; {compared}"
    news = [("new", view.comparison.new), ("gone", view.comparison.gone)] if view.comparison else []
    cards = [
        (str(len(view.clusters)), "clusters"),
        *((f"{number:,}", f"{severity}s") for severity, number in severities(run.findings).items()),
        *((f"{len(found):,}", name) for name, found in news),
        (str(len(view.failed)), "failed jobs"),
        (format_rough_time(sum(r.seconds for r in run.results)), "run time"),
    ]
    return [el("h1", f"Fleet audits of {run.spec.snapshot_date}"), el("p", words, class_="soft"), card_row(cards)]


def _news(view: RunView) -> list[Html | None]:
    if view.comparison is None:
        return []
    found = view.comparison
    since = view.history[-1].spec.snapshot_date if view.history else "the run before"
    nothing = join([el("h2", f"New since {since}"), el("p", "Nothing.", class_="good")])
    return [
        _sentences("The runs differ", found.notes),
        _findings_section(f"New since {since}", found.new, MOST_NEW) or nothing,
        _findings_section("New because the run before did not look there", found.unseen_before, MOST_OF_A_JOB),
        _findings_section("Gone", found.gone, MOST_OF_A_JOB),
    ]


def _findings_section(title: str, findings: Sequence[AuditFinding], most: int) -> Html | None:
    return join([el("h2", title), _findings(findings, most)]) if findings else None


def _findings(findings: Sequence[AuditFinding], most: int) -> Html:
    rows = [
        (
            f.severity,
            el("span", f.rule, title=f.name or None),
            f.where,
            f.message,
            f"{f.score:,.6g}",
            f.since or "",
            f.owner or "",
            el("code", f.repair) if f.repair else f.hint,
        )
        for f in worst_first(findings)[:most]
    ]
    more = f"; the first {most:,}, all of them with -o json" if len(findings) > most else ""
    return table(f"{totals(findings)}{more}", _FINDING, rows)


def _owners(view: RunView) -> Html | None:
    if not any(f.owner for f in view.run.findings):
        return None
    new = Counter(f.owner or "" for f in view.comparison.new) if view.comparison else Counter[str]()
    by_owner: dict[str, list[AuditFinding]] = {}
    for f in view.run.findings:
        by_owner.setdefault(f.owner or "", []).append(f)
    scores = {owner: sum(f.score for f in found) for owner, found in by_owner.items()}
    rows: list[Iterable[Child]] = [
        (owner or "none known", new[owner], *severities(by_owner[owner]).values(), f"{scores[owner]:,.6g}")
        for owner in sorted(by_owner, key=lambda name: (-scores[name], name))[:MOST_CLUSTERS]
    ]
    head = ("owner", False), ("new", True), ("errors", True), ("warnings", True), ("notes", True), ("score", True)
    return join([el("h2", "Owners"), table("findings by owner, worst first", head, rows)])


def _fleet(view: RunView) -> Html | None:
    if not view.clusters:
        return None
    numbers = Counter((f.cluster, f.rule) for f in view.run.findings)
    of_rule = Counter(f.rule for f in view.run.findings)
    score: dict[str, float] = dict.fromkeys(view.clusters, 0.0)
    for f in view.run.findings:
        score[f.cluster] += f.score
    rules = sorted(of_rule, key=lambda rule: (-of_rule[rule], rule))
    shown, others = rules[:MOST_RULES], rules[MOST_RULES:]
    rows: list[Iterable[Child]] = []
    for name in sorted(view.clusters, key=lambda cluster: (-score[cluster], cluster))[:MOST_CLUSTERS]:
        counts = [numbers[name, rule] for rule in shown] + ([sum(numbers[name, r] for r in others)] if others else [])
        rows.append([name, f"{score[name]:,.6g}", *(count or "" for count in counts)])
    more = f"; the first {MOST_CLUSTERS} of {len(view.clusters)}" if len(view.clusters) > MOST_CLUSTERS else ""
    head = [("cluster", False), ("score", True), *((rule, True) for rule in shown)]
    head += [(f"{len(others)} other rules", True)] if others else []
    return join([el("h2", "Clusters"), table(f"findings by cluster and rule, worst first{more}", head, rows)])


def _jobs(view: RunView) -> list[Html]:
    found: dict[str, list[AuditFinding]] = {}
    for f in view.run.findings:
        found.setdefault(f.job, []).append(f)
    return [el("h2", "Jobs"), *(_job(result, found.get(result.job, [])) for result in view.run.results)]


def _job(result: JobResult, findings: Sequence[AuditFinding]) -> Html:
    state = "failed" if result.error else totals(findings)
    names = {f.rule: f.name for f in findings}
    rules = [(rule, names.get(rule, ""), number) for rule, number in sorted(result.rules.items())]
    facts = [(name.replace("_", " "), cell(value)) for name, value in sorted(result.facts.items())]
    facts += [(f"rows of {name}", f"{number:,}") for name, number in sorted(result.tables.items())]
    return el(
        "details",
        el("summary", f"{result.job}: {state}; {counted(len(result.clusters), 'cluster')}, ",
           format_rough_time(result.seconds)),
        el("p", result.error, class_="warn") if result.error else None,
        el("dl", *(part for name, value in facts for part in (el("dt", name), el("dd", value)))) if facts else None,
        table("findings by rule", (("rule", False), ("name", False), ("findings", True)), rules) if rules else None,
        _findings(findings, MOST_OF_A_JOB) if findings else None,
        _sentences("", dict.fromkeys((*result.left_out, *result.skipped))),
    )  # fmt: skip


def _sentences(title: str, sentences: Iterable[str]) -> Html | None:
    lines = list(sentences)
    if not lines:
        return None
    rest = len(lines) - MOST_SENTENCES
    items = [el("li", line) for line in [*lines[:MOST_SENTENCES], *([f"and {rest} more"] if rest > 0 else [])]]
    return join([el("h2", title) if title else None, el("div", el("ul", *items), class_="box")])


def _charts(title: str, charts: Sequence[Html]) -> Html | None:
    return join([el("h2", title), el("div", *charts, class_="charts")]) if charts else None


MOST_TRENDS = 12
_WIDTH, _HEIGHT, _GAP = 440, 200, 5
_MARKS = {Severity.ERROR: "la", Severity.WARNING: "lb", Severity.NOTE: "lb dash"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """A column of a job's table to count by ranges: `edges` are their lower ends, and values below the first are out.

    `scale` is by how much a value is divided before.
    """

    job: str
    table: str
    column: str
    title: str
    edges: tuple[float, ...]
    scale: float = 1.0


DISTRIBUTIONS: tuple[Distribution, ...] = (
    Distribution(job="retention", table="partitions", column="overshoot", edges=(0, 0.1, 0.25, 0.5, 1, 2, 5, 10),
                 title="Partitions by worst overshoot of retention, as a part of it"),
    Distribution(job="capacity", table="dirs", column="days_to_full", edges=(0, 7, 14, 30, 60, 90, 180, 365),
                 title="Log dirs by days until 85 % is used"),
    Distribution(job="lag", table="lag_hourly", column="max_lag_ms", edges=(0, 1, 10, 60, 300, 3600, 86_400),
                 scale=1000, title="Hours of a group's partitions by their largest lag in seconds"),
    Distribution(job="bombs", table="producers", column="largest_ratio", edges=(1, 2, 5, 10, 20, 50, 100, 1000),
                 title="Producers by the largest expansion of a batch"),
)  # fmt: skip


def distribution_charts(view: RunView) -> list[Html]:
    """A chart for each of `DISTRIBUTIONS` whose table the run has; linear in its rows."""
    charts = []
    for wanted in DISTRIBUTIONS:
        values = view.tables.get((wanted.job, wanted.table), {}).get(wanted.column, ())
        numbers = counts_by_range(values, wanted)
        if any(numbers):
            result = view.run.result(wanted.job)
            rows = result.tables.get(wanted.table, 0) if result is not None else 0
            part = f" (the first {len(values):,} of {rows:,})" if len(values) < rows else ""
            charts.append(_bars(wanted.title + part, wanted.edges, numbers))
    return charts


def counts_by_range(values: Sequence[object], wanted: Distribution) -> list[int]:
    """How many values lie in each range; those that are null or no numbers are left out."""
    found = (float(v) / wanted.scale for v in values if isinstance(v, int | float) and not math.isnan(v))
    numbers = Counter(bisect_right(wanted.edges, value) - 1 for value in found)
    return [numbers[k] for k in range(len(wanted.edges))]


def finding_trend(view: RunView) -> Html | None:
    """Findings by severity over the runs; None where there is but one."""
    runs = [*view.history, view.run]
    lines = [
        ([(run.spec.snapshot_date, sum(r.findings.get(severity, 0) for r in run.results)) for run in runs], mark)
        for severity, mark in _MARKS.items()
    ]
    key = el("p", "errors solid and dark, warnings solid and light, notes dashed", class_="soft")
    return el("figure", el("figcaption", "Findings"), _lines("Findings", lines), key) if len(runs) > 1 else None


def fact_trends(view: RunView) -> list[Html]:
    """A chart for each number that a job of this run and of an earlier one reports, at most twelve."""
    charts: list[Html] = []
    for result in view.run.results:
        for name in sorted(result.facts):
            points = [
                (run.spec.snapshot_date, float(value))
                for run in (*view.history, view.run)
                if (past := run.result(result.job)) is not None
                and isinstance(value := past.facts.get(name), int | float)
                and math.isfinite(value)
            ]
            if len(points) > 1:
                title = f"{result.job}: {name.replace('_', ' ')}"
                charts.append(el("figure", el("figcaption", title), _lines(title, [(points, "la")])))
    return charts[:MOST_TRENDS]


def _bars(title: str, edges: Sequence[float], numbers: Sequence[int]) -> Html:
    top = max(numbers)
    names = [f"{low:g} to {high:g}" for low, high in pairwise(edges)]
    shapes = []
    for k, (name, number) in enumerate(zip([*names, f"{edges[-1]:g} and more"], numbers, strict=True)):
        y, width = 22 * k + 2, number * (_WIDTH - 170) / top
        shapes += [
            el("text", name, x=90, y=y + 13, text_anchor="end"),
            el("rect", x=96, y=y + 3, width=px(width), height=13, class_="a"),
            el("text", f"{number:,}", x=px(100 + width), y=y + 14),
        ]
    return el("figure", el("figcaption", title), svg(_WIDTH, 22 * len(numbers) + 4, title, shapes))


def _lines(title: str, lines: Sequence[tuple[Sequence[tuple[str, float]], str]]) -> Html:
    """Lines of (date, value), the days to scale."""
    days = [date.fromisoformat(day).toordinal() for points, _ in lines for day, _ in points]
    first, last = min(days), max(days)
    most = max((value for points, _ in lines for _, value in points), default=0.0)
    area = Area(
        width=_WIDTH, height=_HEIGHT, left=58, right=10, top=10, bottom=26,
        reach=last - first or 1, most=round_top(max(4, math.ceil(most))),
    )  # fmt: skip
    shapes = area.grid(lambda value: f"{value:,}", _GAP)
    for points, mark in lines:
        places = [(date.fromisoformat(day).toordinal() - first, max(0.0, value)) for day, value in points]
        shapes += area.line(places, mark, "a" if mark == "la" else "b")
    ends = area.ends(date.fromordinal(first).isoformat(), date.fromordinal(last).isoformat())
    return join([svg(_WIDTH, _HEIGHT, f"{title} by day", [*shapes, *ends])])
