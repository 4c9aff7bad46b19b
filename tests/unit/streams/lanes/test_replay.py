"""Replays: what goes where, and what is written when the program is stopped anywhere."""

import random
from collections import Counter
from typing import Any

import pytest

from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.errors import InfeasibleError, KafkakitError, OperationFailedError, RefusedError, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.lanes.act.dead_letters import LaneReader, LetterReader, Replayer, lane_of
from kafkakit.streams.lanes.decide import (
    LIMIT_CHARS,
    ReplayBudget,
    ReplayOutcome,
    letter_filter,
    read_replay_state,
)
from kafkakit.streams.model.commit import CommitIdentity, OffsetRanges
from kafkakit.streams.model.provenance import read_provenance, replay_group
from tests.rigs.lanes import STREAM, LaneWorld, failure

FAST = ReplayBudget(rate=1e9)


class Killed(BaseException):
    """Stands for kill -9."""


def replay(world: LaneWorld, where: str = "", budget: ReplayBudget = FAST, **more: Any) -> ReplayOutcome:
    replayer = Replayer(world.clusters, world.clock, lambda: None, wait_s=5)
    return replayer.replay(world.route, letter_filter(where, world.now_ms), budget, **more)


@pytest.fixture
def world() -> LaneWorld:
    return LaneWorld()


def test_records_go_to_their_original_lane_and_partition_as_they_are(world: LaneWorld) -> None:
    world.kill(b"a", partition=1)
    world.kill(b"b", lane="retry")
    outcome = replay(world)
    assert (outcome.matching, outcome.replayed, outcome.uncertain, outcome.stayed) == (2, 2, 0, {})
    (again,) = world.records("live", 1)
    (dead,) = world.records("dlq", 1)
    assert (again.key, again.value, again.headers) == (dead.key, dead.value, dead.headers)
    found = read_provenance(again.headers)
    assert found is not None
    assert found.origin.partition == 1
    assert [record.value for record in world.records("retry")] == [b"b"]


def test_a_second_replay_writes_nothing_and_the_list_knows_why(world: LaneWorld) -> None:
    world.kill(b"a", b"b")
    assert replay(world).replayed == 2
    world.kill(b"c")
    assert replay(world, "reason = other").matching == 0
    letters = list(LetterReader(world.clusters, world.clock, wait_s=5).copies(world.route))
    assert [letter.is_replayed for letter in letters] == [True, True, False]
    assert replay(world).replayed == 1
    assert world.values("live") == [b"a", b"b", b"c"]


def test_a_filter_and_a_limit_leave_the_others_for_later(world: LaneWorld) -> None:
    for number in range(6):
        world.kill(b"%d" % number, of=failure(group="even" if number % 2 == 0 else "odd"))
    assert replay(world, "group = odd", ReplayBudget(rate=2, limit=2)).replayed == 2
    assert world.values("live") == [b"1", b"3"]
    assert replay(world, "group = odd").replayed == 1
    assert replay(world).replayed == 3
    assert world.values("live") == [b"1", b"3", b"5", b"0", b"2", b"4"]


def test_a_plan_writes_nothing(world: LaneWorld) -> None:
    world.kill(b"a")
    world.kill(b"b")
    found = [replay(world, budget=ReplayBudget(rate=1, limit=limit), is_plan=True) for limit in (None, 1)]
    assert [(one.matching, one.replayed) for one in found] == [(2, 2), (2, 1)]
    assert (world.values("live"), world.groups.commits) == ([], [])


def test_null_values_and_keys_stay_null(world: LaneWorld) -> None:
    world.kill(b"x")
    headers = world.records("dlq")[0].headers
    producer = world.data.producer()
    producer.send(TopicPartition(f"{STREAM}.dlq.1", 0), None, None, headers)
    replay(world)
    assert [(record.key, record.is_null) for record in world.records("live")] == [(b"k", False), (None, True)]


def test_what_has_no_target_stays_and_is_counted_by_reason(world: LaneWorld) -> None:
    world.put("dlq", b"bare")
    world.put("dlq", b"forged", headers=(("kafkakit-stream", b"\xff"),))
    world.kill(b"old", lane="dlq")
    outcome = replay(world)
    assert (outcome.matching, outcome.replayed, sum(outcome.stayed.values())) == (3, 0, 3)
    assert sorted(outcome.stayed.values()) == [1, 2]
    assert replay(world, to="retry").replayed == 3
    assert world.values("retry") == [b"bare", b"forged", b"old"]


def test_the_rate_is_kept(world: LaneWorld) -> None:
    world.kill(*(b"%d" % n for n in range(25)))
    replay(world, budget=ReplayBudget(rate=10))
    assert 2.5 <= world.clock.monotonic() < 2.6


@pytest.mark.parametrize("at", range(1, 13))
def test_wherever_it_is_killed_each_record_is_written_and_at_most_one_batch_twice(world: LaneWorld, at: int) -> None:
    values = [b"%d" % number for number in range(12)]
    world.kill(*values[:7])
    world.kill(*values[7:], partition=1)
    sends = 0

    def kill(_: TopicPartition) -> None:
        nonlocal sends
        sends += 1
        if sends == at:
            raise Killed

    world.data.on_send = kill
    with pytest.raises(Killed):
        replay(world, budget=ReplayBudget(rate=4))
    written = len(world.values("live"))
    outcome = replay(world, budget=ReplayBudget(rate=4))
    counts = Counter(world.values("live"))
    assert sorted(counts) == sorted(values)
    twice = sum(counts.values()) - len(values)
    assert twice <= outcome.uncertain <= 4
    assert twice == (at - 1) % 4 == written + outcome.replayed - 12


@pytest.mark.parametrize("commit", range(1, 7))
def test_wherever_commits_stop_no_record_is_missed(world: LaneWorld, commit: int) -> None:
    values = [b"%d" % number for number in range(12)]
    world.kill(*values)
    world.groups.on_commit = lambda _: None if len(world.groups.commits) + 1 < commit else _kill()
    with pytest.raises(Killed):
        replay(world, budget=ReplayBudget(rate=4))
    world.groups.on_commit = None
    outcome = replay(world, budget=ReplayBudget(rate=4))
    counts = Counter(world.values("live"))
    assert sorted(counts) == sorted(values)
    assert sum(counts.values()) - 12 == (4 if commit % 2 == 0 else 0) == outcome.uncertain


def _kill() -> None:
    raise Killed


def test_a_refused_record_stops_the_replay_and_its_batch_counts_as_not_replayed(world: LaneWorld) -> None:
    world.kill(b"a", b"b", b"c")
    world.data.refuse = 1
    with pytest.raises(OperationFailedError, match="1 of 3 records not acknowledged: refused"):
        replay(world)
    assert replay(world).replayed == 3


def test_a_commit_that_is_refused_stops_before_anything_is_written(world: LaneWorld) -> None:
    world.kill(b"a")
    world.groups.limit = 10
    with pytest.raises(TryLaterError, match="OffsetMetadataTooLarge"):
        replay(world)
    assert world.values("live") == []


def test_the_right_to_replay_is_asked_for_before_each_batch(world: LaneWorld) -> None:
    world.kill(b"a", b"b")
    asked: list[int] = []

    def guard() -> None:
        asked.append(len(world.values("live")))
        if len(asked) == 2:
            raise TryLaterError("the lease is lost")

    replayer = Replayer(world.clusters, world.clock, guard, wait_s=5)
    with pytest.raises(TryLaterError):
        replayer.replay(world.route, letter_filter("", 0), ReplayBudget(rate=1))
    assert asked == [0, 1]


def test_a_commit_of_another_program_is_not_taken_for_nothing_replayed(world: LaneWorld) -> None:
    world.kill(b"a")
    key = TopicPartition(f"{STREAM}.dlq.1", 0)
    for metadata in ("AAAA", "~bAAAAAAAAAAAA", "\ud7ff" * 9):
        world.groups.commit(replay_group(STREAM), {key: CommittedOffset(offset=0, metadata=metadata)})
        with pytest.raises(RefusedError, match="cannot be used"):
            replay(world)


def test_more_pieces_than_a_commit_holds_are_refused_before_they_are_written() -> None:
    identity = CommitIdentity(cluster_id="C", topic_id=bytes(range(16)), partition=0, group="g")
    state = read_replay_state(None, identity, 0)
    chosen = random.Random(3)
    offsets = [OffsetRanges(((n, n + 1),)) for n in range(60_000) if chosen.random() < 0.5]
    parts = [OffsetRanges.of(r for one in offsets[at : at + 500] for r in one) for at in range(0, len(offsets), 500)]
    for some in parts[:20]:
        again = read_replay_state(state.sending(some), identity, 0)
        assert (again.before, again.in_flight) == (state.done.ranges(), some)
        assert len(state.sent(some).metadata) <= LIMIT_CHARS
    before = state.done.count
    with pytest.raises(InfeasibleError, match="too many pieces"):
        state.sending(OffsetRanges.of(r for part in parts[20:] for r in part))
    assert state.done.count == before > 5_000


def test_what_the_log_has_lost_is_neither_pending_nor_uncertain() -> None:
    identity = CommitIdentity(cluster_id="C", topic_id=bytes(16), partition=0, group="g")
    state = read_replay_state(None, identity, 0)
    commit = state.sending(OffsetRanges(((1, 4),)))
    assert read_replay_state(commit, identity, 0).in_flight.count == 3
    later = read_replay_state(commit, identity, 3)
    assert (later.first, later.was_done(2), later.was_done(3), later.in_flight.count) == (3, True, False, 1)


def test_records_that_come_while_a_lane_is_read_are_left_for_the_next_time(world: LaneWorld) -> None:
    world.put("dlq", b"first")
    world.put("dlq", *(b"%d" % n for n in range(510)), partition=1)
    reader = LaneReader(world.clusters, world.clock, wait_s=5)
    records = reader.records(lane_of(world.route, "dlq"), lambda _, spans: spans)
    next(records)
    world.put("dlq", b"late")
    world.put("dlq", b"late", partition=1)
    assert len(found := [record.value for _, record in records]) == 510
    assert b"late" not in found


def test_records_that_retention_took_count_as_done(world: LaneWorld) -> None:
    world.kill(b"a", b"b", b"c")
    replay(world, budget=ReplayBudget(rate=1, limit=1))
    world.log.trim(TopicPartition(f"{STREAM}.dlq.1", 0), 2)
    assert replay(world).replayed == 1
    assert world.values("live") == [b"a", b"c"]


def test_another_cluster_and_a_topic_made_again_are_refused(world: LaneWorld) -> None:
    world.kill(b"a")
    world.log.add_topic(f"{STREAM}.dlq.1", 2)
    with pytest.raises(RefusedError, match="was deleted and created again"):
        replay(world)
    world.log.id = "C2"
    world.clusters._ports.clear()
    with pytest.raises(RefusedError, match="leads to cluster C2"):
        replay(world)


def test_brokers_that_do_not_answer_are_no_empty_lane(world: LaneWorld) -> None:
    world.data.away = True
    with pytest.raises(KafkakitError):
        replay(world)
