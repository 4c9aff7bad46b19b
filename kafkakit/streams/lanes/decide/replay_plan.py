"""Where a record of the DLQ lane is written again."""

from dataclasses import dataclass

from kafkakit.core.errors import RefusedError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.lanes.decide.dead_letters import DeadLetter
from kafkakit.streams.model.route import DLQ, Route, Segment

MOST_AT_ONCE = 500
"""Records of a batch: as many may be written twice after an interruption."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTarget:
    """A segment that takes writes, and a partition of it."""

    segment: Segment
    place: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayBudget:
    """At most `rate` records a second, and `limit` in all (None: every record)."""

    rate: float
    limit: int | None = None

    @property
    def batch(self) -> int:
        """Records of a batch: at most those of a second."""
        return max(1, min(MOST_AT_ONCE, int(self.rate)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutcome:
    """What a replay found and did.

    `matching` records had not been replayed; `replayed` of them were written, or with `is_plan` would be. `uncertain`
    were marked as in flight by a replay that was interrupted: they may have been written before. `stayed` counts those
    without a target, by reason.
    """

    matching: int
    replayed: int
    uncertain: int
    stayed: dict[str, int]
    is_plan: bool = False


def target_of(letter: DeadLetter, route: Route, to: str | None) -> ReplayTarget | str:
    """The active segment of the record's original lane, or of lane `to`; the reason in words where there is none.

    The partition is the original one in its own segment, else that number modulo the segment's partitions: records of
    a key stay together, and with an equal number of partitions they go where new records of the key go.
    """
    origin = letter.provenance.origin if letter.provenance else None
    name = to if to is not None else origin.lane if origin else None
    if name is None:
        return "without readable provenance: name a lane with --to"
    if name == DLQ:
        return "rejected in the DLQ lane itself: name a lane with --to"
    lane = route.lane(name)
    if lane is None:
        return f"lane {name} is not in the route: name a lane with --to"
    if lane.active is None:
        return f"lane {name} has no active segment"
    number = (origin.partition if origin else letter.place.partition) % lane.active.partitions
    return ReplayTarget(segment=lane.active, place=TopicPartition(lane.active.topic, number))


def require_target(route: Route, to: str | None) -> None:
    """Raise `RefusedError` for a lane that cannot be replayed to."""
    if to is None:
        return
    lane = route.lane(to)
    if to == DLQ or lane is None or lane.active is None:
        raise RefusedError(f"stream {route.stream}: nothing can be replayed to lane {to[:40]!r}")
