"""Requests that change a cluster, built from kafkakit's values, and their answers, one per item.

An item is a binding for ACLs (DescribeAcls, CreateAcls, DeleteAcls), an entity for quotas (DescribeClientQuotas,
AlterClientQuotas) and a partition for DeleteRecords. The requests that read ACLs, quotas and transactions
(DescribeProducers, ListTransactions, DescribeTransactions) are here as well.
"""

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from kafkakit.adapters.kafka.session import CLUSTER_DENIED, error_from, error_of, refused_error
from kafkakit.core.cluster_facts import (
    CLUSTER_DEFAULT,
    AclBinding,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResourceKind,
    ConfigChange,
    ConfigOp,
    ItemError,
    OpenTransaction,
    ProducerState,
    QuotaChanges,
    QuotaDefault,
    QuotaEntity,
    Quotas,
    ResourceKind,
)
from kafkakit.core.errors import OperationFailedError, TryLaterError, UsageError
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


def config_batches(
    changes: Changes, *, validate_only: bool = False
) -> Iterator[tuple[int | None, Any, dict[tuple[int, str], Changes]]]:
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
        yield broker, IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only), groups


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


def partitions_request(topic: str, assignments: Mapping[int, tuple[int, ...]], timeout_ms: int) -> Any:
    """CreatePartitions with a replica list for each new partition, in the order of their numbers."""
    from kafka.protocol.admin import CreatePartitionsRequest as Request

    lists = [Request.CreatePartitionsTopic.CreatePartitionsAssignment(broker_ids=list(assignments[number]))
             for number in sorted(assignments)]  # fmt: skip
    wanted = Request.CreatePartitionsTopic(name=topic, count=max(assignments) + 1, assignments=lists)
    return Request(topics=[wanted], timeout_ms=timeout_ms, validate_only=False)


def delete_by_id_request(topic_id: str, timeout_ms: int) -> Any:
    """DeleteTopics of the topic of an id; `UsageError` for text that is none."""
    from kafka.protocol.admin import DeleteTopicsRequest as Request

    try:
        found = uuid.UUID(topic_id)
    except ValueError:
        raise UsageError(f"{topic_id[:80]!r} is not a topic's id") from None
    return Request(topics=[Request.DeleteTopicState(name=None, topic_id=found)], timeout_ms=timeout_ms, min_version=6)


def _in_order(
    keys: Collection[TopicPartition], reported: Mapping[TopicPartition, ItemResult], *, done: str
) -> dict[TopicPartition, ItemResult]:
    found = {}
    for key in keys:
        error = reported.get(key, UNANSWERED)
        found[key] = None if error is not None and error.name == done else error
    return found


SECURITY_DISABLED = 54
ANY, MATCH = 1, 2
KIND_CODE = {
    AclResourceKind.TOPIC: 2,
    AclResourceKind.GROUP: 3,
    AclResourceKind.CLUSTER: 4,
    AclResourceKind.TRANSACTIONAL_ID: 5,
    AclResourceKind.DELEGATION_TOKEN: 6,
    AclResourceKind.USER: 7,
}
PATTERN_CODE = {AclPattern.LITERAL: 3, AclPattern.PREFIXED: 4}
PERMISSION_CODE = {AclPermission.DENY: 2, AclPermission.ALLOW: 3}
# Kafka's codes of operations are in the order of the enumeration, after 1, which means any in filters.
ACL_OPERATION_CODE = {operation: code for code, operation in enumerate(AclOperation, 1)} | {AclOperation.UNKNOWN: 0}
_KINDS = {code: kind for kind, code in KIND_CODE.items()}
_PATTERNS = {code: pattern for pattern, code in PATTERN_CODE.items()}
_PERMISSIONS = {code: permission for permission, code in PERMISSION_CODE.items()}
_OPERATIONS = {code: operation for operation, code in ACL_OPERATION_CODE.items()}


def acls_request(kind: AclResourceKind | None, name: str | None) -> Any:
    """DescribeAcls of every binding that concerns a resource; None means any kind, any name."""
    from kafka.protocol.admin import DescribeAclsRequest

    return DescribeAclsRequest(
        resource_type_filter=ANY if kind is None else KIND_CODE[kind],
        resource_name_filter=name,
        pattern_type_filter=ANY if name is None else MATCH,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )


def acls_of(response: Any) -> tuple[AclBinding, ...] | None:
    """The bindings, sorted; None where the cluster has no authorizer. Missing rights raise."""
    if response.error_code == SECURITY_DISABLED:
        return None
    if response.error_code == CLUSTER_DENIED:
        raise refused_error("describe ACLs", "DESCRIBE on the cluster")
    if response.error_code:
        raise OperationFailedError(f"describe ACLs: {error_of(response.error_code, response.error_message)}")
    found = [
        AclBinding(
            kind=_KINDS[resource.resource_type],
            name=resource.resource_name,
            pattern=_PATTERNS[resource.pattern_type],
            principal=acl.principal,
            host=acl.host,
            operation=_OPERATIONS.get(acl.operation, AclOperation.UNKNOWN),
            permission=_PERMISSIONS[acl.permission_type],
        )
        for resource in response.resources
        for acl in resource.acls
    ]
    return tuple(sorted(found))


def creation_request(bindings: Collection[AclBinding]) -> Any:
    """CreateAcls."""
    from kafka.protocol.admin import CreateAclsRequest as Request

    return Request(
        creations=[
            Request.AclCreation(
                resource_type=KIND_CODE[each.kind],
                resource_name=each.name,
                resource_pattern_type=PATTERN_CODE[each.pattern],
                principal=each.principal,
                host=each.host,
                operation=ACL_OPERATION_CODE[each.operation],
                permission_type=PERMISSION_CODE[each.permission],
            )
            for each in bindings
        ]
    )


def removal_request(bindings: Collection[AclBinding]) -> Any:
    """DeleteAcls, with a filter that only the binding itself matches for each."""
    from kafka.protocol.admin import DeleteAclsRequest as Request

    return Request(
        filters=[
            Request.DeleteAclsFilter(
                resource_type_filter=KIND_CODE[each.kind],
                resource_name_filter=each.name,
                pattern_type_filter=PATTERN_CODE[each.pattern],
                principal_filter=each.principal,
                host_filter=each.host,
                operation=ACL_OPERATION_CODE[each.operation],
                permission_type=PERMISSION_CODE[each.permission],
            )
            for each in bindings
        ]
    )


def acl_results(results: Collection[Any], bindings: Collection[AclBinding]) -> dict[AclBinding, ItemError | None]:
    """Per binding; answers come in the order requested. A binding that was not there counts as deleted."""
    errors = [_error(result) for result in results]
    errors += [UNANSWERED] * (len(bindings) - len(errors))
    return dict(zip(bindings, errors, strict=True))


def _error(result: Any) -> ItemError | None:
    for each in (result, *getattr(result, "matching_acls", ())):
        error = error_of(each.error_code, each.error_message)
        if error is not None:
            return error
    return None


_USER, _CLIENT_ID = "user", "client-id"


def quotas_request() -> Any:
    """DescribeClientQuotas of all entities."""
    from kafka.protocol.admin import DescribeClientQuotasRequest

    return DescribeClientQuotasRequest(components=[], strict=False)


def quotas_of(response: Any) -> Quotas:
    """The values that are set; raises `OperationFailedError` for a refusal, which is no empty answer."""
    if response.error_code:
        raise OperationFailedError(f"read client quotas: {error_of(response.error_code, response.error_message)}")
    found = {}
    for entry in response.entries or ():
        entity = _entity_of(entry)
        if entity is not None and entry.values:
            found[entity] = {value.key: value.value for value in entry.values}
    return found


def change_request(changes: QuotaChanges) -> Any:
    """AlterClientQuotas."""
    from kafka.protocol.admin import AlterClientQuotasRequest as Request

    entry = Request.EntryData
    return Request(
        entries=[
            entry(
                entity=[
                    entry.EntityData(entity_type=kind, entity_name=None if isinstance(name, QuotaDefault) else name)
                    for kind, name in ((_USER, entity.user), (_CLIENT_ID, entity.client_id))
                    if name is not None
                ],
                ops=[
                    entry.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                    for key, value in values.items()
                ],
            )
            for entity, values in changes.items()
        ],
        validate_only=False,
    )


def change_results(response: Any, changes: QuotaChanges) -> dict[QuotaEntity, ItemError | None]:
    """Per entity, in the order requested."""
    reported = {_entity_of(entry): error_of(entry.error_code, entry.error_message) for entry in response.entries}
    return {entity: reported.get(entity, UNANSWERED) for entity in changes}


def _entity_of(entry: Any) -> QuotaEntity | None:
    """None for an entity of another kind: an address."""
    names = {
        part.entity_type: QuotaDefault.DEFAULT if part.entity_name is None else part.entity_name
        for part in entry.entity
    }
    if not names or set(names) - {_USER, _CLIENT_ID}:
        return None
    return QuotaEntity(user=names.get(_USER), client_id=names.get(_CLIENT_ID))


UNKNOWN_PARTITION = ItemError(name="UnknownTopicOrPartitionError", retriable=True)
NO_LEADER = ItemError(name="LeaderNotAvailableError", retriable=True)


def deletion_requests(
    offsets: Mapping[TopicPartition, int], leaders: Mapping[TopicPartition, int | None], timeout_ms: int
) -> dict[int, Any]:
    """DeleteRecords, one request a leader; partitions without one are left out."""
    from kafka.protocol.admin import DeleteRecordsRequest as Request

    wanted: dict[int, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for key, offset in offsets.items():
        leader = leaders.get(key)
        if leader is not None:
            wanted[leader][key.topic].append((key.partition, offset))
    topic = Request.DeleteRecordsTopic
    return {
        leader: Request(
            timeout_ms=timeout_ms,
            topics=[
                topic(
                    name=name,
                    partitions=[topic.DeleteRecordsPartition(partition_index=p, offset=o) for p, o in partitions],
                )
                for name, partitions in topics.items()
            ],
        )
        for leader, topics in wanted.items()
    }


def deletion_results(
    offsets: Mapping[TopicPartition, int], leaders: Mapping[TopicPartition, int | None], answers: Mapping[int, Any]
) -> dict[TopicPartition, ItemError | None]:
    """Per partition; records that are gone already count as deleted."""
    reported: dict[TopicPartition, ItemError | None] = {}
    for key in offsets:
        leader = leaders.get(key)
        if leader is None:
            reported[key] = NO_LEADER if key in leaders else UNKNOWN_PARTITION
        elif isinstance(answer := answers[leader], Exception):
            reported[key] = error_from(answer)
    for answer in answers.values():
        for topic in () if isinstance(answer, Exception) else answer.topics:
            for p in topic.partitions:
                reported[TopicPartition(topic.name, p.partition_index)] = error_of(p.error_code)
    return {key: reported.get(key, UNANSWERED) for key in offsets}


TRANSACTIONAL_ID_DENIED = 53
TRANSACTIONAL_ID_UNKNOWN = 105
INCOMPLETE = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
IDS_PER_REQUEST = 1_000
Producers: TypeAlias = tuple[ProducerState, ...] | ItemError


def producers_requests(
    partitions: Collection[TopicPartition], leaders: Mapping[TopicPartition, int | None]
) -> dict[int, Any]:
    """DescribeProducers, one request a leader; partitions without one are left out."""
    from kafka.protocol.admin import DescribeProducersRequest as Request

    wanted: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for key in sorted(partitions):
        leader = leaders.get(key)
        if leader is not None:
            wanted[leader][key.topic].append(key.partition)
    return {
        leader: Request(
            topics=[Request.TopicRequest(name=name, partition_indexes=numbers) for name, numbers in topics.items()]
        )
        for leader, topics in wanted.items()
    }


def producers_of(
    partitions: Collection[TopicPartition],
    leaders: Mapping[TopicPartition, int | None],
    answers: Mapping[int, Any],
) -> dict[TopicPartition, Producers]:
    """Per partition: its producers by id, or why they are not known."""
    reported: dict[TopicPartition, Producers] = {}
    for key in partitions:
        leader = leaders.get(key)
        if leader is None:
            reported[key] = NO_LEADER if key in leaders else UNKNOWN_PARTITION
        elif isinstance(answer := answers[leader], Exception):
            reported[key] = error_from(answer)
    for answer in answers.values():
        for topic in () if isinstance(answer, Exception) else answer.topics:
            for p in topic.partitions:
                error = error_of(p.error_code, p.error_message)
                found = tuple(sorted(map(_producer, p.active_producers), key=lambda each: each.producer_id))
                reported[TopicPartition(topic.name, p.partition_index)] = found if error is None else error
    return {key: reported.get(key, UNANSWERED) for key in partitions}


def listing_request() -> Any:
    """ListTransactions of those that are not complete."""
    from kafka.protocol.admin import ListTransactionsRequest

    return ListTransactionsRequest(state_filters=list(INCOMPLETE), producer_id_filters=[])


def description_requests(broker: int, answer: Any) -> Iterator[Any]:
    """DescribeTransactions of what a broker listed; `TryLaterError` where it listed nothing because it could not."""
    from kafka.protocol.admin import DescribeTransactionsRequest

    _refuse_unanswered(broker, answer)
    if (error := error_of(answer.error_code)) is not None:
        raise TryLaterError(f"list transactions: broker {broker} cannot tell yet ({error})", hint="try again")
    names = sorted(each.transactional_id for each in answer.transaction_states)
    for start in range(0, len(names), IDS_PER_REQUEST):
        yield DescribeTransactionsRequest(transactional_ids=names[start : start + IDS_PER_REQUEST])


def transactions_of(broker: int, answer: Any) -> Iterator[OpenTransaction]:
    """What a coordinator described and is still not complete; `TryLaterError` where it does not know."""
    _refuse_unanswered(broker, answer)
    for each in answer.transaction_states:
        if each.error_code == TRANSACTIONAL_ID_DENIED:
            raise refused_error(f"describe transaction {each.transactional_id}", "DESCRIBE on the transactional id")
        if each.error_code == TRANSACTIONAL_ID_UNKNOWN:
            continue
        if (error := error_of(each.error_code)) is not None:
            raise TryLaterError(f"describe transaction {each.transactional_id}: {error}", hint="try again")
        if each.transaction_state in INCOMPLETE:
            yield OpenTransaction(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                state=each.transaction_state,
                timeout_ms=each.transaction_timeout_ms,
                started_ms=each.transaction_start_time_ms,
                partitions=frozenset(TopicPartition(t.topic, number) for t in each.topics for number in t.partitions),
            )


def _refuse_unanswered(broker: int, answer: Any) -> None:
    if isinstance(answer, Exception):
        raise TryLaterError(f"list transactions: broker {broker} gave no answer ({error_from(answer)})")


def _producer(found: Any) -> ProducerState:
    return ProducerState(
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        last_sequence=found.last_sequence,
        last_ms=None if found.last_timestamp < 0 else found.last_timestamp,
        transaction_start=None if found.current_txn_start_offset < 0 else found.current_txn_start_offset,
    )
