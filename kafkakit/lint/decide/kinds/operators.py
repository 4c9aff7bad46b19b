"""Resources of operators and of topics as code: Strimzi's, Confluent for Kubernetes', koperator's, jikkou's.

Strimzi's are Kafka, KafkaNodePool, KafkaTopic, KafkaConnect and KafkaConnector. What the operator sets on brokers
itself, from the listeners, authorization and storage of its resources, is as effective as what a file sets, so it is
part of the static configuration: without it a cluster would look as if it had no authorizer or kept its logs in /tmp.
Of brokers the resources of the others say only a part. Their topics differ in the names of the same few fields, which a
record for each tool lists.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from kafkakit.core.findings import Place
from kafkakit.lint.decide.documents import Document, Mapping, Node, Scalar
from kafkakit.lint.decide.kinds.containers import image_rules, version_of
from kafkakit.lint.decide.kinds.kind import (
    Kind,
    Reader,
    environment_of,
    joined,
    owner_in,
    with_accepted,
    without_secret,
)
from kafkakit.lint.decide.pieces import BrokerPiece, ClusterPiece, FileProblem, Pieces, TopicPiece
from kafkakit.rules.effective import Declared, Source
from kafkakit.rules.subjects import NO_HOST, HostFacts, LintConnector, LogDirFacts
from kafkakit.rules.values import holds_placeholder

TOPIC_FIELDS = ("topicName", "partitions", "replicas", "config")
UNREAD = "KKL011"
CLUSTER_LABEL = "strimzi.io/cluster"
DROPPED = "KKL009"
_OF_BROKERS = (
    "listeners", "advertised.", "broker.", "listener.", "host.name", "port", "inter.broker.listener.name", "sasl.",
    "ssl.", "security.", "password.", "log.dir", "zookeeper.connect", "zookeeper.set.acl", "zookeeper.ssl",
    "zookeeper.clientcnxnsocket", "authorizer.", "super.user", "cruise.control.metrics.topic",
    "cruise.control.metrics.reporter.bootstrap.servers", "node.id", "process.roles", "controller.", "metadata.log.dir",
    "zookeeper.metadata.migration.enable",
)  # fmt: skip
"""Beginnings of keys that the operator takes out of `spec.kafka.config` (Strimzi, `KafkaClusterSpec`)."""
_KEPT_OF_BROKERS = (
    "zookeeper.connection.timeout.ms", "sasl.server.max.receive.size", "ssl.cipher.suites", "ssl.protocol",
    "ssl.enabled.protocols", "ssl.secure.random.implementation", "cruise.control.metrics.topic.num.partitions",
    "cruise.control.metrics.topic.replication.factor", "cruise.control.metrics.topic.retention.ms",
    "cruise.control.metrics.topic.auto.create.retries", "cruise.control.metrics.topic.auto.create.timeout.ms",
    "cruise.control.metrics.topic.min.insync.replicas", "controller.quorum.election.backoff.max.ms",
    "controller.quorum.election.timeout.ms", "controller.quorum.fetch.timeout.ms",
)  # fmt: skip
_OF_WORKERS = (
    "ssl.", "sasl.", "security.", "listeners", "plugin.path", "rest.", "bootstrap.servers",
    "consumer.interceptor.classes", "producer.interceptor.classes",
)  # fmt: skip
_KEPT_OF_WORKERS = (
    "ssl.endpoint.identification.algorithm", "ssl.cipher.suites", "ssl.protocol", "ssl.enabled.protocols",
)  # fmt: skip
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


def _namespace(root: Mapping) -> str | None:
    return _metadata(root).text("namespace")


def _settings(
    reader: Reader, spec: Mapping, where: str, dropped: tuple[str, ...], kept: tuple[str, ...]
) -> dict[str, Declared]:
    """The settings of a resource that reach the process; a problem for each that the operator takes out."""
    found = reader.configs(reader.mapping(spec, "config"), Source.STATIC)
    left = {}
    for key, declared in found.items():
        lowered = key.lower()
        if not lowered.startswith(dropped) or lowered.startswith(kept):
            left[key] = declared
        elif declared.place is not None:
            reader.problems.append(
                FileProblem(
                    rule=DROPPED,
                    message=f"Strimzi's operator drops {key} from {where}: it sets this itself",
                    place=declared.place,
                    key=key,
                )
            )
    return left


def _cluster(root: Mapping) -> str | None:
    labels = _labels(root)[0]
    return labels.text(CLUSTER_LABEL) if labels is not None else None


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
        namespace=_namespace(root),
        is_whole="listeners" in kafka.entries,
        watched_namespace=_watched(spec),
        version=reader.version(kafka, "version"),
        env=next((env for text in environments if (env := environment_of(text))), None),
        static={
            **operator_settings(reader, kafka, name or "cluster", "zookeeper" in spec.entries),
            **_settings(reader, kafka, "spec.kafka.config", _OF_BROKERS, _KEPT_OF_BROKERS),
        },
    )
    replicas = reader.integer(kafka, "replicas", 1)
    if replicas is None:
        return Pieces(clusters=(cluster,))
    broker = BrokerPiece(
        place=reader.place(kafka),
        cluster=name,
        namespace=_namespace(root),
        host=pod_facts(kafka),
        log_dirs=storage_dirs(reader.mapping(kafka, "storage")),
        count=replicas,
        owner=owner_in(labels, annotations),
        is_known=False,
    )
    return Pieces(clusters=(cluster,), brokers=(broker,))


def _watched(spec: Mapping) -> str | None:
    """The namespace of topics, if it is not that of the cluster."""
    operator = spec.mapping("entityOperator", "topicOperator")
    return operator.text("watchedNamespace") if operator is not None else None


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
        namespace=_namespace(root),
        pool=_name(root) or "",
        roles=roles,
        controller_listeners=CONTROLLER_LISTENERS if "controller" in roles else "",
        static=static,
        host=pod_facts(spec),
        log_dirs=dirs,
        count=reader.integer(spec, "replicas") or 0,
        owner=owner_in(*_labels(root)),
        is_known=False,
    )
    return Pieces(brokers=(pool,))


def _read_topic(reader: Reader, root: Mapping, spec: Mapping) -> Pieces:
    name = reader.text(spec, "topicName") or _name(root)
    if name is None:
        reader.problem(root, "a KafkaTopic needs a name", "name")
        return Pieces()
    for entry in spec.entries.values():
        if entry.key.text not in TOPIC_FIELDS:
            reader.problem(
                entry.key,
                f"a KafkaTopic has no field {entry.key.text!r:.60}: the operator does not read it",
                entry.key.text,
                UNREAD,
            )
    if _cluster(root) is None:
        reader.problem(
            root, f"without the label {CLUSTER_LABEL} no operator reads it, unless a tool adds it", rule=UNREAD
        )
    topic = TopicPiece(
        name=name,
        place=reader.place(spec),
        cluster=_cluster(root),
        namespace=_namespace(root),
        configs=reader.configs(reader.mapping(spec, "config"), Source.TOPIC),
        partitions=reader.integer(spec, "partitions", 1),
        replication_factor=reader.integer(spec, "replicas", 1),
        owner=owner_in(*_labels(root)),
    )
    return Pieces(topics=(topic,))


def _from_fields(reader: Reader, spec: Mapping, key_of: dict[str, str]) -> dict[str, Declared]:
    """The settings that have a field of their own in `spec`, by key; `key_of` names the key of each field."""
    return {
        key: Declared(text, Source.STATIC, reader.place(spec.entries[field].key))
        for field, key in key_of.items()
        if (text := reader.text(spec, field)) is not None
    }


def _read_connect(reader: Reader, root: Mapping, spec: Mapping) -> Pieces:
    found = _settings(reader, spec, "spec.config", _OF_WORKERS, _KEPT_OF_WORKERS)
    for key, declared in _from_fields(reader, spec, {**_SHORT_FORMS, "bootstrapServers": "bootstrap.servers"}).items():
        found.setdefault(key, declared)
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
    found |= _from_fields(reader, spec, {"class": "connector.class", "tasksMax": "tasks.max"})
    connector = LintConnector(
        name=_name(root) or "without name",
        config=found,
        place=reader.place(spec),
        owner=owner_in(*_labels(root)),
    )
    return Pieces(connectors=(connector,))


_AUTHORIZERS = {
    "simple": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "opa": "org.openpolicyagent.kafka.OpaAuthorizer",
    "keycloak": "io.strimzi.kafka.oauth.server.authorizer.KeycloakAuthorizer",
}
_MECHANISMS = {"scram-sha-512": "SCRAM-SHA-512", "scram-sha-256": "SCRAM-SHA-256", "oauth": "OAUTHBEARER"}
_CONTROL, _REPLICATION = "CONTROLPLANE-9090", "REPLICATION-9091"
CONTROLLER_LISTENERS = f"{_CONTROL}://0.0.0.0:9090"
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|[kKMGTPE]i?)?")
_UNITS = "KMGTPE"


def operator_settings(reader: Reader, kafka: Mapping, name: str, uses_zookeeper: bool) -> dict[str, Declared]:
    """The broker settings that follow from `spec.kafka`."""
    spec_place = reader.place(kafka)
    found: dict[str, Declared] = {}

    def put(key: str, text: str, place: Place = spec_place) -> None:
        found[key] = Declared(text, Source.STATIC, place)

    put("log.dirs", "/var/lib/kafka/data/kafka-log0")
    if uses_zookeeper:
        put("zookeeper.connect", f"{name}-zookeeper-client:2181")
    else:
        put("controller.quorum.bootstrap.servers", f"{name}-controllers:9090")
        put("controller.listener.names", _CONTROL)
    put("inter.broker.listener.name", _REPLICATION)
    put("ssl.client.auth", "required")
    ends = {_REPLICATION: 9091}
    protocols = {_CONTROL: "SSL", _REPLICATION: "SSL"}
    for node in reader.mappings(kafka, "listeners"):
        port = reader.integer(node, "port", 1)
        listener = f"{(node.text('name') or 'listener').upper()}-{port}"
        ends[listener] = port or 0
        protocols[listener] = _protocol(reader, node)
        mechanism = _mechanism(node)
        if mechanism:
            put(f"listener.name.{listener.lower()}.sasl.enabled.mechanisms", mechanism, reader.place(node))
    listeners = kafka.entries.get("listeners")
    place = reader.place(listeners.key) if listeners is not None else spec_place
    put("listeners", ",".join(f"{end}://0.0.0.0:{port}" for end, port in ends.items()), place)
    put("advertised.listeners", ",".join(f"{end}://{name}-kafka:{port}" for end, port in ends.items()), place)
    put("listener.security.protocol.map", ",".join(f"{end}:{how}" for end, how in protocols.items()), place)
    if "tieredStorage" in kafka.entries:
        put("remote.log.storage.system.enable", "true", reader.place(kafka.entries["tieredStorage"].key))
    _put_authorizer(reader, kafka, found)
    return found


def _put_authorizer(reader: Reader, kafka: Mapping, found: dict[str, Declared]) -> None:
    authorization = reader.mapping(kafka, "authorization")
    if authorization is None:
        return
    place = reader.place(kafka.entries["authorization"].key)
    kind = authorization.text("type") or ""
    name = authorization.text("authorizerClass") or (kind if holds_placeholder(kind) else _AUTHORIZERS.get(kind))
    if name is not None:
        found["authorizer.class.name"] = Declared(name, Source.STATIC, place)
    users = reader.texts(authorization, "superUsers")
    if users:
        text = ";".join(user if user.startswith("User:") else f"User:{user}" for user in users)
        found["super.users"] = Declared(text, Source.STATIC, place)


def _protocol(reader: Reader, listener: Mapping) -> str:
    told = listener.text("tls") or ""
    if holds_placeholder(told):
        return told
    is_encrypted = bool(reader.flag(listener, "tls"))
    if _mechanism(listener):
        return "SASL_SSL" if is_encrypted else "SASL_PLAINTEXT"
    return "SSL" if is_encrypted else "PLAINTEXT"


def _mechanism(listener: Mapping) -> str | None:
    authentication = listener.mapping("authentication")
    return _MECHANISMS.get(authentication.text("type") or "") if authentication is not None else None


def storage_dirs(storage: Mapping | None) -> tuple[LogDirFacts, ...]:
    """The log dirs of a `storage` section with their sizes."""
    if storage is None:
        return ()
    volumes = [part for part in storage.sequence("volumes") if isinstance(part, Mapping)]
    if not volumes:
        return (
            LogDirFacts(
                path="/var/lib/kafka/data/kafka-log0",
                total_bytes=_bytes_of(storage.text("size")),
                is_ephemeral=storage.text("type") == "ephemeral",
            ),
        )
    return tuple(
        LogDirFacts(
            path=f"/var/lib/kafka/data-{volume.text('id') or number}/kafka-log0",
            total_bytes=_bytes_of(volume.text("size")),
            is_ephemeral=volume.text("type") == "ephemeral",
        )
        for number, volume in enumerate(volumes)
    )


def pod_facts(*sections: Mapping | None) -> HostFacts:
    """Memory and heap of the pods that `resources` and `jvmOptions` of the first section that has them ask for."""
    memory = _first(s.mapping("resources", "limits") or s.mapping("resources", "requests") for s in sections if s)
    options = _first(s.mapping("jvmOptions") for s in sections if s)
    heap = options.text("-Xmx") if options is not None else None
    facts = HostFacts(
        memory_bytes=_bytes_of(memory.text("memory")) if memory is not None else None,
        heap_bytes=_bytes_of(heap.upper().rstrip("B") + "i" if heap and heap[-1:].isalpha() else heap),
    )
    return NO_HOST if facts == NO_HOST else facts


def _first(sections: Iterable[Mapping | None]) -> Mapping | None:
    return next((section for section in sections if section is not None), None)


def _bytes_of(text: str | None) -> int | None:
    """A quantity of Kubernetes in bytes."""
    found = _QUANTITY.fullmatch(text or "")
    if found is None:
        return None
    number, unit = float(found.group(1)), found.group(2) or ""
    if unit in ("", "m"):
        return int(number if not unit else number / 1000)
    base = 1024 if unit.endswith("i") else 1000
    return int(number * float(base) ** (_UNITS.index(unit[0].upper()) + 1))


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
    resources = list(_resources(roots))
    return with_accepted(document, resources, (_read_one(document, root) for root in resources))


STRIMZI_KIND = Kind(
    name="strimzi",
    about="Strimzi Kafka, KafkaNodePool, KafkaTopic, KafkaConnect and KafkaConnector",
    formats=("yaml", "json"),
    recognise=_is_strimzi,
    read=_read,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFields:
    """The fields of one tool's topics in `spec`: their number of partitions and replicas, configuration and cluster."""

    group: str
    partitions: str
    replicas: str
    configs: str
    cluster: str = ""


_CONFLUENT = TopicFields(
    group="platform.confluent.io",
    partitions="partitionCount",
    replicas="replicas",
    configs="configs",
    cluster="kafkaClusterRef",
)
_KOPERATOR = TopicFields(
    group="kafka.banzaicloud.io",
    partitions="partitions",
    replicas="replicationFactor",
    configs="config",
    cluster="clusterRef",
)
_JIKKOU = TopicFields(group="kafka.jikkou.io", partitions="partitions", replicas="replicas", configs="configs")
_LISTS = frozenset({"List", "KafkaTopicList"})


def _group_of(root: Mapping) -> str:
    return (root.text("apiVersion") or "").partition("/")[0]


def _listed(roots: Iterable[Node]) -> Iterator[Mapping]:
    """Every resource; the items of jikkou's lists have neither kind nor version of their own."""
    for root in roots:
        if isinstance(root, Mapping) and root.text("kind") in _LISTS:
            yield from (item for item in root.sequence("items") if isinstance(item, Mapping))
        elif isinstance(root, Mapping):
            yield root


def _owner(root: Mapping) -> str | None:
    return owner_in(*_labels(root))


def _topic_of_tool(reader: Reader, root: Mapping, spec: Mapping, fields: TopicFields) -> Pieces:
    metadata = _metadata(root)
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
        configs=reader.configs(reader.mapping(spec, fields.configs), Source.TOPIC),
        partitions=partitions if partitions is not None and partitions > 0 else None,
        replication_factor=factor if factor is not None and factor > 0 else None,
        owner=_owner(root),
    )
    return Pieces(topics=(topic,))


def _confluent_nodes(reader: Reader, root: Mapping, spec: Mapping, roles: tuple[str, ...]) -> Pieces:
    """The brokers or controllers of Confluent's operator: what `configOverrides.server` sets."""
    metadata = _metadata(root)
    name, namespace = metadata.text("name"), metadata.text("namespace")
    overrides = spec.mapping("configOverrides")
    static: dict[str, Declared] = {}
    for item in overrides.sequence("server") if overrides is not None else ():
        key, equals, text = item.text.partition("=") if isinstance(item, Scalar) else ("", "", "")
        if equals:
            value = without_secret(key.strip(), text.strip())
            static[key.strip()] = Declared(value, Source.STATIC, reader.place(item))
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
        owner=_owner(root),
        is_known=False,
        is_partial=True,
        in_container=True,
    )
    cluster = ClusterPiece(place=reader.place(spec), name=name, namespace=namespace, is_whole="broker" in roles)
    return Pieces(clusters=(cluster,), brokers=(nodes,))


def _confluent_connector(reader: Reader, root: Mapping, spec: Mapping) -> Pieces:
    found = dict(reader.configs(reader.mapping(spec, "configs"), Source.STATIC))
    found |= _from_fields(reader, spec, {"class": "connector.class", "taskMax": "tasks.max"})
    name = reader.text(spec, "name") or _metadata(root).text("name") or "without name"
    connector = LintConnector(name=name, config=found, place=reader.place(spec), owner=_owner(root))
    return Pieces(connectors=(connector,))


def _read_resource(document: Document, root: Mapping, kind: str, fields: TopicFields) -> Pieces:
    reader = Reader(document)
    spec = reader.mapping(root, "spec")
    if spec is None:
        reader.problem(root, "a resource needs a spec", "spec")
        return Pieces(problems=tuple(reader.problems))
    match kind:
        case "Kafka":
            found = _confluent_nodes(reader, root, spec, ("broker",))
        case "KRaftController":
            found = _confluent_nodes(reader, root, spec, ("controller",))
        case "Connector":
            found = _confluent_connector(reader, root, spec)
        case _:
            found = _topic_of_tool(reader, root, spec, fields)
    return joined([found, Pieces(problems=tuple(reader.problems))])


def _kind(name: str, about: str, fields: TopicFields, kinds: frozenset[str]) -> Kind:
    def is_one(root: Node) -> bool:
        if not isinstance(root, Mapping):
            return False
        if root.text("kind") == "List":
            return any(is_one(item) for item in root.sequence("items"))
        return _group_of(root) == fields.group and root.text("kind") in kinds

    return Kind(name=name, about=about, formats=("yaml", "json"), recognise=is_one, read=_reader(fields, kinds))


def _reader(fields: TopicFields, kinds: frozenset[str]) -> Callable[[Document, tuple[Node, ...]], Pieces]:
    def read(document: Document, roots: tuple[Node, ...]) -> Pieces:
        # The items of a list of topics are topics, those of a list of kubectl what they say.
        resources = [root for root in _listed(roots) if _group_of(root) in ("", fields.group)]
        told = [(root, root.text("kind") or "KafkaTopic") for root in resources]
        parts = (_read_resource(document, root, kind, fields) for root, kind in told if kind in kinds)
        return with_accepted(document, resources, parts)

    return read


CONFLUENT_KIND = _kind(
    "confluent-operator",
    "Confluent for Kubernetes: Kafka, KRaftController, KafkaTopic and Connector",
    _CONFLUENT,
    frozenset({"Kafka", "KRaftController", "KafkaTopic", "Connector"}),
)
KOPERATOR_KIND = _kind("koperator", "topics of koperator", _KOPERATOR, frozenset({"KafkaTopic"}))
JIKKOU_KIND = _kind("jikkou", "jikkou's topics as code", _JIKKOU, frozenset({"KafkaTopic", "KafkaTopicList"}))
