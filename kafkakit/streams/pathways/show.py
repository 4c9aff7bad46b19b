"""Latencies of pathways as text, rows and JSON fields."""

from collections.abc import Iterable, Iterator

from kafkakit.core.durations import format_span
from kafkakit.core.errors import KafkakitError, OperationFailedError
from kafkakit.core.lists_in_words import some
from kafkakit.core.printable import printable
from kafkakit.core.quantities import agreeing, counted
from kafkakit.core.tables import text_table
from kafkakit.report.report import Report
from kafkakit.streams.model.pathways import DDSketch
from kafkakit.streams.pathways.decide import (
    OTHERS,
    P99,
    PathwaySample,
    PathwaySums,
    SlowPathway,
    TopicSample,
    slow_pathways,
)

QUANTILES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": P99, "max_ms": 1.0}
COLUMNS = ("topic", "pathway", "latency", "records", *QUANTILES, "negative")
HEADINGS = ("topic", "pathway", "latency", "records", "p50", "p95", "p99", "max")


def pathways_report(sample: PathwaySample, cluster_id: str, limit_s: float | None) -> Report:
    """What was read; it fails where a partition was not, where no record has a pathway, and above the limit of p99."""
    rows = tuple(row for topic in sample.topics for row in _rows(topic))
    read, named = (sum(getattr(topic, name) for topic in sample.topics) for name in ("records", "with_pathway"))
    lines = [f"{named} of {counted(read, 'record')} on cluster {cluster_id} have a pathway"]
    lines += [line for topic in sample.topics for line in _remarks(topic)]
    if rows:
        lines += ["", text_table(HEADINGS, ((*row[:4], *map(_words, row[4:8])) for row in rows))]
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
        text="\n".join(lines),
        columns=COLUMNS,
        rows=rows,
        warnings=tuple(_warnings(sample)),
        failure=_failure(sample, slow, limit_s),
    )


def _failure(sample: PathwaySample, slow: tuple[SlowPathway, ...], limit_s: float | None) -> KafkakitError | None:
    if sample.problems:
        return sample.problems[0]
    if not any(topic.pathways for topic in sample.topics):
        return OperationFailedError(
            f"no record of {some(printable(topic.topic) for topic in sample.topics)} that was read has a pathway",
            hint="applications write it into the header dd-pathway-ctx-base64",
        )
    if slow and limit_s is not None:
        number, above = len(slow), some(f"{printable(s.topic)} {_name(s.hash)} ({format_span(s.p99_s)})" for s in slow)
        has = agreeing(number, "have")
        return OperationFailedError(f"{counted(number, 'pathway')} {has} a p99 above {format_span(limit_s)}: {above}")
    return None


def _warnings(sample: PathwaySample) -> Iterator[str]:
    yield from (error.message for error in sample.problems[1:])
    for topic in sample.topics:
        if topic.is_skewed:
            yield (
                f"{counted(topic.negative, 'latency', 'latencies')} of {printable(topic.topic)} "
                "are below 0 and count as 0: clocks of hosts differ"
            )


def _remarks(topic: TopicSample) -> Iterator[str]:
    name = printable(topic.topic)
    if topic.faults:
        yield f"{name}: {counted(topic.faults, 'header')} without a usable context"
    if topic.unread:
        yield f"{name}: {counted(topic.unread, 'record')} that cannot be read"
    if topic.folded:
        yield f"{name}: {counted(topic.folded, 'record')} of further pathways in `others`"


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


def _words(ms: object) -> str:
    return format_span(ms / 1000) if isinstance(ms, int) else ""


def _data(topic: TopicSample) -> dict[str, object]:
    return {
        "topic": topic.topic,
        "records": topic.records,
        "with_pathway": topic.with_pathway,
        "faulty_headers": topic.faults,
        "unread": topic.unread,
        "folded": topic.folded,
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
