"""Several clusters at once, each in a thread of its own: one that is away or broken never holds up another."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Event, Lock, Thread

from kafkakit.core.errors import InputError, KafkakitError, RefusedError, TryLaterError
from kafkakit.ports.clock import Clock
from kafkakit.ports.log import LogReader
from kafkakit.streams.lag.act.monitor import ClusterMonitor, FactsOf, MonitorPace
from kafkakit.streams.lag.act.state_files import StateFiles
from kafkakit.streams.lag.decide.condition import MonitorCondition, MonitorPhase
from kafkakit.streams.lag.decide.measure.table import LagTable, MeasureRules
from kafkakit.streams.lag.decide.saving import check_state

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 5.0
AFTER_FAULT_S = 30.0
PROBE_EVERY_S = 5.0
SAVE_EVERY_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoredCluster:
    """One cluster to watch: what people call it, how to connect, and which cluster it must be (None: any).

    `facts_of` reads the settings of its topics.
    """

    name: str
    open_reader: Callable[[], LogReader]
    facts_of: FactsOf
    pinned_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorContext:
    """What all watchers share: clock, where state is kept (None: nowhere), pace and rules, and who is told."""

    clock: Clock
    say: Callable[[str], None]
    states: StateFiles | None = None
    pace: MonitorPace | None = None
    rules: MeasureRules | None = None


class ClusterWatcher:
    """The thread of one cluster. While `carry` is set it monitors; otherwise it only looks whether brokers answer.

    Attributes may be read by any thread.
    """

    def __init__(self, source: MonitoredCluster, means: MonitorContext) -> None:
        self.name = source.name
        self.cluster_id = ""
        self.reached_s: float | None = None
        self.carry = Event()
        self.is_over = False
        self._source, self._means = source, means
        self._stop = Event()
        self._lock = Lock()
        self._monitor: ClusterMonitor | None = None
        self._error: KafkakitError | None = None
        self._told = ""
        self._thread = Thread(target=self._run, name=f"lag {source.name}", daemon=True)

    def start(self) -> None:
        """Begin; until then nothing is connected."""
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end; it saves what it knows first."""
        self._stop.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for its end; False when it did not end in time (a broker that hangs, say)."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def monitor(self) -> ClusterMonitor | None:
        """The monitor, None while the cluster is not carried."""
        with self._lock:
            return self._monitor

    @property
    def error(self) -> KafkakitError | None:
        """Why nothing can be had now, None while all is well."""
        return self._error

    def condition(self) -> MonitorCondition:
        """How it is doing, before there is a monitor too."""
        monitor, error = self.monitor, self._error
        now_ms = int(self._means.clock.now().timestamp() * 1000)
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
        reader = self._source.open_reader()
        try:
            self._connected(reader)
        finally:
            self._put_away()
            with suppress(Exception):
                reader.close()

    def _connected(self, reader: LogReader) -> None:
        pause_s = FIRST_PAUSE_S
        saved_s = self._means.clock.monotonic()
        while not self._stop.is_set():
            try:
                if not self.cluster_id:
                    self._identify(reader)
                if self.carry.is_set():
                    self._monitor_of(reader).tick()
                else:
                    self._put_away()
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
            elif self._means.clock.monotonic() - saved_s >= SAVE_EVERY_S:
                self._save()
                saved_s = self._means.clock.monotonic()

    def _identify(self, reader: LogReader) -> None:
        found = reader.cluster_id()
        if self._source.pinned_id not in (None, found):
            raise RefusedError(
                f"{self.name}: the profile pins cluster {self._source.pinned_id}, but the address answers as {found}",
                hint="check the address and the profile's cluster_id",
            )
        self.cluster_id = found

    def _monitor_of(self, reader: LogReader) -> ClusterMonitor:
        monitor = self.monitor
        if monitor is None:
            monitor = ClusterMonitor(
                reader,
                self._means.clock,
                self.name,
                self.cluster_id,
                facts_of=self._source.facts_of,
                pace=self._means.pace,
                rules=self._means.rules,
            )
            self._warm_up(monitor)
            with self._lock:
                self._monitor = monitor
        return monitor

    def _warm_up(self, monitor: ClusterMonitor) -> None:
        if self._means.states is None:
            return
        try:
            state = self._means.states.load(self.cluster_id, int(self._means.clock.now().timestamp() * 1000))
            if state is not None:
                check_state(state, str(self._means.states.path_of(self.cluster_id)))
                monitor.adopt(state)
        except InputError as error:
            self._means.say(f"{self.name}: the saved state is not used: {error.message}")

    def _wait_to_carry(self) -> None:
        """Wait for the next probe, or until the cluster is to be carried."""
        until_s = self._means.clock.monotonic() + PROBE_EVERY_S
        while not self._stop.is_set() and not self.carry.wait(0.2):
            if self._means.clock.monotonic() >= until_s:
                return

    def _put_away(self) -> None:
        """Let go of the monitor, with its state saved."""
        if self.monitor is not None:
            try:
                self._save()
            finally:
                with self._lock:
                    self._monitor = None

    def _save(self) -> None:
        monitor = self.monitor
        if monitor is None or self._means.states is None:
            return
        try:
            state = monitor.state()
            if state is not None:
                self._means.states.save(state)
        except (KafkakitError, OSError) as error:
            self._means.say(f"{self.name}: the state cannot be saved: {error}")

    def _succeed(self) -> None:
        self.reached_s = self._means.clock.monotonic()
        self._error = None
        if self._told:
            self._means.say(f"{self.name}: brokers answer again")
            self._told = ""

    def _fail(self, error: KafkakitError) -> None:
        self._error = error
        if self._told != error.message:
            self._told = error.message
            self._means.say(f"{self.name}: {error.message}")


class Fleet:
    """Watchers of several clusters, in the order given."""

    def __init__(self, sources: Sequence[MonitoredCluster], means: MonitorContext) -> None:
        self.watchers = tuple(ClusterWatcher(source, means) for source in sources)
        self._clock = means.clock

    def start(self, *, carrying: bool) -> None:
        """Begin with all; `carrying` False waits for each watcher's `carry`."""
        for watcher in self.watchers:
            if carrying:
                watcher.carry.set()
            watcher.start()

    def close(self, timeout_s: float = 10.0) -> tuple[str, ...]:
        """End all, with their states saved, in so much time together; returns the names of those that did not end."""
        for watcher in self.watchers:
            watcher.stop()
        until_s = self._clock.monotonic() + timeout_s
        return tuple(w.name for w in self.watchers if not w.join(max(0.0, until_s - self._clock.monotonic())))

    def tables(self) -> tuple[LagTable, ...]:
        """The tables of all clusters that have a monitor."""
        monitors = (watcher.monitor for watcher in self.watchers)
        return tuple(monitor.table() for monitor in monitors if monitor is not None)

    def conditions(self) -> tuple[MonitorCondition, ...]:
        """How each is doing."""
        return tuple(watcher.condition() for watcher in self.watchers)
