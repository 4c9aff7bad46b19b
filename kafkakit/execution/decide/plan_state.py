"""A plan against the live cluster: where each move stands, what is left to do, and whether the end is as planned.

Before a run the plan is compared with the cluster, to see whether anything else changed since it was made. What is
left is a goal for each partition, and for each copy that changes its log dir inside a broker. The verdict after a run
judges whether every planned partition is complete and its replicas are in the planned order.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kafkakit.core.cluster_facts import BrokerLogDirs, PartitionState
from kafkakit.core.errors import RefusedError
from kafkakit.core.model import Broker, Reassignment, TopicPartition, TopicPartitionReplica
from kafkakit.core.plan import Move, Plan, PlanBroker, ScopeEntry
from kafkakit.core.quantities import count_of, format_bytes
from kafkakit.core.rights import CommandRights, Resource, lacking_on_topics, lacking_rights
from kafkakit.core.text import abort_command, few_of, shell_command

SHOWN = 5


class MoveState(StrEnum):
    """Where a planned partition stands; see `assess`."""

    AT_BEFORE = "not started"
    TO_AFTER = "in progress"
    AT_AFTER = "done"
    TO_BEFORE = "rolling back"
    SHUFFLED = "order lost by a cancel"
    TO_BETWEEN = "in progress by a detour"
    BETWEEN = "between the lists"
    DIVERTED = "moving elsewhere"
    DRIFTED = "drifted"
    GONE = "topic gone"
    RECREATED = "topic recreated"


DROPPED = frozenset({MoveState.GONE, MoveState.RECREATED})
FOREIGN = frozenset({MoveState.DIVERTED, MoveState.DRIFTED})
_OWN = frozenset(
    {
        MoveState.AT_BEFORE,
        MoveState.AT_AFTER,
        MoveState.TO_AFTER,
        MoveState.TO_BEFORE,
        MoveState.TO_BETWEEN,
        MoveState.BETWEEN,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    """What the cluster says now; `running` was read before `states`, so a move that ends in between is seen."""

    cluster_id: str
    brokers: Mapping[int, Broker]
    states: Mapping[TopicPartition, PartitionState]
    running: Mapping[TopicPartition, Reassignment]
    operations: frozenset[str] | None = None

    def is_alive(self, broker: int) -> bool:
        """True when the broker is registered and unfenced."""
        found = self.brokers.get(broker)
        return found is not None and found.is_alive


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveStatus:
    """One planned move with its live state.

    `down` are brokers of a move that only reorders the list, so that nothing is to be copied, which are not alive: the
    plan does not wait for them.
    """

    move: Move
    state: MoveState
    live: PartitionState | None = None
    running: Reassignment | None = None
    down: tuple[int, ...] = ()

    @property
    def holders(self) -> tuple[int, ...]:
        """Brokers with a full copy now: the live list without those that are being added."""
        if self.live is None:
            return ()
        adding = self.running.adding if self.running else ()
        return tuple(b for b in self.live.replicas if b not in adding)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """Every move's state, and what differs from the plan's fingerprint (empty when it matches)."""

    statuses: tuple[MoveStatus, ...]
    differences: tuple[str, ...]

    def having(self, *states: MoveState) -> tuple[MoveStatus, ...]:
        """The moves in one of the given states, in plan order."""
        return tuple(s for s in self.statuses if s.state in states)


Trail = Mapping[TopicPartition, tuple[tuple[int, ...], ...]]
"""The lists that an unfinished run of ours has sent, by partition."""


def assess(plan: Plan, live: LiveState, *, trail: Trail | None = None, cancelled_by_us: bool = False) -> Assessment:
    """Compare a plan with the live cluster; O(scope), half a second for 200,000 partitions.

    Everything that the fingerprint covers is held against the live cluster, part by part (that it fits
    the plan's own parts was checked when the plan was read). A move that is done or on its way counts
    as unchanged, so that an interrupted run can continue. A list with the right brokers in another order
    counts as ours only after a cancel of ours (Kafka loses the order then). A list that is neither the
    old nor the new one is ours when the journal's `trail` has it: a detour, or one new replica at a time.
    """
    sent = trail or {}
    statuses = tuple(_status(m, live, sent.get(m.key, ())) for m in plan.moves)
    own = set(_OWN)
    if cancelled_by_us:
        own.add(MoveState.SHUFFLED)
    ours = {s.move.key for s in statuses if s.state in own}
    changed: list[str] = []
    if live.cluster_id != plan.cluster_id:
        changed.append(f"cluster {plan.cluster_id} is now {live.cluster_id}")
    changed += [text for text in (_rack_difference(b, live) for b in plan.brokers) if text]
    for entry in plan.scope:
        key = TopicPartition(entry.topic, entry.partition)
        now = live.states.get(key)
        same = now is not None and (now.replicas == entry.replicas or key in ours)
        if now is None or not same or made_anew(entry.topic_id, now):
            changed.append(_difference(entry, now, live))
    return Assessment(statuses=statuses, differences=tuple(changed))


def require_same_cluster(plan: Plan, live_id: str, pinned: str | None) -> None:
    """Raise `RefusedError` unless the live cluster is the plan's and the profile's."""
    if pinned is not None and pinned != live_id:
        raise RefusedError(f"this is cluster {live_id}, the profile is pinned to {pinned}", hint="check the address")
    if plan.cluster_id != live_id:
        raise RefusedError(
            f"the plan is for cluster {plan.cluster_id}, this is {live_id}", hint="check --profile or the plan file"
        )


def require_rights(
    duty: CommandRights, live: LiveState, topics: Mapping[str, Collection[str] | None] | None = None
) -> None:
    """Raise `RefusedError` when the cluster says that the caller may not do its duty.

    `topics` are the caller's rights on the topics that it is about, where it needs any beyond reading them.
    """
    found = [
        f"{operation} on the cluster" for operation in lacking_rights(duty.rights[Resource.CLUSTER], live.operations)
    ]
    on_topics = lacking_on_topics(duty.rights[Resource.TOPICS], topics or {})
    found += [f"{operation} on topics: {list_items(names)}" for operation, names in on_topics.items()]
    if found:
        raise RefusedError(
            f"no right to {' and to '.join(found)}",
            hint="grant it to the user in use; docs/acl.md lists the rights of each command",
        )


def dead_targets(live: LiveState, moving: Collection[TopicPartition]) -> dict[TopicPartition, tuple[int, ...]]:
    """The running moves that cannot end by themselves, with the dead brokers that they copy to."""
    found = {k: tuple(b for b in live.running[k].adding if not live.is_alive(b)) for k in moving if k in live.running}
    return {key: brokers for key, brokers in sorted(found.items()) if brokers}


def waits_in_vain(dead: Mapping[TopicPartition, tuple[int, ...]]) -> str:
    """Moves with dead targets, in words."""
    brokers = sorted({b for found in dead.values() for b in found})
    return f"{list_items([str(k) for k in dead])} cannot end while broker {', '.join(map(str, brokers))} is not alive"


def require_applicable(
    assessment: Assessment, live: LiveState, *, allow_drift: bool, program: str = "kafkakit", replan: str = ""
) -> None:
    """Raise `RefusedError` when carrying the plan out would not do what was planned.

    `replan` is the command that plans the rest of the operation anew, if the plan is part of one.
    """
    diverted = assessment.having(MoveState.DIVERTED)
    if diverted:
        where = list_items([f"{s.move.key} to {ids(s.running.target if s.running else ())}" for s in diverted])
        keys = [s.move.key for s in diverted]
        dead = dead_targets(live, keys)
        hint = f"{waits_in_vain(dead)}; cancel the move" if dead else "wait for them, or cancel them"
        raise RefusedError(
            f"other moves run on planned partitions: {where}", hint=f"{hint}:\n{abort_command(program, dead or keys)}"
        )
    drifted = assessment.having(MoveState.DRIFTED)
    if assessment.differences and (drifted or not allow_drift):
        again, lines = ("plan the rest anew", [replan]) if replan else ("make a new plan", [])
        hint = again if drifted else f"continue with --allow-drift, or {again}"
        if dead := dead_targets(live, live.running.keys() - {s.move.key for s in assessment.statuses}):
            hint = f"{hint}; {waits_in_vain(dead)}: cancel that first"
            lines = [abort_command(program, dead), *lines]
        hint = "\n".join((f"{hint}:" if lines else hint, *lines))
        raise RefusedError(f"the cluster changed since the plan: {list_items(assessment.differences)}", hint=hint)
    lost = sorted({b for s in assessment.statuses for b in _still_adding(s) if not live.is_alive(b)})
    if lost:
        names = ", ".join(str(b) for b in lost)
        raise RefusedError(
            f"the plan adds copies on broker {names}, which is not alive",
            hint="bring it back, or make a new plan without it; a started run can be undone with `reassign rollback`",
        )


def foreign_reassignments(plan: Plan, live: LiveState) -> tuple[TopicPartition, ...]:
    """The partitions that move now although the plan does not move them."""
    return tuple(sorted(live.running.keys() - {m.key for m in plan.moves}))


def require_alone(
    moving: Sequence[TopicPartition], rates: Sequence[str], program: str, dead: Mapping[TopicPartition, tuple[int, ...]]
) -> None:
    """Raise `RefusedError` when other partitions move, or replication rates are set, that are not of this run.

    `rates` in words; `program` is how kafkakit is called for this cluster; `dead` as from `dead_targets`.
    """
    if moving:
        hint = "wait for them with --wait-for-others, or continue despite them with --join"
        if dead:
            hint = f"{waits_in_vain(dead)}; continue despite them with --join, or cancel them:\n"
            hint += abort_command(program, dead)
        raise RefusedError(
            f"{count_of(len(moving), 'move')} not started by this run {'is' if len(moving) == 1 else 'are'} in flight: "
            f"{list_items([str(k) for k in moving])}",
            hint=hint,
        )
    if rates:
        raise RefusedError(
            f"brokers already have replication throttles that this run did not set: {list_items(list(rates))}",
            hint="is another tool moving replicas? Then wait for it, or pass --join to run anyway; if not, this shows "
            f"and removes them:\n{shell_command('reassign cleanup', program=program, all=True)}",
        )


def list_items(items: tuple[str, ...] | list[str]) -> str:
    """The first few items in one line, with the number of the others."""
    more = f" and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return "; ".join(items[:SHOWN]) + more


def ids(replicas: tuple[int, ...]) -> str:
    """A replica list as text: `[1,2,3]`."""
    return f"[{','.join(str(b) for b in replicas)}]"


def _status(move: Move, live: LiveState, sent: tuple[tuple[int, ...], ...]) -> MoveStatus:
    now, running = live.states.get(move.key), live.running.get(move.key)
    down: tuple[int, ...] = ()
    if now is not None and len(now.isr) < len(now.replicas) and sorted(move.before) == sorted(move.after):
        down = tuple(b for b in now.replicas if b in move.after and b not in now.isr and not live.is_alive(b))
    return MoveStatus(move=move, state=_state(move, now, running, sent), live=now, running=running, down=down)


def _state(
    move: Move, now: PartitionState | None, running: Reassignment | None, sent: tuple[tuple[int, ...], ...]
) -> MoveState:
    if now is None:
        return MoveState.GONE
    if made_anew(move.topic_id, now):
        return MoveState.RECREATED
    if running is not None:
        target = running.target
        if target == move.after:
            return MoveState.TO_AFTER
        if target == move.before:
            return MoveState.TO_BEFORE
        return MoveState.TO_BETWEEN if target in sent else MoveState.DIVERTED
    if now.replicas == move.after:
        return MoveState.AT_AFTER
    if now.replicas == move.before:
        return MoveState.AT_BEFORE
    if now.replicas in sent:
        return MoveState.BETWEEN
    if set(now.replicas) in [set(known) for known in (move.before, move.after, *sent)]:
        return MoveState.SHUFFLED
    return MoveState.DRIFTED


def _still_adding(status: MoveStatus) -> tuple[int, ...]:
    if status.state in DROPPED or status.state is MoveState.AT_AFTER:
        return ()
    return tuple(b for b in status.move.after if b not in status.holders)


def made_anew(topic_id: str | None, now: PartitionState) -> bool:
    """True when both topic ids are known and differ: a side that does not know it cannot contradict the other."""
    return bool(topic_id and now.topic_id and topic_id != now.topic_id)


def _rack_difference(broker: PlanBroker, live: LiveState) -> str | None:
    """A broker that is not alive keeps its planned rack: that it is down is judged elsewhere."""
    now = live.brokers.get(broker.id)
    if now is None or not now.is_alive or (now.group or "") == (broker.rack or ""):
        return None
    return f"broker {broker.id}: rack {broker.rack or '-'} is now {now.group or '-'}"


def _difference(entry: ScopeEntry, now: PartitionState | None, live: LiveState) -> str:
    key = TopicPartition(entry.topic, entry.partition)
    if now is None:
        return f"{key} is gone"
    if made_anew(entry.topic_id, now):
        return f"{key}: the topic was deleted and created again"
    moving = " (a move is running)" if key in live.running else ""
    return f"{key} was {ids(entry.replicas)}, is {ids(now.replicas)}{moving}"


# Values above 32,767 bytes close the connection; stay clear of that.
LIST_LIMIT = 32_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveGoal:
    """One partition to bring to `target`; `holders` have a full copy now, `running` = already on its way.

    `dirs` names the log dirs wanted for new copies, by broker. `via` is the list that a cut run has on the
    cluster as a step on the way: it is waited for, and only then comes the rest.
    """

    key: TopicPartition
    target: tuple[int, ...]
    holders: tuple[int, ...]
    running: bool = False
    size_bytes: int | None = None
    topic_id: str | None = None
    dirs: Mapping[int, str] = field(default_factory=dict)
    via: tuple[int, ...] | None = None

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that get a copy."""
        return tuple(b for b in self.target if b not in self.holders)


def apply_goals(assessment: Assessment) -> tuple[MoveGoal, ...]:
    """What carrying the plan out still has to do; partitions whose topic is gone have no share."""
    todo = assessment.having(
        MoveState.AT_BEFORE,
        MoveState.SHUFFLED,
        MoveState.TO_BEFORE,
        MoveState.TO_AFTER,
        MoveState.BETWEEN,
        MoveState.TO_BETWEEN,
    )
    return tuple(_goal(s, s.move.after, running=s.state is MoveState.TO_AFTER) for s in todo)


def rollback_goals(assessment: Assessment, live: LiveState) -> tuple[tuple[MoveGoal, ...], tuple[MoveStatus, ...]]:
    """What undoing the plan has to do, and the moves that cannot be undone now.

    A move that would need a copy on a broker that is not alive is left as it is.
    """
    goals: list[MoveGoal] = []
    impossible: list[MoveStatus] = []
    states = (
        MoveState.AT_AFTER,
        MoveState.SHUFFLED,
        MoveState.TO_AFTER,
        MoveState.TO_BEFORE,
        MoveState.BETWEEN,
        MoveState.TO_BETWEEN,
    )
    for status in assessment.having(*states):
        goal = _goal(status, status.move.before, running=status.state is MoveState.TO_BEFORE)
        if all(live.is_alive(b) for b in goal.adding):
            goals.append(goal)
        else:
            impossible.append(status)
    return tuple(goals), tuple(impossible)


def reorder_goals(assessment: Assessment, trail: Trail) -> tuple[MoveGoal, ...]:
    """Partitions that have the brokers of a list we know in another order, with that list: no copy is made."""
    goals = []
    for status in assessment.having(MoveState.SHUFFLED):
        move = status.move
        known = (move.before, move.after, *trail.get(move.key, ()))
        target = next(found for found in known if set(found) == set(status.holders))
        goals.append(MoveGoal(key=move.key, target=target, holders=status.holders, topic_id=move.topic_id))
    return tuple(goals)


def _goal(status: MoveStatus, target: tuple[int, ...], *, running: bool) -> MoveGoal:
    move = status.move
    return MoveGoal(
        key=move.key,
        target=target,
        holders=status.holders,
        running=running,
        size_bytes=move.size_bytes,
        topic_id=move.topic_id,
        dirs=move.dirs if target == move.after else {},
        via=status.running.target if status.running and status.state is MoveState.TO_BETWEEN else None,
    )


Dirs = Mapping[int, BrokerLogDirs]
Sent = Mapping[TopicPartitionReplica, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DirWork:
    """One copy that belongs into `target` and came from `source`; `sent` are dirs that a run of ours took it to."""

    replica: TopicPartitionReplica
    source: str
    target: str
    size_bytes: int = 0
    sent: tuple[str, ...] = ()

    @property
    def key(self) -> TopicPartition:
        """The partition's name."""
        return TopicPartition(self.replica.topic, self.replica.partition)

    def __str__(self) -> str:
        return f"{self.key} on broker {self.replica.broker} to {self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DirLook:
    """One observation: work that is done, on its way, not begun, or cannot be done (with the reason).

    Bytes are those copied and to copy in all, of what can be done.
    """

    done: tuple[DirWork, ...] = ()
    moving: tuple[DirWork, ...] = ()
    idle: tuple[DirWork, ...] = ()
    lost: Mapping[DirWork, str] = field(default_factory=dict)
    copied_bytes: int = 0
    total_bytes: int = 0


def dir_work(plan: Plan, live: LiveState, *, undone: bool = False, sent: Sent | None = None) -> tuple[DirWork, ...]:
    """The plan's moves inside brokers, or the way back; copies of topics that are gone have no share.

    `sent` are the dirs that a run of ours took copies to on their way, as its journal has them.
    """
    ids = {e.topic: e.topic_id for e in plan.scope}
    found = []
    for m in plan.dir_moves:
        state = live.states.get(TopicPartition(m.topic, m.partition))
        planned_id = ids.get(m.topic)
        if state is None or (planned_id and state.topic_id and planned_id != state.topic_id):
            continue
        source, target = (m.target_dir, m.source_dir) if undone else (m.source_dir, m.target_dir)
        replica = TopicPartitionReplica(m.topic, m.partition, m.broker)
        ours = sent.get(replica, ()) if sent else ()
        found.append(DirWork(replica=replica, source=source, target=target, size_bytes=m.size_bytes or 0, sent=ours))
    return tuple(found)


def look_at_dirs(work: Sequence[DirWork], dirs: Dirs) -> DirLook:
    """Say where each copy stands; one that another process took to a third dir is left alone."""
    done: list[DirWork] = []
    moving: list[DirWork] = []
    idle: list[DirWork] = []
    lost: dict[DirWork, str] = {}
    copied = total = 0
    for item in work:
        reason = _obstacle(item, dirs)
        if reason is not None:
            lost[item] = reason
            continue
        answer = dirs[item.replica.broker]
        size = answer.replicas[item.key].size_bytes
        future = answer.futures.get(item.key)
        total += size
        if answer.replicas[item.key].log_dir == item.target and future is None:
            done.append(item)
            copied += size
        elif future is not None and future.log_dir == item.target:
            moving.append(item)
            copied += min(size, future.size_bytes)
        else:
            idle.append(item)
    return DirLook(
        done=tuple(done),
        moving=tuple(moving),
        idle=tuple(idle),
        lost=lost,
        copied_bytes=copied,
        total_bytes=total,
    )


def _obstacle(item: DirWork, dirs: Dirs) -> str | None:
    answer = dirs.get(item.replica.broker)
    if answer is None or answer.error:
        return f"broker {item.replica.broker} does not report its log dirs"
    target = next((d for d in answer.log_dirs if d.path == item.target), None)
    if target is None:
        return f"broker {item.replica.broker} has no log dir {item.target}"
    copy = answer.replicas.get(item.key)
    if target.error is not None:
        return f"log dir {item.target} of broker {item.replica.broker} is offline"
    if copy is None:
        return f"broker {item.replica.broker} shows no copy"
    future = answer.futures.get(item.key)
    if target.cordoned and copy.log_dir != item.target and (future is None or future.log_dir != item.target):
        return f"log dir {item.target} of broker {item.replica.broker} is cordoned"
    if copy.log_dir not in (item.source, item.target, *item.sent):
        return f"the copy is in {copy.log_dir}, moved by another process"
    return None


def on_the_way(sent: Sent, dirs: Dirs) -> dict[TopicPartitionReplica, str]:
    """Copies on their way to a dir that a run of ours named, each with the dir that it is in until it arrives."""
    found: dict[TopicPartitionReplica, str] = {}
    for replica in sorted(sent):
        key = TopicPartition(replica.topic, replica.partition)
        answer = dirs.get(replica.broker)
        future, copy = (answer.futures.get(key), answer.replicas.get(key)) if answer else (None, None)
        if future is not None and copy is not None and future.log_dir in sent[replica]:
            found[replica] = copy.log_dir
    return found


def halfway_work(work: Sequence[DirWork], dirs: Dirs) -> tuple[DirWork, ...]:
    """Work whose copy is in neither of its two dirs, but in one that a run of ours took it to on its way."""
    found = []
    for item in work:
        answer = dirs.get(item.replica.broker)
        copy = answer.replicas.get(item.key) if answer else None
        if copy is not None and copy.log_dir in item.sent and copy.log_dir not in (item.source, item.target):
            found.append(item)
    return tuple(found)


def usable_bytes_of(dirs: Dirs, broker: int, path: str) -> int | None:
    """The usable bytes of a log dir; None when they are not told."""
    answer = dirs.get(broker)
    found = next((d for d in answer.log_dirs if d.path == path), None) if answer else None
    return found.usable_bytes if found else None


def is_cordoned(dirs: Dirs, broker: int, path: str) -> bool:
    """True when the broker says that the log dir takes no new copies."""
    answer = dirs.get(broker)
    return answer is not None and any(d.path == path and d.cordoned for d in answer.log_dirs)


def dir_problems(seen: DirLook) -> list[str]:
    """What keeps copies from their dirs, one sentence a kind."""
    groups: dict[str, list[str]] = {}
    for item, reason in seen.lost.items():
        groups.setdefault(reason, []).append(str(item))
    lines = [f"not moved between log dirs: {list_items(names)}: {reason}" for reason, names in sorted(groups.items())]
    waiting = [str(w) for w in (*seen.moving, *seen.idle)]
    if waiting:
        lines.append(
            f"{count_of(len(waiting), 'copy', 'copies')} not in the planned log dir yet: {list_items(waiting)}"
        )
    return lines


def dir_words(work: Sequence[DirWork]) -> str:
    """What is to be done inside brokers, in one line."""
    total = sum(w.size_bytes for w in work)
    return f"inside brokers: {count_of(len(work), 'copy', 'copies')} to move between log dirs, {format_bytes(total)}"


NOT_ALIVE = "(not alive)"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionVerdict:
    """One planned partition: where it is, and what is missing from its ISR."""

    key: TopicPartition
    state: MoveState
    wanted: tuple[int, ...]
    replicas: tuple[int, ...]
    leader: int | None
    out_of_sync: tuple[int, ...] = ()

    @property
    def complete(self) -> bool:
        """At the wanted list, in order, with every copy in sync that the plan can bring in sync."""
        return self.replicas == self.wanted and self.state in _SETTLED and not self.out_of_sync

    @property
    def word(self) -> str:
        """The state in the words that `verify` prints; a finished partition may still lack copies in sync."""
        return (
            "out of sync"
            if self.state in _SETTLED and self.replicas == self.wanted and self.out_of_sync
            else str(self.state)
        )


_SETTLED = frozenset({MoveState.AT_AFTER, MoveState.AT_BEFORE})


def judge(assessment: Assessment, *, undone: bool = False) -> tuple[PartitionVerdict, ...]:
    """Judge each planned partition against the plan's `after`, or against `before` when it was `undone`."""
    found: list[PartitionVerdict] = []
    for status in assessment.statuses:
        live = status.live
        wanted = status.move.before if undone else status.move.after
        replicas = live.replicas if live else ()
        in_sync = live.isr if live else ()
        found.append(
            PartitionVerdict(
                key=status.move.key,
                state=status.state,
                wanted=wanted,
                replicas=replicas,
                leader=live.leader if live else None,
                out_of_sync=tuple(b for b in replicas if b not in in_sync and b not in status.down),
            )
        )
    return tuple(found)


def to_elect(assessment: Assessment, *, undone: bool = False) -> tuple[TopicPartition, ...]:
    """Partitions at their target whose first replica is in sync but does not lead."""
    settled = MoveState.AT_BEFORE if undone else MoveState.AT_AFTER
    return tuple(s.move.key for s in assessment.having(settled) if s.live and wants_election(s.live))


def wants_election(live: PartitionState) -> bool:
    """True when the first replica is in sync but does not lead."""
    first = live.replicas[0]
    return live.leader != first and first in live.isr


def incomplete_verdicts(
    assessment: Assessment, *, undone: bool = False, without_gone: bool = False
) -> tuple[PartitionVerdict, ...]:
    """The verdicts that are not complete; a topic that is gone has nothing to undo.

    `without_gone`: deleted topics are left out, as there is nothing to carry out for them any more either. One that was
    made anew stays: nobody planned where its partitions are to be.
    """
    passed = DROPPED if undone else frozenset({MoveState.GONE}) if without_gone else frozenset()
    return tuple(v for v in judge(assessment, undone=undone) if not v.complete and v.state not in passed)


def passed_over(assessment: Assessment) -> tuple[str, ...]:
    """What the plan did not wait for, as notes: topics that were deleted, and old copies on brokers that are down."""
    lines = gone_words(assessment)
    late = [s for s in assessment.statuses if s.down]
    if not late:
        return lines
    brokers = few_of(sorted({b for s in late for b in s.down}))
    copies = count_of(sum(len(s.down) for s in late), "old copy", "old copies")
    return (
        *lines,
        f"{copies} on broker {brokers} {NOT_ALIVE} not in sync: {list_items([str(s.move.key) for s in late])}",
    )


def gone_words(assessment: Assessment) -> tuple[str, ...]:
    """The planned partitions whose topics were deleted, as something to be said; empty if there are none."""
    names = [str(s.move.key) for s in assessment.having(MoveState.GONE)]
    topics = count_of(len({s.move.topic for s in assessment.having(MoveState.GONE)}), "topic")
    return (f"left out, {topics} deleted since the plan was made: {list_items(names)}",) if names else ()


def shortcomings(verdicts: tuple[PartitionVerdict, ...], live: LiveState) -> tuple[str, ...]:
    """What keeps the whole from being complete, one sentence a kind, with the first few partitions."""
    problems: list[str] = []
    groups: dict[str, list[PartitionVerdict]] = {}
    for verdict in verdicts:
        if not verdict.complete:
            groups.setdefault(verdict.word, []).append(verdict)
    for word, members in sorted(groups.items()):
        problems.append(
            f"{len(members)} {'partition is' if len(members) == 1 else 'partitions are'} {word}: "
            f"{list_items([_explain_verdict(m, live) for m in members])}"
        )
    return tuple(problems)


def _explain_verdict(verdict: PartitionVerdict, live: LiveState) -> str:
    if not verdict.replicas:
        return str(verdict.key)
    if verdict.replicas == verdict.wanted:
        late = ", ".join(f"{b}{'' if live.is_alive(b) else f' {NOT_ALIVE}'}" for b in verdict.out_of_sync)
        return f"{verdict.key} lacks {late}"
    return f"{verdict.key} is {ids(verdict.replicas)}, wanted {ids(verdict.wanted)}"
