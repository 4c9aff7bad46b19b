"""How clusters are, when a stream is failed over without an operator, where the Assigner stands, and its reports.

Automatic failover is off by default, and never happens by the word of one process alone. A cluster is judged by probes:
each reason against it is taken up after a while, and given up after a longer one.

The Assigner in charge writes what it sees into the control store, so that `show` and people see it too. Why a partition
is read where it is follows from the documents of the control store.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from kafkakit.core.documents import DocumentKind
from kafkakit.core.errors import UsageError
from kafkakit.core.lease import MAX_TTL_S, LeaseRecord
from kafkakit.core.options import REPEATED, duration_option, not_typed, option, parsed_option
from kafkakit.core.quantities import count_of, format_duration, parse_percent
from kafkakit.core.text import plain_value
from kafkakit.report.report import Part, Report, ResultTable, Section, cap_lines
from kafkakit.streams.assigner.decide.assignment import FleetShape, SimulatedEvent
from kafkakit.streams.client.api import GrantDocument, PartitionKey, WorkerDocument
from kafkakit.streams.model.route import DLQ, Route

DAY_MS = 24 * 3_600_000
HISTORY_PATH = "assigner/automatic"
PROBE_S = 0.4
SHORTEST_DOWN_S = 2 * PROBE_S
TICKS_PER_LEASE = 3
MOST_KEPT = 500


class AutomaticMode(StrEnum):
    """What is done where the policy would fail over."""

    OFF = "off"
    DRY_RUN = "dry-run"
    ON = "on"


def _targets(given: Sequence[str] | None) -> Mapping[str, str]:
    pairs = [each.partition("=") for each in given or ()]
    if not all(source and target for source, _, target in pairs):
        raise UsageError("--failover-target is FROM=TO, two profiles")
    if len({source for source, _, _ in pairs}) < len(pairs):
        raise UsageError("--failover-target names two targets for one cluster")
    return {source: target for source, _, target in pairs}


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomaticPolicy:
    """A stream is failed over when one of its written segments is on a cluster that nothing reaches.

    The Assigner's own probes must have failed for `confirm_s`, and of the workers that read the cluster at least
    `witnesses`, and the part `quorum` of all of them, got no answer either. `targets` are profiles by profile: a
    cluster without one is left alone. A stream is not moved again for `cool_down_s`, and at most `per_day` are moved in
    24 h.
    """

    mode: AutomaticMode = option(
        AutomaticMode.OFF,
        "--auto-failover",
        help="Fail streams over from a cluster that nothing reaches: off, dry-run (only report), on.",
    )
    targets: Mapping[str, str] = parsed_option(
        None,
        "--failover-target",
        typed=REPEATED,
        parse=_targets,
        metavar="FROM=TO",
        help="Profile to fail a cluster's streams over to. Repeatable; a cluster without one is not failed over.",
    )
    confirm_s: float = duration_option("10s", "--confirm", help="How long the cluster must be unreachable first.")
    witnesses: int = option(
        2, "--witnesses", min=1, metavar="N", help="Number of workers that must also see the cluster as down."
    )
    quorum: float = option(
        0.6, "--quorum", min=0.51, max=1.0, metavar="PART", help="Share of the cluster's workers that must agree."
    )
    cool_down_s: float = duration_option(
        "1h", "--cool-down", help="Minimum time between two automatic failovers of one stream."
    )
    per_day: int = option(
        10,
        "--failovers-a-day",
        min=1,
        max=500,
        metavar="N",
        help="Maximum number of streams that are failed over automatically in 24 h.",
    )

    def __post_init__(self) -> None:
        if self.mode is not AutomaticMode.OFF and not self.targets:
            raise UsageError("automatic failover needs a target", hint="--failover-target FROM=TO")
        if any(source == target for source, target in self.targets.items()):
            raise UsageError("a cluster cannot be its own target of a failover")
        if self.witnesses < 1 or not 0.5 < self.quorum <= 1 or not 1 <= self.per_day <= MOST_KEPT:
            raise UsageError(
                "automatic failover needs a witness or more, a quorum above half, and a budget",
                hint=f"--failovers-a-day is 1 to {MOST_KEPT}",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomaticStart:
    """A failover that was started by itself."""

    stream: str
    source: str
    target: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomaticHistory:
    """Those of the last day, oldest first."""

    starts: tuple[AutomaticStart, ...] = ()

    def with_start(self, start: AutomaticStart) -> "AutomaticHistory":
        """Add a start; what is older than a day is left out."""
        return AutomaticHistory(
            starts=(*(each for each in self.starts if start.at_ms - each.at_ms < DAY_MS), start)[-MOST_KEPT:]
        )


HISTORY_DOCUMENT = DocumentKind("stream-automatic-failovers", AutomaticHistory)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyVerdict:
    """What the policy says of one stream on an unreachable cluster; `why_not` is empty where it is to be moved.

    With `continues` the failover was started before, and has not sent producers elsewhere yet.
    """

    stream: str
    source: str
    target: str
    why_not: str = ""
    continues: bool = False


class HealthReason(StrEnum):
    """What may be wrong with a cluster."""

    UNREACHABLE = "unreachable"
    NO_CONTROLLER = "no-controller"
    OFFLINE = "offline-partitions"
    UNDER_MIN_ISR = "under-min-isr"
    SLOW = "slow"
    DISK_FULL = "disk-full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One look at a cluster that was answered: began at `sent_s` (monotonic clock), took `latency_s`.

    Counts are of the partitions that were looked at; `disk_used` is the fullest log dir's part in use, None: unknown.
    """

    sent_s: float
    latency_s: float
    has_controller: bool = True
    offline: int = 0
    under_min_isr: int = 0
    disk_used: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonWatch:
    """A reason now: whether it counts, whether the newest look shows it, and since when that one says so."""

    counts: bool
    holds: bool
    since_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHealth:
    """A cluster as it is judged: the reasons that were ever seen, and the newest probe."""

    watches: Mapping[HealthReason, ReasonWatch] = field(default_factory=dict)
    probe: Probe | None = None

    @property
    def reasons(self) -> tuple[HealthReason, ...]:
        """What is wrong, in the order of `HealthReason`; none for a healthy cluster."""
        return tuple(each for each in HealthReason if each in self.watches and self.watches[each].counts)

    @property
    def is_reachable(self) -> bool:
        """Whether clients may be expected to get answers."""
        return HealthReason.UNREACHABLE not in self.reasons

    def since_s(self, reason: HealthReason) -> float:
        """Since when (monotonic clock) the reason was shown by every look; infinite where it is not."""
        found = self.watches.get(reason)
        return found.since_s if found is not None and found.holds else float("inf")


def verdicts(
    policy: AutomaticPolicy,
    routes: Collection[Route],
    health: Mapping[str, ClusterHealth],
    seen: Mapping[str, tuple[int, int]],
    history: AutomaticHistory,
    *,
    now_s: float,
    now_ms: int,
) -> tuple[PolicyVerdict, ...]:
    """A verdict for each stream that is written to an unreachable cluster, by stream; `seen` are workers' witnesses.

    `health` and `seen` are by cluster id; `now_s` is the monotonic clock of `health`.
    """
    if policy.mode is AutomaticMode.OFF:
        return ()
    left = policy.per_day - sum(now_ms - each.at_ms < DAY_MS for each in history.starts)
    by_profile = {}
    for route in routes:
        by_profile.update({profile: cluster_id for cluster_id, profile in route.clusters.items()})
    found = []
    for route in sorted(routes, key=lambda route: route.stream):
        for cluster_id, profile in sorted(route.clusters.items()):
            state = health.get(cluster_id)
            is_written = any(lane.active is not None and lane.active.cluster_id == cluster_id for lane in route.lanes)
            if state is None or state.is_reachable or not is_written:
                continue
            target = policy.targets.get(profile, "")
            ours = [each for each in history.starts if (each.stream, each.target) == (route.stream, target)]
            if route.operation is not None and ours and now_ms - ours[-1].at_ms < DAY_MS:
                found.append(PolicyVerdict(stream=route.stream, source=profile, target=target, continues=True))
                break
            why_not = (
                _why_unproven(policy, state, seen.get(cluster_id, (0, 0)), now_s)
                or _why_unfit(route, target, health.get(by_profile.get(target, "")))
                or _why_unpermitted(policy, route, history.starts, left, now_ms)
            )
            left -= not why_not
            found.append(PolicyVerdict(stream=route.stream, source=profile, target=target, why_not=why_not))
            break
    return tuple(found)


def _why_unproven(policy: AutomaticPolicy, state: ClusterHealth, seen: tuple[int, int], now_s: float) -> str:
    answered, silent = seen
    down_s = now_s - state.since_s(HealthReason.UNREACHABLE)
    if down_s < policy.confirm_s:
        return f"unreachable for {max(0.0, down_s):.1f} s of {policy.confirm_s:g} s"
    if silent < policy.witnesses or silent < policy.quorum * (answered + silent):
        return f"{silent} of {answered + silent} workers got no answer"
    return ""


def _why_unfit(route: Route, target: str, state: ClusterHealth | None) -> str:
    if not target:
        return "no target for its cluster"
    if route.operation is not None:
        return f"operation {route.operation.id} is open"
    if state is not None and state.reasons:
        return f"the target is not healthy: {', '.join(state.reasons)}"
    return ""


def _why_unpermitted(
    policy: AutomaticPolicy, route: Route, starts: Sequence[AutomaticStart], left: int, now_ms: int
) -> str:
    newest = max((each.at_ms for each in starts if each.stream == route.stream), default=None)
    if newest is not None and now_ms - newest < policy.cool_down_s * 1000:
        return f"moved {(now_ms - newest) / 1000:.0f} s ago, the next time after {policy.cool_down_s:g} s"
    if left <= 0:
        return f"the budget of {policy.per_day} a day is used"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRules:
    """A cluster is unreachable when no probe that was sent in the last `down_s` was answered.

    Other reasons must hold for `enter_s`. A reason is over when it did not hold for `leave_s`, so that a cluster that
    comes and goes is not healthy in between.
    """

    down_s: float = duration_option(
        "1.5s", "--down-after", help="A cluster that is silent for this long is unreachable."
    )
    enter_s: float = not_typed(5.0)
    leave_s: float = duration_option(
        "30s", "--healthy-after", help="A problem counts as over when it was not seen for this long."
    )
    slow_s: float = not_typed(1.0)
    disk_used: float = parsed_option(
        "90%",
        "--max-disk-use",
        parse=lambda text: float(parse_percent(text, "--max-disk-use")),
        metavar="PERCENT",
        help="A cluster with a fuller log dir is not healthy: disk-full.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignerOptions:
    """The times of the loop: a tick every `tick_s`, a lease of `lease_ttl_s`.

    Partitions move for balance when no worker came or went for `balance_after_s`.
    """

    tick_s: float = duration_option("200ms", "--tick", help="How often workers are checked.")
    lease_ttl_s: float = duration_option(
        "1.8s", "--lease-ttl", help="How long another Assigner waits before it takes over."
    )
    balance_after_s: float = duration_option(
        "1m", "--balance-after", help="Move partitions for balance when no worker came or went for this long."
    )
    health: HealthRules = HealthRules()

    def __post_init__(self) -> None:
        # A lease is renewed once a third of its time is over, and counts for four fifths of it.
        if not TICKS_PER_LEASE * self.tick_s <= self.lease_ttl_s <= MAX_TTL_S:
            raise UsageError(
                f"a lease of {format_duration(self.lease_ttl_s)} cannot be kept with a tick of "
                f"{format_duration(self.tick_s)}",
                hint=f"--lease-ttl is {TICKS_PER_LEASE} times --tick or more, and at most {format_duration(MAX_TTL_S)}",
            )
        if self.health.down_s < SHORTEST_DOWN_S:
            raise UsageError(
                f"a cluster cannot be told to be unreachable within {format_duration(self.health.down_s)}",
                hint=f"it is asked every {format_duration(PROBE_S)}: --down-after is "
                f"{format_duration(SHORTEST_DOWN_S)} or more",
            )


def judge_health(
    earlier: ClusterHealth | None, probe: Probe | None, began_s: float, now_s: float, rules: HealthRules
) -> ClusterHealth:
    """The health after a look; `probe` is the newest answer, None where none ever came since `began_s`."""
    before = earlier.watches if earlier is not None else {}
    answered_s = probe.sent_s if probe is not None else began_s
    shown = {HealthReason.UNREACHABLE: now_s - answered_s >= rules.down_s}
    if probe is not None and not shown[HealthReason.UNREACHABLE]:
        shown[HealthReason.NO_CONTROLLER] = not probe.has_controller
        shown[HealthReason.OFFLINE] = probe.offline > 0
        shown[HealthReason.UNDER_MIN_ISR] = probe.under_min_isr > 0
        shown[HealthReason.SLOW] = probe.latency_s >= rules.slow_s
        shown[HealthReason.DISK_FULL] = probe.disk_used is not None and probe.disk_used >= rules.disk_used
    watches = dict(before)
    for reason, holds in shown.items():
        watches[reason] = _watch_reason(before.get(reason), holds, reason, now_s, rules)
    return ClusterHealth(watches=watches, probe=probe)


def _watch_reason(
    before: ReasonWatch | None, holds: bool, reason: HealthReason, now_s: float, rules: HealthRules
) -> ReasonWatch:
    since_s = before.since_s if before is not None and before.holds == holds else now_s
    counted = before is not None and before.counts
    if holds:
        counts = counted or reason is HealthReason.UNREACHABLE or now_s - since_s >= rules.enter_s
    else:
        counts = counted and now_s - since_s < rules.leave_s
    return ReasonWatch(counts=counts, holds=holds, since_s=since_s)


STANDING_PATH, DRAINS_FOLDER = "assigner/standing", "assigner/drains"
MOST_LINES = 100
_Text = Annotated[str, Meta(max_length=1000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStanding:
    """A cluster as the Assigner judges it, and what workers see of it."""

    cluster_id: _Text
    profile: _Text
    reasons: tuple[_Text, ...] = ()
    latency_ms: int = 0
    answering: int = 0
    silent: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignerStanding:
    """Where an Assigner stands: counts of the last step, clusters, groups' lag, and lines about what it did or not.

    `waiting` partitions are still held by their last owner, `unserved` have no worker that may take them.
    """

    token: int
    at_ms: int
    workers: int
    partitions: int
    waiting: int = 0
    unserved: int = 0
    clusters: tuple[ClusterStanding, ...] = ()
    lags: tuple[tuple[_Text, _Text, int], ...] = ()
    automatic: tuple[_Text, ...] = ()
    problems: tuple[_Text, ...] = ()


STANDING_DOCUMENT = DocumentKind("stream-assigner", AssignerStanding)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedPartition:
    """One partition: its lane and segment, its owner (empty for none) and epoch, and why."""

    key: PartitionKey
    lane: str
    segment: int
    slot: str
    epoch: int
    why: str


def explain_partitions(
    route: Route,
    group: str,
    workers: Mapping[str, WorkerDocument],
    grants: Mapping[str, GrantDocument],
    draining: frozenset[str],
) -> tuple[ExplainedPartition, ...]:
    """All partitions that a group reads of a stream; `UsageError` where no worker handles the group."""
    serving = {
        slot: each.lanes
        for slot, document in workers.items()
        for each in document.subscriptions
        if (each.stream, each.group) == (route.stream, group)
    }
    if not serving:
        raise UsageError(f"no worker handles group {group} of stream {route.stream}")
    grouped = sorted(
        slot
        for slot in serving
        if any((s.stream, s.group, s.is_grouped) == (route.stream, group, True) for s in workers[slot].subscriptions)
    )
    owners = {key: (slot, epoch) for slot, document in grants.items() for key, epoch in document.leases()}
    counts = Counter(slot for key, (slot, _) in owners.items() if (key.stream, key.group) == (route.stream, group))
    late = sorted(slot for slot in serving if slot in grants and workers[slot].round < grants[slot].round)
    found = []
    for lane, segment in route.segments():
        able = [s for s, lanes in serving.items() if (lane.name in lanes if lanes else lane.name != DLQ)]
        for partition in range(segment.partitions):
            key = PartitionKey(route.stream, group, segment.cluster_id, segment.topic, partition)
            slot, epoch = owners.get(key, ("", 0))
            why = _why_not_granted(slot, workers, draining, able, grouped, late, counts, is_paused=lane.is_paused)
            found.append(
                ExplainedPartition(key=key, lane=lane.name, segment=segment.id, slot=slot, epoch=epoch, why=why)
            )
    return tuple(found)


def _why_not_granted(
    slot: str,
    workers: Mapping[str, WorkerDocument],
    draining: frozenset[str],
    able: list[str],
    grouped: list[str],
    late: list[str],
    counts: Counter[str],
    *,
    is_paused: bool,
) -> str:
    if slot and slot in workers:
        may = sorted({slot, *(each for each in able if workers[each].id not in draining)})
        state = "it has let nothing go yet" if slot in late else "it keeps what it has while loads are even"
        capacity = sum(workers[each].capacity for each in may)
        return (
            f"one of {len(may)} that may read it: it has {counts[slot]} of {counts.total()} partitions, and "
            f"{workers[slot].capacity} of their capacity of {capacity}; {state}"
        )
    if slot:
        return f"its worker {slot} is gone; another one gets it with the next step"
    if is_paused:
        return "its lane is paused"
    if grouped:
        return f"read by Kafka's group: {', '.join(grouped)} found no Assigner"
    if not able:
        return "no worker reads this lane"
    if late:
        return f"waits until {', '.join(late)} keeps to its newest grant"
    if all(workers[each].id in draining or workers[each].is_leaving for each in able):
        return "all workers that may read it are drained"
    return "granted with the next step"


_MOST_LINES = 200


def standing_report(
    standing: AssignerStanding | None,
    lease: LeaseRecord | None,
    workers: Mapping[str, WorkerDocument],
    grants: Mapping[str, GrantDocument],
    draining: AbstractSet[str],
    history: AutomaticHistory,
) -> Report:
    """Where the Assigner stands; what is shown of workers is what they wrote last."""
    rows = tuple(_worker_row(slot, document, grants.get(slot), draining) for slot, document in sorted(workers.items()))
    columns = ("worker", "id", "host", "zone", "capacity", "partitions", "cpu", "memory", "records/s", "state")
    known = ResultTable(columns, rows, "Workers:")
    held = "no Assigner was ever in charge" if lease is None else f"in charge: {lease}"
    sections: list[Part] = [held]
    if standing is not None:
        clusters = [
            (each.cluster_id, each.profile, ", ".join(each.reasons) or "healthy", each.latency_ms, each.answering,
             each.silent)
            for each in standing.clusters
        ]  # fmt: skip
        lags = [f"group {group} on cluster {cluster_id}: {lag:,} records" for cluster_id, group, lag in standing.lags]
        sections += [
            f"token {standing.token}: {standing.partitions:,} partitions on {standing.workers:,} workers, "
            f"{standing.waiting:,} wait for their last worker, {standing.unserved:,} have none",
            ResultTable(("cluster", "profile", "state", "latency ms", "answering", "silent"), clusters, "Clusters:"),
            Section("Not committed yet:", lags),
            Section("Automatic failover:", standing.automatic),
            Section("Problems:", standing.problems),
        ]
    starts = [f"stream {each.stream} from {each.source} to {each.target}" for each in history.starts]
    return Report(
        command="streams assigner show",
        data={
            "holder": None if lease is None or lease.holder is None else str(lease.holder),
            "standing": plain_value(standing),
            "workers": known.records(),
            "automatic": plain_value(history.starts),
        },
        sections=(
            *sections,
            known,
            Section("Moved by itself in the last day:", starts),
        ),
        table=known,
    )


def drain_report(worker: WorkerDocument, left: int, code: int, *, is_undone: bool, is_plan: bool = False) -> Report:
    """How far a drain came; `is_plan`: nothing is done, and `left` is what the worker has."""
    state = "not drained any more" if is_undone else "drained" if not left else f"{left:,} partitions left"
    if is_plan:
        verb = "would get partitions again" if is_undone else f"would lose {count_of(left, 'partition')}"
        state = f"{verb}; nothing is done"
    return Report(
        command="streams assigner drain",
        data={"worker": worker.id, "partitions": left, "drains": not is_undone, "is_plan": is_plan},
        sections=(f"worker {worker.id} ({worker.holder}): {state}",),
        table=ResultTable(("worker", "partitions"), ((worker.id, left),)),
        code=code,
    )


def explain_report(stream: str, group: str, found: Sequence[ExplainedPartition]) -> Report:
    """Which worker reads each partition, and why."""
    rows = tuple(
        (each.lane, each.segment, each.key.cluster_id, each.key.partition, each.slot or "-", each.epoch, each.why)
        for each in found
    )
    table = ResultTable(("lane", "segment", "cluster", "partition", "worker", "epoch", "why"), rows)
    return Report(
        command="streams assigner explain",
        data={"stream": stream, "group": group, "partitions": table.records()},
        sections=(
            f"stream {stream}, group {group}: {sum(bool(each.slot) for each in found)} of {len(found)} partitions",
            Section("Partitions:", cap_lines(tuple(table.lines()), str, _MOST_LINES)),
        ),
        table=table,
    )


def _worker_row(
    slot: str, document: WorkerDocument, grant: GrantDocument | None, draining: AbstractSet[str]
) -> tuple[object, ...]:
    count = sum(len(topic.partitions) for topic in grant.topics) if grant is not None else 0
    state = "ready"
    if any(each.is_grouped for each in document.subscriptions):
        state = "member of Kafka's groups"
    if document.id in draining:
        state = "draining"
    if document.is_leaving:
        state = "leaving"
    if grant is not None and document.round < grant.round:
        state += ", behind its grant"
    reading = document.reading
    return (slot, document.id, document.holder.host, document.zone or "-", document.capacity, count, reading.cpu,
            reading.memory_bytes, reading.records_per_s, state)  # fmt: skip


COLUMNS = ("event", "dead workers had", "moved", "unserved", "steps", "fullest", "emptiest")


def simulation_report(shape: FleetShape, events: Sequence[SimulatedEvent]) -> Report:
    """What each event led to; `fullest` and `emptiest` are parts of a worker's share."""
    rows = tuple(
        (each.what, each.share, each.moved, each.unserved, each.steps, round(each.fullest, 2), round(each.emptiest, 2))
        for each in events
    )
    return Report(
        command="streams assigner simulate",
        data={"fleet": plain_value(shape), "events": plain_value(tuple(events))},
        sections=(
            f"{shape.streams * shape.partitions:,} partitions of {shape.streams:,} streams on {shape.clusters:,} "
            f"clusters, {shape.workers:,} workers in {count_of(shape.pools, 'pool')}, seed {shape.seed}",
            ResultTable(COLUMNS, rows, "Events:"),
        ),
    )
