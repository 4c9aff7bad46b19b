"""Hours of the week: reading rules, and which one holds when."""

from datetime import UTC, datetime

import pytest

from kafkakit.autothrottle.decide.slo import parse_time_rule, rule_at
from kafkakit.core.errors import UsageError

RULES = tuple(parse_time_rule(t) for t in ("mon-fri 8-20 50%", "sat 0-24 reserve 30%", "22-6 100%"))


@pytest.mark.parametrize(
    ("moment", "rule"),
    [
        (datetime(2026, 11, 23, 8, tzinfo=UTC), 0),  # a Monday
        (datetime(2026, 11, 23, 20, tzinfo=UTC), None),
        (datetime(2026, 11, 27, 19, 59, tzinfo=UTC), 0),
        (datetime(2026, 11, 28, 12, tzinfo=UTC), 1),
        (datetime(2026, 11, 29, 5, tzinfo=UTC), 2),
        (datetime(2026, 11, 29, 6, tzinfo=UTC), None),
    ],
)
def test_the_first_rule_of_the_hour_holds(moment: datetime, rule: int | None) -> None:
    found = rule_at(RULES, int(moment.timestamp() * 1000), 0)
    assert found == (None if rule is None else RULES[rule])


def test_hours_count_at_the_offset_and_nights_belong_to_the_day_they_begin() -> None:
    monday = int(datetime(2026, 11, 23, 7, tzinfo=UTC).timestamp() * 1000)
    assert rule_at(RULES, monday, 3600) == RULES[0]
    night = (parse_time_rule("sun-mon 22-6 80%"),)
    assert night[0].days == {6, 0}
    hours = [h for h in range(48) if rule_at(night, monday + (h - 7) * 3_600_000, 0)]
    assert hours == [*range(6), 22, 23, *range(24, 30)]


@pytest.mark.parametrize("text", ["", "mon", "mon 8-20", "mon 24-25 5%", "foo 8-20 5%", "8-20 0%", "8-20 reserve 100%"])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_time_rule(text)
