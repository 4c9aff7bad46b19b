"""Minimal-movement placement: what can stay stays, what leaves is replaced, and counts end up even.

A replica whose broker is a target stays, so the number of new copies is fixed by counting; which brokers
get them is one minimum-cost flow over groups of partitions that are alike. Where the replication factor
shrinks, the flow also chooses who leaves: rack repeats first, then copies out of sync, then evenness.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from kafkakit.core.certificate import Proof, ProofKind
from kafkakit.placement.counts.dealing import deal_units
from kafkakit.placement.counts.levels import solve_levels
from kafkakit.placement.counts.trimming import LEVEL_PRICE, Trimming
from kafkakit.placement.group_rule import FillRoom, fill_room
from kafkakit.placement.network import FlowNetwork
from kafkakit.placement.problem import Minimize, Placement, PlacementProblem

Lists = Sequence[tuple[int, ...]]


@dataclass(slots=True)
class _Group:
    """Partitions that may take the same new replicas: `open_racks` maps rack (None: rackless) to brokers."""

    room: FillRoom
    fresh: frozenset[str]
    open_racks: dict[str | None, tuple[int, ...]]
    members: list[int]


def place_minimal(problem: PlacementProblem) -> Placement:
    """Place with the fewest new copies; among those, with the most even replica counts.

    Cost: grouping is O(partitions); the flow is small unless rack repeats or rackless brokers make many
    groups, or the replication factor shrinks for many partitions.
    """
    targets = set(problem.targets)
    kept = [tuple(b for b in p.current if b in targets) for p in problem.partitions]
    trims = [i for i, p in enumerate(problem.partitions) if len(kept[i]) > p.wanted]
    groups = _groups(problem, kept)
    chosen = _solve(problem, kept, trims, groups)
    replicas: list[tuple[int, ...]] = []
    unplaced: list[int] = []
    for i, p in enumerate(problem.partitions):
        new = chosen.get(i, ())
        if len(kept[i]) > p.wanted:
            replicas.append(tuple(b for b in kept[i] if b in new))
        else:
            replicas.append(substitute(p.current, targets, new))
        unplaced.append(max(0, p.wanted - len(replicas[-1])))
    bound, argument = movement_bound(problem, unplaced)
    return Placement(
        tuple(replicas),
        tuple(unplaced),
        bound,
        argument,
        standing_notes(problem, replicas, kept),
        Proof(kind=ProofKind.COUNTING),
    )


def substitute(current: tuple[int, ...], targets: set[int], new: Sequence[int]) -> tuple[int, ...]:
    """Put new brokers into the places of those that leave, the rest at the end; unfilled places close up."""
    supply = iter(new)
    filled = [b if b in targets else next(supply, None) for b in current]
    return (*(b for b in filled if b is not None), *supply)


def _groups(problem: PlacementProblem, kept: list[tuple[int, ...]]) -> list[_Group]:
    by_rack: dict[str | None, list[int]] = defaultdict(list)
    for broker in problem.targets:
        by_rack[problem.rack_of(broker)].append(broker)
    rooms: dict[tuple[object, ...], FillRoom] = {}
    found: dict[tuple[object, ...], _Group] = {}
    for i, p in enumerate(problem.partitions):
        need = p.wanted - len(kept[i])
        if need <= 0:
            continue
        used = tuple(sorted(problem.rack_of(b) or "" for b in kept[i]))
        room = rooms.get((need, used))
        if room is None:
            room = rooms[need, used] = _room(problem, kept[i], p.wanted, by_rack)
        # Kept brokers matter only where a new replica could land beside them.
        beside = room.repeats > 0 or None in by_rack
        key = (need, used, tuple(sorted(kept[i])) if beside else ())
        group = found.get(key)
        if group is None:
            group = found[key] = _make_group(problem, kept[i], room, by_rack)
        group.members.append(i)
    return [g for g in found.values() if g.room.units]


def _room(
    problem: PlacementProblem, kept: tuple[int, ...], wanted: int, by_rack: dict[str | None, list[int]]
) -> FillRoom:
    """How many new replicas fit beside those that stay; it depends on their racks alone."""
    inside = Counter(problem.rack_of(b) for b in kept)
    return fill_room(
        problem.rule,
        [problem.rack_of(b) for b in kept],
        {rack: len(ids) - inside[rack] for rack, ids in by_rack.items() if rack is not None},
        len(by_rack.get(None, ())) - inside[None],
        wanted,
    )


def _make_group(
    problem: PlacementProblem, kept: tuple[int, ...], room: FillRoom, by_rack: dict[str | None, list[int]]
) -> _Group:
    free = {rack: tuple(b for b in ids if b not in kept) for rack, ids in by_rack.items()}
    used = {problem.rack_of(b) for b in kept}
    open_racks = {r: ids for r, ids in free.items() if ids and (r is None or r not in used or room.repeats)}
    return _Group(room, frozenset(r for r in open_racks if r and r not in used), open_racks, [])


def _solve(
    problem: PlacementProblem, kept: list[tuple[int, ...]], trims: list[int], groups: list[_Group]
) -> dict[int, tuple[int, ...]]:
    """New brokers by partition index for groups, staying brokers for trims."""
    import numpy as np

    place = {b: k for k, b in enumerate(problem.targets)}
    shrinking = set(trims)
    base = Counter(b for i, stay in enumerate(kept) if i not in shrinking for b in stay)
    base.update(problem.standing)
    total = sum(g.room.units * len(g.members) for g in groups) + sum(problem.partitions[i].wanted for i in trims)
    if not total:
        return dict.fromkeys(trims, ())
    trimming = Trimming(problem, kept, trims, place)
    group_arcs: list[list[tuple[int, str | None, tuple[int, ...]]]] = []

    def build(network: FlowNetwork) -> int:
        brokers = network.nodes(len(problem.targets))
        group_arcs[:] = [_add_group(network, g, place, brokers) for g in groups]
        trimming.wire(network, brokers)
        return brokers

    loads = np.array([base[b] for b in problem.targets], dtype=np.int64)
    network, _ = solve_levels(build, loads, total, scale=LEVEL_PRICE)
    chosen: dict[int, tuple[int, ...]] = {}
    for group, arcs in zip(groups, group_arcs, strict=True):
        flows = [
            (rack, broker, amount)
            for block, rack, ids in arcs
            for broker, amount in zip(ids, network.flow(block).tolist(), strict=True)
            if amount
        ]
        chosen.update(deal_units(group.members, flows, group.fresh, charged=_charged(group)))
    return chosen | trimming.staying(network)


def _charged(group: _Group) -> frozenset[str | None]:
    """Racks whose every unit uses up the allowance for repeats."""
    racks = {r for r in group.open_racks if r is not None and r not in group.fresh}
    return frozenset(racks | {None} if group.room.rackless_repeats else racks)


def _add_group(
    network: FlowNetwork, group: _Group, place: dict[int, int], brokers: int
) -> list[tuple[int, str | None, tuple[int, ...]]]:
    """Wire one group up; returns (block, rack, brokers) for each rack it may use."""
    import numpy as np

    n, room = len(group.members), group.room
    source = network.nodes(2)
    repeat = source + 1
    network.supply(source, n * room.units)
    network.arcs(source, repeat, n * room.repeats, 0)
    arcs: list[tuple[int, str | None, tuple[int, ...]]] = []
    charged = _charged(group)
    for rack, ids in sorted(group.open_racks.items(), key=lambda item: (item[0] is not None, item[0] or "")):
        node = network.nodes(1)
        if rack in charged:
            network.arcs(repeat, node, n * len(ids), 0)
        elif rack is None:
            network.arcs(source, node, n * len(ids), 0)
        else:
            network.arcs(source, node, n, 0)
            network.arcs(repeat, node, n * (len(ids) - 1), 0)
        heads = np.array([brokers + place[b] for b in ids])
        arcs.append((network.arcs(node, heads, n, 0), rack, ids))
    return arcs


def movement_bound(problem: PlacementProblem, unplaced: Sequence[int]) -> tuple[int, str]:
    """The least new copies (or bytes) and why: every missing replica needs one copy, whoever plans it."""
    targets = set(problem.targets)
    copies = weight = lost = 0
    leaving: set[int] = set()
    for p, missing in zip(problem.partitions, unplaced, strict=True):
        stay = sum(1 for b in p.current if b in targets)
        new = max(0, p.wanted - stay - missing)
        copies += new
        weight += new * (p.size_bytes or 0)
        if new:
            gone = [b for b in p.current if b not in targets]
            lost += min(new, len(gone))
            leaving.update(gone)
    if not copies:
        return 0, "every wanted replica is on a target broker already: nothing has to be copied"
    parts = []
    if lost:
        named = ", ".join(map(str, sorted(leaving)[:8])) + (", ..." if len(leaving) > 8 else "")
        parts.append(f"{lost} replicas must leave brokers that are not usable targets ({named})")
    if copies > lost:
        parts.append(f"{copies - lost} replicas are added by the replication factor")
    argument = " and ".join(parts) + "; each needs one new copy, whatever the plan"
    return (weight if problem.minimize is Minimize.BYTES else copies), argument


def standing_notes(problem: PlacementProblem, replicas: Lists, kept: Lists) -> tuple[str, ...]:
    """A note on lists that break the rack rule before (`kept`) and after (`replicas`), with copies that stay."""
    standing = sum(
        1
        for p, new in zip(kept, replicas, strict=True)
        if problem.rule.violates(map(problem.rack_of, p)) and problem.rule.violates(map(problem.rack_of, new))
    )
    if not standing:
        return ()
    return (
        f"{standing} partition(s) break the rack rule with replicas that stay; minimal movement leaves them "
        "(use --force-rebuild to place them anew)",
    )
