"""What confluent-kafka's consumer hands over, by partition."""

from collections.abc import Sequence
from typing import Any

from kafkakit.core.errors import OperationFailedError, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.stream_consumer import ReadBatch


def read_batches(messages: list[Any]) -> list[ReadBatch]:
    """Messages by partition; the end of a partition tells how far the read went.

    A consumer handles a record in about a microsecond, so what is done for each of them is done by `map`.
    """
    from confluent_kafka import Message

    found: dict[tuple[str, int], ReadBatch] = {}
    if any(map(Message.error, messages)):
        events = [message for message in messages if message.error() is not None]
        messages = [message for message in messages if message.error() is None]
    else:
        events = []
    topics, partitions = list(map(Message.topic, messages)), list(map(Message.partition, messages))
    offsets = list(map(Message.offset, messages))
    at = 0
    while at < len(messages):
        end = min(_end_of_run(partitions, at), _end_of_run(topics, at))
        batch = _batch(found, topics[at], partitions[at])
        batch.records += messages[at:end]
        batch.offsets += offsets[at:end]
        batch.next_offset = offsets[end - 1] + 1
        at = end
    for event in events:
        _note_event(found, event)
    return list(found.values())


def _end_of_run(values: Sequence[object], at: int) -> int:
    """Where another value begins; messages of a partition come in runs of what one fetch brought."""
    value, step, end = values[at], 256, at + 1
    while end < len(values):
        stop = min(end + step, len(values))
        same = values[end:stop].count(value)
        if same < stop - end:
            while values[end] == value:
                end += 1
            return end
        end = stop
    return end


def _note_event(found: dict[tuple[str, int], ReadBatch], event: Any) -> None:
    from confluent_kafka import KafkaError

    error = event.error()
    if error.code() == KafkaError._PARTITION_EOF:
        batch = _batch(found, event.topic(), event.partition())
        batch.next_offset = max(batch.next_offset, event.offset())
    elif error.code() in (
        KafkaError._BAD_COMPRESSION,
        KafkaError._BAD_MSG,
        KafkaError._NOT_IMPLEMENTED,  # a damaged header names a format that is none
        KafkaError.MSG_SIZE_TOO_LARGE,
    ):
        _batch(found, event.topic(), event.partition()).unreadable = error.name()
    elif error.fatal():
        raise TryLaterError(f"cannot read as a member of the group: {error.str()}")
    elif error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED):
        raise OperationFailedError(f"cannot read {event.topic() or 'as a member of the group'}: {error.str()}")


def _batch(found: dict[tuple[str, int], ReadBatch], topic: str, partition: int) -> ReadBatch:
    batch = found.get((topic, partition))
    if batch is None:
        batch = ReadBatch(partition=TopicPartition(topic, partition), records=[], offsets=[], next_offset=-1)
        found[topic, partition] = batch
    return batch
