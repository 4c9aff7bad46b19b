"""Putting a look together from what the cluster answered, one step for each kind of answer."""

from collections.abc import Mapping
from dataclasses import replace

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import KafkakitError
from kafkakit.core.group_facts import CommittedOffset, GroupDescription, GroupState, GroupType, holders_of
from kafkakit.core.log_reads import LogSpan, TopicPlaces
from kafkakit.core.model import TopicPartition
from kafkakit.streams.commits.decide.group_look import CommitScope, GroupLook
from kafkakit.streams.commits.decide.headroom import Limits
from kafkakit.streams.model.commit import CommitIdentity, Problem
from kafkakit.streams.model.dialects.dialect import CommitFacts, CopiedFrom, TimeSpan
from kafkakit.streams.model.dialects.registry import dialect_named, read_metadata

Answers = Mapping[TopicPartition, CommittedOffset | ItemError]
UNSTABLE = "UnstableOffsetCommit"
GONE = "UnknownTopic"


def failed_look(group: str, cluster_id: str, at_ms: int, limits: Limits, fault: KafkakitError) -> GroupLook:
    """A group that could not be read at all."""
    return GroupLook(
        group=group,
        cluster_id=cluster_id,
        at_ms=at_ms,
        type=GroupType.UNKNOWN,
        state=GroupState.UNKNOWN,
        limits=limits,
        refused={},
        fault=fault,
    )


def is_unstable(answer: CommittedOffset | ItemError) -> bool:
    """True for a partition that an open transaction is about to commit."""
    return isinstance(answer, ItemError) and _plain(answer.name).startswith(_plain(UNSTABLE))


def bare_look(
    described: GroupDescription,
    answers: Answers,
    earlier: Answers,
    scope: CommitScope,
    *,
    cluster_id: str,
    at_ms: int,
    limits: Limits,
    version: str | None,
    program: str,
) -> GroupLook:
    """A group's commits before anything of the logs is known; `earlier` stands in for commits in a transaction."""
    holders = holders_of(described.members)
    commits: list[CommitFacts] = []
    refused: dict[TopicPartition, ItemError] = {}
    for key in sorted(key for key in answers if scope.holds(key)):
        answer = earlier.get(key, answers[key])
        first = answers[key]
        if isinstance(answer, ItemError):
            refused[key] = answer
        elif answer.offset < 0 and isinstance(first, ItemError):  # a transaction's, and there is none before it
            refused[key] = first
        elif answer.offset >= 0:
            commits.append(
                CommitFacts(
                    offset=answer.offset,
                    metadata=answer.metadata,
                    reading=read_metadata(answer.metadata, answer.offset),
                    at_ms=at_ms,
                    key=key,
                    group=described.group,
                    leader_epoch=answer.leader_epoch,
                    limit_chars=limits.strictest,
                    is_limit_known=limits.is_known,
                    kafka_version=version,
                    is_unstable=key in earlier,
                    holder=holders.get(key),
                    program=program,
                )
            )
    return GroupLook(
        group=described.group,
        cluster_id=cluster_id,
        at_ms=at_ms,
        type=described.type,
        state=described.state,
        limits=limits,
        members=described.members,
        commits=tuple(commits),
        refused=refused,
    )


def with_logs(
    look: GroupLook, places: Mapping[str, TopicPlaces], spans: Mapping[TopicPartition, LogSpan | ItemError]
) -> GroupLook:
    """Add topic ids, ends of logs, and what the payload says once it is known where it stands."""
    notes: list[str] = []
    commits: list[CommitFacts] = []
    for facts in look.commits:
        key = facts.key
        if key is None:
            continue
        span, place = spans.get(key), places.get(key.topic)
        is_gone = isinstance(span, ItemError) and _plain(span.name).startswith(_plain(GONE))
        if isinstance(span, ItemError) and not is_gone:
            notes.append(f"the log of {key} cannot be read: {span}")
        # Without the topic's id nothing can be bound or foreign.
        identity = None
        if place is not None:
            identity = CommitIdentity(
                cluster_id=look.cluster_id, topic_id=place.topic_id, partition=key.partition, group=look.group
            )
        commits.append(
            replace(
                facts,
                identity=identity,
                topic_exists=not is_gone,
                span=span if isinstance(span, LogSpan) else None,
                reading=read_metadata(facts.metadata, facts.offset, identity),
            )
        )
    return replace(look, commits=tuple(commits), notes=(*look.notes, *notes))


def offsets_to_date(look: GroupLook) -> dict[TopicPartition, int]:
    """The oldest pending offsets whose record is in the log, by partition."""
    return {
        facts.key: facts.first_pending
        for facts in look.commits
        if facts.key is not None and facts.span is not None and facts.span.start <= facts.first_pending < facts.span.end
    }


def with_times(look: GroupLook, times: Mapping[tuple[TopicPartition, int], TimeSpan]) -> GroupLook:
    """Add when the oldest pending records were written."""
    commits = tuple(
        facts
        if facts.key is None
        else replace(facts, pending_time=times.get((facts.key, facts.first_pending), facts.pending_time))
        for facts in look.commits
    )
    return replace(look, commits=commits)


def foreign(look: GroupLook) -> tuple[CommitFacts, ...]:
    """Commits whose payload belongs to something else."""
    return tuple(facts for facts in look.commits if facts.reading.problem is Problem.FOREIGN)


def shifted_by_copies(look: GroupLook) -> tuple[CommitFacts, ...]:
    """Commits whose done offsets a copy by MirrorMaker would shift."""
    return tuple(
        facts for facts in look.commits if dialect_named(facts.reading.dialect).counts_from_offset and facts.state.done
    )


def with_findings(
    look: GroupLook, owners: Mapping[TopicPartition, str], copies: Mapping[TopicPartition, CopiedFrom]
) -> GroupLook:
    """Add whose the foreign payloads are, and which commits MirrorMaker copied."""
    if not owners and not copies:
        return look
    commits = tuple(
        facts
        if facts.key is None
        else replace(facts, owner=owners.get(facts.key, facts.owner), copied_from=copies.get(facts.key))
        for facts in look.commits
    )
    return replace(look, commits=commits)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
