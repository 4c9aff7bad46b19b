"""D: rules of durability and availability."""

from kafkakit.rules.rule import CORE, ERROR, Edit, Fix, Limits, Violation, Violations, topic_rule
from kafkakit.rules.subjects import LintCluster, LintTopic, known


@topic_rule("KKD101", ERROR, CORE, fix=Fix.UNSAFE)
def min_isr_above_rf(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """`min.insync.replicas` is above the number of replicas.

    Why: every write with acks=all fails with NotEnoughReplicas: the topic can never have so many replicas in sync.
    Source: Kafka documentation, `min.insync.replicas`.

    Bad:
        topics:
          - {name: orders, partitions: 6, replication_factor: 2, config: {min.insync.replicas: "3"}}

    Good:
        topics:
          - {name: orders, partitions: 6, replication_factor: 3, config: {min.insync.replicas: "2"}}
    """
    del cluster, limits
    replicas = known(topic.replication_factor, "the replication factor")
    minimum = topic.config.sure_number("min.insync.replicas")
    if minimum is not None and minimum > replicas:
        yield Violation(
            message=f"min.insync.replicas is {minimum}, but the topic has {replicas} replicas: "
            "writes with acks=all always fail",
            key="min.insync.replicas",
            expected=str(max(replicas - 1, 1)),
            edits=(Edit("min.insync.replicas", str(max(replicas - 1, 1))),),
        )
