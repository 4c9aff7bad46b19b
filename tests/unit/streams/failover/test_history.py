"""Rates and times of the live view by looks at fixed times, and the score of rehearsals.

The lines of an audit log.
"""

import json
import threading
from dataclasses import replace
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.adapters.host import SystemClock
from kafkakit.streams.client.api_act import BackPressureError, Delivery
from kafkakit.streams.failover.act.rehearsal import RehearsalLoad
from kafkakit.streams.failover.decide.drain_proof import LiveHistory, LiveLook
from kafkakit.streams.failover.decide.history import (
    DAY_MS,
    MOST_COMMANDS,
    REHEARSAL_DOCUMENT,
    LoadFigures,
    Rehearsal,
    RehearsalOutcome,
    read_commands,
    readiness,
    readiness_at,
)
from kafkakit.streams.failover.decide.operation import Step
from tests.rigs.routes import route


class Writer:
    """A producer whose first record finds the lane full, and which breaks at the fifth."""

    def __init__(self) -> None:
        self.sent, self.broken = 0, threading.Event()

    def send(self, *_: object, **__: object) -> Delivery:
        self.sent += 1
        if self.sent == 1:
            raise BackPressureError("lane live holds 100,000 records without an answer")
        if self.sent == 5:
            self.broken.set()
            raise RuntimeError("of a client library")
        return Delivery()

    def flush(self, _: float) -> int:
        return 0


def test_a_load_that_breaks_is_no_load_without_failures() -> None:
    """The defect: the thread ended unseen, and the rehearsal went on with no more records and no failure."""
    writer, client = Writer(), mock.Mock()
    client.producer.return_value = writer
    load = RehearsalLoad(client, SystemClock(), rehearsal(None), ("live",))
    with pytest.raises(RuntimeError, match="of a client library"), load:
        assert writer.broken.wait(60)
    assert (load.figures().failed, client.close.call_count) == (1, 1)


LOAD = LoadFigures(acknowledged=1000, handled=1000, per_s=100.0, longest_pause_ms=400)
GOOD = RehearsalOutcome(ended_ms=9_000, result="done", steps_ms={Step.RETIRED: 8_000}, load=LOAD, is_verified=True)


def rehearsal(outcome: RehearsalOutcome | None = GOOD) -> Rehearsal:
    return Rehearsal(
        id="1-a", stream="orders", to="q", by="me", started_ms=1_000, per_s=100.0, record_bytes=100, load_s=5.0,
        profiles=("p", "q"), outcome=outcome,
    )  # fmt: skip


def look(at_s: float, end: int | None) -> LiveLook:
    ends = {} if end is None else {1: end}
    return LiveLook(at_s=at_s, at_ms=round(at_s * 1000), route=route("orders"), ends=ends)


def test_rates_are_over_the_window_and_unknown_where_an_end_is() -> None:
    history = LiveHistory(window_s=10)
    seen = []
    for at_s, end in ((0.0, 0), (5.0, 100), (10.0, 400), (15.0, None), (20.0, 400), (30.0, 400)):
        (one,) = history.view(look(at_s, end)).traffic
        seen.append((one.end, one.records_per_s))
    assert seen == [(0, None), (100, 20.0), (400, 40.0), (None, None), (400, 0.0), (400, 0.0)]


@given(st.lists(st.tuples(st.floats(0.1, 30), st.integers(0, 5_000)), min_size=1, max_size=30))
def test_a_rate_lies_between_the_least_and_the_most_of_the_looks(steps: list[tuple[float, int]]) -> None:
    history, at_s, end = LiveHistory(), 0.0, 0
    history.view(look(at_s, end))
    rates = []
    for seconds, more in steps:
        at_s, end = at_s + seconds, end + more
        rates.append(more / seconds)
        (one,) = history.view(look(at_s, end)).traffic
        assert one.records_per_s is not None
        assert min(rates) * 0.999 <= one.records_per_s <= max(rates) * 1.001


def test_each_part_of_the_score() -> None:
    cases = {
        100: GOOD,
        90: replace(GOOD, steps_ms={Step.RETIRED: 15_000}),
        60: replace(GOOD, steps_ms={Step.RETIRED: 600_000}),
        95: replace(GOOD, load=replace(LOAD, longest_pause_ms=1_500)),
        70: replace(GOOD, load=replace(LOAD, longest_pause_ms=60_000)),
        80: replace(GOOD, budget=3, load=replace(LOAD, handled_again=4)),
        98: replace(GOOD, load=replace(LOAD, per_s=90.0)),
    }
    assert {score: readiness(rehearsal(outcome)) for score, outcome in cases.items()} == {n: n for n in cases}
    for worthless in (
        None, replace(GOOD, result="waiting"), replace(GOOD, is_verified=False),
        replace(GOOD, load=replace(LOAD, open=1)), replace(GOOD, load=replace(LOAD, failed=1)),
    ):  # fmt: skip
        assert readiness(rehearsal(worthless)) == 0
    assert readiness(rehearsal(replace(GOOD, budget=None, load=replace(LOAD, handled_again=9)))) == 100


@given(st.integers(0, 400))
def test_a_score_loses_one_a_day(days: int) -> None:
    assert readiness_at(rehearsal(), 1_000 + days * DAY_MS) == max(0, 100 - days)


def test_a_rehearsal_is_read_as_it_was_written() -> None:
    for outcome in (None, GOOD):
        assert REHEARSAL_DOCUMENT.decode(REHEARSAL_DOCUMENT.encode(rehearsal(outcome)), "x") == rehearsal(outcome)


def line(number: int, outcome: str, **more: str) -> bytes:
    found = {"time": f"t{number}", "id": str(number), "by": "me", "command": "run", "outcome": outcome, **more}
    return json.dumps(found).encode() + b"\n"


@given(st.binary(max_size=400))
def test_any_bytes_are_read_and_counted(data: bytes) -> None:
    commands, damaged = read_commands(data)
    assert len(commands) + damaged <= len(data.splitlines())


@given(st.permutations(range(6)), st.sets(st.integers(0, 5)))
def test_each_command_is_there_once_in_the_order_of_beginning(order: list[int], ended: set[int]) -> None:
    begun = b"".join(line(number, "begun") for number in range(6))
    ends = b"".join(line(number, "done", result="waiting") for number in order if number in ended)
    commands, damaged = read_commands(begun + b"torn" + b"\n" + ends)
    assert damaged == 1
    assert [each.line.id for each in commands] == [str(number) for number in range(6)]
    assert [each.outcome for each in commands] == [
        "waiting" if number in ended else "cut or running" for number in range(6)
    ]  # fmt: skip


def test_the_newest_commands_are_kept() -> None:
    commands, _ = read_commands(b"".join(line(number, "begun") for number in range(MOST_COMMANDS + 3)))
    assert (len(commands), commands[0].line.id) == (MOST_COMMANDS, "3")
