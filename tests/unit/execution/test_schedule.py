"""Schedules of cases that can be checked by hand."""

from dataclasses import replace
from fractions import Fraction

import pytest

from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.schedule.scheduler import plan_schedule
from kafkakit.execution.decide.schedule.work import (
    DirTask,
    Disk,
    Limits,
    Place,
    Rates,
    Schedule,
    Speeds,
    Step,
    StepKind,
    Task,
)
from tests.invariants.schedule import verify_schedule

GB = 10**9
RATES = Rates(into=100_000_000, out=100_000_000, inside=50_000_000)
SPEEDS = Speeds(efficiency=1.0, steps_per_s=float("inf"), step_s=0.0)
NO_DELAY = Limits(deletion_delay_s=0.0, max_use=Fraction(1))


def task(number: int, holders: tuple[int, ...], target: tuple[int, ...], size: int = 10 * GB, **more: object) -> Task:
    given: dict[str, object] = {"leader": holders[0], "dirs": dict.fromkeys(holders, "/a"), **more}
    return Task(key=TopicPartition("t", number), holders=holders, target=target, size_bytes=size, **given)  # type: ignore[arg-type]


def disk(broker: int, used: int, total: int = 100 * GB, log_dir: str = "/a", **more: object) -> Disk:
    place = Place(broker, log_dir)
    return Disk(place=place, total_bytes=total, usable_bytes=total - used, **more)  # type: ignore[arg-type]


def plan(
    tasks: list[Task],
    disks: list[Disk],
    *,
    dir_tasks: tuple[DirTask, ...] = (),
    limits: Limits = NO_DELAY,
    rates: Rates = RATES,
    racks: dict[int, str | None] | None = None,
    spares: tuple[int, ...] | None = None,
) -> Schedule:
    found = plan_schedule(tasks, dir_tasks, disks, limits, rates, SPEEDS, racks=racks, spares=spares)
    verify_schedule(found, tasks, dir_tasks, disks, limits, rates, SPEEDS, racks=racks)
    return found


def order(schedule: Schedule) -> list[int]:
    return [s.key.partition for s in schedule.steps]


def swap() -> tuple[list[Task], list[Disk]]:
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
    assert step.adding == (Place(2, "/a"),)
    assert step.removing == (Place(1, "/a"),)
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
    assert plan_schedule(tasks, (), disks, NO_DELAY, Rates(), speeds).makespan_s == pytest.approx(50.0)


def test_many_tiny_steps_take_what_the_controller_takes() -> None:
    """500 empty copies from 10 brokers to 10 others: no bytes, but 5 s of the controller's."""
    tasks = [task(n, (n % 10,), (10 + n % 10,), 0) for n in range(500)]
    found = plan_schedule(tasks, (), [disk(b, 0) for b in range(20)], NO_DELAY, RATES, Speeds(step_s=0.0))
    assert found.makespan_s == pytest.approx(5.0, rel=0.02)
    assert found.bound_s == pytest.approx(5.0)
    assert found.bottleneck is None
    assert "the number of requests, and not their bytes, is what takes the time" in found.notes


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
    rates = Rates(into=100_000_000, out=100_000_000, into_of={2: 20_000_000})
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
        step = Step(
            key=item.key,
            kind=StepKind.MOVE,
            target=item.target,
            leader=gone,
            adding=(Place(came, "/a"),),
            removing=(Place(gone, "/a"),),
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
    assert [s.adding for s in inside] == [(Place(1, "/b"),)]
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
    zero = plan([task(0, (1,), (3,))], disks, rates=Rates(into=0))
    assert zero.immovable == {TopicPartition("t", 0): "broker 3 may take in 0 bytes/s"}


def test_unknown_disks_are_not_limited_and_named() -> None:
    blind = Disk(place=Place(2, "/a"), total_bytes=None, usable_bytes=None)
    found = plan([task(0, (1,), (2,), 10**15), task(1, (1,), (9,), 0)], [disk(1, 0), blind])
    assert not found.immovable
    assert found.notes == (
        "2 brokers reported no disk sizes, their dirs are not limited: 2, 9",
        "1 partition of unknown or no size: copies are taken to bring no bytes",
    )


def test_nothing_to_do() -> None:
    assert plan([], []) == Schedule(steps=(), makespan_s=0.0, bound_s=0.0)
