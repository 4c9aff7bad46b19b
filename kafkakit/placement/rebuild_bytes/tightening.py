"""The smallest range of free bytes: the LP relaxation says where to look, real plans follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkakit.placement.bytes.attempt import attempt
from kafkakit.placement.bytes.even_counts import positions
from kafkakit.placement.bytes.layout import lists_of
from kafkakit.placement.bytes.pools import Pools
from kafkakit.placement.bytes.receiving import Receivers
from kafkakit.placement.bytes.search_state import SearchState
from kafkakit.placement.bytes.tightening import CLOSE, relaxed_deviations, tighten
from kafkakit.placement.rebuild_bytes.arrays import Arrays, arrays_of, without_repeats
from kafkakit.placement.rebuild_bytes.narrowing import RangeNarrowing
from kafkakit.placement.rebuild_bytes.task import Row, Task
from kafkakit.placement.watch import Watch

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Bools


_NEAR = 24  # brokers, and copies on each, that are asked to make way


def open_slots(state: SearchState, placeholders: Bools) -> list[int]:
    """The slots that still lie on a placeholder, smallest first."""
    import numpy as np

    table = state.table
    slots = np.nonzero(placeholders[table.home])[0].tolist()
    return sorted((s for s in slots if s not in state.moved), key=lambda s: (state.size(s), s))


def finish(state: SearchState, slots: Sequence[int]) -> list[int]:
    """Place what is left, in this order, each on the emptiest broker; returns the slots that fit nowhere."""
    receivers = Receivers(state)
    left = []
    for slot in slots:
        dest = receivers.emptiest(slot, ())
        if dest is not None:
            state.move(slot, dest)
        elif not _make_way(state, slot):
            left.append(slot)
    return left


def _make_way(state: SearchState, slot: int) -> bool:
    """Move one arrived copy on, so that the slot fits where that was."""
    brokers, racks = state.legal(slot)
    rack = state.table.pool.tolist()
    takes = state.table.receiver.tolist()
    legal = [b for b, r in enumerate(rack) if takes[b] and r in racks and b not in brokers]
    size = state.size(slot)
    for dest in sorted(legal, key=lambda b: (state.load[b] - state.ceiling[b], b))[:_NEAR]:
        lack = state.load[dest] + size - state.ceiling[dest]
        for other in sorted(state.arrived[dest], key=lambda s: (state.size(s), s)):
            if state.size(other) >= lack:
                for to in _roomy(state, other, takes):
                    state.move(other, to)
                    state.move(slot, dest)
                    return True
    return False


def _roomy(state: SearchState, slot: int, takes: Sequence[bool]) -> Iterator[int]:
    """The first of the roomiest brokers that may take the slot."""
    size, here = state.size(slot), state.broker(slot)
    able = [b for b, may in enumerate(takes) if may and b != here and state.can_take(b, size)]
    for b in sorted(able, key=lambda b: (state.load[b] - state.ceiling[b], b))[:_NEAR]:
        if state.fits(slot, b):
            yield b
            return


_TRIES = 7  # real plans built while searching
_MANY = 20_000  # partitions x brokers from which a window need not be the tightest
_STEP = 16  # how much looser a plan is sought after one that failed
_LEVEL = 1024  # loads are narrowed until they lie within this part of the window
_ROUNDS = 4  # how often limits are drawn in where new copies are counted larger than they are


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Replica lists (shorter where a copy found no broker), their range of free bytes, and the arrays behind, if any.

    `cost` are the bytes copied, `squares` the sum of squares of free bytes, which tells apart equal ranges.
    No placement has a range below `range_bound`; None where space is so short that nothing was proven.
    """

    lists: tuple[Row, ...]
    unplaced: int
    range: int
    cost: int
    squares: int
    arrays: Arrays | None
    range_bound: int | None

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """What is better is smaller."""
        return self.unplaced, self.range, self.cost, self.squares


def search(task: Task, watch: Watch) -> Found:
    """The best placement found. Cost: a few plans of `attempt`, 2 s each for 600,000 replicas."""
    if not task.receivers or not (task.forced or task.openings):
        return _as_it_stands(task)
    rows = without_repeats(task)
    taken: dict[int, int] = {}
    best: Found | None = None
    for _ in range(_ROUNDS):
        arrays = arrays_of(task, rows, taken)
        found = _search(task, arrays, watch)
        over = {} if arrays.exact else _overfull(task, found.lists)
        if not over:
            best = found if best is None or found.rank < best.rank else best
            break
        for b, load in over.items():
            taken[b] = taken.get(b, 0) + load
    # Where new copies count more than what leaves, moving nothing but what must move is always sound.
    if best is None:
        return _search(task, arrays_of(replace(task, forced=False), rows, {}), watch)
    return best


def _as_it_stands(task: Task) -> Found:
    """Nothing can be placed, or nothing has to be."""
    lists = tuple(tuple(b for b in row if b >= 0) for row in task.rows)
    trimmed = any(len(p.current) > p.wanted for p in task.problem.partitions)
    spread = task.range_after(lists)
    return Found(
        lists=lists,
        unplaced=task.openings,
        range=spread,
        cost=0,
        squares=0,
        arrays=None,
        range_bound=None if trimmed else spread,
    )


def _overfull(task: Task, lists: Sequence[Row]) -> dict[int, int]:
    """By how much brokers that get copies end above what they can take."""
    after = task.free_after(lists)
    got = {b for kept, new in zip(task.kept, lists, strict=True) if kept != new for b in new if b not in kept}
    short = {b: task.free[b] - after[b] - task.room[b] for b in got}
    return {b: load for b, load in sorted(short.items()) if load > 0}


def _search(task: Task, arrays: Arrays, watch: Watch) -> Found:
    problem = arrays.problem
    watch.phase("how even free bytes can be")
    widest = int(arrays.table.fixed.sum() + arrays.table.slot_size.sum())
    if not problem.window(widest).possible:
        return min((_packed(task, arrays, reverse) for reverse in (False, True)), key=lambda found: found.rank)
    low, least = relaxed_deviations(problem, widest, None, everywhere=True)
    bound = least if arrays.exact and arrays.whole else None
    # Narrowing continues inside a window, so that in many partitions one of a thousandth of the free bytes is enough.
    free = task.free.values()
    fine = sum(free) // max(1, len(free)) // 1000 if len(task.rows) * len(free) > _MANY else 0
    aim = max(low, fine)
    best: Found | None = None
    improves = True

    def trial(width: int) -> tuple[bool, int]:
        nonlocal best, improves
        found = _attempt(task, arrays, width, bound)
        improves = best is None or found.rank < best.rank
        best = found if best is None or improves else best
        return found.range <= width and not found.unplaced, best.range

    def close(high: int) -> int:
        return high if fine and not improves else max(fine, high // CLOSE)

    tighten(trial, low, aim, aim + widest + 1, watch, steps=(_STEP,) * _TRIES, close=close)
    if best is None:
        raise RuntimeError("no width was tried")
    if task.forced and not best.unplaced and not fine:
        # The range is as good as it gets; now the fewest bytes that reach it.
        again = _attempt(task, arrays, best.range, bound)
        best = min(best, again, key=lambda found: found.rank)
    return best


def _attempt(task: Task, arrays: Arrays, width: int, bound: int | None) -> Found:
    """A plan for this window, made whole within the hard limits."""
    table, limits = arrays.table, arrays.limits
    tried = attempt(table, arrays.problem.demand, arrays.problem.window(width))
    state = SearchState(table, limits.floor.tolist(), limits.ceiling.tolist())
    moved = (tried.at != table.home).nonzero()[0]
    for slot, dest in zip(moved.tolist(), tried.at[moved].tolist(), strict=True):
        state.move(slot, dest)
    finish(state, open_slots(state, arrays.placeholders))
    RangeNarrowing(Pools(state), arrays.limits.even.tolist(), width // _LEVEL).run()
    return _found(task, arrays, state, bound)


def _packed(task: Task, arrays: Arrays, largest_first: bool) -> Found:
    """Space is short: as many copies as fit, moving nothing else."""
    limits = arrays.limits
    state = SearchState(arrays.table, limits.floor.tolist(), limits.ceiling.tolist())
    slots = open_slots(state, arrays.placeholders)
    finish(state, slots[::-1] if largest_first else slots)
    return _found(task, arrays, state, None)


def _found(task: Task, arrays: Arrays, state: SearchState, bound: int | None) -> Found:
    lists = tuple(tuple(b for b in row if b >= 0) for row in lists_of(arrays.table, positions(state)))
    cost = sum(
        size * sum(1 for b in new if b not in kept)
        for size, kept, new in zip(task.size, task.kept, lists, strict=True)
        if kept != new
    )
    free = task.free_after(lists).values()
    return Found(
        lists=lists,
        unplaced=sum(map(len, task.rows)) - sum(map(len, lists)),
        range=max(free) - min(free) if free else 0,
        cost=cost,
        squares=sum(f * f for f in free),
        arrays=arrays,
        range_bound=bound,
    )
