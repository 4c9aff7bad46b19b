"""`kafkakit streams lag share-groups`."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context


def share_groups(
    ctx: typer.Context,
    groups: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[GROUP]...", help="Only these groups; names or globs in quotes ('orders-*').", show_default=False
        ),
    ] = None,
) -> None:
    """Show the lag of share groups, as their coordinators know it.

    Members of a share group take single records, and brokers keep what each did; nothing is committed to the offsets
    topic, so the other commands do not show these groups. Lag counts records that are not done. Time lag is not known.

    Examples:

    \b
    kafkakit --profile prod streams lag share-groups
    kafkakit --profile prod streams lag share-groups 'orders-*' -o json
    """
    from kafkakit.cli.session import finish, open_session
    from kafkakit.core.group_facts import GroupType
    from kafkakit.streams.lag.decide.views.selecting import matches
    from kafkakit.streams.lag.show.share_groups import share_group_report

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        cli.cluster_id = session.cluster_id
        listed = [g for g in session.groups.groups() if g.type is GroupType.SHARE and matches(g.group, groups or ())]
        found = session.groups.share_offsets([g.group for g in listed])
    finish(cli, share_group_report({g.group: g.state for g in listed}, found))
