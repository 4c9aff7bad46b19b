"""Command lines and environments of kafka-kit's autothrottle, run against a loopback Datadog."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkakit import wiring
from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.throttle import FOLLOWER_RATE, LEADER_RATE
from tests.cli.test_autothrottle import SET, Desk, stop_after
from tests.rigs.command_line import Ran
from tests.rigs.metrics_http import Datadog, Reply, serving

KEYS = {"AUTOTHROTTLE_API_KEY": "api-k3y", "AUTOTHROTTLE_APP_KEY": "app-k3y"}
COPIES = ("--copies-tx-query", "avg:copies.out{*} by {host}", "--copies-rx-query", "avg:copies.in{*} by {host}")
SMALL = (*COPIES, "--law", "headroom", "--cap-map", '{"big": 1, "huge": 4}', "--min-rate", "10kB")


class Org:
    """A desk whose brokers are hosts of Datadog, with 300 kB/s of clients each."""

    def __init__(self, desk: Desk, url: str, datadog: Datadog) -> None:
        self.desk, self.url, self.datadog = desk, url, datadog
        self.open_admin: list[Any] = []

    def run(self, *words: str, **env: str) -> Ran:
        environment = {"DATADOG_HOST": self.url, **KEYS, **env}
        ran = self.desk.home.run("--profile", "p", "autothrottle", *words, env=environment)
        assert "k3y" not in ran.stdout + ran.stderr
        return ran


@pytest.fixture
def org(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Org]:
    desk = Desk(tmp_path)
    datadog = Datadog(lambda: desk.clock.now().timestamp())
    for broker in (1, 2, 3):
        datadog.add(f"host-{broker}", broker, sent=300_000.0, received=300_000.0)
    with serving(datadog) as server:
        made = Org(desk, server.url, datadog)

        def open_admin(settings: Any, **words: Any) -> Any:
            made.open_admin.append(settings)
            return desk.open_admin(settings, **words)

        monkeypatch.setattr(wiring, "open_admin", open_admin)
        monkeypatch.setattr(wiring, "system_clock", lambda: desk.clock)
        yield made


def test_datadogs_traffic_and_kafka_kits_map_decide_the_rates(org: Org) -> None:
    org.desk.begin()
    ran = org.run("once", *SMALL)
    assert (ran.code, ran.stderr) == (0, "")
    assert org.desk.configs()["broker 3"] == {FOLLOWER_RATE: "630000"}
    assert org.desk.configs()["broker 1"] == {LEADER_RATE: "630000"}


def test_the_slo_law_takes_them_too_and_options_go_before_the_file(org: Org) -> None:
    org.desk.begin()
    file = org.desk.home.folder / "capacities.yaml"
    file.write_text("brokers:\n  3: 500kB\ninstance_types:\n  big: 2MB\n")
    words = ["explain", *COPIES, "--min-rate", "1kB", "--cap-map", '{"big": 1}', "--capacity-file", str(file)]
    words += ["-o", "json"]
    reasons = {(r["broker"], r["direction"]): r["why"] for r in org.run(*words).json["reasons"]}
    assert reasons[3, "in"] == "500 kB/s less 10% reserve and 300 kB/s of clients"
    own = org.run(*words, "--broker-capacity", "3:9MB").json["reasons"]
    assert {r["why"] for r in own if r["broker"] == 1} == {"1 MB/s less 10% reserve and 300 kB/s of clients"}


def test_a_window_that_ended_some_time_ago_is_new_enough(org: Org) -> None:
    """Datadog's points are of whole windows: the last one that is there may have ended a window ago."""
    org.desk.begin()
    begun_ms = org.desk.clock.now().timestamp() * 1000 - 200_000
    org.datadog.points = {f"host-{n}": [(begun_ms, 300_000.0)] for n in (1, 2, 3)}
    words = ("explain", *COPIES, "--min-rate", "1kB", "--cap-map", '{"big": 1}', "-o", "json")
    reasons = org.run(*words).json["reasons"]
    assert {r["why"] for r in reasons} == {"1 MB/s less 10% reserve and 300 kB/s of clients"}


def test_one_host_that_is_unknown_stops_no_other_rate(org: Org) -> None:
    org.desk.begin()
    org.datadog.tags["host-3"] = ["broker_id:3", "instance-type:odd"]
    org.datadog.tags["host-2"] = []
    ran = org.run("once", *SMALL)
    assert ran.code == 0
    assert org.desk.configs()["broker 1"] == {LEADER_RATE: "630000"}
    assert "no tag tells the broker's id: host host-2" in ran.stdout
    assert "no capacity is stated for the instance type of broker 3 (odd)" in ran.stdout


def test_when_datadog_is_away_rates_stay(org: Org) -> None:
    org.desk.begin()
    assert org.run("once", *SMALL).code == 0
    before = org.desk.configs()
    for reply in (Reply({"errors": ["Rate limit"]}, 429, {"Retry-After": "30"}), Reply({}, 503), Reply(b"<html>")):
        org.datadog.faults["bytes"] = reply
        ran = org.run("once", *SMALL, "--failure-threshold", "9")
        assert (ran.code, org.desk.configs()) == (0, before)
    assert org.run("once", *SMALL, DATADOG_HOST="http://127.0.0.1:9", DD_SITE="x").code == 0


def test_the_service_takes_a_command_line_of_kafka_kit_and_tells_events(org: Org) -> None:
    org.desk.begin()
    stop_after(org.desk, 400)
    line = """
        run -law=headroom -kafka-native-mode=true -min-rate 0.01 -max-tx-rate=80 --interval 180 -api-listen 127.0.0.1:0
        -bootstrap-servers kafka:9092 -zk-addr zk:2181 -zk-prefix kafka -broker-id-tag=broker_id -cleanup-after 5
        -instance-type-tag instance-type -metrics-window=120 -cap-map '{"big": 1}' -skip-auto-delete-throttles=false
        -dd-event-tags team:x,env:y -o json
    """
    ran = org.run(*shlex.split(line), *COPIES, AUTOTHROTTLE_KAFKA_API_REQUEST_TIMEOUT="7")
    assert ran.code == 143, ran.stderr
    (settings, *_) = org.open_admin
    assert (settings.bootstrap_servers, settings.request_timeout_s) == ("kafka:9092", 7.0)
    assert (settings.zookeeper_addr, settings.zookeeper_prefix) == ("zk:2181", "kafka")
    assert [title for title, _, _ in org.datadog.events] == [
        "[kafka-autothrottle] Broker replication throttle set",
        "[kafka-autothrottle] Topics done reassigning",
        "[kafka-autothrottle] Broker replication throttle removed",
    ]
    assert "[1, leader, 0.56], " in org.datadog.events[0][1]
    assert org.datadog.events[0][2] == ["name:kafka-autothrottle", "team:x", "env:y"]
    lines = [json.loads(line) for line in ran.stderr.splitlines() if line.startswith("{")]
    ticks = [line["tick"] for line in lines if "tick" in line]
    assert [tick["moves"] for tick in ticks][:1] == [1]
    assert ticks[0]["reasons"][0]["rate_bytes_per_s"] == 560_000
    assert {"leads from now on"} <= {line["message"] for line in lines}
    assert all(set(line) <= {"at", "message", "tick"} for line in lines)


def test_events_can_be_left_out_and_a_failure_of_them_fails_no_tick(org: Org) -> None:
    org.desk.begin()
    stop_after(org.desk, 30)
    words = ("run", *SMALL, "--listen", "none", "--interval", "10")
    assert org.run(*words, "--no-dd-events").code == 143
    assert org.datadog.events == []
    org.desk.clock.sleep(1000)
    org.desk.cluster.reassign({TopicPartition("t", 0): (1, 2)})
    org.datadog.faults["/events"] = Reply({"errors": ["Forbidden api-k3y"]}, 403)
    stop_after(org.desk, 30)
    ran = org.run(*words)
    assert ran.code == 143
    assert "warning: an event could not be sent" in ran.stderr
    assert org.desk.configs()["broker 1"]


GIVEN = [
    ("kafka-native-mode", "true"),
    ("kafka-api-request-timeout", "15"),
    ("net-tx-query", "avg:system.net.bytes_sent{*} by {host}"),
    ("net-rx-query", "avg:system.net.bytes_rcvd{*} by {host}"),
    ("broker-id-tag", "broker_id"),
    ("instance-type-tag", "instance-type"),
    ("metrics-window", "120"),
    ("bootstrap-servers", "kafka:9092"),
    ("zk-addr", "zk:2181"),
    ("zk-prefix", "kafka"),
    ("dd-event-tags", "a:b"),
    ("min-rate", "10"),
    ("max-tx-rate", "90"),
    ("max-rx-rate", "90"),
    ("change-threshold", "10"),
    ("failure-threshold", "1"),
    ("cap-map", '{"big": 1}'),
    ("cleanup-after", "60"),
    ("interval", "180"),
    ("api-listen", "localhost:0"),
    ("skip-auto-delete-throttles", "false"),
    ("version", "false"),
]


@pytest.mark.parametrize(("name", "value"), GIVEN)
@pytest.mark.parametrize("how", ["flag", "go", "variable"])
def test_every_flag_and_variable_of_kafka_kit_is_taken(org: Org, name: str, value: str, how: str) -> None:
    stop_after(org.desk, 2)
    words = {"flag": [f"--{name}={value}"], "go": [f"-{name}={value}"], "variable": []}[how]
    env = {f"AUTOTHROTTLE_{name.upper().replace('-', '_')}": value} if how == "variable" else {}
    listen = () if name == "api-listen" else ("--listen", "none")
    ran = org.run("run", *listen, "--law", "headroom", *words, **env)
    assert ran.code == 143, ran.stderr
    assert "leads from now on" in ran.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--api-key", "hidden-key"), "--api-key-file"),
        (("-app-key=hidden-key",), "--api-key-file"),
        (("--skip-auto-delete-throttles",), "is not supported"),
        (("-version",), "kafkakit --version"),
        (("--cap-map", "{"), "--cap-map: not valid JSON"),
        (("--cap-map", '{"a": 0}'), "no capacity"),
        (("--capacity-file", "missing.yaml"), "missing.yaml"),
        (("--min-rate", "5000000"), "has no unit"),
        (("--metrics-window", "soon"), "--metrics-window"),
        (("--interval", "0"), "--interval"),
        (("--source", "prometheus", "--instance-type-tag", "a-b"), "no name of a label"),
        (("--datadog-site", "http://example.org"), "no site of Datadog"),
        (("--max-tx-rate", "100"), "max-tx-rate"),
    ],
)
def test_what_is_not_taken_is_told_in_a_line(org: Org, words: tuple[str, ...], said: str) -> None:
    ran = org.run("run", "--listen", "none", "--law", "headroom", *words)
    assert ran.code == 2
    assert said in ran.stderr
    assert "hidden-key" not in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr


def test_keys_may_be_files_and_are_needed(org: Org) -> None:
    for name in ("api", "app"):
        file = org.desk.home.folder / name
        file.write_text("file-k3y\n")
        file.chmod(0o600)
    org.desk.begin()
    files = [word for name in ("api", "app") for word in (f"--{name}-key-file", str(org.desk.home.folder / name))]
    none = dict.fromkeys(KEYS, "")
    assert org.run("once", *SMALL, *files, **none).code == 0
    lacks = org.run("once", *SMALL, "--source", "datadog", **none)
    assert (lacks.code, "DD_API_KEY" in lacks.stderr) == (2, True)
    assert "630000" in org.desk.configs()["broker 3"].values()


def test_without_options_of_a_service_the_brokers_alone_are_asked(org: Org) -> None:
    org.desk.begin()
    ran = org.run("once", "--rate", "100kB", "--source", "brokers")
    assert (ran.code, org.desk.configs()) == (0, SET)
    plain = org.run("explain", "--capacity", "1MB", "--client-rate", "100kB", **dict.fromkeys(KEYS, ""), DD_API_KEY="x")
    assert "clients leave 800 kB/s" in plain.stdout


def test_a_zookeeper_beside_a_default_profile_is_refused(org: Org) -> None:
    org.desk.home.write_config("profile: p\n")
    ran = org.desk.home.run("autothrottle", "set", "40MB", "--zk-addr", "zk:2181", "--zk-config-prefix", "autothrottle")
    assert (ran.code, "zk:2181" in ran.stderr) == (2, True)


def test_a_unit_has_the_words_for_capacities_and_no_keys(org: Org) -> None:
    line = org.run("unit", "--format", "cron", "--source", "datadog", "--cap-map", '{"a b": 1}').stdout
    assert "--source datadog --cap-map '{\"a b\": 1}'" in line
    service = org.run("unit", "--format", "systemd", "--source", "datadog").stdout
    assert "EnvironmentFile=-/etc/kafkakit/autothrottle.env\n" in service
