"""What a snapshot or a map from outside must satisfy, one broken rule at a time."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from kafkakit.core.errors import InputError
from kafkakit.core.findings import MIN_ISR, least_in_sync, min_isr_of, usual_min_isr_words
from kafkakit.core.model import (
    Broker,
    BrokerState,
    ClusterSnapshot,
    LogDir,
    Partition,
    PartitionAssignment,
    PartitionMap,
    Reassignment,
    Topic,
)
from kafkakit.core.plan_rules import check_partition_map, check_snapshot

GOOD = ClusterSnapshot(
    cluster_id="c",
    taken_at=datetime(2026, 1, 1, tzinfo=UTC),
    source="test",
    brokers=(
        Broker(id=1, rack="a", log_dirs=(LogDir(path="/d", total_bytes=10, usable_bytes=1),)),
        Broker(id=2, state=BrokerState.MISSING),
    ),
    topics=(
        Topic(
            name="t",
            partitions=(Partition(partition=0, replicas=(1, 2), isr=(1,), leader=1, replica_bytes={1: 5}),),
        ),
    ),
    reassignments=(Reassignment(topic="t", partition=0, replicas=(1, 2), adding=(2,)),),
    sizes_taken=True,
    unanswered_brokers={2: "gone"},
)


def with_partition(**changes: Any) -> ClusterSnapshot:
    (topic,) = GOOD.topics
    return replace(GOOD, topics=(replace(topic, partitions=(replace(topic.partitions[0], **changes),)),))


def with_broker(**changes: Any) -> ClusterSnapshot:
    return replace(GOOD, brokers=(replace(GOOD.brokers[0], **changes), GOOD.brokers[1]))


def test_a_sound_snapshot_passes() -> None:
    check_snapshot(GOOD, "f")


@pytest.mark.parametrize(
    ("snapshot", "words"),
    [
        (replace(GOOD, taken_at=datetime(2026, 1, 1)), "taken_at has no time zone"),  # noqa: DTZ001
        (replace(GOOD, brokers=(*GOOD.brokers, GOOD.brokers[0])), "broker 1 is listed twice"),
        (replace(GOOD, topics=GOOD.topics * 2), "topic t is listed twice"),
        (replace(GOOD, topics=(replace(GOOD.topics[0], partitions=GOOD.topics[0].partitions * 2),)), "t-0 is listed"),
        (replace(GOOD, unanswered_brokers={9: "?"}), "unanswered_brokers names broker 9"),
        (replace(GOOD, min_isr={9: 1}), "min_isr names broker 9"),
        (replace(GOOD, min_isr={1: 0}), "min_isr of broker 1: 0 is not from 1 to 32,767"),
        (replace(GOOD, cluster_id="a\nb"), "cluster_id holds control characters"),
        (replace(GOOD, topics=(replace(GOOD.topics[0], name="a\x1b[2J"),)), "is not a topic name"),
        (replace(GOOD, topics=(replace(GOOD.topics[0], name="x" * 250),)), "is not a topic name"),
        (
            replace(GOOD, reassignments=(Reassignment(topic="t", partition=0, replicas=(1, 7)),)),
            "broker 7 is not among",
        ),
        (with_broker(id=-1), "broker -1: ids are from 0"),
        (with_broker(id=2**31), "ids are from 0 to 2147483647"),
        (with_broker(rack="r" * 250), "rack is longer than 249"),
        (with_broker(port=70_000), "70000 is not a port"),
        (with_broker(storage_free_bytes=2**63), "sizes are from 0"),
        (with_broker(log_dirs=(LogDir(path="/d"), LogDir(path="/d"))), "log dir '/d' is listed twice"),
        (with_broker(log_dirs=(LogDir(path="/d", usable_bytes=-1),)), "usable_bytes is -1"),
        (with_partition(replicas=()), "t-0: the replica list is empty"),
        (with_partition(replicas=(1, 1)), "t-0: the replica list names a broker twice"),
        (with_partition(replicas=(1, 2, 9)), "t-0: broker 9 is not among the brokers"),
        (with_partition(isr=(9,)), "t-0: isr names broker 9, which holds no replica"),
        (with_partition(isr=(1, 1)), "t-0: isr names a broker twice"),
        (with_partition(adding=(7,)), "t-0: adding names broker 7"),
        (with_partition(leader=7), "t-0: the leader, broker 7"),
        (with_partition(replica_bytes={7: 1}), "t-0: replica_bytes names a broker"),
        (with_partition(replica_dirs={7: "/d"}), "t-0: replica_dirs names a broker"),
        (with_partition(replica_bytes={1: -1}), "t-0: replica_bytes of broker 1 is -1"),
        (with_partition(replica_bytes={1: 10**400}), "is out of range"),
        (with_partition(size_bytes=2**63), "t-0: size_bytes is 9.22337e+18"),
        (with_partition(partition=-1), "partition numbers are from 0"),
    ],
)
def test_a_broken_rule_is_named(snapshot: ClusterSnapshot, words: str) -> None:
    with pytest.raises(InputError) as caught:
        check_snapshot(snapshot, "file.json")
    assert words in str(caught.value)
    assert str(caught.value).startswith("file.json: ")
    assert str(caught.value).isprintable()


def test_only_the_first_problems_are_told() -> None:
    many = replace(GOOD, brokers=tuple(Broker(id=-n) for n in range(1, 100)))
    with pytest.raises(InputError, match="; and more") as caught:
        check_snapshot(many, "f")
    assert str(caught.value).count(";") == 3


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ((("t", 0, (1, 2)), ("t", 0, (1,))), "'t'-0 is listed twice"),
        ((("t", 0, ()),), "the replica list is empty"),
        ((("t", 0, (1, 1)),), "names a broker twice"),
        ((("t", 0, (-1,)),), "-1 is not a broker id"),
        ((("t", -1, (1,)),), "partition numbers are from 0"),
        ((("", 0, (1,)),), "is not a topic name"),
    ],
)
def test_a_broken_map_is_named(entries: tuple[tuple[str, int, tuple[int, ...]], ...], words: str) -> None:
    rows = tuple(PartitionAssignment(topic=t, partition=p, replicas=r) for t, p, r in entries)
    with pytest.raises(InputError, match=words):
        check_partition_map(PartitionMap(partitions=rows), "map.json")


def test_a_sound_map_passes_and_an_unknown_version_does_not() -> None:
    rows = (PartitionAssignment(topic="t", partition=0, replicas=(1, 2)),)
    check_partition_map(PartitionMap(partitions=rows), "map.json")
    with pytest.raises(InputError, match="version 2"):
        check_partition_map(PartitionMap(version=2, partitions=rows), "map.json")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2", 2), (" 2 ", 2), ("99999", 32_767), ("", 7), (None, 7), ("two", 7), ("-1", 7), ("²", 7), ("9" * 5000, 7)],
)
def test_the_minimum_of_a_topic_is_its_own_or_the_usual_one(text: str | None, expected: int) -> None:
    assert min_isr_of({} if text is None else {MIN_ISR: text}, 7) == expected


def test_what_brokers_run_with_is_the_largest_of_those_that_say_it() -> None:
    assert GOOD.usual_min_isr == 1
    assert replace(GOOD, min_isr={1: 2, 2: 3, 3: 2}).usual_min_isr == 3
    assert usual_min_isr_words({}) == usual_min_isr_words({1: 2, 2: 2}) == ""
    words = usual_min_isr_words({1: 2, 2: 3, 3: 2})
    assert "2 on 1, 3, 3 on 2; taken as 3" in words


def test_newer_brokers_ask_for_no_more_than_there_are() -> None:
    assert [least_in_sync(2, replicas, stops=False) for replicas in (1, 2, 3)] == [1, 2, 2]
    assert [least_in_sync(2, replicas, stops=True) for replicas in (1, 2, 3)] == [2, 2, 2]
