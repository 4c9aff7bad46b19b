"""Bringing brokers back on a cluster in memory, with and without the drain taken back, cut at every point."""

from pathlib import Path

import pytest

from kafkakit.broker.decide.operation import BrokerOperation, BrokerOperationKind, ElectionPace, Stage
from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import OperationFailedError, RefusedError, TryLaterError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.placement.problem import PlaceBy
from tests.invariants.journal import verify_journal
from tests.rigs.broker import MB, Harness, make_cluster
from tests.rigs.reassign import Killed


@pytest.fixture
def bench(tmp_path: Path) -> Harness:
    return Harness(make_cluster(), tmp_path / "operations")


def drained(bench: Harness, kind: BrokerOperationKind = BrokerOperationKind.DRAIN) -> BrokerOperation:
    assert bench.move(
        kind, 1, placement=PlaceBy.COUNT, **({"onto": 4} if kind is BrokerOperationKind.REPLACE else {})
    ).ok
    record = bench.records.newest(kind, (1,), 4 if kind is BrokerOperationKind.REPLACE else None)
    assert record is not None
    return record


def test_a_broker_that_came_back_gets_its_leaderships_in_groups(bench: Harness) -> None:
    bench.cluster.kill(1)
    bench.cluster.advance(5)
    bench.cluster.revive(1)
    bench.cluster.advance(60)
    assert 1 not in [leader for key, leader in bench.leaders().items() if key[0] == "t"]
    outcome = bench.rejoin(1, pace=ElectionPace(group=1, pause_s=30.0))
    assert (outcome.verdict, outcome.leaders_passed) == ("done", 2)
    assert bench.leaders() == {k: v[0] for k, v in bench.lists().items()}
    elections = [a for name, a in bench.cluster.calls if name == "elect_preferred_leaders"]
    assert elections == [(TopicPartition("t", 0),), (TopicPartition("t", 3),)]
    assert bench.clock.elapsed >= 30
    again = bench.rejoin(1)
    assert (again.verdict, len(bench.questions)) == ("nothing to do", 1)


def test_it_waits_for_the_broker_and_for_its_copies_before_it_leads(bench: Harness) -> None:
    bench.cluster.kill(1)
    bench.cluster.write("t", 0, 40 * MB)
    bench.cluster.replication.line_rate = 2 * MB
    seen: list[tuple[bool, int]] = []

    def come_back(_: float) -> None:
        if bench.clock.elapsed > 20 and not bench.cluster.brokers[1].alive:
            bench.cluster.revive(1)

    def note(name: str, _: object) -> None:
        if name == "elect_preferred_leaders":
            isr = bench.cluster.topics["t"].partitions[0].isr
            seen.append((1 in isr, int(bench.clock.elapsed)))

    bench.clock.on_sleep.append(come_back)
    bench.cluster.before_call.append(note)
    assert bench.rejoin(1).verdict == "done"
    assert seen[0][0]
    assert seen[0][1] >= 40
    assert bench.leaders()["t", 0] == 1


def test_waiting_does_not_read_the_whole_cluster_again_and_again(bench: Harness) -> None:
    bench.cluster.kill(1)
    bench.cluster.write("t", 0, 40 * MB)
    bench.cluster.replication.line_rate = 1 * MB
    bench.cluster.revive(1)
    assert bench.rejoin(1).verdict == "done"
    assert bench.clock.elapsed >= 40
    assert bench.admin.reads["partition_states"] >= 20
    assert bench.admin.reads["snapshot"] <= 4


def test_a_broker_or_copies_that_do_not_come_in_time_are_tried_later(bench: Harness) -> None:
    bench.cluster.kill(1)
    with pytest.raises(TryLaterError, match=r"not alive yet: broker 1 \(fenced\)") as dead:
        bench.rejoin(1, wait_s=30.0)
    assert dead.value.hint == "start it, then run: kafkakit broker rejoin"
    bench.cluster.write("t", 0, 40 * MB)
    bench.cluster.replication.line_rate = 1.0
    bench.cluster.revive(1)
    with pytest.raises(TryLaterError, match="1 partition not in sync yet: t-0"):
        bench.rejoin(1, wait_s=30.0)
    assert bench.cluster.calls == []


def test_strangers_other_brokers_and_other_clusters_are_refused(bench: Harness) -> None:
    with pytest.raises(UsageError, match="broker 9 is not in this cluster"):
        bench.rejoin(9)
    record = drained(bench)
    with pytest.raises(UsageError, match="the record is of broker 1, not 2"):
        bench.rejoin(2, record=record)
    bench.cluster.cluster_id = "another"
    with pytest.raises(RefusedError, match="the record is of cluster fake-cluster"):
        bench.rejoin(1, record=record)


def test_dry_run_and_declined_change_nothing(bench: Harness) -> None:
    record = drained(bench)
    calls, lists = len(bench.cluster.calls), bench.lists()
    count = bench.crash.count
    assert bench.rejoin(1, record=record, dry_run=True).verdict == "planned"
    assert any("to put back" in line for line in bench.reporter.said)
    bench.answers = [False]
    assert bench.rejoin(1, record=record).verdict == "declined"
    assert (len(bench.cluster.calls), bench.lists(), bench.crash.count) == (calls, lists, count)


@pytest.mark.parametrize("kind", [BrokerOperationKind.DRAIN, BrokerOperationKind.REPLACE])
def test_restore_brings_every_list_and_leader_back(bench: Harness, kind: BrokerOperationKind) -> None:
    lists, leaders = bench.lists(), bench.leaders()
    record = drained(bench, kind)
    assert bench.lists() != lists
    outcome = bench.rejoin(1, record=record)
    assert (outcome.verdict, outcome.problems) == ("done", ())
    assert (bench.lists(), bench.leaders()) == (lists, leaders)
    written = bench.records.read(bench.records.path_of(record))
    assert written.stage is Stage.UNDONE
    assert bench.rejoin(1, record=written).verdict == "nothing to do"
    assert bench.move(kind, 1, **({"onto": 4} if kind is BrokerOperationKind.REPLACE else {})).ok, (
        "and away again, on a new record"
    )
    newest = bench.records.newest(kind, (1,), 4 if kind is BrokerOperationKind.REPLACE else None)
    assert newest is not None
    assert newest.number == 2


def test_a_drain_is_refused_while_it_is_being_taken_back(bench: Harness) -> None:
    record = drained(bench)
    bench.crash.die_at = bench.crash.count + 4
    with pytest.raises(Killed):
        bench.rejoin(1, record=record)
    bench.revived()
    with pytest.raises(RefusedError, match="being undone") as refused:
        bench.drain(1)
    assert refused.value.hint is not None
    assert refused.value.hint.splitlines()[1:] == [
        "kafkakit broker rejoin --restore drain-1.1",
        f"{refused.value.hint.splitlines()[2].removesuffix(' --replan')} --replan",
    ]


@pytest.mark.parametrize("cut", [4, 14])
def test_an_undo_that_cannot_be_finished_is_left_with_replan(bench: Harness, cut: int) -> None:
    """The defect: a broker died while it was taken back, and neither could that end, nor could it be emptied."""
    record = drained(bench)
    bench.crash.die_at = bench.crash.count + cut
    with pytest.raises(Killed):
        bench.rejoin(1, record=record)
    bench.revived()
    bench.cluster.kill(1)
    assert bench.move(BrokerOperationKind.DRAIN, 1, replan=True, dry_run=True).verdict in ("planned", "nothing to do")
    assert bench.records.read(bench.records.path_of(record)).stage is Stage.UNDOING
    outcome = bench.move(BrokerOperationKind.DRAIN, 1, replan=True)
    assert outcome.verdict in ("done", "nothing to do")
    assert all("broker 1" in problem for problem in outcome.problems), (
        "its rate, which cannot be reached while it is dead"
    )
    assert all(1 not in replicas for replicas in bench.lists().values())
    assert not any(c for name, c in bench.configs().items() if name != "broker 1")
    assert bench.records.read(bench.records.path_of(record)).stage is Stage.UNDONE
    assert bench.cluster.reassignments() == ()


def test_restore_cut_anywhere_and_run_again_ends_as_if_undisturbed(tmp_path: Path) -> None:
    calm = Harness(make_cluster(), tmp_path / "calm")
    lists, leaders = calm.lists(), calm.leaders()
    record = drained(calm)
    begun = calm.crash.count
    assert calm.rejoin(1, record=record).ok
    effects = calm.crash.count - begun
    assert effects > 30
    for cut in range(0, effects, 3):
        bench = Harness(make_cluster(), tmp_path / f"cut-{cut}")
        record = drained(bench)
        bench.crash.die_at = bench.crash.count + cut
        with pytest.raises(Killed):
            bench.rejoin(1, record=record)
        bench.clock.sleep(float(cut % 3))
        bench.revived()
        again = bench.rejoin(1, record=bench.records.read(bench.records.path_of(record)))
        assert again.ok, (cut, again.problems)
        assert (bench.lists(), bench.leaders()) == (lists, leaders), cut
        assert not any(bench.configs().values()), cut
        for file in bench.journals.values():
            if file.data:
                verify_journal(file.data)


def test_a_drain_cut_in_the_middle_is_taken_back(tmp_path: Path) -> None:
    for cut in (8, 20, 30, 36, 44):
        bench = Harness(make_cluster(line_rate=5 * MB), tmp_path / f"cut-{cut}")
        lists, leaders = bench.lists(), bench.leaders()
        bench.crash.die_at = cut
        with pytest.raises(Killed):
            bench.drain(1, placement=PlaceBy.COUNT)
        bench.revived()
        record = bench.records.newest(BrokerOperationKind.DRAIN, (1,))
        assert record is not None
        assert bench.rejoin(1, record=record).ok, cut
        assert (bench.lists(), bench.leaders()) == (lists, leaders), cut


def test_an_election_that_is_refused_is_named(bench: Harness) -> None:
    bench.cluster.kill(1)
    bench.cluster.revive(1)
    bench.cluster.advance(60)
    bench.cluster.fail_item("elect_preferred_leaders", TopicPartition("t", 3), ItemError(name="ElectionError"))
    outcome = bench.rejoin(1)
    assert outcome.verdict == "incomplete"
    assert outcome.problems == ("1 leadership did not pass: t-3 (ElectionError)",)
    assert outcome.next_commands == ("kafkakit broker rejoin",)
    assert bench.rejoin(1).verdict == "done"


def test_where_dead_brokers_vanish_from_the_list_it_waits_for_those_that_hold_replicas(tmp_path: Path) -> None:
    bench = Harness(make_cluster(fenced_visible=False), tmp_path)
    bench.cluster.kill(1)
    with pytest.raises(TryLaterError, match=r"not alive yet: broker 1 \(missing\)"):
        bench.rejoin(1, wait_s=10.0)
    del bench.cluster.topics["one"]
    assert bench.drain(1).ok
    with pytest.raises(UsageError, match="broker 1 is not in this cluster"):
        bench.rejoin(1)
    record = bench.records.newest(BrokerOperationKind.DRAIN, (1,))
    bench.clock.on_sleep.append(lambda _: bench.cluster.revive(1) if bench.clock.elapsed > 30 else None)
    assert bench.rejoin(1, record=record).verdict == "done"
    assert bench.leaders()["t", 0] == 1


def leaders_record(bench: Harness) -> BrokerOperation:
    record = bench.records.to_restore("leaders", (1,))
    assert record is not None
    return record


def test_leaderships_go_without_data_and_come_back_as_they_were(bench: Harness) -> None:
    del bench.cluster.topics["one"]
    lists, leaders = bench.lists(), bench.leaders()
    assert bench.records.to_restore("leaders", (1,)) is None
    moved = bench.drain_leaders(1)
    assert (moved.verdict, moved.copied_bytes, moved.cautions) == ("done", 0, ())
    assert 1 not in bench.leaders().values()
    assert {k: sorted(v) for k, v in bench.lists().items()} == {k: sorted(v) for k, v in lists.items()}
    assert all(v[0] != 1 for v in bench.lists().values()), "no election brings them back"
    calls = len(bench.cluster.calls)
    assert bench.drain_leaders(1).verdict == "done"
    assert len(bench.cluster.calls) == calls, "a second run has nothing to change"
    assert not bench.records.emptied(), "planners go on to use the broker"
    bench.cluster.kill(1)
    bench.cluster.advance(60)
    bench.cluster.revive(1)
    assert bench.rejoin(1, record=leaders_record(bench)).verdict == "done"
    assert (bench.lists(), bench.leaders()) == (lists, leaders)
    assert bench.rejoin(1, record=leaders_record(bench)).verdict == "nothing to do"
    assert not bench.records.leaders_away((1,))


def test_a_leadership_that_nobody_else_can_take_stays_and_is_said(bench: Harness) -> None:
    before = bench.lists(), bench.leaders()
    with pytest.raises(OperationFailedError, match="1 leadership stays, as no other replica is in sync: one-0"):
        bench.drain_leaders(1)
    assert (bench.lists(), bench.leaders()) == before
    assert not bench.cluster.calls
    moved = bench.drain_leaders(1, ignore_warns=True)
    assert (moved.verdict, moved.problems) == ("done", ())
    assert moved.cautions == ("1 leadership stays, as no other replica is in sync: one-0",)
    assert [key for key, leader in bench.leaders().items() if leader == 1] == [("one", 0)]


def test_a_leadership_that_is_the_first_replicas_goes_by_an_election(bench: Harness) -> None:
    bench.cluster.topics["t"].partitions[1].leader = 1
    lists = bench.lists()
    moved = bench.drain_leaders(1, ignore_warns=True)
    assert (moved.verdict, moved.leaders_passed) == ("done", 1)
    assert (bench.lists()["t", 1], bench.leaders()["t", 1]) == (lists["t", 1], 2)


def test_what_leads_again_before_the_restart_goes_to_the_same_record(bench: Harness) -> None:
    lists, leaders = bench.lists(), bench.leaders()
    assert bench.drain_leaders(1, ignore_warns=True).ok
    bench.cluster.add_topic("new", {0: (1, 4, 5)})
    assert bench.drain_leaders(1, ignore_warns=True).ok
    record = leaders_record(bench)
    assert (record.number, len(record.legs)) == (1, 2)
    assert bench.rejoin(1, record=record).ok
    assert bench.lists() == {**lists, ("new", 0): (1, 4, 5)}
    assert bench.leaders() == {**leaders, ("new", 0): 1}


def drain_and_return_leaders(bench: Harness) -> None:
    assert bench.drain_leaders(1, ignore_warns=True).ok
    assert bench.rejoin(1, record=leaders_record(bench)).ok


def test_leaders_drained_and_returned_cut_anywhere_end_undisturbed(tmp_path: Path) -> None:
    calm = Harness(make_cluster(), tmp_path / "calm")
    lists, leaders = calm.lists(), calm.leaders()
    assert calm.drain_leaders(1, ignore_warns=True).ok
    drained_at, away = calm.crash.count, (calm.lists(), calm.leaders())
    assert calm.rejoin(1, record=leaders_record(calm)).ok
    effects = calm.crash.count
    assert drained_at >= 15
    assert effects - drained_at >= 15
    for cut in range(effects):
        bench = Harness(make_cluster(), tmp_path / f"cut-{cut}")
        bench.crash.die_at = cut
        with pytest.raises(Killed):
            drain_and_return_leaders(bench)
        bench.clock.sleep(float(cut % 3))
        bench.revived()
        if cut < drained_at:
            assert bench.drain_leaders(1, ignore_warns=True).ok, cut
            assert (bench.lists(), bench.leaders()) == away, cut
        assert bench.rejoin(1, record=leaders_record(bench)).ok, cut
        assert (bench.lists(), bench.leaders()) == (lists, leaders), cut
        assert not any(bench.configs().values()), cut
        for file in bench.journals.values():
            if file.data:
                verify_journal(file.data)
