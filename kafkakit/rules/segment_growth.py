"""Segments of each broker now and after a change of topics, counted where an audit counted them, else predicted."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kafkakit.rules.effective import Declared, InputMissing, Source
from kafkakit.rules.retention import SegmentSettings, descriptors, maps, mean_replicas, segments_of, settings_of
from kafkakit.rules.subjects import HostFacts, LintBroker, LintCluster, LintTopic, PartitionFacts

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
    return cluster.derive(_after)


def segments_before(cluster: LintCluster) -> SegmentTotals:
    """With the settings that the cluster has now. Computed once."""
    return cluster.derive(_before)


def changed_topics(cluster: LintCluster) -> tuple[str, ...]:
    """The topics whose segments change, those that gain most first."""
    before, after = segments_before(cluster), segments_after(cluster)
    gains = {t.name: after.by_topic[t.name] - before.by_topic[t.name] for t in cluster.topics if t.current is not None}
    return tuple(sorted((name for name, gain in gains.items() if gain > 0), key=lambda name: (-gains[name], name)))


def settings_now(topic: LintTopic) -> SegmentSettings:
    """The settings that a topic has in the cluster, where the declared ones are a change."""
    if topic.current is None:
        return settings_of(topic)
    overrides = {key: Declared(text, Source.TOPIC) for key, text in topic.current.items()}
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
        reason = _above(broker.where, segments, broker.host)
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


def _above(where: str, segments: int, host: HostFacts) -> str | None:
    if host.max_map_count is not None and maps(segments) > host.max_map_count:
        return f"{where} would need {maps(segments)} memory maps of {host.max_map_count}"
    needed = descriptors(segments, host.connections or 0)
    if host.open_files is not None and needed > host.open_files:
        return f"{where} would need {needed} file descriptors of {host.open_files}"
    return None


def _after(cluster: LintCluster) -> SegmentTotals:
    return _totals(cluster, is_after=True)


def _before(cluster: LintCluster) -> SegmentTotals:
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
            each = _predicted(topic, then, None)
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
        return partition.segments if partition.segments is not None else _predicted(topic, then, partition)
    before, after = now.segment_limit(partition.bytes_s), then.segment_limit(partition.bytes_s)
    return None if before is None or after is None else max(partition.segments + after - before, 1)


def _predicted(topic: LintTopic, settings: SegmentSettings, partition: PartitionFacts | None) -> int | None:
    if not topic.config.broker.is_known:
        raise InputMissing("broker configuration")
    return segments_of(settings, partition)
