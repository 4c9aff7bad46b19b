"""Bounds of plans under constraints by tags against a search of all placements on small clusters."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from kafkakit.core.documents import encode_plan
from kafkakit.core.errors import UsageError
from kafkakit.core.model import Broker, ClusterSnapshot, Partition, TagSet, Topic, TopicPartition
from kafkakit.core.plan import TagConstraint
from kafkakit.core.selection import BrokerList
from kafkakit.placement.by_size.lp_relaxation import demand_groups_of, least_cost
from kafkakit.placement.by_size.slots import make_table
from kafkakit.placement.group_rule import GroupRule, TagRules
from kafkakit.topicmappr.decide.assembly import PlannedChange
from kafkakit.topicmappr.decide.fix_racks import FixRacksRequest, decide_fix_racks
from kafkakit.topicmappr.decide.rebuild import decide_rebuild
from kafkakit.topicmappr.decide.requests import RebuildRequest
from kafkakit.topicmappr.decide.scope import TagConstraints
from tests.clusters.strategies import TAKEN_AT, snapshots
from tests.invariants.constraints import broken
from tests.property.test_constraints import RUNS, constraints, read, tagged
from tests.rigs.certificate_checks import breaks_rack_rule

Row = tuple[int, ...]


def legal_sets(
    topic: str,
    wanted: int,
    brokers: Sequence[int],
    racks: Mapping[int, str | None],
    listed: Sequence[Any],
    minimum: int = 0,
) -> Iterator[Row]:
    """The sets that keep the rack rule and every constraint in each copy."""
    for row in combinations(brokers, wanted):
        if not breaks_rack_rule(row, racks, minimum) and not any(broken(c, topic, (), row, wanted) for c in listed):
            yield row


@RUNS
@given(st.data())
def test_a_forced_rebuild_is_most_even_then_cheapest_and_its_bound_is_true(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots(max_brokers=5, max_partitions=4, dead=False).flatmap(tagged))
    asked: TagConstraints = data.draw(constraints())
    without_spread: bool = data.draw(st.booleans())
    if asked.rules and without_spread:
        asked = replace(asked, spread_by=())
    request = RebuildRequest(
        brokers=BrokerList(ids=(), everything=True),
        topics=(".*",),
        force_rebuild=True,
        constraints=asked,
        words={"command": "topicmappr rebuild", "force-rebuild": "true"},
    )
    try:
        decided = decide_rebuild(snapshot, request)
    except UsageError:
        return
    if any(decided.unplaced):
        event("unplaced")
        return
    read(decided.plan, snapshot)
    listed = json.loads(encode_plan(decided.plan))["constraints"]
    racks = {b.id: b.rack for b in snapshot.brokers}
    choices = [list(legal_sets(p.key.topic, p.wanted, sorted(racks), racks, listed)) for p in decided.scope.partitions]
    every = []
    for rows in product(*choices):
        held = Counter(b for row in rows for b in row)
        copies = sum(len(set(row) - set(p.current)) for row, p in zip(rows, decided.scope.partitions, strict=True))
        every.append((sorted((held[b] for b in racks), reverse=True), copies))
    loads = Counter(b for row in decided.after for b in row)
    counts = sorted((loads[b] for b in racks), reverse=True)
    certificate = decided.plan.certificate
    event(f"spread {bool(asked.spread_by)}, gap {certificate.gap:.0%}")
    if asked.spread_by:
        assert certificate.lower_bound <= min(copies for _, copies in every)
    else:
        assert (counts, certificate.objective) == min(every)
        assert certificate.gap == 0


@RUNS
@given(st.data())
def test_a_repair_makes_the_fewest_copies_and_says_so(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots(max_brokers=6, max_partitions=4, dead=False).flatmap(tagged))
    # Sets of brokers without a rack are read strictly under a minimum, and need not be found then.
    minimum = data.draw(st.integers(0, 2 if all(b.rack for b in snapshot.brokers) else 1))
    words = {"command": "topicmappr fix-racks", "min-rack-ids": str(minimum)}
    request = FixRacksRequest(topics=(".*",), min_rack_ids=minimum, constraints=data.draw(constraints()), words=words)
    try:
        change = decide_fix_racks(snapshot, request)
    except UsageError:
        return
    event(f"{'left alone' if change.left_alone else 'served'}, {min(change.plan.certificate.objective, 3)} copies")
    _fewest_copies(change, snapshot, minimum)


def _fewest_copies(change: PlannedChange, snapshot: ClusterSnapshot, minimum: int) -> None:
    """All sets of each partition are tried: what has one is repaired, with the fewest copies there are."""
    read(change.plan, snapshot)
    listed = json.loads(encode_plan(change.plan))["constraints"]
    racks = {b.id: b.rack for b in snapshot.brokers}
    moved = {m.key: m.after for m in change.plan.moves}
    fewest = 0
    for entry in change.plan.scope:
        old = entry.replicas
        sets = list(legal_sets(entry.topic, len(old), sorted(racks), racks, listed, minimum))
        after = moved.get(TopicPartition(entry.topic, entry.partition), old)
        assert not sets or set(after) in map(set, sets), f"{old} became {after}, and could be one of {sets}"
        fewest += min((len(set(row) - set(old)) for row in sets), default=0)
    certificate = change.plan.certificate
    assert certificate.objective == fewest
    assert certificate.lower_bound == fewest or (certificate.lower_bound < fewest and None in racks.values())


def test_a_copy_that_could_stay_is_kept_where_the_last_of_the_list_could_not() -> None:
    """Of four copies with one value two may stay, and of three in one rack one: those in different racks stay."""
    racks = {1: "a", 2: "a", 3: "a", 4: "c", 5: "d", 6: "b"}
    snapshot = ClusterSnapshot(
        cluster_id="c1",
        taken_at=TAKEN_AT,
        source="test",
        brokers=tuple(Broker(id=b, rack=r) for b, r in racks.items()),
        topics=(Topic(name="t", partitions=(Partition(partition=0, replicas=(1, 2, 3, 4)),)),),
        tags=TagSet(brokers={b: {"feed": "y" if b > 4 else "x"} for b in racks}),
    )
    words = {"command": "topicmappr fix-racks"}
    request = FixRacksRequest(topics=(".*",), constraints=TagConstraints(spread_by=("feed",)), words=words)
    change = decide_fix_racks(snapshot, request)
    assert change.plan.certificate.objective == 2
    _fewest_copies(change, snapshot, 0)


@RUNS
@given(st.data())
def test_the_least_bytes_to_copy_are_a_true_bound_under_constraints(data: st.DataObject) -> None:
    """Limits on loads, brokers closed to topics, copies of one rack apart: all placements are tried."""
    count = data.draw(st.integers(2, 4))
    brokers = range(count)
    racks = {b: data.draw(st.sampled_from(["a", "b", "c"])) for b in brokers} if data.draw(st.booleans()) else {}
    most = 2 if racks else 1
    lists = st.lists(st.sampled_from(list(brokers)), min_size=1, max_size=min(most, count), unique=True)
    rows = data.draw(st.lists(lists, min_size=1, max_size=4))
    alike = data.draw(st.booleans())
    sizes = [1 if alike else data.draw(st.integers(0, 9)) for _ in rows]
    topics = [data.draw(st.sampled_from(["hot", "cold", "other"])) for _ in rows]
    some = st.lists(st.sampled_from(list(brokers)), max_size=count, unique=True).map(tuple)
    constraints = [
        TagConstraint(text="affinity", topics=("hot",), only=data.draw(some)),
        TagConstraint(text="anti-affinity", topics=("hot", "cold"), never=data.draw(some)),
    ]
    receivers = data.draw(some)
    table = make_table(
        rows, sizes, racks, GroupRule(tags=TagRules(constraints)), receivers=(*receivers, 0), topics=topics
    )
    place = {b: i for i, b in enumerate(table.brokers)}
    floor = np.array([data.draw(st.integers(0, 6)) for _ in table.brokers])
    ceiling = floor + np.array([data.draw(st.integers(0, 9)) for _ in table.brokers])
    bound = least_cost(table, demand_groups_of(table), floor, ceiling)

    def sets(row: Sequence[int], topic: str) -> Iterator[Row]:
        for new in combinations(table.brokers, len(row)):
            added = set(new) - set(row)
            crowded = Counter(racks.get(b, b) for b in new) - Counter(racks.get(b, b) for b in row)
            if added <= {*receivers, 0} and (len({racks.get(b, b) for b in new}) == len(new) or not crowded):
                closed = [c for c in constraints if topic in c.topics and any(_shut(c, b) for b in added)]
                if not closed:
                    yield new

    costs = []
    for chosen in product(*(list(sets(row, topic)) for row, topic in zip(rows, topics, strict=True))):
        loads = np.zeros(len(table.brokers), dtype=np.int64)
        for row, size in zip(chosen, sizes, strict=True):
            for b in row:
                loads[place[b]] += size
        if (loads >= floor).all() and (loads <= ceiling).all():
            costs.append(sum(s * len(set(n) - set(o)) for n, o, s in zip(chosen, rows, sizes, strict=True)))
    event("feasible" if costs else "not feasible")
    if costs:
        assert bound.outside == 0
        assert bound.value <= min(costs)
    if not racks and alike:
        assert (bound.outside == 0) == bool(costs), "whole units without racks are no relaxation"
        assert not costs or bound.value == min(costs)


def _shut(constraint: TagConstraint, broker: int) -> bool:
    return broker in constraint.never or (constraint.only is not None and broker not in constraint.only)


def test_a_copy_that_tags_send_round_is_counted_twice() -> None:
    """Broker 0 has too much of what may go to 1 alone, 2 lacks what only 1 can give: two copies, not one."""
    only = TagConstraint(text="affinity", topics=("hot",), only=(0, 1))
    rows, topics = [[0], [0], [1], [2]], ["hot", "hot", "cold", "cold"]

    def least(*constraints: TagConstraint) -> int:
        rule = GroupRule(tags=TagRules(constraints) if constraints else None)
        table = make_table(rows, [4, 4, 4, 1], {}, rule, receivers=(0, 1, 2), topics=topics)
        return least_cost(table, demand_groups_of(table), np.array([0, 0, 5]), np.array([4, 4, 5])).value

    assert least() == 4
    assert least(only) == 8
