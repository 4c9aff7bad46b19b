"""`kafkakit topicmappr rebuild`, and `explain` and `replan` of a saved plan.

`rebuild` replaces brokers with the fewest moves, or rebuilds placement evenly; `explain` says what a saved plan says,
`replan` what of it still serves.
"""

from dataclasses import replace
from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.common_options import TagSource
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.session import finish
from kafkakit.core.columns import without_collector
from kafkakit.topicmappr.commands.options import (
    KafkaKitClusterOptions,
    MapOutput,
    PlanArgument,
    ReplanOutput,
    Snapshot,
    observe_cluster,
    read_for_planning,
)
from kafkakit.topicmappr.decide.requests import RebuildRequest
from kafkakit.wiring import read_input, write_files


@with_option_groups
@without_collector()
def rebuild(
    ctx: typer.Context, request: RebuildRequest, tags: TagSource, output: MapOutput, cluster: KafkaKitClusterOptions
) -> int:
    """Replace brokers with the fewest moves, or rebuild all.

    Writes map files (and a plan with --plan) and changes nothing on the cluster. Exits 4 when no placement
    satisfies the request, naming what to add.

    Examples:

    \b
    kafkakit --profile prod topicmappr rebuild --topics '.*' --brokers 1001,1002,1007 --out-path maps --plan plan.json
    kafkakit topicmappr rebuild --snapshot prod.json --topics 'logs.*' --brokers -1 --force-rebuild
    """
    from kafkakit.cli.search_watch import answered_at_once, watch_search
    from kafkakit.topicmappr.act.places import report_duplicates
    from kafkakit.topicmappr.act.planning import empty_snapshot, save_plan
    from kafkakit.topicmappr.decide.rebuild import decide_rebuild
    from kafkakit.topicmappr.report.requests import rebuild_report

    cli = cli_context(ctx)
    output.check(cli.require_replaceable)
    report_duplicates(request.brokers, cli.output)
    # A map without metadata needs no cluster; a plan does, since it is carried out on one.
    on_cluster = request.map is None or request.use_meta or cluster.snapshot or output.plan or output.report
    if request.by_storage:
        seen, request = read_for_planning(ctx, cluster, request, tags)
        with watch_search(cli) as watch:
            decided = decide_rebuild(seen.snapshot, request, seen.facts, watch)
    else:
        state = empty_snapshot()
        if on_cluster:
            state, request = observe_cluster(ctx, cluster.snapshot, request, tags)
        with cli.output.progress("planning"), answered_at_once(None):
            decided = decide_rebuild(state, request)
    saved = save_plan(
        decided.plan,
        output,
        cli.program,
        cli.noting(write_files),
        cli.settings.profile,
        series=decided.maps(skip_no_ops=request.skip_no_ops) if decided.scope.partitions else (),
        count=decided.map_count(),
    )
    return finish(cli, rebuild_report(decided, request, saved))


PartitionArgument = Annotated[
    str, typer.Argument(metavar="TOPIC/PARTITION", help="The partition, like orders/3 or orders-3.")
]
Slack = Annotated[str, typer.Option(metavar="PERCENT", help="How far the plan's goal may be relaxed; 0% keeps it.")]


def explain(ctx: typer.Context, plan: PlanArgument, partition: PartitionArgument, snapshot: Snapshot = None) -> int:
    """Explain why a plan uses these brokers and no others.

    Needs only the plan file. With --snapshot it also shows which brokers are alive, and whether the list has
    changed.

    Examples:

    \b
    kafkakit topicmappr explain plan.json orders/3
    kafkakit topicmappr explain plan.json orders/3 --snapshot prod.json
    """
    from kafkakit.core.plan_rules import read_plan
    from kafkakit.topicmappr.decide.explain import explain as explain_partition
    from kafkakit.topicmappr.decide.explain import find_partition
    from kafkakit.topicmappr.report.judgement import explain_report

    decoded = read_plan(plan, read_input)
    key = find_partition(decoded, partition)
    state = observe_cluster(ctx, snapshot, None)[0] if snapshot is not None else None
    return finish(cli_context(ctx), explain_report(explain_partition(decoded, key, state)))


@with_option_groups
@without_collector()
def replan(
    ctx: typer.Context,
    old_plan: PlanArgument,
    output: ReplanOutput,
    cluster: KafkaKitClusterOptions,
    slack: Slack = "0%",
) -> int:
    """Adapt a plan to a cluster that has changed since.

    Finished moves stay and running ones keep their target. Moves not started keep their target while the plan's
    goal holds with the present sizes; otherwise as few as possible get another one. If nothing has to change, that
    is reported with the reason. Only the cluster is read, no journal. Exits 4 when the goal cannot be reached, 75
    when sizes are not known.

    Examples:

    \b
    kafkakit --profile prod topicmappr replan p.json --plan p2.json
    kafkakit topicmappr replan p.json --snapshot now.json --slack 10%
    """
    from kafkakit.cli.search_watch import answered_at_once
    from kafkakit.core.plan_rules import read_plan
    from kafkakit.core.quantities import parse_percent
    from kafkakit.topicmappr.act.planning import save_plan
    from kafkakit.topicmappr.decide.assembly import apply_command
    from kafkakit.topicmappr.decide.replan import decide_replan
    from kafkakit.topicmappr.report.requests import replan_report

    cli = cli_context(ctx)
    output.check(cli.require_replaceable)
    widened = parse_percent(slack, "--slack", most=1000)
    decoded = read_plan(old_plan, read_input)
    seen, _ = read_for_planning(ctx, cluster, None)
    with cli.output.progress("planning"), answered_at_once(None):
        found = decide_replan(decoded, seen.snapshot, seen.facts, slack=widened)
    found = replace(found, plan=replace(found.plan, notes=tuple(map(cli.called, found.plan.notes))))
    saved = save_plan(
        found.plan, output, cli.program, cli.noting(write_files), cli.settings.profile, changed=found.differs
    )
    source, file = ("stdin", None) if old_plan == "-" else (old_plan, old_plan)
    return finish(cli, replan_report(found, source, saved, apply_command(cli.program, found.plan, file)))
