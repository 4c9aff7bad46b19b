"""Looking at the lag of several clusters: once, when all is known, or again and again."""

from collections.abc import Callable

from kafkakit.core.errors import UsageError
from kafkakit.ports.reporter import ProgressBar, Reporter, Screen
from kafkakit.streams.lag.act.fleet import Fleet
from kafkakit.streams.lag.act.monitor import MonitorPace
from kafkakit.streams.lag.act.watcher import ClusterWatcher
from kafkakit.streams.lag.decide.condition import MonitorPhase
from kafkakit.streams.lag.decide.looks import Look
from kafkakit.streams.lag.decide.views.selecting import ViewRequest
from kafkakit.streams.lag.show.changes import Statuses, change_lines, statuses_of
from kafkakit.streams.lag.show.views import view_text

ONCE_PACE = MonitorPace(ends_s=1.0, records_s=0.1)
ROUNDS = 2
UNREACHABLE_S = 15.0
NAP_S = 0.05


def look_once(fleet: Fleet, reporter: Reporter, *, wait_s: float, rounds: int = ROUNDS) -> Look:
    """Wait until all commits, `rounds` samples of all ends and the times of records are known; then measure.

    A cluster that does not answer for `UNREACHABLE_S`, or is not ready after `wait_s`, is given up: its figures, if
    there are any, carry their age. Raises `UsageError` where a cluster can never be read as it is configured.
    """
    clock = fleet.clock
    began_s = clock.monotonic()
    with reporter.progress("reading commits") as bar:
        while True:
            waited_s = clock.monotonic() - began_s
            for watcher in fleet.watchers:
                if isinstance(watcher.error, UsageError):
                    raise watcher.error
            waiting = [w for w in fleet.watchers if not _is_ready(w, rounds) and not _is_hopeless(w, waited_s)]
            if not waiting or waited_s >= wait_s:
                return fleet.look()
            _show_progress(fleet, bar, waiting)
            clock.sleep(NAP_S)


def watch_looks(fleet: Fleet, show: Callable[[Look], None], *, interval_s: float, count: int | None = None) -> Look:
    """Show a look every `interval_s`, without an end or so many times; returns the last one."""
    shown = 0
    while True:
        look = fleet.look()
        show(look)
        shown += 1
        if count is not None and shown >= count:
            return look
        fleet.clock.sleep(interval_s)


class LookDisplay:
    """Looks on a screen: the table `in_place`, or else a line for each change since the look before."""

    def __init__(self, screen: Screen, request: ViewRequest, *, in_place: bool) -> None:
        self._screen, self._request, self._in_place = screen, request, in_place
        self._statuses: Statuses = {}
        self._notes: frozenset[str] = frozenset()

    def show(self, look: Look) -> None:
        """Show one look."""
        view = self._request.of(look.tables)
        if self._in_place:
            self._screen.show(view_text(view, look.conditions, look.at_ms), "")
            return
        notes = frozenset(f"{c.cluster}: {note}" for c in look.conditions for note in c.notes)
        for line in (*change_lines(self._statuses, view), *sorted(notes - self._notes)):
            self._screen.show("", line)
        self._statuses, self._notes = statuses_of(view), notes


def _is_ready(watcher: ClusterWatcher, rounds: int) -> bool:
    """True when everything that a look needs is there."""
    monitor = watcher.monitor
    return (
        monitor is not None
        and watcher.error is None
        and monitor.is_live
        and monitor.rounds >= rounds
        and monitor.reads_idle
    )


def _is_hopeless(watcher: ClusterWatcher, waited_s: float) -> bool:
    return watcher.error is not None and waited_s >= UNREACHABLE_S


def _show_progress(fleet: Fleet, bar: ProgressBar, waiting: list[ClusterWatcher]) -> None:
    conditions = [w.condition() for w in fleet.watchers]
    done, total = sum(c.done for c in conditions), sum(c.total for c in conditions)
    records = sum(c.totals.records for c in conditions)
    names = ", ".join(w.name for w in waiting[:3])
    what = "reading commits" if any(c.phase is MonitorPhase.READING for c in conditions) else "sampling ends"
    bar.update(done, total, f"{what} of {names}, {records:,} records")
