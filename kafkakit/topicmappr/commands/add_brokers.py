"""`kafkakit topicmappr add-brokers`: new brokers take their share of the bytes."""

from typing import Annotated

import typer

from kafkakit.placement.problem import Minimize
from kafkakit.topicmappr.commands.balancing import ADD_BROKERS, run_balance
from kafkakit.topicmappr.commands.options import (
    ZK_ADDR,
    ZK_METRICS_PREFIX,
    Band,
    ExitCodeFlag,
    HeadRoom,
    IgnoreWarns,
    KafkaAddr,
    LocalityScoped,
    MaxDiskUse,
    MaxMovedBytes,
    MaxMoves,
    MaxRackViolations,
    MetricsAge,
    MinimizeBy,
    MinRackIds,
    OptimizeLeadership,
    PartitionSizeThreshold,
    Pin,
    PlanFile,
    ReportFile,
    SizesSource,
    Snapshot,
    Spread,
    Topics,
    TopicsExclude,
    Verbose,
    ZkAddr,
    ZkMetricsPrefix,
    ZkPrefix,
)
from kafkakit.topicmappr.decide.size_source import SizesFrom

Added = Annotated[str, typer.Option(help="Ids of the brokers to add, comma separated; they must be live.")]


def add_brokers(
    ctx: typer.Context,
    brokers: Added,
    topics: Topics = ".*",
    topics_exclude: TopicsExclude = "",
    snapshot: Snapshot = None,
    band: Band = "10%",
    max_moved_bytes: MaxMovedBytes = "",
    max_moves: MaxMoves = None,
    minimize: MinimizeBy = Minimize.BYTES,
    partition_size_threshold: PartitionSizeThreshold = None,
    locality_scoped: LocalityScoped = False,
    min_rack_ids: MinRackIds = 0,
    spread: Spread = False,
    max_rack_violations: MaxRackViolations = None,
    max_disk_use: MaxDiskUse = "90%",
    head_room: HeadRoom = "0",
    pin: Pin = None,
    optimize_leadership: OptimizeLeadership = False,
    verbose: Verbose = False,
    plan: PlanFile = None,
    report: ReportFile = None,
    ignore_warns: IgnoreWarns = False,
    exit_code: ExitCodeFlag = False,
    sizes_from: SizesSource = SizesFrom.BROKERS,
    metrics_age: MetricsAge = None,
    kafka_addr: KafkaAddr = "",
    zk_addr: ZkAddr = ZK_ADDR,
    zk_prefix: ZkPrefix = "",
    zk_metrics_prefix: ZkMetricsPrefix = ZK_METRICS_PREFIX,
) -> int:
    """Give new brokers their share of the bytes, copying as little as possible, with a proof.

    Every broker that holds the topics and every one in --brokers ends within --band of its share, by capacity.
    The brokers to add may hold replicas already. Exits 4 when the band cannot be reached, naming the nearest
    that can.
    """
    return run_balance(ctx, ADD_BROKERS, locals())
