"""Rebuilds by storage on random clusters: no plan breaks an invariant, and small ones equal brute force."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from math import ceil, prod

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kafkakit.core.documents import encode_plan, encode_snapshot
from kafkakit.core.errors import KafkakitError
from kafkakit.core.model import ClusterSnapshot
from kafkakit.placement.problem import Minimize, OptimizeFor, PlaceBy
from kafkakit.placement.rebuild_search import Found, search
from kafkakit.placement.rebuild_task import Task
from kafkakit.placement.watch import Watch
from kafkakit.topicmappr.decide import rebuild_bytes as storage_decide
from kafkakit.topicmappr.decide.rebuild import Rebuild, decide_rebuild
from kafkakit.topicmappr.decide.requests import RebuildRequest
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
    assert everything.value([frozenset(row) for row in decided.after]) == best
    rough, found = roughly(snapshot, request)
    check(snapshot, rough)
    value = everything.value([frozenset(row) for row in rough.after])
    assert value is not None
    assert value >= best
    if best[0] == everything.all_placed and found.range_bound is not None:
        assert found.range_bound <= best[2]
    if value[:3] == best[:3]:
        assert rough.plan.certificate.lower_bound <= best[3]


def roughly(snapshot: ClusterSnapshot, request: RebuildRequest) -> tuple[Rebuild, Found]:
    """Decide as for a large cluster; also what the search found."""
    caught: list[Found] = []

    def catch(task: Task, watch: Watch) -> Found:
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
