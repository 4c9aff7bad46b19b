"""`kafkakit streams lane route`: where sampled records would go."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli import session
from kafkakit.cli.command_classes import cli_context


def route(
    ctx: typer.Context,
    sample: Annotated[
        str,
        typer.Option("--sample", metavar="FILE", help="Records, one JSON object a line; - for stdin."),
    ],
    rules: Annotated[str, typer.Option("--rules", metavar="FILE", help="The rules, as a YAML file.")] = "",
    stream: Annotated[str, typer.Option("--stream", metavar="STREAM", help="The rules of this stream's route.")] = "",
) -> None:
    """Count which lane sampled records would go to, and which rule decides on each.

    Rules are those of a stream, or of a file: a list of `lane: NAME` and `where: QUERY`. The first that matches
    decides; no match is lane live. Queries see key, header.NAME, tenant (the header tenant), bytes and age_s, the
    record's age now. The sample has a JSON object a line, each a record as `streams records show -o json` prints it, or
    what that printed as it is. Reads only.

    Examples:

    \b
    kafkakit --profile prod streams records show payments/3@0 --count 1000 -o json > sample.json
    kafkakit --profile prod streams lane route --rules rules.yaml --sample sample.json
    kafkakit --profile prod streams lane route --stream orders --sample sample.json -o json
    """
    from kafkakit.core.durations import epoch_ms
    from kafkakit.core.errors import UsageError
    from kafkakit.streams.lanes.decide import rule_file, samples
    from kafkakit.streams.lanes.show.routing import routing_report
    from kafkakit.streams.routes.api_act import RouteStore

    if bool(rules) == bool(stream):
        raise UsageError("name the rules: --rules FILE or --stream STREAM")
    if rules == sample == "-":
        raise UsageError("only one of --rules and --sample can be stdin")
    cli = cli_context(ctx)
    with session.open_session(cli, read_only=True) as opened:
        if stream:
            chosen = RouteStore(opened.control).existing(stream).route.rules
        else:
            chosen = rule_file.read_rules(opened.read_input(rules, rule_file.LIMIT_BYTES), rules)
        records = samples.read_samples(opened.read_input(sample, samples.LIMIT_BYTES), sample)
        shares = samples.lane_shares(chosen, records, epoch_ms(opened.clock.now()))
    session.finish(cli, routing_report(shares, f"stream {stream}" if stream else rules))
