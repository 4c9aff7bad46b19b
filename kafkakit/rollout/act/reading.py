"""Reading what is set on a cluster, and watching its partitions."""

from collections.abc import Mapping

from kafkakit.core.cluster_facts import CLUSTER_DEFAULT, ConfigLayer, LayeredValue, ResourceKind
from kafkakit.core.durations import epoch_ms
from kafkakit.core.errors import TryLaterError
from kafkakit.core.model import ClusterSnapshot
from kafkakit.lint.api import Pieces
from kafkakit.lint.api_act import live_pieces
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.rollout.decide.health import HealthLook, PartitionView, look_between
from kafkakit.rollout.decide.settings import ClusterConfigs, configs_of

MIN_ISR = "min.insync.replicas"


class ClusterSettings:
    """What is set on a cluster, read once: one request for its topics, three for its brokers."""

    def __init__(self, admin: ClusterAdmin, clock: Clock) -> None:
        snapshot = admin.snapshot(now=clock.now(), sizes=False)
        alive = [b.id for b in snapshot.brokers if b.is_alive]
        in_force = admin.broker_configs(alive, defaults=True)
        own = admin.dynamic_configs(ResourceKind.BROKER, [str(b) for b in in_force])
        default = admin.dynamic_configs(ResourceKind.BROKER, [CLUSTER_DEFAULT]).get(CLUSTER_DEFAULT, {})
        self.configs = configs_of(snapshot, default, {n: v for n, v in own.items() if n}, in_force)
        self.snapshot, self._in_force = snapshot, in_force

    def pieces(self) -> Pieces:
        """The cluster as lint sees it."""
        return live_pieces(self.snapshot, {b: _set(values) for b, values in self._in_force.items()}, None)


def read_configs(admin: ClusterAdmin, clock: Clock) -> ClusterConfigs:
    """What is set on a cluster; see `ClusterSettings`."""
    return ClusterSettings(admin, clock).configs


class PartitionWatch:
    """Looks at all partitions, one request a look; topics and min ISR are read when it is made, and by `renew`."""

    def __init__(self, admin: ClusterAdmin, clock: Clock) -> None:
        self._admin, self._clock = admin, clock
        self._before: PartitionView | None = None
        self._min_isr: dict[str, int] = {}
        self.renew()

    def renew(self, *, forget: bool = False) -> None:
        """Read topics and min ISR again, which a step may have changed; `forget` what was seen before.

        Where no broker answers, they stay as they were: the next looks tell.
        """
        self._before = None if forget else self._before
        try:
            snapshot = self._admin.snapshot(now=self._clock.now(), sizes=False)
            self._min_isr = min_isr_of(snapshot, self._admin)
        except TryLaterError:
            if not self._min_isr:
                raise

    def look(self) -> HealthLook:
        """What the partitions show, and what happened since the last look; without values while no broker answers."""
        begun_s, at_ms = self._clock.monotonic(), epoch_ms(self._clock.now())
        try:
            states = self._admin.partition_states(self._min_isr)
        except TryLaterError as error:
            return HealthLook(at_ms=at_ms, problem=error.message)
        answer_ms = (self._clock.monotonic() - begun_s) * 1000
        now = PartitionView(at_ms=at_ms, states=states, min_isr=self._min_isr, answer_ms=answer_ms)
        found = look_between(self._before, now)
        self._before = now
        return found

    def waits_for(self, broker: int) -> tuple[str, ...]:
        """The partitions that have a copy on the broker which is not in sync, in order."""
        states = self._admin.partition_states(self._min_isr)
        return tuple(str(key) for key, s in states.items() if broker in s.replicas and broker not in s.isr)


def min_isr_of(snapshot: ClusterSnapshot, admin: ClusterAdmin) -> dict[str, int]:
    """How many copies of each topic must be in sync: its own setting, else the lowest that a broker runs with."""
    alive = [b.id for b in snapshot.brokers if b.is_alive]
    settings = admin.broker_settings(alive, [MIN_ISR]).values()
    usual = min((_number(values.get(MIN_ISR)) for values in settings), default=1)
    return {t.name: _number(t.configs[MIN_ISR]) if MIN_ISR in t.configs else usual for t in snapshot.topics}


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.strip().isdecimal() else 1


def _set(values: Mapping[str, LayeredValue]) -> dict[str, LayeredValue]:
    return {key: value for key, value in values.items() if value.layer is not ConfigLayer.DEFAULT}
