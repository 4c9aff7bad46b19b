"""DescribeProducers, ListTransactions and DescribeTransactions, and their answers as kafkakit's values."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeAlias

from kafkakit.adapters.kafka.admin_records import NO_LEADER, UNKNOWN_PARTITION
from kafkakit.adapters.kafka.admin_write import UNANSWERED
from kafkakit.adapters.kafka.errors import error_from, error_of, refused
from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.core.transactions import OpenTransaction, ProducerState

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
            raise refused(f"describe transaction {each.transactional_id}", "DESCRIBE on the transactional id")
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
