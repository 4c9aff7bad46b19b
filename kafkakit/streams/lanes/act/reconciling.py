"""Reading the two streams of a dual write, and comparing them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import RefusedError, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.clock import Clock
from kafkakit.streams.lanes.act.lane_reading import LaneReader
from kafkakit.streams.lanes.act.stream_clusters import StreamClusters
from kafkakit.streams.model.record_identity import Reconciliation, SeenRecord, reconcile, seen_record
from kafkakit.streams.model.route import DLQ, Route, Segment

MOST_RECORDS = 2_000_000
"""Of each side; a record takes about 300 bytes of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRange:
    """Ids made from `from_ms` to before `to_ms`; read are records whose time is at most `margin_ms` outside."""

    from_ms: int
    to_ms: int
    margin_ms: int


class Reconciler:
    """Compares streams; reads their lanes but `dlq`, joins no group and writes nothing."""

    def __init__(self, clusters: StreamClusters, clock: Clock, *, wait_s: float) -> None:
        self._clusters = clusters
        self._reader = LaneReader(clusters, clock, wait_s=wait_s)

    def compare(self, primary: Route, secondary: Route, compared: ComparedRange) -> Reconciliation:
        """Read both sides and compare them; `RefusedError` for more than two million records of a side."""
        first, second = self._seen(primary, compared), self._seen(secondary, compared)
        return reconcile(first, second, compared.from_ms, compared.to_ms)

    def _seen(self, route: Route, compared: ComparedRange) -> Iterator[SeenRecord | None]:
        def window(segment: Segment, spans: Mapping[TopicPartition, range]) -> dict[TopicPartition, range]:
            first = self._offsets_at(segment, spans, compared.from_ms - compared.margin_ms)
            stop = self._offsets_at(segment, spans, compared.to_ms + compared.margin_ms)
            return {key: range(max(first[key], span.start), min(stop[key], span.stop)) for key, span in spans.items()}

        count = 0
        for lane in route.lanes:
            for _, record in self._reader.records(lane, window) if lane.name != DLQ else ():
                count += 1
                if count > MOST_RECORDS:
                    raise RefusedError(
                        f"stream {route.stream} has more than {MOST_RECORDS:,} records in this range",
                        hint="compare parts of it: --since and --until",
                    )
                yield seen_record(record.headers, record.key)

    def _offsets_at(
        self, segment: Segment, spans: Mapping[TopicPartition, range], at_ms: int
    ) -> dict[TopicPartition, int]:
        found = self._clusters.of_segment(segment).log.offsets_at(dict.fromkeys(spans, max(0, at_ms)))
        offsets = {}
        for key, span in spans.items():
            offset = found.get(key)
            if isinstance(offset, ItemError):
                raise TryLaterError(f"the offsets of {key} at a time cannot be read: {offset}")
            offsets[key] = span.stop if offset is None else offset
        return offsets
