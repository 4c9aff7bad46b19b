"""Plan files and runs as arguments of commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
    from kafkakit.core.plan import Plan
    from kafkakit.execution.act.journal_files import DiskFile
    from kafkakit.execution.decide.journal import RunState

PlanFile = Annotated[str, typer.Argument(metavar="PLAN", help="Plan file made with --plan; - for stdin.")]
MaybePlan = Annotated[
    str | None,
    typer.Argument(
        metavar="PLAN",
        help="Plan file of the run, - for stdin; if not given, the active run, or the only unfinished one.",
    ),
]
RunId = Annotated[
    str,
    typer.Option("--run", metavar="ID", help="The run with this id, which `reassign status` prints, without its plan."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPlan:
    """A plan, how a command line names it (quoted), and the file that its run is recorded with."""

    plan: Plan
    words: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChoice:
    """A run by its plan file or its id, or the one that can be meant."""

    plan_file: MaybePlan = None
    run: RunId = ""

    def journal(
        self, cli: CliContext, session: ClusterSession, verb: str, token: Callable[[], int | None] = lambda: None
    ) -> tuple[DiskFile, RunState]:
        """The journal of the run; raises `UsageError`. `token` reads the active run's fencing token."""
        from kafkakit.core.errors import UsageError
        from kafkakit.execution.act.run_journal import find_run, plan_journal_file, read_run_state

        state_dir = cli.settings.state_dir
        if self.plan_file and self.run:
            raise UsageError("a plan file and --run exclude each other", hint="name one of them")
        if self.plan_file:
            plan = read_plan(self.plan_file)
            file = plan_journal_file(plan, state_dir)
            return file, read_run_state(file)
        command = f"{cli.program} reassign {verb}"
        return find_run(state_dir, session.cluster_id, self.run, None if self.run else token(), command)

    def read(
        self, cli: CliContext, session: ClusterSession, verb: str, token: Callable[[], int | None] = lambda: None
    ) -> NamedPlan:
        """The plan of the run; raises `UsageError` when no run is meant, and when its plan was not kept."""
        from kafkakit.core.errors import UsageError
        from kafkakit.core.plan_rules import check_plan
        from kafkakit.execution.act.run_journal import plan_of

        if self.plan_file and not self.run:
            return named_plan(self.plan_file)
        file, state = self.journal(cli, session, verb, token)
        plan = plan_of(file.path, state)
        if plan is None:
            raise UsageError(
                f"the plan of {state.name} is not kept here, and its file is another one by now, or gone",
                hint=f"put the file back, or close the run:\n{cli.program} reassign close --run {state.run_id}",
            )
        check_plan(plan, f"the plan of run {state.run_id}")
        return NamedPlan(plan=plan, words=f"--run {state.run_id}", path=state.plan_path)


def named_plan(plan_file: str) -> NamedPlan:
    """The plan in a file, `-` for stdin; raises `InputError` for one that is not sound."""
    return name_plan(read_plan(plan_file), plan_file)


def name_plan(plan: Plan, plan_file: str) -> NamedPlan:
    """A plan that was read from that file."""
    from pathlib import Path

    from kafkakit.core.plan import identity_of
    from kafkakit.core.text import quote
    from kafkakit.execution.decide.journal import run_id_of

    if plan_file == "-":  # what was on stdin is not there for the next command, the run's own copy is
        return NamedPlan(plan=plan, words=f"--run {run_id_of(identity_of(plan))}", path="-")
    return NamedPlan(plan=plan, words=quote(plan_file), path=str(Path(plan_file).absolute()))


def read_plan(plan_file: str) -> Plan:
    """The plan in a file, `-` for stdin; raises `InputError` for one that is not sound."""
    from kafkakit.core import plan_rules
    from kafkakit.wiring import read_input

    return plan_rules.read_plan(plan_file, read_input)
