"""Where each step of a schedule stands while it is carried out: waiting, in flight, done, or given up."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafkakit.core.cluster_facts import BrokerLogDirs
from kafkakit.core.model import Reassignment, TopicPartition, TopicPartitionReplica
from kafkakit.execution.decide.goals import Goal
from kafkakit.execution.decide.log_dir_moves import DirWork
from kafkakit.execution.decide.precheck import Live, ids
from kafkakit.execution.decide.progress import source_bytes
from kafkakit.execution.decide.schedule.window import Standing, startable
from kafkakit.execution.decide.schedule.work import Disk, Limits, Place, Rates, Schedule, Step, StepKind

Lists = Mapping[TopicPartition, Collection[tuple[int, ...]]]
Dirs = Mapping[int, BrokerLogDirs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What holds for a whole run of a schedule: its limits, the sizes of log dirs, the lists that are ours, the rates.

    `rates` None: no throttle.
    """

    limits: Limits
    totals: Mapping[Place, int | None]
    ours: Lists
    rates: Rates | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundState:
    """The steps of a schedule by number; what is in none of the four collections waits.

    `moves` are requests on the cluster, as the goals that were sent; `inside` are copies on their way to another
    dir of their broker. `dropped` steps are given up. Brokers in `several` have more than one log dir, so that they
    have to be told which one a copy goes to.
    """

    schedule: Schedule
    goals: Mapping[TopicPartition, Goal]
    done: frozenset[int] = frozenset()
    moves: Mapping[int, Goal] = field(default_factory=dict)
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


def begin(schedule: Schedule, goals: Sequence[Goal], disks: Iterable[Disk] = ()) -> RoundState:
    """The state before the first tick; steps that a cut run has sent are in flight from the start."""
    by_key = {g.key: g for g in goals}
    moves: dict[int, Goal] = {}
    dirs: dict[int, DirWork] = {}
    for number, step in enumerate(schedule.steps):
        if step.running and step.kind is StepKind.INSIDE:
            dirs[number] = work_of(step)
        elif step.running:
            moves[number] = replace(by_key[step.key], target=step.target, running=True)
    dirs_of = Counter(d.place.broker for d in disks)
    several = frozenset(b for b, count in dirs_of.items() if count > 1)
    return RoundState(schedule=schedule, goals=by_key, moves=moves, inside=dirs, several=several)


def work_of(step: Step) -> DirWork:
    """The copy that an `inside` step moves, and from where to where."""
    (source,), (place,) = step.removing, step.adding
    replica = TopicPartitionReplica(step.key.topic, step.key.partition, place.broker)
    return DirWork(replica=replica, source=source.log_dir, target=place.log_dir, size_bytes=step.size_bytes)


def goal_of(round_state: RoundState, number: int, live: Live) -> Goal:
    """What to send for a step, from the copies that are there now; dirs are named where the schedule counts on them."""
    step, final = round_state.schedule.steps[number], round_state.goals[round_state.schedule.steps[number].key]
    coming = live.running[step.key].adding if step.key in live.running else ()
    return Goal(
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


def obstacle(round_state: RoundState, number: int, live: Live) -> str | None:
    """Why a step must never be sent: its partition is not what the schedule presumes. None: it may be sent.

    A move of another process is judged apart (`foreign_of`): it may end.
    """
    step = round_state.schedule.steps[number]
    state = live.states.get(step.key)
    final = round_state.goals[step.key]
    if state is None or (final.topic_id and state.topic_id and final.topic_id != state.topic_id):
        return f"deleted during the run: {step.key}"
    if step.key in live.running:
        return None
    wanted = expected_list(round_state, number)
    if state.replicas != wanted:  # another order is another preferred leader: another process wants that
        return f"{step.key} was changed by another process: it is {ids(state.replicas)}, not {ids(wanted)}"
    return None


def foreign_of(live: Live, keys: Iterable[TopicPartition], ours: Lists) -> dict[TopicPartition, tuple[int, ...]]:
    """Running moves of the given partitions that this plan never asked for, with their targets."""
    running = {k: live.running[k].target for k in keys if k in live.running}
    return {k: target for k, target in running.items() if target not in ours.get(k, ())}


def may_start(
    round_state: RoundState,
    live: Live,
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
    standing = Standing(
        finished=round_state.done | round_state.dropped | immovable | frozenset(passed),
        in_flight=(round_state.flying - immovable) | frozenset(range(len(steps), len(steps) + len(others))),
        usable={
            Place(broker, found.path): found.usable_bytes
            for broker, answer in dirs.items()
            for found in answer.log_dirs
            if found.usable_bytes is not None
        },
        arriving_bytes_left=_arriving(round_state, dirs),
    )
    found = startable(replace(round_state.schedule, steps=(*steps, *others)), standing, context.limits, context.totals)
    held = {g.key for g in round_state.moves.values() if g.key in hopeless} | {steps[n].key for n in passed}
    return tuple(n for n in found if steps[n].key not in held)


def _step_of(key: TopicPartition, running: Reassignment) -> Step:
    """Another process's move, as far as it counts: the brokers that take copies in."""
    return Step(
        key=key,
        kind=StepKind.MOVE,
        target=running.target,
        leader=None,
        adding=tuple(Place(b) for b in running.adding),
        removing=(),
        size_bytes=0,
        start_s=0.0,
        end_s=0.0,
        running=True,
    )


def _arriving(round_state: RoundState, dirs: Dirs) -> dict[Place, int]:
    """What copies on their way into each log dir still have to bring."""
    left: dict[Place, int] = {}

    def add(place: Place, amount: int) -> None:
        left[place] = left.get(place, 0) + max(0, amount)

    for number, goal in round_state.moves.items():
        size = max(round_state.schedule.steps[number].size_bytes, source_bytes(goal, dirs))
        for place in round_state.schedule.steps[number].adding:
            copy = dirs[place.broker].replicas.get(goal.key) if place.broker in dirs else None
            where = Place(place.broker, copy.log_dir) if copy else place
            add(where, size - (copy.size_bytes if copy else 0))
    for number, work in round_state.inside.items():
        answer = dirs.get(work.replica.broker)
        future = answer.futures.get(work.key) if answer else None
        size = round_state.schedule.steps[number].size_bytes
        if answer is None or work.key not in answer.replicas or answer.replicas[work.key].log_dir != work.target:
            add(Place(work.replica.broker, work.target), size - (future.size_bytes if future else 0))
    return left


def _followers(steps: Sequence[Step], lost: Collection[int]) -> set[int]:
    """The steps that presume one of the lost ones; a step's number is above that of the one it presumes."""
    found = set(lost)
    for number, step in enumerate(steps):
        if step.after in found:
            found.add(number)
    return found
