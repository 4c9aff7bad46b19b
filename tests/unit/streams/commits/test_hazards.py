"""Hazards, duplicates and explanations of single commits."""

from dataclasses import replace

import pytest

from kafkakit.core.cluster_facts import LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.streams.commits.decide.group_look import by_fullness, headroom_of, read_limits
from kafkakit.streams.commits.decide.hazards import hazards_of
from kafkakit.streams.commits.decide.offset_states import OffsetStanding, duplicates_of, explain, standing_of
from kafkakit.streams.commits.report.commits import oldest_age_s
from kafkakit.streams.commits.report.groups import ABOUT
from kafkakit.streams.model.commit import (
    CommitState,
    Mark,
    MarkState,
    OffsetRanges,
    PayloadProblem,
    Reading,
    ReplayWindow,
    Spill,
    Watermark,
    age_text,
    interval_text,
    utc_text,
)
from kafkakit.streams.model.dialects.dialect import CommitFacts, CopiedFrom, TimeSpan
from kafkakit.streams.model.dialects.parallel_consumer import skipped_at_most

KEY = TopicPartition("t", 0)
NOW = 1_758_335_260_726
SPAN = LogSpan(start=50, stable=500, end=500)
STATE = CommitState(base=100, done=OffsetRanges(((101, 103), (105, 110))))


def facts(state: CommitState = STATE, *, metadata: str = "~b", dialect: str = "kkm1", **more: object) -> CommitFacts:
    told = {"problem", "claimed", "is_lossy", "is_bound", "stream_time_ms", "reason"}
    reading = Reading(dialect=dialect, state=state, chars=len(metadata))
    reading = replace(reading, **{name: value for name, value in more.items() if name in told})  # type: ignore[arg-type]
    found = CommitFacts(offset=state.base, metadata=metadata, reading=reading, at_ms=NOW, key=KEY, group="g", span=SPAN)
    return replace(found, **{name: value for name, value in more.items() if name not in told})  # type: ignore[arg-type]


def rules(found: CommitFacts) -> list[str]:
    return [hazard.rule for hazard in hazards_of(found)]


def test_a_sound_commit_has_no_hazard() -> None:
    assert rules(facts()) == []


MARKS = (Mark(start=102, end=103, state=MarkState.REJECTED),)
CASES: list[tuple[str, CommitFacts]] = [
    ("committed-below-log-start", facts(CommitState(base=49))),
    ("committed-beyond-log-end", facts(CommitState(base=501))),
    ("done-beyond-log-end", facts(replace(STATE, done=OffsetRanges(((101, 501),))))),
    ("shifted-map", facts(replace(STATE, done=OffsetRanges(((101, 501),))), dialect="parallel-consumer")),
    ("foreign-payload", facts(CommitState(base=100), problem=PayloadProblem.FOREIGN)),
    ("payload-of-another-offset", facts(CommitState(base=100), problem=PayloadProblem.BASE_MISMATCH)),
    ("newer-payload", facts(CommitState(base=100), problem=PayloadProblem.UNKNOWN_VERSION)),
    ("newer-payload", facts(CommitState(base=100), problem=PayloadProblem.UNKNOWN_SECTION)),
    ("unreadable-payload", facts(CommitState(base=100), problem=PayloadProblem.BAD_TEXT)),
    ("coarsened", facts(is_lossy=True)),
    ("limit-near", facts(metadata="x" * 60, limit_chars=100, kafka_version="3.9")),
    ("nul-terminated", facts(metadata="x\0", dialect="parallel-consumer")),
    ("nul-terminated", facts(CommitState(base=100), metadata="x\0", dialect="kafka-streams")),
    ("burrow-misreads", facts(metadata="x" * 127, kafka_version="4.1")),
    ("burrow-misreads", facts(metadata="\u4e00" * 43)),
    ("time-in-the-future", facts(replace(STATE, watermark=Watermark(oldest_ms=0, newest_done_ms=NOW + 61_000)))),
    ("time-in-the-future", facts(CommitState(base=100), dialect="kafka-streams", stream_time_ms=NOW + 61_000)),
    ("rejected-without-ledger", facts(replace(STATE, marks=MARKS))),
    ("topic-gone", facts(span=None, topic_exists=False)),
    ("open-transaction", facts(is_unstable=True)),
    ("replay-open", facts(replace(STATE, replay=ReplayWindow(start=103, end=105, request_id=7)))),
]


@pytest.mark.parametrize(("rule", "found"), CASES, ids=[f"{rule}-{at}" for at, (rule, _) in enumerate(CASES)])
def test_each_hazard_is_named(rule: str, found: CommitFacts) -> None:
    assert rules(found) == [rule]
    assert rule in ABOUT


def test_what_is_just_not_a_hazard() -> None:
    for found in (
        facts(CommitState(base=50)),
        facts(CommitState(base=500)),
        facts(replace(STATE, done=OffsetRanges(((101, 500),)))),
        facts(metadata="x" * 59, limit_chars=100),
        facts(metadata="x" * 126),
        facts(metadata="x\0"),
        facts(metadata="x" * 4000, kafka_version="4.0", limit_chars=10_000),
        facts(replace(STATE, watermark=Watermark(oldest_ms=0, newest_done_ms=NOW + 60_000))),
        facts(replace(STATE, marks=MARKS, spill=Spill(partition=0, offset=1, digest=bytes(8)))),
    ):
        assert rules(found) == []


def test_the_watermark_is_held_against_the_log() -> None:
    state = replace(STATE, watermark=Watermark(oldest_ms=NOW - 500_000, newest_done_ms=NOW))
    near = TimeSpan(low_ms=NOW - 450_000, high_ms=NOW - 450_000, source="log")
    far = TimeSpan(low_ms=NOW - 400_000, high_ms=NOW - 300_000, source="log")
    assert rules(facts(state, pending_time=near)) == []
    assert rules(facts(state, pending_time=far)) == ["watermark-differs"]


def test_severity_of_the_limit_grows() -> None:
    found = [hazards_of(facts(metadata="x" * size, limit_chars=100))[0].severity.value for size in (60, 80, 101)]
    assert found == ["note", "warning", "error"]


def test_a_copied_map_is_judged_exactly_where_a_sync_tells_its_place() -> None:
    def skipped(low: int | None, high: int | None) -> int:
        copy = CopiedFrom(source="s", upstream_offset=9, place_low=low, place_high=high)
        return skipped_at_most(facts(dialect="parallel-consumer", copied_from=copy), copy)

    assert skipped(None, None) == 7
    assert skipped(100, 100) == 0
    assert skipped(101, 101) == 2  # 101 and 105: done one higher, so pending where the map calls them done
    assert skipped(100, 103) == max(skipped(at, at) for at in range(100, 104))
    assert skipped(100, 10**9) == 7, "too much to try: the most that can be"


def test_duplicates_are_counted_exactly() -> None:
    again = duplicates_of(facts())
    assert (again.low, again.high, again.ignoring) == (0, 0, 7)
    expired = duplicates_of(facts(span=LogSpan(start=106, stable=108, end=108)))
    assert (expired.low, expired.high, expired.ignoring) == (0, 0, 2)
    told = duplicates_of(facts(replace(STATE, forgotten=9), is_lossy=True))
    assert (told.low, told.high, told.ignoring) == (9, 9, 16)
    lossy = duplicates_of(facts(is_lossy=True))  # 100 is pending for sure, 103 and 104 may be done
    assert (lossy.low, lossy.high) == (1, 2)
    spilled = duplicates_of(facts(replace(STATE, spill=Spill(partition=0, offset=1, digest=bytes(8))), is_lossy=True))
    assert (spilled.low, spilled.high) == (0, 2)
    foreign = duplicates_of(facts(CommitState(base=104), problem=PayloadProblem.BASE_MISMATCH, claimed=STATE))
    assert (foreign.low, foreign.high) == (0, 5)
    unreadable = duplicates_of(facts(CommitState(base=104), problem=PayloadProblem.BAD_BODY))
    assert (unreadable.low, unreadable.high) == (0, None)
    assert duplicates_of(facts(dialect="opaque")).high is None


def test_standings() -> None:
    marks = (
        *MARKS,
        Mark(start=103, end=104, state=MarkState.RETRYING, count=15),
        Mark(start=104, end=105, state=MarkState.DEFERRED, deferred_s=90),
        Mark(start=106, end=107, state=MarkState.SKIPPED),
    )
    found = facts(replace(STATE, marks=marks))
    expected = {
        10: OffsetStanding.DONE,
        100: OffsetStanding.PENDING,
        101: OffsetStanding.DONE,
        102: OffsetStanding.REJECTED,
        103: OffsetStanding.RETRYING,
        104: OffsetStanding.DEFERRED,
        106: OffsetStanding.SKIPPED,
        110: OffsetStanding.UNTOUCHED,
        499: OffsetStanding.UNTOUCHED,
        500: OffsetStanding.UNWRITTEN,
    }
    assert {offset: standing_of(found, offset) for offset in expected} == expected
    for offset, standing in expected.items():
        told = explain(found, offset)
        assert told.standing is standing
        assert all(sentence.endswith(".") for sentence in told.sentences)
    assert "15 times or more" in explain(found, 103).sentences[0]
    assert "1m 30s after" in explain(found, 104).sentences[0]
    late = facts(span=LogSpan(start=104, stable=500, end=500))
    assert (standing_of(late, 100), standing_of(late, 99)) == (OffsetStanding.EXPIRED, OffsetStanding.DONE)
    assert standing_of(facts(CommitState(base=100), dialect="opaque"), 101) is OffsetStanding.UNKNOWN


def test_an_offset_without_a_record_is_explained() -> None:
    span = TimeSpan(low_ms=NOW - 60_000, high_ms=NOW - 60_000, source="its record in the log", record_offset=103)
    told = " ".join(explain(facts(), 100, span).sentences)
    assert "The log has no record at 100" in told
    assert "the next one is at 103 and was written" in told.lower()


def test_what_a_restart_does_is_said_for_a_payload_that_is_not_used() -> None:
    told = explain(facts(CommitState(base=104), problem=PayloadProblem.FOREIGN, claimed=STATE)).sentences
    assert any("Kafkakit's client does not use this payload (bound to something else)" in s for s in told)


def test_limits_are_the_strictest_of_brokers_that_tell() -> None:
    key = "offset.metadata.max.bytes"
    limits = read_limits({1: {key: "4096"}, 2: {key: "2000"}, 3: {key: "many"}, 4: {}}, [1, 2, 3, 4, 5])
    assert (limits.strictest, limits.is_mixed, limits.is_known, limits.unknown) == (2000, True, True, (3, 4, 5))
    nobody = read_limits({}, [1])
    assert (nobody.strictest, nobody.is_mixed, nobody.is_known) == (4096, False, False)


def test_the_fullest_group_comes_first() -> None:
    small, large = facts(metadata="x"), facts(metadata="x" * 10)
    rooms = by_fullness(
        [headroom_of("b", [small], 100), headroom_of("a", [small, large], 100), headroom_of("c", [], 100)]
    )
    assert [room.group for room in rooms] == ["a", "b", "c"]
    assert (rooms[0].fullest, rooms[0].free_chars, rooms[2].free_chars) == (large, 90, 100)


def test_times_in_words() -> None:
    assert utc_text(NOW) == "2025-09-20T02:27:40.726Z"
    assert utc_text(1 << 70) == f"ms {1 << 70}"
    assert (age_text(NOW - 61_000, NOW), age_text(NOW + 5_000, NOW)) == ("1m 1s ago", "5s ahead")
    assert interval_text(0, 1) == "between 1970-01-01T00:00:00.000Z and 1970-01-01T00:00:00.001Z"


def test_an_age_that_is_not_exact_is_told_as_the_younger_one() -> None:
    span = TimeSpan(low_ms=NOW - 90_000, high_ms=NOW - 30_000, source="its batch in the log")
    assert oldest_age_s(facts(pending_time=span)) == 30
    assert oldest_age_s(facts(CommitState(base=500), pending_time=span)) is None
