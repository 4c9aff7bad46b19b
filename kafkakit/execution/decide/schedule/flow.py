"""Copies on their way as flows: each leaves one end and reaches another; ends share their rate among their flows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkakit.execution.decide.schedule.work import Limits, Rates, Speeds

if TYPE_CHECKING:
    import numpy as np

ROUNDS = 8  # more change the shares by less than the rates are known


class Ends:
    """What brokers can do, one number each for sending, taking in and copying inside, and a last that is not limited.

    `rate` is bytes per second by end, `slots` how many copies may use it at a time.
    """

    def __init__(self, brokers: Sequence[int], limits: Limits, rates: Rates, speeds: Speeds) -> None:
        self._index = {b: n for n, b in enumerate(brokers)}
        count = len(brokers)
        self.count = 3 * count + 1
        self.nowhere = 3 * count
        reached = speeds.efficiency
        out = [_rate(rates.out_of_broker(b), speeds.line_bytes_per_s, reached) for b in brokers]
        into = [_rate(rates.into_broker(b), speeds.line_bytes_per_s, reached) for b in brokers]
        inside = [_rate(rates.inside, speeds.disk_bytes_per_s, reached)] * count
        self.rate: list[float] = [*out, *into, *inside, float("inf")]
        endless = 1 << 60
        self.slots = [limits.out_each] * count + [limits.into_each] * count + [limits.inside_each] * count + [endless]

    def out(self, broker: int) -> int:
        """The end at which a broker sends."""
        return self._index[broker]

    def into(self, broker: int) -> int:
        """The end at which a broker takes in."""
        return len(self._index) + self._index[broker]

    def inside(self, broker: int) -> int:
        """The end at which a broker copies between its own dirs."""
        return 2 * len(self._index) + self._index[broker]


def _rate(throttle: int | None, line: float, efficiency: float) -> float:
    return line if throttle is None else min(line, throttle * efficiency)


def fair_rates(sources: "np.ndarray", sinks: "np.ndarray", rate: "np.ndarray") -> "np.ndarray":
    """Bytes per second of each flow: nearly max-min fair, never above an end's rate, nothing left that both ends have.

    Each round gives a flow the smaller of its ends' even shares of what is left; after `ROUNDS` the rest stays
    unused. O(rounds x (flows + ends)).
    """
    import numpy as np

    left = rate.copy()
    got = np.zeros(len(sources))
    active = np.arange(len(sources))
    ends = len(rate)
    for _ in range(ROUNDS):
        at, to = sources[active], sinks[active]
        users = np.bincount(at, minlength=ends) + np.bincount(to, minlength=ends)
        share = left / np.maximum(users, 1)
        more = np.minimum(share[at], share[to])
        got[active] += more
        left -= np.bincount(at, more, minlength=ends) + np.bincount(to, more, minlength=ends)
        spent = left <= 1e-9 * rate
        spent[-1] = False  # the last end is not limited
        active = active[~(spent[at] | spent[to])]
        if not len(active):
            break
    return got
