"""`kafkakit reassign apply MAP`: Kafka's reassignment JSON of any tool, carried out through a plan."""

import json
from pathlib import Path

import pytest

from kafkakit.core.model import TopicPartition
from kafkakit.core.plan_rules import read_plan
from kafkakit.wiring import read_input
from tests.cli.test_reassign import ReassignDesk
from tests.rigs.command_line import Ran
from tests.rigs.printed_commands import functions_reached
from tests.rigs.printed_repairs import command_in, hint_of

MB = 1_000_000
MapRow = tuple[str, int, tuple[int, ...]]


class MapDesk(ReassignDesk):
    """A desk whose file is a reassignment map."""

    def map(self, *rows: MapRow, version: int = 1, **more: object) -> None:
        partitions = [{"topic": t, "partition": p, "replicas": list(new), **more} for t, p, new in rows]
        self.path.write_text(json.dumps({"version": version, "partitions": partitions}, indent=2), encoding="utf-8")

    def plans(self) -> list[Path]:
        return sorted((self.home.state / "plans").rglob("*.json"))

    def of_plan(self, verb: str, *words: str) -> Ran:
        (plan,) = self.plans()
        return self.home.run("--profile", "p", "reassign", verb, str(plan), *words)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MapDesk:
    return MapDesk(tmp_path).sit(monkeypatch)


def test_a_map_is_audited_applied_verified_and_rolled_back(desk: MapDesk) -> None:
    desk.map(("t", 0, (3, 2)), ("t", 1, (2, 1)))
    ran = desk.run("apply", "--yes", "--throttle", "5MB")
    assert (ran.code, desk.lists()) == (0, [(3, 2), (2, 1)])
    assert f"Audit of {desk.path} for cluster fake-cluster" in ran.stderr
    assert "1 move replicas, 0 change the order only, 1 change nothing" in ran.stderr
    assert "throttle: 5 MB/s per broker" in ran.stderr
    assert ran.stdout.startswith("applied: 1 of 1 planned partitions are in place and in sync\n")
    (plan,) = desk.plans()
    assert f"the map's plan is {plan}; to take it back: kafkakit --profile p reassign rollback {plan}" in ran.stderr
    assert [e.replicas for e in read_plan(str(plan), read_input).rollback.partitions] == [(1, 2)]
    assert desk.of_plan("verify").code == 0
    again = desk.run("apply", "--yes")
    assert (again.code, again.stdout.splitlines()[0].split(":")[0], desk.plans()) == (0, "already applied", [plan])
    assert desk.of_plan("rollback", "--yes", "--ingest-sample", "0").code == 0
    assert desk.lists() == [(1, 2), (2, 1)]
    assert not any(b.configs for b in desk.cluster.brokers.values())


def test_a_stopped_map_resumes_when_it_is_applied_again_and_goes_back_to_the_lists_before_it(desk: MapDesk) -> None:
    desk.map(("t", 0, (3, 2)), ("t", 1, (3, 1)))
    desk.cluster.replication.line_rate = 0.0
    desk.press()
    stopped = desk.run("apply", "--yes", "--throttle", "5MB")
    (plan,) = desk.plans()
    assert stopped.code == 130
    assert f"\nkafkakit --profile p reassign apply {plan} --yes" in stopped.stderr
    desk.map(("t", 1, (3, 1)), ("t", 0, (3, 2)))  # the same map, written another way
    desk.cluster.replication.line_rate = 10.0 * MB
    again = desk.run("apply", "--yes")
    assert (again.code, desk.lists(), desk.plans()) == (0, [(3, 2), (3, 1)], [plan])
    assert f"a run of this map is unfinished, its plan is {plan}" in again.stderr
    assert desk.of_plan("rollback", "--yes", "--ingest-sample", "0").code == 0
    assert desk.lists() == [(1, 2), (2, 1)]


@pytest.mark.parametrize("words", [("--dry-run",), ()])
def test_what_is_not_confirmed_leaves_neither_plan_nor_journal(desk: MapDesk, words: tuple[str, ...]) -> None:
    desk.map(("t", 0, (3, 2)))
    ran = desk.run("apply", *words)
    assert ran.code == (0 if words else 2)
    assert "Audit of" in ran.stderr
    assert ("pass --yes" in ran.stderr) == (not words)
    assert (desk.plans(), desk.journals(), desk.cluster.calls) == ([], [], [])


def test_a_map_comes_from_stdin(desk: MapDesk) -> None:
    desk.map(("t", 0, (3, 2)))
    text = desk.path.read_text(encoding="utf-8")
    ran = desk.home.run("--profile", "p", "reassign", "apply", "-", "--yes", "--ingest-sample", "0", stdin=text)
    assert (ran.code, desk.lists()) == (0, [(3, 2), (2, 1)])
    assert "Audit of stdin" in ran.stderr


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        ([("t", 7, (1, 2))], "unknown-partition"),
        ([("other", 0, (1, 2))], "unknown-partition"),
        ([("t", 0, ())], "empty-list"),
        ([("t", 0, (3, 3))], "repeated-broker"),
        ([("t", 0, (1, 9))], "unknown-broker"),
        ([("t", 0, (3, 2)), ("t", 0, (1, 2))], "listed-twice"),
        ([("t", -1, (1, 2))], "unreadable"),
        ([("t\x1b[31m", 0, (1, 2))], "unreadable"),
    ],
)
def test_a_map_that_kafka_would_refuse_is_refused_whole(desk: MapDesk, rows: list[MapRow], rule: str) -> None:
    desk.map(("t", 1, (3, 1)), *rows)
    ran = desk.run("apply", "--yes", "--allow-findings")
    assert (ran.code, desk.cluster.calls, desk.plans()) == (2, [], [])
    assert f"error: the map cannot be carried out, its audit found: {rule}" in ran.stderr
    assert "\x1b" not in ran.stderr


def test_copies_on_a_dead_broker_are_refused(desk: MapDesk) -> None:
    desk.cluster.kill(3)
    desk.map(("t", 0, (3, 2)))
    ran = desk.run("apply", "--yes")
    assert (ran.code, desk.cluster.calls) == (2, [])
    assert "its audit found: dead-broker" in ran.stderr


def test_a_map_of_another_version_is_refused(desk: MapDesk) -> None:
    desk.map(("t", 0, (3, 2)), version=2)
    assert "its audit found: version" in desk.run("apply", "--yes").stderr


def test_a_map_that_kafka_takes_and_rules_do_not_needs_a_word(desk: MapDesk) -> None:
    desk.cluster.topics["t"].configs["min.insync.replicas"] = "2"
    desk.map(("t", 0, (3,)))
    refused = desk.run("apply", "--yes")
    assert (refused.code, desk.cluster.calls) == (2, [])
    assert "error: the audit of the map found errors: below-min-isr" in refused.stderr
    del desk.cluster.topics["t"].configs["min.insync.replicas"]
    desk.cluster.own_static[2] = {"min.insync.replicas": "2"}  # what one broker uses for topics without their own
    told = desk.run("apply", "--yes").stderr
    assert "error: the audit of the map found errors: below-min-isr" in told
    assert "1 on 1, 3, 2 on 2; taken as 2" in told
    assert desk.run("apply", "--yes", "--allow-findings").code == 0
    assert desk.lists() == [(3,), (2, 1)]


def test_a_partition_that_moves_has_no_list_to_go_back_to(desk: MapDesk) -> None:
    desk.cluster.replication.line_rate = 0.0
    desk.cluster.reassign({TopicPartition("t", 0): (3, 1)})
    desk.map(("t", 0, (3, 2)))
    calls = len(desk.cluster.calls)
    ran = desk.run("apply", "--yes")
    assert (ran.code, len(desk.cluster.calls)) == (75, calls)
    assert "partitions of the map are being reassigned, there is no list to go back to: t-0" in ran.stderr
    desk.cluster.kill(3)
    endless = desk.run("apply", "--yes")
    assert (endless.code, len(desk.cluster.calls)) == (2, calls)
    assert "reassign abort --partition t-0" in endless.stderr


@pytest.mark.parametrize("verb", ["resume", "rollback", "verify", "pause"])
def test_other_commands_want_the_plan(desk: MapDesk, verb: str) -> None:
    desk.map(("t", 0, (3, 2)))
    ran = desk.run(verb)
    assert ran.code == 2
    assert "is a reassignment map, not a plan\nhint: `kafkakit " in ran.stderr
    assert "reassign apply` makes a plan of it" in ran.stderr


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"partitions": 3}', '{"partitions": [', "[" * 100_000])
def test_what_is_neither_plan_nor_map_is_a_usage_error(desk: MapDesk, text: str) -> None:
    desk.path.write_text(text, encoding="utf-8")
    ran = desk.run("apply", "--yes")
    assert (ran.code, ran.stdout, ran.stderr.count("error: ")) == (2, "", 1)
    assert "Traceback" not in ran.stderr


def test_log_dirs_of_a_map_are_kept(desk: MapDesk) -> None:
    for broker in (2, 3):
        desk.cluster.brokers[broker].dirs[f"/data/{broker}/1"] = 10**12
    desk.map(("t", 0, (3, 2)), log_dirs=["/data/3/1", "/data/2/1"])
    assert desk.run("apply", "--yes").code == 0
    partition = desk.cluster.topics["t"].partitions[0]
    assert ((tuple(partition.replicas)), partition.dirs) == ((3, 2), {3: "/data/3/1", 2: "/data/2/1"})
    assert desk.of_plan("rollback", "--yes", "--ingest-sample", "0").code == 0
    assert partition.dirs[2] == "/data/2/0"


@pytest.mark.parametrize("dirs", [["/nowhere", "any"], ["any"]])
def test_log_dirs_that_do_not_exist_or_fit_are_refused(desk: MapDesk, dirs: list[str]) -> None:
    desk.map(("t", 0, (3, 2)), log_dirs=dirs)
    ran = desk.run("apply", "--yes")
    assert (ran.code, desk.cluster.calls) == (2, [])
    assert "log-dir" in ran.stderr.splitlines()[-2]


def test_the_audit_that_a_refused_map_names_shows_its_entries(desk: MapDesk) -> None:
    desk.map(("t", 0, (3, 9)), ("t", 1, (2, 1)))
    with functions_reached() as reached:
        ran = desk.run("apply", "--yes")
    assert "topicmappr/decide/audit.py:_correct" in reached
    words = command_in(hint_of(ran))
    assert words == ["--profile", "p", "topicmappr", "audit", str(desk.path)]
    judged = desk.home.run(*words, "-o", "json")
    assert [(f["rule"], f["subjects"]) for f in judged.json["findings"] if f["severity"] == "error"] == [
        ("unknown-broker", ["t-0"])
    ]
