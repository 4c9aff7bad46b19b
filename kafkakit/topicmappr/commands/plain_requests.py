"""`kafkakit topicmappr drain`, `fix-racks`, `set-replication`, `leaders`, `place` and `rebalance-dirs`: one plan each.

`place` says where the partitions of a new topic should go. `rebalance-dirs` levels log dirs inside brokers; no replica
changes brokers.
"""

from typing import TYPE_CHECKING

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.common_options import TagSource
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.core.columns import without_collector
from kafkakit.topicmappr.act.places import ClusterSource
from kafkakit.topicmappr.commands.options import (
    ClusterOptions,
    OutPath,
    PlanOutput,
    R,
    Snapshot,
    end_request,
    observe_cluster,
    plan_request,
    read_for_planning,
)
from kafkakit.topicmappr.decide.plain_requests import (
    DrainRequest,
    FixRacksRequest,
    LeadersRequest,
    PlaceRequest,
    RebalanceDirsRequest,
    RepairRequest,
    ReplicationRequest,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkakit.core.model import ClusterSnapshot
    from kafkakit.core.plan import StorageFacts
    from kafkakit.placement.watch import SearchWatch
    from kafkakit.topicmappr.decide.assembly import PlannedChange


@with_option_groups
@without_collector()
def drain(
    ctx: typer.Context, request: DrainRequest, tags: TagSource, output: PlanOutput, cluster: ClusterOptions
) -> int:
    """Move every replica off brokers with the fewest copies.

    The copies go where they keep the counts of all topics even, or free bytes (--placement storage); leaderships
    pass to the remaining replicas. Replicas on other brokers stay where they are. With a budget (--max-moves,
    --max-moved-bytes) partitions of dead brokers go first, then the smallest; run it again for the rest. Exits 4
    when no broker may take a replica.

    With --log-dir only that dir is emptied. Replicas change to other log dirs of their broker as far as these have
    space, and to other brokers if they have none.

    Examples:

    \b
    kafkakit --profile prod topicmappr drain --brokers 1004 --plan p.json
    kafkakit --profile prod topicmappr drain --brokers 1004 --log-dir /data/d2 --plan p.json
    """
    from kafkakit.topicmappr.decide.drain import decide_drain
    from kafkakit.topicmappr.decide.drain_dirs import decide_drain_dirs

    if request.log_dirs:
        return _replace(ctx, decide_drain_dirs, request, tags, output, cluster, needs_sizes=True)
    return _replace(ctx, decide_drain, request, tags, output, cluster, needs_sizes=request.needs_sizes)


def _replace(
    ctx: typer.Context,
    decide: "Callable[[ClusterSnapshot, R, StorageFacts | None, SearchWatch], PlannedChange]",
    request: R,
    tags: TagSource,
    output: PlanOutput,
    cluster: ClusterOptions,
    *,
    needs_sizes: bool,
) -> int:
    """Read the cluster, with sizes and disks where they are needed, decide, and end with the report."""
    from kafkakit.cli.search_watch import watch_search
    from kafkakit.placement.watch import UNWATCHED

    if not needs_sizes:
        return plan_request(
            ctx, lambda state, asked: decide(state, asked, None, UNWATCHED), request, output, cluster.snapshot, tags
        )
    output.check()
    seen, request = read_for_planning(ctx, cluster, request, tags)
    with watch_search(cli_context(ctx)) as watch:
        change = decide(seen.snapshot, request, seen.facts, watch)
    return end_request(ctx, change, output)


@with_option_groups
@without_collector()
def repair(
    ctx: typer.Context, request: RepairRequest, tags: TagSource, output: PlanOutput, cluster: ClusterOptions
) -> int:
    """Replace replicas on dead brokers and failed disks.

    Every partition ends with as many replicas as it lists, on racks that keep the rule. Replicas that work stay where
    they are, also on a broker with a failed log dir. Partitions with the fewest live copies in sync go first
    (--max-moves, --max-moved-bytes); run it again for the rest. Exits 4 when no broker may take a replica.

    Examples:

    \b
    kafkakit --profile prod topicmappr repair --topics '.*' --plan plan.json
    kafkakit --profile prod topicmappr repair --topics '.*' --max-moves 100 --plan plan.json
    """
    from kafkakit.topicmappr.decide.drain import decide_repair

    return _replace(ctx, decide_repair, request, tags, output, cluster, needs_sizes=request.needs_sizes)


@with_option_groups
@without_collector()
def fix_racks(
    ctx: typer.Context, request: FixRacksRequest, tags: TagSource, output: PlanOutput, snapshot: Snapshot = None
) -> int:
    """Make all partitions obey the rack rule; fewest copies.

    Only replicas beyond what the rule allows move; which of them, and where to, is chosen so that the counts of all
    topics stay even. With a budget (--max-moves, --max-moved-bytes) the sets with the most replicas to move go
    first; run it again for the rest. Exits 4 when a partition cannot be repaired because racks are missing.

    Examples:

    \b
    kafkakit --profile prod topicmappr fix-racks --topics '.*' --plan plan.json
    """
    from kafkakit.topicmappr.decide.fix_racks import decide_fix_racks

    return plan_request(ctx, decide_fix_racks, request, output, snapshot, tags)


@with_option_groups
@without_collector()
def set_replication(
    ctx: typer.Context, request: ReplicationRequest, tags: TagSource, output: PlanOutput, snapshot: Snapshot = None
) -> int:
    """Give every partition of the topics N replicas.

    Added copies follow the rack rule and even the counts out. Where the factor is lowered the leader stays; rack
    repeats go first, then copies out of sync, then those on the fullest brokers. With a budget (--max-moves,
    --max-moved-bytes) partitions that lack most copies go first; run it again for the rest. Exits 4 when N copies
    cannot be placed.

    Examples:

    \b
    kafkakit --profile prod topicmappr set-replication 3 --topics orders --plan plan.json
    """
    from kafkakit.topicmappr.decide.rebuild import decide_set_replication

    return plan_request(ctx, decide_set_replication, request, output, snapshot, tags)


@with_option_groups
@without_collector()
def leaders(
    ctx: typer.Context, request: LeadersRequest, tags: TagSource, output: PlanOutput, snapshot: Snapshot = None
) -> int:
    """Spread preferred leaders by reordering replica lists.

    No data moves: the new leader goes to the front of its list and the others keep their order. With --max-moves,
    leaderships on brokers that must not lead are moved first, then those that even out the counts most. Exits 4
    when a partition has no replica on a broker that may lead.

    Examples:

    \b
    kafkakit --profile prod topicmappr leaders --topics '.*' --plan plan.json
    """
    from kafkakit.topicmappr.decide.leaders import decide_leaders

    return plan_request(ctx, decide_leaders, request, output, snapshot, tags)


@with_option_groups
def place(
    ctx: typer.Context,
    request: PlaceRequest,
    tags: TagSource,
    snapshot: Snapshot = None,
    out_path: OutPath = "",
) -> int:
    """Choose the brokers of new partitions or a new topic.

    Spreads replicas and leaders over racks and brokers, under the rack rule, then evens out the load of all topics.
    The partitions that a topic has stay where they are and count. Writes the assignment as a map file and prints the
    kafka-topics command that creates the topic, or adds the partitions; there is no plan, since nothing has to move.

    Examples:

    \b
    kafkakit --profile prod topicmappr place orders --partitions 48 --replication 3
    """
    from kafkakit.cli.search_watch import answered_at_once
    from kafkakit.cli.session import finish
    from kafkakit.topicmappr.act.places import MapDestination
    from kafkakit.topicmappr.act.planning import save_maps
    from kafkakit.topicmappr.decide.place import decide_place
    from kafkakit.topicmappr.report.requests import place_report
    from kafkakit.wiring import write_files

    cli, destination = cli_context(ctx), MapDestination(out_path=out_path)
    destination.check()
    state, request = observe_cluster(ctx, snapshot, request, tags)
    with cli.output.progress("placing"), answered_at_once(None):
        placed = decide_place(state, request)
    (saved,) = save_maps((placed.as_map(),), destination, cli.noting(write_files))
    address = None if snapshot is not None else cli.settings.bootstrap_servers
    return finish(cli, place_report(placed, saved.path, address))


@with_option_groups
@without_collector()
def rebalance_dirs(
    ctx: typer.Context, request: RebalanceDirsRequest, tags: TagSource, output: PlanOutput, snapshot: Snapshot = None
) -> int:
    """Balance each broker's log dirs; fewest bytes moved.

    No replica changes brokers. Cordoned dirs receive nothing, and nothing leaves an offline dir. If a band
    cannot be reached, the nearest is planned, a warning gives the reason, and --ignore-warns writes the plan.

    Examples:

    \b
    kafkakit --profile prod topicmappr rebalance-dirs --band 10% --plan p.json
    kafkakit --profile prod topicmappr rebalance-dirs --brokers 1003 --topics 'logs.*' -o tsv
    """
    from kafkakit.cli.search_watch import answered_at_once
    from kafkakit.cli.session import finish
    from kafkakit.topicmappr.act.planning import save_plan
    from kafkakit.topicmappr.decide.dirs import decide_rebalance_dirs
    from kafkakit.topicmappr.report.requests import rebalance_dirs_report
    from kafkakit.wiring import write_files

    cli = cli_context(ctx)
    output.check(cli.require_replaceable)
    seen, request = read_for_planning(ctx, ClusterSource(snapshot=snapshot), request, tags)
    with cli.output.progress("planning"), answered_at_once(None):
        change = decide_rebalance_dirs(seen.snapshot, request, seen.facts)
    return finish(
        cli,
        rebalance_dirs_report(
            change, save_plan(change.plan, output, cli.program, cli.noting(write_files), cli.settings.profile)
        ),
    )
