"""`kafkakit topicmappr leaders`: even preferred leaders without moving data."""

from typing import Annotated

import typer

from kafkakit.cli.command_classes import kit_of
from kafkakit.topicmappr.commands.options import (
    EvacuatedBrokers,
    ExitCodeFlag,
    IgnoreWarns,
    Pin,
    PlanFile,
    ReportFile,
    Snapshot,
    Topics,
    TopicsExclude,
)
from kafkakit.topicmappr.commands.planning import observe, recorded

MayLead = Annotated[
    str, typer.Option(help="Ids of the brokers that may lead, comma separated; all live ones if not given.")
]


LeaderMoves = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Change no more partitions in one run; the same command goes on."),
]


def leaders(
    ctx: typer.Context,
    topics: Topics = ".*",
    topics_exclude: TopicsExclude = "",
    brokers: MayLead = "",
    leader_evac_brokers: EvacuatedBrokers = "",
    snapshot: Snapshot = None,
    pin: Pin = None,
    max_moves: LeaderMoves = None,
    plan: PlanFile = None,
    report: ReportFile = None,
    ignore_warns: IgnoreWarns = False,
    exit_code: ExitCodeFlag = False,
) -> int:
    """Spread preferred leaders evenly by reordering replica lists, with the fewest changes.

    No data moves: the new leader goes to the front of its list and the others keep their order. With --max-moves
    leaderships on brokers that must not lead pass on first, then the changes that even the counts out most. Exits 4
    when a partition has no replica on a broker that may lead.
    """
    from kafkakit.core.broker_list import parse_broker_list
    from kafkakit.core.topic_selection import parse_patterns
    from kafkakit.topicmappr.act.cluster import Destination
    from kafkakit.topicmappr.act.garbage import without_collector
    from kafkakit.topicmappr.commands.planned import budget_of, finish, limits_recorded
    from kafkakit.topicmappr.decide.leaders.decision import decide_leaders
    from kafkakit.topicmappr.decide.leaders.request import LeadersRequest

    kit = kit_of(ctx)
    request = LeadersRequest(
        topics=parse_patterns(topics),
        topics_exclude=parse_patterns(topics_exclude),
        brokers=parse_broker_list(brokers) if brokers else None,
        evacuated=parse_broker_list(leader_evac_brokers, "--leader-evac-brokers") if leader_evac_brokers else None,
        pinned=parse_patterns(",".join(pin or ())),
        budget=budget_of(max_moves),
        words=recorded("topicmappr leaders", locals(), _RECORDED) | limits_recorded(pin, max_moves),
    )
    destination = Destination(plan=plan, report=report)
    destination.check()
    with without_collector():
        state = observe(kit, snapshot)
        with kit.output.progress("planning"):
            change = decide_leaders(state, request)
        return finish(
            kit,
            "topicmappr leaders",
            change,
            destination,
            ignore_warns=ignore_warns,
            exit_code=exit_code,
        )


_RECORDED = ("topics", "topics_exclude", "brokers", "leader_evac_brokers", "ignore_warns")
