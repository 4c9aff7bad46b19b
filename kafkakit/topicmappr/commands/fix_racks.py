"""`kafkakit topicmappr fix-racks`: mend the rack rule with the fewest copies."""

import typer

from kafkakit.cli.command_classes import kit_of
from kafkakit.placement.problem import Minimize
from kafkakit.topicmappr.commands.options import (
    ExitCodeFlag,
    IgnoreWarns,
    MinimizeBy,
    MinRackIds,
    Pin,
    PlanFile,
    ReportFile,
    RunMovedBytes,
    RunMoves,
    Snapshot,
    Spread,
    Topics,
    TopicsExclude,
)
from kafkakit.topicmappr.commands.planning import observe, recorded


def fix_racks(
    ctx: typer.Context,
    topics: Topics = ".*",
    topics_exclude: TopicsExclude = "",
    snapshot: Snapshot = None,
    min_rack_ids: MinRackIds = 0,
    spread: Spread = False,
    minimize: MinimizeBy = Minimize.MOVES,
    pin: Pin = None,
    max_moves: RunMoves = None,
    max_moved_bytes: RunMovedBytes = "",
    plan: PlanFile = None,
    report: ReportFile = None,
    ignore_warns: IgnoreWarns = False,
    exit_code: ExitCodeFlag = False,
) -> int:
    """Bring every partition under the rack rule, with the fewest copies.

    Only replicas beyond what the rule allows move; which of them, and where to, is chosen so that the counts
    of all topics stay even. With a budget (--max-moves, --max-moved-bytes) the sets with the most replicas to move
    go first; run it again for the rest. Exits 4 when a partition cannot be mended for want of racks.
    """
    from kafkakit.core.topic_selection import parse_patterns
    from kafkakit.topicmappr.act.cluster import Destination
    from kafkakit.topicmappr.act.garbage import without_collector
    from kafkakit.topicmappr.commands.planned import budget_of, finish, limits_recorded
    from kafkakit.topicmappr.decide.fix_racks.decision import decide_fix_racks
    from kafkakit.topicmappr.decide.fix_racks.request import FixRacksRequest

    kit = kit_of(ctx)
    request = FixRacksRequest(
        topics=parse_patterns(topics),
        topics_exclude=parse_patterns(topics_exclude),
        min_rack_ids=min_rack_ids,
        spread=spread,
        minimize=minimize,
        pinned=parse_patterns(",".join(pin or ())),
        budget=budget_of(max_moves, max_moved_bytes),
        words=recorded("topicmappr fix-racks", locals(), _RECORDED) | limits_recorded(pin, max_moves, max_moved_bytes),
    )
    destination = Destination(plan=plan, report=report)
    destination.check()
    with without_collector():
        state = observe(kit, snapshot)
        with kit.output.progress("planning"):
            change = decide_fix_racks(state, request)
        return finish(kit, "topicmappr fix-racks", change, destination, ignore_warns=ignore_warns, exit_code=exit_code)


_RECORDED = ("topics", "topics_exclude", "min_rack_ids", "spread", "minimize", "ignore_warns")
