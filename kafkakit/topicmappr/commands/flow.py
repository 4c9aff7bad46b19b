"""What planning commands share: reading the cluster or a file, and the end of a plain request."""

from typing import TYPE_CHECKING

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.session import finish, open_session
from kafkakit.wiring import write_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafkakit.cli.session import ClusterSession
    from kafkakit.core.model import ClusterSnapshot
    from kafkakit.topicmappr.act.observation import Observed
    from kafkakit.topicmappr.act.places import ClusterSource, PlanDestination
    from kafkakit.topicmappr.decide.assembly import PlannedChange


def observed(ctx: typer.Context, snapshot: "Path | None") -> "ClusterSnapshot":
    """The cluster now or the snapshot file; the connection is closed again."""
    from kafkakit.topicmappr.act.observation import observe

    cli = cli_context(ctx)
    if snapshot is None:
        cli.refuse_default_profile_beside_zookeeper()
    with open_session(cli, read_only=True) as session:
        return _left_out(ctx, session, observe(session, snapshot), is_live=snapshot is None)


def observed_storage(ctx: typer.Context, source: "ClusterSource", *, sound_lists: bool = True) -> "Observed":
    """The cluster or file with sizes from where they are wanted; the connections are closed again."""
    from dataclasses import replace

    from kafkakit.topicmappr.act.observation import observe_storage

    cli = cli_context(ctx)
    if source.snapshot is None:
        cli.refuse_default_profile_beside_zookeeper()
    with open_session(cli, read_only=True) as session:
        seen = observe_storage(session, source, sound_lists=sound_lists)
        return replace(seen, snapshot=_left_out(ctx, session, seen.snapshot, is_live=source.snapshot is None))


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
    decide: "Callable[[ClusterSnapshot], PlannedChange]",
    output: "PlanDestination",
    snapshot: "Path | None",
) -> int:
    """Read the cluster or the file, decide, and end with the report."""
    output.check(cli_context(ctx).require_replaceable)
    state = observed(ctx, snapshot)
    with cli_context(ctx).output.progress("planning"):
        change = decide(state)
    return end_request(ctx, command, change, output)


def end_request(ctx: typer.Context, command: str, change: "PlannedChange", output: "PlanDestination") -> int:
    """Write plan and page, and end with the report."""
    from kafkakit.topicmappr.act.saving import save_plan
    from kafkakit.topicmappr.show.planned_change import change_report

    cli = cli_context(ctx)
    return finish(
        cli,
        change_report(command, change, save_plan(change.plan, output, cli.program, write_file, cli.settings.profile)),
    )
