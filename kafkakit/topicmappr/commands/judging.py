"""`kafkakit topicmappr check`, `audit` and `frontier`: judge a cluster or a map, work out what balance costs.

They plan nothing.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.common_options import TagSource
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.search_watch import showing_phases
from kafkakit.cli.session import finish
from kafkakit.core.columns import without_collector
from kafkakit.core.findings import FailOn
from kafkakit.topicmappr.commands.options import KafkaKitClusterOptions, read_for_planning
from kafkakit.topicmappr.decide.check_rules import CheckRequest
from kafkakit.topicmappr.decide.requests import FrontierRequest, MapAuditRequest
from kafkakit.wiring import read_input, write_file

if TYPE_CHECKING:
    from kafkakit.cli.context import CliContext
    from kafkakit.core.findings import Finding


MapArgument = Annotated[str, typer.Argument(metavar="MAP", help="Reassignment map as Kafka's JSON; - for stdin.")]
PageFile = Annotated[
    Path | None,
    typer.Option("--html", "--report", metavar="FILE", help="Also write table and plot as a web page to this file."),
]
MAP_LIMIT_BYTES = 512 << 20

FailFrom = Annotated[FailOn, typer.Option("--fail-on", help="Exit 1 for findings of this severity or worse.")]


@with_option_groups
@without_collector()
def check(
    ctx: typer.Context,
    request: CheckRequest,
    tags: TagSource,
    cluster: KafkaKitClusterOptions,
    fail_on: FailFrom = FailOn.WARNING,
) -> int:
    """Check racks, in-sync replicas, disks, shares.

    Every finding names the command that repairs it. Partitions of a topic that break one rule are one finding, with
    three names in text and up to 10,000 a rule in JSON. Reads only. Exits 0 without findings of --fail-on or worse,
    1 with some, 75 when the cluster cannot be reached or sizes are too old.

    Examples:

    \b
    kafkakit --profile prod topicmappr check
    kafkakit topicmappr check --snapshot prod.json --topics 'orders.*' --band 5% --fail-on error
    """
    from kafkakit.topicmappr.decide.check import check_cluster
    from kafkakit.topicmappr.report.judgement import check_report

    cli = cli_context(ctx)
    request = replace(request, program=cli.program, snapshot=str(cluster.snapshot or ""))
    # An unsound list is a finding here.
    seen, request = read_for_planning(ctx, cluster, request, tags, sound_lists=False)
    found = check_cluster(seen.snapshot, request, seen.facts)
    return finish(cli, check_report(replace(found, findings=_with_sources(cli, found.findings)), fail_on))


@with_option_groups
@without_collector()
def audit(
    ctx: typer.Context,
    map_file: MapArgument,
    request: MapAuditRequest,
    tags: TagSource,
    cluster: KafkaKitClusterOptions,
    fail_on: FailFrom = FailOn.ERROR,
) -> int:
    """Evaluate a reassignment map of any tool; run nothing.

    Reports what it copies, how even the brokers are afterwards, the lower bound and the cost of a kafkakit plan for
    the same balance, and which entries break a rule or are at risk. Without --band or --free-range the balance is
    the range of free bytes that the map reaches. Without sizes only counts are compared. Reads only. Exits 1 for
    findings of --fail-on or worse, 2 when the file is not a reassignment map.

    Examples:

    \b
    kafkakit --profile prod topicmappr audit map.json
    kafkakit topicmappr audit - --snapshot prod.json --fail-on warning < map.json
    """
    from kafkakit.topicmappr.decide.audit import audit_map
    from kafkakit.topicmappr.decide.audit_map import read_map
    from kafkakit.topicmappr.report.judgement import audit_report

    cli = cli_context(ctx)
    request = replace(request, program=cli.program, map_file="" if map_file == "-" else map_file)
    source = "stdin" if map_file == "-" else map_file
    reading = read_map(read_input(map_file, MAP_LIMIT_BYTES), source)
    seen, request = read_for_planning(ctx, cluster, request, tags, sound_lists=False)
    with showing_phases(cli.output, "judging the map") as watch:
        found = audit_map(seen.snapshot, reading, request, seen.facts, watch)
    found = replace(found, findings=_with_sources(cli, found.findings))
    return finish(cli, audit_report(found, source, fail_on))


@with_option_groups
@without_collector()
def frontier(
    ctx: typer.Context,
    request: FrontierRequest,
    tags: TagSource,
    cluster: KafkaKitClusterOptions,
    report: PageFile = None,
) -> int:
    """Compute what each band of used space would cost.

    For each, the bytes of a plan and a proven lower bound.

    Writes no plan. Goals that cannot be reached are marked, with the reason; they are not a failure.

    Examples:

    \b
    kafkakit --profile prod topicmappr frontier
    kafkakit topicmappr frontier --snapshot prod.json --bands 10%,5%,2% --html frontier.html
    """
    from kafkakit.topicmappr.act.places import PlanDestination
    from kafkakit.topicmappr.decide.frontier import decide_frontier
    from kafkakit.topicmappr.report.judgement import frontier_page, frontier_report, rebalance_command

    cli = cli_context(ctx)
    PlanDestination(report=report).check()
    seen, request = read_for_planning(ctx, cluster, request, tags)
    with showing_phases(cli.output, "computing a plan for each goal") as watch:
        found = decide_frontier(seen.snapshot, request, seen.facts, watch)
    following = rebalance_command(found, request.base.rebalance_options(), cli.program)
    following = cli.called(following) if following else None
    if report is not None:
        write_file(report, frontier_page(found, following))
    return finish(cli, frontier_report(found, following, plain=cli.output.plain_stdout))


def _with_sources(cli: "CliContext", findings: "tuple[Finding, ...]") -> "tuple[Finding, ...]":
    """The findings with commands that read the same file and sizes as this command."""
    return tuple(replace(f, hint=cli.called(f.hint)) for f in findings)
