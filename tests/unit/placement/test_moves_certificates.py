"""What certificates claim where copies are counted: the fewest are said only when they were searched for."""

import random
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from kafkakit.core.plan import SolverStatus
from kafkakit.core.selection import parse_broker_list
from kafkakit.placement.by_size.lp_relaxation import Limits, demand_groups_of, sliding_window
from kafkakit.placement.by_size.proof import moves_bound
from kafkakit.placement.by_size.slots import make_table
from kafkakit.placement.group_rule import GroupRule
from kafkakit.placement.problem import Minimize
from kafkakit.topicmappr.decide.rebalance import Rebalance, decide_rebalance
from kafkakit.topicmappr.decide.requests import Goal, RebalanceRequest
from tests.cli.test_rebalance import GIB, cluster

RACKS: Mapping[int, str | None] = {1: "a", 2: "b", 3: "a", 4: "b", 5: "c"}


def decided(seed: int, goal: Goal, minimize: Minimize = Minimize.BYTES) -> Rebalance:
    draw = random.Random(seed)
    lists = [draw.sample(range(1, 5), 2) for _ in range(10)]
    snapshot = cluster(lists, [draw.randint(1, 30) for _ in lists], {b: 200 + 60 * b for b in RACKS}, RACKS)
    request = RebalanceRequest(brokers=parse_broker_list("-2"), topics=(".*",), goal=goal, minimize=minimize, words={})
    return decide_rebalance(snapshot, request)


@pytest.mark.parametrize("seed", range(8))
def test_a_budget_of_moves_claims_no_least_bytes_that_others_undercut(seed: int) -> None:
    budget = decided(seed, Goal(max_moves=4))
    cheapest = decided(seed, Goal(free_range_bytes=budget.reached))
    assert budget.plan.certificate.lower_bound <= cheapest.plan.certificate.objective


@pytest.mark.parametrize("seed", range(8))
def test_a_budget_of_bytes_claims_no_fewest_moves_that_others_undercut(seed: int) -> None:
    budget = decided(seed, Goal(max_moved_bytes=60 * GIB), Minimize.MOVES)
    fewest = decided(seed, Goal(free_range_bytes=budget.reached), Minimize.MOVES)
    assert fewest.plan.certificate.status is SolverStatus.OPTIMAL
    assert budget.plan.certificate.lower_bound <= fewest.plan.certificate.objective


@pytest.mark.parametrize("seed", range(20))
def test_hard_limits_stay_where_a_window_slides(seed: int) -> None:
    """The bound on moves is no larger than what any place of the window asks for, place by place."""
    draw = random.Random(seed)
    lists = [draw.sample(range(5), 2) for _ in range(8)]
    sizes = [draw.randint(1, 9) for _ in lists]
    table = make_table(lists, sizes, dict.fromkeys(range(5)), GroupRule(0), receivers=range(5))
    demand, loads = demand_groups_of(table), table.loads(table.home)
    zero = np.zeros(5, dtype=np.int64)
    room = np.array([draw.choice([0, 0, 3, 50]) for _ in range(5)])
    limits = Limits(floor=zero, ceiling=loads + room, even=zero == 0, offset=zero)
    width = draw.randint(3, 20)
    window = sliding_window(table, demand, limits, width)
    least = []
    for low in range(-width - 2, int(loads.max()) + 3):
        floor, ceiling = limits.at(low, width)
        least.append(moves_bound(table, replace(window, floor=floor, ceiling=ceiling, slides=zero > 0, place=None)))
    assert moves_bound(table, window) <= min(least)
