"""Bring the brokers that a first plan left outside their limits inside, at the least extra cost; then save.

Free steps come first: a slot that moves anyway goes elsewhere, or two of them change places. Only then steps
are taken that cost. Work is limited by counts, never by the clock, so that the same input gives the same plan.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator

from kafkakit.placement.bytes.local_steps import Priced, Step, free_fills, free_sheds, priced_fills, priced_sheds
from kafkakit.placement.bytes.pools import Pools

Options = Callable[[Pools, int, int], Iterator[Priced]]
_STEPS = 64  # steps spent on one broker in one round
_ROUNDS = 4
WORK = 600_000
"""Tests of a slot against the rules (`SearchState.tested`) after which one plan is repaired no further: about 5 s."""


def repair(pools: Pools) -> None:
    """Bring every broker inside its limits, as far as single steps can."""
    state = pools.state
    for _ in range(_ROUNDS):
        before = state.outside()
        if not before:
            return
        brokers = range(len(state.load))
        for broker in sorted(brokers, key=lambda b: (state.ceiling[b] - state.load[b], b)):
            _repeat(pools, broker, lambda b: state.load[b] - state.ceiling[b], (free_sheds, priced_sheds))
        for broker in sorted(brokers, key=lambda b: (state.load[b] - state.floor[b], b)):
            _repeat(pools, broker, lambda b: state.floor[b] - state.load[b], (free_fills, priced_fills))
        if state.outside() >= before:
            return


def _repeat(pools: Pools, broker: int, missing: Callable[[int], int], kinds: tuple[Options, Options]) -> None:
    for _ in range(_STEPS):
        lack = missing(broker)
        step = _best(pools, broker, lack, kinds) if lack > 0 and pools.state.tested < WORK else None
        if step is None:
            return
        pools.take(step)


def _best(pools: Pools, broker: int, lack: int, kinds: tuple[Options, Options]) -> Step | None:
    """A step that helps, free ones first; what it leaves missing is counted as load that must be copied later."""
    for options in kinds:
        best: tuple[int, Priced] | None = None
        for option in options(pools, broker, lack):
            worth = (option[0] + option[1], option)
            if option[0] < lack and (best is None or worth < best):
                best = worth
                if not worth[0]:  # nothing missing and nothing spent: there is no better step
                    break
            if pools.state.tested >= WORK:
                break
        if best is not None:
            return best[1][2]
    return None


def save(pools: Pools) -> None:
    """Take moves back, or make them smaller, wherever the limits allow; largest first. O(moved x log)."""
    state = pools.state
    for size, slot in sorted(pools.moved, reverse=True):
        if slot not in state.moved:
            continue
        home, dest = state.home(slot), state.moved[slot]
        slack = min(state.ceiling[home] - state.load[home], state.load[dest] - state.floor[dest])
        if slack <= 0:
            continue
        if slack >= size:
            if state.fits(slot, home):
                pools.take(((slot, home),))
            continue
        entries = pools.at_home(home)
        at = bisect_left(entries, (size - slack, -1))
        for small, other in entries[at : at + 4]:
            if small < size and state.fits(other, dest) and state.fits(slot, home):
                pools.take(((slot, home), (other, dest)))
                break
