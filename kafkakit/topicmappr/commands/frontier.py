"""`kafkakit topicmappr frontier`: what every band would cost, with proven bounds."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import kit_of
from kafkakit.topicmappr.commands.options import (
    ZK_ADDR,
    ZK_METRICS_PREFIX,
    Brokers,
    HeadRoom,
    KafkaAddr,
    LocalityScoped,
    MaxDiskUse,
    MetricsAge,
    MinRackIds,
    Pin,
    SizesSource,
    Snapshot,
    Spread,
    TopicsExclude,
    ZkAddr,
    ZkMetricsPrefix,
    ZkPrefix,
)
from kafkakit.topicmappr.decide.frontier.request import Metric
from kafkakit.topicmappr.decide.size_source import SizesFrom

if TYPE_CHECKING:
    from kafkakit.cli.command_classes import Kit
    from kafkakit.topicmappr.act.observation import Observed
    from kafkakit.topicmappr.decide.frontier.decision import Frontier
    from kafkakit.topicmappr.decide.frontier.request import FrontierRequest

FrontierTopics = Annotated[str, typer.Option(help="Topics that may move: comma separated names or patterns.")]
MetricChoice = Annotated[
    Metric | None, typer.Option(help="What is tightened: the band of used space, or the range of free bytes.")
]
Bands = Annotated[str, typer.Option(metavar="5%,3%,...", help="Bands to work out; eight from 20% to 1% if not given.")]
FreeRanges = Annotated[
    str, typer.Option(metavar="SIZE,...", help="Ranges to work out; eight parts of today's range if not given.")
]
PageFile = Annotated[
    Path | None, typer.Option("--report", help="Write table and plot as one self-contained HTML page to this file.")
]


def frontier(
    ctx: typer.Context,
    brokers: Brokers = "-1",
    topics: FrontierTopics = ".*",
    topics_exclude: TopicsExclude = "",
    snapshot: Snapshot = None,
    metric: MetricChoice = None,
    bands: Bands = "",
    free_ranges: FreeRanges = "",
    min_rack_ids: MinRackIds = 0,
    spread: Spread = False,
    pin: Pin = None,
    max_disk_use: MaxDiskUse = "90%",
    head_room: HeadRoom = "0",
    locality_scoped: LocalityScoped = False,
    report: PageFile = None,
    sizes_from: SizesSource = SizesFrom.BROKERS,
    metrics_age: MetricsAge = None,
    kafka_addr: KafkaAddr = "",
    zk_addr: ZkAddr = ZK_ADDR,
    zk_prefix: ZkPrefix = "",
    zk_metrics_prefix: ZkMetricsPrefix = ZK_METRICS_PREFIX,
) -> int:
    """Work out what each band of used space would cost: bytes of a real plan beside a proven lower bound.

    Writes no plan. Goals that cannot be reached are marked, with the reason; they are no failure.

    Examples:

    \b
    kafkakit --profile prod topicmappr frontier
    kafkakit topicmappr frontier --snapshot prod.json --bands 10%,5%,2% --report frontier.html
    """
    from kafkakit.core.broker_list import parse_broker_list
    from kafkakit.core.percent import parse_percent
    from kafkakit.core.quantities import parse_size
    from kafkakit.core.topic_selection import parse_patterns
    from kafkakit.topicmappr.act.cluster import Destination
    from kafkakit.topicmappr.act.garbage import without_collector
    from kafkakit.topicmappr.commands.planning import observe_storage
    from kafkakit.topicmappr.decide.frontier.request import (
        FrontierRequest,
        goal_of,
        metric_of,
        parse_bands,
        parse_ranges,
    )
    from kafkakit.topicmappr.decide.rebalance.request import RebalanceRequest

    kit = kit_of(ctx)
    pinned = parse_patterns(",".join(pin or ()))
    chosen = metric_of(metric, bands, free_ranges)
    base = RebalanceRequest(
        brokers=parse_broker_list(brokers),
        topics=parse_patterns(topics),
        topics_exclude=parse_patterns(topics_exclude),
        goal=goal_of(chosen),
        locality_scoped=locality_scoped,
        min_rack_ids=min_rack_ids,
        spread=spread,
        max_disk_use=parse_percent(max_disk_use, "--max-disk-use"),
        head_room_bytes=parse_size(head_room, "--head-room"),
        pinned=pinned,
        words={},
    )
    request = FrontierRequest(base=base, metric=chosen, bands=parse_bands(bands), free_ranges=parse_ranges(free_ranges))
    Destination(report=report).check()
    if kafka_addr:
        kit.use_bootstrap_server(kafka_addr, "flag --kafka-addr")
    with without_collector():
        seen = observe_storage(
            kit,
            snapshot,
            sizes_from=sizes_from,
            zk_addr=zk_addr,
            zk_metrics_prefix=zk_metrics_prefix,
            metrics_age=metrics_age,
        )
        given = {**locals(), "pin": ",".join(pinned)}
        words = [
            (name.replace("_", "-"), str(given[name])) for name in _REPEATED if given[name] not in ("", None, 0, "0")
        ]
        words += [("locality-scoped", "")] * locality_scoped + [("spread", "")] * spread
        return _report(kit, seen, request, words, report)


_REPEATED = ("brokers", "topics", "topics_exclude", "snapshot", "min_rack_ids", "pin", "max_disk_use", "head_room")


def _report(
    kit: "Kit", seen: "Observed", request: "FrontierRequest", words: list[tuple[str, str]], page: Path | None
) -> int:

    from kafkakit.report.report import Report
    from kafkakit.topicmappr.show.frontier import (
        COLUMNS,
        frontier_data,
        frontier_rows,
        frontier_text,
        rebalance_command,
    )
    from kafkakit.topicmappr.show.frontier_page import frontier_page
    from kafkakit.wiring import write_file

    found = _decide(kit, seen, request)
    following = rebalance_command(found, words, kit.program)
    if page is not None:
        write_file(page, frontier_page(found, following))
    kit.output.result(
        Report(
            command="topicmappr frontier",
            data=frontier_data(found, following),
            text=frontier_text(found, following, plain=_is_plain(kit)),
            columns=COLUMNS,
            rows=frontier_rows(found),
        )
    )
    return 0


def _decide(kit: "Kit", seen: "Observed", request: "FrontierRequest") -> "Frontier":
    from kafkakit.placement.bytes.tightening import Unwatched
    from kafkakit.topicmappr.decide.frontier.decision import decide_frontier

    with kit.output.progress("working out the points") as bar:

        class _Teller(Unwatched):
            def phase(self, text: str) -> None:
                bar.update(0, 0, text)

        return decide_frontier(seen.snapshot, request, seen.facts, _Teller())


def _is_plain(kit: "Kit") -> bool:
    """True when stdout cannot show block characters."""
    import sys

    if kit.output.output_file is not None or sys.stdout is None:
        return False
    return "utf" not in (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
