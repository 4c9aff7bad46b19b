"""What is seen of a client from outside: its figures as metrics, the sums of its pathways, its spans.

A pathway has a checkpoint where a handler gets a record, and one where a record is produced. The context of the record
that a handler has travels in a variable of its thread or task, so what it produces continues that pathway. A thread
that a handler starts has none, unless it runs in `contextvars.copy_context()`. With spans, there is one around each
call of a handler.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

from kafkakit.core.errors import UsageError
from kafkakit.core.quantities import epoch_ms
from kafkakit.core.records import Headers, OutgoingRecord
from kafkakit.core.rpc import HttpPage, HttpRequest, answer_pages
from kafkakit.ports.acting import Clock
from kafkakit.ports.streams import HandledRecords, Spans
from kafkakit.report import exports
from kafkakit.report.exports import MetricFamily
from kafkakit.streams.client.dead_letters import ConsumerHooks
from kafkakit.streams.client.decide import figures
from kafkakit.streams.client.decide.figures import ConsumerFigures, PathwayTotals, ProducerMetrics
from kafkakit.streams.client.producer import PathwayHeaders, RecordHooks
from kafkakit.streams.client.workers import (
    AsyncHandler,
    BatchHandler,
    Checkpoint,
    Handler,
    StreamRecord,
    checked_awaitable,
    readable_headers,
)
from kafkakit.streams.model.pathways import (
    Bucket,
    PathwayBuckets,
    PathwayContext,
    PathwayNode,
    PathwayPoint,
    PayloadSender,
    checkpoint_in,
    checkpoint_out,
    committed_tags,
    consume_tags,
    produce_tags,
    produced_tags,
)

PERIOD_S = 10.0
CLOSE_S = 5.0
_MEDIA = "text/plain; version=0.0.4; charset=utf-8"
_LOG = logging.getLogger("kafkakit.streams.client")
Answer = Callable[[HttpRequest], HttpPage]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """What is sent and shown beside `StreamClient.exposition`; everything is off unless given.

    `service` and `env` name this application in pathways, and turn them on. `agent` takes the sums of pathways,
    `dogstatsd` the metrics, each 10 s: addresses of a Datadog agent, HOST:PORT. `listen` is where `/metrics` is shown
    to Prometheus: HOST:PORT, or :PORT for loopback; port 0 takes a free one.
    """

    service: str = ""
    env: str = "none"
    version: str = ""
    agent: str = ""
    dogstatsd: str = ""
    listen: str = ""

    def __post_init__(self) -> None:
        if self.agent and not self.service:
            raise UsageError("an agent gets pathways, and they need the name of this service", hint="give service")
        if not f"{self.service}{self.env}{self.version}".isprintable():
            raise UsageError("service, env and version are printable text")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchParts:
    """Where it goes; `serve` shows a page until `close` is called, and gives its address.

    `hostname` and `release`, that of kafkakit, are told to the agent.
    """

    options: WatchOptions = field(default_factory=WatchOptions)
    hostname: str = ""
    release: str = ""
    send_buckets: Callable[[PayloadSender, Sequence[Bucket]], object] | None = None
    send_datagrams: Callable[[Sequence[bytes]], object] | None = None
    serve: Callable[[Answer], str] | None = None
    open_spans: Callable[[], Spans | None] = lambda: None
    close: Callable[[], object] = lambda: None


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


class AgentSender:
    """Sends from a thread of its own, so that no record waits for an agent; without anything to send there is none."""

    def __init__(
        self,
        parts: WatchParts,
        clock: Clock,
        producers: Callable[[], Sequence[ProducerMetrics]],
        consumers: Callable[[], Sequence[ConsumerFigures]],
    ) -> None:
        self._parts, self._clock, self._producers, self._consumers = parts, clock, producers, consumers
        node, version = PathwayNode(parts.options.service, parts.options.env), parts.options.version
        self._sender = PayloadSender(node=node, tracer_version=parts.release, version=version, hostname=parts.hostname)
        self._pathways = PathwayTracker(node, clock) if node.service else None
        known = {"service": node.service, "env": node.env if node.service else "", "version": version}
        self._tags = tuple(exports.tag(name, value) for name, value in known.items() if value)
        self._problem = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafkakit-watch", daemon=True)
        pages = {"/metrics": lambda _: HttpPage(body=self.exposition().encode(), media=_MEDIA)}
        self.address = "" if parts.serve is None else parts.serve(answer_pages(pages))
        if self._pathways is not None or parts.send_datagrams is not None:
            try:
                self._thread.start()
            except BaseException:
                parts.close()
                raise

    def exposition(self) -> str:
        """Everything as Prometheus reads it."""
        return "".join(exports.exposition(found, prefix) for prefix, found in self._families())

    def datagrams(self) -> list[bytes]:
        """Everything as DogStatsD datagrams."""
        made = (exports.datagrams(found, prefix, tags=self._tags) for prefix, found in self._families())
        return list(chain.from_iterable(made))

    def open_spans(self) -> Spans | None:
        """Spans where the application has a tracer now."""
        return self._parts.open_spans()

    def record_hooks(self, stream: str, hooks: RecordHooks) -> RecordHooks:
        """A producer's hooks with the headers of pathway and span, unless the application adds its own."""
        spans, parts = self.open_spans(), list[PathwayHeaders]()
        if self._pathways is not None:
            parts.append(self._pathways.producing(stream))
        if spans is not None:
            parts.append(partial(spans.created, stream))
        if hooks.pathway is not None or not parts:
            return hooks
        return replace(hooks, pathway=lambda record, lane: tuple(chain.from_iterable(p(record, lane) for p in parts)))

    def consumer_hooks(self, stream: str, group: str, hooks: ConsumerHooks) -> ConsumerHooks:
        """A consumer's hooks with the checkpoint of pathways, unless the application has its own."""
        if hooks.checkpoint is not None or self._pathways is None:
            return hooks
        return replace(hooks, checkpoint=self._pathways.reading(stream, group))

    def close(self) -> None:
        """Send what is left, in 5 s at most, and end the page; closing twice is harmless."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)
        self._parts.close()

    def _families(self) -> list[tuple[str, tuple[MetricFamily, ...]]]:
        found = [
            (figures.PRODUCER_PREFIX, figures.producer_families(self._producers())),
            (figures.CONSUMER_PREFIX, figures.consumer_families(self._consumers())),
        ]
        if self._pathways is not None:
            found.append((figures.PATHWAY_PREFIX, self._pathways.families()))
        return found

    def _run(self) -> None:
        while not self._stopping.wait(PERIOD_S):
            self._send()
        self._send(everything=True)

    def _send(self, *, everything: bool = False) -> None:
        try:
            if self._pathways is not None:
                self._send_pathways(self._pathways, everything=everything)
            if self._parts.send_datagrams is not None:
                self._parts.send_datagrams(self.datagrams())
        except Exception:  # a fault of ours must not end the thread
            _LOG.exception("metrics and pathways are not sent")

    def _send_pathways(self, pathways: PathwayTracker, *, everything: bool) -> None:
        buckets = pathways.take(self._consumers(), epoch_ms(self._clock.now()), everything=everything)
        if not buckets or self._parts.send_buckets is None:
            return
        problem = ""
        try:
            self._parts.send_buckets(self._sender, buckets)
        except Exception as error:
            pathways.not_sent(len(buckets))
            problem = f"{type(error).__name__}: {error}"
            if not self._problem:
                _LOG.warning("sums of pathways are not sent: %s", error)
        self._problem = problem


_CONTEXT: ContextVar[PathwayContext | None] = ContextVar("kafkakit_pathway", default=None)


def _bytes(key: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> int:
    return len(key or b"") + sum(len(name) + len(value or b"") for name, value in headers)


@dataclass(frozen=True, slots=True)
class TracedHandlers:
    """Puts spans around the handlers of a group; where there is no handler, there is none after it."""

    spans: Spans
    group: str

    def single(self, handler: Handler | None) -> Handler | None:
        """A handler of records, in a span that continues the trace of each."""

        def traced(record: StreamRecord) -> object:
            with self.spans.handling(self._handled([record])):
                return handler(record)  # type: ignore[misc]

        return handler and traced

    def batch(self, handler: BatchHandler | None) -> BatchHandler | None:
        """A handler of batches, in a span with links to the traces of the records."""

        def traced(records: Sequence[StreamRecord]) -> Mapping[int, BaseException] | None:
            with self.spans.handling(self._handled(records, is_batch=True)):
                return handler(records)  # type: ignore[misc]

        return handler and traced

    def asynchronous(self, handler: AsyncHandler | None) -> AsyncHandler | None:
        """An asynchronous handler, as `single`."""

        async def traced(record: StreamRecord) -> None:
            with self.spans.handling(self._handled([record])):
                await checked_awaitable(handler(record))  # type: ignore[misc]

        return handler and traced

    def _handled(self, records: Sequence[StreamRecord], *, is_batch: bool = False) -> HandledRecords:
        first = records[0]
        return HandledRecords(
            stream=first.origin.stream,
            lane=first.lane,
            group=self.group,
            partition=first.origin.partition,
            offset=first.offset,
            tries=first.tries,
            headers=[readable_headers(record) for record in records],
            is_batch=is_batch,
        )
