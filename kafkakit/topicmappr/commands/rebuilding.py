"""What `topicmappr rebuild` does with its flags: read them, plan, and write maps, plan and report."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from kafkakit.cli.command_classes import kit_of
from kafkakit.topicmappr.commands.planning import next_command, observe, observe_storage, recorded

if TYPE_CHECKING:
    from kafkakit.cli.command_classes import Kit
    from kafkakit.core.model import ClusterSnapshot
    from kafkakit.core.plan import StorageFacts
    from kafkakit.report.report import Report
    from kafkakit.topicmappr.act.cluster import Destination
    from kafkakit.topicmappr.decide.map_files import SavedMap
    from kafkakit.topicmappr.decide.rebuild.decision import Rebuild
    from kafkakit.topicmappr.decide.rebuild.request import RebuildRequest

_RECORDED = ("brokers", "topics", "topics_exclude", "map_string", "replication", "force_rebuild", "sub_affinity",
             "min_rack_ids", "minimize", "optimize_leadership", "leader_evac_brokers", "leader_evac_topics",
             "phased_reassignment", "chunk_step_size", "skip_no_ops", "ignore_warns")  # fmt: skip
_RECORDED_WITH_STORAGE = ("placement", "optimize", "partition_size_factor")


def run_rebuild(ctx: typer.Context, given: Mapping[str, Any]) -> int:
    """Do what the flags (by parameter name) ask for, and return the exit code."""
    from kafkakit.topicmappr.act.cluster import Destination, unobserved
    from kafkakit.topicmappr.act.garbage import without_collector

    kit, snapshot = kit_of(ctx), given["snapshot"]
    request = _request(given)
    destination = Destination(
        out_path=given["out_path"],
        out_file=given["out_file"],
        plan=given["plan"],
        report=given["report"],
        skip_no_ops=request.skip_no_ops,
    )
    destination.check()
    for duplicate in request.brokers.duplicates:
        kit.output.say(f"ID {duplicate} supplied as duplicate, excluding")
    if given["kafka_addr"]:
        kit.use_bootstrap_server(given["kafka_addr"], "flag --kafka-addr")
    ends = given["ignore_warns"], given["exit_code"]
    with without_collector():
        if request.by_storage:
            seen = observe_storage(
                kit,
                snapshot,
                sizes_from=given["sizes_from"],
                zk_addr=given["zk_addr"],
                zk_metrics_prefix=given["zk_metrics_prefix"],
                metrics_age=given["metrics_age"],
            )
            return _finish(kit, seen.snapshot, seen.facts, request, destination, *ends)
        # A map without metadata needs no cluster; a plan does, since it is carried out on one.
        files = snapshot or given["plan"] or given["report"]
        alone = given["map_string"] and not request.use_meta and not files
        state = unobserved() if alone else observe(kit, snapshot)
        return _finish(kit, state, None, request, destination, *ends)


def _request(given: Mapping[str, Any]) -> "RebuildRequest":
    """Read the flags in `given`; `UsageError` for those that cannot be read or contradict each other."""
    from kafkakit.core.broker_list import parse_broker_list
    from kafkakit.core.topic_selection import parse_patterns
    from kafkakit.topicmappr.act.cluster import read_map_string
    from kafkakit.topicmappr.decide.rebuild.request import RebuildRequest, parse_factor

    return RebuildRequest(
        brokers=parse_broker_list(given["brokers"]),
        topics=parse_patterns(given["topics"]),
        topics_exclude=parse_patterns(given["topics_exclude"]),
        map=read_map_string(given["map_string"]) if given["map_string"] else None,
        replication=given["replication"],
        force_rebuild=given["force_rebuild"],
        sub_affinity=given["sub_affinity"],
        min_rack_ids=given["min_rack_ids"],
        skip_no_ops=given["skip_no_ops"],
        optimize_leadership=given["optimize_leadership"],
        phased=given["phased_reassignment"],
        leader_evac_brokers=_evacuated(given["leader_evac_brokers"]),
        leader_evac_topics=parse_patterns(given["leader_evac_topics"]),
        chunk_step=given["chunk_step_size"],
        use_meta=given["use_meta"],
        minimize=given["minimize"],
        placement=given["placement"],
        optimize=given["optimize"],
        partition_size_factor=parse_factor(given["partition_size_factor"]),
        words=_words(given),
    )


def _words(given: Mapping[str, Any]) -> dict[str, str]:
    """The flags for the plan's record; those of storage placement only where it is asked for."""
    from kafkakit.placement.choices import PlaceBy

    storage = _RECORDED_WITH_STORAGE if given["placement"] is PlaceBy.STORAGE else ()
    unseen = {} if given["use_meta"] else {"use-meta": "false"}
    return recorded("topicmappr rebuild", given, (*_RECORDED, *storage)) | unseen


def _evacuated(text: str) -> tuple[int, ...]:
    from kafkakit.core.broker_list import parse_broker_list
    from kafkakit.core.errors import UsageError

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
    from kafkakit.cli.output import OutputFormat
    from kafkakit.core.errors import ExitCode, OperationFailedError
    from kafkakit.topicmappr.act.cluster import save
    from kafkakit.topicmappr.commands.report import write_report
    from kafkakit.topicmappr.commands.search_watch import Watcher, watching
    from kafkakit.topicmappr.decide.diagnose import infeasible
    from kafkakit.topicmappr.decide.rebuild.decision import decide_rebuild
    from kafkakit.topicmappr.show.rebuild import files_section, plan_section, report_head, warn_section
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
        raise OperationFailedError(
            f"no map written because of warnings: {'; '.join(warnings)}", hint="--ignore-warns writes it all the same"
        )
    series = decided.maps(skip_no_ops=request.skip_no_ops) if decided.scope.partitions else ()
    maps = save(decided.plan, series, destination, write_file, count=decided.map_count())
    saved = str(destination.plan) if destination.plan else None
    following = next_command(kit, decided.plan, saved)
    write_report(decided.plan, destination.report, following)
    text += files_section(maps) + plan_section(decided.plan, saved, following)
    kit.output.result(_result(decided, text, maps, request.skip_no_ops))
    return int(ExitCode.CHANGES) if exit_code and decided.plan.moves else int(ExitCode.DONE)


def _result(decided: "Rebuild", text: str, maps: "list[SavedMap]", skip_no_ops: bool) -> "Report":
    from kafkakit.report.report import Report
    from kafkakit.topicmappr.show.rebuild import COLUMNS, change_rows, rebuild_data

    return Report(
        command="topicmappr rebuild",
        data=rebuild_data(decided, maps, skip_no_ops=skip_no_ops),
        text=text,
        columns=COLUMNS,
        rows=change_rows(decided, skip_no_ops=skip_no_ops),
    )
