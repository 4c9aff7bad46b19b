"""Minimal-movement placement: what can stay stays, what leaves is replaced, and counts end up even.

A replica whose broker is a target stays, so the number of new copies is fixed by counting; which brokers get them is
one minimum-cost flow over groups of partitions that are alike. If the replication factor shrinks, the flow also chooses
who leaves: rack repeats first, then copies out of sync, then evenness.

Under substitution affinity each outgoing broker is replaced everywhere by one specific new broker.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkakit.core.errors import OperationFailedError
from kafkakit.core.plan import Proof, ProofKind
from kafkakit.core.quantities import count_of
from kafkakit.placement.group_rule import SpreadRule
from kafkakit.placement.openings import LEVEL_PRICE, OpeningsTask, Surplus, fill_openings, group_partitions
from kafkakit.placement.problem import BrokerChange, Minimize, Placement, PlacementProblem, PlannedPartition

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
    rooms = [a for a in group_partitions(lacking, problem.grouping, repairs=False) if a.room.units]
    held = Counter(b for i, row in enumerate(kept) if i not in shrinking for b in row)
    held.update(problem.standing)
    loads, surplus = {b: held[b] for b in problem.targets}, _surplus(problem, kept, sorted(shrinking))
    chosen, staying = fill_openings(
        OpeningsTask(rooms, loads, surplus, level_price=LEVEL_PRICE, repeat_price=_RACK_REPEAT)
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
    short = sum(map(bool, unplaced))
    if not copies and short:
        lacking = f"{count_of(short, 'partition')} {'lacks' if short == 1 else 'lack'}"
        return 0, f"what {lacking} finds no place, and the others need no copy: nothing has to be copied"
    if not copies:
        return 0, "every wanted replica is on a target broker already: nothing has to be copied"
    parts = []
    if lost:
        named = ", ".join(map(str, sorted(leaving)[:8])) + (", ..." if len(leaving) > 8 else "")
        closed = "" if problem.rule.tags is None else ", or that tag constraints exclude"
        parts.append(f"{count_of(lost, 'replica')} must leave brokers that are not usable targets{closed} ({named})")
    if copies > lost:
        added = copies - lost
        parts.append(f"{count_of(added, 'replica')} {'is' if added == 1 else 'are'} added by the replication factor")
    each = "it once" if copies == 1 else "each of them once"
    argument = f"{' and '.join(parts)}; any plan has to copy {each}"
    if short:
        argument = f"of the replicas that find a place, {argument}"
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


@dataclass(frozen=True, slots=True)
class Affinity:
    """`new` stands in for `old`; `inferred` when the old broker's rack had to be guessed."""

    old: int
    new: int
    inferred: bool

    def __str__(self) -> str:
        return f"{self.old} -> {self.new} {'(inferred)' if self.inferred else ''}"


def find_affinities(
    partitions: Sequence[PlannedPartition], change: BrokerChange, racks: Mapping[int, str | None]
) -> tuple[Affinity, ...]:
    """Pair each outgoing broker with a new one: missing ones first, then by equal rack, lowest ids first.

    A missing broker's rack is unknown; it is inferred as a rack that sets without it use and sets with it
    do not. Pairing goes by id, so the same input gives the same pairs. Raises `OperationFailedError` with
    kafka-kit's texts when there are too few new brokers.
    """
    gone = sorted({*change.previous_missing})
    leaving = [b for b in change.replace if b not in gone]
    free = list(change.new)
    if len(free) < len(gone) + len(leaving):
        raise OperationFailedError(
            "Substitution affinity error: Insufficient number of new brokers",
            hint=f"{len(gone) + len(leaving)} brokers go, {len(free)} are new; list more new brokers",
        )
    pairs = []
    for old in gone:
        candidates = _possible_racks(partitions, old, racks)
        new = next((b for rack in candidates for b in free if racks.get(b) == rack), None)
        if new is None:
            raise OperationFailedError(f"Substitution affinity error: Could not infer a replacement for {old}")
        free.remove(new)
        pairs.append(Affinity(old, new, inferred=True))
    for old in leaving:
        rack = racks.get(old) or None
        new = next((b for b in free if (racks.get(b) or None) == rack), None)
        if new is None:
            raise OperationFailedError(
                f"Substitution affinity error: Insufficient free brokers for locality {rack or ''}".rstrip()
            )
        free.remove(new)
        pairs.append(Affinity(old, new, inferred=False))
    return tuple(pairs)


def _possible_racks(partitions: Sequence[PlannedPartition], old: int, racks: Mapping[int, str | None]) -> list[str]:
    elsewhere: set[str] = set()
    beside: set[str] = set()
    for p in partitions:
        seen = {rack for b in p.current if (rack := racks.get(b))}
        if old in p.current:
            beside |= seen
        else:
            elsewhere |= seen
    return sorted(elsewhere - beside)


def apply_affinities(
    partitions: Sequence[PlannedPartition],
    affinities: Sequence[Affinity],
    targets: frozenset[int],
    racks: Mapping[int, str | None],
    rule: SpreadRule,
) -> tuple[tuple[PlannedPartition, ...], tuple[str, ...]]:
    """Write the substitutes into the replica lists; returns partitions and a line for each refusal.

    A substitute that would break the rack rule or repeat a broker is not used there; the planner then
    picks another broker for that place.
    """
    stand_in = {a.old: a.new for a in affinities}
    changed: list[PlannedPartition] = []
    refused: list[str] = []
    for p in partitions:
        replicas = list(p.current)
        # Where the factor shrinks, replicas that can stay come before substitutes.
        room = p.wanted - sum(1 for b in p.current if b in targets)
        for position, old in enumerate(p.current):
            new = stand_in.get(old)
            if new is None or room <= 0:
                continue
            room -= 1
            rest = [b for k, b in enumerate(replicas) if k != position and b in targets]
            before = rule.violates(racks.get(b) for b in rest)
            closed = new in rule.closed.of(p.key)
            closed |= rule.tags is not None and not rule.tags.opens(p.key.topic, new, rest, p.current)
            if new in rest or closed or (rule.violates(racks.get(b) for b in [*rest, new]) and not before):
                refused.append(f"{p.key.topic} p{p.key.partition}: {new} cannot stand in for {old} beside {rest}")
            else:
                replicas[position] = new
        changed.append(PlannedPartition(p.key, tuple(replicas), p.wanted, p.size_bytes, p.in_sync))
    return tuple(changed), tuple(refused)
