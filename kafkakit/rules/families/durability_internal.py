"""D: rules of the replicas of Kafka's own topics."""

from kafkakit.core.quantities import counted
from kafkakit.rules.config_defs import minor_key
from kafkakit.rules.effective import to_int
from kafkakit.rules.replication import INTERNAL_TOPICS, replicas_of, set_replication
from kafkakit.rules.rule import CORE, ERROR, STRICT, Fix, Limits, Needs, broker_rule, cluster_rule
from kafkakit.rules.subjects import LintBroker, LintCluster
from kafkakit.rules.violation import Violation, Violations, set_to

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
                    f"{key} is {number} on {counted(cluster.broker_number, 'broker')}: "
                    "the loss of one broker stops groups or transactions",
                    observed=value.text,
                    about=broker,
                )
    for topic in cluster.topics:
        if topic.name in INTERNAL_TOPICS and topic.replication_factor is not None:
            replicas = replicas_of(topic)
            if replicas < 3 and replicas < (wanted := min(3, cluster.broker_number)):
                yield Violation(
                    message=f"{topic.name} has {counted(replicas, 'replica')}: "
                    "the loss of one broker stops groups or transactions",
                    expected=f"{wanted} replicas",
                    hint=set_replication(topic, wanted),
                    about=topic,
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
        yield set_to(
            isr_key,
            str(max(replicas - 1, 1)),
            f"{isr_key} is {minimum} of {counted(replicas, 'replica')}: the restart of one broker stops it",
            observed=str(minimum),
        )
