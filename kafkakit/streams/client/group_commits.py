"""The commits of a member: what was asked, and what the group answered."""

from collections.abc import Callable, Collection, Mapping
from zlib import crc32

from kafkakit.core.model import TopicPartition
from kafkakit.ports.stream_consumer import GroupConsumer
from kafkakit.streams.client.decide.commits import MIN_LIMIT_CHARS, CommitRule, NextCommit
from kafkakit.streams.client.shared_work import OwnedPartition, SharedWork

TOO_LARGE = "OFFSET_METADATA_TOO_LARGE"


class GroupCommits:
    """For the thread of the reader alone. `owned` are its partitions, `epoch` the route's epoch now."""

    def __init__(
        self, owned: Mapping[TopicPartition, OwnedPartition], shared: SharedWork, epoch: Callable[[], int]
    ) -> None:
        self.written = self.errors = 0
        self.problem: str | None = None
        self._owned, self._shared, self._epoch = owned, shared, epoch
        self._asked: dict[TopicPartition, NextCommit] = {}

    @property
    def is_asked(self) -> bool:
        """True while the answer to a commit is awaited."""
        return bool(self._asked)

    def ask(self, client: GroupConsumer) -> None:
        """Commit what changed; `answered` gets the answer."""
        for owned in self._owned.values():
            owned.end = client.end_offset(owned.partition)
        for partition in self._asked:  # no answer came in time: it is unknown what was written
            self._owned[partition].committed_as = ()
        self._asked = self._next(client, self._owned.values())
        if self._asked:
            client.commit_later({partition: commit.committed for partition, commit in self._asked.items()})

    def commit(self, client: GroupConsumer, partitions: Collection[OwnedPartition], wait_s: float) -> None:
        """Commit what changed and wait for the answer."""
        for owned in partitions:  # the answer to the latest commit may still be under way, and be an error
            owned.committed_as = ()
        commits = self._next(client, partitions)
        if commits:
            asked = {partition: commit.committed for partition, commit in commits.items()}
            self._note(commits, client.commit(asked, wait_s))

    def answered(self, results: Mapping[TopicPartition, str]) -> None:
        """The answer to `ask`."""
        asked, self._asked = self._asked, {}
        self._note(asked, results)

    def forget(self, partition: TopicPartition) -> None:
        """The partition was taken away."""
        self._asked.pop(partition, None)

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
                continue
            self.errors += 1
            self.problem = f"commit of {partition}: {error}"
            owned.committed_as = ()
            if error == TOO_LARGE:
                fewer = max(MIN_LIMIT_CHARS, min(owned.rule.limit_chars, len(commit.encoded.text)) * 3 // 4)
                owned.rule = CommitRule(limit_chars=fewer, alphabets=owned.rule.alphabets)
