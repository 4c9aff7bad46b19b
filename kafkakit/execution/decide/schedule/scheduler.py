"""From tasks to a schedule: a rolling window by list scheduling over a model of flows, safe for every log dir."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import counted
from kafkakit.execution.decide.schedule.bound import lower_bound
from kafkakit.execution.decide.schedule.deadlock import break_deadlock, why_immovable
from kafkakit.execution.decide.schedule.flow import Ends
from kafkakit.execution.decide.schedule.free_space import FreeSpace
from kafkakit.execution.decide.schedule.partition_steps import Job, dir_job_of, job_of
from kafkakit.execution.decide.schedule.rolling_window import Rolling
from kafkakit.execution.decide.schedule.schedule_state import ScheduleState
from kafkakit.execution.decide.schedule.work import DirTask, Disk, Limits, Rates, Schedule, Speeds, Task

EXACT_JOBS = 2000  # above that, time goes in steps of at least bound / QUANTA
QUANTA = 3000
TRIES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inputs:
    """What all tries at a schedule share."""

    tasks: tuple[Task, ...]
    dir_tasks: tuple[DirTask, ...]
    disks: tuple[Disk, ...]
    brokers: tuple[int, ...]
    limits: Limits
    rates: Rates
    speeds: Speeds
    racks: Mapping[int, str | None]
    spares: tuple[int, ...]

    def without(self, keys: Collection[TopicPartition]) -> "_Inputs":
        """The inputs without some partitions."""
        return replace(
            self,
            tasks=tuple(t for t in self.tasks if t.key not in keys),
            dir_tasks=tuple(d for d in self.dir_tasks if d.key not in keys),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Try:
    """One run of the window, and the jobs that it leaves."""

    rolling: Rolling
    jobs: tuple[Job, ...]
    immovable: Mapping[TopicPartition, str]
    makespan_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """The last of several tries, with the tasks that it was about, and all partitions that no try served."""

    last: _Try
    inputs: _Inputs
    immovable: Mapping[TopicPartition, str]
    late: bool
    detoured_early: bool


def plan_schedule(
    tasks: Sequence[Task],
    dir_tasks: Sequence[DirTask],
    disks: Sequence[Disk],
    limits: Limits,
    rates: Rates,
    speeds: Speeds,
    *,
    racks: Mapping[int, str | None] | None = None,
    spares: Collection[int] | None = None,
) -> Schedule:
    """Order the tasks so that they end soon and no log dir is ever above its limit.

    Copies on their way share what their leader sends and what their broker takes in. Running tasks are in flight at
    the start, urgent ones go first, then those whose busiest end has most left. A new copy books its whole size and
    its log's growth from its start, an old one until it is deleted. Where all that is left waits for space, the
    cheapest request that helps is added: one replica at a time, another dir of the broker, or a detour over one of
    `spares` (None: any broker in `disks`) that keeps the copies in as many of `racks`. The same is done for full dirs
    of brokers that idle while the others work, up to a tenth of all bytes. What no order serves is `immovable`.
    Pure and deterministic; 50,000 tasks on 600 brokers take some seconds.
    """
    immovable, inputs = _prepared(tasks, dir_tasks, disks, limits, rates, speeds, racks or {}, spares)
    bound = lower_bound(inputs.tasks, inputs.dir_tasks, rates, speeds, limits)
    quantum_s = bound[0] / QUANTA if len(inputs.tasks) + len(inputs.dir_tasks) > EXACT_JOBS else 0.0
    horizon_s = 1.1 * bound[0] + limits.deletion_delay_s
    best = _search(inputs, horizon_s, quantum_s, may_detour_early=True)
    if best.detoured_early and (best.immovable or best.late):  # speed is not worth a partition
        best = min(
            best,
            _search(inputs, horizon_s, quantum_s, may_detour_early=False),
            key=lambda s: (len(s.immovable), s.late),
        )
    found, inputs, late = best.last, best.inputs, best.late
    immovable |= best.immovable
    elsewhere = {j.key for j in found.jobs if j.served_elsewhere}
    if immovable or elsewhere:
        moving = inputs.without(immovable)
        bound = lower_bound(moving.tasks, moving.dir_tasks, rates, speeds, limits, served_elsewhere=elsewhere)
    # Sums of floats in another order may differ in the last digits; more than that would be a fault, and is shown.
    rounded = found.makespan_s < bound[0] <= found.makespan_s * (1 + 1e-9)
    return Schedule(
        steps=tuple(found.rolling.steps),
        makespan_s=found.makespan_s,
        bound_s=found.makespan_s if rounded else bound[0],
        bottleneck=bound[1],
        immovable=dict(sorted(immovable.items())),
        notes=_notes(inputs, late=late, many=bound[0] > speeds.step_s and bound[1] is None),
    )


def _search(inputs: _Inputs, horizon_s: float, quantum_s: float, *, may_detour_early: bool) -> _Search:
    """Run the window until no partition is left on its way; each time some may not be cut into several requests."""
    grows = any(d.growth_bytes_per_s for d in inputs.disks) or any(t.ingest_bytes_per_s for t in inputs.tasks)
    grows = grows or any(d.ingest_bytes_per_s for d in inputs.dir_tasks)
    immovable: dict[TopicPartition, str] = {}
    indivisible: frozenset[TopicPartition] = frozenset()
    detoured_early = False
    for attempt in range(TRIES):
        found = _attempt(inputs, horizon_s, indivisible, quantum_s, may_detour_early=may_detour_early)
        detoured_early |= found.rolling.detoured_early > 0
        # A partition that stays somewhere on its way is worse than one that never leaves.
        halfway = {j.key for j in found.jobs if not j.is_done and j.legs_done}
        late = grows and found.makespan_s > horizon_s
        if not halfway and not late:
            break
        if late:
            horizon_s = 1.2 * found.makespan_s
        hopeless = halfway & indivisible | {j.key for j in found.jobs if j.key in halfway and j.singly}
        immovable |= {k: found.immovable[k] for k in sorted(hopeless)}
        inputs = inputs.without(hopeless)
        indivisible |= halfway if attempt < TRIES // 2 else {j.key for j in found.jobs}
    return _Search(
        last=found, inputs=inputs, immovable=immovable | dict(found.immovable), late=late, detoured_early=detoured_early
    )


def _prepared(
    tasks: Sequence[Task],
    dir_tasks: Sequence[DirTask],
    disks: Sequence[Disk],
    limits: Limits,
    rates: Rates,
    speeds: Speeds,
    racks: Mapping[int, str | None],
    spares: Collection[int] | None,
) -> tuple[dict[TopicPartition, str], _Inputs]:
    """Set aside what cannot even begin, and number the brokers."""
    named = {b for t in tasks for b in (*t.holders, *t.target)} | {d.broker for d in dir_tasks}
    named |= {d.place.broker for d in disks} | {t.leader for t in tasks if t.leader is not None} | set(spares or ())
    brokers = tuple(sorted(named))
    ends = Ends(brokers, limits, rates, speeds)
    immovable: dict[TopicPartition, str] = {}
    for task in sorted(tasks, key=lambda t: t.key):
        if task.adding and task.leader is None:
            immovable[task.key] = "it has no leader, so no broker serves a new copy"
            continue
        served = [] if task.leader is None or not task.adding else [("send", task.leader, ends.out(task.leader))]
        for verb, broker, end in [*served, *(("take in", b, ends.into(b)) for b in task.adding)]:
            if ends.rate[end] <= 0:
                immovable[task.key] = f"broker {broker} may {verb} 0 bytes/s"
    kept = tuple(t for t in sorted(tasks, key=lambda t: t.key) if t.key not in immovable)
    for item in sorted(dir_tasks, key=lambda d: (d.key, d.broker)):
        if ends.rate[ends.inside(item.broker)] <= 0:
            immovable.setdefault(item.key, f"broker {item.broker} may copy 0 bytes/s between its dirs")
    lists = {t.key: t for t in kept}
    inside = [
        d
        for d in sorted(dir_tasks, key=lambda d: (d.key, d.broker))
        if d.key not in immovable and (d.key not in lists or d.broker in lists[d.key].target)
    ]
    alive = {d.place.broker for d in disks if not d.closed} if spares is None else set(spares)
    return immovable, _Inputs(
        tasks=kept,
        dir_tasks=tuple(inside),
        disks=tuple(disks),
        brokers=brokers,
        limits=limits,
        rates=rates,
        speeds=speeds,
        racks=racks,
        spares=tuple(sorted(alive)),
    )


def _attempt(
    inputs: _Inputs,
    horizon_s: float,
    indivisible: frozenset[TopicPartition],
    quantum_s: float,
    *,
    may_detour_early: bool,
) -> _Try:
    where: dict[TopicPartition, dict[int, str]] = {}
    singly = inputs.limits.one_replica_at_a_time
    jobs = [
        job_of(t, where.setdefault(t.key, {}), singly=singly, indivisible=t.key in indivisible) for t in inputs.tasks
    ]
    jobs += [dir_job_of(d, where.setdefault(d.key, {}), indivisible=d.key in indivisible) for d in inputs.dir_tasks]
    ends = Ends(inputs.brokers, inputs.limits, inputs.rates, inputs.speeds)
    space = FreeSpace(inputs.disks, inputs.brokers, inputs.limits, horizon_s)
    state = ScheduleState(jobs, ends, space)
    rolling = Rolling(
        state,
        inputs.limits,
        inputs.speeds,
        quantum_s=quantum_s,
        may_detour_early=may_detour_early,
        spares=inputs.spares,
        racks=inputs.racks,
    )
    rolling.start_running()
    rolling.run()
    while state.waiting.any():
        way = break_deadlock(state, inputs.spares, inputs.racks)
        if way is None:
            break
        rolling.start_now(*way)
        rolling.run()
    immovable = {jobs[int(i)].key: why_immovable(state, int(i)) for i in state.waiting.nonzero()[0]}
    makespan_s = max((s.end_s for s in rolling.steps), default=0.0)
    return _Try(rolling=rolling, jobs=tuple(jobs), immovable=immovable, makespan_s=makespan_s)


def _notes(inputs: _Inputs, *, late: bool, many: bool) -> tuple[str, ...]:
    notes = []
    silent = sorted({d.place.broker for d in inputs.disks if d.total_bytes is None or d.usable_bytes is None})
    known = {d.place.broker for d in inputs.disks}
    silent += sorted({b for t in inputs.tasks for b in t.adding} - known)
    if silent:
        shown = ", ".join(map(str, silent[:10])) + (" ..." if len(silent) > 10 else "")
        notes.append(f"{counted(len(silent), 'broker')} reported no disk sizes, their dirs are not limited: {shown}")
    unsized = sum(1 for t in inputs.tasks if t.adding and not t.size_bytes)
    if unsized:
        notes.append(f"{counted(unsized, 'partition')} of unknown or no size: copies are taken to bring no bytes")
    if many:
        notes.append("the number of requests, and not their bytes, is what takes the time")
    if late:
        notes.append("logs grow for longer than was booked: log dirs may run short of free space near the end")
    return tuple(notes)
