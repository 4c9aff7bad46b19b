"""What a replanning found, and the steps that its two ways share."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kafkakit.topicmappr.certificate import Certificate
from kafkakit.topicmappr.replan.situation import Row
from kafkakit.topicmappr.storage.families import Family
from kafkakit.topicmappr.storage.fleet import Fleet
from kafkakit.topicmappr.storage.reach import Attempt
from kafkakit.topicmappr.storage.relaxation import masses_of
from kafkakit.topicmappr.storage.search import at_tightness

Bools = Any  # numpy array of bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """Lists in the order of the rows; `holds` says that the plan as it stood keeps the goal.

    `reasons` tell why partitions find no place, `left_alone` counts these. `leads_to` says in words where the plan as
    it stood would have led.
    """

    lists: tuple[tuple[int, ...], ...]
    holds: bool
    certificate: Certificate
    reasons: tuple[str, ...] = ()
    left_alone: int = 0
    notes: tuple[str, ...] = ()
    leads_to: str = ""


def repaired(fleet: Fleet, family: Family, tightness: int, cheap: Bools) -> Attempt | None:
    """Bring a fleet inside its window: by `cheap` slots alone if that is enough, else by any; None if neither is."""
    for candidate in (replace(fleet, movable=fleet.movable & cheap), fleet):
        if not candidate.movable.any():
            continue
        found = at_tightness(candidate, masses_of(candidate), family, tightness)
        if found.window.possible and not found.outside:
            return found
    return None


def copies_under_way(rows: Sequence[Row], unit: str) -> int:
    """What the plan's moves that run now copy, in bytes or replicas: they go on whatever is planned."""
    return sum(
        len(set(row.start) - set(row.live)) * ((row.size or 0) if unit == "bytes" else 1)
        for row in rows
        if row.under_way and not row.foreign
    )
