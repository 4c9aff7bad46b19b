"""An independent reader of schedules: replays them against lists, dirs and limits; shares no code with the scheduler.

It takes the steps' times as given and does its own sums of what lies in each log dir.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.run_rules import ScheduleLimits
from kafkakit.execution.decide.schedule.work import (
    BrokerRates,
    DirTask,
    Disk,
    LogDirPlace,
    PartitionTask,
    Schedule,
    ScheduleStep,
    Speeds,
    StepKind,
)

SLACK = 2.0  # bytes; times are floats


@dataclass
class Volume:
    """A log dir at a time: bytes at `at_s`, growing by `growth` a second."""

    disk: Disk
    bytes: float
    growth: float
    baseline: float
    baseline_growth: float = 0.0
    at_s: float = 0.0

    def move_to(self, now_s: float) -> None:
        self.bytes += self.growth * (now_s - self.at_s)
        self.at_s = now_s

    def own_doing(self, now_s: float) -> float:
        """What it would hold if nothing but running copies came."""
        return self.baseline + (self.disk.growth_bytes_per_s + self.baseline_growth) * now_s


@dataclass
class Replay:
    """What is where, while the steps are gone through."""

    limits: ScheduleLimits
    lists: dict[TopicPartition, tuple[int, ...]]
    dirs: dict[tuple[TopicPartition, int], str]
    ingest: Mapping[TopicPartition, float]
    volumes: dict[LogDirPlace, Volume]
    in_flight: dict[int, ScheduleStep] = field(default_factory=dict)
    events: list[tuple[float, int, str]] = field(default_factory=list)
    ended: dict[int, float] = field(default_factory=dict)

    def advance(self, now_s: float, steps: Sequence[ScheduleStep]) -> None:
        """Ends and deletions up to a time, in order."""
        while due := sorted(e for e in self.events if e[0] <= now_s):
            at_s, index, what = due[0]
            self.events.remove(due[0])
            self.check(at_s)
            if what == "end":
                self.end(index, steps[index])
            else:
                for place in steps[index].removing:
                    self.delete(place, steps[index], at_s)

    def end(self, index: int, step: ScheduleStep) -> None:
        del self.in_flight[index]
        self.ended[index] = step.end_s
        if step.kind is not StepKind.INSIDE:
            self.lists[step.key] = step.target
            for gone in step.removing:
                self.dirs.pop((step.key, gone.broker), None)
        for place in step.adding:
            self.dirs[step.key, place.broker] = place.log_dir
        self.events.append((step.end_s + self.limits.deletion_delay_s, index, "delete"))

    def delete(self, place: LogDirPlace, step: ScheduleStep, at_s: float) -> None:
        volume = self.volumes.get(place)
        if volume is not None:
            volume.move_to(at_s)
            ingest = min(self.ingest.get(step.key, 0.0), volume.growth)
            volume.growth -= ingest
            volume.bytes -= step.size_bytes + ingest * at_s

    def check(self, now_s: float) -> None:
        for place, volume in self.volumes.items():
            volume.move_to(now_s)
            if volume.disk.total_bytes is not None and volume.disk.usable_bytes is not None:
                most = max(self.limits.limit_of(volume.disk.total_bytes), volume.own_doing(now_s))
                assert volume.bytes <= most + SLACK, f"{place} holds {volume.bytes} of {most} at {now_s} s"

    def begin(self, index: int, step: ScheduleStep, left: float) -> None:
        self.in_flight[index] = step
        for place in step.adding:
            volume = self.volumes.get(place)
            if volume is None:
                continue
            volume.move_to(step.start_s)
            volume.bytes += left
            volume.growth += self.ingest.get(step.key, 0.0)
            if step.running:
                volume.baseline += left
                volume.baseline_growth += self.ingest.get(step.key, 0.0)
            elif volume.disk.total_bytes is not None and volume.disk.usable_bytes is not None:
                assert volume.bytes <= self.limits.limit_of(volume.disk.total_bytes) + SLACK, f"{place} is full"
                assert not volume.disk.closed, f"{place} is closed"
        self.events.append((step.end_s, index, "end"))

    def check_concurrency(self, new: ScheduleStep) -> None:
        into: dict[int, int] = {}
        out: dict[int, list[int]] = {}
        inside: dict[int, int] = {}
        for step in self.in_flight.values():
            for place in step.adding:
                table = inside if step.kind is StepKind.INSIDE else into
                table[place.broker] = table.get(place.broker, 0) + 1
            if step.kind is not StepKind.INSIDE and step.adding and step.leader is not None:
                out.setdefault(step.leader, []).append(len(step.adding))
        for place in new.adding:
            if new.kind is StepKind.INSIDE:
                assert inside[place.broker] <= self.limits.inside_each
            else:
                assert into[place.broker] <= self.limits.into_each
        if new.adding and new.kind is not StepKind.INSIDE and new.leader is not None:
            sent = out[new.leader]
            # One that asks for more copies than the limit goes alone.
            assert sum(sent) <= self.limits.out_each or len(sent) == 1
        assert len(self.in_flight) <= self.limits.cluster


def verify_schedule(
    schedule: Schedule,
    tasks: Sequence[PartitionTask],
    dir_tasks: Sequence[DirTask],
    disks: Sequence[Disk],
    limits: ScheduleLimits,
    rates: BrokerRates,
    speeds: Speeds,
    *,
    racks: Mapping[int, str | None] | None = None,
) -> None:
    """Every task that is not immovable reaches its target, and nothing on the way there breaks a limit."""
    by_key = {t.key: t for t in tasks}
    replay = _start_of(tasks, dir_tasks, disks, limits)
    before_s = 0.0
    for index, step in enumerate(schedule.steps):
        assert before_s <= step.start_s <= step.end_s, "steps are in the order of their start"
        before_s = step.start_s
        replay.advance(step.start_s, schedule.steps)
        _check_chain(schedule.steps, index, replay)
        task = by_key.get(step.key)
        left = float(step.size_bytes)
        if step.running:
            assert step.start_s == 0
            left = _left_of_running(step, task, dir_tasks)
        if step.kind is StepKind.INSIDE:
            _check_inside(step, replay)
        else:
            assert task is not None
            _check_list(step, task, replay.lists[step.key], limits, racks or {})
        replay.begin(index, step, left)
        if not step.running:
            replay.check_concurrency(step)
    replay.advance(float("inf"), schedule.steps)
    _check_ends(schedule, tasks, dir_tasks, replay)
    assert schedule.makespan_s == max((s.end_s for s in schedule.steps), default=0.0)
    _check_pace(schedule.steps, speeds)
    bound_s = own_bound(schedule, tasks, dir_tasks, rates, speeds)
    assert schedule.bound_s <= schedule.makespan_s * (1 + 1e-9) + 1e-6
    if not any(s.kind in (StepKind.DETOUR, StepKind.PART) for s in schedule.steps):
        assert bound_s <= schedule.makespan_s * (1 + 1e-9) + 1e-6, "faster than the rates allow"
        assert schedule.bound_s >= bound_s * (1 - 1e-6) - 1e-3 * len(tasks) - 1e-3


def _check_pace(steps: Sequence[ScheduleStep], speeds: Speeds) -> None:
    """No step takes less than every step does, and the controller ends one after another."""
    for step in steps:
        assert step.end_s - step.start_s >= speeds.step_s - 1e-6, "a step ends before anybody could see it"
    ends = sorted(s.end_s for s in steps if s.kind is not StepKind.INSIDE)
    for count, end_s in enumerate(ends, 1):
        assert end_s >= count / speeds.steps_per_s - 1e-6, "faster than the controller"


def own_bound(
    schedule: Schedule, tasks: Sequence[PartitionTask], dir_tasks: Sequence[DirTask], rates: BrokerRates, speeds: Speeds
) -> float:
    """The busiest broker's seconds, from the tasks that are not immovable."""

    def seconds(count: float, throttle: int | None, line: float) -> float:
        return count / (line if throttle is None else min(line, throttle * speeds.efficiency))

    into: dict[int, float] = {}
    out: dict[int, float] = {}
    inside: dict[int, float] = {}
    for task in tasks:
        if task.key in schedule.immovable or not task.adding or task.leader is None:
            continue
        left = max(0.0, task.size_bytes * len(task.adding) - task.copied_bytes)
        out[task.leader] = out.get(task.leader, 0.0) + left
        for broker in task.adding:
            into[broker] = into.get(broker, 0.0) + left / len(task.adding)
    lists = {t.key: t for t in tasks}
    for item in dir_tasks:
        if item.key not in schedule.immovable and (item.key not in lists or item.broker in lists[item.key].target):
            inside[item.broker] = inside.get(item.broker, 0.0) + max(0, item.size_bytes - item.copied_bytes)
    return max(
        [
            0.0,
            *(seconds(n, rates.into_broker(b), speeds.line_bytes_per_s) for b, n in into.items()),
            *(seconds(n, rates.out_of_broker(b), speeds.line_bytes_per_s) for b, n in out.items()),
            *(seconds(n, rates.inside, speeds.disk_bytes_per_s) for n in inside.values()),
        ]
    )


def _start_of(
    tasks: Sequence[PartitionTask], dir_tasks: Sequence[DirTask], disks: Sequence[Disk], limits: ScheduleLimits
) -> Replay:
    volumes = {}
    for disk in disks:
        used = 0.0
        if disk.total_bytes is not None and disk.usable_bytes is not None:
            used = float(disk.total_bytes - disk.usable_bytes)
        volumes[disk.place] = Volume(disk, used, disk.growth_bytes_per_s, used)
    dirs = {(t.key, b): d for t in tasks for b, d in t.dirs.items()}
    dirs |= {(d.key, d.broker): d.source_dir for d in dir_tasks}
    ingest = {d.key: d.ingest_bytes_per_s for d in dir_tasks}
    ingest |= {t.key: t.ingest_bytes_per_s for t in tasks}
    return Replay(limits, {t.key: t.holders for t in tasks}, dirs, ingest, volumes)


def _left_of_running(step: ScheduleStep, task: PartitionTask | None, dir_tasks: Sequence[DirTask]) -> float:
    if step.kind is StepKind.INSIDE:
        item = next(d for d in dir_tasks if d.key == step.key and d.broker == step.adding[0].broker)
        assert item.running
        return max(0.0, item.size_bytes - item.copied_bytes)
    assert task is not None
    assert task.running
    return max(0.0, step.size_bytes - task.copied_bytes / max(1, len(step.adding)))


def _check_chain(steps: Sequence[ScheduleStep], index: int, replay: Replay) -> None:
    step = steps[index]
    earlier = [n for n in range(index) if steps[n].key == step.key]
    assert not any(s.key == step.key for s in replay.in_flight.values()), f"{step.key} is in flight twice"
    assert step.after == (earlier[-1] if earlier else None)
    assert step.after is None or replay.ended[step.after] <= step.start_s


def _check_inside(step: ScheduleStep, replay: Replay) -> None:
    (came,), (gone,) = step.adding, step.removing
    assert came.broker == gone.broker
    assert came.log_dir != gone.log_dir
    assert step.target == ()
    known = replay.dirs.get((step.key, gone.broker))
    assert known is None or known == gone.log_dir


def _check_list(
    step: ScheduleStep,
    task: PartitionTask,
    now: tuple[int, ...],
    limits: ScheduleLimits,
    racks: Mapping[int, str | None],
) -> None:
    assert len(set(step.target)) == len(step.target)
    assert {p.broker for p in step.adding} == set(step.target) - set(now)
    assert {p.broker for p in step.removing} == set(now) - set(step.target)
    assert len(step.target) >= min(len(task.holders), len(task.target)), "a replica set gets too small"
    assert len(step.target) <= max(len(task.holders), len(task.target))
    assert not step.adding or step.leader in now, "a copy needs a source"
    if limits.one_replica_at_a_time and not step.running:
        assert len(step.adding) <= 1
    for place in step.adding:
        wanted = task.wanted_dirs.get(place.broker)
        assert not wanted or place.log_dir == wanted
    if step.kind is StepKind.DETOUR:
        assert step.why
        (spare,) = step.adding
        assert spare.broker not in task.target
        assert _racks(step.target, racks) >= min(_racks(task.holders, racks), _racks(task.target, racks))


def _racks(brokers: Sequence[int], racks: Mapping[int, str | None]) -> int:
    return len({racks.get(b) or str(b) for b in brokers})


def _check_ends(
    schedule: Schedule, tasks: Sequence[PartitionTask], dir_tasks: Sequence[DirTask], replay: Replay
) -> None:
    touched = {s.key for s in schedule.steps if not s.running}
    lists = {t.key: t for t in tasks}
    for task in tasks:
        if task.key in schedule.immovable:
            assert schedule.immovable[task.key]
            continue
        assert replay.lists[task.key] == task.target, f"{task.key} ends at {replay.lists[task.key]}"
        for broker in task.adding:
            wanted = task.wanted_dirs.get(broker)
            assert not wanted or replay.dirs[task.key, broker] == wanted
    for item in dir_tasks:
        if item.key in schedule.immovable or (item.key in lists and item.broker not in lists[item.key].target):
            continue
        assert replay.dirs[item.key, item.broker] == item.target_dir
    partly = {k for k in schedule.immovable if k in touched and k in lists and replay.lists[k] != lists[k].target}
    assert not {k for k in partly if replay.lists[k] != lists[k].holders}, "a immovable partition was left half-way"
