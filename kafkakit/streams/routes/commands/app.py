"""`kafkakit streams create`, `link`, `delete`, `list`, `show`, `history`, `topology`, `resolve`, `lane` and `pathway`.

They make streams and their lanes, and show what routes say and what is behind them. `lane quota`, `lane pause` and
`lane resume` change a lane and keep its topics. `pathway` prints latencies out of the headers of records.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafkakit.cli import session
from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.completion import TOPIC_NAME
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Consent
from kafkakit.cli.session import finish
from kafkakit.core.errors import UsageError
from kafkakit.core.text import shell_command
from kafkakit.streams.routes.commands.options import (
    ClusterChoice,
    LaneName,
    LaneNames,
    PathwayOptions,
    ResolveFormat,
    StreamName,
    TopicShape,
    create_lanes,
    open_streams,
)


def list_streams(ctx: typer.Context) -> int:
    """List the streams of the control store; exits 1 when a route cannot be read.

    Examples:

    \b
    kafkakit --profile prod streams list
    """
    from kafkakit.streams.routes.report import list_report

    cli = cli_context(ctx)
    with open_streams(cli, read_only=True) as streams:
        found = streams.all()
    return finish(cli, list_report(found))


def show(ctx: typer.Context, stream: StreamName) -> int:
    """Show a stream: its lanes, the state of each topic, and the groups that read them.

    Looks at every cluster of the stream. A topic that is gone, was recreated under another id, or whose cluster cannot
    be reached is reported; then the command exits 1.

    Examples:

    \b
    kafkakit --profile prod streams show orders
    kafkakit --profile prod streams show orders -o json
    """
    from kafkakit.streams.routes.report import show_report

    cli = cli_context(ctx)
    with open_streams(cli, read_only=True) as streams:
        route = streams.existing(stream)
        facts = streams.observer.look(route)
    return finish(cli, show_report(route, facts))


def history(ctx: typer.Context, stream: StreamName) -> int:
    """Show the changes of a stream: epoch, time, who made it and what it was. Works for a deleted stream as well.

    Examples:

    \b
    kafkakit --profile prod streams history orders
    kafkakit --profile prod streams history orders -o json
    """
    from kafkakit.streams.routes.report import history_report

    cli = cli_context(ctx)
    with open_streams(cli, read_only=True) as streams:
        kept = streams.routes.history(stream)
        if not kept:
            streams.existing(stream)
    return finish(cli, history_report(stream, kept))


@with_option_groups
def topology(
    ctx: typer.Context,
    seen: PathwayOptions,
    streams: Annotated[
        list[str] | None, typer.Argument(metavar="[STREAM]...", help="Only these streams.", show_default=False)
    ] = None,
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="Print a Mermaid flow chart in place of the table.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Also write a page with the picture and the table to this file."),
    ] = None,
) -> int:
    """Show the graph of streams: lanes, topics, clusters, and the groups that read them.

    With --pathways, also edges between streams: the newest records of each topic are read, and the hashes in their
    pathway headers prove which service read one stream and wrote another. A hash cannot be taken apart, so a service is
    found only if it is named, or if its group has its name.

    Examples:

    \b
    kafkakit --profile prod streams topology
    kafkakit --profile prod streams topology --pathways --service checkout --service billing --env prod
    kafkakit --profile prod streams topology orders payments --mermaid --output-file streams.mmd
    kafkakit --profile prod streams topology --html streams.html
    """
    from kafkakit.streams.routes.topology import picture_source, topology_page, topology_report
    from kafkakit.wiring import draw_graph, write_file

    cli = cli_context(ctx)
    with open_streams(cli, read_only=True) as opened:
        observed = opened.observer.look_at(opened.chosen(streams))
        edges, problems = seen.look(opened, observed)
    if html is not None:
        drawing = draw_graph(picture_source(observed, edges))
        write_file(html, topology_page(observed, edges, drawing))
        cli.output.say(f"page: {html}")
    return finish(cli, topology_report(observed, edges, problems, as_mermaid=mermaid))


def resolve(
    ctx: typer.Context,
    stream: StreamName,
    lane: Annotated[
        str | None, typer.Option("--lane", metavar="LANE", help="Only this lane.", show_default=False)
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="PROFILE",
            help="With -o librdkafka, java or spring: the cluster to read, if the stream is on several.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        ResolveFormat | None,
        typer.Option(
            "-o",
            "--output",
            envvar="KAFKAKIT_OUTPUT",
            help="Format of the result; text when not given. librdkafka, java and spring: settings of a consumer.",
        ),
    ] = None,
) -> int:
    """Print the addresses and topics of a stream for clients that do not follow routes, as Java properties.

    Addresses come from the profiles that the route names; each is checked to reach the right cluster, if it answers.
    Passwords are not printed: what stands for one names the file or the variable that the profile has it from. What
    such clients cannot do goes to stderr. With -o librdkafka, java or spring (application.yml) they are the settings of
    a consumer of all lanes but dlq; restart it with new ones after each change of the route.

    Examples:

    \b
    kafkakit --profile prod streams resolve orders --lane live > orders.properties
    kafkakit --profile prod streams resolve orders -o librdkafka > kcat.conf
    kafkakit --profile prod streams resolve orders -o spring --cluster east > application.yml
    """
    from kafkakit.cli.output import OutputFormat
    from kafkakit.streams.model.route_edits import existing_lane
    from kafkakit.streams.routes.act.clusters import resolve_clusters
    from kafkakit.streams.routes.report import CLIENTS, consumer_report, read_topics, resolve_report

    cli = cli_context(ctx)
    is_settings = output is not None and output.value in CLIENTS
    if cluster is not None and not is_settings:
        raise UsageError("--cluster requires -o librdkafka, java or spring")
    if output is not None:
        cli.take("output", OutputFormat.TEXT.value if is_settings else output.value, "flag -o")
    with open_streams(cli, read_only=True) as streams:
        route = streams.existing(stream)
        lanes = route.lanes if lane is None else (existing_lane(route, lane),)
        profile, topics = read_topics(route, lanes, cluster) if is_settings else ("", ())
        clusters, warnings = resolve_clusters(lanes, streams.address)
        report = resolve_report(route, lanes, clusters, warnings)
        if is_settings and output is not None:
            report = consumer_report(report, route, topics, streams.access(profile), output.value)
    return finish(cli, report)


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
    from kafkakit.streams.routes.decide import quotas_of

    cli, profile, names = cli_context(ctx), where.profile(cli_context(ctx)), lanes.names
    refuse_reserved(check_stream(stream))
    rates = quotas_of(shape.shapes(names))
    with open_streams(cli, read_only=consent.dry_run) as streams:
        if streams.routes.read(stream) is not None:
            raise UsageError(f"stream {stream} exists already", hint=str(shell_command("streams show", stream)))
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
    read it, and nothing is written to it until it becomes active. If the lane's topic was deleted and created again
    under its name, the new one takes its place.

    Examples:

    \b
    kafkakit --profile prod streams link payments --topic payments-v2
    kafkakit --profile prod streams link orders --lane slow --topic orders-backfill --cluster prod-b --yes
    """
    from kafkakit.report.report import cluster_words
    from kafkakit.streams.model.route import check_lane, check_stream, refuse_reserved
    from kafkakit.streams.model.route_edits import missing_quotas, replaced_segment, with_topic
    from kafkakit.streams.routes.act.clusters import existing_topic, refuse_shared
    from kafkakit.streams.routes.report import changed_report

    cli, profile = cli_context(ctx), where.profile(cli_context(ctx))
    refuse_reserved(check_stream(stream))
    check_lane(lane)
    with open_streams(cli, read_only=True) as streams:
        admin = streams.cluster(profile).admin
        segment = existing_topic(admin, profile, admin.cluster().cluster_id, topic)
        refuse_shared(segment, streams.chosen(None))
        found = streams.routes.read(stream)
        before = None if found is None else found.route
        with_topic(stream, before, lane, segment)
        place = cluster_words(segment.cluster_id, profile)
        question = f"Make topic {topic} of {place} a part of stream {stream}, lane {lane}?"
        old = None if before is None else replaced_segment(before, lane, segment)
        if old is not None:
            cli.output.say(
                f"segment {old.id} leaves the stream: its topic {topic} ({old.topic_id}) was deleted, and another one "
                f"({segment.topic_id}) has its name now and takes its place; what was not read of it is lost"
            )
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
    topics: Annotated[bool, typer.Option("--topics", help="Also delete the topics with all their records.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Delete topics although groups read them.")] = False,
) -> int:
    """Delete a stream: its route, quotas of its lanes, and with --topics its topics. The history of the route stays.

    With --topics groups that hold partitions of a topic or have commits for it (Kafka forgets an empty group's commits
    after offsets.retention.minutes) are listed and block the deletion. A topic is deleted if it has the id that the
    route names; one that was created again is kept. Type the stream's name to confirm.

    Examples:

    \b
    kafkakit --profile prod streams delete orders
    kafkakit --profile prod streams delete orders --topics --dry-run
    """
    from functools import partial

    from kafkakit.streams.model.route_edits import refuse_open_operation
    from kafkakit.streams.routes.act.clusters import delete_topics, kept_topics, refuse_read, remove_quotas
    from kafkakit.streams.routes.report import deleted_report

    cli = cli_context(ctx)
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
    a producer's user overrides one on its client id.

    Examples:

    \b
    kafkakit --profile prod streams lane quota orders backfill 5MB/s --yes
    kafkakit --profile prod streams lane quota orders backfill none
    """
    from functools import partial

    from kafkakit.core.quantities import format_rate, parse_rate
    from kafkakit.streams.model.route_edits import existing_lane, refuse_open_operation, with_quotas
    from kafkakit.streams.routes.act.clusters import limit_lane
    from kafkakit.streams.routes.report import changed_report

    cli, route, value = cli_context(ctx), None, None if rate == "none" else parse_rate(rate)
    words = "no quota" if value is None else f"a quota of {format_rate(value)} a broker"
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

    from kafkakit.streams.model.route_edits import pause_lane
    from kafkakit.streams.routes.report import changed_report

    cli, route = cli_context(ctx), None
    verb = "pause" if is_paused else "resume"
    with open_streams(cli, read_only=True) as streams:
        before = streams.existing(stream)
        edit = partial(pause_lane, name=lane, is_paused=is_paused)
        edit(before)
        if not consent.dry_run and consent.confirm(cli, f"{verb.capitalize()} lane {lane} of stream {stream}?"):
            route = streams.change(stream, edit, f"{verb} lane {lane}")
    said = f"lane {lane} is {'paused' if is_paused else 'not paused'}" if route else f"lane {lane} would be {verb}d"
    return finish(cli, changed_report(f"streams lane {verb}", stream, route, before, said))


app = new_group("Add, remove, limit, pause and list the lanes of a stream.")
app.command("quota", cls=CliCommand, short_help="Set or remove the quota of a lane.")(quota)
app.command("pause", cls=CliCommand, short_help="Pause a lane; its clients wait.")(pause)
app.command("resume", cls=CliCommand, short_help="Resume a paused lane.")(resume)


@app.command("list", cls=CliCommand, short_help="List the lanes of a stream.")
def list_lanes(ctx: typer.Context, stream: StreamName) -> int:
    """List the lanes of a stream, with the topic that each is written to.

    Examples:

    \b
    kafkakit --profile prod streams lane list orders
    """
    from kafkakit.streams.routes.report import lanes_report

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
    from kafkakit.streams.routes.decide import quotas_of

    cli, profile = cli_context(ctx), where.profile(cli_context(ctx))
    check_lane(lane)
    rates = quotas_of(shape.shapes((lane,)))
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

    Every group that reads the stream must have read the lane to its end. Pause the lane first: records that are written
    after the check are not seen.

    Examples:

    \b
    kafkakit --profile prod streams lane pause orders bulk --yes
    kafkakit --profile prod streams lane remove orders bulk
    """
    from functools import partial

    from kafkakit.streams.model.route_edits import existing_lane, without_lane
    from kafkakit.streams.routes.act.clusters import refuse_unread, remove_quotas
    from kafkakit.streams.routes.report import changed_report

    cli, route = cli_context(ctx), None
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


MOST_RECORDS = 1_000_000


def pathway(
    ctx: typer.Context,
    topics: Annotated[list[str], typer.Argument(**TOPIC_NAME, help="The topics to read.", show_default=False)],
    records: Annotated[
        int,
        typer.Option(
            "--records",
            metavar="N",
            min=1,
            max=MOST_RECORDS,
            help="Read the newest N of each topic, spread evenly over its partitions.",
        ),
    ] = 10_000,
    since: Annotated[
        str, typer.Option("--since", metavar="DURATION", help="Of these, only records that are at most this old.")
    ] = "",
    max_latency: Annotated[
        str,
        typer.Option("--max-latency", metavar="DURATION", help="Exit 1 when the p99 of a pathway is above this."),
    ] = "",
) -> None:
    """Show how long records were under way, from the pathway headers of Data Streams Monitoring.

    The header dd-pathway-ctx-base64 holds the pathway's hash, when it began, and when its last checkpoint was, before
    the record was produced. `pathway` is the time from the first to the last of these, `edge` the time from the last to
    the record's own time: the broker's clock with LogAppendTime, else the producer's. Quantiles are within 0.8 %, the
    highest is exact. The hash names all services and topics passed so far and cannot be taken apart.

    Records not consumed downstream have no latency there, so a stopped consumer makes these figures better: watch its
    time lag as well (streams lag). Reads only, and joins no group. Records of aborted transactions do not count. Exits
    1 when no record has such a header, 75 when a partition cannot be read now.

    Examples:

    \b
    kafkakit --profile prod streams pathway payments invoices
    kafkakit --profile prod streams pathway payments --records 100000 --since 15m -o json
    kafkakit --profile prod streams pathway payments --since 5m --max-latency 30s
    """
    from kafkakit.core.quantities import parse_duration
    from kafkakit.streams.records.api_act import RecordReader
    from kafkakit.streams.routes.act.clusters import read_pathways
    from kafkakit.streams.routes.pathways import SampleRequest, pathways_report

    cli = cli_context(ctx)
    request = SampleRequest(
        topics=tuple(dict.fromkeys(topics)),
        records=records,
        since_s=parse_duration(since, "--since") if since else None,
    )
    limit_s = parse_duration(max_latency, "--max-latency") if max_latency else None
    with session.open_session(cli, read_only=True) as opened:
        reader = RecordReader(opened.log, opened.data, opened.clock, wait_s=opened.settings.request_timeout_s)
        sample = read_pathways(opened.log, reader, opened.clock, request)
        cluster_id = opened.log.cluster_id()
    session.finish(cli, pathways_report(sample, cluster_id, limit_s))
