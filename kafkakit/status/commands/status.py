"""`kafkakit status`."""

from __future__ import annotations

import shlex
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.common_options import PodsFile
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.core.findings import FailOn
from kafkakit.core.options import option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkakit.cli.context import CliContext
    from kafkakit.config.read.settings import Settings
    from kafkakit.core.errors import KafkakitError
    from kafkakit.core.lease import HeldLease
    from kafkakit.fleet.api_act import FleetCluster
    from kafkakit.kubernetes.brokers import ClusterPods
    from kafkakit.status.act.reading import HistoryFile, Reader, StatusSources
    from kafkakit.status.decide.ignore import IgnoreRules
    from kafkakit.status.decide.judgement import ClusterStatus
    from kafkakit.status.decide.surroundings import LintSummary
    from kafkakit.streams.lag.api import LimitRules, SavedGroups

app = new_group("Show at a glance what is wrong with a cluster.")
LINT_LIMIT_BYTES = 1 << 20
WATCH_EVERY_S, CLUSTERS_AT_ONCE = 5.0, 16
DEEP_LIMIT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRequest:
    """Which clusters, and in which form."""

    clusters: str | None = option(
        None, "--clusters", metavar="PROFILE,...", help="Read the clusters of these profiles, as one table."
    )
    fleet: Path | None = option(
        None, "--fleet", metavar="FILE", help="Read the clusters of this file (docs/fleet.md), as one table."
    )
    watch: bool = option(False, "--watch", "-w", help="Read again every 5 seconds until Ctrl-C.")
    until_ok: bool = option(
        False,
        "--until-ok",
        help="Read again until all is known and there is no finding of --fail-on; --timeout limits the wait.",
    )
    fail_on: FailOn = option(
        FailOn.ERROR, "--fail-on", help="Exit with 1 for a finding of this severity or a worse one."
    )
    nagios: bool = option(False, "--nagios", help="One line and exit codes as Nagios' plugins have them: 0, 1, 2, 3.")
    deep: bool = option(False, "--deep", help="Measure how far groups are behind in time, which takes some seconds.")
    limits: Path | None = option(
        None, "--limits", metavar="FILE", help="YAML file with limits of groups' lag, as `streams lag check` takes it."
    )
    ignore: list[str] | None = option(
        None,
        "--ignore",
        metavar="KIND:GLOB",
        help="Count findings of this kind about these names, and do not show them (group:test-*). Repeatable.",
    )

    @property
    def is_fleet(self) -> bool:
        """Whether clusters are shown as one table."""
        return self.clusters is not None or self.fleet is not None

    def bears(self, error: KafkakitError) -> bool:
        """Whether a cluster that cannot be opened is shown as one, beside others.

        Profiles that are named on the command line are there, or it is mistyped; their files may be damaged.
        """
        from kafkakit.core.errors import InputError, UsageError

        is_mistyped = isinstance(error, UsageError) and not isinstance(error, InputError)
        return self.is_fleet and not (self.clusters is not None and is_mistyped)

    def ignored(self, settings: Settings) -> IgnoreRules:
        """The findings that are not shown; `UsageError` for a kind that does not exist."""
        from kafkakit.status.decide.ignore import parse_ignored
        from kafkakit.status.decide.judgement import CHECKS

        given = {"status.ignore": settings.ignored_findings, "--ignore": tuple(self.ignore or ())}
        return parse_ignored(given, [rule.name for rule in CHECKS])

    def lag_limits(self, settings: Settings) -> LimitRules | None:
        """The limits of groups' lag, by `--limits` or else the profile; without a file there are none."""
        file = self.limits or settings.lag_limits
        if file is None:
            return None
        from kafkakit.streams.lag.api import LIMIT_BYTES, LIMIT_KEYS, JudgedBound, read_limit_rules
        from kafkakit.wiring import read_input

        words = dict.fromkeys(LIMIT_KEYS, None)
        return read_limit_rules(read_input(file, LIMIT_BYTES), str(file), words, JudgedBound.LOW)

    def check(self) -> None:
        """Raise `UsageError` for options that do not go together."""
        from kafkakit.core.errors import UsageError

        if self.clusters is not None and self.fleet is not None:
            raise UsageError("--clusters and --fleet both name the clusters", hint="give one of them")
        if self.watch and (self.nagios or self.until_ok):
            raise UsageError("--watch never ends by itself", hint="leave out --nagios and --until-ok, or --watch")

    def chosen(self, cli: CliContext) -> tuple[StatusClusters, ...]:
        """The clusters by name; what hinders one is raised when its settings are asked for."""
        from kafkakit.core.errors import UsageError

        if self.fleet is not None:
            return _of_fleet(cli, self.fleet)
        if self.clusters is None:
            name = cli.settings.profile or cli.settings.bootstrap_servers or "cluster"
            return (StatusClusters(name=name, settings=lambda: cli.settings, program=cli.program),)
        names = list(dict.fromkeys(name.strip() for name in self.clusters.split(",") if name.strip()))
        if not names:
            raise UsageError("--clusters names no profile", hint="their names: kafkakit profile list")
        return tuple(
            StatusClusters(name=name, settings=partial(cli.load_settings, name), program=cli.program_for(name))
            for name in names
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusClusters:
    """One cluster: its name, what its settings are read by, and how kafkakit is called for it."""

    name: str
    settings: Callable[[], Settings]
    program: str


@app.command("status", cls=CliCommand)
@with_option_groups
def status(ctx: typer.Context, request: StatusRequest, place: PodsFile) -> int:
    """Show on one screen what is wrong with a cluster, worst first, each with the command that shows more or mends it.

    Exits with 0 when there is no error, 1 when there is one, 75 when brokers, controllers or partitions cannot be
    read, 2 for a login or settings that are refused.

    Examples:

    \b
    kafkakit --profile prod status
    kafkakit status --clusters prod,staging -o json
    kafkakit --profile prod status --until-ok --timeout 10m
    kafkakit --profile prod status --pods pods.json
    """
    from kafkakit.cli.session import finish
    from kafkakit.core.errors import UsageError
    from kafkakit.status.report.status import nagios_report, status_report

    cli = cli_context(ctx)
    request.check()
    if place.pods is not None and request.is_fleet:
        raise UsageError("--pods is about one cluster", hint="leave out --clusters and --fleet")
    pods = place.source()
    with _readers(cli, request, pods) as readers, _history(cli) as history:
        is_watch = request.watch or request.until_ok
        clusters = _watch(cli, readers, history, request) if is_watch else _read_all(readers, history)
    if request.nagios:
        return finish(cli, nagios_report(clusters, fail_on=request.fail_on))
    report = status_report(clusters, fail_on=request.fail_on, width=_width(), is_fleet=request.is_fleet)
    return finish(cli, report)


def read_status(cli: CliContext, place: PodsFile) -> tuple[ClusterStatus, ...]:
    """The status of the cluster of the invocation."""
    with _readers(cli, StatusRequest(), place.source()) as readers, _history(cli) as history:
        return _read_all(readers, history)


@contextmanager
def _history(cli: CliContext) -> Iterator[HistoryFile]:
    """The memory of this host, which is written at the end at the latest."""
    from kafkakit.status.act.reading import HistoryFile
    from kafkakit.wiring import read_input, write_file

    history = HistoryFile(cli.folders.state / "status", read_input, write_file)
    try:
        yield history
    finally:
        history.save()


def _watch(
    cli: CliContext, readers: Sequence[Reader], history: HistoryFile, request: StatusRequest
) -> tuple[ClusterStatus, ...]:
    """Read again and again; comes back only where `--until-ok` is reached."""
    from kafkakit.core.errors import ExitCode
    from kafkakit.ports.acting import pause
    from kafkakit.status.act.reading import pause_after
    from kafkakit.status.decide.judgement import exit_code
    from kafkakit.status.report.status import status_report, watch_line
    from kafkakit.wiring import system_clock

    clock, before, denied = system_clock(), "", False
    with cli.output.screen(colored=True) as screen:
        while True:
            began_s = clock.monotonic()
            clusters = _read_all(readers, history)
            is_known = not any(cluster.unread for cluster in clusters)
            if request.until_ok and is_known and exit_code(clusters, request.fail_on) is ExitCode.DONE:
                return clusters
            if request.until_ok:
                denied = _refuse_hidden(clusters, denied)
            report = status_report(clusters, fail_on=request.fail_on, width=_width(), is_fleet=request.is_fleet)
            line = watch_line(clusters)
            if cli.output.animate or line != before:
                screen.show(report.text, line)
            before = line
            pause(clock, pause_after(clock.monotonic() - began_s, WATCH_EVERY_S))


def _refuse_hidden(clusters: Sequence[ClusterStatus], was_denied: bool) -> bool:
    """Whether all that is not known is hidden from this user; the second time in a row `MissingRightError`."""
    from kafkakit.core.errors import MissingRightError

    unread = [(cluster.reading.profile, part) for cluster in clusters for part in cluster.unread]
    is_denied = bool(unread) and all(part.is_denied for _, part in unread)
    if is_denied and was_denied:
        name, part = unread[0]
        raise MissingRightError(
            f"{name}: {part.name.value} cannot become known: {part.error}",
            hint="grant that, or watch without waiting: kafkakit status --watch",
        )
    return is_denied


def _read_all(readers: Sequence[Reader], history: HistoryFile) -> tuple[ClusterStatus, ...]:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(CLUSTERS_AT_ONCE, len(readers))) as pool:
        readings = list(pool.map(lambda reader: reader.read(), readers))
    return tuple(map(history.judge, readings))


def _of_fleet(cli: CliContext, file: Path) -> tuple[StatusClusters, ...]:
    from kafkakit.fleet.api_act import LIMIT_BYTES, read_fleet
    from kafkakit.wiring import read_input

    found = []
    for entry in read_fleet(read_input(file, LIMIT_BYTES), str(file)):
        if entry.bootstrap_servers is None:
            program = cli.program_for(entry.profile or entry.name)
        else:
            config = (
                [] if entry.command_config is None else ["--command-config", str(file.parent / entry.command_config)]
            )
            program = shlex.join(["kafkakit", "--bootstrap-server", entry.bootstrap_servers, *config])
        settings = partial(_in_fleet, cli, entry, file.parent)
        found.append(StatusClusters(name=entry.name, settings=settings, program=program))
    return tuple(found)


def _in_fleet(cli: CliContext, entry: FleetCluster, folder: Path) -> Settings:
    from kafkakit.fleet.api_act import invocation_of

    return cli.settings_of(invocation_of(cli.given, entry, folder))


@contextmanager
def _readers(
    cli: CliContext, request: StatusRequest, pods: Callable[[], ClusterPods] | None
) -> Iterator[tuple[Reader, ...]]:
    """A reader for each cluster; in a fleet, one that cannot be opened has a reader that says why."""
    from kafkakit.core.errors import KafkakitError
    from kafkakit.status.act.reading import StatusReader, UnreadableCluster
    from kafkakit.wiring import load_clients, system_clock

    load_clients()  # each cluster is read in threads
    with ExitStack() as stack:
        readers: list[Reader] = []
        for choice in request.chosen(cli):
            try:
                reader: Reader = StatusReader(cluster_sources(cli, stack, choice, request, pods))
            except KafkakitError as error:
                if not request.bears(error):
                    raise
                reader = UnreadableCluster(choice.name, error, system_clock())
            stack.callback(reader.close)
            readers.append(reader)
        yield tuple(readers)


def cluster_sources(
    cli: CliContext,
    stack: ExitStack,
    choice: StatusClusters,
    request: StatusRequest,
    pods: Callable[[], ClusterPods] | None = None,
) -> StatusSources:
    """Where the status of a cluster is read; raises what hinders its settings from being used."""
    from kafkakit import wiring
    from kafkakit.adapters.host import life_of
    from kafkakit.adapters.lock import locked_by
    from kafkakit.cli.session import open_session
    from kafkakit.core.errors import InputError
    from kafkakit.execution.act.leases import LeaseReader
    from kafkakit.execution.act.retrier import cordon_reasons
    from kafkakit.execution.act.run_journal import KnownRuns
    from kafkakit.status.act.reading import PART_LIMIT_S, StatusSources, lint_result, operations_of, services_of

    settings, program = choice.settings(), choice.program
    limited = settings.within(PART_LIMIT_S)
    session = stack.enter_context(open_session(cli, read_only=True, settings=limited))
    security = wiring.usable_security(settings)

    def lease(cluster_id: str) -> HeldLease | None:
        holder = partial(locked_by, session.host_lock(cluster_id))
        reader = LeaseReader(lambda: session.control_view, cluster_id, life_of, holder, cli.output)
        return reader.read() or (None if reader.is_known else HeldLease(is_known=False))

    def lint(cluster_id: str) -> LintSummary | None:
        try:
            data = wiring.read_input(settings.state_dir / "lint" / f"{cluster_id}.json", LINT_LIMIT_BYTES)
        except (InputError, OSError):
            return None
        from kafkakit.lint.api import read_kept_findings  # its modules take a quarter of a second to load

        return lint_result(read_kept_findings(data))

    return StatusSources(
        profile=choice.name,
        program=program,
        clock=wiring.system_clock(),
        open_admin=lambda: wiring.open_admin(limited, read_only=True),
        open_groups=lambda: wiring.open_groups(limited, read_only=True),
        open_log=lambda: wiring.open_log(limited),
        runs=lambda cluster_id: KnownRuns(settings.state_dir, cluster_id),
        lease=lease,
        lint=lint,
        sandbox=_sandbox_of(settings),
        pods=pods,
        operations=lambda cluster_id: operations_of(session.control_view, program),
        lag=_lag_source(cli, choice.name, settings, deep=request.deep),
        is_deep=request.deep,
        limits=request.lag_limits(settings),
        ignore=request.ignored(settings),
        cordoned=lambda cluster_id: cordon_reasons(session.control_view, cluster_id),
        services=lambda cluster_id: services_of(session.control_view, wiring.system_clock(), cluster_id, life_of),
        certificate_until=(lambda host, port: wiring.certificate_end(host, port, PART_LIMIT_S, security))
        if security.protocol.uses_tls
        else None,
    )


def _lag_source(cli: CliContext, name: str, settings: Settings, *, deep: bool) -> Callable[[str], SavedGroups | None]:
    """What a lag monitor saved on this host, or what is measured now."""
    folder = settings.state_dir / "lag"
    return partial(_measure_lag, cli, name, settings, folder) if deep else partial(_saved_lag, folder)


def _saved_lag(folder: Path, cluster_id: str) -> SavedGroups | None:
    if not folder.is_dir():  # most hosts have no monitor, and its modules take a tenth of a second to load
        return None
    from kafkakit.streams.lag.api_act import StateFiles
    from kafkakit.wiring import read_input, write_file

    return StateFiles(folder, read_input, write_file).load_groups(cluster_id)


def _measure_lag(cli: CliContext, name: str, settings: Settings, folder: Path, cluster_id: str) -> SavedGroups:
    from kafkakit.streams.lag.api_act import (
        ONCE_PACE,
        MonitorContext,
        MonitoredCluster,
        StateFiles,
        measure_groups,
        read_topic_facts,
    )
    from kafkakit.wiring import open_admin, open_groups, open_log, read_input, system_clock, write_file

    cluster = MonitoredCluster(
        name=name,
        open_reader=partial(open_log, settings),
        facts_of=partial(read_topic_facts, partial(open_admin, settings, read_only=True, check_pin=False)),
        open_groups=partial(open_groups, settings, read_only=True),
        pinned_id=cluster_id,
    )
    states = StateFiles(folder, read_input, write_file)
    context = MonitorContext(clock=system_clock(), warn=cli.output.warn, states=states, pace=ONCE_PACE)
    return measure_groups(cluster, context, wait_s=DEEP_LIMIT_S)


def _sandbox_of(settings: Settings) -> str:
    """The sandbox of this host that the settings lead to; empty for another cluster."""
    if not (settings.state_dir / "sandbox").is_dir():  # most hosts have none
        return ""
    from kafkakit.core.errors import KafkakitError
    from kafkakit.sandbox.api_act import store_of

    try:
        state = store_of(settings.profile or "", settings.state_dir, settings.config_dir).load()
    except KafkakitError:
        return ""
    is_there = state is not None and state.layout.bootstrap_servers == settings.bootstrap_servers
    return settings.profile or "" if is_there else ""


def _width() -> int:
    """The columns of the terminal; those of a wide one where the result goes elsewhere."""
    import shutil
    import sys

    return shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else 120
