"""A member that reads by the Assigner's word.

Documents of workers and grants, and what a worker measures of itself.
"""

from collections.abc import Collection, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.errors import InputError, TryLaterError, UsageError
from kafkakit.core.lease import Holder
from kafkakit.core.model import TopicPartition
from kafkakit.ports.streams import AssignedConsumer, GroupConsumer
from kafkakit.streams.client.assigned_member import (
    FENCED,
    AssignedMember,
    GroupShare,
    WorkerMeter,
    WorkerOptions,
    WorkSession,
)
from kafkakit.streams.client.decide.client_documents import (
    GRANT_DOCUMENT,
    ROUND_BITS,
    WORKER_DOCUMENT,
    GrantDocument,
    GrantedPartition,
    GrantedTopic,
    Subscription,
    WorkerDocument,
    WorkerReading,
    epoch_of,
    leases_on,
)
from kafkakit.streams.client.decide.partition_work import CommitRule, restore_commit
from kafkakit.streams.model.commit import CommitState, OffsetRanges, Writer
from kafkakit.streams.model.kkm1.encode import encode_commit
from tests.contracts.assigned_consumer import AssignedConsumerContract
from tests.fakes.admin import FakeClock
from tests.fakes.assigned_consumer import FakeAssignedConsumer
from tests.fakes.control import FakeControlStore
from tests.fakes.group_consumer import FakeGroups

TOPIC_ID = "00010203-0405-0607-0809-0a0b0c0d0e0f"
PLACE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
HOLDER = Holder(host="h", user="u", command="c", pid=1)


class FakeRig:
    def __init__(self) -> None:
        self.groups = FakeGroups()

    def new_topic(self, name: str, partitions: int) -> None:
        self.groups.make_topic(name, partitions)

    def write(self, partition: TopicPartition, values: Collection[bytes]) -> None:
        self.groups.write(partition, [*values])

    def open(self, group: str) -> GroupConsumer:
        return self.groups.open(group)

    def open_assigned(self, group: str) -> AssignedConsumer:
        return FakeAssignedConsumer(self.groups, group)


class TestFake(AssignedConsumerContract):
    @pytest.fixture
    def rig(self) -> FakeRig:
        return FakeRig()


class Member:
    """One worker's member on a cluster, and what its listener was told."""

    def __init__(self, groups: FakeGroups, clock: FakeClock, name: bytes, *, rule: CommitRule | None = None) -> None:
        self.clock = clock
        session = WorkSession(FakeControlStore(), HOLDER, clock, lambda n: name * n, WorkerOptions())
        self.session = session
        self.share = GroupShare(session, "orders", "g", None, lambda: 1)
        self.consumer = FakeAssignedConsumer(groups, "g")
        self.member = AssignedMember(self.consumer, self.share, "c1", clock, rule or CommitRule())
        self.member.subscribe(["t"], self)
        self.owned: dict[TopicPartition, CommittedOffset | None] = {}
        self.revokes: list[TopicPartition] = []
        self.losses: list[TopicPartition] = []

    def grant(self, epochs: Mapping[int, int], number: int = 1) -> None:
        partitions = tuple(GrantedPartition(p, e) for p, e in epochs.items())
        topic = GrantedTopic(
            stream="orders", group="g", cluster_id="c1", topic="t", topic_id=TOPIC_ID, partitions=partitions
        )
        self.session.grant = GrantDocument(worker=self.session.id, token=1, round=number, topics=(topic,))

    def poll(self) -> None:
        self.clock.advance(0.6)
        self.member.poll(100, 0.0)

    def commit(self, offset: int) -> str:
        """As the reader does: with the epoch of its lease."""
        return self.member.commit({PLACE: self.made(offset)}, 1.0)[PLACE]

    def made(self, offset: int) -> CommittedOffset:
        epoch = self.member.lease(PLACE).epoch
        return commit_of(offset, self.share.worker, epoch)

    def assigned(self, committed: Mapping[TopicPartition, CommittedOffset | None]) -> None:
        self.owned.update(committed)

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.revokes += partitions
        for partition in partitions:
            self.owned.pop(partition, None)

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        self.losses += partitions
        for partition in partitions:
            self.owned.pop(partition, None)

    def committed(self, results: Mapping[TopicPartition, str]) -> None:
        pass


def identity() -> object:
    document = GrantDocument(
        worker="",
        token=1,
        round=1,
        topics=(
            GrantedTopic(
                stream="s",
                group="g",
                cluster_id="c1",
                topic="t",
                topic_id=TOPIC_ID,
                partitions=(GrantedPartition(0, 1),),
            ),
        ),
    )
    return leases_on(document, "s", "g", "c1")[PLACE].identity


IDENTITY = identity()


def commit_of(offset: int, worker: str, epoch: int, done: OffsetRanges | None = None) -> CommittedOffset:
    from zlib import crc32

    state = CommitState(
        base=offset, done=done or OffsetRanges(), writer=Writer(member_hash=crc32(worker.encode()), generation=epoch)
    )
    encoded = encode_commit(state, IDENTITY, limit_chars=4095, alphabets=("b",))  # type: ignore[arg-type]
    return CommittedOffset(offset=offset, metadata=encoded.text)


def state_in(groups: FakeGroups) -> CommitState:
    return restore_commit(groups.commits["g", PLACE], IDENTITY).state  # type: ignore[arg-type]


@pytest.fixture
def groups() -> FakeGroups:
    found = FakeGroups()
    found.make_topic("t", 2)
    found.write(PLACE, [b"%d" % n for n in range(10)])
    return found


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def epoch_in(groups: FakeGroups) -> int:
    writer = state_in(groups).writer
    assert writer is not None
    return writer.generation


def test_a_partition_is_claimed_with_its_epoch_before_the_listener_is_told(
    groups: FakeGroups, clock: FakeClock
) -> None:
    one = Member(groups, clock, b"1")
    one.poll()
    assert one.owned == {}
    one.grant({0: 7})
    one.poll()
    assert epoch_in(groups) == 7
    assert [commit.offset for commit in one.owned.values() if commit] == [0]
    assert one.member.lease(PLACE).epoch == 7
    assert one.commit(3) == ""
    assert (state_in(groups).base, epoch_in(groups)) == (3, 7)


def test_what_is_done_beyond_the_offset_survives_a_claim(groups: FakeGroups, clock: FakeClock) -> None:
    done = OffsetRanges.of([(4, 6)])
    groups.commits["g", PLACE] = commit_of(2, "earlier", 3, done)
    one = Member(groups, clock, b"1")
    one.grant({0: 7})
    one.poll()
    assert state_in(groups).done == done
    assert epoch_in(groups) == 7


def test_a_later_owner_keeps_an_earlier_one_out(groups: FakeGroups, clock: FakeClock) -> None:
    groups.commits["g", PLACE] = commit_of(5, "later", 9)
    one = Member(groups, clock, b"1")
    one.grant({0: 7})
    one.poll()
    assert one.owned == {}
    assert epoch_in(groups) == 9
    assert one.session.held == {}


def test_an_owner_gives_up_what_a_later_one_claimed_and_commits_nothing_over_it(
    groups: FakeGroups, clock: FakeClock
) -> None:
    one, two = Member(groups, clock, b"1"), Member(groups, clock, b"2")
    one.grant({0: 7})
    one.poll()
    two.grant({0: 8})
    two.poll()
    assert PLACE in two.owned
    clock.advance(60)  # the first one stood still, and its commit was made before
    assert one.commit(5) == FENCED
    assert one.losses == [PLACE]
    assert (state_in(groups).base, epoch_in(groups)) == (0, 8)
    assert one.member.lease(PLACE).until_s < clock.monotonic()


def test_a_late_commit_of_an_earlier_owner_is_written_over(groups: FakeGroups, clock: FakeClock) -> None:
    one, two = Member(groups, clock, b"1"), Member(groups, clock, b"2")
    one.grant({0: 7})
    one.poll()
    late = one.made(1)
    two.grant({0: 8})
    two.poll()
    assert two.commit(4) == ""
    groups.commits["g", PLACE] = late  # it was on its way all the time
    for _ in range(3):
        two.poll()
    assert (state_in(groups).base, epoch_in(groups)) == (4, 8)
    assert PLACE in two.owned


def test_what_is_granted_no_more_is_committed_and_let_go(groups: FakeGroups, clock: FakeClock) -> None:
    one = Member(groups, clock, b"1")
    one.grant({0: 7, 1: 7})
    one.poll()
    assert len(one.session.held) == 2
    one.grant({1: 7}, 2)
    one.poll()
    assert one.revokes == [PLACE]
    assert len(one.session.held) == 1
    assert set(one.consumer.positions) == {OTHER}


def test_a_grant_of_another_epoch_is_another_one(groups: FakeGroups, clock: FakeClock) -> None:
    one = Member(groups, clock, b"1")
    one.grant({0: 7})
    one.poll()
    one.grant({0: 12}, 2)
    one.poll()
    assert one.revokes == [PLACE]
    assert one.member.lease(PLACE).epoch == 12
    assert epoch_in(groups) == 12


def test_a_partition_may_be_handled_while_the_store_or_the_cluster_says_so(
    groups: FakeGroups, clock: FakeClock
) -> None:
    one = Member(groups, clock, b"1")
    one.grant({0: 7})
    one.poll()
    groups.is_away = True
    clock.advance(10)
    assert one.member.lease(PLACE).until_s < clock.monotonic()
    one.session.held_until_s = clock.monotonic() + 1
    assert one.member.lease(PLACE).until_s > clock.monotonic()
    one.session.held_until_s = float("-inf")
    groups.is_away = False
    one.poll()
    assert one.member.lease(PLACE).until_s > clock.monotonic()


def test_a_silent_cluster_is_noted_and_an_answer_takes_it_back(groups: FakeGroups, clock: FakeClock) -> None:
    one = Member(groups, clock, b"1")
    one.grant({0: 7})
    one.poll()
    assert one.session.answers["c1"][1] is False
    groups.is_away = True
    for _ in range(5):
        with pytest.raises(TryLaterError):  # the reader's poll itself
            one.poll()
    assert one.session.answers["c1"][1] is True
    groups.is_away = False
    one.poll()
    one.poll()
    assert one.session.answers["c1"][1] is False


def test_members_of_kafkas_group_keep_it_out(groups: FakeGroups, clock: FakeClock) -> None:
    plain = groups.open("g")
    one = Member(groups, clock, b"1")
    plain.subscribe(["t"], one)
    one.grant({0: 7})
    with pytest.raises(TryLaterError, match="group g has members"):
        one.poll()
    plain.close(0.0)
    one.poll()
    assert PLACE in one.owned


names = st.text("abc.-_", min_size=1, max_size=20)
topics = st.builds(
    GrantedTopic,
    stream=names,
    group=names,
    cluster_id=names,
    topic=names,
    topic_id=st.just(TOPIC_ID),
    partitions=st.lists(
        st.builds(GrantedPartition, st.integers(0, 9999), st.integers(0, 1 << 60)), max_size=5
    ).map(tuple),
)  # fmt: skip
subscriptions = st.builds(
    Subscription,
    stream=names,
    group=names,
    lanes=st.lists(names, max_size=3).map(tuple),
    epoch=st.integers(0, 1 << 40),
    is_grouped=st.booleans(),
)


@given(st.lists(topics, max_size=4), st.integers(0, 1 << 60))
def test_a_grant_is_read_as_it_was_written(found: list[GrantedTopic], number: int) -> None:
    document = GrantDocument(worker="w", token=3, round=number, topics=tuple(found))
    assert GRANT_DOCUMENT.decode(GRANT_DOCUMENT.encode(document), "x") == document


@given(st.lists(subscriptions, max_size=4))
def test_a_worker_is_read_as_it_was_written(found: list[Subscription]) -> None:
    document = WorkerDocument(
        id="w", beat=1, ttl_s=1.5, holder=HOLDER, capacity=7, zone="z", subscriptions=tuple(found), silent=("c",)
    )
    assert WORKER_DOCUMENT.decode(WORKER_DOCUMENT.encode(document), "x") == document


@pytest.mark.parametrize("data", [b"{}", b'{"kafkakit":{"kind":"stream-grant","schema":2}}', b"\xff", b"[1]"])
def test_what_is_no_grant_is_refused(data: bytes) -> None:
    with pytest.raises(InputError):
        GRANT_DOCUMENT.decode(data, "x")
    with pytest.raises(InputError):
        WORKER_DOCUMENT.decode(data, "x")


@given(st.integers(1, 1 << 30), st.integers(0, (1 << ROUND_BITS) - 1), st.integers(0, (1 << ROUND_BITS) - 1))
def test_a_later_token_has_greater_epochs(token: int, one: int, other: int) -> None:
    assert epoch_of(token, one) < epoch_of(token + 1, other)


def test_only_what_is_of_the_group_and_the_cluster_counts() -> None:
    def topic(group: str, cluster_id: str) -> GrantedTopic:
        return GrantedTopic(
            stream="s",
            group=group,
            cluster_id=cluster_id,
            topic="t",
            topic_id=TOPIC_ID,
            partitions=(GrantedPartition(1, 5),),
        )

    document = GrantDocument(worker="w", token=1, round=1, topics=(topic("g", "a"), topic("h", "a"), topic("g", "b")))
    found = leases_on(document, "s", "g", "a")
    assert [(lease.identity.group, lease.identity.cluster_id, lease.epoch) for lease in found.values()] == [
        ("g", "a", 5)
    ]
    assert leases_on(None, "s", "g", "a") == {}


@pytest.mark.parametrize("given", [{"capacity": 0}, {"beat_s": 1.0, "ttl_s": 1.5}, {"fallback_s": 0}, {"ttl_s": 601}])
def test_options_without_sense_are_refused(given: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        WorkerOptions(**given)  # type: ignore[arg-type]


def test_the_meter_averages_over_two_seconds() -> None:
    clock, figures = FakeClock(), {"cpu": 1.0, "handled": 0}
    meter = WorkerMeter(clock, lambda: figures["cpu"], lambda: 77, lambda: int(figures["handled"]))
    assert meter.read() == WorkerReading()
    clock.advance(4)
    figures.update(cpu=3.0, handled=1000)
    assert meter.read() == WorkerReading(cpu=0.5, memory_bytes=77, records_per_s=250.0)
    figures.update(cpu=9.0)
    assert meter.read().cpu == 0.5
