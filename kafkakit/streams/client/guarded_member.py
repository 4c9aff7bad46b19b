"""A member of a group whose records are read raw: each batch is judged by its headers before it is decoded."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kafkakit.core.cluster_facts import CommittedOffset, FetchedBatches, ItemError
from kafkakit.core.errors import OperationFailedError, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.acting import Clock, pause
from kafkakit.ports.data import LogReader
from kafkakit.ports.streams import AssignmentListener, GroupConsumer, MemberLease, ReadBatch
from kafkakit.streams.model.guarded_reads import GuardedPiece, GuardedRead

FETCH_BYTES, PARTITION_BYTES = 4 << 20, 1 << 20
"""Of an answer and of a partition in it. Larger ones are read more slowly: their memory is not used again."""
WAIT_MS = 100
_MEMBER_S = 0.02
_AGAIN_S = 0.5
_UNKNOWN = -1
_OUT_OF_RANGE = "OffsetOutOfRangeError"


_NOTHING = GuardedPiece(next_offset=_UNKNOWN)


@dataclass(slots=True)
class _Reading:
    """One partition: `next` is the offset of the next request, `told` how far `poll` came."""

    next: int
    pieces: Iterator[GuardedPiece] = field(default_factory=lambda: iter(()))
    piece: GuardedPiece = _NOTHING
    taken: int = 0
    told: int = _UNKNOWN
    end: int | None = None
    is_paused: bool = False
    again_s: float = 0.0

    @property
    def is_stopped(self) -> bool:
        """Whether a batch stands here that must not be decoded."""
        return bool(self.piece.stopped)

    def restart(self, offset: int) -> None:
        """Read from another offset on; `_UNKNOWN` is the start of the log."""
        self.next, self.pieces, self.piece, self.taken, self.told = offset, iter(()), _NOTHING, 0, _UNKNOWN

    def take(self, key: TopicPartition, limit: int) -> ReadBatch | None:
        """Up to so many records, or that the read came further without one; None where there is neither."""
        while self.taken == len(self.piece.records):
            piece = None if self.is_stopped else next(self.pieces, None)
            if piece is None:
                return None
            self.piece, self.taken = piece, 0
            if not piece.records and self.told != piece.next_offset:
                break
        records = self.piece.records[self.taken : self.taken + limit]
        self.taken += len(records)
        is_whole = self.taken == len(self.piece.records)
        self.told = self.piece.next_offset if is_whole else records[-1].at + 1
        offsets = [record.at for record in records]
        return ReadBatch(partition=key, records=[*records], offsets=offsets, next_offset=self.told)

    def stop(self, key: TopicPartition) -> ReadBatch:
        """What stands before this partition."""
        at, reason, verdict = self.piece.next_offset, self.piece.stopped, self.piece.verdict
        return ReadBatch(partition=key, records=[], offsets=[], next_offset=at, unreadable=reason, verdict=verdict)


class GuardedMember:
    """Implements `ports.streams.GroupConsumer` and the listener of the member that it is made of.

    `member` keeps the membership and commits, and must read nothing; `log` reads committed data, and is closed with it.
    No batch that may become more than `limit_bytes` is decompressed, and none further than that.
    """

    def __init__(self, member: GroupConsumer, log: LogReader, clock: Clock, *, limit_bytes: int) -> None:
        self._member, self._log, self._clock = member, log, clock
        self._limit_bytes = limit_bytes
        self._listener: AssignmentListener | None = None
        self._readings: dict[TopicPartition, _Reading] = {}
        self._served_s = 0.0

    def subscribe(self, topics: Collection[str], listener: AssignmentListener) -> None:
        self._listener = listener
        self._member.subscribe(topics, self)

    def poll(self, limit: int, timeout_s: float) -> Sequence[ReadBatch]:
        """See the port. `OperationFailedError` for rights that are missing."""
        active = any(not one.is_paused and not one.is_stopped for one in self._readings.values())
        now_s = self._clock.monotonic()
        if not active or now_s - self._served_s >= _MEMBER_S:
            self._served_s = now_s
            self._member.poll(1, 0.0 if active else timeout_s)
        batches = self._take(limit)
        if not batches and active:
            try:
                self._fetch(int(timeout_s * 1000))
            except TryLaterError:  # the membership tells whether the cluster is gone
                pause(self._clock, timeout_s)
            batches = self._take(limit)
        return batches

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """See the port; what was read ahead is kept."""
        for partition in self._readings.keys() & set(partitions):
            self._readings[partition].is_paused = True

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        for partition in self._readings.keys() & set(partitions):
            self._readings[partition].is_paused = False

    def seek(self, partition: TopicPartition, offset: int) -> None:
        if partition in self._readings:
            self._readings[partition].restart(offset)

    def commit(
        self, commits: Mapping[TopicPartition, CommittedOffset], timeout_s: float
    ) -> Mapping[TopicPartition, str]:
        return self._member.commit(commits, timeout_s)

    def commit_later(self, commits: Mapping[TopicPartition, CommittedOffset]) -> None:
        self._member.commit_later(commits)

    def end_offset(self, partition: TopicPartition) -> int | None:
        reading = self._readings.get(partition)
        return reading.end if reading is not None else None

    def member_id(self) -> str:
        return self._member.member_id()

    def lease(self, partition: TopicPartition) -> MemberLease:
        return self._member.lease(partition)

    def close(self, timeout_s: float) -> None:
        try:
            self._member.close(timeout_s)
        finally:
            self._log.close()

    def assigned(self, committed: Mapping[TopicPartition, CommittedOffset | None]) -> None:
        for partition, commit in committed.items():
            self._readings[partition] = _Reading(commit.offset if commit is not None else _UNKNOWN)
        if self._listener is not None:
            self._listener.assigned(committed)

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        if self._listener is not None:
            self._listener.revoked(partitions)
        self._forget(partitions)

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        if self._listener is not None:
            self._listener.lost(partitions)
        self._forget(partitions)

    def committed(self, results: Mapping[TopicPartition, str]) -> None:
        if self._listener is not None:
            self._listener.committed(results)

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._readings.pop(partition, None)

    def _take(self, limit: int) -> list[ReadBatch]:
        """What was fetched before, one batch a partition; partitions take turns."""
        found: list[ReadBatch] = []
        for key, reading in list(self._readings.items()):
            if reading.is_paused or limit <= 0:
                continue
            batch = reading.take(key, limit)
            if batch is None and reading.is_stopped and self._clock.monotonic() >= reading.again_s:
                reading.again_s = self._clock.monotonic() + _AGAIN_S
                batch = reading.stop(key)
            if batch is not None:
                found.append(batch)
                limit -= len(batch.records)
                self._readings[key] = self._readings.pop(key)
        return found

    def _fetch(self, timeout_ms: int) -> None:
        """Take the answers, and request what follows them.

        Nothing is left of earlier answers here. So all partitions of a broker are requested together: it works on one
        request of a connection after another, and one that waits for records would hold up the next.
        """
        active = {key: one for key, one in self._readings.items() if not one.is_paused and not one.is_stopped}
        unknown = [key for key, one in active.items() if one.next == _UNKNOWN]
        if unknown:
            for key, span in self._log.spans(unknown).items():
                if isinstance(span, ItemError):
                    _refuse(key, span)
                else:
                    active[key].restart(span.start)
        wanted = {key: one.next for key, one in active.items() if one.next != _UNKNOWN}
        if not wanted:
            pause(self._clock, timeout_ms / 1000)
            return
        self._request(wanted)
        found = self._log.fetch(
            wanted, max_bytes=FETCH_BYTES, wait_ms=min(timeout_ms, WAIT_MS), partition_bytes=PARTITION_BYTES
        )
        ahead: dict[TopicPartition, int] = {}
        for key, fetched in found.items():
            if fetched.answered and self._answer(key, active[key], fetched):
                ahead[key] = active[key].next
        if ahead:
            self._request(ahead)

    def _request(self, wanted: Mapping[TopicPartition, int]) -> None:
        self._log.request_ahead(wanted, max_bytes=FETCH_BYTES, wait_ms=WAIT_MS, partition_bytes=PARTITION_BYTES)

    def _answer(self, key: TopicPartition, reading: _Reading, fetched: FetchedBatches) -> bool:
        """Take an answer; True where the next request can go out at once."""
        if fetched.error is not None:
            if fetched.error.name == _OUT_OF_RANGE:
                reading.restart(_UNKNOWN)
            else:
                _refuse(key, fetched.error)
            return False
        reading.end = fetched.span.stable
        if not fetched.records and reading.next < fetched.span.stable:  # the answer was full before its turn
            return True
        read = GuardedRead(fetched=fetched, start=reading.next, limit_bytes=self._limit_bytes)
        reading.pieces = read.pieces()
        if read.next_offset is None:
            return False
        reading.next = read.next_offset
        return True


def _refuse(key: TopicPartition, error: ItemError) -> None:
    """Errors that pass are requested again; rights do not come by waiting."""
    if "Authorization" in error.name:
        raise OperationFailedError(f"cannot read {key.topic}: {error.message or error.name}")
