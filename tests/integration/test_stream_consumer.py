"""The consumer of a stream on real brokers: killed members, rebalances, poison, dead letters, routes that change."""

import asyncio
import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kafkakit.streams.client.dead_letters import ConsumerHooks, RejectedRecord
from kafkakit.streams.client.decide.figures import ConsumerState
from kafkakit.streams.client.decide.work_rules import (
    DependencyDownError,
    Mode,
    RejectError,
    RetryRule,
    WorkLimits,
    WorkRules,
)
from kafkakit.streams.client.workers import StreamRecord
from tests.integration.conftest import LeaseClusters, SandboxCluster
from tests.integration.stream_rig import RETRY, MemberProcess, StreamRig
from tests.rigs.cluster_pool import SINGLE
from tests.rigs.waiting import WAIT_S, until

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def broker(lease: LeaseClusters) -> SandboxCluster:
    return lease(SINGLE)[0]


class Seen:
    """Counts records by number; safe for handlers in threads."""

    def __init__(self) -> None:
        self.lock, self.numbers = threading.Lock(), Counter[int]()

    def __call__(self, record: StreamRecord) -> None:
        with self.lock:
            self.numbers[int(record.value or b"-1")] += 1


@pytest.mark.parametrize("mode", Mode)
def test_killed_members_lose_nothing_and_repeat_what_their_commits_foretell(
    broker: SandboxCluster, tmp_path: Path, mode: Mode
) -> None:
    rig = StreamRig(broker, f"killed-{mode}")
    (segment,) = rig.segments["live"]
    rig.write(segment, range(1, 4_001))
    member = MemberProcess(rig=rig, group="billing", trace=tmp_path / "trace", options={"mode": mode, "poison": 500})
    budget, chosen = 0, random.Random(19)
    for _ in range(4):
        before = len(member.lines("done"))
        wanted = chosen.randrange(50, 700)
        # However long this process pauses, there is something left for the next life.
        member.start(most=wanted + 250)
        aim = before + wanted
        until(lambda aim=aim: len(member.lines("done")) >= aim, "the member handles nothing")  # type: ignore[misc]
        member.kill()
        states = rig.committed("billing", segment)
        for (partition, offset), count in member.handled().items():
            state = states[partition]
            is_done = offset < state.base or offset in state.done
            assert count
            budget += not is_done
        for partition, state in states.items():
            over = {offset for place, offset in member.handled() if place == partition}
            dead = {offset for _, place, offset in member.lines("dead") if place == partition}
            # A commit never says more than what happened.
            assert set(range(state.base)) <= over | dead
            marked = {offset for mark in state.marks for offset in range(mark.start, mark.end)}
            assert {o for start, end in state.done for o in range(start, end)} <= over | dead | marked
    ends, more = rig.ends(segment), (n for n in itertools.count(4_001) if n % 500)

    def comes_to_the_end() -> bool:
        """What always fails is rejected between others that are handled: some come later, as they do in use."""
        number = next(more)
        rig.write(segment, range(number, number + 1))
        committed = rig.committed("billing", segment)
        return all(n in committed and committed[n].base >= end for n, end in ends.items())

    member.start()
    until(comes_to_the_end, "the member does not come to the end")
    member.end()
    handled = member.handled()
    numbers = {int(number) for number, _, _ in member.lines("done")}
    assert {n for n in numbers if n <= 4_000} == {n for n in range(1, 4_001) if n % 500}
    assert {int(number) for number, _, _ in member.lines("dead")} == set(range(500, 4_001, 500))
    assert sum(count - 1 for count in handled.values()) <= budget


def test_a_member_that_joins_during_retries_repeats_nothing(broker: SandboxCluster) -> None:
    rig = StreamRig(broker, "joined", partitions=4)
    (segment,) = rig.segments["live"]
    rig.write(segment, range(3_000))
    seen, failed = Seen(), Seen()

    def handle(record: StreamRecord) -> None:
        number = int(record.value or b"0")
        if number % 11 == 0 and failed.numbers[number] < 2:
            failed(record)
            raise ValueError("not yet")
        time.sleep(0.002)
        seen(record)

    first = rig.member("joined", handler=handle, concurrency=4)
    second = rig.member("joined", handler=handle, concurrency=4)
    with first:
        until(lambda: len(seen.numbers) > 200, "nothing is handled")
        with second:
            until(lambda: second.figures().partitions, "the second member gets nothing")
            until(lambda: len(seen.numbers) == 3_000, "records are missing")
            until(
                lambda: sum(len(member.figures().partitions) for member in (first, second)) == 4,
                "partitions are missing",
            )
    assert set(seen.numbers.values()) == {1}
    assert {n: s.base for n, s in rig.committed("joined", segment).items()} == rig.ends(segment)


def test_poison_goes_to_the_dead_letters_while_others_go_on(broker: SandboxCluster) -> None:
    rig = StreamRig(broker, "poison")
    (segment,) = rig.segments["live"]
    rig.write(segment, range(5_000))
    seen, dead = Seen(), list[RejectedRecord]()
    is_down = threading.Event()
    is_down.set()

    def handle(record: StreamRecord) -> None:
        if int(record.value or b"0") % 101 == 99:
            raise ValueError("poison")
        if int(record.value or b"0") == 50:
            raise RejectError("never")
        seen(record)

    def reject(rejected: RejectedRecord) -> None:
        if is_down.is_set():
            raise OSError("the lane is away")
        dead.append(rejected)

    work = WorkRules(mode=Mode.KEY, retry=RETRY)
    with rig.member("poison", handler=handle, work=work, hooks=ConsumerHooks(reject=reject)) as member:
        until(lambda: member.figures().dead_letters_failed > 1, "the lane was not tried")
        time.sleep(1.5)  # a commit or more: it may not pass what is not durable
        committed = rig.committed("poison", segment)
        assert not dead
        assert committed[0].base <= 25, "50 is the 25th record of partition 0, and durable nowhere"
        is_down.clear()
        until(lambda: len(seen.numbers) + len(dead) == 5_000, "not all came")
        until(
            lambda: {n: s.base for n, s in rig.committed("poison", segment).items()} == rig.ends(segment),
            "the end is not committed",
        )
    assert {int(one.record.value or b"0") for one in dead} == {50, *range(99, 5_000, 101)}
    assert {one.reason for one in dead} == {"handler", "max-tries"}
    assert min(one.tries for one in dead if one.reason == "max-tries") == 3
    assert set(seen.numbers.values()) == {1}


def test_an_outage_moves_nothing_away_and_costs_no_tries(broker: SandboxCluster) -> None:
    rig = StreamRig(broker, "outage")
    (segment,) = rig.segments["live"]
    rig.write(segment, range(1_000))
    seen, dead, down = Seen(), list[RejectedRecord](), threading.Event()
    down.set()

    def handle(record: StreamRecord) -> None:
        if down.is_set():
            if int(record.value or b"0") % 2:
                raise DependencyDownError("database")
            raise ConnectionError("the same, by a handler that does not know")
        seen(record)

    work = WorkRules(mode=Mode.UNORDERED, retry=RetryRule(first_ms=10, max_ms=100, max_tries=2))
    with rig.member("outage", handler=handle, work=work, hooks=ConsumerHooks(reject=dead.append)) as member:
        until(lambda: member.figures().total("waiting") >= 900, "nothing waits")
        until(lambda: "database" in member.figures().dependencies_down, "the dependency is not known")
        down.clear()
        until(lambda: len(seen.numbers) + len(dead) == 1_000, "not all came")
        assert member.figures().dependencies_down == ()
    assert dead == []
    assert set(seen.numbers.values()) == {1}


@pytest.mark.parametrize("mode", Mode)
def test_a_bad_record_in_each_key_stops_nobody(broker: SandboxCluster, mode: Mode) -> None:
    rig = StreamRig(broker, f"each-{mode}", partitions=2)
    (segment,) = rig.segments["live"]
    rig.write(segment, range(2_000))
    seen, dead, bad = Seen(), Seen(), range(400, 420)

    def handle(record: StreamRecord) -> None:
        if int(record.value or b"0") in bad:
            raise ValueError("never")
        seen(record)

    hooks = ConsumerHooks(reject=lambda rejected: dead(rejected.record))
    work = WorkRules(mode=mode, retry=RETRY, limits=WorkLimits(records=300))
    with rig.member("each", handler=handle, work=work, hooks=hooks) as member:
        until(
            lambda: len(seen.numbers) + len(dead.numbers) == 2_000,
            "it stands",
            seen=lambda: (len(seen.numbers), dead.numbers, member.figures().problems),
        )
    assert set(dead.numbers) == set(bad)


@pytest.mark.parametrize("mode", Mode)
def test_all_records_move_again_after_an_outage_beside_bad_ones(broker: SandboxCluster, mode: Mode) -> None:
    rig = StreamRig(broker, f"again-{mode}", partitions=1)
    (segment,) = rig.segments["live"]
    seen, dead, failed, down = Seen(), Seen(), Seen(), threading.Event()

    def handle(record: StreamRecord) -> None:
        if int(record.value or b"0") < 2 or down.is_set():
            failed(record)
            raise ValueError("no")
        seen(record)

    hooks = ConsumerHooks(reject=lambda rejected: dead(rejected.record))
    with rig.member("again", handler=handle, work=WorkRules(mode=mode, retry=RETRY), hooks=hooks) as member:
        rig.write(segment, range(2))
        until(lambda: set(failed.numbers.values()) and max(failed.numbers.values()) > 3, "they are not out of tries")
        problems = member.figures().problems
        assert any("nothing was handled since" in text for text in problems), problems
        down.set()
        rig.write(segment, range(2, 102))
        tried = sum(failed.numbers.values())
        until(lambda: sum(failed.numbers.values()) > tried + 10, "nothing is tried")
        assert not dead.numbers
        down.clear()
        good = set(range(2, 102))
        until(lambda: good <= {*seen.numbers, *dead.numbers}, "records wait", seen=lambda: (seen.numbers, dead.numbers))
        # With an order, those that were tried just before the outage ended may be dead letters: see the documentation.
        assert mode is not Mode.UNORDERED or not good & set(dead.numbers)
        more = itertools.count(102)

        def all_are_dead() -> bool:
            number = next(more)
            rig.write(segment, range(number, number + 1))
            return {0, 1} <= set(dead.numbers)

        until(all_are_dead, "the bad ones wait", seen=member.figures)


def test_the_route_is_followed(broker: SandboxCluster) -> None:
    rig = StreamRig(broker, "followed")
    (old,) = rig.segments["live"]
    rig.write(old, range(500))
    seen = Seen()
    with rig.member("followed", handler=seen) as member:
        until(lambda: len(seen.numbers) == 500, "the first segment is not read")
        new = rig.add_segment("live")
        rig.write(new, range(500, 1_000))
        rig.write(old, range(1_000, 1_100))
        until(lambda: len(seen.numbers) == 1_100, "both segments are to be read")
        rig.retire(old)
        until(
            lambda: {one.partition.topic for one in member.figures().partitions} == {new.topic},
            "the retired segment is still held",
        )
        rig.write(new, range(1_100, 1_200))
        until(lambda: len(seen.numbers) == 1_200, "the new segment is not read")
    assert set(seen.numbers.values()) == {1}
    assert {n: s.base for n, s in rig.committed("followed", new).items()} == rig.ends(new)
    epochs = {s.route.epoch for s in rig.committed("followed", new).values() if s.route is not None}
    assert epochs == {rig.epoch}


def test_a_window_is_handled_again_while_live_goes_on(broker: SandboxCluster) -> None:
    rig = StreamRig(broker, "again", partitions=1)
    (segment,) = rig.segments["live"]
    rig.write(segment, range(1_000))
    seen = Seen()
    with rig.member("again", handler=seen) as member:
        until(lambda: len(seen.numbers) == 1_000, "nothing is read")
        (figures,) = member.figures().partitions
        member.replay(figures.partition, 100, 300, request_id=7)
        rig.write(segment, range(1_000, 1_100))
        until(lambda: sum(seen.numbers.values()) == 1_300, "the window is not read")
    assert {number for number, count in seen.numbers.items() if count == 2} == set(range(100, 300))
    assert {n: s.base for n, s in rig.committed("again", segment).items()} == rig.ends(segment)


def test_what_lies_between_two_times_is_handled_again(broker: SandboxCluster) -> None:
    """By the times of records, of each partition by its own offsets, and once for a request."""
    rig = StreamRig(broker, "timed")
    (segment,) = rig.segments["live"]
    start = datetime.now(UTC) - timedelta(minutes=30)
    rig.write_keyed(segment, [(number, number % 20) for number in range(600)], lambda number: start_ms(start) + number)
    seen = Seen()
    with rig.member("timed", handler=seen) as member:
        until(lambda: len(seen.numbers) == 600, "nothing is read")
        moments = [start + timedelta(milliseconds=ms) for ms in (200, 400)]
        asked = member.replay_from(*moments, request_id=7)
        until(lambda: sum(seen.numbers.values()) == 800, "the window is not read")
        assert member.replay_from(*moments, request_id=7) == asked
        rest = member.replay_from(start + timedelta(milliseconds=590), request_id=8)
        until(lambda: sum(seen.numbers.values()) >= 810, "the rest is not read")
        assert member.replay_from(datetime.now(UTC)) == ()
    assert [(one.partition.partition, one.start, one.end) for one in asked] == [(0, 100, 200), (1, 100, 200)]
    assert [(one.partition.partition, one.start, one.end) for one in rest] == [(0, 295, 300), (1, 295, 300)]
    twice = {number for number, count in seen.numbers.items() if count == 2}
    assert twice == {*range(200, 400), *range(590, 600)}
    assert sum(seen.numbers.values()) == 810


def start_ms(at: datetime) -> int:
    """Rounded up, as the times of a replay are."""
    return -(-int(at.timestamp() * 1_000_000) // 1_000)


def test_asynchronous_and_batch_handlers(broker: SandboxCluster) -> None:
    rig = StreamRig(broker, "kinds")
    (segment,) = rig.segments["live"]
    rig.write(segment, range(1_000))
    seen, batched = Seen(), Seen()
    failed = set[int]()

    async def handle(record: StreamRecord) -> None:
        await asyncio.sleep(0.001)
        if int(record.value or b"0") == 17 and 17 not in failed:
            failed.add(17)
            raise ValueError("once")
        seen(record)

    async def read() -> None:
        member = rig.member("tasks", async_handler=handle)
        running = asyncio.ensure_future(member.run_async())
        deadline = time.monotonic() + WAIT_S
        while len(seen.numbers) < 1_000 and time.monotonic() < deadline and not running.done():
            await asyncio.sleep(0.02)
        member.stop()
        await running

    asyncio.run(read())
    assert set(seen.numbers.values()) == {1}
    assert len(seen.numbers) == 1_000

    def handle_batch(records: Sequence[StreamRecord]) -> dict[int, BaseException]:
        bad = {i: ValueError("once") for i, r in enumerate(records) if r.value == b"400" and not r.tries}
        for index, record in enumerate(records):
            if index not in bad:
                batched(record)
        return dict(bad)

    with rig.member("batches", batch_handler=handle_batch, work=WorkRules(mode=Mode.UNORDERED, retry=RETRY)):
        until(lambda: len(batched.numbers) == 1_000, "not all came")
    assert set(batched.numbers.values()) == {1}
    for group in ("tasks", "batches"):
        assert {n: s.base for n, s in rig.committed(group, segment).items()} == rig.ends(segment)


def test_a_close_returns_when_the_cluster_is_gone(broker: SandboxCluster) -> None:
    rig = StreamRig(broker, "gone")
    (segment,) = rig.segments["live"]
    rig.write(segment, range(100))
    seen = Seen()
    member = rig.member("gone", handler=seen, close_s=1.0, revoke_s=1.0)
    member.start()
    until(lambda: len(seen.numbers) == 100, "nothing is read")
    before = set(threading.enumerate())
    broker.kill(broker.broker_ids[0])
    try:
        member.close()
        # The client's own close takes 29 s and more.
        assert "kafkakit-client-call" in {thread.name for thread in set(threading.enumerate()) - before}
    finally:
        broker.revive()


def test_an_exit_in_a_handler_ends_the_process_after_what_was_handled_is_committed(
    broker: SandboxCluster, tmp_path: Path
) -> None:
    rig = StreamRig(broker, "exits", partitions=1)
    (segment,) = rig.segments["live"]
    rig.write(segment, range(300))
    member = MemberProcess(
        rig=rig, group="exits", trace=tmp_path / "trace", options={"mode": Mode.PARTITION, "exit_at": 150}
    )
    member.start()
    process = member.process
    assert process is not None
    assert process.wait(WAIT_S) == 7
    assert {int(number) for number, *_ in member.lines("done")} == set(range(150))
    assert rig.committed("exits", segment)[0].base == 150


def test_a_consumer_that_failed_says_so_and_leaves_its_partitions_to_others(broker: SandboxCluster) -> None:
    """By a wrong return, an exit of a task, and a thread that cannot start; the last one of each handles everything."""
    rig = StreamRig(broker, "failed")
    (segment,) = rig.segments["live"]
    rig.write(segment, range(200))

    async def ends(record: StreamRecord) -> None:
        raise SystemExit(3)

    wrong = rig.member("failed", batch_handler=lambda records: [ValueError("no")])
    wrong.start()
    until(lambda: wrong.state is ConsumerState.FAILED, "the consumer does not fail")
    until(lambda: not wrong.figures().partitions, "it keeps its partitions")
    assert "a batch_handler returns None, or a mapping" in wrong.figures().problems[0]
    with pytest.raises(TypeError, match="not a value of type list"):
        wrong.close()
    with pytest.raises(SystemExit) as left:
        asyncio.run(rig.member("failed", async_handler=ends).run_async())
    assert left.value.code == 3
    with pytest.MonkeyPatch.context() as patched:
        start = threading.Thread.start

        def refuse(thread: threading.Thread) -> None:
            if thread.name.startswith("kafkakit-reader"):
                raise RuntimeError("can't start new thread")
            start(thread)

        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            rig.member("failed", handler=print).start()
    seen, failed = Seen(), set[int]()

    async def handle(record: StreamRecord) -> None:
        number = int(record.value or b"-1")
        if number % 50 == 7 and number not in failed:
            failed.add(number)
            inner = asyncio.ensure_future(asyncio.sleep(60))
            inner.cancel()
            await inner  # as if an answer were given up: the failure of one record
        seen(record)

    async def read() -> None:
        member = rig.member("failed", async_handler=handle)
        running = asyncio.ensure_future(member.run_async())
        while len(seen.numbers) < 200 and not running.done():
            await asyncio.sleep(0.02)
        member.stop()
        await running
        assert member.state is ConsumerState.STOPPED
        assert member.figures().total("handled") == 200
        assert member.figures().problems == ()

    asyncio.run(read())
    assert set(seen.numbers.values()) == {1}
    assert len(seen.numbers) == 200
    assert failed == {7, 57, 107, 157}
    assert {n: s.base for n, s in rig.committed("failed", segment).items()} == rig.ends(segment)
