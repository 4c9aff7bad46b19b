"""`broker drain`, `replace` and `decommission`: plan, show, carry out, verify, as one operation that can be cut.

Plans are carried out by `reassign`, whose journals remember every effect. The operation's record says which plan is
the next; whatever is not begun yet is planned again from the cluster as it is.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from kafkakit.broker.act.elections import Elections
from kafkakit.broker.act.leaving import Unregister, without_leaving
from kafkakit.broker.act.operation_files import Records
from kafkakit.broker.decide.holdings import Holdings, holdings_of
from kafkakit.broker.decide.operation import Kind, LegKind, LegState, Operation, Stage
from kafkakit.broker.decide.plans import Decided, decide_operation
from kafkakit.broker.decide.request import MoveRequest, PlanRunner
from kafkakit.broker.decide.safety import (
    ROLES,
    SETTING_KEYS,
    Safety,
    judge_safety,
    to_unregister,
    voters_among,
    with_votes,
)
from kafkakit.broker.show import BrokerOutcome, Planned
from kafkakit.core.cycle_collector import without_collector
from kafkakit.core.errors import InfeasibleError, OperationFailedError, RefusedError
from kafkakit.core.lists_in_words import some
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan import Plan
from kafkakit.core.quantities import counted
from kafkakit.execution.act.retrier import Retrier
from kafkakit.execution.decide.outcome import Direction
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.ports.reporter import Reporter
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
        if found is None or not found.is_open:
            return self._plan(None, earlier=found)
        return self._go_on(found)

    def _go_on(self, found: Operation) -> BrokerOutcome:
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
        if not found.has_same_words(self._request.goal.words) and not self._request.replan:
            self._reporter.warn("its plan was made with other options; --replan makes a new one from here")
        if self._request.replan:
            return self._replan(found, place)
        if self._request.dry_run or self._request.asks:  # without a question the run itself prints it
            foreseen = self._plans.run(found, leg, Direction.APPLY, dry_run=True)
            if self._request.dry_run:
                return self._told("planned", found)
            if foreseen.verdict != "already applied" and not self._confirmed():
                return self._told("declined", found)
        return self._carry(found)

    def _given_up(self, found: Operation) -> Operation:
        """The operation whose undo was begun, left as it is with --replan: a broker that died cannot be waited for."""
        if not self._request.replan:
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

    def _with_ended(self, found: Operation) -> Operation:
        """The record with the plans as done that `reassign resume` finished."""
        for place, leg in enumerate(found.legs):
            if leg.state is LegState.OPEN and self._plans.ended(leg, Direction.APPLY):
                found = found.with_leg(place, LegState.DONE)
        return found

    def _replan(self, found: Operation, place: int) -> BrokerOutcome:
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

    def _plan(self, record: Operation | None, earlier: Operation | None = None) -> BrokerOutcome:
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
            if record is not None:
                return self._verify(record)
            over = earlier if earlier is not None and earlier.stage is Stage.DONE and not earlier.rejoined else None
            if over is None and not self._request.dry_run:  # planners leave the broker out from now on
                over = self._records.save(replace(self._begin(snapshot), stage=Stage.VERIFYING))
            return self._verified("nothing to do", over, holdings_of(snapshot, self._brokers), snapshot)
        self._show(decided, snapshot)
        self._sum = replace(self._sum, planned=_planned(decided))
        # What would be refused is refused before leaderships pass; else the run of the copies does it in time.
        early = self._request.dry_run or self._request.asks or decided.leaders is not None
        if early and _works(decided.whole.plan):
            self._plans.preview(decided.whole.plan, record)
        if self._request.dry_run:
            return self._told("planned", record, holdings=holdings_of(snapshot, self._brokers))
        if not self._confirmed():
            return self._told("declined", record, holdings=holdings_of(snapshot, self._brokers))
        base = record or self._begin(snapshot)
        plans = [(LegKind.LEADERS, decided.leaders)] if decided.leaders else []
        chosen = [(kind, p) for kind, p in (*plans, (LegKind.COPIES, decided.copies)) if _works(p)]
        return self._carry(self._records.add(base.without_open(), chosen))

    @property
    def _unregisters(self) -> bool:
        return self._unregister is not None and self._request.kind is Kind.DECOMMISSION

    def _begin(self, snapshot: ClusterSnapshot) -> Operation:
        goal = self._request.goal
        return self._records.begin(self._request.kind, snapshot.cluster_id, self._brokers, goal.onto, dict(goal.words))

    def _show(self, decided: Decided, snapshot: ClusterSnapshot) -> None:
        """Say what is planned; raises when the brokers cannot be emptied by it."""
        change = decided.whole
        if change.plan.warnings and not self._request.ignore_warns:
            hint = f"--ignore-warns carries out the rest and leaves {counted(change.left_alone, 'partition')} there"
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
        if decided.leaders is not None:
            self._reporter.say(f"first {counted(len(decided.leaders.moves), 'leadership')} pass to replicas in sync")
        if self._request.kind is Kind.DECOMMISSION:
            voters = voters_among(self._settings(snapshot), self._brokers)
            if voters:
                self._reporter.warn(
                    f"broker {some(voters)} is a controller, too: it will be empty, but not safe to stop"
                )

    def _carry(self, record: Operation) -> BrokerOutcome:
        while (place := record.next_leg) is not None:
            leg = record.legs[place]
            if leg.kind is LegKind.COPIES and self._request.kind is not Kind.REPLACE:
                self._pass_leaders()
            ended = self._plans.run(record, leg, Direction.APPLY)
            self._sum = self._sum.plus(ended)
            self._owed += ended.owed
            if ended.problems:
                return self._told("incomplete", record, problems=ended.problems)
            record = self._records.save(record.with_leg(place, LegState.DONE))
        return self._verify(record)

    def _pass_leaders(self) -> None:
        """Elect first replicas where a leaving broker leads in place of them; copies would pass it on anyway."""
        keys = holdings_of(self._read(sizes=False), self._brokers).passing
        problems = self._elections.give(keys)
        for problem in problems:
            self._reporter.warn(problem)
        if not problems:
            self._sum = replace(self._sum, leaders_passed=self._sum.leaders_passed + len(keys))

    def _verify(self, record: Operation) -> BrokerOutcome:
        """Done only when the brokers hold nothing and lead nothing; metadata may lag for a moment."""
        record = self._records.save(replace(record, stage=Stage.VERIFYING))
        deadline = self._clock.monotonic() + SETTLE_S
        holdings, snapshot = self._held()
        while (left := (*holdings.held, *holdings.led)) and self._clock.monotonic() < deadline:
            self._clock.sleep(0.5)
            if not self._still_there({key.topic for key in left}):  # only then is everything read again
                holdings, snapshot = self._held()
        return self._verified("done", record, holdings, snapshot)

    def _held(self) -> tuple[Holdings, ClusterSnapshot]:
        snapshot = self._read(sizes=False)
        return holdings_of(snapshot, self._brokers), snapshot

    def _still_there(self, topics: set[str]) -> bool:
        """True when one of the topics still has a replica or a leader on the brokers."""
        states = self._retrier.call("reading topics", lambda: self._admin.partition_states(topics))
        gone = frozenset(self._brokers)
        return any(s.leader in gone or not gone.isdisjoint(s.replicas) for s in states.values())

    def _verified(
        self, verdict: str, record: Operation | None, holdings: Holdings, snapshot: ClusterSnapshot
    ) -> BrokerOutcome:
        problems: tuple[str, ...] = ()
        if holdings.held:
            where = some(self._brokers)
            problems = (f"{counted(len(holdings.held), 'partition')} still on broker {where}: {some(holdings.held)}",)
        elif holdings.led:
            problems = (f"still led from broker {some(self._brokers)}: {some(holdings.led)}",)
        safety = Safety()
        if self._request.kind is Kind.DECOMMISSION:
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
            safety=safety if not (holdings.held or holdings.led) else Safety(),
        )

    def _forget(
        self, stopped: list[int], record: Operation | None, holdings: Holdings, safety: Safety
    ) -> BrokerOutcome:
        """Take the stopped brokers off the cluster's list, as the last step."""
        if not self._request.confirm(f"Unregister broker {some(stopped)}, which is empty and stopped?"):
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
        voters = self._retrier.call("reading the quorum", self._admin.quorum_voters) if silent else None
        return with_votes(found, silent, voters)

    def _confirmed(self) -> bool:
        goal = self._request.goal
        by = f" by broker {goal.onto}" if goal.onto is not None else ""
        return self._request.confirm(f"{self._request.kind.capitalize()} broker {some(self._brokers)}{by}?")

    def _read(self, *, sizes: bool) -> ClusterSnapshot:
        return self._retrier.call(
            "reading the cluster", lambda: self._admin.snapshot(now=self._clock.now(), sizes=sizes)
        )

    def _told(
        self,
        verdict: str,
        record: Operation | None,
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


def _planned(decided: Decided) -> Planned:
    moves = decided.whole.plan.moves
    return Planned(
        partitions=len(moves),
        copies=sum(len(m.adding) for m in moves),
        bytes=sum(m.bytes_moved or 0 for m in moves),
        leaders_first=len(decided.leaders.moves) if decided.leaders else 0,
    )


def _works(plan: Plan) -> bool:
    return bool(plan.moves or plan.dir_moves)
