"""The inside of `FakeCluster`: brokers, partitions, and how bytes flow between them under throttles."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kafkakit.core.model import TopicPartition

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_LIST = "leader.replication.throttled.replicas"
FOLLOWER_LIST = "follower.replication.throttled.replicas"


@dataclass
class FakeBroker:
    """A registered broker; `hung` answers nothing but keeps its session (a stopped process)."""

    id: int
    rack: str | None
    dirs: dict[str, int]
    alive: bool = True
    hung: bool = False
    configs: dict[str, str] = field(default_factory=dict)
    offline_dirs: set[str] = field(default_factory=set)
    cordoned_dirs: set[str] = field(default_factory=set)


@dataclass
class FakePartition:
    """One partition; `copied` holds the bytes each broker has, full when equal to `size`."""

    replicas: list[int]
    isr: list[int]
    leader: int | None
    size: int
    copied: dict[int, int]
    dirs: dict[int, str]
    adding: list[int] = field(default_factory=list)
    removing: list[int] = field(default_factory=list)
    future_dirs: dict[int, str] = field(default_factory=dict)

    @property
    def moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> list[int]:
        return [b for b in self.replicas if b not in self.removing]


@dataclass
class FakeTopic:
    """A topic with its partitions by number."""

    name: str
    topic_id: str
    partitions: dict[int, FakePartition]
    configs: dict[str, str] = field(default_factory=dict)


@dataclass
class Flow:
    """Bytes on their way from a leader to a follower that is not in sync."""

    key: TopicPartition
    partition: FakePartition
    source: int
    destination: int
    limits: list[tuple[object, float]]

    @property
    def missing(self) -> int:
        return self.partition.size - self.partition.copied.get(self.destination, 0)


class FakeReplication:
    """Moves bytes: every limit (line or throttle of a broker's side) is shared evenly by its flows."""

    def __init__(self, brokers: dict[int, FakeBroker], topics: dict[str, FakeTopic], line_rate: float) -> None:
        self.brokers = brokers
        self.topics = topics
        self.line_rate = line_rate
        self._fractions: dict[tuple[TopicPartition, int], float] = {}

    def partitions(self) -> Iterator[tuple[TopicPartition, FakePartition]]:
        """Every partition, sorted."""
        for name in sorted(self.topics):
            for number, partition in sorted(self.topics[name].partitions.items()):
                yield TopicPartition(name, number), partition

    def serving(self, broker: int | None) -> bool:
        """True when the broker is alive and not hung."""
        return broker in self.brokers and self.brokers[broker].alive and not self.brokers[broker].hung

    def advance(self, seconds: float) -> None:
        """Let time pass: bytes flow, copies join the ISR, finished moves end."""
        left = seconds
        self._settle()
        while left > 1e-9:
            flows = list(self._flows())
            counts = Counter(limit for flow in flows for limit, _ in flow.limits)
            rates = [min(rate / counts[limit] for limit, rate in flow.limits) for flow in flows]
            times = [f.missing / r for f, r in zip(flows, rates, strict=True) if r > 0]
            step = min([left, *times])
            for flow, rate in zip(flows, rates, strict=True):
                self._copy(flow, rate * step, done=rate > 0 and flow.missing / rate <= step)
            left -= step
            self._settle()
            if not flows:
                return

    def _copy(self, flow: Flow, amount: float, *, done: bool) -> None:
        partition, broker = flow.partition, flow.destination
        if done:
            partition.copied[broker] = partition.size
            return
        exact = amount + self._fractions.pop((flow.key, broker), 0.0)
        whole = min(int(exact), flow.missing)
        self._fractions[flow.key, broker] = exact - whole
        partition.copied[broker] = partition.copied.get(broker, 0) + whole

    def _flows(self) -> Iterator[Flow]:
        for key, partition in self.partitions():
            source = partition.leader
            if source is None or not self.serving(source):
                continue
            for broker in partition.replicas:
                if not self.serving(broker) or partition.copied.get(broker, 0) >= partition.size:
                    continue
                if partition.dirs.get(broker) in self.brokers[broker].offline_dirs:
                    continue
                limits: list[tuple[object, float]] = [
                    (("line-out", source), self.line_rate),
                    (("line-in", broker), self.line_rate),
                ]
                limits += self._throttle(key, source, LEADER_LIST, LEADER_RATE)
                limits += self._throttle(key, broker, FOLLOWER_LIST, FOLLOWER_RATE)
                yield Flow(key, partition, source, broker, limits)

    def _throttle(self, key: TopicPartition, broker: int, names: str, rate: str) -> list[tuple[object, float]]:
        listed = self.topics[key.topic].configs.get(names, "").split(",")
        value = self.brokers[broker].configs.get(rate)
        if value is None or not ("*" in listed or f"{key.partition}:{broker}" in listed):
            return []
        return [((rate, broker), float(value))]

    def _settle(self) -> None:
        for _, partition in self.partitions():
            self.settle(partition)

    def settle(self, partition: FakePartition) -> None:
        """Bring ISR and leader up to date, and end the move if its target is in sync."""
        for broker in partition.replicas:
            full = partition.copied.get(broker, 0) >= partition.size
            led = partition.leader is not None or not partition.isr
            alive = broker in self.brokers and self.brokers[broker].alive
            if full and led and alive and broker not in partition.isr:
                partition.isr.append(broker)
        self.choose_leader(partition)
        target = partition.target
        waiting = [b for b in target if b in partition.adding and b not in partition.isr]
        if partition.moving and not waiting and any(b in partition.isr for b in target):
            self._finish(partition, target)

    def choose_leader(self, partition: FakePartition) -> None:
        """Drop dead brokers from the ISR (never the last) and elect the first live member."""
        live = [b for b in partition.isr if b in self.brokers and self.brokers[b].alive]
        if live:
            partition.isr = live
        if partition.leader not in live:
            partition.leader = next((b for b in partition.replicas if b in live), None)

    def _finish(self, partition: FakePartition, target: list[int]) -> None:
        for broker in partition.removing:
            self.drop_copy(partition, broker)
        partition.replicas, partition.adding, partition.removing = list(target), [], []
        partition.isr = [b for b in partition.isr if b in target]
        self.choose_leader(partition)

    @staticmethod
    def drop_copy(partition: FakePartition, broker: int) -> None:
        """Delete a broker's copy at once (Kafka hides it at once and frees the space later)."""
        partition.copied.pop(broker, None)
        partition.dirs.pop(broker, None)
        partition.future_dirs.pop(broker, None)
