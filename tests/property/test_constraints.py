"""Plans under constraints by tags on random clusters: an independent checker, and a search for what was left undone."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations

from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from kafkakit.core.documents import decode_plan, encode_plan, encode_snapshot
from kafkakit.core.errors import InfeasibleError, TryLaterError, UsageError
from kafkakit.core.model import ClusterSnapshot, TagSet, TopicPartition
from kafkakit.core.plan import Plan
from kafkakit.core.selection import BrokerList
from kafkakit.placement.problem import PlaceBy
from kafkakit.topicmappr.decide.assembly import PlannedChange
from kafkakit.topicmappr.decide.drain import DrainRequest, decide_drain
from kafkakit.topicmappr.decide.fix_racks import FixRacksRequest, decide_fix_racks
from kafkakit.topicmappr.decide.place import PlaceRequest, decide_place
from kafkakit.topicmappr.decide.rebalance import decide_rebalance
from kafkakit.topicmappr.decide.rebuild import ReplicationRequest, decide_rebuild, decide_set_replication
from kafkakit.topicmappr.decide.requests import RebuildRequest
from kafkakit.topicmappr.decide.scope import TagConstraints, TopicRule, parse_broker_set, parse_topic_rules
from tests.clusters.balance_strategies import balance_requests, sized_clusters
from tests.clusters.strategies import snapshots
from tests.invariants.constraints import broken
from tests.invariants.plan import verify_plan
from tests.rigs.certificate_checks import breaks_rack_rule

RUNS = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@st.composite
def tagged(draw: st.DrawFn, snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Brokers with feeds and disks, one topic with a tier."""
    brokers = {}
    for b in snapshot.brokers:
        feed, disk = draw(st.sampled_from(["x", "y", "z", None])), draw(st.sampled_from(["ssd", "hdd"]))
        tier = {"tier": draw(st.sampled_from(["hot", "cold"]))} if disk == "hdd" or feed else {}
        brokers[b.id] = {"disk": disk} | ({"feed": feed} if feed else {}) | tier
    return replace(snapshot, tags=TagSet(brokers=brokers, topics={snapshot.topics[0].name: {"tier": "hot"}}))


@st.composite
def constraints(draw: st.DrawFn) -> TagConstraints:
    rules: list[TopicRule] = []
    if draw(st.booleans()):
        topics = draw(st.sampled_from(["tier = hot", "name ~ *", "tier != hot", "name = new"]))
        flag = draw(st.sampled_from(["--affinity", "--anti-affinity"]))
        rules += parse_topic_rules(f"topics where {topics}: brokers where disk = ssd", flag)
    sets = draw(st.sampled_from([(), (), (parse_broker_set("where tier = hot: where disk = ssd"),)]))
    sets_by = draw(st.sampled_from(["", "", "tier"]))
    spread = ("feed",) if not (rules or sets or sets_by) or draw(st.booleans()) else ()
    return TagConstraints(spread_by=spread, rules=tuple(rules), sets=sets, sets_by=sets_by if not sets else "")


def read(plan: Plan, snapshot: ClusterSnapshot, *, allow_unplaced: bool = False) -> None:
    written = encode_plan(plan)
    verify_plan(json.loads(written), json.loads(encode_snapshot(snapshot)), allow_unplaced=allow_unplaced)
    assert decode_plan(written, "plan") == plan
    assert plan.constraints


@contextmanager
def planning() -> Iterator[None]:
    """No planner may end with lists that the last check before the plan refuses."""
    try:
        yield
    except InfeasibleError as error:
        if "keeps the constraints" in error.message:
            raise AssertionError(error.reasons) from None
        raise


def lists_of(plan: Plan) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    moved = {m.key: m.after for m in plan.moves}
    return [(e.topic, e.replicas, moved.get(TopicPartition(e.topic, e.partition), e.replicas)) for e in plan.scope]


def completions(plan: Plan, topic: str, old: Sequence[int], kept: Sequence[int], racks: dict[int, str | None]) -> bool:
    """True when a search finds brokers for all that a set lacks, under racks and constraints."""
    assert plan.rules is not None
    listed = [json.loads(encode_plan(plan))["constraints"]][0]
    spare = [b for b in plan.rules.receivers if b not in kept]
    for extra in combinations(spare, len(old) - len(kept)):
        new = [*kept, *extra]
        if not breaks_rack_rule(new, racks, 0) and not any(broken(c, topic, kept, new) for c in listed):
            return True
    return False


@st.composite
def drains(draw: st.DrawFn, snapshot: ClusterSnapshot) -> DrainRequest:
    ids = [b.id for b in snapshot.brokers]
    leaving = draw(st.lists(st.sampled_from(ids), min_size=1, max_size=3, unique=True))
    return DrainRequest(
        leaving=BrokerList(ids=tuple(leaving)),
        topics=(".*",),
        constraints=draw(constraints()),
        words={"command": "topicmappr drain", "brokers": ",".join(map(str, leaving))},
    )


@RUNS
@given(st.data())
def test_a_drain_by_bytes_keeps_constraints(data: st.DataObject) -> None:
    snapshot = data.draw(sized_clusters().flatmap(tagged))
    request = replace(data.draw(drains(snapshot)), placement=PlaceBy.STORAGE)
    try:
        with planning():
            change = decide_drain(snapshot, request)
    except (UsageError, TryLaterError):
        return
    event("left alone" if change.left_alone else "served")
    read(change.plan, snapshot)


@RUNS
@given(st.data())
def test_a_drain_keeps_constraints_and_leaves_only_what_no_search_places(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots().flatmap(tagged))
    request = data.draw(drains(snapshot))
    leaving = request.leaving.ids
    try:
        with planning():
            change = decide_drain(snapshot, request)
    except UsageError:
        return
    read(change.plan, snapshot)
    event("left alone" if change.left_alone else "served")
    racks = {b.id: b.rack for b in snapshot.brokers}
    for topic, old, new in lists_of(change.plan):
        kept = [b for b in old if b not in leaving]
        if new == old and len(kept) < len(old) and not breaks_rack_rule(kept, racks, 0):
            isr = next(t for t in snapshot.topics if t.name == topic)
            if all(set(p.isr or ()) & {b.id for b in snapshot.brokers if b.is_alive} for p in isr.partitions):
                assert not completions(change.plan, topic, old, kept, racks), f"{topic} {old} keeps {kept}"


@RUNS
@given(st.data())
def test_a_rebuild_keeps_constraints_and_moves_what_they_forbid(data: st.DataObject) -> None:
    stored, minimum = data.draw(st.booleans()), data.draw(st.integers(0, 2))
    snapshot = data.draw((sized_clusters() if stored else snapshots()).flatmap(tagged))
    request = RebuildRequest(
        brokers=BrokerList(ids=(), everything=True),
        topics=(".*",),
        min_rack_ids=minimum,
        constraints=data.draw(constraints()),
        placement=PlaceBy.STORAGE if stored else PlaceBy.COUNT,
        words={"command": "topicmappr rebuild"} | ({"min-rack-ids": str(minimum)} if minimum else {}),
    )
    try:
        with planning():
            decided = decide_rebuild(snapshot, request)
    except (UsageError, TryLaterError):
        return
    read(decided.plan, snapshot, allow_unplaced=any(decided.unplaced))
    assert bool(any(decided.unplaced)) == bool(decided.shortages)


@RUNS
@given(st.data())
def test_a_forced_rebuild_keeps_constraints_in_every_set(data: st.DataObject) -> None:
    minimum, factor = data.draw(st.integers(0, 2)), data.draw(st.sampled_from([0, 0, 2, 3]))
    snapshot = data.draw(snapshots().flatmap(tagged))
    given = {"min-rack-ids": minimum, "replication": factor}
    request = RebuildRequest(
        brokers=BrokerList(ids=(), everything=True),
        topics=(".*",),
        min_rack_ids=minimum,
        replication=factor,
        force_rebuild=True,
        constraints=data.draw(constraints()),
        words={"command": "topicmappr rebuild", "force-rebuild": "true"} | {k: str(v) for k, v in given.items() if v},
    )
    try:
        with planning():
            decided = decide_rebuild(snapshot, request)
    except (UsageError, TryLaterError):
        return
    read(decided.plan, snapshot, allow_unplaced=any(decided.unplaced))
    assert bool(any(decided.unplaced)) == bool(decided.shortages)
    listed = json.loads(encode_plan(decided.plan))["constraints"]
    racks = {b.id: b.rack for b in snapshot.brokers}
    pinned = set(decided.plan.rules.pinned) if decided.plan.rules else set()
    for p, row in zip(decided.scope.partitions, decided.after, strict=True):
        if p.key in pinned:
            continue
        assert not [text for c in listed if (text := broken(c, p.key.topic, (), row, p.wanted))], (p, row)
        assert not breaks_rack_rule(row, racks, minimum)
    event("unplaced" if any(decided.unplaced) else "served")


@RUNS
@given(st.data())
def test_a_repair_leaves_no_set_that_breaks_a_constraint(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots().flatmap(tagged))
    minimum = data.draw(st.integers(0, 2))
    words = {"command": "topicmappr fix-racks", "min-rack-ids": str(minimum)}
    request = FixRacksRequest(topics=(".*",), min_rack_ids=minimum, constraints=data.draw(constraints()), words=words)
    try:
        with planning():
            change = decide_fix_racks(snapshot, request)
    except UsageError:
        return
    read(change.plan, snapshot)
    racks = {b.id: b.rack for b in snapshot.brokers}
    listed = json.loads(encode_plan(change.plan))["constraints"]
    event("left alone" if change.left_alone else "served")
    if change.left_alone or any("left where it is" in w for w in change.plan.warnings):
        return
    for topic, old, new in lists_of(change.plan):
        assert not breaks_rack_rule(new, racks, minimum), f"{old} became {new}"
        # As if every copy were new: nothing that was wrong has stayed.
        assert not [problem for c in listed if (problem := broken(c, topic, (), new))], f"{old} became {new}"


@RUNS
@given(st.data())
def test_added_copies_keep_constraints(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots().flatmap(tagged))
    factor = data.draw(st.integers(1, 4))
    words = {"command": "topicmappr set-replication", "replication": str(factor)}
    request = ReplicationRequest(replication=factor, topics=(".*",), constraints=data.draw(constraints()), words=words)
    try:
        with planning():
            change: PlannedChange = decide_set_replication(snapshot, request)
    except UsageError:
        return
    read(change.plan, snapshot, allow_unplaced=bool(change.left_alone))


@RUNS
@given(st.data())
def test_a_balance_of_bytes_keeps_constraints(data: st.DataObject) -> None:
    snapshot = data.draw(sized_clusters().flatmap(tagged))
    request = replace(data.draw(balance_requests(snapshot)), constraints=data.draw(constraints()))
    try:
        with planning():
            decided = decide_rebalance(snapshot, request)
    except (UsageError, InfeasibleError):
        return
    event("moves" if decided.plan.moves else "still")
    read(decided.plan, snapshot)


@RUNS
@given(st.data())
def test_a_new_topic_keeps_constraints(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots(dead=False).flatmap(tagged))
    asked = data.draw(constraints())
    partitions, replication = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
    request = PlaceRequest(topic="new", constraints=asked, partitions=partitions, replication=replication)
    try:
        placed = decide_place(snapshot, request)
    except UsageError:
        assume(False)
        return
    except InfeasibleError:
        return
    rules = asked.on(placed_in(snapshot), ("new",))
    assert rules is not None
    listed = [
        {"text": c.text, "topics": c.topics, "only": c.only, "never": c.never, "values": c.values}
        for c in rules.constraints
    ]
    for row in placed.lists:
        assert not [broken(c, "new", (), row) for c in listed if broken(c, "new", (), row)]


def placed_in(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    return replace(snapshot, topics=(*snapshot.topics, replace(snapshot.topics[0], name="new")))


@RUNS
@given(st.data())
def test_broker_sets_are_hard_partitions(data: st.DataObject) -> None:
    snapshot = data.draw(sized_clusters(max_brokers=8))
    ids, names = [b.id for b in snapshot.brokers], [t.name for t in snapshot.topics]
    of_broker = {b: data.draw(st.sampled_from(["x", "y", ""])) for b in ids}
    of_topic = {t: data.draw(st.sampled_from(["x", "y", ""])) for t in names}
    used = sorted({*of_topic.values()} - {""})
    by_tag, forced = data.draw(st.booleans()), data.draw(st.booleans())
    members = {s: [b for b in ids if of_broker[b] == s] for s in used}
    assume(used and all(members.values()))
    if by_tag:
        asked = TagConstraints(sets_by="set")
        tags = TagSet(
            brokers={b: {"set": s} for b, s in of_broker.items() if s},
            topics={t: {"set": s} for t, s in of_topic.items() if s},
        )
        snapshot, taken = replace(snapshot, tags=tags), {b for b in ids if of_broker[b]}
    else:
        rows = {s: ",".join(t for t in names if of_topic[t] == s) for s in used}
        asked = TagConstraints(
            sets=tuple(parse_broker_set(f"{rows[s]}: {','.join(map(str, members[s]))}") for s in used)
        )
        taken = {b for row in members.values() for b in row}
    request = RebuildRequest(
        brokers=BrokerList(ids=(), everything=True),
        topics=(".*",),
        force_rebuild=forced,
        constraints=asked,
        words={"command": "topicmappr rebuild"} | ({"force-rebuild": "true"} if forced else {}),
    )
    try:
        with planning():
            plan = decide_rebuild(snapshot, request).plan
    except (UsageError, TryLaterError):
        return
    stuck = {p.topic for p in (plan.rules.pinned if plan.rules else ())}
    for topic, old, new in lists_of(plan):
        may = set(members[of_topic[topic]]) if of_topic[topic] else set(ids) - taken
        assert set(new) - set(old) <= may, f"{topic}: {old} -> {new}"
        if topic not in stuck and len(new) == len(old):
            assert set(new) <= may, f"{topic}: {old} -> {new}"
