"""Forced rebuilds by the smaller flow: where it is enough, what it saves, and where the whole one decides."""

from collections import Counter
from random import Random

import pytest

from kafkakit.core.model import TopicPartition
from kafkakit.placement import forced_placement
from kafkakit.placement import forced_placement as forced_settled
from kafkakit.placement.forced_placement import place_forced
from kafkakit.placement.group_rule import SpreadRule
from kafkakit.placement.network import FlowNetwork
from kafkakit.placement.problem import Placement, PlacementProblem, PlannedPartition

RACKS: dict[int, str | None] = {b: "abc"[b % 3] for b in range(12)}


def skewed(racks: str = "abc") -> PlacementProblem:
    """300 partitions on 12 brokers in three racks, two replicas each in two of `racks`; low ids hold more."""
    draw = Random(5)
    rows = []
    for number in range(300):
        chosen = [[b for b in RACKS if RACKS[b] == rack] for rack in draw.sample(racks, 2)]
        current = tuple(draw.choices(members, [4, 3, 2, 1])[0] for members in chosen)
        rows.append(PlannedPartition(TopicPartition("t", number), current, 2, draw.randint(1, 9)))
    return PlacementProblem(tuple(rows), tuple(RACKS), RACKS, SpreadRule(0))


def copied(problem: PlacementProblem, placement: Placement) -> tuple[int, int]:
    """How many replicas are new, and their bytes."""
    sizes = [
        p.size_bytes or 0
        for p, row in zip(problem.partitions, placement.replicas, strict=True)
        for b in row
        if b not in p.current
    ]
    return len(sizes), sum(sizes)


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of nodes of each flow of a forced placement that is solved, in turn."""
    nodes: list[int] = []

    class Counting(FlowNetwork):
        def solve(self) -> int:
            nodes.append(self.node_count)
            return super().solve()

    monkeypatch.setattr(forced_placement, "FlowNetwork", Counting)
    return nodes


def test_the_smaller_flow_copies_as_few_replicas_and_fewer_bytes(
    monkeypatch: pytest.MonkeyPatch, solved: list[int]
) -> None:
    problem = skewed()
    whole = place_forced(problem)
    monkeypatch.setattr(forced_settled, "LARGE", 300)
    small = place_forced(problem)
    assert len(solved) == 2
    assert solved[1] < solved[0] / 4
    (copies, size), (as_many, more) = copied(problem, small), copied(problem, whole)
    assert copies == as_many == small.bound == whole.bound
    assert size < more * 0.8
    loads = [Counter(b for row in placed.replicas for b in row) for placed in (small, whole)]
    assert sorted(loads[0].values()) == sorted(loads[1].values()) == [50] * 12
    assert all(RACKS[one] != RACKS[two] for one, two in small.replicas)


def test_what_the_smaller_flow_cannot_do_is_left_to_the_whole_one(
    monkeypatch: pytest.MonkeyPatch, solved: list[int]
) -> None:
    problem = skewed("ab")  # rack c is empty, and a tenth of the partitions cannot fill it
    whole = place_forced(problem)
    monkeypatch.setattr(forced_settled, "LARGE", 300)
    assert place_forced(problem) == whole
    assert len(solved) == 3


def test_small_problems_know_the_whole_flow_alone(monkeypatch: pytest.MonkeyPatch, solved: list[int]) -> None:
    monkeypatch.setattr(forced_settled, "LARGE", 301)
    place_forced(skewed())
    assert len(solved) == 1
