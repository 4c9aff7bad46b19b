"""What `streams.ports` promises, as tests that run against the fakes and against real brokers.

A subclass gives the `rig` fixture. What a cluster may show late (members that leave, ended transactions) is polled.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import pytest

from kafkakit.core.cluster_facts import (
    CommittedOffset,
    FetchedBatches,
    GroupDescription,
    GroupState,
    GroupType,
    ItemError,
    LogSpan,
    ShareOffset,
)
from kafkakit.core.model import TopicPartition
from kafkakit.ports.data import GroupAdmin, LogReader
from kafkakit.streams.model.commit import NO_TOPIC_ID
from tests.rigs.waiting import eventually

TP = TopicPartition
HEADER = struct.Struct(">qiibIhiqqqhii")
BASE_MS = 1_758_335_260_000
WIDE = "\u4e2d\u05d0\u8000"
LIMIT = 4096
NOWHERE = TP("no-such-topic", 0)


class Rig(Protocol):
    """A cluster, its groups and its logs, and what a test may do to them."""

    groups: GroupAdmin
    log: LogReader
    committed_log: LogReader
    """Of committed data."""
    protocols: tuple[str, ...]
    """Of `classic`, `consumer` and `share`, what groups can speak here."""

    def new_topic(self, partitions: int = 1) -> str:
        """Create a topic that nobody else uses."""
        ...

    def recreate(self, topic: str) -> None:
        """Delete a topic and create it again, empty."""
        ...

    def new_group(self) -> str:
        """A name that no group has."""
        ...

    def append(self, partition: TopicPartition, values: Sequence[bytes], step_ms: int = 0) -> None:
        """Write records in one batch, the first at BASE_MS and each `step_ms` later."""
        ...

    def join(self, group: str, topic: str, protocol: str) -> AbstractContextManager[object]:
        """Keep a member in a group, which holds all partitions of the topic."""
        ...

    def offsets_transaction(self, group: str, commits: Mapping[TopicPartition, int]) -> Callable[[bool], object]:
        """Commit offsets in a transaction that is open until the result is called: True commits, False aborts."""
        ...

    def records_transaction(self, partition: TopicPartition, values: Sequence[bytes]) -> Callable[[bool], object]:
        """Write records in a transaction, likewise."""
        ...

    def pass_time(self) -> None:
        """Let the cluster work for a moment."""
        ...


def error_name(told: object) -> str | None:
    return told.name if isinstance(told, ItemError) else None


def described(rig: Rig, group: str) -> GroupDescription:
    found = rig.groups.describe([group])[group]
    assert isinstance(found, GroupDescription), found
    return found


def share_offsets(rig: Rig, group: str) -> tuple[ShareOffset, ...]:
    """Where a share group stands."""
    found = rig.groups.share_offsets([group])[group]
    return () if isinstance(found, ItemError) else found


def span(rig: Rig, partition: TopicPartition) -> LogSpan:
    found = rig.log.spans([partition])[partition]
    assert isinstance(found, LogSpan), found
    return found


def fetched(rig: Rig, offsets: Mapping[TopicPartition, int], **limits: int) -> Mapping[TopicPartition, FetchedBatches]:
    """Fetch until every leader has answered."""
    found: dict[TopicPartition, FetchedBatches] = {}
    for _ in range(1000):
        left = {key: offset for key, offset in offsets.items() if key not in found}
        if not left:
            break
        answers = rig.log.fetch(left, **{"max_bytes": 1 << 20, "wait_ms": 200, **limits})
        assert list(answers) == sorted(left)
        found |= {key: answer for key, answer in answers.items() if answer.answered}
    assert set(found) == set(offsets)
    return found


def committed(rig: Rig, key: TopicPartition, offset: int) -> tuple[int, set[int]]:
    """The last offset that a reader of committed data gets, and the first ones of the aborted transactions it is told.

    A broker answers with what lies in one segment.
    """
    last, aborted = -1, set[int]()
    for _ in range(1000):
        found = rig.committed_log.fetch({key: offset}, max_bytes=1 << 20, wait_ms=200)[key]
        aborted |= {first for _, first in found.aborted}
        last = max((last, *(last for _, last, _ in headers(found.records))))
        offset = max(offset, last + 1)
        if found.answered and found.error is None and offset >= found.span.stable:
            return last, aborted
    raise AssertionError("no answer")


def headers(records: bytes) -> list[tuple[int, int, int]]:
    """First offset, last offset and number of records of each whole batch."""
    found = []
    at = 0
    while len(records) - at >= HEADER.size:
        head = HEADER.unpack_from(records, at)
        if at + 12 + head[1] > len(records):
            break
        found.append((head[0], head[0] + head[6], head[12]))
        at += 12 + head[1]
    return found


class GroupsContract:
    def test_a_commit_is_read_back_as_it_was_given(self, rig: Rig) -> None:
        topic, group = rig.new_topic(4), rig.new_group()
        commits = {
            TP(topic, 0): CommittedOffset(offset=7, metadata=WIDE * 1365),
            TP(topic, 1): CommittedOffset(offset=0, metadata="ends with a zero\0"),
            TP(topic, 2): CommittedOffset(offset=1 << 40, metadata=""),
            TP(topic, 3): CommittedOffset(offset=3, metadata='{"json": "é"}', leader_epoch=5),
        }
        assert len(commits[TP(topic, 0)].metadata) == LIMIT - 1
        assert rig.groups.commit(group, commits) == dict.fromkeys(commits)
        assert rig.groups.committed(group) == commits
        assert rig.groups.committed(group, [TP(topic, 1), TP(topic, 9)]) == {TP(topic, 1): commits[TP(topic, 1)]}
        assert rig.groups.committed(group, []) == {}

    def test_metadata_over_the_limit_is_refused_for_its_partition_alone(self, rig: Rig) -> None:
        topic, group = rig.new_topic(4), rig.new_group()
        before = CommittedOffset(offset=1, metadata="before")
        assert rig.groups.commit(group, {TP(topic, 1): before}) == {TP(topic, 1): None}
        pair = "\U0001f600"
        told = rig.groups.commit(
            group,
            {
                TP(topic, 0): CommittedOffset(offset=2, metadata="\u4e2d" * LIMIT),
                TP(topic, 1): CommittedOffset(offset=2, metadata="\u4e2d" * (LIMIT + 1)),
                TP(topic, 2): CommittedOffset(offset=2, metadata=pair * (LIMIT // 2)),
                TP(topic, 3): CommittedOffset(offset=2, metadata=pair * (LIMIT // 2) + "a"),
            },
        )
        assert [error_name(told[TP(topic, p)]) for p in range(4)] == [
            None,
            "OffsetMetadataTooLargeError",
            None,
            "OffsetMetadataTooLargeError",
        ]
        found = rig.groups.committed(group)
        assert found[TP(topic, 1)] == before
        assert sorted(found) == [TP(topic, 0), TP(topic, 1), TP(topic, 2)]

    def test_a_partition_that_does_not_exist_is_refused_alone(self, rig: Rig) -> None:
        topic, group = rig.new_topic(), rig.new_group()
        told = rig.groups.commit(group, {TP(topic, 0): CommittedOffset(offset=1), NOWHERE: CommittedOffset(offset=1)})
        assert {key: error_name(error) for key, error in told.items()} == {
            TP(topic, 0): None,
            NOWHERE: "UnknownTopicOrPartitionError",
        }

    def test_text_that_no_broker_could_store_is_refused(self, rig: Rig) -> None:
        topic, group = rig.new_topic(), rig.new_group()
        told = rig.groups.commit(group, {TP(topic, 0): CommittedOffset(offset=1, metadata="\ud800")})
        assert error_name(told[TP(topic, 0)]) == "InvalidRequestError"
        assert rig.groups.committed(group) == {}

    @pytest.mark.parametrize("protocol", ["classic", "consumer"])
    def test_a_live_group_is_described_and_takes_no_commits(self, rig: Rig, protocol: str) -> None:
        if protocol not in rig.protocols:
            pytest.skip(f"no {protocol} groups here")
        topic, group = rig.new_topic(2), rig.new_group()
        keys = (TP(topic, 0), TP(topic, 1))
        commits = {key: CommittedOffset(offset=1) for key in keys}
        with rig.join(group, topic, protocol):
            eventually(rig, lambda: described(rig, group).state is GroupState.STABLE)
            live = described(rig, group)
            assert (live.type, live.state) == (GroupType(protocol), GroupState.STABLE)
            assert [member.partitions for member in live.members] == [keys]
            assert live.members[0].client_id
            assert live.coordinator is not None
            assert rig.groups.committed(group) == {}
            told = rig.groups.commit(group, commits)
            assert [error_name(told[key]) for key in keys] == ["UnknownMemberIdError"] * 2
            told = rig.groups.forget(group, keys)
            assert [error_name(told[key]) for key in keys] == ["GroupSubscribedToTopicError"] * 2
        eventually(rig, lambda: described(rig, group).state is GroupState.EMPTY)
        assert (described(rig, group).members, described(rig, group).had_members) == ((), True)
        assert rig.groups.commit(group, commits) == dict.fromkeys(keys)
        loner = rig.new_group()
        assert rig.groups.commit(loner, commits) == dict.fromkeys(keys)
        assert not described(rig, loner).had_members

    def test_a_share_group_keeps_no_offsets_and_is_not_dead(self, rig: Rig) -> None:
        if "share" not in rig.protocols:
            pytest.skip("no share groups here")
        topic, group = rig.new_topic(), rig.new_group()
        key = TP(topic, 0)
        other = rig.new_group()
        rig.groups.commit(other, {key: CommittedOffset(offset=0)})
        with rig.join(group, topic, "share"):
            eventually(rig, lambda: described(rig, group).state is GroupState.STABLE)
            eventually(rig, lambda: len(share_offsets(rig, group)) == 1)

            def accepts() -> bool:
                """What comes before the first fetch is not for the group."""
                rig.append(key, [b"a"])
                return bool(share_offsets(rig, group)[0].start)

            eventually(rig, accepts)
            eventually(rig, lambda: share_offsets(rig, group)[0].lag == 0)
            (stands,) = share_offsets(rig, group)
            assert (stands.place, stands.error) == (key, None)
            assert 0 < (stands.start or 0) <= span(rig, key).end, "the start follows what is done"
            assert rig.groups.share_offsets([other]) == {other: ()}, "a group of another type"
            found = described(rig, group)
            assert found.type is GroupType.SHARE
            assert found.coordinator is not None
            assert rig.groups.committed(group) == {}
            told = rig.groups.commit(group, {key: CommittedOffset(offset=1)})
            assert error_name(told[key]) == "GroupIdNotFoundError"
            assert error_name(rig.groups.forget(group, [key])[key]) == "GroupIdNotFoundError"
        eventually(rig, lambda: described(rig, group).state is GroupState.EMPTY)
        rig.append(key, [b"b", b"c"])
        eventually(rig, lambda: share_offsets(rig, group)[0].lag == 2)

    def test_groups_are_listed_by_name(self, rig: Rig) -> None:
        topic, group = rig.new_topic(), rig.new_group()
        assert group not in {one.group for one in rig.groups.groups()}
        assert rig.groups.commit(group, {TP(topic, 0): CommittedOffset(offset=1)}) == {TP(topic, 0): None}
        eventually(rig, lambda: group in {one.group for one in rig.groups.groups()})
        listed = rig.groups.groups()
        assert [one.group for one in listed] == sorted(one.group for one in listed)
        found = next(one for one in listed if one.group == group)
        assert (found.type, found.state) == (GroupType.CLASSIC, GroupState.EMPTY)

    def test_a_group_that_does_not_exist_is_dead_and_has_no_commits(self, rig: Rig) -> None:
        group = rig.new_group()
        found = described(rig, group)
        assert (found.state, found.type, found.members) == (GroupState.DEAD, GroupType.UNKNOWN, ())
        assert rig.groups.committed(group) == {}
        assert rig.groups.describe([]) == {}

    def test_an_open_transaction_is_told_from_an_older_commit(self, rig: Rig) -> None:
        topic, group = rig.new_topic(2), rig.new_group()
        a, b = TP(topic, 0), TP(topic, 1)
        rig.groups.commit(group, {a: CommittedOffset(offset=1), b: CommittedOffset(offset=1)})
        end = rig.offsets_transaction(group, {a: 5})
        found = rig.groups.committed(group)
        assert error_name(found[a]) == "UnstableOffsetCommitError"
        assert found[b] == CommittedOffset(offset=1)
        assert rig.groups.committed(group, stable=False)[a] == CommittedOffset(offset=1)
        end(False)
        eventually(rig, lambda: rig.groups.committed(group)[a] == CommittedOffset(offset=1))
        rig.offsets_transaction(group, {a: 6})(True)
        eventually(rig, lambda: _offset(rig.groups.committed(group)[a]) == 6)

    def test_commits_of_many_groups_are_read_at_once(self, rig: Rig) -> None:
        topic, groups = rig.new_topic(3), [rig.new_group() for _ in range(5)]
        for number, group in enumerate(groups[:4]):
            rig.groups.commit(group, {TP(topic, n): CommittedOffset(offset=number, metadata=group) for n in (0, 1)})
        end = rig.offsets_transaction(groups[3], {TP(topic, 0): 5})
        try:
            found = rig.groups.committed_by(groups, [TP(topic, 0), TP(topic, 2), NOWHERE])
            assert found == {group: rig.groups.committed(group, [TP(topic, 0)]) for group in groups}
            assert error_name(found[groups[3]][TP(topic, 0)]) == "UnstableOffsetCommitError"  # type: ignore[index]
            assert rig.groups.committed_by(groups[3:], [TP(topic, 0)], stable=False) == {
                groups[3]: {TP(topic, 0): CommittedOffset(offset=3, metadata=groups[3])}, groups[4]: {},
            }  # fmt: skip
        finally:
            end(False)
        assert rig.groups.committed_by([], [TP(topic, 0)]) == {}
        assert rig.groups.committed_by(groups[:1], []) == {groups[0]: {}}

    def test_commits_can_be_forgotten(self, rig: Rig) -> None:
        topic, group = rig.new_topic(2), rig.new_group()
        a, b = TP(topic, 0), TP(topic, 1)
        rig.groups.commit(group, {a: CommittedOffset(offset=1), b: CommittedOffset(offset=2)})
        told = rig.groups.forget(group, [a, NOWHERE])
        assert (told[a], error_name(told[NOWHERE])) == (None, "UnknownTopicOrPartitionError")
        assert rig.groups.committed(group) == {b: CommittedOffset(offset=2)}
        assert error_name(rig.groups.forget(rig.new_group(), [a])[a]) == "GroupIdNotFoundError"
        assert rig.groups.forget(group, []) == {}

    @pytest.mark.parametrize("protocol", ["classic", "consumer"])
    def test_a_live_group_forgets_a_topic_that_it_left(self, rig: Rig, protocol: str) -> None:
        if protocol not in rig.protocols:
            pytest.skip(f"no {protocol} groups here")
        old, new, group = TP(rig.new_topic(), 0), TP(rig.new_topic(), 0), rig.new_group()
        rig.groups.commit(group, {key: CommittedOffset(offset=0) for key in (old, new)})
        with rig.join(group, new.topic, protocol):
            eventually(rig, lambda: [one.partitions for one in described(rig, group).members] == [(new,)])
            told = rig.groups.forget(group, [old, new])
            assert (told[old], error_name(told[new])) == (None, "GroupSubscribedToTopicError")
            assert set(rig.groups.committed(group)) == {new}

    @pytest.mark.parametrize("protocol", ["classic", "consumer", "share"])
    def test_a_group_of_any_protocol_is_deleted_without_commits(self, rig: Rig, protocol: str) -> None:
        if protocol not in rig.protocols:
            pytest.skip(f"no {protocol} groups here")
        topic, group = rig.new_topic(), rig.new_group()
        with rig.join(group, topic, protocol):
            eventually(rig, lambda: described(rig, group).state is GroupState.STABLE)
            assert error_name(rig.groups.delete(group)) == "NonEmptyGroupError"
        eventually(rig, lambda: described(rig, group).state is GroupState.EMPTY)
        assert rig.groups.committed(group) == {}
        assert rig.groups.delete(group) is None
        eventually(rig, lambda: described(rig, group).state is GroupState.DEAD)

    def test_a_group_without_members_is_deleted_with_its_commits(self, rig: Rig) -> None:
        topic, group = rig.new_topic(), rig.new_group()
        assert error_name(rig.groups.delete(group)) == "GroupIdNotFoundError"
        rig.groups.commit(group, {TP(topic, 0): CommittedOffset(offset=1)})
        with rig.join(group, topic, "classic"):
            eventually(rig, lambda: described(rig, group).state is GroupState.STABLE)
            assert error_name(rig.groups.delete(group)) == "NonEmptyGroupError"
        eventually(rig, lambda: described(rig, group).state is GroupState.EMPTY)
        assert rig.groups.delete(group) is None
        assert rig.groups.committed(group) == {}
        assert described(rig, group).state is GroupState.DEAD
        assert rig.groups.commit(group, {TP(topic, 0): CommittedOffset(offset=2)}) == {TP(topic, 0): None}


class LogContract:
    def test_topics_have_ids_and_leaders(self, rig: Rig) -> None:
        topic = rig.new_topic(3)
        found = rig.log.places([topic, NOWHERE.topic, "../no name"])
        assert list(found) == [topic]
        assert sorted(found[topic].leaders) == [0, 1, 2]
        assert all(leader is not None for leader in found[topic].leaders.values())
        assert len(found[topic].topic_id) == len(NO_TOPIC_ID)
        assert found[topic].topic_id != NO_TOPIC_ID
        assert rig.log.places()[topic] == found[topic]
        assert rig.log.places([]) == {}
        assert rig.log.cluster_id()

    def test_a_span_grows_with_the_log(self, rig: Rig) -> None:
        topic = rig.new_topic(2)
        a, b = TP(topic, 0), TP(topic, 1)
        assert rig.log.spans([a, b]) == dict.fromkeys([a, b], LogSpan(start=0, stable=0, end=0))
        rig.append(a, [b"x"] * 3)
        found = rig.log.spans([a, b, TP(topic, 7), NOWHERE])
        assert found[a] == LogSpan(start=0, stable=3, end=3)
        assert found[b] == LogSpan(start=0, stable=0, end=0)
        assert error_name(found[TP(topic, 7)]) == error_name(found[NOWHERE]) == "UnknownTopicOrPartitionError"
        assert rig.log.spans([]) == {}

    def test_an_open_transaction_keeps_the_stable_offset_below_the_end(self, rig: Rig) -> None:
        key = TP(rig.new_topic(), 0)
        rig.append(key, [b"x"])
        end = rig.records_transaction(key, [b"y", b"z"])
        assert span(rig, key) == LogSpan(start=0, stable=1, end=3)
        answer = fetched(rig, {key: 1})[key]
        assert (answer.span.stable, answer.span.end) == (1, 3)
        assert headers(answer.records)[-1][1] == 2
        end(False)
        eventually(rig, lambda: span(rig, key) == LogSpan(start=0, stable=4, end=4))

    def test_a_reader_of_committed_data_stops_at_the_stable_offset_and_is_told_what_was_aborted(self, rig: Rig) -> None:
        key = TP(rig.new_topic(), 0)
        rig.append(key, [b"x"])
        end = rig.records_transaction(key, [b"y", b"z"])
        rig.append(key, [b"w"])
        assert committed(rig, key, 0) == (0, set())
        end(False)
        eventually(rig, lambda: committed(rig, key, 0) == (4, {1}))
        rig.records_transaction(key, [b"u"])(True)
        eventually(rig, lambda: committed(rig, key, 0) == (6, {1}))
        assert committed(rig, key, 2) == (6, {1}), "told to one who begins in its middle too"
        assert committed(rig, key, 5) == (6, set())
        assert rig.log.fetch({key: 2}, max_bytes=1 << 20, wait_ms=200)[key].aborted == ()

    def test_offsets_are_found_by_time(self, rig: Rig) -> None:
        topic = rig.new_topic(2)
        a, b = TP(topic, 0), TP(topic, 1)
        rig.append(a, [b"x"] * 5, step_ms=1000)
        for wait_ms, offset in ((0, 0), (1, 1), (1000, 1), (3999, 4), (4001, None)):
            assert rig.log.offsets_at({a: BASE_MS + wait_ms, b: BASE_MS}) == {a: offset, b: None}
        assert rig.log.offsets_at({a: -1}) == {a: 0}
        assert error_name(rig.log.offsets_at({NOWHERE: 0})[NOWHERE]) == "UnknownTopicOrPartitionError"

    def test_records_come_raw_from_the_batch_that_holds_the_offset(self, rig: Rig) -> None:
        topic = rig.new_topic(2)
        a, b = TP(topic, 0), TP(topic, 1)
        rig.append(a, [b"first"] * 3)
        rig.append(a, [b"second"] * 2)
        found = fetched(rig, {a: 4, b: 0})
        assert headers(found[a].records) == [(3, 4, 2)]
        assert b"second" in found[a].records
        assert found[a].span == LogSpan(start=0, stable=5, end=5)
        assert found[b] == FetchedBatches(records=b"", span=LogSpan(start=0, stable=0, end=0))
        assert headers(fetched(rig, {a: 0})[a].records) == [(0, 2, 3), (3, 4, 2)]

    def test_what_is_asked_ahead_comes_with_a_later_fetch(self, rig: Rig) -> None:
        topic = rig.new_topic(2)
        a, b = TP(topic, 0), TP(topic, 1)
        rig.append(a, [b"x"] * 2)
        rig.append(b, [b"y"] * 3)
        rig.log.request_ahead({a: 0, b: 0, NOWHERE: 0}, max_bytes=1 << 20, wait_ms=100)
        assert headers(fetched(rig, {a: 0})[a].records) == [(0, 1, 2)]
        # One from another offset is asked again, one from the same is not lost.
        assert fetched(rig, {a: 2})[a].records == b""
        assert headers(fetched(rig, {b: 0})[b].records) == [(0, 2, 3)]

    def test_at_the_end_there_is_nothing_and_beyond_it_an_error(self, rig: Rig) -> None:
        key = TP(rig.new_topic(), 0)
        rig.append(key, [b"x"] * 2)
        assert fetched(rig, {key: 2})[key] == FetchedBatches(records=b"", span=LogSpan(start=0, stable=2, end=2))
        assert error_name(fetched(rig, {key: 9})[key].error) == "OffsetOutOfRangeError"
        assert error_name(fetched(rig, {NOWHERE: 0})[NOWHERE].error) == "UnknownTopicOrPartitionError"
        assert rig.log.fetch({}, max_bytes=1, wait_ms=1) == {}

    def test_a_first_batch_comes_whole_however_little_is_asked_for(self, rig: Rig) -> None:
        key = TP(rig.new_topic(), 0)
        rig.append(key, [b"x" * 1000] * 3)
        rig.append(key, [b"y" * 1000] * 3)
        found = fetched(rig, {key: 0}, max_bytes=1, partition_bytes=1)[key]
        assert headers(found.records) == [(0, 2, 3)]

    def test_a_topic_that_was_created_again_is_noticed_once(self, rig: Rig) -> None:
        topic = rig.new_topic()
        key = TP(topic, 0)
        rig.append(key, [b"x"] * 5)
        before = rig.log.places([topic])[topic].topic_id
        assert fetched(rig, {key: 0})[key].records
        rig.recreate(topic)
        names = []
        for _ in range(1000):
            names.append(error_name(fetched(rig, {key: 0})[key].error))
            if names[-1] is None:
                break
            rig.pass_time()
        assert "UnknownTopicIdError" in names
        assert names[-1] is None
        assert rig.log.places([topic])[topic].topic_id != before
        assert span(rig, key) == LogSpan(start=0, stable=0, end=0)


def _offset(found: object) -> int | None:
    return found.offset if isinstance(found, CommittedOffset) else None
