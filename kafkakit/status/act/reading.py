"""Reading a cluster for its status: parts side by side, each within its limit and with its own failure.

Three threads ask for what the control side knows, one for groups, one for the brokers' certificates and one for files
and other services, so that a part that hangs delays no other. Nothing is written to the cluster, to a control store in
a topic neither: it is read without a mark. The memory of this host is one file a cluster, which is replaced as a whole,
at most once in `SAVE_EVERY_S`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar

import msgspec

from kafkakit.core.cluster_facts import (
    ClusterInfo,
    CommittedOffset,
    GroupListing,
    ItemError,
    LogSpan,
    MetadataVersion,
    PartitionHealth,
    ResourceKind,
)
from kafkakit.core.errors import ExitCode, InputError, KafkakitError, MissingRightError, TryLaterError
from kafkakit.core.findings import minor_version, shorten, stops_above_replicas
from kafkakit.core.lease import (
    ASSIGNER_LEASE,
    HeldLease,
    Holder,
    LeaseRecord,
    Life,
    cleanup_lease,
    monitor_lease,
    pacer_lease,
    stream_lease,
)
from kafkakit.core.model import TopicPartition, cluster_tags_root
from kafkakit.core.quantities import count_of
from kafkakit.core.text import few_of, shell_command
from kafkakit.execution.act.journal_files import pacer_lines
from kafkakit.execution.act.leases import read_lease
from kafkakit.execution.act.run_journal import read_run_state
from kafkakit.execution.act.status_loop import RunSource, StatusObserver
from kafkakit.execution.decide.throttle import RATE_KEYS
from kafkakit.ports.acting import Clock
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import GroupAdmin, LogReader
from kafkakit.ports.stores import ControlStore
from kafkakit.status.act.objects import min_isr_of_topics
from kafkakit.status.decide.delays import (
    STOPPED,
    UNREADABLE,
    GroupDelay,
    MeasuredDelays,
    delays_of,
    groups_compared,
    merged_delays,
)
from kafkakit.status.decide.history import StatusHistory, encode_history, read_history, with_reading
from kafkakit.status.decide.ignore import NOTHING_IGNORED, IgnoreRules
from kafkakit.status.decide.judgement import (
    ClusterReading,
    ClusterStatus,
    Part,
    PartName,
    judge_cluster,
)
from kafkakit.status.decide.surroundings import LintSummary, OpenOperation, SeenService, ServiceName

if TYPE_CHECKING:
    from kafkakit.kubernetes.brokers import ClusterPods
    from kafkakit.lint.api import KeptFindings
    from kafkakit.streams.lag.api import LimitRules, SavedGroups

PART_LIMIT_S = 3.0
MOST_STREAMS = 200
PROTOCOL_VERSION = "inter.broker.protocol.version"
HISTORY_LIMIT_BYTES = 16 << 20
"""More than is ever written (`decide.history.MOST_BYTES`): earlier versions wrote more."""
SAVE_EVERY_S, LONGEST_PAUSE_S = 60.0, 30.0
PROBES_AT_ONCE = 16
RATE_WINDOW_S = 30.0
SIGHT_EVERY_S, HIDDEN_EVERY_S, SETTINGS_EVERY_S = 600.0, 60.0, 300.0
FEW_REPLICAS = 2
GONE = "UnknownTopicOrPartitionError"
T = TypeVar("T")


def pause_after(took_s: float, every_s: float) -> float:
    """How long nothing is read after a reading: a slow cluster is asked less often, but not seldom."""
    return min(LONGEST_PAUSE_S, max(every_s - took_s, 9 * took_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSources:
    """Where the parts of one cluster's status come from; each callable may raise `KafkakitError`.

    `certificate_until` tells when the certificate at an address ends, None where the cluster has no TLS. `lag` gives
    the figures of a lag monitor by the cluster's id, measured now with `is_deep`; None where there are none. `pods`
    reads the file of Kubernetes' objects, if there is one.
    """

    profile: str
    program: str
    clock: Clock
    open_admin: Callable[[], ClusterAdmin]
    open_groups: Callable[[], GroupAdmin]
    open_log: Callable[[], LogReader]
    runs: Callable[[str], RunSource]
    lease: Callable[[str], HeldLease | None]
    certificate_until: Callable[[str, int], datetime | None] | None = None
    lag: "Callable[[str], SavedGroups | None]" = field(default=lambda cluster_id: None)
    is_deep: bool = False
    limits: "LimitRules | None" = None
    ignore: IgnoreRules = NOTHING_IGNORED
    services: Callable[[str], tuple[SeenService, ...]] = field(default=lambda cluster_id: ())
    lint: Callable[[str], LintSummary | None] = field(default=lambda cluster_id: None)
    operations: Callable[[str], tuple[OpenOperation, ...]] = field(default=lambda cluster_id: ())
    sandbox: str = ""
    cordoned: Callable[[str], Mapping[int, str]] = field(default=lambda cluster_id: {})
    pods: "Callable[[], ClusterPods] | None" = None


class Reader(Protocol):
    """What is read again and again."""

    def read(self) -> ClusterReading:
        """One reading; it says itself what could not be read."""
        ...

    def glance(self) -> object:
        """A value that differs when brokers or moves do; cheap."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


class UnreadableCluster:
    """A cluster whose settings cannot be used: nothing of it is known."""

    def __init__(self, name: str, error: KafkakitError, clock: Clock) -> None:
        self._name, self._error, self._clock = name, error, clock

    def read(self) -> ClusterReading:
        """A reading without anything but the reason."""
        names = (PartName.BROKERS, PartName.PARTITIONS)
        parts = tuple(Part(name=name, error=self._error.message, code=self._error.exit_code) for name in names)
        return ClusterReading(profile=self._name, at=self._clock.now(), parts=parts)

    def glance(self) -> object:
        """Nothing changes."""
        return None

    def close(self) -> None:
        """Nothing is open."""


def unreadable_sources(name: str, program: str, error: KafkakitError, clock: Clock) -> StatusSources:
    """Those of a cluster whose settings cannot be used: each client that is asked for raises why."""

    def refuse(*_given: object) -> NoReturn:
        raise TryLaterError(error.message)

    return StatusSources(
        profile=name,
        program=program,
        clock=clock,
        open_admin=refuse,
        open_groups=refuse,
        open_log=refuse,
        runs=refuse,
        lease=refuse,
    )


class StatusReader:
    """One cluster that is read again and again; connections stay open between readings. Not for two threads at once."""

    def __init__(self, sources: StatusSources) -> None:
        self._sources = sources
        self._admins: dict[PartName, ClusterAdmin] = {}
        self._groups: GroupAdmin | None = None
        self._log: LogReader | None = None
        self._observer: StatusObserver | None = None
        self._sight, self._minima = TopicSight(), MinimaAboveReplicas()
        self._pool = ThreadPoolExecutor(5)

    def close(self) -> None:
        """Drop all connections."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        for client in (*self._admins.values(), self._groups, self._log):
            if client is not None:
                with suppress(KafkakitError):
                    client.close()

    def read(self) -> ClusterReading:
        """Everything, within some `PART_LIMIT_S` of the slowest part."""
        clock = self._sources.clock
        at, began_s = clock.now(), clock.monotonic()
        parts = [PartReader(clock) for _ in range(6)]
        of_groups = self._pool.submit(self._read_groups, parts[1])
        info = self._read_info(parts[0])
        of_certificates = self._pool.submit(self._read_certificates, parts[2], info)
        of_others = self._pool.submit(self._read_others, parts[3], info)
        control = self._completed(parts[0], self._read_control(parts[0], parts[4], parts[5], info))
        (groups, seen), others = of_groups.result(), of_others.result()
        is_partial = any(part.name is PartName.GROUPS and part.error for part in parts[1].parts)
        return replace(
            control,
            at=at,
            groups=groups,
            lag=merged_delays(seen, others.measured, groups, is_partial=is_partial),
            measured=others.measured,
            services=others.services,
            certificates=of_certificates.result(),
            lint=others.lint,
            operations=others.operations,
            cordoned=others.cordoned,
            parts=tuple(part for n in (0, 4, 5, 1, 2, 3) for part in parts[n].parts),
            took_ms=round((clock.monotonic() - began_s) * 1000),
        )

    def glance(self) -> object:
        """Brokers, controller and moves: two requests, and another value when they change."""
        admin = self._opened_admin()
        info = admin.cluster()
        return info.brokers, info.controller_id, admin.reassignments()

    def _read_info(self, parts: "PartReader") -> ClusterInfo | None:
        info = parts.read(PartName.BROKERS, lambda: self._opened_admin().cluster())
        if info is None:
            parts.same(PartName.PARTITIONS, PartName.CONTROLLER, PartName.DISK, PartName.MOVES, PartName.THROTTLES)
        return info

    def _read_control(
        self, parts: "PartReader", of_disks: "PartReader", of_configs: "PartReader", info: ClusterInfo | None
    ) -> ClusterReading:
        """What brokers answer one by one is read side by side: one that hangs takes its time once."""
        sources = self._sources
        reading = ClusterReading(
            profile=sources.profile,
            at=sources.clock.now(),
            program=sources.program,
            sandbox=sources.sandbox,
            ignore=sources.ignore,
        )
        if info is None:
            return reading
        admin = self._opened_admin()
        alive = [b.id for b in info.brokers if b.is_alive]
        disks = self._pool.submit(
            of_disks.read, PartName.DISK, lambda: self._opened_admin(PartName.DISK).log_dirs(alive, ())
        )
        configs = self._pool.submit(self._read_configs, of_configs, alive)
        quorum = parts.read(PartName.CONTROLLER, admin.quorum)
        partitions = parts.read(PartName.PARTITIONS, admin.partition_health)
        minimum = parts.read(PartName.PARTITIONS, lambda: min_isr_of_unwell(admin, partitions)) if partitions else None
        return replace(
            reading,
            info=info,
            quorum=quorum,
            partitions=partitions,
            min_isr=minimum or {},
            moves=parts.read(PartName.MOVES, lambda: self._observer_of(info).look()),
            pods=None if sources.pods is None else parts.read(PartName.PODS, sources.pods),
            disks=disks.result(),
            rates=configs.result().rates,
            versions=configs.result().versions,
            metadata=configs.result().metadata,
        )

    def _completed(self, parts: "PartReader", reading: ClusterReading) -> ClusterReading:
        """The reading with what only some clusters need: hidden topics, minima above replicas, moves in a broker."""
        info, found, view = reading.info, reading.partitions, reading.moves
        if info is None:
            return reading
        admin = self._opened_admin()
        if found is not None:
            now_s = self._sources.clock.monotonic()
            is_whole = bool(parts.read(PartName.PARTITIONS, lambda: self._sight.is_whole(admin, info, found, now_s)))
            stopped = parts.read(PartName.PARTITIONS, lambda: self._minima.above_replicas(admin, info, found, now_s))
            states = parts.read(PartName.PARTITIONS, lambda: admin.partition_states(stopped)) if stopped else {}
            unwell = {**(states or {}), **found.unwell}
            reading = replace(
                reading,
                is_whole=is_whole,
                min_isr={**(stopped or {}), **reading.min_isr},
                partitions=replace(found, unwell=dict(sorted(unwell.items()))) if states else found,
            )
        if reading.rates and view is not None and not (view.moves or view.inside):
            observer, throttled = self._observer_of(info), sorted(reading.rates)
            looked = parts.read(PartName.MOVES, lambda: observer.look_inside(throttled))
            reading = replace(reading, moves=looked)
        return reading

    def _read_configs(self, parts: "PartReader", alive: Sequence[int]) -> "_Configs":
        """Rates and versions: the same brokers with the same right, so that what hinders one hinders the other."""
        rates = parts.read(PartName.THROTTLES, lambda: rates_of(self._opened_admin(PartName.THROTTLES), alive))
        if rates is None:
            parts.same(PartName.VERSIONS)
            return _Configs()
        admin = self._opened_admin(PartName.THROTTLES)
        return _Configs(
            rates=rates,
            versions=parts.read(PartName.VERSIONS, lambda: versions_of(admin, alive)),
            metadata=parts.read(PartName.VERSIONS, lambda: admin.metadata_versions(alive)),
        )

    def _opened_admin(self, reader: PartName = PartName.BROKERS) -> ClusterAdmin:
        """The client of one of the threads: none is for two at once."""
        if reader not in self._admins:
            self._admins[reader] = self._sources.open_admin()
        return self._admins[reader]

    def _observer_of(self, info: ClusterInfo) -> StatusObserver:
        if self._observer is None:
            sources = self._sources
            self._observer = StatusObserver(
                self._opened_admin(),
                sources.clock,
                sources.runs(info.cluster_id),
                lambda: sources.lease(info.cluster_id),
                window_s=RATE_WINDOW_S,
                program=sources.program,
                whole=False,
            )
        return self._observer

    def _read_groups(
        self, parts: "PartReader"
    ) -> tuple[tuple[GroupListing, ...] | None, tuple[GroupDelay, ...] | None]:
        def listed() -> tuple[GroupListing, ...]:
            self._groups = self._groups or self._sources.open_groups()
            answered = self._groups.answered_groups()
            if answered.silent:
                why = next(iter(answered.silent.values()))
                parts.note(PartName.GROUPS, f"groups of broker {few_of(sorted(answered.silent))} are not known: {why}")
            return answered.groups

        groups, opened = parts.read(PartName.GROUPS, listed), self._groups
        if groups is None or opened is None:
            return None, None

        def behind() -> tuple[GroupDelay, ...]:
            self._log = self._log or self._sources.open_log()
            return tuple(lag_of_empty(opened, self._log, groups))

        return groups, parts.read(PartName.LAG, behind)

    def _read_certificates(self, parts: "PartReader", info: ClusterInfo | None) -> Mapping[int, datetime] | None:
        until = self._sources.certificate_until
        if until is None or info is None:
            return None

        def read() -> dict[int, datetime]:
            asked = [b for b in info.brokers if b.host and b.is_alive]
            with ThreadPoolExecutor(PROBES_AT_ONCE) as pool:
                ends = pool.map(lambda b: until(b.host, b.port), asked)
                return {b.id: end for b, end in zip(asked, ends, strict=True) if end is not None}

        return parts.read(PartName.CERTIFICATES, read)

    def _read_others(self, parts: "PartReader", info: ClusterInfo | None) -> "_Others":
        sources = self._sources
        if info is None:
            return _Others()
        found = parts.read(PartName.TIME_LAG, lambda: sources.lag(info.cluster_id))
        return _Others(
            measured=None if found is None else delays_of(found, sources.limits, is_now=sources.is_deep),
            services=parts.read(PartName.SERVICES, lambda: sources.services(info.cluster_id)),
            lint=parts.read(PartName.LINT, lambda: sources.lint(info.cluster_id)),
            operations=parts.read(PartName.STREAMS, lambda: sources.operations(info.cluster_id)),
            cordoned=parts.read(PartName.SERVICES, lambda: sources.cordoned(info.cluster_id)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Configs:
    rates: Mapping[int, Mapping[str, str]] | None = None
    versions: Mapping[int, str] | None = None
    metadata: Mapping[int, MetadataVersion] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Others:
    measured: MeasuredDelays | None = None
    services: tuple[SeenService, ...] | None = None
    lint: LintSummary | None = None
    operations: tuple[OpenOperation, ...] | None = None
    cordoned: Mapping[int, str] | None = None


class PartReader:
    """Reads parts one after another and keeps how each ended."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._parts: dict[PartName, Part] = {}

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that were read, each once; a part of two readings has failed if one of them has."""
        return tuple(self._parts.values())

    def read(self, name: PartName, work: Callable[[], T]) -> T | None:
        """What `work` gives; None where it fails, and then the part says why."""
        began_s = self._clock.monotonic()
        error, code, is_denied, found = "", ExitCode.TRY_LATER, False, None
        try:
            found = work()
        except MissingRightError as failure:
            error, is_denied = f"{failure.message}; {failure.hint}" if failure.hint else failure.message, True
        except KafkakitError as failure:
            error, code = failure.message, failure.exit_code
        earlier = self._parts.get(name, Part(name=name))
        took_ms = earlier.took_ms + round((self._clock.monotonic() - began_s) * 1000)
        self._parts[name] = Part(
            name=name,
            took_ms=took_ms,
            error=earlier.error or error,
            code=earlier.code if earlier.error else code,
            is_denied=earlier.is_denied or is_denied,
        )
        return found

    def note(self, name: PartName, error: str) -> None:
        """A part of which something, but not all, is read."""
        earlier = self._parts.get(name, Part(name=name))
        self._parts[name] = replace(earlier, error=earlier.error or error)

    def same(self, *names: PartName) -> None:
        """More parts that failed as the last one did."""
        last = self.parts[-1]
        self._parts |= {name: replace(last, name=name, took_ms=0) for name in names}


class TopicSight:
    """Whether all topics are seen: the list of all topics silently lacks those that the caller may not see.

    From Kafka 4.1 on their names are listed; before, log dirs tell of them, but for topics whose brokers are all down.
    With full rights that is read only where a broker is down that seems to hold nothing.
    """

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._read_s: float | None = None
        self._is_all = self._has_answers = self._is_hidden = False

    def is_whole(self, admin: ClusterAdmin, info: ClusterInfo, found: PartitionHealth, now_s: float) -> bool:
        """True where it is certain; `MissingRightError` where topics are hidden, or may be and it matters."""
        empty = [b.id for b in info.brokers if not b.is_alive and not found.replicas.get(b.id)]
        rights, is_new = info.operations, (minor_version(info.kafka_version) or (0, 0)) >= (4, 1)
        lists_names = is_new and (rights is None or "describe_configs" in rights)
        has_all = rights is None or "cluster_action" in rights
        if has_all and found.topics and not empty and not lists_names:
            return False
        every_s = HIDDEN_EVERY_S if empty or self._is_hidden else SIGHT_EVERY_S
        if self._read_s is None or now_s - self._read_s >= every_s:
            self._has_answers = self._read(admin, info, lists_names=lists_names)
            self._is_all = self._has_answers and (lists_names or has_all)
            self._read_s = now_s
        self._refuse_hidden(admin, sorted(self._names - found.of_topics.keys()))
        if empty and self._has_answers and not self._is_all:
            raise MissingRightError(
                f"broker {few_of(empty)} is down, and topics on it may be hidden",
                hint="grant DESCRIBE on all topics and DESCRIBE_CONFIGS on the cluster to this user",
            )
        return self._is_all

    def _refuse_hidden(self, admin: ClusterAdmin, missing: Sequence[str]) -> None:
        self._is_hidden = False
        try:
            if missing:
                admin.partition_states(missing)  # those that were made or deleted meanwhile are not refused
        except MissingRightError:
            self._is_hidden = True
            raise MissingRightError(
                f"{count_of(len(missing), 'topic')} not visible: {shorten(missing)}",
                hint="grant DESCRIBE on all topics to this user",
            ) from None

    def _read(self, admin: ClusterAdmin, info: ClusterInfo, *, lists_names: bool) -> bool:
        if lists_names:
            self._names = admin.topic_names()
            return True
        answers = admin.log_dirs([b.id for b in info.brokers if b.is_alive])
        self._names = frozenset(key.topic for answer in answers.values() for key in answer.replicas)
        return not any(answer.error for answer in answers.values())


class MinimaAboveReplicas:
    """Topics with few replicas whose minimum is above their number, which stops acks=all before Kafka 3.7."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._due_s = 0.0

    def above_replicas(
        self, admin: ClusterAdmin, info: ClusterInfo, found: PartitionHealth, now_s: float
    ) -> dict[str, int]:
        """The minimum of each of those topics; settings are read again every `SETTINGS_EVERY_S`."""
        if not stops_above_replicas(info.kafka_version):
            return {}
        if now_s >= self._due_s:
            self._known, self._due_s = {}, now_s + SETTINGS_EVERY_S
        few = {name: count.replication for name, count in found.of_topics.items() if count.replication <= FEW_REPLICAS}
        asked = few.keys() - self._known.keys()
        self._known |= {**dict.fromkeys(asked, 0), **min_isr_of_topics(admin, asked)}
        return {name: self._known[name] for name, replicas in few.items() if self._known[name] > replicas}


def min_isr_of_unwell(admin: ClusterAdmin, partitions: PartitionHealth) -> dict[str, int]:
    """`min.insync.replicas` in force of each topic that has a partition which is not whole."""
    return min_isr_of_topics(admin, {key.topic for key in partitions.unwell})


def rates_of(admin: ClusterAdmin, brokers: Collection[int]) -> dict[int, dict[str, str]]:
    """The replication throttles that are set on brokers; those without one are left out."""
    found = admin.dynamic_configs(ResourceKind.BROKER, [str(b) for b in brokers]) if brokers else {}
    rates = {int(b): {k: v for k, v in values.items() if k in RATE_KEYS} for b, values in found.items()}
    return {broker: values for broker, values in sorted(rates.items()) if values}


def versions_of(admin: ClusterAdmin, brokers: Collection[int]) -> dict[int, str]:
    """The protocol version that each broker speaks; those that have none (Kafka 4) are left out unless they differ."""
    found = admin.broker_settings(brokers, (PROTOCOL_VERSION,)) if brokers else {}
    known = {broker: values.get(PROTOCOL_VERSION, "") for broker, values in found.items()}
    return {broker: version or "4 or later" for broker, version in known.items()} if any(known.values()) else {}


def lag_of_empty(groups: GroupAdmin, log: LogReader, listed: Sequence[GroupListing]) -> Iterator[GroupDelay]:
    """Groups that have commits behind the end of a log and nobody who reads: as a killed application leaves them.

    One whose partitions cannot all be read is among them, as `UNREADABLE` where no lag is seen in the others.
    """
    empty = groups_compared(listed)
    commits: dict[str, Mapping[TopicPartition, CommittedOffset | ItemError]] = {g: groups.committed(g) for g in empty}
    wanted = {key for found in commits.values() for key in found}
    spans = log.spans(wanted) if wanted else {}
    for group, found in commits.items():
        lag, is_known = 0, True
        for key, commit in found.items():
            span = spans.get(key)
            if isinstance(commit, CommittedOffset) and isinstance(span, LogSpan):
                lag += max(0, span.end - max(commit.offset, span.start))
            elif not (isinstance(span, ItemError) and span.name == GONE):
                is_known = False
        if lag or not is_known:
            yield GroupDelay(group=group, status=STOPPED if lag else UNREADABLE, lag=lag or None)


def lint_result(kept: "KeptFindings | None") -> LintSummary | None:
    """What lint found in the cluster, if its last run is known."""
    if kept is None:
        return None
    return LintSummary(at=datetime.fromtimestamp(kept.at_s, UTC), errors=kept.errors, warnings=kept.warnings)


def operations_of(control: ControlStore, program: str) -> tuple[OpenOperation, ...]:
    """The streams whose lease is held: a failover, a repartitioning or another operation of theirs is under way."""
    found = []
    for stream in islice(control.children("streams"), MOST_STREAMS):
        record = read_lease(control, stream_lease(stream))
        if record is not None and record.holder is not None:
            show = shell_command("streams failover status", stream, program=program)
            found.append(OpenOperation(stream=stream, what=f"an operation is under way: {record.holder}", show=show))
    return tuple(found)


def services_of(
    control: ControlStore, clock: Clock, cluster_id: str, life_of: Callable[[Holder], Life]
) -> tuple[SeenService, ...]:
    """The services that ever led, by their leases; what waits for one is read only if it does not lead."""

    def needs_of(name: ServiceName) -> tuple[str, ...]:
        if name is ServiceName.PACER:
            state = read_run_state(pacer_lines(control, cluster_id))
            return tuple(sorted({key.name for key in (*state.rates, *state.entries)}))
        if name is ServiceName.ASSIGNER:
            from kafkakit.streams.client.api import GRANT_DOCUMENT, GRANTS_FOLDER, grant_path

            kept = control.values(GRANTS_FOLDER).items()
            granted = [GRANT_DOCUMENT.stored(found.value, grant_path(slot)) for slot, found in kept]
            return tuple(sorted({each.stream for document in granted for each in document.topics}))
        return ()

    def seen(name: ServiceName, record: LeaseRecord) -> SeenService:
        life = Life.UNKNOWN if record.holder is None else life_of(record.holder)
        found = SeenService(name=name, record=record, life=life)
        return found if found.is_alive(clock.now()) else replace(found, needs=needs_of(name))

    paths = {
        ServiceName.MONITOR: monitor_lease(cluster_id),
        ServiceName.PACER: pacer_lease(cluster_id),
        ServiceName.ASSIGNER: ASSIGNER_LEASE,
        ServiceName.REGISTRY: cleanup_lease(cluster_tags_root(cluster_id)),
    }
    records = {name: read_lease(control, path) for name, path in paths.items()}
    return tuple(seen(name, record) for name, record in records.items() if record is not None)


class HistoryFile:
    """The memory of one cluster on this host; without a place to write to it is kept by this process alone."""

    def __init__(
        self,
        folder: Path,
        read_file: Callable[[Path, int], bytes],
        write_file: Callable[[Path, bytes], object],
    ) -> None:
        self._folder, self._read_file, self._write_file = folder, read_file, write_file
        self._known: dict[str, StatusHistory] = {}
        self._saved: dict[str, datetime] = {}
        self._unsaved: set[str] = set()

    def judge(self, reading: ClusterReading) -> ClusterStatus:
        """The status with what was seen before, which this reading becomes a part of."""
        cluster_id = reading.info.cluster_id if reading.info else ""
        if not cluster_id:
            return judge_cluster(reading)
        history = self._known.get(cluster_id) or self._load(cluster_id)
        status = judge_cluster(reading, history)
        kept = with_reading(history, reading.at, status.findings, reading.disks)
        if any(not part.is_denied for part in status.unread):  # what it would have told may stand as before
            kept = msgspec.structs.replace(kept, since={**history.since, **kept.since})
        self._known[cluster_id] = kept
        self._unsaved.add(cluster_id)
        saved = self._saved.get(cluster_id)
        if saved is None or abs((reading.at - saved).total_seconds()) >= SAVE_EVERY_S:
            self._saved[cluster_id] = reading.at
            self._save(cluster_id)
        return status

    def save(self) -> None:
        """Write what was not written yet."""
        for cluster_id in sorted(self._unsaved):
            self._save(cluster_id)

    def _save(self, cluster_id: str) -> None:
        self._unsaved.discard(cluster_id)
        with suppress(KafkakitError, OSError):
            self._write_file(self._path(cluster_id), encode_history(self._known[cluster_id]))

    def _path(self, cluster_id: str) -> Path:
        return self._folder / f"{cluster_id}.json"

    def _load(self, cluster_id: str) -> StatusHistory:
        try:
            return read_history(self._read_file(self._path(cluster_id), HISTORY_LIMIT_BYTES))
        except (InputError, OSError):
            return read_history(None)
