"""The options that planning commands share; names and meanings are kafka-kit's where it has them."""

from pathlib import Path
from typing import Annotated

import typer

from kafkakit.cli.completion import complete_topic_names
from kafkakit.placement.choices import OptimizeFor, PlaceBy
from kafkakit.placement.problem import Minimize
from kafkakit.topicmappr.decide.size_source import SizesFrom

Brokers = Annotated[
    str, typer.Option(help="Target broker ids, comma separated; -1: brokers in use, -2: all brokers of the cluster.")
]
Topics = Annotated[
    str,
    typer.Option(help="Topics: comma separated names or regular expressions.", autocompletion=complete_topic_names),
]
TopicsExclude = Annotated[str, typer.Option(help="Topics to leave out: names or regular expressions.")]
MapString = Annotated[str, typer.Option(help="Partition map as JSON, used instead of --topics.")]
Snapshot = Annotated[Path | None, typer.Option(help="Read this cluster-snapshot file instead of a live cluster.")]
Replication = Annotated[int, typer.Option(help="Set every replication factor to this; 0 leaves it.")]
ForceRebuild = Annotated[
    bool, typer.Option("--force-rebuild", help="Spread replicas evenly over all targets, with the fewest moves.")
]
SubAffinity = Annotated[
    bool, typer.Option("--sub-affinity", help="Replace each outgoing broker by one specific new broker.")
]
MinRackIds = Annotated[
    int, typer.Option(help="Racks each replica set must span before racks repeat; 0: all racks differ.")
]
Spread = Annotated[
    bool, typer.Option("--spread", help="Replicas of a partition per rack differ by at most one, over all racks.")
]
MinimizeBy = Annotated[Minimize, typer.Option(help="What the plan spends least of: moves or bytes.")]
OptimizeLeadership = Annotated[
    bool, typer.Option("--optimize-leadership", help="Reorder replicas so that brokers lead evenly.")
]
EvacuatedBrokers = Annotated[str, typer.Option(help="Ids of brokers that must not lead, comma separated.")]
EvacuatedTopics = Annotated[str, typer.Option(help="Topics that --leader-evac-brokers must not lead.")]
Phased = Annotated[
    bool,
    typer.Option("--phased-reassignment", help="Write a first map that keeps present leaders, then the final one."),
]
ChunkStepSize = Annotated[int, typer.Option(help="Write a series of maps, this many brokers at a time; 0: one map.")]
UseMeta = Annotated[bool, typer.Option("--use-meta/--no-use-meta", help="Look at the racks and the state of brokers.")]
SkipNoOps = Annotated[bool, typer.Option("--skip-no-ops", help="Leave unchanged partitions out of the map files.")]
OutPath = Annotated[str, typer.Option(help="Folder for the map files; the current folder when not given.")]
OutFile = Annotated[str, typer.Option(help="Also write one combined map under this name.")]
PlanFile = Annotated[Path | None, typer.Option(help="Write the plan for `reassign apply` to this file.")]
ReportFile = Annotated[Path | None, typer.Option(help="Write the plan as one self-contained HTML page to this file.")]
IgnoreWarns = Annotated[
    bool,
    typer.Option(
        "--ignore-warns", envvar="TOPICMAPPR_IGNORE_WARNS", help="Write maps and plan although there are warnings."
    ),
]
ExitCodeFlag = Annotated[bool, typer.Option("--exit-code", help="Exit 3 when the plan contains changes.")]
KafkaAddr = Annotated[
    str, typer.Option(envvar="TOPICMAPPR_KAFKA_ADDR", help="kafka-kit's name for --bootstrap-server.")
]
Placement = Annotated[
    PlaceBy,
    typer.Option(help="What is evened out: counts of replicas, or free bytes (the least is copied either way)."),
]
Optimize = Annotated[
    OptimizeFor,
    typer.Option(help="With storage placement: free bytes alone (storage), or then leaders too (distribution)."),
]
PartitionSizeFactor = Annotated[
    float, typer.Option(help="With storage placement: what a new copy reserves, as a multiple of its size.")
]
SizesSource = Annotated[
    SizesFrom,
    typer.Option(
        "--sizes-from",
        help="Where sizes and free bytes come from: the brokers (or the --snapshot file), or kafka-kit's znodes.",
    ),
]
ZkAddr = Annotated[
    str,
    typer.Option(
        envvar="TOPICMAPPR_ZK_ADDR",
        metavar="HOST:PORT,...",
        help="ZooKeeper, contacted for --sizes-from zookeeper only; a chroot may follow (host:2181/chroot).",
    ),
]
ZkPrefix = Annotated[
    str, typer.Option(envvar="TOPICMAPPR_ZK_PREFIX", help="Accepted for kafka-kit's scripts; the znodes lie elsewhere.")
]
ZkMetricsPrefix = Annotated[
    str,
    typer.Option(envvar="TOPICMAPPR_ZK_METRICS_PREFIX", help="Where metricsfetcher put its two znodes."),
]
MetricsAge = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=5_256_000,
        metavar="MINUTES",
        help="Refuse sizes older than this: 60 when not given, and any age for a --snapshot file.",
    ),
]
Band = Annotated[
    str,
    typer.Option(
        metavar="PERCENT", help="Bring every broker within this part of its share of used space (5%), by capacity."
    ),
]
FreeRange = Annotated[
    str, typer.Option(metavar="SIZE", help="Bring free space on all brokers this close together (369GiB).")
]
CountBand = Annotated[
    str,
    typer.Option(metavar="PERCENT", help="Bring every broker's count of replicas within this part of an equal share."),
]
MaxMovedBytes = Annotated[
    str, typer.Option(metavar="SIZE", help="Copy no more than this; alone, the smallest range that it buys.")
]
MaxMoves = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="Copy no more replicas; alone, the smallest range that it buys.")
]
RunMovedBytes = Annotated[
    str, typer.Option(metavar="SIZE", help="Copy no more than this in one run; the same command goes on with the rest.")
]
RunMoves = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Copy no more replicas in one run; the same command goes on with the rest."),
]
MaxDiskUse = Annotated[
    str, typer.Option(metavar="PERCENT", help="How full copies may make a broker's disks; fuller ones get nothing.")
]
HeadRoom = Annotated[
    str, typer.Option(metavar="SIZE", help="Space that copies must leave free on every broker beside --max-disk-use.")
]
MaxRackViolations = Annotated[
    int | None,
    typer.Option(
        min=0, metavar="N", help="Mend replica sets until no more than this break the rack rule; else they may stay."
    ),
]
BalanceDirs = Annotated[
    str,
    typer.Option(
        metavar="PERCENT", help="Also level the log dirs inside each broker to within this part of their shares (10%)."
    ),
]
Pin = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME,...", help="Leave these alone: topics, regular expressions or topic/partition. Repeatable."
    ),
]
LocalityScoped = Annotated[bool, typer.Option("--locality-scoped", help="Move replicas within their rack only.")]
StorageThreshold = Annotated[
    float | None,
    typer.Option(
        metavar="FRACTION",
        help="Offload brokers this far below the harmonic mean of free space: 0.20 when no goal is given, 0 all.",
    ),
]
StorageThresholdGb = Annotated[
    float | None,
    typer.Option(metavar="GIB", help="Offload brokers with less free space than this; wins over --storage-threshold."),
]
Tolerance = Annotated[
    float, typer.Option(metavar="FRACTION", help="How far sources and destinations may end from the mean; 0: decide.")
]
PartitionLimit = Annotated[
    int, typer.Option(min=1, metavar="N", help="Accepted for kafka-kit's scripts; every partition is considered.")
]
PartitionSizeThreshold = Annotated[
    int | None,
    typer.Option(min=0, metavar="MIB", help="Leave smaller partitions alone: 512 when no goal is given, else 0."),
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Also print the goals tried, ten at most.")]
ZK_ADDR = "localhost:2181"
ZK_METRICS_PREFIX = "topicmappr"
