"""Bombs on real brokers: found among ordinary records, kept, and passed by a plain reader; dead brokers, odd topics."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from kafkakit.adapters.kafka.log import KafkaLog
from kafkakit.config.security import to_confluent
from kafkakit.core.cluster_facts import LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.streams.model.guarded_reads import VerdictKind, batch_verdict
from kafkakit.streams.model.log_batches import Batch, batches_of
from kafkakit.streams.records.act import BombScanner
from kafkakit.streams.records.decide import BombScan, ScanStart
from kafkakit.wiring import system_clock
from tests.integration.conftest import SandboxCluster, SilentReporter
from tests.integration.stream_clients import loner, member, produce, until_left
from tests.integration.test_streams_contract import open_groups
from tests.rigs.bombs import CODECS, MIB, append_batch, only_batch, zeros_batch
from tests.rigs.command_line import Home, Ran
from tests.rigs.waiting import becomes, until

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("slow_brokers_answer")]

LIMIT = 32 * MIB
SMALL, LARGE = 64, 1024
"""MiB that the two bombs hold."""


class Harness:
    """A topic with ordinary records of all codecs around two bombs, and one that is compacted."""

    def __init__(self, cluster: SandboxCluster, stack: ExitStack) -> None:
        self.cluster = cluster
        self.log = stack.enter_context(closing(KafkaLog(cluster.bootstrap_servers, cluster.security)))
        self.key = self.make_topic("bombed", 2)
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            self.produce(self.key, 40, codec)
        self.bombs = [append_batch(self.cluster, self.key, zeros_batch(SMALL, MIB))]
        self.produce(self.key, 40, "zstd")
        self.bombs.append(append_batch(self.cluster, self.key, zeros_batch(LARGE, MIB)))
        self.produce(self.key, 40, "gzip")
        self.produce(TopicPartition("bombed", 1), 500, "zstd")

    def make_topic(self, name: str, partitions: int, settings: dict[str, str] | None = None) -> TopicPartition:
        ids = self.cluster.broker_ids
        places = {number: (ids[number % len(ids)],) for number in range(partitions)}
        with closing(self.cluster.open_admin()) as admin:
            assert admin.create_topic(name, places, settings or {}) is None
        while not all(
            isinstance(found, LogSpan)
            for found in self.log.spans([TopicPartition(name, number) for number in places]).values()
        ):
            time.sleep(0.1)
        return TopicPartition(name, 0)

    def produce(self, key: TopicPartition, count: int, codec: str, *, keys: int = 0) -> None:
        values = [b"%d " % number * 250 for number in range(count)]
        settings = {"compression.type": codec, "linger.ms": 20}
        if not keys:
            produce(self.cluster, key, values, settings=settings)
        for number in range(keys):
            produce(self.cluster, key, values[number::keys], key=b"%d" % number, settings=settings)

    def held(self, key: TopicPartition) -> tuple[int, int]:
        """How many records a partition has, and how many offsets between its first and its last one have none."""
        while not isinstance(span := self.log.spans([key])[key], LogSpan):  # its leader may pause
            time.sleep(0.1)
        records, at = 0, span.start
        while at < span.end:
            found = self.log.fetch({key: at}, max_bytes=8 * MIB, wait_ms=500)[key].records
            for one in batches_of(found):
                if isinstance(one, Batch) and one.next_offset > at:
                    records, at = records + one.count, one.next_offset
        return records, span.end - span.start - records

    def run(self, *words: str, code: int) -> Ran:
        ran = Home(self.cluster.home.folder).run("--profile", self.cluster.name, "streams", "bombs", *words)
        assert ran.code == code, ran.stdout + ran.stderr
        return ran

    def scan(self, *topics: str, limit_bytes: int = LIMIT) -> BombScan:
        scanner = BombScanner(self.log, system_clock(), limit_bytes=limit_bytes, wait_s=30)
        return scanner.scan(list(scanner.partitions(topics)), ScanStart(), SilentReporter())


@pytest.fixture(scope="module")
def scene(cluster: SandboxCluster) -> Iterator[Harness]:
    with ExitStack() as stack:
        yield Harness(cluster, stack)


def test_a_scan_finds_exactly_the_bombs(scene: Harness) -> None:
    found = json.loads(scene.run("scan", "bombed", "--limit", "32MiB", "-o", "json", code=1).stdout)
    listed = [(b["partition"], b["offset"], b["records"], b["verdict"], b["codec"]) for b in found["listed"]]
    small, large = scene.bombs
    assert listed == [(0, small, SMALL, "bomb", "zstd"), (0, large, LARGE, "bomb", "zstd")]
    sizes = [b["at_most_bytes"] for b in found["listed"]]
    assert all(held * MIB <= size < (held + 1) * MIB for held, size in zip((SMALL, LARGE), sizes, strict=True))
    assert found["unread"] == []
    only = json.loads(scene.run("scan", "bombed", "-o", "json", code=1).stdout)
    assert [b["offset"] for b in only["listed"]] == [large]
    scene.run("scan", "bombed", "--limit", "2GiB", code=0)
    scene.run("scan", "bombed", "--limit", "32MiB", "--from", str(large + LARGE), code=0)
    scene.run("scan", "bombed", "--limit", "32MiB", "--since", "-1h", "--partition", "1", code=0)


def test_frames_of_real_clients_are_walked_in_every_codec(scene: Harness) -> None:
    found = scene.scan("bombed", limit_bytes=1_000).found
    assert {one.verdict.kind for one in found} == {VerdictKind.BOMB}
    codecs = {one.verdict.batch.codec_name for one in found if one.verdict.batch is not None}
    assert codecs == {"gzip", "snappy", "lz4", "zstd"}
    for one in found:
        batch = one.verdict.batch
        assert batch is not None
        assert one.verdict.at_most_bytes >= 500 * batch.count, "each record has 500 bytes or more"


def test_a_batch_in_quarantine_is_the_batch_in_the_log(scene: Harness, tmp_path: Path) -> None:
    words = ("quarantine", "bombed", "--partition", "0", "--limit", "32MiB", "--out-path", str(tmp_path))
    kept = json.loads(scene.run(*words, "-o", "json", code=0).stdout)["batches"]
    for one, offset in zip(kept, scene.bombs, strict=True):
        raw = Path(one["path"]).read_bytes()
        stored = scene.log.fetch({scene.key: offset}, max_bytes=1, wait_ms=500)[scene.key].records
        assert raw == stored[: len(raw)]
        record = json.loads(Path(one["path"]).with_suffix(".json").read_bytes())
        assert (record["sha256"], record["first_offset"]) == (hashlib.sha256(raw).hexdigest(), offset)
        assert record["cluster_id"] == scene.log.cluster_id()
        assert record["crc"] == int.from_bytes(raw[17:21], "big")
        found = batch_verdict(raw, only_batch(raw), LIMIT)
        assert (found.kind, found.at_most_bytes) == (VerdictKind.BOMB, record["at_most_bytes"])


def test_bombs_of_every_codec_are_found_and_kept(scene: Harness, tmp_path: Path) -> None:
    key = scene.make_topic("packed", 1, {"max.message.bytes": str(8 * MIB)})
    at = {
        codec.name.lower(): append_batch(scene.cluster, key, zeros_batch(SMALL, MIB, codec=codec)) for codec in CODECS
    }
    listed = json.loads(scene.run("scan", "packed", "--limit", "32MiB", "-o", "json", code=1).stdout)["listed"]
    assert {one["codec"]: (one["offset"], one["verdict"]) for one in listed} == {c: (o, "bomb") for c, o in at.items()}
    words = ("quarantine", "packed", "--partition", "0", "--limit", "32MiB", "--out-path", str(tmp_path))
    kept = json.loads(scene.run(*words, "-o", "json", code=0).stdout)["batches"]
    for one, (codec, offset) in zip(kept, at.items(), strict=True):
        raw = Path(one["path"]).read_bytes()
        assert raw == scene.log.fetch({key: offset}, max_bytes=1, wait_ms=500)[key].records[: len(raw)]
        assert (only_batch(raw).codec_name, only_batch(raw).base_offset) == (codec, offset)


def read(cluster: SandboxCluster, group: str, key: TopicPartition, want: int, limit_s: float) -> list[int]:
    """The offsets that a plain reader of the group gets from its commit on, up to `want` of them."""
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Place

    client = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            **to_confluent(cluster.security),
        }
    )
    found: list[int] = []
    try:
        client.assign([Place(*key)])
        deadline = time.monotonic() + limit_s
        while len(found) < want and time.monotonic() < deadline:
            record = client.poll(0.5)
            if record is not None and record.error() is None:
                found.append(record.offset())
    finally:
        client.close()
    return found


def test_a_plain_reader_passes_the_bombs_once_they_are_marked(scene: Harness, tmp_path: Path) -> None:
    small, large = scene.bombs
    with loner(scene.cluster, "plain") as client:
        client.commit({scene.key: (small, "")})
    assert read(scene.cluster, "plain", scene.key, 1, 5) == [], "librdkafka reads the bomb, so this test shows nothing"
    common = ("--partition", "0", "--limit", "32MiB", "--out-path", str(tmp_path), "--group", "plain", "--yes")
    with member(scene.cluster, "plain", ["bombed"]):
        refused = scene.run("quarantine", "bombed", "--offsets", str(small), *common, code=2)
        assert "stop its members first" in refused.stderr
    with closing(open_groups(scene.cluster)) as groups:
        until_left(groups, "plain")
    scene.run("quarantine", "bombed", "--offsets", str(small), *common, code=0)
    between = list(range(small + SMALL, large))
    assert read(scene.cluster, "plain", scene.key, len(between), 180) == between
    with loner(scene.cluster, "plain") as client:
        client.commit({scene.key: (large, "")})
    scene.run("quarantine", "bombed", "--offsets", str(large), *common, code=0)
    after = list(range(large + LARGE, large + LARGE + 40))
    assert read(scene.cluster, "plain", scene.key, len(after), 180) == after
    assert len(list(tmp_path.rglob("*.log"))) == 2


def test_odd_names_and_empty_topics(scene: Harness) -> None:
    scene.make_topic("empty.bombs", 3)
    assert "no findings" in scene.run("scan", "empty.bombs", code=0).stdout
    for name in ("nosuch", "../etc", "a b", "x" * 300, "or\x1bders", "", "."):
        ran = scene.run("scan", name, code=2)
        assert ran.stdout == ""
        assert "\x1b" not in ran.stderr
        assert len(ran.stderr.splitlines()) <= 2, ran.stderr
    mixed = scene.run("scan", "bombed", "nosuch", code=2)
    assert "nosuch does not exist" in mixed.stderr


def test_a_compacted_topic_is_read_over_its_gaps(scene: Harness) -> None:
    key = scene.make_topic(
        "compacted.bombs", 1,
        {
            "cleanup.policy": "compact", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.001",
            "max.compaction.lag.ms": "500",
        },
    )  # fmt: skip
    for _ in range(3):
        scene.produce(key, 200, "zstd", keys=3)
        time.sleep(0.6)  # a segment is closed by the first record that comes after segment.ms
    until(lambda: scene.held(key)[0] < 600, "the cleaner ran")
    assert scene.held(key)[1] > 0
    at = append_batch(scene.cluster, key, zeros_batch(SMALL, MIB, keyed=True))
    found = scene.scan("compacted.bombs")
    assert [one.verdict.start for one in found.found] == [at]
    assert dict(found.unread) == {}


def test_watch_reports_a_bomb_that_comes(scene: Harness, tmp_path: Path) -> None:
    key = scene.make_topic("watched.bombs", 1)
    words = ("watch", "watched.bombs", "--limit", "32MiB", "--interval", "200ms")
    command = [sys.executable, "-m", "kafkakit", "--profile", scene.cluster.name, "streams", "bombs", *words]
    told = tmp_path / "stderr"
    bomb, sent = zeros_batch(SMALL, MIB), []
    with told.open("wb") as stderr:
        process = subprocess.Popen(command, stderr=stderr, env=scene.cluster.env | {"PYTHONPATH": os.getcwd()})
        try:
            deadline = time.monotonic() + 300
            while b"zstd batch" not in told.read_bytes() and time.monotonic() < deadline:
                scene.produce(key, 10, "zstd")
                sent.append(append_batch(scene.cluster, key, bomb))
                time.sleep(0.2)
            process.send_signal(signal.SIGTERM)
            assert process.wait(180) == 143
        finally:
            process.kill()
            process.wait()
    lines = told.read_text().splitlines()
    places = [line.partition(":")[0] for line in lines if "zstd batch of" in line]
    assert places
    assert set(places) <= {f"watched.bombs/0@{at}" for at in sent}
    assert "found, nothing was changed" in lines[-1]


class StandingClock:
    """Its monotonic time is what the test makes of it."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def now(self) -> datetime:
        return system_clock().now()

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def test_a_broker_that_dies_in_the_middle_leaves_the_other_partitions_read(scene: Harness) -> None:
    scene.make_topic("dying.bombs", 3)
    keys = [TopicPartition("dying.bombs", number) for number in range(3)]
    for key in keys:
        scene.produce(key, 300, "zstd")
        append_batch(scene.cluster, key, zeros_batch(SMALL, MIB))
        scene.produce(key, 300, "zstd")
    leaders = scene.log.places(["dying.bombs"])["dying.bombs"].leaders
    victim = leaders[1]
    assert victim is not None
    scanner_log = KafkaLog(scene.cluster.bootstrap_servers, scene.cluster.security)
    fetch = scanner_log.fetch
    killed: list[int] = []

    # Its time stands still until all but the dead leader's partition are read, however slow the other leaders are.
    clock = StandingClock()

    def dying(offsets: Any, **options: Any) -> Any:
        if not killed:
            killed.append(victim)
            scene.cluster.kill(victim)
        if list(offsets) == [keys[1]]:
            clock.now_s += 60
        return fetch(offsets, **options)

    scanner_log.fetch = dying  # type: ignore[method-assign]
    try:
        with closing(scanner_log):
            scanner = BombScanner(scanner_log, clock, limit_bytes=LIMIT, wait_s=8)
            found = scanner.scan(list(scanner.partitions(["dying.bombs"])), ScanStart(), SilentReporter())
        assert [one.key.partition for one in found.found] == [0, 2]
        assert list(found.unread) == [keys[1]]
    finally:
        with suppress(AssertionError):
            scene.cluster.revive()
    becomes(lambda: [one.key.partition for one in scene.scan("dying.bombs").found], [0, 1, 2])
