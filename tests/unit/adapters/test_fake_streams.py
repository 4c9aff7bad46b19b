"""The fakes of streams keep the promises that real brokers are tested for."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from kafkakit.core.cluster_facts import CommittedOffset, GroupType
from kafkakit.core.errors import TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.data import GroupAdmin, LogReader
from tests.clusters.streams_batches import Rec, batch, marker
from tests.contracts.streams import BASE_MS, TP, GroupsContract, LogContract, error_name, fetched
from tests.fakes.groups import FakeGroups
from tests.fakes.log_reader import FakeLogReader


class FakeRig:
    """Both fakes as `tests.contracts.streams.Rig`."""

    protocols: tuple[str, ...] = ("classic", "consumer", "share")

    def __init__(self) -> None:
        self.fake_groups = FakeGroups()
        self.fake_log = FakeLogReader()
        self.groups: GroupAdmin = self.fake_groups
        self.log: LogReader = self.fake_log
        self.committed_log: LogReader = self.fake_log.of_committed()
        self._numbers = itertools.count()

    def new_topic(self, partitions: int = 1) -> str:
        name = f"topic-{next(self._numbers)}"
        self.fake_groups.add_topic(name, partitions)
        self.fake_log.add_topic(name, partitions)
        return name

    def recreate(self, topic: str) -> None:
        self.fake_log.add_topic(topic, len(self.fake_log.places([topic])[topic].leaders))

    def new_group(self) -> str:
        return f"group-{next(self._numbers)}"

    def append(self, partition: TopicPartition, values: Sequence[bytes], step_ms: int = 0) -> None:
        records = [Rec(None, value, delta_ms=number * step_ms) for number, value in enumerate(values)]
        self.fake_log.append(partition, batch(0, records, base_ms=BASE_MS))
        self.fake_groups.append(partition, len(values))

    @contextmanager
    def join(self, group: str, topic: str, protocol: str) -> Iterator[None]:
        kept = self.fake_groups.committed(group, stable=False)
        held = self.fake_groups.add_group(group, kind=GroupType(protocol))
        held.offsets |= {key: one for key, one in kept.items() if isinstance(one, CommittedOffset)}
        self.fake_groups.join(group, *(TP(topic, p) for p in self.fake_log.places([topic])[topic].leaders))
        yield
        self.fake_groups.leave(group)

    def offsets_transaction(self, group: str, commits: Mapping[TopicPartition, int]) -> Callable[[bool], object]:
        for key, offset in commits.items():
            self.fake_groups.open_transaction(group, key, offset)
        return lambda commit: self.fake_groups.end_transaction(group, commit=commit)

    def records_transaction(self, partition: TopicPartition, values: Sequence[bytes]) -> Callable[[bool], object]:
        producer = (next(self._numbers), 0)
        records = [Rec(None, value) for value in values]
        self.fake_log.append(partition, batch(0, records, transactional=True, producer=producer))
        return lambda commit: self.fake_log.append(partition, marker(0, producer, commits=commit))

    def pass_time(self) -> None:
        """Nothing is ever late here."""


@pytest.fixture
def rig() -> FakeRig:
    return FakeRig()


class TestFakeGroups(GroupsContract):
    def test_a_member_can_join_before_a_commit_is_judged(self, rig: FakeRig) -> None:
        key = TP(rig.new_topic(), 0)
        rig.fake_groups.seed("late", key, 5)
        rig.fake_groups.on_commit = lambda group: rig.fake_groups.join(group, key)
        told = rig.groups.commit("late", {key: CommittedOffset(offset=1)})
        assert error_name(told[key]) == "UnknownMemberIdError"
        assert rig.fake_groups.commits == []

    def test_a_cluster_out_of_reach_raises(self, rig: FakeRig) -> None:
        rig.fake_groups.unreachable = rig.fake_log.unreachable = True
        with pytest.raises(TryLaterError):
            rig.groups.groups()
        with pytest.raises(TryLaterError):
            rig.log.cluster_id()

    def test_a_lost_coordinator_costs_its_group_alone(self, rig: FakeRig) -> None:
        key = TP(rig.new_topic(), 0)
        rig.fake_groups.seed("here", key, 1)
        rig.fake_groups.seed("gone", key, 1)
        rig.fake_groups.lost.add("gone")
        found = rig.groups.describe(["here", "gone"])
        assert (error_name(found["here"]), error_name(found["gone"])) == (None, "CoordinatorNotAvailableError")
        assert error_name(rig.groups.forget("gone", [key])[key]) == "CoordinatorNotAvailableError"
        with pytest.raises(TryLaterError):
            rig.groups.committed("gone")


class TestFakeLog(LogContract):
    def test_a_leader_that_is_down_costs_its_partitions_alone(self, rig: FakeRig) -> None:
        topic = rig.new_topic(2)
        a, b = TP(topic, 0), TP(topic, 1)
        rig.append(a, [b"x"])
        rig.fake_log.log(b).leader = 2
        rig.fake_log.down.add(2)
        found = fetched(rig, {a: 0, b: 0})
        assert found[a].records
        assert error_name(found[b].error) == "KafkaTimeoutError"
        assert error_name(rig.log.spans([b])[b]) == "KafkaTimeoutError"

    def test_a_slow_leader_answers_one_fetch_later(self, rig: FakeRig) -> None:
        topic = rig.new_topic(2)
        a, b = TP(topic, 0), TP(topic, 1)
        rig.append(a, [b"x"])
        rig.append(b, [b"y"])
        rig.fake_log.log(b).leader = 2
        rig.fake_log.slow.add(2)
        first = rig.log.fetch({a: 0, b: 0}, max_bytes=1 << 20, wait_ms=0)
        assert (first[a].answered, first[b].answered) == (True, False)
        assert rig.log.fetch({b: 0}, max_bytes=1 << 20, wait_ms=0)[b].records

    def test_a_moved_leader_answers_once_with_an_error(self, rig: FakeRig) -> None:
        key = TP(rig.new_topic(), 0)
        rig.append(key, [b"x"])
        rig.fake_log.log(key).moved = True
        assert error_name(fetched(rig, {key: 0})[key].error) == "NotLeaderForPartitionError"
        assert fetched(rig, {key: 0})[key].records

    def test_what_retention_dropped_is_out_of_range(self, rig: FakeRig) -> None:
        key = TP(rig.new_topic(), 0)
        rig.append(key, [b"x"] * 3)
        rig.append(key, [b"y"] * 3)
        rig.fake_log.trim(key, 4)
        assert error_name(fetched(rig, {key: 2})[key].error) == "OffsetOutOfRangeError"
        assert rig.log.offsets_at({key: 0}) == {key: 4}
        assert fetched(rig, {key: 4})[key].span.start == 4

    def test_compaction_leaves_holes(self, rig: FakeRig) -> None:
        key = TP(rig.new_topic(), 0)
        rig.fake_log.place(key, batch(5, [Rec(b"k", b"v")]), batch(9, [Rec(b"k", b"v")]))
        assert fetched(rig, {key: 6})[key].span.end == 10
        assert rig.log.offsets_at({key: 0}) == {key: 5}
