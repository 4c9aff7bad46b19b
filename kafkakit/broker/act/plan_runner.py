"""The plans of an operation on brokers, carried out as `reassign` does: under its lease and with its journals."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from kafkakit.broker.act.operation_files import Records
from kafkakit.broker.decide.operation import Leg, LegKind, Operation
from kafkakit.broker.decide.plans import OperationCommands
from kafkakit.core.errors import RefusedError
from kafkakit.core.plan import Plan, identity_of
from kafkakit.core.shell_words import quote
from kafkakit.execution.act.cluster_access import ClusterAccess
from kafkakit.execution.act.journal_file import DiskFile
from kafkakit.execution.act.run_journal import journal_path, read_run_state
from kafkakit.execution.decide.journal_state import COMPLETE, RunState
from kafkakit.execution.decide.outcome import Direction, Outcome, Request
from kafkakit.execution.decide.rates import RateRequest, read_request
from kafkakit.ports.reporter import ProgressBar, Reporter
from kafkakit.reassign.api_act import prepare_run


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
        undo_of: Callable[[Operation], str],
    ) -> None:
        self._records, self._state_dir, self._reporter, self._template = records, state_dir, reporter, template
        self._open_access, self._read_plan, self._again, self._undo_of = open_access, read_plan, again, undo_of

    def preview(self, plan: Plan, record: Operation | None) -> Outcome:
        """Every check of an apply and its schedule; nothing is written."""
        request = replace(self._template, rates=self._rates(record, None), dry_run=True)
        return self._run(plan, "plan.json", Direction.APPLY, self._again, request, self._reporter)

    def run(self, operation: Operation, leg: Leg, direction: Direction, *, dry_run: bool = False) -> Outcome:
        """Carry one plan out or take it back, under the cluster's lease."""
        path = str(self._records.plan_path(leg))
        plan = self._read_plan(path)
        if identity_of(plan) != leg.identity:
            hint = f"plan again: {self._again} --replan"
            raise RefusedError(f"{path} is not the plan that the record names", hint=hint)
        rates = self._rates(operation if direction is Direction.APPLY else None, leg)
        request = replace(self._template, plan_path=str(Path(path).absolute()), rates=rates, dry_run=dry_run)
        reporter = self._reporter
        if leg.kind is LegKind.LEADERS:
            reporter = reporter if dry_run else _LeadershipReporter(reporter)
            request = replace(request, ingest_sample_s=0.0)  # nothing is copied
        return self._run(plan, path, direction, self._undo_of(operation), request, reporter)

    def begun(self, leg: Leg) -> bool:
        """True when the plan's journal has a run."""
        return self._state(leg).runs > 0

    def ended(self, leg: Leg, direction: Direction) -> bool:
        """True when the plan's last run was in that direction and is complete."""
        state = self._state(leg)
        return not state.unsettled and (state.direction, state.verdict) == (direction.value, COMPLETE)

    def _state(self, leg: Leg) -> RunState:
        return read_run_state(DiskFile(journal_path(self._state_dir, self._records.cluster_id, leg.identity)))

    def _rates(self, record: Operation | None, leg: Leg | None) -> RateRequest:
        """The rates with the throttle that the operation was begun with, where a plan has none of its own yet."""
        rates = self._template.rates
        if record is None or record.throttle is None or rates.given or (leg is not None and self.begun(leg)):
            return rates
        earlier = read_request(record.throttle, (), None)
        return replace(rates, given=earlier.given, rate=earlier.rate)

    def _run(
        self, plan: Plan, path: str, direction: Direction, undo: str, request: Request, reporter: Reporter
    ) -> Outcome:
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
