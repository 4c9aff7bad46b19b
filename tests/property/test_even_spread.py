"""Drains under an even spread over racks: no set becomes uneven, none stays without need, small answers are the best.

Balances of bytes with fewer racks than copies, too; more of them, with no more copies than racks, in test_balance.py.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, combinations_with_replacement, product

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kafkakit.core.documents import encode_plan, encode_snapshot
from kafkakit.core.errors import InfeasibleError, UsageError
from kafkakit.core.model import Broker, ClusterSnapshot, Partition, Topic
from kafkakit.core.selection import BrokerList
from kafkakit.placement.problem import Minimize, PlaceBy
from kafkakit.topicmappr.decide.assembly import PlannedChange
from kafkakit.topicmappr.decide.drain import DrainRequest, decide_drain
from kafkakit.topicmappr.decide.rebalance import decide_rebalance
from kafkakit.topicmappr.decide.requests import Goal, RebalanceRequest
from tests.clusters.exact_balance import balance_of, cheapest_in_range
from tests.clusters.strategies import TAKEN_AT, snapshots
from tests.invariants.plan import verify_plan
from tests.rigs.certificate_checks import Racks

RUNS = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
Row = tuple[int, ...]


@st.composite
def drains(draw: st.DrawFn, snapshot: ClusterSnapshot) -> DrainRequest:
    ids = [b.id for b in snapshot.brokers]
    leaving = draw(st.lists(st.sampled_from(ids), min_size=1, max_size=2, unique=True))
    live = [b.id for b in snapshot.brokers if b.is_alive and b.id not in leaving]
    named = bool(live) and draw(st.integers(0, 2)) == 0
    to = draw(st.lists(st.sampled_from(live), min_size=1, unique=True)) if named else None
    return DrainRequest(
        leaving=BrokerList(ids=tuple(leaving)),
        receiving=None if to is None else BrokerList(ids=tuple(to)),
        topics=(".*",),
        spread=True,
        words={"command": "topicmappr drain", "brokers": ",".join(map(str, leaving)), "spread": "true"},
    )


def planned(snapshot: ClusterSnapshot, request: DrainRequest) -> PlannedChange | None:
    """The plan, held to the independent checker; None where the brokers do not suit the request."""
    try:
        change = decide_drain(snapshot, request)
    except UsageError:
        open_racks = {b.rack for b in snapshot.brokers if b.is_alive and b.id not in request.leaving.ids}
        assert not open_racks - {None}
        return None
    verify_plan(json.loads(encode_plan(change.plan)), json.loads(encode_snapshot(snapshot)))
    return change


def rows_of(change: PlannedChange) -> list[tuple[Row, Row]]:
    new = {(m.topic, m.partition): m.after for m in change.plan.moves}
    return [(e.replicas, new.get((e.topic, e.partition), e.replicas)) for e in change.plan.scope]


def even(racks: Sequence[str | None], over: Sequence[str]) -> bool:
    counts = [racks.count(r) for r in over]
    return max(counts) - min(counts) <= 1


def can_be_even(here: Sequence[str | None], replicas: int, over: Sequence[str]) -> bool:
    """True when some racks for the other replicas make the set even, whatever brokers there are."""
    ways = combinations_with_replacement([*over, None], replicas - len(here))
    return any(even([*here, *way], over) for way in ways)


def may_be(kept: Sequence[int], new: Sequence[int], racks: Racks, over: Sequence[str]) -> bool:
    """The set is even; or, where no brokers at all could make it so, no rack gets more than a share."""
    here, there = [racks[b] for b in kept], [racks[b] for b in new]
    if even(there, over):
        return True
    if can_be_even(here, len(new), over):
        return False
    share = -(-len(new) // len(over))
    return all(there.count(r) <= max(share, here.count(r)) for r in over)


def options(
    old: Row, leaving: Sequence[int], receivers: Sequence[int], racks: Racks, over: Sequence[str]
) -> Iterator[Row]:
    """Every valid set that the partition may end on."""
    kept = [b for b in old if b not in leaving]
    for extra in combinations([b for b in receivers if b not in kept], len(old) - len(kept)):
        if may_be(kept, [*kept, *extra], racks, over):
            yield (*kept, *extra)


@RUNS
@given(st.data())
def test_a_drain_keeps_sets_even_and_leaves_none_that_could_go(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots(max_brokers=7, dead=data.draw(st.booleans())))
    request = data.draw(drains(snapshot))
    change = planned(snapshot, request)
    if change is None:
        return
    assert bool(change.left_alone) == bool(change.reasons)
    assert encode_plan(decide_drain(snapshot, request).plan) == encode_plan(change.plan)
    rules = change.plan.rules
    assert rules is not None
    racks = {b.id: b.rack for b in snapshot.brokers}
    live = {b.id for b in snapshot.brokers if b.is_alive}
    isr = {(t, p.partition): p.isr or () for t, p in snapshot.partitions()}
    for entry, (old, new) in zip(change.plan.scope, rows_of(change), strict=True):
        valid = list(options(old, request.leaving.ids, rules.receivers, racks, rules.spread_over))
        if new != old:
            assert set(new) in map(set, valid)
        elif set(old) & {*request.leaving.ids} and live & {*isr[entry.topic, entry.partition]}:
            assert not valid, f"{old} could become {valid[0]}"


@RUNS
@given(st.data())
def test_a_drain_evens_counts_out_as_far_as_the_spread_allows(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots(max_brokers=6, max_partitions=6, dead=False))
    racked = [b for b in snapshot.brokers if b.rack]
    request = data.draw(drains(snapshot))
    change = planned(snapshot, request) if racked else None
    if change is None or change.left_alone or any("no live copy" in w for w in change.plan.warnings):
        return
    rules = change.plan.rules
    assert rules is not None
    racks = {b.id: b.rack for b in snapshot.brokers}
    ids = rules.receivers
    if any(racks[b] is None for b in ids):
        return  # these take only the last copies of a set, see openings.py
    sums: set[Row] = {tuple(0 for _ in ids)}
    ours = Counter(b for _, new in rows_of(change) for b in new)
    for old, _ in rows_of(change):
        stays = not set(old) & {*request.leaving.ids}
        kept = [racks[b] for b in old if b not in request.leaving.ids]
        if not stays and not can_be_even(kept, len(old), rules.spread_over):
            return  # the emptiest racks come first there
        sets = [old] if stays else list(options(old, request.leaving.ids, ids, racks, rules.spread_over))
        sums = {tuple(n + (b in s) for n, b in zip(loads, ids, strict=True)) for loads in sums for s in sets}
        if len(sums) > 20_000:
            return
    assert sum(ours[b] ** 2 for b in ids) == min(sum(n * n for n in loads) for loads in sums)


@RUNS
@given(st.data())
def test_a_drain_by_bytes_keeps_sets_even_and_free_bytes_closest(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots(max_brokers=5, max_partitions=4, dead=False))
    free = st.sampled_from([4_000, 9_000, 50_000, 51_000, 60_000])
    brokers = tuple(replace(b, storage_free_bytes=data.draw(free)) for b in snapshot.brokers)
    snapshot = replace(snapshot, brokers=brokers)
    request = data.draw(drains(snapshot))
    words = {**request.words, "placement": "storage"}
    change = planned(snapshot, replace(request, placement=PlaceBy.STORAGE, words=words))
    if change is None:
        return
    rules = change.plan.rules
    assert rules is not None
    racks = {b.id: b.rack for b in snapshot.brokers}
    sizes = [p.known_bytes or 0 for _, p in snapshot.partitions()]
    rows = rows_of(change)
    sets = []
    for old, new in rows:
        valid = list(options(old, request.leaving.ids, rules.receivers, racks, rules.spread_over))
        assert new == old or set(new) in map(set, valid)
        sets.append([old] if not set(old) & {*request.leaving.ids} else valid)
    before = {b.id: b.storage_free_bytes or 0 for b in brokers if b.id in rules.receivers}
    ranges = []
    for chosen in product(*sets):
        left = dict(before)
        for (old, _), new, size in zip(rows, chosen, sizes, strict=True):
            for b in set(new) - set(old):
                left[b] -= size
        taking = {b for (old, _), new in zip(rows, chosen, strict=True) for b in set(new) - set(old)}
        if all(left[b] >= 0 for b in taking):
            ranges.append(max(left.values()) - min(left.values()))
    if change.left_alone:
        assert not ranges, "a partition stays although all could go"
    elif not any("no live copy" in w for w in change.plan.warnings):
        after = [b.free_bytes for b in change.plan.after.brokers if b.broker in before and b.free_bytes is not None]
        assert max(after) - min(after) == min(ranges)


@st.composite
def crowded_clusters(draw: st.DrawFn) -> ClusterSnapshot:
    """Up to six brokers on two or three racks, some perhaps on none, and sets of three to five copies."""
    racks = ["a", "b", *draw(st.lists(st.sampled_from(["a", "b", "b", "c", None]), min_size=2, max_size=4))]
    ids = range(1, len(racks) + 1)
    row = st.lists(st.sampled_from(ids), min_size=3, max_size=min(5, len(racks) - 1), unique=True)
    lists = draw(st.lists(row, min_size=1, max_size=4))
    return ClusterSnapshot(
        cluster_id="c1",
        taken_at=TAKEN_AT,
        source="test",
        sizes_taken=True,
        brokers=tuple(
            Broker(id=b, rack=r, storage_free_bytes=draw(st.integers(500, 530)))
            for b, r in zip(ids, racks, strict=True)
        ),
        topics=(
            Topic(
                name="t",
                partitions=tuple(
                    Partition(partition=n, replicas=tuple(r), size_bytes=draw(st.integers(0, 12)))
                    for n, r in enumerate(lists)
                ),
            ),
        ),
    )


def one_set(racks: str, replicas: Row) -> ClusterSnapshot:
    """One partition on brokers 1, 2, ... of these racks, of which two have a byte more free than the others."""
    brokers = tuple(Broker(id=b, rack=r, storage_free_bytes=500 + (b in (2, 4))) for b, r in enumerate(racks, 1))
    topic = Topic(name="t", partitions=(Partition(partition=0, replicas=replicas, size_bytes=1),))
    return ClusterSnapshot(
        cluster_id="c1", taken_at=TAKEN_AT, source="test", sizes_taken=True, brokers=brokers, topics=(topic,)
    )


@RUNS
@given(crowded_clusters(), st.integers(0, 40), st.sampled_from(Minimize))
def test_a_balance_with_fewer_racks_than_copies_costs_the_least(
    snapshot: ClusterSnapshot, width: int, minimize: Minimize
) -> None:
    request = RebalanceRequest(
        brokers=BrokerList(ids=(), everything=True),
        topics=(".*",),
        goal=Goal(free_range_bytes=width),
        spread=True,
        minimize=minimize,
        words={"command": "topicmappr rebalance", "spread": "true"},
    )
    least = cheapest_in_range(balance_of(snapshot, request), width, copies=minimize is Minimize.MOVES)
    try:
        plan = decide_rebalance(snapshot, request).plan
    except InfeasibleError:
        assert least is None
        return
    verify_plan(json.loads(encode_plan(plan)), json.loads(encode_snapshot(snapshot)))
    assert plan.certificate.objective == least


@RUNS
@given(crowded_clusters(), st.integers(0, 2))
@example(one_set("abbcaa", (1, 2, 3)), 0)  # the way home was once the shortest for it
def test_uneven_sets_are_mended_down_to_a_number(snapshot: ClusterSnapshot, most: int) -> None:
    request = RebalanceRequest(
        brokers=BrokerList(ids=(), everything=True),
        topics=(".*",),
        goal=Goal(max_moved_bytes=1 << 20),
        spread=True,
        max_rack_violations=most,
        words={"command": "topicmappr rebalance", "spread": "true"},
    )
    racks = {b.id: b.rack for b in snapshot.brokers}
    over = sorted({r for r in racks.values() if r})
    ids = sorted(racks)
    fixed = sum(
        not any(even([racks[b] for b in s], over) for s in combinations(ids, len(p.replicas)))
        for _, p in snapshot.partitions()
    )
    try:
        plan = decide_rebalance(snapshot, request).plan
    except InfeasibleError:
        assert fixed > most
        return
    verify_plan(json.loads(encode_plan(plan)), json.loads(encode_snapshot(snapshot)))
    new = {m.partition: m.after for m in plan.moves}
    after = [new.get(e.partition, e.replicas) for e in plan.scope]
    assert sum(not even([racks[b] for b in row], over) for row in after) <= most
