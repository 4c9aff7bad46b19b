"""What old topics hold besides what groups read: dead letters, references to rejected records, and late records.

Dead letters keep key, value and headers, those of their provenance too, and so do records that came after a seal. What
was copied is written down after each batch, so that an interruption copies one batch again at most. The partition is
the one that a record had, or its number modulo the partitions of the new topic.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from kafkakit.core.errors import RefusedError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.core.text import shell_command
from kafkakit.ports.acting import Clock
from kafkakit.streams.failover.decide.operation import OldCopies
from kafkakit.streams.lanes.api_act import (
    BatchRecord,
    BatchWriter,
    CopyOutcome,
    LaneReader,
    RejectCopier,
    RejectLedger,
    ReplayStates,
    StreamClusters,
)
from kafkakit.streams.model.commit import topic_id_bytes
from kafkakit.streams.model.route import DLQ, Lane, Route, Segment
from kafkakit.streams.routes.api_act import OpenCluster

AT_ONCE, MOST_BYTES = 500, 16 << 20
"""A batch is written once it has so many records, or so many bytes."""


def read_references(
    open_cluster: OpenCluster, clock: Clock, timeout_s: Callable[[str], float], segments: Sequence[Segment]
) -> dict[int, list[tuple[int, int]]]:
    """Partition and offset of the records of segments that are rejected by reference, by segment id.

    Cost: reading the ledger of each cluster.
    """
    found: dict[int, list[tuple[int, int]]] = {each.id: [] for each in segments}
    for profile in sorted({each.cluster for each in segments}):
        by_topic = {topic_id_bytes(each.topic_id): each.id for each in segments if each.cluster == profile}
        entries, _ = RejectLedger(open_cluster(profile), clock, wait_s=timeout_s(profile)).read()
        for entry in entries.values():
            if entry.topic_id in by_topic:
                found[by_topic[entry.topic_id]].append((entry.place.partition, entry.place.offset))
    return found


class OldRecords:
    """Copies records of old topics of one stream; `guard` is called before each batch, and raises without the lease."""

    def __init__(
        self, open_cluster: OpenCluster, clock: Clock, guard: Callable[[], None], timeout_s: Callable[[str], float]
    ) -> None:
        self._clusters, self._clock, self._guard = StreamClusters(open_cluster), clock, guard
        self._timeout_s = timeout_s

    def copy(
        self,
        route: Route,
        lane_name: str,
        segment: Segment,
        spans: Mapping[int, range],
        before: OldCopies,
        note: Callable[[OldCopies], None],
    ) -> None:
        """Copy records to the lane's active topic; dead letters that a replay has written again are passed over.

        `note` gets what is copied after each batch. Raises what brokers say of a read or a write.
        """
        lane = route.lane(lane_name)
        target = None if lane is None else lane.active
        if target is None:
            hint = str(shell_command("streams show", route.stream))
            raise RefusedError(f"lane {lane_name} of stream {route.stream} has no active topic", hint=hint)
        keys = {TopicPartition(segment.topic, number): span for number, span in spans.items()}
        replayed = ReplayStates(self._clusters, route.stream).of(segment, keys) if lane_name == DLQ else {}
        reader = LaneReader(self._clusters, self._clock, wait_s=self._timeout_s(segment.cluster))
        data = self._clusters.of_segment(target).data
        writer = BatchWriter(data, wait_s=self._timeout_s(target.cluster))
        copies, offsets, batch, size = before, dict(before.offsets), list[Record](), 0
        for _, record in reader.records(Lane(name=lane_name, segments=(segment,)), lambda *_: keys):
            offsets[record.partition.partition] = record.offset + 1
            state = replayed.get(record.partition)
            if state is not None and state.was_done(record.offset):
                copies = replace(copies, passed=copies.passed + 1)
                continue
            batch.append(record)
            size += len(record.value)
            if len(batch) >= AT_ONCE or size >= MOST_BYTES:
                self._write(target, writer, batch)
                copies = replace(copies, offsets=dict(offsets), records=copies.records + len(batch))
                note(copies)
                batch, size = [], 0
        self._write(target, writer, batch)
        ends = {number: span.stop for number, span in spans.items()}
        note(replace(copies, offsets={**offsets, **ends}, records=copies.records + len(batch)))

    def references(self, route: Route) -> CopyOutcome:
        """Copy every record that a reference of the stream leads to into its lane `dlq`."""
        wait_s = max(self._timeout_s(profile) for profile in route.clusters.values())
        return RejectCopier(self._clusters, self._clock, self._guard, wait_s=wait_s).copy(route, ahead_s=None)

    def _write(self, target: Segment, writer: BatchWriter, batch: Sequence[Record]) -> None:
        if not batch:
            return
        self._guard()
        found = [
            BatchRecord(
                place=TopicPartition(target.topic, each.partition.partition % target.partitions),
                value=None if each.is_null else each.value,
                key=each.key,
                headers=each.headers,
            )
            for each in batch
        ]
        writer.write(found, "run the same command again: this batch is copied again, all before it are done")
