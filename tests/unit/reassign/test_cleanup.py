"""What `cleanup` decides: ours by journal, what still moves, and what changes while a person is asked."""

from typing import Any

from kafkakit.core.model import TopicPartition, TopicPartitionReplica
from kafkakit.execution.decide.schedule.work import Rates
from kafkakit.execution.decide.throttle import LEADER_RATE
from kafkakit.reassign.act.cleanup import CleanupRequest, clean
from kafkakit.reassign.report.run import Cleaned
from tests.invariants.journal import verify_journal
from tests.rigs.reassign import MemoryFile
from tests.rigs.throttles import Rig, goal

T0 = goal("t", 0, (3, 2))
BOTH = Rates(into=5, out=5)


def left() -> Rig:
    """A cluster that a run was cut on; nothing moves."""
    rig = Rig()
    rig.throttles.impose([T0], BOTH, rig.live())
    return rig


def cleaned(rig: Rig, *files: MemoryFile, **options: Any) -> Cleaned:
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
    assert found.left == ("apply of p.json: its throttles stay, 1 moves still run under them",)


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
    rig.throttles.impose_inside([1], Rates(inside=5), rig.live())
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
