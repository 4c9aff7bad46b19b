"""`reassign apply`, `rollback`, `resume` and `abort`: observe, decide, act, verify, in a rolling window.

Everything decided here comes from pure modules. Everything done to the cluster is in the journal before it is done,
so that a run cut at any point can be resumed or undone. `apply MAP` judges the map as `topicmappr audit` does; it
becomes a plan that is kept.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kafkakit.core.errors import (
    InputError,
    InterruptedRunError,
    KafkakitError,
    LeaseLostError,
    OperationFailedError,
    RefusedError,
    TryLaterError,
)
from kafkakit.core.model import TopicPartition
from kafkakit.core.plan import Plan, identity_of
from kafkakit.core.quantities import count_of
from kafkakit.core.rights import MOVE, THROTTLED
from kafkakit.core.text import sanitize, shell_command
from kafkakit.execution.act.control_requests import AbortRequestedError, ControlRequests, ReceivedRequests
from kafkakit.execution.act.journal_files import LineFile, pacer_lines
from kafkakit.execution.act.leases import ClusterAccess
from kafkakit.execution.act.moves import LogDirs
from kafkakit.execution.act.retrier import Retrier, RetryingReader, cordons_or_warning
from kafkakit.execution.act.run_journal import KnownRuns, RunJournal, keep_plan, plan_journal, plan_path
from kafkakit.execution.act.throttles import OtherRuns, find_lost, read_baseline, unaccounted_topics
from kafkakit.execution.decide.journal import JournalSubject, RunState
from kafkakit.execution.decide.plan_state import (
    DROPPED,
    FOREIGN,
    Assessment,
    DirWork,
    LiveState,
    MoveGoal,
    MoveState,
    dead_targets,
    dir_problems,
    dir_words,
    foreign_reassignments,
    halfway_work,
    incomplete_verdicts,
    judge,
    list_items,
    passed_over,
    require_alone,
    require_applicable,
    require_same_cluster,
    rollback_goals,
    shortcomings,
    to_elect,
)
from kafkakit.execution.decide.progress import SETTLE_S, sources_told, without_source
from kafkakit.execution.decide.runs import (
    UNACCOUNTED,
    Commands,
    Direction,
    RecoveredThrottles,
    Request,
    RunOutcome,
    lost_words,
    unaccounted_words,
)
from kafkakit.execution.decide.schedule.work import BrokerRates, is_unlimited, rates_to_data
from kafkakit.execution.decide.status_looks import KnownRun
from kafkakit.execution.decide.throttle import inside_rates, wanted_rates
from kafkakit.ports.acting import Clock, Reporter, looks, wait_until
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.stores import ControlStore
from kafkakit.reassign.act.rounds import RoundScheduler
from kafkakit.reassign.act.window import MoveWindow, ReassignParts, Undo, in_flight
from kafkakit.reassign.decide.foreign import ForeignSelection, map_selection
from kafkakit.reassign.report.run import render_changes, stop_words
from kafkakit.report.report import lines_of
from kafkakit.topicmappr.api import (
    MAP_DIGEST,
    MapAuditRequest,
    audit_map,
    audit_sections,
    digest_of,
    plan_of_map,
    read_map,
)
from kafkakit.topicmappr.api_act import ObservingSession, observe

STOP_TIMEOUT_S = 3.0
MAY_STILL_RUN = "moves may still run on the cluster and throttles may be set"
_UNTOUCHED = frozenset({"already applied", "nothing to roll back", "nothing to abort", "planned", "declined"})
_DONE = {Direction.APPLY: "applied", Direction.ROLLBACK: "rolled back", Direction.ABORT: "aborted"}


def prepare_run(plan: Plan, request: Request, access: ClusterAccess, state_dir: Path, reporter: Reporter) -> "Run":
    """A run of the plan with the journals of this host; it takes requests from the control store while it works."""
    journal, plans = plan_journal(plan, state_dir, access.clock)
    others: tuple[LineFile, ...] = plans
    if access.control is not None:
        others = (*plans, pacer_lines(access.control, access.cluster_id))
    leftovers = OtherRuns(others, access.admin, access.clock, reporter, request.commands)
    requests = ReceivedRequests(None, None, reporter)
    if access.control is not None:
        store = ControlRequests(access.control, access.clock, access.cluster_id)
        requests = ReceivedRequests(store, access.token, reporter)
    keep = partial(keep_plan, plan, state_dir)
    return Run(plan, access.admin, access.clock, journal, reporter, request, leftovers, requests, keep)


def warn_of_cordons(plan: Plan, store: ControlStore | None, warn: Callable[[str], object]) -> None:
    """Say which cordoned brokers a plan gives copies, as one that was made before `broker cordon` may do."""
    if store is None:
        return
    reasons = cordons_or_warning(lambda: store, plan.cluster_id, warn)
    copies = Counter(broker for move in plan.moves for broker in move.adding)
    for broker in sorted(reasons.keys() & copies.keys()):
        why = f" ({sanitize(reasons[broker])})" if reasons[broker] else ""
        given = count_of(copies[broker], "new copy", "new copies")
        warn(f"broker {broker} is cordoned{why}, and the plan gives it {given}: plan again if that is not wanted")


class Run:
    """One run of one plan in one direction; made for a single call.

    `keep_plan` is called once the journal has the run's start.
    """

    def __init__(
        self,
        plan: Plan,
        admin: ClusterAdmin,
        clock: Clock,
        journal: RunJournal,
        reporter: Reporter,
        request: Request,
        leftovers: OtherRuns,
        requests: ReceivedRequests | None = None,
        keep_plan: Callable[[], None] = lambda: None,
    ) -> None:
        self._plan, self._admin, self._clock = plan, admin, clock
        self._journal, self._reporter, self._request = journal, reporter, request
        self._leftovers, self._keep_plan = leftovers, keep_plan
        self._requests = requests or ReceivedRequests(None, None, reporter)
        parts = ReassignParts(plan, admin, clock, journal, reporter, request)
        self._throttles, self._dirs, self._plan_reader = parts.throttles, parts.dirs, parts.plan_reader
        self._problems, self._retrier, self._reader = parts.problems, parts.retrier, parts.reader
        self._window = MoveWindow(parts, self._requests)
        self._scheduler = RoundScheduler(parts, self._window, self._leftovers.link_bytes_per_s)
        self._undo = Undo(parts)
        self._owed: tuple[str, ...] = ()
        self._left_alone: frozenset[TopicPartition] = frozenset()
        self._was_lost = False  # the journal did not tell all that the plan's runs did
        self._direction = Direction.APPLY  # becomes an abort when a control request asks for that

    def carry_out(self, verb: str) -> RunOutcome:
        """One of `apply`, `rollback`, `resume` and `abort`."""
        return {"apply": self.apply, "rollback": self.rollback, "resume": self.resume, "abort": self.abort}[verb]()

    def apply(self) -> RunOutcome:
        """Carry the plan out; raises `RefusedError` before anything is changed, `InterruptedRunError` on a stop."""
        self._require_not_paused()
        live, assessment, goals, inside = self._decide(Direction.APPLY)
        if not goals and not inside and not to_elect(assessment) and not self._throttled:
            short = incomplete_verdicts(assessment, without_gone=True)
            self._problems += shortcomings(tuple(v for v in short if v.state in DROPPED), live)
            for line in shortcomings(tuple(v for v in short if v.state not in DROPPED), live):
                self._reporter.warn(line)
            self._settle_journal(Direction.APPLY)
            self._owed = self._unaccounted()
            return self._outcome(Direction.APPLY, "already applied", live, assessment)
        return self._begin(Direction.APPLY, live, assessment, goals, inside)

    def rollback(self) -> RunOutcome:
        """Undo the plan: cancel what runs, then submit each partition's old list (a cancel loses its order)."""
        if self._journal.state.direction == Direction.ROLLBACK:  # a paused apply may be undone
            self._require_not_paused()
        live, assessment, goals, inside = self._decide(Direction.ROLLBACK)
        _, impossible = rollback_goals(assessment, live)
        if not goals and not inside and not impossible and not self._throttled:
            self._leftovers.require_none_in_flight(live, Direction.ROLLBACK, self._request.retry_limit_s)
            self._settle_journal(Direction.ROLLBACK)
            self._owed = self._unaccounted()
            return self._outcome(Direction.ROLLBACK, "nothing to roll back", live, assessment)
        return self._begin(Direction.ROLLBACK, live, assessment, goals, inside)

    def resume(self) -> RunOutcome:
        """Resume the run that was begun last, in its direction; raises `RefusedError` when there is none."""
        state, commands = self._journal.state, self._request.commands
        if not state.runs and state.salvaged:
            lines = [commands.run(d) for d in (Direction.APPLY, Direction.ROLLBACK, Direction.ABORT)]
            raise RefusedError(
                f"what the run was doing is not known: {state.salvaged}",
                hint="\n".join(("carry the plan out, undo it, or end it:", *lines)),
            )
        if not state.runs:
            raise RefusedError(
                "no run of this plan was started on this host",
                hint=self._leftovers.unfinished("resume") or f"start one: {self._request.commands.line('apply')}",
            )
        if not state.unsettled and (state.direction != Direction.APPLY or not state.verdict):
            raise RefusedError(
                "the last run of this plan has ended, there is nothing to resume",
                hint=f"to carry it out again: {commands.run(Direction.APPLY)}",
            )
        if state.unsettled and state.direction == Direction.ABORT:
            raise RefusedError(
                "the last run was an abort",
                hint="finish it, or carry the plan out after all:\n"
                f"{self._request.commands.run(Direction.ABORT)}\n{self._request.commands.run(Direction.APPLY)}",
            )
        if state.unsettled and state.direction == Direction.ROLLBACK:
            return self.rollback()
        return self.apply()

    def abort(self) -> RunOutcome:
        """Cancel what is in flight, put the order of the cancelled lists back, and take the throttles away."""
        live, assessment = self._plan_reader.look(settle=True)
        require_same_cluster(self._plan, live.cluster_id, self._request.pinned_cluster_id)
        live, assessment = self._recover(live, assessment)
        running = in_flight(assessment)
        if not running and not self._throttled and not self._journal.state.unsettled:
            self._owed = self._unaccounted()
            self._leftovers.require_none_in_flight(live, Direction.ABORT, self._request.retry_limit_s)
            return self._outcome(Direction.ABORT, "nothing to abort", live, assessment)
        return self._begin(Direction.ABORT, live, assessment, (), ())

    def _decide(self, direction: Direction) -> tuple[LiveState, Assessment, tuple[MoveGoal, ...], tuple[DirWork, ...]]:
        """Look, refuse what must not be done, and give what is left to do."""
        live, assessment = self._plan_reader.look(settle=True)
        require_same_cluster(self._plan, live.cluster_id, self._request.pinned_cluster_id)
        others = bool(assessment.having(MoveState.DIVERTED))
        program, patience_s = self._request.commands.program, self._request.rules.stall_timeout_s
        if direction is Direction.APPLY and self._request.rules.wait_for_others:
            live, assessment = self._plan_reader.after_others(self._reporter, live, assessment, program, patience_s)
        live, assessment = self._recover(live, assessment, beside_others=others)
        if direction is Direction.APPLY:
            replan = self._request.commands.replan
            allowed = self._request.rules.allow_drift or self._is_done_but_for_deleted(live, assessment)
            require_applicable(assessment, live, allow_drift=allowed, program=program, replan=replan)
        elif foreign := assessment.having(*FOREIGN):
            names, commands = list_items([str(s.move.key) for s in foreign]), self._request.commands
            if not self._request.rules.allow_drift:
                raise RefusedError(
                    f"{len(foreign)} planned partitions were changed by another process: {names}",
                    hint=("" if self._journal.state.runs else self._leftovers.unfinished(direction.value))
                    or f"undo the others, and leave these as they are: {commands.run(direction, '--allow-drift')}",
                )
            self._left_alone = frozenset(s.move.key for s in foreign)
            self._reporter.warn(f"left as they are, changed by another process: {names}")
        return live, assessment, *self._plan_reader.left(direction, live, assessment)

    def _is_done_but_for_deleted(self, live: LiveState, assessment: Assessment) -> bool:
        """True when a run of the plan was begun and left nothing to do but for topics that were deleted since."""
        if not self._journal.state.runs or not assessment.having(MoveState.GONE):
            return False
        others = assessment.having(*(s for s in MoveState if s not in (MoveState.GONE, MoveState.AT_AFTER)))
        return not others and not any(self._plan_reader.left(Direction.APPLY, live, assessment))

    @property
    def _throttled(self) -> bool:
        """True when throttles of the plan's runs may be set."""
        return self._journal.state.throttled or self._plan_reader.recovered.throttled

    def _recover(
        self, live: LiveState, assessment: Assessment, *, beside_others: bool = False
    ) -> tuple[LiveState, Assessment]:
        """Where the journal is not whole, look on the cluster for what the plan's runs did, and judge with that.

        `beside_others`: another process moves, or moved, planned partitions, so that throttles on them may be its own.
        """
        state = self._journal.state
        is_lost = state.is_lost
        fresh = not state.runs and len(assessment.having(MoveState.AT_BEFORE)) == len(assessment.statuses)
        if not is_lost and (fresh or beside_others or (state.runs and state.baseline is None)):
            return live, assessment  # nothing tells of a run: entries that are there are not of one
        found = find_lost(self._admin, self._clock, self._retrier, self._plan, live, state, is_lost=is_lost)
        self._was_lost = is_lost or not state.runs or found.throttled
        self._plan_reader.recovered = found
        return live, self._plan_reader.assess(live)

    def _adopt(self) -> None:
        found = self._plan_reader.recovered
        if self._journal.state.salvaged or found.throttled or found.lists:
            self._journal.adopt(found, self._request.plan_path)
            self._plan_reader.recovered = RecoveredThrottles()

    def _unaccounted(self) -> tuple[str, ...]:
        """Throttles on the plan's replicas that are not the journal's: owed when that is not whole, else others'."""
        state = self._journal.state if self._was_lost else replace(self._journal.state, baseline=None)
        words = unaccounted_words(unaccounted_topics(self._admin, self._retrier, self._plan, state))
        if self._was_lost:
            return words
        for line in words:
            self._reporter.warn(f"{line}; if they are of a lost run: {self._request.commands.cleanup()}")
        return ()

    def _require_not_paused(self) -> None:
        state = self._journal.state
        if state.paused and state.unsettled:
            raise RefusedError(
                "the run of this plan is paused", hint=f"to continue it: {self._request.commands.line('continue')}"
            )

    def _settle_journal(self, direction: Direction) -> None:
        """Close a run that was cut after its last effect, or that left what is done by now."""
        if self._journal.state.unsettled and not self._request.dry_run:
            self._journal.check(JournalSubject.START, self._start_data(direction, BrokerRates()))
            verdict = "incomplete" if self._problems else "complete"
            self._journal.check(JournalSubject.END, {"verdict": verdict, "problems": self._problems, "owed": []})

    def _begin(
        self,
        direction: Direction,
        live: LiveState,
        assessment: Assessment,
        goals: tuple[MoveGoal, ...],
        inside: tuple[DirWork, ...],
    ) -> RunOutcome:
        rates = self._rates()
        self._announce(direction, live, goals, inside, rates)
        if self._request.dry_run:
            return self._outcome(direction, "planned", live, assessment)
        if not self._request.confirm():
            return self._outcome(direction, "declined", live, assessment)
        if direction is Direction.APPLY:  # the answer may have taken a while
            live, assessment, goals, inside = self._decide(direction)
            self._require_alone(live, goals, inside, rates)
        started, self._direction = self._clock.monotonic(), direction
        self._note_stop_words(direction)
        try:
            self._adopt()
            self._leftovers.lift(live, self._request.retry_limit_s)
            self._throttles.set_over(self._leftovers.kept(live))
            self._journal.check(JournalSubject.START, self._start_data(direction, rates) | self._baseline(live, rates))
            self._keep_plan()
            verdict = self._carry(direction, rates)
            direction = self._direction
            live, assessment = self._finish(direction)
            self._request.note_stop_words(None)
        except KeyboardInterrupt:
            raise self._interrupted(self._direction) from None
        except LeaseLostError as error:
            raise TryLaterError(
                f"{error.message}; this run stops here: its moves continue on the brokers, its throttles stay set",
                hint=f"to resume: {self._request.commands.run(self._direction)}",
            ) from error
        except TryLaterError as error:
            raise TryLaterError(
                f"{error.message}; the run stopped and its throttles may still be set",
                hint=f"once the cluster answers: {self._request.commands.run(self._direction)}",
            ) from error
        except KafkakitError as error:  # the journal cannot be written, say
            raise OperationFailedError(
                f"{error.message}; the run stopped, its moves may still run and its throttles may be set",
                hint=f"to resume: {self._request.commands.run(self._direction)}",
            ) from error
        return self._outcome(
            direction, verdict, live, assessment, seconds=self._clock.monotonic() - started, rates=self._window.rates
        )

    def _announce(
        self,
        direction: Direction,
        live: LiveState,
        goals: tuple[MoveGoal, ...],
        inside: tuple[DirWork, ...],
        rates: BrokerRates,
    ) -> None:
        """Say what is going to be done, in which order and how long it takes; refuse what cannot be done."""
        held = [*self._journal.state.entries, *self._plan_reader.recovered.entries]
        if is_unlimited(rates) and not self._throttled:
            self._reader.require_rights(MOVE, live)
        else:
            self._reader.require_rights(THROTTLED, live, {g.key.topic for g in goals} | {k.name for k in held})
        self._leftovers.require_idle(live, self._request.retry_limit_s)
        if direction is Direction.APPLY:
            self._require_alone(live, goals, inside, rates)
        for line in lost_words(self._journal.state, self._plan_reader.recovered):
            self._reporter.warn(line)
        for line in render_changes(self._plan, goals, direction, rates=rates, live=live):
            self._reporter.say(line)
        if inside:
            self._reporter.say(dir_words(inside))
        sourceless = without_source(goals, live)
        if sourceless:
            self._reporter.warn(f"no live source, nothing can be copied: {sources_told(sourceless)}")
        if goals or inside:
            self._scheduler.announce(tuple(g for g in goals if g.key not in sourceless), inside, live, rates)

    def _require_alone(
        self, live: LiveState, goals: tuple[MoveGoal, ...], inside: tuple[DirWork, ...], rates: BrokerRates
    ) -> None:
        """Refuse to begin beside others, unless that is wanted."""
        if self._request.rules.join:
            return
        wanted = wanted_rates(goals, rates) | inside_rates({w.replica.broker for w in inside}, rates)
        others = self._leftovers.rates(live, self._request.retry_limit_s) if wanted else ()
        found = self._throttles.foreign_rates(wanted, {*others, *self._plan_reader.recovered.rates})
        moving = foreign_reassignments(self._plan, live)
        require_alone(moving, found, self._request.commands.program, dead_targets(live, moving))

    def _start_data(self, direction: Direction, rates: BrokerRates) -> dict[str, object]:
        same = rates.into if rates.into == rates.out and not (rates.into_of or rates.out_of) else None
        return {
            "direction": direction.value,
            "plan_path": self._request.plan_path,
            "rate": same,
            "rates": None if is_unlimited(rates) else rates_to_data(rates),
            "token": self._requests.token,
            **({"operation": self._request.commands.operation} if self._request.commands.operation else {}),
        }

    def _baseline(self, live: LiveState, rates: BrokerRates) -> dict[str, object]:
        """For the first of runs that belong together: what others have set, so that it is never taken for the run's."""
        if self._journal.state.unsettled:
            return {}
        throttled = not is_unlimited(rates)
        return {"baseline": read_baseline(self._admin, self._retrier, self._plan, live, throttled=throttled)}

    def _rates(self) -> BrokerRates:
        """The throttle of this run: what is asked for, laid over what an interrupted run has still set."""
        state = self._journal.state
        kept = state.wanted if state.unsettled else None
        return self._request.rates.over(kept or self._plan_reader.recovered.wanted or BrokerRates())

    def _carry(self, direction: Direction, rates: BrokerRates) -> str:
        """Do it; a fault that ends the run early becomes a problem, and what was set is still cleaned up."""
        try:
            kept = self._undo.cancel_running(direction)
            if is_unlimited(rates) and self._journal.state.throttled:
                self._throttles.lift(self._plan_reader.live())
            if direction is not Direction.ABORT:
                self._scheduler.rounds(direction, rates, kept)
                self._elect(direction)
        except AbortRequestedError:
            return self._abort_now(direction, rates)
        except OperationFailedError as error:
            self._problems.append(error.message)
            return "stopped"
        return _DONE[direction]

    def _abort_now(self, direction: Direction, rates: BrokerRates) -> str:
        """Somebody asked the run to end: from here on it is an abort."""
        self._reporter.warn(f"the {direction.value} is aborted on request")
        self._direction = Direction.ABORT
        self._note_stop_words(Direction.ABORT)
        self._journal.check(JournalSubject.START, self._start_data(Direction.ABORT, rates))
        try:
            self._undo.cancel_running(Direction.ABORT)
        except OperationFailedError as error:
            self._problems.append(error.message)
        self._problems.append(f"the {direction.value} was aborted on request")
        return _DONE[Direction.ABORT]

    def _elect(self, direction: Direction) -> None:
        """Give leadership to the first replicas, where they are in sync."""
        undone = direction is Direction.ROLLBACK
        self._undo.elect(to_elect(self._plan_reader.look()[1], undone=undone))
        wait_until(self._clock, SETTLE_S, lambda: not to_elect(self._plan_reader.look()[1], undone=undone))

    def _finish(self, direction: Direction) -> tuple[LiveState, Assessment]:
        """Lift what throttles are left, look at the result, and close the journal's run."""
        live, assessment = self._plan_reader.look()
        self._owed = (*self._throttles.lift(live), *self._unaccounted())
        undone = direction is Direction.ROLLBACK
        is_judged = direction is not Direction.ABORT and not self._problems
        for is_last in looks(self._clock, SETTLE_S) if is_judged else ():
            live, assessment = self._plan_reader.look()
            found = incomplete_verdicts(assessment, undone=undone, without_gone=True)
            short = tuple(v for v in found if v.key not in self._left_alone)
            if not short:
                break
            if is_last or all(v.state in DROPPED for v in short):
                self._problems += shortcomings(short, live)
                break
        if not self._problems and direction is not Direction.ABORT:
            self._problems += dir_problems(self._dirs.look(self._plan_reader.inside(direction, live)))
        moving = len(in_flight(assessment)) + len(self._dirs.on_the_way(self._journal.state.dirs_sent, live))
        if moving:
            self._problems.append(f"moves that stay on the cluster and continue without a throttle: {moving}")
        between = assessment.having(MoveState.BETWEEN) if direction is Direction.ABORT else ()
        if between:
            names = list_items([str(s.move.key) for s in between])
            self._reporter.warn(f"left between their old and new lists, complete and in sync: {names}")
        inside = self._plan_reader.inside(direction, live) if direction is Direction.ABORT else ()
        halfway_in = halfway_work(inside, self._dirs.read(inside))
        if halfway_in:
            names = list_items([f"{w.key} on broker {w.replica.broker}" for w in halfway_in])
            self._reporter.warn(f"left in a log dir between their old and new ones: {names}")
        verdict = "incomplete" if self._problems or between or halfway_in else "complete"
        measured = self._scheduler.measured_bytes_per_s
        self._journal.check(
            JournalSubject.END,
            {"verdict": verdict, "problems": self._problems, "owed": list(self._owed)}
            | ({"link_bytes_per_s": round(measured)} if measured else {}),
        )
        return live, assessment

    def _note_stop_words(self, direction: Direction) -> None:
        resume = self._request.commands.run(direction)
        self._request.note_stop_words((f"stopped; {MAY_STILL_RUN}", f"to resume: {resume}"))

    def _interrupted(self, direction: Direction) -> InterruptedRunError:
        """Say what still runs after a stop; throttles stay while moves run, or else they come off now."""
        commands = self._request.commands
        resume = commands.run(direction)
        try:
            self._journal.reload()
            retrier = Retrier(self._clock, self._reporter, STOP_TIMEOUT_S)
            live = RetryingReader(self._admin, self._clock, retrier).live({e.topic for e in self._plan.scope})
            state = self._journal.state
            inside = LogDirs(self._admin, self._journal, self._reporter, retrier).on_the_way(state.dirs_sent, live)
            moving = len(in_flight(self._plan_reader.assess(live))) + len(inside)
            if not moving:
                owed = self._throttles.lift(live)
                left = f"still set: {'; '.join(owed)}" if owed else "no throttle is left"
                return InterruptedRunError(
                    f"stopped; no move of the plan is running, {left}", hint=f"to resume: {resume}"
                )
        except (KafkakitError, KeyboardInterrupt) as error:
            why = error.message if isinstance(error, KafkakitError) else "stopped again before they were looked at"
            return InterruptedRunError(
                f"stopped; {MAY_STILL_RUN} ({why})",
                hint=f"to resume: {resume}",
            )
        planned = len(self._plan.moves) + len(self._plan.dir_moves)
        message, hint = stop_words(direction, moving, planned, state, commands)
        return InterruptedRunError(message, hint=hint)

    def _outcome(
        self,
        direction: Direction,
        verdict: str,
        live: LiveState,
        assessment: Assessment,
        *,
        seconds: float = 0.0,
        rates: BrokerRates | None = None,
    ) -> RunOutcome:
        undone = direction is Direction.ROLLBACK
        problems = tuple(self._problems)
        commands = self._request.commands
        next_commands: tuple[str, ...] = ()
        if any(o.startswith(UNACCOUNTED) for o in self._owed) and not problems:
            next_commands = (commands.cleanup(),)
        elif direction is Direction.ABORT:
            again = (commands.run(Direction.ABORT),) if problems or self._owed else ()
            next_commands = (*again, commands.run(Direction.APPLY), commands.run(Direction.ROLLBACK))
        elif problems and self._left_for_good(direction, assessment):
            close = str(shell_command("reassign close", program=commands.program, run=self._journal.state.run_id))
            next_commands = (commands.replan,) if commands.replan else (close,) if self._journal.state.unsettled else ()
        elif problems:
            next_commands = (commands.run(direction), commands.line("verify"), commands.run(Direction.ROLLBACK))
        elif self._owed:  # all is in place, only a throttle is left: nothing here may undo the moves
            next_commands = (commands.run(direction) if undone else commands.line("verify"),)
        elif self._journal.state.operation and not commands.operation and verdict not in ("planned", "declined"):
            next_commands = (self._journal.state.operation,)  # the plan is done, the rest of its operation is not
        return RunOutcome(
            direction=direction,
            verdict="incomplete" if problems and verdict not in _UNTOUCHED else verdict,
            partitions=judge(assessment, undone=undone),
            problems=problems,
            owed=self._owed,
            submitted=self._window.submitted,
            copied_bytes=self._window.copied_bytes,
            dirs_moved=self._window.dirs_moved,
            seconds=seconds,
            rates=rates,
            promise=self._journal.state.promise if seconds else None,
            next_commands=tuple(dict.fromkeys(next_commands)),
            notes=passed_over(assessment),
        )

    def _left_for_good(self, direction: Direction, assessment: Assessment) -> bool:
        """True when no run of the plan can do what is left: the topics are others by now."""
        short = incomplete_verdicts(assessment, undone=direction is Direction.ROLLBACK, without_gone=True)
        return bool(short) and all(v.state in DROPPED for v in short)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPlan:
    """The plan of a map, and the file that its run keeps it in; `announce` names that, where the plan is new."""

    plan: Plan
    path: str
    announce: Callable[[Commands], None] | None = None

    def announced_by(self, request: Request) -> Request:
        """The request, such that the file is named once the run is confirmed."""
        announce, confirm = self.announce, request.confirm
        if announce is None:
            return request

        def confirm_and_announce() -> bool:
            confirmed = confirm()
            if confirmed:
                announce(request.commands)
            return confirmed

        return replace(request, confirm=confirm_and_announce)


def take_map(
    data: bytes,
    source: str,
    session: ObservingSession,
    state_dir: Path,
    reporter: Reporter,
    *,
    allow_findings: bool,
    program: str = "kafkakit",
) -> MapPlan:
    """The plan of a map for the live cluster, or that of its unfinished run, so that applying it again resumes.

    Prints the audit, without plans to compare with; its commands are called by `program`. Raises `InputError` for a
    file that is no map and what `plan_of_map` does. Cost: one snapshot of the cluster with sizes.
    """
    reading = read_map(data, source)
    snapshot = observe(session, None)
    digest = digest_of(reading)
    for plan, state in _unfinished_of(digest, KnownRuns(state_dir, snapshot.cluster_id).read()):
        reporter.say(f"a run of this map is unfinished, its plan is {state.plan_path}")
        return MapPlan(plan=plan, path=state.plan_path)
    audit = audit_map(snapshot, reading, MapAuditRequest(compared=False, program=program))
    for line in lines_of(audit_sections(audit, source)):
        reporter.say(line)
    words = {"command": "reassign apply", "map": source, MAP_DIGEST: digest}
    named = "" if source == "stdin" else source
    plan = plan_of_map(snapshot, reading, audit, words, allow_findings=allow_findings, map_file=named)
    path = plan_path(state_dir, plan.cluster_id, identity_of(plan))

    def announce(commands: Commands) -> None:
        reporter.say(f"the map's plan is {path}; to take it back: {commands.line('rollback')}")

    return MapPlan(plan=plan, path=str(path), announce=announce)


def _unfinished_of(digest: str, runs: Sequence[KnownRun]) -> Iterator[tuple[Plan, RunState]]:
    for run in runs:
        if run.state.unsettled and run.plan is not None and run.plan.request.get(MAP_DIGEST) == digest:
            yield run.plan, run.state


def select_by_map(
    data: bytes, source: str, name: str, runs: Sequence[KnownRun]
) -> tuple[ForeignSelection, RunState | None]:
    """The partitions of a map, and the unfinished run of exactly this map, None if there is none.

    `name` is how a command line names the file. Raises `InputError` for a map with an entry that cannot be read.
    """
    reading = read_map(data, source)
    if reading.unread:
        raise InputError(source, reading.unread[0])
    entries = [(entry.key, entry.replicas) for entry in reading.entries]
    state = next((state for _, state in _unfinished_of(digest_of(reading), runs)), None)
    return map_selection(entries, name), state
