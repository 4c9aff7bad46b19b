"""What changed in Kafka's configuration between versions, beyond what the tables show by themselves.

Which keys were added and removed, and which defaults changed, is read off the tables of the minor versions; this
module adds what they cannot tell: keys that were removed before the first table, what took a key's place, and which
unknown keys belong to plugins.
"""

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from kafkakit.rules.config_defs import MINORS, Scope, config_table, minor_key

# Removed before the first table: in which version (Kafka's upgrade notes).
_REMOVED_EARLIER = {
    "advertised.host.name": "3.0",
    "advertised.port": "3.0",
    "host.name": "3.0",
    "port": "3.0",
    "quota.producer.default": "3.0",
    "quota.consumer.default": "3.0",
    "log.cleaner.min.cleanable.dirty.ratio": "0.9",
}

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

# Keys of ZooKeeper mode that KKQ855 reports.
_ZOOKEEPER = ("zookeeper.",)
_ZOOKEEPER_KEYS = frozenset({"inter.broker.protocol.version", "control.plane.listener.name"})

# Kafka hands every key to plugins; these name plugins that are in wide use.
_PLUGIN_PREFIXES = (
    "confluent.", "config.providers.", "cruise.control.", "kafka.metrics.", "client.quota.callback.", "metrics.",
    "opa.authorizer.", "ranger.", "xasecure.", "strimzi.", "oauth.", "rsm.config.", "rlmm.config.", "telemetry.",
    "remote.log.storage.manager.impl.", "remote.log.metadata.", "authorizer.", "azure.", "aws.", "io.", "com.", "org.",
)  # fmt: skip
_PLUGIN_KEYS = frozenset(
    {"super.users", "allow.everyone.if.no.acl.found", "external.metric.reporters", "config.providers"}
)

# Defaults that are written otherwise but mean the same.
_SAME_MEANING = frozenset(
    {"group.consumer.assignors", "group.share.assignors", "metric.reporters", "process.roles", "node.id",
     "controller.listener.names"}
)  # fmt: skip


class DefaultChange(NamedTuple):
    """A default that another version has otherwise; `since` is the first minor version that has the new one."""

    key: str
    before: str
    after: str
    since: str


@cache
def removed_in(scope: Scope, key: str, minor: str) -> str | None:
    """The version up to `minor` that no longer has a key which an older one had, or None."""
    if scope is Scope.BROKER and key in _REMOVED_EARLIER:
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
def added_in(scope: Scope, key: str) -> str | None:
    """The first version with a table that has the key, or None."""
    return next((m for m in MINORS if config_table(m).find(scope, key) is not None), None)


def _next_with(scope: Scope, key: str, minor: str) -> str | None:
    newer = (m for m in MINORS if minor_key(m) > minor_key(minor))
    return next((m for m in newer if config_table(m).find(scope, key) is not None), None)


def replacements(key: str) -> tuple[str, ...]:
    """The keys that took a key's place; none where there are none."""
    return _REPLACED.get(key, ())


def is_zookeeper_key(key: str) -> bool:
    """True for keys of ZooKeeper mode, which a rule of their own reports."""
    return key.startswith(_ZOOKEEPER) or key in _ZOOKEEPER_KEYS


def is_plugin_key(key: str) -> bool:
    """True for a broker key that Kafka does not define but a plugin may read."""
    return key.startswith(_PLUGIN_PREFIXES) or key in _PLUGIN_KEYS


@cache
def nearest_key(scope: Scope, key: str, minor: str) -> str | None:
    """The key that was probably meant: the other scope's name of the same setting, else the most similar name."""
    table = config_table(minor)
    if scope is Scope.BROKER and key in table.topic and table.topic[key].synonyms:
        return table.topic[key].synonyms[0]
    if scope is Scope.TOPIC:
        for definition in table.topic.values():
            if key in definition.synonyms:
                return definition.name
    from difflib import get_close_matches

    names = [d.name for d in (table.topic if scope is Scope.TOPIC else table.broker).values() if not d.internal]
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
