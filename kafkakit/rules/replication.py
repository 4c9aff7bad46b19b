"""Replication factors, minimal in-sync replicas, and what a cluster's brokers and racks make of them."""

from collections.abc import Iterator

from kafkakit.rules.config_defs import minor_key
from kafkakit.rules.effective import Declared, Source, to_int
from kafkakit.rules.subjects import LintBroker, LintCluster, LintTopic, known

INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state", "__remote_log_metadata")
LOSS_TOLERANT = "loss_tolerant"
ELR_FEATURE = "eligible.leader.replicas.version"


def replicas_of(topic: LintTopic) -> int:
    """The replication factor; of -1 the default of brokers. `InputMissing` where one of them is needed and unknown."""
    declared = known(topic.replication_factor, "the replication factor")
    if declared != -1:
        return declared
    default = to_int(topic.config.broker.given().text("default.replication.factor"))
    return known(default, "default.replication.factor")


def alive_brokers(cluster: LintCluster) -> int:
    """How many brokers can take a replica; `InputMissing` where no file tells how many there are."""
    return cluster.broker_number - cluster.derive(_dead)


def _dead(cluster: LintCluster) -> int:
    return sum(b.count for b in cluster.data_brokers if not b.is_alive)


def left_without_a_rack(replicas: int, racks: int) -> int:
    """Replicas that are left when the rack with the most of them fails, spread as evenly as can be."""
    return replicas + -replicas // racks


def set_replication(topic: LintTopic, wanted: int) -> str:
    """The command that plans other replicas for a topic."""
    return f"kafkakit topicmappr set-replication {wanted} --topics {topic.name}"


def has_eligible_leader_replicas(cluster: LintCluster) -> bool:
    """True when the cluster keeps eligible leader replicas, or is to be upgraded to a version that does."""
    if cluster.features is not None and cluster.features.get(ELR_FEATURE, 0) >= 1:
        return True
    if cluster.target is not None and minor_key(cluster.target.version) >= (4, 1):
        return True
    if minor_key(cluster.table.version) < (4, 1):
        return False
    known(cluster.features, "features of the cluster")
    return False


def set_values(
    cluster: LintCluster, topic_key: str, broker_keys: tuple[str, ...]
) -> Iterator[tuple[LintTopic | LintBroker, str, Declared]]:
    """Who sets a topic's key: brokers (one for each place where it is written) and topics that override it."""
    seen: set[object] = set()
    for broker in cluster.data_brokers:
        for key in broker_keys:
            declared = broker.config.declared(key)
            if declared is None:
                continue
            shared = declared.place or (key if declared.source is Source.DYNAMIC_DEFAULT else (broker.id, key))
            if shared not in seen:
                seen.add(shared)
                yield broker, key, declared
    for topic in cluster.topics:
        override = topic.config.overrides.get(topic_key)
        if override is not None:
            yield topic, topic_key, override
