"""From looks to a `StatusView`: how each copy is doing, and why some are not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafkakit.core.cluster_facts import BrokerLogDirs
from kafkakit.core.model import Broker, BrokerState, Reassignment, TopicPartition, TopicPartitionReplica
from kafkakit.execution.decide.status.looks import Health, HeldLease, KnownRun, StatusLook, Throttled, entries_of
from kafkakit.execution.decide.status.runs import RunningMove, left_bytes, mover_of, owner_of, view_run
from kafkakit.execution.decide.status.samples import Growth, History, growth_of, landing_rate, window_of
from kafkakit.execution.decide.status.stall import QUIET_S, Cause, CopyFacts, Limit, stall_of
from kafkakit.execution.decide.status.state import CopyState, CopyView, InsideView, MoveView, StatusView
from kafkakit.execution.decide.throttle import FOLLOWER_RATE, LEADER_RATE, WILDCARD

Dirs = Mapping[int, BrokerLogDirs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What is known beside the light looks; see `StatusView`. `program` is how kafkakit is called for this cluster.

    `left_before` has for runs, by journal, what was left to copy at the beginning of the window: (monotonic s, bytes).
    """

    runs: Sequence[KnownRun] = ()
    throttled: Throttled = field(default_factory=Throttled)
    health: Health | None = None
    lease: HeldLease | None = None
    damaged: tuple[str, ...] = ()
    program: str = "kafkakit"
    left_before: Mapping[str, tuple[float, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flow:
    """How much what moves grows: each new copy, and what all partitions under a broker's limit take in."""

    growth: Mapping[TopicPartitionReplica, Growth]
    receiving: frozenset[int]
    ingest: Mapping[tuple[int, str], float]


def judge(look: StatusLook, history: History, inside_history: History, around: Around) -> StatusView:
    """Put a look, the sizes of earlier ones and what else is known together; O(moves x samples)."""
    flow = _flow_of(look, history, around.throttled)
    moves, owners = [], {}
    for key, move in sorted(look.live.running.items()):
        owner = owner_of(move, around.runs)
        owners[key] = owner
        copies = tuple(_copy(move, b, look, flow, around.throttled) for b in move.adding)
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
        inside=_inside(look.dirs, inside_history, around.runs),
        runs=tuple(views),
        throttled=around.throttled,
        health=around.health,
        lease=around.lease,
        damaged=around.damaged,
        program=around.program,
    )


def _run_rate(run: KnownRun, flights: Sequence[RunningMove], around: Around, now_s: float) -> float | None:
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


def _copy(move: Reassignment, broker: int, look: StatusLook, flow: _Flow, throttled: Throttled) -> CopyView:
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
    stall = stall_of(_facts(move, broker, look, flow, throttled, growth))
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
    move: Reassignment, broker: int, look: StatusLook, flow: _Flow, throttled: Throttled, growth: Growth | None
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
    key: TopicPartition, broker: int, leader: int | None, flow: _Flow, throttled: Throttled
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


def _limit(key: TopicPartition, broker: int, side: str, rate_key: str, throttled: Throttled) -> Limit | None:
    entries = entries_of(throttled, key.topic, led=side == "out")
    value = throttled.brokers.get(str(broker), {}).get(rate_key, "")
    wildcard = WILDCARD in entries
    if not value.isdigit() or not (wildcard or f"{key.partition}:{broker}" in entries):
        return None
    return Limit(broker=broker, side=side, rate=int(value), wildcard=wildcard)


def _flow_of(look: StatusLook, history: History, throttled: Throttled) -> _Flow:
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


def _inside(dirs: Dirs, history: History, runs: Sequence[KnownRun]) -> tuple[InsideView, ...]:
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
