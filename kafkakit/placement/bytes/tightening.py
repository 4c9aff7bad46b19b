"""Turning a goal tighter or looser until it is met: at a fixed tightness, or as tight as a budget allows."""

from dataclasses import dataclass, replace
from typing import Protocol

from kafkakit.placement.bytes import exact as small
from kafkakit.placement.bytes.attempt import Attempt, attempt, standing_still
from kafkakit.placement.bytes.balance_goal import Family, Ranges
from kafkakit.placement.bytes.lp_relaxation import PENALTY, Masses
from kafkakit.placement.bytes.slots import Fleet
from kafkakit.placement.bytes.window import Limits, Window

_LOOKS = 24  # windows priced while searching the tightest split plan
_EDGE = 64  # the part of what is left by which the first plan keeps off the edge
_WIDER = 3  # steps back from the edge, each four times as wide
_WORTHWHILE = 1000  # a full search for less than this part of the bytes is not worth seconds
_CLOSE = 1000  # the search ends within this part of today's tightness
_TRIES = 6  # real plans built while searching


class Watch(Protocol):
    """Who is told how the search goes, and may end it early."""

    def phase(self, text: str) -> None:
        """Say what is done now."""
        ...

    def stopped(self) -> bool:
        """True when the search should end with what it has."""
        ...

    def tried(self, tightness: int, found: Attempt) -> None:
        """Hear of a plan that was made for this tightness, whether it is used or not."""
        ...


class Unwatched:
    """Nobody looks."""

    def phase(self, text: str) -> None:
        """Say nothing."""

    def stopped(self) -> bool:
        """Never."""
        return False

    def tried(self, tightness: int, found: Attempt) -> None:
        """Forget it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a plan may spend: bytes copied and replicas copied; None: any amount."""

    moved_bytes: int | None = None
    moves: int | None = None

    def allows(self, found: Attempt) -> bool:
        """True when the attempt keeps the budget."""
        return (self.moved_bytes is None or found.cost <= self.moved_bytes) and (
            self.moves is None or found.moves <= self.moves
        )


def at_tightness(fleet: Fleet, masses: Masses, family: Family, tightness: int, *, by_moves: bool = False) -> Attempt:
    """The cheapest plan found at this tightness; small clusters are searched to the end."""
    window = family.window(fleet, masses, tightness)
    if not window.possible:
        return standing_still(fleet, window)
    found = attempt(fleet, masses, window)
    if small.is_small(fleet):
        return _searched(fleet, family, tightness, window, found, by_moves)
    return found


def _searched(fleet: Fleet, family: Family, tightness: int, window: Window, found: Attempt, by_moves: bool) -> Attempt:
    """The better of the plan found and the one a full search gives, where there is enough to win."""
    if found.succeeded and not by_moves:
        if found.cost == window.bound.value:
            return replace(found, proven=True)
        above = found.cost - window.bound.value
        if above * _WORTHWHILE <= found.cost and small.choices(fleet) > small.TINY:
            return found
    sliding = bool(window.slides.any())
    if sliding:
        answer = small.cheapest(fleet, family.limits, tightness, by_moves=by_moves)
    else:
        fixed = Limits(floor=window.floor, ceiling=window.ceiling, even=family.limits.even, offset=family.limits.offset)
        answer = small.cheapest(fleet, fixed, None, by_moves=by_moves)
    if answer.at is None:
        return replace(found, proven=answer.proven)
    if sliding:
        floor, ceiling = family.limits.at(answer.low, tightness)
        window = replace(window, floor=floor, ceiling=ceiling)
    return Attempt(
        at=answer.at,
        cost=answer.cost,
        moves=int((answer.at != fleet.home).sum()),
        outside=0,
        window=window,
        proven=answer.proven and not by_moves,
        fewest=answer.proven and by_moves,
    )


def tightest(
    fleet: Fleet,
    masses: Masses,
    family: Family,
    budget: Budget,
    watch: Watch,
    *,
    finest: int = 0,
    by_moves: bool = False,
) -> tuple[int, Attempt]:
    """The tightest goal that the budget allows, and a plan for it; nothing finer than `finest` is sought.

    First the tightest that split plans can reach within the budget, then real plans from there outwards. The
    answer is no looser than today's placement, which costs nothing.
    """
    loads = fleet.loads(fleet.home)
    loosest = family.measure(loads)
    watch.phase("how tight the goal can be")
    spent = _most_bytes(fleet, budget)
    low = max(finest, tightest_split(fleet, masses, family, spent, loosest))
    if small.is_small(fleet):
        return _tightest_small(fleet, masses, family, budget, watch, low, loosest, by_moves=by_moves)
    best = (loosest, attempt_at_rest(fleet, masses, family, loosest))
    # The very edge of what split plans can do is where real plans struggle most: start a little off it.
    high, aim = loosest, low if spent is not None or low == finest else low + (loosest - low) // _EDGE
    for turn in range(_TRIES):
        if watch.stopped() or aim >= best[0]:
            break
        watch.phase(f"plan {turn + 1}")
        found = at_tightness(fleet, masses, family, aim)
        watch.tried(aim, found)
        reached = max(aim, family.measure(fleet.loads(found.at)))
        if budget.allows(found) and found.rule_kept and (reached < best[0] or not best[1].rule_kept):
            best = (reached, _for_certain(fleet, masses, family, reached, found))
        if not found.succeeded or not budget.allows(found):
            low = aim
        else:
            high = aim
        high = min(high, best[0])
        if high - low <= loosest // _CLOSE:
            break
        # Close to the split plan's tightness first, then halving what is left.
        aim = low + max(1, (high - low) // (_EDGE >> (turn * 2) if turn < _WIDER else 2))
    return best


def _most_bytes(fleet: Fleet, budget: Budget) -> int | None:
    """The most bytes that a plan within the budget can copy: so many moves copy no more than the largest copies."""
    if budget.moves is None:
        return budget.moved_bytes
    import numpy as np

    sizes = np.sort(fleet.slot_size)
    most = int(sizes[max(0, len(sizes) - budget.moves) :].sum())
    return most if budget.moved_bytes is None else min(most, budget.moved_bytes)


def _for_certain(fleet: Fleet, masses: Masses, family: Family, tightness: int, found: Attempt) -> Attempt:
    """The attempt with the window that it really reached."""
    if not found.outside:
        return found
    return replace(found, window=family.window(fleet, masses, tightness), outside=0)


def _tightest_small(
    fleet: Fleet,
    masses: Masses,
    family: Family,
    budget: Budget,
    watch: Watch,
    low: int,
    loosest: int,
    *,
    by_moves: bool,
) -> tuple[int, Attempt]:
    """The tightest goal of a small cluster, searched to the end: in one program, or by halving for bands."""
    best = (loosest, attempt_at_rest(fleet, masses, family, loosest))
    if isinstance(family, Ranges):
        answer = small.tightest(fleet, family.limits, budget.moved_bytes, budget.moves, low)
        if answer.at is None or (answer.width >= loosest and best[1].rule_kept):
            return best
        width = max(low, answer.width)
        found = _within(fleet, masses, family, width, budget, by_moves=by_moves)
        if not found.succeeded or not budget.allows(found):
            found = replace(
                found,
                at=answer.at,
                cost=answer.cost,
                moves=answer.moves,
                outside=0,
                proven=False,
                fewest=False,
                rule_kept=True,
            )
        watch.tried(width, found)
        return width, found
    high = loosest
    while low < high and not watch.stopped():
        middle = (low + high) // 2
        found = _within(fleet, masses, family, middle, budget, by_moves=by_moves)
        watch.tried(middle, found)
        if found.succeeded and budget.allows(found):
            high = max(low, min(middle, family.measure(fleet.loads(found.at))))
            best = (high, found)
        else:
            low = middle + 1
    return best


def _within(fleet: Fleet, masses: Masses, family: Family, tightness: int, budget: Budget, *, by_moves: bool) -> Attempt:
    """The cheapest plan of a small cluster, or, where that makes more copies than the budget allows, the fewest."""
    found = at_tightness(fleet, masses, family, tightness, by_moves=by_moves)
    if by_moves or budget.moves is None or not found.succeeded or budget.allows(found):
        return found
    return at_tightness(fleet, masses, family, tightness, by_moves=True)


def attempt_at_rest(fleet: Fleet, masses: Masses, family: Family, loosest: int) -> Attempt:
    """Changing nothing, as an attempt."""
    return standing_still(fleet, family.window(fleet, masses, loosest))


def tightest_split(fleet: Fleet, masses: Masses, family: Family, moved_bytes: int | None, loosest: int) -> int:
    """The tightest goal that split plans reach with so many bytes (None: any), at most `loosest`.

    The cost falls with looser goals and is convex, so tangents from the tight side seldom step too far: only where
    limits clash or fall between two bytes. For small clusters that is put right by halving the last step.
    """
    tried, at = -1, 0
    for _ in range(_LOOKS):
        window = family.window(fleet, masses, at)
        beyond = _beyond(window, moved_bytes)
        if beyond <= 0 or at >= loosest:
            break
        tried = at
        fall, unit = family.fall(window)
        at = min(loosest, at + max(1, -(-beyond * unit // fall))) if fall else loosest
    else:
        at = loosest  # where the loads are today is always in reach
    close = 1 if small.is_small(fleet) else max(1, loosest // _CLOSE) if at == loosest else at - tried
    probe = at - 1
    while at - tried > close:
        if _beyond(family.window(fleet, masses, probe), moved_bytes) <= 0:
            at = probe
        else:
            tried = probe
        probe = (tried + at) // 2
    return at


def _beyond(window: Window, moved_bytes: int | None) -> int:
    """How much the window's split plan is above the budget, load outside the limits counted at its penalty."""
    if moved_bytes is None or not window.possible:
        return PENALTY * window.bound.outside
    return window.bound.value - moved_bytes
