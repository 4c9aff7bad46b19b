"""`kafkakit topicmappr drain`: empty brokers, live or dead."""

from typing import Annotated

import typer

from kafkakit.command import kit_of
from kafkakit.topicmappr.options import (
    ExitCodeFlag,
    IgnoreWarns,
    MinRackIds,
    PlanFile,
    ReportFile,
    Snapshot,
    Topics,
    TopicsExclude,
)
from kafkakit.topicmappr.planning.cli import observe, recorded

Leaving = Annotated[str, typer.Option(help="Ids of the brokers to empty, comma separated; they may be dead.")]
To = Annotated[
    str, typer.Option(help="Ids of the brokers that may take the replicas; all other live ones if not given.")
]


def drain(
    ctx: typer.Context,
    brokers: Leaving,
    to: To = "",
    topics: Topics = ".*",
    topics_exclude: TopicsExclude = "",
    snapshot: Snapshot = None,
    min_rack_ids: MinRackIds = 0,
    plan: PlanFile = None,
    report: ReportFile = None,
    ignore_warns: IgnoreWarns = False,
    exit_code: ExitCodeFlag = False,
) -> int:
    """Move every replica off the named brokers, with the fewest copies.

    The copies go where they keep the counts of all topics even; leaderships pass on to the remaining
    replicas. Replicas on other brokers stay where they are. Exits 4 when a replica finds no lawful place.
    """
    from kafkakit.topicmappr.broker_list import parse_broker_list
    from kafkakit.topicmappr.drain.decide import decide_drain
    from kafkakit.topicmappr.drain.request import DrainRequest
    from kafkakit.topicmappr.planned.cli import finish
    from kafkakit.topicmappr.run import Destination, without_collector
    from kafkakit.topicmappr.topic_selection import parse_patterns

    kit = kit_of(ctx)
    request = DrainRequest(
        leaving=parse_broker_list(brokers),
        receiving=parse_broker_list(to) if to else None,
        topics=parse_patterns(topics),
        topics_exclude=parse_patterns(topics_exclude),
        min_rack_ids=min_rack_ids,
        words=recorded("topicmappr drain", locals(), _RECORDED),
    )
    destination = Destination(plan=plan, report=report)
    destination.check()
    with without_collector():
        state = observe(kit, snapshot)
        with kit.output.progress("planning"):
            change = decide_drain(state, request)
        return finish(kit, "topicmappr drain", change, destination, ignore_warns=ignore_warns, exit_code=exit_code)


_RECORDED = ("brokers", "to", "topics", "topics_exclude", "min_rack_ids", "ignore_warns")
