"""The journal of a failover: what its lines are about, and what they mean together.

Live state decides what comes next; a line only remembers what cannot be read again: the request, what a fence
replaced, when a state was first seen, and which offsets a group can never read. Nothing that expires is in it: that a
topic is quiet, or that a fence is up, is proven again by each process.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from kafkakit.core.acls import AclBinding
from kafkakit.core.durations import epoch_ms
from kafkakit.core.journal_lines import Grammar, RecordKind, read_data
from kafkakit.core.journal_lines import Line as JournalLine
from kafkakit.streams.failover.decide.operation import FailoverRequest, FenceKind, Operation, Step
from kafkakit.streams.model.route import check_stream

HEADER = {"kind": "stream-failover", "schema": 1}
DAMAGED_HINT = "the journal was changed; the route shows where the operation stands: kafkakit streams show"


class Word(StrEnum):
    """What a line is about; those up to RECLAIM are effects, with an intent before each."""

    CREATE = "create"
    SEED = "seed"
    FENCE = "fence"
    UNFENCE = "unfence"
    ROUTE = "route"
    ABORT = "abort"
    RECLAIM = "reclaim"
    PLAN = "plan"
    AMEND = "amend"
    STEP = "step"
    QUIET = "quiet"
    LATE = "late"
    LOST = "lost"
    CERTIFIED = "certified"


Line: TypeAlias = JournalLine[Word]
GRAMMAR = Grammar(header=HEADER, words=Word, damaged_hint=DAMAGED_HINT)


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceRecord:
    """A fence on the topic of a segment, and what puts it back: the bindings that it added, the value it replaced.

    A quota is on `client_id`, and the value that it replaced is the lane's.
    """

    segment: int
    kind: FenceKind
    bindings: tuple[AclBinding, ...] = ()
    before: str | None = None
    client_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRange:
    """Offsets that are gone from a log before a group read them."""

    segment: int
    partition: int
    group: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRecord:
    """A journal folded up: the operation, and what was remembered on the way.

    `reached_ms` is when each step was first seen, `routed_epoch` the route's epoch with the targets active, `unready`
    are groups that had not acknowledged by then, and `late` counts detections of late writers. `topic_ids` are those of
    the targets by lane. `certificate` is the sha256 of the newest certificate, empty while there is none that counts;
    it is about the seals in the route of `certified_epoch`.
    """

    operation: Operation
    at: datetime
    reached_ms: Mapping[Step, int] = field(default_factory=dict)
    routed_epoch: int | None = None
    unready: tuple[str, ...] = ()
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    fences: tuple[FenceRecord, ...] = ()
    lost: tuple[LostRange, ...] = ()
    late: int = 0
    basis: str = ""
    window_s: float = 0.0
    certificate: str = ""
    certified_epoch: int = 0
    is_aborting: bool = False

    @property
    def request(self) -> FailoverRequest:
        """What is asked for, as it was last amended."""
        return self.operation.request

    @property
    def end(self) -> Step | None:
        """How it ended; None while it runs."""
        ends = (Step.ABORTED, Step.SUPERSEDED, Step.RECLAIMED, Step.RETIRED)
        return next((step for step in ends if step in self.reached_ms), None)


def operations_folder(stream: str) -> str:
    """Where the operations of a stream are kept, one folder each."""
    return f"streams/{check_stream(stream)}/operations"


def journal_root(stream: str, operation: str) -> str:
    """Where the journal of an operation is kept."""
    return f"{operations_folder(stream)}/{operation}/journal"


def certificate_root(stream: str, operation: str) -> str:
    """Where the newest certificate of an operation is kept."""
    return f"{operations_folder(stream)}/{operation}/certificate"


def lease_of(stream: str) -> str:
    """Where the lease of a stream's operations is kept."""
    return f"streams/{check_stream(stream)}/lease"


def fold(record: OperationRecord | None, line: Line) -> OperationRecord:
    """Take one more line into account."""
    if (record is None) != (line.what is Word.PLAN):
        raise ValueError("a journal begins with its plan, and has one")
    if record is None:
        return OperationRecord(operation=read_data(line.data, Operation), at=line.time)
    read = _READERS.get((line.kind, line.what))
    return record if read is None else read(record, line)


def _amended(record: OperationRecord, line: Line) -> OperationRecord:
    request: FailoverRequest = read_data(line.data, FailoverRequest)
    groups = (set(record.operation.groups) | set(request.groups)) - set(request.ignored)
    operation = replace(record.operation, request=request, groups=tuple(sorted(groups)))
    # A certificate proves what it proves for its own groups alone.
    certificate = record.certificate if groups == set(record.operation.groups) else ""
    return replace(record, operation=operation, certificate=certificate)


def _reached(record: OperationRecord, line: Line) -> OperationRecord:
    step = Step(line.data["step"])
    found = replace(record, reached_ms={step: epoch_ms(line.time), **record.reached_ms})
    if step is Step.ROUTED and record.routed_epoch is None:
        unready = tuple(str(each) for each in line.data.get("unready", ()))
        return replace(found, routed_epoch=int(line.data["epoch"]), unready=unready)
    return found


def _fenced(record: OperationRecord, line: Line) -> OperationRecord:
    fence = read_data(line.data, FenceRecord)
    # The first record has what stood before any fence; a later one would name our own fence.
    known = any((each.segment, each.kind) == (fence.segment, fence.kind) for each in record.fences)
    return record if known else replace(record, fences=(*record.fences, fence))


_READERS: Mapping[tuple[RecordKind, Word], Callable[[OperationRecord, Line], OperationRecord]] = {
    (RecordKind.CHECK, Word.AMEND): _amended,
    (RecordKind.CHECK, Word.STEP): _reached,
    (RecordKind.INTENT, Word.FENCE): _fenced,
    (RecordKind.CHECK, Word.CREATE): lambda record, line: replace(
        record, topic_ids={**record.topic_ids, **read_data(line.data["topic_ids"], dict[str, str])}
    ),
    (RecordKind.CHECK, Word.UNFENCE): lambda record, line: replace(
        record, fences=tuple(each for each in record.fences if each.segment != line.data["segment"])
    ),
    (RecordKind.CHECK, Word.QUIET): lambda record, line: replace(
        record, basis=str(line.data["basis"]), window_s=float(line.data["window_s"])
    ),
    (RecordKind.CHECK, Word.LATE): lambda record, _: replace(record, late=record.late + 1, certificate=""),
    (RecordKind.CHECK, Word.LOST): lambda record, line: replace(
        record, lost=merged_losses(record.lost, read_data(line.data["lost"], tuple[LostRange, ...]))
    ),
    (RecordKind.CHECK, Word.CERTIFIED): lambda record, line: replace(
        record, certificate=str(line.data["sha256"]), certified_epoch=int(line.data["epoch"])
    ),
    (RecordKind.INTENT, Word.ABORT): lambda record, _: replace(record, is_aborting=True),
}
"""What each line means; a line without an entry changes nothing."""


def merged_losses(one: tuple[LostRange, ...], other: tuple[LostRange, ...]) -> tuple[LostRange, ...]:
    """The larger count of each place, sorted: a gap is seen again at each look until the group has moved past it."""
    found: dict[tuple[int, int, str], int] = {}
    for each in (*one, *other):
        key = (each.segment, each.partition, each.group)
        found[key] = max(each.count, found.get(key, 0))
    return tuple(
        LostRange(segment=segment, partition=partition, group=group, count=count)
        for (segment, partition, group), count in sorted(found.items())
    )
