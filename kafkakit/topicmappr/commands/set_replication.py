"""`kafkakit topicmappr set-replication`: raise or lower the replication factor of topics."""

from typing import Annotated

import typer

from kafkakit.cli.command_classes import kit_of
from kafkakit.topicmappr.commands.options import (
    ExitCodeFlag,
    IgnoreWarns,
    MinRackIds,
    Pin,
    PlanFile,
    ReportFile,
    RunMovedBytes,
    RunMoves,
    Snapshot,
    Topics,
    TopicsExclude,
)
from kafkakit.topicmappr.commands.planning import observe, recorded

Factor = Annotated[int, typer.Argument(metavar="N", help="How many replicas each partition shall have.")]


def set_replication(
    ctx: typer.Context,
    replication: Factor,
    topics: Topics,
    topics_exclude: TopicsExclude = "",
    snapshot: Snapshot = None,
    min_rack_ids: MinRackIds = 0,
    pin: Pin = None,
    max_moves: RunMoves = None,
    max_moved_bytes: RunMovedBytes = "",
    plan: PlanFile = None,
    report: ReportFile = None,
    ignore_warns: IgnoreWarns = False,
    exit_code: ExitCodeFlag = False,
) -> int:
    """Give every partition of the topics N replicas.

    Added copies follow the rack rule and even the counts out. Where the factor shrinks the leader stays; rack
    repeats go first, then copies out of sync, then those on the fullest brokers. With a budget (--max-moves,
    --max-moved-bytes) partitions that lack most copies go first; run it again for the rest. Exits 4 when N copies
    fit nowhere.
    """
    from kafkakit.core.topic_selection import parse_patterns
    from kafkakit.topicmappr.act.cluster import Destination
    from kafkakit.topicmappr.act.garbage import without_collector
    from kafkakit.topicmappr.commands.planned import budget_of, finish, limits_recorded
    from kafkakit.topicmappr.decide.set_replication import ReplicationRequest, decide_set_replication

    kit = kit_of(ctx)
    request = ReplicationRequest(
        replication=replication,
        topics=parse_patterns(topics),
        topics_exclude=parse_patterns(topics_exclude),
        min_rack_ids=min_rack_ids,
        pinned=parse_patterns(",".join(pin or ())),
        budget=budget_of(max_moves, max_moved_bytes),
        words=recorded("topicmappr set-replication", locals(), _RECORDED)
        | limits_recorded(pin, max_moves, max_moved_bytes),
    )
    destination = Destination(plan=plan, report=report)
    destination.check()
    with without_collector():
        state = observe(kit, snapshot)
        with kit.output.progress("planning"):
            change = decide_set_replication(state, request)
        return finish(
            kit, "topicmappr set-replication", change, destination, ignore_warns=ignore_warns, exit_code=exit_code
        )


_RECORDED = ("topics", "topics_exclude", "replication", "min_rack_ids", "ignore_warns")
