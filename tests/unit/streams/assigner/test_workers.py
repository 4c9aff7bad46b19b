"""Real consumers and their sessions with an Assigner, over a control store and groups in memory."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from kafkakit.adapters.host import SystemClock
from kafkakit.core.lease import Holder
from kafkakit.core.model import TopicPartition
from kafkakit.ports.streams import GroupConsumer
from kafkakit.streams.assigner.act.leader import AssignerLoop, AssignerOptions, AssignerReader
from kafkakit.streams.client.assigned_member import AssignedMember, GroupShare, WorkerOptions, WorkSession
from kafkakit.streams.client.consumer import StreamConsumer
from kafkakit.streams.client.dead_letters import ConsumerOptions
from kafkakit.streams.client.decide.partition_work import CommitRule
from kafkakit.streams.client.workers import StreamRecord
from kafkakit.streams.model.route import Route, Segment
from tests.fakes.assigned_consumer import FakeAssignedConsumer
from tests.fakes.control import FakeControlStore
from tests.fakes.group_consumer import FakeGroups
from tests.rigs.assigner import moved, route
from tests.rigs.assigner_loop import Papers, assigner

LIMIT_S = 120.0
PATIENT = WorkerOptions(beat_s=0.1, ttl_s=60, fallback_s=60)
HASTY = WorkerOptions(beat_s=0.1, ttl_s=0.5, fallback_s=1.0)
"""For tests in which a lease ends or a group is joined, which a slow machine does elsewhere, too."""
HASTY_S = 0.6
TOPIC_ID = "00010203-0405-0607-0809-0a0b0c0d0e{:02x}"


def with_ids(found: Route) -> Route:
    """The route with ids that commits can be bound to."""

    def fixed(segment: Segment) -> Segment:
        return replace(segment, topic_id=TOPIC_ID.format(segment.id))

    lane = found.lanes[0]
    return replace(found, lanes=(replace(lane, segments=tuple(map(fixed, lane.segments))),))


class Fleet:
    """Workers with a consumer each, on clusters `a` and `b`, and what all of them handled."""

    def __init__(self) -> None:
        self.options = PATIENT
        self.store, self.clock = FakeControlStore(), SystemClock()
        self.papers = Papers(self.store)
        self.route = with_ids(route(6))
        self.papers.put_route(self.route)
        self.clusters = {"a-id": FakeGroups(), "b-id": FakeGroups()}
        self.clusters["a-id"].make_topic("orders.live.1", 6)
        self.handled: Counter[bytes] = Counter()
        self.by: dict[str, Counter[bytes]] = {}
        self.lock = threading.Lock()
        self.stack = ExitStack()
        self.consumers: dict[str, StreamConsumer] = {}
        self.sessions: dict[str, WorkSession] = {}
        self.grouped: set[str] = set()

    def worker(self, name: str) -> None:
        holder = Holder(host=name, user="u", command="worker", pid=1)
        # A worker's ids are its name, so that they tell it from others here.
        numbers = iter(range(1, 100))

        def random_bytes(count: int) -> bytes:
            return (name.encode() + b"%02d" % next(numbers)).ljust(count, b"-")[-count:]

        session = WorkSession(self.store, holder, self.clock, random_bytes, self.options)
        share = GroupShare(session, "orders", "g", None, lambda: self.route.epoch)

        def open_member(profile: str, group: str) -> GroupConsumer:
            cluster_id = f"{profile}-id"
            if share.is_grouped:
                self.grouped.add(name)
                return self.clusters[cluster_id].open(group)
            consumer = FakeAssignedConsumer(self.clusters[cluster_id], group)
            return AssignedMember(consumer, share, cluster_id, self.clock, CommitRule())

        counts = self.by[name] = Counter()

        def handle(record: StreamRecord) -> None:
            with self.lock:
                counts[record.value or b""] += 1
                self.handled[record.value or b""] += 1

        consumer = StreamConsumer(
            group="g",
            route=lambda: self.route,
            open_member=open_member,
            clock=self.clock,
            handler=handle,
            options=ConsumerOptions(commit_every_s=0.05, concurrency=2, close_s=1.0, revoke_s=1.0),
            share=share,
        )
        self.consumers[name], self.sessions[name] = consumer, session
        consumer.start()
        self.stack.callback(session.close)
        self.stack.callback(consumer.close)

    def assigner(self, name: str = "one", ttl_s: float = 60) -> Callable[[], None]:
        """Run one until the function that is returned is called, which ends it as SIGKILL does."""
        loop: AssignerLoop = assigner(
            self.store, self.clock, name, options=AssignerOptions(tick_s=0.05, lease_ttl_s=ttl_s, balance_after_s=0.5)
        )
        ended = threading.Event()

        def work() -> None:
            while not ended.is_set():
                loop.tick()
                ended.wait(0.05)

        thread = threading.Thread(target=work)
        thread.start()

        def end() -> None:
            ended.set()
            thread.join()
            loop._follow_clusters({}, {})

        self.stack.callback(end)
        return end

    def write(self, numbers: range, cluster: str = "a-id", topic: str = "orders.live.1") -> None:
        for number in numbers:
            self.clusters[cluster].write(TopicPartition(topic, number % 6), [b"%d" % number])

    def all_handled(self, count: int) -> Callable[[], bool]:
        return lambda: len(self.handled) == count

    def held(self) -> dict[str, int]:
        return {name: len(consumer.figures().partitions) for name, consumer in self.consumers.items()}


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    found = Fleet()
    with found.stack:
        yield found


def until(check: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_workers_share_the_partitions_and_each_record_is_handled_once(fleet: Fleet) -> None:
    fleet.assigner()
    for name in "abc":
        fleet.worker(name)
    until(lambda: sorted(fleet.held().values()) == [2, 2, 2])
    fleet.write(range(600))
    until(fleet.all_handled(600))
    assert set(fleet.handled.values()) == {1}
    assert all(fleet.by.values())
    assert not fleet.grouped


def test_a_worker_that_ends_and_one_that_comes_lose_no_record(fleet: Fleet) -> None:
    fleet.assigner()
    for name in "ab":
        fleet.worker(name)
    until(lambda: sum(fleet.held().values()) == 6)
    fleet.write(range(300))
    fleet.consumers["a"].close()
    fleet.sessions["a"].close()
    fleet.write(range(300, 600))
    until(fleet.all_handled(600))
    fleet.worker("c")
    until(lambda: fleet.held().get("c", 0) >= 2)
    fleet.write(range(600, 900))
    until(fleet.all_handled(900))


def test_both_segments_are_read_after_a_failover(fleet: Fleet) -> None:
    fleet.assigner()
    for name in "ab":
        fleet.worker(name)
    until(lambda: sum(fleet.held().values()) == 6)
    fleet.clusters["b-id"].make_topic("orders.live.2", 6)
    fleet.route = with_ids(moved(route(6), "b", 6))
    fleet.papers.put_route(fleet.route)
    fleet.write(range(100))
    fleet.write(range(100, 400), "b-id", "orders.live.2")
    until(fleet.all_handled(400))
    assert sum(fleet.held().values()) == 12


def test_a_worker_that_loses_the_store_is_fenced_by_the_next_owner(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.options = HASTY
    fleet.assigner()
    for name in "ab":
        fleet.worker(name)
    until(lambda: sorted(fleet.held().values()) == [3, 3])
    fleet.write(range(60))
    until(fleet.all_handled(60))
    first = fleet.sessions["a"].id

    def no_store(*_: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(fleet.sessions["a"], "_turn", no_store)
    until(lambda: fleet.held() == {"a": 0, "b": 6})
    fleet.write(range(60, 120))
    until(fleet.all_handled(120))
    assert not any(int(value) >= 60 for value in fleet.by["a"])
    monkeypatch.undo()
    until(lambda: min(fleet.held().values()) >= 2)
    assert fleet.sessions["a"].id != first


def test_workers_go_on_without_an_assigner_and_another_one_takes_over(fleet: Fleet) -> None:
    end = fleet.assigner("one", HASTY_S)
    for name in "ab":
        fleet.worker(name)
    until(lambda: sorted(fleet.held().values()) == [3, 3])
    end()
    tokens = {each.token for each in AssignerReader(fleet.store).grants().values()}
    fleet.write(range(300))
    until(fleet.all_handled(300))
    fleet.assigner("two")
    until(lambda: min(each.token for each in AssignerReader(fleet.store).grants().values()) > max(tokens))
    fleet.write(range(300, 600))
    until(fleet.all_handled(600))
    assert set(fleet.handled.values()) == {1}
    assert sorted(fleet.held().values()) == [3, 3]


def test_the_store_may_be_away(fleet: Fleet) -> None:
    fleet.options = HASTY
    fleet.assigner(ttl_s=HASTY_S)
    for name in "ab":
        fleet.worker(name)
    until(lambda: sorted(fleet.held().values()) == [3, 3])
    fleet.store.away = True
    time.sleep(2.5)  # longer than any lease and every look lasts
    fleet.write(range(300))
    until(fleet.all_handled(300))
    fleet.store.away = False
    fleet.write(range(300, 600))
    until(fleet.all_handled(600))
    assert set(fleet.handled.values()) == {1}


def test_without_an_assigner_kafkas_group_is_joined_until_there_is_one(fleet: Fleet) -> None:
    fleet.options = HASTY
    for name in "ab":
        fleet.worker(name)
    fleet.write(range(300))
    until(fleet.all_handled(300))
    until(lambda: fleet.grouped == {"a", "b"})
    fleet.assigner()
    until(lambda: not any(fleet.clusters["a-id"].members.values()))
    until(lambda: sorted(fleet.held().values()) == [3, 3])
    fleet.write(range(300, 600))
    until(fleet.all_handled(600))
