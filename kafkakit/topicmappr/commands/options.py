"""The options and steps that planning commands share; names and meanings are kafka-kit's if it has them.

The steps are reading the cluster or a file, and the end of a plain request.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.common_options import NO_TAGS, TagSource
from kafkakit.cli.completion import BROKER_CHOICE, BROKER_IDS, TOPIC_CHOICE
from kafkakit.cli.option_groups import IS_RECORDED, recorded_as
from kafkakit.cli.session import finish, open_session
from kafkakit.core.cluster_facts import FROM_BROKERS, FROM_ZOOKEEPER, KEPT_IN, METRICS_PREFIX
from kafkakit.core.errors import UsageError
from kafkakit.core.options import option
from kafkakit.core.quantities import parse_size
from kafkakit.core.selection import BrokerList, parse_broker_list, parse_patterns
from kafkakit.placement.problem import Minimize, PlaceBy
from kafkakit.topicmappr.act.places import ClusterSource, MapDestination, PlanDestination
from kafkakit.topicmappr.decide.requests import Budget, Ceilings
from kafkakit.wiring import write_file, write_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkakit.cli.session import ClusterSession
    from kafkakit.core.model import ClusterSnapshot
    from kafkakit.topicmappr.act.planning import Observed
    from kafkakit.topicmappr.decide.assembly import PlannedChange


if TYPE_CHECKING:
    from kafkakit.topicmappr.decide.requests import RebalanceRequest
    from kafkakit.topicmappr.decide.scope import TagConstraints

    SizesWord: TypeAlias = str
else:
    SizesWord = StrEnum("SizesWord", {word: word for word in (FROM_BROKERS, *KEPT_IN)})

Brokers = Annotated[
    str,
    typer.Option(**BROKER_CHOICE, help="Brokers that should hold the replicas."),
]
TopicsExclude = Annotated[str, typer.Option(**TOPIC_CHOICE, help="Topics to leave out.")]
Topics = Annotated[
    str,
    typer.Option(**TOPIC_CHOICE, help="Topics whose replicas are placed."),
]
Snapshot = Annotated[Path | None, typer.Option(help="Read this cluster-snapshot file instead of a live cluster.")]
MinRackIds = Annotated[
    int,
    typer.Option(help="Minimum number of racks per partition before two replicas may share one; 0 means never share."),
]
Spread = Annotated[
    bool, typer.Option("--spread", help="Replicas of a partition per rack differ by at most one, over all racks.")
]
MinimizeBy = Annotated[Minimize, typer.Option(help="What to minimize: moves or bytes.")]
OptimizeLeadership = Annotated[
    bool, typer.Option("--optimize-leadership", help="Reorder replicas so that brokers lead evenly.")
]
EvacuatedBrokers = Annotated[str, typer.Option(**BROKER_IDS, help="Brokers that must not lead.")]
Placement = Annotated[
    PlaceBy,
    typer.Option(help="What to balance: counts of replicas, or free bytes; as little as possible is copied."),
]
ExcludeReceivers = Annotated[str, typer.Option(**BROKER_CHOICE, help="Brokers that get no copies.")]
MaxDiskUse = Annotated[
    str,
    typer.Option(
        metavar="PERCENT", help="Highest disk use that copies may cause on a broker; fuller brokers receive none."
    ),
]
HeadRoom = Annotated[
    str,
    typer.Option(
        metavar="SIZE", help="Space that copies must leave free on every broker, in addition to --max-disk-use."
    ),
]
Pin = Annotated[
    list[str] | None,
    typer.Option(metavar="TOPICS|TOPIC/PARTITION", help="Topics or partitions that must not move. Repeatable."),
]
LocalityScoped = Annotated[bool, typer.Option("--locality-scoped", help="Move replicas only within their rack.")]
OutPath = Annotated[
    str,
    typer.Option(
        help="Folder for the map files, one for each topic; the current folder when not given. Beside --plan they are "
        "written only with this option, --out-file or more than one step."
    ),
]
PlanArgument = Annotated[str, typer.Argument(metavar="PLAN", help="Plan file made with --plan; - for stdin.")]


def brokers_given(text: str, flag: str = "--brokers") -> BrokerList | None:
    """The list of an option that may be left out; None then."""
    return parse_broker_list(text, flag) if text else None


def patterns_of(pin: list[str] | None) -> tuple[str, ...]:
    """The patterns of all `--pin` options."""
    return tuple(pattern for each in pin or () for pattern in parse_patterns(each))


def pin_word(pin: list[str] | None) -> str:
    """Pins as one recorded word."""
    return ",".join(patterns_of(pin))


def head_room_word(text: str) -> str:
    """Head room as a recorded word; none is not recorded."""
    return "" if text == "0" else text


def word_of(value: object) -> str:
    """A value as a recorded word, where zero is not the same as nothing."""
    return "" if value is None else str(value).strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOptions:
    """Which topics a plan is about."""

    topics: Topics = field(metadata=IS_RECORDED)
    topics_exclude: TopicsExclude = field(default="", metadata=IS_RECORDED)

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns of `--topics`."""
        return parse_patterns(self.topics)

    @property
    def excluded(self) -> tuple[str, ...]:
        """The patterns of `--topics-exclude`."""
        return parse_patterns(self.topics_exclude)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllTopicsOptions(TopicOptions):
    """Which topics are planned; all if none are named."""

    topics: Topics = field(default=".*", metadata=IS_RECORDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RackOptions:
    """The rack rule of a plan."""

    min_rack_ids: MinRackIds = field(default=0, metadata=IS_RECORDED)
    spread: Spread = field(default=False, metadata=IS_RECORDED)


def _joined(given: list[str] | None) -> str:
    return "; ".join(given or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintOptions(TagSource):
    """Constraints by tags."""

    spread_by: list[str] | None = option(
        None,
        metavar="KEY,...",
        help="Spread the replicas of each partition over the values of each tag, in addition to racks. Repeatable.",
        recorded=lambda keys: ",".join(keys or ()),
    )
    affinity: list[str] | None = option(
        None,
        metavar="RULE",
        help="Put copies of topics only on matching brokers: 'topics where tier = hot: brokers where disk = nvme'. "
        "Repeatable.",
        recorded=_joined,
    )
    anti_affinity: list[str] | None = option(
        None, metavar="RULE", help="Put copies of topics on no matching broker. Repeatable.", recorded=_joined
    )

    broker_set: list[str] | None = option(
        None,
        metavar="TOPICS: BROKERS",
        help="Put copies of these topics only on these brokers, and no other topic there. Repeatable.",
        recorded=_joined,
    )
    broker_sets_by: str = option(
        "",
        metavar="KEY",
        help="A --broker-set for each value of a tag that brokers and topics have.",
        recorded=True,
    )

    @property
    def constraints(self) -> "TagConstraints":
        """What is asked for; `QueryError` for a rule that cannot be read."""
        from kafkakit.topicmappr.decide.scope import TagConstraints, parse_broker_set, parse_topic_rules

        keys = [key.strip() for given in self.spread_by or () for key in given.split(",") if key.strip()]
        rules = [r for text in self.affinity or () for r in parse_topic_rules(text, "--affinity")]
        rules += [r for text in self.anti_affinity or () for r in parse_topic_rules(text, "--anti-affinity")]
        return TagConstraints(
            spread_by=tuple(dict.fromkeys(keys)),
            rules=tuple(rules),
            sets=tuple(parse_broker_set(text) for text in self.broker_set or ()),
            sets_by=self.broker_sets_by.strip(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingOptions:
    """What a broker may end with."""

    max_replicas: int | None = option(
        None, min=1, metavar="N", help="Most replicas that a broker may end with, over all topics.", recorded=word_of
    )
    max_leaders: int | None = option(
        None,
        min=1,
        metavar="N",
        help="Most partitions that a broker may lead in the end, over all topics.",
        recorded=word_of,
    )
    max_topic_leaders: int | None = option(
        None,
        min=1,
        metavar="N",
        help="Most partitions of one topic that a broker may lead in the end.",
        recorded=word_of,
    )

    @property
    def ceilings(self) -> Ceilings:
        """The limits."""
        return Ceilings(
            max_replicas=self.max_replicas, max_leaders=self.max_leaders, max_topic_leaders=self.max_topic_leaders
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLimits(CeilingOptions):
    """Brokers that a balance gives no copies to or takes none from, and what a broker may end with."""

    exclude_receivers: ExcludeReceivers = field(default="", metadata=IS_RECORDED)
    exclude_givers: str = option("", **BROKER_CHOICE, help="Brokers whose replicas stay.", recorded=True)

    def on(self, request: "RebalanceRequest") -> "RebalanceRequest":
        """The request with these limits; `UsageError` for lists that cannot be read."""
        return replace(
            request,
            exclude_receivers=brokers_given(self.exclude_receivers, "--exclude-receivers"),
            exclude_givers=brokers_given(self.exclude_givers, "--exclude-givers"),
            ceilings=self.ceilings,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """What one run leaves alone, and how much of the rest it does."""

    pin: Pin = field(default=None, metadata=recorded_as(pin_word))
    max_moves: int | None = option(
        None,
        min=0,
        metavar="N",
        help="Copy at most this many replicas in one run; the same command continues with the rest.",
        recorded=word_of,
    )
    max_moved_bytes: str = option(
        "",
        metavar="SIZE",
        help="Copy at most this many bytes in one run; the same command continues with the rest.",
        recorded=word_of,
    )

    @property
    def pinned(self) -> tuple[str, ...]:
        """The patterns of `--pin`."""
        return patterns_of(self.pin)

    @property
    def budget(self) -> Budget:
        """The limits; `UsageError` for a size that is none."""
        return Budget(
            max_moves=self.max_moves,
            max_moved_bytes=parse_size(self.max_moved_bytes, "--max-moved-bytes") if self.max_moved_bytes else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOutput(PlanDestination):
    """Where a plan goes, and how the command ends."""

    plan: Path | None = option(None, help="Write the plan for `reassign apply` to this file.")
    report: Path | None = option(None, help="Write the plan as one self-contained HTML page to this file.")
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


def observed(
    ctx: typer.Context, snapshot: "Path | None", request: R, tags: TagSource = NO_TAGS
) -> "tuple[ClusterSnapshot, R]":
    """The cluster now or the snapshot file, and the request with its queries answered on it."""
    from kafkakit.topicmappr.act.planning import observe

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

    from kafkakit.topicmappr.act.planning import observe_storage

    cli = cli_context(ctx)
    if source.snapshot is None:
        cli.refuse_default_profile_beside_zookeeper()
    _refuse_idle_prefix(ctx, source)
    with open_session(cli, read_only=True) as session:
        seen = observe_storage(session, source, sound_lists=sound_lists)
        is_live = source.snapshot is None
        state = _left_out(ctx, session, seen.snapshot, is_live=is_live)
        state, answer = _answered(ctx, session, state, request, tags, is_live=is_live)
        return replace(seen, snapshot=state), answer


def _refuse_idle_prefix(ctx: typer.Context, source: "ClusterSource") -> None:
    """Raise `UsageError` for a prefix of znodes beside a source without any; a variable may stand beside one."""
    given = ctx.get_parameter_source("zk_metrics_prefix")
    if source.sizes_source != FROM_ZOOKEEPER and given is not None and given.name == "COMMANDLINE":
        raise UsageError(
            f"--zk-metrics-prefix has no effect with sizes from {source.sizes_source}",
            hint="leave it out, or pass --sizes-from zookeeper",
        )


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
    from kafkakit.topicmappr.act.planning import save_plan
    from kafkakit.topicmappr.report.requests import change_report

    cli = cli_context(ctx)
    return finish(
        cli,
        change_report(
            command, change, save_plan(change.plan, output, cli.program, cli.noting(write_files), cli.settings.profile)
        ),
    )
