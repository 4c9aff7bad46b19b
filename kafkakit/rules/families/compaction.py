"""C: rules of compacted topics and of the log cleaner."""

from collections.abc import Mapping

from kafkakit.core.model import OFFSETS_TOPIC
from kafkakit.core.quantities import count_of, format_rate, format_span
from kafkakit.rules.config_defs import ValueType
from kafkakit.rules.effective import ValueSource
from kafkakit.rules.retention import HOUR_MS, settings_of
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
    set_to,
    topic_rule,
)
from kafkakit.rules.subjects import LintBroker, LintCluster, LintTopic, require_known
from kafkakit.rules.values import parse_value

COMPACTED_INTERNAL_TOPICS = (OFFSETS_TOPIC, "__transaction_state")
MAP_ENTRY_BYTES = 24
DIRTY_RATIOS = (0.05, 0.9)
STATE_LABELS = frozenset(("changelog", "state"))


@topic_rule("KKC301", WARNING, CORE, fix=Fix.SAFE)
def dead_retention_on_compact(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A topic that is compacted only sets `retention.ms` or `retention.bytes`, which nothing reads.

    Why: without `delete` in its policy a topic keeps the newest value of each key for ever, whatever its retention,
    also when the retention was set for data that must be deleted.
    Source: Kafka, `UnifiedLog.deleteOldSegments`.

    Bad:
        topics:
          - {name: customers, config: {cleanup.policy: compact, retention.ms: "86400000"}}

    Good:
        topics:
          - {name: customers, config: {cleanup.policy: "compact,delete", retention.ms: "86400000"}}
    """
    if "cleanup.policy" not in topic.config.overrides and not topic.config.broker.is_known:
        return
    settings = settings_of(topic)
    if not settings.compacts or settings.deletes:
        return
    for key in ("retention.ms", "retention.bytes"):
        if key in topic.config.overrides:
            yield Violation(
                message=f"{key} has no effect on a topic that is compacted only: its data is kept for ever",
                key=key,
                expected="not set",
                edits=(Edit(key, is_safe=True),),
            )


@topic_rule("KKC302", WARNING, CORE, Needs.FILE, Needs.METRICS, fix=Fix.UNSAFE)
def stale_values_in_active_segment(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """Overwritten and deleted values of a compacted topic may stay readable for more than a day.

    Why: the active segment is never cleaned, and it rolls only at an append after `segment.ms` (7 d) or
    `max.compaction.lag.ms` (no limit). Until then a value that was overwritten, or deleted by a tombstone on
    a person's request, is still there. Kafka's own topics are left out.
    Source: Kafka, `LogCleanerManager.cleanableOffsets`, `LogConfig.maxSegmentMs`; KIP-354.
    Options: freshness_s (86400).

    Bad:
        config: {log.roll.hours: "168"}
        topics:
          - {name: customers, config: {cleanup.policy: compact}}

    Good:
        config: {log.roll.hours: "168"}
        topics:
          - {name: customers, config: {cleanup.policy: compact, max.compaction.lag.ms: "86400000"}}
    """
    settings = settings_of(topic)
    if not settings.compacts or topic.is_internal:
        return
    rates = topic.rates_bytes_s()
    span = settings.span_ms(rates[0] if rates else None)
    freshness = round(limits.freshness_s * 1000)
    if span <= freshness:
        return
    topic.config.sure_number("segment.ms")
    topic.config.sure_number("max.compaction.lag.ms")
    yield Violation(
        message=f"an overwritten or deleted value may stay for {format_span(span / 1000)} and more, because "
        "the segment that is being written is not compacted",
        key="max.compaction.lag.ms",
        expected=f"at most {freshness}",
        edits=(Edit("max.compaction.lag.ms", str(freshness)),),
    )


@topic_rule("KKC304", NOTE, STRICT)
def compaction_lag_shrinks_segments(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """`max.compaction.lag.ms` below `segment.ms` makes segments roll earlier than `segment.ms` tells.

    Why: a compacted topic rolls after the shorter of the two, so the number of segments, and with it descriptors and
    maps, follows from the lag.
    Source: Kafka, `LogConfig.maxSegmentMs`.

    Bad:
        topics:
          - {name: customers, config: {cleanup.policy: compact, max.compaction.lag.ms: "3600000"}}

    Good:
        topics:
          - name: customers
            config: {cleanup.policy: compact, max.compaction.lag.ms: "86400000", segment.ms: "86400000"}
    """
    settings = settings_of(topic)
    if settings.compacts and settings.roll_ms < settings.segment_ms:
        yield Violation(
            message=f"segments roll after {format_span(settings.roll_ms / 1000)} (max.compaction.lag.ms), not after "
            f"segment.ms {format_span(settings.segment_ms / 1000)}",
            key="max.compaction.lag.ms",
        )


@topic_rule("KKC305", WARNING, CORE, Needs.FILE, Needs.METRICS, fix=Fix.UNSAFE)
def tombstones_too_short(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """Tombstones of a compacted topic vanish before every reader has seen them.

    Why: a tombstone is removed `delete.retention.ms` (24 h) after it was compacted. A reader that needs longer from
    the beginning to the end, or is that far behind, keeps keys that were deleted. At least an hour is asked for, and
    as much as the slowest known group is behind.
    Source: Kafka documentation, `delete.retention.ms`.

    Bad:
        topics:
          - {name: customers, config: {cleanup.policy: compact, delete.retention.ms: "60000"}}

    Good:
        topics:
          - {name: customers, config: {cleanup.policy: compact, delete.retention.ms: "86400000"}}
    """
    if not settings_of(topic).compacts:
        return
    kept = topic.config.number("delete.retention.ms")
    if kept is None:
        return
    behind = max((g.time_lag_s.get(topic.name, 0.0) for g in cluster.groups or ()), default=0.0)
    wanted = max(HOUR_MS, round(behind * 1000))
    if kept < wanted:
        topic.config.sure_number("delete.retention.ms")
        reader = "a reader needs" if wanted == HOUR_MS else "the slowest group is behind"
        yield Violation(
            message=f"tombstones vanish {format_span(kept / 1000)} after compaction, "
            f"less than the {format_span(wanted / 1000)} that {reader}: deleted keys may come back",
            key="delete.retention.ms",
            expected=f"at least {wanted}",
            edits=(Edit("delete.retention.ms", str(max(wanted, 24 * HOUR_MS))),),
        )


@topic_rule("KKC306", WARNING, STRICT, fix=Fix.UNSAFE)
def dirty_ratio_extreme(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """`min.cleanable.dirty.ratio` makes the cleaner work without pause, or leave most of the log as it is.

    Why: below 0.05 every few records make a log of any size be rewritten; above 0.9 up to nine tenths of the log are
    overwritten values.
    Source: Kafka documentation, `min.cleanable.dirty.ratio`.

    Bad:
        topics:
          - {name: customers, config: {cleanup.policy: compact, min.cleanable.dirty.ratio: "0.01"}}

    Good:
        topics:
          - {name: customers, config: {cleanup.policy: compact, min.cleanable.dirty.ratio: "0.5"}}
    """
    if not settings_of(topic).compacts:
        return
    key = "min.cleanable.dirty.ratio"
    ratio = _decimal(topic.config.text(key))
    lowest, highest = DIRTY_RATIOS
    if ratio is not None and not lowest <= ratio <= highest:
        effect = "the cleaner rewrites the log all the time" if ratio < lowest else f"{ratio:.0%} of it may be obsolete"
        yield set_to(key, "0.5", f"{key} is {ratio:g}: {effect}")


@broker_rule("KKC307", ERROR, CORE, fix=Fix.UNSAFE)
def cleaner_disabled(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """The log cleaner is off, so that compacted topics grow without limit.

    Why: every cluster has compacted topics, `__consumer_offsets` first of all: without the cleaner they grow until
    the disk is full, and coordinators take minutes to load. `log.cleaner.enable` is deprecated and goes with 5.0.
    Source: Kafka documentation, `log.cleaner.enable`, `log.cleaner.threads`.

    Bad:
        brokers: [{id: 1, config: {log.cleaner.enable: "false"}}]

    Good:
        brokers: [{id: 1, config: {log.cleaner.enable: "true", log.cleaner.threads: "1"}}]
    """
    if not broker.is_broker:
        return
    config = broker.config.given()
    told = ": __consumer_offsets and all compacted topics grow without limit"
    if config.text("log.cleaner.enable") and not config.is_true("log.cleaner.enable"):
        yield set_to("log.cleaner.enable", "true", f"the log cleaner is off{told}")
    if config.number("log.cleaner.threads") == 0:
        yield set_to("log.cleaner.threads", "1", f"the log cleaner has no thread{told}")


@topic_rule("KKC309", NOTE, STRICT, Needs.FILE, Needs.SEGMENTS, fix=Fix.NONE)
def dedupe_buffer_capacity(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A pass of the cleaner cannot hold the keys of a topic's dirty section, so that it needs several.

    Why: the offset map takes 24 bytes a key (16 of the hash, 8 of the offset) and is filled to 90 %: the default
    128 MiB of one thread hold 5.0 million keys. What does not fit waits for the next pass, which reads the log again.
    Source: Kafka, `SkimpyOffsetMap`, `Cleaner.buildOffsetMap`.

    Bad:
        config: {log.cleaner.dedupe.buffer.size: "134217728"}
        topics:
          - {name: customers, config: {cleanup.policy: compact}, observed: {dirty_unique_keys: 9000000}}

    Good:
        config: {log.cleaner.dedupe.buffer.size: "134217728"}
        topics:
          - {name: customers, config: {cleanup.policy: compact}, observed: {dirty_unique_keys: 5000000}}
    """
    if not settings_of(topic).compacts:
        return
    keys = require_known(topic.facts.dirty_unique_keys, "a segment audit")
    broker = topic.config.broker.given()
    buffer, threads = broker.number("log.cleaner.dedupe.buffer.size"), broker.number("log.cleaner.threads")
    fill = _decimal(broker.text("log.cleaner.io.buffer.load.factor")) or 0.9
    if buffer is None or not threads:
        return
    held = int(buffer // threads // MAP_ENTRY_BYTES * fill)
    if keys > held:
        wanted = -(-int(keys * MAP_ENTRY_BYTES / fill) * threads // 2**20) * 2**20 + threads * 2**20
        yield Violation(
            message=f"a pass of the cleaner holds {held:,} keys, the dirty section has {keys:,}: "
            f"{count_of(-(-keys // held) if held else keys, 'pass', 'passes')}",
            key="cleanup.policy",
            hint=f"log.cleaner.dedupe.buffer.size of at least {wanted}",
        )


@topic_rule("KKC310", WARNING, STRICT, fix=Fix.UNSAFE)
def changelog_with_delete(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A topic that holds state also deletes by age.

    Why: the newest value of a key that is not written for `retention.ms` is deleted with its segment, and is missing
    when the state is restored. For topics with the label `changelog` or `state`; topics of windowed stores, whose old
    values may go, also have the label `windowed`.
    Source: Kafka Streams documentation, "Internal Topics of Kafka Streams".

    Bad:
        topics:
          - {name: totals, labels: [changelog], config: {cleanup.policy: "compact,delete"}}

    Good:
        topics:
          - {name: totals, labels: [changelog], config: {cleanup.policy: compact}}
    """
    if STATE_LABELS.isdisjoint(topic.labels) or "windowed" in topic.labels or not settings_of(topic).deletes:
        return
    if not topic.config.is_sure("cleanup.policy"):
        topic.config.broker.given()
    yield set_to(
        "cleanup.policy",
        "compact",
        "a topic of state deletes by age: the value of a key that is not written again is lost",
    )


@topic_rule("KKC311", ERROR, CORE, Needs.LIVE, fix=Fix.UNSAFE)
def internal_topic_policy(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """`__consumer_offsets` or `__transaction_state` is not compacted, or also deletes.

    Why: with `delete` the offsets of quiet groups and the states of open transactions are lost after the retention;
    without `compact` the topic grows with every commit.
    Source: Kafka, `GroupCoordinatorConfig`, `TransactionLog`: both are created with cleanup.policy=compact.

    Bad:
        topics:
          - {name: __consumer_offsets, config: {cleanup.policy: delete}}

    Good:
        topics:
          - {name: __consumer_offsets, config: {cleanup.policy: compact}}
    """
    if topic.name not in COMPACTED_INTERNAL_TOPICS or topic.policies == ("compact",):
        return
    declared = topic.config.value("cleanup.policy")
    if declared.source is not ValueSource.TOPIC:
        require_known(
            cluster.is_live or None, "the live cluster's topics"
        )  # brokers set the policy when they create it
    yield set_to(
        "cleanup.policy",
        "compact",
        f"cleanup.policy is {declared.text or 'empty'}: offsets or transactions are lost or grow for ever",
    )


@topic_rule("KKC312", WARNING, STRICT, Needs.SEGMENTS)
def compact_with_unkeyed_data(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A compacted topic holds records without a key.

    Why: such records were written before the topic was compacted: the cleaner drops them, and brokers refuse new ones
    (InvalidRecordException).
    Source: Kafka, `LogValidator.validateKey`, `Cleaner.shouldRetainRecord`.

    Bad:
        topics:
          - {name: customers, config: {cleanup.policy: compact}, observed: {keyless_records: 7}}

    Good:
        topics:
          - {name: customers, config: {cleanup.policy: compact}, observed: {keyless_records: 0}}
    """
    if not settings_of(topic).compacts:
        return
    number = require_known(topic.facts.keyless_records, "a segment audit")
    if number > 0:
        yield Violation(
            message=f"{count_of(number, 'record')} without a key: the cleaner drops them, and new ones are refused",
            key="cleanup.policy",
        )


@broker_rule("KKC313", WARNING, STRICT, Needs.FILE, Needs.METRICS, fix=Fix.UNSAFE)
def cleaner_throttle_too_low(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """The cleaner may read and write less than twice what compacted topics take in.

    Why: the limit counts what is read and what is written; below twice the rate of the compacted topics the cleaner
    falls behind for good, and they grow.
    Source: Kafka documentation, `log.cleaner.io.max.bytes.per.second`.

    Bad:
        brokers: [{id: 1, config: {log.cleaner.io.max.bytes.per.second: "1000000"}}]
        topics:
          - name: customers
            config: {cleanup.policy: compact}
            observed: {partitions: [{partition: 0, replicas: [1], bytes_s: 600000}]}

    Good:
        brokers: [{id: 1, config: {log.cleaner.io.max.bytes.per.second: "10000000"}}]
        topics:
          - name: customers
            config: {cleanup.policy: compact}
            observed: {partitions: [{partition: 0, replicas: [1], bytes_s: 600000}]}
    """
    key = "log.cleaner.io.max.bytes.per.second"
    if not broker.is_broker or broker.config.given().declared(key) is None:
        return
    limit = _decimal(broker.config.text(key))
    if limit is None:
        return
    rate = cluster.derive(_compacted_rates).get(broker.id, 0.0)
    if limit < 2 * rate:
        yield Violation(
            message=f"the cleaner may use {format_rate(limit)} for what it reads and writes, "
            f"compacted topics take in {format_rate(rate)}",
            key=key,
            expected=f"at least {round(2 * rate)}",
            edits=(Edit(key, str(-(-round(4 * rate) // 2**20) * 2**20)),),
        )


def _compacted_rates(cluster: LintCluster) -> Mapping[int | None, float]:
    """Bytes a second that compacted topics take in on each broker."""
    rates: dict[int | None, float] = {}
    for topic in cluster.topics:
        if settings_of(topic).compacts:
            for partition in require_known(topic.partition_facts, "the live cluster's partitions"):
                rate = require_known(partition.bytes_s, "append rates of partitions")
                for replica in partition.replicas:
                    rates[replica] = rates.get(replica, 0.0) + rate
    return rates


def _decimal(text: str) -> float | None:
    """A number as Kafka's type DOUBLE parses it, None for anything else."""
    value = parse_value(ValueType.DOUBLE, text).value
    return value if isinstance(value, float) else None
