"""What a consumer gives up: written elsewhere until it is durable there, and before that no commit passes it.

Rejected records go into the lane `dlq` of their own stream, or stand by reference in the reject ledger of the cluster
that holds them. The options of a consumer, and the hooks it calls, say which.
"""

import json
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kafkakit.core.errors import UsageError
from kafkakit.core.records import Headers
from kafkakit.ports.acting import Clock
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import DataPlane, LogReader
from kafkakit.ports.streams import MemberRule, ReadRecord
from kafkakit.streams.client.decide.failures import Rejection, RejectReason
from kafkakit.streams.client.decide.outgoing import NotAcknowledgedError, RecordRefusedError, RecordTooLargeError
from kafkakit.streams.client.decide.partition_work import CommitRule
from kafkakit.streams.client.decide.work_rules import NotYetError, WorkRules, failure_of
from kafkakit.streams.client.producer import Producer
from kafkakit.streams.client.workers import (
    EXITS,
    Checkpoint,
    ConsumerLifecycle,
    OwnedPartition,
    PartitionOrigin,
    SharedWork,
    StreamRecord,
)
from kafkakit.streams.model.guarded_reads import BatchVerdict, GuardedRead, VerdictKind
from kafkakit.streams.model.provenance import (
    LedgerReject,
    RecordFailure,
    RetryStep,
    provenance_headers,
    read_retry_step,
)
from kafkakit.streams.model.provenance import RecordOrigin as Place
from kafkakit.streams.model.route import DLQ, RETRY

if TYPE_CHECKING:
    from kafkakit.streams.lanes.api_act import RejectLedger

_FIRST_S, _MOST_S = 0.1, 5.0
_SINK_AGAIN_S = 30.0
"""How long a spare takes what a sink could not: each try of the sink may wait as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRecord:
    """A record for the dead-letter lane: what it was, why it was rejected after how many tries, when, and by what."""

    record: StreamRecord
    reason: str
    tries: int
    error: str
    text: str
    group: str
    epoch: int
    at_ms: int

    @property
    def place(self) -> Place:
        """Where it lies, as its provenance tells it."""
        record = self.record
        return place_of(record.origin, record.offset, self.epoch, record.timestamp_ms)


RejectSink = Callable[[RejectedRecord], object]
"""Writes a rejected record and returns when it is durable; an error means that it may not be, and it is repeated."""


class DeadLetterWriter:
    """One thread that writes rejected records in order, and repeats what fails until it succeeds or is taken away.

    While `sink` fails, records of a partition that is full, and so not fetched, go to `spare`, if there is one. A
    record may be written twice: after an error that came too late, and after a crash before the next commit.
    """

    def __init__(
        self,
        sink: RejectSink,
        shared: SharedWork,
        clock: Clock,
        group: str,
        epoch: Callable[[], int],
        lifecycle: ConsumerLifecycle,
        spare: RejectSink | None = None,
    ) -> None:
        self.failures = 0
        self.written = 0
        self.last_error: str | None = None
        self._sink, self._spare = sink, spare
        self._sink_from_s = 0.0
        self._shared = shared
        self._clock = clock
        self._group = group
        self._epoch = epoch
        self._queue: deque[tuple[OwnedPartition, Rejection[ReadRecord]]] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = lifecycle.thread("kafkakit-dead-letters", self._run)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def add(self, owned: OwnedPartition, rejections: Iterable[Rejection[ReadRecord]]) -> None:
        """Queue rejected records of a partition."""
        with self._changed:
            self._queue.extend((owned, rejection) for rejection in rejections)
            self._changed.notify_all()

    def wait_empty(self, wait_s: float) -> bool:
        """Wait until all that is queued was written; False after `wait_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queue, wait_s)

    def close(self) -> None:
        """Write no more; what is queued stays rejected in the commits, and is written after a restart."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        delay_s = _FIRST_S
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._is_closed)
                if self._is_closed:
                    return
                owned, rejection = self._queue[0]
            if not owned.is_gone and not self._write(owned, rejection):
                with self._changed:
                    self._changed.wait_for(lambda: self._is_closed, delay_s)
                delay_s = min(2 * delay_s, _MOST_S)
                continue
            delay_s = _FIRST_S
            with self._changed:
                self._queue.popleft()
                self._changed.notify_all()

    def _write(self, owned: OwnedPartition, rejection: Rejection[ReadRecord]) -> bool:
        rejected = RejectedRecord(
            record=StreamRecord((rejection.record, owned.origin, rejection.tries)),
            reason=rejection.reason.value,
            tries=rejection.tries,
            error=rejection.error,
            text=rejection.text,
            group=self._group,
            epoch=self._epoch(),
            at_ms=int(self._clock.now().timestamp() * 1000),
        )
        spare = self._spare if owned.is_paused else None
        if spare is None or self._clock.monotonic() >= self._sink_from_s:
            is_written = self._written(self._sink, rejected)
            self.last_error = None if is_written else self.last_error
            self._sink_from_s = 0.0 if is_written else self._clock.monotonic() + _SINK_AGAIN_S
        else:
            is_written = False
        if not is_written and (spare is None or not self._written(spare, rejected)):
            return False
        with self._shared.lock:
            if owned.work is not None:
                owned.work.rejection_is_durable(rejection.offset)
            self._shared.lock.notify_all()
        return True

    def _written(self, sink: RejectSink, rejected: RejectedRecord) -> bool:
        try:
            sink(rejected)
        except EXITS:
            raise
        except BaseException as error:
            self.failures += 1
            failure = failure_of(error)
            self.last_error = f"{failure.error}: {failure.text}"
            return False
        self.written += 1
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """How a consumer reads and handles; the defaults suit handlers that wait for other services.

    `lanes` None are all but `dlq`; `strict_live` serves `live` before all others. `revoke_s` and `close_s` bound what
    a partition that goes elsewhere, and a close, wait for handlers. `strict_guard` judges each batch before any decoder
    gets it, as docs/bombs.md describes, for more CPU time; without it only zstd batches have a bound. `adopt_newer`
    commits over metadata of a newer version of this client, whose acknowledgements are then lost. `member` is how it is
    a member of Kafka's groups. With `retry_after_s` a record that would be rejected as out of tries goes to the lane
    `retry` of its stream first, as often as there are times, and is handled there when each has passed. An asynchronous
    handler that takes longer than `handle_s` is cancelled, and its record has failed; one in a thread cannot be ended.
    0 is no limit. Handlers that take longer than that, or than five minutes, are among the problems.
    """

    concurrency: int = 16
    work: WorkRules = field(default_factory=WorkRules)
    commit: CommitRule = field(default_factory=CommitRule)
    lanes: Collection[str] | None = None
    strict_live: bool = False
    commit_every_s: float = 1.0
    poll_records: int = 2_000
    revoke_s: float = 5.0
    close_s: float = 10.0
    adopt_newer: bool = False
    strict_guard: bool = False
    member: MemberRule = field(default_factory=MemberRule)
    retry_after_s: tuple[float, ...] = ()
    handle_s: float = 0.0

    @property
    def hanging_s(self) -> float:
        """After how long a handler is a problem."""
        return self.handle_s or HANGING_S

    def __post_init__(self) -> None:
        if len(self.retry_after_s) > 100 or not all(0 <= each <= LONGEST_RETRY_S for each in self.retry_after_s):
            raise UsageError(f"retry_after_s has up to 100 times of 0 to {LONGEST_RETRY_S} seconds")
        if not 1 <= self.concurrency <= 1_000 or self.poll_records < 1:
            raise UsageError("concurrency is 1 to 1000, and a poll brings 1 record or more")
        if self.lanes is not None and not self.lanes:
            raise UsageError("lanes names no lane, so nothing would be read", hint="None reads all lanes but dlq")
        if not (self.commit_every_s > 0 and min(self.revoke_s, self.close_s) >= 0 and self.handle_s >= 0):
            raise UsageError("commit_every_s is above 0; revoke_s, close_s and handle_s are 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A batch that the client must not decode: reading continues at `next_offset`, and what is before is durable."""

    next_offset: int


Deserializer = Callable[[Any, Any], Any]
"""Makes a key or value of bytes and of a `SerializationContext`, as those of confluent-kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHooks:
    """What a consumer calls.

    `reject` writes rejected records (none: they stay references in commits, which base does not pass before
    `StreamConsumer.rejections_are_durable`); `spare` writes those that `reject` could not while their partition is
    full of what waits. `guard` gets the origin and the offset of a batch that the client cannot decode, the route's
    epoch, and the verdict that kept the client from decoding it (None where it tried): it makes a note that lasts, or
    returns None to leave the batch. `filter` sees records before they are handled, by their key and headers: those for
    which it is false are done at once (an error counts as true). `checkpoint` is called before each record is handled.
    `on_assign` gets partitions that are the consumer's from now on, before a record of them is handled; `on_revoke`
    those that go, after the last one is handled and before that is committed, and whether they were lost: others may
    have them already, and nothing is committed. Both delay the cluster's other partitions, and an error ends the
    consumer. `is_healthy` tells whether all that handlers need answers, so that records which alone are left and fail
    can be told from an outage: it is asked once a second while some are out of tries and nothing is handled, in a
    thread of its own, and an error counts as false. Deserializers are called as confluent-kafka calls them, before the
    handler and in its place: what they raise is a failure of the record. The topic in their context is the stream.
    """

    reject: RejectSink | None = None
    spare: RejectSink | None = None
    guard: Callable[[PartitionOrigin, int, int, BatchVerdict | None], LeftOut | None] | None = None
    filter: Callable[[ReadRecord], bool] | None = None
    checkpoint: Checkpoint | None = None
    on_assign: Callable[[Sequence[PartitionOrigin]], object] | None = None
    on_revoke: Callable[[Sequence[PartitionOrigin], bool], object] | None = None
    is_healthy: Callable[[], object] | None = None
    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None


HANGING_S = 300.0
LONGEST_RETRY_S = 30 * 86_400
WRITE_S = 30.0
LEFT_OUT_HEADER = "kafkakit-left-out-bytes"
LEFT_OUT_HEADERS_HEADER = "kafkakit-left-out-headers"
BOMB_REASON, CORRUPT_REASON = "batch too large", "batch corrupt"
BATCH_LIMIT_BYTES = 16 << 20
"""What a batch may become in the strict way; producers of streams write no more by default."""
_FETCH_BYTES, _FETCH_MS = 1 << 20, 1_000


class DeadLetterLane:
    """A `RejectSink`: each record goes to the lane with the headers it had and those of its provenance.

    A value that does not fit with these headers is left out, and so are headers that no producer of streams writes: a
    header counts the bytes, or the headers, and they stay where the provenance says they are.
    """

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def __call__(self, rejected: RejectedRecord) -> None:
        """Write a record and wait until all in-sync replicas have it."""
        record = rejected.record
        here, failure = rejected.place, failure_in(rejected)
        headers = provenance_headers(record.headers, here, failure)
        own = provenance_headers((), here, failure)
        try:
            try:
                self.write(record.value, record.key, headers)
            except RecordTooLargeError:
                raise
            except RecordRefusedError:  # another client wrote headers that this one does not
                left_out = (LEFT_OUT_HEADERS_HEADER, b"%d" % len(record.headers))
                self.write(record.value, record.key, (*own, left_out))
        except (RecordTooLargeError, NotAcknowledgedError) as error:
            if isinstance(error, NotAcknowledgedError) and "MSG_SIZE_TOO_LARGE" not in str(error):
                raise
            left_out = (LEFT_OUT_HEADER, b"%d" % (len(record.value or b"") + len(record.key or b"")))
            self.write(None, None, (*own, left_out))

    def write(self, value: bytes | None, key: bytes | None, headers: Headers, lane: str = DLQ) -> None:
        """Write a record to the lane; raises what `Delivery.result` raises."""
        record = self._producer.prepared(value, key, headers=headers)
        self._producer.send_record(record, lane=lane, wait_s=WRITE_S).result(WRITE_S)


class RetryLane:
    """A `RejectSink`: what is out of tries goes to the lane `retry` once for each time, and then where all else goes.

    A record that does not fit with the headers of its provenance goes there at once.
    """

    def __init__(self, after_s: Sequence[float], lane: DeadLetterLane, then: RejectSink) -> None:
        self._after_s, self._lane, self._then = after_s, lane, then

    def __call__(self, rejected: RejectedRecord) -> None:
        """Write a record and wait until it is durable."""
        record, step = rejected.record, step_of(rejected.record, rejected.group)
        done = step.number if step is not None else 0
        if done >= len(self._after_s) or rejected.reason in _FINAL:
            self._then(rejected)
            return
        due_ms = rejected.at_ms + round(1000 * self._after_s[done])
        put_off = RetryStep(number=done + 1, due_ms=due_ms, group=rejected.group)
        headers = (*provenance_headers(record.headers, rejected.place, failure_in(rejected)), put_off.header())
        try:
            self._lane.write(record.value, record.key, headers, RETRY)
        except (RecordTooLargeError, RecordRefusedError):
            self._then(rejected)


_FINAL = frozenset((RejectReason.HANDLER, RejectReason.BOMB))


def step_of(record: StreamRecord, group: str) -> RetryStep | None:
    """The step by which a group put a record off into the lane that it was read from."""
    step = read_retry_step(record.headers) if record.lane == RETRY else None
    return step if step is not None and step.group == group else None


def until_due(group: str, clock: Clock, then: Checkpoint | None) -> Checkpoint:
    """A checkpoint that lets no record pass before its time."""

    def check(record: StreamRecord) -> None:
        step = step_of(record, group)
        left_ms = 0 if step is None else step.due_ms - int(clock.now().timestamp() * 1000)
        if left_ms > 0:
            raise NotYetError(left_ms)
        if then is not None:
            then(record)

    return check


class BatchGuard:
    """Judges a batch that the client could not decode, unless that was done, and notes in the lane what is passed over.

    The note has the provenance of the batch's first record and, as JSON, the offsets and what the headers tell. The
    batch itself stays in the log until retention deletes it; `kafkakit streams bombs quarantine` keeps it longer.
    """

    def __init__(self, open_log: Callable[[str], LogReader], lane: DeadLetterLane, group: str, clock: Clock) -> None:
        self._open_log, self._lane, self._group, self._clock = open_log, lane, group, clock

    def __call__(
        self, origin: PartitionOrigin, offset: int, epoch: int, verdict: BatchVerdict | None = None
    ) -> LeftOut | None:
        """None where the batch does not show why it cannot be decoded."""
        verdict = verdict or self._verdict(origin, offset)
        if verdict is None:
            return None
        at_ms = verdict.batch.max_ms if verdict.batch is not None else None
        first = max(offset, verdict.start)
        note = {
            "first_offset": first,
            "last_offset": verdict.end - 1,
            "kind": verdict.kind.value,
            "bytes": verdict.size,
            "at_most_bytes": verdict.at_most_bytes,
            "reason": verdict.reason,
        }
        failure = RecordFailure(
            group=self._group,
            reason=CORRUPT_REASON if verdict.kind is VerdictKind.CORRUPT else BOMB_REASON,
            at_ms=int(self._clock.now().timestamp() * 1000),
            error_text=str(note),
        )
        headers = provenance_headers((), place_of(origin, first, epoch, at_ms), failure)
        self._lane.write(json.dumps(note, separators=(",", ":")).encode(), None, headers)
        return LeftOut(next_offset=verdict.end)

    def _verdict(self, origin: PartitionOrigin, offset: int) -> BatchVerdict | None:
        log = self._open_log(origin.source.cluster_id)
        fetched = log.fetch({origin.partition: offset}, max_bytes=_FETCH_BYTES, wait_ms=_FETCH_MS)[origin.partition]
        read = GuardedRead(fetched=fetched, start=offset, limit_bytes=BATCH_LIMIT_BYTES)
        return next(read.pieces()).verdict


def place_of(origin: PartitionOrigin, offset: int, epoch: int, at_ms: int | None) -> Place:
    """Where a record lies, as its provenance tells it."""
    source = origin.source
    return Place(
        stream=origin.stream,
        lane=source.lane,
        segment=source.segment,
        epoch=epoch,
        cluster_id=source.cluster_id,
        topic=source.topic,
        partition=origin.partition.partition,
        offset=offset,
        at_ms=at_ms,
    )


def failure_in(rejected: RejectedRecord) -> RecordFailure:
    """Why a record was rejected, as its provenance tells it."""
    return RecordFailure(
        group=rejected.group,
        reason=rejected.reason,
        at_ms=rejected.at_ms,
        tries=rejected.tries,
        error_class=rejected.error,
        error_text=rejected.text,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPorts:
    """What the ledger of one cluster takes; it connects with the first entry."""

    admin: ClusterAdmin
    data: DataPlane


class RejectReferences:
    """A `RejectSink`: the record stays in its topic, and `kafkakit streams dlq` lists and copies it from there.

    `kafkakit streams dlq copy` must run before retention deletes the topic's records. For one thread.
    """

    def __init__(self, open_ledger: "Callable[[str], RejectLedger]") -> None:
        self._open = open_ledger
        self._ledgers: dict[str, RejectLedger] = {}

    def __call__(self, rejected: RejectedRecord) -> None:
        """Write an entry and wait until all in-sync replicas have it; raises as `RejectLedger.add`."""
        source = rejected.record.origin.source
        if source.cluster_id not in self._ledgers:
            self._ledgers[source.cluster_id] = self._open(source.cluster_id)
        entry = LedgerReject(topic_id=source.topic_id, place=rejected.place, failure=failure_in(rejected))
        self._ledgers[source.cluster_id].add([entry])


def with_references(hooks: ConsumerHooks, references: RejectReferences) -> ConsumerHooks:
    """The hooks with the ledger: for all that is rejected where nothing else takes it, and in place of what fails."""
    return replace(hooks, reject=hooks.reject or references, spare=references)
