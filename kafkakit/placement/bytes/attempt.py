"""One attempt at a goal: the cheapest split plan, a real plan built after it, mended, and made cheaper."""

from dataclasses import dataclass, replace
from typing import Any

from kafkakit.placement.bytes.balance import construct
from kafkakit.placement.bytes.even_counts import counts_of, even_counts, positions, surplus_of
from kafkakit.placement.bytes.lp_relaxation import Masses
from kafkakit.placement.bytes.pools import Pools
from kafkakit.placement.bytes.rack_repair import broken_parts, unbreak
from kafkakit.placement.bytes.repair import mend, save
from kafkakit.placement.bytes.search_state import Board
from kafkakit.placement.bytes.slots import CountLimits, Fleet
from kafkakit.placement.bytes.window import Window, fixed_window

_SLACK = 100  # the part of a window's width kept free on either side for evening counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Where every slot goes (`at`, broker indices), what it costs, and what is left outside the window.

    `proven` says that a search showed that nothing cheaper exists (or, where limits are not kept, nothing at all),
    `fewest` that none with fewer copies exists, `rule_kept` that the rules beside the window (rack violations
    allowed, counts) are kept.
    """

    at: Any
    cost: int
    moves: int
    outside: int
    window: Window
    proven: bool = False
    fewest: bool = False
    rule_kept: bool = True

    @property
    def succeeded(self) -> bool:
        """True when all limits and rules are kept."""
        return self.window.possible and not self.outside and self.rule_kept


def attempt(fleet: Fleet, masses: Masses, window: Window) -> Attempt:
    """Bring the fleet into the window. About 2 s for 600,000 replicas with 90,000 moves."""
    if fleet.counts is not None:
        return _with_counts(fleet, masses, window, fleet.counts)
    board = construct(fleet, masses, window)
    pools = Pools(board)
    mend(pools)
    left = 0
    if fleet.most_broken is not None:
        left = unbreak(pools, positions(board))
        mend(pools)
    else:
        save(pools)  # after mending sets it could put the repeats back
    return replace(attempt_of(board, window), rule_kept=not left)


def _with_counts(fleet: Fleet, masses: Masses, window: Window, counts: CountLimits) -> Attempt:
    """Balance bytes in a slightly narrower window first, so that every broker has slack for small slots."""
    slack = (window.ceiling - window.floor) // _SLACK
    inner = fixed_window(fleet, masses, window.floor + slack, window.ceiling - slack)
    board = construct(fleet, masses, inner if inner.possible else window, surplus_of(fleet))
    pools = Pools(board)
    mend(pools)
    left = unbreak(pools, positions(board)) if fleet.most_broken is not None else 0
    board.floor, board.ceiling = window.floor.tolist(), window.ceiling.tolist()
    left += even_counts(pools, counts)
    return replace(attempt_of(board, window), rule_kept=not left)


def attempt_of(board: Board, window: Window) -> Attempt:
    """The board's state as an attempt."""
    fleet, at = board.fleet, positions(board)
    _straighten(board, at)
    moves = int((at != fleet.home).sum())
    return Attempt(at=at, cost=fleet.cost(at), moves=moves, outside=board.outside(), window=window)


def _straighten(board: Board, at: Any) -> None:
    """Where a slot went to the broker that another slot of its partition left, let that one stay instead."""
    for slot in sorted(board.moved):
        for other in board.siblings(slot):
            if at[slot] != board.home(slot) and at[slot] == board.home(other) and at[other] != at[slot]:
                at[slot], at[other] = at[other], at[slot]


def standing_still(fleet: Fleet, window: Window) -> Attempt:
    """The attempt that moves nothing."""
    board = Board(fleet, window.floor.tolist(), window.ceiling.tolist())
    kept = fleet.most_broken is None or len(broken_parts(fleet, fleet.home)) <= fleet.most_broken
    if fleet.counts is not None:
        kept = kept and not fleet.counts.outside(counts_of(fleet, fleet.home))
    return replace(attempt_of(board, window), rule_kept=kept)
