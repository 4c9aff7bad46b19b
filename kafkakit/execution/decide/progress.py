"""A schedule while it is carried out: which steps may be sent, where each stands, and how copies in flight are doing.

A step is waiting, in flight, done, or given up. Which steps may be sent follows from what brokers really report, not
from what was predicted. `observe` judges one observation: progress, stalls, and when to stop; `follow` carries the
judgement over time. All of it is pure; loops that look and sleep are elsewhere.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kafkakit.core.cluster_facts import BrokerLogDirs, PartitionState
from kafkakit.core.model import Reassignment, TopicPartition, TopicPartitionReplica
from kafkakit.execution.decide.plan_state import DirWork, LiveState, MoveGoal, ids, list_items, made_anew
from kafkakit.execution.decide.run_rules import ScheduleLimits
from kafkakit.execution.decide.schedule.work import BrokerRates, Disk, LogDirPlace, Schedule, ScheduleStep, StepKind

Lists = Mapping[TopicPartition, Collection[tuple[int, ...]]]
Dirs = Mapping[int, BrokerLogDirs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What holds for a whole run of a schedule: its limits, the sizes of log dirs, the lists that are ours, the rates.

    `rates` None: no throttle.
    """

    limits: ScheduleLimits
    totals: Mapping[LogDirPlace, int | None]
    ours: Lists
    rates: BrokerRates | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundState:
    """The steps of a schedule by number; what is in none of the four collections waits.

    `moves` are requests on the cluster, as the goals that were sent; `inside` are copies on their way to another
    dir of their broker. `dropped` steps are given up. Brokers in `several` have more than one log dir, so that they
    have to be told which one a copy goes to.
    """

    schedule: Schedule
    goals: Mapping[TopicPartition, MoveGoal]
    done: frozenset[int] = frozenset()
    moves: Mapping[int, MoveGoal] = field(default_factory=dict)
    inside: Mapping[int, DirWork] = field(default_factory=dict)
    dropped: frozenset[int] = frozenset()
    several: frozenset[int] = frozenset()

    @property
    def flying(self) -> frozenset[int]:
        """The steps in flight."""
        return frozenset(self.moves) | frozenset(self.inside)

    @property
    def waiting(self) -> tuple[int, ...]:
        """The steps that are neither sent nor over, in the schedule's order."""
        over = self.done | self.dropped
        return tuple(
            n for n in range(len(self.schedule.steps)) if n not in over and n not in self.moves and n not in self.inside
        )

    @property
    def waiting_set(self) -> frozenset[int]:
        """`waiting`, for asking whether a step is among them."""
        return frozenset(self.waiting)

    @property
    def is_over(self) -> bool:
        """True when no step waits or flies."""
        return len(self.done) + len(self.dropped) == len(self.schedule.steps)


def begin(schedule: Schedule, goals: Sequence[MoveGoal], disks: Iterable[Disk] = ()) -> RoundState:
    """The state before the first tick; steps that a cut run has sent are in flight from the start."""
    by_key = {g.key: g for g in goals}
    moves: dict[int, MoveGoal] = {}
    dirs: dict[int, DirWork] = {}
    for number, step in enumerate(schedule.steps):
        if step.running and step.kind is StepKind.INSIDE:
            dirs[number] = work_of(step)
        elif step.running:
            moves[number] = replace(by_key[step.key], target=step.target, running=True)
    dirs_of = Counter(d.place.broker for d in disks)
    several = frozenset(b for b, count in dirs_of.items() if count > 1)
    return RoundState(schedule=schedule, goals=by_key, moves=moves, inside=dirs, several=several)


def work_of(step: ScheduleStep) -> DirWork:
    """The copy that an `inside` step moves, and from where to where."""
    (source,), (place,) = step.removing, step.adding
    replica = TopicPartitionReplica(step.key.topic, step.key.partition, place.broker)
    return DirWork(replica=replica, source=source.log_dir, target=place.log_dir, size_bytes=step.size_bytes)


def goal_of(round_state: RoundState, number: int, live: LiveState) -> MoveGoal:
    """What to send for a step, from the copies that are there now; dirs are named where the schedule counts on them."""
    step, final = round_state.schedule.steps[number], round_state.goals[round_state.schedule.steps[number].key]
    coming = live.running[step.key].adding if step.key in live.running else ()
    return MoveGoal(
        key=step.key,
        target=step.target,
        holders=tuple(b for b in live.states[step.key].replicas if b not in coming),
        size_bytes=step.size_bytes or final.size_bytes,
        topic_id=final.topic_id,
        dirs={p.broker: p.log_dir for p in step.adding if p.log_dir and p.broker in round_state.several},
    )


def expected_list(round_state: RoundState, number: int) -> tuple[int, ...]:
    """The copies that the schedule presumes before a step: those of the look, or what the step before it made."""
    step = round_state.schedule.steps[number]
    while step.after is not None:
        step = round_state.schedule.steps[step.after]
        if step.target:  # copies that change dirs inside a broker leave the list as it is
            return step.target
    return round_state.goals[step.key].holders


def settle(
    round_state: RoundState,
    *,
    done: Iterable[int] = (),
    dropped: Iterable[int] = (),
    keys: Collection[TopicPartition] = (),
) -> RoundState:
    """Take steps off the cluster: finished ones, given up ones, and all that is left of the partitions in `keys`."""
    finished = round_state.done | frozenset(done)
    lost = set(dropped)
    if finished == round_state.done and not lost and not keys:
        return round_state
    if keys:
        lost |= {n for n, s in enumerate(round_state.schedule.steps) if s.key in keys}
    lost |= _followers(round_state.schedule.steps, lost)
    given_up = (round_state.dropped | lost) - finished
    over = finished | given_up
    return replace(
        round_state,
        done=finished,
        dropped=frozenset(given_up),
        moves={n: g for n, g in round_state.moves.items() if n not in over},
        inside={n: w for n, w in round_state.inside.items() if n not in over},
    )


def is_deleted(round_state: RoundState, number: int, live: LiveState) -> bool:
    """True when the topic of a step is gone, or another one of its name is there."""
    step = round_state.schedule.steps[number]
    state, final = live.states.get(step.key), round_state.goals[step.key]
    return state is None or made_anew(final.topic_id, state)


def obstacle(round_state: RoundState, number: int, live: LiveState) -> str | None:
    """Why a step must never be sent: its partition is not what the schedule presumes. None: it may be sent.

    A move of another process is judged apart (`foreign_of`): it may end. So is a deleted topic (`is_deleted`).
    """
    step = round_state.schedule.steps[number]
    state = live.states.get(step.key)
    if state is None or step.key in live.running:
        return None
    wanted = expected_list(round_state, number)
    if state.replicas != wanted:  # another order is another preferred leader: another process wants that
        return f"{step.key} was changed by another process: it is {ids(state.replicas)}, not {ids(wanted)}"
    return None


def foreign_of(live: LiveState, keys: Iterable[TopicPartition], ours: Lists) -> dict[TopicPartition, tuple[int, ...]]:
    """Running moves of the given partitions that this plan never asked for, with their targets."""
    running = {k: live.running[k].target for k in keys if k in live.running}
    return {k: target for k, target in running.items() if target not in ours.get(k, ())}


def may_start(
    round_state: RoundState,
    live: LiveState,
    dirs: Dirs,
    context: Context,
    *,
    hopeless: Collection[TopicPartition] = (),
    passed: Collection[int] = (),
) -> tuple[int, ...]:
    """The waiting steps that order, limits and the free space that brokers report let start now.

    Moves of others count as in flight. Those of ours that make no progress (`hopeless`) and steps that are held back
    (`passed`) keep their space, but not their places, from others.
    """
    steps = round_state.schedule.steps
    immovable = {n for n, g in round_state.moves.items() if g.key in hopeless}
    own = {g.key for g in round_state.moves.values()}
    others = tuple(_step_of(k, r) for k, r in sorted(live.running.items()) if k not in own)
    standing = RunPosition(
        finished=round_state.done | round_state.dropped | immovable | frozenset(passed),
        in_flight=(round_state.flying - immovable) | frozenset(range(len(steps), len(steps) + len(others))),
        usable={
            LogDirPlace(broker, found.path): found.usable_bytes
            for broker, answer in dirs.items()
            for found in answer.log_dirs
            if found.usable_bytes is not None
        },
        arriving_bytes_left=_arriving_bytes(round_state, dirs),
    )
    found = startable_steps(
        replace(round_state.schedule, steps=(*steps, *others)), standing, context.limits, context.totals
    )
    held = {g.key for g in round_state.moves.values() if g.key in hopeless} | {steps[n].key for n in passed}
    return tuple(n for n in found if steps[n].key not in held)


def _step_of(key: TopicPartition, running: Reassignment) -> ScheduleStep:
    """Another process's move, as far as it counts: the brokers that take copies in."""
    return ScheduleStep(
        key=key,
        kind=StepKind.MOVE,
        target=running.target,
        leader=None,
        adding=tuple(LogDirPlace(b) for b in running.adding),
        removing=(),
        size_bytes=0,
        start_s=0.0,
        end_s=0.0,
        running=True,
    )


def _arriving_bytes(round_state: RoundState, dirs: Dirs) -> dict[LogDirPlace, int]:
    """What copies on their way into each log dir still have to bring."""
    left: dict[LogDirPlace, int] = {}

    def add(place: LogDirPlace, amount: int) -> None:
        left[place] = left.get(place, 0) + max(0, amount)

    for number, goal in round_state.moves.items():
        size = max(round_state.schedule.steps[number].size_bytes, source_bytes(goal, dirs))
        for place in round_state.schedule.steps[number].adding:
            copy = dirs[place.broker].replicas.get(goal.key) if place.broker in dirs else None
            where = LogDirPlace(place.broker, copy.log_dir) if copy else place
            add(where, size - (copy.size_bytes if copy else 0))
    for number, work in round_state.inside.items():
        answer = dirs.get(work.replica.broker)
        future = answer.futures.get(work.key) if answer else None
        size = round_state.schedule.steps[number].size_bytes
        if answer is None or work.key not in answer.replicas or answer.replicas[work.key].log_dir != work.target:
            add(LogDirPlace(work.replica.broker, work.target), size - (future.size_bytes if future else 0))
    return left


def _followers(steps: Sequence[ScheduleStep], lost: Collection[int]) -> set[int]:
    """The steps that presume one of the lost ones; a step's number is above that of the one it presumes."""
    found = set(lost)
    for number, step in enumerate(steps):
        if step.after in found:
            found.add(number)
    return found


RATE_WINDOW_S = 10.0  # Kafka's throttle averages over about 10 s; shorter samples mean nothing
DEAD_GRACE_S = 10.0  # a broker may be restarting
SETTLE_S = 15.0  # a broker's metadata may lag behind the controller's
MAX_SAMPLES = 64


class NextAction(StrEnum):
    """What to do after a look."""

    WAIT = "wait"
    DONE = "done"
    BLOCKED = "blocked"
    STALLED = "stalled"
    DISK = "disk"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchObservation:
    """One observation of a batch.

    `done` and `gone` partitions need nothing more. `pending` are in flight, `blocked` those of them that
    wait for a broker that is not alive (with that broker), `sourceless` those that no living broker can
    serve (with the brokers that could, see `without_source`). `idle` are neither in flight nor at their
    target. `broken` are in flight to a broker with a log dir newly offline, which shows no copy of them. `inside`
    are copies on their way between the log dirs of a broker. Bytes are those copied for the goals and those to
    copy in all.
    """

    done: frozenset[TopicPartition]
    gone: frozenset[TopicPartition]
    pending: frozenset[TopicPartition]
    blocked: Mapping[TopicPartition, int]
    idle: frozenset[TopicPartition]
    copied_bytes: int
    total_bytes: int
    sourceless: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    offline_dirs: tuple[str, ...] = ()
    broken: frozenset[TopicPartition] = frozenset()
    inside: frozenset[TopicPartitionReplica] = frozenset()

    @property
    def hopeless(self) -> frozenset[TopicPartition]:
        """Partitions in flight that make no progress until a broker or a log dir comes back."""
        return frozenset(self.blocked) | frozenset(self.sourceless) | self.broken


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWatch:
    """What is remembered between looks; times are seconds of a monotonic clock.

    `sourceless_before` are the partitions that had no source in the look before: an election takes a moment.
    """

    changed_at_s: float
    mark: tuple[object, ...] = ()
    blocked_since_s: float | None = None
    sourceless: frozenset[TopicPartition] = frozenset()
    sourceless_before: frozenset[TopicPartition] = frozenset()
    idle_since_s: Mapping[TopicPartition, float] = field(default_factory=dict)
    withdrawn: frozenset[TopicPartition] = frozenset()
    samples: tuple[tuple[float, int], ...] = ()
    decision: NextAction = NextAction.WAIT

    @property
    def bytes_per_s(self) -> float | None:
        """The copy rate over the samples kept (about the last 10 s or more), or None when there are too few."""
        if len(self.samples) < 2:
            return None
        (start, first), (end, last) = self.samples[0], self.samples[-1]
        return max(0, last - first) / (end - start) if end > start else None


def observe(
    goals: Sequence[MoveGoal],
    live: LiveState,
    dirs: Mapping[int, BrokerLogDirs],
    *,
    offline_before: Collection[str] = (),
) -> BatchObservation:
    """Judge one observation of the goals' partitions; `offline_before` names dirs that were offline at the start."""
    done: set[TopicPartition] = set()
    gone: set[TopicPartition] = set()
    pending: set[TopicPartition] = set()
    idle: set[TopicPartition] = set()
    blocked: dict[TopicPartition, int] = {}
    sourceless: dict[TopicPartition, tuple[int, ...]] = {}
    broken: set[TopicPartition] = set()
    offline = offline_dirs(goals, dirs) - set(offline_before)
    copied = total = 0
    for goal in goals:
        state, running = live.states.get(goal.key), live.running.get(goal.key)
        size = source_bytes(goal, dirs)
        share = size * len(goal.adding)
        if state is None or (goal.topic_id and state.topic_id and goal.topic_id != state.topic_id):
            gone.add(goal.key)
            continue
        total += share
        if running is not None and running.target == goal.target:
            pending.add(goal.key)
            if any(_is_lost(dirs, b, goal.key, offline) for b in goal.adding):
                broken.add(goal.key)
            dead = [b for b in running.adding if not live.is_alive(b)]
            if dead:
                blocked[goal.key] = dead[0]
            if not has_source(state, live):
                sourceless[goal.key] = _could_serve(goal, state, live)
            copied += sum(min(size, _held_bytes(dirs, b, goal.key)) for b in goal.adding)
        elif running is None and state.replicas == goal.target:
            done.add(goal.key)
            copied += share
        else:
            idle.add(goal.key)
    return BatchObservation(
        done=frozenset(done),
        gone=frozenset(gone),
        pending=frozenset(pending),
        blocked=blocked,
        idle=frozenset(idle),
        copied_bytes=copied,
        total_bytes=total,
        sourceless=sourceless,
        offline_dirs=tuple(sorted(offline)),
        broken=frozenset(broken),
    )


def follow(watch: BatchWatch, seen: BatchObservation, now_s: float, *, stall_timeout_s: float) -> BatchWatch:
    """Take a look into account and decide.

    A partition that is idle for `SETTLE_S` was cancelled or changed by another process: it counts as
    withdrawn and is not waited for. Blocked, stalled and a broken disk are decided only when nothing else moves.
    """
    idle_since = {k: watch.idle_since_s.get(k, now_s) for k in seen.idle}
    withdrawn = frozenset(k for k, since in idle_since.items() if now_s - since >= SETTLE_S)
    mark = (seen.copied_bytes, seen.pending, seen.done, seen.gone, seen.inside)
    changed_at = watch.changed_at_s if mark == watch.mark else now_s
    waiting: frozenset[object] = frozenset(seen.pending | (seen.idle - withdrawn)) | seen.inside
    all_blocked = bool(waiting) and waiting <= seen.hopeless
    blocked_since = (watch.blocked_since_s if watch.blocked_since_s is not None else now_s) if all_blocked else None
    if seen.offline_dirs and waiting <= seen.hopeless:
        decision = NextAction.DISK
    elif not waiting:
        decision = NextAction.DONE
    elif blocked_since is not None and now_s - blocked_since >= DEAD_GRACE_S:
        decision = NextAction.BLOCKED
    elif now_s - changed_at >= stall_timeout_s:
        decision = NextAction.STALLED
    else:
        decision = NextAction.WAIT
    return replace(
        watch,
        changed_at_s=changed_at,
        mark=mark,
        blocked_since_s=blocked_since,
        sourceless=frozenset(seen.sourceless),
        sourceless_before=watch.sourceless,
        idle_since_s=idle_since,
        withdrawn=withdrawn,
        samples=_add_sample(watch.samples, now_s, seen.copied_bytes),
        decision=decision,
    )


def has_source(state: PartitionState, live: LiveState) -> bool:
    """True when a living broker leads: without a leader not a byte is copied and no move ends."""
    return state.leader is not None and live.is_alive(state.leader)


def without_source(goals: Iterable[MoveGoal], live: LiveState) -> dict[TopicPartition, tuple[int, ...]]:
    """Goals that need copies which no living broker can serve, each with the brokers that could once back.

    Those are the brokers last in sync; where the cluster names none (KRaft keeps them as eligible leaders,
    out of the ISR), the dead ones that hold a copy.
    """
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for goal in goals:
        state = live.states.get(goal.key) if goal.adding else None
        if state is not None and not has_source(state, live):
            found[goal.key] = _could_serve(goal, state, live)
    return found


def sources_told(sourceless: Mapping[TopicPartition, tuple[int, ...]]) -> str:
    """Partitions without a source in words: which broker would have to come back."""
    return list_items([f"{k} (waits for broker {' or '.join(map(str, b))})" for k, b in sorted(sourceless.items())])


def poll_interval_s(elapsed_s: float) -> float:
    """How long to wait before the next look: half a second at first, up to 5 s for long moves."""
    return min(5.0, max(0.5, elapsed_s / 20))


def source_bytes(goal: MoveGoal, dirs: Mapping[int, BrokerLogDirs]) -> int:
    """The partition's size in bytes: its largest full copy now, else the plan's figure, else 0."""
    sizes = [_held_bytes(dirs, b, goal.key) for b in goal.holders]
    return max(sizes, default=0) or goal.size_bytes or 0


def offline_dirs(goals: Sequence[MoveGoal], dirs: Mapping[int, BrokerLogDirs]) -> set[str]:
    """Log dirs in error on the brokers that receive copies, as `broker:path`."""
    brokers = {b for g in goals for b in g.adding}
    return {f"{b}:{d.path}" for b in brokers if b in dirs for d in dirs[b].log_dirs if d.error}


def _is_lost(dirs: Mapping[int, BrokerLogDirs], broker: int, key: TopicPartition, offline: Collection[str]) -> bool:
    """True when the broker lost a log dir and shows no copy: it was in that dir, or its place is unknown."""
    answer = dirs.get(broker)
    if answer is None or key in answer.replicas:
        return False
    return any(f"{broker}:{d.path}" in offline for d in answer.log_dirs)


def _could_serve(goal: MoveGoal, state: PartitionState, live: LiveState) -> tuple[int, ...]:
    return state.isr or tuple(b for b in goal.holders if not live.is_alive(b)) or goal.holders


def _held_bytes(dirs: Mapping[int, BrokerLogDirs], broker: int, key: TopicPartition) -> int:
    answer = dirs.get(broker)
    copy = answer.replicas.get(key) if answer else None
    return copy.size_bytes if copy else 0


def _add_sample(samples: tuple[tuple[float, int], ...], now_s: float, copied: int) -> tuple[tuple[float, int], ...]:
    kept = [*samples, (now_s, copied)][-MAX_SAMPLES:]
    while len(kept) > 2 and now_s - kept[1][0] >= RATE_WINDOW_S:
        kept.pop(0)
    return tuple(kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPosition:
    """Where a run stands: steps by index, and what log dirs report, in bytes.

    `usable` is the broker's figure now, `arriving_bytes_left` what copies on their way into a dir still have to
    bring. Steps dropped for good (their topic is gone, say) count as finished.
    """

    finished: frozenset[int] = frozenset()
    in_flight: frozenset[int] = frozenset()
    usable: Mapping[LogDirPlace, int] = field(default_factory=dict)
    arriving_bytes_left: Mapping[LogDirPlace, int] = field(default_factory=dict)


def startable_steps(
    schedule: Schedule, standing: RunPosition, limits: ScheduleLimits, totals: Mapping[LogDirPlace, int | None]
) -> tuple[int, ...]:
    """Indexes of the steps to send now, in schedule order; O(steps not finished).

    A step may go when the step before it of its partition is finished, the limits on copies at a time allow it, and
    each dir it arrives in has its bytes free below `limits.limit_of` (`totals` are the dirs' sizes; a dir without a
    known size or use is not limited). No step overtakes an earlier one that arrives in the same dir; a step that
    waits for places at its leader or brokers keeps them from later ones, so that big ones are not starved.

    Why a run never hangs: look at the first step that is not sent. Every earlier one is sent and ends; then nothing
    of them is on its way, and their old copies are deleted in time. In the schedule's own account the same steps had
    at least been started when this one was, and a step that ends only frees space. Later steps that were sent already
    cannot have taken space in its dirs, for they would have overtaken it there; elsewhere they do not matter. So the
    space that the schedule counted on is there, nothing else uses its places, and it goes. What brokers take in beyond
    the prediction can still keep it waiting: that is a full disk, and the caller's to tell.
    """
    gate = _Gate(schedule, standing, limits, totals)
    for index in sorted(standing.in_flight):
        gate.occupy(schedule.steps[index])
    found = []
    for index, step in enumerate(schedule.steps):
        if index in standing.finished or index in standing.in_flight:
            continue
        if gate.is_full:
            break
        if gate.passes(step):
            gate.occupy(step)
            gate.reserve(step)
            found.append(index)
        else:
            gate.hold(step)
    return tuple(found)


class _Gate:
    """What is taken already in one call: slots at brokers, bytes and turns in dirs."""

    def __init__(
        self,
        schedule: Schedule,
        standing: RunPosition,
        limits: ScheduleLimits,
        totals: Mapping[LogDirPlace, int | None],
    ) -> None:
        self._standing, self._limits, self._totals = standing, limits, totals
        self._used: Counter[tuple[str, int]] = Counter()
        self._count = 0
        self._reserved: Counter[LogDirPlace] = Counter()
        self._blocked: set[LogDirPlace] = set()
        self._kept: set[tuple[str, int]] = set()
        self._keys = {schedule.steps[i].key for i in standing.in_flight}

    @property
    def is_full(self) -> bool:
        """True when no more partitions may be in flight."""
        return self._count >= self._limits.cluster

    def occupy(self, step: ScheduleStep) -> None:
        """Count a step that is on its way."""
        self._count += 1
        self._used.update(_ends(step))
        self._keys.add(step.key)

    def reserve(self, step: ScheduleStep) -> None:
        """Count the bytes of a step that is sent now: no report knows of them yet."""
        self._reserved.update(dict.fromkeys(step.adding, step.size_bytes))

    def hold(self, step: ScheduleStep) -> None:
        """Let no later step take the turn of this one, nor places that it waits for."""
        behind = not self._blocked.isdisjoint(step.adding)
        self._blocked.update(step.adding)
        if not behind and self._ready(step) and all(self._has_space(p, step.size_bytes) for p in step.adding):
            self._kept.update(end for end in _ends(step) if not self._has_slot(end, _ends(step)[end]))

    def passes(self, step: ScheduleStep) -> bool:
        """True when nothing is in the way of a step."""
        if not self._blocked.isdisjoint(step.adding) or not self._ready(step):
            return False
        if not all(self._has_space(p, step.size_bytes) for p in step.adding):
            return False
        return all(end not in self._kept and self._has_slot(end, need) for end, need in _ends(step).items())

    def _ready(self, step: ScheduleStep) -> bool:
        return step.key not in self._keys and (step.after is None or step.after in self._standing.finished)

    def _has_slot(self, end: tuple[str, int], need: int) -> bool:
        most = {"into": self._limits.into_each, "out": self._limits.out_each, "inside": self._limits.inside_each}
        used = self._used[end]
        # One that asks for more than there is goes alone.
        return used + need <= most[end[0]] or not used

    def _has_space(self, place: LogDirPlace, size: int) -> bool:
        total, usable = self._totals.get(place), self._standing.usable.get(place)
        if total is None or usable is None:
            return True
        used = total - usable + self._standing.arriving_bytes_left.get(place, 0) + self._reserved[place]
        return used + size <= self._limits.limit_of(total)


def _ends(step: ScheduleStep) -> dict[tuple[str, int], int]:
    """The places at brokers that a step uses, and how many at each."""
    if step.kind is StepKind.INSIDE:
        return {("inside", p.broker): 1 for p in step.adding}
    ends = {("into", p.broker): 1 for p in step.adding}
    if step.adding and step.leader is not None:
        ends["out", step.leader] = len(step.adding)
    return ends
