"""All rejected records of a stream: those of the DLQ lane, and references of the ledgers of its clusters."""

from collections.abc import Callable, Iterator, Mapping

from kafkakit.core.errors import OperationFailedError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.clock import Clock
from kafkakit.ports.cluster_clients import ClusterClients
from kafkakit.streams.lanes.act.lane_reading import LaneReader
from kafkakit.streams.lanes.act.reject_ledger import RejectLedger
from kafkakit.streams.lanes.act.replay_states import ReplayStates
from kafkakit.streams.lanes.act.stream_clusters import StreamClusters
from kafkakit.streams.lanes.decide.dead_letters import DeadLetter, letter_of, letter_of_entry, letter_of_reject
from kafkakit.streams.model.route import DLQ, Route, Segment
from kafkakit.streams.records.api import Found
from kafkakit.streams.records.api_act import RecordReader


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
        """The records of the DLQ lane, if there is one. Cost: reading it."""
        states = ReplayStates(self._clusters, route.stream)
        reader = LaneReader(self._clusters, self._clock, wait_s=self._wait_s)

        def window(segment: Segment, spans: Mapping[TopicPartition, range]) -> Mapping[TopicPartition, range]:
            states.of(segment, spans)
            return spans

        lane = route.lane(DLQ)
        for segment, record in reader.records(lane, window) if lane is not None else ():
            state = states.known(segment)[record.partition]
            yield letter_of(record, segment, is_replayed=state.was_done(record.offset))

    def matching(self, route: Route, matches: Callable[[DeadLetter], bool]) -> Iterator[DeadLetter]:
        """References first, then copies."""
        yield from filter(matches, self.references(route))
        yield from filter(matches, self.copies(route))

    def one(self, route: Route, key: TopicPartition, offset: int) -> tuple[DeadLetter, Found]:
        """One rejected record and what its log holds; `UsageError` where nothing rejected is there.

        Raises `OperationFailedError` where the topic of a reference is gone, or another one now.
        """
        lane = route.lane(DLQ)
        for segment in lane.segments if lane is not None else ():
            if segment.topic == key.topic:
                found = self._read(self._clusters.of_segment(segment), key, offset)
                span = {key: range(found.span.start, found.span.end)}
                state = ReplayStates(self._clusters, route.stream).of(segment, span)[key]
                entry = found.entries[0] if found.entries else None
                return letter_of_entry(
                    key, offset, entry, segment.cluster_id, is_replayed=state.was_done(offset)
                ), found
        for letter in self.references(route):
            if (letter.place, letter.offset) == (key, offset):
                ports = self._clusters.of(route.clusters[letter.cluster_id], letter.cluster_id)
                topic = ports.log.places([key.topic]).get(key.topic)
                if letter.entry is None or topic is None or topic.topic_id != letter.entry.topic_id:
                    raise OperationFailedError(f"topic {key.topic} was deleted since, and the record with it")
                return letter, self._read(ports, key, offset)
        raise UsageError(
            f"nothing of stream {route.stream} was rejected at {key.topic}/{key.partition}@{offset}",
            hint=f"kafkakit streams dlq list {route.stream} shows what was",
        )

    def _read(self, ports: ClusterClients, key: TopicPartition, offset: int) -> Found:
        return RecordReader(ports.log, ports.data, self._clock, wait_s=self._wait_s).read(key, offset, 1)
