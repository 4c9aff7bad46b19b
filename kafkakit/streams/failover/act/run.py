"""Carrying an operation out: look, decide, write the intent down, act, look again.

The same loop begins, continues after any crash, and ends. Every change of the route is made only to the very route that
the decision was made from; every effect comes after the lease was confirmed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from kafkakit.core.durations import epoch_ms
from kafkakit.core.errors import ConflictError
from kafkakit.core.journal_lines import line_data
from kafkakit.ports.clock import Clock
from kafkakit.ports.reporter import Reporter
from kafkakit.streams.failover.act.effects import Effects
from kafkakit.streams.failover.act.journals import Journal, OperationJournals, state_of
from kafkakit.streams.failover.act.observer import OperationObserver
from kafkakit.streams.failover.decide.actions import (
    Action,
    Certify,
    ChangeRoute,
    CreateTopics,
    Finished,
    LowerFence,
    RaiseFence,
    Refuse,
    ReportLate,
    RouteEdit,
    SeedGroups,
    Wait,
)
from kafkakit.streams.failover.decide.certificate import make_certificate
from kafkakit.streams.failover.decide.drained import late_words, losses
from kafkakit.streams.failover.decide.evidence import Evidence
from kafkakit.streams.failover.decide.journal import OperationRecord, Word, merged_losses
from kafkakit.streams.failover.decide.operation import FailoverRequest, FenceChoice, Step
from kafkakit.streams.failover.decide.outcome import EndKind, RunEnd
from kafkakit.streams.failover.decide.route_edits import edited
from kafkakit.streams.failover.decide.standing import routed_at, standing
from kafkakit.streams.failover.decide.steps import next_step
from kafkakit.streams.model.route import Route
from kafkakit.streams.routes.api_act import RouteStore

POLL_S = 0.25
CONFLICTS = 10
"""Changes of the route by other processes in a row, after which a run gives up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """What a run works with; `require_held` raises `LeaseLostError` once the stream's lease is lost."""

    routes: RouteStore
    journals: OperationJournals
    observer: OperationObserver
    effects: Effects
    clock: Clock
    reporter: Reporter
    require_held: Callable[[], None]
    operator: str
    version: str


@dataclass(slots=True, kw_only=True)
class Progress:
    """Since when nothing could be done, and what was tried since; `mark` is what the last turn found."""

    idle_since_s: float = 0.0
    conflicts: int = 0
    tried: list[Action] = field(default_factory=list)
    mark: tuple[int, OperationRecord, int | None] | None = None


class OperationRun:
    """One process's work on one operation."""

    def __init__(self, parts: RunParts, journal: Journal) -> None:
        self._parts, self._journal = parts, journal
        self._said = ""
        self._problems: tuple[str, ...] = ()
        self._progress = Progress()

    @property
    def record(self) -> OperationRecord:
        """The operation as its journal has it."""
        return state_of(self._journal)

    def run(self, until: Step, wait_s: float) -> RunEnd:
        """Continue until a step is reached, or `wait_s` have passed in which nothing could be done.

        Raises `ConflictError` when other processes change the route again and again, `LeaseLostError` when another
        process takes the stream's lease, and what clusters and stores raise.
        """
        self._progress = Progress(idle_since_s=self._parts.clock.monotonic())
        while True:
            end = self.turn(until, wait_s)
            if end is not None:
                return end

    def turn(self, until: Step, wait_s: float) -> RunEnd | None:
        """One look and what follows from it; None: continue. What a run knows between two turns is in its fields."""
        parts, operation, progress = self._parts, self.record.operation, self._progress
        parts.require_held()
        route = parts.routes.existing(operation.stream).route
        evidence = parts.observer.look(self.record, route, retiring=until is Step.RETIRED)
        self._remember(evidence)
        action = next_step(self.record, evidence, until)
        mark = (route.epoch, self.record, action.records if isinstance(action, Wait) else None)
        if mark != progress.mark:
            progress.mark, progress.tried, progress.idle_since_s = mark, [], parts.clock.monotonic()
        if isinstance(action, Wait):
            left_s = wait_s - (parts.clock.monotonic() - progress.idle_since_s)
            self._say(action)
            if left_s <= 0 or action.reason == "stranded":
                return self._end(EndKind.WAITING, route, action.reason, action.lines, action.records)
            parts.clock.sleep(max(0.01, min(POLL_S, left_s, action.seconds or POLL_S)))
            return None
        if isinstance(action, Finished):
            return self._finished(action)
        if isinstance(action, Refuse):
            return self._end(EndKind.REFUSED, route, action.reason, action.lines)
        if action not in progress.tried:
            progress.tried.append(action)
        elif parts.clock.monotonic() - progress.idle_since_s >= wait_s:
            return self._end(EndKind.WAITING, route, "no-effect", self._problems)
        else:
            parts.clock.sleep(POLL_S)  # the last try has no effect that shows yet
        try:
            if isinstance(action, ReportLate):
                return self._report_late(action, evidence)
            self._act(action, evidence)
            progress.conflicts = 0
        except ConflictError:
            # Another process changed the route between the look and the change: look again, and decide anew.
            progress.conflicts += 1
            if progress.conflicts >= CONFLICTS:
                raise
        return None

    def amend(self, request: FailoverRequest) -> None:
        """Take over other limits; the shape of the request is the operation's."""
        self._journal.check(Word.AMEND, line_data(request))

    def _act(
        self, action: CreateTopics | SeedGroups | ChangeRoute | RaiseFence | LowerFence | Certify, evidence: Evidence
    ) -> None:
        operation, journal, effects = self.record.operation, self._journal, self._parts.effects
        match action:
            case CreateTopics():
                journal.intent(Word.CREATE, {"topics": [move.topic for move in action.moves]})
                quotas = {lane.name: lane.quota_bytes_per_s for lane in evidence.route.lanes}
                made = {move.lane: effects.create(operation, move, quotas.get(move.lane)) for move in action.moves}
                journal.check(Word.CREATE, {"topic_ids": made})
            case SeedGroups():
                places = {g: {str(k): v for k, v in offsets.items()} for g, offsets in action.offsets.items()}
                journal.intent(Word.SEED, {"offsets": places})
                problems = effects.seed(operation.request.to, action.offsets)
                for problem in problems if problems != self._problems else ():
                    self._parts.reporter.warn(problem)
                self._problems = problems
            case RaiseFence():
                known = [f for f in self.record.fences if (f.segment, f.kind) == (action.segment.id, action.kind)]
                lane = next(lane for lane, each in evidence.route.segments() if each.id == action.segment.id)
                quota = lane.quota_bytes_per_s
                fence = known[0] if known else effects.planned_fence(action.segment, action.kind, operation, quota)
                if not known:
                    journal.intent(Word.FENCE, line_data(fence))
                effects.raise_fence(action.segment, fence)
                self._parts.reporter.say(f"fence {fence.kind} on {action.segment.topic}")
            case LowerFence():
                for fence in [each for each in self.record.fences if each.segment == action.segment.id]:
                    journal.intent(Word.UNFENCE, {"segment": fence.segment, "transactions": action.transactions})
                    effects.lower_fence(action.segment, fence)
                    journal.check(Word.UNFENCE, {"segment": fence.segment})
                if action.transactions:
                    names = ", ".join(action.transactions)
                    self._parts.reporter.warn(f"{action.segment.topic}: the fence is down again, it held up {names}")
                    self._amend_without_fence()
            case ChangeRoute(edit=RouteEdit.RETIRE) if not self._has_certificate():
                self._certify(evidence)
            case ChangeRoute():
                self._change_route(action, evidence)
            case Certify():
                self._certify(evidence)

    def _has_certificate(self) -> bool:
        """Whether the store still has the certificate that the journal names: it may have lost it."""
        return self._parts.journals.has_certificate(self.record.operation.id, self.record.certificate)

    def _certify(self, evidence: Evidence) -> None:
        certificate, data = make_certificate(self.record, evidence, self._parts.version)
        self._parts.journals.write_certificate(self.record.operation.id, data)
        self._journal.check(Word.CERTIFIED, {"sha256": certificate.sha256, "epoch": evidence.route.epoch})
        self._note(Step.DRAINED, evidence.route)
        self._parts.reporter.say(f"drained: certificate {certificate.sha256[:16]}")

    def _change_route(self, action: ChangeRoute, evidence: Evidence) -> None:
        """One compare-and-set. A process whose evidence is older than the route changes nothing."""
        parts, record = self._parts, self.record
        if action.edit is RouteEdit.SEAL and evidence.quiet is not None:
            data = {"basis": evidence.quiet.basis, "window_s": round(evidence.quiet.seconds, 3)}
            self._journal.check(Word.QUIET, data)
        self._journal.intent(Word.ROUTE, {"edit": action.edit, "epoch": evidence.route.epoch})
        parts.require_held()
        changed = parts.routes.change(
            record.operation.stream,
            lambda found: edited(record, same(found, evidence.route), action.edit, evidence),
            by=parts.operator,
            what=f"operation {record.operation.id}: {action.edit}",
            at_ms=epoch_ms(parts.clock.now()),
        )
        step = standing(record.operation, changed)
        if action.edit is RouteEdit.ROUTE and step is not None:
            self._note_routed(changed.epoch, action.unready)
            self._note(step, changed)
        elif action.edit is RouteEdit.RETIRE:
            self._note(Step.RETIRED, changed)
        elif step is not None:
            self._note(step, changed)

    def _report_late(self, action: ReportLate, evidence: Evidence) -> RunEnd:
        """Void the seal, and name what brokers know of the writers."""
        segments = {number for number, _, _ in action.grown}
        self._journal.check(Word.LATE, {"grown": [list(each) for each in action.grown]})
        self._change_route(ChangeRoute(edit=RouteEdit.UNSEAL), evidence)
        self._parts.observer.forget_quiet()
        lines = []
        for _, segment in self.record.operation.old_segments(evidence.route):
            if segment.id in segments:
                grown = {partition: more for number, partition, more in action.grown if number == segment.id}
                lines += [late_words(segment, n, more) for n, more in grown.items()]
                writers = self._parts.observer.writers_of(segment, self.record.request)
                lines += [f"{segment.topic}: {each}" for each in writers.words_of(grown)]
        lines.append("the seal is void; find the writer and stop it, then continue")
        route = self._parts.routes.existing(self.record.operation.stream).route
        return self._end(EndKind.LATE, route, "late-writer", tuple(lines))

    def _remember(self, evidence: Evidence) -> None:
        """Write down what a later look could not see any more."""
        record = self.record
        step = standing(record.operation, evidence.route)
        if step is None:
            return
        if step not in record.reached_ms:
            self._note(step, evidence.route)
        if step is Step.SEALED:
            merged = merged_losses(record.lost, losses(record, evidence))
            if merged != record.lost:
                self._journal.check(Word.LOST, {"lost": data_of_list(merged)})

    def _note_routed(self, epoch: int, unready: tuple[str, ...] = ()) -> None:
        """The line that says at which epoch producers were sent elsewhere."""
        self._journal.check(Word.STEP, {"step": Step.ROUTED, "epoch": epoch, "unready": list(unready)})
        self._parts.reporter.say(f"{Step.ROUTED}: stream {self.record.operation.stream}, epoch {epoch}")

    def _note(self, step: Step, route: Route) -> None:
        """A line for a step that is reached; where a crash took that of the routed one, the history has its epoch."""
        record = self.record
        if step in (Step.ROUTED, Step.STRANDED, Step.SEALED) and Step.ROUTED not in record.reached_ms:
            history = self._parts.routes.history(record.operation.stream, 200)
            found = routed_at(record.operation, [each.change.route for each in history if each.in_effect])
            self._note_routed(found or route.epoch)
        if step not in self.record.reached_ms:
            self._journal.check(Word.STEP, {"step": step, "epoch": route.epoch})
            self._parts.reporter.say(f"{step}: stream {record.operation.stream}, epoch {route.epoch}")

    def _amend_without_fence(self) -> None:
        self.amend(replace(self.record.request, fence=FenceChoice.NONE))

    def _finished(self, action: Finished) -> RunEnd:
        route = self._parts.routes.existing(self.record.operation.stream).route
        if action.step.is_over and action.step not in self.record.reached_ms:
            self._journal.check(Word.STEP, {"step": action.step, "epoch": route.epoch})
        if action.step in (Step.ABORTED, Step.SUPERSEDED):
            lines = (f"operation {self.record.operation.id} is not the stream's any more, and has not moved it",)
            return RunEnd(kind=EndKind.REFUSED, step=action.step, record=self.record, reason=action.step, lines=lines)
        return RunEnd(kind=EndKind.DONE, step=action.step, record=self.record)

    def _end(
        self, kind: EndKind, route: Route, reason: str, lines: tuple[str, ...], records: int | None = None
    ) -> RunEnd:
        step = standing(self.record.operation, route) or Step.RETIRED
        return RunEnd(kind=kind, step=step, record=self.record, reason=reason, lines=lines, records=records)

    def _say(self, wait: Wait) -> None:
        """What is waited for, once for each reason."""
        if wait.reason != self._said:
            self._said = wait.reason
            self._parts.reporter.say("; ".join(("waiting: " + wait.lines[0], *wait.lines[1:3])))


def same(found: Route, seen: Route) -> Route:
    """The route that was found; `ConflictError` where it is not the one that was looked at."""
    if found != seen:
        raise ConflictError(f"stream {seen.stream} was changed by another process")
    return found


def data_of_list(values: tuple[object, ...]) -> list[Mapping[str, object]]:
    """Values as the data of a line."""
    return [line_data(value) for value in values]
