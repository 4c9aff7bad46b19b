"""What `streams create` and `streams lane add` share: topics are planned, confirmed, created and verified."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.session import finish

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkakit.cli.run_options import Consent
    from kafkakit.streams.model.route import Route, Segment
    from kafkakit.streams.routes.commands.lane_options import TopicShape
    from kafkakit.streams.routes.commands.stream_options import StreamSession

    Write = Callable[[Sequence[tuple[str, Segment]]], Route]


def create_lanes(
    ctx: typer.Context,
    command: str,
    stream: str,
    lanes: tuple[str, ...],
    shape: TopicShape,
    profile: str,
    streams: StreamSession,
    consent: Consent,
    write: Write,
) -> int:
    """Make topics and quotas of new lanes on a profile's cluster, the route by `write`, and end with the report."""
    from functools import partial

    from kafkakit.core.quantities import counted
    from kafkakit.report.report import cluster_words
    from kafkakit.streams.routes.act.quotas import set_quotas
    from kafkakit.streams.routes.act.topics import create_topics, plan_on
    from kafkakit.streams.routes.decide.new_topics import leftovers, quotas_of
    from kafkakit.streams.routes.show.topics import created_report, plan_lines
    from kafkakit.topicmappr.api import tags_needed

    cli, shapes, scope = cli_context(ctx), shape.shapes(lanes), shape.scope
    epoch = streams.routes.planned_epoch(stream)
    access = streams.claim(profile, command)
    snapshot = streams.snapshot(profile, tags_needed(scope))
    planned = plan_on(snapshot, streams.cluster(profile).log, stream, epoch, shapes, scope)
    left = leftovers(snapshot, stream, planned)
    report = partial(created_report, command, stream, access.cluster_id, profile, planned, left)
    if consent.dry_run:
        return finish(cli, report(None))
    if not consent.yes:  # the report has the table, too
        cli.output.say("\n".join(plan_lines(planned, left)))
    place = cluster_words(access.cluster_id, profile)
    if not consent.confirm(cli, f"Create {counted(len(planned), 'topic')} for stream {stream} on {place}?"):
        return finish(cli, report(None))
    segments = create_topics(access.admin, access.clock, profile, access.cluster_id, planned)
    if rates := quotas_of(shapes):
        set_quotas(access, stream, rates)
    route = write(segments)
    return finish(cli, report(route))
