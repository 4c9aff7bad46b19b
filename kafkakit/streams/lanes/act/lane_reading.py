"""Reading the records of a lane from its first to its last segment, up to where it ended when the reading began."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

from kafkakit.core.errors import TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.ports.clock import Clock
from kafkakit.streams.lanes.act.stream_clusters import StreamClusters
from kafkakit.streams.model.route import Lane, Segment

_POLL_S = 0.1
Window = Callable[[Segment, Mapping[TopicPartition, range]], Mapping[TopicPartition, range]]
"""The part of what the partitions of a segment hold that is to be read."""


class LaneReader:
    """Reads lanes of a route; `TryLaterError` where a topic gives no records for `wait_s`."""

    def __init__(self, clusters: StreamClusters, clock: Clock, *, wait_s: float) -> None:
        self._clusters, self._clock, self._wait_s = clusters, clock, wait_s

    def records(self, lane: Lane, window: Window) -> Iterator[tuple[Segment, Record]]:
        """Every committed record of the window, which is taken of each segment when its turn comes."""
        for segment in lane.segments:
            wanted = window(segment, self._clusters.spans(segment, self._wait_s))
            spans = {key: span for key, span in wanted.items() if span}
            if spans:
                yield from self._read(segment, spans)

    def _read(self, segment: Segment, spans: Mapping[TopicPartition, range]) -> Iterator[tuple[Segment, Record]]:
        data = self._clusters.of_segment(segment).data
        left = set(spans)
        deadline = self._clock.monotonic() + self._wait_s
        with closing(data.consumer(sorted(left), {key: span.start for key, span in spans.items()})) as consumer:
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
