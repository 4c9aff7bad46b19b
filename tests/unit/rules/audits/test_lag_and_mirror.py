"""What the audits `lag` and `mirror` say, and which rules they bring."""

from typing import Any

import pytest

from kafkakit.audit.report.exports import audit_rules
from kafkakit.rules.audits import delivery as lag
from kafkakit.rules.audits import delivery as mirror


def test_codes_are_unique_and_those_of_the_audits() -> None:
    codes = [rule.code for rule in (*lag.LAG_RULES, *mirror.MIRROR_RULES)]
    assert codes == ["KKJ001", "KKJ002", "KKJ003", "KKJ004", "KKZ001", "KKZ002", "KKZ003", "KKZ004"]
    assert all(audit_rules()[code].code == code for code in codes)


@pytest.mark.parametrize(
    ("labels", "mirror_of", "sources"),
    [(None, None, ()), (["mirror:b", "x"], "a", ("a", "b")), (["mirror:me"], "me", ()), (["mirror:a"], "a", ("a",))],
)
def test_a_mirror_names_its_sources_by_label_or_column(
    labels: list[str] | None, mirror_of: str | None, sources: tuple[str, ...]
) -> None:
    assert mirror.sources_of("me", labels, mirror_of) == sources


def mirrored(**values: Any) -> list[tuple[str, str, int]]:
    faults = ("mirror", "primary", "twice_on_mirror", "twice_on_primary")
    row: dict[str, Any] = {"cluster": "dr", "source": "c1", "topic": "orders", "shift_ms": 0, "clock_s": 1.0}
    for fault in faults:
        row |= {fault: 0, f"{fault}_windows": 0, f"{fault}_first": []}
    return [(f.rule, f.message, f.count) for f in mirror.compare_mirror(row | values)]


def test_what_a_side_lacks_is_shown_where_it_is() -> None:
    first = [{"partition": 1, "offset": 7}, {"partition": 0, "offset": 9}]
    assert mirrored() == []
    assert mirrored(mirror=2, mirror_windows=1, mirror_first=first) == [
        ("KKZ001", "2 records of c1 are not on dr, in 1 window; first on c1 (partition:offset) 1:7, 0:9", 2)
    ]
    assert mirrored(primary=1, primary_windows=1, primary_first=first[:1]) == [
        ("KKZ002", "1 record of dr is not on c1, in 1 window; first on dr (partition:offset) 1:7", 1)
    ]
    assert [r for r, _, _ in mirrored(twice_on_mirror=1, twice_on_primary=1)] == ["KKZ003", "KKZ003"]


def test_clocks_are_reported_beyond_the_limit_with_the_side_that_is_ahead() -> None:
    assert mirrored(shift_ms=1000) == []
    assert mirrored(shift_ms=-1001) == [("KKZ004", "records have times on c1 that are 1 s later than on dr", 1)]


def test_a_group_near_the_retention_is_lint_s_finding() -> None:
    row = {"cluster": "c1", "group": "g", "topic": "t", "retention_ms": 100_000, "blast": 1.0}
    assert not list(lag.near_retention({**row, "lag_s": 80.0}))
    (found,) = lag.near_retention({**row, "lag_s": 81.0})
    assert (found.rule, found.where) == ("KKR220", "topic t of c1")


def test_offsets_that_should_be_gone_expire_at_the_next_check() -> None:
    row = {"cluster": "c1", "group": "g", "idle_s": 100.0, "retention_s": 90.0, "partitions": 2, "blast": 2.0}
    (found,) = lag.find_expiring(row)
    assert found.message.endswith("its offsets of 2 partitions are forgotten at the next check")
