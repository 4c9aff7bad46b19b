"""A process as a worker of the Assigner: its document, kept by a thread, and what it may read.

The store is asked for nothing on the way of a record. While it is away, a partition is handled for as long as its own
commits, read back from its cluster, show no later owner.
"""

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from kafkakit.core.errors import ConflictError, KafkakitError, UsageError
from kafkakit.core.lease import MARGIN, Holder
from kafkakit.core.model import TopicPartition
from kafkakit.core.versioned import Versioned
from kafkakit.ports.clock import Clock
from kafkakit.ports.control import ControlStore
from kafkakit.streams.client.decide.work_grants import (
    GRANT_DOCUMENT,
    GRANTS_FOLDER,
    WORKER_DOCUMENT,
    WORKERS_FOLDER,
    GrantDocument,
    PartitionKey,
    PartitionLease,
    Subscription,
    WorkerDocument,
    WorkerReading,
    grant_path,
    leases_on,
    worker_path,
)

SLICE_S = 0.1
SILENT_S = 1.5
_LOG = logging.getLogger("kafkakit.streams.client")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a process works for the Assigner; without them it is a member of Kafka's groups.

    `capacity` compares it with other workers, in any unit that all of them use; `zone` is where it runs. It writes its
    document every `beat_s`, and is dead after `ttl_s` of silence. Where no Assigner answers for `fallback_s`, and no
    other worker reads the group by its word, it reads as a member of Kafka's group until one does.
    """

    capacity: int = 100
    zone: str = ""
    beat_s: float = 0.4
    ttl_s: float = 1.5
    fallback_s: float = 15.0

    def __post_init__(self) -> None:
        if not 1 <= self.capacity <= 1_000_000 or not 0 < 2 * self.beat_s <= self.ttl_s <= 600 or self.fallback_s <= 0:
            raise UsageError(
                f"{self} is no worker", hint="capacity is 1 to 1000000, and ttl_s twice beat_s or more, up to 600"
            )


class GroupShare:
    """What one consumer of this process gets; `is_grouped` says that it reads as a member of Kafka's group.

    `epoch` gives that of the route in use; no lanes are all but `dlq`.
    """

    def __init__(
        self, session: "WorkSession", stream: str, group: str, lanes: Collection[str] | None, epoch: Callable[[], int]
    ) -> None:
        self._session, self.stream, self.group, self.epoch = session, stream, group, epoch
        self.lanes = tuple(sorted(lanes or ()))
        self.is_grouped = False
        self._leases: dict[str, tuple[GrantDocument | None, Mapping[TopicPartition, PartitionLease]]] = {}

    def begin(self) -> None:
        """The consumer begins to read."""
        self._session.join(self)

    def leases(self, cluster_id: str) -> Mapping[TopicPartition, PartitionLease]:
        """What may be read of one cluster now."""
        with self._session.lock:
            grant = self._session.grant
            known = self._leases.get(cluster_id)
            if known is None or known[0] is not grant:
                known = self._leases[cluster_id] = grant, leases_on(grant, self.stream, self.group, cluster_id)
            return known[1]

    def take(self, cluster_id: str, lease: PartitionLease) -> bool:
        """Hold a partition, if it is still granted: the Assigner gives it to no other worker before `release`."""
        with self._session.lock:
            if self.leases(cluster_id).get(lease.partition) != lease:
                return False
            self._session.held[self._key(cluster_id, lease.partition)] = lease.epoch
            return True

    def release(self, cluster_id: str, partitions: Collection[TopicPartition]) -> None:
        """Hold these no more."""
        with self._session.lock:
            for partition in partitions:
                self._session.held.pop(self._key(cluster_id, partition), None)

    def answered(self, cluster_id: str, *, is_silent: bool = False) -> None:
        """Note that a cluster answered, or did not for a while: evidence of its health."""
        with self._session.lock:
            self._session.answers[cluster_id] = (self._session.clock.monotonic(), is_silent)

    @property
    def held_until_s(self) -> float:
        """Until when (monotonic clock) no other worker gets what is held here, whatever happens."""
        return self._session.held_until_s

    @property
    def worker(self) -> str:
        """The worker's id."""
        return self._session.id

    def leave(self) -> None:
        """The consumer has ended."""
        self._session.leave(self)

    def _key(self, cluster_id: str, partition: TopicPartition) -> PartitionKey:
        return PartitionKey(self.stream, self.group, cluster_id, *partition)


class WorkSession:
    """Writes the worker's document and follows its grant; `lock` guards what its shares see."""

    def __init__(
        self,
        store: ControlStore,
        holder: Holder,
        clock: Clock,
        random_bytes: Callable[[int], bytes],
        options: WorkerOptions,
        measure: Callable[[], WorkerReading] = WorkerReading,
    ) -> None:
        self.clock, self.lock = clock, threading.RLock()
        self.grant: GrantDocument | None = None
        self.held: dict[PartitionKey, int] = {}
        self.answers: dict[str, tuple[float, bool]] = {}
        self.held_until_s = float("-inf")
        self.problem = ""
        self._store, self._holder, self._random, self._options = store, holder, random_bytes, options
        self._measure = measure
        self._shares: list[GroupShare] = []
        self._others: Mapping[str, int] = {}
        self._beat = 0
        self._beat_due_s = 0.0
        self._is_started = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafkakit-worker", daemon=True)
        self._begin_anew()

    def join(self, share: GroupShare) -> None:
        """A consumer begins; the first one begins the work."""
        with self.lock:
            self._shares.append(share)
            self._beat_due_s, self._began_s = 0.0, self.clock.monotonic()
            if not self._is_started:
                self._is_started = True
                self._thread.start()

    def leave(self, share: GroupShare) -> None:
        """A consumer has ended: its partitions go to others with the next beat."""
        with self.lock:
            if share in self._shares:
                self._shares.remove(share)
                self._beat_due_s = 0.0

    def close(self) -> None:
        """Remove the worker's document, so that its partitions are free at once; takes a second at most."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(1.0)

    def _begin_anew(self) -> None:
        with self.lock:
            self.id, self._slot = self._random(8).hex(), self._random(2).hex()
            self._version: int | None = None
            self._grant_version: int | None = None
            self.grant, self.held_until_s = None, float("-inf")
            self._applied = 0
            self._began_s = self.clock.monotonic()
            self._others = {}

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._turn()
                self.problem = ""
            except Exception as error:  # whatever a store's client raises must not end the thread
                if not self.problem:
                    _LOG.warning("the worker's document is not renewed: %s", error)
                self.problem = str(error) or type(error).__name__
                self._stop.wait(SLICE_S)
        with suppress(KafkakitError):
            found = self._store.get(worker_path(self._slot))
            if found is not None and self._is_ours(found):
                self._store.delete(worker_path(self._slot), found.version)

    def _turn(self) -> None:
        now_s = self.clock.monotonic()
        with self.lock:
            shares, applied = tuple(self._shares), self._newest_applied()
            is_due = now_s >= self._beat_due_s or applied != self._applied
        if is_due and (shares or self._version is not None):
            self._write(shares, applied, now_s)
        if self._version is not None and self._store.await_change(
            grant_path(self._slot), self._grant_version, min(SLICE_S, self._options.beat_s)
        ):
            self._read_grant()
        elif self._version is None:
            self._stop.wait(SLICE_S)
        self._choose_mode(shares)

    def _newest_applied(self) -> int:
        """The round of the grant in use, once nothing is held that is not in it."""
        if self.grant is None:
            return 0
        granted = dict(self.grant.leases())
        return self.grant.round if all(granted.get(k) == e for k, e in self.held.items()) else self._applied

    def _write(self, shares: Collection[GroupShare], applied: int, now_s: float) -> None:
        with self.lock:
            lately = {c: silent for c, (at_s, silent) in self.answers.items() if now_s - at_s < 2 * SILENT_S}
            document = WorkerDocument(
                id=self.id,
                beat=self._beat + 1,
                ttl_s=self._options.ttl_s,
                holder=self._holder,
                capacity=self._options.capacity,
                zone=self._options.zone,
                round=applied,
                subscriptions=tuple(
                    sorted(
                        Subscription(
                            stream=s.stream, group=s.group, lanes=s.lanes, epoch=s.epoch(), is_grouped=s.is_grouped
                        )
                        for s in shares
                    )
                ),
                answering=tuple(sorted(c for c, is_silent in lately.items() if not is_silent)),
                silent=tuple(sorted(c for c, is_silent in lately.items() if is_silent)),
                reading=self._measure(),
            )
        self._beat += 1
        try:
            self._version = self._store.cas(worker_path(self._slot), WORKER_DOCUMENT.encode(document), self._version)
        except ConflictError:
            found = self._store.get(worker_path(self._slot))
            if found is None or not self._is_ours(found):
                self._was_replaced()
                return
            # An earlier write arrived although its answer was lost.
            self._version = self._store.cas(worker_path(self._slot), WORKER_DOCUMENT.encode(document), found.version)
        self.held_until_s = now_s + self._options.ttl_s * (1 - float(MARGIN))
        self._applied, self._beat_due_s = applied, now_s + self._options.beat_s

    def _was_replaced(self) -> None:
        """The Assigner took this worker for dead, or the slot is another's: what was granted is void."""
        if self._version is not None:
            _LOG.warning("worker %s was taken for dead by the Assigner; it begins anew", self.id)
        self._begin_anew()
        self._beat, self._beat_due_s = 0, 0.0

    def _read_grant(self) -> None:
        found = self._store.get(grant_path(self._slot))
        document = None
        if found is not None:
            document = GRANT_DOCUMENT.stored(found.value, grant_path(self._slot))
        with self.lock:
            self._grant_version = None if found is None else found.version
            if document is None or document.worker != self.id:
                self.grant = None
            elif self.grant is None or document.round >= self.grant.round:
                self.grant = document

    def _choose_mode(self, shares: Collection[GroupShare]) -> None:
        """With a grant, an empty one too, an Assigner is there; without, Kafka's groups are joined after a while."""
        if self.grant is not None:
            for share in shares:
                if share.is_grouped:
                    _LOG.info("stream %s: an Assigner answers, group %s is left", share.stream, share.group)
                share.is_grouped = False
            return
        waited_s = self.clock.monotonic() - self._began_s
        waiting = [share for share in shares if not share.is_grouped]
        if not waiting or waited_s < self._options.fallback_s / 2:
            return
        if not self._others:
            self._others = {name: kept.version for name, kept in self._store.values(WORKERS_FOLDER).items()}
        if waited_s < self._options.fallback_s:
            return
        now = {name: kept.version for name, kept in self._store.values(WORKERS_FOLDER).items()}
        alive = {name for name, version in now.items() if self._others.get(name) != version}
        grants = self._store.values(GRANTS_FOLDER)
        documents = [GRANT_DOCUMENT.stored(v.value, grant_path(n)) for n, v in grants.items() if n in alive]
        read = {(topic.stream, topic.group) for document in documents for topic in document.topics}
        for share in waiting:
            if (share.stream, share.group) not in read:
                _LOG.warning(
                    "stream %s: no Assigner answered for %.0f s, group %s is joined",
                    share.stream,
                    waited_s,
                    share.group,
                )
                share.is_grouped = True

    def _is_ours(self, found: Versioned) -> bool:
        return self.id.encode() in found.value
