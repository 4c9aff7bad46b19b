"""Settings of a cluster as values, and the steps in which they are changed.

Settings are what is set on topics, brokers and the cluster's default, and what would change. A rollout begins with
one topic or broker; more of them follow, each step watched before the next.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kafkakit.config.keys import did_you_mean
from kafkakit.core.cluster_facts import CLUSTER_DEFAULT, ConfigLayer, LayeredValue, ResourceKind
from kafkakit.core.errors import UsageError
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan import PlanBroker
from kafkakit.core.text import some
from kafkakit.rules.config_defs import NEWEST, ConfigDef, Scope, UpdateMode, config_table, minor_or_none
from kafkakit.rules.values import is_secret_key

ALL_BROKERS = "*"
"""The name of a broker in a wanted setting: each broker."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class WantedSetting:
    """A value that somebody asks for; None removes it. `name` is a topic, a broker's id, `*` or the cluster default."""

    kind: ResourceKind
    name: str
    key: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChange:
    """One key of one resource: what is set on it before and after, None for nothing.

    `in_force` is the value that it runs with before, wherever that is set.
    """

    kind: ResourceKind
    name: str
    key: str
    before: str | None
    after: str | None
    in_force: str | None = None

    @property
    def where(self) -> str:
        """The resource in words."""
        return where_of(self.kind, self.name)

    @property
    def undone(self) -> "SettingChange":
        """The change that takes it back."""
        return replace(self, before=self.after, after=self.before, in_force=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfigs:
    """What is set on a cluster.

    `topics` and `default` hold what is set on the resource itself, `own` the dynamic values of each live broker,
    `in_force` what it runs with (defaults too). `shapes` are the numbers of partitions and replicas of topics, `silent`
    the registered brokers that do not answer.
    """

    cluster_id: str
    version: str | None
    brokers: tuple[PlanBroker, ...]
    topics: Mapping[str, Mapping[str, str]]
    shapes: Mapping[str, tuple[int, int]]
    default: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    in_force: Mapping[int, Mapping[str, LayeredValue]] = field(default_factory=dict)
    silent: tuple[int, ...] = ()

    def definition(self, kind: ResourceKind, key: str) -> ConfigDef | None:
        """What is known of a key in the cluster's version."""
        minor = minor_or_none(self.version or "") or NEWEST
        return config_table(minor).find(Scope(kind.value), key)

    def is_read_only(self, kind: ResourceKind, key: str) -> bool:
        """True where a broker reads the key when it starts, and not later."""
        found = self.definition(kind, key) if kind is ResourceKind.BROKER else None
        return found is not None and found.update_mode is UpdateMode.READ_ONLY

    def value(self, kind: ResourceKind, name: str, key: str) -> str | None:
        """What is set on the resource itself; of a key that needs a restart, what the broker's file has."""
        if kind is ResourceKind.TOPIC:
            return self.topics.get(name, {}).get(key)
        if name == CLUSTER_DEFAULT:
            return self.default.get(key)
        if self.is_read_only(kind, key):
            found = self.in_force.get(int(name), {}).get(key)
            return None if found is None or found.layer is not ConfigLayer.STATIC else found.value
        return self.own.get(int(name), {}).get(key)

    def effective(self, kind: ResourceKind, name: str, key: str) -> str | None:
        """What the resource runs with; None where that is not known, or brokers run with several values."""
        if (own := self.value(kind, name, key)) is not None:
            return own
        if kind is ResourceKind.BROKER and name != CLUSTER_DEFAULT:
            found = self.in_force.get(int(name), {}).get(key)
            return None if found is None else found.value
        if kind is ResourceKind.BROKER:
            running = set(self._everywhere(key))
            return running.pop() if len(running) == 1 else None
        known = self.definition(kind, key)
        inherited = {v for s in (known.synonyms[:1] if known else ()) for v in self._everywhere(s)}
        return next(iter(inherited), known.default if known else None) if len(inherited) <= 1 else None

    def _everywhere(self, key: str) -> Iterable[str]:
        found = (values[key].value for values in self.in_force.values() if key in values)
        return (value for value in found if value is not None)


def where_of(kind: ResourceKind, name: str) -> str:
    """A resource in words."""
    if kind is ResourceKind.BROKER and name == CLUSTER_DEFAULT:
        return "cluster default"
    return f"{kind.value} {name}"


def configs_of(
    snapshot: ClusterSnapshot,
    default: Mapping[str, str],
    own: Mapping[str, Mapping[str, str]],
    in_force: Mapping[int, Mapping[str, LayeredValue]],
) -> ClusterConfigs:
    """What was read of a cluster as one value."""
    return ClusterConfigs(
        cluster_id=snapshot.cluster_id,
        version=snapshot.kafka_version,
        brokers=tuple(PlanBroker(id=b.id, rack=b.rack) for b in snapshot.brokers if b.id in in_force),
        topics={t.name: dict(t.configs) for t in snapshot.topics},
        shapes={
            t.name: (len(t.partitions), min((len(p.replicas) for p in t.partitions), default=0))
            for t in snapshot.topics
        },
        default=default,
        own={int(name): values for name, values in own.items()},
        in_force=in_force,
        silent=tuple(b.id for b in snapshot.brokers if b.id not in in_force),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """What wanted settings mean on a cluster: changes that brokers take while they run, those that need a restart."""

    changes: tuple[SettingChange, ...]
    restarts: tuple[SettingChange, ...]
    warnings: tuple[str, ...] = ()


def resolve(wanted: Iterable[WantedSetting], configs: ClusterConfigs) -> Resolved:
    """Compare what is wanted with what is set; what is so already is left out. Linear in both.

    Raises `UsageError` for a topic or broker that is not there, a key that cannot be set where it is wanted, two values
    for one key, and a secret.
    """
    asked: dict[tuple[ResourceKind, str, str], str | None] = {}
    for each in wanted:
        names = [str(b.id) for b in configs.brokers] if each.name == ALL_BROKERS else [each.name]
        if configs.is_read_only(each.kind, each.key) and each.name == CLUSTER_DEFAULT:
            names = [str(b.id) for b in configs.brokers]
        for name in names:
            _check(each, name, configs)
            place = (each.kind, name, each.key)
            if place in asked and asked[place] != each.value:
                raise UsageError(f"{where_of(each.kind, name)} is given two values of {each.key}")
            asked[place] = each.value
    changes: list[SettingChange] = []
    restarts: list[SettingChange] = []
    warnings: list[str] = []
    for (kind, name, key), value in sorted(asked.items()):
        before = configs.value(kind, name, key)
        if is_same(before, value):
            continue
        effective = configs.effective(kind, name, key)
        change = SettingChange(kind=kind, name=name, key=key, before=before, after=value, in_force=effective)
        (restarts if configs.is_read_only(kind, key) else changes).append(change)
        if kind is ResourceKind.BROKER and name == CLUSTER_DEFAULT:
            warnings += _hidden(key, configs)
    if configs.silent and any(c.kind is ResourceKind.BROKER for c in (*changes, *restarts)):
        ids = ", ".join(map(str, configs.silent))
        warnings.append(f"broker {ids} does not answer: its own settings are not known and not changed")
    return Resolved(changes=tuple(changes), restarts=tuple(restarts), warnings=tuple(warnings))


def is_same(one: str | None, other: str | None) -> bool:
    """Whether two values mean the same to a broker, which drops blanks around the items of lists."""
    if one is None or other is None:
        return one is other
    return [part.strip() for part in one.split(",")] == [part.strip() for part in other.split(",")]


def _check(wanted: WantedSetting, name: str, configs: ClusterConfigs) -> None:
    kind, key = wanted.kind, wanted.key
    definition = configs.definition(kind, key)
    if is_secret_key(key) or (definition is not None and definition.is_sensitive):
        raise UsageError(f"{key} holds a secret, which a plan would keep", hint="set it with Kafka's own tool")
    if kind is ResourceKind.TOPIC:
        if name not in configs.topics:
            raise UsageError(f"cluster {configs.cluster_id} has no topic {name!r:.120}")
        if definition is None:
            near = did_you_mean(key, config_table(minor_or_none(configs.version or "") or NEWEST).topic)
            raise UsageError(f"{key!r:.80} is not a topic setting in Kafka {configs.version}{near}")
    elif name != CLUSTER_DEFAULT:
        if not name.isdecimal() or int(name) not in {b.id for b in configs.brokers}:
            problem = "does not answer" if name.isdecimal() and int(name) in configs.silent else "is not in the cluster"
            raise UsageError(f"broker {name:.20} {problem}", hint="a broker takes its own settings while it runs")
    elif definition is not None and definition.update_mode is UpdateMode.PER_BROKER:
        raise UsageError(f"{key} is set for each broker, not for all", hint="use --all-brokers or --brokers ID")


def _hidden(key: str, configs: ClusterConfigs) -> list[str]:
    over = [str(broker) for broker, values in sorted(configs.own.items()) if key in values]
    return [f"broker {', '.join(over)} has its own {key}, which the cluster default does not change"] if over else []


NOT_BY_BROKER = frozenset({"min.insync.replicas"})
"""Keys of the cluster default that no single broker takes: with eligible leader replicas Kafka 4.1 refuses it."""


class StepSize(StrEnum):
    """How fast the steps grow."""

    GROW = "grow"
    EACH = "each"
    RACK = "rack"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """Changes that are made together. With `restart` they are in the file of one broker, which is restarted."""

    name: str
    changes: tuple[SettingChange, ...]
    restart: bool = False


def plan_steps(
    changes: Iterable[SettingChange], restarts: Iterable[SettingChange], configs: ClusterConfigs, size: StepSize
) -> tuple[PlannedStep, ...]:
    """Topics, brokers, the cluster default, then restarts: one broker at a time, whatever the size.

    A cluster default is tried as the brokers' own value first, which Kafka allows for every key of the default; the
    last step sets the default and removes the trial values.
    """
    changes = tuple(changes)
    default = tuple(c for c in changes if c.kind is ResourceKind.BROKER and c.name == CLUSTER_DEFAULT)
    trials = tuple(t for c in default for t in _trials(c, configs)) if size is not StepSize.ALL else ()
    brokers = {b.id: b for b in configs.brokers}
    own = tuple(c for c in changes if c.kind is ResourceKind.BROKER and c.name != CLUSTER_DEFAULT)

    def waves(of: Iterable[SettingChange]) -> list[tuple[str, ...]]:
        return list(broker_waves([brokers[n] for n in sorted({int(c.name) for c in of})], size))

    topics = _topic_waves(sorted({c.name for c in changes if c.kind is ResourceKind.TOPIC}), size)
    steps = [_step(changes, ResourceKind.TOPIC, names) for names in topics]
    steps += [_step(own, ResourceKind.BROKER, names) for names in waves(own)]
    # The last wave of a trial is the default itself.
    tried = waves(trials)[:-1]
    steps += [_step(trials, ResourceKind.BROKER, names, "for a trial ") for names in tried]
    if default:
        removed = tuple(replace(t.undone, in_force=t.after) for t in trials if any(t.name in wave for wave in tried))
        steps.append(PlannedStep(name="cluster default", changes=(*default, *removed)))
    by_broker: dict[int, list[SettingChange]] = {}
    for change in restarts:
        by_broker.setdefault(int(change.name), []).append(change)
    steps += [
        PlannedStep(name=f"restart of broker {broker}", changes=tuple(found), restart=True)
        for broker, found in sorted(by_broker.items())
    ]
    return tuple(steps)


def broker_waves(brokers: Sequence[PlanBroker], size: StepSize) -> Iterable[tuple[str, ...]]:
    """The ids of brokers in the order of steps: one, the rest of its rack, the others; or racks; or all."""
    names = [str(b.id) for b in brokers]
    if not brokers:
        return
    racks = list(dict.fromkeys(b.rack for b in brokers))
    match size:
        case StepSize.EACH:
            yield from ((name,) for name in names)
        case StepSize.ALL:
            yield tuple(names)
        case StepSize.RACK:
            yield from (tuple(str(b.id) for b in brokers if b.rack == rack) for rack in racks)
        case StepSize.GROW:
            near = tuple(str(b.id) for b in brokers[1:] if b.rack is not None and b.rack == brokers[0].rack)
            far = tuple(name for name in names[1:] if name not in near)
            yield from (wave for wave in ((names[0],), near, far) if wave)


def _topic_waves(names: Sequence[str], size: StepSize) -> Iterable[tuple[str, ...]]:
    if not names:
        return ()
    if size is StepSize.EACH:
        return [(name,) for name in names]
    return [tuple(names[:1]), tuple(names[1:])][: len(names)] if size is StepSize.GROW else [tuple(names)]


def _step(
    changes: Iterable[SettingChange], kind: ResourceKind, names: tuple[str, ...], prefix: str = ""
) -> PlannedStep:
    chosen = tuple(c for c in changes if c.kind is kind and c.name in names)
    plural = "s" if len(names) > 1 else ""
    return PlannedStep(name=f"{prefix}{kind.value}{plural} {some(names)}", changes=chosen)


def _trials(default: SettingChange, configs: ClusterConfigs) -> Iterable[SettingChange]:
    if default.key in NOT_BY_BROKER or default.after is None:
        return
    for broker in configs.brokers:
        if default.key not in configs.own.get(broker.id, {}):
            yield replace(default, name=str(broker.id), before=None)
