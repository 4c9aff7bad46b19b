"""Where each step of a schedule stands while it is carried out: waiting, in flight, done, or given up."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafkakit.model import TopicPartition, TopicPartitionReplica
from kafkakit.ports import PartitionState
from kafkakit.reassign.dir_work import DirWork
from kafkakit.reassign.goals import Goal
from kafkakit.reassign.precheck import Live, ids
from kafkakit.reassign.schedule.work import Schedule, Step, StepKind

Lists = Mapping[TopicPartition, Collection[tuple[int, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """The steps of a schedule by number; what is in none of the four collections waits.

    `moves` are requests on the cluster, as the goals that were sent; `inside` are copies on their way to another
    dir of their broker. `dropped` steps are given up.
    """

    schedule: Schedule
    goals: Mapping[TopicPartition, Goal]
    done: frozenset[int] = frozenset()
    moves: Mapping[int, Goal] = field(default_factory=dict)
    inside: Mapping[int, DirWork] = field(default_factory=dict)
    dropped: frozenset[int] = frozenset()

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
    def is_over(self) -> bool:
        """True when no step waits or flies."""
        return len(self.done) + len(self.dropped) == len(self.schedule.steps)


def begin(schedule: Schedule, goals: Sequence[Goal]) -> Board:
    """The board before the first tick; steps that a cut run has sent are in flight from the start."""
    by_key = {g.key: g for g in goals}
    moves: dict[int, Goal] = {}
    dirs: dict[int, DirWork] = {}
    for number, step in enumerate(schedule.steps):
        if step.running and step.kind is StepKind.INSIDE:
            dirs[number] = work_of(step)
        elif step.running:
            moves[number] = replace(by_key[step.key], target=step.target, running=True)
    return Board(schedule=schedule, goals=by_key, moves=moves, inside=dirs)


def work_of(step: Step) -> DirWork:
    """The copy that an `inside` step moves, and from where to where."""
    (source,), (place,) = step.removing, step.adding
    replica = TopicPartitionReplica(step.key.topic, step.key.partition, place.broker)
    return DirWork(replica=replica, source=source.log_dir, target=place.log_dir, size_bytes=step.size_bytes)


def goal_of(board: Board, number: int, state: PartitionState) -> Goal:
    """What to send for a step, from the copies that are there now; dirs are named where the schedule counts on them."""
    step, final = board.schedule.steps[number], board.goals[board.schedule.steps[number].key]
    return Goal(
        key=step.key,
        target=step.target,
        holders=state.replicas,
        size_bytes=step.size_bytes or final.size_bytes,
        topic_id=final.topic_id,
        dirs={p.broker: p.log_dir for p in step.adding if p.log_dir},
    )


def expected_list(board: Board, number: int) -> tuple[int, ...]:
    """The copies that the schedule presumes before a step: those of the look, or what the step before it made."""
    step = board.schedule.steps[number]
    while step.after is not None:
        step = board.schedule.steps[step.after]
        if step.target:  # copies that change dirs inside a broker leave the list as it is
            return step.target
    return board.goals[step.key].holders


def settle(
    board: Board, *, done: Iterable[int] = (), dropped: Iterable[int] = (), keys: Collection[TopicPartition] = ()
) -> Board:
    """Take steps off the cluster: finished ones, given up ones, and all that is left of the partitions in `keys`."""
    finished = board.done | frozenset(done)
    lost = set(dropped)
    if keys:
        lost |= {n for n, s in enumerate(board.schedule.steps) if s.key in keys}
    lost |= _followers(board.schedule.steps, lost)
    given_up = (board.dropped | lost) - finished
    over = finished | given_up
    return replace(
        board,
        done=finished,
        dropped=frozenset(given_up),
        moves={n: g for n, g in board.moves.items() if n not in over},
        inside={n: w for n, w in board.inside.items() if n not in over},
    )


def obstacle(board: Board, number: int, live: Live) -> str | None:
    """Why a step must never be sent: its partition is not what the schedule presumes. None: it may be sent.

    A move of somebody else is judged apart (`foreign_of`): it may end.
    """
    step = board.schedule.steps[number]
    state = live.states.get(step.key)
    final = board.goals[step.key]
    if state is None or (final.topic_id and state.topic_id and final.topic_id != state.topic_id):
        return f"deleted during the run: {step.key}"
    if step.key in live.running:
        return None
    wanted = expected_list(board, number)
    if state.replicas != wanted and set(state.replicas) != set(wanted):
        return f"{step.key} was changed by somebody else: it is {ids(state.replicas)}, not {ids(wanted)}"
    return None


def foreign_of(live: Live, keys: Iterable[TopicPartition], ours: Lists) -> dict[TopicPartition, tuple[int, ...]]:
    """Running moves of the given partitions that this plan never asked for, with their targets."""
    running = {k: live.running[k].target for k in keys if k in live.running}
    return {k: target for k, target in running.items() if target not in ours.get(k, ())}


def _followers(steps: Sequence[Step], lost: Collection[int]) -> set[int]:
    """The steps that presume one of the lost ones; a step's number is above that of the one it presumes."""
    found = set(lost)
    for number, step in enumerate(steps):
        if step.after in found:
            found.add(number)
    return found
