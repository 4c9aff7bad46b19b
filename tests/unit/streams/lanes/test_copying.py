"""Copies of references: when they are due, and what is left when the program is stopped."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.errors import OperationFailedError, RefusedError, TryLaterError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.lanes.act.dead_letters import RejectCopier, copy_again_and_again
from kafkakit.streams.lanes.act.reject_ledger import PLACE, RejectLedger
from kafkakit.streams.lanes.decide import CopyOutcome, SourceRetention, copy_at_ms
from kafkakit.streams.model.provenance import REJECTS_TOPIC, LedgerReject, read_provenance
from tests.clusters.streams_batches import Rec, batch
from tests.rigs.lanes import LaneWorld, failure

LIVE = TopicPartition("orders.live.1", 0)
DAY_MS = 86_400_000


class Killed(BaseException):
    """Stands for kill -9."""


def copy(world: LaneWorld, ahead_s: float | None = 3600.0) -> CopyOutcome:
    return RejectCopier(world.clusters, world.clock, lambda: None, wait_s=5).copy(world.route, ahead_s=ahead_s)


@pytest.fixture
def world() -> LaneWorld:
    world = LaneWorld()
    world.admin.topics[LIVE.topic].configs["retention.ms"] = str(DAY_MS)
    world.put("live", *(b"%d" % n for n in range(6)), headers=(("trace", b"1"),))
    return world


def test_what_retention_may_take_soon_is_copied_and_the_rest_waits(world: LaneWorld) -> None:
    world.reject(0, at_ms=world.now_ms - DAY_MS + 3_600_000)
    world.reject(1, at_ms=world.now_ms - DAY_MS + 3_600_001)
    world.reject(2)
    outcome = copy(world)
    assert (outcome.copied, outcome.waiting, outcome.next_at_ms) == (1, 2, world.now_ms + 1)
    (copied,) = world.records("dlq")
    found = read_provenance(copied.headers)
    assert found is not None
    assert (found.origin.offset, found.failure.group, found.hops) == (0, "billing", 1)
    assert (copied.key, copied.value, copied.headers[0]) == (b"k", b"0", ("trace", b"1"))
    assert [entry.place.offset for entry in world.ledger.read()[0].values()] == [1, 2]
    world.clock.advance(86_400)
    assert copy(world).copied == 2
    assert world.ledger.read() == ({}, 0)
    assert copy(world) == CopyOutcome(copied=0, waiting=0, next_at_ms=None, lost={}, failed={})


@pytest.mark.parametrize(("key", "value"), [("retention.bytes", "1000"), ("cleanup.policy", "compact,delete")])
def test_what_size_or_compaction_may_take_is_copied_at_once(world: LaneWorld, key: str, value: str) -> None:
    world.admin.topics[LIVE.topic].configs[key] = value
    world.reject(3)
    assert copy(world).copied == 1


@given(st.none() | st.integers(0, 10**13), st.none() | st.integers(0, 10**12), st.integers(0, 10**10))
def test_time_never_deletes_a_record_before_its_copy_is_due(at: int | None, keep: int | None, ahead: int) -> None:
    due = copy_at_ms(at, SourceRetention(retention_ms=keep), ahead)
    if keep is None:
        assert due is None
    else:
        assert due is not None
        assert due <= max(0, (0 if at is None else at) + keep - ahead)
        assert at is None or due in (0, at + keep - ahead)


@pytest.mark.parametrize("at", range(1, 9))
def test_wherever_it_is_killed_no_reference_is_lost(world: LaneWorld, at: int) -> None:
    world.reject(0, 2, 4, 5)
    writes = 0

    def kill(_: TopicPartition) -> None:
        nonlocal writes
        writes += 1
        if writes == at:
            raise Killed

    world.data.on_send = kill
    with pytest.raises(Killed):
        copy(world, None)
    copied = set(world.values("dlq"))
    assert copied | {b"%d" % e.place.offset for e in world.ledger.read()[0].values()} == {b"0", b"2", b"4", b"5"}
    copy(world, None)
    counts = Counter(world.values("dlq"))
    assert (sorted(counts), max(counts.values()) <= 2) == ([b"0", b"2", b"4", b"5"], True)
    assert world.ledger.read() == ({}, 0)


def test_a_copy_that_is_not_acknowledged_keeps_its_reference(world: LaneWorld) -> None:
    world.reject(0, 1)
    world.data.refuse = 1
    with pytest.raises(OperationFailedError, match="1 of 2 records not acknowledged: refused"):
        copy(world, None)
    assert len(world.ledger.read()[0]) == 2


def test_what_is_gone_is_lost_and_what_cannot_be_read_is_tried_again(world: LaneWorld) -> None:
    world.log.append(LIVE, batch(0, [Rec(b"k", b"v")])[:-3] + b"\xff\xff\xff")
    world.reject(0, 5, 6, 900)
    world.log.trim(LIVE, 1)
    outcome = copy(world, None)
    assert outcome.copied == 1
    assert list(outcome.lost) == ["orders.live.1/0@0 of group billing", "orders.live.1/0@900 of group billing"]
    assert list(outcome.failed) == ["orders.live.1/0@6 of group billing"]
    assert sorted(entry.place.offset for entry in world.ledger.read()[0].values()) == [0, 6, 900]
    world.add_topic(LIVE.topic, 2)
    assert set(copy(world, None).lost.values()) == {"its topic was deleted"}


def test_an_entry_does_not_lead_to_a_topic_of_another_stream(world: LaneWorld) -> None:
    world.add_topic("salaries", 1)
    world.data.producer().send(TopicPartition("salaries", 0), b"secret")
    place = replace(world.origin(), topic="salaries")
    for topic_id in (world.log.places(["salaries"])["salaries"].topic_id, bytes(range(16))):
        world.ledger.add([LedgerReject(topic_id=topic_id, place=place, failure=failure())])
        outcome = copy(world, None)
        assert (outcome.copied, list(outcome.failed.values())[:1]) == (0, ["its topic is not in the stream's route"])
    live = world.log.places([LIVE.topic])[LIVE.topic].topic_id
    world.ledger.add([LedgerReject(topic_id=live, place=place, failure=failure())])
    assert list(copy(world, None).lost.values()) == ["its topic was deleted"]
    assert world.values("dlq") == []


def test_streams_leave_each_others_references_alone(world: LaneWorld) -> None:
    world.reject(0)
    entry = next(iter(world.ledger.read()[0].values()))
    world.ledger.add([replace(entry, place=replace(entry.place, stream="other", offset=1))])
    assert copy(world, None).copied == 1
    assert [entry.place.stream for entry in world.ledger.read()[0].values()] == ["other"]


def test_a_ledger_with_rubbish_is_read_and_one_that_is_not_compacted_refused(world: LaneWorld) -> None:
    world.reject(0)
    producer = world.data.producer()
    for key, value in ((None, b"x"), (b"", b"{}"), (b"\xff", b"\xff"), (b"a/b/c/d", b"x" * 20_000)):
        producer.send(PLACE, value, key)
    assert [len(part) if isinstance(part, dict) else part for part in world.ledger.read()] == [1, 4]
    world.admin.topics[REJECTS_TOPIC].configs["cleanup.policy"] = "delete"
    with pytest.raises(RefusedError, match="not compacted"):
        world.ledger.read()


def test_a_write_without_an_answer_is_no_entry(world: LaneWorld) -> None:
    world.reject(0)
    world.data.away = True
    with pytest.raises(OperationFailedError, match="1 of 1 records not acknowledged"):
        world.reject(1)
    with pytest.raises(TryLaterError):
        RejectLedger(world, world.clock, wait_s=5).read()


def test_a_lane_without_an_active_segment_and_a_route_without_the_lane_are_refused(world: LaneWorld) -> None:
    live, retry, dead = world.route.lanes
    world.route = replace(world.route, lanes=(live, retry, replace(dead, segments=(), is_paused=True)))
    with pytest.raises(RefusedError, match="no active segment"):
        copy(world)
    world.route = replace(world.route, lanes=(live, retry))
    with pytest.raises(UsageError, match="has no lane 'dlq'"):
        copy(world)


def test_looking_again_and_again_survives_a_cluster_that_is_away(world: LaneWorld) -> None:
    world.reject(0)
    told: list[int] = []
    warned: list[str] = []
    looks = iter([TryLaterError("away"), None, None, Killed()])

    def look() -> CopyOutcome:
        failure = next(looks)
        if failure:
            raise failure
        return copy(world, None)

    with pytest.raises(Killed):
        copy_again_and_again(
            look, world.clock, 60, say=lambda found: told.append(found.copied), warn=warned.append, first=copy(world)
        )
    assert (told, warned, world.clock.monotonic()) == ([0, 1], ["away; trying again"], 240)
