"""`kafkakit topicmappr check` from files and fakes: exit codes, formats, bad input, and where sizes come from."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from kafkakit import wiring
from kafkakit.adapters.host import SystemClock
from kafkakit.core.documents import decode_snapshot, encode_snapshot
from kafkakit.core.model import ClusterSnapshot, LogDir, TopicPartition
from tests.fakes.admin import FakeClock, FakeCluster, FakeStorageMetrics
from tests.rigs.command_line import Home
from tests.rigs.waiting import give_up_early

NOW = datetime(2026, 11, 21, tzinfo=UTC)
CHECK = ("topicmappr", "check", "--snapshot", "s.json")


def good() -> ClusterSnapshot:
    fake = FakeCluster({1: "a", 2: "b", 3: "c"})
    fake.add_topic("t", {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}, size_bytes=1_000)
    return fake.snapshot(now=NOW)


def with_rack(snapshot: ClusterSnapshot, broker: int, rack: str | None) -> ClusterSnapshot:
    return replace(snapshot, brokers=tuple(replace(b, rack=rack) if b.id == broker else b for b in snapshot.brokers))


def save(home: Home, snapshot: ClusterSnapshot, **changes: Any) -> None:
    (home.work / "s.json").write_bytes(encode_snapshot(replace(snapshot, **changes)))


def test_a_good_cluster_exits_0(home: Home) -> None:
    save(home, good())
    ran = home.run(*CHECK)
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[0] == (
        "cluster fake-cluster: 3 brokers, 1 topic, 3 partitions, 9 replicas; sizes from brokers"
    )
    assert "no findings" in ran.stdout
    assert "skipped: low-replication (needs --replication)" in ran.stdout


@pytest.mark.parametrize(
    ("rack", "fail_on", "code"),
    [
        ("a", "error", 1),
        ("a", "warning", 1),
        ("a", "note", 1),
        ("a", "never", 0),
        (None, "error", 0),
        (None, "warning", 1),
    ],
)
def test_fail_on(home: Home, rack: str | None, fail_on: str, code: int) -> None:
    save(home, with_rack(good(), 2, rack))
    for output in ("text", "json", "tsv"):
        ran = home.run(*CHECK, "--fail-on", fail_on, "-o", output)
        assert ran.code == code, "the same code in every format"
    assert home.run(*CHECK).code == 1, "warnings fail unless told otherwise"


def test_the_formats_say_the_same(home: Home) -> None:
    save(home, with_rack(good(), 2, "a"))
    report = home.run(*CHECK, "-o", "json").json
    (finding,) = report["findings"]
    assert (finding["rule"], finding["severity"], finding["where"], finding["count"]) == (
        "rack-rule",
        "error",
        "topic t",
        3,
    )
    assert finding["subjects"] == ["t-0", "t-1", "t-2"]
    assert finding["hint"] == (
        "live brokers are on 2 racks: add brokers in other racks, or ask for fewer (--min-rack-ids), then: "
        "kafkakit topicmappr fix-racks --topics t --snapshot s.json"
    )
    assert report["totals"] == {"error": 1, "warning": 0, "note": 0}
    assert {r["rule"]: r["checked"] for r in report["rules"]}["low-replication"] is False
    row = home.run(*CHECK, "-o", "tsv").stdout.rstrip("\n").split("\t")
    assert row[:4] == ["error", "rack-rule", "topic t", "3"]
    text = home.run(*CHECK).stdout
    assert f"  rack-rule: {finding['hint']}" in text
    assert "1 error, 0 warnings, 0 notes" in text


def test_the_profile_and_the_topics_stand_in_the_commands(home: Home) -> None:
    save(home, with_rack(good(), 2, "a"))
    home.write_config("profiles:\n  prod:\n    bootstrap_server: localhost:1\n")
    ran = home.run(*CHECK, "--profile", "prod", "--topics", "t,u v", "-o", "json")
    assert ran.json["findings"][0]["hint"].endswith(
        ", then: kafkakit --profile prod topicmappr fix-racks --topics t --snapshot s.json"
    )


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--band", "5"), "--band: '5' is not a percentage"),
        (("--band", "101%"), "--band: 101% is more than 100%"),
        (("--leader-band", "-1%"), "--leader-band"),
        (("--max-disk-use", "nan%"), "--max-disk-use"),
        (("--replication", "-1"), "--replication: -1 is not between"),
        (("--min-rack-ids", "99999"), "--min-rack-ids"),
        (("--brokers", "1,x"), "'x' is not a broker id"),
        (("--topics", "nothing"), "no topic matches"),
        (("--topics", "("), "invalid regex"),
        (("--fail-on", "fatal"), "--fail-on"),
        (("--metrics-age", "-1"), "--metrics-age"),
        (("--sizes-from", "datadog"), "--sizes-from"),
        (("--sizes-from", "zookeeper", "--zk-addr", "a b"), "--zk-addr: 'a b' is not HOST:PORT"),
    ],
)
def test_bad_requests_exit_2_in_one_line(home: Home, flags: tuple[str, ...], words: str) -> None:
    save(home, good())
    ran = home.run(*CHECK, *flags)
    assert (ran.code, ran.stdout) == (2, "")
    assert words in ran.stderr
    assert "Traceback" not in ran.stderr


def test_an_unsound_list_is_a_finding_here_and_a_refusal_elsewhere(home: Home) -> None:
    seen = good()
    (topic,) = seen.topics
    first = replace(topic.partitions[0], replicas=(1, 1, 7), isr=(1,), leader=1, replica_bytes={1: 5}, replica_dirs={})
    save(home, seen, topics=(replace(topic, partitions=(first, *topic.partitions[1:])),))
    report = home.run(*CHECK, "-o", "json")
    assert report.code == 1
    assert {"replica-list", "dead-broker"} <= {f["rule"] for f in report.json["findings"]}
    refused = home.run("topicmappr", "rebuild", "--snapshot", "s.json", "--topics", "t", "--brokers", "-2")
    assert (refused.code, "names a broker twice" in refused.stderr) == (2, True)
    first = replace(first, replicas=(1, -5))
    save(home, seen, topics=(replace(topic, partitions=(first, *topic.partitions[1:])),))
    assert "-5 is not a broker id" in home.run(*CHECK).stderr


def test_a_file_that_is_no_snapshot(home: Home) -> None:
    (home.work / "s.json").write_bytes(b'{"kafkakit":{"kind":"plan","schema":1}}')
    assert (home.run(*CHECK).code, home.run("topicmappr", "check", "--snapshot", "none.json").code) == (2, 2)


def test_the_age_of_a_file_counts_when_asked(home: Home) -> None:
    save(home, good(), taken_at=datetime(2020, 1, 1, tzinfo=UTC))
    assert home.run(*CHECK).code == 0
    ran = home.run(*CHECK, "--metrics-age", "60")
    assert (ran.code, ran.stdout) == (75, "")
    assert "Metrics metadata is older than allowed: " in ran.stderr


def metrics_of(monkeypatch: pytest.MonkeyPatch, free: int) -> tuple[FakeStorageMetrics, list[tuple[str, str]]]:
    metrics = FakeStorageMetrics(FakeClock(SystemClock().now()))
    metrics.put_sizes({TopicPartition("t", n): 500 for n in range(3)})
    metrics.put_free({1: free, 2: 8_500, 3: 8_500})
    requested: list[tuple[str, str]] = []

    def opened(settings: object, source: str, address: str, prefix: str) -> FakeStorageMetrics:
        assert source == "zookeeper"
        requested.append((address, prefix))
        return metrics

    monkeypatch.setattr(wiring, "open_storage_metrics", opened)
    return metrics, requested


def test_sizes_of_the_znodes_with_the_rest_of_a_file(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    save(home, good())
    metrics, requested = metrics_of(monkeypatch, free=0)
    assert home.run(*CHECK).code == 0
    assert requested == [], "nobody asks ZooKeeper unless told"
    environment = {"TOPICMAPPR_ZK_ADDR": "zk1:2181,zk2:2181", "TOPICMAPPR_ZK_METRICS_PREFIX": "other"}
    ran = home.run(*CHECK, "--sizes-from", "zookeeper", "-o", "json", env=environment)
    assert ran.code == 1
    assert requested == [("zk1:2181,zk2:2181", "other")]
    assert metrics.closed
    assert ran.json["sizes"]["source"] == "fake metrics"
    assert "broker-share" in {f["rule"] for f in ran.json["findings"]}


def test_options_of_the_znodes_choose_them(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    save(home, good())
    _, requested = metrics_of(monkeypatch, free=8_500)
    assert home.run(*CHECK, "--zk-metrics-prefix", "other").code == 0
    assert requested == [("", "other")]
    assert home.run(*CHECK, env={"TOPICMAPPR_ZK_METRICS_PREFIX": "v"}).code == 0
    assert requested[1:] == [("", "v")]
    assert home.run(*CHECK, "--sizes-from", "brokers", env={"TOPICMAPPR_ZK_METRICS_PREFIX": "v"}).code == 0
    assert home.run(*CHECK, env={"TOPICMAPPR_ZK_ADDR": "zk1"}).code == 0
    assert len(requested) == 2, "an address that every command of kafka-kit has says nothing"
    ran = home.run(*CHECK, "--sizes-from", "brokers", "--zk-metrics-prefix", "v")
    assert (ran.code, ran.stderr.splitlines()[0]) == (
        2,
        "error: --zk-metrics-prefix has no effect with sizes from brokers",
    )


@pytest.mark.parametrize(
    "words",
    ["check", "rebalance --topics t --brokers -1", "rebuild --topics t --brokers -1 --placement storage", "frontier",
     "drain --brokers 1 --placement storage --min-rack-ids 1", "audit map.json"],
)  # fmt: skip
def test_the_zookeeper_of_the_profile_has_the_sizes(home: Home, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    give_up_early(monkeypatch)
    save(home, good())
    (home.work / "map.json").write_text('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}')
    command = ("topicmappr", *words.split(), "--snapshot", "s.json")
    home.write_config('bootstrap_server: a:1\nzookeeper: {addr: "127.0.0.1:2/kafka"}\n', "profiles.d/p.yaml")
    ran = home.run("--profile", "p", *command, "--sizes-from", "zookeeper")
    assert (ran.code, "Failed to connect to ZooKeeper 127.0.0.1:2 " in ran.stderr) == (75, True)
    assert "hint: check zookeeper.addr and that a server is up, or take sizes from the brokers" in ran.stderr
    ran = home.run("--profile", "p", *command, "--sizes-from", "zookeeper", "--zk-addr", "127.0.0.1:3")
    assert "Failed to connect to ZooKeeper 127.0.0.1:3 " in ran.stderr


def test_znodes_missing_or_old_exit_75(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    save(home, good())
    metrics, _ = metrics_of(monkeypatch, free=8_500)
    flags = ("--sizes-from", "zookeeper")
    assert home.run(*CHECK, *flags).code == 0
    metrics.clock.start = datetime(2026, 1, 1, tzinfo=UTC)
    metrics.put_free({1: 8_500, 2: 8_500, 3: 8_500})
    ran = home.run(*CHECK, *flags)
    assert (ran.code, "Metrics metadata is older than allowed: " in ran.stderr) == (75, True)
    metrics.free = None
    ran = home.run(*CHECK, *flags, "-o", "json")
    assert (ran.code, ran.json["error"]["hint"]) == (75, "run metricsfetcher first")


def test_same_input_same_bytes_across_processes_and_hash_seeds(home: Home) -> None:
    save(home, with_rack(with_rack(good(), 2, "a"), 3, None))
    seen = set()
    for seed in ("0", "1", "77"):
        command = [sys.executable, "-m", "kafkakit", *CHECK, "-o", "json"]
        ran = subprocess.run(
            command,
            cwd=home.work,
            env=home.environment({"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}),
            capture_output=True,
            check=False,
        )
        assert ran.returncode == 1, ran.stderr
        seen.add(ran.stdout)
    assert len(seen) == 1
    json.loads(seen.pop())


def shuffled(snapshot: ClusterSnapshot, seed: int) -> ClusterSnapshot:
    """The snapshot with its brokers, log dirs, topics and partitions in another order."""
    draw = random.Random(seed)

    def mixed(items: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(draw.sample(items, len(items)))

    return replace(
        snapshot,
        brokers=mixed([replace(b, log_dirs=mixed(b.log_dirs)) for b in snapshot.brokers]),
        topics=mixed([replace(t, partitions=mixed(t.partitions)) for t in snapshot.topics]),
    )


def crowded() -> ClusterSnapshot:
    """Many findings of many rules: topics that lag, crowd racks and have no sizes, dirs that are full or cordoned."""
    fake = FakeCluster({1: "a", 2: "a", 3: "b", 4: None})
    for n in range(25):
        fake.add_topic(f"t{n}", {p: (1, 2, 3)[: 1 + (n + p) % 3] for p in range(5)}, size_bytes=n)
    snapshot = fake.snapshot(now=NOW)
    dirs = tuple(LogDir(path=f"/d{k}", total_bytes=100, usable_bytes=k, cordoned=k == 1) for k in range(3))
    topics = [
        replace(
            t, partitions=tuple(replace(p, isr=p.replicas[:1], size_bytes=None, replica_bytes={}) for p in t.partitions)
        )
        for t in snapshot.topics
    ]
    return replace(snapshot, brokers=tuple(replace(b, log_dirs=dirs) for b in snapshot.brokers), topics=tuple(topics))


@pytest.mark.parametrize("command", [("check",), ("check", "-o", "json"), ("leaders", "-o", "json"), ("fix-racks",)])
def test_the_order_of_a_file_changes_no_word(home: Home, command: tuple[str, ...]) -> None:
    save(home, crowded())
    wanted = home.run("topicmappr", *command, "--snapshot", "s.json")
    for seed in range(2):
        save(home, shuffled(crowded(), seed))
        ran = home.run("topicmappr", *command, "--snapshot", "s.json")
        assert (ran.code, ran.stdout, ran.stderr) == (wanted.code, wanted.stdout, wanted.stderr)


def test_the_order_of_a_file_changes_no_refusal(home: Home) -> None:
    snapshot = crowded()
    unknown = replace(snapshot, brokers=tuple(b for b in snapshot.brokers if b.id != 3))
    for world, flags, code in ((unknown, ("leaders",), 2), (snapshot, ("rebalance", "--topics", ".*"), 75)):
        told = set()
        for seed in range(3):
            save(home, shuffled(world, seed))
            words = ("--brokers", "-1", "--band", "10%") if flags[0] == "rebalance" else ()
            ran = home.run("topicmappr", *flags, *words, "--snapshot", "s.json")
            assert ran.code == code, ran.stderr
            told.add(ran.stderr)
        assert len(told) == 1


def test_a_snapshot_is_read_in_order() -> None:
    found = crowded()
    for seed in range(50):
        mixed = shuffled(found, seed)
        assert decode_snapshot(encode_snapshot(mixed), "s.json") == found == mixed.in_order()
