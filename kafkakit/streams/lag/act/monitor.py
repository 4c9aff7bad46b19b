"""The monitor of one cluster: follows its commit log, samples the ends of logs, reads records, and measures on demand.

One thread calls `tick` again and again; any thread may call `table` and `condition`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import RLock
from typing import TYPE_CHECKING

from kafkakit.core.durations import epoch_ms
from kafkakit.core.errors import TryLaterError
from kafkakit.ports.clock import Clock
from kafkakit.ports.log import LogReader
from kafkakit.streams.lag.act.record_reads import RecordReader
from kafkakit.streams.lag.act.sampling import EndSampler
from kafkakit.streams.lag.act.schedule import Schedule, WallClockSteps
from kafkakit.streams.lag.act.tail import OFFSETS_TOPIC, OffsetsTail
from kafkakit.streams.lag.act.topic_settings import FactsOf, TopicSettings
from kafkakit.streams.lag.decide.commit_origins import commits_as_of
from kafkakit.streams.lag.decide.condition import (
    ENDS_LIMIT_MS,
    MAX_LISTED,
    MonitorCondition,
    MonitorPhase,
    blind_spots,
    blindness,
    held_back,
)
from kafkakit.streams.lag.decide.cursors import progress_of, resume_points_of
from kafkakit.streams.lag.decide.measure.book import LagBook
from kafkakit.streams.lag.decide.measure.ends import EndSamples
from kafkakit.streams.lag.decide.measure.past_lags import set_past_lags
from kafkakit.streams.lag.decide.measure.table import LagTable, MeasureRules, keep_bounded, measure
from kafkakit.streams.lag.decide.saved_state import SavedState
from kafkakit.streams.lag.decide.saving import restore_into, resume_of, state_of
from kafkakit.streams.model.offsets_log.commits import KeyTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kafkakit.streams.model.offsets_log.commits import CommitColumns

BUSY_SHARE = 4
"""After a round that took long, the next one waits so many times as long: a quarter of the time at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorPace:
    """How often things are looked at, in seconds, and how long a fetch waits for commits, in ms.

    Records are read at no part of whole seconds: a group that commits every second may be read too early each time.
    """

    wait_ms: int = 100
    ends_s: float = 5.0
    records_s: float = 0.94
    locate_s: float = 5.0
    facts_s: float = 300.0


ERROR_S = 0.5
"""After a fault of a partition, and while there is none yet, its leaders are looked up again soon."""


class ClusterMonitor:
    """All that is known of one cluster's groups. `name` is the cluster's name for people.

    `facts_of` reads topics' settings; where it fails, the least is claimed. `topic` and `only` choose another
    offsets topic, or some of its partitions.
    """

    def __init__(
        self,
        reader: LogReader,
        clock: Clock,
        name: str,
        cluster_id: str,
        *,
        facts_of: FactsOf | None = None,
        pace: MonitorPace | None = None,
        rules: MeasureRules | None = None,
        topic: str = OFFSETS_TOPIC,
        only: Callable[[int], bool] | None = None,
    ) -> None:
        self.name, self.cluster_id = name, cluster_id
        self._clock, self._settings = clock, TopicSettings(facts_of)
        self._pace = pace if pace is not None else MonitorPace()
        self._rules = rules if rules is not None else MeasureRules()
        self._guard = RLock()
        self._keys = KeyTable()
        self.ends = EndSamples()
        self.book = LagBook(self._keys, self.ends, cluster_id)
        self._tail = OffsetsTail(reader, self._keys, self._apply, topic=topic, only=only, guard=self._guard)
        self._sampler = EndSampler(reader, self.book, self._now_ms, self._guard)
        self._records = RecordReader(reader, self.book, self._now_ms, self._guard, ttl_ms=self._rules.record_ttl_ms)
        self._phase, self._reason, self._since_ms = MonitorPhase.CONNECTING, "", self._now_ms()
        self._schedule = Schedule(clock)
        self._round_began_s = 0.0
        self._ends_every_s = self._pace.ends_s
        self._wall_clock = WallClockSteps(clock)
        self._warm_since_ms = -1
        self._reads_idle = False

    def tick(self) -> int:
        """Read everything that is due; returns how many records of the commit log it brought.

        Raises `TryLaterError` when no broker can be reached; the next tick continues where this one stopped.
        """
        try:
            return self._tick()
        except TryLaterError as error:
            self._enter(MonitorPhase.UNREACHABLE, error.message)
            self._schedule.set_due("locate", 0)
            raise

    def table(self) -> LagTable:
        """The lag of everything, now; see `measure` for the cost."""
        with self._guard:
            return measure(
                self.book,
                cluster=self.name,
                now_ms=self._now_ms(),
                commits_as_of_ms=self._commits_as_of_ms(),
                rules=self._rules,
            )

    def _commits_as_of_ms(self) -> "NDArray[np.int64]":
        rows = max(self.book.keys.capacity, len(self.book.seen_ms))
        return commits_as_of(self._tail.as_of_ms(), self._tail.is_whole(), self.book.seen_ms, rows)

    @property
    def is_live(self) -> bool:
        """True once all commits are known."""
        return self._phase is MonitorPhase.LIVE

    @property
    def rounds(self) -> int:
        """How many times all ends were sampled."""
        return self._sampler.rounds

    @property
    def reads_idle(self) -> bool:
        """True when the last look found no record that had to be read."""
        return self._reads_idle

    def condition(self) -> MonitorCondition:
        """How the monitor is doing."""
        with self._guard:
            cursors = [c for _, c in sorted(self._tail.cursors.items())]
            blind, held = blind_spots(cursors), held_back(cursors)
            as_of = [c.as_of_ms for c in cursors]
            done, total = progress_of(cursors)
            found = MonitorCondition(
                cluster=self.name,
                cluster_id=self.cluster_id,
                at_ms=self._now_ms(),
                phase=self._phase,
                reason=self._reason,
                since_ms=self._since_ms,
                as_of_ms=min(as_of, default=-1),
                ends_as_of_ms=self._sampler.as_of_ms,
                ends_known_ms=self._sampler.known_ms,
                ends_limit_ms=max(ENDS_LIMIT_MS, round(3000 * self._ends_every_s)),
                done=done,
                total=total,
                partitions=len(cursors),
                blind=tuple(blind[:MAX_LISTED]),
                blind_count=len(blind),
                held_back=tuple(held[:MAX_LISTED]),
                held_back_count=sum(c.open_transaction_count for c in cursors),
                held_back_commits=sum(c.held_back for c in cursors),
                missing_topics=self._sampler.missing[:MAX_LISTED],
                missing_topics_count=len(self._sampler.missing),
                end_errors=dict(sorted(self._sampler.errors.items())),
                group_partitions=len(self.book),
                refused_rows=self.book.rows_refused,
                refused_metadata=self.book.metadata.refused,
                refused_partitions=self.book.rows_without_partition,
                record_reads=self._records.reads,
                record_failures=self._records.failures,
                clock_steps=self._wall_clock.count,
                warm_since_ms=self._warm_since_ms,
                totals=self._tail.totals,
            )
        missing = blindness(found) if found.phase is MonitorPhase.LIVE else ""
        return replace(found, phase=MonitorPhase.BLIND, reason=missing) if missing else found

    def adopt(self, state: SavedState) -> None:
        """Continue from what an earlier run saved, before the first tick; the topic's id must be the one that is there.

        Figures keep their age until newer commits and ends have come in.
        """
        with self._guard:
            keys, sources = restore_into(self.book, state)
            self._tail.adopt(state.topic_id, keys, sources, resume_of(state))
            self._warm_since_ms = state.saved_ms

    def state(self) -> SavedState | None:
        """What another run can continue from; None before all commits are known."""
        with self._guard:
            points = resume_points_of(self._tail.cursors.values())
            if not self.is_live or not self._tail.topic_id or len(points) < len(self._tail.cursors):
                return None
            return state_of(
                self.book,
                self._tail.origins.partition,
                cluster_id=self.cluster_id,
                topic_id=self._tail.topic_id,
                saved_ms=self._now_ms(),
                points=points,
            )

    def _tick(self) -> int:
        self._check_clock()
        if self._schedule.is_due("locate", self._pace.locate_s):
            self._tail.locate()
        count = self._tail.poll(self._pace.wait_ms, self._now_ms())
        if not self._tail.cursors or any(c.error is not None for c in self._tail.cursors.values()):
            self._schedule.bring_forward("locate", ERROR_S)
        if not self._tail.cursors:
            # No group has committed yet: the topic comes with the first one.
            self._clock.sleep(self._pace.wait_ms / 1000)
        if self._phase is MonitorPhase.LIVE:
            self._sample()
        self._enter(MonitorPhase.LIVE if self._tail.is_caught_up else MonitorPhase.READING, "")
        return count

    def _sample(self) -> None:
        if self._sampler.is_idle and self._schedule.is_due("ends", self._pace.ends_s):
            self._round_began_s = self._clock.monotonic()
            self._sampler.begin()
            self._read_settings()
        if not self._sampler.is_idle:
            self._sampler.step()
            if self._sampler.is_idle and self._sampler.rounds == 1:
                with self._guard:
                    set_past_lags(self.book, self._now_ms())
            if self._sampler.is_idle:
                took_s = self._clock.monotonic() - self._round_began_s
                self._ends_every_s = max(self._pace.ends_s, BUSY_SHARE * took_s)
                self._schedule.set_due("ends", self._ends_every_s - took_s)
        if self._sampler.rounds and self._schedule.is_due("records", self._pace.records_s):
            self._reads_idle = self._records.step() == 0
        if self._records.noted:  # what is read proves something once the commits of that moment are known, too
            self._keep_bounded(sorted(set(self._records.noted)))

    def _keep_bounded(self, rows: list[int]) -> None:
        import numpy as np

        with self._guard:
            keep_bounded(
                self.book,
                np.array(rows, dtype=np.int64),
                now_ms=self._now_ms(),
                commits_as_of_ms=self._commits_as_of_ms(),
                rules=self._rules,
            )

    def _read_settings(self) -> None:
        """Settings of new topics at once, of all topics every few minutes."""
        facts = self._settings.read(self._sampler.topics, refresh=self._schedule.is_due("facts", self._pace.facts_s))
        with self._guard:
            for name, fact in sorted(facts.items()):
                self.ends.topics.set_facts(name, fact)

    def _apply(self, columns: "CommitColumns") -> "NDArray[np.int64]":
        return self.book.apply(columns, self._now_ms())

    def _check_clock(self) -> None:
        """A wall clock that was set: samples of later times would be taken for the newest for as long, and those of
        before a step ahead would make records older than they are."""
        if self._wall_clock.was_set():
            self._sampler.drop()
            self._schedule.set_due("ends", 0)

    def _enter(self, phase: MonitorPhase, reason: str) -> None:
        if phase is not self._phase:
            self._phase, self._since_ms = phase, self._now_ms()
        self._reason = reason

    def _now_ms(self) -> int:
        return epoch_ms(self._clock.now())
