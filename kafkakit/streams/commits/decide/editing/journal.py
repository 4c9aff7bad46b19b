"""The journal of one edit: lines chained by SHA-256, written before and after each effect, and what they mean.

`open` says whose edit of what it is, an intent to `write` holds every old and new commit to the last character, its
effect the brokers' answers, `found` what was read afterwards, `end` how it came out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from kafkakit.core.group_facts import CommittedOffset
from kafkakit.core.journal_lines import Grammar, RecordKind
from kafkakit.core.journal_lines import Line as JournalLine
from kafkakit.core.model import TopicPartition
from kafkakit.streams.commits.decide.editing.plan import EditPlan

HEADER = {"kind": "commit-edit", "schema": 1}
DAMAGED_HINT = "the journal was changed; compare the commits by hand: kafkakit streams commits show"


class What(StrEnum):
    """What a line is about; `write` alone is an effect."""

    OPEN = "open"
    WRITE = "write"
    FOUND = "found"
    END = "end"


class CommitStanding(StrEnum):
    """Which commit stands: the edit's, the one before it, or another process's."""

    NEW = "new"
    OLD = "old"
    OTHER = "other"


class Verdict(StrEnum):
    """How an edit came out; OPEN means that it was interrupted, or is running."""

    OPEN = "open"
    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    NOTHING = "nothing written"
    UNDONE = "undone"


Line: TypeAlias = JournalLine[What]

GRAMMAR = Grammar(header=HEADER, words=What, damaged_hint=DAMAGED_HINT)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitChange:
    """One partition's old and new commit; None for none."""

    partition: TopicPartition
    topic_id: bytes
    old: CommittedOffset | None
    new: CommittedOffset | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Whose edit it is, and why; `undoes` names the journal that it takes back."""

    cluster_id: str
    group: str
    verb: str
    who: str
    words: tuple[str, ...] = ()
    reason: str = ""
    fingerprint: str = ""
    request_id: int | None = None
    undoes: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRecord:
    """A journal folded up.

    `changes` are those that were intended, `answers` the brokers' (None: accepted) of those that were answered, and
    `found` which commit stood when it was last looked.
    """

    opening: Opening
    at: datetime
    changes: Mapping[TopicPartition, CommitChange] = field(default_factory=dict)
    answers: Mapping[TopicPartition, str | None] = field(default_factory=dict)
    found: Mapping[TopicPartition, CommitStanding] = field(default_factory=dict)
    verdict: Verdict = Verdict.OPEN

    @property
    def is_open(self) -> bool:
        """True when something may have been written, and it was not looked whether it stands."""
        return self.verdict is Verdict.OPEN and bool(self.changes)

    @property
    def story(self) -> str:
        """What happened, in words."""
        if self.verdict is not Verdict.OPEN:
            return f"{self.opening.verb} ended: {self.verdict}"
        if not self.changes:
            return f"{self.opening.verb} was stopped before anything was written"
        if not self.answers:
            return f"{self.opening.verb} was stopped while it wrote: the commits may be old or new"
        return f"{self.opening.verb} was stopped after it wrote, before it verified the commits"


def fold(record: EditRecord | None, line: Line) -> EditRecord:
    """Take one more line into account."""
    data = line.data
    if (record is None) != (line.what is What.OPEN):
        raise ValueError("a journal opens once, with its first line")
    if record is None:
        words = tuple(str(word) for word in data["words"])
        return EditRecord(opening=Opening(**{**data, "words": words}), at=line.time)
    if line.what is What.WRITE and line.kind is RecordKind.INTENT:
        changes = [change_from(item) for item in data["changes"]]
        return replace(record, changes={**record.changes, **{c.partition: c for c in changes}}, verdict=Verdict.OPEN)
    if line.what is What.WRITE:
        answers = {TopicPartition(t, p): error for t, p, error in data["answers"]}
        return replace(record, answers={**record.answers, **answers})
    if line.what is What.FOUND:
        found = {TopicPartition(t, p): CommitStanding(standing) for t, p, standing in data["partitions"]}
        return replace(record, found={**record.found, **found})
    return replace(record, verdict=Verdict(data["verdict"]))


def opening_for(plan: EditPlan, *, who: str, reason: str) -> Opening:
    """The first line of a plan's journal."""
    return Opening(
        cluster_id=plan.cluster_id,
        group=plan.group,
        verb=plan.verb,
        who=who,
        words=plan.words,
        reason=reason,
        fingerprint=plan.fingerprint,
        request_id=plan.request_id,
        undoes=plan.undoes,
    )


def change_data(change: CommitChange) -> dict[str, Any]:
    """A change as journal data."""
    return {
        "topic": change.partition.topic,
        "partition": change.partition.partition,
        "topic_id": change.topic_id.hex(),
        "old": _commit_data(change.old),
        "new": _commit_data(change.new),
    }


def change_from(data: Mapping[str, Any]) -> CommitChange:
    """Read `change_data` back."""
    return CommitChange(
        partition=TopicPartition(str(data["topic"]), int(data["partition"])),
        topic_id=bytes.fromhex(data["topic_id"]),
        old=_commit_from(data["old"]),
        new=_commit_from(data["new"]),
    )


def _commit_data(commit: CommittedOffset | None) -> dict[str, Any] | None:
    if commit is None:
        return None
    return {"offset": commit.offset, "metadata": commit.metadata, "leader_epoch": commit.leader_epoch}


def _commit_from(data: Mapping[str, Any] | None) -> CommittedOffset | None:
    if data is None:
        return None
    offset, metadata, epoch = data["offset"], data["metadata"], data["leader_epoch"]
    if not isinstance(offset, int) or not isinstance(metadata, str) or not isinstance(epoch, int | None):
        raise TypeError
    return CommittedOffset(offset=offset, metadata=metadata, leader_epoch=epoch)
