"""The monitor of one cluster, and the thread that runs it.

The monitor follows the commit log, samples the ends of logs, reads records, and measures on demand. One thread calls
`tick` again and again; any thread may call `table` and `condition`. Each job of a tick is due again at its own pace; a
step of the wall clock is noticed.

Each cluster has a thread of its own, so one that is away or broken never holds up another. Its state is kept in one
file of a folder of the state dir, and beside it the figures of its groups, for other commands to show.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Lock, RLock, Thread
from typing import TYPE_CHECKING

from kafkakit.core.errors import ConnectRefusedError, InputError, KafkakitError, RefusedError, TryLaterError
from kafkakit.core.lease import check_path
from kafkakit.core.model import OFFSETS_TOPIC
from kafkakit.core.quantities import epoch_ms
from kafkakit.ports.acting import Clock, Timetable, pause
from kafkakit.ports.data import GroupAdmin, LogReader
from kafkakit.streams.lag.act.reading import (
    EndSampler,
    FactsOf,
    LagRecordReader,
    OffsetsTail,
    TopicSettings,
    read_owned,
)
from kafkakit.streams.lag.decide.measure.book import LagBook, set_past_lags
from kafkakit.streams.lag.decide.measure.ends import EndSamples
from kafkakit.streams.lag.decide.measure.owned_partitions import CommittedKeys, GroupKey, OwnedPartitions, with_owned
from kafkakit.streams.lag.decide.measure.table import LagTable, MeasureRules, keep_bounded, measure, places_of
from kafkakit.streams.lag.decide.monitors import (
    BUSY_SHARE,
    ENDS_LIMIT_MS,
    MAX_LISTED,
    MonitorCondition,
    MonitorPhase,
    blind_spots,
    blindness,
    busy_round_s,
    held_back,
)
from kafkakit.streams.lag.decide.saved_groups import GROUPS_DOCUMENT, SAVED_LIMIT_BYTES, SavedGroups, groups_of
from kafkakit.streams.lag.decide.saved_state import (
    LIMIT_BYTES,
    SavedState,
    check_state,
    commits_as_of,
    decode_state,
    encode_state,
    progress_of,
    restore_into,
    resume_of,
    resume_points_of,
    state_of,
)
from kafkakit.streams.model.offsets_log.commits import KeyTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kafkakit.streams.model.offsets_log.commits import CommitColumns


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
        self._tail = OffsetsTail(
            reader,
            self._keys,
            self._apply,
            topic=topic,
            only=only,
            guard=self._guard,
            sample_ms=self.book.window.step_ms,
        )
        self._sampler = EndSampler(reader, self.book, self._now_ms, self._guard)
        self._records = LagRecordReader(reader, self.book, self._now_ms, self._guard, ttl_ms=self._rules.record_ttl_ms)
        self._phase, self._reason, self._since_ms = MonitorPhase.CONNECTING, "", self._now_ms()
        self._schedule = Timetable(clock)
        self._round_began_s = self._last_round_s = 0.0
        self._ends_every_s = self._pace.ends_s
        self._wall_clock = WallClockSteps(clock)
        self._warm_since_ms = -1
        self._reads_idle = False
        self._owned: OwnedPartitions | None = None

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
            found = measure(
                self.book,
                cluster=self.name,
                now_ms=self._now_ms(),
                commits_as_of_ms=self._commits_as_of_ms(),
                rules=self._rules,
            )
            owned = self._owned
        return found if owned is None else with_owned(found, owned, stale_after_ms=OWNED_STALE_MS)

    def lacking(self, keys: Sequence[GroupKey]) -> tuple[GroupKey, ...]:
        """Those of the group-partitions for which there is no commit."""
        with self._guard:
            rows = self.book.rows()
            groups, group, topics, topic = places_of(self.book, rows)
            partition = self.book.keys.partition[rows].astype("int64")
        held = CommittedKeys(groups=groups, topics=topics, group=group, topic=topic, partition=partition)
        return held.lacking(keys)

    def group_names(self) -> tuple[str, ...]:
        """The groups that have a commit, sorted."""
        with self._guard:
            return places_of(self.book, self.book.rows())[0]

    def set_owned(self, owned: OwnedPartitions) -> None:
        """Take over what members own without a commit."""
        with self._guard:
            self._owned = owned

    def miss_owned(self, problem: str) -> None:
        """Note why it cannot be read what members own; what was known gets older."""
        with self._guard:
            before = self._owned if self._owned is not None else OwnedPartitions(as_of_ms=self._now_ms())
            self._owned = replace(before, problem=problem)

    @property
    def is_owned_known(self) -> bool:
        """True once it was read, or could not be read, what members own."""
        return self._owned is not None

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
                owned_problem="" if self._owned is None else self._owned.problem,
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
            pause(self._clock, self._pace.wait_ms / 1000)
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
                busy_s = busy_round_s(took_s, self._last_round_s, self._sampler.chunks)
                self._last_round_s = took_s
                self._ends_every_s = max(self._pace.ends_s, BUSY_SHARE * busy_s)
                self._schedule.set_due("ends", max(ERROR_S, self._ends_every_s - took_s))
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


FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 2.0
AFTER_FAULT_S = 30.0
PROBE_EVERY_S = 5.0
SAVE_EVERY_S = 60.0
OWNED_EVERY_S = 30.0
OWNED_NAP_S = 0.1
OWNED_STALE_MS = 90_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoredCluster:
    """One cluster to watch: its name for people, how to connect, and the id that it must have (None: any).

    `facts_of` reads the settings of its topics; `open_groups` is for the members of groups only.
    """

    name: str
    open_reader: Callable[[], LogReader]
    facts_of: FactsOf
    open_groups: Callable[[], GroupAdmin]
    pinned_id: str | None = None


MAX_AGE_MS = 12 * 3600 * 1000
"""Brokers keep tombstones for a day (delete.retention.ms): what is read on from an older state could miss some."""


class StateFiles:
    """Reads and replaces the files; `read_input` and `write_file` are those of `wiring`."""

    def __init__(
        self, folder: Path, read_input: Callable[[Path, int], bytes], write_file: Callable[[Path, bytes, int], None]
    ) -> None:
        self._folder, self._read_input, self._write_file = folder, read_input, write_file

    def path_of(self, cluster_id: str) -> Path:
        """Where one cluster's file is."""
        check_path(cluster_id)
        return self._folder / f"{cluster_id}.state"

    def load(self, cluster_id: str, now_ms: int) -> SavedState | None:
        """The cluster's state, None where there is none; `InputError` when it must not be used, with the reason."""
        path = self.path_of(cluster_id)
        if not path.exists():
            return None
        state = decode_state(self._read_input(path, LIMIT_BYTES), str(path))
        if state.cluster_id != cluster_id:
            raise InputError(str(path), f"is of cluster {state.cluster_id}")
        if now_ms - state.saved_ms > MAX_AGE_MS:
            raise InputError(str(path), "is older than 12 hours; deletions may be gone from the log by now")
        if state.saved_ms - now_ms > MAX_AGE_MS:
            raise InputError(str(path), "is from the future; the clock was changed")
        return state

    def save(self, state: SavedState) -> None:
        """Replace the cluster's file; raises `KafkakitError` when it cannot be written."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise KafkakitError(f"cannot make {self._folder}: {error.strerror}") from None
        self._write_file(self.path_of(state.cluster_id), encode_state(state), 0o600)

    def groups_path(self, cluster_id: str) -> Path:
        """Where the figures of one cluster's groups are."""
        check_path(cluster_id)
        return self._folder / f"{cluster_id}.groups.json"

    def load_groups(self, cluster_id: str) -> SavedGroups | None:
        """The figures that were saved last, None where there are none; `InputError` when they cannot be read."""
        path = self.groups_path(cluster_id)
        if not path.exists():
            return None
        return GROUPS_DOCUMENT.decode(self._read_input(path, SAVED_LIMIT_BYTES), str(path))

    def save_groups(self, groups: SavedGroups) -> None:
        """Replace the figures; raises `KafkakitError` when they cannot be written."""
        self._write_file(self.groups_path(groups.cluster_id), GROUPS_DOCUMENT.encode(groups), 0o600)


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorContext:
    """What all watchers share: clock, where warnings go and state is kept (None: nowhere), pace and rules."""

    clock: Clock
    warn: Callable[[str], None]
    states: StateFiles | None = None
    pace: MonitorPace | None = None
    rules: MeasureRules | None = None


class ClusterWatcher:
    """The thread of one cluster. While `carry` is set it monitors; otherwise it only checks whether brokers answer.

    Attributes may be read by any thread.
    """

    def __init__(self, cluster: MonitoredCluster, context: MonitorContext) -> None:
        self.name = cluster.name
        self.cluster_id = ""
        self.reached_s: float | None = None
        self.carry = Event()
        self.is_over = False
        self._cluster, self._context = cluster, context
        self._stop = Event()
        self._lock = Lock()
        self._monitor: ClusterMonitor | None = None
        self._error: KafkakitError | None = None
        self._reported = ""
        self._thread = Thread(target=self._run, name=f"lag {cluster.name}", daemon=True)
        self._owned_thread = Thread(target=self._run_owned, name=f"owned {cluster.name}", daemon=True)

    def start(self) -> None:
        """Begin; until then nothing is connected."""
        self._thread.start()
        self._owned_thread.start()

    def stop(self) -> None:
        """Request its end; it saves what it knows first."""
        self._stop.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for its end; False when it did not end in time (a broker that hangs, say)."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def monitor(self) -> ClusterMonitor | None:
        """The monitor, None while the cluster is not monitored."""
        with self._lock:
            return self._monitor

    @property
    def error(self) -> KafkakitError | None:
        """Why nothing can be read now, None while all is well."""
        return self._error

    def condition(self) -> MonitorCondition:
        """The condition of the monitor, or of the connection while there is no monitor."""
        monitor, error = self.monitor, self._error
        now_ms = epoch_ms(self._context.clock.now())
        if monitor is not None:
            found = monitor.condition()
            return replace(found, reason=error.message) if error is not None and not found.reason else found
        may_pass = error is None or (isinstance(error, TryLaterError) and not isinstance(error, ConnectRefusedError))
        phase = MonitorPhase.CONNECTING if may_pass else MonitorPhase.REFUSED
        return MonitorCondition(
            cluster=self.name,
            cluster_id=self.cluster_id,
            at_ms=now_ms,
            phase=phase,
            reason="" if error is None else error.message,
        )

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        try:
            while not self._stop.is_set():
                try:
                    self._one_connection()
                except KafkakitError as error:
                    self._fail(error)
                except Exception as error:  # a fault of ours must not end the service silently
                    self._fail(KafkakitError(f"unexpected {type(error).__name__}: {error}"))
                    pause_s = AFTER_FAULT_S
                self._stop.wait(pause_s)
                pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
        finally:
            self.is_over = True

    def _run_owned(self) -> None:
        """Read again and again what members own: beside the other thread, since coordinators may take their time."""
        while not self._stop.wait(OWNED_NAP_S):
            monitor = self.monitor
            if monitor is None or not monitor.is_live:
                continue
            now_ms = epoch_ms(self._context.clock.now())
            try:
                monitor.set_owned(
                    read_owned(
                        self._cluster.open_groups,
                        self._cluster.open_reader,
                        monitor.group_names(),
                        monitor.lacking,
                        now_ms,
                    )
                )
            except KafkakitError as error:
                monitor.miss_owned(error.message)
            except Exception as error:  # a fault of ours must not end the thread silently
                monitor.miss_owned(f"unexpected {type(error).__name__}: {error}")
            due_s = self._context.clock.monotonic() + OWNED_EVERY_S
            while self.monitor is monitor and self._context.clock.monotonic() < due_s:
                if self._stop.wait(OWNED_NAP_S):
                    return

    def _one_connection(self) -> None:
        reader = self._cluster.open_reader()
        try:
            self._connected(reader)
        finally:
            try:
                self._drop_monitor()
            finally:
                with suppress(Exception):
                    reader.close()

    def _connected(self, reader: LogReader) -> None:
        pause_s = FIRST_PAUSE_S
        saved_s = self._context.clock.monotonic()
        while not self._stop.is_set():
            try:
                if not self.cluster_id:
                    self._identify(reader)
                if self.carry.is_set():
                    self._monitor_of(reader).tick()
                else:
                    self._drop_monitor()
                    reader.cluster_id()
                self._succeed()
                pause_s = FIRST_PAUSE_S
            except TryLaterError as error:
                self._fail(error)
                self._stop.wait(pause_s)
                pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
                continue
            if not self.carry.is_set():
                self._wait_to_carry()
            elif self._context.clock.monotonic() - saved_s >= SAVE_EVERY_S:
                self._save()
                saved_s = self._context.clock.monotonic()

    def _identify(self, reader: LogReader) -> None:
        found = reader.cluster_id()
        if self._cluster.pinned_id not in (None, found):
            raise RefusedError(
                f"{self.name}: the profile pins cluster {self._cluster.pinned_id}, but the address answers as {found}",
                hint="check the address and the profile's cluster_id",
            )
        self.cluster_id = found

    def _monitor_of(self, reader: LogReader) -> ClusterMonitor:
        monitor = self.monitor
        if monitor is None:
            monitor = ClusterMonitor(
                reader,
                self._context.clock,
                self.name,
                self.cluster_id,
                facts_of=self._cluster.facts_of,
                pace=self._context.pace,
                rules=self._context.rules,
            )
            self._restore(monitor)
            with self._lock:
                self._monitor = monitor
        return monitor

    def _restore(self, monitor: ClusterMonitor) -> None:
        if self._context.states is None:
            return
        try:
            state = self._context.states.load(self.cluster_id, epoch_ms(self._context.clock.now()))
            if state is not None:
                check_state(state, str(self._context.states.path_of(self.cluster_id)))
                monitor.adopt(state)
        except InputError as error:
            self._context.warn(f"{self.name}: the saved state is not used: {error.message}")

    def _wait_to_carry(self) -> None:
        """Wait for the next probe, or until the cluster is to be monitored."""
        until_s = self._context.clock.monotonic() + PROBE_EVERY_S
        while not self._stop.is_set() and not self.carry.wait(0.2):
            if self._context.clock.monotonic() >= until_s:
                return

    def _drop_monitor(self) -> None:
        """Drop the monitor, with its state saved."""
        if self.monitor is not None:
            try:
                self._save()
            finally:
                with self._lock:
                    self._monitor = None

    def _save(self) -> None:
        monitor = self.monitor
        if monitor is None or self._context.states is None:
            return
        try:
            state = monitor.state()
            if state is not None:
                self._context.states.save(state)
                self._context.states.save_groups(groups_of(monitor.table(), monitor.cluster_id))
        except (KafkakitError, OSError) as error:
            self._context.warn(f"{self.name}: the state cannot be saved: {error}")

    def _succeed(self) -> None:
        self.reached_s = self._context.clock.monotonic()
        self._error = None
        if self._reported:
            self._context.warn(f"{self.name}: brokers answer again")
            self._reported = ""

    def _fail(self, error: KafkakitError) -> None:
        self._error = error
        if self._reported != error.message:
            self._reported = error.message
            self._context.warn(f"{self.name}: {error.message}")


CLOCK_STEP_S = 1.0


class WallClockSteps:
    """Notices that the wall clock was set, by its distance from the monotonic one. For one thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._distance_s = self._measured()
        self.count = 0

    def was_set(self) -> bool:
        """True when the wall clock moved by more than `CLOCK_STEP_S` against the monotonic one since the last call."""
        before_s, self._distance_s = self._distance_s, self._measured()
        is_step = abs(self._distance_s - before_s) > CLOCK_STEP_S
        self.count += is_step
        return is_step

    def _measured(self) -> float:
        return self._clock.monotonic() - self._clock.now().timestamp()
