"""What a producer counts, and the same as gauges for Prometheus and Datadog."""

from collections.abc import Sequence
from dataclasses import dataclass

from kafkakit.core.deliveries import ConnectionFigures
from kafkakit.report.metrics_text import MetricFamily, gauge

PREFIX = "kafkakit_producer_"


@dataclass(slots=True, kw_only=True)
class LaneCounters:
    """What a lane has counted since the start; the lane's lock guards it.

    `sent_again` counts attempts after a record's first one, each of which may have made a duplicate, and no other
    attempt may. `late` are acknowledgements of records that had been answered before.
    """

    records: int = 0
    bytes: int = 0
    acknowledged: int = 0
    failed: int = 0
    sent_again: int = 0
    late: int = 0
    switches: int = 0
    last_switch_ms: float = 0.0
    longest_switch_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneFigures:
    """A lane at one moment: `waiting` records and bytes have no answer yet, the oldest of them since `oldest_ms`.

    A switch is the time from the change of the route, as this client saw it, to the first acknowledgement on the new
    segment. `problem` is why the lane cannot write now, empty where it can; `segment` 0 where it has none.
    """

    lane: str
    counters: LaneCounters
    waiting_records: int
    waiting_bytes: int
    oldest_ms: float
    segment: int
    cluster_id: str
    problem: str
    connection: ConnectionFigures | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteCondition:
    """The route that a client acts on; `problem` is why it cannot be renewed now, for `stale_s` already."""

    epoch: int
    stale_s: float = 0.0
    problem: str = ""
    ignored_documents: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerMetrics:
    """Everything at one moment."""

    stream: str
    route: RouteCondition
    lanes: tuple[LaneFigures, ...]
    header_errors: int


def producer_families(producers: Sequence[ProducerMetrics]) -> tuple[MetricFamily, ...]:
    """The gauges, in a fixed order; the label `producer` numbers those of one client."""
    labelled = [((("stream", each.stream), ("producer", str(at))), each) for at, each in enumerate(producers)]
    found = [((*labels, ("lane", lane.lane)), lane) for labels, each in labelled for lane in each.lanes]
    lanes = [lane for _, lane in found]

    def of_lanes(name: str, about: str, *values: float) -> MetricFamily:
        return gauge(name, about, *((labels, value) for (labels, _), value in zip(found, values, strict=True)))

    def of_producers(name: str, about: str, *values: float) -> MetricFamily:
        return gauge(name, about, *((labels, value) for (labels, _), value in zip(labelled, values, strict=True)))

    counters = [lane.counters for lane in lanes]
    figures = [lane.connection for lane in lanes]
    return (
        of_producers("route_epoch", "Epoch of the route in use.", *(p.route.epoch for p in producers)),
        of_producers("route_stale_seconds", "Time without the control store.", *(p.route.stale_s for p in producers)),
        of_producers("header_errors", "Records without a pathway's headers.", *(p.header_errors for p in producers)),
        of_lanes("records", "Records taken.", *(c.records for c in counters)),
        of_lanes("bytes", "Bytes of them before compression.", *(c.bytes for c in counters)),
        of_lanes("acknowledged_records", "Those that all in-sync replicas have.", *(c.acknowledged for c in counters)),
        of_lanes("failed_records", "Records given up.", *(c.failed for c in counters)),
        of_lanes("sent_again_records", "Attempts that may have made a duplicate.", *(c.sent_again for c in counters)),
        of_lanes(
            "late_acknowledgements",
            "Those of records answered before.",
            *(c.late for c in counters),
        ),
        of_lanes("waiting_records", "Records without an answer.", *(n.waiting_records for n in lanes)),
        of_lanes("waiting_bytes", "Bytes of them.", *(n.waiting_bytes for n in lanes)),
        of_lanes("oldest_seconds", "Age of the oldest of them.", *(n.oldest_ms / 1000 for n in lanes)),
        of_lanes("writable", "1 while a segment takes records.", *(float(not n.problem) for n in lanes)),
        of_lanes("switches", "Changes of the lane's segment.", *(c.switches for c in counters)),
        of_lanes("switch_seconds", "Time of the last one.", *(c.last_switch_ms / 1000 for c in counters)),
        of_lanes("longest_switch_seconds", "Time of the longest.", *(c.longest_switch_ms / 1000 for c in counters)),
        of_lanes(
            "round_trip_p99_seconds",
            "99th percentile of the worst broker's round trip.",
            *(f.round_trip_p99_ms / 1000 if f else 0.0 for f in figures),
        ),
    )
