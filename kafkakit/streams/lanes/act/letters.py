"""All rejected records of a stream: those of the DLQ lane, and references of the ledgers of its clusters."""

from collections.abc import Callable, Iterator, Mapping

from kafkakit.core.model import TopicPartition
from kafkakit.ports.clock import Clock
from kafkakit.streams.lanes.act.lane_reading import LaneReader
from kafkakit.streams.lanes.act.reject_ledger import RejectLedger
from kafkakit.streams.lanes.act.replay_states import ReplayStates
from kafkakit.streams.lanes.act.stream_clusters import StreamClusters, lane_of
from kafkakit.streams.lanes.decide.dead_letters import DeadLetter, letter_of, letter_of_reject
from kafkakit.streams.routes.api import DLQ, Route, Segment


class LetterReader:
    """Reads the rejected records of one stream. Each wait lasts at most `wait_s`."""

    def __init__(self, clusters: StreamClusters, clock: Clock, *, wait_s: float) -> None:
        self._clusters, self._clock, self._wait_s = clusters, clock, wait_s
        self.strange = 0
        """Records of ledgers that are no entries."""

    def references(self, route: Route) -> Iterator[DeadLetter]:
        """The stream's references. Cost: reading the ledger of each cluster."""
        for cluster_id, profile in sorted(route.clusters.items()):
            ports = self._clusters.of(profile, cluster_id)
            entries, strange = RejectLedger(ports, self._clock, wait_s=self._wait_s).read()
            self.strange += strange
            for entry in entries.values():
                if entry.place.stream == route.stream and entry.place.cluster_id == cluster_id:
                    yield letter_of_reject(entry)

    def copies(self, route: Route) -> Iterator[DeadLetter]:
        """The records of the DLQ lane. Cost: reading it."""
        states = ReplayStates(self._clusters, route.stream)
        reader = LaneReader(self._clusters, self._clock, wait_s=self._wait_s)

        def first(segment: Segment, spans: Mapping[TopicPartition, range]) -> dict[TopicPartition, int]:
            states.of(segment, spans)
            return {key: span.start for key, span in spans.items()}

        for segment, record in reader.records(lane_of(route, DLQ), first):
            state = states.known(segment)[record.partition]
            yield letter_of(record, segment, is_replayed=state.was_done(record.offset))

    def matching(self, route: Route, matches: Callable[[DeadLetter], bool]) -> Iterator[DeadLetter]:
        """References first, then copies."""
        yield from filter(matches, self.references(route))
        yield from filter(matches, self.copies(route))
