"""`kafkakit topicmappr rebuild`: replace brokers with the fewest moves, or rebuild placement evenly."""

import typer

from kafkakit.placement.choices import OptimizeFor, PlaceBy
from kafkakit.placement.problem import Minimize
from kafkakit.topicmappr.commands.options import (
    ZK_ADDR,
    ZK_METRICS_PREFIX,
    Brokers,
    ChunkStepSize,
    EvacuatedBrokers,
    EvacuatedTopics,
    ExitCodeFlag,
    ForceRebuild,
    IgnoreWarns,
    KafkaAddr,
    MapString,
    MetricsAge,
    MinimizeBy,
    MinRackIds,
    Optimize,
    OptimizeLeadership,
    OutFile,
    OutPath,
    PartitionSizeFactor,
    Phased,
    Placement,
    PlanFile,
    Replication,
    ReportFile,
    SizesSource,
    SkipNoOps,
    Snapshot,
    SubAffinity,
    Topics,
    TopicsExclude,
    UseMeta,
    ZkAddr,
    ZkMetricsPrefix,
    ZkPrefix,
)
from kafkakit.topicmappr.commands.rebuilding import run_rebuild
from kafkakit.topicmappr.decide.size_source import SizesFrom


def rebuild(
    ctx: typer.Context,
    brokers: Brokers,
    topics: Topics = "",
    topics_exclude: TopicsExclude = "",
    map_string: MapString = "",
    snapshot: Snapshot = None,
    replication: Replication = 0,
    force_rebuild: ForceRebuild = False,
    sub_affinity: SubAffinity = False,
    min_rack_ids: MinRackIds = 0,
    minimize: MinimizeBy = Minimize.MOVES,
    placement: Placement = PlaceBy.COUNT,
    optimize: Optimize = OptimizeFor.DISTRIBUTION,
    partition_size_factor: PartitionSizeFactor = 1.0,
    sizes_from: SizesSource = SizesFrom.BROKERS,
    metrics_age: MetricsAge = None,
    optimize_leadership: OptimizeLeadership = False,
    leader_evac_brokers: EvacuatedBrokers = "",
    leader_evac_topics: EvacuatedTopics = "",
    phased_reassignment: Phased = False,
    chunk_step_size: ChunkStepSize = 0,
    use_meta: UseMeta = True,
    skip_no_ops: SkipNoOps = False,
    out_path: OutPath = "",
    out_file: OutFile = "",
    plan: PlanFile = None,
    report: ReportFile = None,
    ignore_warns: IgnoreWarns = False,
    exit_code: ExitCodeFlag = False,
    kafka_addr: KafkaAddr = "",
    zk_addr: ZkAddr = ZK_ADDR,
    zk_prefix: ZkPrefix = "",
    zk_metrics_prefix: ZkMetricsPrefix = ZK_METRICS_PREFIX,
) -> int:
    """Replace brokers with the fewest moves, or rebuild placement evenly.

    Writes map files (and a plan with --plan) and changes nothing on the cluster. Exits 4 when no placement
    satisfies the request, naming what to add.
    """
    return run_rebuild(ctx, locals())
