"""One look at a group: its commits with all that is known beside them, and what could not be read.

A look is put together from what the cluster answered, one step for each kind of answer: commits, ends of logs, and
times of records out of raw reads. Headroom is how much of `offset.metadata.max.bytes` the commits use; brokers that
disagree on that limit are named.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from kafkakit.core.cluster_facts import (
    CommittedOffset,
    GroupDescription,
    GroupMember,
    GroupState,
    GroupType,
    ItemError,
    LogSpan,
    TopicPlaces,
    holders_of,
)
from kafkakit.core.errors import KafkakitError, OperationFailedError, TryLaterError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.core.options import Completion, option
from kafkakit.core.text import few_of, sanitize, shell_command, shown_name
from kafkakit.streams.model.commit import CommitIdentity, PayloadProblem, amount
from kafkakit.streams.model.dialects.dialect import KAFKA_LIMIT, CommitFacts, CopiedFrom, TimeSpan
from kafkakit.streams.model.dialects.registry import dialect_named, read_metadata
from kafkakit.streams.model.log_batches import RecordTime, TimeKind, record_at

NEAR_NAMES = 3
RIGHT_HINT = "reading a group needs the right DESCRIBE on it and on its topics"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitScope:
    """Which commits of a group are looked at: of one topic, one partition, or all."""

    topic: str = option("", "--topic", metavar="TOPIC", completion=Completion.TOPICS, help="Only this topic.")
    partition: int | None = option(
        None, "--partition", metavar="N", min=0, help="Only this partition.", show_default=False
    )

    def holds(self, key: TopicPartition) -> bool:
        """True when the partition is to be looked at."""
        return self.topic in ("", key.topic) and self.partition in (None, key.partition)


ALL = CommitScope()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLimits:
    """The limit of each broker that told it, and the strictest: the one to keep, since any broker may coordinate.

    `unknown` are brokers that did not answer. `strictest` is Kafka's default where none did, and `is_known` False.
    """

    of_broker: Mapping[int, int]
    unknown: tuple[int, ...] = ()

    @property
    def is_known(self) -> bool:
        """True when at least one broker told its limit."""
        return bool(self.of_broker)

    @property
    def strictest(self) -> int:
        """The lowest limit, in UTF-16 units."""
        return min(self.of_broker.values(), default=KAFKA_LIMIT)

    @property
    def is_mixed(self) -> bool:
        """True when brokers have different limits, so that a commit's fate depends on the coordinator."""
        return len(set(self.of_broker.values())) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLook:
    """A group as it was at `at_ms`. `refused` are commits that could not be read, `unread_logs` logs whose ends are not
    known. `uncommitted` are partitions that members own and for which there is no commit, with the ends of their logs.

    `fault` says why nothing of it could be read, and then everything else is empty.
    """

    group: str
    cluster_id: str
    at_ms: int
    type: GroupType
    state: GroupState
    limits: MetadataLimits
    members: tuple[GroupMember, ...] = ()
    commits: tuple[CommitFacts, ...] = ()
    refused: Mapping[TopicPartition, ItemError]
    unread_logs: Mapping[TopicPartition, ItemError] = field(default_factory=dict)
    uncommitted: Mapping[TopicPartition, LogSpan | None] = field(default_factory=dict)
    fault: KafkakitError | None = None

    @property
    def exists(self) -> bool:
        """False when the cluster knows neither the group nor a commit of it."""
        return self.state is not GroupState.DEAD or bool(self.commits) or bool(self.refused)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is missing beside commits, a sentence each."""
        return tuple(f"the log of {key} cannot be read: {error}" for key, error in sorted(self.unread_logs.items()))


def no_such_group(group: str, known: Collection[str], program: str) -> UsageError:
    """The error for a group that is not there, with names that are like it."""
    near = get_close_matches(group, sorted(known), n=NEAR_NAMES)
    names = " or ".join(sanitize(name) for name in near)
    like = f"is it {names}?" if near else f"the cluster has {amount(len(known), 'group')};"
    return UsageError(
        f"group {shown_name(group)} does not exist",
        hint=f"{like} all that commit: {shell_command('streams commits limits', program=program)}",
    )


def refused_group(group: str, error: ItemError | None) -> KafkakitError:
    """The failure for a group that its coordinator does not tell of."""
    message = f"group {shown_name(group)} cannot be read: {error or 'no answer'}"
    if error is None or error.retriable:
        return TryLaterError(message)
    return OperationFailedError(message, hint=RIGHT_HINT if error.is_denied else None)


def nothing_in_scope(look: GroupLook, scope: CommitScope) -> KafkakitError:
    """The failure for a group without a commit; `UsageError` if a topic was named for which it has none."""
    if look.type is GroupType.SHARE:
        return OperationFailedError(
            f"group {shown_name(look.group)} is a share group: it commits no offsets",
            hint="brokers keep its place, record by record: "
            + str(shell_command("streams lag share-groups", look.group)),
        )
    where = sanitize(scope.topic) or "any topic"
    if scope.partition is not None:
        where += f" partition {scope.partition}"
    topics = sorted({facts.key.topic for facts in look.commits if facts.key is not None})
    near = get_close_matches(scope.topic, topics, n=NEAR_NAMES) or topics[:NEAR_NAMES]
    hint = (
        f"it committed for {', '.join(sanitize(topic) for topic in near)}"
        if near
        else "it committed nothing, or the user in use has no right to DESCRIBE its topics"
    )
    kind = UsageError if scope.topic else OperationFailedError
    return kind(f"group {shown_name(look.group)} has no commit for {where}", hint=hint)


def only_commit(look: GroupLook) -> CommitFacts:
    """The one commit in a look; `UsageError` naming the partitions to choose from where there are several."""
    if len(look.commits) == 1:
        return look.commits[0]
    if not look.commits:
        for key, error in sorted(look.refused.items()):
            raise OperationFailedError(f"the commit for {key} cannot be read: {error}")
        raise OperationFailedError(
            f"group {shown_name(look.group)} has no commit for {few_of(sorted(look.uncommitted))}",
            hint="a member owns it; where its consumer begins is what auto.offset.reset says",
        )
    keys = [str(facts.key) for facts in look.commits]
    more = f" and {len(keys) - NEAR_NAMES} more" if len(keys) > NEAR_NAMES else ""
    raise UsageError(
        f"group {shown_name(look.group)} has {len(keys)} commits: {sanitize(', '.join(keys[:NEAR_NAMES]))}{more}",
        hint="name one with --topic and --partition",
    )


Answers = Mapping[TopicPartition, CommittedOffset | ItemError]
UNSTABLE = "UnstableOffsetCommit"
GONE = "UnknownTopicOrPartition"


def failed_look(group: str, cluster_id: str, at_ms: int, limits: MetadataLimits, fault: KafkakitError) -> GroupLook:
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
    return isinstance(answer, ItemError) and answer.plain_name.startswith(UNSTABLE.lower())


def bare_look(
    described: GroupDescription,
    answers: Answers,
    earlier: Answers,
    scope: CommitScope,
    *,
    cluster_id: str,
    at_ms: int,
    limits: MetadataLimits,
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
    known = {facts.key for facts in commits} | refused.keys()
    commits_offsets = described.type in (GroupType.CLASSIC, GroupType.CONSUMER)
    owned = sorted(key for key in holders if scope.holds(key) and key not in known) if commits_offsets else []
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
        uncommitted=dict.fromkeys(owned),
    )


def with_logs(
    look: GroupLook, places: Mapping[str, TopicPlaces], spans: Mapping[TopicPartition, LogSpan | ItemError]
) -> GroupLook:
    """Add topic ids, ends of logs, and what the payload says once it is known where it stands."""
    unread: dict[TopicPartition, ItemError] = {}
    commits: list[CommitFacts] = []
    for facts in look.commits:
        key = facts.key
        if key is None:
            continue
        span, place = spans.get(key), places.get(key.topic)
        is_gone = isinstance(span, ItemError) and span.plain_name.startswith(GONE.lower())
        if isinstance(span, ItemError) and not is_gone:
            unread[key] = span
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
    uncommitted: dict[TopicPartition, LogSpan | None] = {}
    for key in look.uncommitted:
        span = spans.get(key)
        uncommitted[key] = span if isinstance(span, LogSpan) else None
        if isinstance(span, ItemError):
            unread[key] = span
    return replace(look, commits=tuple(commits), unread_logs=unread, uncommitted=uncommitted)


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


def foreign_commits(look: GroupLook) -> tuple[CommitFacts, ...]:
    """Commits whose payload belongs to something else."""
    return tuple(facts for facts in look.commits if facts.reading.problem is PayloadProblem.FOREIGN)


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


LIMIT_KEY = "offset.metadata.max.bytes"


def read_limits(answers: Mapping[int, Mapping[str, str]], brokers: Iterable[int]) -> MetadataLimits:
    """The limits out of the brokers' settings; a value that is no number counts as not told."""
    reported: dict[int, int] = {}
    for broker in sorted(answers):
        value = answers[broker].get(LIMIT_KEY, "")
        if value.isascii() and value.isdecimal() and len(value) < 12:
            reported[broker] = int(value)
    return MetadataLimits(of_broker=reported, unknown=tuple(sorted(set(brokers) - reported.keys())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """One group's use of the limit: its fullest commit, and how many commits it has that carry metadata."""

    group: str
    partitions: int
    with_metadata: int
    fullest: CommitFacts | None
    limit_chars: int

    @property
    def fill(self) -> float:
        """The share of the limit that the fullest commit uses."""
        return 0.0 if self.fullest is None else self.fullest.fill

    @property
    def free_chars(self) -> int:
        """How many characters the fullest commit could still grow by; below 0 when it is over."""
        return self.limit_chars - (0 if self.fullest is None else self.fullest.chars)


def headroom_of(group: str, commits: Iterable[CommitFacts], limit_chars: int) -> Headroom:
    """Sum one group up."""
    found = list(commits)
    fullest = max(found, key=lambda facts: facts.chars, default=None)
    return Headroom(
        group=group,
        partitions=len(found),
        with_metadata=sum(1 for facts in found if facts.chars),
        fullest=fullest,
        limit_chars=limit_chars,
    )


def by_fullness(groups: Iterable[Headroom]) -> tuple[Headroom, ...]:
    """The fullest group first, equal ones by name."""
    return tuple(sorted(groups, key=lambda headroom: (-headroom.fill, headroom.group)))


_SOURCES = {
    TimeKind.RECORD: "its record in the log",
    TimeKind.APPEND: "the broker's clock",
    TimeKind.HEADER: "its batch in the log",
}


def time_at(records: bytes, offset: int) -> TimeSpan | None:
    """When the record at this offset, or the next one that the log still has, was written; None when it is not here."""
    found = record_at(records, offset)
    if not isinstance(found, RecordTime) or found.low_ms < 0 or found.high_ms < 0:
        return None
    return TimeSpan(
        low_ms=found.low_ms,
        high_ms=found.high_ms,
        source=_SOURCES[found.kind],
        record_offset=found.offset if found.is_offset_exact else None,
    )
