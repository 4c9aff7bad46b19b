"""Draining, replacing and decommissioning on a cluster in memory, cut at every point.

The record of an operation.
"""

import json
from dataclasses import replace
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from kafkakit.broker.act.operation_files import Records
from kafkakit.broker.decide.operation import (
    OPERATION_KIND,
    BrokerOperation,
    BrokerOperationKind,
    OperationPlan,
    OperationPlanKind,
    OperationPlanState,
    Stage,
    base_name,
    decode_operation,
    encode_operation,
)
from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import (
    InfeasibleError,
    InputError,
    OperationFailedError,
    RefusedError,
    TryLaterError,
    UsageError,
)
from kafkakit.core.model import TopicPartition
from kafkakit.core.selection import BrokerList
from kafkakit.placement.problem import PlaceBy
from kafkakit.wiring import write_file
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeClock, FakeCluster
from tests.invariants.journal import verify_journal
from tests.rigs.broker import MB, Harness, make_cluster
from tests.rigs.reassign import Killed


@pytest.fixture
def bench(tmp_path: Path) -> Harness:
    return Harness(make_cluster(), tmp_path / "operations")


def held_by(bench: Harness, broker: int) -> list[tuple[str, int]]:
    return [key for key, replicas in bench.lists().items() if broker in replicas]


def test_drain_passes_leaderships_before_any_copy_leaves(bench: Harness) -> None:
    before = bench.configs()
    outcome = bench.drain(1)
    assert (outcome.verdict, outcome.ok, outcome.problems) == ("done", True, ())
    assert held_by(bench, 1) == []
    assert 1 not in bench.leaders().values()
    assert bench.configs() == before
    sent = [argument for name, argument in bench.cluster.calls if name == "reassign"]
    assert {k: sorted(v) for k, v in sent[0].items()} == {
        TopicPartition("t", 0): [1, 2, 3],
        TopicPartition("t", 3): [1, 3, 5],
    }, "who leads changes first, and the copies stay"
    first_copy = next(n for n, (name, a) in enumerate(bench.cluster.calls) if name == "reassign" and a != sent[0])
    elected = [n for n, (name, _) in enumerate(bench.cluster.calls) if name == "elect_preferred_leaders"]
    assert elected[0] < first_copy
    record = bench.records.newest(BrokerOperationKind.DRAIN, (1,))
    assert record is not None
    assert (record.stage, [leg.kind for leg in record.legs]) == (
        Stage.DONE,
        [OperationPlanKind.LEADERS, OperationPlanKind.COPIES],
    )
    assert {leg.state for leg in record.legs} == {OperationPlanState.DONE}
    assert bench.questions == ["Drain broker 1?"]
    assert outcome.undo == "kafkakit broker rejoin --restore drain-1.1"


def test_a_second_drain_has_nothing_to_do_and_asks_nothing(bench: Harness) -> None:
    bench.drain(1)
    calls, goal = list(bench.cluster.calls), list(bench.questions)
    outcome = bench.drain(1)
    assert (outcome.verdict, outcome.ok) == ("nothing to do", True)
    assert (bench.cluster.calls, bench.questions) == (calls, goal)
    bench.cluster.unregister(1)
    assert bench.drain(1).verdict == "nothing to do"
    with pytest.raises(UsageError, match="broker 9 is not in this cluster"):
        bench.drain(9)


def test_leaders_that_lead_out_of_turn_are_elected_away_first(tmp_path: Path) -> None:
    cluster = make_cluster()
    cluster.topics["t"].partitions[1].leader = 1
    bench = Harness(cluster, tmp_path)
    outcome = bench.drain(1)
    assert (outcome.verdict, outcome.leaders_passed) == ("done", 1)
    names = [(name, a) for name, a in cluster.calls if name in ("reassign", "elect_preferred_leaders")]
    out_of_turn = names.index(("elect_preferred_leaders", (TopicPartition("t", 1),)))
    moved = next(n for n, (name, a) in enumerate(names) if name == "reassign" and TopicPartition("t", 1) in a)
    assert out_of_turn < moved


@pytest.mark.parametrize(
    ("kind", "every"),
    [(BrokerOperationKind.DRAIN, 1), (BrokerOperationKind.REPLACE, 3), (BrokerOperationKind.DECOMMISSION, 7)],
)
def test_cut_anywhere_and_run_again_ends_as_if_undisturbed(
    tmp_path: Path, kind: BrokerOperationKind, every: int
) -> None:
    onto: dict[str, Any] = {"onto": 4} if kind is BrokerOperationKind.REPLACE else {}

    def fresh(name: str) -> Harness:
        return Harness(make_cluster(), tmp_path / name)

    calm = fresh("calm")
    assert calm.move(kind, 1, placement=PlaceBy.COUNT, **onto).ok
    effects = calm.crash.count
    assert effects > 40
    for cut in range(0, effects, every):
        bench = fresh(f"cut-{cut}")
        bench.crash.die_at = cut
        with pytest.raises(Killed):
            bench.move(kind, 1, placement=PlaceBy.COUNT, **onto)
        bench.clock.sleep(float(cut % 3))  # what is in flight may continue meanwhile, or not
        bench.revived()
        again = bench.move(kind, 1, placement=PlaceBy.COUNT, **onto)
        assert again.ok, (cut, again.problems)
        assert again.verdict in ("done", "nothing to do"), cut
        assert held_by(bench, 1) == [], cut
        if kind is BrokerOperationKind.REPLACE:
            assert bench.lists() == calm.lists(), cut
        assert bench.leaders() == {k: v[0] for k, v in bench.lists().items()}, cut
        assert bench.configs() == calm.configs(), cut
        record = bench.records.newest(kind, (1,), onto.get("onto"))
        assert record is not None, cut
        assert record.stage is Stage.DONE, cut
        for file in bench.journals.values():
            if file.data:
                verify_journal(file.data)


def test_dry_run_and_declined_leave_no_trace(bench: Harness) -> None:
    assert bench.drain(1, dry_run=True).verdict == "planned"
    bench.answers = [False]
    assert bench.drain(1).verdict == "declined"
    assert bench.cluster.calls == []
    assert bench.crash.count == 0
    assert not bench.folder.exists()
    assert any("ETA" in line for line in bench.reporter.said)


def test_a_dead_broker_is_drained_without_electing_anybody_first(bench: Harness) -> None:
    del bench.cluster.topics["one"]
    bench.cluster.kill(1)
    outcome = bench.drain(1)
    assert outcome.ok
    assert held_by(bench, 1) == []
    record = bench.records.newest(BrokerOperationKind.DRAIN, (1,))
    assert record is not None
    assert [leg.kind for leg in record.legs] == [OperationPlanKind.COPIES]


def test_what_has_no_live_copy_stops_the_drain_unless_the_rest_is_wanted(bench: Harness) -> None:
    bench.cluster.kill(1)
    with pytest.raises(OperationFailedError, match="one p0: no live copy in sync"):
        bench.drain(1)
    assert bench.cluster.calls == []
    outcome = bench.drain(1, ignore_warns=True)
    assert outcome.verdict == "incomplete"
    assert outcome.problems == ("1 partition still on broker 1: one-0",)
    assert held_by(bench, 1) == [("one", 0)]


def test_no_room_and_no_rack_are_infeasible_before_anything_is_done(tmp_path: Path) -> None:
    full = Harness(make_cluster(dir_bytes=45 * MB), tmp_path / "full")
    with pytest.raises(InfeasibleError, match="no plan fits") as room:
        full.drain(1)
    assert room.value.exit_code == 4
    racks = Harness(make_cluster(), tmp_path / "racks")
    with pytest.raises(InfeasibleError, match="racks"):
        racks.drain(1, receiving=BrokerList(ids=(5,)))
    racks.cluster.add_broker(6, "c")
    with pytest.raises(InfeasibleError, match="racks"):
        racks.move(BrokerOperationKind.REPLACE, 1, onto=6)
    assert full.cluster.calls == racks.cluster.calls == []
    assert racks.drain(1, receiving=BrokerList(ids=(4, 5))).ok


def test_replace_keeps_every_place_and_the_leaders(bench: Harness) -> None:
    outcome = bench.move(BrokerOperationKind.REPLACE, 1, onto=4)
    assert outcome.ok
    assert bench.lists() == {
        ("t", 0): (4, 2, 3),
        ("t", 1): (2, 3, 4),
        ("t", 2): (3, 4, 2),
        ("t", 3): (4, 3, 5),
        ("one", 0): (4,),
        ("other", 0): (2, 3),
    }
    assert bench.leaders() == {k: v[0] for k, v in bench.lists().items()}
    assert bench.questions == ["Replace broker 1 by broker 4?"]


def test_replace_refuses_a_broker_that_cannot_take_over(tmp_path: Path) -> None:
    bench = Harness(make_cluster(), tmp_path)
    with pytest.raises(UsageError, match="cannot replace itself"):
        bench.move(BrokerOperationKind.REPLACE, 1, onto=1)
    with pytest.raises(UsageError, match="--with: broker 9 is not in this cluster"):
        bench.move(BrokerOperationKind.REPLACE, 1, onto=9)
    with pytest.raises(InfeasibleError, match="has a copy of t-0, t-1, t-2 already"):
        bench.move(BrokerOperationKind.REPLACE, 1, onto=2)
    bench.cluster.kill(4)
    with pytest.raises(UsageError, match="--with: broker 4 is not alive"):
        bench.move(BrokerOperationKind.REPLACE, 1, onto=4)
    assert bench.cluster.calls == []


def test_replace_a_dead_and_unregistered_broker(bench: Harness) -> None:
    del bench.cluster.topics["one"]
    bench.cluster.unregister(1)
    assert bench.move(BrokerOperationKind.REPLACE, 1, onto=4).ok
    assert held_by(bench, 1) == []


def test_unknown_sizes_place_by_counts_unless_storage_was_asked_for(bench: Harness) -> None:
    bench.cluster.hang(5)
    with pytest.raises(TryLaterError):
        bench.drain(1, placement=PlaceBy.STORAGE, dry_run=True)
    assert bench.drain(1, dry_run=True, receiving=BrokerList(ids=(4, 5)), retry_limit_s=1.0).verdict == "planned"
    assert any("placed by counts" in line for line in bench.reporter.warned)


def test_other_moves_on_the_same_topics_are_waited_for_by_exit_75(tmp_path: Path) -> None:
    bench = Harness(make_cluster(line_rate=1.0), tmp_path)
    bench.cluster.reassign({TopicPartition("t", 3): (1, 3, 2)})
    with pytest.raises(TryLaterError, match="t-3 are being reassigned"):
        bench.drain(1)


def test_replicas_that_come_meanwhile_are_told_and_the_same_command_goes_on(bench: Harness) -> None:
    def create(name: str, argument: object) -> None:
        if name == "elect_preferred_leaders" and "late" not in bench.cluster.topics:
            bench.cluster.add_topic("late", {0: (1, 2)}, size_bytes=MB)

    bench.cluster.before_call.append(create)
    outcome = bench.drain(1)
    assert outcome.verdict == "incomplete"
    assert outcome.problems == ("1 partition still on broker 1: late-0",)
    assert outcome.next_commands == ("kafkakit broker drain",)
    again = bench.drain(1)
    assert (again.verdict, held_by(bench, 1)) == ("done", [])
    record = bench.records.newest(BrokerOperationKind.DRAIN, (1,))
    assert record is not None
    assert (record.number, len(record.legs), record.stage) == (1, 4, Stage.DONE)


def test_metadata_that_lags_behind_is_looked_at_again(bench: Harness) -> None:
    def create(name: str, argument: object) -> None:
        if name == "elect_preferred_leaders" and "late" not in bench.cluster.topics:
            bench.cluster.add_topic("late", {0: (1, 2)}, size_bytes=MB)

    def delete(_: float) -> None:
        record = bench.records.newest(BrokerOperationKind.DRAIN, (1,))
        if record is not None and record.stage is Stage.VERIFYING:
            bench.cluster.topics.pop("late", None)

    bench.cluster.before_call.append(create)
    bench.clock.on_sleep.append(delete)
    assert bench.drain(1).verdict == "done"


def test_what_is_not_begun_is_planned_anew_after_a_cut(bench: Harness) -> None:
    bench.crash.die_at = next(
        n for n in range(100) if _dies_with_leaders_done(Harness(make_cluster(), bench.folder / str(n)), n)
    )
    with pytest.raises(Killed):
        bench.drain(1)
    bench.revived()
    bench.cluster.add_topic("late", {0: (1, 2)}, size_bytes=MB)
    assert bench.drain(1).ok
    assert held_by(bench, 1) == []
    record = bench.records.newest(BrokerOperationKind.DRAIN, (1,))
    assert record is not None
    states = [leg.state for leg in record.legs]
    assert states == [
        OperationPlanState.DONE,
        OperationPlanState.DROPPED,
        OperationPlanState.DONE,
        OperationPlanState.DONE,
    ]
    assert bench.rejoin(1, record=record).ok, "what was never begun is not taken back"
    assert bench.lists() == {**first_lists(), ("late", 0): (1, 2)}


def first_lists() -> dict[tuple[str, int], tuple[int, ...]]:
    cluster = make_cluster()
    return {(t, n): tuple(p.replicas) for t, topic in cluster.topics.items() for n, p in topic.partitions.items()}


def _dies_with_leaders_done(bench: Harness, cut: int) -> bool:
    """True when a cut there falls between the first plan and the second."""
    bench.crash.die_at = cut
    try:
        bench.drain(1)
    except Killed:
        record = bench.records.newest(BrokerOperationKind.DRAIN, (1,))
        return (
            record is not None and record.legs[0].state is OperationPlanState.DONE and not bench.begun(record.legs[1])
        )
    return False


def test_replan_cancels_what_waits_for_a_dead_broker(tmp_path: Path) -> None:
    bench = Harness(make_cluster(line_rate=2 * MB), tmp_path)
    bench.drain(1, receiving=BrokerList(ids=(4, 5)), dry_run=True)

    def die(_: float) -> None:
        if bench.clock.elapsed > 6 and bench.cluster.brokers[4].alive:
            bench.cluster.kill(4)

    bench.clock.on_sleep.append(die)
    outcome = bench.drain(1)
    assert outcome.verdict == "incomplete"
    assert "broker 4 is not alive" in outcome.problems[0]
    with pytest.raises(RefusedError, match="broker 4, which is not alive"):
        bench.drain(1)
    again = bench.drain(1, replan=True, min_rack_ids=2)
    assert again.verdict == "done"
    assert again.problems == (
        "the replication rate on broker 4, which is not alive, can only be removed once it is back",
    )
    assert again.next_commands == ("kafkakit reassign cleanup --yes",)
    assert held_by(bench, 1) == []
    assert all(4 not in replicas for replicas in bench.lists().values())
    assert {name for name, values in bench.configs().items() if values} == {"broker 4"}


def test_decommission_says_what_is_left_to_do(bench: Harness) -> None:
    bench.cluster.static_settings["process.roles"] = "broker"
    outcome = bench.move(BrokerOperationKind.DECOMMISSION, 1)
    assert outcome.verdict == "done"
    assert outcome.steps[-1] == "bin/kafka-cluster.sh unregister --bootstrap-server host:9092 --id 1"
    assert outcome.steps[0].startswith("Stop the process of broker 1")


def test_a_controller_is_empty_but_not_safe_to_stop_until_it_is_none(bench: Harness) -> None:
    bench.cluster.brokers[1].configs["process.roles"] = "broker,controller"
    outcome = bench.move(BrokerOperationKind.DECOMMISSION, 1)
    assert (outcome.verdict, outcome.ok) == ("not safe to stop", False)
    assert "is also a controller" in outcome.problems[0]
    assert any("is also a controller" in line for line in bench.reporter.warned), "said before anything is copied"
    assert any("kafka-metadata-quorum.sh" in step for step in outcome.steps)
    calls = len(bench.cluster.calls)
    bench.cluster.brokers[1].configs["process.roles"] = "broker"
    assert bench.move(BrokerOperationKind.DECOMMISSION, 1).verdict == "done"
    assert len(bench.cluster.calls) == calls


def test_a_stopped_broker_is_unregistered_in_the_end(bench: Harness) -> None:
    bench.cluster.voters = frozenset({90})
    first = bench.move(BrokerOperationKind.DECOMMISSION, 1)
    assert (first.verdict, first.unregistered) == ("done", ())
    bench.cluster.kill(1)
    assert bench.move(BrokerOperationKind.DECOMMISSION, 1, dry_run=True).unregistered == ()
    bench.answers = [False]
    assert bench.move(BrokerOperationKind.DECOMMISSION, 1).verdict == "declined"
    assert 1 in bench.cluster.brokers
    second = bench.move(BrokerOperationKind.DECOMMISSION, 1)
    assert (second.verdict, second.unregistered, second.steps) == ("done", (1,), ())
    assert 1 not in bench.cluster.brokers
    assert bench.questions[-1] == "Unregister broker 1, which is empty and stopped?"
    assert bench.records.emptied() == {}
    calls = len(bench.cluster.calls)
    assert bench.move(BrokerOperationKind.DECOMMISSION, 1).verdict == "nothing to do"
    assert len(bench.cluster.calls) == calls


def test_a_broker_that_may_have_a_vote_or_is_refused_stays_on_the_list(bench: Harness) -> None:
    assert bench.drain(1).verdict == "done"
    bench.cluster.kill(1)
    assert bench.move(BrokerOperationKind.DECOMMISSION, 1).unregistered == (), (
        "no quorum tells, so its role is not known"
    )
    bench.cluster.voters = frozenset({1})
    assert bench.move(BrokerOperationKind.DECOMMISSION, 1).verdict == "not safe to stop"
    bench.cluster.voters = frozenset({90})
    bench.cluster.fail_item("unregister_broker", 1, ItemError(name="NotThisTime"))
    outcome = bench.move(BrokerOperationKind.DECOMMISSION, 1)
    assert (outcome.verdict, outcome.problems) == ("incomplete", ("broker 1 is not unregistered: NotThisTime",))


@pytest.mark.parametrize("kind", [BrokerOperationKind.DRAIN, BrokerOperationKind.DECOMMISSION])
def test_an_operation_is_remembered_from_its_first_effect_until_the_broker_rejoins(
    bench: Harness, kind: BrokerOperationKind
) -> None:
    bench.crash.die_at = 6
    with pytest.raises(Killed):
        bench.move(kind, 1)
    bench.revived()
    assert set(bench.records.emptied()) == {1}
    bench.move(BrokerOperationKind.DRAIN, 2, min_rack_ids=2)
    assert set(bench.records.emptied()) == {1, 2}
    assert any("broker 1 is excluded from plans" in line for line in bench.reporter.warned)
    bench.rejoin(1)
    assert set(bench.records.emptied()) == {2}
    bench.clock.sleep(1)
    bench.move(kind, 1)
    assert 1 in bench.records.emptied(), "it goes on after all"
    bench.rejoin(1, record=bench.records.last_on((1,)))
    bench.rejoin(2, record=bench.records.last_on((2,)))
    assert bench.records.emptied() == {}


def test_an_empty_broker_is_remembered_too_but_not_by_a_dry_run(bench: Harness) -> None:
    bench.cluster.add_broker(9, "a")
    bench.drain(9, dry_run=True)
    assert bench.records.emptied() == {}
    assert bench.drain(9).verdict == "nothing to do"
    assert set(bench.records.emptied()) == {9}
    bench.rejoin(9, dry_run=True)
    assert set(bench.records.emptied()) == {9}
    assert bench.rejoin(9).verdict == "nothing to do"
    assert bench.records.emptied() == {}
    bench.drain(9)
    assert set(bench.records.emptied()) == {9}


def test_another_unfinished_operation_on_the_broker_is_named(bench: Harness) -> None:
    bench.crash.die_at = 20
    with pytest.raises(Killed):
        bench.drain(1)
    bench.revived()
    bench.clock.sleep(60)
    bench.move(BrokerOperationKind.DECOMMISSION, 1)
    assert any("another operation on these brokers is not finished" in line for line in bench.reporter.warned)


def test_an_empty_cluster_has_nothing_to_drain(tmp_path: Path) -> None:
    assert Harness(FakeCluster({1: None, 2: None}), tmp_path).drain(1).verdict == "nothing to do"


AT = datetime(2026, 1, 1, tzinfo=UTC)
RECORD = BrokerOperation(
    kind=BrokerOperationKind.DRAIN,
    cluster_id="fake-cluster",
    brokers=(1, 2),
    number=3,
    created_at=AT,
    updated_at=AT,
    stage=Stage.MOVING,
    legs=(
        OperationPlan(
            kind=OperationPlanKind.LEADERS, plan="a.plan.json", identity="sha256:0", state=OperationPlanState.DONE
        ),
        OperationPlan(kind=OperationPlanKind.COPIES, plan="b.plan.json", identity="sha256:1"),
    ),
    rejoined=(2,),
    words={"command": "broker drain"},
)


def schema() -> dict[str, Any]:
    text = (
        resources.files("kafkakit")
        .joinpath("core", "schemas", "broker-operation.schema.json")
        .read_text(encoding="utf-8")
    )
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def test_a_record_survives_its_file_and_fits_its_schema() -> None:
    assert decode_operation(encode_operation(RECORD), "r") == RECORD
    Draft202012Validator.check_schema(schema())
    Draft202012Validator(schema()).validate(json.loads(encode_operation(RECORD)))
    types, written = msgspec.json.schema(BrokerOperation)["$defs"], schema()
    for name, shape in types.items():
        mine = written if name == "BrokerOperation" else written["$defs"][name.removeprefix("BrokerOperation")]
        assert set(mine.get("properties", {})) - {"kafkakit"} == set(shape.get("properties", {})), name
        assert set(mine.get("required", [])) - {"kafkakit"} == set(shape.get("required", [])), name
        assert mine.get("enum") == shape.get("enum"), name


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cluster_id": "../etc"}, "not a Kafka cluster id"),
        ({"brokers": []}, "names 0 brokers"),
        ({"brokers": list(range(101))}, "names 101 brokers"),
        ({"brokers": [1, 1]}, "not a list of distinct broker ids"),
        ({"brokers": [-1]}, "not a list of distinct broker ids"),
        ({"brokers": [2**31]}, "not a list of distinct broker ids"),
        ({"onto": 4}, "do not fit together"),
        ({"kind": "replace"}, "do not fit together"),
        ({"kind": "explode"}, "Invalid enum value"),
        ({"number": 0}, "out of range"),
        ({"legs": [{"kind": "copies", "plan": "../x", "identity": "i"}]}, "not the name of a plan file"),
        ({"legs": [{"kind": "copies", "plan": ".hidden", "identity": "i"}]}, "not the name of a plan file"),
        ({"legs": [{"kind": "copies", "plan": "p" * 200, "identity": "i"}]}, "not the name of a plan file"),
        ({"kafkakit": {"kind": "plan", "schema": 1}}, "expected 'broker-operation'"),
        ({"kafkakit": {"kind": OPERATION_KIND, "schema": 9}}, "has schema 9"),
    ],
)
def test_records_that_make_no_sense_are_refused(change: dict[str, Any], said: str) -> None:
    body = json.loads(encode_operation(RECORD)) | change
    with pytest.raises(InputError, match="r: ") as refused:
        decode_operation(json.dumps(body).encode(), "r")
    assert said in refused.value.message


def test_names_tell_operations_apart_and_stay_short() -> None:
    assert base_name(BrokerOperationKind.DRAIN, (1, 2), None) == "drain-1+2"
    assert base_name(BrokerOperationKind.REPLACE, (1,), 9) == "replace-1+by+9"
    assert RECORD.name == "drain-1+2.3"
    many = base_name(BrokerOperationKind.DRAIN, tuple(range(100)), None)
    assert len(many) < 60
    assert many != base_name(BrokerOperationKind.DRAIN, tuple(range(1, 101)), None)


def test_places_of_plans_follow_their_states() -> None:
    assert (RECORD.next_leg, RECORD.last_to_undo) == (1, 1)
    over = RECORD.with_leg(1, OperationPlanState.UNDONE)
    assert (over.next_leg, over.last_to_undo) == (None, 0)
    assert RECORD.without_open().legs[1].state is OperationPlanState.DROPPED
    assert RECORD.without_open().legs[0].state is OperationPlanState.DONE


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "operations", write_file, FakeClock())


def test_plans_are_there_before_the_record_names_them(records: Records, tmp_path: Path) -> None:
    cluster = FakeCluster({1: "a", 2: "b", 3: "c"})
    cluster.add_topic("t", {0: (1, 2)})
    plan = make_plan(cluster, {("t", 0): (3, 2)})
    written: list[str] = []

    def note(path: Path, data: bytes, mode: int) -> None:
        written.append(path.name)
        write_file(path, data, mode)

    noting = Records(tmp_path / "operations", note, FakeClock())
    assert noting.newest(BrokerOperationKind.DRAIN, (1,)) is None
    begun = noting.begin(BrokerOperationKind.DRAIN, "fake-cluster", (1,), None, {"command": "broker drain"})
    assert written == []
    saved = noting.add(begun, [(OperationPlanKind.COPIES, plan)])
    assert written == ["drain-1.1.1-copies.plan.json", "drain-1.1.json"]
    assert (tmp_path / "operations" / "drain-1.1.json").stat().st_mode & 0o777 == 0o600
    assert records.newest(BrokerOperationKind.DRAIN, (1,)) == saved
    assert records.newest(BrokerOperationKind.DRAIN, (1, 2)) is None
    assert records.newest(BrokerOperationKind.DECOMMISSION, (1,)) is None
    for number in range(2, 12):
        begun = records.begin(BrokerOperationKind.DRAIN, "fake-cluster", (1,), None, {})
        assert records.save(begun).number == number
    newest = records.newest(BrokerOperationKind.DRAIN, (1,))
    assert newest is not None
    assert newest.number == 11


def test_others_that_are_open_are_found_and_damaged_ones_passed_over(records: Records, tmp_path: Path) -> None:
    mine = records.save(replace(RECORD, brokers=(1,), number=1))
    other = records.save(replace(RECORD, kind=BrokerOperationKind.DECOMMISSION))
    records.save(replace(RECORD, brokers=(7,)))
    records.save(replace(RECORD, number=9, stage=Stage.DONE))
    (tmp_path / "operations" / "drain-8.1.json").write_bytes(b"{")
    assert records.others_open(mine, (1,)) == (records.path_of(other),)


def test_the_last_operation_is_the_one_that_was_changed_last_even_if_taken_back(tmp_path: Path) -> None:
    clock = FakeClock()
    records = Records(tmp_path, write_file, clock)
    for kind, number, stage in (
        (BrokerOperationKind.DRAIN, 1, Stage.DONE),
        (BrokerOperationKind.DECOMMISSION, 1, Stage.DONE),
        (BrokerOperationKind.DRAIN, 2, Stage.UNDONE),
    ):
        clock.advance(1)
        last = records.save(replace(RECORD, kind=kind, number=number, stage=stage))
    clock.advance(1)
    records.save(replace(RECORD, brokers=(1,)))
    assert records.last_on((2, 1)) == last
    clock.advance(1)
    touched = records.save(replace(RECORD, kind=BrokerOperationKind.DECOMMISSION, number=1))
    assert records.last_on((1, 2)) == touched
    with pytest.raises(UsageError, match="no operation on broker 2 is recorded on this host"):
        records.last_on((2,))


def test_a_missing_or_huge_record_is_an_input_error(records: Records, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        records.read(tmp_path / "nothing.json")
    huge = tmp_path / "huge.json"
    with huge.open("wb") as file:
        file.truncate((1 << 20) + 1)
    with pytest.raises(InputError, match="is not a record"):
        records.read(huge)
    with pytest.raises(InputError):
        records.read(tmp_path)
