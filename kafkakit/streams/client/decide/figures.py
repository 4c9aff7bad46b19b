"""What producers and consumers count, and what their pathways came to, as metrics for Prometheus and Datadog.

Counts are gauges. Of pathways there are sums since the start, and quantiles of the last minute.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import chain
from typing import TypeVar

from kafkakit.core.model import TopicPartition
from kafkakit.core.records import ConnectionFigures
from kafkakit.report.exports import Labels, MetricFamily, gauge
from kafkakit.streams.client.decide.failures import WorkCounts
from kafkakit.streams.model.pathways import FOLDED_TAGS, Bucket, DDSketch, EdgeKey, EdgeSums, merged_edges

PRODUCER_PREFIX = "kafkakit_producer_"


@dataclass(slots=True, kw_only=True)
class LaneCounters:
    """What a lane has counted since the start; the lane's lock guards it.

    `sent_again` counts attempts after a record's first one, each of which may have made a duplicate, and no other
    attempt may. `late` are acknowledgements of records that had been answered before.
    """

    records: int = 0
    bytes: int = 0
    acknowledged: int = 0
    failed: int = 0
    sent_again: int = 0
    late: int = 0
    switches: int = 0
    last_switch_ms: float = 0.0
    longest_switch_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneFigures:
    """A lane at one moment: `waiting` records and bytes have no answer yet, the oldest of them since `oldest_ms`.

    A switch is the time from the change of the route, as this client saw it, to the first acknowledgement on the new
    segment. `problem` is why the lane cannot write now, empty where it can; `segment` 0 where it has none.
    """

    lane: str
    counters: LaneCounters
    waiting_records: int
    waiting_bytes: int
    oldest_ms: float
    segment: int
    cluster_id: str
    problem: str
    connection: ConnectionFigures | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteCondition:
    """The route that a client acts on; `problem` is why it cannot be renewed now, for `stale_s` already."""

    epoch: int
    stale_s: float = 0.0
    problem: str = ""
    ignored_documents: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerMetrics:
    """Everything at one moment."""

    stream: str
    route: RouteCondition
    lanes: tuple[LaneFigures, ...]
    header_errors: int


def producer_families(producers: Sequence[ProducerMetrics]) -> tuple[MetricFamily, ...]:
    """The gauges, in a fixed order; the label `producer` numbers those of one client."""
    labelled = [((("stream", each.stream), ("producer", str(at))), each) for at, each in enumerate(producers)]
    found = [((*labels, ("lane", lane.lane)), lane) for labels, each in labelled for lane in each.lanes]
    lanes = [lane for _, lane in found]

    def of_lanes(name: str, about: str, *values: float) -> MetricFamily:
        return gauge(name, about, *((labels, value) for (labels, _), value in zip(found, values, strict=True)))

    def of_producers(name: str, about: str, *values: float) -> MetricFamily:
        return gauge(name, about, *((labels, value) for (labels, _), value in zip(labelled, values, strict=True)))

    counters = [lane.counters for lane in lanes]
    figures = [lane.connection for lane in lanes]
    return (
        of_producers("route_epoch", "Epoch of the route in use.", *(p.route.epoch for p in producers)),
        of_producers("route_stale_seconds", "Time without the control store.", *(p.route.stale_s for p in producers)),
        of_producers("header_errors", "Records without a pathway's headers.", *(p.header_errors for p in producers)),
        of_lanes("records", "Records taken.", *(c.records for c in counters)),
        of_lanes("bytes", "Bytes of records taken, before compression.", *(c.bytes for c in counters)),
        of_lanes(
            "acknowledged_records", "Records that all in-sync replicas have.", *(c.acknowledged for c in counters)
        ),
        of_lanes("failed_records", "Records given up.", *(c.failed for c in counters)),
        of_lanes("sent_again_records", "Attempts that may have made a duplicate.", *(c.sent_again for c in counters)),
        of_lanes(
            "late_acknowledgements",
            "Acknowledgements that came after the record was given up.",
            *(c.late for c in counters),
        ),
        of_lanes("waiting_records", "Records without an answer.", *(n.waiting_records for n in lanes)),
        of_lanes("waiting_bytes", "Bytes of records without an answer.", *(n.waiting_bytes for n in lanes)),
        of_lanes("oldest_seconds", "Age of the oldest record without an answer.", *(n.oldest_ms / 1000 for n in lanes)),
        of_lanes("writable", "1 while a segment takes records.", *(float(not n.problem) for n in lanes)),
        of_lanes("switches", "Changes of the lane's segment.", *(c.switches for c in counters)),
        of_lanes(
            "switch_seconds", "Duration of the last change of segment.", *(c.last_switch_ms / 1000 for c in counters)
        ),
        of_lanes(
            "longest_switch_seconds",
            "Duration of the longest change of segment.",
            *(c.longest_switch_ms / 1000 for c in counters),
        ),
        of_lanes(
            "round_trip_p99_seconds",
            "99th percentile of the worst broker's round trip.",
            *(f.round_trip_p99_ms / 1000 if f else 0.0 for f in figures),
        ),
    )


CONSUMER_PREFIX = "kafkakit_consumer_"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFigures:
    """One partition of a consumer, now.

    `lag` are offsets from the committed one to the log's end, None while the end is unknown. `duplicates` are the most
    records that are handled again if the consumer stops now. Counts are since the assignment.
    """

    cluster_id: str
    partition: TopicPartition
    lane: str
    base: int
    lag: int | None
    buffered: int
    in_flight: int
    waiting: int
    undurable: int
    commit_fill: float
    duplicates: int
    handled: int
    failures: int
    retries: int
    rejected: int
    deferred: int
    gone: int
    replayed: int
    is_paused: bool


class ConsumerState(StrEnum):
    """Whether a consumer handles records. STOPPED: not started yet, or ended by `stop` or `close`."""

    RUNNING = "running"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerFigures:
    """A consumer, now: its partitions, sums over them, and what is wrong.

    `reason` is why it failed. `left` are the counts, by lane, of partitions that it does not have any more.
    """

    stream: str
    group: str
    state: ConsumerState
    reason: str
    epoch: int
    partitions: tuple[PartitionFigures, ...]
    left: Mapping[str, WorkCounts]
    filtered: int
    unreadable: int
    commits: int
    commit_errors: int
    reconnects: int
    dead_letters_written: int
    dead_letters_failed: int
    dependencies_down: tuple[str, ...]
    problems: tuple[str, ...]

    def total(self, name: str) -> int:
        """The sum of one figure of the partitions, counts since the start; what is unknown counts as 0."""
        now = sum(getattr(partition, name) or 0 for partition in self.partitions)
        return now + sum(getattr(counts, name, 0) for counts in self.left.values())


def add_counts(total: WorkCounts, more: WorkCounts) -> None:
    """Add all counts of `more` to those of `total`."""
    for each in fields(WorkCounts):
        setattr(total, each.name, getattr(total, each.name) + getattr(more, each.name))


def consumer_families(consumers: Sequence[ConsumerFigures]) -> tuple[MetricFamily, ...]:
    """The gauges, in a fixed order; the label `consumer` numbers those of one client.

    Those of lanes are sums over the partitions that the consumer has now; counts keep those of partitions it had.
    """
    wholes = [(_consumer(at, each), each) for at, each in enumerate(consumers)]
    lanes = [((*labels, ("lane", lane)), found) for labels, each in wholes for lane, found in _by_lane(each)]
    single = [((*labels, *_place(one)), one) for labels, each in wholes for one in each.partitions]
    down = [((*labels, ("dependency", name)), 1.0) for labels, each in wholes for name in each.dependencies_down]
    states = [
        ((*labels, ("state", state.value)), float(each.state is state))
        for labels, each in wholes
        for state in ConsumerState
    ]
    return (
        gauge("state", "1 for the state that the consumer is in, 0 for the others.", *states),
        *(gauge(name, text, *((labels, value(each)) for labels, each in wholes)) for name, text, value in _WHOLE),
        gauge("dependency_down", "1 for each dependency that handlers found down.", *down),
        *(gauge(name, text, *((labels, value(found)) for labels, found in lanes)) for name, text, value in _LANE),
        gauge(
            "partition_lag_records",
            "Offsets from the committed one to the end of one partition.",
            *((labels, float(one.lag)) for labels, one in single if one.lag is not None),
        ),
        gauge(
            "partition_commit_fill",
            "Share of the metadata of a commit that the next one of one partition takes.",
            *((labels, one.commit_fill) for labels, one in single),
        ),
        gauge(
            "partition_duplicates",
            "Most records of one partition that are handled again if the consumer stops now.",
            *((labels, float(one.duplicates)) for labels, one in single),
        ),
    )


def _consumer(at: int, found: ConsumerFigures) -> Labels:
    return (("stream", found.stream), ("group", found.group), ("consumer", str(at)))


def _place(one: PartitionFigures) -> Labels:
    place = one.partition
    return (
        ("lane", one.lane),
        ("cluster_id", one.cluster_id),
        ("topic", place.topic),
        ("partition", str(place.partition)),
    )


@dataclass(frozen=True, slots=True)
class _Lane:
    partitions: Sequence[PartitionFigures]
    left: WorkCounts


def _by_lane(found: ConsumerFigures) -> list[tuple[str, _Lane]]:
    lanes: dict[str, list[PartitionFigures]] = {name: [] for name in found.left}
    for one in found.partitions:
        lanes.setdefault(one.lane, []).append(one)
    return [(name, _Lane(some, found.left.get(name, WorkCounts()))) for name, some in sorted(lanes.items())]


def _sum(name: str) -> Callable[[_Lane], float]:
    return lambda lane: float(sum(getattr(one, name) or 0 for one in lane.partitions) + getattr(lane.left, name, 0))


_WHOLE: tuple[tuple[str, str, Callable[[ConsumerFigures], float]], ...] = (
    ("route_epoch", "Epoch of the route in use.", lambda c: c.epoch),
    ("filtered_records", "Records that the filter left out.", lambda c: c.filtered),
    ("unreadable_batches", "Batches that the client could not decode, each attempt.", lambda c: c.unreadable),
    ("commits", "Commits of partitions that were answered.", lambda c: c.commits),
    ("commit_errors", "Commits of partitions that failed.", lambda c: c.commit_errors),
    ("reconnects", "Members that failed and were made again.", lambda c: c.reconnects),
    ("dead_letters", "Rejected records that were written elsewhere.", lambda c: c.dead_letters_written),
    ("dead_letter_failures", "Failed attempts to write a rejected record elsewhere.", lambda c: c.dead_letters_failed),
    ("dependencies_down", "Dependencies that handlers found down.", lambda c: len(c.dependencies_down)),
    ("problems", "Problems that the consumer has now.", lambda c: len(c.problems)),
)
_LANE: tuple[tuple[str, str, Callable[[_Lane], float]], ...] = (
    ("partitions", "Partitions of this consumer.", lambda lane: len(lane.partitions)),
    ("paused_partitions", "Partitions of this consumer that are not read now.", _sum("is_paused")),
    (
        "unknown_lag_partitions",
        "Partitions of this consumer whose end is not known.",
        lambda lane: sum(p.lag is None for p in lane.partitions),
    ),
    ("lag_records", "Offsets from the committed ones to the ends.", _sum("lag")),
    (
        "commit_fill",
        "Highest share of a commit's metadata in use.",
        lambda lane: max((p.commit_fill for p in lane.partitions), default=0.0),
    ),
    ("duplicates", "Most records that are handled again if the consumer stops now.", _sum("duplicates")),
    ("buffered_records", "Records read and not handed to handlers.", _sum("buffered")),
    ("in_flight_records", "Records at handlers.", _sum("in_flight")),
    ("waiting_records", "Failed records that are to be tried again.", _sum("waiting")),
    ("undurable_rejections", "Rejected records that are not written elsewhere yet.", _sum("undurable")),
    ("handled_records", "Records handled.", _sum("handled")),
    ("failures", "Attempts that failed.", _sum("failures")),
    ("retries", "Attempts after a record's first one.", _sum("retries")),
    ("rejected_records", "Records given up.", _sum("rejected")),
    ("deferred_records", "Records put off for a dependency.", _sum("deferred")),
    ("gone_offsets", "Offsets without a record.", _sum("gone")),
    ("replayed_records", "Records handled once more on request.", _sum("replayed")),
)

T = TypeVar("T")
PATHWAY_PREFIX = "kafkakit_pathway_"
MOST_EDGES = 1000
"""Edges that are kept apart since the start; further ones are summed up as one."""
WINDOW = 6
"""Quantiles are those of so many takes of buckets."""
_QUANTILES = (("0.5", 0.5), ("0.95", 0.95), ("0.99", 0.99), ("1", 1.0))
_SKETCHES: tuple[tuple[str, str, Callable[[EdgeSums], DDSketch]], ...] = (
    ("latency_seconds", "Time since the first checkpoint of the pathway.", lambda sums: sums.pathway_s),
    ("edge_latency_seconds", "Time since the checkpoint before.", lambda sums: sums.edge_s),
    ("payload_bytes", "Keys, values and headers.", lambda sums: sums.payload_bytes),
)


@dataclass(frozen=True, slots=True)
class _Sum:
    count: int = 0
    total: float = 0.0

    def plus(self, sketch: DDSketch) -> "_Sum":
        return _Sum(self.count + sketch.count, self.total + sketch.total)


class PathwayTotals:
    """Adds up what was taken of `PathwayBuckets`; for one thread at a time.

    `unsent_buckets` are those that an agent did not get.
    """

    def __init__(self) -> None:
        self.unsent_buckets = 0
        self._window: deque[tuple[Bucket, ...]] = deque(maxlen=WINDOW)
        self._sums: dict[EdgeKey, tuple[_Sum, ...]] = {}
        self._left_out = {"folded": 0, "dropped": 0, "skewed": 0}

    def add(self, taken: Sequence[Bucket], *, folded: int, dropped: int, skewed: int) -> None:
        """Add what one take gave, maybe nothing, and what was counted apart until then."""
        self._left_out = {"folded": folded, "dropped": dropped, "skewed": skewed}
        self._window.append(tuple(taken))
        for key, sums in merged_edges(taken).items():
            kept = key if key in self._sums or len(self._sums) < MOST_EDGES else (FOLDED_TAGS, 0, 0)
            before = self._sums.get(kept, (_Sum(),) * len(_SKETCHES))
            self._sums[kept] = tuple(one.plus(of(sums)) for one, (_, _, of) in zip(before, _SKETCHES, strict=True))

    def families(self) -> tuple[MetricFamily, ...]:
        """Summaries by stream, direction, group and pathway, and gauges of what is not in them."""
        recent, left_out = _sort_edges(merged_edges(chain.from_iterable(self._window))), self._left_out
        sums = _sort_edges(self._sums)
        return (
            *(
                MetricFamily(
                    name=name,
                    help=about,
                    samples=tuple(chain.from_iterable(_quantiles(key, of(edge)) for key, edge in recent)),
                    totals=tuple((_labels(key), each[at].count, each[at].total) for key, each in sums),
                )
                for at, (name, about, of) in enumerate(_SKETCHES)
            ),
            gauge("folded_points", "Checkpoints summed up as one edge for want of space.", ((), left_out["folded"])),
            gauge("dropped_points", "Checkpoints and offsets that were left out.", ((), left_out["dropped"])),
            gauge("skewed_points", "Checkpoints with a time below 0: clocks differ.", ((), left_out["skewed"])),
            gauge("unsent_buckets", "Buckets of 10 s that the agent did not get.", ((), self.unsent_buckets)),
        )


def _sort_edges(edges: Mapping[EdgeKey, T]) -> list[tuple[EdgeKey, T]]:
    return sorted(edges.items(), key=lambda item: item[0])


def _quantiles(key: EdgeKey, sketch: DDSketch) -> list[tuple[Labels, float]]:
    labels = _labels(key)
    return [((*labels, ("quantile", word)), sketch.quantile(share) or 0.0) for word, share in _QUANTILES]


def _labels(key: EdgeKey) -> Labels:
    tags, hash_, _ = key
    found = dict(tag.split(":", 1) for tag in tags)
    return (
        ("stream", found.get("topic", "others")),
        ("direction", found.get("direction", "")),
        ("group", found.get("group", "")),
        ("pathway", str(hash_)),
    )
