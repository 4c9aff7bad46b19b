"""One failover of a stream as values: what was asked, what was planned, and where it stands."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kafkakit.streams.model.route import Lane, Route, Segment, lane_client_id

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


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverRequest:
    """What an operator asks for; `to` is the target's profile, empty `lanes` are all lanes.

    `groups` are required beside those that are found, `ignored` are not. `quiet_s` None takes the rule's window.
    `is_open_by_default` states `allow.everyone.if.no.acl.found` of the old clusters, which brokers do not tell.
    With `partitions` the lanes stay on their cluster and get topics of so many partitions. The limits may be changed
    while the operation runs, its shape may not (`differences`).
    """

    stream: str
    to: str
    lanes: tuple[str, ...] = ()
    is_emergency: bool = False
    fence: FenceChoice = FenceChoice.AUTO
    groups: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    quiet_s: float | None = None
    accept_loss: int = 0
    max_duplicates: int | None = None
    replication: int | None = None
    is_open_by_default: bool | None = None
    allow_compacted: bool = False
    allow_transactions: bool = False
    kind: OperationKind = OperationKind.FAILOVER
    partitions: int | None = None
    order: ReadOrder = ReadOrder.RELAXED

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
class Operation:
    """One failover as it was planned. `groups` must have read the old segments before they are retired.

    `approval` is what approved the plan, in words (`--approve-with`).
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

    def client_id_of(self, segment_id: int) -> str:
        """The client id of the producers of an old segment's lane."""
        lane = next(move.lane for move in self.moves if segment_id in move.sources)
        return lane_client_id(self.stream, lane)

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
