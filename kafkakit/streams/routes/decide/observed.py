"""What is found behind a route: clusters and topics, records, and the groups that read them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.group_facts import CommittedOffset, GroupState
from kafkakit.core.log_reads import LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import counted
from kafkakit.streams.model.route import Lane, Route, Segment, partitions_of

Spans: TypeAlias = Mapping[TopicPartition, LogSpan | ItemError]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFacts:
    """A segment's topic as it is found.

    `problem` says why it is not what the route names; `records` counts offsets between the ends of its logs, None
    where they are not known.
    """

    problem: str = ""
    records: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentReader:
    """A group that holds partitions of a segment or committed for them; `unread` is None where it is not known."""

    segment: int
    group: str
    state: GroupState
    members: int
    unread: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteFacts:
    """What is found behind a route: facts by segment id, and readers sorted by segment and group.

    `unknown` says, for each cluster whose groups could not be read, why.
    """

    segments: Mapping[int, SegmentFacts]
    readers: tuple[SegmentReader, ...] = ()
    unknown: tuple[str, ...] = ()

    def readers_of(self, segment: Segment) -> tuple[SegmentReader, ...]:
        """The groups that read a segment."""
        return tuple(reader for reader in self.readers if reader.segment == segment.id)


def records_in(segment: Segment, spans: Spans) -> int | None:
    """How many offsets the logs of a segment hold; None where one is not known."""
    found = [spans.get(key) for key in partitions_of(segment)]
    known = [span.end - span.start for span in found if isinstance(span, LogSpan)]
    return sum(known) if len(known) == len(found) else None


def unread_by(
    segment: Segment, spans: Spans, committed: Mapping[TopicPartition, CommittedOffset | ItemError]
) -> int | None:
    """How many offsets of a segment a group has not committed yet; None where a log or a commit is not known.

    Of a partition without a commit everything counts as unread.
    """
    total = 0
    for key in partitions_of(segment):
        span, commit = spans.get(key), committed.get(key)
        if not isinstance(span, LogSpan) or isinstance(commit, ItemError):
            return None
        total += max(0, span.end - (span.start if commit is None else max(span.start, commit.offset)))
    return total


def unread_reasons(route: Route, lane: Lane, facts: RouteFacts) -> Iterator[str]:
    """Why a lane may hold records that are still to be read; nothing where every reader of the stream has read it.

    Readers are the groups that read any segment of the stream, and those that the route requires. A segment that is
    not there any more holds nothing; one that cannot be looked at may.
    """
    groups = {reader.group for reader in facts.readers} | {rule.name for rule in route.groups}
    yield from facts.unknown
    for segment in lane.segments:
        found = facts.segments[segment.id]
        if found.records is None and found.problem:
            yield f"{segment.topic}: {found.problem}"
        elif found.records is None:
            yield f"{segment.topic}: its logs could not be read"
        elif found.records:
            unread = {reader.group: reader.unread for reader in facts.readers_of(segment)}
            if not groups:
                yield f"{segment.topic}: {counted(found.records, 'record')}, and no group reads the stream"
            for group in sorted(groups):
                count = unread.get(group, found.records)
                if count is None or count:
                    left = "all records" if count is None else counted(count, "record")
                    yield f"{segment.topic}: group {group} has not read {left}"


def reading_groups(route: Route, facts: RouteFacts) -> Iterator[str]:
    """The groups that keep a stream's topics from being deleted, in words, one a line."""
    yield from facts.unknown
    topics = {segment.id: segment.topic for _, segment in route.segments()}
    for reader in facts.readers:
        members = counted(reader.members, "member") if reader.members else "committed for it"
        yield f"{topics[reader.segment]}: group {reader.group} ({members})"
