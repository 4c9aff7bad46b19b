"""`audit report --html`: one self-contained page about a run, with what is new first, and charts.

No script, nothing from the network (a content security policy says so), nothing but text that was escaped: names,
owners and messages come from outside. The page is bounded in size whatever the fleet's. Charts show how values of the
jobs' tables are distributed, and numbers over earlier runs.
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise

from kafkakit.audit.report.exports import rule_of
from kafkakit.audit.report.results import AuditView, severities, totals, worst_first
from kafkakit.core.findings import AuditFinding, Severity
from kafkakit.core.fleet_tables import JobResult
from kafkakit.core.quantities import count_of, format_rough_time
from kafkakit.core.text import cell
from kafkakit.report.pages import Area, Box, Chart, Label, PageTable, html_page, px, round_top

MOST_NEW = 200
MOST_WORST = 100
MOST_OF_A_JOB = 50
MOST_CLUSTERS = 300
MOST_RULES = 12
MOST_SENTENCES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFindings:
    """The worst of some findings, with how many there are in all."""

    caption: str
    findings: Sequence[AuditFinding]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownJob:
    """A job of the run; `missing` is what it did not look at."""

    summary: str
    error: str
    facts: Sequence[tuple[str, str]]
    rules: PageTable | None
    found: ShownFindings
    missing: Sequence[str]


def audit_page(view: AuditView) -> bytes:
    """The page as UTF-8; the same run and history give the same bytes. O(findings log findings), below 2 MB."""
    run, comparison = view.run, view.comparison
    charts = {
        "Distributions": distribution_charts(view),
        "Over the days": [*filter(None, [finding_trend(view)]), *fact_trends(view)],
    }
    return html_page(
        "audit.html",
        title=_result(view),
        subject=_subject(view),
        view=view,
        cards=_cards(view),
        since=_since(view),
        new=_worst(comparison.new if comparison else (), MOST_NEW),
        unseen_before=_worst(comparison.unseen_before if comparison else (), MOST_OF_A_JOB),
        gone=_worst(comparison.gone if comparison else (), MOST_OF_A_JOB),
        owners=_owner_table(view) if any(f.owner for f in run.findings) else None,
        clusters=_cluster_table(view) if view.clusters else None,
        worst=_worst(run.findings, MOST_WORST),
        drawn=[(title, found) for title, found in charts.items() if found],
        jobs=_jobs(view),
        codes=_code_table(view) if run.findings else None,
        most_sentences=MOST_SENTENCES,
    )


def _result(view: AuditView) -> str:
    """How many clusters have how many findings that matter, in a sentence."""
    clusters, day = count_of(len(view.clusters), "cluster"), view.run.spec.snapshot_date
    if view.comparison is None:
        return f"{clusters} on {day}: {totals(view.run.findings)}"
    return f"{clusters} on {day}: {len(view.comparison.new):,} new since {_since(view)}, {totals(view.run.findings)}"


def _since(view: AuditView) -> str:
    return view.history[-1].spec.snapshot_date if view.history else "the run before"


def _subject(view: AuditView) -> str:
    spec = view.run.spec
    compared = f"compared with {view.comparison.earlier}" if view.comparison else "no earlier run to compare with"
    made = f"run {spec.run_id} by kafkakit {spec.version or 'of unknown version'}"
    return f"Fleet audits of {spec.snapshot_date}: {made}; {compared}"


def _cards(view: AuditView) -> list[tuple[str, str]]:
    run = view.run
    news = [("new", view.comparison.new), ("gone", view.comparison.gone)] if view.comparison else []
    return [
        (str(len(view.clusters)), "clusters"),
        *((f"{number:,}", f"{severity}s") for severity, number in severities(run.findings).items()),
        *((f"{len(found):,}", name) for name, found in news),
        (str(len(view.failed)), "failed jobs"),
        (format_rough_time(sum(r.seconds for r in run.results)), "run time"),
    ]


def _worst(findings: Sequence[AuditFinding], most: int) -> ShownFindings:
    more = f"; the first {most:,}, all of them with -o json" if len(findings) > most else ""
    return ShownFindings(caption=f"{totals(findings)}{more}", findings=worst_first(findings)[:most])


def _owner_table(view: AuditView) -> PageTable:
    new = Counter(f.owner or "" for f in view.comparison.new) if view.comparison else Counter[str]()
    by_owner: dict[str, list[AuditFinding]] = {}
    for f in view.run.findings:
        by_owner.setdefault(f.owner or "", []).append(f)
    scores = {owner: sum(f.score for f in found) for owner, found in by_owner.items()}
    rows = [
        (owner or "none known", new[owner], *severities(by_owner[owner]).values(), f"{scores[owner]:,.6g}")
        for owner in sorted(by_owner, key=lambda name: (-scores[name], name))[:MOST_CLUSTERS]
    ]
    columns = ("owner", False), ("new", True), ("errors", True), ("warnings", True), ("notes", True), ("score", True)
    return PageTable(caption="findings by owner, worst first", columns=columns, rows=rows)


def _code_table(view: AuditView) -> PageTable:
    """What each code of a finding asks for, and what breaking it risks."""
    first = {f.rule: f for f in reversed(view.run.findings)}
    rules = [rule_of(code, finding) for code, finding in sorted(first.items())]
    columns = ("rule", False), ("name", False), ("what it says", False), ("why", False)
    rows = [(rule.code, rule.name, rule.summary, rule.why) for rule in rules]
    return PageTable(caption="the rules that have findings", columns=columns, rows=rows)


def _cluster_table(view: AuditView) -> PageTable:
    numbers = Counter((f.cluster, f.rule) for f in view.run.findings)
    of_rule = Counter(f.rule for f in view.run.findings)
    score: dict[str, float] = dict.fromkeys(view.clusters, 0.0)
    for f in view.run.findings:
        score[f.cluster] += f.score
    rules = sorted(of_rule, key=lambda rule: (-of_rule[rule], rule))
    shown, others = rules[:MOST_RULES], rules[MOST_RULES:]
    rows = []
    for name in sorted(view.clusters, key=lambda cluster: (-score[cluster], cluster))[:MOST_CLUSTERS]:
        counts = [numbers[name, rule] for rule in shown] + ([sum(numbers[name, r] for r in others)] if others else [])
        rows.append((name, f"{score[name]:,.6g}", *(count or "" for count in counts)))
    more = f"; the first {MOST_CLUSTERS} of {len(view.clusters)}" if len(view.clusters) > MOST_CLUSTERS else ""
    columns = [("cluster", False), ("score", True), *((rule, True) for rule in shown)]
    columns += [(f"{len(others)} other rules", True)] if others else []
    return PageTable(caption=f"findings by cluster and rule, worst first{more}", columns=columns, rows=rows)


def _jobs(view: AuditView) -> list[ShownJob]:
    found: dict[str, list[AuditFinding]] = {}
    for f in view.run.findings:
        found.setdefault(f.job, []).append(f)
    return [_job(result, found.get(result.job, [])) for result in view.run.results]


def _job(result: JobResult, findings: Sequence[AuditFinding]) -> ShownJob:
    state = "failed" if result.error else totals(findings)
    names = {f.rule: f.name for f in findings}
    rules = [(rule, names.get(rule, ""), number) for rule, number in sorted(result.rules.items())]
    columns = (("rule", False), ("name", False), ("findings", True))
    facts = [(name.replace("_", " "), cell(value)) for name, value in sorted(result.facts.items())]
    facts += [(f"rows of {name}", f"{number:,}") for name, number in sorted(result.tables.items())]
    clusters, took = count_of(len(result.clusters), "cluster"), format_rough_time(result.seconds)
    return ShownJob(
        summary=f"{result.job}: {state}; {clusters}, {took}",
        error=result.error,
        facts=facts,
        rules=PageTable(caption="findings by rule", columns=columns, rows=rules) if rules else None,
        found=_worst(findings, MOST_OF_A_JOB),
        missing=list(dict.fromkeys((*result.left_out, *result.skipped))),
    )


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


def distribution_charts(view: AuditView) -> list[Chart]:
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


def finding_trend(view: AuditView) -> Chart | None:
    """Findings by severity over the runs; None where there is but one."""
    runs = [*view.history, view.run]
    lines = [
        ([(run.spec.snapshot_date, sum(r.findings.get(severity, 0) for r in run.results)) for run in runs], mark)
        for severity, mark in _MARKS.items()
    ]
    note = "errors solid and dark, warnings solid and light, notes dashed"
    return replace(_lines("Findings", lines), note=note) if len(runs) > 1 else None


def fact_trends(view: AuditView) -> list[Chart]:
    """A chart for each number that a job of this run and of an earlier one reports, at most twelve."""
    charts = []
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
                charts.append(_lines(f"{result.job}: {name.replace('_', ' ')}", [(points, "la")]))
    return charts[:MOST_TRENDS]


def _bars(title: str, edges: Sequence[float], numbers: Sequence[int]) -> Chart:
    top = max(numbers)
    names = [f"{low:g} to {high:g}" for low, high in pairwise(edges)]
    boxes, labels = [], []
    for k, (name, number) in enumerate(zip([*names, f"{edges[-1]:g} and more"], numbers, strict=True)):
        y, width = 22 * k + 2, number * (_WIDTH - 170) / top
        boxes.append(Box("96", px(y + 3), px(width), "13", "a"))
        labels.append(Label(name, "90", px(y + 13), "end"))
        labels.append(Label(f"{number:,}", px(100 + width), px(y + 14)))
    height = 22 * len(numbers) + 4
    return Chart(title=title, caption=title, width=_WIDTH, height=height, boxes=boxes, labels=labels)


def _lines(title: str, lines: Sequence[tuple[Sequence[tuple[str, float]], str]]) -> Chart:
    """Lines of (date, value), the days to scale."""
    days = [date.fromisoformat(day).toordinal() for points, _ in lines for day, _ in points]
    first, last = min(days), max(days)
    most = max((value for points, _ in lines for _, value in points), default=0.0)
    area = Area(
        width=_WIDTH, height=_HEIGHT, left=58, right=10, top=10, bottom=26,
        reach=last - first or 1, most=round_top(max(4, math.ceil(most))),
    )  # fmt: skip
    curves = area.grid()
    for points, mark in lines:
        places = [(date.fromisoformat(day).toordinal() - first, max(0.0, value)) for day, value in points]
        curves.append(area.line(places, mark, "a" if mark == "la" else "b"))
    ends = area.ends(date.fromordinal(first).isoformat(), date.fromordinal(last).isoformat())
    labels = [*area.scale(lambda value: f"{value:,}", _GAP), *ends]
    return Chart(title=f"{title} by day", caption=title, width=_WIDTH, height=_HEIGHT, curves=curves, labels=labels)
