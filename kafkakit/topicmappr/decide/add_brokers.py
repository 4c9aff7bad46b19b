"""`topicmappr add-brokers` as a pure function: a rebalance over the brokers in use and some more."""

from dataclasses import replace

from kafkakit.core.broker_list import BrokerList
from kafkakit.core.errors import UsageError
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan import StorageFacts
from kafkakit.placement.problem import UNWATCHED, Watch
from kafkakit.topicmappr.decide.rebalance.decision import Rebalance, decide_rebalance
from kafkakit.topicmappr.decide.rebalance.request import RebalanceRequest


def decide_add_brokers(
    snapshot: ClusterSnapshot,
    request: RebalanceRequest,
    facts: StorageFacts | None = None,
    watch: Watch = UNWATCHED,
) -> Rebalance:
    """Give the brokers in `request.brokers` their part, beside every broker that holds a replica now.

    They must be live, and may hold replicas already. Raises as `decide_rebalance`, and `UsageError` for brokers
    that are not live.
    """
    added = request.brokers
    if added.existing or added.everything or not added.ids:
        raise UsageError("--brokers: name the brokers to add; -1 and -2 stand for those that are there")
    live = {b.id for b in snapshot.brokers if b.is_alive}
    absent = [b for b in added.ids if b not in live]
    if absent:
        raise UsageError(
            f"broker(s) {', '.join(map(str, sorted(absent)))} are not live, so they cannot take replicas",
            hint="start them first; kafkakit doctor shows which brokers answer",
        )
    return decide_rebalance(snapshot, beside_existing(request), facts, watch)


def beside_existing(request: RebalanceRequest) -> RebalanceRequest:
    """The request over the named brokers and every broker that holds a replica now."""
    return replace(request, brokers=BrokerList(ids=request.brokers.ids, existing=True))
