"""D: rules of durability and availability of topics: replication factors, minimal in-sync replicas, present state."""

from collections.abc import Sequence

from kafkakit.core.findings import MIN_ISR, least_in_sync, min_isr_above_replicas, shorten, stops_above_replicas
from kafkakit.core.quantities import agree, count_of
from kafkakit.rules.cluster_facts import LOSS_TOLERANT, alive_brokers, left_without_a_rack, replicas_of, set_replication
from kafkakit.rules.rule import (
    CORE,
    ERROR,
    STRICT,
    WARNING,
    Fix,
    Limits,
    Needs,
    Violation,
    Violations,
    set_to,
    topic_rule,
)
from kafkakit.rules.subjects import LintCluster, LintTopic, PartitionFacts, require_known


@topic_rule("KKD101", ERROR, CORE, fix=Fix.UNSAFE, of_defaults=("min.insync.replicas", "default.replication.factor"))
def min_isr_above_rf(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """`min.insync.replicas` is above the number of replicas.

    Why: the topic can never have so many replicas in sync. Kafka 3.7 and later count only the replicas that there are,
    so the setting promises a protection that is not there, which is a warning; earlier versions refuse every write with
    acks=all, which is an error, as it is if the version is not known.
    Source: Kafka documentation, `min.insync.replicas`; KIP-966, KAFKA-15583.

    Bad:
        topics:
          - {name: orders, partitions: 6, replication_factor: 2, config: {min.insync.replicas: "3"}}

    Good:
        topics:
          - {name: orders, partitions: 6, replication_factor: 3, config: {min.insync.replicas: "2"}}
    """
    replicas = replicas_of(topic)
    minimum = topic.config.sure_number(MIN_ISR)
    if minimum is not None and minimum > replicas:
        severity, words = min_isr_above_replicas(cluster.known_version)
        message = f"{MIN_ISR} is {minimum}, but the topic has {count_of(replicas, 'replica')}: {words}"
        yield set_to(MIN_ISR, str(max(replicas - 1, 1)), message, severity=severity)


@topic_rule("KKD102", WARNING, CORE, fix=Fix.UNSAFE, of_defaults=("min.insync.replicas", "default.replication.factor"))
def min_isr_equals_rf(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """`min.insync.replicas` equals the number of replicas, so that one stopped broker stops writes.

    Why: with 3 replicas of which 3 must be in sync, the restart of any of the 3 brokers fails all writes with
    acks=all for as long as it takes. One less keeps each acknowledged record on two brokers and lets one be away.
    Source: AWS, "Best practices for Standard brokers" (min ISR at most RF - 1); Strimzi issue 9469.

    Bad:
        topics:
          - {name: orders, partitions: 6, replication_factor: 3, config: {min.insync.replicas: "3"}}

    Good:
        topics:
          - {name: orders, partitions: 6, replication_factor: 3, config: {min.insync.replicas: "2"}}
    """
    replicas = replicas_of(topic)
    if replicas > 1 and topic.config.sure_number(MIN_ISR) == replicas:
        yield set_to(
            MIN_ISR,
            str(replicas - 1),
            f"all {replicas} replicas must be in sync: while one broker restarts, writes with acks=all fail",
        )


@topic_rule("KKD103", WARNING, CORE, fix=Fix.UNSAFE)
def min_isr_one(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A topic with three or more replicas acknowledges writes that only one replica has.

    Why: with `min.insync.replicas` 1 the leader answers acks=all as soon as the ISR has shrunk to itself; if its disk
    then fails, acknowledged records are gone although 3 copies were paid for. Topics with the label `loss_tolerant`
    are left out.
    Source: Kafka documentation, `min.insync.replicas` and `acks`.

    Bad:
        topics:
          - {name: orders, partitions: 6, replication_factor: 3, config: {min.insync.replicas: "1"}}

    Good:
        topics:
          - {name: orders, partitions: 6, replication_factor: 3, config: {min.insync.replicas: "2"}}
          - {name: clicks, replication_factor: 3, labels: [loss_tolerant], config: {min.insync.replicas: "1"}}
    """
    if LOSS_TOLERANT in topic.labels:
        return
    replicas = replicas_of(topic)
    if replicas >= 3 and topic.config.sure_number(MIN_ISR) == 1:
        yield set_to(
            MIN_ISR, "2", f"{MIN_ISR} is 1 of {replicas} replicas: a write may be acknowledged by the leader only"
        )


@topic_rule("KKD104", ERROR, CORE)
def single_replica_topic(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A topic of a production cluster has one replica.

    Why: a failed disk loses its partitions for good, each restart of a broker takes them away for its time, and
    a controlled shutdown can hand over only what has a second replica.
    Source: Kafka documentation, "Graceful shutdown".

    Bad:
        topics:
          - {name: orders, partitions: 6, replication_factor: 1}

    Good:
        topics:
          - {name: orders, partitions: 6, replication_factor: 3}
    """
    if cluster.is_prod and replicas_of(topic) == 1:
        wanted = limits.target_replication_factor
        yield Violation(
            message="the topic has one replica: a failed disk loses its data, a restart makes it unavailable",
            expected=f"{wanted} replicas",
            hint=set_replication(topic, wanted),
        )


@topic_rule("KKD105", WARNING, CORE)
def rf_below_target(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A topic has fewer replicas than the target, or too few for its `min.insync.replicas`.

    Why: the replicas should exceed `min.insync.replicas` by one, so that a broker may be away for maintenance; and 3
    are the fewest with which one may be away while another fails. Of a cluster with fewer brokers no more replicas
    are asked for than it has brokers.
    Source: LinkedIn Cruise Control, `TopicReplicationFactorAnomalyFinder`: max(target, min ISR + margin).
    Options: target_replication_factor (3), min_isr_margin (1).

    Bad:
        topics:
          - {name: orders, partitions: 6, replication_factor: 2, config: {min.insync.replicas: "1"}}

    Good:
        topics:
          - {name: orders, partitions: 6, replication_factor: 3, config: {min.insync.replicas: "2"}}
    """
    replicas = replicas_of(topic)
    most = cluster.known_broker_number or replicas + limits.target_replication_factor
    wanted = min(limits.target_replication_factor, most)
    if replicas >= wanted and replicas < most:
        wanted = min(max(wanted, (topic.config.sure_number(MIN_ISR) or 1) + limits.min_isr_margin), most)
    if replicas < wanted:
        reason = (
            f"the target is {wanted}"
            if wanted <= limits.target_replication_factor
            else f"{MIN_ISR} {wanted - limits.min_isr_margin} needs {wanted}, so that a broker may be away"
        )
        yield Violation(
            message=f"the topic has {count_of(replicas, 'replica')}, {reason}",
            expected=f"{wanted} replicas",
            hint=set_replication(topic, wanted),
        )


@topic_rule("KKD111", ERROR, CORE, Needs.FILE)
def rf_above_brokers(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A topic wants more replicas than there are brokers.

    Why: Kafka refuses to create it (INVALID_REPLICATION_FACTOR): each replica needs a broker of its own.
    Source: Kafka, `StripedReplicaPlacer`.

    Bad:
        broker_count: 2
        topics:
          - {name: orders, partitions: 6, replication_factor: 3}

    Good:
        broker_count: 3
        topics:
          - {name: orders, partitions: 6, replication_factor: 3}
    """
    replicas = replicas_of(topic)
    if replicas > 1 and replicas > (alive := alive_brokers(cluster)):
        yield Violation(
            message=f"the topic wants {replicas} replicas, but {count_of(alive, 'broker')} can hold one each",
            expected=f"at most {alive} replicas",
            refused=True,
        )


@topic_rule("KKD112", WARNING, CORE)
def rf_below_racks(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A topic has fewer replicas than racks that it should cover.

    Why: with 3 zones and 2 replicas the loss of a zone leaves partitions with one copy, and with 1 replica with none.
    Source: AWS, "Best practices for Standard brokers": a replication factor of 3 over 3 zones.
    Options: target_replication_factor (3).

    Bad:
        rack_count: 3
        topics:
          - {name: orders, partitions: 6, replication_factor: 2}

    Good:
        rack_count: 3
        topics:
          - {name: orders, partitions: 6, replication_factor: 3}
    """
    racks = cluster.rack_number
    wanted = min(racks, max(limits.target_replication_factor, 3 if racks >= 3 else 0))
    replicas = replicas_of(topic)
    if replicas < wanted:
        yield Violation(
            message=f"{count_of(replicas, 'replica')} in {racks} racks: losing a rack leaves partitions with "
            f"{'no copy' if replicas == 1 else 'too few copies'}",
            expected=f"{wanted} replicas",
            hint=set_replication(topic, wanted),
        )


@topic_rule("KKD113", WARNING, CORE)
def zone_loss_blocks_writes(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """When a rack fails, fewer replicas are left than `min.insync.replicas` asks for.

    Why: of RF replicas over n racks the fullest rack holds ceil(RF/n); with 3 replicas in 2 racks it holds 2, and
    the one that is left cannot satisfy a min ISR of 2: writes with acks=all fail until the rack is back.
    Source: arithmetic of an even spread; Kafka documentation, `min.insync.replicas`.

    Bad:
        rack_count: 2
        topics:
          - {name: orders, partitions: 6, replication_factor: 3, config: {min.insync.replicas: "2"}}

    Good:
        rack_count: 3
        topics:
          - {name: orders, partitions: 6, replication_factor: 3, config: {min.insync.replicas: "2"}}
    """
    racks = cluster.rack_number
    if racks < 2:
        return
    replicas, minimum = replicas_of(topic), topic.config.sure_number(MIN_ISR) or 1
    left = left_without_a_rack(replicas, racks)
    if left < minimum <= replicas:
        enough = next(n for n in range(replicas, 4 * minimum + replicas) if left_without_a_rack(n, racks) >= minimum)
        yield Violation(
            message=f"{count_of(replicas, 'replica')} in {racks} racks: losing one leaves {left}, "
            f"below {MIN_ISR} {minimum}, and writes with acks=all fail",
            key=MIN_ISR,
            expected=f"{enough} replicas, or another rack",
            hint=set_replication(topic, enough),
        )


NO_LEADER = -1


@topic_rule("KKD122", ERROR, CORE, Needs.LIVE)
def under_replicated_or_under_min_isr(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """Partitions have no leader, fewer replicas in sync than `min.insync.replicas`, or replicas out of sync.

    Why: without a leader nothing can be read or written; below the minimum writes with acks=all fail; with replicas
    out of sync the next failure does one of the two.
    Source: segmentio topicctl, checks "replicas in sync" and "leaders correct".

    Bad:
        topics:
          - name: orders
            observed: {partitions: [{partition: 0, replicas: [1, 2, 3], isr: [1, 2], leader: 1}]}

    Good:
        topics:
          - name: orders
            config: {min.insync.replicas: "2"}
            observed: {partitions: [{partition: 0, replicas: [1, 2, 3], isr: [1, 2, 3], leader: 1}]}
    """
    partitions = require_known(topic.partition_facts, "the live cluster's partitions")
    leaderless: list[PartitionFacts] = []
    short: list[PartitionFacts] = []
    behind: list[PartitionFacts] = []
    minimum = topic.config.number(MIN_ISR) or 1
    stops = stops_above_replicas(cluster.known_version)
    for partition in partitions:
        in_sync = require_known(partition.isr, "replicas in sync")
        if partition.leader == NO_LEADER:
            leaderless.append(partition)
        if len(in_sync) < least_in_sync(minimum, len(partition.replicas), stops=stops):
            short.append(partition)
        elif len(in_sync) < len(partition.replicas):
            behind.append(partition)
    if leaderless:
        yield Violation(message=_partitions_text(leaderless, "have no leader"), subject="no leader")
    if short:
        yield Violation(
            message=f"{_partitions_text(short, 'have')} fewer replicas in sync than min.insync.replicas {minimum}: "
            "writes with acks=all fail",
            subject="under min ISR",
        )
    if behind:
        yield Violation(message=_partitions_text(behind, "have replicas out of sync"), subject="under-replicated")


@topic_rule("KKD123", ERROR, STRICT, Needs.LIVE)
def rf_differs_within_topic(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """Partitions of one topic have different numbers of replicas.

    Why: that is what a reassignment leaves behind that was stopped half-way, and the topic is as weak as its partition
    with the fewest replicas.
    Source: Kafka, `AlterPartitionReassignments`; Cruise Control `TopicReplicationFactorAnomalyFinder`.

    Bad:
        topics:
          - name: orders
            observed: {partitions: [{partition: 0, replicas: [1, 2, 3]}, {partition: 1, replicas: [1, 2]}]}

    Good:
        topics:
          - name: orders
            observed: {partitions: [{partition: 0, replicas: [1, 2, 3]}, {partition: 1, replicas: [2, 3, 1]}]}
    """
    numbers: dict[int, list[PartitionFacts]] = {}
    for partition in require_known(topic.partition_facts, "the live cluster's partitions"):
        numbers.setdefault(len(partition.replicas), []).append(partition)
    if len(numbers) > 1:
        told = "; ".join(
            f"{count_of(n, 'replica')}: {count_of(len(of), 'partition')} ({shorten([p.partition for p in of])})"
            for n, of in sorted(numbers.items())
        )
        yield Violation(
            message=f"partitions differ in their number of replicas: {told}",
            expected=f"{max(numbers)} replicas",
            hint=set_replication(topic, max(numbers)),
        )


def _partitions_text(partitions: Sequence[PartitionFacts], what: str) -> str:
    number = len(partitions)
    return f"{count_of(number, 'partition')} ({shorten([p.partition for p in partitions])}) {agree(number, what)}"
