"""The audit `drift`: six comparisons of what clusters are set to, and who changed what when."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafkakit.rules.audits import drift
from kafkakit.rules.audits.delivery import sources_of
from kafkakit.rules.audits.drift import OWNED_BY
from kafkakit.rules.config_defs import NEWEST, minor_key, minor_or_none
from kafkakit.rules.families.drift import LEAST_PEERS, MAY_DIFFER, MIRROR_OF
from kafkakit.rules.rule import Limits
from kafkakit_spark.drift import between, changes, topics
from kafkakit_spark.drift.values import broker_values, cluster_values, inherited_values, keys_frame, settings
from kafkakit_spark.findings import findings_frame, findings_of
from kafkakit_spark.job import JobInput, JobOutput

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
    keys = job.step("keys", keys_frame(spark, with_keys))
    today = job.spec.snapshot_date
    known = {kind: {c for c, days in store.days(kind).items() if today in days} for kind in ("topics", "topic_configs")}
    clusters = _clusters(job, settings_today)
    infos = spark.createDataFrame(
        [(c.name, c.minor or NEWEST, list(c.brokers), c.partitions) for c in clusters if c.brokers],
        "cluster string, minor string, ids array<int>, blast double",
    )
    may_differ = spark.createDataFrame(
        [(c.name, x.removeprefix(MAY_DIFFER)) for c in clusters for x in sorted(c.labels) if x.startswith(MAY_DIFFER)],
        "cluster string, key string",
    )
    rates = job.today("partitions").groupBy("cluster", "topic").agg((F.sum("bytes_in_s") / 1e6).alias("mb_s"))
    all_topics = job.today("topics").join(rates, topics.TOPIC, "left")
    all_topics = all_topics.withColumn("blast", F.greatest(F.col("partitions").cast("double"), "mb_s", F.lit(1.0)))
    all_topics = job.step("topics", all_topics)
    overrides = job.step("overrides", settings(of_topics, keys))

    counts = job.step("counts", broker_values(settings_today, keys))
    values = job.step("values", cluster_values(counts, infos, keys))
    whole = known["topics"] & known["topic_configs"]
    pairs = spark.createDataFrame(
        [(c.name, source) for c in clusters for source in c.sources if {c.name, source} <= whole],
        "cluster string, source string",
    )
    inherited = inherited_values(values, keys)
    owned = {c.name for c in clusters if any(x.startswith(OWNED_BY) for x in c.labels)}
    with_files = {r["cluster"] for r in declared.select("cluster").distinct().collect()} & (whole - owned)
    declared = declared.where(F.col("cluster").isin(*with_files))
    mirrored = topics.mirror_drift(overrides, all_topics, pairs, inherited, may_differ)
    found = [
        findings_of(topics.declared_drift(declared, overrides, all_topics, keys, may_differ), drift.declared_drift),
        findings_of(topics.unmanaged_or_missing(declared, all_topics, with_files), drift.managed),
        findings_of(between.different_brokers(counts, infos, may_differ), drift.different_brokers),
        findings_of(between.different_peers(values, _labels(job, clusters), infos, may_differ), drift.different_peers),
        findings_of(mirrored, drift.different_mirror),
        findings_of(topics.inherited_drift(pairs, inherited, infos, may_differ), drift.different_mirror),
        findings_of(
            between.other_defaults(spark, counts, _other_versions(clusters), infos, may_differ), drift.other_defaults
        ),
        findings_frame(spark, drift.version_skews([_version_row(c) for c in clusters], job.spec.now_ms)),
    ]
    skipped = [] if with_files else ["declared against live: no cluster has declared topics with its own beside them"]
    if not any(c.sources for c in clusters):
        skipped.append("mirror pairs: no cluster is labelled mirror:NAME")
    tables = {}
    if len(job.spec.dates) > 1:
        table, stale = _history(job, keys, declared, all_topics, infos)
        tables["changes"] = table
        found.append(findings_of(stale, drift.stale_override))
    else:
        skipped.append("changes and stale overrides: there is one day")
    facts = counts.agg(F.coalesce(F.sum("n"), F.lit(0)).alias("broker_settings_compared"))
    return JobOutput(findings=reduce(DataFrame.union, found), tables=tables, facts=(facts,), skipped=tuple(skipped))


def _history(
    job: JobInput, keys: DataFrame, declared: DataFrame, all_topics: DataFrame, infos: DataFrame
) -> tuple[DataFrame, DataFrame]:
    """The table `changes`, and the rows for `drift.stale_override`."""
    store, limit = job.store, job.number("stale_days", Limits().stale_override_days)
    of_topics, of_brokers = (
        changes.days_frame(job.spark, store.days(kind)) for kind in ("topic_configs", "broker_configs")
    )
    seen_topics = changes.seen_values(job.history("topic_configs"), keys, of_topics)
    seen_brokers = changes.seen_values(job.history("broker_configs"), keys, of_brokers)
    owners = all_topics.select(*topics.TOPIC, "labels", F.col("owner"), F.col("blast").alias("of_topic"))
    cluster_blast = infos.select("cluster", F.col("blast").alias("of_cluster"), F.size("ids").alias("ids"))
    topics_there = changes.present_days(job.history("topics"), of_topics, "topic")
    brokers_there = changes.present_days(job.history("broker_configs"), of_brokers, "broker")
    changed = changes.changes(seen_topics, topics_there, "topic").union(
        changes.changes(seen_brokers, brokers_there, "broker")
    )
    # A change of all brokers is one change.
    same = [c for c in changed.columns if c != "broker"]
    table = (
        changed.groupBy(*same)
        .agg(F.min("broker").alias("broker"), F.count("*").alias("places"))
        .join(F.broadcast(cluster_blast), "cluster", "left")
        .join(owners, topics.TOPIC, "left")
        .withColumn("owned_by", F.get(F.filter("labels", lambda x: x.startswith(OWNED_BY)), 0))
        .withColumn("blast", F.coalesce("of_topic", F.col("of_cluster") * F.col("places") / F.col("ids")))
        .drop("of_topic", "of_cluster", "ids", "labels")
    )
    # Where no file declares topics, every setting of one would be stale.
    own = declared.select("cluster", "topic", "key").distinct()
    today = job.spec.snapshot_date
    stale_topics = changes.set_since(seen_topics).join(declared.select("cluster").distinct(), "cluster", "left_semi")
    stale_topics = stale_topics.join(own, [*topics.TOPIC, "key"], "left_anti")
    stale_brokers = changes.set_since(seen_brokers).where(F.col("source") == "dynamic-broker")
    day_ms = F.unix_millis(F.to_timestamp("since"))
    stale = (
        stale_topics.union(stale_brokers.select(*stale_topics.columns))
        .where(F.get("all_days", F.size("all_days") - 1) == today)
        .withColumn("age_ms", F.lit(job.spec.now_ms).cast("bigint") - day_ms)
        .where(F.col("age_ms") > limit * drift.DAY_MS)
        .withColumn("days", F.lit(limit))
        .join(owners, topics.TOPIC, "left")
        .where(~topics.is_owned())
        .join(F.broadcast(cluster_blast), "cluster", "left")
        .withColumn("blast", F.coalesce("of_topic", F.col("of_cluster") / F.col("ids")))
    )
    return table, stale.select("cluster", "topic", "broker", "key", "value", "age_ms", "days", "owner", "blast")


def _clusters(job: JobInput, settings_today: DataFrame) -> list[_Cluster]:
    """The clusters of today; collects one row for each cluster and day."""
    today = job.spec.snapshot_date
    named = {row["cluster"]: row for row in job.today("clusters").collect()}
    ids = settings_today.groupBy("cluster").agg(F.array_sort(F.collect_set("broker")).alias("ids")).collect()
    brokers = {row["cluster"]: tuple(row["ids"]) for row in ids}
    sums = job.today("topics").groupBy("cluster").agg(F.sum("partitions").alias("n")).collect()
    partitions = {row["cluster"]: float(row["n"] or 0) for row in sums}
    versions: dict[str, dict[str, tuple[str, ...]]] = {}
    history = job.history("brokers").groupBy("cluster", "snapshot_date")
    for row in history.agg(F.array_sort(F.collect_set("version")).alias("versions")).collect():
        versions.setdefault(row["cluster"], {})[row["snapshot_date"]] = tuple(row["versions"])
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
                partitions=partitions.get(name, 0.0),
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


def _other_versions(clusters: list[_Cluster]) -> Iterator[between.OtherVersion]:
    """Whose version each cluster is compared with: its primary's, and that of most of its peers."""
    by_name = {c.name: c for c in clusters if c.brokers}
    for cluster in by_name.values():
        for source in cluster.sources:
            minor = by_name[source].minor if source in by_name else None
            if None not in (minor, cluster.minor) and minor != cluster.minor:
                yield between.OtherVersion(cluster.name, str(cluster.minor), str(minor), f"cluster {source}", source)
    for label, group in sorted(_groups(clusters).items()):
        minors = Counter(c.minor for c in group if c.minor is not None)
        usual = max(minors, key=lambda m: (minors[m], minor_key(m)), default=None)
        for cluster in group if len(group) > LEAST_PEERS and usual is not None else ():
            if cluster.minor not in (None, usual):
                other = f"most clusters of {label}"
                yield between.OtherVersion(cluster.name, str(cluster.minor), str(usual), other, None)


def _version_row(cluster: _Cluster) -> drift.Row:
    return {
        "cluster": cluster.name, "minor": cluster.minor, "versions": cluster.versions, "since_ms": cluster.since_ms,
        "blast": cluster.partitions,
    }  # fmt: skip
