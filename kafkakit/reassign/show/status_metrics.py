"""The status as Prometheus text exposition, for node_exporter's textfile collector.

The number of series does not grow with the cluster: copies beyond the `TOP` that miss most are summed, and runs are
those of this host that are not finished.
"""

from collections.abc import Callable

from kafkakit.execution.decide.status.runs import RunView
from kafkakit.execution.decide.status.stall import Cause
from kafkakit.execution.decide.status.state import MoveView, StatusView
from kafkakit.report.metrics_text import MetricFamily, exposition, gauge, single

PREFIX = "kafkakit_reassign_"
TOP = 20
MAX_RUNS = 20


def render_metrics(view: StatusView) -> str:
    """All families, in a fixed order."""
    families = [*_move_families(view), *_copy_families(view), *_run_families(view), *_cluster_families(view)]
    return exposition(families, PREFIX, (("cluster", view.cluster_id),))


def _move_families(view: StatusView) -> list[MetricFamily]:
    owners = (("ours", [m for m in view.moves if m.run]), ("foreign", [m for m in view.moves if not m.run]))

    def each(name: str, about: str, value: Callable[[MoveView], float]) -> MetricFamily:
        return gauge(name, about, *(((("owner", owner),), sum(map(value, moves))) for owner, moves in owners))

    return [
        each("moves", "Running reassignments, of runs on this host and of others.", lambda m: 1),
        each("copied_bytes", "Bytes copied so far by the running reassignments.", lambda m: m.copied_bytes or 0),
        each("total_bytes", "Bytes that the running reassignments copy in all.", lambda m: m.total_bytes or 0),
        each("bytes_per_second", "Rate of copying over the window of the looks.", lambda m: m.bytes_per_s or 0.0),
    ]


def _copy_families(view: StatusView) -> list[MetricFamily]:
    stalls = dict.fromkeys(Cause, 0)
    for _, copy in view.stalled:
        if copy.stall is not None:
            stalls[copy.stall.cause] += 1
    behind = [(copy.missing_bytes or 0, item, copy) for item in view.moves for copy in item.copies]
    behind.sort(key=lambda found: (-found[0], found[1].move.topic, found[1].move.partition, found[2].broker))
    top = (
        ((("topic", m.move.topic), ("partition", str(m.move.partition)), ("broker", str(c.broker))), float(missing))
        for missing, m, c in behind[:TOP]
    )
    rest = behind[TOP:]
    return [
        gauge(
            "stalled_copies",
            "Stalled new copies, by the likely reason.",
            *(((("reason", cause.value),), float(n)) for cause, n in stalls.items()),
        ),
        gauge("copy_missing_bytes", f"Bytes still to come, for the {TOP} copies that miss most.", *top),
        single("other_copies", "New copies without their own series.", len(rest)),
        single(
            "other_copies_missing_bytes",
            "Bytes still to come for the copies without their own series.",
            sum(missing for missing, _, _ in rest),
        ),
        single("inside_broker_copies", "Copies on their way to another log dir of their broker.", len(view.inside)),
        single(
            "inside_broker_offset_lag_max",
            "The most records that such a copy is behind.",
            max((i.offset_lag for i in view.inside), default=0),
        ),
    ]


def _run_families(view: StatusView) -> list[MetricFamily]:
    def each(name: str, about: str, value: Callable[[RunView], float | None]) -> MetricFamily:
        found = (((("plan", r.plan_path), ("direction", r.direction)), value(r)) for r in view.runs[:MAX_RUNS])
        return gauge(name, about, *((labels, float(number)) for labels, number in found if number is not None))

    promised = "Seconds left of the forecast made at the start; negative once it is over."
    return [
        each("run_working", "1 while the run's process holds the lease.", lambda r: r.working),
        each("run_paused", "1 while the run is paused.", lambda r: r.paused),
        each("run_left_bytes", "Bytes that the run still has to copy between brokers.", lambda r: r.left_bytes),
        each("run_eta_seconds", "Seconds until the run is done, at the present rate.", lambda r: r.eta_s),
        each("run_promised_eta_seconds", promised, lambda r: r.promised_s),
    ]


def _cluster_families(view: StatusView) -> list[MetricFamily]:
    health, counts = view.health, []
    if health is not None:
        counts = [
            single("partitions", "Partitions of the cluster.", health.partitions),
            single("under_replicated_partitions", "Partitions with too few copies in sync.", health.under_replicated),
            single("under_min_isr_partitions", "Partitions below min.insync.replicas.", health.under_min_isr),
            single("offline_partitions", "Partitions without a live leader.", health.offline),
            single("partitions_counted_timestamp_seconds", "When the partitions were counted.", health.at.timestamp()),
        ]
    held = "1 while a process holds the lease to change the cluster."
    seen = "When the cluster was last looked at; alert when it gets old."
    return [
        *counts,
        single("throttled_brokers", "Brokers with a replication throttle.", len(view.throttled.brokers)),
        single("throttled_topics", "Topics with a list of throttled replicas.", len(view.throttled.topics)),
        *([single("lease_held", held, view.lease.is_held)] if view.lease is not None else []),
        single("window_seconds", "The time over which rates were taken.", view.window_s),
        single("look_timestamp_seconds", seen, view.at.timestamp()),
    ]
