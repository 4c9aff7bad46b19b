"""The audit `lag`: history of group lag in time, from commits and from when offsets were produced.

When the offset of each commit was produced follows from two as-of joins as window functions over commits and samples
together. A sample says that a log had reached an offset at a time. The record at a committed offset is the oldest that
is not read; its time is interpolated between the samples around it, never beyond them.

The table `commits` of one cluster may come from Kafka itself, with Spark's Kafka source, whose jars the user brings.
That is slower than `kafkakit fleet collect`; it is for clusters whose `__consumer_offsets` is too large for one host.
"""

import json
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from kafkakit.core.fleet_tables import TABLES
from kafkakit.core.model import OFFSETS_TOPIC
from kafkakit.rules.audits import delivery as lag
from kafkakit.rules.families.retention import LAG_SHARE
from kafkakit.streams.model.offsets_log.entries import OffsetsEntry, decode_entry
from kafkakit_spark.effective import effective_topics
from kafkakit_spark.job import JobInput, JobOutput, arrow_schema, findings_of, ratio

GROUP = ["cluster", "group"]
READER = [*GROUP, "topic"]
AHEAD_MS = 300_000
"""How far a clock may be ahead of the run's before what it dates is left out."""


def run(job: JobInput) -> JobOutput:
    """Lag by hour, objectives, outliers, silent groups; one shuffle of all commits, two sorts, one aggregation."""
    servers = job.spec.parameters.get("lag.kafka")
    commits = _from_kafka(job, str(servers)) if servers else _rows_of_dates(job, "commits")
    produced = _rows_of_dates(job, "produced")
    is_ahead = F.col("at_ms") > job.spec.now_ms + AHEAD_MS
    given = commits.where(~is_ahead & F.col("at_ms").isNotNull() & F.col("group").isNotNull())
    samples = sample_ends(produced.where(~is_ahead))
    every = time_commits(given.where(F.col("committed").isNotNull()), samples)
    slo_s, share = job.number("slo_s", lag.SLO_S), job.number("slo_share", lag.SLO_SHARE)
    hourly = job.table("lag_hourly", _hourly(every, slo_s))
    by_group = _by_group(hourly)
    now = _observed_until(produced.where(~is_ahead), job.spec.now_ms)
    latest = job.step("latest", _latest_commits(given, every, samples, now))
    found = [
        findings_of(_missed_objectives(by_group, slo_s, share), lag.objective_missed),
        findings_of(_anomalies(by_group, job.number("z", lag.Z_LIMIT), slo_s), lag.anomaly),
        findings_of(_silent_groups(latest, job.number("silent_s", lag.SILENT_S)), lag.find_silent),
        findings_of(_expiring_groups(job, latest), lag.find_expiring),
        findings_of(_near_retention(job, latest), lag.near_retention),
    ]
    counts = commits.agg(F.count("*").alias("commits"), F.count_if(is_ahead).alias("commits_ahead_of_the_clock"))
    return JobOutput(
        findings=reduce(DataFrame.union, found),
        tables={"lag_hourly": hourly},
        facts=(counts,),
    )


def _from_kafka(job: JobInput, servers: str) -> DataFrame:
    """The commits of the one cluster of the store, read now; raises `ValueError` where Spark read nothing."""
    clusters = job.store.clusters(job.spec.snapshot_date)
    if len(clusters) != 1:
        raise ValueError(f"lag.kafka reads one cluster, and the store has {len(clusters)} on {job.spec.snapshot_date}")
    counts = job.today("topics").where(F.col("topic") == OFFSETS_TOPIC).select("partitions").collect()
    if not counts:
        raise ValueError(f"lag.kafka: {OFFSETS_TOPIC} is not among the topics of {clusters[0]} in the store")
    properties = str(job.spec.parameters.get("lag.kafka_properties", ""))
    rows = commits_from_kafka(job.spark, servers, counts[0][0], properties)
    commits = job.step("commits", rows.withColumn("cluster", F.lit(clusters[0])))
    # What Spark leaves out, it leaves out without a word.
    if commits.isEmpty():
        raise ValueError(f"Spark read no commit of {OFFSETS_TOPIC} from {servers}")
    return commits


def _rows_of_dates(job: JobInput, kind: str) -> DataFrame:
    """The rows of all dates; those that two dates hold count once."""
    rows = job.history(kind).drop("snapshot_date", "schema_version")
    return rows.dropDuplicates() if len(job.spec.dates) > 1 else rows


def _hourly(every: DataFrame, slo_s: float) -> DataFrame:
    hour = (F.floor(F.col("at_ms") / lag.HOUR_MS) * lag.HOUR_MS).alias("hour_ms")
    return every.groupBy(*READER, "partition", hour).agg(
        F.count("*").alias("commits"),
        F.max("time_lag_ms").alias("max_lag_ms"),
        F.median("time_lag_ms").alias("median_lag_ms"),
        F.max("offset_lag").alias("max_offset_lag"),
        F.median("offset_lag").alias("median_offset_lag"),
        F.count_if(F.col("time_lag_ms") <= slo_s * 1000).alias("within_slo"),
        F.some("is_bound").alias("is_bound"),
    )


def _by_group(hourly: DataFrame) -> DataFrame:
    """A group's lag in an hour: the median of its worst partition."""
    known = hourly.where(F.col("median_lag_ms").isNotNull())
    worst = (F.max("median_lag_ms") / 1000).alias("lag_s")
    return known.groupBy(*GROUP, "hour_ms").agg(worst, F.count("*").cast("double").alias("partitions"))


def _missed_objectives(by_group: DataFrame, slo_s: float, share: float) -> DataFrame:
    found = by_group.groupBy(*GROUP).agg(
        F.count("*").alias("hours"),
        F.count_if(F.col("lag_s") <= slo_s).alias("within"),
        F.max("lag_s").alias("worst_s"),
        F.max("partitions").alias("blast"),
    )
    return found.where(ratio(F.col("within"), "hours") < share).withColumn("slo_s", F.lit(slo_s))


def _anomalies(by_group: DataFrame, limit: float, slo_s: float) -> DataFrame:
    """Groups whose last hour is far above both the same hour of other days and the hours before, and the objective."""
    last = by_group.groupBy(*GROUP).agg(F.max_by(F.struct("hour_ms", "lag_s", "partitions"), "hour_ms").alias("last"))
    last = last.select(*GROUP, F.col("last.hour_ms").alias("last_ms"), "last.lag_s", "last.partitions")
    last = last.where(F.col("lag_s") > slo_s)
    before = by_group.withColumnsRenamed({"lag_s": "seen_s", "partitions": "seen_partitions"}).join(last, GROUP)
    ago = (F.col("last_ms") - F.col("hour_ms")) / lag.HOUR_MS
    same, recent = (ago > 0) & (ago % 24 == 0), (ago > 0) & (ago <= lag.RECENT_HOURS)
    before = before.where(same | recent).withColumn("is_same", same).withColumn("is_recent", recent)
    seen = [F.when(F.col(f"is_{name}"), F.col("seen_s")) for name in ("same", "recent")]
    middles = before.groupBy(*GROUP).agg(F.median(seen[0]).alias("same_s"), F.median(seen[1]).alias("recent_s"))
    apart = [F.abs(x - F.col(f"{name}_s")) for x, name in zip(seen, ("same", "recent"), strict=True)]
    spread = (
        before.join(middles, GROUP)
        .groupBy(*GROUP)
        .agg(
            *(F.median(x).alias(f"{name}_mad") for x, name in zip(apart, ("same", "recent"), strict=True)),
            F.count_if("is_same").alias("same_n"),
            F.count_if("is_recent").alias("recent_n"),
        )
    )
    all_known = last.join(middles, GROUP).join(spread, GROUP)
    is_known = {"same": F.col("same_n") >= lag.LEAST_DAYS, "recent": F.col("recent_n") >= lag.LEAST_HOURS}
    is_odd = {name: ~known | (_z_score(name) > limit) for name, known in is_known.items()}
    return all_known.where((is_known["same"] | is_known["recent"]) & is_odd["same"] & is_odd["recent"]).select(
        *GROUP,
        F.col("lag_s").alias("now_s"),
        F.when(is_known["same"], F.col("same_s")).alias("same_hour_s"),
        F.when(is_known["recent"], F.col("recent_s")).alias("recent_s"),
        F.col("partitions").alias("blast"),
    )


def _z_score(name: str) -> Column:
    spread = F.greatest(F.col(f"{name}_mad") * lag.MAD_TO_DEVIATION, F.lit(lag.LEAST_SPREAD_S))
    return (F.col("lag_s") - F.col(f"{name}_s")) / spread


def _observed_until(produced: DataFrame, now_ms: int) -> DataFrame:
    """Up to when each cluster was observed: its newest sample, or the run's time where that is earlier."""
    return produced.groupBy("cluster").agg(F.least(F.max("at_ms"), F.lit(now_ms)).alias("now_ms"))


def _latest_commits(given: DataFrame, every: DataFrame, samples: DataFrame, now: DataFrame) -> DataFrame:
    """Where each group stands (READER, partition, at_ms, committed, pending, lag_ms); without deleted offsets."""
    order = F.struct("at_ms", "log_offset")
    last = given.groupBy(*READER, "partition").agg(F.max_by(F.struct("committed", "at_ms"), order).alias("last"))
    last = last.select(*READER, "partition", "last.*").where(F.col("committed").isNotNull())
    ends = samples.groupBy(*LOG).agg(F.max_by("offset", F.struct("life", "at_ms", "offset")).alias("end_now"))
    times = every.groupBy(*READER, "partition").agg(
        F.max_by("produced_ms", F.struct("at_ms", "committed")).alias("produced_ms")
    )
    pending = F.greatest(F.col("end_now") - F.col("committed"), F.lit(0))
    found = last.join(times, [*READER, "partition"]).join(ends, LOG).join(F.broadcast(now), "cluster")
    return found.withColumn("pending", pending).withColumn(
        "lag_ms",
        F.when(F.col("pending") > 0, F.greatest(F.col("now_ms") - F.col("produced_ms"), F.lit(0))).otherwise(0),
    )


def _silent_groups(latest: DataFrame, silent_s: float) -> DataFrame:
    """Groups that committed nothing on a topic for a time; `pending` is on partitions whose data is older than that."""
    quiet = F.col("now_ms") - F.col("at_ms")
    waits = F.col("lag_ms") > silent_s * 1000
    found = latest.groupBy(*READER).agg(
        (F.min(quiet) / 1000).alias("silent_s"),
        F.sum(F.when(waits, F.col("pending"))).alias("pending"),
        F.count_if(waits).alias("partitions"),
    )
    found = found.where((F.col("silent_s") > silent_s) & (F.col("partitions") > 0))
    return found.withColumn("blast", F.col("partitions").cast("double"))


def _expiring_groups(job: JobInput, latest: DataFrame) -> DataFrame:
    key = (F.col("key") == "offsets.retention.minutes") & F.col("value").isNotNull()
    kept = job.today("broker_configs").where(key).groupBy("cluster").agg(
        F.min(F.col("value").try_cast("bigint")).alias("minutes")
    )  # fmt: skip
    empty = job.today("groups").where(F.lower("state") == "empty").select(*GROUP)
    idle = latest.groupBy(*GROUP).agg(
        ((F.max("now_ms") - F.max("at_ms")) / 1000).alias("idle_s"), F.count("*").alias("partitions")
    )
    minutes = F.coalesce("minutes", F.lit(lag.OFFSETS_RETENTION_MINUTES))
    found = idle.join(empty, GROUP, "left_semi").join(F.broadcast(kept), "cluster", "left")
    found = found.withColumn("retention_s", (minutes * 60).cast("double"))
    found = found.where(F.col("idle_s") > lag.EXPIRY_SHARE * F.col("retention_s"))
    return found.withColumn("blast", F.col("partitions").cast("double"))


def _near_retention(job: JobInput, latest: DataFrame) -> DataFrame:
    worst = latest.groupBy(*READER).agg(
        (F.max("lag_ms") / 1000).alias("lag_s"), F.count("*").cast("double").alias("blast")
    )
    kept = effective_topics(job).where(F.col("deletes") & (F.col("retention_ms") > 0))
    found = worst.join(kept.select("cluster", "topic", "retention_ms"), ["cluster", "topic"])
    return found.where(F.col("lag_s") * 1000 > LAG_SHARE * F.col("retention_ms"))


LOG = ["cluster", "topic", "partition"]


def sample_ends(produced: DataFrame) -> DataFrame:
    """Samples with the ones that follow (`LOG`, life, offset, at_ms, next_at by offset, next_end by time).

    `life` counts how often the topic began anew: its end fell below half of what it was. `reached_ms` is when the log
    had first reached the offset: times of producers may go back from batch to batch.
    """
    by_time = Window.partitionBy(*LOG).orderBy("at_ms", "offset")
    begins = (F.col("offset") < F.lag("offset").over(by_time) / 2).cast("int")
    lives = produced.where(F.col("offset").isNotNull() & F.col("at_ms").isNotNull())
    lives = lives.withColumn("begins", F.coalesce(begins, F.lit(0)))
    lives = lives.withColumn("life", F.sum("begins").over(by_time))
    in_life = Window.partitionBy(*LOG, "life").orderBy("offset", "at_ms")
    times = Window.partitionBy(*LOG, "life").orderBy("at_ms", "offset")
    return (
        lives.withColumn("reached_ms", F.max("at_ms").over(in_life))
        .withColumn("next_offset", F.lead("offset").over(in_life))
        .withColumn("next_reached_ms", F.lead("reached_ms").over(in_life))
        .withColumn("next_end", F.lead("offset").over(times))
        .withColumn("next_end_ms", F.lead("at_ms").over(times))
        .select(
            *LOG, "offset", "at_ms", "life",
            F.struct("offset", "reached_ms", "next_offset", "next_reached_ms").alias("by_offset"),
            F.struct("life", "offset", "at_ms", "next_end", "next_end_ms").alias("by_time"),
        )
    )  # fmt: skip


def time_commits(commits: DataFrame, samples: DataFrame) -> DataFrame:
    """Commits with their lag (`offset_lag`, `time_lag_ms`) and what it is made of (`end_offset`, `produced_ms`).

    `end_offset` is that of the time of the commit, `produced_ms` the time of the first record that it leaves unread.
    `is_bound` is True where the samples begin after the committed offset: the lag is at least that. Lags are null where
    no sample is as old as the commit. One shuffle of commits and samples, and two sorts.
    """
    none = F.lit(None).cast("string").alias("group")
    own = (F.lit(0).alias("kind"), "at_ms", "offset", "life", "by_offset", "by_time")
    both = samples.select(*LOG, none, *own).unionByName(
        commits.select(*LOG, "group", F.lit(1).alias("kind"), "at_ms", F.col("committed").alias("offset")),
        allowMissingColumns=True,
    )
    by_time = (
        Window.partitionBy(*LOG)
        .orderBy("at_ms", "kind", "offset")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    known = F.last("by_time", ignorenulls=True).over(by_time)
    both = both.withColumn("known", known).withColumn(
        "life", F.coalesce("life", F.col("known.life"), F.lit(0).cast("bigint"))
    )
    by_offset = (
        Window.partitionBy(*LOG, "life")
        .orderBy("offset", "kind", "at_ms")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    both = both.withColumn("around", F.last("by_offset", ignorenulls=True).over(by_offset))
    whole = Window.partitionBy(*LOG, "life")
    both = both.withColumn("oldest_ms", F.min(F.when(F.col("kind") == 0, F.col("at_ms"))).over(whole))
    end = _interpolate(F.col("at_ms"), *(F.col(f"known.{n}") for n in ("at_ms", "next_end_ms", "offset", "next_end")))
    reached = _interpolate(
        F.col("offset"), *(F.col(f"around.{n}") for n in ("offset", "next_offset", "reached_ms", "next_reached_ms"))
    )
    zero = F.lit(0).cast("bigint")
    lag = F.greatest(F.col("end_offset") - F.col("offset"), zero)
    behind = F.greatest(F.col("at_ms") - F.col("produced_ms"), zero)
    return (
        both.where(F.col("kind") == 1)
        .withColumn("end_offset", end)
        .withColumn("produced_ms", F.coalesce(reached, "oldest_ms"))
        .withColumn("offset_lag", F.when(F.col("end_offset").isNotNull(), lag))
        .withColumn("time_lag_ms", F.when(F.col("offset_lag") == 0, zero).when(F.col("offset_lag") > 0, behind))
        .withColumn("is_bound", F.col("around").isNull() & (F.col("offset_lag") > 0))
        .select(
            *LOG, "group", F.col("offset").alias("committed"), "at_ms", "end_offset", "produced_ms", "offset_lag",
            "time_lag_ms", "is_bound",
        )
    )  # fmt: skip


def _interpolate(at: Column, start: Column, end: Column, low: Column, high: Column) -> Column:
    """What lies between `low` and `high` as `at` lies between `start` and `end`; `low` where there is no end."""
    share = ratio(at - start, end - start)
    inside = (low + F.round(share * (high - low))).cast("bigint")
    return F.when(end > start, inside).otherwise(low)


COLUMNS = ", ".join(f"{c.name} {c.type}" for c in TABLES["commits"].columns)
SCHEMA = arrow_schema(COLUMNS)
OLDER_LOOKUP = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"


def commits_from_kafka(spark: SparkSession, servers: str, partitions: int, properties: str) -> DataFrame:
    """The rows of all committed offsets that the topic still holds; of open and aborted transactions, none.

    `properties` is the path, if any, of a file of client settings (`security.protocol=...`) on the driver's host: no
    specification of a run has what it holds. Decodes about 300,000 records a second on two cores. Raises `ValueError`
    without the jars.
    """
    # The lookup of offsets that Spark 4.2 and 4.3 use by default leaves internal topics out, and reads nothing.
    spark.conf.set(OLDER_LOOKUP, "true")
    reader = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("kafka.isolation.level", "read_committed")
        .option("assign", json.dumps({OFFSETS_TOPIC: list(range(partitions))}))
        .option("failOnDataLoss", "false")  # compaction removes offsets while they are read
    )
    for key, value in _settings(properties).items():
        reader = reader.option(f"kafka.{key}", value)
    try:
        loaded = reader.load()
    except AnalysisException as error:
        raise ValueError("Spark has no Kafka source; docs/audits.md names its jars, for --conf spark.jars") from error
    records = loaded.select("key", "value", "partition", "offset", F.unix_millis("timestamp").alias("at_ms"))
    return records.mapInArrow(_decode_batches, COLUMNS)


def _settings(path: str) -> dict[str, str]:
    """The lines `key=value` of a file."""
    lines = Path(path).read_text(encoding="utf-8").splitlines() if path else []
    pairs = (line.partition("=") for line in lines if line.strip() and not line.lstrip().startswith(("#", "!")))
    return {key.strip(): value.strip() for key, _, value in pairs}


def _decode_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in batch.schema.names]
        rows = [row for record in zip(*columns, strict=True) if (row := _row(*record)) is not None]
        yield pa.RecordBatch.from_pylist(rows, SCHEMA)


def _row(key: bytes | None, value: bytes | None, partition: int, offset: int, at_ms: int) -> dict[str, object] | None:
    found = decode_entry(key, value)
    if not isinstance(found, OffsetsEntry):
        return None
    commit = found.value
    return {
        "group": found.key.group,
        "topic": found.key.topic,
        "partition": found.key.partition,
        "committed": commit.offset if commit else None,
        "at_ms": commit.committed_ms if commit else at_ms,
        "log_partition": partition,
        "log_offset": offset,
        "metadata_bytes": len(commit.metadata) if commit else 0,
    }
