"""`kafkakit topicmappr rebalance` and `scale`: balance bytes over brokers with the fewest copied."""

import typer

from kafkakit.placement.problem import Minimize
from kafkakit.topicmappr.commands.balancing import run_balance
from kafkakit.topicmappr.commands.options import (
    ZK_ADDR,
    ZK_METRICS_PREFIX,
    BalanceDirs,
    Band,
    Brokers,
    CountBand,
    ExitCodeFlag,
    FreeRange,
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
    OutFile,
    OutPath,
    PartitionLimit,
    PartitionSizeThreshold,
    Pin,
    PlanFile,
    ReportFile,
    SizesSource,
    Snapshot,
    Spread,
    StorageThreshold,
    StorageThresholdGb,
    Tolerance,
    Topics,
    TopicsExclude,
    Verbose,
    ZkAddr,
    ZkMetricsPrefix,
    ZkPrefix,
)
from kafkakit.topicmappr.decide.size_source import SizesFrom


def rebalance(
    ctx: typer.Context,
    brokers: Brokers,
    topics: Topics,
    topics_exclude: TopicsExclude = "",
    snapshot: Snapshot = None,
    band: Band = "",
    free_range: FreeRange = "",
    count_band: CountBand = "",
    max_moved_bytes: MaxMovedBytes = "",
    max_moves: MaxMoves = None,
    minimize: MinimizeBy = Minimize.BYTES,
    storage_threshold: StorageThreshold = None,
    storage_threshold_gb: StorageThresholdGb = None,
    tolerance: Tolerance = 0.0,
    partition_limit: PartitionLimit = 30,
    partition_size_threshold: PartitionSizeThreshold = None,
    locality_scoped: LocalityScoped = False,
    min_rack_ids: MinRackIds = 0,
    spread: Spread = False,
    max_rack_violations: MaxRackViolations = None,
    max_disk_use: MaxDiskUse = "90%",
    head_room: HeadRoom = "0",
    balance_dirs: BalanceDirs = "",
    pin: Pin = None,
    optimize_leadership: OptimizeLeadership = False,
    verbose: Verbose = False,
    out_path: OutPath = "",
    out_file: OutFile = "",
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
    """Balance bytes over brokers, copying as little as possible, with a proof of how little is possible.

    Without a goal, kafka-kit's thresholds choose the brokers to offload and free space is levelled as far as
    they allow. A goal of your own (--band, --free-range, or a budget alone) lets any broker give. In this order:
    fewest bytes, fewest copies, then for no more of either even counts, even leaders, each topic spread. Writes
    map files (and a plan with --plan) and changes nothing on the cluster. Ctrl-C once asks for the best plan so
    far, twice ends. Exits 4 when the goal cannot be reached, naming the nearest that can.

    Examples:

    \b
    kafkakit --profile prod topicmappr rebalance --topics '.*' --brokers -1 --plan p.json
    kafkakit --profile prod topicmappr rebalance --topics '.*' --brokers -2 --band 5% --max-moved-bytes 2TiB
    """
    return run_balance(ctx, "topicmappr rebalance", locals())


def scale(
    ctx: typer.Context,
    brokers: Brokers,
    topics: Topics,
    topics_exclude: TopicsExclude = "",
    snapshot: Snapshot = None,
    band: Band = "",
    free_range: FreeRange = "",
    count_band: CountBand = "",
    max_moved_bytes: MaxMovedBytes = "",
    max_moves: MaxMoves = None,
    minimize: MinimizeBy = Minimize.BYTES,
    tolerance: Tolerance = 0.0,
    partition_limit: PartitionLimit = 30,
    partition_size_threshold: PartitionSizeThreshold = None,
    locality_scoped: LocalityScoped = False,
    min_rack_ids: MinRackIds = 0,
    spread: Spread = False,
    max_rack_violations: MaxRackViolations = None,
    max_disk_use: MaxDiskUse = "90%",
    head_room: HeadRoom = "0",
    balance_dirs: BalanceDirs = "",
    pin: Pin = None,
    optimize_leadership: OptimizeLeadership = False,
    verbose: Verbose = False,
    out_path: OutPath = "",
    out_file: OutFile = "",
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
    """Give new brokers their part of the bytes, copying as little as possible, with a proof.

    As rebalance, but every broker that is not new gives, and --brokers must name at least one that holds none
    of the topics yet. Writes map files (and a plan with --plan) and changes nothing on the cluster.

    Examples:

    \b
    kafkakit --profile prod topicmappr scale --topics '.*' --brokers -1,1007,1008 --plan p.json
    """
    return run_balance(ctx, "topicmappr scale", locals())
