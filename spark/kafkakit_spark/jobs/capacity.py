"""The audit `capacity`: when log dirs are full, what their configuration permits, and what the loss of a part does.

Trends come from `disk_daily`, and from `log_dirs` of each date of the run: those of many log dirs at once, over the
rows of a matrix, with an interval. Bounds of what partitions may hold come from `kafkakit.rules.retention`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from kafkakit.core.findings import stops_above_replicas
from kafkakit.rules.audits.capacity import (
    DAYS,
    HORIZONS,
    LOSS_CAUSES,
    STALE_DAYS,
    ceiling_findings,
    dir_findings,
    loss_findings,
)
from kafkakit.rules.cluster_facts import LEAST_DAYS, TWO_WEEKS, WEEK
from kafkakit.rules.config_defs import MINORS
from kafkakit.rules.families.drift import FULL, WARN_DAYS
from kafkakit.rules.families.retention import FULL_WARNING
from kafkakit_spark.effective import effective_topics, with_bounds
from kafkakit_spark.job import JobInput, JobOutput, findings_of, total

PARTITION, BROKER, DIR = ["cluster", "topic", "partition"], ["cluster", "broker"], ["cluster", "broker", "path"]
TREND_COLUMNS = (
    "days_seen", "used_bytes", "slope", "slope_low", "slope_high", "days_to_full", "days_to_full_low",
    "days_to_full_high", *(f"used_in_{days}_days{end}" for days in HORIZONS for end in ("", "_low", "_high")),
)  # fmt: skip


def run(inputs: JobInput) -> JobOutput:
    """Tables `dirs` (with the forecast), `brokers` (the ceiling) and `losses`; findings KKX009, KKR221, KKW001 to 3."""
    replicas = inputs.step("replicas", _replicas(inputs))
    dirs = inputs.step("dirs", _dirs(inputs, replicas))
    brokers = inputs.table("brokers", _ceilings(inputs, replicas))
    parts = inputs.step("parts", _parts(inputs, replicas))
    losses = inputs.table("losses", _losses(inputs, parts))
    soon = (F.col("days_to_full") <= WARN_DAYS) & (F.col("days_seen") >= LEAST_DAYS)
    found = [
        findings_of(dirs.where(soon), dir_findings),
        findings_of(brokers.where(F.col("ceiling_bytes") > FULL_WARNING * F.col("total_bytes")), ceiling_findings),
        findings_of(_with_topics(_worst_losses(losses), parts), loss_findings),
    ]
    return JobOutput(
        findings=found[0].unionByName(found[1]).unionByName(found[2]),
        tables={"dirs": dirs.drop("days"), "brokers": brokers, "losses": losses},
        facts=(
            dirs.where(F.col("days_seen") >= LEAST_DAYS).agg(
                F.count("*").alias("log_dirs_with_trend"), F.min("days_to_full").alias("days_until_first_is_full")
            ),
        ),
        skipped=_skipped_checks(inputs),
    )


def _skipped_checks(inputs: JobInput) -> tuple[str, ...]:
    missing = {
        "log_dirs": "sizes of log dirs: none were collected, so nothing is compared with them",
        "disk_daily": "daily sizes of log dirs: none were collected, so trends come only from the dates of the run",
        "replicas": "replicas: none were collected, so partitions count with the size of their leader's copy",
        "partitions": "partitions: none were collected, so neither ceilings nor losses are known",
    }
    return tuple(text for kind, text in missing.items() if not inputs.has(kind))


def _replicas(inputs: JobInput) -> DataFrame:
    """One row for each replica: broker, log dir, bytes, the most it may come to hold, and what its loss changes."""
    rate = F.when(F.col("bytes_in_s") >= 0, F.nanvl("bytes_in_s", F.lit(None).cast("double")))
    partitions = inputs.today("partitions").select(
        *PARTITION, "leader", "replicas", "isr", F.col("size_bytes").alias("leader_bytes"), rate.alias("rate")
    )
    bounded = with_bounds(partitions.join(effective_topics(inputs), ["cluster", "topic"], "left"), "rate")
    in_sync = F.when(F.col("isr").isNotNull(), F.size("isr"))
    frame = bounded.select(
        *PARTITION, "leader", "isr", "rate", "leader_bytes", "disk_limit_bytes", in_sync.alias("in_sync"),
        _writable_from().alias("min_isr"), F.size("replicas").alias("factor"), F.explode("replicas").alias("broker"),
    )  # fmt: skip
    if inputs.has("replicas"):
        copies = inputs.today("replicas").where(~F.coalesce("is_future", F.lit(False)))
        held = copies.groupBy(*PARTITION, "broker").agg(
            F.max("log_dir").alias("path"), F.max("size_bytes").alias("own_bytes")
        )
        frame = frame.join(held, [*PARTITION, "broker"], "left")
    else:
        frame = frame.withColumns({"path": F.lit(None).cast("string"), "own_bytes": F.lit(None).cast("bigint")})
    size = F.coalesce("own_bytes", "leader_bytes", F.lit(0))
    return frame.withColumns(
        {
            "bytes": size,
            "ceiling_bytes": F.coalesce("disk_limit_bytes", size.cast("double")),
            "is_leader": F.coalesce(F.col("leader") == F.col("broker"), F.lit(False)),
            "is_in_sync": F.coalesce(F.array_contains("isr", F.col("broker")), F.lit(False)),
        }
    ).drop("own_bytes", "leader_bytes", "leader", "isr")


def _writable_from() -> Column:
    """How many replicas must be in sync for writes: from Kafka 3.7 on not more than there are."""
    limited = [minor for minor in MINORS if not stops_above_replicas(minor)]
    wanted = F.coalesce("min_isr", F.lit(1).cast("bigint"))
    is_limited = F.coalesce(F.col("minor").isin(limited), F.lit(True))
    return F.when(is_limited, F.least(wanted, F.size("replicas").cast("bigint"))).otherwise(wanted)


def _dirs(inputs: JobInput, replicas: DataFrame) -> DataFrame:
    """Log dirs with their trend: growth a day, days until 85 % are used and what is used later, as intervals."""
    daily = inputs.history("disk_daily").select(*DIR, "day", "used_bytes", "total_bytes")
    seen = inputs.history("log_dirs").where(F.col("error").isNull() | (F.col("error") == "")).select(
        *DIR, F.col("snapshot_date").alias("day"), (F.col("total_bytes") - F.col("usable_bytes")).alias("used_bytes"),
        "total_bytes",
    )  # fmt: skip
    today = F.to_date(F.lit(inputs.spec.snapshot_date))
    ago = F.datediff(today, F.col("day").try_cast("date"))
    days = (
        daily.unionByName(seen)
        .withColumn("day", -ago)
        .where(F.col("day").between(1 - DAYS, 0) & F.col("used_bytes").isNotNull())
        .groupBy(*DIR, "day")
        .agg(F.max("used_bytes").alias("used"), F.max("total_bytes").alias("total"))
    )
    series = days.groupBy(*DIR).agg(
        F.sort_array(F.collect_list(F.struct("day", "used"))).alias("days"),
        F.max_by("total", F.when(F.col("total").isNotNull(), F.col("day"))).alias("total_bytes"),
    )
    series = series.where((F.get(F.col("days"), F.size("days") - 1)["day"] > -STALE_DAYS) & (F.col("total_bytes") > 0))
    held = replicas.where(F.col("path").isNotNull()).groupBy(*DIR).agg(
        F.count("*").alias("replicas"), total("ceiling_bytes").alias("ceiling_bytes")
    )  # fmt: skip
    columns = "cluster string, broker int, path string, days array<struct<day:int,used:bigint>>, total_bytes bigint"
    found = series.mapInArrow(_with_trends, ", ".join([columns, *(f"{name} double" for name in TREND_COLUMNS)]))
    return found.join(held, DIR, "left")


def _with_trends(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        series = batch.column("days")
        flat = series.flatten()
        rows = np.repeat(np.arange(len(series)), series.value_lengths().to_numpy(zero_copy_only=False))
        days = flat.field("day").to_numpy(zero_copy_only=False)
        last = np.full(len(series), -DAYS)
        np.maximum.at(last, rows, days)
        values = np.full((len(series), DAYS), np.nan)
        values[rows, DAYS - 1 - (last[rows] - days)] = flat.field("used").to_numpy(zero_copy_only=False)
        found = trends(values)
        limit = FULL * batch.column("total_bytes").to_numpy(zero_copy_only=False)
        slopes = {"": found.slope, "_low": found.slope_low, "_high": found.slope_high}
        computed = {
            "days_seen": np.count_nonzero(~np.isnan(values), axis=1).astype(np.float64),
            "used_bytes": values[:, -1],
            **{f"slope{end}": slope for end, slope in slopes.items()},
            "days_to_full": found.days_until(limit, found.slope),
            # The fastest growth fills a log dir first.
            "days_to_full_low": found.days_until(limit, found.slope_high),
            "days_to_full_high": found.days_until(limit, found.slope_low),
        }
        for ahead in HORIZONS:
            for end, slope in slopes.items():
                computed[f"used_in_{ahead}_days{end}"] = np.maximum(found.level + slope * ahead, 0.0)
        arrays = [pa.array(computed[name], pa.float64(), from_pandas=True) for name in TREND_COLUMNS]
        yield pa.RecordBatch.from_arrays([*batch.columns, *arrays], names=[*batch.schema.names, *TREND_COLUMNS])


def _sizes(inputs: JobInput) -> DataFrame:
    """The space of each broker's log dirs; null where one does not tell."""
    whole = F.count("total_bytes") == F.count("*")
    free = F.greatest(F.col("usable_bytes") - F.floor((1 - FULL) * F.col("total_bytes")), F.lit(0))
    return inputs.today("log_dirs").groupBy(*BROKER).agg(
        F.when(whole, F.sum("total_bytes")).alias("total_bytes"), F.sum(free).alias("free_bytes")
    )  # fmt: skip


def _ceilings(inputs: JobInput, replicas: DataFrame) -> DataFrame:
    """Brokers with what their replicas hold, what they may come to hold, and their space."""
    held = replicas.groupBy(*BROKER).agg(
        F.count("*").alias("replicas"),
        F.sum("bytes").alias("held_bytes"),
        total("ceiling_bytes").alias("ceiling_bytes"),
        F.sum(F.col("disk_limit_bytes").isNull().cast("int")).alias("replicas_without_limit"),
    )
    return held.join(_sizes(inputs), BROKER, "left")


def _parts(inputs: JobInput, replicas: DataFrame) -> DataFrame:
    """One row for each partition and each broker or rack that holds some of it: whether its loss stops writes, and why.

    `cause` is `factor` if the best placement of so few replicas does not keep enough, `racks` if another would, and
    `behind` if enough replicas are elsewhere, and not all in sync. `wanted` is the least factor that would do.
    """
    racks = inputs.today("brokers").groupBy(*BROKER).agg(F.max(F.nullif("rack", F.lit(""))).alias("rack"))
    frame = replicas.join(F.broadcast(racks), BROKER, "left")
    counted = [F.sum(F.col(name).cast("bigint")).alias(name) for name in ("is_leader", "is_in_sync", "bytes")]
    of_broker = frame.withColumns({"kind": F.lit("broker"), "name": F.col("broker").cast("string")})
    of_broker = of_broker.withColumns({name: F.col(name).cast("bigint") for name in ("is_leader", "is_in_sync")})
    of_rack = frame.where(F.col("rack").isNotNull()).groupBy(*PARTITION, F.col("rack").alias("name")).agg(
        *counted, F.count("*").alias("replicas"), F.max("in_sync").alias("in_sync"), F.max("min_isr").alias("min_isr"),
        F.max("rate").alias("rate"), F.max("factor").alias("factor"),
    ).withColumn("kind", F.lit("rack"))  # fmt: skip
    both = of_broker.withColumn("replicas", F.lit(1).cast("bigint")).unionByName(of_rack, allowMissingColumns=True)
    left = F.col("in_sync") - F.col("is_in_sync")
    below = (F.col("in_sync") >= F.col("min_isr")) & (left < F.col("min_isr")) & (F.col("is_in_sync") > 0)
    number = racks.groupBy("cluster").agg(
        F.count_distinct("rack").alias("racks"), F.count_distinct("broker").alias("brokers")
    )
    places = F.when(F.col("kind") == "rack", F.greatest("racks", F.lit(1))).otherwise(F.col("factor"))
    kept = F.col("factor") - F.ceil(F.col("factor") / places)
    # Of n replicas over p places, n - ceil(n / p) survive the loss of one.
    spare = F.ceil(F.col("min_isr") / F.nullif(F.col("racks") - 1, F.lit(0).cast("bigint")))
    wanted = F.when(F.col("kind") == "broker", F.col("min_isr") + 1).when(
        F.col("racks") > 1, F.col("min_isr") + F.greatest(spare, F.lit(1))
    )
    cause = (
        F.when(kept < F.col("min_isr"), "factor")
        .when(F.col("factor") - F.col("replicas") >= F.col("min_isr"), "behind")
        .otherwise("racks")
    )
    both = both.join(F.broadcast(number), "cluster", "left")
    return both.withColumns(
        {
            "below": F.coalesce(below, F.lit(False)),
            "is_offline": F.coalesce((left == 0) & (F.col("is_in_sync") > 0), F.lit(False)),
            "cause": cause,
            "wanted": wanted.cast("bigint"),
        }
    )


def _with_topics(worst: DataFrame, parts: DataFrame) -> DataFrame:
    """The losses with the topics whose writes they stop, by cause, and the least factor that would do."""
    place = ["cluster", "kind", "name"]
    stopped = parts.where("below").join(F.broadcast(worst.select(*place)), place, "left_semi")
    named = stopped.groupBy(*place).agg(
        *(
            F.array_sort(F.collect_set(F.when(F.col("cause") == cause, F.col("topic")))).alias(f"topics_{cause}")
            for cause in LOSS_CAUSES
        ),
        F.max(F.when(F.col("cause") == "factor", F.col("wanted"))).alias("wanted"),
        F.max(F.when(F.col("cause") == "factor", F.col("factor"))).alias("factor"),
    )
    return worst.join(named, place, "left")


def _losses(inputs: JobInput, parts: DataFrame) -> DataFrame:
    """One row for each broker and rack: what its loss does to partitions, and whether the others have space."""
    losses = parts.groupBy("cluster", "kind", "name").agg(
        F.sum("replicas").alias("replicas"),
        F.sum("is_leader").alias("leaders"),
        F.sum("bytes").alias("bytes"),
        total(F.when(F.col("is_leader") > 0, F.col("rate")).otherwise(0.0)).alias("leader_bytes_in_s"),
        F.sum(F.col("below").cast("int")).alias("below_min_isr"),
        F.sum(F.col("is_offline").cast("int")).alias("offline"),
        F.max("racks").alias("racks"),
        F.max("brokers").alias("brokers"),
    )
    sizes = _sizes(inputs)
    elsewhere = F.sum("free_bytes").over(Window.partitionBy("cluster")) - F.col("free_bytes")
    free = sizes.select(
        "cluster", F.col("broker").cast("string").alias("name"), F.lit("broker").alias("kind"),
        elsewhere.alias("free_elsewhere_bytes"),
    )  # fmt: skip
    return losses.join(free, ["cluster", "kind", "name"], "left")


def _worst_losses(losses: DataFrame) -> DataFrame:
    """Of each cluster the broker and the rack whose losses stop writes of most partitions, and the fullest broker."""
    stops = (F.col("below_min_isr") > 0) & ((F.col("kind") == "broker") | (F.col("racks") > 1))
    # Of a single broker there is no other.
    lacks = F.coalesce((F.col("bytes") > F.col("free_elsewhere_bytes")) & (F.col("brokers") > 1), F.lit(False))
    frame = losses.withColumns({"stops_writes": stops, "lacks_space": lacks}).where("stops_writes or lacks_space")
    by_writes = Window.partitionBy("cluster", "kind").orderBy(F.desc("below_min_isr"), "name")
    by_bytes = Window.partitionBy("cluster", "kind").orderBy(F.desc("lacks_space"), F.desc("bytes"), "name")
    return frame.withColumns(
        {
            "stops_writes": F.col("stops_writes") & (F.row_number().over(by_writes) == 1),
            "lacks_space": F.col("lacks_space") & (F.row_number().over(by_bytes) == 1),
        }
    ).where("stops_writes or lacks_space")


Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trends:
    """For each row: growth a day (the median of the pairs' slopes, and of these 10th and 90th percentile), last level.

    The level is that of the trend on the last day, with the most that one of the last seven days lies above it.
    """

    slope: Numbers
    slope_low: Numbers
    slope_high: Numbers
    level: Numbers

    def days_until(self, limit: Numbers, slope: Numbers) -> Numbers:
        """In how many days a limit is reached with some slope: 0 where it is, NaN where it never is."""
        with np.errstate(divide="ignore", invalid="ignore"):
            days = np.where(slope > 0, (limit - self.level) / slope, np.nan)
        return np.where(self.level >= limit, 0.0, days)


def trends(values: Numbers) -> Trends:
    """Trends of daily values, one series a row.

    Args:
        values: (series, days); the last day of each series stands in the last column, days that were not seen are NaN.

    Rows with fewer than two days are NaN. Quadratic in the days, with two weeks and more a seventh of that, as only
    days of one weekday are paired.
    """
    columns = values.shape[1]
    spans = columns - np.argmax(~np.isnan(values), axis=1)
    low, middle, high = (np.full(len(values), np.nan) for _ in range(3))
    for is_long in (False, True):
        rows = np.flatnonzero((spans >= TWO_WEEKS) == is_long)
        if rows.size == 0:
            continue
        first = 0 if is_long else max(columns - TWO_WEEKS, 0)
        i, j = np.triu_indices(columns - first, 1)
        kept = (j - i) % WEEK == 0 if is_long else np.ones(len(i), dtype=bool)
        i, j = i[kept] + first, j[kept] + first
        slopes = np.sort((values[rows][:, j] - values[rows][:, i]) / (j - i), axis=1)
        low[rows], middle[rows], high[rows] = (_quantile(slopes, q) for q in (0.1, 0.5, 0.9))
    days = np.arange(columns, dtype=np.float64) - (columns - 1)
    rest = values - middle[:, None] * days
    base = _quantile(np.sort(rest, axis=1), 0.5)
    last = rest[:, -WEEK:] - base[:, None]
    above = np.max(np.where(np.isnan(last), 0.0, last), axis=1, initial=0.0)
    return Trends(slope=middle, slope_low=low, slope_high=high, level=base + above)


def _quantile(ordered: Numbers, share: float) -> Numbers:
    """A quantile of each row by linear interpolation; NaN stand at the end of rows and do not count."""
    counts = np.count_nonzero(~np.isnan(ordered), axis=1)
    if ordered.shape[1] == 0:
        return np.full(len(ordered), np.nan)
    at = share * np.maximum(counts - 1, 0)
    below = np.floor(at).astype(np.int64)
    above = np.minimum(below + 1, np.maximum(counts - 1, 0))
    rows = np.arange(len(ordered))
    part = at - below
    found: Numbers = ordered[rows, below] * (1 - part) + ordered[rows, above] * part
    return found
