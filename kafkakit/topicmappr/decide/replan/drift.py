"""What changed since a plan was made, in words."""

from collections.abc import Iterator

from kafkakit.core.lists_in_words import some
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan import Plan
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.topicmappr.decide.replan.situation import MoveState, ReplannedPartition, Situation


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
