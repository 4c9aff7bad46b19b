"""One look at a group: its commits with all that is known beside them, and what could not be read."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import KafkakitError, OperationFailedError, TryLaterError, UsageError
from kafkakit.core.group_facts import GroupMember, GroupState, GroupType
from kafkakit.core.model import TopicPartition
from kafkakit.core.printable import printable
from kafkakit.streams.commits.decide.headroom import Limits
from kafkakit.streams.model.commit import amount
from kafkakit.streams.model.dialects.dialect import CommitFacts

NEAR_NAMES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitScope:
    """Which commits of a group are looked at: of one topic, one partition, or all."""

    topic: str = ""
    partition: int | None = None

    def holds(self, key: TopicPartition) -> bool:
        """True when the partition is to be looked at."""
        return self.topic in ("", key.topic) and self.partition in (None, key.partition)


ALL = CommitScope()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLook:
    """A group as it was at `at_ms`. `refused` are commits that could not be read, `notes` what else is missing.

    `fault` says why nothing of it could be read, and then everything else is empty.
    """

    group: str
    cluster_id: str
    at_ms: int
    type: GroupType
    state: GroupState
    limits: Limits
    members: tuple[GroupMember, ...] = ()
    commits: tuple[CommitFacts, ...] = ()
    refused: Mapping[TopicPartition, ItemError]
    notes: tuple[str, ...] = ()
    fault: KafkakitError | None = None

    @property
    def exists(self) -> bool:
        """False when the cluster knows neither the group nor a commit of it."""
        return self.state is not GroupState.DEAD or bool(self.commits) or bool(self.refused)


def no_such_group(group: str, known: Collection[str], program: str) -> OperationFailedError:
    """The failure for a group that is not there, with names that are like it."""
    near = get_close_matches(group, sorted(known), n=NEAR_NAMES)
    names = " or ".join(printable(name) for name in near)
    like = f"is it {names}?" if near else f"the cluster has {amount(len(known), 'group')};"
    return OperationFailedError(
        f"group {printable(group)} does not exist",
        hint=f"{like} {program} streams commits limits lists all that commit",
    )


def refused_group(group: str, error: ItemError | None) -> KafkakitError:
    """The failure for a group that its coordinator does not tell of."""
    message = f"group {printable(group)} cannot be read: {error or 'no answer'}"
    if error is None or error.retriable:
        return TryLaterError(message)
    return OperationFailedError(message, hint="reading a group needs the right DESCRIBE on it and on its topics")


def nothing_in_scope(look: GroupLook, scope: CommitScope) -> OperationFailedError:
    """The failure for a group without a commit where one was asked for."""
    if look.type is GroupType.SHARE:
        return OperationFailedError(
            f"group {printable(look.group)} is a share group: it commits no offsets",
            hint="brokers keep its place, record by record; kafkakit streams lag share-groups shows it",
        )
    where = printable(scope.topic) or "any topic"
    if scope.partition is not None:
        where += f" partition {scope.partition}"
    topics = sorted({facts.key.topic for facts in look.commits if facts.key is not None})
    near = get_close_matches(scope.topic, topics, n=NEAR_NAMES) or topics[:NEAR_NAMES]
    hint = (
        f"it committed for {', '.join(printable(topic) for topic in near)}"
        if near
        else "it committed nothing, or the user in use has no right to DESCRIBE its topics"
    )
    return OperationFailedError(f"group {printable(look.group)} has no commit for {where}", hint=hint)


def only_commit(look: GroupLook) -> CommitFacts:
    """The one commit in a look; `UsageError` naming the partitions to choose from where there are several."""
    if len(look.commits) == 1:
        return look.commits[0]
    if not look.commits:
        key, error = sorted(look.refused.items())[0]
        raise OperationFailedError(f"the commit for {key} cannot be read: {error}")
    keys = [str(facts.key) for facts in look.commits]
    more = f" and {len(keys) - NEAR_NAMES} more" if len(keys) > NEAR_NAMES else ""
    raise UsageError(
        f"group {printable(look.group)} has {len(keys)} commits: {printable(', '.join(keys[:NEAR_NAMES]))}{more}",
        hint="name one with --topic and --partition",
    )
