"""The options of commands that carry plans out (`reassign`, `broker`), and what they mean.

Plan files and runs are arguments of these commands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.option_groups import option_words, quoted_words
from kafkakit.core.options import duration_option, option, options_given
from kafkakit.core.text import shell_command
from kafkakit.execution.decide.run_rules import WITHOUT_LEASE_HELP, RunRules, ScheduleLimits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
    from kafkakit.core.plan import Plan
    from kafkakit.execution.act.journal_files import DiskFile
    from kafkakit.execution.decide.journal import RunState
    from kafkakit.execution.decide.runs import Request
    from kafkakit.execution.decide.schedule.work import RateRequest
    from kafkakit.kubernetes.operators import OperatorFile


ThrottleBroker = Annotated[
    list[str] | None,
    typer.Option(
        "--throttle-broker",
        metavar="ID:RATE|ID:in=RATE,out=RATE",
        help="Set rates of one broker, for what it receives, what it sends, or both: 3:10MB, "
        "3:in=10MB,out=40MB. Repeatable.",
    ),
]
ThrottleDirs = Annotated[
    str | None,
    typer.Option(
        "--throttle-dirs",
        metavar="RATE",
        help="Limit the copying between log dirs inside each broker; `none` removes that limit.",
    ),
]
WithoutLease = Annotated[bool, typer.Option("--without-lease", help=WITHOUT_LEASE_HELP)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]
"""Of a command that changes something and never asks: a service, the job of a timer, an emergency brake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """Whether anything is done, and whether it is confirmed beforehand."""

    yes: bool = option(False, "--yes", "-y", help="Do not ask for confirmation; required if no input is possible.")
    dry_run: bool = option(
        False, "--dry-run", help="Run every check and show the changes, with a client that cannot write."
    )

    def confirm(self, cli: CliContext, question: str) -> bool:
        """True with `--yes`, else when the answer typed on the terminal is `yes`."""
        return self.yes or cli.output.ask_typed(question)

    def confirm_on(self, cli: CliContext, cluster_id: str, question: str) -> bool:
        """As `confirm`, with the cluster and the profile in use after the question."""
        from kafkakit.report.report import cluster_words

        words = cluster_words(cluster_id, cli.settings.profile)
        return self.confirm(cli, f"{question} {words[0].upper()}{words[1:]}.")

    def is_possible(self, cli: CliContext) -> bool:
        """False if a confirmation will be needed and cannot be given."""
        return self.yes or self.dry_run or cli.input_allowed

    def require_possible(self, cli: CliContext) -> None:
        """Raise `RefusedError` if a confirmation will be needed and cannot be given, before work that takes effect.

        Commands that only read before they ask need no call: the question itself is refused, after the validation.
        """
        from kafkakit.cli.output import CONSENT_HINT
        from kafkakit.core.errors import RefusedError

        if not self.is_possible(cli):
            raise RefusedError("confirmation needed, but no input is possible here", hint=CONSENT_HINT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """Who else must agree to a plan."""

    approve_with: str = option(
        "",
        "--approve-with",
        metavar="COMMAND",
        help="Run this command with the plan on stdin; only when it prints `approved` and the plan's hash is anything "
        "done. `cat FILE` takes an answer that was given before.",
    )

    def words(self, cli: CliContext, sha256: str, plan: Mapping[str, object]) -> str:
        """Who approved the plan, empty where no approval is asked for; `RefusedError` without one."""
        from kafkakit.core.journal_lines import read_approval
        from kafkakit.wiring import ask_approver

        if not self.approve_with:
            return ""
        cli.output.say(f"approval of plan {sha256} by {self.approve_with}")
        return read_approval(ask_approver(self.approve_with, plan), sha256)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleOptions:
    """Throttles of a run, as typed."""

    throttle: str | None = option(
        None,
        "--throttle",
        metavar="RATE",
        help="Limit the copying on each broker to this many bytes a second (20MB, 20MiB, 500kB), on the moved "
        "replicas only; `none` removes a throttle that an interrupted run left. Without the option such a one is "
        "kept.",
    )
    throttle_broker: ThrottleBroker = None
    throttle_dirs: ThrottleDirs = None

    def request(self) -> RateRequest:
        """The texts as rates; raises `UsageError` for one that cannot be read."""
        from kafkakit.execution.decide.schedule.work import read_request

        return read_request(self.throttle, self.throttle_broker or (), self.throttle_dirs)


OPERATORS_EVERY_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherOperators:
    """What tells whether another tool moves replicas or restarts brokers: Strimzi, Cruise Control, evictions."""

    operators: list[str] | None = option(
        None,
        "--operators",
        metavar="FILE",
        help="Do nothing, and exit with 75, while Strimzi or Cruise Control is at work: what `kubectl get "
        "kafkarebalances,kafkas,pods -o json` printed, or Cruise Control's answer for substates=executor&json=true. "
        "Repeatable; - for stdin.",
    )
    operators_cluster: str = option(
        "", "--operators-cluster", metavar="NAME", help="The Kafka that is meant, if such a file has several."
    )
    wait_s: float | None = duration_option(
        None,
        "--wait-for-operators",
        help="Read the files of --operators again and again until nobody is at work, for so long at most; something "
        "else has to write them anew.",
    )
    given: tuple[tuple[str, str | None], ...] = options_given()

    def require_quiet(self, cli: CliContext, cluster_id: str, *, dry_run: bool = False) -> None:
        """Raise `TryLaterError` while somebody is at work, or still is at the end of the wait; a dry run only warns."""
        from kafkakit.core.errors import TryLaterError, UsageError
        from kafkakit.kubernetes.operators import require_quiet
        from kafkakit.ports.acting import look_until
        from kafkakit.wiring import system_clock

        names, limit_s = self.operators or [], 0.0 if dry_run or self.wait_s is None else self.wait_s
        if not names and (self.wait_s is not None or self.operators_cluster):
            raise UsageError("--operators-cluster and --wait-for-operators require --operators FILE")
        if self.wait_s is not None and "-" in names:
            raise UsageError("--wait-for-operators reads files again, which stdin cannot be")
        if not names:
            return
        told = set[str]()

        def look() -> TryLaterError | None:
            files = self._read(cli, names, cluster_id, told)
            try:
                require_quiet(files)
            except TryLaterError as error:
                busy = next(each.words for file in files for each in file.busy)
                if limit_s and busy not in told:
                    told.add(busy)
                    cli.output.say(f"waiting: {busy}")
                return error
            return None

        found = look_until(system_clock(), limit_s, look, lambda error: error is None, OPERATORS_EVERY_S)
        if found is not None and dry_run:
            cli.output.warn(str(found))
        elif found is not None:
            raise found

    def _read(self, cli: CliContext, names: list[str], cluster_id: str, told: set[str]) -> list[OperatorFile]:
        from pathlib import Path

        from kafkakit.kubernetes.objects import MAX_OBJECTS_BYTES
        from kafkakit.kubernetes.operators import read_operators
        from kafkakit.wiring import read_input, system_clock

        found = []
        for name in names:
            data, source, age_s = read_input(name, MAX_OBJECTS_BYTES), "stdin", None
            if name != "-":
                source, age_s = name, max(0.0, system_clock().now().timestamp() - Path(name).stat().st_mtime)
            file = read_operators(data, source, cluster_id, self.operators_cluster, age_s)
            for note in file.notes:
                if note not in told:
                    cli.output.say(f"note: {source}: {note}")
            if file.is_stale and source not in told:
                cli.output.warn(f"{source} is {file.age_words.removeprefix(', ')}: it does not show what began since")
            told.update((*file.notes, source))
            found.append(file)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionOptions:
    """All options of a command that carries plans out."""

    consent: Consent = Consent()
    rates: ThrottleOptions = ThrottleOptions()
    limits: ScheduleLimits = ScheduleLimits()
    rules: RunRules = RunRules()
    others: OtherOperators = OtherOperators()


def change_question(cli: CliContext, cluster_id: str) -> str:
    """What is asked before a cluster is changed: its id, and the profile in use."""
    from kafkakit.report.report import cluster_words

    return f"Change {cluster_words(cluster_id, cli.settings.profile)}?"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPlan:
    """A plan, how a command line names it (quoted), and the file that its run is recorded with."""

    plan: Plan
    words: str
    path: str


def run_request(cli: CliContext, named: NamedPlan | None, cluster_id: str, options: ExecutionOptions) -> Request:
    """The options as the request for a run; raises `UsageError` for a text that cannot be read.

    Without a plan it is a template: `commands.plan` and `plan_path` are to be replaced.
    """
    from kafkakit.execution.decide.runs import Commands, Request

    consent, rates, limits, rules = options.consent, options.rates, options.limits, options.rules
    given = (*limits.given, *rules.given, *options.others.given)
    return Request(
        commands=Commands(
            program=cli.program,
            plan="-" if named is None else named.words,
            run_options=tuple(sorted(quoted_words(given), key=_has_value)),
            throttle_options=option_words(rates),
        ),
        plan_path="-" if named is None else named.path,
        confirm=lambda: consent.confirm(cli, change_question(cli, cluster_id)),
        pinned_cluster_id=cli.settings.cluster_id,
        rates=rates.request(),
        limits=limits,
        rules=rules,
        dry_run=consent.dry_run,
        note_stop_words=cli.note_stop_words,
    )


def _has_value(word: str) -> bool:
    """False for switches, which come first."""
    return " " in word


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
                hint="put the file back, or close the run:\n"
                f"{shell_command('reassign close', program=cli.program, run=state.run_id)}",
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
