"""What the readings of a cluster come to: one word for its health, findings worst first, and figures of each part.

An error is what clients fail of, or what puts data at risk now; a warning what one more fault turns into that; a note
is worth knowing. What could not be read is not known, and never looks good: a cluster whose brokers, controllers or
partitions were not read has no health but `unknown`, unless what was read is an error already; with another part that
was not read it has `warning` at best.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from kafkakit.core.cluster_facts import (
    BrokerLogDirs,
    ClusterInfo,
    GroupListing,
    MetadataVersion,
    PartitionHealth,
    PartitionState,
    Quorum,
)
from kafkakit.core.errors import ExitCode
from kafkakit.core.findings import (
    FailOn,
    Finding,
    Rule,
    Severity,
    fails,
    in_order,
    least_in_sync,
    shorten,
    stops_above_replicas,
)
from kafkakit.core.model import BrokerState, TopicPartition
from kafkakit.core.quantities import count_of, format_rate, format_rough_time
from kafkakit.core.text import few_of, shell_command
from kafkakit.execution.decide.status import StatusView
from kafkakit.status.decide.delays import (
    GROUP_LAG,
    GROUP_LOST,
    GROUP_STATE,
    GROUP_STOPPED,
    GroupDelay,
    GroupTrouble,
    MeasuredDelays,
)
from kafkakit.status.decide.history import NO_HISTORY, StatusHistory, age_s, disk_use
from kafkakit.status.decide.ignore import NOTHING_IGNORED, IgnoreRules
from kafkakit.status.decide.surroundings import (
    CERTIFICATE,
    DIR_OFFLINE,
    DISK,
    NO_CONTROLLER,
    POD_CHECKS,
    QUORUM_LAG,
    SERVICE_STOPPED,
    VERSIONS,
    LintSummary,
    OpenOperation,
    SeenService,
    certificate_findings,
    cordon_findings,
    disk_findings,
    moves_words,
    pod_findings,
    quorum_findings,
    service_findings,
    version_findings,
)

if TYPE_CHECKING:
    from kafkakit.kubernetes.brokers import ClusterPods

SHOWN_NAMES = 3


class Health(StrEnum):
    """The one word, worst last."""

    OK = "ok"
    WARNING = "warning"
    UNKNOWN = "unknown"
    ERROR = "error"


class PartName(StrEnum):
    """What is read of a cluster, in the order in which it is shown."""

    BROKERS = "brokers"
    CONTROLLER = "controller"
    PARTITIONS = "partitions"
    DISK = "disk"
    MOVES = "moves"
    THROTTLES = "throttles"
    GROUPS = "groups"
    LAG = "lag"
    TIME_LAG = "time_lag"
    STREAMS = "streams"
    SERVICES = "services"
    CERTIFICATES = "certificates"
    LINT = "lint"
    VERSIONS = "versions"
    PODS = "pods"


ESSENTIAL = (PartName.BROKERS, PartName.CONTROLLER, PartName.PARTITIONS)
"""Without these nothing can be said of a cluster's health."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """How one reading ended: `error` says why nothing came, `code` its kind, `is_denied` that a right is missing."""

    name: PartName
    took_ms: int = 0
    error: str = ""
    code: ExitCode = ExitCode.TRY_LATER
    is_denied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReading:
    """All that was read of one cluster at `at`; what is None was not read, and `parts` say why.

    `min_isr` has topics with a partition that is not whole, `disks` the log dirs without their replicas, `rates` each
    broker's replication throttles, `certificates` when that of each broker's listener ends (empty without TLS).
    `measured` is what a lag monitor found, which `lag` has joined with what is seen now. `services` are kafkakit's own
    that ever led; `versions` has the protocol version of each broker before Kafka 4, `metadata` is of KRaft.
    `pods` are what a file of Kubernetes holds of its brokers. `sandbox` names the sandbox that it is, whose brokers
    kafkakit can start; empty for other clusters. `is_whole`: no topic is hidden for want of rights, made sure of where
    it matters. `cordoned` brokers come with the reason.
    """

    profile: str
    at: datetime
    took_ms: int = 0
    parts: tuple[Part, ...] = ()
    info: ClusterInfo | None = None
    quorum: Quorum | None = None
    partitions: PartitionHealth | None = None
    min_isr: Mapping[str, int] = field(default_factory=dict)
    disks: Mapping[int, BrokerLogDirs] | None = None
    rates: Mapping[int, Mapping[str, str]] | None = None
    moves: StatusView | None = None
    groups: tuple[GroupListing, ...] | None = None
    lag: tuple[GroupDelay, ...] | None = None
    measured: MeasuredDelays | None = None
    services: tuple[SeenService, ...] | None = None
    versions: Mapping[int, str] | None = None
    metadata: Mapping[int, MetadataVersion] | None = None
    certificates: Mapping[int, datetime] | None = None
    lint: LintSummary | None = None
    operations: tuple[OpenOperation, ...] | None = None
    cordoned: Mapping[int, str] | None = None
    pods: "ClusterPods | None" = None
    program: str = "kafkakit"
    sandbox: str = ""
    is_whole: bool = False
    ignore: IgnoreRules = NOTHING_IGNORED

    def failure_of(self, name: PartName) -> str:
        """Why a part was not read; empty if it was."""
        return next((part.error for part in self.parts if part.name is name), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusThresholds:
    """From where on a figure is a finding."""

    disk_warning: float = 0.85
    disk_error: float = 0.90
    disk_left_s: float = 6 * 3600.0
    voter_behind_ms: int = 10_000
    not_preferred: float = 0.10
    certificate_warning: timedelta = timedelta(days=30)
    certificate_error: timedelta = timedelta(days=7)
    move_grace_s: float = 900.0
    retention_left_s: float = 6 * 3600.0


THRESHOLDS = StatusThresholds()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatus:
    """One broker; `short` counts its replicas that are not in sync, None stands for what is not known."""

    id: int
    rack: str | None
    state: str
    leaders: int | None
    replicas: int | None
    short: int | None
    used_bytes: int | None = None
    total_bytes: int | None = None
    fullest_dir: str = ""
    fullest: float | None = None
    throttle: str = ""
    certificate_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCounts:
    """Partitions as Kafka's own metrics count them: a partition may be in several of these."""

    total: int
    offline: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    under_replicated: int = 0
    not_preferred: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """One cluster's health with what it rests on; `since` has when a finding was first seen here.

    Findings that its owners do not want to be told are `ignored`, and nothing rests on those.
    """

    reading: ClusterReading
    health: Health
    findings: tuple[Finding, ...]
    brokers: tuple[BrokerStatus, ...] = ()
    counts: PartitionCounts | None = None
    since: Mapping[str, float] = field(default_factory=dict)
    ignored: tuple[Finding, ...] = ()

    @property
    def ignored_words(self) -> str:
        """How many findings are ignored, and what asked for it; empty for none."""
        return f"{len(self.ignored)} ignored by {self.reading.ignore.source}" if self.ignored else ""

    @property
    def unread(self) -> tuple[Part, ...]:
        """The parts that could not be read."""
        return tuple(part for part in self.reading.parts if part.error)

    @property
    def worst(self) -> str:
        """The worst finding in a word, or why nothing is known."""
        if self.health is Health.UNKNOWN:
            return next((part.error for part in self.unread if part.name in ESSENTIAL), "")
        told = [f.rule for f in self.findings if f.severity is not Severity.NOTE]
        return next(iter(told), self.unread_words or (self.findings[0].rule if self.findings else ""))

    @property
    def unread_words(self) -> str:
        """How many parts are not known, and which; empty for none."""
        names = [part.name.value for part in self.unread]
        return f"{count_of(len(names), 'part')} not known: {shorten(names)}" if names else ""


def _rule(name: str, severity: Severity, about: str, repair: str = "") -> Rule:
    return Rule(name=name, severity=severity, about=about, repair=repair)


BROKER_DOWN = _rule("broker-down", Severity.ERROR, "every broker with replicas is alive")
BROKER_HANGS = _rule("broker-hangs", Severity.ERROR, "every live broker answers")
OFFLINE = _rule("offline", Severity.ERROR, "every partition has a leader that is alive")
UNDER_MIN_ISR = _rule("under-min-isr", Severity.ERROR, "producers with acks=all can write")
AT_MIN_ISR = _rule("at-min-isr", Severity.WARNING, "one more broker may go without stopping producers")
UNDER_REPLICATED = _rule("under-replicated", Severity.WARNING, "all replicas are in sync")
NOT_PREFERRED = _rule("not-preferred", Severity.NOTE, "partitions are led by the first of their replicas")
MOVE_STALLED = _rule("move-stalled", Severity.WARNING, "moves make progress")
MOVING = _rule("moving", Severity.NOTE, "nothing moves")
LEFT_THROTTLE = _rule("leftover-throttle", Severity.WARNING, "no throttle is set without moves")
RUN_UNFINISHED = _rule("run-unfinished", Severity.WARNING, "no run was left half way")
LINT = _rule("lint", Severity.WARNING, "the configuration has no errors")
STREAM_OPERATION = _rule("stream-operation", Severity.NOTE, "no failover is under way")

CHECKS: tuple[Rule, ...] = (
    NO_CONTROLLER, QUORUM_LAG, BROKER_DOWN, BROKER_HANGS, OFFLINE, UNDER_MIN_ISR, AT_MIN_ISR, UNDER_REPLICATED,
    NOT_PREFERRED, DIR_OFFLINE, DISK, MOVE_STALLED, MOVING, LEFT_THROTTLE, RUN_UNFINISHED, GROUP_LOST, GROUP_STOPPED,
    GROUP_LAG, GROUP_STATE, CERTIFICATE, LINT, STREAM_OPERATION, SERVICE_STOPPED, VERSIONS, *POD_CHECKS,
)  # fmt: skip


def judge_cluster(
    reading: ClusterReading, history: StatusHistory = NO_HISTORY, limits: StatusThresholds = THRESHOLDS
) -> ClusterStatus:
    """The health of one cluster; `history` are earlier readings of this host. O(brokers + unwell partitions)."""
    judge = _Judge(reading, history, limits)
    found = in_order(judge.findings())
    findings = tuple(f for f in found if not reading.ignore.covers(f))
    since = {f.fingerprint: age for f in findings if (age := age_s(history, f.fingerprint, reading.at)) is not None}
    return ClusterStatus(
        reading=reading,
        health=_health(reading, findings),
        findings=findings,
        brokers=judge.rows(),
        counts=judge.counts(),
        since=since,
        ignored=tuple(f for f in found if reading.ignore.covers(f)),
    )


def _health(reading: ClusterReading, findings: Sequence[Finding]) -> Health:
    if any(f.severity is Severity.ERROR for f in findings):
        return Health.ERROR
    if any(reading.failure_of(name) for name in ESSENTIAL):
        return Health.UNKNOWN
    is_partly_known = any(part.error for part in reading.parts)
    return Health.WARNING if is_partly_known or any(f.severity is Severity.WARNING for f in findings) else Health.OK


def overall(clusters: Iterable[ClusterStatus]) -> Health:
    """The worst health among clusters; ok without any."""
    order = list(Health)
    return max((cluster.health for cluster in clusters), key=order.index, default=Health.OK)


def exit_code(clusters: Sequence[ClusterStatus], fail_on: FailOn) -> ExitCode:
    """1 for a finding at the limit or a missing right for an essential part, else 75 for one that is unknown.

    2 where nothing but settings and logins keeps it from being known.
    """
    if any(fails(cluster.findings, fail_on) for cluster in clusters):
        return ExitCode.FAILED
    unread = [part for cluster in clusters for part in cluster.unread if part.name in ESSENTIAL]
    if any(part.is_denied for part in unread):
        return ExitCode.FAILED
    if unread and all(part.code is ExitCode.USAGE for part in unread):
        return ExitCode.USAGE
    return ExitCode.TRY_LATER if unread else ExitCode.DONE


class _Judge:
    """One reading with what is derived from it once."""

    def __init__(self, reading: ClusterReading, history: StatusHistory, limits: StatusThresholds) -> None:
        self._reading, self._history, self._limits = reading, history, limits
        self._brokers = {b.id: b for b in reading.info.brokers} if reading.info else {}
        found = reading.partitions
        self._unwell: Mapping[TopicPartition, PartitionState] = found.unwell if found else {}
        moves = reading.moves.moves if reading.moves else ()
        self._adding = {TopicPartition(m.move.topic, m.move.partition): frozenset(m.move.adding) for m in moves}
        self._named: set[TopicPartition] = set()

    def findings(self) -> Iterator[Finding]:
        """Every finding, in no order but that of the parts; a partition is named by the worst of its findings only."""
        yield from self._of_controller()
        yield from self._of_brokers()
        yield from self._of_partitions()
        yield from self._of_disks()
        yield from self._of_moves()
        yield from self._of_groups()
        yield from self._of_certificates()
        yield from self._of_files()
        yield from self._of_versions()
        if self._reading.pods is not None and self._reading.info is not None:
            yield from pod_findings(self._reading.pods, self._brokers, show=self._show)
        moves, services = self._reading.moves, self._reading.services or ()
        is_moving = moves is not None and bool(moves.moves or moves.inside)
        yield from service_findings(services, self._reading.at, is_moving=is_moving, show=self._show)

    def counts(self) -> PartitionCounts | None:
        """The counts that all figures of partitions rest on; None where they were not read."""
        found = self._reading.partitions
        if found is None:
            return None
        short = [key for key in self._unwell if self._is_short(key)]
        return PartitionCounts(
            total=found.partitions,
            offline=sum(self._is_offline(key) for key in self._unwell),
            under_min_isr=sum(self._is_under(key) for key in self._unwell),
            at_min_isr=sum(self._is_at_minimum(key) for key in self._unwell),
            under_replicated=len(short),
            not_preferred=found.not_preferred,
        )

    def rows(self) -> tuple[BrokerStatus, ...]:
        """Every broker that is registered or holds replicas."""
        found, disks = self._reading.partitions, self._reading.disks
        holding = found.replicas if found else {}
        short: dict[int, int] = {}
        for key, state in self._unwell.items():
            for replica in state.replicas:
                if replica not in state.isr and replica not in self._adding.get(key, ()):
                    short[replica] = short.get(replica, 0) + 1
        rows = []
        for number in sorted({*self._brokers, *holding}):
            broker = self._brokers.get(number)
            dirs = disks[number].log_dirs if disks and number in disks and not disks[number].error else ()
            used, total, fullest = disk_use(dirs)
            rows.append(
                BrokerStatus(
                    id=number,
                    rack=broker.rack if broker else None,
                    state=self._state(number),
                    leaders=None if found is None else found.leaders.get(number, 0),
                    replicas=None if found is None else holding.get(number, 0),
                    short=None if found is None else short.get(number, 0),
                    used_bytes=used,
                    total_bytes=total,
                    fullest_dir=fullest[1] if fullest else "",
                    fullest=fullest[0] if fullest else None,
                    throttle=_rates(self._reading.rates.get(number, {})) if self._reading.rates else "",
                    certificate_until=(self._reading.certificates or {}).get(number),
                )
            )
        return tuple(rows)

    def _state(self, number: int) -> str:
        if self._reading.info is None:
            return "?"
        broker = self._brokers.get(number)
        if broker is None or broker.state is BrokerState.MISSING:
            return "down"
        if broker.state is BrokerState.FENCED:
            return "down"
        disks = self._reading.disks
        return "hangs" if disks and number in disks and disks[number].error else "alive"

    def _show(self, verb: str, *arguments: str, **options: str | int | bool | None) -> str:
        return str(shell_command(verb, *arguments, program=self._reading.program, **options))

    # -- controllers and brokers

    def _of_controller(self) -> Iterator[Finding]:
        quorum = self._reading.quorum
        if quorum is None:
            info = self._reading.info
            if info is not None and info.controller_id is None and not self._reading.failure_of(PartName.CONTROLLER):
                yield NO_CONTROLLER.finding("cluster", "no controller: nothing can be changed", self._show("doctor"))
            return
        yield from quorum_findings(quorum, self._limits.voter_behind_ms, self._show("cluster describe"))

    def _of_brokers(self) -> Iterator[Finding]:
        if self._reading.info is None:
            return
        holding = self._reading.partitions.replicas if self._reading.partitions else {}
        for number in sorted({*self._brokers, *holding}):
            state = self._state(number)
            if state == "alive":
                continue
            broker = self._brokers.get(number)
            rack = f" (rack {broker.rack})" if broker and broker.rack else ""
            held = count_of(holding.get(number, 0), "replica")
            show = self._start(number)
            if state == "hangs":
                disks = self._reading.disks or {}
                why = disks[number].error
                yield BROKER_HANGS.finding(
                    f"broker {number}", f"{number}{rack} is alive but does not answer: {why}", show
                )
            elif self._reading.partitions is not None and not holding.get(number):
                if not self._reading.is_whole:
                    message = f"{number}{rack} is down; no replica of it is seen, but topics may be hidden"
                    yield _as(BROKER_DOWN, Severity.WARNING).finding(f"broker {number}", message, show)
                    continue
                # Nothing is missing without it: it waits to be taken off the list.
                gone = self._show("broker decommission", str(number))
                yield _as(BROKER_DOWN, Severity.NOTE).finding(
                    f"broker {number}", f"{number}{rack} is down and holds no replica", gone
                )
            else:
                yield BROKER_DOWN.finding(f"broker {number}", f"{number}{rack} is down; {held}", show)

    def _start(self, broker: int) -> str:
        """What starts a broker again, where kafkakit can; else what shows it."""
        if self._reading.sandbox:
            return self._show("sandbox restart", str(broker), name=self._reading.sandbox)
        return self._show("broker describe", str(broker))

    def _repair(self, keys: Sequence[TopicPartition]) -> str:
        """What puts replicas in the place of lost ones, if all that are missing are lost and others can take them."""
        lost = {b for b, answer in (self._reading.disks or {}).items() if any(d.error for d in answer.log_dirs)}
        for key in keys:
            state = self._unwell[key]
            missing = [b for b in self._without_moves(key) if b not in state.isr]
            if not missing:
                return ""  # its topic asks for more replicas than it has
            others = [b for b in self._brokers if self._is_alive(b) and b not in state.replicas]
            if any(self._is_alive(b) and b not in lost for b in missing) or len(others) < len(missing):
                return ""
        topics = sorted({key.topic for key in keys})
        return self._show(
            "topicmappr repair",
            topics=",".join(topics) if len(topics) <= SHOWN_NAMES else None,
            plan="repair.json",
        )

    # -- partitions

    def _without_moves(self, key: TopicPartition) -> tuple[int, ...]:
        adding = self._adding.get(key, frozenset())
        return tuple(b for b in self._unwell[key].replicas if b not in adding)

    def _is_alive(self, broker: int) -> bool:
        found = self._brokers.get(broker)
        return found is not None and found.is_alive

    def _is_offline(self, key: TopicPartition) -> bool:
        return self._unwell[key].leader is None

    def _is_short(self, key: TopicPartition) -> bool:
        return len(self._unwell[key].isr) < len(self._without_moves(key))

    def _minimum(self, key: TopicPartition) -> int | None:
        """What acks=all needs."""
        minimum = self._reading.min_isr.get(key.topic)
        if minimum is None:
            return None
        stops = stops_above_replicas(self._reading.info.kafka_version if self._reading.info else None)
        return least_in_sync(minimum, len(self._without_moves(key)), stops=stops)

    def _is_under(self, key: TopicPartition) -> bool:
        minimum = self._minimum(key)
        return minimum is not None and len(self._unwell[key].isr) < minimum

    def _is_at_minimum(self, key: TopicPartition) -> bool:
        minimum = self._minimum(key)
        return minimum is not None and len(self._unwell[key].isr) == minimum < len(self._without_moves(key))

    def _of_partitions(self) -> Iterator[Finding]:
        found = self._reading.partitions
        if found is None:
            return
        offline = [key for key in self._unwell if self._is_offline(key)]
        yield from self._partition_finding(OFFLINE, offline, self._offline_words)
        yield from self._partition_finding(
            UNDER_MIN_ISR, [k for k in self._unwell if self._is_under(k)], self._under_words
        )
        yield from self._partition_finding(
            AT_MIN_ISR, [k for k in self._unwell if self._is_at_minimum(k)], self._at_words
        )
        yield from self._partition_finding(
            UNDER_REPLICATED, [k for k in self._unwell if self._is_short(k)], self._short_words
        )
        led = sum(found.leaders.values())
        if led and found.not_preferred > self._limits.not_preferred * led:
            yield NOT_PREFERRED.finding(
                "partitions",
                f"{found.not_preferred} of {count_of(led, 'partition')} are not led by the first of their replicas",
                self._show("partition list", not_preferred=True),
                found.not_preferred,
            )

    def _partition_finding(
        self, rule: Rule, keys: Sequence[TopicPartition], words: Callable[[TopicPartition], str]
    ) -> Iterator[Finding]:
        above = {key for key in keys if key in self._named}
        self._named.update(keys)
        for part in self._reading.ignore.split(rule.name, keys, [f"{key.topic}/{key.partition}" for key in keys]):
            new = [key for key in part if key not in above]
            if new:  # worse is known of the others
                yield self._of_some(rule, part, new, words)

    def _of_some(
        self,
        rule: Rule,
        keys: Sequence[TopicPartition],
        new: Sequence[TopicPartition],
        words: Callable[[TopicPartition], str],
    ) -> Finding:
        names = tuple(f"{key.topic}/{key.partition}" for key in new)
        if len(keys) == 1:
            message = words(new[0])
        else:
            above = "; not named above" if len(new) < len(keys) else ""
            message = f"{count_of(len(keys), 'partition')}{above}: {shorten(names)}"
        # A broker that restarts is back sooner than copies are made: only what stops clients is worth them.
        mend = self._repair(keys) if rule is UNDER_MIN_ISR else ""
        parts = tuple(sorted(f"{key.topic}/{key.partition}" for key in keys))  # other ones have not stood for as long
        return rule.finding(
            "partitions", message, mend or self._show("partition describe", names[0]), len(keys), names, parts
        )

    def _offline_words(self, key: TopicPartition) -> str:
        replicas = ", ".join(f"{b}{'' if self._is_alive(b) else ' (down)'}" for b in self._unwell[key].replicas)
        return f"{key.topic}/{key.partition} has no leader; replicas: {replicas}"

    def _under_words(self, key: TopicPartition) -> str:
        sync = len(self._unwell[key].isr)
        return f"{key.topic}/{key.partition}: {sync} in sync, needs {self._minimum(key)}; acks=all fails"

    def _at_words(self, key: TopicPartition) -> str:
        sync = len(self._unwell[key].isr)
        return f"{key.topic}/{key.partition}: {sync} in sync, as many as acks=all needs"

    def _short_words(self, key: TopicPartition) -> str:
        missing = [b for b in self._without_moves(key) if b not in self._unwell[key].isr]
        return f"{key.topic}/{key.partition}: {few_of(missing)} not in sync"

    # -- disks, moves, throttles

    def _of_disks(self) -> Iterator[Finding]:
        limits, pods = self._limits, self._reading.pods
        return disk_findings(
            self._reading.disks or {},
            self._reading.at,
            self._history,
            show=lambda broker: self._show("broker describe", str(broker)),
            start=self._start,
            grow=pods.growth if pods is not None else None,
            limits=(limits.disk_warning, limits.disk_error, limits.disk_left_s),
        )

    def _of_moves(self) -> Iterator[Finding]:
        view = self._reading.moves
        if view is None:
            return
        watch = self._show("reassign status", watch=True)
        if view.stalled:
            move, copy = view.stalled[0]
            why = copy.stall.words if copy.stall else "nothing comes"
            yield MOVE_STALLED.finding(
                "moves",
                f"{count_of(len(view.stalled), 'copy', 'copies')} stalled: {move.move.topic}/{move.move.partition} "
                f"on {copy.broker}: {why}",
                self._show("reassign status"),
                len(view.stalled),
            )
        if view.moves or view.inside:
            yield MOVING.finding("moves", moves_words(view), watch, len(view.moves) + len(view.inside))
        for run in view.runs:
            if not run.working and not run.moves and run.close:
                yield RUN_UNFINISHED.finding(
                    f"run {run.name}", f"{run.name} was not finished", run.close, parts=(run.id,)
                )
        idle = self._idle_throttles(view)
        if idle:
            yield LEFT_THROTTLE.finding(
                "throttles", f"{idle}, but nothing moves there", self._show("reassign cleanup", all=True)
            )

    def _idle_throttles(self, view: StatusView) -> str:
        rates = self._reading.rates or {}
        if not any(rates.values()) or any(run.working for run in view.runs):
            return ""
        busy = {b for m in view.moves for b in m.move.replicas} | {i.replica.broker for i in view.inside}
        idle = [number for number, values in sorted(rates.items()) if values and number not in busy]
        if not idle:
            return ""
        first = _rates(rates[idle[0]])
        return f"{few_of(idle)} at {first}" if len({_rates(rates[b]) for b in idle}) == 1 else f"{few_of(idle)}"

    def _of_groups(self) -> Iterator[Finding]:
        reading = self._reading
        return GroupTrouble(
            now=reading.at,
            delays=reading.lag or (),
            measured=reading.measured,
            listed=reading.groups or (),
            ignore=reading.ignore,
            show=lambda group: self._show("group describe", group),
            retention_left_s=self._limits.retention_left_s,
        ).findings()

    def _of_versions(self) -> Iterator[Finding]:
        reading = self._reading
        has_quorum = reading.quorum is not None or bool(reading.failure_of(PartName.CONTROLLER))
        version = reading.info.kafka_version if reading.info else None
        show = self._show("cluster describe")
        known, metadata = reading.versions or {}, reading.metadata or {}
        return version_findings(known, version, show, has_quorum=has_quorum, metadata=metadata)

    def _of_certificates(self) -> Iterator[Finding]:
        limits = self._limits
        return certificate_findings(
            self._reading.certificates or {},
            self._reading.at,
            self._reading.ignore,
            show=lambda broker: self._show("broker describe", broker),
            warning=limits.certificate_warning,
            error=limits.certificate_error,
        )

    def _of_files(self) -> Iterator[Finding]:
        lint = self._reading.lint
        errors = () if lint is None else lint.errors
        yield from cordon_findings(self._reading.cordoned or {}, lambda broker: self._show("broker describe", broker))
        for part in self._reading.ignore.split(LINT.name, errors, errors):
            if lint is not None and part:
                age = format_rough_time((self._reading.at - lint.at).total_seconds())
                yield LINT.finding(
                    "configuration", f"{count_of(len(part), 'error')}: {shorten(part)} ({age} old)",
                    self._show("lint", live=True), len(part), tuple(part),
                )  # fmt: skip
        for operation in self._reading.operations or ():
            yield STREAM_OPERATION.finding(
                f"stream {operation.stream}", f"{operation.stream}: {operation.what}", str(operation.show)
            )


def _as(rule: Rule, severity: Severity | None) -> Rule:
    return rule if severity is None else Rule(name=rule.name, severity=severity, about=rule.about)


def _rates(values: Mapping[str, str]) -> str:
    numbers = sorted({int(v) for v in values.values() if v.isdecimal()})
    return " and ".join(map(format_rate, numbers))
