"""`kafkakit topicmappr rebuild`: replace brokers with the fewest moves, or rebuild placement evenly."""

from typing import TYPE_CHECKING

import typer

from kafkakit.command import kit_of
from kafkakit.topicmappr.options import (
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
from kafkakit.topicmappr.planning.cli import next_command, observe, observe_storage, recorded
from kafkakit.topicmappr.problem import Minimize
from kafkakit.topicmappr.storage_rebuild.choices import OptimizeFor, PlaceBy
from kafkakit.topicmappr.storage_source import SizesFrom

if TYPE_CHECKING:
    from kafkakit.command import Kit
    from kafkakit.model import ClusterSnapshot
    from kafkakit.output import Result
    from kafkakit.topicmappr.maps import SavedMap
    from kafkakit.topicmappr.plan import StorageFacts
    from kafkakit.topicmappr.rebuild.decide import Rebuild
    from kafkakit.topicmappr.rebuild.request import RebuildRequest
    from kafkakit.topicmappr.run import Destination


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
    from kafkakit.topicmappr.broker_list import parse_broker_list
    from kafkakit.topicmappr.rebuild.request import RebuildRequest, parse_factor
    from kafkakit.topicmappr.run import Destination, read_map_string, unobserved, without_collector
    from kafkakit.topicmappr.topic_selection import parse_patterns

    kit = kit_of(ctx)
    words = recorded("topicmappr rebuild", locals(), _RECORDED) | ({} if use_meta else {"use-meta": "false"})
    if placement is PlaceBy.STORAGE:
        words |= recorded("topicmappr rebuild", locals(), _RECORDED_WITH_STORAGE)
    request = RebuildRequest(
        brokers=parse_broker_list(brokers),
        topics=parse_patterns(topics),
        topics_exclude=parse_patterns(topics_exclude),
        map=read_map_string(map_string) if map_string else None,
        replication=replication,
        force_rebuild=force_rebuild,
        sub_affinity=sub_affinity,
        min_rack_ids=min_rack_ids,
        skip_no_ops=skip_no_ops,
        optimize_leadership=optimize_leadership,
        phased=phased_reassignment,
        leader_evac_brokers=_evacuated(leader_evac_brokers),
        leader_evac_topics=parse_patterns(leader_evac_topics),
        chunk_step=chunk_step_size,
        use_meta=use_meta,
        minimize=minimize,
        placement=placement,
        optimize=optimize,
        partition_size_factor=parse_factor(partition_size_factor),
        words=words,
    )
    destination = Destination(out_path=out_path, out_file=out_file, plan=plan, report=report, skip_no_ops=skip_no_ops)
    destination.check()
    for duplicate in request.brokers.duplicates:
        kit.output.say(f"ID {duplicate} supplied as duplicate, excluding")
    if kafka_addr:
        kit.use_bootstrap_server(kafka_addr, "flag --kafka-addr")
    with without_collector():
        if request.by_storage:
            seen = observe_storage(
                kit,
                snapshot,
                sizes_from=sizes_from,
                zk_addr=zk_addr,
                zk_metrics_prefix=zk_metrics_prefix,
                metrics_age=metrics_age,
            )
            return _finish(kit, seen.snapshot, seen.facts, request, destination, ignore_warns, exit_code)
        # A map without metadata needs no cluster; a plan does, since it is carried out on one.
        alone = map_string and not use_meta and not (snapshot or plan or report)
        state = unobserved() if alone else observe(kit, snapshot)
        return _finish(kit, state, None, request, destination, ignore_warns, exit_code)


_RECORDED = ("brokers", "topics", "topics_exclude", "map_string", "replication", "force_rebuild", "sub_affinity",
             "min_rack_ids", "minimize", "optimize_leadership", "leader_evac_brokers", "leader_evac_topics",
             "phased_reassignment", "chunk_step_size", "skip_no_ops", "ignore_warns")  # fmt: skip
_RECORDED_WITH_STORAGE = ("placement", "optimize", "partition_size_factor")


def _evacuated(text: str) -> tuple[int, ...]:
    from kafkakit.errors import UsageError
    from kafkakit.topicmappr.broker_list import parse_broker_list

    if not text:
        return ()
    parsed = parse_broker_list(text, "--leader-evac-brokers")
    if parsed.existing or parsed.everything:
        raise UsageError("--leader-evac-brokers: name the brokers, -1 and -2 mean all of them")
    return parsed.ids


def _finish(
    kit: "Kit",
    state: "ClusterSnapshot",
    facts: "StorageFacts | None",
    request: "RebuildRequest",
    destination: "Destination",
    ignore_warns: bool,
    exit_code: bool,
) -> int:
    from kafkakit.errors import ExitCode, OperationFailedError
    from kafkakit.output import OutputFormat
    from kafkakit.topicmappr.diagnose import infeasible
    from kafkakit.topicmappr.rebuild.decide import decide_rebuild
    from kafkakit.topicmappr.rebuild.render import files_section, plan_section, report_head, warn_section
    from kafkakit.topicmappr.report.cli import write_report
    from kafkakit.topicmappr.run import save
    from kafkakit.topicmappr.watch.cli import Watcher, watching
    from kafkakit.wiring import write_file

    with watching(kit.output) if request.by_storage else kit.output.progress("planning") as watch:
        decided = decide_rebuild(state, request, facts, watch if isinstance(watch, Watcher) else None)
    warnings = decided.plan.warnings
    text = report_head(decided, request) + warn_section(warnings)
    if warnings and not ignore_warns:
        refusal = "Warnings encountered, partition map not created. Override with --ignore-warns."
        if kit.output.output_format is OutputFormat.TEXT:
            kit.output.result(_result(decided, f"{text}\n  {refusal}\n", [], request.skip_no_ops))
        if decided.shortages:
            raise infeasible(decided.shortages, decided.unplaced)
        raise OperationFailedError(f"no map written because of warnings: {'; '.join(warnings)}", hint="--ignore-warns")
    series = decided.maps(skip_no_ops=request.skip_no_ops) if decided.scope.partitions else ()
    maps = save(decided.plan, series, destination, write_file, count=decided.map_count())
    saved = str(destination.plan) if destination.plan else None
    following = next_command(kit, decided.plan, saved)
    write_report(decided.plan, destination.report, following)
    text += files_section(maps) + plan_section(decided.plan, saved, following)
    kit.output.result(_result(decided, text, maps, request.skip_no_ops))
    return int(ExitCode.CHANGES) if exit_code and decided.plan.moves else int(ExitCode.DONE)


def _result(decided: "Rebuild", text: str, maps: "list[SavedMap]", skip_no_ops: bool) -> "Result":
    from kafkakit.output import Result
    from kafkakit.topicmappr.rebuild.render import COLUMNS, change_rows, rebuild_data

    return Result(
        command="topicmappr rebuild",
        data=rebuild_data(decided, maps, skip_no_ops=skip_no_ops),
        text=text,
        columns=COLUMNS,
        rows=change_rows(decided, skip_no_ops=skip_no_ops),
    )
