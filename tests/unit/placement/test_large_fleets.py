"""Split plans of tables so large that careless sums would pass 64 bits."""

import random

import pytest

from kafkakit.placement.by_size.lp_relaxation import Bound, demand_groups_of, least_cost
from kafkakit.placement.by_size.slots import SlotTable, make_table
from kafkakit.placement.group_rule import GroupRule

RACKS: dict[int, str | None] = {b: "abcdef"[b % 6] for b in range(600)}


def table_of(unit: int) -> SlotTable:
    """600 brokers and 1,500 partitions; a copy has 1 to 9 units."""
    draw = random.Random(1)
    lists = [draw.sample(range(600), 2) for _ in range(1500)]
    sizes = [draw.randint(1, 9) * unit for _ in lists]
    return make_table(lists, sizes, RACKS, GroupRule(0), receivers=range(600))


def cheapest(table: SlotTable, unit: int) -> Bound:
    loads = table.loads(table.home)
    return least_cost(table, demand_groups_of(table), loads * 0 + 20 * unit, loads * 0 + 28 * unit)


@pytest.mark.parametrize("unit", [1 << 40, 1 << 43])  # 15 and 120 PiB in all
def test_the_unit_changes_nothing_but_the_numbers(unit: int) -> None:
    small, large = cheapest(table_of(1), 1), cheapest(table_of(unit), unit)
    assert small.value > 0
    assert (large.value, large.outside) == (small.value * unit, small.outside * unit)
