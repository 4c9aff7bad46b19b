"""Real consumers and their sessions with an Assigner, over a control store and groups in memory.

The loop of Assigners.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from kafkakit.adapters.host import SystemClock
from kafkakit.core.errors import ConflictError, InputError, ServiceStoppedError, TerminationRequested, TryLaterError
from kafkakit.core.lease import Holder, Life, VersionedValue
from kafkakit.core.model import TopicPartition
from kafkakit.ports.streams import GroupConsumer
from kafkakit.streams.assigner.act.leader import AssignerLoop, AssignerReader
from kafkakit.streams.assigner.health import DRAINS_FOLDER, AssignerOptions
from kafkakit.streams.client.api import WorkerDocument, grant_path, worker_path
from kafkakit.streams.client.assigned_member import AssignedMember, GroupShare, WorkerOptions, WorkSession
from kafkakit.streams.client.consumer import StreamConsumer
from kafkakit.streams.client.dead_letters import ConsumerOptions
from kafkakit.streams.client.decide.partition_work import CommitRule
from kafkakit.streams.client.workers import StreamRecord
from kafkakit.streams.model.route import Route, Segment
from tests.fakes.admin import FakeClock
from tests.fakes.assigned_consumer import FakeAssignedConsumer
from tests.fakes.control import FakeControlStore
from tests.fakes.group_consumer import FakeGroups
from tests.rigs.assigner import moved, route, worker
from tests.rigs.assigner_loop import Papers, assigner
from tests.rigs.waiting import until

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


class Harness:
    """A store, a clock, Assigners and workers that beat with each tick."""

    def __init__(self, closing: ExitStack) -> None:
        self.store, self.clock = FakeControlStore(), FakeClock()
        self.papers = Papers(self.store)
        self.workers: dict[str, WorkerDocument] = {}
        self.silent: set[str] = set()
        self.said: list[str] = []
        self._closing = closing
        self.papers.put_route(route(12))

    def loop(self, name: str = "one", **options: Any) -> AssignerLoop:
        made = assigner(self.store, self.clock, name, say=self.said.append, **options)
        self._closing.callback(made.close)
        return made

    def add(self, *slots: str) -> None:
        for slot in slots:
            self.workers[slot] = worker(slot)
            self.papers.put_worker(slot, self.workers[slot])

    def tick(self, *loops: AssignerLoop, times: int = 1, seconds: float = 0.2) -> None:
        for _ in range(times):
            self.clock.advance(seconds)
            for slot in self.workers:
                if slot not in self.silent and self.store.get(worker_path(slot)) is not None:
                    self.workers[slot] = self.papers.beat(slot, self.workers[slot])
            for loop in loops:
                loop.tick()

    def counts(self) -> dict[str, int]:
        return {slot: self.papers.count(slot) for slot in self.workers}


@pytest.fixture
def stage() -> Iterator[Harness]:
    with ExitStack() as closing:
        found = Harness(closing)
        yield found
        found.store.away = False


def test_workers_get_their_shares(stage: Harness) -> None:
    loop = stage.loop()
    stage.add("a", "b", "c")
    stage.tick(loop, times=3)
    assert stage.counts() == {"a": 4, "b": 4, "c": 4}
    standing = AssignerReader(stage.store).standing()
    assert standing is not None
    assert (standing.workers, standing.partitions, standing.token) == (3, 12, 1)


def test_a_silent_worker_is_fenced_after_its_time_and_its_partitions_go_to_others(stage: Harness) -> None:
    loop = stage.loop()
    stage.add("a", "b", "c")
    stage.tick(loop, times=3)
    stage.silent.add("b")
    began_s = stage.clock.monotonic()
    while stage.papers.count("a") + stage.papers.count("c") < 12:
        stage.tick(loop)
        assert stage.clock.monotonic() < began_s + 2
    assert stage.clock.monotonic() - began_s >= 1.5
    assert stage.store.get(worker_path("b")) is None
    assert stage.store.get(grant_path("b")) is None


def test_a_worker_whose_process_is_gone_is_replaced_at_once(stage: Harness) -> None:
    gone: list[str] = []

    def life_of(holder: Holder) -> Life:
        return Life.GONE if gone and holder.command == "gone" else Life.UNKNOWN

    loop = stage.loop(life_of=life_of)
    stage.add("a", "b")
    stage.workers["b"] = worker("b")
    stage.tick(loop, times=3)

    stage.workers["b"] = replace(stage.workers["b"], holder=Holder(host="h", user="u", command="gone", pid=2))
    stage.tick(loop)
    stage.silent.add("b")
    gone.append("b")
    stage.tick(loop)
    assert stage.papers.count("a") == 12


def test_a_worker_that_writes_just_when_it_is_taken_for_dead_lives(
    stage: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = stage.loop()
    stage.add("a", "b")
    stage.tick(loop, times=3)
    stage.silent.add("b")
    delete = stage.store.delete

    def late(path: str, expected: int) -> None:
        if path == worker_path("b"):
            stage.workers["b"] = stage.papers.beat("b", stage.workers["b"])
        delete(path, expected)

    monkeypatch.setattr(stage.store, "delete", late)
    stage.tick(loop, times=9)
    assert stage.counts() == {"a": 6, "b": 6}


def test_a_worker_that_ended_in_order_is_replaced_at_once(stage: Harness) -> None:
    loop = stage.loop()
    stage.add("a", "b")
    stage.tick(loop, times=3)
    del stage.workers["b"]
    stage.papers.remove_worker("b")
    stage.tick(loop)
    assert stage.papers.count("a") == 12


@pytest.mark.parametrize("life", [Life.UNKNOWN, Life.ALIVE])
def test_another_assigner_waits_and_takes_over(stage: Harness, life: Life) -> None:
    """The first one hangs: its process may live, on this host or another one."""
    one, two = stage.loop("one"), stage.loop("two", life_of=lambda _: life)
    stage.add("a", "b")
    stage.tick(one, two, times=5)
    before = stage.counts()
    stage.tick(two, times=7)
    assert AssignerReader(stage.store).lease().token == 1  # type: ignore[union-attr]
    assert stage.said.count("waiting: another Assigner has the lease") == 1
    stage.tick(two, times=3)
    assert AssignerReader(stage.store).lease().token == 2  # type: ignore[union-attr]
    assert stage.counts() == before
    grants = AssignerReader(stage.store).grants()
    assert {each.token for each in grants.values()} == {2}
    # The first one comes back: it neither writes nor takes the lease from the second one.
    stage.tick(one, two, times=5)
    assert {each.token for each in AssignerReader(stage.store).grants().values()} == {2}


def test_a_tick_with_many_slow_reads_keeps_the_lease(stage: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(150):
        stage.papers.put_route(replace(route(1), stream=f"s{number}"))
    one, two = stage.loop("one"), stage.loop("two")
    stage.tick(one, two, times=2)
    get = stage.store.get

    def slow(path: str) -> VersionedValue | None:
        if path.startswith("streams/"):
            stage.clock.advance(0.05)
            two.tick()
        return get(path)

    monkeypatch.setattr(stage.store, "get", slow)
    stage.clock.advance(0.2)
    one.tick()
    monkeypatch.undo()
    assert AssignerReader(stage.store).lease().token == 1  # type: ignore[union-attr]


def test_what_an_earlier_assigner_still_sends_is_refused(stage: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = stage.loop("one"), stage.loop("two")
    stage.add("a", "b")
    stage.tick(one, times=3)
    sent: list[tuple[str, bytes, int | None]] = []
    cas = stage.store.cas

    def hangs(path: str, value: bytes, expected: int | None) -> int:
        if path.startswith("assigner/grants"):
            sent.append((path, value, expected))
            raise TryLaterError("no answer")
        return cas(path, value, expected)

    monkeypatch.setattr(stage.store, "cas", hangs)
    stage.add("c")
    stage.papers.put_route(moved(route(12), "b", 6))
    stage.tick(one, times=60)
    monkeypatch.setattr(stage.store, "cas", cas)
    assert sent
    stage.clock.advance(10)
    stage.tick(two, times=18)
    assert sum(stage.counts().values()) == 18
    for path, value, expected in sent:
        with pytest.raises(ConflictError):
            cas(path, value, expected)
    assert {each.token for each in AssignerReader(stage.store).grants().values()} == {2}


def test_a_store_that_is_away_changes_nothing_and_its_answers_may_be_lost(stage: Harness) -> None:
    loop = stage.loop()
    stage.add("a", "b")
    stage.tick(loop, times=3)
    before = stage.counts()
    stage.store.away = True
    for _ in range(30):
        stage.clock.advance(0.2)
        assert loop.tick() is None
    stage.store.away = False
    # Workers could not write either: the first look finds what was there before, and no worker dead.
    loop.tick()
    assert set(AssignerReader(stage.store).workers()) == {"a", "b"}
    stage.tick(loop, times=3)
    assert stage.counts() == before
    stage.add("c")
    stage.papers.put_route(moved(route(12), "b", 6))
    stage.store.lose_answers = 3
    for _ in range(12):
        stage.clock.advance(0.2)
        loop.tick()
        stage.store.lose_answers = 0
        stage.tick()
    assert sum(stage.counts().values()) == 18


def test_a_drained_worker_gives_all_to_others_and_its_request_ends_with_it(stage: Harness) -> None:
    loop = stage.loop()
    stage.add("a", "b")
    stage.tick(loop, times=3)
    stage.store.cas(f"{DRAINS_FOLDER}/id-b", b"me", None)
    stage.tick(loop, times=3)
    assert stage.counts() == {"a": 12, "b": 0}
    del stage.workers["b"]
    stage.papers.remove_worker("b")
    stage.tick(loop)
    assert stage.store.children(DRAINS_FOLDER) == ()


def test_a_new_worker_gets_its_share_after_a_quiet_time(stage: Harness) -> None:
    loop = stage.loop(options=AssignerOptions(balance_after_s=5))
    stage.add("a")
    stage.tick(loop, times=3)
    stage.add("b")
    stage.tick(loop, times=20)
    assert stage.counts() == {"a": 12, "b": 0}
    stage.tick(loop, times=60)
    assert 4 <= stage.papers.count("b") <= 7


def test_a_document_of_a_newer_version_ends_it(stage: Harness) -> None:
    loop = stage.loop()
    stage.store.cas(worker_path("x"), b'{"kafkakit":{"kind":"stream-worker","schema":9}}', None)
    with pytest.raises(InputError, match="newer"):
        stage.tick(loop)


def test_a_route_that_a_worker_knows_is_read_at_once(stage: Harness) -> None:
    loop = stage.loop()
    stage.add("a")
    stage.tick(loop, times=3)
    stage.papers.put_route(moved(route(12), "b", 3))
    stage.tick(loop, times=3)
    assert stage.counts() == {"a": 15}


def test_a_loop_that_is_stopped_says_so_and_gives_the_lease_back() -> None:
    store, clock = FakeControlStore(), FakeClock()

    def stop(seconds: float) -> None:
        clock.on_sleep.clear()
        raise TerminationRequested

    clock.on_sleep.append(stop)
    with pytest.raises(ServiceStoppedError, match=r"stopped \(SIGTERM\); what is granted stays granted"):
        assigner(store, clock).run()
    clock.on_sleep.append(stop)
    said = list[str]()
    with pytest.raises(ServiceStoppedError):
        assigner(store, clock, "two", say=said.append).run()
    assert any("in charge" in line for line in said), "the next one need not wait"
