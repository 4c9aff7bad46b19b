"""Consumer groups and their commits."""

from collections.abc import Collection, Mapping
from typing import Protocol

from kafkakit.core.cluster_facts import CommittedOffset, GroupDescription, GroupListing, ItemError, ShareOffset
from kafkakit.core.model import TopicPartition


class GroupAdmin(Protocol):
    """Control of the consumer groups of one cluster. Cost: one request to each coordinator concerned."""

    def groups(self) -> tuple[GroupListing, ...]:
        """All groups of all coordinators, sorted by name; raises `TryLaterError` when a broker does not answer."""
        ...

    def describe(self, groups: Collection[str]) -> Mapping[str, GroupDescription | ItemError]:
        """The named groups; groups of the newer protocols are described by their own request, never called dead."""
        ...

    def committed(
        self, group: str, partitions: Collection[TopicPartition] | None = None, *, stable: bool = True
    ) -> Mapping[TopicPartition, CommittedOffset | ItemError]:
        """What the group committed (None: everything); partitions without a commit are absent.

        With `stable` a partition in an open transaction answers UNSTABLE_OFFSET_COMMIT instead of its older commit.
        """
        ...

    def committed_by(
        self, groups: Collection[str], partitions: Collection[TopicPartition], *, stable: bool = True
    ) -> Mapping[str, Mapping[TopicPartition, CommittedOffset | ItemError] | ItemError]:
        """What each of many groups committed for these partitions, as `committed` tells it of one; no share groups.

        An error stands for a group that is not read. Cost: one request to each coordinator for up to 500 groups.
        """
        ...

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> Mapping[TopicPartition, ItemError | None]:
        """Commit for a group that has no members; the broker refuses for a live one (UNKNOWN_MEMBER_ID)."""
        ...

    def forget(self, group: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, ItemError | None]:
        """Delete commits; the broker refuses for topics that the group is subscribed to."""
        ...

    def share_offsets(self, groups: Collection[str]) -> Mapping[str, tuple[ShareOffset, ...] | ItemError]:
        """Where share groups stand, sorted by partition; empty for other groups and for those that have not begun."""
        ...

    def delete(self, group: str) -> ItemError | None:
        """Delete a group with all its commits; the broker refuses for a live one (NonEmptyGroupError)."""
        ...

    def close(self) -> None:
        """Let go of connections; closing twice is harmless."""
        ...
