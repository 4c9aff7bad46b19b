"""Frontiers fall with looser goals, bounds hold, our own maps are judged fairly, and no map makes a traceback."""

import json
from contextlib import suppress
from fractions import Fraction
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkakit.core.documents import decode_plan, encode_partition_map, encode_plan, is_partition_map
from kafkakit.core.errors import InputError, KafkakitError, RefusedError, TryLaterError
from kafkakit.core.findings import Severity
from kafkakit.core.model import ClusterSnapshot, PartitionAssignment, PartitionMap
from kafkakit.core.plan_rules import check_plan
from kafkakit.core.selection import BrokerList
from kafkakit.topicmappr.decide.audit import IMPOSSIBLE, audit_map, plan_of_map
from kafkakit.topicmappr.decide.audit_map import read_map
from kafkakit.topicmappr.decide.frontier import decide_frontier, frontier_points
from kafkakit.topicmappr.decide.rebalance import decide_rebalance
from kafkakit.topicmappr.decide.requests import AuditRequest, FrontierRequest, Goal, Metric, RebalanceRequest, goal_of
from kafkakit.topicmappr.report.judgement import audit_data, audit_text, frontier_page, frontier_text
from tests.clusters.drift import UNIT, sized

RUNS = settings(
    max_examples=15, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
BANDS = tuple(Fraction(n, 100) for n in (5, 30, 60, 100, 200))


def base(snapshot: ClusterSnapshot, metric: Metric) -> RebalanceRequest:
    everyone = BrokerList(ids=tuple(b.id for b in snapshot.brokers))
    return RebalanceRequest(brokers=everyone, topics=(".*",), goal=goal_of(metric), words={})


@RUNS
@given(sized(max_partitions=4), st.sampled_from(Metric))
def test_a_looser_goal_is_never_dearer_and_no_plan_is_below_its_bound(
    snapshot: ClusterSnapshot, metric: Metric
) -> None:
    request = FrontierRequest(base=base(snapshot, metric), metric=metric, bands=BANDS)
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
    assert frontier_text(found, None).encode()
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
    goal = Goal(free_range_bytes=width * UNIT)
    request = RebalanceRequest(brokers=everyone, topics=(".*",), goal=goal, words={})
    try:
        plan = decide_rebalance(snapshot, request).plan
    except KafkakitError:
        return
    reading = read_map(encode_partition_map(plan.reassignment), "map")
    wanted = AuditRequest(brokers=everyone, topics=(".*",), free_range_bytes=width * UNIT)
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
    audit = audit_map(snapshot, read_map(encode_partition_map(same), "map"), AuditRequest())
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
    audit = audit_map(snapshot, read_map(data, "map"), AuditRequest(min_rack_ids=racks))
    text = audit_text(audit, "map")
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
    audit = audit_map(snapshot, reading, AuditRequest(compared=False))
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
