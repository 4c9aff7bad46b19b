"""Two processes that both believe to hold the stream's lease, in any order of their writes: the route stays sound.

This is worse than what the lease allows. Each process decides from its own looks, and is stopped before any write and
each pause for as long as the schedule wants, as a process that hangs would be.
"""

import threading
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.core.errors import ConflictError, KafkakitError, LeaseLostError
from kafkakit.streams.failover.act.operations import abort, newest_certificate
from kafkakit.streams.failover.decide.history import EndKind
from kafkakit.streams.failover.decide.operation import Step
from tests.rigs.failover import STREAM, FailoverScene
from tests.unit.streams.failover.test_crashes import OLD, check_history, make_scene

MOST_TURNS = 3_000
LIMIT_S = 120.0


class Turns:
    """Threads of which one runs at a time; each waits at its next turn until the schedule comes to it."""

    def __init__(self) -> None:
        self._mine = threading.local()
        self._go: list[threading.Semaphore] = []
        self._stopped: list[threading.Semaphore] = []
        self._threads: list[threading.Thread] = []
        self._ended: list[bool] = []
        self.stopped_by: dict[int, KafkakitError] = {}

    def start(self, work: Callable[[], object]) -> None:
        number = len(self._threads)

        def body() -> None:
            self._mine.number = number
            self._go[number].acquire()
            try:
                work()
            except KafkakitError as error:
                self.stopped_by[number] = error
            finally:
                self._mine.number = None
                self._ended[number] = True
                self._stopped[number].release()

        self._ended.append(False)
        self._go.append(threading.Semaphore(0))
        self._stopped.append(threading.Semaphore(0))
        self._threads.append(threading.Thread(target=body, daemon=True))
        self._threads[-1].start()

    def turn(self) -> None:
        """Called by a thread before what others may see."""
        number = getattr(self._mine, "number", None)
        if number is not None:
            self._stopped[number].release()
            self._go[number].acquire()

    def play(self, schedule: list[tuple[int, int]]) -> None:
        """Let thread `number` have so many turns, one entry after the other; then all take turns until they end."""
        order = [number for number, turns in schedule for _ in range(turns)]
        order += list(range(len(self._threads))) * MOST_TURNS
        for number in order:
            if all(self._ended):
                return
            if not self._ended[number]:
                self._go[number].release()
                assert self._stopped[number].acquire(timeout=LIMIT_S)
        raise AssertionError("a process did not end")


def interleave(scene: FailoverScene, works: list[Callable[[], object]], schedule: list[tuple[int, int]]) -> Turns:
    turns = Turns()
    write = scene.store._replace

    def replaced(path: str, value: bytes, expected: int | None) -> int:
        turns.turn()
        return write(path, value, expected)

    scene.store._replace = replaced  # type: ignore[method-assign]
    scene.clock.on_sleep.insert(0, lambda _: turns.turn())
    for work in works:
        turns.start(work)
    turns.play(schedule)
    scene.clock.on_sleep.pop(0)
    scene.store._replace = write  # type: ignore[method-assign]
    return turns


def test_processes_that_take_turns_stop_each_other_and_the_route_is_sound() -> None:
    scene = make_scene()
    scene.begin()
    turns = interleave(scene, [lambda: scene.resume(wait_s=30)] * 2, [(0, 1), (1, 1)] * 100)
    assert [type(error) for error in turns.stopped_by.values()] == [LeaseLostError]
    check_history(scene)


schedules = st.lists(st.tuples(st.integers(0, 1), st.integers(1, 15)), max_size=14)


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("fenced", [False, True])
@settings(max_examples=60, deadline=None)
@given(schedule=schedules, late=st.booleans())
def test_two_processes_run_the_same_failover(
    fenced: bool, begun: bool, schedule: list[tuple[int, int]], late: bool
) -> None:
    scene = make_scene(fenced=fenced)
    writes = [2] if late else []

    def write_late(_: float) -> None:
        if writes and any(segment.seal for _, segment in scene.route.segments()):
            scene.write(OLD, writes.pop())

    scene.clock.on_sleep.append(write_late)
    if begun:
        scene.begin()
    interleave(scene, [lambda: scene.run(wait_s=30)] * 2, schedule)
    for _ in range(4):
        with suppress(ConflictError):
            if scene.run().kind is EndKind.DONE:
                break
    check_history(scene)
    assert [lane.active.cluster for lane in scene.route.lanes if lane.active] == ["q"]
    certificate, _ = newest_certificate(scene.parts().journals)
    assert certificate.segments[0].partitions[0].end == scene.end_of(OLD)


@settings(max_examples=60, deadline=None)
@given(schedule=schedules)
def test_one_process_runs_what_another_aborts(schedule: list[tuple[int, int]]) -> None:
    scene = make_scene()
    scene.begin()

    def take_back() -> None:
        abort(scene.parts(), scene.open_cluster, STREAM)

    interleave(scene, [lambda: scene.run(wait_s=30), take_back], schedule)
    check_history(scene)
    route = scene.route
    if route.operation is None and len(route.lanes[0].segments) == 1 and route.lanes[0].segments[0].cluster == "p":
        ends = [record.end for record in scene.parts().journals.records() if record.reached_ms]
        assert set(ends) <= {Step.ABORTED, None}
