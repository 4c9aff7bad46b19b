"""D: rules of the present state of replicas."""

from collections.abc import Sequence

from kafkakit.core.findings import shown
from kafkakit.core.quantities import agreeing, counted
from kafkakit.rules.replication import set_replication
from kafkakit.rules.rule import CORE, ERROR, STRICT, Limits, Needs, topic_rule
from kafkakit.rules.subjects import LintCluster, LintTopic, PartitionFacts, known
from kafkakit.rules.violation import Violation, Violations

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
    partitions = known(topic.partition_facts, "the live cluster's partitions")
    leaderless: list[PartitionFacts] = []
    short: list[PartitionFacts] = []
    behind: list[PartitionFacts] = []
    minimum = topic.config.number("min.insync.replicas") or 1
    for partition in partitions:
        in_sync = known(partition.isr, "replicas in sync")
        if partition.leader == NO_LEADER:
            leaderless.append(partition)
        if len(in_sync) < minimum:
            short.append(partition)
        elif len(in_sync) < len(partition.replicas):
            behind.append(partition)
    if leaderless:
        yield Violation(message=_told(leaderless, "have no leader"), subject="no leader")
    if short:
        yield Violation(
            message=f"{_told(short, 'have')} fewer replicas in sync than min.insync.replicas {minimum}: "
            "writes with acks=all fail",
            subject="under min ISR",
        )
    if behind:
        yield Violation(message=_told(behind, "have replicas out of sync"), subject="under-replicated")


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
    for partition in known(topic.partition_facts, "the live cluster's partitions"):
        numbers.setdefault(len(partition.replicas), []).append(partition)
    if len(numbers) > 1:
        told = "; ".join(
            f"{counted(n, 'replica')}: {counted(len(of), 'partition')} ({shown([p.partition for p in of])})"
            for n, of in sorted(numbers.items())
        )
        yield Violation(
            message=f"partitions differ in their number of replicas: {told}",
            expected=f"{max(numbers)} replicas",
            hint=set_replication(topic, max(numbers)),
        )


def _told(partitions: Sequence[PartitionFacts], what: str) -> str:
    number = len(partitions)
    return f"{counted(number, 'partition')} ({shown([p.partition for p in partitions])}) {agreeing(number, what)}"
