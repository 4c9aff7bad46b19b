"""The arithmetic of `kafkakit.rules.retention` as columns, from those of `effective.effective_topics` and a rate.

Rates are bytes/s appended to one partition; null and 0 mean unknown, as None does there. Times and bytes are doubles,
so that the largest settings do not overflow. Columns are added step by step: an expression that holds another several
times doubles Spark's code with each level.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kafkakit.rules.retention import TIME_ENTRY_BYTES

MANY = 1e15
"""Larger numbers of segments count as this."""
BOUNDS = ("age_limit_ms", "overshoot", "disk_limit_bytes", "segment_limit")


def with_bounds(frame: DataFrame, rate: str) -> DataFrame:
    """The frame with the columns of `BOUNDS`, as the methods of `SegmentSettings` compute them for a column of rates.

    Adds `roll_ms` (M), `capacity_bytes`, `index_capacity_bytes`, `span_ms` (T) and `shortest_span_ms` as well, in place
    of columns of these names. `disk_limit_bytes` is null where the rate is; `segment_limit` is at most `MANY`.
    """
    moving, kept_ms = F.nullif(F.col(rate), F.lit(0.0)), _double("retention_ms") + _double("check_interval_ms")
    lag, own = _double("max_compaction_lag_ms"), _double("segment_ms")
    entries = F.greatest(F.floor(F.col("index_bytes") / TIME_ENTRY_BYTES) - 1, F.lit(0))
    frame = frame.withColumns(
        {
            "roll_ms": F.when(F.col("compacts") & (lag > 0), F.least(lag, own)).otherwise(own),
            "index_capacity_bytes": entries.cast("double") * (_double("index_interval_bytes") + 1),
        }
    )
    frame = frame.withColumn("capacity_bytes", F.least(_double("segment_bytes"), F.col("index_capacity_bytes")))
    fill = F.coalesce(1000 * F.col("capacity_bytes") / moving, F.col("roll_ms"))
    jitter = F.greatest(F.least(_double("jitter_ms"), own) - 1, F.lit(0.0))
    shortest = F.greatest(F.col("roll_ms") - jitter, F.lit(0.0))
    frame = frame.withColumns(
        {"span_ms": F.least("roll_ms", fill), "shortest_span_ms": F.least(shortest, F.greatest(fill, F.lit(0.0)))}
    )
    span, kept = F.col("span_ms"), F.col(rate) * _double("check_interval_ms") / 1000
    by_time, by_size = (F.col("deletes") & (F.col(f"retention_{unit}") >= 0) for unit in ("ms", "bytes"))
    frame = frame.withColumn("age_limit_ms", F.when(by_time, kept_ms + span))
    shortest, segment = F.col("shortest_span_ms"), _double("segment_bytes")
    size = F.coalesce(F.least(segment, moving * shortest / 1000), segment)
    size_limit = F.when(by_size, _double("retention_bytes") + segment + kept)
    frame = frame.withColumns(
        {
            "overshoot": F.when(by_time, (span + _double("check_interval_ms")) / F.nullif("retention_ms", F.lit(0))),
            "disk_limit_bytes": F.least(F.col(rate) * F.col("age_limit_ms") / 1000, size_limit),
            "limit_by_time": F.when(by_time & (shortest > 0), 2 + _quotient(kept_ms, shortest)),
            "limit_by_size": F.when(
                by_size & (size > 0), 2 + _quotient(_double("retention_bytes") + F.coalesce(kept, F.lit(0.0)), size)
            ),
        }
    )
    few, many = F.least("limit_by_time", "limit_by_size"), F.greatest("limit_by_time", "limit_by_size")
    limit = F.when(moving.isNotNull(), few).otherwise(many)
    return frame.withColumn("segment_limit", limit).drop("limit_by_time", "limit_by_size")


def _double(name: str) -> Column:
    return F.col(name).cast("double")


def _quotient(number: Column, divisor: Column) -> Column:
    """Python's `//` of numbers that are not negative: exact where the quotient is next to a whole number."""
    part = F.nullif(divisor, F.lit(0.0))
    return F.round(F.least((number - number % part) / part, F.lit(MANY))).cast("bigint")
