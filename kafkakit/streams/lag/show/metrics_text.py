"""Lag as gauges: Prometheus text exposition, and the same as DogStatsD datagrams.

Formats: https://prometheus.io/docs/instrumenting/exposition_formats/ (0.0.4) and DogStatsD's plain datagrams. The
number of series is bounded, and what was left out is a series itself. A figure that is stale is left out, and so is a
sum or forecast that a stale one went into, so that none passes for a fresh one; `stale_partitions` counts such.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from kafkakit.report import metrics_text
from kafkakit.report.metrics_text import Labels, MetricFamily, gauge
from kafkakit.streams.lag.decide.measure.figures import FigureFlag, TimeLag
from kafkakit.streams.lag.decide.measure.status import LagStatus
from kafkakit.streams.lag.decide.views.selecting import RowFilter
from kafkakit.streams.lag.decide.views.views import LagView, ViewLevel, ViewLine, view

if TYPE_CHECKING:
    from kafkakit.streams.lag.decide.measure.table import LagTable

PREFIX = "kafkakit_lag_"

Value = Callable[[ViewLine], float | None]


def families(
    tables: "Sequence[LagTable]", max_lines: int = 5_000, partition_groups: Sequence[str] = ()
) -> tuple[MetricFamily, ...]:
    """The gauges of several clusters, in a fixed order; of each level at most `max_lines` have series of their own.

    The partitions of groups that match one of the globs `partition_groups` have series under names of their own, so
    that sums over the others stay sums over groups and topics.
    """
    lines = view(tables, ViewLevel.GROUP_TOPIC, top=max_lines)
    found = [_family(name, text, value, lines) for name, text, value in _GAUGES]
    found += _cluster_families(view(tables, ViewLevel.CLUSTER))
    dropped = [((("level", "group_topic"),), float(lines.others_count))]
    if partition_groups:
        chosen = RowFilter(groups=tuple(partition_groups)).of(tables)
        lines = view(chosen, ViewLevel.PARTITION, top=max_lines)
        values = {name: value for name, _, value in _GAUGES}
        found += [_family(f"partition_{name}", text, values[name], lines) for name, text in _PARTITION_GAUGES]
        dropped.append(((("level", "partition"),), float(lines.others_count)))
    about = "Lines without series of their own, because there are more than the limit."
    found.append(gauge("dropped_series", about, *dropped))
    return tuple(f for f in found if f.samples)


def exposition(found: Iterable[MetricFamily]) -> str:
    """Families as Prometheus reads them."""
    return metrics_text.exposition(found, PREFIX)


def datagrams(
    found: Iterable[MetricFamily], *, tags: Sequence[str] = (), max_bytes: int = metrics_text.DATAGRAM_BYTES
) -> list[bytes]:
    """Families as DogStatsD gauges named `kafkakit.lag.*`."""
    return metrics_text.datagrams(found, PREFIX, tags=tags, max_bytes=max_bytes)


def _fresh(lag: TimeLag, value_ms: int | None) -> float | None:
    return None if value_ms is None or lag.flags & FigureFlag.STALE else value_ms / 1000


def _seconds(value_ms: int | None) -> float | None:
    return None if value_ms is None else value_ms / 1000


def _now(line: ViewLine, value: float | None) -> float | None:
    """What all partitions went into; with a stale one among them it is not of now."""
    return None if line.stale else value


def _where_known(line: ViewLine, value: float) -> float | None:
    """A sum over partitions; none of which known is no sum."""
    return _now(line, value) if line.unknown < line.partitions else None


def _low(line: ViewLine) -> float | None:
    """The surest bound of all partitions, or of the worst alone where another one is stale."""
    if line.unknown == line.partitions:
        return None
    return _fresh(line.backlog, line.backlog.low_ms if line.stale else line.max_low_ms)


_GAUGES: tuple[tuple[str, str, Value], ...] = (
    ("records", "Offsets from the committed ones to the ends.", lambda n: _where_known(n, n.lag)),
    ("pending_records", "Those of them that no commit marks as done.", lambda n: _where_known(n, n.pending)),
    ("lost_records", "Records deleted before the group processed them.", lambda n: _where_known(n, n.lost)),
    (
        "backlog_seconds",
        "Age of the oldest record not done by the time that it carries, in the worst partition.",
        lambda n: _fresh(n.backlog, n.backlog.estimate_ms),
    ),
    ("backlog_low_seconds", "Proven lower bound of that age.", _low),
    ("backlog_high_seconds", "Proven upper bound of that age.", lambda n: _fresh(n.backlog, n.backlog.high_ms)),
    (
        "arrival_seconds",
        "Time since the oldest record not done came into the log, in the worst partition.",
        lambda n: _fresh(n.arrival, n.arrival.estimate_ms),
    ),
    (
        "arrival_low_seconds",
        "Proven lower bound of that time.",
        lambda n: _fresh(n.arrival, n.arrival.low_ms if n.unknown < n.partitions else None),
    ),
    ("arrival_high_seconds", "Proven upper bound of that time.", lambda n: _fresh(n.arrival, n.arrival.high_ms)),
    (
        "live_seconds",
        "Age of the newest done record while newer ones wait, in the worst partition.",
        lambda n: _fresh(n.live, n.live.estimate_ms),
    ),
    (
        "live_low_seconds",
        "Proven lower bound of that age.",
        lambda n: _fresh(n.live, n.live.low_ms if n.live.estimate_ms is not None else None),
    ),
    ("live_high_seconds", "Proven upper bound of that age.", lambda n: _fresh(n.live, n.live.high_ms)),
    (
        "as_of_timestamp_seconds",
        "Time of the oldest figure.",
        lambda n: _seconds(n.oldest_as_of_ms) if n.oldest_as_of_ms >= 0 else None,
    ),
    (
        "status",
        "The worst partition: " + ", ".join(f"{int(s)} {s.word}" for s in LagStatus) + ".",
        lambda n: float(n.status),
    ),
    ("partitions", "Partitions with a commit.", lambda n: float(n.partitions)),
    ("unknown_partitions", "Partitions whose end is not known.", lambda n: float(n.unknown)),
    ("stale_partitions", "Partitions whose figures are too old to be shown.", lambda n: float(n.stale)),
    ("eta_seconds", "Time to catch up at the present rates; absent for never.", lambda n: _now(n, _seconds(n.eta_ms))),
    (
        "retention_left_seconds",
        "Time until the first records are lost.",
        lambda n: _now(n, _seconds(n.retention_left_ms)),
    ),
    ("consumed_records_per_second", "Rate of the commits.", lambda n: _now(n, n.consumed_per_s)),
    ("produced_records_per_second", "Rate of the ends.", lambda n: _now(n, n.produced_per_s)),
)
_PARTITION_GAUGES = (
    ("records", "Offsets from the committed one to the end of one partition."),
    ("pending_records", "Those of them that no commit marks as done."),
    ("backlog_seconds", "Age of the oldest record of one partition that is not done, by the time that it carries."),
    ("backlog_low_seconds", "Proven lower bound of that age."),
    ("backlog_high_seconds", "Proven upper bound of that age."),
    ("retention_left_seconds", "Time until the first records of one partition are lost."),
    ("status", "Status of one partition, numbered as kafkakit_lag_status."),
)
"""Those of `_GAUGES` that partitions have, too, with what they say of one."""


def _family(name: str, text: str, value: Value, lines: LagView) -> MetricFamily:
    samples = []
    for line in lines.lines:
        found = value(line)
        if found is not None:
            labels: Labels = (("cluster", line.cluster), ("group", line.group), ("topic", line.topic))
            if line.partition >= 0:
                labels = (*labels, ("partition", str(line.partition)))
            samples.append((labels, float(found)))
    return gauge(name, text, *samples)


def _cluster_families(clusters: LagView) -> list[MetricFamily]:
    lines = sorted(clusters.lines, key=lambda line: line.cluster)
    counts = [
        ((("cluster", line.cluster), ("status", status.word)), float(dict(line.counts).get(status, 0)))
        for line in lines
        for status in LagStatus
    ]
    lags = (((("cluster", line.cluster),), float(line.lag)) for line in lines if not line.stale)
    return [
        gauge("cluster_partitions", "Group-partitions by status.", *counts),
        gauge("cluster_records", "Offsets from all committed ones to the ends.", *lags),
    ]
