"""What one file contributes to the estate, before files are put together into clusters.

`cluster` names the cluster that a piece belongs to; None where the file does not tell, which means the only cluster
of the run. A reader of one kind of file turns a located document into pieces and problems; it resolves nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkakit.core.findings import Place
from kafkakit.rules.effective import Configs
from kafkakit.rules.rule import Edit
from kafkakit.rules.subjects import (
    NO_FACTS,
    NO_HOST,
    GroupFacts,
    HostFacts,
    LintAgent,
    LintConnector,
    LogDirFacts,
    PartitionFacts,
    RolloutFacts,
    TopicFacts,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPiece:
    """A declared topic. `ignored` maps codes and names of rules to the reason of the resource's own suppression."""

    name: str
    place: Place | None
    cluster: str | None = None
    configs: Configs = field(default_factory=dict)
    partitions: int | None = None
    replication_factor: int | None = None
    partition_facts: tuple[PartitionFacts, ...] | None = None
    facts: TopicFacts = NO_FACTS
    labels: frozenset[str] = frozenset()
    owner: str | None = None
    ignored: Mapping[str, str] = field(default_factory=dict)
    current: Mapping[str, str] | None = None
    """The values that the cluster has now, where the file is a change to make."""
    is_declared: bool = True
    """False for a topic that a snapshot or a live cluster shows."""
    undeclared: frozenset[str] = frozenset()
    """Keys of `configs` that only the cluster has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPiece:
    """A declared broker, controller or pool of equal ones (`count`)."""

    place: Place | None
    cluster: str | None = None
    id: int | None = None
    rack: str | None = None
    roles: tuple[str, ...] = ("broker",)
    static: Configs = field(default_factory=dict)
    dynamic: Configs = field(default_factory=dict)
    host: HostFacts = NO_HOST
    log_dirs: tuple[LogDirFacts, ...] = ()
    version: str | None = None
    is_alive: bool = True
    count: int = 1
    """0 where the file does not tell how many there are."""
    owner: str | None = None
    ignored: Mapping[str, str] = field(default_factory=dict)
    is_known: bool = True
    """False for a broker that is listed without its configuration."""
    controller_listeners: str = ""
    """Listeners of its controller role: beside those that the cluster's brokers share, or instead of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPiece:
    """What a file says of a cluster as a whole."""

    place: Place | None
    name: str | None = None
    is_name_an_id: bool = False
    """The name is the id that Kafka gave the cluster, which other files do not know."""
    version: str | None = None
    target_version: str | None = None
    env: str | None = None
    dynamic_default: Configs = field(default_factory=dict)
    static: Configs | None = None
    """Static configuration that all brokers share, whichever file lists them; None where the file has none."""
    broker_count: int | None = None
    rack_count: int | None = None
    groups: tuple[GroupFacts, ...] | None = None
    features: Mapping[str, int] | None = None
    metadata_behind_days: float | None = None
    moves_running: bool | None = None
    is_live: bool = False
    labels: frozenset[str] = frozenset()
    rollout: RolloutFacts | None = None
    peers: Mapping[str, tuple[str, ...]] | None = None
    versions_differ_days: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentPiece:
    """The target replicas of a partition, from Kafka's reassignment JSON."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    place: Place
    cluster: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileProblem:
    """What is wrong with a file as such: `rule` is the code of the file rule that reports it."""

    rule: str
    message: str
    place: Place
    key: str | None = None
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """Everything that one file contributes."""

    clusters: tuple[ClusterPiece, ...] = ()
    brokers: tuple[BrokerPiece, ...] = ()
    topics: tuple[TopicPiece, ...] = ()
    assignments: tuple[AssignmentPiece, ...] = ()
    agents: tuple[LintAgent, ...] = ()
    connectors: tuple[LintConnector, ...] = ()
    problems: tuple[FileProblem, ...] = ()
