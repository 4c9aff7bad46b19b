"""A rehearsal: the plan for a mirrored cluster, and in what that cluster is unlike."""

from dataclasses import dataclass, replace
from datetime import datetime

from kafkakit.core.cluster_facts import CLUSTER_DEFAULT, ResourceKind
from kafkakit.core.plan import PlanBroker
from kafkakit.rollout.decide.plan import ConfigPlan, FindingsChange, make_plan, shown
from kafkakit.rollout.decide.settings import ClusterConfigs, SettingChange, WantedSetting, is_same, resolve
from kafkakit.rollout.decide.steps import StepSize
from kafkakit.rules.config_defs import minor_or_none


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """The plan of the mirrored cluster, None where everything is set there already; `unlike` says what differs."""

    plan: ConfigPlan | None
    unlike: tuple[str, ...] = ()


def rehearsal_of(
    plan: ConfigPlan, here: ClusterConfigs, there: ClusterConfigs, *, created_at: datetime, profile: str
) -> Rehearsal:
    """The change as it is on the mirrored cluster: topics by name, brokers by their order among the sorted ids.

    What the mirror has already counts as alike, since a rehearsal that went well stays there. What it cannot have (a
    topic or a broker that is missing) is unlike, and left out.
    """
    unlike: list[str] = []
    if minor_or_none(here.version or "") != minor_or_none(there.version or ""):
        unlike.append(f"Kafka {there.version} there, {here.version} here")
    if len(here.brokers) != len(there.brokers):
        unlike.append(f"{len(there.brokers)} brokers there, {len(here.brokers)} here")
    elif (racks := _racks(there)) != _racks(here):
        unlike.append(f"{racks} racks there, {_racks(here)} here")
    ids = {str(a.id): str(b.id) for a, b in zip(_sorted(here), _sorted(there), strict=False)} | {CLUSTER_DEFAULT: ""}
    wanted: list[WantedSetting] = []
    for change in plan.all_changes:
        name = change.name if change.kind is ResourceKind.TOPIC else ids.get(change.name)
        if name is None or (change.kind is ResourceKind.TOPIC and name not in there.topics):
            unlike.append(f"{change.where} is not there")
            continue
        unlike += _differs(change, name, here, there)
        wanted.append(WantedSetting(kind=change.kind, name=name, key=change.key, value=change.after))
    resolved = resolve(wanted, there)
    if not resolved.changes and not resolved.restarts:
        return Rehearsal(plan=None, unlike=tuple(dict.fromkeys(unlike)))
    size = StepSize(plan.request.get("steps", StepSize.GROW.value))
    made = make_plan(
        resolved, there, FindingsChange(), created_at=created_at, request=plan.request, size=size, profile=profile
    )
    return Rehearsal(plan=replace(made, warnings=()), unlike=tuple(dict.fromkeys(unlike)))


def _differs(change: SettingChange, name: str, here: ClusterConfigs, there: ClusterConfigs) -> list[str]:
    found = []
    if change.kind is ResourceKind.TOPIC and (one := here.shapes.get(name)) != (other := there.shapes[name]):
        partitions, replicas = one or (0, 0)
        found.append(f"topic {name} has {other[0]} partitions of {other[1]} there, {partitions} of {replicas} here")
    now = there.value(change.kind, name, change.key)
    if not is_same(now, change.before) and not is_same(now, change.after):
        found.append(
            f"{change.where} {change.key} is {shown(change.key, now)} there, {shown(change.key, change.before)} here"
        )
    return found


def _sorted(configs: ClusterConfigs) -> list[PlanBroker]:
    return sorted(configs.brokers, key=lambda broker: broker.id)


def _racks(configs: ClusterConfigs) -> int:
    return len({b.rack for b in configs.brokers if b.rack is not None})
