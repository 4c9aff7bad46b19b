"""`kafkakit streams lane rules`: which lane takes which records."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Consent
from kafkakit.cli.session import finish, open_session
from kafkakit.streams.lanes.commands import options


@with_option_groups
def rules(
    ctx: typer.Context,
    *,
    stream: options.Stream,
    file: Annotated[
        str, typer.Argument(metavar="[FILE]", help="The new rules, as a YAML file; none removes all; - for stdin.")
    ] = "",
    consent: Consent,
) -> int:
    """Print the rules of a stream, or replace them all.

    The file is a list of `lane: NAME` and `where: QUERY`; the first rule that matches a record decides, and no match is
    lane live. Producers follow the change without a restart; records that are written already stay where they are.
    `streams lane route` shows first what rules would do to records of now.

    Examples:

    \b
    kafkakit --profile prod streams lane rules orders
    kafkakit --profile prod streams lane rules orders rules.yaml --dry-run
    kafkakit --profile prod streams lane rules orders none --yes
    """
    from functools import partial

    from kafkakit.core.durations import epoch_ms
    from kafkakit.streams.lanes.decide.rule_file import LIMIT_BYTES, read_rules
    from kafkakit.streams.lanes.show.routing import rules_report
    from kafkakit.streams.model.route import with_rules
    from kafkakit.streams.routes.api_act import RouteStore

    cli = cli_context(ctx)
    if file:
        consent.require_possible(cli)
    with open_session(cli, read_only=True) as opened:
        routes = RouteStore(opened.control)
        before = route = routes.existing(stream).route
        if file:
            chosen = () if file == "none" else read_rules(opened.read_input(file, LIMIT_BYTES), file)
            edit = partial(with_rules, rules=chosen)
            route = edit(before)
            question = f"Replace the {len(before.rules)} rules of stream {stream} by {len(chosen)}?"
            if not consent.dry_run and route != before and consent.confirm(cli, question):
                route = routes.change(
                    stream,
                    edit,
                    by=opened.requester,
                    what=f"set {len(chosen)} rules",
                    at_ms=epoch_ms(opened.clock.now()),
                )
    return finish(cli, rules_report(before, route))
