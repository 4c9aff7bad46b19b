"""The demo's table while a phase runs, one line for a phase that is over, and the report at the end."""

from kafkakit.core.errors import OperationFailedError
from kafkakit.core.tables import text_table
from kafkakit.report.blocks import attributes
from kafkakit.report.report import Report
from kafkakit.streams.demo.decide import DemoSummary, PhaseFigures
from kafkakit.streams.model.route import LIVE, SLOW


def phase_text(figures: PhaseFigures) -> str:
    """The phase until now, for a screen that is replaced in place."""
    rows = [(name, lane.written, lane.handled, _ms(lane.p99_ms)) for name, lane in figures.lanes.items()]
    table = text_table(("lane", "written", "handled", "p99 ms"), rows)
    facts = f"waiting {figures.waiting}, rejected {figures.rejected}, deferred {figures.deferred}"
    down = [f"down: {', '.join(figures.down)}"] if figures.down else []
    last = [f"last problem: {problem}" for problem in figures.problems]
    return "\n".join([table, facts, *down, *last])


def phase_line(figures: PhaseFigures) -> str:
    """What happened in a phase that is over, in one line."""
    lanes = [
        f"{name}: written {lane.written}, handled {lane.handled}, p99 {_ms(lane.p99_ms) or '-'} ms"
        for name, lane in figures.lanes.items()
    ]
    counts = {"waiting": figures.waiting, "rejected": figures.rejected, "deferred": figures.deferred}
    return "; ".join([*lanes, *(f"{name} {count}" for name, count in counts.items() if count)])


def summary_report(summary: DemoSummary) -> Report:
    """What was written and what became of it; fails when a record was lost or rejected without reason."""
    events, counted = summary.events, summary.counted
    rejected, noted = len(set(events.rejected)), len(set(events.noted))
    figures = {
        "written": counted.acknowledged,
        "handled": len(set(events.handled)),
        "duplicates": counted.repeated,
        "rejected": rejected,
        "passed_batches": noted,
        "lost": len(counted.lost),
        **attributes(events, "lag deferred unacknowledged"),
        "written_on_second_cluster": events.on_other,
        "route_epoch": events.epoch,
    }
    burst = next((p for p in summary.phases if "burst" in p.title), None)
    data = {
        **figures,
        "wrongly_rejected": summary.wrongly_rejected,
        "seconds": round(summary.seconds, 1),
        "phases": [_phase_data(phase) for phase in summary.phases],
    }
    p99 = {name: _ms(burst.lanes[name].p99_ms) if burst else None for name in (LIVE, SLOW)}
    return Report(
        command="streams demo",
        data=data,
        text=(
            f"\nrecords written: {counted.acknowledged}, of these {events.on_other} on the second cluster\n"
            f"handled: {figures['handled']}, duplicates: {counted.repeated}, rejected: {rejected}, "
            f"batches passed over: {noted}, lost: {len(counted.lost)}, lag: {events.lag}\n"
            f"while the database was down {events.deferred} tries were put off, "
            f"and {sum(phase.rejected for phase in summary.phases if phase.deferred)} records rejected\n"
            f"during the burst the 99th percentile was {p99[LIVE]} ms on live, {p99[SLOW]} ms on slow\n"
            f"the whole demo took {summary.seconds:.0f} s"
        ),
        columns=tuple(figures),
        rows=(tuple(figures.values()),),
        failure=OperationFailedError("; ".join(summary.faults)) if summary.faults else None,
    )


def _phase_data(phase: PhaseFigures) -> dict[str, object]:
    lanes = {
        name: {"written": lane.written, "handled": lane.handled, "p99_ms": _ms(lane.p99_ms)}
        for name, lane in phase.lanes.items()
    }
    return {
        "phase": phase.title,
        "lanes": lanes,
        **attributes(phase, "rejected deferred waiting problems"),
    }


def _ms(value: float | None) -> int | None:
    return None if value is None else round(value)
