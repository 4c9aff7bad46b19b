"""Settings of a cluster as values, and the steps in which they are changed.

Settings are what is set on topics, brokers and the cluster's default, and what would change. A rollout begins with
one topic or broker; more of them follow, each step watched before the next.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import TypeAlias

from kafkakit.config.keys import did_you_mean
from kafkakit.core.cluster_facts import CLUSTER_DEFAULT, ConfigLayer, LayeredValue, ResourceKind
from kafkakit.core.errors import UsageError
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.options import REPEATED, Completion, option, parsed_option, texts
from kafkakit.core.plan import PlanBroker
from kafkakit.core.text import few_of
from kafkakit.rules.config_defs import NEWEST, ConfigDef, KeyScope, UpdateMode, config_table, minor_or_none, nearest_key
from kafkakit.rules.effective import TIME_FORMS, to_int
from kafkakit.rules.judging import POOLS, base_key
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
class ChangeScope:
    """Where values of the command line are set: topics by name, brokers, each broker, the default."""

    topics: tuple[str, ...] = ()
    brokers: tuple[int, ...] = ()
    all_brokers: bool = False
    cluster_default: bool = False

    @property
    def is_given(self) -> bool:
        """True where something is named."""
        return bool(self.topics or self.brokers or self.all_brokers or self.cluster_default)


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
        return config_table(minor).find(KeyScope(kind.value), key)

    def is_defined(self, kind: ResourceKind, key: str) -> bool:
        """True for a key that the cluster's version defines, with the prefix of a listener or without."""
        return self.definition(kind, base_key(key) if kind is ResourceKind.BROKER else key) is not None

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
        """What the resource runs with; None where that is not known, or brokers run with several values.

        Of the cluster default it is what the brokers without a value of their own run with.
        """
        if (own := self.value(kind, name, key)) is not None:
            return own
        if kind is ResourceKind.BROKER and name != CLUSTER_DEFAULT:
            return self.running(int(name), key)
        if kind is ResourceKind.BROKER:
            found = {self.running(broker, key) for broker in self.in_force if key not in self.own.get(broker, {})}
            return found.pop() if len(found) == 1 else None
        known = self.definition(kind, key)
        inherited = {self.running(b, s) for s in (known.synonyms[:1] if known else ()) for b in self.in_force} - {None}
        return next(iter(inherited), known.default if known else None) if len(inherited) <= 1 else None

    def running(self, broker: int, key: str) -> str | None:
        """What a broker runs with, None if that is not known; a time that is set in another form, in milliseconds."""
        values = self.in_force.get(broker, {})
        for form, factor in TIME_FORMS.get(key, ((key, 1),)):
            text = values[form].value if form in values else None
            if text is not None:
                number = to_int(text)
                return text if factor == 1 or number is None or number < 0 else str(number * factor)
        return None


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
class ResolvedSettings:
    """What wanted settings mean on a cluster: changes that brokers take while they run, those that need a restart."""

    changes: tuple[SettingChange, ...]
    restarts: tuple[SettingChange, ...]
    warnings: tuple[str, ...] = ()


def resolve(wanted: Iterable[WantedSetting], configs: ClusterConfigs) -> ResolvedSettings:
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
            warnings += _hidden_warnings(key, configs)
    if configs.silent and any(c.kind is ResourceKind.BROKER for c in (*changes, *restarts)):
        ids = ", ".join(map(str, configs.silent))
        warnings.append(f"broker {ids} does not answer: its own settings are not known and not changed")
    return ResolvedSettings(changes=tuple(changes), restarts=tuple(restarts), warnings=tuple(warnings))


def is_same(one: str | None, other: str | None) -> bool:
    """Whether two values mean the same to a broker.

    It drops blanks around the items of lists, and shows numbers and booleans as it writes them: `007` is 7.
    """
    if one is None or other is None:
        return one is other
    return one == other or [_plain_item(part) for part in one.split(",")] == [
        _plain_item(part) for part in other.split(",")
    ]


_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")


def _plain_item(item: str) -> str | int | float:
    text = item.strip()
    if (number := to_int(text)) is not None:
        return number
    return float(text) if len(text) <= MOST_DIGITS and _NUMBER.fullmatch(text) else _BOOLEANS.get(text.lower(), text)


MOST_DIGITS = 40
_BOOLEANS = {"true": "true", "false": "false"}


_OF_DATA = "the data on its disks carry it"
_DIRS = "they hold replicas, which a broker that starts without them has lost"
_QUORUM = "a node that starts with another one is in another quorum"
FIXED: Mapping[str, str] = {
    "broker.id": _OF_DATA, "node.id": _OF_DATA, "cluster.id": _OF_DATA, "log.dir": _DIRS, "log.dirs": _DIRS,
    "metadata.log.dir": _DIRS, "process.roles": "another role is another node", "controller.quorum.voters": _QUORUM,
    "zookeeper.connect": "a broker that starts with another one is in another cluster",
}  # fmt: skip
"""What a broker never changes while it keeps its data, and why."""
# Of a file, what tells a broker from others; it is no change to make.
IDENTITY = frozenset(
    {*FIXED, "broker.rack", "listeners", "advertised.listeners", "controller.quorum.bootstrap.servers",
     "controller.listener.names"}
)  # fmt: skip


def _check_key(wanted: WantedSetting, configs: ClusterConfigs) -> None:
    """Raise `UsageError` for a key that no plan may have, on whichever topic or broker."""
    kind, key = wanted.kind, wanted.key
    definition = configs.definition(kind, base_key(key) if kind is ResourceKind.BROKER else key)
    if kind is ResourceKind.BROKER and key in FIXED:
        raise UsageError(
            f"{key} is never changed on a broker: {FIXED[key]}",
            hint="add a broker, move the replicas to it, then remove this one",
        )
    if is_secret_key(key) or (definition is not None and definition.is_sensitive):
        raise UsageError(f"{key} holds a secret, which a plan would keep", hint="set it with Kafka's own tool")
    if definition is not None or (kind is ResourceKind.BROKER and wanted.value is None):
        return
    minor = minor_or_none(configs.version or "") or NEWEST
    if kind is ResourceKind.TOPIC:
        near = did_you_mean(key, config_table(minor).topic)
        raise UsageError(f"{key!r:.80} is not a topic setting in Kafka {configs.version}{near}")
    meant = nearest_key(KeyScope.BROKER, key, minor)
    near = f"; did you mean {meant}?" if meant is not None else ""
    raise UsageError(
        f"{key!r:.80} is not a broker setting in Kafka {configs.version}{near}",
        hint="set a plugin's key with Kafka's own tool: brokers hide its value, so that no rollout can read it back",
    )


def _check(wanted: WantedSetting, name: str, configs: ClusterConfigs) -> None:
    kind, key = wanted.kind, wanted.key
    _check_key(wanted, configs)
    definition = configs.definition(kind, key)
    if kind is ResourceKind.TOPIC:
        if name not in configs.topics:
            raise UsageError(f"cluster {configs.cluster_id} has no topic {name!r:.120}")
    elif name != CLUSTER_DEFAULT:
        if not name.isdecimal() or int(name) not in {b.id for b in configs.brokers}:
            problem = "does not answer" if name.isdecimal() and int(name) in configs.silent else "is not in the cluster"
            raise UsageError(f"broker {name:.20} {problem}", hint="a broker takes its own settings while it runs")
    elif definition is not None and definition.update_mode is UpdateMode.PER_BROKER:
        raise UsageError(f"{key} is set for each broker, not for all", hint="use --all-brokers or --brokers ID")


def _hidden_warnings(key: str, configs: ClusterConfigs) -> list[str]:
    over = [str(broker) for broker, values in sorted(configs.own.items()) if key in values]
    return [f"broker {', '.join(over)} has its own {key}, which the cluster default does not change"] if over else []


MOST_SHOWN = 8
"""Values of a way of several plans that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolJump:
    """A change of a thread pool that a running broker refuses: it goes from half to double of what it runs with."""

    broker: int
    key: str
    now: int
    wanted: int

    @property
    def steps(self) -> tuple[int, ...]:
        """The values that lead there, each of which the broker takes; none for one that it never takes."""
        found, value = [], self.now
        while self.wanted >= 1 and value != self.wanted:
            value = max(self.wanted, value // 2) if self.wanted < value else min(self.wanted, value * 2)
            found.append(value)
        return tuple(found)

    @property
    def words(self) -> str:
        """What a broker does not take, and the way there."""
        said = f"{self.key} {self.wanted} is more than a running broker takes in one step"
        said = f"{said}: from {self.now} it goes to {max(1, self.now // 2)} to {self.now * 2}"
        path = [str(value) for value in (self.now, *self.steps)]
        path = path if len(path) <= MOST_SHOWN else [*path[: MOST_SHOWN - 2], "...", path[-1]]
        return f"{said} (plan after plan: {' -> '.join(path)})" if self.steps else said


def pool_jumps(changes: Iterable[SettingChange], configs: ClusterConfigs) -> tuple[PoolJump, ...]:
    """The changes of thread pools that brokers refuse, by what each of them runs with now.

    What a broker runs with once its own value is removed is known only if the cluster default has a value.
    """
    found: list[PoolJump] = []
    for change in changes:
        if change.kind is not ResourceKind.BROKER or change.key not in POOLS:
            continue
        if change.name == CLUSTER_DEFAULT:
            brokers = [b.id for b in configs.brokers if change.key not in configs.own.get(b.id, {})]
        else:
            brokers = [int(change.name)]
        after = change.after
        if after is None and change.name != CLUSTER_DEFAULT:
            after = configs.default.get(change.key)
        wanted = to_int(after or "")
        for broker in brokers if wanted is not None else ():
            now = to_int(configs.running(broker, change.key) or "")
            if now is None or wanted is None or now < 1 or now == wanted or now // 2 <= max(1, wanted) <= now * 2:
                continue
            found.append(PoolJump(broker=broker, key=change.key, now=now, wanted=wanted))
    return tuple(found)


NOT_BY_BROKER = frozenset({"min.insync.replicas"})
"""Keys of the cluster default that no single broker takes: with eligible leader replicas Kafka 4.1 refuses it."""


class StepSize(StrEnum):
    """How fast the steps grow."""

    GROW = "grow"
    EACH = "each"
    RACK = "rack"
    ALL = "all"


_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,4})?)%")
_COUNT = re.compile(r"[0-9]{1,7}")
_REST = "rest"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShares:
    """How many topics or brokers have the change after each step: counts, and shares of all as fractions; at last all.

    `value` is the text of it, such as `1,10%,rest`.
    """

    value: str
    ends: tuple[int | Fraction, ...]

    def waves(self, names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """The names in the order of steps; a step that would add none, as of few names, is left out."""
        found, done = [], 0
        for end in self.ends:
            upto = min(len(names), end if isinstance(end, int) else ceil(end * len(names)))
            if upto > done:
                found.append(tuple(names[done:upto]))
                done = upto
        return tuple(found)


StepChoice: TypeAlias = StepSize | StepShares


def parse_steps(text: str) -> StepChoice:
    """`grow`, `each`, `rack`, `all`, or how many have the change after each step: `1,10%,rest`.

    Raises `UsageError` for steps that are empty, do not grow, or do not come to all.
    """
    if text in set(StepSize):
        return StepSize(text)
    parts = [part.strip() for part in text.split(",")]
    ends = [_step_end(part, text) for part in parts]
    for kind in (int, Fraction):
        alike = [(part, end) for part, end in zip(parts, ends, strict=True) if isinstance(end, kind)]
        for (before, less), (part, more) in pairwise(alike):
            if more <= less:
                raise UsageError(f"--steps {text:.80}: {part} is not more than {before}", hint=STEPS_HINT)
    if any(end == 1 and isinstance(end, Fraction) for end in ends[:-1]):
        raise UsageError(f"--steps {text:.80}: nothing is left after all", hint=STEPS_HINT)
    if ends[-1] != 1 or not isinstance(ends[-1], Fraction):
        raise UsageError(f"--steps {text:.80} ends with {parts[-1]}, not with all", hint="end it with rest")
    return StepShares(value=",".join(parts), ends=tuple(ends))


STEPS_HINT = "each step says how many have the change after it, as in 1,10%,50%,rest"


def _step_end(part: str, text: str) -> int | Fraction:
    share, count = _SHARE.fullmatch(part), _COUNT.fullmatch(part)
    if part == _REST:
        return Fraction(1)
    if share is None and count is None:
        words = ", ".join(StepSize)
        raise UsageError(f"--steps {text!r:.80} is none of {words}, and not like 1,10%,rest", hint=STEPS_HINT)
    end: int | Fraction = int(part) if share is None else Fraction(share[1]) / 100
    if end == 0 or (share is not None and end > 1):
        problem = "is an empty step" if end == 0 else "is more than all"
        raise UsageError(f"--steps {text:.80}: {part} {problem}", hint=STEPS_HINT)
    return end


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """Changes that are made together. With `restart` they are in the file of one broker, which is restarted."""

    name: str
    changes: tuple[SettingChange, ...]
    restart: bool = False


def plan_steps(
    changes: Iterable[SettingChange], restarts: Iterable[SettingChange], configs: ClusterConfigs, size: StepChoice
) -> tuple[PlannedStep, ...]:
    """Topics, brokers, the cluster default, then restarts: one broker at a time, whatever the size.

    A cluster default is tried as the brokers' own value first, which Kafka allows for every key of the default; the
    last step sets the default and removes the trial values.
    """
    changes = tuple(changes)
    default = tuple(c for c in changes if c.kind is ResourceKind.BROKER and c.name == CLUSTER_DEFAULT)
    brokers = {b.id: b for b in configs.brokers}
    own = tuple(c for c in changes if c.kind is ResourceKind.BROKER and c.name != CLUSTER_DEFAULT)
    places = {(c.name, c.key) for c in own}
    trials = tuple(t for c in default for t in _trials(c, configs) if (t.name, t.key) not in places)
    trials = trials if size is not StepSize.ALL else ()

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


def broker_waves(brokers: Sequence[PlanBroker], size: StepChoice) -> Iterable[tuple[str, ...]]:
    """The ids of brokers in the order of steps: one, the rest of its rack, the others; or racks; or all.

    Shares go rack by rack as well, so that a step is in as few racks as may be.
    """
    names = [str(b.id) for b in brokers]
    if not brokers:
        return
    racks = list(dict.fromkeys(b.rack for b in brokers))
    if isinstance(size, StepShares):
        yield from size.waves([str(b.id) for rack in racks for b in brokers if b.rack == rack])
        return
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


def asked_of_brokers(changes: Iterable[SettingChange], configs: ClusterConfigs) -> tuple[SettingChange, ...]:
    """The changes that brokers are asked about before any is made.

    One broker answers for a cluster default, so each broker that will run with it is asked about its value as well.
    """
    changes = tuple(changes)
    asked = {(c.kind, c.name, c.key): c for c in changes}
    for change in changes:
        if change.kind is ResourceKind.BROKER and change.name == CLUSTER_DEFAULT:
            asked = {(t.kind, t.name, t.key): t for t in _trials(change, configs)} | asked
    return tuple(asked[place] for place in sorted(asked))


def _topic_waves(names: Sequence[str], size: StepChoice) -> Iterable[tuple[str, ...]]:
    if not names:
        return ()
    if isinstance(size, StepShares):
        return size.waves(names)
    if size is StepSize.EACH:
        return [(name,) for name in names]
    return [tuple(names[:1]), tuple(names[1:])][: len(names)] if size is StepSize.GROW else [tuple(names)]


def _step(
    changes: Iterable[SettingChange], kind: ResourceKind, names: tuple[str, ...], prefix: str = ""
) -> PlannedStep:
    chosen = tuple(c for c in changes if c.kind is kind and c.name in names)
    plural = "s" if len(names) > 1 else ""
    return PlannedStep(name=f"{prefix}{kind.value}{plural} {few_of(names)}", changes=chosen)


def _trials(default: SettingChange, configs: ClusterConfigs) -> Iterable[SettingChange]:
    if default.key in NOT_BY_BROKER or default.after is None:
        return
    for broker in configs.brokers:
        if default.key not in configs.own.get(broker.id, {}):
            yield replace(default, name=str(broker.id), before=None)


def join_option(given: Sequence[str] | None) -> str:
    """A repeated option as one recorded word."""
    return ",".join(given or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPlaces:
    """Topics and brokers in the notation of the command line, a text for each time that the option is given."""

    topics: tuple[str, ...] = parsed_option(
        None,
        "--topics",
        "--topic",
        typed=REPEATED,
        parse=texts,
        metavar="TOPICS",
        completion=Completion.TOPICS,
        help="Set the values on these topics. Repeatable.",
        recorded=join_option,
    )
    brokers: tuple[str, ...] = parsed_option(
        None,
        "--brokers",
        "--broker",
        typed=REPEATED,
        parse=texts,
        metavar="BROKERS",
        completion=Completion.BROKERS,
        help="Set them on these brokers, each by itself. Repeatable.",
        recorded=join_option,
    )
    all_brokers: bool = option(False, "--all-brokers", help="Set them on each broker.", recorded=True)
    cluster_default: bool = option(
        False, "--cluster-default", help="Set them as the default of all brokers.", recorded=True
    )
