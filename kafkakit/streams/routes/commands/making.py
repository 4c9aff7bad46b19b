"""`kafkakit streams create`, `link` and `delete`."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.cluster_words import TOPIC_NAME
from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Consent
from kafkakit.cli.session import finish
from kafkakit.streams.routes.commands.lane_options import LaneNames, TopicShape
from kafkakit.streams.routes.commands.stream_options import ClusterChoice, StreamName, open_streams
from kafkakit.streams.routes.commands.topic_creation import create_lanes


@with_option_groups
def create(
    ctx: typer.Context, stream: StreamName, where: ClusterChoice, lanes: LaneNames, shape: TopicShape, consent: Consent
) -> int:
    """Create a stream: a topic for each lane, and the route that clients follow.

    Topics are named STREAM.LANE.EPOCH and placed as topicmappr places new topics: evenly over brokers, in
    different racks. Each is verified; then the route is written to the control store of the profile in use.
    A run that was cut leaves empty topics, which the same command adopts; topics with records or other settings are
    refused.

    Examples:

    \b
    kafkakit --profile prod streams create orders --partitions 12,dlq=3 --retention 7d,dlq=30d
    kafkakit --profile prod streams create orders --cluster prod-b --lanes live,dlq --dry-run
    """
    from kafkakit.core.errors import UsageError
    from kafkakit.streams.model.route import check_stream, refuse_reserved
    from kafkakit.streams.model.route_edits import new_route, with_quotas
    from kafkakit.streams.routes.decide.new_topics import quotas_of

    cli, profile, names = cli_context(ctx), where.profile(cli_context(ctx)), lanes.names
    refuse_reserved(check_stream(stream))
    rates = quotas_of(shape.shapes(names))
    consent.require_possible(cli)
    with open_streams(cli, read_only=consent.dry_run) as streams:
        if streams.routes.read(stream) is not None:
            raise UsageError(f"stream {stream} exists already", hint=f"kafkakit streams show {stream}")
        streams.warn_of_default_store()
        what = f"create with lanes {', '.join(names)}"
        return create_lanes(
            ctx,
            "streams create",
            stream,
            names,
            shape,
            profile,
            streams,
            consent,
            lambda segments: streams.change_or_create(
                stream, None, lambda _: with_quotas(new_route(stream, segments), rates), what
            ),
        )


@with_option_groups
def link(
    ctx: typer.Context,
    stream: StreamName,
    topic: Annotated[str, typer.Option("--topic", **TOPIC_NAME, help="The topic, which exists.")],
    where: ClusterChoice,
    consent: Consent,
    lane: Annotated[str, typer.Option("--lane", metavar="LANE", help="The lane that it becomes a part of.")] = "live",
) -> int:
    """Make an existing topic a part of a stream; a stream that does not exist is created with this lane.

    The topic is not changed. Of a new lane it is the active segment. Beside an active segment it is opened: consumers
    read it, and nothing is written to it until it becomes active.

    Examples:

    \b
    kafkakit --profile prod streams link payments --topic payments-v2
    kafkakit --profile prod streams link orders --lane slow --topic orders-backfill --cluster prod-b --yes
    """
    from kafkakit.report.report import cluster_words
    from kafkakit.streams.model.route import check_lane, check_stream, refuse_reserved
    from kafkakit.streams.model.route_edits import missing_quotas, with_topic
    from kafkakit.streams.routes.act.topics import existing_topic, refuse_shared
    from kafkakit.streams.routes.show.routes import changed_report

    cli, profile = cli_context(ctx), where.profile(cli_context(ctx))
    refuse_reserved(check_stream(stream))
    check_lane(lane)
    consent.require_possible(cli)
    with open_streams(cli, read_only=True) as streams:
        admin = streams.cluster(profile).admin
        segment = existing_topic(admin, profile, admin.cluster().cluster_id, topic)
        refuse_shared(segment, streams.chosen(None))
        found = streams.routes.read(stream)
        before = None if found is None else found.route
        with_topic(stream, before, lane, segment)
        place = cluster_words(segment.cluster_id, profile)
        question = f"Make topic {topic} of {place} a part of stream {stream}, lane {lane}?"
        route = None
        if not consent.dry_run and consent.confirm(cli, question):
            streams.warn_of_default_store()
            what = f"link topic {topic} of {profile} to lane {lane}"
            route = streams.change_or_create(stream, before, lambda now: with_topic(stream, now, lane, segment), what)
            streams.warn(missing_quotas(before, route, lane))
    said = f"topic {topic} of {profile} is in lane {lane}"
    return finish(cli, changed_report("streams link", stream, route, before, said))


@with_option_groups
def delete(
    ctx: typer.Context,
    stream: StreamName,
    consent: Consent,
    topics: Annotated[bool, typer.Option("--topics", help="Delete the topics with all their records, too.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Delete topics although groups read them.")] = False,
) -> int:
    """Delete a stream: its route, quotas of its lanes, and with --topics its topics. The history of the route stays.

    With --topics groups that hold partitions of a topic or have commits for it (Kafka forgets those of an empty group
    after offsets.retention.minutes) are listed and block the deletion. A topic is deleted if it has the id that the
    route names; one that was created again is kept. Type the stream's name to confirm.

    Examples:

    \b
    kafkakit --profile prod streams delete orders
    kafkakit --profile prod streams delete orders --topics --dry-run
    """
    from functools import partial

    from kafkakit.streams.model.route_edits import refuse_open_operation
    from kafkakit.streams.routes.act.deletion import delete_topics, kept_topics, refuse_read
    from kafkakit.streams.routes.act.quotas import remove_quotas
    from kafkakit.streams.routes.show.topics import deleted_report

    cli = cli_context(ctx)
    consent.require_possible(cli)
    with open_streams(cli, read_only=consent.dry_run) as streams:
        route = streams.existing(stream)
        refuse_open_operation(route)
        results = kept_topics(route, "to be deleted" if topics else "stays")
        if topics and not force:
            refuse_read(route, streams.observer)
        question = f"Delete stream {stream}{' with all records of its topics' if topics else ''}?"
        is_done = not consent.dry_run and (consent.yes or cli.output.ask_typed(question, stream))
        if is_done and topics:
            results = delete_topics(lambda profile: streams.claim(profile, "streams delete").admin, route)
        if is_done:
            streams.routes.delete(stream, route, by=streams.by, what="delete", at_ms=streams.now_ms)
            streams.warn(remove_quotas(partial(streams.claim, command="streams delete"), stream, route.lanes))
    return finish(cli, deleted_report(route, results, is_done=is_done))
