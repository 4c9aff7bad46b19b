"""Differences of topics: from what files declare of them, and from the same topic on the mirrored cluster."""

from collections.abc import Collection

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kafkakit.rules.audits.drift import OWNED_BY
from kafkakit.rules.families.drift import MAY_DIFFER
from kafkakit_spark.drift.values import settings

TOPIC = ["cluster", "topic"]
SHAPE = ("partitions", "replication")


def is_owned() -> Column:
    """True for a topic whose settings another program writes, by its `labels`."""
    return F.exists(F.coalesce("labels", F.array()), lambda label: label.startswith(OWNED_BY))


def _may_differ() -> Column:
    return F.array_contains(F.coalesce("labels", F.array().cast("array<string>")), F.concat(F.lit(MAY_DIFFER), "key"))


def declared_drift(
    declared: DataFrame, overrides: DataFrame, topics: DataFrame, keys: DataFrame, may_differ: DataFrame
) -> DataFrame:
    """Rows for `drift.declared_drift`; `overrides` is of `settings`, `topics` has blast too."""
    of_files = declared.where(~F.col("key").isin("", *SHAPE))
    first = F.min(F.struct("file", "line", "value"))
    wanted = settings(of_files, keys).where(~F.col("is_per_node")).groupBy(*TOPIC, "key").agg(first.alias("wanted"))
    shape = declared_topics(declared)
    live = overrides.where(~F.col("is_per_node")).select(*TOPIC, "key", F.col("value").alias("live"))
    live = live.join(shape.select(*TOPIC), TOPIC, "left_semi")
    different = (
        wanted.join(live, [*TOPIC, "key"], "full")
        .where(~F.col("wanted.value").eqNullSafe(F.col("live")))
        .join(F.broadcast(may_differ), ["cluster", "key"], "left_anti")
        .join(topics.select(*TOPIC, "labels"), TOPIC)
        .where(~_may_differ())
        .groupBy(*TOPIC)
        .agg(
            F.array_sort(
                F.collect_list(F.struct("key", F.col("wanted.value").alias("declared"), "live", "wanted.line"))
            ).alias("settings")
        )
    )
    live_shape = topics.where(~is_owned()).select(
        *TOPIC, "blast", *(F.col(name).alias(f"live_{name}") for name in SHAPE)
    )
    both = live_shape.join(shape, TOPIC).join(different, TOPIC, "left")
    for name in SHAPE:
        differs = F.col(name) != F.col(f"live_{name}")
        both = both.withColumn(name, F.when(differs, F.col(name)))
    return both.where(
        F.col("settings").isNotNull() | F.col("partitions").isNotNull() | F.col("replication").isNotNull()
    )


def declared_topics(declared: DataFrame) -> DataFrame:
    """The topics that files declare (cluster, topic, file, line, owner, partitions, replication), one row each."""
    return (
        declared.groupBy(*TOPIC)
        .agg(
            F.min(F.struct("file", "line")).alias("place"),
            F.min("owner").alias("owner"),
            *(F.min(F.when(F.col("key") == n, F.col("value").try_cast("int"))).alias(n) for n in SHAPE),
        )
        .select(*TOPIC, "place.file", "place.line", "owner", *SHAPE)
    )


def unmanaged_or_missing(declared: DataFrame, topics: DataFrame, clusters: Collection[str]) -> DataFrame:
    """Rows for `drift.managed`: topics of files alone, and topics of the cluster alone."""
    ours = declared_topics(declared).select(*TOPIC, F.col("owner").alias("file_owner"), F.lit(True).alias("in_file"))
    is_meant = ~is_owned() & ~F.col("topic").startswith("__")
    live = topics.where(F.col("cluster").isin(*clusters)).select(*TOPIC, "owner", "blast", is_meant.alias("is_meant"))
    one_side = F.when(F.col("in_file"), F.col("is_meant").isNull()).otherwise(F.col("is_meant"))
    return ours.join(live, TOPIC, "full").where(one_side).select(
        *TOPIC, F.coalesce("owner", "file_owner").alias("owner"), F.coalesce("blast", F.lit(1.0)).alias("blast"),
        F.col("in_file").isNotNull().alias("is_declared"),
    )  # fmt: skip


def mirror_drift(
    overrides: DataFrame, topics: DataFrame, pairs: DataFrame, inherited: DataFrame, may_differ: DataFrame
) -> DataFrame:
    """Rows for `drift.different_mirror`; `pairs` has cluster (the mirror) and source, `may_differ` cluster and key."""
    pair = ["source", "cluster"]
    ours = topics.where(~F.col("topic").startswith("__")).withColumnRenamed("cluster", "source")
    ours = ours.join(F.broadcast(pairs), "source").select(*pair, F.col("topic").alias("of_source"))
    copies = topics.select("cluster", "topic", "labels", "owner", "blast")
    by_name = ours.withColumn("topic", F.col("of_source")).withColumn("order", F.lit(0))
    by_prefix = ours.withColumn("topic", F.concat("source", F.lit("."), "of_source")).withColumn("order", F.lit(1))
    both = by_name.union(by_prefix).join(copies, TOPIC)
    best = F.min_by(F.struct("topic", "labels", "owner", "blast"), "order")
    both = both.groupBy(*pair, "of_source").agg(best.alias("copy")).select(*pair, "of_source", "copy.*")
    kept = overrides.where(~F.col("is_per_node")).select("cluster", "topic", "key", "value")
    of_source = kept.withColumnsRenamed({"cluster": "source", "topic": "of_source", "value": "ours"})
    of_mirror = kept.withColumnRenamed("value", "theirs")
    names = both.select(*pair, "of_source", "topic")
    set_here = names.join(of_source, ["source", "of_source"]).select(*pair, "topic", "key", "ours")
    set_there = names.join(of_mirror, TOPIC).select(*pair, "topic", "key", "theirs")
    at_source, at_mirror = _inherited_of_pairs(inherited)
    found = (
        set_here.join(set_there, [*pair, "topic", "key"], "full")
        .join(F.broadcast(at_source), ["source", "key"], "left")
        .join(F.broadcast(at_mirror), ["cluster", "key"], "left")
        .withColumn("ours", F.coalesce("ours", "source_value"))
        .withColumn("theirs", F.coalesce("theirs", "mirror_value"))
        .where(F.col("ours") != F.col("theirs"))
        .join(both.select(*pair, "topic", "labels", "owner", "blast"), [*pair, "topic"])
        .where(~_may_differ())
        .join(F.broadcast(may_differ), ["cluster", "key"], "left_anti")
    )
    return found.select(*pair, "topic", "key", "ours", "theirs", F.lit("").alias("from_broker"), "owner", "blast")


def inherited_drift(pairs: DataFrame, inherited: DataFrame, clusters: DataFrame, may_differ: DataFrame) -> DataFrame:
    """Rows for `drift.different_mirror` of what topics inherit, where one side has set it."""
    at_source, at_mirror = _inherited_of_pairs(inherited)
    found = pairs.join(at_source, "source").join(at_mirror, ["cluster", "key"])
    found = found.where(F.col("source_value") != F.col("mirror_value"))
    found = found.where(~(F.col("source_default") & F.col("mirror_default")))
    return (
        found.join(F.broadcast(may_differ), ["cluster", "key"], "left_anti")
        .join(F.broadcast(clusters.select("cluster", "blast")), "cluster")
        .select(
            "source", "cluster", F.lit(None).cast("string").alias("topic"), "key",
            F.col("source_value").alias("ours"), F.col("mirror_value").alias("theirs"), "from_broker",
            F.lit(None).cast("string").alias("owner"), "blast",
        )
    )  # fmt: skip


def _inherited_of_pairs(inherited: DataFrame) -> tuple[DataFrame, DataFrame]:
    at_source = inherited.select(
        F.col("cluster").alias("source"), "key", F.col("value").alias("source_value"),
        F.col("is_default").alias("source_default"),
    )  # fmt: skip
    at_mirror = inherited.select(
        "cluster", "key", F.col("value").alias("mirror_value"), F.col("is_default").alias("mirror_default"),
        "from_broker",
    )  # fmt: skip
    return at_source, at_mirror
