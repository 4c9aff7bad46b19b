"""`broker drain`, `replace`, `decommission`, `rejoin`: plan, show, carry out, verify, as one operation that can be cut.

Plans are carried out by `reassign`, under its lease; its journals remember every effect. The operation's record says
which plan is the next; whatever is not begun yet is planned again from the cluster as it is. `rejoin` waits for a
broker and its copies, takes an operation back if asked, and gives leaderships back slowly.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from kafkakit.broker.act.operation_files import Elections, Records, Unregister, without_leaving
from kafkakit.broker.decide.operation import (
    ROLES,
    SETTING_KEYS,
    BrokerOperation,
    BrokerOperationKind,
    Holdings,
    OperationPlan,
    OperationPlanKind,
    OperationPlanState,
    Safety,
    Stage,
    holdings_of,
    judge_safety,
    to_unregister,
    voters_among,
    with_votes,
)
from kafkakit.broker.decide.plans import (
    MoveRequest,
    OperationCommands,
    OperationPlans,
    PlanRunner,
    RejoinRequest,
    decide_operation,
    find_stuck_leaders,
    stuck_leaders_text,
)
from kafkakit.broker.report import BrokerOutcome, PlanSummary
from kafkakit.core.columns import without_collector
from kafkakit.core.errors import InfeasibleError, OperationFailedError, RefusedError, TryLaterError, UsageError
from kafkakit.core.model import BrokerState, ClusterSnapshot, TopicPartition
from kafkakit.core.plan import Plan, identity_of
from kafkakit.core.quantities import count_of
from kafkakit.core.text import few_of, quote
from kafkakit.execution.act.journal_files import DiskFile
from kafkakit.execution.act.leases import ClusterAccess
from kafkakit.execution.act.retrier import Retrier
from kafkakit.execution.act.run_journal import journal_path, read_run_state
from kafkakit.execution.decide.journal import COMPLETE, RunState
from kafkakit.execution.decide.runs import Direction, Request, RunOutcome
from kafkakit.execution.decide.schedule.work import RateRequest, read_request
from kafkakit.ports.acting import Clock, ProgressBar, Reporter, looks, repeat_every
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.reassign.api_act import prepare_run
from kafkakit.topicmappr.api import planned_change_text

SETTLE_S = 15.0


class MoveOff:
    """One command that empties brokers; made for a single call. `admin` is only read from.

    A plan is made inside `planning`, which may end the process: nothing is begun then, or a record knows what is.
    """

    def __init__(
        self,
        admin: ClusterAdmin,
        clock: Clock,
        reporter: Reporter,
        records: Records,
        plans: PlanRunner,
        elections: Elections,
        request: MoveRequest,
        unregister: Unregister | None = None,
        planning: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._admin, self._clock, self._reporter, self._records = admin, clock, reporter, records
        self._plans, self._elections, self._request = plans, elections, request
        self._unregister, self._planning = unregister, planning
        self._retrier = Retrier(clock, reporter, request.retry_limit_s)
        self._brokers = request.goal.brokers
        self._leaders_only = request.kind is BrokerOperationKind.LEADERS
        self._sum = BrokerOutcome(command=request.kind.value, verdict="")
        self._owed: list[str] = []

    def run(self) -> BrokerOutcome:
        """Begin the operation, or continue with the one on record.

        Raises `RefusedError` and `InfeasibleError` before anything is changed, and what `reassign.act.Run` raises.
        """
        goal = self._request.goal
        found = self._records.newest(self._request.kind, self._brokers, goal.onto)
        for path in self._records.others_open(found, self._brokers):
            self._reporter.warn(f"another operation on these brokers is not finished: {path}")
        if found is not None and found.stage is Stage.UNDOING:
            found = self._given_up(found)
        if found is not None and self._leaders_only and found.stage is Stage.DONE:
            return self._plan(found)  # what leads again is added, so that one record takes all of it back
        if found is None or not found.is_open:
            return self._plan(None, earlier=found)
        return self._go_on(found)

    def _go_on(self, found: BrokerOperation) -> BrokerOutcome:
        found = self._with_ended(replace(found, rejoined=()))  # from here on it is emptied again
        place = found.next_leg
        if place is None:
            self._reporter.say(f"all plans of {self._records.path_of(found)} are carried out; checking the result")
            return self._plan(found)
        leg = found.legs[place]
        if not self._plans.begun(leg):
            return self._plan(found)
        self._reporter.say(
            f"resuming {self._records.path_of(found)}: plan {place + 1} of {len(found.legs)}, {leg.kind}"
        )
        if not found.has_same_words(self._request.goal.words) and not self._request.goal.replan:
            self._reporter.warn("its plan was made with other options; --replan makes a new one from here")
        if self._request.goal.replan:
            return self._replan(found, place)
        if self._request.dry_run or self._request.asks:  # without a question the run itself prints it
            foreseen = self._plans.run(found, leg, Direction.APPLY, dry_run=True)
            if self._request.dry_run:
                return self._told("planned", found)
            if foreseen.verdict != "already applied" and not self._confirmed():
                return self._told("declined", found)
        return self._carry(found)

    def _given_up(self, found: BrokerOperation) -> BrokerOperation:
        """The operation whose undo was begun, left as it is with --replan: a broker that died cannot be waited for."""
        if not self._request.goal.replan:
            again = f"{self._request.again} --replan"
            raise RefusedError(
                f"the {found.kind} on record is being undone",
                hint=f"finish that, or leave it as it is and plan anew:\n{self._request.undo_of(found)}\n{again}",
            )
        place, undone = found.last_to_undo, replace(found, stage=Stage.UNDONE)
        if self._request.dry_run:
            return undone
        if place is not None and self._plans.begun(found.legs[place]):
            self._owed += self._plans.run(found, found.legs[place], Direction.ABORT).owed
        return self._records.save(undone)

    def _with_ended(self, found: BrokerOperation) -> BrokerOperation:
        """The record with the plans as done that `reassign resume` finished."""
        for place, leg in enumerate(found.legs):
            if leg.state is OperationPlanState.OPEN and self._plans.ended(leg, Direction.APPLY):
                found = found.with_leg(place, OperationPlanState.DONE)
        return found

    def _replan(self, found: BrokerOperation, place: int) -> BrokerOutcome:
        """Cancel what the present plan has in flight, and plan the rest again."""
        leg = found.legs[place]
        if self._request.dry_run:
            self._plans.run(found, leg, Direction.ABORT, dry_run=True)
            return self._told("planned", found)
        if not self._confirmed():
            return self._told("declined", found)
        ended = self._plans.run(found, leg, Direction.ABORT)
        self._owed += ended.owed
        if ended.problems:
            return self._told("incomplete", found, problems=ended.problems)
        return self._plan(self._records.save(found.without_open()))

    def _plan(self, record: BrokerOperation | None, earlier: BrokerOperation | None = None) -> BrokerOutcome:
        """Plan from the cluster as it is now, show it, and carry it out; `record` gets the new plans."""
        snapshot = self._read(sizes=True)
        known = snapshot.broker_by_id()
        before = record or earlier
        gone = before is not None and before.next_leg is None and not any(b in known for b in self._brokers)
        if before is not None and gone and (not self._unregisters or set(self._brokers) <= {*before.rejoined}):
            return self._told("nothing to do", before, holdings=holdings_of(snapshot, self._brokers))
        program = self._request.again.partition(" broker ")[0]
        seen = without_leaving(snapshot, self._records, self._reporter, program, subject=self._brokers)
        with self._reporter.progress("planning"), self._planning(), without_collector():
            decided = decide_operation(seen, self._request.goal)
        if decided is None:
            if record is not None and not self._request.dry_run:
                return self._verify(record)
            over = earlier if earlier is not None and earlier.stage is Stage.DONE and not earlier.rejoined else None
            if over is None and not self._request.dry_run:  # planners leave the broker out from now on
                over = self._records.save(replace(self._begin(snapshot), stage=Stage.VERIFYING))
            return self._verified("nothing to do", over, holdings_of(snapshot, self._brokers), snapshot)
        self._show(decided, snapshot)
        self._sum = replace(self._sum, planned=_summarize_plans(decided))
        # What would be refused is refused before leaderships pass; else the run of the copies does it in time.
        early = self._request.dry_run or self._request.asks or decided.leaders is not None
        if early and _works(decided.whole.plan):
            self._plans.preview(decided.whole.plan, record)
        if self._request.dry_run:
            return self._told("planned", record, holdings=holdings_of(snapshot, self._brokers))
        if not self._confirmed():
            return self._told("declined", record, holdings=holdings_of(snapshot, self._brokers))
        base = record or self._begin(snapshot)
        plans = [(OperationPlanKind.LEADERS, decided.leaders)] if decided.leaders else []
        chosen = [(kind, p) for kind, p in (*plans, (OperationPlanKind.COPIES, decided.copies)) if _works(p)]
        return self._carry(self._records.add(base.without_open(), chosen))

    @property
    def _unregisters(self) -> bool:
        return self._unregister is not None and self._request.kind is BrokerOperationKind.DECOMMISSION

    def _begin(self, snapshot: ClusterSnapshot) -> BrokerOperation:
        goal = self._request.goal
        return self._records.begin(self._request.kind, snapshot.cluster_id, self._brokers, goal.onto, dict(goal.words))

    def _show(self, decided: OperationPlans, snapshot: ClusterSnapshot) -> None:
        """Say what is planned; raises when the brokers cannot be emptied by it."""
        change = decided.whole
        if change.plan.warnings and not self._request.goal.ignore_warns:
            hint = f"--ignore-warns carries out the rest and leaves {count_of(change.left_alone, 'partition')} there"
            if change.reasons:
                raise InfeasibleError(
                    f"no plan fits: {'; '.join(change.reasons)}",
                    reasons=change.reasons if len(change.reasons) > 1 else (),
                    hint=hint,
                )
            raise OperationFailedError(
                f"nothing is done because of warnings: {'; '.join(change.plan.warnings)}",
                hint="--ignore-warns carries out what can be",
            )
        for line in planned_change_text(change).splitlines():
            self._reporter.say(line)
        if decided.placed_by_count:
            self._reporter.warn(f"replicas are placed by counts, since sizes are not known: {decided.placed_by_count}")
        if decided.leaders is not None and not self._leaders_only:
            self._reporter.say(f"first {count_of(len(decided.leaders.moves), 'leadership')} pass to replicas in sync")
        if self._request.kind is BrokerOperationKind.DECOMMISSION:
            voters = voters_among(self._settings(snapshot), self._brokers)
            if voters:
                self._reporter.warn(
                    f"broker {few_of(voters)} is also a controller: it will be empty, but not safe to stop"
                )

    def _carry(self, record: BrokerOperation) -> BrokerOutcome:
        while (place := record.next_leg) is not None:
            leg = record.legs[place]
            if leg.kind is OperationPlanKind.COPIES and self._request.kind is not BrokerOperationKind.REPLACE:
                self._pass_leaders()
            ended = self._plans.run(record, leg, Direction.APPLY)
            self._sum = self._sum.plus(ended)
            self._owed += ended.owed
            if ended.problems:
                return self._told("incomplete", record, problems=ended.problems)
            record = self._records.save(record.with_leg(place, OperationPlanState.DONE))
        return self._verify(record)

    def _pass_leaders(self) -> None:
        """Elect first replicas where a leaving broker leads in place of them; copies would pass it on anyway."""
        keys = holdings_of(self._read(sizes=False), self._brokers).passing
        problems = self._elections.give(keys)
        for problem in problems:
            self._reporter.warn(problem)
        if not problems:
            self._sum = replace(self._sum, leaders_passed=self._sum.leaders_passed + len(keys))

    def _verify(self, record: BrokerOperation) -> BrokerOutcome:
        """Done only when the brokers hold nothing and lead nothing; metadata may lag for a moment."""
        record = self._records.save(replace(record, stage=Stage.VERIFYING))
        if self._leaders_only:
            self._pass_leaders()
        topics = set[str]()
        for _ in repeat_every(self._clock, 0.5, SETTLE_S):
            if not topics or not self._still_there(topics):  # only then is everything read again
                holdings, snapshot = self._held()
                topics = {key.topic for key in self._left(holdings, snapshot)}
            if not topics:
                break
        return self._verified("done", record, holdings, snapshot)

    def _held(self) -> tuple[Holdings, ClusterSnapshot]:
        snapshot = self._read(sizes=False)
        return holdings_of(snapshot, self._brokers), snapshot

    def _still_there(self, topics: set[str]) -> bool:
        """True when one of the topics still has a replica or a leader on the brokers."""
        states = self._retrier.call("reading topics", lambda: self._admin.partition_states(topics))
        gone = frozenset(self._brokers)
        held = () if self._leaders_only else tuple(s for s in states.values() if not gone.isdisjoint(s.replicas))
        return bool(held) or any(s.leader in gone for s in states.values())

    def _left(self, holdings: Holdings, snapshot: ClusterSnapshot) -> tuple[TopicPartition, ...]:
        """What is still to leave the brokers; leaderships may stay if that was allowed and nobody else can lead."""
        if not self._leaders_only:
            return (*holdings.held, *holdings.led)
        stuck = find_stuck_leaders(snapshot, self._brokers) if self._request.goal.ignore_warns else ()
        return tuple(key for key in holdings.led if key not in stuck)

    def _verified(
        self, verdict: str, record: BrokerOperation | None, holdings: Holdings, snapshot: ClusterSnapshot
    ) -> BrokerOutcome:
        problems: tuple[str, ...] = ()
        left = self._left(holdings, snapshot)
        if holdings.held and not self._leaders_only:
            where = few_of(self._brokers)
            problems = (
                f"{count_of(len(holdings.held), 'partition')} still on broker {where}: {few_of(holdings.held)}",
            )
        elif left:
            problems = (f"still led from broker {few_of(self._brokers)}: {few_of(left)}",)
        safety = Safety(cautions=stuck_leaders_text([k for k in holdings.led if k not in left]))
        if self._request.kind is BrokerOperationKind.DECOMMISSION:
            settings = self._settings(snapshot)
            safety = judge_safety(
                snapshot, self._brokers, holdings, settings, self._request.bootstrap, self._request.again
            )
            stopped = to_unregister(snapshot, self._brokers, settings)
            if stopped and self._unregisters and not (problems or safety.problems or self._request.dry_run):
                return self._forget(stopped, record, holdings, safety)
        if problems:
            verdict = "incomplete"
        elif safety.problems:
            verdict, problems = "not safe to stop", safety.problems
        elif record is not None and record.stage is not Stage.DONE:
            record = self._records.save(replace(record, stage=Stage.DONE))
        return self._told(
            verdict,
            record,
            holdings=holdings,
            problems=problems,
            safety=safety if not left else Safety(),
        )

    def _forget(
        self, stopped: list[int], record: BrokerOperation | None, holdings: Holdings, safety: Safety
    ) -> BrokerOutcome:
        """Take the stopped brokers off the cluster's list, as the last step."""
        if not self._request.confirm(f"Unregister broker {few_of(stopped)}, which is empty and stopped?"):
            return self._told("declined", record, holdings=holdings, safety=safety)
        problems = self._unregister.forget(stopped) if self._unregister is not None else ()
        if not problems:
            self._sum = replace(self._sum, unregistered=tuple(stopped))
            if record is not None:
                back = tuple(sorted({*record.rejoined, *stopped}))
                record = self._records.save(replace(record, stage=Stage.DONE, rejoined=back))
        left = Safety(cautions=safety.cautions, steps=() if set(stopped) == {*self._brokers} else safety.steps)
        return self._told(
            "incomplete" if problems else "done", record, holdings=holdings, problems=problems, safety=left
        )

    def _settings(self, snapshot: ClusterSnapshot) -> dict[int, dict[str, str]]:
        """Roles of the brokers that go, and one more broker's defaults: those are the same everywhere, or should be."""
        alive = sorted(b.id for b in snapshot.brokers if b.is_alive)
        staying = [b for b in alive if b not in self._brokers][:1]
        goal = [*(b for b in alive if b in self._brokers), *staying]
        found = self._retrier.call("reading settings", lambda: self._admin.broker_settings(goal, SETTING_KEYS))
        silent = [b for b in self._brokers if not found.get(b, {}).get(ROLES)]
        return with_votes(found, silent, self._voters() if silent else None)

    def _voters(self) -> frozenset[int] | None:
        with suppress(OperationFailedError):  # without the right to ask, nothing tells
            quorum = self._retrier.call("reading the quorum", self._admin.quorum)
            return None if quorum is None else quorum.ids
        return None

    def _confirmed(self) -> bool:
        goal = self._request.goal
        by = f" by broker {goal.onto}" if goal.onto is not None else ""
        what = "Move leaderships off" if self._leaders_only else self._request.kind.capitalize()
        return self._request.confirm(f"{what} broker {few_of(self._brokers)}{by}?")

    def _read(self, *, sizes: bool) -> ClusterSnapshot:
        return self._retrier.call(
            "reading the cluster", lambda: self._admin.snapshot(now=self._clock.now(), sizes=sizes)
        )

    def _told(
        self,
        verdict: str,
        record: BrokerOperation | None,
        *,
        holdings: Holdings | None = None,
        problems: tuple[str, ...] = (),
        safety: Safety | None = None,
    ) -> BrokerOutcome:
        seen = holdings or holdings_of(self._read(sizes=False), self._brokers)
        undone = record is None or verdict in ("declined", "planned")
        return replace(
            self._sum,
            verdict=verdict,
            brokers=seen.brokers,
            problems=(*problems, *dict.fromkeys(self._owed)),
            cautions=safety.cautions if safety else (),
            steps=safety.steps if safety else (),
            record=str(self._records.path_of(record)) if record is not None else None,
            next_commands=(self._request.again,) if problems else (self._request.cleanup,) if self._owed else (),
            undo=None if undone or record is None else self._request.undo_of(record),
        )


def _summarize_plans(decided: OperationPlans) -> PlanSummary:
    moves = decided.whole.plan.moves
    return PlanSummary(
        partitions=len(moves),
        copies=sum(len(m.adding) for m in moves),
        bytes=sum(m.bytes_moved or 0 for m in moves),
        leaders_first=len(decided.leaders.moves) if decided.leaders else 0,
    )


def _works(plan: Plan) -> bool:
    return bool(plan.moves or plan.dir_moves)


LOOK_EVERY_S = 2.0


class Rejoin:
    """One `rejoin`; looks first at every step, so that a second run only does what is left. `admin` is only read."""

    def __init__(
        self,
        admin: ClusterAdmin,
        clock: Clock,
        reporter: Reporter,
        records: Records,
        plans: PlanRunner,
        elections: Elections,
        request: RejoinRequest,
    ) -> None:
        self._admin, self._clock, self._reporter, self._records = admin, clock, reporter, records
        self._plans, self._elections, self._request = plans, elections, request
        self._retrier = Retrier(clock, reporter, request.retry_limit_s)
        self._sum = BrokerOutcome(command="rejoin", verdict="")

    def run(self, record: BrokerOperation | None = None) -> BrokerOutcome:
        """Bring the brokers back in; with a `record` its plans are taken back, the last first.

        Raises `TryLaterError` when brokers or copies are not there in time, and what `reassign.act.Run` raises.
        """
        if record is not None:
            self._require_fitting(record)
        now = self._look()
        unknown = [b.broker for b in now.brokers if b.state is BrokerState.MISSING and not b.replicas]
        if unknown and record is None:
            raise UsageError(f"broker {few_of(unknown)} is not in this cluster", hint="check the id")
        back = record is not None and record.stage is not Stage.UNDONE
        if not (back or now.absent or now.lagging or now.due):
            if not self._request.dry_run:
                self._take_in()
            return self._told("nothing to do", now)
        self._announce(now, record if back else None)
        if self._request.dry_run:
            return self._told("planned", now)
        if not self._request.confirm(f"Rejoin broker {few_of(self._request.brokers)}?"):
            return self._told("declined", now)
        self._wait_alive()
        if record is not None and back:
            if record.kind is BrokerOperationKind.LEADERS:
                self._wait_in_sync()
            problems = self._undo(record)
            if problems:
                return self._told("incomplete", self._look(), problems)
        held = self._wait_in_sync()
        problems = self._elections.give(held.due)
        if not problems:
            self._sum = replace(self._sum, leaders_passed=len(held.due))
        self._take_in()
        last = self._look()
        if not problems and last.due:
            problems = (f"preferred leaderships on other brokers again: {few_of(last.due)}",)
        return self._told("incomplete" if problems else "done", last, problems)

    def _take_in(self) -> None:
        """Have planners use the brokers again."""
        if back := self._records.note_rejoined(self._request.brokers):
            self._reporter.say(f"broker {few_of(back)} is included in plans again")

    def _require_fitting(self, record: BrokerOperation) -> None:
        live = self._retrier.call("reading the cluster", self._admin.cluster).cluster_id
        if record.cluster_id != live:
            raise RefusedError(f"the record is of cluster {record.cluster_id}, this is {live}", hint="check --profile")
        if set(record.brokers) != set(self._request.brokers):
            raise UsageError(
                f"the record is of broker {few_of(record.brokers)}, not {few_of(self._request.brokers)}",
                hint="name just the brokers of the record",
            )

    def _announce(self, now: Holdings, record: BrokerOperation | None) -> None:
        for facts in now.brokers:
            late = f", {count_of(facts.out_of_sync, 'copy', 'copies')} to catch up" if facts.out_of_sync else ""
            self._reporter.say(f"broker {facts.broker}: {facts.state}, {count_of(facts.replicas, 'replica')}{late}")
        if now.due:
            self._reporter.say(f"{count_of(len(now.due), 'preferred leadership')} will come back")
        if record is None:
            return
        legs = [
            leg
            for leg in record.legs
            if leg.state is not OperationPlanState.UNDONE and not self._plans.ended(leg, Direction.ROLLBACK)
        ]
        self._reporter.say(f"{count_of(len(legs), 'plan')} of {self._records.path_of(record)} will be rolled back")
        last = next((leg for leg in reversed(legs) if self._plans.begun(leg)), None)
        forecast = self._request.dry_run or self._request.asks  # without a question the run itself prints it
        if forecast and last is not None and not now.absent:
            self._plans.run(record, last, Direction.ROLLBACK, dry_run=True)

    def _undo(self, record: BrokerOperation) -> tuple[str, ...]:
        """Roll the plans back, the last first; those that were never begun changed nothing."""
        record = self._records.save(replace(record, stage=Stage.UNDOING))
        while (place := record.last_to_undo) is not None:
            leg = record.legs[place]
            # What `reassign resume` finished is not done again: its partitions may have moved since.
            if self._plans.begun(leg) and not self._plans.ended(leg, Direction.ROLLBACK):
                ended = self._plans.run(record, leg, Direction.ROLLBACK)
                self._sum = self._sum.plus(ended)
                if not ended.ok:
                    return (*ended.problems, *ended.owed)
            record = self._records.save(record.with_leg(place, OperationPlanState.UNDONE))
        self._records.save(replace(record, stage=Stage.UNDONE))
        return ()

    def _wait_alive(self) -> None:
        wanted = self._request.brokers
        with self._reporter.progress("waiting for brokers to be registered and unfenced") as bar:
            for is_last in looks(self._clock, self._request.wait_s, LOOK_EVERY_S):
                absent = self._absent()
                if not absent:
                    return
                if is_last:
                    raise TryLaterError(
                        f"not alive yet: broker {few_of(absent)}", hint=f"start it, then run: {self._request.again}"
                    )
                bar.update(len(wanted) - len(absent), len(wanted))

    def _absent(self) -> list[str]:
        """The brokers that are not there, each with the state that the cluster tells."""
        listed = self._retrier.call("reading the cluster", self._admin.cluster).brokers
        known = {b.id: b for b in listed}
        return [
            f"{b} ({known[b].state if b in known else BrokerState.MISSING})"
            for b in self._request.brokers
            if b not in known or not known[b].is_alive
        ]

    def _wait_in_sync(self) -> Holdings:
        """Wait for every copy; between two looks at everything only topics that lag are read."""
        lagging: tuple[TopicPartition, ...] = ()
        with self._reporter.progress("waiting for copies to be in sync") as bar:
            for _ in repeat_every(self._clock, LOOK_EVERY_S, self._request.wait_s):
                lagging = self._lagging(lagging) if lagging else ()
                if not lagging:
                    now = self._look()
                    lagging, first = now.lagging, len(now.lagging)
                if not lagging:
                    return now
                bar.update(first - len(lagging), first, f"{len(lagging)} partitions to go")
        raise TryLaterError(
            f"{count_of(len(lagging), 'partition')} not in sync yet: {few_of(lagging)}",
            hint=f"to resume: {self._request.again}",
        )

    def _lagging(self, keys: tuple[TopicPartition, ...]) -> tuple[TopicPartition, ...]:
        states = self._retrier.call("reading topics", lambda: self._admin.partition_states({k.topic for k in keys}))
        mine = frozenset(self._request.brokers)
        return tuple(k for k in keys if k in states and not mine.intersection(states[k].replicas) <= {*states[k].isr})

    def _look(self) -> Holdings:
        snapshot = self._retrier.call(
            "reading the cluster", lambda: self._admin.snapshot(now=self._clock.now(), sizes=False)
        )
        return holdings_of(snapshot, self._request.brokers)

    def _told(self, verdict: str, seen: Holdings, problems: tuple[str, ...] = ()) -> BrokerOutcome:
        return replace(
            self._sum,
            verdict=verdict,
            brokers=seen.brokers,
            problems=problems,
            next_commands=(self._request.again,) if problems else (),
        )


class OpenRunAccess(Protocol):
    """Connects for a command and takes the cluster's lease until the context ends; a dry run takes none."""

    def __call__(self, command: str, *, dry_run: bool = False) -> AbstractContextManager[ClusterAccess]:
        """`TryLaterError` names the process that has the lease."""
        ...


class ReassignRunner:
    """Carries plans out; `template` is what `reassign apply` would be asked with the same options, confirmed."""

    def __init__(
        self,
        records: Records,
        state_dir: Path,
        reporter: Reporter,
        template: Request,
        open_access: OpenRunAccess,
        read_plan: Callable[[str], Plan],
        *,
        again: str,
        undo_of: Callable[[BrokerOperation], str],
    ) -> None:
        self._records, self._state_dir, self._reporter, self._template = records, state_dir, reporter, template
        self._open_access, self._read_plan, self._again, self._undo_of = open_access, read_plan, again, undo_of

    def preview(self, plan: Plan, record: BrokerOperation | None) -> RunOutcome:
        """Every check of an apply and its schedule; nothing is written."""
        request = replace(self._template, rates=self._rates(record, None), dry_run=True)
        copies = any(move.adding for move in plan.moves) or bool(plan.dir_moves)
        reporter = self._reporter if copies else _LeadershipReporter(self._reporter)
        return self._run(plan, "plan.json", Direction.APPLY, self._again, request, reporter)

    def run(
        self, operation: BrokerOperation, leg: OperationPlan, direction: Direction, *, dry_run: bool = False
    ) -> RunOutcome:
        """Carry one plan out or take it back, under the cluster's lease."""
        path = str(self._records.plan_path(leg))
        plan = self._read_plan(path)
        if identity_of(plan) != leg.identity:
            hint = f"plan again: {self._again} --replan"
            raise RefusedError(f"{path} is not the plan that the record names", hint=hint)
        rates = self._rates(operation if direction is Direction.APPLY else None, leg)
        request = replace(self._template, plan_path=str(Path(path).absolute()), rates=rates, dry_run=dry_run)
        reporter = self._reporter
        if leg.kind is OperationPlanKind.LEADERS:
            reporter = reporter if dry_run else _LeadershipReporter(reporter)
            request = replace(request, rules=replace(request.rules, ingest_sample_s=0.0))  # nothing is copied
        return self._run(plan, path, direction, self._undo_of(operation), request, reporter)

    def begun(self, leg: OperationPlan) -> bool:
        """True when the plan's journal has a run."""
        return self._state(leg).runs > 0

    def ended(self, leg: OperationPlan, direction: Direction) -> bool:
        """True when the plan's last run was in that direction and is complete."""
        state = self._state(leg)
        return not state.unsettled and (state.direction, state.verdict) == (direction.value, COMPLETE)

    def _state(self, leg: OperationPlan) -> RunState:
        return read_run_state(DiskFile(journal_path(self._state_dir, self._records.cluster_id, leg.identity)))

    def _rates(self, record: BrokerOperation | None, leg: OperationPlan | None) -> RateRequest:
        """The rates with the throttle that the operation was begun with, where a plan has none of its own yet."""
        rates = self._template.rates
        if record is None or record.throttle is None or rates.given or (leg is not None and self.begun(leg)):
            return rates
        earlier = read_request(record.throttle, (), None)
        return replace(rates, given=earlier.given, rate=earlier.rate)

    def _run(
        self, plan: Plan, path: str, direction: Direction, undo: str, request: Request, reporter: Reporter
    ) -> RunOutcome:
        base = request.commands
        commands = OperationCommands(
            program=base.program, plan=quote(path), run_options=base.run_options, operation=self._again, undo=undo
        )
        request = replace(request, commands=commands)
        with self._open_access(f"{direction} for an operation on brokers", dry_run=request.dry_run) as access:
            return prepare_run(plan, request, access, self._state_dir, reporter).carry_out(direction.value)


class _LeadershipReporter:
    """Leaves out the schedule of a plan that copies nothing: the operation has printed what passes on."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def say(self, line: str) -> None:
        del line

    def warn(self, line: str) -> None:
        self._reporter.warn(line)

    def progress(self, label: str) -> AbstractContextManager[ProgressBar]:
        return self._reporter.progress(f"leaderships: {label}")
