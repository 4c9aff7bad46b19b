"""Groups of consumers in memory: the logs of one cluster, and members that share their partitions."""

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.errors import TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import OutgoingRecord
from kafkakit.ports.streams import NO_LEASE, AssignmentListener, MemberLease, ReadBatch

LIMIT_CHARS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeRecord:
    """One record of a fake log; implements `ReadRecord`."""

    at: int
    the_value: bytes | None = None
    the_key: bytes | None = None
    time_ms: int = 0
    the_headers: tuple[tuple[str, bytes | None], ...] = ()

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes | None:
        return self.the_key

    def value(self) -> bytes | None:
        return self.the_value

    def timestamp(self) -> tuple[int, int]:
        return 1, self.time_ms

    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        return self.the_headers

    def __len__(self) -> int:
        return len(self.the_value or b"")


@dataclass(slots=True, kw_only=True)
class FakeGroups:
    """The cluster. `unreadable` are offsets that no client can decode; `is_away` makes every member fail, and
    `commit_error` every commit; with `is_silent` they read nothing and report nothing. `written` is what transactions
    wrote to each topic; the next ones fail with `refusals`, of which `lost` is one that was done and not answered."""

    logs: dict[TopicPartition, list[FakeRecord]] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    commits: dict[tuple[str, TopicPartition], CommittedOffset] = field(default_factory=dict)
    members: dict[str, list["FakeGroupConsumer"]] = field(default_factory=dict)
    owners: dict[tuple[str, TopicPartition], "FakeGroupConsumer"] = field(default_factory=dict)
    unreadable: set[tuple[TopicPartition, int]] = field(default_factory=set)
    limit_chars: int = LIMIT_CHARS
    is_silent: bool = False
    is_away: bool = False
    commit_error: str = ""
    written: dict[str, list[OutgoingRecord]] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def make_topic(self, topic: str, partitions: int) -> None:
        for number in range(partitions):
            self.logs[TopicPartition(topic, number)] = []
            self.ends[TopicPartition(topic, number)] = 0

    def write(self, partition: TopicPartition, values: Sequence[bytes], *, gap: int = 0) -> None:
        """Append records, then `gap` offsets without one."""
        with self.lock:
            for value in values:
                at = self.ends[partition]
                self.logs[partition].append(FakeRecord(at=at, the_value=value, the_key=value, time_ms=1_000 + at))
                self.ends[partition] += 1
            self.ends[partition] += gap

    def open(self, group: str) -> "FakeGroupConsumer":
        return FakeGroupConsumer(self, group)

    def shares(self, group: str) -> dict[TopicPartition, "FakeGroupConsumer"]:
        """Who is to have each partition: by turns among those that subscribed to its topic."""
        wanted = {}
        for number, partition in enumerate(sorted(self.logs)):
            able = [member for member in self.members.get(group, []) if partition.topic in member.topics]
            if able:
                wanted[partition] = able[number % len(able)]
        return wanted

    def open_transactional(self, group: str) -> "FakeTransactionalConsumer":
        return FakeTransactionalConsumer(self, group)


class FakeGroupConsumer:
    """Implements `ports.stream_consumer.GroupConsumer`."""

    def __init__(self, cluster: FakeGroups, group: str) -> None:
        self.cluster, self.group = cluster, group
        self.topics: frozenset[str] = frozenset()
        self.positions: dict[TopicPartition, int] = {}
        self.told: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.listener: AssignmentListener | None = None
        self.answers: list[dict[TopicPartition, str]] = []
        self.is_closed = False

    def subscribe(self, topics: Collection[str], listener: AssignmentListener) -> None:
        with self.cluster.lock:
            self.topics, self.listener = frozenset(topics), listener
            members = self.cluster.members.setdefault(self.group, [])
            if self not in members:
                members.append(self)

    def poll(self, limit: int, timeout_s: float) -> Sequence[ReadBatch]:
        if self.cluster.is_away:
            raise TryLaterError("the cluster is away")
        for answer in self.answers:
            if self.listener is not None:
                self.listener.committed(answer)
        self.answers.clear()
        self._rebalance()
        batches = []
        with self.cluster.lock:
            for partition, position in self.positions.items():
                if partition in self.paused or self.cluster.is_silent:
                    continue
                if batch := self._read(partition, position, limit):
                    batches.append(batch)
        if not batches:
            threading.Event().wait(min(timeout_s, 0.002))
        return batches

    def _read(self, partition: TopicPartition, position: int, limit: int) -> ReadBatch | None:
        records = [record for record in self.cluster.logs[partition] if record.at >= position][:limit]
        stop = next((r.at for r in records if (partition, r.at) in self.cluster.unreadable), None)
        if stop is not None:
            records = [record for record in records if record.at < stop]
        end = stop if stop is not None else self.cluster.ends[partition]
        next_offset = records[-1].at + 1 if len(records) == limit else end
        if not records and stop is None and self.told.get(partition) == next_offset:
            return None
        self.positions[partition] = self.told[partition] = next_offset
        unreadable = "_BAD_COMPRESSION" if stop is not None and next_offset == stop else ""
        return ReadBatch(
            partition=partition,
            records=[*records],
            offsets=[record.at for record in records],
            next_offset=next_offset,
            unreadable=unreadable,
        )

    def _rebalance(self) -> None:
        cluster, listener = self.cluster, self.listener
        with cluster.lock:
            wanted = cluster.shares(self.group)
            revoked = [partition for partition in self.positions if wanted.get(partition) is not self]
        if revoked and listener is not None:
            listener.revoked(revoked)
        with cluster.lock:
            for partition in revoked:
                self._drop(partition)
            new = [
                partition
                for partition, owner in wanted.items()
                if owner is self and (self.group, partition) not in cluster.owners
            ]
            found: dict[TopicPartition, CommittedOffset | None] = {}
            for partition in new:
                cluster.owners[self.group, partition] = self
                commit = found[partition] = cluster.commits.get((self.group, partition))
                is_there = commit is not None and commit.offset <= cluster.ends[partition]
                self.positions[partition] = commit.offset if commit is not None and is_there else 0
        if found and listener is not None:
            listener.assigned(found)

    def _drop(self, partition: TopicPartition) -> None:
        self.positions.pop(partition, None)
        self.told.pop(partition, None)
        self.paused.discard(partition)
        if self.cluster.owners.get((self.group, partition)) is self:
            del self.cluster.owners[self.group, partition]

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self.paused.update(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        self.paused.difference_update(partitions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.positions[partition] = offset
        self.told.pop(partition, None)

    def commit(
        self, commits: Mapping[TopicPartition, CommittedOffset], timeout_s: float
    ) -> Mapping[TopicPartition, str]:
        del timeout_s
        with self.cluster.lock:
            return {partition: self._commit(partition, commit) for partition, commit in commits.items()}

    def _commit(self, partition: TopicPartition, commit: CommittedOffset) -> str:
        if self.cluster.is_away:
            return "TIMED_OUT"
        if self.cluster.commit_error:
            return self.cluster.commit_error
        if self.cluster.owners.get((self.group, partition)) is not self:
            return "ILLEGAL_GENERATION"
        if len(commit.metadata) + 1 > self.cluster.limit_chars:
            return "OFFSET_METADATA_TOO_LARGE"
        self.cluster.commits[self.group, partition] = commit
        return ""

    def commit_later(self, commits: Mapping[TopicPartition, CommittedOffset]) -> None:
        self.answers = [dict(self.commit(commits, 0))]

    def end_offset(self, partition: TopicPartition) -> int | None:
        return self.cluster.ends.get(partition)

    def member_id(self) -> str:
        return f"member-{id(self)}"

    def lease(self, partition: TopicPartition) -> MemberLease:
        return NO_LEASE

    def close(self, timeout_s: float) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        if timeout_s and self.listener is not None and self.positions and not self.cluster.is_away:
            self.listener.revoked(tuple(self.positions))
        self.crash()

    def crash(self) -> None:
        """Be gone, as after SIGKILL."""
        with self.cluster.lock:
            for partition in list(self.positions):
                self._drop(partition)
            members = self.cluster.members.get(self.group, [])
            if self in members:
                members.remove(self)


class FakeTransactionalConsumer(FakeGroupConsumer):
    """Implements `ports.streams.TransactionalConsumer`."""

    def __init__(self, cluster: FakeGroups, group: str) -> None:
        super().__init__(cluster, group)
        self.broken = ""

    def poll(self, limit: int, timeout_s: float) -> Sequence[ReadBatch]:
        if self.broken:
            raise TryLaterError(self.broken)
        return super().poll(limit, timeout_s)

    def write_and_commit(
        self,
        topic: str,
        records: Sequence[OutgoingRecord],
        commits: Mapping[TopicPartition, CommittedOffset],
        timeout_s: float,
    ) -> str:
        del timeout_s
        with self.cluster.lock:
            refusal = self.cluster.refusals.pop(0) if self.cluster.refusals else self.broken
            if refusal and refusal != "lost":
                return refusal
            before = dict(self.cluster.commits)
            errors = [error for key, commit in commits.items() if (error := self._commit(key, commit))]
            if errors:
                self.cluster.commits = before
                return errors[0]
            self.cluster.written.setdefault(topic, []).extend(records)
            self.broken = refusal
            return refusal
