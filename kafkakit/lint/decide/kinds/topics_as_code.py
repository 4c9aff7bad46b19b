"""Topics as code, and what stands beside them: resources of Confluent for Kubernetes, koperator and jikkou, descriptors
of JulieOps and states of kafka-gitops.

Topics of resources differ in the names of the same few fields, which a record for each tool lists. What an operator
sets on brokers itself is not told here, so of brokers only what stands in the resources is judged.
"""

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, replace
from functools import partial

from kafkakit.core.yaml_json import Document, Mapping, Node, Scalar
from kafkakit.kubernetes.objects import quantity_bytes
from kafkakit.lint.decide.kinds.containers import IMAGES, image_rules, version_of
from kafkakit.lint.decide.kinds.kind import (
    DocumentReader,
    FileKind,
    environment_of,
    from_fields,
    join_pieces,
    metadata_of,
    of_each,
    owner_in,
    owner_of,
    properties_in,
    with_accepted,
    without_secret,
)
from kafkakit.lint.decide.pieces import BrokerPiece, ClusterPiece, Pieces, TopicPiece
from kafkakit.rules.effective import Configs, DeclaredValue, ValueSource
from kafkakit.rules.subjects import HostFacts, LintConnector, LogDirFacts

Read = Callable[[DocumentReader, Mapping, Mapping], Pieces]
"""Reads one resource with its `spec`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFields:
    """The fields of one tool's topics in `spec`: their number of partitions and replicas, configuration and cluster."""

    partitions: str
    replicas: str
    configs: str
    cluster: str = ""


_CONFLUENT = TopicFields(partitions="partitionCount", replicas="replicas", configs="configs", cluster="kafkaClusterRef")
_KOPERATOR = TopicFields(partitions="partitions", replicas="replicationFactor", configs="config", cluster="clusterRef")
_JIKKOU = TopicFields(partitions="partitions", replicas="replicas", configs="configs")
_JIKKOU_OF_OLD = TopicFields(partitions="partitions", replicas="replication_factor", configs="configs")


def _topic(reader: DocumentReader, root: Mapping, spec: Mapping, fields: TopicFields) -> Pieces:
    metadata = metadata_of(root)
    name = reader.text(spec, "name") or metadata.text("name")
    if name is None:
        reader.problem(root, "a topic needs a name", "name")
        return Pieces()
    cluster = spec.mapping(fields.cluster) if fields.cluster else None
    factor = reader.integer(spec, fields.replicas, -1)
    partitions = reader.integer(spec, fields.partitions, -1)
    topic = TopicPiece(
        name=name,
        place=reader.place(spec),
        cluster=cluster.text("name") if cluster is not None else None,
        namespace=(cluster.text("namespace") or metadata.text("namespace")) if cluster is not None else None,
        configs=reader.configs(reader.mapping(spec, fields.configs), ValueSource.TOPIC),
        partitions=partitions if partitions is not None and partitions > 0 else None,
        replication_factor=factor if factor is not None and factor > 0 else None,
        owner=owner_of(root),
    )
    return Pieces(topics=(topic,))


def _confluent_nodes(reader: DocumentReader, root: Mapping, spec: Mapping, roles: tuple[str, ...]) -> Pieces:
    """The brokers or controllers of Confluent's operator: what `configOverrides.server` sets."""
    metadata = metadata_of(root)
    name, namespace = metadata.text("name"), metadata.text("namespace")
    overrides = spec.mapping("configOverrides")
    static: dict[str, DeclaredValue] = {}
    for item in overrides.sequence("server") if overrides is not None else ():
        key, equals, text = item.text.partition("=") if isinstance(item, Scalar) else ("", "", "")
        if equals:
            value = without_secret(key.strip(), text.strip())
            static[key.strip()] = DeclaredValue(value, ValueSource.STATIC, reader.place(item))
    image = spec.mapping("image")
    named = (image.text("application") if image is not None else None) or ""
    rules = image_rules(named, ())
    nodes = BrokerPiece(
        place=reader.place(spec),
        cluster=name,
        namespace=namespace,
        roles=roles,
        static=static,
        version=version_of(named, rules) if rules is not None else None,
        count=reader.integer(spec, "replicas") or 0,
        owner=owner_of(root),
        is_known=False,
        is_partial=True,
        in_container=True,
    )
    cluster = ClusterPiece(place=reader.place(spec), name=name, namespace=namespace, is_whole="broker" in roles)
    return Pieces(clusters=(cluster,), brokers=(nodes,))


def _connector(
    reader: DocumentReader, root: Mapping, spec: Mapping, configs: str, key_of: MappingABC[str, str]
) -> Pieces:
    found = {
        **reader.configs(reader.mapping(spec, configs), ValueSource.STATIC),
        **from_fields(reader, spec, key_of),
    }
    name = reader.text(spec, "name") or metadata_of(root).text("name") or "without name"
    connector = LintConnector(name=name, config=found, place=reader.place(spec), owner=owner_of(root))
    return Pieces(connectors=(connector,))


def _cluster_of_koperator(reader: DocumentReader, root: Mapping, spec: Mapping) -> Pieces:
    """A KafkaCluster: `readOnlyConfig` is static, `config` of brokers and groups dynamic, as is `clusterWideConfig`."""
    metadata = metadata_of(root)
    cluster = ClusterPiece(
        place=reader.place(spec),
        name=metadata.text("name"),
        namespace=metadata.text("namespace"),
        is_whole=True,
        env=environment_of(metadata.text("environment")),
        dynamic_default=_properties(reader, spec, "clusterWideConfig", ValueSource.DYNAMIC_DEFAULT),
    )
    groups = spec.mapping("brokerConfigGroups") or Mapping({}, spec.start)
    brokers = [_broker_of_koperator(reader, root, spec, node, groups) for node in reader.mappings(spec, "brokers")]
    return Pieces(clusters=(cluster,), brokers=tuple(brokers))


def _broker_of_koperator(
    reader: DocumentReader, root: Mapping, spec: Mapping, node: Mapping, groups: Mapping
) -> BrokerPiece:
    metadata, image = metadata_of(root), spec.text("clusterImage") or ""
    own = node.mapping("brokerConfig") or Mapping({}, node.start)
    group = groups.mapping(node.text("brokerConfigGroup") or "") or Mapping({}, node.start)
    roles = reader.texts(node, "processRoles") or ("broker",)
    static: dict[str, DeclaredValue] = {}
    told = (("zkAddresses", spec, "zookeeper.connect"), ("processRoles", node, "process.roles"))
    for field, holder, key in told:
        texts = reader.texts(holder, field)
        if texts and (key != "zookeeper.connect" or not reader.flag(spec, "kRaft")):
            static[key] = DeclaredValue(",".join(texts), ValueSource.STATIC, reader.place(holder.entries[field].key))
    storage = [*group.sequence("storageConfigs"), *own.sequence("storageConfigs")]
    memory = own.mapping("resourceRequirements", "limits") or group.mapping("resourceRequirements", "limits")
    return BrokerPiece(
        place=reader.place(node),
        cluster=metadata.text("name"),
        namespace=metadata.text("namespace"),
        id=reader.integer(node, "id"),
        roles=roles,
        static={
            **static,
            **_properties(reader, spec, "readOnlyConfig", ValueSource.STATIC),
            **_properties(reader, node, "readOnlyConfig", ValueSource.STATIC),
        },
        dynamic={
            **_properties(reader, group, "config", ValueSource.DYNAMIC_BROKER),
            **_properties(reader, own, "config", ValueSource.DYNAMIC_BROKER),
        },
        host=HostFacts(memory_bytes=quantity_bytes(memory.text("memory")) if memory is not None else None),
        log_dirs=tuple(
            LogDirFacts(path=f"{path}/kafka", total_bytes=quantity_bytes(size.text("storage") if size else None))
            for volume in storage
            if isinstance(volume, Mapping) and (path := volume.text("mountPath"))
            for size in (volume.mapping("pvcSpec", "resources", "requests"),)
        ),
        version=version_of(image, IMAGES[0]),
        owner=owner_of(root),
        is_known=False,
        is_partial=True,
        in_container=True,
    )


def _properties(reader: DocumentReader, holder: Mapping, field: str, source: ValueSource) -> Configs:
    found = holder.get(field)
    if found is None:
        return {}
    if isinstance(found, Scalar):
        return properties_in(reader, found, source)
    reader.problem(found, f"{field} must be a text of properties", field)
    return {}


def _topic_of_jikkou(reader: DocumentReader, root: Mapping, spec: Mapping, maps: MappingABC[str, Mapping]) -> Pieces:
    """A topic of jikkou; what its `configMapRefs` hold counts where it sets nothing itself."""
    found = _topic(reader, root, spec, _JIKKOU)
    shared: dict[str, DeclaredValue] = {}
    for name in reader.texts(spec, "configMapRefs"):
        shared |= reader.configs(maps.get(name), ValueSource.TOPIC)
    return replace(found, topics=tuple(replace(t, configs={**shared, **t.configs}) for t in found.topics))


def _topics_of_old(reader: DocumentReader, root: Mapping, spec: Mapping) -> Pieces:
    """A KafkaTopicList as jikkou had it first: its topics stand in `spec.topics`."""
    return join_pieces([_topic(reader, root, topic, _JIKKOU_OF_OLD) for topic in reader.mappings(spec, "topics")])


def _resources_of(roots: Iterable[Node]) -> Iterator[tuple[str, Mapping]]:
    """Every resource with its kind: items of a list of topics are topics, those of a list of kubectl say it."""
    for root in roots:
        if not isinstance(root, Mapping):
            continue
        kind = root.text("kind") or ""
        if kind.endswith("List") and "items" in root.entries:
            items = (item for item in root.sequence("items") if isinstance(item, Mapping))
            yield from ((item.text("kind") or kind.removesuffix("List"), item) for item in items)
        else:
            yield kind, root


def _group_of(root: Mapping) -> str:
    return (root.text("apiVersion") or "").partition("/")[0]


def _is_resource(root: Node, group: str, kinds: frozenset[str]) -> bool:
    if not isinstance(root, Mapping):
        return False
    if root.text("kind") == "List":
        return any(_is_resource(item, group, kinds) for item in root.sequence("items"))
    return _group_of(root) == group and (root.text("kind") or "").removesuffix("List") in kinds


def _read_resources(document: Document, roots: tuple[Node, ...], group: str, readers: MappingABC[str, Read]) -> Pieces:
    found = [(kind, root) for kind, root in _resources_of(roots) if _group_of(root) in ("", group) and kind in readers]
    parts = [_read_resource(document, root, readers[kind]) for kind, root in found]
    return with_accepted(document, [root for _, root in found], parts)


def _read_resource(document: Document, root: Mapping, read: Read) -> Pieces:
    reader = DocumentReader(document)
    spec = reader.mapping(root, "spec")
    if spec is None:
        reader.problem(root, "a resource needs a spec", "spec")
        return Pieces(problems=tuple(reader.problems))
    return join_pieces([read(reader, root, spec), Pieces(problems=tuple(reader.problems))])


def _kind(name: str, about: str, group: str, readers: MappingABC[str, Read]) -> FileKind:
    return FileKind(
        name=name,
        about=about,
        formats=("yaml", "json"),
        recognise=partial(_is_resource, group=group, kinds=frozenset(readers)),
        read=partial(_read_resources, group=group, readers=readers),
    )


CONFLUENT_KIND = _kind(
    "confluent-operator",
    "Confluent for Kubernetes: Kafka, KRaftController, KafkaTopic and Connector",
    "platform.confluent.io",
    {
        "Kafka": partial(_confluent_nodes, roles=("broker",)),
        "KRaftController": partial(_confluent_nodes, roles=("controller",)),
        "KafkaTopic": partial(_topic, fields=_CONFLUENT),
        "Connector": partial(
            _connector, configs="configs", key_of={"class": "connector.class", "taskMax": "tasks.max"}
        ),
    },
)
KOPERATOR_KIND = _kind(
    "koperator",
    "koperator: KafkaCluster and KafkaTopic",
    "kafka.banzaicloud.io",
    {"KafkaCluster": _cluster_of_koperator, "KafkaTopic": partial(_topic, fields=_KOPERATOR)},
)
_JIKKOU_GROUP, _JIKKOU_CORE = "kafka.jikkou.io", "core.jikkou.io"
_JIKKOU_READERS: dict[str, Read] = {
    "KafkaTopicList": _topics_of_old,
    "KafkaConnector": partial(
        _connector, configs="config", key_of={"connectorClass": "connector.class", "tasksMax": "tasks.max"}
    ),
}
_JIKKOU_KINDS = frozenset({"KafkaTopic", "KafkaConnector"})


def _is_jikkou(root: Node) -> bool:
    return _is_resource(root, _JIKKOU_GROUP, _JIKKOU_KINDS) or _is_resource(
        root, _JIKKOU_CORE, frozenset({"ConfigMap"})
    )


def _read_jikkou(document: Document, roots: tuple[Node, ...]) -> Pieces:
    maps = {
        metadata_of(root).text("name") or "": data
        for kind, root in _resources_of(roots)
        if kind == "ConfigMap" and (data := root.mapping("data")) is not None
    }
    readers: dict[str, Read] = {**_JIKKOU_READERS, "KafkaTopic": partial(_topic_of_jikkou, maps=maps)}
    return _read_resources(document, roots, _JIKKOU_GROUP, readers)


JIKKOU_KIND = FileKind(
    name="jikkou",
    about="jikkou: KafkaTopic, KafkaTopicList and KafkaConnector, with the ConfigMaps that topics refer to",
    formats=("yaml", "json"),
    recognise=_is_jikkou,
    read=_read_jikkou,
)

_ACTORS = ("consumers", "producers", "streams", "connectors")
_OF_DESCRIPTORS = ("dataType", "schemas", "plan", "consumers", "producers", "metadata")


def _projects(root: Node) -> list[Mapping]:
    found = root.sequence("projects") if isinstance(root, Mapping) else ()
    return [item for item in found if isinstance(item, Mapping) and "name" in item.entries]


def _is_descriptor(root: Node) -> bool:
    """True for projects whose topics have the configuration of Kafka, or which name principals."""
    for project in _projects(root):
        for topic in project.sequence("topics"):
            config = topic.mapping("config") if isinstance(topic, Mapping) else None
            if config is not None and any("." in key for key in config.entries):
                return True
            if isinstance(topic, Mapping) and not topic.entries.keys().isdisjoint(_OF_DESCRIPTORS):
                return True
        actors = [actor for key in _ACTORS for actor in project.sequence(key)]
        if any(isinstance(actor, Mapping) and "principal" in actor.entries for actor in actors):
            return True
    return False


def _read_descriptor(document: Document, root: Mapping) -> Pieces:
    """A topology: a topic's name is joined of all that stands before `projects`, project, topic and type of data."""
    reader = DocumentReader(document)
    context = []
    for key, entry in root.entries.items():
        if key == "projects":
            break
        if isinstance(entry.value, Scalar):
            context.append(entry.value.text)
    found = [_describe_topic(reader, topic, ()) for topic in reader.mappings(root, "special_topics")]
    for project in _projects(root):
        prefix = (*context, project.text("name") or "")
        found += [_describe_topic(reader, topic, prefix) for topic in reader.mappings(project, "topics")]
    topics = tuple(topic for topic in found if topic is not None)
    env = environment_of(root.text("env"))
    clusters = (ClusterPiece(place=reader.place(root), env=env),) if env is not None else ()
    return Pieces(clusters=clusters, topics=topics, problems=tuple(reader.problems))


def _describe_topic(reader: DocumentReader, topic: Mapping, prefix: tuple[str, ...]) -> TopicPiece | None:
    name = reader.text(topic, "name")
    if name is None:
        reader.problem(topic, "a topic needs a name", "name")
        return None
    config = reader.mapping(topic, "config") or Mapping({}, topic.start)
    configs = dict(reader.configs(config, ValueSource.TOPIC))
    configs.pop("num.partitions", None)
    configs.pop("replication.factor", None)
    factor = reader.integer(config, "replication.factor", -1)
    parts = (*prefix, name, topic.text("dataType") or "")
    return TopicPiece(
        name=".".join(part for part in parts if part),
        place=reader.place(topic),
        configs=configs,
        partitions=reader.integer(config, "num.partitions", 1),
        replication_factor=factor if factor is not None and factor > 0 else None,
        owner=owner_in(topic.mapping("metadata"), topic),
    )


JULIE_KIND = FileKind(
    name="julieops",
    about="topology descriptors of JulieOps: the topics of projects",
    formats=("yaml", "json"),
    recognise=_is_descriptor,
    read=of_each(_read_descriptor),
)

_STATE_KEYS = frozenset({"settings", "topics", "services", "users", "customServiceAcls", "customUserAcls", "schemas"})


def _is_state(root: Node) -> bool:
    topics = root.mapping("topics") if isinstance(root, Mapping) and root.entries.keys() <= _STATE_KEYS else None
    return topics is not None and all(
        isinstance(entry.value, Mapping) and "partitions" in entry.value.entries for entry in topics.entries.values()
    )


def _read_state(document: Document, root: Mapping) -> Pieces:
    reader = DocumentReader(document)
    topics = root.mapping("topics") or Mapping({}, root.start)
    defaults = root.mapping("settings", "topics", "defaults") or Mapping({}, root.start)
    found = [
        TopicPiece(
            name=name,
            place=reader.place(entry.key),
            configs=reader.configs(reader.mapping(entry.value, "configs"), ValueSource.TOPIC),
            partitions=reader.integer(entry.value, "partitions", 1),
            replication_factor=reader.integer(
                entry.value if "replication" in entry.value.entries else defaults, "replication", 1
            ),
        )
        for name, entry in topics.entries.items()
        if isinstance(entry.value, Mapping)
    ]
    return Pieces(topics=tuple(found), problems=tuple(dict.fromkeys(reader.problems)))


GITOPS_KIND = FileKind(
    name="kafka-gitops",
    about="states of kafka-gitops: topics, with the defaults of its settings",
    formats=("yaml",),
    recognise=_is_state,
    read=of_each(_read_state),
)
