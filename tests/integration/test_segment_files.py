"""Segments of a real broker: totals are those the broker reports, batches those of Kafka's own DumpLogSegments."""

import random
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, TopicPartition

from kafkakit.adapters.files import local_files
from kafkakit.ports.services import Machine
from kafkakit.streams.model.log_dirs import partitions_below
from kafkakit.streams.model.segment_batches import CODECS, BatchChunk, walk_batches
from kafkakit.streams.model.segment_rows import Row, ScanOptions, read_partition
from tests.integration.conftest import SandboxCluster, StartCluster
from tests.rigs.waiting import until

VERSION = "3.9.2"
RETAINED = 1_048_576
SMALL = {"segment.bytes": "1048576", "index.interval.bytes": "1000", "file.delete.delay.ms": "1000"}
# The cleaner of compacted topics looks every 15 s for what retention takes from them, and the others' only every 5 min.
DELETED = {"cleanup.policy": "compact,delete", "retention.bytes": str(RETAINED), "min.compaction.lag.ms": "86400000"}
LINE = re.compile(
    r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) baseSequence: (-?\d+) lastSequence: -?\d+ producerId: (-?\d+) "
    r"producerEpoch: (-?\d+) partitionLeaderEpoch: (-?\d+) isTransactional: (\w+) isControl: (\w+) .*?position: (\d+) "
    r"\w+: (-?\d+) size: (\d+) magic: (\d) compresscodec: (\w+) crc: (\d+) isvalid: true"
)

pytestmark = pytest.mark.kafka


@dataclass(frozen=True)
class LoadedBroker:
    cluster: SandboxCluster
    rows: list[Row]

    def of(self, topic: str) -> list[Row]:
        return [row for row in self.rows if row["topic"] == topic]


def scan(cluster: SandboxCluster) -> list[Row]:
    options = ScanOptions(with_crc=True, seen_at_ms=int(time.time() * 1000))
    (broker,) = cluster.state.layout.brokers
    found = [partition for folder in broker.log_dirs for partition in partitions_below(folder, local_files())]
    return [rows.segment for partition in found for rows in read_partition(partition, local_files(), options)]


def scan_until(cluster: SandboxCluster, done: Callable[[list[Row]], bool]) -> list[Row]:
    rows: list[Row] = []

    def scanned() -> bool:
        rows[:] = scan(cluster)
        return done(rows)

    until(scanned, "compacted and deleted", 600)
    return rows


def cleaned_to(cluster: SandboxCluster, topic: str) -> int | None:
    """Up to which offset the broker has compacted partition 0 of a topic."""
    (broker,) = cluster.state.layout.brokers
    files = [Path(folder) / "cleaner-offset-checkpoint" for folder in broker.log_dirs]
    words = [line.split() for file in files if file.exists() for line in file.read_text().splitlines()]
    return next((int(found[2]) for found in words if found[:2] == [topic, "0"]), None)


def produce(cluster: SandboxCluster, topic: str, codec: str, count: int, *, keys: int = 0) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "compression.type": codec, "linger.ms": 5,
                         "batch.num.messages": 20})  # fmt: skip
    draw = random.Random(7)
    for n in range(count):
        producer.produce(topic, draw.randbytes(500) + bytes(500), key=str(n % keys) if keys else None)
        producer.poll(0)
    assert producer.flush(180) == 0


def transact(cluster: SandboxCluster, topic: str) -> None:
    """Transactions that end as they should, then one that stays open."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "t", "linger.ms": 5,
                         "transaction.timeout.ms": 900_000})  # fmt: skip
    producer.init_transactions(180)
    for n in range(7):
        producer.begin_transaction()
        for _ in range(50):
            producer.produce(topic, bytes(1_000))
        assert producer.flush(180) == 0
        if n == 6:
            return
        producer.commit_transaction(180) if n % 3 else producer.abort_transaction(180)


@pytest.fixture(scope="module")
def loaded(sandbox_cluster: StartCluster) -> LoadedBroker:
    cluster = sandbox_cluster(brokers=1, racks=1, kafka=VERSION)
    (broker,) = cluster.broker_ids
    topics = {f"codec-{codec}": SMALL for codec in CODECS} | {
        "txn": SMALL,
        "compacted": SMALL | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
        "deleted": SMALL | DELETED,
    }
    admin = cluster.open_admin()
    for topic, configs in topics.items():
        assert admin.create_topic(topic, {0: (broker,)}, configs) is None
    for codec in CODECS:
        produce(cluster, f"codec-{codec}", codec, 3_000)
    produce(cluster, "compacted", "lz4", 4_000, keys=50)
    produce(cluster, "deleted", "none", 4_000, keys=4_000)
    transact(cluster, "txn")

    def settled(rows: list[Row]) -> bool:
        """Whether the broker has nothing left to compact or to delete, so that its files stay as they are."""
        sizes = [int(str(row["size_bytes"])) for row in rows if row["topic"] == "deleted"]
        compacted = [row for row in rows if row["topic"] == "compacted"]
        return (
            all(row["role"] == "log" and not row["fault"] for row in rows)
            and any(row["missing_records"] for row in compacted)
            and cleaned_to(cluster, "compacted") == compacted[-1]["base_offset"]
            and sum(sizes) < RETAINED + sizes[0]
        )

    return LoadedBroker(cluster, scan_until(cluster, settled))


def test_totals_are_those_that_the_broker_reports(loaded: LoadedBroker) -> None:
    (broker,) = loaded.cluster.open_admin().log_dirs(loaded.cluster.broker_ids).values()
    sizes = {(p.topic, p.partition): replica.size_bytes for p, replica in broker.replicas.items()}
    names = sorted({(str(r["topic"]), 0) for r in loaded.rows if not str(r["topic"]).startswith("__")})
    consumer = KafkaConsumer(bootstrap_servers=loaded.cluster.bootstrap_servers)
    partitions = [TopicPartition(*name) for name in names]
    begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    for name, partition in zip(names, partitions, strict=True):
        rows: list[Any] = [r for r in loaded.rows if (r["topic"], r["partition"]) == name]
        assert sum(r["size_bytes"] for r in rows) == sizes[name], name
        assert rows[-1]["last_offset"] + 1 == ends[partition], name
        assert rows[0]["base_offset"] == begins[partition], name
        assert [r["is_active"] for r in rows] == [False] * (len(rows) - 1) + [True]


def test_sound_segments_have_no_faults(loaded: LoadedBroker) -> None:
    faults = ("crc_failures", "index_faults", "time_index_faults", "torn_bytes", "overlaps", "epoch_regressions",
              "epoch_faults", "legacy_batches", "dead_bytes")  # fmt: skip
    assert [(r["path"], name, r[name]) for r in loaded.rows for name in (*faults, "fault") if r[name]] == []
    assert sum(int(str(r["index_entries"])) for r in loaded.rows) > 500


def test_records_codecs_and_transactions_are_those_that_were_written(loaded: LoadedBroker) -> None:
    def total(topic: str, name: str) -> int:
        return sum(int(str(row[name])) for row in loaded.of(topic))

    for codec in CODECS:
        topic = f"codec-{codec}"
        assert total(topic, "records") == 3_000
        assert total(topic, f"{codec}_batches") == total(topic, "batches") > 100
        assert total(topic, "missing_records") == total(topic, "offset_gaps") == 0
        assert len(loaded.of(topic)) > 1
    assert (total("txn", "records"), total("txn", "control_batches"), total("txn", "aborted_records")) == (356, 6, 100)
    (last,) = (row for row in loaded.of("txn") if row["is_active"])
    assert isinstance(last["open_txn_since_ms"], int)
    assert total("compacted", "records") < 4_000
    assert total("deleted", "records") < 4_000 == int(str(loaded.of("deleted")[-1]["last_offset"])) + 1


def test_batches_are_those_of_kafkas_own_tool(loaded: LoadedBroker, machine: Machine) -> None:
    # DumpLogSegments names decoders of kafka-tools-api, a jar that brokers do without.
    class_path = ":".join(machine.jars.class_path(VERSION, lambda _: None, tools=True))
    paths = [str(row["path"]) for row in loaded.rows if not str(row["topic"]).startswith("__")]
    done = subprocess.run(
        [machine.find_java().path, "-cp", class_path, "kafka.tools.DumpLogSegments", "--files", ",".join(paths)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    dumped: dict[str, list[tuple[str, ...]]] = {}
    for line in done.stdout.splitlines():
        if line.startswith("Dumping "):
            dumped[line.removeprefix("Dumping ")] = []
        elif line.startswith("baseOffset"):
            found = LINE.search(line)
            assert found is not None, line
            dumped[list(dumped)[-1]].append(found.groups())
    assert {path: own_lines(Path(path)) for path in paths} == dumped
    assert sum(map(len, dumped.values())) > 800


def own_lines(path: Path) -> list[tuple[str, ...]]:
    """The batches of a file in the words of the tool."""
    data = path.read_bytes()
    fields = ("count", "sequence", "producer", "producer_epoch", "leader_epoch", "attributes", "max_ms", "magic", "crc")
    lines = []
    for part in walk_batches(memoryview(data), len(data)):
        if not isinstance(part, BatchChunk):
            continue
        bases = part.field("base_offset")
        columns = [bases, bases + part.field("last_delta"), part.positions, part.sizes, *map(part.field, fields)]
        for row in zip(*(column.tolist() for column in columns), strict=True):
            base, last, at, size, count, sequence, producer, epoch, leader, bits, max_ms, magic, crc = row
            words = (base, last, count, sequence, producer, epoch, leader, str(bool(bits & 16)).lower(),
                     str(bool(bits & 32)).lower(), at, max_ms, size, magic, CODECS[bits & 7], crc)  # fmt: skip
            lines.append(tuple(map(str, words)))
    return lines
