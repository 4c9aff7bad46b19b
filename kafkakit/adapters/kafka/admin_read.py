"""Kafka's answers to reading requests as kafkakit's values, and a `ClusterSnapshot` made of them; sends nothing."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from kafkakit.adapters.kafka.session import (
    CLUSTER_DENIED,
    TOPIC_DENIED,
    UNKNOWN_TOPIC,
    error_from,
    error_of,
    refused_error,
)
from kafkakit.core.cluster_facts import (
    CLUSTER_DEFAULT,
    BrokerLogDirs,
    ClusterInfo,
    ConfigLayer,
    LayeredValue,
    LiveReplica,
    MetadataVersion,
    PartitionHealth,
    PartitionState,
    Quorum,
    ResourceKind,
    TopicCount,
    Voter,
)
from kafkakit.core.documents import decode_partition_map
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.model import (
    Broker,
    BrokerState,
    ClusterSnapshot,
    LogDir,
    Partition,
    Reassignment,
    Topic,
    TopicPartition,
)

UNKNOWN_FAULT = -1
NOT_TOLD = -(2**31)
NO_TOPIC_ID = "00000000-0000-0000-0000-000000000000"
METADATA_VERSION = "metadata.version"
OWN_SOURCE = {ResourceKind.TOPIC: 1, ResourceKind.BROKER: 2}
LAYERS = {2: ConfigLayer.DYNAMIC_BROKER, 3: ConfigLayer.DYNAMIC_DEFAULT, 4: ConfigLayer.STATIC}
"""`config_source` of a value set on the topic or broker itself (Kafka's DescribeConfigsResponse)."""
DEFAULT_OF_CLUSTER = 3
DYNAMIC_SOURCES = (2, DEFAULT_OF_CLUSTER)
DEFAULT_SOURCE = 5

OPERATIONS = {
    3: "read",
    4: "write",
    5: "create",
    6: "delete",
    7: "alter",
    8: "describe",
    9: "cluster_action",
    10: "describe_configs",
    11: "alter_configs",
    12: "idempotent_write",
    13: "create_tokens",
    14: "describe_tokens",
}
"""Bits of `authorized_operations` (Kafka's AclOperation codes)."""


def cluster_info(response: Any, version: str | None) -> ClusterInfo:
    """DescribeCluster: Kafka 3.9 lists live brokers only, 4.x fenced ones too."""
    brokers = [
        Broker(
            id=b.broker_id,
            rack=b.rack,
            host=b.host,
            port=b.port,
            state=BrokerState.FENCED if getattr(b, "is_fenced", False) else BrokerState.ALIVE,
        )
        for b in response.brokers
    ]
    return ClusterInfo(
        cluster_id=response.cluster_id,
        brokers=tuple(sorted(brokers, key=lambda b: b.id)),
        controller_id=response.controller_id if response.controller_id >= 0 else None,
        kafka_version=version,
        operations=operations_of(response.authorized_operations),
    )


def old_cluster_info(metadata: Any, version: str | None) -> ClusterInfo:
    """Metadata, for Kafka before 2.8: live brokers, and nothing of the caller's rights."""
    brokers = [Broker(id=b.node_id, rack=b.rack, host=b.host, port=b.port) for b in metadata.brokers]
    return ClusterInfo(
        cluster_id=metadata.cluster_id,
        brokers=tuple(sorted(brokers, key=lambda b: b.id)),
        controller_id=metadata.controller_id if metadata.controller_id >= 0 else None,
        kafka_version=version,
    )


def metadata_version(answer: Any) -> MetadataVersion | None:
    """What an answer about versions says of `metadata.version`; None for an exception, and where it is not in use."""
    if isinstance(answer, Exception):
        return None
    in_force = {f.name: f.max_version_level for f in answer.finalized_features or ()}
    newest = {f.name: f.max_version for f in answer.supported_features or ()}
    if METADATA_VERSION not in in_force or METADATA_VERSION not in newest:
        return None
    return MetadataVersion(in_force=in_force[METADATA_VERSION], newest=newest[METADATA_VERSION])


def operations_of(bits: Any) -> frozenset[str] | None:
    """Names of the rights in a bit field (a number or a collection of bits); None when the broker did not say."""
    if bits is None or bits == NOT_TOLD:
        return None
    codes = {code for code in OPERATIONS if bits >> code & 1} if isinstance(bits, int) else {int(b) for b in bits}
    return frozenset(OPERATIONS[code] for code in codes if code in OPERATIONS)


def states_of(topics: Iterable[Any]) -> dict[TopicPartition, PartitionState]:
    """Metadata's topics, sorted; absent: topics unknown to the broker. A hidden topic is refused, not left out."""
    found: dict[TopicPartition, PartitionState] = {}
    for topic in topics:
        if topic.error_code == TOPIC_DENIED:
            raise refused_error(f"describe topic {topic.name}", "DESCRIBE on the topic")
        if topic.error_code == UNKNOWN_TOPIC:
            continue
        topic_id = topic_id_of(topic)
        for p in topic.partitions:
            found[TopicPartition(topic.name, p.partition_index)] = PartitionState(
                replicas=tuple(p.replica_nodes),
                isr=tuple(p.isr_nodes),
                leader=p.leader_id if p.leader_id >= 0 else None,
                topic_id=topic_id,
            )
    return dict(sorted(found.items()))


def listed_topics(response: Any) -> frozenset[str]:
    """The topics of ListConfigResources; none where the caller may not list them."""
    return frozenset(str(resource.resource_name) for resource in response.config_resources)


def topic_operations_of(topics: Iterable[Any]) -> dict[str, frozenset[str] | None]:
    """The caller's rights on each of Metadata's topics; none on one that is hidden from it."""
    return {
        t.name: frozenset() if t.error_code == TOPIC_DENIED else operations_of(t.authorized_operations) for t in topics
    }


def topic_id_of(topic: Any) -> str | None:
    """The topic's id in text form, None on brokers that have none."""
    topic_id = getattr(topic, "topic_id", None)
    return None if topic_id is None or str(topic_id) == NO_TOPIC_ID else str(topic_id)


def log_dirs_of(broker: int, answer: Any) -> BrokerLogDirs:
    """DescribeLogDirs of one broker, or the exception that came instead.

    Missing rights raise: Kafka before 3.0 shows them as an empty list. An offline dir (error 56) has
    sizes of -1, which become None. Of a replica that moves between dirs the current copy is kept.
    """
    if isinstance(answer, Exception):
        error = error_from(answer)
        reported = error.message if error.message.startswith("no answer") else f"no answer ({error})"
        return BrokerLogDirs(broker=broker, error=reported)
    code = getattr(answer, "error_code", 0) or 0
    if code == CLUSTER_DENIED or (code == 0 and not answer.results):
        raise refused_error("describe log dirs", "DESCRIBE on the cluster")
    if code:
        return BrokerLogDirs(broker=broker, error=str(error_of(code)))
    dirs = []
    replicas: dict[TopicPartition, LiveReplica] = {}
    futures: dict[TopicPartition, LiveReplica] = {}
    for result in answer.results:
        problem = error_of(result.error_code)
        dirs.append(
            LogDir(
                path=result.log_dir,
                total_bytes=_known_size(getattr(result, "total_bytes", None)),
                usable_bytes=_known_size(getattr(result, "usable_bytes", None)),
                cordoned=bool(getattr(result, "is_cordoned", False)),
                error=str(problem) if problem else None,
            )
        )
        for topic in result.topics:
            name = topic.name
            for p in topic.partitions:
                key = TopicPartition(name, p.partition_index)
                copy = LiveReplica(
                    size_bytes=p.partition_size,
                    log_dir=result.log_dir,
                    offset_lag=p.offset_lag,
                    is_future=p.is_future_key,
                )
                if p.is_future_key:
                    futures[key] = copy
                    replicas.setdefault(key, copy)
                else:
                    replicas[key] = copy
    return BrokerLogDirs(
        broker=broker, log_dirs=tuple(sorted(dirs, key=lambda d: d.path)), replicas=replicas, futures=futures
    )


def reassignments_of(response: Any) -> tuple[Reassignment, ...]:
    """ListPartitionReassignments, sorted."""
    if response.error_code:
        if response.error_code == CLUSTER_DENIED:
            raise refused_error("list reassignments", "DESCRIBE on the cluster")
        raise OperationFailedError(f"list reassignments: {error_of(response.error_code, response.error_message)}")
    found = [
        Reassignment(
            topic=topic.name,
            partition=p.partition_index,
            replicas=tuple(p.replicas),
            adding=tuple(p.adding_replicas),
            removing=tuple(p.removing_replicas),
        )
        for topic in response.topics
        for p in topic.partitions
    ]
    return tuple(sorted(found, key=lambda r: (r.topic, r.partition)))


def old_reassignments(
    data: bytes, states_of_topics: Callable[[Collection[str]], Mapping[TopicPartition, PartitionState]]
) -> tuple[Reassignment, ...]:
    """The moves in the znode of Kafka before 2.4, sorted; `InputError` for what is none, and none for no data.

    The controller puts the new brokers into the live list at once, so those are being added that are not in sync yet,
    as kafka-kit counts them.
    """
    if not data:
        return ()
    wanted = decode_partition_map(data, "znode admin/reassign_partitions").partitions
    states = states_of_topics({one.topic for one in wanted})
    found = []
    for one in wanted:
        if (state := states.get(TopicPartition(one.topic, one.partition))) is not None:
            leaving = tuple(b for b in state.replicas if b not in one.replicas)
            adding = tuple(b for b in one.replicas if b >= 0 and b not in state.isr)
            found.append(
                Reassignment(
                    topic=one.topic,
                    partition=one.partition,
                    replicas=(*one.replicas, *leaving),
                    adding=adding,
                    removing=leaving,
                )
            )
    return tuple(sorted(found, key=lambda r: (r.topic, r.partition)))


def configs_of(kind: ResourceKind, results: Iterable[Any]) -> dict[str, dict[str, str]]:
    """DescribeConfigs results: values set on the resource itself; absent: resources that do not exist.

    Values that Kafka hides (sensitive) are left out.
    """
    own = OWN_SOURCE[kind]
    found: dict[str, dict[str, str]] = {}
    for result in existing(kind, results):
        is_default = kind is ResourceKind.BROKER and result.resource_name == CLUSTER_DEFAULT
        source = DEFAULT_OF_CLUSTER if is_default else own
        values = {c.name: c.value for c in result.configs if c.config_source == source and c.value is not None}
        found[result.resource_name] = dict(sorted(values.items()))
    return found


def existing(kind: ResourceKind, results: Iterable[Any]) -> Iterator[Any]:
    """The DescribeConfigs results of resources that exist. Missing rights raise instead of looking empty."""
    for result in results:
        if result.error_code in (TOPIC_DENIED, CLUSTER_DENIED):
            on = f"topic {result.resource_name}" if kind is ResourceKind.TOPIC else "the cluster"
            raise refused_error(f"read the configuration of {kind} {result.resource_name}", f"DESCRIBE_CONFIGS on {on}")
        if result.error_code == UNKNOWN_TOPIC:
            continue
        if result.error_code:
            error = error_of(result.error_code, result.error_message)
            raise OperationFailedError(f"read the configuration of {kind} {result.resource_name}: {error}")
        yield result


def layers_of(results: Iterable[Any], *, defaults: bool = False) -> dict[str, LayeredValue]:
    """One broker's DescribeConfigs results, `defaults` where wanted, sorted by key. Missing rights raise."""
    layers = {**LAYERS, DEFAULT_SOURCE: ConfigLayer.DEFAULT} if defaults else LAYERS
    found: dict[str, LayeredValue] = {}
    for result in results:
        if result.error_code == CLUSTER_DENIED:
            name = f"broker {result.resource_name}"
            raise refused_error(f"read the configuration of {name}", "DESCRIBE_CONFIGS on the cluster")
        if result.error_code == 0:
            shown = [c for c in result.configs if c.config_source in layers]
            found |= {
                c.name: LayeredValue(
                    c.value,
                    layers[c.config_source],
                    # Kafka before 4.0 calls the replication rates read-only although they were set while it ran.
                    is_read_only=bool(c.read_only) and c.config_source not in DYNAMIC_SOURCES,
                    is_sensitive=bool(c.is_sensitive),
                )
                for c in shown
            }
    return dict(sorted(found.items()))


def _known_size(size: int | None) -> int | None:
    return None if size is None or size < 0 else size


def quorum_request() -> Any:
    """DescribeQuorum of the one partition that KRaft has."""
    from kafka.protocol.admin import DescribeQuorumRequest as Request

    partition = Request.TopicData.PartitionData(partition_index=0)
    return Request(topics=[Request.TopicData(topic_name="__cluster_metadata", partitions=[partition])])


def quorum_of(response: Any) -> Quorum | None:
    """DescribeQuorum: None where the broker has no quorum to tell of. Times are there from Kafka 3.3 on.

    A voter's time is compared with that of the leader, which brokers give by the leader's clock.
    """
    if response.error_code == CLUSTER_DENIED:
        raise refused_error("describe the quorum", "DESCRIBE on the cluster")
    parts = [] if response.error_code else [p for topic in response.topics for p in topic.partitions]
    if not parts or not parts[0].current_voters:
        return None
    part = parts[0]
    leader = part.leader_id if part.leader_id >= 0 else None
    caught_up = {v.replica_id: getattr(v, "last_caught_up_timestamp", -1) for v in part.current_voters}
    newest = caught_up.get(leader, -1)
    voters = []
    for voter in sorted(part.current_voters, key=lambda v: int(v.replica_id)):
        at, end = caught_up[voter.replica_id], voter.log_end_offset
        voters.append(
            Voter(
                id=voter.replica_id,
                behind_ms=max(0, newest - at) if newest >= 0 and at >= 0 else None,
                behind_records=max(0, part.high_watermark - end) if end >= 0 else None,
            )
        )
    return Quorum(leader=leader, voters=tuple(voters))


def health_of(topics: Iterable[Any]) -> PartitionHealth:
    """Metadata's topics, counted in one pass. Topics that the caller may not see are not among them."""
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    unwell: dict[TopicPartition, PartitionState] = {}
    of_topics: dict[str, TopicCount] = {}
    for topic in topics:
        offline = short = not_preferred = most = 0
        for p in topic.partitions:
            nodes, leader = p.replica_nodes, p.leader_id
            replicas.update(nodes)
            leaders[leader] += 1
            most = max(most, len(nodes))
            not_preferred += leader >= 0 and leader != nodes[0]
            is_short = len(p.isr_nodes) < len(nodes)
            offline += leader < 0
            short += is_short
            if leader < 0 or is_short:
                unwell[TopicPartition(topic.name, p.partition_index)] = PartitionState(
                    replicas=tuple(nodes), isr=tuple(p.isr_nodes), leader=leader if leader >= 0 else None
                )
        of_topics[topic.name] = TopicCount(len(topic.partitions), most, offline, short, not_preferred)
    leaders.pop(-1, None)
    return PartitionHealth(
        topics=len(of_topics),
        partitions=sum(count.partitions for count in of_topics.values()),
        leaders=dict(sorted(leaders.items())),
        replicas=dict(sorted(replicas.items())),
        not_preferred=sum(count.not_preferred for count in of_topics.values()),
        unwell=dict(sorted(unwell.items())),
        of_topics=dict(sorted(of_topics.items())),
    )


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
