"""From states to goals, and from goals to batches under Kafka's limits."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kafkakit.model import TopicPartition
from kafkakit.reassign.precheck import Assessment, Live, MoveState, MoveStatus, Trail

DEFAULT_BATCH = 500
MAX_BATCH = 10_000  # Kafka answers UnknownError for each change above this in one request
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

    @property
    def leader_entries(self) -> tuple[str, ...]:
        """Source side of the throttle: every full copy may lead, and so serve, before the move is done."""
        return tuple(f"{self.key.partition}:{b}" for b in self.holders) if self.adding else ()

    @property
    def follower_entries(self) -> tuple[str, ...]:
        """Destination side of the throttle."""
        return tuple(f"{self.key.partition}:{b}" for b in self.adding)


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
    stuck: list[MoveStatus] = []
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
            stuck.append(status)
    return tuple(goals), tuple(stuck)


def reorder_goals(assessment: Assessment, trail: Trail) -> tuple[Goal, ...]:
    """Partitions that have the brokers of a list we know in another order, with that list: no copy is made."""
    goals = []
    for status in assessment.having(MoveState.SHUFFLED):
        move = status.move
        known = (move.before, move.after, *trail.get(move.key, ()))
        target = next(found for found in known if set(found) == set(status.holders))
        goals.append(Goal(key=move.key, target=target, holders=status.holders, topic_id=move.topic_id))
    return tuple(goals)


def batches(
    goals: Sequence[Goal], size: int, taken: Mapping[tuple[str, str], int], keys: tuple[str, str]
) -> Iterator[tuple[Goal, ...]]:
    """Cut goals into batches, those already running first.

    A batch has at most `size` partitions, and each topic's throttle lists (names in `keys`: leader's,
    follower's) stay under `LIST_LIMIT` bytes with the `taken` bytes that others have there. A single
    partition that does not fit is given alone: setting its throttle will then say why it fails.
    """
    batch: list[Goal] = []
    used = dict(taken)
    for goal in sorted(goals, key=lambda g: (not g.running, g.key)):
        need = {
            (goal.key.topic, keys[0]): _length(goal.leader_entries),
            (goal.key.topic, keys[1]): _length(goal.follower_entries),
        }
        full = any(used.get(where, 0) + more > LIST_LIMIT for where, more in need.items())
        if batch and (len(batch) >= size or full):
            yield tuple(batch)
            batch, used = [], dict(taken)
        batch.append(goal)
        for where, more in need.items():
            used[where] = used.get(where, 0) + more
    if batch:
        yield tuple(batch)


def _length(entries: tuple[str, ...]) -> int:
    return sum(len(e) + 1 for e in entries)


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
