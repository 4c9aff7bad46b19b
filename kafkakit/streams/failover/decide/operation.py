"""One failover of a stream as values: what was asked, what was planned, where it stands, and what can be done next.

Live state decides what comes next. A line of the journal only remembers what cannot be read again: the request, what a
fence replaced, when a state was first seen, which offsets a group can never read, and how the operation ended. Nothing
that expires is in it: that a topic is quiet, or that a fence is up, is proven again by each process. Where an operation
stands is told by its route.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from kafkakit.core.cluster_facts import AclBinding
from kafkakit.core.errors import UsageError
from kafkakit.core.journal_lines import Grammar, RecordKind, read_data
from kafkakit.core.journal_lines import Line as JournalLine
from kafkakit.core.lease import stream_lease
from kafkakit.core.model import TopicPartition
from kafkakit.core.options import (
    REPEATED,
    Completion,
    not_typed,
    option,
    parsed_option,
    required_argument,
    required_option,
)
from kafkakit.core.quantities import epoch_ms, parse_duration
from kafkakit.core.text import shell_command
from kafkakit.streams.model.route import DLQ, Lane, Route, Segment, SegmentState, check_stream, lane_client_id

DEFAULT_QUIET_S = 120.0
"""The window without a fence or acknowledgements: what clients try for by default before they give a record up."""
SKEW_S = 5.0
SHORT_WINDOW_S = 2.0
"""The window where a fence is up, or every registered producer has moved."""


class Step(StrEnum):
    """The states of a failover, in their order; STRANDED stands for ROUTED while an old cluster cannot be reached.

    A SUPERSEDED one was taken over by a failover from its own target, which drains what it left.
    """

    PLANNED = "planned"
    OPENED = "opened"
    ROUTED = "routed"
    STRANDED = "stranded"
    SEALED = "sealed"
    DRAINED = "drained"
    RETIRED = "retired"
    RECLAIMED = "reclaimed"
    ABORTED = "aborted"
    SUPERSEDED = "superseded"

    @property
    def is_over(self) -> bool:
        """True where the route does not know the operation any more."""
        return self in (Step.RETIRED, Step.RECLAIMED, Step.ABORTED, Step.SUPERSEDED)

    @property
    def can_abort(self) -> bool:
        """True before the one change that sends producers elsewhere."""
        return self in (Step.PLANNED, Step.OPENED)


class OperationKind(StrEnum):
    """Why an operation was begun; the same steps serve all of them."""

    FAILOVER = "failover"
    BACK = "back"
    MOVE = "move"
    REPARTITION = "repartition"

    @property
    def noun(self) -> str:
        """What it is called in sentences."""
        return "return" if self is OperationKind.BACK else self.value


class ReadOrder(StrEnum):
    """When consumers read the new topics: beside the old ones, or (STRICT) once those are out of the route."""

    RELAXED = "relaxed"
    STRICT = "strict"


class FenceKind(StrEnum):
    """What keeps producers from an old topic; a quota delays them and refuses nothing."""

    ACL = "acl"
    CONFIG = "config"
    QUOTA = "quota"
    NONE = "none"


class FenceChoice(StrEnum):
    """Which fence is asked for; AUTO takes an ACL where one can be used, and no other fence."""

    AUTO = "auto"
    ACL = "acl"
    CONFIG = "config"
    QUOTA = "quota"
    NONE = "none"


class DeadLetterChoice(StrEnum):
    """What becomes of dead letters of the old cluster: their topic stays in the route, or they are copied."""

    LEAVE = "leave"
    COPY = "copy"


def _names(given: list[str] | None) -> tuple[str, ...]:
    return tuple(sorted(set(given or ())))


def _group_names(given: list[str] | None) -> tuple[str, ...]:
    if "" in (given or ()):
        raise UsageError("a group has a name", hint="--require-group GROUP, --ignore-group GROUP")
    return _names(given)


def dead_letters_option(usual: DeadLetterChoice) -> DeadLetterChoice:
    """`--dead-letters` of a command that takes `usual` if it is not given."""
    found: DeadLetterChoice = parsed_option(
        None,
        "--dead-letters",
        typed=DeadLetterChoice | None,
        parse=lambda given: given or usual,
        help="What becomes of dead letters in the old topic of lane dlq, and of rejected records that references lead "
        "to: leave (their topic stays readable until they are deleted, and reclaim keeps it), or copy (to the new "
        "topic of lane dlq). copy if not given for an evacuation, leave for anything else.",
    )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverRequest:
    """What an operator asks for; `to` is the target's profile, empty `lanes` are all lanes.

    `groups` are required beside those that are found, `ignored` are not. `quiet_s` None takes the rule's window.
    `is_open_by_default` states `allow.everyone.if.no.acl.found` of the old clusters, which brokers do not tell.
    With `partitions` the lanes stay on their cluster and get topics of so many partitions. The limits may be changed
    while the operation runs, its shape may not (`differences`). The order of the fields is in the hashes of plans.
    """

    stream: str = required_argument(parse=check_stream, metavar="STREAM", help="The stream.", show_default=False)
    to: str = required_option(
        "--to",
        metavar="PROFILE",
        help="The profile of the cluster that is to take the writes.",
        completion=Completion.PROFILES,
    )
    lanes: tuple[str, ...] = parsed_option(
        None, "--lane", typed=REPEATED, parse=_names, metavar="LANE", help="Move this lane only. Repeatable."
    )
    is_emergency: bool = option(
        False,
        "--emergency",
        help="Send producers to the target at once: do not check the old clusters or wait for consumers first.",
    )
    fence: FenceChoice = option(
        FenceChoice.AUTO,
        "--fence",
        help="What keeps late writers from the old topics: auto (an ACL if one can be used), acl, config "
        "(a size limit), quota (which only delays), none.",
    )
    groups: tuple[str, ...] = parsed_option(
        None,
        "--require-group",
        typed=REPEATED,
        parse=_group_names,
        metavar="GROUP",
        completion=Completion.GROUPS,
        help="A group that must read the old topics. Repeatable.",
    )
    ignored: tuple[str, ...] = parsed_option(
        None,
        "--ignore-group",
        typed=REPEATED,
        parse=_group_names,
        metavar="GROUP",
        completion=Completion.GROUPS,
        help="A group that is not waited for. Repeatable.",
    )
    quiet_s: float | None = parsed_option(
        "",
        "--quiet-for",
        parse=lambda text: parse_duration(text, "--quiet-for") if text else None,
        metavar="DURATION",
        help="How long the ends of old logs must stay the same without a fence or acknowledgements, in place of 125s "
        "or more; below 120s a record may come after the seal.",
    )
    accept_loss: int = option(
        0, "--accept-loss", min=0, metavar="N", help="Continue even if up to N offsets were deleted unread."
    )
    max_duplicates: int | None = option(
        None, "--max-duplicates", min=0, metavar="N", help="Refuse if more records than this may be delivered twice."
    )
    replication: int | None = option(
        None, "--replication", min=1, metavar="N", help="Replicas of the new topics; as the old ones if not given."
    )
    is_open_by_default: bool | None = option(
        None,
        "--open-by-default/--closed-by-default",
        help="State allow.everyone.if.no.acl.found of the old clusters, which brokers do not tell: an ACL on a topic "
        "that has none needs it.",
    )
    allow_compacted: bool = option(False, "--allow-compacted", help="Also move compacted topics.")
    allow_transactions: bool = option(False, "--allow-transactions", help="Move even if groups commit in transactions.")
    kind: OperationKind = not_typed(OperationKind.FAILOVER)
    partitions: int | None = not_typed(None)
    order: ReadOrder = option(
        ReadOrder.RELAXED,
        "--order",
        help="relaxed: consumers read new and old topics side by side; strict: the new ones once the old ones are "
        "retired, so that records of a key stay in order.",
    )
    dead_letters: DeadLetterChoice = dead_letters_option(DeadLetterChoice.LEAVE)

    def __post_init__(self) -> None:
        for name in sorted({*self.groups} & {*self.ignored}):
            raise UsageError(f"group {name} is given to --require-group and to --ignore-group")

    def differences(self, other: "FailoverRequest") -> Iterator[str]:
        """What keeps an operation of this request from being continued with the other one, in words."""
        for name, mine, theirs in (
            ("stream", self.stream, other.stream),
            ("--to", self.to, other.to),
            ("--lane", ",".join(sorted(self.lanes)), ",".join(sorted(other.lanes))),
            ("--partitions", str(self.partitions or "as before"), str(other.partitions or "as before")),
            ("--order", self.order, other.order),
        ):
            if mine != theirs:
                yield f"{name} is {theirs or 'all'}, and the operation was begun with {mine or 'all'}"
        if self.is_emergency and not other.is_emergency:
            yield "the operation was begun with --emergency"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneMove:
    """One lane: the segments that drain, and the topic that takes its writes; `configs` are sorted by key."""

    lane: str
    sources: tuple[int, ...]
    topic: str
    partitions: int
    replication: int
    configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover:
    """One failover as it was planned. `groups` must have read the old segments before they are retired.

    `lanes` has those that a group reads, for groups that do not read all. Lane `dlq` is read by tools, and by
    `letter_groups`, which need not read the other lanes (`readers_of`). `approval` is what approved the plan, in words
    (`--approve-with`).
    `starts` are the first offsets of the old logs then, by segment id: a group without a commit has lost nothing below.
    """

    id: str
    request: FailoverRequest
    cluster_id: str
    moves: tuple[LaneMove, ...]
    groups: tuple[str, ...]
    from_epoch: int
    operator: str
    started_ms: int
    approval: str = ""
    starts: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    letter_groups: tuple[str, ...] = ()
    lanes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self.request.stream

    @property
    def topic_epoch(self) -> int:
        """The epoch in the names of the new topics."""
        return self.from_epoch + 1

    @property
    def sources(self) -> frozenset[int]:
        """The ids of all segments that drain."""
        return frozenset(number for move in self.moves for number in move.sources)

    def move_of(self, lane: str) -> LaneMove | None:
        """What becomes of a lane; None where it stays."""
        return next((move for move in self.moves if move.lane == lane), None)

    def lane_of(self, segment_id: int) -> str:
        """The lane of an old segment."""
        return next(move.lane for move in self.moves if segment_id in move.sources)

    def client_id_of(self, segment_id: int) -> str:
        """The client id of the producers of an old segment's lane."""
        return lane_client_id(self.stream, self.lane_of(segment_id))

    def begins_in(self, lane: str) -> tuple[str, ...]:
        """The groups that must find the beginning of a lane's new topic."""
        return self.letter_groups if lane == DLQ else self._groups_of(lane)

    def readers_of(self, segment_id: int) -> tuple[str, ...]:
        """The groups that must have read an old segment: none where it stays readable."""
        lane = self.lane_of(segment_id)
        if lane != DLQ:
            return self._groups_of(lane)
        return self.letter_groups if self.request.dead_letters is DeadLetterChoice.COPY else ()

    def _groups_of(self, lane: str) -> tuple[str, ...]:
        return tuple(name for name in self.groups if lane in self.lanes.get(name, (lane,)))

    def target_in(self, lane: Lane) -> Segment | None:
        """The target's segment of a lane in a route, None where it is not in it."""
        move = self.move_of(lane.name)
        if move is None:
            return None
        place = (self.cluster_id, move.topic)
        return next((each for each in lane.segments if (each.cluster_id, each.topic) == place), None)

    def old_segments(self, route: Route) -> tuple[tuple[Lane, Segment], ...]:
        """The segments that drain and are still in the route, with their lanes."""
        return tuple((lane, segment) for lane, segment in route.segments() if segment.id in self.sources)


HEADER = {"kind": "stream-failover", "schema": 1}
DAMAGED_HINT = "the journal was changed; the route shows where the operation stands: kafkakit streams show STREAM"


class LineSubject(StrEnum):
    """What a line is about; those up to RECLAIM are effects, with an intent before each."""

    CREATE = "create"
    SEED = "seed"
    FENCE = "fence"
    UNFENCE = "unfence"
    ROUTE = "route"
    ABORT = "abort"
    LETTERS = "letters"
    RECLAIM = "reclaim"
    PLAN = "plan"
    AMEND = "amend"
    STEP = "step"
    QUIET = "quiet"
    LATE = "late"
    LOST = "lost"
    CERTIFIED = "certified"


Line: TypeAlias = JournalLine[LineSubject]
GRAMMAR = Grammar(header=HEADER, words=LineSubject, damaged_hint=DAMAGED_HINT)


SIZE_KEY, SIZE_LIMIT = "max.message.bytes", "1"


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
class OldCopies:
    """What was copied of an old segment: all of each partition below `offsets`, which have an entry once that is known.

    `records` were written, `passed` were not, as a replay had written them before. `references` led to records that
    were copied to the lane `dlq`, and `gone` to records that are in the log no more.
    """

    segment: int
    offsets: Mapping[int, int] = field(default_factory=dict)
    records: int = 0
    passed: int = 0
    references: int = 0
    gone: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRecord:
    """A journal folded up: the operation, and what was remembered on the way.

    `reached_ms` is when each step was first seen, `routed_epoch` the route's epoch with the targets active, `unready`
    are groups that had not acknowledged by then, and `late` counts detections of late writers. `topic_ids` are those of
    the targets by lane. `certificate` is the sha256 of the newest certificate, empty while there is none that counts;
    it is about the seals in the route of `certified_epoch`. `copies` are by segment id, and `left` are the segments
    that the retirement left in the route for their dead letters.
    """

    operation: Failover
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
    copies: Mapping[int, OldCopies] = field(default_factory=dict)
    left: tuple[int, ...] = ()

    @property
    def request(self) -> FailoverRequest:
        """What is asked for, as it was last amended."""
        return self.operation.request

    @property
    def end(self) -> Step | None:
        """How it ended; None while it runs."""
        ends = (Step.ABORTED, Step.SUPERSEDED, Step.RECLAIMED, Step.RETIRED)
        return next((step for step in ends if step in self.reached_ms), None)

    def copies_of(self, segment_id: int) -> OldCopies:
        """What was copied of an old segment."""
        return self.copies.get(segment_id, OldCopies(segment=segment_id))

    def unretired(self, route: Route) -> tuple[Segment, ...]:
        """The old segments that are in the route, without those that the retirement left there."""
        return tuple(each for _, each in self.operation.old_segments(route) if each.id not in self.left)


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
    return stream_lease(check_stream(stream))


def fold(record: OperationRecord | None, line: Line) -> OperationRecord:
    """Take one more line into account."""
    if (record is None) != (line.what is LineSubject.PLAN):
        raise ValueError("a journal begins with its plan, and has one")
    if record is None:
        return OperationRecord(operation=read_data(line.data, Failover), at=line.time)
    read = _READERS.get((line.kind, line.what))
    return record if read is None else read(record, line)


def _amend_record(record: OperationRecord, line: Line) -> OperationRecord:
    request: FailoverRequest = read_data(line.data, FailoverRequest)
    groups = (set(record.operation.groups) | set(request.groups)) - set(request.ignored)
    letters = tuple(name for name in record.operation.letter_groups if name not in request.ignored)
    lanes = {name: read for name, read in record.operation.lanes.items() if name in groups - set(request.groups)}
    operation = replace(
        record.operation, request=request, groups=tuple(sorted(groups)), letter_groups=letters, lanes=lanes
    )
    # A certificate proves what it proves for its own groups alone.
    is_same = (groups, lanes) == (set(record.operation.groups), record.operation.lanes)
    is_same &= request.dead_letters is record.request.dead_letters
    certificate = record.certificate if is_same else ""
    return replace(record, operation=operation, certificate=certificate)


def _reach_step(record: OperationRecord, line: Line) -> OperationRecord:
    step = Step(line.data["step"])
    found = replace(record, reached_ms={step: epoch_ms(line.time), **record.reached_ms})
    if step is Step.ROUTED and record.routed_epoch is None:
        unready = tuple(str(each) for each in line.data.get("unready", ()))
        return replace(found, routed_epoch=int(line.data["epoch"]), unready=unready)
    return found


def _add_fence(record: OperationRecord, line: Line) -> OperationRecord:
    fence = read_data(line.data, FenceRecord)
    # The first record has what stood before any fence; a later one only a size limit that another process set since.
    known = [each for each in record.fences if (each.segment, each.kind) == (fence.segment, fence.kind)]
    if known and (fence.kind is not FenceKind.CONFIG or fence.before == SIZE_LIMIT):
        return record
    return replace(record, fences=(*(each for each in record.fences if each not in known), fence))


_READERS: Mapping[tuple[RecordKind, LineSubject], Callable[[OperationRecord, Line], OperationRecord]] = {
    (RecordKind.CHECK, LineSubject.AMEND): _amend_record,
    (RecordKind.CHECK, LineSubject.STEP): _reach_step,
    (RecordKind.INTENT, LineSubject.FENCE): _add_fence,
    (RecordKind.CHECK, LineSubject.CREATE): lambda record, line: replace(
        record, topic_ids={**record.topic_ids, **read_data(line.data["topic_ids"], dict[str, str])}
    ),
    (RecordKind.CHECK, LineSubject.UNFENCE): lambda record, line: replace(
        record, fences=tuple(each for each in record.fences if each.segment != line.data["segment"])
    ),
    (RecordKind.CHECK, LineSubject.QUIET): lambda record, line: replace(
        record, basis=str(line.data["basis"]), window_s=float(line.data["window_s"])
    ),
    (RecordKind.CHECK, LineSubject.LATE): lambda record, _: replace(record, late=record.late + 1, certificate=""),
    (RecordKind.CHECK, LineSubject.LOST): lambda record, line: replace(
        record, lost=merged_losses(record.lost, read_data(line.data["lost"], tuple[LostRange, ...]))
    ),
    (RecordKind.CHECK, LineSubject.CERTIFIED): lambda record, line: replace(
        record, certificate=str(line.data["sha256"]), certified_epoch=int(line.data["epoch"])
    ),
    (RecordKind.INTENT, LineSubject.ABORT): lambda record, _: replace(record, is_aborting=True),
    (RecordKind.CHECK, LineSubject.LETTERS): lambda record, line: replace(
        record, copies={**record.copies, (found := read_data(line.data, OldCopies)).segment: found}
    ),
    (RecordKind.INTENT, LineSubject.ROUTE): lambda record, line: replace(record, left=tuple(line.data.get("left", ()))),
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


def step_by_route(operation: Failover, route: Route) -> Step | None:
    """Where an operation stands by its route alone; None where the route is of another operation, or of none.

    A route that fits no state of the operation is refused with `UsageError`: then another tool changed it.
    """
    if route.operation is None or route.operation.id != operation.id:
        return None
    lanes = [lane for lane in route.lanes if operation.move_of(lane.name) is not None]
    targets = [operation.target_in(lane) for lane in lanes]
    states = {None if target is None else target.state for target in targets}
    if len(lanes) == len(operation.moves) and len(states) == 1:
        old = [segment for _, segment in operation.old_segments(route)]
        if states == {None}:
            return Step.PLANNED
        if states == {SegmentState.OPENED}:
            return Step.OPENED
        if states == {SegmentState.ACTIVE} and old:
            if all(segment.seal for segment in old):
                return Step.SEALED
            is_stranded = any(segment.state is SegmentState.STRANDED for segment in old)
            return Step.STRANDED if is_stranded else Step.ROUTED
    raise UsageError(
        f"the route of stream {route.stream} is in no state of operation {operation.id}",
        hint="nothing is done until the route is put right; its changes: "
        f"{shell_command('streams history', route.stream)}",
    )


class RouteEdit(StrEnum):
    """The changes of the route that an operation makes, each a single compare-and-set."""

    OPEN = "open"
    ROUTE = "route"
    STRAND = "strand"
    SEAL = "seal"
    UNSEAL = "unseal"
    RETIRE = "retire"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopics:
    """Create the target's topics of these lanes, and wait until they can be seen."""

    moves: tuple[LaneMove, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedGroups:
    """Commit the start of the target's logs for groups that have no offset there, so that no record is skipped."""

    offsets: Mapping[str, Mapping[TopicPartition, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRoute:
    """Change the route, if it is still the one that was looked at; `unready` are groups that had not acknowledged.

    A retirement leaves the segments in `left` in the route for their dead letters.
    """

    edit: RouteEdit
    unready: tuple[str, ...] = ()
    left: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseFence:
    """Put a fence on the topic of a segment."""

    segment: Segment
    kind: FenceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerFence:
    """Take the fence off the topic of a segment: it holds up `transactions`; without any, it is not needed any more."""

    segment: Segment
    transactions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLate:
    """Void the seal: these partitions (segment id, partition, offsets) grew after it."""

    grown: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyLetters:
    """Copy the dead letters of these segments up to their seals, and with `references` what references lead to."""

    segments: tuple[Segment, ...]
    references: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Certify:
    """Write the certificate: nothing is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Look again later; `reason` is for programs, `lines` for people. `seconds` is left where that is known."""

    reason: str
    lines: tuple[str, ...]
    seconds: float | None = None
    records: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Stop: the state is one that only an operator can judge."""

    reason: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedOperation:
    """There is nothing more to do up to the step that was asked for."""

    step: Step


Action: TypeAlias = (
    CreateTopics
    | SeedGroups
    | ChangeRoute
    | RaiseFence
    | LowerFence
    | CopyLetters
    | ReportLate
    | Certify
    | Wait
    | Refuse
    | FinishedOperation
)
