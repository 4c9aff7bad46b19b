"""`kafkakit topicmappr fix-racks`: mend the rack rule with the fewest copies."""

from typing import Annotated

import typer

from kafkakit.command import kit_of
from kafkakit.topicmappr.options import (
    ExitCodeFlag,
    IgnoreWarns,
    MinimizeBy,
    MinRackIds,
    PlanFile,
    ReportFile,
    Snapshot,
    Topics,
    TopicsExclude,
)
from kafkakit.topicmappr.planning.cli import observe, recorded
from kafkakit.topicmappr.problem import Minimize

Spread = Annotated[
    bool, typer.Option("--spread", help="Replicas of a partition per rack differ by at most one, over all racks.")
]


def fix_racks(
    ctx: typer.Context,
    topics: Topics = ".*",
    topics_exclude: TopicsExclude = "",
    snapshot: Snapshot = None,
    min_rack_ids: MinRackIds = 0,
    spread: Spread = False,
    minimize: MinimizeBy = Minimize.MOVES,
    plan: PlanFile = None,
    report: ReportFile = None,
    ignore_warns: IgnoreWarns = False,
    exit_code: ExitCodeFlag = False,
) -> int:
    """Bring every partition under the rack rule, with the fewest copies.

    Only replicas beyond what the rule allows move; which of them, and where to, is chosen so that the counts
    of all topics stay even. Exits 4 when a partition cannot be mended for want of racks.
    """
    from kafkakit.topicmappr.fix_racks.decide import decide_fix_racks
    from kafkakit.topicmappr.fix_racks.request import FixRacksRequest
    from kafkakit.topicmappr.planned.cli import finish
    from kafkakit.topicmappr.run import Destination, without_collector
    from kafkakit.topicmappr.topic_selection import parse_patterns

    kit = kit_of(ctx)
    request = FixRacksRequest(
        topics=parse_patterns(topics),
        topics_exclude=parse_patterns(topics_exclude),
        min_rack_ids=min_rack_ids,
        spread=spread,
        minimize=minimize,
        words=recorded("topicmappr fix-racks", locals(), _RECORDED),
    )
    destination = Destination(plan=plan, report=report)
    destination.check()
    with without_collector():
        state = observe(kit, snapshot)
        with kit.output.progress("planning"):
            change = decide_fix_racks(state, request)
        return finish(kit, "topicmappr fix-racks", change, destination, ignore_warns=ignore_warns, exit_code=exit_code)


_RECORDED = ("topics", "topics_exclude", "min_rack_ids", "spread", "minimize", "ignore_warns")
