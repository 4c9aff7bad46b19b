"""The status of a cluster, made from looks: moves with their copies, runs, throttles and counts, as a `StatusView`.

It says how each copy is doing and why some are not, which run a move belongs to, what our runs are doing, and when they
will be done, against what they promised.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from kafkakit.core.cluster_facts import BrokerLogDirs
from kafkakit.core.lease import HeldLease
from kafkakit.core.model import Broker, BrokerState, Reassignment, TopicPartition, TopicPartitionReplica
from kafkakit.core.plan import Move, Plan
from kafkakit.core.text import abort_command, shell_command
from kafkakit.execution.decide.journal import Promise, RunState
from kafkakit.execution.decide.runs import Direction
from kafkakit.execution.decide.status_looks import (
    QUIET_S,
    Cause,
    CopyFacts,
    CopyStall,
    CurrentThrottles,
    Growth,
    HealthCounts,
    History,
    KnownRun,
    Limit,
    StatusLook,
    entries_of,
    growth_of,
    landing_rate,
    stall_of,
    window_of,
    without_moves,
)
from kafkakit.execution.decide.throttle import FOLLOWER_RATE, LEADER_RATE, WILDCARD, split_list

Dirs = Mapping[int, BrokerLogDirs]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusContext:
    """What is known beside the light looks. `program` is how kafkakit is called for this cluster.

    `health` comes from the last look at the whole cluster. `damaged` are journals that cannot be read. `left_before`
    has for runs, by journal, what was left to copy at the beginning of the window: (monotonic s, bytes).
    `ended_bytes` are those of moves that ended in their target since the first look: with them a total does not shrink
    while moves end.
    """

    runs: Sequence[KnownRun] = ()
    throttled: CurrentThrottles = field(default_factory=CurrentThrottles)
    health: HealthCounts | None = None
    lease: HeldLease | None = None
    damaged: tuple[str, ...] = ()
    program: str = "kafkakit"
    left_before: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    ended_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flow:
    """How much what moves grows: each new copy, and what all partitions under a broker's limit take in."""

    growth: Mapping[TopicPartitionReplica, Growth]
    receiving: frozenset[int]
    ingest: Mapping[tuple[int, str], float]


class CopyState(StrEnum):
    """How a new copy is doing. `waits` is silence that is still normal: others under the same throttle come first."""

    COPIES = "copies"
    IN_SYNC = "in sync"
    WAITS = "waits"
    STALLED = "stalled"

    @property
    def words(self) -> str:
        """What people read; programs read the value."""
        return {CopyState.COPIES: "copying", CopyState.WAITS: "waiting"}.get(self, self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyView:
    """One new copy of a moving partition; bytes and rates are None where they are not known (yet)."""

    broker: int
    state: CopyState
    copied_bytes: int | None = None
    total_bytes: int | None = None
    bytes_per_s: float | None = None
    stall: CopyStall | None = None

    @property
    def missing_bytes(self) -> int | None:
        """What is still to come."""
        if self.copied_bytes is None or self.total_bytes is None:
            return self.total_bytes
        return max(0, self.total_bytes - self.copied_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveView:
    """One running move. `run` names the run that sent it (empty: none of this host).

    `leader` is None when no living broker leads: then nothing is copied.
    """

    move: Reassignment
    copies: tuple[CopyView, ...]
    leader: int | None = None
    run: str = ""

    @property
    def copied_bytes(self) -> int | None:
        """Bytes in all new copies; None when the partition's size is not known."""
        known = [c for c in self.copies if c.total_bytes is not None]
        return sum(c.copied_bytes or 0 for c in known) if len(known) == len(self.copies) else None

    @property
    def total_bytes(self) -> int | None:
        """Bytes that all new copies will have."""
        sizes = [c.total_bytes for c in self.copies if c.total_bytes is not None]
        return sum(sizes) if len(sizes) == len(self.copies) else None

    @property
    def missing_bytes(self) -> int | None:
        """What is still to come."""
        left = [m for c in self.copies if (m := c.missing_bytes) is not None]
        return sum(left) if len(left) == len(self.copies) else None

    @property
    def bytes_per_s(self) -> float | None:
        """The rate of all its copies together."""
        rates = [c.bytes_per_s for c in self.copies if c.bytes_per_s is not None]
        return sum(rates) if rates else None

    @property
    def stalled(self) -> bool:
        """True when none of its copies makes progress and one is stalled."""
        states = {c.state for c in self.copies}
        return CopyState.STALLED in states and states <= {CopyState.STALLED, CopyState.IN_SYNC}


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideView:
    """One copy on its way to another log dir of its broker; `offset_lag` counts records behind, `run`: as of moves."""

    replica: TopicPartitionReplica
    source_dir: str
    target_dir: str
    copied_bytes: int
    total_bytes: int
    offset_lag: int
    bytes_per_s: float | None = None
    run: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run of this host that has moves on the cluster, or is not finished, or left throttles.

    `doing` says in words what it is about. `left_bytes` are those still to copy between brokers, `eta_s` the seconds
    from now that this takes at the present rate; None when unknown. `promised_s` are the seconds left of the promise
    made before the first byte, negative once it is broken. `close` is the command that closes a run without moves.
    `total_bytes` are those that the whole run copies between brokers, None when its plan is not there.
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
    total_bytes: int | None = None

    @property
    def name(self) -> str:
        """The run for people."""
        return f"{self.direction} of {self.plan_path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusView:
    """One look at all that moves; rates are over `window_s` seconds (0: there was one look only).

    `bytes_per_s` counts moves that ended meanwhile, too. What `inside` names comes from the last look at the whole
    cluster.
    """

    cluster_id: str
    at: datetime
    window_s: float
    bytes_per_s: float | None = None
    moves: tuple[MoveView, ...] = ()
    inside: tuple[InsideView, ...] = ()
    runs: tuple[RunView, ...] = ()
    around: StatusContext = StatusContext()

    @property
    def is_idle(self) -> bool:
        """True when nothing moves between brokers or inside them, and no process may be about to move something."""
        is_in_use = self.around.lease is not None and self.around.lease.is_in_use
        return not self.moves and not self.inside and not any(r.working for r in self.runs) and not is_in_use

    @property
    def idle_throttles(self) -> str:
        """Throttles that no running move needs, in words; a run at work may be about to move something under them."""
        if any(r.working for r in self.runs):
            return ""
        inside = {i.replica.broker for i in self.inside}
        return without_moves(self.around.throttled, (m.move for m in self.moves), inside)

    @property
    def copied_bytes(self) -> int:
        """Bytes copied by the running moves, as far as known."""
        return sum(m.copied_bytes or 0 for m in self.moves)

    @property
    def total_bytes(self) -> int:
        """Bytes the running moves copy in all, as far as known."""
        return sum(m.total_bytes or 0 for m in self.moves)

    @property
    def slowest(self) -> tuple[MoveView, CopyView] | None:
        """The copy with the most still to come; None when nothing is known to be missing."""
        behind = [(m, c) for m in self.moves for c in m.copies if c.missing_bytes and c.state is not CopyState.IN_SYNC]
        return max(behind, key=lambda pair: pair[1].missing_bytes or 0, default=None)

    @property
    def stalled(self) -> tuple[tuple[MoveView, CopyView], ...]:
        """The stalled copies, with their moves."""
        return tuple((m, c) for m in self.moves for c in m.copies if c.state is CopyState.STALLED)


def judge(look: StatusLook, history: History, inside_history: History, around: StatusContext) -> StatusView:
    """Put a look, the sizes of earlier ones and what else is known together; O(moves x samples)."""
    flow = _flow_of(look, history, around.throttled)
    moves, owners = [], {}
    for key, move in sorted(look.live.running.items()):
        owner = owner_of(move, around.runs)
        owners[key] = owner
        cancel = _cancel_line(key, owner, around.program)
        copies = tuple(_copy(move, b, look, flow, around.throttled, cancel) for b in move.adding)
        moves.append(MoveView(move=move, copies=copies, leader=_leader(look, key), run=_run_name(owner)))
    views = []
    for run in around.runs:
        flights = [_flight(m) for m in moves if owners[_key(m.move)] is run]
        if flights or run.state.unsettled or run.state.throttled:
            rate = _run_rate(run, flights, around, look.at_s)
            now_s = look.at.timestamp()
            views.append(view_run(run, flights, around.lease, now_s, around.program, bytes_per_s=rate))
    return StatusView(
        cluster_id=look.live.cluster_id,
        at=look.at,
        window_s=window_of(history),
        bytes_per_s=landing_rate(history),
        moves=tuple(moves),
        inside=_inside_views(look.dirs, inside_history, around.runs),
        runs=tuple(views),
        around=around,
    )


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


def _run_rate(run: KnownRun, flights: Sequence[RunningMove], around: StatusContext, now_s: float) -> float | None:
    """How fast what is left shrinks; steps that began and ended between two looks are in that."""
    before, left = around.left_before.get(run.journal), left_bytes(run, flights)
    if before is None or left is None or now_s <= before[0]:
        return None
    return max(0.0, (before[1] - left) / (now_s - before[0]))


def _run_name(run: KnownRun | None) -> str:
    return f"{run.state.direction} of {run.state.plan_path}" if run else ""


def _key(move: Reassignment) -> TopicPartition:
    return TopicPartition(move.topic, move.partition)


def _flight(view: MoveView) -> RunningMove:
    dead = (Cause.DEAD_DESTINATION, Cause.SILENT_DESTINATION)
    return RunningMove(
        move=view.move,
        missing_bytes=view.missing_bytes,
        bytes_per_s=view.bytes_per_s,
        held_up=tuple(c.broker for c in view.copies if c.stall is not None and c.stall.cause in dead),
        stalled=view.stalled,
    )


def _leader(look: StatusLook, key: TopicPartition) -> int | None:
    state = look.live.states.get(key)
    return state.leader if state is not None and state.leader is not None and _alive(look, state.leader) else None


def _alive(look: StatusLook, broker: int) -> bool:
    return look.live.is_alive(broker)


def _source_bytes(look: StatusLook, move: Reassignment) -> int | None:
    """The bytes of the largest full copy that a broker tells of."""
    key = _key(move)
    sizes = [a.replicas[key].size_bytes for b, a in look.dirs.items() if b not in move.adding and key in a.replicas]
    return max(sizes, default=None)


def _cancel_line(key: TopicPartition, owner: KnownRun | None, program: str) -> str:
    """The command that ends the move: that of its unfinished run, else the one for moves of others."""
    if owner is not None and owner.state.unsettled:
        return _line(program, "abort", owner.state)
    return abort_command(program, [key])


def _copy(
    move: Reassignment, broker: int, look: StatusLook, flow: _Flow, throttled: CurrentThrottles, cancel: str
) -> CopyView:
    key = _key(move)
    state, answer = look.live.states.get(key), look.dirs.get(broker)
    found = answer.replicas.get(key) if answer is not None else None
    total = _source_bytes(look, move)
    if found is not None and total is not None:
        copied: int | None = min(total, found.size_bytes)
    else:
        # A broker that answers and shows no copy has none yet.
        copied = 0 if answer is not None and not answer.error and found is None else None
    growth = flow.growth.get(TopicPartitionReplica(key.topic, key.partition, broker))
    rate = growth.bytes_per_s if growth is not None else None
    if state is not None and broker in state.isr:
        return CopyView(broker=broker, state=CopyState.IN_SYNC, copied_bytes=total, total_bytes=total, bytes_per_s=rate)
    stall = stall_of(_facts(move, broker, look, flow, throttled, growth, cancel))
    quiet = growth is not None and growth.quiet_s >= QUIET_S
    return CopyView(
        broker=broker,
        state=CopyState.STALLED if stall else CopyState.WAITS if quiet else CopyState.COPIES,
        copied_bytes=copied,
        total_bytes=total,
        bytes_per_s=rate,
        stall=stall,
    )


def _facts(
    move: Reassignment,
    broker: int,
    look: StatusLook,
    flow: _Flow,
    throttled: CurrentThrottles,
    growth: Growth | None,
    cancel: str,
) -> CopyFacts:
    key = _key(move)
    state, answer = look.live.states.get(key), look.dirs.get(broker)
    found = answer.replicas.get(key) if answer is not None else None
    own = next((d for d in answer.log_dirs if d.path == found.log_dir), None) if answer and found else None
    leader, total = _leader(look, key), _source_bytes(look, move)
    reported = look.dirs.get(leader) if leader is not None else None
    return CopyFacts(
        key=key,
        broker=broker,
        destination=_state_of(look.live.brokers.get(broker)),
        destination_answers=answer is None or not answer.error,
        topic_exists=state is not None,
        leader=leader,
        leader_answers=reported is None or not reported.error,
        could_lead=_could_lead(move, look),
        offline_dirs=tuple(d.path for d in answer.log_dirs if d.error) if answer and found is None else (),
        log_dir=found.log_dir if found else "",
        free_bytes=own.usable_bytes if own else None,
        missing_bytes=None if total is None else max(0, total - (found.size_bytes if found else 0)),
        limits=_limits(key, broker, leader, flow, throttled),
        quiet_s=growth.quiet_s if growth is not None and growth.seconds >= QUIET_S else None,
        nearing=_is_nearing(move, key, growth, flow),
        others_grow=broker in flow.receiving,
        cancel=cancel,
    )


def _state_of(broker: Broker | None) -> str:
    return "" if broker is None else BrokerState.ALIVE.value if broker.is_alive else broker.state.value


def _could_lead(move: Reassignment, look: StatusLook) -> tuple[int, ...]:
    """The brokers that could lead once they are back: those last in sync, else the dead ones with a full copy."""
    state = look.live.states.get(_key(move))
    full = tuple(b for b in move.replicas if b not in move.adding)
    return (state.isr if state else ()) or tuple(b for b in full if not _alive(look, b)) or full


def _is_nearing(move: Reassignment, key: TopicPartition, growth: Growth | None, flow: _Flow) -> bool:
    if growth is None:
        return True
    sources = [
        g
        for b in move.replicas
        if b not in move.adding and (g := flow.growth.get(TopicPartitionReplica(*key, b))) is not None
    ]
    taken = max((g.bytes_per_s for g in sources), default=0.0)
    return growth.bytes_per_s > taken


def _limits(
    key: TopicPartition, broker: int, leader: int | None, flow: _Flow, throttled: CurrentThrottles
) -> tuple[Limit, ...]:
    found = []
    for side, who, rate_key in (("in", broker, FOLLOWER_RATE), ("out", leader, LEADER_RATE)):
        limit = None if who is None else _limit(key, who, side, rate_key, throttled)
        if limit is not None:
            ingest = flow.ingest.get((limit.broker, side), 0.0)
            found.append(
                Limit(
                    broker=limit.broker,
                    side=side,
                    rate=limit.rate,
                    wildcard=limit.wildcard,
                    ingest_bytes_per_s=ingest,
                )
            )
    return tuple(found)


def _limit(key: TopicPartition, broker: int, side: str, rate_key: str, throttled: CurrentThrottles) -> Limit | None:
    entries = entries_of(throttled, key.topic, led=side == "out")
    value = throttled.brokers.get(str(broker), {}).get(rate_key, "")
    wildcard = WILDCARD in entries
    if not value.isdigit() or not (wildcard or f"{key.partition}:{broker}" in entries):
        return None
    return Limit(broker=broker, side=side, rate=int(value), wildcard=wildcard)


def _flow_of(look: StatusLook, history: History, throttled: CurrentThrottles) -> _Flow:
    growth: dict[TopicPartitionReplica, Growth] = {}
    receiving: set[int] = set()
    ingest: dict[tuple[int, str], float] = {}
    for key, move in sorted(look.live.running.items()):
        for broker in move.replicas:
            found = growth_of(history, TopicPartitionReplica(*key, broker))
            if found is not None:
                growth[TopicPartitionReplica(*key, broker)] = found
                if broker in move.adding and found.last_bytes > found.first_bytes:
                    receiving.add(broker)
        taken = [growth.get(TopicPartitionReplica(*key, b)) for b in move.replicas if b not in move.adding]
        taking = max((g.bytes_per_s for g in taken if g is not None), default=0.0)
        leader = _leader(look, key)
        for side, rate_key, brokers in (
            ("in", FOLLOWER_RATE, move.adding),
            ("out", LEADER_RATE, () if leader is None else (leader,)),
        ):
            for broker in brokers:
                if _limit(key, broker, side, rate_key, throttled) is not None:
                    times = len(move.adding) if side == "out" else 1
                    ingest[broker, side] = ingest.get((broker, side), 0.0) + taking * times
    return _Flow(growth=growth, receiving=frozenset(receiving), ingest=ingest)


def _inside_views(dirs: Dirs, history: History, runs: Sequence[KnownRun]) -> tuple[InsideView, ...]:
    found = []
    for broker, answer in sorted(dirs.items()):
        for key, future in sorted(answer.futures.items()):
            replica = TopicPartitionReplica(*key, broker)
            here, growth = answer.replicas.get(key), growth_of(history, replica)
            total = max(here.size_bytes if here else 0, future.size_bytes)
            found.append(
                InsideView(
                    replica=replica,
                    source_dir=here.log_dir if here and not here.is_future else "",
                    target_dir=future.log_dir,
                    copied_bytes=future.size_bytes,
                    total_bytes=total,
                    offset_lag=future.offset_lag,
                    bytes_per_s=growth.bytes_per_s if growth else None,
                    run=_run_name(mover_of(replica, future.log_dir, runs)),
                )
            )
    return tuple(found)


def list_sizes(throttled: CurrentThrottles) -> dict[str, Mapping[str, int]]:
    """How many entries each throttle list has, by topic and key."""
    return {t: {k: len(split_list(v)) for k, v in sorted(values.items())} for t, values in throttled.topics.items()}


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
        doing=_activity_text(state, flights, program, working=working),
        working=working,
        paused=state.paused and state.unsettled,
        moves=len(flights),
        left_bytes=left,
        bytes_per_s=rate,
        eta_s=eta_of(left, rate),
        promise=promise,
        promised_s=None if promise is None else promise.made_at.timestamp() + promise.promised_s - now_s,
        close=_line(program, "close", state) if state.unsettled and not working and not flights else "",
        total_bytes=None if run.plan is None or left is None else max(left, _all_bytes(run.plan, state)),
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


def _all_bytes(plan: Plan, state: RunState) -> int:
    """What the run copies between brokers from its begin to its end; it does not change while the run goes on."""
    if state.direction == Direction.ROLLBACK:
        return sum(_copies(m, m.before, m.after) * (m.size_bytes or 0) for m in plan.moves)
    return sum(_copies(m, m.after, m.before) * (m.size_bytes or 0) for m in plan.moves)


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
    return str(shell_command(f"reassign {verb}", program=program, run=state.run_id))


def _activity_text(state: RunState, flights: Sequence[RunningMove], program: str, *, working: bool) -> str:
    if not state.unsettled:
        if flights:
            return "ended, its moves continue"
        return f"ended, and left throttles; remove them with: {shell_command('reassign cleanup', program=program)}"
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
    return "copying"
