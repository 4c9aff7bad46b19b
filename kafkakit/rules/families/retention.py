"""R: rules of retention: how long and how large data becomes under the settings of a topic.

Also retention against brokers' checks, producers' timestamps, consumers' lag and disks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kafkakit.core.findings import Severity
from kafkakit.core.quantities import count_of, format_bytes, format_span
from kafkakit.rules.config_defs import minor_key
from kafkakit.rules.effective import UNLIMITED, InputMissing, ValueSource, to_int
from kafkakit.rules.retention import (
    HOUR_MS,
    SMALLEST_SEGMENT_BYTES,
    SegmentSettings,
    better_segment_ms,
    exceeded_budget,
    settings_of,
)
from kafkakit.rules.rule import (
    CORE,
    ERROR,
    NOTE,
    STRICT,
    WARNING,
    Edit,
    Fix,
    Limits,
    Needs,
    Violation,
    Violations,
    broker_rule,
    cluster_rule,
    set_to,
    topic_rule,
)
from kafkakit.rules.subjects import GroupFacts, LintBroker, LintCluster, LintTopic, PartitionFacts, require_known

ERROR_OVERSHOOT = 4.0
KAFKAS_RETENTION_MS = SegmentSettings().retention_ms
PURGE_RETENTION_MS = 1_000
STREAMS_REPARTITION = "-repartition"
PURGE_AGE_S = 3_600.0


@topic_rule("KKR201", WARNING, CORE, Needs.FILE, Needs.METRICS, fix=Fix.UNSAFE, of_defaults=("retention.ms",))
def retention_overshoot(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """Data may live much longer than `retention.ms` asks for, because segments stay open.

    Why: Kafka deletes whole segments, once their newest record is older than the retention R. The oldest record of
    a segment therefore lives up to R + T + C: T is the time a segment stays open (`segment.ms`, or less if it fills
    first), C the interval of the check (5 min). With R = 24 h and the default segment.ms of 7 d that is 192 h, eight
    times what was asked for; with segment.ms = 12 h it is 36 h. Reported if (T + C) / R exceeds the tolerance, as
    an error above 4; without append rates T is segment.ms. The check counts, so that a segment.ms of half the
    retention is a little above the tolerance (0.503 for 24 h): make it half less C, or the tolerance 0.51. The profile
    `core` looks only at topics whose retention is set, and not to Kafka's default of 7 d, `strict` at all.
    Source: Kafka, `LogSegment.shouldRoll`, `UnifiedLog.deletableSegments`; Datadog, "Lessons learned from running
    Kafka".
    Options: overshoot_ratio (0.5).

    Bad:
        config: {log.roll.hours: "168"}
        topics:
          - {name: orders, config: {retention.ms: "86400000"}}

    Good:
        config: {log.roll.hours: "168"}
        topics:
          - {name: orders, config: {retention.ms: "86400000", segment.ms: "42900000"}}
    """
    settings = settings_of(topic)
    if not settings.deletes or settings.retention_ms == 0:
        return
    retention = topic.config.sure_number("retention.ms")
    if retention is None or retention < 0:
        return
    # Who sets Kafka's own default, as server.properties of its download does, asks for no more than who sets none.
    if not limits.strict and (not topic.config.is_set("retention.ms") or retention == KAFKAS_RETENTION_MS):
        return
    topic.config.sure_number("segment.ms")
    rates = topic.rates_bytes_s()
    slowest = rates[0] if rates else None
    overshoot, age = settings.overshoot(slowest), settings.age_limit_ms(slowest)
    if overshoot is None or age is None or overshoot <= limits.overshoot_ratio:
        return
    edits, hint = _shorter_segments(topic, cluster, settings, limits.overshoot_ratio)
    yield Violation(
        message=f"data may live {format_span(age / 1000)}, {_times(age / settings.retention_ms)} retention "
        f"({format_span(settings.retention_ms / 1000)}), because {_why_open(topic, settings, slowest)}",
        key="segment.ms",
        expected=next((e.value for e in edits), None),
        severity=Severity.ERROR if overshoot > ERROR_OVERSHOOT else None,
        edits=edits,
        hint=hint,
    )


@topic_rule("KKR202", WARNING, CORE, fix=Fix.UNSAFE, of_defaults=("retention.ms",))
def roll_slower_than_retention(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A segment may stay open for longer than the topic keeps its data.

    Why: a record is deleted with its segment, and a segment counts as old when its newest record is. With
    `segment.ms` above `retention.ms` a partition with little traffic keeps data for more than twice its retention.
    Source: Kafka, `LogSegment.shouldRoll`, `LogConfig.maxSegmentMs`.

    Bad:
        topics:
          - {name: orders, config: {retention.ms: "86400000", segment.ms: "604800000"}}

    Good:
        topics:
          - {name: orders, config: {retention.ms: "86400000", segment.ms: "86400000"}}
    """
    settings = settings_of(topic)
    if not settings.deletes or not settings.roll_ms > settings.retention_ms > 0:
        return
    topic.config.sure_number("retention.ms")
    topic.config.sure_number("segment.ms")
    edits, hint = _shorter_segments(topic, cluster, settings, limits.overshoot_ratio)
    yield Violation(
        message=f"a segment may stay open for {format_span(settings.roll_ms / 1000)}, "
        f"longer than the retention of {format_span(settings.retention_ms / 1000)}",
        key="segment.ms",
        expected=next((e.value for e in edits), None),
        edits=edits,
        hint=hint,
    )


@topic_rule("KKR203", WARNING, CORE, fix=Fix.UNSAFE, of_defaults=("retention.bytes",))
def size_retention_granularity(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """Segments are large compared with `retention.bytes`, so that partitions grow far beyond it.

    Why: Kafka deletes a segment only when the others reach `retention.bytes`, so a partition holds up to
    retention.bytes + segment.bytes, and what is appended within the check interval: twice as much as was asked for
    if the two are equal.
    Source: Kafka, `UnifiedLog.deleteRetentionSizeBreachedSegments`.
    Options: overshoot_ratio (0.5).

    Bad:
        topics:
          - {name: orders, config: {retention.bytes: "1073741824", segment.bytes: "1073741824"}}

    Good:
        topics:
          - {name: orders, config: {retention.bytes: "5368709120", segment.bytes: "1073741824"}}
    """
    settings = settings_of(topic)
    kept, segment = settings.retention_bytes, settings.segment_bytes
    if not settings.deletes or kept <= 0 or segment <= kept * limits.overshoot_ratio:
        return
    topic.config.sure_number("segment.bytes")
    wanted = int(kept * limits.overshoot_ratio)
    yield Violation(
        message=f"a partition may hold {format_bytes(kept + segment)} and more, {_times((kept + segment) / kept)} "
        f"retention.bytes ({format_bytes(kept)}), because segments of {format_bytes(segment)} are deleted as a whole",
        key="segment.bytes",
        expected=f"at most {wanted}",
        edits=(Edit("segment.bytes", str(wanted)),) if wanted >= SMALLEST_SEGMENT_BYTES else (),
    )


@topic_rule("KKR204", WARNING, CORE, of_defaults=("retention.ms", "cleanup.policy"))
def unbounded_topic(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """Nothing limits a topic: it grows until the disk is full.

    Why: with the policy `delete`, `retention.ms` -1 and `retention.bytes` -1 no segment is ever deleted; from 4.2 on
    an empty `cleanup.policy` means the same. Compacted and tiered topics are left out, and repartition topics of Kafka
    Streams, which deletes their records itself once they are read.
    Source: Kafka documentation, `cleanup.policy`, `retention.ms`; KIP-1161.

    Bad:
        topics:
          - {name: orders, config: {retention.ms: "-1", retention.bytes: "-1"}}

    Good:
        topics:
          - {name: orders, config: {retention.ms: "-1", retention.bytes: "107374182400"}}
    """
    settings = settings_of(topic)
    if topic.config.is_true("remote.storage.enable") or topic.name.endswith(STREAMS_REPARTITION):
        return
    if not topic.policies:
        declared = topic.config.value("cleanup.policy")
        if declared.source is not ValueSource.DEFAULT and minor_key(cluster.table.version) >= (4, 2):
            yield Violation(message="cleanup.policy is empty: nothing is ever deleted", key="cleanup.policy")
        return
    if settings.deletes and not settings.compacts and settings.retention_ms == -1 and settings.retention_bytes < 0:
        topic.config.sure_number("retention.ms")
        topic.config.sure_number("retention.bytes")
        yield Violation(
            message="neither time nor size limits the topic: it grows until the disk is full",
            key="retention.ms",
            expected="a limit by retention.ms or retention.bytes",
        )


@topic_rule("KKR205", WARNING, STRICT)
def empty_cleanup_policy(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """`cleanup.policy` is empty.

    Why: from 4.2 on this is documented to keep everything; earlier versions accept it without a documented meaning,
    and neither delete nor compact.
    Source: Kafka, `UnifiedLog.deleteOldSegments`; KIP-1161.

    Bad:
        topics:
          - {name: orders, config: {cleanup.policy: ""}}

    Good:
        topics:
          - {name: orders, config: {cleanup.policy: delete}}
    """
    if topic.policies or topic.config.value("cleanup.policy").source is ValueSource.DEFAULT:
        return
    documented = minor_key(cluster.table.version) >= (4, 2)
    yield Violation(
        message="cleanup.policy is empty: nothing is deleted or compacted"
        + ("" if documented else ", which this version accepts without documenting it"),
        key="cleanup.policy",
        expected="delete, compact or both",
    )


@topic_rule("KKR206", NOTE, STRICT, of_defaults=("log.retention.check.interval.ms",))
def retention_below_check_interval(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """`retention.ms` is shorter than the interval at which brokers look for old segments.

    Why: retention works in steps of `log.retention.check.interval.ms` (5 min), so a shorter time is not kept.
    Source: Kafka, `LogManager.cleanupLogs`.

    Bad:
        config: {log.retention.check.interval.ms: "300000"}
        topics:
          - {name: orders, config: {retention.ms: "60000"}}

    Good:
        config: {log.retention.check.interval.ms: "300000"}
        topics:
          - {name: orders, config: {retention.ms: "300000"}}
    """
    settings = settings_of(topic)
    if settings.deletes and 0 < settings.retention_ms < settings.check_interval_ms:
        topic.config.sure_number("retention.ms")
        topic.config.broker.given()
        yield Violation(
            message=f"retention.ms is {format_span(settings.retention_ms / 1000)}, but "
            f"{CHECK_KEY} is {format_span(settings.check_interval_ms / 1000)}",
            key="retention.ms",
            expected=f"at least {settings.check_interval_ms}",
        )


@topic_rule("KKR207", ERROR, CORE, Needs.LIVE, fix=Fix.UNSAFE)
def zero_retention_left_behind(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A topic that is in use keeps its data for at most a second.

    Why: a retention of 0 or 1 s is the usual way to empty a topic; forgotten, it deletes every record within
    minutes, and consumers that fall behind lose them. Topics younger than an hour are left out.
    Source: Kafka documentation, `retention.ms`.

    Bad:
        topics:
          - {name: orders, config: {retention.ms: "1000"}, observed: {age_s: 86400}}

    Good:
        topics:
          - {name: orders, config: {retention.ms: "3600000"}, observed: {age_s: 86400}}
    """
    settings = settings_of(topic)
    if not settings.deletes or not 0 <= settings.retention_ms <= PURGE_RETENTION_MS:
        return
    age = require_known(topic.facts.age_s, "ages of topics")
    if age > PURGE_AGE_S:
        yield Violation(
            message=f"retention.ms is {settings.retention_ms} on a topic that is {format_span(age)} old: "
            "every record is deleted at the next check, as when a topic is emptied",
            key="retention.ms",
            expected="not set",
            edits=(Edit("retention.ms"),) if "retention.ms" in topic.config.overrides else (),
        )


@topic_rule("KKR216", NOTE, STRICT, fix=Fix.UNSAFE)
def slow_delete(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """Files of deleted segments stay for longer than an hour, or than the retention.

    Why: space is returned only after `file.delete.delay.ms` (1 min by default); until then the deleted data counts
    on the disk and keeps its descriptors and maps.
    Source: Kafka documentation, `file.delete.delay.ms`.

    Bad:
        topics:
          - {name: orders, config: {file.delete.delay.ms: "86400000"}}

    Good:
        topics:
          - {name: orders, config: {file.delete.delay.ms: "60000"}}
    """
    settings = settings_of(topic)
    delay = settings.delete_delay_ms
    beyond = settings.deletes and 0 < settings.retention_ms < delay
    if delay > 3_600_000 or beyond:
        topic.config.sure_number("file.delete.delay.ms")
        longer = "the retention" if beyond else "an hour"
        wanted = str(min(settings.retention_ms, 60_000) if settings.deletes and settings.retention_ms > 0 else 60_000)
        yield set_to(
            "file.delete.delay.ms",
            wanted,
            f"files of deleted segments stay for {format_span(delay / 1000)}, longer than {longer}",
        )


def _why_open(topic: LintTopic, settings: SegmentSettings, rate: float | None) -> str:
    span = settings.span_ms(rate)
    if span < settings.roll_ms:
        return f"the slowest partition takes {format_span(span / 1000)} to fill a segment"
    key = "max.compaction.lag.ms" if settings.roll_ms < settings.segment_ms else "segment.ms"
    unset = "" if topic.config.is_set(key) else ", Kafka's default"
    return f"a segment stays open for up to {format_span(span / 1000)} ({key}{unset})"


def _shorter_segments(
    topic: LintTopic, cluster: LintCluster, settings: SegmentSettings, tolerance: float
) -> tuple[tuple[Edit, ...], str]:
    """The edit to a `segment.ms` within the tolerance, or why there is none: the handles of a broker would run out."""
    wanted = better_segment_ms(settings, tolerance)
    if wanted is None:
        return (), f"no segment.ms of 10 minutes or more keeps it within {tolerance:g} times retention"
    jitter = min(settings.jitter_ms, wanted // 10)
    reason = exceeded_budget(topic, cluster, replace(settings, segment_ms=wanted, jitter_ms=jitter))
    if reason is not None:
        return (), f"segment.ms {wanted} would do, but {reason}"
    edits = (Edit("segment.ms", str(wanted)),)
    return (edits if jitter == settings.jitter_ms else (*edits, Edit("segment.jitter.ms", str(jitter)))), ""


def _times(ratio: float) -> str:
    """A ratio for a sentence: `1.5 times`, `169 times`."""
    return f"{ratio:.2g} times" if ratio < 10 else f"{ratio:.0f} times"


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
            message=f"{CHECK_KEY} is {format_span(interval / 1000)}, more than a quarter of "
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
        if topic.config.value(key).source is not ValueSource.TOPIC:
            inheriting.append(topic)
            continue
        yield set_to(key, wanted, told.format(_any_time(value)), about=topic)
    if inheriting:
        broker_key = f"log.{key}"
        holder = next((b for b in cluster.data_brokers if b.config.is_known), None)
        declared = inheriting[0].config.value(key)
        by_default = ", by default" if declared.source is ValueSource.DEFAULT else ""
        yield set_to(
            broker_key,
            wanted,
            told.format(_any_time(to_int(declared.text) or 0)) + f" ({count_of(len(inheriting), 'topic')}{by_default})",
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
    groups = require_known(cluster.groups, "consumer groups")
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
    total = sum(
        require_known(d.total_bytes, "sizes of log dirs")
        for d in require_known(broker.log_dirs or None, "sizes of log dirs")
    )
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
        for partition in require_known(topic.partition_facts, "the live cluster's partitions"):
            for replica in partition.replicas:
                found[replica] = found.get(replica, 0.0) + _most_bytes(settings, partition, replica)
    return found


def _most_bytes(settings: SegmentSettings, partition: PartitionFacts, replica: int) -> float:
    limit = None if partition.bytes_s is None else settings.disk_limit_bytes(partition.bytes_s)
    if limit is None and settings.deletes_by_size and not settings.deletes_by_time:
        limit = settings.disk_limit_bytes(require_known(partition.bytes_s, "append rates of partitions"))
    if limit is None and (settings.deletes_by_time or not partition.replica_bytes):
        raise InputMissing("append rates of partitions" if settings.deletes_by_time else "sizes of replicas")
    return float(partition.replica_bytes.get(replica, 0)) if limit is None else limit
