"""Whether a group may be edited at all: it must have no members."""

from collections.abc import Mapping

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import OperationFailedError, RefusedError, TryLaterError
from kafkakit.core.group_facts import CommittedOffset, GroupDescription, GroupState, GroupType
from kafkakit.core.model import TopicPartition
from kafkakit.core.printable import printable
from kafkakit.core.quantities import counted
from kafkakit.streams.commits.decide.assembly import is_unstable

QUIET = (GroupState.EMPTY, GroupState.DEAD)
MOST_NAMED = 3
LIVE_ANSWERS = {
    "NonEmptyGroupError": "the group has members",
    "GroupSubscribedToTopicError": "a member of the group is subscribed to the topic",
}
"""What the coordinator answers where a member joined after the group was described."""


def check_quiet(group: str, reported: GroupDescription | ItemError) -> GroupDescription:
    """The description of a group without members; raises `RefusedError` for a live one and for share groups, and
    `TryLaterError` or `OperationFailedError` where the coordinator gives no description."""
    name = printable(group)
    if isinstance(reported, ItemError):
        words = f"group {name} cannot be described: {reported}"
        raise TryLaterError(words) if reported.retriable else OperationFailedError(words)
    if reported.type is GroupType.SHARE:
        raise RefusedError(f"group {name} is a share group: brokers keep its state, not commits")
    if reported.members or reported.state not in QUIET:
        clients = sorted({printable(f"{member.client_id}{member.host}") for member in reported.members})
        named = f": {', '.join(clients[:MOST_NAMED])}" if clients else ""
        raise RefusedError(
            f"group {name} is live ({reported.state}, {counted(len(reported.members), 'member')}{named})",
            hint="stop its members first; a live group would write over the edit",
        )
    return reported


def refusal_words(error: ItemError) -> str:
    """A coordinator's refusal to delete, with what to do about it."""
    reason = LIVE_ANSWERS.get(error.name)
    return str(error) if reason is None else f"{error}: {reason}; stop the members first"


def settled(
    group: str, reported: Mapping[TopicPartition, CommittedOffset | ItemError]
) -> dict[TopicPartition, CommittedOffset]:
    """The commits of a group; raises `TryLaterError` while one of them is in an open transaction or unreadable, and
    `OperationFailedError` where waiting does not help."""
    errors = {key: answer for key, answer in sorted(reported.items()) if isinstance(answer, ItemError)}
    if errors:
        key, error = next(iter(errors.items()))
        in_transaction = is_unstable(error)
        reason = "is in an open transaction" if in_transaction else f"cannot be read: {error}"
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        kind = TryLaterError if error.retriable or in_transaction else OperationFailedError
        raise kind(f"the commit of group {printable(group)} for {key}{more} {reason}", hint="nothing was changed")
    return {key: answer for key, answer in sorted(reported.items()) if not isinstance(answer, ItemError)}
