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
    """
    from contextlib import ExitStack

    from kafkakit.adapters.own_process import life_of
    from kafkakit.cli.session import open_session
    from kafkakit.core.errors import UsageError
    from kafkakit.streams.assigner.act.automatic import AutomaticFailovers, NoFailover
    from kafkakit.streams.assigner.act.leader import AssignerLoop, AssignerParts
    from kafkakit.streams.assigner.decide.policy import AutomaticMode
    from kafkakit.streams.assigner.decide.standing import LEASE_PATH
    from kafkakit.wiring import open_lease

    cli, options, rules = cli_context(ctx), loop.parsed(), policy.parsed()
    if rules.mode is AutomaticMode.ON:
        raise UsageError("--auto-failover on is not there yet", hint="dry-run reports what it would do")
    with ExitStack() as stack:
        session, say = stack.enter_context(open_session(cli)), cli.output.say
        lease = open_lease(
            session.control, session.clock, "all streams", "streams assigner run", say, LEASE_PATH, "the Assigner"
        )
        parts = AssignerParts(
            store=session.control,
            lease=lease,
            clock=session.clock,
            life_of=life_of,
            open_cluster=lambda profile: stack.enter_context(
                open_session(cli, read_only=True, settings=cli.load_settings(profile))
            ),
            automatic=AutomaticFailovers(
                session.control, session.clock, rules.mode, NoFailover(), lease.require_held, say
            ),
            policy=rules,
            say=say,
        )
        AssignerLoop(parts, options).run()
