"""D: rules of durability that brokers' settings decide: unclean elections, defaults, shutdowns, flushes.

Also the replicas of Kafka's own topics.
"""

from kafkakit.core.findings import MIN_ISR
from kafkakit.core.findings import min_isr_above_replicas as above_replicas
from kafkakit.core.quantities import count_of
from kafkakit.rules.cluster_facts import (
    INTERNAL_TOPICS,
    LOSS_TOLERANT,
    has_eligible_leader_replicas,
    replicas_of,
    set_replication,
    set_values,
)
from kafkakit.rules.config_defs import minor_key
from kafkakit.rules.effective import UNLIMITED, InputMissing, ValueSource, to_int
from kafkakit.rules.rule import (
    CORE,
    ERROR,
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
from kafkakit.rules.subjects import LintBroker, LintCluster, LintTopic

UNCLEAN = "unclean.leader.election.enable"
DEFAULT_RF = "default.replication.factor"
SHORT_ISR_LAG_MS = 10_000
FLUSH_KEYS = (
    ("flush.messages", ("log.flush.interval.messages",)),
    ("flush.ms", ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")),
)


@cluster_rule("KKD106", ERROR, CORE, fix=Fix.UNSAFE)
def unclean_leader_election(cluster: LintCluster, limits: Limits) -> Violations:
    """A replica that is out of sync may become leader, which discards acknowledged records.

    Why: the new leader's log ends earlier; the others truncate theirs to it, and what consumers have already read
    is gone or different. Datadog kept a second cluster because of it; Netflix chose it on purpose for data that may
    be lost: give such topics (or the cluster) the label `loss_tolerant`.
    Source: Kafka documentation, `unclean.leader.election.enable`; Datadog, "Lessons learned from running Kafka".

    Bad:
        config: {unclean.leader.election.enable: "true"}
        brokers: [{id: 1}, {id: 2}, {id: 3}]

    Good:
        config: {unclean.leader.election.enable: "false"}
        brokers: [{id: 1}, {id: 2}, {id: 3}]
        topics:
          - {name: clicks, labels: [loss_tolerant], config: {unclean.leader.election.enable: "true"}}
    """
    for holder, key, declared in set_values(cluster, UNCLEAN, (UNCLEAN,)):
        tolerant = LOSS_TOLERANT in (holder.labels if isinstance(holder, LintTopic) else cluster.labels)
        if declared.text.strip().lower() == "true" and not tolerant:
            yield set_to(
                key,
                "false",
                "a replica that is out of sync may become leader: acknowledged records are then discarded",
                about=holder,
            )
    if not cluster.reference_broker().is_known:
        raise InputMissing("broker configuration")


@topic_rule("KKD107", WARNING, STRICT, fix=Fix.UNSAFE)
def unclean_override_conflict(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A topic sets `unclean.leader.election.enable` otherwise than its cluster does.

    Why: one topic is silently weaker, or less available, than all others, and an operator who knows the cluster's
    setting expects neither. Topics with the label `loss_tolerant` may differ.
    Source: Kafka documentation, `unclean.leader.election.enable`.

    Bad:
        config: {unclean.leader.election.enable: "false"}
        topics:
          - {name: orders, config: {unclean.leader.election.enable: "true"}}

    Good:
        config: {unclean.leader.election.enable: "false"}
        topics:
          - {name: orders, config: {unclean.leader.election.enable: "false"}}
    """
    override = topic.config.overrides.get(UNCLEAN)
    if override is None or LOSS_TOLERANT in topic.labels:
        return
    own, others = topic.config.is_true(UNCLEAN), topic.config.broker.given().is_true(UNCLEAN)
    if own != others:
        yield Violation(
            message=f"the topic sets {UNCLEAN} to {str(own).lower()}, the brokers have {str(others).lower()}",
            key=UNCLEAN,
            expected=str(others).lower(),
            edits=(Edit(UNCLEAN),),
        )


@cluster_rule("KKD108", WARNING, CORE, fix=Fix.UNSAFE)
def default_rf_one(cluster: LintCluster, limits: Limits) -> Violations:
    """Topics that do not name a replication factor get one replica, in a cluster of several brokers.

    Why: Kafka's default is 1, so that auto-created topics and those created with -1 lose their data with one disk.
    From 4.3 on the controllers' value counts, and brokers warn if it is set only for them.
    Source: Kafka documentation, `default.replication.factor`; Strimzi `KafkaSpecChecker`.
    Options: target_replication_factor (3).

    Bad:
        config: {default.replication.factor: "1"}
        brokers: [{id: 1}, {id: 2}, {id: 3}]
        version: "4.1"

    Good:
        config: {default.replication.factor: "3"}
        brokers: [{id: 1}, {id: 2}, {id: 3}]
        version: "4.1"
    """
    nodes = cluster.data_brokers
    if minor_key(cluster.table.version) >= (4, 3):
        deciding = tuple(b for b in cluster.brokers if "controller" in b.roles)
        set_on_brokers = tuple(b for b in nodes if b.config.declared(DEFAULT_RF))
        nodes = deciding or set_on_brokers
        if not nodes:
            raise InputMissing("configuration of controllers")
    if not nodes:
        raise InputMissing("broker configuration")
    seen: set[object] = set()
    for node in nodes:
        value = node.config.given().value(DEFAULT_RF)
        if to_int(value.text) != 1 or value.place in seen or cluster.broker_number < 2:
            continue
        seen.add(value.place)
        wanted = str(min(limits.target_replication_factor, cluster.broker_number))
        unset = " (Kafka's default)" if value.source is ValueSource.DEFAULT else ""
        yield set_to(
            DEFAULT_RF,
            wanted,
            f"{DEFAULT_RF} is 1{unset} on {count_of(cluster.broker_number, 'broker')}: "
            "topics that name no replication factor get one replica",
            observed=value.text,
            about=node,
        )


@broker_rule("KKD109", ERROR, CORE, Needs.FILE, Needs.LIVE, fix=Fix.UNSAFE)
def broker_level_min_isr_with_elr(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A broker has a `min.insync.replicas` of its own in a cluster that keeps eligible leader replicas.

    Why: with the feature `eligible.leader.replicas.version` 1 (on by default in clusters made with 4.1 or later)
    Kafka deletes such settings when the feature is turned on, refuses new ones, and uses only the cluster's value.
    Source: Kafka documentation, "Eligible Leader Replicas"; KIP-966.

    Bad:
        version: "4.1"
        defaults: {min.insync.replicas: "2"}
        brokers: [{id: 1, dynamic: {min.insync.replicas: "1"}}]
        observed: {features: {eligible.leader.replicas.version: 1}}

    Good:
        version: "4.1"
        defaults: {min.insync.replicas: "2"}
        brokers: [{id: 1, config: {node.id: "1"}}]
        observed: {features: {eligible.leader.replicas.version: 1}}
    """
    own = broker.config.dynamic.get(MIN_ISR)
    if own is None or not has_eligible_leader_replicas(cluster):
        return
    shared = broker.config.dynamic_default.get(MIN_ISR)
    yield Violation(
        message=f"the broker's own {MIN_ISR} {own.text} is deleted, and refused from then on, "
        "with eligible leader replicas: set it for the cluster",
        key=MIN_ISR,
        expected="set as cluster-wide default" if shared is None else f"{shared.text} of the cluster",
        edits=(Edit(MIN_ISR),) if shared is not None else (),
        refused=True,
    )


@cluster_rule("KKD110", ERROR, CORE, Needs.LIVE, fix=Fix.UNSAFE)
def min_isr_differs_between_brokers(cluster: LintCluster, limits: Limits) -> Violations:
    """Brokers differ in `min.insync.replicas`, and topics inherit it.

    Why: the value of the partition's leader counts, so whether a write is accepted depends on who leads at that
    moment, and a change of leader changes it.
    Source: Kafka, `Partition.effectiveMinIsr`.

    Bad:
        brokers:
          - {id: 1, config: {min.insync.replicas: "2"}}
          - {id: 2, config: {min.insync.replicas: "1"}}

    Good:
        brokers:
          - {id: 1, config: {min.insync.replicas: "2"}}
          - {id: 2, config: {min.insync.replicas: "2"}}
    """
    known_brokers = [b for b in cluster.data_brokers if b.config.is_known]
    values: dict[int, list[LintBroker]] = {}
    for broker in known_brokers:
        values.setdefault(broker.config.number(MIN_ISR) or 1, []).append(broker)
    inherits = not cluster.topics or any(MIN_ISR not in t.config.overrides for t in cluster.topics)
    if len(values) > 1 and inherits:
        best = max(values)
        told = ", ".join(f"{value} on {count_of(len(of), 'broker')}" for value, of in sorted(values.items()))
        for broker in (b for value, of in sorted(values.items()) for b in of if value != best):
            yield set_to(
                MIN_ISR, str(best), f"{MIN_ISR} is {told}: which writes are accepted depends on who leads", about=broker
            )
    if not known_brokers:
        raise InputMissing("broker configuration")


@broker_rule("KKD118", WARNING, STRICT, fix=Fix.UNSAFE)
def tight_isr_lag(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """`replica.lag.time.max.ms` is below 10 seconds.

    Why: a pause of the garbage collector or of a disk then takes replicas out of the ISR and back: each change is
    a write to the metadata log, and writes with acks=all wait or fail meanwhile. Kafka's default was 10 s before 2.5
    and is 30 s since.
    Source: Kafka documentation, `replica.lag.time.max.ms`; KIP-537.

    Bad:
        brokers: [{id: 1, config: {replica.lag.time.max.ms: "5000"}}]

    Good:
        brokers: [{id: 1, config: {replica.lag.time.max.ms: "10000"}}]
    """
    if not broker.is_broker:
        return
    key = "replica.lag.time.max.ms"
    lag = broker.config.given().number(key)
    if lag is not None and lag < SHORT_ISR_LAG_MS:
        yield set_to(
            key,
            "30000",
            f"a replica that is {lag / 1000:g} s behind leaves the ISR: short pauses make it shrink and expand",
        )


@broker_rule("KKD119", WARNING, CORE, fix=Fix.UNSAFE)
def controlled_shutdown_off(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A broker stops without handing over the partitions that it leads.

    Why: without a controlled shutdown its partitions have no leader until the controller notices, for up to
    `broker.session.timeout.ms` (9 s), at every restart; and its logs are recovered at the next start.
    Source: Kafka documentation, "Graceful shutdown".

    Bad:
        brokers: [{id: 1, config: {controlled.shutdown.enable: "false"}}]

    Good:
        brokers: [{id: 1, config: {controlled.shutdown.enable: "true"}}]
    """
    key = "controlled.shutdown.enable"
    if broker.is_broker and not broker.config.given().is_true(key):
        yield set_to(
            key,
            "true",
            "the broker does not hand over its partitions when it stops: they have no leader until its session ends",
        )


@cluster_rule("KKD120", WARNING, STRICT, fix=Fix.UNSAFE)
def forced_fsync(cluster: LintCluster, limits: Limits) -> Violations:
    """Logs are flushed to disk by count or time.

    Why: each flush is an fsync that appends wait for; replication is what makes records durable, and the operating
    system writes pages in the background. Topics of Kafka Streams (`-changelog`, `-repartition`) are left out.
    Source: Kafka documentation, "Application vs. OS Flush Management".

    Bad:
        topics:
          - {name: orders, config: {flush.messages: "1"}}

    Good:
        topics:
          - {name: orders, config: {retention.ms: "86400000"}}
    """
    for topic_key, broker_keys in FLUSH_KEYS:
        for holder, key, declared in set_values(cluster, topic_key, broker_keys):
            value = to_int(declared.text)
            if value is None or value >= UNLIMITED:
                continue
            if isinstance(holder, LintTopic) and holder.name.endswith(("-changelog", "-repartition")):
                continue
            every = f"{value} ms" if key.endswith("ms") else count_of(value, "record")
            yield Violation(
                message=f"logs are flushed to disk every {every}, which appends wait for",
                key=key,
                expected="not set",
                edits=(Edit(key),),
                about=holder,
            )


@broker_rule("KKD121", WARNING, CORE, fix=Fix.UNSAFE)
def auto_create_topics(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A production broker creates any topic that a client names.

    Why: a typo makes a topic with the default partitions and replicas, producers write to it without an error, and
    a deleted topic comes back with the next metadata request. `true` is Kafka's default.
    Source: Kafka documentation, `auto.create.topics.enable`; Confluent policy `deny_auto_create_topics`.

    Bad:
        brokers: [{id: 1, config: {auto.create.topics.enable: "true"}}]

    Good:
        brokers: [{id: 1, config: {auto.create.topics.enable: "false"}}]
    """
    key = "auto.create.topics.enable"
    if cluster.is_prod and broker.is_broker and broker.config.given().is_true(key):
        unset = "" if broker.config.declared(key) else " (Kafka's default)"
        yield set_to(key, "false", f"any name that a client mistypes becomes a topic{unset}")


RF_KEYS = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)
ISR_KEYS = (
    ("transaction.state.log.min.isr", "transaction.state.log.replication.factor"),
    ("share.coordinator.state.topic.min.isr", "share.coordinator.state.topic.replication.factor"),
    (
        "rlmm.config.remote.log.metadata.topic.min.isr",
        "rlmm.config.remote.log.metadata.topic.replication.factor",
    ),
)


@cluster_rule("KKD114", ERROR, CORE, Needs.FILE, Needs.LIVE, fix=Fix.UNSAFE)
def internal_topic_rf(cluster: LintCluster, limits: Limits) -> Violations:
    """Kafka's own topics have, or will get, fewer than three replicas.

    Why: the loss of the broker with a partition of `__consumer_offsets` stops all groups on it, one of
    `__transaction_state` all its transactions, and their state is lost with the disk. Clusters of one or two brokers
    can have as many replicas as brokers.
    Source: Kafka documentation, `offsets.topic.replication.factor` and its likes.

    Bad:
        config: {offsets.topic.replication.factor: "1"}
        brokers: [{id: 1}, {id: 2}, {id: 3}]

    Good:
        config: {offsets.topic.replication.factor: "3"}
        brokers: [{id: 1}, {id: 2}, {id: 3}]
    """
    seen: set[object] = set()
    for broker in cluster.data_brokers:
        for key in RF_KEYS:
            value = broker.config.value(key)
            number = to_int(value.text)
            if number is None or number >= 3 or (key, value.place or broker.id) in seen:
                continue
            seen.add((key, value.place or broker.id))
            wanted = min(3, cluster.broker_number)
            if number < wanted:
                yield set_to(
                    key,
                    str(wanted),
                    f"{key} is {number} on {count_of(cluster.broker_number, 'broker')}: "
                    "the loss of one broker stops groups or transactions",
                    observed=value.text,
                    about=broker,
                )
    for topic in cluster.topics:
        if topic.name in INTERNAL_TOPICS and topic.replication_factor is not None:
            replicas = replicas_of(topic)
            if replicas < 3 and replicas < (wanted := min(3, cluster.broker_number)):
                yield Violation(
                    message=f"{topic.name} has {count_of(replicas, 'replica')}: "
                    "the loss of one broker stops groups or transactions",
                    expected=f"{wanted} replicas",
                    hint=set_replication(topic, wanted),
                    about=topic,
                )


@broker_rule("KKD124", ERROR, CORE, fix=Fix.UNSAFE)
def min_isr_above_replicas(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A topic that the broker makes needs more replicas in sync than it has.

    Why: such a topic can never have so many replicas in sync. Kafka 3.7 and later count only the replicas that there
    are, so the setting promises a protection that is not there, which is a warning; earlier versions refuse every write
    with acks=all, and with `transaction.state.log.min.isr` above its replication factor no transaction works. That is
    an error, as it is if the version is not known.
    Source: Kafka documentation, `min.insync.replicas`, `transaction.state.log.min.isr`; KIP-966, KAFKA-15583.

    Bad:
        brokers: [{id: 1, config: {min.insync.replicas: "3", default.replication.factor: "2"}}]

    Good:
        brokers: [{id: 1, config: {min.insync.replicas: "2", default.replication.factor: "3"}}]
    """
    if not broker.is_broker:
        return
    config = broker.config.given()
    for isr_key, rf_key in ((MIN_ISR, DEFAULT_RF), *ISR_KEYS):
        # Who sets neither relies on topics that are made with a factor of their own.
        if not config.declared(isr_key) or (rf_key == DEFAULT_RF and not config.declared(rf_key)):
            continue
        minimum, replicas = config.number(isr_key), config.number(rf_key) or 3
        if minimum is not None and 0 < replicas < minimum:
            severity, words = above_replicas(cluster.known_version)
            message = f"{isr_key} is {minimum}, {rf_key} {replicas}: {words}"
            yield set_to(isr_key, str(max(replicas - 1, 1)), message, observed=str(minimum), severity=severity)


@cluster_rule("KKD125", ERROR, CORE, fix=Fix.UNSAFE)
def internal_topic_beyond_brokers(cluster: LintCluster, limits: Limits) -> Violations:
    """Kafka's own topics are to have more replicas than there are brokers.

    Why: they are never made: without `__consumer_offsets` no consumer group works, without `__transaction_state` no
    transaction. What is not set is left alone: Kafka's default is 3, and a single broker may be the first of three.
    Source: Kafka, `AutoTopicCreationManager`; Kafka documentation, `offsets.topic.replication.factor`.

    Bad:
        config: {offsets.topic.replication.factor: "3"}
        broker_count: 1

    Good:
        config: {offsets.topic.replication.factor: "1"}
        broker_count: 1
    """
    number = cluster.known_broker_number
    broker = next((b for b in cluster.data_brokers if b.config.is_known), None)
    if number is None or broker is None:
        return
    for key in RF_KEYS[:2]:
        value = broker.config.declared(key)
        replicas = to_int(value.text) if value is not None else None
        if value is not None and replicas is not None and replicas > number:
            yield set_to(
                key,
                str(number),
                f"{key} is {replicas}, but there {'is' if number == 1 else 'are'} {count_of(number, 'broker')}: "
                f"{'no group' if key.startswith('offsets') else 'no transaction'} works",
                observed=value.text,
                about=broker,
            )


@broker_rule("KKD115", ERROR, STRICT, fix=Fix.UNSAFE)
def internal_topic_min_isr(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """An internal topic needs all its replicas in sync.

    Why: with `transaction.state.log.min.isr` equal to its replication factor the restart of one broker stops all
    transactions whose coordinator has a replica there; the same for the states of share groups and for the metadata
    of tiered storage (from 4.3 on, default 2).
    Source: Kafka documentation, `transaction.state.log.min.isr`, `share.coordinator.state.topic.min.isr`.

    Bad:
        brokers: [{id: 1, config: {transaction.state.log.min.isr: "3", transaction.state.log.replication.factor: "3"}}]

    Good:
        brokers: [{id: 1, config: {transaction.state.log.min.isr: "2", transaction.state.log.replication.factor: "3"}}]
    """
    if not broker.is_broker:
        return
    config = broker.config.given()
    for isr_key, rf_key in ISR_KEYS:
        minimum, replicas = config.number(isr_key), config.number(rf_key)
        if minimum is None and rf_key.startswith("rlmm.") and config.declared(rf_key):
            minimum = 2 if minor_key(config.table.version) >= (4, 3) else None
        if replicas is None and config.declared(isr_key):
            replicas = 3
        # One replica with a minimum of one is what a single broker has; KKD114 is about it where there are more.
        if minimum is None or replicas is None or minimum < replicas or replicas == 1 == minimum:
            continue
        if minimum > replicas and config.declared(isr_key):  # KKD124
            continue
        yield set_to(
            isr_key,
            str(max(replicas - 1, 1)),
            f"{isr_key} is {minimum} of {count_of(replicas, 'replica')}: the restart of one broker stops it",
            observed=str(minimum),
        )
