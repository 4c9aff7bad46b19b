"""DeleteRecords, built from kafkakit's values, and its answers, one per partition."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from kafkakit.adapters.kafka.admin_write import UNANSWERED
from kafkakit.adapters.kafka.errors import error_from, error_of
from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.model import TopicPartition

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
