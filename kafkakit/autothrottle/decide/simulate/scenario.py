"""Moves beside client traffic that changes over time, and the least time that any rates need for them.

Arrays are by direction (out, into), then by broker, then by piece of time.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kafkakit.simulator.flows import share

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
_DONE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Brokers, flows and what happens in each piece of time; bytes and bytes/s, brokers by position.

    `line` is the stated capacity, `real` what there is. `starts_s` are the first seconds of the pieces, from 0; the
    last one holds until `seconds`. `at_ms` is the time of day at the start. The law is told no totals where not
    `is_measured`, and no latencies where `idle_ms`, the produce p99 of an idle broker, is not known. `seen_until[t]` is
    the second up to which metrics reach that are there at second t, -1 for none; None: they are never late.
    """

    name: str
    broker_ids: tuple[int, ...]
    line: Floats
    real: Floats
    clients: Floats
    alive: NDArray[np.bool_]
    source: Ints
    target: Ints
    left: Floats
    ingest: Floats
    partitions: Ints
    starts_s: Ints
    seconds: int
    at_ms: int = 0
    is_measured: bool = True
    idle_ms: float | None = None
    seen_until: Ints | None = None

    def pieces(self, first_s: int, count: int) -> Ints:
        """The piece of each of `count` seconds."""
        return np.searchsorted(self.starts_s, np.arange(first_s, first_s + count), side="right") - 1


def with_factors(scenario: Scenario, factors: tuple[tuple[int, float], ...]) -> Scenario:
    """The scenario with client traffic times a factor from each of these seconds on; the first must be 0."""
    at = np.array([second for second, _ in factors])
    starts = np.union1d(scenario.starts_s, at)
    old = np.searchsorted(scenario.starts_s, starts, side="right") - 1
    factor = np.array([f for _, f in factors])[np.searchsorted(at, starts, side="right") - 1]
    return replace(
        scenario,
        starts_s=starts,
        clients=scenario.clients[:, :, old] * factor,
        real=scenario.real[:, :, old],
        alive=scenario.alive[:, old],
    )


def remaining(scenario: Scenario, reserve: float) -> Floats:
    """What clients leave of the real lines less the reserve, bytes/s by (direction, broker, piece); 0 while dead."""
    left = (1 - reserve) * scenario.real - scenario.clients
    return np.maximum(0.0, left) * scenario.alive


def least_seconds(scenario: Scenario, reserve: float) -> int:
    """A lower bound on any law's time: no side, and no pair of brokers, can have passed its bytes earlier.

    `seconds` where that is longer. O(pieces x (brokers + flows)).
    """
    free = remaining(scenario, reserve)
    longest = 0
    for side, ends in enumerate((scenario.source, scenario.target)):
        for broker in set(ends.tolist()):
            # Without what is written meanwhile, since a flow that has ended takes no more of it.
            size = float(scenario.left[ends == broker].sum())
            longest = max(longest, _first(scenario, size, 0.0, free[side, broker]))
    for s, d, size, grows in zip(scenario.source, scenario.target, scenario.left, scenario.ingest, strict=True):
        longest = max(longest, _first(scenario, float(size), float(grows), np.minimum(free[0, s], free[1, d])))
    return longest


def _first(scenario: Scenario, size: float, grows: float, rates: Floats) -> int:
    """The first second at whose end `size` and what it grows by a second have passed at the rates of the pieces."""
    ends = np.minimum(np.append(scenario.starts_s[1:], scenario.seconds), scenario.seconds)
    passed = np.cumsum(rates * np.diff(ends, prepend=0))
    reached = size + grows * ends <= passed + 1
    if not reached.any():
        return scenario.seconds
    piece = int(reached.argmax())
    begin = int(ends[piece - 1]) if piece else 0
    missing = size + grows * begin - (passed[piece - 1] if piece else 0.0) - 1
    return begin + max(1, int(np.ceil(missing / (rates[piece] - grows))) if missing > 0 else 1)


def ideal_seconds(scenario: Scenario, reserve: float) -> int:
    """The time that ideal rates take: each second every side is set to exactly what clients leave in that second.

    Bytes are shared between flows as brokers share them; no quota window, no measurement, no delay. `seconds` where it
    is longer.
    """
    free, left = remaining(scenario, reserve), scenario.left.copy()
    ends = np.minimum(np.append(scenario.starts_s[1:], scenario.seconds), scenario.seconds)
    t = 0
    for piece, end in enumerate(ends):
        out, into = free[0, :, piece], free[1, :, piece]
        while t < end:
            open_flows = left > _DONE
            left = np.where(open_flows, left + scenario.ingest, 0.0)
            got = share(left, scenario.source, scenario.target, out, into)
            left -= got
            t += 1
            if not (left > _DONE).any():
                return t
            # As long as each flow has twice of what it gets, its size does not count, and each gets the same again.
            shrinks = np.where(open_flows, got - scenario.ingest, 0.0)
            spare = left - 2 * got - shrinks
            if (spare[open_flows] > 0).all() and (shrinks > 0).any():
                calm = min(int((spare[shrinks > 0] / shrinks[shrinks > 0]).min()), int(end) - t)
                left -= max(0, calm) * shrinks
                t += max(0, calm)
    return scenario.seconds
