"""Offsets, times and targets as people type them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from kafkakit.core.errors import UsageError
from kafkakit.core.quantities import epoch_ms
from kafkakit.streams.commits.decide.editing.edit import MAX_OFFSET, Landing, parse_moment, parse_offsets, parse_target
from tests.rigs.editing import ranges

EAST = timezone(timedelta(hours=9))
NOW = datetime(2026, 11, 22, 20, 30, tzinfo=UTC)  # in the east it is 05:30 of the next day


def east(moment: datetime) -> datetime:
    return moment.replace(tzinfo=EAST) if moment.tzinfo is None else moment.astimezone(EAST)


@pytest.mark.parametrize(
    ("text", "at", "was_local"),
    [
        ("05:00", datetime(2026, 11, 22, 20, 0, tzinfo=UTC), True),
        ("5:00", datetime(2026, 11, 22, 20, 0, tzinfo=UTC), True),
        ("00:00:30", datetime(2026, 11, 22, 15, 0, 30, tzinfo=UTC), True),
        ("2026-11-22T14:00", datetime(2026, 11, 22, 5, 0, tzinfo=UTC), True),
        ("2026-11-22 14:00:01.5", datetime(2026, 11, 22, 5, 0, 1, 500_000, tzinfo=UTC), True),
        ("2026-11-22T14:00Z", datetime(2026, 11, 22, 14, 0, tzinfo=UTC), False),
        ("2026-11-22T14:00:00+01:00", datetime(2026, 11, 22, 13, 0, tzinfo=UTC), False),
    ],
)
def test_a_moment_is_local_unless_it_says_otherwise(text: str, at: datetime, was_local: bool) -> None:
    moment = parse_moment(text, "--from", NOW, east)
    assert (moment.at, moment.was_local) == (at, was_local)
    assert moment.ms == round(at.timestamp() * 1000)
    assert ("(local time)" in moment.words) == was_local


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no time"),
        ("noon", "is no time"),
        ("25:00", "is no time"),
        ("14:60", "is no time"),
        ("05:31", "is still to come"),
        ("2026-11-22", "has no time of day"),
        ("2027-01-01T00:00Z", "is still to come"),
        ("1969-12-31T00:00Z", "is before 1970"),
        ("0001-01-01T00:00", "is no time|is before 1970"),
        ("x" * 5000, "is no time"),
    ],
)
def test_what_is_no_moment_is_told(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as refusal:
        parse_moment(text, "--from", NOW, east)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", (Landing.EARLIEST, 0)),
        (" latest ", (Landing.LATEST, 0)),
        ("0", (Landing.OFFSET, 0)),
        ("17", (Landing.OFFSET, 17)),
        ("-17", (Landing.SHIFT, -17)),
        ("+17", (Landing.SHIFT, 17)),
        ("2026-11-22T14:00Z", (Landing.TIME, 1_795_356_000_000)),
        ("-2h", (Landing.TIME, epoch_ms(NOW) - 7_200_000)),
        ("-1.5s", (Landing.TIME, epoch_ms(NOW) - 1_500)),
    ],
)
def test_targets(text: str, expected: tuple[Landing, int]) -> None:
    assert parse_target(text, NOW, east)[:2] == expected


@pytest.mark.parametrize("text", ["--5", "-2w", "-0s", "-h", "-1e3s", "1e3", "9" * 19, "9" * 30, "\u0663", "end"])
def test_what_is_no_target_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="--to"):
        parse_target(text, NOW, east)


def test_offsets_include_both_ends_and_join() -> None:
    assert parse_offsets("102,200-210, 211,5") == ranges((5, 6), (102, 103), (200, 212))
    assert parse_offsets(str(MAX_OFFSET)) == ranges((MAX_OFFSET, MAX_OFFSET + 1))


@pytest.mark.parametrize(
    "text", ["", ",", "1,", "-5", "5-", "1-2-3", "7-6", "a", "\u0663", str(MAX_OFFSET + 1), "1," * 10_001]
)
def test_what_is_no_offset_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="--offsets") as refusal:
        parse_offsets(text)
    assert len(str(refusal.value)) < 300
