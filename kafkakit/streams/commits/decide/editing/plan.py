"""The plan of an edit: what each commit is, and what it is to become."""

import hashlib
import json
from dataclasses import dataclass, field
from datetime import datetime

from kafkakit.core.group_facts import CommittedOffset
from kafkakit.core.model import TopicPartition
from kafkakit.streams.model.commit import CommitState, OffsetRanges

FINGERPRINT_CHARS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEdit:
    """One partition's change; `before` and `after` are commits as the broker stores them, None for none.

    `reopened` are offsets that were done and will be pending, `passed` those that were pending and will be done, both
    as far as the log holds them. `forgotten` counts acknowledgements lost because the payload would not fit.
    """

    partition: TopicPartition
    topic_id: bytes
    before: CommittedOffset | None
    after: CommittedOffset | None
    dialect_before: str
    dialect_after: str
    state_before: CommitState | None = None
    state_after: CommitState | None = None
    reopened: OffsetRanges = field(default_factory=OffsetRanges)
    passed: OffsetRanges = field(default_factory=OffsetRanges)
    forgotten: int = 0
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_change(self) -> bool:
        """False when the commit stays as it is."""
        return not same_commit(self.before, self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditPlan:
    """An edit of one group, decided from what was seen at `taken_at`; nothing of it has happened.

    `verb` is the command's word, `words` say how the request was understood, `request_id` tags a replay, `undoes`
    names the journal that an undo takes back. With `removes_group` the group is deleted after its commits.
    """

    verb: str
    cluster_id: str
    group: str
    taken_at: datetime
    limit_chars: int
    edits: tuple[PartitionEdit, ...]
    words: tuple[str, ...] = ()
    request_id: int | None = None
    undoes: str | None = None
    removes_group: bool = False

    @property
    def changes(self) -> tuple[PartitionEdit, ...]:
        """The partitions whose commit becomes another one."""
        return tuple(edit for edit in self.edits if edit.is_change)

    @property
    def fingerprint(self) -> str:
        """A short hash over cluster, group and every change: equal for plans that write the same over the same.

        The id of a replay's request and the watermark follow the time of planning or of records, so payloads are
        told apart by their states, not by their bytes.
        """
        head = [self.cluster_id, self.group, self.verb, *(["group"] if self.removes_group else [])]
        rows = [
            [*edit.partition, _commit(edit.before), edit.after and edit.after.offset, *_state(edit)]
            for edit in self.changes
        ]
        text = json.dumps([head, rows], separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:FINGERPRINT_CHARS]

    @property
    def reopened(self) -> int:
        """How many offsets will be delivered again, at most: not every offset has a record."""
        return sum(edit.reopened.count for edit in self.edits)

    @property
    def passed(self) -> int:
        """How many offsets that were pending count as done, and will not be delivered."""
        return sum(edit.passed.count for edit in self.edits)


def same_commit(one: CommittedOffset | None, other: CommittedOffset | None) -> bool:
    """True when offset and metadata are equal to the last character, or neither exists."""
    if one is None or other is None:
        return one is other
    return (one.offset, one.metadata) == (other.offset, other.metadata)


def _commit(commit: CommittedOffset | None) -> list[object] | None:
    return None if commit is None else [commit.offset, commit.metadata]


def _state(edit: PartitionEdit) -> list[object]:
    state = edit.state_after
    if state is None:
        return [edit.dialect_after]
    marks = [[mark.start, mark.end, mark.state.value] for mark in state.marks]
    return [edit.dialect_after, state.base, [list(pair) for pair in state.done], marks]
