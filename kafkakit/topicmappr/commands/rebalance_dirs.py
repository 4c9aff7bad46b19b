"""`kafkakit topicmappr rebalance-dirs`: level log dirs inside brokers; no replica changes brokers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkakit.cli.command_classes import kit_of
from kafkakit.topicmappr.commands.options import (
    ZK_ADDR,
    ZK_METRICS_PREFIX,
    ExitCodeFlag,
    HeadRoom,
    IgnoreWarns,
    MaxDiskUse,
    Pin,
    PlanFile,
    ReportFile,
    Snapshot,
    Topics,
    TopicsExclude,
)
from kafkakit.topicmappr.commands.planning import next_command, observe_storage, recorded
from kafkakit.topicmappr.decide.size_source import SizesFrom

if TYPE_CHECKING:
    from kafkakit.report.report import Report
    from kafkakit.topicmappr.decide.dirs.request import RebalanceDirsRequest
    from kafkakit.topicmappr.decide.planned_change import PlannedChange

Where = Annotated[
    str, typer.Option(help="Ids of the brokers, comma separated; -1: brokers in use, -2: all brokers of the cluster.")
]
DirBand = Annotated[
    str, typer.Option(metavar="PERCENT", help="Bring every log dir within this part of its share of its broker's use.")
]


def rebalance_dirs(
    ctx: typer.Context,
    brokers: Where = "-1",
    band: DirBand = "10%",
    topics: Topics = ".*",
    topics_exclude: TopicsExclude = "",
    snapshot: Snapshot = None,
    max_disk_use: MaxDiskUse = "90%",
    head_room: HeadRoom = "0",
    pin: Pin = None,
    plan: PlanFile = None,
    report: ReportFile = None,
    ignore_warns: IgnoreWarns = False,
    exit_code: ExitCodeFlag = False,
) -> int:
    """Level the log dirs of each broker by capacity, moving the fewest bytes between its dirs.

    No replica changes brokers. Cordoned dirs take nothing, and nothing leaves a dir that is offline. Where a
    band cannot be had, the nearest is planned, a warning says why, and --ignore-warns writes the plan.

    Examples:

    \b
    kafkakit --profile prod topicmappr rebalance-dirs --band 10% --plan p.json
    kafkakit --profile prod topicmappr rebalance-dirs --brokers 1003 --topics 'logs.*' -o tsv
    """
    from kafkakit.cli.output import OutputFormat
    from kafkakit.core.documents import encode_plan
    from kafkakit.core.errors import ExitCode, OperationFailedError
    from kafkakit.topicmappr.act.cluster import Destination
    from kafkakit.topicmappr.act.garbage import without_collector
    from kafkakit.topicmappr.commands.report import write_report
    from kafkakit.topicmappr.decide.dirs.rebalance_dirs import decide_rebalance_dirs
    from kafkakit.wiring import write_file

    kit = kit_of(ctx)
    request = _request(locals())
    Destination(plan=plan, report=report).check()
    with without_collector():
        seen = observe_storage(
            kit,
            snapshot,
            sizes_from=SizesFrom.BROKERS,
            zk_addr=ZK_ADDR,
            zk_metrics_prefix=ZK_METRICS_PREFIX,
            metrics_age=None,
        )
        with kit.output.progress("planning"):
            change = decide_rebalance_dirs(seen.snapshot, request, seen.facts)
    made = change.plan
    if made.warnings and not ignore_warns:
        if kit.output.output_format is OutputFormat.TEXT:
            kit.output.result(_result(change, None, None))
        raise OperationFailedError(
            f"no plan written because of warnings: {'; '.join(made.warnings)}",
            hint="--ignore-warns writes it all the same",
        )
    saved = str(plan) if plan else None
    if plan is not None:
        write_file(plan, encode_plan(made))
    following = next_command(kit, made, saved)
    write_report(made, report, following)
    kit.output.result(_result(change, saved, following))
    return int(ExitCode.CHANGES) if exit_code and made.dir_moves else int(ExitCode.DONE)


def _request(given: Mapping[str, Any]) -> "RebalanceDirsRequest":
    """Read the flags, by parameter name; `UsageError` for those that cannot be read."""
    from kafkakit.core.broker_list import parse_broker_list
    from kafkakit.core.percent import parse_percent
    from kafkakit.core.quantities import parse_size
    from kafkakit.core.topic_selection import parse_patterns
    from kafkakit.placement.log_dirs_balance.rules import DirRules
    from kafkakit.topicmappr.decide.dirs.request import RebalanceDirsRequest

    pinned = parse_patterns(",".join(given["pin"] or ()))
    return RebalanceDirsRequest(
        brokers=parse_broker_list(given["brokers"]),
        rules=DirRules(
            max_use=parse_percent(given["max_disk_use"], "--max-disk-use"),
            head_room=parse_size(given["head_room"], "--head-room"),
            band=parse_percent(given["band"], "--band"),
        ),
        topics=parse_patterns(given["topics"]),
        topics_exclude=parse_patterns(given["topics_exclude"]),
        pinned=pinned,
        words=recorded("topicmappr rebalance-dirs", {**given, "pin": ",".join(pinned)}, _RECORDED),
    )


def _result(change: "PlannedChange", saved: str | None, following: str | None) -> "Report":
    from kafkakit.report.report import Report
    from kafkakit.topicmappr.show.log_dirs import DIR_MOVE_COLUMNS, dir_move_rows
    from kafkakit.topicmappr.show.rebalance_dirs import report_data, report_text

    return Report(
        command="topicmappr rebalance-dirs",
        data=report_data(change),
        text=report_text(change, saved, following),
        columns=DIR_MOVE_COLUMNS,
        rows=dir_move_rows(change.plan),
    )


_RECORDED = ("brokers", "band", "topics", "topics_exclude", "max_disk_use", "head_room", "pin", "ignore_warns")
