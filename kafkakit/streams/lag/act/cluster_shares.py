"""The clusters of this instance among those of all instances: leases in a control store, one for each cluster.

The lease of a lag monitor is not the one that guards changes: reading changes nothing, and a monitor must never keep
a run from starting.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from kafkakit.core.errors import ConflictError, InputError, KafkakitError, TryLaterError
from kafkakit.core.lease import Holder, Life
from kafkakit.core.versioned import Versioned
from kafkakit.execution.act.leases import Lease
from kafkakit.ports.clock import Clock
from kafkakit.ports.control import ControlStore
from kafkakit.streams.lag.decide.shares import (
    INSTANCE_DOCUMENT,
    MAX_CLUSTERS,
    MonitorInstance,
    fair_share,
    in_own_order,
    to_give,
)

TTL_S = 6.0
SETTLE_S = 15.0
FORGET_S = 600.0
CLUSTERS = "lag/clusters"
INSTANCES = "lag/instances"


def share_path(cluster_id: str) -> str:
    """Where the lease of monitoring one cluster is kept."""
    return f"{CLUSTERS}/{cluster_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareChanges:
    """What one tick changed: clusters taken, and clusters given up with the reason."""

    taken: tuple[str, ...] = ()
    lost: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class _OtherInstance:
    document: Versioned
    since_s: float
    instance: MonitorInstance | None


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

    def _forget(self, name: str, document: Versioned) -> None:
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
                share_path(cluster_id),
                self._holder,
                what=f"lag of cluster {cluster_id}",
                life_of=self._life_of,
                say=self._warn,
            )
        return self._leases[cluster_id]


def _read(document: Versioned, path: str) -> MonitorInstance | None:
    """A document that cannot be read (of a newer version, say) counts as no instance."""
    try:
        return INSTANCE_DOCUMENT.stored(document.value, path)
    except KafkakitError:
        return None
