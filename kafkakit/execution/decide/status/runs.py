"""Whose a running move is, what our runs are doing, and when they will be done, against what they promised."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkakit.core.model import Reassignment, TopicPartition, TopicPartitionReplica
from kafkakit.core.plan import Move, Plan
from kafkakit.execution.decide.journal_state import Promise, RunState
from kafkakit.execution.decide.outcome import Direction
from kafkakit.execution.decide.status.looks import HeldLease, KnownRun


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningMove:
    """One running move as far as runs care: what is still to come, and how fast it comes.

    None where no broker tells. `held_up` are brokers that copies wait for, `stalled` says that nothing comes.
    """

    move: Reassignment
    missing_bytes: int | None
    bytes_per_s: float | None
    held_up: tuple[int, ...] = ()
    stalled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run of this host that has moves on the cluster, or is not finished, or left throttles.

    `doing` says in words what it is about. `left_bytes` are those still to copy between brokers, `eta_s` the seconds
    from now that this takes at the present rate; None when unknown. `promised_s` are the seconds left of the promise
    made before the first byte, negative once it is broken. `close` is the command that closes a run without moves.
    """

    journal: str
    id: str
    plan_path: str
    direction: str
    doing: str
    working: bool
    paused: bool
    moves: int
    left_bytes: int | None = None
    bytes_per_s: float | None = None
    eta_s: float | None = None
    promise: Promise | None = None
    promised_s: float | None = None
    close: str = ""

    @property
    def name(self) -> str:
        """The run for people."""
        return f"{self.direction} of {self.plan_path}"


def owner_of(move: Reassignment, runs: Sequence[KnownRun]) -> KnownRun | None:
    """The run that sent a move: one not yet ended goes before others; None: no run of this host did."""
    key = TopicPartition(move.topic, move.partition)
    senders = [r for r in runs if move.target in (r.state.submitted.get(key), *r.state.trail.get(key, ()))]
    return min(senders, key=lambda r: (not r.state.unsettled, r.journal), default=None)


def mover_of(replica: TopicPartitionReplica, target_dir: str, runs: Sequence[KnownRun]) -> KnownRun | None:
    """The run that sent a copy to another log dir of its broker; as `owner_of`."""
    senders = [r for r in runs if target_dir in r.state.dirs_sent.get(replica, ())]
    return min(senders, key=lambda r: (not r.state.unsettled, r.journal), default=None)


def is_working(state: RunState, lease: HeldLease | None) -> bool:
    """True when the run's process has the lease, as far as can be told from here."""
    held = lease.record if lease is not None and lease.is_held else None
    return held is not None and state.unsettled and held.token == state.token


def view_run(
    run: KnownRun,
    flights: Sequence[RunningMove],
    lease: HeldLease | None,
    now_s: float,
    program: str,
    *,
    bytes_per_s: float | None = None,
) -> RunView:
    """What a run is about; `flights` are its running moves, `now_s` the present as a Unix time.

    `program` is how kafkakit is called for this cluster. `bytes_per_s` is how fast the rest shrinks; where that is not
    known, the rates of what is in flight are taken.
    """
    state = run.state
    working = is_working(state, lease)
    left = left_bytes(run, flights)
    rates = [f.bytes_per_s for f in flights if f.bytes_per_s is not None]
    rate = bytes_per_s if bytes_per_s is not None else sum(rates) if rates else None
    promise = state.promise if state.unsettled else None
    return RunView(
        journal=run.journal,
        id=state.run_id,
        plan_path=state.plan_path,
        direction=state.direction,
        doing=_doing(state, flights, program, working=working),
        working=working,
        paused=state.paused and state.unsettled,
        moves=len(flights),
        left_bytes=left,
        bytes_per_s=rate,
        eta_s=eta_of(left, rate),
        promise=promise,
        promised_s=None if promise is None else promise.made_at.timestamp() + promise.promised_s - now_s,
        close=_line(program, "close", state) if state.unsettled and not working and not flights else "",
    )


def eta_of(left_bytes: int | None, bytes_per_s: float | None) -> float | None:
    """The seconds that the rest takes at the present rate; None when either is unknown, or nothing comes."""
    if left_bytes is None:
        return None
    if left_bytes == 0:
        return 0.0
    return left_bytes / bytes_per_s if bytes_per_s else None


def bytes_to_come(plan: Plan, state: RunState, flying: Mapping[TopicPartition, RunningMove]) -> int:
    """What a run still has to copy between brokers, by its plan and by what it has sent; O(moves), no requests.

    A move that was sent and runs no more has arrived. Copies between the log dirs of a broker are not counted.
    """
    if state.direction == Direction.ABORT:
        return sum(f.missing_bytes or 0 for f in flying.values())
    undone = state.direction == Direction.ROLLBACK
    left = 0
    for move in plan.moves:
        goal = move.before if undone else move.after
        flight = flying.get(move.key)
        there = flight.move.target if flight else state.submitted.get(move.key, move.before)
        if flight is not None:
            left += flight.missing_bytes or 0
        left += _copies(move, goal, there) * (move.size_bytes or 0)
    return left


def _copies(move: Move, goal: tuple[int, ...], there: tuple[int, ...]) -> int:
    return sum(b not in there for b in goal)


def left_bytes(run: KnownRun, flights: Sequence[RunningMove]) -> int | None:
    """What a run still has to copy, as `bytes_to_come`; None when its plan is not there."""
    flying = {TopicPartition(f.move.topic, f.move.partition): f for f in flights}
    if run.plan is not None and run.state.unsettled:
        return bytes_to_come(run.plan, run.state, flying)
    known = [f.missing_bytes for f in flights if f.missing_bytes is not None]
    # Without the plan only what flies is known, and that is all there is only for a run that has ended.
    return sum(known) if known and not run.state.unsettled else None


def _line(program: str, verb: str, state: RunState) -> str:
    return f"{program} reassign {verb} --run {state.run_id}"


def _doing(state: RunState, flights: Sequence[RunningMove], program: str, *, working: bool) -> str:
    if not state.unsettled:
        if flights:
            return "ended, its moves continue"
        return f"ended, and left throttles; remove them with: {program} reassign cleanup"
    if not working:
        where = "paused, and no process is running" if state.paused else "not finished, and no process is running"
        return f"{where}; resume with: {_line(program, 'resume', state)}"
    if state.paused:
        return "paused: starts nothing new" + (", what is in flight continues" if flights else "")
    if not flights:
        return "nothing is in flight: it elects leaders, or waits for in-sync replicas, free space, or other moves"
    brokers = sorted({b for f in flights for b in f.held_up})
    if all(f.stalled for f in flights):
        return f"waits for broker {', '.join(map(str, brokers))}" if brokers else "waits: all its moves are stalled"
    return "copies"
