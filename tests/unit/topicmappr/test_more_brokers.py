"""How many brokers bring a band within reach, and what a frontier finds, where racks hold one copy of everything."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction

import pytest

from kafkakit.core.errors import InfeasibleError
from kafkakit.core.model import Broker, ClusterSnapshot, LogDir, Partition, Topic
from kafkakit.core.quantities import parse_percent
from kafkakit.core.selection import BrokerList
from kafkakit.topicmappr.decide.frontier import decide_frontier
from kafkakit.topicmappr.decide.rebalance import decide_rebalance
from kafkakit.topicmappr.decide.requests import FrontierRequest, Goal, Metric, RebalanceRequest, goal_of

MIB = 1 << 20


def cluster(racks: dict[str, int], sizes: Sequence[int] = (MIB,) * 60) -> ClusterSnapshot:
    """So many brokers in each of three racks; partitions of these sizes, one copy in each rack, dealt out in turn."""
    ids = {rack: [100 * n + i for i in range(count)] for n, (rack, count) in enumerate(sorted(racks.items()), 1)}
    disks = LogDir(path="/d", total_bytes=1000 * MIB, usable_bytes=900 * MIB)
    partitions = tuple(
        Partition(partition=p, replicas=row, replica_bytes=dict.fromkeys(row, size))
        for p, size in enumerate(sizes)
        for row in [tuple(ids[r][p % len(ids[r])] for r in sorted(ids))]
    )
    return ClusterSnapshot(
        cluster_id="c",
        taken_at=datetime(2026, 1, 1, tzinfo=UTC),
        source="test",
        sizes_taken=True,
        brokers=tuple(Broker(id=b, rack=r, log_dirs=(disks,)) for r in sorted(ids) for b in ids[r]),
        topics=(Topic(name="t", partitions=partitions),),
    )


def plan(snapshot: ClusterSnapshot, band: str, count_band: str = "") -> None:
    request = RebalanceRequest(
        brokers=BrokerList(ids=tuple(b.id for b in snapshot.brokers)),
        topics=("t",),
        goal=Goal(
            band=parse_percent(band, "--band"),
            count_band=parse_percent(count_band, "--count-band") if count_band else None,
        ),
        words={},
    )
    decide_rebalance(snapshot, request)


def test_the_number_of_brokers_that_would_do_is_named_and_is_the_least() -> None:
    with pytest.raises(InfeasibleError) as refused:
        plan(cluster({"a": 4, "b": 4, "c": 2}), "10%")
    assert refused.value.hint is not None
    assert "or 2 more brokers like these in rack c" in refused.value.hint
    with pytest.raises(InfeasibleError):
        plan(cluster({"a": 4, "b": 4, "c": 3}), "10%")
    plan(cluster({"a": 4, "b": 4, "c": 4}), "10%")


def test_brokers_are_named_only_where_the_counts_come_within_their_band_too() -> None:
    """One partition weighs as much as 15 others: brokers with as many bytes hold 1 partition or 15."""
    few, sizes = {"a": 4, "b": 4, "c": 2}, [15 * MIB, *[MIB] * 45]
    for count_band, named in (("", True), ("100%", True), ("10%", False)):
        with pytest.raises(InfeasibleError) as refused:
            plan(cluster(few, sizes), "10%", count_band)
        assert refused.value.hint is not None
        assert ("more brokers like these in rack c" in refused.value.hint) == named
    with pytest.raises(InfeasibleError):
        plan(cluster({"a": 4, "b": 4, "c": 4}, sizes), "10%", "10%")


def test_a_point_of_a_frontier_that_no_plan_reaches_within_the_ceilings_has_no_cost() -> None:
    """Brokers of equal bytes hold 15 partitions or 1, and none may hold more than 13."""
    snapshot = cluster({"a": 4, "b": 4, "c": 4}, [15 * MIB, *[MIB] * 45])
    base = RebalanceRequest(
        brokers=BrokerList(ids=tuple(b.id for b in snapshot.brokers)),
        topics=("t",),
        goal=goal_of(Metric.BAND),
        max_replicas=13,
        words={},
    )
    bands = (Fraction(1), Fraction(1, 100))
    found = decide_frontier(snapshot, FrontierRequest(base=base, metric=Metric.BAND, bands=bands))
    assert [point.cost is not None for point in found.points] == [True, False]
    free = decide_frontier(
        snapshot, FrontierRequest(base=replace(base, max_replicas=None), metric=Metric.BAND, bands=bands)
    )
    assert all(point.cost is not None for point in free.points)
