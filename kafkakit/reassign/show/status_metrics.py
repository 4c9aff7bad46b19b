"""The status as Prometheus text exposition, format 0.0.4, for node_exporter's textfile collector.

The number of series does not grow with the cluster: copies beyond the `TOP` that miss most are summed, and runs are
those of this host that are not finished. https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafkakit.execution.decide.status.runs import RunView
from kafkakit.execution.decide.status.stall import Cause
from kafkakit.execution.decide.status.state import MoveView, StatusView

PREFIX = "kafkakit_reassign_"
TOP = 20
MAX_RUNS = 20

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A gauge with its help and its samples; one without samples is left out."""

    name: str
    help: str
    samples: tuple[tuple[Labels, float], ...]


def render_metrics(view: StatusView) -> str:
    """All families, in a fixed order."""
    cluster = ("cluster", view.cluster_id)
    families = [*_move_families(view), *_copy_families(view), *_run_families(view), *_cluster_families(view)]
    lines: list[str] = []
    for family in families:
        if family.samples:
            name = PREFIX + family.name
            lines += [f"# HELP {name} {_help(family.help)}", f"# TYPE {name} gauge"]
            lines += [f"{name}{_labels((cluster, *labels))} {_number(value)}" for labels, value in family.samples]
    return "\n".join(lines) + "\n"


def _move_families(view: StatusView) -> list[Family]:
    groups: Mapping[str, list[MoveView]] = {
        "ours": [m for m in view.moves if m.run],
        "foreign": [m for m in view.moves if not m.run],
    }

    def each(of: "Iterable[tuple[str, float]]") -> tuple[tuple[Labels, float], ...]:
        return tuple(((("owner", owner),), value) for owner, value in of)

    counts = each((o, len(g)) for o, g in groups.items())
    copied = each((o, sum(m.copied_bytes or 0 for m in g)) for o, g in groups.items())
    total = each((o, sum(m.total_bytes or 0 for m in g)) for o, g in groups.items())
    rates = each((o, sum(m.bytes_per_s or 0.0 for m in g)) for o, g in groups.items())
    return [
        Family(name="moves", help="Running reassignments, of runs on this host and of others.", samples=counts),
        Family(name="copied_bytes", help="Bytes copied so far by the running reassignments.", samples=copied),
        Family(name="total_bytes", help="Bytes that the running reassignments copy in all.", samples=total),
        Family(name="bytes_per_second", help="Rate of copying over the window of the looks.", samples=rates),
    ]


def _copy_families(view: StatusView) -> list[Family]:
    stalls = dict.fromkeys(Cause, 0)
    for _, copy in view.stalled:
        if copy.stall is not None:
            stalls[copy.stall.cause] += 1
    behind = [(copy.missing_bytes or 0, item, copy) for item in view.moves for copy in item.copies]
    behind.sort(key=lambda found: (-found[0], found[1].move.topic, found[1].move.partition, found[2].broker))
    top = tuple(
        (
            (("topic", item.move.topic), ("partition", str(item.move.partition)), ("broker", str(copy.broker))),
            float(missing),
        )
        for missing, item, copy in behind[:TOP]
    )
    rest = behind[TOP:]
    return [
        Family(
            name="stalled_copies",
            help="New copies that stand still, by the likely reason.",
            samples=tuple(((("reason", cause.value),), float(n)) for cause, n in stalls.items()),
        ),
        Family(
            name="copy_missing_bytes", help=f"Bytes still to come, for the {TOP} copies that miss most.", samples=top
        ),
        Family(
            name="other_copies", help="New copies that have no series of their own.", samples=(((), float(len(rest))),)
        ),
        Family(
            name="other_copies_missing_bytes",
            help="Bytes still to come for the copies that have no series of their own.",
            samples=(((), float(sum(missing for missing, _, _ in rest))),),
        ),
        Family(
            name="inside_broker_copies",
            help="Copies on their way to another log dir of their broker.",
            samples=(((), float(len(view.inside))),),
        ),
        Family(
            name="inside_broker_offset_lag_max",
            help="The most records that such a copy is behind.",
            samples=(((), float(max((i.offset_lag for i in view.inside), default=0))),),
        ),
    ]


def _run_families(view: StatusView) -> list[Family]:
    runs = view.runs[:MAX_RUNS]

    def each(values: "Iterable[tuple[RunView, float | None]]") -> tuple[tuple[Labels, float], ...]:
        return tuple(
            ((("plan", r.plan_path), ("direction", r.direction)), value) for r, value in values if value is not None
        )

    return [
        Family(
            name="run_working",
            help="1 while the run's process holds the lease.",
            samples=each((r, float(r.working)) for r in runs),
        ),
        Family(name="run_paused", help="1 while the run is paused.", samples=each((r, float(r.paused)) for r in runs)),
        Family(
            name="run_left_bytes",
            help="Bytes that the run still has to copy between brokers.",
            samples=each((r, None if r.left_bytes is None else float(r.left_bytes)) for r in runs),
        ),
        Family(
            name="run_eta_seconds",
            help="Seconds until the run is done, at the present rate.",
            samples=each((r, r.eta_s) for r in runs),
        ),
        Family(
            name="run_promised_eta_seconds",
            help="Seconds left of the time promised before the first byte; negative once it is over.",
            samples=each((r, r.promised_s) for r in runs),
        ),
    ]


def _cluster_families(view: StatusView) -> list[Family]:
    health = view.health
    counts: tuple[tuple[str, str, float], ...] = ()
    if health is not None:
        counts = (
            ("partitions", "Partitions of the cluster.", health.partitions),
            ("under_replicated_partitions", "Partitions with too few copies in sync.", health.under_replicated),
            ("under_min_isr_partitions", "Partitions below min.insync.replicas.", health.under_min_isr),
            ("offline_partitions", "Partitions without a living leader.", health.offline),
            ("partitions_counted_timestamp_seconds", "When the partitions were counted.", health.at.timestamp()),
        )  # fmt: skip
    held = () if view.lease is None else (((), float(view.lease.is_held)),)
    return [
        *(Family(name=name, help=text, samples=(((), float(value)),)) for name, text, value in counts),
        Family(
            name="throttled_brokers",
            help="Brokers with a replication throttle.",
            samples=(((), float(len(view.throttled.brokers))),),
        ),
        Family(
            name="throttled_topics",
            help="Topics with a list of throttled replicas.",
            samples=(((), float(len(view.throttled.topics))),),
        ),
        Family(name="lease_held", help="1 while somebody may change the cluster.", samples=held),
        Family(name="window_seconds", help="The time over which rates were taken.", samples=(((), view.window_s),)),
        Family(
            name="look_timestamp_seconds",
            help="When the cluster was last looked at; alert when it gets old.",
            samples=(((), view.at.timestamp()),),
        ),
    ]


def _labels(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(round(value, 3))
