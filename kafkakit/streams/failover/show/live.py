"""The live view of an operation: a screen, one line a phase, data, and metrics."""

from dataclasses import asdict
from datetime import UTC, datetime

from kafkakit.core.quantities import format_percent, format_rough_time
from kafkakit.core.tables import text_table
from kafkakit.report.blocks import optional_section, section, text_of
from kafkakit.report.metrics_text import exposition, gauge, single
from kafkakit.report.report import Report
from kafkakit.streams.failover.decide.live import NO_PROCESS, GroupDrain, LiveView
from kafkakit.streams.failover.decide.operation import Step

PREFIX = "kafkakit_failover_"
TRAFFIC_COLUMNS = ("lane", "topic", "cluster", "state", "end", "records/s", "problem")
DRAIN_COLUMNS = ("group", "topic", "left", "read", "records/s", "ETA")
MOST_ROWS = 40


def live_report(view: LiveView) -> Report:
    """The last look of a watcher."""
    return Report(
        command="streams failover status",
        data=asdict(view),
        text=live_text(view),
        columns=TRAFFIC_COLUMNS,
        rows=_traffic_rows(view),
    )


def live_text(view: LiveView) -> str:
    """The whole view, to be replaced in place."""
    lines = [_head(view)]
    lines += [f"lease: {view.holder}"] if view.holder else []
    lines += optional_section("Waits for:" if view.reason else "Now:", list(view.lines[:5]))
    traffic, drain = _traffic_rows(view), tuple(_drain_row(each) for each in view.drain)
    lines += section("Traffic:", text_table(TRAFFIC_COLUMNS, traffic[:MOST_ROWS]).splitlines())
    lines += [f"and {len(traffic) - MOST_ROWS} more"] if len(traffic) > MOST_ROWS else []
    if drain:
        lines += section("Drain:", text_table(DRAIN_COLUMNS, drain[:MOST_ROWS]).splitlines())
        lines += [f"and {len(drain) - MOST_ROWS} more"] if len(drain) > MOST_ROWS else []
    if view.operation and view.holder == NO_PROCESS:
        lines += ["", f"no process works on it; to continue: kafkakit streams failover resume {view.stream}"]
    return text_of(lines)


def phase_line(view: LiveView) -> str:
    """A phase in one line."""
    at = datetime.fromtimestamp(view.at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return "; ".join((f"{at} {_head(view)}", *view.lines[:2]))


class PhaseLines:
    """Lets a line pass where the phase is another one than before: the operation, its step, or what it waits for."""

    def __init__(self) -> None:
        self._seen: tuple[str, str, str] | None = None

    def is_new(self, view: LiveView) -> bool:
        """Whether this view begins a phase."""
        seen, self._seen = self._seen, (view.operation, view.step, view.reason)
        return self._seen != seen


def live_metrics(view: LiveView) -> str:
    """The view as Prometheus text exposition; a series for each segment of the route and each required group."""
    families = [
        gauge("step", "1 for the step that the open operation is at, 0 for the others.",
              *(((("step", step),), float(view.step == step)) for step in Step if not step.is_over)),
        single("epoch", "The epoch of the route.", view.epoch),
        gauge("step_seconds", "How long the operation is at its step.", *_known(view.step_s)),
        gauge("eta_seconds", "Time until the old topics are drained.", *_known(view.eta_s)),
        gauge("waiting", "1 for what the operation waits for.",
              *(((("reason", view.reason),), 1.0) for _ in range(bool(view.reason)))),
        gauge("segment_end", "The sum of the ends of a segment's logs.",
              *((_segment(each.lane, each.topic, each.state), float(each.end))
                for each in view.traffic if each.end is not None)),
        gauge("segment_records_per_second", "What is written to a segment.",
              *((_segment(each.lane, each.topic, each.state), each.records_per_s)
                for each in view.traffic if each.records_per_s is not None)),
        gauge("group_records_left", "What a required group has to read of an old topic.",
              *(((("group", each.group), ("topic", each.topic)), float(each.left))
                for each in view.drain if each.left is not None)),
    ]  # fmt: skip
    return exposition(families, PREFIX, (("stream", view.stream),))


def _head(view: LiveView) -> str:
    if view.is_idle:
        return f"stream {view.stream}: no operation is open, epoch {view.epoch}"
    since = "" if view.step_s is None else f" for {format_rough_time(view.step_s)}"
    eta = "" if view.eta_s is None else f", drained in {format_rough_time(view.eta_s)}"
    return f"stream {view.stream}, operation {view.operation} to {view.to}: {view.step}{since}{eta}"


def _traffic_rows(view: LiveView) -> tuple[tuple[object, ...], ...]:
    return tuple(
        (
            each.lane,
            each.topic,
            each.cluster,
            each.state,
            "?" if each.end is None else each.end,
            "?" if each.records_per_s is None else round(each.records_per_s, 1),
            each.problem,
        )
        for each in view.traffic
    )


def _drain_row(each: GroupDrain) -> tuple[object, ...]:
    done = None if each.left is None or each.total is None else 1 - each.left / each.total if each.total else 1.0
    return (
        each.group,
        each.topic,
        "?" if each.left is None else each.left,
        "?" if done is None else format_percent(done),
        "?" if each.records_per_s is None else round(each.records_per_s, 1),
        "?" if each.eta_s is None else format_rough_time(each.eta_s),
    )


def _segment(lane: str, topic: str, state: str) -> tuple[tuple[str, str], ...]:
    return (("lane", lane), ("topic", topic), ("state", state))


def _known(value: float | None) -> tuple[tuple[tuple[tuple[str, str], ...], float], ...]:
    return () if value is None else (((), value),)
