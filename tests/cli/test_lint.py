"""`kafkakit lint` at a shell: exit codes, formats, fixes, acceptances, configuration, bad input."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkakit import wiring
from kafkakit.core.model import Broker, ClusterSnapshot, Partition, Topic
from tests.clusters.strategies import TAKEN_AT
from tests.fakes.admin import FakeClock, FakeCluster
from tests.places import ROOT
from tests.rigs.command_line import Home, Ran
from tests.rigs.printed_repairs import commands_in, hint_of, save

BAD = """kafkakit: cluster
topics:
- name: orders
  partitions: 6
  replication_factor: 2
  config: {min.insync.replicas: '3'}
"""
SECRETS = """process.roles=broker
node.id=1
ssl.keystore.password=s3cr3t-9
sasl.jaas.config=x password="s3cr3t-9";
ssl.key.pasword=s3cr3t-9
"""
SOUND = BAD.replace("replication_factor: 2", "replication_factor: 3").replace("'3'", "'2'")


def write(home: Home, name: str, text: str) -> Path:
    path = home.work / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def lint(home: Home, *words: str, stdin: str = "", env: dict[str, str] | None = None) -> Ran:
    return home.run("lint", *words, stdin=stdin, env=env)


NODE = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@c1:9093,2@c2:9093,3@c3:9093
listener.security.protocol.map=SSL:SSL,OTHER:SSL,CONTROLLER:SSL
controller.listener.names=CONTROLLER
inter.broker.listener.name=SSL
log.dirs=/var/lib/kafka
auto.create.topics.enable=false
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
"""
SSL = "listeners=SSL://:9092,CONTROLLER://:9093\n"


@pytest.mark.parametrize(
    ("lines", "errors"),
    [
        (SSL, set()),
        (
            "broker.id=2\nlisteners=SSL://:9092,OTHER://:9092,CONTROLLER://:9093\n"
            "advertised.listeners=SSL://0.0.0.0:9092,OTHER://k1:9092\n",
            {"KKQ858", "KKB515", "KKS810"},
        ),
        (
            f"{SSL}min.insync.replicas=3\ndefault.replication.factor=2\n"
            "transaction.state.log.min.isr=3\ntransaction.state.log.replication.factor=2\n",
            {"KKD101", "KKD124"},
        ),
        ("listeners=SSL://0.0.0.0:9092,CONTROLLER://:9093\n", {"KKS810"}),
        ("listeners=SSL://:9093,CONTROLLER://:9093\nadvertised.listeners=SSL://k1:9093\n", {"KKB515"}),
        (f"{SSL}broker.id=11\n", {"KKQ858"}),
        (f"{SSL}broker.id=1\n", set()),
        (
            f"{SSL}share.coordinator.state.topic.min.isr=3\nshare.coordinator.state.topic.replication.factor=2\n",
            {"KKD124"},
        ),
    ],
)
def test_a_node_that_does_not_start_has_errors_in_the_default_rules(home: Home, lines: str, errors: set[str]) -> None:
    write(home, "server.properties", NODE + lines)
    for rules in ((), ("--rules", "strict")):
        ran = lint(home, "server.properties", "--fail-on", "error", "-o", "json", *rules)
        assert ran.code == bool(errors)
        assert {f["rule"] for f in ran.json["findings"] if f["severity"] == "error"} == errors


def test_a_finding_is_a_line_with_its_place_and_fails_the_command(home: Home) -> None:
    write(home, "clusters/a.yaml", BAD)
    ran = lint(home, "clusters")
    assert ran.code == 1
    assert "clusters/a.yaml:6:12: error KKD101 min-isr-above-rf: min.insync.replicas is 3" in ran.stdout
    assert ran.stderr == ""


def test_a_sound_file_passes_and_the_threshold_decides(home: Home) -> None:
    write(home, "a.yaml", SOUND)
    assert lint(home, "a.yaml").code == 0
    write(home, "b.yaml", BAD)
    assert lint(home, "b.yaml", "--fail-on", "never").code == 0
    assert lint(home, "b.yaml", "--ignore", "KKD101,KKD105,KKD112").code == 0
    assert lint(home, "b.yaml", "--select", "unclean-leader-election").code == 0


def test_stdin_has_the_name_it_is_given(home: Home) -> None:
    ran = lint(home, "-", "--stdin-filename", "topics/x.yaml", stdin=BAD)
    assert ran.code == 1
    assert ran.stdout.startswith("topics/x.yaml:")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "nothing to lint"),
        (("missing.yaml",), "missing.yaml"),
        (("a.yaml", "--select", "KKD10O"), "no rule fits 'KKD10O'"),
        (("a.yaml", "--select", "min-isr-above-fr"), "did you mean min-isr-above-rf?"),
        (("a.yaml", "--kind", "nonsense"), "nonsense"),
        (("a.yaml", "--kafka-version", "new"), "not a Kafka version"),
        (("a.yaml", "--also", "sarif"), "not FORMAT=FILE"),
        (("a.yaml", "--also", "pdf=x"), "not FORMAT=FILE"),
        (("a.yaml", "--baseline", "none.json"), "none.json"),
        (("a.yaml", "--prune-baseline"), "--prune-baseline needs a baseline"),
        (("a.yaml", "--fix", "--diff"), "--diff only shows"),
        (("a.yaml", "--lint-config", "none.yaml"), "none.yaml"),
        (("--explain", "min-isr-above-fr"), "did you mean min-isr-above-rf?"),
        (("a.yaml", "--against", "a.yaml"), "--against needs --live"),
        (("a.yaml", "--topics", "where partitions > 1"), "--topics needs --live"),
        (("a.yaml", "--upgrade-report", "u.md"), "--upgrade-report needs --target-version"),
    ],
)
def test_what_cannot_be_done_exits_2_with_one_line(home: Home, words: tuple[str, ...], said: str) -> None:
    write(home, "a.yaml", BAD)
    ran = lint(home, *words)
    assert (ran.code, ran.stdout) == (2, "")
    assert said in ran.stderr.splitlines()[0]


def test_several_outputs_in_one_run(home: Home) -> None:
    write(home, "a.yaml", BAD)
    ran = lint(
        home, "a.yaml", "--also", "sarif=x.sarif", "--also", "junit=x.xml", "--also", "json=x.json", "-o", "gitlab"
    )
    assert ran.code == 1
    assert "kafkakit/KKD101" in {entry["check_name"] for entry in json.loads(ran.stdout)}
    assert json.loads((home.work / "x.sarif").read_text())["version"] == "2.1.0"
    assert (home.work / "x.xml").read_text().startswith("<?xml")
    assert json.loads((home.work / "x.json").read_text())["kafkakit"]["command"] == "lint"


def test_json_names_key_value_source_and_what_was_not_checked(home: Home) -> None:
    write(home, "a.yaml", BAD)
    ran = lint(home, "a.yaml", "--format", "json")
    found = next(f for f in ran.json["findings"] if f["rule"] == "KKD101")
    assert (found["key"], found["observed"], found["source"], found["expected"]) == (
        "min.insync.replicas",
        "3",
        "topic",
        "1",
    )
    assert (found["path"], found["line"], found["column"], found["fix"]) == ("a.yaml", 6, 12, "unsafe")
    assert "broker configuration" in {need for needs in ran.json["skipped"].values() for need in needs}


def test_github_actions_get_annotations_unless_a_format_is_given(home: Home) -> None:
    write(home, "a.yaml", BAD)
    annotations = lint(home, "a.yaml", env={"GITHUB_ACTIONS": "true"}).stdout.splitlines()
    assert all(line.startswith("::") for line in annotations)
    assert any(line.startswith("::error file=a.yaml,line=6,col=12,title=KKD101") for line in annotations)
    assert lint(home, "a.yaml", "-o", "text", env={"GITHUB_ACTIONS": "true"}).stdout.startswith("a.yaml:")


def test_diff_shows_what_fix_then_writes_and_nothing_else_changes(home: Home) -> None:
    path = write(home, "a.yaml", BAD.replace("\n", "\r\n"))
    path.chmod(0o640)
    shown = lint(home, "a.yaml", "--select", "KKD101", "--diff", "--unsafe-fixes")
    assert path.read_bytes() == BAD.replace("\n", "\r\n").encode()
    assert "-  config: {min.insync.replicas: '3'}" in shown.stdout
    assert "+  config: {min.insync.replicas: '1'}" in shown.stdout
    assert lint(home, "a.yaml", "--select", "KKD101", "--fix").code == 1
    ran = lint(home, "a.yaml", "--select", "KKD101", "--fix", "--unsafe-fixes")
    assert (ran.code, ran.stderr) == (0, "fixed 1 finding in 1 file\n")
    assert path.read_bytes() == BAD.replace("'3'", "'1'").replace("\n", "\r\n").encode()
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_baseline_is_written_used_and_pruned(home: Home) -> None:
    path = write(home, "a.yaml", BAD)
    ran = lint(home, "a.yaml", "--write-baseline", "base.json", "--fail-on", "never")
    assert "wrote base.json" in ran.stderr
    assert lint(home, "a.yaml", "--baseline", "base.json").code == 0
    path.write_text(SOUND)
    stale = lint(home, "a.yaml", "--baseline", "base.json")
    assert (stale.code, "KKL005" in stale.stdout) == (1, True)
    assert lint(home, "a.yaml", "--baseline", "base.json", "--prune-baseline").code == 1
    assert lint(home, "a.yaml", "--baseline", "base.json").code == 0


def test_the_repository_configures_lint(home: Home) -> None:
    write(home, "a.yaml", BAD)
    rule = "{code: ORG001, name: six-is-too-many, template: required, key: retention.ms, severity: error}"
    write(home, "kafkakit-lint.yaml", f"select: [nonsense]\nignore: {{KKD: ours}}\norganisation-rules: [{rule}]\n")
    ran = lint(home, "a.yaml")
    codes = [
        line.split(" ")[2] for line in ran.stdout.splitlines() if line.startswith(("a.yaml", "kafkakit-lint.yaml"))
    ]
    assert codes == ["ORG001", "KKL004"]
    assert ran.code == 1


@pytest.mark.parametrize(
    "text",
    [
        "limits: {no_such: 1}",
        "severity: {KKD101: terrible}",
        "- a list",
        "a: [",
        "surprise: 1",
        "organisation-rules: [{code: KKD101, name: x, template: range, key: a}]",
        "organisation-rules: [{code: ORG001, name: x, template: regex, key: a, pattern: '('}]",
        "organisation-rules: [{code: ORG001, name: x, template: nothing, key: a}]",
        "organisation-rules: [{code: ORG001, name: x, template: ratio, key: a}]",
    ],
)
def test_a_configuration_that_cannot_be_used_exits_2(home: Home, text: str) -> None:
    write(home, "a.yaml", SOUND)
    write(home, "kafkakit-lint.yaml", text)
    ran = lint(home, "a.yaml")
    assert (ran.code, ran.stdout) == (2, "")
    assert "kafkakit-lint.yaml" in ran.stderr


def test_rules_are_explained_listed_and_written_as_a_site(home: Home) -> None:
    explained = lint(home, "--explain", "min-isr-above-rf")
    assert explained.stdout.startswith("KKD101 min-isr-above-rf\n")
    assert "Why:" in explained.stdout
    assert "KKD101" in lint(home, "--list-rules").stdout
    assert lint(home, "--list-rules", "-o", "json").json["rules"][0]["code"].startswith("KK")
    assert lint(home, "--docs", "site").code == 0
    pages = {path.name for path in (home.work / "site").iterdir()}
    assert {"index.html", "KKD101.html"} <= pages


@pytest.mark.parametrize("name", ["up.md", "up.html"])
def test_an_upgrade_is_reported_on_one_page(home: Home, name: str) -> None:
    write(
        home, "server.properties", "process.roles=broker\nnode.id=1\nlog.segment.bytes=1000\nzookeeper.connect=z:2181\n"
    )
    words = ("--kafka-version", "3.9", "--target-version", "4.3", "--upgrade-report", name, "--fail-on", "never")
    assert lint(home, "server.properties", *words).code == 0
    page = (home.work / name).read_text()
    assert "Upgrade to Kafka 4.3" in page
    for title in ("What breaks (2)", "Changed defaults", "What to set first"):
        assert title in page
    assert "log.segment.bytes" in page
    assert "zookeeper.connect" in page


def test_unparsable_and_binary_files_are_findings_with_a_place(home: Home) -> None:
    write(home, "bad.yaml", "topics:\n\t- a: [\n")
    (home.work / "binary.yaml").write_bytes(b"\x00\xff\x00")
    write(home, "loop/self.yaml", SOUND)
    (home.work / "loop/again").symlink_to(home.work / "loop")
    ran = lint(home, "bad.yaml", "binary.yaml", "loop", "-o", "json")
    assert ran.code == 1
    assert {(f["path"], f["rule"], f["line"]) for f in ran.json["findings"]} == {
        ("bad.yaml", "KKL006", 2),
        ("binary.yaml", "KKL007", 1),
    }


def test_files_of_kafka_that_are_not_read_are_told_and_counted(home: Home) -> None:
    write(home, "clusters/a.yaml", SOUND)
    write(home, "clusters/app.yaml", "env: {KAFKA_BOOTSTRAP_SERVERS: k}\n")
    write(home, "clusters/ci.yaml", "a: 1\n")
    ran = lint(home, "clusters", "-o", "json")
    assert (ran.code, ran.json["unread"], ran.json["files"]) == (0, ["clusters/app.yaml"], ["clusters/a.yaml"])
    assert ran.stderr == ("not checked, of Kafka but in a form that lint does not read: 1 file: clusters/app.yaml\n")
    assert "not checked: 1 file in a form that lint does not read" in lint(home, "clusters").stdout


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (("app.yaml",), 2),
        (("ci.yaml",), 2),
        (("ci.yaml", "a.yaml"), 0),
        (("app.yaml", "a.yaml"), 2),
        ((".",), 0),
        (("app.yaml", "a.yaml", "--each"), 0),
    ],
)
def test_a_named_file_of_which_nothing_was_read_fails_the_run(home: Home, names: tuple[str, ...], code: int) -> None:
    write(home, "a.yaml", SOUND)
    write(home, "app.yaml", "env: {KAFKA_BOOTSTRAP_SERVERS: k}\n")
    write(home, "ci.yaml", "a: 1\n")
    ran = lint(home, *names)
    assert ran.code == code
    assert ("nothing was checked of" in ran.stderr) == (code == 2)


def test_secrets_are_printed_in_no_format(home: Home) -> None:
    write(home, "server.properties", SECRETS)
    for form in ("text", "json", "sarif", "junit", "github", "gitlab", "markdown", "tsv", "yaml"):
        ran = lint(home, "server.properties", "--rules", "strict", "-o", form)
        assert ran.code == 1, ran.stderr
        assert "s3cr3t-9" not in ran.stdout + ran.stderr
    ran = lint(home, "server.properties", "--rules", "strict", "--diff", "--unsafe-fixes")
    assert "s3cr3t-9" not in ran.stdout + ran.stderr


def test_a_version_without_a_table_is_refused(home: Home) -> None:
    write(home, "v28/server.properties", "broker.id=1\nzookeeper.connect=zk:2181\nport=9092\n")
    write(home, "topic.yaml", 'kafkakit: cluster\nversion: "2.0"\ntopics: [{name: t}]\n')
    for words in (("--kafka-version", "3.4", "v28"), ("--kafka-version", "9.9", "v28"), ("topic.yaml",)):
        ran = lint(home, *words)
        assert (ran.code, ran.stdout) == (2, "")
        assert "no table of settings for Kafka" in ran.stderr
        assert "2.8, 3.0, 3.3, 3.5" in ran.stderr
        near = lint(home, "--nearest-version", "--fail-on", "never", *words)
        assert near.code == 0
        assert "fixable" not in near.stdout
        assert near.stdout.count("the nearest to") == 1


def test_an_assumed_version_is_told_once(home: Home) -> None:
    write(home, "a/server.properties", "broker.id=1\nzookeeper.connect=zk:2181\n")
    ran = lint(home, "a")
    assert ran.stdout.count("assumed: Kafka 3.9, zookeeper.connect without process.roles") == 1
    assert "--kafka-version" in ran.stdout
    found, env = json.loads(lint(home, "-o", "json", "a").stdout)["assumptions"]
    assert (found["version"], env["env"]) == ("3.9", "prod")
    told = ("--kafka-version", "3.9", "--env", "dev")
    assert json.loads(lint(home, "-o", "json", *told, "a").stdout)["assumptions"] == []


def test_an_assumed_environment_is_told_once(home: Home) -> None:
    for name in ("a", "b"):
        write(home, f"{name}.yaml", f"kafkakit: cluster\ncluster: {name}\nversion: '4.3'\ntopics: [{{name: t}}]\n")
    write(home, "c.yaml", "kafkakit: cluster\ncluster: c\nversion: '4.3'\nenv: dev\ntopics: [{name: t}]\n")
    image = "services: {k: {image: 'apache/kafka:4.1.0', environment: {KAFKA_NODE_ID: 1, KAFKA_PROCESS_ROLES: broker}}}"
    write(home, "d/compose.yaml", image)
    ran = lint(home, ".", "--fail-on", "never")
    assert ran.stdout.count("assumed: environment prod, since nothing tells it (cluster a, b); --env NAME") == 1
    assert ran.stdout.count("assumed: environment dev, since compose files are mostly for development") == 1
    found = json.loads(lint(home, ".", "-o", "json", "--fail-on", "never").stdout)["assumptions"]
    assert [(one["env"], one["clusters"]) for one in found if "env" in one] == [
        ("dev", ["d/compose.yaml"]),
        ("prod", ["a", "b"]),
    ]
    assert "assumed" not in lint(home, ".", "--env", "staging", "--fail-on", "never").stdout


def test_a_fix_keeps_the_encoding_of_a_file(home: Home) -> None:
    path = home.work / "server.properties"
    path.write_bytes("# caf\xe9\nnode.id=1\nlog.retention.ms=5\nlog.retention.hours=1\n".encode("iso-8859-1"))
    assert lint(home, "--fix", "--select", "KKV008", "server.properties").code == 0
    assert path.read_bytes() == "# caf\xe9\nnode.id=1\nlog.retention.ms=5\n".encode("iso-8859-1")


@pytest.mark.parametrize(
    ("verb", "racks", "lists", "size", "file"),
    [
        ("fix-racks", "aabb", {0: (1, 2), 1: (3, 1)}, 1_000, ""),
        ("leaders", "aabb", {n: (1, 2 + n % 3) for n in range(9)}, 1_000, ""),
        ("rebalance", "abcd", dict.fromkeys(range(9), (1,)), 1_000_000, ""),
        ("set-replication", "abcd", {0: (1, 3), 1: (3, 1)}, 1_000, "3"),
    ],
)
def test_the_command_of_a_live_finding_is_carried_out(
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    racks: str,
    lists: dict[int, tuple[int, ...]],
    size: int,
    file: str,
) -> None:
    cluster, clock = FakeCluster(dict(enumerate(racks, 1)), line_rate=1e9), FakeClock()
    cluster.add_topic("t", lists, size_bytes=size)
    cluster.add_topic("u.v", {0: (2, 3)}, size_bytes=size)
    clock.on_sleep.append(cluster.advance)
    monkeypatch.setattr(wiring, "open_admin", lambda *_, **__: cluster)
    monkeypatch.setattr(wiring, "system_clock", lambda: clock)
    home.write_config("bootstrap_server: fake:1\n", "profiles.d/p.yaml")
    drift = []
    if file:
        text = f"kafkakit: cluster\ncluster: x\ntopics: [{{name: t, partitions: 2, replication_factor: {file}}}]\n"
        drift = ["--against", str(write(home, "c.yaml", text))]

    def lines() -> list[list[str]]:
        ran = home.run(
            "--profile", "p", "lint", "--live", "--rules", "strict", "-o", "json", "--fail-on", "never", *drift
        )
        assert ran.code == 0, ran.stderr
        hints = [f["hint"] for f in ran.json["findings"] if f["hint"] and f" {verb}" in f["hint"]]
        return [words for hint in hints for words in commands_in(hint)]

    before = cluster.snapshot(now=clock.now())
    words = lines()[0]
    assert words[:4] == ["--profile", "p", "topicmappr", verb]
    done = home.run(*words, "--plan", "p.json")
    assert done.code == 0, done.stderr
    assert home.run("--profile", "p", "reassign", "apply", "p.json", "--yes").code == 0
    assert words not in lines()
    if verb != "rebalance":
        assert cluster.snapshot(now=clock.now()).topics[1] == before.topics[1]


class Live:
    """A live cluster behind profile p, whose findings are ended as their hints say."""

    def __init__(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.clock = home, FakeClock()
        self.cluster = FakeCluster({1: "a", 2: "b", 3: "c", 4: "d"}, line_rate=1e9)
        self.cluster.add_topic("big", {n: (2 + n % 3,) for n in range(6)}, size_bytes=100_000)
        self.clock.on_sleep.append(self.cluster.advance)
        monkeypatch.setattr(wiring, "open_admin", lambda *_, **__: self.cluster)
        monkeypatch.setattr(wiring, "system_clock", lambda: self.clock)
        home.write_config("bootstrap_server: fake:1\n", "profiles.d/p.yaml")

    def hints(self, rule: str) -> list[str]:
        ran = self.home.run("--profile", "p", "lint", "--live", "--select", rule, "-o", "json", "--fail-on", "never")
        assert ran.code == 0, ran.stderr
        return [f["hint"] for f in ran.json["findings"]]


@pytest.fixture
def live(home: Home, monkeypatch: pytest.MonkeyPatch) -> Live:
    return Live(home, monkeypatch)


def test_too_many_replicas_on_a_broker_are_moved_as_the_hint_says(live: Live) -> None:
    """The defect: the printed command evened out bytes, and left a broker with many small replicas as it was."""
    write(live.home, "kafkakit-lint.yaml", "limits: {partitions_per_broker: 15}\n")
    live.cluster.add_topic("many", dict.fromkeys(range(20), (1,)), size_bytes=10_000)
    (hint,) = live.hints("KKB504")
    (words,) = commands_in(hint)
    assert live.home.run(*words, "--plan", "p.json").code == 0
    assert live.home.run("--profile", "p", "reassign", "apply", "p.json", "--yes").code == 0
    assert live.hints("KKB504") == []


def test_a_throttle_that_was_left_is_removed_as_the_hint_says(live: Live) -> None:
    live.cluster.brokers[2].configs["leader.replication.throttled.rate"] = "1000000"
    live.cluster.topics["big"].configs |= {"leader.replication.throttled.replicas": "*", "retention.ms": "5000000"}
    hints = live.hints("KKB510")
    assert (len(hints), len(set(hints))) == (2, 1)
    (words,) = commands_in(hints[0])
    assert live.home.run(*words, "--yes").code == 0
    assert live.hints("KKB510") == []
    assert live.cluster.topics["big"].configs == {"retention.ms": "5000000"}


@pytest.mark.parametrize(
    ("words", "listed", "again"),
    [
        (("--kind", "nonsense"), "kinds: ", ("--kind", "{}")),
        (("--also", "pdf=x"), "formats: ", ("--also", "{}=x")),
        (("--kafka-version", "2.7"), "known: ", ("--kafka-version", "{}")),
    ],
)
def test_every_word_that_a_hint_lists_is_taken(
    home: Home, words: tuple[str, ...], listed: str, again: tuple[str, ...]
) -> None:
    write(home, "a.yaml", SOUND)
    ran = lint(home, "a.yaml", *words)
    assert ran.code == 2
    choices = hint_of(ran).removeprefix(listed).partition(";")[0].split(", ")
    assert len(choices) > 2
    for choice in choices[:4] + choices[-4:]:
        ran = lint(home, "a.yaml", *(word.format(choice) for word in again))
        assert f"hint: {listed}" not in ran.stderr, choice


@pytest.mark.parametrize(
    ("words", "named", "again"),
    [
        (("a.yaml", "--select", "KKD10O"), "--list-rules", ("--list-rules",)),
        (("--explain", "min-isr-above-fr"), "--list-rules", ("--list-rules",)),
        (("a.yaml", "--prune-baseline"), "--baseline FILE", ("a.yaml", "--prune-baseline", "--baseline", "base.json")),
        (
            ("a.yaml", "--upgrade-report", "u.md"),
            "the version to upgrade to",
            ("a.yaml", "--upgrade-report", "u.md", "--target-version", "4.3"),
        ),
        (("a.yaml", "--kafka-version", "2.7"), "--nearest-version", ("a.yaml", "--kafka-version", "2.7",
                                                                      "--nearest-version")),
    ],
)  # fmt: skip
def test_the_option_that_a_hint_names_lets_lint_go_on(
    home: Home, words: tuple[str, ...], named: str, again: tuple[str, ...]
) -> None:
    write(home, "a.yaml", SOUND)
    assert lint(home, "a.yaml", "--write-baseline", "base.json").code == 0
    ran = lint(home, *words)
    assert (ran.code, named in hint_of(ran)) == (2, True), ran.stderr
    ran = lint(home, *again)
    assert ran.code == 0, ran.stderr


def test_what_the_last_line_says_of_fixes_is_what_the_options_do(home: Home) -> None:
    write(home, "a.yaml", BAD)
    told = re.search(r"fixable: (\d+) with --fix, (\d+) more with --unsafe-fixes", lint(home, "a.yaml").stdout)
    assert told is not None
    assert int(told[2]) > 0
    done = lint(home, "a.yaml", "--fix", "--unsafe-fixes")
    assert f"fixed {int(told[1]) + int(told[2])} finding" in done.stderr
    assert "fixable" not in lint(home, "a.yaml").stdout


@pytest.mark.parametrize("form", ["text", "json", "sarif"])
def test_the_order_of_arguments_changes_nothing(home: Home, form: str) -> None:
    corpus = home.at(ROOT / "tests/cases/lint/corpus")
    folders = ("strimzi-basic", "zookeeper-fleet", "compose-cluster", "connectors")
    orders = [*(folders[n:] + folders[:n] for n in range(4)), folders[::-1]]
    assert len({lint(corpus, "--rules", "strict", "-o", form, *order).stdout for order in orders}) == 1


def test_a_folder_has_the_findings_of_its_files_given_by_name(home: Home) -> None:
    corpus = home.at(ROOT / "tests/cases/lint/corpus")
    paths = sorted((corpus.work / "strimzi-prod").rglob("*.yaml"))
    words = ("-o", "json", "--rules", "strict", "--ignore", "KKL007")
    by_name = json.loads(lint(corpus, *words, *(str(path.relative_to(corpus.work)) for path in paths)).stdout)
    by_folder = json.loads(lint(corpus, *words, "strimzi-prod").stdout)
    assert len(by_folder["findings"]) > 8
    assert by_name["findings"] == by_folder["findings"]


ANSWERS = yaml.safe_load((ROOT / "tests/cases/lint/answers.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", ANSWERS, ids=lambda case: case["what"])
def test_what_was_once_answered_wrongly(home: Home, case: dict[str, Any]) -> None:
    for name, text in case["files"].items():
        write(home, name, text)
    for run in case["runs"]:
        ran = lint(home, *run["words"])
        said = ran.stdout + ran.stderr
        assert [text for text in run.get("says", ()) if text not in said] == []
        assert [text for text in run.get("never", ()) if text in said] == []
        if "code" in run:
            assert ran.code == run["code"]
        if "found" in run:
            found = re.findall(r"^(.+?:\d+):\d+: (\w+) (KK\w\d+) ", ran.stdout, re.MULTILINE)
            assert sorted(f"{place} {rule} {severity}" for place, severity, rule in found) == sorted(run["found"])


def test_a_file_in_latin_1_is_judged(home: Home) -> None:
    (home.work / "server.properties").write_bytes("# für\nprocess.roles=broker\nnode.id=-1\n".encode("latin-1"))
    assert re.findall(r"KK[VL]\d+", lint(home, "--select", "KKV003,KKL", ".").stdout) == ["KKV003"]


@pytest.mark.parametrize(
    ("version", "severity", "words"),
    [
        (None, "error", "Kafka 3.7 and later count only"),
        ("3.6", "error", "brokers refuse writes with acks=all"),
        ("3.7", "warning", "brokers count only the replicas that there are"),
        ("4.4", "warning", "brokers count only the replicas that there are"),
    ],
)
def test_min_isr_above_the_replicas_is_told_alike_everywhere(
    home: Home, version: str | None, severity: str, words: str
) -> None:
    partition = Partition(partition=0, replicas=(1, 2), isr=(1, 2), leader=1)
    topic = Topic(name="orders", partitions=(partition,), configs={"min.insync.replicas": "2"})
    brokers = tuple(Broker(id=n, rack="a", host="h", port=1) for n in (1, 2))
    save(home, ClusterSnapshot(
        cluster_id="c", taken_at=TAKEN_AT, source="test", brokers=brokers, topics=(topic,), kafka_version=version
    ))  # fmt: skip
    (home.work / "s.json").rename(home.work / "snapshot.json")
    write(home, "map.json", '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1]}]}')
    told = f'version: "{version}"\n' if version else ""
    write(home, "files/a.yaml", BAD.replace("topics:", f"{told}topics:"))
    write(
        home,
        "files/b.yaml",
        f"kafkakit: cluster\n{told}brokers: [{{id: 1, config: {{transaction.state.log.min.isr: '4'}}}}]\n",
    )

    at = ("--snapshot", "snapshot.json")
    audit = home.run("topicmappr", "audit", "map.json", *at, "-o", "json", "--fail-on", "never").json
    (found,) = (f for f in audit["findings"] if f["rule"] == "below-min-isr")
    (rule,) = (r for r in audit["rules"] if r["rule"] == "below-min-isr")
    assert (found["severity"], rule["severity"], words in rule["risk"]) == (severity, severity, True)
    by_text = home.run("topicmappr", "audit", "map.json", *at)
    assert f"below-min-isr: {words}" in " ".join(by_text.stdout.split())
    assert by_text.code == (1 if severity == "error" else by_text.code)

    scoped = ("--topics", "orders", *at, "--min-rack-ids", "1", "-o", "json")
    for verb in (("set-replication", "1"), ("rebuild", "--replication", "1", "--brokers", "-1")):
        refused = home.run("topicmappr", *verb, *scoped)
        assert (refused.code, words in refused.stderr) == ((1, True) if severity == "error" else (0, False)), verb
        plan = home.run("topicmappr", *verb, *scoped, "--ignore-warns")
        assert plan.code == 0, plan.stderr
        told_in = "warnings" if severity == "error" else "notes"
        assert [words in line for line in plan.json[told_in] if "insync" in line] == [True], verb

    linted = lint(home, "files", "--select", "KKD101,KKD124", "-o", "json", "--fail-on", "never").json["findings"]
    assert [(f["rule"], f["severity"], words in f["message"]) for f in linted] == [
        ("KKD101", severity, True), ("KKD124", severity, True),
    ]  # fmt: skip
