"""One attempt at a goal: the cheapest split plan, a real plan built after it, mended, and made cheaper."""

from dataclasses import dataclass, replace
from typing import Any

from kafkakit.topicmappr.storage.balance import construct
from kafkakit.topicmappr.storage.board import Board
from kafkakit.topicmappr.storage.fleet import Fleet
from kafkakit.topicmappr.storage.mending import mend, save
from kafkakit.topicmappr.storage.pools import Pools
from kafkakit.topicmappr.storage.relaxation import Masses
from kafkakit.topicmappr.storage.unbreaking import broken_parts, unbreak
from kafkakit.topicmappr.storage.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Where every slot goes (`at`, broker indices), what it costs, and what is left outside the window.

    `proven` says that a search showed that nothing cheaper exists.
    """

    at: Any
    cost: int
    moves: int
    outside: int
    window: Window
    proven: bool = False
    rule_kept: bool = True

    @property
    def succeeded(self) -> bool:
        """True when all limits and rules are kept."""
        return self.window.possible and not self.outside and self.rule_kept


def attempt(fleet: Fleet, masses: Masses, window: Window) -> Attempt:
    """Bring the fleet into the window. About 2 s for 600,000 replicas with 90,000 moves."""
    board = construct(fleet, masses, window)
    pools = Pools(board)
    mend(pools)
    if fleet.most_broken is not None:
        if unbreak(pools, attempt_of(board, window).at):
            return replace(attempt_of(board, window), rule_kept=False)
        mend(pools)
        return attempt_of(board, window)  # saving could put the repeats back
    save(pools)
    return attempt_of(board, window)


def attempt_of(board: Board, window: Window) -> Attempt:
    """The board's state as an attempt."""
    at = board.fleet.home.copy()
    for slot, dest in board.moved.items():
        at[slot] = dest
    return Attempt(at=at, cost=board.cost(), moves=len(board.moved), outside=board.outside(), window=window)


def standing_still(fleet: Fleet, window: Window) -> Attempt:
    """The attempt that moves nothing."""
    board = Board(fleet, window.floor.tolist(), window.ceiling.tolist())
    kept = fleet.most_broken is None or len(broken_parts(fleet, fleet.home)) <= fleet.most_broken
    return replace(attempt_of(board, window), rule_kept=kept)
