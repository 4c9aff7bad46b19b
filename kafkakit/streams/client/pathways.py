"""Pathways in the client: a checkpoint where a handler gets a record, and one where a record is produced.

The context of the record that a handler has travels in a variable of its thread or task, so what it produces continues
that pathway. A thread that a handler starts has none, unless it runs in `contextvars.copy_context()`.
"""

import threading
from collections.abc import Iterable
from contextvars import ContextVar

from kafkakit.core.deliveries import Headers, OutgoingRecord
from kafkakit.core.durations import epoch_ms
from kafkakit.ports.clock import Clock
from kafkakit.report.metrics_text import MetricFamily
from kafkakit.streams.client.decide.consumer_figures import ConsumerFigures
from kafkakit.streams.client.decide.pathway_figures import PathwayTotals
from kafkakit.streams.client.producer import PathwayHeaders
from kafkakit.streams.client.records import StreamRecord, readable_headers
from kafkakit.streams.client.workers import Checkpoint
from kafkakit.streams.model.pathways import (
    Bucket,
    PathwayBuckets,
    PathwayContext,
    PathwayNode,
    PathwayPoint,
    checkpoint_in,
    checkpoint_out,
    committed_tags,
    consume_tags,
    produce_tags,
    produced_tags,
)

_CONTEXT: ContextVar[PathwayContext | None] = ContextVar("kafkakit_pathway", default=None)


class PathwayTracker:
    """The pathways through one service; thread-safe. A checkpoint takes microseconds and never waits for an agent."""

    def __init__(self, node: PathwayNode, clock: Clock) -> None:
        self._node, self._clock = node, clock
        self._lock = threading.Lock()
        self._buckets = PathwayBuckets()
        self._totals_lock = threading.Lock()
        self._totals = PathwayTotals()

    def producing(self, stream: str) -> PathwayHeaders:
        """What adds the header to each record that goes to a stream."""
        node, tags = self._node, produce_tags(stream)

        def headers(record: OutgoingRecord, lane: str) -> Headers:
            del lane
            size = len(record.value or b"") + _bytes(record.key, record.headers)
            found, _, point = checkpoint_out(node, _CONTEXT.get(), tags, epoch_ms(self._clock.now()), size)
            self._count(point)
            return found

        return headers

    def reading(self, stream: str, group: str) -> Checkpoint:
        """What is called before each record of a stream is handled; a record is counted at its first try alone.

        After a batch, the context is that of its last record.
        """
        node, tags = self._node, consume_tags(stream, group)

        def checkpoint(record: StreamRecord) -> None:
            headers = readable_headers(record)
            size = len(record[0]) + _bytes(record.key, headers)
            context, point = checkpoint_in(node, headers, tags, epoch_ms(self._clock.now()), size)
            _CONTEXT.set(context)
            if not record.tries:
                self._count(point)

        return checkpoint

    def take(
        self, consumers: Iterable[ConsumerFigures], now_ms: int, *, everything: bool = False
    ) -> tuple[Bucket, ...]:
        """The buckets that have ended, or `everything`, with the offsets that consumers are at."""
        with self._lock:
            for found in consumers:
                self._note(found, now_ms)
            taken = self._buckets.take(None if everything else now_ms)
            left_out = {name: getattr(self._buckets, name) for name in ("folded", "dropped", "skewed")}
        with self._totals_lock:
            self._totals.add(taken, **left_out)
        return taken

    def not_sent(self, buckets: int) -> None:
        """So many buckets that were taken did not come to the agent."""
        with self._totals_lock:
            self._totals.unsent_buckets += buckets

    def families(self) -> tuple[MetricFamily, ...]:
        """What was taken until now, as metrics."""
        with self._totals_lock:
            return self._totals.families()

    def _note(self, found: ConsumerFigures, now_ms: int) -> None:
        for one in found.partitions:
            place = (one.partition.topic, one.partition.partition, one.cluster_id)
            self._buckets.note_offset(committed_tags(found.group, *place), one.base, now_ms)
            if one.lag is not None and one.base + one.lag:
                self._buckets.note_offset(produced_tags(*place), one.base + one.lag - 1, now_ms)

    def _count(self, point: PathwayPoint) -> None:
        with self._lock:
            self._buckets.add(point)


def _bytes(key: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> int:
    return len(key or b"") + sum(len(name) + len(value or b"") for name, value in headers)
