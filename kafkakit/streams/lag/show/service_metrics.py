"""What the service publishes as gauges: the figures, how each monitor is doing, and the instance itself."""

from collections.abc import Callable, Sequence

from kafkakit.report.metrics_text import MetricFamily, gauge, single
from kafkakit.streams.lag.decide.condition import MonitorCondition, MonitorPhase
from kafkakit.streams.lag.decide.looks import Published
from kafkakit.streams.lag.show.metrics_text import datagrams, families

Value = Callable[[MonitorCondition], float | None]

CONDITIONS: tuple[tuple[str, str, Value], ...] = (
    (
        "monitor_live",
        "1 while all commits and ends are read; 0 for a monitor that is blind.",
        lambda c: float(c.phase is MonitorPhase.LIVE),
    ),
    (
        "monitor_reachable",
        "1 while brokers answer.",
        lambda c: float(c.phase in (MonitorPhase.LIVE, MonitorPhase.BLIND, MonitorPhase.READING)),
    ),
    (
        "commits_as_of_timestamp_seconds",
        "Time up to which all commits are known, 0 while they are not.",
        lambda c: _seconds(c.as_of_ms) or 0.0,
    ),
    (
        "ends_as_of_timestamp_seconds",
        "Time up to which all ends of logs are known, 0 while they are not.",
        lambda c: _seconds(c.ends_known_ms) or 0.0,
    ),
    ("commit_log_partitions", "Partitions of the offsets topic.", lambda c: float(c.partitions)),
    ("blind_partitions", "Those of them that cannot be read now.", lambda c: float(c.blind_count)),
    ("open_transactions", "Open transactions that hold commits back.", lambda c: float(c.held_back_count)),
    ("held_back_commits", "Commits that they hold back.", lambda c: float(c.held_back_commits)),
    ("missing_topics", "Topics with commits that do not exist.", lambda c: float(c.missing_topics_count)),
    ("ends_unknown", "Partitions without an answer about their end.", lambda c: float(sum(c.end_errors.values()))),
    ("commit_records", "Records of the offsets topic read since the start.", lambda c: float(c.totals.records)),
    ("unreadable_records", "Records and batches that cannot be read.", lambda c: float(_unread(c))),
    ("left_out_commits", "Commits beyond what may be held.", lambda c: float(c.left_out)),
    ("left_out_metadata", "Commits whose metadata is too large to be kept.", lambda c: float(c.refused_metadata)),
    (
        "left_out_partitions",
        "Group-partitions beyond the partitions whose ends are sampled.",
        lambda c: float(c.refused_partitions),
    ),
    ("dropped_commits", "Commits in aborted or fenced transactions.", lambda c: float(c.totals.dropped_commits)),
    ("skipped_offsets", "Offsets of the commit log passed over.", lambda c: float(c.totals.skipped_offsets)),
    ("record_reads", "Reads of records for their times since the start.", lambda c: float(c.record_reads)),
    ("record_read_failures", "Those of them without an answer.", lambda c: float(c.record_failures)),
)


def all_families(
    published: Published, max_series: int, partition_groups: Sequence[str] = ()
) -> tuple[MetricFamily, ...]:
    """Everything; of the group-topics, and of the partitions of `partition_groups`, at most `max_series` have series of
    their own."""
    carried = [(name, 1.0) for name in published.carried] + [(name, 0.0) for name in published.others]
    return (
        *families(published.tables, max_series, partition_groups),
        *(_family(name, text, value, published.conditions) for name, text, value in CONDITIONS if published.conditions),
        gauge(
            "carried",
            "1 for a cluster whose figures this instance publishes, 0 for the others.",
            *(((("cluster", name),), value) for name, value in sorted(carried)),
        ),
        single("instances", "Instances that share the clusters, as far as this one knows.", published.instances),
    )


def published_datagrams(published: Published, max_series: int, partition_groups: Sequence[str] = ()) -> list[bytes]:
    """Everything as DogStatsD datagrams."""
    return datagrams(all_families(published, max_series, partition_groups))


def instance_data(published: Published) -> dict[str, object]:
    """The instance as plain data."""
    return {"carries": list(published.carried), "others": list(published.others), "instances": published.instances}


def _family(name: str, text: str, value: Value, conditions: tuple[MonitorCondition, ...]) -> MetricFamily:
    samples = ((c.cluster, value(c)) for c in conditions)
    return gauge(name, text, *(((("cluster", cluster),), found) for cluster, found in samples if found is not None))


def _seconds(ms: int) -> float | None:
    return None if ms < 0 else ms / 1000


def _unread(c: MonitorCondition) -> int:
    return c.totals.undecodable + c.totals.unreadable_batches
