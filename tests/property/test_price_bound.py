"""The cheapest legal sets behind a bound: the kit, the checker and enumeration agree on small cases."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.core.plan import BrokerLimit, GroupLimit, Proof, ProofKind
from kafkakit.placement.group_rule import GroupRule
from kafkakit.placement.price_bound import LegalSets, cheapest_sets, exact_sum, leader_bound, price_bound
from tests.rigs.certificate_checks import Rules, breaks_rack_rule, cheapest_set

RUNS = settings(max_examples=250, deadline=None)
NAMES = ("a", "b", "c")


def draw_masks(data: st.DataObject, brokers: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    often = st.sampled_from([True, True, True, False])
    return np.array(data.draw(st.lists(often, min_size=brokers, max_size=brokers)))


@RUNS
@given(st.data())
def test_the_cheapest_legal_set_is_found(data: st.DataObject) -> None:
    brokers = data.draw(st.integers(1, 6))
    rackless = data.draw(st.booleans())
    racks = data.draw(st.lists(st.integers(-1 if rackless else 0, 2), min_size=brokers, max_size=brokers))
    receives, keeps, gives = (draw_masks(data, brokers) for _ in range(3))
    rows = data.draw(st.lists(st.lists(st.integers(0, brokers - 1), unique=True, max_size=4), min_size=1, max_size=4))
    wanted = [data.draw(st.integers(0, 4)) for _ in rows]
    load = [data.draw(st.integers(0, 3)) for _ in rows]
    cost = [data.draw(st.integers(0, 3)) for _ in rows]
    exempt = [data.draw(st.booleans()) for _ in rows] if data.draw(st.booleans()) else None
    closed = data.draw(st.booleans())
    able = np.array([draw_masks(data, brokers) for _ in range(2)]) if closed else np.ones((2, brokers), dtype=bool)
    kind = [data.draw(st.integers(0, 1)) for _ in rows]
    prices = data.draw(st.lists(st.integers(-4, 4), min_size=brokers, max_size=brokers))
    unit = data.draw(st.integers(1, 3))
    sets = LegalSets(
        racks=np.array(racks),
        receives=receives,
        keeps=keeps,
        gives=gives,
        offsets=np.cumsum([0, *map(len, rows)]),
        holders=np.array([b for row in rows for b in row], dtype=np.int64),
        wanted=np.array(wanted),
        load=np.array(load),
        copy_cost=np.array(cost),
        exempt=None if exempt is None else np.array(exempt),
        rule=GroupRule(data.draw(st.integers(0, 3))),
        locality_scoped=data.draw(st.booleans()),
        kind=np.array(kind) if closed else None,
        open=able if closed else None,
    )
    paid = cheapest_sets(sets, np.array(prices), unit).tolist()
    for i, row in enumerate(rows):
        rules = Rules(
            racks={b: NAMES[r] if r >= 0 else None for b, r in enumerate(racks)},
            receivers=set(np.nonzero(receives & able[kind[i]])[0].tolist()),
            keepers=set(np.nonzero(keeps & able[kind[i]])[0].tolist()),
            givers=set(np.nonzero(gives)[0].tolist()),
            min_rack_ids=sets.rule.min_groups,
            locality_scoped=sets.locality_scoped,
        )
        mine = {b: load[i] * p for b, p in enumerate(prices)}
        free = exempt is not None and exempt[i]
        real = enumerated(row, wanted[i], mine, cost[i] * unit, rules, exempt=free)
        if real is None:
            continue
        assert paid[i] <= real, "the bound charges more than a legal set costs"
        assert paid[i] == cheapest_set(row, wanted[i], mine, cost[i] * unit, rules, exempt=free)
        if not rules.locality_scoped and None not in rules.racks.values():
            assert paid[i] == real


def enumerated(
    current: Sequence[int], wanted: int, prices: Mapping[int, int], new: int, rules: Rules, *, exempt: bool
) -> int | None:
    """The cheapest set by trying all; None where none is legal."""
    must = {b for b in current if b in rules.keepers and b not in rules.givers}
    may = {b for b in range(len(prices)) if b in rules.receivers or (b in current and b in rules.keepers)}
    if len(must) > wanted:
        must = set()
    if breaks_rack_rule(sorted(must), rules.racks, rules.min_rack_ids) and not rules.min_rack_ids:
        exempt = True
    found = []
    for chosen in combinations(sorted(may), wanted):
        if not must <= set(chosen):
            continue
        if rules.locality_scoped and len(current) == wanted:
            key = [rules.racks[b] or "" for b in chosen]
            if sorted(key) != sorted(rules.racks[b] or "" for b in current):
                continue
        elif not exempt and breaks_rack_rule(chosen, rules.racks, rules.min_rack_ids):
            continue
        found.append(sum(prices[b] + (0 if b in current else new) for b in chosen))
    return min(found, default=None)


def proof_of(*limits: BrokerLimit, slides: bool = False, groups: tuple[GroupLimit, ...] = (), unit: int = 1) -> Proof:
    return Proof(kind=ProofKind.PRICES, price_unit=unit, slides=slides, limits=limits, groups=groups)


def two_brokers() -> LegalSets:
    """Three partitions on broker 0, none on broker 1; one replica each."""
    yes = np.array([True, True])
    one = np.ones(3, dtype=np.int64)
    return LegalSets(
        racks=np.array([0, 1]),
        receives=yes,
        keeps=yes,
        gives=yes,
        offsets=np.arange(4),
        holders=np.zeros(3, dtype=np.int64),
        wanted=one,
        load=one,
        copy_cost=one,
        rule=GroupRule(),
    )


def test_excess_above_a_ceiling_must_leave() -> None:
    proof = proof_of(BrokerLimit(broker=7, ceiling=1, price=1), BrokerLimit(broker=8))
    assert price_bound(two_brokers(), proof, {7: 0, 8: 1}) == 2
    floor = proof_of(BrokerLimit(broker=7), BrokerLimit(broker=8, floor=2, price=-1))
    assert price_bound(two_brokers(), floor, {7: 0, 8: 1}) == 2
    group = proof_of(groups=(GroupLimit(brokers=(8,), floor=3, price=-1),))
    assert price_bound(two_brokers(), group, {7: 0, 8: 1}) == 3
    fixed = proof_of(BrokerLimit(broker=7, fixed=10, ceiling=11, price=1))
    assert price_bound(two_brokers(), fixed, {7: 0, 8: 1}) == 2


def test_prices_that_prove_nothing_are_refused() -> None:
    place = {7: 0, 8: 1}
    with pytest.raises(ValueError, match="without a limit"):
        price_bound(two_brokers(), proof_of(BrokerLimit(broker=7, price=1)), place)
    with pytest.raises(ValueError, match="sum to zero"):
        price_bound(two_brokers(), proof_of(BrokerLimit(broker=7, ceiling=1, price=1), slides=True), place)
    with pytest.raises(OverflowError):
        price_bound(two_brokers(), proof_of(BrokerLimit(broker=7, ceiling=1, price=1 << 61)), place)


def test_fractions_round_up_and_large_sums_are_exact() -> None:
    proof = proof_of(BrokerLimit(broker=7, ceiling=2, price=1), BrokerLimit(broker=8), unit=2)
    assert price_bound(two_brokers(), proof, {7: 0, 8: 1}) == 1
    values = np.full(1000, (1 << 61) - 1)
    assert exact_sum(values) == 1000 * ((1 << 61) - 1)
    assert exact_sum(-values) == -1000 * ((1 << 61) - 1)


def test_a_leader_pays_its_cheapest_candidate() -> None:
    proof = proof_of(BrokerLimit(broker=7, ceiling=1, price=1), BrokerLimit(broker=8))
    offsets, candidates = np.array([0, 2, 4, 5]), np.array([0, 1, 0, 1, 0])
    present = np.array([True, False, True, False, True])
    assert leader_bound(proof, {7: 0, 8: 1}, offsets, candidates, present) == 2
    assert leader_bound(proof, {7: 0, 8: 1}, np.array([0]), np.array([], dtype=int), np.array([], dtype=bool)) == 0
