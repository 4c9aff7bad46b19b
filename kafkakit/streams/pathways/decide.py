"""Latencies of pathways out of the headers of records, by topic and pathway."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import KafkakitError
from kafkakit.core.log_reads import LogSpan
from kafkakit.streams.model.pathways import ContextFault, DDSketch, PathwayContext, context_of
from kafkakit.streams.records.api import Entry, Fate

MOST_PATHWAYS = 1000
"""Pathways of one topic that are kept apart."""

OTHERS = 0
"""The hash under which the rest is summed up; no context that is used has it."""

P99 = 0.99
SKEWED_SHARE = 0.01
"""From which share of negative latencies on the report says that clocks differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRequest:
    """What to read: of each topic the newest `records`, of these those of the last `since_s` (None: all)."""

    topics: tuple[str, ...]
    records: int
    since_s: float | None = None


@dataclass(slots=True)
class PathwaySums:
    """Latencies in seconds of the records of one pathway in one topic; negative ones count as 0.

    `pathway_s` is from the start of the pathway to its last checkpoint, before the record was produced; `edge_s` from
    there to the record's own time, where it has one. `oldest_ms` is the earliest start.
    """

    oldest_ms: int
    pathway_s: DDSketch = field(default_factory=DDSketch)
    edge_s: DDSketch = field(default_factory=DDSketch)
    negative_pathways: int = 0
    negative_edges: int = 0

    def add(self, context: PathwayContext, record_ms: int) -> None:
        """Count one record; its time is -1 where it has none."""
        self.oldest_ms = min(self.oldest_ms, context.start_ms)
        latency_ms = context.edge_ms - context.start_ms
        self.pathway_s.add(latency_ms / 1000)
        self.negative_pathways += latency_ms < 0
        if record_ms >= 0:
            edge_ms = record_ms - context.edge_ms
            self.edge_s.add(edge_ms / 1000)
            self.negative_edges += edge_ms < 0


@dataclass(slots=True)
class TopicSample:
    """What was read of one topic: records of aborted transactions and markers are not counted.

    `faults` are headers without a context that can be used, `unread` records that could not be read; `folded` counts
    the records whose pathway is summed up under `OTHERS`.
    """

    topic: str
    records: int = 0
    faults: int = 0
    unread: int = 0
    folded: int = 0
    pathways: dict[int, PathwaySums] = field(default_factory=dict)

    @property
    def with_pathway(self) -> int:
        """How many records have a context."""
        return sum(sums.pathway_s.count for sums in self.pathways.values())

    @property
    def negative(self) -> int:
        """How many latencies are below 0."""
        return sum(sums.negative_pathways + sums.negative_edges for sums in self.pathways.values())

    @property
    def is_skewed(self) -> bool:
        """Whether so many latencies are below 0 that clocks of hosts must differ."""
        return self.negative > SKEWED_SHARE * self.with_pathway

    def add(self, entry: Entry, now_ms: int) -> None:
        """Count what the log holds at one place."""
        if entry.batch.is_control or entry.fate is Fate.ABORTED:
            return
        if entry.instead:
            self.unread += entry.least_records
            return
        self.records += 1
        context = context_of(entry.headers, now_ms)
        if isinstance(context, ContextFault):
            self.faults += 1
        elif context is not None:
            self._sums(context).add(context, entry.at_ms)

    def _sums(self, context: PathwayContext) -> PathwaySums:
        is_new = context.hash not in self.pathways
        folds = is_new and len(self.pathways) - (OTHERS in self.pathways) >= MOST_PATHWAYS
        self.folded += folds
        return self.pathways.setdefault(OTHERS if folds else context.hash, PathwaySums(context.start_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class PathwaySample:
    """What was read, in the order of the request, and what kept partitions from being read."""

    topics: tuple[TopicSample, ...]
    problems: tuple[KafkakitError, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowPathway:
    """A pathway whose p99 is above a limit."""

    topic: str
    hash: int
    p99_s: float


def first_offset(span: LogSpan, records: int, since: int | ItemError | None, *, has_since: bool) -> int:
    """Where reading begins for the newest `records` of a log, none of them before the offset `since`.

    With `has_since` an offset of None means that no record is as new as that.
    """
    begin = max(span.start, span.end - records)
    if not has_since or isinstance(since, ItemError):
        return begin
    return span.end if since is None else max(begin, since)


def slow_pathways(topics: Iterable[TopicSample], limit_s: float) -> Iterator[SlowPathway]:
    """The pathways whose p99 is above the limit, in the order of topics and hashes."""
    for sample in topics:
        for hash_, sums in sorted(sample.pathways.items()):
            p99_s = sums.pathway_s.quantile(P99) or 0.0
            if p99_s > limit_s:
                yield SlowPathway(topic=sample.topic, hash=hash_, p99_s=p99_s)
