"""What the commands that balance bytes share: read their flags, watch the search, write maps, plan and report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from kafkakit.cli.command_classes import kit_of
from kafkakit.topicmappr.commands.planning import next_command, observe_storage, recorded

if TYPE_CHECKING:
    from kafkakit.cli.command_classes import Kit
    from kafkakit.report.report import Report
    from kafkakit.topicmappr.act.cluster import Destination
    from kafkakit.topicmappr.act.observation import Observed
    from kafkakit.topicmappr.decide.map_files import SavedMap
    from kafkakit.topicmappr.decide.rebalance.decision import Rebalance
    from kafkakit.topicmappr.decide.rebalance.request import RebalanceRequest

_RECORDED = ("brokers", "topics", "topics_exclude", "band", "free_range", "count_band", "max_moved_bytes",
             "max_moves", "minimize", "storage_threshold", "storage_threshold_gb", "tolerance",
             "partition_size_threshold", "locality_scoped", "min_rack_ids", "spread", "max_rack_violations",
             "max_disk_use", "head_room", "balance_dirs", "pin", "optimize_leadership", "ignore_warns")  # fmt: skip


# A flag that one of the commands lacks is as one that was not given.
_LACKING: Mapping[str, Any] = {
    "free_range": "",
    "count_band": "",
    "balance_dirs": "",
    "storage_threshold": None,
    "storage_threshold_gb": None,
    "tolerance": 0.0,
    "partition_limit": 30,
    "out_path": "",
    "out_file": "",
}
ADD_BROKERS = "topicmappr add-brokers"


def run_balance(ctx: typer.Context, command: str, flags: Mapping[str, Any]) -> int:
    """Do what the flags (by parameter name) ask for, and return the exit code."""
    from kafkakit.topicmappr.act.cluster import Destination
    from kafkakit.topicmappr.act.garbage import without_collector

    kit, given = kit_of(ctx), {**_LACKING, **flags}
    request = _request(command, given)
    destination = Destination(
        out_path=given["out_path"], out_file=given["out_file"], plan=given["plan"], report=given["report"]
    )
    destination.check()
    for duplicate in request.brokers.duplicates:
        kit.output.say(f"ID {duplicate} supplied as duplicate, excluding")
    if given["kafka_addr"]:
        kit.use_bootstrap_server(given["kafka_addr"], "flag --kafka-addr")
    with without_collector():
        seen = observe_storage(
            kit,
            given["snapshot"],
            sizes_from=given["sizes_from"],
            zk_addr=given["zk_addr"],
            zk_metrics_prefix=given["zk_metrics_prefix"],
            metrics_age=given["metrics_age"],
        )
        switches = _Switches(verbose=given["verbose"], ignore_warns=given["ignore_warns"], exit_code=given["exit_code"])
        return _finish(kit, command, seen, request, destination, switches)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Switches:
    """How the command ends, whatever was planned."""

    verbose: bool
    ignore_warns: bool
    exit_code: bool


def _request(command: str, given: Mapping[str, Any]) -> "RebalanceRequest":
    """Read the flags in `given`; `UsageError` for those that cannot be read or contradict each other."""
    from kafkakit.core.broker_list import parse_broker_list
    from kafkakit.core.percent import parse_percent
    from kafkakit.core.quantities import parse_size
    from kafkakit.core.topic_selection import parse_patterns
    from kafkakit.topicmappr.decide.rebalance.request import Goal, RebalanceRequest

    pinned = parse_patterns(",".join(given["pin"] or ()))
    wide, moved = given["free_range"], given["max_moved_bytes"]
    return RebalanceRequest(
        brokers=parse_broker_list(given["brokers"]),
        topics=parse_patterns(given["topics"]),
        topics_exclude=parse_patterns(given["topics_exclude"]),
        scale=command == "topicmappr scale",
        goal=Goal(
            band=parse_percent(given["band"], "--band") if given["band"] else None,
            free_range_bytes=parse_size(wide, "--free-range") if wide else None,
            count_band=parse_percent(given["count_band"], "--count-band") if given["count_band"] else None,
            max_moved_bytes=parse_size(moved, "--max-moved-bytes") if moved else None,
            max_moves=given["max_moves"],
        ),
        storage_threshold=given["storage_threshold"],
        storage_threshold_gb=given["storage_threshold_gb"],
        tolerance=given["tolerance"],
        partition_limit=given["partition_limit"],
        partition_size_threshold_mib=given["partition_size_threshold"],
        locality_scoped=given["locality_scoped"],
        min_rack_ids=given["min_rack_ids"],
        spread=given["spread"],
        max_rack_violations=given["max_rack_violations"],
        minimize=given["minimize"],
        max_disk_use=parse_percent(given["max_disk_use"], "--max-disk-use"),
        head_room_bytes=parse_size(given["head_room"], "--head-room"),
        balance_dirs=parse_percent(given["balance_dirs"], "--balance-dirs") if given["balance_dirs"] else None,
        pinned=pinned,
        optimize_leadership=given["optimize_leadership"],
        words=_words(command, {**given, "pin": ",".join(pinned)}),
    )


def _words(command: str, flag: Mapping[str, Any]) -> dict[str, str]:
    """The flags for the plan's record; here a zero that was given says something."""
    told = ("storage_threshold", "storage_threshold_gb", "max_moves", "max_rack_violations",
            "partition_size_threshold")  # fmt: skip
    given = {**flag, **{name: str(flag[name]) for name in told if flag[name] is not None}}
    return recorded(command, {**given, "head_room": "" if flag["head_room"] == "0" else flag["head_room"]}, _RECORDED)


def _finish(
    kit: "Kit",
    command: str,
    seen: "Observed",
    request: "RebalanceRequest",
    destination: "Destination",
    switches: _Switches,
) -> int:
    from kafkakit.cli.output import OutputFormat
    from kafkakit.core.errors import ExitCode, InterruptedRunError, OperationFailedError
    from kafkakit.topicmappr.act.cluster import save
    from kafkakit.topicmappr.commands.report import write_report
    from kafkakit.topicmappr.commands.search_watch import watching
    from kafkakit.topicmappr.decide.add_brokers import beside_existing, decide_add_brokers
    from kafkakit.topicmappr.decide.frontier.decision import frontier_points
    from kafkakit.topicmappr.decide.rebalance.decision import decide_rebalance
    from kafkakit.topicmappr.show.rebalance import report_head
    from kafkakit.topicmappr.show.rebuild import files_section, plan_section, warn_section
    from kafkakit.wiring import write_file

    decide = decide_add_brokers if command == ADD_BROKERS else decide_rebalance
    with watching(kit.output) as watch:
        decided = decide(seen.snapshot, request, seen.facts, watch)
    plan = decided.plan
    changes = bool(plan.moves or plan.dir_moves)
    if decided.stopped and not changes:
        raise InterruptedRunError("interrupted before a plan was found that changes anything; nothing was written")
    text = report_head(decided, request, verbose=switches.verbose) + warn_section(plan.warnings)
    if plan.warnings and not switches.ignore_warns:
        refusal = "Warnings encountered, partition map not created. Override with --ignore-warns."
        if kit.output.output_format is OutputFormat.TEXT:
            kit.output.result(_result(command, decided, request, f"{text}\n  {refusal}\n", []))
        raise OperationFailedError(
            f"no map written because of warnings: {'; '.join(plan.warnings)}",
            hint="--ignore-warns writes it all the same",
        )
    # The plain request writes a plan and leaves kafka-kit's maps to kafka-kit's commands.
    wants_maps = command != ADD_BROKERS
    maps = save(plan, (plan.reassignment,) if wants_maps and plan.moves else (), destination, write_file)
    saved = str(destination.plan) if destination.plan else None
    following = next_command(kit, plan, saved)
    if destination.report is not None:
        asked = request if command != ADD_BROKERS else beside_existing(request)
        with watching(kit.output) as watch:
            watch.phase("other bands for the report")
            points = frontier_points(seen.snapshot, asked, seen.facts, watch=watch)
        write_report(plan, destination.report, following, points)
    text += (files_section(maps) if wants_maps else "") + plan_section(plan, saved, following)
    kit.output.result(_result(command, decided, request, text, maps))
    return int(ExitCode.CHANGES) if switches.exit_code and changes else int(ExitCode.DONE)


def _result(
    command: str, decided: "Rebalance", request: "RebalanceRequest", text: str, maps: "Sequence[SavedMap]"
) -> "Report":
    from kafkakit.report.report import Report
    from kafkakit.topicmappr.show.rebalance import COLUMNS, rebalance_data, relocation_rows

    return Report(
        command=command,
        data=rebalance_data(decided, request, maps),
        text=text,
        columns=COLUMNS,
        rows=relocation_rows(decided),
    )
