"""What a replay has written already, as commits of a group of its own: the offsets of the DLQ lane that are done.

Before a batch is written its offsets are marked as retrying, and as done once it was acknowledged. So whatever stops
the program, each record is written at least once, and only those that were marked can be written twice.
"""

from dataclasses import dataclass

from kafkakit.core.errors import InfeasibleError, RefusedError
from kafkakit.core.group_facts import CommittedOffset
from kafkakit.streams.model.commit import CommitIdentity, CommitState, Mark, MarkState, OffsetRanges
from kafkakit.streams.model.done_set import DoneSet
from kafkakit.streams.model.kkm1.decode import read_kkm1
from kafkakit.streams.model.kkm1.encode import encode_commit

LIMIT_CHARS = 4095
"""Kafka's default limit for metadata, less one for the NUL that librdkafka's clients add."""


def replay_group(stream: str) -> str:
    """The group that keeps what was replayed of a stream."""
    return f"kafkakit-dlq-replay.{stream}"


@dataclass(slots=True)
class ReplayState:
    """One partition of the DLQ lane. `in_flight` are offsets that an interrupted replay may have written."""

    identity: CommitIdentity
    done: DoneSet
    in_flight: OffsetRanges
    first: int
    before: OffsetRanges
    """What earlier replays have done: everything below `first`, and this."""

    def was_done(self, offset: int) -> bool:
        """Whether an earlier replay has written the record."""
        return offset < self.first or offset in self.before

    def skip(self, start: int, end: int) -> None:
        """Offsets that have no record count as done."""
        self.done.mark_range(start, end)

    def sending(self, offsets: OffsetRanges) -> CommittedOffset:
        """The commit before these offsets are written.

        Raises `InfeasibleError` where the metadata could not hold exactly what is done before or after.
        """
        after = DoneSet(self.done.base, self.done.ranges())
        for start, end in offsets:
            after.mark_range(start, end)
        self._commit(CommitState(base=after.base, done=after.ranges()))
        return self._commit(self._state(offsets))

    def sent(self, offsets: OffsetRanges) -> CommittedOffset:
        """The commit after they were acknowledged; raises like `sending`."""
        for start, end in offsets:
            self.done.mark_range(start, end)
        self.in_flight = self.in_flight.minus(offsets)
        return self._commit(self._state(OffsetRanges()))

    def _state(self, sending: OffsetRanges) -> CommitState:
        marked = self.in_flight.union(sending)
        marks = tuple(Mark(start=start, end=end, state=MarkState.RETRYING, count=1) for start, end in marked)
        return CommitState(base=self.done.base, done=self.done.ranges(), marks=marks)

    def _commit(self, state: CommitState) -> CommittedOffset:
        encoded = encode_commit(state, self.identity, limit_chars=LIMIT_CHARS)
        if encoded.is_lossy:
            raise InfeasibleError(
                f"what was replayed of partition {self.identity.partition} is in too many pieces for a commit",
                hint="replay without --where, or purge what was replayed first",
            )
        return CommittedOffset(offset=state.base, metadata=encoded.text)


def read_replay_state(commit: CommittedOffset | None, identity: CommitIdentity, log_start: int) -> ReplayState:
    """What the commit says; without one, nothing was replayed. What the log has lost counts as done.

    Raises `RefusedError` for metadata that another program wrote, or a newer kafkakit: it would all be replayed again.
    """
    state = CommitState(base=0)
    if commit is not None:
        reading = read_kkm1(commit.metadata.rstrip("\0"), commit.offset, identity)
        if reading.problem is not None:
            raise RefusedError(
                f"the commit of group {identity.group} for partition {identity.partition} cannot be used: "
                f"{reading.reason}",
                hint=f"delete it (kafkakit streams commits delete {identity.group}), and all is replayed again",
            )
        state = reading.state
    done = DoneSet(state.base, state.done)
    if log_start > done.base:
        done.mark_range(done.base, log_start)
    marked = OffsetRanges.of((mark.start, mark.end) for mark in state.marks if mark.state is MarkState.RETRYING)
    first, before = done.base, done.ranges()
    in_flight = marked.within(first, max(first, marked.end or 0)).minus(before)
    return ReplayState(identity=identity, done=done, in_flight=in_flight, first=first, before=before)
