"""Runs that end early: what is said of it, and what is never left behind without a word."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafkakit.core.cluster_facts import ConfigOp, ResourceKind
from kafkakit.core.errors import (
    InterruptedRunError,
    LeaseLostError,
    OperationFailedError,
    RefusedError,
    TryLaterError,
    UsageError,
)
from kafkakit.core.plan import DirMove
from kafkakit.execution.act.control_requests import ControlRequests, ReceivedRequests
from kafkakit.execution.decide.journal import JournalSubject
from kafkakit.execution.decide.run_rules import ScheduleLimits
from kafkakit.execution.decide.schedule.work import RateRequest
from kafkakit.execution.decide.throttle import INSIDE_RATE
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeCluster
from tests.fakes.control import FakeControlStore
from tests.invariants.journal import verify_journal
from tests.rigs.reassign import Harness

MB = 1_000_000
ONE = ScheduleLimits(into_each=1, out_each=1)
TOKEN = 7


def make_bench(partitions: int = 4) -> Harness:
    """Partitions of 20 MB on brokers 1 and 2 that go to 3 and 4."""
    cluster = FakeCluster({1: "a", 2: "b", 3: "a", 4: "b"}, line_rate=10 * MB)
    cluster.add_topic("t", dict.fromkeys(range(partitions), (1, 2)), size_bytes=20 * MB)
    return Harness(cluster, make_plan(cluster, {("t", n): (3 + n % 2, 2) for n in range(partitions)}))


def after(bench: Harness, seconds: float, action: Callable[[], object]) -> None:
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
    orders = ReceivedRequests(ControlRequests(store, bench.clock, bench.plan.cluster_id), TOKEN, bench.reporter)
    after(bench, 3, lambda: store.cas(f"clusters/{bench.plan.cluster_id}/wish", b"{broken", None))
    assert bench.apply(rate=4 * MB, limits=ONE, orders=orders).ok
    assert sum("control requests cannot be read" in w for w in bench.reporter.warned) == 1


def test_a_rollback_that_was_killed_while_it_was_paused_stays_paused() -> None:
    bench = make_bench()
    bench.apply()
    requests = ControlRequests(FakeControlStore(), bench.clock, bench.plan.cluster_id)
    after(bench, 1, lambda: requests.request(TOKEN, "ann", paused=True))

    def die() -> Any:
        raise TryLaterError("the host went away")

    after(bench, 10, die)
    with pytest.raises(TryLaterError):
        bench.rollback(limits=ONE, orders=ReceivedRequests(requests, TOKEN, bench.reporter))
    for go_on in (bench.run().resume, bench.run().rollback):
        with pytest.raises(RefusedError, match="is paused"):
            go_on()
    assert bench.run().abort().verdict in ("aborted", "incomplete")
    assert bench.rollback().ok


def test_a_lease_lost_while_throttles_are_lifted_is_told_as_such() -> None:
    bench = make_bench()

    def lose(name: str, changes: Any) -> None:
        if name == "alter_configs" and any(c.op is ConfigOp.DELETE and c.kind is ResourceKind.BROKER for c in changes):
            raise LeaseLostError("the lease was taken over")

    bench.cluster.before_call.append(lose)
    with pytest.raises(TryLaterError, match=r"taken over; this run stops here: .* its throttles stay set"):
        bench.apply(rate=4 * MB)
    bench.cluster.before_call.clear()
    assert bench.run().resume().ok
    assert not any(bench.configs().values())
    verify_journal(bench.file.data)


def test_a_run_that_finds_all_done_after_an_abort_is_a_run_in_the_journal() -> None:
    bench = make_bench()
    requests = ControlRequests(FakeControlStore(), bench.clock, bench.plan.cluster_id)
    after(bench, 0.1, lambda: requests.request(TOKEN, "ann", abort=True))
    assert bench.apply(limits=ONE, orders=ReceivedRequests(requests, TOKEN, bench.reporter)).verdict == "incomplete"
    assert bench.rollback().verdict == "nothing to roll back"
    verify_journal(bench.file.data)
    assert not bench.journal().state.unsettled


@pytest.mark.parametrize("error", [KeyboardInterrupt(), TryLaterError("the cluster is away"), LeaseLostError("gone")])
def test_a_run_cut_while_it_aborts_on_request_says_to_finish_the_abort(error: BaseException) -> None:
    bench = make_bench()
    requests = ControlRequests(FakeControlStore(), bench.clock, bench.plan.cluster_id)
    after(bench, 1, lambda: requests.request(TOKEN, "ann", abort=True))

    def cut(name: str, _: Any) -> None:
        if name == "cancel":
            raise error

    bench.cluster.before_call.append(cut)
    with pytest.raises((InterruptedRunError, TryLaterError)) as caught:
        bench.apply(limits=ONE, orders=ReceivedRequests(requests, TOKEN, bench.reporter), retry_limit_s=1)
    assert "reassign abort p.json" in (caught.value.hint or "")
    bench.cluster.before_call.clear()
    assert bench.run().abort().ok


def make_inside_bench() -> Harness:
    """A copy that is to change its log dir inside broker 1, and that takes for ever to do so."""
    cluster = FakeCluster({1: "a", 2: "b"}, dirs_per_broker=3)
    cluster.add_topic("t", {0: (1, 2)}, size_bytes=50 * MB)
    cluster.topics["t"].partitions[0].dirs[1] = "/data/1/0"
    move = DirMove(topic="t", partition=0, broker=1, source_dir="/data/1/0", target_dir="/data/1/1", size_bytes=50 * MB)
    bench = Harness(cluster, replace(make_plan(cluster, {}, topics=["t"]), dir_moves=(move,)))
    bench.clock.on_sleep.remove(cluster.advance)
    bench.clock.on_sleep.append(cluster.replication.advance)
    return bench


def futures(bench: Harness) -> dict[int, str]:
    return bench.cluster.topics["t"].partitions[0].future_dirs


def stop() -> None:
    raise KeyboardInterrupt


INSIDE = RateRequest(dirs_given=True, dirs_rate=5 * MB)


def interrupt(bench: Harness) -> InterruptedRunError:
    after(bench, 3, stop)
    with pytest.raises(InterruptedRunError) as caught:
        bench.apply(rates=INSIDE)
    return caught.value


def test_a_stop_while_a_copy_changes_its_dir_says_so_and_keeps_its_throttle() -> None:
    bench = make_inside_bench()
    assert "stopped; 1 of 1 moves still run on the cluster, the throttle" in interrupt(bench).message
    assert bench.cluster.brokers[1].configs == {INSIDE_RATE: str(5 * MB)}
    assert futures(bench) == {1: "/data/1/1"}


@pytest.mark.parametrize("way", ["abort", "rollback"])
def test_a_copy_on_its_way_to_another_dir_is_kept_where_it_was(way: str) -> None:
    bench = make_inside_bench()
    interrupt(bench)
    outcome = getattr(bench.run(), way)()
    assert outcome.ok
    assert not futures(bench)
    assert not any(bench.configs().values())
    verify_journal(bench.file.data)


def test_an_apply_after_half_a_rollback_keeps_the_copy_in_its_new_dir() -> None:
    bench = make_inside_bench()
    bench.cluster.topics["t"].partitions[0].dirs[1] = "/data/1/1"
    after(bench, 3, stop)
    with pytest.raises(InterruptedRunError):
        bench.rollback(rates=INSIDE)
    assert futures(bench) == {1: "/data/1/0"}
    assert bench.apply().ok
    assert not futures(bench)


def test_a_move_of_somebody_else_between_dirs_is_left_alone() -> None:
    bench = make_inside_bench()
    interrupt(bench)
    futures(bench)[1] = "/data/1/2"
    bench.run().abort()
    assert futures(bench) == {1: "/data/1/2"}


def test_a_run_that_gives_up_says_that_copies_between_dirs_go_on_without_a_throttle() -> None:
    bench = make_inside_bench()
    outcome = bench.apply(rates=INSIDE, stall_timeout_s=10)
    assert any("continue without a throttle: 1" in p for p in outcome.problems)


def test_an_abort_remembers_the_dir_that_a_copy_was_taken_to_on_its_way() -> None:
    bench = make_inside_bench()
    interrupt(bench)
    journal = bench.journal()
    seq = journal.intent(JournalSubject.DIRS, {"replicas": [["t", 0, 1, "/data/1/2"]]})
    journal.effect(seq, {"refused": []})
    futures(bench).clear()
    bench.cluster.topics["t"].partitions[0].dirs[1] = "/data/1/2"
    bench.run().abort()
    assert any("left in a log dir between their old and new ones: t-0 on broker 1" in w for w in bench.reporter.warned)
    bench.clock.on_sleep.append(bench.cluster.advance)
    assert bench.rollback().ok
    assert bench.cluster.topics["t"].partitions[0].dirs[1] == "/data/1/0"


def test_another_plan_waits_for_copies_between_dirs_under_the_throttle_of_the_first() -> None:
    bench = make_inside_bench()
    interrupt(bench)
    bench.cluster.add_topic("u", {0: (1,)}, size_bytes=MB)
    other = Harness(bench.cluster, make_plan(bench.cluster, {("u", 0): (2,)}))
    other.others = [bench.file]
    with pytest.raises(RefusedError, match=r"1 moves of /plans/p\.json run under its throttle"):
        other.apply()
    assert bench.cluster.brokers[1].configs == {INSIDE_RATE: str(5 * MB)}
    bench.run().abort()
    assert other.apply().ok
