"""The report of a frontier: a table, a plot for terminals, rows and data."""

from collections.abc import Mapping

from kafkakit.core.quantities import counted, format_bytes
from kafkakit.core.shell_words import quote
from kafkakit.core.tables import text_table
from kafkakit.placement.by_size.lp_relaxation import PPM
from kafkakit.report.blocks import attributes, gap_text, optional_section, text_of
from kafkakit.report.report import Report
from kafkakit.report.text_plot import Bar, text_plot
from kafkakit.topicmappr.decide.frontier.decision import Frontier
from kafkakit.topicmappr.decide.frontier.request import Metric
from kafkakit.topicmappr.decide.frontier.trace import Point
from kafkakit.topicmappr.show.plan_blocks import sizes_words

_SWITCHES = frozenset({"locality-scoped", "spread"})


def shown(metric: Metric, tightness: int) -> str:
    """A tightness in the flag's words: `5%`, or bytes."""
    if metric is Metric.BAND:
        return f"{tightness / PPM * 100:.4f}".rstrip("0").rstrip(".") + "%"
    return format_bytes(tightness)


def flag_value(metric: Metric, tightness: int) -> str:
    """A tightness as an exact option of `topicmappr rebalance`."""
    if metric is Metric.BAND:
        return f"--band {shown(metric, tightness)}"
    return f"--free-range {tightness}B"


def frontier_report(frontier: Frontier, next_command: str | None, *, plain: bool) -> Report:
    """Table, plot and reasons; in the rows tightness is in millionths of the share or in bytes."""
    return Report(
        command="topicmappr frontier",
        data=frontier_data(frontier, next_command),
        text=frontier_text(frontier, next_command, plain=plain),
        columns=("goal", "plan_bytes", "bound_bytes", "gap", "moves", "reached", "state"),
        rows=tuple(
            (p.max_deviation, p.cost, p.bound, None if p.gap is None else f"{p.gap:.6g}", p.moves, p.reached, _code(p))
            for p in frontier.points
        ),
    )


def frontier_text(frontier: Frontier, next_command: str | None, *, plain: bool = False) -> str:
    """Head, table, plot, reasons, what is the tightest, and the next command on a line of its own."""
    lines = [*_head(frontier), "", _table(frontier), "", *_plot(frontier, plain)]
    reasons = [p for p in frontier.points if p.impossible]
    lines += optional_section(
        "impossible:", [f"{shown(frontier.metric, p.max_deviation)}: {p.impossible}" for p in reasons]
    )
    if frontier.tightest is not None:
        lines += ["", f"tightest by the bound: {shown(frontier.metric, frontier.tightest)}"]
    lines += [f"note: {note}" for note in frontier.notes]
    lines += [f"warning: {line}" for line in frontier.warnings]
    if next_command:
        lines += ["", "next, for example:", next_command]
    return text_of(lines)


def _head(f: Frontier) -> list[str]:
    return [
        f"Bytes to copy for each {measured(f.metric)}",
        f"  cluster {f.cluster_id}: {counts(f)}; {sizes_words(f.storage)}",
        f"  today: {shown(f.metric, f.today)}",
    ]


def measured(metric: Metric) -> str:
    """What the metric measures."""
    return "band of used space" if metric is Metric.BAND else "range of free bytes"


def counts(f: Frontier) -> str:
    """How much the frontier is about."""
    return (
        f"{counted(f.brokers, 'broker')}, {counted(len(f.topics), 'topic')}, "
        f"{counted(f.partitions, 'partition')}, {counted(f.replicas, 'replica')}"
    )


def _table(f: Frontier) -> str:
    name = "band" if f.metric is Metric.BAND else "free range"
    rows = [
        (
            shown(f.metric, p.max_deviation),
            "-" if p.cost is None else format_bytes(p.cost),
            format_bytes(p.bound) if not p.impossible else "-",
            gap_text(p.gap),
            p.moves,
            state_of(f.metric, p),
        )
        for p in f.points
    ]
    return text_table((name, "plan", "lower bound", "gap", "moves", "state"), rows)


def state_of(metric: Metric, p: Point) -> str:
    """Impossible, no plan found, optimal, or whose plan it is."""
    if p.impossible:
        return "impossible"
    if p.cost is None:
        return "no plan found; not proven impossible"
    words = "optimal" if p.gap == 0 else "planned"
    return words if p.borrowed is None else f"{words}, the plan for {shown(metric, p.borrowed)}"


def _plot(f: Frontier, plain: bool) -> list[str]:
    bars = [
        Bar(
            label=shown(f.metric, p.max_deviation),
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


def rebalance_command(frontier: Frontier, words: Mapping[str, str], program: str) -> str | None:
    """The rebalance for the tightest point, with the same selection and rules.

    `words` are the recorded words of the command, `program` is how kafkakit is called.
    """
    point = best_point(frontier)
    if point is None:
        return None
    flags = [
        f"--{name}" if name in _SWITCHES else f"--{name} {quote(value)}"
        for name, value in words.items()
        if name != "command"
    ]
    goal = flag_value(frontier.metric, point.max_deviation)
    return " ".join([program, words["command"], *flags, goal, "--plan plan.json"])


def _code(p: Point) -> str:
    if p.impossible:
        return "impossible"
    return "not-found" if p.cost is None else "optimal" if p.gap == 0 else "feasible"


def frontier_data(frontier: Frontier, next_command: str | None) -> dict[str, object]:
    """The result for JSON and YAML; with the metric `band` tightness is in millionths of the share."""
    metric = frontier.metric
    return {
        "cluster_id": frontier.cluster_id,
        "metric": metric.value,
        **attributes(frontier, "brokers topics partitions replicas"),
        "sizes": frontier.storage,
        "today": frontier.today,
        "tightest_by_bound": frontier.tightest,
        "points": [
            {"goal": shown(metric, p.max_deviation), "tightness": p.max_deviation, "state": _code(p),
             "plan_bytes": p.cost, "bound_bytes": None if p.impossible else p.bound, "gap": p.gap, "moves": p.moves,
             "reached": p.reached, "plan_of": p.borrowed, "reason": p.impossible}
            for p in frontier.points
        ],
        "next": next_command,
        "notes": frontier.notes,
        "warnings": frontier.warnings,
    }  # fmt: skip
