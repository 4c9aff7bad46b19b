"""`kafkakit config plan|diff`: what would change, and what differs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.session import finish, open_session
from kafkakit.rollout.commands.options import ChangeOptions, side_of
from kafkakit.rollout.decide.steps import StepSize

Side = Annotated[
    str,
    typer.Argument(
        help="live (the cluster in use), profile:NAME, time:2026-11-24T01:30:00Z (as journals of this host tell), or a "
        "file or folder that lint reads."
    ),
]
ExitCodeOption = Annotated[bool, typer.Option("--exit-code", help="Exit 3 when there is a difference.")]


@with_option_groups
def plan(
    ctx: typer.Context,
    change: ChangeOptions,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Values to set.", show_default=False)
    ] = None,
    steps: Annotated[
        StepSize,
        typer.Option(
            "--steps", help="grow: one, its rack, the others; each: one by one; rack: rack by rack; all: at once."
        ),
    ] = StepSize.GROW,
    plan: Annotated[Path | None, typer.Option("--plan", help="Write the plan for `config apply` to this file.")] = None,
    exit_code: ExitCodeOption = False,
) -> int:
    """Show what a change of configuration would do: values before and after, steps, restarts, findings of lint.

    Nothing is written to the cluster. Restarts of brokers are always one at a time.

    Examples:

    \b
    kafkakit --profile prod config plan retention.ms=86400000 --topics orders --plan change.json
    kafkakit --profile prod config plan log.retention.ms=86400000 --cluster-default --plan change.json
    kafkakit --profile prod config plan --file clusters/prod.yaml --plan change.json
    kafkakit --profile prod config plan --finding KKR201 --plan change.json
    """
    from kafkakit.rollout.act.planning import plan_change
    from kafkakit.rollout.decide.plan import encode_config_plan
    from kafkakit.rollout.show.plan import plan_report
    from kafkakit.wiring import system_clock, write_file

    cli = cli_context(ctx)
    task = change.task(cli, system_clock(), values or [], steps)
    with open_session(cli, read_only=True) as session:
        cli.cluster_id = session.cluster_id
        made = plan_change(task, session.admin, session.clock, lambda: change.tags.read(session))
    notes = []
    if plan is not None:
        write_file(plan, encode_config_plan(made))
        notes.append(f"wrote {plan}; carry it out with: {cli.program} config apply {plan}")
    return finish(cli, plan_report(made, "config plan", fail_on_changes=exit_code, notes=notes))


def diff(ctx: typer.Context, a: Side, b: Side, exit_code: ExitCodeOption = False) -> int:
    """Show the settings that differ between clusters, files and times.

    Of a file only the resources that it names are compared. A time is what is set now without what journals of this
    host have written since.

    Examples:

    \b
    kafkakit --profile prod config diff live profile:staging
    kafkakit --profile prod config diff clusters/prod.yaml live
    kafkakit --profile prod config diff time:2026-11-24T01:30:00Z live
    """
    from kafkakit.rollout.decide.difference import difference
    from kafkakit.rollout.show.plan import diff_report

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        one, other = side_of(cli, session, a), side_of(cli, session, b)
    return finish(cli, diff_report(one.name, other.name, difference(one, other), exit_code=exit_code))
