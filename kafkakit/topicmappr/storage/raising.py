"""Steps that raise the load of a broker below its floor."""

from bisect import bisect_left
from collections.abc import Iterator

from kafkakit.topicmappr.storage.pools import NEAR, Pools, around

Step = tuple[tuple[int, int], ...]
"""(slot, destination) moves that belong together."""
Priced = tuple[int, int, Step]
"""Load still missing afterwards, added cost, the step."""


def free_raises(pools: Pools, broker: int, lack: int) -> Iterator[Priced]:
    """Steps without cost: a slot that moves anyway comes here, or changes places with one that came."""
    yield from _transfers(pools, broker, lack)
    yield from _exchanges(pools, broker, lack)


def priced_raises(pools: Pools, broker: int, lack: int) -> Iterator[Priced]:
    """Steps that cost: a larger slot in place of an arrival, another slot of a giver, one more slot, a swap."""
    yield from _replacements(pools, broker, lack)
    yield from _redirections(pools, broker, lack)
    yield from _additions(pools, broker, lack)


def _transfers(pools: Pools, broker: int, lack: int) -> Iterator[Priced]:
    board = pools.board
    for size, slot in around(pools.moved, lack):
        source = board.moved[slot]
        if source != broker and board.can_take(broker, size) and board.can_give(source, size):
            if board.fits(slot, broker):
                yield (max(0, lack - size), 0, ((slot, broker),))


def _exchanges(pools: Pools, broker: int, lack: int) -> Iterator[Priced]:
    board = pools.board
    room = board.ceiling[broker] - board.load[broker]
    mine = sorted((board.size(s), s) for s in board.arrived[broker])
    for source, slots in enumerate(board.arrived):
        spare = min(board.load[source] - board.floor[source], room)
        if source == broker or spare <= 0 or not slots:
            continue
        theirs = sorted((board.size(s), s) for s in slots)
        for small, slot in mine:
            # The smallest gain that is enough, else the largest that can be spared.
            at = bisect_left(theirs, (small + min(lack, spare), -1))
            for size, other in theirs[at : at + 1] + theirs[max(0, at - 1) : at]:
                gain = size - small
                if 0 < gain <= spare and _swappable(pools, slot, other, broker, source):
                    yield (max(0, lack - gain), 0, ((slot, source), (other, broker)))


def _swappable(pools: Pools, mine: int, other: int, broker: int, source: int) -> bool:
    board = pools.board
    part = board.fleet.part
    return bool(part[mine] != part[other]) and board.fits(mine, source) and board.fits(other, broker)


def _replacements(pools: Pools, broker: int, lack: int) -> Iterator[Priced]:
    """An arrival goes home, and a larger slot of that home comes in its place."""
    board = pools.board
    for mine in board.arrived[broker]:
        home, small = board.home(mine), board.size(mine)
        for size, slot in around(pools.at_home(home), small + lack, 8):
            gain = size - small
            if gain <= 0 or not board.can_take(broker, gain) or not board.can_give(home, gain):
                continue
            if board.fits(slot, broker) and board.fits(mine, home):
                yield (max(0, lack - gain), gain, ((mine, home), (slot, broker)))
                break


def _redirections(pools: Pools, broker: int, lack: int) -> Iterator[Priced]:
    """A slot that went elsewhere goes home, and another of that home, about as large, comes here instead."""
    board = pools.board
    going: dict[int, list[tuple[int, int]]] = {}
    for size, slot in pools.moved:
        dest = board.moved[slot]
        if dest != broker and board.can_give(dest, size):
            going.setdefault(board.home(slot), []).append((size, slot))
    for home in sorted(going):
        for size, slot in around(pools.at_home(home), lack, 8):
            if not board.can_take(broker, size) or not board.fits(slot, broker):
                continue
            room = board.ceiling[home] - board.load[home]
            at = bisect_left(going[home], (size + room + 1, -1)) - 1
            if at >= 0 and board.fits(going[home][at][1], home):
                back, other = going[home][at]
                if board.can_give(home, size - back):
                    yield (max(0, lack - size), max(0, size - back), ((other, home), (slot, broker)))
                    break


def _additions(pools: Pools, broker: int, lack: int) -> Iterator[Priced]:
    board = pools.board
    spare = sorted(
        (b for b in pools.givers if b != broker and board.load[b] > board.floor[b]),
        key=lambda b: (board.floor[b] - board.load[b], b),
    )
    for home in spare[:NEAR]:
        for size, slot in around(pools.at_home(home), lack, 16):
            if board.can_take(broker, size) and board.can_give(home, size) and board.fits(slot, broker):
                yield (max(0, lack - size), size, ((slot, broker),))
                break
