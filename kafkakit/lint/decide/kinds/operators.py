"""Resources of Strimzi: clusters, pools, topics, workers, connectors, mirrors, users and rebalances.

A KafkaMirrorMaker2 is a worker, and a connector for each that its mirrors run. Users and rebalances have nothing that
rules judge: told is what their operator refuses or does not read.

What the operator sets on brokers itself, from the listeners, authorization and storage of its resources, is as
effective as what a file sets, so it is part of the static configuration: without it a cluster would look as if it had
no authorizer or kept its logs in /tmp.
"""

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Mapping as MappingABC

from kafkakit.core.findings import Place
from kafkakit.core.yaml_json import Document, Mapping, Node, Scalar, Sequence
from kafkakit.kubernetes.objects import quantity_bytes
from kafkakit.lint.decide.kinds.kind import (
    DocumentReader,
    FileKind,
    environment_of,
    from_fields,
    join_pieces,
    metadata_of,
    owner_in,
    owner_of,
    with_accepted,
)
from kafkakit.lint.decide.pieces import BrokerPiece, ClusterPiece, FileProblem, Pieces, TopicPiece
from kafkakit.rules.effective import DeclaredValue, ValueSource
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


def _name(root: Mapping) -> str | None:
    return metadata_of(root).text("name")


def _labels(root: Mapping) -> tuple[Mapping | None, Mapping | None]:
    metadata = metadata_of(root)
    return metadata.mapping("labels"), metadata.mapping("annotations")


def _namespace(root: Mapping) -> str | None:
    return metadata_of(root).text("namespace")


def _settings(
    reader: DocumentReader, spec: Mapping, where: str, dropped: tuple[str, ...], kept: tuple[str, ...]
) -> dict[str, DeclaredValue]:
    """The settings of a resource that reach the process; a problem for each that the operator takes out."""
    found = reader.configs(reader.mapping(spec, "config"), ValueSource.STATIC)
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


def _read_kafka(reader: DocumentReader, root: Mapping, spec: Mapping) -> Pieces:
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
        watched_namespace=_watched_namespace(spec),
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


def _watched_namespace(spec: Mapping) -> str | None:
    """The namespace of topics, if it is not that of the cluster."""
    operator = spec.mapping("entityOperator", "topicOperator")
    return operator.text("watchedNamespace") if operator is not None else None


def _read_pool(reader: DocumentReader, root: Mapping, spec: Mapping) -> Pieces:
    place = reader.place(spec)
    roles = reader.texts(spec, "roles") or ("broker",)
    role_place = reader.place(spec.entries["roles"].key) if "roles" in spec.entries else place
    dirs = storage_dirs(reader.mapping(spec, "storage"))
    static = {"process.roles": DeclaredValue(",".join(roles), ValueSource.STATIC, role_place)}
    if dirs:
        static["log.dirs"] = DeclaredValue(",".join(part.path for part in dirs), ValueSource.STATIC, place)
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
        owner=owner_of(root),
        is_known=False,
    )
    return Pieces(brokers=(pool,))


def _read_topic(reader: DocumentReader, root: Mapping, spec: Mapping) -> Pieces:
    name = reader.text(spec, "topicName") or _name(root)
    if name is None:
        reader.problem(root, "a KafkaTopic needs a name", "name")
        return Pieces()
    _tell_unread(reader, root, spec, TOPIC_FIELDS)
    topic = TopicPiece(
        name=name,
        place=reader.place(spec),
        cluster=_cluster(root),
        namespace=_namespace(root),
        configs=reader.configs(reader.mapping(spec, "config"), ValueSource.TOPIC),
        partitions=reader.integer(spec, "partitions", 1),
        replication_factor=reader.integer(spec, "replicas", 1),
        owner=owner_of(root),
    )
    return Pieces(topics=(topic,))


def _tell_unread(
    reader: DocumentReader, root: Mapping, spec: Mapping, fields: tuple[str, ...], *, is_labelled: bool = True
) -> None:
    """Problems for fields that a resource does not have, and for one without the label that its operator looks for."""
    for entry in spec.entries.values():
        if entry.key.text not in fields:
            reader.problem(
                entry.key,
                f"a {root.text('kind')} has no field {entry.key.text!r:.60}: the operator does not read it",
                entry.key.text,
                UNREAD,
            )
    if is_labelled and _cluster(root) is None:
        reader.problem(
            root, f"without the label {CLUSTER_LABEL} no operator reads it, unless a tool adds it", rule=UNREAD
        )


def _read_connect(reader: DocumentReader, root: Mapping, spec: Mapping) -> Pieces:
    return Pieces(connectors=(_worker(reader, root, spec, spec, "spec.config"),))


def _worker(reader: DocumentReader, root: Mapping, spec: Mapping, cluster: Mapping, where: str) -> LintConnector:
    """The worker of a resource, whose settings stand at the cluster that it works on; `where` is what messages say."""
    found = _settings(reader, cluster, where, _OF_WORKERS, _KEPT_OF_WORKERS)
    fields = {**_SHORT_FORMS, "bootstrapServers": "bootstrap.servers"}
    for key, declared in from_fields(reader, cluster, fields).items():
        found.setdefault(key, declared)
    return LintConnector(
        name=_name(root) or "without name",
        config=found,
        is_worker=True,
        place=reader.place(spec),
        owner=owner_of(root),
    )


def _read_connector(reader: DocumentReader, root: Mapping, spec: Mapping) -> Pieces:
    found = dict(reader.configs(reader.mapping(spec, "config"), ValueSource.STATIC))
    found |= from_fields(reader, spec, {"class": "connector.class", "tasksMax": "tasks.max"})
    connector = LintConnector(
        name=_name(root) or "without name",
        config=found,
        place=reader.place(spec),
        owner=owner_of(root),
    )
    return Pieces(connectors=(connector,))


_MIRROR_CONNECTORS = {
    "sourceConnector": ("MirrorSourceConnector", {"topicsPattern": "topics", "topicsExcludePattern": "topics.exclude"}),
    "checkpointConnector": (
        "MirrorCheckpointConnector",
        {"groupsPattern": "groups", "groupsExcludePattern": "groups.exclude"},
    ),
    "heartbeatConnector": ("MirrorHeartbeatConnector", {}),
}
"""The connectors of a mirror by their fields: their classes, and the fields of the mirror that become settings."""


def _read_mirror_maker(reader: DocumentReader, root: Mapping, spec: Mapping) -> Pieces:
    clusters = {cluster.text("alias"): cluster for cluster in reader.mappings(spec, "clusters")}
    target = reader.mapping(spec, "target") or clusters.get(spec.text("connectCluster"))
    if target is None:
        known = ", ".join(alias for alias in clusters if alias) or "none"
        reader.problem(spec, f"connectCluster must be the alias of one of the clusters ({known})", "connectCluster")
        return Pieces()
    worker = _worker(reader, root, spec, target, "the target cluster's config")
    mirrors = [
        _mirror_connectors(reader, root, mirror, target, clusters) for mirror in reader.mappings(spec, "mirrors")
    ]
    return Pieces(connectors=(worker, *(connector for mirror in mirrors for connector in mirror)))


def _mirror_connectors(
    reader: DocumentReader, root: Mapping, mirror: Mapping, target: Mapping, clusters: MappingABC[str | None, Mapping]
) -> Iterator[LintConnector]:
    """The connectors of one mirror; problems for clusters that it names and that are not there."""
    into, source = target.text("alias"), mirror.mapping("source")
    alias = source.text("alias") if source is not None else mirror.text("sourceCluster")
    if source is None and alias not in clusters and not holds_placeholder(alias or ""):
        reader.problem(mirror, f"sourceCluster {alias or ''!r:.80} is not the alias of a cluster", "sourceCluster")
    named = mirror.text("targetCluster")
    if named is not None and named != into and not holds_placeholder(named):
        told = f"targetCluster {named!r:.80} is not connectCluster, and the operator refuses others"
        reader.problem(mirror.entries["targetCluster"].value, told, "targetCluster")
    ends = {
        f"{end}.cluster.{name}": DeclaredValue(text, ValueSource.STATIC, reader.place(cluster.entries[field].key))
        for end, cluster in (("source", source or clusters.get(alias)), ("target", target))
        for name, field in (("alias", "alias"), ("bootstrap.servers", "bootstrapServers"))
        if cluster is not None and (text := cluster.text(field)) is not None
    }
    for field, (kind, patterns) in _MIRROR_CONNECTORS.items():
        connector = reader.mapping(mirror, field)
        if connector is None:
            continue
        place = reader.place(connector)
        yield LintConnector(
            name=f"{alias}->{into}.{kind}",
            config={
                **reader.configs(reader.mapping(connector, "config"), ValueSource.STATIC),
                **ends,
                "connector.class": DeclaredValue(f"org.apache.kafka.connect.mirror.{kind}", ValueSource.STATIC, place),
                **from_fields(reader, mirror, patterns),
                **from_fields(reader, connector, {"tasksMax": "tasks.max"}),
            },
            place=place,
            owner=owner_of(root),
        )


_OPERATIONS = (
    "Read", "Write", "Create", "Delete", "Alter", "Describe", "ClusterAction", "AlterConfigs", "DescribeConfigs",
    "IdempotentWrite", "All",
)  # fmt: skip
_MOST_COMMON_NAME = 64
"""Characters of the common name of a certificate."""


def _one_of(reader: DocumentReader, node: Mapping, key: str, allowed: tuple[str, ...]) -> str | None:
    """The word at a key; a problem for one that is not allowed."""
    found = reader.text(node, key)
    if found is not None and found not in allowed and not holds_placeholder(found):
        reader.problem(node.entries[key].value, f"{key} must be one of {', '.join(allowed)}, not {found!r:.60}", key)
    return found


def _read_user(reader: DocumentReader, root: Mapping, spec: Mapping) -> Pieces:
    _tell_unread(reader, root, spec, ("authentication", "authorization", "quotas", "template"))
    authentication = reader.mapping(spec, "authentication")
    if authentication is not None:
        how = _one_of(reader, authentication, "type", ("tls", "tls-external", "scram-sha-512"))
        name = _name(root) or ""
        if how == "tls" and len(name) > _MOST_COMMON_NAME:
            told = f"a user with a certificate has a name of {_MOST_COMMON_NAME} characters at most, not {len(name)}"
            reader.problem(root, told, "name")
    quotas = reader.mapping(spec, "quotas")
    if quotas is not None:
        for key in ("producerByteRate", "consumerByteRate", "requestPercentage"):
            reader.integer(quotas, key)
        reader.number(quotas, "controllerMutationRate")
    authorization = reader.mapping(spec, "authorization")
    if authorization is not None:
        _one_of(reader, authorization, "type", ("simple",))
        for rule in reader.mappings(authorization, "acls"):
            _tell_rule(reader, rule)
    return Pieces()


def _tell_rule(reader: DocumentReader, rule: Mapping) -> None:
    """Problems of one rule of access."""
    _one_of(reader, rule, "type", ("allow", "deny"))
    operations = rule.get("operations")
    for item in operations.items if isinstance(operations, Sequence) else ():
        if isinstance(item, Scalar) and item.text not in _OPERATIONS and not holds_placeholder(item.text):
            reader.problem(item, f"{item.text!r:.60} is not an operation: {', '.join(_OPERATIONS)}", "operations")
    if operations is None and "operation" not in rule.entries:
        reader.problem(rule, "a rule of access needs operations", "operations")
    elif "operation" in rule.entries:
        _one_of(reader, rule, "operation", _OPERATIONS)
    resource = reader.mapping(rule, "resource")
    if resource is None:
        reader.problem(rule, "a rule of access needs a resource", "resource")
        return
    kind = _one_of(reader, resource, "type", ("topic", "group", "cluster", "transactionalId"))
    _one_of(reader, resource, "patternType", ("literal", "prefix"))
    if kind != "cluster" and resource.text("name") is None:
        reader.problem(resource, "the resource of a rule of access needs a name", "name")


_REBALANCE_FIELDS = (
    "mode", "brokers", "goals", "skipHardGoalCheck", "rebalanceDisk", "excludedTopics",
    "concurrentPartitionMovementsPerBroker", "concurrentIntraBrokerPartitionMovements", "concurrentLeaderMovements",
    "replicationThrottle", "replicaMovementStrategies", "moveReplicasOffVolumes",
)  # fmt: skip
_GOALS = frozenset({
    "RackAwareGoal", "RackAwareDistributionGoal", "MinTopicLeadersPerBrokerGoal", "ReplicaCapacityGoal",
    "DiskCapacityGoal", "NetworkInboundCapacityGoal", "NetworkOutboundCapacityGoal", "CpuCapacityGoal",
    "ReplicaDistributionGoal", "PotentialNwOutGoal", "DiskUsageDistributionGoal",
    "NetworkInboundUsageDistributionGoal", "NetworkOutboundUsageDistributionGoal", "CpuUsageDistributionGoal",
    "TopicReplicaDistributionGoal", "LeaderReplicaDistributionGoal", "LeaderBytesInDistributionGoal",
    "PreferredLeaderElectionGoal", "IntraBrokerDiskCapacityGoal", "IntraBrokerDiskUsageDistributionGoal",
    "KafkaAssignerDiskUsageDistributionGoal", "KafkaAssignerEvenRackAwareGoal", "BrokerSetAwareGoal",
})  # fmt: skip
"""Goals of Cruise Control; those of others have the name of a package before their own."""


def _read_rebalance(reader: DocumentReader, root: Mapping, spec: Mapping) -> Pieces:
    annotations = _labels(root)[1]
    is_template = annotations is not None and annotations.text("strimzi.io/rebalance-template") == "true"
    _tell_unread(reader, root, spec, _REBALANCE_FIELDS, is_labelled=not is_template)
    mode = _one_of(reader, spec, "mode", ("full", "add-brokers", "remove-brokers", "remove-disks"))
    reader.integers(spec, "brokers")
    needed = {"add-brokers": "brokers", "remove-brokers": "brokers", "remove-disks": "moveReplicasOffVolumes"}
    field = needed.get(mode or "")
    if field is not None and field not in spec.entries and not is_template:
        reader.problem(spec, f"mode {mode} needs {field}", field)
    for key in _REBALANCE_FIELDS:
        if key.startswith("concurrent") or key == "replicationThrottle":
            reader.integer(spec, key)
    goals = spec.get("goals")
    for item in goals.items if isinstance(goals, Sequence) else ():
        is_own = isinstance(item, Scalar) and ("." in item.text or holds_placeholder(item.text))
        if isinstance(item, Scalar) and item.text not in _GOALS and not is_own:
            reader.problem(item, f"{item.text!r:.80} is not a goal of Cruise Control", "goals")
    return Pieces()


_AUTHORIZERS = {
    "simple": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "opa": "org.openpolicyagent.kafka.OpaAuthorizer",
    "keycloak": "io.strimzi.kafka.oauth.server.authorizer.KeycloakAuthorizer",
}
_MECHANISMS = {"scram-sha-512": "SCRAM-SHA-512", "scram-sha-256": "SCRAM-SHA-256", "oauth": "OAUTHBEARER"}
_CONTROL, _REPLICATION = "CONTROLPLANE-9090", "REPLICATION-9091"
CONTROLLER_LISTENERS = f"{_CONTROL}://0.0.0.0:9090"


def operator_settings(
    reader: DocumentReader, kafka: Mapping, name: str, uses_zookeeper: bool
) -> dict[str, DeclaredValue]:
    """The broker settings that follow from `spec.kafka`."""
    spec_place = reader.place(kafka)
    found: dict[str, DeclaredValue] = {}

    def put(key: str, text: str, place: Place = spec_place) -> None:
        found[key] = DeclaredValue(text, ValueSource.STATIC, place)

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


def _put_authorizer(reader: DocumentReader, kafka: Mapping, found: dict[str, DeclaredValue]) -> None:
    authorization = reader.mapping(kafka, "authorization")
    if authorization is None:
        return
    place = reader.place(kafka.entries["authorization"].key)
    kind = authorization.text("type") or ""
    name = authorization.text("authorizerClass") or (kind if holds_placeholder(kind) else _AUTHORIZERS.get(kind))
    if name is not None:
        found["authorizer.class.name"] = DeclaredValue(name, ValueSource.STATIC, place)
    users = reader.texts(authorization, "superUsers")
    if users:
        text = ";".join(user if user.startswith("User:") else f"User:{user}" for user in users)
        found["super.users"] = DeclaredValue(text, ValueSource.STATIC, place)


def _protocol(reader: DocumentReader, listener: Mapping) -> str:
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
                total_bytes=quantity_bytes(storage.text("size")),
                is_ephemeral=storage.text("type") == "ephemeral",
            ),
        )
    return tuple(
        LogDirFacts(
            path=f"/var/lib/kafka/data-{volume.text('id') or number}/kafka-log0",
            total_bytes=quantity_bytes(volume.text("size")),
            is_ephemeral=volume.text("type") == "ephemeral",
        )
        for number, volume in enumerate(volumes)
    )


def pod_facts(*sections: Mapping | None) -> HostFacts:
    """Memory and heap of the pods that `resources` and `jvmOptions` of the first section that has them ask for."""
    memory = _first_section(
        s.mapping("resources", "limits") or s.mapping("resources", "requests") for s in sections if s
    )
    options = _first_section(s.mapping("jvmOptions") for s in sections if s)
    heap = options.text("-Xmx") if options is not None else None
    facts = HostFacts(
        memory_bytes=quantity_bytes(memory.text("memory")) if memory is not None else None,
        heap_bytes=quantity_bytes(heap.upper().rstrip("B") + "i" if heap and heap[-1:].isalpha() else heap),
    )
    return NO_HOST if facts == NO_HOST else facts


def _first_section(sections: Iterable[Mapping | None]) -> Mapping | None:
    return next((section for section in sections if section is not None), None)


_READERS: dict[str, Callable[[DocumentReader, Mapping, Mapping], Pieces]] = {
    "Kafka": _read_kafka,
    "KafkaNodePool": _read_pool,
    "KafkaTopic": _read_topic,
    "KafkaConnect": _read_connect,
    "KafkaConnector": _read_connector,
    "KafkaMirrorMaker2": _read_mirror_maker,
    "KafkaUser": _read_user,
    "KafkaRebalance": _read_rebalance,
}


def _read_one(document: Document, root: Mapping) -> Pieces:
    reader = DocumentReader(document)
    spec = reader.mapping(root, "spec")
    read = _READERS.get(root.text("kind") or "")
    if spec is None or read is None:
        reader.problem(root, "a Strimzi resource needs a kind and a spec", "spec")
        return Pieces(problems=tuple(reader.problems))
    pieces = read(reader, root, spec)
    return join_pieces([pieces, Pieces(problems=tuple(reader.problems))])


def _read(document: Document, roots: tuple[Node, ...]) -> Pieces:
    resources = list(_resources(roots))
    return with_accepted(document, resources, (_read_one(document, root) for root in resources))


STRIMZI_KIND = FileKind(
    name="strimzi",
    about="Strimzi Kafka, KafkaNodePool, KafkaTopic, KafkaConnect(or), KafkaMirrorMaker2, KafkaUser and KafkaRebalance",
    formats=("yaml", "json"),
    recognise=_is_strimzi,
    read=_read,
)
