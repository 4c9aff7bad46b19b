"""The loop of an Assigner: one of several is in charge by a lease, the others wait for it.

A tick looks at workers, routes and clusters, decides, and writes what changed. Whatever goes wrong with the store, what
was decided is given up, and the next tick reads and adopts every grant again.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kafkakit.core.durations import epoch_ms, format_duration
from kafkakit.core.errors import ConflictError, LeaseLostError, TryLaterError, UsageError
from kafkakit.core.lease import MAX_TTL_S, Holder, Life
from kafkakit.execution.act.leases import Lease
from kafkakit.ports.clock import Clock
from kafkakit.ports.cluster_clients import ClusterClients
from kafkakit.ports.control import ControlStore
from kafkakit.streams.assigner.act.automatic import AutomaticFailovers
from kafkakit.streams.assigner.act.catalog import RouteCatalog
from kafkakit.streams.assigner.act.grants import GrantStore, WorkerLooks
from kafkakit.streams.assigner.act.watching import PROBE_S, ClusterWatch, WatchedCluster
from kafkakit.streams.assigner.decide.assignment import Assignment, AssignmentStep
from kafkakit.streams.assigner.decide.health import ClusterHealth, HealthRules, judged
from kafkakit.streams.assigner.decide.policy import AutomaticPolicy, verdicts
from kafkakit.streams.assigner.decide.pools import PartitionFacts
from kafkakit.streams.assigner.decide.roster import witnesses
from kafkakit.streams.assigner.decide.standing import (
    DRAINS_FOLDER,
    MOST_LINES,
    STANDING_DOCUMENT,
    STANDING_PATH,
    AssignerStanding,
    ClusterStanding,
)
from kafkakit.streams.client.api import WorkerDocument
from kafkakit.streams.model.route import Route
from kafkakit.streams.routes.api_act import RouteStore

STANDING_S = 2.0
TICKS_PER_LEASE = 3
SHORTEST_DOWN_S = 2 * PROBE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignerOptions:
    """The times of the loop: a tick every `tick_s`, a lease of `lease_ttl_s`.

    Partitions move for balance when no worker came or went for `balance_after_s`.
    """

    tick_s: float = 0.2
    lease_ttl_s: float = 3.0
    balance_after_s: float = 60.0
    health: HealthRules = field(default_factory=HealthRules)

    def __post_init__(self) -> None:
        # A lease is renewed once a third of its time is over, and counts for four fifths of it.
        if not TICKS_PER_LEASE * self.tick_s <= self.lease_ttl_s <= MAX_TTL_S:
            raise UsageError(
                f"a lease of {format_duration(self.lease_ttl_s)} cannot be kept with a tick of "
                f"{format_duration(self.tick_s)}",
                hint=f"--lease-ttl is {TICKS_PER_LEASE} times --tick or more, and at most {format_duration(MAX_TTL_S)}",
            )
        if self.health.down_s < SHORTEST_DOWN_S:
            raise UsageError(
                f"a cluster cannot be told to be unreachable within {format_duration(self.health.down_s)}",
                hint=f"it is asked every {format_duration(PROBE_S)}: --down-after is "
                f"{format_duration(SHORTEST_DOWN_S)} or more",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignerParts:
    """What the loop works with. `open_cluster` makes new clients of a profile's cluster with each call."""

    store: ControlStore
    lease: Lease
    clock: Clock
    life_of: Callable[[Holder], Life]
    open_cluster: Callable[[str], ClusterClients]
    automatic: AutomaticFailovers
    policy: AutomaticPolicy
    say: Callable[[str], None]


class AssignerLoop:
    """For one thread. Cost of a tick: a read of each worker, some routes, and what changed is written."""

    def __init__(self, parts: AssignerParts, options: AssignerOptions) -> None:
        self._parts, self._options = parts, options
        self._looks = WorkerLooks(parts.store, parts.clock, parts.life_of)
        self._grants = GrantStore(parts.store, parts.lease.require_held)
        self._catalog = RouteCatalog(RouteStore(parts.store), parts.clock)
        self._assignment: Assignment | None = None
        self._token = 0
        self._watches: dict[str, ClusterWatch] = {}
        self._health: dict[str, ClusterHealth] = {}
        self._profiles: dict[str, str] = {}
        self._facts: dict[tuple[str, str], tuple[PartitionFacts, ...]] = {}
        self._looked: dict[str, int] = {}
        self._facts_version = 0
        self._workers: tuple[str, ...] = ()
        self._stable_since_s = parts.clock.monotonic()
        self._standing_s = float("-inf")
        self._problem = ""

    def run(self) -> None:
        """Work until an error that waiting does not end, or a signal ends it."""
        try:
            while True:
                began_s = self._parts.clock.monotonic()
                self.tick()
                spent_s = self._parts.clock.monotonic() - began_s
                self._parts.clock.sleep(max(self._options.tick_s / 4, self._options.tick_s - spent_s))
        finally:
            self.close()

    def close(self) -> None:
        """Stop watching clusters, and give the lease back: what is granted stays granted."""
        self._follow_clusters({}, {})
        self._parts.lease.release()

    def tick(self) -> AssignmentStep | None:
        """One look and what follows from it; None while another Assigner is in charge, or the store is away."""
        try:
            step = self._lead() if self._is_in_charge() else None
        except (TryLaterError, ConflictError) as error:
            if isinstance(error, LeaseLostError) or str(error) != self._problem:
                self._parts.say(f"begins anew: {error}")
            self._problem, self._assignment = str(error), None
            return None
        self._problem = ""
        return step

    def _is_in_charge(self) -> bool:
        lease = self._parts.lease
        if lease.is_held():
            lease.require_held()
        elif not lease.attempt(self._options.lease_ttl_s):
            self._assignment = None
            return False
        return True

    def _lead(self) -> AssignmentStep:
        parts, options = self._parts, self._options
        roster = self._looks.look()
        if self._assignment is None or self._token != parts.lease.token or self._assignment.is_used_up:
            if self._assignment is not None and self._assignment.is_used_up:
                parts.lease.release()
                raise TryLaterError("the lease is taken anew, as its token has no more epochs")
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
        wanted, profiles = _wanted(routes.values(), workers)
        for cluster_id in [known for known in self._watches if known not in wanted]:
            self._watches.pop(cluster_id).stop()
            self._health.pop(cluster_id, None)
        for cluster_id, found in wanted.items():
            watch = self._watches.get(cluster_id)
            if watch is None:
                opening = _opening(parts.open_cluster, profiles[cluster_id])
                watch = self._watches[cluster_id] = ClusterWatch(cluster_id, opening, parts.clock)
                watch.start()
            watch.wanted = found
            before = self._health.get(cluster_id)
            now_s, rules = parts.clock.monotonic(), self._options.health
            health = self._health[cluster_id] = judged(before, watch.probe, watch.began_s, now_s, rules)
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


def _wanted(
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


def _opening(open_cluster: Callable[[str], ClusterClients], profile: str) -> Callable[[], ClusterClients]:
    return lambda: open_cluster(profile)
