"""`kafkakit streams dlq replay|purge|copy`: changes to what was rejected."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Consent
from kafkakit.cli.session import finish, open_session
from kafkakit.streams.lanes.commands import options
from kafkakit.streams.lanes.commands.opening import claimed, clusters_of

if TYPE_CHECKING:
    from kafkakit.streams.lanes.decide.copy_plan import CopyOutcome


@with_option_groups
def replay(
    ctx: typer.Context,
    *,
    stream: options.Stream,
    where: options.Where = "",
    target: options.ReplayOptions,
    consent: Consent,
) -> None:
    """Write records of the DLQ lane to their original lane again, each once.

    What was replayed is kept in the commits of group kafkakit-dlq-replay.STREAM (see `streams commits show`), so the
    same command continues after an interruption: no record is missed, and at most the batch that was being written is
    written twice. All groups that read the lane get the records. References are not replayed: copy them first.

    Examples:

    \b
    kafkakit --profile prod streams dlq replay orders --dry-run
    kafkakit --profile prod streams dlq replay orders --where 'reason = timeout' --rate 50 --yes
    kafkakit --profile prod streams dlq replay orders --to slow --limit 1000
    """
    from kafkakit.core.durations import epoch_ms
    from kafkakit.streams.lanes.act.replay import Replayer
    from kafkakit.streams.lanes.decide.dead_letters import letter_filter
    from kafkakit.streams.lanes.decide.replay_plan import ReplayBudget, require_target
    from kafkakit.streams.lanes.show.outcomes import replay_report
    from kafkakit.streams.routes.api_act import RouteStore

    cli = cli_context(ctx)
    consent.require_possible(cli)
    cli.operation_words = ("stopped; what was replayed is kept", "run the same command again to continue")
    budget = ReplayBudget(rate=target.rate, limit=target.limit)
    with ExitStack() as stack:
        opened = stack.enter_context(open_session(cli, read_only=True))
        matches, route = (
            letter_filter(where, epoch_ms(opened.clock.now())),
            RouteStore(opened.control).existing(stream).route,
        )
        require_target(route, target.lane)
        guard, clock = (lambda: None), opened.clock
        if not consent.dry_run:
            guard, clock = claimed(ctx, opened, stack, stream, "replay")
        clusters = clusters_of(ctx, stack, read_only=consent.dry_run)
        replayer = Replayer(clusters, clock, guard, wait_s=opened.settings.request_timeout_s)
        is_plan = consent.dry_run or not consent.yes
        outcome = replayer.replay(route, matches, budget, to=target.lane, is_plan=is_plan)
        question = f"Replay {outcome.replayed:,} records of stream {stream}?"
        if is_plan and not consent.dry_run and outcome.replayed and consent.confirm(cli, question):
            outcome = replayer.replay(route, matches, budget, to=target.lane)
    finish(cli, replay_report(stream, outcome))


@with_option_groups
def purge(
    ctx: typer.Context,
    *,
    stream: options.Stream,
    where: options.Where = "",
    everything: Annotated[bool, typer.Option("--all", help="Instead of --where: every rejected record.")] = False,
    consent: Consent,
) -> None:
    """Delete rejected records for good: from the DLQ lane, and their references.

    Kafka deletes the records of a partition only from its beginning, so a matching record stays while one that does not
    match lies before it. Prints the plan, and deletes nothing that was rejected after it.

    Examples:

    \b
    kafkakit --profile prod streams dlq purge orders --where 'replayed = true' --dry-run
    kafkakit --profile prod streams dlq purge orders --where 'age_s > 2592000' --yes
    """
    from kafkakit.core.durations import epoch_ms
    from kafkakit.core.errors import UsageError
    from kafkakit.streams.lanes.act.purge import Purger
    from kafkakit.streams.lanes.decide.dead_letters import letter_filter
    from kafkakit.streams.lanes.decide.purge_plan import PurgeOutcome
    from kafkakit.streams.lanes.show.outcomes import purge_report, purge_text
    from kafkakit.streams.routes.api_act import RouteStore

    if bool(where) == everything:
        raise UsageError("name what is to be deleted: --where QUERY or --all, and not both")
    cli = cli_context(ctx)
    consent.require_possible(cli)
    with ExitStack() as stack:
        opened = stack.enter_context(open_session(cli, read_only=True))
        route, clusters = (
            RouteStore(opened.control).existing(stream).route,
            clusters_of(ctx, stack, read_only=consent.dry_run),
        )
        purger = Purger(clusters, opened.clock, wait_s=opened.settings.request_timeout_s)
        outcome = PurgeOutcome(plan=purger.plan(route, letter_filter(where, epoch_ms(opened.clock.now()))), errors={})
        is_plan = consent.dry_run or outcome.plan.is_empty
        if not is_plan and not consent.yes:
            cli.output.say(purge_text(stream, outcome.plan))
            is_plan = not consent.confirm(cli, "Delete these records?")
        if not is_plan:
            outcome = purger.carry_out(route, outcome.plan)
    finish(cli, purge_report(stream, outcome, is_plan=is_plan))


def copy(
    ctx: typer.Context,
    stream: options.Stream,
    once: Annotated[bool, typer.Option("--once", help="Look once; otherwise again and again, until Ctrl-C.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Copy every reference now.")] = False,
    ahead: Annotated[
        str, typer.Option("--ahead", metavar="DURATION", help="Copy this long before retention may delete the record.")
    ] = "1d",
    every: Annotated[str, typer.Option("--every", metavar="DURATION", help="Time between two looks.")] = "1m",
) -> None:
    """Copy rejected records to the DLQ lane before retention deletes them.

    A rejected record stays in its topic, and a reference to it in topic __kafkakit_rejects. From the record's time
    and retention.ms follows when it may be deleted; where size or compaction may delete it, it is copied at once. The
    reference is removed once the copy is acknowledged, so an interruption can copy a record twice and loses none.
    Exits 1 when a record is gone already, or cannot be read; its reference stays.

    Examples:

    \b
    kafkakit --profile prod streams dlq copy orders
    kafkakit --profile prod streams dlq copy orders --once --all
    """
    from kafkakit.core.durations import parse_duration
    from kafkakit.core.errors import UsageError
    from kafkakit.streams.lanes.act.copying import RejectCopier, copy_again_and_again
    from kafkakit.streams.lanes.show.outcomes import copy_line, copy_report
    from kafkakit.streams.routes.api_act import RouteStore

    cli = cli_context(ctx)
    ahead_s, every_s = parse_duration(ahead, "--ahead"), parse_duration(every, "--every")
    if not once and 2 * every_s > ahead_s:
        raise UsageError(f"--every {every} is too long for --ahead {ahead}", hint="look at least twice in that time")
    with ExitStack() as stack:
        opened = stack.enter_context(open_session(cli, read_only=True))
        guard, clock = claimed(ctx, opened, stack, stream, "copy")
        clusters = clusters_of(ctx, stack, read_only=False)
        copier = RejectCopier(clusters, clock, guard, wait_s=opened.settings.request_timeout_s)

        def look() -> CopyOutcome:
            return copier.copy(
                RouteStore(opened.control).existing(stream).route, ahead_s=None if everything else ahead_s
            )

        outcome = look()
        if not once:
            copy_again_and_again(
                look,
                clock,
                every_s,
                say=lambda found: cli.output.say(copy_line(stream, found)),
                warn=cli.output.warn,
                first=outcome,
            )
    finish(cli, copy_report(stream, outcome))
