"""`reassign throttle` as an operator runs it: asking a run at work, and setting rates where none is."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkakit.adapters.control_file import FileControl
from kafkakit.adapters.files import write_file
from kafkakit.adapters.host import life_of, this_holder
from kafkakit.core.model import TopicPartition
from kafkakit.execution.act.control_requests import ControlRequests
from kafkakit.execution.act.leases import Lease, lease_path
from kafkakit.execution.decide.schedule.work import BrokerRates
from kafkakit.execution.decide.throttle import FOLLOWER_RATE, LEADER_RATE
from tests.cli.test_reassign_cleanup import CleanupDesk
from tests.invariants.journal import verify_effects, verify_journal

MB = 1_000_000
CLUSTER = "fake-cluster"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CleanupDesk:
    return CleanupDesk(tmp_path, line_rate=MB / 100).sit(monkeypatch)


@contextmanager
def executor(desk: CleanupDesk, *, answers: bool = True, refused: str = "") -> Iterator[list[BrokerRates | None]]:
    """A run at work: it holds the lease and takes control requests up whenever time passes."""
    store = FileControl(desk.home.state / "control", write_file)
    lease = Lease(
        store,
        desk.clock,
        lease_path(CLUSTER),
        this_holder("reassign apply"),
        what="cluster",
        life_of=life_of,
        say=lambda _: None,
    )
    token = lease.acquire()
    requests = ControlRequests(store, desk.clock, CLUSTER)
    taken: list[BrokerRates | None] = []

    def look(_: float) -> None:
        requested = requests.read(token)
        if requested is not None and answers:
            taken.append(requested.request.rates)
            requests.answer(token, requested.version, refused)

    desk.clock.on_sleep.append(look)
    try:
        yield taken
    finally:
        desk.clock.on_sleep.remove(look)
        lease.release()
        store.close()


def rates_set(desk: CleanupDesk) -> dict[int, dict[str, str]]:
    return {b.id: dict(b.configs) for b in desk.cluster.brokers.values()}


def test_a_run_at_work_is_asked_and_takes_the_rates_up(desk: CleanupDesk) -> None:
    with executor(desk) as taken:
        ran = desk.run("throttle", "40MB", "--throttle-broker", "3:in=10MB", "-o", "json")
    assert (ran.code, ran.stderr) == (0, "")
    assert taken[-1] == BrokerRates(into=40 * MB, out=40 * MB, into_of={3: 10 * MB})
    assert ran.json["rates"]["into_of"] == {"3": 10 * MB}
    assert "reassign apply" in ran.json["taken_up_by"]
    assert desk.cluster.calls == []


def test_what_was_wished_before_is_kept_where_only_a_part_is_named(desk: CleanupDesk) -> None:
    with executor(desk) as taken:
        unknown = desk.run("throttle", "same", "--throttle-broker", "3:in=10MB")
        assert (unknown.code, unknown.stdout) == (2, "")
        assert "not known on this host" in unknown.stderr
        assert desk.run("throttle", "40MB").code == 0
        ran = desk.run("throttle", "same", "--throttle-broker", "3:in=10MB", "--throttle-dirs", "5MB", "-o", "tsv")
    assert taken[-1] == BrokerRates(into=40 * MB, out=40 * MB, inside=5 * MB, into_of={3: 10 * MB})
    assert ran.stdout == "*\t40000000\t40000000\t5000000\n3\t10000000\t40000000\t5000000\n"


def test_a_run_that_does_not_answer_or_cannot_do_all_of_it(desk: CleanupDesk) -> None:
    with executor(desk, answers=False):
        silent = desk.run("throttle", "40MB", "--wait", "5s")
    assert (silent.code, silent.stdout) == (75, "")
    assert "did not apply the rates within 5s" in silent.stderr
    with executor(desk, refused="broker 3 is not alive and keeps the rate that it has"):
        partly = desk.run("throttle", "40MB", "-o", "json")
    assert partly.code == 1
    assert partly.json["problems"] == ["broker 3 is not alive and keeps the rate that it has"]
    assert "the throttle is not changed everywhere: broker 3 is not alive" in partly.stderr


def test_the_run_of_another_plan_is_not_changed(desk: CleanupDesk) -> None:
    with executor(desk) as taken:
        ran = desk.run("throttle", str(desk.path), "40MB")
    assert (ran.code, taken) == (2, [])
    assert "the active run is not a run of this plan" in ran.stderr


def test_where_none_runs_the_rates_are_set_for_the_moves_in_flight(desk: CleanupDesk) -> None:
    desk.cut()
    ran = desk.run("throttle", "9MB", "--throttle-broker", "3:in=2MB")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.startswith(
        "cluster fake-cluster (profile p)\n"
        f"throttle: 9 MB/s per broker; broker 3: in 2 MB/s\nset for 1 move in flight of apply of {desk.path}\n"
    )
    assert rates_set(desk) == {
        1: {LEADER_RATE: "9000000"},
        2: {LEADER_RATE: "9000000"},
        3: {FOLLOWER_RATE: "2000000"},
    }
    named = desk.run("throttle", str(desk.path), "same", "--throttle-broker", "1:out=1MB")
    assert named.code == 0
    assert rates_set(desk)[1] == {LEADER_RATE: "1000000"}
    assert rates_set(desk)[3] == {FOLLOWER_RATE: "2000000"}
    assert desk.run("throttle", "none").stdout.startswith("cluster fake-cluster (profile p)\nthrottle lifted\n")
    assert desk.configs() == desk.before
    assert desk.cluster.reassignments()
    assert desk.run("throttle", "4MB").code == 0
    desk.cluster.replication.line_rate = 10.0 * MB
    desk.cluster.advance(60)
    assert desk.run("cleanup", "--yes").code == 0
    assert desk.configs() == desk.before
    verify_effects(verify_journal(desk.journal().read_bytes()), desk.cluster.calls)


def test_a_dry_run_says_which_rates_would_hold_and_sets_none(desk: CleanupDesk) -> None:
    idle = desk.run("throttle", "9MB", "--dry-run")
    assert (idle.code, "no run is active here" in idle.stderr) == (2, True)
    desk.cut()
    before, journal = rates_set(desk), desk.journal().read_bytes()
    planned = desk.run("throttle", "9MB", "--dry-run")
    assert planned.stdout.splitlines()[1:] == [
        "nothing is done; this would be the result:",
        "throttle: 9 MB/s per broker",
        f"set for 1 move in flight of apply of {desk.path}",
    ]
    assert (rates_set(desk), desk.journal().read_bytes()) == (before, journal)
    assert desk.run("throttle", "9MB", "--throttle-broker", "77:in=1MB", "--dry-run").code == 2
    with executor(desk) as taken:
        asked = desk.run("throttle", "40MB", "--dry-run", "-o", "json")
    assert (asked.code, asked.json["is_plan"], taken) == (0, True, [])
    assert "reassign apply" in asked.json["taken_up_by"]


def test_a_dead_broker_keeps_its_rate_and_is_told(desk: CleanupDesk) -> None:
    desk.cut()
    desk.cluster.kill(3)
    ran = desk.run("throttle", "9MB", "-o", "json")
    assert (ran.code, ran.json["problems"]) == (1, ["broker 3 is not alive and keeps the rate that it has"])
    assert rates_set(desk)[3] == {FOLLOWER_RATE: "5000000"}
    lifted = desk.run("throttle", "none", "-o", "json")
    assert lifted.code == 1
    assert "broker 3, which is not alive, can only be removed once it is back" in lifted.json["problems"][0]


def test_a_rate_that_somebody_else_set_since_stays(desk: CleanupDesk) -> None:
    desk.cut()
    desk.cluster.brokers[2].configs[LEADER_RATE] = "123"
    ran = desk.run("throttle", "9MB")
    assert ran.code == 1
    assert f"problem: broker 2: {LEADER_RATE} was changed by another process and stays" in ran.stdout
    assert rates_set(desk)[2] == {LEADER_RATE: "123"}
    assert rates_set(desk)[1] == {LEADER_RATE: "9000000"}


def test_nothing_to_change_is_refused(desk: CleanupDesk) -> None:
    nobody = desk.run("throttle", "9MB")
    assert (nobody.code, nobody.stdout) == (2, "")
    assert "no run is active here, and no moves of an interrupted run are in flight" in nobody.stderr
    for words in (["same"], ["a", "b", "c"], ["fast"], ["9MB", "--throttle-broker", "3"], ["9MB", "--wait", "soon"]):
        ran = desk.run("throttle", *words)
        assert (ran.code, ran.stdout) == (2, "")
        assert "Traceback" not in ran.stderr
    assert desk.cluster.calls == []


def test_a_broker_that_is_not_there_is_refused_wherever_the_rates_go(desk: CleanupDesk) -> None:
    with executor(desk) as taken:
        requested = desk.run("throttle", "9MB", "--throttle-broker", "33:in=2MB")
    assert (requested.code, taken) == (2, [])
    desk.cut()
    during = desk.configs()
    ran = desk.run("throttle", "9MB", "--throttle-broker", "33:in=2MB")
    assert (ran.code, ran.stdout) == (2, "")
    assert "broker 33 is not in the cluster" in ran.stderr
    assert desk.configs() == during


def test_other_peoples_moves_are_not_throttled(desk: CleanupDesk) -> None:
    desk.cut()
    desk.cluster.cancel([TopicPartition("t", 0)])
    desk.cluster.reassign({TopicPartition("t", 0): (2, 3)})
    during = desk.configs()
    assert desk.run("throttle", "9MB").code == 2
    assert desk.configs() == during
