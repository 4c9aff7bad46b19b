"""How many brokers would bring a band within reach, where racks hold one copy of everything."""

from datetime import UTC, datetime

import pytest

from kafkakit.core.broker_list import BrokerList
from kafkakit.core.errors import InfeasibleError
from kafkakit.core.model import Broker, ClusterSnapshot, LogDir, Partition, Topic
from kafkakit.core.quantities import parse_percent
from kafkakit.topicmappr.decide.rebalance.decision import decide_rebalance
from kafkakit.topicmappr.decide.rebalance.request import Goal, RebalanceRequest

MIB = 1 << 20


def cluster(racks: dict[str, int]) -> ClusterSnapshot:
    """So many brokers in each of three racks; 60 partitions of 1 MiB, one copy in each rack, dealt out in turn."""
    ids = {rack: [100 * n + i for i in range(count)] for n, (rack, count) in enumerate(sorted(racks.items()), 1)}
    disks = LogDir(path="/d", total_bytes=1000 * MIB, usable_bytes=900 * MIB)
    partitions = tuple(
        Partition(partition=p, replicas=row, replica_bytes=dict.fromkeys(row, MIB))
        for p in range(60)
        for row in [tuple(ids[r][p % len(ids[r])] for r in sorted(ids))]
    )
    return ClusterSnapshot(
        cluster_id="c",
        taken_at=datetime(2026, 1, 1, tzinfo=UTC),
        source="test",
        sizes_taken=True,
        brokers=tuple(Broker(id=b, rack=r, log_dirs=(disks,)) for r in sorted(ids) for b in ids[r]),
        topics=(Topic(name="t", partitions=partitions),),
    )


def plan(snapshot: ClusterSnapshot, band: str) -> None:
    request = RebalanceRequest(
        brokers=BrokerList(ids=tuple(b.id for b in snapshot.brokers)),
        topics=("t",),
        goal=Goal(band=parse_percent(band, "--band")),
        words={},
    )
    decide_rebalance(snapshot, request)


def test_the_number_of_brokers_that_would_do_is_named_and_is_the_least() -> None:
    with pytest.raises(InfeasibleError) as refused:
        plan(cluster({"a": 4, "b": 4, "c": 2}), "10%")
    assert refused.value.hint is not None
    assert "or 2 more brokers like these in rack c" in refused.value.hint
    with pytest.raises(InfeasibleError):
        plan(cluster({"a": 4, "b": 4, "c": 3}), "10%")
    plan(cluster({"a": 4, "b": 4, "c": 4}), "10%")
