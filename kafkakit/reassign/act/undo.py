"""Taking back what is in flight: cancels, and the order of lists that Kafka loses by them."""

from collections.abc import Sequence

from kafkakit.core.model import TopicPartition
from kafkakit.execution.act.retrier import wait_until
from kafkakit.execution.decide.goals import reorder_goals, rollback_goals
from kafkakit.execution.decide.outcome import Direction
from kafkakit.execution.decide.precheck import Assessment, Live, MoveState, MoveStatus
from kafkakit.execution.decide.progress import SETTLE_S
from kafkakit.execution.decide.verdict import wants_election
from kafkakit.reassign.act.parts import RunParts

ELECT_GROUP = 50


class Undo:
    """Cancels a plan's moves; those that do not let themselves be cancelled become problems."""

    def __init__(self, parts: RunParts) -> None:
        self._clock, self._journal, self._reporter = parts.clock, parts.journal, parts.reporter
        self._problems, self._reader, self._moves = parts.problems, parts.reader, parts.moves
        self._dirs, self._plan_reader = parts.dirs, parts.plan_reader

    def cancel_running(self, direction: Direction) -> frozenset[TopicPartition]:
        """Cancel what the plan has in flight; an abort then puts the order back that Kafka lost by it.

        Returns what could not be cancelled.
        """
        live, assessment = self._plan_reader.look()
        self._keep_in_dirs(direction, live)
        keys = [s.move.key for s in to_cancel(assessment, direction)]
        if not keys and direction is Direction.APPLY:
            return frozenset()
        refused = self._moves.cancel(keys)
        self._problems += [f"{key} cannot be cancelled now: {error}" for key, error in refused.items()]
        live, assessment = self._plan_reader.look(settle=True)
        if direction is Direction.ABORT:
            self._put_back(assessment)
        if direction is not Direction.ROLLBACK:
            return frozenset(refused)
        _, impossible = rollback_goals(assessment, live)
        for status in impossible:
            if status.move.key not in refused:
                lost = [str(b) for b in status.move.before if b not in status.holders and not live.is_alive(b)]
                self._problems.append(
                    f"{status.move.key} stays as it is: its old list needs a copy on broker {', '.join(lost)}, "
                    "not alive"
                )
        return frozenset(refused)

    def _keep_in_dirs(self, direction: Direction, live: Live) -> None:
        """Cancel moves inside brokers: an abort all of ours, others those of copies that are where they belong."""
        moving = self._dirs.on_the_way(self._journal.state.dirs_sent, live)
        if direction is not Direction.ABORT:
            wanted = {w.replica: w.target for w in self._plan_reader.inside(direction, live)}
            moving = {r: path for r, path in moving.items() if wanted.get(r) == path}
        if not moving:
            return
        for replica, error in sorted(self._dirs.stay(moving).items()):
            name = f"{replica.topic}-{replica.partition} on broker {replica.broker}"
            self._problems.append(f"the move of {name} to another log dir cannot be cancelled now: {error}")
        sent = self._journal.state.dirs_sent
        wait_until(self._clock, SETTLE_S, lambda: moving.keys().isdisjoint(self._dirs.on_the_way(sent, live)))

    def _put_back(self, assessment: Assessment) -> None:
        """Submit the recorded lists of partitions whose order a cancel of ours lost; no data moves."""
        goals = reorder_goals(assessment, self._journal.state.trail)
        if not goals:
            return
        refused = self._moves.submit(goals)
        self._problems += [f"{key}: its order could not be put back: {error}" for key, error in sorted(refused.items())]
        wanted = {g.key: g.target for g in goals if g.key not in refused}

        def is_back() -> bool:
            states = self._reader.live({k.topic for k in wanted}).states
            return all(states[k].replicas == target for k, target in wanted.items() if k in states)

        wait_until(self._clock, SETTLE_S, is_back)
        statuses = self._plan_reader.look()[1].statuses
        self.elect([s.move.key for s in statuses if s.move.key in wanted and s.live and wants_election(s.live)])

    def elect(self, keys: Sequence[TopicPartition]) -> None:
        """Give leadership to first replicas, in groups, so that load moves slowly."""
        for start in range(0, len(keys), ELECT_GROUP):
            if start:
                self._clock.sleep(0.5)
            for key, error in sorted(self._moves.elect(keys[start : start + ELECT_GROUP]).items()):
                self._reporter.warn(f"{key}: leader not elected: {error}")


def in_flight(assessment: Assessment) -> tuple[MoveStatus, ...]:
    """The plan's partitions that move now, whichever process requested it."""
    return tuple(s for s in assessment.statuses if s.running is not None)


def to_cancel(assessment: Assessment, direction: Direction) -> tuple[MoveStatus, ...]:
    """What is in flight and goes the wrong way: an abort stops everything, others let what they would send be."""
    if direction is Direction.APPLY:
        return assessment.having(MoveState.TO_BEFORE)
    there = (MoveState.TO_AFTER, MoveState.TO_BETWEEN)
    return assessment.having(*there, *((MoveState.TO_BEFORE,) if direction is Direction.ABORT else ()))
