"""A process that ends at any write, or whose answers are lost: the same command finishes, and the route stays sound."""

from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from kafkakit.core.errors import ConflictError, LeaseLostError, OperationFailedError, RefusedError, TryLaterError
from kafkakit.streams.failover.act import operations as closing
from kafkakit.streams.failover.act.observing import check_certificate
from kafkakit.streams.failover.act.operations import abort, newest_certificate
from kafkakit.streams.failover.decide.history import CertificateCheck, EndKind
from kafkakit.streams.failover.decide.operation import Step, settled
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
    assert all(settled(record, scene.route) is Step.ABORTED for record in orphans)
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
