"""Charts of a run's page: how values of the jobs' tables are distributed, and numbers over earlier runs."""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

from kafkakit.audit.show.view import RunView
from kafkakit.core.findings import Severity
from kafkakit.report import Area, Html, el, join, px, round_top, svg

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
