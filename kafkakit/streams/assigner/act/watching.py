"""One cluster as the Assigner watches it: short probes by one thread, longer looks by another.

A probe that hangs holds up nothing: what counts is when the newest one was answered.
"""

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from kafkakit.core.cluster_facts import ClusterInfo, ItemError, PartitionState, ResourceKind
from kafkakit.core.errors import KafkakitError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.clock import Clock
from kafkakit.ports.cluster_clients import ClusterClients
from kafkakit.streams.assigner.decide.health import Probe
from kafkakit.streams.assigner.decide.pools import PartitionFacts, rounded

PROBE_S, LOOK_S = 0.4, 30.0
_AGAIN_S = 1.0
MIN_ISR = "min.insync.replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedCluster:
    """What is looked at: partitions of topics, and which groups read each topic."""

    partitions: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLook:
    """What a look found: facts of partitions by topic, and unread records by group; `number` grows with each look."""

    number: int = 0
    facts: Mapping[str, tuple[PartitionFacts, ...]] = field(default_factory=dict)
    lags: Mapping[str, int] = field(default_factory=dict)
    offline: int = 0
    under_min_isr: int = 0
    disk_used: float | None = None


class ClusterWatch:
    """Watches one cluster from `start` to `stop`. `open_clients` makes clients of their own for each thread."""

    def __init__(self, cluster_id: str, open_clients: Callable[[], ClusterClients], clock: Clock) -> None:
        self.cluster_id, self.began_s = cluster_id, clock.monotonic()
        self.probe: Probe | None = None
        self.look = ClusterLook()
        self.problem = ""
        self.wanted = WatchedCluster()
        self._open, self._clock = open_clients, clock
        self._ends: dict[TopicPartition, tuple[float, int]] = {}
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(call, wait_s), name=f"kafkakit-watch-{cluster_id}", daemon=True)
            for call, wait_s in ((self.probe_once, PROBE_S), (self.look_once, LOOK_S))
        ]

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
            self.problem = f"its address answers as cluster {info.cluster_id}"
            return
        look = self.look
        self.problem = ""
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
                PartitionFacts(rounded(rates.get((topic, n), 0)), _rack(states.get(TopicPartition(topic, n)), racks))
                for n in range(count)
            )
            for topic, count in wanted.partitions.items()
        }
        minimum = _min_isr(clients, info, wanted.partitions)
        self.look = ClusterLook(
            number=self.look.number + 1,
            facts=facts,
            lags=_lags(clients, wanted, ends),
            offline=sum(state.leader is None or state.leader < 0 for state in states.values()),
            under_min_isr=sum(len(state.isr) < minimum[key.topic] for key, state in states.items()),
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
        clients: ClusterClients | None = None
        while not self._stop.is_set():
            try:
                clients = clients or self._open()
                call(clients)
                # What is to be looked at comes after the start, and the first look should not wait for long.
                self._stop.wait(wait_s if self.look.number else min(wait_s, _AGAIN_S))
            except Exception as error:  # whatever a client raises must not end the thread
                self.problem = str(error) if isinstance(error, KafkakitError) else f"{type(error).__name__}: {error}"
                self._stop.wait(min(wait_s, _AGAIN_S))


def _rack(state: PartitionState | None, racks: Mapping[int, str]) -> str:
    return "" if state is None or state.leader is None else racks.get(state.leader, "")


def _min_isr(clients: ClusterClients, info: ClusterInfo, topics: Collection[str]) -> dict[str, int]:
    alive = [broker.id for broker in info.brokers if broker.is_alive]
    settings = clients.admin.broker_settings(alive[:1], (MIN_ISR,)) if alive else {}
    usual = next((int(found[MIN_ISR]) for found in settings.values() if MIN_ISR in found), 1)
    own = clients.admin.dynamic_configs(ResourceKind.TOPIC, topics)
    return {topic: int(own.get(topic, {}).get(MIN_ISR, usual)) for topic in topics}


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
