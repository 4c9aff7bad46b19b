"""Ansible: inventories, variables of groups, hosts and roles, playbooks and tasks, as far as they configure Kafka.

Nothing tells a role's variables from those of another but their names, so three shapes are read: a mapping (or a text,
or a list) of settings as Kafka calls them, as in cp-ansible's `kafka_broker_custom_properties`; variables that are
called like one setting (`kafka_log_retention_hours`); and lists of topics. Of brokers they are a part of the settings:
the role's template sets others. In an inventory each host has what its groups and itself set; every other file stands
for itself.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from kafkakit.core.yaml_json import Document, MappingEntry, Node, Scalar, Sequence
from kafkakit.core.yaml_json import Mapping as MappingNode
from kafkakit.lint.decide.kinds.containers import confluent_to_kafka
from kafkakit.lint.decide.kinds.kafka_tools import are_node_keys
from kafkakit.lint.decide.kinds.kind import (
    DocumentReader,
    FileKind,
    dirs_of,
    node_id_of,
    properties_in,
    roles_of,
    without_secret,
)
from kafkakit.lint.decide.membership import NodeIdentity, node_identity
from kafkakit.lint.decide.pieces import BrokerPiece, Pieces, TopicPiece
from kafkakit.rules.config_defs import NEWEST, config_table, minor_or_none
from kafkakit.rules.effective import Configs, DeclaredValue, ValueSource, to_int
from kafkakit.rules.values import holds_placeholder

_OF_BROKERS = re.compile(r"(?:^|_)(?:kafka|brokers?|controllers?|kraft)(?:_|$)")
_OF_OTHERS = re.compile(
    r"(?:^|_)(?:connect|schema|ksql|control_center|consumer|producer|client|mirror|replicator|exporter|zookeeper|admin"
    r"|streams|environment|cruise|manager|monitor|filebeat|telegraf|log4j|(?:rest|ui|env|jaas|opts|topics?)(?:_|$))"
)
"""Names of variables that configure other programs around Kafka."""
_SURE_NAMES = re.compile(r"kafka_(?:broker|controller)_custom_properties")
_ID_NAMES = ("broker_id", "node_id", "kafka_broker_id", "kafka_node_id", "kafka_id")
_VERSION_NAMES = ("kafka_version", "confluent_package_version", "confluent_repo_version")
_OUTER_NAMES = ("kafka", "kafka_config", "kafka_broker", "kafka_server")
_TOPIC_NAMES = re.compile(r"(?:\w+_)?topics")
_TOPIC_MODULES = re.compile(r"(?:[\w.]+\.)?kafka_(?:topics?|lib)")
_PARTITIONS = ("partitions", "num_partitions", "partition_count", "partitions_count")
_REPLICAS = ("replication_factor", "replica_factor", "replicas", "replication", "replicationFactor")
_CONFIGS = ("config", "configs", "options", "properties", "settings", "topic_config")
_BLOCKS = ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always")
_GROUP_KEYS = frozenset({"hosts", "vars", "children"})
_NO_SETTING = frozenset({"log.dir", "broker.id", "node.id"})
"""Roles call the folder of the program's own log like the first, and the others differ by host."""
_YES, _NO = frozenset({"yes", "on", "y"}), frozenset({"no", "off", "n"})
_GROUPED = re.compile(r"[+-]?\d+(?:_\d+)+")
_FLAT_NAMES = 2
"""So many variables that are called like settings make a file one of a role for Kafka."""
_RANGE = "["
MOST_LEVELS = 20


@dataclass(slots=True, kw_only=True)
class _Host:
    """A host of an inventory with what its groups and itself set, and the last group that it stands in."""

    name: str
    group: str
    variables: dict[str, MappingEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """The settings that some variables give brokers or controllers, and what else they tell of the node."""

    static: dict[str, DeclaredValue] = field(default_factory=dict)
    version: str | None = None
    id: int | None = None


@cache
def _by_name() -> Mapping[str, str]:
    """The settings of brokers by the names that roles give their variables."""
    keys = config_table("3.9").broker.keys() | config_table(NEWEST).broker.keys()
    return {f"kafka_{key.replace('.', '_').replace('-', '_')}": key for key in keys - _NO_SETTING}


def _is_inventory(root: Node) -> bool:
    groups = [entry.value for entry in root.entries.values()] if isinstance(root, MappingNode) else []
    known = [group for group in groups if isinstance(group, MappingNode)]
    return (
        bool(known)
        and all(group.entries.keys() <= _GROUP_KEYS for group in known)
        and all(isinstance(group, MappingNode) or group.is_null for group in groups if not isinstance(group, Sequence))
        and any(isinstance(group.get(key), MappingNode) for group in known for key in _GROUP_KEYS)
    )


def _is_play(item: Node) -> bool:
    return isinstance(item, MappingNode) and (
        not item.entries.keys().isdisjoint(("hosts", "import_playbook", "roles", *_BLOCKS)) or bool(_modules(item))
    )


def _modules(task: MappingNode) -> list[tuple[str, MappingNode]]:
    """The calls of modules for topics in a task, each with the module's name."""
    return [
        (name, entry.value)
        for name, entry in task.entries.items()
        if isinstance(entry.value, MappingNode) and _TOPIC_MODULES.fullmatch(name)
    ]


def _tasks(items: Iterable[Node], level: int = 0) -> Iterator[MappingNode]:
    """Every play, task and block below a list, without those of imported files."""
    for item in items if level < MOST_LEVELS else ():
        if isinstance(item, MappingNode):
            yield item
            for key in _BLOCKS:
                yield from _tasks(item.sequence(key), level + 1)


def _scopes(root: Node) -> Iterator[MappingNode]:
    """The mappings of variables of a file that is not an inventory."""
    if isinstance(root, MappingNode):
        yield root
        return
    for task in _tasks(root.items if isinstance(root, Sequence) else ()):
        for key in ("vars", "set_fact", "ansible.builtin.set_fact"):
            found = task.mapping(key)
            if found is not None:
                yield found
        for role in task.sequence("roles"):
            if isinstance(role, MappingNode):
                yield role
                yield from (found for found in (role.mapping("vars"),) if found is not None)


def _hosts(root: MappingNode) -> list[_Host]:
    """The hosts of an inventory; what a group sets counts wherever the group stands."""
    of_groups: dict[str, dict[str, MappingEntry]] = {}
    found: list[tuple[tuple[str, ...], str, MappingNode | None]] = []
    waiting: list[tuple[tuple[str, ...], Node]] = [((n,), entry.value) for n, entry in reversed(root.entries.items())]
    while waiting:
        path, group = waiting.pop()
        if not isinstance(group, MappingNode) or len(path) > MOST_LEVELS:
            continue
        variables = group.mapping("vars")
        if variables is not None:
            of_groups.setdefault(path[-1], {}).update(variables.entries)
        hosts, children = group.mapping("hosts"), group.mapping("children")
        for name, entry in hosts.entries.items() if hosts is not None else ():
            found.append((path, name, entry.value if isinstance(entry.value, MappingNode) else None))
        if children is not None:
            waiting += [((*path, name), entry.value) for name, entry in reversed(children.entries.items())]
    hosts_found = []
    for path, name, own in found:
        variables_of: dict[str, MappingEntry] = {}
        for group_name in dict.fromkeys(("all", *path)):
            variables_of |= of_groups.get(group_name, {})
        hosts_found.append(
            _Host(name=name, group=path[-1], variables={**variables_of, **(own.entries if own is not None else {})})
        )
    return hosts_found


def _runs_kafka(host: _Host) -> bool:
    return bool(_OF_BROKERS.search(host.group.lower().replace("-", "_"))) and not _OF_OTHERS.search(host.group.lower())


def _blocks(
    variables: Mapping[str, MappingEntry], name: str = "", level: int = 0
) -> Iterator[tuple[str, MappingNode | Sequence | Scalar]]:
    """The values that hold settings of brokers by their names, with those names; of mappings in mappings the inner."""
    for key, entry in variables.items():
        full = f"{name}_{key}" if name else key
        if not _OF_BROKERS.search(full) or _OF_OTHERS.search(full):
            continue
        value = entry.value
        if isinstance(value, MappingNode):
            if _SURE_NAMES.fullmatch(full) or are_node_keys(_dotted_keys(value)):
                yield full, value
            elif level < MOST_LEVELS:
                yield from _blocks(value.entries, full, level + 1)
        elif isinstance(value, Sequence):
            if are_node_keys(_listed_settings(value)):
                yield full, value
        elif "=" in value.text and "\n" in value.text:
            yield full, value


def _dotted_keys(node: MappingNode) -> frozenset[str]:
    """The keys that settings of Kafka may have, which are no names of variables."""
    return frozenset(key for key in node.entries if "." in key or key == "listeners")


def _listed_settings(node: Sequence) -> dict[str, tuple[Scalar, str]]:
    """The settings of a list of texts `KEY=VALUE`, or of mappings with a name or key, and a value."""
    found: dict[str, tuple[Scalar, str]] = {}
    for item in node.items:
        if isinstance(item, Scalar):
            key, equals, text = item.text.partition("=")
            if equals and key.strip():
                found[key.strip()] = (item, text.strip())
        elif isinstance(item, MappingNode):
            name = item.get("name") or item.get("key") or item.get("option")
            value = item.get("value")
            if isinstance(name, Scalar) and isinstance(value, Scalar):
                found[name.text] = (name, _plain_text(value))
    return found


def _plain_text(value: Scalar) -> str:
    """The text as Ansible's YAML makes it: words for true and false, and numbers with grouped digits."""
    if value.is_plain:
        lowered = value.text.lower()
        if lowered in _YES or lowered in _NO:
            return "true" if lowered in _YES else "false"
        if _GROUPED.fullmatch(value.text):
            return value.text.replace("_", "")
    return value.text


def _block_settings(reader: DocumentReader, value: MappingNode | Sequence | Scalar, is_sure: bool) -> Configs:
    if isinstance(value, Scalar):
        found = properties_in(reader, value)
        return found if are_node_keys(found) else {}
    if isinstance(value, Sequence):
        return {
            key: DeclaredValue(without_secret(key, text), ValueSource.STATIC, reader.place(node))
            for key, (node, text) in _listed_settings(value).items()
        }
    wanted = value.entries.keys() if is_sure else _dotted_keys(value)
    entries = {
        key: MappingEntry(at, found._replace(text=_plain_text(found)) if isinstance(found, Scalar) else found)
        for key, (at, found) in value.entries.items()
        if key in wanted and not isinstance(found, MappingNode)
    }
    return reader.configs(MappingNode(entries, value.start), ValueSource.STATIC)


def _flat_settings(variables: Mapping[str, MappingEntry]) -> dict[str, tuple[str, MappingEntry]]:
    """The variables that are called like a setting and have one value, by the setting."""
    if not any(name.startswith("kafka_") for name in variables):
        return {}
    names = _by_name()
    return {
        names[name]: (name, entry)
        for name, entry in variables.items()
        if name in names
        and (
            (isinstance(entry.value, Scalar) and not entry.value.is_null and entry.value.text)
            or (
                isinstance(entry.value, Sequence)
                and entry.value.items
                and all(isinstance(item, Scalar) for item in entry.value.items)
            )
        )
    }


def _with_inner(variables: Mapping[str, MappingEntry]) -> Mapping[str, MappingEntry]:
    """The variables, and those of a mapping called after Kafka under the names that they would have on their own."""
    found = dict(variables)
    for outer in _OUTER_NAMES:
        inner = variables.get(outer)
        if inner is not None and isinstance(inner.value, MappingNode):
            for name, entry in inner.value.entries.items():
                found.setdefault(f"kafka_{name}", entry)
    return found


def _settings(
    reader: DocumentReader, variables: Mapping[str, MappingEntry], *, of_controllers: bool, least_flat: int
) -> _Settings:
    static: dict[str, DeclaredValue] = {}
    named = _with_inner(variables)
    flat = _flat_settings(named) if least_flat else {}
    if are_node_keys(flat) and len(flat) >= least_flat:
        for key, (_, entry) in flat.items():
            value = entry.value
            plain = value._replace(text=_plain_text(value)) if isinstance(value, Scalar) else value
            static |= reader.configs(
                MappingNode({key: MappingEntry(entry.key, plain)}, entry.key.start), ValueSource.STATIC
            )
    for name, value in _blocks(variables):
        if ("controller" in name and "broker" not in name) == of_controllers:
            static |= _block_settings(reader, value, _SURE_NAMES.fullmatch(name) is not None)
    texts = {name: _text(named, name) for name in (*_ID_NAMES, *_VERSION_NAMES)}
    numbers = (to_int(texts[name] or "") for name in _ID_NAMES)
    number = node_id_of(static)
    return _Settings(
        static=static,
        id=number if number is not None else next((n for n in numbers if n is not None and n >= 0), None),
        version=_version(texts),
    )


def _text(variables: Mapping[str, MappingEntry], name: str) -> str | None:
    found = variables.get(name)
    return found.value.text if found is not None and isinstance(found.value, Scalar) else None


def _version(texts: Mapping[str, str | None]) -> str | None:
    own = texts["kafka_version"]
    if own is not None and minor_or_none(own) is not None:
        return own
    of_platform = texts["confluent_package_version"] or texts["confluent_repo_version"]
    return confluent_to_kafka(of_platform) if of_platform is not None else None


def _piece(document: Document, node: MappingNode, found: _Settings, *, is_controller: bool) -> BrokerPiece:
    first = next(iter(found.static.values())).place
    roles = roles_of(found.static)
    return BrokerPiece(
        place=first or document.place(node.start),
        node=NodeIdentity(id=None) if found.id is None else node_identity(found.id, found.static),
        id=found.id,
        rack=found.static["broker.rack"].text or None if "broker.rack" in found.static else None,
        roles=("controller",) if is_controller and "process.roles" not in found.static else roles,
        static=found.static,
        log_dirs=dirs_of(found.static),
        version=found.version,
        has_nearest_version=True,
        count=0,
        is_known=False,
        is_partial=True,
    )


def _of_variables(reader: DocumentReader, scope: MappingNode) -> Iterator[BrokerPiece]:
    for of_controllers in (False, True):
        # What is called like a setting is the brokers': a file of variables is seldom one of controllers alone.
        found = _settings(reader, scope.entries, of_controllers=of_controllers, least_flat=0 if of_controllers else 1)
        if found.static:
            yield _piece(reader.document, scope, found, is_controller=of_controllers)


def _of_inventory(reader: DocumentReader, root: MappingNode) -> list[BrokerPiece]:
    """The nodes of an inventory: a piece for each that has an id, and one for all those that have the same settings."""
    found: list[BrokerPiece] = []
    path = reader.document.path
    for host in _hosts(root):
        if not _runs_kafka(host):
            continue
        of_controllers = "controller" in host.group and "broker" not in host.group
        settings = _settings(reader, host.variables, of_controllers=of_controllers, least_flat=1)
        if not settings.static:
            continue
        piece = replace(
            _piece(reader.document, root, settings, is_controller=of_controllers),
            cluster=path,
            node=NodeIdentity(id=settings.id, scope=path, spot=host.name),
            count=0 if _RANGE in host.name else 1,
        )
        same = next((n for n, other in enumerate(found) if settings.id is None and _are_alike(other, piece)), None)
        if same is None:
            found.append(piece)
        else:
            count = found[same].count + piece.count if found[same].count and piece.count else 0
            found[same] = replace(found[same], count=count)
    return found


def _are_alike(one: BrokerPiece, other: BrokerPiece) -> bool:
    return one.id is None and one.roles == other.roles and one.static == other.static


def _is_topic(item: Node) -> bool:
    return (
        isinstance(item, MappingNode)
        and isinstance(item.get("name") or item.get("topic"), Scalar)
        and any(key in item.entries for key in _PARTITIONS)
    )


def _topic_lists(root: Node) -> Iterator[Node]:
    """The items of the lists of topics among variables, and what tasks give modules for topics."""
    for scope in _scopes(root):
        for name, entry in scope.entries.items():
            if not _TOPIC_NAMES.fullmatch(name):
                continue
            if isinstance(entry.value, Sequence):
                yield from entry.value.items
            elif isinstance(entry.value, MappingNode):
                yield from (_name_topic(key, item.value) for key, item in entry.value.entries.items())
    for task in _tasks(root.items if isinstance(root, Sequence) else ()):
        for name, arguments in _modules(task):
            if name.endswith("kafka_lib") and arguments.text("resource") != "topic":
                continue
            yield from arguments.sequence("topics") or (arguments,)


def _name_topic(name: str, node: Node) -> Node:
    """A topic of a mapping of topics by name, with that name as a field."""
    if not isinstance(node, MappingNode) or "name" in node.entries:
        return node
    at = Scalar(name, node.start, node.start)
    return MappingNode({"name": MappingEntry(at, at), **node.entries}, node.start, node.is_flow)


def _topics(reader: DocumentReader, root: Node, cluster: str | None) -> Iterator[TopicPiece]:
    for item in _topic_lists(root):
        if not isinstance(item, MappingNode) or not _is_topic(item) or item.text("state") == "absent":
            continue
        name = item.text("name") or item.text("topic") or ""
        configs: dict[str, DeclaredValue] = {}
        for key in _CONFIGS:
            found = item.get(key)
            if isinstance(found, MappingNode):
                configs |= {
                    setting.replace("_", "."): declared
                    for setting, declared in reader.configs(found, ValueSource.TOPIC).items()
                }
        own = {key: entry for key, entry in item.entries.items() if _is_topic_setting(key)}
        configs |= {
            key.replace("_", "."): declared
            for key, declared in reader.configs(MappingNode(own, item.start), ValueSource.TOPIC).items()
        }
        yield TopicPiece(
            name=name,
            place=reader.place(item),
            cluster=cluster,
            configs=configs,
            partitions=_number(reader, item, _PARTITIONS),
            replication_factor=_number(reader, item, _REPLICAS),
            owner=item.text("owner") or item.text("team"),
        )


def _is_topic_setting(name: str) -> bool:
    return ("_" in name or "." in name) and name.replace("_", ".") in config_table(NEWEST).topic


def _number(reader: DocumentReader, node: MappingNode, keys: Iterable[str]) -> int | None:
    key = next((key for key in keys if key in node.entries), None)
    text = node.text(key) if key is not None else None
    if key is None or text is None or holds_placeholder(text) or text == "-1":
        return None
    return reader.integer(node, key, 1)


def _configures(root: Node, least_flat: int) -> bool:
    """True where variables give settings of brokers, or tasks and lists topics."""
    reader = DocumentReader(Document("", "", "yaml"))  # for the keys, whose places do not matter
    if isinstance(root, MappingNode) and _is_inventory(root):
        return any(
            _runs_kafka(host)
            and (
                _settings(reader, host.variables, of_controllers=False, least_flat=1).static
                or _settings(reader, host.variables, of_controllers=True, least_flat=1).static
            )
            for host in _hosts(root)
        )
    for scope in _scopes(root):
        for of_controllers in (False, True):
            if _settings(reader, scope.entries, of_controllers=of_controllers, least_flat=least_flat).static:
                return True
    return False


def _is_ansible(root: Node) -> bool:
    if isinstance(root, Sequence):
        items = root.items
        return any(_is_play(item) for item in items) and (
            _configures(root, 1) or any(_is_topic(item) for item in _topic_lists(root))
        )
    if not isinstance(root, MappingNode) or not root.entries.keys().isdisjoint(("apiVersion", "services", "kafkakit")):
        return False
    return _configures(root, _FLAT_NAMES)


def _may_be(root: Node) -> bool:
    return isinstance(root, MappingNode) and (
        _configures(root, 1) or any(_is_topic(item) for item in _topic_lists(root))
    )


def _read(document: Document, roots: tuple[Node, ...]) -> Pieces:
    reader = DocumentReader(document)
    brokers: list[BrokerPiece] = []
    topics: list[TopicPiece] = []
    for root in roots:
        if isinstance(root, MappingNode) and _is_inventory(root):
            brokers += _of_inventory(reader, root)
        else:
            for scope in _scopes(root):
                brokers += _of_variables(reader, scope)
            topics += _topics(reader, root, None)
    return Pieces(brokers=tuple(brokers), topics=tuple(topics), problems=tuple(reader.problems))


ANSIBLE_KIND = FileKind(
    name="ansible",
    about="Ansible: settings of brokers and lists of topics in inventories, variables, playbooks and tasks",
    formats=("yaml", "json"),
    recognise=_is_ansible,
    read=_read,
    patterns=("group_vars/*", "host_vars/*", "roles/*/defaults/*", "roles/*/vars/*"),
    may_be=_may_be,
)
