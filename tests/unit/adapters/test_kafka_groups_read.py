"""Kafka's answers about groups become the kit's values, odd ones included."""

import struct
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Message

from kafkakit.adapters.kafka.group_consumer import metadata_of, read_batches
from kafkakit.adapters.kafka.groups_read import (
    assignment_of,
    commits_of,
    description_of,
    listings_of,
    results_of,
    state_of,
    type_of,
)
from kafkakit.core.cluster_facts import (
    CommittedOffset,
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    ItemError,
)
from kafkakit.core.model import TopicPartition

TP = TopicPartition


def group(**fields: object) -> Any:
    base: dict[str, object] = {
        "error_code": 0,
        "error_message": None,
        "group_id": "g",
        "group_state": "Stable",
        "protocol_type": "",
        "members": [],
    }
    return SimpleNamespace(**{**base, **fields})


def topics(*places: dict[str, object]) -> list[Any]:
    return [SimpleNamespace(name="t", partitions=[SimpleNamespace(**place) for place in places])]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("Stable", GroupState.STABLE),
        ("PreparingRebalance", GroupState.PREPARING),
        ("COMPLETING_REBALANCE", GroupState.COMPLETING),
        ("NotReady", GroupState.NOT_READY),
        ("Reconciling", GroupState.RECONCILING),
        ("Levitating", GroupState.UNKNOWN),
        ("", GroupState.UNKNOWN),
    ],
)
def test_states_are_known_in_every_spelling(text: str, state: GroupState) -> None:
    assert state_of(text) is state


def test_types_that_came_later_are_unknown_and_old_brokers_know_one() -> None:
    assert [type_of(text) for text in ("", "Classic", "consumer", "Share", "streams", "swarm")] == [
        GroupType.CLASSIC,
        GroupType.CLASSIC,
        GroupType.CONSUMER,
        GroupType.SHARE,
        GroupType.STREAMS,
        GroupType.UNKNOWN,
    ]
    answer = SimpleNamespace(groups=[SimpleNamespace(group_id="g", group_type="share", group_state="Empty")])
    assert listings_of(answer) == [GroupListing(group="g", type=GroupType.SHARE, state=GroupState.EMPTY)]


def test_only_an_unknown_group_is_dead() -> None:
    dead = GroupDescription(group="g", type=GroupType.UNKNOWN, state=GroupState.DEAD)
    assert description_of(group(group_state="Dead"), 1) == dead
    assert description_of(group(error_code=69, error_message="Group g not found."), 1) == dead
    other = description_of(group(error_code=69, error_message="Group g is not a classic group."), 1)
    assert isinstance(other, ItemError)
    assert other.retriable
    denied = description_of(group(error_code=30), 1)
    assert isinstance(denied, ItemError)
    assert denied.name == "GroupAuthorizationFailedError"


def test_an_assignment_is_read_and_what_is_none_is_empty() -> None:
    data = struct.pack(">hi h1s i2i h1s i1i i", 0, 2, 1, b"t", 2, 3, 1, 1, b"a", 1, 0, -1)
    assert assignment_of(data) == (TP("a", 0), TP("t", 1), TP("t", 3))
    for broken in (b"", data[:9], b"\0\0\x7f\xff\xff\xff", struct.pack(">hi h1s i", 0, 1, 1, b"\xff", 0), b"connect"):
        assert assignment_of(broken) == ()


def test_an_assignment_with_absurd_counts_costs_nothing() -> None:
    assert assignment_of(struct.pack(">hi h1s i", 0, 1, 1, b"t", 2**31 - 1)) == ()
    assert assignment_of(struct.pack(">hi h1s i", 0, 1, 1, b"t", -5)) == ()
    assert assignment_of(struct.pack(">hi hi", 0, 2**31 - 1, -6, 0)) == ()


def test_commits_keep_their_text_and_their_errors() -> None:
    place = {
        "partition_index": 0,
        "committed_offset": 5,
        "committed_leader_epoch": -1,
        "metadata": "a\0",
        "error_code": 0,
    }
    found = commits_of(
        topics(
            place,
            {**place, "partition_index": 1, "committed_offset": -1, "metadata": ""},
            {**place, "partition_index": 2, "committed_leader_epoch": 4, "metadata": None},
            {**place, "partition_index": 3, "committed_offset": -1, "error_code": 88},
        )
    )
    unstable = found.pop(TP("t", 3))
    assert isinstance(unstable, ItemError)
    assert (unstable.name, unstable.retriable) == ("UnstableOffsetCommitError", True)
    assert found == {
        TP("t", 0): CommittedOffset(offset=5, metadata="a\0"),
        TP("t", 2): CommittedOffset(offset=5, leader_epoch=4),
    }


def test_a_partition_that_the_broker_left_out_has_failed() -> None:
    told = results_of(topics({"partition_index": 0, "error_code": 0}), [TP("t", 0), TP("t", 1)])
    assert told[TP("t", 0)] is None
    assert told[TP("t", 1)] is not None


def test_a_poll_is_split_by_topic_and_partition_in_the_order_of_the_log() -> None:
    places = [("a", 0, 5), ("a", 0, 6), ("a", 1, 9), ("b", 1, 3), ("b", 0, 7), ("a", 0, 8)]
    messages = [Message(topic=topic, partition=partition, offset=offset) for topic, partition, offset in places]
    found = {batch.partition: (batch.offsets, batch.next_offset) for batch in read_batches(messages, [])}
    assert found == {
        TopicPartition("a", 0): ([5, 6, 8], 9),
        TopicPartition("a", 1): ([9], 10),
        TopicPartition("b", 1): ([3], 4),
        TopicPartition("b", 0): ([7], 8),
    }
    (one,) = read_batches(messages[:2], [])
    assert (one.offsets, one.records) == ([5, 6], messages[:2])
    assert read_batches([], []) == []


def test_metadata_that_are_not_unicode_in_confluent_kafka_are_none() -> None:
    """It reads on behind a text that was stored without a NUL at its end, and raises where memory is not UTF-8."""

    class Place:
        @property
        def metadata(self) -> str:
            return b"~bE\x91".decode()

    assert metadata_of(Place()) == ""
    assert metadata_of(SimpleNamespace(metadata=None)) == ""
    assert metadata_of(SimpleNamespace(metadata="~bE")) == "~bE"
