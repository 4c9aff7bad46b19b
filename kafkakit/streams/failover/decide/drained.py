"""Whether old segments are drained for the groups that must read them: the items of the proof, one by one.

Everything is judged against the seal in the route, which never changes, and what the clusters say now.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.group_facts import CommittedOffset
from kafkakit.core.log_reads import LogSpan
from kafkakit.core.quantities import counted
from kafkakit.streams.failover.decide.evidence import Evidence, GroupFacts, TopicFacts
from kafkakit.streams.failover.decide.journal import LostRange, OperationRecord
from kafkakit.streams.model.route import Segment


class Item(StrEnum):
    """The items of the proof, as reasons that programs read."""

    UNKNOWN = "unknown"
    TRANSACTIONS = "open-transactions"
    BACKLOG = "backlog"
    UNSTABLE = "offsets-in-a-transaction"
    LOST = "lost-records"
    REJECTS = "rejected-references"
    BEHIND = "members-behind"
    UNKNOWN_GROUPS = "unknown-groups"


class AckKind(StrEnum):
    """How a group shows that it reads the new segments."""

    REGISTERED = "registered"
    COMMITS = "commits"
    NO_MEMBERS = "no-members"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """What still stands between an old segment and its retirement; `records` where it can be counted."""

    item: Item
    text: str
    segment: int | None = None
    group: str = ""
    records: int = 0


def late_partitions(segment: Segment, facts: TopicFacts) -> tuple[tuple[int, int], ...]:
    """Partitions that grew after the seal, with how many offsets; what was not read is no detection."""
    spans = facts.whole_spans or {}
    return tuple(
        (seal.partition, spans[seal.partition].end - seal.end)
        for seal in segment.seal
        if seal.partition in spans and spans[seal.partition].end > seal.end
    )


def late_words(segment: Segment, partition: int, more: int) -> str:
    """How far a partition grew after its seal, in words."""
    return f"{segment.topic}-{partition}: {counted(more, 'offset')} after the seal"


def missing_items(record: OperationRecord, evidence: Evidence) -> tuple[Missing, ...]:
    """Everything that is missing; nothing: the old segments are drained."""
    found: list[Missing] = []
    for _, segment in record.operation.old_segments(evidence.route):
        facts = evidence.old.get(segment.id)
        if facts is None or facts.problem or facts.whole_spans is None:
            why = "it was not looked at" if facts is None else facts.problem or "a leader did not answer"
            found.append(Missing(item=Item.UNKNOWN, segment=segment.id, text=f"{segment.topic}: {why}"))
            continue
        found += _of_segment(record, evidence, segment, facts)
    lost = sum(each.count for each in record.lost)
    if lost > record.request.accept_loss:
        text = f"deleted before they were read: {counted(lost, 'offset')}; --accept-loss {lost} continues without them"
        found.append(Missing(item=Item.LOST, text=text, records=lost))
    return tuple(found)


def losses(record: OperationRecord, evidence: Evidence) -> tuple[LostRange, ...]:
    """What this look shows as deleted before a group read it, by place."""
    found = []
    for _, segment in record.operation.old_segments(evidence.route):
        facts = evidence.old.get(segment.id)
        spans = None if facts is None else facts.whole_spans
        if facts is None or spans is None:
            continue
        starts = record.operation.starts.get(segment.id, ())
        for name in record.operation.groups:
            commits = facts.groups[name].commits if name in facts.groups else {}
            for number, span in spans.items():
                commit = commits.get(number)
                if isinstance(commit, ItemError):
                    continue
                first = starts[number] if number < len(starts) else 0
                gap = span.start - (first if commit is None else commit.offset)
                if gap > 0:
                    found.append(LostRange(segment=segment.id, partition=number, group=name, count=gap))
    return tuple(found)


def ack_of(group: str, facts: GroupFacts | None, evidence: Evidence, epoch: int) -> tuple[AckKind, str]:
    """How a group shows that its members act on an epoch, and why it does not yet (empty where it does).

    What its consumers registered counts, or the epoch in their commits, whichever is higher. Members of plain clients
    know no epochs: their commits at the end of the old logs are all that there is.
    """
    behind = [client for client in evidence.consumers(group) if client.epoch < epoch]
    if evidence.consumers(group):
        words = f"group {group}: {counted(len(behind), 'consumer')} not at epoch {epoch} yet"
        return AckKind.REGISTERED, words if behind and not _commits_reach(facts, epoch) else ""
    holding = [] if facts is None else [held for held in facts.held if held]
    if facts is None or not holding:
        return AckKind.NO_MEMBERS, ""
    if not facts.epochs:
        return AckKind.PLAIN, ""
    slow = sum(max((facts.epochs.get(number, 0) for number in held), default=0) < epoch for held in holding)
    words = f"group {group}: {counted(slow, 'member')} without a commit at epoch {epoch} or later"
    return AckKind.COMMITS, words if slow else ""


def waiting_producers(evidence: Evidence, epoch: int) -> tuple[str, ...]:
    """The ids of registered producers that have not moved to an epoch."""
    return tuple(client.id for client in evidence.producers() if client.epoch < epoch)


def _of_segment(record: OperationRecord, evidence: Evidence, segment: Segment, facts: TopicFacts) -> Iterator[Missing]:
    unstable = [n for n, span in (facts.whole_spans or {}).items() if span.stable < span.end]
    if unstable:
        text = f"{segment.topic}: a transaction is open in partition {', '.join(map(str, sorted(unstable)[:5]))}"
        yield Missing(item=Item.TRANSACTIONS, segment=segment.id, text=text)
    for seal in segment.seal:
        end = (facts.whole_spans or {})[seal.partition].end
        if end < seal.end:
            # A new leader may say so for a moment; a log that was truncated, or made again, says so from then on.
            text = f"{segment.topic}-{seal.partition} ends at {end}, before its seal at {seal.end}"
            yield Missing(item=Item.UNKNOWN, segment=segment.id, text=text)
    has_backlog = False
    for name in record.operation.groups:
        group = facts.groups.get(name)
        for each in _of_group(segment, name, group, facts.whole_spans or {}):
            has_backlog |= each.item is Item.BACKLOG
            yield each
        _, behind = ack_of(name, group, evidence, record.routed_epoch or evidence.route.epoch)
        if behind:
            yield Missing(item=Item.BEHIND, segment=segment.id, group=name, text=behind)
    rejects = evidence.rejects.get(segment.id)
    if rejects is None and not has_backlog:
        yield Missing(item=Item.UNKNOWN, segment=segment.id, text=f"{segment.topic}: rejected records are not known")
    elif rejects:
        count = counted(rejects, "rejected record")
        text = f"{segment.topic}: {count} without a copy elsewhere; kafkakit streams dlq copy makes them"
        yield Missing(item=Item.REJECTS, segment=segment.id, text=text, records=rejects)


def _of_group(segment: Segment, name: str, group: GroupFacts | None, spans: Mapping[int, LogSpan]) -> Iterator[Missing]:
    left, unstable = 0, False
    for seal in segment.seal:
        commit = None if group is None else group.commits.get(seal.partition)
        unstable |= isinstance(commit, ItemError)
        left += left_in(commit, seal.effective_end, spans[seal.partition].start)
    if unstable:
        text = f"{segment.topic}: offsets of group {name} are not known, or in an open transaction"
        yield Missing(item=Item.UNSTABLE, segment=segment.id, group=name, text=text)
    if left:
        text = f"{segment.topic}: group {name} has {counted(left, 'offset')} to read"
        yield Missing(item=Item.BACKLOG, segment=segment.id, group=name, text=text, records=left)


def left_in(commit: CommittedOffset | ItemError | None, effective_end: int, start: int) -> int:
    """Offsets between the committed one and the effective end; the pointer alone counts, acks above it do not.

    Without a commit everything in the log is left.
    """
    if isinstance(commit, ItemError):
        return 0
    return max(0, effective_end - (start if commit is None else commit.offset))


def _commits_reach(facts: GroupFacts | None, epoch: int) -> bool:
    """Whether every member has committed at the epoch; for clients whose registration is older than their commits."""
    holding = [] if facts is None else [held for held in facts.held if held]
    epochs = {} if facts is None else facts.epochs
    return bool(holding) and all(max((epochs.get(n, 0) for n in held), default=0) >= epoch for held in holding)
