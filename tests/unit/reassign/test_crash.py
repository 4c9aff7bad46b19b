"""`kill -9` at every point of a run: whatever was done, the next run finishes or undoes it, throttles and all."""

from collections.abc import Callable
from typing import Any

import pytest

from kafkakit.execution.decide.throttle import FOLLOWER_LIST, FOLLOWER_RATE, LEADER_RATE
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeCluster
from tests.invariants.journal import verify_effects, verify_journal
from tests.rigs.reassign import Harness, Killed

MB = 1_000_000
TARGETS = {("t", 0): (4, 2, 3), ("t", 1): (4, 2, 3), ("u", 0): (1, 3), ("v", 0): (3,), ("v", 1): (1, 4)}


def make_bench() -> Harness:
    """Copies, a pure reorder, a shrink and a growth; rates and list entries of another process are there."""
    cluster = FakeCluster({1: "a", 2: "b", 3: "c", 4: "a"}, line_rate=20 * MB)
    cluster.add_topic(
        "t", {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}, size_bytes=50 * MB, configs={FOLLOWER_LIST: "2:9,0:4"}
    )
    cluster.add_topic("u", {0: (3, 1)}, size_bytes=10 * MB)
    cluster.add_topic("v", {0: (3, 1), 1: (1, 2)}, size_bytes=10 * MB)
    cluster.brokers[1].configs[LEADER_RATE] = "777"
    cluster.brokers[4].configs[FOLLOWER_RATE] = "8880000"
    return Harness(cluster, make_plan(cluster, TARGETS))


Death = Callable[[Harness], None]


def die_before_call(number: int) -> Death:
    def arm(bench: Harness) -> None:
        seen = iter(range(10_000))

        def hook(name: str, argument: Any) -> None:
            if next(seen) == number:
                raise Killed

        bench.cluster.before_call.append(hook)

    return arm


def die_after_call(number: int) -> Death:
    def arm(bench: Harness) -> None:
        seen = iter(range(10_000))

        def hook(name: str, argument: Any) -> None:
            if next(seen) == number:
                bench.cluster.fail_next(name, Killed(), after_effect=True)

        bench.cluster.before_call.append(hook)

    return arm


def die_at_write(number: int, *, torn: bool) -> Death:
    def arm(bench: Harness) -> None:
        bench.file.writes = 0
        bench.file.die_at, bench.file.torn = number, torn

    return arm


def die_at_sleep(number: int) -> Death:
    def arm(bench: Harness) -> None:
        seen = iter(range(10_000))

        def hook(_: float) -> None:
            if next(seen) == number:
                raise Killed

        bench.clock.on_sleep.append(hook)

    return arm


def revive(bench: Harness) -> None:
    """The operator's host is back; what was armed is gone."""
    bench.cluster.before_call.clear()
    bench.clock.on_sleep[:] = [bench.cluster.advance]
    bench.cluster._failures.clear()
    bench.file.die_at = None


def deaths(run: Callable[[Harness], Any], prepare: Callable[[Harness], Any] = lambda _: None) -> list[Death]:
    """Every point at which that run can be cut, found by letting it run once."""
    bench = make_bench()
    prepare(bench)
    calls, writes, sleeps = len(bench.cluster.calls), bench.file.writes, [0]
    bench.clock.on_sleep.append(lambda _: sleeps.__setitem__(0, sleeps[0] + 1))
    run(bench)
    calls, writes = len(bench.cluster.calls) - calls, bench.file.writes - writes
    assert calls >= 2
    assert writes >= 2 * calls
    return [
        *(die_before_call(n) for n in range(calls)),
        *(die_after_call(n) for n in range(calls)),
        *(die_at_write(n, torn=torn) for n in range(writes) for torn in (False, True)),
        *(die_at_sleep(n) for n in range(0, sleeps[0], 3)),
    ]


def apply(bench: Harness) -> Any:
    return bench.apply(rate=20 * MB, batch_size=3)


def resume(bench: Harness) -> Any:
    return bench.apply(batch_size=3)


def undo(bench: Harness) -> Any:
    return bench.rollback(rate=20 * MB, batch_size=3)


def cut(bench: Harness, run: Callable[[Harness], Any], death: Death) -> None:
    death(bench)
    with pytest.raises(Killed):
        run(bench)
    revive(bench)


def check(bench: Harness, lists: dict[tuple[str, int], tuple[int, ...]], configs: dict[str, dict[str, str]]) -> None:
    assert bench.lists() == lists
    assert bench.configs() == configs
    assert not bench.cluster.reassignments()
    assert all(p.leader == p.replicas[0] for t in bench.cluster.topics.values() for p in t.partitions.values())
    if bench.file.data:
        # A line torn at the very first write stays until there is something else to write.
        lines = verify_journal(bench.file.data, torn_ok=True)
        verify_effects(lines, bench.cluster.calls)


@pytest.mark.parametrize("finish", [apply, resume, undo])
def test_apply_cut_anywhere_can_be_resumed_or_undone(finish: Callable[[Harness], Any]) -> None:
    for death in deaths(apply):
        bench = make_bench()
        lists, configs = bench.lists(), bench.configs()
        cut(bench, apply, death)
        verify_journal(bench.file.data, torn_ok=True, settled=False) if bench.file.data.count(b"\n") else None
        assert finish(bench).ok
        check(bench, lists if finish is undo else lists | TARGETS, configs)


@pytest.mark.parametrize("finish", [resume, undo])
def test_rollback_cut_anywhere_can_be_finished_or_turned_round(finish: Callable[[Harness], Any]) -> None:
    def halfway(bench: Harness) -> None:
        cut(bench, apply, die_at_sleep(3))

    for prepare in (halfway, apply):
        for death in deaths(undo, prepare):
            bench = make_bench()
            lists, configs = bench.lists(), bench.configs()
            prepare(bench)
            cut(bench, undo, death)
            assert finish(bench).ok
            check(bench, lists if finish is undo else lists | TARGETS, configs)


def test_a_run_cut_twice_still_ends_well() -> None:
    points = deaths(apply)
    for first in points[::5]:
        for second in points[1::6]:
            bench = make_bench()
            lists, configs = bench.lists(), bench.configs()
            cut(bench, apply, first)
            second(bench)
            try:
                resume(bench)
            except Killed:
                revive(bench)
                assert resume(bench).ok
            revive(bench)
            check(bench, lists | TARGETS, configs)
