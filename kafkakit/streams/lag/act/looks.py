"""Looking at the lag of several clusters: once, when all is known, or again and again."""

from collections.abc import Callable
from dataclasses import dataclass

from kafkakit.core.errors import UsageError
from kafkakit.ports.clock import Clock
from kafkakit.ports.reporter import ProgressBar
from kafkakit.streams.lag.act.clusters import ClusterWatcher, Fleet
from kafkakit.streams.lag.act.monitor import MonitorPace
from kafkakit.streams.lag.decide.condition import MonitorCondition, MonitorPhase
from kafkakit.streams.lag.decide.measure.table import LagTable

ONCE_PACE = MonitorPace(ends_s=1.0, records_s=0.1)
ROUNDS = 2
UNREACHABLE_S = 15.0
NAP_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """All clusters at one moment; `missing` are those of which nothing can be said, with the reason."""

    at_ms: int
    tables: tuple[LagTable, ...]
    conditions: tuple[MonitorCondition, ...]
    missing: tuple[tuple[str, str], ...] = ()


def look_once(fleet: Fleet, clock: Clock, bar: ProgressBar, *, wait_s: float, rounds: int = ROUNDS) -> Look:
    """Wait until all commits, `rounds` samples of all ends, and the records that tell times are known; then measure.

    A cluster that does not answer for `UNREACHABLE_S`, or is not ready after `wait_s`, is given up: its figures, if
    there are any, carry their age. Raises `UsageError` where a cluster can never be read as it is configured.
    """
    began_s = clock.monotonic()
    while True:
        waited_s = clock.monotonic() - began_s
        for watcher in fleet.watchers:
            if isinstance(watcher.error, UsageError):
                raise watcher.error
        waiting = [w for w in fleet.watchers if not is_ready(w, rounds) and not _is_hopeless(w, waited_s)]
        if not waiting or waited_s >= wait_s:
            break
        _show(fleet, bar, waiting)
        clock.sleep(NAP_S)
    return look_now(fleet, clock)


def look_now(fleet: Fleet, clock: Clock) -> Look:
    """Measure what is known now."""
    conditions = fleet.conditions()
    missing = tuple(
        (c.cluster, c.reason or c.phase.value)
        for c in conditions
        if c.phase in (MonitorPhase.CONNECTING, MonitorPhase.REFUSED, MonitorPhase.UNREACHABLE)
        or (c.as_of_ms < 0 and c.partitions)
    )
    tables = fleet.tables()
    at_ms = int(clock.now().timestamp() * 1000)
    return Look(at_ms=at_ms, tables=tables, conditions=conditions, missing=missing)


def is_ready(watcher: ClusterWatcher, rounds: int = ROUNDS) -> bool:
    """True when everything that a look needs is there."""
    monitor = watcher.monitor
    return (
        monitor is not None
        and watcher.error is None
        and monitor.is_live
        and monitor.rounds >= rounds
        and monitor.reads_idle
    )


def watch(
    fleet: Fleet, clock: Clock, show: Callable[[Look], None], *, interval_s: float, times: int | None = None
) -> Look:
    """Show a look every `interval_s`, for ever or so many times; returns the last one."""
    shown = 0
    while True:
        look = look_now(fleet, clock)
        show(look)
        shown += 1
        if times is not None and shown >= times:
            return look
        clock.sleep(interval_s)


def _is_hopeless(watcher: ClusterWatcher, waited_s: float) -> bool:
    return watcher.error is not None and waited_s >= UNREACHABLE_S


def _show(fleet: Fleet, bar: ProgressBar, waiting: list[ClusterWatcher]) -> None:
    conditions = [w.condition() for w in fleet.watchers]
    done, total = sum(c.done for c in conditions), sum(c.total for c in conditions)
    records = sum(c.totals.records for c in conditions)
    names = ", ".join(w.name for w in waiting[:3])
    what = "reading commits" if any(c.phase is MonitorPhase.READING for c in conditions) else "sampling ends"
    bar.update(done, total, f"{what} of {names}, {records:,} records")
