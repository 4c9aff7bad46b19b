"""Reading and writing what was replayed of the DLQ lane: commits of a group without members."""

from collections.abc import Mapping

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import TryLaterError
from kafkakit.core.group_facts import CommittedOffset
from kafkakit.core.model import TopicPartition
from kafkakit.streams.lanes.act.stream_clusters import StreamClusters
from kafkakit.streams.lanes.decide.replay_state import ReplayState, read_replay_state, replay_group
from kafkakit.streams.model.commit import CommitIdentity, OffsetRanges, topic_id_bytes
from kafkakit.streams.model.route import Segment

States = dict[TopicPartition, ReplayState]


class ReplayStates:
    """The states of one stream, segment by segment."""

    def __init__(self, clusters: StreamClusters, stream: str) -> None:
        self._clusters, self._group = clusters, replay_group(stream)
        self._of: dict[int, States] = {}
        self.uncertain = 0
        """How many records an interrupted replay may have written already."""

    def of(self, segment: Segment, spans: Mapping[TopicPartition, range]) -> States:
        """What was replayed of a segment; read once. Raises like `read_replay_state`, and `TryLaterError`."""
        if segment.id not in self._of:
            groups = self._clusters.of_segment(segment).groups
            commits = groups.committed(self._group, list(spans))
            self._of[segment.id] = {
                key: read_replay_state(_settled(commits.get(key)), self._identity(segment, key), span.start)
                for key, span in spans.items()
            }
            self.uncertain += sum(state.in_flight.count for state in self._of[segment.id].values())
        return self._of[segment.id]

    def known(self, segment: Segment) -> States:
        """What `of` has read."""
        return self._of[segment.id]

    def write(self, segment: Segment, offsets: Mapping[TopicPartition, OffsetRanges], *, sent: bool) -> None:
        """Commit that records are about to be written, or with `sent` that they were; `TryLaterError` if refused."""
        states = self._of[segment.id]
        commits = {key: states[key].sent(some) if sent else states[key].sending(some) for key, some in offsets.items()}
        answers = self._clusters.of_segment(segment).groups.commit(self._group, commits)
        for key in commits:
            error = answers.get(key)
            if error is not None:
                raise TryLaterError(f"group {self._group} could not commit for {key}: {error}")

    def _identity(self, segment: Segment, key: TopicPartition) -> CommitIdentity:
        topic_id = topic_id_bytes(segment.topic_id)
        return CommitIdentity(
            cluster_id=segment.cluster_id, topic_id=topic_id, partition=key.partition, group=self._group
        )


def _settled(commit: CommittedOffset | ItemError | None) -> CommittedOffset | None:
    if isinstance(commit, ItemError):
        raise TryLaterError(f"the commits of replays cannot be read: {commit}")
    return commit
