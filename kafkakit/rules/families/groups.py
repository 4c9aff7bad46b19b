"""G: rules of consumer groups, their offsets, and transactions."""

from kafkakit.core.model import OFFSETS_TOPIC
from kafkakit.core.quantities import format_bytes, format_span
from kafkakit.rules.config_defs import minor_key
from kafkakit.rules.effective import BrokerConfig, InputMissing, to_items
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
)
from kafkakit.rules.subjects import LintBroker, LintCluster, LintTopic, require_known

WEEK_MINUTES = 10_080
DAY_MINUTES = 1_440
LARGEST_SEGMENT = 100 * 2**20
SEGMENT_KEYS = (
    "offsets.topic.segment.bytes",
    "transaction.state.log.segment.bytes",
    "share.coordinator.state.topic.segment.bytes",
)
METADATA_SHARE = 0.8
DELIVERY_TIMEOUT_MS = 120_000
NO_LIMIT = 2**31 - 1


@broker_rule("KKG701", WARNING, CORE, fix=Fix.UNSAFE)
def short_offset_retention(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """Committed offsets of an idle group are kept for less than 7 days (less than a day is an error).

    Why: a group that was stopped over a long weekend has no position when it comes back, and continues at
    auto.offset.reset: it skips or reads everything again. Kafka's default was raised from 1 to 7 days in 2.0.
    Source: KIP-186; Datadog keeps 7 days.

    Bad:
        brokers: [{id: 1, config: {offsets.retention.minutes: "2880"}}]

    Good:
        brokers: [{id: 1, config: {offsets.retention.minutes: "20160"}}]
    """
    if not broker.is_broker:
        return
    key = "offsets.retention.minutes"
    minutes = broker.config.given().number(key)
    if minutes is not None and minutes < WEEK_MINUTES:
        yield Violation(
            message=f"an idle group's offsets are forgotten after {format_span(60 * minutes)}, below 7 days",
            key=key,
            expected=f"at least {WEEK_MINUTES}",
            severity=ERROR if minutes < DAY_MINUTES else None,
            edits=(Edit(key, str(WEEK_MINUTES)),),
        )


@cluster_rule("KKG702", WARNING, CORE, Needs.FILE, Needs.LIVE, fix=Fix.UNSAFE)
def offsets_expire_before_data(cluster: LintCluster, limits: Limits) -> Violations:
    """A group's committed offsets are forgotten before the data that it has yet to read is deleted.

    Why: a group that was idle for longer than offsets.retention.minutes continues at auto.offset.reset although its
    records are still there: it skips them (latest) or reads all again (earliest). Compacted topics are not reported.
    Source: KIP-186; Kafka, `GroupMetadataManager`.

    Bad:
        config: {offsets.retention.minutes: "10080"}
        brokers: [{id: 1}]
        topics: [{name: orders, config: {retention.ms: "2592000000"}}]
        observed: {groups: [{name: billing, topics: [orders]}]}

    Good:
        config: {offsets.retention.minutes: "43200"}
        brokers: [{id: 1}]
        topics: [{name: orders, config: {retention.ms: "2592000000"}}]
        observed: {groups: [{name: billing, topics: [orders]}]}
    """
    key = "offsets.retention.minutes"
    groups = require_known(cluster.groups, "consumer groups")
    config = cluster.reference_broker().given()
    minutes = config.number(key)
    if minutes is None:
        return
    read = {name: group.name for group in groups for name in group.topics}
    kept = [(_retention_ms(t), t.name) for t in cluster.topics if t.name in read and t.policies == ("delete",)]
    longest, topic = max(((ms, name) for ms, name in kept if ms is not None), default=(0, ""))
    if not topic or longest <= minutes * 60_000:
        return
    declared = config.declared(key)
    wanted = -(-longest // 60_000)
    yield Violation(
        message=f"offsets of an idle group are forgotten after {format_span(60 * minutes)}, but topic {topic}, "
        f"which group {read[topic]} reads, keeps data for {format_span(longest / 1000)}",
        key=key,
        observed=str(minutes),
        expected=f"at least {wanted}",
        place=declared.place if declared else None,
        edits=(Edit(key, str(wanted)),) if wanted <= NO_LIMIT else (),
    )


@cluster_rule("KKG703", ERROR, CORE, Needs.FILE, Needs.LIVE)
def offsets_partitions_changed(cluster: LintCluster, limits: Limits) -> Violations:
    """`offsets.topic.num.partitions` is not the number of partitions that `__consumer_offsets` has.

    Why: a group's coordinator and its offsets are found by the hash of its name over that number. With another one
    all groups look in other partitions and have lost their offsets.
    Source: Kafka documentation, `offsets.topic.num.partitions` ("should not change after deployment").

    Bad:
        config: {offsets.topic.num.partitions: "100"}
        brokers: [{id: 1}]
        topics: [{name: __consumer_offsets, partitions: 50}]

    Good:
        config: {offsets.topic.num.partitions: "50"}
        brokers: [{id: 1}]
        topics: [{name: __consumer_offsets, partitions: 50}]
    """
    key = "offsets.topic.num.partitions"
    topic = require_known(
        next((t for t in cluster.topics if t.name == OFFSETS_TOPIC), None), f"the topic {OFFSETS_TOPIC}"
    )
    facts = topic.partition_facts
    actual = require_known(len(facts) if facts is not None else topic.partitions, f"partitions of {OFFSETS_TOPIC}")
    if not cluster.data_brokers:
        raise InputMissing("broker configuration")
    for broker in cluster.data_brokers:
        wanted = broker.config.given().number(key)
        if wanted is None or wanted == actual:
            continue
        yield Violation(
            message=f"{key} is {wanted}, but {OFFSETS_TOPIC} has {actual} partitions: groups would look for their "
            "offsets in other partitions",
            key=key,
            expected=str(actual),
            about=broker,
        )


@broker_rule("KKG704", WARNING, STRICT, fix=Fix.UNSAFE)
def big_offsets_segments(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """Segments of the topics for offsets, transactions or share groups are larger than 100 MiB.

    Why: a new coordinator reads its whole partition before it serves its groups, and the active segment is never
    compacted: segments of 1 GiB make that up to 10 times as long as the default of 100 MiB.
    Source: Kafka documentation, `offsets.topic.segment.bytes`.

    Bad:
        brokers: [{id: 1, config: {offsets.topic.segment.bytes: "1073741824"}}]

    Good:
        brokers: [{id: 1, config: {offsets.topic.segment.bytes: "104857600"}}]
    """
    if not broker.is_broker:
        return
    config = broker.config.given()
    for key in SEGMENT_KEYS:
        size = config.number(key)
        if size is not None and size > LARGEST_SEGMENT:
            yield Violation(
                message=f"segments of {format_bytes(size)} are {size / LARGEST_SEGMENT:.1f} times the default: "
                "coordinators load that much more after a failover",
                key=key,
                expected=f"at most {LARGEST_SEGMENT}",
                edits=(Edit(key, str(LARGEST_SEGMENT)),),
            )


@cluster_rule("KKG705", WARNING, CORE, Needs.LIVE, fix=Fix.UNSAFE)
def commit_metadata_budget(cluster: LintCluster, limits: Limits) -> Violations:
    """A group's commits carry metadata of more than 80 % of `offset.metadata.max.bytes`.

    Why: a commit whose metadata is larger is refused as a whole (OffsetMetadataTooLarge), so the group stops making
    progress. Dialects that keep single acknowledgements in that field grow with the number of gaps.
    Source: Kafka documentation, `offset.metadata.max.bytes`; `kafkakit streams commits`.

    Bad:
        config: {offset.metadata.max.bytes: "4096"}
        brokers: [{id: 1}]
        observed: {groups: [{name: lanes, topics: [orders], metadata_p99_bytes: 3900}]}

    Good:
        config: {offset.metadata.max.bytes: "16384"}
        brokers: [{id: 1}]
        observed: {groups: [{name: lanes, topics: [orders], metadata_p99_bytes: 3900}]}
    """
    key = "offset.metadata.max.bytes"
    sized = [(g, g.metadata_p99_bytes) for g in cluster.groups or () if g.metadata_p99_bytes is not None]
    if not sized:
        raise InputMissing("sizes of commit metadata")
    config = cluster.reference_broker().given()
    most = require_known(config.number(key), key)
    declared = config.declared(key)
    for group, size in sized:
        if size <= METADATA_SHARE * most:
            continue
        wanted = 1 << (2 * size - 1).bit_length()
        yield Violation(
            message=f"1 in 100 commits carries {size:,} bytes of metadata or more, and brokers accept {most:,} at most",
            key=key,
            observed=str(most),
            expected=f"at least {wanted}",
            where=cluster.within(f"group {group.name}"),
            place=declared.place if declared else None,
            edits=(Edit(key, str(wanted)),),
        )


@broker_rule("KKG706", NOTE, STRICT, fix=Fix.UNSAFE)
def producer_id_expiry(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """Brokers forget producers sooner than these may send a batch again, or than a transaction may last.

    Why: a broker finds duplicates by the producer's last batches. Once it has forgotten them, a batch that is sent
    again within delivery.timeout.ms (2 min) is appended twice, or a transaction fails with UNKNOWN_PRODUCER_ID.
    Source: Kafka documentation, `producer.id.expiration.ms`; KIP-360.

    Bad:
        brokers: [{id: 1, config: {producer.id.expiration.ms: "60000"}}]

    Good:
        brokers: [{id: 1, config: {producer.id.expiration.ms: "86400000"}}]
    """
    if not broker.is_broker:
        return
    key = "producer.id.expiration.ms"
    config = broker.config.given()
    expiry, transaction = config.number(key), config.number("transaction.max.timeout.ms")
    if expiry is None:
        return
    needed = max(DELIVERY_TIMEOUT_MS, transaction or 0)
    if expiry < needed:
        name = "transaction.max.timeout.ms" if transaction == needed else "delivery.timeout.ms of producers"
        yield Violation(
            message=f"producers are forgotten after {format_span(expiry / 1000)}, sooner than "
            f"{format_span(needed / 1000)} ({name})",
            key=key,
            expected=f"at least {needed}",
            edits=(Edit(key, str(max(needed, 86_400_000))),),
        )


@broker_rule("KKG708", WARNING, STRICT, fix=Fix.SAFE)
def legacy_rebalance_protocol_list(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """`group.coordinator.rebalance.protocols` is set, which Kafka 4.3 deprecates and 5.0 removes.

    Why: protocols are chosen by features of the cluster (group.version, share.version, streams.version) instead; a
    list written for an older version also switches off protocols that came later.
    Source: Kafka documentation, upgrade notes of 4.3.

    Bad:
        version: "4.3"
        config:
          offsets.retention.minutes: "10080"
          group.coordinator.rebalance.protocols: classic,consumer,streams
        brokers: [{id: 1}]

    Good:
        version: "4.3"
        brokers: [{id: 1, config: {offsets.retention.minutes: "10080"}}]
    """
    key = "group.coordinator.rebalance.protocols"
    declared = broker.config.declared(key)
    table = cluster.target or cluster.table
    if declared is None or minor_key(table.version) < (4, 3):
        return
    same = _is_default(broker.config, key, declared.text)
    yield Violation(
        message=f"the key is deprecated in Kafka {table.version}; protocols are chosen by the features of the cluster"
        + (", and the value is the default" if same else ""),
        key=key,
        edits=(Edit(key, is_safe=True),) if same else (),
    )


@broker_rule("KKG709", NOTE, STRICT, fix=Fix.UNSAFE)
def unlimited_group(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """Groups of a cluster labelled `multi_tenant` may have any number of members.

    Why: one tenant whose members get new ids at every poll fills the coordinator's heap and rebalances without end.
    Source: KIP-389.

    Bad:
        labels: [multi_tenant]
        brokers: [{id: 1, config: {group.max.size: "2147483647"}}]

    Good:
        labels: [multi_tenant]
        brokers: [{id: 1, config: {group.max.size: "1000"}}]
    """
    key = "group.max.size"
    if "multi_tenant" in cluster.labels and broker.is_broker and broker.config.given().number(key) == NO_LIMIT:
        yield set_to(key, "1000", "many tenants share the cluster, and a group may have any number of members")


@broker_rule("KKG710", NOTE, STRICT, fix=Fix.UNSAFE)
def no_rebalance_delay(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """The first rebalance of a new group does not wait for more members.

    Why: with group.initial.rebalance.delay.ms=0 an application of 50 instances rebalances up to 50 times at its
    start; the default of 3 s collects them.
    Source: KIP-134.

    Bad:
        brokers: [{id: 1, config: {group.initial.rebalance.delay.ms: "0"}}]

    Good:
        brokers: [{id: 1, config: {group.initial.rebalance.delay.ms: "3000"}}]
    """
    key = "group.initial.rebalance.delay.ms"
    if cluster.is_prod and broker.is_broker and broker.config.given().number(key) == 0:
        yield set_to(key, "3000", "a new group rebalances once for each member that joins")


def _retention_ms(topic: LintTopic) -> int | None:
    """How long a topic keeps data in ms; None where no time limits it."""
    value = topic.config.number("retention.ms")
    return value if value is not None and value > 0 else None


def _is_default(config: BrokerConfig, key: str, text: str) -> bool:
    definition = config.table.broker.get(key)
    return definition is not None and set(to_items(definition.default or "")) == set(to_items(text))
