"""Why a goal cannot be reached, in numbers that a person can check, and what is the nearest that can."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kafkakit.core.quantities import format_bytes
from kafkakit.placement.bytes.lp_relaxation import PENALTY, DemandGroups
from kafkakit.placement.bytes.slots import SlotTable
from kafkakit.placement.bytes.window import Window

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Bools, Ints


def why_not(
    table: SlotTable,
    demand: DemandGroups,
    window: Window,
    racks: Mapping[int, str | None],
    shown: Callable[[int], str] = format_bytes,
) -> str:
    """The set of brokers whose limits cannot all be kept, and by how much they fail, loads in words as `shown`.

    `racks` by broker id. The penal prices of the LP relaxation point at them (a set as in Hall's theorem): too much
    load that cannot leave, or too little that can come.
    """
    full = _set(window.prices >= PENALTY // 2)
    empty = _set(window.prices <= -(PENALTY // 2))
    outside = shown(window.bound.outside)
    ends = window.bound.ends
    lines = []
    if full:
        limit, load = _sum(window.ceiling, full), _sum(ends, full)
        if load > limit:
            lines.append(
                f"{_named(table, full, racks)} may hold {shown(limit)} together, and "
                f"{shown(load)} cannot be put elsewhere"
            )
    if empty:
        limit, load = _sum(window.floor, empty), _sum(ends, empty)
        if load < limit:
            lines.append(
                f"{_named(table, empty, racks)} should hold {shown(limit)} together, and "
                f"no more than {shown(load)} can come to them"
            )
    immovable = [i for i in range(len(table.brokers)) if demand.loose[i] > window.ceiling[i]]
    if immovable and not lines:
        lines.append(
            f"{_named(table, immovable, racks)}: what may not move there is "
            f"{shown(int((demand.loose - window.ceiling)[immovable].sum()))} above the limit already"
        )
    return "; ".join(lines) or f"{outside} stay outside the limits wherever partitions go"


def more_brokers(table: SlotTable, window: Window, racks: Mapping[int, str | None], share: Ints) -> str | None:
    """How many more brokers in the racks that must hold too much would bring the band within reach, in words.

    With k more of them every share falls, and the racks have k more ceilings: the least k is where their
    load fits under those. None where no such number helps, where limits are not a band around equal shares, or
    where the brokers that are too full are not whole racks.
    """
    full = _set(window.prices >= PENALTY // 2)
    if not full or not _whole_racks(table, full):
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
    names = ", ".join(sorted({racks.get(table.brokers[i]) or "none" for i in full}))
    return f"{k} more broker{'s' if k > 1 else ''} like these in rack {names}"


def _whole_racks(table: SlotTable, chosen: list[int]) -> bool:
    inside = set(chosen)
    racks = {int(table.rack[i]) for i in chosen}
    return all(r < table.racks for r in racks) and not any(
        int(r) in racks and i not in inside for i, r in enumerate(table.rack)
    )


def _sum(values: Ints, chosen: list[int]) -> int:
    return int(values[chosen].sum())


def _set(mask: Bools) -> list[int]:
    return [i for i, inside in enumerate(mask.tolist()) if inside]


def _named(table: SlotTable, chosen: list[int], racks: Mapping[int, str | None]) -> str:
    """Whole racks by name, else brokers by id."""
    if _whole_racks(table, chosen):
        names = {int(table.rack[i]): racks.get(table.brokers[i]) or "none" for i in chosen}
        named = ", ".join(names[r] for r in sorted(names))
        return f"the {len(chosen)} brokers of rack{'s' if len(names) > 1 else ''} {named}"
    ids = [str(table.brokers[i]) for i in chosen]
    more = f" and {len(ids) - 6} more" if len(ids) > 6 else ""
    return f"broker{'s' if len(ids) > 1 else ''} {', '.join(ids[:6])}{more}"
