"""The options of `kafkakit config`, and what the commands make of them.

Commands that watch a cluster and change it have options for how, with which metrics, restarts and rehearsals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.common_options import NO_TAGS, MetricsAccess, MetricsSource, TagSource
from kafkakit.cli.completion import complete_group_names, complete_profile_names, complete_setting_keys
from kafkakit.cli.run_options import Consent, change_question
from kafkakit.core.errors import UsageError
from kafkakit.core.options import REPEATED, command_record, option, parsed_option, texts
from kafkakit.core.text import shell_command
from kafkakit.rollout.decide.settings import NamedPlaces, StepChoice, join_option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
    from kafkakit.lint.api import FileReading, LintRequest, Pieces
    from kafkakit.ports.acting import Clock
    from kafkakit.ports.services import SampleQueries
    from kafkakit.rollout.act.rollouts import PlanTask, RolloutPorts
    from kafkakit.rollout.act.writing import GroupLag, RestartBroker
    from kafkakit.rollout.decide.plan import ConfigPlan, ConfigSide
    from kafkakit.rollout.decide.rollout import HealthQueries, WatchSettings


RunName = Annotated[
    str | None,
    typer.Argument(metavar="RUN", help="The rollout, as `config history` names it.", show_default=False),
]
PlanPath = Annotated[str, typer.Argument(metavar="PLAN", help="Plan file of `config plan`; - for stdin.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOptions:
    """What is to be changed, and where."""

    places: NamedPlaces = NamedPlaces()
    delete: tuple[str, ...] = parsed_option(
        None,
        "--delete",
        typed=REPEATED,
        parse=texts,
        metavar="KEY",
        autocompletion=complete_setting_keys,
        help="Remove the value of this key there. Repeatable.",
        recorded=join_option,
    )
    file: tuple[str, ...] = parsed_option(
        None,
        "--file",
        typed=REPEATED,
        parse=texts,
        metavar="PATH",
        help="Set what this file or folder declares; the kinds that lint reads. Repeatable.",
        recorded=join_option,
    )
    cluster_name: str | None = option(
        None, "--cluster-name", metavar="NAME", help="Which cluster of the files or findings it is."
    )
    finding: tuple[str, ...] = parsed_option(
        None,
        "--finding",
        typed=REPEATED,
        parse=texts,
        metavar="RULE|FINGERPRINT",
        help="Plan the settings that fix these lint findings. Repeatable.",
        recorded=join_option,
    )
    findings: Path | None = option(
        None,
        "--findings",
        metavar="FILE",
        help="Take the findings from this file, written by `lint -o json` or an audit.",
        recorded=True,
    )
    record: Mapping[str, str] = command_record()
    tags: TagSource = NO_TAGS

    def task(self, cli: CliContext, clock: Clock, words: list[str], size: StepChoice) -> PlanTask:
        """What is asked for, with the files read; `UsageError` for a file that cannot be used."""
        from kafkakit.rollout.act.rollouts import PlanTask
        from kafkakit.rollout.decide.plan import FINDINGS_LIMIT_BYTES
        from kafkakit.wiring import read_input

        core, every = _rules(clock)
        found = None
        if self.findings is not None:
            found = (str(self.findings), read_input(self.findings, FINDINGS_LIMIT_BYTES))
        return PlanTask(
            words=tuple(words),
            deleted=self.delete,
            places=self.places,
            files=pieces_of(self.file),
            cluster_name=self.cluster_name,
            findings=self.finding,
            findings_file=found,
            size=size,
            request=self._recorded(words, size),
            profile=cli.settings.profile,
            core=core,
            every=every,
        )

    def _recorded(self, words: list[str], size: StepChoice) -> dict[str, str]:
        given = {"values": " ".join(words)} if words else {}
        return {"command": self.record["command"], **given, **self.record, "steps": size.value}


@contextmanager
def open_mirror(cli: CliContext, profile: str, *, read_only: bool = False) -> Iterator[ClusterSession]:
    """A session on the cluster of another profile."""
    from kafkakit.cli.session import open_session

    with open_session(cli, read_only=read_only, settings=cli.load_settings(profile)) as session:
        yield session


def read_plan(path: str) -> ConfigPlan:
    """The plan in a file, - for stdin; `InputError` for one that is not sound."""
    from kafkakit.rollout.decide.plan import LIMIT_BYTES, decode_config_plan
    from kafkakit.wiring import read_input

    return decode_config_plan(read_input(path, LIMIT_BYTES), path)


def pieces_of(paths: Sequence[str]) -> tuple[Pieces, ...]:
    """What files declare; `UsageError` for a path that is not there or holds nothing that lint knows."""
    from kafkakit.lint.api_act import read_files
    from kafkakit.wiring import read_input

    if not paths:
        return ()
    readings: tuple[FileReading, ...] = read_files(paths, None, "stdin", read_input)
    broken = [p for r in readings for p in r.pieces.problems if p.rule in ("KKL001", "KKL007")]
    if broken or not readings:
        said = f"{broken[0].place.path}: {broken[0].message}" if broken else f"{paths[0]} holds no file that lint reads"
        raise UsageError(said, hint="docs/lint.md lists the kinds of files")
    return tuple(reading.pieces for reading in readings)


def side_of(cli: CliContext, session: ClusterSession, text: str) -> ConfigSide:
    """One side of a comparison: `live`, `profile:NAME`, `time:ISO`, or a path. Raises `UsageError`."""
    from kafkakit.rollout.act.writing import RolloutJournals, read_configs
    from kafkakit.rollout.decide.plan import at_time, side_of_cluster, side_of_files

    kind, _, rest = text.partition(":")
    if kind == "profile":
        if not rest:
            raise UsageError("profile: names no profile", hint="write profile:NAME")
        with open_mirror(cli, rest) as other:
            return side_of_cluster(f"profile {rest}", read_configs(other.admin, other.clock))
    if text != "live" and kind != "time":
        return side_of_files(text, pieces_of([text]))
    live = side_of_cluster(f"cluster {session.cluster_id}", read_configs(session.admin, session.clock))
    if kind != "time":
        return live
    try:
        moment = datetime.fromisoformat(rest)
    except ValueError:
        raise UsageError(f"{rest!r:.60} is not a time", hint="write time:2026-11-24T01:30:00Z") from None
    moment = moment if moment.tzinfo is not None else moment.astimezone()
    states = RolloutJournals(session.settings.state_dir, session.cluster_id, session.clock).states()
    writes = [write for _, state in states for write in state.writes]
    return at_time(live, writes, moment, f"{live.name} at {moment.isoformat()}")


def _rules(clock: Clock) -> tuple[LintRequest, LintRequest]:
    """The usual rules, and all of them."""
    from kafkakit.lint.api import LintChoice, RuleSet, lint_request
    from kafkakit.lint.api_act import read_config
    from kafkakit.wiring import read_input

    config, today = read_config(None, read_input), clock.now().date()
    make: Callable[[RuleSet], LintRequest] = lambda rules: lint_request(  # noqa: E731
        LintChoice(rule_set=rules), config, today
    )
    return make(RuleSet.CORE), make(RuleSet.STRICT)


KEY_PREFIX = "KAFKAKIT"
BROKERS_BASELINE = "5m"
METRICS_BASELINE = "1h"
USUAL_EVERY, DATADOG_EVERY = "5s", "20s"
NO_ACCESS = MetricsAccess()


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthWatchOptions:
    """How the cluster is watched, and what tells its health."""

    window: str = option("2m", "--window", metavar="DURATION", help="How long each step is watched.")
    every: str | None = option(
        None,
        "--every",
        metavar="DURATION",
        help=f"Time between two readings: {USUAL_EVERY}, and {DATADOG_EVERY} with Datadog, which limits queries.",
    )
    baseline: str | None = option(
        None,
        "--baseline",
        metavar="DURATION",
        help=f"How much history is the baseline: {METRICS_BASELINE} from a metrics service, {BROKERS_BASELINE} from "
        "the brokers (and then the command first waits that long).",
    )
    metrics: MetricsSource = option(
        MetricsSource.BROKERS, "--metrics", help="What tells latency, client errors and ISR changes."
    )
    prometheus_url: str = option(
        "http://localhost:9090", "--prometheus-url", metavar="URL", help="Address of the Prometheus server."
    )
    datadog_tags: str = option(
        "", "--datadog-tags", metavar="TAGS", help="Datadog: tags that choose the cluster: 'kafka_cluster:prod'."
    )
    group: list[str] | None = option(
        None,
        "--group",
        metavar="GROUP",
        autocompletion=complete_group_names,
        help="Also watch the lag of this consumer group. Repeatable.",
    )
    access: MetricsAccess = NO_ACCESS

    def settings(self, cli: CliContext, restart_with: str = "", settle: str = "5m") -> WatchSettings:
        """The texts as values; `UsageError` for a window of less than two looks, or a baseline that is shorter."""
        from kafkakit.core.quantities import parse_duration
        from kafkakit.rollout.decide.rollout import WatchSettings

        service = self.service(cli)
        usual = BROKERS_BASELINE if service is None else METRICS_BASELINE
        found = WatchSettings(
            window_s=parse_duration(self.window, "--window"),
            every_s=self._every_s(),
            baseline_s=parse_duration(self.baseline or usual, "--baseline"),
            source="" if service is None else service[0].source,
            settle_s=parse_duration(settle, "--settle"),
            restart_with=restart_with,
            groups=tuple(dict.fromkeys(self.group or ())),
        )
        if found.window_s < 2 * found.every_s:
            raise UsageError("--window must be at least twice --every")
        if found.baseline_s < found.window_s:
            raise UsageError("--baseline must not be shorter than --window")
        return found

    def _every_s(self) -> float:
        from kafkakit.core.quantities import parse_duration

        usual = DATADOG_EVERY if self.metrics is MetricsSource.DATADOG else USUAL_EVERY
        return parse_duration(self.every or usual, "--every")

    def service(self, cli: CliContext) -> tuple[SampleQueries, HealthQueries] | None:
        """The metrics service with what it is asked; None for the brokers alone."""
        from kafkakit.ports.services import RequestLimits
        from kafkakit.rollout.decide.rollout import datadog_queries, prometheus_queries

        every_s, warn = self._every_s(), cli.output.warn
        request_limits = RequestLimits(timeout_s=5.0, attempts=1)
        match self.metrics:
            case MetricsSource.BROKERS:
                return None
            case MetricsSource.PROMETHEUS:
                server = self.access.open_prometheus(self.prometheus_url, warn, warn, request_limits)
                return server, prometheus_queries(self.access.prometheus_selector, every_s)
        queries = datadog_queries(self.datadog_tags, every_s)
        span_s = max(60, round(2 * queries.stale_s))
        return self.access.open_datadog(span_s, warn, KEY_PREFIX, request_limits), queries


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartOptions:
    """What is done about settings that brokers read at start only."""

    restart_with: Path | None = option(
        None,
        "--restart-with",
        metavar="COMMAND",
        help="Run COMMAND BROKER KEY=VALUE..., which puts values into the broker's file (a bare KEY is taken out) and "
        "restarts it; it must be repeatable.",
    )
    leave_restarts: bool = option(False, "--leave-restarts", help="Change only what needs no restart.")
    settle: str = option(
        "5m", "--settle", metavar="DURATION", help="How long a restarted broker may take to get back in sync."
    )

    def command(self) -> str:
        """The command's absolute path, empty for none; `UsageError` for one that is not there."""
        if self.restart_with is None:
            return ""
        path = self.restart_with.absolute()
        if not path.is_file():
            raise UsageError(f"--restart-with {self.restart_with} is not a file")
        return str(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOptions:
    """Where the change is tried first."""

    rehearse: str | None = option(
        None,
        "--rehearse",
        metavar="PROFILE",
        help="Roll out on this mirrored cluster first, watched by its brokers; what passes stays there.",
        autocompletion=complete_profile_names,
    )
    accept_unlike: bool = option(
        False, "--accept-unlike", help="Rehearse although the mirrored cluster differs in version, brokers or topics."
    )


def stopped_text(cli: CliContext) -> tuple[str, str]:
    """What is said where a rollout is stopped, and the commands that continue it."""
    lines = (str(shell_command(f"config {word}", program=cli.program, yes=True)) for word in ("resume", "abort"))
    return "stopped; the rollout stays open", "\n".join(("continue it, or take it back:", *lines))


def rehearsal_stopped(cli: CliContext, profile: str) -> tuple[str, str]:
    """What is said where a rehearsal is stopped: the rollout that stays open is on the mirrored cluster."""
    abort = shell_command("config abort", program=cli.program_for(profile), yes=True)
    hint = f"give the same command again to go on, or take the rehearsal back:\n{abort}"
    return f"stopped; the rehearsal on profile {profile} stays open", hint


def confirm(cli: CliContext, consent: Consent, cluster_id: str, lines: Callable[[], Iterable[str]]) -> bool:
    """True with `--yes`, else when the operator agrees; `lines` say what is to be done, and are printed before."""
    if not consent.yes:
        cli.output.say("\n".join(lines()))
    return consent.confirm(cli, change_question(cli, cluster_id))


def confirm_begin(cli: CliContext, consent: Consent, cluster_id: str, lines: Iterable[str]) -> bool:
    """As `confirm`, for a rollout that begins with it: from then on, one that is stopped stays open."""
    is_agreed = confirm(cli, consent, cluster_id, lambda: lines)
    if is_agreed:
        cli.operation_words = stopped_text(cli)
    return is_agreed


def ports_of(
    session: ClusterSession,
    service: tuple[SampleQueries, HealthQueries] | None,
    restart_with: str = "",
    mirror: str | None = None,
) -> RolloutPorts:
    """What rollouts on the session's cluster work with; `restart_with` overrides what a journal kept.

    `mirror` is the session's profile where that is not the one of the command.
    """
    from kafkakit.rollout.act.rollouts import RolloutPorts

    def make_restart(clock: Clock, settings: WatchSettings) -> RestartBroker | None:
        from kafkakit.rollout.act.writing import RestartCommand
        from kafkakit.wiring import this_machine

        command = restart_with or settings.restart_with
        if not command:
            return None
        processes = this_machine(session.cli.folders.cache).processes
        log_file = session.settings.state_dir / "config-restarts.log"
        log_file.parent.mkdir(parents=True, exist_ok=True)
        return RestartCommand(processes, clock, command, str(log_file), settings.settle_s)

    return RolloutPorts(
        state_dir=session.settings.state_dir,
        reporter=session.cli.output,
        by=session.requester,
        make_restart=make_restart,
        service=service,
        open_lag=lambda names: open_lag(session, names),
        program=session.cli.program if mirror is None else session.cli.program_for(mirror),
    )


def open_lag(session: ClusterSession, names: Sequence[str]) -> GroupLag:
    """The reader of the lag of groups on the session's cluster."""
    from kafkakit.rollout.act.writing import GroupLag

    return GroupLag(session.groups, session.log, session.clock, names)
