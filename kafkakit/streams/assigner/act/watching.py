"""Clusters as the Assigner watches them, and the failovers that it starts by its policy.

Of each cluster, one thread takes short probes and another one longer looks. A probe that hangs holds up nothing: what
counts is when the newest one was answered. A failover is noted in the control store before it begins, and carried out
by the operations of `streams failover`.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from typing import Protocol

from kafkakit.core.cluster_facts import ClusterInfo, ItemError, PartitionState, ResourceKind
from kafkakit.core.errors import KafkakitError, OperationFailedError
from kafkakit.core.findings import least_in_sync, min_isr_of, stops_above_replicas
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import epoch_ms
from kafkakit.execution.act.retrier import read_usual_min_isr
from kafkakit.ports.acting import Clock
from kafkakit.ports.data import ClusterClients
from kafkakit.ports.stores import ControlStore
from kafkakit.streams.assigner.decide.placing import PartitionTraffic, round_rate
from kafkakit.streams.assigner.health import (
    HISTORY_DOCUMENT,
    HISTORY_PATH,
    PROBE_S,
    AutomaticHistory,
    AutomaticMode,
    AutomaticStart,
    PolicyVerdict,
    Probe,
)
from kafkakit.streams.failover.api import FailoverRequest, Step
from kafkakit.streams.failover.api_act import OperationPorts, StreamOperation

LOOK_S = 30.0
_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedCluster:
    """What is looked at: partitions of topics, and which groups read each topic."""

    partitions: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLook:
    """What a look found: facts of partitions by topic, and unread records by group; `number` grows with each look."""

    number: int = 0
    facts: Mapping[str, tuple[PartitionTraffic, ...]] = field(default_factory=dict)
    lags: Mapping[str, int] = field(default_factory=dict)
    offline: int = 0
    under_min_isr: int = 0
    disk_used: float | None = None


class ClusterWatch:
    """Watches one cluster from `start` to `stop`. Each thread has clients of its own, and closes them when it ends."""

    def __init__(
        self, cluster_id: str, open_clients: Callable[[], AbstractContextManager[ClusterClients]], clock: Clock
    ) -> None:
        self.cluster_id, self.began_s = cluster_id, clock.monotonic()
        self.probe: Probe | None = None
        self.look = ClusterLook()
        self._problems: dict[str, str] = {}
        self.wanted = WatchedCluster()
        self._open, self._clock = open_clients, clock
        self._ends: dict[TopicPartition, tuple[float, int]] = {}
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(call, wait_s), name=f"kafkakit-watch-{cluster_id}", daemon=True)
            for call, wait_s in ((self.probe_once, PROBE_S), (self.look_once, LOOK_S))
        ]

    @property
    def problem(self) -> str:
        """What keeps the probes, or the looks, from an answer now; each says so until it has one itself."""
        return "; ".join(dict.fromkeys(self._problems.copy().values()))

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End; a probe that hangs ends by itself."""
        self._stop.set()

    def probe_once(self, clients: ClusterClients) -> None:
        """One short look: whether the cluster answers as itself, how fast, and whether it has a controller."""
        sent_s = self._clock.monotonic()
        info = clients.admin.cluster()
        if info.cluster_id != self.cluster_id:
            raise OperationFailedError(f"its address answers as cluster {info.cluster_id}")
        look = self.look
        self.probe = Probe(
            sent_s=sent_s,
            latency_s=self._clock.monotonic() - sent_s,
            has_controller=info.controller_id is not None and info.controller_id >= 0,
            offline=look.offline,
            under_min_isr=look.under_min_isr,
            disk_used=look.disk_used,
        )

    def look_once(self, clients: ClusterClients) -> None:
        """One longer look: leaders and ISRs, rates, lag and disks. Cost: some requests to each broker."""
        wanted = self.wanted
        if not wanted.partitions:
            return
        info = clients.admin.cluster()
        states = clients.admin.partition_states(wanted.partitions)
        known = [TopicPartition(topic, n) for topic, count in wanted.partitions.items() for n in range(count)]
        racks = {broker.id: broker.rack or "" for broker in info.brokers}
        rates, ends = self._rates(clients, known)
        facts = {
            topic: tuple(
                PartitionTraffic(
                    round_rate(rates.get((topic, n), 0)), _rack(states.get(TopicPartition(topic, n)), racks)
                )
                for n in range(count)
            )
            for topic, count in wanted.partitions.items()
        }
        minimum, stops = _min_isr(clients, info, wanted.partitions), stops_above_replicas(info.kafka_version)
        self.look = ClusterLook(
            number=self.look.number + 1,
            facts=facts,
            lags=_lags(clients, wanted, ends),
            offline=sum(state.leader is None or state.leader < 0 for state in states.values()),
            under_min_isr=sum(
                len(state.isr) < least_in_sync(minimum[key.topic], len(state.replicas), stops=stops)
                for key, state in states.items()
            ),
            disk_used=_disk_used(clients, info),
        )

    def _rates(
        self, clients: ClusterClients, known: Collection[TopicPartition]
    ) -> tuple[dict[tuple[str, int], int], dict[TopicPartition, int]]:
        now_s = self._clock.monotonic()
        rates, ends = dict[tuple[str, int], int](), dict[TopicPartition, int]()
        for key, span in clients.log.spans(known).items():
            if isinstance(span, ItemError):
                continue
            before_s, before = self._ends.get(key, (now_s, span.end))
            if now_s > before_s:
                rates[key.topic, key.partition] = max(0, int((span.end - before) / (now_s - before_s)))
            self._ends[key], ends[key] = (now_s, span.end), span.end
        return rates, ends

    def _repeat(self, call: Callable[[ClusterClients], None], wait_s: float) -> None:
        with suppress(Exception), ExitStack() as own:  # clients that cannot be closed change nothing
            self._repeat_with(own, call, wait_s)

    def _repeat_with(self, own: ExitStack, call: Callable[[ClusterClients], None], wait_s: float) -> None:
        clients: ClusterClients | None = None
        while not self._stop.is_set():
            try:
                clients = clients or own.enter_context(self._open())
                call(clients)
                self._problems.pop(call.__name__, None)
                # What is to be looked at comes after the start, and the first look should not wait for long.
                self._stop.wait(wait_s if self.look.number else min(wait_s, _AGAIN_S))
            except Exception as error:  # whatever a client raises must not end the thread
                words = str(error) if isinstance(error, KafkakitError) else f"{type(error).__name__}: {error}"
                self._problems[call.__name__] = words
                self._stop.wait(min(wait_s, _AGAIN_S))


def _rack(state: PartitionState | None, racks: Mapping[int, str]) -> str:
    return "" if state is None or state.leader is None else racks.get(state.leader, "")


def _min_isr(clients: ClusterClients, info: ClusterInfo, topics: Collection[str]) -> dict[str, int]:
    alive = [broker.id for broker in info.brokers if broker.is_alive]
    usual = read_usual_min_isr(clients.admin, alive)
    own = clients.admin.dynamic_configs(ResourceKind.TOPIC, topics)
    return {topic: min_isr_of(own.get(topic, {}), usual) for topic in topics}


def _lags(clients: ClusterClients, wanted: WatchedCluster, ends: Mapping[TopicPartition, int]) -> dict[str, int]:
    """What each group has not committed yet; partitions without a commit count from their ends."""
    topics: dict[str, set[str]] = {}
    for topic, groups in wanted.groups.items():
        for group in groups:
            topics.setdefault(group, set()).add(topic)
    found = {}
    for group, read in topics.items():
        keys = [key for key in ends if key.topic in read]
        commits = clients.groups.committed(group, keys)
        offsets = {key: commit.offset for key, commit in commits.items() if not isinstance(commit, ItemError)}
        found[group] = sum(max(0, ends[key] - offset) for key, offset in offsets.items())
    return found


def _disk_used(clients: ClusterClients, info: ClusterInfo) -> float | None:
    alive = [broker.id for broker in info.brokers if broker.is_alive]
    dirs = [each for answer in clients.admin.log_dirs(alive, ()).values() for each in answer.log_dirs]
    used = [
        1 - each.usable_bytes / each.total_bytes
        for each in dirs
        if each.total_bytes and each.usable_bytes is not None
    ]  # fmt: skip
    return max(used, default=None)


AGAIN_S = 30.0
MOST_AT_ONCE = 4


class EmergencyFailover(Protocol):
    """Moves a stream away from a cluster that is not reached, as `streams failover run --emergency` does."""

    def emergency(self, stream: str, target: str) -> str:
        """Begin it, or continue it where it was begun; how it ended, in words. `KafkakitError` where it cannot be."""
        ...


class AutomaticFailovers:
    """Carries out verdicts, a few at once in threads; `require_held` is asked before each is noted and begun."""

    def __init__(
        self,
        store: ControlStore,
        clock: Clock,
        mode: AutomaticMode,
        failover: EmergencyFailover,
        require_held: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        self._store, self._clock, self._mode, self._failover = store, clock, mode, failover
        self._require_held, self._say = require_held, say
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self._tried_s: dict[str, float] = {}
        self._said: dict[str, str] = {}

    def history(self) -> AutomaticHistory:
        """Those of the last day, of all Assigners; one read."""
        found = self._store.get(HISTORY_PATH)
        return AutomaticHistory() if found is None else HISTORY_DOCUMENT.stored(found.value, HISTORY_PATH)

    def carry_out(self, verdicts: Iterable[PolicyVerdict]) -> tuple[str, ...]:
        """Start what is to be started; a line about each verdict."""
        lines = []
        for verdict in verdicts:
            move = f"stream {verdict.stream} from {verdict.source} to {verdict.target}"
            line = f"not moved: {move}: {verdict.why_not}" if verdict.why_not else f"moved: {move}"
            if not verdict.why_not and self._mode is AutomaticMode.DRY_RUN:
                line = f"would be moved (dry run): {move}"
            elif not verdict.why_not and self._may_begin(verdict.stream):
                self._begin(verdict)
            lines.append(line)
            kind = line.partition(":")[0]
            if self._said.get(verdict.stream) != kind:
                self._said[verdict.stream] = kind
                self._say(line)
        return tuple(lines)

    def _may_begin(self, stream: str) -> bool:
        with self._lock:
            waited_s = self._clock.monotonic() - self._tried_s.get(stream, float("-inf"))
            return stream not in self._running and len(self._running) < MOST_AT_ONCE and waited_s >= AGAIN_S

    def _begin(self, verdict: PolicyVerdict) -> None:
        self._require_held()
        if not verdict.continues:
            self._note(verdict)
        self._require_held()
        with self._lock:
            self._running.add(verdict.stream)
            self._tried_s[verdict.stream] = self._clock.monotonic()
        threading.Thread(
            target=self._run, args=(verdict,), name=f"kafkakit-failover-{verdict.stream}", daemon=True
        ).start()

    def _note(self, verdict: PolicyVerdict) -> None:
        """Count it before it begins, so that no crash makes the budget larger; `ConflictError`: another process did."""
        found = self._store.get(HISTORY_PATH)
        history = self.history() if found is not None else AutomaticHistory()
        start = AutomaticStart(
            stream=verdict.stream, source=verdict.source, target=verdict.target, at_ms=epoch_ms(self._clock.now())
        )
        self._store.cas(
            HISTORY_PATH, HISTORY_DOCUMENT.encode(history.with_start(start)), found.version if found else None
        )

    def _run(self, verdict: PolicyVerdict) -> None:
        try:
            end = self._failover.emergency(verdict.stream, verdict.target)
        except Exception as error:  # a thread's error must be seen
            end = str(error) if isinstance(error, KafkakitError) else f"{type(error).__name__}: {error}"
        try:
            self._say(f"stream {verdict.stream} to {verdict.target}: {end}")
        finally:  # a line that cannot be printed must not bar the stream for ever
            with self._lock:
                self._running.discard(verdict.stream)


WAIT_S = 60.0
"""How long one may be without progress; the Assigner tries again later."""


class OperationFailover:
    """Implements `EmergencyFailover`; each call has ports of its own, as it runs in a thread of its own.

    It ends when producers are at the target. What is stranded is drained and certified by `streams failover resume`,
    once the old cluster is back.
    """

    def __init__(self, open_ports: Callable[[], AbstractContextManager[OperationPorts]]) -> None:
        self._open_ports = open_ports

    def emergency(self, stream: str, target: str) -> str:
        with self._open_ports() as ports:
            operation = StreamOperation(ports, FailoverRequest(stream=stream, to=target, is_emergency=True))
            try:
                if operation.refused is not None:
                    why = [each.text for each in operation.refused.refused]
                    return f"refused: {'; '.join(why)}"
                end = operation.advance(Step.ROUTED, WAIT_S)
            finally:
                operation.close()
        return f"{end.kind} ({end.step}){''.join(f'; {line}' for line in end.lines)}"
