"""The kit's own files: clusters or parts of them as YAML (`docs/lint.md`, `lint-cluster.schema.json`), and snapshots.

A cluster's file may hold what was observed too, not declared: hosts, partitions, groups, audits.

A `cluster-snapshot` is a live cluster at one time, with partitions, sizes and running moves. It is decoded with its
schema and not as a located tree, for it may hold a million replicas; places of topics are found in the text in one
pass.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkakit.core.errors import InputError
from kafkakit.core.findings import Place
from kafkakit.core.yaml_json import UNPARSABLE, Document, Mapping, Node, Sequence
from kafkakit.lint.decide.kinds.kind import (
    DocumentReader,
    FileKind,
    dirs_of,
    node_id_of,
    of_each,
    roles_of,
    without_secret,
)
from kafkakit.lint.decide.pieces import (
    BrokerPiece,
    ClusterPiece,
    FileProblem,
    Pieces,
    TopicPiece,
    seen_broker,
    seen_partitions,
    seen_replication,
)
from kafkakit.rules.effective import DeclaredValue, ValueSource, to_int
from kafkakit.rules.subjects import (
    NO_FACTS,
    NO_HOST,
    BatchFacts,
    GroupFacts,
    HostFacts,
    LogDirFacts,
    PartitionFacts,
    RolloutFacts,
    TopicFacts,
)

if TYPE_CHECKING:
    from kafkakit.core.model import ClusterSnapshot


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
class _SharedFields:
    """What a file says for all its brokers and topics."""

    cluster: str | None
    owner: str | None


def _read_one(document: Document, root: Mapping) -> Pieces:
    reader = DocumentReader(document)
    reader.known_keys(root, CLUSTER_KEYS, "a cluster")
    shared = _SharedFields(reader.text(root, "cluster"), reader.text(root, "owner"))
    topics = [_topic(reader, node, shared) for node in reader.mappings(root, "topics")]
    return Pieces(
        clusters=(_cluster(reader, root, shared),),
        brokers=tuple(_broker(reader, node, shared) for node in reader.mappings(root, "brokers")),
        topics=tuple(piece for piece in topics if piece is not None),
        problems=tuple(reader.problems),
    )


def _cluster(reader: DocumentReader, root: Mapping, shared: _SharedFields) -> ClusterPiece:
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
        dynamic_default=reader.configs(reader.mapping(root, "defaults"), ValueSource.DYNAMIC_DEFAULT),
        static=reader.configs(reader.mapping(root, "config"), ValueSource.STATIC) if has_config else None,
        broker_count=reader.integer(root, "broker_count", 1),
        rack_count=reader.integer(root, "rack_count", 1),
        labels=frozenset(reader.texts(root, "labels")),
    )
    return with_cluster_facts(reader, reader.mapping(root, "observed"), cluster)


def _broker(reader: DocumentReader, node: Mapping, shared: _SharedFields) -> BrokerPiece:
    reader.known_keys(node, BROKER_KEYS, "a broker")
    alive = reader.flag(node, "alive")
    static = reader.configs(reader.mapping(node, "config"), ValueSource.STATIC)
    number = reader.integer(node, "id")
    return BrokerPiece(
        place=reader.place(node),
        cluster=shared.cluster,
        id=number if number is not None else node_id_of(static),
        rack=reader.text(node, "rack"),
        roles=reader.texts(node, "roles") or roles_of(static),
        static=static,
        dynamic=reader.configs(reader.mapping(node, "dynamic"), ValueSource.DYNAMIC_BROKER),
        host=host_facts(reader, reader.mapping(node, "host")),
        log_dirs=log_dirs(reader, node) or dirs_of(static),
        version=reader.version(node, "version"),
        is_alive=alive is not False,
        count=reader.integer(node, "count", 1) or 1,
        owner=reader.text(node, "owner") or shared.owner,
        ignored=_ignored_rules(reader, node),
        is_known="config" in node.entries,
    )


def _topic(reader: DocumentReader, node: Mapping, shared: _SharedFields) -> TopicPiece | None:
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
        configs=reader.configs(reader.mapping(node, "config"), ValueSource.TOPIC),
        partitions=reader.integer(node, "partitions", 1),
        replication_factor=reader.integer(node, "replication_factor", 1),
        partition_facts=partition_facts(reader, observed),
        facts=topic_facts(reader, observed),
        labels=frozenset(reader.texts(node, "labels")),
        owner=reader.text(node, "owner") or shared.owner,
        ignored=_ignored_rules(reader, node),
        current=reader.plain_texts(observed.mapping("current")) if observed and observed.get("current") else None,
    )


def _ignored_rules(reader: DocumentReader, node: Mapping) -> dict[str, str]:
    return reader.plain_texts(node.mapping("lint", "ignore"))


OBSERVED_OF_CLUSTER = (
    "groups", "features", "metadata_behind_days", "moves_running", "live", "rollout", "peers", "versions_differ_days",
)  # fmt: skip


def with_cluster_facts(reader: DocumentReader, node: Mapping | None, cluster: ClusterPiece) -> ClusterPiece:
    """A cluster with its `observed` part."""
    if node is None:
        return cluster
    reader.known_keys(node, OBSERVED_OF_CLUSTER, "what is observed of a cluster")
    features = reader.mapping(node, "features")
    peers = reader.mapping(node, "peers")
    rollout = reader.mapping(node, "rollout")
    return replace(
        cluster,
        groups=tuple(_group(reader, group) for group in reader.mappings(node, "groups"))
        if node.get("groups") is not None
        else None,
        features=None if features is None else {name: reader.integer(features, name) or 0 for name in features.entries},
        metadata_behind_days=reader.number(node, "metadata_behind_days"),
        moves_running=reader.flag(node, "moves_running"),
        is_live=bool(reader.flag(node, "live")),
        rollout=None if rollout is None else _rollout(reader, rollout),
        peers=None if peers is None else {key: reader.texts(peers, key) for key in peers.entries},
        versions_differ_days=reader.number(node, "versions_differ_days"),
    )


def _rollout(reader: DocumentReader, node: Mapping) -> RolloutFacts:
    return RolloutFacts(
        isr_changes_per_min=reader.number(node, "isr_changes_per_min") or 0.0,
        baseline_mean=reader.number(node, "baseline_mean") or 0.0,
        baseline_deviation=reader.number(node, "baseline_deviation") or 0.0,
        unclean_elections=reader.integer(node, "unclean_elections") or 0,
    )


def _group(reader: DocumentReader, node: Mapping) -> GroupFacts:
    return GroupFacts(
        name=reader.text(node, "name") or "",
        topics=reader.texts(node, "topics"),
        members=reader.integer(node, "members"),
        time_lag_s=reader.numbers(node, "time_lag_s"),
        byte_lag={topic: int(lag) for topic, lag in reader.numbers(node, "byte_lag").items()},
        metadata_p99_bytes=reader.integer(node, "metadata_p99_bytes"),
    )


def host_facts(reader: DocumentReader, node: Mapping | None) -> HostFacts:
    """The `host` part of a broker."""
    if node is None:
        return NO_HOST
    reader.known_keys(node, HostFacts.__dataclass_fields__, "a host")
    return HostFacts(
        open_files=reader.integer(node, "open_files"),
        max_map_count=reader.integer(node, "max_map_count"),
        memory_bytes=reader.integer(node, "memory_bytes"),
        heap_bytes=reader.integer(node, "heap_bytes"),
        connections=reader.integer(node, "connections"),
        write_bytes_s=reader.number(node, "write_bytes_s"),
        platform=reader.text(node, "platform"),
    )


def log_dirs(reader: DocumentReader, node: Mapping) -> tuple[LogDirFacts, ...]:
    """The `log_dirs` of a broker."""
    return tuple(
        LogDirFacts(
            path=reader.text(part, "path") or "",
            total_bytes=reader.integer(part, "total_bytes"),
            usable_bytes=reader.integer(part, "usable_bytes"),
            is_ephemeral=reader.flag(part, "is_ephemeral") is True,
            daily_used_bytes=reader.integers(part, "daily_used_bytes"),
        )
        for part in reader.mappings(node, "log_dirs")
    )


def partition_facts(reader: DocumentReader, node: Mapping | None) -> tuple[PartitionFacts, ...] | None:
    """The partitions that were observed of a topic, None where none are given."""
    if node is None or node.get("partitions") is None:
        return None
    return tuple(_partition(reader, part) for part in reader.mappings(node, "partitions"))


def _partition(reader: DocumentReader, node: Mapping) -> PartitionFacts:
    replica_bytes = {to_int(broker): int(size) for broker, size in reader.numbers(node, "bytes").items()}
    return PartitionFacts(
        partition=reader.integer(node, "partition") or 0,
        replicas=reader.integers(node, "replicas") or (),
        isr=reader.integers(node, "isr"),
        leader=reader.integer(node, "leader", -1),
        replica_bytes={broker: size for broker, size in replica_bytes.items() if broker is not None},
        bytes_s=reader.number(node, "bytes_s"),
        segments=reader.integer(node, "segments"),
    )


OBSERVED_OF_TOPIC = (*TopicFacts.__dataclass_fields__, "partitions", "current")


def topic_facts(reader: DocumentReader, node: Mapping | None) -> TopicFacts:
    """The other facts that were observed of a topic."""
    if node is None:
        return NO_FACTS
    reader.known_keys(node, OBSERVED_OF_TOPIC, "what is observed of a topic")
    return TopicFacts(
        age_s=reader.number(node, "age_s"),
        idle_s=reader.number(node, "idle_s"),
        codec=reader.text(node, "codec"),
        compression_ratio=reader.number(node, "compression_ratio"),
        keyless_records=reader.integer(node, "keyless_records"),
        dirty_unique_keys=reader.integer(node, "dirty_unique_keys"),
        timestamp_skew_s=reader.number(node, "timestamp_skew_s"),
        batches=None
        if node.get("batches") is None
        else tuple(_batch(reader, b) for b in reader.mappings(node, "batches")),
        override_age_s=None if node.get("override_age_s") is None else reader.numbers(node, "override_age_s"),
    )


def _batch(reader: DocumentReader, node: Mapping) -> BatchFacts:
    return BatchFacts(
        partition=reader.integer(node, "partition") or 0,
        offset=reader.integer(node, "offset") or 0,
        compressed_bytes=reader.integer(node, "compressed_bytes") or 0,
        decompressed_bytes=reader.integer(node, "decompressed_bytes") or 0,
        content_size=reader.integer(node, "content_size"),
        codec=reader.text(node, "codec") or "zstd",
    )


CLUSTER_KIND = FileKind(
    name="kafkakit",
    about="kafkakit cluster and topic YAML",
    formats=("yaml", "json"),
    recognise=is_kafkakit_cluster,
    read=of_each(_read_one),
)

_MOST_MISSES = 100
"""After so many members that were not found, the text is written in another way and is not searched any more."""
_HEADER = re.compile(r'\s*\{\s*"kafkakit"\s*:\s*\{[^{}]{0,200}"kind"\s*:\s*"cluster-snapshot"')


def is_snapshot(text: str) -> bool:
    """True for the text of a `cluster-snapshot` file."""
    return _HEADER.match(text) is not None


def _read(document: Document, roots: tuple[Node, ...]) -> Pieces:
    from kafkakit.core.documents import decode_snapshot

    del roots
    try:
        snapshot = decode_snapshot(document.text.encode("utf-8", "surrogatepass"), document.path)
    except InputError as error:
        problem = FileProblem(rule=UNPARSABLE, message=error.problem, place=Place(document.path, 1))
        return Pieces(problems=(problem,))
    name = snapshot.cluster_id
    return Pieces(
        clusters=(
            ClusterPiece(
                place=Place(document.path, 1),
                name=name,
                is_name_an_id=True,
                version=snapshot.kafka_version,
                moves_running=bool(snapshot.reassignments),
                is_live=True,
            ),
        ),
        brokers=tuple(seen_broker(broker, name, Place(document.path, 1)) for broker in snapshot.brokers),
        topics=tuple(_topics(snapshot, document)),
    )


def _topics(snapshot: "ClusterSnapshot", document: Document) -> Iterator[TopicPiece]:
    finder = _Finder(document)
    finder.skip_to('"topics"')
    for topic in snapshot.topics:
        place = finder.place("name", topic.name)
        yield TopicPiece(
            name=topic.name,
            place=place,
            cluster=snapshot.cluster_id,
            configs={
                key: DeclaredValue(without_secret(key, text), ValueSource.TOPIC, finder.place(key, text))
                for key, text in topic.configs.items()
            },
            partitions=len(topic.partitions) or None,
            replication_factor=seen_replication(topic),
            partition_facts=seen_partitions(topic),
            is_declared=False,
        )


class _Finder:
    """Finds members of objects in the order in which they stand; linear over all of them together."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._at = 0
        self._misses = 0
        self._colon = ": " if '"topics": ' in document.text else ":"

    def skip_to(self, text: str) -> None:
        self._at = max(self._document.text.find(text), 0)

    def place(self, key: str, value: str) -> Place:
        """Where a member begins; the place of the one before where it cannot be found."""
        if self._misses > _MOST_MISSES:
            return Place(self._document.path, 1)
        wanted = f"{json.dumps(key, ensure_ascii=False)}{self._colon}{json.dumps(value, ensure_ascii=False)}"
        found = self._document.text.find(wanted, self._at)
        if found >= 0:
            self._at = found
        else:
            self._misses += 1
        return self._document.place(self._at)


SNAPSHOT_KIND = FileKind(
    name="cluster-snapshot",
    about="a cluster-snapshot that kafkakit has taken",
    formats=("json",),
    recognise=lambda root: False,
    read=_read,
)
