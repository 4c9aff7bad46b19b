"""The steps of a rollout: one topic or broker first, then more of them, each watched before the next."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from kafkakit.core.cluster_facts import CLUSTER_DEFAULT, ResourceKind
from kafkakit.core.lists_in_words import some
from kafkakit.core.plan import PlanBroker
from kafkakit.rollout.decide.settings import ClusterConfigs, SettingChange

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
