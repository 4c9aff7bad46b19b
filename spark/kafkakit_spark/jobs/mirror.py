"""The audit `mirror`: what is missing on either side of a topic that two clusters hold, by window.

Both sides are put into one frame and aggregated by the record's identity: a full outer join that counts duplicates,
and whose partial sums keep a frequent key from being one task's work.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kafkakit.rules.audits import delivery
from kafkakit_spark.job import JobInput, JobOutput, findings_of

PAIR = ["cluster", "source", "topic"]
SIDES = ("primary", "mirror")
FAULTS = ("mirror", "primary", "twice_on_mirror", "twice_on_primary")


def run(job: JobInput) -> JobOutput:
    """Compare the records that both sides collected, except in windows that one side does not wholly cover."""
    window_ms = int(job.number("window_s", delivery.WINDOW_S) * 1000)
    round_ms = int(job.number("round_ms", delivery.ROUND_MS))
    columns = ("cluster", "labels", "mirror_of")
    found_pairs = [
        (row["cluster"], source)
        for row in job.store.rows("clusters", [job.spec.snapshot_date], *columns)
        for source in delivery.sources_of(row["cluster"], row["labels"], row["mirror_of"])
    ]
    pairs = job.spark.createDataFrame(found_pairs, "cluster string, source string")
    records = job.history("records").where(F.col("at_ms").isNotNull() & F.col("offset").isNotNull())
    if len(job.spec.dates) > 1:
        records = records.dropDuplicates(["cluster", "topic", "partition", "offset"])
    both = _both_sides(records, pairs)
    shifts = job.step("shifts", _shifts(both))
    timed = both.join(F.broadcast(shifts), PAIR).withColumn(
        "at_ms", F.when(F.col("is_mirror"), F.col("at_ms") - F.col("shift_ms")).otherwise(F.col("at_ms"))
    )
    ends = _covered_windows(timed, window_ms)
    compared = timed.join(F.broadcast(ends), PAIR)
    windows = job.step("windows", _windows(_compare_records(compared, round_ms), window_ms))
    found = _find_differences(windows, shifts, job.number("clock_s", delivery.CLOCK_S))
    counts = ends.agg(
        F.count_if(F.col("first_ms").isNotNull()).alias("topics_compared"),
        F.count_if(F.col("first_ms").isNull()).alias("topics_on_one_side"),
    )
    skipped = () if found_pairs else ("no cluster is labelled mirror:NAME",)
    return JobOutput(
        findings=findings_of(found, delivery.compare_mirror), tables={"mirror_windows": windows.drop("examples")},
        facts=(counts,), skipped=skipped,
    )  # fmt: skip


def _both_sides(records: DataFrame, pairs: DataFrame) -> DataFrame:
    """The records of both sides of each pair, by the primary's name of the topic."""
    kept = ["topic", "partition", "offset", "at_ms", "record_id", "key_hash", "value_crc"]
    ours = records.withColumnRenamed("cluster", "source").join(F.broadcast(pairs), "source")
    ours = ours.select("cluster", "source", *kept, F.lit(False).alias("is_mirror"))
    theirs = records.join(F.broadcast(pairs), "cluster")
    prefix = F.concat("source", F.lit("."))
    name = F.when(F.col("topic").startswith(prefix), F.expr("substring(topic, length(source) + 2)"))
    theirs = theirs.withColumn("topic", F.coalesce(name, "topic"))
    return ours.union(theirs.select("cluster", "source", *kept, F.lit(True).alias("is_mirror")))


def _is(name: str) -> Column:
    return F.col("is_mirror") if name == "mirror" else ~F.col("is_mirror")


def _shifts(both: DataFrame) -> DataFrame:
    """How much later records are on the mirror than on the primary: the median over those that are once on each."""
    identity = F.coalesce("record_id", F.concat_ws("/", F.coalesce("key_hash", F.lit("")), "value_crc"))
    one = both.groupBy(*PAIR, identity.alias("identity")).agg(
        *(F.count_if(_is(side)).alias(side) for side in SIDES),
        *(F.min(F.when(_is(side), F.col("at_ms"))).alias(f"{side}_ms") for side in SIDES),
    )
    apart = F.when((F.col("mirror") == 1) & (F.col("primary") == 1), F.col("mirror_ms") - F.col("primary_ms"))
    shift = F.coalesce(F.median(apart), F.lit(0.0)).cast("bigint")
    return one.groupBy(*PAIR).agg(shift.alias("shift_ms"))


def _covered_windows(timed: DataFrame, window_ms: int) -> DataFrame:
    """The windows that both sides were wholly collected in: PAIR, first_ms, end_ms (exclusive).

    A side was collected from the first to the last of its records, whatever their topic. Both are null for a topic that
    only one side has records of.
    """
    pair = PAIR[:2]
    spans = timed.groupBy(*pair).agg(
        *(F.min(F.when(_is(side), F.col("at_ms"))).alias(f"{side}_first") for side in SIDES),
        *(F.max(F.when(_is(side), F.col("at_ms"))).alias(f"{side}_last") for side in SIDES),
    )
    topics = timed.groupBy(*PAIR).agg(F.count_distinct("is_mirror").alias("sides"))
    first = F.ceil(F.greatest("primary_first", "mirror_first") / window_ms) * window_ms
    end = F.floor(F.least("primary_last", "mirror_last") / window_ms) * window_ms
    is_both = F.col("sides") == len(SIDES)
    return topics.join(spans, pair).select(
        *PAIR, F.when(is_both, first).alias("first_ms"), F.when(is_both, end).alias("end_ms")
    )


def _example(side: str) -> Column:
    return F.min(F.when(_is(side), F.struct("at_ms", "partition", "offset")))


def _compare_records(rows: DataFrame, round_ms: int) -> DataFrame:
    """One row for each identity, or key, value and time: what each side lacks, and has more than once.

    Records without an id that are alike are counted on both sides; what differs is summed over neighbouring times, so
    that copies on both sides of a border are no difference. `at_ms` is the first time of all copies.
    """
    named = F.col("record_id").isNotNull()
    content = F.concat_ws("/", F.lit("content"), F.coalesce("key_hash", F.lit("")), "value_crc")
    identity = [*PAIR, "is_named", "identity"]
    found = (
        rows.withColumn("is_named", named)
        .withColumn("identity", F.coalesce("record_id", content))
        .withColumn("tick", F.when(named, F.lit(0)).otherwise(F.floor(F.col("at_ms") / round_ms)))
        .groupBy(*identity, "tick")
        .agg(
            *(F.min(name).alias(name) for name in ("at_ms", "first_ms", "end_ms")),
            *(F.count_if(_is(side)).alias(f"{side}_records") for side in SIDES),
            *(_example(side).alias(f"{side}_example") for side in SIDES),
        )
    )
    here, there = F.col("primary_records"), F.col("mirror_records")
    odd = found.where(here != there)
    run = F.col("tick") - F.row_number().over(Window.partitionBy(*identity).orderBy("tick"))
    summed = odd.withColumn("run", run).groupBy(*identity, "run").agg(
        *(F.min(name).alias(name) for name in ("at_ms", "first_ms", "end_ms")),
        *(F.sum(f"{side}_records").alias(f"{side}_records") for side in SIDES),
        *(F.min(f"{side}_example").alias(f"{side}_example") for side in SIDES),
    )  # fmt: skip
    every = found.where(here == there).drop("tick").unionByName(summed.drop("run"))
    # Two records that are alike may be meant: only an id tells that one is there twice.
    is_named, none = F.col("is_named"), F.lit(0)
    return every.withColumns(
        {
            "mirror": F.when(is_named, (there == 0).cast("bigint")).otherwise(F.greatest(here - there, none)),
            "primary": F.when(is_named, (here == 0).cast("bigint")).otherwise(F.greatest(there - here, none)),
            "twice_on_mirror": F.when(is_named, F.greatest(there - 1, none)).otherwise(none),
            "twice_on_primary": F.when(is_named, F.greatest(here - 1, none)).otherwise(none),
        }
    )


def _windows(rows: DataFrame, window_ms: int) -> DataFrame:
    """The table `mirror_windows`, with the first record of each fault in each window."""
    inside = rows.where((F.col("at_ms") >= F.col("first_ms")) & (F.col("at_ms") < F.col("end_ms")))
    window = (F.floor(F.col("at_ms") / window_ms) * window_ms).alias("window_ms")
    # What the mirror lacks is shown by its place on the primary.
    shown = {"mirror": "primary", "primary": "mirror", "twice_on_mirror": "mirror", "twice_on_primary": "primary"}
    examples = [F.min(F.when(F.col(name) > 0, F.col(f"{shown[name]}_example"))).alias(name) for name in FAULTS]
    return inside.groupBy(*PAIR, window).agg(
        *(F.sum(f"{side}_records").alias(f"{side}_records") for side in SIDES),
        *(F.sum(name).alias(name) for name in FAULTS),
        F.struct(*examples).alias("examples"),
    )


def _find_differences(windows: DataFrame, shifts: DataFrame, clock_s: float) -> DataFrame:
    """Rows for `mirror.mirrored`."""
    sums = []
    for name in FAULTS:
        examples = F.array_sort(F.collect_list(F.col(f"examples.{name}")))
        sums += [
            F.sum(name).alias(name),
            F.count_if(F.col(name) > 0).alias(f"{name}_windows"),
            F.slice(examples, 1, delivery.EXAMPLES).alias(f"{name}_first"),
        ]
    found = windows.groupBy(*PAIR).agg(*sums).join(F.broadcast(shifts), PAIR)
    found = found.withColumn("clock_s", F.lit(clock_s))
    is_fault = F.greatest(*FAULTS) > 0
    return found.where(is_fault | (F.abs("shift_ms") > clock_s * 1000))
