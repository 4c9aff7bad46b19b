"""The jobs `segments` and `bombs`: against a plain reference on random fleets, and over real segment files."""

import json
import os
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkakit.adapters.files import local_files
from kafkakit.core.findings import AuditFinding
from kafkakit.core.fleet_tables import TABLES, VERSION_COLUMN
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


TOPIC_ID = "00000000-0000-0000-0000-000000000007"
TAKEN_MS, BEFORE_MS, AFTER_MS = NOW_MS - HOUR_MS, NOW_MS - 2 * HOUR_MS, NOW_MS - 1


def directory(topic: str | None, partition: int | None = 0, role: str = "live", **known: Any) -> dict[str, Any]:
    """A directory on broker 1 that was there before the metadata were collected, and read afterwards."""
    path = f"/d1/{topic}-{partition}{'' if role == 'live' else f'.ab-{role}'}"
    return {"broker": 1, "log_dir": "/d1", "topic": topic, "partition": partition, "path": path, "role": role,
            "topic_id": TOPIC_ID, "held_bytes": 4_096, "oldest_ms": BEFORE_MS, "seen_at_ms": NOW_MS,
            **known}  # fmt: skip


def add_metadata(store: StoreBuilder, cluster: str, *, futures: int = 0, error: str | None = None) -> None:
    """Topic `t` of two partitions on brokers 1 and 2, with `futures` copies of partition 0 on their way."""
    store.add("clusters", [{"cluster_id": "x", "taken_at_ms": TAKEN_MS}], cluster=cluster)
    store.add("brokers", [{"broker": b, "is_alive": True} for b in (1, 2, 3)], cluster=cluster)
    store.add("topics", [{"topic": "t", "topic_id": TOPIC_ID, "partitions": 2, "replication": 2}], cluster=cluster)
    places = [{"topic": "t", "partition": n, "replicas": [1, 2]} for n in (0, 1)]
    store.add("partitions", places, cluster=cluster)
    copies = [{"topic": "t", "partition": 0, "broker": 1, "is_future": n > 0} for n in range(futures + 1)]
    store.add("replicas", copies, cluster=cluster)
    dirs = [{"broker": b, "path": "/d1", "error": error if b == 1 else None} for b in (1, 2, 3)]
    store.add("log_dirs", dirs, cluster=cluster)


def directories_of(spark: Any, store: StoreBuilder) -> tuple[set[tuple[str, str]], tuple[str, ...]]:
    output = run_job(spark, spec_for(store.finish(), "segments"))
    return {(row["rule"], row["where"]) for row in output.findings.collect()}, output.skipped


def test_directories_that_the_metadata_do_not_know_are_found(spark: Any, store: StoreBuilder) -> None:
    add_metadata(store, "a")
    rows = [
        directory("ghost"), directory("ghost", role="future"), directory("t", 2), directory("t", 1, topic_id="id-2"),
        directory("t", 1, broker=3), directory("t", role="future"), directory(None, None, "foreign", path="/d1/odd"),
        directory("t"), directory("t", 1, topic_id=None), directory("gone", role="delete"),
        directory("gone", role="stray"), directory("__cluster_metadata", topic_id="AAAAAAAAAAAAAAAAAAAAAQ"),
    ]  # fmt: skip
    store.add("directories", rows, cluster="a")
    output = run_job(spark, spec_for(store.finish(), "segments"))
    found = sorted((r["rule"], r["where"], r["message"]) for r in output.findings.collect())
    assert found == [
        ("KKF025", "partition ghost-0 on broker 1 of a", "/d1/ghost-0 uses 4 KiB: the cluster has no topic ghost"),
        (
            "KKF025",
            "partition ghost-0 on broker 1 of a",
            "/d1/ghost-0.ab-future uses 4 KiB: the cluster has no topic ghost",
        ),
        (
            "KKF026",
            "partition t-1 on broker 1 of a",
            "/d1/t-1 uses 4 KiB: its topic id is id-2, the one of topic t is AAAAAAAAAAAAAAAAAAAABw",
        ),
        (
            "KKF027",
            "partition t-2 on broker 1 of a",
            "/d1/t-2 uses 4 KiB: topic t has no partition 2: it has 2",
        ),
        (
            "KKF028",
            "partition t-1 on broker 3 of a",
            "/d1/t-1 uses 4 KiB: the partition's replicas are on brokers 1, 2",
        ),
        (
            "KKF029",
            "partition t-0 on broker 1 of a",
            "/d1/t-0.ab-future uses 4 KiB: no move between log dirs fills it",
        ),
        ("KKF030", "broker 1 of a", "/d1/odd uses 4 KiB: it is not a partition's"),
    ]
    assert output.skipped == ()
    facts = {key: value for frame in output.facts for row in frame.collect() for key, value in row.asDict().items()}
    assert (facts["unknown_directory_bytes"], facts["directories_compared"]) == (7 * 4_096, 8)


def test_directories_are_not_judged_by_metadata_of_another_time(spark: Any, store: StoreBuilder) -> None:
    # Made after the metadata, as a topic that is new or was made again, a copy or a move that came: not dead.
    add_metadata(store, "new")
    later: dict[str, Any] = {"oldest_ms": AFTER_MS}
    rows = [directory("made", **later), directory("t", topic_id="id-2", **later), directory("t", 2, **later),
            directory("t", broker=3, **later), directory("t", role="future", **later)]  # fmt: skip
    store.add("directories", rows, cluster="new")
    # Read before the metadata: the topic may have been deleted between.
    add_metadata(store, "old")
    store.add("directories", [directory("deleted", seen_at_ms=BEFORE_MS)], cluster="old")
    # A move that goes on; a broker without an answer; metadata of no day; metadata that are damaged.
    add_metadata(store, "moving", futures=1)
    store.add("directories", [directory("t", role="future")], cluster="moving")
    add_metadata(store, "silent", error="KafkaStorageException")
    store.add("directories", [directory("ghost")], cluster="silent")
    store.add("directories", [directory("ghost"), directory("ghost", 1)], cluster="alone")
    add_metadata(store, "damaged")
    store.add("directories", [directory("ghost")], cluster="damaged")
    (file,) = (store.folder / "partitions").glob("*/cluster=damaged/*.parquet")
    file.write_bytes(b"PAR1")
    found, skipped = directories_of(spark, store)
    assert found == set()
    assert skipped == (
        "2 directories of alone: not compared with topics and replicas, since there are no whole metadata of this day "
        "in the store",
        "1 directory of damaged: not compared with topics and replicas, since there are no whole metadata of this day "
        "in the store",
        "1 directory of old: not compared with topics and replicas, since they were read before the metadata: "
        "collect the cluster first, then read its log dirs",
        "1 directory of silent: not compared with topics and replicas, since broker 1 gave no log dirs when the "
        "metadata were collected",
    )


def test_rows_of_directories_that_a_newer_kafkakit_wrote_are_named(spark: Any, store: StoreBuilder) -> None:
    from kafkakit_spark.job import SnapshotStore

    add_metadata(store, "a")
    store.add("directories", [directory("ghost")], cluster="a")
    (file,) = (store.folder / "directories").glob("*/*/*.parquet")
    rows = pq.read_table(file)
    at = rows.schema.get_field_index(VERSION_COLUMN)
    pq.write_table(rows.set_column(at, VERSION_COLUMN, pa.array([99], pa.int32())), file)
    spec = spec_for(store.finish(), "segments")
    assert run_job(spark, spec).findings.collect() == []
    snapshots = SnapshotStore(spark, spec.input, spec.dates)
    snapshots.read("directories", spec.dates)
    assert [line for line in snapshots.left_out if "newer kafkakit" in line]


@pytest.mark.parametrize(
    ("known", "is_late"),
    [
        # Old by their stamps, appended three minutes ago: a backfill. The broker checks each five minutes.
        ({"max_ms": NOW_MS - 9 * DAY_MS, "mtime_ms": NOW_MS - 180_000}, False),
        ({"max_ms": NOW_MS - 9 * DAY_MS, "mtime_ms": NOW_MS - 400_000}, True),
        # A mirror that copies ten days of records in a minute into one segment.
        ({"max_ms": NOW_MS - DAY_MS // 2, "mtime_ms": NOW_MS - 60_000, "first_batch_max_ms": NOW_MS - 2 * DAY_MS,
          "is_active": True}, False),
        # Another that goes on until now, into a directory that is an hour old.
        ({"max_ms": NOW_MS - 1_000, "mtime_ms": NOW_MS - 1_000, "born_ms": NOW_MS - HOUR_MS}, False),
        ({"max_ms": NOW_MS - 1_000, "mtime_ms": NOW_MS - 1_000, "born_ms": NOW_MS - 5 * DAY_MS}, True),
        # A segment that has been open since then.
        ({"max_ms": NOW_MS - 1_000, "mtime_ms": NOW_MS - 1_000, "is_active": True}, True),
        # One whose records are stamped in the future.
        ({"max_ms": NOW_MS + DAY_MS, "mtime_ms": NOW_MS - 9 * DAY_MS}, True),
    ],
)  # fmt: skip
def test_overshoot_waits_until_the_broker_had_time_to_delete(
    spark: Any, store: StoreBuilder, known: Mapping[str, Any], is_late: bool
) -> None:
    row = segment(random.Random(0), "t", 0, 1, 0)
    if "born_ms" in known:
        here = {"log_dir": row["log_dir"], "path": "/d1/t-0", "oldest_ms": known["born_ms"]}
        store.add("directories", [directory("t", **here)], cluster="a")
    sound = {"first_batch_max_ms": NOW_MS - 10 * DAY_MS, "is_active": False, "fault": None}
    store.add("segments", [{**row, **sound, **known}], cluster="a")
    add_topics(store, {"t": {"retention.ms": DAY_MS, "segment.ms": 30 * DAY_MS}}, "a")
    output = run_job(spark, spec_for(store.finish(), "segments"))
    assert ("KKF018" in {r["rule"] for r in output.findings.collect()}) is is_late


def compacted(base: int, *, closed_ms: int | None, **known: Any) -> dict[str, Any]:
    """A segment of 1,000 bytes and 100 offsets, closed so long ago; None for the active one."""
    at = NOW_MS - (closed_ms or 0)
    return {
        "broker": 1, "log_dir": "/d1", "topic": "t", "partition": 0, "base_offset": base, "role": "log",
        "path": f"/d1/t-0/{base:020d}.log", "size_bytes": 1_000, "mtime_ms": at, "max_ms": at,
        "is_active": closed_ms is None, "batches": 1, "records": 100, "first_offset": base, "last_offset": base + 99,
        "torn_bytes": 0, "legacy_batches": 0,
        "index_entries": 1, "time_index_entries": 1, "first_batch_max_ms": at, "append_time_batches": 0, **known,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("ages", "known", "settings", "is_late"),
    [
        # Two closed segments of three behind the checkpoint, for two hours and more.
        ((5, 3, 2), {"cleaned_to": 100}, {}, True),
        ((5, 3, 2), {"cleaned_to": 0}, {}, True),
        # The cleaner has been there, or is not due: half of the log, closed just now, a lag that is set.
        ((5, 3, 2), {"cleaned_to": 300}, {}, False),
        ((5, 3), {"cleaned_to": 100}, {}, False),
        ((5, 3), {"cleaned_to": 100}, {"min.cleanable.dirty.ratio": "0.4"}, True),
        ((5, 0.5, 0.4), {"cleaned_to": 100}, {}, False),
        ((5, 3, 2), {"cleaned_to": 100}, {"min.compaction.lag.ms": DAY_MS}, False),
        # Not known: the tree has no checkpoint.
        ((5, 3, 2), {"cleaned_to": None}, {}, False),
        # Not compacted, and kept by an open transaction.
        ((5, 3, 2), {"cleaned_to": 100}, {"cleanup.policy": "delete"}, False),
        ((5, 3, 2), {"cleaned_to": 100, "open_txn_since_ms": NOW_MS - 5 * HOUR_MS}, {}, False),
    ],
)
def test_compaction_that_does_not_keep_up_is_found(
    spark: Any,
    store: StoreBuilder,
    ages: tuple[float, ...],
    known: dict[str, Any],
    settings: dict[str, Any],
    is_late: bool,
) -> None:
    rows = [compacted(100 * n, closed_ms=round(age * HOUR_MS)) for n, age in enumerate(ages)]
    open_since = known.get("open_txn_since_ms")
    rows.append(compacted(100 * len(ages), closed_ms=None, open_txn_since_ms=open_since))
    store.add("segments", rows, cluster="a")
    store.add("directories", [directory("t", cleaned_to=known["cleaned_to"])], cluster="a")
    add_topics(store, {"t": {"cleanup.policy": "compact", **settings}}, "a")
    output = run_job(spark, spec_for(store.finish(), "segments"))
    found = [row for row in output.findings.collect() if row["rule"] == "KKF031"]
    assert bool(found) is is_late
    if known == {"cleaned_to": 100} and not settings and is_late:
        assert (found[0]["where"], found[0]["message"]) == (
            "topic t of a",
            "1.95 KiB of closed segments have waited for up to 3 h to be compacted, in 1 copy on broker 1: more than "
            "min.cleanable.dirty.ratio (0.5) of their logs; look at /d1/t-0/00000000000000000100.log",
        )


def test_the_log_of_controllers_is_not_judged_as_a_topic(spark: Any, store: StoreBuilder) -> None:
    draw = random.Random(1)
    tiny = {"tiny_batches": 4_900, "single_record_batches": 4_900, "batches": 5_000, "legacy_batches": 1}
    rows = [
        {**segment(draw, "__cluster_metadata", 0, 1, n * 1_000, is_active=n == 3), **tiny, "fault": None,
         "max_ms": NOW_MS + DAY_MS} for n in range(4)
    ]  # fmt: skip
    store.add("segments", [*rows, {**rows[0], "topic": "t"}], cluster="a")
    add_topics(store, {"t": {}}, "a")
    output = run_job(spark, spec_for(store.finish(), "segments"))
    found = {r["where"] for r in output.findings.collect() if r["where"].startswith("topic ")}
    assert found == {"topic t of a"}
    (facts,) = output.facts[0].collect()
    assert (facts["topics"], facts["topics_without_settings"]) == (1, 0)
