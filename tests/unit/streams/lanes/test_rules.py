"""Which lane a record goes to."""

import pytest

from kafkakit.core.errors import UsageError
from kafkakit.core.records import OutgoingRecord
from kafkakit.streams.model.route import LaneChooser, LaneRule

LANES = ("live", "slow", "retry", "dlq")
NOW_MS = 1_000_000


def choose(where: str, record: OutgoingRecord) -> bool:
    return LaneChooser([LaneRule(lane="slow", where=where)], LANES).choose(record, NOW_MS) == "slow"


RECORD = OutgoingRecord(
    key=b"customer-7",
    value=b"x" * 100,
    headers=(("tenant", b"a"), ("tenant", b"acme"), ("null", None), ("raw", b"\xff"), ("tries", b"10"), ("a b", b"c")),
    at_ms=NOW_MS - 61_500,
)


@pytest.mark.parametrize(
    "where",
    [
        'key like "customer-*"',
        "tenant = acme",
        "tenant != a",
        "header.tries > 9",
        "header.tries in (1, 10.0)",
        '"header.a b" = c',
        "not exists(header.raw) and not exists(header.null) and not exists(header.none)",
        "bytes >= 100 and bytes < 1kB",
        "bytes = 146",
        "age_s = 61",
        "age_s > 60.5 and not (key = x or tenant = b)",
    ],
)
def test_a_rule_that_matches(where: str) -> None:
    assert choose(where, RECORD)
    assert not choose(f"not ({where})", RECORD)


def test_what_is_absent_is_neither_equal_nor_like_anything() -> None:
    bare = OutgoingRecord(value=None, key=b"\xff\xfe")
    for where in ("exists(key)", 'key like "*"', "tenant = x", "header.h < 5", "bytes > 2", "age_s > 0"):
        assert not choose(where, bare)
    assert choose("key != x and bytes = 2 and age_s = 0", bare)
    assert choose("age_s < 0", OutgoingRecord(value=b"", at_ms=NOW_MS + 1))


def test_the_first_rule_that_matches_decides_and_live_takes_the_rest() -> None:
    rules = [LaneRule(lane="slow", where="bytes > 10"), LaneRule(lane="retry", where="bytes > 5")]
    chooser = LaneChooser(rules, LANES)
    found = [chooser.choose(OutgoingRecord(value=b"x" * n), NOW_MS) for n in (11, 6, 1)]
    assert found == ["slow", "retry", "live"]
    assert [chooser.deciding(OutgoingRecord(value=b"x" * n), NOW_MS) for n in (11, 6, 1)] == [0, 1, None]
    assert LaneChooser([], LANES).choose(RECORD, NOW_MS) == "live"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (LaneRule(lane="slow", where="key ="), "rule 2 (lane slow): query, column 6: found the end"),
        (LaneRule(lane="slow", where="tennant = a"), "rule 2 (lane slow): there is no attribute 'tennant'"),
        (LaneRule(lane="slow", where="bytes > many"), "rule 2 (lane slow): the query compares bytes, a number"),
        (LaneRule(lane="none", where="key = a"), "rule 2: there is no lane 'none'"),
        (LaneRule(lane="slow", where="x" * 5000), "rule 2 (lane slow): the query has 5,000 characters"),
    ],
)
def test_a_bad_rule_is_refused_when_it_is_compiled(rule: LaneRule, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        LaneChooser([LaneRule(lane="slow", where="key = a"), rule], LANES)
    assert words in str(caught.value)
    if "column" in words:
        assert caught.value.lines
