"""Several streams on clusters in memory, and processes that move them one series after another."""

from collections.abc import Sequence
from typing import Any

from kafkakit.core.lease import Holder, Life
from kafkakit.execution.act.leases import Lease
from kafkakit.ports.acting import Clock
from kafkakit.streams.failover.api import FailoverRequest, OperationKind, lease_of
from kafkakit.streams.failover.api_act import OperationPorts
from kafkakit.streams.model.route import Lane, Route, Segment, SegmentState
from kafkakit.streams.moves.act import (
    Journal,
    SeriesIntent,
    SeriesJournals,
    SeriesPlanner,
    SeriesRun,
    record_of,
    series_lease,
)
from kafkakit.streams.moves.decide import LoadUnit, MeasureRule, MovePace, Series, SeriesEnd, SeriesRecord
from tests.rigs.failover import FailoverScene

PARTITIONS = 2
KEY = "evacuate-p-id"


class MovesScene(FailoverScene):
    """Streams `s0`, `s1`, ... beside `orders` on cluster `p`; one producer and a group read and follow all of them."""

    def __init__(self, streams: int = 3) -> None:
        super().__init__()
        self.written: dict[str, int] = {}
        self.clock.on_sleep.append(self._write_on)
        self.names = ["orders", *(f"s{number}" for number in range(streams - 1))]
        for name in self.names[1:]:
            self.add_stream(name)
        self.producer()
        self.readers.append("billing")
        self.read_all("billing")

    def add_stream(self, name: str, cluster: str = "p", lanes: Sequence[str] = ("live",)) -> None:
        made = []
        for number, lane in enumerate(lanes, 1):
            topic, there = f"{name}.{lane}.1", self.clusters[cluster]
            there.admin.add_topic(topic, dict.fromkeys(range(PARTITIONS), (1,)))
            segment = Segment(
                id=number, cluster=cluster, cluster_id=f"{cluster}-id", topic=topic, partitions=PARTITIONS,
                topic_id=there.admin.topics[topic].topic_id, state=SegmentState.ACTIVE,
            )  # fmt: skip
            made.append(Lane(name=lane, segments=(segment,)))
            there.log.follow()
        route = Route(stream=name, epoch=1, next_segment=len(made) + 1, lanes=tuple(made))
        self.routes.create(route, by="me", what="create", at_ms=1)
        if name not in self.names:
            self.names.append(name)

    def rate(self, stream: str, records_per_s: int, size: int = 100) -> None:
        """Let a producer write to the live lane of a stream as the clock moves, records of so many bytes."""
        segment = self.active(stream)
        self.written[stream] = records_per_s
        self.write(segment.topic, 10, cluster=segment.cluster)
        self.clusters[segment.cluster].admin.write(segment.topic, 0, 10 * size)

    def _write_on(self, seconds: float) -> None:
        for stream, rate in self.written.items() if seconds >= 1 else ():
            segment = self.active(stream)
            self.write(segment.topic, int(rate * seconds), cluster=segment.cluster)

    def active(self, stream: str, lane: str = "live") -> Segment:
        found = self.routes.existing(stream).route.lane(lane)
        assert found is not None
        assert found.active is not None
        return found.active

    def where(self) -> dict[str, str]:
        """The cluster of each stream."""
        return {name: self.active(name).cluster for name in self.names}

    def tick(self) -> None:
        routes = [self.routes.existing(name).route for name in getattr(self, "names", ["orders"])]
        for client in self.clients:
            client.beat += client.is_live
            if client.is_live and client.follows:
                client.epoch = max(route.epoch for route in routes)
        for group in self.readers:
            self.read_all(group)

    def read_all(self, group: str) -> None:
        for name in self.names:
            for lane in self.routes.existing(name).route.lanes:
                for segment in lane.readable:
                    cluster = self.clusters[segment.cluster]
                    if not cluster.is_away:
                        cluster.log.follow()
                        for n in range(segment.partitions):
                            self.commit(group, segment, n, self.end_of(segment.topic, n, segment.cluster))

    # -- processes ----------------------------------------------------------------------------------

    def ports(self, clock: Clock | None = None) -> OperationPorts:
        return OperationPorts(
            store=self.store, clock=clock or self.clock, open_cluster=self.open_cluster,
            open_lease=lambda stream: self.lease(lease_of(stream)), timeout_s=lambda _: 1.0, reporter=self.reporter,
            random_hex=lambda: f"{next(self._ids):08x}", operator="tester", version="1", command="test",
        )  # fmt: skip

    def lease(self, path: str) -> Lease:
        holder = Holder(host="h", user="u", command="c", pid=next(self._ids))
        return Lease(
            self.store, self.clock, path, holder, what=path, life_of=lambda _: Life.GONE, say=self.reporter.say
        )

    def planner(self, parts: Any = None, **more: Any) -> Any:
        template = FailoverRequest(**{"stream": "", "to": "", "kind": OperationKind.MOVE, **more})
        return SeriesPlanner(self.ports(), template, MeasureRule(unit=LoadUnit.RECORDS, window_s=10.0))

    def intent(self, planner: SeriesPlanner, *targets: str) -> SeriesIntent:
        return SeriesIntent(KEY, targets, lambda: planner.evacuation("p", targets))

    def newest(self, key: str = KEY) -> Journal | None:
        return SeriesJournals(self.store, self.clock, key).newest()

    def record(self, key: str = KEY) -> SeriesRecord:
        found = self.newest(key)
        assert found is not None
        return record_of(found)

    def carry_out(self, series: Series, journal: Journal | None, pace: MovePace, wait_s: float = 30.0) -> SeriesEnd:
        """What the commands do with a plan."""
        lease = self.lease(series_lease(series.key))
        lease.acquire()
        journal = journal or SeriesJournals(self.store, self.clock, series.key).begin(series)
        try:
            return SeriesRun(self.ports, self.clock, lease, journal, self.routes).run(pace, wait_s)
        finally:
            lease.release()

    def evacuate(self, *targets: str, pace: MovePace | None = None, replan: bool = False, **more: Any) -> SeriesEnd:
        """What `streams evacuate p` does, in a process of its own."""
        planner = self.planner(**more)
        intent = self.intent(planner, *(targets or ("q",)))
        journal, series = planner.series_for(self.newest(), intent, is_replanned=replan)
        if journal is not None:
            planner.amend(journal, intent)
        return self.carry_out(series, journal, pace or MovePace(at_once=2))
