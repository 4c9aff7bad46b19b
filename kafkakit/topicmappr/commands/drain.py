"""`kafkakit topicmappr drain`: empty brokers, live or dead."""

from typing import Annotated

import typer

from kafkakit.cli.command_classes import kit_of
from kafkakit.placement.choices import PlaceBy
from kafkakit.topicmappr.commands.options import (
    ZK_ADDR,
    ZK_METRICS_PREFIX,
    ExitCodeFlag,
    IgnoreWarns,
    MetricsAge,
    MinRackIds,
    Pin,
    Placement,
    PlanFile,
    ReportFile,
    RunMovedBytes,
    RunMoves,
    SizesSource,
    Snapshot,
    Spread,
    Topics,
    TopicsExclude,
    ZkAddr,
    ZkMetricsPrefix,
)
from kafkakit.topicmappr.commands.planning import observe, observe_storage, recorded
from kafkakit.topicmappr.decide.size_source import SizesFrom

Leaving = Annotated[str, typer.Option(help="Ids of the brokers to empty, comma separated; they may be dead.")]
To = Annotated[
    str, typer.Option(help="Ids of the brokers that may take the replicas; all other live ones if not given.")
]


def drain(
    ctx: typer.Context,
    brokers: Leaving,
    to: To = "",
    topics: Topics = ".*",
    topics_exclude: TopicsExclude = "",
    snapshot: Snapshot = None,
    min_rack_ids: MinRackIds = 0,
    spread: Spread = False,
    placement: Placement = PlaceBy.COUNT,
    pin: Pin = None,
    max_moves: RunMoves = None,
    max_moved_bytes: RunMovedBytes = "",
    sizes_from: SizesSource = SizesFrom.BROKERS,
    metrics_age: MetricsAge = None,
    plan: PlanFile = None,
    report: ReportFile = None,
    ignore_warns: IgnoreWarns = False,
    exit_code: ExitCodeFlag = False,
    zk_addr: ZkAddr = ZK_ADDR,
    zk_metrics_prefix: ZkMetricsPrefix = ZK_METRICS_PREFIX,
) -> int:
    """Move every replica off the named brokers, with the fewest copies.

    The copies go where they keep the counts of all topics even, or free bytes (--placement storage);
    leaderships pass on to the remaining replicas. Replicas on other brokers stay where they are. With a budget
    (--max-moves, --max-moved-bytes) partitions of dead brokers go first, then the smallest; run it again for the
    rest. Exits 4 when a replica finds no lawful place.
    """
    from kafkakit.core.broker_list import parse_broker_list
    from kafkakit.core.topic_selection import parse_patterns
    from kafkakit.topicmappr.act.cluster import Destination
    from kafkakit.topicmappr.act.garbage import without_collector
    from kafkakit.topicmappr.commands.planned import budget_of, finish, limits_recorded
    from kafkakit.topicmappr.commands.search_watch import watching
    from kafkakit.topicmappr.decide.drain.decision import decide_drain
    from kafkakit.topicmappr.decide.drain.request import DrainRequest

    kit = kit_of(ctx)
    request = DrainRequest(
        leaving=parse_broker_list(brokers),
        receiving=parse_broker_list(to) if to else None,
        topics=parse_patterns(topics),
        topics_exclude=parse_patterns(topics_exclude),
        min_rack_ids=min_rack_ids,
        spread=spread,
        placement=placement,
        pinned=parse_patterns(",".join(pin or ())),
        budget=budget_of(max_moves, max_moved_bytes),
        words=recorded("topicmappr drain", locals(), (*_RECORDED, *("placement",) * (placement is PlaceBy.STORAGE)))
        | limits_recorded(pin, max_moves, max_moved_bytes),
    )
    destination = Destination(plan=plan, report=report)
    destination.check()
    with without_collector():
        if placement is PlaceBy.STORAGE or max_moved_bytes:
            seen = observe_storage(
                kit,
                snapshot,
                sizes_from=sizes_from,
                zk_addr=zk_addr,
                zk_metrics_prefix=zk_metrics_prefix,
                metrics_age=metrics_age,
            )
            with watching(kit.output) as watch:
                change = decide_drain(seen.snapshot, request, seen.facts, watch)
            return finish(kit, "topicmappr drain", change, destination, ignore_warns=ignore_warns, exit_code=exit_code)
        state = observe(kit, snapshot)
        with kit.output.progress("planning"):
            change = decide_drain(state, request)
        return finish(kit, "topicmappr drain", change, destination, ignore_warns=ignore_warns, exit_code=exit_code)


_RECORDED = ("brokers", "to", "topics", "topics_exclude", "min_rack_ids", "spread", "ignore_warns")
