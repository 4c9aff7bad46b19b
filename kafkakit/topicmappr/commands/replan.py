"""`kafkakit topicmappr replan`: the cluster drifted while a plan waits or runs; what is the least to change?"""

from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import kit_of
from kafkakit.topicmappr.commands.options import (
    ZK_ADDR,
    ZK_METRICS_PREFIX,
    IgnoreWarns,
    KafkaAddr,
    MetricsAge,
    PlanFile,
    ReportFile,
    SizesSource,
    Snapshot,
    ZkAddr,
    ZkMetricsPrefix,
    ZkPrefix,
)
from kafkakit.topicmappr.decide.size_source import SizesFrom

if TYPE_CHECKING:
    from kafkakit.cli.command_classes import Kit
    from kafkakit.report.report import Report
    from kafkakit.topicmappr.act.cluster import Destination
    from kafkakit.topicmappr.decide.replan.decision import Replan

OldPlan = Annotated[str, typer.Argument(metavar="PLAN", help="Plan file made with --plan; - for stdin.")]
Slack = Annotated[
    str, typer.Option(metavar="PERCENT", help="How much looser than the plan's own the goal may be; 0% is as it was.")
]
ExitCodeFlag = Annotated[bool, typer.Option("--exit-code", help="Exit 3 when moves are changed, dropped or added.")]


def replan(
    ctx: typer.Context,
    old_plan: OldPlan,
    snapshot: Snapshot = None,
    slack: Slack = "0%",
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
    """Find the smallest change to a plan whose cluster has drifted: sizes, brokers, partitions, other moves.

    Finished moves stay and running ones keep their target. Waiting moves go where they were to go as long as the
    plan's goal is kept on today's sizes; else as few as possible go elsewhere. That nothing has to change is an
    answer too, with the reason. The cluster is what counts: no journal is needed. Exits 4 when the goal is out of
    reach, 75 when sizes are not known.

    Examples:

    \b
    kafkakit --profile prod topicmappr replan p.json --plan p2.json
    kafkakit topicmappr replan p.json --snapshot now.json --slack 10%
    """
    from kafkakit.core.documents import decode_plan
    from kafkakit.core.percent import parse_percent
    from kafkakit.core.plan_rules import check_plan
    from kafkakit.topicmappr.act.cluster import Destination
    from kafkakit.topicmappr.act.garbage import without_collector
    from kafkakit.topicmappr.commands.planning import observe_storage
    from kafkakit.topicmappr.decide.replan.decision import decide_replan
    from kafkakit.wiring import read_input

    kit = kit_of(ctx)
    destination = Destination(plan=plan, report=report)
    destination.check()
    widened = parse_percent(slack, "--slack", most=1000)
    if kafka_addr:
        kit.use_bootstrap_server(kafka_addr, "flag --kafka-addr")
    source = "stdin" if old_plan == "-" else old_plan
    with without_collector():
        decoded = decode_plan(read_input(old_plan, _PLAN_LIMIT_BYTES), source)
        check_plan(decoded, source)
        seen = observe_storage(
            kit,
            snapshot,
            sizes_from=sizes_from,
            zk_addr=zk_addr,
            zk_metrics_prefix=zk_metrics_prefix,
            metrics_age=metrics_age,
        )
        with kit.output.progress("planning"):
            found = decide_replan(decoded, seen.snapshot, seen.facts, slack=widened)
        return _finish(kit, found, old_plan, destination, ignore_warns=ignore_warns, exit_code=exit_code)


_PLAN_LIMIT_BYTES = 2 << 30


def _finish(
    kit: "Kit", found: "Replan", old: str, destination: "Destination", *, ignore_warns: bool, exit_code: bool
) -> int:
    from kafkakit.cli.output import OutputFormat
    from kafkakit.core.documents import encode_plan
    from kafkakit.core.errors import ExitCode
    from kafkakit.topicmappr.commands.planning import next_command
    from kafkakit.topicmappr.commands.report import write_report
    from kafkakit.topicmappr.show.replan import outcome_text, refusal_text, report_text
    from kafkakit.wiring import write_file

    source = "stdin" if old == "-" else old
    text = report_text(found, source)
    if found.plan.warnings and not ignore_warns:
        if kit.output.output_format is OutputFormat.TEXT:
            kit.output.result(_result(found, text + refusal_text(found)))
        _refuse(found)
    saved = str(destination.plan) if destination.plan else None
    if destination.plan is not None:
        write_file(destination.plan, encode_plan(found.plan))
    following = next_command(kit, found.plan, saved)
    write_report(found.plan, destination.report, following)
    unchanged = next_command(kit, found.plan, old if old != "-" else None)
    kit.output.result(_result(found, text + outcome_text(found, saved, following, unchanged)))
    return int(ExitCode.CHANGES) if exit_code and found.differs else int(ExitCode.DONE)


def _refuse(found: "Replan") -> None:
    from kafkakit.core.errors import InfeasibleError, OperationFailedError

    if found.reasons:
        raise InfeasibleError(
            f"no plan fits: {'; '.join(found.reasons)}",
            reasons=found.reasons if len(found.reasons) > 1 else (),
            hint=f"--ignore-warns plans the rest and leaves {found.left_alone} partition(s) as they are",
        )
    raise OperationFailedError(
        f"no plan written because of warnings: {'; '.join(found.plan.warnings)}",
        hint="--ignore-warns writes it all the same",
    )


def _result(found: "Replan", text: str) -> "Report":
    from kafkakit.report.report import Report
    from kafkakit.topicmappr.show.replan import COLUMNS, replan_data, replan_rows

    return Report(
        command="topicmappr replan", data=replan_data(found), text=text, columns=COLUMNS, rows=replan_rows(found)
    )
