"""Minimal-movement placement: what can stay stays, what leaves is replaced, and counts end up even.

A replica whose broker is a target stays, so the number of new copies is fixed by counting; which brokers
get them is one minimum-cost flow over groups of partitions that are alike. Where the replication factor
shrinks, the flow also chooses who leaves: rack repeats first, then copies out of sync, then evenness.
"""

from collections import Counter
from collections.abc import Sequence

from kafkakit.core.certificate import Proof, ProofKind
from kafkakit.placement.openings.fill import LEVEL_PRICE, alike, fill_openings
from kafkakit.placement.openings.surplus import Surplus
from kafkakit.placement.problem import Minimize, Placement, PlacementProblem, PlannedPartition

Row = tuple[int, ...]
Lists = Sequence[Row]
# Prices, each far above all that lie below it: place in the list, evenness, copies out of sync, rack repeats.
_OUT_OF_SYNC = 10**9
_RACK_REPEAT = 10**11
_LEADER = -(10**12)


def place_minimal(problem: PlacementProblem) -> Placement:
    """Place with the fewest new copies; among those, with the most even replica counts.

    Cost: grouping is O(partitions); the flow is small unless rack repeats or rackless brokers make many
    groups, or the replication factor shrinks for many partitions.
    """
    kept = problem.staying()
    openings = {i: (row, p.wanted) for i, (row, p) in enumerate(zip(kept, problem.partitions, strict=True))}
    shrinking = {i for i, (row, wanted) in openings.items() if len(row) > wanted}
    lacking = {i: opening for i, opening in openings.items() if len(opening[0]) < opening[1]}
    rooms = [a for a in alike(lacking, problem.grouping, repairs=False) if a.room.units]
    held = Counter(b for i, row in enumerate(kept) if i not in shrinking for b in row)
    held.update(problem.standing)
    chosen, staying = fill_openings(
        rooms,
        {b: held[b] for b in problem.targets},
        _surplus(problem, kept, sorted(shrinking)),
        level_price=LEVEL_PRICE,
        repeat_price=_RACK_REPEAT,
    )
    replicas = [
        staying[i] if i in staying else substitute(p.current, set(kept[i]), chosen.get(i, ()))
        for i, p in enumerate(problem.partitions)
    ]
    unplaced = [max(0, p.wanted - len(row)) for p, row in zip(problem.partitions, replicas, strict=True)]
    bound, argument = movement_bound(problem, unplaced)
    return Placement(
        tuple(replicas),
        tuple(unplaced),
        bound,
        argument,
        standing_notes(problem, replicas, kept),
        Proof(kind=ProofKind.COUNTING),
    )


def substitute(current: Row, targets: set[int], new: Sequence[int]) -> Row:
    """Put new brokers into the places of those that leave, the rest at the end; unfilled places close up."""
    supply = iter(new)
    filled = [b if b in targets else next(supply, None) for b in current]
    return (*(b for b in filled if b is not None), *supply)


def _surplus(problem: PlacementProblem, kept: Lists, shrinking: Sequence[int]) -> list[Surplus]:
    """The sets of which some replicas leave; the leader stays."""
    racks = sorted({r for i in shrinking for b in kept[i] if (r := problem.rack_of(b))})
    number = {rack: k for k, rack in enumerate(racks)}
    return [
        Surplus(
            index=i,
            replicas=kept[i],
            prices=tuple(_price(problem.partitions[i], position, b) for position, b in enumerate(kept[i])),
            groups=tuple(number[r] if (r := problem.rack_of(b)) else -1 for b in kept[i]),
            stay=problem.partitions[i].wanted,
        )
        for i in shrinking
    ]


def _price(partition: PlannedPartition, position: int, broker: int) -> int:
    if broker == partition.current[0]:
        return _LEADER
    stale = partition.in_sync is not None and broker not in partition.in_sync
    return min(position, LEVEL_PRICE - 1) + (_OUT_OF_SYNC if stale else 0)


def movement_bound(problem: PlacementProblem, unplaced: Sequence[int]) -> tuple[int, str]:
    """The least new copies (or bytes) and why: every missing replica needs one copy, whatever the plan."""
    copies = weight = lost = 0
    leaving: set[int] = set()
    for p, stays, missing in zip(problem.partitions, problem.staying(), unplaced, strict=True):
        stay = len(stays)
        new = max(0, p.wanted - stay - missing)
        copies += new
        weight += new * (p.size_bytes or 0)
        if new:
            gone = [b for b in p.current if b not in stays]
            lost += min(new, len(gone))
            leaving.update(gone)
    if not copies:
        return 0, "every wanted replica is on a target broker already: nothing has to be copied"
    parts = []
    if lost:
        named = ", ".join(map(str, sorted(leaving)[:8])) + (", ..." if len(leaving) > 8 else "")
        closed = "" if problem.rule.tags is None else ", or that tags close to their topic"
        parts.append(f"{lost} replicas must leave brokers that are not usable targets{closed} ({named})")
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
        "(use --force-rebuild to place them again)",
    )
