"""A live cluster as pieces for lint: its snapshot, and what was set on brokers and topics, with the layer."""

from collections.abc import Mapping
from datetime import datetime

from kafkakit.core.cluster_facts import ConfigLayer, LayeredValue
from kafkakit.core.model import Broker, ClusterSnapshot, Partition
from kafkakit.lint.decide.pieces import BrokerPiece, ClusterPiece, Pieces, TopicPiece
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.rules.effective import Declared, Source
from kafkakit.rules.secrets import HIDDEN
from kafkakit.rules.subjects import LogDirFacts, PartitionFacts

_SOURCES = {
    ConfigLayer.DYNAMIC_BROKER: Source.DYNAMIC_BROKER,
    ConfigLayer.DYNAMIC_DEFAULT: Source.DYNAMIC_DEFAULT,
    ConfigLayer.STATIC: Source.STATIC,
}


def read_live(admin: ClusterAdmin, name: str | None, now: datetime) -> Pieces:
    """Read a cluster with three kinds of request; 200,000 partitions take some seconds.

    Raises `KafkakitError` when the cluster cannot be reached or a right is missing.
    """
    snapshot = admin.snapshot(now=now)
    alive = [broker.id for broker in snapshot.brokers if broker.is_alive]
    return live_pieces(snapshot, admin.broker_configs(alive), name)


def live_pieces(
    snapshot: ClusterSnapshot, configs: Mapping[int, Mapping[str, LayeredValue]], name: str | None
) -> Pieces:
    """What was read, as pieces of the cluster `name`."""
    defaults = {
        key: _declared(value)
        for values in configs.values()
        for key, value in values.items()
        if value.layer is ConfigLayer.DYNAMIC_DEFAULT
    }
    return Pieces(
        clusters=(
            ClusterPiece(
                place=None,
                name=name,
                version=snapshot.kafka_version,
                dynamic_default=defaults,
                moves_running=bool(snapshot.reassignments),
                is_live=True,
            ),
        ),
        brokers=tuple(_broker(broker, configs.get(broker.id), name) for broker in snapshot.brokers),
        topics=tuple(
            TopicPiece(
                name=topic.name,
                place=None,
                cluster=name,
                configs={key: Declared(value, Source.TOPIC) for key, value in topic.configs.items()},
                partitions=len(topic.partitions),
                replication_factor=max((len(_target(p)) for p in topic.partitions), default=0),
                partition_facts=tuple(_partition(p) for p in topic.partitions),
            )
            for topic in snapshot.topics
        ),
    )


def _broker(broker: Broker, values: Mapping[str, LayeredValue] | None, cluster: str | None) -> BrokerPiece:
    layers: dict[ConfigLayer, dict[str, Declared]] = {layer: {} for layer in ConfigLayer}
    for key, value in (values or {}).items():
        layers[value.layer][key] = _declared(value)
    return BrokerPiece(
        place=None,
        cluster=cluster,
        id=broker.id,
        rack=broker.rack,
        static=layers[ConfigLayer.STATIC],
        dynamic=layers[ConfigLayer.DYNAMIC_BROKER],
        log_dirs=tuple(
            LogDirFacts(path=d.path, total_bytes=d.total_bytes, usable_bytes=d.usable_bytes) for d in broker.log_dirs
        ),
        is_alive=broker.is_alive,
    )


def _declared(value: LayeredValue) -> Declared:
    return Declared(HIDDEN if value.value is None else value.value, _SOURCES[value.layer])


def _partition(partition: Partition) -> PartitionFacts:
    return PartitionFacts(
        partition=partition.partition,
        replicas=_target(partition),
        isr=partition.isr,
        leader=-1 if partition.leader is None else partition.leader,
        replica_bytes=partition.replica_bytes,
    )


def _target(partition: Partition) -> tuple[int, ...]:
    return tuple(b for b in partition.replicas if b not in partition.removing)
