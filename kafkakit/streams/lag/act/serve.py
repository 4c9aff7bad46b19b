"""The service: clusters shared with other instances, figures on request, one summary line a minute."""

from collections.abc import Callable
from threading import Lock

from kafkakit.core.durations import epoch_ms
from kafkakit.core.errors import TerminatedRunError, TerminationRequested
from kafkakit.ports.clock import Clock
from kafkakit.streams.lag.act.cluster_shares import ClusterShares
from kafkakit.streams.lag.act.fleet import Fleet
from kafkakit.streams.lag.act.schedule import Schedule
from kafkakit.streams.lag.act.watcher import ClusterWatcher
from kafkakit.streams.lag.decide.condition import MonitorPhase
from kafkakit.streams.lag.decide.looks import Published

TICK_S = 1.0
SUMMARY_EVERY_S = 60.0
SEND_EVERY_S = 10.0
REACHED_S = 30.0
"""A cluster that gave no answer for so long is let go of, for another instance that may reach it."""
FRESH_S = 1.0


class LagService:
    """Watchers of all clusters, and the leases that decide which of them this instance monitors. `report` gets a line
    for each change."""

    def __init__(self, fleet: Fleet, shares: ClusterShares, clock: Clock, report: Callable[[str], None]) -> None:
        self._fleet, self._shares, self._clock, self._report = fleet, shares, clock, report
        self._lock = Lock()
        self._published: Published | None = None
        self._measured_s = 0.0
        self._records_before = 0

    def start(self) -> None:
        """Connect to all clusters; none is monitored before its lease is taken."""
        self._fleet.start(carrying=False)

    def published(self) -> Published:
        """What may be published now; measured at most once in `FRESH_S`. For any thread.

        The leases are checked each time: an instance that lost one publishes nothing of that cluster from then on.
        """
        with self._lock:
            now_s = self._clock.monotonic()
            if self._published is None or now_s - self._measured_s >= FRESH_S:
                self._published, self._measured_s = self._measured(), self._clock.monotonic()
            found = self._published
        ours = {w.name for w in self._fleet.watchers if self._is_ours(w)}
        if all(c.cluster in ours for c in found.conditions):
            return found
        return Published(
            at_ms=found.at_ms,
            tables=tuple(t for t in found.tables if t.cluster in ours),
            conditions=tuple(c for c in found.conditions if c.cluster in ours),
            others=tuple(sorted({*found.others, *(c.cluster for c in found.conditions if c.cluster not in ours)})),
            instances=found.instances,
        )

    def is_healthy(self) -> bool:
        """True while every watcher's thread runs, and of every monitored cluster all is read."""
        return not any(
            w.is_over or (self._is_ours(w) and (w.error is not None or w.condition().phase is MonitorPhase.BLIND))
            for w in self._fleet.watchers
        )

    def tick(self) -> None:
        """Renew, take and give clusters; to be called about every second by one thread."""
        now_s = self._clock.monotonic()
        by_id: dict[str, ClusterWatcher] = {}
        for watcher in self._fleet.watchers:
            if watcher.cluster_id and watcher.reached_s is not None and now_s - watcher.reached_s < REACHED_S:
                by_id.setdefault(watcher.cluster_id, watcher)
        changes = self._shares.tick(by_id)
        for cluster_id in changes.taken:
            by_id[cluster_id].carry.set()
            self._report(f"{by_id[cluster_id].name}: monitored by this instance from now on")
        for cluster_id, reason in changes.lost:
            for watcher in self._fleet.watchers:
                if watcher.cluster_id == cluster_id and watcher.carry.is_set():
                    watcher.carry.clear()
                    self._report(f"{watcher.name}: no longer monitored: {reason}")

    def summary(self, memory_bytes: int) -> str:
        """How the last minute went, in one line."""
        found = self.published()
        rows = sum(len(t) for t in found.tables)
        behind = sum(int((t.lag > 0).sum()) for t in found.tables)
        records = sum(c.totals.records for c in found.conditions)
        fresh, self._records_before = max(0, records - self._records_before), records
        blind = sum(c.blind_count for c in found.conditions)
        notes = sum(bool(c.notes) for c in found.conditions)
        return (
            f"monitors {len(found.conditions)} of {len(self._fleet.watchers)} clusters, {found.instances} instances; "
            f"{rows:,} group-partitions, {behind:,} behind; {fresh:,} commit records read; "
            f"{blind} unreadable partitions, {notes} clusters with notes; {memory_bytes >> 20} MiB"
        )

    def close(self) -> None:
        """Save what is known, then give the clusters to the others."""
        for name in self._fleet.close():
            self._report(f"{name}: did not end in time; its state is as of the last save")
        self._shares.close()

    def _measured(self) -> Published:
        carried = [(w, w.monitor) for w in self._fleet.watchers if self._is_ours(w)]
        return Published(
            tables=tuple(monitor.table() for _, monitor in carried if monitor is not None),
            conditions=tuple(w.condition() for w, _ in carried),
            others=tuple(sorted({w.name for w in self._fleet.watchers} - {w.name for w, _ in carried})),
            instances=self._shares.instances,
            at_ms=epoch_ms(self._clock.now()),
        )

    def _is_ours(self, watcher: ClusterWatcher) -> bool:
        return watcher.carry.is_set() and self._shares.holds(watcher.cluster_id)


def run_service(
    service: LagService,
    clock: Clock,
    *,
    report: Callable[[str], None],
    notify: Callable[..., bool],
    memory_bytes: Callable[[], int],
    send: Callable[[Published], None] | None = None,
) -> None:
    """Run until a stop is requested; raises `TerminatedRunError` for SIGTERM, after states are saved and leases given
    back."""
    schedule = Schedule(clock)
    schedule.set_due("summary", SUMMARY_EVERY_S)
    schedule.set_due("send", SEND_EVERY_S)
    try:
        service.start()
        notify("READY=1")
        while True:
            service.tick()
            notify("WATCHDOG=1")
            if send is not None and schedule.is_due("send", SEND_EVERY_S):
                send(service.published())
            if schedule.is_due("summary", SUMMARY_EVERY_S):
                line = service.summary(memory_bytes())
                report(line)
                notify(f"STATUS={line}")
            clock.sleep(TICK_S)
    except TerminationRequested:
        notify("STOPPING=1")
        raise TerminatedRunError("stopped on request; the state is saved and the clusters are released") from None
    finally:
        service.close()
