"""What each verb makes of a commit, decided on clusters in memory."""

import re
from pathlib import Path
from random import Random

import pytest

from kafkakit.core.errors import KafkakitError, RefusedError, TryLaterError, UsageError
from kafkakit.streams.commits.decide.editing.edit import (
    EditPlan,
    PartitionEdit,
    Reject,
    Replay,
    Reset,
    ResetTarget,
    Skip,
    Translate,
    Unack,
    Verb,
)
from kafkakit.streams.model.commit import CommitState, Mark, MarkState, OffsetRanges, RouteMark, Watermark
from kafkakit.streams.model.dialects.parallel_consumer import write_parallel_consumer
from kafkakit.streams.model.dialects.registry import read_metadata
from tests.rigs.editing import GROUP, START_MS, TOPIC, Rig, only, ranges

STREAMS_METADATA = "AQAAAZlk8tg2"


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def poison(rig: Rig) -> CommitState:
    """Base 100 pending, 101-102 and 105-109 done, as in the reference's vectors."""
    state = CommitState(
        base=100,
        done=ranges((101, 103), (105, 110)),
        watermark=Watermark(oldest_ms=START_MS + 100_000, newest_done_ms=START_MS + 109_000),
        route=RouteMark(epoch=7, segment=2),
    )
    rig.commit_kkm1(rig.keys[0], state)
    return state


def one(plan: EditPlan) -> PartitionEdit:
    (edit,) = plan.edits
    return edit


def after(plan: EditPlan) -> CommitState:
    state = one(plan).state_after
    assert state is not None
    return state


def test_skip_of_a_poison_pill_moves_base_to_the_next_hole_and_dates_it(rig: Rig) -> None:
    poison(rig)
    plan = rig.plan(Skip(offsets=only(100)), 0)
    state = after(plan)
    assert (state.base, state.done, state.marks) == (103, ranges((105, 110)), ())
    assert state.watermark == Watermark(oldest_ms=START_MS + 103_000, newest_done_ms=START_MS + 109_000)
    assert state.route == RouteMark(epoch=7, segment=2)
    assert one(plan).passed == only(100)
    assert one(plan).reopened == OffsetRanges()
    assert rig.groups.commits == []


def test_skip_in_the_middle_is_marked_and_base_stays(rig: Rig) -> None:
    before = poison(rig)
    plan = rig.plan(Skip(offsets=ranges((103, 105))), 0)
    state = after(plan)
    assert (state.base, state.done) == (100, ranges((101, 110)))
    assert state.marks == (Mark(start=103, end=105, state=MarkState.SKIPPED),)
    assert state.watermark == before.watermark


def test_skip_of_what_is_done_says_so_and_changes_nothing(rig: Rig) -> None:
    poison(rig)
    plan = rig.plan(Skip(offsets=only(50, 101)), 0)
    assert plan.changes == ()
    assert "done already" in one(plan).notes[0]


def test_a_plain_group_can_skip_from_its_base_on_alone(rig: Rig) -> None:
    rig.groups.seed(GROUP, rig.keys[0], 100)
    plan = rig.plan(Skip(offsets=ranges((100, 103))), 0)
    assert one(plan).after is not None
    assert (one(plan).after.offset, one(plan).after.metadata) == (103, "")  # type: ignore[union-attr]
    with pytest.raises(RefusedError, match="is one offset: from 100 on everything would be read") as refusal:
        rig.plan(Skip(offsets=only(102)), 0)
    assert "or skip everything from 100 on" in (refusal.value.hint or "")
    forced = rig.plan(Skip(offsets=only(102)), 0, dialect="kkm1")
    assert (after(forced).base, after(forced).done) == (100, only(102))


def test_unack_above_and_below_base(rig: Rig) -> None:
    poison(rig)
    above = after(rig.plan(Unack(offsets=only(102)), 0))
    assert (above.base, above.done) == (100, ranges((101, 102), (105, 110)))
    plan = rig.plan(Unack(offsets=only(90, 107)), 0)
    below = after(plan)
    assert (below.base, below.done) == (90, ranges((91, 100), (101, 103), (105, 107), (108, 110)))
    assert one(plan).reopened == only(90, 107)
    assert one(plan).passed == OffsetRanges()
    assert below.watermark is not None
    assert below.watermark.oldest_ms == START_MS + 90_000


def test_what_kafkakits_client_reads_is_stored_with_a_nul_at_its_end(rig: Rig) -> None:
    """confluent-kafka reads on behind a text without one, so that acknowledgements are lost, or a consumer fails."""
    poison(rig)
    written = one(rig.plan(Skip(offsets=only(103)), 0)).after
    assert written is not None
    assert re.fullmatch(r"~b[\w-]+\0", written.metadata)
    rig.do(Skip(offsets=only(103)), 0)
    same = one(rig.plan(Translate(to="kkm1"), 0))
    assert same.after == same.before, "one that has it stays as it is"


def test_unack_of_a_plain_commit_is_a_rewind_or_nothing(rig: Rig) -> None:
    rig.groups.seed(GROUP, rig.keys[0], 100)
    plan = rig.plan(Unack(offsets=ranges((97, 100))), 0)
    assert one(plan).after is not None
    assert one(plan).after.offset == 97  # type: ignore[union-attr]
    with pytest.raises(RefusedError, match=r"9 offsets that should stay done \(91-99\)"):
        rig.plan(Unack(offsets=only(90)), 0)


def test_reject_above_base_keeps_base_below_it_for_good(rig: Rig) -> None:
    poison(rig)
    rig.do(Reject(offsets=only(103)), 0)
    assert rig.state(rig.keys[0]).marks == (Mark(start=103, end=104, state=MarkState.REJECTED),)
    plan = rig.plan(Skip(offsets=only(100)), 0)
    state = after(plan)
    assert (state.base, state.done) == (102, ranges((103, 104), (105, 110)))
    assert state.marks == (Mark(start=103, end=104, state=MarkState.REJECTED),)
    assert one(plan).reopened == only(102)
    assert any("base stays at 102, below a rejected offset" in note for note in one(plan).notes)


def test_reject_at_base_gives_up_the_record_before_it(rig: Rig) -> None:
    poison(rig)
    plan = rig.plan(Reject(offsets=only(100)), 0)
    state = after(plan)
    assert (state.base, state.done) == (99, ranges((100, 103), (105, 110)))
    assert state.marks == (Mark(start=100, end=101, state=MarkState.REJECTED),)
    assert one(plan).reopened == only(99)


def test_reject_where_nothing_is_left_to_stand_at_is_refused(rig: Rig) -> None:
    rig.commit_kkm1(rig.keys[0], CommitState(base=0, done=only(5)))
    with pytest.raises(RefusedError, match="base may not pass it"):
        rig.plan(Reject(offsets=only(0)), 0)


def test_reject_needs_metadata_that_holds_it(rig: Rig) -> None:
    rig.groups.seed(GROUP, rig.keys[0], 100)
    with pytest.raises(RefusedError, match="holds no rejected offsets"):
        rig.plan(Reject(offsets=only(100)), 0)


def test_replay_opens_a_window_of_times_and_keeps_the_rest_done(rig: Rig) -> None:
    poison(rig)
    verb = Replay(request_id=9, from_ms=START_MS + 20_000, to_ms=START_MS + 30_000)
    plan = rig.plan(verb, 0)
    state = after(plan)
    assert (state.base, state.done) == (20, ranges((30, 100), (101, 103), (105, 110)))
    assert state.replay is not None
    assert (state.replay.start, state.replay.end, state.replay.request_id) == (20, 30, 9)
    assert one(plan).reopened == ranges((20, 30))


def test_replay_over_base_counts_only_what_was_done(rig: Rig) -> None:
    poison(rig)
    plan = rig.plan(Replay(request_id=9, offsets=ranges((98, 107))), 0)
    state = after(plan)
    assert (state.base, state.done) == (98, ranges((107, 110)))
    assert one(plan).reopened.count == 6
    assert state.replay is not None
    assert (state.replay.start, state.replay.end) == (98, 107)


def test_replay_leaves_skipped_records_alone_and_says_so(rig: Rig) -> None:
    poison(rig)
    rig.do(Skip(offsets=only(103)), 0)
    plan = rig.plan(Replay(request_id=1, offsets=ranges((101, 107))), 0)
    assert 103 in after(plan).done
    assert any("skipped or rejected, and stays so" in note for note in one(plan).notes)


def test_replay_of_a_plain_group_that_would_read_everything_again_is_refused(rig: Rig) -> None:
    rig.groups.seed(GROUP, rig.keys[0], 100)
    with pytest.raises(RefusedError, match=r"70 offsets that should stay done \(30-99\)") as refusal:
        rig.plan(Replay(request_id=1, offsets=ranges((20, 30))), 0)
    assert "reset --to 20" in (refusal.value.hint or "")
    assert after(rig.plan(Replay(request_id=1, offsets=ranges((20, 100))), 0)).base == 20


def test_replay_of_a_window_without_records_changes_nothing(rig: Rig) -> None:
    poison(rig)
    late = START_MS + 10_000_000
    plan = rig.plan(Replay(request_id=1, from_ms=late, to_ms=late + 1000), 0)
    assert plan.changes == ()


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        (Reset(landing=ResetTarget.EARLIEST), 0),
        (Reset(landing=ResetTarget.LATEST), 300),
        (Reset(landing=ResetTarget.OFFSET, value=250), 250),
        (Reset(landing=ResetTarget.TIME, value=START_MS + 41_500), 42),
        (Reset(landing=ResetTarget.TIME, value=START_MS + 10_000_000), 300),
        (Reset(landing=ResetTarget.SHIFT, value=-30), 70),
        (Reset(landing=ResetTarget.SHIFT, value=-3000), 0),
        (Reset(landing=ResetTarget.SHIFT, value=30), 130),
    ],
)
def test_reset_lands(rig: Rig, verb: Reset, expected: int) -> None:
    poison(rig)
    state = after(rig.plan(verb, 0))
    assert (state.base, state.done, state.marks) == (expected, OffsetRanges(), ())


def test_reset_keeps_what_is_done_above_when_asked(rig: Rig) -> None:
    poison(rig)
    back = rig.plan(Reset(landing=ResetTarget.OFFSET, value=90, keep_done=True), 0)
    assert (after(back).base, after(back).done) == (90, ranges((101, 103), (105, 110)))
    assert one(back).reopened == ranges((90, 100))
    forth = after(rig.plan(Reset(landing=ResetTarget.OFFSET, value=105, keep_done=True), 0))
    assert (forth.base, forth.done) == (110, OffsetRanges())
    plain = rig.plan(Reset(landing=ResetTarget.OFFSET, value=90), 0)
    assert one(plain).reopened == ranges((90, 100), (101, 103), (105, 110))


def test_reset_gives_a_first_commit_and_counts_what_is_never_read(rig: Rig) -> None:
    plan = rig.plan(Reset(landing=ResetTarget.OFFSET, value=40), uncommitted=True)
    assert [edit.before for edit in plan.edits] == [None, None]
    assert plan.passed == 80
    rig.apply(plan)
    assert rig.committed(rig.keys[1]) is not None


def test_offsets_outside_of_the_log_need_a_word(rig: Rig) -> None:
    poison(rig)
    for verb in (
        Reset(landing=ResetTarget.OFFSET, value=301),
        Skip(offsets=only(300)),
        Unack(offsets=only(400)),
        Replay(request_id=1, offsets=ranges((299, 302))),
    ):
        with pytest.raises(RefusedError, match="log"):
            rig.plan(verb, 0)
    rig.log.trim(rig.keys[0], 100)
    with pytest.raises(RefusedError, match="outside of the log"):
        rig.plan(Reset(landing=ResetTarget.OFFSET, value=50), 0)
    assert after(rig.plan(Reset(landing=ResetTarget.OFFSET, value=50), 0, outside_log=True)).base == 50


def test_latest_stops_before_an_open_transaction(rig: Rig) -> None:
    from tests.clusters.streams_batches import Rec, batch

    poison(rig)
    rig.log.append(rig.keys[0], batch(0, [Rec(None, b"x")], transactional=True, producer=(7, 0)))
    plan = rig.plan(Reset(landing=ResetTarget.LATEST), 0)
    assert after(plan).base == 300
    assert "transaction is open" in one(plan).notes[0]


def test_the_map_of_parallel_consumer_is_written_for_its_groups(rig: Rig) -> None:
    state = CommitState(base=100, done=ranges((101, 103), (105, 110)))
    text = write_parallel_consumer(state)
    assert text is not None
    rig.groups.seed(GROUP, rig.keys[0], 100, text)
    rig.groups.seed(GROUP, rig.keys[1], 50, "")
    plan = rig.plan(Skip(offsets=only(103)), 0)
    assert one(plan).dialect_after == "parallel-consumer"
    assert after(plan).done == ranges((101, 104), (105, 110))
    other = rig.plan(Unack(offsets=only(40)), 1)
    assert one(other).dialect_after == "parallel-consumer"
    assert (after(other).base, after(other).done) == (40, ranges((41, 50)))
    with pytest.raises(RefusedError, match="no rejected offsets"):
        rig.plan(Reject(offsets=only(103)), 0)


def test_kafka_streams_keeps_its_time_going_forward_and_loses_it_going_back(rig: Rig) -> None:
    rig.groups.seed(GROUP, rig.keys[0], 100, STREAMS_METADATA)
    forward = one(rig.plan(Skip(offsets=only(100)), 0))
    assert forward.after is not None
    assert (forward.after.offset, forward.after.metadata) == (101, STREAMS_METADATA)
    back = one(rig.plan(Reset(landing=ResetTarget.OFFSET, value=10), 0))
    assert back.after is not None
    assert back.after.metadata == ""
    with pytest.raises(RefusedError, match="kafka-streams commit is one offset"):
        rig.plan(Unack(offsets=only(10)), 0)


def test_metadata_that_nobody_knows_is_replaced_only_by_name(rig: Rig) -> None:
    rig.groups.seed(GROUP, rig.keys[0], 100, "checkpoint of ours")
    with pytest.raises(RefusedError, match="of an unknown dialect"):
        rig.plan(Skip(offsets=only(100)), 0)
    assert one(rig.plan(Skip(offsets=only(100)), 0, dialect="plain")).passed == only(100)
    lost = one(rig.plan(Translate(to="kkm1"), 0)).notes
    assert any("metadata of an unknown dialect" in note for note in lost)


def test_translate_says_what_is_lost(rig: Rig) -> None:
    poison(rig)
    rig.do(Skip(offsets=only(103)), 0)
    to_pc = one(rig.plan(Translate(to="parallel-consumer"), 0))
    assert to_pc.reopened == OffsetRanges()
    assert any("the route epoch" in note for note in to_pc.notes)
    assert any("stays done, but not as skipped" in note for note in to_pc.notes)
    plain = one(rig.plan(Translate(to="plain"), 0))
    assert plain.reopened == ranges((101, 104), (105, 110))
    assert plain.forgotten == 8
    assert any("103 is not skipped any more" in note for note in plain.notes)


def test_a_commit_of_a_newer_format_is_left_alone(rig: Rig) -> None:
    rig.groups.seed(GROUP, rig.keys[0], 100, "~bIEMBI7WoCCLawy6eWM-gHBAIHAg")  # version 2
    assert read_metadata("~bIEMBI7WoCCLawy6eWM-gHBAIHAg", 100).problem is not None
    with pytest.raises(RefusedError, match="newer format"):
        rig.plan(Skip(offsets=only(100)), 0)
    assert after(rig.plan(Skip(offsets=only(100)), 0, adopt=True)).base == 101


def test_a_foreign_payload_is_not_believed(rig: Rig) -> None:
    text = rig.commit_kkm1(rig.keys[1], CommitState(base=100, done=ranges((101, 200))))
    rig.groups.seed(GROUP, rig.keys[0], 100, text)
    plan = rig.plan(Skip(offsets=only(100)), 0)
    assert (after(plan).base, after(plan).done) == (101, OffsetRanges())
    assert any("99 offsets) is not used" in warning for warning in one(plan).warnings)


def test_what_does_not_fit_is_coarsened_only_when_asked(tmp_path: Path) -> None:
    rig = Rig(tmp_path, records=4000, limit=200)
    rig.groups.seed(GROUP, rig.keys[0], 4000)
    odd = OffsetRanges.of((n, n + 1) for n in Random(1).sample(range(4000), 900))
    with pytest.raises(RefusedError, match="does not fit 200 characters"):
        rig.plan(Unack(offsets=odd), 0, dialect="kkm1")
    edit = one(rig.plan(Unack(offsets=odd), 0, dialect="kkm1", coarsen=True))
    assert edit.forgotten > 0
    assert edit.forgotten == edit.reopened.count - odd.count
    assert edit.after is not None
    assert len(edit.after.metadata) <= 199


def test_a_skip_that_does_not_fit_names_what_stays_pending(tmp_path: Path) -> None:
    rig = Rig(tmp_path, records=4000, limit=200)
    rig.commit_kkm1(rig.keys[0], CommitState(base=0, done=only(3)))
    odd = OffsetRanges.of((n, n + 1) for n in Random(1).sample(range(10, 4000), 900))
    edit = one(rig.plan(Skip(offsets=odd), 0, coarsen=True))
    assert edit.state_after is not None
    left = odd.minus(edit.state_after.done)
    assert left
    assert edit.passed == odd.minus(left)
    assert any("stays pending, since not everything fits" in warning for warning in edit.warnings)


def test_a_live_group_and_an_open_transaction_are_refused(rig: Rig) -> None:
    poison(rig)
    rig.groups.join(GROUP, rig.keys[0])
    with pytest.raises(RefusedError, match=r"group orders is live \(stable, 1 member: app/127.0.0.1\)"):
        rig.plan(Skip(offsets=only(100)), 0)
    rig.groups.leave(GROUP)
    rig.groups.open_transaction(GROUP, rig.keys[0], 120)
    with pytest.raises(TryLaterError, match="open transaction"):
        rig.plan(Skip(offsets=only(100)), 0)


@pytest.mark.parametrize(
    ("numbers", "topic", "error"),
    [((7,), TOPIC, "has no partition 7"), ((1,), TOPIC, "the group committed nothing there")],
)
def test_names_that_are_not_there(rig: Rig, numbers: tuple[int, ...], topic: str, error: str) -> None:
    poison(rig)
    del topic
    with pytest.raises((UsageError, KafkakitError), match=error):
        rig.plan(Skip(offsets=only(100)), *numbers)


def test_a_refusal_names_every_partition_and_nothing_is_half_planned(tmp_path: Path) -> None:
    rig = Rig(tmp_path, partitions=5)
    for key in rig.keys:
        rig.groups.seed(GROUP, key, 100)
    verb: Verb = Replay(request_id=1, offsets=ranges((20, 30)))
    with pytest.raises(RefusedError, match="and 2 more partitions"):
        rig.plan(verb)


def test_plans_over_the_same_state_have_the_same_fingerprint(rig: Rig) -> None:
    poison(rig)
    first = rig.plan(Replay(request_id=1, offsets=ranges((20, 30))), 0)
    second = rig.plan(Replay(request_id=2, offsets=ranges((20, 30))), 0)
    third = rig.plan(Replay(request_id=2, offsets=ranges((20, 31))), 0)
    assert first.fingerprint == second.fingerprint != third.fingerprint
    rig.groups.seed(GROUP, rig.keys[0], 100)
    assert rig.plan(Skip(offsets=only(100)), 0).fingerprint != first.fingerprint
