"""Kafka in containers: docker compose, workloads of Kubernetes, ConfigMaps with properties, values of Helm charts.

Images make settings of environment variables by rules of their own: which prefix, and what one, two and three
underscores mean. The image of a container tells which rules hold. A container whose settings are not all in the file
(`env_file`, `envFrom`, a mounted configuration) has only those that are judged as set, not those that are missing.
"""

import re
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Mapping_
from dataclasses import dataclass, replace

from kafkakit.core.findings import Place
from kafkakit.core.yaml_json import Document, Mapping, Node, Scalar, Sequence
from kafkakit.lint.decide.kinds.kafka_tools import SERVER_CLASS, are_node_keys, are_worker_keys, server_connector
from kafkakit.lint.decide.kinds.kind import (
    DocumentReader,
    FileKind,
    dirs_of,
    metadata_of,
    node_id_of,
    of_each,
    owner_in,
    owner_of,
    properties_in,
    resources_in,
    roles_of,
    with_accepted,
    without_secret,
)
from kafkakit.lint.decide.membership import NodeIdentity, node_identity
from kafkakit.lint.decide.pieces import BrokerPiece, FileProblem, Pieces, TopicPiece
from kafkakit.rules.effective import Configs, DeclaredValue, ValueSource
from kafkakit.rules.subjects import LintConnector


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRules:
    """How an image makes settings of variables: the prefix, and what one, two and three underscores become.

    `repositories` end the image's name without its tag. `data_dir` is the log dir that the image sets if none is given.
    """

    repositories: tuple[str, ...]
    prefix: str = "KAFKA_"
    one: str = "."
    two: str = ".."
    three: str = "..."
    exceptions: tuple[tuple[str, str], ...] = ()
    data_dir: str = ""
    is_versioned_by_kafka: bool = True

    def key_of(self, variable: str) -> str | None:
        """The setting that a variable makes, None for one that is not a setting."""
        if not variable.startswith(self.prefix) or _NO_SETTING.fullmatch(variable):
            return None
        rest = variable.removeprefix(self.prefix)
        key = _UNDERSCORES.sub(lambda found: self._joint(len(found.group())), rest.lower())
        for wrong, right in self.exceptions:
            key = key.replace(wrong, right)
        return key or None

    def _joint(self, number: int) -> str:
        threes, left = divmod(number, 3)
        return self.three * threes + ("", self.one, self.two)[left]


_UNDERSCORES = re.compile("_+")
_NO_SETTING = re.compile(
    r"KAFKA_(?:VERSION|HOME|.*_OPTS|(?:.*_)?LOG4J2?_\w+|JMX_\w+|DATA_DIRS?|CUB_\w+|CREATE_TOPICS|KRAFT_CLUSTER_ID|CLUSTER_ID"
    r"|SSL_\w+_(?:FILENAME|CREDENTIALS)|REST_\w+|KAFKA_REST_\w+|CONFLUENT_\w+|CLIENT_\w+|INTER_BROKER_(?:USER|PASSWORD)"
    r"|CONTROLLER_(?:USER|PASSWORD)|ZOOKEEPER_(?:USER|PASSWORD)|CFG_FILE|VOLUME_DIR|BASE_DIR|CONF_DIR|MOUNTED_CONF_DIR"
    r"|DEBUG\w*|TZ|SERVICE_\w+|PORT_\w+)"
)
"""Variables that images and their scripts take for themselves, and those that Kubernetes sets for services."""
_IN_CONTAINER = "${image:log.dirs}"
"""A folder in the container's own file system, which no restart of the machine wipes."""
_APACHE = ImageRules(repositories=("apache/kafka", "apache/kafka-native"), two="_", three="-", data_dir=_IN_CONTAINER)
_CONFLUENT = ImageRules(
    repositories=("/cp-kafka", "/cp-server", "/cp-enterprise-kafka", "/confluent-local", "/cp-kafka-kraft"),
    two="-",
    three="_",
    data_dir="/var/lib/kafka/data",
    is_versioned_by_kafka=False,
)
_BITNAMI = ImageRules(
    repositories=("bitnami/kafka", "bitnamilegacy/kafka", "bitnamisecure/kafka"),
    prefix="KAFKA_CFG_",
    exceptions=(("sasl.ssl", "sasl_ssl"), ("sasl.plaintext", "sasl_plaintext")),
    data_dir="/bitnami/kafka/data",
)
_WURSTMEISTER = ImageRules(repositories=("wurstmeister/kafka",), data_dir="/kafka/kafka-logs")
_DEBEZIUM = ImageRules(repositories=("debezium/kafka",), data_dir="/kafka/data", is_versioned_by_kafka=False)
_STRIMZI = ImageRules(repositories=("strimzi/kafka",), prefix="\0")
"""Its scripts make no settings of variables: the operator, or a command, gives it a whole configuration."""
IMAGES = (_APACHE, _CONFLUENT, _BITNAMI, _WURSTMEISTER, _DEBEZIUM, _STRIMZI)
_CONFLUENT_TO_KAFKA = {"6": ("2", 6), "7": ("3", 0), "8": ("4", 0)}
"""The first release of each major of Confluent Platform, with the Kafka in it; later ones count on together."""
_TAG = re.compile(r"v?(\d+)\.(\d+)(?:\.\d+)*(?:[-.].*)?")
_SCALA = re.compile(r"2\.1\d-")
"""Scala's version, which stands before Kafka's in the tags of some."""
_CONFIG_MOUNT = re.compile(
    r"(?:server|kafka)\.properties|/(?:mnt/shared/config|bitnami/kafka/config|etc/kafka|opt/kafka/config)(?:[/:]|$)"
)


@dataclass(frozen=True, slots=True)
class _Variable:
    """A variable of a container: its text, None where it comes from elsewhere."""

    text: str | None
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Container:
    """A container that runs Kafka, as its file describes it."""

    name: str
    image: str
    variables: dict[str, _Variable]
    place: Place
    is_complete: bool
    count: int = 1


def image_rules(image: str, variables: Iterable[str]) -> ImageRules | None:
    """The rules of an image; those of the likeliest for an unknown one whose variables are a broker's, else None."""
    name = _without_tag(image)
    for rules in IMAGES:
        if any(f"/{name}".endswith(f"/{part.removeprefix('/')}") for part in rules.repositories):
            return rules
    given = tuple(variables)
    rules = _BITNAMI if any(v.startswith(_BITNAMI.prefix) for v in given) else _APACHE
    keys = {key for variable in given if (key := rules.key_of(variable)) is not None}
    return rules if are_node_keys(keys) else None


def _without_tag(image: str) -> str:
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return head + slash + last.partition(":")[0]


def version_of(image: str, rules: ImageRules) -> str | None:
    """Kafka's version by the tag of an image, None where it does not tell."""
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    scala = _SCALA.match(tag)
    found = _TAG.fullmatch(tag[scala.end() :] if scala else tag)
    if found is None:
        return None
    major, minor = found.groups()
    if rules.is_versioned_by_kafka:
        return f"{major}.{minor}"
    return confluent_to_kafka(f"{major}.{minor}") if rules is _CONFLUENT else None


def confluent_to_kafka(release: str) -> str | None:
    """The version of Kafka in a release of Confluent Platform, None for a text that is not one."""
    found = _TAG.fullmatch(release)
    if found is None or found[1] not in _CONFLUENT_TO_KAFKA:
        return None
    kafka_major, first = _CONFLUENT_TO_KAFKA[found[1]]
    return f"{kafka_major}.{first + int(found[2])}"


def _broker(
    reader: DocumentReader, container: _Container, scope: str, env: str | None, owner: str | None
) -> BrokerPiece | None:
    rules = image_rules(container.image, container.variables)
    if rules is None:
        return None
    static: dict[str, DeclaredValue] = {}
    is_complete = container.is_complete
    for variable, value in container.variables.items():
        key = rules.key_of(variable)
        if key is None:
            continue
        text = "${" + variable + "}" if value.text is None else without_secret(key, value.text)
        static[key] = DeclaredValue(text, ValueSource.STATIC, reader.document.place(value.at))
    if not static:
        return None
    if rules.data_dir and is_complete and "log.dirs" not in static and "log.dir" not in static:
        static["log.dirs"] = DeclaredValue(rules.data_dir, ValueSource.STATIC, container.place)
    if rules is _CONFLUENT and "advertised.listeners" in static and "listeners" not in static:
        static["listeners"] = static["advertised.listeners"]
    number = node_id_of(static)
    ids = (container.variables.get(name) for name in ("CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID", "KAFKA_CLUSTER_ID"))
    cluster_id = next((found.text for found in ids if found is not None and found.text), None)
    return BrokerPiece(
        place=container.place,
        node=node_identity(number, static, scope=scope, cluster_id=cluster_id, spot=container.name),
        id=number,
        roles=roles_of(static),
        static=static,
        log_dirs=dirs_of(static),
        version=version_of(container.image, rules),
        count=container.count,
        owner=owner,
        is_known=is_complete,
        is_partial=not is_complete,
        in_container=True,
        assumed_env=env,
    )


_DEBEZIUM_PREFIX = "DEBEZIUM_"
_DEBEZIUM_CLASS = SERVER_CLASS.upper().replace(".", "_")
_DEBEZIUM_MOUNT = re.compile(r"/debezium/(?:conf|config)(?:[/:]|$)")


def _runs_debezium(variables: Mapping_[str, _Variable]) -> bool:
    return _DEBEZIUM_CLASS in variables


def _debezium(
    reader: DocumentReader, container: _Container, env: str | None, owner: str | None
) -> LintConnector | None:
    """The connector of a container that runs Debezium Server, if its variables are all of its settings."""
    if not _runs_debezium(container.variables) or not container.is_complete:
        return None
    settings: dict[str, DeclaredValue] = {}
    for variable, value in container.variables.items():
        if variable.startswith(_DEBEZIUM_PREFIX):
            key = variable.lower().replace("_", ".")
            text = "${" + variable + "}" if value.text is None else without_secret(key, value.text)
            settings[key] = DeclaredValue(text, ValueSource.STATIC, reader.document.place(value.at))
    return server_connector(settings, name=container.name, place=container.place, owner=owner, env=env)


def _compose_variables(node: Node | None) -> dict[str, _Variable]:
    """The `environment` of a service, as a mapping or as a list of NAME=VALUE."""
    if isinstance(node, Mapping):
        return {
            key: _Variable(None if entry.value.is_null else _unescape(entry.value.text), entry.key.start)
            for key, entry in node.entries.items()
            if isinstance(entry.value, Scalar)
        }
    found = {}
    for item in node.items if isinstance(node, Sequence) else []:
        if isinstance(item, Scalar):
            name, equals, text = item.text.partition("=")
            found[name.strip()] = _Variable(_unescape(text) if equals else None, item.start)
    return found


def _unescape(text: str) -> str:
    return text.replace("$$", "$")


def _services(root: Node) -> Iterator[tuple[str, Mapping]]:
    services = root.mapping("services") if isinstance(root, Mapping) else None
    for name, entry in services.entries.items() if services is not None else ():
        if isinstance(entry.value, Mapping):
            yield name, entry.value


def _compose_container(reader: DocumentReader, name: str, service: Mapping) -> _Container:
    mounts = [item.text for item in service.sequence("volumes") if isinstance(item, Scalar)]
    deploy = service.mapping("deploy")
    replicas = deploy.text("replicas") if deploy is not None else None
    count = replicas or service.text("scale") or "1"
    return _Container(
        name=name,
        image=service.text("image") or "",
        variables=_compose_variables(service.get("environment")),
        place=reader.place(service),
        is_complete="env_file" not in service.entries
        and "extends" not in service.entries
        and not any(_CONFIG_MOUNT.search(mount) or _DEBEZIUM_MOUNT.search(mount) for mount in mounts),
        count=int(count) if count.isdecimal() and len(count) < 6 else 1,
    )


def _runs(image: str | None, variables: Mapping_[str, _Variable]) -> bool:
    """True for a container that runs Kafka or Debezium Server."""
    return image_rules(image or "", variables) not in (None, _STRIMZI) or _runs_debezium(variables)


def _is_compose(root: Node) -> bool:
    return any(
        _runs(service.text("image"), _compose_variables(service.get("environment"))) for _, service in _services(root)
    )


def _read_compose(document: Document, root: Mapping) -> Pieces:
    reader = DocumentReader(document)
    brokers, connectors = [], []
    for name, service in _services(root):
        container = _compose_container(reader, name, service)
        owner = owner_in(service.mapping("labels"))
        brokers.append(_broker(reader, container, document.path, "dev", owner))
        connectors.append(_debezium(reader, container, "dev", owner))
    return _pieces(brokers, connectors, reader.problems)


def _pieces(
    brokers: Iterable[BrokerPiece | None],
    connectors: Iterable[LintConnector | None],
    problems: Iterable[FileProblem] = (),
) -> Pieces:
    """What containers run; None for one that runs no such thing."""
    return Pieces(
        brokers=tuple(broker for broker in brokers if broker is not None),
        connectors=tuple(connector for connector in connectors if connector is not None),
        problems=tuple(problems),
    )


COMPOSE_KIND = FileKind(
    name="compose",
    about="docker compose: services that run Kafka, by their environment",
    formats=("yaml", "json"),
    recognise=_is_compose,
    read=of_each(_read_compose),
)

_WORKLOADS = frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Pod"})


def _containers(root: Node) -> Iterator[Mapping]:
    """The containers of a workload."""
    if not isinstance(root, Mapping) or root.text("kind") not in _WORKLOADS:
        return
    pod = root.mapping("spec") if root.text("kind") == "Pod" else root.mapping("spec", "template", "spec")
    yield from (item for item in (pod.sequence("containers") if pod else ()) if isinstance(item, Mapping))


@dataclass(frozen=True, slots=True)
class _ConfigMaps:
    """The data of the ConfigMaps of a file by namespace and name, and those whose variables a broker has."""

    data: Mapping_[tuple[str, str], Mapping]
    used: set[tuple[str, str]]

    @classmethod
    def of(cls, roots: Iterable[Node]) -> "_ConfigMaps":
        """All ConfigMaps of a file."""
        found = {}
        for root in resources_in(roots):
            data = _data(root)
            if data is not None:
                found[_name_of(root)] = data
        return cls(found, set())

    def variables(self, namespace: str, name: str | None, prefix: str = "") -> dict[str, _Variable] | None:
        """The variables that a ConfigMap gives a container; None for one that is not in the file."""
        data = self.data.get((namespace, name or ""))
        return None if data is None else _variables_of(data, prefix)

    def text(self, namespace: str, item: Mapping) -> str | None:
        """The text of a variable that comes from a key of a ConfigMap in the file."""
        reference = item.mapping("valueFrom", "configMapKeyRef")
        data = self.data.get((namespace, reference.text("name") or "")) if reference is not None else None
        return data.text(reference.text("key") or "") if data is not None and reference is not None else None


NO_CONFIG_MAPS = _ConfigMaps({}, set())


def _name_of(root: Mapping) -> tuple[str, str]:
    metadata = metadata_of(root)
    return metadata.text("namespace") or "", metadata.text("name") or ""


def _variables_of(data: Mapping, prefix: str = "") -> dict[str, _Variable]:
    return {
        prefix + name: _Variable(entry.value.text, entry.key.start)
        for name, entry in data.entries.items()
        if isinstance(entry.value, Scalar)
    }


def _pod_variables(
    container: Mapping, namespace: str = "", config_maps: _ConfigMaps = NO_CONFIG_MAPS
) -> dict[str, _Variable]:
    """The variables of a container: those of whole ConfigMaps, and over them those that it lists."""
    found: dict[str, _Variable] = {}
    for item in container.sequence("envFrom"):
        reference = item.mapping("configMapRef") if isinstance(item, Mapping) else None
        if isinstance(item, Mapping) and reference is not None:
            found |= config_maps.variables(namespace, reference.text("name"), item.text("prefix") or "") or {}
    for item in container.sequence("env"):
        name = item.text("name") if isinstance(item, Mapping) else None
        if isinstance(item, Mapping) and name is not None:
            text = item.text("value")
            found[name] = _Variable(text if text is not None else config_maps.text(namespace, item), item.start)
    return found


def _sources(container: Mapping, namespace: str, config_maps: _ConfigMaps) -> tuple[list[tuple[str, str]], bool, bool]:
    """Which ConfigMaps a container takes variables of, and whether others are not known: secrets, other sources."""
    names, has_secrets, has_others = [], False, False
    for item in container.sequence("envFrom"):
        reference = item.mapping("configMapRef") if isinstance(item, Mapping) else None
        key = (namespace, reference.text("name") or "") if reference is not None else None
        if key is not None and key in config_maps.data:
            names.append(key)
        elif isinstance(item, Mapping) and "secretRef" in item.entries:
            has_secrets = True
        else:
            has_others = True
    return names, has_secrets, has_others


def _runs_kafka(container: Mapping) -> bool:
    return _runs(container.text("image"), _pod_variables(container))


def _data(root: Node) -> Mapping | None:
    if not isinstance(root, Mapping) or root.text("kind") != "ConfigMap":
        return None
    return root.mapping("data")


def _texts_of(reader: DocumentReader, data: Mapping) -> Iterator[tuple[str, Configs]]:
    """The properties of brokers, of Connect workers and of Debezium Server in a ConfigMap by their keys."""
    for name, entry in data.entries.items():
        if isinstance(entry.value, Scalar) and "properties" in name and "=" in entry.value.text:
            configs = properties_in(reader, entry.value)
            keys = configs.keys()
            if SERVER_CLASS in configs or are_node_keys(keys) or are_worker_keys(keys):
                yield name, configs


def _is_config_map(root: Node) -> bool:
    data = _data(root)
    if data is None:
        return False
    reader = DocumentReader(Document("", "", "yaml"))  # for the keys, whose places do not matter
    return any(True for _ in _texts_of(reader, data)) or _runs("", _variables_of(data))


def _is_kubernetes(root: Node) -> bool:
    if isinstance(root, Mapping) and root.text("kind") == "List":
        return any(_is_kubernetes(item) for item in root.sequence("items"))
    return any(_runs_kafka(container) for container in _containers(root)) or _is_config_map(root)


def _read_workload(reader: DocumentReader, root: Mapping, config_maps: _ConfigMaps) -> Pieces:
    namespace, name = _name_of(root)
    owner = owner_of(root)
    spec = root.mapping("spec")
    replicas = reader.integer(spec, "replicas", 0) if spec is not None and "replicas" in spec.entries else 1
    brokers, connectors = [], []
    for container in _containers(root):
        names, has_secrets, has_others = _sources(container, namespace, config_maps)
        is_mounted = any(
            isinstance(mount, Mapping) and _CONFIG_MOUNT.search(mount.text("mountPath") or "")
            for mount in container.sequence("volumeMounts")
        )
        found = _Container(
            name=name,
            image=container.text("image") or "",
            variables=_pod_variables(container, namespace, config_maps),
            place=reader.place(container),
            is_complete=not (is_mounted or has_secrets or has_others),
            count=replicas or 0,
        )
        broker = _broker(reader, found, _scope_of(namespace), None, owner)
        # Secrets hold passwords: they hide nothing that the rules of connectors miss.
        connector = None if has_others else _debezium(reader, replace(found, is_complete=True), None, owner)
        if broker is not None or connector is not None:
            config_maps.used.update(names)
        brokers.append(broker)
        connectors.append(connector)
    return _pieces(brokers, connectors)


def _scope_of(namespace: str) -> str:
    return f"namespace {namespace or 'that nothing names'}"


def _read_config_map(reader: DocumentReader, root: Mapping, data: Mapping, is_used: bool) -> Pieces:
    """The nodes and connectors of a ConfigMap: of its properties, and of its variables if no container has them."""
    namespace, name = _name_of(root)
    owner = owner_of(root)
    brokers: list[BrokerPiece | None] = []
    connectors: list[LintConnector | None] = []
    for key, static in _texts_of(reader, data):
        place = next(iter(static.values())).place
        if SERVER_CLASS in static:
            connectors.append(server_connector(static, name=name or key, place=place, owner=owner))
            continue
        if are_worker_keys(static.keys()):
            called = static["group.id"].text if "group.id" in static else key
            connectors.append(LintConnector(name=called, config=static, is_worker=True, place=place, owner=owner))
        if not are_node_keys(static.keys()):
            continue
        number = node_id_of(static)
        brokers.append(
            BrokerPiece(
                place=place,
                node=node_identity(number, static, scope=_scope_of(namespace), spot=f"{name} {key}"),
                id=number,
                roles=roles_of(static),
                static=static,
                log_dirs=dirs_of(static),
                count=0,
                owner=owner,
            )
        )
    if not is_used:
        container = _Container(
            name=name, image="", variables=_variables_of(data), place=reader.place(data), is_complete=False, count=0
        )
        brokers.append(_broker(reader, container, _scope_of(namespace), None, owner))
        connectors.append(_debezium(reader, replace(container, is_complete=True), None, owner))
    return _pieces(brokers, connectors)


def _read_kubernetes(document: Document, roots: tuple[Node, ...]) -> Pieces:
    reader = DocumentReader(document)
    resources = list(resources_in(roots))
    config_maps = _ConfigMaps.of(document.roots)
    parts = [_read_workload(reader, root, config_maps) for root in resources]
    for root in resources:
        data = _data(root)
        if data is not None:
            parts.append(_read_config_map(reader, root, data, _name_of(root) in config_maps.used))
    return with_accepted(document, resources, [*parts, Pieces(problems=tuple(reader.problems))])


KUBERNETES_KIND = FileKind(
    name="kubernetes",
    about="workloads that run Kafka, by their environment, and ConfigMaps with the properties of brokers",
    formats=("yaml", "json"),
    recognise=_is_kubernetes,
    read=_read_kubernetes,
)

_BLOCKS = ("config", "extraConfig", "configuration")
_OVERRIDES = ("overrideConfiguration", "configurationOverrides", "extraConfigYaml")
_SECTIONS = ("controller", "broker", "kafka", "cp-kafka")
"""Parts of values that have settings of their own, and the names under which a chart is part of another."""
MOST_SECTIONS = 50


def _sections(root: Node) -> Iterator[Mapping]:
    """The mappings of values that may hold settings of brokers."""
    waiting = [root]
    for _ in range(MOST_SECTIONS):
        if not waiting:
            return
        node = waiting.pop(0)
        if isinstance(node, Mapping):
            yield node
            waiting += [found for key in _SECTIONS if (found := node.mapping(key)) is not None]


def _chart_settings(reader: DocumentReader, section: Mapping) -> dict[str, DeclaredValue]:
    found: dict[str, DeclaredValue] = {}
    for key in _BLOCKS:
        block = section.get(key)
        if isinstance(block, Scalar) and "=" in block.text:
            found |= properties_in(reader, block)
    for key in _OVERRIDES:
        overrides = section.mapping(key)
        if overrides is not None and all(isinstance(entry.value, Scalar) for entry in overrides.entries.values()):
            found |= reader.configs(overrides, ValueSource.STATIC)
    return found


def _chart_topics(section: Mapping) -> list[Mapping]:
    provisioning = section.mapping("provisioning")
    topics = provisioning.sequence("topics") if provisioning is not None else ()
    found = [item for item in topics if isinstance(item, Mapping) and "name" in item.entries]
    return [item for item in found if "partitions" in item.entries or "replicationFactor" in item.entries]


def _is_values(root: Node) -> bool:
    if not isinstance(root, Mapping) or "apiVersion" in root.entries:
        return False
    reader = DocumentReader(Document("", "", "yaml"))  # for the keys, whose places do not matter
    return any(
        are_node_keys(_chart_settings(reader, section).keys()) or _chart_topics(section) for section in _sections(root)
    )


def _read_values(document: Document, root: Mapping) -> Pieces:
    reader = DocumentReader(document)
    brokers, topics = [], []
    image: str | None = None
    for section in _sections(root):
        named = section.mapping("image")
        if named is not None and named.text("repository"):
            image = f"{named.text('repository')}:{named.text('tag') or ''}"
        elif section.text("image") and section.text("imageTag"):
            image = f"{section.text('image')}:{section.text('imageTag')}"
        static = _chart_settings(reader, section)
        if static:
            rules = image_rules(image or "", ())
            brokers.append(
                BrokerPiece(
                    place=reader.place(section),
                    cluster=document.path,
                    node=NodeIdentity(id=None, scope=document.path),
                    roles=roles_of(static),
                    static=static,
                    version=version_of(image, rules) if image is not None and rules is not None else None,
                    count=0,
                    is_known=False,
                    is_partial=True,
                    in_container=True,
                )
            )
        topics += [_chart_topic(reader, item) for item in _chart_topics(section)]
    return Pieces(
        brokers=tuple(brokers) or (_unset(reader, root),),
        topics=tuple(topics),
        problems=tuple(reader.problems),
    )


def _unset(reader: DocumentReader, root: Mapping) -> BrokerPiece:
    path = reader.document.path
    node = NodeIdentity(id=None, scope=path)
    return BrokerPiece(place=reader.place(root), cluster=path, node=node, count=0, is_known=False, in_container=True)


def _chart_topic(reader: DocumentReader, node: Mapping) -> TopicPiece:
    factor = reader.integer(node, "replicationFactor", -1)
    return TopicPiece(
        name=reader.text(node, "name") or "without name",
        place=reader.place(node),
        cluster=reader.document.path,
        configs=reader.configs(reader.mapping(node, "config"), ValueSource.TOPIC),
        partitions=reader.integer(node, "partitions", 1),
        replication_factor=factor if factor != -1 else None,
    )


HELM_KIND = FileKind(
    name="helm-values",
    about="values of Helm charts for Kafka: settings of brokers, and topics to be provisioned",
    formats=("yaml", "json"),
    recognise=_is_values,
    read=of_each(_read_values),
)
