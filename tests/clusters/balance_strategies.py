"""Hypothesis strategies for the byte balance: clusters with disks of every kind, and requests that fit them."""

import os
from fractions import Fraction

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from kafkakit.core.model import Broker, BrokerState, ClusterSnapshot, LogDir, Partition, Topic
from kafkakit.core.selection import BrokerList
from kafkakit.placement.problem import Minimize
from kafkakit.topicmappr.decide.request_fields import LoadGoal
from kafkakit.topicmappr.decide.requests import RebalanceRequest
from tests.clusters.strategies import TAKEN_AT

IN_THE_SUITE = 500
"""Clusters that tests/property/test_balance.py generates in all, unless KAFKAKIT_EXAMPLES asks for more or fewer."""
ASKED = int(os.environ.get("KAFKAKIT_EXAMPLES", IN_THE_SUITE))


def examples(count: int) -> settings:
    """Settings for a test with its part of the clusters; the same ones each time, others in a longer run."""
    return settings(
        max_examples=max(1, count * ASKED // IN_THE_SUITE),
        derandomize=ASKED <= IN_THE_SUITE,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )


SIZES = st.sampled_from(["small", "equal", "with zeros", "huge", "one huge", "doubling"])


@st.composite
def sizes(draw: st.DrawFn, count: int, unit: int) -> list[int]:
    """Sizes of `count` partitions, in units."""
    kind = draw(SIZES)
    if kind == "equal":
        return [draw(st.integers(0, 20)) * unit] * count
    if kind == "doubling":
        return [unit << (i % 12) for i in range(count)]
    one = st.integers(0, 30) if kind == "small" else st.sampled_from([0, 0, 1, 7, 20])
    if kind == "huge":
        one, unit = st.integers(1 << 40, 1 << 50), 1
    found = [n * unit for n in draw(st.lists(one, min_size=count, max_size=count))]
    if kind == "one huge" and found:
        found[0] = sum(found) + unit
    return found


@st.composite
def sized_clusters(
    draw: st.DrawFn, *, max_brokers: int = 6, max_partitions: int = 10, unit: int | None = None, full: bool = True
) -> ClusterSnapshot:
    """Brokers on up to three racks or none, lists that may break the rack rule, disks that may be nearly full.

    With `full` there are also cordoned and broken log dirs, dead brokers without copies, copies that lag behind, and
    partitions that nobody has in sync.
    """
    count = draw(st.integers(1, max_brokers))
    unit = draw(st.sampled_from([1, 1 << 20, 1 << 30])) if unit is None else unit
    names = draw(st.sampled_from([("a", "b", "c"), ("a", "b"), ("a", "b", "c", None), (None,)]))
    racks = [draw(st.sampled_from(names)) for _ in range(count)]
    ids = list(range(1, count + 1))
    homes = ids[: draw(st.integers(1, count))] if draw(st.booleans()) else ids
    valid = draw(st.booleans())
    rows = draw(
        st.lists(
            st.lists(st.sampled_from(homes), min_size=1, max_size=min(4, len(homes)), unique=True),
            min_size=1,
            max_size=max_partitions,
        )
    )
    if valid:
        rows = [_one_a_rack(row, racks) for row in rows]
    weights = draw(sizes(len(rows), unit))
    topics = _topics(draw, rows, weights, full)
    held = dict.fromkeys(ids, 0)
    for topic in topics:
        for p in topic.partitions:
            for b, size in (p.replica_bytes or dict.fromkeys(p.replicas, p.size_bytes or 0)).items():
                held[b] += size
    most = max(held.values(), default=0)
    brokers = [_broker(draw, b, rack, held[b], most, full) for b, rack in zip(ids, racks, strict=True)]
    if full and draw(st.integers(0, 9)) == 0:
        brokers.append(Broker(id=count + 1, rack="a", state=BrokerState.FENCED))
    return ClusterSnapshot(
        cluster_id="c1", taken_at=TAKEN_AT, source="test", brokers=tuple(brokers), topics=topics, sizes_taken=True
    )


def _one_a_rack(row: list[int], racks: list[str | None]) -> list[int]:
    kept: list[int] = []
    for b in row:
        if racks[b - 1] is None or racks[b - 1] not in {racks[k - 1] for k in kept}:
            kept.append(b)
    return kept


def _topics(draw: st.DrawFn, rows: list[list[int]], weights: list[int], full: bool) -> tuple[Topic, ...]:
    cut = draw(st.integers(0, len(rows))) if full else len(rows)
    topics = []
    for name, part in (("orders", slice(0, cut)), ("pay.ments", slice(cut, None))):
        partitions = []
        for n, (row, size) in enumerate(zip(rows[part], weights[part], strict=True)):
            kind = draw(st.integers(0, 19)) if full else 9
            copies = {b: size if i else size // 2 for i, b in enumerate(row)} if kind == 0 and len(row) > 1 else {}
            isr = () if kind == 1 else tuple(row)
            partitions.append(
                Partition(partition=n, replicas=tuple(row), isr=isr, size_bytes=size, replica_bytes=copies)
            )
        if partitions:
            topics.append(Topic(name=name, partitions=tuple(partitions)))
    return tuple(topics)


def _broker(draw: st.DrawFn, broker: int, rack: str | None, held: int, most: int, full: bool) -> Broker:
    kind = draw(st.sampled_from(["roomy", "roomy", "unlike", "nearly full", "dirs"])) if full else "roomy"
    capacity = {"roomy": 4 * most + 10, "unlike": 2 * most * draw(st.integers(1, 4)) + 10, "nearly full": held + 1}
    if kind != "dirs":
        return Broker(id=broker, rack=rack, storage_free_bytes=max(0, capacity[kind] - held))
    total = 2 * most + 10
    states = [draw(st.sampled_from(["open", "open", "open", "cordoned", "broken"])) for _ in range(2)]
    if states == ["broken", "broken"]:
        states[0] = "open"
    used = [held, 0] if states[0] != "broken" else [0, held]
    dirs = tuple(
        LogDir(
            path=f"/d{n}",
            total_bytes=None if state == "broken" else total,
            usable_bytes=None if state == "broken" else total - u,
            cordoned=state == "cordoned",
            error="KafkaStorageException" if state == "broken" else None,
        )
        for n, (state, u) in enumerate(zip(states, used, strict=True))
    )
    return Broker(id=broker, rack=rack, log_dirs=dirs)


EVERYBODY = BrokerList(ids=(), existing=True, everything=True)


def spread_of(snapshot: ClusterSnapshot) -> int:
    """A scale for ranges and budgets: the bytes of all copies."""
    return sum((p.known_bytes or 0) * len(p.replicas) for _, p in snapshot.partitions())


@st.composite
def goals(draw: st.DrawFn, snapshot: ClusterSnapshot) -> LoadGoal:
    """Any goal, or none."""
    total = spread_of(snapshot)
    part = st.integers(0, total)
    kind = draw(
        st.sampled_from(["band", "band", "range", "bytes", "moves", "band and bytes", "range and moves", "none"])
    )
    band = Fraction(draw(st.sampled_from([0, 1, 5, 20, 50, 100])), 100) if "band" in kind else None
    return LoadGoal(
        band=band,
        free_range_bytes=draw(part) if "range" in kind else None,
        max_moved_bytes=draw(part) if "bytes" in kind else None,
        max_moves=draw(st.integers(0, 8)) if "moves" in kind else None,
    )


@st.composite
def balance_requests(draw: st.DrawFn, snapshot: ClusterSnapshot) -> RebalanceRequest:
    """Any request for all brokers and topics of the cluster; it may be impossible."""
    goal = draw(goals(snapshot))
    scale = draw(st.integers(0, 5)) == 0
    names = [f"{t.name}/{p.partition}" for t in snapshot.topics for p in t.partitions]
    often = st.integers(0, 3)
    leaders = draw(often) == 0
    words = {"command": f"topicmappr {'scale' if scale else 'rebalance'}"}
    words |= {"optimize-leadership": "true"} if leaders else {}
    spread = draw(often) == 0 and any(b.is_alive and b.rack for b in snapshot.brokers)
    words |= {"spread": "true"} if spread else {}
    return RebalanceRequest(
        brokers=EVERYBODY,
        topics=(".*",),
        scale=scale,
        goal=goal,
        storage_threshold=draw(st.sampled_from([0.0, 0.1, 0.5])) if draw(often) == 0 else None,
        storage_threshold_gb=draw(st.sampled_from([0.001, 1.0, 200.0])) if draw(often) == 0 else None,
        tolerance=0.0 if goal.given else draw(st.sampled_from([0.0, 0.1, 0.5])),
        partition_size_threshold_mib=draw(st.sampled_from([None, None, 0, 1, 512])),
        locality_scoped=draw(often) == 0,
        min_rack_ids=0 if spread else draw(st.integers(0, 3)),
        spread=spread,
        minimize=draw(st.sampled_from(Minimize)),
        max_disk_use=draw(st.sampled_from([Fraction(9, 10), Fraction(1), Fraction(1, 2)])),
        head_room_bytes=draw(st.sampled_from([0, 0, 1000])),
        pinned=tuple(draw(st.lists(st.sampled_from(names), max_size=2, unique=True))) if draw(often) == 0 else (),
        optimize_leadership=leaders,
        words=words,
    )


@st.composite
def exact_requests(draw: st.DrawFn, goal: LoadGoal) -> RebalanceRequest:
    """A request with this goal and any rules that exact answers know of."""
    racks = draw(st.sampled_from([0, 0, 1, 2, 3, -1, -1]))
    return RebalanceRequest(
        brokers=EVERYBODY,
        topics=(".*",),
        goal=goal,
        locality_scoped=draw(st.integers(0, 4)) == 0,
        min_rack_ids=max(0, racks),
        spread=racks < 0,
        max_disk_use=draw(st.sampled_from([Fraction(9, 10), Fraction(1)])),
        words={"command": "topicmappr rebalance"} | ({"spread": "true"} if racks < 0 else {}),
    )
