"""How far a plan is carried out today: every partition with its list, its target, and what became of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kafkakit.core.lists_in_words import some
from kafkakit.core.model import ClusterSnapshot, Partition, Topic, TopicPartition
from kafkakit.core.plan import Move, Plan, ScopeEntry
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.placement.minimal import substitute


class MoveState(StrEnum):
    """What became of a partition since the plan; the first three and `overtaken` are of planned moves."""

    DONE = "done"
    RUNNING = "running"
    WAITING = "waiting"
    OVERTAKEN = "overtaken"
    STILL = "still"
    CHANGED = "changed"
    NEW = "new"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplannedPartition:
    """One partition that is there today.

    `live` are the brokers with a full copy, in the order a rollback would restore; `start` is the list that the
    plan leads to (the live one where the plan says nothing that still holds). `under_way` partitions are moving to
    `start` now, for the plan (`running`) or for another process. `hangs` is a planned move that runs towards a broker
    which is not alive: it cannot end, so it counts as waiting.
    """

    topic: Topic
    partition: Partition
    live: tuple[int, ...]
    start: tuple[int, ...]
    state: MoveState
    move: Move | None = None
    under_way: bool = False
    hangs: bool = False

    @property
    def key(self) -> TopicPartition:
        """The partition's name."""
        return TopicPartition(self.topic.name, self.partition.partition)

    @property
    def size(self) -> int | None:
        """The largest known copy."""
        return self.partition.known_bytes

    @property
    def foreign(self) -> bool:
        """True when another process is moving the partition: no plan of ours may touch it."""
        return self.under_way and self.state is not MoveState.RUNNING

    def stranded(self, alive: frozenset[int]) -> bool:
        """True when no live broker has a copy in sync, so nothing can be copied from it."""
        sources = self.live if self.partition.isr is None else self.partition.isr
        return not any(b in alive for b in sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The plan's topics today, sorted by name and number; `gone` are planned moves without a partition.

    `vanished` counts partitions of the plan's scope that are gone, planned to move or not. `brokers` are the plan's
    targets that are alive, `lost` those that are not, `arrived` live brokers that the plan did not know.
    """

    rows: tuple[ReplannedPartition, ...]
    gone: tuple[Move, ...]
    vanished: int
    alive: frozenset[int]
    racks: Mapping[int, str | None]
    brokers: tuple[int, ...]
    lost: tuple[int, ...]
    arrived: tuple[int, ...]
    regrouped: tuple[tuple[int, str, str], ...]

    def having(self, *states: MoveState) -> list[ReplannedPartition]:
        """The rows in one of these states."""
        return [row for row in self.rows if row.state in states]


def situation_of(plan: Plan, snapshot: ClusterSnapshot) -> Situation:
    """Hold a plan against the cluster; what the plan looked at by map alone stays the scope. O(replicas)."""
    moves = {m.key: m for m in plan.moves}
    scope = {TopicPartition(e.topic, e.partition): e for e in plan.scope}
    ids = {e.topic: e.topic_id for e in plan.scope}
    targets = {TopicPartition(r.topic, r.partition): r.target for r in snapshot.reassignments}
    whole = "map-string" not in plan.request
    alive = frozenset(b.id for b in snapshot.brokers if b.is_alive)
    rows = []
    for topic in sorted(snapshot.topics, key=lambda t: t.name):
        if topic.name not in ids:
            continue
        recreated = bool(topic.topic_id and ids[topic.name] and topic.topic_id != ids[topic.name])
        for p in sorted(topic.partitions, key=lambda p: p.partition):
            key = TopicPartition(topic.name, p.partition)
            if key in scope or whole:
                entry = None if recreated else scope.pop(key, None)
                move = None if recreated else moves.pop(key, None)
                rows.append(_row(topic, p, entry, move, targets.get(key), alive))
    racks = {b.id: b.group for b in snapshot.brokers}
    known = {b.id for b in plan.brokers} | {b for e in plan.scope for b in e.replicas}
    known |= {load.broker for load in (*plan.before.brokers, *plan.after.brokers)}
    return Situation(
        rows=tuple(rows),
        gone=tuple(moves.values()),
        vanished=len(scope),
        alive=alive,
        racks=racks,
        brokers=tuple(sorted(b.id for b in plan.brokers if b.id in alive)),
        lost=tuple(sorted(b.id for b in plan.brokers if b.id not in alive)),
        arrived=tuple(sorted(alive - known)),
        regrouped=tuple(
            (b.id, b.rack or "-", racks.get(b.id) or "-")
            for b in sorted(plan.brokers, key=lambda b: b.id)
            if b.id in alive and (b.rack or None) != racks.get(b.id)
        ),
    )


def _row(
    topic: Topic,
    p: Partition,
    entry: ScopeEntry | None,
    move: Move | None,
    target: tuple[int, ...] | None,
    alive: frozenset[int],
) -> ReplannedPartition:
    if target is not None or p.adding or p.removing:
        return _moving_row(topic, p, move, target or tuple(b for b in p.replicas if b not in p.removing), alive)
    live = p.replicas
    if move is None:
        state = MoveState.NEW if entry is None else MoveState.STILL if live == entry.replicas else MoveState.CHANGED
        return ReplannedPartition(topic=topic, partition=p, live=live, start=live, state=state)
    if live == move.after:
        return ReplannedPartition(topic=topic, partition=p, live=live, start=live, state=MoveState.DONE, move=move)
    if live == move.before:
        return ReplannedPartition(
            topic=topic, partition=p, live=live, start=move.after, state=MoveState.WAITING, move=move
        )
    if set(live) == set(move.after) and move.adding:  # copied, and then put in another order
        return ReplannedPartition(topic=topic, partition=p, live=live, start=live, state=MoveState.DONE, move=move)
    if set(live) == set(move.before) and set(live) != set(move.after):  # the copies are still to be made
        start = substitute(live, set(move.after), move.adding)
        return ReplannedPartition(topic=topic, partition=p, live=live, start=start, state=MoveState.WAITING, move=move)
    return ReplannedPartition(topic=topic, partition=p, live=live, start=live, state=MoveState.OVERTAKEN, move=move)


def _moving_row(
    topic: Topic, p: Partition, move: Move | None, target: tuple[int, ...], alive: frozenset[int]
) -> ReplannedPartition:
    full = tuple(b for b in p.replicas if b not in p.adding)
    live = move.before if move is not None and set(move.before) == set(full) and move.before != target else full
    if move is not None and target == move.after:
        hangs = any(b not in alive for b in target if b not in live)
        state = MoveState.WAITING if hangs else MoveState.RUNNING
        return ReplannedPartition(
            topic=topic, partition=p, live=live, start=target, state=state, move=move,
            under_way=not hangs and live != target, hangs=hangs,
        )  # fmt: skip
    state = MoveState.CHANGED if move is None else MoveState.OVERTAKEN
    return ReplannedPartition(topic=topic, partition=p, live=live, start=target, state=state, move=move, under_way=True)


def drift_of(plan: Plan, snapshot: ClusterSnapshot, situation: Situation) -> tuple[str, ...]:
    """One sentence for each kind of change, the gravest first; empty when nothing has changed but for the moves."""
    return tuple(_drift(plan, snapshot, situation))


def _drift(plan: Plan, snapshot: ClusterSnapshot, situation: Situation) -> Iterator[str]:
    if situation.lost:
        yield f"of the plan's brokers {some(situation.lost)} are not alive"
    for broker, old, new in situation.regrouped:
        yield f"broker {broker} was in rack {old} and is in rack {new}"
    if situation.gone or situation.vanished:
        gone = counted(situation.vanished, "partition")
        yield f"{gone} of the plan are gone; {len(situation.gone)} of them were to be moved"
    hanging = [row for row in situation.rows if row.hangs]
    if hanging:
        yield f"{_named(hanging)}: the move runs towards a broker that is not alive, and cannot end"
    overtaken = situation.having(MoveState.OVERTAKEN)
    if overtaken:
        yield f"{_named(overtaken)}: changed by another process, though the plan was to move them"
    changed = situation.having(MoveState.CHANGED)
    if changed:
        yield f"{_named(changed)}: changed by another process; the plan was to leave them"
    added = situation.having(MoveState.NEW)
    if added:
        yield f"{_named(added)}: new since the plan"
    yield from _growth(situation)


def _growth(situation: Situation) -> Iterator[str]:
    pending = [row for row in situation.having(MoveState.WAITING, MoveState.RUNNING) if row.move is not None]
    then = [row.move.size_bytes for row in pending if row.move is not None]
    now = [row.size for row in pending]
    pairs = [(a, b) for a, b in zip(then, now, strict=True) if a is not None and b is not None]
    if len(pairs) < len(pending) or not pairs:
        return
    grown = sum(1 for a, b in pairs if a != b)
    if grown:
        before, after = sum(a for a, _ in pairs), sum(b for _, b in pairs)
        yield (
            f"{grown} of the {len(pairs)} partitions still to be moved have another size: one copy of each was "
            f"{format_bytes(before)} together and is {format_bytes(after)}"
        )


def _named(rows: list[ReplannedPartition]) -> str:
    return some(row.key for row in rows)
