"""The loop of an Assigner: one of several is in charge by a lease, the others wait for it.

A tick looks at workers, routes and clusters, decides, and writes what changed. Whatever goes wrong with the store, what
was decided is given up, and the next tick reads and adopts every grant again.

In the control store stand workers and grants, requests of operators that a worker gets nothing more, and the Assigner's
own documents, which commands read. Routes of all streams are read a part at a time; those of which workers know a newer
epoch come first.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import partial
from operator import not_

from kafkakit.core.errors import ConflictError, InputError, LeaseLostError, TryLaterError, UsageError, ended_by_stop
from kafkakit.core.lease import ASSIGNER_LEASE, Holder, LeaseRecord, Life
from kafkakit.core.quantities import epoch_ms
from kafkakit.execution.act.leases import Lease, read_lease
from kafkakit.ports.acting import Clock, look_until, pause, repeat_every
from kafkakit.ports.data import ClusterClients
from kafkakit.ports.stores import ControlStore
from kafkakit.streams.assigner.act.watching import AutomaticFailovers, ClusterWatch, WatchedCluster
from kafkakit.streams.assigner.decide.assignment import (
    Assignment,
    AssignmentStep,
    Roster,
    SeenWorker,
    living_workers,
    observe_workers,
    witnesses,
)
from kafkakit.streams.assigner.decide.placing import PartitionTraffic
from kafkakit.streams.assigner.health import (
    DRAINS_FOLDER,
    HISTORY_DOCUMENT,
    HISTORY_PATH,
    MOST_LINES,
    STANDING_DOCUMENT,
    STANDING_PATH,
    AssignerOptions,
    AssignerStanding,
    AutomaticHistory,
    AutomaticPolicy,
    ClusterHealth,
    ClusterStanding,
    judge_health,
    verdicts,
)
from kafkakit.streams.client.api import (
    GRANT_DOCUMENT,
    GRANTS_FOLDER,
    WORKER_DOCUMENT,
    WORKERS_FOLDER,
    GrantDocument,
    WorkerDocument,
    grant_path,
    worker_path,
)
from kafkakit.streams.model.route import Route
from kafkakit.streams.routes.api_act import RouteStore

STANDING_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignerParts:
    """What the loop works with. `open_cluster` makes new clients of a profile's cluster, closed by who entered it."""

    store: ControlStore
    lease: Lease
    clock: Clock
    life_of: Callable[[Holder], Life]
    open_cluster: Callable[[str], AbstractContextManager[ClusterClients]]
    automatic: AutomaticFailovers
    policy: AutomaticPolicy
    say: Callable[[str], None]
    notify: Callable[..., bool] = lambda *_: False
    """Tells the service manager."""
    require_listening: Callable[[], None] = lambda: None


class AssignerLoop:
    """For one thread. Cost of a tick: a read of each worker, some routes, and what changed is written."""

    def __init__(self, parts: AssignerParts, options: AssignerOptions) -> None:
        self._parts, self._options = parts, options
        self._looks = WorkerLooks(parts.store, parts.clock, parts.life_of)
        self._grants = GrantStore(parts.store, parts.lease.require_held)
        self._catalog = RouteCatalog(RouteStore(parts.store), parts.clock, parts.lease.require_held)
        self._assignment: Assignment | None = None
        self._token = 0
        self._watches: dict[str, ClusterWatch] = {}
        self._health: dict[str, ClusterHealth] = {}
        self._profiles: dict[str, str] = {}
        self._facts: dict[tuple[str, str], tuple[PartitionTraffic, ...]] = {}
        self._looked: dict[str, int] = {}
        self._facts_version = 0
        self._workers: tuple[str, ...] = ()
        self._stable_since_s = parts.clock.monotonic()
        self._standing_s = float("-inf")
        self._problem, self._is_waiting = "", False

    def run(self) -> None:
        """Work until an error that waiting does not end, or a signal: then it raises `ServiceStoppedError`."""
        clock, tick_s = self._parts.clock, self._options.tick_s
        with closing(self), ended_by_stop(lambda: "what is granted stays granted", self._parts.notify):
            self._parts.notify("READY=1")
            for _ in repeat_every(clock, tick_s / 4):
                began_s = clock.monotonic()
                self.tick()
                self._parts.notify("WATCHDOG=1")
                self._parts.require_listening()
                pause(clock, max(0.0, 0.75 * tick_s - (clock.monotonic() - began_s)))

    def close(self) -> None:
        """Stop watching clusters, and give the lease back: what is granted stays granted."""
        self._follow_clusters({}, {})
        self._parts.lease.release()

    @property
    def is_well(self) -> bool:
        """Whether the last look at the control store came to an end; for any thread."""
        return not self._problem

    def tick(self) -> AssignmentStep | None:
        """One look and what follows from it; None while another Assigner is in charge, or the store is away."""
        try:
            step = self._lead() if self._is_in_charge() else None
        except (TryLaterError, ConflictError) as error:
            if isinstance(error, LeaseLostError) or str(error) != self._problem:
                self._parts.say(f"restarting: {error}")
            self._problem, self._assignment = str(error), None
            return None
        self._problem = ""
        return step

    def _is_in_charge(self) -> bool:
        if not self._parts.lease.hold_or_attempt(self._options.lease_ttl_s):
            if not self._is_waiting:
                self._parts.say("waiting: another Assigner has the lease")
            self._assignment, self._is_waiting = None, True
            return False
        self._is_waiting = False
        return True

    def _lead(self) -> AssignmentStep:
        parts, options = self._parts, self._options
        roster = self._looks.look()
        if self._assignment is None or self._token != parts.lease.token or self._assignment.is_used_up:
            if self._assignment is not None and self._assignment.is_used_up:
                parts.lease.release()
                raise TryLaterError("re-acquiring the lease: its token has no epochs left")
            assignment = Assignment(parts.lease.token)
            self._grants.adopt(assignment, roster)
            self._token, self._assignment = parts.lease.token, assignment
            parts.say(f"in charge with token {self._token}: {len(assignment.owners):,} partitions are granted")
        workers, gone = self._grants.remove_dead(self._assignment, roster)
        for slot in gone:
            if slot in roster:
                parts.say(f"worker {slot} ({roster[slot].document.holder}) is dead")
        now_s = parts.clock.monotonic()
        if tuple(workers) != self._workers:
            self._workers, self._stable_since_s = tuple(workers), now_s
        routes = self._catalog.refresh(workers.values())
        self._follow_clusters(routes, workers)
        step = self._assignment.step(
            workers,
            routes,
            draining=self._drains(workers),
            facts=self._facts,
            facts_version=self._facts_version,
            may_balance=now_s - self._stable_since_s >= options.balance_after_s,
        )
        self._grants.write(step.documents)
        lines = self._move_streams(routes, workers)
        self._publish(step, workers, lines)
        return step

    def _drains(self, workers: Mapping[str, WorkerDocument]) -> frozenset[str]:
        """The ids of workers that are to be drained; requests for workers that are gone are removed."""
        store = self._parts.store
        asked, ids = store.children(DRAINS_FOLDER), {document.id for document in workers.values()}
        for name in asked:
            found = None if name in ids else store.get(f"{DRAINS_FOLDER}/{name}")
            if found is not None:
                store.delete(f"{DRAINS_FOLDER}/{name}", found.version)
        return frozenset(asked) & ids

    def _follow_clusters(self, routes: Mapping[str, Route], workers: Mapping[str, WorkerDocument]) -> None:
        """Watch the clusters of all routes, and judge them by the newest probes."""
        parts = self._parts
        wanted, profiles = _wanted_clusters(routes.values(), workers)
        for cluster_id in [known for known in self._watches if known not in wanted]:
            self._watches.pop(cluster_id).stop()
            self._health.pop(cluster_id, None)
        for cluster_id, found in wanted.items():
            watch = self._watches.get(cluster_id)
            if watch is None:
                opening = partial(parts.open_cluster, profiles[cluster_id])
                watch = self._watches[cluster_id] = ClusterWatch(cluster_id, opening, parts.clock)
                watch.start()
            watch.wanted = found
            before = self._health.get(cluster_id)
            now_s, rules = parts.clock.monotonic(), self._options.health
            health = self._health[cluster_id] = judge_health(before, watch.probe, watch.began_s, now_s, rules)
            if health.reasons != (before.reasons if before is not None else ()):
                words = ", ".join(health.reasons) or "healthy"
                parts.say(f"cluster {cluster_id} (profile {profiles[cluster_id]}): {words}")
            if watch.look.number != self._looked.get(cluster_id, 0):
                self._looked[cluster_id] = watch.look.number
                new = {(cluster_id, topic): facts for topic, facts in watch.look.facts.items()}
                if any(self._facts.get(key) != facts for key, facts in new.items()):
                    self._facts.update(new)
                    self._facts_version += 1
        self._profiles = profiles

    def _move_streams(self, routes: Mapping[str, Route], workers: Mapping[str, WorkerDocument]) -> tuple[str, ...]:
        parts = self._parts
        if all(health.is_reachable for health in self._health.values()):
            return ()
        found = verdicts(
            parts.policy,
            tuple(routes.values()),
            self._health,
            witnesses(workers),
            parts.automatic.history(),
            now_s=parts.clock.monotonic(),
            now_ms=epoch_ms(parts.clock.now()),
        )
        return parts.automatic.carry_out(found)

    def _publish(self, step: AssignmentStep, workers: Mapping[str, WorkerDocument], lines: tuple[str, ...]) -> None:
        """Write the standing: every few seconds, and at once where partitions went elsewhere."""
        parts = self._parts
        now_s = parts.clock.monotonic()
        if (now_s - self._standing_s < STANDING_S and not step.documents) or self._assignment is None:
            return
        self._standing_s = now_s
        seen = witnesses(workers)
        problems = [f"worker {slot} has as much as its document takes" for slot in step.full]
        problems += [f"cluster {each.cluster_id}: {each.problem}" for each in self._watches.values() if each.problem]
        standing = AssignerStanding(
            token=self._token,
            at_ms=epoch_ms(parts.clock.now()),
            workers=len(workers),
            partitions=len(self._assignment.owners),
            waiting=step.waiting,
            unserved=step.unserved,
            clusters=tuple(
                ClusterStanding(
                    cluster_id=cluster_id,
                    profile=self._profiles[cluster_id],
                    reasons=tuple(health.reasons),
                    latency_ms=round(health.probe.latency_s * 1000) if health.probe is not None else 0,
                    answering=seen.get(cluster_id, (0, 0))[0],
                    silent=seen.get(cluster_id, (0, 0))[1],
                )
                for cluster_id, health in sorted(self._health.items())[:MOST_LINES]
            ),
            lags=tuple(
                (watch.cluster_id, group, lag)
                for watch in self._watches.values()
                for group, lag in sorted(watch.look.lags.items())
            )[:MOST_LINES],
            automatic=lines[:MOST_LINES],
            problems=tuple(each[:500] for each in (*problems, *self._catalog.problems.values()))[:MOST_LINES],
        )
        found = parts.store.get(STANDING_PATH)
        parts.lease.require_held()
        parts.store.cas(STANDING_PATH, STANDING_DOCUMENT.encode(standing), None if found is None else found.version)


def _wanted_clusters(
    routes: Iterable[Route], workers: Mapping[str, WorkerDocument]
) -> tuple[dict[str, WatchedCluster], dict[str, str]]:
    """What to watch of each cluster, and its profile: topics and groups of streams that workers handle."""
    readers: dict[str, set[str]] = {}
    for document in workers.values():
        for each in document.subscriptions:
            readers.setdefault(each.stream, set()).add(each.group)
    found: dict[str, WatchedCluster] = {}
    profiles: dict[str, str] = {}
    partitions: dict[str, dict[str, int]] = {}
    groups: dict[str, dict[str, tuple[str, ...]]] = {}
    for route in routes:
        for _, segment in route.segments():
            profiles[segment.cluster_id] = segment.cluster
            topics = partitions.setdefault(segment.cluster_id, {})
            if route.stream in readers:
                topics[segment.topic] = segment.partitions
                groups.setdefault(segment.cluster_id, {})[segment.topic] = tuple(sorted(readers[route.stream]))
    for cluster_id, topics in partitions.items():
        found[cluster_id] = WatchedCluster(partitions=topics, groups=groups.get(cluster_id, {}))
    return found, profiles


class WorkerLooks:
    """The workers from look to look; the time without a change is counted by our own clock."""

    def __init__(self, store: ControlStore, clock: Clock, life_of: Callable[[Holder], Life]) -> None:
        self._store, self._clock, self._life_of = store, clock, life_of
        self.roster: Roster = {}
        self._looked_s = float("-inf")

    def look(self) -> Roster:
        """Read all workers. `TryLaterError` while the store is away, `InputError` for a document of a newer version."""
        found: dict[str, tuple[int, WorkerDocument]] = {}
        looked_s, self._looked_s = self._looked_s, float("-inf")
        for slot, kept in self._store.values(WORKERS_FOLDER).items():
            before = self.roster.get(slot)
            same = before is not None and before.version == kept.version
            document = (
                before.document
                if before is not None and same
                else WORKER_DOCUMENT.stored(kept.value, worker_path(slot))
            )
            found[slot] = (kept.version, document)
        now_s = self._clock.monotonic()
        self.roster, self._looked_s = observe_workers(self.roster, found, looked_s, now_s, self._life_of), now_s
        return self.roster


class GrantStore:
    """The grants under one lease; `require_held` is asked before each write."""

    def __init__(self, store: ControlStore, require_held: Callable[[], None]) -> None:
        self._store, self._require_held = store, require_held
        self._versions: dict[str, int] = {}

    def adopt(self, assignment: Assignment, roster: Roster) -> None:
        """Read all grants and write each again under our token; `ConflictError` where an earlier Assigner still wrote.

        After this nothing that another one sent before it lost the lease can come into effect.
        """
        found = self._store.values(GRANTS_FOLDER)
        self._versions = {slot: kept.version for slot, kept in found.items()}
        documents = {s: GRANT_DOCUMENT.stored(kept.value, grant_path(s)) for s, kept in found.items()}
        self.write(assignment.adopt(documents, roster))

    def write(self, documents: Mapping[str, GrantDocument]) -> None:
        """Write documents by compare-and-set; after an error it is unknown which ones, and all are to be adopted."""
        for slot, document in documents.items():
            self._require_held()
            self._versions[slot] = self._store.cas(
                grant_path(slot), GRANT_DOCUMENT.encode(document), self._versions.get(slot)
            )

    def remove_dead(self, assignment: Assignment, roster: Roster) -> tuple[dict[str, WorkerDocument], tuple[str, ...]]:
        """Remove the documents of dead workers, so that none of them is one again, and free what they had.

        Returns the workers that live, and the slots of those that do not; one that wrote meanwhile lives.
        """
        workers, gone = living_workers(roster), []
        for slot, seen in roster.items():
            if seen.is_dead and not self._fence(slot, seen):
                workers[slot] = seen.document
        for slot in [slot for slot in (*assignment.slots, *roster) if slot not in workers]:
            if slot not in gone:
                gone.append(slot)
                assignment.drop(slot)
                self._remove(slot)
        return dict(sorted(workers.items())), tuple(gone)

    def _fence(self, slot: str, seen: SeenWorker) -> bool:
        self._require_held()
        try:
            self._store.delete(worker_path(slot), seen.version)
        except ConflictError:
            found = self._store.get(worker_path(slot))
            return found is None
        return True

    def _remove(self, slot: str) -> None:
        version = self._versions.pop(slot, None)
        if version is not None:
            self._require_held()
            self._store.delete(grant_path(slot), version)


NAMES_EVERY_S = 30.0
MOST_READS = 200


class RouteCatalog:
    """Keeps the newest route of each stream. A `refresh` costs at most `MOST_READS`, and a list of names at times.

    `keep` is called before each read: a tick with many reads must not outlast the lease.
    """

    def __init__(self, store: RouteStore, clock: Clock, keep: Callable[[], None]) -> None:
        self.routes: dict[str, Route] = {}
        self.problems: dict[str, str] = {}
        self._store, self._clock, self._keep = store, clock, keep
        self._names: tuple[str, ...] = ()
        self._next = 0
        self._names_s = float("-inf")

    def refresh(self, workers: Iterable[WorkerDocument]) -> Mapping[str, Route]:
        """Read those that are new or older than what a worker knows, then the next ones of all; returns all.

        `TryLaterError` while the store is away. A document that cannot be read changes nothing and is a problem.
        """
        known = {each.stream: each.epoch for document in workers for each in document.subscriptions}
        due = [s for s, epoch in sorted(known.items()) if s not in self.routes or self.routes[s].epoch < epoch]
        now_s = self._clock.monotonic()
        if now_s - self._names_s >= NAMES_EVERY_S:
            self._names, self._names_s = self._store.names(), now_s
            for name in self.routes.keys() - set(self._names):
                del self.routes[name]
        left = max(0, MOST_READS - len(due))
        turn = self._names[self._next : self._next + left]
        self._next = self._next + left if self._next + left < len(self._names) else 0
        for stream in (*due[:MOST_READS], *turn):
            self._read(stream)
        return self.routes

    def _read(self, stream: str) -> None:
        self._keep()
        try:
            found = self._store.read(stream)
        except InputError as error:
            self.problems[stream] = str(error)
            return
        self.problems.pop(stream, None)
        if found is None:
            self.routes.pop(stream, None)
        elif stream not in self.routes or self.routes[stream].epoch < found.route.epoch:
            self.routes[stream] = found.route


_LOOK_S = 0.2


class Drains:
    """Drains of workers by the name of their slots; a drain ends with the worker's process."""

    def __init__(self, store: ControlStore, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def worker(self, name: str) -> WorkerDocument:
        """The worker of a slot, or of an id; `UsageError` where there is none."""
        for slot, kept in self._store.values(WORKERS_FOLDER).items():
            document = WORKER_DOCUMENT.stored(kept.value, worker_path(slot))
            if name in (slot, document.id):
                return document
        raise UsageError(f"worker {name} does not exist", hint="list them with: kafkakit streams assigner show")

    def request(self, worker: WorkerDocument, by: str) -> None:
        """Ask for a drain; one that was asked for stays."""
        path = f"{DRAINS_FOLDER}/{worker.id}"
        if self._store.get(path) is None:
            try:
                self._store.cas(path, by.encode(), None)
            except ConflictError:
                return

    def undo(self, worker: WorkerDocument) -> None:
        """Ask for no drain any more."""
        path = f"{DRAINS_FOLDER}/{worker.id}"
        found = self._store.get(path)
        if found is not None:
            self._store.delete(path, found.version)

    def held(self, worker: WorkerDocument) -> int:
        """How many partitions the worker may read now."""
        for slot, kept in self._store.values(GRANTS_FOLDER).items():
            document = GRANT_DOCUMENT.stored(kept.value, grant_path(slot))
            if document.worker == worker.id:
                return sum(len(topic.partitions) for topic in document.topics)
        return 0

    def wait(self, worker: WorkerDocument, wait_s: float) -> int:
        """Wait until it holds none, so long at most; how many it still holds."""
        return look_until(self._clock, wait_s, lambda: self.held(worker), not_, _LOOK_S)


class AssignerReader:
    """One read for each document; `TryLaterError` while the store is away."""

    def __init__(self, store: ControlStore) -> None:
        self._store = store

    def workers(self) -> dict[str, WorkerDocument]:
        """The workers by slot, dead ones too until the Assigner removes them."""
        found = self._store.values(WORKERS_FOLDER).items()
        return {slot: WORKER_DOCUMENT.stored(kept.value, worker_path(slot)) for slot, kept in found}

    def grants(self) -> dict[str, GrantDocument]:
        """What each slot may read."""
        found = self._store.values(GRANTS_FOLDER).items()
        return {slot: GRANT_DOCUMENT.stored(kept.value, grant_path(slot)) for slot, kept in found}

    def draining(self) -> frozenset[str]:
        """The ids of workers that are to be drained."""
        return frozenset(self._store.children(DRAINS_FOLDER))

    def lease(self) -> LeaseRecord | None:
        """The lease of the Assigner in charge."""
        return read_lease(self._store, ASSIGNER_LEASE)

    def standing(self) -> AssignerStanding | None:
        """Where the Assigner in charge stands; None where none ever was."""
        found = self._store.get(STANDING_PATH)
        return None if found is None else STANDING_DOCUMENT.stored(found.value, STANDING_PATH)

    def history(self) -> AutomaticHistory:
        """The automatic failovers of the last day."""
        found = self._store.get(HISTORY_PATH)
        return AutomaticHistory() if found is None else HISTORY_DOCUMENT.stored(found.value, HISTORY_PATH)
