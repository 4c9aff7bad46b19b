"""`kafkakit streams failover status|history`."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.session import finish
from kafkakit.streams.failover.commands.options import StreamName, open_failover
from kafkakit.streams.failover.commands.watch_options import LiveOptions


@with_option_groups
def status(ctx: typer.Context, stream: StreamName, options: LiveOptions) -> int:
    """Show where the newest operation of a stream stands, and which process works on it.

    Without --watch the route and the journal are read, and no cluster. With it the clusters are read again and again
    until no operation is open: what is written to each segment, what each group has left to read of the old topics,
    what is waited for, and the time left. A terminal gets a screen that is replaced, any other output a line for each
    phase; the result is the last look. Ctrl-C ends the watching alone.

    Examples:

    \b
    kafkakit --profile prod streams failover status orders
    kafkakit --profile prod streams failover status orders --watch --metrics /var/lib/node_exporter/failover.prom
    """
    from kafkakit.streams.failover.act.closing import newest
    from kafkakit.streams.failover.act.live import OperationWatcher
    from kafkakit.streams.failover.commands.watch_options import watch_operation
    from kafkakit.streams.failover.decide.standing import standing
    from kafkakit.streams.failover.show.live import live_report
    from kafkakit.streams.failover.show.runs import status_report

    cli = cli_context(ctx)
    options.refuse_unused()
    with open_failover(cli, stream) as session:
        if options.watch:
            watcher = OperationWatcher(stream, session.parts(), session.cluster, session.lease_words)
            return finish(cli, live_report(watch_operation(cli, session.home.clock, watcher, options)))
        route = session.route
        record = newest(session.parts().journals, route)
        lease = session.lease_words()
    step = None if record is None else standing(record.operation, route)
    return finish(cli, status_report(stream, record, step, lease))


def history(
    ctx: typer.Context,
    stream: StreamName,
    rehearsals: Annotated[
        bool, typer.Option("--rehearsals", help="Show the rehearsals of the stream, and how ready it is by the newest.")
    ] = False,
) -> int:
    """Show all operations of a stream, and every command that could change it: when, by which operator, on which plan.

    The plan is the hash of the operation with the limits that the command gave. Commands are in the audit log of the
    stream, in the control store.

    Examples:

    \b
    kafkakit --profile prod streams failover history orders
    kafkakit --profile prod streams failover history orders --rehearsals
    """
    from kafkakit.core.durations import epoch_ms
    from kafkakit.streams.failover.act.audit import commands_of
    from kafkakit.streams.failover.act.rehearsal import RehearsalHistory
    from kafkakit.streams.failover.show.history import history_report
    from kafkakit.streams.failover.show.rehearsals import rehearsals_report

    cli = cli_context(ctx)
    with open_failover(cli, stream) as session:
        session.require_known()
        if rehearsals:
            kept = RehearsalHistory(session.home.control, session.stream).read()
            return finish(cli, rehearsals_report(stream, kept, epoch_ms(session.home.clock.now())))
        found = tuple(session.parts().journals.records())
        commands, damaged = commands_of(session.home.control, session.stream)
    return finish(cli, history_report(stream, found, commands, damaged))
