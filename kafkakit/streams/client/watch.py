"""What is seen of a client from outside: its figures as metrics, the sums of its pathways, its spans."""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

from kafkakit.core.durations import epoch_ms
from kafkakit.core.errors import UsageError
from kafkakit.core.http_page import HttpPage, HttpRequest, answer_pages
from kafkakit.ports.clock import Clock
from kafkakit.ports.spans import Spans
from kafkakit.report import metrics_text
from kafkakit.report.metrics_text import MetricFamily
from kafkakit.streams.client.decide import consumer_figures, figures, pathway_figures
from kafkakit.streams.client.decide.consumer_figures import ConsumerFigures
from kafkakit.streams.client.decide.figures import ProducerMetrics
from kafkakit.streams.client.options import ConsumerHooks
from kafkakit.streams.client.pathways import PathwayTracker
from kafkakit.streams.client.producer import PathwayHeaders, RecordHooks
from kafkakit.streams.model.pathways import Bucket, PathwayNode, PayloadSender

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


class Watch:
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
        self._tags = tuple(metrics_text.tag(name, value) for name, value in known.items() if value)
        self._problem = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafkakit-watch", daemon=True)
        pages = {"/metrics": lambda _: HttpPage(body=self.exposition().encode(), media=_MEDIA)}
        self.address = "" if parts.serve is None else parts.serve(answer_pages(pages))
        if self._pathways is not None or parts.send_datagrams is not None:
            self._thread.start()

    def exposition(self) -> str:
        """Everything as Prometheus reads it."""
        return "".join(metrics_text.exposition(found, prefix) for prefix, found in self._families())

    def datagrams(self) -> list[bytes]:
        """Everything as DogStatsD datagrams."""
        made = (metrics_text.datagrams(found, prefix, tags=self._tags) for prefix, found in self._families())
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
            (figures.PREFIX, figures.producer_families(self._producers())),
            (consumer_figures.PREFIX, consumer_figures.consumer_families(self._consumers())),
        ]
        if self._pathways is not None:
            found.append((pathway_figures.PREFIX, self._pathways.families()))
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
