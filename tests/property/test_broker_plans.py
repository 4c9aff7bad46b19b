"""Plans of operations on brokers, on clusters of all shapes: cut in two, or in place, they empty the broker."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kafkakit.broker.act.operation_files import CordonWriter
from kafkakit.broker.decide.cordons import decide_cordon, decide_uncordon
from kafkakit.broker.decide.operation import OperationGoal
from kafkakit.broker.decide.plans import decide_operation
from kafkakit.core.errors import InfeasibleError, UsageError
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.core.plan import Plan
from kafkakit.core.plan_rules import check_plan
from kafkakit.execution.act.retrier import read_cordons
from kafkakit.placement.problem import PlaceBy
from tests.clusters.balance_strategies import examples
from tests.fakes.admin import FakeClock, FakeCluster
from tests.fakes.control import FakeControlStore
from tests.rigs.sandbox_cluster import SilentReporter

MB = 1_000_000
AT = datetime(2026, 1, 1, tzinfo=UTC)


def seen(cluster: FakeCluster) -> ClusterSnapshot:
    return cluster.snapshot(now=datetime(2026, 1, 1, tzinfo=UTC))


def lists_after(start: dict[TopicPartition, tuple[int, ...]], *plans: Plan | None) -> dict[Any, tuple[int, ...]]:
    lists = dict(start)
    for plan in plans:
        for move in plan.moves if plan else ():
            assert lists[move.key] == move.before, "each plan begins where the one before ended"
            lists[move.key] = move.after
    return lists


@st.composite
def clusters(draw: st.DrawFn) -> FakeCluster:
    count = draw(st.integers(4, 7))
    cluster = FakeCluster({b: draw(st.sampled_from(["a", "b", "c", "d", None])) for b in range(1, count + 1)})
    for name in ("t", "u"):
        rows = draw(
            st.lists(st.permutations(range(1, count + 1)).flatmap(lambda p: st.just(p[:3])), min_size=1, max_size=6)
        )
        cluster.add_topic(name, dict(enumerate(rows)), size_bytes=draw(st.integers(0, 3)) * MB)
    for broker in draw(st.sets(st.integers(1, count), max_size=1)):
        cluster.kill(broker)
    return cluster


@examples(20)
@given(clusters(), st.sampled_from(list(PlaceBy)))
def test_the_two_plans_follow_each_other_and_empty_the_broker(cluster: FakeCluster, placement: PlaceBy) -> None:
    snapshot = seen(cluster)
    start = {TopicPartition(t, p.partition): p.replicas for t, p in snapshot.partitions()}
    facts = {TopicPartition(t, p.partition): p for t, p in snapshot.partitions()}
    decided = decide_operation(snapshot, OperationGoal(brokers=(1,), placement=placement, min_rack_ids=1, words={}))
    if decided is None:
        assert all(1 not in replicas for replicas in start.values())
        return
    for plan in (decided.whole.plan, decided.copies, decided.leaders):
        if plan is not None:
            check_plan(plan, "plan")
    lists = lists_after(start, decided.leaders, decided.copies)
    stay = {k for k, replicas in lists.items() if 1 in replicas}
    assert bool(stay) == bool(decided.whole.plan.warnings)
    for move in decided.leaders.moves if decided.leaders else ():
        assert move.before[0] == 1
        assert sorted(move.after) == sorted(move.before), "no copy moves with a leadership"
        assert move.after[0] in (facts[move.key].isr or ()), "who is to lead can lead now"
        assert lists[move.key][0] == move.after[0], "and continues leading when the copies have moved"
    if cluster.brokers[1].alive:
        late = {k for k, r in start.items() if r[0] == 1 and k not in stay and {*(facts[k].isr or ())} - {1}}
        assert late <= {m.key for m in (decided.leaders.moves if decided.leaders else ())}
    assert (
        decide_operation(snapshot, OperationGoal(brokers=(1,), placement=placement, min_rack_ids=1, words={}))
        == decided
    )


@examples(20)
@given(clusters())
def test_a_replacement_keeps_every_place(cluster: FakeCluster) -> None:
    cluster.add_broker(9, cluster.brokers[1].rack)
    snapshot = seen(cluster)
    start = {TopicPartition(t, p.partition): p.replicas for t, p in snapshot.partitions()}
    decided = decide_operation(snapshot, OperationGoal(brokers=(1,), onto=9, min_rack_ids=1, words={}))
    if decided is None:
        return
    check_plan(decided.copies, "plan")
    assert decided.leaders is None
    wanted = {k: tuple(9 if b == 1 else b for b in replicas) for k, replicas in start.items()}
    lists = lists_after(start, decided.copies)
    assert {k for k in wanted if lists[k] != wanted[k]} == {k for k, r in lists.items() if 1 in r}
    assert bool([k for k in wanted if lists[k] != wanted[k]]) == bool(decided.whole.plan.warnings)
    load = {b.broker: b.leaders for b in decided.copies.after.brokers}
    touched = {e.topic for e in decided.copies.scope}
    led = [r[0] for k, r in lists.items() if k.topic in touched]
    assert load == {b: led.count(b) for b in load}


@st.composite
def disturbed_clusters(draw: st.DrawFn) -> FakeCluster:
    """Leaders that are not the preferred ones, and copies out of sync."""
    cluster = draw(clusters())
    for topic in cluster.topics.values():
        for partition in topic.partitions.values():
            if draw(st.booleans()) and partition.isr:
                partition.leader = draw(st.sampled_from(sorted(partition.isr)))
            lost = {draw(st.sampled_from(partition.replicas))} - {partition.leader}
            partition.isr = [b for b in partition.isr if b not in lost]
    return cluster


@examples(40)
@given(disturbed_clusters(), st.sets(st.integers(1, 4), min_size=1, max_size=3))
def test_leaderships_alone_go_to_replicas_in_sync_and_no_data_moves(cluster: FakeCluster, brokers: set[int]) -> None:
    snapshot = seen(cluster)
    goal = OperationGoal(brokers=tuple(sorted(brokers)), leaders_only=True, words={})
    decided = decide_operation(snapshot, goal)
    moves = {m.key: m for m in decided.leaders.moves} if decided and decided.leaders else {}
    if decided and decided.leaders:
        check_plan(decided.leaders, "plan")
        assert not decided.copies.moves
    alive = {b.id for b in snapshot.brokers if b.is_alive}
    warned = " ".join(decided.whole.plan.warnings) if decided else ""
    stuck = 0
    for name, partition in snapshot.partitions():
        move = moves.get(TopicPartition(name, partition.partition))
        after = move.after if move else partition.replicas
        others = {*(partition.isr or ())} & alive - brokers
        leaving = brokers & alive
        assert sorted(after) == sorted(partition.replicas)
        if partition.leader not in leaving and partition.replicas[0] not in leaving:
            assert move is None
        elif others:
            assert after[0] in others
            assert partition.leader in leaving or move is None or after[0] == partition.leader
        else:
            assert move is None
            stuck += partition.leader in leaving
    assert warned.startswith(f"{stuck} leaderships" if stuck != 1 else "1 leadership ") if stuck else not warned


@examples(20)
@given(clusters(), st.sets(st.integers(2, 7), min_size=1, max_size=3), st.sampled_from(list(PlaceBy)))
def test_operations_give_a_cordoned_broker_nothing(cluster: FakeCluster, marked: set[int], placement: PlaceBy) -> None:
    snapshot = replace(seen(cluster), cordoned={b: "disk swap" for b in marked if b in cluster.brokers})
    try:
        decided = decide_operation(snapshot, OperationGoal(brokers=(1,), placement=placement, min_rack_ids=1, words={}))
    except (InfeasibleError, UsageError):
        return
    if decided is not None:
        assert not marked.intersection(b for move in decided.whole.plan.moves for b in move.adding)


DIRS = "cordoned.log.dirs"
Step = tuple[str, bool, str]


@examples(60)
@given(
    st.sampled_from([None, "", "/data/2/0", "*"]),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(["cordon", "uncordon", "die", "return"]), st.booleans()), max_size=8),
)
def test_uncordon_restores_exactly_what_cordon_found(found: str | None, is_new: bool, steps: list[Any]) -> None:
    """A broker dies and returns, commands are cut after each of their writes; at the end all is as it was."""
    cluster, store, clock = FakeCluster({1: "a", 2: "b"}), FakeControlStore(), FakeClock()
    if is_new:
        cluster.static_settings[DIRS] = ""
        cluster.brokers[2].configs |= {} if found is None else {DIRS: found}
    before = dict(cluster.brokers[2].configs)

    def run(verb: str, is_cut: bool) -> None:
        writer = CordonWriter(cluster, clock, SilentReporter(), store, "c")
        (facts,) = writer.facts([2], marked=True).values()
        step = decide_cordon(facts, "swap", "me", AT) if verb == "cordon" else decide_uncordon(facts)
        if is_cut and verb == "cordon":
            step = replace(step, change=None)  # only the mark is written
        if is_cut and verb == "uncordon":
            step = replace(step, writes_mark=False)  # only the setting is restored
        assert (writer.cordon if verb == "cordon" else writer.uncordon)([step]) == {}

    for verb, is_cut in steps:
        if verb == "die":
            cluster.kill(2)
        elif verb == "return":
            cluster.revive(2)
        else:
            run(verb, is_cut)
        marks = read_cordons(store, "c")
        is_shut = cluster.brokers[2].configs.get(DIRS) == "*" and found != "*"
        assert not is_shut or 2 in marks, "what is to be restored is always on record"
    cluster.revive(2)
    run("cordon", False)
    assert read_cordons(store, "c")[2][0].reason == "swap"
    assert not is_new or cluster.brokers[2].configs[DIRS] == "*"
    run("uncordon", False)
    assert cluster.brokers[2].configs == before
    assert read_cordons(store, "c") == {}
