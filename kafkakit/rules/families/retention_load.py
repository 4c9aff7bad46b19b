"""R: rules of retention against brokers' checks, producers' timestamps, consumers' lag and disks."""

from collections.abc import Iterable, Mapping

from kafkakit.core.findings import Severity
from kafkakit.core.quantities import counted, format_bytes, format_span
from kafkakit.rules.effective import UNLIMITED, InputMissing, Source, to_int
from kafkakit.rules.retention import HOUR_MS, SegmentSettings, settings_of
from kafkakit.rules.rule import CORE, NOTE, STRICT, WARNING, Fix, Limits, Needs, broker_rule, cluster_rule, topic_rule
from kafkakit.rules.subjects import GroupFacts, LintBroker, LintCluster, LintTopic, PartitionFacts, known
from kafkakit.rules.violation import Edit, Violation, Violations, set_to

CHECK_KEY = "log.retention.check.interval.ms"
CHECK_SHARE = 0.25
LAG_SHARE = 0.8
FULL_WARNING, FULL_ERROR = 0.8, 0.95
AFTER_KEY, BEFORE_KEY = "message.timestamp.after.max.ms", "message.timestamp.before.max.ms"


@broker_rule("KKR217", WARNING, STRICT, fix=Fix.UNSAFE)
def coarse_retention_check(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """Brokers look for old segments at intervals that are long compared with the shortest retention.

    Why: data lives up to one interval longer than segments and retention explain; above a quarter of the retention
    the check dominates.
    Source: Kafka, `LogManager.cleanupLogs`; documentation, `log.retention.check.interval.ms`.

    Bad:
        brokers: [{id: 1, config: {log.retention.check.interval.ms: "3600000"}}]
        topics:
          - {name: orders, config: {retention.ms: "7200000"}}

    Good:
        brokers: [{id: 1, config: {log.retention.check.interval.ms: "300000"}}]
        topics:
          - {name: orders, config: {retention.ms: "7200000"}}
    """
    if not broker.is_broker:
        return
    interval = broker.config.given().number(CHECK_KEY)
    shortest = cluster.derive(_shortest_retention)
    own = broker.config.number("log.retention.ms")
    if not cluster.topics and own is not None and own > 0:
        shortest = (own, "")
    if interval is not None and shortest is not None and interval > CHECK_SHARE * shortest[0]:
        wanted = str(max(int(CHECK_SHARE * shortest[0]), 1))
        of = f" of topic {shortest[1]}" if shortest[1] else ""
        yield Violation(
            message=f"old segments are looked for every {format_span(interval / 1000)}, more than a quarter of "
            f"the retention{of} ({format_span(shortest[0] / 1000)})",
            key=CHECK_KEY,
            expected=f"at most {wanted}",
            edits=(Edit(CHECK_KEY, wanted),),
        )


def _shortest_retention(cluster: LintCluster) -> tuple[int, str] | None:
    times = [
        (settings.retention_ms, topic.name)
        for topic in cluster.topics
        if (settings := settings_of(topic)).deletes and settings.retention_ms > 0
    ]
    return min(times, default=None)


@cluster_rule("KKR218", WARNING, CORE, fix=Fix.UNSAFE)
def future_timestamps_pin_segments(cluster: LintCluster, limits: Limits) -> Violations:
    """Producers may write timestamps far in the future, and segments with such records are not deleted.

    Why: time retention compares the newest timestamp of a segment; a record dated a year ahead keeps its segment,
    and all that follow, for a year ("contains future timestamp(s), making it ineligible to be deleted"). Kafka's
    default has no limit up to 3.9 and 1 h from 4.0 on. Topics that inherit the value are reported once, at the broker.
    Source: Kafka, `UnifiedLog.deletableSegments`; KIP-937, KIP-1030.

    Bad:
        version: "3.9"
        config: {log.retention.hours: "24"}
        topics:
          - {name: orders, partitions: 6}

    Good:
        version: "3.9"
        config: {log.retention.hours: "24", log.message.timestamp.after.max.ms: "3600000"}
        topics:
          - {name: orders, partitions: 6}
    """
    found = [(t, s, v) for t, s, v in _with_own_times(cluster, AFTER_KEY) if v > max(HOUR_MS, 0.1 * s.retention_ms)]
    told = "a record may be dated {} ahead, and its segment is not deleted before that time has passed"
    yield from _violations(cluster, found, AFTER_KEY, told, str(HOUR_MS))
    _require_broker(cluster, AFTER_KEY)


@cluster_rule("KKR219", NOTE, STRICT, fix=Fix.UNSAFE)
def past_timestamps_expire_early(cluster: LintCluster, limits: Limits) -> Violations:
    """Producers may write timestamps older than the retention, and such records are deleted at once.

    Why: what a replay or a backfill writes with its original times is eligible for deletion at the next check,
    possibly before consumers have read it. True of every topic with Kafka's defaults, so only in `strict`.
    Source: Kafka, `UnifiedLog.deletableSegments`; KIP-937.

    Bad:
        config: {log.retention.hours: "24"}
        topics:
          - {name: orders, partitions: 6}

    Good:
        config: {log.retention.hours: "24", log.message.timestamp.before.max.ms: "86400000"}
        topics:
          - {name: orders, partitions: 6}
    """
    found = [(t, s, v) for t, s, v in _with_own_times(cluster, BEFORE_KEY) if v > s.retention_ms]
    told = "a record may be dated {} back, further than the retention, and is then deleted at the next check"
    shortest = min((s.retention_ms for _, s, _ in found), default=0)
    yield from _violations(cluster, found, BEFORE_KEY, told, str(shortest))
    _require_broker(cluster, BEFORE_KEY)


def _with_own_times(cluster: LintCluster, key: str) -> Iterable[tuple[LintTopic, SegmentSettings, int]]:
    """Topics with retention by time whose producers set the timestamps, with the value of a key that is certain."""
    for topic in cluster.topics:
        settings = settings_of(topic)
        if settings.deletes and settings.retention_ms > 0 and topic.config.is_sure(key):
            value = topic.config.number(key)
            if value is not None and topic.config.text("message.timestamp.type") != "LogAppendTime":
                yield topic, settings, value


def _violations(
    cluster: LintCluster, found: list[tuple[LintTopic, SegmentSettings, int]], key: str, told: str, wanted: str
) -> Violations:
    inheriting: list[LintTopic] = []
    for topic, _, value in found:
        if topic.config.value(key).source is not Source.TOPIC:
            inheriting.append(topic)
            continue
        yield set_to(key, wanted, told.format(_any_time(value)), about=topic)
    if inheriting:
        broker_key = f"log.{key}"
        holder = next((b for b in cluster.data_brokers if b.config.is_known), None)
        declared = inheriting[0].config.value(key)
        by_default = ", by default" if declared.source is Source.DEFAULT else ""
        yield set_to(
            broker_key,
            wanted,
            told.format(_any_time(to_int(declared.text) or 0)) + f" ({counted(len(inheriting), 'topic')}{by_default})",
            observed=declared.text,
            about=holder,
        )


def _any_time(milliseconds: int) -> str:
    return "any time" if milliseconds >= UNLIMITED else format_span(milliseconds / 1000)


def _require_broker(cluster: LintCluster, key: str) -> None:
    if any(not t.config.is_sure(key) for t in cluster.topics):
        raise InputMissing("broker configuration")


@topic_rule("KKR220", WARNING, CORE, Needs.LIVE, Needs.METRICS)
def retention_vs_lag(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A consumer group is almost as far behind as the topic keeps its data.

    Why: what is older than the retention is deleted whether it was read or not; a group beyond 80 % of it is about
    to lose records.
    Source: Datadog, monitor template "consumer lag approaches retention".

    Bad:
        topics:
          - {name: orders, config: {retention.ms: "86400000"}}
        observed: {groups: [{name: billing, topics: [orders], time_lag_s: {orders: 80000}}]}

    Good:
        topics:
          - {name: orders, config: {retention.ms: "86400000"}}
        observed: {groups: [{name: billing, topics: [orders], time_lag_s: {orders: 60}}]}
    """
    groups = known(cluster.groups, "consumer groups")
    settings = settings_of(topic)
    readers = cluster.derive(_readers).get(topic.name, ()) if groups else ()
    if not readers or not (settings.deletes_by_time or settings.deletes_by_size):
        return
    lag_s = max(((g.time_lag_s[topic.name], g.name) for g in readers if topic.name in g.time_lag_s), default=None)
    lag_bytes = max(((g.byte_lag[topic.name], g.name) for g in readers if topic.name in g.byte_lag), default=None)
    if lag_s is None and lag_bytes is None:
        raise InputMissing("lag of consumer groups")
    if lag_s and settings.retention_ms > 0 and lag_s[0] * 1000 > LAG_SHARE * settings.retention_ms:
        topic.config.sure_number("retention.ms")
        yield Violation(
            message=f"group {lag_s[1]} is {format_span(lag_s[0])} behind, "
            f"{lag_s[0] * 1000 / settings.retention_ms:.0%} of the retention "
            f"({format_span(settings.retention_ms / 1000)})",
            key="retention.ms",
            subject=lag_s[1],
        )
    if lag_bytes and settings.retention_bytes > 0 and lag_bytes[0] > LAG_SHARE * settings.retention_bytes:
        yield Violation(
            message=f"group {lag_bytes[1]} is {format_bytes(lag_bytes[0])} behind in a partition, "
            f"{lag_bytes[0] / settings.retention_bytes:.0%} of retention.bytes "
            f"({format_bytes(settings.retention_bytes)})",
            key="retention.bytes",
            subject=lag_bytes[1],
        )


def _readers(cluster: LintCluster) -> Mapping[str, tuple[GroupFacts, ...]]:
    """The groups that read each topic."""
    found: dict[str, list[GroupFacts]] = {}
    for group in cluster.groups or ():
        for topic in {*group.topics, *group.time_lag_s, *group.byte_lag}:
            found.setdefault(topic, []).append(group)
    return {topic: tuple(groups) for topic, groups in found.items()}


@broker_rule("KKR221", WARNING, CORE, Needs.LIVE, Needs.METRICS)
def disk_forecast(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """The partitions of a broker may grow beyond its log dirs under their retention and present rates.

    Why: a partition holds up to rate * (R + T + C) under retention by time, and up to RB + S + rate * C by size,
    whichever is less. Their sum is what the broker must be able to store; above 80 % of its log dirs is reported,
    above 95 % as an error, because a full disk takes the broker down.
    Source: arithmetic of retention; Kafka, `UnifiedLog.deleteOldSegments`.

    Bad:
        brokers: [{id: 1, config: {log.roll.hours: "24"}, log_dirs: [{path: /data, total_bytes: 100000000000}]}]
        topics:
          - name: orders
            config: {retention.ms: "86400000"}
            observed: {partitions: [{partition: 0, replicas: [1], bytes_s: 1000000}]}

    Good:
        brokers: [{id: 1, config: {log.roll.hours: "24"}, log_dirs: [{path: /data, total_bytes: 200000000000}]}]
        topics:
          - name: orders
            config: {retention.ms: "86400000"}
            observed: {partitions: [{partition: 0, replicas: [1], bytes_s: 1000000}]}
    """
    if not broker.is_broker or broker.id is None:
        return
    total = sum(known(d.total_bytes, "sizes of log dirs") for d in known(broker.log_dirs or None, "sizes of log dirs"))
    forecast = cluster.derive(_forecast_by_broker)
    needed = forecast.get(broker.id, 0.0)
    if total and needed > FULL_WARNING * total:
        yield Violation(
            message=f"its partitions may hold {format_bytes(round(needed))}, {needed / total:.0%} of its log dirs "
            f"({format_bytes(total)}), at their present rates",
            severity=Severity.ERROR if needed > FULL_ERROR * total else None,
            hint="add brokers, or shorten retention",
        )


def _forecast_by_broker(cluster: LintCluster) -> Mapping[int, float]:
    """What each broker's partitions may come to hold in bytes; `InputMissing` where a partition does not tell."""
    found: dict[int, float] = {}
    for topic in cluster.topics:
        settings = settings_of(topic)
        for partition in known(topic.partition_facts, "the live cluster's partitions"):
            for replica in partition.replicas:
                found[replica] = found.get(replica, 0.0) + _most_bytes(settings, partition, replica)
    return found


def _most_bytes(settings: SegmentSettings, partition: PartitionFacts, replica: int) -> float:
    limit = None if partition.bytes_s is None else settings.disk_limit_bytes(partition.bytes_s)
    if limit is None and settings.deletes_by_size and not settings.deletes_by_time:
        limit = settings.disk_limit_bytes(known(partition.bytes_s, "append rates of partitions"))
    if limit is None and (settings.deletes_by_time or not partition.replica_bytes):
        raise InputMissing("append rates of partitions" if settings.deletes_by_time else "sizes of replicas")
    return float(partition.replica_bytes.get(replica, 0)) if limit is None else limit
