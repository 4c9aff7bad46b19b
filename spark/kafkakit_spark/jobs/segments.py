"""The job `segments`: what segments show of brokers, producers and disks, one pass over their rows.

Rows are brought together by partition once; the windows along a replica's log, the sums of a replica and those of a
partition all use that. Topics are summed up from partitions, of which there are far fewer.

Rows come from a store, or from Spark's data source `kafka_segments`: log segments of the hosts that run tasks, by their
headers.

    spark.dataSource.register(SegmentSource)
    spark.read.format("kafka_segments").option("paths", json.dumps([...])).load()

Options: `paths`, a JSON list of folders; `rows`, `segments` (the default), `batches` or `directories`, a table of
`kafkakit.core.fleet_tables`; `crc`, `true` to check checksums; `task_bytes`, the bytes of files that a task takes;
`seen_at_ms`. A further column `cluster` holds the id that `meta.properties` gives.
"""

import json
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kafkakit.core.fleet_tables import TABLES
from kafkakit.rules.audits import segments
from kafkakit.rules.families.retention import KAFKAS_RETENTION_MS
from kafkakit.rules.rule import Limits
from kafkakit.streams.model.log_dirs import (
    FileReader,
    PartitionFiles,
    SeenFile,
    content_before_zeros,
    partitions_below,
    seen_files,
)
from kafkakit.streams.model.segment_rows import Row, ScanOptions, directory_row, read_partition
from kafkakit_spark.effective import effective_topics
from kafkakit_spark.job import ARROW_TYPES, JobInput, JobOutput, findings_of, local_path, ratio, total

PARTITION = ("cluster", "topic", "partition")
REPLICA = (*PARTITION, "broker", "log_dir")
_SUMS = (
    "size_bytes", "batches", "records", "missing_times", "single_record_batches", "tiny_batches", "aborted_records",
    "legacy_batches", "missing_records", *(f"{codec}_batches" for codec in segments.CODECS),
)  # fmt: skip
_SETTINGS = ("retention_ms", "roll_ms", "check_interval_ms", "pause_ms", "index_bytes", "is_expiring")
_AGES = ("age_ms", "late_ms")


def run(inputs: JobInput) -> JobOutput:
    """Findings, and the tables `topics` (causes of rolls, ages, producers) and `log_dirs` (dead files)."""
    settings = inputs.step("settings", _settings(inputs))
    turns = [(_rows(inputs, clusters), tables_of(inputs, "directories", clusters)) for clusters in _turns(inputs)]
    rows, every = (reduce(DataFrame.union, frames) for frames in zip(*turns, strict=True))
    is_log = F.col("role").isin("log", "unreadable")
    partitions = inputs.step(
        "partitions",
        *(_partitions(_along_the_log(own.where(is_log), settings, inputs), dirs) for own, dirs in turns),
    )
    topics = inputs.table("topics", _topics(partitions, inputs))
    dirs = inputs.table("log_dirs", _log_dirs(rows, settings))
    directories = inputs.step("directories", _judged_directories(inputs, every))
    held, suspects = (
        reduce(lambda a, b: a | b, (F.col(name).cast("bigint") > 0 for name in names))
        for names in (segments.PARTITION_RULES, (*segments.TOPIC_RULES, "is_skewed"))
    )
    backlogs = inputs.step("backlogs", _backlogs(rows, every, settings, inputs))
    findings = (
        findings_of(partitions.where(held), segments.partition_findings)
        .unionByName(findings_of(topics.where(suspects), segments.topic_findings))
        .unionByName(findings_of(dirs, segments.log_dir_findings))
        .unionByName(findings_of(backlogs, segments.backlog_findings))
        .unionByName(findings_of(directories.where(F.col("held") != ""), segments.directory_findings))
    )
    facts = topics.agg(
        F.sum("segments").alias("segments"), F.sum("size_bytes").alias("bytes"), F.sum("batches").alias("batches"),
        F.sum("records").alias("records"), F.count("*").alias("topics"),
        F.sum((~F.col("is_known")).cast("bigint")).alias("topics_without_settings"),
        F.sum("vanished").alias("segments_vanished"),
        *(F.sum(f"rolled_by_{cause}").alias(f"rolled_by_{cause}") for cause in ("size", "time", "index", "else")),
    )  # fmt: skip
    dead = dirs.agg(F.sum("dead_bytes").alias("dead_bytes"))
    unknown = directories.agg(
        F.sum(F.when(F.col("held") != "", F.col("held_bytes")).otherwise(0)).alias("unknown_directory_bytes"),
        F.sum(_flag(F.col("unjudged") == "")).alias("directories_compared"),
    )
    return JobOutput(
        findings=findings,
        tables={"topics": topics, "log_dirs": dirs},
        facts=(facts, dead, unknown),
        skipped=_not_compared(directories),
    )


def _turns(inputs: JobInput) -> Sequence[Sequence[str] | None]:
    """Clusters whose logs are gone through together; with trees in the spec all are."""
    return [None] if inputs.spec.segments else inputs.store.turns("segments", inputs.spec.snapshot_date)


def _rows(inputs: JobInput, clusters: Sequence[str] | None) -> DataFrame:
    rows = tables_of(inputs, "segments", clusters)
    return rows.withColumn("seen", F.coalesce("seen_at_ms", F.lit(inputs.spec.now_ms)))


def tables_of(inputs: JobInput, kind: str, clusters: Sequence[str] | None = None) -> DataFrame:
    """The rows of a table of files that the store holds, with those of the trees that the spec names.

    A tree's cluster is the one of the store with the id that its `meta.properties` gives, else that id.
    """
    names = ("cluster", *TABLES[kind].names)
    stored = inputs.today(kind, clusters).select(*names)
    if not inputs.spec.segments:
        return stored

    inputs.spark.dataSource.register(SegmentSource)
    options = {"paths": json.dumps(inputs.spec.segments), "rows": kind, "seen_at_ms": str(inputs.spec.now_ms),
               "crc": "true" if inputs.number("crc", 0) else "false"}  # fmt: skip
    scanned = inputs.spark.read.format("kafka_segments").options(**options).load()
    known = inputs.today("clusters").select(F.col("cluster").alias("named"), F.col("cluster_id").alias("id"))
    joined = scanned.join(F.broadcast(known), scanned["cluster"] == known["id"], "left")
    named = joined.withColumn("cluster", F.coalesce("named", "cluster", F.lit("unknown")))
    return stored.unionByName(inputs.step(f"scanned_{kind}", named.select(*names)))


def _settings(inputs: JobInput) -> DataFrame:
    """The effective settings of topics that segments go by; `is_expiring` where retention by time was set, and not to
    Kafka's default."""
    lag, compacts = F.col("max_compaction_lag_ms"), F.col("compacts")
    expires = F.col("deletes") & (F.col("retention_ms") > 0) & (F.lower("remote_storage") != "true")
    is_set = F.array_contains(F.map_keys("settings"), "retention.ms") & (F.col("retention_ms") != KAFKAS_RETENTION_MS)
    return effective_topics(inputs).select(
        "cluster", "topic", "compacts", "retention_ms", "segment_bytes", "index_bytes", "check_interval_ms",
        "delete_delay_ms", "jitter_ms", (F.col("check_interval_ms") + F.col("delete_delay_ms")).alias("pause_ms"),
        "min_compaction_lag_ms", F.coalesce(F.col("dirty_ratio").try_cast("double"), F.lit(0.5)).alias("dirty_ratio"),
        F.lit(True).alias("is_known"),
        F.when(compacts & (lag > 0), F.least(lag, "segment_ms")).otherwise(F.col("segment_ms")).alias("roll_ms"),
        (expires & is_set).alias("is_expiring"),
    )  # fmt: skip


def _along_the_log(rows: DataFrame, settings: DataFrame, inputs: JobInput) -> DataFrame:
    """Each segment with what the one before and the one after tell, and a count for each thing held against it."""
    log = Window.partitionBy(*REPLICA).orderBy("base_offset")
    before = log.rowsBetween(Window.unboundedPreceding, -1)
    near = rows.repartition(*PARTITION).withColumns(
        {
            "before_end": F.last("last_offset", True).over(before) + 1,
            "before_epoch": F.last("last_epoch", True).over(before),
            "before_mtime": F.lag("mtime_ms").over(log),
            "next_first_ms": F.lead("first_batch_max_ms").over(log),
            "is_oldest": F.lag("base_offset").over(log).isNull(),
        }
    )
    frame = near.join(F.broadcast(settings), ["cluster", "topic"], "left")
    closed, fault = ~F.col("is_active"), F.coalesce("fault", F.lit(""))
    gone, unreadable = fault.contains("vanished"), fault.contains("cannot be") | (F.col("role") == "unreadable")
    first = F.coalesce("first_offset", "base_offset")
    end = F.coalesce(F.col("last_offset") + 1, "base_offset")
    # Of a topic whose settings are not known, `_partitions` drops the gaps where compaction shows.
    compacts = F.coalesce("compacts", F.col("topic").startswith("__"))
    is_whole = ~compacts & (F.col("legacy_batches") == 0)
    open_ms = F.when(F.col("is_active"), F.col("seen") - F.col("open_txn_since_ms"))
    limit = inputs.number("open_transaction_ms", segments.OPEN_TRANSACTION_MS)
    lacks = F.col("index_entries").isNull() | F.col("time_index_entries").isNull()
    no_index = closed & (F.col("size_bytes") > 0) & lacks
    counts = {
        "crc_failures": F.col("crc_failures"),
        "damaged": _flag((fault != "") & ~gone & ~unreadable),
        "unreadable": _flag(unreadable & ~gone),
        "torn": _flag(closed & (F.col("torn_bytes") > 0) & (fault == "")),
        "gaps": F.when(is_whole, _number("offset_gaps") + _flag(first > F.col("before_end"))),
        "overlaps": _number("overlaps") + _flag(first < F.col("before_end")),
        "regressions": _number("epoch_regressions") + _flag(F.col("first_epoch") < F.col("before_epoch")),
        "epoch_faults": F.col("epoch_faults"),
        "index_faults": _number("index_faults") + _number("time_index_faults"),
        "missing_indexes": _flag(no_index & (fault == "")),
        "lost_tails": _flag(F.col("is_active") & (fault == "") & (F.col("recovery_point") > end)),
        "open_transactions": _flag(open_ms > limit),
    }
    skew = F.greatest(
        F.col("max_ms") - F.col("mtime_ms"),
        F.when(F.col("max_ms") < F.col("before_mtime"), F.col("before_mtime") - F.col("max_ms")),
    )
    is_empty = closed & (F.col("size_bytes") == 0)
    age = F.when(F.col("is_oldest"), F.col("seen") - F.coalesce("first_batch_max_ms", "max_ms"))
    others = {
        "open_ms": open_ms,
        "vanished": _flag(gone),
        "empty": _flag(is_empty),
        "ahead_ms": F.col("max_ms") - F.col("seen"),
        "skew": F.when(F.coalesce(F.col("append_time_batches") < F.col("batches"), F.lit(True)), skew),
        "age_ms": age,
        "cause": F.when(closed & ~is_empty, _roll_cause()),
    }
    return frame.withColumns(
        {f"n_{name}": F.coalesce(count, F.lit(0)) for name, count in counts.items()} | others | _lateness(age)
    )


def _lateness(age: Column) -> dict[str, Column]:
    """The age of the oldest segment if it is beyond its retention as far as the segment tells, else null.

    `expired_ms`: all its records are, and its broker had a round of checks and the delay of deletion since the last
    append. `held_ms`: not all are, and its first record was appended long before the last one: as long as their stamps
    say, where the last one was appended when it was stamped. Records of backfills and mirrors were not.
    """
    since, first = F.col("seen") - F.col("mtime_ms"), F.coalesce("first_batch_max_ms", "max_ms")
    is_expired = F.col("max_ms") < F.col("seen") - F.col("retention_ms")
    is_late = F.when(is_expired, since > F.col("pause_ms")).otherwise(
        (F.col("mtime_ms") - F.col("max_ms") <= F.col("pause_ms"))
        & (since + F.col("max_ms") - first > F.col("retention_ms") + F.col("pause_ms"))
    )
    late = F.when(F.coalesce(is_late, F.lit(True)), age)
    return {
        "expired_ms": F.when(F.coalesce(is_expired, F.lit(True)), late),
        "held_ms": F.when(~is_expired, late),
    }


def _roll_cause() -> Column:
    """Why a closed segment was rolled, after `LogSegment.shouldRoll`; `else` for restarts and other causes."""
    full = F.col("size_bytes") >= segments.SIZE_FULL * F.col("segment_bytes")
    index = F.floor(F.col("index_bytes") / 8)
    time_index = F.floor(F.col("index_bytes") / 12) - 1
    waited = F.col("next_first_ms") - F.col("first_batch_max_ms")
    by_index = (F.col("index_entries") >= index) | (F.col("time_index_entries") >= time_index)
    by_time = waited > F.col("roll_ms") - F.least("jitter_ms", "roll_ms")
    return F.when(full, "size").when(by_index, "index").when(by_time, "time").otherwise("else")


def _partitions(logs: DataFrame, directories: DataFrame) -> DataFrame:
    """One row for each partition: sums over its replicas, of the skew the least, since copies have later files."""
    full = F.when(F.col("cause") == "time", ratio(F.col("size_bytes"), "segment_bytes"))
    paths = [f"path_{name}" for name in segments.PARTITION_RULES]
    replicas = logs.groupBy(*REPLICA).agg(
        F.count("*").alias("segments"),
        *(F.sum(name).alias(name) for name in (*_SUMS, "vanished")),
        *(F.sum(f"n_{name}").alias(name) for name in segments.PARTITION_RULES),
        *(F.min(F.when(F.col(f"n_{n}") > 0, F.col("path"))).alias(f"path_{n}") for n in segments.PARTITION_RULES),
        *(F.sum(_flag(F.col("cause") == c)).alias(f"rolled_by_{c}") for c in ("size", "time", "index", "else")),
        total(full).alias("full"),
        F.sum("empty").alias("empty_segments"),
        F.sum(_flag(F.col("ahead_ms") > segments.FUTURE_MS)).alias("future_segments"),
        *(F.max(name).alias(name) for name in (
            "seen", "open_ms", "ahead_ms", "skew", "age_ms", "expired_ms", "held_ms", "smallest_ratio_bound",
        )),
        *(F.first(name).alias(name) for name in (*_SETTINGS, "is_known")),
    )  # fmt: skip
    added = (
        "segments", *_SUMS, "vanished", *segments.PARTITION_RULES, "full", "empty_segments", "future_segments",
        *(f"rolled_by_{cause}" for cause in ("size", "time", "index", "else")),
    )  # fmt: skip
    births = directories.where("role = 'live'").groupBy(*REPLICA).agg(F.min("oldest_ms").alias("born_ms"))
    # No record was appended before the copy was here.
    is_held = F.col("born_ms").isNull() | (F.col("seen") - F.col("born_ms") > F.col("retention_ms") + F.col("pause_ms"))
    late = F.greatest("expired_ms", F.when(is_held, F.col("held_ms")))
    replicas = replicas.join(births, [*REPLICA], "left").withColumn("late_ms", late)
    held = reduce(lambda a, b: a | b, (F.col(name).isNotNull() for name in paths))
    copy = F.struct("broker", "log_dir", *segments.PARTITION_RULES, *paths)
    return (
        replicas.groupBy(*PARTITION)
        .agg(
            F.count("*").alias("replicas"),
            F.min("broker").alias("broker"),
            *(F.sum(name).alias(name) for name in added),
            F.collect_list(F.when(held, copy)).alias("copies"),
            *(F.max(name).alias(name) for name in ("open_ms", "ahead_ms", *_AGES, "smallest_ratio_bound")),
            F.min("skew").alias("skew"),
            *(F.first(name).alias(name) for name in (*_SETTINGS, "is_known")),
        )
        .withColumn(
            "gaps", F.when(F.col("is_known") | (_number("missing_records") == 0), F.col("gaps")).otherwise(F.lit(0))
        )
    )


def _topics(partitions: DataFrame, inputs: JobInput) -> DataFrame:
    """One row for each topic: what its partitions come to, and which thresholds it is above."""
    added = (
        "segments", "replicas", *_SUMS, "vanished", "full", "empty_segments", "future_segments",
        *(f"rolled_by_{cause}" for cause in ("size", "time", "index", "else")),
    )  # fmt: skip
    age, late = (F.when(F.col(n).isNotNull(), F.struct(n, -F.col("partition"))) for n in _AGES)
    is_of_users = F.col("topic").isNotNull() & (F.col("topic") != segments.METADATA_TOPIC)
    frame = partitions.where(is_of_users).groupBy("cluster", "topic").agg(
        F.count("*").alias("partitions"),
        *(F.sum(name).alias(name) for name in added),
        F.max("ahead_ms").alias("future_ms"),
        F.max("skew").alias("skew_ms"),
        F.max("smallest_ratio_bound").alias("ratio_bound"),
        F.max("age_ms").alias("oldest_age_ms"),
        F.max_by("partition", age).alias("oldest_partition"),
        F.max("late_ms").alias("late_age_ms"),
        F.max_by("partition", late).alias("late_partition"),
        F.max_by(F.col("future_segments") > 0, late).alias("late_is_pinned"),
        *(F.first(name).alias(name) for name in _SETTINGS),
        F.coalesce(F.first("is_known"), F.lit(False)).alias("is_known"),
    )  # fmt: skip
    allowed = 1 + inputs.number("overshoot_ratio", segments.OVERSHOOT)
    busy = F.col("batches") >= segments.LEAST_BATCHES
    shares = [_flag(F.col(f"{c}_batches") > segments.MIXED_SHARE * F.col("batches")) for c in segments.CODECS]
    is_late = F.col("late_age_ms") > allowed * F.col("retention_ms") + F.col("check_interval_ms")
    churns = (F.col("full") < segments.CHURN_FULL * F.col("rolled_by_time")) & (
        F.col("rolled_by_time") >= segments.CHURN_SEGMENTS * F.col("replicas")
    )
    aborted = F.col("aborted_records") > segments.ABORTED_SHARE * F.col("records")
    return frame.withColumns(
        {
            "time_full": F.when(F.col("rolled_by_time") > 0, ratio(F.col("full"), "rolled_by_time")),
            "is_aborted": _is_certain((F.col("records") >= segments.LEAST_BATCHES) & aborted),
            "is_churning": _is_certain(churns),
            "is_overshot": _is_certain(F.col("is_expiring") & is_late),
            "is_tiny": _is_certain(busy & (F.col("tiny_batches") > segments.TINY_SHARE * F.col("batches"))),
            "is_mixed": _is_certain(busy & (reduce(lambda a, b: a + b, shares) > 1)),
            "is_skewed": _is_certain(F.col("skew_ms") > 1000 * Limits().timestamp_skew_s),
        }
    ).drop("full")


def _backlogs(rows: DataFrame, directories: DataFrame, settings: DataFrame, inputs: JobInput) -> DataFrame:
    """Compacted topics with copies that the cleaner should have compacted, by their checkpoints, `backlog_ms` ago.

    That is where closed segments behind the checkpoint, all closed by then and beyond `min.compaction.lag.ms`, are more
    than `min.cleanable.dirty.ratio` of the log. An open transaction keeps the cleaner from what follows it.
    """
    limit = inputs.number("backlog_ms", segments.BACKLOG_MS)
    cleaned = directories.where(F.col("role") == "live").groupBy(*REPLICA).agg(F.max("cleaned_to").alias("cleaned_to"))
    compacted = F.broadcast(settings.where("compacts"))
    frame = rows.where(F.col("role") == "log").join(compacted, ["cluster", "topic"]).join(cleaned, [*REPLICA])
    is_clean, closed = F.col("base_offset") < F.col("cleaned_to"), ~F.col("is_active")
    lag_ms, by_then = F.least("min_compaction_lag_ms", F.col("seen")), F.col("seen") - limit
    waits = (lag_ms > 0) & (F.coalesce("max_ms", "mtime_ms") >= by_then - lag_ms)
    is_due = (F.col("mtime_ms") < by_then) & ~waits
    is_dirty = closed & ~is_clean & is_due
    size = F.col("size_bytes")
    copies = frame.where(F.col("cleaned_to").isNotNull()).groupBy(*REPLICA).agg(
        F.sum(F.when(is_clean, size).otherwise(0)).alias("clean_bytes"),
        F.sum(F.when(is_dirty, size).otherwise(0)).alias("dirty_bytes"),
        F.max(F.when(is_dirty, F.col("seen") - F.col("mtime_ms"))).alias("waiting_ms"),
        F.min(F.when(is_dirty, F.col("path"))).alias("path"),
        F.max(F.when(F.col("is_active"), F.col("seen") - F.col("open_txn_since_ms"))).alias("open_ms"),
        F.first("dirty_ratio").alias("dirty_ratio"),
    )  # fmt: skip
    is_behind = F.col("dirty_bytes") > F.col("dirty_ratio") * (F.col("dirty_bytes") + F.col("clean_bytes"))
    late = copies.where(is_behind & (F.coalesce("open_ms", F.lit(0)) < limit))
    return late.groupBy("cluster", "topic").agg(
        F.count("*").alias("copies"),
        F.sum("dirty_bytes").alias("dirty_bytes"),
        F.max("waiting_ms").alias("waiting_ms"),
        F.min("path").alias("path"),
        F.array_sort(F.collect_set("broker")).alias("brokers"),
        F.first("dirty_ratio").alias("dirty_ratio"),
    )


def _log_dirs(rows: DataFrame, settings: DataFrame) -> DataFrame:
    """One row for each log dir with dead or foreign files."""
    others = rows.where(~F.col("role").isin("log", "future", "unreadable"))
    delays = F.broadcast(settings.select("cluster", "topic", "delete_delay_ms"))
    frame = others.join(delays, ["cluster", "topic"], "left")
    age, role = F.col("seen") - F.coalesce("mtime_ms", F.lit(0)), F.col("role")
    delay = F.coalesce("delete_delay_ms", F.lit(60_000)) + segments.DEAD_MARGIN_MS
    is_dead = (
        role.isin("stray", "orphan")
        | (role.isin("deleted", "delete") & (age > delay))
        | (role.isin("swap", "cleaned") & (age > segments.SWAP_MS))
    )
    is_foreign = role == "foreign"
    return (
        frame.groupBy("cluster", "broker", "log_dir")
        .agg(
            F.sum(_flag(is_dead)).alias("dead_files"),
            F.sum(F.when(is_dead, F.col("dead_bytes")).otherwise(F.lit(0))).alias("dead_bytes"),
            F.array_join(F.array_sort(F.collect_set(F.when(is_dead, role))), ", ").alias("dead_roles"),
            F.min(F.when(is_dead, F.col("path"))).alias("dead_path"),
            F.sum(_flag(is_foreign)).alias("foreign_files"),
            F.sum(F.when(is_foreign, F.col("dead_bytes")).otherwise(F.lit(0))).alias("foreign_bytes"),
            F.min(F.when(is_foreign, F.col("path"))).alias("foreign_path"),
        )
        .where((F.col("dead_files") > 0) | (F.col("foreign_files") > 0))
    )


_METADATA = ("clusters", "brokers", "topics", "partitions", "replicas", "log_dirs")


def _judged_directories(inputs: JobInput, directories: DataFrame) -> DataFrame:
    """Directories with what is held against them in `held` (a key of `DIRECTORY_RULES`), or why they are not judged.

    They are compared with the metadata of the same day where these are whole, the broker gave its log dirs, and the
    directory was there before and after: other topics, copies and moves may have come or gone between the two.
    """
    place = ["cluster", "topic", "partition"]
    whole = inputs.store.whole(_METADATA, inputs.spec.snapshot_date)
    topics = inputs.today("topics").groupBy("cluster", "topic").agg(
        F.max("topic_id").alias("known_id"), F.max("partitions").alias("count")
    )  # fmt: skip
    copies = inputs.today("partitions").select(*place, "replicas").dropDuplicates(place)
    futures = inputs.today("replicas").where("is_future").select(*place, "broker").distinct()
    gave = inputs.today("log_dirs").where(F.col("error").isNull()).select("cluster", "broker").distinct()
    taken = inputs.today("clusters").groupBy("cluster").agg(F.max("taken_at_ms").alias("taken_at_ms"))
    frame = (
        directories.where(F.coalesce("topic", F.lit("")) != segments.METADATA_TOPIC)
        .join(F.broadcast(taken), "cluster", "left")
        .join(F.broadcast(gave.withColumn("gave", F.lit(True))), ["cluster", "broker"], "left")
        .join(topics, ["cluster", "topic"], "left")
        .join(copies, place, "left")
        .join(futures.withColumn("moves", F.lit(True)), [*place, "broker"], "left")
    )
    seen = F.coalesce("seen_at_ms", F.lit(inputs.spec.now_ms))
    unjudged = (
        F.when(F.col("taken_at_ms").isNull() | ~F.col("cluster").isin(*whole), "metadata")
        .when(seen < F.col("taken_at_ms"), "earlier")
        .when(F.col("gave").isNull(), "broker")
        .when(F.coalesce(F.col("oldest_ms") < F.col("taken_at_ms"), F.lit(False)), "")
        .otherwise("later")
    )
    held = (
        F.when(F.col("count").isNull(), "unknown_topic")
        .when(F.col("topic_id") != F.col("known_id"), "other_topic_id")
        .when(F.col("partition") >= F.col("count"), "beyond_count")
        .when(~F.array_contains("replicas", F.col("broker")), "no_replica")
        .when((F.col("role") == "future") & F.col("moves").isNull(), "no_move")
        .otherwise("")
    )
    is_live = F.col("role").isin("live", "future")
    return frame.select(
        "cluster", "broker", "log_dir", "topic", "partition", "path", "topic_id", "known_id", "count", "held_bytes",
        "replicas",
        F.when(is_live, unjudged).otherwise("other").alias("unjudged"),
        F.when(F.col("role") == "foreign", "foreign")
        .when(is_live & (unjudged == ""), held)
        .otherwise("").alias("held"),
    )  # fmt: skip


def _not_compared(directories: DataFrame) -> tuple[str, ...]:
    counted = (
        directories.where(F.col("unjudged").isin("metadata", "earlier", "broker"))
        .groupBy("cluster", "unjudged", "broker")
        .agg(F.count("*").alias("n"))
        .orderBy("cluster", "unjudged", "broker")
        .collect()
    )
    return segments.not_compared([(row["cluster"], row["unjudged"], row["broker"], row["n"]) for row in counted])


def _is_certain(condition: Column) -> Column:
    """False where the condition is not known."""
    return F.coalesce(condition, F.lit(False))


def _number(name: str) -> Column:
    return F.coalesce(name, F.lit(0))


def _flag(condition: Column) -> Column:
    """1 where a condition holds, 0 where it does not or is not known."""
    return F.when(condition, F.lit(1)).otherwise(F.lit(0))


TASK_BYTES = 4 << 30
_ROWS_AT_ONCE = 10_000


class SegmentSource(DataSource):  # type: ignore[misc]
    """The data source; reads nothing before a query runs."""

    @classmethod
    def name(cls) -> str:
        """What `spark.read.format` takes."""
        return "kafka_segments"

    def schema(self) -> str:
        """The columns of the table, and the cluster."""
        return ", ".join(f"`{c.name}` {c.type}" for c in TABLES[self._kind].columns) + ", cluster string"

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the paths."""
        del schema
        options = ScanOptions(
            with_crc=self.options.get("crc", "false") == "true",
            with_batches=self._kind == "batches",
            seen_at_ms=int(self.options.get("seen_at_ms", "0")),
        )
        paths = tuple(json.loads(self.options["paths"]))
        return SegmentReader(paths, self._kind, options, int(self.options.get("task_bytes", TASK_BYTES)))

    @property
    def _kind(self) -> str:
        return str(self.options.get("rows", "segments"))


@dataclass
class Directories(InputPartition):  # type: ignore[misc]
    """The directories of a task, without their files: these are listed again when it runs."""

    found: Sequence[PartitionFiles]


@dataclass
class SegmentReader(DataSourceReader):  # type: ignore[misc]
    """Splits trees into tasks, and reads the directories of one."""

    paths: Sequence[str]
    kind: str
    options: ScanOptions
    task_bytes: int

    def partitions(self) -> Sequence[InputPartition]:
        """Tasks of about `task_bytes`, largest directories first into the emptiest task; a directory is never split."""
        found = [directory for path in self.paths for directory in _directories(path)]
        count = max(-(-sum(d.log_bytes for d in found) // self.task_bytes), min(2, len(found)), 1)
        tasks: list[list[PartitionFiles]] = [[] for _ in range(count)]
        loads = [0] * count
        for directory in sorted(found, key=lambda d: (-d.log_bytes, d.path)):
            task = loads.index(min(loads))
            loads[task] += max(directory.log_bytes, 1)
            tasks[task].append(directory)
        return [Directories([d if d.is_foreign else replace(d, files=()) for d in task]) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task's directories; the same at every call as long as the files are."""
        if not isinstance(partition, Directories):
            raise TypeError(f"{type(partition).__name__} is not a task of this source")
        columns = TABLES[self.kind].columns
        schema = pa.schema([*((c.name, ARROW_TYPES[c.type]) for c in columns), ("cluster", pa.string())])
        rows: list[Row] = []
        for directory in partition.found:
            listed = directory if directory.fault else directory.listed(LOCAL_FILES)
            if self.kind == "directories":
                rows.append(directory_row(listed, LOCAL_FILES, self.options))
                continue
            for each in read_partition(listed, LOCAL_FILES, self.options):
                rows += [each.segment] if self.kind == "segments" else each.batches
                if len(rows) >= _ROWS_AT_ONCE:
                    yield _record_batch(rows, schema)
                    rows = []
        yield _record_batch(rows, schema)


def _record_batch(rows: Sequence[Mapping[str, object]], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(row) for row in rows], schema=schema)


def _directories(uri: str) -> Iterator[PartitionFiles]:
    """The directories below a path or a `file:` URI; a root that cannot be listed comes with its fault."""
    path = str(local_path(uri)) if uri.startswith("file:") else uri
    try:
        yield from partitions_below(path, LOCAL_FILES)
    except OSError as error:
        yield PartitionFiles(log_dir=path, path=path, name=None, fault=f"cannot be listed: {error.strerror}")


# As in kafkakit.adapters.files, which executors do not get: what is read is decided in `log_tree`.
def _listing(path: str) -> Sequence[SeenFile]:
    with os.scandir(path) as entries:
        return seen_files(entries)


@contextmanager
def _map_file(path: str, size: int, may_shrink: bool) -> Iterator[memoryview]:
    with Path(path).open("rb") as stream:
        size = min(size, os.fstat(stream.fileno()).st_size)
        if not size:
            yield memoryview(b"")
        elif may_shrink:
            yield memoryview(stream.read(size))
        else:
            with mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as buffer:
                yield buffer


def _content(path: str) -> bytes:
    with Path(path).open("rb") as stream:
        return content_before_zeros(stream)


LOCAL_FILES = FileReader(_listing, _map_file, _content)
