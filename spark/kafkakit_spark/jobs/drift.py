"""The audit `drift`: six comparisons of what clusters are set to, and who changed what when.

Settings are compared in one form: one text for each value, one value for each broker, cluster and topic. Compared are
the brokers of a cluster, clusters of one label, defaults of versions, and topics with what files declare of them and
with the same topic on the mirrored cluster.

Most brokers, and most topics and days, are set alike. Digests of their settings tell which are, and only one of those
brokers, and only topics and places whose digests differ, are looked at value by value.

Changes lie between the snapshots of a store.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kafkakit.rules.audits import drift
from kafkakit.rules.audits.delivery import sources_of
from kafkakit.rules.audits.drift import OWNED_BY, broker_defaults, compared_key, default_changes, inherited_from
from kafkakit.rules.config_defs import NEWEST, minor_key, minor_or_none
from kafkakit.rules.effective import TIME_FORMS
from kafkakit.rules.families.drift import LEAST_PEERS, MAY_DIFFER, MIRROR_OF, SHARE_OF_PEERS, UNIFORM
from kafkakit.rules.rule import Limits
from kafkakit_spark.effective import (
    changes,
    days_frame,
    digest,
    keys_frame,
    normalize_value,
    own_settings,
    present_days,
    seen_values,
    set_since,
    settings,
    unsettled_rows,
)
from kafkakit_spark.job import JobInput, JobOutput, findings_frame, findings_of, ratio, total

NO_GROUPS = (MIRROR_OF, MAY_DIFFER, OWNED_BY)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cluster:
    """What the driver knows of a cluster; its brokers are those that showed settings, `since_ms` when its versions
    were first seen to differ."""

    name: str
    minor: str | None
    versions: tuple[str, ...]
    since_ms: int | None
    labels: frozenset[str]
    sources: tuple[str, ...]
    brokers: tuple[int, ...]
    partitions: float


def run(job: JobInput) -> JobOutput:
    """Compare; costs a scan of today's broker_configs, and one of the history of each table with settings."""
    spark, store = job.spark, job.store
    settings_today = job.today("broker_configs")
    of_topics, declared = job.today("topic_configs"), job.today("declared")
    with_keys = (job.history("broker_configs"), job.history("topic_configs"), declared)
    keys = keys_frame(spark, with_keys)
    today = job.spec.snapshot_date
    known = {kind: {c for c, days in store.days(kind).items() if today in days} for kind in ("topics", "topic_configs")}
    alike = job.step("alike", alike_brokers(settings_today, keys))
    clusters = _clusters(job, alike)
    infos = spark.createDataFrame(
        [(c.name, c.minor or NEWEST, list(c.brokers), c.partitions) for c in clusters if c.brokers],
        "cluster string, minor string, ids array<int>, blast double",
    )
    may_differ = spark.createDataFrame(
        [(c.name, x.removeprefix(MAY_DIFFER)) for c in clusters for x in sorted(c.labels) if x.startswith(MAY_DIFFER)],
        "cluster string, key string",
    )
    rates = job.today("partitions").groupBy("cluster", "topic").agg((total("bytes_in_s") / 1e6).alias("mb_s"))
    owned_by = F.get(F.filter("labels", lambda label: label.startswith(OWNED_BY)), 0)
    all_topics = job.today("topics").withColumn("owned_by", owned_by).join(rates, TOPIC, "left")
    all_topics = all_topics.withColumn("blast", F.greatest(F.col("partitions").cast("double"), "mb_s", F.lit(1.0)))
    all_topics = job.step("topics", all_topics)
    overrides = job.step("overrides", settings(of_topics, keys))

    counts = job.step("counts", broker_values(settings_today, keys, alike))
    values = job.step("values", cluster_values(counts, infos, keys))
    whole = known["topics"] & known["topic_configs"]
    pairs = spark.createDataFrame(
        [(c.name, source) for c in clusters for source in c.sources if {c.name, source} <= whole],
        "cluster string, source string",
    )
    inherited = inherited_values(values, keys)
    owned = {c.name for c in clusters if any(x.startswith(OWNED_BY) for x in c.labels)}
    with_files = store.having("declared", today) & (whole - owned)
    declared = declared.where(F.col("cluster").isin(*with_files))
    of_sources = declared.join(
        F.broadcast(pairs.select(F.col("source").alias("cluster")).distinct()), "cluster", "left_semi"
    )
    meant = declared_values(of_sources, all_topics, keys, may_differ)
    mirrored = mirror_drift(overrides, meant, all_topics, pairs, inherited, may_differ)
    found = [
        findings_of(declared_drift(declared, overrides, all_topics, keys, may_differ), drift.declared_drift),
        findings_of(unmanaged_or_missing(declared, all_topics, with_files), drift.find_undeclared),
        findings_of(different_brokers(counts, infos, may_differ), drift.different_brokers),
        findings_of(different_peers(values, _labels(job, clusters), infos, may_differ), drift.different_peers),
        findings_of(mirrored, drift.different_mirror),
        findings_of(inherited_drift(pairs, inherited, infos, may_differ), drift.different_mirror),
        findings_of(other_defaults(spark, counts, _other_versions(clusters), infos, may_differ), drift.other_defaults),
        findings_frame(spark, drift.version_skews([_version_row(c) for c in clusters], job.spec.now_ms)),
    ]
    skipped = (
        [] if with_files else ["declared vs live: no declared topics were collected (key declared in the fleet file)"]
    )
    if not any(c.sources for c in clusters):
        skipped.append("mirror pairs: no cluster is labelled mirror:NAME")
    tables = {}
    if len(job.spec.dates) > 1:
        table, stale = _history(job, keys, declared, all_topics, infos)
        tables["changes"] = table
        found.append(findings_of(stale, drift.stale_override))
    else:
        skipped.append("changes and stale overrides: needs snapshots of at least two days")
    facts = counts.agg(F.coalesce(F.sum("n"), F.lit(0)).alias("broker_settings_compared"))
    return JobOutput(findings=reduce(DataFrame.union, found), tables=tables, facts=(facts,), skipped=tuple(skipped))


def _history(
    job: JobInput, keys: DataFrame, declared: DataFrame, all_topics: DataFrame, infos: DataFrame
) -> tuple[DataFrame, DataFrame]:
    """The table `changes`, and the rows for `drift.stale_override`."""
    store, limit = job.store, job.number("stale_days", Limits().stale_override_days)
    of_topics, of_brokers = (days_frame(job.spark, store.days(kind)) for kind in ("topic_configs", "broker_configs"))
    set_topics, set_brokers = (own_settings(job.history(k)) for k in ("topic_configs", "broker_configs"))
    owners = all_topics.select(*TOPIC, "owned_by", F.col("owner"), F.col("blast").alias("of_topic"))
    cluster_blast = infos.select("cluster", F.col("blast").alias("of_cluster"), F.size("ids").alias("ids"))
    topics_there = present_days(job.history("topics"), of_topics, "topic")
    brokers_there = present_days(job.history("broker_configs"), of_brokers, "broker")
    changed = reduce(
        DataFrame.union,
        (
            changes(seen_values(unsettled_rows(rows, there, days, name), keys, days), there, name)
            for rows, there, days, name in (
                (set_topics, topics_there, of_topics, "topic"),
                (set_brokers, brokers_there, of_brokers, "broker"),
            )
        ),
    )
    # A change of all brokers is one change.
    same = [c for c in changed.columns if c != "broker"]
    table = (
        changed.groupBy(*same)
        .agg(F.min("broker").alias("broker"), F.count("*").alias("places"))
        .join(F.broadcast(cluster_blast), "cluster", "left")
        .join(owners, TOPIC, "left")
        .withColumn("blast", F.coalesce("of_topic", ratio(F.col("of_cluster") * F.col("places"), "ids")))
        .drop("of_topic", "of_cluster", "ids")
    )
    # Where no file declares topics, every setting of one would be stale.
    today = job.spec.snapshot_date
    bare = (
        set_topics.where(F.col("snapshot_date") == today)
        .join(F.broadcast(declared.select("cluster").distinct()), "cluster", "left_semi")
        .join(declared.select(*TOPIC, "key"), [*TOPIC, "key"], "left_anti")
    )
    stale_topics = set_topics.join(bare.select(*TOPIC, "key"), [*TOPIC, "key"], "left_semi")
    stale_topics = set_since(seen_values(stale_topics, keys, of_topics))
    stale_brokers = set_brokers.where(F.col("source") == "dynamic-broker")
    stale_brokers = set_since(seen_values(stale_brokers, keys, of_brokers))
    day_ms = F.unix_millis(F.to_timestamp("since"))
    stale = (
        stale_topics.union(stale_brokers.select(*stale_topics.columns))
        .where(F.get("all_days", F.size("all_days") - 1) == today)
        .withColumn("age_ms", F.lit(job.spec.now_ms).cast("bigint") - day_ms)
        .where(F.col("age_ms") > limit * drift.DAY_MS)
        .withColumn("days", F.lit(limit))
        .join(owners, TOPIC, "left")
        .where(~is_owned())
        .join(F.broadcast(cluster_blast), "cluster", "left")
        .withColumn("blast", F.coalesce("of_topic", ratio(F.col("of_cluster"), "ids")))
    )
    return table, stale.select("cluster", "topic", "broker", "key", "value", "age_ms", "days", "owner", "blast")


def _clusters(job: JobInput, alike: DataFrame) -> list[_Cluster]:
    """The clusters of today, by small tables that are read on this host."""
    today = job.spec.snapshot_date
    store = job.store
    columns = ("cluster", "kafka_version", "labels", "mirror_of")
    named = {row["cluster"]: row for row in store.rows("clusters", [today], *columns)}
    brokers: dict[str, tuple[int, ...]] = {}
    for row in alike.select("cluster", "brokers").collect():
        brokers[row["cluster"]] = tuple(sorted((*brokers.get(row["cluster"], ()), *row["brokers"])))
    partitions: Counter[str] = Counter()
    for row in store.rows("topics", [today], "cluster", "partitions"):
        partitions[row["cluster"]] += row["partitions"] or 0
    seen: dict[str, dict[str, set[str]]] = {}
    for row in store.rows("brokers", job.spec.dates, "cluster", "snapshot_date", "version"):
        of_day = seen.setdefault(row["cluster"], {}).setdefault(row["snapshot_date"], set())
        of_day |= {row["version"]} - {None}
    versions = {cluster: {day: tuple(sorted(v)) for day, v in days.items()} for cluster, days in seen.items()}
    found = []
    for name in sorted({*named, *brokers, *versions} & set(job.store.clusters(today))):
        row, by_day = named.get(name), versions.get(name, {})
        labels = frozenset(row["labels"] or ()) if row is not None else frozenset()
        now = by_day.get(today, ())
        found.append(
            _Cluster(
                name=name,
                minor=drift.cluster_minor(row["kafka_version"] if row is not None else None, now),
                versions=now,
                since_ms=drift.differing_since_ms({day: _minors(v) for day, v in by_day.items()}, today),
                labels=labels,
                sources=sources_of(name, labels, row["mirror_of"] if row is not None else None),
                brokers=brokers.get(name, ()),
                partitions=float(partitions[name]),
            )
        )
    return found


def _minors(versions: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({m for v in versions if (m := minor_or_none(v)) is not None}, key=minor_key))


def _groups(clusters: list[_Cluster]) -> Mapping[str, list[_Cluster]]:
    """The clusters of each label that makes peers."""
    found: dict[str, list[_Cluster]] = {}
    for cluster in clusters:
        for label in sorted(cluster.labels):
            if cluster.brokers and not label.startswith(NO_GROUPS):
                found.setdefault(label, []).append(cluster)
    return found


def _labels(job: JobInput, clusters: list[_Cluster]) -> DataFrame:
    rows = [(c.name, label, len(group) - 1) for label, group in sorted(_groups(clusters).items()) for c in group]
    return job.spark.createDataFrame(rows, "cluster string, label string, peers int")


class OtherVersion(NamedTuple):
    """A cluster and a version that it is compared with; `other` names whose it is, `cluster` where it is one's."""

    name: str
    minor: str
    other_minor: str
    other: str
    cluster: str | None


def _other_versions(clusters: list[_Cluster]) -> Iterator[OtherVersion]:
    """Whose version each cluster is compared with: its primary's, and that of most of its peers."""
    by_name = {c.name: c for c in clusters if c.brokers}
    for cluster in by_name.values():
        for source in cluster.sources:
            minor = by_name[source].minor if source in by_name else None
            if None not in (minor, cluster.minor) and minor != cluster.minor:
                yield OtherVersion(cluster.name, str(cluster.minor), str(minor), f"cluster {source}", source)
    for label, group in sorted(_groups(clusters).items()):
        minors = Counter(c.minor for c in group if c.minor is not None)
        usual = max(minors, key=lambda m: (minors[m], minor_key(m)), default=None)
        for cluster in group if len(group) > LEAST_PEERS and usual is not None else ():
            if cluster.minor not in (None, usual):
                other = f"most clusters of {label}"
                yield OtherVersion(cluster.name, str(cluster.minor), str(usual), other, None)


def _version_row(cluster: _Cluster) -> drift.Row:
    return {
        "cluster": cluster.name, "minor": cluster.minor, "versions": cluster.versions, "since_ms": cluster.since_ms,
        "blast": cluster.partitions,
    }  # fmt: skip


def alike_brokers(rows: DataFrame, keys: DataFrame) -> DataFrame:
    """The brokers of each cluster that are set alike, but for what each has its own of (cluster, first, brokers).

    `first` is the least of `brokers`, which stand in order. `rows` are of broker_configs of one day.
    """
    marks = F.broadcast(keys.select("key", (~F.col("is_per_node")).alias("is_compared")))
    is_there = F.col("is_compared") & F.col("value").isNotNull()
    own = rows.join(marks, "key", "left").groupBy("cluster", "broker")
    own = own.agg(digest("key", "value", "source", "is_sensitive", when=is_there).alias("digest"))
    return own.groupBy("cluster", "digest").agg(
        F.min("broker").alias("first"), F.array_sort(F.collect_list("broker")).alias("brokers")
    ).drop("digest")  # fmt: skip


def broker_values(rows: DataFrame, keys: DataFrame, alike: DataFrame) -> DataFrame:
    """How many brokers of a cluster have which value of a key (cluster, name, value, source, is_default, n, first).

    `brokers` are their ids, for keys of `UNIFORM` alone. Of several keys for one time (log.retention.hours) the
    strongest that is set counts, else the strongest default. `rows` are of broker_configs of one day, `alike` is of
    `alike_brokers`.
    """
    is_default = F.col("source") == "default"
    rows = rows.join(F.broadcast(alike.withColumnRenamed("first", "broker")), ["cluster", "broker"])
    known = settings(rows, keys).where(~F.col("is_per_node") & (F.col("value") != ""))
    known = known.withColumn("is_default", F.coalesce(is_default, F.lit(False)))
    columns = ["cluster", "broker", "brokers", "name", "value", "source", "is_default"]
    of_time = F.col("name").isin(*TIME_FORMS)
    chosen = F.min_by(F.struct("value", "source", "is_default"), F.struct("is_default", "rank"))
    of_broker = known.where(of_time).groupBy("cluster", "broker", "name")
    times = of_broker.agg(F.first("brokers").alias("brokers"), chosen.alias("found"))
    one = known.where(~of_time).select(*columns).union(times.select(*columns[:4], "found.*"))
    return one.groupBy("cluster", "name", "value").agg(
        F.every("is_default").alias("is_default"),
        F.max("source").alias("source"),
        F.sum(F.size("brokers")).alias("n"),
        F.min("broker").alias("first"),
        F.array_sort(F.flatten(F.collect_list(F.when(F.col("name").isin(*UNIFORM), F.col("brokers"))))).alias(
            "brokers"
        ),
    )


def cluster_values(counts: DataFrame, clusters: DataFrame, keys: DataFrame) -> DataFrame:
    """The value that most brokers of a cluster have (cluster, minor, name, value, is_default); else its default.

    Values are "" where nothing is set. `counts` is of `broker_values`, `clusters` has cluster and minor. Every key of
    the cluster's version has a row.
    """
    usual = F.max_by(F.struct("value", "is_default"), F.struct("n", -F.col("first")))
    modes = counts.groupBy("cluster", "name").agg(usual.alias("usual"))
    defaults = keys.sparkSession.createDataFrame(broker_defaults(), "minor string, key string, value string")
    form = normalize_value(F.col("value"), F.col("form"), F.col("factor"))
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
    form = normalize_value(F.col("default"), F.col("form"), F.col("factor"))
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
    away = (F.col("value") != F.col("usual.value")) & (ratio(F.col("usual.agree"), "peers") >= SHARE_OF_PEERS)
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


TOPIC = ["cluster", "topic"]
SHAPE = ("partitions", "replication")


def is_owned() -> Column:
    """True for a topic whose settings another program writes, by its `owned_by`."""
    return F.col("owned_by").isNotNull()


def _may_differ() -> Column:
    return F.array_contains(F.coalesce("labels", F.array().cast("array<string>")), F.concat(F.lit(MAY_DIFFER), "key"))


def declared_values(declared: DataFrame, topics: DataFrame, keys: DataFrame, may_differ: DataFrame) -> DataFrame:
    """What files say of topics that are there (cluster, topic, key, meant), without what may differ from it."""
    wanted = _first_of_files(_of_files(declared, keys)).select(*TOPIC, "key", F.col("wanted.value").alias("meant"))
    return (
        wanted.join(F.broadcast(may_differ), ["cluster", "key"], "left_anti")
        .join(topics.where(~is_owned()).select(*TOPIC, "labels"), TOPIC)
        .where(~_may_differ())
        .drop("labels")
    )


def _of_files(declared: DataFrame, keys: DataFrame) -> DataFrame:
    """The settings that files give topics."""
    return settings(declared.where(~F.col("key").isin("", *SHAPE)), keys).where(~F.col("is_per_node"))


def _first_of_files(texts: DataFrame) -> DataFrame:
    """Of several settings for one key the first by file and line (cluster, topic, key, wanted)."""
    return texts.groupBy(*TOPIC, "key").agg(F.min(F.struct("file", "line", "value")).alias("wanted"))


def declared_drift(
    declared: DataFrame, overrides: DataFrame, topics: DataFrame, keys: DataFrame, may_differ: DataFrame
) -> DataFrame:
    """Rows for `drift.declared_drift`; `overrides` is of `settings`, `topics` has blast too."""
    shape = declared_topics(declared)
    texts = _of_files(declared, keys)
    live = overrides.where(~F.col("is_per_node")).select(*TOPIC, "key", F.col("value").alias("live"))
    marks = [digest("key", "value").alias("wanted"), F.count("*").alias("texts")]
    seen = [digest("key", "live").alias("live"), F.count("*").alias("settings")]
    both = shape.select(*TOPIC).join(texts.groupBy(*TOPIC).agg(*marks), TOPIC, "left")
    both = both.join(live.groupBy(*TOPIC).agg(*seen), TOPIC, "left")
    is_same = F.col("wanted").eqNullSafe(F.col("live")) & F.col("texts").eqNullSafe(F.col("settings"))
    odd = both.where(~is_same).select(*TOPIC)
    live = live.join(odd, TOPIC, "left_semi")
    different = (
        _first_of_files(texts.join(odd, TOPIC, "left_semi"))
        .join(live, [*TOPIC, "key"], "full")
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
    """Rows for `drift.find_undeclared`: topics of files alone, and topics of the cluster alone."""
    ours = declared_topics(declared).select(*TOPIC, F.col("owner").alias("file_owner"), F.lit(True).alias("in_file"))
    is_meant = ~is_owned() & ~F.col("topic").startswith("__")
    live = topics.where(F.col("cluster").isin(*clusters)).select(*TOPIC, "owner", "blast", is_meant.alias("is_meant"))
    one_side = F.when(F.col("in_file"), F.col("is_meant").isNull()).otherwise(F.col("is_meant"))
    return ours.join(live, TOPIC, "full").where(one_side).select(
        *TOPIC, F.coalesce("owner", "file_owner").alias("owner"), F.coalesce("blast", F.lit(1.0)).alias("blast"),
        F.col("in_file").isNotNull().alias("is_declared"),
    )  # fmt: skip


def mirror_drift(
    overrides: DataFrame,
    meant: DataFrame,
    topics: DataFrame,
    pairs: DataFrame,
    inherited: DataFrame,
    may_differ: DataFrame,
) -> DataFrame:
    """Rows for `drift.different_mirror`; `pairs` has cluster (the mirror) and source, `may_differ` cluster and key.

    Where a source differs from its file, its mirrors are compared with the file: else they would be told to follow a
    value that its own finding takes away. `meant` is of `declared_values`.
    """
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
    sides = [F.broadcast(pairs.select(F.col(side).alias("cluster")).distinct()) for side in ("source", "cluster")]
    of_source = (
        kept.join(sides[0], "cluster", "left_semi")
        .join(meant, [*TOPIC, "key"], "full")
        .withColumn("is_meant", F.col("meant").isNotNull() & ~F.col("meant").eqNullSafe(F.col("value")))
        .withColumn("value", F.coalesce("meant", "value"))
        .withColumnsRenamed({"cluster": "source", "topic": "of_source", "value": "ours"})
    )
    of_mirror = kept.join(sides[1], "cluster", "left_semi").withColumnRenamed("value", "theirs")
    names = both.select(*pair, "of_source", "topic")
    set_here = names.join(of_source, ["source", "of_source"]).select(*pair, "topic", "key", "ours", "is_meant")
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
    return found.select(
        *pair, "topic", "key", "ours", "theirs", F.lit("").alias("from_broker"), "owner", "blast",
        F.coalesce("is_meant", F.lit(False)).alias("is_meant"),
    )  # fmt: skip


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
