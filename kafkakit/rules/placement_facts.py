"""What a cluster's partitions add up to on each broker, and which replicas share a rack."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from kafkakit.rules.subjects import LintBroker, LintCluster, LintTopic, PartitionFacts, known


def rack_of(broker: LintBroker) -> str:
    """The broker's rack, by its record or its configuration; empty where it has none."""
    return broker.rack or broker.config.text("broker.rack")


def racks_by_id(cluster: LintCluster) -> Mapping[int, str]:
    """The rack of each broker that has an id."""
    return {b.id: rack_of(b) for b in cluster.brokers if b.id is not None}


def rack_count(cluster: LintCluster) -> int:
    """How many racks the listed brokers are in, 0 where none is named."""
    return len({rack for rack in racks_by_id(cluster).values() if rack})


def shares_rack(replicas: Iterable[int], racks: Mapping[int, str]) -> bool:
    """True when two replicas are in one rack; brokers without a rack never conflict (kafka-kit's rule of groups)."""
    named = [racks[b] for b in replicas if racks.get(b)]
    return len(named) > len(set(named))


def has_partitions(cluster: LintCluster) -> bool:
    """True when every topic's partitions are known, and there are topics."""
    return bool(cluster.topics) and all(t.partition_facts is not None for t in cluster.topics)


def declared_replicas(cluster: LintCluster) -> int:
    """The replicas that all topics have by their declarations; `InputMissing` where one does not tell."""
    return sum(
        known(t.partitions, "partitions of topics") * known(t.replication_factor, "replication factors")
        for t in known(cluster.topics or None, "topics")
    )


def all_partitions(cluster: LintCluster) -> Iterator[tuple[LintTopic, PartitionFacts]]:
    """Every partition with its topic; `InputMissing` before the first where a topic's partitions are not known."""
    known(has_partitions(cluster) or None, "the live cluster's partitions")
    for topic in cluster.topics:
        for partition in topic.partition_facts or ():
            yield topic, partition


def replicas_by_broker(cluster: LintCluster) -> Counter[int]:
    """How many replicas each broker holds."""
    return Counter(b for _, p in all_partitions(cluster) for b in p.replicas)


def leaders_by_broker(cluster: LintCluster) -> Counter[int]:
    """How many partitions each broker leads; partitions without a leader are not counted."""
    return Counter(
        leader for _, p in all_partitions(cluster) if (leader := known(p.leader, "the live cluster's leaders")) >= 0
    )


def bytes_by_broker(cluster: LintCluster) -> Counter[int]:
    """The bytes on each broker; `InputMissing` where no partition's size is known."""
    sizes: Counter[int] = Counter()
    seen = False
    for _, partition in all_partitions(cluster):
        seen = seen or bool(partition.replica_bytes)
        sizes.update(partition.replica_bytes)
    known(seen or None, "sizes of replicas")
    return sizes


def with_brokers(counts: Counter[int], cluster: LintCluster) -> list[tuple[LintBroker, int]]:
    """Each broker with its count, 0 included; brokers without an id are left out."""
    return [(b, counts[b.id]) for b in cluster.data_brokers if b.id is not None]
