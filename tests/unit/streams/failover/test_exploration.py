"""Every execution of a failover with so many deviations keeps the invariants: narrow scenarios deep, wide ones less so.

Three deviations of the largest narrow ones take twelve minutes of CPU, as long as all other tests of this kind
together: `python bench/streams_explore.py --depth 3` explores them, and greater numbers go deeper.
"""

from collections.abc import Callable

import pytest

from tests.rigs.stream_model.explorer import Exploration
from tests.rigs.stream_model.scenarios import NARROW, SCENARIOS, WIDE
from tests.rigs.stream_model.world import Scenario

# Two minutes of CPU in all; a busy machine takes ten times as long.
pytestmark = pytest.mark.timeout(3600)
LARGEST = ("plain", "emergency", "store", "abort", "size")
DEPTHS = {
    **{each.name: 2 if each.name in LARGEST else 3 for each in NARROW},
    **{each.name: 1 for each in WIDE},
}


@pytest.mark.parametrize("name", DEPTHS)
def test_invariants_hold_in_every_execution(name: str, record_property: Callable[[str, object], None]) -> None:
    exploration = Exploration(scenario=SCENARIOS[name], depth=DEPTHS[name])
    exploration.explore()
    record_property("summary", exploration.words)
    assert exploration.failures == []
    assert {"done", "reclaimed"} <= set(exploration.ends)
    assert len(exploration.seen) > 30


def test_a_compacted_stream_is_not_begun() -> None:
    exploration = Exploration(scenario=Scenario(name="compacted", is_compacted=True, faults=("crash",)), depth=1)
    exploration.explore()
    assert (exploration.failures, dict(exploration.ends)) == ([], {"plan-refused": 1})


def test_counts_are_the_same_each_time() -> None:
    counts = []
    for _ in range(2):
        exploration = Exploration(scenario=SCENARIOS["crashes"], depth=1)
        exploration.explore()
        counts.append(exploration.words)
    assert counts[0] == counts[1]
