"""`kafkakit streams commits verify|limits`: many groups at once."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli import session
from kafkakit.cli.command_classes import cli_context
from kafkakit.core.findings import FailOn
from kafkakit.streams.commits.commands import options
from kafkakit.streams.commits.commands.inspecting import inspector_of

All = Annotated[bool, typer.Option("--all", help="All groups of the cluster.")]


def verify(
    ctx: typer.Context,
    groups: options.Groups = None,
    all_groups: All = False,
    max_age: Annotated[
        str | None,
        typer.Option(
            "--max-age",
            metavar="DURATION",
            help="Report groups whose oldest pending record is older than this. Reads one record a partition.",
            show_default=False,
        ),
    ] = None,
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="Exit 1 for findings of this severity or worse.")
    ] = FailOn.WARNING,
) -> int:
    """Check commits for everything that loses or repeats records: for CI and cron.

    Finds payloads that belong to another commit or cannot be read, maps that a copy shifted, commits outside their
    log, payloads near the limit, wrong clocks. Reads only. Exits 0 without findings of --fail-on or worse, 1 with
    some, 75 when the cluster cannot be reached.

    Examples:

    \b
    kafkakit --profile prod streams commits verify --all --max-age 1h
    kafkakit --profile prod streams commits verify payments billing -o json
    """
    from kafkakit.core.durations import parse_duration
    from kafkakit.streams.commits.show.findings import findings_report

    cli = cli_context(ctx)
    max_age_s = None if max_age is None else parse_duration(max_age, "--max-age")
    with session.open_session(cli, read_only=True) as opened:
        inspector = inspector_of(ctx, opened)
        names = inspector.chosen_names(groups or [], all_groups=all_groups)
        looks = inspector.look_at(names, dates=max_age_s is not None)
        limits = inspector.limits()
    return session.finish(cli, findings_report(looks, limits, inspector.cluster_id, max_age_s, fail_on))


def limits(ctx: typer.Context, groups: options.Groups = None) -> None:
    """Show the brokers' limit of commit metadata, and how much of it each group uses, the highest use first.

    The limit is offset.metadata.max.bytes, which counts characters (UTF-16 units), not bytes; a group's commits go
    through its coordinator, so the lowest limit of all brokers applies. All groups if none is named. Reads only.

    Examples:

    \b
    kafkakit --profile prod streams commits limits
    kafkakit --profile prod streams commits limits payments -o tsv
    """
    from kafkakit.streams.commits.show.limits_text import limits_report

    cli = cli_context(ctx)
    with session.open_session(cli, read_only=True) as opened:
        inspector = inspector_of(ctx, opened)
        found = inspector.limits()
        looks = inspector.commits_of(inspector.chosen_names(groups or [], all_groups=not groups))
    session.finish(cli, limits_report(found, inspector.cluster_id, looks, is_named=bool(groups)))
