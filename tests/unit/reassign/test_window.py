"""What a rolling window does while it works: control requests and moves of others, dead brokers, leases, full disks."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kafkakit.core.errors import InfeasibleError, InterruptedRunError, RefusedError, TryLaterError
from kafkakit.core.lease import LEASE_DOCUMENT, Holder, Life
from kafkakit.core.model import TopicPartition
from kafkakit.core.plan import DirMove
from kafkakit.execution.act.control_requests import ControlRequests, ReceivedRequests
from kafkakit.execution.act.leases import AWAY_S, Lease
from kafkakit.execution.decide.run_rules import ScheduleLimits
from kafkakit.execution.decide.runs import Commands, Request
from kafkakit.execution.decide.schedule.work import BrokerRates
from kafkakit.execution.decide.throttle import FOLLOWER_RATE
from kafkakit.reassign.act.control import note_pause
from kafkakit.reassign.report.run import outcome_sections
from kafkakit.report.report import text_of
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeCluster
from tests.fakes.control import FakeControlStore
from tests.invariants.journal import verify_effects, verify_journal
from tests.rigs.reassign import Harness, Killed

MB = 1_000_000
ONE = ScheduleLimits(into_each=1, out_each=1)
TOKEN = 7


def make_bench(line_rate: float = 10 * MB, partitions: int = 6) -> Harness:
    """Partitions of 20 MB on brokers 1 and 2 that go to 3 and 4."""
    cluster = FakeCluster({1: "a", 2: "b", 3: "a", 4: "b"}, line_rate=line_rate)
    cluster.add_topic("t", dict.fromkeys(range(partitions), (1, 2)), size_bytes=20 * MB)
    targets = {("t", n): (3 + n % 2, 2) for n in range(partitions)}
    return Harness(cluster, make_plan(cluster, targets))


def at(bench: Harness, second: float, action: Callable[[], object]) -> None:
    def check(_: float) -> None:
        if bench.clock.elapsed > second:
            bench.clock.on_sleep.remove(check)
            action()

    bench.clock.on_sleep.append(check)


class WindowHarness:
    """A control store with the control requests for one run."""

    def __init__(self, bench: Harness) -> None:
        self.store = FakeControlStore()
        self.bench = bench
        self.requests = ControlRequests(self.store, bench.clock, bench.plan.cluster_id)
        self.orders = ReceivedRequests(self.requests, TOKEN, bench.reporter)

    def ask(self, **request: Any) -> None:
        self.requests.request(TOKEN, "ann", **request)


def submitted_at(bench: Harness) -> list[float]:
    """When moves are sent; filled while a run works."""
    times: list[float] = []
    bench.cluster.before_call.append(lambda name, _: times.append(bench.clock.elapsed) if name == "reassign" else None)
    return times


def test_steps_roll_one_after_the_other_and_never_more_than_the_limits_allow() -> None:
    bench = make_bench()
    most = 0

    def count(_: float) -> None:
        nonlocal most
        most = max(most, len(bench.cluster.reassignments()))

    bench.clock.on_sleep.append(count)
    times = submitted_at(bench)
    assert bench.apply(limits=ScheduleLimits(into_each=1, out_each=2)).ok
    assert most == 2
    assert len(times) >= 3
    verify_effects(verify_journal(bench.file.data), bench.cluster.calls)


def test_a_pause_starts_nothing_new_and_continue_goes_on() -> None:
    bench = make_bench()
    office = WindowHarness(bench)
    at(bench, 1, lambda: office.ask(paused=True))
    at(bench, 40, lambda: office.ask(paused=False))
    times = submitted_at(bench)
    assert bench.apply(limits=ONE, orders=office.orders, stall_timeout_s=10).ok
    assert not [t for t in times if 2.0 < t < 40.0]
    assert [t for t in times if t > 40.0]
    assert any("paused by ann; 1 step in flight continue" in w for w in bench.reporter.warned)
    lines = verify_journal(bench.file.data)
    assert [x["what"] for x in lines if x["what"] in ("pause", "continue")] == ["pause", "continue"]
    assert office.requests.wait_for_answer(TOKEN, 0, 0) is not None


def test_a_run_that_was_killed_while_it_was_paused_stays_paused() -> None:
    bench = make_bench()
    office = WindowHarness(bench)
    at(bench, 1, lambda: office.ask(paused=True))

    def stop() -> None:
        raise TryLaterError("the host went away")

    at(bench, 10, stop)
    with pytest.raises(TryLaterError):
        bench.apply(limits=ONE, orders=office.orders)
    with pytest.raises(RefusedError, match="is paused") as caught:
        bench.run().resume()
    assert "reassign continue p.json" in (caught.value.hint or "")
    request = Request(commands=Commands(program="kafkakit", plan="p.json"), plan_path="p", confirm=lambda: True)
    told = note_pause(bench.journal(), request.commands, paused=False)
    assert told.next_commands == ("kafkakit reassign resume p.json --yes",)
    assert bench.run().resume().ok
    with pytest.raises(RefusedError, match="no unfinished run"):
        note_pause(bench.journal(), request.commands, paused=True)


def test_other_rates_take_hold_while_the_run_works() -> None:
    bench = make_bench()
    office = WindowHarness(bench)
    at(bench, 3, lambda: office.ask(rates=BrokerRates(into=5 * MB, out=5 * MB)))
    seen: list[str | None] = []
    at(bench, 6, lambda: seen.append(bench.cluster.brokers[3].configs.get(FOLLOWER_RATE)))
    outcome = bench.apply(rate=2 * MB, limits=ONE, orders=office.orders)
    assert outcome.ok
    assert seen == [str(5 * MB)]
    assert outcome.rates == BrokerRates(into=5 * MB, out=5 * MB)
    assert not any(bench.configs().values())


def test_an_abort_that_is_asked_for_cancels_and_puts_the_order_back() -> None:
    bench = make_bench(partitions=4)
    before = bench.lists()
    office = WindowHarness(bench)
    at(bench, 5, lambda: office.ask(abort=True))
    outcome = bench.apply(rate=4 * MB, limits=ONE, orders=office.orders)
    assert (outcome.direction.value, outcome.verdict) == ("abort", "incomplete")
    assert "aborted on request" in outcome.problems[0]
    assert not bench.cluster.reassignments()
    assert not any(bench.configs().values())
    assert all(now in (before[k], (3 + k[1] % 2, 2)) for k, now in bench.lists().items())
    verify_effects(verify_journal(bench.file.data), bench.cluster.calls)
    assert bench.apply().ok


def test_an_abort_of_a_run_that_is_not_at_work_leaves_finished_moves() -> None:
    bench = make_bench()
    before = bench.lists()

    def press() -> None:
        raise KeyboardInterrupt

    at(bench, 12, press)
    with pytest.raises(BaseException, match="stopped"):
        bench.apply(rate=4 * MB, limits=ONE)
    assert bench.cluster.reassignments()
    finished = {k for k, now in bench.lists().items() if now == (3 + k[1] % 2, 2)}
    outcome = bench.run().abort()
    assert (outcome.verdict, outcome.ok) == ("aborted", True)
    assert finished
    assert bench.lists() == {k: (3 + k[1] % 2, 2) if k in finished else v for k, v in before.items()}
    assert not any(bench.configs().values())
    assert bench.run().abort().verdict == "nothing to abort"


def test_resume_goes_on_in_the_direction_of_the_run_that_was_cut() -> None:
    bench = make_bench()
    before = bench.lists()
    with pytest.raises(RefusedError, match="no run of this plan was started"):
        bench.run().resume()
    bench.apply()

    def press() -> None:
        raise KeyboardInterrupt

    at(bench, bench.clock.elapsed + 1, press)
    with pytest.raises(BaseException, match="stopped"):
        bench.rollback(limits=ONE)
    outcome = bench.run().resume()
    assert outcome.verdict == "rolled back"
    assert bench.lists() == before


def test_somebody_elses_move_is_never_overwritten() -> None:
    for wait in (False, True):
        bench = make_bench(line_rate=4 * MB)
        key = TopicPartition("t", 5)
        at(bench, 1, lambda bench=bench, key=key: bench.cluster.reassign({key: (1, 4)}))  # type: ignore[misc]
        outcome = bench.apply(limits=ONE, wait_for_others=wait)
        assert bench.lists()["t", 5] == (1, 4)
        assert {v for k, v in bench.lists().items() if k != ("t", 5)} == {(3, 2), (4, 2)}
        assert not outcome.ok
        words = "t-5 was changed by another process" if wait else "t-5 is being moved to [1,4] by another process"
        assert words in outcome.problems[0]
        ours = [a for n, a in bench.cluster.calls if n == "reassign" and key in a and a[key] != (1, 4)]
        assert ours == []


def test_another_order_is_somebody_elses_wish_and_is_kept() -> None:
    bench = make_bench(line_rate=4 * MB)
    key = TopicPartition("t", 5)
    at(bench, 1, lambda: bench.cluster.reassign({key: (2, 1)}))
    outcome = bench.apply(limits=ONE)
    assert bench.lists()["t", 5] == (2, 1)
    assert outcome.problems[0].startswith("t-5 was changed by another process: it is [2,1], not [1,2]")


def test_somebody_elses_moves_take_up_places() -> None:
    bench = make_bench(line_rate=4 * MB)
    bench.cluster.add_topic("others", {0: (1,), 1: (2,)}, size_bytes=40 * MB)
    bench.cluster.reassign({TopicPartition("others", 0): (3,), TopicPartition("others", 1): (4,)})
    times = submitted_at(bench)
    assert bench.apply(limits=ONE, join=True).ok
    assert min(times) >= 10


def test_a_run_can_wait_for_somebody_elses_moves_before_it_begins() -> None:
    bench = make_bench(line_rate=1 * MB)
    key = TopicPartition("t", 0)
    bench.cluster.reassign({key: (1, 4)})
    with pytest.raises(RefusedError, match="other moves run on planned partitions: t-0"):
        bench.apply()

    def cancelled() -> None:
        bench.cluster.cancel([key])
        bench.cluster.topics["t"].partitions[0].replicas = [1, 2]

    at(bench, 1, cancelled)
    assert bench.apply(wait_for_others=True).ok
    assert any("waiting for the end of it: t-0" in w for w in bench.reporter.warned)


def test_lists_that_a_broker_shows_late_after_moves_of_others_are_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = make_bench(line_rate=1 * MB)
    key, states = TopicPartition("t", 0), bench.cluster.partition_states
    bench.cluster.reassign({key: (1, 4)})
    late = states(["t"])
    monkeypatch.setattr(
        bench.cluster, "partition_states", lambda topics: late if 1 < bench.clock.elapsed < 2.5 else states(topics)
    )
    at(bench, 1, lambda: bench.cluster.cancel([key]))
    assert bench.apply(wait_for_others=True).ok


def test_moves_to_a_broker_that_dies_wait_and_the_others_go_on() -> None:
    bench = make_bench(line_rate=4 * MB)
    at(bench, 2, lambda: bench.cluster.kill(4))
    at(bench, 22, lambda: bench.cluster.revive(4))
    done: list[int] = []
    at(bench, 20, lambda: done.append(sum(v == (3, 2) for v in bench.lists().values())))
    assert bench.apply(rate=20 * MB, limits=ScheduleLimits(into_each=1, out_each=2)).ok
    assert done == [3]
    assert any("broker 4 is not alive; waiting on it" in w for w in bench.reporter.warned)
    assert not any(bench.configs().values())


def test_an_offline_dir_stops_the_sending_but_lets_the_others_arrive() -> None:
    bench = make_bench(line_rate=4 * MB)
    at(bench, 2, lambda: bench.cluster.fail_dir(4, "/data/4/0"))
    outcome = bench.apply(rate=20 * MB, limits=ScheduleLimits(into_each=1, out_each=2))
    assert "log dir went offline on a destination: 4:/data/4/0" in outcome.problems[0]
    assert "Repair the dir" in outcome.problems[0]
    assert sum(v == (3, 2) for v in bench.lists().values()) == 1
    assert len(bench.cluster.reassignments()) == 1
    assert not any(bench.configs().values())


def test_a_throttle_below_what_the_logs_take_in_is_refused_with_the_rate_that_works() -> None:
    bench = make_bench()

    def produce(seconds: float) -> None:
        for number in range(6):
            bench.cluster.write("t", number, int(seconds * MB))

    bench.clock.on_sleep.append(produce)
    with pytest.raises(InfeasibleError, match="would never catch up") as caught:
        bench.apply(rate=3 * MB, ingest_sample_s=5)
    assert caught.value.exit_code == 4
    assert bench.cluster.calls == []
    assert caught.value.hint is not None
    smallest = int(caught.value.hint.rsplit(" ", 1)[1])
    assert 3 * MB < smallest < 20 * MB
    assert bench.apply(rate=smallest, ingest_sample_s=5, dry_run=True).verdict == "planned"


def test_the_eta_is_said_before_the_first_byte_and_kept_in_the_journal() -> None:
    bench = make_bench()
    assert bench.apply(rate=2 * MB, dry_run=True).verdict == "planned"
    said = next(line for line in bench.reporter.said if line.startswith("ETA "))
    assert "bottleneck broker 1 out: 114 MiB at 1.72 MB/s" in said
    assert bench.cluster.calls == []
    outcome = bench.apply(rate=2 * MB)
    assert outcome.promise is not None
    assert outcome.promise.promised_s == pytest.approx(71, rel=0.05)
    assert outcome.promise.total_bytes == 120 * MB


def test_without_a_throttle_the_eta_is_an_interval_and_the_next_run_uses_what_this_one_measured() -> None:
    bench = make_bench()
    outcome = bench.apply()
    (warning,) = bench.reporter.warned
    assert warning.startswith(
        "no throttle: copies will compete with clients for network and disk; set one (--throttle 50MB, "
    )
    assert "ETA 0 s to 16 s, bottleneck broker 1 out: 114 MiB at 200 MB/s" in bench.reporter.said
    assert "  assumed, since no throttle limits it: 200 MB/s a broker" in bench.reporter.said
    assert outcome.promise is not None
    assert (outcome.promise.least_s, outcome.promise.most_s) == (0.4, 16.4)
    assert 0.4 <= outcome.seconds <= 16.4
    assert "(0s to 16s were forecast)" in text_of(outcome_sections(outcome))
    bench.reporter.said.clear()
    bench.rollback()
    assert "  measured, since no throttle limits it: 10 MB/s a broker" in bench.reporter.said


@pytest.mark.parametrize("request_of_it", [{"paused": True}, {"rates": BrokerRates(into=3 * MB, out=3 * MB)}])
def test_a_run_that_was_paused_or_throttled_on_its_way_measures_no_link(request_of_it: dict[str, Any]) -> None:
    bench = make_bench()
    office = WindowHarness(bench)
    at(bench, 1, lambda: office.ask(**request_of_it))
    at(bench, 40, lambda: office.ask(paused=False, rates=BrokerRates()))
    assert bench.apply(limits=ScheduleLimits(into_each=2, out_each=2), orders=office.orders).ok
    assert not [x for x in verify_journal(bench.file.data) if "link_bytes_per_s" in x["data"]]


@pytest.mark.parametrize("jump", [timedelta(days=-400), timedelta(hours=-1), timedelta(hours=1), timedelta(days=4000)])
def test_a_wall_clock_that_jumps_disturbs_neither_a_run_nor_its_lease(jump: timedelta) -> None:
    bench = make_bench()
    lease = lease_of(bench, FakeControlStore())
    lease.acquire()
    steady = bench.clock.now
    bench.clock.now = lambda: steady() + (jump if bench.clock.elapsed > 10 else timedelta())  # type: ignore[method-assign]
    before = bench.configs()
    assert bench.apply(rate=2 * MB, lease=lease).verdict == "applied"
    verify_journal(bench.file.data)
    assert bench.rollback(rate=20 * MB, lease=lease).verdict == "rolled back"
    assert bench.configs() == before


def test_a_run_that_is_to_go_without_a_throttle_or_has_one_gets_no_warning() -> None:
    for options in ({"throttle_off": True}, {"rate": 2 * MB}):
        bench = make_bench()
        bench.apply(dry_run=True, **options)
        assert bench.reporter.warned == []


OTHER = Holder(host="elsewhere", user="u", command="reassign apply", pid=2)


def lease_of(bench: Harness, store: FakeControlStore, pid: int = 1) -> Lease:
    holder = Holder(host="h", user="u", command="reassign apply", pid=pid)
    return Lease(
        store,
        bench.clock,
        "clusters/x/lease",
        holder,
        what="cluster x",
        life_of=lambda _: Life.UNKNOWN,
        say=lambda _: None,
    )


def test_a_run_keeps_its_lease_and_one_that_loses_it_does_nothing_more() -> None:
    bench = make_bench(line_rate=1 * MB)
    store = FakeControlStore()
    lease = lease_of(bench, store)
    lease.acquire()
    assert bench.apply(rate=4 * MB, limits=ONE, lease=lease).ok
    lease.require_held()
    bench = make_bench(line_rate=1 * MB)
    store = FakeControlStore()
    lease = lease_of(bench, store)
    lease.acquire()
    before_wait: list[int] = []
    at(bench, 10, lambda: setattr(store, "away", True))
    at(bench, 30, lambda: before_wait.append(len(bench.cluster.calls)))
    with pytest.raises(TryLaterError, match="this run stops here") as caught:
        bench.apply(rate=4 * MB, limits=ONE, lease=lease)
    assert "reassign apply p.json --yes" in (caught.value.hint or "")
    assert AWAY_S < bench.clock.elapsed < AWAY_S + 30
    assert len(bench.cluster.calls) == before_wait[0]
    assert bench.cluster.brokers[1].configs
    calls = len(bench.cluster.calls)
    store.away = False
    successor = lease_of(bench, store, pid=2)
    successor.acquire()
    assert bench.apply(limits=ONE, lease=successor).ok
    assert len(bench.cluster.calls) > calls
    assert not any(bench.configs().values())
    verify_effects(verify_journal(bench.file.data), bench.cluster.calls)


def test_a_control_store_may_be_away_for_a_minute() -> None:
    bench = make_bench(line_rate=1 * MB)
    store = FakeControlStore()
    lease = lease_of(bench, store)
    token = lease.acquire()
    calls: list[int] = []
    at(bench, 10, lambda: setattr(store, "away", True))
    at(bench, 30, lambda: calls.append(len(bench.cluster.calls)))
    at(bench, 69, lambda: calls.append(len(bench.cluster.calls)))
    at(bench, 70, lambda: setattr(store, "away", False))
    assert bench.apply(rate=4 * MB, limits=ONE, lease=lease).ok
    assert len(calls) == 2, "the run waited"
    assert calls[0] == calls[1], "and changed nothing meanwhile"
    assert lease.token == token
    assert not any(bench.configs().values())
    verify_effects(verify_journal(bench.file.data), bench.cluster.calls)


def test_whoever_took_over_while_the_store_was_away_is_left_alone() -> None:
    bench = make_bench(line_rate=1 * MB)
    store = FakeControlStore()
    lease = lease_of(bench, store)
    lease.acquire()

    def taken_over() -> None:
        store.away = False
        found = store.get("clusters/x/lease")
        assert found is not None
        store.cas(
            "clusters/x/lease",
            LEASE_DOCUMENT.encode(replace(LEASE_DOCUMENT.decode(found.value, "l"), token=2, holder=OTHER)),
            found.version,
        )

    at(bench, 10, lambda: setattr(store, "away", True))
    at(bench, 70, taken_over)
    with pytest.raises(TryLaterError, match=r"the lease was taken over.*this run stops here"):
        bench.apply(rate=4 * MB, limits=ONE, lease=lease)
    assert bench.clock.elapsed < 75


def test_looking_costs_no_full_read_of_the_cluster() -> None:
    bench = make_bench()
    bench.cluster.add_topic("idle", dict.fromkeys(range(50), (1, 2)))
    topics: list[set[str]] = []
    read = bench.cluster.partition_states

    def counted(names: Any) -> Any:
        topics.append(set(names))
        return read(names)

    bench.cluster.partition_states = counted  # type: ignore[method-assign, assignment]
    bench.cluster.snapshot = None  # type: ignore[method-assign, assignment]
    assert bench.apply(limits=ONE).ok
    assert all(names <= {"t"} for names in topics)


def test_an_abort_that_is_cut_at_any_effect_can_be_made_again() -> None:
    def stopped() -> Harness:
        bench = make_bench(partitions=4)
        at(bench, 3, press)
        with pytest.raises(InterruptedRunError):
            bench.apply(rate=4 * MB, limits=ScheduleLimits(into_each=2, out_each=4))
        return bench

    def press() -> None:
        raise KeyboardInterrupt

    bench = stopped()
    calls = len(bench.cluster.calls)
    assert bench.run().abort().ok
    for number in range(len(bench.cluster.calls) - calls):
        for after in (False, True):
            bench = stopped()
            before = dict.fromkeys(bench.lists(), (1, 2))
            left = iter(range(number, -1, -1))

            def die(name: str, _: object, bench: Harness = bench, after: bool = after, left: Any = left) -> None:
                if next(left, None) == 0:
                    if not after:
                        raise Killed
                    bench.cluster.fail_next(name, Killed(), after_effect=True)

            bench.cluster.before_call.append(die)
            with pytest.raises(Killed):
                bench.run().abort()
            bench.cluster.before_call.clear()
            with pytest.raises(RefusedError, match="the last run was an abort"):
                bench.run().resume()
            assert bench.run().abort().ok
            assert bench.lists() == before
            assert not bench.cluster.reassignments()
            assert not any(bench.configs().values())
            verify_effects(verify_journal(bench.file.data), bench.cluster.calls)


def test_a_copy_on_a_detour_inside_its_broker_is_ours_after_a_crash() -> None:
    cluster = FakeCluster({1: "a"}, dirs_per_broker=3, dir_bytes=100 * MB)
    cluster.add_topic("t", {0: (1,), 1: (1,)}, size_bytes=80 * MB)
    paths = sorted(cluster.brokers[1].dirs)
    for number in (0, 1):
        cluster.topics["t"].partitions[number].dirs[1] = paths[number]
    swap = tuple(
        DirMove(topic="t", partition=n, broker=1, source_dir=paths[n], target_dir=paths[1 - n], size_bytes=80 * MB)
        for n in (0, 1)
    )
    for death in range(3):
        bench = Harness(cluster, replace(make_plan(cluster, {}, topics=["t"]), dir_moves=swap))
        seen = iter(range(1000))

        def die(name: str, _: object, seen: Any = seen, death: int = death) -> None:
            if name == "move_log_dirs" and next(seen) == death:
                cluster.fail_next(name, Killed(), after_effect=True)

        cluster.before_call.append(die)
        with pytest.raises(Killed):
            bench.apply()
        cluster.before_call.clear()
        cluster.advance(1)
        assert bench.run().resume().ok
        assert [p.dirs[1] for p in cluster.topics["t"].partitions.values()] == [paths[1], paths[0]]
        assert bench.rollback().ok
        assert [p.dirs[1] for p in cluster.topics["t"].partitions.values()] == paths[:2]
