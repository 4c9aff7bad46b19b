"""The consumer over groups in memory; rejected records in the lane `dlq`."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import groupby
from typing import Any
from zlib import crc32

import pytest

from kafkakit.adapters.host import SystemClock
from kafkakit.core.cluster_facts import CommittedOffset, ItemError, LogSpan
from kafkakit.core.errors import RefusedError, TryLaterError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.streams import MemberRule
from kafkakit.streams.client import cluster_reader
from kafkakit.streams.client.client import StreamClient
from kafkakit.streams.client.consumer import StreamConsumer
from kafkakit.streams.client.dead_letters import (
    LEFT_OUT_HEADER,
    LEFT_OUT_HEADERS_HEADER,
    ConsumerHooks,
    ConsumerOptions,
    DeadLetterLane,
    LeftOut,
    RejectedRecord,
    RejectReferences,
    RetryLane,
    until_due,
    with_references,
)
from kafkakit.streams.client.decide.figures import ConsumerState
from kafkakit.streams.client.decide.outgoing import ProducerLimits
from kafkakit.streams.client.decide.partition_work import restore_commit
from kafkakit.streams.client.decide.reading import TopicSource, reading_plan
from kafkakit.streams.client.decide.work_rules import (
    Mode,
    RejectError,
    RetryLaterError,
    RetryRule,
    WorkLimits,
    WorkRules,
)
from kafkakit.streams.client.workers import PartitionOrigin, StreamRecord
from kafkakit.streams.lanes.api_act import RejectLedger
from kafkakit.streams.model.commit import CommitIdentity, CommitState, OffsetRanges
from kafkakit.streams.model.dialects.registry import read_metadata
from kafkakit.streams.model.guarded_reads import BatchVerdict
from kafkakit.streams.model.kkm1.encode import encode_commit
from kafkakit.streams.model.provenance import RetryStep, read_provenance, read_retry_step
from kafkakit.streams.model.route import DLQ, RETRY, Lane, Route, Segment, SegmentState
from tests.fakes.group_consumer import FakeGroups, FakeRecord
from tests.rigs.lanes import LaneWorld
from tests.rigs.stream_routes import FakeClusters
from tests.rigs.waiting import until

Headers = tuple[tuple[str, bytes | None], ...]
TOPIC_ID = "00010203-0405-0607-0809-0a0b0c0d0e0f"
PLACE = TopicPartition("orders.live.1", 0)
IDENTITY = CommitIdentity(cluster_id="c1", topic_id=bytes(range(16)), partition=0, group="billing")
FAST = RetryRule(first_ms=5, max_ms=20, max_tries=3)


def route(lanes: tuple[str, ...] = ("live",), epoch: int = 1) -> Route:
    segments = {
        lane: Segment(
            id=number,
            cluster="main",
            cluster_id="c1",
            topic=f"orders.{lane}.{number}",
            topic_id=TOPIC_ID[:-1] + f"{16 - number:x}",
            partitions=1,
            state=SegmentState.ACTIVE,
        )
        for number, lane in enumerate(lanes, 1)
    }
    made = tuple(Lane(name=name, segments=(segment,)) for name, segment in segments.items())
    return Route(stream="orders", epoch=epoch, next_segment=9, lanes=made)


class Seen:
    def __init__(self) -> None:
        self.lock, self.values = threading.Lock(), Counter[bytes]()

    def __call__(self, record: StreamRecord) -> None:
        with self.lock:
            self.values[record.value or b""] += 1


def consumer(
    cluster: FakeGroups, *, hooks: ConsumerHooks | None = None, the_route: Route | None = None, **given: Any
) -> StreamConsumer:
    """`given` are handlers and options, `routes`, of which the last one counts, and `check_topics`."""
    handlers = {name: given.pop(name) for name in list(given) if name.endswith("handler")}
    routes: Sequence[Route] = given.pop("routes", [the_route or route()])
    check_topics = given.pop("check_topics", None)
    options = {"work": WorkRules(retry=FAST), "commit_every_s": 0.02, "concurrency": 4, **given}
    return StreamConsumer(
        group="billing",
        route=lambda: routes[-1],
        open_member=lambda profile, group: cluster.open(group),
        clock=SystemClock(),
        check_topics=check_topics,
        options=ConsumerOptions(**options),
        hooks=hooks,
        **handlers,
    )


def values(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


@pytest.fixture
def cluster() -> FakeGroups:
    made = FakeGroups()
    made.make_topic(PLACE.topic, 1)
    return made


def committed(cluster: FakeGroups) -> CommittedOffset:
    return cluster.commits["billing", PLACE]


def test_it_handles_everything_once_and_commits_the_end(cluster: FakeGroups) -> None:
    cluster.write(PLACE, values(0, 500), gap=3)
    seen = Seen()
    with consumer(cluster, handler=seen) as running:
        until(lambda: ("billing", PLACE) in cluster.commits and committed(cluster).offset == 503)
        figures = running.figures()
    assert seen.values == Counter(values(0, 500))
    (one,) = figures.partitions
    assert (one.handled, one.gone, one.base, one.lag, one.buffered, one.duplicates) == (500, 3, 503, 0, 0, 0)
    state = restore_commit(committed(cluster), IDENTITY).state
    assert state.route is not None
    assert (state.route.epoch, state.route.segment) == (1, 1)
    assert state.watermark is not None
    assert state.watermark.newest_done_ms == 1_499
    assert len(committed(cluster).metadata) < 127


def test_who_is_told_of_partitions_is_told_before_and_after_their_records(cluster: FakeGroups) -> None:
    cluster.write(PLACE, values(0, 50))
    told = list[object]()

    def handle(record: StreamRecord) -> None:
        if not told or told[-1] != "handled":
            told.append("handled")

    hooks = ConsumerHooks(
        on_assign=lambda some: told.append([one.partition for one in some]),
        on_revoke=lambda some, is_lost: told.append(([one.partition for one in some], is_lost, committed(cluster))),
    )
    with consumer(cluster, handler=handle, hooks=hooks, commit_every_s=100.0) as running:
        until(lambda: running.figures().total("handled") == 50)
        before = cluster.commits.get(("billing", PLACE), CommittedOffset(offset=-1))
        cluster.commits["billing", PLACE] = before
    assert told == [[PLACE], "handled", ([PLACE], False, before)]
    assert committed(cluster).offset == 50


def test_an_error_of_who_is_told_of_partitions_ends_the_consumer(cluster: FakeGroups) -> None:
    def refuse(some: Sequence[PartitionOrigin], *more: bool) -> None:
        raise ValueError("not these")

    cluster.write(PLACE, values(0, 5))
    for hooks in (ConsumerHooks(on_assign=refuse), ConsumerHooks(on_revoke=refuse)):
        running = consumer(cluster, handler=print, hooks=hooks)
        running.start()
        until(lambda: running.figures().partitions or running.state is ConsumerState.FAILED)  # noqa: B023
        with pytest.raises(ValueError, match="not these"):
            running.close()
        assert running.state is ConsumerState.FAILED


def test_filtered_records_are_done_without_being_handled(cluster: FakeGroups) -> None:
    cluster.write(PLACE, values(0, 100))
    seen = Seen()

    def wanted(record: Any) -> bool:
        if record.key() == b"7":
            raise ValueError("what cannot be judged is handled")
        return int(record.key()) % 2 == 0

    with consumer(cluster, handler=seen, hooks=ConsumerHooks(filter=wanted)) as running:
        until(lambda: ("billing", PLACE) in cluster.commits and committed(cluster).offset == 100)
        assert running.figures().filtered == 49
    assert seen.values == Counter([*values(0, 100)[::2], b"7"])


def test_the_limit_of_metadata_is_learned_from_refusals(cluster: FakeGroups) -> None:
    cluster.limit_chars = 100
    cluster.write(PLACE, values(0, 600))
    seen, may_go = Seen(), threading.Event()

    def handle(record: StreamRecord) -> None:
        if crc32(b"%d" % record.offset) % 3 == 0 and not may_go.is_set():
            raise ValueError("later")
        seen(record)

    work = WorkRules(mode=Mode.UNORDERED, retry=RetryRule(first_ms=5, max_ms=20, max_tries=0))
    with consumer(cluster, handler=handle, work=work) as running:
        until(lambda: ("billing", PLACE) in cluster.commits and running.figures().commit_errors)
        until(lambda: committed(cluster).metadata and running.figures().partitions[0].commit_fill > 0.6)
        assert running.figures().partitions[0].duplicates > 0
        may_go.set()
        until(lambda: committed(cluster).offset == 600)
    assert seen.values == Counter(values(0, 600))


def test_a_batch_that_cannot_be_decoded_is_left_out_when_the_guard_says_so(cluster: FakeGroups) -> None:
    cluster.write(PLACE, values(0, 20))
    cluster.unreadable = {(PLACE, offset) for offset in range(5, 9)}
    seen, asked = Seen(), list[tuple[TopicPartition, int]]()

    def guard(origin: PartitionOrigin, offset: int, epoch: int, verdict: BatchVerdict | None) -> LeftOut | None:
        assert verdict is None, "a member that judges nothing"
        asked.append((origin.partition, offset))
        assert epoch > 0
        if len(asked) == 1:
            raise OSError("the note was not written")
        return LeftOut(next_offset=9) if len(asked) > 2 else None

    with consumer(cluster, handler=seen, hooks=ConsumerHooks(guard=guard)) as running:
        until(lambda: ("billing", PLACE) in cluster.commits and committed(cluster).offset == 20)
        assert running.figures().unreadable == len(asked) == 3
        assert running.figures().problems == ()
    assert set(asked) == {(PLACE, 5)}
    assert seen.values == Counter([*values(0, 5), *values(9, 20)])


def test_a_log_that_was_cut_is_read_again(cluster: FakeGroups) -> None:
    """A broker that lost its disk begins anew: offsets below the commit come once more, with other records."""
    cluster.write(PLACE, values(0, 30))
    cluster.commits["billing", PLACE] = CommittedOffset(offset=1_000, metadata="")
    seen = Seen()
    with consumer(cluster, handler=seen) as running:
        until(lambda: committed(cluster).offset == 30)
        cluster.write(PLACE, values(30, 60))
        until(lambda: committed(cluster).offset == 60)
        assert "the log was cut" in running.figures().problems[0]
    assert seen.values == Counter(values(0, 60))


def test_a_topic_that_the_route_has_anew_is_read_from_its_start(cluster: FakeGroups) -> None:
    """It is as long as the old one was, and was read to its end, so that reading shows no difference."""
    cluster.write(PLACE, values(0, 20))
    seen, routes = Seen(), [route()]
    with consumer(cluster, handler=seen, routes=routes) as running:
        until(lambda: ("billing", PLACE) in cluster.commits and committed(cluster).offset == 20)
        with cluster.lock:
            cluster.make_topic(PLACE.topic, 1)
            cluster.write(PLACE, values(100, 120))
        (lane,) = routes[0].lanes
        (old,) = lane.segments
        new = replace(old, id=2, topic_id="f" * 32)
        routes.append(replace(routes[0], epoch=2, lanes=(replace(lane, segments=(new,), left=(old,)),)))
        until(lambda: seen.values.keys() >= set(values(100, 120)))
        until(lambda: running.figures().reconnects == 1)
    assert seen.values == Counter([*values(0, 20), *values(100, 120)])
    identity = replace(IDENTITY, topic_id=b"\xff" * 16)
    assert restore_commit(committed(cluster), identity).state.base == 20
    assert read_metadata(committed(cluster).metadata, 20, identity).is_proven


def test_reading_that_stands_still_is_told(cluster: FakeGroups, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients do not report every batch that they cannot decode."""
    monkeypatch.setattr(cluster_reader, "STILL_S", 0.1)
    cluster.write(PLACE, values(0, 20))
    with consumer(cluster, handler=Seen()) as running:
        until(lambda: ("billing", PLACE) in cluster.commits and committed(cluster).offset == 20)
        time.sleep(0.3)
        assert not running.figures().problems
        cluster.ends[PLACE] += 5
        cluster.is_silent = True
        until(lambda: running.figures().problems)
        assert f"{PLACE} at 20: nothing was read for" in running.figures().problems[0]


def test_a_cluster_that_goes_away_is_joined_again(cluster: FakeGroups) -> None:
    cluster.write(PLACE, values(0, 50))
    seen = Seen()
    with consumer(cluster, handler=seen) as running:
        until(lambda: len(seen.values) == 50)
        until(lambda: ("billing", PLACE) in cluster.commits and committed(cluster).offset == 50)
        cluster.is_away = True
        until(lambda: running.figures().reconnects)
        assert running.figures().partitions == ()
        assert "the cluster is away" in running.figures().problems
        cluster.is_away = False
        cluster.write(PLACE, values(50, 60))
        until(lambda: len(seen.values) == 60)
    assert seen.values == Counter(values(0, 60))


def test_foreign_metadata_are_not_believed_and_newer_ones_not_overwritten(cluster: FakeGroups) -> None:
    cluster.write(PLACE, values(0, 10))
    state = CommitState(base=2, done=OffsetRanges.of([(3, 9)]))
    foreign = encode_commit(state, replace(IDENTITY, group="other"), limit_chars=4095).text
    cluster.commits["billing", PLACE] = CommittedOffset(offset=2, metadata=foreign)
    seen = Seen()
    with consumer(cluster, handler=seen) as running:
        until(lambda: len(seen.values) == 8)
        assert any("written for" in problem or "copied" in problem for problem in running.figures().problems)
    own = encode_commit(state, IDENTITY, limit_chars=4095).text
    cluster.commits["billing", PLACE] = CommittedOffset(offset=2, metadata=own)
    seen = Seen()
    with consumer(cluster, handler=seen):
        until(lambda: len(seen.values) == 2)
    assert seen.values == Counter([b"2", b"9"])
    newer = CommittedOffset(offset=2, metadata="~bIAAAAAAA")
    cluster.commits["billing", PLACE] = newer
    refused = consumer(cluster, handler=seen)
    with pytest.raises(RefusedError, match="newer version"):
        refused.run()
    assert committed(cluster) == newer
    with consumer(cluster, handler=seen, adopt_newer=True):
        until(lambda: committed(cluster).offset == 10)


def test_a_full_partition_is_paused_and_others_are_read(cluster: FakeGroups) -> None:
    both = route(("live", "slow"))
    slow = TopicPartition("orders.slow.2", 0)
    cluster.make_topic(slow.topic, 1)
    cluster.write(slow, values(0, 200))
    seen, may_go = Seen(), threading.Event()

    def handle(record: StreamRecord) -> None:
        if record.lane == "slow":
            may_go.wait(180)
        seen(record)

    work = WorkRules(mode=Mode.UNORDERED, limits=WorkLimits(records=30))
    with consumer(cluster, handler=handle, work=work, poll_records=10, the_route=both) as running:
        until(lambda: any(one.is_paused for one in running.figures().partitions))
        cluster.write(PLACE, values(1_000, 1_200))
        until(lambda: sum(value >= b"1000" for value in seen.values) >= 200)
        held = {one.partition: one.buffered for one in running.figures().partitions}
        assert held[slow] <= 30 + 10
        may_go.set()
        until(lambda: len(seen.values) == 400)
    assert set(seen.values.values()) == {1}


def test_a_rejected_record_is_passed_when_it_is_durable(cluster: FakeGroups) -> None:
    cluster.write(PLACE, values(0, 20))

    def handle(record: StreamRecord) -> None:
        if record.offset == 5:
            raise RejectError("never")

    with consumer(cluster, handler=handle) as running:  # by reference: no sink
        until(lambda: ("billing", PLACE) in cluster.commits and running.figures().total("undurable") == 1)
        until(lambda: running.figures().total("handled") == 19)
        until(lambda: restore_commit(committed(cluster), IDENTITY).state.done.count == 14)
        assert committed(cluster).offset == 5
        running.rejections_are_durable(PLACE, [5])
        until(lambda: committed(cluster).offset == 20)
    cluster.write(PLACE, values(20, 40))
    dead = list[RejectedRecord]()

    def fail(record: StreamRecord) -> None:
        if record.offset == 25:
            raise RejectError("never")

    with consumer(cluster, handler=fail, hooks=ConsumerHooks(reject=dead.append)):
        until(lambda: committed(cluster).offset == 40)
    (one,) = dead
    assert (one.record.offset, one.reason, one.tries, one.error, one.text) == (25, "handler", 1, "RejectError", "never")
    assert (one.group, one.epoch, one.record.lane) == ("billing", 1, "live")


class RetryTopic:
    """The lane `retry` in memory, in place of a producer."""

    def __init__(self, cluster: FakeGroups) -> None:
        self.cluster, self.place = cluster, TopicPartition("orders.retry.2", 0)
        cluster.make_topic(self.place.topic, 1)

    def write(self, value: bytes | None, key: bytes | None, headers: Headers, lane: str = DLQ) -> None:
        assert lane == RETRY
        with self.cluster.lock:
            at = self.cluster.ends[self.place]
            self.cluster.logs[self.place].append(
                FakeRecord(at=at, the_value=value, the_key=key, time_ms=at, the_headers=tuple(headers))
            )
            self.cluster.ends[self.place] += 1


@pytest.mark.parametrize("kind", ["handler", "batch_handler"])
def test_a_record_out_of_tries_is_tried_in_the_lane_retry_when_its_times_have_come(
    cluster: FakeGroups, kind: str
) -> None:
    topic, clock, dead, tried = RetryTopic(cluster), SystemClock(), list[RejectedRecord](), list[tuple[str, int]]()
    later = RetryStep(number=1, due_ms=0, group="others").header()
    topic.write(b"put off by another group", None, (later,), RETRY)
    topic.write(b"replayed", None, (), RETRY)
    seen = Seen()

    def handle(record: StreamRecord) -> None:
        if record.value == b"bad":
            step = read_retry_step(record.headers)
            assert step is None or step.due_ms <= clock.now().timestamp() * 1000
            tried.append((record.lane, 0 if step is None else step.number))
            raise ValueError("no")
        seen(record)

    def handle_batch(records: Sequence[StreamRecord]) -> dict[int, BaseException]:
        failed: dict[int, BaseException] = {}
        for index, record in enumerate(records):
            try:
                handle(record)
            except ValueError as error:
                failed[index] = error
        return failed

    lane: Any = topic
    hooks = ConsumerHooks(
        reject=RetryLane((0.05, 0.2), lane, dead.append), checkpoint=until_due("billing", clock, None)
    )
    cluster.write(PLACE, [b"bad"])
    handlers = {kind: handle if kind == "handler" else handle_batch}
    with consumer(cluster, the_route=route(("live", "retry")), hooks=hooks, **handlers) as running:

        def is_dead() -> bool:
            cluster.write(PLACE, [b"good"])
            return bool(dead)

        until(is_dead)
        until(lambda: cluster.commits["billing", topic.place].offset == cluster.ends[topic.place])
        assert running.figures().filtered == 1
    assert [lane for lane, _ in groupby(tried)] == [("live", 0), ("retry", 1), ("retry", 2)]
    assert all(len(list(each)) >= FAST.max_tries for _, each in groupby(tried))
    (one,) = dead
    assert (one.record.value, one.record.lane, one.reason) == (b"bad", RETRY, "max-tries")
    assert (seen.values[b"replayed"], seen.values[b"put off by another group"]) == (1, 0)
    provenance = read_provenance(one.record.headers)
    assert provenance is not None
    assert (provenance.origin.lane, provenance.origin.offset, provenance.hops) == ("live", 0, 2)


def test_what_a_handler_rejects_goes_to_the_dead_letters_at_once(cluster: FakeGroups) -> None:
    lane, dead = DeadLetterLaneLane(), list[RejectedRecord]()
    retry = RetryLane((0.0,), DeadLetterLane(lane.client.producer("orders")), dead.append)
    source = TopicSource(lane="live", segment=1, cluster_id="c1", topic="orders.live.1", topic_id=bytes(16))
    origin = PartitionOrigin(stream="orders", source=source, partition=PLACE)
    for reason, headers in (("handler", ()), ("max-tries", (("", b"refused by producers"),))):
        record = StreamRecord((FakeRecord(at=7, the_value=b"v", the_headers=headers), origin, 3))
        retry(RejectedRecord(record=record, reason=reason, tries=3, error="E", text="t", group="g", epoch=1, at_ms=5))
    assert [one.reason for one in dead] == ["handler", "max-tries"]
    lane.client.close(0)


def test_a_consumer_that_puts_records_off_needs_the_lane_and_reads_it(lane: "DeadLetterLaneLane") -> None:
    options = ConsumerOptions(retry_after_s=(60, 600))
    with pytest.raises(UsageError, match="stream orders has no lane retry") as missing:
        lane.client.consumer("orders", "billing", handler=print, options=options)
    assert missing.value.hint == "kafkakit streams lane add orders retry"
    for wrong in ((-1.0,), (float("nan"),), (1e9,), (1.0,) * 101):
        with pytest.raises(UsageError, match="up to 100 times"):
            ConsumerOptions(retry_after_s=wrong)


@pytest.mark.parametrize("value", [None, b"", b"1", b"1:2", b"x:2:g", b"1:-2:g", b"\xff:1:g", b"1:2:\xff"])
def test_what_is_no_step_of_a_retry_is_none(value: bytes | None) -> None:
    assert read_retry_step((("kafkakit-retry", value),)) is None
    step = RetryStep(number=3, due_ms=9, group="a:b")
    assert read_retry_step((("kafkakit-retry", value), step.header())) == step


def test_what_cannot_be_written_goes_to_the_ledger_once_it_fills_its_partition(cluster: FakeGroups) -> None:
    cluster.write(PLACE, values(0, 20))
    spare = list[RejectedRecord]()
    is_away = threading.Event()
    is_away.set()
    letters = list[RejectedRecord]()

    def sink(rejected: RejectedRecord) -> None:
        if is_away.is_set():
            raise TryLaterError("the lane is away")
        letters.append(rejected)

    def fail(record: StreamRecord) -> None:
        raise RejectError("never")

    work = WorkRules(mode=Mode.UNORDERED, retry=FAST, limits=WorkLimits(records=30))
    hooks = ConsumerHooks(reject=sink, spare=spare.append)
    with consumer(cluster, handler=fail, work=work, hooks=hooks, poll_records=10) as running:
        until(lambda: running.figures().total("undurable") == 20 and running.figures().dead_letters_failed > 1)
        assert (spare, running.figures().partitions[0].base) == ([], 0)
        cluster.write(PLACE, values(20, 200))
        until(lambda: running.figures().total("rejected") == 200 and not running.figures().partitions[0].is_paused)
        assert running.figures().total("undurable") > 0
        assert len(spare) > 150
        is_away.clear()
        until(lambda: committed(cluster).offset == 200)
    passed = [rejected.record.offset for rejected in (*spare, *letters)]
    assert sorted(passed) == list(range(200))
    assert letters


def test_a_record_that_is_rejected_by_reference_stays_in_its_topic(cluster: FakeGroups) -> None:
    world = LaneWorld()
    cluster.write(PLACE, values(0, 20))

    def fail(record: StreamRecord) -> None:
        if record.offset in (3, 5):
            raise RejectError("never")

    references = RejectReferences(lambda cluster_id: RejectLedger(world, SystemClock(), wait_s=5))
    hooks = with_references(ConsumerHooks(), references)
    with consumer(cluster, handler=fail, hooks=hooks):
        until(lambda: ("billing", PLACE) in cluster.commits and committed(cluster).offset == 20)
    entries = world.ledger.read()[0].values()
    assert [(e.topic_id, e.place.topic, e.place.offset, e.failure.group) for e in entries] == [
        (bytes(range(16)), PLACE.topic, offset, "billing") for offset in (3, 5)
    ]
    assert {(e.place.cluster_id, e.place.lane, e.failure.reason, e.failure.error_text) for e in entries} == {
        ("c1", "live", "handler", "never")
    }
    world.data.refuse = 1
    cluster.write(PLACE, values(20, 25))
    with consumer(cluster, handler=lambda _: fail_all(), hooks=with_references(ConsumerHooks(), references)) as running:
        until(lambda: committed(cluster).offset == 25)
        assert running.figures().dead_letters_failed == 1
    assert len(world.ledger.read()[0]) == 7


def fail_all() -> None:
    raise RejectError("never")


def test_wrong_requests_are_refused(cluster: FakeGroups) -> None:
    with pytest.raises(UsageError, match="one handler"):
        consumer(cluster)
    with pytest.raises(UsageError, match="no lane fast"):
        consumer(cluster, handler=print, lanes=["fast"])
    with pytest.raises(UsageError, match="names no lane"):
        consumer(cluster, handler=print, lanes=())
    with pytest.raises(UsageError, match="concurrency"):
        consumer(cluster, handler=print, concurrency=0)

    async def handle(record: StreamRecord) -> None: ...

    with pytest.raises(UsageError, match="run_async"):
        consumer(cluster, async_handler=handle).run()


def test_lanes_are_all_but_the_dead_letters_and_the_paused() -> None:
    made = route(("live", "slow", "dlq"))
    paused = replace(made, lanes=(made.lanes[0], replace(made.lanes[1], is_paused=True), made.lanes[2]))
    assert {source.lane for source in reading_plan(made, None).sources["c1"].values()} == {"live", "slow"}
    assert {source.lane for source in reading_plan(paused, None).sources["c1"].values()} == {"live"}
    assert {source.lane for source in reading_plan(made, ["dlq"]).sources["c1"].values()} == {"dlq"}


class DeadLetterLaneLane:
    def __init__(self) -> None:
        self.fakes = FakeClusters()
        self.segment: Segment = self.fakes.segment("a")
        self.fakes.routes.create(self.segment, lanes=(DLQ,))
        self.client: StreamClient = self.fakes.client()

    def rejected(self, value: bytes, headers: Headers) -> tuple[bytes | None, dict[str, bytes | None]]:
        """The dead letter of a record: its value and headers."""
        source = TopicSource(lane="live", segment=1, cluster_id="c1", topic="orders.live.1", topic_id=bytes(16))
        origin = PartitionOrigin(stream="orders", source=source, partition=TopicPartition("orders.live.1", 0))
        record = StreamRecord((FakeRecord(at=7, the_key=b"k", the_value=value, the_headers=headers), origin, 3))
        DeadLetterLane(self.client.producer("orders", limits=ProducerLimits(batch_bytes=20_000)))(
            RejectedRecord(
                record=record, reason="handler", tries=3, error="E", text="t", group="billing", epoch=1, at_ms=5
            )
        )
        ((_, written),) = self.fakes.clusters["a"].topics[self.segment.topic].log
        found = read_provenance(written.headers)
        assert found is not None
        assert (found.origin.topic, found.origin.offset, found.failure.group) == ("orders.live.1", 7, "billing")
        return written.value, dict(written.headers)


@pytest.fixture
def lane() -> Iterator[DeadLetterLaneLane]:
    lane = DeadLetterLaneLane()
    yield lane
    lane.client.close(0)


def test_a_record_keeps_its_headers(lane: DeadLetterLaneLane) -> None:
    value, headers = lane.rejected(b"v", (("trace", b"1"),))
    assert value == b"v"
    assert headers["trace"] == b"1"
    assert LEFT_OUT_HEADERS_HEADER not in headers


@pytest.mark.parametrize("bad", [(("", b""),), (("n" * 40_000, b"v"),), tuple((f"h{n}", b"v") for n in range(1_000))])
def test_headers_that_the_producer_refuses_are_left_out(lane: DeadLetterLaneLane, bad: Headers) -> None:
    value, headers = lane.rejected(b"v", (("trace", b"1"), *bad))
    assert value == b"v"
    assert headers[LEFT_OUT_HEADERS_HEADER] == b"%d" % (len(bad) + 1)
    assert "trace" not in headers


@pytest.mark.parametrize("bad", [(), (("", b""),)])
def test_a_value_that_is_too_large_is_left_out(lane: DeadLetterLaneLane, bad: Headers) -> None:
    value, headers = lane.rejected(b"v" * 19_900, bad)
    assert value is None
    assert headers[LEFT_OUT_HEADER] == b"19901"


@pytest.mark.parametrize(
    "given", [{"session_s": 0.5}, {"session_s": 1801}, {"instance": "a b"}, {"instance": "x" * 250}]
)
def test_a_membership_that_no_broker_takes_is_refused(given: dict[str, Any]) -> None:
    assert MemberRule(session_s=30, instance="billing-3.a_b").instance
    with pytest.raises(UsageError, match=next(iter(given))):
        MemberRule(**given)


class TimedLog:
    """The logs of a fake cluster, by time; the first question after an election is answered by the old leader."""

    def __init__(self, cluster: FakeGroups, *, moved: bool = False, cluster_id: str = "c1") -> None:
        self.cluster, self.moved, self.id = cluster, moved, cluster_id
        self.is_closed = False

    def cluster_id(self) -> str:
        return self.id

    def offsets_at(self, times_ms: dict[TopicPartition, int]) -> dict[TopicPartition, int | ItemError | None]:
        if self.moved:
            self.moved = False
            return dict.fromkeys(times_ms, ItemError(name="NotLeaderForPartitionError", retriable=True))
        logs = self.cluster.logs
        return {key: next((r.at for r in logs[key] if r.time_ms >= ms), None) for key, ms in times_ms.items()}

    def spans(self, keys: Sequence[TopicPartition]) -> dict[TopicPartition, LogSpan]:
        return {key: LogSpan(start=0, stable=self.cluster.ends[key], end=self.cluster.ends[key]) for key in keys}

    def close(self) -> None:
        self.is_closed = True


def timed(cluster: FakeGroups, log: TimedLog, **given: Any) -> StreamConsumer:
    made = consumer(cluster, **given)
    made._open_log = lambda _: log  # type: ignore[assignment,return-value]
    return made


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def at_ms(ms: float) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def test_what_lies_between_two_times_is_handled_again_once_for_each_request() -> None:
    """In two partitions, one of which ends before the second time, and in none that has nothing of then."""
    cluster, seen = FakeGroups(), Seen()
    cluster.make_topic(PLACE.topic, 3)
    first, second, third = (TopicPartition(PLACE.topic, number) for number in range(3))
    cluster.write(first, values(0, 100))
    cluster.write(second, values(100, 130))
    cluster.write(third, values(200, 210))
    log = TimedLog(cluster, moved=True)
    with timed(cluster, log, handler=seen) as made:
        until(lambda: len(seen.values) == 140)
        asked = made.replay_from(at_ms(1_019.4), at_ms(1_050).astimezone(timezone(timedelta(hours=7))), request_id=5)
        until(lambda: sum(seen.values.values()) == 140 + 40)
        assert made.replay_from(at_ms(1_019.4), at_ms(1_050), request_id=5) == asked
        until(lambda: not made._readers["c1"]._requests)
        assert made.replay_from(at_ms(1_120), request_id=6) == ()
        made.replay(third, 0, 10, request_id=7)
        until(lambda: sum(seen.values.values()) == 140 + 40 + 10)
        until(lambda: [one.base for one in made.figures().partitions] == [100, 30, 10])
    assert asked == (("c1", first, 20, 50), ("c1", second, 20, 30))
    assert Counter(seen.values.values()) == {1: 90, 2: 50}
    assert {int(value) for value, count in seen.values.items() if count == 2} == {
        *range(20, 50), *range(120, 130), *range(200, 210)
    }  # fmt: skip
    assert log.is_closed


def test_a_request_that_is_in_the_commits_is_not_taken_up_by_the_next_owner() -> None:
    cluster, seen, held = FakeGroups(), Seen(), threading.Event()
    cluster.make_topic(PLACE.topic, 1)
    cluster.write(PLACE, values(0, 50))
    log = TimedLog(cluster)

    def handle(record: StreamRecord) -> None:
        if record.value == b"10" and seen.values[b"10"] == 1 and not held.is_set():
            raise RetryLaterError(after_s=1_000)
        seen(record)

    with timed(cluster, log, handler=handle) as made:
        until(lambda: len(seen.values) == 50)
        made.replay_from(at_ms(1_010), at_ms(1_020), request_id=5)
        until(lambda: sum(seen.values.values()) == 59)
    held.set()
    with timed(cluster, log, handler=handle, work=WorkRules(retry=FAST)) as made:
        until(lambda: sum(seen.values.values()) == 60)
        made.replay_from(at_ms(1_010), at_ms(1_020), request_id=5)
        made.replay_from(at_ms(1_040), at_ms(1_045), request_id=6)
        until(lambda: sum(seen.values.values()) >= 65)
    assert {int(value) for value, count in seen.values.items() if count == 2} == {*range(10, 20), *range(40, 45)}
    assert sum(seen.values.values()) == 65


def test_a_replay_from_a_time_that_cannot_be_meant_or_asked_for_begins_nothing() -> None:
    cluster, seen = FakeGroups(), Seen()
    cluster.make_topic(PLACE.topic, 1)
    cluster.write(PLACE, values(0, 10))
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    for start, end, words in (
        (now.replace(tzinfo=None), None, "start of a replay is a datetime with a time zone"),
        (at_ms(0), now.replace(tzinfo=None), "end of a replay is a datetime with a time zone"),
        (at_ms(0), 1_700_000_000, "end of a replay is a datetime with a time zone"),
        (now, now, "to a later one"),
    ):
        with pytest.raises(UsageError, match=words):
            consumer(cluster, handler=seen).replay_from(start, end)  # type: ignore[arg-type]
    with timed(cluster, TimedLog(cluster, cluster_id="c2"), handler=seen) as made:
        until(lambda: len(seen.values) == 10)
        with pytest.raises(RefusedError, match="cluster c2 answers"):
            made.replay_from(at_ms(0), request_id=1)
        for first, last, number in ((5, 5, 1), (-1, 5, 1), (1, 5, -1)):
            with pytest.raises(UsageError):
                made.replay(PLACE, first, last, request_id=number)
    assert set(seen.values.values()) == {1}
