"""Drains under an even spread over racks.

Limits of a balance on random small clusters. Bounds of plans under constraints by tags against a search of all
placements on small clusters. Free choices of a rebalance on random clusters.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import numpy as np
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from kafkakit.core.documents import encode_plan, encode_snapshot
from kafkakit.core.errors import InfeasibleError, TryLaterError, UsageError
from kafkakit.core.model import Broker, ClusterSnapshot, Partition, TagSet, TopicPartition
from kafkakit.core.plan import TagConstraint
from kafkakit.core.selection import BrokerList
from kafkakit.placement.by_size.lp_relaxation import demand_groups_of, least_cost
from kafkakit.placement.by_size.slots import make_table
from kafkakit.placement.group_rule import SpreadRule, TagRules
from kafkakit.placement.problem import Minimize, PlaceBy
from kafkakit.topicmappr.decide.assembly import PlannedChange
from kafkakit.topicmappr.decide.drain import decide_drain
from kafkakit.topicmappr.decide.fix_racks import decide_fix_racks
from kafkakit.topicmappr.decide.plain_requests import DrainRequest, FixRacksRequest, ReplicationRequest
from kafkakit.topicmappr.decide.rebalance import Rebalance, decide_rebalance
from kafkakit.topicmappr.decide.rebuild import decide_rebuild, decide_set_replication
from kafkakit.topicmappr.decide.request_fields import Ceilings, LoadGoal
from kafkakit.topicmappr.decide.requests import RebalanceRequest, RebuildRequest
from kafkakit.topicmappr.decide.scope import TagConstraints
from tests.clusters.balance_strategies import balance_requests, examples, sized_clusters
from tests.clusters.exact_balance import Balance, balance_of, cheapest_in_range
from tests.clusters.shapes import make_snapshot
from tests.clusters.strategies import snapshots
from tests.invariants.constraints import broken
from tests.invariants.plan import verify_plan
from tests.invariants.soft_goals import choices_left_open, no_worse, same_price, weigh
from tests.property.test_rebuild import RUNS, constraints, read, tagged
from tests.rigs.certificate_checks import Racks, breaks_rack_rule

RUNS_EVEN_SPREAD = settings(
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


@RUNS_EVEN_SPREAD
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


@RUNS_EVEN_SPREAD
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


@RUNS_EVEN_SPREAD
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
    return make_snapshot(
        [Broker(id=b, rack=r, storage_free_bytes=draw(st.integers(500, 530))) for b, r in zip(ids, racks, strict=True)],
        {
            "t": [
                Partition(partition=n, replicas=tuple(r), size_bytes=draw(st.integers(0, 12)))
                for n, r in enumerate(lists)
            ]
        },
    )


def one_set(racks: str, replicas: Row) -> ClusterSnapshot:
    """One partition on brokers 1, 2, ... of these racks, of which two have a byte more free than the others."""
    brokers = tuple(Broker(id=b, rack=r, storage_free_bytes=500 + (b in (2, 4))) for b, r in enumerate(racks, 1))
    return make_snapshot(brokers, {"t": [Partition(partition=0, replicas=replicas, size_bytes=1)]})


@RUNS_EVEN_SPREAD
@given(crowded_clusters(), st.integers(0, 40), st.sampled_from(Minimize))
def test_a_balance_with_fewer_racks_than_copies_costs_the_least(
    snapshot: ClusterSnapshot, width: int, minimize: Minimize
) -> None:
    request = RebalanceRequest(
        brokers=BrokerList(ids=(), everything=True),
        topics=(".*",),
        goal=LoadGoal(free_range_bytes=width),
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


@RUNS_EVEN_SPREAD
@given(crowded_clusters(), st.integers(0, 2))
@example(one_set("abbcaa", (1, 2, 3)), 0)  # the way home was once the shortest for it
def test_uneven_sets_are_mended_down_to_a_number(snapshot: ClusterSnapshot, most: int) -> None:
    request = RebalanceRequest(
        brokers=BrokerList(ids=(), everything=True),
        topics=(".*",),
        goal=LoadGoal(max_moved_bytes=1 << 20),
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


CEILINGS = ("max-replicas", "max-leaders", "max-topic-leaders")


def ids(request: RebalanceRequest, name: str) -> list[int]:
    listed = getattr(request, name)
    return list(listed.ids) if listed else []


@st.composite
def limited(draw: st.DrawFn, snapshot: ClusterSnapshot, request: RebalanceRequest) -> RebalanceRequest:
    brokers = st.lists(st.sampled_from([b.id for b in snapshot.brokers]), max_size=2, unique=True)
    ceilings = {name: draw(st.sampled_from([None, None, 1, 2, 3, 5, 8])) for name in CEILINGS}
    taking, giving = draw(brokers), draw(brokers)
    words = {name: str(n) for name, n in ceilings.items() if n is not None}
    words |= {"exclude-receivers": ",".join(map(str, taking))} if taking else {}
    words |= {"exclude-givers": ",".join(map(str, giving))} if giving else {}
    return replace(
        request,
        exclude_receivers=BrokerList(ids=tuple(taking)) if taking else None,
        exclude_givers=BrokerList(ids=tuple(giving)) if giving else None,
        words={**request.words, **words},
        ceilings=Ceilings(**{name.replace("-", "_"): n for name, n in ceilings.items()}),
    )


def decide(snapshot: ClusterSnapshot, request: RebalanceRequest) -> Rebalance | InfeasibleError:
    try:
        decided = decide_rebalance(snapshot, request)
    except InfeasibleError as error:
        return error
    verify_plan(json.loads(encode_plan(decided.plan)), json.loads(encode_snapshot(snapshot)))
    return decided


@examples(200)
@given(st.data())
def test_every_plan_keeps_the_limits(data: st.DataObject) -> None:
    snapshot = data.draw(sized_clusters(max_brokers=6, max_partitions=10))
    request = data.draw(limited(snapshot, data.draw(balance_requests(snapshot))))
    try:
        found = decide(snapshot, request)
    except UsageError:
        return
    event("refused" if isinstance(found, InfeasibleError) else "moves" if found.plan.moves else "still")


def may_lead(
    lists: Sequence[Sequence[int]], topics: Sequence[str], fixed: Sequence[bool], request: RebalanceRequest
) -> bool:
    """True when leaders within the ceilings exist; partitions that are fixed keep their first. By search."""
    most, of_topic = request.ceilings.max_leaders or 99, request.ceilings.max_topic_leaders or 99
    led: Counter[int] = Counter()
    led_of: Counter[tuple[str, int]] = Counter()

    def rest(part: int) -> bool:
        if part == len(lists):
            return True
        for b in lists[part][:1] if fixed[part] else sorted(lists[part]):
            if led[b] < most and led_of[topics[part], b] < of_topic:
                led[b] += 1
                led_of[topics[part], b] += 1
                if rest(part + 1):
                    return True
                led[b] -= 1
                led_of[topics[part], b] -= 1
        return False

    return rest(0)


def cheapest(
    snapshot: ClusterSnapshot, balance: Balance, request: RebalanceRequest, even: list[int], ppm: int | None
) -> int | None:
    """The fewest bytes of any placement within all limits, by enumeration; None where there is none."""
    limits = balance.hard() if ppm is None else replace(balance, targets=even).band(ppm)
    topics = [name for name, _ in snapshot.partitions()]
    live = {b.id for b in snapshot.brokers if b.is_alive}
    fixed = [p.isr is not None and not live & set(p.isr) for _, p in snapshot.partitions()]
    best: int | None = None
    for sets in product(*(balance.legal(p) for p in range(len(balance.lists)))):
        loads, cost = dict(balance.load), 0
        for old, new, size in zip(balance.lists, sets, balance.sizes, strict=True):
            for b in new - set(old):
                loads[b] += size
                cost += size
            for b in set(old) - new:
                loads[b] -= size
        held = Counter(b for row in sets for b in row)
        if best is not None and cost >= best:
            continue
        if any(held[b] > (request.ceilings.max_replicas or 99) for b in balance.targets):
            continue
        if not all(low <= loads[b] <= high for b, (low, high) in limits.items()):
            continue
        rows = [old if stays else tuple(new) for old, new, stays in zip(balance.lists, sets, fixed, strict=True)]
        if may_lead(rows, topics, fixed, request):
            best = cost
    return best


def kept_in_goal(balance: Balance, taking: set[int], giving: set[int]) -> list[int]:
    """The targets that may come nearer to the share of those that are left."""
    left = [b for b in balance.targets if b not in taking & giving]
    while left:
        share = shares(replace(balance, targets=left))
        low = [b for b in left if b in taking and balance.load[b] < share[b]]
        high = [b for b in left if b in giving and balance.load[b] > share[b]]
        if not low and not high:
            return left
        left = [b for b in left if b not in low and b not in high]
    return left


def shares(balance: Balance) -> dict[int, int]:
    limits = replace(balance, room=dict.fromkeys(balance.load, 1 << 62)).band(0)
    return {b: limits[b][1] if limits[b][0] >= 0 else 0 for b in balance.targets}


@examples(150)
@given(st.data())
def test_small_clusters_get_the_cheapest_plan_within_the_limits_or_a_true_refusal(data: st.DataObject) -> None:
    snapshot = data.draw(sized_clusters(max_brokers=4, max_partitions=5, full=False))
    band = data.draw(st.sampled_from([20, 50, 100, 400, None]))
    goal = LoadGoal(free_range_bytes=1 << 61) if band is None else LoadGoal(band=Fraction(band, 100))
    base = RebalanceRequest(
        brokers=BrokerList(ids=(), existing=True, everything=True),
        topics=(".*",),
        goal=goal,
        words={"command": "topicmappr rebalance"},
    )
    request = data.draw(limited(snapshot, base))
    taking, giving = set(ids(request, "exclude_receivers")), set(ids(request, "exclude_givers"))
    balance = balance_of(snapshot, request)
    balance = replace(balance, receivers=balance.receivers - taking, givers=balance.givers - giving)
    even = kept_in_goal(balance if band else replace(balance, capacity=dict.fromkeys(balance.load, 0)), taking, giving)
    try:
        found = decide(snapshot, request)
    except UsageError:
        assert not even
        return
    least = cheapest(snapshot, balance, request, even, None if band is None else band * 10_000)
    if isinstance(found, InfeasibleError):
        assert least is None, f"{found.message}, and {least} bytes are enough"
        event("refused")
        return
    assert least is not None
    cost = sum(
        size * len(set(new) - set(old)) for size, old, new in zip(balance.sizes, found.before, found.after, strict=True)
    )
    assert cost == least or found.plan.certificate.status != "optimal"
    assert cost <= least + least // 500, f"{cost} bytes, {least} are enough"
    event("moves" if cost else "still")


@examples(100)
@given(st.data())
def test_drains_and_repairs_copy_nothing_to_excluded_brokers_and_serve_what_the_others_can_take(
    data: st.DataObject,
) -> None:
    snapshot = data.draw(sized_clusters(max_brokers=6, max_partitions=8))
    everyone = [b.id for b in snapshot.brokers]
    out = data.draw(st.lists(st.sampled_from(everyone), min_size=1, max_size=2, unique=True))
    listed, words = BrokerList(ids=tuple(out)), {"exclude-receivers": ",".join(map(str, out))}
    change: PlannedChange
    try:
        verb = data.draw(st.sampled_from(["drain", "fix-racks", "set-replication"]))
        if verb == "drain":
            leaving = data.draw(st.sampled_from(everyone))
            words |= {"command": "topicmappr drain", "brokers": str(leaving)}
            placement = data.draw(st.sampled_from(PlaceBy))
            gone = BrokerList(ids=(leaving,))
            change = decide_drain(
                snapshot,
                DrainRequest(leaving=gone, exclude_receivers=listed, topics=(".*",), placement=placement, words=words),
            )
            others = [b.id for b in snapshot.brokers if b.is_alive and b.id not in (leaving, *out)]
            named = replace(
                DrainRequest(leaving=gone, topics=(".*",), placement=placement, words={}),
                receiving=BrokerList(ids=tuple(others)),
            )
            assert [m.after for m in decide_drain(snapshot, named).plan.moves] == [m.after for m in change.plan.moves]
        elif verb == "set-replication":
            factor = data.draw(st.integers(1, 3))
            words |= {"command": "topicmappr set-replication", "replication": str(factor)}
            change = decide_set_replication(
                snapshot,
                ReplicationRequest(replication=factor, topics=(".*",), exclude_receivers=listed, words=words),
            )
        else:
            words |= {"command": "topicmappr fix-racks"}
            change = decide_fix_racks(snapshot, FixRacksRequest(topics=(".*",), exclude_receivers=listed, words=words))
    except (UsageError, TryLaterError):
        return
    event(f"{words['command']}, {'moves' if change.plan.moves else 'still'}")
    written = json.loads(encode_plan(change.plan)), json.loads(encode_snapshot(snapshot))
    verify_plan(*written, allow_unplaced=bool(change.left_alone))


def legal_sets(
    topic: str,
    wanted: int,
    brokers: Sequence[int],
    racks: Mapping[int, str | None],
    listed: Sequence[Any],
    minimum: int = 0,
) -> Iterator[Row]:
    """The sets that keep the rack rule and every constraint in each copy."""
    for row in combinations(brokers, wanted):
        if not breaks_rack_rule(row, racks, minimum) and not any(broken(c, topic, (), row, wanted) for c in listed):
            yield row


@RUNS
@given(st.data())
def test_a_forced_rebuild_is_most_even_then_cheapest_and_its_bound_is_true(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots(max_brokers=5, max_partitions=4, dead=False).flatmap(tagged))
    asked: TagConstraints = data.draw(constraints())
    without_spread: bool = data.draw(st.booleans())
    if asked.rules and without_spread:
        asked = replace(asked, spread_by=())
    request = RebuildRequest(
        brokers=BrokerList(ids=(), everything=True),
        topics=(".*",),
        force_rebuild=True,
        constraints=asked,
        words={"command": "topicmappr rebuild", "force-rebuild": "true"},
    )
    try:
        decided = decide_rebuild(snapshot, request)
    except UsageError:
        return
    if any(decided.unplaced):
        event("unplaced")
        return
    read(decided.plan, snapshot)
    listed = json.loads(encode_plan(decided.plan))["constraints"]
    racks = {b.id: b.rack for b in snapshot.brokers}
    choices = [list(legal_sets(p.key.topic, p.wanted, sorted(racks), racks, listed)) for p in decided.scope.partitions]
    every = []
    for rows in product(*choices):
        held = Counter(b for row in rows for b in row)
        copies = sum(len(set(row) - set(p.current)) for row, p in zip(rows, decided.scope.partitions, strict=True))
        every.append((sorted((held[b] for b in racks), reverse=True), copies))
    loads = Counter(b for row in decided.after for b in row)
    counts = sorted((loads[b] for b in racks), reverse=True)
    certificate = decided.plan.certificate
    event(f"spread {bool(asked.spread_by)}, gap {certificate.gap:.0%}")
    if asked.spread_by:
        assert certificate.lower_bound <= min(copies for _, copies in every)
    else:
        assert (counts, certificate.objective) == min(every)
        assert certificate.gap == 0


@RUNS
@given(st.data())
def test_a_repair_makes_the_fewest_copies_and_says_so(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots(max_brokers=6, max_partitions=4, dead=False).flatmap(tagged))
    # Sets of brokers without a rack are read strictly under a minimum, and need not be found then.
    minimum = data.draw(st.integers(0, 2 if all(b.rack for b in snapshot.brokers) else 1))
    words = {"command": "topicmappr fix-racks", "min-rack-ids": str(minimum)}
    request = FixRacksRequest(topics=(".*",), min_rack_ids=minimum, constraints=data.draw(constraints()), words=words)
    try:
        change = decide_fix_racks(snapshot, request)
    except UsageError:
        return
    event(f"{'left alone' if change.left_alone else 'served'}, {min(change.plan.certificate.objective, 3)} copies")
    _fewest_copies(change, snapshot, minimum)


def _fewest_copies(change: PlannedChange, snapshot: ClusterSnapshot, minimum: int) -> None:
    """All sets of each partition are tried: what has one is repaired, with the fewest copies there are."""
    read(change.plan, snapshot)
    listed = json.loads(encode_plan(change.plan))["constraints"]
    racks = {b.id: b.rack for b in snapshot.brokers}
    moved = {m.key: m.after for m in change.plan.moves}
    fewest = 0
    for entry in change.plan.scope:
        old = entry.replicas
        sets = list(legal_sets(entry.topic, len(old), sorted(racks), racks, listed, minimum))
        after = moved.get(TopicPartition(entry.topic, entry.partition), old)
        assert not sets or set(after) in map(set, sets), f"{old} became {after}, and could be one of {sets}"
        fewest += min((len(set(row) - set(old)) for row in sets), default=0)
    certificate = change.plan.certificate
    assert certificate.objective == fewest
    assert certificate.lower_bound == fewest or (certificate.lower_bound < fewest and None in racks.values())


def test_a_copy_that_could_stay_is_kept_where_the_last_of_the_list_could_not() -> None:
    """Of four copies with one value two may stay, and of three in one rack one: those in different racks stay."""
    racks = {1: "a", 2: "a", 3: "a", 4: "c", 5: "d", 6: "b"}
    snapshot = make_snapshot(
        (Broker(id=b, rack=r) for b, r in racks.items()),
        {"t": [Partition(partition=0, replicas=(1, 2, 3, 4))]},
        sizes_taken=False,
        tags=TagSet(brokers={b: {"feed": "y" if b > 4 else "x"} for b in racks}),
    )
    words = {"command": "topicmappr fix-racks"}
    request = FixRacksRequest(topics=(".*",), constraints=TagConstraints(spread_by=("feed",)), words=words)
    change = decide_fix_racks(snapshot, request)
    assert change.plan.certificate.objective == 2
    _fewest_copies(change, snapshot, 0)


@RUNS
@given(st.data())
def test_the_least_bytes_to_copy_are_a_true_bound_under_constraints(data: st.DataObject) -> None:
    """Limits on loads, brokers closed to topics, copies of one rack apart: all placements are tried."""
    count = data.draw(st.integers(2, 4))
    brokers = range(count)
    racks = {b: data.draw(st.sampled_from(["a", "b", "c"])) for b in brokers} if data.draw(st.booleans()) else {}
    most = 2 if racks else 1
    lists = st.lists(st.sampled_from(list(brokers)), min_size=1, max_size=min(most, count), unique=True)
    rows = data.draw(st.lists(lists, min_size=1, max_size=4))
    alike = data.draw(st.booleans())
    sizes = [1 if alike else data.draw(st.integers(0, 9)) for _ in rows]
    topics = [data.draw(st.sampled_from(["hot", "cold", "other"])) for _ in rows]
    some = st.lists(st.sampled_from(list(brokers)), max_size=count, unique=True).map(tuple)
    constraints = [
        TagConstraint(text="affinity", topics=("hot",), only=data.draw(some)),
        TagConstraint(text="anti-affinity", topics=("hot", "cold"), never=data.draw(some)),
    ]
    receivers = data.draw(some)
    table = make_table(
        rows, sizes, racks, SpreadRule(tags=TagRules(constraints)), receivers=(*receivers, 0), topics=topics
    )
    place = {b: i for i, b in enumerate(table.brokers)}
    floor = np.array([data.draw(st.integers(0, 6)) for _ in table.brokers])
    ceiling = floor + np.array([data.draw(st.integers(0, 9)) for _ in table.brokers])
    bound = least_cost(table, demand_groups_of(table), floor, ceiling)

    def sets(row: Sequence[int], topic: str) -> Iterator[Row]:
        for new in combinations(table.brokers, len(row)):
            added = set(new) - set(row)
            crowded = Counter(racks.get(b, b) for b in new) - Counter(racks.get(b, b) for b in row)
            if added <= {*receivers, 0} and (len({racks.get(b, b) for b in new}) == len(new) or not crowded):
                closed = [c for c in constraints if topic in c.topics and any(_shut(c, b) for b in added)]
                if not closed:
                    yield new

    costs = []
    for chosen in product(*(list(sets(row, topic)) for row, topic in zip(rows, topics, strict=True))):
        loads = np.zeros(len(table.brokers), dtype=np.int64)
        for row, size in zip(chosen, sizes, strict=True):
            for b in row:
                loads[place[b]] += size
        if (loads >= floor).all() and (loads <= ceiling).all():
            costs.append(sum(s * len(set(n) - set(o)) for n, o, s in zip(chosen, rows, sizes, strict=True)))
    event("feasible" if costs else "not feasible")
    if costs:
        assert bound.outside == 0
        assert bound.value <= min(costs)
    if not racks and alike:
        assert (bound.outside == 0) == bool(costs), "whole units without racks are no relaxation"
        assert not costs or bound.value == min(costs)


def _shut(constraint: TagConstraint, broker: int) -> bool:
    return broker in constraint.never or (constraint.only is not None and broker not in constraint.only)


def test_a_copy_that_tags_send_round_is_counted_twice() -> None:
    """Broker 0 has too much of what may go to 1 alone, 2 lacks what only 1 can give: two copies, not one."""
    only = TagConstraint(text="affinity", topics=("hot",), only=(0, 1))
    rows, topics = [[0], [0], [1], [2]], ["hot", "hot", "cold", "cold"]

    def least(*constraints: TagConstraint) -> int:
        rule = SpreadRule(tags=TagRules(constraints) if constraints else None)
        table = make_table(rows, [4, 4, 4, 1], {}, rule, receivers=(0, 1, 2), topics=topics)
        return least_cost(table, demand_groups_of(table), np.array([0, 0, 5]), np.array([4, 4, 5])).value

    assert least() == 4
    assert least(only) == 8


@examples(40)
@given(st.data())
def test_free_choices_make_nothing_worse(data: st.DataObject) -> None:
    snapshot = data.draw(sized_clusters(max_brokers=8, max_partitions=12))
    request = data.draw(balance_requests(snapshot))
    try:
        with choices_left_open():
            found = decide_rebalance(snapshot, request)
    except (UsageError, InfeasibleError):
        return
    made = decide_rebalance(snapshot, request)
    verify_plan(json.loads(encode_plan(made.plan)), json.loads(encode_snapshot(snapshot)))
    if request.optimize_leadership:  # then the order of all lists is free, and is chosen again for other sets
        same_price(found, made)
        assert weigh(made).counts <= weigh(found).counts
    else:
        no_worse(found, made)
