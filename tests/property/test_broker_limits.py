"""Limits of a balance on random small clusters: kept by every plan, and refused only where no placement keeps them."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

from hypothesis import event, given
from hypothesis import strategies as st

from kafkakit.core.documents import encode_plan, encode_snapshot
from kafkakit.core.errors import InfeasibleError, TryLaterError, UsageError
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.selection import BrokerList
from kafkakit.placement.problem import PlaceBy
from kafkakit.topicmappr.decide.assembly import PlannedChange
from kafkakit.topicmappr.decide.drain import DrainRequest, decide_drain
from kafkakit.topicmappr.decide.fix_racks import FixRacksRequest, decide_fix_racks
from kafkakit.topicmappr.decide.rebalance import Rebalance, decide_rebalance
from kafkakit.topicmappr.decide.rebuild import ReplicationRequest, decide_set_replication
from kafkakit.topicmappr.decide.requests import Goal, RebalanceRequest
from tests.clusters.balance_strategies import balance_requests, examples, sized_clusters
from tests.clusters.exact_balance import Balance, balance_of
from tests.invariants.plan import verify_plan

CEILINGS = ("max-replicas", "max-leaders", "max-topic-leaders")


def ids(request: RebalanceRequest, name: str) -> list[int]:
    listed = getattr(request, name)
    return list(listed.ids) if listed else []


@st.composite
def limited(draw: st.DrawFn, snapshot: ClusterSnapshot, request: RebalanceRequest) -> RebalanceRequest:
    brokers = st.lists(st.sampled_from([b.id for b in snapshot.brokers]), max_size=2, unique=True)
    ceilings = {name: draw(st.sampled_from([None, None, 1, 2, 3, 5, 8])) for name in CEILINGS}
    taking, giving = draw(brokers), draw(brokers)
    words = {name: str(n) for name, n in ceilings.items() if n is not None}
    words |= {"exclude-receivers": ",".join(map(str, taking))} if taking else {}
    words |= {"exclude-givers": ",".join(map(str, giving))} if giving else {}
    return replace(
        request,
        exclude_receivers=BrokerList(ids=tuple(taking)) if taking else None,
        exclude_givers=BrokerList(ids=tuple(giving)) if giving else None,
        words={**request.words, **words},
        max_replicas=ceilings["max-replicas"],
        max_leaders=ceilings["max-leaders"],
        max_topic_leaders=ceilings["max-topic-leaders"],
    )


def decide(snapshot: ClusterSnapshot, request: RebalanceRequest) -> Rebalance | InfeasibleError:
    try:
        decided = decide_rebalance(snapshot, request)
    except InfeasibleError as error:
        return error
    verify_plan(json.loads(encode_plan(decided.plan)), json.loads(encode_snapshot(snapshot)))
    return decided


@examples(200)
@given(st.data())
def test_every_plan_keeps_the_limits(data: st.DataObject) -> None:
    snapshot = data.draw(sized_clusters(max_brokers=6, max_partitions=10))
    request = data.draw(limited(snapshot, data.draw(balance_requests(snapshot))))
    try:
        found = decide(snapshot, request)
    except UsageError:
        return
    event("refused" if isinstance(found, InfeasibleError) else "moves" if found.plan.moves else "still")


def may_lead(
    lists: Sequence[Sequence[int]], topics: Sequence[str], fixed: Sequence[bool], request: RebalanceRequest
) -> bool:
    """True when leaders within the ceilings exist; partitions that are fixed keep their first. By search."""
    most, of_topic = request.max_leaders or 99, request.max_topic_leaders or 99
    led: Counter[int] = Counter()
    led_of: Counter[tuple[str, int]] = Counter()

    def rest(part: int) -> bool:
        if part == len(lists):
            return True
        for b in lists[part][:1] if fixed[part] else sorted(lists[part]):
            if led[b] < most and led_of[topics[part], b] < of_topic:
                led[b] += 1
                led_of[topics[part], b] += 1
                if rest(part + 1):
                    return True
                led[b] -= 1
                led_of[topics[part], b] -= 1
        return False

    return rest(0)


def cheapest(
    snapshot: ClusterSnapshot, balance: Balance, request: RebalanceRequest, even: list[int], ppm: int | None
) -> int | None:
    """The fewest bytes of any placement within all limits, by enumeration; None where there is none."""
    limits = balance.hard() if ppm is None else replace(balance, targets=even).band(ppm)
    topics = [name for name, _ in snapshot.partitions()]
    live = {b.id for b in snapshot.brokers if b.is_alive}
    fixed = [p.isr is not None and not live & set(p.isr) for _, p in snapshot.partitions()]
    best: int | None = None
    for sets in product(*(balance.legal(p) for p in range(len(balance.lists)))):
        loads, cost = dict(balance.load), 0
        for old, new, size in zip(balance.lists, sets, balance.sizes, strict=True):
            for b in new - set(old):
                loads[b] += size
                cost += size
            for b in set(old) - new:
                loads[b] -= size
        held = Counter(b for row in sets for b in row)
        if best is not None and cost >= best:
            continue
        if any(held[b] > (request.max_replicas or 99) for b in balance.targets):
            continue
        if not all(low <= loads[b] <= high for b, (low, high) in limits.items()):
            continue
        rows = [old if stays else tuple(new) for old, new, stays in zip(balance.lists, sets, fixed, strict=True)]
        if may_lead(rows, topics, fixed, request):
            best = cost
    return best


def kept_in_goal(balance: Balance, taking: set[int], giving: set[int]) -> list[int]:
    """The targets that may come nearer to the share of those that are left."""
    left = [b for b in balance.targets if b not in taking & giving]
    while left:
        share = shares(replace(balance, targets=left))
        low = [b for b in left if b in taking and balance.load[b] < share[b]]
        high = [b for b in left if b in giving and balance.load[b] > share[b]]
        if not low and not high:
            return left
        left = [b for b in left if b not in low and b not in high]
    return left


def shares(balance: Balance) -> dict[int, int]:
    limits = replace(balance, room=dict.fromkeys(balance.load, 1 << 62)).band(0)
    return {b: limits[b][1] if limits[b][0] >= 0 else 0 for b in balance.targets}


@examples(150)
@given(st.data())
def test_small_clusters_get_the_cheapest_plan_within_the_limits_or_a_true_refusal(data: st.DataObject) -> None:
    snapshot = data.draw(sized_clusters(max_brokers=4, max_partitions=5, full=False))
    band = data.draw(st.sampled_from([20, 50, 100, 400, None]))
    goal = Goal(free_range_bytes=1 << 61) if band is None else Goal(band=Fraction(band, 100))
    base = RebalanceRequest(
        brokers=BrokerList(ids=(), existing=True, everything=True),
        topics=(".*",),
        goal=goal,
        words={"command": "topicmappr rebalance"},
    )
    request = data.draw(limited(snapshot, base))
    taking, giving = set(ids(request, "exclude_receivers")), set(ids(request, "exclude_givers"))
    balance = balance_of(snapshot, request)
    balance = replace(balance, receivers=balance.receivers - taking, givers=balance.givers - giving)
    even = kept_in_goal(balance if band else replace(balance, capacity=dict.fromkeys(balance.load, 0)), taking, giving)
    try:
        found = decide(snapshot, request)
    except UsageError:
        assert not even
        return
    least = cheapest(snapshot, balance, request, even, None if band is None else band * 10_000)
    if isinstance(found, InfeasibleError):
        assert least is None, f"{found.message}, and {least} bytes are enough"
        event("refused")
        return
    assert least is not None
    cost = sum(
        size * len(set(new) - set(old)) for size, old, new in zip(balance.sizes, found.before, found.after, strict=True)
    )
    assert cost == least or found.plan.certificate.status != "optimal"
    assert cost <= least + least // 500, f"{cost} bytes, {least} are enough"
    event("moves" if cost else "still")


@examples(100)
@given(st.data())
def test_drains_and_repairs_copy_nothing_to_excluded_brokers_and_serve_what_the_others_can_take(
    data: st.DataObject,
) -> None:
    snapshot = data.draw(sized_clusters(max_brokers=6, max_partitions=8))
    everyone = [b.id for b in snapshot.brokers]
    out = data.draw(st.lists(st.sampled_from(everyone), min_size=1, max_size=2, unique=True))
    listed, words = BrokerList(ids=tuple(out)), {"exclude-receivers": ",".join(map(str, out))}
    change: PlannedChange
    try:
        verb = data.draw(st.sampled_from(["drain", "fix-racks", "set-replication"]))
        if verb == "drain":
            leaving = data.draw(st.sampled_from(everyone))
            words |= {"command": "topicmappr drain", "brokers": str(leaving)}
            placement = data.draw(st.sampled_from(PlaceBy))
            gone = BrokerList(ids=(leaving,))
            change = decide_drain(
                snapshot,
                DrainRequest(leaving=gone, exclude_receivers=listed, topics=(".*",), placement=placement, words=words),
            )
            others = [b.id for b in snapshot.brokers if b.is_alive and b.id not in (leaving, *out)]
            named = replace(
                DrainRequest(leaving=gone, topics=(".*",), placement=placement, words={}),
                receiving=BrokerList(ids=tuple(others)),
            )
            assert [m.after for m in decide_drain(snapshot, named).plan.moves] == [m.after for m in change.plan.moves]
        elif verb == "set-replication":
            factor = data.draw(st.integers(1, 3))
            words |= {"command": "topicmappr set-replication", "replication": str(factor)}
            change = decide_set_replication(
                snapshot,
                ReplicationRequest(replication=factor, topics=(".*",), exclude_receivers=listed, words=words),
            )
        else:
            words |= {"command": "topicmappr fix-racks"}
            change = decide_fix_racks(snapshot, FixRacksRequest(topics=(".*",), exclude_receivers=listed, words=words))
    except (UsageError, TryLaterError):
        return
    event(f"{words['command']}, {'moves' if change.plan.moves else 'still'}")
    written = json.loads(encode_plan(change.plan)), json.loads(encode_snapshot(snapshot))
    verify_plan(*written, allow_unplaced=bool(change.left_alone))
