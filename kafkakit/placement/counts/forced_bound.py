"""What a forced rebuild must copy at least, by broker prices, and why in words."""

from collections.abc import Sequence
from dataclasses import replace

from kafkakit.core.certificate import Proof, ProofKind
from kafkakit.placement.counts.blocks import Block
from kafkakit.placement.counts.forced_inputs import ForcedInputs
from kafkakit.placement.counts.forced_spread import new_copies_by_spread
from kafkakit.placement.price_bound import LegalSets, cheapest_sets, exact_sum, price_bound
from kafkakit.placement.problem import Minimize, PlacementProblem


def forced_bound(
    problem: PlacementProblem, a: ForcedInputs, blocks: Sequence[Block], proof: Proof
) -> tuple[int, str, Proof]:
    """The proven least weight of new copies, the simplest argument that reaches it, and the proof."""
    try:
        bound = price_bound(_legal_sets(problem, a), proof, {b: k for k, b in enumerate(problem.targets)})
    except OverflowError:
        return 0, "sizes this large cannot be added up in prices, so nothing is proven", Proof(kind=ProofKind.NONE)
    held, stay, lack = _room(a, blocks)
    if problem.minimize is Minimize.MOVES and bound == lack:
        argument = (
            f"the most even counts leave room for {stay} of the {held} replicas now on target brokers "
            f"({held - stay} lie above their broker's even share); {lack} replicas need a new copy, whatever the plan"
        )
        return bound, argument, proof
    unit = "bytes" if problem.minimize is Minimize.BYTES else "copies"
    argument = (
        f"with these counts, racks and brokers no placement needs fewer than {bound} {unit}: at the proof's broker "
        f"prices no replica sets cost less in sum (counting room alone shows {lack} copies)"
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

    tags = problem.rule.tags
    spreads = tags.spread_over if tags is not None else ()
    limits = () if spreads else tuple(replace(limit, price=0) for limit in proof.limits)
    sets = replace(_legal_sets(problem, a), wanted=np.array(placed, dtype=np.int64))
    alone = cheapest_sets(sets, np.zeros(len(problem.targets), dtype=np.int64), 1)
    lacking = np.array(new_copies_by_spread(problem, placed), dtype=np.int64)
    bound = exact_sum(np.maximum(alone, lacking * a.weight))
    unit = "bytes" if problem.minimize is Minimize.BYTES else "copies"
    beside = f"where brokers without a rack stand beside --min-rack-ids {problem.rule.most_spanned}"
    why = f"with {', '.join(c.text for c in spreads)}" if spreads else beside
    argument = (
        f"each partition for itself needs {bound} {unit} in sum; {why} other counts may be as even, and nothing is "
        "proven for them"
    )
    return bound, argument, replace(proof, price_unit=1, limits=limits, groups=())


def _room(a: ForcedInputs, blocks: Sequence[Block]) -> tuple[int, int, int]:
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
