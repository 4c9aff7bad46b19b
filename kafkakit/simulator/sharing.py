"""How flows share the brokers' capacities: everybody gets as much as the next, up to what the tightest side allows."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

ROUNDS = 6
_ENOUGH = 1e-6


def share(wanted: "Floats", source: "Ints", target: "Ints", out: "Floats", into: "Floats") -> "Floats":
    """What each flow gets: at most `wanted`, summed at most `out` by source and `into` by target broker.

    Progressive filling in a few rounds, so the last per cent of a capacity may stay unused; never more than there is.
    O(rounds x (flows + brokers)).
    """
    import numpy as np

    brokers = len(out)
    got = np.zeros(len(wanted))
    left_out, left_into = out.astype(float), into.astype(float)
    live = np.flatnonzero(wanted > 0)
    for _ in range(ROUNDS):
        if not len(live):
            break
        s, t = source[live], target[live]
        part_out = left_out / np.maximum(1, np.bincount(s, minlength=brokers))
        part_into = left_into / np.maximum(1, np.bincount(t, minlength=brokers))
        more = np.minimum(np.minimum(part_out[s], part_into[t]), wanted[live] - got[live])
        got[live] += more
        left_out = np.maximum(0.0, left_out - np.bincount(s, more, brokers))
        left_into = np.maximum(0.0, left_into - np.bincount(t, more, brokers))
        spare = np.minimum(left_out[s], left_into[t])
        live = live[(spare > _ENOUGH * (1 + got[live])) & (wanted[live] - got[live] > _ENOUGH)]
    return got
