"""`kafkakit topicmappr`: placement planning with kafka-kit's flags."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.command import KitCommand, KitGroup, kit_of
from kafkakit.completion import complete_topic_names
from kafkakit.topicmappr.problem import Minimize

if TYPE_CHECKING:
    from kafkakit.command import Kit
    from kafkakit.model import ClusterSnapshot
    from kafkakit.output import Result
    from kafkakit.topicmappr.rebuild import Rebuild
    from kafkakit.topicmappr.request import RebuildRequest
    from kafkakit.topicmappr.run import Destination

SNAPSHOT_LIMIT = 2 << 30

app = typer.Typer(
    cls=KitGroup,
    help="Plan where replicas go: rebuild, with a proof and a rollback.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
)


Brokers = Annotated[
    str, typer.Option(help="Target broker ids, comma separated; -1: brokers in use, -2: all brokers of the cluster.")
]
Topics = Annotated[
    str,
    typer.Option(help="Topics: comma separated names or regular expressions.", autocompletion=complete_topic_names),
]
TopicsExclude = Annotated[str, typer.Option(help="Topics to leave out: names or regular expressions.")]
MapString = Annotated[str, typer.Option(help="Partition map as JSON, used instead of --topics.")]
Snapshot = Annotated[Path | None, typer.Option(help="Plan from this cluster-snapshot file instead of a live cluster.")]
Replication = Annotated[int, typer.Option(help="Set every replication factor to this; 0 leaves it.")]
ForceRebuild = Annotated[
    bool, typer.Option("--force-rebuild", help="Spread replicas evenly over all targets, with the fewest moves.")
]
SubAffinity = Annotated[
    bool, typer.Option("--sub-affinity", help="Replace each outgoing broker by one specific new broker.")
]
MinRackIds = Annotated[
    int, typer.Option(help="Racks each replica set must span before racks repeat; 0: all racks differ.")
]
MinimizeBy = Annotated[Minimize, typer.Option(help="What the plan spends least of: moves or bytes.")]
SkipNoOps = Annotated[bool, typer.Option("--skip-no-ops", help="Leave unchanged partitions out of the map files.")]
OutPath = Annotated[str, typer.Option(help="Folder for the map files; the current folder when not given.")]
OutFile = Annotated[str, typer.Option(help="Also write one combined map under this name.")]
PlanFile = Annotated[Path | None, typer.Option(help="Write the plan for `reassign apply` to this file.")]
IgnoreWarns = Annotated[
    bool,
    typer.Option("--ignore-warns", envvar="TOPICMAPPR_IGNORE_WARNS", help="Write maps although there are warnings."),
]
ExitCodeFlag = Annotated[bool, typer.Option("--exit-code", help="Exit 3 when the plan contains changes.")]
KafkaAddr = Annotated[
    str, typer.Option(envvar="TOPICMAPPR_KAFKA_ADDR", help="kafka-kit's name for --bootstrap-server.")
]
ZkAddr = Annotated[
    str, typer.Option(envvar="TOPICMAPPR_ZK_ADDR", help="Accepted for kafka-kit's scripts; not contacted.")
]
ZkPrefix = Annotated[
    str, typer.Option(envvar="TOPICMAPPR_ZK_PREFIX", help="Accepted for kafka-kit's scripts; not used.")
]
ZkMetricsPrefix = Annotated[
    str, typer.Option(envvar="TOPICMAPPR_ZK_METRICS_PREFIX", help="Accepted for kafka-kit's scripts; not used.")
]


@app.callback()
def _group() -> None:
    """Plan where replicas go. Planning changes nothing on the cluster."""


@app.command("rebuild", cls=KitCommand)
def rebuild(
    ctx: typer.Context,
    brokers: Brokers,
    topics: Topics = "",
    topics_exclude: TopicsExclude = "",
    map_string: MapString = "",
    snapshot: Snapshot = None,
    replication: Replication = 0,
    force_rebuild: ForceRebuild = False,
    sub_affinity: SubAffinity = False,
    min_rack_ids: MinRackIds = 0,
    minimize: MinimizeBy = Minimize.MOVES,
    skip_no_ops: SkipNoOps = False,
    out_path: OutPath = "",
    out_file: OutFile = "",
    plan: PlanFile = None,
    ignore_warns: IgnoreWarns = False,
    exit_code: ExitCodeFlag = False,
    kafka_addr: KafkaAddr = "",
    zk_addr: ZkAddr = "",
    zk_prefix: ZkPrefix = "",
    zk_metrics_prefix: ZkMetricsPrefix = "",
) -> int:
    """Replace brokers with the fewest moves, or rebuild placement evenly.

    Writes map files (and a plan with --plan) and changes nothing on the cluster. Exits 4 when no placement
    satisfies the request, naming what to add.
    """
    from kafkakit.topicmappr.broker_list import parse_broker_list
    from kafkakit.topicmappr.request import RebuildRequest
    from kafkakit.topicmappr.run import Destination, read_map_string, without_collector
    from kafkakit.topicmappr.topic_selection import parse_patterns

    kit = kit_of(ctx)
    request = RebuildRequest(
        brokers=parse_broker_list(brokers),
        topics=parse_patterns(topics),
        topics_exclude=parse_patterns(topics_exclude),
        map=read_map_string(map_string) if map_string else None,
        replication=replication,
        force_rebuild=force_rebuild,
        sub_affinity=sub_affinity,
        min_rack_ids=min_rack_ids,
        skip_no_ops=skip_no_ops,
        minimize=minimize,
        words=_words(locals()),
    )
    destination = Destination(out_path=out_path, out_file=out_file, plan=plan, skip_no_ops=skip_no_ops)
    destination.check()
    for duplicate in request.brokers.duplicates:
        kit.output.say(f"ID {duplicate} supplied as duplicate, excluding")
    if kafka_addr:
        kit.use_bootstrap_server(kafka_addr, "flag --kafka-addr")
    with without_collector():
        state = _observe(kit, snapshot)
        return _finish(kit, state, request, destination, ignore_warns, exit_code)


_RECORDED = ("brokers", "topics", "topics_exclude", "map_string", "replication", "force_rebuild", "sub_affinity",
             "min_rack_ids", "minimize", "skip_no_ops", "ignore_warns")  # fmt: skip


def _words(given: dict[str, object]) -> dict[str, str]:
    """The flags that shape the plan, as given; empty ones left out."""
    words = {"command": "topicmappr rebuild"}
    for name in _RECORDED:
        value = given[name]
        if value not in ("", 0, False):
            words[name.replace("_", "-")] = "true" if value is True else str(value)
    return words


def _observe(kit: "Kit", path: Path | None) -> "ClusterSnapshot":
    from kafkakit.topicmappr.run import observe_file, observe_live
    from kafkakit.wiring import open_admin, read_input, system_clock

    if path is not None:
        return observe_file(read_input(path, SNAPSHOT_LIMIT), str(path))
    admin = open_admin(kit.settings, read_only=True)
    try:
        return observe_live(admin, system_clock())
    finally:
        admin.close()


def _finish(
    kit: "Kit",
    state: "ClusterSnapshot",
    request: "RebuildRequest",
    destination: "Destination",
    ignore_warns: bool,
    exit_code: bool,
) -> int:
    from kafkakit.errors import ExitCode, OperationFailedError
    from kafkakit.output import OutputFormat
    from kafkakit.topicmappr.diagnose import infeasible
    from kafkakit.topicmappr.rebuild import decide_rebuild
    from kafkakit.topicmappr.render import files_section, plan_section, report_head, warn_section
    from kafkakit.topicmappr.run import save
    from kafkakit.wiring import write_file

    with kit.output.progress("planning"):
        decided = decide_rebuild(state, request)
    head = report_head(decided, force_rebuild=request.force_rebuild, replication=request.replication)
    warnings = decided.plan.warnings
    text = head + warn_section(warnings)
    if warnings and not ignore_warns:
        refusal = "Warnings encountered, partition map not created. Override with --ignore-warns."
        if kit.output.output_format is OutputFormat.TEXT:
            kit.output.result(_result(decided, f"{text}\n  {refusal}\n", [], request.skip_no_ops))
        if decided.shortages:
            raise infeasible(decided.shortages, decided.unplaced)
        raise OperationFailedError(f"no map written because of warnings: {'; '.join(warnings)}", hint="--ignore-warns")
    maps = save(decided, destination, write_file) if decided.scope.partitions else []
    saved = str(destination.plan) if destination.plan else None
    text += files_section(maps) + plan_section(decided.plan, saved, _next_command(kit, decided, saved))
    kit.output.result(_result(decided, text, maps, request.skip_no_ops))
    return int(ExitCode.CHANGES) if exit_code and decided.plan.moves else int(ExitCode.DONE)


def _next_command(kit: "Kit", decided: "Rebuild", saved: str | None) -> str | None:
    from shlex import quote

    if not saved or not decided.plan.moves:
        return None
    profile = kit.given.profile
    return f"kafkakit {f'--profile {quote(profile)} ' if profile else ''}reassign apply {quote(saved)}"


def _result(decided: "Rebuild", text: str, maps: list[tuple[str, bool]], skip_no_ops: bool) -> "Result":
    from kafkakit.output import Result
    from kafkakit.topicmappr.render import COLUMNS, change_rows, rebuild_data

    return Result(
        command="topicmappr rebuild",
        data=rebuild_data(decided, [path for path, _ in maps], skip_no_ops=skip_no_ops),
        text=text,
        columns=COLUMNS,
        rows=change_rows(decided, skip_no_ops=skip_no_ops),
    )
