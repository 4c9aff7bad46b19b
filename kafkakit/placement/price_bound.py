"""What broker prices prove: the cheapest legal set of every partition, added up exactly (`core/plan.py`).

Legal sets of k replicas span at least m racks: m is k where all racks must differ (`min_rack_ids` 0), else the
smaller of k and `min_rack_ids`; a broker without a rack counts as a rack of its own, which where sets mix both
kinds allows a little more than the rule does, so the bound stays true. Such sets are the bases of a matroid (a
partition matroid of rank m joined with a free one of rank k - m), hence greedy is exact: the m cheapest racks by
their cheapest broker, then the cheapest of all brokers left.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkakit.core.plan import BrokerLimit, GroupLimit, Proof
from kafkakit.placement.group_rule import SpreadRule

if TYPE_CHECKING:
    from kafkakit.core.columns import Bools, Ints

_NEVER = (1 << 63) - 1
_SAFE = 1 << 61
_CELLS = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LegalSets:
    """Partitions and what each may do, as arrays; brokers and racks are positions.

    By broker: `racks` (-1: none), `receives` (may get new copies), `keeps` (may continue holding what it has),
    `gives` (may lose what it has). `holders[offsets[p]:offsets[p + 1]]` hold partition p now; by partition:
    `wanted` replicas, `load` of one replica in the proof's load, `copy_cost` of one new copy in the objective's
    unit. `pinned` partitions are left out of the sum (their load is in the limits' `fixed`); `exempt` ones need
    not keep to the rack rule. With `locality_scoped` a copy stays in its rack. Where tags bind, partitions have a
    `kind`, and `open` has a row for each kind with the brokers that may receive or keep copies of its partitions.
    """

    racks: "Ints"
    receives: "Bools"
    keeps: "Bools"
    gives: "Bools"
    offsets: "Ints"
    holders: "Ints"
    wanted: "Ints"
    load: "Ints"
    copy_cost: "Ints"
    rule: SpreadRule
    pinned: "Bools | None" = None
    exempt: "Bools | None" = None
    locality_scoped: bool = False
    kind: "Ints | None" = None
    open: "Bools | None" = None

    def of_kinds(self) -> "Iterator[tuple[LegalSets, Bools]]":
        """The sets of each kind of partitions (those that may use the same brokers), and which partitions those are."""
        import numpy as np

        if self.kind is None or self.open is None:
            yield self, np.ones(len(self.wanted), dtype=bool)
            return
        for kind, able in enumerate(self.open):
            yield replace(self, receives=self.receives & able, keeps=self.keeps & able), self.kind == kind


def price_bound(sets: LegalSets, proof: Proof, place: Mapping[int, int]) -> int:
    """The bound that a proof by prices gives: whole units of the objective, rounded up, at least 0.

    `place` maps broker ids to positions. Raises `ValueError` for a proof that proves nothing (a price on a
    missing limit, sliding limits whose prices do not cancel) and `OverflowError` where prices times loads pass
    64 bits. About a second for 600,000 replicas.
    """
    import numpy as np

    prices = broker_prices(proof, place, len(sets.racks))
    apiece = np.array(_own_prices(proof.counts, place, len(sets.racks)), dtype=np.int64) if proof.counts else None
    total = exact_sum(np.asarray(cheapest_sets(sets, prices, proof.price_unit, apiece)))
    return whole_units(total, proof)


def leader_bound(proof: Proof, place: Mapping[int, int], offsets: "Ints", candidates: "Ints", present: "Bools") -> int:
    """The bound for preferred leaders: each partition pays its cheapest candidate, plus one for a change.

    `candidates[offsets[p]:offsets[p + 1]]` are the positions of brokers that may lead partition p, never none;
    `present` says which of them leads it now.
    """
    import numpy as np

    if len(offsets) < 2:
        return whole_units(0, proof)
    prices = broker_prices(proof, place, len(place))
    cost = prices[candidates] + np.where(present, 0, proof.price_unit)
    return whole_units(exact_sum(np.minimum.reduceat(cost, offsets[:-1])), proof)


def broker_prices(proof: Proof, place: Mapping[int, int], count: int) -> "Ints":
    """Price of each broker position: its own and those of its groups."""
    import numpy as np

    own = _own_prices(proof.limits, place, count)
    for group in proof.groups:
        for broker in group.brokers:
            own[place[broker]] += group.price
    return np.array(own, dtype=np.int64)


def _own_prices(limits: Iterable[BrokerLimit], place: Mapping[int, int], count: int) -> list[int]:
    own = [0] * count
    for limit in limits:
        own[place[limit.broker]] += limit.price
    return own


def whole_units(total: int, proof: Proof) -> int:
    """The partitions' sum less what the limits are worth, in whole units rounded up, at least 0."""
    limits = proof.limits
    if proof.slides and sum(limit.price for limit in limits if limit.slides) != 0:
        raise ValueError("limits that slide need prices that sum to zero")
    total += sum(limit.price * limit.fixed for limit in (*limits, *proof.counts))
    ends: tuple[BrokerLimit | GroupLimit, ...] = (*limits, *proof.counts, *proof.groups)
    for bounded in ends:
        if bounded.price:
            end = bounded.ceiling if bounded.price > 0 else bounded.floor
            if end is None:
                raise ValueError(f"a price without a limit: {bounded}")
            total -= bounded.price * end
    for group in proof.groups:
        members = frozenset(group.brokers)
        total += group.price * sum([limit.fixed for limit in limits if limit.broker in members])
    return max(0, -(-total // proof.price_unit))


def exact_sum(values: "Ints") -> int:
    """The sum of 64-bit integers as a Python integer, whatever its size."""
    return (int((values >> 31).sum()) << 31) + int((values & ((1 << 31) - 1)).sum())


def cheapest_sets(sets: LegalSets, prices: "Ints", price_unit: int, apiece: "Ints | None" = None) -> "Ints":
    """What each partition pays at least at these prices, in units of 1 / price_unit; 0 for pinned ones.

    `apiece` are prices of brokers per replica, not known with `locality_scoped`. A partition that has no legal set of
    `wanted` brokers pays for fewer; give the size it can reach instead.
    """
    import numpy as np

    count = len(sets.wanted)
    if apiece is not None and sets.locality_scoped:
        raise ValueError("replicas that stay in their rack have no price apiece")
    _refuse_overflow(sets, prices, price_unit, apiece)
    paid = np.zeros(count, dtype=np.int64)
    free: Bools = np.ones(count, dtype=bool) if sets.pinned is None else ~np.asarray(sets.pinned)
    held = np.diff(sets.offsets)
    local = sets.locality_scoped & (held == sets.wanted)
    for able, among in sets.of_kinds():
        generic = _GenericReceivers(able, prices, apiece)
        for rows, width in _chunks(np.nonzero(free & ~local & among)[0], able, generic):
            paid[rows] = _pay_greedily(able, prices, price_unit, generic, rows, width)
        for rows, width in _chunks(np.nonzero(free & local & among)[0], able, generic):
            paid[rows] = _by_rack(able, prices, price_unit, generic, rows, width)
    return paid


def _refuse_overflow(sets: LegalSets, prices: "Ints", price_unit: int, apiece: "Ints | None") -> None:
    def most(values: "Ints") -> int:
        return max(abs(int(values.max())), abs(int(values.min()))) if len(values) else 0

    once = most(sets.load) * most(prices) + most(sets.copy_cost) * price_unit
    once += 0 if apiece is None else most(apiece)
    if once * max(1, most(sets.wanted), most(sets.offsets[1:] - sets.offsets[:-1])) >= _SAFE:
        raise OverflowError("prices times loads pass 64 bits")


class _GenericReceivers:
    """The receivers that a new copy may be worth putting on, whichever partition: cheapest of each rack, cheapest."""

    def __init__(self, sets: LegalSets, prices: "Ints", apiece: "Ints | None") -> None:
        import numpy as np

        self.apiece: Ints = np.zeros(len(prices), dtype=np.int64) if apiece is None else apiece
        racks = np.asarray(sets.racks)
        lone = racks < 0
        # A broker without a rack is a rack of its own, except for "stay in your rack", where they are alike.
        self.area = np.where(lone, racks.max(initial=-1) + 1 + np.arange(len(racks)), racks)
        self.locality = racks + 1
        ids = np.nonzero(sets.receives)[0]
        ids = ids[np.argsort(prices[ids], kind="stable")]
        _, first = np.unique(self.area[ids], return_index=True)
        deep = int(sets.wanted.max(initial=0)) + int(np.diff(sets.offsets).max(initial=0))
        heads = ids[np.sort(first)][:deep]
        rest = ids[: deep + int(sets.wanted.max(initial=0))] if _repeats(sets) else heads
        # With prices apiece too, which broker is the cheapest depends on the partition's load.
        self.brokers = np.unique(np.concatenate([heads, rest]) if apiece is None else ids)
        self.best = np.full(int(self.locality.max(initial=0)) + 1, _NEVER, dtype=np.int64)
        np.minimum.at(self.best, self.locality[ids], prices[ids])


def _repeats(sets: LegalSets) -> bool:
    """True when a set may hold two brokers of a rack; brokers that may not give can bring that about too."""
    if sets.rule.may_repeat or not bool(sets.gives.all()):
        return True
    return sets.exempt is not None and bool(sets.exempt.any())


def _chunks(rows: "Ints", sets: LegalSets, generic: _GenericReceivers) -> "Iterator[tuple[Ints, int]]":
    import numpy as np

    if not len(rows):
        return
    width = int(np.diff(sets.offsets).max())
    step = max(1, _CELLS // (width + len(generic.brokers) + 1))
    for start in range(0, len(rows), step):
        yield rows[start : start + step], width


def _holders_of_rows(sets: LegalSets, rows: "Ints", width: int) -> "Ints":
    """Holders of each row, padded with -1."""
    import numpy as np

    columns = np.arange(width)
    first, last = sets.offsets[rows], sets.offsets[rows + 1]
    at = first[:, None] + columns
    inside = at < last[:, None]
    if not len(sets.holders):
        return np.full(at.shape, -1, dtype=np.int64)
    return np.where(inside, sets.holders[np.minimum(at, len(sets.holders) - 1)], -1)


def _pay_greedily(
    sets: LegalSets, prices: "Ints", unit: int, generic: _GenericReceivers, rows: "Ints", width: int
) -> "Ints":
    import numpy as np

    held = _holders_of_rows(sets, rows, width)
    wanted, load, new = sets.wanted[rows], sets.load[rows], sets.copy_cost[rows] * unit
    known = held >= 0
    bound = known & sets.keeps[held] & ~sets.gives[held]
    # More brokers that may not give than wanted replicas: none of them is bound to be in the set.
    bound &= (bound.sum(axis=1) <= wanted)[:, None]
    stay = load[:, None] * prices[held] + generic.apiece[held]
    may = known & (sets.keeps[held] | sets.receives[held]) & ~bound
    moved = load[:, None] * prices[generic.brokers] + generic.apiece[generic.brokers] + new[:, None]
    cost = np.concatenate([np.where(may, stay, _NEVER), moved], axis=1)
    for column in range(width):
        mine = held[:, column : column + 1] == generic.brokers
        cost[:, width:][mine] = _NEVER
    area = np.concatenate(
        [np.where(known, generic.area[held], -1), np.broadcast_to(generic.area[generic.brokers], moved.shape)], axis=1
    )
    paid: Ints = np.where(bound, stay, 0).sum(axis=1)
    left = wanted - bound.sum(axis=1)
    used = np.zeros(cost.shape, dtype=bool)
    spanned = np.zeros(len(rows), dtype=np.int64)
    for column in range(width):
        fresh = bound[:, column] & ~used[:, column]
        spanned += fresh
        used |= bound[:, column, None] & (area == area[:, column, None])
    racks = np.minimum(wanted, sets.rule.most_spanned)
    loose = bound.sum(axis=1) > (np.iinfo(np.int64).max if sets.rule.may_repeat else spanned)
    if sets.exempt is not None:
        loose |= sets.exempt[rows]
    apart = np.where(loose, 0, np.clip(racks - spanned, 0, left))
    for turn in range(int(left.max(initial=0)) if cost.shape[1] else 0):
        going = turn < left
        seen = np.where(used & (turn < apart)[:, None], _NEVER, cost)
        pick = seen.argmin(axis=1)[:, None]
        price = np.take_along_axis(seen, pick, axis=1)[:, 0]
        taken = going & (price < _NEVER)
        paid += np.where(taken, price, 0)
        np.put_along_axis(cost, pick, np.where(taken[:, None], _NEVER, np.take_along_axis(cost, pick, axis=1)), axis=1)
        used |= taken[:, None] & (area == np.take_along_axis(area, pick, axis=1))
    return paid


def _by_rack(
    sets: LegalSets, prices: "Ints", unit: int, generic: _GenericReceivers, rows: "Ints", width: int
) -> "Ints":
    """Each replica pays the cheapest broker of its own rack; two of a rack may pay for the same (a relaxation)."""
    import numpy as np

    held = _holders_of_rows(sets, rows, width)
    known = held >= 0
    load, new = sets.load[rows][:, None], (sets.copy_cost[rows] * unit)[:, None]
    stay = np.where(known & (sets.keeps[held] | sets.receives[held]), load * prices[held], _NEVER)
    best = generic.best[generic.locality[held]]
    bound = known & sets.keeps[held] & ~sets.gives[held]
    cheapest = np.where(best < _NEVER, load * np.where(best < _NEVER, best, 0) + new, _NEVER)
    for column in range(width):
        same = known & (generic.locality[held] == generic.locality[held[:, column]][:, None]) & known[:, column, None]
        cheapest = np.where(same, np.minimum(cheapest, stay[:, column, None]), cheapest)
    cheapest = np.where(bound, stay, cheapest)
    paid: Ints = np.where(known & (cheapest < _NEVER), cheapest, 0).sum(axis=1)
    return paid
