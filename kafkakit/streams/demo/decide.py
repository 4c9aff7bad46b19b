"""The streams demo as values and as text: its clusters and commands, the change of the route, and what was counted.

There is a table while a phase runs, one line for a phase that is over, and a report at the end.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from kafkakit.core.errors import OperationFailedError, UsageError
from kafkakit.report.report import Remarks, Report, ResultTable, attributes, single_row, text_of
from kafkakit.sandbox.api import RecordTally, tally
from kafkakit.streams.model.route import LIVE, SLOW, Lane, LaneRule, Route, SegmentState

STREAM, GROUP = "orders", "billing"
PARTITIONS = 4
RULE = LaneRule(lane=SLOW, where='tenant = "bulk"')
_BURST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPlan:
    """What to show: the sandboxes `NAME-a` and `NAME-b`, records a second, and how long each phase takes."""

    name: str
    rate: int
    phase_s: float

    def __post_init__(self) -> None:
        if not 1 <= self.rate <= 2_000 or not 0.1 <= self.phase_s <= 60:
            raise UsageError("--rate is 1 to 2000, and --phase 100ms to 60s")

    @property
    def home(self) -> str:
        """The cluster, and profile, where the stream begins."""
        return f"{self.name}-a"

    @property
    def other(self) -> str:
        """The cluster that it is moved to."""
        return f"{self.name}-b"

    @property
    def burst(self) -> int:
        """Records of the burst: five phases' worth at once."""
        return max(1, round(_BURST * self.rate * self.phase_s))

    def making(self) -> tuple[list[str], ...]:
        """The commands that make the stream with its lanes."""
        words, shape = ["--profile", self.home, "streams"], ["--partitions", str(PARTITIONS), "--yes"]
        return (
            [*words, "create", STREAM, "--lanes", "live,dlq", "--partitions", f"{PARTITIONS},dlq=1", "--yes"],
            [*words, "lane", "add", STREAM, SLOW, *shape],
        )

    def rejected(self) -> list[str]:
        """The command that lists rejected records."""
        return ["--profile", self.home, "streams", "dlq", "list", STREAM]

    def opening(self) -> tuple[list[str], ...]:
        """The commands that open a segment of each working lane on the other cluster: read, and not written yet."""
        found: list[list[str]] = []
        for lane in (LIVE, SLOW):
            topic = f"{STREAM}.{lane}.moved"
            shape = ["--partitions", str(PARTITIONS), "--replication", "1", "--yes"]
            found.append(["--profile", self.other, "registry", "create", topic, *shape])
            place = ["--lane", lane, "--topic", topic, "--cluster", self.other, "--yes"]
            found.append(["--profile", self.home, "streams", "link", STREAM, *place])
        return tuple(found)


def move_route(route: Route, profile: str) -> Route:
    """The route with the opened segments of a cluster active, and those that were active before them draining."""
    return replace(route, lanes=tuple(_moved_lane(lane, profile) for lane in route.lanes))


def _moved_lane(lane: Lane, profile: str) -> Lane:
    opened = [s for s in lane.segments if s.state is SegmentState.OPENED and s.cluster == profile]
    if not opened:
        return lane
    before = [
        replace(s, state=SegmentState.DRAINING) if s.state is SegmentState.ACTIVE else s
        for s in lane.segments
        if s is not opened[0]
    ]
    return replace(lane, segments=(*before, replace(opened[0], state=SegmentState.ACTIVE)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneCounts:
    """Records of a lane that were written and handled, and the 99th percentile from `send` to the handler's end, ms."""

    written: int = 0
    handled: int = 0
    p99_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseFigures:
    """What happened in a phase, until now: `waiting` are records that are written and have no end yet."""

    title: str
    lanes: Mapping[str, LaneCounts]
    rejected: int
    deferred: int
    waiting: int
    down: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoEvents:
    """Everything that was counted, by record number: `poison` and `bombs` were sent to fail, `lag` None is unknown."""

    acknowledged: Sequence[int]
    handled: Sequence[int]
    rejected: Sequence[int]
    noted: Sequence[int]
    poison: Collection[int]
    unacknowledged: int
    deferred: int
    lag: int | None
    on_other: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSummary:
    """The end of the demo; `wrongly_rejected` are in the dead-letter lane and were no poison."""

    events: DemoEvents
    counted: RecordTally
    wrongly_rejected: tuple[int, ...]
    phases: tuple[PhaseFigures, ...]
    seconds: float = 0.0

    @property
    def faults(self) -> tuple[str, ...]:
        """What must not be, in words; empty after a good run."""
        found = []
        if self.counted.lost:
            found.append(f"{len(self.counted.lost)} of {self.counted.acknowledged} acknowledged records are lost")
        if self.wrongly_rejected:
            found.append(f"{len(self.wrongly_rejected)} records were rejected that could be handled")
        if self.events.lag != 0:
            lag = "unknown" if self.events.lag is None else self.events.lag
            found.append(f"the lag at the end is {lag}")
        return tuple(found)


def summary_of(events: DemoEvents, phases: Sequence[PhaseFigures]) -> DemoSummary:
    """Compare what went in with what became of it; a copy in the dead-letter lane counts once. O(records)."""
    rejected = {*events.rejected, *events.noted}
    return DemoSummary(
        events=events,
        counted=tally(events.acknowledged, [*events.handled, *sorted(rejected)]),
        wrongly_rejected=tuple(sorted(set(events.rejected) - set(events.poison))),
        phases=tuple(phases),
    )


def percentile(values: Sequence[float], share: float) -> float | None:
    """The nearest-rank percentile; None without values."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)] if values else None


def phase_text(figures: PhaseFigures) -> str:
    """The phase until now, for a screen that is replaced in place."""
    rows = [(name, lane.written, lane.handled, _ms(lane.p99_ms)) for name, lane in figures.lanes.items()]
    down = [", ".join(figures.down)] if figures.down else []
    return text_of(
        (
            ResultTable(("lane", "written", "handled", "p99 ms"), rows),
            f"waiting {figures.waiting}, rejected {figures.rejected}, deferred {figures.deferred}",
            Remarks("down", down),
            Remarks("last problem", figures.problems),
        )
    )


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
        sections=(
            "",
            f"records written: {counted.acknowledged}, of these {events.on_other} on the second cluster",
            f"handled: {figures['handled']}, duplicates: {counted.repeated}, rejected: {rejected}, "
            f"batches passed over: {noted}, lost: {len(counted.lost)}, lag: {events.lag}",
            f"while the database was down {events.deferred} tries were put off, "
            f"and {sum(phase.rejected for phase in summary.phases if phase.deferred)} records rejected",
            f"during the burst the 99th percentile was {p99[LIVE]} ms on live, {p99[SLOW]} ms on slow",
            f"the whole demo took {summary.seconds:.0f} s",
        ),
        table=single_row(figures),
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
