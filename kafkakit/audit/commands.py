"""`kafkakit audit`: submit a run and follow it, look after runs, read their results, print what a scheduler needs.

`audit here|NAME`, `audit status|list|logs|fetch|cancel`, `audit report|diff|metrics|fixes` and `audit unit`, with their
options.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.audit.act import cancel, fetch, look_all, place_of, read_state, read_view, read_whole, run_location
from kafkakit.audit.decide.launch import ALL, JOBS, DailySchedule, Scheduler, SparkChoice
from kafkakit.audit.decide.request import AuditRequest, HereRequest, parameters_of
from kafkakit.audit.report.results import diff_report, list_report, run_report, run_state_report, text_report
from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.common_options import PodsFile, absolute_path, driver_ports
from kafkakit.cli.context import CliContext
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.output import OutputFormat
from kafkakit.cli.session import finish, open_session
from kafkakit.core.errors import OperationFailedError, TryLaterError, UsageError
from kafkakit.core.findings import FailOn
from kafkakit.core.options import option
from kafkakit.core.quantities import count_of
from kafkakit.wiring import open_datadog, open_run_store, system_clock, write_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkakit.audit.act import DriverPorts, SubmitTask
    from kafkakit.audit.decide.runs import AuditState
    from kafkakit.audit.report.results import AuditView
    from kafkakit.core.findings import AuditFinding
    from kafkakit.report.report import Report


GROUP_HELP = "Audit whole fleets with Spark: submit jobs, follow runs, read results."
app = new_group(GROUP_HELP)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMode:
    """How the run is followed."""

    dry_run: bool = option(False, "--dry-run", help="Print what would be started, and start nothing.")
    detach: bool = option(False, "--detach", help="Print the run's folder and leave it running.")
    again: bool = option(False, "--again", help="Run even if the same run has a result.")
    fail_on: FailOn = option(FailOn.WARNING, "--fail-on", help="Exit 1 with findings of this severity or worse.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFormat:
    """The format of the result; `--output` is where the run's results go."""

    format: OutputFormat | None = option(
        None, "-o", "--format", envvar="KAFKAKIT_OUTPUT", help="Format of the result; text when not given."
    )

    def take_over(self, cli: CliContext) -> None:
        """Write the result in this format."""
        if self.format is not None:
            cli.take("output", self.format.value, "flag -o")


@with_option_groups
def audit(ctx: typer.Context, request: AuditRequest, spark: SparkChoice, mode: RunMode, result: ResultFormat) -> int:
    """Results go to OUTPUT/RUN as Parquet, summary.json last. A run that has a result is not run again while its
    snapshots stay the same. Exits 0 without findings of --fail-on or worse, 1 with some or with a failed job, 75 while
    another process runs it.

    Examples:

    \b
    kafkakit audit all --input snapshots --output results
    kafkakit audit drift --input s3a://fleet/snapshots --output s3a://fleet/results --backend spark-submit --master yarn
    kafkakit audit all --input snapshots --output results --dry-run
    """

    cli = cli_context(ctx)
    result.take_over(cli)
    return finish(cli, submitted_report(ctx, str(ctx.info_name), request, spark, mode))


FailOnOption = Annotated[FailOn, typer.Option("--fail-on", help="Exit 1 with findings of this severity or worse.")]


@with_option_groups
def audit_here(
    ctx: typer.Context,
    here: HereRequest,
    fail_on: FailOnOption = FailOn.WARNING,
) -> int:
    """Read one live cluster, audit it and show what was found, in one command.

    Reads as kafkakit fleet collect does and changes nothing. Snapshots and results stay in a folder of the cluster,
    so that the next day's run says what is new and sees what drifted. Exits 0 without findings of --fail-on or worse,
    1 with some, with a failed audit, or if the cluster could not be read.

    Examples:

    \b
    kafkakit audit here -B broker-1:9092
    kafkakit --profile prod-a audit here --html audit.html
    kafkakit audit here --jobs drift,retention --fail-on error
    """
    cli = cli_context(ctx)
    name = cli.settings.profile or cli.settings.bootstrap_servers.split(",")[0]
    parameters_of(here.parameters, here.jobs)
    for tree in here.segments:
        if not Path(tree).is_dir():
            raise UsageError(f"--segments {tree} is not a folder")
    with open_session(cli, read_only=True) as session:
        cluster_id = session.cluster_id
    folder = Path(here.keep or cli.settings.state_dir / "audits" / "here" / cluster_id)
    request = at_places(here.of_store(str(folder.absolute())))
    collect_here(cli, name, request, commits=here.commits)
    state, location = run_here(cli, request)
    if state is not None:
        return finish(cli, run_state_report("audit here", state, fail_on))
    return finish(cli, viewed_report(read_shown(cli, location), fail_on, "audit here"))


def collect_here(cli: CliContext, name: str, request: AuditRequest, *, commits: bool) -> None:
    """Write today's snapshot of the cluster anew. Raises where it cannot be read whole."""
    from functools import partial

    from kafkakit.adapters.host import this_holder
    from kafkakit.adapters.lock import FileLock
    from kafkakit.fleet.api_act import (
        CollectRequest,
        CollectSource,
        FleetCluster,
        FleetLimits,
        OutcomeStatus,
        collect_fleet,
    )
    from kafkakit.wiring import load_clients, open_table_store

    load_clients()
    entry = FleetCluster(name=name, profile=cli.settings.profile)
    source = CollectSource(entry=entry, open_clients=partial(open_session, cli, read_only=True))
    lock = FileLock(Path(request.input).parent / ".lock", f"the audit of {name}", str(this_holder(cli.command_path)))
    clock = system_clock()
    outcome = collect_fleet(
        [source],
        CollectRequest(snapshot_date=clock.now().date().isoformat(), commits=commits),
        FleetLimits(again=True),
        open_table_store(request.input),
        lambda _: lock,
        clock,
        cli.output,
    )[0]
    for note in outcome.notes:
        cli.output.warn(note)
    if outcome.status is OutcomeStatus.BUSY:
        raise TryLaterError(outcome.error, hint="run the same command again once it has ended")
    if outcome.status is OutcomeStatus.FAILED:
        raise OperationFailedError(f"{name} could not be read: {outcome.error}")
    cli.output.say(f"read {count_of(outcome.row_count, 'row')} of {name}")


def run_here(cli: CliContext, request: AuditRequest) -> tuple[AuditState | None, str]:
    """Run the audits; the state where they have no result, else the folder of the run."""
    from kafkakit import __version__
    from kafkakit.audit.act import task_for
    from kafkakit.audit.decide.runs import RunPhase

    ports = driver_ports(cli)
    task = task_for(request, SparkChoice(), ports, open_run_store, cli.settings.state_dir, __version__)
    state = submit_shown(cli, task, ports)
    cli.output.say(f"results: {task.location}")
    has_results = state.phase in (RunPhase.DONE, RunPhase.FAILED) and state.results
    return (None if has_results else state), task.location


RunFolderArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="The run's folder, as audit printed it: a path or a URI.")
]


def show_status(
    ctx: typer.Context,
    run: RunFolderArgument,
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="Exit 1 with findings of this severity or worse.")
    ] = FailOn.NEVER,
) -> int:
    """Show the state of a run: its jobs, or why it has no result.

    Exits 0 when it is done, 1 when it or one of its jobs failed or was stopped, 75 while it runs.

    Examples:

    \b
    kafkakit audit status results/all-2026-11-20-1f2e3d4c
    """
    cli = cli_context(ctx)
    place = place_of(absolute_path(run), cli.settings.state_dir)
    state = read_state(place, open_run_store(place.location), driver_ports(cli))
    return finish(cli, run_state_report("audit status", state, fail_on, is_asked=True))


def list_runs(
    ctx: typer.Context,
    folder: Annotated[str, typer.Argument(metavar="DIR|URI", help="The folder that audits wrote to (their --output).")],
) -> int:
    """List the runs of an output with their states.

    Examples:

    \b
    kafkakit audit list results
    """
    cli = cli_context(ctx)
    states = look_all(absolute_path(folder), open_run_store, driver_ports(cli), cli.settings.state_dir)
    return finish(cli, list_report(folder, states))


def show_logs(
    ctx: typer.Context,
    run: RunFolderArgument,
    lines: Annotated[int, typer.Option("--lines", min=1, metavar="N", help="Number of lines to print.")] = 200,
) -> int:
    """Print the end of a driver's log.

    The log is on the host that started the run.

    Examples:

    \b
    kafkakit audit logs results/all-2026-11-20-1f2e3d4c
    """
    from kafkakit.audit.act import log_tail, read_run

    cli = cli_context(ctx)
    place = place_of(absolute_path(run), cli.settings.state_dir)
    found = log_tail(place.folder, lines)
    if not found:
        read_run(open_run_store(place.location))
    text = "".join(f"{line}\n" for line in found)
    return finish(cli, text_report("audit logs", text, run=place.run))


def fetch_run(
    ctx: typer.Context,
    run: RunFolderArgument,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="A new or empty folder.")],
) -> int:
    """Copy the results of a run to a folder of this host.

    Examples:

    \b
    kafkakit audit fetch results/all-2026-11-20-1f2e3d4c --to copies
    """
    files = fetch(open_run_store(absolute_path(run)), to)
    text = "".join(f"{to / name}\n" for name in files)
    return finish(cli_context(ctx), text_report("audit fetch", text, run=run, folder=str(to)))


def cancel_run(ctx: typer.Context, run: RunFolderArgument) -> int:
    """Stop the driver of a run of this host; no result stays.

    Examples:

    \b
    kafkakit audit cancel results/all-2026-11-20-1f2e3d4c
    """
    cli = cli_context(ctx)
    place = place_of(absolute_path(run), cli.settings.state_dir)
    state = cancel(place, open_run_store(place.location), driver_ports(cli))
    text = f"run {state.run} is {state.phase.value}\n"
    return finish(cli, text_report("audit cancel", text, run=state.run, state=state.phase.value))


ResultsArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's folder, or a folder of runs for the newest one that is done.")
]


def show_report(
    ctx: typer.Context,
    run: ResultsArgument,
    sarif: Annotated[
        Path | None, typer.Option("--sarif", metavar="FILE", help="Also write the findings as SARIF to this file.")
    ] = None,
    fail_on: FailOnOption = FailOn.NEVER,
) -> int:
    """Show what a run found, new findings first.

    New is what the last run of the same jobs on an earlier date, in the same folder, did not have. Exits 1 with a
    failed job, or with findings of --fail-on or worse.

    Examples:

    \b
    kafkakit audit report results/all-2026-11-20-1f2e3d4c
    kafkakit audit report results/all-2026-11-20-1f2e3d4c --html audits.html --sarif audits.sarif
    """
    from kafkakit import __version__
    from kafkakit.audit.report.exports import audit_sarif

    cli = cli_context(ctx)
    view = read_shown(cli, run_location(open_run_store, absolute_path(run)))
    if sarif is not None:
        write_file(sarif, audit_sarif(view.run.findings, __version__).encode("utf-8", "replace"))
        cli.output.say(f"SARIF: {sarif}")
    return finish(cli, viewed_report(view, fail_on, "audit report"))


@with_option_groups
def show_diff(
    ctx: typer.Context,
    earlier: Annotated[str, typer.Argument(metavar="RUN1", help="The earlier run: its folder, or its name.")],
    later: Annotated[str, typer.Argument(metavar="RUN2", help="The later run: its folder, or its name.")],
    result: ResultFormat,
    output: Annotated[
        str | None,
        typer.Option("--output", metavar="DIR|URI", help="Folder of the two runs, if they are given by name."),
    ] = None,
    fail_on: FailOnOption = FailOn.WARNING,
) -> int:
    """Compare two runs: what is new, gone and still there.

    Findings in clusters that only one of the runs looked at are listed separately: they are neither new nor gone. Exits
    1 with new findings of --fail-on or worse.

    Examples:

    \b
    kafkakit audit diff results/all-2026-11-19-1f2e3d4c results/all-2026-11-20-5a6b7c8d
    kafkakit audit diff drift-2026-11-19-1f2e3d4c drift-2026-11-20-5a6b7c8d --output results --fail-on error
    """
    from kafkakit.audit.decide.runs import compare

    cli = cli_context(ctx)
    result.take_over(cli)
    base = "" if output is None else f"{output.rstrip('/')}/"
    one = read_whole(open_run_store(absolute_path(f"{base}{earlier}")))
    two = read_whole(open_run_store(absolute_path(f"{base}{later}")))
    return finish(cli, diff_report(compare(one, two), fail_on))


def write_metrics(
    ctx: typer.Context,
    run: ResultsArgument,
    datadog: Annotated[
        bool, typer.Option("--datadog", help="Send the figures to Datadog instead of printing them.")
    ] = False,
    site: Annotated[
        str, typer.Option("--datadog-site", envvar="DD_SITE", metavar="SITE", help="Datadog's site of the key.")
    ] = "datadoghq.com",
    key_file: Annotated[
        Path | None,
        typer.Option("--datadog-key-file", metavar="FILE", help="A file with the API key; else DD_API_KEY has it."),
    ] = None,
) -> int:
    """Print a run's figures for Prometheus, or send them.

    Examples:

    \b
    kafkakit audit metrics results/all-2026-11-20-1f2e3d4c --output-file /var/lib/node_exporter/kafkakit.prom
    DD_API_KEY=... kafkakit audit metrics results/all-2026-11-20-1f2e3d4c --datadog --datadog-site datadoghq.eu
    """
    from kafkakit.audit.report.exports import datadog_series, families, metrics_report

    cli = cli_context(ctx)
    view = read_view(open_run_store, run_location(open_run_store, absolute_path(run)))
    if not datadog:
        return finish(cli, metrics_report(view))
    # The service takes no values older than an hour.
    series = datadog_series(families(view), int(system_clock().now().timestamp()))
    sent = open_datadog(site, key_file, cli.output.warn).send(series)
    return finish(cli, text_report("audit metrics", f"{sent} series sent to {site}\n", run=view.run.spec.run_id))


@with_option_groups
def write_fixes(
    ctx: typer.Context,
    run: ResultsArgument,
    place: PodsFile,
    cluster: Annotated[str | None, typer.Option("--cluster", metavar="ID", help="Only for this cluster.")] = None,
) -> int:
    """Collect the changes that the findings of a run ask for.

    They are a cluster file and command lines.

    The file has a document for each cluster, as docs/lint.md describes; kafkakit lint reads it. Commands are in
    comments at its top. If findings ask for different values of a setting, the value of the worst finding is used.
    With --pods, which needs --cluster, a log dir that fills up gets the command for a larger volume, if it may grow.

    Examples:

    \b
    kafkakit audit fixes results/all-2026-11-20-1f2e3d4c --cluster prod-a --output-file fixes.yaml
    kafkakit audit fixes results/all-2026-11-20-1f2e3d4c --cluster prod-a --pods pods.json
    """
    from kafkakit.audit.act import read_dir_forecasts
    from kafkakit.audit.decide.runs import collect_repairs, with_larger_volumes
    from kafkakit.audit.report.exports import fixes_report
    from kafkakit.audit.report.results import worst_first

    read_pods = place.source()
    store = open_run_store(run_location(open_run_store, absolute_path(run)))
    found = read_whole(store)
    findings: Iterable[AuditFinding] = worst_first(found.findings)
    if read_pods is not None:
        if cluster is None:
            raise UsageError("--pods is about one cluster", hint="name it with --cluster")
        findings = with_larger_volumes(findings, read_dir_forecasts(store, cluster), cluster, read_pods())
    repairs = collect_repairs(findings, cluster)
    return finish(cli_context(ctx), fixes_report(repairs, found.spec.run_id))


@with_option_groups
def print_unit(
    ctx: typer.Context,
    scheduler: Annotated[Scheduler, typer.Option("--format", help="Scheduler that starts the audits.")],
    schedule: DailySchedule,
) -> int:
    """Print a timer, cron line or CronJob for daily audits.

    It holds no secrets: profiles and files name where these are. A cluster that cannot be read makes the run end with
    1, after the others were audited. Runs are kept by date, so that a second one of a day repeats nothing.

    Examples:

    \b
    kafkakit audit unit --format systemd --fleet /etc/kafkakit/fleet.yaml --store /srv/fleet --results /srv/audits
    kafkakit audit unit --format cron --profiles prod-a,prod-b --store /srv/fleet --results /srv/audits --at 03:30
    kafkakit audit unit --format k8s --fleet /etc/kafkakit/fleet.yaml --store s3://fleet/snapshots \\
        --results s3://fleet/results --image registry.example.org/kafkakit:1 --secret fleet-access
    """
    from kafkakit.audit.report.exports import unit_report

    return finish(cli_context(ctx), unit_report(schedule, scheduler))


def at_places(request: AuditRequest) -> AuditRequest:
    """The request with paths of this host as absolute ones."""
    places = tuple(absolute_path(tree) for tree in request.segments)
    return replace(request, input=absolute_path(request.input), output=absolute_path(request.output), segments=places)


def submitted_report(ctx: typer.Context, name: str, request: AuditRequest, spark: SparkChoice, mode: RunMode) -> Report:
    """Submit the run, unless it has a result or only its command line is wanted, and report what it gave."""
    from kafkakit import __version__
    from kafkakit.audit.act import earlier_state, task_for
    from kafkakit.audit.decide.launch import Backend
    from kafkakit.audit.report.results import detached_report, run_state_report

    cli, ports = cli_context(ctx), driver_ports(cli_context(ctx))
    file = spark.properties_file
    choice = replace(spark, properties_file=absolute_path(file)) if file else spark
    request = replace(at_places(request), jobs=tuple(JOBS) if name == ALL else (name,))
    task = task_for(request, choice, ports, open_run_store, cli.settings.state_dir, __version__)
    task = replace(task, again=mode.again, detach=mode.detach)
    if mode.dry_run or task.choice.backend is Backend.K8S:
        return manifest_or_line(ctx, name, task, ports, mode)
    earlier = earlier_state(task, open_run_store(task.location))
    if earlier is not None:
        return run_state_report(f"audit {name}", earlier, mode.fail_on, is_earlier=True)
    state = submit_shown(cli, task, ports)
    if mode.detach:
        return detached_report(f"audit {name}", state)
    return run_state_report(f"audit {name}", state, mode.fail_on)


def submit_shown(cli: CliContext, task: SubmitTask, ports: DriverPorts) -> AuditState:
    """Submit a run; its progress is shown."""
    from kafkakit.audit.act import submit

    with cli.output.screen() as screen:
        store = open_run_store(task.location)
        return submit(task, store, ports, lambda one: screen.show(str(one), str(one)), cli.output.say)


def read_shown(cli: CliContext, location: str) -> AuditView:
    """A run against the one before, with the tables that its page shows where one is wanted."""
    return read_view(open_run_store, location, with_tables=cli.output.page_file is not None)


def viewed_report(view: AuditView, fail_on: FailOn, command: str) -> Report:
    """The findings of a run, with its page."""

    def page() -> bytes:
        from kafkakit.audit.report.page import audit_page

        return audit_page(view)

    return replace(run_report(view, fail_on, command), page=page)


def manifest_or_line(ctx: typer.Context, name: str, task: SubmitTask, ports: DriverPorts, mode: RunMode) -> Report:
    """The command line of the driver, or the manifest for Kubernetes, whose files are uploaded unless in a dry run."""
    from kafkakit.audit.act import CODE, launch_for, tools_for, upload
    from kafkakit.audit.decide.launch import Backend
    from kafkakit.audit.report.exports import spark_application
    from kafkakit.audit.report.results import dry_run_report, text_report

    if task.choice.backend is not Backend.K8S:
        launch = launch_for(task.job, task.choice, tools_for(task.choice, ports.drivers))
        return dry_run_report(f"audit {name}", task.spec, launch)
    if not mode.dry_run:
        upload(task, open_run_store(task.location), ports)
        cli_context(ctx).output.say(f"uploaded to {task.location}; kubectl apply -f the manifest starts the run")
    manifest = spark_application(task.spec, task.choice, task.location, CODE)
    return text_report(f"audit {name}", manifest, run=task.spec.run_id, folder=task.location)


app.command("here", cls=CliCommand, short_help="Read one live cluster, audit it, show what was found.")(audit_here)
_HELPS = {**JOBS, ALL: "Run all audits."}
_ADDED = [
    app.command(name, cls=CliCommand, short_help=text, help=f"{text}\n\n{cleandoc(audit.__doc__ or '')}")(audit)
    for name, text in _HELPS.items()
]
app.command("status", cls=CliCommand)(show_status)
app.command("list", cls=CliCommand)(list_runs)
app.command("logs", cls=CliCommand)(show_logs)
app.command("fetch", cls=CliCommand)(fetch_run)
app.command("cancel", cls=CliCommand)(cancel_run)
app.command("report", cls=CliCommand)(show_report)
app.command("diff", cls=CliCommand)(show_diff)
app.command("metrics", cls=CliCommand)(write_metrics)
app.command("fixes", cls=CliCommand)(write_fixes)
app.command("unit", cls=CliCommand)(print_unit)
