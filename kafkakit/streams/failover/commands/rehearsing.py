"""`kafkakit streams failover rehearse`."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Consent
from kafkakit.cli.session import finish
from kafkakit.streams.failover.commands.options import StreamName, Wait, open_failover
from kafkakit.streams.failover.commands.rehearsal_options import RehearsalOptions


@with_option_groups
def rehearse(
    ctx: typer.Context,
    stream: StreamName,
    options: RehearsalOptions,
    consent: Consent,
    wait: Wait = "2m",
    only_remove: Annotated[
        bool, typer.Option("--only-remove", help="Remove what a rehearsal that was killed has left, and end.")
    ] = False,
) -> int:
    """Rehearse a failover on a shadow stream, and keep how long each step took with a readiness score.

    A stream kafkakit-rehearsal.STREAM with the same lanes, partitions, replicas and topic settings is made on the same
    clusters, written and read at the rate, and failed over as `run` does it. Its topics, group, ACLs and documents are
    removed at the end, also after Ctrl-C; the next rehearsal removes what a killed one has left. The stream itself is
    not touched, but its brokers have the load.

    The score is 0 unless the shadow was retired, its certificate held and every answered record was handled; else 100,
    less 2 for each second of the failover above 10 s (40 at most), less 10 for each second above 1 s of the longest
    time without an answer (30 at most), less 20 where more records came again than the plan said, less 20 times the
    share of the rate that was not written. `history --rehearsals` takes off one more for each day since.

    Exits with 0 when the shadow was retired without loss, 1 when records were lost, 2 when the plan was refused, and 75
    when something had to be waited for too long.

    Examples:

    \b
    kafkakit --profile prod streams failover rehearse orders --to east --yes
    kafkakit --profile prod streams failover rehearse orders --to east --rate 2000 --load 30s --yes
    """
    from kafkakit.core.durations import parse_duration_or_zero
    from kafkakit.core.errors import RefusedError
    from kafkakit.streams.failover.act.rehearsal import rehearse as carry_out
    from kafkakit.streams.failover.act.rehearsal import remove_leftovers
    from kafkakit.streams.failover.act.shadow_stream import forget_lease
    from kafkakit.streams.failover.decide.rehearsal import shadow_of
    from kafkakit.streams.failover.show.rehearsals import leftovers_report, rehearsal_report
    from kafkakit.streams.routes.api_act import RouteStore

    cli, wait_s = cli_context(ctx), parse_duration_or_zero(wait, "--wait")
    consent.require_possible(cli)
    if consent.dry_run:
        raise RefusedError("a rehearsal has no dry run", hint="kafkakit streams failover plan writes nothing")
    with open_failover(cli, shadow_of(stream), "streams failover rehearse", audited_as=stream) as session:
        route = RouteStore(session.home.control).existing(stream).route
        question = f"Make a shadow of stream {stream}, and write to its clusters and to {options.to}?"
        if not only_remove and not consent.confirm(cli, question):
            return finish(cli, leftovers_report(stream, ()))
        session.after_release(lambda: forget_lease(session.home.control, session.stream))
        parts = options.parts(session, stream, session.parts())
        sources = tuple(segment.cluster for _, segment in route.segments())
        left = remove_leftovers(parts, (*sources, options.to))
        cli.output.say(f"removed: {', '.join(left)}" if left else "no earlier rehearsal has left anything")
        if only_remove:
            return finish(cli, leftovers_report(stream, left))
        rehearsal = options.rehearsal(session, stream, route, parts)
        cli.operation_words = ("stopped; the shadow stream may be there", "--only-remove removes it")
        done = carry_out(parts, rehearsal, route, wait_s)
    return finish(cli, rehearsal_report(done))
