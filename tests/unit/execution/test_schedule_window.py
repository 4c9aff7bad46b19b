"""What may be sent now, what throttle is too low, and how a schedule is told."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.progress import Standing, startable
from kafkakit.execution.decide.schedule.forecast import (
    catch_up,
    eta_line,
    format_span,
    schedule_lines,
    step_words,
    throttle_share,
)
from kafkakit.execution.decide.schedule.work import (
    Bottleneck,
    Limits,
    Place,
    Rates,
    Schedule,
    Speeds,
    Step,
    StepKind,
    Task,
)
from kafkakit.simulator.cluster import efficiency_of

LIMITS = Limits(into_each=2, out_each=2, max_use=Fraction(1))
TOTALS: Mapping[Place, int | None] = {Place(b, "/a"): 100 for b in range(1, 6)}


def step(number: int, leader: int, *brokers: int, size: int = 10, **more: object) -> Step:
    given: dict[str, object] = {
        "key": TopicPartition("t", number),
        "kind": StepKind.MOVE,
        "target": brokers,
        "leader": leader,
        "adding": tuple(Place(b, "/a") for b in brokers),
        "removing": (Place(leader, "/a"),),
        "size_bytes": size,
        "start_s": 0.0,
        "end_s": 60.0,
    }
    return Step(**{**given, **more})  # type: ignore[arg-type]


def schedule(*steps: Step) -> Schedule:
    return Schedule(steps=steps, makespan_s=60.0, bound_s=50.0)


def usable(**free: int) -> dict[Place, int]:
    """Free bytes of the dirs, 100 unless told: `b2=5`."""
    return {Place(b, "/a"): free.get(f"b{b}", 100) for b in range(1, 6)}


def test_steps_go_as_far_as_slots_allow() -> None:
    found = schedule(step(0, 1, 2), step(1, 1, 3), step(2, 1, 4), step(3, 5, 4))
    assert startable(found, Standing(), LIMITS, TOTALS) == (0, 1)  # 3 would overtake 2 into 4:/a
    assert startable(found, Standing(in_flight=frozenset({0, 1})), LIMITS, TOTALS) == ()
    later = Standing(in_flight=frozenset({0}), finished=frozenset({1}))
    assert startable(found, later, LIMITS, TOTALS) == (2, 3)
    assert startable(found, Standing(), replace(LIMITS, cluster=1), TOTALS) == (0,)


def test_real_room_counts_with_what_is_still_to_arrive() -> None:
    found = schedule(step(0, 1, 2, size=30))
    tight = Standing(usable=usable(b2=30))
    assert startable(found, tight, LIMITS, TOTALS) == (0,)
    assert startable(found, replace(tight, arriving_bytes_left={Place(2, "/a"): 1}), LIMITS, TOTALS) == ()
    assert startable(found, tight, replace(LIMITS, headroom_bytes=1), TOTALS) == ()
    assert startable(found, tight, LIMITS, {Place(2, "/a"): None}) == (0,)


def test_two_steps_of_one_look_share_the_room() -> None:
    found = schedule(step(0, 1, 2, size=30), step(1, 3, 2, size=30))
    assert startable(found, Standing(usable=usable(b2=59)), LIMITS, TOTALS) == (0,)
    assert startable(found, Standing(usable=usable(b2=60)), LIMITS, TOTALS) == (0, 1)


def test_a_small_step_does_not_overtake_into_the_same_dir() -> None:
    found = schedule(step(0, 1, 2, size=50), step(1, 3, 2, size=5), step(2, 3, 4, size=5))
    assert startable(found, Standing(usable=usable(b2=20)), LIMITS, TOTALS) == (2,)


def test_a_step_that_waits_for_slots_keeps_them() -> None:
    """Step 1 needs both places of leader 1; step 2 may not take the second one again and again."""
    found = schedule(step(0, 1, 2), step(1, 1, 3, 4), step(2, 1, 5))
    assert startable(found, Standing(in_flight=frozenset({0})), LIMITS, TOTALS) == ()
    assert startable(found, Standing(finished=frozenset({0})), LIMITS, TOTALS) == (1,)


def test_a_step_with_more_copies_than_places_goes_alone() -> None:
    found = schedule(step(0, 1, 2, 3, 4))
    assert startable(found, Standing(), LIMITS, TOTALS) == (0,)


def test_steps_of_a_partition_follow_each_other() -> None:
    found = schedule(step(0, 1, 2), step(0, 2, 3, after=0))
    assert startable(found, Standing(), LIMITS, TOTALS) == (0,)
    assert startable(found, Standing(in_flight=frozenset({0})), LIMITS, TOTALS) == ()
    assert startable(found, Standing(finished=frozenset({0})), LIMITS, TOTALS) == (1,)


def test_moves_inside_a_broker_have_places_of_their_own() -> None:
    inside: dict[str, Any] = {"kind": StepKind.INSIDE, "target": ()}
    found = schedule(
        step(0, 1, 1, adding=(Place(1, "/b"),), **inside),
        step(1, 1, 1, adding=(Place(1, "/c"),), **inside),
        step(2, 1, 2),
    )
    assert startable(found, Standing(), LIMITS, TOTALS) == (0, 2)


SPEEDS = Speeds(efficiency=0.8)


def hot(number: int, ingest: float, target: tuple[int, ...] = (2,)) -> Task:
    key = TopicPartition("t", number)
    return Task(key=key, holders=(1,), target=target, leader=1, size_bytes=10, ingest_bytes_per_s=ingest)


def test_a_throttle_below_the_ingest_is_too_low() -> None:
    tasks = [hot(n, 3e6) for n in range(9)]
    assert catch_up(tasks, Limits(), Rates(), SPEEDS).smallest is None
    found = catch_up(tasks, Limits(), Rates(into=10_000_000), SPEEDS)
    (short,) = found.shortfalls
    assert (short.broker, short.direction, len(short.partitions)) == (2, "into", 5)
    assert found.smallest == 21_000_000  # 5 x 3 MB/s and 10 %, over 0.8, rounded up
    assert "broker 2 may take in 10 MB/s" in str(short)
    assert "grow by 15 MB/s (t-0, t-1, t-2 ...)" in str(short)
    assert catch_up(tasks, Limits(into_each=2), Rates(into=10_000_000), SPEEDS).smallest is None


def test_a_leader_sends_every_new_copy() -> None:
    wide = [hot(0, 3e6, (2, 3, 4))]
    found = catch_up(wide, Limits(out_each=2), Rates(out=10_000_000), SPEEDS)
    assert [(s.broker, s.direction) for s in found.shortfalls] == [(1, "out")]
    assert found.shortfalls[0].ingest_bytes_per_s == 9e6
    singly = Limits(out_each=2, one_replica_at_a_time=True)
    assert catch_up(wide, singly, Rates(out=10_000_000), SPEEDS).smallest is None


@pytest.mark.parametrize("ingest", [1.0, 33.0, 123_456.0, 7e6, 9.99e8])
@pytest.mark.parametrize("efficiency", [0.72, 0.8, 1.0])
def test_the_smallest_rate_works(ingest: float, efficiency: float) -> None:
    tasks = [hot(n, ingest * (1 + n)) for n in range(7)]
    speeds = Speeds(efficiency=efficiency)
    requested = catch_up(tasks, Limits(), Rates(into=1, out=1), speeds)
    assert requested.smallest is not None
    assert catch_up(tasks, Limits(), Rates(into=requested.smallest, out=requested.smallest), speeds).smallest is None
    assert requested.smallest <= 1.1 * 1.1 * 5 * ingest * 7 / efficiency + 1


def test_the_share_of_a_throttle_lies_between_what_was_measured_of_small_and_of_large_batches() -> None:
    assert throttle_share() == throttle_share(11, 1000) == 0.86
    assert 0.8 < throttle_share() < 0.93
    assert throttle_share(3, 1000) < throttle_share(5) < throttle_share() < throttle_share(11, 100)


@pytest.mark.parametrize("settings", [(11, 1000), (3, 1000), (3, 100), (30, 0), (0, 1000)])
def test_the_share_is_halfway_between_what_the_simulator_says_of_both(settings: tuple[int, int]) -> None:
    window, backoff = settings
    both = [efficiency_of(max(1, window), backoff, size) for size in (16_000, 900_000)]
    assert throttle_share(window, backoff) == pytest.approx(sum(both) / 2, abs=0.005)
    assert 0 < throttle_share(window, backoff) <= 1


def test_spans_of_time() -> None:
    assert [format_span(s) for s in (0, 59.4, 61, 3599, 3599.9, 11_520, 200_000)] == [
        "0 s",
        "59 s",
        "1 min 01 s",
        "59 min 59 s",
        "1 h 00 min",
        "3 h 12 min",
        "2 d 7 h",
    ]


def told() -> Schedule:
    why = "dirs 1:/a and 2:/a are full of copies that wait for each other; t-0 goes over broker 5 first"
    return Schedule(
        steps=(
            step(0, 1, 5, size=1 << 30, kind=StepKind.DETOUR, why=why),
            step(1, 2, 1, size=1 << 30, running=True),
            step(2, 2, target=(3, 1)),
            step(3, 1, 1, size=1 << 20, kind=StepKind.INSIDE, target=(), adding=(Place(1, "/b"),)),
        ),
        makespan_s=11_520,
        bound_s=11_100,
        bottleneck=Bottleneck(broker=7, direction="into", bytes=1 << 40, bytes_per_s=40e6),
        immovable={TopicPartition("t", 9): "2:/a is closed"},
        notes=("1 partition of unknown or no size",),
    )


def test_a_schedule_in_words() -> None:
    assert eta_line(told()) == ("ETA 3 h 12 min (bound 3 h 05 min), bottleneck broker 7 into: 1 TiB at 40 MB/s")
    lines = schedule_lines(told(), shown=2)
    assert lines[1] == "1 detour past full dirs, 1 GiB copied twice:"
    assert lines[2].endswith("t-0 goes over broker 5 first")
    assert lines[3] == "4 steps, the first:"
    assert lines[4] == "  0 s to 1 min 00 s: t-0 to [5] (1 GiB from 1 to 5:/a, detour)"
    assert lines[5].endswith("(1 GiB from 2 to 1:/a, under way)")
    assert lines[6:] == [
        "  and 2 more",
        "1 partition that no order brings to the target:",
        "  t-9: 2:/a is closed",
        "note: 1 partition of unknown or no size",
    ]
    assert step_words(told().steps[2]).endswith("t-2 to [3,1] (nothing to copy)")
    assert step_words(told().steps[3]).endswith("t-3 on broker 1 from /a to /b (1 MiB)")
