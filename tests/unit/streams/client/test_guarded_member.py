"""The member that judges batches before it decodes them, over a log and a group in memory."""

import itertools
import struct
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import pytest

from kafkakit.core.cluster_facts import CommittedOffset, ItemError
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.streams import GroupConsumer, ReadBatch
from kafkakit.streams.client import guarded_member
from kafkakit.streams.client.guarded_member import GuardedMember
from kafkakit.streams.model.guarded_reads import VerdictKind
from kafkakit.streams.model.log_batches import Codec
from tests.clusters.streams_batches import Rec, batch, marker
from tests.contracts.group_consumer import GroupConsumerContract, Member
from tests.fakes.admin import FakeClock
from tests.fakes.group_consumer import FakeGroups
from tests.fakes.log_reader import FakeLogReader
from tests.rigs.bombs import batch_of, zstd_zeros

LIMIT = 1 << 20
PLACE, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
BOMB = batch_of(zstd_zeros(1 << 30), Codec.ZSTD, count=3)


class Clock(FakeClock):
    """Each look at it takes 5 ms: nothing else here takes time."""

    def monotonic(self) -> float:
        self.advance(0.005)
        return super().monotonic()


class Rig:
    """A group whose members read a log in memory; what the members themselves would read stays empty."""

    def __init__(self) -> None:
        self.groups, self.log, self.clock = FakeGroups(), FakeLogReader(), Clock()

    def new_topic(self, name: str, partitions: int) -> None:
        self.groups.make_topic(name, partitions)
        self.log.add_topic(name, partitions)

    def write(self, partition: TopicPartition, values: Collection[bytes]) -> None:
        self.log.append(partition, batch(0, [Rec(b"k", value) for value in values]))

    def open(self, group: str) -> GroupConsumer:
        return GuardedMember(self.groups.open(group), self.log.of_committed(), self.clock, limit_bytes=LIMIT)

    @contextmanager
    def joined(self) -> Iterator[Member]:
        member = Member(self.open("g"))
        member.client.subscribe(["orders"], member)
        yield member
        member.client.close(1)


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.new_topic("orders", 2)
    return made


class TestContract(GroupConsumerContract):
    @pytest.fixture
    def rig(self) -> Rig:
        return Rig()


def test_the_reader_of_the_log_is_closed_although_the_member_cannot_be(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OperationFailedError("no way")

    closed, member, log = list[bool](), rig.groups.open("g"), rig.log.of_committed()
    monkeypatch.setattr(member, "close", refuse)
    monkeypatch.setattr(log, "close", lambda: closed.append(True))
    with pytest.raises(OperationFailedError, match="no way"):
        GuardedMember(member, log, rig.clock, limit_bytes=LIMIT).close(1)
    assert closed == [True]


def stops(client: GroupConsumer, rig: Rig) -> list[ReadBatch]:
    """What polls bring that stands before a batch."""
    found = []
    for _ in range(20):
        found += [one for one in client.poll(100, 0.05) if one.unreadable]
        rig.clock.sleep(0.1)
    return found


def test_it_stands_before_a_bomb_until_it_is_passed_while_other_partitions_go_on(rig: Rig) -> None:
    rig.write(PLACE, [b"a", b"b"])
    rig.log.append(PLACE, BOMB)
    rig.write(PLACE, [b"c"])
    rig.write(OTHER, [b"x"])
    with rig.joined() as member:
        found = stops(member.client, rig)
        assert {(one.partition, one.next_offset, len(one.records)) for one in found} == {(PLACE, 2, 0)}
        assert 4 <= len(found) <= 8, "reported again every half second, until somebody acts"
        verdict = found[0].verdict
        assert verdict is not None
        assert (verdict.kind, verdict.start, verdict.end) == (VerdictKind.BOMB, 2, 5)
        assert found[0].unreadable.startswith("bomb: ")
        before = len(rig.log.fetches)
        rig.write(OTHER, [b"y"])
        member.until(lambda: member.values.get(OTHER, [])[-1:] == [b"y"])
        assert all(PLACE not in asked for asked in rig.log.fetches[before:]), "it was fetched again"
        member.client.seek(PLACE, verdict.end)
        member.until(lambda: member.next.get(PLACE) == 6)
        assert member.values[PLACE] == [b"c"]


def test_records_before_a_bomb_come_first(rig: Rig) -> None:
    rig.write(PLACE, [b"%d" % number for number in range(10)])
    rig.log.append(PLACE, BOMB)
    with rig.joined() as member:
        told = [one for _ in range(12) for one in member.client.poll(3, 0.05) if one.partition == PLACE]
    assert [one.offsets for one in told if one.records] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert [one.next_offset for one in told if one.records] == [3, 6, 9, 10]
    assert next(one.next_offset for one in told if one.unreadable) == 10


def test_transactions_count_once_they_are_committed(rig: Rig) -> None:
    producer, other = (7, 0), (8, 0)
    rig.write(PLACE, [b"a"])
    rig.log.append(PLACE, batch(0, [Rec(None, b"open")], transactional=True, producer=producer))
    rig.log.append(PLACE, batch(0, [Rec(None, b"no")], transactional=True, producer=other))
    rig.log.append(PLACE, marker(0, other, commits=False))
    rig.write(PLACE, [b"z"])
    with rig.joined() as member:
        for _ in range(10):
            member.poll()
        assert member.values[PLACE] == [b"a"]
        assert (member.next[PLACE], member.client.end_offset(PLACE)) == (1, 1)
        rig.log.append(PLACE, marker(0, producer, commits=True))
        member.until(lambda: member.next.get(PLACE) == 6)
        assert member.values[PLACE] == [b"a", b"open", b"z"]


def test_an_offset_that_is_gone_goes_on_at_the_start_of_the_log(rig: Rig) -> None:
    for number in range(6):
        rig.write(PLACE, [b"%d" % number])
    rig.log.trim(PLACE, 4)
    for gone in (2, 99):
        rig.groups.commits["g", PLACE] = CommittedOffset(offset=gone)
        with rig.joined() as member:
            member.until(lambda member=member: member.next.get(PLACE) == 6)  # type: ignore[misc]
            assert member.values[PLACE] == [b"4", b"5"]


def test_leaders_that_move_or_are_down_cost_their_partitions_a_while(rig: Rig) -> None:
    rig.log.log(OTHER).leader = 2
    rig.write(PLACE, [b"a"])
    rig.write(OTHER, [b"x"])
    with rig.joined() as member:
        rig.log.down.add(2)
        rig.log.log(PLACE).moved = True
        member.until(lambda: member.values.get(PLACE) == [b"a"])
        for _ in range(10):
            member.poll()
        assert OTHER not in member.next
        rig.log.down.clear()
        member.until(lambda: member.values.get(OTHER) == [b"x"])
        rig.log.unreachable = True
        member.client._log.unreachable = True  # type: ignore[attr-defined]
        rig.write(PLACE, [b"b"])
        for _ in range(10):
            member.poll()
        member.client._log.unreachable = False  # type: ignore[attr-defined]
        member.until(lambda: member.values[PLACE] == [b"a", b"b"])


def test_missing_rights_end_it(rig: Rig) -> None:
    with rig.joined() as member:
        member.until(lambda: member.owned)
        log = member.client._log  # type: ignore[attr-defined]
        denied = ItemError(name="TopicAuthorizationFailedError", message="not permitted")
        log._fault = lambda key: denied
        with pytest.raises(OperationFailedError, match="cannot read orders: not permitted"):
            member.until(lambda: False)


def test_answers_that_were_full_are_asked_for_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_member, "FETCH_BYTES", 300)
    monkeypatch.setattr(guarded_member, "PARTITION_BYTES", 250)
    for number in range(40):
        rig.write(PLACE, [b"%d" % number * 20])
        rig.write(OTHER, [b"%d" % number * 20])
    with rig.joined() as member:
        member.until(lambda: member.next.get(PLACE) == member.next.get(OTHER) == 40)
        assert member.values[PLACE] == member.values[OTHER] == [b"%d" % number * 20 for number in range(40)]


def test_what_was_read_ahead_is_kept_over_a_pause_and_dropped_with_the_partition(rig: Rig) -> None:
    rig.write(PLACE, [b"%d" % number for number in range(10)])
    with rig.joined() as member:
        member.until(lambda: member.owned)
        (first,) = (one for one in member.client.poll(4, 0.0) if one.partition == PLACE)
        assert first.offsets == [0, 1, 2, 3]
        member.client.pause([PLACE])
        for _ in range(5):
            member.poll()
        assert PLACE not in member.values
        before = len(rig.log.fetches)
        member.client.resume([PLACE])
        (second,) = (one for one in member.client.poll(100, 0.0) if one.partition == PLACE)
        assert second.offsets == list(range(4, 10))
        assert len(rig.log.fetches) == before
        with rig.joined() as other:
            member.until(lambda: member.gone and other.owned, other)
            (moved,) = other.owned
            member.values.clear()
            rig.write(moved, [b"new"])
            other.until(lambda: other.values.get(moved, [])[-1:] == [b"new"], member)
            assert moved not in member.values
            assert member.client.end_offset(moved) is None
            # Calls that come late for a partition that is gone change nothing.
            member.client.seek(moved, 0)
            member.client.pause([moved])
            member.client.resume([moved])


def test_old_formats_are_never_passed_by_itself(rig: Rig) -> None:
    old = bytearray(batch(0, [Rec(None, b"old")]))
    old[16] = 1
    rig.log.append(PLACE, bytes(old))
    with rig.joined() as member:
        found = stops(member.client, rig)
    assert {(one.next_offset, one.verdict) for one in found} == {(0, None)}
    assert "message format 1" in found[0].unreadable


def test_partitions_take_turns(rig: Rig) -> None:
    for key, _ in itertools.product((PLACE, OTHER), range(5)):
        rig.write(key, [b"v"] * 20)
    with rig.joined() as member:
        member.until(lambda: len(member.owned) == 2)
        got: list[TopicPartition] = []
        while len(got) < 6:
            got += [one.partition for one in member.client.poll(20, 0.0) if one.records]
    assert abs(got.count(PLACE) - got.count(OTHER)) <= 1


def test_how_far_it_came_is_told_once(rig: Rig) -> None:
    rig.write(PLACE, [b"a"])
    with rig.joined() as member:
        member.until(lambda: (member.next.get(PLACE), member.next.get(OTHER)) == (1, 0))
        assert [one for _ in range(20) for one in member.client.poll(100, 0.0)] == []
        rig.log.append(PLACE, marker(0, (7, 0), commits=True))
        member.until(lambda: member.next[PLACE] == 2)


def test_a_damaged_batch_is_reported_after_the_records_before_it(rig: Rig) -> None:
    bad = bytearray(batch(0, [Rec(b"k", b"c"), Rec(b"k", b"d")]))
    bad[61 + 3] ^= 0x40
    rig.write(PLACE, [b"a"])
    rig.log.append(PLACE, struct.pack(">q", 1) + bytes(bad[8:]))
    rig.write(PLACE, [b"e"])
    with rig.joined() as member:
        seen = [one for _ in range(10) for one in member.client.poll(100, 0.0) if one.partition == PLACE]
        assert seen[0].offsets == [0]
        stop = next(one for one in seen if one.unreadable)
        assert stop.verdict is not None
        assert (stop.verdict.kind, stop.verdict.start, stop.verdict.end) == (VerdictKind.CORRUPT, 1, 3)
        member.client.seek(PLACE, stop.verdict.end)
        member.until(lambda: member.values.get(PLACE) == [b"e"])
