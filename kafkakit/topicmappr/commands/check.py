"""`kafkakit topicmappr check`: is this cluster within its rules."""

from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import kit_of
from kafkakit.cli.completion import complete_topic_names
from kafkakit.core.findings import FailOn
from kafkakit.topicmappr.commands.options import (
    ZK_ADDR,
    ZK_METRICS_PREFIX,
    KafkaAddr,
    MetricsAge,
    MinRackIds,
    SizesSource,
    Snapshot,
    TopicsExclude,
    ZkAddr,
    ZkMetricsPrefix,
    ZkPrefix,
)
from kafkakit.topicmappr.decide.size_source import SizesFrom

if TYPE_CHECKING:
    from kafkakit.cli.command_classes import Kit
    from kafkakit.topicmappr.act.observation import Observed
    from kafkakit.topicmappr.decide.check.request import CheckRequest

CheckedTopics = Annotated[
    str,
    typer.Option(
        help="Topics to check: comma separated names or regular expressions; all when not given.",
        autocompletion=complete_topic_names,
    ),
]
CheckedBrokers = Annotated[
    str,
    typer.Option(help="Brokers that should carry the replicas, as for rebuild; all live ones when not given."),
]
Band = Annotated[
    str, typer.Option(metavar="PERCENT", help="How far a broker or log dir may be from its share of used space.")
]
LeaderBand = Annotated[
    str, typer.Option(metavar="PERCENT", help="How far a broker may be from an even part of first replicas.")
]
MaxDiskUse = Annotated[str, typer.Option(metavar="PERCENT", help="How full a disk may be.")]
WantedReplication = Annotated[int, typer.Option(help="Replicas that every partition must have; 0: not checked.")]
FailFrom = Annotated[FailOn, typer.Option("--fail-on", help="Exit 1 for findings of this severity or worse.")]


def check(
    ctx: typer.Context,
    topics: CheckedTopics = "",
    topics_exclude: TopicsExclude = "",
    brokers: CheckedBrokers = "",
    snapshot: Snapshot = None,
    min_rack_ids: MinRackIds = 0,
    replication: WantedReplication = 0,
    band: Band = "10%",
    leader_band: LeaderBand = "10%",
    max_disk_use: MaxDiskUse = "85%",
    fail_on: FailFrom = FailOn.WARNING,
    sizes_from: SizesSource = SizesFrom.BROKERS,
    metrics_age: MetricsAge = None,
    kafka_addr: KafkaAddr = "",
    zk_addr: ZkAddr = ZK_ADDR,
    zk_prefix: ZkPrefix = "",
    zk_metrics_prefix: ZkMetricsPrefix = ZK_METRICS_PREFIX,
) -> int:
    """Say whether placement keeps its rules: racks, copies in sync, shares of space and leaders, disks.

    Every finding names the command that mends it. Partitions that break one rule are one finding a topic, with
    the first three in text and up to 10,000 names a rule in JSON. Reads only. Exits 0 without findings of
    --fail-on or worse, 1 with some, 75 when the cluster cannot be reached or sizes are too old.

    Examples:

    \b
    kafkakit --profile prod topicmappr check
    kafkakit topicmappr check --snapshot prod.json --topics 'orders.*' --band 5% --fail-on error
    """
    from shlex import quote

    from kafkakit.core.broker_list import parse_broker_list
    from kafkakit.core.percent import parse_percent
    from kafkakit.core.topic_selection import parse_patterns
    from kafkakit.topicmappr.act.garbage import without_collector
    from kafkakit.topicmappr.commands.planning import observe_storage
    from kafkakit.topicmappr.decide.check.request import CheckRequest

    kit = kit_of(ctx)
    if kafka_addr:
        kit.use_bootstrap_server(kafka_addr, "flag --kafka-addr")
    request = CheckRequest(
        topics=parse_patterns(topics),
        topics_exclude=parse_patterns(topics_exclude),
        brokers=parse_broker_list(brokers) if brokers else None,
        replication=replication,
        min_rack_ids=min_rack_ids,
        band=parse_percent(band, "--band"),
        leader_band=parse_percent(leader_band, "--leader-band"),
        max_disk_use=parse_percent(max_disk_use, "--max-disk-use"),
        topic_words=topics or ".*",
        program=kit.program,
        context=f" --snapshot {quote(str(snapshot))}" if snapshot else "",
    )
    with without_collector():
        seen = observe_storage(
            kit,
            snapshot,
            sizes_from=sizes_from,
            zk_addr=zk_addr,
            zk_metrics_prefix=zk_metrics_prefix,
            metrics_age=metrics_age,
            sound_lists=False,  # an unsound list is a finding here
        )
        return _report(kit, seen, request, fail_on)


def _report(kit: "Kit", seen: "Observed", request: "CheckRequest", fail_on: FailOn) -> int:
    from kafkakit.core.errors import ExitCode
    from kafkakit.core.findings import COLUMNS, fails, finding_rows
    from kafkakit.report.report import Report
    from kafkakit.topicmappr.decide.check.decision import check_cluster
    from kafkakit.topicmappr.show.check import report_data, report_text

    report = check_cluster(seen.snapshot, request, seen.facts)
    kit.output.result(
        Report(
            command="topicmappr check",
            data=report_data(report),
            text=report_text(report),
            columns=COLUMNS,
            rows=finding_rows(report.findings),
        )
    )
    return int(ExitCode.FAILED if fails(report.findings, fail_on) else ExitCode.DONE)
