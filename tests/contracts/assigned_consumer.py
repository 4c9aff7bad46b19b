"""What `ports.stream_consumer.AssignedConsumer` promises, as tests that run against the fake and real brokers."""

import itertools
import time
from collections.abc import Collection, Iterator
from typing import Protocol

import pytest

from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.model import TopicPartition
from kafkakit.ports.streams import AssignedConsumer, GroupConsumer
from tests.contracts.group_consumer import Member

_names = itertools.count()
LIMIT_S = 180.0


class AssignedRig(Protocol):
    """A cluster with topics, and readers and members of groups."""

    def new_topic(self, name: str, partitions: int) -> None: ...

    def write(self, partition: TopicPartition, values: Collection[bytes]) -> None: ...

    def open(self, group: str) -> GroupConsumer: ...

    def open_assigned(self, group: str) -> AssignedConsumer: ...


class AssignedConsumerContract:
    @pytest.fixture
    def group(self) -> str:
        return f"assigned-{time.time_ns()}-{next(_names)}"

    @pytest.fixture
    def places(self, rig: AssignedRig) -> list[TopicPartition]:
        topic = f"assigned-{time.time_ns()}-{next(_names)}"
        rig.new_topic(topic, 2)
        for partition in (0, 1):
            rig.write(TopicPartition(topic, partition), [b"%d" % n for n in range(5)])
        return [TopicPartition(topic, 0), TopicPartition(topic, 1)]

    @pytest.fixture
    def client(self, rig: AssignedRig, group: str) -> Iterator[AssignedConsumer]:
        found = rig.open_assigned(group)
        yield found
        found.close(1.0)

    def read(self, client: AssignedConsumer, count: int) -> list[tuple[int, int]]:
        """Partition and offset of so many records."""
        found: list[tuple[int, int]] = []
        deadline = time.monotonic() + LIMIT_S
        while len(found) < count:
            assert time.monotonic() < deadline
            for batch in client.poll(100, 0.05):
                found += [(batch.partition.partition, offset) for offset in batch.offsets]
        return sorted(found)

    def test_reads_from_the_offsets_that_are_given(
        self, client: AssignedConsumer, places: list[TopicPartition]
    ) -> None:
        client.assign({places[0]: 3})
        assert self.read(client, 2) == [(0, 3), (0, 4)]
        client.assign({places[1]: 4})
        assert self.read(client, 1) == [(1, 4)]
        client.unassign([places[0]])
        client.seek(places[1], 2)
        assert self.read(client, 3) == [(1, 2), (1, 3), (1, 4)]

    def test_what_one_commits_another_one_reads(
        self, rig: AssignedRig, client: AssignedConsumer, group: str, places: list[TopicPartition]
    ) -> None:
        assert client.committed(places, LIMIT_S) == dict.fromkeys(places)
        assert client.start_offset(places[0], LIMIT_S) == 0
        assert client.commit({places[0]: CommittedOffset(offset=2, metadata="~b")}, LIMIT_S) == {places[0]: ""}
        other = rig.open_assigned(group)
        found = other.committed(places, LIMIT_S)
        assert found[places[1]] is None
        commit = found[places[0]]
        assert commit is not None
        assert (commit.offset, commit.metadata.rstrip("\0")) == (2, "~b")
        assert other.commit({places[0]: CommittedOffset(offset=1)}, LIMIT_S) == {places[0]: ""}
        other.close(1.0)
        back = client.committed(places, LIMIT_S)[places[0]]
        assert back is not None
        assert back.offset == 1

    def test_answers_to_later_commits_come_to_the_listener(
        self, client: AssignedConsumer, group: str, places: list[TopicPartition], rig: AssignedRig
    ) -> None:
        listener = Member(rig.open(group))
        client.listen(listener)
        client.assign({places[0]: 0})
        client.commit_later({places[0]: CommittedOffset(offset=4)})
        deadline = time.monotonic() + LIMIT_S
        while not listener.answers:
            assert time.monotonic() < deadline
            client.poll(100, 0.05)
        assert listener.answers == [{places[0]: ""}]
        listener.client.close(0.0)

    def test_a_group_with_members_takes_no_commits(
        self, rig: AssignedRig, client: AssignedConsumer, group: str, places: list[TopicPartition]
    ) -> None:
        member = Member(rig.open(group))
        member.client.subscribe([places[0].topic], member)
        deadline = time.monotonic() + LIMIT_S
        while len(member.owned) < 2:
            assert time.monotonic() < deadline
            member.poll()
        answers = client.commit({places[0]: CommittedOffset(offset=2)}, LIMIT_S)
        assert answers == {places[0]: "UNKNOWN_MEMBER_ID"}
        member.client.close(5.0)
