"""Runs that end early: what is said of it, and what is never left behind without a word."""

from collections.abc import Callable
from typing import Any

import pytest

from kafkakit.control.store_wish import Wishes
from kafkakit.errors import OperationFailedError, RefusedError, TryLaterError, UsageError
from kafkakit.reassign.schedule.work import Limits
from kafkakit.reassign.store_orders import Orders
from tests.fake_control import FakeControlStore
from tests.fakes import FakeCluster
from tests.journal_invariants import verify_journal
from tests.plans import make_plan
from tests.reassign_bench import Bench

MB = 1_000_000
ONE = Limits(into_each=1, out_each=1)
TOKEN = 7


def make_bench(partitions: int = 4) -> Bench:
    """Partitions of 20 MB on brokers 1 and 2 that go to 3 and 4."""
    cluster = FakeCluster({1: "a", 2: "b", 3: "a", 4: "b"}, line_rate=10 * MB)
    cluster.add_topic("t", dict.fromkeys(range(partitions), (1, 2)), size_bytes=20 * MB)
    return Bench(cluster, make_plan(cluster, {("t", n): (3 + n % 2, 2) for n in range(partitions)}))


def after(bench: Bench, seconds: float, action: Callable[[], object]) -> None:
    due = bench.clock.elapsed + seconds

    def check(_: float) -> None:
        if bench.clock.elapsed > due:
            bench.clock.on_sleep.remove(check)
            action()

    bench.clock.on_sleep.append(check)


@pytest.mark.parametrize("call", ["reassign", "alter_configs"])
def test_an_error_of_any_kind_says_that_throttles_stay_and_how_to_go_on(call: str) -> None:
    bench = make_bench()
    after(bench, 3, lambda: bench.cluster.fail_next(call, UsageError("the client refuses its settings")))
    with pytest.raises(OperationFailedError, match=r"settings; the run stopped, .* its throttles may be set") as caught:
        bench.apply(rate=4 * MB, limits=ONE)
    assert "reassign apply p.json" in (caught.value.hint or "")
    assert bench.run().resume().ok
    assert not any(bench.configs().values())
    verify_journal(bench.file.data)


def test_a_wish_that_cannot_be_read_does_not_end_a_run() -> None:
    bench = make_bench()
    store = FakeControlStore()
    orders = Orders(Wishes(store, bench.clock, bench.plan.cluster_id), TOKEN, bench.voice)
    after(bench, 3, lambda: store.cas(f"clusters/{bench.plan.cluster_id}/wish", b"{broken", None))
    assert bench.apply(rate=4 * MB, limits=ONE, orders=orders).ok
    assert sum("wishes cannot be read" in w for w in bench.voice.warned) == 1


def test_a_rollback_that_was_killed_while_it_was_paused_stays_paused() -> None:
    bench = make_bench()
    bench.apply()
    wishes = Wishes(FakeControlStore(), bench.clock, bench.plan.cluster_id)
    after(bench, 1, lambda: wishes.ask(TOKEN, "ann", paused=True))

    def die() -> Any:
        raise TryLaterError("the host went away")

    after(bench, 10, die)
    with pytest.raises(TryLaterError):
        bench.rollback(limits=ONE, orders=Orders(wishes, TOKEN, bench.voice))
    for go_on in (bench.run().resume, bench.run().rollback):
        with pytest.raises(RefusedError, match="is paused"):
            go_on()
    assert bench.run().abort().verdict in ("aborted", "incomplete")
    assert bench.rollback().ok
