"""Kafka's configuration definitions by minor version, and what changed between versions.

Types, ranges, defaults, synonyms and deprecations come from the tables `tables/kafka-MINOR.json`, generated from the
jars' own `ConfigDef` (`make config-tables`); a test compares them with the `DescribeConfigs` of real brokers. Which
keys were added and removed, and which defaults changed, is read off these tables. Written here is only what they cannot
tell: keys that were removed before the first table, what took a key's place, and which unknown keys belong to plugins.
"""

import json
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

from kafkakit.core.errors import UsageError

MINORS = ("2.8", "3.0", "3.3", "3.5", "3.6", "3.7", "3.8", "3.9", "4.0", "4.1", "4.2", "4.3", "4.4")
NEWEST = MINORS[-1]
WITHOUT_ZOOKEEPER = (4, 0)
"""The first version, as numbers, that runs without ZooKeeper only."""
_LAST_MINORS = {2: 8, 3: 9}


class ValueType(StrEnum):
    """Kafka's `ConfigDef.Type`."""

    BOOLEAN = "boolean"
    STRING = "string"
    INT = "int"
    SHORT = "short"
    LONG = "long"
    DOUBLE = "double"
    LIST = "list"
    CLASS = "class"
    PASSWORD = "password"


class KeyScope(StrEnum):
    """What a key configures."""

    TOPIC = "topic"
    BROKER = "broker"


class UpdateMode(StrEnum):
    """How a broker key may be changed while the broker runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDef:
    """One key of one version.

    `default` is the text that `DescribeConfigs` shows, None for null. `minimum` and `maximum` are inclusive;
    `one_of` holds the accepted texts (of each item, for a list). `rules` name what these do not describe:
    `required` (no default), `any-case` and `or-minus-one` (accepted besides), `non-empty`, `non-null`,
    `no-duplicates`, `non-empty-list`, `throttled-replicas`, `metadata-version`, `quorum-voters`,
    `quorum-bootstrap-servers`, and `dynamic-only` for a broker key that stands in no file.
    `synonyms` are the broker keys that a topic key inherits from, strongest first.
    """

    name: str
    scope: KeyScope
    type: ValueType
    default: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    one_of: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    update_mode: UpdateMode = UpdateMode.READ_ONLY
    synonyms: tuple[str, ...] = ()
    deprecated: bool = False
    internal: bool = False

    @property
    def values(self) -> tuple[str, ...]:
        """The texts that it accepts, where they can be listed."""
        return ("false", "true") if self.type is ValueType.BOOLEAN else self.one_of

    @property
    def is_sensitive(self) -> bool:
        """True when the value is a secret and is printed nowhere."""
        return self.type is ValueType.PASSWORD


@dataclass(frozen=True, slots=True)
class ConfigTable:
    """All keys of one minor version, by scope and name."""

    version: str
    topic: Mapping[str, ConfigDef]
    broker: Mapping[str, ConfigDef]

    def find(self, scope: KeyScope, name: str) -> ConfigDef | None:
        """The definition of a key, or None."""
        return (self.topic if scope is KeyScope.TOPIC else self.broker).get(name)


@cache
def config_table(minor: str) -> ConfigTable:
    """The table of a minor version (`4.3`); `UsageError` for one that is not known.

    Reads about 40 kB once for each version.
    """
    if minor not in MINORS:
        raise UsageError(f"no configuration table for Kafka {minor!r:.40}", hint=f"known: {', '.join(MINORS)}")
    document = _read_table(f"kafka-{minor}", f"the configuration table of Kafka {minor}")
    return ConfigTable(
        version=minor,
        topic=MappingProxyType({d["name"]: _definition(d, KeyScope.TOPIC) for d in document["topic"]}),
        broker=MappingProxyType({d["name"]: _definition(d, KeyScope.BROKER) for d in document["broker"]}),
    )


def _read_table(name: str, what: str) -> Any:
    data = pkgutil.get_data("kafkakit.rules", f"tables/{name}.json")
    if data is None:  # a package without its data files
        raise UsageError(f"{what} is missing from this installation")
    return json.loads(data)


@cache
def connect_keys() -> Mapping[str, frozenset[str]]:
    """The keys of Connect's workers, of the connectors that come with Kafka, and of clients, by the class's name."""
    found: dict[str, list[str]] = _read_table("connect", "the table of Connect's keys")["keys"]
    return MappingProxyType({name: frozenset(keys) for name, keys in found.items()})


class ConnectorKey(NamedTuple):
    """What a connector of Debezium takes for a key: one of a few words, or a whole number from the `least` on."""

    one_of: tuple[str, ...] = ()
    least: int | None = None


@cache
def debezium_keys() -> Mapping[str, Mapping[str, ConnectorKey]]:
    """The keys of Debezium's connectors by the class's name, and by key what is checked of its value."""
    found = _read_table("debezium", "the table of Debezium's keys")["keys"]
    return {
        name: {key: ConnectorKey(_texts(said.get("one_of")), said.get("least")) for key, said in keys.items()}
        for name, keys in found.items()
    }


def minor_of(version: str) -> str:
    """The table to use for a version, as `minor_or_none`; raises `UsageError` for a text that is no version."""
    minor = minor_or_none(version)
    if minor is None:
        raise UsageError(f"{version!r:.40} is not a Kafka version", hint="give it like 3.9, 4.0.1 or 4.3")
    return minor


def minor_or_none(version: str) -> str | None:
    """The table to use for a version: its own minor, else the nearest older one, else the oldest; None for others."""
    stated = stated_minor(version)
    if stated is None:
        return None
    older = [m for m in MINORS if minor_key(m) <= minor_key(stated)]
    return older[-1] if older else MINORS[0]


def stated_minor(version: str) -> str | None:
    """The minor version that a text states, which may have no table; None for a text that is no version."""
    first, _, _ = version.strip().partition(" ")  # a client may only know "4.3 or later"
    parts = first.removeprefix("v").split("-")[0].split(".")
    if len(parts) < 2 or not all(part.isdecimal() and len(part) < 4 for part in parts[:2]):
        return None
    return f"{int(parts[0])}.{int(parts[1])}"


def minor_key(minor: str) -> tuple[int, int]:
    """A minor version as numbers, for comparing."""
    major, _, rest = minor.partition(".")
    return int(major), int(rest)


def _definition(data: Mapping[str, object], scope: KeyScope) -> ConfigDef:
    given = dict(data)
    return ConfigDef(
        name=str(given["name"]),
        scope=scope,
        type=ValueType(str(given["type"])),
        default=_text(given.get("default")),
        minimum=_number(given.get("minimum")),
        maximum=_number(given.get("maximum")),
        one_of=_texts(given.get("one_of")),
        rules=_texts(given.get("rules")),
        update_mode=UpdateMode(str(given.get("update_mode", "read-only"))),
        synonyms=_texts(given.get("synonyms")),
        deprecated=bool(given.get("deprecated", False)),
        internal=bool(given.get("internal", False)),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


# Removed before the first table: in which version (Kafka's upgrade notes).
_REMOVED_EARLIER = {"log.cleaner.min.cleanable.dirty.ratio": "0.9"}

# What took the place of a key that was removed or is deprecated; an empty text where the answer is no key.
_REPLACED = {
    "advertised.host.name": ("advertised.listeners",),
    "advertised.port": ("advertised.listeners",),
    "host.name": ("listeners",),
    "port": ("listeners",),
    "delegation.token.master.key": ("delegation.token.secret.key",),
    "message.timestamp.difference.max.ms": ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms"),
    "log.message.timestamp.difference.max.ms": (
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.after.max.ms",
    ),
    "auto.include.jmx.reporter": ("metric.reporters",),
    "group.coordinator.new.enable": ("group.coordinator.rebalance.protocols",),
    "metadata.log.segment.min.bytes": ("internal.metadata.log.segment.bytes",),
    "remote.log.manager.thread.pool.size": ("remote.log.manager.follower.thread.pool.size",),
    "broker.id": ("node.id",),
}

# What took their place is written in another form, so that no value can be handed on.
_OTHER_FORM = frozenset({"advertised.host.name", "advertised.port", "host.name", "port"})

# Keys of ZooKeeper mode that KKQ855 reports.
_ZOOKEEPER = ("zookeeper.",)
_ZOOKEEPER_KEYS = frozenset({"inter.broker.protocol.version", "control.plane.listener.name"})

# Kafka hands every key to plugins; these name plugins that are in wide use.
_PLUGIN_PREFIXES = (
    "confluent.", "config.providers.", "cruise.control.", "kafka.metrics.", "client.quota.callback.", "metrics.",
    "opa.authorizer.", "ranger.", "xasecure.", "strimzi.", "oauth.", "rsm.config.", "rlmm.config.", "telemetry.",
    "remote.log.storage.manager.impl.", "remote.log.metadata.", "authorizer.", "azure.", "aws.", "io.", "com.", "org.",
    # Confluent Server; Strimzi's reporter; AutoMQ; other reporters and stores of tiered storage.
    "ldap.", "kafka.rest.", "event.logger.", "rest.", "security.event.", "schema.registry.", "prometheus.", "automq.",
    "elasticstream.", "s3.", "autobalancer.", "table.topic.", "gcs.", "gcp.", "graphite.", "statsd.", "datadog.",
    "opentelemetry.", "otel.", "kminion.", "aiven.",
)  # fmt: skip
_PLUGIN_KEYS = frozenset(
    {"enable.fips", "super.users", "allow.everyone.if.no.acl.found", "external.metric.reporters", "config.providers"}
)

# Defaults that are written otherwise but mean the same.
_SAME_MEANING = frozenset(
    {"group.consumer.assignors", "group.share.assignors", "metric.reporters", "process.roles", "node.id",
     "controller.listener.names", "listeners", "listener.security.protocol.map", "principal.builder.class",
     "remote.log.metadata.manager.class.name", "remote.log.metadata.manager.impl.prefix",
     "remote.log.storage.manager.impl.prefix", "log.message.format.version"}
)  # fmt: skip


class DefaultChange(NamedTuple):
    """A default that another version has otherwise; `since` is the first minor version that has the new one."""

    key: str
    before: str
    after: str
    since: str


@cache
def removed_in(scope: KeyScope, key: str, minor: str) -> str | None:
    """The version up to `minor` that no longer has a key which an older one had, or None."""
    if scope is KeyScope.BROKER and key in _REMOVED_EARLIER:
        return _REMOVED_EARLIER[key]
    if config_table(minor).find(scope, key) is not None or added_in(scope, key) is None:
        return None
    if _next_with(scope, key, minor) is not None:
        return None
    for older, newer in pairwise(MINORS):
        had = config_table(older).find(scope, key) is not None
        if had and config_table(newer).find(scope, key) is None and minor_key(newer) <= minor_key(minor):
            return newer
    return None


@cache
def added_in(scope: KeyScope, key: str) -> str | None:
    """The first version with a table that has the key, or None."""
    return next((m for m in MINORS if config_table(m).find(scope, key) is not None), None)


def _next_with(scope: KeyScope, key: str, minor: str) -> str | None:
    newer = (m for m in MINORS if minor_key(m) > minor_key(minor))
    return next((m for m in newer if config_table(m).find(scope, key) is not None), None)


def replacements(key: str) -> tuple[str, ...]:
    """The keys that took a key's place; none where there are none."""
    return _REPLACED.get(key, ())


def keeps_form(key: str) -> bool:
    """True if what took a key's place takes its value as it is written."""
    return key not in _OTHER_FORM


def is_zookeeper_key(key: str) -> bool:
    """True for keys of ZooKeeper mode, which a rule of their own reports."""
    return key.startswith(_ZOOKEEPER) or key in _ZOOKEEPER_KEYS


def is_gone(scope: KeyScope, key: str, minor: str) -> bool:
    """True for a key that an older version read and this one does not, those of ZooKeeper mode included."""
    is_of_zookeeper = scope is KeyScope.BROKER and is_zookeeper_key(key) and minor_key(minor) >= WITHOUT_ZOOKEEPER
    return is_of_zookeeper or removed_in(scope, key, minor) is not None


def minors_between(older: str, newer: str) -> int:
    """How many minor versions Kafka went on from one to another, those without a table included."""
    return _ordinal(newer) - _ordinal(older)


def _ordinal(minor: str) -> int:
    major, rest = minor_key(minor)
    return rest + sum(last + 1 for version, last in _LAST_MINORS.items() if version < major)


def is_plugin_key(key: str) -> bool:
    """True for a broker key that Kafka does not define but a plugin may read."""
    return key.startswith(_PLUGIN_PREFIXES) or key in _PLUGIN_KEYS


@cache
def nearest_key(scope: KeyScope, key: str, minor: str) -> str | None:
    """The key that was probably meant: the other scope's name of the same setting, else the most similar name."""
    table = config_table(minor)
    if scope is KeyScope.BROKER and key in table.topic and table.topic[key].synonyms:
        return table.topic[key].synonyms[0]
    if scope is KeyScope.TOPIC:
        for definition in table.topic.values():
            if key in definition.synonyms:
                return definition.name
    from difflib import get_close_matches

    names = [d.name for d in (table.topic if scope is KeyScope.TOPIC else table.broker).values() if not d.internal]
    found = get_close_matches(key.strip().lower().replace("_", ".").replace("-", "."), names, 1, 0.8)
    return found[0] if found else None


@cache
def default_changes(running: str, target: str) -> tuple[DefaultChange, ...]:
    """The broker keys whose default differs between two versions, in the order of the newer table."""
    return tuple(_default_changes(running, target))


def _default_changes(running: str, target: str) -> Iterator[DefaultChange]:
    old, new = config_table(running).broker, config_table(target).broker
    between = [m for m in MINORS if minor_key(running) < minor_key(m) <= minor_key(target)]
    for key, definition in new.items():
        before = old.get(key)
        if before is None or definition.internal or key in _SAME_MEANING:
            continue
        if (before.default or "") == (definition.default or ""):
            continue
        since = next((m for m in between if _default(m, key) == definition.default), target)
        yield DefaultChange(key, before.default or "", definition.default or "", since)


def _default(minor: str, key: str) -> str | None:
    definition = config_table(minor).broker.get(key)
    return definition.default if definition is not None else None
