"""Effective settings of topics as columns: what each topic of a fleet runs with, what set it, and what it leads to.

The order is that of `kafkakit.rules.effective`: the topic's own, then of the reference broker its dynamic, the
cluster's dynamic and its static settings, then Kafka's default in the cluster's version. The reference broker of a
cluster is the lowest that is alive and whose settings were read.

Bounds of segments are the arithmetic of `kafkakit.rules.retention` as columns, from these settings and a rate. Rates
are bytes/s appended to one partition; null and 0 mean unknown, as None does there. Times and bytes are doubles, so that
the largest settings do not overflow. Columns are added step by step: an expression that holds another several times
doubles Spark's code with each level.
"""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kafkakit.rules.config_defs import MINORS, NEWEST, config_table, minor_key
from kafkakit.rules.effective import TIME_FORMS, UNLIMITED
from kafkakit.rules.retention import TIME_ENTRY_BYTES, SegmentSettings
from kafkakit_spark.job import JobInput

_KAFKAS = SegmentSettings()
CHECK_KEY = "log.retention.check.interval.ms"
NUMBERS: Mapping[str, tuple[str, int]] = {
    "retention_ms": ("retention.ms", _KAFKAS.retention_ms),
    "retention_bytes": ("retention.bytes", _KAFKAS.retention_bytes),
    "segment_ms": ("segment.ms", _KAFKAS.segment_ms),
    "segment_bytes": ("segment.bytes", _KAFKAS.segment_bytes),
    "jitter_ms": ("segment.jitter.ms", _KAFKAS.jitter_ms),
    "index_bytes": ("segment.index.bytes", _KAFKAS.index_bytes),
    "index_interval_bytes": ("index.interval.bytes", _KAFKAS.index_interval_bytes),
    "delete_delay_ms": ("file.delete.delay.ms", _KAFKAS.delete_delay_ms),
    "max_compaction_lag_ms": ("max.compaction.lag.ms", _KAFKAS.max_compaction_lag_ms),
    "min_compaction_lag_ms": ("min.compaction.lag.ms", 0),
    "delete_retention_ms": ("delete.retention.ms", 86_400_000),
    "min_isr": ("min.insync.replicas", 1),
    "max_message_bytes": ("max.message.bytes", 1_048_588),
    "future_limit_ms": ("message.timestamp.after.max.ms", UNLIMITED),
}
"""The columns of whole numbers: the key, and what stands for a text that does not parse."""
TEXTS: Mapping[str, str] = {
    "cleanup_policy": "cleanup.policy",
    "dirty_ratio": "min.cleanable.dirty.ratio",
    "compression_type": "compression.type",
    "timestamp_type": "message.timestamp.type",
    "remote_storage": "remote.storage.enable",
    "unclean_election": "unclean.leader.election.enable",
}
KEYS: Mapping[str, str] = {**{name: key for name, (key, _) in NUMBERS.items()}, **TEXTS}
_LAYERS: Mapping[str, tuple[int, str]] = {
    "dynamic-broker": (1, "dynamic broker"),
    "dynamic-default": (2, "dynamic default"),
    "static": (3, "static"),
}
_BROKER_KEYS: Mapping[str, str] = {
    name: definition.synonyms[0]
    for name, key in KEYS.items()
    if (definition := config_table(NEWEST).topic[key]).synonyms
}


def effective_topics(inputs: JobInput) -> DataFrame:
    """One row for each topic of the `topics` table, with its effective settings on the day that is looked at.

    Columns: cluster, topic, minor (of the table of defaults), is_broker_known, check_interval_ms, those of `NUMBERS`
    (bigint, of larger numbers the largest), those of `TEXTS` (string), policies, deletes, compacts, and `settings`:
    what is set, by key, with text and source (`topic`, `dynamic broker`, `dynamic default`, `static`). One pass over
    topic_configs and one over broker_configs. Digits are ASCII.
    """
    topics = inputs.today("topics").select("cluster", "topic").distinct()
    own = (
        inputs.today("topic_configs")
        .where(F.col("key").isin(*KEYS.values()))
        .groupBy("cluster", "topic")
        .agg(*(F.max(F.when(F.col("key") == key, F.col("value"))).alias(f"own_{name}") for name, key in KEYS.items()))
    )
    frame = topics.join(own, ["cluster", "topic"], "left").join(F.broadcast(_inherited(inputs)), "cluster", "left")
    frame = frame.withColumns({name: _chosen(name) for name in KEYS})
    defaults = {name: F.coalesce(F.col(name)["text"], _default(key)) for name, key in KEYS.items()}
    is_set = [
        F.when(F.col(n).isNotNull(), F.struct(F.lit(k).alias("key"), F.col(n).alias("value"))) for n, k in KEYS.items()
    ]
    policy = defaults["cleanup_policy"]
    items = F.when(F.trim(policy) == "", F.array().cast("array<string>")).otherwise(
        F.transform(F.split(policy, ",", -1), lambda item: F.regexp_replace(item, r"^\s+|\s+$", ""))
    )
    return frame.select(
        "cluster",
        "topic",
        F.coalesce("minor", F.lit(NEWEST)).alias("minor"),
        F.coalesce("is_broker_known", F.lit(False)).alias("is_broker_known"),
        F.coalesce(whole_number(F.col("check_text")), F.lit(_KAFKAS.check_interval_ms)).alias("check_interval_ms"),
        *(F.coalesce(whole_number(defaults[name]), F.lit(n)).alias(name) for name, (_, n) in NUMBERS.items()),
        *(defaults[name].alias(name) for name in TEXTS),
        items.alias("policies"),
        F.array_contains(items, "delete").alias("deletes"),
        F.array_contains(items, "compact").alias("compacts"),
        F.map_from_entries(F.array_compact(F.array(*is_set))).alias("settings"),
    )


def whole_number(text: Column) -> Column:
    """A text as a whole number of 64 bits, as `rules.effective.to_int` reads it; null where it is none."""
    number = _exact(text)
    # least and greatest pass over nulls.
    limited = F.least(F.greatest(number, F.lit(-UNLIMITED - 1)), F.lit(UNLIMITED)).cast("bigint")
    return F.when(number.isNotNull(), limited)


def minor_of_version(version: Column) -> Column:
    """The table to use for a version, as `rules.config_defs.minor_or_none`; the newest where there is none."""
    parts = r"^\s*v?([0-9]{1,3})\.([0-9]{1,3})(?:[.\- ][\s\S]*)?$"
    number = [F.regexp_extract(version, parts, group).try_cast("int") for group in (1, 2)]
    order = number[0] * 1000 + number[1]
    found = F.when(order.isNull(), NEWEST)
    for minor in reversed(MINORS):
        major, rest = minor_key(minor)
        found = found.when(order >= major * 1000 + rest, minor)
    return found.otherwise(MINORS[0])


def _exact(text: Column) -> Column:
    digits = F.regexp_extract(text, r"^\s*([+-]?[0-9]+)\s*$", 1)
    return F.when(F.length(digits) <= 25, digits.try_cast("decimal(25,0)"))


def _inherited(inputs: JobInput) -> DataFrame:
    """One row for each cluster: version, whether a broker's settings are known, and what each key inherits from it."""
    configs = inputs.today("broker_configs")
    dead = inputs.today("brokers").where(~F.col("is_alive")).select("cluster", "broker")
    reference = (
        configs.select("cluster", "broker")
        .distinct()
        .join(dead, ["cluster", "broker"], "left_anti")
        .groupBy("cluster")
        .agg(F.min("broker").alias("broker"))
    )
    forms = sorted({form for key in (*_BROKER_KEYS.values(), CHECK_KEY) for form, _ in _forms(key)})
    rank = reduce(lambda seen, s: seen.when(F.col("source") == s, _LAYERS[s][0]), _LAYERS, F.when(F.lit(False), 0))
    strongest = [
        F.min_by(_setting(F.col("value"), F.col("source")), F.when(F.col("key") == form, F.col("rank"))).alias(form)
        for form in forms
    ]
    values = (
        configs.where(F.col("key").isin(forms) & F.col("value").isNotNull())
        .join(F.broadcast(reference), ["cluster", "broker"])
        .withColumn("rank", rank)
        .groupBy("cluster")
        .agg(*strongest)
    )
    versions = inputs.today("clusters").groupBy("cluster").agg(F.max("kafka_version").alias("version"))
    joined = versions.join(reference, "cluster", "full").join(values, "cluster", "left")
    return joined.select(
        "cluster",
        minor_of_version(F.col("version")).alias("minor"),
        F.col("broker").isNotNull().alias("is_broker_known"),
        _broker_value(CHECK_KEY)["text"].alias("check_text"),
        *(_broker_value(key).alias(f"inherited_{name}") for name, key in _BROKER_KEYS.items()),
    )


def _forms(key: str) -> tuple[tuple[str, int], ...]:
    return TIME_FORMS.get(key, ((key, 1),))


def _broker_value(key: str) -> Column:
    """The strongest form of a broker key that has a text, with its source; null where none is set."""
    sources = F.create_map(*(F.lit(part) for name, (_, word) in _LAYERS.items() for part in (name, word)))
    found = []
    for form, factor in _forms(key):
        value = F.col(f"`{form}`")
        text = value["text"] if factor == 1 else _times(value["text"], factor)
        found.append(F.when(value["text"] != "", _setting(text, sources[value["source"]])))
    return F.coalesce(*found)


def _setting(text: Column, source: Column) -> Column:
    # Named by literals and with fields that may be null: all settings are of one type, to the last of its marks.
    return F.named_struct(F.lit("text"), text, F.lit("source"), source)


def _times(text: Column, factor: int) -> Column:
    number = _exact(text)
    return F.when(number.isNull(), text).when(number < 0, "-1").otherwise((number * factor).cast("string"))


def _chosen(name: str) -> Column:
    own = F.col(f"own_{name}")
    chosen = F.when(own.isNotNull(), _setting(own, F.when(own.isNotNull(), F.lit("topic"))))
    if name not in _BROKER_KEYS:
        return chosen
    having = [minor for minor in MINORS if KEYS[name] in config_table(minor).topic]
    inherited = F.when(F.coalesce("minor", F.lit(NEWEST)).isin(having), F.col(f"inherited_{name}"))
    return F.coalesce(chosen, inherited)


def _default(key: str) -> Column:
    """Kafka's default of a topic key by version; empty where there is none."""
    by_minor = {minor: config_table(minor).topic.get(key) for minor in MINORS}
    texts = {minor: (found.default if found is not None else None) or "" for minor, found in by_minor.items()}
    if len(set(texts.values())) == 1:
        return F.lit(texts[NEWEST])
    return F.create_map(*(F.lit(part) for pair in texts.items() for part in pair))[F.coalesce("minor", F.lit(NEWEST))]


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
