"""`kafkakit topicmappr explain` and `replan`: what a saved plan says, and what of it still serves."""

from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.topicmappr.act.garbage import without_collector
from kafkakit.topicmappr.commands.flow import observed, observed_storage
from kafkakit.topicmappr.commands.options import KafkaKitClusterOptions, PlanArgument, ReplanOutput, Snapshot

PartitionArgument = Annotated[
    str, typer.Argument(metavar="TOPIC/PARTITION", help="The partition, like orders/3 or orders-3.")
]
Slack = Annotated[
    str, typer.Option(metavar="PERCENT", help="How much looser than the plan's own the goal may be; 0% is as it was.")
]


def explain(ctx: typer.Context, plan: PlanArgument, partition: PartitionArgument, snapshot: Snapshot = None) -> int:
    """Say why a partition goes where the plan says, and why not to the other brokers.

    Needs the plan file alone. A --snapshot adds which brokers are alive, and whether the list has changed since.
    """
    from kafkakit.cli.session import finish
    from kafkakit.topicmappr.act.saving import read_plan
    from kafkakit.topicmappr.decide.explain.decision import explain as explain_partition
    from kafkakit.topicmappr.decide.explain.request import find_partition
    from kafkakit.topicmappr.show.explain import explain_report
    from kafkakit.wiring import read_input

    decoded = read_plan(plan, read_input)
    key = find_partition(decoded, partition)
    state = observed(ctx, snapshot) if snapshot is not None else None
    return finish(cli_context(ctx), explain_report(explain_partition(decoded, key, state)))


@with_option_groups
@without_collector()
def replan(
    ctx: typer.Context,
    old_plan: PlanArgument,
    output: ReplanOutput,
    cluster: KafkaKitClusterOptions,
    slack: Slack = "0%",
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
    from kafkakit.cli.session import finish
    from kafkakit.core.percent import parse_percent
    from kafkakit.topicmappr.act.saving import read_plan, save_plan
    from kafkakit.topicmappr.decide.map_files import apply_command
    from kafkakit.topicmappr.decide.replan.decision import decide_replan
    from kafkakit.topicmappr.show.replan import replan_report
    from kafkakit.wiring import read_input, write_file

    cli = cli_context(ctx)
    output.check()
    widened = parse_percent(slack, "--slack", most=1000)
    decoded = read_plan(old_plan, read_input)
    seen = observed_storage(ctx, cluster)
    with cli.output.progress("planning"):
        found = decide_replan(decoded, seen.snapshot, seen.facts, slack=widened)
    saved = save_plan(found.plan, output, cli.program, write_file, changed=found.differs)
    source, file = ("stdin", None) if old_plan == "-" else (old_plan, old_plan)
    return finish(cli, replan_report(found, source, saved, apply_command(cli.program, found.plan, file)))
