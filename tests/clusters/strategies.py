"""Hypothesis strategies: clusters and rebuild requests, small enough to check exactly."""

from datetime import UTC, datetime

from hypothesis import strategies as st

from kafkakit.core.model import Broker, BrokerState, ClusterSnapshot, Partition, Topic
from kafkakit.core.selection import BrokerList
from kafkakit.placement.problem import Minimize
from kafkakit.topicmappr.decide.requests import RebuildRequest

TAKEN_AT = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
RACKS = st.sampled_from(["a", "b", "c", "d", None])


@st.composite
def snapshots(draw: st.DrawFn, *, max_brokers: int = 8, max_partitions: int = 10, dead: bool = True) -> ClusterSnapshot:
    """A cluster with up to `max_brokers` brokers on up to four racks and lists of one to four replicas."""
    ids = range(1001, 1001 + draw(st.integers(1, max_brokers)))
    racked = draw(st.booleans())
    states = st.sampled_from([BrokerState.ALIVE] * 5 + [BrokerState.FENCED, BrokerState.MISSING] * dead)
    brokers = tuple(
        Broker(id=b, rack=draw(RACKS if not racked else st.sampled_from(["a", "b", "c"])), state=draw(states))
        for b in ids
    )
    lists = st.lists(st.sampled_from(list(ids)), min_size=1, max_size=min(4, len(ids)), unique=True)
    topics = []
    for name in ("orders", "pay.ments")[: draw(st.integers(1, 2))]:
        rows = draw(st.lists(lists, min_size=1, max_size=max_partitions // 2))
        sizes = draw(st.lists(st.integers(0, 5_000), min_size=len(rows), max_size=len(rows)))
        partitions = tuple(
            Partition(partition=n, replicas=tuple(row), isr=tuple(row[: draw(st.integers(1, len(row)))]), size_bytes=s)
            for n, (row, s) in enumerate(zip(rows, sizes, strict=True))
        )
        topics.append(Topic(name=name, partitions=partitions, topic_id=f"id-{name}"))
    return ClusterSnapshot(
        cluster_id="c1", taken_at=TAKEN_AT, source="test", brokers=brokers, topics=tuple(topics), sizes_taken=True
    )


@st.composite
def requests(draw: st.DrawFn, snapshot: ClusterSnapshot) -> RebuildRequest:
    """A request that fits the snapshot; it may still be infeasible."""
    ids = [b.id for b in snapshot.brokers]
    listed = draw(st.lists(st.sampled_from([*ids, 9999]), min_size=1, max_size=len(ids) + 1, unique=True))
    force = draw(st.booleans())
    replication = draw(st.sampled_from([0, 0, 0, 1, 2, 3, 4]))
    racks = draw(st.integers(0, 3))
    minimize = draw(st.sampled_from(Minimize))
    words = {"command": "topicmappr rebuild", "minimize": minimize.value}
    words |= {"force-rebuild": "true"} if force else {}
    words |= {"replication": str(replication)} if replication else {}
    words |= {"min-rack-ids": str(racks)} if racks else {}
    return RebuildRequest(
        brokers=BrokerList(ids=tuple(listed), existing=draw(st.booleans()), everything=draw(st.booleans())),
        topics=(".*",),
        replication=replication,
        force_rebuild=force,
        min_rack_ids=racks,
        minimize=minimize,
        words=words,
    )
