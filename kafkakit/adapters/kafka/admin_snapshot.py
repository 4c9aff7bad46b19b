"""Puts the answers of one look at a cluster together into a `ClusterSnapshot`."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from kafkakit.adapters.kafka.admin_read import topic_id_of
from kafkakit.core.cluster_facts import BrokerLogDirs, ClusterInfo, LiveReplica
from kafkakit.core.model import Broker, BrokerState, ClusterSnapshot, Partition, Reassignment, Topic, TopicPartition

NOT_REGISTERED = "not registered with the cluster"
FENCED = "fenced: registered, but not alive"


def assemble(
    *,
    info: ClusterInfo,
    now: datetime,
    source: str,
    topics: Iterable[Any],
    configs: Mapping[str, Mapping[str, str]],
    reassignments: tuple[Reassignment, ...],
    answers: Mapping[int, BrokerLogDirs] | None,
) -> ClusterSnapshot:
    """Merge metadata's topics, configurations, moves and, unless None, the brokers' log dirs; O(replicas).

    Ids that only replica lists name become brokers in state `missing`. A broker that reported no sizes is
    in `unanswered_brokers` and has no entry in any `replica_bytes`. A move that began or ended between
    the two requests is left out.
    """
    topics = list(topics)
    shown = {TopicPartition(t.name, p.partition_index): set(p.replica_nodes) for t in topics for p in t.partitions}
    moves = {
        key: move
        for move in reassignments
        if shown.get(key := TopicPartition(move.topic, move.partition), set(move.replicas)) == set(move.replicas)
    }
    replicas = {broker: answer.replicas for broker, answer in (answers or {}).items()}
    built = tuple(
        _topic(t, configs.get(t.name, {}), moves, replicas) for t in sorted(topics, key=lambda t: str(t.name))
    )
    brokers = {b.id: b for b in info.brokers}
    named = set[int]().union(*shown.values(), *(move.replicas for move in moves.values()))
    for broker in named - set(brokers):
        brokers[broker] = Broker(id=broker, state=BrokerState.MISSING)
    silent: dict[int, str] = {}
    if answers is not None:
        for broker in sorted(brokers):
            brokers[broker], problem = _with_dirs(brokers[broker], answers.get(broker))
            if problem:
                silent[broker] = problem
    return ClusterSnapshot(
        cluster_id=info.cluster_id,
        taken_at=now,
        source=source,
        brokers=tuple(brokers[b] for b in sorted(brokers)),
        topics=built,
        kafka_version=info.kafka_version,
        reassignments=tuple(moves.values()),
        sizes_taken=answers is not None,
        unanswered_brokers=silent,
    )


def _with_dirs(broker: Broker, answer: BrokerLogDirs | None) -> tuple[Broker, str | None]:
    if answer is None:
        problem = NOT_REGISTERED if broker.state is BrokerState.MISSING else FENCED
    elif answer.error is None:
        return replace(broker, log_dirs=answer.log_dirs), None
    else:
        problem = answer.error
    return replace(broker, log_dirs_error=problem), problem


def _topic(
    topic: Any,
    configs: Mapping[str, str],
    moves: Mapping[TopicPartition, Reassignment],
    replicas: Mapping[int, Mapping[TopicPartition, LiveReplica]],
) -> Topic:
    partitions = []
    for p in sorted(topic.partitions, key=lambda p: int(p.partition_index)):
        key = TopicPartition(topic.name, p.partition_index)
        copies = {b: replicas[b][key] for b in sorted(p.replica_nodes) if b in replicas and key in replicas[b]}
        move = moves.get(key)
        partitions.append(
            Partition(
                partition=key.partition,
                replicas=tuple(p.replica_nodes),
                isr=tuple(p.isr_nodes),
                leader=p.leader_id if p.leader_id >= 0 else None,
                replica_bytes={b: c.size_bytes for b, c in copies.items()},
                replica_dirs={b: c.log_dir for b, c in copies.items()},
                adding=move.adding if move else (),
                removing=move.removing if move else (),
            )
        )
    return Topic(name=topic.name, partitions=tuple(partitions), topic_id=topic_id_of(topic), configs=dict(configs))
