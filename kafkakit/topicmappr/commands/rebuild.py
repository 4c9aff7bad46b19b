"""`kafkakit topicmappr rebuild`, and `explain` and `replan` of a saved plan.

`rebuild` replaces brokers with the fewest moves, or rebuilds placement evenly; its options, and the request that they
make, are here as well. `explain` says what a saved plan says, `replan` what of it still serves.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.completion import TOPIC_CHOICE
from kafkakit.cli.option_groups import IS_RECORDED, recorded_words, with_option_groups
from kafkakit.cli.session import finish
from kafkakit.core.columns import without_collector
from kafkakit.core.errors import UsageError
from kafkakit.core.options import option
from kafkakit.core.selection import parse_broker_list, parse_patterns
from kafkakit.placement.problem import Minimize, OptimizeFor, PlaceBy
from kafkakit.topicmappr.act.places import PlanDestination
from kafkakit.topicmappr.commands import options as shared
from kafkakit.topicmappr.commands.options import (
    ConstraintOptions,
    KafkaKitClusterOptions,
    MapOutput,
    PlanArgument,
    ReplanOutput,
    Snapshot,
    observed,
    observed_storage,
)
from kafkakit.wiring import read_input, write_files

if TYPE_CHECKING:
    from kafkakit.topicmappr.decide.requests import RebuildRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildOptions:
    """What is rebuilt, and how."""

    brokers: shared.Brokers = field(metadata=IS_RECORDED)
    topics: shared.Topics = field(default="", metadata=IS_RECORDED)
    topics_exclude: shared.TopicsExclude = field(default="", metadata=IS_RECORDED)
    map_string: str = option("", help="Partition map as JSON, used instead of --topics.", recorded=True)
    replication: int = option(0, help="Set every replication factor to this; 0 leaves it.", recorded=True)
    force_rebuild: bool = option(
        False, "--force-rebuild", help="Spread replicas evenly over all targets, with the fewest moves.", recorded=True
    )
    sub_affinity: bool = option(
        False, "--sub-affinity", help="Replace each outgoing broker by one specific new broker.", recorded=True
    )
    min_rack_ids: shared.MinRackIds = field(default=0, metadata=IS_RECORDED)
    exclude_receivers: shared.ExcludeReceivers = field(default="", metadata=IS_RECORDED)
    minimize: shared.MinimizeBy = field(default=Minimize.MOVES, metadata=IS_RECORDED)
    optimize_leadership: shared.OptimizeLeadership = field(default=False, metadata=IS_RECORDED)
    leader_evac_brokers: shared.EvacuatedBrokers = field(default="", metadata=IS_RECORDED)
    leader_evac_topics: str = option(
        "", **TOPIC_CHOICE, help="Topics that --leader-evac-brokers must not lead.", recorded=True
    )
    phased_reassignment: bool = option(
        False,
        "--phased-reassignment",
        help="Write a first map that keeps the current leaders, then the final one.",
        recorded=True,
    )
    chunk_step_size: int = option(
        0, help="Write a series of maps, this many brokers at a time; 0: one map.", recorded=True
    )
    skip_no_ops: bool = option(
        False, "--skip-no-ops", help="Leave unchanged partitions out of the map files.", recorded=True
    )

    @property
    def evacuated(self) -> tuple[int, ...]:
        """The ids of `--leader-evac-brokers`; `UsageError` for -1 and -2."""
        if not self.leader_evac_brokers:
            return ()
        parsed = parse_broker_list(self.leader_evac_brokers, "--leader-evac-brokers")
        if parsed.where is not None:
            raise UsageError("--leader-evac-brokers: queries are not taken here", hint="give ids")
        if parsed.existing or parsed.everything:
            raise UsageError("--leader-evac-brokers: name the brokers, -1 and -2 mean all of them")
        return parsed.ids


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageOptions:
    """What is evened out; recorded where it is bytes."""

    placement: shared.Placement = field(default=PlaceBy.COUNT, metadata=IS_RECORDED)
    optimize: OptimizeFor = option(
        OptimizeFor.DISTRIBUTION,
        help="With storage placement: only free bytes (storage), or free bytes and then leaders (distribution).",
        recorded=True,
    )
    partition_size_factor: float = option(
        1.0, help="With storage placement: what a new copy reserves, as a multiple of its size.", recorded=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataOptions:
    """What is known of brokers."""

    use_meta: bool = option(
        True,
        "--use-meta/--no-use-meta",
        help="Use the racks and the state of brokers.",
        recorded=lambda used: "" if used else "false",
    )


@with_option_groups
@without_collector()
def rebuild(
    ctx: typer.Context,
    requested: RebuildOptions,
    storage: StorageOptions,
    metadata: MetadataOptions,
    ceilings: shared.CeilingOptions,
    tags: ConstraintOptions,
    output: MapOutput,
    cluster: KafkaKitClusterOptions,
) -> int:
    """Replace brokers with the fewest moves, or rebuild placement evenly.

    Writes map files (and a plan with --plan) and changes nothing on the cluster. Exits 4 when no placement
    satisfies the request, naming what to add.
    """
    from kafkakit.cli.search_watch import answered_at_once, watching
    from kafkakit.topicmappr.act.places import report_duplicates
    from kafkakit.topicmappr.act.planning import save_plan, unobserved
    from kafkakit.topicmappr.decide.rebuild import decide_rebuild
    from kafkakit.topicmappr.report.requests import rebuild_report

    cli = cli_context(ctx)
    request = rebuild_request(requested, storage, metadata, ceilings, tags, output)
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
        cli.noting(write_files),
        cli.settings.profile,
        series=decided.maps(skip_no_ops=request.skip_no_ops) if decided.scope.partitions else (),
        count=decided.map_count(),
    )
    return finish(cli, rebuild_report(decided, request, saved))


def rebuild_request(
    requested: RebuildOptions,
    storage: StorageOptions,
    metadata: MetadataOptions,
    ceilings: shared.CeilingOptions,
    tags: shared.ConstraintOptions,
    output: PlanDestination,
) -> "RebuildRequest":
    """Read the options; `UsageError` for those that cannot be read or contradict each other."""
    from kafkakit.topicmappr.decide.assembly import read_map_string
    from kafkakit.topicmappr.decide.requests import RebuildRequest, parse_factor

    by_storage = (storage,) if storage.placement is PlaceBy.STORAGE else ()
    return RebuildRequest(
        brokers=parse_broker_list(requested.brokers),
        topics=parse_patterns(requested.topics),
        topics_exclude=parse_patterns(requested.topics_exclude),
        map=read_map_string(requested.map_string) if requested.map_string else None,
        replication=requested.replication,
        force_rebuild=requested.force_rebuild,
        sub_affinity=requested.sub_affinity,
        min_rack_ids=requested.min_rack_ids,
        skip_no_ops=requested.skip_no_ops,
        optimize_leadership=requested.optimize_leadership,
        phased=requested.phased_reassignment,
        leader_evac_brokers=requested.evacuated,
        leader_evac_topics=parse_patterns(requested.leader_evac_topics),
        chunk_step=requested.chunk_step_size,
        use_meta=metadata.use_meta,
        minimize=requested.minimize,
        placement=storage.placement,
        optimize=storage.optimize,
        partition_size_factor=parse_factor(storage.partition_size_factor),
        exclude_receivers=shared.brokers_given(requested.exclude_receivers, "--exclude-receivers"),
        ceilings=ceilings.ceilings,
        constraints=tags.constraints,
        words=recorded_words("topicmappr rebuild", requested, output, *by_storage, metadata, ceilings, tags),
    )


PartitionArgument = Annotated[
    str, typer.Argument(metavar="TOPIC/PARTITION", help="The partition, like orders/3 or orders-3.")
]
Slack = Annotated[str, typer.Option(metavar="PERCENT", help="How far the plan's goal may be relaxed; 0% keeps it.")]


def explain(ctx: typer.Context, plan: PlanArgument, partition: PartitionArgument, snapshot: Snapshot = None) -> int:
    """Explain why the plan places a partition on its brokers, and why not on the others.

    Needs only the plan file. With --snapshot it also shows which brokers are alive, and whether the list has
    changed.
    """
    from kafkakit.core.plan_rules import read_plan
    from kafkakit.topicmappr.decide.explain import explain as explain_partition
    from kafkakit.topicmappr.decide.explain import find_partition
    from kafkakit.topicmappr.report.judgement import explain_report

    decoded = read_plan(plan, read_input)
    key = find_partition(decoded, partition)
    state = observed(ctx, snapshot, None)[0] if snapshot is not None else None
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
    """Adapt a plan, with the fewest changes, to a cluster that has changed: sizes, brokers, partitions, other moves.

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
    seen, _ = observed_storage(ctx, cluster, None)
    with cli.output.progress("planning"), answered_at_once(None):
        found = decide_replan(decoded, seen.snapshot, seen.facts, slack=widened)
    found = replace(found, plan=replace(found.plan, notes=tuple(map(cli.called, found.plan.notes))))
    saved = save_plan(
        found.plan, output, cli.program, cli.noting(write_files), cli.settings.profile, changed=found.differs
    )
    source, file = ("stdin", None) if old_plan == "-" else (old_plan, old_plan)
    return finish(cli, replan_report(found, source, saved, apply_command(cli.program, found.plan, file)))
