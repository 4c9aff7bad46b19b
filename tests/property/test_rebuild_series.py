"""Rebuilds in phases and chunks, with even and with evacuated leaders: what each map on the way may and must be."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkakit.core.documents import encode_plan, encode_snapshot
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.model import ClusterSnapshot
from kafkakit.placement.group_rule import GroupRule
from kafkakit.topicmappr.decide.rebuild import Rebuild, chunk_changes, decide_rebuild, windows_of
from kafkakit.topicmappr.decide.requests import RebuildRequest
from tests.clusters.strategies import requests, snapshots
from tests.invariants.plan import breaks_rack_rule, verify_plan

RUNS = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
Lists = list[tuple[int, ...]]


def checked(snapshot: ClusterSnapshot, request: RebuildRequest) -> Rebuild:
    decided = decide_rebuild(snapshot, request)
    verify_plan(
        json.loads(encode_plan(decided.plan)),
        json.loads(encode_snapshot(snapshot)),
        allow_unplaced=any(decided.unplaced),
    )
    return decided


def lists_of(decided: Rebuild) -> list[Lists]:
    return [[e.replicas for e in made.partitions] for made in decided.maps(skip_no_ops=False)]


@RUNS
@given(st.data())
def test_chunks_never_break_a_list_on_the_way(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots())
    requested = data.draw(requests(snapshot))
    size = data.draw(st.integers(1, 4))
    request = replace(requested, chunk_step=size, words={**requested.words, "chunk-step-size": str(size)})
    plain = decide_rebuild(snapshot, replace(request, chunk_step=0))
    try:
        decided = checked(snapshot, request)
    except OperationFailedError:
        assert any(len(a) != len(b) for a, b in zip(plain.before, plain.after, strict=True))
        return
    assert decided.after == plain.after
    maps = lists_of(decided)
    assert len(maps) == decided.map_count()
    assert (maps[-1] if maps else list(decided.before)) == list(decided.after)
    racks = {b.id: b.rack for b in snapshot.brokers}
    passed: set[int] = set()
    emitted = iter(maps)
    for step in decided.steps:
        passed |= set(step.brokers)
        if not step.changes:
            continue
        check_chunk(decided.before, next(emitted), decided.after, passed, racks, request.min_rack_ids)
    for old, new in pairwise([list(decided.before), *maps]):
        assert old != new


@RUNS
@given(st.data())
def test_chunks_keep_the_rack_rule_between_any_two_lawful_lists(data: st.DataObject) -> None:
    racks: dict[int, str | None] = {b: "abc"[b % 3] for b in range(9)}
    minimum = data.draw(st.integers(0, 3))
    size = data.draw(st.integers(2, 3))
    lists = st.lists(st.integers(0, 8), min_size=size, max_size=size, unique=True).map(tuple)
    before, after = (data.draw(lists.filter(lambda row: not breaks_rack_rule(row, racks, minimum))) for _ in range(2))
    windows = windows_of(racks, data.draw(st.integers(1, 4)))
    changes = chunk_changes([before], [after], windows, racks, GroupRule(minimum))
    now: tuple[int, ...] = before
    for k, window in enumerate(changes):
        now = window.get(0, now)
        check_chunk([before], [now], [after], {b for w in windows[: k + 1] for b in w}, racks, minimum)
    assert now == after


def check_chunk(
    starts: Sequence[tuple[int, ...]],
    now: Lists,
    ends: Sequence[tuple[int, ...]],
    passed: set[int],
    racks: dict[int, str | None],
    minimum: int,
) -> None:
    for before, middle, after in zip(starts, now, ends, strict=True):
        assert len(middle) == len(before)
        assert len(set(middle)) == len(middle), f"a broker stands twice in {middle}"
        assert set(middle) <= {*before, *after}
        assert {b for b in before if b in after} <= set(middle), "a copy that stays was dropped on the way"
        for old, new in zip(before, middle, strict=True):
            assert old == new or old in passed, f"{old} changed before its turn"
        assert not (passed & set(before) & set(middle)) - set(after), "a broker whose turn has passed still holds it"
        legal = not breaks_rack_rule(before, racks, minimum) and not breaks_rack_rule(after, racks, minimum)
        if legal and (minimum < 2 or None not in {racks.get(b) for b in {*before, *after}}):
            assert not breaks_rack_rule(middle, racks, minimum), f"{before} -> {middle} -> {after}"


def test_a_slot_waits_for_its_broker_where_kafka_kit_names_one_twice() -> None:
    """Its example: 1 2 3 to 2 1 4, one broker at a time, goes by way of 1 1 4."""
    windows = windows_of([1, 2, 3, 4], 1)
    assert windows == [(4,), (3,), (2,), (1,)]
    changes = chunk_changes([(1, 2, 3)], [(2, 1, 4)], windows, {}, GroupRule())
    assert changes == [{}, {0: (1, 2, 4)}, {}, {0: (2, 1, 4)}]


@RUNS
@given(st.data())
def test_the_first_phase_keeps_leaders_and_the_second_is_final(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots())
    requested = data.draw(requests(snapshot))
    decided = checked(snapshot, replace(requested, phased=True))
    first, last = lists_of(decided)
    alive = {b.id for b in snapshot.brokers if b.is_alive}
    assert last == list(decided.after)
    for before, middle, after in zip(decided.before, first, decided.after, strict=True):
        lost = before and before[0] not in after and before[0] in alive and after
        assert middle == ((before[0], *after) if lost else after)


@RUNS
@given(st.data())
def test_leaders_are_at_least_as_even_as_by_ratios(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots(dead=False))
    requested = data.draw(requests(snapshot))
    words = {**requested.words, "optimize-leadership": "true"}
    plain = decide_rebuild(snapshot, requested)
    decided = checked(snapshot, replace(requested, optimize_leadership=True, words=words))
    assert [sorted(row) for row in decided.after] == [sorted(row) for row in plain.after]
    brokers = decided.change.targets
    ours, theirs = leader_counts(decided.after, brokers), leader_counts(by_ratio(plain.after), brokers)
    assert ours <= theirs, "a more even choice of leaders exists"
    if brokers:
        assert ours[0] - ours[-1] <= theirs[0] - theirs[-1]


def leader_counts(lists: Sequence[Sequence[int]], brokers: Sequence[int]) -> list[int]:
    counts = Counter(row[0] for row in lists if row)
    return sorted((counts[b] for b in brokers), reverse=True)


def by_ratio(lists: Sequence[Sequence[int]]) -> list[list[int]]:
    """The peer's heuristic as described: sort each list by leaders over followers, a few times over."""
    rows = [list(row) for row in lists]
    for _ in range(len(rows[0]) if rows else 0):
        for row in rows:
            leads = Counter(r[0] for r in rows if r)
            follows = Counter(b for r in rows for b in r[1:])

            def ratio(b: int, leads: Counter[int] = leads, follows: Counter[int] = follows) -> tuple[bool, float]:
                return (False, leads[b] / follows[b]) if follows[b] else (True, leads[b])

            row.sort(key=ratio)
    return rows


@RUNS
@given(st.data())
def test_evacuated_brokers_do_not_lead(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots())
    requested = data.draw(requests(snapshot))
    away = data.draw(st.lists(st.sampled_from([b.id for b in snapshot.brokers]), min_size=1, max_size=2, unique=True))
    topics = data.draw(st.sampled_from([(".*",), ("orders",)]))
    even = data.draw(st.booleans())
    words = {"leader-evac-brokers": ",".join(map(str, away)), "leader-evac-topics": ",".join(topics)}
    words |= {"optimize-leadership": "true"} if even else {}
    request = replace(
        requested,
        leader_evac_brokers=tuple(away),
        leader_evac_topics=topics,
        optimize_leadership=even,
        words={**requested.words, **words},
    )
    plain = decide_rebuild(snapshot, requested)
    try:
        decided = checked(snapshot, request)
    except OperationFailedError:
        assert any(row and set(row) <= set(away) for row in plain.after)
        return
    assert [sorted(row) for row in decided.after] == [sorted(row) for row in plain.after]
    assert decided.plan.certificate.objective == plain.plan.certificate.objective


@RUNS
@given(st.data())
def test_without_metadata_racks_and_liveness_do_not_matter(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots())
    requested = data.draw(requests(snapshot))
    request = replace(requested, use_meta=False, min_rack_ids=0, words={**requested.words, "use-meta": "false"})
    request = replace(request, words={k: v for k, v in request.words.items() if k != "min-rack-ids"})
    decided = checked(snapshot, request)
    bare = replace(snapshot, brokers=tuple(replace(b, rack=None) for b in snapshot.brokers))
    assert decide_rebuild(bare, request).after == decided.after
    assert decided.change.missing == decided.change.rack_missing == ()
    assert decided.change.targets == request.brokers.resolve(
        frozenset(b for row in decided.before for b in row), frozenset()
    )
