"""What the demo shows of a phase, and the report of all phases."""

from dataclasses import replace

from kafkakit.streams.demo.decide import (
    DemoEvents,
    LaneCounts,
    PhaseFigures,
    phase_line,
    phase_text,
    summary_of,
    summary_report,
)

LANES = {"live": LaneCounts(written=12, handled=10, p99_ms=3.6), "slow": LaneCounts(written=1)}
OUTAGE = PhaseFigures(
    title="5. The database is down", lanes=LANES, rejected=0, deferred=4, waiting=3, down=("database",), problems=("p",)
)  # fmt: skip
BURST = replace(OUTAGE, title="7. A burst", lanes={**LANES, "slow": LaneCounts(p99_ms=900.2)}, deferred=0)


def test_the_table_has_a_line_for_each_lane_and_what_is_wrong() -> None:
    assert phase_text(OUTAGE).splitlines() == [
        "LANE  WRITTEN  HANDLED  P99-MS",
        "live       12       10       4",
        "slow        1        0       -",
        "waiting 3, rejected 0, deferred 4",
        "down: database",
        "last problem: p",
    ]


def test_a_phase_that_is_over_is_one_line_without_what_is_zero() -> None:
    assert phase_line(OUTAGE) == (
        "live: written 12, handled 10, p99 4 ms; slow: written 1, handled 0, p99 - ms; waiting 3; deferred 4"
    )


def test_the_report_takes_its_claims_from_the_counts() -> None:
    events = DemoEvents(
        acknowledged=[1, 2, 3], handled=[1, 2], rejected=[3], noted=[], poison={3}, unacknowledged=0, deferred=4,
        lag=0, on_other=2, epoch=6,
    )  # fmt: skip
    report = summary_report(replace(summary_of(events, [OUTAGE, BURST]), seconds=41.26))
    assert "while the database was down 4 tries were put off, and 0 records rejected\n" in report.text
    assert "the 99th percentile was 4 ms on live, 900 ms on slow\n" in report.text
    assert report.data["seconds"] == 41.3
    assert report.rows == ((3, 2, 0, 1, 0, 0, 0, 4, 0, 2, 6),)
    worse = summary_report(summary_of(events, [replace(OUTAGE, rejected=2), BURST]))
    assert "and 2 records rejected\n" in worse.text
