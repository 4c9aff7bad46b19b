"""`kafkakit reassign simulate`: play a plan on a simulated cluster, and compare throttles and orders."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import kit_of
from kafkakit.reassign.commands import options
from kafkakit.reassign.commands.session import DEFAULT_DISK_USE, DEFAULT_IN_EACH, DEFAULT_MOVES, DEFAULT_OUT_EACH

if TYPE_CHECKING:
    from kafkakit.cli.command_classes import Kit
    from kafkakit.reassign.decide.simulate.replay import Case
    from kafkakit.reassign.decide.simulate.request import SimulateRequest
    from kafkakit.reassign.decide.simulate.scene import Scene

Plan = Annotated[str, typer.Argument(metavar="PLAN", help="Plan file made with --plan; - for stdin.")]
Snapshot = Annotated[
    Path | None, typer.Option(help="Read this cluster-snapshot file instead of a live cluster.", metavar="FILE")
]
Throttles = Annotated[
    list[str] | None,
    typer.Option("--throttle", metavar="RATE", help="Throttle on each broker, or `none`; repeat it to compare."),
]
Orders = Annotated[
    list[str] | None,
    typer.Option("--order", metavar="ORDER", help="`schedule`, `plan` or `all-at-once`; repeat it to compare."),
]
Kills = Annotated[
    list[str] | None, typer.Option("--kill", metavar="BROKER@TIME", help="Kill a broker so long after the start.")
]
Revives = Annotated[
    list[str] | None, typer.Option("--revive", metavar="BROKER@TIME", help="Start a dead broker again.")
]
Ingest = Annotated[
    str,
    typer.Option(
        metavar="RATE",
        help="What producers write to the whole cluster, shared out by partition size; retention deletes nothing.",
    ),
]
LineRate = Annotated[str, typer.Option(metavar="RATE", help="What a broker's network carries each way.")]
Efficiency = Annotated[
    str, typer.Option(metavar="PERCENT", help="Share of a throttle that brokers reach in the long run.")
]
Window = Annotated[
    int, typer.Option("--quota-window", min=2, max=1000, help="replication.quota.window.num of the brokers.")
]


def simulate(
    ctx: typer.Context,
    plan_file: Plan,
    snapshot: Snapshot = None,
    throttle: Throttles = None,
    order: Orders = None,
    kill: Kills = None,
    revive: Revives = None,
    ingest: Ingest = "",
    line_rate: LineRate = "200MB",
    efficiency: Efficiency = "80%",
    quota_window: Window = 11,
    max_in: options.MaxIn = DEFAULT_IN_EACH,
    max_out: options.MaxOut = DEFAULT_OUT_EACH,
    max_moves: options.MaxMoves = DEFAULT_MOVES,
    one_replica: options.OneReplica = False,
    max_disk_use: options.MaxDiskUse = DEFAULT_DISK_USE,
    disk_headroom: options.DiskHeadroom = "0",
) -> None:
    """Play a plan on a simulated cluster: how long it takes, which log dir fills, what a dead broker does to it.

    Changes nothing. Each throttle is played with each order: `schedule` is what apply would do, `plan` starts moves
    in the plan's order without looking at disks, `all-at-once` sends everything at the start. Brokers keep
    throttles as real ones do, with their bursts and stalls.

    Examples:

    \b
    kafkakit --profile prod reassign simulate p.json --throttle 20MB --throttle 50MB
    kafkakit reassign simulate p.json --snapshot prod.json --order schedule --order plan --kill 1002@10m
    """
    from kafkakit.cli.session import open_session
    from kafkakit.core.documents import decode_plan
    from kafkakit.core.percent import parse_percent
    from kafkakit.core.plan_rules import check_plan
    from kafkakit.core.quantities import parse_rate
    from kafkakit.reassign.commands.session import PLAN_LIMIT_BYTES, Options, read_limits
    from kafkakit.reassign.decide.simulate.request import (
        SimulateRequest,
        check_request,
        parse_faults,
        parse_orders,
        parse_throttles,
    )
    from kafkakit.reassign.decide.simulate.scene import build_scene, check_faults
    from kafkakit.topicmappr.api_act import observe
    from kafkakit.wiring import read_input

    kit = kit_of(ctx)
    request = SimulateRequest(
        throttles=parse_throttles(throttle or ()),
        orders=parse_orders(order or ()),
        faults=parse_faults(kill or (), revive or ()),
        ingest=parse_rate(ingest) if ingest else 0,
        line_rate=parse_rate(line_rate),
        efficiency=parse_percent(efficiency, "--efficiency"),
        quota_window=quota_window,
        limits=read_limits(
            Options(
                max_in=max_in,
                max_out=max_out,
                max_moves=max_moves,
                one_replica=one_replica,
                max_disk_use=max_disk_use,
                disk_headroom=disk_headroom,
            )
        ),
    )
    check_request(request)
    source = "stdin" if plan_file == "-" else plan_file
    plan = decode_plan(read_input(plan_file, PLAN_LIMIT_BYTES), source)
    check_plan(plan, source)
    with open_session(kit, read_only=True) as session:
        scene = build_scene(plan, observe(session, snapshot), request)
    check_faults(scene, request)
    _report(kit, scene, _play(kit, scene, request))


def _play(kit: "Kit", scene: "Scene", request: "SimulateRequest") -> "list[Case]":
    from kafkakit.reassign.decide.simulate.replay import play

    cases = []
    wanted = [(order, throttle) for throttle in request.throttles for order in request.orders]
    with kit.output.progress("simulating") as bar:
        for number, (order, throttle) in enumerate(wanted):
            bar.update(number, len(wanted), order.value)
            cases.append(play(scene, request, order, throttle))
    return cases


def _report(kit: "Kit", scene: "Scene", cases: "list[Case]") -> None:
    import sys

    from kafkakit.reassign.show.simulate import COLUMNS, case_rows, cases_data, render_cases
    from kafkakit.report.report import Report

    plain = kit.output.output_file is None and "utf" not in (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
    kit.output.result(
        Report(
            command="reassign simulate",
            data=cases_data(cases, scene.notes),
            text=render_cases(cases, scene.notes, plain=plain),
            columns=COLUMNS,
            rows=case_rows(cases),
        )
    )
