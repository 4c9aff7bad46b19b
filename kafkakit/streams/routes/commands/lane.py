"""`kafkakit streams lane`: the lanes of a stream."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Consent
from kafkakit.cli.session import finish
from kafkakit.streams.routes.commands import lane_state
from kafkakit.streams.routes.commands.lane_options import TopicShape
from kafkakit.streams.routes.commands.stream_options import ClusterChoice, LaneName, StreamName, open_streams
from kafkakit.streams.routes.commands.topic_creation import create_lanes

app = new_group("Add, remove, limit, pause and list the lanes of a stream.")
app.command("quota", cls=CliCommand, short_help="Set or remove the quota of a lane.")(lane_state.quota)
app.command("pause", cls=CliCommand, short_help="Pause a lane; its clients wait.")(lane_state.pause)
app.command("resume", cls=CliCommand, short_help="Resume a paused lane.")(lane_state.resume)


@app.command("list", cls=CliCommand, short_help="List the lanes of a stream.")
def list_lanes(ctx: typer.Context, stream: StreamName) -> int:
    """List the lanes of a stream, with the topic that each is written to.

    Examples:

    \b
    kafkakit --profile prod streams lane list orders
    """
    from kafkakit.streams.routes.show.routes import lanes_report

    cli = cli_context(ctx)
    with open_streams(cli, read_only=True) as streams:
        route = streams.existing(stream)
    return finish(cli, lanes_report(route))


@app.command("add", cls=CliCommand, short_help="Add a lane with a topic of its own.")
@with_option_groups
def add(
    ctx: typer.Context,
    stream: StreamName,
    lane: LaneName,
    where: ClusterChoice,
    shape: TopicShape,
    consent: Consent,
    weight: Annotated[
        int, typer.Option("--weight", min=1, max=1000, metavar="N", help="The lane's share of a consumer's work.")
    ] = 1,
) -> int:
    """Add a lane to a stream, with a topic of its own.

    The topic is placed, verified and adopted as by `streams create`. --quota limits what each broker takes from all
    producers of the lane together.

    Examples:

    \b
    kafkakit --profile prod streams lane add orders bulk --partitions 24 --retention 2d --weight 1 --yes
    kafkakit --profile prod streams lane add orders backfill --quota 5MB/s
    """
    from kafkakit.streams.model.route import check_lane
    from kafkakit.streams.model.route_edits import refuse_known_lane, refuse_open_operation, with_lane, with_quotas
    from kafkakit.streams.routes.decide.new_topics import quotas_of

    cli, profile = cli_context(ctx), where.profile(cli_context(ctx))
    check_lane(lane)
    rates = quotas_of(shape.shapes((lane,)))
    consent.require_possible(cli)
    with open_streams(cli, read_only=consent.dry_run) as streams:
        before = streams.existing(stream)
        refuse_open_operation(before)
        refuse_known_lane(before, lane)
        return create_lanes(
            ctx,
            "streams lane add",
            stream,
            (lane,),
            shape,
            profile,
            streams,
            consent,
            lambda made: streams.change(
                stream,
                lambda route: with_quotas(with_lane(route, lane, made[0][1], weight), rates),
                f"add lane {lane}",
            ),
        )


@app.command("remove", cls=CliCommand, short_help="Take a lane out of a stream; its topics stay.")
@with_option_groups
def remove(
    ctx: typer.Context,
    stream: StreamName,
    lane: LaneName,
    consent: Consent,
    force: Annotated[bool, typer.Option("--force", help="Remove it although it may hold unread records.")] = False,
) -> int:
    """Take a lane out of a stream. Its topics stay, its quota goes, and clients stop reading and writing it.

    Every group that reads the stream must have read the lane to its end. Pause the lane first: records that are
    written after the look are not seen.

    Examples:

    \b
    kafkakit --profile prod streams lane pause orders bulk --yes
    kafkakit --profile prod streams lane remove orders bulk
    """
    from functools import partial

    from kafkakit.streams.model.route_edits import existing_lane, without_lane
    from kafkakit.streams.routes.act.deletion import refuse_unread
    from kafkakit.streams.routes.act.quotas import remove_quotas
    from kafkakit.streams.routes.show.routes import changed_report

    cli, route = cli_context(ctx), None
    consent.require_possible(cli)
    with open_streams(cli, read_only=consent.dry_run) as streams:
        before = streams.existing(stream)
        without_lane(before, lane)
        if not force:
            refuse_unread(before, lane, streams.observer)
        if not consent.dry_run and consent.confirm(cli, f"Take lane {lane} out of stream {stream}?"):
            route = streams.change(stream, partial(without_lane, name=lane), f"remove lane {lane}")
            claim = partial(streams.claim, command="streams lane remove")
            streams.warn(remove_quotas(claim, stream, (existing_lane(before, lane),)))
    return finish(cli, changed_report("streams lane remove", stream, route, before, f"lane {lane} removed"))
