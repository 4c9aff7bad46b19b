"""Pins and budgets of the plain requests on random clusters: nothing pinned moves, no run overspends, runs add up."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkakit.core.documents import encode_plan, encode_snapshot
from kafkakit.core.errors import UsageError
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.core.selection import BrokerList
from kafkakit.topicmappr.decide.assembly import PlannedChange
from kafkakit.topicmappr.decide.drain import DrainRequest, decide_drain
from kafkakit.topicmappr.decide.fix_racks import FixRacksRequest, decide_fix_racks
from kafkakit.topicmappr.decide.leaders import LeadersRequest, decide_leaders
from kafkakit.topicmappr.decide.rebuild import ReplicationRequest, decide_set_replication
from kafkakit.topicmappr.decide.requests import NO_BUDGET, Budget
from tests.clusters.strategies import snapshots
from tests.invariants.plan import verify_plan

RUNS = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
Pins = tuple[str, ...]
Decide = Callable[[ClusterSnapshot, Pins, Budget], PlannedChange]


def words(command: str, pins: Pins, budget: Budget, **more: str) -> Mapping[str, str]:
    found = {"command": f"topicmappr {command}", **{k.replace("_", "-"): v for k, v in more.items()}}
    found |= {"pin": ",".join(pins)} if pins else {}
    found |= {"max-moves": str(budget.max_moves)} if budget.max_moves is not None else {}
    return found | ({"max-moved-bytes": f"{budget.max_moved_bytes}B"} if budget.max_moved_bytes is not None else {})


@st.composite
def verbs(draw: st.DrawFn, snapshot: ClusterSnapshot) -> tuple[str, Decide]:
    """One of the four, as a function of snapshot, pins and budget."""
    ids = [b.id for b in snapshot.brokers]
    verb = draw(st.sampled_from(["drain", "fix-racks", "set-replication", "leaders"]))
    leaving = tuple(draw(st.lists(st.sampled_from(ids), min_size=1, max_size=3, unique=True)))
    minimum, factor, spread = draw(st.integers(0, 3)), draw(st.integers(1, 5)), draw(st.booleans())

    def drain(now: ClusterSnapshot, pins: Pins, budget: Budget) -> PlannedChange:
        listed = ",".join(map(str, leaving))
        said = words("drain", pins, budget, brokers=listed, min_rack_ids=str(minimum))
        return decide_drain(
            now,
            DrainRequest(
                leaving=BrokerList(ids=leaving), topics=(".*",), min_rack_ids=minimum, pinned=pins, budget=budget,
                words=said,
            ),
        )  # fmt: skip

    def fix_racks(now: ClusterSnapshot, pins: Pins, budget: Budget) -> PlannedChange:
        more = {"spread": "true"} if spread else {"min_rack_ids": str(minimum)}
        said = words("fix-racks", pins, budget, **more)
        return decide_fix_racks(
            now,
            FixRacksRequest(
                topics=(".*",), min_rack_ids=0 if spread else minimum, spread=spread, pinned=pins, budget=budget,
                words=said,
            ),
        )  # fmt: skip

    def set_replication(now: ClusterSnapshot, pins: Pins, budget: Budget) -> PlannedChange:
        said = words("set-replication", pins, budget, replication=str(factor))
        return decide_set_replication(
            now, ReplicationRequest(replication=factor, topics=(".*",), pinned=pins, budget=budget, words=said)
        )

    def leaders(now: ClusterSnapshot, pins: Pins, budget: Budget) -> PlannedChange:
        away = BrokerList(ids=leaving[:1]) if spread else None
        budget = replace(budget, max_moved_bytes=None)
        said = words("leaders", pins, budget, **({"leader_evac_brokers": str(leaving[0])} if away else {}))
        return decide_leaders(
            now, LeadersRequest(topics=(".*",), evacuated=away, pinned=pins, budget=budget, words=said)
        )

    return verb, {"drain": drain, "fix-racks": fix_racks, "set-replication": set_replication, "leaders": leaders}[verb]


def check(change: PlannedChange, snapshot: ClusterSnapshot) -> None:
    plan = json.loads(encode_plan(change.plan))
    verify_plan(plan, json.loads(encode_snapshot(snapshot)), allow_unplaced=bool(change.left_alone))


def carried_out(snapshot: ClusterSnapshot, change: PlannedChange) -> ClusterSnapshot:
    """The cluster after the plan, its copies in sync."""
    after = {m.key: m for m in change.plan.moves}
    alive = {b.id for b in snapshot.brokers if b.is_alive}
    topics = []
    for topic in snapshot.topics:
        rows = {p.partition: p for p in topic.partitions}
        for n, p in rows.items():
            move = after.get(TopicPartition(topic.name, n))
            if move is not None:
                synced = {*(p.isr or ()), *move.adding} & alive
                rows[n] = replace(p, replicas=move.after, isr=tuple(b for b in move.after if b in synced))
        topics.append(replace(topic, partitions=tuple(rows.values())))
    return replace(snapshot, topics=tuple(topics))


def lists_of(snapshot: ClusterSnapshot) -> dict[tuple[str, int], tuple[int, ...]]:
    return {(t, p.partition): p.replicas for t, p in snapshot.partitions()}


def led(snapshot: ClusterSnapshot) -> list[int]:
    counts = Counter(row[0] for row in lists_of(snapshot).values())
    return [counts[b.id] for b in snapshot.brokers if b.is_alive]


@st.composite
def pins_of(draw: st.DrawFn, snapshot: ClusterSnapshot) -> Pins:
    names = [f"{t}/{n}" for t, n in lists_of(snapshot)] + [t.name for t in snapshot.topics[1:]]
    return tuple(draw(st.lists(st.sampled_from(names), max_size=3, unique=True)))


@st.composite
def budgets(draw: st.DrawFn, whole: PlannedChange, verb: str, *, least: int = 0, least_bytes: int = 0) -> Budget:
    """What is less than the whole takes, where it can be."""
    moves = whole.plan.moves
    copies = len(moves) if verb == "leaders" else sum(len(m.adding) for m in moves)
    size = sum(m.bytes_moved or 0 for m in moves)
    kind = draw(st.sampled_from(["moves", "bytes", "both"])) if verb != "leaders" else "moves"
    return Budget(
        max_moves=None if kind == "bytes" else draw(st.integers(least, max(least, copies))),
        max_moved_bytes=None if kind == "moves" else draw(st.integers(least_bytes, max(least_bytes, size))),
    )


@RUNS
@given(st.data())
def test_no_run_overspends_or_touches_what_is_pinned(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots(max_brokers=6, max_partitions=16))
    verb, decide = data.draw(verbs(snapshot))
    pins = data.draw(pins_of(snapshot))
    try:
        budget = data.draw(budgets(decide(snapshot, pins, NO_BUDGET), verb))
    except UsageError:
        return
    change = decide(snapshot, pins, budget)
    check(change, snapshot)
    plan = change.plan
    assert change.later.partitions == len(plan.rules.later if plan.rules else ())
    assert bool(change.later.partitions) == any("for later" in note for note in plan.notes)
    assert encode_plan(decide(snapshot, pins, budget).plan) == encode_plan(plan)
    before, after = lists_of(snapshot), lists_of(carried_out(snapshot, change))
    for key in before:
        if key[0] in pins or f"{key[0]}/{key[1]}" in pins:
            assert before[key] == after[key]


@RUNS
@given(st.data())
def test_runs_with_a_budget_end_where_one_without_ends(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots(max_brokers=6, max_partitions=16))
    verb, decide = data.draw(verbs(snapshot))
    pins = data.draw(pins_of(snapshot))
    try:
        whole = decide(snapshot, pins, NO_BUDGET)
    except UsageError:
        return
    dearest = max((m.bytes_moved or 0 for m in whole.plan.moves), default=0)
    most = 1 if verb == "leaders" else max((len(m.adding) for m in whole.plan.moves), default=0)
    budget = data.draw(budgets(whole, verb, least=most, least_bytes=dearest))
    now, spent, runs = snapshot, 0, 0
    while True:
        part = decide(now, pins, budget)
        check(part, now)
        spent += part.plan.certificate.objective
        now = carried_out(now, part)
        runs += 1
        if not part.later.partitions:
            break
        assert part.plan.moves, "a run does nothing although something is left"
        assert runs <= len(whole.plan.moves)
    done = carried_out(snapshot, whole)
    assert spent == whole.plan.certificate.objective
    if verb == "leaders":
        assert sorted(led(now)) == sorted(led(done))
        return
    assert {k: len(row) for k, row in lists_of(now).items()} == {k: len(row) for k, row in lists_of(done).items()}
    again = decide(now, pins, NO_BUDGET).plan
    assert not [m for m in again.moves if m.adding], "a run without a budget still finds copies to make"


@RUNS
@given(st.data())
def test_a_part_of_the_leader_changes_never_makes_counts_less_even(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots(max_brokers=6, max_partitions=12, dead=False))
    pins = data.draw(pins_of(snapshot))
    budget = Budget(max_moves=data.draw(st.integers(1, 2)))
    request = LeadersRequest(topics=(".*",), pinned=pins, budget=budget, words=words("leaders", pins, budget))
    try:
        change = decide_leaders(snapshot, request)
    except UsageError:
        return
    check(change, snapshot)
    before, after = led(snapshot), led(carried_out(snapshot, change))
    stranded = any(not p.isr for _, p in snapshot.partitions())
    assert stranded or sum(n * n for n in after) <= sum(n * n for n in before)
