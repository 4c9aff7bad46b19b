"""Drains placed by free bytes: where copies go, what has no room, and what stays untouched."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from kafkakit.core.documents import encode_plan, encode_snapshot
from kafkakit.core.errors import TryLaterError
from kafkakit.core.model import Broker, BrokerState, ClusterSnapshot, Partition, Topic
from kafkakit.core.selection import parse_broker_list
from kafkakit.placement.problem import PlaceBy
from kafkakit.topicmappr.decide.assembly import PlannedChange
from kafkakit.topicmappr.decide.drain import DrainRequest, decide_drain
from kafkakit.topicmappr.decide.requests import Budget, LeftForLater
from tests.invariants.plan import verify_plan

ROWS = [((1, 2), 40), ((1, 3), 30), ((1, 4), 20), ((2, 3), 90)]


def cluster(free: dict[int, int], racks: str = "aabb") -> ClusterSnapshot:
    return ClusterSnapshot(
        cluster_id="c",
        taken_at=datetime(2026, 11, 21, tzinfo=UTC),
        source="test",
        sizes_taken=True,
        brokers=tuple(Broker(id=b, rack=racks[b - 1 : b] or None, storage_free_bytes=f) for b, f in free.items()),
        topics=(
            Topic(
                name="a",
                partitions=tuple(Partition(partition=n, replicas=r, size_bytes=s) for n, (r, s) in enumerate(ROWS)),
            ),
        ),
    )


def drain(
    snapshot: ClusterSnapshot, brokers: str = "1", limits: dict[str, str] | None = None, **more: object
) -> PlannedChange:
    words = {"command": "topicmappr drain", "brokers": brokers, "placement": "storage", **(limits or {})}
    request = DrainRequest(
        leaving=parse_broker_list(brokers),
        topics=("a",),
        placement=PlaceBy.STORAGE,
        words=words,
        **more,  # type: ignore[arg-type]
    )
    change = decide_drain(snapshot, request)
    verify_plan(json.loads(encode_plan(change.plan)), json.loads(encode_snapshot(snapshot)))
    return change


def targets(change: PlannedChange) -> dict[int, tuple[int, ...]]:
    return {m.partition: m.adding for m in change.plan.moves}


def test_copies_go_where_free_bytes_end_closest() -> None:
    # Rackless, so any broker may take any copy: 100 - 40, 90 - 30 and 80 - 20 are all 60.
    change = drain(cluster({1: 500, 2: 80, 3: 100, 4: 90}, racks=""))
    assert targets(change) == {0: (3,), 1: (4,), 2: (2,)}
    after = {b.broker: b.free_bytes for b in change.plan.after.brokers if b.broker != 1}
    assert after == {2: 60, 3: 60, 4: 60}
    assert change.plan.certificate.objective == change.plan.certificate.lower_bound == 3


def test_a_budget_and_pins_hold_by_bytes_too() -> None:
    snapshot = cluster({1: 500, 2: 80, 3: 100, 4: 90}, racks="")
    change = drain(snapshot, limits={"max-moved-bytes": "50B"}, budget=Budget(max_moved_bytes=50))
    assert sorted(targets(change)) == [1, 2]
    assert change.later == LeftForLater(partitions=1, copies=1, bytes=40)
    change = drain(snapshot, limits={"pin": "a/0"}, pinned=("a/0",))
    assert sorted(targets(change)) == [1, 2]
    assert not change.later.partitions


def test_what_has_no_room_stays_and_is_named() -> None:
    change = drain(cluster({1: 500, 2: 10, 3: 35, 4: 31}, racks=""))
    assert 0 not in targets(change)
    assert change.left_alone == 1
    assert any("a p0" in reason and "short" in reason for reason in change.reasons)


def test_other_brokers_may_be_dead_or_of_unknown_disks() -> None:
    snapshot = cluster({1: 500, 2: 80, 3: 100, 4: 90})
    brokers = tuple(
        replace(b, state=BrokerState.MISSING, storage_free_bytes=None) if b.id == 4 else b for b in snapshot.brokers
    )
    change = drain(replace(snapshot, brokers=brokers), min_rack_ids=1)
    assert all(new and set(new) <= {2, 3} for new in targets(change).values())
    unknown = tuple(replace(b, storage_free_bytes=None) if b.id == 4 else b for b in snapshot.brokers)
    with pytest.raises(TryLaterError, match="Metrics not found for broker 4"):
        drain(replace(snapshot, brokers=unknown))
    narrowed = drain(replace(snapshot, brokers=unknown), receiving=parse_broker_list("2,3"), min_rack_ids=1)
    assert all(set(new) <= {2, 3} for new in targets(narrowed).values())
