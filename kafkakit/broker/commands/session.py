"""One `kafkakit broker` command at work: connecting, locking, carrying plans out by `reassign`, telling the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkakit.cli.command_classes import Kit

if TYPE_CHECKING:
    from kafkakit.adapters.lock import FileLock
    from kafkakit.broker.act.elections import Held
    from kafkakit.broker.act.operation_files import Records
    from kafkakit.broker.decide.operation import Leg, Operation
    from kafkakit.broker.show import BrokerOutcome
    from kafkakit.cli.output import Output
    from kafkakit.core.plan import Plan
    from kafkakit.execution.decide.outcome import Direction, Outcome
    from kafkakit.ports.admin import ClusterAdmin
    from kafkakit.ports.clock import Clock
    from kafkakit.ports.reporter import ProgressBar, Reporter
    from kafkakit.reassign.commands.session import Options


@dataclass(frozen=True, kw_only=True)
class Site:
    """A cluster to look at, and this host's records of operations on it."""

    kit: Kit
    admin: ClusterAdmin
    clock: Clock
    cluster_id: str
    records: Records

    def lock(self, what: str) -> FileLock:
        """Keeps other processes of this host off the operation that `what` names, while it is entered."""
        from kafkakit.adapters.lock import FileLock
        from kafkakit.adapters.own_process import this_holder

        path = self.kit.settings.state_dir / "locks" / f"{self.cluster_id}.{what}.lock"
        who = str(this_holder(f"broker {what.replace('-', ' ', 1)}"))
        return FileLock(path, f"{what} on cluster {self.cluster_id}", who)


@contextmanager
def open_site(kit: Kit, what: str, *, dry_run: bool) -> Iterator[Site]:
    """Connect for reading, and make sure that no other process on this host works on such an operation.

    `what` names the operation, for the lock's file and for people. A dry run takes no lock and leaves no file.
    """
    from contextlib import ExitStack, closing

    from kafkakit.broker.act.operation_files import Records, operations_folder
    from kafkakit.core.cluster_id import cluster_id_problem
    from kafkakit.core.errors import InputError
    from kafkakit.wiring import open_admin, system_clock, write_file

    with ExitStack() as stack:
        admin = stack.enter_context(closing(open_admin(kit.settings, read_only=True)))
        cluster_id = admin.cluster().cluster_id
        if problem := cluster_id_problem(cluster_id):
            raise InputError("the cluster", problem)
        clock = system_clock()
        records = Records(operations_folder(kit.settings.state_dir, cluster_id), write_file, clock)
        site = Site(kit=kit, admin=admin, clock=clock, cluster_id=cluster_id, records=records)
        if not dry_run:
            stack.enter_context(site.lock(what))
        yield site


class ReassignRunner:
    """Carries plans out as `kafkakit reassign` does; `options` are those of its `apply`."""

    def __init__(self, site: Site, options: Options, *, again: str, undo_of: Callable[[Operation], str]) -> None:
        self._site, self._options, self._again, self._undo_of = site, options, again, undo_of

    def preview(self, plan: Plan, record: Operation | None) -> Outcome:
        """Every check of an apply and its schedule, from a file that goes away again."""
        from pathlib import Path
        from tempfile import TemporaryDirectory

        from kafkakit.core.documents import encode_plan
        from kafkakit.execution.decide.outcome import Direction

        with TemporaryDirectory(prefix="kafkakit-") as folder:
            path = Path(folder) / "plan.json"
            path.write_bytes(encode_plan(plan))
            options = self._remembering(record, None)
            return self._run(str(path), Direction.APPLY, self._again, self._again, options, dry_run=True)

    def run(self, operation: Operation, leg: Leg, direction: Direction, *, dry_run: bool = False) -> Outcome:
        """Carry one plan out or take it back, under the cluster's lease."""
        path = str(self._site.records.plan_path(leg))
        options = self._remembering(operation if direction == "apply" else None, leg)
        return self._run(path, direction, self._again, self._undo_of(operation), options, dry_run=dry_run, leg=leg)

    def _remembering(self, record: Operation | None, leg: Leg | None) -> Options:
        """The options with the throttle that the operation was begun with, where a plan has none of its own yet."""
        if record is None or self._options.throttle is not None or (leg is not None and self.begun(leg)):
            return self._options
        return replace(self._options, throttle=record.throttle)

    def begun(self, leg: Leg) -> bool:
        """True when the plan's journal has a run."""
        from kafkakit.execution.act.journal_file import DiskFile
        from kafkakit.execution.act.run_journal import journal_path, read_run_state

        site = self._site
        file = DiskFile(journal_path(site.kit.settings.state_dir, site.cluster_id, leg.identity))
        return read_run_state(file).runs > 0

    def _run(
        self,
        path: str,
        direction: Direction,
        again: str,
        undo: str,
        given: Options,
        *,
        dry_run: bool,
        leg: Leg | None = None,
    ) -> Outcome:
        from kafkakit.broker.decide.next_commands import OperationCommands
        from kafkakit.broker.decide.operation import LegKind
        from kafkakit.core.errors import RefusedError
        from kafkakit.core.plan import identity_of
        from kafkakit.execution.decide.outcome import Direction
        from kafkakit.reassign.act.run import Run
        from kafkakit.reassign.commands.session import open_job

        options = replace(given, yes=True, dry_run=dry_run)
        voice: Reporter = self._site.kit.output
        if leg is not None and leg.kind is LegKind.LEADERS:
            voice = voice if dry_run else _Terse(self._site.kit.output)
            options = replace(options, ingest_sample="0")  # nothing is copied
        with open_job(self._site.kit, path, options, command=f"{direction} for an operation on brokers") as job:
            if leg is not None and identity_of(job.plan) != leg.identity:
                raise RefusedError(f"{path} is not the plan that the record names", hint=f"plan anew: {again} --replan")
            base = job.request.commands
            commands = OperationCommands(
                program=base.program, plan=base.plan, run_options=base.run_options, again=again, undo=undo
            )
            request = replace(job.request, commands=commands)
            run = Run(job.plan, job.admin, job.clock, job.journal, voice, request, job.leftovers, job.orders)
            verbs = {Direction.APPLY: run.apply, Direction.ROLLBACK: run.rollback, Direction.ABORT: run.abort}
            return verbs[direction]()


class _Terse:
    """Keeps back the words about a schedule that copies nothing: the operation has said what passes on."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def say(self, line: str) -> None:
        del line

    def warn(self, line: str) -> None:
        self._output.warn(line)

    def progress(self, label: str) -> AbstractContextManager[ProgressBar]:
        return self._output.progress(f"leaderships: {label}")


@contextmanager
def claimed(kit: Kit, command: str) -> Iterator[Held]:
    """The cluster while nobody else changes it; `TryLaterError` says who does."""
    from kafkakit.broker.act.elections import Held
    from kafkakit.reassign.commands.cleanup import open_desk

    with open_desk(kit, command) as desk:
        yield Held(admin=desk.admin, clock=desk.clock)


def finish(kit: Kit, outcome: BrokerOutcome) -> None:
    """Print the result; what is not whole ends with exit code 1."""
    from kafkakit.broker.show import COLUMNS, outcome_data, outcome_rows, render_outcome
    from kafkakit.core.errors import OperationFailedError
    from kafkakit.report.report import Report

    kit.output.result(
        Report(
            command=f"broker {outcome.command}",
            data=outcome_data(outcome),
            text=render_outcome(outcome),
            columns=COLUMNS,
            rows=outcome_rows(outcome),
        )
    )
    if outcome.verdict == "declined":
        raise OperationFailedError("not confirmed, nothing was changed")
    if not outcome.ok:
        raise OperationFailedError(
            f"{outcome.command} is not complete: {outcome.problems[0]}"
            if outcome.verdict != "not safe to stop"
            else f"not safe to stop: {outcome.problems[0]}",
            hint=next(iter(outcome.next_commands), None),
        )
