"""Plans of drain, fix-racks and set-replication on random clusters: invariants hold, and small answers are the best."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkakit.core.documents import encode_plan, encode_snapshot
from kafkakit.core.errors import InfeasibleError, UsageError
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan import Plan
from kafkakit.core.selection import BrokerList
from kafkakit.topicmappr.decide.assembly import PlannedChange
from kafkakit.topicmappr.decide.drain import DrainRequest, decide_drain
from kafkakit.topicmappr.decide.fix_racks import FixRacksRequest, decide_fix_racks
from kafkakit.topicmappr.decide.place import PlaceRequest, decide_place
from kafkakit.topicmappr.decide.rebuild import ReplicationRequest, decide_set_replication
from tests.clusters.strategies import snapshots
from tests.invariants.plan import verify_plan

RUNS = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
Racks = dict[int, str | None]


def check(plan: Plan, snapshot: ClusterSnapshot, *, allow_unplaced: bool = False) -> None:
    verify_plan(json.loads(encode_plan(plan)), json.loads(encode_snapshot(snapshot)), allow_unplaced=allow_unplaced)


def after_of(change: PlannedChange) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    new = {m.key: m.after for m in change.plan.moves}
    rows = []
    for entry in change.plan.scope:
        key = next((k for k in new if k == (entry.topic, entry.partition)), None)
        rows.append((entry.replicas, entry.replicas if key is None else new[key]))
    return rows


@st.composite
def drains(draw: st.DrawFn, snapshot: ClusterSnapshot) -> DrainRequest:
    ids = [b.id for b in snapshot.brokers]
    leaving = draw(st.lists(st.sampled_from(ids), min_size=1, max_size=len(ids), unique=True))
    live = [b.id for b in snapshot.brokers if b.is_alive and b.id not in leaving]
    named = bool(live) and draw(st.booleans())
    to = draw(st.lists(st.sampled_from(live), min_size=1, unique=True)) if named else None
    return DrainRequest(
        leaving=BrokerList(ids=tuple(leaving)),
        receiving=None if to is None else BrokerList(ids=tuple(to)),
        topics=(".*",),
        min_rack_ids=draw(st.integers(0, 3)),
        words={"command": "topicmappr drain", "brokers": ",".join(map(str, leaving))},
    )


@RUNS
@given(st.data())
def test_a_drain_empties_the_brokers_and_touches_nothing_else(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots())
    request = data.draw(drains(snapshot))
    try:
        change = decide_drain(snapshot, request)
    except UsageError:
        assert not {b.id for b in snapshot.brokers if b.is_alive} - {*request.leaving.ids}
        return
    check(change.plan, snapshot)
    assert bool(change.left_alone) == bool(change.reasons)
    assert encode_plan(decide_drain(snapshot, request).plan) == encode_plan(change.plan)
    racks = {b.id: b.rack for b in snapshot.brokers}
    for old, new in after_of(change):
        if not breaks(old, racks, request.min_rack_ids):
            assert not breaks(new, racks, request.min_rack_ids)


@RUNS
@given(st.data())
def test_a_replica_that_stays_on_a_drained_broker_has_no_lawful_place(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots(dead=False))
    request = data.draw(drains(snapshot))
    if request.min_rack_ids > 1 and any(b.rack is None for b in snapshot.brokers):
        return  # mixed sets are counted strictly, see rack_rule.py
    try:
        change = decide_drain(snapshot, request)
    except UsageError:
        return
    racks = {b.id: b.rack for b in snapshot.brokers}
    rules = change.plan.rules
    assert rules is not None
    for old, new in after_of(change):
        gone = [b for b in old if b in request.leaving.ids]
        if new != old or not gone:
            continue
        kept = [b for b in old if b not in gone]
        if breaks(kept, racks, request.min_rack_ids):
            continue
        spare = [b for b in rules.receivers if b not in kept]
        for extra in combinations(spare, len(gone)):
            assert breaks([*kept, *extra], racks, request.min_rack_ids), f"{old} could become {kept}+{extra}"


@RUNS
@given(st.data())
def test_a_drain_evens_out_as_far_as_can_be(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots(max_brokers=5, max_partitions=6, dead=False))
    leaving = data.draw(st.sampled_from([b.id for b in snapshot.brokers]))
    words = {"command": "topicmappr drain", "brokers": str(leaving)}
    request = DrainRequest(leaving=BrokerList(ids=(leaving,)), topics=(".*",), words=words)
    if len(snapshot.brokers) == 1:
        return
    change = decide_drain(snapshot, request)
    if change.left_alone:
        return
    racks = {b.id: b.rack for b in snapshot.brokers}
    best: set[tuple[int, ...]] = {tuple(0 for _ in snapshot.brokers)}
    ids = [b.id for b in snapshot.brokers]
    for old, _ in after_of(change):
        kept = [b for b in old if b != leaving]
        options = [(b,) for b in ids if b not in old and not worse(kept, b, racks)] if leaving in old else [()]
        best = {
            tuple(n + (b in kept or b in extra) for n, b in zip(loads, ids, strict=True))
            for loads in best
            for extra in options
        }
    ours = Counter(b for _, new in after_of(change) for b in new)
    assert sum(n * n for n in ours.values()) == min(sum(n * n for n in loads) for loads in best)


def worse(kept: list[int], new: int, racks: Racks) -> bool:
    return bool(racks[new]) and racks[new] in {racks[b] for b in kept}


def breaks(replicas: Sequence[int], racks: Racks, minimum: int) -> bool:
    used = [r for b in replicas if (r := racks[b])]
    return len(set(used)) < len(used) and (minimum == 0 or len(set(used)) < minimum)


def uneven(replicas: Sequence[int], racks: Racks, names: set[str]) -> bool:
    count = [sum(1 for b in replicas if racks[b] == r) for r in names]
    return bool(count) and max(count) - min(count) > 1


@RUNS
@given(st.data())
def test_fix_racks_moves_the_fewest_replicas_a_search_finds(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots(max_brokers=7))
    live = [b.id for b in snapshot.brokers if b.is_alive]
    racks = {b.id: b.rack for b in snapshot.brokers}
    names = {r for b in live if (r := racks[b])}
    spread = data.draw(st.booleans())
    minimum = 0 if spread else data.draw(st.integers(0, 4))
    words = {"command": "topicmappr fix-racks", "min-rack-ids": str(minimum), "spread": "true" if spread else ""}
    request = FixRacksRequest(topics=(".*",), min_rack_ids=minimum, spread=spread, words=words)
    try:
        change = decide_fix_racks(snapshot, request)
    except UsageError:
        assert not names
        return
    check(change.plan, snapshot)
    assert encode_plan(decide_fix_racks(snapshot, request).plan) == encode_plan(change.plan)
    isr = {(t, p.partition): p.isr or () for t, p in snapshot.partitions()}
    for entry, (old, new) in zip(change.plan.scope, after_of(change), strict=True):
        wrong = partial(uneven, racks=racks, names=names) if spread else partial(breaks, racks=racks, minimum=minimum)
        if not wrong(old):
            assert new == old
            continue
        stranded = not set(isr[entry.topic, entry.partition]) & set(live)
        fewest = None if stranded else fewest_moves(old, live, wrong)
        if fewest is None:
            assert new == old
        else:
            assert len(set(new) - set(old)) == fewest, f"{old} became {new}, {fewest} would do"
            if old[0] in live:
                assert old[0] in new


def fewest_moves(old: tuple[int, ...], live: list[int], wrong: Callable[[Sequence[int]], bool]) -> int | None:
    spare = [b for b in live if b not in old]
    for n in range(1, len(old) + 1):
        for gone in combinations(old, n):
            kept = [b for b in old if b not in gone]
            if any(not wrong([*kept, *new]) for new in combinations(spare, n)):
                return n
    return None


@RUNS
@given(st.data())
def test_set_replication_keeps_the_invariants(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots())
    factor = data.draw(st.integers(1, 5))
    words = {"command": "topicmappr set-replication", "replication": str(factor)}
    change = decide_set_replication(snapshot, ReplicationRequest(replication=factor, topics=(".*",), words=words))
    check(change.plan, snapshot, allow_unplaced=bool(change.left_alone))
    live = {b.id for b in snapshot.brokers if b.is_alive}
    isr = {(t, p.partition): set(p.isr or ()) for t, p in snapshot.partitions()}
    for entry, (old, new) in zip(change.plan.scope, after_of(change), strict=True):
        sources = isr[entry.topic, entry.partition] & live
        assert not sources or sources & set(new), f"{old} became {new} without a copy in sync"
        if change.left_alone == 0 and sources:
            assert len(new) == factor


@RUNS
@given(st.data())
def test_mended_racks_leave_counts_as_even_as_a_search_finds(data: st.DataObject) -> None:
    drawn = data.draw(snapshots(max_brokers=6, max_partitions=6, dead=False))
    snapshot = replace(
        drawn,
        topics=tuple(replace(t, partitions=tuple(replace(p, isr=None) for p in t.partitions)) for t in drawn.topics),
    )
    ids = [b.id for b in snapshot.brokers]
    racks = {b.id: b.rack for b in snapshot.brokers}
    if None in racks.values():
        return  # there a copy that breaks no rule could give way as well, and ours leaves it alone
    minimum = data.draw(st.integers(0, 3))
    words = {"command": "topicmappr fix-racks", "min-rack-ids": str(minimum)}
    try:
        change = decide_fix_racks(snapshot, FixRacksRequest(topics=(".*",), min_rack_ids=minimum, words=words))
    except UsageError:
        return
    wrong = partial(breaks, racks=racks, minimum=minimum)
    loads = {tuple(0 for _ in ids)}
    for old, new in after_of(change):
        moves = len(set(new) - set(old))
        choices = [old] if not moves else [s for s in lawful_sets(old, ids, moves, wrong) if old[0] in s]
        loads = {tuple(n + (b in s) for n, b in zip(now, ids, strict=True)) for now in loads for s in choices}
    ours = Counter(b for _, new in after_of(change) for b in new)
    assert sum(n * n for n in ours.values()) == min(sum(n * n for n in now) for now in loads)


def lawful_sets(
    old: tuple[int, ...], ids: list[int], moves: int, wrong: Callable[[Sequence[int]], bool]
) -> list[tuple[int, ...]]:
    sets = combinations(ids, len(old))
    return [s for s in sets if len(set(s) - set(old)) == moves and not wrong(s)]


@st.composite
def new_topics(draw: st.DrawFn, snapshot: ClusterSnapshot) -> PlaceRequest:
    return PlaceRequest(
        topic="new",
        partitions=draw(st.integers(1, 6)),
        replication=draw(st.integers(1, 4)),
        partition_bytes=draw(st.sampled_from([None, 1, 700, 10**15])),
        min_rack_ids=draw(st.integers(0, 3)),
    )


@RUNS
@given(st.data())
def test_a_new_topic_is_lawful_and_spread_as_evenly_as_a_search_finds(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots(max_brokers=6, max_partitions=6))
    request = data.draw(new_topics(snapshot))
    live = [b.id for b in snapshot.brokers if b.is_alive]
    racks = {b.id: b.rack for b in snapshot.brokers}
    assert request.replication is not None
    sets = [s for s in combinations(live, request.replication) if not breaks(s, racks, request.min_rack_ids)]
    mixed = request.min_rack_ids > 1 and any(racks[b] is None for b in live)
    try:
        placed = decide_place(snapshot, request)
    except InfeasibleError:
        assert not sets or mixed
        return
    except UsageError:
        assert not live
        return
    assert len(placed.lists) == request.partitions
    assert all(tuple(sorted(row)) in sets for row in placed.lists)
    if request.partition_bytes is not None or mixed:
        return
    held = Counter(b for _, p in snapshot.partitions() for b in p.replicas)
    loads = {(0,) * len(live)}
    for _ in placed.lists:
        loads = {tuple(n + (b in s) for n, b in zip(now, live, strict=True)) for now in loads for s in sets}

    def unevenness(new: Sequence[int]) -> tuple[int, int, int]:
        by_rack = Counter[str]()
        for b, n in zip(live, new, strict=True):
            by_rack[racks[b] or str(b)] += n
        levels = sum((held[b] + n) ** 2 for b, n in zip(live, new, strict=True))
        return sum(n * n for n in new), sum(n * n for n in by_rack.values()), levels

    counts = Counter(b for row in placed.lists for b in row)
    ours = [counts[b] for b in live]
    assert unevenness(ours) == min(map(unevenness, loads))
    lead = Counter(row[0] for row in placed.lists)
    if max(ours) - min(ours) <= 1:
        assert max(lead[b] for b in live) - min(lead[b] for b in live) <= 1
    led = Counter(p.replicas[0] for _, p in snapshot.partitions())
    choices = {(0,) * len(live)}
    for row in placed.lists:
        choices = {tuple(n + (b == x) for n, b in zip(now, live, strict=True)) for now in choices for x in row}

    def leadership(new: Sequence[int]) -> tuple[int, int]:
        return sum(n * n for n in new), sum((led[b] + n) ** 2 for b, n in zip(live, new, strict=True))

    assert leadership([lead[b] for b in live]) == min(map(leadership, choices))
