"""Latencies of pathways out of the headers of records, by topic and pathway, and the edges that their hashes prove.

An edge says which service read one stream and wrote another. A hash cannot be taken apart. But a hash that was seen in
one stream, with a service and a group, gives the hash that this service's records have in any other stream; where it
was seen there, the edge is certain (FNV-1 of 64 bits). So services must be named, and those whose tracers hash other
tags (Java, Go) are not found.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from kafkakit.core.cluster_facts import ItemError, LogSpan
from kafkakit.core.errors import KafkakitError, OperationFailedError
from kafkakit.core.quantities import agree, count_of, format_span
from kafkakit.core.text import few_of, sanitize
from kafkakit.report.report import Report, ResultTable, attributes
from kafkakit.streams.model.pathways import (
    ContextFault,
    DDSketch,
    PathwayContext,
    consume_tags,
    context_of,
    node_hash,
    pathway_hash,
    produce_tags,
)
from kafkakit.streams.records.api import LogEntry, TransactionOutcome

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

    def add(self, entry: LogEntry, now_ms: int) -> None:
        """Count what the log holds at one place."""
        if entry.batch.is_control or entry.fate is TransactionOutcome.ABORTED:
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


MOST_HASHES = 200
"""Of a stream, those with the most records, from which edges are followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenStream:
    """A stream: its topics by cluster id, the groups that read it, and how many records have which hash."""

    name: str
    topics: tuple[tuple[str, str], ...]
    groups: tuple[str, ...]
    hashes: Mapping[int, int]

    @property
    def tag_names(self) -> Iterator[tuple[str, str]]:
        """Topic and cluster id as tracers may name them: the stream alone, or a topic with its cluster or without."""
        yield self.name, ""
        for cluster_id, topic in self.topics:
            yield from ((topic, ""), (topic, cluster_id))


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SeenEdge:
    """Records of stream `target` that a service made: out of `source`, read by `group`; both "" where they begin."""

    source: str
    group: str
    service: str
    target: str
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenEdges:
    """The edges, sorted, and how many records of each stream have a pathway that none of them leads to."""

    edges: tuple[SeenEdge, ...]
    unexplained: Mapping[str, int]


def seen_edges(streams: Collection[SeenStream], services: Collection[str], env: str) -> SeenEdges:
    """The edges that are certain; groups count as names of services too.

    Cost: 4 us for each hash, group, service and stream that it may lead to.
    """
    found: dict[tuple[str, str, str, str], set[int]] = {}
    for stream in streams:
        for service in services:
            for hash_, target in _outs(0, service, env, streams):
                found.setdefault(("", "", service, target.name), set()).add(hash_)
        most = islice(sorted(stream.hashes, key=lambda hash_: (-stream.hashes[hash_], hash_)), MOST_HASHES)
        for hash_ in most:
            for group in stream.groups:
                for service in dict.fromkeys((*services, group)):
                    for out, target in _walk_ways(stream, group, service, env, hash_, streams):
                        found.setdefault((stream.name, group, service, target.name), set()).add(out)
    by_name = {stream.name: stream for stream in streams}
    edges = [
        SeenEdge(source=s, group=g, service=v, target=t, records=sum(by_name[t].hashes[hash_] for hash_ in hashes))
        for (s, g, v, t), hashes in found.items()
    ]
    known: dict[str, set[int]] = {}
    for (*_, target_name), hashes in found.items():
        known.setdefault(target_name, set()).update(hashes)
    left = {
        stream.name: sum(count for hash_, count in stream.hashes.items() if hash_ not in known.get(stream.name, ()))
        for stream in streams
    }
    return SeenEdges(edges=tuple(sorted(edges)), unexplained=left)


def _walk_ways(
    stream: SeenStream, group: str, service: str, env: str, hash_: int, streams: Collection[SeenStream]
) -> Iterator[tuple[int, SeenStream]]:
    for topic, cluster_id in stream.tag_names:
        read = pathway_hash(node_hash(service, env, consume_tags(topic, group, cluster_id)), hash_)
        yield from _outs(read, service, env, streams)


def _outs(parent: int, service: str, env: str, streams: Collection[SeenStream]) -> Iterator[tuple[int, SeenStream]]:
    """Hashes that were seen, and where, of records that a service makes after `parent`."""
    for target in streams:
        for topic, cluster_id in target.tag_names:
            made = pathway_hash(node_hash(service, env, produce_tags(topic, cluster_id)), parent)
            if made in target.hashes:
                yield made, target


QUANTILES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": P99, "max_ms": 1.0}
HEADINGS = ("topic", "pathway", "latency", "records", "p50", "p95", "p99", "max")


def pathways_report(sample: PathwaySample, cluster_id: str, limit_s: float | None) -> Report:
    """What was read; it fails where a partition was not, where no record has a pathway, and above the limit of p99."""
    rows = tuple(row for topic in sample.topics for row in _rows(topic))
    read, named = (sum(getattr(topic, name) for topic in sample.topics) for name in ("records", "with_pathway"))
    table = [(*row[:4], *map(_span_text, row[4:8])) for row in rows]
    slow = tuple(slow_pathways(sample.topics, limit_s)) if limit_s is not None else ()
    return Report(
        command="streams pathway",
        data={
            "cluster_id": cluster_id,
            "max_latency_ms": None if limit_s is None else round(limit_s * 1000),
            "slow": len(slow),
            "problems": [error.message for error in sample.problems],
            "topics": [_data(topic) for topic in sample.topics],
        },
        sections=(
            f"{named} of {count_of(read, 'record')} on cluster {cluster_id} have a pathway",
            *(line for topic in sample.topics for line in _remarks(topic)),
            *([""] if table else []),
            ResultTable(HEADINGS, table, empty=""),
        ),
        table=ResultTable(("topic", "pathway", "latency", "records", *QUANTILES, "negative"), rows),
        warnings=tuple(_warnings(sample)),
        failure=_failure(sample, slow, limit_s),
    )


def _failure(sample: PathwaySample, slow: tuple[SlowPathway, ...], limit_s: float | None) -> KafkakitError | None:
    if sample.problems:
        return sample.problems[0]
    if not any(topic.pathways for topic in sample.topics):
        return OperationFailedError(
            f"no record of {few_of(sanitize(topic.topic) for topic in sample.topics)} that was read has a pathway",
            hint="applications write it into the header dd-pathway-ctx-base64",
        )
    if slow and limit_s is not None:
        number, above = len(slow), few_of(f"{sanitize(s.topic)} {_name(s.hash)} ({format_span(s.p99_s)})" for s in slow)
        has = agree(number, "have")
        return OperationFailedError(f"{count_of(number, 'pathway')} {has} a p99 above {format_span(limit_s)}: {above}")
    return None


def _warnings(sample: PathwaySample) -> Iterator[str]:
    yield from (error.message for error in sample.problems[1:])
    for topic in sample.topics:
        if topic.is_skewed:
            yield (
                f"{count_of(topic.negative, 'latency', 'latencies')} of {sanitize(topic.topic)} "
                "are below 0 and count as 0: clocks of hosts differ"
            )


def _remarks(topic: TopicSample) -> Iterator[str]:
    name = sanitize(topic.topic)
    if topic.faults:
        yield f"{name}: {count_of(topic.faults, 'header')} without a usable context"
    if topic.unread:
        yield f"{name}: {count_of(topic.unread, 'record')} that cannot be read"
    if topic.folded:
        yield f"{name}: {count_of(topic.folded, 'record')} of further pathways in `others`"


def _name(hash_: int) -> str:
    return "others" if hash_ == OTHERS else str(hash_)


def _rows(topic: TopicSample) -> Iterator[tuple[object, ...]]:
    for hash_, sums in sorted(topic.pathways.items()):
        for kind, sketch, negative in _kinds(sums):
            yield topic.topic, _name(hash_), kind, sketch.count, *_quantiles(sketch).values(), negative


def _kinds(sums: PathwaySums) -> Iterable[tuple[str, DDSketch, int]]:
    return ("pathway", sums.pathway_s, sums.negative_pathways), ("edge", sums.edge_s, sums.negative_edges)


def _quantiles(sketch: DDSketch) -> dict[str, int | None]:
    found = {name: sketch.quantile(share) for name, share in QUANTILES.items()}
    return {name: None if value is None else round(value * 1000) for name, value in found.items()}


def _span_text(ms: object) -> str:
    return format_span(ms / 1000) if isinstance(ms, int) else ""


def _data(topic: TopicSample) -> dict[str, object]:
    return {
        **attributes(topic, "topic records with_pathway"),
        "faulty_headers": topic.faults,
        **attributes(topic, "unread folded"),
        "pathways": [
            {
                "pathway": _name(hash_),
                "oldest_start_ms": sums.oldest_ms,
                **{
                    f"{kind}_latency": {"records": sketch.count, **_quantiles(sketch), "negative": negative}
                    for kind, sketch, negative in _kinds(sums)
                },
            }
            for hash_, sums in sorted(topic.pathways.items())
        ],
    }
