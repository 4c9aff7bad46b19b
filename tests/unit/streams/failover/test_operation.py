"""A process that ends at any write, or whose answers are lost.

Moves, returns and other numbers of partitions by the same machine, the order of reading, and approvals.
"""

from contextlib import suppress
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import pytest
import typer

from kafkakit.cli.option_groups import with_option_groups
from kafkakit.core.errors import (
    ConflictError,
    LeaseLostError,
    OperationFailedError,
    RefusedError,
    TryLaterError,
    UsageError,
)
from kafkakit.core.journal_lines import read_approval
from kafkakit.core.model import TopicPartition
from kafkakit.streams.client.decide.reading import reading_plan
from kafkakit.streams.failover.act import closing
from kafkakit.streams.failover.act.closing import abort, newest_certificate
from kafkakit.streams.failover.act.observing import check_certificate
from kafkakit.streams.failover.act.operations import aim_request
from kafkakit.streams.failover.commands.options import BackRequest, MoveRequest, RepartitionRequest
from kafkakit.streams.failover.decide.history import CertificateCheck, EndKind, end_by_route, left_cluster
from kafkakit.streams.failover.decide.operation import (
    DeadLetterChoice,
    Failover,
    FailoverRequest,
    LaneMove,
    OperationKind,
    ReadOrder,
    Step,
)
from kafkakit.streams.failover.decide.plan import FailoverPlan, Level
from kafkakit.streams.model.route import Route, SegmentState, encode_route, route_path
from tests.rigs.failover import STREAM, FailoverScene
from tests.rigs.routes import Killed

OLD = "orders.live.1"


def make_scene(**more: bool) -> FailoverScene:
    scene = FailoverScene()
    scene.write(OLD, 10)
    scene.producer()
    scene.consumer("billing")
    scene.readers.append("billing")
    scene.read_all("billing")
    if more.get("fenced"):
        scene.clients[0].follows = False
        scene.p.admin.acls = set()
        scene.p.admin.static_settings["allow.everyone.if.no.acl.found"] = "true"
    return scene


def routes_of(scene: FailoverScene) -> list[Route]:
    kept = scene.routes.history(STREAM)
    return [each.change.route for each in kept if each.in_effect]


def check_history(scene: FailoverScene) -> None:
    """What holds of every route that ever was: one active segment, rising epochs, seals only on what drains, and an old
    segment leaves only with a certificate."""
    routes = routes_of(scene)
    assert [route.epoch for route in routes] == sorted({route.epoch for route in routes})
    for before, after in pairwise(routes):
        for lane in after.lanes:
            assert sum(segment.state is SegmentState.ACTIVE for segment in lane.segments) == 1
            draining = (SegmentState.DRAINING, SegmentState.STRANDED)
            assert all(segment.state in draining for segment in lane.segments if segment.seal)
        gone = {s.id for _, s in before.segments() if s.state is not SegmentState.OPENED}
        gone -= {s.id for _, s in after.segments()}
        if gone:
            certificate, _ = newest_certificate(scene.parts().journals)
            assert gone == {each.segment for each in certificate.segments}
            sealed = {s.id: s.seal for _, s in before.segments()}
            assert all(sealed[each.segment] == each.partitions for each in certificate.segments)


def finish(scene: FailoverScene, *, may_begin_anew: bool = False) -> None:
    """The same command again, as often as an operator would; an operation that the store forgot is begun anew."""
    for _ in range(3):
        try:
            end = scene.run()
        except ConflictError:
            continue
        if end.kind is EndKind.DONE:
            break
    assert [lane.active.cluster for lane in scene.route.lanes if lane.active] == ["q"]
    assert (scene.route.operation, len(scene.route.lanes[0].segments)) == (None, 1)
    assert scene.run().step is Step.RETIRED
    ends = [record.end for record in scene.parts().journals.records() if record.reached_ms]
    assert ends == [Step.RETIRED] or (may_begin_anew and ends == [Step.ABORTED, Step.RETIRED])
    assert may_begin_anew or all(record.end in (None, Step.RETIRED) for record in scene.parts().journals.records())
    orphans = [record for record in scene.parts().journals.records() if not record.reached_ms]
    assert all(end_by_route(record, scene.route) is Step.ABORTED for record in orphans)
    check_history(scene)


def count_writes(*, fenced: bool) -> int:
    scene = make_scene(fenced=fenced)
    before = scene.store.count
    scene.run()
    return scene.store.count - before


@pytest.mark.parametrize("fenced", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_a_process_ends_at_any_write(fenced: bool, after: bool) -> None:
    total = count_writes(fenced=fenced)
    assert total > 20
    for number in range(total):
        scene = make_scene(fenced=fenced)
        scene.store.after, scene.store.cut = after, scene.store.count + number
        with pytest.raises(Killed):
            scene.run()
        scene.store.cut = None
        finish(scene)


@pytest.mark.parametrize("did_happen", [False, True])
def test_any_answer_of_the_store_is_lost(did_happen: bool) -> None:
    for number in range(count_writes(fenced=True)):
        scene = make_scene(fenced=True)
        (scene.store.lost if did_happen else scene.store.refused).add(scene.store.count + number)
        with suppress(TryLaterError, OperationFailedError, ConflictError):
            scene.run()
        finish(scene)


def test_an_abort_ends_at_any_write() -> None:
    number = 0
    while True:
        scene = make_scene()
        scene.clients[1].follows = False
        assert scene.run(wait_s=1).step is Step.OPENED
        scene.store.after, scene.store.cut = False, scene.store.count + number
        try:
            abort(scene.parts(), scene.open_cluster, STREAM)
            break
        except Killed:
            scene.store.cut = None
        abort(scene.parts(), scene.open_cluster, STREAM)
        assert scene.route.operation is None
        assert set(scene.q.admin.topics) == set()
        number += 1
    assert number >= 3


def lose_newest_route(scene: FailoverScene) -> None:
    """The store forgets the newest write of the route; the entry of its history, which came before, is still there."""
    routes = routes_of(scene)
    found = scene.store.get(route_path(STREAM))
    assert found is not None
    scene.store.cas(route_path(STREAM), encode_route(routes[-2]), found.version)


@pytest.mark.parametrize("until", [Step.ROUTED, Step.DRAINED, Step.RETIRED])
def test_the_store_loses_its_newest_route(until: Step) -> None:
    scene = make_scene()
    scene.run(until=until)
    lose_newest_route(scene)
    if until is Step.ROUTED:
        scene.write("orders.live.2", 3, cluster="q")
        with pytest.raises(RefusedError, match="cannot be aborted"):
            abort(scene.parts(), scene.open_cluster, STREAM)
    if until is Step.DRAINED:
        scene.write(OLD, 2)
    assert scene.resume().step is Step.RETIRED
    certificate, _ = newest_certificate(scene.parts().journals)
    assert certificate.segments[0].partitions[0].end == scene.end_of(OLD)
    assert [lane.active.cluster for lane in scene.route.lanes if lane.active] == ["q"]


def lose_documents(scene: FailoverScene, what: str) -> None:
    """The store forgets all documents of the operation that have a word in their path."""
    for path in [each for each in scene.store._documents if f"/{what}/" in each]:
        del scene.store._documents[path]


def test_a_plan_that_the_store_lost_is_made_anew() -> None:
    scene = make_scene()
    scene.begin()
    lose_documents(scene, "journal")
    assert scene.run().step is Step.RETIRED


def test_a_lost_journal_of_an_operation_that_has_begun_is_refused() -> None:
    scene = make_scene()
    scene.run(until=Step.ROUTED)
    lose_documents(scene, "journal")
    with pytest.raises(RefusedError, match="has no journal"):
        scene.run()


def test_a_certificate_that_the_store_lost_is_written_again_before_the_segment_leaves() -> None:
    scene = make_scene()
    assert scene.run(until=Step.DRAINED).step is Step.DRAINED
    lose_documents(scene, "certificate")
    assert scene.run().step is Step.RETIRED
    assert newest_certificate(scene.parts().journals)[0].segments


def test_an_operation_whose_beginning_the_store_lost_does_not_count_as_done() -> None:
    scene = make_scene()
    run = scene.begin()
    lose_newest_route(scene)
    end = run.run(Step.RETIRED, 1)
    assert (end.kind, end.reason) == (EndKind.REFUSED, "aborted")
    assert scene.run().step is Step.RETIRED


def test_a_retirement_that_the_store_loses_while_topics_are_deleted_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = make_scene()
    scene.run()
    name, parts = scene.parts().journals.names()[-1], scene.parts()

    def check_and_lose(*words: Any) -> CertificateCheck:
        lose_newest_route(scene)
        return check_certificate(*words)

    monkeypatch.setattr(closing, "check_certificate", check_and_lose)
    with pytest.raises(RefusedError, match="is not retired"):
        closing.reclaim(parts, scene.open_cluster, name, grace_s=0, keep=False)
    assert OLD in scene.p.admin.topics


@pytest.mark.parametrize("call", ["create_topic", "create_acls"])
@pytest.mark.parametrize("after_effect", [False, True])
def test_a_cluster_does_not_answer_a_change(call: str, after_effect: bool) -> None:
    scene = make_scene(fenced=True)
    cluster = scene.q if call == "create_topic" else scene.p
    cluster.admin.fail_next(call, TryLaterError("no answer"), after_effect=after_effect)
    with suppress(TryLaterError, OperationFailedError):
        scene.run()
    finish(scene)


def test_the_store_loses_any_write() -> None:
    """A write is answered and then gone, as with a replica that was behind; the process continues."""
    for number in range(count_writes(fenced=True)):
        scene = make_scene(fenced=True)
        scene.store.forgotten.add(scene.store.count + number)
        with suppress(LeaseLostError):
            scene.run()
        finish(scene, may_begin_anew=True)


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
    return aim_request(scene.parts(), scene.request(to="", kind=OperationKind.BACK))


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


class TestWhatIsHashed:
    """The options of a move are the fields of its request, and their order is in what people approve."""

    WORDS = (
        "orders --to east --require-group b --require-group a --require-group b --ignore-group c --fence quota "
        "--quiet-for 3m --max-duplicates 7 --open-by-default --order strict"
    )

    @staticmethod
    def typed(words: str, request_type: Any) -> FailoverRequest:
        found: list[FailoverRequest] = []

        def command(request: Any) -> None:
            found.append(request)

        command.__annotations__["request"] = request_type
        app = typer.Typer()
        app.command()(with_option_groups(command))
        app(words.split(), standalone_mode=False)
        return found[0]

    def test_a_plan_has_the_hash_that_it_had_when_options_were_copied(self) -> None:
        request = self.typed(f"{self.WORDS}", MoveRequest)
        move = LaneMove(lane="live", sources=(1,), topic="orders.live.2", partitions=3, replication=2)
        operation = Failover(
            id="x",
            request=replace(request, lanes=("live",)),
            cluster_id="c",
            moves=(move,),
            groups=("a", "b"),
            from_epoch=4,
            operator="me",
            started_ms=9,
        )
        known = "a252d0a12c8d005dc9e2d5eee22906c8236bd6c94dc51c4230581005192be4a4"
        assert FailoverPlan(operation=operation, verdicts=()).sha256 == known

    def test_the_fields_are_in_the_order_of_earlier_versions(self) -> None:
        assert ",".join(each.name for each in fields(FailoverRequest)) == (
            "stream,to,lanes,is_emergency,fence,groups,ignored,quiet_s,accept_loss,max_duplicates,replication,"
            "is_open_by_default,allow_compacted,allow_transactions,kind,partitions,order,dead_letters"
        )

    def test_each_command_makes_the_same_request(self) -> None:
        moved = self.typed("orders --to east", MoveRequest)
        assert moved == FailoverRequest(stream="orders", to="east", kind=OperationKind.MOVE)
        back = self.typed("orders --dead-letters copy", BackRequest)
        assert back == FailoverRequest(
            stream="orders", to="", kind=OperationKind.BACK, dead_letters=DeadLetterChoice.COPY
        )
        other = self.typed("orders --lane live --partitions 5", RepartitionRequest)
        assert other == FailoverRequest(
            stream="orders", to="", lanes=("live",), kind=OperationKind.REPARTITION, partitions=5
        )
        chosen = self.typed("orders --to east --lane b --lane a --emergency", FailoverRequest)
        assert chosen == FailoverRequest(stream="orders", to="east", lanes=("a", "b"), is_emergency=True)

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("--require-group a --ignore-group a", "group a is given to --require-group and to --ignore-group"),
            ("--require-group=", "a group has a name"),
            ("--quiet-for soon", "--quiet-for 'soon' is not a duration"),
        ],
    )
    def test_what_cannot_be_read_is_refused(self, words: str, message: str) -> None:
        with pytest.raises(UsageError, match=message):
            self.typed(f"orders --to east {words}", FailoverRequest)
