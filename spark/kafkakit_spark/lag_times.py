"""When the offset of each commit was produced: two as-of joins as window functions over commits and samples together.

A sample says that a log had reached an offset at a time. The record at a committed offset is the oldest that is not
read; its time is interpolated between the samples around it, never beyond them.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

LOG = ["cluster", "topic", "partition"]


def sampled(produced: DataFrame) -> DataFrame:
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


def timed(commits: DataFrame, samples: DataFrame) -> DataFrame:
    """Commits with their lag (`offset_lag`, `time_lag_ms`) and what it is made of (`end_offset`, `produced_ms`).

    `end_offset` is that of the time of the commit, `produced_ms` the time of the first record that it leaves unread.
    `is_bound` is True where the samples begin after the committed offset: the lag is at least that. Lags are null where
    no sample is as old as the commit. One shuffle of commits and samples, and two sorts.
    """
    both = samples.select(*LOG, F.lit(0).alias("kind"), "at_ms", "offset", "life", "by_offset", "by_time").unionByName(
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
    end = _between(F.col("at_ms"), *(F.col(f"known.{n}") for n in ("at_ms", "next_end_ms", "offset", "next_end")))
    reached = _between(
        F.col("offset"), *(F.col(f"around.{n}") for n in ("offset", "next_offset", "reached_ms", "next_reached_ms"))
    )
    lag = F.greatest(F.col("end_offset") - F.col("offset"), F.lit(0))
    behind = F.greatest(F.col("at_ms") - F.col("produced_ms"), F.lit(0))
    return (
        both.where(F.col("kind") == 1)
        .withColumn("end_offset", end)
        .withColumn("produced_ms", F.coalesce(reached, "oldest_ms"))
        .withColumn("offset_lag", F.when(F.col("end_offset").isNotNull(), lag))
        .withColumn("time_lag_ms", F.when(F.col("offset_lag") == 0, F.lit(0)).when(F.col("offset_lag") > 0, behind))
        .withColumn("is_bound", F.col("around").isNull() & (F.col("offset_lag") > 0))
        .select(
            *LOG, "group", F.col("offset").alias("committed"), "at_ms", "end_offset", "produced_ms", "offset_lag",
            "time_lag_ms", "is_bound",
        )
    )  # fmt: skip


def _between(at: Column, start: Column, end: Column, low: Column, high: Column) -> Column:
    """What lies between `low` and `high` as `at` lies between `start` and `end`; `low` where there is no end."""
    share = (at - start) / (end - start)
    inside = (low + F.round(share * (high - low))).cast("bigint")
    return F.when(end > start, inside).otherwise(low)
