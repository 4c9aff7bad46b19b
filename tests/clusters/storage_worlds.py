"""Small tables for the unit tests of the byte balance."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from kafkakit.placement.by_size.lp_relaxation import LoadLimits
from kafkakit.placement.by_size.slots import SlotTable, make_table
from kafkakit.placement.group_rule import SpreadRule


def table_of(
    lists: Sequence[Sequence[int]], sizes: Sequence[int], racks: Sequence[str | None], **how: Any
) -> SlotTable:
    """Brokers 1, 2, ... on `racks`, all of them receivers unless told otherwise."""
    ids = range(1, len(racks) + 1)
    how.setdefault("receivers", ids)
    how.setdefault("fixed", dict.fromkeys(ids, 0))
    rule = SpreadRule(how.pop("min_rack_ids", 0), how.pop("spread_over", ()))
    return make_table(lists, sizes, dict(zip(ids, racks, strict=True)), rule, **how)


def ints(*values: int) -> Any:
    """An array of whole numbers."""
    return np.array(values, dtype=np.int64)


def no_limits(table: SlotTable) -> LoadLimits:
    """Nothing but the window binds, and it binds all brokers; no load is below nothing."""
    count = len(table.brokers)
    return LoadLimits(
        floor=np.zeros(count, dtype=np.int64),
        ceiling=np.full(count, 1 << 40, dtype=np.int64),
        even=np.ones(count, dtype=bool),
        offset=np.zeros(count, dtype=np.int64),
    )


@st.composite
def tables(draw: st.DrawFn, *, brokers: int = 4, partitions: int = 4, rules: bool = True) -> SlotTable:
    """A random small table."""
    racks = draw(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=2, max_size=brokers))
    ids = list(range(1, len(racks) + 1))
    row = st.lists(st.sampled_from(ids), min_size=1, max_size=3, unique=True)
    lists = draw(st.lists(row, min_size=1, max_size=partitions))
    sizes = draw(st.lists(st.integers(0, 9), min_size=len(lists), max_size=len(lists)))
    how: dict[str, Any] = {}
    if rules:
        spread = draw(st.sampled_from([(), (), ("a", "b"), ("a", "b", "c")]))
        how["spread_over"] = spread
        how["min_rack_ids"] = 0 if spread else draw(st.integers(0, 3))
        how["locality_scoped"] = draw(st.booleans())
        how["pinned"] = draw(st.sampled_from([(), (), (0,)]))
        how["receivers"] = draw(st.sampled_from([ids, ids, ids[1:]]))
        how["fixed"] = dict(zip(ids, draw(st.lists(st.integers(-3, 9), min_size=4, max_size=4)), strict=False))
    return table_of(lists, sizes, racks, **how)
