"""Hypothesis strategies for `topicmappr replan`: sized clusters, plans half carried out, and what happens meanwhile."""

from dataclasses import replace

from hypothesis import strategies as st

from kafkakit.core.model import Broker, BrokerState, ClusterSnapshot, Partition, Reassignment, Topic, TopicPartition
from kafkakit.core.plan import Plan
from tests.clusters.strategies import TAKEN_AT

UNIT = 1 << 20


@st.composite
def sized(draw: st.DrawFn, *, max_brokers: int = 5, max_partitions: int = 6) -> ClusterSnapshot:
    """Live brokers on up to three racks or none, sizes known, disks with room for several times what they hold."""
    count = draw(st.integers(2, max_brokers))
    racks = draw(st.sampled_from([("a", "b", "c"), ("a", "b"), (None,)]))
    ids = list(range(1, count + 1))
    lists = st.lists(st.sampled_from(ids), min_size=1, max_size=min(3, count), unique=True)
    rows = draw(st.lists(lists, min_size=1, max_size=max_partitions))
    weights = draw(st.lists(st.integers(0, 30), min_size=len(rows), max_size=len(rows)))
    cut = draw(st.integers(1, len(rows)))
    topics = []
    for name, part in (("orders", slice(0, cut)), ("pay.ments", slice(cut, None))):
        partitions = tuple(
            Partition(partition=n, replicas=tuple(row), isr=tuple(row), size_bytes=w * UNIT)
            for n, (row, w) in enumerate(zip(rows[part], weights[part], strict=True))
        )
        topics += [Topic(name=name, partitions=partitions, topic_id=f"id-{name}")] * bool(partitions)
    room = sum(weights) * UNIT * 4 + 1000
    brokers = tuple(
        Broker(id=b, rack=racks[b % len(racks)], storage_free_bytes=room - draw(st.integers(0, 20)) * UNIT) for b in ids
    )
    return ClusterSnapshot(
        cluster_id="c1", taken_at=TAKEN_AT, source="test", brokers=brokers, topics=tuple(topics), sizes_taken=True
    )


def carried_out(snapshot: ClusterSnapshot, done: dict[TopicPartition, tuple[int, ...]],
                running: dict[TopicPartition, tuple[int, ...]]) -> ClusterSnapshot:  # fmt: skip
    """The cluster after some moves have ended and others have begun; free bytes follow the finished copies."""
    free = {b.id: b.storage_free_bytes for b in snapshot.brokers}
    moves: list[Reassignment] = []

    def moved(topic: str, p: Partition) -> Partition:
        key = TopicPartition(topic, p.partition)
        if key in done:
            for b in set(p.replicas) ^ set(done[key]):
                if free.get(b) is not None:
                    sign = 1 if b in p.replicas else -1
                    free[b] = max(0, (free[b] or 0) + sign * (p.size_bytes or 0))
            return replace(p, replicas=done[key], isr=done[key])
        if key in running and set(running[key]) != set(p.replicas):
            target = running[key]
            adding = tuple(b for b in target if b not in p.replicas)
            removing = tuple(b for b in p.replicas if b not in target)
            every = (*target, *removing)
            moves.append(
                Reassignment(topic=topic, partition=p.partition, replicas=every, adding=adding, removing=removing)
            )
            begun = dict.fromkeys(p.replicas, p.size_bytes or 0) | dict.fromkeys(adding, 0)
            return replace(p, replicas=every, adding=adding, removing=removing, replica_bytes=begun)
        return p

    topics = tuple(replace(t, partitions=tuple(moved(t.name, p) for p in t.partitions)) for t in snapshot.topics)
    brokers = tuple(replace(b, storage_free_bytes=free[b.id]) for b in snapshot.brokers)
    return replace(snapshot, topics=topics, brokers=brokers, reassignments=tuple(moves))


@st.composite
def half_done(draw: st.DrawFn, snapshot: ClusterSnapshot, plan: Plan) -> ClusterSnapshot:
    """Some of the plan's moves done, some running, nothing else."""
    fates = {m.key: draw(st.sampled_from(["done", "running", "waiting"])) for m in plan.moves}
    after = {m.key: m.after for m in plan.moves}
    return carried_out(
        snapshot,
        {k: after[k] for k, fate in fates.items() if fate == "done"},
        {k: after[k] for k, fate in fates.items() if fate == "running"},
    )


@st.composite
def drifted(draw: st.DrawFn, snapshot: ClusterSnapshot, plan: Plan) -> ClusterSnapshot:
    """Half carried out, and then anything: growth, dead brokers, foreign changes, partitions that come and go."""
    now = draw(half_done(snapshot, plan))
    kinds = draw(
        st.sets(st.sampled_from(["grow", "kill", "foreign", "moving", "new", "gone", "rack"]), min_size=1, max_size=3)
    )
    ids = [b.id for b in now.brokers]
    if "foreign" in kinds:
        now = _with(now, draw(st.integers(0, 5)), lambda p: replace(p, replicas=p.replicas[1:] + p.replicas[:1]))
    if "moving" in kinds:
        wanted = tuple(draw(st.lists(st.sampled_from(ids), min_size=1, max_size=2, unique=True)))
        still = [(t, p) for t, p in now.partitions() if not p.adding and not p.removing]
        if still:
            topic, p = still[draw(st.integers(0, len(still) - 1))]
            earlier = now.reassignments
            now = carried_out(now, {}, {TopicPartition(topic, p.partition): wanted})
            now = replace(now, reassignments=earlier + now.reassignments)
    if "grow" in kinds:
        factor = draw(st.integers(0, 4))
        now = _with(now, draw(st.integers(0, 5)), lambda p: replace(p, size_bytes=(p.size_bytes or 0) * factor))
    if "new" in kinds:
        fresh = Partition(partition=50, replicas=(ids[0],), isr=(ids[0],), size_bytes=draw(st.integers(0, 9)) * UNIT)
        first = now.topics[0]
        now = replace(now, topics=(replace(first, partitions=(*first.partitions, fresh)), *now.topics[1:]))
    if "gone" in kinds and len(now.topics) > 1:
        name = now.topics[-1].name
        moves = tuple(r for r in now.reassignments if r.topic != name)
        now = replace(now, topics=now.topics[:-1], reassignments=moves)
    if "kill" in kinds:
        dead = draw(st.sampled_from(ids))
        now = replace(now, brokers=tuple(replace(b, state=BrokerState.FENCED) if b.id == dead else b
                                         for b in now.brokers))  # fmt: skip
    if "rack" in kinds and now.brokers[0].rack:
        now = replace(now, brokers=(replace(now.brokers[0], rack="b"), *now.brokers[1:]))
    return now


def _with(snapshot: ClusterSnapshot, index: int, change: object) -> ClusterSnapshot:
    """Change one partition that is not moving, counted over all topics; nothing where there is no such one."""
    assert callable(change)
    still = [(t, p.partition) for t, p in snapshot.partitions() if not p.adding and not p.removing]
    if not still:
        return snapshot
    chosen = still[index % len(still)]
    topics = tuple(
        replace(t, partitions=tuple(change(p) if (t.name, p.partition) == chosen else p for p in t.partitions))
        for t in snapshot.topics
    )
    return replace(snapshot, topics=topics)
