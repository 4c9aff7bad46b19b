"""`kafkakit topicmappr drain`, `fix-racks`, `set-replication` and `leaders`: plain requests, one plan each."""

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import recorded_words, with_option_groups
from kafkakit.cli.tag_options import TagSource
from kafkakit.core.cycle_collector import without_collector
from kafkakit.placement.problem import PlaceBy
from kafkakit.topicmappr.commands.flow import end_request, observed_storage, plan_request
from kafkakit.topicmappr.commands.options import (
    AllTopicsOptions,
    ClusterOptions,
    ConstraintOptions,
    PlanOutput,
    RackOptions,
    RunLimits,
    Snapshot,
    TopicOptions,
    brokers_given,
)
from kafkakit.topicmappr.commands.request_options import (
    DrainOptions,
    LeaderLimits,
    LeaderOptions,
    PlacementOptions,
    RackRepairOptions,
    ReplicationOptions,
)


@with_option_groups
@without_collector()
def drain(
    ctx: typer.Context,
    leaving: DrainOptions,
    topics: AllTopicsOptions,
    racks: RackOptions,
    placing: PlacementOptions,
    limits: RunLimits,
    tags: ConstraintOptions,
    output: PlanOutput,
    cluster: ClusterOptions,
) -> int:
    """Move every replica off the named brokers, with the fewest copies.

    The copies go where they keep the counts of all topics even, or free bytes (--placement storage); leaderships
    pass to the remaining replicas. Replicas on other brokers stay where they are. With a budget (--max-moves,
    --max-moved-bytes) partitions of dead brokers go first, then the smallest; run it again for the rest. Exits 4
    when no broker may take a replica.
    """
    from kafkakit.cli.search_watch import watching
    from kafkakit.topicmappr.decide.drain.decision import decide_drain
    from kafkakit.topicmappr.decide.drain.problem import DrainRequest

    command, cli = "topicmappr drain", cli_context(ctx)
    request = DrainRequest(
        leaving=leaving.leaving,
        receiving=leaving.receiving,
        exclude_receivers=brokers_given(leaving.exclude_receivers, "--exclude-receivers"),
        topics=topics.patterns,
        topics_exclude=topics.excluded,
        min_rack_ids=racks.min_rack_ids,
        spread=racks.spread,
        placement=placing.placement,
        pinned=limits.pinned,
        budget=limits.budget,
        constraints=tags.constraints,
        words=recorded_words(command, leaving, topics, racks, output, placing, limits, tags),
    )
    if placing.placement is PlaceBy.STORAGE or limits.max_moved_bytes:
        output.check()
        seen, request = observed_storage(ctx, cluster, request, tags)
        with watching(cli) as watch:
            change = decide_drain(seen.snapshot, request, seen.facts, watch)
        return end_request(ctx, command, change, output)
    return plan_request(ctx, command, decide_drain, request, output, cluster.snapshot, tags)


@with_option_groups
@without_collector()
def fix_racks(
    ctx: typer.Context,
    topics: AllTopicsOptions,
    repair: RackRepairOptions,
    limits: RunLimits,
    tags: ConstraintOptions,
    output: PlanOutput,
    snapshot: Snapshot = None,
) -> int:
    """Make every partition obey the rack rule, with the fewest copies.

    Only replicas beyond what the rule allows move; which of them, and where to, is chosen so that the counts of all
    topics stay even. With a budget (--max-moves, --max-moved-bytes) the sets with the most replicas to move go
    first; run it again for the rest. Exits 4 when a partition cannot be repaired because racks are missing.
    """
    from kafkakit.topicmappr.decide.fix_racks.decision import decide_fix_racks
    from kafkakit.topicmappr.decide.fix_racks.problem import FixRacksRequest

    command = "topicmappr fix-racks"
    request = FixRacksRequest(
        topics=topics.patterns,
        topics_exclude=topics.excluded,
        min_rack_ids=repair.min_rack_ids,
        spread=repair.spread,
        minimize=repair.minimize,
        exclude_receivers=brokers_given(repair.exclude_receivers, "--exclude-receivers"),
        pinned=limits.pinned,
        budget=limits.budget,
        constraints=tags.constraints,
        words=recorded_words(command, topics, repair, output, limits, tags),
    )
    return plan_request(ctx, command, decide_fix_racks, request, output, snapshot, tags)


@with_option_groups
@without_collector()
def set_replication(
    ctx: typer.Context,
    wanted: ReplicationOptions,
    topics: TopicOptions,
    limits: RunLimits,
    tags: ConstraintOptions,
    output: PlanOutput,
    snapshot: Snapshot = None,
) -> int:
    """Give every partition of the topics N replicas.

    Added copies follow the rack rule and even the counts out. Where the factor is lowered the leader stays; rack
    repeats go first, then copies out of sync, then those on the fullest brokers. With a budget (--max-moves,
    --max-moved-bytes) partitions that lack most copies go first; run it again for the rest. Exits 4 when N copies
    cannot be placed.
    """
    from kafkakit.topicmappr.decide.set_replication import ReplicationRequest, decide_set_replication

    command = "topicmappr set-replication"
    request = ReplicationRequest(
        replication=wanted.replication,
        topics=topics.patterns,
        topics_exclude=topics.excluded,
        min_rack_ids=wanted.min_rack_ids,
        exclude_receivers=brokers_given(wanted.exclude_receivers, "--exclude-receivers"),
        pinned=limits.pinned,
        budget=limits.budget,
        constraints=tags.constraints,
        words=recorded_words(command, topics, wanted, output, limits, tags),
    )
    return plan_request(ctx, command, decide_set_replication, request, output, snapshot, tags)


@with_option_groups
@without_collector()
def leaders(
    ctx: typer.Context,
    topics: AllTopicsOptions,
    leading: LeaderOptions,
    limits: LeaderLimits,
    tags: TagSource,
    output: PlanOutput,
    snapshot: Snapshot = None,
) -> int:
    """Spread preferred leaders evenly by reordering replica lists, with the fewest changes.

    No data moves: the new leader goes to the front of its list and the others keep their order. With --max-moves,
    leaderships on brokers that must not lead are moved first, then those that even out the counts most. Exits 4
    when a partition has no replica on a broker that may lead.
    """
    from kafkakit.topicmappr.decide.leaders import LeadersRequest, decide_leaders

    command = "topicmappr leaders"
    request = LeadersRequest(
        topics=topics.patterns,
        topics_exclude=topics.excluded,
        brokers=leading.listed,
        evacuated=leading.evacuated,
        pinned=limits.pinned,
        budget=limits.budget,
        words=recorded_words(command, topics, leading, output, limits),
    )
    return plan_request(ctx, command, decide_leaders, request, output, snapshot, tags)
