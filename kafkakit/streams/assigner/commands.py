"""`kafkakit streams assigner run|show|drain|explain|simulate`, with their options."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.completion import complete_group_names
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Consent
from kafkakit.cli.session import finish, open_session
from kafkakit.streams.assigner.decide.assignment import FleetShape, SimulatedFleet, simulate_fleet
from kafkakit.streams.assigner.health import AssignerOptions, AutomaticPolicy


@with_option_groups
def run(
    ctx: typer.Context,
    options: AssignerOptions,
    policy: AutomaticPolicy,
    listen: Annotated[
        str,
        typer.Option(
            "--listen", metavar="HOST:PORT", help="Answer probes here: /startupz, /livez, /readyz; `none`: nowhere."
        ),
    ] = "none",
) -> None:
    """Share the partitions of all streams out among their workers, and watch the streams' clusters.

    Workers are applications whose client was opened with `worker=WorkerOptions(...)`. Several Assigners may run with
    one control store: one is in charge, and another one takes over when it ends or hangs. Partitions of a worker that
    dies are taken over by others within 2 s. While no Assigner runs, workers keep what they have. SIGTERM ends it with
    exit 143; a control document of a newer version ends it with 2.

    Examples:

    \b
    kafkakit --profile prod streams assigner run
    kafkakit --profile prod streams assigner run --auto-failover dry-run --failover-target east=west
    kafkakit --profile prod streams assigner run --auto-failover on --failover-target east=west --failovers-a-day 5
    """
    from collections.abc import Callable, Iterator
    from contextlib import ExitStack, closing, contextmanager

    from kafkakit.adapters.host import life_of, notify_service
    from kafkakit.cli.session import ProfileSessions, open_session
    from kafkakit.cli.stream_operations import operation_ports
    from kafkakit.core.lease import ASSIGNER_LEASE
    from kafkakit.core.rpc import ServiceProbes, answer_pages
    from kafkakit.streams.assigner.act.leader import AssignerLoop, AssignerParts
    from kafkakit.streams.assigner.act.watching import AutomaticFailovers, OperationFailover
    from kafkakit.streams.failover.api_act import OperationPorts
    from kafkakit.wiring import open_lease, open_page_server

    name = "streams assigner run"

    cli = cli_context(ctx)
    cli.begin_service()
    for profile in (*policy.targets, *policy.targets.values()):
        cli.load_settings(profile)

    @contextmanager
    def ports() -> Iterator[OperationPorts]:
        with ExitStack() as own:
            home = own.enter_context(open_session(cli))
            yield operation_ports(cli, home, ProfileSessions(cli, own, read_only=False), name)

    with ExitStack() as stack:
        session, say = stack.enter_context(open_session(cli)), cli.output.say
        lease = open_lease(session.control, session.clock, "all streams", name, say, ASSIGNER_LEASE, "the Assigner")
        probes = ServiceProbes(notify_service, session.clock.monotonic, lambda: loop.is_well)
        require_listening: Callable[[], None] = lambda: None  # noqa: E731
        if listen != "none":
            server = stack.enter_context(closing(open_page_server(listen, answer_pages({}), probes=probes)))
            say(f"answering probes on http://{server.address}")
            require_listening = server.require_listening
        parts = AssignerParts(
            store=session.control,
            lease=lease,
            clock=session.clock,
            life_of=life_of,
            open_cluster=lambda profile: open_session(cli, read_only=True, settings=cli.load_settings(profile)),
            automatic=AutomaticFailovers(
                session.control, session.clock, policy.mode, OperationFailover(ports), lease.require_held, say
            ),
            policy=policy,
            say=say,
            notify=probes.notify,
            require_listening=require_listening,
        )
        loop = AssignerLoop(parts, options)
        loop.run()


def show(ctx: typer.Context) -> int:
    """Show the Assigner in charge, the clusters as it sees them, and its workers.

    Examples:

    \b
    kafkakit --profile prod streams assigner show
    """
    from kafkakit.streams.assigner.act.leader import AssignerReader
    from kafkakit.streams.assigner.health import standing_report

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        found = AssignerReader(session.control)
        report = standing_report(
            found.standing(), found.lease(), found.workers(), found.grants(), found.draining(), found.history()
        )
    return finish(cli, report)


@with_option_groups
def drain(
    ctx: typer.Context,
    worker: Annotated[str, typer.Argument(metavar="WORKER", help="The worker, by its name or id of `show`.")],
    consent: Consent,
    undo: Annotated[bool, typer.Option("--undo", help="Let the worker take partitions again.")] = False,
    wait: Annotated[
        str, typer.Option("--wait", metavar="DURATION", help="End with 75 when it still has some after this long.")
    ] = "1m",
) -> int:
    """Take all partitions from a worker, so that its process can be ended without a pause.

    Examples:

    \b
    kafkakit --profile prod streams assigner drain 3fa1 --dry-run
    kafkakit --profile prod streams assigner drain 3fa1 --yes
    """
    from kafkakit.core.errors import ExitCode
    from kafkakit.core.quantities import count_of, parse_duration_or_zero
    from kafkakit.streams.assigner.act.leader import Drains
    from kafkakit.streams.assigner.health import drain_report

    cli, wait_s = cli_context(ctx), parse_duration_or_zero(wait, "--wait")
    with open_session(cli, read_only=consent.dry_run) as session:
        drains = Drains(session.control, session.clock)
        found = drains.worker(worker)
        count, name = drains.held(found), f"worker {found.id} ({found.holder})"
        question = f"Let {name} take partitions again?" if undo else f"Take {count_of(count, 'partition')} from {name}?"
        if consent.dry_run or not consent.confirm(cli, question):
            return finish(cli, drain_report(found, count, ExitCode.DONE, is_undone=undo, is_plan=True))
        if undo:
            drains.undo(found)
            left, code = drains.held(found), ExitCode.DONE
        else:
            drains.request(found, session.requester)
            left = drains.wait(found, wait_s)
            code = ExitCode.TRY_LATER if left else ExitCode.DONE
    return finish(cli, drain_report(found, left, code, is_undone=undo))


def explain(
    ctx: typer.Context,
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream.")],
    group: Annotated[
        str, typer.Argument(metavar="GROUP", help="The group that reads it.", autocompletion=complete_group_names)
    ],
) -> int:
    """Show which worker reads each partition of a stream for a group, with its epoch, and why.

    Examples:

    \b
    kafkakit --profile prod streams assigner explain orders billing
    """
    from kafkakit.streams.assigner.act.leader import AssignerReader
    from kafkakit.streams.assigner.health import explain_partitions, explain_report
    from kafkakit.streams.routes.api_act import RouteStore

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        reader = AssignerReader(session.control)
        route = RouteStore(session.control).existing(stream).route
        found = explain_partitions(route, group, reader.workers(), reader.grants(), reader.draining())
    return finish(cli, explain_report(stream, group, found))


@with_option_groups
def simulate(
    ctx: typer.Context,
    shape: FleetShape,
    kill: Annotated[
        list[int] | None,
        typer.Option(
            "--kill", min=1, metavar="N", help="Kill this many workers at once. Repeatable: one after another."
        ),
    ] = None,
    kill_cluster: Annotated[
        list[int] | None,
        typer.Option("--kill-cluster", min=0, metavar="N", help="Fail over from the cluster of this number."),
    ] = None,
) -> int:
    """Show what the Assigner would do with a fleet of this size when workers and clusters die; nothing is read.

    Examples:

    \b
    kafkakit streams assigner simulate --workers 500 --streams 100 --partitions 100 --kill 1 --kill 10
    """
    from kafkakit.streams.assigner.health import simulation_report

    return finish(
        cli_context(ctx),
        simulation_report(shape, simulate_fleet(SimulatedFleet(shape), kill or (), kill_cluster or ())),
    )


app = new_group("Assign partitions to workers, and watch clusters.")
app.command("run", cls=CliCommand, short_help="Run an Assigner.")(run)
app.command("show", cls=CliCommand, short_help="Show the Assigner, clusters and workers.")(show)
app.command("drain", cls=CliCommand, short_help="Take all partitions from a worker.")(drain)
app.command("explain", cls=CliCommand, short_help="Show why partitions are read where they are.")(explain)
app.command("simulate", cls=CliCommand, short_help="Show what deaths would lead to.")(simulate)
