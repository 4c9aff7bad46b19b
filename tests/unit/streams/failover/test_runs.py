"""Failovers from end to end on clusters in memory: planned, in an emergency, late writers, losses, and refusals."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest

from kafkakit.core.cluster_facts import (
    PRODUCER_BYTE_RATE,
    GroupType,
    ItemError,
    OpenTransaction,
    QuotaEntity,
    ResourceKind,
)
from kafkakit.core.errors import (
    ConflictError,
    InputError,
    LeaseLostError,
    OperationFailedError,
    RefusedError,
    TryLaterError,
)
from kafkakit.core.model import TopicPartition
from kafkakit.streams.client.api import ClientKind, ClientRegistration
from kafkakit.streams.client.decide.reading import reading_plan
from kafkakit.streams.failover.act.closing import abort, newest_certificate, read_reclaimable, reclaim
from kafkakit.streams.failover.act.observing import check_certificate
from kafkakit.streams.failover.act.run import FailoverParts, require_same
from kafkakit.streams.failover.decide.evidence import Evidence, TopicStanding
from kafkakit.streams.failover.decide.history import ClosingResult, EndKind, RunEnd, end_by_route
from kafkakit.streams.failover.decide.operation import (
    SIZE_KEY,
    SIZE_LIMIT,
    DeadLetterChoice,
    FenceChoice,
    FenceKind,
    OperationRecord,
    ReadOrder,
    RouteEdit,
    Step,
)
from kafkakit.streams.failover.decide.plan import Level, lanes_read
from kafkakit.streams.failover.decide.steps import apply_edit
from kafkakit.streams.failover.report import run_report
from kafkakit.streams.model.provenance import (
    REJECTS_TOPIC,
    LedgerReject,
    RecordFailure,
    RecordOrigin,
    encode_reject,
    provenance_headers,
    read_provenance,
    replay_group,
)
from kafkakit.streams.model.route import GroupRule, SegmentState
from tests.rigs.failover import STREAM, FailoverScene, FakeClient, SceneLog
from tests.rigs.routes import Killed
from tests.rigs.throttles import set_by_others

OLD = "orders.live.1"
LANE = QuotaEntity(client_id="kafkakit.orders.live")


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


def test_a_planned_failover_moves_seals_drains_and_retires(scene: FailoverScene) -> None:
    end = scene.run()
    assert (end.kind, end.step) == (EndKind.DONE, Step.RETIRED)
    (segment,) = scene.route.lanes[0].segments
    assert (segment.cluster_id, segment.state, segment.topic) == ("q-id", SegmentState.ACTIVE, "orders.live.2")
    assert scene.route.operation is None
    steps = list(end.record.reached_ms)
    assert set(steps) == {Step.PLANNED, Step.OPENED, Step.ROUTED, Step.SEALED, Step.DRAINED, Step.RETIRED}
    assert end.record.basis == "acknowledged"
    assert scene.clock.elapsed < 10
    certificate, _ = newest_certificate(scene.parts().journals)
    assert [seal.end for seal in certificate.segments[0].partitions] == [10, 5]
    assert [group.group for group in certificate.segments[0].groups] == ["billing"]


def test_groups_have_an_offset_in_the_target_before_producers_move(scene: FailoverScene) -> None:
    scene.readers.clear()
    end = scene.run(until=Step.ROUTED)
    assert end.step is Step.ROUTED
    target = scene.route.lanes[0].active
    assert target is not None
    found = scene.q.groups.committed("billing")
    assert {key.partition: commit.offset for key, commit in found.items() if hasattr(commit, "offset")} == {0: 0, 1: 0}


def test_a_group_that_others_keep_alive_on_the_target_is_waited_for(scene: FailoverScene) -> None:
    """Only its members can commit for it, and a plain member begins where its settings say."""
    scene.clients.clear()
    scene.readers.clear()
    scene.q.groups.join("billing", TopicPartition("other", 0))
    end = scene.run(wait_s=5)
    assert (end.kind, end.reason, end.step) == (EndKind.WAITING, "no-effect", Step.PLANNED)
    assert "UnknownMemberIdError" in end.lines[0]
    scene.q.groups.leave("billing")
    assert scene.run(until=Step.ROUTED).step is Step.ROUTED


def test_a_group_of_stream_clients_that_is_alive_on_the_target_begins_at_the_start(scene: FailoverScene) -> None:
    scene.q.groups.join("billing", TopicPartition("other", 0))
    assert scene.run().step is Step.RETIRED


def test_consumers_that_do_not_follow_keep_producers_where_they_are(scene: FailoverScene) -> None:
    scene.clients[1].follows = False
    end = scene.run(wait_s=5)
    assert (end.kind, end.reason, end.step) == (EndKind.WAITING, "consumers-behind", Step.OPENED)
    scene.clients[1].follows = True
    assert scene.resume().step is Step.RETIRED


def test_a_group_that_does_not_read_keeps_the_old_topic(scene: FailoverScene) -> None:
    scene.readers.clear()
    scene.write(OLD, 3)
    end = scene.run(wait_s=5)
    assert (end.kind, end.reason, end.step, end.records) == (EndKind.WAITING, "backlog", Step.SEALED, 3)
    scene.readers.append("billing")
    assert scene.run().step is Step.RETIRED


def test_without_fence_and_registrations_the_long_window_counts(scene: FailoverScene) -> None:
    scene.clients.clear()
    end = scene.run()
    assert (end.step, end.record.basis) == (Step.RETIRED, "time")
    assert scene.clock.elapsed >= 125


def test_a_producer_that_fell_silent_counts_by_quiet_time(scene: FailoverScene) -> None:
    """It may be a process that hangs, and goes on to write what it has."""
    scene.producer(is_live=False, delivery_timeout_ms=20_000)
    end = scene.run()
    assert (end.step, end.record.basis) == (Step.RETIRED, "time")
    assert scene.clock.elapsed >= 125


def test_a_consumer_that_ended_without_a_word_is_not_waited_for(scene: FailoverScene) -> None:
    scene.consumer("billing", is_live=False, delivery_timeout_ms=0)
    assert scene.run().step is Step.RETIRED
    assert 10 <= scene.clock.elapsed < 30


def test_a_window_of_the_operator_is_taken_at_its_word(scene: FailoverScene) -> None:
    scene.clients.clear()
    assert scene.run(quiet_s=10.0).record.window_s >= 10
    assert 10 <= scene.clock.elapsed < 20


def test_a_window_of_the_operator_is_not_about_producers_that_live_and_have_not_moved(scene: FailoverScene) -> None:
    scene.producer(follows=False, delivery_timeout_ms=40_000)
    assert scene.run(quiet_s=2.0).record.window_s >= 45


def test_an_acl_fence_keeps_readers_and_is_taken_away_with_the_topic(scene: FailoverScene) -> None:
    scene.clients[0].follows = False
    scene.p.admin.acls = set()
    scene.p.admin.static_settings["allow.everyone.if.no.acl.found"] = "true"
    end = scene.run()
    assert (end.step, end.record.basis) == (Step.RETIRED, "fence")
    made = [sorted((b.operation, b.permission) for b in arg) for call, arg in scene.p.admin.calls if "acls" in call]
    assert made == [[("all", "allow")], [("write", "deny")]]
    closing = reclaim(scene.parts(), scene.open_cluster, end.record.operation.id, grace_s=0, keep=False)
    assert closing.results == ((OLD, "deleted"),)
    assert scene.p.admin.acls == set()
    assert OLD not in scene.p.admin.topics
    again = scene.run()  # the same command is told that it was done
    assert (again.kind, again.record.operation.id) == (EndKind.DONE, end.record.operation.id)


def test_every_lane_has_its_fence_and_each_is_taken_away() -> None:
    scene = FailoverScene(("live", "slow"))
    scene.p.admin.acls = set()
    end = scene.run(is_open_by_default=True)
    assert [(fence.segment, len(fence.bindings)) for fence in end.record.fences] == [(1, 2), (2, 2)]
    reclaim(scene.parts(), scene.open_cluster, end.record.operation.id, grace_s=0, keep=False)
    assert scene.p.admin.acls == set()


def test_epochs_in_commits_show_that_members_have_moved(scene: FailoverScene) -> None:
    """Members of stream clients that the store knows nothing of: their commits carry the epoch that they act on."""
    scene.clients.pop()
    scene.readers.clear()
    segment = scene.route.lanes[0].segments[0]
    scene.p.groups.join("billing", TopicPartition(OLD, 0), TopicPartition(OLD, 1))
    for partition, offset in ((0, 10), (1, 5)):
        scene.commit("billing", segment, partition, offset, epoch=1)
    end = scene.run(wait_s=5)
    assert (end.kind, end.reason, end.step) == (EndKind.WAITING, "members-behind", Step.SEALED)
    scene.commit("billing", segment, 0, 10, epoch=scene.route.epoch)
    assert scene.resume().step is Step.RETIRED
    certificate, _ = newest_certificate(scene.parts().journals)
    assert certificate.segments[0].groups[0].acknowledged == "commits"


def waiting_transaction() -> OpenTransaction:
    return OpenTransaction(
        transactional_id="tx", producer_id=7, producer_epoch=0, state="PrepareCommit", timeout_ms=1, started_ms=1,
        partitions=frozenset({TopicPartition(OLD, 0)}),
    )  # fmt: skip


def test_a_size_fence_comes_down_when_a_transaction_waits_for_its_marker(scene: FailoverScene) -> None:
    def stuck(call: str, argument: object) -> None:
        if call == "alter_configs" and not scene.p.admin.transactions:
            scene.p.admin.transactions.append(waiting_transaction())

    scene.p.admin.before_call.append(stuck)
    end = scene.run(fence=FenceChoice.CONFIG)
    assert end.step is Step.RETIRED
    assert end.record.fences == ()
    assert "max.message.bytes" not in scene.p.admin.topics[OLD].configs
    assert any("held up tx" in line for line in scene.reporter.lines)


def test_a_size_fence_is_down_only_once_brokers_show_it(scene: FailoverScene) -> None:
    admin = scene.p.admin
    read, is_late = admin.dynamic_configs, [False]

    def late(kind: ResourceKind, names: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        found = read(kind, names)
        return {n: {**v, SIZE_KEY: SIZE_LIMIT} if n == OLD else v for n, v in found.items()} if is_late[0] else found

    def hold(call: str, _: object) -> None:
        if call == "alter_configs":
            is_late[0] = len(scene.p.admin.transactions) > 0
            scene.p.admin.transactions = [waiting_transaction()]

    scene.p.admin.fail_next("alter_configs", TryLaterError("away"))
    admin.dynamic_configs = late  # type: ignore[method-assign]
    admin.before_call.append(hold)
    with pytest.raises(TryLaterError, match="does not show it"):
        scene.run(fence=FenceChoice.CONFIG)
    run = scene.planner().open_run(scene.route)
    assert run is not None
    assert len(run.record.fences) == 1
    is_late[0] = False
    admin.before_call.clear()
    end = scene.resume()
    assert (end.step, end.record.fences) == (Step.RETIRED, ())
    assert SIZE_KEY not in admin.topics[OLD].configs


def test_a_size_limit_that_another_process_sets_on_a_fenced_topic_is_put_back(scene: FailoverScene) -> None:
    admin = scene.p.admin
    configs = admin.topics[OLD].configs
    configs[SIZE_KEY] = "1000"
    made: list[object] = []

    def count(call: str, changes: object) -> None:
        if call == "alter_configs":
            made.append(changes)
            if len(made) == 2:
                admin.transactions.append(waiting_transaction())

    def intrude(_: float) -> None:
        if len(made) == 1:
            configs[SIZE_KEY] = "2000"

    admin.before_call.append(count)
    scene.clock.on_sleep.append(intrude)
    end = scene.run(fence=FenceChoice.CONFIG)
    assert (end.step, end.record.fences, configs[SIZE_KEY], len(made)) == (Step.RETIRED, (), "2000", 3)


@pytest.mark.parametrize("value", ["2000", None])
def test_a_size_limit_that_another_process_set_means_that_the_fence_is_down(
    scene: FailoverScene, value: str | None
) -> None:
    configs = scene.p.admin.topics[OLD].configs
    configs[SIZE_KEY] = "1000"
    operation, segment = scene.begin().record.operation, scene.route.lanes[0].segments[0]
    effects = scene.parts().effects
    fence = effects.planned_fence(segment, FenceKind.CONFIG, operation, None, None)
    effects.raise_fence(segment, fence)
    assert configs[SIZE_KEY] == SIZE_LIMIT
    assert effects.planned_fence(segment, FenceKind.CONFIG, operation, None, fence) == fence
    set_by_others(scene.p.admin, OLD, SIZE_KEY, value)
    before = (list(scene.p.admin.calls), scene.clock.elapsed)
    for change in (effects.lower_fence, effects.raise_fence):
        scene.reporter.lines.clear()
        change(segment, fence)
        assert len(scene.reporter.lines) == 1
        assert OLD in scene.reporter.lines[0]
    assert (scene.p.admin.calls, scene.clock.elapsed, configs.get(SIZE_KEY)) == (*before, value)


def test_a_fence_that_is_not_seen_is_no_fence(scene: FailoverScene) -> None:
    operation, segment = scene.begin().record.operation, scene.route.lanes[0].segments[0]
    effects = scene.parts().effects
    fence = effects.planned_fence(segment, FenceKind.QUOTA, operation, None, None)
    scene.p.admin.alter_client_quotas = dict.fromkeys  # type: ignore[assignment]
    with pytest.raises(OperationFailedError, match=f"{fence.client_id} cannot be seen"):
        effects.raise_fence(segment, fence)


@pytest.mark.parametrize("rate", [None, 5_000])
def test_a_quota_delays_late_writers_and_goes_before_the_old_topic(scene: FailoverScene, rate: int | None) -> None:
    if rate is not None:
        limited(scene, rate)
    scene.clients[0].follows = False
    scene.readers.clear()
    scene.write(OLD, 1)
    end = scene.run(fence=FenceChoice.QUOTA, wait_s=130)
    assert (end.step, end.record.basis, end.record.window_s >= 125) == (Step.SEALED, "time", True)
    assert scene.p.admin.quotas == {LANE: {PRODUCER_BYTE_RATE: 1}}
    scene.readers.append("billing")
    end = scene.run(fence=FenceChoice.QUOTA)
    assert (end.step, end.record.fences) == (Step.RETIRED, ())
    assert scene.p.admin.quotas == ({} if rate is None else {LANE: {PRODUCER_BYTE_RATE: rate}})


def test_a_quota_fence_comes_down_whatever_write_is_the_last() -> None:
    number, killed = 0, True
    while killed:
        scene = FailoverScene()
        scene.write(OLD, 3)
        scene.readers.append("billing")
        scene.read_all("billing")
        scene.store.after, scene.store.cut = number % 2 == 0, scene.store.count + number // 2
        try:
            scene.run(fence=FenceChoice.QUOTA, quiet_s=1.0)
            killed = False
        except Killed:
            scene.store.cut = None
        assert scene.run(fence=FenceChoice.QUOTA, quiet_s=1.0).step is Step.RETIRED
        assert scene.p.admin.quotas == {}
        number += 1
    assert number > 40


def test_a_quota_fence_is_refused_where_it_would_not_reach_or_reach_too_far(scene: FailoverScene) -> None:
    def reasons(**more: str) -> list[str]:
        found = scene.planner().plan(scene.request(fence=FenceChoice.QUOTA, **more)).refused
        return [verdict.text for verdict in found if verdict.check == "fence"]

    assert reasons() == []
    scene.p.admin.fail_next("describe_client_quotas", OperationFailedError("not authorized"))
    assert reasons() == ["fence quota: the quotas of the cluster cannot be read"]
    scene.p.admin.quotas = {QuotaEntity(user="app"): {PRODUCER_BYTE_RATE: 10**6}}
    assert reasons() == ["fence quota: users have quotas, which override quotas of client ids"]
    scene.p.admin.quotas = {QuotaEntity(user="app"): {"consumer_byte_rate": 10**6}}
    assert reasons() == []
    scene.readers.clear()
    scene.write(OLD, 1)
    assert scene.run(wait_s=5).step is Step.SEALED
    with pytest.raises(RefusedError, match="the lane's new topic is on the same cluster"):
        scene.run(to="p", fence=FenceChoice.QUOTA, is_emergency=True)
    scene.readers.append("billing")
    assert scene.run(to="p", fence=FenceChoice.NONE, is_emergency=True).step is Step.RETIRED


def test_a_quota_that_an_earlier_stay_left_is_taken_away(scene: FailoverScene) -> None:
    scene.q.admin.quotas = {LANE: {PRODUCER_BYTE_RATE: 1}}
    assert scene.run().step is Step.RETIRED
    assert scene.q.admin.quotas == {}


def test_a_size_fence_is_refused_while_a_transaction_is_open(scene: FailoverScene) -> None:
    scene.write_transaction(OLD, 2, commits=None)
    plan = scene.planner().plan(scene.request(fence=FenceChoice.CONFIG))
    assert [verdict.check for verdict in plan.refused] == ["fence"]


def test_a_topic_without_acls_needs_a_statement_before_one_is_put_on_it(scene: FailoverScene) -> None:
    """KRaft brokers do not tell `allow.everyone.if.no.acl.found`."""
    scene.p.admin.acls = set()
    plan = scene.planner().plan(scene.request(fence=FenceChoice.ACL))
    assert [(verdict.check, "--open-by-default" in verdict.text) for verdict in plan.refused] == [("fence", True)]
    assert scene.run(until=Step.ROUTED).step is Step.ROUTED
    end = scene.run(is_open_by_default=True)
    assert end.record.basis == "fence"
    assert [binding.operation for binding in end.record.fences[0].bindings] == ["all", "write"]
    assert scene.p.admin.acls == set(end.record.fences[0].bindings)


def test_a_group_without_commits_has_lost_nothing_of_what_was_gone_before(scene: FailoverScene) -> None:
    scene.readers.clear()
    scene.p.log.trim(TopicPartition(OLD, 1), 5)
    scene.p.groups.forget("billing", [TopicPartition(OLD, 1)])
    end = scene.run(wait_s=5)
    assert (end.step, end.record.lost) == (Step.RETIRED, ())


def test_a_late_writer_voids_the_seal_and_is_reported(scene: FailoverScene) -> None:
    scene.readers.clear()
    scene.write(OLD, 1)
    assert scene.run(wait_s=5).step is Step.SEALED
    scene.write(OLD, 2)
    scene.readers.append("billing")
    end = scene.run()
    assert (end.kind, end.reason, end.step) == (EndKind.LATE, "late-writer", Step.ROUTED)
    assert end.lines[0] == f"{OLD}-0: 2 offsets after the seal"
    end = scene.run()
    assert (end.step, end.record.late) == (Step.RETIRED, 1)
    certificate, _ = newest_certificate(scene.parts().journals)
    assert certificate.segments[0].partitions[0].end == 13


def test_a_writer_after_the_certificate_keeps_the_segment(scene: FailoverScene) -> None:
    assert scene.run(until=Step.DRAINED).step is Step.DRAINED
    scene.write(OLD, 1)
    assert scene.run().kind is EndKind.LATE
    assert len(scene.route.lanes[0].segments) == 2
    assert scene.run().step is Step.RETIRED
    certificate, _ = newest_certificate(scene.parts().journals)
    assert (certificate.segments[0].partitions[0].end, certificate.late) == (11, 1)


def test_a_writer_after_the_retirement_keeps_the_topic(scene: FailoverScene) -> None:
    end = scene.run()
    scene.write(OLD, 1)
    closing = reclaim(scene.parts(), scene.open_cluster, end.record.operation.id, grace_s=0, keep=False)
    assert closing.check is not None
    assert closing.check.late == (f"{OLD}-0: 1 offset after the seal",)
    assert OLD in scene.p.admin.topics


def test_a_sealed_topic_that_was_created_again_is_refused(scene: FailoverScene) -> None:
    assert scene.run(until=Step.DRAINED).step is Step.DRAINED
    del scene.p.admin.topics[OLD]
    scene.p.admin.add_topic(OLD, dict.fromkeys(range(2), (1,)))
    end = scene.run()
    assert (end.kind, end.reason) == (EndKind.REFUSED, "source-differs")


def test_ends_below_the_seal_are_waited_for(scene: FailoverScene) -> None:
    assert scene.run(until=Step.DRAINED).step is Step.DRAINED
    sealed = scene.p.log
    scene.p.log = SceneLog(scene.p.admin)
    scene.p.log.follow()
    end = scene.run(wait_s=1)
    assert (end.kind, end.reason) == (EndKind.WAITING, "unknown")
    assert f"{OLD}-0 ends at 0, before its seal at 10" in end.lines
    scene.p.log = sealed
    assert scene.run().step is Step.RETIRED


def test_records_deleted_before_the_seal_are_counted_though_the_group_goes_on_behind_them(scene: FailoverScene) -> None:
    scene.readers.clear()
    scene.write(OLD, 4)
    assert scene.run(until=Step.OPENED, wait_s=0).step is Step.OPENED
    scene.p.log.trim(TopicPartition(OLD, 0), 12)
    scene.resume(wait_s=0, until=Step.OPENED)
    scene.readers.append("billing")  # it goes on at the first record that is left
    end = scene.run()
    assert (end.kind, end.reason) == (EndKind.REFUSED, "lost-records")
    end = scene.run(accept_loss=2)
    assert (end.step, [lost.count for lost in end.record.lost]) == (Step.RETIRED, [2])


def test_a_record_that_comes_while_topics_are_deleted_keeps_its_topic() -> None:
    scene = FailoverScene(("live", "slow"))
    end = scene.run()
    admin, old = scene.p.admin, [each.topic for each in newest_certificate(scene.parts().journals)[0].segments]
    delete = admin.delete_topic_by_id

    def deleted(topic_id: str) -> ItemError | None:
        scene.write(old[1], 1)
        return delete(topic_id)

    admin.delete_topic_by_id = deleted  # type: ignore[method-assign]
    closing = reclaim(scene.parts(), scene.open_cluster, end.record.operation.id, grace_s=0, keep=False)
    assert (old[0] in admin.topics, old[1] in admin.topics) == (False, True)
    assert closing.check is not None
    assert closing.check.late == (f"{old[1]}-0: 1 offset after the seal",)


def test_what_cannot_be_read_while_topics_are_deleted_keeps_its_topic() -> None:
    scene = FailoverScene(("live", "slow"))
    scene.consumer("billing")
    scene.readers.append("billing")
    scene.write("orders.slow.1", 3)
    scene.read_all("billing")
    operation = scene.run().record.operation.id
    admin, log, old = scene.p.admin, scene.p.log, "orders.slow.1"
    spans, delete = log.spans, admin.delete_topic_by_id

    def silent(topic_id: str) -> ItemError | None:
        error = ItemError(name="LeaderNotAvailableError", retriable=True)
        log.spans = lambda partitions: dict.fromkeys(partitions, error)  # type: ignore[method-assign]
        return delete(topic_id)

    admin.delete_topic_by_id = silent  # type: ignore[method-assign]
    with pytest.raises(TryLaterError, match=f"not every old topic can be checked: {old}"):
        reclaim(scene.parts(), scene.open_cluster, operation, grace_s=0, keep=False)
    assert old in admin.topics
    log.spans = spans  # type: ignore[method-assign]
    closing = reclaim(scene.parts(), scene.open_cluster, operation, grace_s=0, keep=False)
    assert [each for _, each in closing.results] == ["does not exist", "deleted"]


def test_offsets_that_go_back_while_topics_are_deleted_keep_their_topic() -> None:
    scene = FailoverScene(("live", "slow"))
    scene.consumer("billing")
    scene.readers.append("billing")
    scene.write("orders.slow.1", 3)
    scene.read_all("billing")
    operation = scene.run().record.operation.id
    admin, old = scene.p.admin, "orders.slow.1"
    delete = admin.delete_topic_by_id

    def reset(topic_id: str) -> ItemError | None:
        scene.p.groups.seed("billing", TopicPartition(old, 0), 1)
        return delete(topic_id)

    admin.delete_topic_by_id = reset  # type: ignore[method-assign]
    closing = reclaim(scene.parts(), scene.open_cluster, operation, grace_s=0, keep=False)
    assert closing.check is not None
    assert (closing.is_late, closing.check.late, len(closing.check.short)) == (True, (), 1)
    assert old in admin.topics


def test_nothing_is_checked_once_more_where_nothing_is_deleted(scene: FailoverScene) -> None:
    operation = scene.run().record.operation.id
    scene.looks.clear()
    read_reclaimable(scene.parts(), scene.open_cluster, operation)
    looks = list(scene.looks)
    scene.looks.clear()
    closing = reclaim(scene.parts(), scene.open_cluster, operation, grace_s=0, keep=True)
    assert (closing.results, scene.looks) == (((OLD, "kept"),), looks)


def test_records_deleted_before_they_were_read_need_consent(scene: FailoverScene) -> None:
    scene.readers.clear()
    scene.write(OLD, 4)
    assert scene.run(wait_s=5).reason == "backlog"
    scene.p.log.trim(TopicPartition(OLD, 0), 12)
    scene.resume(wait_s=1)
    scene.readers.append("billing")
    end = scene.run()
    assert (end.kind, end.reason) == (EndKind.REFUSED, "lost-records")
    end = scene.run(accept_loss=2)
    assert end.step is Step.RETIRED
    certificate, _ = newest_certificate(scene.parts().journals)
    assert [(lost.group, lost.partition, lost.count) for lost in certificate.lost] == [("billing", 0, 2)]


def test_a_group_that_shows_up_keeps_the_segment(scene: FailoverScene) -> None:
    assert scene.run(until=Step.DRAINED).step is Step.DRAINED
    scene.commit("audit", scene.route.lanes[0].segments[0], 0, 3)
    end = scene.run()
    assert (end.kind, end.reason) == (EndKind.REFUSED, "unknown-groups")
    assert scene.run(ignored=("audit",)).step is Step.RETIRED


def test_thousands_of_groups_are_read_together(scene: FailoverScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """3,000 groups of other topics and 2,000 of the stream: what is requested does not grow with their number."""
    for number in range(5_000):
        topic = OLD if number % 5 < 2 else "other"
        for partition, end in ((0, 10), (1, 5)):
            scene.p.groups.seed(f"group-{number}", TopicPartition(topic, partition), end)
    requests: list[str] = []
    for name in ("describe", "committed_by", "committed", "groups"):
        for cluster in (scene.p, scene.q):
            monkeypatch.setattr(cluster.groups, name, counted_calls(name, getattr(cluster.groups, name), requests))
    plan = scene.planner().plan(scene.request())
    assert len(plan.operation.groups) == 2_001
    assert sorted(requests) == ["committed_by", "describe", "groups"]
    requests.clear()
    run = scene.planner().begin(plan)
    assert run.run(Step.SEALED, 600).step is Step.DRAINED
    assert len(scene.q.groups.commits) == 2_001
    # Before they get the starts of the target's logs, the offsets of 50 groups at a time are read once more.
    assert (requests.count("committed"), len(requests) < 60 + 2_001 / 50) == (0, True)


def counted_calls(name: str, call: Callable[..., Any], calls: list[str]) -> Callable[..., Any]:
    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(name)
        return call(*arguments, **options)

    return counted


def test_open_transactions_delay_the_seal(scene: FailoverScene) -> None:
    scene.run(until=Step.ROUTED)
    scene.write_transaction(OLD, 2, commits=None)
    assert scene.resume(wait_s=5).reason == "open-transactions"
    scene.write_transaction(OLD, 0, commits=True)
    assert scene.resume().step is Step.RETIRED


def test_a_log_that_ends_with_markers_counts_as_read_at_its_last_record(scene: FailoverScene) -> None:
    scene.readers.clear()
    scene.write_transaction(OLD, 2, commits=True)
    segment = scene.route.lanes[0].segments[0]
    scene.commit("billing", segment, 0, 12)
    end = scene.run(wait_s=5)
    assert end.step is Step.RETIRED
    certificate, _ = newest_certificate(scene.parts().journals)
    assert (certificate.segments[0].partitions[0].end, certificate.segments[0].partitions[0].effective_end) == (13, 12)


def test_all_lanes_move_in_one_change() -> None:
    scene = FailoverScene(("live", "slow"))
    scene.producer()
    assert scene.run(until=Step.ROUTED).step is Step.ROUTED
    before = scene.routes.history(STREAM)
    moved = [{lane.active.cluster for lane in kept.change.route.lanes if lane.active} for kept in before]
    assert moved[-1] == {"q"}
    assert {frozenset(each) for each in moved[:-1]} == {frozenset({"p"})}
    assert scene.run().step is Step.RETIRED


# -- emergencies ----------------------------------------------------------------------------------------


def test_an_emergency_moves_producers_without_a_look_at_the_old_cluster(scene: FailoverScene) -> None:
    scene.clients[1].follows = False
    scene.p.is_away = True
    scene.looks.clear()
    run = scene.begin(is_emergency=True)
    assert "p" not in scene.looks
    end = run.run(Step.RETIRED, 600)
    assert (end.kind, end.reason, end.step) == (EndKind.WAITING, "stranded", Step.STRANDED)
    assert end.record.unready == ("billing",)
    states = [segment.state for segment in scene.route.lanes[0].segments]
    assert states == [SegmentState.STRANDED, SegmentState.ACTIVE]


def test_a_stranded_segment_is_drained_when_its_cluster_returns(scene: FailoverScene) -> None:
    scene.write(OLD, 7)
    scene.p.is_away = True
    scene.run(is_emergency=True)
    scene.p.is_away = False
    end = scene.run(is_emergency=True)
    assert (end.kind, end.step) == (EndKind.DONE, Step.RETIRED)
    certificate, _ = newest_certificate(scene.parts().journals)
    assert certificate.segments[0].partitions[0].end == 17


def test_a_registration_that_cannot_be_read_stops_all_but_an_emergency(scene: FailoverScene) -> None:
    class Newer(FakeClient):
        def registration(self) -> ClientRegistration:
            raise InputError("control document", "has schema 2")

    scene.clients.append(Newer(id="newer", kind=ClientKind.PRODUCER))
    with pytest.raises(InputError):
        scene.run()
    end = scene.run(is_emergency=True)
    assert (end.reason, end.record.basis) == ("unknown-groups", "time")
    assert scene.run(is_emergency=True, groups=("billing",)).step is Step.RETIRED
    certificate, _ = newest_certificate(scene.parts().journals)
    assert [group.group for group in certificate.segments[0].groups] == ["billing"]


def test_a_group_that_never_reads_is_given_up_by_name(scene: FailoverScene) -> None:
    scene.commit("dead", scene.route.lanes[0].segments[0], 0, 1)
    end = scene.run(wait_s=5)
    assert (end.reason, end.records) == ("backlog", 14)
    assert scene.run(ignored=("dead",)).step is Step.RETIRED


def test_a_planned_failover_becomes_an_emergency(scene: FailoverScene) -> None:
    scene.clients[1].follows = False
    assert scene.run(wait_s=5).step is Step.OPENED
    scene.p.is_away = True
    assert scene.run(is_emergency=True).step is Step.STRANDED


def test_a_target_that_is_lost_while_the_old_topics_drain_is_left_in_an_emergency(scene: FailoverScene) -> None:
    scene.readers.clear()
    scene.write(OLD, 3)
    first = scene.run(wait_s=5)
    assert first.step is Step.SEALED
    scene.q.is_away = True
    with pytest.raises(RefusedError, match="is open, and it is not this one"):
        scene.run(to="r")
    end = scene.run(to="r", is_emergency=True)
    assert (end.reason, end.step) == ("stranded", Step.STRANDED)
    states = [(segment.cluster, segment.state) for segment in scene.route.lanes[0].segments]
    draining, stranded = SegmentState.DRAINING, SegmentState.STRANDED
    assert states == [("p", draining), ("q", stranded), ("r", SegmentState.ACTIVE)]
    scene.q.is_away = False
    scene.readers.append("billing")
    assert scene.resume().step is Step.RETIRED
    certificate, _ = newest_certificate(scene.parts().journals)
    assert [each.cluster for each in certificate.segments] == ["p", "q"]
    ends = [record.end for record in scene.parts().journals.records()]
    assert ends == [Step.SUPERSEDED, Step.RETIRED]


@pytest.mark.parametrize(("fence", "to"), [(FenceChoice.ACL, "r"), (FenceChoice.QUOTA, "r"), (FenceChoice.QUOTA, "p")])
def test_an_emergency_takes_down_what_the_operation_before_it_put_up(
    scene: FailoverScene, fence: FenceChoice, to: str
) -> None:
    scene.p.admin.acls = set()
    scene.p.admin.static_settings["allow.everyone.if.no.acl.found"] = "true"
    scene.clients[0].follows = False
    scene.readers.clear()
    scene.write(OLD, 1)
    assert scene.run(fence=fence, wait_s=130).step is Step.SEALED
    assert scene.p.admin.acls or scene.p.admin.quotas == {LANE: {PRODUCER_BYTE_RATE: 1}}
    scene.readers.append("billing")
    end = scene.run(to=to, fence=FenceChoice.NONE, is_emergency=True)
    assert end.step is Step.RETIRED
    assert scene.p.admin.quotas == {}
    closing = reclaim(scene.parts(), scene.open_cluster, end.record.operation.id, grace_s=0, keep=False)
    assert (OLD, "deleted") in closing.results
    assert scene.p.admin.acls == set()


def test_an_emergency_gives_new_topics_the_settings_that_the_route_has(scene: FailoverScene) -> None:
    scene.p.admin.topics[OLD].configs.update({"retention.ms": "7000", "leader.replication.throttled.replicas": "0:1"})
    assert scene.run().step is Step.RETIRED
    scene.q.is_away = True
    scene.run(to="r", is_emergency=True)
    target = scene.route.lanes[0].active
    assert target is not None
    assert (target.cluster, target.settings) == ("r", (("retention.ms", "7000"),))
    assert scene.clusters["r"].admin.topics[target.topic].configs == {"retention.ms": "7000"}


def limited(scene: FailoverScene, rate: int) -> None:
    """The lane has a quota, on the clusters that it is on."""
    scene.routes.change(
        STREAM,
        lambda route: replace(route, lanes=tuple(replace(lane, quota_bytes_per_s=rate) for lane in route.lanes)),
        by="me", what="quota", at_ms=1,
    )  # fmt: skip
    scene.p.admin.alter_client_quotas({LANE: {PRODUCER_BYTE_RATE: rate}})


def test_the_quota_of_a_lane_goes_with_it(scene: FailoverScene) -> None:
    limited(scene, 5_000)
    end = scene.run(until=Step.OPENED, wait_s=0)
    assert (scene.p.admin.quotas, scene.q.admin.quotas) == ({LANE: {PRODUCER_BYTE_RATE: 5_000}},) * 2
    end = scene.run()
    closing = reclaim(scene.parts(), scene.open_cluster, end.record.operation.id, grace_s=0, keep=False)
    assert closing.results == ((OLD, "deleted"),)
    assert (scene.p.admin.quotas, scene.q.admin.quotas) == ({}, {LANE: {PRODUCER_BYTE_RATE: 5_000}})


def test_an_abort_takes_the_quota_of_a_lane_back(scene: FailoverScene) -> None:
    limited(scene, 5_000)
    scene.clients[1].follows = False
    assert scene.run(wait_s=1).step is Step.OPENED
    assert scene.q.admin.quotas
    abort(scene.parts(), scene.open_cluster, STREAM)
    assert (scene.p.admin.quotas, scene.q.admin.quotas) == ({LANE: {PRODUCER_BYTE_RATE: 5_000}}, {})


# -- refusals -------------------------------------------------------------------------------------------


def test_a_target_that_is_not_empty_is_refused(scene: FailoverScene) -> None:
    scene.q.admin.add_topic("orders.live.2", {0: (1,), 1: (1,)})
    scene.write("orders.live.2", cluster="q")
    plan = scene.planner().plan(scene.request())
    assert [verdict.check for verdict in plan.refused] == ["target-empty"]


def test_a_topic_that_was_created_again_is_refused(scene: FailoverScene) -> None:
    scene.p.admin.add_topic(OLD, {0: (1,), 1: (1,)})
    plan = scene.planner().plan(scene.request())
    assert ("source", OLD) in [(verdict.check, verdict.where) for verdict in plan.refused]


def test_a_target_that_was_deleted_meanwhile_is_refused(scene: FailoverScene) -> None:
    scene.clients[1].follows = False
    assert scene.run(wait_s=1).step is Step.OPENED
    del scene.q.admin.topics["orders.live.2"]
    scene.readers.clear()
    end = scene.resume()
    assert (end.kind, end.reason) == (EndKind.REFUSED, "target-differs")
    assert "does not exist any more" in end.lines[0]


def test_another_cluster_behind_the_address_is_refused(scene: FailoverScene) -> None:
    scene.clients[1].follows = False
    scene.run(wait_s=1)
    scene.clients[1].follows = True
    scene.q.admin.cluster_id = "other-id"
    end = scene.run()
    assert (end.kind, end.reason, end.step) == (EndKind.REFUSED, "target-differs", Step.OPENED)


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (lambda s: s.p.admin.topics[OLD].configs.update({"cleanup.policy": "compact"}), "compacted"),
        (lambda s: s.p.groups.open_transaction("billing", TopicPartition(OLD, 0), 3), "transactional-group"),
        (lambda s: s.q.admin.add_broker(2, None) or s.q.admin.kill(1) or s.q.admin.kill(2), "target-size"),
    ],
)
def test_preconditions_are_refused(scene: FailoverScene, change: object, check: str) -> None:
    change(scene)  # type: ignore[operator]
    plan = scene.planner().plan(scene.request())
    assert check in [verdict.check for verdict in plan.refused]


def test_a_target_that_is_too_small_is_refused(scene: FailoverScene) -> None:
    scene.p.admin.write(OLD, 0, 2 * 10**9)
    plan = scene.planner().plan(scene.request())
    assert [verdict.check for verdict in plan.refused] == ["disk"]


def test_missing_acls_on_the_target_are_refused(scene: FailoverScene) -> None:
    from kafkakit.core.cluster_facts import AclBinding, AclOperation, AclPermission, AclResourceKind

    scene.q.admin.acls = set()
    scene.p.admin.acls = {
        AclBinding(
            kind=AclResourceKind.TOPIC, name=OLD, principal="User:app", operation=AclOperation.READ,
            permission=AclPermission.ALLOW,
        )
    }  # fmt: skip
    plan = scene.planner().plan(scene.request())
    assert [(verdict.check, "User:app" in verdict.text) for verdict in plan.refused] == [("acls", True)]


def lanes_scene() -> FailoverScene:
    """Lanes `live`, `slow` and `dlq` with records that `billing` has read; `fast` reads the lane `live`."""
    scene = FailoverScene(("live", "slow", "dlq"))
    scene.producer()
    for topic in (OLD, "orders.slow.1", "orders.dlq.1"):
        scene.write(topic, 5)
    scene.readers.append("billing")
    scene.read_all("billing")
    for number, offset in enumerate((5, 0)):
        scene.commit("fast", scene.route.lanes[0].segments[0], number, offset)
    return scene


def registered(*lanes: tuple[str, ...]) -> Callable[[FailoverScene], object]:
    return lambda scene: [scene.consumer("fast", lanes=each) for each in lanes]


def members(*topics: str) -> Callable[[FailoverScene], object]:
    held = [TopicPartition(topic, number) for topic in topics for number in range(2)]
    return lambda scene: scene.p.groups.join("fast", *held)


@pytest.mark.parametrize(
    ("happens", "lanes"),
    [
        ([registered(("live",))], ("live",)),
        ([registered(("live",), ("live", "dlq"))], ("live",)),
        ([registered(("live",), ("slow",))], None),
        ([registered(("live",), ())], None),
        ([registered(("live",)), lambda s: s.commit("fast", s.route.lanes[1].segments[0], 0, 1)], None),
        ([registered(("live",)), lambda s: s.commit("fast", s.route.lanes[1].segments[0], 0, 0)], ("live",)),
        ([registered(("live",)), members("orders.slow.1")], None),
        ([members(OLD)], ("live",)),
        ([members(OLD), lambda s: s.commit("fast", s.route.lanes[1].segments[0], 0, 1)], None),
        ([members(OLD), lambda s: s.p.groups.rebalance("fast")], None),
        ([members(OLD, "orders.slow.1")], None),
        ([members("other")], None),
        ([], None),
    ],
)
def test_the_lanes_that_a_group_reads(
    happens: list[Callable[[FailoverScene], object]], lanes: tuple[str, ...] | None
) -> None:
    """All of them unless it is certain that it does not: by what its consumers registered, or by what members hold."""
    scene = lanes_scene()
    for each in happens:
        each(scene)
    operation = scene.planner().plan(scene.request()).operation
    assert (operation.groups, operation.lanes) == (("billing", "fast"), {} if lanes is None else {"fast": lanes})
    assert operation.readers_of(1) == operation.begins_in("live") == ("billing", "fast")
    everyone = ("billing",) if lanes else ("billing", "fast")
    assert operation.readers_of(2) == operation.begins_in("slow") == everyone
    named = scene.planner().plan(scene.request(groups=("fast",))).operation
    assert named.lanes == {}, "--require-group names a group for all lanes"


@pytest.mark.parametrize("happens", [registered(("live",)), members(OLD)])
def test_the_lanes_that_a_group_reads_on_clusters_that_are_not_read(
    happens: Callable[[FailoverScene], object],
) -> None:
    scene = lanes_scene()
    happens(scene)
    route, evidence = scene.route, scene.parts().observer.plan_look(scene.begin().record.operation, scene.route)
    is_registered = bool(evidence.consumers("fast"))
    expected = {"fast": ("live",)} if is_registered else {}
    assert lanes_read(scene.request(), route, evidence, ("fast",)) == {"fast": ("live",)}
    away = replace(evidence, old={})
    assert lanes_read(scene.request(), route, away, ("fast",)) == expected
    silent = replace(evidence, old={**evidence.old, 2: TopicStanding(problem="away")})
    assert lanes_read(scene.request(), route, silent, ("fast",)) == expected
    lanes = [replace(lane, segments=(replace(lane.segments[0], cluster_id=lane.name),)) for lane in route.lanes]
    assert lanes_read(scene.request(), replace(route, lanes=tuple(lanes)), evidence, ("fast",)) == expected


def test_a_group_that_begins_to_read_a_lane_keeps_its_topic_until_it_is_named() -> None:
    scene = lanes_scene()
    scene.consumer("fast", lanes=("live",))
    slow = scene.route.lanes[1].segments[0]
    assert scene.run(until=Step.DRAINED, wait_s=5).step is Step.DRAINED
    scene.commit("fast", slow, 0, 2)
    end = scene.run(wait_s=5)
    assert (end.kind, end.reason, "old topics: fast" in end.lines[0]) == (EndKind.REFUSED, "unknown-groups", True)
    end = scene.run(wait_s=5, groups=("fast",))
    assert (end.kind, end.reason, end.records) == (EndKind.WAITING, "backlog", 3)
    scene.commit("fast", slow, 0, 5)
    assert scene.run(wait_s=5, groups=("fast",)).step is Step.RETIRED


def test_only_groups_of_the_stream_are_required_and_share_groups_are_refused(scene: FailoverScene) -> None:
    scene.p.groups.seed("unrelated", TopicPartition("other", 0), 5)
    assert scene.planner().plan(scene.request()).operation.groups == ("billing",)
    scene.p.groups.add_group("sharing", kind=GroupType.SHARE)
    scene.p.groups.join("sharing", TopicPartition(OLD, 0))
    plan = scene.planner().plan(scene.request())
    assert [(verdict.check, verdict.where) for verdict in plan.refused] == [("share-group", "sharing")]


def test_the_duplicate_budget_is_kept(scene: FailoverScene) -> None:
    scene.p.groups.seed("billing", TopicPartition(OLD, 0), 3, "what is this")
    plan = scene.planner().plan(scene.request(max_duplicates=10))
    assert plan.budget.most is None
    assert [verdict.check for verdict in plan.refused] == ["duplicates"]


def test_hazards_of_commits_are_warnings_of_the_plan(scene: FailoverScene) -> None:
    segment = scene.route.lanes[0].segments[0]
    scene.commit("billing", segment, 0, 10, epoch=1)
    scene.commit("billing", replace(segment, cluster_id="another-id"), 1, 5, epoch=1)
    scene.commit("ahead", segment, 0, 99)
    scene.commit("ahead", segment, 1, 98)
    found = [each for each in scene.planner().plan(scene.request()).verdicts if each.check == "metadata"]
    assert [(each.level, each.where) for each in found] == [("warning", "ahead"), ("warning", "billing")]
    assert found[0].text.startswith(f"{OLD}: partition 0: committed 99, but the log ends at 10")
    assert found[0].text.endswith("(2 partitions are like this)")
    assert found[1].text.startswith(f"{OLD}: partition 1: ")


def test_another_request_does_not_continue_an_open_operation(scene: FailoverScene) -> None:
    scene.run(until=Step.ROUTED)
    with pytest.raises(RefusedError, match="is open, and it is not this one"):
        scene.run(to="r")


# -- aborting, leases, conflicts ------------------------------------------------------------------------


def test_a_plan_of_an_older_route_is_not_begun(scene: FailoverScene) -> None:
    planner = scene.planner()
    plan = planner.plan(scene.request())
    scene.routes.change(
        STREAM, lambda route: replace(route, groups=(GroupRule(name="new"),)), by="me", what="groups", at_ms=1
    )
    with pytest.raises(ConflictError, match="was changed since the plan"):
        planner.begin(plan)
    assert scene.route.operation is None
    scene.commit("new", scene.route.lanes[0].segments[0], 0, 10)
    scene.commit("new", scene.route.lanes[0].segments[0], 1, 5)
    assert scene.run().step is Step.RETIRED


def test_an_operation_is_aborted_before_producers_move(scene: FailoverScene) -> None:
    scene.clients[1].follows = False
    assert scene.run(wait_s=1).step is Step.OPENED
    closing = abort(scene.parts(), scene.open_cluster, STREAM)
    assert closing.results == (("orders.live.2", "deleted"),)
    assert (scene.route.operation, len(scene.route.lanes[0].segments)) == (None, 1)
    assert "orders.live.2" not in scene.q.admin.topics
    scene.clients[1].follows = True
    assert scene.run().step is Step.RETIRED


def test_an_abort_keeps_a_topic_that_holds_records(scene: FailoverScene) -> None:
    scene.clients[1].follows = False
    scene.run(wait_s=1)
    scene.write("orders.live.2", cluster="q")
    closing = abort(scene.parts(), scene.open_cluster, STREAM)
    assert closing.results == (("orders.live.2", "kept: it is not empty"),)


def test_a_topic_that_was_created_again_is_not_reclaimed(scene: FailoverScene) -> None:
    end = scene.run()
    scene.p.admin.add_topic(OLD, {0: (1,), 1: (1,)})
    closing = reclaim(scene.parts(), scene.open_cluster, end.record.operation.id, grace_s=0, keep=False)
    assert closing.results == ((OLD, "kept: it was created again, under another id"),)
    assert OLD in scene.p.admin.topics


def test_what_cannot_be_checked_is_not_reclaimed(scene: FailoverScene) -> None:
    end = scene.run()
    scene.p.is_away = True
    with pytest.raises(TryLaterError, match="not every old topic can be checked"):
        reclaim(scene.parts(), scene.open_cluster, end.record.operation.id, grace_s=0, keep=False)
    closing = reclaim(scene.parts(), scene.open_cluster, end.record.operation.id, grace_s=0, keep=True)
    assert closing.results == ((OLD, "kept"),)


def test_a_topic_with_more_partitions_is_not_taken_for_a_deleted_one(scene: FailoverScene) -> None:
    end = scene.run()
    topic = scene.p.admin.topics[OLD]
    topic.partitions[2] = topic.partitions[1]
    certificate, _ = newest_certificate(scene.parts().journals)
    check = check_certificate(certificate, scene.open_cluster, end.record.certificate)
    assert (check.gone, len(check.unread), check.is_anchored) == ((), 1, True)
    scene.p.admin.cluster_id = "other"
    check = check_certificate(certificate, scene.open_cluster, "another hash")
    assert (check.gone, len(check.unread), check.is_anchored) == ((), 1, False)


def test_offsets_that_went_back_show(scene: FailoverScene) -> None:
    end = scene.run()
    certificate, _ = newest_certificate(scene.parts().journals)
    scene.p.groups.seed("billing", TopicPartition(OLD, 0), 3)
    check = check_certificate(certificate, scene.open_cluster, end.record.certificate)
    assert check.short == (f"group billing is at 3 of 10 in {OLD}",)


def test_seeding_never_moves_an_offset_that_came_since_the_look(scene: FailoverScene) -> None:
    scene.q.admin.add_topic("new", {0: (1,), 1: (1,)})
    key, other = TopicPartition("new", 0), TopicPartition("new", 1)
    scene.q.groups.seed("billing", key, 7)
    assert scene.parts().effects.seed("q", {"billing": {key: 0, other: 0}}) == ()
    found = scene.q.groups.committed("billing")
    assert {place: commit.offset for place, commit in found.items() if hasattr(commit, "offset")} == {key: 7, other: 0}


def test_an_operation_cannot_be_aborted_after_producers_moved(scene: FailoverScene) -> None:
    scene.run(until=Step.ROUTED)
    with pytest.raises(RefusedError, match="cannot be aborted"):
        abort(scene.parts(), scene.open_cluster, STREAM)


def test_a_lost_lease_stops_before_the_next_effect(scene: FailoverScene) -> None:
    run = scene.begin()
    scene.is_lease_lost = True
    before = scene.store.writes
    with pytest.raises(LeaseLostError):
        run.run(Step.RETIRED, 600)
    assert (scene.store.writes, scene.q.admin.calls) == (before, [])


@pytest.mark.parametrize("skews", [(600, -600, 600, -600), (-600, 600, -600, 600)])
def test_clocks_that_are_wrong_by_minutes_change_nothing(scene: FailoverScene, skews: tuple[int, ...]) -> None:
    """Each step by a process on another host: windows and silence are measured, and times only written down."""
    scene.producer(is_live=False, delivery_timeout_ms=20_000)
    for skew_s, step in zip(skews, (Step.ROUTED, Step.SEALED, Step.DRAINED, Step.RETIRED), strict=True):
        scene.skew_s = skew_s
        if step is Step.SEALED:
            scene.readers.clear()
            scene.write(OLD, 1)
            assert scene.run(wait_s=5).step is Step.ROUTED, "the window is no shorter by another clock"
            assert scene.run(wait_s=126).step is Step.SEALED
            scene.readers.append("billing")
        else:
            assert scene.run(until=step).step is step
    record = next(scene.parts().journals.records())
    assert (record.basis, record.window_s >= 125, record.late, record.end) == ("time", True, 0, Step.RETIRED)
    rows = [row[0] for row in run_report("run", scene.run()).rows]
    assert rows == [Step.PLANNED, Step.OPENED, Step.ROUTED, Step.SEALED, Step.DRAINED, Step.RETIRED]
    # The grace is counted from what the last process wrote down, and ends minutes early or late with its clock.
    scene.skew_s = 0
    with pytest.raises(TryLaterError, match="grace"):
        reclaim(scene.parts(), scene.open_cluster, record.operation.id, grace_s=3600, keep=False)
    scene.clock.advance(3600 + 600)
    closing = reclaim(scene.parts(), scene.open_cluster, record.operation.id, grace_s=3600, keep=False)
    assert closing.results == ((OLD, "deleted"),)


def test_evidence_of_another_route_changes_nothing(scene: FailoverScene) -> None:
    """A process that was stopped between its look and its change must not seal what another one saw grow since."""
    scene.run(until=Step.ROUTED)
    stopped = scene.planner().open_run(scene.route)
    assert stopped is not None
    parts, old = scene.parts(), scene.route
    evidence = parts.observer.look(stopped.record, old, retiring=True)
    scene.run(until=Step.DRAINED)
    with pytest.raises(ConflictError, match="was changed by another process"):
        edit_route(parts, stopped.record, RouteEdit.SEAL, evidence)
    before = scene.route
    with pytest.raises(LeaseLostError, match="was written by another process"):
        stopped.run(Step.RETIRED, 0)
    assert scene.route == before


def edit_route(parts: FailoverParts, record: OperationRecord, edit: RouteEdit, evidence: Evidence) -> None:
    parts.routes.change(
        STREAM,
        lambda found: apply_edit(record, require_same(found, evidence.route), edit, evidence),
        by="me",
        what="x",
        at_ms=1,
    )


# -- dead letters ---------------------------------------------------------------------------------------

LETTERS, NEW_LETTERS = "orders.dlq.1", "orders.dlq.2"
COPY = DeadLetterChoice.COPY
HEADERS = provenance_headers(
    (("trace", b"7"),),
    RecordOrigin(
        stream=STREAM, lane="live", segment=1, epoch=1, cluster_id="p-id", topic=OLD, partition=0, offset=3, at_ms=5
    ),
    RecordFailure(group="billing", reason="poison", at_ms=6, tries=5),
)


@pytest.fixture
def dead() -> FailoverScene:
    """Five dead letters, which no group reads, and a group that reads the lane `live`."""
    scene = FailoverScene(("live", "dlq"))
    scene.rejects = None
    scene.write(OLD, 10)
    scene.producer()
    scene.consumer("billing")
    scene.readers.append("billing")
    scene.read_all("billing")
    bury(scene, 5)
    return scene


def bury(scene: FailoverScene, count: int, partition: int = 0) -> None:
    producer = scene.p.data.producer()
    for number in range(count):
        producer.send(TopicPartition(LETTERS, partition), b"bad%d" % number, b"k", HEADERS)


def letters_of(scene: FailoverScene, topic: str = NEW_LETTERS, cluster: str = "q") -> list[bytes]:
    data = scene.clusters[cluster].data
    return [each.value for number in range(2) for each in data.records(TopicPartition(topic, number))]


def refer(scene: FailoverScene, *offsets: int) -> None:
    """References to rejected records of the lane `live`."""
    scene.p.admin.add_topic(REJECTS_TOPIC, {0: (1,)})
    scene.p.admin.topics[REJECTS_TOPIC].configs["cleanup.policy"] = "compact"
    scene.p.log.follow()
    source = scene.route.lanes[0].segments[0]
    topic_id = bytes.fromhex(source.topic_id.replace("-", ""))
    failure = RecordFailure(group="billing", reason="late", at_ms=9, tries=1)
    for offset in offsets:
        origin = RecordOrigin(
            stream=STREAM, lane="live", segment=1, epoch=1, cluster_id="p-id", topic=OLD, partition=0, offset=offset
        )
        key, value = encode_reject(LedgerReject(topic_id=topic_id, place=origin, failure=failure))
        scene.p.data.producer().send(TopicPartition(REJECTS_TOPIC, 0), value, key)


def closed(scene: FailoverScene, end: RunEnd, **more: Any) -> ClosingResult:
    return reclaim(scene.parts(), scene.open_cluster, end.record.operation.id, **{"grace_s": 0, "keep": False, **more})


def test_dead_letters_that_no_group_reads_stay_readable_and_keep_nothing_waiting(dead: FailoverScene) -> None:
    plan = dead.planner().plan(dead.request())
    assert [(row.topic, row.cluster, row.letters, row.references, row.groups) for row in plan.letters] == [
        (LETTERS, "p", 5, 0, ())
    ]
    said = [each for each in plan.verdicts if each.check == "dead-letters"]
    assert [(each.level, each.text) for each in said] == [(Level.OK, "5 dead letters on p: stay readable")]
    end = dead.run(wait_s=5)
    assert (end.kind, end.step, end.record.left) == (EndKind.DONE, Step.RETIRED, (2,))
    assert dead.clock.elapsed < 10
    live, letters = dead.route.lanes
    assert [each.cluster for each in live.segments] == ["q"]
    assert [(each.topic, each.state) for each in letters.segments] == [
        (LETTERS, SegmentState.DRAINING), (NEW_LETTERS, SegmentState.ACTIVE)
    ]  # fmt: skip
    certificate, _ = newest_certificate(dead.parts().journals)
    assert [(each.segment, each.letters, each.is_left, each.copied) for each in certificate.letters] == [
        (2, 5, True, 0)
    ]
    assert dead.run(wait_s=5).kind is EndKind.DONE, "the same command is told that it was done"
    assert [record.end for record in dead.parts().journals.records()] == [Step.RETIRED]


def test_a_topic_of_dead_letters_is_reclaimed_once_they_are_gone(dead: FailoverScene) -> None:
    end = dead.run(wait_s=5)
    done = closed(dead, end)
    assert done.results == ((OLD, "deleted"), (LETTERS, f"kept: 5 dead letters in {LETTERS}"))
    assert (done.kept, done.record.end) == ((f"5 dead letters in {LETTERS}",), Step.RETIRED)
    assert LETTERS in dead.p.admin.topics
    dead.p.log.trim(TopicPartition(LETTERS, 0), 5)
    done = closed(dead, end)
    assert done.results == ((OLD, "does not exist"), (LETTERS, "deleted"))
    assert (done.record.end, [each.topic for each in dead.route.lanes[1].segments]) == (Step.RECLAIMED, [NEW_LETTERS])


def test_a_reclaim_copies_dead_letters_that_were_left(dead: FailoverScene) -> None:
    end = dead.run(wait_s=5)
    done = closed(dead, end, recover=True)
    assert (done.copied, done.results[1], done.record.end) == (5, (LETTERS, "deleted"), Step.RECLAIMED)
    assert letters_of(dead) == [b"bad0", b"bad1", b"bad2", b"bad3", b"bad4"]
    assert [each.cluster for _, each in dead.route.segments()] == ["q", "q"]


def test_an_operation_is_closed_and_its_dead_letters_are_given_up_from_the_route(dead: FailoverScene) -> None:
    end = dead.run(wait_s=5)
    dead.p.is_away = True
    done = closed(dead, end, keep=True)
    assert (done.results, done.record.end) == (((OLD, "kept"), (LETTERS, "kept")), Step.RECLAIMED)
    assert [each.cluster for _, each in dead.route.segments()] == ["q", "q"]


def test_dead_letters_are_copied_with_their_headers(dead: FailoverScene) -> None:
    end = dead.run(wait_s=5, dead_letters=COPY)
    assert (end.kind, end.step, end.record.left) == (EndKind.DONE, Step.RETIRED, ())
    (first, *others) = dead.q.data.records(TopicPartition(NEW_LETTERS, 0))
    assert (first.key, first.value, tuple(first.headers), len(others)) == (b"k", b"bad0", HEADERS, 4)
    certificate, _ = newest_certificate(dead.parts().journals)
    assert [(each.letters, each.copied, each.is_left) for each in certificate.letters] == [(5, 5, False)]
    assert closed(dead, end).results == ((OLD, "deleted"), (LETTERS, "deleted"))


def test_what_was_replayed_is_not_copied(dead: FailoverScene) -> None:
    segment = dead.route.lanes[1].segments[0]
    dead.commit(replay_group(STREAM), segment, 0, 2, epoch=1)
    plan = dead.planner().plan(dead.request())
    assert plan.letters[0].groups == (f"{replay_group(STREAM)} (what was replayed)",)
    assert replay_group(STREAM) not in (*plan.operation.groups, *plan.operation.letter_groups)
    end = dead.run(wait_s=5, dead_letters=COPY)
    assert (end.step, letters_of(dead)) == (Step.RETIRED, [b"bad2", b"bad3", b"bad4"])
    assert (end.record.copies[2].records, end.record.copies[2].passed) == (3, 2)


@pytest.mark.parametrize("choice", list(DeadLetterChoice))
def test_a_run_with_dead_letters_ends_after_the_process_ends_at_any_write(choice: DeadLetterChoice) -> None:
    number = 0
    while True:
        scene = FailoverScene(("live", "dlq"))
        scene.rejects = None
        scene.write(OLD, 3)
        scene.producer()
        bury(scene, 3)
        refer(scene, 1)
        scene.store.after, scene.store.cut = number % 2 == 0, scene.store.count + number // 2
        try:
            end = scene.run(wait_s=5, dead_letters=choice)
            break
        except Killed:
            scene.store.cut = None
        end = scene.run(wait_s=5, dead_letters=choice)
        assert (end.kind, end.step) == (EndKind.DONE, Step.RETIRED)
        ends = [record.end for record in scene.parts().journals.records() if record.reached_ms]
        assert ends == [Step.RETIRED]
        kept = letters_of(scene, LETTERS, "p") if choice is DeadLetterChoice.LEAVE else letters_of(scene)
        assert {b"bad0", b"bad1", b"bad2"} <= set(kept)
        closed(scene, end, recover=True)
        assert {b"bad0", b"bad1", b"bad2", b"1"} <= set(letters_of(scene))
        assert {each.cluster for _, each in scene.route.segments()} == {"q"}
        assert OLD not in scene.p.admin.topics
        number += 1
    assert (end.step, number > 40) == (Step.RETIRED, True)


def test_records_of_references_are_left_or_copied(dead: FailoverScene) -> None:
    refer(dead, 1, 4)
    end = dead.run(wait_s=5)
    assert (end.step, end.record.left) == (Step.RETIRED, (1, 2))
    live = dead.route.lanes[0]
    assert ([each.cluster for each in live.segments], [each.topic for each in live.left]) == (["q"], [OLD])
    assert list(reading_plan(dead.route, None).sources) == ["q-id"], "no client reads what is left"
    done = closed(dead, end)
    assert done.kept == (f"2 rejected records in {OLD}", f"5 dead letters in {LETTERS}")
    done = closed(dead, end, recover=True)
    assert (done.copied, done.record.end, [lane.left for lane in dead.route.lanes]) == (7, Step.RECLAIMED, [(), ()])
    assert sorted(letters_of(dead)) == [b"1", b"4", b"bad0", b"bad1", b"bad2", b"bad3", b"bad4"]


def test_references_are_copied_and_those_to_deleted_records_are_counted(dead: FailoverScene) -> None:
    refer(dead, 1, 4)
    dead.p.log.trim(TopicPartition(OLD, 0), 2)
    end = dead.run(wait_s=5, dead_letters=COPY)
    assert (end.kind, end.step) == (EndKind.DONE, Step.RETIRED)
    certificate, _ = newest_certificate(dead.parts().journals)
    assert [(each.segment, each.letters, each.gone, each.copied) for each in certificate.letters] == [
        (1, 0, 1, 1), (2, 5, 0, 5)
    ]  # fmt: skip
    copied = dead.q.data.records(TopicPartition(NEW_LETTERS, 0))[-1]
    found = read_provenance(copied.headers)
    assert found is not None
    assert (copied.value, found.origin.offset, found.failure.reason) == (b"4", 4, "late")


def test_references_without_a_lane_for_them_are_refused_or_left(scene: FailoverScene) -> None:
    scene.rejects = None
    refer(scene, 2)
    plan = scene.planner().plan(scene.request(dead_letters=COPY))
    assert [(each.check, "add the lane" in each.text) for each in plan.refused] == [("dead-letters", True)]
    end = scene.run(wait_s=5)
    assert (end.step, [each.topic for each in scene.route.lanes[0].left]) == (Step.RETIRED, [OLD])


def test_references_that_cannot_be_counted_keep_the_segment(dead: FailoverScene) -> None:
    dead.p.admin.add_topic(REJECTS_TOPIC, {0: (1,)})
    end = dead.run(wait_s=5)
    assert (end.kind, end.reason, "is not compacted" in end.lines[0]) == (EndKind.WAITING, "unknown", True)


def test_a_group_of_dead_letters_that_lags_is_not_waited_for_where_they_stay(dead: FailoverScene) -> None:
    segment = dead.route.lanes[1].segments[0]
    dead.commit("audit", segment, 0, 2)
    plan = dead.planner().plan(dead.request())
    assert (plan.operation.groups, plan.operation.letter_groups) == (("billing",), ("audit",))
    assert plan.letters[0].groups == ("audit (3 to read)",)
    assert dead.run(wait_s=5).step is Step.RETIRED
    found = dead.q.groups.committed("audit")
    assert {key.topic for key in found} == {NEW_LETTERS}, "it begins at the beginning of the new topic"


def test_a_group_of_dead_letters_is_waited_for_where_they_are_copied(dead: FailoverScene) -> None:
    segment = dead.route.lanes[1].segments[0]
    dead.commit("audit", segment, 0, 2)
    end = dead.run(wait_s=5, dead_letters=COPY)
    assert (end.kind, end.reason, end.records) == (EndKind.WAITING, "backlog", 3)
    dead.commit("audit", segment, 0, 5)
    assert dead.run(wait_s=5, dead_letters=COPY).step is Step.RETIRED
    assert len(letters_of(dead)) == 5


def test_a_choice_may_change_while_the_operation_waits(dead: FailoverScene) -> None:
    dead.commit("audit", dead.route.lanes[1].segments[0], 0, 2)
    assert dead.run(wait_s=5, dead_letters=COPY).reason == "backlog"
    end = dead.run(wait_s=5, dead_letters=DeadLetterChoice.LEAVE)
    assert (end.step, end.record.left, letters_of(dead)) == (Step.RETIRED, (2,), [])


def test_commits_that_an_earlier_failover_made_do_not_make_a_reader(dead: FailoverScene) -> None:
    for number in range(2):
        dead.commit("billing", dead.route.lanes[1].segments[0], number, 0)
    assert dead.planner().plan(dead.request()).operation.letter_groups == ()
    assert dead.run(wait_s=5, dead_letters=COPY).step is Step.RETIRED


def test_a_topic_of_dead_letters_that_is_gone_counts_as_empty(dead: FailoverScene) -> None:
    del dead.p.admin.topics[LETTERS]
    dead.p.admin.acls = set()
    plan = dead.planner().plan(dead.request(is_open_by_default=True))
    assert [(each.where, each.level) for each in plan.verdicts if "counts as empty" in each.text] == [
        (LETTERS, Level.WARNING)
    ]
    end = dead.run(wait_s=5, is_open_by_default=True)
    assert (end.kind, end.step, end.record.left) == (EndKind.DONE, Step.RETIRED, ())
    assert closed(dead, end).results == ((OLD, "deleted"), (LETTERS, "does not exist"))


def test_a_left_topic_that_was_deleted_keeps_no_later_failover(dead: FailoverScene) -> None:
    assert dead.run(wait_s=5).step is Step.RETIRED
    del dead.p.admin.topics[LETTERS]
    end = dead.run(to="r", wait_s=5)
    assert (end.kind, end.step) == (EndKind.DONE, Step.RETIRED), end.lines
    assert [each.cluster for _, each in dead.route.segments()] == ["r", "r"]


def test_left_dead_letters_are_left_again_by_the_next_failover(dead: FailoverScene) -> None:
    first = dead.run(wait_s=5)
    end = dead.run(to="r", wait_s=5)
    assert (end.step, end.record.left) == (Step.RETIRED, (2,))
    assert [each.topic for each in dead.route.lanes[1].segments] == [LETTERS, "orders.dlq.7"]
    assert end_by_route(first.record, dead.route) is None
    done = closed(dead, end, recover=True)
    assert (done.copied, done.record.end) == (5, Step.RECLAIMED)
    assert len(letters_of(dead, "orders.dlq.7", "r")) == 5


def test_dead_letters_that_arrive_meanwhile_are_counted(dead: FailoverScene) -> None:
    dead.readers.clear()
    dead.write(OLD, 1)
    assert dead.run(until=Step.ROUTED).step is Step.ROUTED
    bury(dead, 2, partition=1)
    assert dead.run(wait_s=5).reason == "backlog"
    dead.readers.append("billing")
    assert dead.run(wait_s=5).step is Step.RETIRED
    certificate, _ = newest_certificate(dead.parts().journals)
    assert [each.letters for each in certificate.letters] == [7]


def test_dead_letters_that_come_after_the_seal_void_it(dead: FailoverScene) -> None:
    dead.readers.clear()
    dead.write(OLD, 1)
    assert dead.run(wait_s=5).step is Step.SEALED
    bury(dead, 1)
    assert dead.run(wait_s=5).kind is EndKind.LATE
    dead.readers.append("billing")
    assert dead.run(wait_s=5).step is Step.RETIRED


def test_strict_order_holds_no_topic_of_dead_letters_up(dead: FailoverScene) -> None:
    assert dead.run(wait_s=5, order=ReadOrder.STRICT).step is Step.RETIRED
    assert [len(lane.readable) for lane in dead.route.lanes] == [1, 2]


def test_dead_letters_that_came_late_are_copied_with_those_that_were_left(dead: FailoverScene) -> None:
    """But for what a replay has written again."""
    end = dead.run(wait_s=5)
    bury(dead, 3)
    dead.commit(replay_group(STREAM), dead.route.lanes[1].segments[0], 0, 6, epoch=1)
    done = closed(dead, end, recover=True)
    assert (done.copied, done.results[1], done.record.end) == (2, (LETTERS, "deleted"), Step.RECLAIMED)
    assert letters_of(dead) == [b"bad1", b"bad2"]
    assert (done.record.copies[2].passed, done.record.copies[2].offsets[0]) == (6, 8)


def test_records_that_came_late_are_copied_to_the_current_topic(scene: FailoverScene) -> None:
    end = scene.run()
    scene.write(OLD, 2)
    assert closed(scene, end).is_late
    done = closed(scene, end, recover=True)
    assert (done.copied, done.results, done.record.end) == (2, ((OLD, "deleted"),), Step.RECLAIMED)
    assert [each.value for each in scene.q.data.records(TopicPartition("orders.live.2", 0))] == [b"0", b"1"]
