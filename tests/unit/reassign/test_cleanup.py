"""Log dirs in a run.

What `cleanup` decides. Runs on a cluster where a pacer has throttled the moves of another tool.
"""

from dataclasses import replace
from typing import Any

import pytest

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import InfeasibleError, RefusedError
from kafkakit.core.model import TopicPartition, TopicPartitionReplica
from kafkakit.core.plan import DirMove, Plan
from kafkakit.execution.act.journal_files import pacer_lines
from kafkakit.execution.act.leases import ClusterAccess
from kafkakit.execution.decide.runs import Commands, Request, RunOutcome
from kafkakit.execution.decide.schedule.work import BrokerRates
from kafkakit.execution.decide.throttle import LEADER_RATE
from kafkakit.reassign.act.cleanup import CleanupRequest, clean, verify
from kafkakit.reassign.report.run import CleanupResult
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeCluster
from tests.invariants.journal import verify_effects, verify_journal
from tests.rigs.pacer import CLUSTER, MB, RATE, PacerRig
from tests.rigs.reassign import Harness, Killed, MemoryFile
from tests.rigs.throttles import Rig, goal

MB_DIRS = 1_000_000
MOVED = TopicPartitionReplica("t", 1, 1)


def dir_of(broker: int, number: int) -> str:
    return f"/data/{broker}/{number}"


def make_cluster(dir_bytes: int = 10**12) -> FakeCluster:
    cluster = FakeCluster({1: "a", 2: "b", 3: "c"}, dirs_per_broker=3, dir_bytes=dir_bytes)
    cluster.add_topic("t", {0: (1, 2), 1: (2, 1)}, size_bytes=50 * MB_DIRS)
    return cluster


def other_dir(cluster: FakeCluster, partition: int, broker: int) -> str:
    now = cluster.topics["t"].partitions[partition].dirs[broker]
    return next(d for d in sorted(cluster.brokers[broker].dirs) if d != now)


def make_bench(cluster: FakeCluster | None = None, *, target: str = dir_of(3, 2)) -> Harness:
    """Partition 0 gets a copy on broker 3 in a named dir; partition 1 changes dirs on broker 1."""
    cluster = cluster or make_cluster()
    plan = make_plan(cluster, {("t", 0): (3, 2)})
    move = replace(plan.moves[0], dirs={3: target})
    return Harness(cluster, replace(plan, moves=(move,), dir_moves=(inside(cluster),)))


def inside(cluster: FakeCluster) -> DirMove:
    here = cluster.topics["t"].partitions[1].dirs[1]
    return DirMove(
        topic="t", partition=1, broker=1, source_dir=here, target_dir=other_dir(cluster, 1, 1), size_bytes=50 * MB_DIRS
    )


def dir_now(bench: Harness, partition: int, broker: int) -> str:
    found: str = bench.cluster.topics["t"].partitions[partition].dirs[broker]
    return found


def test_new_copies_land_in_their_dirs_and_others_change_dirs() -> None:
    bench = make_bench()
    outcome = bench.apply()
    assert (outcome.verdict, outcome.ok, outcome.dirs_moved) == ("applied", True, 1)
    assert dir_now(bench, 0, 3) == dir_of(3, 2)
    assert dir_now(bench, 1, 1) == bench.plan.dir_moves[0].target_dir
    lines = verify_journal(bench.file.data)
    verify_effects(lines, bench.cluster.calls)
    names = [name for name, _ in bench.cluster.calls]
    assert names.index("move_log_dirs") < names.index("reassign") < names.index("move_log_dirs", 2)


def test_a_second_apply_finds_everything_in_place() -> None:
    bench = make_bench()
    bench.apply()
    calls = list(bench.cluster.calls)
    assert bench.apply().verdict == "already applied"
    assert bench.cluster.calls == calls


def test_a_plan_of_moves_inside_brokers_alone_is_applied_and_rolled_back() -> None:
    cluster = make_cluster()
    plan = replace(make_plan(cluster, {}, topics=["t"]), dir_moves=(inside(cluster),))
    bench = Harness(cluster, plan)
    assert bench.apply().verdict == "applied"
    assert dir_now(bench, 1, 1) == plan.dir_moves[0].target_dir
    assert bench.rollback().verdict == "rolled back"
    assert dir_now(bench, 1, 1) == plan.dir_moves[0].source_dir
    assert bench.rollback().verdict == "nothing to roll back"
    assert {name for name, _ in cluster.calls} == {"move_log_dirs"}
    verify_effects(verify_journal(bench.file.data), cluster.calls)


def test_a_refused_wish_is_a_warning_and_the_copy_goes_elsewhere() -> None:
    bench = make_bench(target="/no/such/dir")
    outcome = bench.apply()
    assert outcome.ok
    assert any("log dir not taken" in w and "LogDirNotFoundError" in w for w in bench.reporter.warned)
    assert dir_now(bench, 0, 3).startswith("/data/3/")


def test_a_dir_without_room_gets_no_copy() -> None:
    bench = make_bench(make_cluster(dir_bytes=120 * MB_DIRS))
    bench.cluster.add_topic("full", {0: (3,)}, size_bytes=100 * MB_DIRS)
    bench.cluster.topics["full"].partitions[0].dirs[3] = dir_of(3, 2)
    assert bench.apply().ok
    assert any(
        "no free space in the planned log dir now, another one is chosen: t-0" in w for w in bench.reporter.warned
    )
    assert not bench.cluster.log_dir_assignments
    assert bench.cluster.topics["t"].partitions[0].dirs[3] in (dir_of(3, 0), dir_of(3, 1))


def test_a_dir_without_room_for_a_move_inside_is_refused_before_anything_is_changed() -> None:
    bench = make_bench(make_cluster(dir_bytes=120 * MB_DIRS))
    target = bench.plan.dir_moves[0].target_dir
    bench.cluster.add_topic("full", {0: (1,)}, size_bytes=100 * MB_DIRS)
    bench.cluster.topics["full"].partitions[0].dirs[1] = target
    with pytest.raises(InfeasibleError, match=f"t-1: 1:{target} lacks 34.3 MiB under its limit"):
        bench.apply()
    assert not bench.cluster.calls


def test_a_cordoned_dir_gets_no_wish_and_the_copy_goes_elsewhere() -> None:
    bench = make_bench()
    bench.cluster.cordon_dir(3, dir_of(3, 2))
    assert bench.apply().ok
    assert any("another one is chosen: t-0" in w for w in bench.reporter.warned)
    assert bench.cluster.topics["t"].partitions[0].dirs[3] in (dir_of(3, 0), dir_of(3, 1))


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda b: b.cluster.cordon_dir(1, b.plan.dir_moves[0].target_dir), "is cordoned"),
        (lambda b: b.cluster.fail_dir(1, b.plan.dir_moves[0].target_dir), "is offline"),
        (lambda b: b.cluster.topics["t"].partitions[1].dirs.update({1: spare(b)}), "moved by another process"),
        (lambda b: b.cluster.fail_item("move_log_dirs", MOVED, ItemError(name="Oops")), "Oops"),
    ],
)
def test_what_cannot_be_moved_inside_a_broker_is_a_problem_and_the_rest_is_done(harm: Any, words: str) -> None:
    bench = make_bench()
    harm(bench)
    outcome = bench.apply()
    assert outcome.verdict == "incomplete"
    assert any(words in p for p in outcome.problems)
    assert bench.lists()["t", 0] == (3, 2)
    assert '"verdict":"incomplete"' in bench.file.data.decode()


def spare(bench: Harness) -> str:
    move = bench.plan.dir_moves[0]
    return next(d for d in sorted(bench.cluster.brokers[1].dirs) if d not in (move.source_dir, move.target_dir))


def verified(bench: Harness) -> RunOutcome:
    request = Request(commands=Commands(program="kafkakit", plan="p.json"), plan_path="p.json", confirm=lambda: False)
    access = ClusterAccess(cluster_id=bench.plan.cluster_id, admin=bench.cluster, clock=bench.clock, token=1)
    return verify(bench.plan, access, bench.journal(), bench.reporter, request)


def test_verify_tells_of_copies_that_are_not_in_their_dirs() -> None:
    bench = make_bench()
    bench.apply()
    assert verified(bench).ok
    bench.cluster.topics["t"].partitions[1].dirs[1] = bench.plan.dir_moves[0].source_dir
    outcome = verified(bench)
    assert not outcome.ok
    assert "not in the planned log dir yet" in outcome.problems[0]


def test_a_run_without_its_broker_tells_so() -> None:
    cluster = make_cluster()
    plan: Plan = replace(make_plan(cluster, {}, topics=["t"]), dir_moves=(inside(cluster),))
    cluster.kill(1)
    outcome = Harness(cluster, plan).apply()
    assert any("broker 1 does not report its log dirs" in p for p in outcome.problems)


def test_cut_at_any_call_or_line_a_run_goes_on_and_ends_in_the_planned_dirs() -> None:
    whole = make_bench()
    whole.apply()
    for number in range(len(whole.cluster.calls)):
        for after in (False, True):
            bench = make_bench()
            cut_at_call(bench, number, after=after)
            finish(bench)
    for number in range(whole.file.writes):
        bench = make_bench()
        bench.file.die_at, bench.file.torn = number, True
        finish(bench)


def cut_at_call(bench: Harness, number: int, *, after: bool) -> None:
    seen = iter(range(1000))

    def hook(name: str, _: Any) -> None:
        if next(seen) == number:
            if not after:
                raise Killed
            bench.cluster.fail_next(name, Killed(), after_effect=True)

    bench.cluster.before_call.append(hook)


def finish(bench: Harness) -> None:
    with pytest.raises(Killed):
        bench.apply()
    bench.cluster.before_call.clear()
    bench.file.die_at = None
    assert bench.apply().ok
    assert dir_now(bench, 0, 3) == dir_of(3, 2)
    assert dir_now(bench, 1, 1) == bench.plan.dir_moves[0].target_dir
    verify_effects(verify_journal(bench.file.data), bench.cluster.calls)


def test_futures_are_listed_while_a_copy_changes_dirs() -> None:
    cluster = make_cluster()
    move = inside(cluster)
    cluster.move_log_dirs({TopicPartitionReplica("t", 1, 1): move.target_dir})
    answer = cluster.log_dirs([1])[1]
    assert answer.futures[TopicPartition("t", 1)].log_dir == move.target_dir
    assert answer.replicas[TopicPartition("t", 1)].log_dir == move.source_dir


T0 = goal("t", 0, (3, 2))
BOTH = BrokerRates(into=5, out=5)


def left() -> Rig:
    """A cluster that a run was cut on; nothing moves."""
    rig = Rig()
    rig.throttles.impose([T0], BOTH, rig.live())
    return rig


def cleaned(rig: Rig, *files: MemoryFile, **options: Any) -> CleanupResult:
    request = CleanupRequest(confirm=lambda: True, **options)
    return clean(rig.cluster, rig.clock, files or [rig.file], rig.reporter, request)


def start_move(rig: Rig) -> bool:
    rig.cluster.reassign({TopicPartition("t", 0): (3, 2)})
    return True


def test_a_move_that_begins_while_a_person_is_asked_keeps_its_throttle() -> None:
    rig = left()
    during = rig.configs()
    request = CleanupRequest(confirm=lambda: start_move(rig))
    found = clean(rig.cluster, rig.clock, [rig.file], rig.reporter, request)
    assert (found.verdict, rig.configs()) == ("incomplete", during)
    assert found.left == ("apply of p.json: its throttles stay, 1 move still runs under them",)


def test_runs_under_which_nothing_moves_are_cleaned_beside_one_that_moves() -> None:
    rig = left()
    first = rig.file
    rig.file = MemoryFile()
    rig.file.name = "second"
    rig.start()
    rig.throttles.impose([goal("u", 1, (5, 2), holders=(4, 2))], BOTH, rig.live())
    start_move(rig)
    found = cleaned(rig, first, rig.file)
    assert found.verdict == "incomplete"
    assert set(rig.configs()) == {"broker 1", "broker 2", "broker 3", "topic t"}
    assert cleaned(rig, first, rig.file, unthrottle_running=True).verdict == "cleaned"
    assert rig.configs() == {}
    verify_journal(first.data)
    verify_journal(rig.file.data)


def test_copies_between_log_dirs_count_as_moves() -> None:
    rig = Rig()
    rig.cluster.brokers[1].dirs["/data/1/b"] = 10**12
    rig.throttles.impose_inside([1], BrokerRates(inside=5), rig.live())
    rig.cluster.move_log_dirs({TopicPartitionReplica("t", 0, 1): "/data/1/b"})
    assert cleaned(rig).verdict == "kept"
    rig.cluster.advance(1)
    assert cleaned(rig).verdict == "cleaned"
    assert rig.configs() == {}


def test_declining_changes_nothing_and_looking_writes_nothing() -> None:
    rig = left()
    during, written = rig.configs(), rig.file.data
    for confirm, verdict in ((None, "planned"), (lambda: False, "declined")):
        request = CleanupRequest(confirm=confirm)
        assert clean(rig.cluster, rig.clock, [rig.file], rig.reporter, request).verdict == verdict
    assert (rig.configs(), rig.file.data) == (during, written)


def test_journals_forget_what_somebody_else_took_away() -> None:
    rig = left()
    for broker in rig.cluster.brokers.values():
        broker.configs.clear()
    rig.cluster.topics["t"].configs.clear()
    assert cleaned(rig).verdict == "clean"
    rig.start()
    assert not rig.journal.state.throttled


def test_a_hung_broker_is_owed() -> None:
    rig = left()
    rig.cluster.hang(1)
    found = cleaned(rig)
    assert (found.verdict, found.left) == ("incomplete", ("the replication rate on broker 1",))
    rig.cluster.revive(1)
    assert rig.configs() == {"broker 1": {LEADER_RATE: "5"}}
    assert cleaned(rig).ok
    assert rig.configs() == {}


OTHERS = TopicPartition("t", 0)


class Both(PacerRig):
    """A pacer that has throttled the move of another tool, and a plan for another topic."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster.add_topic("small", {0: (1, 2)}, size_bytes=MB)
        self.bench = Harness(self.cluster, make_plan(self.cluster, {("small", 0): (3, 2)}))
        self.bench.clock = self.clock
        self.bench.others = [pacer_lines(self.store, CLUSTER)]
        self.begin()
        self.tick()
        assert self.configs()["broker 1"] == {LEADER_RATE: str(RATE)}

    def tick(self) -> None:
        """One tick of an instance that takes the lead and gives it back."""
        pacer, lead = self.pacer()
        pacer.tick()
        lead.release()


def test_what_the_pacer_left_goes_before_a_run_begins_and_is_not_restored_after_it() -> None:
    both = Both()
    both.cluster.cancel([OTHERS])
    assert both.bench.apply(rate=9 * RATE).ok
    assert both.configs() == both.before
    both.tick()
    assert both.configs() == both.before


def test_a_run_is_refused_while_moves_of_others_run_under_the_pacer() -> None:
    both = Both()
    with pytest.raises(RefusedError, match="1 move not started by this run is in flight"):
        both.bench.apply()


def test_a_run_beside_these_moves_leaves_them_throttled_and_the_pacer_goes_on_after_it() -> None:
    both = Both()
    pacers = both.configs()
    assert both.bench.apply(rate=9 * RATE, join=True).ok
    assert OTHERS in {TopicPartition(r.topic, r.partition) for r in both.cluster.reassignments()}
    both.tick()
    assert both.configs() == pacers
    both.cluster.cancel([OTHERS])
    both.tick()
    assert both.configs() == both.before


def test_rates_over_the_pacers_are_not_left_when_both_are_gone() -> None:
    both = Both()
    both.bench.cluster.fail_next("reassign", Killed(), after_effect=True)
    with pytest.raises(Killed):
        both.bench.apply(rate=9 * RATE, join=True)
    assert both.configs()["broker 1"] == {LEADER_RATE: str(9 * RATE)}
    for move in both.cluster.reassignments():
        both.cluster.cancel([TopicPartition(move.topic, move.partition)])
    both.tick()
    files = [both.bench.file, *both.bench.others]
    assert clean(both.cluster, both.clock, files, both.bench.reporter, CleanupRequest(confirm=lambda: True)).ok
    assert both.configs() == both.before


def test_cleanup_takes_away_what_a_dead_pacer_left() -> None:
    both = Both()
    request = CleanupRequest(confirm=lambda: True)
    kept = clean(both.cluster, both.clock, both.bench.others, both.bench.reporter, request)
    assert kept.left == ("autothrottle: its throttles stay, 1 move still runs under them",)
    both.cluster.cancel([OTHERS])
    assert clean(both.cluster, both.clock, both.bench.others, both.bench.reporter, request).ok
    assert both.configs() == both.before
    both.tick()
    assert both.configs() == both.before
