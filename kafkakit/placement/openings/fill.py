"""One flow that fills the open places, and chooses who leaves crowded sets, with the most even counts."""

from collections.abc import Mapping, Sequence

from kafkakit.placement.counts.dealing import deal_units
from kafkakit.placement.counts.levels import solve_levels
from kafkakit.placement.counts.trimming import LEVEL_PRICE
from kafkakit.placement.network import FlowNetwork
from kafkakit.placement.openings.crowded import Crowded, CrowdedFlow
from kafkakit.placement.openings.openings import Group, RackRoom, Racks

_MOST_EVENNESS = 10**9
Arcs = list[tuple[int, str | None, tuple[int, ...]]]


def fill_openings(
    groups: Sequence[Group], loads: Mapping[int, int], racks: Racks, crowded: Sequence[Crowded] = ()
) -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]]:
    """New brokers by partition index, and for crowded sets the replicas that stay.

    `loads` gives every broker that may receive or stays in a crowded set, with the replicas it holds
    already (those of crowded sets not counted). The loads come out as even as the rooms allow: no other
    filling has a lower maximum, then fewer brokers at it, and so on. Exact. Cost: O(members) to deal,
    and a flow over groups times brokers.
    """
    import numpy as np

    brokers = sorted(loads)
    place = {b: k for k, b in enumerate(brokers)}
    choice = CrowdedFlow(crowded, racks, place)
    total = choice.total + sum(g.room.units * len(g.members) for g in groups)
    if not total:
        return {}, {row.index: () for row in crowded}
    group_arcs: list[Arcs] = []

    def build(network: FlowNetwork) -> int:
        first = network.nodes(len(brokers))
        group_arcs[:] = [_wire(network, g, place, first) for g in groups]
        choice.wire(network, first)
        return first

    base = np.array([loads[b] for b in brokers], dtype=np.int64)
    # One level outweighs all places in lists together, unless that would come near the price of a stale copy.
    most = _MOST_EVENNESS // (max(loads.values()) + total // len(brokers) + 1)
    scale = max(LEVEL_PRICE, min(choice.place_costs + 1, most))
    network, _ = solve_levels(build, base, total, scale=scale)
    chosen: dict[int, tuple[int, ...]] = {}
    for group, arcs in zip(groups, group_arcs, strict=True):
        flows = [
            (rack, broker, amount)
            for block, rack, ids in arcs
            for broker, amount in zip(ids, network.flow(block).tolist(), strict=True)
            if amount
        ]
        chosen.update(deal_units(group.members, flows, group.room.fresh, charged=group.room.charged))
    return chosen, choice.staying(network)


def _wire(network: FlowNetwork, group: Group, place: Mapping[int, int], first: int) -> Arcs:
    """Wire one group up; returns (block, rack, brokers) for each rack it may use."""
    n, room = len(group.members), group.room
    source = network.nodes(2)
    network.supply(source, n * (room.units - sum(r.must for r in room.racks.values())))
    network.arcs(source, source + 1, n * room.repeats, 0)
    return [_wire_rack(network, source, n, rack, offer, place, first) for rack, offer in room.racks.items()]


def _wire_rack(
    network: FlowNetwork,
    source: int,
    n: int,
    rack: str | None,
    offer: RackRoom,
    place: Mapping[int, int],
    first: int,
) -> tuple[int, str | None, tuple[int, ...]]:
    import numpy as np

    node = network.nodes(1)
    if offer.must:
        network.supply(node, n * offer.must)
    network.arcs(source, node, n * offer.free, 0)
    network.arcs(source + 1, node, n * offer.again, 0)
    heads = np.array([first + place[b] for b in offer.brokers], dtype=np.int64)
    return network.arcs(node, heads, n, 0), rack, offer.brokers
