"""`kafkakit registry cleanup` and `migrate`: the store of tags."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.registry.commands.cleanup_options import CleanupChoice
from kafkakit.registry.commands.migrate_options import MigrationChoice
from kafkakit.registry.commands.options import TagPlace

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]


@with_option_groups
def cleanup(
    ctx: typer.Context,
    place: TagPlace,
    choice: CleanupChoice,
    dry_run: DryRun = False,
    force: Annotated[
        bool, typer.Option("--force", help="However many of the tagged topics or brokers are gone.")
    ] = False,
) -> int:
    """Mark the tags of topics and brokers that do not exist any more, and delete those marked long ago.

    registry serve does the same each 20 minutes. The marks are kafka-kit's, whose program may run beside this one.
    What was deleted stays in the history.

    Examples:

    \b
    kafkakit --profile prod registry cleanup --dry-run
    """
    from contextlib import ExitStack

    from kafkakit.cli.session import finish, open_session
    from kafkakit.registry.act.cleanup import clean_up, plan_cleanups
    from kafkakit.registry.commands.cleanup_options import cleanup_ports, held_cleanup
    from kafkakit.registry.show.upkeep import cleanup_report, planned_steps

    cli, rules = cli_context(ctx), choice.rules(force=force)
    place.apply(cli)
    with ExitStack() as stack:
        session = stack.enter_context(open_session(cli, read_only=True))
        ports = cleanup_ports(session, place)
        if dry_run:
            plans = plan_cleanups(ports, rules)
            return finish(cli, cleanup_report(plans, planned_steps(plans), is_dry=True))
        require_held = held_cleanup(session, place, stack)
        plans = plan_cleanups(ports, rules)
        steps = list(clean_up(ports, rules, plans, require_held))
    return finish(cli, cleanup_report(plans, steps, is_dry=False))


@with_option_groups
def migrate(ctx: typer.Context, choice: MigrationChoice, dry_run: DryRun = False) -> int:
    """Copy all tags and their history from one store to another, and compare both afterwards.

    The source is only read. Given again after an interruption, the command copies what is left.

    Examples:

    \b
    kafkakit --profile prod registry migrate --from zookeeper --zk-addr zk1:2181 --to profile --dry-run
    """
    from kafkakit.cli.session import finish, open_session
    from kafkakit.registry.act.migrate import migrate as copy
    from kafkakit.registry.show.upkeep import migration_report

    cli = cli_context(ctx)
    choice.apply(cli)
    with open_session(cli, read_only=True) as session:
        source, target = choice.open(session)
        with cli.output.progress("copying tags") as bar:
            done = copy(source, target, bar, merge=choice.merge, dry_run=dry_run)
    stores, contents = (choice.source, choice.target), (done.source, done.target)
    return finish(cli, migration_report(stores, done.plan, contents, done.histories, is_done=done.is_done))
