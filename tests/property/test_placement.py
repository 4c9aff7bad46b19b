"""Log dirs in plans against brute force; the cheapest legal sets behind a bound."""

import json
import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.core.documents import encode_plan, encode_snapshot
from kafkakit.core.errors import TryLaterError
from kafkakit.core.model import Broker, ClusterSnapshot, LogDir, Partition, Topic, TopicPartition
from kafkakit.core.plan import BrokerLimit, GroupLimit, Proof, ProofKind
from kafkakit.core.plan_rules import check_plan
from kafkakit.core.selection import BrokerList
from kafkakit.placement import log_dirs_balance
from kafkakit.placement.broker_disks import DirStorage, broker_disks
from kafkakit.placement.by_size.attempt import Attempt, attempt
from kafkakit.placement.by_size.lp_relaxation import DemandGroups, LoadWindow
from kafkakit.placement.by_size.slots import SlotTable
from kafkakit.placement.group_rule import SpreadRule
from kafkakit.placement.log_dirs_balance import BrokerDirState, DirBalancer, DirRules, dir_states_of
from kafkakit.placement.price_bound import LegalSets, cheapest_sets, exact_sum, leader_bound, price_bound
from kafkakit.placement.problem import PlannedPartition
from kafkakit.placement.watch import UNWATCHED
from kafkakit.topicmappr.decide.dirs import DirPlan, decide_rebalance_dirs, plan_dirs
from kafkakit.topicmappr.decide.plain_requests import RebalanceDirsRequest
from kafkakit.topicmappr.decide.rebuild import decide_rebuild
from kafkakit.topicmappr.decide.requests import RebuildRequest
from tests.clusters.strategies import TAKEN_AT
from tests.invariants.plan import verify_plan
from tests.rigs.certificate_checks import Rules, breaks_rack_rule, cheapest_set

BROKERS = (1, 2)
ALL = (".*",)


@st.composite
def jbod_snapshots(draw: st.DrawFn, *, max_partitions: int = 5, sound: bool = False) -> ClusterSnapshot:
    """Two brokers with one to three unlike dirs, some cordoned or broken, tight disks, partitions of unlike sizes."""
    states = st.sampled_from(["open"] * (9 if sound else 4) + ["cordoned", "broken"])
    dirs = {b: {f"/d{n}": draw(states) for n in range(draw(st.integers(1, 3)))} for b in BROKERS}
    held: dict[tuple[int, str], int] = {}
    partitions = []
    for number in range(draw(st.integers(1, max_partitions))):
        replicas = tuple(draw(st.lists(st.sampled_from(BROKERS), min_size=1, max_size=2, unique=True)))
        size = draw(st.integers(0, 40))
        where = {b: d for b in replicas if (d := draw(st.sampled_from([*dirs[b]]))) and dirs[b][d] != "broken"}
        for b, d in where.items():
            held[b, d] = held.get((b, d), 0) + size
        partitions.append(
            Partition(
                partition=number,
                replicas=replicas,
                isr=replicas,
                leader=replicas[0],
                replica_bytes=dict.fromkeys(where, size),
                size_bytes=size,
                replica_dirs=where,
            )
        )
    brokers = tuple(
        Broker(id=b, rack=None, log_dirs=tuple(draw(_log_dir(d, how, held.get((b, d), 0))) for d, how in own.items()))
        for b, own in dirs.items()
    )
    return ClusterSnapshot(
        cluster_id="c1",
        taken_at=TAKEN_AT,
        source="test",
        brokers=brokers,
        topics=(Topic(name="t", partitions=tuple(partitions), topic_id="id-t"),),
        sizes_taken=True,
    )


@st.composite
def _log_dir(draw: st.DrawFn, path: str, how: str, held: int) -> LogDir:
    if how == "broken":
        return LogDir(path=path, error="KafkaStorageError")
    usable = draw(st.integers(0, 120))
    return LogDir(
        path=path, total_bytes=held + usable + draw(st.integers(1, 5)), usable_bytes=usable, cordoned=how != "open"
    )


@st.composite
def plans_of_brokers(draw: st.DrawFn, snapshot: ClusterSnapshot) -> list[tuple[int, ...]]:
    """New replica lists, as a planner of brokers might decide them."""
    return [
        p.replicas if draw(st.booleans()) else tuple(draw(st.permutations(BROKERS))[: len(p.replicas)])
        for p in snapshot.topics[0].partitions
    ]


def planned(snapshot: ClusterSnapshot) -> list[PlannedPartition]:
    return [
        PlannedPartition(TopicPartition("t", p.partition), p.replicas, len(p.replicas), p.known_bytes)
        for p in snapshot.topics[0].partitions
    ]


def placements(dir_state: BrokerDirState, *, fixed: bool) -> "list[tuple[int, list[int], list[int]]]":
    """Every way to place arrivals (and, unless `fixed`, standing copies): (bytes moved inside, end, arriving)."""
    standing = [] if fixed else list(dir_state.standing)
    copies = [(size, -1) for size, _ in dir_state.arrivals] + [(size, source) for size, _, source in standing]
    takes = [n for n, is_open in enumerate(dir_state.open) if is_open]
    choices = [takes if source < 0 else sorted({*takes, source}) for _, source in copies]
    found = []
    for places in product(*choices):
        end, moved = dir_state.kept, 0
        for (size, source), n in zip(copies, places, strict=True):
            end[n] += size
            if source >= 0:
                end[source] -= size
                moved += size if n != source else 0
        found.append((moved, end, [e - k for e, k in zip(end, dir_state.kept, strict=True)]))
    return found


def fits(dir_state: BrokerDirState, gained: list[int], *, later: bool) -> bool:
    gone = dir_state.leaving if later else [0] * len(gained)
    return all(g <= max(0, r) + x for g, r, x, o in zip(gained, dir_state.room, gone, dir_state.open, strict=True) if o)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_new_copies_get_a_dir_below_its_ceiling_whenever_there_is_a_way(data: st.DataObject) -> None:
    snapshot = data.draw(jbod_snapshots())
    after = data.draw(plans_of_brokers(snapshot))
    rules = DirRules(
        max_use=data.draw(st.sampled_from([Fraction(1), Fraction(9, 10)])), head_room=data.draw(st.integers(0, 9))
    )
    log_dirs = broker_disks(snapshot).log_dirs
    found = plan_dirs(snapshot, planned(snapshot), after, log_dirs, rules)
    assert found.dir_moves == ()
    for dir_state in dir_states_of(snapshot, planned(snapshot), after, log_dirs, rules):
        named = {p for p, chosen in found.dirs.items() if dir_state.broker in chosen}
        assert named <= {p for _, p in dir_state.arrivals}
        check_ceilings(dir_state, found)
        ways = placements(dir_state, fixed=True)
        if any(dir_state.open) and any(fits(dir_state, gained, later=True) for _, _, gained in ways):
            assert named == {p for _, p in dir_state.arrivals}, "a copy has no dir although all would fit"
        if named == {p for _, p in dir_state.arrivals} and any(fits(dir_state, g, later=False) for _, _, g in ways):
            assert not any("only once others have left" in n for n in found.notes if f"broker {dir_state.broker}:" in n)


def check_ceilings(dir_state: BrokerDirState, found: DirPlan) -> None:
    for d, used, room, is_open in zip(dir_state.dirs, dir_state.used, dir_state.room, dir_state.open, strict=True):
        (row,) = (r for r in found.table if (r.broker, r.path) == (dir_state.broker, d.path))
        assert row.used_after_bytes <= used + room
        if not is_open:
            assert row.used_after_bytes <= used, "a closed dir gets something"


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_levelling_moves_the_fewest_bytes_or_says_that_the_band_cannot_be_had(data: st.DataObject) -> None:
    snapshot = data.draw(jbod_snapshots(max_partitions=6, sound=True))
    after = data.draw(plans_of_brokers(snapshot))
    rules = DirRules(
        max_use=Fraction(1), band=data.draw(st.sampled_from([Fraction(1, 10), Fraction(1, 2), Fraction(0)]))
    )
    assert rules.band is not None
    log_dirs = broker_disks(snapshot).log_dirs
    found = plan_dirs(snapshot, planned(snapshot), after, log_dirs, rules)
    least = 0
    for dir_state in dir_states_of(snapshot, planned(snapshot), after, log_dirs, rules):
        check_ceilings(dir_state, found)
        missed = any(w.startswith(f"broker {dir_state.broker}: its log dirs") for w in found.warnings)
        moved = sum(m.size_bytes or 0 for m in found.dir_moves if m.broker == dir_state.broker)
        ways = [w for w in placements(dir_state, fixed=False) if fits(dir_state, w[2], later=False)]
        inside = [w for w in ways if within(dir_state, w[1], rules.band)]
        if (
            missed
            or sum(dir_state.open) < 2
            or any(w.startswith(f"broker {dir_state.broker}: no log dir") for w in found.warnings)
        ):
            assert not missed or not inside, "a band was given up that can be had"
            continue
        if inside and not any("only once others" in n for n in found.notes):
            assert moved == min(w[0] for w in inside)
        least += moved
    assert found.lower_bound <= found.moved_bytes
    assert least <= found.moved_bytes


def within(dir_state: BrokerDirState, end: list[int], band: Fraction) -> bool:
    """Every open dir inside its share; shares add up, the rest of the rounding goes to the first ones."""
    takes = [n for n, is_open in enumerate(dir_state.open) if is_open]
    total, whole = sum(end[n] for n in takes), sum(dir_state.capacity[n] for n in takes)
    shares = [total * dir_state.capacity[n] // whole for n in takes]
    rest = total - sum(shares)
    return all(
        (s + (i < rest)) * (1 - band) <= end[n] <= (s + (i < rest)) * (1 + band)
        for i, (n, s) in enumerate(zip(takes, shares, strict=True))
    )


@settings(max_examples=50, deadline=None)
@given(jbod_snapshots(), st.sampled_from(["10%", "50%"]))
def test_plans_of_dirs_pass_the_independent_checker(snapshot: ClusterSnapshot, band: str) -> None:
    request = RebalanceDirsRequest(
        brokers=BrokerList(ids=(), everything=True),
        band=Fraction(band.rstrip("%")) / 100,
        max_disk_use=Fraction(1),
        topics=ALL,
        words={"command": "topicmappr rebalance-dirs", "band": band, "max-disk-use": "100%"},
    )
    if any(all(d.error for d in b.log_dirs) for b in snapshot.brokers):
        with pytest.raises(TryLaterError):
            decide_rebalance_dirs(snapshot, request)
        return
    plan = decide_rebalance_dirs(snapshot, request).plan
    check_plan(plan, "plan")
    verify_plan(json.loads(encode_plan(plan)), json.loads(encode_snapshot(snapshot)))


@settings(max_examples=50, deadline=None)
@given(jbod_snapshots())
def test_a_rebuild_names_dirs_that_pass_the_independent_checker(snapshot: ClusterSnapshot) -> None:
    request = RebuildRequest(
        brokers=BrokerList(ids=BROKERS),
        topics=ALL,
        force_rebuild=True,
        words={"command": "topicmappr rebuild", "force-rebuild": "true"},
    )
    rebuild = decide_rebuild(snapshot, request)
    plan = rebuild.plan
    check_plan(plan, "plan")
    encoded = json.loads(encode_plan(plan)), json.loads(encode_snapshot(snapshot))
    if any(rebuild.unplaced):  # what fits in no log dir stays where it is, so that nothing is as even as can be
        assert all(rebuild.after)
        return
    verify_plan(*encoded)


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
        rule=SpreadRule(data.draw(st.integers(0, 3))),
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
        rule=SpreadRule(),
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


def dirs_of(dirs: Sequence[Sequence[int]], capacity: int) -> BrokerDirState:
    """A broker with copies of these sizes in each dir."""
    used = [sum(row) for row in dirs]
    return BrokerDirState(
        broker=1,
        dirs=tuple(
            DirStorage(path=f"/d{n}", total_bytes=capacity, usable_bytes=capacity - u, replica_bytes=u)
            for n, u in enumerate(used)
        ),
        used=used,
        room=[capacity - u for u in used],
        open=[True] * len(used),
        leaving=[0] * len(used),
        standing=[(size, 100 * n + i, n) for n, row in enumerate(dirs) for i, size in enumerate(row)],
    )


def test_a_band_that_a_copy_is_too_large_for_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def counted(table: SlotTable, demand: DemandGroups, window: LoadWindow, *, most_tests: int) -> Attempt:
        tried.append(int(window.ceiling.max()))
        return attempt(table, demand, window, most_tests=most_tests)

    monkeypatch.setattr(log_dirs_balance, "attempt", counted)
    # 1,640 bytes over four dirs: a share is 410, and the copy of 1,000 stands alone where the others share the rest.
    state = dirs_of([[1000, 40], [*[10] * 50], [*[10] * 10], []], 10_000)
    balancer = DirBalancer(state, state.room, UNWATCHED)
    assert balancer.level(100_000, search=False) is None
    assert not tried
    found = balancer.nearest(100_000, balancer.measure(state.used))
    assert found is not None
    assert max(found.used) == 1000
    assert min(tried) >= 1000


def test_plans_of_dirs_are_made_again_where_they_cost_more_than_they_must(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = []
    for closer, large in ((log_dirs_balance.CLOSER, log_dirs_balance.LARGE), ((), ())):
        monkeypatch.setattr(log_dirs_balance, "CLOSER", closer)
        monkeypatch.setattr(log_dirs_balance, "LARGE", large)
        rng = random.Random(3)
        moved = 0
        for _ in range(30):
            rows = [[int(rng.paretovariate(0.8)) % 4000 + 1 for _ in range(rng.randint(5, 60))] for _ in range(6)]
            state = dirs_of(rows, 10**6)
            balancer = DirBalancer(state, state.room, UNWATCHED)
            found = balancer.level(300_000, search=False)
            if found is not None:
                assert found.reached <= 300_000
                assert found.bound <= sum(size for _, size, *_ in found.moved)
                moved += sum(size for _, size, *_ in found.moved)
        costs.append(moved)
    assert costs[0] < costs[1]
