"""What the lag service publishes: HTTP pages (metrics, views as JSON, health) and gauges.

Gauges are the figures, how each monitor is doing, and the instance itself, as Prometheus text exposition and as
DogStatsD datagrams. Formats: https://prometheus.io/docs/instrumenting/exposition_formats/ (0.0.4) and DogStatsD's
plain datagrams.

The number of series is bounded, and what was left out is a series itself. A figure that is stale is left out, and so
is a sum or forecast that a stale one went into, so that none passes for a fresh one; `stale_partitions` counts such.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kafkakit.core.documents import encode_json
from kafkakit.core.errors import UsageError
from kafkakit.core.rpc import HttpPage
from kafkakit.core.text import plain_value
from kafkakit.report import exports
from kafkakit.report.exports import Labels, MetricFamily, gauge, single_gauge
from kafkakit.streams.lag.decide.measure.table import LagStatus
from kafkakit.streams.lag.decide.measure.time_lag import FigureFlag, TimeLag
from kafkakit.streams.lag.decide.monitors import MonitorCondition, MonitorPhase, PublishedState
from kafkakit.streams.lag.decide.views import LagView, LineOrder, RowFilter, ViewLevel, ViewLine, ViewRequest, view
from kafkakit.streams.lag.report import view_data

if TYPE_CHECKING:
    from kafkakit.streams.lag.decide.measure.table import LagTable


DEFAULT_TOP = 500
MAX_TOP = 20_000
JSON_KEYS = ("by", "group", "topic", "cluster", "top")
METRICS_MEDIA = "text/plain; version=0.0.4; charset=utf-8"
JSON_MEDIA = "application/json"


def service_pages(
    published: Callable[[], PublishedState],
    is_healthy: Callable[[], bool],
    max_series: int,
    partition_groups: Sequence[str] = (),
) -> dict[str, Callable[[Mapping[str, str]], HttpPage]]:
    """The pages by path; each is made from what may be published when it is requested."""

    def metrics(query: Mapping[str, str]) -> HttpPage:
        del query
        found = all_families(published(), max_series, partition_groups)
        return HttpPage(body=exposition(found).encode(), media=METRICS_MEDIA)

    def views(query: Mapping[str, str]) -> HttpPage:
        now = published()
        return HttpPage(
            body=json_page(query, now.tables, now.conditions, now.at_ms, instance_data(now)), media=JSON_MEDIA
        )

    def health(query: Mapping[str, str]) -> HttpPage:
        del query
        now, is_well = published(), is_healthy()
        return HttpPage(
            body=health_page(is_well, now.conditions, instance_data(now)),
            media=JSON_MEDIA,
            status=200 if is_well else 503,
        )

    return {"/metrics": metrics, "/json": views, "/healthz": health}


def json_page(
    query: Mapping[str, str],
    tables: "tuple[LagTable, ...]",
    conditions: "tuple[MonitorCondition, ...]",
    at_ms: int,
    instance: Mapping[str, object],
) -> bytes:
    """One view as JSON: `by` names the level (`group_topic` when not given), `group` and `topic` are globs, `cluster` a
    name, `top` a limit of lines. Raises `UsageError` for anything else."""
    unknown = sorted(set(query) - set(JSON_KEYS))
    if unknown:
        raise UsageError(f"unknown key {unknown[0]!r:.40}", hint=f"there are {', '.join(JSON_KEYS)}")
    try:
        level = ViewLevel(query.get("by", ViewLevel.GROUP_TOPIC.value).replace("-", "_"))
    except ValueError:
        raise UsageError("by is not a level", hint=f"choose from {', '.join(sorted(ViewLevel))}") from None
    top = _number(query.get("top", str(DEFAULT_TOP)))
    cluster = query.get("cluster")
    rows = RowFilter(groups=_globs(query, "group"), topics=_globs(query, "topic"))
    request = ViewRequest(level=level, order=LineOrder.WORST, top=top, rows=rows)
    chosen = [t for t in tables if cluster in (None, t.cluster)]
    found = [c for c in conditions if cluster in (None, c.cluster)]
    body = {"instance": instance, **view_data(request.of(chosen), found, at_ms)}
    return encode_json(plain_value(body))


def health_page(is_healthy: bool, conditions: "tuple[MonitorCondition, ...]", instance: Mapping[str, object]) -> bytes:
    """Whether all is well, and of each cluster its phase and its notes."""
    clusters = {
        c.cluster: {"phase": c.phase.value, "as_of_ms": None if c.as_of_ms < 0 else c.as_of_ms, "notes": list(c.notes)}
        for c in conditions
    }
    return encode_json({"healthy": is_healthy, "instance": plain_value(instance), "clusters": clusters})


def _globs(query: Mapping[str, str], key: str) -> tuple[str, ...]:
    return (query[key],) if query.get(key) else ()


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MAX_TOP:
        raise UsageError(f"top must be a number from 1 to {MAX_TOP:,}")
    return int(text)


PREFIX = "kafkakit_lag_"

LineFigure = Callable[[ViewLine], float | None]


def families(
    tables: "Sequence[LagTable]", max_lines: int = 5_000, partition_groups: Sequence[str] = ()
) -> tuple[MetricFamily, ...]:
    """The gauges of several clusters, in a fixed order; of each level at most `max_lines` have series of their own.

    The partitions of groups that match one of the globs `partition_groups` have series under names of their own, so
    that sums over the others stay sums over groups and topics.
    """
    lines = view(tables, ViewLevel.GROUP_TOPIC, top=max_lines)
    found = [_lag_family(name, text, value, lines) for name, text, value in _GAUGES]
    found += _cluster_families(view(tables, ViewLevel.CLUSTER))
    dropped = [((("level", "group_topic"),), float(lines.others_count))]
    if partition_groups:
        chosen = RowFilter(groups=tuple(partition_groups)).of(tables)
        lines = view(chosen, ViewLevel.PARTITION, top=max_lines)
        values = {name: value for name, _, value in _GAUGES}
        found += [_lag_family(f"partition_{name}", text, values[name], lines) for name, text in _PARTITION_GAUGES]
        dropped.append(((("level", "partition"),), float(lines.others_count)))
    about = "Lines without series of their own, because there are more than the limit."
    found.append(gauge("dropped_series", about, *dropped))
    return tuple(f for f in found if f.samples)


def exposition(found: Iterable[MetricFamily]) -> str:
    """Families as Prometheus reads them."""
    return exports.exposition(found, PREFIX)


def datagrams(
    found: Iterable[MetricFamily], *, tags: Sequence[str] = (), max_bytes: int = exports.DATAGRAM_BYTES
) -> list[bytes]:
    """Families as DogStatsD gauges named `kafkakit.lag.*`."""
    return exports.datagrams(found, PREFIX, tags=tags, max_bytes=max_bytes)


def _fresh_seconds(lag: TimeLag, value_ms: int | None) -> float | None:
    return None if value_ms is None or lag.flags & FigureFlag.STALE else value_ms / 1000


def _seconds_if_known(value_ms: int | None) -> float | None:
    return None if value_ms is None else value_ms / 1000


def _current_value(line: ViewLine, value: float | None) -> float | None:
    """What all partitions went into; with a stale one among them it is not of now."""
    return None if line.stale else value


def _where_known(line: ViewLine, value: float) -> float | None:
    """A sum over partitions; none of which known is no sum."""
    return _current_value(line, value) if line.unknown < line.partitions else None


def _low_bound(line: ViewLine) -> float | None:
    """The surest bound of all partitions, or of the worst alone where another one is stale."""
    if line.unknown == line.partitions:
        return None
    return _fresh_seconds(line.backlog, line.backlog.low_ms if line.stale else line.max_low_ms)


def _oldest_ms(line: ViewLine) -> int | None:
    """The moment of the oldest lag or time lag; a commit that is newer than the end makes only the latter newer."""
    return min((ms for ms in (line.lag_as_of_ms, line.oldest_as_of_ms) if ms >= 0), default=None)


_GAUGES: tuple[tuple[str, str, LineFigure], ...] = (
    ("records", "Offsets from the committed ones to the ends.", lambda n: _where_known(n, n.lag)),
    (
        "uncommitted_records",
        "Offsets from the committed ones to the ends for readers of uncommitted data, past open transactions.",
        lambda n: _where_known(n, n.uncommitted),
    ),
    (
        "held_back_since_timestamp_seconds",
        "Since when the oldest transaction is open that keeps readers of committed data waiting; absent for none.",
        lambda n: _current_value(n, _seconds_if_known(n.held_ms)),
    ),
    ("pending_records", "Records that no commit marks as done.", lambda n: _where_known(n, n.pending)),
    (
        "records_without_commit",
        "Records in partitions that members own and for which the group never committed.",
        lambda n: _current_value(n, n.unread),
    ),
    ("lost_records", "Records deleted before the group processed them.", lambda n: _where_known(n, n.lost)),
    (
        "backlog_seconds",
        "Age of the oldest record not done by the time that it carries, in the worst partition.",
        lambda n: _fresh_seconds(n.backlog, n.backlog.estimate_ms),
    ),
    ("backlog_low_seconds", "Proven lower bound of that age.", _low_bound),
    ("backlog_high_seconds", "Proven upper bound of that age.", lambda n: _fresh_seconds(n.backlog, n.backlog.high_ms)),
    (
        "arrival_seconds",
        "Time since the oldest record not done came into the log, in the worst partition.",
        lambda n: _fresh_seconds(n.arrival, n.arrival.estimate_ms),
    ),
    (
        "arrival_low_seconds",
        "Proven lower bound of that time.",
        lambda n: _fresh_seconds(n.arrival, n.arrival.low_ms if n.unknown < n.partitions else None),
    ),
    (
        "arrival_high_seconds",
        "Proven upper bound of that time.",
        lambda n: _fresh_seconds(n.arrival, n.arrival.high_ms),
    ),
    (
        "live_seconds",
        "Age of the newest done record while newer ones wait, in the worst partition.",
        lambda n: _fresh_seconds(n.live, n.live.estimate_ms),
    ),
    (
        "live_low_seconds",
        "Proven lower bound of that age.",
        lambda n: _fresh_seconds(n.live, n.live.low_ms if n.live.estimate_ms is not None else None),
    ),
    ("live_high_seconds", "Proven upper bound of that age.", lambda n: _fresh_seconds(n.live, n.live.high_ms)),
    (
        "as_of_timestamp_seconds",
        "Time of the oldest figure: a lag counts from the newest commit to the end as it was then.",
        lambda n: _seconds_if_known(_oldest_ms(n)),
    ),
    (
        "status",
        "The worst partition: " + ", ".join(f"{int(s)} {s.word}" for s in LagStatus) + ".",
        lambda n: float(n.status),
    ),
    ("partitions", "Partitions with a commit, or that a member owns.", lambda n: float(n.partitions)),
    ("unknown_partitions", "Partitions whose end is not known.", lambda n: float(n.unknown)),
    ("stale_partitions", "Partitions whose figures are too old to be shown.", lambda n: float(n.stale)),
    (
        "eta_seconds",
        "Time to catch up at the present rates; absent for never.",
        lambda n: _current_value(n, _seconds_if_known(n.eta_ms)),
    ),
    (
        "retention_left_seconds",
        "Time until the first records are lost.",
        lambda n: _current_value(n, _seconds_if_known(n.retention_left_ms)),
    ),
    ("consumed_records_per_second", "Rate of the commits.", lambda n: _current_value(n, n.consumed_per_s)),
    ("produced_records_per_second", "Rate of the ends.", lambda n: _current_value(n, n.produced_per_s)),
)
_PARTITION_GAUGES = (
    ("records", "Offsets from the committed one to the end of one partition."),
    ("pending_records", "Records of one partition that no commit marks as done."),
    ("backlog_seconds", "Age of the oldest record of one partition that is not done, by the time that it carries."),
    ("backlog_low_seconds", "Proven lower bound of that age."),
    ("backlog_high_seconds", "Proven upper bound of that age."),
    ("retention_left_seconds", "Time until the first records of one partition are lost."),
    ("status", "Status of one partition, numbered as kafkakit_lag_status."),
)
"""Those of `_GAUGES` that partitions have, too, with what they say of one."""


def _lag_family(name: str, text: str, value: LineFigure, lines: LagView) -> MetricFamily:
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


ConditionFigure = Callable[[MonitorCondition], float | None]

CONDITIONS: tuple[tuple[str, str, ConditionFigure], ...] = (
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
        lambda c: _seconds_unless_negative(c.as_of_ms) or 0.0,
    ),
    (
        "ends_as_of_timestamp_seconds",
        "Time up to which all ends of logs are known, 0 while they are not.",
        lambda c: _seconds_unless_negative(c.ends_known_ms) or 0.0,
    ),
    ("commit_log_partitions", "Partitions of the offsets topic.", lambda c: float(c.partitions)),
    ("blind_partitions", "Partitions of the offsets topic that cannot be read now.", lambda c: float(c.blind_count)),
    ("open_transactions", "Open transactions that hold commits back.", lambda c: float(c.held_back_count)),
    ("held_back_commits", "Commits that open transactions hold back.", lambda c: float(c.held_back_commits)),
    ("missing_topics", "Topics with commits that do not exist.", lambda c: float(c.missing_topics_count)),
    ("ends_unknown", "Partitions without an answer about their end.", lambda c: float(sum(c.end_errors.values()))),
    ("commit_records", "Records of the offsets topic read since the start.", lambda c: float(c.totals.records)),
    ("unreadable_records", "Records and batches that cannot be read.", lambda c: float(_count_unread(c))),
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
    (
        "record_read_failures",
        "Reads of records for their times that got no answer.",
        lambda c: float(c.record_failures),
    ),
)


def all_families(
    published: PublishedState, max_series: int, partition_groups: Sequence[str] = ()
) -> tuple[MetricFamily, ...]:
    """Everything; of the group-topics, and of the partitions of `partition_groups`, at most `max_series` have series of
    their own."""
    carried = [(name, 1.0) for name in published.carried] + [(name, 0.0) for name in published.others]
    return (
        *families(published.tables, max_series, partition_groups),
        *(
            _condition_family(name, text, value, published.conditions)
            for name, text, value in CONDITIONS
            if published.conditions
        ),
        gauge(
            "carried",
            "1 for a cluster whose figures this instance publishes, 0 for the others.",
            *(((("cluster", name),), value) for name, value in sorted(carried)),
        ),
        single_gauge("instances", "Instances that share the clusters, as far as this one knows.", published.instances),
    )


def published_datagrams(
    published: PublishedState, max_series: int, partition_groups: Sequence[str] = ()
) -> list[bytes]:
    """Everything as DogStatsD datagrams."""
    return datagrams(all_families(published, max_series, partition_groups))


def instance_data(published: PublishedState) -> dict[str, object]:
    """The instance as plain data."""
    return {"carries": list(published.carried), "others": list(published.others), "instances": published.instances}


def _condition_family(
    name: str, text: str, value: ConditionFigure, conditions: tuple[MonitorCondition, ...]
) -> MetricFamily:
    samples = ((c.cluster, value(c)) for c in conditions)
    return gauge(name, text, *(((("cluster", cluster),), found) for cluster, found in samples if found is not None))


def _seconds_unless_negative(ms: int) -> float | None:
    return None if ms < 0 else ms / 1000


def _count_unread(c: MonitorCondition) -> int:
    return c.totals.undecodable + c.totals.unreadable_batches
