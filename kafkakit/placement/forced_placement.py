"""Forced placement: counts as even as they can be, and among those placements the cheapest one; with its bound.

kafka-kit's `--force-rebuild` forgets where replicas are and moves nearly all of them. Here evenness is fixed first
(`even_blocks`), then one minimum-cost flow keeps as many replicas, or bytes, as possible in place:

    partition -> (partition, rack) -> its present brokers there (free), or the rack's pool (one copy)
              -> rack pool -> broker -> block of brokers with a fixed total

Topics that tags keep to other brokers have rack pools of their own. Spread over a tag is not part of the flow: what it
leaves in place stays as far as the shares of the values allow, and the other copies are placed after it, one of each
partition at a time. The question is arrays: what stands where, what each partition may take, what a copy costs.

Large forced rebuilds have a smaller flow. Most partitions of a large cluster can keep a replica in each rack that has
one, whatever the plan. Replicas of such partitions on one broker are alike: each stays, or goes to another broker of
its rack at the cost of one copy. They make one node a broker instead of several a partition. Every tenth partition, and
each that must change racks, keeps all its choices. The result is a placement like any other; whether it is a cheapest
one is for the price bound to say: what must be copied at least, by broker prices, and why in words.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkakit.core.plan import Proof, ProofKind
from kafkakit.placement.group_rooms import Room, TagSteps, deal_pool
from kafkakit.placement.group_rule import NONE_CLOSED, kinds_of
from kafkakit.placement.leaders import even_leaders
from kafkakit.placement.network import Block, FlowInfeasibleError, FlowNetwork, block_proof
from kafkakit.placement.openings import OpeningsTask, even_blocks, fill_openings, group_partitions
from kafkakit.placement.price_bound import LegalSets, cheapest_sets, exact_sum, price_bound
from kafkakit.placement.problem import Minimize, Placement, PlacementProblem

if TYPE_CHECKING:
    from kafkakit.core.columns import Bools, Ints

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
    smaller flow of `settled_partitions` is not enough.
    """
    wanted = [p.wanted for p in problem.partitions]
    kinds = Kinds.of(problem)
    blocks = even_blocks(problem.targets, kinds.rooms, Counter(zip(kinds.kinds, wanted, strict=True)))
    arrays = inputs_of(problem, kinds)
    spreads = problem.rule.tags is not None and problem.rule.tags.spreads
    strict = spreads or any(room.strict for room in kinds.rooms.values())
    answer = None if strict else _settle_racks(problem, arrays, blocks)
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


@dataclass(frozen=True, slots=True)
class ForcedInputs:
    """The problem as arrays: replicas that may stay (`part`, `broker`), and per partition its rules.

    Partitions of one `kind` may use the same brokers: `open` has a row for each kind.
    """

    part: "Ints"
    broker: "Ints"
    rack: "Ints"
    rack_names: list[str]
    units: "Ints"
    repeats: "Ints"
    charged: "Bools"
    weight: "Ints"
    kind: "Ints"
    open: "Bools"

    @property
    def pools(self) -> int:
        """How many pools a kind has: one a rack, and one for brokers without a rack."""
        return len(self.rack_names) + 1

    @property
    def pool_of(self) -> "Ints":
        """The pool of each broker, counted from the first of a kind."""
        import numpy as np

        found: Ints = np.where(self.rack < 0, len(self.rack_names), self.rack)
        return found

    @property
    def rack_sizes(self) -> "Ints":
        """How many brokers of each rack each kind may use."""
        import numpy as np

        racks = np.arange(len(self.rack_names))
        found: Ints = (self.open[:, :, None] & (self.rack[:, None] == racks)).sum(axis=1)
        return found


def _settle_racks(
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

    With `settled` partitions in a smaller flow (`settled_partitions`), to which only the prices belong.
    """
    import numpy as np

    a, names = (every, np.arange(len(every.units))) if settled is None else drop_settled(every, settled)
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
        new_part, new_broker = _other_brokers(a, p, r)
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
        new_part, new_broker = _other_brokers(a, everyone, np.full(count, -1))
        arcs = network.arcs(rackless_from[new_part], broker + new_broker, 1, price[new_part])
        explicit.append(((new_part, new_broker), arcs))
    elif loose:
        arcs = network.arcs(rackless_from, pool + first + racks, loose, price)
        pooled.append(((everyone, first + racks), arcs))
    return stays, explicit, pooled


def _other_brokers(a: ForcedInputs, part: "Ints", rack: "Ints") -> "tuple[Ints, Ints]":
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


_MAX_COST = 1 << 62


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of a problem's partitions, what each may use, and its room for a partition that wants so many."""

    kinds: list[int]
    open: list[list[bool]]
    rooms: Mapping[tuple[int, int], Room]

    @classmethod
    def of(cls, problem: PlacementProblem) -> "Kinds":
        """Look at each kind once."""
        grouping, targets = problem.grouping_anew, problem.targets
        keys = [p.key for p in problem.partitions]
        kinds, open_to = kinds_of(problem.rule.tags, (key.topic for key in keys), targets, problem.closed_by_index())
        among = [frozenset(b for b, is_open in zip(targets, row, strict=True) if is_open) for row in open_to]
        wanted = sorted({(kind, p.wanted) for kind, p in zip(kinds, problem.partitions, strict=True)})
        return cls(kinds, open_to, {(k, w): grouping.narrowed(among[k]).room_beside((), w) for k, w in wanted})


def inputs_of(problem: PlacementProblem, kinds: Kinds) -> ForcedInputs:
    """The arrays of a problem."""
    import numpy as np

    racks = [problem.rack_of(b) for b in problem.targets]

    place = {b: k for k, b in enumerate(problem.targets)}
    names = sorted({r for r in racks if r})
    number = {r: k for k, r in enumerate(names)}
    pairs = [
        (i, place[b])
        for i, (p, kind) in enumerate(zip(problem.partitions, kinds.kinds, strict=True))
        for b in p.current
        if b in place and kinds.open[kind][place[b]]
    ]
    part, broker = (np.array([x[k] for x in pairs], dtype=np.int64) for k in (0, 1))
    room = [kinds.rooms[kind, p.wanted] for kind, p in zip(kinds.kinds, problem.partitions, strict=True)]
    return ForcedInputs(
        part=part,
        broker=broker,
        rack=np.array([number[r] if r else -1 for r in racks], dtype=np.int64),
        rack_names=names,
        units=np.array([r.units for r in room], dtype=np.int64),
        repeats=np.array([r.repeats for r in room], dtype=np.int64),
        charged=np.array([None in r.charged for r in room], dtype=bool),
        weight=_weights(problem),
        kind=np.array(kinds.kinds, dtype=np.int64),
        open=np.array(kinds.open, dtype=bool).reshape(len(kinds.open), len(racks)),
    )


def _weights(problem: PlacementProblem) -> "Ints":
    import numpy as np

    if problem.minimize is Minimize.MOVES:
        return np.ones(len(problem.partitions), dtype=np.int64)
    return np.array([p.size_bytes or 0 for p in problem.partitions], dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyCosts:
    """What a new copy of each partition costs in the flow; prices times `scale`, over `price_unit`, are in weights."""

    cost: "Ints"
    price_unit: int = 1
    scale: int = 1


def copy_costs(a: ForcedInputs, nodes: int, *, by_bytes: bool) -> CopyCosts:
    """Costs that the exact arithmetic of a flow over `nodes` nodes can hold.

    Bytes weigh so much, plus one a copy, that equal bytes are settled by fewer copies. Sizes too large for that
    count alone, and those too large even for that (beyond 5 TiB at 200,000 partitions) lose their lowest bits.
    """
    heaviest = int(a.weight.max(initial=0))
    step = len(a.part) + int(a.units.sum()) + 1
    if by_bytes and (heaviest * step + 1) * (nodes + 1) < _MAX_COST:
        return CopyCosts(cost=a.weight * step + 1, price_unit=step)
    shift = 0
    while (heaviest >> shift) * (nodes + 1) >= _MAX_COST:
        shift += 1
    return CopyCosts(cost=a.weight >> shift, scale=1 << shift)


LARGE = 50_000
"""From so many partitions on."""
_FREE = 10


def settled_partitions(problem: PlacementProblem, a: ForcedInputs) -> "Bools":
    """Which partitions keep to their racks; none in small problems, and where copies differ in cost.

    Each has as many replicas as it wants, all of them on targets, in racks of their own.
    """
    import numpy as np

    count = len(problem.partitions)
    if count < LARGE or problem.minimize is not Minimize.MOVES:
        return np.zeros(count, dtype=bool)
    racks = len(a.rack_names)
    in_rack = a.rack[a.broker] >= 0
    places = np.unique(a.part[in_rack] * racks + a.rack[a.broker[in_rack]])
    spanned = np.bincount(places // max(racks, 1), minlength=count)
    held = np.bincount(a.part, minlength=count)
    settled: Bools = (spanned == held) & (held == a.units) & (a.repeats == 0) & (np.arange(count) % _FREE > 0)
    return settled


@dataclass(frozen=True, slots=True)
class SettledReplicas:
    """The replicas of settled partitions (`part`, `broker`, `pool`), grouped by kind and broker.

    Those of group g are `first[g]` to `first[g + 1]`, the largest first; `stays` is the block of arcs from groups
    to their brokers.
    """

    part: "Ints"
    broker: "Ints"
    pool: "Ints"
    first: "Ints"
    stays: int

    @classmethod
    def wired(
        cls, network: FlowNetwork, a: ForcedInputs, settled: "Bools", sizes: "Ints", broker: int, pool: int
    ) -> "SettledReplicas":
        """Add a node for each group, with its replicas as supply and an arc to its broker and one to its pool."""
        import numpy as np

        mine = settled[a.part]
        part, held = a.part[mine], a.broker[mine]
        group = a.kind[part] * len(a.rack) + held
        order = np.lexsort((part, -sizes[part], group))
        part, held, group = part[order], held[order], group[order]
        to = a.kind[part] * a.pools + a.rack[held]
        _, starts = np.unique(group, return_index=True)
        first = np.append(starts, len(part))
        amount = np.diff(first)
        node = network.nodes(len(starts)) + np.arange(len(starts))
        network.supply(node, amount)
        stays = network.arcs(node, broker + held[starts], amount, 0)
        network.arcs(node, pool + to[starts], amount, 1)
        return cls(part, held, to, first, stays)

    def staying(self, network: FlowNetwork) -> "Ints":
        """1 for replicas that stay in the solved flow: the largest of each group, so that few bytes are copied."""
        import numpy as np

        amount = np.diff(self.first)
        rank = np.arange(len(self.part)) - np.repeat(self.first[:-1], amount)
        stay: Ints = (rank < np.repeat(network.flow(self.stays), amount)).astype(np.int64)
        return stay


def drop_settled(a: ForcedInputs, settled: "Bools") -> "tuple[ForcedInputs, Ints]":
    """The inputs of the other partitions, numbered anew, and their old numbers."""
    import numpy as np

    rest = np.nonzero(~settled)[0]
    number = np.cumsum(~settled) - 1
    kept = ~settled[a.part]
    return replace(
        a,
        part=number[a.part[kept]],
        broker=a.broker[kept],
        units=a.units[rest],
        repeats=a.repeats[rest],
        charged=a.charged[rest],
        weight=a.weight[rest],
        kind=a.kind[rest],
    ), rest


def spread_out(problem: PlacementProblem, sets: Sequence[Row]) -> list[Row]:
    """Sets that keep every constraint, with the copies of `sets` that are in place now as far as these allow.

    Each step is as even as it can be, the counts in the end may be a little less so. Partitions with as many copies
    in place are looked at by the kinds of brokers that hold them.
    """
    tags, grouping = problem.rule.tags, problem.grouping_anew
    if tags is None:
        raise ValueError("the rule has no constraints by tags")
    steps = TagSteps(grouping, tags, repairs=False)
    kept = [_staying_copies(problem, steps, i, row) for i, row in enumerate(sets)]
    openings = {
        i: (row, p.wanted)
        for i, (row, p) in enumerate(zip(kept, problem.partitions, strict=True))
        if len(row) < p.wanted
    }
    loads = Counter(dict.fromkeys(problem.targets, 0))
    loads.update(b for row in kept for b in row)
    rooms = [a for a in group_partitions(openings, grouping, repairs=False) if a.room.units]
    chosen, _ = fill_openings(OpeningsTask(rooms, loads))
    return [(*row, *chosen.get(i, ())) for i, row in enumerate(kept)]


def new_copies_by_spread(problem: PlacementProblem, placed: Sequence[int]) -> list[int]:
    """The least new copies of each partition, so many of which are placed: those beyond the share of a value leave."""
    tags = problem.rule.tags
    found = []
    for row, p, size in zip(problem.staying(), problem.partitions, placed, strict=True):
        stay = len(row)
        for c in tags.spread_over if tags is not None else ():
            held = Counter(c.values[b] for b in row if b in c.values)
            stay = min(stay, len(row) - sum(max(0, n - c.share(p.wanted)) for n in held.values()))
        found.append(max(0, size - stay))
    return found


def _staying_copies(problem: PlacementProblem, steps: TagSteps, index: int, row: Row) -> Row:
    """The copies of a set that are in place and within every share, and beside which the set can be completed."""
    partition = problem.partitions[index]
    topic, wanted = partition.key.topic, partition.wanted
    kept: Row = ()
    for broker in (b for b in partition.current if b in row):
        if steps.tags.open_to(topic, kept, wanted, (broker,)):
            kept = (*kept, broker)
    most = steps.next_copy(index, (), wanted)[0]
    while kept and len(kept) + steps.next_copy(index, kept, wanted)[0] < most:
        kept = kept[:-1]
    return kept


def forced_bound(
    problem: PlacementProblem, a: ForcedInputs, blocks: Sequence[Block], proof: Proof
) -> tuple[int, str, Proof]:
    """The proven least weight of new copies, the simplest argument that reaches it, and the proof."""
    problem, a = _without_closed(problem, a)
    try:
        bound = price_bound(_legal_sets(problem, a), proof, {b: k for k, b in enumerate(problem.targets)})
    except OverflowError:
        return 0, "sizes this large cannot be added up in prices, so nothing is proven", Proof(kind=ProofKind.NONE)
    held, stay, lack = _count_room(a, blocks)
    if problem.minimize is Minimize.MOVES and bound == lack:
        argument = (
            f"the most even counts leave room for {stay} of the {held} replicas now on target brokers "
            f"({held - stay} lie above their broker's even share); any plan has to copy {lack} replicas"
        )
        return bound, argument, proof
    unit = "bytes" if problem.minimize is Minimize.BYTES else "copies"
    argument = (
        f"with these counts, racks and brokers no placement needs fewer than {bound} {unit}: at the proof's broker "
        f"prices no replica sets cost less in sum (counting free places shows only {lack} copies)"
    )
    return bound, argument, proof


def bound_by_sets(
    problem: PlacementProblem, a: ForcedInputs, proof: Proof, placed: Sequence[int]
) -> tuple[int, str, Proof]:
    """The least weight of new copies that each partition needs for itself, whatever the counts of brokers.

    For requests whose most even counts are not known to be the only ones; so many replicas are `placed` of each
    partition. The proof keeps the limits, unpriced; with spread over tags it has none.
    """
    import numpy as np

    problem, a = _without_closed(problem, a)
    tags = problem.rule.tags
    spreads = tags.spread_over if tags is not None else ()
    limits = () if spreads else tuple(replace(limit, price=0) for limit in proof.limits)
    sets = replace(_legal_sets(problem, a), wanted=np.array(placed, dtype=np.int64))
    alone = cheapest_sets(sets, np.zeros(len(problem.targets), dtype=np.int64), 1)
    lacking = np.array(new_copies_by_spread(problem, placed), dtype=np.int64)
    bound = exact_sum(np.maximum(alone, lacking * a.weight))
    unit = "bytes" if problem.minimize is Minimize.BYTES else "copies"
    beside = f"with brokers without a rack and --min-rack-ids {problem.rule.most_spanned}"
    why = f"with {', '.join(c.text for c in spreads)}" if spreads else beside
    argument = (
        f"each partition for itself needs {bound} {unit} in sum; {why} other counts may be as even, and nothing is "
        "proven for them"
    )
    return bound, argument, replace(proof, price_unit=1, limits=limits, groups=())


def _without_closed(problem: PlacementProblem, a: ForcedInputs) -> tuple[PlacementProblem, ForcedInputs]:
    """For a bound: what finds no space beside the others may find it in another plan."""
    if not problem.rule.closed.closes:
        return problem, a
    wider = replace(problem, rule=replace(problem.rule, closed=NONE_CLOSED))
    return wider, replace(inputs_of(wider, Kinds.of(wider)), units=a.units)


def _count_room(a: ForcedInputs, blocks: Sequence[Block]) -> tuple[int, int, int]:
    """Replicas on targets now, how many of them the even counts have room for, and how many must be new copies."""
    import numpy as np

    held = np.bincount(a.broker, minlength=len(a.rack))
    stay = lack = 0
    for block in blocks:
        most = int(np.minimum(held[np.array(block.brokers, dtype=np.int64)], block.low + 1).sum())
        stay += min(most, block.total)
        lack += block.total - min(most, block.total)
    return int(held.sum()), stay, lack


def _legal_sets(problem: PlacementProblem, a: ForcedInputs) -> LegalSets:
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
        rule=problem.rule,
        kind=a.kind,
        open=a.open,
    )
