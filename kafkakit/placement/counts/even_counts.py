"""How even the replica counts of a forced rebuild can be: per block of brokers, the band and the total.

When every partition may sit on any target broker, partitions of the same replication factor are alike and
the question is a small flow. Its answer is canonical: blocks of brokers (`blocks.py`) to which every most even
placement keeps.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kafkakit.placement.counts.blocks import Block, blocks_of
from kafkakit.placement.counts.levels import solve_levels
from kafkakit.placement.group_rule import FillRoom, RackRule, fill_room
from kafkakit.placement.network import FlowNetwork


def rooms_for(rule: RackRule, racks: Sequence[str | None], wanted: Sequence[int]) -> dict[int, FillRoom]:
    """The room of a partition placed from nothing, by wanted replication factor."""
    free = Counter(r for r in racks if r)
    rackless = sum(1 for r in racks if not r)
    return {w: fill_room(rule, (), free, rackless, w) for w in sorted(set(wanted))}


def even_blocks(racks: Sequence[str | None], rooms: Mapping[int, FillRoom], counts: Mapping[int, int]) -> list[Block]:
    """Blocks of the most even placement of `counts[w]` partitions for each replication factor w.

    `racks[i]` is the rack of target i. The network has (factors x brokers) arcs, whatever the number of
    partitions.
    """
    total = sum(rooms[w].units * n for w, n in counts.items())
    if not total:
        return [Block(tuple(range(len(racks))), 0, 0)]
    wiring: list[tuple[int, int, int]] = []

    def build(network: FlowNetwork) -> int:
        brokers = network.nodes(len(racks))
        wiring.clear()
        for wanted, n in sorted(counts.items()):
            _add_factor(network, rooms[wanted], n, racks, brokers, wiring)
        return brokers

    network, loads = solve_levels(build, [0] * len(racks), total)
    return blocks_of([int(v) for v in loads], _exchanges(network, wiring, len(racks)))


def _add_factor(
    network: FlowNetwork,
    room: FillRoom,
    n: int,
    racks: Sequence[str | None],
    brokers: int,
    wiring: list[tuple[int, int, int]],
) -> None:
    members: dict[str, list[int]] = {}
    for i, rack in enumerate(racks):
        if rack:
            members.setdefault(rack, []).append(i)

    def arc(tail: int, head: int, capacity: int) -> None:
        wiring.append((network.arcs(tail, head, capacity, 0), tail, head))

    source = network.nodes(2)
    repeat = source + 1
    network.supply(source, n * room.units)
    arc(source, repeat, n * room.repeats)
    for rack in sorted(members):
        node = network.nodes(1)
        arc(source, node, n)
        arc(repeat, node, n * (len(members[rack]) - 1))
        for i in members[rack]:
            arc(node, brokers + i, n)
    for i, rack in enumerate(racks):
        if not rack:
            arc(repeat if room.rackless_repeats else source, brokers + i, n)


def _exchanges(network: FlowNetwork, wiring: list[tuple[int, int, int]], brokers: int) -> Any:
    """For each broker, the brokers that could take one of its units (reachable in the residual network)."""
    steps: dict[int, list[int]] = {}
    for block, tail, head in wiring:
        flow, capacity = int(network.flow(block)[0]), network.capacity(block)
        # A unit given up at the head walks back along arcs with flow, and forward where room is left.
        if flow > 0:
            steps.setdefault(head, []).append(tail)
        if flow < capacity:
            steps.setdefault(tail, []).append(head)

    def reach(start: int) -> set[int]:
        seen = {start}
        queue = [start]
        while queue:
            for node in steps.get(queue.pop(), ()):
                if node not in seen:
                    seen.add(node)
                    queue.append(node)
        return {node for node in seen if node < brokers}

    return reach
