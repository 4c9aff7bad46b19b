"""`kafkakit topicmappr audit`: what any tool's map would do, what it should have cost, and what is wrong with it."""

from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import kit_of
from kafkakit.core.findings import FailOn
from kafkakit.topicmappr.commands.options import (
    ZK_ADDR,
    ZK_METRICS_PREFIX,
    KafkaAddr,
    MaxDiskUse,
    MetricsAge,
    MinRackIds,
    SizesSource,
    Snapshot,
    Spread,
    ZkAddr,
    ZkMetricsPrefix,
    ZkPrefix,
)
from kafkakit.topicmappr.decide.size_source import SizesFrom

if TYPE_CHECKING:
    from kafkakit.cli.command_classes import Kit
    from kafkakit.topicmappr.act.observation import Observed
    from kafkakit.topicmappr.decide.audit.decision import Audit
    from kafkakit.topicmappr.decide.audit.reading import MapReading
    from kafkakit.topicmappr.decide.audit.request import AuditRequest

MapArgument = Annotated[str, typer.Argument(metavar="MAP", help="Reassignment map as Kafka's JSON; - for stdin.")]
JudgedBrokers = Annotated[
    str, typer.Option(help="Brokers that should be even, as for rebuild; those that hold the topics if not given.")
]
JudgedTopics = Annotated[
    str, typer.Option(help="Topics that another plan might move instead; the topics of the map if not given.")
]
Band = Annotated[str, typer.Option(metavar="PERCENT", help="The band of used space that was wanted.")]
FreeRange = Annotated[str, typer.Option(metavar="SIZE", help="The range of free bytes that was wanted.")]
FailFrom = Annotated[FailOn, typer.Option("--fail-on", help="Exit 1 for findings of this severity or worse.")]


def audit(
    ctx: typer.Context,
    map_file: MapArgument,
    brokers: JudgedBrokers = "",
    topics: JudgedTopics = "",
    snapshot: Snapshot = None,
    min_rack_ids: MinRackIds = 0,
    spread: Spread = False,
    max_disk_use: MaxDiskUse = "90%",
    band: Band = "",
    free_range: FreeRange = "",
    fail_on: FailFrom = FailOn.ERROR,
    sizes_from: SizesSource = SizesFrom.BROKERS,
    metrics_age: MetricsAge = None,
    kafka_addr: KafkaAddr = "",
    zk_addr: ZkAddr = ZK_ADDR,
    zk_prefix: ZkPrefix = "",
    zk_metrics_prefix: ZkMetricsPrefix = ZK_METRICS_PREFIX,
) -> int:
    """Judge any tool's reassignment map without running it.

    Says what it copies, how even it leaves the brokers, what the same balance costs at least and what a plan of
    ours costs, and what breaks a rule or is at risk. Without --band or --free-range the balance is the range of
    free bytes that the map reaches. Without sizes counts alone are judged. Reads only. Exits 1 for findings of
    --fail-on or worse, 2 when the file is no map at all.

    Examples:

    \b
    kafkakit --profile prod topicmappr audit map.json
    kafkakit topicmappr audit - --snapshot prod.json --fail-on warning < map.json
    """
    from kafkakit.core.broker_list import parse_broker_list
    from kafkakit.core.percent import parse_percent
    from kafkakit.core.quantities import parse_size
    from kafkakit.core.topic_selection import parse_patterns
    from kafkakit.topicmappr.act.garbage import without_collector
    from kafkakit.topicmappr.commands.planning import observe_storage
    from kafkakit.topicmappr.decide.audit.reading import read_map
    from kafkakit.topicmappr.decide.audit.request import AuditRequest
    from kafkakit.wiring import read_input

    kit = kit_of(ctx)
    request = AuditRequest(
        brokers=parse_broker_list(brokers) if brokers else None,
        topics=parse_patterns(topics),
        min_rack_ids=min_rack_ids,
        spread=spread,
        max_disk_use=parse_percent(max_disk_use, "--max-disk-use"),
        band=parse_percent(band, "--band", most=1000) if band else None,
        free_range_bytes=parse_size(free_range, "--free-range") if free_range else None,
    )
    source = "stdin" if map_file == "-" else map_file
    if kafka_addr:
        kit.use_bootstrap_server(kafka_addr, "flag --kafka-addr")
    with without_collector():
        reading = read_map(read_input(map_file, _MAP_LIMIT_BYTES), source)
        seen = observe_storage(
            kit,
            snapshot,
            sizes_from=sizes_from,
            zk_addr=zk_addr,
            zk_metrics_prefix=zk_metrics_prefix,
            metrics_age=metrics_age,
            sound_lists=False,
        )
        return _report(kit, _judge(kit, seen, reading, request), source, fail_on)


_MAP_LIMIT_BYTES = 512 << 20


def _judge(kit: "Kit", seen: "Observed", reading: "MapReading", request: "AuditRequest") -> "Audit":
    from kafkakit.placement.bytes.tightening import Unwatched
    from kafkakit.topicmappr.decide.audit.decision import audit_map

    with kit.output.progress("judging the map") as bar:

        class _Teller(Unwatched):
            def phase(self, text: str) -> None:
                bar.update(0, 0, text)

        return audit_map(seen.snapshot, reading, request, seen.facts, _Teller())


def _report(kit: "Kit", audit: "Audit", source: str, fail_on: FailOn) -> int:
    from kafkakit.core.errors import ExitCode
    from kafkakit.core.findings import COLUMNS, fails, finding_rows
    from kafkakit.report.report import Report
    from kafkakit.topicmappr.show.audit import audit_data, audit_text

    kit.output.result(
        Report(
            command="topicmappr audit",
            data=audit_data(audit, source),
            text=audit_text(audit, source),
            columns=COLUMNS,
            rows=finding_rows(audit.findings),
        )
    )
    return int(ExitCode.FAILED if fails(audit.findings, fail_on) else ExitCode.DONE)
