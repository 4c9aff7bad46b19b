"""Two states of configuration compared: of clusters, files, and a cluster at an earlier time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from kafkakit.core.cluster_facts import CLUSTER_DEFAULT, ConfigLayer, ResourceKind
from kafkakit.execution.decide.journal_state import ConfigKey
from kafkakit.lint.api import Pieces
from kafkakit.rollout.decide.plan import shown
from kafkakit.rollout.decide.settings import ALL_BROKERS, ClusterConfigs, SettingChange, is_same, where_of
from kafkakit.rollout.decide.wanted import IDENTITY
from kafkakit.rules.effective import Configs

Values = Mapping[ConfigKey, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSide:
    """One side: what is set, the ids of its brokers, and whether it is only a part, as files are."""

    name: str
    values: Values
    brokers: frozenset[str] = field(default_factory=frozenset)
    is_part: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDifference:
    """A setting that differs; None where a side does not set it."""

    where: str
    key: str
    one: str | None
    other: str | None


def side_of_cluster(name: str, configs: ClusterConfigs) -> ConfigSide:
    """What is set on a live cluster, in files of brokers and while they run; what tells brokers apart is left out."""
    values: dict[ConfigKey, str | None] = {}
    for topic, own in configs.topics.items():
        values |= {ConfigKey(ResourceKind.TOPIC, topic, key): value for key, value in own.items()}
    for key, value in configs.default.items():
        values[ConfigKey(ResourceKind.BROKER, CLUSTER_DEFAULT, key)] = value
    for broker, layers in configs.in_force.items():
        for key, layered in layers.items():
            if layered.layer in (ConfigLayer.DYNAMIC_BROKER, ConfigLayer.STATIC) and key not in IDENTITY:
                values[ConfigKey(ResourceKind.BROKER, str(broker), key)] = layered.value or "[hidden]"
    return ConfigSide(name=name, values=values, brokers=frozenset(map(str, configs.in_force)))


def side_of_files(name: str, files: Iterable[Pieces]) -> ConfigSide:
    """What files set."""
    values: dict[ConfigKey, str | None] = {}
    ids: set[str] = set()

    def take(kind: ResourceKind, resource: str, configs: Configs) -> None:
        named = {k: v for k, v in configs.items() if k not in IDENTITY and "." in k}
        values.update({ConfigKey(kind, resource, key): declared.text for key, declared in named.items()})

    for pieces in files:
        for cluster in pieces.clusters:
            take(ResourceKind.BROKER, CLUSTER_DEFAULT, cluster.dynamic_default)
            take(ResourceKind.BROKER, ALL_BROKERS, cluster.static or {})
        for broker in pieces.brokers:
            if "broker" in broker.roles:
                resource = ALL_BROKERS if broker.id is None else str(broker.id)
                ids |= {resource} - {ALL_BROKERS}
                take(ResourceKind.BROKER, resource, {**broker.static, **broker.dynamic})
        for topic in pieces.topics:
            take(ResourceKind.TOPIC, topic.name, topic.configs)
    return ConfigSide(name=name, values=values, brokers=frozenset(ids), is_part=True)


def at_time(live: ConfigSide, writes: Sequence[tuple[datetime, SettingChange]], at: datetime, name: str) -> ConfigSide:
    """What was set at an earlier time, as far as journals tell: their changes since then taken back, newest first."""
    values = dict(live.values)
    for moment, change in sorted(writes, key=lambda item: item[0], reverse=True):
        if moment > at:
            key = ConfigKey(change.kind, change.name, change.key)
            if change.before is None:
                values.pop(key, None)
            else:
                values[key] = change.before
    return replace(live, name=name, values=values)


def difference(one: ConfigSide, other: ConfigSide) -> tuple[ConfigDifference, ...]:
    """The settings that differ, sorted. Of a part only the resources that it names are compared.

    Where the sides have different brokers, values that all brokers of a side share are compared as one.
    """
    if one.brokers and other.brokers and one.brokers != other.brokers and not (one.is_part or other.is_part):
        first, second = _shared(one), _shared(other)
    else:
        ids = one.brokers | other.brokers
        first, second = _expanded(one, ids), _expanded(other, ids)
    keys = {k for k in first.keys() | second.keys() if not is_same(first.get(k), second.get(k))}
    for side, values in ((one, first), (other, second)):
        if side.is_part:
            named = {(k.kind, k.name) for k in values}
            keys = {k for k in keys if (k.kind, k.name) in named}
    rows = [(k, first.get(k), second.get(k)) for k in sorted(keys)]
    return tuple(_as_each(rows, one.brokers | other.brokers))


def _shared(side: ConfigSide) -> Values:
    found = {k: v for k, v in side.values.items() if k.kind is ResourceKind.TOPIC or k.name == CLUSTER_DEFAULT}
    for key in {k.key for k in side.values if k.kind is ResourceKind.BROKER and k.name != CLUSTER_DEFAULT}:
        of_brokers = {b: side.values.get(ConfigKey(ResourceKind.BROKER, b, key)) for b in side.brokers}
        if len(set(of_brokers.values())) == 1:
            found[ConfigKey(ResourceKind.BROKER, ALL_BROKERS, key)] = next(iter(of_brokers.values()))
        else:
            found |= {ConfigKey(ResourceKind.BROKER, b, key): v for b, v in of_brokers.items() if v is not None}
    return found


def _expanded(side: ConfigSide, ids: frozenset[str]) -> Values:
    every = [(k, v) for k, v in side.values.items() if k.kind is ResourceKind.BROKER and k.name == ALL_BROKERS]
    found = {k._replace(name=broker): v for k, v in every for broker in ids}
    rest = {k: v for k, v in side.values.items() if k.kind is ResourceKind.TOPIC or k.name != ALL_BROKERS or not ids}
    return found | rest


def _as_each(
    rows: Iterable[tuple[ConfigKey, str | None, str | None]], ids: frozenset[str]
) -> Iterable[ConfigDifference]:
    """Rows that are the same for each broker are one."""
    groups: dict[object, list[tuple[ConfigKey, str | None, str | None]]] = {}
    for row in rows:
        key, one, other = row
        is_own = key.kind is ResourceKind.BROKER and key.name not in (CLUSTER_DEFAULT, ALL_BROKERS)
        groups.setdefault((key.key, one, other) if is_own else key, []).append(row)
    for group in groups.values():
        is_each = len(group) > 1 and {row[0].name for row in group} == ids
        for key, one, other in group[:1] if is_each else group:
            where = "each broker" if is_each or key.name == ALL_BROKERS else where_of(key.kind, key.name)
            yield ConfigDifference(where=where, key=key.key, one=one, other=other)


def row_of(found: ConfigDifference) -> tuple[str, str, str, str]:
    """A difference as cells."""
    return found.where, found.key, shown(found.key, found.one), shown(found.key, found.other)
