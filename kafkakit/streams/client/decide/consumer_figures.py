"""What a consumer counts, and the same as gauges for Prometheus and Datadog."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kafkakit.core.model import TopicPartition
from kafkakit.report.metrics_text import Labels, MetricFamily, gauge

PREFIX = "kafkakit_consumer_"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerFigures:
    """A consumer, now: its partitions, sums over them, and what went wrong last with each cluster."""

    stream: str
    group: str
    epoch: int
    partitions: tuple[PartitionFigures, ...]
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
        """The sum of one figure of the partitions; what is unknown counts as 0."""
        return sum(getattr(partition, name) or 0 for partition in self.partitions)


def consumer_families(consumers: Sequence[ConsumerFigures]) -> tuple[MetricFamily, ...]:
    """The gauges, in a fixed order; the label `consumer` numbers those of one client.

    Those of lanes are sums over the partitions that the consumer has now, so they fall when partitions go elsewhere.
    """
    wholes = [(_consumer(at, each), each) for at, each in enumerate(consumers)]
    lanes = [((*labels, ("lane", lane)), found) for labels, each in wholes for lane, found in _by_lane(each)]
    single = [((*labels, *_place(one)), one) for labels, each in wholes for one in each.partitions]
    down = [((*labels, ("dependency", name)), 1.0) for labels, each in wholes for name in each.dependencies_down]
    return (
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


def _by_lane(found: ConsumerFigures) -> list[tuple[str, list[PartitionFigures]]]:
    lanes: dict[str, list[PartitionFigures]] = {}
    for one in found.partitions:
        lanes.setdefault(one.lane, []).append(one)
    return sorted(lanes.items())


def _sum(name: str) -> Callable[[list[PartitionFigures]], float]:
    return lambda lane: float(sum(getattr(one, name) or 0 for one in lane))


_WHOLE: tuple[tuple[str, str, Callable[[ConsumerFigures], float]], ...] = (
    ("route_epoch", "Epoch of the route in use.", lambda c: c.epoch),
    ("filtered_records", "Records that the filter left out.", lambda c: c.filtered),
    ("unreadable_batches", "Batches that the client could not decode, each attempt.", lambda c: c.unreadable),
    ("commits", "Commits of partitions that were answered.", lambda c: c.commits),
    ("commit_errors", "Commits of partitions that failed.", lambda c: c.commit_errors),
    ("reconnects", "Members that failed and were made again.", lambda c: c.reconnects),
    ("dead_letters", "Rejected records that were written elsewhere.", lambda c: c.dead_letters_written),
    ("dead_letter_failures", "Attempts to write one that failed.", lambda c: c.dead_letters_failed),
    ("dependencies_down", "Dependencies that handlers found down.", lambda c: len(c.dependencies_down)),
    ("problems", "Clusters and writers with a problem.", lambda c: len(c.problems)),
)
_LANE: tuple[tuple[str, str, Callable[[list[PartitionFigures]], float]], ...] = (
    ("partitions", "Partitions of this consumer.", len),
    ("paused_partitions", "Those of them that are not read now.", _sum("is_paused")),
    ("unknown_lag_partitions", "Those of them whose end is not known.", lambda lane: sum(p.lag is None for p in lane)),
    ("lag_records", "Offsets from the committed ones to the ends.", _sum("lag")),
    (
        "commit_fill",
        "Highest share of a commit's metadata in use.",
        lambda lane: max(p.commit_fill for p in lane),
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
