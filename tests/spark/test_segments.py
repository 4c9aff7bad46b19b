"""The jobs `segments` and `bombs`: against a plain reference on random fleets, and over real segment files."""

import json
import os
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafkakit.adapters.files import local_files
from kafkakit.core.findings import AuditFinding
from kafkakit.core.fleet_tables import TABLES
from kafkakit.streams.model.log_dirs import partitions_below
from kafkakit.streams.model.segment_rows import ScanOptions, read_partition
from tests.rigs.segment_writer import batch, write_segment
from tests.spark.conftest import NOW_MS, StoreBuilder, run_job, spec_for
from tests.spark.reference_segments import DAY_MS, bomb_findings, segment_findings

HOUR_MS = 3_600_000
POLICIES: tuple[Mapping[str, Any] | None, ...] = (
    None, {}, {"cleanup.policy": "compact"}, {"retention.ms": 2 * DAY_MS, "segment.ms": 12 * HOUR_MS},
    {"retention.ms": DAY_MS, "segment.bytes": 1 << 20, "segment.index.bytes": 8_000},
    {"cleanup.policy": "compact,delete"},
)  # fmt: skip


def segment(draw: random.Random, topic: str, partition: int, broker: int, base: int, **known: Any) -> dict[str, Any]:
    """A sound segment of 100 batches, with a defect or two now and then."""
    begun = NOW_MS - draw.choice((1, 3, 30)) * DAY_MS
    row: dict[str, Any] = {
        "broker": broker, "log_dir": "/d1", "topic": topic, "partition": partition, "base_offset": base, "role": "log",
        "path": f"/d1/{topic}-{partition}/{base:020d}.log", "size_bytes": draw.choice((1 << 20, 1 << 30, 50_000)),
        "mtime_ms": begun + DAY_MS, "is_active": False, "batches": 100, "records": 1_000, "torn_bytes": 0,
        "legacy_batches": 0, "first_offset": base, "last_offset": base + 999, "first_batch_max_ms": begun,
        "max_ms": begun + DAY_MS, "append_time_batches": 0, "zstd_batches": 100, "first_epoch": 3, "last_epoch": 3,
        "index_entries": 50, "time_index_entries": 50, "open_txn_since_ms": None, "smallest_ratio_bound": 0.1, **known,
    }  # fmt: skip
    defects: list[dict[str, Any]] = [
        {"crc_failures": 2}, {"fault": "no batch header at position 9"}, {"fault": "x vanished while it was read"},
        {"fault": "x cannot be read: Input/output error"}, {"torn_bytes": 5}, {"offset_gaps": 1}, {"overlaps": 2},
        {"epoch_regressions": 1}, {"epoch_faults": 4}, {"index_faults": 1, "time_index_faults": None},
        {"index_entries": None}, {"recovery_point": base + 5_000, "is_active": True},
        {"open_txn_since_ms": begun, "is_active": True}, {"last_offset": base + 899}, {"last_offset": base + 1_005},
        {"first_epoch": 2, "last_epoch": 2}, {"max_ms": NOW_MS + 2 * HOUR_MS}, {"max_ms": None, "missing_times": 7},
        {"size_bytes": 0, "first_offset": None, "last_offset": None, "first_epoch": None, "last_epoch": None,
         "batches": 0},
        {"index_entries": 1_500}, {"tiny_batches": 99, "batches": 5_000}, {"lz4_batches": 2_000, "batches": 2_100},
        {"legacy_batches": 3}, {"missing_records": 3, "offset_gaps": 2}, {"aborted_records": 600},
        {"append_time_batches": 100, "max_ms": begun - 5 * DAY_MS},
        {"max_ms": begun - 5 * DAY_MS}, {"seen_at_ms": NOW_MS + DAY_MS}, {"first_batch_max_ms": None},
    ]  # fmt: skip
    for defect in draw.sample(defects, draw.choice((0, 0, 0, 1, 2))):
        row |= defect
    return row


def fleet(seed: int) -> tuple[list[dict[str, Any]], dict[str, Mapping[str, Any]]]:
    """The rows of a cluster, and the settings of the topics that its store knows."""
    draw = random.Random(seed)
    rows: list[dict[str, Any]] = []
    known: dict[str, Mapping[str, Any]] = {}
    for number in range(6):
        topic, own = f"t{number}", draw.choice(POLICIES)
        if own is not None:
            known[topic] = own
        for partition in range(2):
            for broker in (1, 2):
                count = draw.choice((1, 3, 5))
                rows += [
                    segment(draw, topic, partition, broker, n * 1_000, is_active=n == count - 1) for n in range(count)
                ]
        for role in draw.sample(("deleted", "delete", "stray", "orphan", "swap", "cleaned", "foreign", "future"), 2):
            rows.append(
                {"broker": 1, "log_dir": "/d2", "topic": topic, "partition": 0, "role": role,
                 "path": f"/d2/{topic}/{role}",
                 "mtime_ms": NOW_MS - draw.choice((100_000, DAY_MS, 9 * DAY_MS)), "dead_bytes": 10, "is_active": False}
            )  # fmt: skip
    return rows, known


def add_topics(store: StoreBuilder, known: Mapping[str, Mapping[str, Any]], cluster: str) -> None:
    store.add("topics", [{"topic": topic, "partitions": 2, "replication": 2} for topic in known], cluster=cluster)
    configs = [
        {"topic": t, "key": k, "value": str(v), "source": "topic"} for t, own in known.items() for k, v in own.items()
    ]
    store.add("topic_configs", configs, cluster=cluster)


COMPARED = ("cluster", "where", "rule", "count", "message", "hint", "repair", "score", "fingerprint")


def found_by(output: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in COMPARED) for row in output.findings.collect())


def wanted(findings: list[AuditFinding]) -> list[tuple[Any, ...]]:
    return sorted(
        (f.cluster, f.where, f.rule, f.count, f.message, f.hint, f.repair, f.score, f.fingerprint) for f in findings
    )


def test_segments_are_judged_as_the_reference_does(spark: Any, store: StoreBuilder) -> None:
    every: list[dict[str, Any]] = []
    configs: dict[tuple[str, str], Mapping[str, Any]] = {}
    for seed in range(12):
        rows, known = fleet(seed)
        cluster = f"c{seed}"
        store.add("segments", rows, cluster=cluster)
        add_topics(store, known, cluster)
        columns = dict.fromkeys(TABLES["segments"].names)
        every += [{**columns, **row, "cluster": cluster} for row in rows]
        configs |= {(cluster, topic): own for topic, own in known.items()}
    output = run_job(spark, spec_for(store.finish(), "segments"))
    reference = wanted(segment_findings(every, configs, NOW_MS))
    assert found_by(output) == reference
    codes = {row[2] for row in reference}
    assert len(codes) >= 20, sorted(codes)
    (facts,) = (row for frame in output.facts[:1] for row in frame.collect())
    assert facts["segments"] == sum(row["role"] == "log" for row in every)
    assert facts["topics_without_settings"] == 72 - len(configs)


def test_bombs_are_judged_as_the_reference_does(spark: Any, store: StoreBuilder) -> None:
    draw = random.Random(5)
    every: list[dict[str, Any]] = []
    configs: dict[tuple[str, str], Mapping[str, Any]] = {}
    for cluster in ("a", "b"):
        known: dict[str, Mapping[str, Any]] = {
            f"t{n}": draw.choice(({}, {"max.message.bytes": 20 << 20})) for n in range(25) if n % 5
        }
        add_topics(store, known, cluster)
        rows = []
        for _ in range(150):
            packed = draw.choice((28, 2_000, 100_000, 1_000_000, 60_000_000))
            size = packed * draw.choice((1, 3, 50, 54, 60, 400, 31_000))
            codec = draw.choice(("zstd", "zstd", "lz4", "gzip"))
            rows.append({
                "topic": f"t{draw.randrange(25)}", "partition": 0, "base_offset": draw.randrange(40), "codec": codec,
                "records": draw.choice((1, 500)), "compressed_bytes": packed, "decompressed_bytes": size,
                "content_size": size if codec == "zstd" and draw.random() < 0.3 else None,
                "is_bound": draw.random() < 0.5, "producer_id": draw.randrange(-1, 3), "path": "/d1/x.log",
            })  # fmt: skip
        rows = list({(r["topic"], r["base_offset"]): r for r in rows}.values())
        store.add("batches", rows, cluster=cluster)
        every += [{**row, "cluster": cluster} for row in rows]
        configs |= {(cluster, topic): own for topic, own in known.items()}
    spec = spec_for(store.finish(), "bombs", receive_message_max_bytes="100000000,1000000000")
    reference = wanted(bomb_findings(every, configs, 256 << 20, "100000000,1000000000"))
    assert found_by(run_job(spark, spec)) == reference
    assert {"KKM409", "KKM410"} == {row[2] for row in reference}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A log dir of broker 3 in cluster `xyz`: sound segments of `good`, and damaged ones of `bad`."""
    root = tmp_path / "disk"
    for n in range(4):
        write_segment(root / f"good-{n}", 0, [batch(k, ms=NOW_MS - 1_000 + k) for k in range(50)], every=5)
        write_segment(root / f"good-{n}", 50, [batch(50 + k, ms=NOW_MS - 500 + k) for k in range(5)], tail=b"\0" * 9)
    now = NOW_MS - 1_000
    broken = batch(2, [b"x" * 100], ms=now)
    write_segment(root / "bad-0", 0, [batch(0, ms=now), batch(1, ms=now), broken[:-1] + b"?"], tail=broken[:30])
    bomb = batch(10, [bytes(300 << 20)], ms=now, codec="zstd", producer=4)
    write_segment(root / "bad-0", 7, [batch(7, ms=now), batch(9, ms=now), bomb])
    (root / "bad-0" / "notes.txt").write_text("?")
    (root / "meta.properties").write_text("node.id=3\ncluster.id=xyz\n")
    for file in root.rglob("*.log"):
        os.utime(file, (NOW_MS / 1_000, NOW_MS / 1_000))
    return root


def scan(spark: Any, root: Path, kind: str, **options: str) -> Any:
    from kafkakit_spark.jobs.segments import SegmentSource

    spark.dataSource.register(SegmentSource)
    reader = spark.read.format("kafka_segments").option("paths", json.dumps([str(root)])).option("rows", kind)
    return reader.options(**options).load()


def test_the_data_source_gives_the_rows_of_the_plain_reader(spark: Any, tree: Path) -> None:
    options = ScanOptions(with_crc=True, seen_at_ms=NOW_MS)
    plain = [
        rows
        for found in partitions_below(f"{tree}", local_files())
        for rows in read_partition(found, local_files(), options)
    ]
    frame = scan(spark, tree, "segments", crc="true", seen_at_ms=str(NOW_MS), task_bytes="20000")
    names = (*TABLES["segments"].names, "cluster")
    key = repr
    assert sorted((tuple(r[n] for n in names) for r in frame.collect()), key=key) == sorted(
        (tuple(p.segment.get(n) for n in names) for p in plain), key=key
    )
    batches = scan(spark, tree, "batches").collect()
    assert sorted(r["base_offset"] for r in batches) == sorted(
        int(str(b["base_offset"])) for p in plain for b in p.batches
    )


def test_tasks_hold_whole_directories_and_about_as_many_bytes(spark: Any, tree: Path) -> None:
    from kafkakit_spark.jobs.segments import SegmentReader

    del spark
    reader = SegmentReader([str(tree), str(tree / "none")], "segments", ScanOptions(), 12_000)
    tasks: list[Any] = list(reader.partitions())
    paths = [d.path for task in tasks for d in task.found]
    assert sorted(paths) == sorted(
        [*(str(tree / f"good-{n}") for n in range(4)), str(tree / "bad-0"), str(tree / "none")]
    )
    assert 2 <= len(tasks) < len(paths)
    first = [batch.to_pylist() for task in tasks for batch in reader.read(task)]
    assert [batch.to_pylist() for task in tasks for batch in reader.read(task)] == first
    (fault,) = (row for rows in first for row in rows if row["role"] == "unreadable")
    assert fault["fault"] == "cannot be listed: No such file or directory"


def test_a_scanned_tree_is_judged_with_the_settings_of_the_store(spark: Any, store: StoreBuilder, tree: Path) -> None:
    store.add("clusters", [{"cluster_id": "xyz"}], cluster="prod")
    add_topics(store, {"good": {}, "bad": {}}, "prod")
    spec = replace(spec_for(store.finish(), "segments", crc=1), segments=(tree.as_uri(),))
    output = run_job(spark, spec)
    found = sorted((r["where"], r["rule"], r["count"]) for r in output.findings.collect())
    assert found == [
        ("log dir 3:" + str(tree) + " of prod", "KKF023", 1),
        ("partition bad-0 of prod", "KKF005", 2),
        ("partition bad-0 on broker 3 of prod", "KKF001", 1),
        ("partition bad-0 on broker 3 of prod", "KKF004", 1),
    ]
    bombs = run_job(spark, replace(spec, jobs=("bombs",)))
    (bomb,) = [r for r in bombs.findings.collect() if r["rule"] == "KKM409"]
    assert bomb["where"] == "topic bad of prod"
    assert "producer ids 4" in bomb["hint"]
