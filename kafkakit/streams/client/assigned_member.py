"""A process as a worker of the Assigner, and a member whose partitions come from there, not from Kafka's groups.

Kafka takes commits from any process while a group has no members. So each owner has a greater epoch than the one
before, its commits carry it (KKM1, tag 10), and nothing is handled before a commit with it was written and read back.
Every second what is committed is read again: a greater epoch there is a later owner, and the partition is given up; a
lower one is an earlier owner's late commit, over which ours is written again.

The worker's document, with what it measures of itself, and what it may read are kept by a thread. The store is asked
for nothing on the way of a record. While it is away, a partition is handled for as long as its own commits, read back
from its cluster, show no later owner.
"""

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from zlib import crc32

from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.errors import ConflictError, TryLaterError, UsageError
from kafkakit.core.lease import MARGIN, Holder, VersionedValue
from kafkakit.core.model import TopicPartition
from kafkakit.ports.acting import Clock, pause
from kafkakit.ports.stores import ControlStore
from kafkakit.ports.streams import AssignedConsumer, AssignmentListener, MemberLease, ReadBatch
from kafkakit.streams.client.decide.client_documents import (
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
from kafkakit.streams.client.decide.partition_work import CommitRule, restore_commit
from kafkakit.streams.model.commit import CommitState, Writer
from kafkakit.streams.model.kkm1.encode import encode_commit

LOOK_EVERY_S, LOOK_LASTS_S = 1.0, 2.0
CALL_S = 1.0
AGAIN_S = 0.5
_ROUNDS = 3
FENCED, HAS_MEMBERS = "FENCED", "UNKNOWN_MEMBER_ID"
"""The error of a commit that would be over a later owner's, and Kafka's for a group that has members."""


@dataclass(slots=True, kw_only=True)
class _OwnedPartition:
    lease: PartitionLease
    written: CommittedOffset | None
    seen_s: float


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

    @property
    def problem(self) -> str:
        """Why the worker's document is not renewed now, without which its partitions go to others."""
        return self._session.problem

    def leave(self) -> None:
        """The consumer has ended."""
        self._session.leave(self)

    def _key(self, cluster_id: str, partition: TopicPartition) -> PartitionKey:
        return PartitionKey(self.stream, self.group, cluster_id, *partition)


class AssignedMember:
    """Implements `ports.streams.GroupConsumer`; for the reader's thread alone. Closes the `consumer`."""

    def __init__(
        self, consumer: AssignedConsumer, share: GroupShare, cluster_id: str, clock: Clock, rule: CommitRule
    ) -> None:
        self._consumer, self._share, self._cluster_id, self._clock = consumer, share, cluster_id, clock
        self._rule = rule
        self._listener: AssignmentListener | None = None
        self._topics: frozenset[str] = frozenset()
        self._owned: dict[TopicPartition, _OwnedPartition] = {}
        self._looked_s = self._again_s = float("-inf")
        self._answered_s = clock.monotonic()

    def subscribe(self, topics: Collection[str], listener: AssignmentListener) -> None:
        """See the port: grants of other topics wait until the route names them."""
        self._topics, self._listener = frozenset(topics), listener
        self._consumer.listen(listener)

    def poll(self, limit: int, timeout_s: float) -> Sequence[ReadBatch]:
        """See the port. `TryLaterError` where Kafka's group has members that keep us out."""
        self._follow()
        if self._owned and self._clock.monotonic() - self._looked_s >= LOOK_EVERY_S:
            self._look()
        if not self._owned:
            pause(self._clock, timeout_s)
            return []
        return self._consumer.poll(limit, timeout_s)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self._consumer.pause(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        self._consumer.resume(partitions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._consumer.seek(partition, offset)

    def commit(
        self, commits: Mapping[TopicPartition, CommittedOffset], timeout_s: float
    ) -> Mapping[TopicPartition, str]:
        """See the port; what another worker may own by now is looked at before, and answered with `FENCED`."""
        ours = self._still_ours(commits)
        found = dict(self._consumer.commit(ours, timeout_s)) if ours else {}
        for partition, error in found.items():
            if not error:
                self._owned[partition].written = ours[partition]
        return {**dict.fromkeys(commits, FENCED), **found}

    def commit_later(self, commits: Mapping[TopicPartition, CommittedOffset]) -> None:
        ours = self._still_ours(commits)
        for partition, commit in ours.items():
            self._owned[partition].written = commit
        if ours:
            self._consumer.commit_later(ours)

    def end_offset(self, partition: TopicPartition) -> int | None:
        return self._consumer.end_offset(partition)

    def member_id(self) -> str:
        """The worker's id."""
        return self._share.worker

    def lease(self, partition: TopicPartition) -> MemberLease:
        """See the port: as long as the store keeps others away, or the latest look showed none."""
        owned = self._owned.get(partition)
        if owned is None:
            return MemberLease(0, float("-inf"))
        return MemberLease(owned.lease.epoch, max(owned.seen_s + LOOK_LASTS_S, self._share.held_until_s))

    def close(self, timeout_s: float) -> None:
        partitions = tuple(self._owned)
        try:
            if timeout_s and self._listener is not None and partitions:
                self._listener.revoked(partitions)
            self._drop(partitions, is_closing=True)
        finally:
            self._consumer.close(timeout_s)

    def _follow(self) -> None:
        """Give up what is not granted any more, and claim what is new."""
        granted = {p: lease for p, lease in self._share.leases(self._cluster_id).items() if p.topic in self._topics}
        gone = [p for p, owned in self._owned.items() if granted.get(p) != owned.lease]
        if gone:
            kept = [p for p in gone if self._clock.monotonic() < self.lease(p).until_s]
            if self._listener is not None:
                self._listener.revoked(kept)
                self._listener.lost([p for p in gone if p not in kept])
            self._drop(gone)
        new = {p: lease for p, lease in granted.items() if p not in self._owned}
        if new and self._clock.monotonic() >= self._again_s:
            self._again_s = self._clock.monotonic() + AGAIN_S
            self._begin(new)

    def _begin(self, new: Mapping[TopicPartition, PartitionLease]) -> None:
        taken = {p: lease for p, lease in new.items() if self._share.take(self._cluster_id, lease)}
        claimed: dict[TopicPartition, CommittedOffset] = {}
        try:
            claimed = self._claim(taken)
        except TryLaterError:
            self._note_silence()
            if not self._owned:
                raise
        finally:
            self._share.release(self._cluster_id, [p for p in taken if p not in claimed])
        if claimed and self._listener is not None:
            self._listener.assigned(claimed)
            self._consumer.assign({p: commit.offset for p, commit in claimed.items()})

    def _claim(self, leases: Mapping[TopicPartition, PartitionLease]) -> dict[TopicPartition, CommittedOffset]:
        """Commit what is committed once more, with our epoch, until that is what is read; those where it is."""
        claimed: dict[TopicPartition, CommittedOffset] = {}
        written: dict[TopicPartition, CommittedOffset] = {}
        left = dict(leases)
        for _ in range(_ROUNDS):
            if not left:
                break
            sent_s = self._clock.monotonic()
            found = self._committed(left)
            commits: dict[TopicPartition, CommittedOffset] = {}
            for partition, lease in list(left.items()):
                commit = found.get(partition)
                if commit is None:
                    commit = CommittedOffset(offset=self._consumer.start_offset(partition, CALL_S))
                restored = restore_commit(commit, lease.identity)
                writer = restored.state.writer
                if self._is_mine(writer, lease) or restored.is_newer or _is_same(commit, written.get(partition)):
                    claimed[partition] = commit
                    self._owned[partition] = _OwnedPartition(lease=lease, written=commit, seen_s=sent_s)
                    del left[partition]
                elif writer is not None and writer.generation > lease.epoch:
                    del left[partition]  # the Assigner's next grant, or the next look at it, says why
                else:
                    commits[partition] = self._with_epoch(restored.state, lease)
            answers = self._consumer.commit(commits, CALL_S) if commits else {}
            if HAS_MEMBERS in answers.values():
                group = next(iter(leases.values())).identity.group
                raise TryLaterError(f"group {group} has members of Kafka's protocol, which keep the Assigner's out")
            written = {partition: commits[partition] for partition, error in answers.items() if not error}
        return claimed

    def _with_epoch(self, state: CommitState, lease: PartitionLease) -> CommittedOffset:
        state = replace(state, writer=self._writer(lease))
        rule = self._rule
        encoded = encode_commit(state, lease.identity, limit_chars=rule.limit_chars, alphabets=rule.alphabets)
        return CommittedOffset(offset=state.base, metadata=encoded.text)

    def _look(self) -> None:
        """Read what is committed: later owners fence us, and what earlier ones committed late is written over."""
        self._looked_s = sent_s = self._clock.monotonic()
        try:
            found = self._committed(self._owned)
        except TryLaterError:
            self._note_silence()
            return
        fenced, again = [], dict[TopicPartition, CommittedOffset]()
        for partition, owned in self._owned.items():
            commit = found.get(partition)
            state = None if commit is None else restore_commit(commit, owned.lease.identity).state
            writer = None if state is None else state.writer
            if writer is not None and writer.generation > owned.lease.epoch:
                fenced.append(partition)
                continue
            owned.seen_s = sent_s
            if not self._is_mine(writer, owned.lease) and not _is_same(commit, owned.written) and owned.written:
                again[partition] = owned.written
        if fenced:
            if self._listener is not None:
                self._listener.lost(fenced)
            self._drop(fenced)
        if again:
            self._consumer.commit(again, CALL_S)

    def _still_ours(
        self, commits: Mapping[TopicPartition, CommittedOffset]
    ) -> Mapping[TopicPartition, CommittedOffset]:
        """Those of partitions that no other worker may own; after a pause that is looked at first."""
        now_s = self._clock.monotonic()
        if any(self.lease(partition).until_s <= now_s for partition in commits if partition in self._owned):
            self._look()
            now_s = self._clock.monotonic()
        return {p: commit for p, commit in commits.items() if self.lease(p).until_s > now_s}

    def _committed(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, CommittedOffset | None]:
        found = self._consumer.committed(tuple(partitions), CALL_S)
        self._answered_s = self._clock.monotonic()
        self._share.answered(self._cluster_id)
        return found

    def _note_silence(self) -> None:
        if self._clock.monotonic() - self._answered_s >= SILENT_S:
            self._share.answered(self._cluster_id, is_silent=True)

    def _drop(self, partitions: Collection[TopicPartition], *, is_closing: bool = False) -> None:
        known = [partition for partition in partitions if self._owned.pop(partition, None) is not None]
        if known and not is_closing:
            self._consumer.unassign(known)
        self._share.release(self._cluster_id, known)

    def _writer(self, lease: PartitionLease) -> Writer:
        return Writer(member_hash=crc32(self._share.worker.encode()), generation=lease.epoch)

    def _is_mine(self, writer: Writer | None, lease: PartitionLease) -> bool:
        return writer == self._writer(lease)


def _is_same(one: CommittedOffset | None, other: CommittedOffset | None) -> bool:
    """Whether two commits say the same; brokers keep a NUL that clients add."""
    if one is None or other is None:
        return one is other
    return (one.offset, one.metadata.rstrip("\0")) == (other.offset, other.metadata.rstrip("\0"))


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
                f"{self} is not a valid worker",
                hint="capacity is 1 to 1000000, and ttl_s twice beat_s or more, up to 600",
            )


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
                self._thread.start()
                self._is_started = True

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
        with suppress(Exception):  # the document ends by itself, after `ttl_s`
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

    def _is_ours(self, found: VersionedValue) -> bool:
        return self.id.encode() in found.value


EVERY_S = 2.0


class WorkerMeter:
    """`cpu_s` is the process's CPU time so far, `memory_bytes` its memory, `handled` the records it has handled."""

    def __init__(
        self, clock: Clock, cpu_s: Callable[[], float], memory_bytes: Callable[[], int], handled: Callable[[], int]
    ) -> None:
        self._clock, self._cpu_s, self._memory_bytes, self._handled = clock, cpu_s, memory_bytes, handled
        self._last = (clock.monotonic(), cpu_s(), 0)
        self._reading = WorkerReading()

    def read(self) -> WorkerReading:
        """The averages of the last 2 s; any thread may ask, one at a time."""
        now_s = self._clock.monotonic()
        before_s, before_cpu_s, before = self._last
        if now_s - before_s >= EVERY_S:
            self._last = (now_s, self._cpu_s(), self._handled())
            span_s = now_s - before_s
            self._reading = WorkerReading(
                cpu=round(max(0.0, self._last[1] - before_cpu_s) / span_s, 3),
                memory_bytes=self._memory_bytes(),
                records_per_s=round(max(0, self._last[2] - before) / span_s, 1),
            )
        return self._reading
