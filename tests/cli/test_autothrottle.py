"""`kafkakit autothrottle` as an operator, a timer and a service manager run it.

Command lines and environments of kafka-kit's autothrottle, run against a loopback Datadog.
"""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from kafkakit import wiring
from kafkakit.adapters.control_file import FileControl
from kafkakit.adapters.files import write_file
from kafkakit.adapters.host import life_of, this_holder
from kafkakit.core.cluster_facts import MetricSample
from kafkakit.core.errors import OperationFailedError, TerminationRequested, TryLaterError
from kafkakit.core.lease import pacer_lease
from kafkakit.core.model import TopicPartition
from kafkakit.execution.act.leases import Lease
from kafkakit.execution.decide.throttle import FOLLOWER_LIST, FOLLOWER_RATE, LEADER_LIST, LEADER_RATE
from tests.fakes.admin import FakeClock, FakeCluster
from tests.fakes.control import FakeControlStore
from tests.rigs.command_line import ClusterDesk, Ran
from tests.rigs.metrics_http import Datadog, Reply, serving
from tests.rigs.printed_repairs import command_in, hint_of

MB = 1_000_000
CLUSTER = "fake-cluster"
SET_AUTOTHROTTLE = {
    "broker 1": {LEADER_RATE: "100000"},
    "broker 2": {LEADER_RATE: "100000"},
    "broker 3": {FOLLOWER_RATE: "100000"},
    "topic t": {LEADER_LIST: "0:2,0:1", FOLLOWER_LIST: "0:3"},
}


class AutothrottleDesk(ClusterDesk):
    """A host that runs pacers, and a cluster on which another tool moves partitions."""

    command = ("autothrottle",)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, FakeCluster({1: "a", 2: "b", 3: "c"}, line_rate=MB))
        self.cluster.add_topic("t", {0: (1, 2)}, size_bytes=20 * MB)

    def begin(self) -> None:
        self.cluster.reassign({TopicPartition("t", 0): (3, 2)})
        self.cluster.calls.clear()

    def configs(self) -> dict[str, dict[str, str]]:
        return {name: values for name, values in self.cluster.configs().items() if values}

    def store(self) -> FileControl:
        return FileControl(self.home.state / "control", write_file)

    @contextmanager
    def led_by_another(self) -> Iterator[None]:
        holder = this_holder("autothrottle run")
        lease = Lease(
            self.store(), self.clock, pacer_lease(CLUSTER), holder, what="it", life_of=life_of, say=lambda _: None
        )
        lease.acquire()
        try:
            yield
        finally:
            lease.release()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AutothrottleDesk:
    return AutothrottleDesk(tmp_path).sit(monkeypatch)


def test_once_says_what_changed_and_is_quiet_when_nothing_did(desk: AutothrottleDesk) -> None:
    idle = desk.run("once", "--rate", "100kB")
    assert (idle.code, idle.stdout, idle.stderr) == (0, "", "")
    desk.begin()
    ran = desk.run("once", "--rate", "100kB")
    assert (ran.code, ran.stderr, desk.configs()) == (0, "", SET_AUTOTHROTTLE)
    assert "1 move" in ran.stdout
    again = desk.run("once", "--rate", "100kB")
    assert (again.code, again.stdout, again.stderr) == (0, "", "")
    desk.clock.sleep(1000)
    ended = desk.run("once", "--rate", "100kB", "-o", "json")
    assert (ended.code, desk.configs(), ended.json["moves"]) == (0, {}, 0)


@pytest.mark.parametrize("verb", ["once", "run"])
def test_a_dry_run_says_what_a_tick_would_set_and_sets_nothing(desk: AutothrottleDesk, verb: str) -> None:
    desk.begin()
    with desk.led_by_another():
        ran = desk.run(verb, "--rate", "100kB", "--dry-run")
        found = desk.run(verb, "--rate", "100kB", "--dry-run", "-o", "json")
    assert (ran.code, ran.stderr, desk.configs()) == (0, "", {})
    assert "100 kB/s" in ran.stdout
    assert (found.json["kafkakit"]["command"], found.json["moves"], found.json["dry_run"]) == (
        f"autothrottle {verb}",
        1,
        True,
    )
    assert desk.run("once", "--rate", "100kB").code == 0
    desk.clock.sleep(1000)
    ended = desk.run(verb, "--rate", "100kB", "--dry-run")
    assert "no moves run: 5 throttle settings of the pacer would be removed" in ended.stdout
    assert desk.configs() == SET_AUTOTHROTTLE


def test_once_ends_with_75_while_another_pacer_leads(desk: AutothrottleDesk) -> None:
    desk.begin()
    with desk.led_by_another():
        ran = desk.run("once", "--rate", "100kB")
    assert (ran.code, ran.stdout, desk.cluster.calls) == (75, "", [])
    assert "autothrottle run" in ran.stderr


def test_once_fails_where_a_throttle_cannot_be_removed(desk: AutothrottleDesk) -> None:
    desk.begin()
    assert desk.run("once", "--rate", "100kB").code == 0
    desk.clock.sleep(1000)
    desk.cluster.kill(3)
    ran = desk.run("once", "--rate", "100kB")
    assert ran.code == 1
    assert "broker 3" in ran.stderr


def test_explain_changes_nothing_and_names_every_rate(desk: AutothrottleDesk) -> None:
    desk.begin()
    ran = desk.run("explain", "--rate", "100kB", "-o", "json")
    assert (ran.code, desk.configs(), desk.cluster.calls) == (0, {}, [])
    assert {(r["broker"], r["direction"], r["rate_bytes_per_s"]) for r in ran.json["reasons"]} == {
        (1, "out", 100_000),
        (3, "in", 100_000),
    }
    assert "given by --rate" in desk.run("explain", "--rate", "100kB").stdout


def test_show_tells_ours_from_those_of_others(desk: AutothrottleDesk) -> None:
    desk.cluster.brokers[2].configs[LEADER_RATE] = "777"
    desk.begin()
    desk.run("once", "--rate", "100kB")
    ran = desk.run("show")
    assert f"set by the pacer: broker 1 {LEADER_RATE}=100000" in ran.stdout
    assert f"set by others, not changed: broker 2 {LEADER_RATE}=777" in ran.stdout
    assert "law fixed, 1 move" in ran.stdout
    found = desk.run("show", "-o", "json").json
    assert {t["set_by"] for t in found["throttles"] if t["name"] == "2"} == {"others"}
    assert desk.cluster.calls
    assert found["leader"] is None


def test_overrides_are_set_for_all_and_for_one_and_removed(desk: AutothrottleDesk) -> None:
    assert desk.run("set", "40MB", "--autoremove").stdout.endswith(
        "override for all brokers: in 40 MB/s, out 40 MB/s, until the moves end\n"
    )
    assert desk.run("set", "--broker", "3", "--in", "10kB", "-o", "json").json["overrides"]["3"] == {
        "in": 10_000,
        "out": None,
        "autoremove": False,
    }
    desk.begin()
    assert desk.run("once", "--rate", "100kB").code == 0
    assert desk.configs()["broker 3"] == {FOLLOWER_RATE: "10000"}
    assert desk.configs()["broker 1"] == {LEADER_RATE: str(40 * MB)}
    assert desk.run("remove", "--all-brokers", "--dry-run", "-o", "json").json["overrides"].keys() == {"all"}
    planned = desk.run("remove", "--broker", "3", "--dry-run").stdout
    assert "would remove the override for broker 3: in 10 kB/s\nnothing was changed" in planned
    assert desk.run("set", "1MB", "--dry-run").stdout.splitlines()[1:3] == [
        "nothing was changed; afterwards there would be:",
        "override for all brokers: in 1 MB/s, out 1 MB/s",
    ]
    assert desk.run("set", "1MB", "--broker", "9999", "--dry-run").code == 2
    assert desk.run("show", "-o", "json").json["overrides"].keys() == {"all", "3"}
    assert desk.run("remove", "--all-brokers", "-o", "json").json["overrides"].keys() == {"all"}
    removed = "removed the override for all brokers: in 40 MB/s, out 40 MB/s, until the moves end\nno override is set\n"
    assert desk.run("remove").stdout.endswith(removed)
    assert desk.run("remove", "--broker", "3").stdout.endswith("nothing to remove\nno override is set\n")
    assert desk.run("once", "--rate", "100kB").code == 0
    assert desk.configs() == SET_AUTOTHROTTLE


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("once", "--law", "fixed"), "--rate is for --law fixed"),
        (("once", "--law", "slo", "--rate", "1MB"), "--rate is for --law fixed"),
        (("once", "--broker-capacity", "x:1MB"), "names no broker"),
        (("once", "--prometheus-url", "ftp://x"), "not an address of Prometheus"),
        (("set",), "no rate is given"),
        (("set", "fast"), "fast"),
        (("set", "1MB", "--zk-config-prefix", "autothrottle"), "no ZooKeeper address"),
        (("run", "--rate", "1MB", "--listen", "0.0.0.0:0"), "other machines"),
        (("run", "--rate", "1MB", "--token-file", "t", "--no-token"), "exclude each other"),
    ],
)
def test_what_cannot_be_read_is_a_usage_error(desk: AutothrottleDesk, words: tuple[str, ...], said: str) -> None:
    ran = desk.run(*words)
    assert ran.code == 2
    assert said in ran.stderr


def test_a_token_file_must_hold_a_token(desk: AutothrottleDesk, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("short\n")
    ran = desk.run("run", "--rate", "1MB", "--token-file", str(tmp_path / "token"))
    assert ran.code == 2
    assert "holds no token" in ran.stderr


def stop_after_autothrottle(desk: AutothrottleDesk, seconds: float) -> None:
    end = desk.clock.elapsed + seconds

    def stop(_: float) -> None:
        if desk.clock.elapsed >= end:
            desk.clock.on_sleep.remove(stop)
            raise TerminationRequested

    desk.clock.on_sleep.append(stop)


def test_the_service_adapts_until_it_is_stopped_and_throttles_stay(desk: AutothrottleDesk) -> None:
    desk.begin()
    stop_after_autothrottle(desk, 30)
    ran = desk.run("run", "--rate", "100kB", "--interval", "10s", "--listen", "none")
    assert (ran.code, desk.configs()) == (143, SET_AUTOTHROTTLE)
    assert ran.stderr.count("1 move,") == 3
    assert ran.stderr.endswith("stopped (SIGTERM); throttles of running moves stay set\n")
    assert "error:" not in ran.stderr
    desk.clock.sleep(1000)
    assert desk.run("once", "--rate", "100kB").code == 0
    assert desk.configs() == {}


def test_the_service_removes_its_throttles_at_the_end_on_request(desk: AutothrottleDesk) -> None:
    desk.begin()
    stop_after_autothrottle(desk, 30)
    ran = desk.run("run", "--rate", "100kB", "--listen", "none", "--remove-on-exit")
    assert (ran.code, desk.configs()) == (143, {})
    assert ran.stderr.endswith("stopped (SIGTERM); all of the pacer's throttles are removed\n")


def test_the_service_goes_on_when_the_cluster_or_a_broker_fails(desk: AutothrottleDesk) -> None:
    desk.begin()
    desk.cluster.fail_next("reassignments", OperationFailedError("the controller refuses"))
    desk.cluster.fail_next("alter_configs", TryLaterError("no answer"))
    stop_after_autothrottle(desk, 40)
    ran = desk.run("run", "--rate", "100kB", "--interval", "10s", "--listen", "none")
    assert (ran.code, desk.configs()) == (143, SET_AUTOTHROTTLE)
    assert "this tick failed" in ran.stderr


def test_the_service_sees_other_moves_long_before_its_interval_ends(desk: AutothrottleDesk) -> None:
    def begin(_: float) -> None:
        if desk.clock.elapsed >= 20:
            desk.clock.on_sleep.remove(begin)
            desk.begin()

    desk.clock.on_sleep.append(begin)
    stop_after_autothrottle(desk, 40)
    ran = desk.run("run", "--rate", "100kB", "--interval", "1h", "--listen", "none")
    assert (ran.code, desk.configs()) == (143, SET_AUTOTHROTTLE)


def test_the_slo_law_keeps_what_clients_need(desk: AutothrottleDesk) -> None:
    desk.begin()
    lacks = desk.run("once")
    assert (lacks.code, desk.configs()) == (2, {})
    assert "slo law" in lacks.stderr
    ran = desk.run("once", "--capacity", "1MB", "--client-rate", "500kB", "--min-rate", "10kB", "-o", "json")
    assert ran.code == 0, ran.stderr
    rate = int(desk.configs()["broker 3"][FOLLOWER_RATE])
    assert 10_000 <= rate <= 500_000
    again = desk.run("explain", "--capacity", "1MB", "--client-rate", "500kB", "-o", "json")
    assert {r["direction"] for r in again.json["reasons"]} == {"in", "out"}


def test_capacities_may_be_tags_of_brokers(desk: AutothrottleDesk) -> None:
    desk.begin()
    words = ("explain", "--capacity-tag", "network", "--client-rate", "300kB", "--min-rate", "1kB", "-o", "json")
    none = desk.run(*words)
    assert (none.code, none.json["error"]["message"]) == (2, "--capacity-tag: no broker has a tag 'network'")
    for broker, rate in ((1, "1MB"), (2, "1MB"), (3, "2MB")):
        tagged = desk.home.run("--profile", "p", "registry", "tag", "--brokers", str(broker), f"network:{rate}")
        assert tagged.code == 0, tagged.stderr
    reasons = {(r["broker"], r["direction"]): r["why"] for r in desk.run(*words).json["reasons"]}
    assert reasons[1, "out"] == "1 MB/s less 10% reserve and 300 kB/s kept for clients"
    own = desk.run(*words, "--broker-capacity", "1:500kB").json["reasons"]
    assert next(r["why"] for r in own if r["broker"] == 1).startswith("500 kB/s less")
    desk.home.run("--profile", "p", "registry", "tag", "--brokers", "3", "network:fast")
    bad = desk.run(*words)
    assert (bad.code, bad.json["error"]["message"]) == (2, "tag network of broker 3: 'fast' is not a rate")


@pytest.mark.parametrize("key", ["network", "net work"])
def test_the_command_that_a_missing_tag_names_gives_it(desk: AutothrottleDesk, key: str) -> None:
    desk.begin()
    words = ("once", "--capacity-tag", key, "--client-rate", "300kB")
    line = command_in(hint_of(desk.run(*words)))
    assert line[-2:] == ["--brokers", "ID"]
    assert desk.home.run(*line[:-1], "1,2,3").code == 0
    assert desk.run(*words).code == 0


def test_the_command_of_a_missing_rate_sets_one(desk: AutothrottleDesk) -> None:
    assert desk.home.run(*command_in(hint_of(desk.run("set")))).code == 0
    assert desk.run("show", "-o", "json").json["overrides"]["all"]["in"] == 40 * MB


def test_rates_of_others_are_taken_over_with_the_option_that_the_line_names(desk: AutothrottleDesk) -> None:
    for broker in desk.cluster.brokers.values():
        broker.configs |= {LEADER_RATE: "777", FOLLOWER_RATE: "777"}
    desk.begin()
    left = desk.run("once", "--rate", "100kB")
    assert (left.code, "left as it is without --take-over" in left.stdout) == (0, True), left.stdout
    assert "; no rates set; broker 1: another process has set " in left.stdout
    data = desk.run("once", "--rate", "100kB", "-o", "json").json
    assert (data["changes"], data["reasons"], data["rates"]["into_of"], data["rates"]["out_of"]) == (0, [], {}, {})
    assert desk.configs()["broker 3"][FOLLOWER_RATE] == "777"
    taken = desk.run("once", "--rate", "100kB", "--take-over")
    assert (taken.code, "--take-over" in taken.stdout) == (0, False)
    assert desk.configs()["broker 3"][FOLLOWER_RATE] == "100000"
    assert desk.configs()["broker 1"][LEADER_RATE] == "100000"
    assert "broker 3: in 100 kB/s" in taken.stdout, taken.stdout
    assert "broker 1: in" not in taken.stdout, "it only sends"
    assert "broker 3: out" not in taken.stdout, "it only receives"


@pytest.mark.parametrize(
    ("words", "wrong", "written"),
    [
        (("set", "1MB", "--broker", "9"), "9", r"its brokers: (\d+)"),
        (("once", "--capacity", "1MB", "--client-rate", "500kB", "--broker-capacity", "x"), "x", "write (.*)"),
        (("once", "--capacity", "1MB", "--client-rate", "500kB", "--min-rate", "5000"), "5000", "write ([^ ]*) or"),
        (("once", "--capacity", "1MB", "--client-rate", "500kB", "--min-rate", "5000"), "5000", ".* or (.*)"),
    ],
)
def test_what_a_hint_says_to_write_is_taken(
    desk: AutothrottleDesk, words: tuple[str, ...], wrong: str, written: str
) -> None:
    desk.begin()
    ran = desk.run(*words)
    assert ran.code == 2
    found = re.search(written, hint_of(ran))
    assert found is not None, ran.stderr
    ran = desk.run(*(found[1].replace("1003", "1") if word == wrong else word for word in words))
    assert ran.code == 0, ran.stderr


def test_all_names_the_throttles_that_the_line_counts(desk: AutothrottleDesk) -> None:
    for number in range(12):
        desk.cluster.add_topic(f"u{number}", {0: (1, 2)}, size_bytes=1)
        desk.cluster.topics[f"u{number}"].configs[LEADER_LIST] = "*"
    some = desk.run("show").stdout
    assert "and 2 more of others: --all names them" in some
    assert "u9" not in some
    assert desk.run("show", "--all").stdout.count("set by others, not changed") == 12


def test_the_headroom_law_takes_the_minimum_without_metrics(desk: AutothrottleDesk) -> None:
    desk.begin()
    words = ("once", "--law", "headroom", "--min-rate", "50kB", "--failure-threshold", "1", "-o", "json")
    assert desk.run(*words).json["rates"] is None
    assert desk.run(*words).code == 0
    assert desk.configs()["broker 3"] == {FOLLOWER_RATE: "50000"}


class Service:
    """A metrics service that knows every broker, until it is away."""

    source = "fake metrics"

    def __init__(self, clock: FakeClock) -> None:
        self.clock, self.is_away = clock, False

    def query(self, expression: str, at: datetime) -> tuple[MetricSample, ...]:
        if self.is_away:
            raise TryLaterError("the metrics service does not answer")
        value = 0.0 if "reassignment" in expression else 300_000.0
        return tuple(MetricSample({"broker_id": str(b)}, value, at) for b in (1, 2, 3))


def test_rates_leave_room_for_measured_clients_and_stay_when_the_metrics_are_away(
    desk: AutothrottleDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(desk.clock)
    monkeypatch.setattr(wiring, "open_prometheus", lambda *_: service)
    desk.begin()
    words = (
        "once",
        "--prometheus-url",
        "http://metrics",
        "--law",
        "headroom",
        "--capacity",
        "1MB",
        "--min-rate",
        "10kB",
    )
    assert desk.run(*words).code == 0
    assert desk.configs()["broker 3"] == {FOLLOWER_RATE: "630000"}
    before = desk.configs()
    service.is_away = True
    ran = desk.run(*words)
    assert (ran.code, desk.configs()) == (0, before)
    assert "the metrics service does not answer" in ran.stdout


def test_units_hold_the_options_that_were_given_and_no_others(desk: AutothrottleDesk) -> None:
    ran = desk.run("unit", "--format", "systemd", "--rate", "40MB", "--broker-label", "pod")
    line = next(x for x in ran.stdout.splitlines() if x.startswith("ExecStart="))
    assert line == (
        'ExecStart=/usr/local/bin/kafkakit "--profile" "p" "autothrottle" "run" "--rate" "40MB" "--broker-label" "pod"'
    )
    cron = desk.run("unit", "--format", "cron", "--law", "slo", "--capacity", "1GB", "-o", "json")
    assert cron.json["files"] == {
        "kafkakit-autothrottle.cron": "*/1 * * * * /usr/local/bin/kafkakit --profile p autothrottle once "
        "--law slo --capacity 1GB\n"
    }
    tagged = desk.run("unit", "--format", "cron", "--capacity-tag", "network", "--zk-tags-prefix", "registry").stdout
    assert tagged.endswith("once --zk-tags-prefix registry --capacity-tag network\n")
    api = desk.run(
        "unit", "--format", "systemd", "--interval", "5s", "--listen", "[::]:8080", "--token-file", "/t"
    ).stdout
    assert 'run" "--interval" "5s" "--listen" "[::]:8080" "--token-file" "/t"\n' in api
    assert "can be reached" in desk.run("unit", "--format", "systemd", "--listen", "0.0.0.0:8080").stderr
    assert desk.run("unit", "--format", "cron", "--interval", "5s").code == 2
    assert desk.run("unit", "--format", "k8s", "--rate", "40MB").code == 2
    k8s = ("unit", "--format", "k8s", "--rate", "40MB", "--image", "kit:1", "-o", "json")
    printed = desk.run(*k8s, "--listen", "127.0.0.1:9000").json["files"]["kafkakit-autothrottle.yaml"]
    assert [line.strip() for line in printed.splitlines() if "0.0.0.0" in line or "Port: " in line] == [
        "- 0.0.0.0:9000",
        "containerPort: 9000",
    ]
    assert "/run/secrets/kafkakit/autothrottle-token" in printed
    for words in (("--listen", "none"), ("--no-token",), ("--secret", "A")):
        assert desk.run(*k8s, *words).code == 2
    assert desk.run("unit", "--format", "cron", "--rate", "fast").code == 2


def test_rows_are_for_programs(desk: AutothrottleDesk) -> None:
    desk.begin()
    assert desk.run("once", "--rate", "100kB", "-o", "tsv").stdout.splitlines() == [
        "1\tout\t100000\tfixed\tgiven by --rate",
        "3\tin\t100000\tfixed\tgiven by --rate",
    ]
    assert f"broker\t1\t{LEADER_RATE}\t100000\tautothrottle" in desk.run("show", "-o", "tsv").stdout


KEYS = {"AUTOTHROTTLE_API_KEY": "api-k3y", "AUTOTHROTTLE_APP_KEY": "app-k3y"}
COPIES = ("--copies-tx-query", "avg:copies.out{*} by {host}", "--copies-rx-query", "avg:copies.in{*} by {host}")
SMALL = (*COPIES, "--law", "headroom", "--cap-map", '{"big": 1, "huge": 4}', "--min-rate", "10kB")


class Org:
    """A desk whose brokers are hosts of Datadog, with 300 kB/s of clients each."""

    def __init__(self, desk: AutothrottleDesk, url: str, datadog: Datadog) -> None:
        self.desk, self.url, self.datadog = desk, url, datadog
        self.open_admin: list[Any] = []
        self.znodes = FakeControlStore()

    def run(self, *words: str, **env: str) -> Ran:
        environment = {"DATADOG_HOST": self.url, **KEYS, **env}
        ran = self.desk.home.run("--profile", "p", "autothrottle", *words, env=environment)
        assert "k3y" not in ran.stdout + ran.stderr
        return ran


@pytest.fixture
def org(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Org]:
    desk = AutothrottleDesk(tmp_path)
    datadog = Datadog(lambda: desk.clock.now().timestamp())
    for broker in (1, 2, 3):
        datadog.add(f"host-{broker}", broker, sent=300_000.0, received=300_000.0)
    with serving(datadog) as server:
        made = Org(desk, server.url, datadog)

        def open_admin(settings: Any, **words: Any) -> Any:
            made.open_admin.append(settings)
            return desk.open_admin(settings, **words)

        desk.sit(monkeypatch)
        monkeypatch.setattr(wiring, "open_admin", open_admin)
        monkeypatch.setattr(wiring, "open_znodes", lambda settings: made.znodes)
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
    words += ["--law", "slo", "-o", "json"]
    reasons = {(r["broker"], r["direction"]): r["why"] for r in org.run(*words).json["reasons"]}
    assert reasons[3, "in"] == "500 kB/s less 10% reserve and 300 kB/s of clients"
    own = org.run(*words, "--broker-capacity", "3:9MB").json["reasons"]
    assert {r["why"] for r in own if r["broker"] == 1} == {"1 MB/s less 10% reserve and 300 kB/s of clients"}


def test_a_window_that_ended_some_time_ago_is_new_enough(org: Org) -> None:
    """Datadog's points are of whole windows: the last one that is there may have ended a window ago."""
    org.desk.begin()
    begun_ms = org.desk.clock.now().timestamp() * 1000 - 200_000
    org.datadog.points = {f"host-{n}": [(begun_ms, 300_000.0)] for n in (1, 2, 3)}
    words = ("explain", *COPIES, "--metrics-window", "2m", "--min-rate", "1kB", "--cap-map", '{"big": 1}', "-o", "json")
    reasons = org.run(*words, "--law", "slo").json["reasons"]
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
    stop_after_autothrottle(org.desk, 400)
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
    assert {"became leader"} <= {line["message"] for line in lines}
    assert all(set(line) <= {"at", "message", "tick"} for line in lines)


@pytest.mark.parametrize(
    ("words", "env", "by"),
    [
        (("-max-tx-rate", "80"), {}, "--max-tx-rate"),
        (('-cap-map={"big": 1}', "-change-threshold", "5"), {}, "--change-threshold, --cap-map"),
        (("-kafka-native-mode",), {}, "--kafka-native-mode"),
        ((), {"AUTOTHROTTLE_MAX_RX_RATE": "80"}, "AUTOTHROTTLE_MAX_RX_RATE"),
        (("-failure-threshold=2",), {}, "--failure-threshold"),
    ],
)
def test_flags_of_kafka_kit_mean_its_law(org: Org, words: tuple[str, ...], env: dict[str, str], by: str) -> None:
    ran = org.run("explain", *words, **env)
    first, *_ = ran.stderr.splitlines()
    assert (ran.code, first) == (0, f"law: headroom, kafka-kit's, by {by}; --law slo keeps clients' objectives")
    stop_after_autothrottle(org.desk, 2)
    assert first in org.run("run", "--listen", "none", *words, **env).stderr


def test_a_law_that_is_named_or_meant_otherwise_stays(org: Org) -> None:
    ran = org.run("explain", "--law", "slo", "--max-tx-rate", "80", "--change-threshold", "5")
    assert ran.stderr.splitlines() == ["warning: --max-tx-rate, --change-threshold have no effect with --law slo"]
    ran = org.run("explain", "--p99", "50ms", "--cap-map", '{"big": 1}', AUTOTHROTTLE_MAX_TX_RATE="80")
    assert ran.stderr.splitlines() == ["warning: AUTOTHROTTLE_MAX_TX_RATE has no effect with --law slo"]
    words = ("--rate", "1MB", "--capacity", "1GB", "--cap-map", "{}", "--hold", "1m", "--min-rate", "1MB")
    ran = org.run("explain", *words)
    assert ran.stderr.splitlines() == [
        "warning: --hold, --capacity, --cap-map, --min-rate have no effect with --law fixed"
    ]
    ran = org.run("explain", "--law", "headroom", "--queue", "5ms", "-cleanup-after", "5", "--prometheus-selector", "a")
    assert ran.stderr.splitlines() == [
        "warning: --queue has no effect with --law headroom",
        "warning: --prometheus-selector has no effect with traffic from datadog",
        "warning: --cleanup-after has no effect here: Kafka's own requests are used, and a journal knows what is set",
    ]
    ran = org.run("once", "--source", "brokers", "-net-tx-query", "x", "-metrics-window", "60", "--capacity", "1GB")
    assert ran.stderr.splitlines() == [
        "warning: --net-tx-query, --metrics-window have no effect with traffic from brokers"
    ]


def test_overrides_below_the_default_prefix_of_kafka_kit_are_read(org: Org) -> None:
    org.desk.begin()
    org.znodes.cas("autothrottle/override_rate", b'{"rate":3,"autoremove":false}', None)
    org.znodes.cas("autothrottle/override_rate/1", b'{"rate":2,"autoremove":false}', None)
    place = ("-zk-addr", "zk:2181")
    assert org.run("once", *SMALL, *place).code == 0
    assert org.desk.configs()["broker 1"] == {LEADER_RATE: "2000000"}
    assert org.desk.configs()["broker 3"] == {FOLLOWER_RATE: "3000000"}
    assert org.run("set", "4MB", "--broker", "1").code == 0
    assert org.run("once", *SMALL, *place).code == 0
    assert org.desk.configs()["broker 1"] == {LEADER_RATE: "4000000"}
    assert org.run("set", "5MB", "--broker", "1", *place).code == 0
    assert (org.znodes.get("autothrottle/override_rate/1") or pytest.fail("gone")).value.startswith(b'{"rate":5')
    assert org.run("once", *SMALL, *place).code == 0
    assert org.desk.configs()["broker 1"] == {LEADER_RATE: "5000000"}
    assert org.run("remove", "--broker", "1", *place).code == 0
    assert org.run("once", *SMALL, *place).code == 0
    assert org.znodes.get("autothrottle/override_rate/1") is None


def test_the_zookeeper_of_the_profile_has_kafka_kits_overrides(org: Org) -> None:
    org.desk.begin()
    org.znodes.cas("autothrottle/override_rate", b'{"rate":3,"autoremove":false}', None)
    org.desk.home.write_config("bootstrap_server: fake:1\nzookeeper: {addr: zk1}\n", "profiles.d/p.yaml")
    assert org.run("once", *COPIES, "-cap-map", '{"big": 1, "huge": 4}').code == 0
    assert org.desk.configs()["broker 1"] == {LEADER_RATE: "3000000"}


def test_the_version_is_printed_as_kafka_kit_does(org: Org) -> None:
    for words, env in ((("run", "-version"), {}), (("run",), {"AUTOTHROTTLE_VERSION": "true"}), (("--version",), {})):
        ran = org.run(*words, **env)
        assert (ran.code, ran.stdout.startswith("kafkakit ")) == (0, True)


def test_an_address_without_a_host_is_of_this_host_and_said_to_be(org: Org) -> None:
    stop_after_autothrottle(org.desk, 2)
    ran = org.run("run", "--rate", "1MB", "-api-listen", ":0")
    assert ran.code == 143
    assert "warning: :0 listens on this host only, unlike in kafka-kit" in ran.stderr
    assert "serving http://127.0.0.1:" in ran.stderr


def test_events_can_be_left_out_and_a_failure_of_them_fails_no_tick(org: Org) -> None:
    org.desk.begin()
    stop_after_autothrottle(org.desk, 30)
    words = ("run", *SMALL, "--listen", "none", "--interval", "10")
    assert org.run(*words, "--no-dd-events").code == 143
    assert org.datadog.events == []
    org.desk.clock.sleep(1000)
    org.desk.cluster.reassign({TopicPartition("t", 0): (1, 2)})
    org.datadog.faults["/events"] = Reply({"errors": ["Forbidden api-k3y"]}, 403)
    stop_after_autothrottle(org.desk, 30)
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
    stop_after_autothrottle(org.desk, 2)
    words = {"flag": [f"--{name}={value}"], "go": [f"-{name}={value}"], "variable": []}[how]
    env = {f"AUTOTHROTTLE_{name.upper().replace('-', '_')}": value} if how == "variable" else {}
    listen = () if name == "api-listen" else ("--listen", "none")
    ran = org.run("run", *listen, "--law", "headroom", *words, **env)
    assert ran.code == 143, ran.stderr
    assert "became leader" in ran.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--api-key", "hidden-key"), "--api-key-file"),
        (("-app-key=hidden-key",), "--api-key-file"),
        (("--skip-auto-delete-throttles",), "is not supported"),
        (("--cap-map", "{"), "--cap-map: not valid JSON"),
        (("--cap-map", '{"a": 0}'), "not a valid capacity"),
        (("--capacity-file", "missing.yaml"), "missing.yaml"),
        (("--min-rate", "5000000"), "has no unit"),
        (("--metrics-window", "soon"), "--metrics-window"),
        (("--interval", "0"), "--interval"),
        (("--source", "prometheus", "--instance-type-tag", "a-b"), "is not a valid label name"),
        (("--datadog-site", "http://example.org"), "not a Datadog site"),
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
    assert (ran.code, org.desk.configs()) == (0, SET_AUTOTHROTTLE)
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
