"""`kafkakit streams assigner run`."""

from __future__ import annotations

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.streams.assigner.commands.options import LoopOptions, PolicyOptions


@with_option_groups
def run(ctx: typer.Context, loop: LoopOptions, policy: PolicyOptions) -> None:
    """Share the partitions of all streams out among their workers, and watch the streams' clusters.

    Workers are applications whose client was opened with `worker=WorkerOptions(...)`. Several Assigners may run with
    one control store: one is in charge, and another one takes over when it ends. A worker that dies has its partitions
    taken over by others within 2 s. While no Assigner runs, workers keep what they have. SIGTERM ends it with exit 143;
    a control document of a newer version with 2.

    Examples:

    \b
    kafkakit --profile prod streams assigner run
    kafkakit --profile prod streams assigner run --auto-failover dry-run --failover-target east=west
    kafkakit --profile prod streams assigner run --auto-failover on --failover-target east=west --failovers-a-day 5
    """
    from collections.abc import Iterator
    from contextlib import ExitStack, contextmanager

    from kafkakit.adapters.own_process import life_of
    from kafkakit.cli.session import ProfileSessions, open_session
    from kafkakit.cli.stream_operations import operation_ports
    from kafkakit.streams.assigner.act.automatic import AutomaticFailovers
    from kafkakit.streams.assigner.act.emergencies import OperationFailover
    from kafkakit.streams.assigner.act.leader import AssignerLoop, AssignerParts
    from kafkakit.streams.assigner.decide.standing import LEASE_PATH
    from kafkakit.streams.failover.api_act import OperationPorts
    from kafkakit.wiring import open_lease

    name = "streams assigner run"

    cli, options = cli_context(ctx), loop.parsed()
    rules = policy.parsed(cli.load_settings)

    @contextmanager
    def ports() -> Iterator[OperationPorts]:
        with ExitStack() as own:
            home = own.enter_context(open_session(cli))
            yield operation_ports(cli, home, ProfileSessions(cli, own, read_only=False), name)

    with ExitStack() as stack:
        session, say = stack.enter_context(open_session(cli)), cli.output.say
        lease = open_lease(session.control, session.clock, "all streams", name, say, LEASE_PATH, "the Assigner")
        parts = AssignerParts(
            store=session.control,
            lease=lease,
            clock=session.clock,
            life_of=life_of,
            open_cluster=lambda profile: stack.enter_context(
                open_session(cli, read_only=True, settings=cli.load_settings(profile))
            ),
            automatic=AutomaticFailovers(
                session.control, session.clock, rules.mode, OperationFailover(ports), lease.require_held, say
            ),
            policy=rules,
            say=say,
        )
        AssignerLoop(parts, options).run()
