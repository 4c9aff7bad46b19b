"""The thread that reads one cluster of a stream: it polls, offers records to the workers, pauses, commits.

The commits of a member are kept with what was asked and what the group answered. Those of a transform are made in
transactions, with what it wrote.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from zlib import crc32

from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.errors import RefusedError, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import OutgoingRecord, headers_of
from kafkakit.ports.acting import Clock
from kafkakit.ports.streams import (
    NO_LEASE,
    TRANSACTION_S,
    GroupConsumer,
    ReadBatch,
    ReadRecord,
    TransactionalConsumer,
)
from kafkakit.streams.client.dead_letters import ConsumerHooks, ConsumerOptions, DeadLetterWriter
from kafkakit.streams.client.decide.client_documents import ClientEntry, ClientKind
from kafkakit.streams.client.decide.failures import Answers, Dependencies, WorkCounts
from kafkakit.streams.client.decide.figures import add_counts
from kafkakit.streams.client.decide.partition_work import (
    MIN_LIMIT_CHARS,
    CommitRule,
    NextCommit,
    PartitionWork,
    restore_commit,
)
from kafkakit.streams.client.decide.reading import TopicSource
from kafkakit.streams.client.decide.work_rules import DependencyDownError
from kafkakit.streams.client.producer import MakeOutput, RecordOutputs
from kafkakit.streams.client.workers import (
    EXITS,
    FIELDS,
    ConsumerLifecycle,
    Handler,
    OwnedPartition,
    PartitionOrigin,
    SharedWork,
    StreamRecord,
)
from kafkakit.streams.model.commit import CommitIdentity, CommitState
from kafkakit.streams.model.dialects.registry import read_metadata
from kafkakit.streams.model.provenance import read_retry_step
from kafkakit.streams.model.route import RETRY

_POLL_S = 0.05
_DRAIN_S = 0.005
_FULL_S, _ALL_FULL_S = 0.02, 0.2
_ANSWER_S = 10.0
_NO_SHARE_S = 5.0  # longer than brokers wait for more members of a new group, 3 s by default
STILL_S = 10.0
_BACKOFF_S = (0.2, 0.5, 1.0, 2.0, 5.0)


class ClusterReader:
    """A member of the group on one cluster, made again where it fails. Implements `AssignmentListener`.

    `is_grouped` tells which kind of member is opened; where that changes, it is closed and another one is opened.

    Its thread alone calls the client; the partitions' work is guarded by the lock of `SharedWork`.
    """

    def __init__(
        self,
        *,
        stream: str,
        group: str,
        cluster_id: str,
        open_member: Callable[[], GroupConsumer],
        shared: SharedWork,
        dependencies: Dependencies,
        answers: Answers,
        dead_letters: DeadLetterWriter | None,
        options: ConsumerOptions,
        hooks: ConsumerHooks,
        clock: Clock,
        lifecycle: ConsumerLifecycle,
        is_grouped: Callable[[], bool] = lambda: True,
        outbox: "Outbox | None" = None,
    ) -> None:
        self.owned: dict[TopicPartition, OwnedPartition] = {}
        self.left: dict[str, WorkCounts] = {}
        """Counts by lane of partitions that were taken away, or begun anew; the lock of `SharedWork` guards them."""
        self.filtered = self.unreadable = self.reconnects = 0
        self.problem: str | None = None
        self._not_joined: str | None = None
        self._stands_at: tuple[TopicPartition, int] | None = None
        self.epoch_read = 0
        """The newest epoch of whose topics here each is read, by this member or by others of its group."""
        self._stream, self._group, self._cluster_id = stream, group, cluster_id
        self._open_member = open_member
        self._shared = shared
        self._dependencies, self._answers = dependencies, answers
        self._dead_letters = dead_letters
        self._options, self._hooks, self._clock = options, hooks, clock
        self._is_grouped, self._lifecycle = is_grouped, lifecycle
        self._sources: Mapping[str, TopicSource] = {}
        self._subscribed: frozenset[str] = frozenset()
        self._epoch = 0
        self._subscribed_s = 0.0
        self._outbox = outbox
        self.commits = GroupCommits(self.owned, shared, lambda: self._epoch, outbox)
        self._requests: deque[Callable[[GroupConsumer], object]] = deque()
        self._asked_s = 0.0
        self._full_s = 0.0
        self._stopping = threading.Event()
        self._client: GroupConsumer | None = None
        # Whether a log was found cut: the member after that has looked whether the topic is still the same.
        self._was_cut = self._is_after_cut = False
        self._thread = lifecycle.thread(f"kafkakit-reader-{cluster_id}", self._run)

    def start(self) -> None:
        """Begin to read what `follow` named."""
        self._thread.start()

    def follow(self, epoch: int, sources: Mapping[str, TopicSource]) -> None:
        """Read these topics from now on; the thread takes them up at its next turn."""
        self._sources, self._epoch = dict(sources), epoch

    def request(self, call: Callable[[GroupConsumer], object]) -> None:
        """Let the reader's thread call something at its next turn."""
        self._requests.append(call)

    def stop(self) -> None:
        """Commit, leave the group and end; `join` waits for it."""
        self._stopping.set()

    def join(self, wait_s: float) -> bool:
        """Wait for the end; False after `wait_s`."""
        if self._thread.is_alive():
            self._thread.join(wait_s)
        return not self._thread.is_alive()

    @property
    def is_alive(self) -> bool:
        """True until it stopped or failed for good."""
        return self._thread.is_alive()

    @property
    def problems(self) -> list[str]:
        """What is wrong now: with the membership, with reading, with commits."""
        return [found for found in (self._not_joined, self.problem, self.commits.problem) if found]

    def _run(self) -> None:
        attempt = 0
        while not self._stopping.is_set():
            try:
                is_grouped = self._is_grouped()
                self._client = self._open_member()
                self._is_after_cut, self._was_cut = self._was_cut, False
                self._subscribed = frozenset()
                while not self._stopping.is_set() and self._is_grouped() == is_grouped:
                    self._turn(self._client)
                    attempt = 0 if self.owned else attempt
                    if self._not_joined and (self.owned or self._client.member_id()):
                        self._not_joined = None
                self._leave()
            except TryLaterError as error:
                self._not_joined = str(error)
                self.reconnects += 1
                self._drop()
                self._stopping.wait(_BACKOFF_S[min(attempt, len(_BACKOFF_S) - 1)])
                attempt += 1
            except BaseException as error:
                self._lifecycle.fail(error)
                self._drop()
                return

    def _leave(self) -> None:
        """Commit and leave the group: the consumer ends, or partitions come another way from now on."""
        client = self._client
        if client is not None:
            self.revoked(tuple(self.owned))
            self._client = None
            client.close(self._options.close_s)

    def _drop(self) -> None:
        """The member failed: another one may have its partitions by now, and its client may hang."""
        try:
            self.lost(tuple(self.owned))
        finally:
            client, self._client = self._client, None
            if client is not None:
                client.close(0.0)

    def _turn(self, client: GroupConsumer) -> None:
        epoch, sources = self._epoch, self._sources  # in this order: `follow` sets the epoch last
        if self._subscribed != frozenset(sources):
            self._subscribed, self._subscribed_s = frozenset(sources), self._clock.monotonic()
            client.subscribe(sorted(sources), self)
        while self._requests:
            self._requests.popleft()(client)
        for owned in self._queued():
            owned.lease = client.lease(owned.partition)
        if self._may_poll(client):
            self._shared.wait_for_demand(_DRAIN_S)
            batches = client.poll(self._options.poll_records, _POLL_S)
            for batch in batches:
                self._offer(client, batch)
        else:
            with self._shared.lock:
                self._shared.lock.wait(_DRAIN_S)
        with self._shared.lock:
            self._shared.announce_work()
        self._write_rejections(self._queued())
        if self.epoch_read < epoch:
            self._note_epoch(client, epoch)
        waited_s = self._clock.monotonic() - self._asked_s
        if waited_s >= self._options.commit_every_s and (not self.commits.is_asked or waited_s > _ANSWER_S):
            self._asked_s = self._clock.monotonic()
            if self.commits.gone is not None:  # the next member sees whether it is another one
                raise TryLaterError(f"the topic of {self.commits.gone} is not there")
            self.commits.ask(client)
            for owned in self.owned.values():
                self._note_standstill(owned)

    def _queued(self) -> list[OwnedPartition]:
        """The partitions with records that are not done: of thousands, all others have nothing to do."""
        return [owned for owned in self.owned.values() if owned.is_queued]

    def _note_epoch(self, client: GroupConsumer, epoch: int) -> None:
        """Acknowledge an epoch once the member has a share of every topic, or has been given none for a while."""
        has_all = self._subscribed <= {partition.topic for partition in self.owned}
        if has_all or (client.member_id() and self._clock.monotonic() - self._subscribed_s >= _NO_SHARE_S):
            self.epoch_read = epoch

    def _offer(self, client: GroupConsumer, batch: ReadBatch) -> None:
        owned = self.owned.get(batch.partition)
        if owned is None:
            return
        records, offsets, wanted = batch.records, batch.offsets, self._hooks.filter
        is_retry = owned.origin.source.lane == RETRY
        if wanted is not None or is_retry:
            if is_retry:
                records = [record for record in records if self._is_ours(record)]
            if wanted is not None:
                records = [record for record in records if _is_wanted(record, wanted)]
            offsets = [record.offset() for record in records]
            self.filtered += len(batch.records) - len(records)
        with self._shared.lock:
            if owned.work is None:
                first = batch.offsets[0] if batch.offsets else batch.next_offset
                if first < 0:
                    return
                owned.work = self._work_from(CommitState(base=first))
                owned.written = CommitState(base=first)
            elif batch.offsets and batch.offsets[0] < owned.work.position:
                self._begin_again(client, owned, owned.work, batch.offsets[0])
            if batch.next_offset >= 0:
                owned.work.offer(offsets, records, batch.next_offset)
                owned.lease = client.lease(owned.partition)
                self._shared.add(owned)
                self._shared.announce()
                self._note_passed(owned, owned.work.position)
        if batch.unreadable:
            self._leave_out(client, owned, batch)

    def _is_ours(self, record: ReadRecord) -> bool:
        """False for what another group has put off: this one has handled it, or will, on its own."""
        try:
            step = read_retry_step(headers_of(record))
        except Exception:  # headers that the client cannot read; the handler gets to see it
            return True
        return step is None or step.group == self._group

    def _begin_again(
        self, client: GroupConsumer, owned: OwnedPartition, work: PartitionWork[ReadRecord], first: int
    ) -> None:
        """The client went back: the log ends before what was committed, and new records come at lower offsets."""
        end = client.end_offset(owned.partition)
        if end is None or end >= work.position:
            return
        lost = f"{owned.partition} ends at {end}, before {work.position}: the log was cut, and is read again"
        if work.buffered_records or not self._is_after_cut:
            self._was_cut = True
            raise TryLaterError(lost)  # no worker of a new member has records of before, and it sees another topic
        self.problem = lost
        self._keep_counts(owned)
        if self._outbox is not None:
            self._outbox.begin(owned.origin)
        owned.work = self._work_from(CommitState(base=first))
        owned.written = CommitState(base=first)

    def _leave_out(self, client: GroupConsumer, owned: OwnedPartition, batch: ReadBatch) -> None:
        """A batch that the client cannot, or must not, decode: it would stand before it for ever."""
        self.unreadable += 1
        work, guard = owned.work, self._hooks.guard
        if work is None:
            return
        self._note_standing(owned, work.position, batch.unreadable)
        try:
            left_out = guard(owned.origin, work.position, self._epoch, batch.verdict) if guard is not None else None
        except EXITS:
            raise
        except BaseException as error:  # the note is not durable: it is tried again with the next poll
            self._note_standing(owned, work.position, str(error) or type(error).__name__)
            return
        if left_out is None or left_out.next_offset <= work.position:
            return
        with self._shared.lock:
            work.offer([], [], left_out.next_offset)
        self._note_passed(owned, left_out.next_offset)
        client.seek(owned.partition, left_out.next_offset)

    def _note_standing(self, owned: OwnedPartition, offset: int, problem: str) -> None:
        """Reading stands at an offset, which is a problem until it is passed."""
        self._stands_at = owned.partition, offset
        self.problem = f"{owned.partition} at {offset}: {problem}"

    def _note_passed(self, owned: OwnedPartition, position: int) -> None:
        if self._stands_at is not None and self._stands_at[0] == owned.partition and self._stands_at[1] < position:
            self._stands_at = self.problem = None

    def _may_poll(self, client: GroupConsumer) -> bool:
        """Pause what is full and resume what has drained; False where only waiting makes sense."""
        with self._shared.lock:
            paused = [owned for owned in self.owned.values() if owned.is_paused]
            reading = [owned for owned in self._queued() if not owned.is_paused]
            full = [owned for owned in reading if owned.work and not owned.work.wants_records]
            drained = [owned for owned in paused if owned.work and owned.work.is_drained]
        # A pause drops what the client read ahead, to be fetched once more: fast handlers drain sooner than that, and
        # where no other partition is to be read, waiting costs nothing.
        now_s = self._clock.monotonic()
        self._full_s = (self._full_s or now_s) if full else 0.0
        wait_s = _ALL_FULL_S if len(full) + len(paused) == len(self.owned) else _FULL_S
        if full and not drained and now_s - self._full_s < wait_s:
            return False
        self._full_s = 0.0
        if full:
            client.pause([owned.partition for owned in full])
        if drained:
            client.resume([owned.partition for owned in drained])
        for owned in (*full, *drained):
            owned.is_paused = owned in full
        return True

    def _note_standstill(self, owned: OwnedPartition) -> None:
        """Clients do not report all that they cannot decode, and a cluster that hangs reports nothing."""
        work, at, now_s = owned.work, None, self._clock.monotonic()
        if work is not None and owned.end is not None and not owned.is_paused and not work.buffered_records:
            at = work.position if work.position < owned.end else None
        if at != owned.still_at:
            owned.still_at, owned.still_s = at, now_s
        elif at is not None and now_s - owned.still_s >= STILL_S:
            for_s = now_s - owned.still_s
            self._note_standing(owned, at, f"nothing was read for {for_s:.0f} s, the log ends at {owned.end}")

    def committed(self, results: Mapping[TopicPartition, str]) -> None:
        self.commits.answered(results)

    def assigned(self, committed: Mapping[TopicPartition, CommittedOffset | None]) -> None:
        """See the port: continue where the latest owner's commit says."""
        assigned = []
        for partition, commit in committed.items():
            source = self._sources.get(partition.topic)
            if source is None:
                continue
            identity = source.identity(partition.partition, self._group)
            work, written = None, None
            if commit is not None and self._is_of_earlier_topic(source, identity, commit):
                self.problem = (
                    f"{partition}: its commit is of a topic that was deleted; this one is read from its start"
                )
                if self._client is not None:
                    self._client.seek(partition, 0)
            elif commit is not None:
                restored = restore_commit(commit, identity)
                if restored.is_newer and not self._options.adopt_newer:
                    raise RefusedError(
                        f"the commit of {partition} was written by a newer version: {restored.problem}",
                        hint="upgrade, or set adopt_newer and lose what it acknowledges out of order",
                    )
                self.problem = f"{partition}: {restored.problem}" if restored.problem else self.problem
                work, written = self._work_from(restored.state), restored.state
            owned = OwnedPartition(
                origin=PartitionOrigin(stream=self._stream, source=source, partition=partition),
                identity=identity,
                rule=self._options.commit,
                work=work,
                written=written,
                lease=self._client.lease(partition) if self._client is not None else NO_LEASE,
            )
            assigned.append(owned)
            if self._outbox is not None:
                self._outbox.begin(owned.origin)
        self._tell(assigned, self._hooks.on_assign)
        with self._shared.lock:
            self.owned |= {owned.partition: owned for owned in assigned}

    @staticmethod
    def _is_of_earlier_topic(source: TopicSource, identity: CommitIdentity, commit: CommittedOffset) -> bool:
        """Whether an owner that had not noticed committed what it had read before the topic was created again."""
        earlier = (replace(identity, topic_id=topic_id) for topic_id in source.earlier_ids)
        return any(read_metadata(commit.metadata, commit.offset, each).is_proven for each in earlier)

    def _tell(self, some: Sequence[OwnedPartition], hook: Callable[..., object] | None, *more: object) -> None:
        """Call a hook of the application about partitions; what it raises ends the consumer."""
        if hook is None or not some:
            return
        try:
            hook(tuple(owned.origin for owned in some), *more)
        except BaseException as error:
            self._lifecycle.fail(error)

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """See the port: wait for handlers a while, write what was rejected, commit."""
        leaving = [self.owned[partition] for partition in partitions if partition in self.owned]
        if not leaving:
            return
        with self._shared.lock:
            self._shared.remove(leaving, self._options.revoke_s)
        self._tell(leaving, self._hooks.on_revoke, False)
        self._write_rejections(leaving)
        if self._dead_letters is not None:
            self._dead_letters.wait_empty(min(1.0, self._options.revoke_s))
        try:
            if self._client is not None:
                self.commits.commit(self._client, leaving, self._options.close_s)
        finally:
            self._forget(leaving)

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """See the port: what was not committed is handled again by the next owner."""
        leaving = [self.owned[partition] for partition in partitions if partition in self.owned]
        with self._shared.lock:
            self._shared.remove(leaving, 0.0)
        self._tell(leaving, self._hooks.on_revoke, True)
        self._forget(leaving)

    def _forget(self, leaving: Collection[OwnedPartition]) -> None:
        with self._shared.lock:
            for owned in leaving:
                owned.is_gone = True
                self._keep_counts(owned)
                self.owned.pop(owned.partition, None)
                self.commits.forget(owned.partition)
                if self._outbox is not None:
                    self._outbox.forget(owned.origin)

    def _keep_counts(self, owned: OwnedPartition) -> None:
        if owned.work is not None:
            add_counts(self.left.setdefault(owned.origin.source.lane, WorkCounts()), owned.work.counts)

    def _write_rejections(self, partitions: Collection[OwnedPartition]) -> None:
        if self._dead_letters is None:
            return
        with self._shared.lock:
            some = [(owned, owned.work.unwritten_rejections()) for owned in partitions if owned.work is not None]
        for owned, rejections in some:
            if rejections:
                self._dead_letters.add(owned, rejections)

    def _work_from(self, state: CommitState) -> PartitionWork[ReadRecord]:
        return PartitionWork(state, self._options.work, FIELDS, self._dependencies, self._answers)


def _is_wanted(record: ReadRecord, wanted: Callable[[ReadRecord], bool]) -> bool:
    try:
        headers_of(record)  # after this, the filter's own call is safe
        return wanted(record)
    except EXITS:
        raise
    except BaseException:  # the handler has retries and a dead-letter lane for what it cannot read, a filter has not
        return True


OUTBOX_BYTES = 64 << 20
_SPACE_S = 5.0
Transform = Callable[[StreamRecord, RecordOutputs], object]


class Outbox:
    """The outputs of records that were handled, until one transaction writes them and commits these records.

    Each transaction writes the outputs of exactly those records that its commit is the first to say are done. So it
    does not matter which handlers run meanwhile, and an output is written once, whatever ends before or after it.
    `place` is the topic to be written, and raises where none may be; `epoch` is that of its route. No place is asked
    for before `epoch`, so that it is that of the route or an older one.
    """

    def __init__(
        self, place: Callable[[], str], epoch: Callable[[], int], make: MakeOutput, limit_bytes: int = OUTBOX_BYTES
    ) -> None:
        self.member: TransactionalConsumer | None = None
        self.is_over: Callable[[], bool] = lambda: False
        self._place, self._epoch, self._make, self._limit = place, epoch, make, limit_bytes
        self._changed = threading.Condition()
        self._kept: dict[int, tuple[PartitionOrigin, dict[int, RecordOutputs]]] = {}
        self._bytes = 0
        self._writes_in: int | None = None

    def handler(self, transform: Transform) -> Handler:
        """A handler that keeps what the transform writes."""

        def handle(record: StreamRecord) -> object:
            outputs = RecordOutputs(self._make)
            returned = transform(record, outputs)
            self._keep(record, outputs)
            return returned

        return handle

    def begin(self, origin: PartitionOrigin) -> None:
        """A partition was assigned, or is read anew: nothing of it is kept."""
        with self._changed:
            self._drop(origin)
            self._kept[id(origin)] = origin, {}

    def forget(self, origin: PartitionOrigin) -> None:
        """The partition was taken away; what handlers still bring of it counts no more."""
        with self._changed:
            self._drop(origin)

    def commit(self, asked: Mapping[TopicPartition, tuple[OwnedPartition, NextCommit]], timeout_s: float) -> str:
        """Write and commit; empty, or why nothing was. Raises where a route has moved on: nothing is written then."""
        if self.member is None:
            return "there is no member of the group"
        with self._changed:
            self._writes_in = self._epoch()
        try:
            topic = self._place()
            records = [record for owned, commit in asked.values() for record in self._new(owned, commit)]
            commits = {partition: commit.committed for partition, (_, commit) in asked.items()}
            failure = self.member.write_and_commit(topic, records, commits, timeout_s)
        except TryLaterError as error:  # the lane is paused: the outputs wait
            return str(error)
        finally:
            with self._changed:
                self._writes_in = None
        if not failure:
            with self._changed:
                for owned, commit in asked.values():
                    self._let_go(owned, commit.encoded.written)
                self._changed.notify_all()
        return failure

    def registration(self) -> ClientEntry | None:
        """See `RegisteredClient`: between transactions it has moved to any route, as the next one looks first."""
        if self.is_over():
            return None
        with self._changed:
            epoch = self._epoch() if self._writes_in is None else self._writes_in
        return ClientEntry(kind=ClientKind.PRODUCER, epoch=epoch, delivery_timeout_ms=round(TRANSACTION_S * 1000))

    def _keep(self, record: StreamRecord, outputs: RecordOutputs) -> None:
        size, key = outputs.size, id(record.origin)
        with self._changed:
            if (kept := self._kept.get(key)) is None:
                return
            if (old := kept[1].pop(record.offset, None)) is not None:
                self._bytes -= old.size
            if not self._changed.wait_for(lambda: key not in self._kept or self._has_space(size), _SPACE_S):
                raise DependencyDownError("transaction", f"{self._bytes:,} bytes wait for a transaction")
            if outputs.records and (kept := self._kept.get(key)) is not None:
                kept[1][record.offset] = outputs
                self._bytes += size

    def _has_space(self, size: int) -> bool:
        return not size or not self._bytes or self._bytes + size <= self._limit

    def _new(self, owned: OwnedPartition, commit: NextCommit) -> list[OutgoingRecord]:
        """The outputs of what this commit says to be done, and the one before did not."""
        with self._changed:
            if owned.written is not None:
                self._let_go(owned, owned.written)
            _, kept = self._kept.get(id(owned.origin), (None, dict[int, RecordOutputs]()))
            done = [offset for offset in sorted(kept) if _is_done(commit.encoded.written, offset)]
            return [record for offset in done for record in kept[offset].records]

    def _let_go(self, owned: OwnedPartition, written: CommitState) -> None:
        _, kept = self._kept.get(id(owned.origin), (None, dict[int, RecordOutputs]()))
        for offset in [offset for offset in kept if _is_done(written, offset)]:
            self._bytes -= kept.pop(offset).size

    def _drop(self, origin: PartitionOrigin) -> None:
        _, kept = self._kept.pop(id(origin), (None, dict[int, RecordOutputs]()))
        self._bytes -= sum(outputs.size for outputs in kept.values())
        self._changed.notify_all()


def _is_done(written: CommitState, offset: int) -> bool:
    return offset < written.base or offset in written.done


TOO_LARGE, NO_TOPIC = "OFFSET_METADATA_TOO_LARGE", "UNKNOWN_TOPIC_OR_PART"


class GroupCommits:
    """For the thread of the reader alone. `owned` are its partitions, `epoch` the route's epoch now."""

    def __init__(
        self,
        owned: Mapping[TopicPartition, OwnedPartition],
        shared: SharedWork,
        epoch: Callable[[], int],
        outbox: Outbox | None = None,
    ) -> None:
        self.written = self.errors = 0
        self._outbox = outbox
        self._failed: dict[TopicPartition, str] = {}
        self._owned, self._shared, self._epoch = owned, shared, epoch
        self._asked: dict[TopicPartition, NextCommit] = {}

    @property
    def problem(self) -> str | None:
        """The error of the latest commit of a partition that failed; None once it succeeded, or the partition left."""
        failed = list(self._failed.items())
        return f"commit of {failed[-1][0]}: {failed[-1][1]}" if failed else None

    @property
    def gone(self) -> TopicPartition | None:
        """A partition whose topic the brokers did not know at its latest commit: it was deleted, or made again."""
        return next((partition for partition, error in list(self._failed.items()) if error == NO_TOPIC), None)

    @property
    def is_asked(self) -> bool:
        """True while the answer to a commit is awaited."""
        return bool(self._asked)

    def ask(self, client: GroupConsumer) -> None:
        """Commit what changed; `answered` gets the answer."""
        for owned in self._owned.values():
            owned.end = client.end_offset(owned.partition)
        for partition in self._failed.keys() - self._owned.keys():
            del self._failed[partition]
        for partition in self._asked:  # no answer came in time: it is unknown what was written
            self._owned[partition].committed_as = ()
        self._asked = self._next(client, self._owned.values())
        if self._asked and self._outbox is not None:
            self.answered(self._transact(self._outbox, self._asked, _ANSWER_S))
        elif self._asked:
            client.commit_later({partition: commit.committed for partition, commit in self._asked.items()})

    def commit(self, client: GroupConsumer, partitions: Collection[OwnedPartition], wait_s: float) -> None:
        """Commit what changed and wait for the answer."""
        for owned in partitions:  # the answer to the latest commit may still be under way, and be an error
            owned.committed_as = ()
        commits = self._next(client, partitions)
        if commits and self._outbox is not None:
            self._note(commits, self._transact(self._outbox, commits, wait_s))
        elif commits:
            asked = {partition: commit.committed for partition, commit in commits.items()}
            self._note(commits, client.commit(asked, wait_s))

    def _transact(
        self, outbox: Outbox, commits: Mapping[TopicPartition, NextCommit], wait_s: float
    ) -> dict[TopicPartition, str]:
        asked = {partition: (self._owned[partition], commit) for partition, commit in commits.items()}
        return dict.fromkeys(commits, outbox.commit(asked, wait_s))

    def answered(self, results: Mapping[TopicPartition, str]) -> None:
        """The answer to `ask`."""
        asked, self._asked = self._asked, {}
        self._note(asked, results)

    def forget(self, partition: TopicPartition) -> None:
        """The partition was taken away, and with it what went wrong with its commits."""
        self._asked.pop(partition, None)
        self._failed.pop(partition, None)

    def _next(self, client: GroupConsumer, partitions: Collection[OwnedPartition]) -> dict[TopicPartition, NextCommit]:
        epoch, member_hash = self._epoch(), crc32(client.member_id().encode())
        with self._shared.lock:
            made = {owned.partition: self._shared.commit_of(owned, epoch, member_hash) for owned in partitions}
        return {partition: commit for partition, commit in made.items() if commit is not None}

    def _note(self, asked: Mapping[TopicPartition, NextCommit], results: Mapping[TopicPartition, str]) -> None:
        """What is written now, and which commits are to be made again."""
        for partition, commit in asked.items():
            owned, error = self._owned.get(partition), results.get(partition, "no answer")
            if owned is None:
                continue
            if not error:
                self.written += 1
                owned.written = commit.encoded.written
                self._failed.pop(partition, None)
                continue
            self.errors += 1
            self._failed.pop(partition, None)
            self._failed[partition] = error
            owned.committed_as = ()
            if error == TOO_LARGE:
                fewer = max(MIN_LIMIT_CHARS, min(owned.rule.limit_chars, len(commit.encoded.text)) * 3 // 4)
                owned.rule = CommitRule(limit_chars=fewer, alphabets=owned.rule.alphabets)
