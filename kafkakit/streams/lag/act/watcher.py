"""The monitoring of one cluster in a thread of its own: a cluster that is away or broken never holds up another."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Event, Lock, Thread

from kafkakit.core.durations import epoch_ms
from kafkakit.core.errors import InputError, KafkakitError, RefusedError, TryLaterError
from kafkakit.ports.clock import Clock
from kafkakit.ports.groups import GroupAdmin
from kafkakit.ports.log import LogReader
from kafkakit.streams.lag.act.monitor import ClusterMonitor, MonitorPace
from kafkakit.streams.lag.act.state_files import StateFiles
from kafkakit.streams.lag.act.topic_settings import FactsOf
from kafkakit.streams.lag.decide.condition import MonitorCondition, MonitorPhase
from kafkakit.streams.lag.decide.measure.table import MeasureRules
from kafkakit.streams.lag.decide.saving import check_state

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 2.0
AFTER_FAULT_S = 30.0
PROBE_EVERY_S = 5.0
SAVE_EVERY_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoredCluster:
    """One cluster to watch: its name for people, how to connect, and the id that it must have (None: any).

    `facts_of` reads the settings of its topics; `open_groups` is for the members of groups alone.
    """

    name: str
    open_reader: Callable[[], LogReader]
    facts_of: FactsOf
    open_groups: Callable[[], GroupAdmin]
    pinned_id: str | None = None


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

    def start(self) -> None:
        """Begin; until then nothing is connected."""
        self._thread.start()

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
        phase = MonitorPhase.CONNECTING if error is None or isinstance(error, TryLaterError) else MonitorPhase.REFUSED
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

    def _one_connection(self) -> None:
        reader = self._cluster.open_reader()
        try:
            self._connected(reader)
        finally:
            self._drop_monitor()
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
