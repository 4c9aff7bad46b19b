"""What planning commands share: reading the cluster or a file, and the end of a plain request."""

from typing import TYPE_CHECKING, TypeVar

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.session import finish, open_session
from kafkakit.cli.tag_options import NO_TAGS, TagSource
from kafkakit.wiring import write_file, write_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafkakit.cli.session import ClusterSession
    from kafkakit.core.model import ClusterSnapshot
    from kafkakit.topicmappr.act.observation import Observed
    from kafkakit.topicmappr.act.places import ClusterSource, PlanDestination
    from kafkakit.topicmappr.decide.assembly import PlannedChange

R = TypeVar("R")


def observed(
    ctx: typer.Context, snapshot: "Path | None", request: R, tags: TagSource = NO_TAGS
) -> "tuple[ClusterSnapshot, R]":
    """The cluster now or the snapshot file, and the request with its queries answered on it."""
    from kafkakit.topicmappr.act.observation import observe

    cli = cli_context(ctx)
    if snapshot is None:
        cli.refuse_default_profile_beside_zookeeper()
    with open_session(cli, read_only=True) as session:
        state = _left_out(ctx, session, observe(session, snapshot), is_live=snapshot is None)
        return _answered(ctx, session, state, request, tags, is_live=snapshot is None)


def observed_storage(
    ctx: typer.Context,
    source: "ClusterSource",
    request: R,
    tags: TagSource = NO_TAGS,
    *,
    sound_lists: bool = True,
) -> "tuple[Observed, R]":
    """Read the cluster and what the request needs, with sizes from where they are wanted."""
    from dataclasses import replace

    from kafkakit.topicmappr.act.observation import observe_storage

    cli = cli_context(ctx)
    if source.snapshot is None:
        cli.refuse_default_profile_beside_zookeeper()
    with open_session(cli, read_only=True) as session:
        seen = observe_storage(session, source, sound_lists=sound_lists)
        is_live = source.snapshot is None
        state = _left_out(ctx, session, seen.snapshot, is_live=is_live)
        state, answer = _answered(ctx, session, state, request, tags, is_live=is_live)
        return replace(seen, snapshot=state), answer


def _answered(
    ctx: typer.Context,
    session: "ClusterSession",
    state: "ClusterSnapshot",
    request: R,
    tags: TagSource,
    *,
    is_live: bool,
) -> "tuple[ClusterSnapshot, R]":
    """The cluster with tags where the request looks at some, and the request on it; a file brings its own."""
    from dataclasses import replace

    from kafkakit.topicmappr.decide.selection import answered, tags_needed

    if is_live and tags_needed(request):
        state = replace(state, tags=tags.read(session))
    return state, answered(request, state)


def _left_out(
    ctx: typer.Context, session: "ClusterSession", snapshot: "ClusterSnapshot", *, is_live: bool
) -> "ClusterSnapshot":
    """The cluster with the brokers marked that operations empty; a file is taken as it is. Output names its id."""
    from kafkakit.broker.api_act import open_records, without_leaving

    cli, records = cli_context(ctx), None
    cli.cluster_id = snapshot.cluster_id
    if is_live:
        records = open_records(cli.settings.state_dir, snapshot.cluster_id, write_file, session.clock)
    return without_leaving(snapshot, records, cli.output, cli.program)


def plan_request(
    ctx: typer.Context,
    command: str,
    decide: "Callable[[ClusterSnapshot, R], PlannedChange]",
    request: R,
    output: "PlanDestination",
    snapshot: "Path | None",
    tags: TagSource = NO_TAGS,
) -> int:
    """Read the cluster or the file, decide, and end with the report."""
    from kafkakit.cli.search_watch import answered_at_once

    output.check(cli_context(ctx).require_replaceable)
    state, request = observed(ctx, snapshot, request, tags)
    with cli_context(ctx).output.progress("planning"), answered_at_once(None):
        change = decide(state, request)
    return end_request(ctx, command, change, output)


def end_request(ctx: typer.Context, command: str, change: "PlannedChange", output: "PlanDestination") -> int:
    """Write plan and page, and end with the report."""
    from kafkakit.topicmappr.act.saving import save_plan
    from kafkakit.topicmappr.show.planned_change import change_report

    cli = cli_context(ctx)
    return finish(
        cli,
        change_report(command, change, save_plan(change.plan, output, cli.program, write_files, cli.settings.profile)),
    )
