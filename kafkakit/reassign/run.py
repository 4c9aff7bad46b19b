"""`reassign apply` and `reassign rollback`: observe, decide, act, verify, batch after batch.

Everything decided here comes from the pure modules; everything done to the cluster is in the journal
before it is done, so that a run cut at any point can be resumed or undone.
"""

from kafkakit.errors import InterruptedRunError, KafkakitError, OperationFailedError, RefusedError, TryLaterError
from kafkakit.ports import Clock, ClusterAdmin
from kafkakit.reassign.dir_work import DirWork, dir_words, dir_work
from kafkakit.reassign.goals import Goal, apply_goals, rollback_goals
from kafkakit.reassign.journal import What
from kafkakit.reassign.outcome import Direction, Outcome, Request, Voice
from kafkakit.reassign.precheck import (
    DROPPED,
    FOREIGN,
    Assessment,
    Live,
    MoveState,
    assess,
    listed,
    require_applicable,
    require_rights,
    require_same_cluster,
)
from kafkakit.reassign.progress import SETTLE_S, sources_told, without_source
from kafkakit.reassign.render import render_changes, stop_words
from kafkakit.reassign.service import Lookout, Patient
from kafkakit.reassign.space import require_space
from kafkakit.reassign.store_batches import Batches
from kafkakit.reassign.store_dirs import LogDirs
from kafkakit.reassign.store_journal import Journal
from kafkakit.reassign.store_leftovers import Leftovers
from kafkakit.reassign.store_moves import Moves
from kafkakit.reassign.store_throttle import Throttles
from kafkakit.reassign.verdict import judge, lacking, shortcomings, to_elect
from kafkakit.topicmappr.plan import Plan

STOP_PATIENCE_S = 3.0
_UNTOUCHED = frozenset({"already applied", "nothing to roll back", "planned", "declined"})


class Run:
    """One run of one plan in one direction; made for a single call of `apply` or `rollback`."""

    def __init__(
        self,
        plan: Plan,
        admin: ClusterAdmin,
        clock: Clock,
        journal: Journal,
        voice: Voice,
        request: Request,
        leftovers: Leftovers,
    ) -> None:
        self._plan, self._admin, self._clock = plan, admin, clock
        self._journal, self._voice, self._request = journal, voice, request
        self._leftovers = leftovers
        self._patient = Patient(clock, voice, request.patience_s)
        self._lookout = Lookout(admin, clock, self._patient)
        self._throttles = Throttles(admin, clock, journal, voice, self._patient)
        self._topics = {e.topic for e in plan.scope}
        self._moves = Moves(admin, clock, journal, self._patient, self._lookout)
        self._dirs = LogDirs(admin, clock, journal, voice, self._patient, stall_timeout_s=request.stall_timeout_s)
        self._batches = Batches(
            admin, clock, voice, self._patient, self._lookout, self._moves, self._throttles, self._dirs, request
        )
        self._problems = self._batches.problems
        self._owed: tuple[str, ...] = ()

    def apply(self) -> Outcome:
        """Carry the plan out; raises `RefusedError` before anything is changed, `InterruptedRunError` on a stop."""
        live, assessment, goals = self._decide_apply()
        inside = self._inside(live, Direction.APPLY)
        if not goals and not inside and not to_elect(assessment) and not self._journal.state.throttled:
            short = lacking(assessment)
            self._problems += shortcomings(tuple(v for v in short if v.state in DROPPED), live)
            for line in shortcomings(tuple(v for v in short if v.state not in DROPPED), live):
                self._voice.warn(line)
            self._settle_journal()
            return self._outcome(Direction.APPLY, "already applied", live, assessment)
        self._dirs.require_space(inside)
        return self._begin(Direction.APPLY, live, assessment, goals)

    def _decide_apply(self) -> tuple[Live, Assessment, tuple[Goal, ...]]:
        """Look, refuse what must not be done, and give what is left to do."""
        live, assessment = self._look(settle=True)
        require_same_cluster(self._plan, live.cluster_id, self._request.pinned_cluster_id)
        require_applicable(assessment, live, allow_drift=self._request.allow_drift)
        goals = self._lookout.sized(apply_goals(assessment), live)
        require_space(goals, self._lookout.dirs(goals, live))
        return live, assessment, goals

    def _inside(self, live: Live, direction: Direction) -> tuple[DirWork, ...]:
        """The moves between log dirs that are left to do."""
        return self._dirs.left(dir_work(self._plan, live, undone=direction is Direction.ROLLBACK))

    def rollback(self) -> Outcome:
        """Undo the plan: cancel what runs, then submit each partition's old list (a cancel loses its order)."""
        live, assessment = self._look(settle=True)
        require_same_cluster(self._plan, live.cluster_id, self._request.pinned_cluster_id)
        foreign = assessment.having(*FOREIGN)
        if foreign and not self._request.allow_drift:
            names = listed([str(s.move.key) for s in foreign])
            raise RefusedError(
                f"{len(foreign)} planned partitions were changed by somebody else: {names}",
                hint="undo the others with --allow-drift, which leaves these alone",
            )
        goals, stuck = rollback_goals(assessment, live)
        inside = self._inside(live, Direction.ROLLBACK)
        if not goals and not inside and not stuck and not self._journal.state.throttled:
            self._settle_journal()
            return self._outcome(Direction.ROLLBACK, "nothing to roll back", live, assessment)
        self._dirs.require_space(inside)
        goals = self._lookout.sized(goals, live)
        require_space(goals, self._lookout.dirs(goals, live))
        return self._begin(Direction.ROLLBACK, live, assessment, goals)

    def _settle_journal(self) -> None:
        """Close a run that was cut after its last effect."""
        if self._journal.state.unsettled and not self._request.dry_run:
            self._journal.check(What.END, {"verdict": "complete", "problems": self._problems, "owed": []})

    def _begin(self, direction: Direction, live: Live, assessment: Assessment, goals: tuple[Goal, ...]) -> Outcome:
        require_rights(live, throttled=self._rate() is not None or self._journal.state.throttled)
        self._leftovers.require_idle(live)
        for line in render_changes(self._plan, goals, direction, rate=self._rate(), live=live):
            self._voice.say(line)
        if inside := self._inside(live, direction):
            self._voice.say(dir_words(inside))
        if sourceless := without_source(goals, live):
            self._voice.warn(f"no live source, nothing can be copied: {sources_told(sourceless)}")
        if self._request.dry_run:
            return self._outcome(direction, "planned", live, assessment)
        if not self._request.confirm():
            return self._outcome(direction, "declined", live, assessment)
        if direction is Direction.APPLY:  # the answer may have taken a while
            live, assessment, goals = self._decide_apply()
        started = self._clock.monotonic()
        rate = self._rate()
        try:
            self._leftovers.lift(live, self._request.patience_s)
            self._journal.check(
                What.START, {"direction": direction.value, "plan_path": self._request.plan_path, "rate": rate}
            )
            verdict = self._carry(direction, goals, rate)
            live, assessment = self._finish(direction)
        except KeyboardInterrupt:
            raise self._interrupted(direction) from None
        except TryLaterError as error:
            raise TryLaterError(
                f"{error.message}; the run stopped and its throttles may still be set",
                hint=f"once the cluster answers: {self._request.commands.run(direction)}",
            ) from error
        except OperationFailedError as error:  # the journal cannot be written, say
            raise OperationFailedError(
                f"{error.message}; the run stopped, its moves may still run and its throttles may be set",
                hint=f"go on: {self._request.commands.run(direction)}",
            ) from error
        return self._outcome(direction, verdict, live, assessment, seconds=self._clock.monotonic() - started, rate=rate)

    def _rate(self) -> int | None:
        """The throttle of this run: what was asked for, else what an interrupted run has still set."""
        state = self._journal.state
        if self._request.throttle_off:
            return None
        return self._request.rate or (state.rate if state.unsettled else None)

    def _carry(self, direction: Direction, goals: tuple[Goal, ...], rate: int | None) -> str:
        """Do all batches; a fault that ends the run early becomes a problem, and what was set is still cleaned up."""
        done = "applied" if direction is Direction.APPLY else "rolled back"
        try:
            if direction is Direction.ROLLBACK:
                goals = self._cancel_running()
            if rate is None and self._journal.state.throttled:
                self._throttles.lift(self._lookout.live(self._topics))
            self._batches.carry(goals, direction.value, rate)
            self._elect(direction)
            self._problems += self._dirs.carry(self._inside(self._lookout.live(self._topics), direction))
        except OperationFailedError as error:
            self._problems.append(error.message)
            return "stopped"
        return done

    def _elect(self, direction: Direction) -> None:
        """Give leadership to the first replicas, where they are in sync."""
        undone = direction is Direction.ROLLBACK
        wanted = to_elect(self._look()[1], undone=undone)
        for key, error in sorted(self._moves.elect(wanted).items()):
            self._voice.warn(f"{key}: leader not elected: {error}")
        deadline = self._clock.monotonic() + SETTLE_S
        while to_elect(self._look()[1], undone=undone) and self._clock.monotonic() < deadline:
            self._clock.sleep(0.5)

    def _finish(self, direction: Direction) -> tuple[Live, Assessment]:
        """Lift what throttles are left, look at the result, and close the journal's run."""
        live, assessment = self._look()
        self._owed = self._throttles.lift(live)
        undone = direction is Direction.ROLLBACK
        deadline = self._clock.monotonic() + SETTLE_S
        while not self._problems and (short := lacking(assessment, undone=undone)):
            if self._clock.monotonic() > deadline or all(v.state in DROPPED for v in short):
                self._problems += shortcomings(short, live)
                break
            self._clock.sleep(0.5)
            live, assessment = self._look()
        moving = sum(s.running is not None for s in assessment.statuses)
        if moving:
            self._problems.append(f"moves that stay on the cluster and go on without a throttle: {moving}")
        verdict = "incomplete" if self._problems else "complete"
        self._journal.check(What.END, {"verdict": verdict, "problems": self._problems, "owed": list(self._owed)})
        return live, assessment

    def _interrupted(self, direction: Direction) -> InterruptedRunError:
        """Say what still runs after a stop; throttles stay while moves run, or else they come off now."""
        commands = self._request.commands
        resume = commands.run(direction)
        try:
            self._journal.reload()
            patient = Patient(self._clock, self._voice, STOP_PATIENCE_S)
            live = Lookout(self._admin, self._clock, patient).live(self._topics)
            moving = [s for s in assess(self._plan, live).statuses if s.running is not None]
            state = self._journal.state
            if not moving:
                owed = self._throttles.lift(live)
                left = f"still set: {'; '.join(owed)}" if owed else "no throttle is left"
                return InterruptedRunError(f"stopped; no move of the plan is running, {left}", hint=f"go on: {resume}")
        except (KafkakitError, KeyboardInterrupt) as error:
            why = error.message if isinstance(error, KafkakitError) else "stopped again before they were looked at"
            return InterruptedRunError(
                f"stopped; moves may still run on the cluster and throttles may be set ({why})",
                hint=f"go on: {resume}",
            )
        message, hint = stop_words(direction, len(moving), len(self._plan.moves), state, commands)
        return InterruptedRunError(message, hint=hint)

    def _cancel_running(self) -> tuple[Goal, ...]:
        """Cancel the plan's running moves; returns what is to be submitted then."""
        _, assessment = self._look()
        refused = self._moves.cancel([s.move.key for s in assessment.having(MoveState.TO_AFTER)])
        self._problems += [f"{key} cannot be cancelled now: {error}" for key, error in refused.items()]
        live, assessment = self._look(settle=True)
        goals, stuck = rollback_goals(assessment, live)
        goals = tuple(g for g in goals if g.key not in refused)
        for status in stuck:
            if status.move.key in refused:
                continue
            lost = [str(b) for b in status.move.before if b not in status.holders and not live.is_alive(b)]
            self._problems.append(
                f"{status.move.key} stays as it is: its old list needs a copy on broker {', '.join(lost)}, not alive"
            )
        return self._lookout.sized(goals, live)

    def _look(self, *, settle: bool = False) -> tuple[Live, Assessment]:
        """Observe and assess; `settle` looks again for a moment while lists seem changed (metadata may lag)."""
        state = self._journal.state
        for attempt in range(4):
            live = self._lookout.live(self._topics)
            assessment = assess(self._plan, live, cancelled_by_us=state.cancelled and bool(state.submitted))
            if not settle or attempt == 3 or not assessment.having(MoveState.DRIFTED):
                break
            self._clock.sleep(0.5)
        return live, assessment

    def _outcome(
        self,
        direction: Direction,
        verdict: str,
        live: Live,
        assessment: Assessment,
        *,
        seconds: float = 0.0,
        rate: int | None = None,
    ) -> Outcome:
        undone = direction is Direction.ROLLBACK
        problems = tuple(self._problems)
        commands = self._request.commands
        next_commands: tuple[str, ...] = ()
        if problems:
            next_commands = (commands.run(direction), commands.line("verify"), commands.run(Direction.ROLLBACK))
        elif self._owed:  # all is in place, only a throttle is left: nothing here may undo the moves
            next_commands = (commands.run(direction) if undone else commands.line("verify"),)
        return Outcome(
            direction=direction,
            verdict="incomplete" if problems and verdict not in _UNTOUCHED else verdict,
            partitions=judge(assessment, undone=undone),
            problems=problems,
            owed=self._owed,
            submitted=self._batches.submitted,
            copied_bytes=self._batches.copied_bytes,
            dirs_moved=self._dirs.moved,
            seconds=seconds,
            rate=rate,
            next_commands=tuple(dict.fromkeys(next_commands)),
        )
