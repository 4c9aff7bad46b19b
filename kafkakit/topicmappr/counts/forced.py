"""Forced placement: counts as even as they can be, and among those placements the cheapest one.

kafka-kit's `--force-rebuild` forgets where replicas are and moves nearly all of them. Here evenness is fixed
first (`even_counts.py`), then one minimum-cost flow keeps as many replicas, or bytes, as possible in place:

    partition -> (partition, rack) -> its present brokers there (free), or the rack's pool (one copy)
              -> rack pool -> broker -> block of brokers with a fixed total
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from kafkakit.topicmappr.certificate import Proof
from kafkakit.topicmappr.counts.blocks import Block, block_proof
from kafkakit.topicmappr.counts.even_counts import even_blocks, rooms_for
from kafkakit.topicmappr.counts.leaders import balance_leaders, keep_order
from kafkakit.topicmappr.counts.pool import deal_pool
from kafkakit.topicmappr.network import FlowNetwork
from kafkakit.topicmappr.price_bound import LegalSets, price_bound
from kafkakit.topicmappr.problem import Minimize, Placement, PlacementProblem
from kafkakit.topicmappr.rack_rule import FillRoom

_EXPLICIT_ARCS = 4_000_000
_MAX_COST = 1 << 62


@dataclass(slots=True)
class _Arrays:
    """The problem as arrays: present replicas on targets (`part`, `broker`), and per partition its rules."""

    part: Any
    broker: Any
    rack: Any
    rack_names: list[str]
    units: Any
    repeats: Any
    charged: Any
    weight: Any


def place_forced(problem: PlacementProblem) -> Placement:
    """Place with the most even counts over all targets, then with the fewest copies (or bytes).

    Leaders are then spread as evenly as the chosen replicas allow. Exact where the rack rule forbids
    repeats, and elsewhere up to about four million (partition, broker) pairs; beyond that the bound stays
    proven and the placement may miss it by a little. Cost: 7 s for 200,000 partitions on 600 brokers.
    """
    racks = [problem.rack_of(b) for b in problem.targets]
    wanted = [p.wanted for p in problem.partitions]
    rooms = rooms_for(problem.rule, racks, wanted)
    blocks = even_blocks(racks, rooms, Counter(wanted))
    arrays = _arrays(problem, racks, rooms)
    chosen, proof = _solve(problem, arrays, blocks)
    sets = [tuple(problem.targets[k] for k in row) for row in chosen]
    bound, argument = _bound(problem, arrays, blocks, proof)
    current = [p.current for p in problem.partitions]
    replicas = balance_leaders(current, keep_order(current, sets), problem.targets)
    unplaced = tuple(max(0, w - len(s)) for w, s in zip(wanted, sets, strict=True))
    return Placement(tuple(replicas), unplaced, bound, argument, proof=proof)


def _arrays(problem: PlacementProblem, racks: list[str | None], rooms: dict[int, FillRoom]) -> _Arrays:
    import numpy as np

    place = {b: k for k, b in enumerate(problem.targets)}
    names = sorted({r for r in racks if r})
    number = {r: k for k, r in enumerate(names)}
    pairs = [(i, place[b]) for i, p in enumerate(problem.partitions) for b in p.current if b in place]
    part, broker = (np.array([x[k] for x in pairs], dtype=np.int64) for k in (0, 1))
    room = [rooms[p.wanted] for p in problem.partitions]
    return _Arrays(
        part=part,
        broker=broker,
        rack=np.array([number[r] if r else -1 for r in racks], dtype=np.int64),
        rack_names=names,
        units=np.array([r.units for r in room], dtype=np.int64),
        repeats=np.array([r.repeats for r in room], dtype=np.int64),
        charged=np.array([r.rackless_repeats for r in room], dtype=bool),
        weight=_weights(problem),
    )


def _weights(problem: PlacementProblem) -> Any:
    import numpy as np

    if problem.minimize is Minimize.MOVES:
        return np.ones(len(problem.partitions), dtype=np.int64)
    return np.array([p.size_bytes or 0 for p in problem.partitions], dtype=np.int64)


def _solve(problem: PlacementProblem, a: _Arrays, blocks: list[Block]) -> tuple[list[list[int]], Proof]:
    """Chosen target positions by partition, and the broker prices at which no partition has a cheaper set."""
    import numpy as np

    count, brokers = len(problem.partitions), len(problem.targets)
    network = FlowNetwork()
    source = network.nodes(count)
    network.supply(np.arange(count), a.units)
    broker = network.nodes(brokers)
    pool = network.nodes(len(a.rack_names) + 1)
    repeat = network.nodes(count) if a.repeats.any() else source
    if a.repeats.any():
        network.arcs(source + np.arange(count), repeat + np.arange(count), a.repeats, 0)
    # Copies weigh `step` each, plus one, so that equal bytes are settled by fewer copies.
    step = len(a.part) + int(a.units.sum()) + 1
    if problem.minimize is Minimize.MOVES or int(a.weight.max(initial=0)) * step * 8 * (count + 1) >= _MAX_COST:
        step = 0
    price = a.weight * step + 1 if step else a.weight
    stays, explicit, pooled = _wire(network, a, price, source, broker, pool, repeat)
    into = network.arcs(
        pool + np.where(a.rack < 0, len(a.rack_names), a.rack), broker + np.arange(brokers), int(a.units.sum()) + 1, 0
    )
    totals: list[int] = []
    for block in blocks:
        ids = np.array(block.brokers, dtype=np.int64)
        totals.append(network.nodes(1))
        network.supply(broker + ids, -block.low)
        network.supply(totals[-1], block.low * len(ids) - block.total)
        network.arcs(broker + ids, totals[-1], 1, 0)
    network.solve()
    chosen: list[list[int]] = [[] for _ in range(count)]
    for (parts, ids), arcs in (stays, *explicit):
        taken = network.flow(arcs) > 0
        for p, b in zip(parts[taken].tolist(), ids[taken].tolist(), strict=True):
            chosen[p].append(b)
    _deal_pools(network, a, pooled, network.flow(into), chosen)
    worth = -network.potentials()
    prices, block_prices = worth[broker : broker + brokers].tolist(), worth[totals].tolist()
    return chosen, block_proof("replicas", problem.targets, blocks, prices, block_prices, price_unit=step or 1)


def _wire(
    network: FlowNetwork, a: _Arrays, price: Any, source: int, broker: int, pool: int, repeat: int
) -> tuple[Any, list[Any], list[Any]]:
    """Arcs from partitions to present brokers, to single new brokers, and to rack pools.

    Returns ((partition, broker), block) for stays, the same for explicit new arcs, and
    ((partition, rack), block) for pool arcs; rack -1 is the pool of rackless brokers.
    """
    import numpy as np

    count, racks = len(a.units), len(a.rack_names)
    rack_size = np.bincount(a.rack[a.rack >= 0], minlength=racks)
    here = a.rack[a.broker]
    present = np.zeros((count, racks), dtype=bool)
    present[a.part[here >= 0], here[here >= 0]] = True
    # A (partition, rack) pair needs a node of its own when stays or repeats share the rack's first place.
    pair_part, pair_rack = np.nonzero(present | (a.repeats > 0)[:, None])
    pair = network.nodes(len(pair_part))
    # One column more, so that "no rack" (-1) may index it where there are no racks at all.
    number = np.full((count, racks + 1), -1, dtype=np.int64)
    number[pair_part, pair_rack] = pair + np.arange(len(pair_part))
    network.arcs(source + pair_part, number[pair_part, pair_rack], 1, 0)
    again = a.repeats[pair_part] > 0
    if again.any():
        p, r = pair_part[again], pair_rack[again]
        network.arcs(repeat + p, number[p, r], rack_size[r] - 1, 0)
    rackless_from = np.where(a.charged, repeat, source) + np.arange(count)
    tails = np.where(here >= 0, number[a.part, here], rackless_from[a.part])
    stays = ((a.part, a.broker), network.arcs(tails, broker + a.broker, 1, 0))
    lone_part, lone_rack = np.nonzero(number[:, :racks] < 0)
    pooled = [
        ((lone_part, lone_rack), network.arcs(source + lone_part, pool + lone_rack, 1, price[lone_part])),
    ]
    single = ~again
    p, r = pair_part[single], pair_rack[single]
    pooled.append(((p, r), network.arcs(number[p, r], pool + r, 1, price[p])))
    explicit: list[Any] = []
    p, r = pair_part[again], pair_rack[again]
    if int(rack_size[r].sum()) <= _EXPLICIT_ARCS:
        new_part, new_broker = _others(a, p, r)
        if len(new_part):
            tails = number[new_part, a.rack[new_broker]]
            arcs = network.arcs(tails, broker + new_broker, 1, price[new_part])
            explicit.append(((new_part, new_broker), arcs))
    else:
        pooled.append(((p, r), network.arcs(number[p, r], pool + r, rack_size[r], price[p])))
    loose = int((a.rack < 0).sum())
    everyone = np.arange(count)
    if loose and loose * count <= _EXPLICIT_ARCS:
        new_part, new_broker = _others(a, everyone, np.full(count, -1))
        arcs = network.arcs(rackless_from[new_part], broker + new_broker, 1, price[new_part])
        explicit.append(((new_part, new_broker), arcs))
    elif loose:
        arcs = network.arcs(rackless_from, pool + racks, loose, price)
        pooled.append(((everyone, np.full(count, racks)), arcs))
    return stays, explicit, pooled


def _others(a: _Arrays, part: Any, rack: Any) -> tuple[Any, Any]:
    """(partition, broker) for every broker of the given racks that does not hold the partition now."""
    import numpy as np

    members = [np.nonzero(a.rack == r)[0] for r in range(-1, len(a.rack_names))]
    ids = [members[r + 1] for r in rack.tolist()]
    if not ids:
        return part, part
    new_part = np.repeat(part, [len(i) for i in ids])
    new_broker = np.concatenate(ids)
    brokers = len(a.rack)
    held = np.isin(new_part * brokers + new_broker, a.part * brokers + a.broker)
    return new_part[~held], new_broker[~held]


def _deal_pools(network: FlowNetwork, a: _Arrays, pooled: list[Any], quota: Any, chosen: list[list[int]]) -> None:
    import numpy as np

    racks = len(a.rack_names)
    for pool in range(racks + 1):
        takers: list[int] = []
        for (parts, to), arcs in pooled:
            amount = np.where(to == pool, network.flow(arcs), 0)
            takers.extend(np.repeat(parts, amount).tolist())
        members = np.nonzero(a.rack == (pool if pool < racks else -1))[0]
        takers.sort()
        for p, b in zip(takers, deal_pool(takers, members, quota[members], chosen), strict=True):
            chosen[p].append(b)


def _bound(problem: PlacementProblem, a: _Arrays, blocks: list[Block], proof: Proof) -> tuple[int, str]:
    """The proven least weight of new copies, with the simplest argument that reaches it."""
    import numpy as np

    bound = price_bound(_legal_sets(problem, a), proof, {b: k for k, b in enumerate(problem.targets)})
    held = np.bincount(a.broker, minlength=len(problem.targets))
    stay = lack = 0
    for block in blocks:
        ids = np.array(block.brokers, dtype=np.int64)
        most = int(np.minimum(held[ids], block.low + 1).sum())
        stay += min(most, block.total)
        lack += block.total - min(most, block.total)
    excess = int(held.sum()) - stay
    if problem.minimize is Minimize.MOVES and bound == lack:
        return bound, (
            f"the most even counts leave room for {stay} of the {int(held.sum())} replicas now on target brokers "
            f"({excess} lie above their broker's even share); {lack} replicas need a new copy, whatever the plan"
        )
    unit = "bytes" if problem.minimize is Minimize.BYTES else "copies"
    return bound, (
        f"with these counts, racks and brokers no placement needs fewer than {bound} {unit}: at the proof's broker "
        f"prices no replica set is cheaper than that in sum (counting room alone shows {lack} copies)"
    )


def _legal_sets(problem: PlacementProblem, a: _Arrays) -> LegalSets:
    import numpy as np

    count = len(problem.partitions)
    everyone = np.ones(len(problem.targets), dtype=bool)
    return LegalSets(
        racks=a.rack,
        receives=everyone,
        keeps=everyone,
        gives=everyone,
        offsets=np.concatenate([[0], np.cumsum(np.bincount(a.part, minlength=count))]),
        holders=a.broker,
        wanted=a.units,
        load=np.ones(count, dtype=np.int64),
        copy_cost=a.weight,
        min_rack_ids=problem.rule.min_rack_ids,
    )
