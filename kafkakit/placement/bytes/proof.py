"""The bounds of a byte balance, of bytes and of moves, in words and as a proof that a program can add up again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kafkakit.core.certificate import BrokerLimit, Proof, ProofKind
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.placement.bytes.lp_relaxation import DemandGroups
from kafkakit.placement.bytes.slots import SlotTable, summed
from kafkakit.placement.bytes.window import Window

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Bools, Ints


def moves_bound(table: SlotTable, window: Window) -> int:
    """The larger of what must leave overfull brokers and what must come to underfull ones, in slots.

    A broker that is x above its ceiling gives at least as many of its largest movable slots as add up to x. For
    a window that slides, the bound holds for every place of it: giving falls and getting rises with the place, and
    hard limits stay where they are.
    O(replicas log replicas).
    """
    import numpy as np

    loads = table.loads(table.home)
    slots = np.nonzero(table.movable)[0]
    size, home = table.slot_size[slots], table.home[slots]
    order = np.lexsort((-size, home))
    size, home = size[order], home[order]
    starts = np.searchsorted(home, np.arange(len(loads) + 1))
    largest = -np.sort(-size)
    reach = np.concatenate([[0], np.cumsum(largest)])

    def fewest(excess: int, broker: int) -> int:
        mine = np.cumsum(size[starts[broker] : starts[broker + 1]])
        return int(np.searchsorted(mine, excess)) + 1

    def giving(ceiling: Ints) -> int:
        over = np.nonzero(loads > ceiling)[0]
        return sum(fewest(loads[b] - ceiling[b], int(b)) for b in over)

    def getting(floor: Ints) -> int:
        under = np.nonzero(loads < floor)[0]
        return sum(int(np.searchsorted(reach, floor[b] - loads[b])) for b in under)

    place = window.place
    if place is None:
        return max(giving(window.ceiling), getting(window.floor))

    def both(low: int) -> tuple[int, int]:
        floor, ceiling = place.limits.at(low, place.width)
        return giving(ceiling), getting(floor)

    high = int(loads.max()) + place.width + 1
    low = -high
    while low < high:
        middle = (low + high) // 2
        gives, gets = both(middle)
        if gives > gets:
            low = middle + 1
        else:
            high = middle
    return min(max(both(low)), max(both(low - 1)))


_NAMED = 6


def proof_of(table: SlotTable, demand: DemandGroups, window: Window, *, kind: ProofKind = ProofKind.PRICES) -> Proof:
    """Limits and prices of every broker; loads are bytes.

    Copies that may not leave, of partitions that may move otherwise, are part of those partitions' sets.
    """
    bound = ~table.movable & ~table.still[table.part]
    fixed_loads = demand.loose - summed(table.home[bound], table.slot_size[bound], len(table.brokers))
    rows = zip(
        table.brokers,
        fixed_loads.tolist(),
        window.floor.tolist(),
        window.ceiling.tolist(),
        window.prices.tolist(),
        window.slides.tolist(),
        strict=True,
    )
    return Proof(
        kind=kind,
        load="bytes",
        price_unit=window.price_unit,
        slides=bool(window.slides.any()),
        limits=tuple(
            BrokerLimit(broker=b, fixed=fixed, floor=low, ceiling=high, price=price, slides=slides)
            for b, fixed, low, high, price, slides in rows
        ),
    )


def cancels(proof: Proof) -> bool:
    """True when the prices of limits that slide sum to zero, without which a sliding proof proves nothing."""
    return not proof.slides or not sum(limit.price for limit in proof.limits if limit.slides)


def argument_of(table: SlotTable, window: Window) -> str:
    """Why nothing cheaper exists: who holds how much too much, and who lacks how much."""
    loads = table.loads(table.home)
    over = _side(table, window.prices > 0, loads - window.ceiling)
    under = _side(table, window.prices < 0, window.floor - loads)
    parts = []
    if over:
        parts.append(f"{over[0]} {over[1]} {format_bytes(over[2])} above the {_limit(window)}")
    if under:
        there = "it" if over else f"the {_limit(window)}"
        parts.append(f"{under[0]} {_lack(under[1])} {format_bytes(under[2])} to reach {there}")
    if not parts:
        return "every broker is inside its limits already, so nothing has to move"
    joined = "; ".join(parts)
    tail = ", whatever the window's place" if window.slides.any() and window.price_unit > 1 else ""
    tags = "" if table.tags is None else ", or go to brokers that tags close to them"
    racks = f", and copies cannot leave their racks freely{tags}" if _racks_matter(table, window, over, under) else ""
    apart = not_counted(table.tags.spread_texts if table.tags is not None else ())
    return f"{joined}{racks}: at least {format_bytes(window.bound.value)} must be copied{tail}{apart}"


def not_counted(constraints: Sequence[str]) -> str:
    """What to add to an argument that does not look at these constraints."""
    return f"; the bound does not count {', '.join(constraints)}" if constraints else ""


def _limit(window: Window) -> str:
    return "window" if window.slides.any() else "band"


def _lack(verb: str) -> str:
    return "lacks" if verb == "holds" else "lack"


def _side(table: SlotTable, chosen: Bools, amounts: Ints) -> tuple[str, str, int] | None:
    """The brokers chosen by their price that are really outside, as text, with verb and load outside."""
    ids = [b for b, there, amount in zip(table.brokers, chosen, amounts, strict=True) if there and amount > 0]
    if not ids:
        return None
    load = int(amounts[chosen & (amounts > 0)].sum())
    return _brokers(ids), "holds" if len(ids) == 1 else "hold", load


def _brokers(ids: Iterable[int]) -> str:
    every = list(ids)
    if len(every) == 1:
        return f"broker {every[0]}"
    shown = ", ".join(map(str, every[:_NAMED]))
    more = f" and {counted(len(every) - _NAMED, 'more')}" if len(every) > _NAMED else ""
    return f"brokers {shown}{more.replace(' mores', ' more')}"


def _racks_matter(
    table: SlotTable, window: Window, over: tuple[str, str, int] | None, under: tuple[str, str, int] | None
) -> bool:
    """True when the bound is above what excess and lack alone would give."""
    return window.bound.value > max(over[2] if over else 0, under[2] if under else 0)
