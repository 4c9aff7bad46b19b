"""Consumer groups and their commits as columns."""

from collections.abc import Mapping, Sequence
from typing import Any

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.group_facts import CommittedOffset, GroupDescription, GroupListing
from kafkakit.core.log_reads import LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.fleet.decide.snapshot_columns import Spans, columns_of

Commits = Mapping[str, Mapping[TopicPartition, CommittedOffset | ItemError]]


def group_columns(
    groups: Sequence[GroupListing], described: Mapping[str, GroupDescription | ItemError]
) -> Mapping[str, Sequence[Any]]:
    """The table `groups`; members are None where the coordinator did not answer."""
    rows = []
    for listed in groups:
        found = described.get(listed.group)
        members = len(found.members) if isinstance(found, GroupDescription) else None
        rows.append((listed.group, listed.state.value, listed.type.value, members))
    return columns_of(("group", "state", "protocol", "members"), rows)


def group_offset_columns(commits: Commits, spans: Spans) -> Mapping[str, Sequence[Any]]:
    """The table `group_offsets`; the content of commit metadata is not stored, its size is."""
    rows = []
    for group, offsets in sorted(commits.items()):
        for key, commit in sorted(offsets.items()):
            if isinstance(commit, CommittedOffset):
                span = spans.get(key)
                end = span.end if isinstance(span, LogSpan) else None
                size = len(commit.metadata.encode("utf-8", "surrogateescape"))
                rows.append((group, key.topic, key.partition, commit.offset, end, size))
    names = ("group", "topic", "partition", "committed", "end_offset", "metadata_bytes")
    return columns_of(names, rows)
