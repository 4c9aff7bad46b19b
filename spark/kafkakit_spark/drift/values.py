"""Settings in comparable form: one text for each value, one value for each broker, cluster and topic."""

from collections.abc import Iterable
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kafkakit.rules.audits.drift import Form, broker_defaults, compared_key, inherited_from
from kafkakit.rules.effective import TIME_FORMS
from kafkakit.rules.families.drift import UNIFORM

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


def broker_values(rows: DataFrame, keys: DataFrame) -> DataFrame:
    """How many brokers of a cluster have which value of a key (cluster, name, value, source, is_default, n, first).

    `brokers` are their ids, for keys of `UNIFORM` alone. Of several keys for one time (log.retention.hours) the
    strongest that is set counts, else the strongest default. `rows` are of broker_configs of one day.
    """
    is_default = F.col("source") == "default"
    known = settings(rows, keys).where(~F.col("is_per_node") & (F.col("value") != ""))
    known = known.withColumn("is_default", F.coalesce(is_default, F.lit(False)))
    columns = ["cluster", "broker", "name", "value", "source", "is_default"]
    of_time = F.col("name").isin(*TIME_FORMS)
    chosen = F.min_by(F.struct("value", "source", "is_default"), F.struct("is_default", "rank"))
    times = known.where(of_time).groupBy("cluster", "broker", "name").agg(chosen.alias("found"))
    one = known.where(~of_time).select(*columns).union(times.select("cluster", "broker", "name", "found.*"))
    return one.groupBy("cluster", "name", "value").agg(
        F.every("is_default").alias("is_default"),
        F.max("source").alias("source"),
        F.count("*").alias("n"),
        F.min("broker").alias("first"),
        F.array_sort(F.collect_list(F.when(F.col("name").isin(*UNIFORM), F.col("broker")))).alias("brokers"),
    )


def cluster_values(counts: DataFrame, clusters: DataFrame, keys: DataFrame) -> DataFrame:
    """The value that most brokers of a cluster have (cluster, minor, name, value, is_default); else its default.

    Values are "" where nothing is set. `counts` is of `broker_values`, `clusters` has cluster and minor. Every key of
    the cluster's version has a row.
    """
    usual = F.max_by(F.struct("value", "is_default"), F.struct("n", -F.col("first")))
    modes = counts.groupBy("cluster", "name").agg(usual.alias("usual"))
    defaults = keys.sparkSession.createDataFrame(broker_defaults(), "minor string, key string, value string")
    form = normal(F.col("value"), F.col("form"), F.col("factor"))
    defaults = defaults.join(F.broadcast(keys), "key").withColumn("value", form)
    strongest = F.min_by("value", F.when(F.col("value").isNotNull(), F.col("rank")))
    defaults = defaults.groupBy("minor", "name").agg(strongest.alias("default"))
    every = clusters.select("cluster", "minor").join(F.broadcast(defaults), "minor")
    return every.join(modes, ["cluster", "name"], "left").select(
        "cluster",
        "minor",
        "name",
        F.coalesce("usual.value", "default", F.lit("")).alias("value"),
        F.coalesce("usual.is_default", F.lit(True)).alias("is_default"),
    )


def inherited_values(values: DataFrame, keys: DataFrame) -> DataFrame:
    """What topics without a setting inherit (cluster, key, value, is_default, from_broker), of `cluster_values`."""
    spark = values.sparkSession
    topic = spark.createDataFrame(inherited_from(), "minor string, key string, from_broker string, default string")
    form = normal(F.col("default"), F.col("form"), F.col("factor"))
    topic = topic.join(F.broadcast(keys), "key").withColumn("default", form).where(~F.col("is_per_node"))
    topic = topic.select("minor", "key", "from_broker", "default")
    clusters = values.select("cluster", "minor").distinct()
    every = clusters.join(F.broadcast(topic), "minor")
    found = values.select("cluster", F.col("name").alias("from_broker"), "value", "is_default")
    is_set = ~F.coalesce("is_default", F.lit(True))
    return every.join(found, ["cluster", "from_broker"], "left").select(
        "cluster",
        "key",
        F.when(is_set, F.col("value")).otherwise(F.col("default")).alias("value"),
        (~is_set).alias("is_default"),
        "from_broker",
    )
