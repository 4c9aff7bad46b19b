"""How sure a forecast is: which rates were assumed, which measured, and between which times the run should end."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kafkakit.core.quantities import format_rate
from kafkakit.execution.decide.schedule.catch_up import catch_up, readable_rate
from kafkakit.execution.decide.schedule.work import Disk, Limits, Rates, Schedule, Speeds, Step, StepKind, Task

THIN_S = 30.0
"""Shorter runs are made of fetchers that start, looks, elections, and bursts that a throttle lets through at first."""
THIN_ERROR_S = 10.0
ASSUMED_FACTOR = 4.0
MEASURED_FACTOR = 1.5
SUGGESTED_SHARE = 0.25
LEAST_SUGGESTED = 10_000_000
MEASURABLE_BYTES = 50_000_000
MEASURABLE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Seconds that a run takes at least and at most, equal where its basis is good; `basis` tells rates that are not
    a throttle's."""

    least_s: float
    most_s: float
    basis: tuple[str, ...] = ()

    @property
    def is_interval(self) -> bool:
        """True where one number would say more than is known."""
        return self.least_s < self.most_s


def speeds_of(efficiency: float, disks: Iterable[Disk], link_bytes_per_s: float | None) -> Speeds:
    """The speeds to plan with: a link does what a run without throttle measured, else what is assumed.

    Brokers whose logs take in more than that at this moment raise it: their links carry it.
    """
    traffic: dict[int, float] = {}
    for disk in disks:
        traffic[disk.place.broker] = traffic.get(disk.place.broker, 0.0) + disk.growth_bytes_per_s
    line = link_bytes_per_s or Speeds().line_bytes_per_s
    seen = max(traffic.values(), default=0.0)
    measured = link_bytes_per_s is not None or seen > line
    return Speeds(line_bytes_per_s=max(line, seen), is_measured=measured, efficiency=efficiency)


def forecast_of(schedule: Schedule, rates: Rates, speeds: Speeds) -> Forecast:
    """Judge the times of a schedule by where its rates come from; O(steps).

    A rate that is assumed may be wrong by a factor of 4, one that earlier copies reached by half; a run of less than
    30 s by 10 s besides.
    """
    copying = [s for s in schedule.steps if s.adding and s.size_bytes]
    free = any(_is_free(s, rates) for s in copying if s.kind is not StepKind.INSIDE)
    free_inside = rates.inside is None and any(s.kind is StepKind.INSIDE for s in copying)
    basis, factor = [], 1.0
    if free:
        origin, factor = ("measured", MEASURED_FACTOR) if speeds.is_measured else ("assumed", ASSUMED_FACTOR)
        basis.append(f"{origin}, since no throttle limits it: {format_rate(speeds.line_bytes_per_s)} a broker")
    if free_inside:
        factor = ASSUMED_FACTOR
        basis.append(f"assumed, since no throttle limits it: {format_rate(speeds.disk_bytes_per_s)} inside a broker")
    total = schedule.makespan_s
    spare = THIN_ERROR_S if copying and (factor > 1 or total < THIN_S) else 0.0
    return Forecast(
        least_s=total / factor if factor > 1 else max(total - spare, total / ASSUMED_FACTOR),
        most_s=total * factor + spare,
        basis=tuple(basis),
    )


def suggested_throttle(tasks: Sequence[Task], limits: Limits, speeds: Speeds) -> int:
    """A rate that leaves three quarters of a broker's link to clients, and still catches up with what logs take in."""
    rate = max(LEAST_SUGGESTED, readable_rate(speeds.line_bytes_per_s * SUGGESTED_SHARE))
    return catch_up(tasks, limits, Rates(into=rate, out=rate), speeds).smallest or rate


def is_free(steps: Iterable[Step], rates: Rates) -> bool:
    """True when a copy between brokers goes without any throttle."""
    return any(_is_free(s, rates) for s in steps if s.adding and s.size_bytes and s.kind is not StepKind.INSIDE)


def measured_link(schedule: Schedule, rates: Rates, seconds: float) -> float | None:
    """Bytes a second that the busiest broker reached in a run without throttle; None where that says little."""
    found = schedule.bottleneck
    if found is None or found.direction == "inside" or found.bytes < MEASURABLE_BYTES or seconds < MEASURABLE_S:
        return None
    limit = rates.into_broker(found.broker) if found.direction == "into" else rates.out_of_broker(found.broker)
    return found.bytes / seconds if limit is None else None


def _is_free(step: Step, rates: Rates) -> bool:
    out = None if step.leader is None else rates.out_of_broker(step.leader)
    return out is None and any(rates.into_broker(place.broker) is None for place in step.adding)
