"""What rules look at: clusters with brokers and topics, agent and connector files, each with what is known of it.

Everything that may be unknown is None (or empty, where said); rules call `require_known` for it, which lists the rule
as skipped instead of passing silently.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from kafkakit.core.findings import Place
from kafkakit.rules.config_defs import ConfigTable
from kafkakit.rules.effective import BrokerConfig, Configs, DeclaredValue, InputMissing, TopicConfig, to_int

T = TypeVar("T")


def require_known(value: T | None, needed: str) -> T:
    """The value; `InputMissing` naming what is needed where it is None."""
    if value is None:
        raise InputMissing(needed)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedFacts:
    """A subject with what was computed from it."""

    derived: dict[Callable[..., Any], Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def derive(self, compute: Callable[[Self], T]) -> T:
        """What a function computes from the whole subject, computed once."""
        if compute not in self.derived:
            self.derived[compute] = compute(self)
        found: T = self.derived[compute]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """Limits and sizes of a broker's machine."""

    open_files: int | None = None
    max_map_count: int | None = None
    memory_bytes: int | None = None
    heap_bytes: int | None = None
    connections: int | None = None
    write_bytes_s: float | None = None
    platform: str | None = None
    """A managed service's broker size, such as `msk:m7g.xlarge`."""


NO_HOST = HostFacts()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirFacts:
    """One log dir of a broker, in bytes."""

    path: str
    total_bytes: int | None = None
    usable_bytes: int | None = None
    is_ephemeral: bool = False
    """True for a dir that goes with its pod."""
    daily_used_bytes: tuple[int | None, ...] | None = None
    """The most that was used on each of the last days, oldest first; None for a day that was not seen."""


def node_name(node: int | None, roles: tuple[str, ...]) -> str:
    """A broker or controller in findings and in what accepts them."""
    kind = "broker" if "broker" in roles else "controller"
    return f"{kind} {node}" if node is not None else f"{kind}s"


_OF_EACH_POOL = ("log.dir", "metadata.log.dir", "process.roles", "node.id", "broker.")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """What files and a cluster tell of a broker or controller beside its settings."""

    id: int | None = None
    rack: str | None = None
    roles: tuple[str, ...] = ("broker",)
    host: HostFacts = NO_HOST
    log_dirs: tuple[LogDirFacts, ...] = ()
    version: str | None = None
    is_alive: bool = True
    count: int = 1
    """How many brokers this one stands for (replicas of a node pool), 0 where that is not known."""
    in_container: bool = False
    """Its folders are a container's own, unless a volume is mounted there."""
    pool: str = ""
    """The name of the pool that this one stands for."""
    settings_place: Place | None = None
    """Where a setting that the pool lacks is missing: at the settings that all brokers share."""
    place: Place | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LintBroker(BrokerFacts):
    """A broker, or a controller where `roles` holds no `broker`. `id` is None in a template for many brokers."""

    config: BrokerConfig
    current: Mapping[str, str] | None = None
    """The values that it runs with now, where the declared dynamic ones are a change to make."""
    override_age_s: Mapping[str, float] | None = None
    """How long ago each dynamic override was set, by key."""

    @property
    def is_broker(self) -> bool:
        """True for a node that holds partitions."""
        return "broker" in self.roles

    @property
    def where(self) -> str:
        """The broker in a finding."""
        return f"pool {self.pool}" if self.pool and self.id is None else self.role

    def home_of(self, key: str) -> Place | None:
        """Where a key that a pool lacks would be set: at the settings that all share, unless each pool has its own."""
        return None if key.startswith(_OF_EACH_POOL) else self.settings_place

    @property
    def role(self) -> str:
        """The broker in a fingerprint, which pools share."""
        return node_name(self.id, self.roles)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """One partition: replicas in preference order, and what is known of them."""

    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...] | None = None
    leader: int | None = None
    """-1 for none."""
    replica_bytes: Mapping[int, int] = field(default_factory=dict)
    bytes_s: float | None = None
    segments: int | None = None
    """Segments of one copy, counted in its log dir."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFacts:
    """A batch that a segment audit found worth looking at."""

    partition: int
    offset: int
    compressed_bytes: int
    decompressed_bytes: int
    content_size: int | None = None
    codec: str = "zstd"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """What metrics and segment audits know of a topic."""

    age_s: float | None = None
    idle_s: float | None = None
    codec: str | None = None
    """The codec of the producers' batches."""
    compression_ratio: float | None = None
    """Decompressed over compressed bytes, 99.9th percentile."""
    keyless_records: int | None = None
    dirty_unique_keys: int | None = None
    timestamp_skew_s: float | None = None
    batches: tuple[BatchFacts, ...] | None = None
    override_age_s: Mapping[str, float] | None = None
    """How long ago each override was set in the cluster, by key."""


NO_FACTS = TopicFacts()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTopic(DerivedFacts):
    """What files and a cluster tell of a topic beside its settings; `partition_facts` is None without a cluster."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    partition_facts: tuple[PartitionFacts, ...] | None = None
    facts: TopicFacts = NO_FACTS
    labels: frozenset[str] = frozenset()
    current: Mapping[str, str] | None = None
    """The values that the cluster has now, where the declared ones are a change to make."""
    is_declared: bool = True
    """False for a topic that only a cluster or a snapshot of it shows."""
    undeclared: frozenset[str] = frozenset()
    """Overrides of a declared topic that only the cluster has."""
    place: Place | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LintTopic(DeclaredTopic):
    """A topic with its settings."""

    config: TopicConfig
    is_default: bool = False
    """True for what stands for the topics that a broker's own defaults will make."""

    @property
    def where(self) -> str:
        """The topic in a finding."""
        return "topics by default" if self.is_default else f"topic {self.name}"

    @property
    def is_internal(self) -> bool:
        """True for Kafka's own topics."""
        return self.name.startswith("__")

    @property
    def policies(self) -> tuple[str, ...]:
        """The cleanup policies."""
        return self.config.items("cleanup.policy")

    def rates_bytes_s(self) -> tuple[float, float] | None:
        """The lowest and highest append rate of its partitions in bytes/s, None where none is known."""
        rates = [p.bytes_s for p in self.partition_facts or () if p.bytes_s is not None]
        return (min(rates), max(rates)) if rates else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """A consumer group; lags of the partitions that it reads."""

    name: str
    topics: tuple[str, ...] = ()
    members: int | None = None
    time_lag_s: Mapping[str, float] = field(default_factory=dict)
    """The greatest lag in seconds of each topic."""
    byte_lag: Mapping[str, int] = field(default_factory=dict)
    metadata_p99_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutFacts:
    """ISR changes after a configuration change, against the same hours before."""

    isr_changes_per_min: float
    baseline_mean: float
    baseline_deviation: float
    unclean_elections: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LintCluster(DerivedFacts):
    """A cluster as its files or its live state show it.

    `table` is the version it runs, `target` the one to upgrade to. `groups`, `features`, `moves_running` and
    `rack_count` are None where unknown. `racks` are distinct racks of brokers.
    """

    name: str
    table: ConfigTable
    is_version_known: bool = True
    """False if nothing tells the version, or the one that is told has no table."""
    version_because: str = ""
    """Why the version was assumed."""
    is_version_mapped: bool = False
    """The table is that of the nearest version, so that it tells nothing of what the cluster's own has and lacks."""
    target: ConfigTable | None = None
    env: str = "prod"
    brokers: tuple[LintBroker, ...] = ()
    topics: tuple[LintTopic, ...] = ()
    groups: tuple[GroupFacts, ...] | None = None
    features: Mapping[str, int] | None = None
    metadata_behind_days: float | None = None
    moves_running: bool | None = None
    is_live: bool = False
    broker_count: int | None = None
    """Given where brokers are not listed."""
    rack_count: int | None = None
    labels: frozenset[str] = frozenset()
    rollout: RolloutFacts | None = None
    versions_differ_days: float | None = None
    """Since when the brokers have run different versions."""
    peers: Mapping[str, tuple[str, ...]] | None = None
    """Values of the clusters of the same label, by key."""
    judged: dict[int, tuple[object, Any]] = field(default_factory=dict, repr=False, compare=False)
    """Cache of verdicts on the values of topics and brokers (`rules/judging.py`)."""
    place: Place | None = None

    @property
    def known_version(self) -> str | None:
        """The version that it runs, None if that is only assumed."""
        return self.table.version if self.is_version_known else None

    env_because: str = ""
    """Why the environment was assumed; empty if it is told."""

    @property
    def where(self) -> str:
        """The cluster in a finding."""
        return f"cluster {self.name}" if self.name else "cluster"

    def within(self, where: str) -> str:
        """Something in this cluster, as findings name it."""
        return f"{where} of {self.name}" if self.name else where

    @property
    def is_prod(self) -> bool:
        """True unless the cluster is said to be of another environment."""
        return self.env == "prod"

    @property
    def data_brokers(self) -> tuple[LintBroker, ...]:
        """The nodes that hold partitions."""
        return self.derive(_data_brokers)

    @property
    def broker_number(self) -> int:
        """How many brokers there are; `InputMissing` where no file tells."""
        number = self.known_broker_number
        if number is None:
            raise InputMissing("the number of brokers")
        return number

    @property
    def known_broker_number(self) -> int | None:
        """How many brokers there are, None where no file tells."""
        return self.broker_count if self.broker_count is not None else self.derive(_listed_brokers) or None

    @property
    def rack_number(self) -> int:
        """How many racks there are; `InputMissing` where a broker does not name its own."""
        if self.rack_count is not None:
            return self.rack_count
        racks = self.derive(_listed_racks)
        if not racks or not self.derive(_listed_brokers):
            raise InputMissing("racks of brokers")
        return racks

    def reference_broker(self) -> BrokerConfig:
        """The configuration that topics inherit from: that of the first broker that is known, or Kafka's defaults."""
        known_first = sorted(self.data_brokers, key=lambda broker: not broker.config.is_known)
        return known_first[0].config if known_first else BrokerConfig(self.table, is_known=False)

    @property
    def default_topics(self) -> tuple[LintTopic, LintTopic] | None:
        """The topic that a broker's defaults make, and the one that Kafka's own make.

        None if topics are known, which inherit the defaults, or if no broker's configuration is.
        """
        return self.derive(_default_topics)


def _default_topics(cluster: LintCluster) -> tuple[LintTopic, LintTopic] | None:
    broker = next((b for b in cluster.data_brokers if b.config.is_known), None)
    if broker is None or cluster.topics or cluster.is_live:
        return None
    config = broker.config

    def topic(of: BrokerConfig) -> LintTopic:
        factor = to_int(of.text("default.replication.factor"))
        return LintTopic(
            name="",
            config=TopicConfig({}, of),
            partitions=to_int(of.text("num.partitions")),
            replication_factor=factor if of.declared("default.replication.factor") is not None else None,
            is_default=True,
            place=broker.place,
            owner=broker.owner,
        )

    return topic(config), topic(BrokerConfig(config.table))


def _data_brokers(cluster: LintCluster) -> tuple[LintBroker, ...]:
    return tuple(b for b in cluster.brokers if b.is_broker)


def _listed_brokers(cluster: LintCluster) -> int:
    """How many brokers are listed; 0 where a template stands for an unknown number."""
    brokers = cluster.data_brokers
    return sum(b.count for b in brokers) if all(b.count for b in brokers) else 0


def _listed_racks(cluster: LintCluster) -> int:
    racks = {b.rack or "" for b in cluster.data_brokers}
    return 0 if "" in racks else len(racks)


@dataclass(frozen=True, slots=True, kw_only=True)
class LintAgent:
    """One instance of a Datadog agent's `kafka_consumer.d/conf.yaml` (or `kafka.d`)."""

    settings: Mapping[str, DeclaredValue]
    """Scalars by key; lists with commas."""
    groups: Mapping[str, Mapping[str, tuple[int, ...]]] | None = None
    """Listed groups, their topics and partitions."""
    places: Mapping[tuple[str, ...], Place] = field(default_factory=dict)
    """Where groups, and their topics, are listed."""
    kind: str = "kafka_consumer"
    index: int = 0
    place: Place | None = None
    cluster: LintCluster | None = None

    @property
    def where(self) -> str:
        """The instance in a finding."""
        return f"agent instance {self.index + 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LintConnector:
    """A Kafka Connect connector, or a worker where `is_worker`; with `runs_alone` one that Debezium Server runs.

    `env` is the environment where it belongs to no cluster.
    """

    name: str
    config: Configs = field(default_factory=dict)
    is_worker: bool = False
    runs_alone: bool = False
    place: Place | None = None
    owner: str | None = None
    cluster: LintCluster | None = None
    env: str | None = None

    @property
    def is_prod(self) -> bool:
        """True unless it is said to be of another environment than production."""
        return self.cluster.is_prod if self.cluster is not None else self.env in (None, "prod")

    @property
    def where(self) -> str:
        """The connector in a finding."""
        return f"{'connect worker' if self.is_worker else 'connector'} {self.name}"

    def text(self, key: str) -> str | None:
        """A value as text, None where it is not set."""
        found = self.config.get(key)
        return None if found is None else found.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Estate:
    """Everything of one run: clusters, agents' instances, connectors."""

    clusters: tuple[LintCluster, ...] = ()
    agents: tuple[LintAgent, ...] = ()
    connectors: tuple[LintConnector, ...] = ()
    assumed: dict[str, str] | None = field(default=None, compare=False, repr=False)
    """Where configurations note Kafka's defaults that rules relied on; None if nothing may be assumed."""
