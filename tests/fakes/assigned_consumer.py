"""Readers of chosen partitions over groups in memory."""

from collections.abc import Collection, Mapping, Sequence

from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.errors import TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.streams import AssignmentListener, ReadBatch
from tests.fakes.group_consumer import FakeGroupConsumer


class FakeAssignedConsumer(FakeGroupConsumer):
    """Implements `ports.stream_consumer.AssignedConsumer`; `commits_made` counts commits that were taken."""

    commits_made = 0

    def listen(self, listener: AssignmentListener) -> None:
        self.listener = listener

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.positions.update(offsets)

    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self.positions.pop(partition, None)
            self.told.pop(partition, None)
            self.paused.discard(partition)

    def committed(
        self, partitions: Collection[TopicPartition], timeout_s: float
    ) -> Mapping[TopicPartition, CommittedOffset | None]:
        del timeout_s
        if self.cluster.is_away:
            raise TryLaterError("the cluster is away")
        with self.cluster.lock:
            return {partition: self.cluster.commits.get((self.group, partition)) for partition in partitions}

    def start_offset(self, partition: TopicPartition, timeout_s: float) -> int:
        del timeout_s
        if self.cluster.is_away:
            raise TryLaterError("the cluster is away")
        return min((record.at for record in self.cluster.logs[partition]), default=self.cluster.ends[partition])

    def poll(self, limit: int, timeout_s: float) -> Sequence[ReadBatch]:
        return super().poll(limit, timeout_s)

    def _rebalance(self) -> None:
        """No group gives this reader anything."""

    def _commit(self, partition: TopicPartition, commit: CommittedOffset) -> str:
        if self.cluster.is_away:
            return "TIMED_OUT"
        if self.cluster.members.get(self.group):
            return "UNKNOWN_MEMBER_ID"
        if len(commit.metadata) + 1 > self.cluster.limit_chars:
            return "OFFSET_METADATA_TOO_LARGE"
        self.cluster.commits[self.group, partition] = commit
        self.commits_made += 1
        return ""

    def close(self, timeout_s: float) -> None:
        del timeout_s
        self.is_closed = True
        self.positions.clear()
