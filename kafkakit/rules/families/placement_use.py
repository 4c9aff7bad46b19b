"""P: rules of how topics are used: idle ones, slow recovery, idle consumers, reads across racks, unknown brokers."""

from kafkakit.core.findings import shown
from kafkakit.core.quantities import counted, format_bytes, format_rate, format_span
from kafkakit.rules.effective import InputMissing, to_int
from kafkakit.rules.rule import (
    CORE,
    ERROR,
    NOTE,
    STRICT,
    WARNING,
    Fix,
    Limits,
    Needs,
    broker_rule,
    cluster_rule,
    topic_rule,
)
from kafkakit.rules.subjects import LintBroker, LintCluster, LintTopic, known
from kafkakit.rules.violation import Violation, Violations, set_to

IDLE_S = 30 * 86_400.0
RACK_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@topic_rule("KKP609", NOTE, STRICT, Needs.LIVE, Needs.METRICS)
def idle_topic(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """Nothing was written to a topic for 30 days, and no active group reads it.

    Why: its partitions still cost files, memory maps, metadata and time at every restart.
    Source: superstream Kafka analyzer.

    Bad:
        topics: [{name: old-orders, observed: {idle_s: 5184000.0}}]
        observed: {groups: []}

    Good:
        topics: [{name: old-orders, observed: {idle_s: 5184000.0}}]
        observed: {groups: [{name: archive, topics: [old-orders], members: 1}]}
    """
    if topic.is_internal:
        return
    idle = known(topic.facts.idle_s, "the last writes of topics")
    if idle < IDLE_S or topic.name in cluster.derive(_topics_read):
        return
    yield Violation(message=f"nothing was written for {format_span(idle)}, and no active group reads the topic")


@topic_rule("KKP610", WARNING, STRICT, Needs.LIVE)
def slow_to_recover_replica(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """The copy of one replica takes longer than a broker's replacement may take.

    Why: a replica is copied by one fetcher from one leader, so the largest replica bounds how soon a replaced broker
    is complete, whatever is moved beside it.
    Source: Kafka, KIP-73.
    Options: recovery_s (7200), recovery_bytes_s (100000000, where the brokers have no throttle set).

    Bad:
        topics:
          - {name: events, observed: {partitions: [{partition: 0, replicas: [1], bytes: {1: 2000000000000}}]}}

    Good:
        topics:
          - {name: events, observed: {partitions: [{partition: 0, replicas: [1], bytes: {1: 20000000000}}]}}
    """
    facts = known(topic.partition_facts, "the live cluster's partitions")
    size = known(max((max(p.replica_bytes.values()) for p in facts if p.replica_bytes), default=None), "replica sizes")
    throttle = topic.config.broker.declared("follower.replication.throttled.rate")
    rate = to_int(throttle.text) if throttle is not None else None
    speed = float(rate) if rate else limits.recovery_bytes_s
    if size / speed > limits.recovery_s:
        partition = next(p.partition for p in facts if size in p.replica_bytes.values())
        yield Violation(
            message=f"partition {partition} holds {format_bytes(size)}: copying it at {format_rate(speed)} takes "
            f"{format_span(size / speed)}, longer than {format_span(limits.recovery_s)}",
            hint="use more partitions, shorter retention or tiered storage",
        )


@cluster_rule("KKP611", NOTE, STRICT, Needs.LIVE)
def idle_consumers(cluster: LintCluster, limits: Limits) -> Violations:
    """A group has more members than its topics have partitions.

    Why: a partition is read by one member of a group, so the others only hold connections and take part in
    rebalances.
    Source: Kafka documentation, "Consumers".

    Bad:
        topics: [{name: orders, partitions: 3}]
        observed: {groups: [{name: billing, topics: [orders], members: 5}]}

    Good:
        topics: [{name: orders, partitions: 6}]
        observed: {groups: [{name: billing, topics: [orders], members: 5}]}
    """
    partitions = {t.name: t.partitions if t.partition_facts is None else len(t.partition_facts) for t in cluster.topics}
    for group in known(cluster.groups, "consumer groups"):
        numbers = [partitions.get(name) for name in group.topics]
        total = sum(number for number in numbers if number is not None)
        if group.members is None or None in numbers or not numbers or group.members <= total:
            continue
        yield Violation(
            message=f"{counted(group.members, 'member')} for {counted(total, 'partition')}: "
            f"{group.members - total} never {'gets' if group.members - total == 1 else 'get'} one",
            where=cluster.within(f"group {group.name}"),
        )


@broker_rule("KKP612", NOTE, STRICT, fix=Fix.UNSAFE)
def replica_selector_unset(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """Brokers in several racks do not let consumers read from the nearest replica.

    Why: without replica.selector.class each consumer reads from the leader: with 3 racks two thirds of the traffic
    of consumers crosses racks, which clouds charge for.
    Source: KIP-392.

    Bad:
        brokers: [{id: 1, rack: a, config: {num.io.threads: "8"}}, {id: 2, rack: b, config: {num.io.threads: "8"}}]

    Good:
        config: {replica.selector.class: org.apache.kafka.common.replica.RackAwareReplicaSelector}
        brokers: [{id: 1, rack: a}, {id: 2, rack: b}]
    """
    key = "replica.selector.class"
    if not broker.is_broker or cluster.rack_number < 2 or broker.config.given().text(key):
        return
    yield set_to(
        key,
        RACK_SELECTOR,
        f"consumers read from leaders only, so of {cluster.rack_number} racks' traffic about "
        f"{1 - 1 / cluster.rack_number:.0%} crosses racks",
    )


def _topics_read(cluster: LintCluster) -> frozenset[str]:
    """The topics that a group with members reads."""
    groups = known(cluster.groups, "consumer groups")
    return frozenset(name for g in groups if g.members is None or g.members > 0 for name in g.topics)


@topic_rule("KKP613", ERROR, CORE, Needs.FILE, Needs.LIVE)
def replica_on_unknown_broker(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A partition is to have a replica on a broker that the cluster does not have.

    Why: Kafka refuses such a reassignment, and topicctl such a placement, often in the middle of a change. Brokers that
    a running cluster has lost are left out.
    Source: Kafka, `ReassignPartitionsCommand`, `ReplicationControlManager.validateManualPartitionAssignment`.

    Bad:
        brokers: [{id: 1}, {id: 2}, {id: 3}]
        topics: [{name: orders, observed: {partitions: [{partition: 0, replicas: [1, 2, 7]}]}}]

    Good:
        brokers: [{id: 1}, {id: 2}, {id: 3}]
        topics: [{name: orders, observed: {partitions: [{partition: 0, replicas: [1, 2, 3]}]}}]
    """
    listed = cluster.derive(_listed_ids)
    for_move = [p for p in known(topic.partition_facts, "partitions") if p.isr is None or not cluster.is_live]
    if not for_move:
        return
    if len(listed) != cluster.broker_number:
        raise InputMissing("ids of brokers")
    wrong = [p for p in for_move if not listed.issuperset(p.replicas)]
    if wrong:
        ids = sorted({broker for p in wrong for broker in p.replicas} - listed)
        yield Violation(
            message=f"{counted(len(wrong), 'partition')} ({shown([p.partition for p in wrong])}) would have "
            f"replicas on brokers that the cluster does not have: {shown(ids)}",
            expected="ids of the cluster's brokers",
        )


def _listed_ids(cluster: LintCluster) -> frozenset[int]:
    return frozenset(broker.id for broker in cluster.data_brokers if broker.id is not None)
