"""What a run can do next, as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from kafkakit.core.model import TopicPartition
from kafkakit.streams.failover.decide.operation import FenceKind, LaneMove, Step
from kafkakit.streams.model.route import Segment


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
    """Change the route, if it is still the one that was looked at; `unready` are groups that had not acknowledged."""

    edit: RouteEdit
    unready: tuple[str, ...] = ()


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
class Finished:
    """There is nothing more to do up to the step that was asked for."""

    step: Step


Action: TypeAlias = (
    CreateTopics | SeedGroups | ChangeRoute | RaiseFence | LowerFence | ReportLate | Certify | Wait | Refuse | Finished
)
