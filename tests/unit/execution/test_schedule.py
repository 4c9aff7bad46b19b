"""Schedules of cases that can be checked by hand.

What may be sent now, what throttle is too low, and how a schedule is told. Rates as they are asked for. Moves of
another process may take the places that ours wait for.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from kafkakit.core.errors import UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.progress import RunPosition, startable_steps
from kafkakit.execution.decide.run_rules import ScheduleLimits
from kafkakit.execution.decide.schedule.forecast import (
    catch_up,
    eta_line,
    format_span,
    schedule_lines,
    step_words,
    throttle_share,
)
from kafkakit.execution.decide.schedule.scheduler import plan_schedule
from kafkakit.execution.decide.schedule.work import (
    Bottleneck,
    BrokerRates,
    DirTask,
    Disk,
    LogDirPlace,
    PartitionTask,
    Schedule,
    ScheduleStep,
    Speeds,
    StepKind,
    is_unlimited,
    lifting_options,
    parse_broker_rate,
    rate_words,
    rates_from_data,
    rates_to_data,
    read_request,
    require_known,
)
from kafkakit.simulator.cluster import efficiency_of
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeCluster
from tests.invariants.schedule import verify_schedule
from tests.rigs.reassign import Harness

GB = 10**9
RATES = BrokerRates(into=100_000_000, out=100_000_000, inside=50_000_000)
SPEEDS = Speeds(efficiency=1.0, steps_per_s=float("inf"), step_s=0.0)
NO_DELAY = ScheduleLimits(deletion_delay_s=0.0, max_use=Fraction(1))


def task(
    number: int, holders: tuple[int, ...], target: tuple[int, ...], size: int = 10 * GB, **more: object
) -> PartitionTask:
    given: dict[str, object] = {"leader": holders[0], "dirs": dict.fromkeys(holders, "/a"), **more}
    return PartitionTask(key=TopicPartition("t", number), holders=holders, target=target, size_bytes=size, **given)  # type: ignore[arg-type]


def disk(broker: int, used: int, total: int = 100 * GB, log_dir: str = "/a", **more: object) -> Disk:
    place = LogDirPlace(broker, log_dir)
    return Disk(place=place, total_bytes=total, usable_bytes=total - used, **more)  # type: ignore[arg-type]


def plan(
    tasks: list[PartitionTask],
    disks: list[Disk],
    *,
    dir_tasks: tuple[DirTask, ...] = (),
    limits: ScheduleLimits = NO_DELAY,
    rates: BrokerRates = RATES,
    racks: dict[int, str | None] | None = None,
    spares: tuple[int, ...] | None = None,
) -> Schedule:
    found = plan_schedule(tasks, dir_tasks, disks, limits, rates, SPEEDS, racks=racks, spares=spares)
    verify_schedule(found, tasks, dir_tasks, disks, limits, rates, SPEEDS, racks=racks)
    return found


def order(schedule: Schedule) -> list[int]:
    return [s.key.partition for s in schedule.steps]


def swap() -> tuple[list[PartitionTask], list[Disk]]:
    """Brokers 1 and 2, nearly full, are to swap all they hold; broker 3 is nearly empty."""
    tasks = [task(n, (1,), (2,)) for n in range(9)] + [task(n, (2,), (1,)) for n in range(9, 18)]
    return tasks, [disk(1, 94 * GB), disk(2, 94 * GB), disk(3, 10 * GB)]


def test_one_copy_takes_its_bytes_over_the_rate() -> None:
    found = plan([task(0, (1,), (2,))], [disk(1, 10 * GB), disk(2, 0)])
    assert found.makespan_s == pytest.approx(100.0)
    assert found.bound_s == pytest.approx(100.0)
    assert found.bottleneck is not None
    assert (found.bottleneck.broker, found.bottleneck.direction) in {(1, "out"), (2, "into")}
    (step,) = found.steps
    assert step.adding == (LogDirPlace(2, "/a"),)
    assert step.removing == (LogDirPlace(1, "/a"),)
    assert (step.kind, step.target, step.leader) == (StepKind.MOVE, (2,), 1)


def test_copies_share_what_the_leader_sends() -> None:
    found = plan([task(0, (1,), (2,)), task(1, (1,), (3,))], [disk(b, 20 * GB) for b in (1, 2, 3)])
    assert [s.start_s for s in found.steps] == [0, 0]
    assert found.makespan_s == pytest.approx(200.0)
    assert found.bottleneck is not None
    assert (found.bottleneck.broker, found.bottleneck.direction) == (1, "out")


def test_the_efficiency_stretches_only_what_a_throttle_limits() -> None:
    tasks, disks = [task(0, (1,), (2,))], [disk(1, 10 * GB), disk(2, 0)]
    speeds = replace(SPEEDS, line_bytes_per_s=200e6, efficiency=0.8)
    assert plan_schedule(tasks, (), disks, NO_DELAY, RATES, speeds).makespan_s == pytest.approx(125.0)
    assert plan_schedule(tasks, (), disks, NO_DELAY, BrokerRates(), speeds).makespan_s == pytest.approx(50.0)


def test_many_tiny_steps_take_what_the_controller_takes() -> None:
    """500 empty copies from 10 brokers to 10 others: no bytes, but 5 s of the controller's."""
    tasks = [task(n, (n % 10,), (10 + n % 10,), 0) for n in range(500)]
    found = plan_schedule(tasks, (), [disk(b, 0) for b in range(20)], NO_DELAY, RATES, Speeds(step_s=0.0))
    assert found.makespan_s == pytest.approx(5.0, rel=0.02)
    assert found.bound_s == pytest.approx(5.0)
    assert found.bottleneck is None
    assert "limited by the number of moves, not by their size" in found.notes


def test_every_step_keeps_its_places_until_somebody_looks() -> None:
    """Five at a time go to one broker, and 20 of them take four turns of 2 s and not a moment less."""
    tasks = [task(n, (1 + n % 4,), (9,), 0) for n in range(20)]
    disks = [disk(b, 0) for b in (1, 2, 3, 4, 9)]
    slow = Speeds(step_s=2.0, steps_per_s=float("inf"))
    found = plan_schedule(tasks, (), disks, NO_DELAY, RATES, slow)
    assert found.makespan_s == pytest.approx(8.0)
    assert found.bound_s == pytest.approx(8.0)
    large = plan_schedule([task(0, (1,), (9,))], (), disks, NO_DELAY, RATES, Speeds(efficiency=1.0, step_s=2.0))
    assert large.bound_s == pytest.approx(102.0)
    assert large.bottleneck is not None, "the bytes make it, the rest comes on top"


def test_several_full_dirs_are_emptied_at_once() -> None:
    """Six full brokers pass all they hold on in a ring, past a seventh: one free place for all would take an hour."""
    tasks = [task(n, (n % 6,), ((n + 1) % 6,), GB) for n in range(120)]
    disks = [*(disk(b, 20 * GB, 20 * GB) for b in range(6)), disk(6, 0, 20 * GB)]
    found = plan(tasks, disks, limits=replace(NO_DELAY, deletion_delay_s=30.0))
    assert not found.immovable
    assert len({p.broker for s in found.detours for p in s.removing}) >= 4
    assert sum(s.size_bytes for s in found.detours) <= 0.1 * 120 * GB + GB
    assert found.makespan_s < 6 * found.bound_s


def test_brokers_may_have_rates_of_their_own() -> None:
    rates = BrokerRates(into=100_000_000, out=100_000_000, into_of={2: 20_000_000})
    found = plan([task(0, (1,), (2,))], [disk(1, 10 * GB), disk(2, 0)], rates=rates)
    assert found.makespan_s == pytest.approx(500.0)
    assert found.bottleneck is not None
    assert (found.bottleneck.broker, found.bottleneck.direction) == (2, "into")


def test_nearly_full_brokers_swap_over_a_spare() -> None:
    tasks, disks = swap()
    found = plan(tasks, disks)
    assert not found.immovable
    assert [s.target for s in found.detours] == [(3,), (3,)], "one for each of the full brokers"
    assert found.makespan_s < 1.5 * found.bound_s
    why = found.detours[0].why
    assert "1:/a and 2:/a are full" in why
    assert "goes over broker 3 first" in why
    assert found.steps[-1].after in (0, 1, None)


@pytest.mark.parametrize("at_once", [1, 18])
def test_the_naive_orders_of_the_same_swap_fill_a_disk(at_once: int) -> None:
    """All at once, and one after another in the order of the list: the checker refuses both."""
    tasks, disks = swap()
    steps = []
    for n, item in enumerate(tasks):
        start_s = float(n // at_once) * 100
        (gone,), (came,) = item.holders, item.target
        step = ScheduleStep(
            key=item.key,
            kind=StepKind.MOVE,
            target=item.target,
            leader=gone,
            adding=(LogDirPlace(came, "/a"),),
            removing=(LogDirPlace(gone, "/a"),),
            size_bytes=item.size_bytes,
            start_s=start_s,
            end_s=start_s + 100,
        )
        steps.append(step)
    naive = Schedule(steps=tuple(steps), makespan_s=steps[-1].end_s, bound_s=0.0)
    with pytest.raises(AssertionError, match="full"):
        verify_schedule(naive, tasks, (), disks, NO_DELAY, RATES, SPEEDS)


def test_a_swap_without_a_spare_is_stuck_with_what_lacks() -> None:
    tasks, disks = swap()
    found = plan(tasks, disks, spares=())
    assert len(found.immovable) == 18
    assert not found.steps
    assert found.immovable[TopicPartition("t", 0)] == (
        "2:/a lacks 3.73 GiB under its limit for a copy of 9.31 GiB; "
        "moving a copy that the plan does not name might free space"
    )


def test_a_detour_keeps_the_racks() -> None:
    tasks = [task(0, (1, 4), (2, 4)), task(1, (2, 4), (1, 4))]
    disks = [disk(1, 95 * GB), disk(2, 95 * GB), disk(3, 0), disk(4, 20 * GB), disk(5, 50 * GB)]
    racks: dict[int, str | None] = {1: "x", 2: "x", 3: "y", 4: "y", 5: "x"}
    found = plan(tasks, disks, racks=racks)
    assert [p.broker for s in found.detours for p in s.adding] == [5]
    assert plan(tasks, disks, racks=racks, spares=(3,)).immovable


def test_another_dir_of_the_broker_comes_before_another_broker() -> None:
    tasks, disks = swap()
    found = plan(tasks, [*disks, disk(1, 0, log_dir="/b")])
    tasks = [replace(t, wanted_dirs=dict.fromkeys(t.target, "/a")) for t in tasks]
    found = plan(tasks, [*disks, disk(1, 0, log_dir="/b")])
    inside = [s for s in found.steps if s.kind is StepKind.INSIDE]
    assert [s.adding for s in inside] == [(LogDirPlace(1, "/b"),)]
    assert [p.broker for s in found.detours for p in s.removing] == [2], "broker 2 has no other dir"


def test_of_several_copies_one_may_go_first() -> None:
    """Partition 0 waits for room on broker 3, which partition 1 gives up only when broker 1 has room."""
    tasks = [task(0, (1, 2), (3, 4)), task(1, (3, 2), (1, 2))]
    disks = [disk(1, 95 * GB), disk(2, 50 * GB), disk(3, 95 * GB), disk(4, 0)]
    found = plan(tasks, disks)
    assert not found.immovable
    assert [s.kind for s in found.steps] == [StepKind.PART, StepKind.MOVE, StepKind.PART]
    assert not found.detours


def test_room_of_a_removed_copy_comes_after_the_delay() -> None:
    tasks = [task(0, (1,), (2,)), task(1, (2,), (3,))]
    disks = [disk(1, 10 * GB), disk(2, 95 * GB), disk(3, 0)]
    found = plan(tasks, disks, limits=replace(NO_DELAY, deletion_delay_s=60.0))
    assert order(found) == [1, 0]
    assert found.steps[1].start_s == pytest.approx(160.0)


def test_what_logs_take_in_meanwhile_is_booked() -> None:
    tasks = [task(0, (1,), (2,), ingest_bytes_per_s=10_000_000.0)]
    roomy = plan(tasks, [disk(1, 10 * GB), disk(2, 88 * GB)])
    assert roomy.makespan_s == pytest.approx(10 * GB / 90e6)  # the log grows while it is copied
    tight = plan(tasks, [disk(1, 10 * GB), disk(2, 89 * GB + GB // 2)])
    assert "with what it grows by" in tight.immovable[TopicPartition("t", 0)]


def test_what_two_logs_take_in_is_booked_together() -> None:
    """Each copy with its growth fits beside the other without, but not both with theirs."""
    tasks = [task(n, (1 + 2 * n,), (2,), ingest_bytes_per_s=10_000_000.0) for n in range(2)]
    disks = [disk(1, 10 * GB), disk(3, 10 * GB), disk(2, 0, 23 * GB)]
    found = plan(tasks, disks)
    assert len(found.immovable) == 1


def test_a_dir_that_grows_over_its_limit_gets_nothing() -> None:
    filling = disk(2, 85 * GB, growth_bytes_per_s=100_000_000.0)
    assert plan([task(0, (1,), (2,))], [disk(1, 10 * GB), filling]).immovable


def test_limits_on_copies_at_a_time() -> None:
    tasks = [task(n, (1,), (2 + n % 2,), GB) for n in range(6)]
    disks = [disk(b, 10 * GB) for b in (1, 2, 3)]
    one_each = plan(tasks, disks, limits=replace(NO_DELAY, into_each=1))
    assert sorted(s.start_s for s in one_each.steps)[2] > 0
    alone = plan(tasks, disks, limits=replace(NO_DELAY, cluster=1))
    assert len({s.start_s for s in alone.steps}) == 6


def test_more_new_copies_than_a_leader_may_send_go_alone() -> None:
    tasks = [task(0, (1,), (2, 3, 4)), task(1, (1,), (2,))]
    found = plan(tasks, [disk(b, 10 * GB) for b in (1, 2, 3, 4)], limits=replace(NO_DELAY, out_each=2))
    first, second = found.steps
    assert second.start_s >= first.end_s


def test_urgent_ones_go_first_and_running_ones_are_under_way() -> None:
    tasks = [task(n, (1,), (2,), 20 * GB) for n in range(3)]
    tasks[1] = replace(tasks[1], urgent=True, size_bytes=GB)
    tasks[2] = replace(tasks[2], running=True, copied_bytes=15 * GB)
    found = plan(tasks, [disk(1, 60 * GB), disk(2, 15 * GB)], limits=replace(NO_DELAY, into_each=1))
    assert order(found) == [2, 1, 0]
    assert found.steps[0].running
    assert found.steps[0].end_s == pytest.approx(50.0)


def test_one_replica_at_a_time_keeps_the_leader_to_the_last() -> None:
    found = plan(
        [task(0, (1, 2, 3), (4, 5, 6))],
        [disk(b, 20 * GB) for b in range(1, 7)],
        limits=replace(NO_DELAY, one_replica_at_a_time=True),
    )
    assert [s.target for s in found.steps] == [(1, 4, 3), (1, 4, 5), (4, 5, 6)]
    assert [s.after for s in found.steps] == [None, 0, 1]
    assert {s.leader for s in found.steps} == {1}
    assert {s.kind for s in found.steps} == {StepKind.PART}


def test_a_list_grows_by_one_at_a_time() -> None:
    found = plan(
        [task(0, (1,), (2, 3, 1))],
        [disk(b, 20 * GB) for b in (1, 2, 3)],
        limits=replace(NO_DELAY, one_replica_at_a_time=True),
    )
    assert [s.target for s in found.steps] == [(1, 2), (2, 3, 1)]


def test_a_new_order_or_fewer_copies_cost_nothing() -> None:
    found = plan([task(0, (1, 2), (2, 1)), task(1, (1, 2, 3), (3,))], [disk(b, 20 * GB) for b in (1, 2, 3)])
    assert found.makespan_s == 0
    assert found.bottleneck is None
    assert [s.target for s in found.steps] == [(2, 1), (3,)] or [s.target for s in found.steps] == [(3,), (2, 1)]


def test_the_scheduler_names_the_roomiest_dir_where_the_plan_names_none() -> None:
    dirs = [disk(2, 50 * GB), disk(2, 20 * GB, log_dir="/b"), disk(2, 0, log_dir="/c", closed=True)]
    found = plan([task(n, (1,), (2,), 20 * GB) for n in range(3)], [disk(1, 60 * GB), *dirs])
    assert [s.adding[0].log_dir for s in found.steps] == ["/b", "/b", "/a"]


def test_copies_change_dir_inside_a_broker_and_full_dirs_swap_over_a_third() -> None:
    def across(number: int, source: str, target: str) -> DirTask:
        key = TopicPartition("t", number)
        return DirTask(key=key, broker=1, source_dir=source, target_dir=target, size_bytes=10 * GB)

    dir_tasks = (across(0, "/a", "/b"), across(1, "/b", "/a"))
    full = [disk(1, 95 * GB), disk(1, 95 * GB, log_dir="/b")]
    assert plan([], full, dir_tasks=dir_tasks).immovable
    found = plan([], [*full, disk(1, 0, log_dir="/c")], dir_tasks=dir_tasks)
    assert [s.adding[0].log_dir for s in found.steps] == ["/c", "/a", "/b"]
    assert found.makespan_s == pytest.approx(600.0)
    assert found.bottleneck is not None
    assert found.bottleneck.direction == "inside"


def test_nobody_is_sent_where_it_cannot_go() -> None:
    disks = [disk(1, 20 * GB), disk(2, 0, closed=True), disk(3, 0)]
    tasks = [task(0, (1,), (2,)), task(1, (1,), (3,), leader=None), task(2, (1,), (3,))]
    found = plan(tasks, disks)
    assert order(found) == [2]
    assert found.immovable == {
        TopicPartition("t", 0): "2:/a is closed",
        TopicPartition("t", 1): "it has no leader, so no broker serves a new copy",
    }
    zero = plan([task(0, (1,), (3,))], disks, rates=BrokerRates(into=0))
    assert zero.immovable == {TopicPartition("t", 0): "broker 3 may take in 0 bytes/s"}


def test_unknown_disks_are_not_limited_and_named() -> None:
    blind = Disk(place=LogDirPlace(2, "/a"), total_bytes=None, usable_bytes=None)
    found = plan([task(0, (1,), (2,), 10**15), task(1, (1,), (9,), 0)], [disk(1, 0), blind])
    assert not found.immovable
    assert found.notes == (
        "2 brokers reported no disk sizes, their dirs are not limited: 2, 9",
        "1 partition of unknown or no size: their copies are taken as empty",
    )


def test_nothing_to_do() -> None:
    assert plan([], []) == Schedule(steps=(), makespan_s=0.0, bound_s=0.0)


LIMITS = ScheduleLimits(into_each=2, out_each=2, max_use=Fraction(1))
TOTALS: Mapping[LogDirPlace, int | None] = {LogDirPlace(b, "/a"): 100 for b in range(1, 6)}


def step(number: int, leader: int, *brokers: int, size: int = 10, **more: object) -> ScheduleStep:
    given: dict[str, object] = {
        "key": TopicPartition("t", number),
        "kind": StepKind.MOVE,
        "target": brokers,
        "leader": leader,
        "adding": tuple(LogDirPlace(b, "/a") for b in brokers),
        "removing": (LogDirPlace(leader, "/a"),),
        "size_bytes": size,
        "start_s": 0.0,
        "end_s": 60.0,
    }
    return ScheduleStep(**{**given, **more})  # type: ignore[arg-type]


def schedule(*steps: ScheduleStep) -> Schedule:
    return Schedule(steps=steps, makespan_s=60.0, bound_s=50.0)


def usable(**free: int) -> dict[LogDirPlace, int]:
    """Free bytes of the dirs, 100 unless told: `b2=5`."""
    return {LogDirPlace(b, "/a"): free.get(f"b{b}", 100) for b in range(1, 6)}


def test_steps_go_as_far_as_slots_allow() -> None:
    found = schedule(step(0, 1, 2), step(1, 1, 3), step(2, 1, 4), step(3, 5, 4))
    assert startable_steps(found, RunPosition(), LIMITS, TOTALS) == (0, 1)  # 3 would overtake 2 into 4:/a
    assert startable_steps(found, RunPosition(in_flight=frozenset({0, 1})), LIMITS, TOTALS) == ()
    later = RunPosition(in_flight=frozenset({0}), finished=frozenset({1}))
    assert startable_steps(found, later, LIMITS, TOTALS) == (2, 3)
    assert startable_steps(found, RunPosition(), replace(LIMITS, cluster=1), TOTALS) == (0,)


def test_real_room_counts_with_what_is_still_to_arrive() -> None:
    found = schedule(step(0, 1, 2, size=30))
    tight = RunPosition(usable=usable(b2=30))
    assert startable_steps(found, tight, LIMITS, TOTALS) == (0,)
    assert startable_steps(found, replace(tight, arriving_bytes_left={LogDirPlace(2, "/a"): 1}), LIMITS, TOTALS) == ()
    assert startable_steps(found, tight, replace(LIMITS, headroom_bytes=1), TOTALS) == ()
    assert startable_steps(found, tight, LIMITS, {LogDirPlace(2, "/a"): None}) == (0,)


def test_two_steps_of_one_look_share_the_room() -> None:
    found = schedule(step(0, 1, 2, size=30), step(1, 3, 2, size=30))
    assert startable_steps(found, RunPosition(usable=usable(b2=59)), LIMITS, TOTALS) == (0,)
    assert startable_steps(found, RunPosition(usable=usable(b2=60)), LIMITS, TOTALS) == (0, 1)


def test_a_small_step_does_not_overtake_into_the_same_dir() -> None:
    found = schedule(step(0, 1, 2, size=50), step(1, 3, 2, size=5), step(2, 3, 4, size=5))
    assert startable_steps(found, RunPosition(usable=usable(b2=20)), LIMITS, TOTALS) == (2,)


def test_a_step_that_waits_for_slots_keeps_them() -> None:
    """Step 1 needs both places of leader 1; step 2 may not take the second one again and again."""
    found = schedule(step(0, 1, 2), step(1, 1, 3, 4), step(2, 1, 5))
    assert startable_steps(found, RunPosition(in_flight=frozenset({0})), LIMITS, TOTALS) == ()
    assert startable_steps(found, RunPosition(finished=frozenset({0})), LIMITS, TOTALS) == (1,)


def test_a_step_with_more_copies_than_places_goes_alone() -> None:
    found = schedule(step(0, 1, 2, 3, 4))
    assert startable_steps(found, RunPosition(), LIMITS, TOTALS) == (0,)


def test_steps_of_a_partition_follow_each_other() -> None:
    found = schedule(step(0, 1, 2), step(0, 2, 3, after=0))
    assert startable_steps(found, RunPosition(), LIMITS, TOTALS) == (0,)
    assert startable_steps(found, RunPosition(in_flight=frozenset({0})), LIMITS, TOTALS) == ()
    assert startable_steps(found, RunPosition(finished=frozenset({0})), LIMITS, TOTALS) == (1,)


def test_moves_inside_a_broker_have_places_of_their_own() -> None:
    inside: dict[str, Any] = {"kind": StepKind.INSIDE, "target": ()}
    found = schedule(
        step(0, 1, 1, adding=(LogDirPlace(1, "/b"),), **inside),
        step(1, 1, 1, adding=(LogDirPlace(1, "/c"),), **inside),
        step(2, 1, 2),
    )
    assert startable_steps(found, RunPosition(), LIMITS, TOTALS) == (0, 2)


SPEEDS_SCHEDULE_WINDOW = Speeds(efficiency=0.8)


def hot(number: int, ingest: float, target: tuple[int, ...] = (2,)) -> PartitionTask:
    key = TopicPartition("t", number)
    return PartitionTask(key=key, holders=(1,), target=target, leader=1, size_bytes=10, ingest_bytes_per_s=ingest)


def test_a_throttle_below_the_ingest_is_too_low() -> None:
    tasks = [hot(n, 3e6) for n in range(9)]
    assert catch_up(tasks, ScheduleLimits(), BrokerRates(), SPEEDS_SCHEDULE_WINDOW).smallest is None
    found = catch_up(tasks, ScheduleLimits(), BrokerRates(into=10_000_000), SPEEDS_SCHEDULE_WINDOW)
    (short,) = found.shortfalls
    assert (short.broker, short.direction, len(short.partitions)) == (2, "into", 5)
    assert found.smallest == 21_000_000  # 5 x 3 MB/s and 10 %, over 0.8, rounded up
    assert "broker 2 may take in 10 MB/s" in str(short)
    assert "grow by 15 MB/s (t-0, t-1, t-2 ...)" in str(short)
    assert (
        catch_up(tasks, ScheduleLimits(into_each=2), BrokerRates(into=10_000_000), SPEEDS_SCHEDULE_WINDOW).smallest
        is None
    )


def test_a_leader_sends_every_new_copy() -> None:
    wide = [hot(0, 3e6, (2, 3, 4))]
    found = catch_up(wide, ScheduleLimits(out_each=2), BrokerRates(out=10_000_000), SPEEDS_SCHEDULE_WINDOW)
    assert [(s.broker, s.direction) for s in found.shortfalls] == [(1, "out")]
    assert found.shortfalls[0].ingest_bytes_per_s == 9e6
    singly = ScheduleLimits(out_each=2, one_replica_at_a_time=True)
    assert catch_up(wide, singly, BrokerRates(out=10_000_000), SPEEDS_SCHEDULE_WINDOW).smallest is None


@pytest.mark.parametrize("ingest", [1.0, 33.0, 123_456.0, 7e6, 9.99e8])
@pytest.mark.parametrize("efficiency", [0.72, 0.8, 1.0])
def test_the_smallest_rate_works(ingest: float, efficiency: float) -> None:
    tasks = [hot(n, ingest * (1 + n)) for n in range(7)]
    speeds = Speeds(efficiency=efficiency)
    requested = catch_up(tasks, ScheduleLimits(), BrokerRates(into=1, out=1), speeds)
    assert requested.smallest is not None
    assert (
        catch_up(tasks, ScheduleLimits(), BrokerRates(into=requested.smallest, out=requested.smallest), speeds).smallest
        is None
    )
    assert requested.smallest <= 1.1 * 1.1 * 5 * ingest * 7 / efficiency + 1


def test_the_share_of_a_throttle_lies_between_what_was_measured_of_small_and_of_large_batches() -> None:
    assert throttle_share() == throttle_share(11, 1000) == 0.86
    assert 0.8 < throttle_share() < 0.93
    assert throttle_share(3, 1000) < throttle_share(5) < throttle_share() < throttle_share(11, 100)


@pytest.mark.parametrize("settings", [(11, 1000), (3, 1000), (3, 100), (30, 0), (0, 1000)])
def test_the_share_is_halfway_between_what_the_simulator_says_of_both(settings: tuple[int, int]) -> None:
    window, backoff = settings
    both = [efficiency_of(max(1, window), backoff, size) for size in (16_000, 900_000)]
    assert throttle_share(window, backoff) == pytest.approx(sum(both) / 2, abs=0.005)
    assert 0 < throttle_share(window, backoff) <= 1


def test_spans_of_time() -> None:
    assert [format_span(s) for s in (0, 59.4, 61, 3599, 3599.9, 11_520, 200_000)] == [
        "0 s",
        "59 s",
        "1 min 01 s",
        "59 min 59 s",
        "1 h 00 min",
        "3 h 12 min",
        "2 d 7 h",
    ]


def told() -> Schedule:
    why = "dirs 1:/a and 2:/a are full of copies that wait for each other; t-0 goes over broker 5 first"
    return Schedule(
        steps=(
            step(0, 1, 5, size=1 << 30, kind=StepKind.DETOUR, why=why),
            step(1, 2, 1, size=1 << 30, running=True),
            step(2, 2, target=(3, 1)),
            step(3, 1, 1, size=1 << 20, kind=StepKind.INSIDE, target=(), adding=(LogDirPlace(1, "/b"),)),
        ),
        makespan_s=11_520,
        bound_s=11_100,
        bottleneck=Bottleneck(broker=7, direction="into", bytes=1 << 40, bytes_per_s=40e6),
        immovable={TopicPartition("t", 9): "2:/a is closed"},
        notes=("1 partition of unknown or no size",),
    )


def test_a_schedule_in_words() -> None:
    assert eta_line(told()) == (
        "ETA 3 h 12 min (3 h 05 min is the theoretical minimum), bottleneck broker 7 into: 1 TiB at 40 MB/s"
    )
    lines = schedule_lines(told(), shown=2)
    assert lines[1] == "1 detour past full dirs, 1 GiB copied twice:"
    assert lines[2].endswith("t-0 goes over broker 5 first")
    assert lines[3] == "4 steps, the first:"
    assert lines[4] == "  0 s to 1 min 00 s: t-0 to [5] (1 GiB from 1 to 5:/a, detour)"
    assert lines[5].endswith("(1 GiB from 2 to 1:/a, under way)")
    assert lines[6:] == [
        "  and 2 more",
        "1 partition that no order brings to the target:",
        "  t-9: 2:/a is closed",
        "note: 1 partition of unknown or no size",
    ]
    assert step_words(told().steps[2]).endswith("t-2 to [3,1] (nothing to copy)")
    assert step_words(told().steps[3]).endswith("t-3 on broker 1 from /a to /b (1 MiB)")


MB = 1_000_000


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("3:10MB", (3, 10 * MB, 10 * MB)),
        ("3:in=10MB", (3, 10 * MB, None)),
        ("3:out=500kB", (3, None, 500_000)),
        ("3:in=10MB,out=40MB", (3, 10 * MB, 40 * MB)),
        (" 3 : OUT = 40MB , in = 1k ", (3, 1000, 40 * MB)),
    ],
)
def test_exceptions_are_read(text: str, read: tuple[int, int | None, int | None]) -> None:
    assert parse_broker_rate(text) == read


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no broker"),
        ("3", "names no broker"),
        ("x:10MB", "names no broker"),
        ("-3:10MB", "names no broker"),
        ("99999999999:10MB", "names no broker"),
        ("2147483648:10MB", "names no broker"),
        ("3:", "is not a rate"),
        ("3:fast", "is not a rate"),
        ("3:0", "below 1 byte/s"),
        ("3:up=10MB", "'up' is neither in nor out"),
        ("3:in=10MB,", "'' is neither in nor out"),
        ("3:in=1B,in=2B", "two rates for in"),
        ("3:in=none", "cannot be without a limit"),
        ("3:in=9223373T", "above what Kafka can hold"),
    ],
)
def test_what_is_no_exception_is_refused_by_name(text: str, words: str) -> None:
    with pytest.raises(UsageError, match="--throttle-broker") as caught:
        parse_broker_rate(text)
    assert words in caught.value.message
    assert caught.value.hint


def test_two_rates_for_one_direction_are_refused() -> None:
    with pytest.raises(UsageError, match="broker 3 two rates for out"):
        read_request(None, ["3:10MB", "3:out=4MB"], None)
    assert read_request(None, ["3:in=1MB", "3:out=4MB"], None).out_of == {3: 4 * MB}


def test_nothing_asked_for_keeps_everything() -> None:
    earlier = BrokerRates(into=1, out=2, inside=3, into_of={4: 5}, out_of={6: 7})
    requested = read_request(None, [], None)
    assert requested.is_empty
    assert requested.over(earlier) == earlier
    assert read_request("same", [], None).over(earlier) == earlier


def test_a_rate_for_all_drops_exceptions_and_leaves_log_dirs_alone() -> None:
    earlier = BrokerRates(into=1, out=2, inside=3, into_of={4: 5}, out_of={6: 7})
    assert read_request("10B", [], None).over(earlier) == BrokerRates(into=10, out=10, inside=3)
    assert read_request("none", [], None).over(earlier) == BrokerRates(inside=3)
    assert read_request("none", [], "none").over(earlier) == BrokerRates()
    assert is_unlimited(BrokerRates())
    assert not is_unlimited(BrokerRates(inside=3))
    assert not is_unlimited(BrokerRates(out_of={1: 1}))


def test_an_exception_changes_its_broker_and_direction_alone() -> None:
    earlier = BrokerRates(into=1, out=2, inside=3, into_of={4: 5}, out_of={6: 7})
    after = read_request(None, ["4:in=50B", "8:9B"], "30B").over(earlier)
    assert after == BrokerRates(into=1, out=2, inside=30, into_of={4: 50, 8: 9}, out_of={6: 7, 8: 9})


def test_data_gives_back_the_rates_and_refuses_nonsense() -> None:
    rates = BrokerRates(into=1, out=None, inside=3, into_of={4: 5, 30: 1}, out_of={6: 7})
    text = json.dumps(rates_to_data(rates))
    assert rates_from_data(json.loads(text)) == rates
    good = rates_to_data(BrokerRates())
    for bad in (True, 0, -1, 1.5, "1", [1], 2**63):
        for changed in ({"into": bad}, {"into_of": {"1": bad}}):
            with pytest.raises((ValueError, TypeError)):
                rates_from_data({**good, **changed})
    for name in ("x", "-1", "", "1" * 11):
        with pytest.raises(ValueError):
            rates_from_data({**good, "out_of": {name: 1}})
    with pytest.raises(KeyError):
        rates_from_data({"into": 1})


def test_options_lift_just_what_is_set() -> None:
    assert rate_words(BrokerRates(inside=5 * MB)) == "between log dirs 5 MB/s"
    assert lifting_options(BrokerRates(inside=5 * MB)) == ("--throttle-dirs none",)
    assert lifting_options(BrokerRates(into_of={3: MB})) == ("--throttle none",)
    assert lifting_options(BrokerRates(into=MB, out=MB, inside=MB)) == ("--throttle none", "--throttle-dirs none")
    assert lifting_options(BrokerRates()) == ()


def test_words() -> None:
    assert rate_words(BrokerRates()) == "none"
    assert rate_words(BrokerRates(into=20 * MB, out=20 * MB)) == "20 MB/s per broker"
    assert rate_words(BrokerRates(into=20 * MB)) == "in 20 MB/s and out without limit per broker"
    assert rate_words(BrokerRates(inside=5 * MB, into_of={3: 10 * MB}, out_of={3: 40 * MB})) == (
        "broker 3: in 10 MB/s, out 40 MB/s; between log dirs 5 MB/s"
    )
    assert rate_words(BrokerRates(out_of=dict.fromkeys(range(10), MB))).endswith(
        "2 more brokers with rates of their own"
    )


def test_brokers_that_the_cluster_does_not_have_are_refused() -> None:
    requested = read_request(None, ["3:1MB", "9:in=1MB", "7:out=1MB"], None)
    require_known(requested, [3, 7, 9])
    with pytest.raises(UsageError, match="broker 7, 9 is not in the cluster"):
        require_known(requested, [3, 4])


THEIRS = TopicPartition("theirs", 0)
ONE = ScheduleLimits(into_each=1, out_each=1)


def bench() -> Harness:
    """A foreign move to broker 3 stands still; ours wants to go there, too."""
    cluster = FakeCluster({1: "a", 2: "b", 3: "c", 4: "d"}, line_rate=10e6)
    cluster.add_topic("ours", {0: (1,)}, size_bytes=50_000_000)
    cluster.add_topic("theirs", {0: (4,)}, size_bytes=50_000_000)
    cluster.topics["theirs"].configs["follower.replication.throttled.replicas"] = "0:3"
    cluster.brokers[3].configs["follower.replication.throttled.rate"] = "0"
    made = Harness(cluster, make_plan(cluster, {("ours", 0): (3,)}))
    cluster.reassign({THEIRS: (3,)})
    return made


def test_a_foreign_move_without_end_is_named_as_what_keeps_the_place() -> None:
    made = bench()
    outcome = made.apply(limits=ONE, stall_timeout_s=60.0)
    assert not outcome.ok
    assert "1 step cannot start: moves of other tools (theirs-0) take their slots: ours-0" in outcome.problems
    assert "moves of other tools keep the brokers busy: theirs-0" in made.reporter.warned
    assert made.cluster.reassignments()[0].target == (3,)


def test_ours_go_once_the_foreign_move_has_ended() -> None:
    made = bench()
    made.clock.on_sleep.append(lambda _: made.cluster.brokers[3].configs.clear() if made.clock.elapsed > 30 else None)
    outcome = made.apply(limits=ONE, stall_timeout_s=60.0)
    assert outcome.ok, outcome.problems
    assert made.lists() == {("ours", 0): (3,), ("theirs", 0): (3,)}
