"""`kafkakit topicmappr rebuild`: replace brokers with the fewest moves, or rebuild placement evenly."""

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.core.cycle_collector import without_collector
from kafkakit.topicmappr.commands.flow import observed, observed_storage
from kafkakit.topicmappr.commands.options import ConstraintOptions, KafkaKitClusterOptions, MapOutput
from kafkakit.topicmappr.commands.rebuild_options import (
    MetadataOptions,
    RebuildOptions,
    StorageOptions,
    rebuild_request,
)


@with_option_groups
@without_collector()
def rebuild(
    ctx: typer.Context,
    requested: RebuildOptions,
    storage: StorageOptions,
    metadata: MetadataOptions,
    tags: ConstraintOptions,
    output: MapOutput,
    cluster: KafkaKitClusterOptions,
) -> int:
    """Replace brokers with the fewest moves, or rebuild placement evenly.

    Writes map files (and a plan with --plan) and changes nothing on the cluster. Exits 4 when no placement
    satisfies the request, naming what to add.
    """
    from kafkakit.cli.search_watch import answered_at_once, watching
    from kafkakit.cli.session import finish
    from kafkakit.topicmappr.act.observation import unobserved
    from kafkakit.topicmappr.act.places import report_duplicates
    from kafkakit.topicmappr.act.saving import save_plan
    from kafkakit.topicmappr.decide.rebuild.decision import decide_rebuild
    from kafkakit.topicmappr.show.rebuild import rebuild_report
    from kafkakit.wiring import write_files

    cli = cli_context(ctx)
    request = rebuild_request(requested, storage, metadata, tags, output)
    output.check(cli.require_replaceable)
    report_duplicates(request.brokers, cli.output)
    # A map without metadata needs no cluster; a plan does, since it is carried out on one.
    on_cluster = request.map is None or request.use_meta or cluster.snapshot or output.plan or output.report
    if request.by_storage:
        seen, request = observed_storage(ctx, cluster, request, tags)
        with watching(cli) as watch:
            decided = decide_rebuild(seen.snapshot, request, seen.facts, watch)
    else:
        state = unobserved()
        if on_cluster:
            state, request = observed(ctx, cluster.snapshot, request, tags)
        with cli.output.progress("planning"), answered_at_once(None):
            decided = decide_rebuild(state, request)
    saved = save_plan(
        decided.plan,
        output,
        cli.program,
        write_files,
        cli.settings.profile,
        series=decided.maps(skip_no_ops=request.skip_no_ops) if decided.scope.partitions else (),
        count=decided.map_count(),
    )
    return finish(cli, rebuild_report(decided, request, saved))
