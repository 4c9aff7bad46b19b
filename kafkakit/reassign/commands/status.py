"""`kafkakit reassign status`."""

from __future__ import annotations

from functools import partial

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.reassign.commands.options import WatchOptions


@with_option_groups
def status(ctx: typer.Context, options: WatchOptions) -> None:
    """Show all running moves of the cluster: progress, rate, ETA, and what is stalled and why.

    For runs of kafkakit it shows the time left now and as forecast at the start, and what the run is doing. It also
    shows moves between log dirs, throttles, counts of under-replicated partitions, and which process may change the
    cluster. While something moves, the command reads twice to measure rates; with --watch it continues until
    nothing moves, and Ctrl-C ends only the watching. A tick reads the moving topics and their brokers, not the
    whole cluster; counts, and moves between log dirs, are read once a minute at most.

    Examples:

    \b
    kafkakit --profile prod reassign status
    kafkakit --profile prod reassign status --watch --metrics /var/lib/node_exporter/kafkakit.prom
    kafkakit --profile prod reassign status -o json --window 30s
    """
    from kafkakit.adapters.lock import locked_by
    from kafkakit.adapters.own_process import life_of
    from kafkakit.cli.output import OutputFormat
    from kafkakit.cli.session import finish, open_session
    from kafkakit.core.errors import UsageError
    from kafkakit.execution.act.known_runs import KnownRuns
    from kafkakit.execution.act.lease_reader import LeaseReader
    from kafkakit.execution.act.retrier import Retrier
    from kafkakit.execution.act.status_loop import Observer, look_once
    from kafkakit.execution.act.status_loop import watch as watch_moves
    from kafkakit.execution.act.watch_loop import PATIENCE_S
    from kafkakit.execution.decide.status.stall import QUIET_S
    from kafkakit.execution.decide.status.state import StatusView
    from kafkakit.reassign.show.status_metrics import render_metrics
    from kafkakit.reassign.show.status_text import render_screen, status_line, status_report
    from kafkakit.wiring import write_file

    cli = cli_context(ctx)
    if options.metrics == "-" and cli.output.output_format is not OutputFormat.TEXT:
        raise UsageError("--metrics - is a format of its own, without -o", hint="name a file for the metrics")
    window_s, interval_s, metrics_file = options.window_s, options.interval_s, options.metrics_file
    if 0 < window_s < QUIET_S:
        cli.output.warn(f"throttled copies arrive in bursts: rates over less than {QUIET_S:g} s mean little")

    def write_metrics(view: StatusView) -> None:
        if metrics_file is not None:
            write_file(metrics_file, render_metrics(view).encode())

    with open_session(cli, read_only=True) as session, cli.output.screen() as screen:
        lock_holder = partial(locked_by, session.host_lock(session.cluster_id))
        observer = Observer(
            session.admin,
            session.clock,
            KnownRuns(cli.settings.state_dir, session.cluster_id),
            LeaseReader(lambda: session.control, session.cluster_id, life_of, lock_holder, cli.output).read,
            window_s=window_s,
            program=cli.program,
        )
        if options.watch:
            view = watch_moves(
                observer,
                session.clock,
                Retrier(session.clock, cli.output, PATIENCE_S),
                interval_s=interval_s,
                after_look=write_metrics,
                show=lambda view: screen.show(render_screen(view), status_line(view)),
            )
        else:
            view = look_once(observer, session.clock, window_s)
            write_metrics(view)
    finish(cli, status_report(view, as_metrics=options.metrics == "-"))
