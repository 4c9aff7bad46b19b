"""From states to goals: what is left to do for each partition of a plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.precheck import Assessment, Live, MoveState, MoveStatus, Trail

# Values above 32,767 bytes close the connection; stay clear of that.
LIST_LIMIT = 32_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
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


def apply_goals(assessment: Assessment) -> tuple[Goal, ...]:
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


def rollback_goals(assessment: Assessment, live: Live) -> tuple[tuple[Goal, ...], tuple[MoveStatus, ...]]:
    """What undoing the plan has to do, and the moves that cannot be undone now.

    A move that would need a copy on a broker that is not alive is left as it is.
    """
    goals: list[Goal] = []
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


def reorder_goals(assessment: Assessment, trail: Trail) -> tuple[Goal, ...]:
    """Partitions that have the brokers of a list we know in another order, with that list: no copy is made."""
    goals = []
    for status in assessment.having(MoveState.SHUFFLED):
        move = status.move
        known = (move.before, move.after, *trail.get(move.key, ()))
        target = next(found for found in known if set(found) == set(status.holders))
        goals.append(Goal(key=move.key, target=target, holders=status.holders, topic_id=move.topic_id))
    return tuple(goals)


def _goal(status: MoveStatus, target: tuple[int, ...], *, running: bool) -> Goal:
    move = status.move
    return Goal(
        key=move.key,
        target=target,
        holders=status.holders,
        running=running,
        size_bytes=move.size_bytes,
        topic_id=move.topic_id,
        dirs=move.dirs if target == move.after else {},
        via=status.running.target if status.running and status.state is MoveState.TO_BETWEEN else None,
    )
