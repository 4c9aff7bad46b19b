"""Free choices of a rebalance on random clusters: nothing gets worse, whatever the rules; see tests/soft_goals.py."""

import json

from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.documents import encode_plan, encode_snapshot
from kafkakit.core.errors import InfeasibleError, UsageError
from kafkakit.topicmappr.decide.rebalance import decide_rebalance
from tests.clusters.balance_strategies import balance_requests, examples, sized_clusters
from tests.invariants.plan import verify_plan
from tests.invariants.soft_goals import choices_left_open, no_worse, same_price, weigh


@examples(40)
@given(st.data())
def test_free_choices_make_nothing_worse(data: st.DataObject) -> None:
    snapshot = data.draw(sized_clusters(max_brokers=8, max_partitions=12))
    request = data.draw(balance_requests(snapshot))
    try:
        with choices_left_open():
            found = decide_rebalance(snapshot, request)
    except (UsageError, InfeasibleError):
        return
    made = decide_rebalance(snapshot, request)
    verify_plan(json.loads(encode_plan(made.plan)), json.loads(encode_snapshot(snapshot)))
    if request.optimize_leadership:  # then the order of all lists is free, and is chosen again for other sets
        same_price(found, made)
        assert weigh(made).counts <= weigh(found).counts
    else:
        no_worse(found, made)
