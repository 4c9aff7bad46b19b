"""Proofs by prices: what they say on small clusters, and that the checker sees through changed ones."""

import json
from collections.abc import Callable
from itertools import combinations
from random import Random
from typing import Any

import numpy as np
import pytest

from kafkakit.core.documents import decode_plan, encode_plan, encode_snapshot
from kafkakit.core.model import Broker, ClusterSnapshot, Partition
from kafkakit.core.plan import Plan, ProofKind
from kafkakit.core.selection import BrokerList
from kafkakit.placement.network import Block, FlowNetwork, block_proof, blocks_of, reach_by
from kafkakit.placement.problem import Minimize
from kafkakit.placement.restart_rounds import RoundsProblem
from kafkakit.topicmappr.decide.leaders import decide_leaders
from kafkakit.topicmappr.decide.plain_requests import LeadersRequest
from kafkakit.topicmappr.decide.rebuild import decide_rebuild
from kafkakit.topicmappr.decide.requests import RebuildRequest
from tests.clusters.shapes import make_snapshot
from tests.invariants.plan import verify_plan

Document = dict[str, Any]


def cluster(rows: list[list[int]], racks: str, sizes: list[int] | None = None) -> ClusterSnapshot:
    """One topic; broker n is on the n-th rack of `racks` ("-": none)."""
    return make_snapshot(
        (Broker(id=n, rack=rack.strip("-") or None) for n, rack in enumerate(racks)),
        {
            "t": [
                Partition(partition=n, replicas=tuple(row), size_bytes=sizes[n] if sizes else None)
                for n, row in enumerate(rows)
            ]
        },
        sizes_taken=False,
    )


SKEWED = cluster([[0, 1], [0, 1], [0, 1], [0, 4], [3, 1]], "abcabc", [5, 6, 7, 8, 9])


def force(snapshot: ClusterSnapshot, minimize: Minimize = Minimize.MOVES) -> Plan:
    words = {"command": "topicmappr rebuild", "force-rebuild": "true", "minimize": minimize.value}
    everyone = BrokerList(ids=(), everything=True)
    request = RebuildRequest(
        brokers=everyone, topics=(".*",), force_rebuild=True, minimize=minimize, words=words
    )  # fmt: skip
    return decide_rebuild(snapshot, request).plan


def lead(snapshot: ClusterSnapshot) -> Plan:
    words = {"command": "topicmappr leaders"}
    return decide_leaders(snapshot, LeadersRequest(topics=(".*",), words=words)).plan


def documents(plan: Plan, snapshot: ClusterSnapshot) -> tuple[Document, Document]:
    written = encode_plan(plan)
    assert decode_plan(written, "plan") == plan
    return json.loads(written), json.loads(encode_snapshot(snapshot))


def test_a_forced_rebuild_is_proven_by_prices_for_moves_and_for_bytes() -> None:
    moves, weighed = force(SKEWED), force(SKEWED, Minimize.BYTES)
    for plan in (moves, weighed):
        verify_plan(*documents(plan, SKEWED))
        proof = plan.certificate.proof
        assert proof is not None
        assert proof.kind is ProofKind.PRICES
        assert proof.load == "replicas"
        assert plan.certificate.gap == 0
    # Brokers 0 and 1 hold 4 of 10 each, an even share is 2 at most.
    assert (moves.certificate.unit, moves.certificate.lower_bound) == ("replicas", 4)
    assert (weighed.certificate.unit, weighed.certificate.lower_bound) == ("bytes", 5 + 6 + 5 + 6)


def test_a_minimal_rebuild_is_proven_by_counting() -> None:
    request = RebuildRequest(brokers=BrokerList(ids=(0, 1, 2, 3, 5)), topics=(".*",), words={})
    plan = decide_rebuild(SKEWED, request).plan
    proof = plan.certificate.proof
    assert proof is not None
    assert proof.kind is ProofKind.COUNTING
    assert plan.certificate.lower_bound == 1


def no_prices(plan: Document) -> None:
    for limit in plan["certificate"]["proof"]["limits"]:
        limit.pop("price", None)


def lower_ceiling(plan: Document) -> None:
    for limit in plan["certificate"]["proof"]["limits"]:
        limit["ceiling"] = 0


def higher_floor(plan: Document) -> None:
    for limit in plan["certificate"]["proof"]["limits"]:
        limit["floor"] = limit["ceiling"] = limit["ceiling"] + 1


def another_load(plan: Document) -> None:
    plan["certificate"]["proof"]["load"] = "bytes"


def unlimited(plan: Document) -> None:
    for limit in plan["certificate"]["proof"]["limits"]:
        limit["ceiling"] = limit["floor"] = None


def better_plan(plan: Document) -> None:
    certificate = plan["certificate"]
    certificate["objective"] -= 1
    certificate["lower_bound"] -= 1


CHANGES = [no_prices, lower_ceiling, higher_floor, another_load, unlimited, better_plan]


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__)
@pytest.mark.parametrize("make", [force, lead])
def test_the_checker_sees_through_a_changed_proof(
    make: Callable[[ClusterSnapshot], Plan], change: Callable[[Document], None]
) -> None:
    plan, snapshot = documents(make(SKEWED), SKEWED)
    assert plan["certificate"]["lower_bound"] > 0
    verify_plan(plan, snapshot)
    change(plan)
    with pytest.raises(AssertionError):
        verify_plan(plan, snapshot)


def test_leaders_reached_in_chains_are_proven_too() -> None:
    # Broker 2 shares no partition with broker 0: leaderships reach it by way of broker 1.
    snapshot = cluster([[0, 1], [0, 1], [0, 1], [1, 2], [1, 2]], "abc")
    plan = lead(snapshot)
    verify_plan(*documents(plan, snapshot))
    assert sorted((b.broker, b.leaders) for b in plan.after.brokers) == [(0, 2), (1, 2), (2, 1)]
    crowded = cluster([[0, 1], [0, 1], [0, 1], [0, 1], [1, 2], [1, 2]], "abc")
    plan = lead(crowded)
    verify_plan(*documents(plan, crowded))
    assert plan.certificate.lower_bound == plan.certificate.objective == 4
    assert "only by passing leaderships on in chains" in plan.certificate.argument


def test_blocks_are_priced_as_groups_where_their_totals_matter() -> None:
    blocks = [Block((0, 1), 4, 9), Block((2,), 1, 2)]
    proof = block_proof("replicas", [7, 8, 9], blocks, [3, 2, 5], [2, 4], fixed=[1, 0, 0])
    assert [(x.broker, x.fixed, x.floor, x.ceiling, x.price) for x in proof.limits] == [
        (7, 1, 5, 6, 1),
        (8, 0, 4, 5, 0),
        (9, 0, 2, 2, 1),
    ]
    assert [(g.brokers, g.floor, g.ceiling, g.price) for g in proof.groups] == [((9,), 2, 2, 2)]


def test_blocks_follow_what_units_can_reach() -> None:
    steps = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]], dtype=bool)
    found = blocks_of([3, 2, 2], reach_by(steps))
    assert found == [Block((0, 1), 2, 5), Block((2,), 1, 2)]


def test_potentials_price_every_arc_of_a_solved_flow() -> None:
    network = FlowNetwork()
    nodes = network.nodes(4)
    network.supply(nodes, 3)
    network.supply(nodes + 3, -3)
    ways = network.arcs(nodes, nodes + np.array([1, 2]), 2, np.array([1, 4]))
    ends = network.arcs(nodes + np.array([1, 2]), nodes + 3, 2, 0)
    assert network.solve() == 2 * 1 + 1 * 4
    prices = network.potentials()
    for block, tails, heads, costs in ((ways, [0, 0], [1, 2], [1, 4]), (ends, [1, 2], [3, 3], [0, 0])):
        for flow, tail, head, cost in zip(network.flow(block).tolist(), tails, heads, costs, strict=True):
            assert flow == 2 or prices[head] <= prices[tail] + cost
            assert flow == 0 or prices[head] >= prices[tail] + cost


@pytest.mark.parametrize("size", [1 << 40, 1 << 58, (1 << 63) - 1])
def test_sizes_beyond_all_disks_still_get_a_plan(size: int) -> None:
    snapshot = cluster([[0, 1]] * 6, "abcabc", [size] * 6)
    plan = force(snapshot, Minimize.BYTES)
    verify_plan(*documents(plan, snapshot))
    assert plan.after.replicas_max == 2


def test_no_evenness_is_counted_where_racks_are_read_strictly() -> None:
    """Brokers 0 and 1 on rack a, 2 and 3 on b, 4 on none, two partitions [1], three replicas, two racks at least.

    Two sets of all racks put two replicas on broker 4 and cost 5 copies; 1,2,4 and 1,3,0 are as even and cost 4.
    """
    words = {"command": "topicmappr rebuild", "force-rebuild": "true", "replication": "3", "min-rack-ids": "2"}
    request = RebuildRequest(
        brokers=BrokerList(ids=(0, 1, 2, 3, 4)),
        topics=(".*",),
        force_rebuild=True,
        replication=3,
        min_rack_ids=2,
        words=words,
    )
    snapshot = cluster([[1], [1]], "aabb-")
    decided = decide_rebuild(snapshot, request)
    found = decided.plan.certificate
    assert found.lower_bound == 4 <= found.objective
    assert found.lower_bound <= sum(len(set(row) - {1}) for row in ((1, 2, 4), (1, 3, 0)))
    assert "nothing is proven" in found.argument
    verify_plan(json.loads(encode_plan(decided.plan)), json.loads(encode_snapshot(snapshot)))


def fewest(members: list[int], allowed: list[frozenset[int]]) -> int:
    """By trying every allowed round on every set that is left."""
    reached, rounds = {frozenset[int]()}, 0
    while frozenset(members) not in reached:
        reached = {done | each for done in reached for each in allowed if done.isdisjoint(each)}
        rounds += 1
    return rounds


def test_rounds_of_restarts_are_allowed_complete_and_at_their_bound() -> None:
    random, at_bound = Random(41), 0
    for _ in range(150):
        count, at_once = random.randint(1, 7), random.randint(1, 4)
        conflicts = np.zeros((count, count), np.bool_)
        for a, b in combinations(range(count), 2):
            conflicts[a, b] = conflicts[b, a] = random.random() < 0.3
        group = random.sample(range(count), random.randint(1, count))
        limits = [(np.array([group]), random.randint(1, 2))] if random.random() < 0.5 else []
        allowed = [
            frozenset(each)
            for size in range(1, at_once + 1)
            for each in combinations(range(count), size)
            if not any(conflicts[a, b] for a, b in combinations(each, 2))
            and not any(len(set(each) & set(rows[0].tolist())) > most for rows, most in limits)
        ]
        problem = RoundsProblem(conflicts, limits, at_once)
        members = sorted(random.sample(range(count), random.randint(1, count)))
        rounds, bound = problem.solve(members)
        assert sorted(v for each in rounds for v in each) == members
        assert {frozenset(each) for each in rounds} <= set(allowed)
        assert bound <= fewest(members, allowed) <= len(rounds)
        assert problem.least() <= fewest(list(range(count)), allowed)
        at_bound += bound == len(rounds)
    assert at_bound >= 140
