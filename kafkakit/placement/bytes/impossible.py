"""Why a goal cannot be reached, in numbers that a person can check, and what is the nearest that can."""

from typing import Any

from kafkakit.core.quantities import format_bytes
from kafkakit.placement.bytes.lp_relaxation import PENALTY, Masses
from kafkakit.placement.bytes.slots import Fleet
from kafkakit.placement.bytes.window import Window


def why_not(fleet: Fleet, masses: Masses, window: Window, rack_names: dict[int, str]) -> str:
    """The set of brokers whose limits cannot all be kept, and by how much they fail.

    The penal prices of the split plan point at them (a set as in Hall's theorem): too much load that cannot
    leave, or too little that can come.
    """
    full = _set(window.prices >= PENALTY // 2)
    empty = _set(window.prices <= -(PENALTY // 2))
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


def more_brokers(fleet: Fleet, window: Window, rack_names: dict[int, str], share: Any) -> str | None:
    """How many more brokers in the racks that must hold too much would bring the band within reach, in words.

    With k more of them everybody's share falls, and the racks have k more ceilings: the least k is where their
    load fits under those. None where no such number helps, where limits are not a band around equal shares, or
    where the brokers that are too full are not whole racks.
    """
    full = _set(window.prices >= PENALTY // 2)
    if not full or not _whole_racks(fleet, full):
        return None
    one, high = int(share[full[0]]), int(window.ceiling[full[0]])
    everywhere = int((share > 0).sum())
    if not one or (abs(share[share > 0] - one) > 1).any() or (window.ceiling[full] != high).any() or high <= one:
        return None
    held, total = _sum(window.bound.ends, full), int(share.sum())
    # held <= (len(full) + k) * (high / one) * total / (everywhere + k), solved for k
    gain, lack = high * total - held * one, held * one * everywhere - len(full) * high * total
    if gain <= 0 or lack <= 0:
        return None
    k = -(-lack // gain)
    racks = ", ".join(sorted({rack_names.get(int(fleet.rack[i]), "none") for i in full}))
    return f"{k} more broker{'s' if k > 1 else ''} like these in rack {racks}"


def _whole_racks(fleet: Fleet, chosen: list[int]) -> bool:
    inside = set(chosen)
    racks = {int(fleet.rack[i]) for i in chosen}
    return all(r < fleet.racks for r in racks) and not any(
        int(r) in racks and i not in inside for i, r in enumerate(fleet.rack)
    )


def _sum(values: Any, chosen: list[int]) -> int:
    return int(values[chosen].sum())


def _set(mask: Any) -> list[int]:
    return [i for i, inside in enumerate(mask.tolist()) if inside]


def _named(fleet: Fleet, chosen: list[int], rack_names: dict[int, str]) -> str:
    """Whole racks by name, else brokers by id."""
    if _whole_racks(fleet, chosen):
        racks = sorted({int(fleet.rack[i]) for i in chosen})
        names = ", ".join(rack_names.get(r, "none") for r in racks)
        return f"the {len(chosen)} brokers of rack{'s' if len(racks) > 1 else ''} {names}"
    ids = [str(fleet.brokers[i]) for i in chosen]
    more = f" and {len(ids) - 6} more" if len(ids) > 6 else ""
    return f"broker{'s' if len(ids) > 1 else ''} {', '.join(ids[:6])}{more}"
