"""Reading what a schedule is made from: where copies and free space are, what the logs take in, how brokers are set."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from kafkakit.core.cluster_facts import BrokerLogDirs, ResourceKind
from kafkakit.core.model import TopicPartition
from kafkakit.execution.act.retrier import Retrier
from kafkakit.execution.decide.goals import Goal
from kafkakit.execution.decide.log_dir_moves import DirWork
from kafkakit.execution.decide.observation import Intake, Scene, intake_of, scene_of
from kafkakit.execution.decide.precheck import Live
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock

MIN_ISR = "min.insync.replicas"
DIRS_AT_ONCE = 200  # brokers a call; one that only tells its capacities answers in milliseconds


class ScheduleInputs:
    """Reads everything that the scheduler wants to know, once before a run."""

    def __init__(self, admin: ClusterAdmin, clock: Clock, retrier: Retrier) -> None:
        self._admin, self._clock, self._retrier = admin, clock, retrier
        self._intake = Intake()

    def scene(self, goals: Sequence[Goal], inside: Sequence[DirWork], live: Live, *, sample_s: float) -> Scene:
        """Tasks and disks now; with `sample_s` above 0 sizes are read twice, so many seconds apart.

        Without, what logs take in counts as measured before.
        """
        dirs = self._dirs(goals, inside, live)
        if sample_s > 0:
            started = self._clock.monotonic()
            self._clock.sleep(sample_s)
            later = self._dirs(goals, inside, live)
            self._intake = intake_of(goals, dirs, later, self._clock.monotonic() - started)
            dirs = later
        return scene_of(goals, inside, live, dirs, intake=self._intake, min_isr=self._min_isr(goals, live))

    def settings(self, brokers: Collection[int], keys: Collection[str]) -> Mapping[int, Mapping[str, str]]:
        """The values in force of the named keys on brokers."""
        wanted = sorted(set(brokers))
        if not wanted:
            return {}
        return self._retrier.call("reading broker settings", lambda: self._admin.broker_settings(wanted, keys))

    def _dirs(self, goals: Sequence[Goal], inside: Sequence[DirWork], live: Live) -> dict[int, BrokerLogDirs]:
        """Log dirs of every living broker: those without a part in it may serve as spares, and tell capacities only."""
        keys = sorted({g.key for g in goals} | {w.key for w in inside})
        involved = {b for g in goals for b in (*g.holders, *g.target, *(g.via or ()))}
        involved |= {w.replica.broker for w in inside}
        alive = {b for b in live.brokers if live.is_alive(b)}
        found = dict(self._read(sorted(involved & alive), keys))
        return found | dict(self._read(sorted(alive - involved), ()))

    def _read(self, brokers: Sequence[int], keys: Collection[TopicPartition]) -> dict[int, BrokerLogDirs]:
        found: dict[int, BrokerLogDirs] = {}
        for start in range(0, len(brokers), DIRS_AT_ONCE):
            part = brokers[start : start + DIRS_AT_ONCE]
            found |= self._retrier.call("reading log dirs", partial(self._admin.log_dirs, part, keys))
        return found

    def _min_isr(self, goals: Sequence[Goal], live: Live) -> dict[str, int]:
        """Each topic's smallest ISR that takes writes: its own setting, or what brokers use without one."""
        topics = sorted({g.key.topic for g in goals})
        requested = next((b for b in sorted(live.brokers) if live.is_alive(b)), None)
        usual = (
            self.settings([requested], [MIN_ISR]).get(requested, {}).get(MIN_ISR, "1") if requested is not None else "1"
        )
        own = self._retrier.call("reading topics", lambda: self._admin.dynamic_configs(ResourceKind.TOPIC, topics))
        return {t: int(own.get(t, {}).get(MIN_ISR, usual)) for t in topics}
