"""Collecting real clusters: rows equal to what clients say, no secret in the store, and resuming after kill -9."""

import hashlib
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import zlib
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kafkakit.adapters.kafka.data import KafkaData
from kafkakit.adapters.kafka.log import KafkaLog
from kafkakit.config.security import to_confluent
from kafkakit.core.cluster_facts import LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.streams.model.offsets_log.entries import LogKey, OffsetCommit, decode_key, decode_offset_commit
from kafkakit.streams.model.record_identity import HEADER, RecordId, encode_record_id, format_record_id
from tests.integration.conftest import LeaseClusters, SandboxCluster
from tests.integration.stream_clients import commit_with_kafka_python, produce
from tests.rigs.cluster_pool import SECURED
from tests.rigs.command_line import Home, Ran
from tests.rigs.fleet import rows_of
from tests.rigs.required import need_sail
from tests.rigs.waiting import until

pytestmark = pytest.mark.kafka

DAY = "2026-11-20"
TOPIC = "fleet-orders"
OFFSETS = "__consumer_offsets"
RECORDS = 200


@pytest.fixture(scope="module")
def secure(lease: LeaseClusters) -> SandboxCluster:
    """One broker whose configuration holds passwords."""
    return lease(SECURED)[0]


@pytest.fixture(scope="module")
def filled(cluster: SandboxCluster, secure: SandboxCluster) -> None:
    """A topic with records on both clusters, and a group with three commits on the first."""
    for one in (cluster, secure):
        with closing(one.open_admin()) as admin:
            ids = one.broker_ids
            assert admin.create_topic(TOPIC, {0: ids[:2], 1: ids[-2:]}, {"retention.ms": "3600000"}) is None
        produce(one, TopicPartition(TOPIC, 0), [b"x" * 100] * RECORDS)
    for offset in (10, 20, 30):
        commit_with_kafka_python(cluster, "fleet-billing", {TopicPartition(TOPIC, 0): (offset, "")})


def collect(cluster: SandboxCluster, store: Path, *words: str) -> Ran:
    home = Home(cluster.home.folder)
    return home.run("fleet", "collect", "--to", str(store), "--date", DAY, *words)


def add_profile(cluster: SandboxCluster, name: str, address: str) -> None:
    path = cluster.store.profiles / f"{name}.yaml"
    path.write_text(f"bootstrap_server: {address}\n", encoding="utf-8")


def passwords(cluster: SandboxCluster) -> set[str]:
    """Every password that stands in a file of the cluster's nodes."""
    text = "".join(path.read_text(encoding="utf-8") for path in cluster.store.root.rglob("*.properties"))
    return set(re.findall(r"password\s*=\s*\\?\"?([^\s\";]+)", text))


def test_rows_are_what_clients_say_and_no_secret_is_stored(
    cluster: SandboxCluster, secure: SandboxCluster, filled: None, tmp_path: Path
) -> None:
    add_profile(cluster, "dead", "127.0.0.1:1")
    stores = (tmp_path / f"store-{number}" for number in count())

    def collected() -> tuple[Ran, Path] | None:
        """A run during which no leader and no copy in sync changed, as they do when a broker pauses."""
        store, before = next(stores), placed(cluster) | placed(secure)
        ran = collect(cluster, store, "--profiles", f"{cluster.name},dead,{secure.name}", "--commits", "-o", "tsv")
        return (ran, store) if before == placed(cluster) | placed(secure) else None

    ran, store = until(collected)
    assert ran.code == 1, ran.stderr
    assert [line.split("\t")[1] for line in ran.stdout.splitlines()] == ["collected", "failed", "collected"], ran.stderr
    for one in (cluster, secure):
        check_partitions(one, store)
        check_configs(one, store)
    check_commits(cluster, store)
    secrets = passwords(secure)
    assert secrets
    stored = "".join(
        str(row)
        for kind in ("broker_configs", "topic_configs", "clusters")
        for row in rows_of(store, kind, secure.name)
    )
    assert "ssl.keystore.password" in stored
    assert not [secret for secret in secrets if secret in stored]


def placed(one: SandboxCluster) -> dict[tuple[str, str, int], tuple[int | None, list[int], list[int]]]:
    """Leader, copies and copies in sync of each partition, by cluster, topic and number."""
    with closing(one.open_admin()) as admin:
        found = admin.snapshot(now=datetime.now(UTC)).partitions()
    return {(one.name, t, p.partition): (p.leader, sorted(p.replicas), sorted(p.isr or ())) for t, p in found}


def check_partitions(one: SandboxCluster, store: Path) -> None:
    shown = placed(one)
    with closing(KafkaLog(one.bootstrap_servers, one.security)) as log:
        spans = log.spans([TopicPartition(topic, number) for _, topic, number in shown])
    rows = rows_of(store, "partitions", one.name)
    found = {(one.name, r["topic"], r["partition"]): r for r in rows}
    assert {key: (r["leader"], sorted(r["replicas"]), sorted(r["isr"])) for key, r in found.items()} == shown
    for row in rows:
        span = spans[TopicPartition(row["topic"], row["partition"])]
        assert isinstance(span, LogSpan)
        if row["topic"] == TOPIC:
            assert (row["start_offset"], row["end_offset"]) == (span.start, span.end)
            assert (row["size_bytes"] > 0) == (row["partition"] == 0)
    replicas = {(r["topic"], r["partition"], r["broker"]) for r in rows_of(store, "replicas", one.name)}
    assert replicas == {(topic, number, b) for (_, topic, number), (_, on, _) in shown.items() for b in on}
    assert {r["broker"] for r in rows_of(store, "log_dirs", one.name)} == set(one.broker_ids)


def check_configs(one: SandboxCluster, store: Path) -> None:
    rows = rows_of(store, "broker_configs", one.name)
    with closing(one.open_admin()) as admin:
        live = admin.broker_configs(one.broker_ids)
    for broker, values in live.items():
        own = {r["key"]: r for r in rows if r["broker"] == broker}
        assert len(own) > 150
        for key, value in values.items():
            assert own[key]["value"] in (value.value, None)
            assert own[key]["source"] in str(value.layer).replace(" ", "-")
    (row,) = (r for r in rows_of(store, "topic_configs", one.name) if r["topic"] == TOPIC)
    assert (row["key"], row["value"]) == ("retention.ms", "3600000")


def check_commits(one: SandboxCluster, store: Path) -> None:
    """The rows are those that a consumer finds, record by record."""
    data = KafkaData(one.bootstrap_servers, one.security)
    names = sorted({r["log_partition"] for r in rows_of(store, "commits", one.name)})
    places = [TopicPartition(OFFSETS, number) for number in names]
    ends = data.offsets(places, 120)
    found: list[tuple[Any, ...]] = []
    left = {place for place in places if len(ends[place])}
    with closing(data.consumer(sorted(left))) as consumer:
        deadline = time.monotonic() + 180
        while left and time.monotonic() < deadline:
            for record in consumer.poll(0.5):
                key = decode_key(record.key or b"")
                if isinstance(key, LogKey) and record.value:
                    value = decode_offset_commit(record.value)
                    assert isinstance(value, OffsetCommit)
                    found.append((key.group, key.topic, key.partition, value.offset, value.committed_ms, record.offset))
                if record.offset >= ends[record.partition].stop - 1:
                    left.discard(record.partition)
    columns = ("group", "topic", "partition", "committed", "at_ms", "log_offset")
    rows = [tuple(r[c] for c in columns) for r in rows_of(store, "commits", one.name) if r["committed"] is not None]
    assert Counter(rows) == Counter(found)
    assert [row[3] for row in sorted(rows, key=lambda r: r[5]) if row[0] == "fleet-billing"] == [10, 20, 30]


def test_a_run_that_was_killed_goes_on_where_it_was(
    cluster: SandboxCluster, secure: SandboxCluster, filled: None, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    manifests = store / "manifests" / f"snapshot_date={DAY}"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        names = [f"silent-{number}" for number in range(12)]  # each is given up after 10 s
        for name in names:
            add_profile(cluster, name, f"127.0.0.1:{silent.getsockname()[1]}")
        words = ["fleet", "collect", "--to", str(store), "--date", DAY, "--concurrency", "1", "--profiles"]
        profiles = ",".join([cluster.name, *names, secure.name])
        process = subprocess.Popen([sys.executable, "-m", "kafkakit", *words, profiles], env=cluster.env)
        try:
            until((manifests / f"cluster={cluster.name}.json").exists)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
    assert not (manifests / f"cluster={secure.name}.json").exists()
    before = (manifests / f"cluster={cluster.name}.json").read_bytes()
    ran = collect(cluster, store, "--profiles", f"{cluster.name},{secure.name}", "-o", "json")
    assert ran.code == 0, ran.stderr
    assert [one["status"] for one in ran.json["clusters"]] == ["kept", "collected"]
    assert (manifests / f"cluster={cluster.name}.json").read_bytes() == before
    assert json.loads(before)["error"] == ""


def test_log_dirs_of_the_brokers_hold_what_was_produced(cluster: SandboxCluster, filled: None, tmp_path: Path) -> None:
    store = tmp_path / "store"
    home = Home(cluster.home.folder)
    words = ("--cluster", cluster.name, "--to", str(store), "--date", DAY, "--crc")
    folders = [str(path.parent) for path in cluster.store.root.rglob("meta.properties") if "broker" in str(path)]
    assert len(folders) == 6
    ran = home.run("fleet", "segments", *folders, *words, "-o", "json")
    assert ran.code == 0, ran.stderr
    assert [one["broker"] for one in ran.json["brokers"]] == sorted(cluster.broker_ids)
    rows = [r for r in rows_of(store, "segments", cluster.name) if r["topic"] == TOPIC and r["partition"] == 0]
    assert {r["broker"] for r in rows} == set(cluster.broker_ids[:2])
    assert Counter({b: sum(r["records"] for r in rows if r["broker"] == b) for b in cluster.broker_ids[:2]}) == Counter(
        dict.fromkeys(cluster.broker_ids[:2], RECORDS)
    )
    assert [(r["crc_failures"], r["index_faults"], r["fault"]) for r in rows] == [(0, 0, None)] * len(rows)


def test_one_live_cluster_is_collected_and_audited_in_one_command(cluster: SandboxCluster, tmp_path: Path) -> None:
    need_sail()
    name = "fleet-never-rolls"
    with closing(cluster.open_admin()) as admin:
        settings = {"retention.ms": "60000", "segment.ms": "2592000000"}
        assert admin.create_topic(name, {0: cluster.broker_ids[:2]}, settings) is None
    words = ("audit", "here", "--profile", cluster.name, "--keep", str(tmp_path / "kept"), "--jobs", "retention,drift")
    page = tmp_path / "page.html"
    ran = Home(cluster.home.folder).run(*words, "--html", str(page), "--fail-on", "note", "-o", "json")
    assert ran.code == 1, ran.stderr
    assert f"topic {name} of {cluster.name}" in {finding["where"] for finding in ran.json["findings"]}, ran.stdout
    assert "runs on sail" in ran.stderr
    assert name in page.read_text()
    assert rows_of(tmp_path / "kept/store", "topics", cluster.name)
    assert [path.name for path in (tmp_path / "kept/results").iterdir()] == [ran.json["run"]]


def test_a_cluster_that_does_not_answer_is_not_audited(cluster: SandboxCluster, tmp_path: Path) -> None:
    words = ("audit", "here", "--keep", str(tmp_path / "kept"), "-B", "127.0.0.1:1")
    ran = Home(cluster.home.folder).run(*words)
    assert (ran.code, ran.stdout) == (75, "")
    assert "Connection refused" in ran.stderr
    assert not (tmp_path / "kept").exists()


def test_records_are_those_that_were_committed_in_every_codec(
    cluster: SandboxCluster, filled: None, tmp_path: Path
) -> None:
    from confluent_kafka import Producer

    topic, store = "fleet-records", tmp_path / "store"
    with closing(cluster.open_admin()) as admin:
        assert admin.create_topic(topic, dict.fromkeys(range(6), cluster.broker_ids[:1]), {}) is None
    expected: list[tuple[int, int, int, str | None]] = []
    for partition, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        values = [f"{codec}-{n}".encode() * 9 for n in range(20)]
        settings = {"compression.type": codec, "linger.ms": 100}
        produce(cluster, TopicPartition(topic, partition), values, key=b"k", settings=settings)
        expected += [(partition, offset, zlib.crc32(value), None) for offset, value in enumerate(values)]
    identity = RecordId(at_ms=1_795_000_000_000, session=1, sequence=0)
    settings = {"transactional.id": "fleet", "transaction.timeout.ms": 600_000}
    client = Producer({"bootstrap.servers": cluster.bootstrap_servers, **settings, **to_confluent(cluster.security)})
    client.init_transactions(180)
    for value, commits in ((b"first", True), (b"dropped", False), (b"second", True), (b"dropped too", False)):
        client.begin_transaction()
        client.produce(topic, value, b"k", 5, headers=[(HEADER, encode_record_id(identity))])
        assert client.flush(180) == 0
        client.commit_transaction(180) if commits else client.abort_transaction(180)
    expected += [(5, at, zlib.crc32(v), format_record_id(identity)) for at, v in ((0, b"first"), (4, b"second"))]
    ran = collect(cluster, store, "--profiles", cluster.name, "--records", topic)
    assert ran.code == 0, ran.stderr
    rows = rows_of(store, "records", cluster.name)
    assert sorted((r["partition"], r["offset"], r["value_crc"], r["record_id"] or None) for r in rows) == expected
    assert {r["key_hash"] for r in rows} == {hashlib.sha256(b"k").hexdigest()[:16]}


def test_a_broker_that_was_killed_costs_its_own_facts_and_not_the_cluster(
    cluster: SandboxCluster, filled: None, tmp_path: Path
) -> None:
    # Brokers know for some seconds only by asking it that it is dead.
    dead = cluster.broker_ids[-1]
    cluster.kill(dead)
    try:
        ran = collect(cluster, tmp_path / "store", "--profiles", cluster.name, "-o", "json")
    finally:
        cluster.revive()
    assert ran.code == 0, ran.stderr
    (outcome,) = ran.json["clusters"]
    assert outcome["status"] == "collected"
    assert any(f"{dead} gave no sizes" in note for note in outcome["notes"])
    assert dead not in {row["broker"] for row in rows_of(tmp_path / "store", "replicas", cluster.name)}


def test_directories_that_the_cluster_does_not_know_are_found(
    cluster: SandboxCluster, filled: None, tmp_path: Path
) -> None:
    store, broker, tree = tmp_path / "store", cluster.broker_ids[0], tmp_path / "tree"
    home = Home(cluster.home.folder)
    folders = [path.parent for path in cluster.store.root.rglob("meta.properties") if f"broker-{broker}" in str(path)]

    def there(name: str) -> list[Path]:
        return [folder for folder in folders if (folder / name / "partition.metadata").exists()]

    with closing(cluster.open_admin()) as admin:
        assert admin.create_topic("fleet-again", {0: (broker,)}, {}) is None
        until(lambda: there("fleet-again-0"))
        shutil.copytree(there("fleet-again-0")[0], tree)
        for name in ("ghost-0", "fleet-again-3", f"fleet-again-0.{'a' * 32}-future"):
            shutil.copytree(tree / "fleet-again-0", tree / name)
        assert collect(cluster, store, "--profiles", cluster.name).code == 0
        # Topics that are new, or made again under their name, since the metadata were collected.
        assert admin.delete_topic("fleet-again") is None
        until(lambda: not there("fleet-again-0"))
        assert admin.create_topic("fleet-again", {0: (broker,), 1: (broker,)}, {}) is None
        assert admin.create_topic("fleet-new", {0: (broker,)}, {}) is None
        until(lambda: there("fleet-again-0") and there("fleet-again-1") and there("fleet-new-0"))
    found = []
    for number, places in enumerate(([tree], folders)):
        words = ("--cluster", cluster.name, "--broker", str(broker), "--to", str(store), "--date", DAY)
        assert home.run("fleet", "segments", *map(str, places), *words).code == 0
        out = tmp_path / f"out-{number}"
        given = ("--input", str(store), "--output", str(out), "--date", DAY, "--fail-on", "never")
        assert home.run("audit", "segments", *given).code == 0
        report = home.run("audit", "report", str(out), "-o", "json").json
        found.append(
            sorted((f["rule"], f["where"]) for f in report["findings"] if f["rule"] > "KKF024" and f["rule"] < "KKF031")
        )
    with closing(cluster.open_admin()) as admin:
        assert [admin.delete_topic(name) for name in ("fleet-again", "fleet-new")] == [None, None]
    on = f"on broker {broker} of {cluster.name}"
    assert found == [
        [
            ("KKF025", f"partition ghost-0 {on}"), ("KKF027", f"partition fleet-again-3 {on}"),
            ("KKF029", f"partition fleet-again-0 {on}"),
        ],
        [],
    ]  # fmt: skip
