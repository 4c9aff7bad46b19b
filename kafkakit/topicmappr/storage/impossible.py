"""Why a goal cannot be reached, in numbers that a person can check, and what is the nearest that can."""

from typing import Any

from kafkakit.quantities import format_bytes
from kafkakit.topicmappr.storage.fleet import Fleet
from kafkakit.topicmappr.storage.relaxation import PENALTY, Masses
from kafkakit.topicmappr.storage.window import Window


def why_not(fleet: Fleet, masses: Masses, window: Window, rack_names: dict[int, str]) -> str:
    """The set of brokers whose limits cannot all be kept, and by how much they fail.

    The penal prices of the split plan point at them (a set as in Hall's theorem): too much load that cannot
    leave, or too little that can come.
    """
    full = _set(fleet, window.prices >= PENALTY // 2)
    empty = _set(fleet, window.prices <= -(PENALTY // 2))
    outside = format_bytes(window.bound.outside)
    ends = window.bound.ends
    lines = []
    if full:
        limit, load = _sum(window.ceiling, full), _sum(ends, full)
        if load > limit:
            lines.append(
                f"{_named(fleet, full, rack_names)} may hold {format_bytes(limit)} together, and "
                f"{format_bytes(load)} cannot be put elsewhere"
            )
    if empty:
        limit, load = _sum(window.floor, empty), _sum(ends, empty)
        if load < limit:
            lines.append(
                f"{_named(fleet, empty, rack_names)} should hold {format_bytes(limit)} together, and "
                f"no more than {format_bytes(load)} can come to them"
            )
    stuck = [i for i in range(len(fleet.brokers)) if masses.loose[i] > window.ceiling[i]]
    if stuck and not lines:
        lines.append(
            f"{_named(fleet, stuck, rack_names)}: what may not move there is "
            f"{format_bytes(int((masses.loose - window.ceiling)[stuck].sum()))} above the limit already"
        )
    return "; ".join(lines) or f"{outside} stay outside the limits wherever partitions go"


def _sum(values: Any, chosen: list[int]) -> int:
    return int(values[chosen].sum())


def _set(fleet: Fleet, mask: Any) -> list[int]:
    return [i for i, inside in enumerate(mask.tolist()) if inside]


def _named(fleet: Fleet, chosen: list[int], rack_names: dict[int, str]) -> str:
    """Whole racks by name, else brokers by id."""
    racks = sorted({int(fleet.rack[i]) for i in chosen})
    inside = set(chosen)
    left_out = {int(r) for i, r in enumerate(fleet.rack) if i not in inside}
    whole = [r for r in racks if r < fleet.racks and r not in left_out]
    if len(whole) == len(racks):
        names = ", ".join(rack_names.get(r, "none") for r in racks)
        return f"the {len(chosen)} brokers of rack{'s' if len(racks) > 1 else ''} {names}"
    ids = [str(fleet.brokers[i]) for i in chosen]
    more = f" and {len(ids) - 6} more" if len(ids) > 6 else ""
    return f"broker{'s' if len(ids) > 1 else ''} {', '.join(ids[:6])}{more}"
