"""Explanations of partitions: each kind of reason, from plans made by hand."""

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from kafkakit.core.model import Broker, BrokerState, ClusterSnapshot, PartitionMap, TopicPartition
from kafkakit.core.plan import (
    BrokerLimit,
    BrokerLoad,
    Certificate,
    DirMove,
    Move,
    PlacementRules,
    PlacementStats,
    Plan,
    PlanBroker,
    Proof,
    ProofKind,
    ScopeEntry,
    SolverStatus,
)
from kafkakit.core.text import plain_value
from kafkakit.report.report import text_of
from kafkakit.topicmappr.decide.explain import PartitionExplanation, explain
from kafkakit.topicmappr.report.judgement import explanation_data, explanation_lines
from tests.clusters.strategies import TAKEN_AT

RACKS: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: None}
KEY = TopicPartition("t", 0)


def stats(counts: Mapping[int, int], size: int = 10) -> PlacementStats:
    return PlacementStats(
        brokers=tuple(
            BrokerLoad(broker=b, rack=RACKS[b], replicas=n, leaders=n // 2, bytes=n * size)
            for b, n in sorted(counts.items())
        ),
        replicas_min=0,
        replicas_max=9,
        leaders_min=0,
        leaders_max=4,
    )


def plan_of(
    old: tuple[int, ...],
    new: tuple[int, ...],
    *,
    request: Mapping[str, str] | None = None,
    targets: tuple[int, ...] = (1, 2, 3, 4, 5, 6),
    rules: PlacementRules | None = None,
    proof: Proof | None = None,
    before: Mapping[int, int] | None = None,
    after: Mapping[int, int] | None = None,
    warnings: tuple[str, ...] = (),
) -> Plan:
    even = dict.fromkeys(RACKS, 5)
    move = Move(topic="t", partition=0, before=old, after=new, size_bytes=10, bytes_moved=10)
    return Plan(
        cluster_id="c1",
        created_at=TAKEN_AT,
        snapshot_taken_at=TAKEN_AT,
        snapshot_source="test",
        fingerprint="sha256:0",
        request=request or {"command": "topicmappr rebuild"},
        certificate=Certificate(
            unit="bytes",
            objective=1,
            lower_bound=1,
            gap=0.0,
            status=SolverStatus.OPTIMAL,
            argument="by hand",
            proof=proof,
        ),
        before=stats(before or even),
        after=stats(after or even),
        brokers=tuple(PlanBroker(id=b, rack=RACKS[b]) for b in targets),
        scope=(ScopeEntry(topic="t", partition=0, replicas=old),),
        moves=(move,) if new != old else (),
        reassignment=PartitionMap(),
        rollback=PartitionMap(),
        rules=rules,
        warnings=warnings,
    )


def bytes_proof(*limits: BrokerLimit, slides: bool = False) -> Proof:
    return Proof(kind=ProofKind.PRICES, load="bytes", limits=limits, slides=slides)


def kinds(found: PartitionExplanation) -> dict[int, str]:
    return {r.broker: r.kind for r in (*found.leaving, *found.coming, *found.others)}


def test_a_broker_that_is_no_target_gives_its_copy_away() -> None:
    found = explain(plan_of((1, 3), (2, 3), targets=(2, 3, 4, 5)), KEY)
    assert kinds(found) == {1: "no-target", 2: "comes", 4: "same-rack", 5: "equally-good"}
    assert "same rack (b) as 3" in text_of(explanation_lines(found))
    assert found.outcome == "moved"
    assert any("leadership passes from 1, whose copy leaves, to 2" in line for line in found.whole)


def test_a_snapshot_tells_dead_brokers_from_unlisted_ones_and_changed_lists() -> None:
    plan = plan_of((1, 3), (2, 3), targets=(2, 3, 4, 5))

    def seen(state: BrokerState) -> ClusterSnapshot:
        brokers = tuple(Broker(id=b, rack=r, state=state if b == 1 else BrokerState.ALIVE) for b, r in RACKS.items())
        return ClusterSnapshot(cluster_id="c1", taken_at=TAKEN_AT, source="s", brokers=brokers, topics=())

    assert "(not alive)" in explain(plan, KEY, seen(BrokerState.MISSING)).leaving[0].words
    assert "(alive, but not listed)" in explain(plan, KEY, seen(BrokerState.ALIVE)).leaving[0].words
    assert "no such partition; the plan is out of date" in text_of(
        explanation_lines(explain(plan, KEY, seen(BrokerState.ALIVE)))
    )


def test_a_crowded_rack_is_named() -> None:
    found = explain(plan_of((1, 2, 3), (1, 5, 3)), KEY)
    assert kinds(found)[2] == "rack-rule"
    assert "its rack a also held 1" in found.leaving[0].words
    assert {b: kind for b, kind in kinds(found).items() if b in (4, 6)} == {4: "same-rack", 6: "equally-good"}


def test_repeats_that_the_rule_allows_are_no_reason() -> None:
    rules = PlacementRules(min_rack_ids=2, receivers=(1, 2, 3, 4, 5, 6))
    found = explain(plan_of((1, 2, 3), (1, 2, 5), rules=rules), KEY)
    assert kinds(found)[3] == "balance"
    assert kinds(found)[4] == "equally-good", "racks a, a, b are valid with two racks"


def test_a_smaller_factor_is_the_reason() -> None:
    found = explain(plan_of((1, 3, 5), (1, 3)), KEY)
    assert kinds(found) == {5: "fewer-replicas", 2: "no-place-open", 4: "no-place-open", 6: "no-place-open"}


def test_ceilings_and_floors_are_compared_with_what_the_brokers_hold() -> None:
    proof = bytes_proof(
        BrokerLimit(broker=1, fixed=7, ceiling=50),
        BrokerLimit(broker=4, fixed=45, ceiling=100),
        BrokerLimit(broker=5, floor=70),
    )
    plan = plan_of((1, 3), (5, 3), proof=proof, before={**dict.fromkeys(RACKS, 5)})
    found = explain(plan, KEY)
    assert kinds(found)[1] == "over-ceiling"
    assert "it held 57 B, 7 B above its ceiling" in found.leaving[0].words
    assert "20 B below its floor" in found.coming[0].words
    assert kinds(found)[2] == "needed-elsewhere", "5 would fall below its floor"
    assert kinds(found)[4] == "same-rack"
    without_rack = explain(replace(plan, moves=(replace(plan.moves[0], after=(5, 2)),)), KEY)
    assert kinds(without_rack)[4] == "over-ceiling"
    assert "would pass its ceiling: 95 B and this copy, at most 100 B" in text_of(explanation_lines(without_rack))


def test_limits_that_slide_are_not_held_against_a_single_broker() -> None:
    found = explain(plan_of((1, 3), (5, 3), proof=bytes_proof(BrokerLimit(broker=1, ceiling=1), slides=True)), KEY)
    assert kinds(found)[1] == "balance"


def test_counts_decide_between_equals() -> None:
    found = explain(plan_of((3, 1), (3, 5), targets=(2, 3, 5, 6), after={2: 7, 3: 5, 5: 5, 6: 4}), KEY)
    assert (kinds(found)[2], kinds(found)[6]) == ("less-even", "equally-good")


def test_rules_keep_brokers_out_and_partitions_in() -> None:
    rules = PlacementRules(receivers=(5,), pinned=(KEY,))
    assert kinds(explain(plan_of((1, 3), (1, 3), rules=rules), KEY)) == dict.fromkeys((2, 4, 5, 6), "pinned")
    assert kinds(explain(plan_of((1, 3), (5, 3), rules=PlacementRules(receivers=(5,))), KEY))[6] == "no-receiver"
    local = PlacementRules(receivers=(1, 2, 3, 4, 5, 6), locality_scoped=True)
    found = kinds(explain(plan_of((1, 3), (2, 3), rules=local), KEY))
    assert (found[5], found[6]) == ("other-rack", "other-rack")


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (plan_of((1, 3), (1, 3)), "the plan needs no copy of it elsewhere"),
        (plan_of((1, 2), (1, 2)), "although it breaks the rack rule"),
        (plan_of((1, 3), (1, 3), targets=(3, 5)), "although 1 are not among the plan's brokers"),
        (plan_of((1, 3), (3, 1)), "only the order of the list changes"),
        (plan_of((1, 3), (1, 3), rules=PlacementRules(smallest_bytes=1024)), "partitions below 1 KiB keep"),
    ],
)
def test_a_partition_that_copies_nothing_is_explained_too(plan: Plan, words: str) -> None:
    assert words in text_of(explanation_lines(explain(plan, KEY)))


def test_warnings_that_name_the_partition_are_quoted() -> None:
    lines = ("t p0: no live copy in sync", "t p01: another one", "t-0, t-9: racks", "t-00: not this")
    assert explain(plan_of((1, 3), (1, 3), warnings=lines), KEY).warnings == (lines[0], lines[2])


def test_data_is_plain_json() -> None:
    data = plain_value(explanation_data(explain(plan_of((1, 3), (5, 3)), KEY)))
    assert json.loads(json.dumps(data))["coming"][0]["broker"] == 5


def test_terminal_controls_in_a_plan_file_are_not_printed() -> None:
    plan = plan_of((1, 3), (1, 3), warnings=("t p0: \x1b[2Jgone",))
    text = text_of(explanation_lines(explain(plan, KEY)))
    assert "\x1b" not in text
    assert "\\x1b[2Jgone" in text


def test_copies_that_change_log_dirs_are_told() -> None:
    inside = DirMove(topic="t", partition=0, broker=3, source_dir="/d0", target_dir="/d1")
    plan = replace(plan_of((1, 3), (1, 3)), dir_moves=(inside, replace(inside, partition=1, target_dir="/d2")))
    told = text_of(explanation_lines(explain(plan, KEY)))
    assert "on broker 3 its copy changes its log dir, from /d0 to /d1" in told
    assert "/d2" not in told
