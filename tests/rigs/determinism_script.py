"""Prints plans of fixed clusters, one a line: whoever runs this, on whatever Python, must get the same bytes."""

import sys
from fractions import Fraction

from kafkakit.core.documents import encode_plan
from kafkakit.core.selection import BrokerList
from kafkakit.placement.problem import Minimize
from kafkakit.topicmappr.decide.leaders import decide_leaders
from kafkakit.topicmappr.decide.plain_requests import LeadersRequest
from kafkakit.topicmappr.decide.rebalance import decide_rebalance
from kafkakit.topicmappr.decide.rebuild import decide_rebuild
from kafkakit.topicmappr.decide.request_fields import LoadGoal
from kafkakit.topicmappr.decide.requests import RebalanceRequest, RebuildRequest
from tests.clusters.shapes import SHAPES, cluster

EVERYBODY = BrokerList(ids=(), existing=True, everything=True)


def main() -> None:
    """Write every plan to stdout."""
    out = sys.stdout.buffer
    small = cluster(["a", "b", "c", "a"], [(1, 2), (2, 3), (1, 3), (1, 2), (3, 1), (2, 1)], [70, 50, 30, 20, 90, 10])
    balances = [
        (SHAPES["few_large"](1), LoadGoal(band=Fraction(5, 100)), 0),
        (SHAPES["four_copies"](1), LoadGoal(free_range_bytes=500 << 30), 2),
        (SHAPES["half_rackless"](1), LoadGoal(max_moved_bytes=1000 << 30), 0),
        (small, LoadGoal(band=Fraction(30, 100)), 0),
        (small, LoadGoal(max_moves=2), 0),
    ]
    for snapshot, goal, racks in balances:
        request = RebalanceRequest(
            brokers=EVERYBODY,
            topics=(".*",),
            goal=goal,
            min_rack_ids=racks,
            words={"command": "topicmappr rebalance"},
        )
        out.write(encode_plan(decide_rebalance(snapshot, request).plan))
    for minimize in Minimize:
        forced = RebuildRequest(
            brokers=EVERYBODY,
            topics=(".*",),
            force_rebuild=True,
            minimize=minimize,
            words={"command": "topicmappr rebuild", "force-rebuild": "true"},
        )
        out.write(encode_plan(decide_rebuild(SHAPES["plain"](1), forced).plan))
    leaders = LeadersRequest(topics=(".*",), words={"command": "topicmappr leaders"})
    out.write(encode_plan(decide_leaders(SHAPES["plain"](1), leaders).plan))


if __name__ == "__main__":
    main()
