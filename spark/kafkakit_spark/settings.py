"""Settings in one form, digests of them, and their history: what was set where, on which days, and what changed.

Each value of a setting becomes one row with a bit for each day of its cluster on which it was seen, so that a history
costs one aggregation.
"""

from collections.abc import Iterable, Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kafkakit.rules.audits.drift import Form, broker_defaults, compared_key, inherited_from

KEYS = "key string, name string, form string, rank int, factor bigint, is_per_node boolean, is_per_cluster boolean"
BLANKS = " \t\r\n"


def keys_frame(spark: SparkSession, tables: Iterable[DataFrame]) -> DataFrame:
    """How each key of the tables, and of Kafka's own, is compared, one row a key; secret ones are left out.

    Costs a scan of the key columns.
    """
    seen = reduce(DataFrame.union, (t.select("key").distinct() for t in tables)).distinct().collect()
    names = {row["key"] for row in seen if row["key"]}
    names |= {key for _, key, _ in broker_defaults()} | {key for _, key, _, _ in inherited_from()}
    return spark.createDataFrame([tuple(f) for key in sorted(names) if (f := compared_key(key)) is not None], KEYS)


def normal(value: Column, form: Column, factor: Column) -> Column:
    """One text for all texts of a value: numbers in the unit of the key that they stand for, lists sorted."""
    text = F.btrim(value, F.lit(BLANKS))
    number = F.when(text.rlike(r"^[+-]?[0-9]{1,25}$"), text.try_cast("decimal(26,0)"))
    whole = F.when((factor != 1) & (number < 0), F.lit("-1")).otherwise((number * factor).cast("string"))
    items = F.array_sort(F.transform(F.split(text, ","), lambda item: F.btrim(item, F.lit(BLANKS))))
    return (
        F.when(form == Form.WHOLE, F.coalesce(whole, text))
        .when(form == Form.BOOLEAN, F.lower(text))
        .when(form == Form.DOUBLE, F.coalesce(text.try_cast("double").cast("string"), text))
        .when(form == Form.LIST, F.array_join(items, ","))
        .otherwise(text)
    )


def settings(rows: DataFrame, keys: DataFrame) -> DataFrame:
    """Rows of settings in comparable form, with the columns of `KEYS`; without sensitive and null values."""
    if "is_sensitive" in rows.columns:
        rows = rows.where(~F.coalesce("is_sensitive", F.lit(False)))
    known = rows.where(F.col("value").isNotNull()).join(F.broadcast(keys), "key")
    return known.withColumn("value", normal(F.col("value"), F.col("form"), F.col("factor")))


def digest(*columns: str, when: Column | None = None) -> Column:
    """One number of 64 bits for the rows of a group in any order; 0 for none. A row that is there twice cancels out."""
    of_row = F.xxhash64(*columns)
    return F.coalesce(F.bit_xor(of_row if when is None else F.when(when, of_row)), F.lit(0).cast("bigint"))


MOST_DAYS = 62
PLACE = ["cluster", "topic", "broker"]
VALUE = ["value", "source"]


def days_frame(spark: SparkSession, days: Mapping[str, tuple[str, ...]]) -> DataFrame:
    """The days of each cluster (cluster, snapshot_date, day, all_days), oldest first and at most `MOST_DAYS`."""
    kept = {cluster: found[-MOST_DAYS:] for cluster, found in days.items()}
    rows = [(c, date, n, list(found)) for c, found in sorted(kept.items()) for n, date in enumerate(found)]
    return spark.createDataFrame(rows, "cluster string, snapshot_date string, day int, all_days array<string>")


def own_settings(rows: DataFrame) -> DataFrame:
    """The rows of broker_configs or topic_configs that are no defaults."""
    return rows.where(F.coalesce(F.col("source") != "default", F.lit(True)))


def unsettled(rows: DataFrame, present: DataFrame, days: DataFrame, name: str) -> DataFrame:
    """Those of `own_settings` whose topic or broker was not set alike on all days on which it was there.

    `present` is of `present_days`, `name` its column.
    """
    place = ["cluster", name]
    is_shown = F.col("value").isNotNull()
    columns = [name for name in ("key", "value", "source", "is_sensitive") if name in rows.columns]
    texts = [digest(*columns, when=is_shown).alias("digest"), F.count("*").alias("n")]
    by_day = rows.groupBy(*place, "snapshot_date").agg(*texts)
    with_day = by_day.join(F.broadcast(days), ["cluster", "snapshot_date"])
    seen = with_day.groupBy(*place).agg(
        F.min("digest").alias("least"), F.max("digest").alias("most"), F.min("n").alias("fewest"),
        F.max("n").alias("most_n"), F.bit_or(_bit_of_day()).alias("bits"),
    )  # fmt: skip
    is_settled = (
        (F.col("least") == F.col("most"))
        & (F.col("fewest") == F.col("most_n"))
        & (F.col("bits").eqNullSafe(F.col("present")))
    )
    odd = seen.join(present, place, "left").where(~is_settled).select(*place)
    return rows.join(odd, place, "left_semi")


def seen_values(own: DataFrame, keys: DataFrame, days: DataFrame) -> DataFrame:
    """Every value that was set (cluster, topic, broker, key, value, source, bits, all_days), of `own_settings`.

    The column of the other kind of place is null.
    """
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
    found = with_day.groupBy(*by).agg(F.bit_or(_bit_of_day()).alias("bits"))
    whole = days.groupBy("cluster").agg(F.first("all_days").alias("all_days"))
    return found.join(F.broadcast(whole), "cluster")


def _bit_of_day() -> Column:
    return F.call_function("shiftleft", F.lit(1).cast("bigint"), F.col("day"))


def _full() -> Column:
    return F.call_function("shiftleft", F.lit(1).cast("bigint"), F.size("all_days")) - 1


def _bit(bits: Column, day: Column) -> Column:
    return F.call_function("shiftright", bits, day).bitwiseAND(F.lit(1).cast("bigint"))
