"""Looking at the moves of a cluster: at each tick once, and twice where there is no look before to compare with."""

from collections.abc import Collection
from dataclasses import replace

from kafkakit.autothrottle.decide.look import MovesSeen, goals_of, override_goals
from kafkakit.autothrottle.decide.observed import Observed
from kafkakit.core.durations import epoch_ms
from kafkakit.core.model import TopicPartition
from kafkakit.execution.act.retrier import ClusterReader
from kafkakit.execution.decide.goals import Goal
from kafkakit.execution.decide.status.looks import health_of
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock

MIN_ISR = "min.insync.replicas"
STALE_LOOK_S = 900.0


class MoveLooks:
    """The looks of one pacer; `sample_s` is the least time between two that are compared."""

    def __init__(self, admin: ClusterAdmin, clock: Clock, reader: ClusterReader, sample_s: float) -> None:
        self._admin, self._clock, self._reader, self._sample_s = admin, clock, reader, sample_s
        self._before: MovesSeen | None = None

    def look(self) -> tuple[MovesSeen, MovesSeen]:
        """The look before and the one of now; the same twice where nothing moves."""
        look = self._once()
        if look.goals and not self._is_comparable(look):
            self._before = look
            self._clock.sleep(self._sample_s)
            look = self._once()
        before, self._before = self._before or look, look
        return before, look

    def has_others(self) -> bool:
        """True when other moves run than at the last look; one request."""
        running = {TopicPartition(r.topic, r.partition) for r in self._admin.reassignments() if r.adding}
        return self._before is None or running != {k for k, r in self._before.live.running.items() if r.adding}

    def with_health(self, observed: Observed, look: MovesSeen) -> Observed:
        """Add counts over the partitions that do not move; reads the metadata of the whole cluster."""
        snapshot = self._admin.snapshot(now=self._clock.now(), sizes=False)
        alive = sorted(b.id for b in snapshot.brokers if b.is_alive)
        told = self._admin.broker_settings(alive[:1], [MIN_ISR])
        default = next((v[MIN_ISR] for v in told.values() if v.get(MIN_ISR, "").isdigit()), "1")
        still = tuple(
            replace(t, partitions=tuple(p for p in t.partitions if (t.name, p.partition) not in look.live.running))
            for t in snapshot.topics
        )
        health = health_of(replace(snapshot, topics=still), int(default))
        return replace(observed, under_replicated=health.under_replicated, under_min_isr=health.under_min_isr)

    def standing(self, look: MovesSeen, overridden: Collection[int]) -> tuple[Goal, ...]:
        """Goals for copies of brokers with an override that do not move; reads the metadata of the whole cluster."""
        idle = [b for b in overridden if b not in look.brokers and look.live.is_alive(b)]
        if not idle:
            return ()
        snapshot = self._admin.snapshot(now=self._clock.now(), sizes=False)
        replicas = {
            TopicPartition(t.name, p.partition): p.replicas
            for t in snapshot.topics
            for p in t.partitions
            if TopicPartition(t.name, p.partition) not in look.live.running
        }
        return override_goals(idle, replicas)

    def _once(self) -> MovesSeen:
        live = self._reader.live(())
        live = self._reader.with_states(live, live.running)
        goals = goals_of(live)
        at_ms = epoch_ms(self._clock.now())
        return MovesSeen(at_ms=at_ms, live=live, goals=goals, dirs=self._reader.dirs(goals, live))

    def _is_comparable(self, look: MovesSeen) -> bool:
        before = self._before
        if before is None:
            return False
        seconds = (look.at_ms - before.at_ms) / 1000
        known = {g.key for g in before.goals}
        return self._sample_s <= seconds <= STALE_LOOK_S and any(g.key in known for g in look.goals)
