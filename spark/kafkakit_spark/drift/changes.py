"""What was changed between the snapshots of a store, and since when each override is set.

Each value of a setting becomes one row with a bit for each day of its cluster on which it was seen, so that a history
costs one aggregation and what never changed is dropped at once.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kafkakit_spark.drift.values import settings

MOST_DAYS = 62
PLACE = ["cluster", "topic", "broker"]
VALUE = ["value", "source"]


def days_frame(spark: SparkSession, days: Mapping[str, tuple[str, ...]]) -> DataFrame:
    """The days of each cluster (cluster, snapshot_date, day, all_days), oldest first and at most `MOST_DAYS`."""
    kept = {cluster: found[-MOST_DAYS:] for cluster, found in days.items()}
    rows = [(c, date, n, list(found)) for c, found in sorted(kept.items()) for n, date in enumerate(found)]
    return spark.createDataFrame(rows, "cluster string, snapshot_date string, day int, all_days array<string>")


def seen_values(rows: DataFrame, keys: DataFrame, days: DataFrame) -> DataFrame:
    """Every value that was set (cluster, topic, broker, key, value, source, bits, all_days); defaults are left out.

    `rows` are of broker_configs or topic_configs; the column of the other is null.
    """
    own = rows.where(F.coalesce(F.col("source") != "default", F.lit(True)))
    # A change from hours to milliseconds is one, and so is the same value in another layer.
    own = settings(own, keys.withColumn("factor", F.lit(1).cast("bigint")))
    for name, kind in (("topic", "string"), ("broker", "int")):
        if name not in own.columns:
            own = own.withColumn(name, F.lit(None).cast(kind))
    return _with_bits(own, days, [*PLACE, "key", *VALUE])


def present_days(rows: DataFrame, days: DataFrame, name: str) -> DataFrame:
    """On which days each topic, or broker, of a cluster was there (cluster, `name`, present)."""
    found = _with_bits(rows.select("cluster", "snapshot_date", name), days, ["cluster", name])
    return found.select("cluster", name, F.col("bits").alias("present"))


def changes(seen: DataFrame, present: DataFrame, name: str) -> DataFrame:
    """The changes of a history, one row for each setting, place and day on which it had changed.

    Columns: cluster, topic, broker, key, old, new, old_source, new_source, last_old (the last day that showed the old
    value), first_day and last_day (of the new one). What a place begins or ends with is no change: it was not there on
    the day before, or after. `name` is the column of `present`.
    """
    unstable = seen.where(F.col("bits") != _full()).groupBy(*PLACE, "key")
    listed = unstable.agg(
        F.collect_list(F.struct("bits", *VALUE)).alias("runs"), F.first("all_days").alias("all_days")
    ).join(present, ["cluster", name], "left")
    last = F.size("all_days") - 1

    def at(day: Column) -> Column:
        run = F.filter("runs", lambda run: _bit(run["bits"], day) == 1)
        return F.struct(
            day.alias("day"),
            F.get(run, 0)["value"].alias("value"),
            F.get(run, 0)["source"].alias("source"),
            (_bit(F.coalesce("present", F.lit(-1).cast("bigint")), day) == 1).alias("is_there"),
        )

    by_day = F.transform(F.sequence(F.lit(0), last), at)
    listed = listed.withColumn("by_day", by_day)

    def changed(day: Column) -> Column:
        old, new = F.get("by_day", day - 1), F.get("by_day", day)
        is_same = old["value"].eqNullSafe(new["value"]) & old["source"].eqNullSafe(new["source"])
        return ~is_same & old["is_there"] & new["is_there"]

    starts = F.filter(F.sequence(F.lit(1), F.greatest(last, F.lit(1))), lambda day: (day <= last) & changed(day))
    each = listed.withColumn("starts", starts).select("*", F.posexplode("starts").alias("number", "start"))
    old, new = F.get("by_day", F.col("start") - 1), F.get("by_day", F.col("start"))
    until = F.coalesce(F.get("starts", F.col("number") + 1) - 1, last)
    return each.select(
        *PLACE, "key", old["value"].alias("old"), new["value"].alias("new"), old["source"].alias("old_source"),
        new["source"].alias("new_source"), F.get("all_days", F.col("start") - 1).alias("last_old"),
        F.get("all_days", F.col("start")).alias("first_day"), F.get("all_days", until).alias("last_day"),
    )  # fmt: skip


def set_since(seen: DataFrame) -> DataFrame:
    """The values that are set on the last day, with `since`: from when on each day showed them."""
    missing = _full().bitwiseAND(F.bitwise_not("bits"))
    start = F.when(missing == 0, F.lit(0)).otherwise(F.length(F.bin(missing)))
    today = seen.where(_bit(F.col("bits"), F.size("all_days") - 1) == 1)
    return today.withColumn("since", F.get("all_days", start))


def _with_bits(rows: DataFrame, days: DataFrame, by: list[str]) -> DataFrame:
    with_day = rows.join(F.broadcast(days), ["cluster", "snapshot_date"])
    bit = F.call_function("shiftleft", F.lit(1).cast("bigint"), F.col("day"))
    found = with_day.groupBy(*by).agg(F.bit_or(bit).alias("bits"))
    whole = days.groupBy("cluster").agg(F.first("all_days").alias("all_days"))
    return found.join(F.broadcast(whole), "cluster")


def _full() -> Column:
    return F.call_function("shiftleft", F.lit(1).cast("bigint"), F.size("all_days")) - 1


def _bit(bits: Column, day: Column) -> Column:
    return F.call_function("shiftright", bits, day).bitwiseAND(F.lit(1).cast("bigint"))
