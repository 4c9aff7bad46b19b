"""`kafkakit streams lane quota`, `pause` and `resume`: changes of a lane that keep its topics."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Consent
from kafkakit.cli.session import finish
from kafkakit.streams.routes.commands.stream_options import LaneName, StreamName, open_streams


@with_option_groups
def quota(
    ctx: typer.Context,
    stream: StreamName,
    lane: LaneName,
    rate: Annotated[str, typer.Argument(metavar="RATE", help="Bytes per second and broker (5MB/s), or none.")],
    consent: Consent,
) -> int:
    """Limit what each broker takes from all producers of a lane together.

    It is a client quota of Kafka on the client id kafkakit.STREAM.LANE, on every cluster of the lane. Brokers delay
    answers to keep it, each for itself: a lane with leaders on three brokers can take three times the rate. A quota on
    the user of a producer goes before one on its client id.

    Examples:

    \b
    kafkakit --profile prod streams lane quota orders backfill 5MB/s --yes
    kafkakit --profile prod streams lane quota orders backfill none
    """
    from functools import partial

    from kafkakit.core.quantities import format_rate, parse_rate
    from kafkakit.streams.model.route_edits import existing_lane, refuse_open_operation, with_quotas
    from kafkakit.streams.routes.act.quotas import limit_lane
    from kafkakit.streams.routes.show.routes import changed_report

    cli, route, value = cli_context(ctx), None, None if rate == "none" else parse_rate(rate)
    words = "no quota" if value is None else f"a quota of {format_rate(value)} a broker"
    consent.require_possible(cli)
    with open_streams(cli, read_only=consent.dry_run) as streams:
        before = streams.existing(stream)
        refuse_open_operation(before)
        found = existing_lane(before, lane)
        if not consent.dry_run and consent.confirm(cli, f"Give lane {lane} of stream {stream} {words}?"):
            limit_lane(partial(streams.claim, command="streams lane quota"), stream, found, value)
            route = streams.change(stream, partial(with_quotas, rates={lane: value}), f"lane {lane}: {words}")
    return finish(cli, changed_report("streams lane quota", stream, route, before, f"lane {lane} has {words}"))


@with_option_groups
def pause(ctx: typer.Context, stream: StreamName, lane: LaneName, consent: Consent) -> int:
    """Pause a lane: producers of its records wait, and consumers read none of them.

    Examples:

    \b
    kafkakit --profile prod streams lane pause orders slow --yes
    """
    return _pause(ctx, stream, lane, consent, is_paused=True)


@with_option_groups
def resume(ctx: typer.Context, stream: StreamName, lane: LaneName, consent: Consent) -> int:
    """Resume a paused lane.

    Examples:

    \b
    kafkakit --profile prod streams lane resume orders slow --yes
    """
    return _pause(ctx, stream, lane, consent, is_paused=False)


def _pause(ctx: typer.Context, stream: str, lane: str, consent: Consent, *, is_paused: bool) -> int:
    from functools import partial

    from kafkakit.streams.model.route_edits import paused
    from kafkakit.streams.routes.show.routes import changed_report

    cli, route = cli_context(ctx), None
    verb = "pause" if is_paused else "resume"
    consent.require_possible(cli)
    with open_streams(cli, read_only=True) as streams:
        before = streams.existing(stream)
        edit = partial(paused, name=lane, is_paused=is_paused)
        edit(before)
        if not consent.dry_run and consent.confirm(cli, f"{verb.capitalize()} lane {lane} of stream {stream}?"):
            route = streams.change(stream, edit, f"{verb} lane {lane}")
    said = f"lane {lane} is {'paused' if is_paused else 'not paused'}" if route else f"lane {lane} would be {verb}d"
    return finish(cli, changed_report(f"streams lane {verb}", stream, route, before, said))
