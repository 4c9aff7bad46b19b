"""The audit `retention`: how old and how large partitions become, what that takes of handles, and what repairs both.

Rates, sizes and the oldest record come from `partitions`; where the store has rows of segment files, the oldest batch
and the number of segments are those. Formulas: `rules/retention.py`.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kafkakit.rules.audits.capacity import (
    GREATEST_SEGMENT_BYTES,
    OPTIONS,
    UNKNOWN_OPEN_FILES,
    retention_broker_findings,
    topic_findings,
)
from kafkakit.rules.audits.segments import FUTURE_MS
from kafkakit.rules.families.brokers import FULL_SHARE, LEAST_OPEN_FILES
from kafkakit.rules.families.retention import KAFKAS_RETENTION_MS
from kafkakit.rules.retention import (
    DEFAULT_MAX_MAP_COUNT,
    MAPS_OF_SEGMENT,
    RESERVED_DESCRIPTORS,
    RESERVED_MAPS,
    SHORTEST_SENSIBLE_ROLL_MS,
    SMALLEST_SEGMENT_BYTES,
)
from kafkakit.rules.rule import Limits
from kafkakit_spark.effective import BOUNDS, effective_topics, with_bounds
from kafkakit_spark.job import JobInput, JobOutput, findings_of

TOPIC, PARTITION, BROKER = ["cluster", "topic"], ["cluster", "topic", "partition"], ["cluster", "broker"]
NO_OPTION = len(OPTIONS)
CHANGED = ("segment_ms", "segment_bytes", "jitter_ms")


def run(inputs: JobInput) -> JobOutput:
    """Tables `partitions`, `topics` and `brokers`; findings KKR201, KKR203, KKB501 and KKB502.

    Parameter `tolerance`: the share of the retention that data may live beyond it (0.5).
    """
    tolerance = inputs.number("tolerance", Limits().overshoot_ratio)
    partitions = _partitions(inputs)
    settings = inputs.step("settings", _settings(inputs, partitions, tolerance))
    partitions = partitions.join(settings, TOPIC)
    partitions = inputs.step("partitions", with_bounds(partitions, "rate").withColumn("segments", _segments()))
    options = inputs.step("options", _options(partitions, settings, tolerance))
    brokers = inputs.table("brokers", _brokers(inputs, partitions, options))
    topics = inputs.step("topics", _topics(partitions, settings, options, brokers))
    against_topics = findings_of(topics.where("option is not null"), topic_findings)
    full = F.expr(f"descriptors > {FULL_SHARE} * open_files or maps > {FULL_SHARE} * max_map_count")
    low = F.col("knows_open_files") & (F.col("open_files") < LEAST_OPEN_FILES)
    against_brokers = findings_of(brokers.where(full | low), retention_broker_findings)
    return JobOutput(
        findings=against_topics.unionByName(against_brokers),
        tables={
            "partitions": partitions.select(
                *PARTITION, "rate", "size_bytes", "observed_age_ms", *BOUNDS, "segments",
                F.col("counted").isNotNull().alias("is_counted"),
            ),
            "topics": topics.drop("settings", "policies"),
            "brokers": brokers,
        },
        facts=(
            topics.agg(
                F.sum("partitions").alias("partitions"),
                F.sum(F.col("is_over_time").cast("int")).alias("topics_beyond_retention"),
                F.sum((F.col("option") == NO_OPTION).cast("int")).alias("topics_without_repair"),
                F.max("overshoot").alias("greatest_overshoot"),
                F.max("observed_age_ms").alias("oldest_data_ms"),
            ),
        ),
        skipped=_skipped_checks(inputs),
    )  # fmt: skip


def _skipped_checks(inputs: JobInput) -> tuple[str, ...]:
    missing = {
        "segments": "segment files: none were collected, so numbers of segments are the most that settings permit",
        "broker_configs": "settings of brokers: none were collected, so topics count as inheriting Kafka's defaults",
        "partitions": "partitions: none were collected, so nothing was checked",
    }
    return tuple(text for kind, text in missing.items() if not inputs.has(kind))


def _partitions(inputs: JobInput) -> DataFrame:
    """What was seen of partitions: rate, size, age of the oldest data, segments where they were counted."""
    rate = F.when(F.col("bytes_in_s") >= 0, F.nanvl("bytes_in_s", F.lit(None).cast("double")))
    frame = inputs.today("partitions").select(
        *PARTITION, F.coalesce("replicas", F.array().cast("array<int>")).alias("replicas"), "size_bytes", "oldest_ms",
        rate.alias("rate"),
    )  # fmt: skip
    if inputs.has("segments"):
        copies = inputs.today("segments").where(F.col("role") == "log").groupBy(*PARTITION, "broker")
        ahead = F.col("max_ms") - F.coalesce("seen_at_ms", F.lit(inputs.spec.now_ms))
        files = copies.agg(
            F.count("*").alias("counted"),
            F.min("min_ms").alias("first_ms"),
            F.max(F.when(ahead > FUTURE_MS, ahead)).alias("future_ms"),
        ).groupBy(*PARTITION)
        largest = [F.max(name).alias(name) for name in ("counted", "future_ms")]
        frame = frame.join(files.agg(*largest, F.min("first_ms").alias("first_ms")), PARTITION, "left")
    else:
        unknown = ("counted", "first_ms", "future_ms")
        frame = frame.withColumns({name: F.lit(None).cast("bigint") for name in unknown})
    age = F.lit(inputs.spec.now_ms) - F.coalesce("first_ms", "oldest_ms")
    return frame.withColumn("observed_age_ms", F.when(age >= 0, age)).drop("first_ms", "oldest_ms")


def _settings(inputs: JobInput, partitions: DataFrame, tolerance: float) -> DataFrame:
    """The settings of topics that have partitions, their slowest rate, and whether they are beyond the tolerance."""
    slowest = partitions.groupBy(*TOPIC).agg(F.min("rate").alias("slowest_rate"))
    frame = with_bounds(effective_topics(inputs).join(slowest, TOPIC), "slowest_rate")
    is_set = F.element_at("settings", F.lit("retention.ms")).isNotNull() & (F.col("retention_ms") > 0)
    is_set &= F.col("retention_ms") != KAFKAS_RETENTION_MS
    over_size = F.col("segment_bytes") > F.col("retention_bytes") * tolerance
    return frame.withColumns(
        {
            "is_over_time": F.coalesce(is_set & (F.col("overshoot") > tolerance), F.lit(False)),
            "is_over_size": F.col("deletes") & (F.col("retention_bytes") > 0) & over_size,
            "topic_overshoot": F.col("overshoot"),
            "tolerance": F.lit(tolerance),
        }
    ).select(*TOPIC, *SETTINGS)


def _segments() -> Column:
    by_size = 1 + F.floor(F.col("size_bytes") / F.greatest("capacity_bytes", F.lit(1.0)))
    return F.coalesce("counted", "segment_limit", by_size, F.lit(1))


def _options(partitions: DataFrame, settings: DataFrame, tolerance: float) -> DataFrame:
    """One row for each partition that needs other segments, and each option: settings, and what it adds to a copy."""
    tried = F.array(
        *(
            F.struct(F.lit(k).alias("k"), F.lit(factor * tolerance).alias("allowed"), F.lit(is_raised).alias("raised"))
            for k, (factor, is_raised) in enumerate(OPTIONS)
        )
    )
    frame = settings.where("is_over_time or is_over_size").withColumn("tried", F.explode(tried))
    frame = frame.select(*TOPIC, *SETTINGS, "tried.*").withColumn("own_segment_bytes", F.col("segment_bytes"))
    wanted_ms = F.floor(F.col("retention_ms").cast("double") * F.col("allowed") - F.col("check_interval_ms"))
    roll = F.least("segment_ms", F.greatest(wanted_ms, F.lit(SHORTEST_SENSIBLE_ROLL_MS)))
    raised = F.least(F.lit(GREATEST_SEGMENT_BYTES), F.col("index_capacity_bytes").cast("bigint"))
    sized = F.greatest(F.floor(F.col("retention_bytes") * F.col("allowed")), F.lit(SMALLEST_SEGMENT_BYTES))
    size = (
        F.when(F.col("is_over_size"), F.least("segment_bytes", sized))
        .when(F.col("raised") & (F.col("retention_bytes") <= 0), F.greatest("segment_bytes", raised))
        .otherwise(F.col("segment_bytes"))
    )
    frame = frame.withColumns(
        {"segment_ms": F.when(F.col("is_over_time"), roll).otherwise(F.col("segment_ms")), "segment_bytes": size}
    )
    jitter = F.when(F.col("is_over_time"), F.least("jitter_ms", F.floor(F.col("segment_ms") / 10)))
    frame = frame.withColumn("jitter_ms", F.coalesce(jitter, "jitter_ms"))
    held = partitions.select(
        *PARTITION, "rate", "replicas", "segments", F.coalesce("segment_limit", "segments").alias("limit_before")
    )
    frame = with_bounds(held.join(frame, TOPIC), "rate")
    after = F.greatest(F.col("segments") + F.col("segment_limit") - F.col("limit_before"), F.lit(1))
    return frame.select(
        *TOPIC, "k", *CHANGED, "replicas", (F.coalesce(after, "segments") - F.col("segments")).alias("added")
    )


def _brokers(inputs: JobInput, partitions: DataFrame, options: DataFrame) -> DataFrame:
    """Brokers with what their handles need now, and the first option that these permit."""
    copies = partitions.select("cluster", "minor", F.explode("replicas").alias("broker"), "segments")
    frame = copies.groupBy(*BROKER).agg(
        F.max("minor").alias("minor"), F.count("*").alias("replicas"), F.sum("segments").alias("segments")
    )
    hosts = inputs.today("brokers").groupBy(*BROKER).agg(
        *(F.max(name).alias(name) for name in ("open_files", "max_map_count", "connections"))
    )  # fmt: skip
    added = options.select("cluster", F.explode("replicas").alias("broker"), "k", "added").groupBy(*BROKER).agg(
        F.array(*(F.sum(F.when(F.col("k") == k, F.col("added")).otherwise(0)) for k in range(NO_OPTION))).alias("added")
    )  # fmt: skip
    frame = frame.join(hosts, BROKER, "left").join(added, BROKER, "left").withColumns(
        {
            "knows_open_files": F.col("open_files").isNotNull(),
            "knows_max_map_count": F.col("max_map_count").isNotNull(),
            "open_files": F.coalesce("open_files", F.lit(UNKNOWN_OPEN_FILES)),
            "max_map_count": F.coalesce("max_map_count", F.lit(DEFAULT_MAX_MAP_COUNT)),
            "connections": F.coalesce("connections", F.lit(0)),
            "added": F.coalesce("added", F.array_repeat(F.lit(0).cast("bigint"), NO_OPTION)),
        }
    )  # fmt: skip
    by_files = FULL_SHARE * F.col("open_files") - F.col("connections") - RESERVED_DESCRIPTORS
    by_maps = (FULL_SHARE * F.col("max_map_count") - RESERVED_MAPS) / MAPS_OF_SEGMENT
    frame = frame.withColumn("free", F.greatest(F.least(by_files, by_maps) - F.col("segments"), F.lit(0.0)))
    fitting = [F.when(F.get("added", F.lit(k)) <= F.col("free"), F.lit(k)) for k in range(NO_OPTION)]
    frame = frame.withColumn("option", F.coalesce(*fitting, F.lit(NO_OPTION)))
    after = F.col("segments") + F.coalesce(F.get("added", F.col("option")), F.lit(0))
    frame = frame.withColumn("segments_after", after).drop("free", "added")
    for end in ("", "_after"):
        number = F.col(f"segments{end}")
        frame = frame.withColumns(
            {
                f"descriptors{end}": number + F.col("connections") + RESERVED_DESCRIPTORS,
                f"maps{end}": MAPS_OF_SEGMENT * number + RESERVED_MAPS,
            }
        )
    return frame


def _topics(partitions: DataFrame, settings: DataFrame, options: DataFrame, brokers: DataFrame) -> DataFrame:
    """Topics with the worst of their partitions, and the option that the handles of all their brokers permit."""
    worst = partitions.groupBy(*TOPIC).agg(
        F.count("*").alias("partitions"),
        F.max("observed_age_ms").alias("observed_age_ms"),
        *(
            F.max_by(name, F.struct("observed_age_ms", -F.col("partition"))).alias(alias)
            for name, alias in (("partition", "oldest_partition"), ("future_ms", "oldest_future_ms"))
        ),
        F.max("age_limit_ms").alias("age_limit_ms"),
        F.max("size_bytes").alias("largest_bytes"),
        F.max("disk_limit_bytes").alias("largest_limit_bytes"),
        F.sum(F.col("segments") * F.size("replicas")).alias("segments"),
    )
    held = options.where("k = 0").select(*TOPIC, F.explode_outer("replicas").alias("broker")).distinct()
    tightest = held.join(F.broadcast(brokers.select(*BROKER, "option")), BROKER, "left").groupBy(*TOPIC).agg(
        F.coalesce(F.max("option"), F.lit(0)).alias("option"),
        F.max_by("broker", F.struct("option", -F.col("broker"))).alias("tightest_broker"),
    )  # fmt: skip
    advice = options.groupBy(*TOPIC, F.col("k").alias("option")).agg(
        *(F.max(name).alias(f"advised_{name}") for name in CHANGED),
        F.sum(F.col("added") * F.size("replicas")).alias("added"),
    )
    frame = settings.join(worst, TOPIC).join(tightest, TOPIC, "left").join(advice, [*TOPIC, "option"], "left")
    chosen = [F.coalesce(f"advised_{name}", name).alias(name) for name in CHANGED]
    kept = [name for name in SETTINGS if name not in CHANGED]
    then = with_bounds(frame.select(*TOPIC, *kept, *chosen), "slowest_rate")
    then = then.select(*TOPIC, *(F.col(name).alias(f"advised_{name}") for name in (*CHANGED, "overshoot")))
    frame = frame.withColumn("advised_segments", F.col("segments") + F.coalesce("added", F.lit(0)))
    frame = frame.withColumn("overshoot", F.col("topic_overshoot"))
    return frame.drop("added", "topic_overshoot", *(f"advised_{name}" for name in CHANGED)).join(then, TOPIC)


SETTINGS = (
    "minor", "is_broker_known", "check_interval_ms", "retention_ms", "retention_bytes", "segment_ms", "segment_bytes",
    "jitter_ms", "index_bytes", "index_interval_bytes", "max_compaction_lag_ms", "policies", "deletes", "compacts",
    "settings", "index_capacity_bytes", "slowest_rate", "is_over_time", "is_over_size", "topic_overshoot", "tolerance",
)  # fmt: skip
"""What is kept of a topic's effective settings."""
