"""The clusters of a stream's route, opened on first use and checked against the route."""

from collections.abc import Callable, Mapping

from kafkakit.core.errors import RefusedError, TryLaterError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.cluster_clients import ClusterClients
from kafkakit.streams.model.commit import topic_id_bytes
from kafkakit.streams.model.route import Lane, Route, Segment


class StreamClusters:
    """The clusters by the profile that the route names; `open_ports` is called once for each."""

    def __init__(self, open_ports: Callable[[str], ClusterClients]) -> None:
        self._open, self._ports = open_ports, dict[tuple[str, str], ClusterClients]()

    def of(self, profile: str, cluster_id: str) -> ClusterClients:
        """The cluster; raises `RefusedError` where the profile leads to another one."""
        if (profile, cluster_id) not in self._ports:
            ports = self._open(profile)
            found = ports.log.cluster_id()
            if found != cluster_id:
                raise RefusedError(
                    f"profile {profile} leads to cluster {found}, the route names {cluster_id}",
                    hint="correct the profile's bootstrap_server, or the stream's route",
                )
            self._ports[profile, cluster_id] = ports
        return self._ports[profile, cluster_id]

    def of_segment(self, segment: Segment) -> ClusterClients:
        """The cluster of a segment; `RefusedError` where its topic is gone, or was created again."""
        ports = self.of(segment.cluster, segment.cluster_id)
        place = ports.log.places([segment.topic]).get(segment.topic)
        if place is None or place.topic_id != topic_id_bytes(segment.topic_id):
            what = "does not exist" if place is None else "was deleted and created again"
            raise RefusedError(f"topic {segment.topic} on cluster {segment.cluster_id} {what}")
        return ports

    def spans(self, segment: Segment, timeout_s: float) -> Mapping[TopicPartition, range]:
        """What the partitions of a segment hold; `TryLaterError` where one does not answer."""
        keys = [TopicPartition(segment.topic, number) for number in range(segment.partitions)]
        found = self.of_segment(segment).data.offsets(keys, timeout_s)
        if len(found) < len(keys):
            raise TryLaterError(f"topic {segment.topic} has {len(found)} of the {len(keys)} partitions of its route")
        return found


def lane_of(route: Route, name: str) -> Lane:
    """The lane of a route; `UsageError` where it has none of this name."""
    lane = route.lane(name)
    if lane is None:
        known = ", ".join(lane.name for lane in route.lanes)
        raise UsageError(f"stream {route.stream} has no lane {name[:40]!r}", hint=f"it has {known}")
    return lane
