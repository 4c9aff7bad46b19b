"""What taking a rollout back would set now, and what it would leave."""

from collections.abc import Iterable
from dataclasses import dataclass

from kafkakit.core.cluster_facts import CLUSTER_DEFAULT, ResourceKind
from kafkakit.rollout.decide.journal import TouchedSetting
from kafkakit.rollout.decide.plan import shown
from kafkakit.rollout.decide.settings import ClusterConfigs, SettingChange, is_same, where_of

GONE = "the topic is gone, or the broker does not answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undoing:
    """The changes that take a rollout back, in order, and what is left, with why."""

    changes: tuple[SettingChange, ...] = ()
    left: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """All of it for people."""
        taken = (f"{c.where} {c.key}: {shown(c.key, c.before)} -> {shown(c.key, c.after)}" for c in self.changes)
        return (*taken, *(f"left: {each}" for each in self.left))


def undoing(touched: Iterable[TouchedSetting], live: ClusterConfigs) -> Undoing:
    """Compare what a rollout wrote with what is set now; the last setting first, as it is done."""
    changes: list[SettingChange] = []
    left: list[str] = []
    for each in reversed(tuple(touched)):
        kind, name, key = each.key
        if not _is_there(kind, name, live):
            left.append(f"{where_of(kind, name)} {key}: {GONE}")
            continue
        value = live.value(kind, name, key)
        if not each.is_ours(value):
            left.append(not_ours(each, value))
        elif not is_same(value, each.original):
            changes.append(SettingChange(kind=kind, name=name, key=key, before=value, after=each.original))
    return Undoing(changes=tuple(changes), left=tuple(left))


def not_ours(touched: TouchedSetting, value: str | None) -> str:
    """Why a setting is left as it is."""
    kind, name, key = touched.key
    return f"{where_of(kind, name)} {key} is {shown(key, value)} by now, which is not of this rollout"


def _is_there(kind: ResourceKind, name: str, live: ClusterConfigs) -> bool:
    if kind is ResourceKind.TOPIC:
        return name in live.topics
    return name == CLUSTER_DEFAULT or int(name) in live.in_force
