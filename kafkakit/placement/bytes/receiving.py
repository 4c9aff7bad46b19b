"""Where the leaving replicas go: the largest first, each to the emptiest receiver that may take it."""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from kafkakit.placement.bytes.quotas import Quotas
from kafkakit.placement.bytes.search_state import SearchState

_TRIES = 6  # receivers looked at in one rack before it counts as full for a slot


class Receivers:
    """Receivers by rack, the emptiest first; emptiness is load above the floor, as a part of the room."""

    def __init__(self, state: SearchState) -> None:
        self._board = state
        self._rack: list[int] = state.table.pool.tolist()
        self._heaps: dict[int, list[tuple[int, int]]] = {}
        for b, takes in enumerate(state.table.receiver.tolist()):
            if takes:
                self._heaps.setdefault(self._rack[b], []).append((self.fill(b), b))
        for heap in self._heaps.values():
            heapify(heap)

    def fill(self, broker: int) -> int:
        """How full a broker is: 0 at its floor, 2**20 at its ceiling, below 0 under the floor."""
        state = self._board
        room = state.ceiling[broker] - state.floor[broker]
        return ((state.load[broker] - state.floor[broker]) << 20) // max(room, 1)

    def emptiest(self, slot: int, first: Sequence[int]) -> int | None:
        """The emptiest receiver that may take the slot and stays below its ceiling; the racks `first` come first."""
        state, size = self._board, self._board.size(slot)
        brokers, racks = state.legal(slot)
        best: tuple[int, int] | None = None
        for rack in first:
            if rack in racks:
                best = self._top(rack, size, brokers, best)
        if best is None:
            for rack in racks:
                best = self._top(rack, size, brokers, best)
        return None if best is None else best[1]

    def _top(self, rack: int, size: int, brokers: set[int], best: tuple[int, int] | None) -> tuple[int, int] | None:
        """The better of `best` and the emptiest broker of this rack that has the room."""
        state, heap, aside = self._board, self._heaps.get(rack, []), []
        while heap:
            fill, broker = heap[0]
            if best is not None and best <= heap[0]:
                break
            now = self.fill(broker)
            if now != fill:  # its load changed since it was put here
                heappop(heap)
                heappush(heap, (now, broker))
                continue
            if broker not in brokers and state.load[broker] + size <= state.ceiling[broker]:
                best = (fill, broker)
                break
            aside.append(heappop(heap))
            if len(aside) > _TRIES and state.table.tags is None:
                break
        for entry in aside:
            heappush(heap, entry)
        return best


def fill(state: SearchState, slots: Sequence[int], quotas: Quotas) -> list[int]:
    """Send the slots off, the largest first; returns those that found no receiver (they stay at home)."""
    receivers = Receivers(state)
    rack: list[int] = state.table.pool.tolist()
    left = []
    for slot in sorted(slots, key=lambda s: (-state.size(s), s)):
        size = state.size(slot)
        dest = receivers.emptiest(slot, quotas.racks(slot, size))
        if dest is None:
            left.append(slot)
        else:
            state.move(slot, dest)
            quotas.use(slot, size, rack[dest])
    return left
