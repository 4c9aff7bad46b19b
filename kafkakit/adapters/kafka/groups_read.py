"""Kafka's answers about groups as the values of `ports.data`, and requests about offsets; nothing is sent here.

The requests that are built here are OffsetFetch, OffsetCommit and OffsetDelete.
"""

import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from kafkakit.adapters.kafka.session import error_of
from kafkakit.core.cluster_facts import (
    CommittedOffset,
    GroupDescription,
    GroupListing,
    GroupMember,
    GroupState,
    GroupType,
    ItemError,
)
from kafkakit.core.model import TopicPartition

NOT_FOUND = 69
"""GROUP_ID_NOT_FOUND, which from DescribeGroups v6 on also means "no classic group"."""

_STATES = {
    "stable": GroupState.STABLE,
    "empty": GroupState.EMPTY,
    "dead": GroupState.DEAD,
    "preparingrebalance": GroupState.PREPARING,
    "completingrebalance": GroupState.COMPLETING,
    "assigning": GroupState.ASSIGNING,
    "reconciling": GroupState.RECONCILING,
    "notready": GroupState.NOT_READY,
}


def state_of(text: str) -> GroupState:
    """A state in Kafka's spelling, with or without separators; UNKNOWN for one that came later."""
    return _STATES.get(text.replace("_", "").lower(), GroupState.UNKNOWN)


def type_of(text: str) -> GroupType:
    """A type in Kafka's spelling; brokers before 3.7 name none and have classic groups only."""
    name = text.lower()
    if not name:
        return GroupType.CLASSIC
    return GroupType(name) if name in set(GroupType) else GroupType.UNKNOWN


def listings_of(response: Any) -> list[GroupListing]:
    """The groups of one coordinator."""
    return [
        GroupListing(
            group=found.group_id, type=type_of(found.group_type or ""), state=state_of(found.group_state or "")
        )
        for found in response.groups
    ]


def description_of(found: Any, coordinator: int) -> GroupDescription | ItemError:
    """One group of DescribeGroups. Only what the broker does not know at all is called dead."""
    if found.error_code == NOT_FOUND:
        if "not a classic" in (found.error_message or ""):
            # It was made, or changed its protocol, after the listing that said otherwise.
            return ItemError(name="GroupIdNotFoundError", message="the group's protocol changed", retriable=True)
        return GroupDescription(group=found.group_id, type=GroupType.UNKNOWN, state=GroupState.DEAD)
    error = error_of(found.error_code, found.error_message)
    if error is not None:
        return error
    state = state_of(found.group_state)
    return GroupDescription(
        group=found.group_id,
        type=GroupType.UNKNOWN if state is GroupState.DEAD else GroupType.CLASSIC,
        state=state,
        members=tuple(sorted((_member(m) for m in found.members), key=lambda m: m.member_id)),
        coordinator=None if state is GroupState.DEAD else coordinator,
        had_members=bool(found.members or found.protocol_type),
    )


def assignment_of(data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions in a classic member's assignment (ConsumerProtocolAssignment), empty where it is none.

    Layout: version int16, then an array of topic string and array of int32, then user data; big endian.
    """
    try:
        found: list[TopicPartition] = []
        count, at = struct.unpack_from(">xxi", data)[0], 6
        for _ in range(count):
            (size,) = struct.unpack_from(">H", data, at)
            topic = bytes(data[at + 2 : at + 2 + size]).decode()
            (amount,) = struct.unpack_from(">I", data, at + 2 + size)
            at += 6 + size
            found += [TopicPartition(topic, number) for number in struct.unpack_from(f">{amount}i", data, at)]
            at += 4 * amount
    except (struct.error, UnicodeDecodeError):
        return ()
    return tuple(sorted(found))


def commits_of(topics: Iterable[Any]) -> dict[TopicPartition, CommittedOffset | ItemError]:
    """OffsetFetch up to v7: partitions without a commit, which have offset -1, are left out."""
    found: dict[TopicPartition, CommittedOffset | ItemError] = {}
    for topic in topics:
        for place in topic.partitions:
            key = TopicPartition(topic.name, place.partition_index)
            error = error_of(place.error_code)
            if error is not None:
                found[key] = error
            elif place.committed_offset >= 0:
                epoch = place.committed_leader_epoch
                found[key] = CommittedOffset(
                    offset=place.committed_offset,
                    metadata=place.metadata or "",
                    leader_epoch=epoch if epoch >= 0 else None,
                )
    return dict(sorted(found.items()))


def results_of(topics: Iterable[Any], wanted: Collection[TopicPartition]) -> dict[TopicPartition, ItemError | None]:
    """OffsetCommit and OffsetDelete: each partition's error; one the broker left out has failed."""
    missing = ItemError(name="UnknownServerError", message="the broker left the partition out", retriable=True)
    reported: dict[TopicPartition, ItemError | None] = dict.fromkeys(wanted, missing)
    for topic in topics:
        for place in topic.partitions:
            reported[TopicPartition(topic.name, place.partition_index)] = error_of(place.error_code)
    return reported


def _member(found: Any) -> GroupMember:
    return GroupMember(
        member_id=found.member_id,
        client_id=found.client_id,
        host=found.client_host,
        partitions=assignment_of(found.member_assignment or b""),
    )


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
