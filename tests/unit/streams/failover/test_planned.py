"""Moves, returns and other numbers of partitions by the same machine, the order of reading, and approvals."""

from typing import Any

import pytest

from kafkakit.core.errors import RefusedError, UsageError
from kafkakit.core.journal_lines import read_approval
from kafkakit.core.model import TopicPartition
from kafkakit.streams.client.decide.reading import reading_plan
from kafkakit.streams.failover.act.operations import aimed
from kafkakit.streams.failover.decide.history import EndKind
from kafkakit.streams.failover.decide.operation import FailoverRequest, OperationKind, ReadOrder, Step, left_cluster
from kafkakit.streams.failover.decide.plan import Level
from tests.rigs.failover import STREAM, FailoverScene

OLD = "orders.live.1"
NEW = "orders.live.2"


@pytest.fixture
def scene() -> FailoverScene:
    scene = FailoverScene()
    scene.write(OLD, 10)
    scene.write(OLD, 5, partition=1)
    scene.producer()
    scene.consumer("billing")
    scene.readers.append("billing")
    scene.read_all("billing")
    return scene


def partitions(count: int, **more: Any) -> dict[str, Any]:
    return {"to": "p", "kind": OperationKind.REPARTITION, "lanes": ("live",), "partitions": count, **more}


def returning(scene: FailoverScene) -> FailoverRequest:
    return aimed(scene.parts(), scene.request(to="", kind=OperationKind.BACK))


def test_a_lane_gets_other_partitions_on_its_own_cluster(scene: FailoverScene) -> None:
    end = scene.run(**partitions(4))
    assert (end.kind, end.step) == (EndKind.DONE, Step.RETIRED)
    (segment,) = scene.route.lanes[0].segments
    assert (segment.cluster_id, segment.topic, segment.partitions) == ("p-id", NEW, 4)
    assert "-repartition-" in end.record.operation.id
    committed = scene.p.groups.committed("billing")
    assert {key.partition for key in committed if key.topic == NEW} == {0, 1, 2, 3}


def test_the_order_of_keys_is_said_to_be_lost_or_kept(scene: FailoverScene) -> None:
    def verdict(check: str, order: ReadOrder) -> Level:
        plan = scene.planner().plan(scene.request(**partitions(4, order=order)))
        return next(each.level for each in plan.verdicts if each.check == check)

    assert verdict("partitions", ReadOrder.RELAXED) is Level.WARNING
    assert verdict("partitions", ReadOrder.STRICT) is Level.OK
    assert verdict("order", ReadOrder.STRICT) is Level.OK


def test_in_strict_order_the_new_topic_is_read_when_the_old_one_is_retired(scene: FailoverScene) -> None:
    scene.readers.clear()
    scene.write(OLD, 3)
    run = scene.begin(**partitions(4, order=ReadOrder.STRICT))
    assert run.run(Step.RETIRED, 5.0).reason == "backlog"
    scene.write(NEW, 2, partition=3)
    assert list(reading_plan(scene.route, None).sources["p-id"]) == [OLD]
    scene.readers.append("billing")
    scene.tick()
    # The seed is all that the group has there: nothing was read.
    seeded = scene.p.groups.committed("billing")[TopicPartition(NEW, 3)]
    assert getattr(seeded, "offset", None) == 0
    assert scene.resume().step is Step.RETIRED
    assert list(reading_plan(scene.route, None).sources["p-id"]) == [NEW]
    scene.tick()
    assert getattr(scene.p.groups.committed("billing")[TopicPartition(NEW, 3)], "offset", None) == 2


def test_strict_order_is_refused_where_members_know_nothing_of_it(scene: FailoverScene) -> None:
    scene.clients.clear()
    scene.p.groups.join("billing", TopicPartition(OLD, 0))
    plan = scene.planner().plan(scene.request(**partitions(4, order=ReadOrder.STRICT)))
    assert ("order", "billing") in {(each.check, each.where) for each in plan.refused}
    emergency = scene.request(is_emergency=True, order=ReadOrder.STRICT)
    assert "order" in {each.check for each in scene.planner().plan(emergency).refused}


def test_an_emergency_reads_what_was_held(scene: FailoverScene) -> None:
    scene.readers.clear()
    scene.write(OLD, 3)
    scene.run(until=Step.ROUTED, order=ReadOrder.STRICT)
    assert [each.topic for each in scene.route.lanes[0].readable] == [OLD]
    scene.q.is_away = True
    scene.run(until=Step.ROUTED, to="r", is_emergency=True)
    assert len(scene.route.lanes[0].readable) == 3


def test_a_number_of_partitions_that_is_there_and_another_cluster_are_refused(scene: FailoverScene) -> None:
    with pytest.raises(UsageError, match="2 partitions already"):
        scene.planner().plan(scene.request(**partitions(2)))
    plan = scene.planner().plan(scene.request(**{**partitions(4), "to": "q"}))
    assert "target" in {each.check for each in plan.refused}


def test_another_number_does_not_continue_an_open_operation(scene: FailoverScene) -> None:
    scene.readers.clear()
    scene.write(OLD)
    scene.begin(**partitions(4)).run(Step.ROUTED, 5.0)
    with pytest.raises(RefusedError) as refused:
        scene.begin(**partitions(8))
    assert refused.value.lines == ("--partitions is 8, and the operation was begun with 4",)


def test_a_stream_returns_to_the_cluster_that_it_left_and_stays_there(scene: FailoverScene) -> None:
    scene.run(kind=OperationKind.MOVE)
    scene.run(**{**partitions(4), "to": "q"})
    request = returning(scene)
    assert request.to == "p"
    assert scene.run(kind=OperationKind.BACK, to=request.to).step is Step.RETIRED
    assert [each.cluster for _, each in scene.route.segments()] == ["p"]
    again = returning(scene)
    assert again == request
    assert scene.planner().finished(again, scene.route) is not None


def test_a_return_that_is_open_keeps_its_target(scene: FailoverScene) -> None:
    scene.run()
    scene.readers.clear()
    scene.write("orders.live.2", 1, cluster="q")
    scene.run(kind=OperationKind.BACK, to="p", wait_s=5.0)
    assert scene.route.lanes[0].active is not None
    assert scene.route.lanes[0].active.cluster == "p"
    assert returning(scene).to == "p"


def test_a_stream_that_left_no_cluster_has_none_to_return_to(scene: FailoverScene) -> None:
    with pytest.raises(RefusedError, match="has not left a cluster"):
        returning(scene)


def test_lanes_from_different_clusters_do_not_return_together() -> None:
    scene = FailoverScene(lanes=("live", "slow"))
    scene.run(lanes=("live",), to="q")
    scene.run(lanes=("slow",), to="r")
    scene.run(to="q", lanes=("slow",))
    history = [each.change.route for each in scene.routes.history(STREAM) if each.in_effect]
    with pytest.raises(RefusedError, match="different clusters"):
        left_cluster(scene.route, history)
    assert left_cluster(scene.route, history, ["live"]) == "p"
    assert left_cluster(scene.route, history, ["slow"]) == "r"


def test_a_plan_has_the_same_hash_in_every_process_until_something_changes(scene: FailoverScene) -> None:
    def digest(**more: object) -> str:
        return scene.planner().plan(scene.request(**more)).sha256

    first = digest()
    scene.clock.sleep(10)
    assert digest() == first
    assert digest(to="r") != first
    assert digest(max_duplicates=5) != first
    scene.consumer("audit")
    assert digest() != first


def test_the_approval_is_kept_with_the_operation(scene: FailoverScene) -> None:
    planner = scene.planner()
    run = planner.begin(planner.plan(scene.request()), "alice")
    assert scene.parts().journals.open(run.record.operation.id).state is not None
    assert run.record.operation.approval == "alice"


@pytest.mark.parametrize(
    ("answer", "who"), [("approved {0}", "approved"), ("looking\nApproved {0} alice of ops\n", "alice of ops")]
)
def test_an_answer_approves_the_plan_that_it_names(answer: str, who: str) -> None:
    digest = "ab" * 32
    assert read_approval(answer.format(digest), digest) == who


@pytest.mark.parametrize("answer", ["", "yes", "approved", "approved abab", "denied", "approved " + "cd" * 32])
def test_any_other_answer_does_not(answer: str) -> None:
    with pytest.raises(RefusedError):
        read_approval(answer, "ab" * 32)
