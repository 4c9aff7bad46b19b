"""OffsetFetch, OffsetCommit and OffsetDelete: requests built; nothing here sends anything."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from kafkakit.core.group_facts import CommittedOffset
from kafkakit.core.model import TopicPartition

COMMIT_BYTES = 400_000
"""Commits of one request become one batch of the offsets topic, which must stay below its 1 MB."""
LAST_FOR_ONE_GROUP = 7
"""OffsetFetch from version 8 on is for many groups at once."""
LAST_FETCH_WITH_NAMES = 9
"""OffsetFetch from version 10 on names topics by id."""
LAST_WITH_NAMES = 9
"""OffsetCommit from version 10 on names topics by id, which would need their metadata first."""


def fetch_request(group: str, partitions: Collection[TopicPartition] | None, *, stable: bool) -> Any:
    """What the group committed; None: for every partition."""
    from kafka.protocol.consumer.group import OffsetFetchRequest

    topic_of = OffsetFetchRequest.OffsetFetchRequestTopic
    topics = None
    if partitions is not None:
        topics = [topic_of(name=name, partition_indexes=held) for name, held in _by_topic(partitions).items()]
    return OffsetFetchRequest(
        group_id=group,
        topics=topics,
        require_stable=stable,
        min_version=LAST_FOR_ONE_GROUP,
        max_version=LAST_FOR_ONE_GROUP,
    )


def fetch_many_request(groups: Collection[str], partitions: Collection[TopicPartition], *, stable: bool) -> Any:
    """What several groups with the same coordinator committed for these partitions."""
    from kafka.protocol.consumer.group import OffsetFetchRequest

    group_of = OffsetFetchRequest.OffsetFetchRequestGroup
    topic_of = group_of.OffsetFetchRequestTopics
    topics = [topic_of(name=name, partition_indexes=held) for name, held in _by_topic(partitions).items()]
    return OffsetFetchRequest(
        groups=[group_of(group_id=group, member_id=None, member_epoch=-1, topics=topics) for group in groups],
        require_stable=stable,
        min_version=LAST_FOR_ONE_GROUP + 1,
        max_version=LAST_FETCH_WITH_NAMES,
    )


def commit_request(group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> Any:
    """Commit from outside the group: without a member and a generation."""
    from kafka.protocol.consumer.group import OffsetCommitRequest

    topic_of = OffsetCommitRequest.OffsetCommitRequestTopic
    place_of = topic_of.OffsetCommitRequestPartition
    topics = []
    for name, numbers in _by_topic(offsets).items():
        held = [offsets[TopicPartition(name, number)] for number in numbers]
        places = [
            place_of(
                partition_index=number,
                committed_offset=one.offset,
                committed_leader_epoch=-1 if one.leader_epoch is None else one.leader_epoch,
                committed_metadata=one.metadata,
            )
            for number, one in zip(numbers, held, strict=True)
        ]
        topics.append(topic_of(name=name, partitions=places))
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        retention_time_ms=-1,
        topics=topics,
        max_version=LAST_WITH_NAMES,
    )


def delete_request(group: str, partitions: Collection[TopicPartition]) -> Any:
    """Delete what the group committed for these partitions."""
    from kafka.protocol.consumer.group import OffsetDeleteRequest

    topic_of = OffsetDeleteRequest.OffsetDeleteRequestTopic
    place_of = topic_of.OffsetDeleteRequestPartition
    topics = [
        topic_of(name=name, partitions=[place_of(partition_index=number) for number in held])
        for name, held in _by_topic(partitions).items()
    ]
    return OffsetDeleteRequest(group_id=group, topics=topics)


def pieces(offsets: Mapping[TopicPartition, CommittedOffset]) -> Iterator[dict[TopicPartition, CommittedOffset]]:
    """The commits in portions that one request may carry, in their order."""
    piece: dict[TopicPartition, CommittedOffset] = {}
    size = 0
    for key, offset in offsets.items():
        # A record's header, key and value around the two strings, the group's name included.
        more = 400 + 2 * len(key.topic) + len(offset.metadata.encode())
        if piece and size + more > COMMIT_BYTES:
            yield piece
            piece, size = {}, 0
        piece[key] = offset
        size += more
    if piece:
        yield piece


def _by_topic(partitions: Collection[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for key in sorted(set(partitions)):
        grouped.setdefault(key.topic, []).append(key.partition)
    return grouped
