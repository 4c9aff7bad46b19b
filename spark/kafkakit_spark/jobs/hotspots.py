"""The audit `hotspots`: partitions far above their topic's others, and brokers far above their cluster's, by the hour.

Traffic comes from `traffic_hourly`; where that was not collected, from the rates in `partitions`, as of one hour.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafkakit.core.findings import AuditFinding
from kafkakit.rules.audits import capacity
from kafkakit_spark.job import JobInput, JobOutput, findings_of, ratio, total

Numbers = NDArray[np.float64]
Ids = NDArray[np.int64]


class Outliers(NamedTuple):
    """For each value: whether it is far above its peers, and their median."""

    is_hot: NDArray[np.bool_]
    median: Numbers


def outliers(cells: Ids, values: Numbers, peers: capacity.Peers) -> Outliers:
    """Compare each value with those of the same cell (a group of peers in an hour).

    Args:
        cells: the cell of each value, numbered from 0.
        values: NaN where unknown; these are not compared and are no peers.
        peers: what is far above.

    Sorts twice.
    """
    known = ~np.isnan(values)
    counts = np.bincount(cells[known], minlength=int(cells.max(initial=-1)) + 1)
    median = _medians(cells, values, counts)[cells]
    mad = _medians(cells, np.abs(values - median), counts)[cells]
    above = np.maximum(peers.factor * median, median + peers.deviations * capacity.NORMAL_MAD * mad)
    with np.errstate(invalid="ignore"):
        is_hot = known & (values > above) & (values >= peers.floor) & (counts[cells] >= peers.least)
    return Outliers(is_hot, median)


def _medians(cells: Ids, values: Numbers, counts: Ids) -> Numbers:
    """The median of each cell; NaN where it has no value."""
    known = ~np.isnan(values)
    ordered = values[known][np.lexsort((values[known], cells[known]))]
    if ordered.size == 0:
        return np.full(len(counts), np.nan)
    first = np.cumsum(counts) - counts
    low, high = (np.minimum(first + offset, ordered.size - 1) for offset in ((counts - 1).clip(0) // 2, counts // 2))
    found: Numbers = np.where(counts > 0, (ordered[low] + ordered[high]) / 2, np.nan)
    return found


PEERS: Mapping[str, tuple[capacity.Peers, capacity.Peers]] = {
    "topic": (capacity.PARTITION_BYTES, capacity.PARTITION_MESSAGES),
    "cluster": (capacity.BROKER_BYTES, capacity.BROKER_BYTES),
}
GROUPS_AT_ONCE = 512
FOUND = "cluster string, topic string, id int, hours int, first_hot int, first_mean double, first_median double, " \
    "second_hot int, second_mean double, second_median double"  # fmt: skip


def run(inputs: JobInput) -> JobOutput:
    """Tables `partitions` and `brokers` of what is hot, and `traffic` of all brokers; findings KKH001 to KKH004."""
    traffic = _traffic(inputs)
    by_broker = inputs.step(
        "by_broker",
        traffic.where(F.col("broker") >= 0)
        .groupBy("cluster", "hour", F.col("broker").alias("id"))
        .agg(total("bytes_in_s").alias("first"), total("bytes_out_s").alias("second"))
        .withColumn("topic", F.lit("")),
    )
    by_partition = traffic.select(
        "cluster", "topic", "hour", F.col("partition").alias("id"), F.col("bytes_in_s").alias("first"),
        F.col("messages_in_s").alias("second"),
    )  # fmt: skip
    partitions = inputs.table("partitions", _find_hot(by_partition, "topic"))
    brokers = inputs.table("brokers", _find_hot(by_broker, "cluster").drop("topic"))
    sentences: list[tuple[DataFrame, Callable[[Mapping[str, Any]], Iterator[AuditFinding]]]] = [
        (partitions, capacity.partition_findings),
        (brokers, capacity.hot_broker_findings),
    ]
    one, other = (findings_of(frame, function) for frame, function in sentences)
    led = by_broker.groupBy("cluster", F.col("id").alias("broker")).agg(
        F.count("*").alias("hours"),
        ratio(total("first"), F.count("first")).alias("bytes_in_s"),
        ratio(total("second"), F.count("second")).alias("bytes_out_s"),
    )
    facts = partitions.agg(F.count("*").alias("hot_partitions")), brokers.agg(F.count("*").alias("hot_brokers"))
    return JobOutput(
        findings=one.unionByName(other),
        tables={"partitions": partitions, "brokers": brokers, "traffic": led},
        facts=facts,
        skipped=_skipped_checks(inputs),
    )


def _skipped_checks(inputs: JobInput) -> tuple[str, ...]:
    if inputs.has("traffic_hourly"):
        return ()
    if inputs.has("partitions"):
        return ("no hourly traffic was collected: peers were compared only once, and reads from brokers were skipped",)
    return ("no traffic was collected, so nothing was checked",)


def _traffic(inputs: JobInput) -> DataFrame:
    if inputs.has("traffic_hourly"):
        frame = inputs.today("traffic_hourly").withColumnRenamed("hour_ms", "hour")
    else:
        frame = inputs.today("partitions").withColumns(
            {"broker": F.col("leader"), "hour": F.lit(0).cast("bigint"), "bytes_out_s": F.lit(None).cast("double")}
        )
    rates = ("bytes_in_s", "bytes_out_s", "messages_in_s")
    return frame.where(F.col("hour").isNotNull() & F.col("partition").isNotNull()).select(
        "cluster", "topic", "partition", "broker", "hour",
        *(F.when(F.col(name) >= 0, F.nanvl(name, F.lit(None).cast("double"))).alias(name) for name in rates),
    )  # fmt: skip


def _find_hot(traffic: DataFrame, peers: str) -> DataFrame:
    """What is far above its peers in most of its hours by either measure; `traffic` has a row a member an hour."""
    seen = F.collect_list(F.struct("id", "hour", "first", "second")).alias("seen")
    keys = ("cluster", "topic") if peers == "topic" else ("cluster",)
    groups = traffic.groupBy(*keys).agg(seen)
    groups = groups if peers == "topic" else groups.withColumn("topic", F.lit(""))
    least = min(measure.least for measure in PEERS[peers])
    measures = PEERS[peers]

    def convert(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for start in range(0, batch.num_rows, GROUPS_AT_ONCE):
                yield _hot_members(batch.slice(start, GROUPS_AT_ONCE), measures)

    return groups.where(F.size("seen") >= least).select("cluster", "topic", "seen").mapInArrow(convert, FOUND)


def _hot_members(batch: pa.RecordBatch, measures: tuple[capacity.Peers, capacity.Peers]) -> pa.RecordBatch:
    series = batch.column("seen")
    flat = series.flatten()
    group = np.repeat(np.arange(len(series)), series.value_lengths().to_numpy(zero_copy_only=False))
    ids, hours = (flat.field(name).to_numpy(zero_copy_only=False) for name in ("id", "hour"))
    hour_numbers, hour = np.unique(hours, return_inverse=True)
    id_numbers, place = np.unique(ids, return_inverse=True)
    members, member = np.unique(group * len(id_numbers) + place, return_inverse=True)
    number, cells = len(members), group * len(hour_numbers) + hour
    counts = np.bincount(member, minlength=number)
    columns, is_hot = [], np.zeros(number, dtype=bool)
    for name, peers in zip(("first", "second"), measures, strict=True):
        values = flat.field(name).cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)
        found = outliers(cells, values, peers)
        hot = np.bincount(member, weights=found.is_hot, minlength=number)
        known = np.maximum(np.bincount(member, weights=~np.isnan(values), minlength=number), 1)
        means = (
            np.bincount(member, weights=np.nan_to_num(v), minlength=number) / known for v in (values, found.median)
        )
        columns += [hot.astype(np.int32), *means]
        is_hot |= hot >= capacity.HOT_SHARE * counts
    rows = np.flatnonzero(is_hot)
    names = [part.split()[0] for part in FOUND.split(",")]
    keys = [batch.column(name).take(pa.array(members[rows] // len(id_numbers))) for name in ("cluster", "topic")]
    member_ids = id_numbers[members % len(id_numbers)].astype(np.int32)
    numbers = [pa.array(column[rows]) for column in (member_ids, counts.astype(np.int32), *columns)]
    return pa.RecordBatch.from_arrays([*keys, *numbers], names=names)
