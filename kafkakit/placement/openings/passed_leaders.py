"""Leaderships that must pass on: spread over the candidates as evenly as can be, all other leaders fixed."""

from collections.abc import Mapping, Sequence

from kafkakit.placement.counts.levels import solve_levels
from kafkakit.placement.network import FlowNetwork


def pass_leaders(candidates: Sequence[Sequence[int]], led: Mapping[int, int]) -> list[int]:
    """Choose one broker of each candidate row; `led` counts the leaderships that stay where they are.

    The resulting counts are as even as the candidates allow; equally good choices go to the earlier candidate
    of a row. Every row has at least one broker. Exact.
    """
    import numpy as np

    if not candidates:
        return []
    brokers = sorted({b for row in candidates for b in row})
    place = {b: k for k, b in enumerate(brokers)}
    part = np.array([n for n, row in enumerate(candidates) for _ in row], dtype=np.int64)
    broker = np.array([place[b] for row in candidates for b in row], dtype=np.int64)
    position = np.array([k for row in candidates for k, _ in enumerate(row)], dtype=np.int64)
    arcs: list[int] = []

    def build(network: FlowNetwork) -> int:
        first = network.nodes(len(brokers))
        source = network.nodes(len(candidates))
        network.supply(source + np.arange(len(candidates)), 1)
        arcs[:] = [network.arcs(source + part, first + broker, 1, position)]
        return first

    base = np.array([led.get(b, 0) for b in brokers], dtype=np.int64)
    scale = int(position.sum()) + 1
    network, _ = solve_levels(build, base, len(candidates), scale=scale)
    chosen = network.flow(arcs[0]) > 0
    leaders = dict(zip(part[chosen].tolist(), broker[chosen].tolist(), strict=True))
    return [brokers[leaders[n]] for n in range(len(candidates))]
