"""From tasks to a schedule: list scheduling in a rolling window, over a model of flows, safe for every log dir.

The window starts what may start, lets copies flow, and continues to the next end of a copy. Time is taken in steps of
at least `quantum_s`, so a run of 50,000 moves costs some thousand looks at arrays. Copies that end within one step
end at their own time; what takes their place starts at the end of the step. A request whose copies are all there ends
a little later: see `Speeds.step_s` and `steps_per_s`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import count_of
from kafkakit.execution.decide.run_rules import ScheduleLimits
from kafkakit.execution.decide.schedule.model import (
    Ends,
    FreeSpace,
    Job,
    PartitionRequest,
    dir_job_of,
    fair_rates,
    job_of,
    lower_bound,
)
from kafkakit.execution.decide.schedule.state import (
    ScheduleState,
    break_deadlock,
    bytes_left,
    free_full_dir,
    why_immovable,
)
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

if TYPE_CHECKING:
    import numpy as np


EXACT_JOBS = 2000  # above that, time goes in steps of at least bound / QUANTA
QUANTA = 3000
TRIES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inputs:
    """What all tries at a schedule share."""

    tasks: tuple[PartitionTask, ...]
    dir_tasks: tuple[DirTask, ...]
    disks: tuple[Disk, ...]
    brokers: tuple[int, ...]
    limits: ScheduleLimits
    rates: BrokerRates
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


@dataclass(slots=True)
class SentRequest:
    """A request on its way: its index among the steps, the slots of its copies, and how many still flow."""

    job: int
    leg: PartitionRequest
    step: int
    slots: tuple[int, ...]
    flows: int
    end_s: float


class Rolling:
    """One run of the window over the state of jobs: what flows now, what is to be deleted, and the steps so far."""

    def __init__(
        self,
        state: ScheduleState,
        limits: ScheduleLimits,
        speeds: Speeds,
        *,
        quantum_s: float,
        may_detour_early: bool,
        spares: Collection[int],
        racks: Mapping[int, str | None],
    ) -> None:
        import numpy as np

        self.state, self._limits, self._speeds, self._quantum_s = state, limits, speeds, quantum_s
        self._spares, self._racks = spares, racks
        self._extra_left = EXTRA * float(state.load.sum()) / 2 if may_detour_early else 0.0
        self.detoured_early = 0
        self.now_s = 0.0
        self.steps: list[ScheduleStep] = []
        self._flow_left = np.zeros(0)
        self._flow_ends = np.zeros((2, 0), dtype=np.int64)
        self._flow_ingest = np.zeros(0)
        self._flow_flight = np.zeros(0, dtype=np.int64)
        self._new: list[tuple[float, int, int, float, int]] = []
        self._sent: dict[int, SentRequest] = {}
        self._ending: list[tuple[float, int]] = []
        self._controller_s = 0.0
        self._deletions: list[tuple[float, int, int, float, float]] = []
        self._siblings: dict[TopicPartition, list[int]] = {}
        for index, job in enumerate(state.jobs):
            self._siblings.setdefault(job.key, []).append(index)

    def run(self) -> None:
        """Carry out what can be; jobs that are left are blocked for good and still `waiting`.

        Ends when nothing flows and nothing is to be deleted; `start_now` and another call continue from there.
        """
        while True:
            self._catch_up()
            self._start()
            self._detour_early()
            if self._new or len(self._flow_left):
                self._flow()
            elif self._ending or self._deletions:
                pause = self._quantum_s if len(self._ending) > 1 else 0.0
                self.now_s = max(self.now_s + pause, self._next_event_s())
            else:
                return

    def _catch_up(self) -> None:
        """Take note of all that was due until now."""
        while self._next_event_s() <= self.now_s:
            if self._ending and self._ending[0][0] <= self.now_s:
                self._finish(self._sent[heappop(self._ending)[1]])
            else:
                _, _, slot, size, ingest = heappop(self._deletions)
                self.state.space.give(slot, size, ingest)

    def _next_event_s(self) -> float:
        """When the next request ends whose copies are there, or the next old copy is deleted."""
        ending = self._ending[0][0] if self._ending else float("inf")
        return min(ending, self._deletions[0][0]) if self._deletions else ending

    def start_running(self) -> None:
        """Take over what is on the cluster already, whatever the limits say."""
        for index, job in enumerate(self.state.jobs):
            if job.running:
                self._launch(index, self.state.legs[index])

    def start_now(self, index: int, leg: PartitionRequest) -> None:
        """Send this request of a blocked job instead of the one it waits with."""
        if leg.kind is not StepKind.PART:
            self.state.book_extra(index, leg)
        self.state.replace_leg(index, leg)
        self._launch(index, leg)

    def _detour_early(self) -> None:
        """Take a copy out of each full dir for which a broker with much to do idles.

        Few free places go round among many full dirs, and all wait for the next: some copies made twice pay.
        """
        idle = self.state.idle_and_full() if self._extra_left > 0 and self._sent else []
        if not idle:
            return
        freed = {slot for _, _, slot, _, _ in self._deletions}
        freed |= {self.state.frees_of(f.job) for f in self._sent.values()}
        spares = self.state.open_spares(self._spares)
        for slot in idle:
            if slot in freed or len(self._sent) >= self._limits.cluster:
                continue
            way = free_full_dir(self.state, slot, spares, self._racks)
            if way is not None:
                self._extra_left -= self.state.jobs[way[0]].size
                self.detoured_early += 1
                self.start_now(*way)
                spares = self.state.open_spares(spares)

    def _start(self) -> None:
        """Start all that may start now, the most pressing first.

        One after another would be 100 looks for one start, for most rows go to brokers that the first ones fill. So
        each broker's first row has its turn, and then the rest is held against the limits again.
        """
        state = self.state
        while len(self._sent) < self._limits.cluster:
            rows = state.all_startable()
            if not len(rows):
                return
            rows = _most_pressing(rows, state.pressing(rows), 16 * (self._limits.cluster - len(self._sent)))
            while len(rows):
                first = state.first_for_brokers(rows)
                for index in rows[first].tolist():
                    if len(self._sent) >= self._limits.cluster:
                        return
                    if state.fits(index):
                        self._launch(index, state.legs[index])
                rows = state.startable(rows[~first])
            if self._quantum_s:
                return  # who comes free by what has just started has the next look, a quantum later

    def _launch(self, index: int, leg: PartitionRequest) -> None:
        job = self.state.jobs[index]
        source, sinks, slots = self.state.occupy(index, leg)
        left = bytes_left(job, len(sinks))
        sent = SentRequest(index, leg, len(self.steps), tuple(slots), len(slots), self.now_s)
        for sink, slot in zip(sinks, slots, strict=True):
            self.state.space.take(slot, left, job.ingest)
            self._new.append((left, source, sink, job.ingest, sent.step))
        self._sent[sent.step] = sent
        self.steps.append(self._step(job, leg, slots))
        for other in self._siblings[job.key]:
            self.state.waiting[other] = False
        if not slots:
            self._arrived(sent)

    def _step(self, job: Job, leg: PartitionRequest, slots: list[int]) -> ScheduleStep:
        place = self.state.space.place
        adding = [place(s, b, leg.to_dir or job.wanted.get(b)) for s, b in zip(slots, leg.adds, strict=True)]
        inside = leg.kind is StepKind.INSIDE
        gone = leg.adds if inside else leg.removes
        return ScheduleStep(
            key=job.key,
            kind=leg.kind,
            target=() if inside else leg.target,
            leader=job.leader,
            adding=tuple(adding),
            removing=tuple(self._place_of_copy(job, b) for b in gone),
            size_bytes=job.size,
            start_s=self.now_s,
            end_s=self.now_s,
            running=job.running,
            after=job.last_step,
            why=leg.why,
        )

    def _place_of_copy(self, job: Job, broker: int) -> LogDirPlace:
        slot = self.state.space.slot_of_copy(broker, job.where.get(broker))
        path = job.where.get(broker)
        return LogDirPlace(broker, path or "") if slot is None else self.state.space.place(slot, broker, path)

    def _flow(self) -> None:
        """Let time pass until the next copy ends, or longer by up to a quantum."""
        import numpy as np

        self._take_new()
        rates = fair_rates(self._flow_ends[0], self._flow_ends[1], self.state.rate)
        net = np.maximum(rates - self._flow_ingest, LEAST_NET * rates)
        wants = self._flow_left / net
        pause = float(wants.min())
        pause = min(pause, self._next_event_s() - self.now_s)
        pause = max(pause, self._quantum_s if len(wants) > 1 else 0.0)
        done = wants <= pause
        moved = np.where(done, self._flow_left, net * pause)
        count = len(self.state.load)
        self.state.load -= np.bincount(self._flow_ends[0], moved, minlength=count)
        self.state.load -= np.bincount(self._flow_ends[1], moved, minlength=count)
        np.maximum(self.state.load, 0.0, out=self.state.load)
        began = self.now_s
        ended = [
            (began + took, step)
            for took, step in zip(wants[done].tolist(), self._flow_flight[done].tolist(), strict=True)
        ]
        stay = ~done
        self._flow_left = (self._flow_left - moved)[stay]
        self._flow_ends = self._flow_ends[:, stay]
        self._flow_ingest, self._flow_flight = self._flow_ingest[stay], self._flow_flight[stay]
        self.now_s = began + pause
        for end_s, step in sorted(ended):
            sent = self._sent[step]
            sent.flows -= 1
            sent.end_s = max(sent.end_s, end_s)
            if not sent.flows:
                self._arrived(sent)

    def _take_new(self) -> None:
        import numpy as np

        if not self._new:
            return
        left, source, sink, ingest, step = zip(*self._new, strict=True)
        self._flow_left = np.concatenate([self._flow_left, left])
        self._flow_ends = np.concatenate([self._flow_ends, np.array([source, sink])], axis=1)
        self._flow_ingest = np.concatenate([self._flow_ingest, ingest])
        self._flow_flight = np.concatenate([self._flow_flight, np.array(step)])
        self._new = []

    def _arrived(self, sent: SentRequest) -> None:
        """All copies of a request are there: it ends when that is seen, and when the controller comes to it."""
        sent.end_s += self._speeds.step_s
        if sent.leg.kind is not StepKind.INSIDE:
            sent.end_s = max(sent.end_s, self._controller_s + 1 / self._speeds.steps_per_s)
            self._controller_s = sent.end_s
        heappush(self._ending, (sent.end_s, sent.step))

    def _finish(self, sent: SentRequest) -> None:
        state, leg, index = self.state, sent.leg, sent.job
        job = state.jobs[index]
        self.steps[sent.step] = replace(self.steps[sent.step], end_s=sent.end_s)
        state.vacate(index, leg)
        del self._sent[sent.step]
        gone = leg.adds if leg.kind is StepKind.INSIDE else leg.removes
        for broker in gone:
            slot = self.state.space.slot_of_copy(broker, job.where.get(broker))
            if slot is not None:
                due = sent.end_s + self._limits.deletion_delay_s
                heappush(self._deletions, (due, sent.step, slot, float(job.size), job.ingest))
        job.arrive(leg, tuple(p.log_dir for p in self.steps[sent.step].adding))
        for other in self._siblings[job.key]:
            state.jobs[other].last_step = sent.step
            state.waiting[other] = not state.jobs[other].is_done
        if not job.is_done:
            state.set_next(index)


@dataclass(frozen=True, slots=True, kw_only=True)
class _WindowTry:
    """One run of the window, and the jobs that it leaves."""

    rolling: Rolling
    jobs: tuple[Job, ...]
    immovable: Mapping[TopicPartition, str]
    makespan_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _WindowSearch:
    """The last of several tries, with the tasks that it was about, and all partitions that no try served."""

    last: _WindowTry
    inputs: _Inputs
    immovable: Mapping[TopicPartition, str]
    late: bool
    detoured_early: bool


def plan_schedule(
    tasks: Sequence[PartitionTask],
    dir_tasks: Sequence[DirTask],
    disks: Sequence[Disk],
    limits: ScheduleLimits,
    rates: BrokerRates,
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
    immovable, inputs = _prepare_inputs(tasks, dir_tasks, disks, limits, rates, speeds, racks or {}, spares)
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


def _search(inputs: _Inputs, horizon_s: float, quantum_s: float, *, may_detour_early: bool) -> _WindowSearch:
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
    return _WindowSearch(
        last=found, inputs=inputs, immovable=immovable | dict(found.immovable), late=late, detoured_early=detoured_early
    )


def _prepare_inputs(
    tasks: Sequence[PartitionTask],
    dir_tasks: Sequence[DirTask],
    disks: Sequence[Disk],
    limits: ScheduleLimits,
    rates: BrokerRates,
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
) -> _WindowTry:
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
    return _WindowTry(rolling=rolling, jobs=tuple(jobs), immovable=immovable, makespan_s=makespan_s)


def _notes(inputs: _Inputs, *, late: bool, many: bool) -> tuple[str, ...]:
    notes = []
    silent = sorted({d.place.broker for d in inputs.disks if d.total_bytes is None or d.usable_bytes is None})
    known = {d.place.broker for d in inputs.disks}
    silent += sorted({b for t in inputs.tasks for b in t.adding} - known)
    if silent:
        shown = ", ".join(map(str, silent[:10])) + (" ..." if len(silent) > 10 else "")
        notes.append(f"{count_of(len(silent), 'broker')} reported no disk sizes, their dirs are not limited: {shown}")
    unsized = sum(1 for t in inputs.tasks if t.adding and not t.size_bytes)
    if unsized:
        notes.append(f"{count_of(unsized, 'partition')} of unknown or no size: their copies are taken as empty")
    if many:
        notes.append("limited by the number of moves, not by their size")
    if late:
        notes.append("logs grow for longer than was planned for: log dirs may run short of free space near the end")
    return tuple(notes)


EXTRA = 0.1  # the most bytes that are copied twice to keep brokers busy, as a share of all
LEAST_NET = 0.01  # share of its rate that a copy is taken to make even where its log grows faster


def _most_pressing(rows: "np.ndarray", keys: "np.ndarray", few: int) -> "np.ndarray":
    """The first rows by their keys, in order: as many as `few`, and those that the first key cannot tell from these."""
    import numpy as np

    if few < len(rows):
        among = np.flatnonzero(keys[0] <= np.partition(keys[0], few)[few])
        rows, keys = rows[among], keys[:, among]
    found: np.ndarray = rows[np.lexsort(keys[::-1])]
    return found
