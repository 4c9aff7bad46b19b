"""The options and steps that planning commands share; names and meanings are kafka-kit's if it has them.

The steps are reading the cluster or a file, and the end of a plain request.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import typer

from kafkakit.cli.common_options import NO_TAGS, TagSource
from kafkakit.cli.context import cli_context, command_of
from kafkakit.cli.session import finish, open_session
from kafkakit.core.cluster_facts import FROM_BROKERS, FROM_ZOOKEEPER, KEPT_IN, METRICS_PREFIX
from kafkakit.core.errors import UsageError
from kafkakit.core.options import option
from kafkakit.topicmappr.act.places import ClusterSource, MapDestination, PlanDestination
from kafkakit.wiring import write_file, write_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkakit.cli.session import ClusterSession
    from kafkakit.core.model import ClusterSnapshot
    from kafkakit.topicmappr.act.planning import SizedSnapshot
    from kafkakit.topicmappr.decide.assembly import PlannedChange


if TYPE_CHECKING:
    SizesWord: TypeAlias = str
else:
    SizesWord = StrEnum("SizesWord", {word: word for word in (FROM_BROKERS, *KEPT_IN)})

Snapshot = Annotated[Path | None, typer.Option(help="Read this cluster-snapshot file instead of a live cluster.")]
OutPath = Annotated[
    str,
    typer.Option(
        help="Folder for the map files, one for each topic; the current folder when not given. Beside --plan they are "
        "written only with this option, --out-file or more than one step."
    ),
]
PlanArgument = Annotated[str, typer.Argument(metavar="PLAN", help="Plan file made with --plan; - for stdin.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOutput(PlanDestination):
    """Where a plan goes, and how the command ends."""

    plan: Path | None = option(None, help="Write the plan for `reassign apply` to this file.")
    report: Path | None = option(
        None, "--html", "--report", metavar="FILE", help="Also write the plan as a web page to this file."
    )
    ignore_warns: bool = option(
        False,
        "--ignore-warns",
        envvar="TOPICMAPPR_IGNORE_WARNS",
        help="Write maps and plan despite warnings.",
        recorded=True,
    )
    exit_code: bool = option(False, "--exit-code", help="Exit 3 when the plan contains changes.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplanOutput(PlanOutput):
    """Where the new plan goes."""

    exit_code: bool = option(False, "--exit-code", help="Exit 3 when moves are changed, dropped or added.")


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOutput(PlanOutput, MapDestination):
    """Where the plan and kafka-kit's map files go."""

    out_path: OutPath = ""
    out_file: str = option("", help="Also write one combined map under this name.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions(ClusterSource):
    """Which cluster or file is read, and where sizes come from."""

    snapshot: Snapshot = None
    sizes_from: SizesWord | None = option(
        None,
        "--sizes-from",
        help="Where sizes and free bytes come from: the brokers (or the --snapshot file), kafka-kit's znodes, or "
        "a file of metricsfetcher. Default: brokers; zookeeper with --zk-metrics-prefix or, on a live cluster, with "
        "--metrics-age; file with --sizes-file.",
    )
    sizes_file: Path | None = option(
        None, "--sizes-file", metavar="FILE", help="File that metricsfetcher wrote, to read sizes from."
    )
    metrics_age: int | None = option(
        None,
        min=0,
        max=5_256_000,
        metavar="MINUTES",
        help="Refuse sizes older than this: 60 when not given, and any age for a --snapshot file.",
    )
    zk_addr: str | None = option(
        None,
        envvar="TOPICMAPPR_ZK_ADDR",
        metavar="HOST:PORT,...",
        help="ZooKeeper, when it is not the profile's zookeeper.addr, or localhost:2181; contacted only for "
        "--sizes-from zookeeper. A chroot may follow (host:2181/chroot).",
    )
    zk_metrics_prefix: str | None = option(
        None,
        envvar="TOPICMAPPR_ZK_METRICS_PREFIX",
        metavar="PREFIX",
        help=f"Read sizes from metricsfetcher's two znodes below this path; {METRICS_PREFIX} when not given.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaKitClusterOptions(ClusterOptions):
    """The cluster, also under kafka-kit's names."""

    kafka_addr: str = option("", envvar="TOPICMAPPR_KAFKA_ADDR", help="kafka-kit's name for --bootstrap-server.")
    zk_prefix: str = option("", envvar="TOPICMAPPR_ZK_PREFIX", help="Accepted for kafka-kit's scripts, and ignored.")


R = TypeVar("R")


def observe_cluster(
    ctx: typer.Context, snapshot: "Path | None", request: R, tags: TagSource = NO_TAGS
) -> "tuple[ClusterSnapshot, R]":
    """The cluster now or the snapshot file, and the request with its queries answered on it."""
    from kafkakit.topicmappr.act.planning import observe

    cli = cli_context(ctx)
    if snapshot is None:
        cli.refuse_default_profile_beside_zookeeper()
    with open_session(cli, read_only=True) as session:
        state = _left_out(ctx, session, observe(session, snapshot), is_live=snapshot is None)
        return _answer_queries(ctx, session, state, request, tags, is_live=snapshot is None)


def read_for_planning(
    ctx: typer.Context,
    source: "ClusterSource",
    request: R,
    tags: TagSource = NO_TAGS,
    *,
    sound_lists: bool = True,
) -> "tuple[SizedSnapshot, R]":
    """Read the cluster and what the request needs, with sizes from where they are wanted."""

    from kafkakit.topicmappr.act.planning import observe_storage

    cli = cli_context(ctx)
    if source.snapshot is None:
        cli.refuse_default_profile_beside_zookeeper()
    _refuse_idle_prefix(ctx, source)
    with open_session(cli, read_only=True) as session:
        seen = observe_storage(session, source, sound_lists=sound_lists)
        is_live = source.snapshot is None
        state = _left_out(ctx, session, seen.snapshot, is_live=is_live)
        state, answer = _answer_queries(ctx, session, state, request, tags, is_live=is_live)
        return replace(seen, snapshot=state), answer


def _refuse_idle_prefix(ctx: typer.Context, source: "ClusterSource") -> None:
    """Raise `UsageError` for a prefix of znodes beside a source without any; a variable may stand beside one."""
    given = ctx.get_parameter_source("zk_metrics_prefix")
    if source.sizes_source != FROM_ZOOKEEPER and given is not None and given.name == "COMMANDLINE":
        raise UsageError(
            f"--zk-metrics-prefix has no effect with sizes from {source.sizes_source}",
            hint="leave it out, or pass --sizes-from zookeeper",
        )


def _answer_queries(
    ctx: typer.Context,
    session: "ClusterSession",
    state: "ClusterSnapshot",
    request: R,
    tags: TagSource,
    *,
    is_live: bool,
) -> "tuple[ClusterSnapshot, R]":
    """The cluster with tags where the request looks at some, and the request on it; a file brings its own."""

    from kafkakit.topicmappr.decide.scope import resolve_queries, tags_needed

    if is_live and tags_needed(request):
        state = replace(state, tags=tags.read(session))
    return state, resolve_queries(request, state)


def _left_out(
    ctx: typer.Context, session: "ClusterSession", snapshot: "ClusterSnapshot", *, is_live: bool
) -> "ClusterSnapshot":
    """The cluster with the brokers marked that operations empty; a file is taken as it is. Output names its id."""
    from kafkakit.broker.api_act import open_records, without_leaving

    cli, records = cli_context(ctx), None
    cli.cluster_id = snapshot.cluster_id
    if is_live:
        records = open_records(
            cli.settings.state_dir, snapshot.cluster_id, write_file, session.clock, lambda: session.control_view
        )
    return without_leaving(snapshot, records, cli.output, cli.program)


def plan_request(
    ctx: typer.Context,
    decide: "Callable[[ClusterSnapshot, R], PlannedChange]",
    request: R,
    output: "PlanDestination",
    snapshot: "Path | None",
    tags: TagSource = NO_TAGS,
) -> int:
    """Read the cluster or the file, decide, and end with the report."""
    from kafkakit.cli.search_watch import answered_at_once

    output.check(cli_context(ctx).require_replaceable)
    state, request = observe_cluster(ctx, snapshot, request, tags)
    with cli_context(ctx).output.progress("planning"), answered_at_once(None):
        change = decide(state, request)
    return end_request(ctx, change, output)


def end_request(ctx: typer.Context, change: "PlannedChange", output: "PlanDestination") -> int:
    """Write plan and page, and end with the report."""
    from kafkakit.topicmappr.act.planning import save_plan
    from kafkakit.topicmappr.report.requests import change_report

    cli = cli_context(ctx)
    return finish(
        cli,
        change_report(
            command_of(ctx),
            change,
            save_plan(change.plan, output, cli.program, cli.noting(write_files), cli.settings.profile),
        ),
    )
