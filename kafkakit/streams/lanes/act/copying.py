"""Copying rejected records to the DLQ lane just in time: before their topics may delete them.

A copy is acknowledged before the reference's tombstone is written; an interruption between both copies again.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from kafkakit.core.durations import epoch_ms
from kafkakit.core.errors import KafkakitError, LeaseLostError, OperationFailedError, RefusedError, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.clock import Clock
from kafkakit.ports.cluster_clients import ClusterClients
from kafkakit.streams.lag.api_act import topic_facts
from kafkakit.streams.lanes.act.batch_writer import BatchRecord, BatchWriter
from kafkakit.streams.lanes.act.reject_ledger import RejectLedger
from kafkakit.streams.lanes.act.stream_clusters import StreamClusters, lane_of
from kafkakit.streams.lanes.decide.copy_plan import CopyOutcome, SourceRetention, copy_at_ms
from kafkakit.streams.model.commit import topic_id_bytes
from kafkakit.streams.model.provenance import Reject, provenance_headers
from kafkakit.streams.model.route import DLQ, Route, Segment
from kafkakit.streams.records.api import Entry
from kafkakit.streams.records.api_act import RecordReader

AT_ONCE = 100
MOST_BYTES = 16 << 20


@dataclass(slots=True)
class _Tally:
    copied: int = 0
    waiting: list[int | None] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


class RejectCopier:
    """Copies the references of one stream; `guard` raises where another process may copy them."""

    def __init__(self, clusters: StreamClusters, clock: Clock, guard: Callable[[], None], *, wait_s: float) -> None:
        self._clusters, self._clock, self._guard, self._wait_s = clusters, clock, guard, wait_s

    def copy(self, route: Route, *, ahead_s: float | None) -> CopyOutcome:
        """Copy what may be deleted within `ahead_s`, or everything where that is None.

        Raises `RefusedError` where the DLQ lane has no active segment, and what brokers say of a write.
        """
        target = lane_of(route, DLQ).active
        if target is None:
            raise RefusedError(f"lane {DLQ} of stream {route.stream} has no active segment")
        tally = _Tally()
        writer = BatchWriter(self._clusters.of_segment(target).data, wait_s=self._wait_s)
        for cluster_id, profile in sorted(route.clusters.items()):
            ports = self._clusters.of(profile, cluster_id)
            ledger = RejectLedger(ports, self._clock, wait_s=self._wait_s)
            mine = (route.stream, cluster_id)
            entries = [e for e in ledger.read()[0].values() if (e.place.stream, e.place.cluster_id) == mine]
            batch: list[tuple[Reject, Entry]] = []
            known = {topic_id_bytes(s.topic_id) for _, s in route.segments() if s.cluster_id == cluster_id}
            for entry, found in self._found(ports, known, self._due(ports, entries, ahead_s, tally), tally):
                batch.append((entry, found))
                if len(batch) >= AT_ONCE or sum(one.size for _, one in batch) >= MOST_BYTES:
                    self._write(target, writer, ledger, batch, tally)
            self._write(target, writer, ledger, batch, tally)
        return CopyOutcome(
            copied=tally.copied,
            waiting=len(tally.waiting),
            next_at_ms=min((at for at in tally.waiting if at is not None), default=None),
            lost=tally.lost,
            failed=tally.failed,
        )

    def _due(
        self, ports: ClusterClients, entries: Sequence[Reject], ahead_s: float | None, tally: _Tally
    ) -> Iterator[Reject]:
        """Those to copy now; the others are counted as waiting."""
        facts = topic_facts(ports.admin, sorted({entry.place.topic for entry in entries})) if entries else {}
        now_ms = epoch_ms(self._clock.now())
        for entry in entries:
            known = facts.get(entry.place.topic)
            if known is None or ahead_s is None:
                yield entry
                continue
            settings = SourceRetention(
                retention_ms=known.retention_ms,
                retention_bytes=known.retention_bytes,
                is_compacted=known.is_compacted,
            )
            at_ms = copy_at_ms(entry.place.at_ms, settings, round(1000 * ahead_s))
            if at_ms is not None and at_ms <= now_ms:
                yield entry
            else:
                tally.waiting.append(at_ms)

    def _found(
        self, ports: ClusterClients, topic_ids: Collection[bytes], entries: Iterator[Reject], tally: _Tally
    ) -> Iterator[tuple[Reject, Entry]]:
        """The records of these references; those that are gone or cannot be read are noted.

        A reference to a topic that is none of the stream's is not followed: an entry must not lead to other data.
        """
        reader = RecordReader(ports.log, ports.data, self._clock, wait_s=self._wait_s)
        for entry in entries:
            place = entry.place
            key = TopicPartition(place.topic, place.partition)
            name = f"{place.topic}/{place.partition}@{place.offset} of group {entry.failure.group}"
            if entry.topic_id not in topic_ids:
                tally.failed[name] = "its topic is not in the stream's route"
                continue
            try:
                known = ports.log.places([place.topic]).get(place.topic)
                if known is None or known.topic_id != entry.topic_id:
                    tally.lost[name] = "its topic was deleted"
                    continue
                found = reader.read(key, place.offset, 1)
            except KafkakitError as error:
                tally.failed[name] = error.message
                continue
            if found.problem:
                tally.lost[name] = found.problem
            elif found.entries[0].instead:
                tally.failed[name] = found.entries[0].instead
            else:
                yield entry, found.entries[0]

    def _write(
        self,
        target: Segment,
        writer: BatchWriter,
        ledger: RejectLedger,
        batch: list[tuple[Reject, Entry]],
        tally: _Tally,
    ) -> None:
        """Write copies, then their references' tombstones; empties the batch."""
        if not batch:
            return
        self._guard()
        copies = [
            BatchRecord(
                place=TopicPartition(target.topic, entry.place.partition % target.partitions),
                value=found.value,
                key=found.key,
                headers=provenance_headers(found.headers, entry.place, entry.failure),
            )
            for entry, found in batch
        ]
        writer.write(copies, "their references stay: run the same command again")
        ledger.remove([entry.key for entry, _ in batch])
        tally.copied += len(batch)
        batch.clear()


def copy_again_and_again(
    look: Callable[[], CopyOutcome],
    clock: Clock,
    every_s: float,
    *,
    say: Callable[[CopyOutcome], None],
    warn: Callable[[str], None],
    first: CopyOutcome,
) -> NoReturn:
    """Look every `every_s` seconds until the program is stopped; what changed is printed.

    A cluster or store that does not answer is tried again, and so are records that a broker did not take.
    """
    before = first
    say(before)
    while True:
        clock.sleep(every_s)
        try:
            now = look()
        except LeaseLostError:
            raise
        except (TryLaterError, OperationFailedError) as error:
            warn(f"{error.message}; trying again")
            continue
        if now.copied or (now.lost, now.failed) != (before.lost, before.failed):
            say(now)
        before = now
