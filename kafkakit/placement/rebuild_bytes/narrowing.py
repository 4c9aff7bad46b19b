"""Bring the fullest and the emptiest broker together: copies that move anyway go elsewhere or change places.

A window is met as soon as all loads are inside; this continues from there. Where it must, one more copy leaves its
home, of a size that closes the gap.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from kafkakit.placement.bytes.local_steps import Step
from kafkakit.placement.bytes.pools import Entry, Pools

_PARTNERS = 12  # brokers at the other end that are tried
_NEAR = 6  # copies of nearly the right size that are tried
_NEAR_HOME = 48  # the same, of copies that have not moved
_COARSE = 4  # a step that leaves more than this part of the gap is worth a copy more
_STEPS = 40  # steps a broker, at most


class RangeNarrowing:
    """The even brokers of a state, and their copies by size; it stops when the range is at most `close`."""

    def __init__(self, pools: Pools, even: Sequence[bool], close: int) -> None:
        self._board, self._pools, self._close = pools.state, pools, close
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
        load = self._board.load
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
        state = self._board
        gap = state.load[full] - state.load[empty]
        best: tuple[int, Step] | None = None
        mine, theirs = self._pools.arrived(full), self._pools.arrived(empty)
        if not self._takes[empty]:
            return None
        for away, other in [(0, -1), *theirs] if self._takes[full] else [(0, -1)]:
            for size, slot in _around(mine, away + gap // 2):
                gain = size - away
                off = abs(gap - 2 * gain)
                if not 0 < gain < gap or (best is not None and off >= best[0]):
                    continue
                if state.can_take(empty, gain) and self._legal(slot, other, full, empty):
                    best = off, ((slot, empty),) if other < 0 else ((slot, empty), (other, full))
                    break
        if best is None or best[0] > gap // _COARSE:
            for size, slot in _around(self._pools.at_home(full), gap // 2, _NEAR_HOME):
                off = abs(gap - 2 * size)
                if off >= gap or (best is not None and off >= best[0]):
                    break
                if state.can_take(empty, size) and self._legal(slot, -1, full, empty):
                    best = off, ((slot, empty),)
                    break
        return None if best is None else best[1]

    def _legal(self, slot: int, other: int, full: int, empty: int) -> bool:
        state = self._board
        if empty == state.home(slot) or not state.fits(slot, empty):
            return False
        return other < 0 or (full != state.home(other) and state.fits(other, full))


def _around(entries: Sequence[Entry], size: int, near: int = _NEAR) -> Iterator[Entry]:
    """The entries nearest to a size, from the middle out."""
    at = bisect_left(entries, (size, -1))
    for k in range(near):
        if at + k < len(entries):
            yield entries[at + k]
        if at - k - 1 >= 0:
            yield entries[at - k - 1]
