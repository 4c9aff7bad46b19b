"""Files of Kafka and of tools around it.

- `server.properties` and the properties of KRaft nodes: one broker or controller a file.
- Kafka's reassignment JSON (`kafka-reassign-partitions`): the replicas that partitions are to have.
- topicctl's YAML: one cluster or one topic a document.
- Terraform plans as JSON (`terraform show -json`): the topics that are there after the plan, of the providers
  Mongey/kafka, Confluent's, Aiven's and Google's, in all modules; the values before a change become the topic's current
  ones.
- Kafka Connect: connectors as JSON (`{name, config}`, flat, or a list of them) or properties, and workers.
- Debezium Server: `application.properties`. Its source is a connector of Debezium that runs without Kafka Connect.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kafkakit.core.findings import Place
from kafkakit.core.quantities import count_of
from kafkakit.core.yaml_json import Document, Mapping, Node, Scalar, Sequence
from kafkakit.lint.decide.kinds.kind import (
    DocumentReader,
    FileKind,
    dirs_of,
    environment_of,
    join_pieces,
    node_id_of,
    of_each,
    owner_in,
    roles_of,
)
from kafkakit.lint.decide.membership import node_identity
from kafkakit.lint.decide.pieces import AssignmentPiece, BrokerPiece, ClusterPiece, Pieces, TopicPiece
from kafkakit.rules.effective import Configs, DeclaredValue, ValueSource, to_int
from kafkakit.rules.subjects import LintConnector
from kafkakit.rules.values import holds_placeholder

REFUSED_ASSIGNMENT = "KKP614"
_SURE_KEYS = frozenset({
    "broker.id", "broker.rack", "process.roles", "log.dirs", "advertised.listeners", "listener.security.protocol.map",
    "controller.quorum.voters", "controller.quorum.bootstrap.servers", "controller.listener.names",
    "inter.broker.listener.name", "security.inter.broker.protocol", "inter.broker.protocol.version",
    "num.network.threads", "num.replica.fetchers", "num.recovery.threads.per.data.dir", "auto.create.topics.enable",
    "default.replication.factor", "min.insync.replicas", "unclean.leader.election.enable", "log.retention.hours",
    "log.retention.minutes", "log.retention.ms", "log.retention.bytes", "log.segment.bytes", "log.roll.ms",
    "log.roll.hours", "log.cleaner.enable", "log.cleanup.policy", "log.message.format.version",
    "log.message.timestamp.type", "log.flush.interval.messages", "offsets.topic.replication.factor",
    "offsets.topic.num.partitions", "offsets.retention.minutes", "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr", "replica.fetch.max.bytes", "replica.lag.time.max.ms",
    "auto.leader.rebalance.enable", "group.initial.rebalance.delay.ms", "authorizer.class.name",
    "socket.request.max.bytes", "metadata.log.dir", "remote.log.storage.system.enable",
    "zookeeper.metadata.migration.enable",
})  # fmt: skip
"""Keys that only brokers and controllers of Kafka have."""
_LIKELY_KEYS = frozenset({
    "node.id", "listeners", "zookeeper.connect", "log.dir", "num.partitions", "message.max.bytes", "num.io.threads",
    "super.users", "delete.topic.enable", "socket.send.buffer.bytes", "socket.receive.buffer.bytes",
})  # fmt: skip
"""Keys of brokers that other programs have as well: two tell a broker, or one in a file that is named like one's."""
_OF_TOPICS_TOO = frozenset({"min.insync.replicas", "unclean.leader.election.enable"})
_TOPIC_KEYS = frozenset({"cleanup.policy", "max.message.bytes", "retention.bytes", "retention.ms", "segment.ms"})
"""Beside these, and no other key of brokers, those of topics too do not tell a broker."""
_FOREIGN_KEYS = frozenset({
    "connector.class", "key.converter", "bootstrap.servers", "group.id", "config.storage.topic", "kafkastore.topic",
})  # fmt: skip
"""Keys that no broker has: those of clients, and of the services around Kafka that share keys with brokers."""


def are_node_keys(keys: Iterable[str]) -> bool:
    """True for the keys of a configuration that only a broker or controller of Kafka can have."""
    found = frozenset(keys)
    if not found.isdisjoint(_FOREIGN_KEYS):
        return "process.roles" in found or "broker.id" in found
    sure = found & _SURE_KEYS
    if sure and sure <= _OF_TOPICS_TOO:
        return found.isdisjoint(_TOPIC_KEYS)
    return bool(sure) or (len(found & _LIKELY_KEYS) > 1 and _are_mostly_likely(found))


def _are_mostly_likely(keys: frozenset[str]) -> bool:
    return 2 * len(keys & _LIKELY_KEYS) >= len(keys)


def _is_server(root: Node) -> bool:
    return isinstance(root, Mapping) and are_node_keys(root.entries.keys())


def _may_be_server(root: Node) -> bool:
    keys = frozenset(root.entries if isinstance(root, Mapping) else ())
    return bool(keys) and keys.isdisjoint(_FOREIGN_KEYS) and _are_mostly_likely(keys)


def _read_server(document: Document, root: Mapping) -> Pieces:
    reader = DocumentReader(document)
    static = reader.configs(root, ValueSource.STATIC)
    broker = BrokerPiece(
        place=reader.place(root),
        node=node_identity(node_id_of(static), static),
        id=node_id_of(static),
        rack=static["broker.rack"].text or None if "broker.rack" in static else None,
        roles=roles_of(static),
        static=static,
        log_dirs=dirs_of(static),
        count=0,
        is_whole=_is_whole(document, static),
        is_known=not _is_part(static),
        is_partial=_is_part(static),
    )
    return Pieces(brokers=(broker,), problems=tuple(reader.problems))


_IDENTITY = ("process.roles", "node.id", "broker.id", "zookeeper.connect")
_OF_EACH_NODE = (*_IDENTITY, "listeners", "advertised.listeners", "log.dirs", "log.dir", "controller.quorum.voters")
_STATEMENTS = ("{{", "{%", "<%")


def _is_part(static: Configs) -> bool:
    """True for settings to which a service adds what tells nodes apart: ids, listeners, log dirs."""
    return not any(key in static for key in (*_OF_EACH_NODE, "controller.quorum.bootstrap.servers"))


def _is_whole(document: Document, static: Configs) -> bool:
    """True for a file that says which node it is of, and into which no template puts further settings."""
    is_template = any(mark in document.text for mark in _STATEMENTS) or any("$" in key for key in static)
    return not is_template and any(key in static for key in _IDENTITY)


SERVER_KIND = FileKind(
    name="server-properties",
    about="server.properties of a broker, controller.properties and broker.properties of KRaft",
    formats=("properties",),
    recognise=_is_server,
    read=of_each(_read_server),
    patterns=("server*.properties", "broker*.properties", "controller*.properties"),
    may_be=_may_be_server,
)


def _is_reassignment(root: Node) -> bool:
    if not isinstance(root, Mapping) or not root.entries.keys() <= {"version", "partitions"}:
        return False
    partitions = root.get("partitions")
    return isinstance(partitions, Sequence) and all(
        isinstance(item, Mapping) and "topic" in item.entries for item in partitions.items
    )


def _read_reassignment(document: Document, root: Mapping) -> Pieces:
    reader = DocumentReader(document)
    found = []
    seen: set[tuple[str, int]] = set()
    for node in reader.mappings(root, "partitions"):
        topic, partition = reader.text(node, "topic"), reader.integer(node, "partition")
        replicas = reader.integers(node, "replicas")
        if any(_is_filled_in(node.get(key)) for key in ("partition", "replicas")):
            continue
        if topic is None or partition is None or not replicas:
            reader.problem(node, "a partition needs a topic, a number and a list of replicas", "partitions")
            continue
        if (topic, partition) in seen:
            reader.problem(node, f"partition {topic}-{partition} is listed twice", "partitions", REFUSED_ASSIGNMENT)
        seen.add((topic, partition))
        for problem in _assignment_faults(f"{topic}-{partition}", replicas, node.get("log_dirs")):
            reader.problem(node, problem, "replicas", REFUSED_ASSIGNMENT)
        found.append(AssignmentPiece(topic=topic, partition=partition, replicas=replicas, place=reader.place(node)))
    return Pieces(assignments=tuple(found), problems=tuple(reader.problems))


def _is_filled_in(node: Node | None) -> bool:
    items = node.items if isinstance(node, Sequence) else [node]
    return any(isinstance(item, Scalar) and holds_placeholder(item.text) for item in items)


def _assignment_faults(partition: str, replicas: tuple[int, ...], log_dirs: Node | None) -> Iterator[str]:
    twice = sorted({broker for broker in replicas if replicas.count(broker) > 1})
    if twice:
        yield f"{partition} lists broker {', '.join(map(str, twice))} twice"
    if min(replicas) < 0:
        yield f"{partition} lists broker {min(replicas)}: ids are 0 and more"
    if isinstance(log_dirs, Sequence) and len(log_dirs.items) != len(replicas):
        yield f"{partition} has {count_of(len(log_dirs.items), 'log dir')} for {count_of(len(replicas), 'replica')}"


REASSIGNMENT_KIND = FileKind(
    name="reassignment",
    about="Kafka's partition reassignment JSON",
    formats=("json",),
    recognise=_is_reassignment,
    read=of_each(_read_reassignment),
)

_MS_PER_MINUTE = 60_000


def _is_topicctl(root: Node) -> bool:
    if not isinstance(root, Mapping) or "apiVersion" in root.entries:
        return False
    meta, spec = root.mapping("meta"), root.mapping("spec")
    if meta is None or spec is None or "name" not in meta.entries:
        return False
    return "bootstrapAddrs" in spec.entries or ("cluster" in meta.entries and "partitions" in spec.entries)


def _read_topicctl(document: Document, root: Mapping) -> Pieces:
    reader = DocumentReader(document)
    meta, spec = root.mapping("meta"), root.mapping("spec")
    if meta is None or spec is None:
        reader.problem(root, "a topicctl file needs meta and spec")
        return Pieces(problems=tuple(reader.problems))
    if "bootstrapAddrs" in spec.entries or "cluster" not in meta.entries:
        cluster = ClusterPiece(
            place=reader.place(root),
            name=_cluster_name(meta, "name"),
            env=environment_of(meta.text("environment")),
        )
        return Pieces(clusters=(cluster,))
    return _read_topic(reader, root, meta, spec)


def _read_topic(reader: DocumentReader, root: Mapping, meta: Mapping, spec: Mapping) -> Pieces:
    name = reader.text(meta, "name")
    if name is None:
        reader.problem(meta, "a topic needs a name", "name")
        return Pieces(problems=tuple(reader.problems))
    cluster = _cluster_name(meta, "cluster")
    configs: dict[str, DeclaredValue] = {}
    minutes = reader.integer(spec, "retentionMinutes", 1)
    if minutes is not None:
        place = reader.place(spec.entries["retentionMinutes"].key)
        configs["retention.ms"] = DeclaredValue(str(minutes * _MS_PER_MINUTE), ValueSource.TOPIC, place)
    configs |= reader.configs(reader.mapping(spec, "settings"), ValueSource.TOPIC)
    topic = TopicPiece(
        name=name,
        place=reader.place(root),
        cluster=cluster,
        configs=configs,
        partitions=reader.integer(spec, "partitions", 1),
        replication_factor=reader.integer(spec, "replicationFactor", 1),
        owner=owner_in(meta.mapping("labels"), meta),
    )
    return Pieces(
        clusters=(ClusterPiece(place=topic.place, name=cluster, env=environment_of(meta.text("environment"))),),
        topics=(topic,),
        assignments=tuple(_static_placement(reader, spec, name, cluster)),
        problems=tuple(reader.problems),
    )


def _static_placement(reader: DocumentReader, spec: Mapping, topic: str, cluster: str | None) -> list[AssignmentPiece]:
    placement = spec.mapping("placement")
    found = []
    for number, row in enumerate(placement.sequence("staticAssignments") if placement is not None else ()):
        items = row.items if isinstance(row, Sequence) else []
        replicas = [to_int(item.text) for item in items if isinstance(item, Scalar)]
        if _is_filled_in(row):
            continue
        known = tuple(replica for replica in replicas if replica is not None)
        if known and len(known) == len(items):
            found.append(
                AssignmentPiece(topic=topic, partition=number, replicas=known, place=reader.place(row), cluster=cluster)
            )
        else:
            reader.problem(row, "a row of staticAssignments must be a list of broker ids", "staticAssignments")
    return found


def _cluster_name(meta: Mapping, key: str) -> str | None:
    """A cluster is identified by its name, environment and region together."""
    name = meta.text(key)
    where = ", ".join(text for text in (meta.text("environment"), meta.text("region")) if text)
    return f"{name} ({where})" if name and where else name


TOPICCTL_KIND = FileKind(
    name="topicctl",
    about="topicctl cluster and topic YAML",
    formats=("yaml", "json"),
    recognise=_is_topicctl,
    read=of_each(_read_topicctl),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceFields:
    """The fields of a provider's resource for topics. `config` is an attribute, or a block with `_` for points."""

    name: str
    partitions: str
    replicas: str = ""
    config: str = "config"


TOPIC_RESOURCES = {
    "kafka_topic": ResourceFields(name="name", partitions="partitions", replicas="replication_factor"),
    "confluent_kafka_topic": ResourceFields(name="topic_name", partitions="partitions_count"),
    "confluentcloud_kafka_topic": ResourceFields(name="topic_name", partitions="partitions_count"),
    "aiven_kafka_topic": ResourceFields(name="topic_name", partitions="partitions", replicas="replication"),
    "google_managed_kafka_topic": ResourceFields(
        name="topic_id", partitions="partition_count", replicas="replication_factor", config="configs"
    ),
}
"""The resources of Terraform that are topics of Kafka."""


def _is_plan(root: Node) -> bool:
    if not isinstance(root, Mapping) or "format_version" not in root.entries:
        return False
    return "planned_values" in root.entries or "terraform_version" in root.entries


def _read_plan(document: Document, root: Mapping) -> Pieces:
    reader = DocumentReader(document)
    before = {
        address: config
        for change in root.sequence("resource_changes")
        if isinstance(change, Mapping)
        and (address := change.text("address")) is not None
        and (config := change.mapping("change", "before", "config")) is not None
    }
    values = root.mapping("planned_values") or root.mapping("values")
    modules = _modules(values.mapping("root_module") if values is not None else None)
    topics = [
        _planned_topic(reader, resource, before)
        for module in modules
        for resource in module.sequence("resources")
        if isinstance(resource, Mapping)
        and resource.text("type") in TOPIC_RESOURCES
        and resource.text("mode") != "data"
    ]
    return Pieces(topics=tuple(topic for topic in topics if topic is not None), problems=tuple(reader.problems))


def _modules(root: Mapping | None) -> Iterator[Mapping]:
    waiting = [root] if root is not None else []
    while waiting:
        module = waiting.pop()
        yield module
        children = [child for child in module.sequence("child_modules") if isinstance(child, Mapping)]
        waiting += reversed(children)


def _planned_topic(reader: DocumentReader, resource: Mapping, before: dict[str, Mapping]) -> TopicPiece | None:
    values = resource.mapping("values")
    if values is None:
        return None
    fields = TOPIC_RESOURCES[resource.text("type") or ""]
    name = values.text(fields.name)
    if name is None:
        return None  # not known before the plan is applied
    current = before.get(resource.text("address") or "")
    return replace(
        resource_topic(reader, values, fields, name),
        current=reader.plain_texts(current) if current is not None else None,
    )


def resource_topic(reader: DocumentReader, values: Mapping, fields: ResourceFields, name: str) -> TopicPiece:
    """The topic of a resource of Terraform by the values of its fields, of which some may not be known."""
    clusters = [part for part in values.sequence("kafka_cluster") if isinstance(part, Mapping)]
    partitions, factor = (
        reader.integer(values, key, minimum) if isinstance(values.get(key), Scalar) else None
        for key, minimum in ((fields.partitions, 1), (fields.replicas, -1))
    )
    config = values.get(fields.config)
    configs = reader.configs(config, ValueSource.TOPIC) if isinstance(config, Mapping) else {}
    if isinstance(config, Sequence):  # a block, whose fields are called as Terraform allows
        for block in config.items:
            own = reader.configs(block, ValueSource.TOPIC) if isinstance(block, Mapping) else {}
            configs = {**configs, **{key.replace("_", "."): declared for key, declared in own.items()}}
    return TopicPiece(
        name=name,
        place=reader.place(values),
        cluster=clusters[0].text("id") if clusters else None,
        configs=configs,
        partitions=partitions,
        replication_factor=factor if factor != -1 else None,
    )


TERRAFORM_KIND = FileKind(
    name="terraform-plan",
    about="Terraform plan JSON: kafka_topic, confluent_kafka_topic, aiven_kafka_topic, google_managed_kafka_topic",
    formats=("json",),
    recognise=_is_plan,
    read=of_each(_read_plan),
)

_WORKER_KEYS = ("config.storage.topic", "offset.storage.topic", "status.storage.topic", "offset.storage.file.filename")


def _is_connector(root: Node) -> bool:
    if isinstance(root, Sequence):
        return bool(root.items) and all(isinstance(item, Mapping) and _is_connector(item) for item in root.items)
    if not isinstance(root, Mapping):
        return False
    config = root.mapping("config")
    return "connector.class" in root.entries or (config is not None and "connector.class" in config.entries)


def are_worker_keys(keys: Iterable[str]) -> bool:
    """True for the keys of a configuration that only a worker of Kafka Connect can have."""
    found = frozenset(keys)
    return not found.isdisjoint(_WORKER_KEYS) or {"bootstrap.servers", "key.converter"} <= found


def _is_worker(root: Node) -> bool:
    return isinstance(root, Mapping) and are_worker_keys(root.entries.keys())


def _may_be_worker(root: Node) -> bool:
    keys = root.entries.keys() if isinstance(root, Mapping) else frozenset[str]()
    return not keys.isdisjoint(("bootstrap.servers", "group.id", "key.converter", "value.converter", "plugin.path"))


def _mappings(roots: tuple[Node, ...]) -> Iterator[Mapping]:
    for root in roots:
        if isinstance(root, Mapping):
            yield root
        elif isinstance(root, Sequence):
            yield from (item for item in root.items if isinstance(item, Mapping))


def _read_connector(document: Document, root: Mapping) -> Pieces:
    reader = DocumentReader(document)
    config = root if "connector.class" in root.entries else (root.mapping("config") or root)
    # The body of PUT /connectors/NAME/config has no name: the file is then mostly called by it.
    name = root.text("name") or config.text("name") or _stem(document.path)
    connector = LintConnector(
        name=name,
        config=reader.configs(config, ValueSource.STATIC),
        place=reader.place(root),
    )
    return Pieces(connectors=(connector,), problems=tuple(reader.problems))


def _stem(path: str) -> str:
    name = path.replace("\\", "/").rpartition("/")[2]
    return name.rpartition(".")[0] or name


def _read(document: Document, roots: tuple[Node, ...]) -> Pieces:
    return join_pieces([_read_connector(document, root) for root in _mappings(roots)])


def _read_workers(document: Document, roots: tuple[Node, ...]) -> Pieces:
    reader = DocumentReader(document)
    workers = tuple(
        LintConnector(
            name=root.text("group.id") or document.path.replace("\\", "/").rpartition("/")[2],
            config=reader.configs(root, ValueSource.STATIC),
            is_worker=True,
            place=reader.place(root),
        )
        for root in _mappings(roots)
    )
    return Pieces(connectors=workers, problems=tuple(reader.problems))


SERVER_CLASS = "debezium.source.connector.class"
"""The key that tells the settings of Debezium Server."""
_SERVER_PREFIXES = (
    ("debezium.source.", ""),
    ("debezium.sink.kafka.producer.", "producer.override."),
    ("debezium.transforms", "transforms"),
    ("debezium.predicates", "predicates"),
)
"""What Debezium Server calls the settings of a connector, and what Connect calls them."""


def server_connector(
    settings: Configs, *, name: str, place: Place | None, owner: str | None = None, env: str | None = None
) -> LintConnector:
    """The connector that Debezium Server runs with some settings, under the names that Connect has for them.

    The format of values is that of a converter; what belongs to the sink keeps its name.
    """
    found: dict[str, DeclaredValue] = {}
    for key, declared in settings.items():
        prefix, own = next(((long, short) for long, short in _SERVER_PREFIXES if key.startswith(long)), ("", ""))
        if prefix or key.startswith("debezium.sink."):
            found[own + key.removeprefix(prefix)] = declared
    form = settings.get("debezium.format.value")
    converter = _CONVERTERS.get(form.text.strip().lower() if form is not None else "json", "")
    if converter:
        found.setdefault(
            "value.converter", DeclaredValue(converter, ValueSource.STATIC, form.place if form is not None else place)
        )
    schemas = settings.get("debezium.format.value.schemas.enable")
    if schemas is not None:
        found.setdefault("value.converter.schemas.enable", schemas)
    own_name = found.get("name")
    return LintConnector(
        name=own_name.text if own_name is not None and own_name.text else name,
        config=found,
        runs_alone=True,
        place=place,
        owner=owner,
        env=env,
    )


_CONVERTERS = {
    "json": "org.apache.kafka.connect.json.JsonConverter",
    "avro": "io.confluent.connect.avro.AvroConverter",
    "protobuf": "io.confluent.connect.protobuf.ProtobufConverter",
}


def _is_debezium_server(root: Node) -> bool:
    return isinstance(root, Mapping) and SERVER_CLASS in root.entries


def _read_debezium_server(document: Document, root: Mapping) -> Pieces:
    reader = DocumentReader(document)
    stem = _stem(document.path)
    # Nearly all of them are called application.properties: the folder tells one from another.
    name = document.path.replace("\\", "/").rpartition(".")[0] if stem == "application" else stem
    connector = server_connector(reader.configs(root, ValueSource.STATIC), name=name or stem, place=reader.place(root))
    return Pieces(connectors=(connector,), problems=tuple(reader.problems))


DEBEZIUM_SERVER_KIND = FileKind(
    name="debezium-server",
    about="application.properties of Debezium Server",
    formats=("properties",),
    recognise=_is_debezium_server,
    read=of_each(_read_debezium_server),
)
CONNECTOR_KIND = FileKind(
    name="connector",
    about="Kafka Connect connectors (Debezium and others) as JSON or properties",
    formats=("json", "properties", "yaml"),
    recognise=_is_connector,
    read=_read,
)
WORKER_KIND = FileKind(
    name="connect-worker",
    about="properties of a Kafka Connect worker",
    formats=("properties",),
    recognise=_is_worker,
    read=_read_workers,
    patterns=("connect-distributed*.properties", "connect-standalone*.properties"),
    may_be=_may_be_worker,
)
