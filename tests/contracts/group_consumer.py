"""What `ports.stream_consumer.GroupConsumer` promises, as tests that run against the fake and against real brokers."""

import itertools
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Protocol

import pytest

from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import OutgoingRecord
from kafkakit.ports.streams import GroupConsumer, ReadBatch, TransactionalConsumer

_names = itertools.count()
WIDE = "\u4e00"
LIMIT_S = 180.0


class Rig(Protocol):
    """A cluster with topics, and members of groups."""

    def new_topic(self, name: str, partitions: int) -> None: ...

    def write(self, partition: TopicPartition, values: Collection[bytes]) -> None: ...

    def open(self, group: str) -> GroupConsumer: ...


class Member:
    """A member with a listener that keeps what it is told."""

    def __init__(self, client: GroupConsumer) -> None:
        self.client = client
        self.owned: dict[TopicPartition, CommittedOffset | None] = {}
        self.values: dict[TopicPartition, list[bytes]] = {}
        self.next: dict[TopicPartition, int] = {}
        self.answers: list[Mapping[TopicPartition, str]] = []
        self.gone: list[TopicPartition] = []
        self.before_revoked: Callable[[], object] = lambda: None

    def assigned(self, committed: Mapping[TopicPartition, CommittedOffset | None]) -> None:
        self.owned.update(committed)

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.before_revoked()
        self.gone += partitions
        for partition in partitions:
            self.owned.pop(partition, None)

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        self.revoked(partitions)

    def committed(self, results: Mapping[TopicPartition, str]) -> None:
        self.answers.append(results)

    def poll(self, limit: int = 100) -> None:
        for batch in self.client.poll(limit, 0.05):
            self.keep(batch)

    def keep(self, batch: ReadBatch) -> None:
        self.values.setdefault(batch.partition, []).extend(record.value() or b"" for record in batch.records)
        self.next[batch.partition] = batch.next_offset

    def until(self, check: Callable[[], object], *others: "Member") -> None:
        deadline = time.monotonic() + LIMIT_S
        while not check():
            assert time.monotonic() < deadline, (self.owned, self.next)
            for member in (self, *others):
                member.poll()


class GroupConsumerContract:
    @pytest.fixture
    def place(self, rig: Rig) -> TopicPartition:
        topic = f"group-contract-{next(_names)}"
        rig.new_topic(topic, 1)
        return TopicPartition(topic, 0)

    @pytest.fixture
    def join(self, rig: Rig, place: TopicPartition) -> Iterator[Callable[..., Member]]:
        members: list[Member] = []

        def joined(*topics: str) -> Member:
            member = Member(rig.open(f"g-{place.topic}"))
            members.append(member)
            member.client.subscribe(topics or [place.topic], member)
            return member

        yield joined
        for member in members:
            member.client.close(LIMIT_S)

    def test_without_a_commit_it_reads_from_the_start_to_the_end(
        self, rig: Rig, place: TopicPartition, join: Callable[..., Member]
    ) -> None:
        rig.write(place, [b"a", b"b", b"c"])
        member = join()
        member.until(lambda: member.next.get(place) == 3)
        assert member.owned == {place: None}
        assert member.values == {place: [b"a", b"b", b"c"]}
        assert member.client.member_id()

    def test_an_empty_partition_has_an_end_too(self, place: TopicPartition, join: Callable[..., Member]) -> None:
        member = join()
        member.until(lambda: member.next.get(place) == 0)

    @pytest.mark.parametrize("metadata", ["", "~bAA", "~b" + "x" * 4093, WIDE * 4095])
    def test_commits_with_metadata_are_what_the_next_member_gets(
        self, rig: Rig, place: TopicPartition, join: Callable[..., Member], metadata: str
    ) -> None:
        rig.write(place, [b"a", b"b", b"c"])
        member = join()
        member.until(lambda: member.owned)
        commit = CommittedOffset(offset=2, metadata=metadata)
        assert member.client.commit({place: commit}, LIMIT_S) == {place: ""}
        member.client.close(LIMIT_S)
        after = join()
        after.until(lambda: after.next.get(place) == 3)
        assert after.owned == {place: commit}
        assert after.values == {place: [b"c"]}

    def test_metadata_above_the_limit_are_refused_for_their_partition(
        self, rig: Rig, place: TopicPartition, join: Callable[..., Member]
    ) -> None:
        rig.write(place, [b"a"])
        member = join()
        member.until(lambda: member.owned)
        assert member.client.commit({place: CommittedOffset(offset=1, metadata="x" * 4096)}, LIMIT_S) == {
            place: "OFFSET_METADATA_TOO_LARGE"
        }
        member.client.close(LIMIT_S)
        after = join()
        after.until(lambda: after.owned)
        assert after.owned == {place: None}

    def test_the_answer_to_a_commit_comes_with_a_poll(
        self, rig: Rig, place: TopicPartition, join: Callable[..., Member]
    ) -> None:
        rig.write(place, [b"a"])
        member = join()
        member.until(lambda: member.owned)
        member.client.commit_later({place: CommittedOffset(offset=1, metadata="m")})
        member.until(lambda: member.answers)
        assert member.answers == [{place: ""}]

    def test_only_the_latest_commit_is_answered(
        self, rig: Rig, place: TopicPartition, join: Callable[..., Member]
    ) -> None:
        rig.write(place, [b"a", b"b"])
        member = join()
        member.until(lambda: place in member.owned)
        member.client.commit_later({place: CommittedOffset(offset=1, metadata="first")})
        assert member.client.commit({place: CommittedOffset(offset=1, metadata="waited for")}, LIMIT_S) == {place: ""}
        member.client.commit_later({place: CommittedOffset(offset=2, metadata="x" * 5_000)})
        member.until(lambda: member.answers)
        assert member.answers == [{place: "OFFSET_METADATA_TOO_LARGE"}]

    def test_a_member_that_is_dropped_tells_nothing_more(
        self, rig: Rig, place: TopicPartition, join: Callable[..., Member]
    ) -> None:
        rig.write(place, [b"a"])
        member = join()
        member.until(lambda: place in member.owned)
        member.client.close(0)
        after = join()
        after.until(lambda: place in after.owned)
        assert not member.gone

    def test_a_log_that_ends_before_the_commit_is_read_from_its_start(
        self, rig: Rig, place: TopicPartition, join: Callable[..., Member]
    ) -> None:
        rig.write(place, [b"a", b"b"])
        member = join()
        member.until(lambda: place in member.owned)
        assert member.client.commit({place: CommittedOffset(offset=50, metadata="")}, LIMIT_S) == {place: ""}
        member.client.close(LIMIT_S)
        after = join()
        after.until(lambda: len(after.values.get(place, ())) == 2)
        assert after.values[place] == [b"a", b"b"]
        assert after.client.end_offset(place) == 2

    def test_pause_resume_and_seek(self, rig: Rig, place: TopicPartition, join: Callable[..., Member]) -> None:
        rig.write(place, [b"a", b"b"])
        member = join()
        member.until(lambda: member.next.get(place) == 2)
        member.client.pause([place])
        rig.write(place, [b"c"])
        for _ in range(5):
            member.poll()
        assert member.values[place] == [b"a", b"b"]
        member.client.resume([place])
        member.until(lambda: member.next.get(place) == 3)
        member.client.seek(place, 1)
        member.until(lambda: len(member.values[place]) == 5)
        assert member.values[place] == [b"a", b"b", b"c", b"b", b"c"]
        assert member.client.end_offset(place) == 3

    def test_a_partition_that_comes_back_is_read_although_it_was_paused(
        self, rig: Rig, place: TopicPartition, join: Callable[..., Member]
    ) -> None:
        """Whoever reads it knows nothing of a pause that was before."""
        other = TopicPartition(f"{place.topic}-other", 0)
        rig.new_topic(other.topic, 1)
        rig.write(place, [b"a"])
        member = join(place.topic, other.topic)
        member.until(lambda: member.next.get(place) == 1 and other in member.owned)
        member.client.pause([place])
        member.client.subscribe([other.topic], member)
        member.until(lambda: place in member.gone)
        rig.write(place, [b"b"])
        member.client.subscribe([place.topic, other.topic], member)
        member.until(lambda: member.values[place][-1] == b"b")

    def test_what_is_committed_while_partitions_are_revoked_counts(self, rig: Rig, join: Callable[..., Member]) -> None:
        topic = f"group-contract-{next(_names)}"
        rig.new_topic(topic, 2)
        places = [TopicPartition(topic, number) for number in range(2)]
        for place in places:
            rig.write(place, [b"a", b"b", b"c"])
        first = join(topic)
        first.until(lambda: set(first.next.values()) == {3} and len(first.next) == 2)
        answers: list[Mapping[TopicPartition, str]] = []
        commits = {place: CommittedOffset(offset=2, metadata="late") for place in places}
        first.before_revoked = lambda: answers.append(first.client.commit(commits, LIMIT_S))
        second = join(topic)
        first.until(lambda: len(first.gone) == 1 and second.owned, second)
        (place,) = first.gone
        assert answers[0][place] == ""
        assert second.owned == {place: CommittedOffset(offset=2, metadata="late")}
        first.until(lambda: second.values.get(place), second)
        assert second.values[place] == [b"c"]

    def test_topics_can_be_replaced(self, rig: Rig, place: TopicPartition, join: Callable[..., Member]) -> None:
        other = TopicPartition(f"group-contract-{next(_names)}", 0)
        rig.new_topic(other.topic, 1)
        rig.write(other, [b"z"])
        member = join()
        member.until(lambda: place in member.owned)
        member.client.subscribe([place.topic, other.topic], member)
        member.until(lambda: member.values.get(other))
        member.client.subscribe([other.topic], member)
        member.until(lambda: list(member.owned) == [other])
        assert member.gone == [place]


class WritingRig(Rig, Protocol):
    """A cluster whose members write in transactions."""

    def open_writing(self, group: str) -> TransactionalConsumer: ...

    def written(self, topic: str) -> list[bytes]:
        """What a reader of committed data gets of a topic with one partition, up to its end."""
        ...

    def committed(self, group: str, place: TopicPartition) -> CommittedOffset | None:
        """What the next member would begin with."""
        ...

    def remove_members(self, group: str) -> None:
        """Take every member out of the group, without their knowing."""
        ...


class TransactionContract:
    """What `TransactionalConsumer` adds."""

    @pytest.fixture
    def place(self, rig: WritingRig, request: pytest.FixtureRequest) -> TopicPartition:
        place = TopicPartition(f"read-{next(_names)}", 0)
        rig.new_topic(place.topic, 1)
        rig.new_topic(f"{place.topic}-out", 1)
        rig.write(place, [b"1", b"2"])
        return place

    @pytest.fixture
    def writer(self, rig: WritingRig, place: TopicPartition) -> Iterator["Writer"]:
        found = Writer(rig, place)
        yield found
        found.member.client.close(LIMIT_S)

    def test_records_and_commits_are_there_together(self, writer: "Writer") -> None:
        assert writer.write(b"a", b"b", offset=1, metadata="first") == ""
        assert writer.write(offset=2, metadata=WIDE) == ""
        assert writer.write(b"c", offset=2) == ""
        assert writer.seen() == ([b"a", b"b", b"c"], CommittedOffset(offset=2))

    def test_a_commit_that_is_refused_takes_the_records_back(self, writer: "Writer") -> None:
        assert writer.write(b"a", offset=1, metadata="x") == ""
        assert writer.write(b"b", offset=2, metadata="x" * 5_000) == "OFFSET_METADATA_TOO_LARGE"
        assert writer.seen() == ([b"a"], CommittedOffset(offset=1, metadata="x"))
        assert writer.write(b"c", offset=2, metadata="y") == ""
        assert writer.seen() == ([b"a", b"c"], CommittedOffset(offset=2, metadata="y"))

    def test_a_member_that_the_group_left_behind_writes_nothing(self, rig: WritingRig, writer: "Writer") -> None:
        assert writer.write(b"a", offset=1) == ""
        rig.remove_members(writer.place.topic)
        assert writer.write(b"b", offset=2) != ""
        assert writer.seen() == ([b"a"], CommittedOffset(offset=1))


class Writer:
    """A member that has its partition, and what others see of it."""

    def __init__(self, rig: WritingRig, place: TopicPartition) -> None:
        self.rig, self.place, self.topic = rig, place, f"{place.topic}-out"
        self.client = rig.open_writing(place.topic)
        self.member = Member(self.client)
        self.client.subscribe([place.topic], self.member)
        self.member.until(lambda: self.member.values.get(place) == [b"1", b"2"])

    def write(self, *values: bytes, offset: int, metadata: str = "") -> str:
        records = [OutgoingRecord(value, None, (("n", b"1"),)) for value in values]
        commit = CommittedOffset(offset=offset, metadata=metadata)
        return self.client.write_and_commit(self.topic, records, {self.place: commit}, LIMIT_S)

    def seen(self) -> tuple[list[bytes], CommittedOffset | None]:
        return self.rig.written(self.topic), self.rig.committed(self.place.topic, self.place)
