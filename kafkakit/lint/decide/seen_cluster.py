"""What a cluster shows of its brokers and topics, as pieces: from a snapshot's file and from the cluster itself."""

from typing import TYPE_CHECKING

from kafkakit.core.findings import Place
from kafkakit.lint.decide.pieces import BrokerPiece
from kafkakit.rules.subjects import LogDirFacts, PartitionFacts

if TYPE_CHECKING:
    from kafkakit.core.model import Broker, Topic


def seen_broker(broker: "Broker", cluster: str | None, place: Place | None) -> BrokerPiece:
    """A broker without its configuration, which a snapshot does not hold."""
    return BrokerPiece(
        place=place,
        cluster=cluster,
        id=broker.id,
        rack=broker.rack,
        log_dirs=tuple(
            LogDirFacts(path=part.path, total_bytes=part.total_bytes, usable_bytes=part.usable_bytes)
            for part in broker.log_dirs
        ),
        is_alive=broker.is_alive,
        is_known=False,
    )


def seen_replication(topic: "Topic") -> int | None:
    """The least number of replicas of its partitions, without those that leave."""
    return min((len(p.replicas) - len(p.removing) for p in topic.partitions), default=None)


def seen_partitions(topic: "Topic") -> tuple[PartitionFacts, ...]:
    """Its partitions with the replicas that they will have once running moves are done."""
    return tuple(
        PartitionFacts(
            partition=p.partition,
            replicas=tuple(broker for broker in p.replicas if broker not in p.removing),
            isr=p.isr,
            leader=-1 if p.leader is None and p.isr is not None else p.leader,
            replica_bytes=p.replica_bytes
            or (dict.fromkeys(p.replicas, p.size_bytes) if p.size_bytes is not None else {}),
        )
        for p in topic.partitions
    )
