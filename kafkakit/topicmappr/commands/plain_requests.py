"""`kafkakit topicmappr drain`, `fix-racks`, `set-replication`, `leaders`, `place` and `rebalance-dirs`: one plan each.

`place` says where the partitions of a new topic should go. `rebalance-dirs` levels log dirs inside brokers; no replica
changes brokers. Options that only one of these commands has are here as well.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.common_options import TagSource
from kafkakit.cli.completion import BROKER_CHOICE, TOPIC_CHOICE
from kafkakit.cli.option_groups import IS_RECORDED, given_options, recorded_as, recorded_words, with_option_groups
from kafkakit.core.columns import without_collector
from kafkakit.core.options import option
from kafkakit.core.quantities import parse_size
from kafkakit.core.selection import BrokerList, parse_broker_list, parse_patterns
from kafkakit.placement.problem import Minimize, PlaceBy
from kafkakit.topicmappr.act.places import ClusterSource
from kafkakit.topicmappr.commands import options as shared
from kafkakit.topicmappr.commands.options import (
    AllTopicsOptions,
    CeilingOptions,
    ClusterOptions,
    ConstraintOptions,
    OutPath,
    PlanOutput,
    RackOptions,
    RunLimits,
    Snapshot,
    TopicOptions,
    brokers_given,
    end_request,
    observed,
    observed_storage,
    patterns_of,
    plan_request,
)
from kafkakit.topicmappr.decide.requests import Budget

if TYPE_CHECKING:
    from kafkakit.topicmappr.decide.place import PlaceRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainOptions:
    """Which brokers are emptied, and onto which."""

    brokers: Annotated[str, typer.Option(**BROKER_CHOICE, help="Brokers to empty; they may be dead.")] = field(
        metadata=IS_RECORDED
    )
    to: str = option(
        "", **BROKER_CHOICE, help="Brokers that may take the replicas; all other live ones if not given.", recorded=True
    )
    log_dir: list[str] | None = option(
        None,
        metavar="PATH",
        help="Empty only this log dir of the brokers, as far as possible into their other ones; may be repeated.",
        recorded=lambda paths: ",".join(paths or ()),
    )
    exclude_receivers: shared.ExcludeReceivers = field(default="", metadata=IS_RECORDED)

    @property
    def leaving(self) -> BrokerList:
        """The brokers to empty."""
        return parse_broker_list(self.brokers)

    @property
    def receiving(self) -> BrokerList | None:
        """The brokers that may take replicas; None: every other live one."""
        return shared.brokers_given(self.to)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementOptions:
    """What is evened out; recorded where it is bytes."""

    placement: shared.Placement = field(
        default=PlaceBy.COUNT, metadata=recorded_as(lambda chosen: chosen if chosen is PlaceBy.STORAGE else "")
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
    ceilings: CeilingOptions,
    tags: ConstraintOptions,
    output: PlanOutput,
    cluster: ClusterOptions,
) -> int:
    """Move every replica off the named brokers, with the fewest copies.

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
    from functools import partial

    from kafkakit.cli.search_watch import watching
    from kafkakit.topicmappr.decide.drain import DrainRequest, decide_drain
    from kafkakit.topicmappr.decide.drain_dirs import decide_drain_dirs

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
        ceilings=ceilings.ceilings,
        constraints=tags.constraints,
        constraint_options=given_options(tags),
        words=recorded_words(command, leaving, topics, racks, output, placing, limits, ceilings, tags),
    )
    if placing.placement is PlaceBy.STORAGE or limits.max_moved_bytes or leaving.log_dir:
        output.check()
        seen, request = observed_storage(ctx, cluster, request, tags)
        decide = decide_drain
        if leaving.log_dir:
            decide = partial(decide_drain_dirs, log_dirs=leaving.log_dir)
        with watching(cli) as watch:
            change = decide(seen.snapshot, request, seen.facts, watch)
        return end_request(ctx, command, change, output)
    return plan_request(ctx, command, decide_drain, request, output, cluster.snapshot, tags)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairOptions:
    """Whose offline replicas are replaced, and who takes none."""

    brokers: str = option(
        "",
        **BROKER_CHOICE,
        help="Replace only offline replicas of these brokers. Default: offline replicas of all brokers.",
        recorded=True,
    )
    exclude_receivers: shared.ExcludeReceivers = field(default="", metadata=IS_RECORDED)


@with_option_groups
@without_collector()
def repair(
    ctx: typer.Context,
    offline: RepairOptions,
    topics: AllTopicsOptions,
    racks: RackOptions,
    placing: PlacementOptions,
    limits: RunLimits,
    ceilings: CeilingOptions,
    tags: ConstraintOptions,
    output: PlanOutput,
    cluster: ClusterOptions,
) -> int:
    """Replace replicas that are offline, on dead brokers or in failed log dirs, with the fewest copies.

    Every partition ends with as many replicas as it lists, on racks that keep the rule. Replicas that work stay where
    they are, also on a broker with a failed log dir. Partitions with the fewest live copies in sync go first
    (--max-moves, --max-moved-bytes); run it again for the rest. Exits 4 when no broker may take a replica.
    """
    from kafkakit.cli.search_watch import watching
    from kafkakit.topicmappr.decide.repair import RepairRequest, decide_repair

    command, cli = "topicmappr repair", cli_context(ctx)
    request = RepairRequest(
        brokers=brokers_given(offline.brokers),
        exclude_receivers=brokers_given(offline.exclude_receivers, "--exclude-receivers"),
        topics=topics.patterns,
        topics_exclude=topics.excluded,
        min_rack_ids=racks.min_rack_ids,
        spread=racks.spread,
        placement=placing.placement,
        pinned=limits.pinned,
        budget=limits.budget,
        ceilings=ceilings.ceilings,
        constraints=tags.constraints,
        words=recorded_words(command, offline, topics, racks, output, placing, limits, ceilings, tags),
    )
    if placing.placement is PlaceBy.STORAGE or limits.max_moved_bytes:
        output.check()
        seen, request = observed_storage(ctx, cluster, request, tags)
        with watching(cli) as watch:
            change = decide_repair(seen.snapshot, request, seen.facts, watch)
        return end_request(ctx, command, change, output)
    return plan_request(ctx, command, decide_repair, request, output, cluster.snapshot, tags)


@dataclass(frozen=True, slots=True, kw_only=True)
class RackRepairOptions(shared.RackOptions):
    """The rack rule, and what repairing it spends least of."""

    minimize: shared.MinimizeBy = field(default=Minimize.MOVES, metadata=IS_RECORDED)
    exclude_receivers: shared.ExcludeReceivers = field(default="", metadata=IS_RECORDED)


@with_option_groups
@without_collector()
def fix_racks(
    ctx: typer.Context,
    topics: AllTopicsOptions,
    repair: RackRepairOptions,
    limits: RunLimits,
    ceilings: CeilingOptions,
    tags: ConstraintOptions,
    output: PlanOutput,
    snapshot: Snapshot = None,
) -> int:
    """Make every partition obey the rack rule, with the fewest copies.

    Only replicas beyond what the rule allows move; which of them, and where to, is chosen so that the counts of all
    topics stay even. With a budget (--max-moves, --max-moved-bytes) the sets with the most replicas to move go
    first; run it again for the rest. Exits 4 when a partition cannot be repaired because racks are missing.
    """
    from kafkakit.topicmappr.decide.fix_racks import FixRacksRequest, decide_fix_racks

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
        ceilings=ceilings.ceilings,
        constraints=tags.constraints,
        words=recorded_words(command, topics, repair, output, limits, ceilings, tags),
    )
    return plan_request(ctx, command, decide_fix_racks, request, output, snapshot, tags)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationOptions:
    """The factor wanted, under the rack rule."""

    replication: Annotated[int, typer.Argument(metavar="N", help="Replicas that each partition will have.")] = field(
        metadata=IS_RECORDED
    )
    min_rack_ids: shared.MinRackIds = field(default=0, metadata=IS_RECORDED)
    exclude_receivers: shared.ExcludeReceivers = field(default="", metadata=IS_RECORDED)


@with_option_groups
@without_collector()
def set_replication(
    ctx: typer.Context,
    wanted: ReplicationOptions,
    topics: TopicOptions,
    limits: RunLimits,
    ceilings: CeilingOptions,
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
    from kafkakit.topicmappr.decide.rebuild import ReplicationRequest, decide_set_replication

    command = "topicmappr set-replication"
    request = ReplicationRequest(
        replication=wanted.replication,
        topics=topics.patterns,
        topics_exclude=topics.excluded,
        min_rack_ids=wanted.min_rack_ids,
        exclude_receivers=brokers_given(wanted.exclude_receivers, "--exclude-receivers"),
        pinned=limits.pinned,
        budget=limits.budget,
        ceilings=ceilings.ceilings,
        constraints=tags.constraints,
        words=recorded_words(command, topics, wanted, output, limits, ceilings, tags),
    )
    return plan_request(ctx, command, decide_set_replication, request, output, snapshot, tags)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderOptions:
    """Which brokers may lead."""

    brokers: str = option("", **BROKER_CHOICE, help="Brokers that may lead; all live ones if not given.", recorded=True)
    leader_evac_brokers: shared.EvacuatedBrokers = field(default="", metadata=IS_RECORDED)

    @property
    def listed(self) -> BrokerList | None:
        """The brokers that may lead; None: all live ones."""
        return shared.brokers_given(self.brokers)

    @property
    def evacuated(self) -> BrokerList | None:
        """The brokers that must not lead."""
        return shared.brokers_given(self.leader_evac_brokers, "--leader-evac-brokers")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderLimits:
    """What one run leaves alone, and how many leaderships it passes on."""

    pin: shared.Pin = field(default=None, metadata=recorded_as(shared.pin_word))
    max_moves: int | None = option(
        None,
        min=0,
        metavar="N",
        help="Change at most this many partitions in one run; the same command continues.",
        recorded=shared.word_of,
    )

    @property
    def pinned(self) -> tuple[str, ...]:
        """The patterns of `--pin`."""
        return shared.patterns_of(self.pin)

    @property
    def budget(self) -> Budget:
        """The limit."""
        return Budget(max_moves=self.max_moves)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DirOptions:
    """On which brokers log dirs are levelled, and how far."""

    brokers: str = option(
        "-1",
        **BROKER_CHOICE,
        help="Brokers whose log dirs are balanced.",
        recorded=True,
    )
    band: str = option(
        "10%",
        metavar="PERCENT",
        help="Bring every log dir within this percentage of its share of its broker's use.",
        recorded=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DirLimits:
    """How full dirs may become, and what stays."""

    max_disk_use: shared.MaxDiskUse = field(default="90%", metadata=IS_RECORDED)
    head_room: shared.HeadRoom = field(default="0", metadata=IS_RECORDED)
    pin: shared.Pin = field(default=None, metadata=recorded_as(shared.pin_word))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopicOptions:
    """A new topic, and where it may go."""

    topic: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC", help="Name of the topic; if it exists, the brokers of added partitions are chosen."
        ),
    ]
    partitions: int | None = option(None, help="How many partitions the topic has in the end.")
    replication: int | None = option(None, help="How many replicas each partition has.")
    brokers: str = option("", **BROKER_CHOICE, help="Brokers that may hold the topic; all live ones if not given.")
    exclude_receivers: shared.ExcludeReceivers = ""
    topics_like: str = option(
        "",
        **TOPIC_CHOICE,
        help="Take partitions, replication and size from these topics unless they are given.",
    )
    partition_bytes: str = option(
        "", metavar="SIZE", help="Expected size of a partition (5GiB): balance brokers by bytes, not by counts."
    )
    min_rack_ids: shared.MinRackIds = 0

    def request(self, tags: ConstraintOptions) -> "PlaceRequest":
        """What is asked for; `UsageError` for options that cannot be read."""
        from kafkakit.topicmappr.decide.place import PlaceRequest

        return PlaceRequest(
            topic=self.topic,
            partitions=self.partitions,
            replication=self.replication,
            partition_bytes=parse_size(self.partition_bytes) if self.partition_bytes else None,
            like=parse_patterns(self.topics_like),
            brokers=shared.brokers_given(self.brokers),
            exclude_receivers=shared.brokers_given(self.exclude_receivers, "--exclude-receivers"),
            min_rack_ids=self.min_rack_ids,
            constraints=tags.constraints,
            constraint_options=given_options(tags),
        )


@with_option_groups
def place(
    ctx: typer.Context,
    new: NewTopicOptions,
    tags: ConstraintOptions,
    snapshot: Snapshot = None,
    out_path: OutPath = "",
) -> int:
    """Choose the brokers of a new topic's partitions, or of those that a topic is to get.

    Spreads replicas and leaders over racks and brokers, under the rack rule, then evens out the load of all topics.
    The partitions that a topic has stay where they are and count. Writes the assignment as a map file and prints the
    kafka-topics command that creates the topic, or adds the partitions; there is no plan, since nothing has to move.
    """
    from kafkakit.cli.search_watch import answered_at_once
    from kafkakit.cli.session import finish
    from kafkakit.topicmappr.act.places import MapDestination
    from kafkakit.topicmappr.act.planning import save_maps
    from kafkakit.topicmappr.decide.place import decide_place
    from kafkakit.topicmappr.report.requests import place_report
    from kafkakit.wiring import write_files

    cli, request, destination = cli_context(ctx), new.request(tags), MapDestination(out_path=out_path)
    destination.check()
    state, request = observed(ctx, snapshot, request, tags)
    with cli.output.progress("placing"), answered_at_once(None):
        placed = decide_place(state, request)
    (saved,) = save_maps((placed.as_map(),), destination, cli.noting(write_files))
    address = None if snapshot is not None else cli.settings.bootstrap_servers
    return finish(cli, place_report(placed, saved.path, address))


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

    No replica changes brokers. Cordoned dirs receive nothing, and nothing leaves an offline dir. If a band
    cannot be reached, the nearest is planned, a warning gives the reason, and --ignore-warns writes the plan.

    Examples:

    \b
    kafkakit --profile prod topicmappr rebalance-dirs --band 10% --plan p.json
    kafkakit --profile prod topicmappr rebalance-dirs --brokers 1003 --topics 'logs.*' -o tsv
    """
    from kafkakit.cli.search_watch import answered_at_once
    from kafkakit.cli.session import finish
    from kafkakit.core.quantities import parse_percent, parse_size
    from kafkakit.placement.log_dirs_balance import DirRules
    from kafkakit.topicmappr.act.planning import save_plan
    from kafkakit.topicmappr.decide.dirs import RebalanceDirsRequest, decide_rebalance_dirs
    from kafkakit.topicmappr.report.requests import rebalance_dirs_report
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
        rebalance_dirs_report(
            change, save_plan(change.plan, output, cli.program, cli.noting(write_files), cli.settings.profile)
        ),
    )
