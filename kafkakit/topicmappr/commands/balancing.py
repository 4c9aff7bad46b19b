"""`kafkakit topicmappr rebalance`, `scale` and `add-brokers`: balance bytes over brokers with the fewest copied."""

from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.common_options import TagSource
from kafkakit.cli.context import cli_context, command_of
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.core.columns import without_collector
from kafkakit.topicmappr.commands.options import KafkaKitClusterOptions, MapOutput, PlanOutput, read_for_planning
from kafkakit.topicmappr.decide.requests import JoinRequest, RebalanceRequest, ScaleRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkakit.topicmappr.decide.frontier import FrontierPoint


Verbose = Annotated[bool, typer.Option("--verbose", help="Also print the goals tried, at most ten.")]


@with_option_groups
def rebalance(
    ctx: typer.Context,
    request: RebalanceRequest,
    tags: TagSource,
    output: MapOutput,
    cluster: KafkaKitClusterOptions,
    verbose: Verbose = False,
) -> int:
    """Balance bytes over brokers with the fewest bytes copied.

    Without a goal, kafka-kit's thresholds choose the brokers to offload and free space is balanced as far as they
    allow. With a goal (--band, --free-range, or only a budget) copies may leave any broker. The plan minimizes
    bytes, then copies; at the same cost it evens out counts, leaders and each topic. Writes map files (and a plan
    with --plan) and changes nothing on the cluster. Ctrl-C once ends the search with the best plan so far, twice
    ends the command. Exits 4 when the goal cannot be reached, naming the nearest that can.

    Examples:

    \b
    kafkakit --profile prod topicmappr rebalance --topics '.*' --brokers -1 --plan p.json
    kafkakit --profile prod topicmappr rebalance --topics '.*' --brokers -2 --band 5% --max-moved-bytes 2TiB
    """
    return run_balance(ctx, request, tags, output, cluster, verbose=verbose)


@with_option_groups
def scale(
    ctx: typer.Context,
    request: ScaleRequest,
    tags: TagSource,
    output: MapOutput,
    cluster: KafkaKitClusterOptions,
    verbose: Verbose = False,
) -> int:
    """Give new brokers their share; fewest bytes copied.

    Like rebalance, but copies may leave every broker that is not new, and --brokers must name at least one that
    holds none of the topics yet. Writes map files (and a plan with --plan) and changes nothing on the cluster.

    Examples:

    \b
    kafkakit --profile prod topicmappr scale --topics '.*' --brokers -1,1007,1008 --plan p.json
    """
    return run_balance(ctx, request, tags, output, cluster, verbose=verbose)


@with_option_groups
def add_brokers(
    ctx: typer.Context,
    request: JoinRequest,
    tags: TagSource,
    output: PlanOutput,
    cluster: KafkaKitClusterOptions,
    verbose: Verbose = False,
) -> int:
    """Bring added brokers within a band; fewest bytes copied.

    Every broker that holds the topics and every one in --brokers ends within --band of its share, by capacity.
    The brokers to add may hold replicas already. Exits 4 when the band cannot be reached, naming the nearest
    that can.

    Examples:

    \b
    kafkakit --profile prod topicmappr add-brokers --topics '.*' --brokers 1007,1008 --plan plan.json
    """
    return run_balance(ctx, request, tags, output, cluster, verbose=verbose)


@without_collector()
def run_balance(
    ctx: typer.Context,
    request: RebalanceRequest,
    tags: TagSource,
    output: PlanOutput,
    cluster: KafkaKitClusterOptions,
    *,
    verbose: bool,
) -> int:
    """Read the cluster, balance it, write maps, plan and page, and end the command."""
    from kafkakit.cli.search_watch import watch_search
    from kafkakit.cli.session import finish
    from kafkakit.core.errors import InterruptedRunError
    from kafkakit.placement.watch import BudgetedWatch
    from kafkakit.topicmappr.act.places import report_duplicates
    from kafkakit.topicmappr.act.planning import save_plan
    from kafkakit.topicmappr.decide.frontier import frontier_points
    from kafkakit.topicmappr.decide.rebalance import decide_add_brokers, decide_rebalance, keep_existing_brokers
    from kafkakit.topicmappr.report.balance import rebalance_report
    from kafkakit.wiring import write_files

    cli, adding = cli_context(ctx), isinstance(request, JoinRequest)
    output.check(cli.require_replaceable)
    report_duplicates(request.brokers, cli.output)
    seen, request = read_for_planning(ctx, cluster, request, tags)
    with watch_search(cli) as watch:
        within = BudgetedWatch(watch)
        decided = (decide_add_brokers if adding else decide_rebalance)(seen.snapshot, request, seen.facts, within)
        plan = decided.plan
        if decided.stopped and not (plan.moves or plan.dir_moves):
            raise InterruptedRunError("interrupted before a plan was found that changes anything; nothing was written")

    def other_bands() -> "Sequence[FrontierPoint]":
        if decided.stopped:
            return ()
        with watch_search(cli) as watch:
            watch.phase("other bands for the report")
            wider = keep_existing_brokers(request) if adding else request
            rest = BudgetedWatch(watch, within.left)
            return frontier_points(seen.snapshot, wider, seen.facts, watch=rest)

    maps = (plan.reassignment,) if plan.moves else ()
    saved = save_plan(
        plan, output, cli.program, cli.noting(write_files), cli.settings.profile, series=maps, frontier=other_bands
    )
    return finish(cli, rebalance_report(command_of(ctx), decided, request, saved, verbose=verbose))
