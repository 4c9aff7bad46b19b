"""`kafkakit broker` over a cluster in memory: stdout, stderr and exit code of each command."""

import json
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kafkakit import wiring
from kafkakit.adapters.lock import FileLock
from kafkakit.cli.context import CliContext
from kafkakit.core.errors import LeaseHeldError, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.execution.act.leases import Lease
from tests.fakes.admin import FakeCluster
from tests.invariants.journal import verify_journal
from tests.rigs.command_line import ClusterDesk, Home, Ran

MB = 1_000_000


class BrokerDesk(ClusterDesk):
    """An operator's host, and a cluster of five brokers in three racks behind profile `p`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, FakeCluster({1: "a", 2: "b", 3: "c", 4: "a", 5: "b"}, line_rate=10 * MB))
        self.cluster.add_topic("t", {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2), 3: (1, 3, 5)}, size_bytes=20 * MB)

    def run(self, *words: str, stdin: str = "", env: Mapping[str, str] | None = None) -> Ran:
        return super().run("broker", *words, "--ingest-sample", "0", stdin=stdin, env=env)

    def press_after(self, seconds: float) -> None:
        """Ctrl-C at the first pause after so long."""
        limit = self.clock.elapsed + seconds
        self.press(lambda: self.clock.elapsed > limit)

    def lists(self) -> dict[int, tuple[int, ...]]:
        return {n: tuple(p.replicas) for n, p in self.cluster.topics["t"].partitions.items()}

    def leaders(self) -> list[int | None]:
        return [p.leader for p in self.cluster.topics["t"].partitions.values()]

    def records(self) -> list[Path]:
        return sorted(p for p in self.home.state.rglob("operations/*/*.json") if ".plan." not in p.name)

    def configs(self) -> dict[str, dict[str, str]]:
        return self.cluster.configs()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BrokerDesk:
    return BrokerDesk(tmp_path).sit(monkeypatch)


def test_drain_empties_a_broker_and_names_the_way_back(desk: BrokerDesk) -> None:
    before = desk.lists()
    ran = desk.run("drain", "1", "--yes", "--throttle", "5MB")
    assert ran.code == 0, ran.stderr
    assert all(1 not in replicas for replicas in desk.lists().values())
    assert 1 not in desk.leaders()
    (record,) = desk.records()
    undo = f"kafkakit --profile p broker rejoin 1 --restore {record} --throttle 5MB --ingest-sample 0 --yes"
    lines = ran.stdout.splitlines()
    assert lines.pop(0) == "cluster fake-cluster (profile p)"
    assert lines[:2] == ["broker 1 has been drained", "broker 1: alive, 0 replicas, 0 leaderships"]
    assert lines[2] == "planned: 4 partitions, 4 copies (76.3 MiB); 2 leaders to move first"
    assert lines[4:] == [f"record: {record}", "to move everything back:", undo]
    assert "Drain brokers 1\n" in ran.stderr
    assert "first 2 leaderships pass to replicas in sync\n" in ran.stderr
    assert "throttle: 5 MB/s per broker" in ran.stderr
    assert "ETA " in ran.stderr
    for journal in desk.home.state.rglob("*.journal"):
        verify_journal(journal.read_bytes())
    again = desk.run("drain", "1", "--yes", "-o", "json")
    assert (again.code, again.json["verdict"], again.json["kafkakit"]["command"]) == (
        0,
        "nothing to do",
        "broker drain",
    )
    assert desk.records() == [record]
    back = desk.run("rejoin", "1", "--restore", str(record), "--yes", "-o", "tsv")
    assert (back.code, back.stdout) == (0, "1\talive\ta\t4\t2\t0\n")
    assert desk.lists() == before
    assert [n for n in desk.configs() if desk.configs()[n]] == []


def test_dry_run_shows_plan_and_time_and_leaves_no_trace(desk: BrokerDesk) -> None:
    ran = desk.run("drain", "1", "--dry-run", "--throttle", "5MB", "-o", "json")
    assert (ran.code, ran.json["verdict"], ran.json["undo_command"]) == (0, "planned", None)
    assert ran.json["planned"] == {"partitions": 4, "copies": 4, "bytes": 80 * MB, "leaders_first": 2}
    assert "ETA " in ran.stderr
    assert "t-0: [1,2,3] -> [2,4,3], leader 1 -> 2" in ran.stderr
    assert desk.cluster.calls == []
    assert not desk.home.state.exists() or not [p for p in desk.home.state.rglob("*") if p.is_file()]


def test_a_throttle_below_what_the_logs_take_in_is_refused_as_by_apply(desk: BrokerDesk) -> None:
    def ingest(seconds: float) -> None:
        for number in range(4):
            desk.cluster.write("t", number, int(2 * MB * seconds))

    desk.clock.on_sleep.append(ingest)
    ran = desk.home.run("--profile", "p", "broker", "drain", "1", "--dry-run", "--throttle", "1MB")
    assert ran.code == 4
    assert "--throttle " in ran.stderr.splitlines()[-1]


def test_without_yes_and_terminal_nothing_happens(desk: BrokerDesk) -> None:
    for words in (("drain", "1"), ("replace", "1", "--with", "4"), ("decommission", "1")):
        ran = desk.run(*words, stdin="yes\n")
        assert (ran.code, ran.stdout) == (2, ""), words
        assert "--yes" in ran.stderr
    assert desk.run("rejoin", "1").code == 0  # it has nothing to do
    wrong = desk.run("replace", "1", "--with", "99")
    assert (wrong.code, "99" in wrong.stderr, "--yes" in wrong.stderr) == (2, True, False), wrong.stderr
    assert desk.cluster.calls == []
    assert desk.records() == []


def test_a_person_sees_the_time_before_the_question_and_types_yes(
    desk: BrokerDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CliContext, "input_allowed", True)
    for words in (("drain", "1"), ("replace", "1", "--with", "4"), ("decommission", "1")):
        refused = desk.run(*words, stdin="y\n")
        assert refused.code == 1, words
        assert refused.stdout.startswith("cluster fake-cluster (profile p)\ndeclined: ")
        shown, question = refused.stderr.index("ETA "), refused.stderr.index("Type 'yes' to continue")
        assert shown < question
        assert "cluster fake-cluster" in refused.stderr[:question].lower()
        assert refused.stderr.count("ETA ") == 1
    assert desk.cluster.calls == []
    assert desk.records() == []
    ran = desk.run("replace", "1", "--with", "4", stdin="yes\n")
    assert ran.code == 0, ran.stderr
    assert ran.stderr.count("Type 'yes'") == 1
    back = desk.run("rejoin", "1", "--restore", "last", stdin="no\n")
    assert (back.code, desk.lists()[0]) == (1, (4, 2, 3))
    assert back.stderr.index("ETA ") < back.stderr.index("Type 'yes' to continue")
    assert desk.run("rejoin", "1", "--restore", "last", stdin="yes\n").code == 0
    assert desk.lists()[0] == (1, 2, 3)
    again = desk.run("rejoin", "1", "--restore", "last", "--yes")
    assert (again.code, again.stdout.splitlines()[1]) == (0, "nothing to do: rejoin broker 1")
    never = desk.run("rejoin", "2", "--restore", "last", "--yes")
    assert never.code == 2
    assert "no operation on broker 2 is recorded on this host" in never.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("drain", "x"), "ID: 'x' is not a broker id"),
        (("drain", ""), "ID: '' is not a broker id"),
        (("drain", "1,,2"), "ID: '' is not a broker id"),
        (("drain", "2147483648"), "is not a broker id"),
        (("drain", "1,-2"), "name the brokers"),
        (("drain", "9"), "broker 9 is not in this cluster"),
        (("drain", "1", "--to", "1,4"), "broker 1 cannot be drained and receive (--to) at once"),
        (("drain", "1", "--to", "9"), "broker 9 is not in this cluster"),
        (("drain", "1", "--to", "y"), "--to: 'y' is not a broker id"),
        (("drain", "1", "--throttle", "fast"), "'fast' is not a rate"),
        (("drain", ",".join(map(str, range(101)))), "101 brokers are named, at most 100"),
        (("drain", "1,2,3,4,5"), "leaves no live broker"),
        (("drain", "1", "--spread", "--min-rack-ids", "2"), "two different rules"),
        (("replace", "1"), "--with"),
        (("replace", "1,2", "--with", "4"), "2 brokers are named, at most 1"),
        (("replace", "1", "--with", "1"), "cannot replace itself"),
        (("replace", "1", "--with", "9"), "--with: broker 9 is not in this cluster"),
        (("rejoin", "9"), "broker 9 is not in this cluster"),
        (("rejoin", "1", "--restore", "/nowhere/r.json"), "/nowhere/r.json: cannot be read"),
        (("rejoin", "1", "--wait", "soon"), "--wait"),
        (("rejoin", "1", "--leaders-pause", "soon"), "--leaders-pause"),
    ],
)
def test_bad_words_exit_with_2_in_one_line(desk: BrokerDesk, words: tuple[str, ...], said: str) -> None:
    ran = desk.run(*words, "--yes")
    assert (ran.code, ran.stdout) == (2, ""), ran.stderr
    (error,) = [line for line in ran.stderr.splitlines() if line.lower().startswith("error:")]
    assert said in error
    assert "Traceback" not in ran.stderr
    assert desk.cluster.calls == []
    assert desk.records() == []


def test_no_lawful_place_exits_with_4(desk: BrokerDesk) -> None:
    drained = desk.run("drain", "1", "--to", "5", "--yes")
    replaced = desk.run("replace", "1", "--with", "2", "--yes", "-o", "json")
    assert (drained.code, replaced.code) == (4, 4)
    assert "t-0, t-1, t-2: 1 replica(s) must leave, those that stay use racks b, c" in drained.stderr
    assert "t-3: 1 replica(s) must leave, and all 1 receiving brokers hold a replica already" in drained.stderr
    assert replaced.json["error"]["message"].startswith("broker 2 cannot take every replica of broker 1")
    assert desk.cluster.calls == []


def test_replace_and_decommission(desk: BrokerDesk) -> None:
    desk.cluster.kill(1)
    ran = desk.run("replace", "1", "--with", "4", "--yes", "-o", "json")
    assert (ran.code, ran.json["verdict"]) == (0, "done"), ran.stderr
    assert desk.lists() == {0: (4, 2, 3), 1: (2, 3, 4), 2: (3, 4, 2), 3: (4, 3, 5)}
    assert desk.leaders() == [4, 2, 3, 4]
    gone = desk.run("decommission", "1", "--yes")
    assert gone.code == 0
    assert gone.stdout.startswith("cluster fake-cluster (profile p)\nnothing to do: decommission broker 1\n")
    assert "bin/kafka-cluster.sh unregister --bootstrap-server fake:1 --id 1\n" in gone.stdout
    assert "bin/kafka-metadata-quorum.sh --bootstrap-server fake:1 describe --status\n" in gone.stdout


def test_a_controller_is_not_safe_to_stop(desk: BrokerDesk) -> None:
    desk.cluster.brokers[1].configs["process.roles"] = "broker,controller"
    ran = desk.run("decommission", "1", "--yes")
    assert ran.code == 1
    assert ran.stdout.startswith("cluster fake-cluster (profile p)\nnot safe to stop: decommission broker 1\n")
    assert "error: not safe to stop: broker 1 is also a controller" in ran.stderr
    assert all(1 not in replicas for replicas in desk.lists().values())


def test_ctrl_c_between_the_plans_of_an_operation_names_the_command_that_resumes(desk: BrokerDesk) -> None:
    desk.cluster.fail_next("snapshot", KeyboardInterrupt())
    ran = desk.run("drain", "1", "--yes", "--throttle", "5MB")
    again = "kafkakit --profile p broker drain 1 --throttle 5MB --ingest-sample 0 --yes"
    assert ran.code == 130
    assert ran.stderr.splitlines()[-2:] == ["error: stopped; the drain is not finished", f"hint: to resume: {again}"]


def test_ctrl_c_names_the_command_that_goes_on_and_the_one_that_takes_it_back(desk: BrokerDesk) -> None:
    desk.cluster.replication.line_rate = 1 * MB

    desk.press_after(10)
    ran = desk.run("drain", "1", "--yes", "--to", "4,5", "--throttle", "5MB", "--max-in", "2")
    assert ran.code == 130, ran.stderr
    (record,) = desk.records()
    again = "kafkakit --profile p broker drain 1 --to 4,5 --throttle 5MB --max-in 2 --ingest-sample 0 --yes"
    undo = f"kafkakit --profile p broker rejoin 1 --restore {record} --throttle 5MB --max-in 2 --ingest-sample 0 --yes"
    without = "kafkakit --profile p broker drain 1 --to 4,5 --max-in 2 --ingest-sample 0 --yes --throttle none"
    lines = ["hint: to resume, to resume without the throttle, to undo:", again, without, undo]
    assert ran.stderr.splitlines()[-4:] == lines
    assert json.loads(record.read_bytes())["stage"] == "moving"
    dry = desk.run("drain", "1", "--to", "4,5", "--dry-run")
    assert (dry.code, "resuming " in dry.stderr) == (0, True)
    other = desk.run("drain", "1", "--dry-run")
    assert "made with other options; --replan makes a new one" in other.stderr
    desk.cluster.replication.line_rate = 100 * MB
    went_on = desk.run("drain", "1", "--to", "4,5", "--yes")
    assert went_on.code == 0, went_on.stderr
    assert all(1 not in replicas for replicas in desk.lists().values())
    assert desk.records() == [record]
    assert not any(desk.configs().values())


def test_a_throttle_holds_for_plans_that_a_cut_operation_has_not_begun(desk: BrokerDesk) -> None:
    def stop(name: str, _: object) -> None:
        if name == "elect_preferred_leaders":
            desk.cluster.before_call.remove(stop)
            raise KeyboardInterrupt

    desk.cluster.before_call.append(stop)
    assert desk.run("drain", "1", "--yes", "--throttle", "2MB").code == 130
    rates: list[str] = []

    def note(name: str, argument: Any) -> None:
        if name == "alter_configs":
            rates.extend(c.value for c in argument if c.key.endswith("throttled.rate") and c.value)

    desk.cluster.before_call.append(note)
    ran = desk.run("drain", "1", "--yes")
    assert ran.code == 0, ran.stderr
    assert "made with other options" not in ran.stderr
    assert "throttle: 2 MB/s per broker" in ran.stderr
    assert set(rates) == {"2000000"}
    assert not any(desk.configs().values())


def test_a_second_one_on_the_host_is_sent_away(desk: BrokerDesk) -> None:
    lock = desk.home.state / "locks" / "fake-cluster.drain-1.lock"
    with FileLock(lock, "test", "a test"):
        ran = desk.run("drain", "1", "--yes")
    assert ran.code == 75
    assert "another kafkakit process is running" in ran.stderr
    with FileLock(desk.home.state / "locks" / "fake-cluster.lock", "test", "a test"):
        busy = desk.run("drain", "1", "--yes")
    assert busy.code == 75
    assert desk.cluster.calls == []
    assert desk.run("drain", "1", "--yes").code == 0


def test_a_damaged_record_or_plan_exits_with_2_and_names_the_file(desk: BrokerDesk) -> None:
    assert desk.run("drain", "1", "--yes").code == 0
    (record,) = desk.records()
    body = record.read_bytes()
    record.write_bytes(body[:-20])
    ran = desk.run("drain", "1", "--yes")
    assert ran.code == 2
    assert ran.stderr.startswith(f"error: {record}: ")
    record.write_bytes(body)
    leaders, copies = sorted(record.parent.glob("*.plan.json"))
    copies.write_bytes(leaders.read_bytes())
    calls = len(desk.cluster.calls)
    swapped = desk.run("rejoin", "1", "--restore", str(record), "--yes")
    assert swapped.code == 2
    assert f"{copies} is not the plan that the record names" in swapped.stderr
    assert len(desk.cluster.calls) == calls
    for plan in (leaders, copies):
        plan.unlink()
    lost = desk.run("rejoin", "1", "--restore", str(record), "--yes")
    assert lost.code == 2
    assert ".plan.json: cannot be opened" in lost.stderr


def test_a_record_elsewhere_and_one_at_work_are_not_taken_back(desk: BrokerDesk, tmp_path: Path) -> None:
    assert desk.run("drain", "1", "--yes").code == 0
    (record,) = desk.records()
    copied = tmp_path / "copy.json"
    copied.write_bytes(record.read_bytes())
    elsewhere = desk.run("rejoin", "1", "--restore", str(copied), "--yes")
    assert elsewhere.code == 2
    assert "is not where this host keeps that record" in elsewhere.stderr
    body = record.read_bytes()
    with FileLock(desk.home.state / "locks" / "fake-cluster.drain-1.lock", "test", "a test"):
        busy = desk.run("rejoin", "1", "--restore", str(record), "--yes")
    assert busy.code == 75
    assert record.read_bytes() == body


def test_rejoin_gives_leaderships_back(desk: BrokerDesk) -> None:
    desk.cluster.kill(1)
    desk.cluster.revive(1)
    desk.cluster.advance(60)
    dry = desk.run("rejoin", "1", "--dry-run")
    assert (dry.code, "2 preferred leaderships will come back" in dry.stderr) == (0, True)
    assert desk.cluster.calls == []
    ran = desk.run("rejoin", "1", "--yes", "--leaders-at-once", "1", "--leaders-pause", "0")
    assert ran.code == 0, ran.stderr
    assert "2 leaderships passed on by election" in ran.stdout
    assert desk.leaders() == [1, 2, 3, 1]
    desk.cluster.kill(1)
    late = desk.run("rejoin", "1", "--yes", "--wait", "10s")
    assert late.code == 75
    assert "hint: start it, then run: kafkakit --profile p broker rejoin 1 --wait 10s" in late.stderr


def plan(desk: BrokerDesk, *words: str) -> Ran:
    return desk.home.run("--profile", "p", "topicmappr", *words)


def placed(ran: Ran) -> set[int]:
    """The brokers that the plan, or the new topic, has in its lists."""
    assert ran.code == 0, ran.stderr
    rows = [line.split("\t") for line in ran.stdout.splitlines()]
    return {int(b) for row in rows for b in re.findall(r"\d+", row[3 if len(row) > 3 else 2])}


def test_planning_leaves_out_a_broker_that_leaves_until_it_rejoins(desk: BrokerDesk) -> None:
    assert desk.run("drain", "4", "--yes").code == 0
    place = ("place", "new", "--partitions", "12", "--replication", "2", "-o", "tsv")
    rebuild = ("rebuild", "--topics", "t", "--brokers", "-2", "--force-rebuild", "-o", "tsv")
    rebalance = ("rebalance", "--topics", "t", "--brokers", "-2", "-o", "tsv")
    told = "warning: broker 4 is excluded from plans since it was drained on 2026-01-01 00:"
    for words in (place, rebuild, rebalance):
        ran = plan(desk, *words)
        assert told in ran.stderr, ran.stderr
        assert "broker rejoin 4" in ran.stderr
        assert 4 not in placed(ran), words
    assert told in plan(desk, "check").stderr
    assert 4 in placed(plan(desk, *rebuild[:4], "1,2,3,4", *rebuild[5:])), "an id that is given is meant"
    assert desk.run("rejoin", "4", "--yes").code == 0
    for words in (place, rebuild, rebalance):
        back = plan(desk, *words)
        assert "is left out" not in back.stderr
        assert words is rebalance or 4 in placed(back)


def test_a_drain_of_another_broker_does_not_fill_the_one_that_leaves(desk: BrokerDesk) -> None:
    assert desk.run("decommission", "4", "--yes").code == 0
    ran = desk.run("drain", "1", "--yes", "--min-rack-ids", "2")
    assert ran.code == 0, ran.stderr
    assert "broker 4 is excluded from plans" in ran.stderr
    assert all(4 not in replicas for replicas in desk.lists().values())


def test_another_home_on_the_host_does_not_run_beside(desk: BrokerDesk, tmp_path: Path) -> None:
    locks = {"KAFKAKIT_LOCK_DIR": str(tmp_path / "locks")}
    other = Home(tmp_path / "other")
    other.write_config("bootstrap_server: fake:1\n", "profiles.d/p.yaml")
    refused: list[Ran] = []
    shown: list[Ran] = []

    def meanwhile(_: float) -> None:
        if not refused and desk.cluster.reassignments():
            words = ("reassign", "cleanup", "--yes")
            refused.append(other.run("--profile", "p", *words, env=locks))
            shown.append(other.run("--profile", "p", "reassign", "status", "--window", "0", env=locks))

    desk.clock.on_sleep.append(meanwhile)
    ran = desk.run("drain", "1", "--yes")
    assert ran.code == 0, ran.stderr
    assert refused[0].code == 75
    assert "another kafkakit process is running: process " in refused[0].stderr
    assert "lock: not held in this control store, but a process of this host changes the cluster: " in shown[0].stdout


class SilentStore:
    """A control store whose topic takes no record, as one that lost its in-sync replicas."""

    def get(self, path: str) -> None:
        raise TryLaterError("topic __kafkakit_control took no record within 10 s", hint="check its replicas")

    values = get

    def close(self) -> None:
        pass


def test_a_lease_that_cannot_be_taken_does_not_block_the_repair(
    desk: BrokerDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "open_control", lambda _: SilentStore())
    before = desk.lists()
    refused = desk.run("drain", "1", "--yes")
    assert (refused.code, desk.lists()) == (75, before)
    assert (
        "the lease of cluster fake-cluster cannot be read or taken: topic __kafkakit_control took no record"
        in refused.stderr
    )
    assert "--without-lease" in refused.stderr
    ran = desk.run("drain", "1", "--yes", "--without-lease", "--throttle", "5MB")
    assert ran.code == 0, ran.stderr
    assert "warning: carried on without the lease, other hosts are not kept away: " in ran.stderr
    assert "warning: it is not known which brokers are cordoned, plans may use them: topic __kafkakit" in ran.stderr
    assert all(1 not in replicas for replicas in desk.lists().values())
    for journal in desk.home.state.rglob("*.journal"):
        verify_journal(journal.read_bytes())


def test_runs_are_stopped_and_cleaned_up_without_the_lease_as_well(
    desk: BrokerDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.cluster.replication.line_rate = 1 * MB

    desk.press_after(10)
    assert desk.run("drain", "1", "--yes", "--throttle", "5MB").code == 130
    monkeypatch.setattr(wiring, "open_control", lambda _: SilentStore())
    commands = [("pause",), ("continue",), ("throttle", "6MB"), ("abort", "--yes"), ("cleanup", "--yes"), ("close",)]
    for words in commands:
        refused = desk.home.run("--profile", "p", "reassign", *words)
        assert refused.code == 75, words
        assert "to repair the cluster without it: --without-lease" in refused.stderr, words
    assert any(desk.configs().values())
    for words in commands[:5]:
        ran = desk.home.run("--profile", "p", "reassign", *words, "--without-lease")
        assert ran.code == 0, (words, ran.stderr)
        assert "carried on without the lease" in ran.stderr, words
    assert not any(desk.configs().values())
    assert desk.cluster.reassignments() == ()


def test_a_lease_that_another_process_holds_is_respected_even_so(
    desk: BrokerDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(*_: object) -> None:
        raise LeaseHeldError("cluster fake-cluster: held by process 1 of ann on elsewhere")

    monkeypatch.setattr(Lease, "acquire", held)
    ran = desk.run("drain", "1", "--yes", "--without-lease")
    assert ran.code == 75
    assert "held by process 1 of ann" in ran.stderr


def test_what_resume_finished_of_an_operation_is_named_and_not_done_again(desk: BrokerDesk) -> None:
    """A drain, and then its way back, are cut; `reassign resume` ends the run; partitions move on before the rest."""

    def cut(*words: str) -> None:
        desk.press_after(10)
        assert desk.run(*words).code == 130
        assert "resume with: kafkakit --profile p reassign resume --run " in reassign("status", "--window", "0")

    def reassign(*words: str) -> str:
        ran = desk.home.run("--profile", "p", "reassign", *words)
        assert ran.code == 0, ran.stderr
        return ran.stdout

    before = desk.lists()
    desk.cluster.replication.line_rate = 1 * MB
    cut("drain", "1", "--yes", "--throttle", "5MB", "--max-in", "2")
    again = "kafkakit --profile p broker drain 1 --throttle 5MB --max-in 2 --ingest-sample 0 --yes"
    desk.cluster.replication.line_rate = 100 * MB
    assert reassign("resume", "--yes").splitlines()[-2:] == ["next:", again]
    (record,) = desk.records()
    moved = desk.lists()
    desk.cluster.topics["t"].partitions[0].replicas = list(moved[0])[::-1]
    ended = desk.run("drain", "1", "--yes", "--throttle", "5MB")
    assert ended.code == 0, ended.stderr
    assert json.loads(record.read_bytes())["stage"] == "done"
    desk.cluster.topics["t"].partitions[0].replicas = list(moved[0])

    desk.cluster.replication.line_rate = 1 * MB
    cut("rejoin", "1", "--restore", "last", "--yes", "--throttle", "5MB", "--max-in", "2")
    back = f"kafkakit --profile p broker rejoin 1 --restore {record} --throttle 5MB --max-in 2 --ingest-sample 0 --yes"
    desk.cluster.replication.line_rate = 100 * MB
    assert reassign("resume", "--yes").splitlines()[-2:] == ["next:", back]
    copies = json.loads(record.read_bytes())["legs"][-1]
    assert (copies["kind"], copies["state"]) == ("copies", "done")
    desk.cluster.reassign({TopicPartition("t", 3): (5, 3, 4)})
    desk.cluster.advance(60)
    refused = desk.run("rejoin", "1", "--restore", str(record), "--yes")  # the leaderships are not given back yet
    assert (refused.code, "1 plan of " in refused.stderr) == (2, True)
    printed = re.search(r"leave these as they are: kafkakit (.+)", refused.stderr)
    assert printed is not None
    rest = desk.home.run(*shlex.split(printed[1]))
    assert rest.code == 0, rest.stderr
    assert json.loads(record.read_bytes())["stage"] == "undone"
    assert desk.lists()[3] == (5, 3, 4)
    assert {n: desk.lists()[n] for n in (0, 1, 2)} == {n: before[n] for n in (0, 1, 2)}


def restart(desk: BrokerDesk, verb: str, *words: str) -> Ran:
    return desk.home.run("--profile", "p", "broker", f"restart-{verb}", *words)


def with_minimum(desk: BrokerDesk) -> BrokerDesk:
    desk.cluster.topics["t"].configs["min.insync.replicas"] = "2"
    return desk


def test_restart_check_says_yes_or_names_what_forbids_it(desk: BrokerDesk) -> None:
    with_minimum(desk)
    yes = restart(desk, "check", "1")
    assert (yes.code, yes.stdout.splitlines()) == (
        0,
        ["cluster fake-cluster (profile p)", "yes: broker 1 may go down now (4 partitions checked)"],
    )
    no = restart(desk, "check", "1", "2")
    assert (no.code, no.stdout.splitlines()[1:]) == (
        1,
        [
            "no: brokers 1, 2 must not go down together now: 3 partitions",
            "PARTITION  IN-SYNC  LEFT  MIN-ISR  REPLICAS  ISR    WHY",
            "t/0              3     1        2  1,2,3     1,2,3  too few left in sync",
            "t/1              3     1        2  2,3,1     2,3,1  too few left in sync",
            "t/2              3     1        2  3,1,2     3,1,2  too few left in sync",
            "to restart them in rounds:",
            "kafkakit --profile p broker restart-plan --brokers 1,2 --at-once 2",
        ],
    )
    desk.cluster.add_topic("many", dict.fromkeys(range(30), (1, 3, 4)), configs={"min.insync.replicas": "3"})
    desk.cluster.add_topic("few", dict.fromkeys(range(30), (1, 3)), configs={"min.insync.replicas": "1"})
    shown, data = restart(desk, "check", "1,3"), restart(desk, "check", "1,3", "-o", "json")
    assert (shown.code, data.code, data.json["answer"]) == (1, 1, "no")
    assert "... and 14 more (all of them with -o tsv)" in shown.stdout
    assert "note: 30 partitions with no more replicas than min.insync.replicas" in shown.stdout
    assert len(data.json["partitions"]) == 34
    assert data.json["partitions"][0] == {
        "topic": "few",
        "partition": 0,
        "replicas": [1, 3],
        "isr": [1, 3],
        "left": 0,
        "min_isr": 1,
        "why": "none left in sync",
    }
    assert (data.json["stalled"], data.json["checked"], data.json["snapshot_age_s"]) == (30, 64, None)
    assert len(restart(desk, "check", "1,3", "-o", "tsv").stdout.splitlines()) == 34
    assert desk.cluster.calls == []


def test_restart_check_of_moves_and_of_a_cluster_that_is_away(desk: BrokerDesk) -> None:
    desk.cluster.reassign({TopicPartition("t", 3): (1, 3, 4)})
    moved = restart(desk, "check", "4")
    assert moved.code == 1
    assert "obstacle: 1 running move to or from what is to go down: t/3" in moved.stdout
    assert moved.stdout.splitlines()[-1] == "kafkakit --profile p broker restart-gate 4"
    assert restart(desk, "check", "4", "-o", "json").json["moves"][0]["adding"] == [4]
    desk.cluster.fail_next("snapshot", TryLaterError("no broker answers"))
    assert restart(desk, "check", "1").code == 75
    desk.cluster.fail_next("quorum", TryLaterError("no broker answers"))
    assert restart(desk, "plan", "--all").code == 75


def test_restart_check_and_plan_of_a_snapshot_say_its_age(desk: BrokerDesk) -> None:
    with_minimum(desk)
    assert desk.home.run("--profile", "p", "snapshot", "--output-file", "s.json").code == 0
    desk.clock.advance(4020)
    desk.cluster.kill(2)
    note = "note: the snapshot is 1h 7m old; controllers, and what has changed since, are not checked"
    for verb, words in (("check", ("1",)), ("plan", ("--all", "--at-once", "2"))):
        ran = desk.home.run("broker", f"restart-{verb}", *words, "--snapshot", "s.json")
        assert (ran.code, note in ran.stdout.splitlines()) == (0, True), ran.stdout + ran.stderr
    assert restart(desk, "check", "1").code == 1
    old = json.loads((desk.home.work / "s.json").read_bytes())
    (desk.home.work / "s.json").write_text(json.dumps({**old, "taken_at": "2099-01-01T00:00:00Z"}))
    skewed = desk.home.run("broker", "restart-check", "1", "--snapshot", "s.json")
    assert (skewed.code, " ahead of this host's clock; controllers, and what has " in skewed.stdout) == (0, True)
    del old["min_isr"], old["topics"][0]["configs"]
    (desk.home.work / "s.json").write_text(json.dumps(old))
    unknown = desk.home.run("broker", "restart-check", "1", "--snapshot", "s.json")
    assert (unknown.code, unknown.stdout.splitlines()[1]) == (75, "not known: whether broker 1 may go down now")


def test_restart_plan_shows_rounds_bound_and_commands(desk: BrokerDesk) -> None:
    with_minimum(desk)
    ran = restart(desk, "plan", "--all", "--at-once", "2")
    assert (ran.code, ran.stdout.splitlines()[1:]) == (
        0,
        [
            "3 rounds for 5 brokers, at most 2 at once, rack by rack; no plan has fewer than 3",
            "ROUND  COUNT  RACK  BROKERS",
            "    1      2  b     2,5",
            "    2      1  c     3",
            "    3      2  a     1,4",
            "round 3 has the active controller",
            "before round 1:",
            "kafkakit --profile p broker restart-check 2,5",
            "after round 1, before round 2 (and so on with each round):",
            "kafkakit --profile p broker restart-gate 3",
            "after the last round, to see all back:",
            "kafkakit --profile p broker restart-gate 1,4",
        ],
    )
    data = restart(desk, "plan", "--brokers", "where rack = a", "--at-once", "2", "-o", "json").json
    assert (data["bound"], [r["brokers"] for r in data["rounds"]], data["blocked"]) == (1, [[1, 4]], [])
    assert restart(desk, "plan", "--rack", "b", "-o", "tsv").stdout == "1\t1\tb\t2\n2\t1\tb\t5\n"
    desk.cluster.kill(3)
    less = restart(desk, "plan", "--all", "-o", "json")
    assert (less.code, [r["brokers"] for r in less.json["rounds"]]) == (1, [[4]])
    assert {b["broker"]: b["reason"] for b in less.json["blocked"]} == {
        1: "t/0 (and 3 more) would have fewer in sync than its minimum",
        2: "t/0 (and 2 more) would have fewer in sync than its minimum",
        3: "it is down: start it first",
        5: "t/3 would have fewer in sync than its minimum",
    }
    for words in ((), ("--all", "--rack", "a"), ("--rack", "nosuch"), ("--brokers", "9"), ("--all", "--at-once", "0")):
        assert restart(desk, "plan", *words).code == 2, words


def test_restart_gate_opens_when_all_are_back_in_sync(desk: BrokerDesk) -> None:
    with_minimum(desk)
    assert restart(desk, "gate", "1").code == 0
    desk.cluster.kill(3)
    desk.cluster.fail_next("snapshot", TryLaterError("no broker answers"), times=2)

    def revive(_: float) -> None:
        if desk.clock.elapsed > 60:
            desk.cluster.revive(3)

    desk.clock.on_sleep.append(revive)
    ran = restart(desk, "gate", "1", "--timeout", "2m")
    assert (ran.code, ran.stdout.splitlines()[1]) == (0, "yes: broker 1 may go down now (4 partitions checked)")
    lines = ran.stderr.splitlines()
    assert lines[:2] == ["waiting: no broker answers", "waiting: broker 3 is not up"]
    assert all(line.startswith("waiting: 4 partitions would have too few replicas in sync") for line in lines[2:])
    assert len(lines) <= 3


def test_restart_gate_ends_with_75_within_its_limit(desk: BrokerDesk) -> None:
    with_minimum(desk)
    before = desk.clock.elapsed
    both = restart(desk, "gate", "1,2", "--timeout", "30s")
    assert (both.code, both.stdout) == (75, "")
    assert both.stderr.splitlines()[-1].startswith("error: the gate is closed: 3 partitions would have too few")
    assert 25 <= desk.clock.elapsed - before <= 40
    desk.cluster.fail_next("snapshot", TryLaterError("no broker answers"), times=1000)
    away = restart(desk, "gate", "1")
    assert (away.code, away.stderr.splitlines()) == (
        75,
        ["waiting: no broker answers", "error: the gate is closed: no broker answers"],
    )
    assert restart(desk, "gate", "x").code == 2


def test_what_may_rest_on_a_broker_that_does_not_answer_is_not_known(desk: BrokerDesk) -> None:
    with_minimum(desk)
    desk.cluster.hang(3)
    ran = restart(desk, "check", "1")
    assert (ran.code, ran.stdout.splitlines()[1:3]) == (
        75,
        [
            "not known: whether broker 1 may go down now",
            "not known: 4 partitions may rest on broker 3, which does not answer: t/0, t/1, t/2 and 1 more",
        ],
    )
    assert restart(desk, "check", "3").code == 0  # it is in need of one
    assert restart(desk, "check", "4").code == 0
    plan = restart(desk, "plan", "--rack", "c")
    assert (plan.code, "3  it does not answer" in plan.stdout) == (75, True)


def test_leaders_only_moves_leaderships_away_and_restore_brings_them_back(desk: BrokerDesk) -> None:
    before, words = desk.lists(), ("--leaders-only", "--ignore-warns", "--yes")
    refused = desk.home.run("--profile", "p", "broker", "drain", "1", "--leaders-only", "--to", "2", "--yes")
    assert (refused.code, refused.stderr.splitlines()[0]) == (
        2,
        "error: --leaders-only moves no data, --to cannot be given with it",
    )
    dry = desk.home.run("--profile", "p", "broker", "drain", "1", *words[:2], "--dry-run")
    assert (dry.code, dry.stdout.splitlines()[1]) == (0, "plan: move leaderships off broker 1")
    away = desk.home.run("--profile", "p", "broker", "drain", "1", *words)
    assert (away.code, away.stdout.splitlines()[1]) == (0, "broker 1 leads nothing"), away.stderr
    assert all(1 in desk.lists()[n] and desk.lists()[n][0] != 1 for n, replicas in before.items() if 1 in replicas)
    other = desk.home.run("--profile", "p", "broker", "rejoin", "1,2", "--yes")
    assert (
        "warning: leaderships that were moved off broker 1 are not back; to move them: "
        "kafkakit --profile p broker rejoin 1 --restore leaders --yes"
    ) in other.stderr.splitlines()
    back = desk.home.run("--profile", "p", "broker", "rejoin", "1", "--restore", "leaders", "--yes")
    assert (back.code, back.stdout.splitlines()[1]) == (0, "broker 1 has rejoined"), back.stderr
    assert desk.lists() == before
    again = desk.home.run("--profile", "p", "broker", "rejoin", "1", "--restore", "leaders", "--yes")
    assert (again.code, again.stdout.splitlines()[1]) == (0, "nothing to do: rejoin broker 1")


def test_cordon_marks_brokers_for_every_planner_and_uncordon_ends_it(desk: BrokerDesk) -> None:
    desk.cluster.static_settings["cordoned.log.dirs"] = ""
    p = ("--profile", "p")
    planned = desk.home.run(*p, "broker", "cordon", "4", "--reason", "disk swap", "--dry-run")
    assert (planned.code, desk.cluster.calls) == (0, [])
    assert "4  cordoned  *                  disk swap" in planned.stdout
    refused = desk.home.run(*p, "broker", "cordon", "4")
    assert (refused.code, desk.cluster.calls) == (2, [])
    ran = desk.home.run(*p, "broker", "cordon", "4", "--reason", "disk swap", "--yes")
    assert (ran.code, dict(desk.cluster.brokers[4].configs)) == (0, {"cordoned.log.dirs": "*"}), ran.stderr
    assert ran.stdout.splitlines()[-1] == "kafkakit --profile p broker uncordon 4"
    again = desk.home.run(*p, "broker", "cordon", "4", "--yes", "-o", "json")
    assert (again.json["brokers"][0]["verdict"], again.json["brokers"][0]["reason"]) == (
        "already cordoned",
        "disk swap",
    )
    told = "warning: broker 4 is cordoned (disk swap) and gets no new replica; to end that: kafkakit --profile p broker"
    for words in (
        ("topicmappr", "place", "new", "--partitions", "6", "--replication", "2"),
        ("topicmappr", "drain", "--brokers", "1"),
        ("broker", "drain", "1", "--dry-run", "--ingest-sample", "0"),
        ("topic", "create", "new", "--partitions", "6", "--replication", "2", "--dry-run"),
        ("topic", "alter", "t", "--partitions", "9", "--dry-run"),
        ("topicmappr", "rebuild", "--brokers", "-2", "--topics", ".*", "--force-rebuild"),
    ):
        found = desk.home.run(*p, *words, "-o", "json")
        assert f"{told} uncordon 4\n" in found.stderr, words
        assert found.code in (0, 4), found.stderr
        if words[0] == "topic":
            assert not any(4 in row["replicas"] for row in found.json["partitions"]), words
    for words, flag in (
        (("topicmappr", "place", "new", "--partitions", "1", "--brokers", "4,5"), "--brokers"),
        (("topicmappr", "drain", "--brokers", "1", "--to", "4"), "--to"),
        (("broker", "replace", "1", "--with", "4", "--dry-run"), "--with"),
    ):
        named = desk.home.run(*p, *words)
        assert (named.code, f"error: {flag}: broker 4 is cordoned\n" in named.stderr) == (2, True), named.stderr
        assert named.stderr.splitlines()[-1].endswith("or: kafkakit --profile p broker uncordon 4")
    taken = desk.home.run(*p, "snapshot", "--output-file", "s.json")
    assert taken.code == 0
    file = desk.home.run("topicmappr", "place", "n", "--partitions", "1", "--brokers", "4", "--snapshot", "s.json")
    assert (file.code, "broker 4 is cordoned" in file.stderr) == (2, True)
    back = desk.home.run(*p, "broker", "uncordon", "4", "--yes", "-o", "json")
    assert (back.code, back.json["brokers"][0]["verdict"], dict(desk.cluster.brokers[4].configs)) == (
        0,
        "uncordoned",
        {},
    )
    assert "cordoned" not in desk.home.run(*p, "topicmappr", "drain", "--brokers", "1").stderr


def test_a_plan_from_before_the_cordon_says_so_when_it_is_applied(desk: BrokerDesk) -> None:
    p = ("--profile", "p")
    made = desk.home.run(*p, "topicmappr", "drain", "--brokers", "1", "--to", "4", "--plan", "plan.json")
    assert made.code == 0, made.stderr
    assert desk.home.run(*p, "broker", "cordon", "4", "--reason", "disk swap", "--yes").code == 0
    ran = desk.home.run(*p, "reassign", "apply", "plan.json", "--yes", "--throttle", "none")
    (told,) = (line for line in ran.stderr.splitlines() if "cordoned" in line)
    assert told.startswith("warning: broker 4 is cordoned (disk swap), and the plan gives it ")
    assert told.endswith(": plan again if that is not wanted")
    assert ran.code == 0, ran.stderr
    (mark,) = desk.home.state.rglob("cordons/4/@value")
    mark.write_bytes(mark.read_bytes().splitlines()[0] + b"\n{}")
    again = desk.home.run(*p, "reassign", "apply", "plan.json", "--yes", "--throttle", "none")
    assert (again.code, "warning: it is not known which brokers are cordoned" in again.stderr) == (0, True), (
        again.stderr
    )


def test_cordon_of_an_old_or_dead_broker_is_the_mark_alone(desk: BrokerDesk) -> None:
    p = ("--profile", "p")
    old = desk.home.run(*p, "broker", "cordon", "5", "--yes")
    assert (old.code, dict(desk.cluster.brokers[5].configs)) == (0, {})
    assert "note: broker 5: Kafka before 4.3 is not told" in old.stdout
    desk.cluster.static_settings["cordoned.log.dirs"] = ""
    assert desk.home.run(*p, "broker", "cordon", "4", "--yes").code == 0
    desk.cluster.kill(4)
    desk.cluster.kill(3)
    dead = desk.home.run(*p, "broker", "cordon", "3", "--yes")
    assert (dead.code, "note: broker 3: the broker is down and Kafka is not told" in dead.stdout) == (0, True)
    kept = desk.home.run(*p, "broker", "uncordon", "3,4", "--yes")
    assert (kept.code, "broker 4 does not answer and stays cordoned" in kept.stderr) == (75, True)
    assert kept.stderr.splitlines()[-1] == "hint: when it is back: kafkakit --profile p broker uncordon 4"
    desk.cluster.revive(4)
    assert desk.home.run(*p, "broker", "uncordon", "4,5", "--yes").code == 0
    assert dict(desk.cluster.brokers[4].configs) == {}


def test_marks_that_cannot_be_read_are_said_and_never_taken_as_none(desk: BrokerDesk) -> None:
    p = ("--profile", "p")
    assert desk.home.run(*p, "broker", "cordon", "4", "--yes").code == 0
    (mark,) = desk.home.state.rglob("cordons/4/@value")
    line = mark.read_bytes().splitlines()[0]
    for damage in (b"{}", b'{"kafkakit":{"kind":"broker-cordon","schema":9}}', b"\xff", b"[" * 9000):
        mark.write_bytes(line + b"\n" + damage)
        ran = desk.home.run(*p, "topicmappr", "drain", "--brokers", "1")
        assert "warning: it is not known which brokers are cordoned, plans may use them: " in ran.stderr, damage
        assert desk.home.run(*p, "broker", "uncordon", "4", "--yes").code == 2, damage
    for reason in ("x" * 201, "two\nlines", "\x1b[2J"):
        assert desk.home.run(*p, "broker", "cordon", "4", "--reason", reason, "--yes").code == 2


def rebalance(state: str, cluster_id: str = "fake-cluster") -> str:
    """What kubectl prints of a Kafka and its KafkaRebalance."""
    strimzi = {"apiVersion": "kafka.strimzi.io/v1"}
    kafka = {"kind": "Kafka", "metadata": {"name": "prod"}, "status": {"clusterId": cluster_id}}
    moving = {
        "kind": "KafkaRebalance",
        "metadata": {"name": "nightly", "labels": {"strimzi.io/cluster": "prod"}},
        "status": {"conditions": [{"type": state, "status": "True"}]},
    }
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [strimzi | kafka, strimzi | moving]})


def put(desk: BrokerDesk, name: str, text: str) -> Path:
    desk.home.work.mkdir(parents=True, exist_ok=True)
    path = desk.home.work / name
    path.write_text(text)
    return path


def test_nothing_is_moved_while_an_operator_of_kubernetes_is_at_work(desk: BrokerDesk) -> None:
    file = put(desk, "ops.json", rebalance("Rebalancing"))
    told = "another tool is at work on this cluster: KafkaRebalance nightly is in state Rebalancing (ops.json, "
    pause = "kubectl annotate kafkarebalance nightly strimzi.io/rebalance=stop"
    for words in (
        ("drain", "1"),
        ("replace", "1", "--with", "4"),
        ("decommission", "1"),
        ("rejoin", "1"),
    ):
        refused = desk.run(*words, "--yes", "--operators", "ops.json")
        assert (refused.code, f"error: {told}" in refused.stderr, desk.cluster.calls) == (75, True, []), refused.stderr
        assert refused.stderr.splitlines()[-1].endswith(f": {pause}")
    planned = desk.run("drain", "1", "--dry-run", "--operators", "ops.json", "-o", "json")
    assert (planned.code, f"warning: {told}" in planned.stderr) == (0, True)
    piped = desk.run("drain", "1", "--yes", "--operators", "-", stdin=rebalance("Rebalancing"))
    assert (piped.code, "(stdin)" in piped.stderr) == (75, True)
    plan = desk.home.run("--profile", "p", "topicmappr", "drain", "--brokers", "1", "--plan", "plan.json")
    assert plan.code == 0, plan.stderr
    applied = desk.home.run(
        "--profile", "p", "reassign", "apply", "plan.json", "--yes", "--throttle", "none", "--operators", "ops.json"
    )
    assert (applied.code, desk.cluster.calls) == (75, [])
    late = desk.run("drain", "1", "--yes", "--operators", "ops.json", "--wait-for-operators", "30s")
    assert (late.code, late.stderr.count("waiting: KafkaRebalance nightly is in state Rebalancing\n")) == (75, 1)
    other = put(desk, "other.json", rebalance("Ready", "xyz"))
    assert "Kafka prod is cluster xyz, not fake-cluster" in desk.run("drain", "1", "--operators", str(other)).stderr
    wait = ("--wait-for-operators", "5s")
    for wrong in (wait, ("--operators", "-", *wait), ("--operators", "no")):
        assert desk.run("drain", "1", "--yes", *wrong).code == 2
    old = desk.clock.now().timestamp() - 3600
    os.utime(other, (old, old))
    other.write_text(rebalance("Ready"))
    os.utime(other, (old, old))
    stale = desk.run("drain", "1", "--dry-run", "--operators", str(other))
    assert (stale.code, "it does not show what began since" in stale.stderr) == (0, True), stale.stderr
    began = desk.clock.elapsed

    def finish(_: float) -> None:
        if desk.clock.elapsed > began + 20:
            file.write_text(rebalance("Ready"))

    desk.clock.on_sleep.append(finish)
    done = desk.run(
        "drain", "1", "--yes", "--throttle", "5MB", "--operators", "ops.json", "--wait-for-operators", "10m"
    )
    assert (done.code, "waiting: KafkaRebalance nightly" in done.stderr) == (0, True), done.stderr
    assert all(1 not in replicas for replicas in desk.lists().values())


def test_a_drain_is_printed_as_what_strimzi_accepts(desk: BrokerDesk) -> None:
    for verb in ("drain", "decommission"):
        ran = desk.run(verb, "4,5", "--strimzi", "kafka/prod/brokers")
        assert (ran.code, desk.cluster.calls) == (0, []), ran.stderr
        assert "  mode: remove-brokers\n  brokers: [4, 5]\n" in ran.stdout
        assert "kafkakit --profile p broker cordon 4,5\n" in ran.stderr
        assert ran.stderr.splitlines()[-1] == (
            "kubectl annotate kafkanodepool brokers -n kafka --overwrite 'strimzi.io/remove-node-ids=[4,5]'"
        )
    assert desk.run("drain", "4", "--strimzi", "no pool").code == 2
