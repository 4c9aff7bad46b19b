"""An address that is given is the cluster that is used, never a default profile's; plans and texts name the cluster."""

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkakit import wiring
from kafkakit.adapters.kafka import session
from kafkakit.adapters.read_only import ReadOnlyAdmin
from kafkakit.core.model import Broker, ClusterSnapshot, Partition, Topic
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.report.report import RawDocument, Report
from tests.clusters.strategies import TAKEN_AT
from tests.fakes.admin import FakeCluster
from tests.rigs.command_line import Home
from tests.rigs.printed_commands import _root
from tests.rigs.printed_repairs import save
from tests.unit.adapters.test_certificates import broker

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
    report = Report(command="x", data={}, sections=text.splitlines())
    assert report.naming("c", "p").text == expected
    assert Report(command="x", data={}, sections=(RawDocument(text),)).naming("c", "p").text == text


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


# -- a wrong password ----------------------------------------------------------------------------------

AT_THE_CLUSTER = """
topicmappr rebuild --brokers -1 --topics t
topicmappr rebalance --brokers -1 --topics t
topicmappr scale --brokers -1 --topics t
topicmappr rebalance-dirs
topicmappr drain --brokers 1
topicmappr repair
topicmappr add-brokers --brokers 4
topicmappr set-replication 2 --topics t
topicmappr fix-racks
topicmappr check
topicmappr place t --partitions 1
topicmappr leaders
topicmappr frontier
topicmappr audit map.json
topicmappr replan plan.json
reassign apply plan.json --yes
reassign apply map.json --yes
reassign rollback plan.json --yes
reassign abort plan.json --yes
reassign close plan.json
reassign verify plan.json
reassign status
reassign list
reassign throttle plan.json 5MB
reassign cleanup --yes
reassign simulate plan.json
config plan broker:1:num.io.threads=8
config resume
config abort
config rollback
config watch
config diff profile:p profile:k
autothrottle set 5MB
autothrottle remove
autothrottle once --rate 5MB
autothrottle explain --rate 5MB
autothrottle show
broker drain 1
broker drain 1 --leaders-only
broker replace 1 --with 2
broker decommission 1
broker rejoin 1
broker cordon 1 --yes
broker uncordon 1 --yes
broker restart-check 1
broker restart-plan --all
broker restart-gate 1
metricsfetcher fetch
registry topics
registry brokers
registry tag topic:t a:b --yes
registry untag topic:t a
registry create n --partitions 1 --replication 1
registry delete t --yes
registry mappings --topic t
registry unmapped
registry translate-offsets g
registry migrate --from kafka --to file
registry cleanup
registry history
streams create s --cluster p
streams list
streams show s
streams history s
streams delete s --yes
streams link s --topic t
streams topology
streams resolve s
streams reconcile s s2
streams move s --to p
streams repartition s --lane live --partitions 4
streams evacuate k --to p
streams pathway t
streams lane list s
streams lane add s l
streams lane quota s l 1MB
streams lane pause s l
streams lane resume s l
streams lane remove s l
streams lane rules s
streams assigner show
streams assigner drain w
streams assigner explain s g
streams bombs scan t
streams bombs watch t
streams bombs quarantine t --partition 0
streams commits show g
streams commits explain g
streams commits watch g
streams commits verify --all
streams commits limits
streams commits reset g --all-topics --to earliest
streams commits skip g --offsets 1 --topic t --partition 0
streams commits unack g --offsets 1 --topic t --partition 0
streams commits reject g --offsets 1 --topic t --partition 0
streams commits translate g --all-topics --to plain
streams commits delete g --all --apply --yes
streams dlq list s
streams dlq show s t/0@1
streams dlq replay s
streams dlq copy s
streams failover plan s --to p
streams failover run s --to p --yes
streams failover back s --yes
streams failover status s
streams failover resume s --yes
streams failover abort s --yes
streams failover certify s
streams failover retire s --yes
streams failover reclaim s --yes
streams failover rehearse s --to p
streams failover history s
streams lag once
streams lag check
streams lag share-groups
streams records show t/0@1
lint --live
snapshot
profile check
topic list
topic describe t
topic create n --partitions 1 --replication 1
topic alter t --partitions 9 --yes
topic delete t --yes
partition list
partition describe t/0
group list
group describe g
broker list
broker describe 1
cluster describe
acl list
quota list
record tail t
"""
"""Each command that connects, as it is given; those of streams with a control store on the cluster."""

TELLS_AND_GOES_ON = {
    "config history": "tells what this host knows",
    "doctor": "a finding of its report",
    "status": "says so in the line of each part",
    "ui": "a service",
    "fleet collect": "a cluster of several",
    "autothrottle run": "a service",
    "registry serve": "a service",
    "streams assigner run": "a service",
    "streams lag serve": "a service",
    "streams lag watch": "goes on until it is stopped",
    "streams demo": "makes its own clusters",
}
NEEDS_WHAT_ONLY_A_CLUSTER_GAVE = {
    "reassign resume", "reassign pause", "reassign continue", "config apply", "streams balance",
    "streams verify-drain", "streams commits replay", "streams commits undo", "streams commits finish",
    "streams dlq purge", "registry apply", "registry import-labels",
}  # fmt: skip
OFFLINE = {
    "topicmappr explain", "topicmappr version", "topicmappr completion", "autothrottle simulate", "autothrottle unit",
    "autothrottle version", "autothrottle completion", "metricsfetcher show", "metricsfetcher unit",
    "metricsfetcher version", "metricsfetcher completion", "registry version", "registry completion",
    "streams lane route", "streams assigner simulate", "streams commits decode", "streams commits encode",
    "streams commits diff", "fleet segments", "profile add", "profile import", "profile list", "profile show",
    "profile use", "version", "completion",
}  # fmt: skip


def leaves(commands: Any, above: str = "") -> Iterator[str]:
    for name, command in commands.items():
        below = getattr(command, "commands", None)
        yield from leaves(below, f"{above}{name} ") if below else (f"{above}{name}",)


def verb_of(line: str, verbs: Collection[str]) -> str:
    return max((verb for verb in verbs if f"{line} ".startswith(f"{verb} ")), key=len)


def test_each_command_calls_a_refused_login_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verbs = {verb for verb in leaves(_root().loaded()) if verb.split()[0] not in ("audit", "sandbox")}
    lines = AT_THE_CLUSTER.strip().splitlines()
    elsewhere = {*TELLS_AND_GOES_ON, *NEEDS_WHAT_ONLY_A_CLUSTER_GAVE, *OFFLINE}
    assert {verb_of(line, verbs) for line in lines} == verbs - elsewhere

    # The client of Kafka tries for seconds whatever the answer is; the reason is asked for after that.
    connect = session._new_client
    monkeypatch.setattr(session, "_new_client", lambda at, security, limit_s, _: connect(at, security, limit_s, 0.05))
    home, password = Home(tmp_path), tmp_path / "password"
    password.write_text("wrong\n")
    password.chmod(0o600)
    partition = Partition(partition=0, replicas=(1, 2), isr=(1, 2), leader=1)
    brokers = tuple(Broker(id=n, rack="a", host="h", port=1) for n in (1, 2, 3))
    save(home, ClusterSnapshot(
        cluster_id="c", taken_at=TAKEN_AT, source="test", brokers=brokers,
        topics=(Topic(name="t", partitions=(partition,)),),
    ))  # fmt: skip
    (home.work / "map.json").write_text('{"partitions":[{"topic":"t","partition":0,"replicas":[2,3]}]}')
    planned = (
        "--brokers",
        "2,3",
        "--topics",
        "t",
        "--min-rack-ids",
        "1",
        "--snapshot",
        "s.json",
        "--plan",
        "plan.json",
    )
    assert home.run("topicmappr", "rebuild", *planned).code == 0

    with broker(mechanisms=["PLAIN"]) as address:
        sasl = f"{{mechanism: PLAIN, username: x, password_file: {password}}}"
        settings = f"bootstrap_server: {address}\nsecurity: {{protocol: SASL_PLAINTEXT, sasl: {sasl}}}\n"
        home.write_config(settings, "profiles.d/p.yaml")
        home.write_config(f"{settings}control_store: kafka\n", "profiles.d/k.yaml")
        for line in lines:
            profile = "k" if line.startswith(("streams", "registry migrate")) else "p"
            ran = home.run("--profile", profile, *line.split())
            assert (ran.code, "login refused (PLAIN, user x)" in ran.stderr) == (2, True), (line, ran)
            is_plugin = line == "streams lag check"  # one line for the monitoring, without a hint
            assert is_plugin or f"kafkakit --profile {profile} doctor" in ran.stderr, (line, ran.stderr)
        seen = home.run("--profile", "p", "status")
        assert (seen.code, "login refused (PLAIN, user x)" in seen.stdout) == (2, True)
        told = home.run("--profile", "p", "doctor")
        assert "login refused (PLAIN, user x)" in told.stdout
        kept = home.run("--profile", "p", "config", "history")
        assert (kept.code, "login refused (PLAIN, user x)" in kept.stderr) == (0, True)
