"""The smallest range of free bytes: the LP relaxation says where to look, real plans follow; small clusters exactly.

A window is met as soon as all loads are inside; narrowing continues from there and brings the fullest and the emptiest
broker together: copies that move anyway go elsewhere or change places, and if it must, one more copy leaves its home,
of a size that closes the gap.

Small clusters are solved exactly: most copies placed, then the smallest range of free bytes, then fewest bytes. At
last, and without proof, brokers inside the range are brought close to the mean.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkakit.placement.by_size.attempt import attempt
from kafkakit.placement.by_size.exact import ExactModel
from kafkakit.placement.by_size.layout import lists_of
from kafkakit.placement.by_size.local_steps import Step
from kafkakit.placement.by_size.slots import Entry, Pools, Receivers, SearchState, positions
from kafkakit.placement.by_size.tightening import CLOSE, relaxed_deviations, tighten
from kafkakit.placement.rebuild_task import (
    Arrays,
    RebuildTask,
    Row,
    arrays_of,
    placeable_copies,
    without_hopeless,
    without_repeats,
)
from kafkakit.placement.watch import SearchWatch

if TYPE_CHECKING:
    from kafkakit.core.columns import Bools


_NEAR_BROKERS = 24  # brokers, and copies on each, that are asked to make way


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
    for dest in sorted(legal, key=lambda b: (state.load[b] - state.ceiling[b], b))[:_NEAR_BROKERS]:
        lack = state.load[dest] + size - state.ceiling[dest]
        for other in sorted(state.arrived[dest], key=lambda s: (state.size(s), s)):
            if state.size(other) >= lack:
                for to in _roomiest_brokers(state, other, takes):
                    state.move(other, to)
                    state.move(slot, dest)
                    return True
    return False


def _roomiest_brokers(state: SearchState, slot: int, takes: Sequence[bool]) -> Iterator[int]:
    """The first of the roomiest brokers that may take the slot."""
    size, here = state.size(slot), state.broker(slot)
    able = [b for b, may in enumerate(takes) if may and b != here and state.can_take(b, size)]
    for b in sorted(able, key=lambda b: (state.load[b] - state.ceiling[b], b))[:_NEAR_BROKERS]:
        if state.fits(slot, b):
            yield b
            return


_TRIES = 7  # real plans built while searching
_MANY = 20_000  # partitions x brokers from which a window need not be the tightest
_STEP = 16  # how much looser a plan is sought after one that failed
_LEVEL = 1024  # loads are narrowed until they lie within this part of the window
_ROUNDS = 4  # how often limits are drawn in where new copies are counted larger than they are


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildResult:
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


def search(task: RebuildTask, watch: SearchWatch) -> RebuildResult:
    """The best placement found. Cost: a few plans of `attempt`, 2 s each for 600,000 replicas."""
    if not task.receivers or not (task.forced or task.openings):
        return _as_it_stands(task)
    rows = without_hopeless(without_repeats(task), placeable_copies(task))
    taken: dict[int, int] = {}
    best: RebuildResult | None = None
    for _ in range(_ROUNDS):
        arrays = arrays_of(task, rows, taken)
        found = _search(task, arrays, watch)
        over = {} if arrays.exact else _overfull_brokers(task, found.lists)
        if not over:
            best = found if best is None or found.rank < best.rank else best
            break
        for b, load in over.items():
            taken[b] = taken.get(b, 0) + load
    # Where new copies count more than what leaves, moving nothing but what must move is always sound.
    if best is None:
        return _search(task, arrays_of(replace(task, forced=False), rows, {}), watch)
    return best


def _as_it_stands(task: RebuildTask) -> RebuildResult:
    """Nothing can be placed, or nothing has to be."""
    lists = tuple(tuple(b for b in row if b >= 0) for row in task.rows)
    trimmed = any(len(p.current) > p.wanted for p in task.problem.partitions)
    spread = task.range_after(lists)
    return RebuildResult(
        lists=lists,
        unplaced=task.openings,
        range=spread,
        cost=0,
        squares=0,
        arrays=None,
        range_bound=None if trimmed else spread,
    )


def _overfull_brokers(task: RebuildTask, lists: Sequence[Row]) -> dict[int, int]:
    """By how much brokers that get copies end above what they can take."""
    after = task.free_after(lists)
    got = {b for kept, new in zip(task.kept, lists, strict=True) if kept != new for b in new if b not in kept}
    short = {b: task.free[b] - after[b] - task.room[b] for b in got}
    return {b: load for b, load in sorted(short.items()) if load > 0}


def _search(task: RebuildTask, arrays: Arrays, watch: SearchWatch) -> RebuildResult:
    problem = arrays.problem
    watch.phase("how even free bytes can be")
    widest = int(arrays.table.fixed.sum() + arrays.table.slot_size.sum())
    if not problem.window(widest).possible:
        return min((_pack_copies(task, arrays, reverse) for reverse in (False, True)), key=lambda found: found.rank)
    low, least = relaxed_deviations(problem, widest, None, everywhere=True)
    bound = least if arrays.exact and arrays.whole else None
    # Narrowing continues inside a window, so that in many partitions one of a thousandth of the free bytes is enough.
    free = task.free.values()
    fine = sum(free) // max(1, len(free)) // 1000 if len(task.rows) * len(free) > _MANY else 0
    aim = max(low, fine)
    best: RebuildResult | None = None
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


def _attempt(task: RebuildTask, arrays: Arrays, width: int, bound: int | None) -> RebuildResult:
    """A plan for this window, made whole within the hard limits."""
    table, limits = arrays.table, arrays.limits
    tried = attempt(table, arrays.problem.demand, arrays.problem.window(width))
    state = SearchState(table, limits.floor.tolist(), limits.ceiling.tolist())
    moved = (tried.at != table.home).nonzero()[0]
    for slot, dest in zip(moved.tolist(), tried.at[moved].tolist(), strict=True):
        state.move(slot, dest)
    finish(state, open_slots(state, arrays.placeholders))
    RangeNarrowing(Pools(state), arrays.limits.even.tolist(), width // _LEVEL).run()
    return _result_of(task, arrays, state, bound)


def _pack_copies(task: RebuildTask, arrays: Arrays, largest_first: bool) -> RebuildResult:
    """Space is short: as many copies as fit, moving nothing else."""
    limits = arrays.limits
    state = SearchState(arrays.table, limits.floor.tolist(), limits.ceiling.tolist())
    slots = open_slots(state, arrays.placeholders)
    finish(state, slots[::-1] if largest_first else slots)
    return _result_of(task, arrays, state, None)


def _result_of(task: RebuildTask, arrays: Arrays, state: SearchState, bound: int | None) -> RebuildResult:
    lists = tuple(tuple(b for b in row if b >= 0) for row in lists_of(arrays.table, positions(state)))
    cost = sum(
        size * sum(1 for b in new if b not in kept)
        for size, kept, new in zip(task.size, task.kept, lists, strict=True)
        if kept != new
    )
    free = task.free_after(lists).values()
    return RebuildResult(
        lists=lists,
        unplaced=sum(map(len, task.rows)) - sum(map(len, lists)),
        range=max(free) - min(free) if free else 0,
        cost=cost,
        squares=sum(f * f for f in free),
        arrays=arrays,
        range_bound=bound,
    )


_PARTNERS = 12  # brokers at the other end that are tried
_NEAR = 6  # copies of nearly the right size that are tried
_NEAR_HOME = 48  # the same, of copies that have not moved
_COARSE = 4  # a step that leaves more than this part of the gap is worth a copy more
_STEPS = 40  # steps a broker, at most


class RangeNarrowing:
    """The even brokers of a state, and their copies by size; it stops when the range is at most `close`."""

    def __init__(self, pools: Pools, even: Sequence[bool], close: int) -> None:
        self._state, self._pools, self._close = pools.state, pools, close
        self._even = [b for b, inside in enumerate(even) if inside]
        self._rack = pools.state.table.pool.tolist()
        self._takes = pools.state.table.receiver.tolist()

    def run(self) -> None:
        """Step until neither end gives way. O(steps x arrivals on a broker)."""
        for _ in range(_STEPS * len(self._even)):
            step = self._step()
            if step is None:
                return
            self._pools.take(step)

    def _step(self) -> Step | None:
        """A step that lowers the fullest broker or raises the emptiest, and makes no other as extreme."""
        load = self._state.load
        order = sorted(self._even, key=lambda b: (load[b], b))
        if len(order) < 2 or load[order[-1]] - load[order[0]] <= self._close:
            return None
        top, bottom = order[-1], order[0]
        pairs = [(top, b) for b in self._partners(order, top)]
        pairs += [(b, bottom) for b in self._partners(order[::-1], bottom)]
        for full, empty in pairs:
            if full != empty and load[full] > load[empty]:
                step = self._between(full, empty)
                if step is not None:
                    return step
        return None

    def _partners(self, order: Sequence[int], broker: int) -> list[int]:
        """The first brokers of the other end, and the first of the same rack, where copies go most easily."""
        near = [b for b in order if self._rack[b] == self._rack[broker]]
        return list(dict.fromkeys((*order[:_PARTNERS], *near[:_PARTNERS])))

    def _between(self, full: int, empty: int) -> Step | None:
        """What brings these two closest: a copy of the one goes to the other, perhaps for a smaller one."""
        state = self._state
        gap = state.load[full] - state.load[empty]
        best: tuple[int, Step] | None = None
        mine, theirs = self._pools.arrived(full), self._pools.arrived(empty)
        if not self._takes[empty]:
            return None
        for away, other in [(0, -1), *theirs] if self._takes[full] else [(0, -1)]:
            for size, slot in _entries_around(mine, away + gap // 2):
                gain = size - away
                off = abs(gap - 2 * gain)
                if not 0 < gain < gap or (best is not None and off >= best[0]):
                    continue
                if state.can_take(empty, gain) and self._legal(slot, other, full, empty):
                    best = off, ((slot, empty),) if other < 0 else ((slot, empty), (other, full))
                    break
        if best is None or best[0] > gap // _COARSE:
            for size, slot in _entries_around(self._pools.unmoved_slots(full), gap // 2, _NEAR_HOME):
                off = abs(gap - 2 * size)
                if off >= gap or (best is not None and off >= best[0]):
                    break
                if state.can_take(empty, size) and self._legal(slot, -1, full, empty):
                    best = off, ((slot, empty),)
                    break
        return None if best is None else best[1]

    def _legal(self, slot: int, other: int, full: int, empty: int) -> bool:
        state = self._state
        if empty == state.home(slot) or not state.fits(slot, empty):
            return False
        return other < 0 or (full != state.home(other) and state.fits(other, full))


def _entries_around(entries: Sequence[Entry], size: int, near: int = _NEAR) -> Iterator[Entry]:
    """The entries nearest to a size, from the middle out."""
    at = bisect_left(entries, (size, -1))
    for k in range(near):
        if at + k < len(entries):
            yield entries[at + k]
        if at - k - 1 >= 0:
            yield entries[at - k - 1]


LARGEST = 1200
"""Choices (partition x broker) up to which a cluster counts as small."""
_WORK = (1.0, 1.0, 0.5, 0.1)
"""CP-SAT's deterministic time for each goal; about as many seconds, and the same on every machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenSets:
    """The brokers of each partition (unordered), and whether each goal in turn is proven."""

    sets: tuple[frozenset[int], ...]
    most_placed: bool
    least_range: bool
    least_bytes: bool


def is_small(task: RebuildTask) -> bool:
    """True when the integer program is small enough to be solved to the end."""
    return len(task.kept) * len(task.problem.targets) <= LARGEST


def choose_small(task: RebuildTask, start: Sequence[Row], range_bound: int, watch: SearchWatch) -> ChosenSets:
    """The best sets of brokers found; `start` is a legal placement to begin with, `range_bound` is proven."""
    arrays = arrays_of(task, task.rows, {})
    table = replace(arrays.table, most_broken=0) if task.forced else arrays.table
    index = {b: i for i, b in enumerate(table.brokers)}
    model = ExactModel(
        table, arrays.limits, size=task.size, reserve=task.reserve, slides=True, has_openings=True, watch=watch
    )
    model.program.add(model.width >= range_bound)
    model.best = tuple(frozenset(index[b] for b in row) for row in start)

    def brokers() -> tuple[frozenset[int], ...]:
        return tuple(frozenset(table.brokers[i] for i in chosen) for chosen in model.best)

    weight, able = len(start) + 1, placeable_copies(task)
    most = weight * sum(able) + sum(1 for n in able if n)
    placed = weight * sum(map(len, start)) + sum(1 for row in start if row)
    placed_all, _ = model.minimize(-model.placed(), known=-placed, least=-most, work=_WORK[0])
    reached = task.range_after([tuple(sorted(chosen)) for chosen in brokers()])
    narrowest, _ = model.minimize(model.width, known=max(reached, range_bound), least=range_bound, work=_WORK[1])
    cost = sum(s * len(n - {*kept}) for s, n, kept in zip(task.size, brokers(), task.kept, strict=True))
    cheapest, _ = model.minimize(model.cost, known=cost, least=0, work=_WORK[2])
    loads = model.loads_of_best()
    even = [index[b] for b in task.problem.targets]
    mean = sum(loads[b] for b in even) // max(1, len(even))
    away = sum(abs(loads[b] - mean) for b in even)
    model.minimize(model.distance(even, mean), known=away, work=_WORK[3])
    return ChosenSets(
        sets=brokers(),
        most_placed=placed_all,
        least_range=placed_all and narrowest,
        least_bytes=placed_all and narrowest and cheapest,
    )
