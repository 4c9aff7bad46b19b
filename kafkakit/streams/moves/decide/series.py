"""A series of moves of streams as values: what is planned, at which pace, and how each move ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256

import msgspec

from kafkakit.streams.failover.api import EndKind, FailoverRequest

HOUR_MS = 3_600_000
MOST_MOVES = 100_000


class SeriesKind(StrEnum):
    """Why streams are moved."""

    EVACUATE = "evacuate"
    BALANCE = "balance"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMove:
    """One stream, its lanes (none: all), the profile that it goes to, and its load in the unit of the plan."""

    stream: str
    to: str
    lanes: tuple[str, ...] = ()
    load: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterShare:
    """A cluster of a plan: its stated capacity, and the load before and after, in the unit of the plan."""

    profile: str
    capacity: int
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadFigures:
    """How good a plan is: the largest use of a capacity in millionths, what no plan is below, and whether that is known
    to be reached. `unit` is what loads are measured in."""

    unit: str
    largest_ppm: int
    bound_ppm: int
    is_proven: bool
    clusters: tuple[ClusterShare, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Moves of streams that were planned together, to clusters of the profiles `targets`.

    `subject` is the profile of the cluster that is emptied, and `cluster_id` its id; both are empty in a balance.

    `template` is the request of each move but for its stream, lanes and target. `earlier_ms` are begins of the series
    before within its last hour, which count for the pace.
    """

    kind: SeriesKind
    subject: str
    cluster_id: str
    targets: tuple[str, ...]
    moves: tuple[PlannedMove, ...]
    template: FailoverRequest
    operator: str
    started_ms: int
    approval: str = ""
    figures: SpreadFigures | None = None
    skipped: Mapping[str, str] = field(default_factory=dict)
    earlier_ms: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        """What there is one series of at a time."""
        return series_key(self.kind, self.cluster_id)

    @property
    def sha256(self) -> str:
        """What an approval is about: the moves and their limits, not when they were planned."""
        essence = replace(self, operator="", started_ms=0, approval="", figures=None, skipped={}, earlier_ms=())
        plain = replace(essence, moves=tuple(replace(move, load=0) for move in self.moves))
        return sha256(msgspec.json.encode(plain, order="deterministic")).hexdigest()

    def request_of(self, move: PlannedMove) -> FailoverRequest:
        """The request of one move."""
        return replace(self.template, stream=move.stream, to=move.to, lanes=move.lanes)


def series_key(kind: SeriesKind, cluster_id: str = "") -> str:
    """What there is one series of at a time: the emptying of a cluster, or a balance."""
    return f"{kind}-{cluster_id}" if cluster_id else str(kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveEnd:
    """How a move ended in one process; one that is `waiting` is open and is taken up again by the next one."""

    kind: EndKind
    reason: str = ""
    lines: tuple[str, ...] = ()
    operation: str = ""
    at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """At most `at_once` streams between the begin of their operation and its end, and `per_hour` begins in any hour."""

    at_once: int
    per_hour: int | None = None

    def wait_ms(self, begins_ms: Sequence[int], now_ms: int) -> int:
        """How long the next begin has to wait; 0: not at all. Begins that lie ahead of this clock count, too."""
        recent = sorted(at_ms for at_ms in begins_ms if at_ms > now_ms - HOUR_MS)
        if self.per_hour is None or len(recent) < self.per_hour:
            return 0
        return recent[-self.per_hour] + HOUR_MS - now_ms


def most_in_an_hour(begins_ms: Sequence[int]) -> int:
    """The largest number of begins within any hour."""
    ordered, most, first = sorted(begins_ms), 0, 0
    for number, at_ms in enumerate(ordered):
        while ordered[first] <= at_ms - HOUR_MS:
            first += 1
        most = max(most, number - first + 1)
    return most
