"""How even the replica counts of a forced rebuild can be: per block of brokers, the band and the total.

When every partition may sit on any target broker, partitions of the same replication factor are alike and the
question is a small flow. Its answer is canonical: blocks of brokers to which every most even placement keeps.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kafkakit.placement.group_rooms import Room
from kafkakit.placement.network import Block, FlowNetwork, Reach, blocks_of, solve_levels
from kafkakit.placement.openings import wire_room

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Ints


def deal_pool(takers: Sequence[int], brokers: "Ints", quota: "Ints", held: Sequence[Sequence[int]]) -> list[int]:
    """Give each taker one broker so that broker i is given `quota[i]` times.

    `takers` are partition numbers (repeated when they take several), `held[p]` what partition p has
    already. A broker's turns are spread over the whole row, so that neighbouring partitions, which mostly
    belong to one topic, get different brokers. Clashes are resolved by swapping with the nearest row that
    suits both; where none does, the taker gets the least used broker it can hold.
    """
    turns = [
        ((2 * k + 1) / (2 * amount), broker)
        for broker, amount in zip(brokers.tolist(), quota.tolist(), strict=True)
        for k in range(amount)
    ]
    row = [broker for _, broker in sorted(turns)]
    taken: dict[int, set[int]] = {}
    for j, p in enumerate(takers):
        mine = taken.setdefault(p, set(held[p]))
        if row[j] in mine:
            _swap(row, j, takers, taken, held)
        mine.add(row[j])
    return row


def _swap(
    row: list[int], j: int, takers: Sequence[int], taken: dict[int, set[int]], held: Sequence[Sequence[int]]
) -> None:
    mine = taken[takers[j]]
    for k in range(j + 1, len(row)):
        if row[k] not in mine:
            row[j], row[k] = row[k], row[j]
            return
    for k in range(j - 1, -1, -1):
        other = taken[takers[k]]
        if takers[k] != takers[j] and row[k] not in mine and row[j] not in other:
            other.remove(row[k])
            other.add(row[j])
            row[j], row[k] = row[k], row[j]
            return
    free = [b for b in sorted(set(row)) if b not in mine]
    if free:
        row[j] = min(free, key=lambda b: (row.count(b), b))


def even_blocks(
    brokers: Sequence[int], rooms: Mapping[tuple[int, int], Room], counts: Mapping[tuple[int, int], int]
) -> list[Block]:
    """Blocks of the most even placement of `counts[key]` partitions for each kind and replication factor.

    `rooms[key]` is the room of a partition placed from nothing. The network has (keys x brokers) arcs, whatever the
    number of partitions.
    """
    total = sum(rooms[key].units * n for key, n in counts.items())
    if not total:
        return [Block(tuple(range(len(brokers))), 0, 0)]
    place = {b: k for k, b in enumerate(brokers)}

    def build(network: FlowNetwork) -> int:
        first = network.nodes(len(brokers))
        for key, n in sorted(counts.items()):
            wire_room(network, rooms[key], n, place, first)
        return first

    network, loads = solve_levels(build, [0] * len(brokers), total)
    return blocks_of(loads.tolist(), _exchanges(network, len(brokers)))


def _exchanges(network: FlowNetwork, brokers: int) -> Reach:
    """For each broker, the brokers that could take one of its units, by any chain that leaves the totals alone."""
    tails, heads, _ = network.residual()
    sink = network.node_count - 1
    steps: dict[int, list[int]] = {}
    for tail, head in zip(tails.tolist(), heads.tolist(), strict=True):
        if sink not in (tail, head):
            # A unit given up at a broker walks back along arcs with flow, and forward where there is capacity left.
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
