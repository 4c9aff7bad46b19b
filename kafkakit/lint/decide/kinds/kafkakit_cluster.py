"""The kit's own format: a cluster, or a part of one, as YAML (`docs/lint.md`, `lint-cluster.schema.json`)."""

from dataclasses import dataclass

from kafkakit.lint.decide.documents.tree import Document, Mapping, Node, Sequence
from kafkakit.lint.decide.kinds.kafkakit_facts import (
    host_facts,
    log_dirs,
    partition_facts,
    topic_facts,
    with_cluster_facts,
)
from kafkakit.lint.decide.kinds.kind import Kind, of_each
from kafkakit.lint.decide.kinds.values import Reader, dirs_of, node_id_of, roles_of
from kafkakit.lint.decide.pieces import BrokerPiece, ClusterPiece, Pieces, TopicPiece
from kafkakit.rules.effective import Source

CLUSTER_KEYS = (
    "kafkakit", "schema", "cluster", "version", "target_version", "env", "labels", "defaults", "config",
    "broker_count", "rack_count", "brokers", "topics", "observed", "owner", "x-anchors",
)  # fmt: skip
BROKER_KEYS = (
    "id", "rack", "roles", "config", "dynamic", "count", "version", "owner", "alive", "host", "log_dirs", "lint",
)  # fmt: skip
TOPIC_KEYS = ("name", "partitions", "replication_factor", "config", "labels", "owner", "lint", "observed")
ENVS = ("prod", "staging", "dev")


def is_kafkakit_cluster(root: Node) -> bool:
    """True for the header `kafkakit: cluster`, or for parts of a cluster in the shape of this format alone."""
    if not isinstance(root, Mapping):
        return False
    if "kafkakit" in root.entries:
        return root.text("kafkakit") == "cluster"
    keys = root.entries.keys()
    if not keys <= frozenset(CLUSTER_KEYS):
        return False
    lists = {"brokers": BROKER_KEYS, "topics": TOPIC_KEYS}
    if not all(_has_items(root.get(key), known) for key, known in lists.items() if key in keys):
        return False
    maps = [root.mapping(key) for key in ("config", "defaults") if key in keys]
    if None in maps:
        return False
    filled = [part.entries for part in maps if part is not None and part.entries]
    if not all(any("." in key for key in entries) for entries in filled):
        return False
    return bool(filled) or not keys.isdisjoint((*lists, "broker_count", "rack_count", "observed"))


def _has_items(node: Node | None, known: tuple[str, ...]) -> bool:
    items = node.items if isinstance(node, Sequence) else []
    return bool(items) and all(isinstance(item, Mapping) and item.entries.keys() <= set(known) for item in items)


@dataclass(frozen=True, slots=True)
class _Shared:
    """What a file says for all its brokers and topics."""

    cluster: str | None
    owner: str | None


def _read_one(document: Document, root: Mapping) -> Pieces:
    reader = Reader(document)
    reader.known_keys(root, CLUSTER_KEYS, "a cluster")
    shared = _Shared(reader.text(root, "cluster"), reader.text(root, "owner"))
    topics = [_topic(reader, node, shared) for node in reader.mappings(root, "topics")]
    return Pieces(
        clusters=(_cluster(reader, root, shared),),
        brokers=tuple(_broker(reader, node, shared) for node in reader.mappings(root, "brokers")),
        topics=tuple(piece for piece in topics if piece is not None),
        problems=tuple(reader.problems),
    )


def _cluster(reader: Reader, root: Mapping, shared: _Shared) -> ClusterPiece:
    env = reader.text(root, "env")
    if env is not None and env not in ENVS:
        reader.problem(root.entries["env"].value, f"env must be one of {', '.join(ENVS)}", "env")
        env = None
    has_config = "config" in root.entries
    cluster = ClusterPiece(
        place=reader.place(root),
        name=shared.cluster,
        version=reader.version(root, "version"),
        target_version=reader.version(root, "target_version"),
        env=env,
        dynamic_default=reader.configs(reader.mapping(root, "defaults"), Source.DYNAMIC_DEFAULT),
        static=reader.configs(reader.mapping(root, "config"), Source.STATIC) if has_config else None,
        broker_count=reader.integer(root, "broker_count", 1),
        rack_count=reader.integer(root, "rack_count", 1),
        labels=frozenset(reader.texts(root, "labels")),
    )
    return with_cluster_facts(reader, reader.mapping(root, "observed"), cluster)


def _broker(reader: Reader, node: Mapping, shared: _Shared) -> BrokerPiece:
    reader.known_keys(node, BROKER_KEYS, "a broker")
    alive = reader.flag(node, "alive")
    static = reader.configs(reader.mapping(node, "config"), Source.STATIC)
    number = reader.integer(node, "id")
    return BrokerPiece(
        place=reader.place(node),
        cluster=shared.cluster,
        id=number if number is not None else node_id_of(static),
        rack=reader.text(node, "rack"),
        roles=reader.texts(node, "roles") or roles_of(static),
        static=static,
        dynamic=reader.configs(reader.mapping(node, "dynamic"), Source.DYNAMIC_BROKER),
        host=host_facts(reader, reader.mapping(node, "host")),
        log_dirs=log_dirs(reader, node) or dirs_of(static),
        version=reader.version(node, "version"),
        is_alive=alive is not False,
        count=reader.integer(node, "count", 1) or 1,
        owner=reader.text(node, "owner") or shared.owner,
        ignored=_ignored(reader, node),
        is_known="config" in node.entries,
    )


def _topic(reader: Reader, node: Mapping, shared: _Shared) -> TopicPiece | None:
    reader.known_keys(node, TOPIC_KEYS, "a topic")
    name = reader.text(node, "name")
    if name is None:
        reader.problem(node, "a topic needs a name", "name")
        return None
    observed = reader.mapping(node, "observed")
    return TopicPiece(
        name=name,
        place=reader.place(node),
        cluster=shared.cluster,
        configs=reader.configs(reader.mapping(node, "config"), Source.TOPIC),
        partitions=reader.integer(node, "partitions", 1),
        replication_factor=reader.integer(node, "replication_factor", 1),
        partition_facts=partition_facts(reader, observed),
        facts=topic_facts(reader, observed),
        labels=frozenset(reader.texts(node, "labels")),
        owner=reader.text(node, "owner") or shared.owner,
        ignored=_ignored(reader, node),
        current=reader.plain_texts(observed.mapping("current")) if observed and observed.get("current") else None,
    )


def _ignored(reader: Reader, node: Mapping) -> dict[str, str]:
    return reader.plain_texts(node.mapping("lint", "ignore"))


KIND = Kind(
    name="kafkakit",
    about="kafkakit cluster and topic YAML",
    formats=("yaml", "json"),
    recognise=is_kafkakit_cluster,
    read=of_each(_read_one),
)
