"""How a batch in flight is doing, from one look after another: progress, stalls, and when to stop.

`look` judges one observation, `follow` carries the judgement over time. Both are pure; the loop that
looks and sleeps is in `reassign.act`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kafkakit.core.cluster_facts import BrokerLogDirs, PartitionState
from kafkakit.core.model import TopicPartition, TopicPartitionReplica
from kafkakit.execution.decide.goals import Goal
from kafkakit.execution.decide.precheck import Live, listed

RATE_WINDOW_S = 10.0  # Kafka's throttle averages over about 10 s; shorter samples mean nothing
DEAD_GRACE_S = 10.0  # a broker may be restarting
SETTLE_S = 15.0  # a broker's metadata may lag behind the controller's
MAX_SAMPLES = 64


class Decision(StrEnum):
    """What to do after a look."""

    WAIT = "wait"
    DONE = "done"
    BLOCKED = "blocked"
    STALLED = "stalled"
    DISK = "disk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
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
class Watch:
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
    decision: Decision = Decision.WAIT

    @property
    def bytes_per_s(self) -> float | None:
        """The copy rate over the samples kept (about the last 10 s or more), or None when there are too few."""
        if len(self.samples) < 2:
            return None
        (start, first), (end, last) = self.samples[0], self.samples[-1]
        return max(0, last - first) / (end - start) if end > start else None


def look(
    goals: Sequence[Goal],
    live: Live,
    dirs: Mapping[int, BrokerLogDirs],
    *,
    offline_before: Collection[str] = (),
) -> Look:
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
            copied += sum(min(size, _held(dirs, b, goal.key)) for b in goal.adding)
        elif running is None and state.replicas == goal.target:
            done.add(goal.key)
            copied += share
        else:
            idle.add(goal.key)
    return Look(
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


def follow(watch: Watch, seen: Look, now_s: float, *, stall_timeout_s: float) -> Watch:
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
        decision = Decision.DISK
    elif not waiting:
        decision = Decision.DONE
    elif blocked_since is not None and now_s - blocked_since >= DEAD_GRACE_S:
        decision = Decision.BLOCKED
    elif now_s - changed_at >= stall_timeout_s:
        decision = Decision.STALLED
    else:
        decision = Decision.WAIT
    return replace(
        watch,
        changed_at_s=changed_at,
        mark=mark,
        blocked_since_s=blocked_since,
        sourceless=frozenset(seen.sourceless),
        sourceless_before=watch.sourceless,
        idle_since_s=idle_since,
        withdrawn=withdrawn,
        samples=_sampled(watch.samples, now_s, seen.copied_bytes),
        decision=decision,
    )


def has_source(state: PartitionState, live: Live) -> bool:
    """True when a living broker leads: without a leader not a byte is copied and no move ends."""
    return state.leader is not None and live.is_alive(state.leader)


def without_source(goals: Iterable[Goal], live: Live) -> dict[TopicPartition, tuple[int, ...]]:
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
    return listed([f"{k} (waits for broker {' or '.join(map(str, b))})" for k, b in sorted(sourceless.items())])


def poll_interval_s(elapsed_s: float) -> float:
    """How long to wait before the next look: half a second at first, up to 5 s for long moves."""
    return min(5.0, max(0.5, elapsed_s / 20))


def source_bytes(goal: Goal, dirs: Mapping[int, BrokerLogDirs]) -> int:
    """The partition's size in bytes: its largest full copy now, else the plan's figure, else 0."""
    sizes = [_held(dirs, b, goal.key) for b in goal.holders]
    return max(sizes, default=0) or goal.size_bytes or 0


def offline_dirs(goals: Sequence[Goal], dirs: Mapping[int, BrokerLogDirs]) -> set[str]:
    """Log dirs in error on the brokers that receive copies, as `broker:path`."""
    brokers = {b for g in goals for b in g.adding}
    return {f"{b}:{d.path}" for b in brokers if b in dirs for d in dirs[b].log_dirs if d.error}


def _is_lost(dirs: Mapping[int, BrokerLogDirs], broker: int, key: TopicPartition, offline: Collection[str]) -> bool:
    """True when the broker lost a log dir and shows no copy: it was in that dir, or its place is unknown."""
    answer = dirs.get(broker)
    if answer is None or key in answer.replicas:
        return False
    return any(f"{broker}:{d.path}" in offline for d in answer.log_dirs)


def _could_serve(goal: Goal, state: PartitionState, live: Live) -> tuple[int, ...]:
    return state.isr or tuple(b for b in goal.holders if not live.is_alive(b)) or goal.holders


def _held(dirs: Mapping[int, BrokerLogDirs], broker: int, key: TopicPartition) -> int:
    answer = dirs.get(broker)
    copy = answer.replicas.get(key) if answer else None
    return copy.size_bytes if copy else 0


def _sampled(samples: tuple[tuple[float, int], ...], now_s: float, copied: int) -> tuple[tuple[float, int], ...]:
    kept = [*samples, (now_s, copied)][-MAX_SAMPLES:]
    while len(kept) > 2 and now_s - kept[1][0] >= RATE_WINDOW_S:
        kept.pop(0)
    return tuple(kept)
