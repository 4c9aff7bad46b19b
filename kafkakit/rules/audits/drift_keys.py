"""Which settings are compared between brokers, clusters and days, and what makes two of their texts one value."""

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import NamedTuple

from kafkakit.rules.config_defs import MINORS, ConfigDef, ConfigTable, Scope, ValueType, config_table
from kafkakit.rules.effective import TIME_FORMS
from kafkakit.rules.families.drift_between import ALWAYS_OWN
from kafkakit.rules.secrets import looks_secret

PER_NODE = frozenset(
    {
        "node.id", "broker.id", "broker.id.generation.enable", "reserved.broker.max.id", "broker.rack", "process.roles",
        "listeners", "advertised.listeners", "host.name", "advertised.host.name", "port", "advertised.port", "log.dir",
        "log.dirs", "metadata.log.dir",
    }
)  # fmt: skip
"""Keys that every node has a value of its own for."""
PER_NODE_ENDINGS = (
    "keystore.location", "keystore.certificate.chain", "truststore.location", "truststore.certificates",
    ".replication.throttled.replicas", ".replication.throttled.rate",
)  # fmt: skip
PER_CLUSTER = frozenset(
    {
        "cluster.id", "zookeeper.connect", "controller.quorum.voters", "controller.quorum.bootstrap.servers",
        "early.start.listeners", "control.plane.listener.name",
    }
)  # fmt: skip
"""Keys that every cluster has a value of its own for; its brokers must agree on them."""
OWNED_BY = "owned-by:"
"""The label of a topic or cluster whose settings another program writes, before that program's name."""

_FORMS = {form: (name, rank, factor) for name, forms in TIME_FORMS.items() for rank, (form, factor) in enumerate(forms)}


class Form(StrEnum):
    """How the texts of one value may differ: in case, in how a number is written, in the order of a list."""

    BOOLEAN = "boolean"
    WHOLE = "whole"
    DOUBLE = "double"
    LIST = "list"
    TEXT = "text"


_FORM_OF = {
    ValueType.BOOLEAN: Form.BOOLEAN, ValueType.INT: Form.WHOLE, ValueType.SHORT: Form.WHOLE,
    ValueType.LONG: Form.WHOLE, ValueType.DOUBLE: Form.DOUBLE, ValueType.LIST: Form.LIST,
}  # fmt: skip


class ComparedKey(NamedTuple):
    """A key as it is compared.

    `name` is the key whose value it gives, `factor` what turns its number into that value; of several keys of one
    name the lowest `rank` decides. `is_per_node` keys are compared with other days alone.
    """

    key: str
    name: str
    form: Form
    rank: int = 0
    factor: int = 1
    is_per_node: bool = False
    is_per_cluster: bool = False


@cache
def compared_key(key: str) -> ComparedKey | None:
    """How a key is compared; None for one that may hold a secret, whose value is looked at nowhere."""
    definition = definition_of(key)
    if looks_secret(key) or (definition is not None and definition.is_sensitive):
        return None
    name, rank, factor = _FORMS.get(key, (key, 0, 1))
    return ComparedKey(
        key=key,
        name=name,
        form=Form.TEXT if definition is None else _FORM_OF.get(definition.type, Form.TEXT),
        rank=rank,
        factor=factor,
        is_per_node=key in PER_NODE or key in ALWAYS_OWN or key.endswith(PER_NODE_ENDINGS),
        is_per_cluster=key in PER_CLUSTER,
    )


@cache
def definition_of(key: str) -> ConfigDef | None:
    """The newest definition of a broker's or topic's key, without its listener's prefix; None for an unknown one."""
    if key.startswith("listener.name."):
        key = key.split(".", 3)[-1]
    for minor in reversed(MINORS):
        table = config_table(minor)
        found = table.find(Scope.BROKER, key) or table.find(Scope.TOPIC, key)
        if found is not None:
            return found
    return None


def table_with(key: str, minor: str) -> ConfigTable:
    """The table of a minor version, or the newest one that has the key where that one does not."""
    for name in (minor, *reversed(MINORS)):
        table = config_table(name)
        if key in table.broker or key in table.topic:
            return table
    return config_table(minor)


def broker_defaults() -> tuple[tuple[str, str, str | None], ...]:
    """(minor version, key, default in the key's own unit) of every key that clusters are compared in."""
    return tuple((minor, d.name, d.default) for minor in MINORS for d in _compared(minor))


def inherited_from() -> tuple[tuple[str, str, str, str], ...]:
    """(minor version, topic key, broker key that it inherits from or ``, default or ``) of every topic key."""
    return tuple(
        (minor, d.name, _FORMS.get(d.synonyms[0], (d.synonyms[0],))[0] if d.synonyms else "", d.default or "")
        for minor in MINORS
        for d in config_table(minor).topic.values()
    )


def default_changes(minor: str, other: str) -> Mapping[str, tuple[str, str]]:
    """The defaults that two minor versions have both and that differ between them, by key."""
    ours = {d.name: d.default or "" for d in _compared(minor)}
    theirs = {d.name: d.default or "" for d in _compared(other)}
    return {k: (v, theirs[k]) for k, v in sorted(ours.items()) if theirs.get(k, v) != v}


@cache
def _compared(minor: str) -> tuple[ConfigDef, ...]:
    found = []
    for definition in config_table(minor).broker.values():
        facts = compared_key(definition.name)
        if not definition.internal and facts is not None and not (facts.is_per_node or facts.is_per_cluster):
            found.append(definition)
    return tuple(found)
