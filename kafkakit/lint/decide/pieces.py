"""Pieces: what one file or live cluster contributes to the estate, and how all are put together into clusters.

`cluster` names the cluster that a piece belongs to, with `namespace` for resources of Kubernetes; None if the file does
not tell (`membership.py` then finds the cluster). A reader of one kind of file turns a located document into pieces and
problems; it resolves nothing. What a cluster shows of its brokers and topics becomes the same pieces from a snapshot's
file and from the cluster itself. Assembling works out the effective configuration of each broker and topic.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kafkakit.core.findings import Place
from kafkakit.lint.decide.membership import (
    ClusterMember,
    NodeIdentity,
    addresses_of,
    are_apart,
    cluster_names,
    refuse_unknown_versions,
    version_of,
)
from kafkakit.rules.config_defs import ConfigTable, config_table, minor_of
from kafkakit.rules.effective import BrokerConfig, Configs, DeclaredValue, TopicConfig
from kafkakit.rules.rule import Edit
from kafkakit.rules.subjects import (
    NO_FACTS,
    BrokerFacts,
    DeclaredTopic,
    Estate,
    GroupFacts,
    LintAgent,
    LintBroker,
    LintCluster,
    LintConnector,
    LintTopic,
    LogDirFacts,
    PartitionFacts,
    RolloutFacts,
    TopicFacts,
)

if TYPE_CHECKING:
    from kafkakit.core.model import Broker, Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPiece(DeclaredTopic):
    """A declared topic. `ignored` maps codes and names of rules to the reason of the resource's own suppression."""

    place: Place | None
    cluster: str | None = None
    namespace: str | None = None
    configs: Configs = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPiece(BrokerFacts):
    """A declared broker, controller or pool of equal ones (`count`)."""

    place: Place | None
    cluster: str | None = None
    namespace: str | None = None
    node: NodeIdentity | None = None
    """Set if the file configures this node as a whole and names no cluster."""
    assumed_env: str | None = None
    """The environment that files of this kind are mostly for; options override it."""
    has_nearest_version: bool = False
    """The version only tells what runs there: the nearest that has a table stands for it."""
    static: Configs = field(default_factory=dict)
    dynamic: Configs = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)
    is_known: bool = True
    """False for a broker that is listed without its configuration."""
    is_partial: bool = False
    """The file shows some of its settings, and others come from elsewhere."""
    is_whole: bool = False
    """True for the file that a node starts with, all of it."""
    controller_listeners: str = ""
    """Listeners of its controller role: beside those that the cluster's brokers share, or instead of them."""


def _shared_fields(value: Any, base: type) -> dict[str, Any]:
    """The fields of a base of the value's type."""
    return {each.name: getattr(value, each.name) for each in fields(base) if each.init}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPiece:
    """What a file says of a cluster as a whole."""

    place: Place | None
    name: str | None = None
    namespace: str | None = None
    is_name_an_id: bool = False
    """The name is the id that Kafka gave the cluster, which other files do not know."""
    is_whole: bool = False
    """The resource declares its cluster as a whole, so that another one of its name is another cluster."""
    watched_namespace: str | None = None
    """A further namespace whose topics belong to the cluster."""
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
class ResourceAcceptance:
    """Findings that a resource's annotations accept: those between its first place and `end` (line, column).

    `ignored` maps codes and names of rules to reasons.
    """

    ignored: Mapping[str, str]
    place: Place
    end: tuple[int, int] | None = None

    def holds(self, place: Place) -> bool:
        """True for a place inside the resource."""
        at = (place.line, place.column)
        begins = (self.place.line, self.place.column)
        return place.path == self.place.path and begins <= at and (self.end is None or at < self.end)


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
    accepted: tuple[ResourceAcceptance, ...] = ()


def seen_broker(broker: "Broker", cluster: str | None, place: Place | None) -> BrokerPiece:
    """A broker without its configuration, which a snapshot does not hold."""
    return BrokerPiece(
        place=place,
        cluster=cluster,
        id=broker.id,
        rack=broker.rack,
        log_dirs=tuple(
            LogDirFacts(path=part.path, total_bytes=part.total_bytes, usable_bytes=part.usable_bytes)
            for part in broker.log_dirs
        ),
        is_alive=broker.is_alive,
        is_known=False,
    )


def seen_replication(topic: "Topic") -> int | None:
    """The least number of replicas of its partitions, without those that leave."""
    return min((len(p.replicas) - len(p.removing) for p in topic.partitions), default=None)


def seen_partitions(topic: "Topic") -> tuple[PartitionFacts, ...]:
    """Its partitions with the replicas that they will have once running moves are done."""
    return tuple(
        PartitionFacts(
            partition=p.partition,
            replicas=tuple(broker for broker in p.replicas if broker not in p.removing),
            isr=p.isr,
            leader=-1 if p.leader is None and p.isr is not None else p.leader,
            replica_bytes=p.replica_bytes
            or (dict.fromkeys(p.replicas, p.size_bytes) if p.size_bytes is not None else {}),
        )
        for p in topic.partitions
    )


T = TypeVar("T")
DEFAULT_ENV = "prod"
UNTOLD = "since nothing tells it"
OF_DEVELOPMENT = "since compose files are mostly for development"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssemblyOptions:
    """What the files do not tell: the version that clusters run and the one to upgrade to, environment, name.

    A file's own version, environment and cluster name count before these; a target version given here counts first.
    """

    kafka_version: str | None = None
    target_version: str | None = None
    env: str | None = None
    cluster: str | None = None
    nearest_version: bool = False
    """Judge a version without a table as the nearest that has one."""
    assume_defaults: bool = True
    """What no file tells of brokers is Kafka's default, and findings that rest on it say so."""


def refuse_versions(pieces: Iterable[Pieces], options: AssemblyOptions) -> None:
    """Raise `UsageError` for a version without a table, of the options or of a file.

    The tag of an image only tells what runs there: the nearest version stands for it, and the report says so.
    """
    given: list[tuple[str | None, Place | None]] = [(options.kafka_version, None), (options.target_version, None)]
    for part in pieces:
        given += [(text, c.place) for c in part.clusters for text in (c.version, c.target_version)]
        given += [(b.version, b.place) for b in part.brokers if not b.in_container and not b.has_nearest_version]
    refuse_unknown_versions(given, options.nearest_version)


@dataclass(slots=True)
class _Parts:
    clusters: list[ClusterPiece] = field(default_factory=list)
    brokers: list[BrokerPiece] = field(default_factory=list)
    topics: list[TopicPiece] = field(default_factory=list)
    assignments: list[AssignmentPiece] = field(default_factory=list)


def assemble(pieces: Iterable[Pieces], options: AssemblyOptions) -> Estate:
    """The estate of all files: parts of one cluster are put together, in the order of their places.

    The order of files changes nothing. Linear in the number of pieces.
    """
    files = list(pieces)
    by_name = _by_cluster(files, options)
    assumed: dict[str, str] | None = {} if options.assume_defaults else None
    clusters = tuple(_cluster(name, parts, options, assumed) for name, parts in by_name.items())
    only = clusters[0] if len(clusters) == 1 else None
    agents = sorted((agent for file in files for agent in file.agents), key=_order)
    connectors = sorted((c for file in files for c in file.connectors), key=_order)
    return Estate(
        clusters=clusters,
        agents=tuple(replace(agent, cluster=agent.cluster or only) for agent in agents),
        connectors=tuple(replace(c, cluster=c.cluster or only, env=options.env or c.env) for c in connectors),
        assumed=assumed,
    )


class _PlacedPiece(Protocol):
    @property
    def place(self) -> Place | None: ...


def _order(piece: _PlacedPiece) -> tuple[bool, Place]:
    """By place; what a live cluster shows comes last."""
    return piece.place is None, piece.place or Place("", 0)


def _by_cluster(files: Sequence[Pieces], options: AssemblyOptions) -> dict[str, _Parts]:
    clusters = [piece for file in files for piece in file.clusters]
    brokers = [piece for file in files for piece in file.brokers]
    topics = [piece for file in files for piece in file.topics]
    assignments = [piece for file in files for piece in file.assignments]
    ids = {c.name for c in clusters if c.is_name_an_id}
    members = [
        *(_cluster_member(piece) for piece in clusters),
        *(_broker_member(piece, ids) for piece in brokers),
        *(_topic_member(piece, ids) for piece in topics),
        *(ClusterMember(path=piece.place.path, name=piece.cluster) for piece in assignments),
    ]
    names = iter(cluster_names(members, options.cluster))
    found: dict[str, _Parts] = {}
    for cluster in clusters:
        found.setdefault(next(names), _Parts()).clusters.append(cluster)
    for broker in brokers:
        found.setdefault(next(names), _Parts()).brokers.append(broker)
    for topic in topics:
        found.setdefault(next(names), _Parts()).topics.append(topic)
    for assignment in assignments:
        found.setdefault(next(names), _Parts()).assignments.append(assignment)
    for parts in found.values():
        parts.clusters.sort(key=_order)
        parts.brokers.sort(key=_order)
        parts.topics.sort(key=_order)
        parts.assignments.sort(key=_order)
    return dict(sorted(found.items()))


def _path(piece: _PlacedPiece) -> str | None:
    return piece.place.path if piece.place is not None else None


def _cluster_member(piece: ClusterPiece) -> ClusterMember:
    return ClusterMember(
        path=_path(piece),
        name=piece.name,
        namespace=piece.namespace,
        is_id=piece.is_name_an_id,
        defines=True,
        is_whole=piece.is_whole,
        watched=piece.watched_namespace,
    )


def _broker_member(piece: BrokerPiece, ids: set[str | None]) -> ClusterMember:
    return ClusterMember(
        path=_path(piece),
        name=piece.cluster,
        namespace=piece.namespace,
        is_id=piece.cluster is not None and piece.cluster in ids,
        defines=True,
        node=piece.node,
    )


def _topic_member(piece: TopicPiece, ids: set[str | None]) -> ClusterMember:
    is_declared = bool(piece.configs) or piece.partitions is not None
    return ClusterMember(
        path=_path(piece),
        name=piece.cluster,
        namespace=piece.namespace,
        is_id=piece.cluster is not None and piece.cluster in ids,
        declares=f"topic {piece.name}" if is_declared else None,
    )


def _cluster(name: str, parts: _Parts, options: AssemblyOptions, assumed: dict[str, str] | None) -> LintCluster:
    given = parts.clusters
    stated = [*(c.version for c in given), *(b.version for b in parts.brokers)]
    nodes = (*(b.static for b in parts.brokers), *(c.static for c in given if c.static is not None))
    version = version_of(stated, options.kafka_version, nodes)
    table = config_table(version.minor)
    target = options.target_version or _first_value(c.target_version for c in given)
    defaults = {key: value for c in given for key, value in c.dynamic_default.items()}
    brokers = tuple(_broker(b, table, defaults) for b in _brokers(parts))
    groups = [c.groups for c in given if c.groups is not None]
    told_env, assumed_env = (
        _first_value(c.env for c in given) or options.env,
        _first_value(b.assumed_env for b in parts.brokers),
    )
    return LintCluster(
        name=name,
        table=table,
        is_version_known=not version.because and not version.stated,
        version_because=f"the nearest to {version.stated} that lint knows" if version.stated else version.because,
        is_version_mapped=bool(version.stated),
        target=config_table(minor_of(target)) if target else None,
        env=told_env or assumed_env or DEFAULT_ENV,
        env_because="" if told_env else OF_DEVELOPMENT if assumed_env else UNTOLD,
        brokers=brokers,
        topics=_topics(parts, inherited_config(brokers, table, defaults, assumed)),
        groups=tuple(group for some in groups for group in some) if groups else None,
        features=_first_value(c.features for c in given),
        metadata_behind_days=_first_value(c.metadata_behind_days for c in given),
        moves_running=_first_value(c.moves_running for c in given),
        is_live=any(c.is_live for c in given),
        broker_count=_first_value(c.broker_count for c in given),
        rack_count=_first_value(c.rack_count for c in given),
        labels=frozenset().union(*(c.labels for c in given)),
        rollout=_first_value(c.rollout for c in given),
        peers=_first_value(c.peers for c in given),
        versions_differ_days=_first_value(c.versions_differ_days for c in given),
        place=_first_value([*(c.place for c in given), *(b.place for b in parts.brokers if b.node is not None)]),
    )


def inherited_config(
    brokers: Sequence[LintBroker], table: ConfigTable, defaults: Configs, assumed: dict[str, str] | None = None
) -> BrokerConfig:
    """The broker configuration that topics inherit: if brokers differ, what most of them have.

    Without any broker it is Kafka's default, which is `assumed` or not known.

    Neither the order of files nor the names of brokers decide.
    """
    data = [b for b in brokers if b.is_broker]
    known = [b.config for b in data if b.config.is_known]
    if known:
        keys = [synonym for definition in table.topic.values() for synonym in definition.synonyms[:1]]
        inherited = [tuple(map(config.text, keys)) if len(known) > 1 else () for config in known]
        numbers = Counter(inherited)
        wanted = min(numbers, key=lambda values: (-numbers[values], values))
        return known[inherited.index(wanted)]
    if data:
        return replace(data[0].config, is_partial=False)
    return BrokerConfig(table, dynamic_default=defaults, is_known=False, assumed=assumed)


def _brokers(parts: _Parts) -> list[BrokerPiece]:
    """The brokers with what they share; one that stands for all where only the shared configuration is known.

    A single file of a broker does not tell how many there are; two and more are taken for all.
    """
    shared = [c for c in parts.clusters if c.static is not None]
    static = {key: value for c in shared for key, value in (c.static or {}).items()}
    found = _merged_brokers(parts.brokers)
    if not any("broker" in b.roles for b in found) and shared:
        found.append(BrokerPiece(place=shared[0].place, cluster=shared[0].name, count=0))
    is_list = sum(1 for b in found if "broker" in b.roles and b.id is not None) > 1
    return [
        replace(
            b,
            static=_with_controller_listeners(b, {**static, **b.static} if static else b.static),
            is_known=b.is_known or bool(shared),
            count=1 if b.count == 0 and b.id is not None and is_list else b.count,
            settings_place=shared[0].place if b.pool and shared else b.settings_place,
        )
        for b in found
    ]


def _with_controller_listeners(piece: BrokerPiece, static: Configs) -> Configs:
    shared = static.get("listeners")
    if not piece.controller_listeners or shared is None:
        return static
    if "broker" in piece.roles:
        return {**static, "listeners": shared._replace(text=f"{shared.text},{piece.controller_listeners}")}
    own = {key: value for key, value in static.items() if key != "advertised.listeners"}
    return {**own, "listeners": shared._replace(text=piece.controller_listeners)}


def _merged_brokers(pieces: Sequence[BrokerPiece]) -> list[BrokerPiece]:
    """Brokers of one id are one, whichever file holds which part; two nodes with one id stay two (KKQ860)."""
    found: dict[object, list[BrokerPiece]] = {}
    for piece in pieces:
        same = found.setdefault(piece.id if piece.id is not None else ("no id", len(found)), [])
        number = next((n for n, before in enumerate(same) if not _are_two(before, piece)), None)
        if number is None:
            same.append(piece)
        else:
            same[number] = _merge_broker(same[number], piece)
    return [piece for same in found.values() for piece in same]


def _are_two(one: BrokerPiece, other: BrokerPiece) -> bool:
    """True for two nodes that files give addresses of their own."""
    if one.place is None or other.place is None:
        return False
    return are_apart(addresses_of(one.static), addresses_of(other.static))


def _merge_broker(first: BrokerPiece, second: BrokerPiece) -> BrokerPiece:
    return replace(
        first,
        rack=first.rack or second.rack,
        static={**second.static, **first.static},
        dynamic={**second.dynamic, **first.dynamic},
        host=first.host if first.host != BrokerPiece(place=None).host else second.host,
        log_dirs=first.log_dirs or second.log_dirs,
        version=first.version or second.version,
        is_alive=first.is_alive and second.is_alive,
        count=max(first.count, second.count),
        owner=first.owner or second.owner,
        ignored={**second.ignored, **first.ignored},
        is_known=first.is_known or second.is_known,
        is_whole=first.is_whole or second.is_whole,
    )


def _broker(piece: BrokerPiece, table: ConfigTable, defaults: Configs) -> LintBroker:
    rack = piece.rack
    if rack is None and "broker.rack" in piece.static:
        rack = piece.static["broker.rack"].text or None
    config = BrokerConfig(
        table, piece.static, defaults, piece.dynamic, piece.is_known, piece.is_partial, piece.is_whole
    )
    return LintBroker(config=config, **{**_shared_fields(piece, BrokerFacts), "rack": rack})


def _topics(parts: _Parts, broker: BrokerConfig) -> tuple[LintTopic, ...]:
    inherited: dict[str, DeclaredValue] = {}
    found: dict[str, TopicPiece] = {}
    for piece in parts.topics:
        before = found.get(piece.name)
        found[piece.name] = piece if before is None else _merge_topic(before, piece)
    targets: dict[str, dict[int, AssignmentPiece]] = {}
    for assignment in parts.assignments:
        targets.setdefault(assignment.topic, {})[assignment.partition] = assignment
    topics = [_topic(piece, targets.pop(piece.name, {}), broker, inherited) for piece in found.values()]
    unseen = replace(broker, is_known=False, assumed=None)
    for name, wanted in targets.items():
        piece = TopicPiece(name=name, place=min(a.place for a in wanted.values()), is_declared=False)
        topics.append(_topic(piece, wanted, unseen, {}))
    return tuple(topics)


def _topic(
    piece: TopicPiece, targets: Mapping[int, AssignmentPiece], broker: BrokerConfig, inherited: dict[str, DeclaredValue]
) -> LintTopic:
    facts = piece.partition_facts
    if targets:
        facts = _after_assignment(facts or (), targets)
    replicas = {len(p.replicas) for p in facts or () if p.replicas}
    fewest = min(replicas, default=None)
    factor = piece.replication_factor if not targets or fewest is None else fewest
    if targets and factor is not None and len(facts or ()) < (piece.partitions or 0):
        factor = min(factor, piece.replication_factor or factor)  # the other partitions stay as they are
    count = piece.partitions
    if count is None and piece.partition_facts is not None:
        count = len(piece.partition_facts)
    after = {
        "partitions": count,
        "replication_factor": factor if factor is not None else fewest,
        "partition_facts": facts,
    }
    config = TopicConfig(piece.configs, broker, inherited)
    return LintTopic(config=config, **{**_shared_fields(piece, DeclaredTopic), **after})


def _after_assignment(
    facts: Iterable[PartitionFacts], targets: Mapping[int, AssignmentPiece]
) -> tuple[PartitionFacts, ...]:
    """The partitions as they are after the reassignment; ISR and leader of those that move are not known."""
    after = {p.partition: p for p in facts}
    for number, target in targets.items():
        before = after.get(number) or PartitionFacts(partition=number, replicas=())
        after[number] = replace(before, replicas=target.replicas, isr=None, leader=None)
    return tuple(after[number] for number in sorted(after))


def _merge_topic(first: TopicPiece, second: TopicPiece) -> TopicPiece:
    """One topic out of two files: what the first declares counts, the other fills what it leaves open.

    Where both set a key to different values, the one from a snapshot or a live cluster is the current value.
    """
    declared, seen = (second, first) if first.partition_facts and not second.partition_facts else (first, second)
    current = _first_value((declared.current, seen.current))
    if current is None and seen.partition_facts is not None and declared.partition_facts is None:
        current = {key: value.text for key, value in seen.configs.items()}
    return replace(
        declared,
        configs={**seen.configs, **declared.configs},
        partitions=_first_value((declared.partitions, seen.partitions)),
        replication_factor=_first_value((declared.replication_factor, seen.replication_factor)),
        partition_facts=_first_value((declared.partition_facts, seen.partition_facts)),
        facts=_merge_facts(declared.facts, seen.facts),
        labels=declared.labels | seen.labels,
        owner=declared.owner or seen.owner,
        ignored={**seen.ignored, **declared.ignored},
        current=current,
        is_declared=declared.is_declared or seen.is_declared,
        undeclared=frozenset(seen.configs.keys() | declared.configs.keys()) - _own_keys(seen) - _own_keys(declared)
        if declared.is_declared or seen.is_declared
        else frozenset(),
    )


def _own_keys(piece: TopicPiece) -> frozenset[str]:
    """The keys that files declare."""
    return frozenset(piece.configs.keys() - piece.undeclared) if piece.is_declared else frozenset()


def _merge_facts(first: TopicFacts, second: TopicFacts) -> TopicFacts:
    if NO_FACTS in (first, second):
        return second if first == NO_FACTS else first
    names = TopicFacts.__dataclass_fields__
    return TopicFacts(**{name: _first_value((getattr(first, name), getattr(second, name))) for name in names})


def _first_value(values: Iterable[T | None]) -> T | None:
    return next((value for value in values if value is not None), None)
