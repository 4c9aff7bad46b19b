"""How a plan stands on its cluster, seen with the journal's knowledge of what we sent."""

from kafkakit.core.plan import Plan
from kafkakit.execution.act.log_dir_moves import LogDirs
from kafkakit.execution.act.retrier import ClusterReader
from kafkakit.execution.act.run_journal import RunJournal
from kafkakit.execution.decide.goals import Goal, apply_goals, rollback_goals
from kafkakit.execution.decide.log_dir_moves import DirWork, dir_work
from kafkakit.execution.decide.outcome import Direction
from kafkakit.execution.decide.precheck import Assessment, Live, MoveState, assess, listed, strangers
from kafkakit.execution.decide.recovery import Recovered
from kafkakit.ports.clock import Clock
from kafkakit.ports.reporter import Reporter

OTHERS_LOOK_S = 2.0
LOOKS = 4


class PlanReader:
    """Looks at one plan's partitions; `recovered` is what was found of a run whose journal is not whole."""

    def __init__(self, plan: Plan, clock: Clock, reader: ClusterReader, dirs: LogDirs, journal: RunJournal) -> None:
        self._plan, self._clock, self._reader, self._dirs, self._journal = plan, clock, reader, dirs, journal
        self._topics = {e.topic for e in plan.scope}
        self.recovered = Recovered()

    def live(self) -> Live:
        """The cluster with all topics of the plan."""
        return self._reader.live(self._topics)

    def assess(self, live: Live) -> Assessment:
        """Where each move stands."""
        state, lost = self._journal.state, self.recovered
        trail = state.trail if not lost.lists else {**state.trail, **{k: (v,) for k, v in lost.lists.items()}}
        cancelled = (state.cancelled and bool(state.submitted)) or state.is_lost or lost.throttled
        return assess(self._plan, live, trail=trail, cancelled_by_us=cancelled)

    def look(self, *, settle: bool = False) -> tuple[Live, Assessment]:
        """Observe and assess; `settle` looks again for a moment while lists seem changed (metadata may lag)."""
        for attempt in range(LOOKS):
            live = self.live()
            assessment = self.assess(live)
            if not settle or attempt == LOOKS - 1 or not assessment.having(MoveState.DRIFTED):
                break
            self._clock.sleep(0.5)
        return live, assessment

    def left(
        self, direction: Direction, live: Live, assessment: Assessment
    ) -> tuple[tuple[Goal, ...], tuple[DirWork, ...]]:
        """What the run still has to do: lists to reach, with their live sizes, and copies that change their dir."""
        undone = direction is Direction.ROLLBACK
        goals = rollback_goals(assessment, live)[0] if undone else apply_goals(assessment)
        return self._reader.sized(goals, live), self._dirs.left(self.inside(direction, live))

    def inside(self, direction: Direction, live: Live) -> tuple[DirWork, ...]:
        """The copies that change their log dir inside a broker, done or not."""
        undone = direction is Direction.ROLLBACK
        return dir_work(self._plan, live, undone=undone, sent=self._journal.state.dirs_sent)

    def after_others(self, reporter: Reporter, live: Live, assessment: Assessment) -> tuple[Live, Assessment]:
        """Wait until no other process moves partitions; returns the last look."""
        announced = False
        while others := (*(s.move.key for s in assessment.having(MoveState.DIVERTED)), *strangers(self._plan, live)):
            if not announced:
                names = listed([str(key) for key in others])
                what = "planned partitions" if assessment.having(MoveState.DIVERTED) else "partitions"
                reporter.warn(f"another process moves {what}, waiting for the end of it: {names}")
                announced = True
            self._clock.sleep(OTHERS_LOOK_S)
            live, assessment = self.look(settle=True)
        return live, assessment
