"""Substitution affinity: each outgoing broker is replaced everywhere by one specific new broker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkakit.core.errors import OperationFailedError
from kafkakit.placement.broker_change import BrokerChange
from kafkakit.placement.group_rule import GroupRule
from kafkakit.placement.problem import PlannedPartition


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
    rule: GroupRule,
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
            closed = rule.tags is not None and not rule.tags.opens(p.key.topic, new, rest, p.current)
            if new in rest or closed or (rule.violates(racks.get(b) for b in [*rest, new]) and not before):
                refused.append(f"{p.key.topic} p{p.key.partition}: {new} cannot stand in for {old} beside {rest}")
            else:
                replicas[position] = new
        changed.append(PlannedPartition(p.key, tuple(replicas), p.wanted, p.size_bytes, p.in_sync))
    return tuple(changed), tuple(refused)
