"""The commits inspector on real brokers: a poison pill in groups of both protocols, a topic recreated, a live watch."""

import itertools
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import closing
from threading import Thread
from typing import Any

import pytest

from kafkakit.adapters.kafka.log import KafkaLog
from kafkakit.config.security import to_confluent
from kafkakit.core.model import TopicPartition
from kafkakit.streams.model.commit import CommitIdentity
from tests.integration.conftest import SandboxCluster
from tests.integration.stream_clients import (
    OffsetsTransaction,
    commit_with_kafka_python,
    loner,
    member,
    poison_pill,
    produce,
)
from tests.rigs.command_line import Home, Ran
from tests.rigs.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("slow_brokers_answer")]

RECORDS, STUCK, DONE_TO = 500, 40, 400
AGE_MS = 600_000


class Harness:
    """A topic of 500 records, a second apart, the one at 40 ten minutes old; and the program as an operator runs it."""

    def __init__(self, cluster: SandboxCluster, topic: str) -> None:
        self.cluster, self.key = cluster, TopicPartition(topic, 0)
        self.stuck_ms = round(time.time() * 1000) - AGE_MS
        with closing(cluster.open_admin()) as admin:
            assert admin.create_topic(topic, {0: cluster.broker_ids[:1]}, {}) is None
        produce(
            cluster,
            self.key,
            [b"x"] * RECORDS,
            timestamp_ms=self.stuck_ms - 1_000 * STUCK,
            step_ms=1_000,
            settings={"linger.ms": 100},
        )

    def metadata(self, group: str, done_to: int = DONE_TO) -> str:
        with closing(KafkaLog(self.cluster.bootstrap_servers, self.cluster.security)) as log:
            topic_id = log.places([self.key.topic])[self.key.topic].topic_id
        identity = CommitIdentity(cluster_id=self.cluster.cluster_id, topic_id=topic_id, partition=0, group=group)
        newest = self.stuck_ms + 1_000 * (done_to - 1 - STUCK)
        return poison_pill(identity, stuck=STUCK, done_to=done_to, oldest_ms=self.stuck_ms, newest_ms=newest)

    def run(self, *words: str) -> Ran:
        home = Home(self.cluster.home.folder)
        return home.run("--profile", self.cluster.name, "streams", "commits", *words)

    def commit_shown(self, group: str) -> dict[str, Any]:
        ran = self.run("show", group, "-o", "json")
        assert ran.code == 0, ran.stderr
        (commit,) = ran.json["commits"]
        assert isinstance(commit, dict)
        return commit


@pytest.fixture(scope="module")
def bench(cluster: SandboxCluster) -> Harness:
    return Harness(cluster, "inspected")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_poison_pill_is_one_pending_offset_with_its_age(bench: Harness, protocol: str) -> None:
    group = f"pill-{protocol}"
    with member(bench.cluster, group, [bench.key.topic], protocol=protocol) as live:
        live.commit({bench.key: (STUCK, bench.metadata(group))})
        commit = bench.commit_shown(group)
        text = bench.run("show", group, "--ascii", "--width", "80").stdout
    assert (commit["problem"], commit["bound"], commit["pending"]) == (None, True, [[STUCK, STUCK + 1]])
    assert (commit["counts"]["retrying"], commit["counts"]["untouched"]) == (1, RECORDS - DONE_TO)
    assert commit["oldest_pending"]["written"]["low_ms"] == bench.stuck_ms
    low, high = commit["oldest_pending"]["written"]["age_s"]
    assert AGE_MS / 1000 <= low <= high < AGE_MS / 1000 + 3600
    assert commit["holder"]["client_id"] == "rdkafka"
    assert commit["hazards"] == []
    assert f"({protocol}, stable, 1 member)" in text
    assert f"   {STUCK} r{'#' * 35}" in text


def test_a_plain_commit_is_dated_by_its_record(bench: Harness) -> None:
    commit_with_kafka_python(bench.cluster, "plain", {bench.key: (STUCK, "")})
    commit = bench.commit_shown("plain")
    assert commit["oldest_pending"]["written"]["low_ms"] == bench.stuck_ms
    assert commit["oldest_pending"]["written"]["source"] == "its record in the log"
    late = bench.run("verify", "plain", "--max-age", "9m")
    assert (late.code, "pending-too-long" in late.stdout) == (1, True), late.stderr
    assert bench.run("verify", "plain", "--max-age", "9h").code == 0
    explained = bench.run("explain", "plain", "--topic", bench.key.topic)
    assert "the next record that the group will take" in explained.stdout


def test_a_topic_made_anew_is_told_from_the_old_one(cluster: SandboxCluster) -> None:
    bench = Harness(cluster, "made-again")
    with loner(cluster, "survivor") as client:
        text = bench.metadata("survivor")
        client.commit({bench.key: (STUCK, text)})
        with closing(cluster.open_admin()) as admin:
            assert admin.delete_topic(bench.key.topic) is None
        Harness(cluster, "made-again")
        client.commit({bench.key: (STUCK, text)})  # Kafka forgets commits of a deleted topic; the member does not
    commit = bench.commit_shown("survivor")
    assert (commit["problem"], commit["state"]["done"]) == ("bound to something else", [])
    assert commit["duplicates"]["high"] == DONE_TO - STUCK - 1
    assert bench.run("verify", "survivor").code == 1


def _collect(lines: Iterable[str], into: list[str]) -> None:
    for line in lines:
        into.append(line)  # noqa: PERF402  each line is to be seen at once


def test_watch_tells_what_became_done(bench: Harness) -> None:
    with loner(bench.cluster, "watched") as client:
        client.commit({bench.key: (STUCK, bench.metadata("watched"))})
        command = [sys.executable, "-m", "kafkakit", "--profile", bench.cluster.name, "streams", "commits", "watch"]
        with subprocess.Popen(
            [*command, "watched", "--interval", "300ms"],
            env=bench.cluster.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as watching:
            assert watching.stderr is not None
            said: list[str] = []
            reader = Thread(target=_collect, args=(watching.stderr, said))
            reader.start()
            try:
                # However late the first look comes, a commit comes after it: one more record is done, and none again,
                # until the program reports one.
                deadline = time.monotonic() + 300
                for done_to in itertools.cycle((DONE_TO + 1, DONE_TO)):
                    client.commit({bench.key: (STUCK, bench.metadata("watched", done_to))})
                    if any("became done" in line for line in said):
                        break
                    assert time.monotonic() < deadline, said
                    time.sleep(0.5)
            finally:
                watching.terminate()
                ended = watching.wait(120)
                reader.join(60)
            assert ended == 143
    assert f"{bench.key}: became done: " in "".join(said)


def test_limits_are_those_of_the_brokers(bench: Harness) -> None:
    commit_with_kafka_python(bench.cluster, "full", {bench.key: (STUCK, "\u4e2d" * 4096)})
    told = bench.run("limits", "-o", "json").json
    assert {broker["limit_chars"] for broker in told["brokers"]} == {4096}
    # Other modules have groups on this cluster, some of them full, too.
    assert next(one["share"] for one in told["groups"] if one["group"] == "full") == told["groups"][0]["share"] == 1.0
    gone = bench.run("show", "ful")
    assert (gone.code, gone.stdout) == (2, "")
    assert "is it full?" in gone.stderr


class Records:
    """A topic of records of every kind and age, and `streams records show` as an operator runs it."""

    def __init__(self, cluster: SandboxCluster, topic: str, settings: dict[str, str] | None = None) -> None:
        self.cluster, self.key = cluster, TopicPartition(topic, 0)
        with closing(cluster.open_admin()) as admin:
            kept = {"retention.ms": "-1", **(settings or {})}
            assert admin.create_topic(topic, {0: cluster.broker_ids[:1]}, kept) is None

    def show(self, offset: int, *words: str, code: int = 0) -> Ran:
        home = Home(self.cluster.home.folder)
        place = f"{self.key.topic}/{self.key.partition}@{offset}"
        ran = home.run("--profile", self.cluster.name, "streams", "records", "show", place, *words)
        assert ran.code == code, ran.stdout + ran.stderr
        return ran

    def shown(self, offset: int, count: int = 1) -> list[dict[str, Any]]:
        records = self.show(offset, "--count", str(count), "-o", "json").json["records"]
        assert isinstance(records, list)
        return records


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_record_is_shown_whatever_its_batch_is_compressed_with(cluster: SandboxCluster, codec: str) -> None:
    from confluent_kafka import Producer

    found = Records(cluster, f"records-{codec}")
    # A flush ends it: one batch, however slowly it is filled, for small ones are not compressed.
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "compression.codec": codec, "linger.ms": 60_000}
    client = Producer({**settings, **to_confluent(cluster.security)})
    stamp = 1_758_335_260_726
    values = [b"a" * 3000, "gr\u00fcn".encode(), b"\xff\x00", None, b""]
    for number, value in enumerate(values):
        headers = [("trace", b"abc"), ("none", None)] if number == 1 else []
        client.produce(found.key.topic, value, b"k", partition=0, timestamp=stamp + number, headers=headers)
    assert client.flush(90) == 0
    records = found.shown(0, 9)
    assert [record["compression"] for record in records] == [codec] * 5
    assert [record["timestamp_ms"] for record in records] == [stamp + number for number in range(5)]
    assert [record["timestamp_type"] for record in records] == ["CreateTime"] * 5
    assert [record["value"] for record in records] == [
        {"text": "a" * 1000, "bytes": 3000, "truncated": True},
        {"text": "gr\u00fcn", "bytes": 5, "truncated": False},
        {"base64": "/wA=", "bytes": 2, "truncated": False},
        None,
        {"text": "", "bytes": 0, "truncated": False},
    ]
    named = [(header["name"], header["value"] and header["value"]["text"]) for header in records[1]["headers"]]
    assert named == [("trace", "abc"), ("none", None)]
    assert found.shown(2) == records[2:3]


def test_transactions_and_their_markers_are_told_apart(cluster: SandboxCluster) -> None:
    found = Records(cluster, "records-transactions")
    with OffsetsTransaction(cluster, "records") as transaction:
        for end in (transaction.commit, transaction.abort):
            transaction.begin()
            transaction.produce(found.key, b"one", b"two")
            end()
        transaction.begin()
        transaction.produce(found.key, b"open")
        records = found.shown(0, 20)
    assert [(one["offset"], one["transaction"], one["instead"]) for one in records] == [
        (0, "committed", None), (1, "committed", None), (2, None, "commit marker"),
        (3, "aborted", None), (4, "aborted", None), (5, None, "abort marker"), (6, "open", None),
    ]  # fmt: skip
    assert "aborted: read_committed consumers pass over it" in found.show(4).stdout
    assert "abort marker of producer" in found.show(5).stdout


def test_an_offset_that_has_no_record_has_a_reason(cluster: SandboxCluster) -> None:
    from confluent_kafka import TopicPartition as Place
    from confluent_kafka.admin import AdminClient

    settings = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01",
                "max.compaction.lag.ms": "100", "min.compaction.lag.ms": "0"}  # fmt: skip
    found = Records(cluster, "records-compacted", settings)
    for number in range(3):
        produce(cluster, found.key, [f"{number}".encode()] * 5, key=b"same")
        time.sleep(0.3)
    produce(cluster, found.key, [b"last"], key=b"other")
    wanted = "3 was compacted away: the next record is at 14\n"  # at 4 or 9 while not all segments are cleaned
    shown = until(lambda: text if wanted in (text := found.show(3).stdout) else None, wanted)
    assert "offset 14\n" in shown
    assert "beyond the end: the next record gets offset 16" in found.show(16, code=1).stderr
    gone = Records(cluster, "records-deleted")
    produce(cluster, gone.key, [b"x"] * 10)
    client = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **to_confluent(cluster.security)})
    for future in client.delete_records([Place(*gone.key, 7)]).values():
        future.result(90)
    assert "records-deleted/0@6: deleted: the log starts at 7" in gone.show(6, code=1).stderr
    assert gone.shown(7)[0]["value"]["text"] == "x"
    odd = Home(cluster.home.folder).run("--profile", cluster.name, "streams", "records", "show", 'it\'s a "topic"/0@1')
    assert (odd.code, odd.stderr.count("\n")) == (2, 1), odd.stderr
