"""Arithmetic of segments and retention: when segments roll, how old data becomes, how much of it there may be.

The formulas are bounds of what Kafka does (`LogSegment.shouldRoll`, `UnifiedLog.deletableSegments`,
`LogConfig.maxSegmentMs`, `TimeIndex.isFull`), and a simulator of these in the tests confirms them. Rates are bytes/s
appended to one partition as stored; None means unknown, and then a segment stays open as long as it may.

Also of file handles: Kafka keeps one descriptor for each `.log`, closed segments included, and one for each `.txnindex`
that exists; indexes are mapped and their files closed, so they cost two maps a segment and no descriptor
(`FileRecords`, `AbstractIndex`). Segments of each broker, now and after a change of topics, are counted if an audit
counted them, else predicted.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kafkakit.rules.effective import UNLIMITED, DeclaredValue, InputMissing, ValueSource
from kafkakit.rules.subjects import HostFacts, LintBroker, LintCluster, LintTopic, PartitionFacts

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
TIME_ENTRY_BYTES = 12
SHORTEST_SENSIBLE_ROLL_MS = 600_000
SMALLEST_SEGMENT_BYTES = 2**20
MAX_SEGMENTS_OF_PARTITION = 1_000
_GREATEST_INT = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSettings:
    """What decides over the segments of a topic's partitions; the defaults are Kafka's."""

    deletes: bool = True
    compacts: bool = False
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = -1
    segment_ms: int = 7 * DAY_MS
    segment_bytes: int = 2**30
    jitter_ms: int = 0
    index_bytes: int = 10 * 2**20
    index_interval_bytes: int = 4096
    delete_delay_ms: int = 60_000
    check_interval_ms: int = 300_000
    max_compaction_lag_ms: int = UNLIMITED

    @property
    def roll_ms(self) -> int:
        """M: after how long an append rolls the segment, without jitter (`LogConfig.maxSegmentMs`)."""
        if self.compacts and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    @property
    def shortest_roll_ms(self) -> int:
        """M less the greatest jitter that a segment can draw, not below 0."""
        greatest = max(min(self.jitter_ms, self.segment_ms) - 1, 0)
        return max(self.roll_ms - greatest, 0)

    def capacity_bytes(self, batch_bytes: int = 1) -> int:
        """How large a segment gets before it rolls for its size or a full time index, with batches of one size."""
        return min(
            self.segment_bytes, index_capacity_bytes(self.index_bytes, self.index_interval_bytes, max(batch_bytes, 1))
        )

    def span_ms(self, rate: float | None = None, batch_bytes: int = 1) -> float:
        """T: the longest time between the first and the last record of a segment."""
        return min(self.roll_ms, self._fill_ms(rate, self.capacity_bytes(batch_bytes)))

    def shortest_span_ms(self, rate: float | None = None, batch_bytes: int = 1) -> float:
        """The shortest such time of a segment that rolled, with the greatest jitter."""
        full = min(self.segment_bytes - batch_bytes + 1, self.capacity_bytes(batch_bytes))
        return min(self.shortest_roll_ms, self._fill_ms(rate, max(full, 0)))

    def _fill_ms(self, rate: float | None, capacity: int) -> float:
        return 1000 * capacity / rate if rate else self.roll_ms

    def age_limit_ms(self, rate: float | None = None, batch_bytes: int = 1) -> float | None:
        """R + T + C: how old the oldest record can be when it disappears; None where time deletes nothing."""
        if not self.deletes_by_time:
            return None
        return self.retention_ms + self.span_ms(rate, batch_bytes) + self.check_interval_ms

    def overshoot(self, rate: float | None = None) -> float | None:
        """(T + C) / R: what data may live beyond retention, as a share of it; None where time deletes nothing."""
        if not self.deletes_by_time or not self.retention_ms:
            return None
        return (self.span_ms(rate) + self.check_interval_ms) / self.retention_ms

    @property
    def deletes_by_time(self) -> bool:
        """True when `retention.ms` limits the data."""
        return self.deletes and self.retention_ms >= 0

    @property
    def deletes_by_size(self) -> bool:
        """True when `retention.bytes` limits the data."""
        return self.deletes and self.retention_bytes >= 0

    def disk_limit_bytes(self, rate: float, batch_bytes: int = 1) -> float | None:
        """The most that one copy of a partition holds before deleted files are unlinked; None without a limit."""
        limits: list[float] = []
        age = self.age_limit_ms(rate, batch_bytes)
        if age is not None:
            limits.append(rate * age / 1000)
        if self.deletes_by_size:
            limits.append(self.retention_bytes + self.segment_bytes + rate * self.check_interval_ms / 1000)
        return min(limits, default=None)

    def segment_limit(self, rate: float | None = None, batch_bytes: int = 1) -> int | None:
        """N: how many segments a partition has at most, the active one included; None without a limit.

        With an unknown rate segments are taken to roll by time under `retention.ms`, and full under `retention.bytes`.
        """
        span = self.shortest_span_ms(rate, batch_bytes)
        limits: list[int] = []
        if self.deletes_by_time and span > 0:
            limits.append(2 + int((self.retention_ms + self.check_interval_ms) // span))
        if self.deletes_by_size:
            size = self.segment_bytes if not rate else min(self.segment_bytes, rate * span / 1000)
            kept = self.retention_bytes + (rate or 0) * self.check_interval_ms / 1000
            if size > 0:
                limits.append(2 + int(kept // size))
        if not limits:
            return None
        return min(limits) if rate else max(limits)


def index_capacity_bytes(index_bytes: int, interval_bytes: int, batch_bytes: int = 1) -> int:
    """How much a segment holds when its time index is full; 0 for an index that is always full.

    Kafka adds an entry at the first append after more than the interval was written, so entries lie a whole number of
    batches apart; a time index counts as full one entry before its last.
    """
    entries = index_bytes // TIME_ENTRY_BYTES - 1
    return max(entries, 0) * batch_bytes * (interval_bytes // batch_bytes + 1)


def time_index_bytes(segment_bytes: int, interval_bytes: int) -> int:
    """The smallest `segment.index.bytes` with which a segment of the smallest batches reaches its size."""
    return TIME_ENTRY_BYTES * (-(-segment_bytes // (max(interval_bytes, 0) + 1)) + 1)


def better_segment_ms(settings: SegmentSettings, tolerance: float) -> int | None:
    """A shorter `segment.ms` whose overshoot is within the tolerance, at least 10 minutes; None where none is."""
    if not settings.deletes_by_time or not settings.retention_ms:
        return None
    wanted = max(int(tolerance * settings.retention_ms - settings.check_interval_ms), SHORTEST_SENSIBLE_ROLL_MS)
    fits = wanted + settings.check_interval_ms <= tolerance * settings.retention_ms
    return wanted if fits and wanted < settings.segment_ms else None


def settings_of(topic: LintTopic) -> SegmentSettings:
    """The effective settings of a topic, computed once; Kafka's defaults stand for what does not parse."""
    return topic.derive(_settings)


def _settings(topic: LintTopic) -> SegmentSettings:
    policies = topic.policies

    def number(key: str, otherwise: int) -> int:
        found = topic.config.number(key)
        return otherwise if found is None else found

    check = topic.config.broker.number("log.retention.check.interval.ms")
    return SegmentSettings(
        deletes="delete" in policies,
        compacts="compact" in policies,
        retention_ms=number("retention.ms", 7 * DAY_MS),
        retention_bytes=number("retention.bytes", -1),
        segment_ms=number("segment.ms", 7 * DAY_MS),
        segment_bytes=number("segment.bytes", 2**30),
        jitter_ms=number("segment.jitter.ms", 0),
        index_bytes=number("segment.index.bytes", 10 * 2**20),
        index_interval_bytes=number("index.interval.bytes", 4096),
        delete_delay_ms=number("file.delete.delay.ms", 60_000),
        check_interval_ms=300_000 if check is None else check,
        max_compaction_lag_ms=number("max.compaction.lag.ms", UNLIMITED),
    )


def fits_int(value: int) -> bool:
    """True for a number that Kafka's type INT holds."""
    return value <= _GREATEST_INT


RESERVED_DESCRIPTORS = 1_000
RESERVED_MAPS = 1_000
DEFAULT_MAX_MAP_COUNT = 65_530
MAPS_OF_SEGMENT = 2


def descriptors(segments: int, connections: int = 0, transaction_indexes: int = 0) -> int:
    """How many file descriptors a broker needs."""
    return segments + transaction_indexes + connections + RESERVED_DESCRIPTORS


def maps(segments: int) -> int:
    """How many memory maps a broker needs."""
    return MAPS_OF_SEGMENT * segments + RESERVED_MAPS


def segments_of(settings: SegmentSettings, partition: PartitionFacts | None = None) -> int | None:
    """Segments of one copy of a partition: counted, else the most there can be, else from its size; None if unknown."""
    if partition is None:
        return settings.segment_limit()
    if partition.segments is not None:
        return partition.segments
    limit = settings.segment_limit(partition.bytes_s)
    if limit is None and partition.replica_bytes:
        return 1 + max(partition.replica_bytes.values()) // max(settings.capacity_bytes(), 1)
    return limit


def mean_replicas(topic: LintTopic, cluster: LintCluster) -> float:
    """Replicas of a topic on one broker when they are spread evenly; `InputMissing` where a number is unknown."""
    if topic.partitions is None or topic.replication_factor is None:
        raise InputMissing("partitions and replication factor")
    return topic.partitions * topic.replication_factor / cluster.broker_number


UNCOUNTED = "segments of topics without a limit of retention"


@dataclass(frozen=True, slots=True)
class SegmentTotals:
    """Segments by broker id, and `spread`: those on every broker of topics whose replicas are not known.

    `uncounted` brokers hold more than is counted; `spread_is_complete` is False where that is true of all.
    """

    by_broker: Mapping[int, int]
    spread: float = 0.0
    uncounted: frozenset[int] = frozenset()
    spread_is_complete: bool = True
    by_topic: Mapping[str, int] = field(default_factory=dict)

    def of(self, broker: int | None) -> int:
        """The segments on a broker, at least."""
        return round(self.spread + (self.by_broker.get(broker, 0) if broker is not None else 0))

    def is_complete(self, broker: int | None) -> bool:
        """True when that is all."""
        return self.spread_is_complete and broker not in self.uncounted


def segments_after(cluster: LintCluster) -> SegmentTotals:
    """With the declared settings; `InputMissing` where those of brokers decide and are not known. Computed once."""
    return cluster.derive(_totals_after)


def segments_before(cluster: LintCluster) -> SegmentTotals:
    """With the settings that the cluster has now. Computed once."""
    return cluster.derive(_totals_before)


def changed_topics(cluster: LintCluster) -> tuple[str, ...]:
    """The topics whose segments change, those that gain most first."""
    before, after = segments_before(cluster), segments_after(cluster)
    gains = {t.name: after.by_topic[t.name] - before.by_topic[t.name] for t in cluster.topics if t.current is not None}
    return tuple(sorted((name for name, gain in gains.items() if gain > 0), key=lambda name: (-gains[name], name)))


def settings_now(topic: LintTopic) -> SegmentSettings:
    """The settings that a topic has in the cluster, where the declared ones are a change."""
    if topic.current is None:
        return settings_of(topic)
    overrides = {key: DeclaredValue(text, ValueSource.TOPIC) for key, text in topic.current.items()}
    return settings_of(replace(topic, config=replace(topic.config, overrides=overrides)))


def exceeded_budget(topic: LintTopic, cluster: LintCluster, changed: SegmentSettings) -> str | None:
    """Why a change of one topic's segments would exceed the handles of a broker; None where no known limit is hit.

    Args:
        topic: the topic as it is; without known replicas an even spread is taken.
        cluster: its cluster, with the limits of its hosts where they are known.
        changed: the settings to come.
    """
    for broker_id, broker in cluster.derive(_limited_brokers).items():
        try:
            segments = segments_after(cluster).of(broker_id) + _added_segments(topic, cluster, changed, broker_id)
        except InputMissing:
            return None
        reason = _explain_excess(broker.where, segments, broker.host)
        if reason is not None:
            return reason
    return None


def _limited_brokers(cluster: LintCluster) -> Mapping[int, LintBroker]:
    """The brokers with known limits of handles."""
    return {
        b.id: b
        for b in cluster.data_brokers
        if b.id is not None and (b.host.open_files is not None or b.host.max_map_count is not None)
    }


def _added_segments(topic: LintTopic, cluster: LintCluster, changed: SegmentSettings, broker_id: int) -> int:
    before = settings_of(topic)
    if topic.partition_facts is None:
        each = (changed.segment_limit() or 1) - (before.segment_limit() or 1)
        return round(each * mean_replicas(topic, cluster))
    added = 0
    for partition in topic.partition_facts:
        if broker_id in partition.replicas:
            rate = partition.bytes_s
            added += (changed.segment_limit(rate) or 1) - (segments_of(before, partition) or 1)
    return added


def _explain_excess(where: str, segments: int, host: HostFacts) -> str | None:
    if host.max_map_count is not None and maps(segments) > host.max_map_count:
        return f"{where} would need {maps(segments)} memory maps of {host.max_map_count}"
    needed = descriptors(segments, host.connections or 0)
    if host.open_files is not None and needed > host.open_files:
        return f"{where} would need {needed} file descriptors of {host.open_files}"
    return None


def _totals_after(cluster: LintCluster) -> SegmentTotals:
    return _totals(cluster, is_after=True)


def _totals_before(cluster: LintCluster) -> SegmentTotals:
    return _totals(cluster, is_after=False)


def _totals(cluster: LintCluster, *, is_after: bool) -> SegmentTotals:
    by_broker: Counter[int] = Counter()
    by_topic: Counter[str] = Counter()
    uncounted: set[int] = set()
    spread, spread_is_complete = 0.0, True
    for topic in cluster.topics:
        now = settings_now(topic)
        then = settings_of(topic) if is_after else now
        if topic.partition_facts is None:
            each = _predict_segments(topic, then, None)
            spread_is_complete = spread_is_complete and each is not None
            share = (each or 1) * mean_replicas(topic, cluster)
            spread += share
            by_topic[topic.name] += round(share)
            continue
        for partition in topic.partition_facts:
            number = _segments(topic, now, then, partition)
            by_topic[topic.name] += number or 1
            for broker in partition.replicas:
                by_broker[broker] += number or 1
                if number is None:
                    uncounted.add(broker)
    return SegmentTotals(by_broker, spread, frozenset(uncounted), spread_is_complete, by_topic)


def _segments(topic: LintTopic, now: SegmentSettings, then: SegmentSettings, partition: PartitionFacts) -> int | None:
    """The segments of one copy: those counted, with what the change adds at most, or those predicted."""
    if partition.segments is None or now == then:
        return partition.segments if partition.segments is not None else _predict_segments(topic, then, partition)
    before, after = now.segment_limit(partition.bytes_s), then.segment_limit(partition.bytes_s)
    return None if before is None or after is None else max(partition.segments + after - before, 1)


def _predict_segments(topic: LintTopic, settings: SegmentSettings, partition: PartitionFacts | None) -> int | None:
    if not topic.config.broker.is_known:
        raise InputMissing("broker configuration")
    return segments_of(settings, partition)
