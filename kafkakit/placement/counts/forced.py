"""Forced placement: counts as even as they can be, and among those placements the cheapest one.

kafka-kit's `--force-rebuild` forgets where replicas are and moves nearly all of them. Here evenness is fixed
first (`even_counts.py`), then one minimum-cost flow keeps as many replicas, or bytes, as possible in place:

    partition -> (partition, rack) -> its present brokers there (free), or the rack's pool (one copy)
              -> rack pool -> broker -> block of brokers with a fixed total

Topics that tags keep to other brokers have rack pools of their own. Spread over a tag is not part of the flow: what it
leaves in place stays as far as the shares of the values allow, and the other copies are placed after it, one of each
partition at a time.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkakit.core.certificate import Proof
from kafkakit.placement.counts.blocks import Block, block_proof
from kafkakit.placement.counts.even_counts import deal_pool, even_blocks
from kafkakit.placement.counts.forced_bound import bound_by_sets, forced_bound
from kafkakit.placement.counts.forced_inputs import ForcedInputs, Kinds, copy_costs, inputs_of
from kafkakit.placement.counts.forced_settled import SettledReplicas, settled_partitions, without
from kafkakit.placement.counts.forced_spread import spread_out
from kafkakit.placement.leaders import even_leaders
from kafkakit.placement.network import FlowInfeasibleError, FlowNetwork
from kafkakit.placement.problem import Minimize, Placement, PlacementProblem

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Bools, Ints

    Wired = tuple[tuple[Ints, Ints], int]
    """Partition and broker (or rack) of each arc of a block, and the block's number."""

Row = tuple[int, ...]
_EXPLICIT_ARCS = 4_000_000


def place_forced(problem: PlacementProblem) -> Placement:
    """Place with the most even counts over all targets, then with the fewest copies (or bytes).

    Leaders are then spread as evenly as the chosen replicas allow. Where brokers without a rack stand beside
    `min_rack_ids` of two and more, sets are read strictly (`group_rooms`): other counts may be as even,
    so the bound there counts no evenness, and neither does it with spread over a tag. Exact where the rack rule forbids
    repeats, and elsewhere up to about four million (partition, broker) pairs; beyond that the bound stays
    proven and the placement may miss it by a little. Cost: 4 s for 200,000 partitions on 600 brokers, 12 s where the
    smaller flow of `forced_settled.py` is not enough.
    """
    wanted = [p.wanted for p in problem.partitions]
    kinds = Kinds.of(problem)
    blocks = even_blocks(problem.targets, kinds.rooms, Counter(zip(kinds.kinds, wanted, strict=True)))
    arrays = inputs_of(problem, kinds)
    spreads = problem.rule.tags is not None and problem.rule.tags.spreads
    strict = spreads or any(room.strict for room in kinds.rooms.values())
    answer = None if strict else _settled(problem, arrays, blocks)
    if answer is not None:
        chosen, (bound, argument, proof) = answer
    else:
        chosen, proof, _ = _solve(problem, arrays, blocks)
        if not strict:
            bound, argument, proof = forced_bound(problem, arrays, blocks, proof)
    sets = [tuple(map(problem.targets.__getitem__, row)) for row in chosen]
    if spreads:
        sets = spread_out(problem, sets)
    if strict:
        bound, argument, proof = bound_by_sets(problem, arrays, proof, [len(row) for row in sets])
    current = [p.current for p in problem.partitions]
    replicas = even_leaders(current, list(map(_in_order, current, sets)), problem.targets)
    unplaced = tuple(max(0, w - len(s)) for w, s in zip(wanted, sets, strict=True))
    return Placement(tuple(replicas), unplaced, bound, argument, proof=proof)


def _in_order(now: Row, chosen: Row) -> Row:
    """The replicas that stay first, in their old order, then the new ones by id."""
    stay = tuple(b for b in now if b in chosen)
    return (*stay, *sorted(b for b in chosen if b not in stay))


def _settled(
    problem: PlacementProblem, a: ForcedInputs, blocks: list[Block]
) -> tuple[list[list[int]], tuple[int, str, Proof]] | None:
    """Chosen target positions, most partitions kept to their racks, and the bound; None where that may cost more."""
    settled = settled_partitions(problem, a)
    if not settled.any():
        return None
    try:
        chosen, proof, copies = _solve(problem, a, blocks, settled)
    except FlowInfeasibleError:
        return None
    bound = forced_bound(problem, a, blocks, proof)
    return (chosen, bound) if bound[0] == copies else None


def _solve(
    problem: PlacementProblem, every: ForcedInputs, blocks: list[Block], settled: "Bools | None" = None
) -> tuple[list[list[int]], Proof, int]:
    """Chosen target positions by partition, the broker prices at which no partition has a cheaper set, and the cost.

    With `settled` partitions in a smaller flow (`forced_settled.py`), to which alone the prices belong.
    """
    import numpy as np

    a, names = (every, np.arange(len(every.units))) if settled is None else without(every, settled)
    count, brokers = len(a.units), len(problem.targets)
    network = FlowNetwork()
    source = network.nodes(count)
    network.supply(np.arange(count), a.units)
    broker = network.nodes(brokers)
    pool = network.nodes(a.pools * len(a.open))
    repeat = network.nodes(count) if a.repeats.any() else source
    if a.repeats.any():
        network.arcs(source + np.arange(count), repeat + np.arange(count), a.repeats, 0)
    most_nodes = count * (2 + len(a.rack_names)) + 2 * brokers + a.pools * len(a.open) + 1
    costs = copy_costs(a, most_nodes, by_bytes=problem.minimize is Minimize.BYTES)
    stays, explicit, pooled = _wire(network, a, costs.cost, source, broker, pool, repeat)
    kind, user = np.nonzero(a.open)
    into = network.arcs(pool + kind * a.pools + a.pool_of[user], broker + user, int(a.units.sum()) + 1, 0)
    totals: list[int] = []
    for block in blocks:
        ids = np.array(block.brokers, dtype=np.int64)
        totals.append(network.nodes(1))
        network.supply(broker + ids, -block.low)
        network.supply(totals[-1], block.low * len(ids) - block.total)
        network.arcs(broker + ids, totals[-1], 1, 0)
    kept = None
    if settled is not None:
        sizes = np.array([p.size_bytes or 0 for p in problem.partitions], dtype=np.int64)
        kept = SettledReplicas.wired(network, every, settled, sizes, broker, pool)
    cost = network.solve()
    chosen: list[list[int]] = [[] for _ in problem.partitions]
    flows = [(names[parts], ids, network.flow(arcs)) for (parts, ids), arcs in (stays, *explicit)]
    takers = [(names[parts], to, network.flow(arcs)) for (parts, to), arcs in pooled]
    if kept is not None:
        stay = kept.staying(network)
        flows.append((kept.part, kept.broker, stay))
        takers.append((kept.part, kept.pool, 1 - stay))
    for parts, ids, flow in flows:
        taken = flow > 0
        for p, b in zip(parts[taken].tolist(), ids[taken].tolist(), strict=True):
            chosen[p].append(b)
    quota = np.zeros(a.open.shape, dtype=np.int64)
    quota[kind, user] = network.flow(into)
    _deal_pools(a, takers, quota, chosen)
    worth = [-distance * costs.scale for distance in network.potentials().tolist()]
    prices, block_prices = worth[broker : broker + brokers], [worth[node] for node in totals]
    proof = block_proof("replicas", problem.targets, blocks, prices, block_prices, price_unit=costs.price_unit)
    return chosen, proof, cost


def _wire(
    network: FlowNetwork, a: ForcedInputs, price: "Ints", source: int, broker: int, pool: int, repeat: int
) -> "tuple[Wired, list[Wired], list[Wired]]":
    """Arcs from partitions to present brokers, to single new brokers, and to rack pools.

    Returns ((partition, broker), block) for stays, the same for explicit new arcs, and
    ((partition, pool), block) for pool arcs.
    """
    import numpy as np

    count, racks = len(a.units), len(a.rack_names)
    rack_size, first = a.rack_sizes, a.kind * a.pools
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
        network.arcs(repeat + p, number[p, r], np.maximum(rack_size[a.kind[p], r] - 1, 0), 0)
    rackless_from = np.where(a.charged, repeat, source) + np.arange(count)
    tails = np.where(here >= 0, number[a.part, here], rackless_from[a.part])
    stays = ((a.part, a.broker), network.arcs(tails, broker + a.broker, 1, 0))
    lone_part, lone_rack = np.nonzero(number[:, :racks] < 0)
    to = first[lone_part] + lone_rack
    pooled = [((lone_part, to), network.arcs(source + lone_part, pool + to, 1, price[lone_part]))]
    single = ~again
    p, r = pair_part[single], pair_rack[single]
    to = first[p] + r
    pooled.append(((p, to), network.arcs(number[p, r], pool + to, 1, price[p])))
    explicit: list[Wired] = []
    p, r = pair_part[again], pair_rack[again]
    if int(rack_size[a.kind[p], r].sum()) <= _EXPLICIT_ARCS:
        new_part, new_broker = _others(a, p, r)
        if len(new_part):
            tails = number[new_part, a.rack[new_broker]]
            arcs = network.arcs(tails, broker + new_broker, 1, price[new_part])
            explicit.append(((new_part, new_broker), arcs))
    else:
        to = first[p] + r
        pooled.append(((p, to), network.arcs(number[p, r], pool + to, rack_size[a.kind[p], r], price[p])))
    loose = int((a.rack < 0).sum())
    everyone = np.arange(count)
    if loose and loose * count <= _EXPLICIT_ARCS:
        new_part, new_broker = _others(a, everyone, np.full(count, -1))
        arcs = network.arcs(rackless_from[new_part], broker + new_broker, 1, price[new_part])
        explicit.append(((new_part, new_broker), arcs))
    elif loose:
        arcs = network.arcs(rackless_from, pool + first + racks, loose, price)
        pooled.append(((everyone, first + racks), arcs))
    return stays, explicit, pooled


def _others(a: ForcedInputs, part: "Ints", rack: "Ints") -> "tuple[Ints, Ints]":
    """(partition, broker) for every broker of the given racks that may hold the partition, and does not now."""
    import numpy as np

    members = [np.nonzero(a.rack == r)[0] for r in range(-1, len(a.rack_names))]
    ids = [members[r + 1] for r in rack.tolist()]
    if not ids:
        return part, part
    new_part = np.repeat(part, [len(i) for i in ids])
    new_broker = np.concatenate(ids)
    brokers = len(a.rack)
    held = np.isin(new_part * brokers + new_broker, a.part * brokers + a.broker)
    new = ~held & a.open[a.kind[new_part], new_broker]
    return new_part[new], new_broker[new]


def _deal_pools(
    a: ForcedInputs, takers: "Sequence[tuple[Ints, Ints, Ints]]", quota: "Ints", chosen: list[list[int]]
) -> None:
    """Give the brokers of each pool to those who take from it: partition, pool and how many, in arrays."""
    import numpy as np

    for pool in range(a.pools * len(a.open)):
        kind, place = divmod(pool, a.pools)
        taking = np.sort(np.concatenate([np.repeat(p, np.where(to == pool, amount, 0)) for p, to, amount in takers]))
        members = np.nonzero((a.pool_of == place) & a.open[kind])[0]
        parts = taking.tolist()
        for p, b in zip(parts, deal_pool(parts, members, quota[kind, members], chosen), strict=True):
            chosen[p].append(b)
