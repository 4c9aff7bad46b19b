"""Watchers of several clusters, started and ended together."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kafkakit.core.durations import epoch_ms
from kafkakit.streams.lag.act.watcher import ClusterWatcher, MonitorContext, MonitoredCluster
from kafkakit.streams.lag.decide.looks import Look

COMMAND_CLOSE_S = 3.0
"""How long a command waits for its watchers at the end: one whose broker hangs must not hold it up."""


class Fleet:
    """Watchers of several clusters, in the order given."""

    def __init__(self, clusters: Sequence[MonitoredCluster], context: MonitorContext) -> None:
        self.watchers = tuple(ClusterWatcher(cluster, context) for cluster in clusters)
        self.clock = context.clock

    def start(self, *, carrying: bool) -> None:
        """Begin with all; `carrying` False waits for each watcher's `carry`."""
        for watcher in self.watchers:
            if carrying:
                watcher.carry.set()
            watcher.start()

    def close(self, timeout_s: float = 10.0) -> tuple[str, ...]:
        """End all, with their states saved, in so much time together; returns the names of those that did not end."""
        for watcher in self.watchers:
            watcher.stop()
        until_s = self.clock.monotonic() + timeout_s
        return tuple(w.name for w in self.watchers if not w.join(max(0.0, until_s - self.clock.monotonic())))

    def look(self) -> Look:
        """Measure what is known now."""
        conditions = tuple(watcher.condition() for watcher in self.watchers)
        monitors = (watcher.monitor for watcher in self.watchers)
        tables = tuple(monitor.table() for monitor in monitors if monitor is not None)
        return Look(at_ms=epoch_ms(self.clock.now()), tables=tables, conditions=conditions)


@contextmanager
def running_fleet(clusters: Sequence[MonitoredCluster], context: MonitorContext) -> Iterator[Fleet]:
    """A fleet that monitors all its clusters while the context is open."""
    fleet = Fleet(clusters, context)
    try:
        fleet.start(carrying=True)
        yield fleet
    finally:
        fleet.close(COMMAND_CLOSE_S)
