"""`kafkakit audit report|diff|metrics|fixes`: read the results of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafkakit.audit.act.history import read_view, read_whole, run_location
from kafkakit.audit.commands.options import ResultFormat
from kafkakit.audit.show.findings import diff_report, run_report
from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.common_options import absolute
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.session import finish
from kafkakit.core.findings import FailOn
from kafkakit.wiring import open_datadog, open_run_store, system_clock, write_file

ResultsArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's folder, or a folder of runs for the newest one that is done.")
]
FailOnOption = Annotated[FailOn, typer.Option("--fail-on", help="Exit 1 with findings of this severity or worse.")]


def show_report(
    ctx: typer.Context,
    run: ResultsArgument,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page to this file, too.")] = None,
    sarif: Annotated[
        Path | None, typer.Option("--sarif", metavar="FILE", help="Write the findings as SARIF to this file, too.")
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
    from kafkakit.audit.show.page import audit_page
    from kafkakit.audit.show.sarif import audit_sarif

    cli = cli_context(ctx)
    view = read_view(open_run_store, run_location(open_run_store, absolute(run)), with_tables=html is not None)
    if html is not None:
        write_file(html, audit_page(view))
        cli.output.say(f"page: {html}")
    if sarif is not None:
        write_file(sarif, audit_sarif(view.run.findings, __version__).encode("utf-8", "replace"))
        cli.output.say(f"SARIF: {sarif}")
    return finish(cli, run_report(view, fail_on))


@with_option_groups
def show_diff(
    ctx: typer.Context,
    earlier: Annotated[str, typer.Argument(metavar="RUN1", help="The earlier run: its folder, or its name.")],
    later: Annotated[str, typer.Argument(metavar="RUN2", help="The later run: its folder, or its name.")],
    result: ResultFormat,
    output: Annotated[
        str | None, typer.Option("--output", metavar="DIR|URI", help="The runs are names in this folder.")
    ] = None,
    fail_on: FailOnOption = FailOn.WARNING,
) -> int:
    """Compare two runs: what is new, gone and still there.

    Findings in clusters that only one of the runs looked at are listed apart: they are neither new nor gone. Exits 1
    with new findings of --fail-on or worse.

    Examples:

    \b
    kafkakit audit diff results/all-2026-11-19-1f2e3d4c results/all-2026-11-20-5a6b7c8d
    kafkakit audit diff drift-2026-11-19-1f2e3d4c drift-2026-11-20-5a6b7c8d --output results --fail-on error
    """
    from kafkakit.audit.decide.comparison import compare

    cli = cli_context(ctx)
    result.take_over(cli)
    base = "" if output is None else f"{output.rstrip('/')}/"
    one = read_whole(open_run_store(absolute(f"{base}{earlier}")))
    two = read_whole(open_run_store(absolute(f"{base}{later}")))
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
    """Print the figures of a run as Prometheus text, or send them to Datadog.

    Examples:

    \b
    kafkakit audit metrics results/all-2026-11-20-1f2e3d4c --output-file /var/lib/node_exporter/kafkakit.prom
    DD_API_KEY=... kafkakit audit metrics results/all-2026-11-20-1f2e3d4c --datadog --datadog-site datadoghq.eu
    """
    from kafkakit.audit.show.metrics import datadog_series, families, metrics_report
    from kafkakit.audit.show.run_texts import text_report

    cli = cli_context(ctx)
    view = read_view(open_run_store, run_location(open_run_store, absolute(run)))
    if not datadog:
        return finish(cli, metrics_report(view))
    # The service takes no values older than an hour.
    series = datadog_series(families(view), int(system_clock().now().timestamp()))
    sent = open_datadog(site, key_file, cli.output.warn).send(series)
    return finish(cli, text_report("audit metrics", f"{sent} series sent to {site}\n", run=view.run.spec.run_id))


def write_fixes(
    ctx: typer.Context,
    run: ResultsArgument,
    cluster: Annotated[str | None, typer.Option("--cluster", metavar="ID", help="Of this cluster only.")] = None,
) -> int:
    """Collect the changes that findings of a run ask for: a cluster file and command lines.

    The file has a document for each cluster, as docs/lint.md describes; kafkakit lint reads it. Commands stand in
    comments at its beginning. Where findings ask for different values of a setting, the worst one's is taken.

    Examples:

    \b
    kafkakit audit fixes results/all-2026-11-20-1f2e3d4c --cluster prod-a --output-file fixes.yaml
    """
    from kafkakit.audit.decide.repairs import collect_repairs
    from kafkakit.audit.show.fixes import fixes_report
    from kafkakit.audit.show.view import worst_first

    found = read_whole(open_run_store(run_location(open_run_store, absolute(run))))
    repairs = collect_repairs(worst_first(found.findings), cluster)
    return finish(cli_context(ctx), fixes_report(repairs, found.spec.run_id))
