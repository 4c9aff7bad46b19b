"""Spread over tags after a forced placement: who may stay, and the rest one copy of each partition at a time."""

from collections import Counter
from collections.abc import Sequence

from kafkakit.placement.group_steps import TagSteps
from kafkakit.placement.openings.fill import alike, fill_openings
from kafkakit.placement.problem import PlacementProblem

Row = tuple[int, ...]


def spread_out(problem: PlacementProblem, sets: Sequence[Row]) -> list[Row]:
    """Sets that keep every constraint, with the copies of `sets` that are in place now as far as these allow.

    Each step is as even as it can be, the counts in the end may be a little less so. Partitions with as many copies
    in place are looked at by the kinds of brokers that hold them.
    """
    tags, grouping = problem.rule.tags, problem.grouping
    if tags is None:
        raise ValueError("the rule has no constraints by tags")
    steps = TagSteps(grouping, tags, repairs=False)
    kept = [_staying(problem, steps, i, row) for i, row in enumerate(sets)]
    openings = {
        i: (row, p.wanted)
        for i, (row, p) in enumerate(zip(kept, problem.partitions, strict=True))
        if len(row) < p.wanted
    }
    loads = Counter(dict.fromkeys(problem.targets, 0))
    loads.update(b for row in kept for b in row)
    rooms = [a for a in alike(openings, grouping, repairs=False) if a.room.units]
    chosen, _ = fill_openings(rooms, loads)
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


def _staying(problem: PlacementProblem, steps: TagSteps, index: int, row: Row) -> Row:
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
