"""`kafkakit reassign simulate`: play a plan on a simulated cluster, and compare throttles and orders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.plan_file import PlanFile
from kafkakit.cli.run_options import ScheduleOptions
from kafkakit.reassign.commands.options import SimulationOptions

Snapshot = Annotated[
    Path | None, typer.Option(help="Read this cluster-snapshot file instead of a live cluster.", metavar="FILE")
]


@with_option_groups
def simulate(
    ctx: typer.Context,
    plan_file: PlanFile,
    options: SimulationOptions,
    schedule: ScheduleOptions,
    snapshot: Snapshot = None,
) -> None:
    """Simulate a plan: how long it takes, which log dir fills up, what happens when a broker dies.

    Changes nothing. Every throttle is simulated with every order: `schedule` is what apply would do, `plan` starts
    moves in the plan's order without checking disks, `all-at-once` sends everything at the start. Brokers apply
    throttles like real ones, with their bursts and stalls.

    Examples:

    \b
    kafkakit --profile prod reassign simulate p.json --throttle 20MB --throttle 50MB
    kafkakit reassign simulate p.json --snapshot prod.json --order schedule --order plan --kill 1002@10m
    """
    from kafkakit.cli.plan_file import read_plan
    from kafkakit.cli.session import finish, open_session
    from kafkakit.reassign.act.simulate import play_cases
    from kafkakit.reassign.decide.simulate.scene import build_scene, check_faults
    from kafkakit.reassign.show.simulate import simulate_report
    from kafkakit.topicmappr.api_act import observe

    cli = cli_context(ctx)
    request = options.request(schedule)
    plan = read_plan(plan_file)
    with open_session(cli, read_only=True) as session:
        scene = build_scene(plan, observe(session, snapshot), request)
    cli.cluster_id = plan.cluster_id
    check_faults(scene, request)
    cases = play_cases(scene, request, cli.output)
    finish(cli, simulate_report(cases, scene.notes, plain=cli.output.plain_stdout))
