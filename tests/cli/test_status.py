"""Status and the daily verbs at the shell: what they print, in which formats, and what they change."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NoReturn
from urllib.request import urlopen

import pytest
import yaml

from kafkakit import wiring
from kafkakit.adapters.read_only import ReadOnlyGroups
from kafkakit.core.errors import MissingRightError, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.data import GroupAdmin, LogReader
from kafkakit.status.decide.judgement import CHECKS
from tests.fakes.admin import FakeCluster
from tests.fakes.control import FakeControlStore
from tests.fakes.groups import FakeGroups
from tests.fakes.log_reader import FakeLogReader
from tests.integration.runbooks import blocks, sections
from tests.places import ROOT
from tests.rigs.command_line import ClusterDesk
from tests.rigs.kubernetes import Thing, cluster, pod, printed
from tests.rigs.waiting import until


class StatusDesk(ClusterDesk):
    """Three brokers in three racks; topic `t` has three replicas, `u` one, and a group reads `t`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, FakeCluster({1: "a", 2: "b", 3: "c"}))
        self.cluster.add_topic("t", {0: (1, 2, 3), 1: (2, 3, 1)}, size_bytes=1000)
        self.cluster.add_topic("u", {0: (3,)}, size_bytes=10)
        self.cluster.add_topic("__consumer_offsets", {0: (1, 2, 3)})
        self.groups, self.log = FakeGroups(), FakeLogReader()
        for name, count in (("t", 2), ("u", 1)):
            self.groups.add_topic(name, count)
            self.log.add_topic(name, count)
        self.groups.add_group("billing")
        self.groups.seed("billing", TopicPartition("t", 0), 0)

    def open_groups(self, settings: Any, *, read_only: bool = False) -> GroupAdmin:
        del settings
        return ReadOnlyGroups(self.groups) if read_only else self.groups

    def open_log(self, settings: Any) -> LogReader:
        del settings
        return self.log

    def objects(self, items: list[Thing]) -> str:
        """A file as kubectl prints it."""
        self.home.work.mkdir(parents=True, exist_ok=True)
        path = self.home.work / "objects.json"
        path.write_bytes(printed(items))
        return str(path)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StatusDesk:
    return StatusDesk(tmp_path).sit(monkeypatch)


def test_a_sound_cluster_is_ok_and_a_dead_broker_is_an_error_with_a_command(desk: StatusDesk) -> None:
    sound = desk.run("status", "-o", "json")
    assert (sound.code, sound.json["clusters"][0]["health"]) == (0, "ok"), sound
    desk.cluster.kill(3)
    ran = desk.run("status")
    assert (ran.code, ran.stdout.split()[:2]) == (1, ["p", "ERROR"])
    lines = ran.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if "broker-down" in line)
    assert lines[at].startswith("error")
    assert lines[at + 1].strip() == "kafkakit --profile p broker describe 3"
    found = desk.run("status", "-o", "json").json["clusters"][0]["findings"]
    assert [f["rule"] for f in found if f["severity"] == "error"] == ["broker-down", "offline"]
    assert desk.run("status", "--fail-on", "never").code == 0
    told = desk.run("status", "--nagios")
    assert (told.code, told.stdout.count("\n"), "CRITICAL" in told.stdout) == (2, 1, True)


def test_what_is_ignored_is_counted_and_an_unknown_kind_is_refused(desk: StatusDesk) -> None:
    desk.cluster.kill(3)
    ran = desk.run("status", "--ignore", "broker:3", "--ignore", "offline:u*", "-o", "json")
    cluster = ran.json["clusters"][0]
    assert {f["rule"] for f in cluster["findings"]}.isdisjoint({"broker-down", "offline"})
    assert cluster["ignored"]
    assert "ignored" in desk.run("status", "--ignore", "broker:3").stdout
    ran = desk.run("status", "--ignore", "brokr:3")
    assert (ran.code, "broker" in ran.stderr) == (2, True)


def test_the_aliases_print_what_the_commands_do(desk: StatusDesk) -> None:
    for alias, words in (
        (("health", "-o", "tsv"), ("status", "-o", "tsv")),
        (("get", "topics"), ("topic", "list")),
        (("get", "brokers", "2"), ("broker", "list", "2")),
        (("describe", "topic", "t"), ("topic", "describe", "t")),
        (("describe", "group", "billing"), ("group", "describe", "billing")),
    ):
        assert desk.run(*alias) == desk.run(*words), alias
    shown = desk.run("--help").stdout
    assert "\n  get " not in shown
    assert "\n  health " not in shown


def test_lists_have_their_formats_and_take_names_patterns_and_queries(desk: StatusDesk) -> None:
    assert desk.run("topic", "list", "-o", "name").stdout.split() == ["t", "u"]
    assert desk.run("topic", "list", "--internal", "-o", "name").stdout.split() == ["__consumer_offsets", "t", "u"]
    assert desk.run("topic", "list", "where rf < 3", "-o", "name").stdout.split() == ["u"]
    assert [topic["topic"] for topic in yaml.safe_load(desk.run("topic", "list", "-o", "yaml").stdout)["topics"]] == [
        "t",
        "u",
    ]
    assert len(desk.run("topic", "list", "-o", "tsv").stdout.splitlines()) == 2
    wide, text = desk.run("topic", "list", "-o", "wide"), desk.run("topic", "list")
    assert len(wide.stdout.splitlines()[0]) > len(text.stdout.splitlines()[0])
    assert desk.run("broker", "list", "-o", "name").stdout.split() == ["1", "2", "3"]
    assert desk.run("broker", "list", "1,3", "-o", "name").stdout.split() == ["1", "3"]
    assert desk.run("broker", "list", "where rack = b", "-o", "name").stdout.split() == ["2"]
    assert desk.run("group", "list", "bill*", "-o", "name").stdout.split() == ["billing"]
    desk.cluster.kill(3)
    assert desk.run("partition", "list", "--offline", "-o", "name").stdout.split() == ["u/0"]
    assert "u/0" not in desk.run("partition", "list", "--under-replicated", "--broker", "1", "-o", "name").stdout
    for words in (("topic", "describe", "no"), ("broker", "list", "9"), ("broker", "describe", "9"),
                  ("partition", "describe", "t/9"), ("group", "describe", "no"),
                  ("topic", "list", "where nope")):  # fmt: skip
        ran = desk.run(*words)
        assert (ran.code, ran.stdout) == (2, ""), (words, ran)


def test_pods_are_shown_and_judged_beside_their_brokers(desk: StatusDesk) -> None:
    items = cluster("abx", first=1)
    items[2] = pod("kafka-1", node="n1", ready=False)
    file = desk.objects(items)
    ran = desk.run("status", "--pods", file, "-o", "json")
    found = {f["rule"]: f for f in ran.json["clusters"][0]["findings"]}
    assert found["rack-zone"]["message"] == "3 has broker.rack c, and its node n3 is in zone x"
    assert found["pod-not-ready"]["command"] == "kubectl describe pod kafka-1 -n kafka"
    assert ran.json["clusters"][0]["pods"]["pods"]["2"]["volumes"][0]["size_bytes"] == 100 << 30
    assert "2 of 3 pods of kafka/kafka ready in 3 zones" in desk.run("status", "--pods", file).stdout
    rows = desk.run("broker", "list", "--pods", file, "-o", "tsv").stdout.splitlines()
    assert rows[1].split("\t")[-5:] == ["kafka-2", "n2", "b", "ready", "100 GiB"]
    told = desk.run("describe", "broker", "1", "--pods", file)
    assert "pod kafka/kafka-1: Running, not ready on node n1, zone a" in told.stdout
    assert "data-kafka-1  Bound" in told.stdout
    assert desk.run("broker", "describe", "1", "-o", "json").json.get("pod") is None


def test_files_of_pods_that_cannot_be_used_are_refused_before_any_request(desk: StatusDesk) -> None:
    two = desk.objects([*cluster(), *(each for each in cluster(name="other") if each["kind"] == "Pod")])
    binary = desk.home.work / "binary.json"
    binary.write_bytes(b"\x00\xff")
    for words, message in (
        (("--pods", "absent.json"), "absent.json"),
        (("--pods", two), "--pods-of kafka/kafka"),
        (("--pods", str(binary)), "not valid UTF-8"),
        (("--pods-of", "kafka"), "are about the file of --pods"),
        (("--pods", two, "--clusters", "p"), "--pods is about one cluster"),
    ):
        ran = desk.run("status", *words)
        assert (ran.code, ran.stdout, message in ran.stderr) == (2, "", True), (words, ran)
    assert desk.run("broker", "list", "--pods", two, "--pods-of", "other", "-o", "name").code == 0
    for wrong in (("--pods", "absent.json"), ("--pods", two, "--pods-of", "other", "--clusters", "p")):
        assert desk.run("ui", "--listen", "127.0.0.1:0", *wrong).code == 2


def test_a_topic_is_made_grown_and_deleted_with_consent_only(desk: StatusDesk) -> None:
    make = ("topic", "create", "new", "--partitions", "6", "--replication", "2", "--set", "retention.ms=7000")
    dry = desk.run(*make, "--dry-run")
    assert (dry.code, "new" in desk.cluster.topics) == (0, False)
    refused = desk.run(*make)
    assert (refused.code, "new" in desk.cluster.topics) == (2, False)
    assert desk.run(*make, "--yes").code == 0
    new = desk.cluster.topics["new"]
    assert (len(new.partitions), new.configs["retention.ms"]) == (6, "7000")
    leaders = [partition.replicas[0] for partition in new.partitions.values()]
    assert sorted(map(leaders.count, (1, 2, 3))) == [2, 2, 2]
    assert desk.run(*make, "--yes").code == 2

    before = {number: tuple(partition.replicas) for number, partition in new.partitions.items()}
    assert desk.run("topic", "alter", "new", "--partitions", "6", "--yes").code == 2
    assert desk.run("topic", "alter", "new", "--partitions", "8", "--yes").code == 0
    after = {number: tuple(partition.replicas) for number, partition in desk.cluster.topics["new"].partitions.items()}
    assert (len(after), before.items() <= after.items()) == (8, True)

    assert desk.run("topic", "delete", "new").code == 2
    assert desk.run("topic", "delete", "new", "--dry-run").code == 0
    assert "new" in desk.cluster.topics
    assert desk.run("topic", "delete", "new", "--yes").code == 0
    assert "new" not in desk.cluster.topics
    kept = desk.run("topic", "delete", "__consumer_offsets", "--yes")
    assert (kept.code, "__consumer_offsets" in desk.cluster.topics) == (2, True)


def test_a_cluster_that_is_away_is_not_known_and_never_well(desk: StatusDesk) -> None:
    desk.cluster.fail_next("cluster", TryLaterError("no answer"), 99)
    ran = desk.run("status")
    assert (ran.code, ran.stdout.split()[:2]) == (75, ["p", "UNKNOWN"])


def test_the_table_of_a_fleet_has_one_cluster_too(desk: StatusDesk, tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("kafkakit: fleet\nschema: 1\nclusters:\n  - {name: only, profile: p}\n")
    ran = desk.run("status", "--fleet", str(file))
    assert (ran.code, ran.stdout.split()[:1]) == (0, ["fleet"]), ran


def test_a_wait_does_not_end_while_a_part_is_not_known(desk: StatusDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = list[str]()

    def slept(clock: object, seconds: float) -> None:
        del clock, seconds
        looks.append("again")
        desk.groups.unreachable = len(looks) < 2

    monkeypatch.setattr("kafkakit.ports.acting.pause", slept)
    desk.groups.unreachable = True
    ran = desk.run("status", "--until-ok")
    assert (ran.code, looks) == (0, ["again", "again"]), ran


def test_a_wait_ends_when_a_part_cannot_become_known(desk: StatusDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = list[str]()
    monkeypatch.setattr("kafkakit.ports.acting.pause", lambda clock, seconds: looks.append("again"))

    def refuse() -> NoReturn:
        raise MissingRightError("groups: not permitted", hint="grant DESCRIBE on all groups")

    monkeypatch.setattr(desk.groups, "answered_groups", refuse)
    ran = desk.run("status", "--until-ok")
    assert (ran.code, looks) == (1, ["again"])
    assert "p: groups cannot become known: groups: not permitted; grant DESCRIBE on all groups" in ran.stderr


def test_a_broken_profile_hinders_no_page_of_the_others(desk: StatusDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.home.write_config("bootstrap_server: [\n", "profiles.d/broken.yaml")
    monkeypatch.setattr("kafkakit.ports.acting.repeat_every", lambda *_: ())
    desk.home.write_config(
        "kafkakit: fleet\nschema: 1\nclusters:\n- name: a\n  profile: p\n- name: b\n  profile: broken\n", "fleet.yaml"
    )
    fleet = str(next(desk.home.config.rglob("fleet.yaml")))
    for chosen in (("--clusters", "p,broken"), ("--fleet", fleet)):
        shown = desk.run("status", *chosen)
        assert (shown.code, "UNKNOWN" in shown.stdout) == (2, True), shown
        served = desk.run("ui", *chosen, "--listen", "127.0.0.1:0")
        assert "serving http://127.0.0.1:" in served.stdout + served.stderr, served
    assert desk.run("ui", "--clusters", "p,nix", "--listen", "127.0.0.1:0").code == 2


def test_ui_shows_tags_of_the_control_store_or_of_znodes_and_takes_queries(
    desk: StatusDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    tagged = desk.run("registry", "tag", "--topics", "t", "team:a", "--yes")
    assert tagged.code == 0, tagged
    znodes = FakeControlStore()
    znodes.cas("kit/topic/u", b'{"team": "z"}', None)
    addresses, pages, opened = list[str](), list[str](), wiring.open_page_server

    def open_page_server(*given: Any, **more: Any) -> Any:
        server = opened(*given, **more)
        addresses.append(server.address)
        return server

    def ask_once(*_: object) -> tuple[()]:
        for path in ("/topics?q=exists(team)", "/topics?q=team+in+a", "/brokers?q=rack+%3D+b&explain=1"):
            url = f"http://{addresses[-1]}{path}"
            until(lambda: "read yet" not in fetch(url), "the cluster is read", seen=lambda: fetch(url))  # noqa: B023
            pages.append(fetch(url))
        return ()

    monkeypatch.setattr(wiring, "open_page_server", open_page_server)
    monkeypatch.setattr(wiring, "open_znodes", lambda settings: znodes)
    monkeypatch.setattr("kafkakit.ports.acting.repeat_every", ask_once)
    for more in ((), ("--zk-tags-prefix", "/kit")):
        served = desk.run("ui", "--listen", "127.0.0.1:0", *more)
        assert served.code == 0, served
    of_store, problem, explained, of_znodes, *_ = pages
    assert re.findall('href="/topics/([a-z])"', of_store) == ["t"], of_store
    assert '<span class="tag">team=a</span>' in of_store
    assert "found &#39;a&#39;, expected" in problem
    assert "<li>rack = &#34;b&#34;: rack is a</li>" in explained
    assert re.findall('href="/topics/([a-z])"', of_znodes) == ["u"]


def fetch(url: str) -> str:
    with urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


# -- the runbook

STEPS = sections("what-is-wrong-now.md")
WORDS = (ROOT / "docs/runbooks/what-is-wrong-now.md").read_text()


def test_the_runbook_says_what_to_do_about_every_kind_of_finding() -> None:
    table = WORDS.partition("## What else may stand there")[2]
    listed = [
        name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`([^`]+)`", row)
    ]
    headings = re.findall(r"^## \d+\. .*: `([^`]+)`$", WORDS, re.MULTILINE)
    assert sorted({*listed, *headings} - {"unknown"}) == sorted(rule.name for rule in CHECKS)
    assert len(listed) == len(set(listed))


def test_the_runbook_passes_over_no_records_where_one_only_looks() -> None:
    looks, skips = (block for block in blocks("what-is-wrong-now.md", undo=False) if block in STEPS[7])
    assert "--yes" not in looks
    assert 0 < skips.find("--dry-run") < skips.find("--yes")


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_command_that_starts_a_broker_is_split_by_every_shell(shell: str, tmp_path: Path) -> None:
    lines = [line for step in STEPS for line in step.splitlines() if "$START" in line]
    assert lines
    if shutil.which(shell) is None:
        assert all(line.startswith('eval "$START"') for line in lines)
        return
    for line in lines:
        ran = subprocess.run(
            [shell, "-c", line], env={"START": f"touch {tmp_path / 'a'} {tmp_path / 'b'}", "PATH": os.environ["PATH"]},
            check=False,
        )  # fmt: skip
        assert (ran.returncode, len(list(tmp_path.iterdir()))) == (0, 2)
