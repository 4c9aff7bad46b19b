"""Reading the records of a lane from its first to its last segment, up to where it ended when the reading began."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

from kafkakit.core.errors import TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.ports.clock import Clock
from kafkakit.streams.lanes.act.stream_clusters import StreamClusters
from kafkakit.streams.routes.api import Lane, Segment

_POLL_S = 0.1
FirstOffsets = Callable[[Segment, Mapping[TopicPartition, range]], Mapping[TopicPartition, int]]


class LaneReader:
    """Reads lanes of a route; `TryLaterError` where a topic gives no records for `wait_s`."""

    def __init__(self, clusters: StreamClusters, clock: Clock, *, wait_s: float) -> None:
        self._clusters, self._clock, self._wait_s = clusters, clock, wait_s

    def records(self, lane: Lane, first: FirstOffsets | None = None) -> Iterator[tuple[Segment, Record]]:
        """Every committed record below the ends at the start of its segment; `first` says where to begin."""
        for segment in lane.segments:
            spans = self._clusters.spans(segment, self._wait_s)
            begin = first(segment, spans) if first else {key: span.start for key, span in spans.items()}
            left = {key for key, span in spans.items() if begin[key] < span.stop}
            if left:
                yield from self._read(segment, {key: begin[key] for key in left}, spans)

    def _read(
        self, segment: Segment, begin: Mapping[TopicPartition, int], spans: Mapping[TopicPartition, range]
    ) -> Iterator[tuple[Segment, Record]]:
        data = self._clusters.of_segment(segment).data
        left = set(begin)
        deadline = self._clock.monotonic() + self._wait_s
        with closing(data.consumer(sorted(left), begin)) as consumer:
            while left:
                for record in consumer.poll(_POLL_S):
                    end = spans[record.partition].stop
                    if record.offset < end:
                        yield segment, record
                    if record.offset >= end - 1:
                        left.discard(record.partition)
                    deadline = self._clock.monotonic() + self._wait_s
                left -= set(consumer.ended())
                if left and self._clock.monotonic() > deadline:
                    raise TryLaterError(f"topic {segment.topic} gave no records for {self._wait_s:g} s")
