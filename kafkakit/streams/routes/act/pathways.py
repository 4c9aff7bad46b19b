"""What records of streams say of the services that they passed."""

from collections import Counter
from collections.abc import Collection, Sequence

from kafkakit.core.errors import KafkakitError
from kafkakit.ports.clock import Clock
from kafkakit.streams.model.route import Route
from kafkakit.streams.pathways.api import SampleRequest, SeenEdges, SeenStream, seen_edges
from kafkakit.streams.pathways.api_act import read_pathways
from kafkakit.streams.records.api_act import RecordReader
from kafkakit.streams.routes.act.clusters import OpenCluster
from kafkakit.streams.routes.decide.observed import RouteFacts


class PathwayObserver:
    """Reads the newest records of streams' topics; `problems` are the topics that could not be read, and why."""

    def __init__(self, open_cluster: OpenCluster, clock: Clock, *, records: int, wait_s: float) -> None:
        self._open, self._clock, self._records, self._wait_s = open_cluster, clock, records, wait_s
        self.problems: list[str] = []

    def look(self, observed: Sequence[tuple[Route, RouteFacts]], services: Collection[str], env: str) -> SeenEdges:
        """The edges that the newest records of each topic prove."""
        return seen_edges([self._seen(route, facts) for route, facts in observed], services, env)

    def _seen(self, route: Route, facts: RouteFacts) -> SeenStream:
        hashes: Counter[int] = Counter()
        topics = []
        for _, segment in route.segments():
            topics.append((segment.cluster_id, segment.topic))
            if not facts.segments[segment.id].problem:
                hashes.update(self._hashes(segment.cluster, segment.topic))
        groups = dict.fromkeys(reader.group for reader in facts.readers)
        return SeenStream(name=route.stream, topics=tuple(topics), groups=tuple(groups), hashes=hashes)

    def _hashes(self, profile: str, topic: str) -> dict[int, int]:
        request = SampleRequest(topics=(topic,), records=self._records)
        try:
            cluster = self._open(profile)
            reader = RecordReader(cluster.log, cluster.data, self._clock, wait_s=self._wait_s)
            sample = read_pathways(cluster.log, reader, self._clock, request)
        except KafkakitError as error:
            self.problems.append(f"topic {topic}: {error.message}")
            return {}
        self.problems += [f"topic {topic}: {problem.message}" for problem in sample.problems]
        return {hash_: sums.pathway_s.count for found in sample.topics for hash_, sums in found.pathways.items()}
