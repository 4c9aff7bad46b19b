"""Tokens, outages, the head of the line, retries, and the shares of lanes.

What a worker gets of one partition, and what it costs; the order itself is in tests/property/test_streams_client.py.
"""

from collections import Counter
from collections.abc import Collection, Mapping

import pytest

from kafkakit.core.errors import UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.client.decide.failures import Answers, Dependencies, RejectReason
from kafkakit.streams.client.decide.partition_work import (
    CommitRule,
    PartitionWork,
    RecordFields,
    next_commit,
    restore_commit,
)
from kafkakit.streams.client.decide.reading import Chunk, LaneShares, ReadyQueue
from kafkakit.streams.client.decide.work_rules import (
    DependencyDownError,
    Failure,
    FailureEnding,
    Mode,
    MoveRule,
    NotYetError,
    RejectError,
    RetryLaterError,
    RetryRule,
    WorkLimits,
    WorkRules,
    failure_of,
)
from kafkakit.streams.client.workers import PartitionOrigin, StreamRecords
from kafkakit.streams.model.commit import CommitIdentity, CommitState, Mark, MarkState, OffsetRanges, ReplayWindow
from tests.fakes.group_consumer import FakeRecord

FIELDS: RecordFields[int] = RecordFields(time_ms=lambda n: n, key=lambda n: b"k", size=lambda n: 1)
FAILED = Failure(ending=FailureEnding.RETRY, error="ValueError", text="no")


def work(rules: WorkRules) -> tuple[PartitionWork[int], Dependencies, Answers]:
    dependencies, answers = Dependencies(rules.retry), Answers(rules)
    return PartitionWork(CommitState(base=0), rules, FIELDS, dependencies, answers), dependencies, answers


def handle(
    made: PartitionWork[int], now_ms: int, bad: Collection[int], limit: int = 1_000, due: Mapping[int, int] = {}
) -> list[int]:
    """Handle all that may be handled now, or is due; what was tried."""
    tried = []
    while (chunk := made.take(limit, now_ms)) is not None:
        for index, offset in enumerate(chunk.offsets):
            if index not in chunk.skipped and due.get(offset, 0) > now_ms:
                chunk.failed(index, failure_of(NotYetError(due[offset] - now_ms)))
            elif index not in chunk.skipped:
                tried.append(offset)
                if offset in bad:
                    chunk.failed(index, FAILED)
            chunk.handled = index + 1
        made.finish(chunk, now_ms)
    return tried


def offer(made: PartitionWork[int], start: int, end: int) -> None:
    made.offer(list(range(start, end)), list(range(start, end)), end)


def test_waits_grow_and_are_bounded() -> None:
    rule = RetryRule(first_ms=100, factor=3, max_ms=1_000)
    assert [rule.delay_ms(tries) for tries in (0, 1, 2, 3, 4, 1_000_000)] == [0, 100, 300, 900, 1_000, 1_000]
    for wrong in ({"first_ms": -1}, {"factor": 0.5}, {"first_ms": 2, "max_ms": 1}, {"max_tries": -1}):
        with pytest.raises(UsageError):
            RetryRule(**wrong)


def test_errors_of_handlers() -> None:
    assert failure_of(RetryLaterError("x", after_s=1.5)).after_ms == 1_500
    assert failure_of(DependencyDownError("db")) == Failure(
        ending=FailureEnding.DEFER, error="DependencyDownError", text="db is down", dependency="db"
    )
    assert len(failure_of(ValueError("x" * 10_000)).text) == 500

    class BrokenError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert failure_of(BrokenError()).ending is FailureEnding.RETRY


def test_a_record_out_of_tries_is_rejected_when_others_are_handled_around_its_failures() -> None:
    rules = WorkRules(mode=Mode.UNORDERED, retry=RetryRule(first_ms=10, max_ms=10, max_tries=2))
    made, dependencies, _ = work(rules)
    offer(made, 0, 10)
    handle(made, 0, {9})
    assert handle(made, 10, {9}) == [9]
    assert (made.counts.rejected, made.parked, dependencies.names()) == (0, 1, ()), "nothing was handled since"
    assert [mark.state for mark in made.state().marks] == [MarkState.DEFERRED]
    offer(made, 10, 11)
    assert handle(made, 11, {9}) == [10, 9], "something is handled again, and an outage may have been"
    assert made.counts.rejected == 0
    offer(made, 11, 12)
    assert (handle(made, 12, {9}), made.parked) == ([11], 0)
    (rejection,) = made.unwritten_rejections()
    assert (rejection.offset, rejection.reason, rejection.tries) == (9, RejectReason.MAX_TRIES, 3)
    assert made.unwritten_rejections() == []
    made.rejection_is_durable(9)
    assert made.base == 12


@pytest.mark.parametrize("mode", [Mode.KEY, Mode.PARTITION])
def test_the_next_record_of_a_key_is_tried_right_after_one_that_is_out_of_tries(mode: Mode) -> None:
    """Nothing else is there: where the next one is handled, the one before it is rejected, and the order stays."""
    rules = WorkRules(mode=mode, retry=RetryRule(first_ms=10, max_ms=10, max_tries=2))
    made, *_ = work(rules)
    offer(made, 0, 4)
    assert handle(made, 0, {0, 1}) == [0]
    assert handle(made, 10, {0, 1}) == [0]
    assert (made.parked, made.counts.rejected) == (1, 0)
    assert handle(made, 20, {0, 1}) == [0, 1], "1 has a try left"
    assert made.state().marks[1].count == 1
    assert handle(made, 29, {0, 1}) == []
    assert handle(made, 300, set()) == [0, 1, 2, 3], "an outage has ended: nothing is rejected"
    assert (made.base, made.counts.rejected) == (4, 0)
    offer(made, 4, 8)
    handle(made, 1_000, {4, 5})
    handle(made, 1_010, {4, 5})
    assert handle(made, 2_000, {4, 5}) == [4, 5]
    assert handle(made, 3_000, {4, 5}) == [4, 5, 6, 7]
    assert [(r.offset, r.tries, r.reason) for r in made.unwritten_rejections()] == [
        (4, 4, RejectReason.MAX_TRIES),
        (5, 2, RejectReason.MAX_TRIES),
    ]


@pytest.mark.parametrize("mode", [Mode.KEY, Mode.PARTITION])
def test_a_record_whose_time_has_not_come_did_not_fail_behind_one_that_is_out_of_tries(mode: Mode) -> None:
    rules = WorkRules(mode=mode, retry=RetryRule(first_ms=10, max_ms=10, max_tries=2))
    made, *_ = work(rules)
    offer(made, 0, 4)
    due = {2: 5_000}
    tried = [handle(made, now_ms, {0, 1}, due=due) for now_ms in (0, 10, 300, 600, 900, 1_200)]
    assert tried == [[0], [0], [0, 1], [0, 1], [0, 1], [0, 1]]
    assert made.counts.failures == 10, "2 was reached three times, and waits"
    assert [(mark.start, mark.end, mark.count) for mark in made.state().marks] == [(0, 1, 6), (1, 2, 4)]
    assert handle(made, 5_000, {0, 1}, due=due) == [0, 1, 2, 3]
    assert [rejection.offset for rejection in made.unwritten_rejections()] == [0, 1]


def test_waiting_for_its_time_is_no_failure_that_tells_an_outage_from_bad_records() -> None:
    """Both that are left fail for the first time after many were handled."""
    rules = WorkRules(mode=Mode.UNORDERED, retry=RetryRule(first_ms=10, max_ms=10, max_tries=2))
    made, *_ = work(rules)
    offer(made, 0, 100)
    assert len(handle(made, 0, (), due={0: 200, 1: 200})) == 98
    for now_ms in range(200, 100_000, 500):
        handle(made, now_ms, {0, 1})
    assert (made.counts.rejected, made.parked) == (0, 2)


def test_a_sign_is_not_lost_while_a_record_waits_for_its_time() -> None:
    rules = WorkRules(mode=Mode.UNORDERED, retry=RetryRule(first_ms=10, max_ms=10, max_tries=3))
    mark = Mark(start=0, end=1, state=MarkState.RETRYING, count=2)
    made = PartitionWork(CommitState(base=0, marks=(mark,)), rules, FIELDS, Dependencies(rules.retry), Answers(rules))
    offer(made, 0, 1)
    handle(made, 0, (), due={0: 200})
    assert made.state().marks == (mark,)
    for now_ms in range(200, 100_000, 500):
        handle(made, now_ms, {0})
    assert made.counts.rejected == 1


def test_records_out_of_tries_are_tried_in_turns_at_a_bounded_rate() -> None:
    rules = WorkRules(
        mode=Mode.UNORDERED, retry=RetryRule(first_ms=10, max_ms=100, max_tries=1), moves=MoveRule(probes_per_s=10)
    )
    made, *_ = work(rules)
    offer(made, 0, 50)
    every = set(range(50))
    assert handle(made, 0, every) == list(range(50))
    tried = [offset for now_ms in range(0, 10_000, 10) for offset in handle(made, now_ms, every)]
    assert set(Counter(tried).values()) == {2}, "each of 50 twice in 10 s"
    assert made.counts.rejected == 0
    assert sorted(handle(made, 20_000, {7})) == list(range(50)), "one is handled, and all are tried at once"
    assert (made.parked, made.counts.rejected) == (0, 1), "7 failed again among others that were handled"


def test_a_record_that_alone_finds_a_dependency_down_loses_its_tries() -> None:
    rules = WorkRules(mode=Mode.UNORDERED, retry=RetryRule(first_ms=10, max_ms=10, max_tries=2))
    made, *_ = work(rules)
    down = failure_of(DependencyDownError("db"))
    for start in range(0, 100, 10):
        offer(made, start, start + 10)
        while (chunk := made.take(1, 20 * start)) is not None:
            if chunk.offsets == [0] or (not chunk.is_again and chunk.offsets[0] % 10 == 1):
                chunk.failed(0, down)
            chunk.handled = 1
            made.finish(chunk, 20 * start)
    assert [(r.offset, r.error) for r in made.unwritten_rejections()] == [(0, "DependencyDownError")]
    assert made.counts.rejected == 1


def test_a_record_that_failed_before_a_restart_comes_with_its_tries() -> None:
    """The handler sees the tries that the rule of retries counts."""
    rules = WorkRules(mode=Mode.UNORDERED, retry=RetryRule(first_ms=10, max_ms=10, max_tries=4))
    made, *_ = work(rules)
    offer(made, 0, 5)
    handle(made, 0, {2})
    handle(made, 10, {2})
    found = made.state()
    again = PartitionWork(found, rules, FIELDS, Dependencies(rules.retry), Answers(rules))
    offer(again, found.base, 8)
    chunk = again.take(10, 0)
    assert chunk is not None
    assert (chunk.offsets, chunk.tries) == ([2, 5, 6, 7], [2, 0, 0, 0])
    chunk.failed(0, FAILED)
    chunk.handled = 4
    again.finish(chunk, 0)
    held = again.take(10, 10)
    assert held is not None
    assert (held.offsets, held.tries) == ([2], 3)
    offer(again, 8, 9)
    fresh = again.take(10, 0)
    assert fresh is not None
    assert fresh.tries == 0


def restarted(made: PartitionWork[int], rules: WorkRules) -> PartitionWork[int]:
    """The next owner, which has read all that was read, by the way that commits go."""
    identity = CommitIdentity(cluster_id="c", topic_id=bytes(16), partition=0, group="g")
    commit = next_commit(made, identity, CommitRule(), route=None, writer=None).committed
    found = restore_commit(commit, identity).state
    again = PartitionWork(found, rules, FIELDS, Dependencies(rules.retry), Answers(rules))
    offer(again, found.base, made.position)
    return again


@pytest.mark.parametrize("restarts", [1, 2])
@pytest.mark.parametrize("has_sign", [True, False])
def test_a_record_that_failed_while_others_were_handled_is_rejected_after_restarts(
    has_sign: bool, restarts: int
) -> None:
    """Nothing else is left: without that it may as well be an outage. Nothing is tried between two restarts."""
    rules = WorkRules(mode=Mode.UNORDERED, retry=RetryRule(first_ms=10, max_ms=10, max_tries=3))
    made, *_ = work(rules)
    offer(made, 0, 5)
    handle(made, 0, {2} if has_sign else {4})
    if has_sign:
        offer(made, 5, 6)
        handle(made, 1, {2})
    again = restarted(made, rules)
    for _ in range(restarts - 1):
        again = restarted(again, rules)
    for now_ms in range(0, 100_000, 500):
        handle(again, now_ms, {2, 4})
    assert again.counts.rejected == has_sign
    assert again.counts.handled == 0
    assert again.parked != has_sign


def test_what_is_known_of_a_record_stays_in_commits_until_it_is_tried_again() -> None:
    """Marks of records that wait, are at a worker or were not read; not of those that are done or failed once more."""
    rules = WorkRules(mode=Mode.UNORDERED, retry=RetryRule(first_ms=10, max_ms=10, max_tries=9))
    retrying, deferred, rejected = MarkState.RETRYING, MarkState.DEFERRED, MarkState.REJECTED
    marks = (
        Mark(start=2, end=5, state=retrying, count=3),
        Mark(start=5, end=6, state=deferred, count=1),
        Mark(start=7, end=8, state=rejected, count=9),
        Mark(start=8, end=9, state=retrying, count=2),
    )
    state = CommitState(base=0, done=OffsetRanges.of([(6, 8)]), marks=marks)
    made = PartitionWork(state, rules, FIELDS, Dependencies(rules.retry), Answers(rules))
    made.offer([0, 1, 2, 3], [0, 1, 2, 3], 4)
    assert made.state().marks == marks, "four were read, and none was tried"
    chunk = made.take(3, 0)
    assert chunk is not None
    assert (chunk.offsets, chunk.tries, made.state().marks) == ([0, 1, 2], [0, 0, 3], marks)
    chunk.failed(2, FAILED)
    chunk.handled = 3
    made.finish(chunk, 0)
    assert made.state().marks == (
        Mark(start=2, end=3, state=retrying, count=4),
        Mark(start=3, end=5, state=retrying, count=3),
        *marks[1:],
    )
    assert handle(made, 0, set()) == [3]
    made.offer([4, 5, 7, 8], [4, 5, 7, 8], 9)
    assert [rejection.offset for rejection in made.unwritten_rejections()] == [7]
    assert made.state().marks == (
        Mark(start=2, end=3, state=retrying, count=4),
        Mark(start=4, end=5, state=retrying, count=3),
        *marks[1:],
    )
    handle(made, 10, set())
    made.rejection_is_durable(7)
    assert (made.state().marks, made.base) == ((), 9)


def test_what_was_known_of_a_record_says_nothing_of_its_second_time() -> None:
    rules = WorkRules(mode=Mode.UNORDERED, retry=RetryRule(first_ms=10, max_ms=10, max_tries=9))
    mark = Mark(start=1, end=4, state=MarkState.RETRYING, count=3)
    made = PartitionWork(CommitState(base=0, marks=(mark,)), rules, FIELDS, Dependencies(rules.retry), Answers(rules))
    offer(made, 0, 3)
    chunk = made.take(2, 0)
    assert chunk is not None
    chunk.handled = 2
    made.finish(chunk, 0)
    made.open_again(ReplayWindow(start=0, end=9, request_id=1))
    assert made.state().marks == (Mark(start=2, end=4, state=MarkState.RETRYING, count=3),), "1 was done"


def test_an_outage_moves_nothing() -> None:
    rules = WorkRules(mode=Mode.UNORDERED, retry=RetryRule(first_ms=10, max_ms=10, max_tries=2))
    made, _, answers = work(rules)
    offer(made, 0, 5_000)
    handle(made, 0, set())
    assert answers.tokens > 90
    offer(made, 5_000, 6_000)
    for now_ms in range(0, 1_000, 10):
        handle(made, now_ms, set(range(5_000, 6_000)))
    assert made.counts.rejected == 0
    assert made.pending_failures == 1_000
    handle(made, 2_000, set())
    handle(made, 2_000, set())
    assert made.base == 6_000


def test_the_head_of_the_line_leaves_only_when_it_alone_is_in_the_way() -> None:
    rules = WorkRules(
        mode=Mode.UNORDERED,
        retry=RetryRule(first_ms=10_000, max_ms=10_000, max_tries=0),
        limits=WorkLimits(span=1_000),
        moves=MoveRule(first_tokens=0),
    )
    made, _, answers = work(rules)
    offer(made, 0, 500)
    handle(made, 0, {10, 20})
    assert made.relieve() == 0, "the partition is not nearly full"
    offer(made, 500, 1_000)
    handle(made, 0, {10, 20})
    assert not made.wants_records or made.fullness >= 0.9
    answers.tokens = 0.5
    assert made.relieve() == 0, "nothing pays"
    answers.tokens = 5
    assert made.relieve() >= 1
    assert next(r.offset for r in made.unwritten_rejections()) == 10
    many, _, answers = work(rules)
    offer(many, 0, 1_000)
    handle(many, 0, set(range(0, 1_000, 20)))
    answers.tokens = 5
    assert many.relieve() == 0, "5 % are not done: no single record is in the way"


def test_a_backlog_moves_no_record_that_failed() -> None:
    """The partition is full of records that can be handled: one that has tries left holds up none of them."""
    rules = WorkRules(
        mode=Mode.UNORDERED,
        retry=RetryRule(first_ms=10_000, max_ms=10_000),
        limits=WorkLimits(records=1_000),
        moves=MoveRule(first_tokens=10),
    )
    made, *_ = work(rules)
    offer(made, 0, 1_000)
    chunk = made.take(100, 0)
    assert chunk is not None
    chunk.failed(10, FAILED)
    chunk.handled = 100
    made.finish(chunk, 0)
    offer(made, 1_000, 1_100)
    assert made.fullness > 0.9
    assert (made.relieve(), made.pending_failures) == (0, 1)


def test_what_waits_for_a_dead_letter_at_the_base_moves_no_other_record() -> None:
    rules = WorkRules(
        mode=Mode.UNORDERED,
        retry=RetryRule(first_ms=10_000, max_ms=10_000),
        limits=WorkLimits(span=1_000),
        moves=MoveRule(first_tokens=10),
    )
    made, *_ = work(rules)
    offer(made, 0, 1_000)
    chunk = made.take(1_000, 0)
    assert chunk is not None
    chunk.failed(0, failure_of(RejectError("never")))
    chunk.failed(500, FAILED)
    chunk.handled = 1_000
    made.finish(chunk, 0)
    assert (made.undurable, made.fullness) == (1, 1.0)
    assert made.relieve() == 0, "moving 500 would not move the base"
    made.rejection_is_durable(0)
    assert made.base == 500
    offer(made, 1_000, 1_500)
    handle(made, 0, set())
    assert made.relieve() == 1
    assert [r.offset for r in made.unwritten_rejections()][-1] == 500


def test_one_record_finds_out_whether_a_dependency_is_up() -> None:
    rules = WorkRules(mode=Mode.UNORDERED, retry=RetryRule(first_ms=10, max_ms=1_000, max_tries=1))
    made, dependencies, _ = work(rules)
    offer(made, 0, 50)
    down = failure_of(DependencyDownError("db"))
    chunk = made.take(100, 0)
    assert chunk is not None
    for index in range(50):
        chunk.failed(index, down)
    chunk.handled = 50
    made.finish(chunk, 0)
    assert dependencies.names() == ("db",)
    assert made.take(100, 9) is None
    probe = made.take(100, 10)
    assert probe is not None
    assert probe.offsets == [0]
    assert made.take(100, 10) is None, "one finds out"
    probe.failed(0, down)
    probe.handled = 1
    made.finish(probe, 10)
    assert made.take(100, 29) is None
    assert handle(made, 30, set()) == [*range(1, 50), 0], "in turns"
    assert (dependencies.names(), made.base, made.counts.rejected) == ((), 50, 0)


def test_lanes_share_by_weight_and_live_may_come_first() -> None:
    shares = LaneShares({"live": 3, "slow": 1, "retry": 1}, 8, strict=False)
    ready = ("live", "slow", "retry")
    given: Counter[str] = Counter()
    for _ in range(500):
        lane = shares.order(ready)[0]
        shares.started(lane, 10, ready)
        shares.ended(lane)
        given[lane] += 10
    assert given == Counter(live=3_000, slow=1_000, retry=1_000)
    for _ in range(100):
        shares.started("slow", 10, ("slow",))
        shares.ended("slow")
    assert shares.order(ready)[0] != "slow"
    shares.started("live", 10, ready)
    shares.ended("live")
    strict = LaneShares({"live": 1, "slow": 1}, 8, strict=True)
    for _ in range(10):
        assert strict.order(("live", "slow"))[0] == "live"
        strict.started("live", 100, ("live", "slow"))
    for _ in range(6):
        strict.started("slow", 1, ("slow",))
    assert strict.order(("slow",)) == [], "a quarter of the workers is for live alone"


FAILURE = Failure(ending=FailureEnding.RETRY)


class Keys:
    """Records are numbers, their key is the last digit; counts how many keys were read."""

    def __init__(self) -> None:
        self.read = 0

    def __call__(self, record: int) -> bytes:
        self.read += 1
        return b"%d" % (record % 10)


def queue(mode: Mode, keys: Keys, records: int) -> ReadyQueue[int]:
    made: ReadyQueue[int] = ReadyQueue(mode, keys, lambda record: 2)
    for start in range(0, records, 20):
        numbers = list(range(start, start + 20))
        made.add(numbers, numbers, 2 * len(numbers))
    return made


def handled(made: ReadyQueue[int], chunk: Chunk[int], count: int | None = None) -> None:
    chunk.handled = len(chunk.records) if count is None else count
    made.give_back(chunk, [])


def test_one_worker_alone_costs_no_key() -> None:
    for mode in Mode:
        keys = Keys()
        made, seen = queue(mode, keys, 60), list[int]()
        while (chunk := made.take(15)) is not None:
            seen += chunk.records
            assert chunk.size == 2 * len(chunk.records)
            handled(made, chunk)
        assert (seen, keys.read, made.has_work) == (list(range(60)), 0, False)


def test_a_second_worker_gets_no_key_of_the_first() -> None:
    keys = Keys()
    made = queue(Mode.KEY, keys, 20)
    first = made.take(5)
    assert first is not None
    second = made.take(20)
    assert second is not None
    assert [record % 10 for record in second.records] == [5, 6, 7, 8, 9, 5, 6, 7, 8, 9]
    assert made.take(20) is None
    handled(made, first, 2)  # 0 and 1 are done, 2 to 4 wait again before 12 to 14
    waiting = []
    while (chunk := made.take(20)) is not None:
        waiting.append(chunk.records)
    assert sorted(waiting) == [[2, 12], [3, 13], [4, 14], [10], [11]]


def test_a_partition_in_order_is_at_one_worker() -> None:
    made = queue(Mode.PARTITION, Keys(), 40)
    chunk = made.take(10)
    assert chunk is not None
    assert (made.take(10), made.has_work) == (None, False)
    chunk.failed(4, FAILURE)
    assert chunk.skipped == {5, 6, 7, 8, 9}
    chunk.handled = 10
    made.give_back(chunk, [4])  # 4 is to be tried again
    assert (made.take(10), made.has_work) == (None, False)
    made.release(4)
    following = made.take(10)
    assert following is not None
    assert following.records == [5, 6, 7, 8, 9]


def test_records_of_a_batch_are_a_sequence() -> None:
    reads = [FakeRecord(at=offset) for offset in range(5)]
    origin = PartitionOrigin(stream="s", source=None, partition=TopicPartition("t", 0))  # type: ignore[arg-type]
    records = StreamRecords(reads, origin, 2)
    assert [record.offset for record in records] == [record.offset for record in reversed(records)][::-1]
    assert (len(records), records[-1].offset, records[1].tries) == (5, 4, 2)
    assert [record.offset for record in records[1:3]] == [1, 2]
    records = StreamRecords(reads, origin, [0, 1, 0, 3, 0])
    assert [record.tries for record in records] == [0, 1, 0, 3, 0]
    assert (records[1].tries, records[2:][1].tries) == (1, 3)
