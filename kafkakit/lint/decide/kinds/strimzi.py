"""Strimzi's resources: Kafka, KafkaNodePool, KafkaTopic, KafkaConnect and KafkaConnector."""

from collections.abc import Callable, Iterator

from kafkakit.lint.decide.documents.tree import Document, Mapping, Node
from kafkakit.lint.decide.kinds.kind import Kind, joined
from kafkakit.lint.decide.kinds.strimzi_settings import CONTROLLER_LISTENERS, operator_settings, pod_facts, storage_dirs
from kafkakit.lint.decide.kinds.values import Reader, environment_of, owner_in
from kafkakit.lint.decide.pieces import BrokerPiece, ClusterPiece, Pieces, TopicPiece
from kafkakit.rules.effective import Declared, Source
from kafkakit.rules.subjects import LintConnector

CLUSTER_LABEL = "strimzi.io/cluster"
IGNORE_PREFIX = "ignore.kafkakit/"
"""Annotations `ignore.kafkakit/CODE: reason` suppress findings of a resource."""
_SHORT_FORMS = {"groupId": "group.id"} | {
    f"{what}StorageTopic": f"{what}.storage.topic" for what in ("config", "offset", "status")
}


def _is_strimzi(root: Node) -> bool:
    if not isinstance(root, Mapping):
        return False
    if root.text("kind") == "List":
        return any(_is_strimzi(item) for item in root.sequence("items"))
    group = (root.text("apiVersion") or "").partition("/")[0]
    return group == "kafka.strimzi.io" and root.text("kind") in _READERS


def _resources(roots: tuple[Node, ...]) -> Iterator[Mapping]:
    """Every resource, those of lists of kubectl too."""
    for root in roots:
        if isinstance(root, Mapping) and root.text("kind") == "List":
            yield from (item for item in root.sequence("items") if isinstance(item, Mapping) and _is_strimzi(item))
        elif isinstance(root, Mapping):
            yield root


def _metadata(root: Mapping) -> Mapping:
    return root.mapping("metadata") or Mapping({}, root.start)


def _name(root: Mapping) -> str | None:
    return _metadata(root).text("name")


def _labels(root: Mapping) -> tuple[Mapping | None, Mapping | None]:
    metadata = _metadata(root)
    return metadata.mapping("labels"), metadata.mapping("annotations")


def _cluster(root: Mapping) -> str | None:
    labels = _labels(root)[0]
    return labels.text(CLUSTER_LABEL) if labels is not None else None


def _ignored(reader: Reader, root: Mapping) -> dict[str, str]:
    annotations = reader.plain_texts(_labels(root)[1])
    return {key.removeprefix(IGNORE_PREFIX): why for key, why in annotations.items() if key.startswith(IGNORE_PREFIX)}


def _read_kafka(reader: Reader, root: Mapping, spec: Mapping) -> Pieces:
    name = _name(root)
    kafka = reader.mapping(spec, "kafka")
    if kafka is None:
        reader.problem(spec, "a Kafka resource needs spec.kafka", "kafka")
        return Pieces()
    labels, annotations = _labels(root)
    environments = (part.text(key) for part in (labels, annotations) if part for key in ("env", "environment"))
    cluster = ClusterPiece(
        place=reader.place(kafka),
        name=name,
        version=reader.version(kafka, "version"),
        env=next((env for text in environments if (env := environment_of(text))), None),
        static={
            **operator_settings(reader, kafka, name or "cluster", "zookeeper" in spec.entries),
            **reader.configs(reader.mapping(kafka, "config"), Source.STATIC),
        },
    )
    replicas = reader.integer(kafka, "replicas", 1)
    if replicas is None:
        return Pieces(clusters=(cluster,))
    broker = BrokerPiece(
        place=reader.place(kafka),
        cluster=name,
        host=pod_facts(kafka),
        log_dirs=storage_dirs(reader.mapping(kafka, "storage")),
        count=replicas,
        owner=owner_in(labels, annotations),
        ignored=_ignored(reader, root),
        is_known=False,
    )
    return Pieces(clusters=(cluster,), brokers=(broker,))


def _read_pool(reader: Reader, root: Mapping, spec: Mapping) -> Pieces:
    place = reader.place(spec)
    roles = reader.texts(spec, "roles") or ("broker",)
    role_place = reader.place(spec.entries["roles"].key) if "roles" in spec.entries else place
    dirs = storage_dirs(reader.mapping(spec, "storage"))
    static = {"process.roles": Declared(",".join(roles), Source.STATIC, role_place)}
    if dirs:
        static["log.dirs"] = Declared(",".join(part.path for part in dirs), Source.STATIC, place)
    pool = BrokerPiece(
        place=place,
        cluster=_cluster(root),
        roles=roles,
        controller_listeners=CONTROLLER_LISTENERS if "controller" in roles else "",
        static=static,
        host=pod_facts(spec),
        log_dirs=dirs,
        count=reader.integer(spec, "replicas") or 0,
        owner=owner_in(*_labels(root)),
        ignored=_ignored(reader, root),
        is_known=False,
    )
    return Pieces(brokers=(pool,))


def _read_topic(reader: Reader, root: Mapping, spec: Mapping) -> Pieces:
    name = reader.text(spec, "topicName") or _name(root)
    if name is None:
        reader.problem(root, "a KafkaTopic needs a name", "name")
        return Pieces()
    topic = TopicPiece(
        name=name,
        place=reader.place(spec),
        cluster=_cluster(root),
        configs=reader.configs(reader.mapping(spec, "config"), Source.TOPIC),
        partitions=reader.integer(spec, "partitions", 1),
        replication_factor=reader.integer(spec, "replicas", 1),
        owner=owner_in(*_labels(root)),
        ignored=_ignored(reader, root),
    )
    return Pieces(topics=(topic,))


def _read_connect(reader: Reader, root: Mapping, spec: Mapping) -> Pieces:
    found = dict(reader.configs(reader.mapping(spec, "config"), Source.STATIC))
    for short, key in {**_SHORT_FORMS, "bootstrapServers": "bootstrap.servers"}.items():
        text = reader.text(spec, short)
        if text is not None:
            found.setdefault(key, Declared(text, Source.STATIC, reader.place(spec.entries[short].key)))
    worker = LintConnector(
        name=_name(root) or "without name",
        config=found,
        is_worker=True,
        place=reader.place(spec),
        owner=owner_in(*_labels(root)),
    )
    return Pieces(connectors=(worker,))


def _read_connector(reader: Reader, root: Mapping, spec: Mapping) -> Pieces:
    found = dict(reader.configs(reader.mapping(spec, "config"), Source.STATIC))
    for short, key in (("class", "connector.class"), ("tasksMax", "tasks.max")):
        text = reader.text(spec, short)
        if text is not None:
            found[key] = Declared(text, Source.STATIC, reader.place(spec.entries[short].key))
    connector = LintConnector(
        name=_name(root) or "without name",
        config=found,
        place=reader.place(spec),
        owner=owner_in(*_labels(root)),
    )
    return Pieces(connectors=(connector,))


_READERS: dict[str, Callable[[Reader, Mapping, Mapping], Pieces]] = {
    "Kafka": _read_kafka,
    "KafkaNodePool": _read_pool,
    "KafkaTopic": _read_topic,
    "KafkaConnect": _read_connect,
    "KafkaConnector": _read_connector,
}


def _read_one(document: Document, root: Mapping) -> Pieces:
    reader = Reader(document)
    spec = reader.mapping(root, "spec")
    read = _READERS.get(root.text("kind") or "")
    if spec is None or read is None:
        reader.problem(root, "a Strimzi resource needs a kind and a spec", "spec")
        return Pieces(problems=tuple(reader.problems))
    pieces = read(reader, root, spec)
    return joined([pieces, Pieces(problems=tuple(reader.problems))])


def _read(document: Document, roots: tuple[Node, ...]) -> Pieces:
    return joined([_read_one(document, root) for root in _resources(roots)])


KIND = Kind(
    name="strimzi",
    about="Strimzi Kafka, KafkaNodePool, KafkaTopic, KafkaConnect and KafkaConnector",
    formats=("yaml", "json"),
    recognise=_is_strimzi,
    read=_read,
)
