"""Several clusters together: started and ended, looked at once or again and again, and served.

A single look waits until all is known. Beside a look are read the members of the groups that a view shows, and, from
the journals of this host, what kafkakit moves there.

The service gives figures on request and one summary line a minute, and shares clusters with other instances. Which
clusters are this instance's is settled by leases in a control store, one for each cluster. The lease of a lag monitor
is not the one that guards changes: reading changes nothing, and a monitor must never keep a run from starting.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from threading import Lock

from kafkakit.core.cluster_facts import GroupDescription, ItemError, cluster_id_problem
from kafkakit.core.errors import (
    ConflictError,
    ConnectRefusedError,
    InputError,
    KafkakitError,
    TryLaterError,
    UsageError,
    ended_by_stop,
)
from kafkakit.core.lease import Holder, Life, VersionedValue, monitor_lease
from kafkakit.core.quantities import count_of, epoch_ms
from kafkakit.execution.act.leases import Lease
from kafkakit.execution.act.run_journal import KnownRuns
from kafkakit.ports.acting import Clock, ProgressBar, Reporter, Screen, Timetable, repeat_every
from kafkakit.ports.data import GroupAdmin
from kafkakit.ports.stores import ControlStore
from kafkakit.report.report import text_of
from kafkakit.streams.lag.act.monitor import ClusterWatcher, MonitorContext, MonitoredCluster, MonitorPace
from kafkakit.streams.lag.act.reading import GROUPS_AT_ONCE
from kafkakit.streams.lag.decide.monitors import (
    INSTANCE_DOCUMENT,
    MAX_CLUSTERS,
    MonitorInstance,
    MonitorPhase,
    MonitorsLook,
    PublishedState,
    fair_share,
    in_own_order,
    moved_topics,
    to_give,
)
from kafkakit.streams.lag.decide.saved_groups import SavedGroups, groups_of
from kafkakit.streams.lag.decide.views import Readers, RowFilter, ViewRequest, readers_of
from kafkakit.streams.lag.report import Statuses, change_lines, statuses_of, view_sections

COMMAND_CLOSE_S = 3.0
"""How long a command waits for its watchers at the end: one whose broker hangs must not hold it up."""


class Fleet:
    """Watchers of several clusters, in the order given."""

    def __init__(self, clusters: Sequence[MonitoredCluster], context: MonitorContext) -> None:
        self.watchers = tuple(ClusterWatcher(cluster, context) for cluster in clusters)
        self.clock = context.clock

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
        until_s = self.clock.monotonic() + timeout_s
        return tuple(w.name for w in self.watchers if not w.join(max(0.0, until_s - self.clock.monotonic())))

    def look(self) -> MonitorsLook:
        """Measure what is known now."""
        conditions = tuple(watcher.condition() for watcher in self.watchers)
        monitors = (watcher.monitor for watcher in self.watchers)
        tables = tuple(monitor.table() for monitor in monitors if monitor is not None)
        return MonitorsLook(at_ms=epoch_ms(self.clock.now()), tables=tables, conditions=conditions)


@contextmanager
def running_fleet(clusters: Sequence[MonitoredCluster], context: MonitorContext) -> Iterator[Fleet]:
    """A fleet that monitors all its clusters while the context is open."""
    fleet = Fleet(clusters, context)
    try:
        fleet.start(carrying=True)
        yield fleet
    finally:
        fleet.close(COMMAND_CLOSE_S)


ONCE_PACE = MonitorPace(ends_s=1.0, records_s=0.1)
ROUNDS = 2
UNREACHABLE_S = 15.0
NAP_S = 0.05


def look_once(fleet: Fleet, reporter: Reporter | None, *, wait_s: float, rounds: int = ROUNDS) -> MonitorsLook:
    """Wait until all commits, `rounds` samples of all ends and the times of records are known; then measure.

    A cluster that does not answer for `UNREACHABLE_S`, refuses us, or is not ready after `wait_s`, is given up: its
    figures, if there are any, carry their age. Raises `UsageError` if a cluster can never be read as it is configured.
    Without a `reporter` nothing is shown meanwhile.
    """
    clock = fleet.clock
    began_s = clock.monotonic()
    with nullcontext() if reporter is None else reporter.progress("reading commits") as bar:
        for _ in repeat_every(clock, NAP_S, wait_s):
            waited_s = clock.monotonic() - began_s
            for watcher in fleet.watchers:
                if isinstance(watcher.error, UsageError):
                    raise watcher.error
            waiting = [w for w in fleet.watchers if not _is_ready(w, rounds) and not _is_hopeless(w, waited_s)]
            if not waiting or waited_s >= wait_s:
                break
            if bar is not None:
                _show_progress(fleet, bar, waiting)
        return fleet.look()


def measure_groups(cluster: MonitoredCluster, context: MonitorContext, *, wait_s: float) -> SavedGroups:
    """The figures of one cluster's groups now, as one look gives them; `TryLaterError` where they are not known."""
    with running_fleet((cluster,), context) as fleet:
        look = look_once(fleet, None, wait_s=wait_s)
    if look.failure is not None:
        raise look.failure
    return groups_of(look.tables[0], look.conditions[0].cluster_id)


def watch_looks(
    fleet: Fleet, show: Callable[[MonitorsLook], None], *, interval_s: float, count: int | None = None
) -> MonitorsLook:
    """Show a look every `interval_s`, without an end or so many times; returns the last one."""
    for _ in islice(repeat_every(fleet.clock, interval_s), count):
        look = fleet.look()
        show(look)
    return look


class LookDisplay:
    """Looks on a screen: the table `in_place`, or else a line for each change since the look before."""

    def __init__(self, screen: Screen, request: ViewRequest, *, in_place: bool) -> None:
        self._screen, self._request, self._in_place = screen, request, in_place
        self._statuses: Statuses = {}
        self._notes: frozenset[str] = frozenset()

    def show(self, look: MonitorsLook) -> None:
        """Show one look."""
        view = self._request.of(look.tables)
        if self._in_place:
            self._screen.show(text_of(view_sections(view, look.conditions, look.at_ms)), "")
            return
        notes = frozenset(f"{c.cluster}: {note}" for c in look.conditions for note in c.notes)
        for line in (*change_lines(self._statuses, view), *sorted(notes - self._notes)):
            self._screen.show("", line)
        self._statuses, self._notes = statuses_of(view), notes


def _is_ready(watcher: ClusterWatcher, rounds: int) -> bool:
    """True when everything that a look needs is there."""
    monitor = watcher.monitor
    return (
        monitor is not None
        and watcher.error is None
        and monitor.is_live
        and monitor.rounds >= rounds
        and monitor.reads_idle
        and monitor.is_owned_known
    )


def _is_hopeless(watcher: ClusterWatcher, waited_s: float) -> bool:
    # No wait makes settings right that a cluster refuses.
    is_refused = isinstance(watcher.error, ConnectRefusedError)
    return is_refused or (watcher.error is not None and waited_s >= UNREACHABLE_S)


def _show_progress(fleet: Fleet, bar: ProgressBar, waiting: list[ClusterWatcher]) -> None:
    conditions = [w.condition() for w in fleet.watchers]
    done, total = sum(c.done for c in conditions), sum(c.total for c in conditions)
    records = sum(c.totals.records for c in conditions)
    names = ", ".join(w.name for w in waiting[:3])
    what = "reading commits" if any(c.phase is MonitorPhase.READING for c in conditions) else "sampling ends"
    bar.update(done, total, f"{what} of {names}, {records:,} records")


TICK_S = 1.0
SUMMARY_EVERY_S = 60.0
SEND_EVERY_S = 10.0
REACHED_S = 30.0
"""A cluster that gave no answer for so long is let go of, for another instance that may reach it."""
FRESH_S = 1.0

TTL_S = 6.0
SETTLE_S = 15.0
FORGET_S = 600.0
INSTANCES = "lag/instances"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareChanges:
    """What one tick changed: clusters taken, and clusters given up with the reason."""

    taken: tuple[str, ...] = ()
    lost: tuple[tuple[str, str], ...] = ()


class ClusterShares:
    """One instance's clusters. `tick` is for one thread, to be called about every second; `holds` for any.

    `holder` names this process, `name` its document. `life_of` returns what is certain of another process.
    """

    def __init__(
        self,
        store: ControlStore,
        clock: Clock,
        holder: Holder,
        name: str,
        *,
        life_of: Callable[[Holder], Life],
        warn: Callable[[str], None],
        ttl_s: float = TTL_S,
    ) -> None:
        self._store, self._clock, self._holder, self._name = store, clock, holder, name
        self._life_of, self._warn, self._ttl_s = life_of, warn, ttl_s
        self._leases: dict[str, Lease] = {}
        self._held: set[str] = set()
        self._others: dict[str, _OtherInstance] = {}
        self._beats = 0
        self._own_version: int | None = None
        self._settled_s = clock.monotonic()
        self._store_was_away = False
        self._unreadable: set[str] = set()

    @property
    def instances(self) -> int:
        """How many instances live, this one among them, as far as is known."""
        return 1 + len(self._living())

    def carried(self) -> tuple[str, ...]:
        """The clusters that are certainly ours at this moment."""
        return tuple(sorted(c for c in tuple(self._held) if self.holds(c)))

    def holds(self, cluster_id: str) -> bool:
        """Whether this instance may publish the cluster's figures at this moment; no I/O."""
        lease = self._leases.get(cluster_id)
        return lease is not None and lease.is_held()

    def tick(self, reached: Collection[str]) -> ShareChanges:
        """Renew, take what is free up to the fair share, and give up what is too much.

        `reached` are the clusters that this instance can connect to now; others are given up. While the control store
        is away, leases run out: another instance may take them.
        """
        lost = self._renew(reached)
        before = set(self._held)
        try:
            self._announce(reached)
            self._look_around()
            self._take(reached)
            lost += self._give(reached)
            self._store_was_away = False
        except KafkakitError as error:
            if not self._store_was_away:
                what = "does not answer" if isinstance(error, TryLaterError) else "cannot be used"
                self._warn(f"the control store {what} ({error.message}); clusters are neither taken over nor released")
            self._store_was_away = True
        # What was taken before a fault is ours: no other instance monitors it.
        return ShareChanges(taken=tuple(sorted(self._held - before)), lost=tuple(lost))

    def close(self) -> None:
        """Release all leases, so that the others take over at once; what cannot be released expires by itself."""
        for cluster_id in sorted(self._held):
            self._leases[cluster_id].release()
        self._held.clear()
        try:
            if self._own_version is not None:
                self._store.delete(f"{INSTANCES}/{self._name}", self._own_version)
        except KafkakitError as error:
            self._warn(f"the document of this instance could not be removed ({error.message}); it expires by itself")

    def _renew(self, reached: Collection[str]) -> list[tuple[str, str]]:
        lost: list[tuple[str, str]] = []
        for cluster_id in sorted(self._held):
            if cluster_id not in reached:
                self._leases[cluster_id].release()
                lost.append((cluster_id, "it cannot be reached from this host"))
                self._held.discard(cluster_id)
                continue
            try:
                self._leases[cluster_id].require_held()
            except KafkakitError as error:
                # Also a lease that was overwritten with what cannot be read.
                lost.append((cluster_id, error.message))
                self._held.discard(cluster_id)
        return lost

    def _announce(self, reached: Collection[str]) -> None:
        self._beats += 1
        note = MonitorInstance(
            holder=self._holder,
            beats=self._beats,
            carries=tuple(sorted(self._held)[:MAX_CLUSTERS]),
            reaches=tuple(sorted(reached)[:MAX_CLUSTERS]),
        )
        path = f"{INSTANCES}/{self._name}"
        try:
            self._own_version = self._store.cas(path, INSTANCE_DOCUMENT.encode(note), self._own_version)
        except ConflictError:
            # An earlier write arrived although its answer was lost, or another process removed the document.
            found = self._store.get(path)
            self._own_version = None if found is None else found.version

    def _look_around(self) -> None:
        before = set(self._living())
        now_s = self._clock.monotonic()
        names = [name for name in self._store.children(INSTANCES) if name != self._name]
        for name in names:
            path = f"{INSTANCES}/{name}"
            document = self._store.get(path)
            seen = self._others.get(name)
            if document is None:
                self._others.pop(name, None)
            elif seen is None or seen.document != document:
                self._others[name] = _OtherInstance(document, now_s, _read(document, path))
            elif now_s - seen.since_s > FORGET_S:
                self._forget(name, document)
        for name in sorted(self._others.keys() - set(names)):
            del self._others[name]
        if set(self._living()) != before:
            self._settled_s = now_s

    def _forget(self, name: str, document: VersionedValue) -> None:
        """Remove the document of an instance that ended without removing it; names are never used again."""
        try:
            self._store.delete(f"{INSTANCES}/{name}", document.version)
        except ConflictError:
            return
        self._others.pop(name, None)

    def _living(self) -> dict[str, MonitorInstance]:
        now_s = self._clock.monotonic()
        return {
            name: seen.instance
            for name, seen in sorted(self._others.items())
            if seen.instance is not None
            and now_s - seen.since_s < self._ttl_s
            and self._life_of(seen.instance.holder) is not Life.GONE
        }

    def _take(self, reached: Collection[str]) -> None:
        living = self._living()
        known = set(reached).union(*(set(o.reaches) | set(o.carries) for o in living.values()))
        share = fair_share(len(known), 1 + len(living))
        # Every cluster of others is looked at, so that the time of a holder that stopped renewing runs from now on.
        for cluster_id in in_own_order(self._name, set(reached) - self._held):
            lease = self._lease(cluster_id)
            try:
                if len(self._held) >= share:
                    lease.look()
                elif lease.attempt(self._ttl_s):
                    self._held.add(cluster_id)
                self._unreadable.discard(cluster_id)
            except InputError as error:
                if cluster_id not in self._unreadable:
                    self._warn(f"the lease of {cluster_id} cannot be read ({error.message}); it is not monitored")
                self._unreadable.add(cluster_id)

    def _give(self, reached: Collection[str]) -> list[tuple[str, str]]:
        """One at most in a tick, and only when no instance came or went for a while, so that restarts move little."""
        if self._clock.monotonic() - self._settled_s < SETTLE_S:
            return []
        cluster_id = to_give(sorted(self._held), self._living())
        if cluster_id is None:
            return []
        self._leases[cluster_id].release()
        self._held.discard(cluster_id)
        self._settled_s = self._clock.monotonic()
        return [(cluster_id, "handed over to an instance that monitors fewer")]

    def _lease(self, cluster_id: str) -> Lease:
        if cluster_id not in self._leases:
            self._leases[cluster_id] = Lease(
                self._store,
                self._clock,
                monitor_lease(cluster_id),
                self._holder,
                what=f"lag of cluster {cluster_id}",
                life_of=self._life_of,
                say=self._warn,
            )
        return self._leases[cluster_id]


class LagService:
    """Watchers of all clusters, and the leases that decide which of them this instance monitors. `report` gets a line
    for each change."""

    def __init__(self, fleet: Fleet, shares: ClusterShares, clock: Clock, report: Callable[[str], None]) -> None:
        self._fleet, self._shares, self._clock, self._report = fleet, shares, clock, report
        self._lock = Lock()
        self._published: PublishedState | None = None
        self._measured_s = 0.0
        self._records_before = 0

    def start(self) -> None:
        """Connect to all clusters; none is monitored before its lease is taken."""
        self._fleet.start(carrying=False)

    def published(self) -> PublishedState:
        """What may be published now; measured at most once in `FRESH_S`. For any thread.

        The leases are checked each time: an instance that lost one publishes nothing of that cluster from then on.
        """
        with self._lock:
            now_s = self._clock.monotonic()
            if self._published is None or now_s - self._measured_s >= FRESH_S:
                self._published, self._measured_s = self._measured(), self._clock.monotonic()
            found = self._published
        ours = {w.name for w in self._fleet.watchers if self._is_ours(w)}
        if all(c.cluster in ours for c in found.conditions):
            return found
        return PublishedState(
            at_ms=found.at_ms,
            tables=tuple(t for t in found.tables if t.cluster in ours),
            conditions=tuple(c for c in found.conditions if c.cluster in ours),
            others=tuple(sorted({*found.others, *(c.cluster for c in found.conditions if c.cluster not in ours)})),
            instances=found.instances,
        )

    def is_healthy(self) -> bool:
        """True while every watcher's thread runs, and of every monitored cluster all is read."""
        return not any(
            w.is_over or (self._is_ours(w) and (w.error is not None or w.condition().phase is MonitorPhase.BLIND))
            for w in self._fleet.watchers
        )

    def tick(self) -> None:
        """Renew, take and give clusters; to be called about every second by one thread."""
        now_s = self._clock.monotonic()
        by_id: dict[str, ClusterWatcher] = {}
        for watcher in self._fleet.watchers:
            if watcher.cluster_id and watcher.reached_s is not None and now_s - watcher.reached_s < REACHED_S:
                by_id.setdefault(watcher.cluster_id, watcher)
        changes = self._shares.tick(by_id)
        for cluster_id in changes.taken:
            by_id[cluster_id].carry.set()
            self._report(f"{by_id[cluster_id].name}: monitored by this instance from now on")
        for cluster_id, reason in changes.lost:
            for watcher in self._fleet.watchers:
                if watcher.cluster_id == cluster_id and watcher.carry.is_set():
                    watcher.carry.clear()
                    self._report(f"{watcher.name}: no longer monitored: {reason}")

    def summary(self, memory_bytes: int) -> str:
        """How the last minute went, in one line."""
        found = self.published()
        rows = sum(len(t) for t in found.tables)
        behind = sum(int((t.lag > 0).sum()) for t in found.tables)
        records = sum(c.totals.records for c in found.conditions)
        fresh, self._records_before = max(0, records - self._records_before), records
        blind = sum(c.blind_count for c in found.conditions)
        notes = sum(bool(c.notes) for c in found.conditions)
        return (
            f"monitors {len(found.conditions)} of {count_of(len(self._fleet.watchers), 'cluster')}, "
            f"{count_of(found.instances, 'instance')}; "
            f"{rows:,} group-partitions, {behind:,} behind; {fresh:,} commit records read; "
            f"{count_of(blind, 'unreadable partition')}, {count_of(notes, 'cluster')} with notes; "
            f"{memory_bytes >> 20} MiB"
        )

    def close(self) -> None:
        """Save what is known, then give the clusters to the others."""
        for name in self._fleet.close():
            self._report(f"{name}: did not end in time; its state is as of the last save")
        self._shares.close()

    def _measured(self) -> PublishedState:
        carried = [(w, w.monitor) for w in self._fleet.watchers if self._is_ours(w)]
        return PublishedState(
            tables=tuple(monitor.table() for _, monitor in carried if monitor is not None),
            conditions=tuple(w.condition() for w, _ in carried),
            others=tuple(sorted({w.name for w in self._fleet.watchers} - {w.name for w, _ in carried})),
            instances=self._shares.instances,
            at_ms=epoch_ms(self._clock.now()),
        )

    def _is_ours(self, watcher: ClusterWatcher) -> bool:
        return watcher.carry.is_set() and self._shares.holds(watcher.cluster_id)


def run_service(
    service: LagService,
    clock: Clock,
    *,
    report: Callable[[str], None],
    notify: Callable[..., bool],
    memory_bytes: Callable[[], int],
    require_listening: Callable[[], None],
    send: Callable[[PublishedState], None] | None = None,
) -> None:
    """Run until a stop is requested; raises `ServiceStoppedError` for SIGTERM and Ctrl-C.

    `require_listening` is called each second, and raises if nothing is served any more.

    States are saved and leases given back before."""
    schedule = Timetable(clock)
    schedule.set_due("summary", SUMMARY_EVERY_S)
    schedule.set_due("send", SEND_EVERY_S)
    with closing(service), ended_by_stop(lambda: "the state is saved and the clusters are released", notify):
        service.start()
        notify("READY=1")
        for _ in repeat_every(clock, TICK_S):
            service.tick()
            require_listening()
            notify("WATCHDOG=1")
            if send is not None and schedule.is_due("send", SEND_EVERY_S):
                send(service.published())
            if schedule.is_due("summary", SUMMARY_EVERY_S):
                line = service.summary(memory_bytes())
                report(line)
                notify(f"STATUS={line}")


@dataclass(slots=True)
class _OtherInstance:
    document: VersionedValue
    since_s: float
    instance: MonitorInstance | None


def _read(document: VersionedValue, path: str) -> MonitorInstance | None:
    """A document that cannot be read (of a newer version, say) counts as no instance."""
    try:
        return INSTANCE_DOCUMENT.stored(document.value, path)
    except KafkakitError:
        return None


def read_members(open_groups: Mapping[str, Callable[[], GroupAdmin]], wanted: Mapping[str, Sequence[str]]) -> Readers:
    """Describe the wanted groups of each cluster, 500 at once; what cannot be described becomes a note."""
    found: dict[tuple[str, str], GroupDescription | ItemError] = {}
    for cluster, groups in wanted.items():
        try:
            with closing(open_groups[cluster]()) as admin:
                for first in range(0, len(groups), GROUPS_AT_ONCE):
                    answers = admin.describe(groups[first : first + GROUPS_AT_ONCE])
                    found |= {(cluster, group): answer for group, answer in answers.items()}
        except KafkakitError as error:
            missing = ItemError(name=error.message)
            found |= {(cluster, group): missing for group in groups if (cluster, group) not in found}
    return readers_of(found)


def require_named(look: MonitorsLook, rows: RowFilter, clusters: Sequence[MonitoredCluster]) -> None:
    """Raise `UsageError` for a group or topic that was named and that no cluster has, with commits or without.

    Costs nothing while the commits have all names. While a cluster is not known, so are its names, and nothing is
    raised.
    """
    missing = rows.missing(look.tables)
    if look.failure is not None or not (missing.groups or missing.topics or missing.patterns):
        return
    groups = {name for table in look.tables for name in table.groups}
    topics = {name for table in look.tables for name in table.topics}
    for cluster in clusters:
        if missing.groups:
            with closing(cluster.open_groups()) as admin:
                groups |= {listing.group for listing in admin.groups()}
        if missing.topics or missing.patterns:
            with closing(cluster.open_reader()) as reader:
                topics |= set(reader.places())
    missing.require_known(groups, topics)


def moves_of_look(
    look: MonitorsLook, state_dir: Path, now: datetime, limit_s: float, warn: Callable[[str], None]
) -> dict[tuple[str, str], str]:
    """The runs that move topics, by cluster name and topic; a journal that cannot be read silences nothing."""
    found: dict[tuple[str, str], str] = {}
    for condition in look.conditions:
        if cluster_id_problem(condition.cluster_id) is None:
            runs = KnownRuns(state_dir, condition.cluster_id)
            states = [run.state for run in runs.read()]
            found |= moved_topics(condition.cluster, states, now, limit_s)
            for problem in runs.damaged:
                warn(f"{condition.cluster}: the moves of a run are not known: {problem}")
    return found
