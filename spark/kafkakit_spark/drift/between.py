"""Differences between the brokers of a cluster, between clusters of one label, and between defaults of versions."""

from collections.abc import Iterable
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafkakit.rules.audits.drift import compared_key, default_changes
from kafkakit.rules.families.drift import LEAST_PEERS, SHARE_OF_PEERS, UNIFORM


class OtherVersion(NamedTuple):
    """A cluster and a version that it is compared with; `other` names whose it is, `cluster` where it is one's."""

    name: str
    minor: str
    other_minor: str
    other: str
    cluster: str | None


def different_brokers(counts: DataFrame, clusters: DataFrame, may_differ: DataFrame) -> DataFrame:
    """Rows for `drift.different_brokers`: keys that must be uniform and are not.

    A broker without a row of the key has its default. Brokers that showed no setting at all are not compared.
    """
    found = (
        counts.where(F.col("name").isin(*UNIFORM))
        .groupBy("cluster", F.col("name").alias("key"))
        .agg(
            F.sum("n").alias("seen"),
            F.count("*").alias("values"),
            F.every("is_default").alias("is_default"),
            F.array_sort(F.collect_list(F.struct("value", "source", "brokers"))).alias("groups"),
        )
        .where(~F.col("is_default"))
        .join(F.broadcast(clusters), "cluster")
        .where((F.col("values") > 1) | (F.col("seen") < F.size("ids")))
    )
    found = found.join(F.broadcast(may_differ), ["cluster", "key"], "left_anti")
    return found.select("cluster", "key", "minor", "ids", "blast", "groups")


def different_peers(values: DataFrame, labels: DataFrame, clusters: DataFrame, may_differ: DataFrame) -> DataFrame:
    """Rows for `drift.different_peers`: of all labels of a cluster, the one that most others bear.

    `labels` has cluster, label and peers, how many others there are. Where both sides have their version's default,
    that is `OtherVersion`'s.
    """
    labelled = values.join(F.broadcast(labels.where(F.col("peers") >= LEAST_PEERS)), "cluster")
    by_value = labelled.groupBy("label", "name", "value").agg(
        F.count("*").alias("agree"), F.every("is_default").alias("all_default")
    )
    usual = by_value.groupBy("label", "name").agg(
        F.max_by(F.struct("value", "agree", "all_default"), F.struct("agree", "value")).alias("usual")
    )
    away = (F.col("value") != F.col("usual.value")) & (F.col("usual.agree") / F.col("peers") >= SHARE_OF_PEERS)
    odd = labelled.join(F.broadcast(usual), ["label", "name"]).where(
        away & ~(F.col("is_default") & F.col("usual.all_default"))
    )
    best = F.max_by(F.struct("value", "minor", "usual", "peers"), F.struct("usual.agree", "label"))
    return (
        odd.groupBy("cluster", F.col("name").alias("key"))
        .agg(best.alias("best"))
        .join(F.broadcast(may_differ), ["cluster", "key"], "left_anti")
        .join(F.broadcast(clusters.select("cluster", "blast")), "cluster")
        .select(
            "cluster", "key", "best.value", "best.minor", F.col("best.usual.value").alias("usual"),
            "best.usual.agree", "best.peers", "blast",
        )
    )  # fmt: skip


def other_defaults(
    spark: SparkSession, counts: DataFrame, pairs: Iterable[OtherVersion], clusters: DataFrame, may_differ: DataFrame
) -> DataFrame:
    """Rows for `drift.other_defaults`: keys that neither side sets and whose defaults differ between the versions."""
    rows = []
    for pair in pairs:
        for key, (ours, theirs) in default_changes(pair.minor, pair.other_minor).items():
            name = compared_key(key)
            if name is not None:
                rows.append((*pair, key, name.name, ours, theirs))
    columns = "cluster string, minor string, other_minor string, other string, other_cluster string, key string, " \
        "name string, ours string, theirs string"  # fmt: skip
    is_set = counts.where(~F.col("is_default")).select("cluster", "name").distinct()
    theirs_set = is_set.withColumnRenamed("cluster", "other_cluster")
    return (
        spark.createDataFrame(rows, columns)
        .join(is_set, ["cluster", "name"], "left_anti")
        .join(theirs_set, ["other_cluster", "name"], "left_anti")
        .join(F.broadcast(may_differ), ["cluster", "key"], "left_anti")
        .groupBy("cluster", "minor", "other_minor", "other")
        .agg(F.array_sort(F.collect_list(F.struct("key", "ours", "theirs"))).alias("keys"))
        .join(F.broadcast(clusters.select("cluster", "blast")), "cluster")
    )
