"""What refusals say: rack violations are impossible to repair only where every placement was searched."""

from fractions import Fraction

import pytest

from kafkakit.core.errors import InfeasibleError, UsageError
from kafkakit.core.selection import parse_broker_list
from kafkakit.topicmappr.decide.rebalance import decide_rebalance
from kafkakit.topicmappr.decide.requests import Goal, RebalanceRequest
from tests.cli.test_rebalance import cluster


@pytest.mark.parametrize(
    ("partitions", "words"), [(4, "every placement was searched"), (4000, "it is not proven impossible")]
)
def test_sets_that_cannot_be_mended(partitions: int, words: str) -> None:
    free = {1: 9000, 2: 9000}
    snapshot = cluster([[1, 2]] * partitions, [1] * partitions, free, dict.fromkeys(free, "a"))
    request = RebalanceRequest(
        brokers=parse_broker_list("-1"),
        topics=(".*",),
        goal=Goal(band=Fraction(1, 2)),
        max_rack_violations=0,
        words={},
    )
    with pytest.raises(InfeasibleError, match=words):
        decide_rebalance(snapshot, request)


def test_topics_without_a_partition_have_no_brokers_in_use() -> None:
    request = RebalanceRequest(brokers=parse_broker_list("-1"), topics=(".*",), words={})
    with pytest.raises(UsageError, match="no broker holds these topics"):
        decide_rebalance(cluster([], [], {1: 5}, {1: "a"}), request)
