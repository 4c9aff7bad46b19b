"""Automatic failovers are noted before they begin, a few at once, and never in a dry run."""

import threading
import time
from collections.abc import Callable

import pytest

from kafkakit.adapters.host import SystemClock
from kafkakit.core.errors import ConflictError, LeaseLostError, RefusedError
from kafkakit.streams.assigner.act.leader import AssignerOptions
from kafkakit.streams.assigner.act.watching import MOST_AT_ONCE, AutomaticFailovers
from kafkakit.streams.assigner.standing import AutomaticMode, AutomaticPolicy, Verdict
from tests.fakes.admin import FakeClock
from tests.fakes.control import FakeControlStore
from tests.rigs.assigner import route, worker
from tests.rigs.assigner_loop import Papers, assigner


class Failover:
    """Notes what is asked for; `gate` holds it up."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.error: Exception | None = None

    def emergency(self, stream: str, target: str) -> str:
        self.asked.append((stream, target))
        assert self.gate.wait(180)
        if self.error is not None:
            raise self.error
        return "done"


class Stage:
    def __init__(self, mode: AutomaticMode = AutomaticMode.ON) -> None:
        self.store, self.failover = FakeControlStore(), Failover()
        self.said: list[str] = []
        self.held: list[Exception] = []
        self.automatic = AutomaticFailovers(
            self.store, SystemClock(), mode, self.failover, self.require_held, self.said.append
        )

    def require_held(self) -> None:
        if self.held:
            raise self.held[0]


def verdict(stream: str = "orders", why_not: str = "", *, continues: bool = False) -> Verdict:
    return Verdict(stream=stream, source="a", target="b", why_not=why_not, continues=continues)


def until(check: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_move_is_noted_and_made_once() -> None:
    stage = Stage()
    stage.failover.gate.clear()
    for _ in range(3):
        assert stage.automatic.carry_out([verdict()]) == ("moved: stream orders from a to b",)
    assert [each.stream for each in stage.automatic.history().starts] == ["orders"]
    stage.failover.gate.set()
    until(lambda: "stream orders to b: done" in stage.said)
    assert stage.failover.asked == [("orders", "b")]


def test_a_dry_run_only_says_so() -> None:
    stage = Stage(AutomaticMode.DRY_RUN)
    assert stage.automatic.carry_out([verdict()]) == ("would be moved (dry run): stream orders from a to b",)
    assert not stage.failover.asked
    assert stage.store.writes == 0


def test_a_refusal_moves_nothing_and_is_said_once() -> None:
    stage = Stage()
    for _ in range(3):
        stage.automatic.carry_out([verdict(why_not="no target for its cluster")])
    assert not stage.failover.asked
    assert stage.said == ["not moved: stream orders from a to b: no target for its cluster"]


def test_without_the_lease_nothing_is_noted_or_begun() -> None:
    stage = Stage()
    stage.held.append(LeaseLostError("lost"))
    with pytest.raises(LeaseLostError):
        stage.automatic.carry_out([verdict()])
    assert not stage.failover.asked
    assert stage.store.writes == 0


def test_what_another_process_noted_meanwhile_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    monkeypatch.setattr(stage.store, "cas", lambda *_: (_ for _ in ()).throw(ConflictError("changed")))
    with pytest.raises(ConflictError):
        stage.automatic.carry_out([verdict()])
    assert not stage.failover.asked


def test_a_few_run_at_once_and_errors_are_said() -> None:
    stage = Stage()
    stage.failover.gate.clear()
    stage.failover.error = RefusedError("the target has no space")
    stage.automatic.carry_out([verdict(f"s{n}") for n in range(MOST_AT_ONCE + 2)])
    until(lambda: len(stage.failover.asked) == MOST_AT_ONCE)
    stage.failover.gate.set()
    until(lambda: sum("the target has no space" in line for line in stage.said) == MOST_AT_ONCE)
    assert len(stage.automatic.history().starts) == MOST_AT_ONCE


def test_one_that_is_continued_is_not_counted_again() -> None:
    stage = Stage()
    stage.automatic.carry_out([verdict(continues=True)])
    until(lambda: stage.failover.asked)
    assert stage.automatic.history().starts == ()


def test_the_loop_moves_a_stream_from_a_cluster_that_probes_and_workers_do_not_reach() -> None:
    store, clock, failover = FakeControlStore(), FakeClock(), Failover()
    papers = Papers(store)
    papers.put_route(route(4))
    policy = AutomaticPolicy(mode=AutomaticMode.ON, targets={"a": "b"})
    loop = assigner(store, clock, options=AssignerOptions(), policy=policy, failover=failover)
    workers = {slot: worker(slot) for slot in "xyz"}

    def ticks(count: int) -> None:
        for _ in range(count):
            clock.advance(0.2)
            workers.update({slot: papers.beat(slot, document) for slot, document in workers.items()})
            loop.tick()

    from dataclasses import replace

    try:
        ticks(100)
        assert not failover.asked  # no worker says so
        workers.update({slot: replace(workers[slot], silent=("a-id",)) for slot in "xy"})
        ticks(2)
        until(lambda: failover.asked == [("orders", "b")])
        ticks(20)
        assert failover.asked == [("orders", "b")]
    finally:
        loop.close()
