"""kafka-kit's recorded figures on three larger clusters: ours is no worse on any measure.

The figures lie beside the project, not in it; without them the test skips. It prints them line by line.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from bench.clusters import SHAPES, make_cluster, new_brokers, old_brokers
from kafkakit.core.documents import encode_plan, encode_snapshot
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan import Plan
from kafkakit.core.selection import BrokerList
from kafkakit.topicmappr.decide.leaders import decide_leaders
from kafkakit.topicmappr.decide.plain_requests import LeadersRequest
from kafkakit.topicmappr.decide.rebalance import decide_rebalance
from kafkakit.topicmappr.decide.rebuild import decide_rebuild
from kafkakit.topicmappr.decide.request_fields import LoadGoal
from kafkakit.topicmappr.decide.requests import RebalanceRequest, RebuildRequest
from tests.invariants.plan import breaks_rack_rule, verify_plan
from tests.places import SHARED

RESULTS = SHARED / "peer-results" / "topicmappr-clusters.json"
NAMES = ("c11", "c12", "c13")
WHOLE_DISK = Fraction(1)
LEAVING = 3  # brokers that 'replace' takes away, and as many new ones


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What is recorded of an answer, and of ours."""

    replicas_moved: int
    bytes_moved: int
    count_spread: int
    leader_spread: int
    free_range: int
    rack_violations: int


@cache
def recorded() -> dict[str, dict[str, Any]]:
    results: dict[str, dict[str, Any]] = json.loads(RESULTS.read_bytes())["results"]
    return results


def theirs(name: str, operation: str) -> Figures:
    row = recorded()[f"{name}/{operation}"]
    return Figures(
        replicas_moved=row["replicas_moved"],
        bytes_moved=int(row["bytes_moved"]),
        count_spread=row["count_max"] - row["count_min"],
        leader_spread=row["leaders_max"] - row["leaders_min"],
        free_range=int(row["free_range_after"]),
        rack_violations=row["rack_violations"],
    )


@cache
def cluster(name: str) -> ClusterSnapshot:
    return make_cluster(SHAPES[name])


def measured(plan: Plan, snapshot: ClusterSnapshot, brokers: Sequence[int], free_of: Sequence[int]) -> Figures:
    """Counted from the plan's lists alone, after the plan has been checked; `brokers` are those that are to hold."""
    verify_plan(json.loads(encode_plan(plan)), json.loads(encode_snapshot(snapshot)))
    racks = {b.id: b.rack for b in snapshot.brokers}
    free = {b.id: sum(d.usable_bytes or 0 for d in b.log_dirs) for b in snapshot.brokers}
    after: Mapping[tuple[str, int], Sequence[int]] = {(m.topic, m.partition): m.after for m in plan.moves}
    replicas, leaders = dict.fromkeys(free, 0), dict.fromkeys(free, 0)
    moved = moved_bytes = violations = 0
    for topic, p in snapshot.partitions():
        new, size = after.get((topic, p.partition), p.replicas), p.known_bytes or 0
        moved += len(set(new) - set(p.replicas))
        moved_bytes += size * len(set(new) - set(p.replicas))
        violations += breaks_rack_rule(list(new), racks, 0)
        leaders[new[0]] += 1
        for broker in p.replicas:
            free[broker] += size
        for broker in new:
            free[broker] -= size
            replicas[broker] += 1
    counts, leading, left = ([of[b] for b in some] for of, some in
                             ((replicas, brokers), (leaders, brokers), (free, free_of)))  # fmt: skip
    return Figures(
        replicas_moved=moved,
        bytes_moved=moved_bytes,
        count_spread=max(counts) - min(counts),
        leader_spread=max(leading) - min(leading),
        free_range=max(left) - min(left),
        rack_violations=violations,
    )


def rebuilt(name: str, operation: str) -> Figures:
    shape, forced = SHAPES[name], operation == "force"
    old, new = old_brokers(shape), new_brokers(shape)
    brokers = old if forced else [*old[LEAVING:], *new[:LEAVING]]
    words = {"command": "topicmappr rebuild", **({"force-rebuild": "true"} if forced else {})}
    request = RebuildRequest(brokers=BrokerList(ids=tuple(brokers)), topics=(".*",), force_rebuild=forced, words=words)
    return measured(decide_rebuild(cluster(name), request).plan, cluster(name), brokers, brokers)


def balanced(name: str, operation: str, goal: LoadGoal) -> Figures:
    shape = SHAPES[name]
    scale = operation == "scale"
    brokers = [*old_brokers(shape), *(new_brokers(shape) if scale else [])]
    request = RebalanceRequest(
        brokers=BrokerList(ids=tuple(brokers)),
        topics=(".*",),
        scale=scale,
        goal=goal,
        max_disk_use=WHOLE_DISK,
        words={"command": f"topicmappr {operation}"},
    )
    return measured(decide_rebalance(cluster(name), request).plan, cluster(name), brokers, brokers)


def led(name: str) -> Figures:
    brokers = old_brokers(SHAPES[name])
    request = LeadersRequest(
        topics=(".*",), brokers=BrokerList(ids=tuple(brokers)), words={"command": "topicmappr leaders"}
    )
    return measured(decide_leaders(cluster(name), request).plan, cluster(name), brokers, brokers)


pytestmark = pytest.mark.skipif(not RESULTS.exists(), reason="the peer's figures are not beside this checkout")


def show(capsys: pytest.CaptureFixture[str], what: str, peer: Figures, ours: Figures) -> None:
    with capsys.disabled():
        print(
            f"\n  {what}: copies {peer.replicas_moved} -> {ours.replicas_moved}, "
            f"{_gib(peer.bytes_moved)} -> {_gib(ours.bytes_moved)} GiB, "
            f"free range {_gib(peer.free_range)} -> {_gib(ours.free_range)} GiB, "
            f"counts {peer.count_spread} -> {ours.count_spread}, leaders {peer.leader_spread} -> {ours.leader_spread}",
            end="",
        )


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f}"


@pytest.mark.parametrize("operation", ["replace", "force"])
@pytest.mark.parametrize("name", NAMES)
def test_count_placement_is_no_worse(name: str, operation: str, capsys: pytest.CaptureFixture[str]) -> None:
    peer, ours = theirs(name, operation), rebuilt(name, operation)
    show(capsys, f"{name}/{operation}", peer, ours)
    assert ours.rack_violations == 0
    assert ours.replicas_moved <= peer.replicas_moved
    assert ours.count_spread <= peer.count_spread
    assert ours.leader_spread <= peer.leader_spread


@pytest.mark.parametrize("name", NAMES)
def test_leaders_are_no_worse(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    peer, ours = theirs(name, "leaders"), led(name)
    show(capsys, f"{name}/leaders", peer, ours)
    assert ours.replicas_moved == 0
    assert ours.leader_spread <= peer.leader_spread


@pytest.mark.parametrize("operation", ["rebalance", "scale"])
@pytest.mark.parametrize("name", NAMES)
def test_byte_balance_is_no_worse(name: str, operation: str, capsys: pytest.CaptureFixture[str]) -> None:
    peer = theirs(name, operation)
    at_range = balanced(name, operation, LoadGoal(free_range_bytes=peer.free_range))
    show(capsys, f"{name}/{operation} at its range", peer, at_range)
    assert at_range.rack_violations == 0
    assert at_range.free_range <= peer.free_range
    assert at_range.bytes_moved <= peer.bytes_moved
    for_bytes = balanced(name, operation, LoadGoal(max_moved_bytes=peer.bytes_moved))
    show(capsys, f"{name}/{operation} for its bytes", peer, for_bytes)
    assert for_bytes.rack_violations == 0
    assert for_bytes.bytes_moved <= peer.bytes_moved
    assert for_bytes.free_range <= peer.free_range
