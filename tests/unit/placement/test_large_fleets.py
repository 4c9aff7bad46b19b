"""Split plans of fleets so large that careless sums would pass 64 bits."""

import random

import pytest

from kafkakit.placement.bytes.lp_relaxation import Bound, least_cost, masses_of
from kafkakit.placement.bytes.slots import Fleet, make_fleet
from kafkakit.placement.group_rule import RackRule

RACKS: dict[int, str | None] = {b: "abcdef"[b % 6] for b in range(600)}


def fleet_of(unit: int) -> Fleet:
    """600 brokers and 1,500 partitions; a copy has 1 to 9 units."""
    draw = random.Random(1)
    lists = [draw.sample(range(600), 2) for _ in range(1500)]
    sizes = [draw.randint(1, 9) * unit for _ in lists]
    return make_fleet(lists, sizes, RACKS, RackRule(0), receivers=range(600))


def cheapest(fleet: Fleet, unit: int) -> Bound:
    loads = fleet.loads(fleet.home)
    return least_cost(fleet, masses_of(fleet), loads * 0 + 20 * unit, loads * 0 + 28 * unit)


@pytest.mark.parametrize("unit", [1 << 40, 1 << 43])  # 15 and 120 PiB in all
def test_the_unit_changes_nothing_but_the_numbers(unit: int) -> None:
    small, large = cheapest(fleet_of(1), 1), cheapest(fleet_of(unit), unit)
    assert small.value > 0
    assert (large.value, large.outside) == (small.value * unit, small.outside * unit)
