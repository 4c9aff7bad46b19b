"""Routes in a control store, and clients over fake clusters."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from kafkakit.adapters.host import SystemClock
from kafkakit.adapters.kafka.stream_producer import serialization_contexts
from kafkakit.core.errors import UsageError
from kafkakit.core.lease import Holder
from kafkakit.ports.stores import ControlStore
from kafkakit.ports.streams import StreamCluster
from kafkakit.streams.client.client import ClientParts, StreamClient
from kafkakit.streams.client.watch import WatchParts
from kafkakit.streams.model.route import (
    DEFAULT_LANES,
    Lane,
    Route,
    Segment,
    SegmentState,
    decode_route,
    encode_route,
    route_path,
)
from tests.fakes.control import FakeControlStore
from tests.fakes.stream_cluster import FakeStreamCluster

HOLDER = Holder(host="here", user="me", command="tests", pid=1)


class Routes:
    """What the commands of `streams routes` do to a document, in short."""

    def __init__(self, store: ControlStore, stream: str = "orders") -> None:
        self._store, self.stream = store, stream

    def read(self) -> Route:
        found = self._store.get(route_path(self.stream))
        assert found is not None
        return decode_route(found.value, "the route")

    def write(self, route: Route) -> None:
        found = self._store.get(route_path(self.stream))
        self._store.cas(route_path(self.stream), encode_route(route), found.version if found else None)

    def create(self, segment: Segment, lanes: Sequence[str] = DEFAULT_LANES) -> None:
        """Every lane but the first is paused."""
        first = Lane(name=lanes[0], segments=(segment,))
        others = (Lane(name=name, segments=(), is_paused=True) for name in lanes[1:])
        self.write(Route(stream=self.stream, epoch=1, next_segment=segment.id + 1, lanes=(first, *others)))

    def change(self, lane: str, *, segments: tuple[Segment, ...] | None = None, paused: bool | None = None) -> Route:
        route = self.read()
        changed = []
        for found in route.lanes:
            kept = found.segments if segments is None else segments
            stops = found.is_paused if paused is None else paused
            changed.append(replace(found, segments=kept, is_paused=stops) if found.name == lane else found)
        ids = [segment.id for each in changed for segment in each.segments]
        new = replace(
            route,
            epoch=route.epoch + 1,
            lanes=tuple(changed),
            next_segment=max([route.next_segment, *(i + 1 for i in ids)]),
        )
        self.write(new)
        return new

    def move(self, segment: Segment, lane: str = "live") -> Route:
        """The lane's writes go to a segment from now on; the one before is read until it is empty."""
        found = self.read().lane(lane)
        assert found is not None
        old = tuple(
            replace(each, state=SegmentState.DRAINING) if each.state is SegmentState.ACTIVE else each
            for each in found.segments
            if each.id != segment.id
        )
        return self.change(lane, segments=(*old[-8:], segment), paused=False)


class FakeClusters:
    """Clusters `a`, `b` ... behind profiles of these names, and a client over them."""

    def __init__(self, names: str = "ab") -> None:
        self.clusters = {name: FakeStreamCluster(f"cluster-{name}") for name in names}
        self.store = FakeControlStore()
        self.routes = Routes(self.store)
        self._ids = itertools.count(1)
        self._clients = itertools.count()

    def segment(self, cluster: str, partitions: int = 2, state: SegmentState = SegmentState.ACTIVE) -> Segment:
        """A new topic on a cluster, as a segment."""
        number = next(self._ids)
        topic = self.clusters[cluster].create(f"orders.live.{number}", partitions)
        return Segment(
            id=number,
            cluster=cluster,
            cluster_id=f"cluster-{cluster}",
            topic=f"orders.live.{number}",
            topic_id=topic.topic_id,
            partitions=partitions,
            state=state,
        )

    def client(self, watch: WatchParts | None = None) -> StreamClient:
        def open_cluster(profile: str) -> StreamCluster:
            if profile not in self.clusters:
                raise UsageError(f"there is no profile {profile!r}")
            return self.clusters[profile]

        def no_reader(*place: object) -> NoReturn:
            raise UsageError(f"nothing reads here: {place}")

        first = next(self._clients)
        parts = ClientParts(
            store=self.store,
            open_cluster=open_cluster,
            open_member=no_reader,
            open_guarded=no_reader,
            open_log=no_reader,
            clock=SystemClock(),
            random_bytes=lambda n: bytes((first + k) % 256 for k in range(n)),
            holder=HOLDER,
            watch=watch or WatchParts(),
            contexts=serialization_contexts,
        )
        return StreamClient(parts)

    def logs(self) -> list[tuple[str, str, int, int, bytes | None]]:
        """Every record that is anywhere: cluster id, topic, partition, offset and value."""
        found = []
        for cluster in self.clusters.values():
            for name, topic in cluster.topics.items():
                offsets: dict[int, int] = {}
                for partition, record in topic.log:
                    offset = offsets.setdefault(partition, 0)
                    offsets[partition] += 1
                    found.append((cluster.cluster_id, name, partition, offset, record.value))
        return found
