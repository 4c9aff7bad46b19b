"""`kafkakit topicmappr rebalance-dirs`: level log dirs inside brokers; no replica changes brokers."""

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import recorded_words, with_option_groups
from kafkakit.cli.tag_options import TagSource
from kafkakit.core.cycle_collector import without_collector
from kafkakit.topicmappr.act.places import ClusterSource
from kafkakit.topicmappr.commands.flow import observed_storage
from kafkakit.topicmappr.commands.options import AllTopicsOptions, PlanOutput, Snapshot, patterns_of
from kafkakit.topicmappr.commands.request_options import DirLimits, DirOptions


@with_option_groups
@without_collector()
def rebalance_dirs(
    ctx: typer.Context,
    dirs: DirOptions,
    topics: AllTopicsOptions,
    limits: DirLimits,
    tags: TagSource,
    output: PlanOutput,
    snapshot: Snapshot = None,
) -> int:
    """Balance the log dirs of each broker by capacity, moving the fewest bytes between its dirs.

    No replica changes brokers. Cordoned dirs receive nothing, and nothing leaves an offline dir. Where a band
    cannot be reached, the nearest is planned, a warning gives the reason, and --ignore-warns writes the plan.

    Examples:

    \b
    kafkakit --profile prod topicmappr rebalance-dirs --band 10% --plan p.json
    kafkakit --profile prod topicmappr rebalance-dirs --brokers 1003 --topics 'logs.*' -o tsv
    """
    from kafkakit.cli.search_watch import answered_at_once
    from kafkakit.cli.session import finish
    from kafkakit.core.broker_list import parse_broker_list
    from kafkakit.core.quantities import parse_percent, parse_size
    from kafkakit.placement.log_dirs_balance import DirRules
    from kafkakit.topicmappr.act.saving import save_plan
    from kafkakit.topicmappr.decide.dirs.rebalance_dirs import RebalanceDirsRequest, decide_rebalance_dirs
    from kafkakit.topicmappr.show.planned_change import rebalance_dirs_report
    from kafkakit.wiring import write_files

    cli = cli_context(ctx)
    request = RebalanceDirsRequest(
        brokers=parse_broker_list(dirs.brokers),
        rules=DirRules(
            max_use=parse_percent(limits.max_disk_use, "--max-disk-use"),
            head_room=parse_size(limits.head_room, "--head-room"),
            band=parse_percent(dirs.band, "--band"),
        ),
        topics=topics.patterns,
        topics_exclude=topics.excluded,
        pinned=patterns_of(limits.pin),
        words=recorded_words("topicmappr rebalance-dirs", dirs, topics, limits, output),
    )
    output.check(cli.require_replaceable)
    seen, request = observed_storage(ctx, ClusterSource(snapshot=snapshot), request, tags)
    with cli.output.progress("planning"), answered_at_once(None):
        change = decide_rebalance_dirs(seen.snapshot, request, seen.facts)
    return finish(
        cli,
        rebalance_dirs_report(change, save_plan(change.plan, output, cli.program, write_files, cli.settings.profile)),
    )
