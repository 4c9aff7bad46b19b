"""`kafkakit metricsfetcher` as an operator runs it: fake brokers, loopback services, real files."""

import configparser
import json
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kafkakit.adapters import metrics_storage as storage_topic
from kafkakit.config.read.settings import Settings
from kafkakit.core.cluster_facts import StorageReading
from kafkakit.core.model import TopicPartition
from tests.fakes.admin import FakeClock, FakeCluster, FakeStorageMetrics
from tests.fakes.log import FakeLog
from tests.rigs.command_line import ClusterDesk
from tests.rigs.metrics_http import Reply, Request, serving, timeseries, vector
from tests.rigs.required import require_sound_units
from tests.rigs.waiting import give_up_early

GB = 10**9


class MemoryStore(FakeStorageMetrics):
    """Stands for ZooKeeper."""

    def write(self, reading: StorageReading) -> dict[str, int]:
        self.sizes, self.free = reading.sizes, reading.free
        return {"znode /x/partitionmeta": 12, "znode /x/brokermetrics": 7}


class MetricsDesk(ClusterDesk):
    command = ("metricsfetcher",)

    def __init__(self, folder: Path) -> None:
        cluster = FakeCluster({1: "a", 2: "b", 3: "c"}, dirs_per_broker=2)
        super().__init__(folder, cluster, FakeClock(datetime.now(UTC)))
        self.cluster.add_topic("t", {0: (1, 2), 1: (2, 3)}, size_bytes=1_000)
        self.store, self.log = MemoryStore(self.clock), FakeLog()
        self.opened: list[tuple[Any, ...]] = []

    def open_storage_znodes(self, settings: Settings, *words: Any) -> MemoryStore:
        self.opened.append(words)
        return self.store


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MetricsDesk:
    desk = MetricsDesk(tmp_path)
    return desk.sit(monkeypatch, open_data=desk.log)


def test_brokers_go_to_the_znodes_with_kafka_kits_names(desk: MetricsDesk) -> None:
    env = {"METRICSFETCHER_ZK_ADDR": "zk1:2181", "METRICSFETCHER_ZK_PREFIX": "x", "METRICSFETCHER_COMPRESSION": "false"}
    ran = desk.run("fetch", env=env)
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == [
        "source   brokers of cluster fake-cluster",
        "sizes    2 partitions of 1 topic, 1.95 KiB in one copy of each",
        "free     3 brokers, 1.82 TiB to 1.82 TiB on each",
        "wrote znode /x/partitionmeta (12 bytes)",
        "wrote znode /x/brokermetrics (7 bytes)",
    ]
    assert [str(word) for word in desk.opened[0]] == ["zk1:2181", "x", "none"]
    assert desk.store.sizes is not None
    assert desk.store.sizes.bytes_of == {TopicPartition("t", 0): 1_000, TopicPartition("t", 1): 1_000}
    assert desk.store.closed
    shown = desk.run("show")
    assert "age      0 s" in shown.stdout
    assert re.search(r"^t-0 +1000 B +1000 B$", shown.stdout, re.MULTILINE)


def test_a_silent_broker_is_named_and_good_values_stay(desk: MetricsDesk) -> None:
    desk.store.put_sizes({TopicPartition("t", 0): 5})
    desk.cluster.hang(2)
    ran = desk.run("fetch", "-o", "json")
    assert ran.code == 1
    assert "warning: broker 2 gave no answer: no answer" in ran.stderr
    assert "error: the answer is incomplete, so nothing was written" in ran.stderr
    assert ran.json["problems"] == ["broker 2 gave no answer: no answer"]
    assert (desk.opened, ran.json["written"]) == ([], {})
    ran = desk.run("fetch", "--allow-partial")
    assert (ran.code, len(desk.opened)) == (0, 1)
    assert "warning: broker 2" in ran.stderr


def test_a_dry_run_prints_what_would_be_written(desk: MetricsDesk) -> None:
    ran = desk.run("fetch", "--to", "topic:sizes", env={"METRICSFETCHER_DRY_RUN": "true"})
    assert (ran.code, ran.stderr) == (0, "")
    *_, note, text = ran.stdout.splitlines()
    assert note == "dry run: topic:sizes was not written; it would hold"
    assert json.loads(text)["partitionmeta"]["t"]["0"] == {"Size": 1000}
    assert (desk.log.records, "sizes" in desk.cluster.topics) == ([], False)


def test_a_file_is_written_shown_and_read_by_topicmappr(desk: MetricsDesk) -> None:
    path = desk.home.folder / "sizes.json"
    assert desk.run("fetch", "--to", f"file:{path}").code == 0
    shown = desk.run("show", "--from", f"file:{path}", "-o", "json").json
    assert (shown["partitions"], shown["brokers"], shown["source"]) == (2, 3, "brokers of cluster fake-cluster")
    check = ("--profile", "p", "topicmappr", "check", "--topics", "t", "-o", "json", "--sizes-from", "file")
    ran = desk.home.run(*check, "--sizes-file", str(path))
    assert ran.json["sizes"]["source"] == "brokers of cluster fake-cluster"
    assert not [f for f in ran.json["findings"] if f["rule"] == "unknown-size"]
    assert desk.home.run(*check).code == 2
    desk.clock.advance(3700)
    old = desk.home.run(*check, "--sizes-file", str(path))
    assert (old.code, "older than allowed" in old.stderr) == (75, True)
    path.write_text("{}")
    assert desk.run("show", "--from", f"file:{path}").code == 2


def test_stdout_gets_the_document_alone(desk: MetricsDesk) -> None:
    ran = desk.run("fetch", "--to", "-")
    assert (ran.code, ran.json["kafkakit"]["kind"]) == (0, "storage-metrics")
    desk.cluster.hang(2)
    assert (desk.run("fetch", "--to", "-").code, desk.run("fetch", "--to", "-").stdout) == (1, "")


def test_a_compacted_topic_is_made_written_and_read(desk: MetricsDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = desk.run("show", "--from", "topic:sizes")
    assert (empty.code, "run metricsfetcher fetch first" in empty.stderr) == (75, True)
    ran = desk.run("fetch", "--to", "topic:sizes", "--compression", "zstd")
    assert ran.code == 0, ran.stderr
    assert desk.cluster.topics["sizes"].configs["cleanup.policy"] == "compact"
    assert [record.key for record in desk.log.records] == [b"partitionmeta", b"brokermetrics"]
    desk.cluster.write("t", 0, 5_000)
    assert desk.run("fetch", "--to", "topic:sizes").code == 0
    shown = desk.run("show", "--from", "topic:sizes", "-o", "json").json
    assert (shown["source"], shown["sizes"][-2]["bytes"]) == ("topic sizes", 6_000)
    desk.log.fate = ["lost"]
    monkeypatch.setattr(storage_topic, "ANSWER_LIMIT_S", 0.1)
    lost = desk.run("fetch", "--to", "topic:sizes")
    assert (lost.code, "took 1 of 2 records" in lost.stderr) == (75, True)
    monkeypatch.setattr(storage_topic, "MOST_WRITTEN", 10)
    assert "does not fit into a record" in desk.run("fetch", "--to", "topic:sizes").stderr
    desk.cluster.topics["sizes"].configs["cleanup.policy"] = "delete"
    assert "is not compacted" in desk.run("show", "--from", "topic:sizes").stderr


def prometheus(request: Request) -> Reply:
    if request.words["query"].startswith("max by"):
        return vector(*(({"topic": "t", "partition": str(n)}, 2**30) for n in range(2)))
    return vector(*(({"broker_id": str(n)}, GB) for n in (1, 2, 3)))


def test_prometheus_with_a_token_from_a_file(desk: MetricsDesk) -> None:
    token = desk.home.folder / "token"
    token.write_text("s3cret\n")
    token.chmod(0o600)
    with serving(prometheus) as server:
        words = ("fetch", "--source", "prometheus", "--prometheus-url", server.url, "--query-set", "strimzi")
        ran = desk.run(
            *words, "--prometheus-token-file", str(token), "--check-cluster", "--prometheus-selector", 'a="b"'
        )
        assert (ran.code, ran.stderr) == (0, "")
        assert {got.headers["Authorization"] for got in server.got} == {"Bearer s3cret"}
        assert all('{a="b"}' in got.words["query"] or ',a="b"}' in got.words["query"] for got in server.got)
        basic = ("--prometheus-user", "u", "--prometheus-password-file", str(token))
        assert desk.run(*words, *basic).code == 0
        assert server.got[-1].headers["Authorization"] == "Basic dTpzM2NyZXQ="
        desk.cluster.add_topic("new", {0: (1, 2)})
        ran = desk.run(*words, "--check-cluster")
        assert (ran.code, "1 partitions of the cluster have no size: new-0" in ran.stderr) == (1, True)
        assert desk.run(*words, "--prometheus-user", "u").code == 2
    assert desk.store.sizes is not None
    assert desk.store.sizes.bytes_of[TopicPartition("t", 1)] == 2**30


@pytest.mark.parametrize(
    ("reply", "code", "error"),
    [
        (vector(), 1, "gave no partition sizes, so nothing was written"),
        (vector(({"topic": "t", "partition": "0"}, 5), warnings=["a store is down"]), 1, "a store is down"),
        (Reply({"status": "error", "error": "bad"}, 400), 1, "HTTP 400: bad"),
        (Reply(b"nonsense"), 2, "not valid JSON"),
    ],
)
def test_faults_of_prometheus_leave_what_is_stored(desk: MetricsDesk, reply: Reply, code: int, error: str) -> None:
    with serving(reply) as server:
        ran = desk.run("fetch", "--source", "prometheus", "--prometheus-url", server.url)
    assert (ran.code, error in ran.stderr, desk.opened) == (code, True, [])
    assert "Traceback" not in ran.stderr


def test_datadog_with_keys_of_kafka_kits_variables(desk: MetricsDesk) -> None:
    now = desk.clock.now().timestamp() * 1000 - 60_000

    def answer(request: Request) -> Reply:
        if request.path == "/api/v1/validate":
            return Reply({"valid": True})
        if "partition" in request.words["query"]:
            return timeseries(("partition:0,topic:_consumer_offsets", [(now, 100.7), (now + 1, None)]))
        return timeseries(("broker_id:1001", [(now, GB)]), ("broker_id:none", [(now, GB)]))

    env = {"METRICSFETCHER_API_KEY": "k1", "DD_APP_KEY": "k2", "METRICSFETCHER_SPAN": "600"}
    with serving(answer) as server:
        words = ("fetch", "--source", "datadog", "--datadog-site", server.url)
        ran = desk.run(*words, env=env)
        assert (ran.code, "no broker's number in broker_id: broker_id:none" in ran.stderr) == (1, True)
        assert desk.opened == []
        assert desk.run(*words, "--allow-partial", env=env).code == 0
        without = desk.run(*words, env={"DD_APP_KEY": "k2"})
    assert (without.code, "DD_API_KEY" in without.stderr) == (2, True)
    assert desk.store.sizes is not None
    assert desk.store.sizes.bytes_of == {TopicPartition("__consumer_offsets", 0): 100}
    assert [got.words["query"] for got in server.got[1:3]] == [
        "max:kafka.log.partition.size{service:kafka} by {topic,partition}.rollup(avg, 600)",
        "avg:system.disk.free{service:kafka,device:/data} by {broker_id}.fill(last)",
    ]


def test_a_key_that_is_not_given_is_told_with_each_way_to_give_it(desk: MetricsDesk) -> None:
    ran = desk.run("fetch", "--source", "datadog", "--to", "-")
    assert (ran.code, ran.stderr) == (
        2,
        "error: no api key is given\n"
        "hint: --api-key-file FILE, or the environment variable METRICSFETCHER_API_KEY or DD_API_KEY\n",
    )


@pytest.mark.parametrize("variable", ["METRICSFETCHER_API_KEY", "METRICSFETCHER_APP_KEY"])
def test_keys_in_kafka_kits_variables_choose_datadog(desk: MetricsDesk, variable: str) -> None:
    keys = {"DD_API_KEY": "k1", "DD_APP_KEY": "k2", variable: "k3"}
    with serving(Reply({"valid": True}), timeseries()) as server:
        ran = desk.run("fetch", "-datadog-site", server.url, env=keys)
        assert "gave no partition sizes" in ran.stderr
        assert server.got[0].path == "/api/v1/validate"
        assert "k3" in (server.got[0].headers["Dd-Api-Key"], server.got[0].headers["Dd-Application-Key"])
        asked = len(server.got)
        assert desk.run("fetch", "-source=brokers", "-datadog-site", server.url, env=keys).code == 0
        assert len(server.got) == asked


@pytest.mark.parametrize("reply", [Reply({"errors": ["Forbidden"]}, 403), Reply({"valid": False})])
def test_keys_that_datadog_does_not_know_end_the_command(desk: MetricsDesk, reply: Reply) -> None:
    keys = {"METRICSFETCHER_API_KEY": "k1-secret", "METRICSFETCHER_APP_KEY": "k2-secret"}
    with serving(reply) as server:
        ran = desk.run("fetch", "--datadog-site", server.url, env=keys)
        assert [got.path for got in server.got] == ["/api/v1/validate"]
    assert (ran.code, "error: invalid API or app key: " in ran.stderr, "secret" in ran.stderr) == (1, True, False)
    assert desk.opened == []


def test_a_prometheus_address_chooses_prometheus(desk: MetricsDesk) -> None:
    with serving(prometheus) as server:
        assert desk.run("fetch", "--prometheus-url", server.url).code == 0
        assert desk.run("fetch", env={"METRICSFETCHER_PROMETHEUS_URL": server.url}).code == 0
        assert len(server.got) == 4


def test_options_without_an_effect_are_named(desk: MetricsDesk) -> None:
    ran = desk.run("fetch", "-partition-size-query", "x", "--check-cluster", "--prometheus-selector", 'a="b"')
    assert (ran.code, ran.stderr.splitlines()) == (
        0,
        [
            "warning: --partition-size-query has no effect: values come from brokers",
            "warning: --check-cluster has no effect: values come from brokers",
            "warning: --prometheus-selector has no effect: values come from brokers",
        ],
    )


def test_a_command_line_of_kafka_kit_is_taken(desk: MetricsDesk) -> None:
    line = "-zk-addr zk1:2181 -zk-prefix=x -span 600 -broker-id-tag b -verbose -compression=false -dry-run=false"
    ran = desk.run("fetch", *line.split())
    assert ran.code == 0
    assert [str(word) for word in desk.opened[0]] == ["zk1:2181", "x", "none"]
    assert json.loads(ran.stdout.splitlines()[3])["partitionmeta"]["t"]["0"] == {"Size": 1000}
    assert desk.run("fetch", "-verbose", "-o", "json").json["sizes"][0]["bytes"] == 1000
    assert desk.run("fetch", "-compression", "-dry-run").code == 0
    assert desk.run("fetch", "-compression").code == 0
    assert desk.opened[-1][2] == "gzip"
    for words in (("-version",), ("fetch", "-version=true"), ("--version",)):
        assert desk.run(*words).stdout.startswith("kafkakit ")
    assert desk.run("fetch", env={"METRICSFETCHER_VERSION": "true"}).stdout.startswith("kafkakit ")


def test_the_zookeeper_of_the_profile_is_used(desk: MetricsDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    give_up_early(monkeypatch)
    desk.home.write_config('bootstrap_server: fake:1\nzookeeper: {addr: "127.0.0.1:2/kafka"}\n', "profiles.d/p.yaml")
    ran = desk.run("show")
    assert (ran.code, "Failed to connect to ZooKeeper 127.0.0.1:2 " in ran.stderr) == (75, True)
    assert ran.stderr.endswith("hint: check zookeeper.addr and that a server is up\n")
    ran = desk.run("show", "-zk-addr", "127.0.0.1:3")
    assert "Failed to connect to ZooKeeper 127.0.0.1:3 " in ran.stderr
    assert ran.stderr.endswith("hint: check --zk-addr and that a server is up\n")
    ran = desk.run("show", env={"KAFKAKIT_ZOOKEEPER_ADDR": "127.0.0.1:4"})
    assert "Failed to connect to ZooKeeper 127.0.0.1:4 " in ran.stderr


def test_a_default_profile_beside_a_named_zookeeper_is_refused(desk: MetricsDesk) -> None:
    assert desk.home.run("profile", "use", "p").code == 0
    ran = desk.home.run("metricsfetcher", "fetch", "-zk-addr", "zk1:2181")
    assert (ran.code, "ZooKeeper zk1:2181 is named (flag --zk-addr)" in ran.stderr) == (2, True)
    assert desk.opened == []
    assert desk.home.run("metricsfetcher", "fetch", "-zk-addr", "zk1:2181", "--profile", "p").code == 0


def test_stdout_is_no_place_to_read_from(desk: MetricsDesk) -> None:
    assert desk.run("fetch", "--to", "x").stderr.endswith("topic:NAME or file:PATH, or - for stdout\n")
    assert desk.run("show", "--from", "x").stderr.endswith("topic:NAME or file:PATH\n")


@pytest.mark.parametrize("flag", ["--api-key", "--app-key"])
def test_keys_on_the_command_line_are_refused(desk: MetricsDesk, flag: str) -> None:
    ran = desk.run("fetch", flag, "hidden-k3y")
    assert (ran.code, "--api-key-file" in ran.stderr, "hidden-k3y" in ran.stderr) == (2, True, False)


@pytest.mark.parametrize("words", [("--to", "nowhere"), ("--compression", "lz4"), ("--to", "file:")])
def test_what_makes_no_sense_is_refused(desk: MetricsDesk, words: tuple[str, ...]) -> None:
    assert desk.run("fetch", *words).code == 2


def test_the_unit_runs_fetch_with_the_words_given(desk: MetricsDesk) -> None:
    words = ("--source", "prometheus", "--prometheus-selector", 'a="%h $x\'s"', "--to", "file:/srv/a b/s.json")
    files = desk.run("unit", "--format", "systemd", *words, "--every", "15", "-o", "json").json["files"]
    (line,) = re.findall(r'^ExecStart=/bin/sh -c "(.*)"$', files["kafkakit-metricsfetcher.service"], re.MULTILINE)
    script = re.sub(r"%%|\$\$|\\(.)", lambda m: m[1] or m[0][0], line)
    typed = shlex.split(script)
    assert typed[:5] == ["/usr/local/bin/kafkakit", "--profile", "p", "metricsfetcher", "fetch"]
    assert sorted(typed[5:]) == sorted(words)
    assert 'ReadWritePaths="/srv/a b"\n' in files["kafkakit-metricsfetcher.service"]
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(files["kafkakit-metricsfetcher.timer"])
    assert parser["Timer"]["OnCalendar"] == "*:0/15"
    cron = desk.run("unit", "--format", "cron", *words, "--every", "15").stdout
    assert cron == f"*/15 * * * * {script.replace('%', chr(92) + '%')} >/dev/null\n"
    for place in ("-", "file:relative"):
        assert desk.run("unit", "--format", "cron", "--to", place).code == 2


def test_systemd_understands_the_unit(desk: MetricsDesk, tmp_path: Path) -> None:
    require_sound_units(desk.run("unit", "--format", "systemd", "-o", "json").json["files"], tmp_path)
