"""What the demo concludes from its counts, and how it changes the route.

What the demo shows of a phase, and the report of all phases.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.errors import UsageError
from kafkakit.streams.demo.decide import (
    DemoEvents,
    DemoPlan,
    DemoSummary,
    LaneCounts,
    PhaseFigures,
    move_route,
    percentile,
    phase_line,
    phase_text,
    summary_of,
    summary_report,
)
from kafkakit.streams.model.route import Lane, Route, Segment, SegmentState

ACTIVE, DRAINING, OPENED = SegmentState.ACTIVE, SegmentState.DRAINING, SegmentState.OPENED


def events(
    acknowledged: Sequence[int], handled: Sequence[int], rejected: Sequence[int] = (), noted: Sequence[int] = ()
) -> DemoEvents:
    return DemoEvents(
        acknowledged=acknowledged, handled=handled, rejected=rejected, noted=noted, poison={7}, unacknowledged=0,
        deferred=3, lag=0, on_other=2, epoch=6,
    )  # fmt: skip


def summed(found: DemoEvents) -> DemoSummary:
    return summary_of(found, ())


def test_every_record_has_an_end() -> None:
    report = summary_report(summed(events(range(10), [0, 1, 2, 2, 3, 4, 5, 6, 9], rejected=[7, 7], noted=[8])))
    assert report.failure is None
    assert (report.data["handled"], report.data["duplicates"]) == (8, 1)
    assert (report.data["rejected"], report.data["passed_batches"], report.data["lost"]) == (1, 1, 0)


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (events([1, 2, 3], [1, 3]), "1 of 3 acknowledged records are lost"),
        (events([1, 2], [1], rejected=[2]), "1 records were rejected that could be handled"),
        (replace(events([1], [1]), lag=4), "the lag at the end is 4"),
        (replace(events([1], [1]), lag=None), "the lag at the end is unknown"),
    ],
)
def test_what_must_not_be_fails_the_command(found: DemoEvents, fault: str) -> None:
    report = summary_report(summed(found))
    assert report.failure is not None
    assert report.failure.message == fault


@given(st.lists(st.integers(0, 20), unique=True), st.lists(st.integers(0, 20)))
def test_lost_is_what_was_acknowledged_and_has_no_end(acknowledged: list[int], handled: list[int]) -> None:
    found = summed(events(acknowledged, handled))
    assert set(found.counted.lost) == set(acknowledged) - set(handled)
    assert found.counted.repeated == len(handled) - len(set(handled))


def segment(number: int, cluster: str, state: SegmentState) -> Segment:
    return Segment(
        id=number, cluster=cluster, cluster_id=cluster.upper(), topic=f"t{number}", topic_id=str(number),
        partitions=1, state=state,
    )  # fmt: skip


def test_opened_segments_of_the_cluster_become_active() -> None:
    live = Lane(name="live", segments=(segment(1, "a", ACTIVE), segment(3, "b", OPENED)))
    dlq = Lane(name="dlq", segments=(segment(2, "a", ACTIVE),))
    route = Route(stream="orders", epoch=4, next_segment=4, lanes=(live, dlq))
    after = move_route(route, "b")
    assert [(s.id, s.state) for s in after.lanes[0].segments] == [(1, DRAINING), (3, ACTIVE)]
    assert after.lanes[1] == dlq
    assert move_route(route, "c") == route
    assert move_route(after, "b") == after


@pytest.mark.parametrize(("rate", "phase_s"), [(0, 1.0), (2_001, 1.0), (10, 0.01), (10, 61.0)])
def test_limits(rate: int, phase_s: float) -> None:
    with pytest.raises(UsageError):
        DemoPlan(name="demo", rate=rate, phase_s=phase_s)


def test_percentiles() -> None:
    assert percentile([], 0.99) is None
    assert percentile([3.0], 0.99) == 3.0
    assert percentile([float(n) for n in range(100)], 0.99) == 98.0


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
