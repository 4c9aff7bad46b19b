"""`kafkakit topicmappr explain`: why a partition goes where the plan says, and why not elsewhere."""

from typing import Annotated

import typer

from kafkakit.cli.command_classes import kit_of
from kafkakit.topicmappr.commands.options import Snapshot
from kafkakit.topicmappr.commands.planning import observe

PlanArgument = Annotated[str, typer.Argument(metavar="PLAN", help="Plan file made with --plan; - for stdin.")]
PartitionArgument = Annotated[
    str, typer.Argument(metavar="TOPIC/PARTITION", help="The partition, like orders/3 or orders-3.")
]


def explain(ctx: typer.Context, plan: PlanArgument, partition: PartitionArgument, snapshot: Snapshot = None) -> int:
    """Say why a partition goes where the plan says, and why not to the other brokers.

    Needs the plan file alone. A --snapshot adds which brokers are alive, and whether the list has changed since.
    """
    from kafkakit.core.documents import decode_plan
    from kafkakit.core.plan_rules import check_plan
    from kafkakit.report.report import Report
    from kafkakit.topicmappr.decide.explain.decision import explain as explain_partition
    from kafkakit.topicmappr.decide.explain.request import find_partition
    from kafkakit.topicmappr.show.explain import COLUMNS, explanation_data, explanation_rows, explanation_text
    from kafkakit.wiring import read_input

    kit = kit_of(ctx)
    source = "stdin" if plan == "-" else plan
    decoded = decode_plan(read_input(plan, _PLAN_LIMIT_BYTES), source)
    check_plan(decoded, source)
    key = find_partition(decoded, partition)
    found = explain_partition(decoded, key, observe(kit, snapshot) if snapshot is not None else None)
    kit.output.result(
        Report(
            command="topicmappr explain",
            data=explanation_data(found),
            text=explanation_text(found),
            columns=COLUMNS,
            rows=explanation_rows(found),
        )
    )
    return 0


_PLAN_LIMIT_BYTES = 2 << 30
