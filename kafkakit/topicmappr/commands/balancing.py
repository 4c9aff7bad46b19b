"""`kafkakit topicmappr rebalance`, `scale` and `add-brokers`: balance bytes over brokers with the fewest copied.

The options of these commands, and the request that they make, are here as well.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.completion import BROKER_CHOICE
from kafkakit.cli.option_groups import IS_RECORDED, given_options, recorded_as, recorded_words, with_option_groups
from kafkakit.core.columns import without_collector
from kafkakit.core.options import option
from kafkakit.core.quantities import parse_percent, parse_size
from kafkakit.core.selection import parse_broker_list
from kafkakit.placement.problem import Minimize
from kafkakit.topicmappr.act.places import PlanDestination
from kafkakit.topicmappr.commands import options as shared
from kafkakit.topicmappr.commands.options import KafkaKitClusterOptions, MapOutput, PlanOutput, observed_storage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkakit.topicmappr.decide.frontier import FrontierPoint
    from kafkakit.topicmappr.decide.requests import RebalanceRequest


Verbose = Annotated[bool, typer.Option("--verbose", help="Also print the goals tried, at most ten.")]
ADD_BROKERS = "topicmappr add-brokers"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetBrokers:
    """The brokers that a balance is over."""

    brokers: shared.Brokers = field(metadata=IS_RECORDED)


Band = Annotated[
    str,
    typer.Option(
        metavar="PERCENT",
        help="Bring every broker within this percentage of its share of used space, by capacity.",
    ),
]


class BalanceWithin(StrEnum):
    """Over what bytes are balanced."""

    CLUSTER = "cluster"
    RACKS = "racks"


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceGoal:
    """What loads should look like in the end; nothing given: kafka-kit's thresholds."""

    band: Band = field(default="", metadata=IS_RECORDED)
    free_range: str = option(
        "", metavar="SIZE", help="Largest difference in free space between two brokers (369GiB).", recorded=True
    )
    count_band: str = option(
        "",
        metavar="PERCENT",
        help="Bring every broker's count of replicas within this percentage of an equal share.",
        recorded=True,
    )
    balance_within: BalanceWithin = option(
        BalanceWithin.CLUSTER,
        help="A broker's share is of what the cluster holds, or of what its rack holds now.",
        recorded=lambda value: "" if value is BalanceWithin.CLUSTER else str(value),
    )
    best_effort: bool = option(
        False, "--best-effort", help="If the goal cannot be met, use the closest plan found.", recorded=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceBudget:
    """What a balance may cost, and in what its cost is counted."""

    max_moved_bytes: str = option(
        "",
        metavar="SIZE",
        help="Copy at most this many bytes; without a goal, reach the smallest range that this allows.",
        recorded=True,
    )
    max_moves: int | None = option(
        None,
        min=0,
        metavar="N",
        help="Copy at most this many replicas; without a goal, reach the smallest range that this allows.",
        recorded=shared.word_of,
    )
    minimize: shared.MinimizeBy = field(default=Minimize.BYTES, metadata=IS_RECORDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerances:
    """kafka-kit's options for when no goal is given."""

    tolerance: float = option(
        0.0,
        metavar="FRACTION",
        help="How far sources and destinations may end from the mean; 0: chosen by the search.",
        recorded=True,
    )
    partition_limit: int = option(
        30, min=1, metavar="N", help="Accepted for kafka-kit's scripts; every partition is considered."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """kafka-kit's choice of the brokers that give."""

    storage_threshold: float | None = option(
        None,
        metavar="FRACTION",
        help="Offload brokers this far below the harmonic mean of free space: 0.20 when no goal is given, 0 all.",
        recorded=shared.word_of,
    )
    storage_threshold_gb: float | None = option(
        None,
        metavar="GIB",
        help="Offload brokers with less free space than this; overrides --storage-threshold.",
        recorded=shared.word_of,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MovingRules:
    """Which replicas may move, and where to."""

    partition_size_threshold: int | None = option(
        None,
        min=0,
        metavar="MIB",
        help="Do not move partitions smaller than this: 512 when no goal is given, else 0.",
        recorded=shared.word_of,
    )
    locality_scoped: shared.LocalityScoped = field(default=False, metadata=IS_RECORDED)
    min_rack_ids: shared.MinRackIds = field(default=0, metadata=IS_RECORDED)
    spread: shared.Spread = field(default=False, metadata=IS_RECORDED)
    max_rack_violations: int | None = option(
        None,
        min=0,
        metavar="N",
        help="Repair replica sets until no more than this break the rack rule; if not given, they may stay.",
        recorded=shared.word_of,
    )
    limits: shared.BrokerLimits
    max_disk_use: shared.MaxDiskUse = field(default="90%", metadata=IS_RECORDED)
    head_room: shared.HeadRoom = field(default="0", metadata=recorded_as(shared.head_room_word))


@dataclass(frozen=True, slots=True, kw_only=True)
class DirBalance:
    """What happens inside brokers."""

    balance_dirs: str = option(
        "",
        metavar="PERCENT",
        help="Also balance the log dirs of each broker to within this percentage of their shares (10%).",
        recorded=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """What stays, and whether leaders are evened out."""

    pin: shared.Pin = field(default=None, metadata=recorded_as(shared.pin_word))
    optimize_leadership: shared.OptimizeLeadership = field(default=False, metadata=IS_RECORDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceOptions:
    """The groups of a balance."""

    brokers: TargetBrokers
    topics: shared.TopicOptions
    goal: BalanceGoal
    budget: BalanceBudget
    thresholds: Thresholds
    tolerances: Tolerances
    rules: MovingRules
    dirs: DirBalance
    pins: Pins
    tags: shared.ConstraintOptions

    def request(self, command: str, output: PlanDestination) -> "RebalanceRequest":
        """Read the options; `UsageError` for those that cannot be read or contradict each other."""
        from kafkakit.topicmappr.decide.requests import MOST_BAND, Goal, RebalanceRequest

        goal, budget, rules = self.goal, self.budget, self.rules
        kafka_kit, rest = (self.thresholds, self.tolerances), (rules, self.dirs, self.pins, output)
        request = RebalanceRequest(
            brokers=parse_broker_list(self.brokers.brokers),
            topics=self.topics.patterns,
            topics_exclude=self.topics.excluded,
            scale=command == "topicmappr scale",
            goal=Goal(
                band=parse_percent(goal.band, "--band", most=MOST_BAND) if goal.band else None,
                free_range_bytes=parse_size(goal.free_range, "--free-range") if goal.free_range else None,
                count_band=parse_percent(goal.count_band, "--count-band") if goal.count_band else None,
                max_moved_bytes=(
                    parse_size(budget.max_moved_bytes, "--max-moved-bytes") if budget.max_moved_bytes else None
                ),
                max_moves=budget.max_moves,
                within_racks=goal.balance_within is BalanceWithin.RACKS,
                best_effort=goal.best_effort,
            ),
            storage_threshold=self.thresholds.storage_threshold,
            storage_threshold_gb=self.thresholds.storage_threshold_gb,
            tolerance=self.tolerances.tolerance,
            partition_limit=self.tolerances.partition_limit,
            partition_size_threshold_mib=rules.partition_size_threshold,
            locality_scoped=rules.locality_scoped,
            min_rack_ids=rules.min_rack_ids,
            spread=rules.spread,
            max_rack_violations=rules.max_rack_violations,
            minimize=budget.minimize,
            max_disk_use=parse_percent(rules.max_disk_use, "--max-disk-use"),
            head_room_bytes=parse_size(rules.head_room, "--head-room"),
            balance_dirs=parse_percent(self.dirs.balance_dirs, "--balance-dirs") if self.dirs.balance_dirs else None,
            pinned=shared.patterns_of(self.pins.pin),
            optimize_leadership=self.pins.optimize_leadership,
            constraints=self.tags.constraints,
            constraint_options=given_options(self.tags),
            words=recorded_words(command, self.brokers, self.topics, goal, budget, *kafka_kit, *rest, self.tags),
        )
        return rules.limits.on(request)


@with_option_groups
def rebalance(
    ctx: typer.Context,
    requested: BalanceOptions,
    output: MapOutput,
    cluster: KafkaKitClusterOptions,
    verbose: Verbose = False,
) -> int:
    """Balance bytes over brokers, copying as little as possible, with a proven lower bound.

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
    return run_balance(ctx, "topicmappr rebalance", requested, output, cluster, verbose=verbose)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleOptions(BalanceOptions):
    """Options of a balance in which all brokers that are not new give."""

    thresholds: Thresholds = field(default=Thresholds(), init=False)


@with_option_groups
def scale(
    ctx: typer.Context,
    requested: ScaleOptions,
    output: MapOutput,
    cluster: KafkaKitClusterOptions,
    verbose: Verbose = False,
) -> int:
    """Give new brokers their share of the bytes, copying as little as possible, with a proof.

    Like rebalance, but copies may leave every broker that is not new, and --brokers must name at least one that
    holds none of the topics yet. Writes map files (and a plan with --plan) and changes nothing on the cluster.

    Examples:

    \b
    kafkakit --profile prod topicmappr scale --topics '.*' --brokers -1,1007,1008 --plan p.json
    """
    return run_balance(ctx, "topicmappr scale", requested, output, cluster, verbose=verbose)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedBrokers(TargetBrokers):
    """The brokers that join."""

    brokers: Annotated[str, typer.Option(**BROKER_CHOICE, help="Brokers to add; they must be live.")] = field(
        metadata=IS_RECORDED
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BandGoal(BalanceGoal):
    """The balance that new brokers are brought to."""

    band: Band = field(default="10%", metadata=IS_RECORDED)
    free_range: str = field(default="", init=False)
    count_band: str = field(default="", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOptions(ScaleOptions):
    """Options of adding brokers that may hold replicas already: a band is the only goal."""

    brokers: AddedBrokers
    topics: shared.AllTopicsOptions
    goal: BandGoal
    tolerances: Tolerances = field(default=Tolerances(), init=False)
    dirs: DirBalance = field(default=DirBalance(), init=False)


@with_option_groups
def add_brokers(
    ctx: typer.Context,
    requested: AddOptions,
    output: PlanOutput,
    cluster: KafkaKitClusterOptions,
    verbose: Verbose = False,
) -> int:
    """Give new brokers their share of the bytes, copying as little as possible, with a proof.

    Every broker that holds the topics and every one in --brokers ends within --band of its share, by capacity.
    The brokers to add may hold replicas already. Exits 4 when the band cannot be reached, naming the nearest
    that can.
    """
    return run_balance(ctx, ADD_BROKERS, requested, output, cluster, verbose=verbose)


@without_collector()
def run_balance(
    ctx: typer.Context,
    command: str,
    requested: BalanceOptions,
    output: PlanOutput,
    cluster: KafkaKitClusterOptions,
    *,
    verbose: bool,
) -> int:
    """Read the cluster, balance it, write maps, plan and page, and end the command."""
    from kafkakit.cli.search_watch import watching
    from kafkakit.cli.session import finish
    from kafkakit.core.errors import InterruptedRunError
    from kafkakit.placement.watch import BudgetedWatch
    from kafkakit.topicmappr.act.places import report_duplicates
    from kafkakit.topicmappr.act.planning import save_plan
    from kafkakit.topicmappr.decide.frontier import frontier_points
    from kafkakit.topicmappr.decide.rebalance import decide_add_brokers, decide_rebalance, keep_existing_brokers
    from kafkakit.topicmappr.report.balance import rebalance_report
    from kafkakit.wiring import write_files

    cli, adding = cli_context(ctx), command == ADD_BROKERS
    request = requested.request(command, output)
    output.check(cli.require_replaceable)
    report_duplicates(request.brokers, cli.output)
    seen, request = observed_storage(ctx, cluster, request, requested.tags)
    with watching(cli) as watch:
        within = BudgetedWatch(watch)
        decided = (decide_add_brokers if adding else decide_rebalance)(seen.snapshot, request, seen.facts, within)
        plan = decided.plan
        if decided.stopped and not (plan.moves or plan.dir_moves):
            raise InterruptedRunError("interrupted before a plan was found that changes anything; nothing was written")

    def other_bands() -> "Sequence[FrontierPoint]":
        if decided.stopped:
            return ()
        with watching(cli) as watch:
            watch.phase("other bands for the report")
            wider = keep_existing_brokers(request) if adding else request
            rest = BudgetedWatch(watch, within.left)
            return frontier_points(seen.snapshot, wider, seen.facts, watch=rest)

    maps = (plan.reassignment,) if plan.moves else ()
    saved = save_plan(
        plan, output, cli.program, cli.noting(write_files), cli.settings.profile, series=maps, frontier=other_bands
    )
    return finish(cli, rebalance_report(command, decided, request, saved, verbose=verbose))
