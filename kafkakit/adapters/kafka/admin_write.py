"""Requests that change a cluster, built from kafkakit's values, and their answers, one per item."""

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from kafkakit.adapters.kafka.errors import error_of
from kafkakit.core.cluster_facts import CLUSTER_DEFAULT, ConfigChange, ConfigOp, ItemError, ResourceKind
from kafkakit.core.errors import OperationFailedError, UsageError
from kafkakit.core.model import TopicPartition, TopicPartitionReplica

MAX_CONFIG_BYTES = 32_767
RESOURCES_PER_REQUEST = 200
RESOURCE_CODE = {ResourceKind.TOPIC: 2, ResourceKind.BROKER: 4}
OPERATION_CODE = {ConfigOp.SET: 0, ConfigOp.DELETE: 1, ConfigOp.APPEND: 2, ConfigOp.SUBTRACT: 3}
NO_MOVE = "NoReassignmentInProgressError"
ALREADY_LEADS = "ElectionNotNeededError"
ALREADY_PLACED = "ReplicaNotAvailableError"
NOT_REGISTERED = "BrokerIdNotRegisteredError"
UNANSWERED = ItemError(name="UnknownError", message="the answer does not mention this item", retriable=True)

ItemResult = ItemError | None
Changes = list[ConfigChange]


def reassign_request(targets: Mapping[TopicPartition, tuple[int, ...] | None], timeout_ms: int) -> Any:
    """AlterPartitionReassignments; None cancels."""
    from kafka.protocol.admin import AlterPartitionReassignmentsRequest as Request

    topics = defaultdict(list)
    for key, replicas in targets.items():
        partition = Request.ReassignableTopic.ReassignablePartition(
            partition_index=key.partition, replicas=None if replicas is None else list(replicas)
        )
        topics[key.topic].append(partition)
    return Request(
        timeout_ms=timeout_ms,
        topics=[Request.ReassignableTopic(name=name, partitions=parts) for name, parts in topics.items()],
    )


def reassign_results(response: Any, keys: Collection[TopicPartition]) -> dict[TopicPartition, ItemResult]:
    """Per partition, in the order requested; a move that was not running is done."""
    if response.error_code:
        raise OperationFailedError(f"move replicas: {error_of(response.error_code, response.error_message)}")
    reported: dict[TopicPartition, ItemResult] = {}
    for topic in response.responses:
        for p in topic.partitions:
            reported[TopicPartition(topic.name, p.partition_index)] = error_of(p.error_code, p.error_message)
    return _in_order(keys, reported, done=NO_MOVE)


def elect_request(keys: Collection[TopicPartition], timeout_ms: int) -> Any:
    """ElectLeaders for preferred leaders."""
    from kafka.protocol.admin import ElectLeadersRequest

    topics = defaultdict(list)
    for key in keys:
        topics[key.topic].append(key.partition)
    return ElectLeadersRequest(election_type=0, topic_partitions=list(topics.items()), timeout_ms=timeout_ms)


def elect_results(response: Any, keys: Collection[TopicPartition]) -> dict[TopicPartition, ItemResult]:
    """Per partition, in the order requested; one that leads already is done."""
    code = getattr(response, "error_code", 0) or 0
    if code:
        raise OperationFailedError(f"elect leaders: {error_of(code)}")
    reported: dict[TopicPartition, ItemResult] = {}
    for topic in response.replica_election_results:
        for p in topic.partition_result:
            reported[TopicPartition(topic.topic, p.partition_id)] = error_of(p.error_code, p.error_message)
    return _in_order(keys, reported, done=ALREADY_LEADS)


def elect_codes(response: Any) -> set[int]:
    """Every error code in an ElectLeaders answer."""
    codes = {p.error_code for t in response.replica_election_results for p in t.partition_result}
    return codes | {getattr(response, "error_code", 0) or 0}


def dir_requests(moves: Mapping[TopicPartitionReplica, str]) -> dict[int, Any]:
    """AlterReplicaLogDirs, one request a broker."""
    from kafka.protocol.admin import AlterReplicaLogDirsRequest as Request

    wanted: dict[int, dict[str, dict[str, list[int]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for key, path in moves.items():
        wanted[key.broker][path][key.topic].append(key.partition)
    directory = Request.AlterReplicaLogDir
    return {
        broker: Request(
            dirs=[
                directory(
                    path=path,
                    topics=[directory.AlterReplicaLogDirTopic(name=t, partitions=ps) for t, ps in topics.items()],
                )
                for path, topics in paths.items()
            ]
        )
        for broker, paths in wanted.items()
    }


def dir_results(broker: int, response: Any) -> Iterator[tuple[TopicPartitionReplica, ItemResult]]:
    """Per copy; ReplicaNotAvailable means that the log dir assignment is stored for the copy to come."""
    for topic in response.results:
        for p in topic.partitions:
            error = error_of(p.error_code)
            stored = error is not None and error.name == ALREADY_PLACED
            yield TopicPartitionReplica(topic.topic_name, p.partition_index, broker), None if stored else error


def config_rounds(changes: Sequence[ConfigChange]) -> list[Changes]:
    """Split changes so that no round names a key of a resource twice (Kafka refuses that); order is kept."""
    rounds: list[Changes] = []
    seen: dict[tuple[ResourceKind, str, str], int] = {}
    for change in dict.fromkeys(changes):
        key = (change.kind, change.name, change.key)
        number = seen.get(key, 0)
        seen[key] = number + 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(change)
    return rounds


def too_long(change: ConfigChange, present: str = "") -> ItemResult:
    """Refuse a value that the broker cannot hold, on its own or appended to the `present` list.

    Sent all the same, it would make the broker close the connection without a word.
    """
    value = change.value or ""
    if present:
        value = ",".join(dict.fromkeys([*present.split(","), *value.split(",")]))
    if len(value.encode()) > MAX_CONFIG_BYTES:
        return ItemError(name="InvalidConfigurationError", message=f"value longer than {MAX_CONFIG_BYTES} bytes")
    return None


def config_batches(changes: Changes) -> Iterator[tuple[int | None, Any, dict[tuple[int, str], Changes]]]:
    """(broker or None for any, request, changes by resource): a broker's changes go to that broker alone."""
    from kafka.protocol.admin import IncrementalAlterConfigsRequest

    by_resource: dict[tuple[int, str], Changes] = defaultdict(list)
    for change in changes:
        by_resource[RESOURCE_CODE[change.kind], change.name].append(change)
    # The cluster's default has no name, and any broker takes it.
    code = RESOURCE_CODE[ResourceKind.BROKER]
    brokers = {key: group for key, group in by_resource.items() if key[0] == code and key[1] != CLUSTER_DEFAULT}
    topics = [(key, group) for key, group in by_resource.items() if key not in brokers]
    batches: list[tuple[int | None, dict[tuple[int, str], Changes]]] = [
        (int(key[1]), {key: group}) for key, group in brokers.items()
    ]
    starts = range(0, len(topics), RESOURCES_PER_REQUEST)
    batches += [(None, dict(topics[start : start + RESOURCES_PER_REQUEST])) for start in starts]
    for broker, groups in batches:
        resources = [
            (*key, [(c.key, OPERATION_CODE[c.op], None if c.op is ConfigOp.DELETE else c.value) for c in group])
            for key, group in groups.items()
        ]
        yield broker, IncrementalAlterConfigsRequest(resources=resources, validate_only=False), groups


def config_results(response: Any, groups: Mapping[tuple[int, str], Changes]) -> dict[ConfigChange, ItemResult]:
    """Per change; a resource is changed as a whole or not at all."""
    reported = {(r.resource_type, r.resource_name): error_of(r.error_code, r.error_message) for r in response.responses}
    return {change: reported.get(key, UNANSWERED) for key, group in groups.items() for change in group}


def create_request(
    name: str, assignments: Mapping[int, tuple[int, ...]], configs: Mapping[str, str], timeout_ms: int
) -> Any:
    """CreateTopics of one topic with given replica lists."""
    from kafka.protocol.admin import CreateTopicsRequest as Request

    topic = Request.CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            Request.CreatableTopic.CreatableReplicaAssignment(partition_index=number, broker_ids=list(replicas))
            for number, replicas in assignments.items()
        ],
        configs=[Request.CreatableTopic.CreatableTopicConfig(name=k, value=v) for k, v in configs.items()],
    )
    return Request(topics=[topic], timeout_ms=timeout_ms, validate_only=False)


def delete_request(name: str, timeout_ms: int) -> Any:
    """DeleteTopics of one topic."""
    from kafka.protocol.admin import DeleteTopicsRequest as Request

    return Request(topics=[Request.DeleteTopicState(name=name)], timeout_ms=timeout_ms)


def delete_by_id_request(topic_id: str, timeout_ms: int) -> Any:
    """DeleteTopics of the topic of an id; `UsageError` for text that is none."""
    from kafka.protocol.admin import DeleteTopicsRequest as Request

    try:
        found = uuid.UUID(topic_id)
    except ValueError:
        raise UsageError(f"{topic_id[:80]!r} is not a topic's id") from None
    return Request(topics=[Request.DeleteTopicState(name=None, topic_id=found)], timeout_ms=timeout_ms, min_version=6)


def quorum_request() -> Any:
    """DescribeQuorum of the one partition that KRaft has."""
    from kafka.protocol.admin import DescribeQuorumRequest as Request

    partition = Request.TopicData.PartitionData(partition_index=0)
    return Request(topics=[Request.TopicData(topic_name="__cluster_metadata", partitions=[partition])])


def voters_of(response: Any) -> frozenset[int] | None:
    """The voters' node ids; None where the broker has no quorum to tell of."""
    if response.error_code:
        return None
    return frozenset(v.replica_id for t in response.topics for p in t.partitions for v in p.current_voters) or None


def _in_order(
    keys: Collection[TopicPartition], reported: Mapping[TopicPartition, ItemResult], *, done: str
) -> dict[TopicPartition, ItemResult]:
    found = {}
    for key in keys:
        error = reported.get(key, UNANSWERED)
        found[key] = None if error is not None and error.name == done else error
    return found
