"""Settings as columns: what each topic of a fleet runs with, and settings in one form with digests and a history.

The order is that of `kafkakit.rules.effective`: the topic's own, then of the reference broker its dynamic, the
cluster's dynamic and its static settings, then Kafka's default in the cluster's version. The reference broker of a
cluster is the lowest that is alive and whose settings were read.

Bounds of segments are the arithmetic of `kafkakit.rules.retention` as columns, from these settings and a rate. Rates
are bytes/s appended to one partition; null and 0 mean unknown, as None does there. Times and bytes are doubles, so that
the largest settings do not overflow. Columns are added step by step: an expression that holds another several times
doubles Spark's code with each level.

In a history each value of a setting becomes one row with a bit for each day of its cluster on which it was seen, so
that it costs one aggregation.
"""

from collections.abc import Iterable, Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kafkakit.rules.audits.drift import TextForm, broker_defaults, compared_key, inherited_from
from kafkakit.rules.config_defs import MINORS, NEWEST, config_table, minor_key
from kafkakit.rules.effective import TIME_FORMS, UNLIMITED
from kafkakit.rules.retention import TIME_ENTRY_BYTES, SegmentSettings
from kafkakit_spark.job import JobInput, ratio

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
    frame = topics.join(own, ["cluster", "topic"], "left").join(
        F.broadcast(_inherited_values(inputs)), "cluster", "left"
    )
    frame = frame.withColumns({name: _choose_value(name) for name in KEYS})
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
    number = _exact_number(text)
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


def _exact_number(text: Column) -> Column:
    digits = F.regexp_extract(text, r"^\s*([+-]?[0-9]+)\s*$", 1)
    return F.when(F.length(digits) <= 25, digits.try_cast("decimal(25,0)"))


def _inherited_values(inputs: JobInput) -> DataFrame:
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
        F.min_by(_setting_column(F.col("value"), F.col("source")), F.when(F.col("key") == form, F.col("rank"))).alias(
            form
        )
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
        found.append(F.when(value["text"] != "", _setting_column(text, sources[value["source"]])))
    return F.coalesce(*found)


def _setting_column(text: Column, source: Column) -> Column:
    # Named by literals and with fields that may be null: all settings are of one type, to the last of its marks.
    return F.named_struct(F.lit("text"), text, F.lit("source"), source)


def _times(text: Column, factor: int) -> Column:
    number = _exact_number(text)
    return F.when(number.isNull(), text).when(number < 0, "-1").otherwise((number * factor).cast("string"))


def _choose_value(name: str) -> Column:
    own = F.col(f"own_{name}")
    chosen = F.when(own.isNotNull(), _setting_column(own, F.when(own.isNotNull(), F.lit("topic"))))
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
            "overshoot": F.when(by_time, ratio(span + _double("check_interval_ms"), "retention_ms")),
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


COMPARED = "key string, name string, form string, rank int, factor bigint, is_per_node boolean, is_per_cluster boolean"
BLANKS = " \t\r\n"


def keys_frame(spark: SparkSession, tables: Iterable[DataFrame]) -> DataFrame:
    """How each key of the tables, and of Kafka's own, is compared, one row a key; secret ones are left out.

    Costs a scan of the key columns.
    """
    seen = reduce(DataFrame.union, (t.select("key").distinct() for t in tables)).distinct().collect()
    names = {row["key"] for row in seen if row["key"]}
    names |= {key for _, key, _ in broker_defaults()} | {key for _, key, _, _ in inherited_from()}
    return spark.createDataFrame([tuple(f) for key in sorted(names) if (f := compared_key(key)) is not None], COMPARED)


def normalize_value(value: Column, form: Column, factor: Column) -> Column:
    """One text for all texts of a value: numbers in the unit of the key that they stand for, lists sorted."""
    text = F.btrim(value, F.lit(BLANKS))
    number = F.when(text.rlike(r"^[+-]?[0-9]{1,25}$"), text.try_cast("decimal(26,0)"))
    whole = F.when((factor != 1) & (number < 0), F.lit("-1")).otherwise((number * factor).cast("string"))
    items = F.array_sort(F.transform(F.split(text, ","), lambda item: F.btrim(item, F.lit(BLANKS))))
    return (
        F.when(form == TextForm.WHOLE, F.coalesce(whole, text))
        .when(form == TextForm.BOOLEAN, F.lower(text))
        .when(form == TextForm.DOUBLE, F.coalesce(text.try_cast("double").cast("string"), text))
        .when(form == TextForm.LIST, F.array_join(items, ","))
        .otherwise(text)
    )


def settings(rows: DataFrame, keys: DataFrame) -> DataFrame:
    """Rows of settings in comparable form, with the columns of `COMPARED`; without sensitive and null values."""
    if "is_sensitive" in rows.columns:
        rows = rows.where(~F.coalesce("is_sensitive", F.lit(False)))
    known = rows.where(F.col("value").isNotNull()).join(F.broadcast(keys), "key")
    return known.withColumn("value", normalize_value(F.col("value"), F.col("form"), F.col("factor")))


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


def unsettled_rows(rows: DataFrame, present: DataFrame, days: DataFrame, name: str) -> DataFrame:
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
    unstable = seen.where(F.col("bits") != _full_mask()).groupBy(*PLACE, "key")
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
    missing = _full_mask().bitwiseAND(F.bitwise_not("bits"))
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


def _full_mask() -> Column:
    return F.call_function("shiftleft", F.lit(1).cast("bigint"), F.size("all_days")) - 1


def _bit(bits: Column, day: Column) -> Column:
    return F.call_function("shiftright", bits, day).bitwiseAND(F.lit(1).cast("bigint"))
