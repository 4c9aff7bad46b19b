"""A member whose partitions come from the Assigner instead of Kafka's group protocol.

Kafka takes commits from any process while a group has no members. So each owner has a greater epoch than the one
before, its commits carry it (KKM1, tag 10), and nothing is handled before a commit with it was written and read back.
Every second what is committed is read again: a greater epoch there is a later owner, and the partition is given up; a
lower one is an earlier owner's late commit, over which ours is written again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

from kafkakit.core.errors import TryLaterError
from kafkakit.core.group_facts import CommittedOffset
from kafkakit.core.model import TopicPartition
from kafkakit.ports.clock import Clock
from kafkakit.ports.stream_consumer import AssignedConsumer, AssignmentListener, MemberLease, ReadBatch
from kafkakit.streams.client.decide.commits import CommitRule, restore_commit
from kafkakit.streams.client.decide.work_grants import PartitionLease
from kafkakit.streams.client.work_session import SILENT_S, GroupShare
from kafkakit.streams.model.commit import CommitState, Writer
from kafkakit.streams.model.kkm1.encode import encode_commit

LOOK_EVERY_S, LOOK_LASTS_S = 1.0, 2.0
CALL_S = 1.0
AGAIN_S = 0.5
_ROUNDS = 3
FENCED, HAS_MEMBERS = "FENCED", "UNKNOWN_MEMBER_ID"
"""The error of a commit that would be over a later owner's, and Kafka's for a group that has members."""


@dataclass(slots=True, kw_only=True)
class _Owned:
    lease: PartitionLease
    written: CommittedOffset | None
    seen_s: float


class AssignedMember:
    """Implements `ports.stream_consumer.GroupConsumer`; for the reader's thread alone. Closes the `consumer`."""

    def __init__(
        self, consumer: AssignedConsumer, share: GroupShare, cluster_id: str, clock: Clock, rule: CommitRule
    ) -> None:
        self._consumer, self._share, self._cluster_id, self._clock = consumer, share, cluster_id, clock
        self._rule = rule
        self._listener: AssignmentListener | None = None
        self._topics: frozenset[str] = frozenset()
        self._owned: dict[TopicPartition, _Owned] = {}
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
            self._clock.sleep(timeout_s)
            return []
        return self._consumer.poll(limit, timeout_s)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """See the port."""
        self._consumer.pause(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """See the port."""
        self._consumer.resume(partitions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """See the port."""
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
        """See the port."""
        ours = self._still_ours(commits)
        for partition, commit in ours.items():
            self._owned[partition].written = commit
        if ours:
            self._consumer.commit_later(ours)

    def end_offset(self, partition: TopicPartition) -> int | None:
        """See the port."""
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
        """See the port."""
        partitions = tuple(self._owned)
        if timeout_s and self._listener is not None and partitions:
            self._listener.revoked(partitions)
        self._drop(partitions, is_closing=True)
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
                if self._is_mine(writer, lease) or restored.is_newer or _same(commit, written.get(partition)):
                    claimed[partition] = commit
                    self._owned[partition] = _Owned(lease=lease, written=commit, seen_s=sent_s)
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
            if not self._is_mine(writer, owned.lease) and not _same(commit, owned.written) and owned.written:
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


def _same(one: CommittedOffset | None, other: CommittedOffset | None) -> bool:
    """Whether two commits say the same; brokers keep a NUL that clients add."""
    if one is None or other is None:
        return one is other
    return (one.offset, one.metadata.rstrip("\0")) == (other.offset, other.metadata.rstrip("\0"))
