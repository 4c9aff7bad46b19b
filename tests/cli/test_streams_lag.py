"""`kafkakit streams lag` on a cluster in memory: tables, verdicts, exit codes, and what is said where."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

import pytest

from kafkakit.core.cluster_facts import GroupType, ItemError, ShareOffset
from kafkakit.core.errors import ConnectRefusedError
from kafkakit.core.model import TopicPartition
from kafkakit.execution.act.journal_files import DiskFile
from kafkakit.execution.act.run_journal import RunJournal, journal_path
from kafkakit.execution.decide.journal import JournalSubject
from kafkakit.streams.lag.act.monitor import MonitorPace
from kafkakit.streams.lag.decide.measure.ends import TopicLogSettings
from kafkakit.streams.lag.decide.measure.table import LagStatus
from tests.clusters.streams_batches import Rec, batch, commit
from tests.fakes.admin import FakeClock, FakeCluster
from tests.fakes.groups import FakeGroups
from tests.fakes.log_reader import FakeLogReader
from tests.rigs.command_line import Home, Ran
from tests.rigs.printed_repairs import command_in, hint_of

OFFSETS = "__consumer_offsets"
NOW_MS = 1_795_000_000_000


class Fleet:
    """Clusters in memory by the address that their profiles name."""

    def __init__(self) -> None:
        self.readers: dict[str, FakeLogReader] = {}

    def add(self, name: str) -> FakeLogReader:
        reader = self.readers[f"{name}:9092"] = FakeLogReader(f"id-{name}")
        reader.add_topic(OFFSETS, 2)
        return reader


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    made = Fleet()

    def open_log(settings: object) -> FakeLogReader:
        return made.readers[settings.bootstrap_servers]  # type: ignore[attr-defined]

    with (
        mock.patch("kafkakit.wiring.open_log", open_log),
        mock.patch("kafkakit.wiring.open_groups", side_effect=lambda *_, **__: FakeGroups()),
        mock.patch("kafkakit.streams.lag.act.fleet.ONCE_PACE", MonitorPace(wait_ms=10, ends_s=0.02, records_s=0.01)),
        mock.patch(
            "kafkakit.streams.lag.act.reading.read_topic_facts",
            lambda open_admin, topics: {t: TopicLogSettings() for t in topics},
        ),
    ):
        yield made


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path)
    found.write_config(
        "profile: a\nprofiles:\n  a: {bootstrap_server: 'a:9092'}\n  b: {bootstrap_server: 'b:9092'}\n"
        "  pinned: {bootstrap_server: 'a:9092', cluster_id: another}\n"
    )
    return found


def fill(reader: FakeLogReader, group: str, committed: int, end: int, topic: str = "orders") -> None:
    if topic not in reader.places():
        reader.add_topic(topic, 1)
    key = TopicPartition(topic, 0)
    missing = end - reader.log(key).end
    if missing > 0:
        reader.append(key, batch(0, [Rec(b"k", b"v")] * missing, base_ms=NOW_MS))
    reader.append(TopicPartition(OFFSETS, 0), batch(0, [commit(group, topic, 0, committed, committed_ms=NOW_MS)]))


def test_once_shows_a_line_for_each_group_and_topic(fleet: Fleet, home: Home) -> None:
    reader = fleet.add("a")
    fill(reader, "g", 4, 10)
    fill(reader, "h", 10, 10)
    ran = home.run("streams", "lag", "once")
    assert ran.code == 0, ran.stderr
    named, head, *lines = ran.stdout.splitlines()
    assert re.fullmatch(r"cluster \S+ \(profile a\)", named)
    assert head.split() == [
        "GROUP", "TOPIC", "PARTITIONS", "STATUS", "LAG", "TIME-LAG", "ERROR-BOUND", "MEASURED-FROM", "LIVE-LAG", "ETA",
        "AS-OF",
    ]  # fmt: skip
    assert {line.split()[0]: line.split()[4] for line in lines} == {"g": "6", "h": "0"}
    assert ran.stderr == "reading commits\n"


def test_json_and_tsv_hold_the_same(fleet: Fleet, home: Home) -> None:
    fill(fleet.add("a"), "g", 4, 10)
    (line,) = home.run("streams", "lag", "once", "-o", "json").json["lines"]
    assert (line["group"], line["topic"], line["lag"], line["source"]) == ("g", "orders", 6, "record")
    assert line["low_ms"] <= line["time_lag_ms"] <= line["high_ms"]
    ran = home.run("streams", "lag", "once", "-o", "tsv", "--by", "partition")
    assert ran.stdout.split("\t")[:5] == ["a", "g", "orders", "-", "0"]
    ran = home.run("streams", "lag", "once", "-o", "yaml")
    assert "group: g" in ran.stdout


@pytest.mark.parametrize(
    ("words", "groups"),
    [
        (["g*"], ["g1", "g2"]),
        (["--group", "h"], ["h"]),
        (["--topic", "pay*"], ["h"]),
        (["nobody*"], []),
        (["--topics", "nothing.*"], []),
        (["--sort", "lag"], ["h", "g2", "g1"]),
        (["--sort", "name"], ["g1", "g2", "h"]),
        (["--sort", "name", "--top", "1"], ["g1"]),
    ],
)
def test_globs_and_orders(fleet: Fleet, home: Home, words: list[str], groups: list[str]) -> None:
    reader = fleet.add("a")
    fill(reader, "g1", 9, 10)
    fill(reader, "g2", 5, 10)
    fill(reader, "h", 0, 20, topic="payments")
    ran = home.run("streams", "lag", "once", *words, "-o", "json")
    assert ran.code == 0, ran.stderr
    found = [line["group"] for line in ran.json["lines"]]
    assert found == groups if "--sort" in words else sorted(found) == groups


@pytest.mark.parametrize("command", ["once", "check", "watch"])
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nobody"], "group nobody does not exist"),
        (["g", "gg"], "group gg does not exist"),
        (["--group", "nobody"], "group nobody does not exist"),
        (["--topic", "order"], "topic order does not exist; did you mean orders?"),
        (["--topics", "orders,no.such"], "topic no.such does not exist"),
    ],
)
def test_a_name_that_does_not_exist_is_exit_2(
    fleet: Fleet, home: Home, command: str, words: list[str], told: str
) -> None:
    fill(fleet.add("a"), "g", 10, 10)
    fill(fleet.add("b"), "h", 10, 10)
    limit = ["--count", "1"] if command == "watch" else []
    ran = run_with(FakeGroups(), home, command, "--clusters", "a,b", *limit, *words)
    assert (ran.code, ran.stdout) == (2, ""), ran.stderr
    assert f"error: {told}" in ran.stderr


def test_what_has_no_commits_exists(fleet: Fleet, home: Home) -> None:
    """And what only one of the clusters has; nothing is claimed while one of them is away."""
    fill(fleet.add("a"), "g", 10, 10)
    fleet.readers["a:9092"].add_topic("empty.topic", 1)
    groups = FakeGroups()
    groups.join("new", TopicPartition("orders", 0))
    for words in (["g", "new"], ["--topic", "empty.topic"], ["--topics", "empty.topic"]):
        assert run_with(groups, home, "once", *words).code == 0
    fill(fleet.add("b"), "h", 10, 10)
    assert run_with(groups, home, "once", "--clusters", "a,b", "h").code == 0
    fleet.readers["b:9092"].unreachable = True
    ran = run_with(groups, home, "once", "--clusters", "a,b", "--wait", "1s", "nobody")
    assert ran.code == 75


def test_a_name_that_does_not_exist_is_unknown_to_nagios(fleet: Fleet, home: Home) -> None:
    fill(fleet.add("a"), "g", 10, 10)
    ran = run_with(FakeGroups(), home, "check", "nobody", "--nagios")
    assert (ran.code, ran.stdout) == (3, "LAG UNKNOWN - group nobody does not exist\n")


def test_two_clusters_in_one_table_and_joined_by_stream(fleet: Fleet, home: Home) -> None:
    fill(fleet.add("a"), "g", 4, 10)
    fill(fleet.add("b"), "g", 1, 10)
    ran = home.run("streams", "lag", "once", "--clusters", "a,b")
    assert ran.code == 0, ran.stderr
    assert ran.stdout.splitlines()[0].startswith("CLUSTER")
    ran = home.run("streams", "lag", "once", "--clusters", "a,b", "--by", "stream", "-o", "json")
    assert [(line["stream"], line["lag"]) for line in ran.json["lines"]] == [("orders", 15)]


@pytest.mark.parametrize("command", [("once",), ("check", "--crit-lag", "10")])
def test_a_cluster_that_refuses_the_login_is_not_one_to_try_later(
    command: tuple[str, ...], fleet: Fleet, home: Home
) -> None:
    fleet.add("a").refusal = ConnectRefusedError("cannot connect: login refused (PLAIN, user x) by a:9092")
    ran = home.run("streams", "lag", *command, "--clusters", "a", "--wait", "1s")
    assert ran.code == 2
    assert "login refused (PLAIN, user x)" in ran.stdout + ran.stderr
    if command[0] == "once":
        assert "the lag of a is not known: cannot connect: login refused" in ran.stderr
        assert command_in(hint_of(ran)) == ["--profile", "a", "doctor"]


def test_a_cluster_that_is_away_does_not_hide_the_others(fleet: Fleet, home: Home) -> None:
    fill(fleet.add("a"), "g", 4, 10)
    fleet.add("b").unreachable = True
    ran = home.run("streams", "lag", "once", "--clusters", "a,b", "--wait", "1s", "-o", "json")
    assert ran.code == 75
    assert [line["cluster"] for line in ran.json["lines"]] == ["a"]
    assert "1 of 2 clusters are not known; b: cannot connect to the fake cluster" in ran.stderr
    assert command_in(hint_of(ran)) == ["--profile", "b", "doctor"]
    ran = home.run("streams", "lag", "once", "--clusters", "a,b", "--wait", "1s")
    assert "b: connecting: cannot connect to the fake cluster" in ran.stdout


def test_a_profile_that_pins_another_cluster_is_refused(fleet: Fleet, home: Home) -> None:
    fill(fleet.add("a"), "g", 4, 10)
    ran = home.run("--profile", "pinned", "streams", "lag", "once")
    assert ran.code == 2
    assert ran.stdout == ""
    assert "pins cluster another, but the address answers as id-a" in ran.stderr


@pytest.mark.parametrize(
    ("words", "code", "verdict"),
    [
        (["--crit-lag", "10"], 0, "OK"),
        (["--warn-lag", "5"], 1, "WARNING"),
        (["--crit-lag", "5"], 1, "CRITICAL"),
        (["--crit-time", "1s"], 1, "CRITICAL"),
        (["--nagios", "--crit-lag", "10"], 0, "OK"),
        (["--nagios", "--warn-lag", "5"], 1, "WARNING"),
        (["--nagios", "--crit-lag", "5"], 2, "CRITICAL"),
        (["--nagios", "nobody*"], 3, "UNKNOWN"),
        (["nobody*"], 75, "UNKNOWN"),
    ],
)
def test_check_is_one_line_with_performance_data(
    fleet: Fleet, home: Home, words: list[str], code: int, verdict: str
) -> None:
    fill(fleet.add("a"), "g", 4, 10)
    ran = home.run("streams", "lag", "check", *words, "--crit-status", "none", "--warn-status", "none")
    assert ran.code == code, ran.stdout + ran.stderr
    assert ran.stdout.startswith(f"LAG {verdict} - ")
    assert ran.stdout.count("\n") == 1
    assert " | " in ran.stdout


def test_check_knows_every_status(fleet: Fleet, home: Home) -> None:
    fill(fleet.add("a"), "g", 10, 10)
    every = ",".join(status.word for status in LagStatus)
    assert home.run("streams", "lag", "check", "--crit-status", every).code == 1
    ran = home.run("streams", "lag", "check", "--crit-status", "late")
    assert ran.code == 2
    assert "'late' is not a status" in ran.stderr


def test_check_finds_a_commit_beyond_the_end_by_its_defaults(fleet: Fleet, home: Home) -> None:
    fill(fleet.add("a"), "g", 1_000, 10)
    ran = home.run("streams", "lag", "check")
    told = "LAG CRITICAL - a g orders/0: status ahead: the commit is beyond the end of the log"
    assert (ran.code, ran.stdout.partition(" | ")[0]) == (1, told)
    assert home.run("streams", "lag", "check", "--crit-status", "none", "--warn-status", "none").code == 75
    (line,) = home.run("streams", "lag", "once", "-o", "json").json["lines"]
    assert (line["status"], line["lag"], line["flags"]) == ("ahead", None, ["ahead"])


def test_check_finds_a_group_that_has_stopped_in_every_run(fleet: Fleet, home: Home) -> None:
    """As from cron; a look of `once` between two checks changes nothing."""
    fill(fleet.add("a"), "g", 5, 20)
    found = []
    for _ in range(3):
        ran = home.run("streams", "lag", "check")
        found.append((ran.code, ran.stdout.partition(" | ")[0]))
        assert home.run("streams", "lag", "once", "-o", "json").json["lines"][0]["status"] == "stopped"
    assert set(found) == {(1, "LAG CRITICAL - a g orders/0: status stopped, judged over 90s")}


def test_check_of_a_cluster_that_is_away_is_unknown(fleet: Fleet, home: Home) -> None:
    fill(fleet.add("a"), "g", 4, 10)
    fleet.add("b").unreachable = True
    words = ["streams", "lag", "check", "--clusters", "a,b", "--wait", "1s", "--warn-lag", "5", "--crit-status", "none"]
    ran = home.run(*words, "--nagios")
    assert (ran.code, ran.stdout.split(":")[0]) == (3, "LAG UNKNOWN - b")
    ran = home.run(*words, "--crit-lag", "5", "-o", "json")
    assert ran.code == 1, "what is critical is critical, whatever else is not known"
    assert (ran.json["verdict"], len(ran.json["breaches"])) == ("critical", 1)


def test_every_failure_is_three_for_a_monitoring_plugin(fleet: Fleet, home: Home) -> None:
    fleet.add("a")
    ran = home.run("streams", "lag", "check", "--clusters", "nowhere", "--nagios")
    assert ran.code == 3
    assert ran.stdout.startswith("LAG UNKNOWN - ")


def test_watch_tells_changes_line_by_line_and_ends_after_a_count(fleet: Fleet, home: Home) -> None:
    fill(fleet.add("a"), "g", 4, 10)
    ran = home.run("streams", "lag", "watch", "--count", "2", "--interval", "100ms", "-o", "json")
    assert ran.code == 0, ran.stderr
    assert json.loads(ran.stdout)["kafkakit"]["command"] == "streams lag watch"
    assert len(ran.json["lines"]) == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["once", "--clusters", ","], "names no profile"),
        (["once", "--clusters", "a,a"], "names a profile twice"),
        (["once", "--wait", "soon"], "not a duration"),
        (["once", "--skew", "-1s"], "not a duration"),
        (["serve", "--listen", "nowhere"], "not an address to listen on"),
        (["serve", "--dogstatsd", "x"], "not the address of an agent"),
        (["check", "--crit-lag", "many"], "not a number of records"),
    ],
)
def test_wrong_words_are_told_before_anything_is_read(fleet: Fleet, home: Home, words: list[str], told: str) -> None:
    fleet.add("a")
    ran = home.run("streams", "lag", *words)
    assert ran.code == 2, ran.stdout
    assert told in ran.stderr
    assert ran.stdout == ""


@pytest.fixture
def share_groups(monkeypatch: pytest.MonkeyPatch) -> FakeGroups:
    groups = FakeGroups()
    monkeypatch.setattr("kafkakit.wiring.open_groups", lambda settings, *, read_only: groups)
    monkeypatch.setattr("kafkakit.wiring.open_admin", lambda settings, *, read_only: FakeCluster({1: "a"}))
    return groups


def test_share_groups_are_shown_as_their_coordinators_know_them(share_groups: FakeGroups, home: Home) -> None:
    refused = ItemError(name="TopicAuthorizationFailedError")
    share_groups.add_group("orders-mail", kind=GroupType.SHARE).shares = (
        ShareOffset(place=TopicPartition("orders", 0), start=7, lag=3),
        ShareOffset(place=TopicPartition("orders", 1), start=None, lag=None),
        ShareOffset(place=TopicPartition("orders", 2), start=None, lag=None, error=refused),
    )
    share_groups.add_group("orders-new", kind=GroupType.SHARE)
    share_groups.add_group("orders-classic")
    share_groups.add_group("other", kind=GroupType.SHARE)
    ran = home.run("streams", "lag", "share-groups", "orders-*")
    assert ran.code == 0, ran.stderr
    assert [line.split() for line in ran.stdout.splitlines()[1:]] == [
        ["GROUP", "STATE", "TOPIC", "PARTITION", "START-OFFSET", "LAG", "ERROR"],
        ["orders-mail", "empty", "orders", "0", "7", "3", "-"],
        ["orders-mail", "empty", "orders", "1", "-", "-", "-"],
        ["orders-mail", "empty", "orders", "2", "-", "-", "TopicAuthorizationFailedError"],
        ["orders-new", "empty", "-", "-", "-", "-", "-"],
    ]
    found = home.run("streams", "lag", "share-groups", "-o", "json").json["groups"]
    assert [one["group"] for one in found] == ["orders-mail", "orders-new", "other"]
    assert found[0]["partitions"][0] == {"topic": "orders", "partition": 0, "start_offset": 7, "lag": 3, "error": None}
    ran = home.run("streams", "lag", "share-groups", "orders-mall")
    assert (ran.code, ran.stdout) == (2, "")
    assert "group orders-mall does not exist; did you mean orders-mail?" in ran.stderr
    ran = home.run("streams", "lag", "share-groups", "orders-classic")
    assert ran.code == 2
    assert "group orders-classic is not a share group, but a classic group" in ran.stderr
    assert command_in(hint_of(ran))[2:] == ["streams", "lag", "once", "orders-classic"]


def test_share_groups_whose_coordinator_is_away_are_named(share_groups: FakeGroups, home: Home) -> None:
    assert home.run("streams", "lag", "share-groups").stdout.splitlines()[-1] == "no share groups found"
    share_groups.add_group("a", kind=GroupType.SHARE)
    share_groups.lost.add("a")
    ran = home.run("streams", "lag", "share-groups")
    assert ran.code == 75
    assert "broker 1 does not answer" in ran.stderr


def members_of(fleet: Fleet) -> FakeGroups:
    """Groups g (two members with a partition each, and an idle one), h (no member), s (a share group) and lost."""
    reader, groups = fleet.add("a"), FakeGroups()
    for name in ("g", "h", "s", "lost"):
        fill(reader, name, 4, 10)
    groups.join("g", TopicPartition("orders", 0), client_id="reader")
    groups.join("g", TopicPartition("payments", 0), client_id="second")
    groups.join("g", client_id="spare")
    groups.add_group("h")
    groups.add_group("s", kind=GroupType.SHARE)
    groups.lost.add("lost")
    return groups


def run_with(groups: FakeGroups, home: Home, *words: str) -> Ran:
    with mock.patch("kafkakit.wiring.open_groups", return_value=groups):
        return home.run("streams", "lag", *words)


def test_members_stand_beside_partitions_and_are_counted_for_groups(fleet: Fleet, home: Home) -> None:
    groups = members_of(fleet)
    ran = run_with(groups, home, "once", "--members", "--by", "partition", "--sort", "name")
    assert ran.code == 0, ran.stderr
    _, head, *lines = ran.stdout.splitlines()
    assert head.split()[:5] == ["GROUP", "TOPIC", "PARTITION", "CLIENT", "HOST"]
    assert re.split(r"  +", lines[0])[3:5] == ["reader", "/127.0.0.1"]
    assert re.split(r"  +", lines[1])[:5] == ["g", "payments", "0", "second", "/127.0.0.1"]
    assert re.split(r"  +", lines[2])[3:5] == ["no member", "-"]
    assert [re.split(r"  +", line)[3] for line in lines[3:5]] == ["?", "?"]
    assert "a: members of lost are not known: CoordinatorNotAvailableError" in ran.stdout
    assert "a: members of s are not known: not listed for share groups" in ran.stdout
    assert groups.closed
    for level, at, cell in (("group", 1, "3 (1 idle)"), ("group-topic", 2, "1")):
        _, head, line = run_with(groups, home, "once", "--members", "g", "--by", level).stdout.splitlines()[:3]
        assert (head.split()[at], re.split(r"  +", line)[at]) == ("MEMBERS", cell)


def test_all_members_are_in_data(fleet: Fleet, home: Home) -> None:
    groups = members_of(fleet)
    ran = run_with(groups, home, "once", "--members", "g", "--by", "group", "-o", "json")
    assert [(line["group"], line["members"], line["idle_members"]) for line in ran.json["lines"]] == [("g", 3, 1)]
    (group,) = ran.json["groups"]
    assert (group["state"], group["type"], group["coordinator"]) == ("stable", "classic", 1)
    assert [(one["client_id"], one["partitions"]) for one in group["members"]] == [
        ("reader", [["orders", 0]]), ("second", [["payments", 0]]), ("spare", []),
    ]  # fmt: skip
    ran = run_with(groups, home, "once", "--members", "g", "h", "--by", "partition", "--sort", "name", "-o", "tsv")
    assert [line.split("\t")[-4:] for line in ran.stdout.splitlines()] == [
        ["yes", "reader-0", "reader", "/127.0.0.1"], ["yes", "second-1", "second", "/127.0.0.1"],
        ["yes", "-", "-", "-"],
    ]  # fmt: skip


def test_groups_that_cannot_be_described_do_not_fail_the_command(fleet: Fleet, home: Home) -> None:
    groups = members_of(fleet)
    groups.unreachable = True
    ran = run_with(groups, home, "once", "--members", "--by", "group")
    assert ran.code == 0, ran.stderr
    assert "a: members of g, h, lost, s are not known: " in ran.stdout
    ran = run_with(groups, home, "once", "--members", "--by", "topic")
    assert (ran.code, ran.stdout) == (2, "")
    assert "--members needs lines of one group" in ran.stderr


LIMITS = """\
owners:
  billing: [bill, 'invoice-*']
  orders: g*
rules:
  - {group: g1, crit_lag: none}
  - {owner: orders, topic: 'pay*', crit_lag: 100}
  - {owner: billing, crit_lag: none, warn_lag: 3}
"""


def test_check_takes_limits_by_rule_and_names_owners(fleet: Fleet, home: Home) -> None:
    reader = fleet.add("a")
    for group in ("g1", "g2", "invoice-1", "other"):
        fill(reader, group, 4, 10)
    fill(reader, "g2", 0, 20, topic="payments")
    path = home.write_config(LIMITS, "limits.yaml")
    words = ["streams", "lag", "check", "--crit-status", "none", "--warn-status", "none", "--crit-lag", "5"]
    ran = home.run(*words, "--limits", str(path), "-o", "json")
    assert ran.code == 1, ran.stderr
    assert [(b["group"], b["topic"], b["verdict"], b["owner"]) for b in ran.json["breaches"]] == [
        ("g2", "orders", "critical", "orders"),
        ("other", "orders", "critical", None),
        ("invoice-1", "orders", "warning", "billing"),
    ]
    assert ran.json["owners"] == [
        {"owner": None, "verdict": "critical", "breaches": 1},
        {"owner": "billing", "verdict": "warning", "breaches": 1},
        {"owner": "orders", "verdict": "critical", "breaches": 1},
    ]
    assert ran.json["summary"].startswith("LAG CRITICAL - a g2 orders (owner orders): lag 6 is above 5, and 2 more")
    assert ran.json["performance"].startswith("lag_max=20;;;0 ")
    path.write_text("rules:\n  - group: g\n    crit_lga: 5\n", encoding="utf-8")
    ran = home.run(*words, "--limits", str(path))
    assert (ran.code, ran.stdout) == (2, "")
    assert f"{path}:3: unknown key 'crit_lga'; did you mean crit_lag?" in ran.stderr
    assert "known keys are group, topic, owner, warn_lag" in ran.stderr


def begin_run(home: Home, hours_ago: int, *, ended: bool = False) -> None:
    """A run of this host that sent moves of `orders`, as its journal tells."""
    clock = FakeClock(datetime.now(UTC) - timedelta(hours=hours_ago))
    path = journal_path(home.state, "id-a", "sha256:0123456789abcdef0123")
    path.unlink(missing_ok=True)
    journal = RunJournal(DiskFile(path), clock, cluster_id="id-a", fingerprint="sha256:0123456789abcdef0123")
    journal.check(JournalSubject.START, {"direction": "apply", "plan_path": "p.json", "rate": None})
    journal.intent(JournalSubject.REASSIGN, {"targets": [["orders", 0, [1, 2]]]})
    if ended:
        journal.check(JournalSubject.END, {"verdict": "complete"})


def test_check_silences_what_our_own_moves_explain(fleet: Fleet, home: Home) -> None:
    reader = fleet.add("a")
    fill(reader, "g", 4, 10)
    fill(reader, "h", 4, 10, topic="payments")
    base = ["streams", "lag", "check", "--crit-lag", "5", "--crit-status", "none", "--warn-status", "none"]
    words = [*base, "--silence-own-moves", "-o", "json"]

    def loud(*more: str) -> list[str]:
        return [b["topic"] for b in home.run(*words, *more).json["breaches"]]

    assert loud() == ["orders", "payments"]
    begin_run(home, 3)
    assert [b["topic"] for b in home.run(*base, "-o", "json").json["breaches"]] == ["orders", "payments"]
    found = home.run(*words).json
    assert [b["topic"] for b in found["breaches"]] == ["payments"]
    assert [(b["topic"], b["reason"]) for b in found["silenced"]] == [
        ("orders", "lag 6 is above 5; run 01234567 moves the topic")
    ]
    assert found["summary"].endswith("; 1 silenced while run 01234567 moves their topics")
    ran = home.run(*words[:-1], "tsv", "g")
    assert (ran.code, ran.stdout.split("\t")[:3]) == (0, ["silenced", "a", "g"])
    assert loud("--crit-retention", "1s", "--silence-limit", "2h") == ["orders", "payments"]
    begin_run(home, 5)
    assert loud() == ["orders", "payments"]
    begin_run(home, 1, ended=True)
    assert loud() == ["orders", "payments"]


def test_a_journal_that_cannot_be_read_silences_nothing_and_is_named(fleet: Fleet, home: Home) -> None:
    fill(fleet.add("a"), "g", 4, 10)
    begin_run(home, 1)
    (journal,) = home.state.rglob("*.journal")
    journal.write_bytes(journal.read_bytes().replace(b'"direction"', b'"direct"'))
    ran = home.run("streams", "lag", "check", "--crit-lag", "5", "--crit-status", "none", "--silence-own-moves")
    assert ran.code == 1
    assert "a: the moves of a run are not known: " in ran.stderr


def owning(fleet: Fleet) -> FakeGroups:
    """Group g owns four partitions of five records and an empty one, and committed for the first; h never committed."""
    reader, groups = fleet.add("a"), FakeGroups()
    reader.add_topic("new", 6)
    for partition in (0, 1, 2, 3, 5):
        reader.append(TopicPartition("new", partition), batch(0, [Rec(b"k", b"v")] * 5, base_ms=NOW_MS))
    reader.append(TopicPartition(OFFSETS, 0), batch(0, [commit("g", "new", 0, 5, committed_ms=NOW_MS)]))
    groups.join("g", *(TopicPartition("new", partition) for partition in range(5)))
    groups.join("h", TopicPartition("new", 5))
    groups.add_group("s", kind=GroupType.SHARE)
    return groups


def test_partitions_that_members_own_without_a_commit_are_shown(fleet: Fleet, home: Home) -> None:
    groups = owning(fleet)
    ran = run_with(groups, home, "once", "--by", "partition", "--sort", "name", "-o", "json")
    assert ran.code == 0, ran.stderr
    found = {(one["group"], one["partition"]): (one["status"], one["lag"]) for one in ran.json["lines"]}
    assert found == {
        ("g", 0): ("ok", 0), ("g", 1): ("no_commit", None), ("g", 2): ("no_commit", None),
        ("g", 3): ("no_commit", None), ("g", 4): ("ok", 0), ("h", 5): ("no_commit", None),
    }  # fmt: skip
    lines = {one["group"]: one for one in run_with(groups, home, "once", "-o", "json").json["lines"]}
    assert (lines["g"]["counts"], lines["g"]["records_without_commit"]) == ({"ok": 2, "no_commit": 3}, 15)
    assert (lines["h"]["lag"], lines["h"]["last_commit_ms"], lines["h"]["flags"]) == (None, None, ["no_commit"])
    text = run_with(groups, home, "once", "--members").stdout
    assert "g new: partitions that members own and for which the group never committed: 3; 15 records lie in" in text
    text = run_with(groups, home, "once", "--by", "partition").stdout
    assert text.count("for which the group never committed") == 2  # g and h, not each of their partitions
    assert "g new: partitions that members own and for which the group never committed: 3; 15 records lie in" in text
    groups.leave("h")
    assert [one["group"] for one in run_with(groups, home, "once", "-o", "json").json["lines"]] == ["g"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ([], 1, "LAG WARNING - a g new/1: status no_commit: a member owns it, and 5 records lie in it"),
        (["--crit-lag", "14"], 75, "LAG UNKNOWN - a g new: lag is between 0 and 15: some partitions have no commit"),
        (["--crit-lag", "15", "--warn-status", "none"], 0, "LAG OK - "),
        (["--crit-time", "1h"], 75, "LAG UNKNOWN - a g new/1: the time lag is not known (no commit)"),
    ],
)
def test_what_was_never_committed_is_not_ok(fleet: Fleet, home: Home, words: list[str], code: int, told: str) -> None:
    ran = run_with(owning(fleet), home, "check", "g", *words)
    assert ran.code == code, ran.stdout
    assert ran.stdout.startswith(told)


def test_members_that_cannot_be_read_are_a_note(fleet: Fleet, home: Home) -> None:
    groups = owning(fleet)
    groups.lost.add("h")
    ran = run_with(groups, home, "once")
    assert "a: partitions that members own without a commit are not all known: broker 1 does not answer" in ran.stdout
    assert "g new: partitions that members own and for which the group never committed: 3" in ran.stdout
    groups.lost.clear()
    with mock.patch.object(groups, "groups", return_value=()):
        denied = {"g": ItemError(name="GroupAuthorizationFailedError")}
        with mock.patch.object(groups, "describe", return_value=denied):
            ran = run_with(groups, home, "once")
    assert "not all known: members of g: GroupAuthorizationFailedError" in ran.stdout
    groups.unreachable = True
    ran = run_with(groups, home, "once")
    assert ran.code == 0
    assert "a: partitions that members own without a commit are not all known: " in ran.stdout


@pytest.mark.parametrize(
    ("words", "called"),
    [((), ("--profile", "a")), (("--clusters", "b"), ("--profile", "b")), (("--clusters", "b,a"), ("--profile", "b"))],
)
def test_the_command_that_checks_is_of_the_cluster_that_is_away(
    fleet: Fleet, home: Home, words: tuple[str, ...], called: tuple[str, ...]
) -> None:
    """The defect: with one cluster in --clusters the printed command was for the current profile."""
    fill(fleet.add("a"), "g", 4, 10)
    fleet.add("b").unreachable = True
    fleet.readers["a:9092"].unreachable = not words
    ran = home.run("streams", "lag", "once", *words, "--wait", "1s")
    assert ran.code == 75
    line = command_in(hint_of(ran))
    assert line == [*called, "doctor"]


def test_a_group_of_another_kind_is_shown_by_the_printed_command(fleet: Fleet, home: Home) -> None:
    fill(fleet.add("a"), "g", 4, 10)
    groups = FakeGroups()
    groups.add_group("g")
    with mock.patch("kafkakit.wiring.open_admin", return_value=FakeCluster({1: "a"})):
        refused = run_with(groups, home, "share-groups", "g")
    ran = home.run(*command_in(hint_of(refused)))
    assert (ran.code, [line.split()[:2] for line in ran.stdout.splitlines()[2:]]) == (0, [["g", "orders"]]), ran.stdout


@pytest.mark.parametrize(
    ("words", "cut"),
    [
        (("check", "--crit-lag", "many"), "write "),
        (("check", "--crit-status", "late"), "choose from "),
        (("once", "--members", "--by", "stream"), "use --by "),
    ],
)
def test_each_word_that_a_hint_offers_is_taken(fleet: Fleet, home: Home, words: tuple[str, ...], cut: str) -> None:
    fill(fleet.add("a"), "g", 10, 10)
    ran = home.run("streams", "lag", *words)
    assert ran.code == 2
    offered = [word.strip() for word in re.split(r", | or ", hint_of(ran).split(cut, 1)[1])]
    assert len(offered) > 1
    for word in offered:
        ran = home.run("streams", "lag", *words[:-1], word)
        assert ran.code != 2, (word, ran.stderr)
