"""What the commits for old topics say: how far members have moved, and what comes a second time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import UsageError
from kafkakit.core.findings import Severity
from kafkakit.core.group_facts import CommittedOffset, GroupDescription
from kafkakit.core.log_reads import LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.streams.commits.api import duplicates_of, hazards_of
from kafkakit.streams.failover.decide.evidence import Commits, GroupFacts, TopicFacts
from kafkakit.streams.model.commit import CommitIdentity, Reading, topic_id_bytes
from kafkakit.streams.model.dialects.dialect import CommitFacts
from kafkakit.streams.model.dialects.registry import read_metadata
from kafkakit.streams.model.route import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateBudget:
    """How many records come a second time to groups that restart from their commits as they stand.

    `most` is None where nothing bounds it: `unbounded` names the groups. What was handled since the last commit, and is
    known to members alone, is not in it: clients commit before they hand partitions over.
    """

    least: int = 0
    most: int | None = 0
    unbounded: tuple[str, ...] = ()

    def problem(self, limit: int | None) -> str:
        """Why the budget is above a limit, empty where it is not, or there is none."""
        if limit is None or (self.most is not None and self.most <= limit):
            return ""
        count = f"at most {self.most:,}" if self.most is not None else "an unknown number of"
        return f"{count} records may come a second time, --max-duplicates is {limit:,}"


def group_facts(segment: Segment, about: GroupDescription, commits: Mapping[TopicPartition, object]) -> GroupFacts:
    """A group's commits and members, as far as the topic of a segment concerns it."""
    own: dict[int, CommittedOffset | ItemError] = {}
    epochs: dict[int, int] = {}
    has_stream_time = False
    for key, commit in commits.items():
        if key.topic != segment.topic or not isinstance(commit, CommittedOffset | ItemError):
            continue
        own[key.partition] = commit
        reading = _reading(segment, about.group, key.partition, commit)
        if reading is not None and reading.problem is None:
            has_stream_time |= reading.stream_time_ms is not None
            if reading.state.route is not None and reading.state.route.segment == segment.id:
                epochs[key.partition] = reading.state.route.epoch
    held = (frozenset(k.partition for k in m.partitions if k.topic == segment.topic) for m in about.members)
    return GroupFacts(
        group=about.group,
        type=about.type,
        state=about.state,
        commits=own,
        epochs=epochs,
        held=tuple(held),
        has_stream_time=has_stream_time,
    )


def duplicate_budget(old: Mapping[int, tuple[Segment, TopicFacts]], groups: tuple[str, ...]) -> DuplicateBudget:
    """The budget of groups over old segments, by their commits as they stand."""
    least, most, unbounded = 0, 0, set[str]()
    for name, _, facts in _commits_of(old, groups):
        found = None if facts is None else duplicates_of(facts)
        least += 0 if found is None else found.low
        if found is None or found.high is None:
            unbounded.add(name)
        else:
            most += found.high
    return DuplicateBudget(least=least, most=None if unbounded else most, unbounded=tuple(sorted(unbounded)))


def metadata_hazards(
    old: Mapping[int, tuple[Segment, TopicFacts]], groups: tuple[str, ...]
) -> tuple[tuple[str, str, str], ...]:
    """What may go wrong with the commits of groups: group, topic and words, one of each kind with its first place."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for name, topic, facts in _commits_of(old, groups):
        for hazard in () if facts is None else hazards_of(facts):
            if hazard.severity is not Severity.NOTE and facts is not None and facts.key is not None:
                words = f"partition {facts.key.partition}: {hazard.message}"
                found.setdefault((name, topic, hazard.rule), []).append(words)
    return tuple(
        (name, topic, each[0] if len(each) == 1 else f"{each[0]} ({len(each):,} partitions are like this)")
        for (name, topic, _), each in sorted(found.items())
    )


def _commits_of(
    old: Mapping[int, tuple[Segment, TopicFacts]], groups: tuple[str, ...]
) -> Iterator[tuple[str, str, CommitFacts | None]]:
    """Each commit of groups for old segments, with its topic; None for one that is not known."""
    for segment, facts in old.values():
        for name in groups:
            commits: Commits = facts.groups[name].commits if name in facts.groups else {}
            for number, commit in commits.items():
                reading = _reading(segment, name, number, commit)
                if reading is None or isinstance(commit, ItemError):
                    yield name, segment.topic, None
                    continue
                span = facts.spans.get(number)
                yield (
                    name,
                    segment.topic,
                    CommitFacts(
                        offset=commit.offset,
                        metadata=commit.metadata,
                        reading=reading,
                        key=TopicPartition(segment.topic, number),
                        group=name,
                        span=span if isinstance(span, LogSpan) else None,
                    ),
                )


def _reading(segment: Segment, group: str, partition: int, commit: CommittedOffset | ItemError) -> Reading | None:
    if isinstance(commit, ItemError):
        return None
    try:
        topic_id = topic_id_bytes(segment.topic_id)
    except UsageError:
        identity = None
    else:
        identity = CommitIdentity(cluster_id=segment.cluster_id, topic_id=topic_id, partition=partition, group=group)
    return read_metadata(commit.metadata, commit.offset, identity)
