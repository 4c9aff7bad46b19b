"""An address that is given is the cluster that is used, never a default profile's; plans and texts name the cluster."""

import json
from pathlib import Path
from typing import Any

import pytest

from kafkakit import wiring
from kafkakit.adapters.read_only import ReadOnlyAdmin
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.report import Report
from tests.fakes.admin import FakeCluster
from tests.rigs.command_line import Home

CHECK = ("check", "--fail-on", "never")
PLANNING = (
    ("rebuild", "--topics", ".*", "--brokers", "1,2,3"),
    ("rebalance", "--topics", ".*", "--brokers", "1,2,3"),
    ("scale", "--topics", ".*", "--brokers", "1,2,3,4"),
    ("drain", "--brokers", "1"),
    ("set-replication", "1", "--topics", ".*"),
    ("leaders",),
    CHECK,
    ("frontier",),
)
# Commands of kafka-kit's, which take its addresses; the others take no ZooKeeper at all.
WITH_ZOOKEEPER = ("rebuild", "rebalance", "scale", "check", "frontier")


class Clusters:
    """Fake clusters by address; `asked` are the addresses that were connected to."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def open_admin(self, settings: Any, *, read_only: bool = False, check_pin: bool = True) -> ClusterAdmin:
        self.asked.append(settings.bootstrap_servers)
        cluster = FakeCluster({1: "a", 2: "b", 3: "c", 4: "d"})
        cluster.add_topic("t", {0: (1, 2), 1: (2, 3)}, size_bytes=1000)
        cluster.cluster_id = f"cluster-at-{settings.bootstrap_servers.partition(':')[0]}"
        return ReadOnlyAdmin(cluster)


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Clusters:
    clusters = Clusters()
    monkeypatch.setattr(wiring, "open_admin", clusters.open_admin)
    return clusters


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A user with a default profile that the tests do not mean, and another one."""
    home = Home(tmp_path)
    home.write_config("bootstrap_server: wrong:1\n", "profiles.d/wrong.yaml")
    home.write_config("bootstrap_server: right:1\nzookeeper: {addr: 'zk:2181'}\n", "profiles.d/right.yaml")
    assert home.run("profile", "use", "wrong").code == 0
    return home


@pytest.mark.parametrize("command", PLANNING, ids=lambda c: c[0])
@pytest.mark.parametrize("is_variable", [False, True])
def test_zookeeper_s_address_never_ends_at_a_default_profile(
    home: Home, clusters: Clusters, command: tuple[str, ...], is_variable: bool
) -> None:
    if command[0] not in WITH_ZOOKEEPER:
        pytest.skip("takes no ZooKeeper")
    words = (*command, *(() if is_variable else ("--zk-addr", "zk:2181")))
    env = {"TOPICMAPPR_ZK_ADDR": "zk:2181"} if is_variable else {}
    ran = home.run("topicmappr", *words, env=env)
    assert (ran.code, ran.stdout, clusters.asked) == (2, "", [])
    origin = "env TOPICMAPPR_ZK_ADDR" if is_variable else "flag --zk-addr"
    assert f"ZooKeeper zk:2181 is named ({origin}), but the Kafka cluster would come from profile wrong (from " in (
        ran.stderr
    )
    assert "pass --bootstrap-server HOST:PORT or --profile NAME (--profile wrong to keep it)" in ran.stderr
    for chosen in (("-B", "right:1"), ("--profile", "right")):
        ran = home.run("topicmappr", *words, *chosen, env=env)
        assert ran.code == 0, ran.stderr
    assert set(clusters.asked) == {"right:1"}


def test_a_profile_of_the_environment_is_weaker_than_an_option(home: Home, clusters: Clusters) -> None:
    env = {"KAFKAKIT_PROFILE": "wrong"}
    ran = home.run("topicmappr", *CHECK, "--zk-addr", "zk:2181", env=env)
    assert (ran.code, "profile wrong (from env KAFKAKIT_PROFILE)" in ran.stderr, clusters.asked) == (2, True, [])
    assert home.run("topicmappr", *CHECK, env={**env, "TOPICMAPPR_ZK_ADDR": "zk:2181"}).code == 0


def test_the_profile_whose_zookeeper_it_is_may_be_the_default(home: Home, clusters: Clusters) -> None:
    home.run("profile", "use", "right")
    assert home.run("topicmappr", *CHECK, "--zk-addr", "zk:2181").code == 0
    assert home.run("topicmappr", *CHECK, "--zk-addr", "zk2:2181").code == 2
    assert clusters.asked == ["right:1"]


GIVEN: tuple[tuple[tuple[str, ...], dict[str, str]], ...] = (
    (("-B", "right:1"), {}),
    (("-X", "bootstrap_server=right:1"), {}),
    (("-X", "bootstrap.servers=right:1"), {}),
    (("--kafka-addr", "right:1"), {}),
    ((), {"KAFKAKIT_BOOTSTRAP_SERVER": "right:1"}),
    ((), {"TOPICMAPPR_KAFKA_ADDR": "right:1"}),
    (("--command-config", "client.properties"), {}),
)


@pytest.mark.parametrize(("words", "env"), GIVEN)
@pytest.mark.parametrize("is_gone", [False, True])
def test_an_address_that_is_given_takes_the_place_of_a_default_profile(
    home: Home, clusters: Clusters, words: tuple[str, ...], env: dict[str, str], is_gone: bool
) -> None:
    home.work.mkdir(exist_ok=True)
    (home.work / "client.properties").write_text("bootstrap.servers=right:1\n")
    if is_gone:
        (home.config / "profiles.d" / "wrong.yaml").unlink()
    for command in (CHECK, ("frontier",)):
        ran = home.run("topicmappr", *command, *words, env=env)
        assert ran.code == 0, ran.stderr
        assert "cluster cluster-at-right" in "\n".join(ran.stdout.splitlines()[:3])
        assert "wrong" not in ran.stdout + ran.stderr
    assert set(clusters.asked) == {"right:1"}


def test_an_address_does_not_meet_the_login_of_a_default_profile(home: Home) -> None:
    home.write_config("bootstrap_server: wrong:1\nsecurity: {protocol: SSL}\n", "profiles.d/wrong.yaml")
    shown = home.run("profile", "show", "-B", "right:1", "-o", "json").json
    assert (shown["profile"], shown["values"]["security.protocol"]["origin"]) == (None, "default")
    named = home.run("profile", "show", "-B", "right:1", "--profile", "wrong", "-o", "json").json
    assert (named["profile"], named["values"]["security.protocol"]["value"]) == ("wrong", "SSL")


def test_the_command_that_is_printed_is_for_the_same_cluster(home: Home, clusters: Clusters) -> None:
    for words, env in GIVEN:
        home.work.mkdir(exist_ok=True)
        (home.work / "client.properties").write_text("bootstrap.servers=right:1\n")
        drain = ("rebuild", "--topics", "t", "--brokers", "1,3", "--force-rebuild", "--plan", "p.json")
        ran = home.run("topicmappr", *drain, *words, env=env)
        assert ran.code == 0, ran.stderr
        (line,) = [line for line in ran.stdout.splitlines() if " reassign apply " in line]
        assert "right:1" in line or "client.properties" in line
    assert set(clusters.asked) == {"right:1"}


@pytest.mark.parametrize("command", PLANNING, ids=lambda c: c[0])
def test_a_text_names_cluster_and_profile_first(home: Home, clusters: Clusters, command: tuple[str, ...]) -> None:
    ran = home.run("topicmappr", *command)
    head = "\n".join(ran.stdout.splitlines()[:3])
    assert "cluster cluster-at-wrong (profile wrong)" in head, ran.stdout + ran.stderr
    data = home.run("topicmappr", *command, "-o", "json")
    assert data.code == ran.code
    assert data.json["kafkakit"]["command"].endswith(command[0])


@pytest.mark.parametrize("chosen", [("-B", "right:1"), ("--profile", "right")])
def test_a_plan_names_cluster_and_profile_first(home: Home, clusters: Clusters, chosen: tuple[str, str]) -> None:
    assert home.run("topicmappr", "drain", "--brokers", "1", "--plan", "p.json", *chosen).code == 0
    plan = json.loads((home.work / "p.json").read_bytes())
    names = {"profile": "right"} if chosen[0] == "--profile" else {}
    assert {name: plan[name] for name in list(plan)[1:3] if name != "created_at"} == {
        "cluster_id": "cluster-at-right", **names
    }  # fmt: skip


def test_a_snapshot_stays_a_document(home: Home, clusters: Clusters) -> None:
    assert json.loads(home.run("snapshot").stdout)["cluster_id"] == "cluster-at-wrong"


def test_without_an_address_the_hint_names_all_ways_to_give_one(tmp_path: Path) -> None:
    ran = Home(tmp_path).run("topicmappr", "check", "--zk-addr", "zk:2181")
    assert (ran.code, ran.stdout) == (2, "")
    for way in ("--bootstrap-server", "--profile", "--command-config", "-X bootstrap_server=", "--kafka-addr",
                "KAFKAKIT_BOOTSTRAP_SERVER", "KAFKAKIT_PROFILE", "TOPICMAPPR_KAFKA_ADDR", "profile use",
                "--zk-addr names only ZooKeeper"):  # fmt: skip
        assert way in ran.stderr


def test_a_default_profile_that_is_gone_is_told_with_where_it_is_named(home: Home) -> None:
    (home.config / "profiles.d" / "wrong.yaml").unlink()
    ran = home.run("snapshot")
    assert ran.code == 2
    assert f"hint: it is named by profile use ({home.state / 'current-profile'})" in ran.stderr


@pytest.mark.parametrize(("text", "expected"), [
    ("", ""),
    ("a\n", "cluster c (profile p)\na\n"),
    ("plan of cluster c: 3\n", "plan of cluster c (profile p): 3\n"),
    ("1\n2\ncluster c\n", "1\n2\ncluster c (profile p)\n"),
    ("1\n2\n3\ncluster c\n", "cluster c (profile p)\n1\n2\n3\ncluster c\n"),
])  # fmt: skip
def test_where_the_cluster_is_named(text: str, expected: str) -> None:
    report = Report(command="x", data={}, text=text)
    assert report.naming("c", "p").text == expected
    assert Report(command="x", data={}, text=text, is_document=True).naming("c", "p").text == text


def test_a_hint_of_an_error_names_the_same_cluster(home: Home, clusters: Clusters) -> None:
    home.work.mkdir(exist_ok=True)
    assert home.run("snapshot", "-B", "right:1", "--no-sizes", "--output-file", "s.json").code == 0
    for words, called in (
        (("-B", "right:1"), "kafkakit --bootstrap-server right:1"),
        (("--profile", "right"), "kafkakit --profile right"),
    ):
        ran = home.run("topicmappr", "rebalance", "--snapshot", "s.json", "--topics", "t", "--brokers", "-2", *words)
        assert ran.code != 0
        assert f"hint: take one with sizes: {called} snapshot --output-file snapshot.json" in ran.stderr
