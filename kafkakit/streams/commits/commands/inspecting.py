"""The inspector of one command's session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.session import ClusterSession, open_session

if TYPE_CHECKING:
    from kafkakit.streams.commits.act.reading import Inspector


def inspector_of(ctx: typer.Context, opened: ClusterSession, also: list[str] | None = None) -> Inspector:
    """A reader of the session's cluster; the clusters of the profiles in `also` are opened only when one is needed."""
    from kafkakit.streams.commits.act.reading import Inspector, known_elsewhere

    cli = cli_context(ctx)
    return Inspector(
        opened.groups,
        opened.log,
        opened.admin,
        opened.clock,
        lambda: known_elsewhere(
            open_session(cli, read_only=True, settings=cli.load_settings(profile)) for profile in also or ()
        ),
        cli.program,
    )
