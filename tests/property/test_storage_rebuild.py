"""Rebuilds by storage on random clusters.

Frontiers fall with looser goals, bounds hold, our own maps are judged fairly, and no map makes a traceback. Plans of
preferred leaders. Larger clusters of many shapes.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from math import ceil, prod
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kafkakit.core.documents import decode_plan, encode_partition_map, encode_plan, encode_snapshot, is_partition_map
from kafkakit.core.errors import InfeasibleError, InputError, KafkakitError, RefusedError, TryLaterError, UsageError
from kafkakit.core.findings import Severity
from kafkakit.core.model import Broker, ClusterSnapshot, PartitionAssignment, PartitionMap
from kafkakit.core.plan import SolverStatus
from kafkakit.core.plan_rules import check_plan
from kafkakit.core.selection import BrokerList
from kafkakit.placement.problem import Minimize, OptimizeFor, PlaceBy
from kafkakit.placement.rebuild_search import RebuildResult, search
from kafkakit.placement.rebuild_task import RebuildTask
from kafkakit.placement.watch import SearchWatch
from kafkakit.report.report import text_of
from kafkakit.topicmappr.decide import rebuild_bytes as storage_decide
from kafkakit.topicmappr.decide.assembly import PlannedChange
from kafkakit.topicmappr.decide.audit import IMPOSSIBLE, audit_map, plan_of_map
from kafkakit.topicmappr.decide.audit_map import read_map
from kafkakit.topicmappr.decide.drain import decide_drain, decide_repair
from kafkakit.topicmappr.decide.fix_racks import decide_fix_racks
from kafkakit.topicmappr.decide.frontier import decide_frontier, frontier_points
from kafkakit.topicmappr.decide.leaders import decide_leaders
from kafkakit.topicmappr.decide.plain_requests import (
    DrainRequest,
    FixRacksRequest,
    LeadersRequest,
    RepairRequest,
    ReplicationRequest,
)
from kafkakit.topicmappr.decide.rebalance import decide_rebalance
from kafkakit.topicmappr.decide.rebuild import Rebuild, decide_rebuild, decide_set_replication
from kafkakit.topicmappr.decide.request_fields import Ceilings, LoadGoal
from kafkakit.topicmappr.decide.requests import (
    FrontierBase,
    FrontierRequest,
    MapAuditRequest,
    Metric,
    RebalanceRequest,
    RebuildRequest,
    goal_of,
)
from kafkakit.topicmappr.report.judgement import audit_data, audit_sections, frontier_page, frontier_sections
from tests.clusters.balance_strategies import EVERYBODY
from tests.clusters.drift import UNIT, sized
from tests.clusters.shapes import SHAPES
from tests.clusters.strategies import requests, snapshots
from tests.invariants.plan import breaks_rack_rule, verify_plan
from tests.invariants.storage_rebuild import verify_storage_rebuild

ROUNDS = settings(max_examples=100, deadline=None, derandomize=True)
FACTORS = st.sampled_from([Fraction(1), Fraction(1), Fraction(3, 2), Fraction(1, 2)])
_MOST_PLACEMENTS = 30_000


@st.composite
def cases(
    draw: st.DrawFn, *, max_brokers: int = 8, max_partitions: int = 10, dead: bool = True
) -> tuple[ClusterSnapshot, RebuildRequest]:
    """A cluster with free bytes, from too few to plenty, and a request to place by them."""
    snapshot = draw(snapshots(max_brokers=max_brokers, max_partitions=max_partitions, dead=dead))
    most = draw(st.sampled_from([3_000, 10_000, 50_000]))
    brokers = tuple(replace(b, storage_free_bytes=draw(st.integers(0, most))) for b in snapshot.brokers)
    snapshot = replace(snapshot, brokers=brokers)
    request = draw(requests(snapshot))
    factor, optimize = draw(FACTORS), draw(st.sampled_from(OptimizeFor))
    words = {**request.words, "placement": "storage", "optimize": optimize.value, "partition-size-factor": str(factor)}
    leadership = draw(st.booleans())
    words |= {"optimize-leadership": "true"} if leadership else {}
    request = replace(
        request,
        placement=PlaceBy.STORAGE,
        optimize=optimize,
        partition_size_factor=factor,
        optimize_leadership=leadership,
        minimize=Minimize.MOVES,
        words=words,
    )
    return snapshot, request


def check(snapshot: ClusterSnapshot, decided: Rebuild) -> None:
    plan, seen = json.loads(encode_plan(decided.plan)), json.loads(encode_snapshot(snapshot))
    verify_plan(plan, seen, allow_unplaced=any(decided.unplaced))
    verify_storage_rebuild(plan, seen)
    assert decided.plan.certificate.unit == "bytes"
    assert bool(decided.shortages) == any(decided.unplaced)


@ROUNDS
@given(cases())
def test_no_plan_breaks_an_invariant(case: tuple[ClusterSnapshot, RebuildRequest]) -> None:
    snapshot, request = case
    try:
        decided = decide_rebuild(snapshot, request)
    except KafkakitError:
        assume(False)
        return
    check(snapshot, decided)


@ROUNDS
@given(cases())
def test_no_plan_of_a_large_cluster_breaks_an_invariant(case: tuple[ClusterSnapshot, RebuildRequest]) -> None:
    snapshot, request = case
    try:
        decided, _ = roughly(snapshot, request)
    except KafkakitError:
        assume(False)
        return
    check(snapshot, decided)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(cases(max_brokers=4, max_partitions=4, dead=False))
def test_small_clusters_equal_brute_force(case: tuple[ClusterSnapshot, RebuildRequest]) -> None:
    snapshot, request = case
    request = replace(request, replication=0, words={k: v for k, v in request.words.items() if k != "replication"})
    everything = Everything(snapshot, request)
    assume(0 < everything.count <= _MOST_PLACEMENTS)
    best = min(everything.values())
    decided = decide_rebuild(snapshot, request)
    check(snapshot, decided)
    assert everything.value(placed_by(decided)) == best
    rough, found = roughly(snapshot, request)
    check(snapshot, rough)
    value = everything.value(placed_by(rough))
    assert value is not None
    assert value >= best
    if best[0] == everything.all_placed and found.range_bound is not None:
        assert found.range_bound <= best[2]
    if value[:3] == best[:3]:
        assert rough.plan.certificate.lower_bound <= best[3]


def placed_by(decided: Rebuild) -> list[frozenset[int]]:
    """The brokers of each partition; none where nothing is placed, so that the list stays as it is."""
    rows = zip(decided.after, decided.scope.partitions, decided.unplaced, strict=True)
    return [frozenset(row if short < p.wanted else ()) for row, p, short in rows]


def roughly(snapshot: ClusterSnapshot, request: RebuildRequest) -> tuple[Rebuild, RebuildResult]:
    """Decide as for a large cluster; also what the search found."""
    caught: list[RebuildResult] = []

    def catch(task: RebuildTask, watch: SearchWatch) -> RebuildResult:
        caught.append(search(task, watch))
        return caught[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage_decide, "is_small", lambda task: False)
        patch.setattr(storage_decide, "search", catch)
        decided = decide_rebuild(snapshot, request)
    return decided, caught[-1]


class Everything:
    """All legal placements of a request, and the value of each: the smaller, the better."""

    def __init__(self, snapshot: ClusterSnapshot, request: RebuildRequest) -> None:
        self.forced = request.force_rebuild
        self.minimum = request.min_rack_ids
        self.factor = request.partition_size_factor
        self.racks = {b.id: b.rack or None for b in snapshot.brokers}
        self.free = {b.id: b.storage_free_bytes or 0 for b in snapshot.brokers}
        held = frozenset(b for _, p in snapshot.partitions() for b in p.replicas)
        listed = request.brokers.resolve(held, frozenset(self.free))
        self.targets = sorted(b for b in listed if b in self.free)
        rows = sorted((t, p.partition, p.replicas, p.size_bytes or 0) for t, p in snapshot.partitions())
        self.current = [row[2] for row in rows]
        self.sizes = [row[3] for row in rows]
        self.all_placed = -sum(map(len, self.current))
        self.options = [list(self._sets(row)) for row in self.current]
        self.count = prod(map(len, self.options)) if self.targets else 0

    def _sets(self, current: Sequence[int]) -> Iterator[frozenset[int]]:
        stay = frozenset() if self.forced else frozenset(b for b in current if b in self.targets)
        others = [b for b in self.targets if b not in stay]
        for more in range(len(current) - len(stay) + 1):
            for chosen in combinations(others, more):
                if self._legal(stay | set(chosen), chosen):
                    yield stay | frozenset(chosen)

    def _legal(self, brokers: frozenset[int], new: Sequence[int]) -> bool:
        if self.forced:
            return not breaks_rack_rule(sorted(brokers), self.racks, self.minimum)
        used = [self.racks[b] for b in brokers if self.racks[b]]
        spans = self.minimum > 0 and len(set(used)) >= self.minimum
        return spans or all(used.count(self.racks[b]) <= 1 for b in new)

    def value(self, sets: Sequence[frozenset[int]]) -> tuple[int, int, int, int] | None:
        """Less placed, fewer with any copy, range, bytes; None where a broker is filled beyond its disk."""
        free = {b: self.free[b] for b in self.targets}
        got, cost = set(), 0
        for old, new, size in zip(self.current, sets, self.sizes, strict=True):
            for b in old:
                if b in free and b not in new:
                    free[b] += size
            for b in new:
                if b not in old:
                    free[b] -= ceil(size * self.factor)
                    cost += size
                    got.add(b)
        if any(free[b] < 0 for b in got):
            return None
        spread = max(free.values()) - min(free.values())
        return -sum(map(len, sets)), -sum(1 for new in sets if new), spread, cost

    def values(self) -> Iterator[tuple[int, int, int, int]]:
        """The value of every placement that fits."""
        for sets in product(*self.options):
            value = self.value(sets)
            if value is not None:
                yield value


RUNS = settings(
    max_examples=15, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
BANDS = tuple(Fraction(n, 100) for n in (5, 30, 60, 100, 200))


def base(snapshot: ClusterSnapshot, metric: Metric) -> FrontierBase:
    everyone = BrokerList(ids=tuple(b.id for b in snapshot.brokers))
    return FrontierBase(brokers=everyone, topics=(".*",), goal=goal_of(metric), words={})


def with_free_broker(snapshot: ClusterSnapshot, rack: str | None) -> ClusterSnapshot:
    """One more live broker, empty, in a rack that exists."""
    fresh = Broker(id=2001, rack=rack, storage_free_bytes=50_000)
    return replace(snapshot, brokers=(*snapshot.brokers, fresh))


def asked(data: st.DataObject, snapshot: ClusterSnapshot) -> Callable[[ClusterSnapshot], PlannedChange | Rebuild]:
    """A request that copies what it must, onto whatever brokers there are."""
    ids, racks = [b.id for b in snapshot.brokers], data.draw(st.integers(0, 3), "min-rack-ids")
    verb = data.draw(st.sampled_from(["drain", "repair", "fix-racks", "set-replication", "rebuild"]))
    how = data.draw(st.sampled_from(PlaceBy), "placement")
    # Free bytes decide where storage is looked at, whatever the ceiling: a broker more may then take too many.
    ceiling = st.sampled_from([None, 3, 6]) if how is PlaceBy.COUNT else st.none()
    most = data.draw(ceiling, "max-replicas")
    every: dict[str, Any] = {
        "topics": (".*",),
        "min_rack_ids": racks,
        "words": {},
        "ceilings": Ceilings(max_replicas=most),
    }
    leaving = data.draw(st.lists(st.sampled_from(ids), min_size=1, max_size=3, unique=True), "leaving")
    if verb == "drain":
        request = DrainRequest(leaving=BrokerList(ids=tuple(leaving)), placement=how, **every)
        return lambda seen: decide_drain(seen, request)
    if verb == "repair":
        return lambda seen: decide_repair(seen, RepairRequest(placement=how, **every))
    if verb == "fix-racks":
        return lambda seen: decide_fix_racks(seen, FixRacksRequest(**every))
    if verb == "set-replication":
        factor = data.draw(st.integers(1, 5), "factor")
        return lambda seen: decide_set_replication(seen, ReplicationRequest(replication=factor, **every))
    keep = tuple(b for b in ids if b not in leaving)

    def rebuild(seen: ClusterSnapshot) -> Rebuild:
        listed = (*keep, *(b.id for b in seen.brokers if b.id not in ids))
        return decide_rebuild(seen, RebuildRequest(brokers=BrokerList(ids=listed), placement=how, **every))

    return rebuild


def left_and_cost(decided: PlannedChange | Rebuild) -> tuple[int, int]:
    """The copies (or partitions) that find no place, and what the others cost."""
    left = sum(decided.unplaced) if isinstance(decided, Rebuild) else decided.left_alone
    return left, decided.plan.certificate.objective


@settings(RUNS, max_examples=250)
@given(st.data())
def test_one_more_free_broker_never_costs_more(data: st.DataObject) -> None:
    """Where a request says what must be copied, a place more takes nothing away: as much is served, for no more."""
    snapshot = data.draw(snapshots())
    brokers = tuple(replace(b, storage_free_bytes=data.draw(st.integers(0, 20_000))) for b in snapshot.brokers)
    snapshot = replace(snapshot, brokers=brokers)
    decide = asked(data, snapshot)
    try:
        before = decide(snapshot)
    except KafkakitError:
        return
    rack = data.draw(st.sampled_from([b.rack for b in brokers]), "rack of the free broker")
    left, cost = left_and_cost(before)
    try:
        left_then, cost_then = left_and_cost(decide(with_free_broker(snapshot, rack)))
    except InfeasibleError:
        assert left, "what was left finds a place now, and may be too much for a ceiling"
        return
    assert left_then <= left
    if left_then == left:
        assert cost_then <= cost


@RUNS
@given(sized(max_partitions=4), st.sampled_from(Metric))
def test_a_looser_goal_is_never_dearer_and_no_plan_is_below_its_bound(
    snapshot: ClusterSnapshot, metric: Metric
) -> None:
    request = FrontierRequest(base=base(snapshot, metric), metric=metric, bands=BANDS if metric is Metric.BAND else ())
    found = decide_frontier(snapshot, request)
    assert [p.max_deviation for p in found.points] == sorted({p.max_deviation for p in found.points}, reverse=True)
    planned = [p for p in found.points if p.cost is not None]
    costs = [p.cost for p in planned]
    assert costs == sorted(costs, key=lambda c: c or 0), "loose to tight, the cost only rises"
    for p in planned:
        assert p.bound <= (p.cost or 0)
        assert p.reached is not None
        assert p.reached <= p.max_deviation, "the plan keeps the goal it stands for"
    impossible = [p.max_deviation for p in found.points if p.impossible]
    assert all(p.max_deviation > max(impossible, default=-1) for p in planned), "below an impossible goal all are"
    assert text_of(frontier_sections(found, None)).encode()
    assert frontier_page(found) == frontier_page(found)


@RUNS
@given(sized(max_partitions=4))
def test_points_for_reports_are_those_with_plans(snapshot: ClusterSnapshot) -> None:
    request = base(snapshot, Metric.BAND)
    points = frontier_points(snapshot, request, bands=BANDS)
    assert all(p.bound_bytes <= p.moved_bytes for p in points)
    assert frontier_points(snapshot, request, most_replicas=0) == ()


@RUNS
@given(sized(max_partitions=4), st.integers(0, 20))
def test_our_own_map_has_the_gap_of_its_certificate(snapshot: ClusterSnapshot, width: int) -> None:
    everyone = BrokerList(ids=tuple(b.id for b in snapshot.brokers))
    goal = LoadGoal(free_range_bytes=width * UNIT)
    request = RebalanceRequest(brokers=everyone, topics=(".*",), goal=goal, words={})
    try:
        plan = decide_rebalance(snapshot, request).plan
    except KafkakitError:
        return
    reading = read_map(encode_partition_map(plan.reassignment), "map")
    wanted = MapAuditRequest(brokers=everyone, topics=(".*",), free_range_bytes=width * UNIT)
    audit = audit_map(snapshot, reading, wanted)
    assert audit.by_bytes is not None
    assert audit.tally.bytes_moved == audit.by_bytes.spent == plan.certificate.objective
    assert audit.by_bytes.gap == plan.certificate.gap
    assert not [f for f in audit.findings if f.severity is Severity.ERROR], audit.findings


@RUNS
@given(sized())
def test_the_map_of_today_is_clean(snapshot: ClusterSnapshot) -> None:
    same = PartitionMap(
        partitions=tuple(PartitionAssignment(topic=t, partition=p.partition, replicas=p.replicas)
                         for t, p in snapshot.partitions())
    )  # fmt: skip
    audit = audit_map(snapshot, read_map(encode_partition_map(same), "map"), MapAuditRequest())
    assert {f.severity for f in audit.findings} <= {Severity.NOTE}
    assert audit.tally.changed == audit.tally.copies == audit.tally.reordered == 0
    assert audit.by_bytes is not None
    assert audit.by_bytes.gap == 0


NUMBERS = st.sampled_from([0, 1, 2, 3, 5, 9, 50, -1, 2**31, 2**63, 2**80, True, None, 1.5, "1"])
ROWS = st.fixed_dictionaries(
    {},
    optional={
        "topic": st.sampled_from(["orders", "pay.ments", "nope", "", "a b", "\x1b[2J", 3, None]),
        "partition": NUMBERS,
        "replicas": st.lists(NUMBERS, max_size=4) | st.none() | st.text(max_size=3),
        "log_dirs": st.lists(st.sampled_from(["any", "/d", 3]), max_size=3) | st.none(),
    },
)
SANE = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(["orders", "pay.ments"]),
        "partition": st.integers(0, 7),
        "replicas": st.lists(st.integers(0, 6), max_size=4),
    }
)
JUNK = st.recursive(st.none() | st.integers() | st.text(max_size=3), lambda x: st.lists(x, max_size=2), max_leaves=4)


@settings(RUNS, max_examples=80)
@given(sized(max_partitions=4), st.lists(SANE | ROWS | JUNK, max_size=6), NUMBERS, st.integers(0, 2))
def test_any_map_is_judged(snapshot: ClusterSnapshot, rows: list[Any], version: Any, racks: int) -> None:
    data = json.dumps({"version": version, "partitions": rows}).encode()
    audit = audit_map(snapshot, read_map(data, "map"), MapAuditRequest(min_rack_ids=racks))
    text = text_of(audit_sections(audit, "map"))
    assert "\x1b" not in text
    json.dumps(audit_data(audit, "map"), default=str)
    known = {(t, p.partition) for t, p in snapshot.partitions()}
    wrong = [r for r in rows if not isinstance(r, dict) or (r.get("topic"), r.get("partition")) not in known]
    assert not wrong or any(f.severity is Severity.ERROR for f in audit.findings)
    for yardstick in (audit.by_bytes, audit.by_count):
        assert yardstick is None or yardstick.best is None or yardstick.bound <= yardstick.best


@settings(RUNS, max_examples=60)
@given(st.binary(max_size=40) | JUNK.map(lambda v: json.dumps(v).encode()))
def test_what_is_no_map_is_refused_and_nothing_else_happens(data: bytes) -> None:
    with suppress(InputError):
        read_map(data, "map")


@settings(RUNS, max_examples=80)
@given(sized(max_partitions=4), st.data())
def test_a_map_that_is_not_refused_becomes_a_sound_plan_to_its_lists(
    snapshot: ClusterSnapshot, data: st.DataObject
) -> None:
    now = {(t, p.partition): p.replicas for t, p in snapshot.partitions()}
    brokers = st.sampled_from([*(b.id for b in snapshot.brokers), 99])
    wanted = data.draw(st.dictionaries(st.sampled_from([*now, ("orders", 50)]),
                                       st.lists(brokers, min_size=1, max_size=3, unique=True)))  # fmt: skip
    rows = [{"topic": t, "partition": p, "replicas": new} for (t, p), new in wanted.items()]
    file = json.dumps({"version": 1, "partitions": rows}).encode()
    reading = read_map(file, "map")
    audit = audit_map(snapshot, reading, MapAuditRequest(compared=False))
    assert audit.by_bytes is audit.by_count is None
    broken = {f.rule for f in audit.findings}
    try:
        plan = plan_of_map(snapshot, reading, audit, {}, allow_findings=True)
    except TryLaterError:
        assert snapshot.reassignments
        return
    except RefusedError:
        assert broken & IMPOSSIBLE
        return
    assert is_partition_map(file)
    assert wanted.keys() <= now.keys()
    check_plan(decode_plan(encode_plan(plan), "plan"), "plan")
    lists = {(e.topic, e.partition): e.replicas for e in plan.scope}
    lists |= {(e.topic, e.partition): e.replicas for e in plan.reassignment.partitions}
    assert lists == {key: tuple(new) for key, new in wanted.items()}
    assert all(now[e.topic, e.partition] == e.replicas for e in plan.rollback.partitions)


RUNS_LEADERS = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def plan_leaders(data: st.DataObject, snapshot: ClusterSnapshot) -> PlannedChange | None:
    ids = [b.id for b in snapshot.brokers]
    some = st.lists(st.sampled_from(ids), min_size=1, unique=True)
    listed = data.draw(st.none() | some)
    away = data.draw(st.none() | some)
    if listed and away:
        away = [b for b in away if b not in listed] or None
    words = {"command": "topicmappr leaders"}
    words |= {"leader-evac-brokers": ",".join(map(str, away))} if away else {}
    try:
        return decide_leaders(
            snapshot,
            LeadersRequest(
                topics=(".*",),
                brokers=BrokerList(ids=tuple(listed)) if listed else None,
                evacuated=BrokerList(ids=tuple(away)) if away else None,
                words=words,
            ),
        )
    except UsageError:  # nobody is left to lead
        return None


@RUNS_LEADERS
@given(st.data())
def test_levels_and_changes_equal_enumeration(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots(max_brokers=6, max_partitions=8))
    change = plan_leaders(data, snapshot)
    if change is None:
        return
    plan = change.plan
    written = json.loads(encode_plan(plan))
    verify_plan(written, json.loads(encode_snapshot(snapshot)))
    assert plan.certificate.status is SolverStatus.OPTIMAL
    assert bool(change.reasons) == bool(change.left_alone)

    may = plan.rules.receivers if plan.rules else ()
    pinned = set(plan.rules.pinned) if plan.rules else set()
    rows = [e.replicas for e in plan.scope if (e.topic, e.partition) not in pinned]
    moved = {(m.topic, m.partition): m.after for m in plan.moves}
    ours = [
        moved.get((e.topic, e.partition), e.replicas)[0] for e in plan.scope if (e.topic, e.partition) not in pinned
    ]
    assert (measure(ours, may), plan.certificate.objective) == best(rows, may)


def best(rows: Sequence[Sequence[int]], may: Sequence[int]) -> tuple[list[int], int]:
    """The most even leader counts, and the fewest changes that reach them, over all choices."""
    return min(
        (measure(leaders, may), sum(leader != row[0] for leader, row in zip(leaders, rows, strict=True)))
        for leaders in product(*([b for b in row if b in may] for row in rows))
    )


def measure(leaders: Sequence[int], may: Sequence[int]) -> list[int]:
    """Counts from the highest down: the smaller such a list, the more even."""
    counts = Counter(leaders)
    return sorted((counts[b] for b in may), reverse=True)


# Where few copies share a broker, sizes are all alike, or one is huge, no real plan comes as close to a split one.
ALLOWED = {
    "few_large": 0.045,
    "one_huge": 0.15,
    "equal_sizes": 0.03,
    "ten_in_three": 0.03,
    "half_rackless": 0.03,
    "broken_sets": 0.08,
    "overloaded_rack": 0.04,
}
CLOSE = 0.01


@pytest.mark.parametrize("shape", sorted(SHAPES))
@pytest.mark.parametrize("seed", [1, 2])
def test_plans_lie_close_to_their_bounds(shape: str, seed: int) -> None:
    snapshot = SHAPES[shape](seed)
    free = [b.storage_free_bytes or 0 for b in snapshot.brokers]
    width = max(free) - min(free)
    goals = {
        "band 5%": LoadGoal(band=Fraction(5, 100)),
        "band 1%": LoadGoal(band=Fraction(1, 100)),
        "range / 4": LoadGoal(free_range_bytes=width // 4),
        "range / 20": LoadGoal(free_range_bytes=width // 20),
    }
    for words, goal in goals.items():
        request = RebalanceRequest(
            brokers=EVERYBODY,
            topics=(".*",),
            goal=goal,
            min_rack_ids=2 if shape == "four_copies" else 0,
            words={"command": "topicmappr rebalance"},
        )
        try:
            plan = decide_rebalance(snapshot, request).plan
        except InfeasibleError as error:
            print(f"{shape:18} {seed} {words:10} {str(error)[:120]}")
            unsure = "not proven impossible" in str(error)
            assert not unsure, "the LP relaxation is possible, and no plan was found"
            continue
        verify_plan(json.loads(encode_plan(plan)), json.loads(encode_snapshot(snapshot)))
        gap = plan.certificate.gap
        print(f"{shape:18} {seed} {words:10} gap {gap:8.4%} of {plan.certificate.objective / (1 << 30):,.0f} GiB")
        assert gap <= ALLOWED.get(shape, CLOSE), f"{words}: a gap of {gap:.2%}"
