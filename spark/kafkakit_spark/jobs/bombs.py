"""The job `bombs`: batches that become too large for a consumer's memory, or that librdkafka cannot read.

Nothing is decompressed: sizes are declared, or bound by what stands in front of the data.
"""

from pyspark.sql import Window
from pyspark.sql import functions as F

from kafkakit.rules.audits import segments
from kafkakit.rules.audits.segments import LEAST_RECORD_BYTES
from kafkakit.rules.rule import Limits
from kafkakit_spark.effective import NUMBERS, effective_topics
from kafkakit_spark.job import JobInput, JobOutput, findings_of, ratio
from kafkakit_spark.jobs.segments import tables_of

_OF_BATCH = (
    "decompressed_bytes", "partition", "base_offset", "compressed_bytes", "content_size", "codec", "is_bound",
    "producer_id",
)  # fmt: skip


def run(inputs: JobInput) -> JobOutput:
    """Findings by topic, and the table `producers`: the largest batch of each producer that sends any above a limit.

    Parameters: `memory_bytes` of a consumer; `receive_message_max_bytes`, one or several with commas between.
    """
    memory = int(inputs.number("memory_bytes", Limits().consumer_memory_bytes))
    limits = segments.limits_of(str(inputs.spec.parameters.get(f"{inputs.job}.receive_message_max_bytes", "")))
    size, packed = F.col("decompressed_bytes"), F.col("compressed_bytes")
    fewest = F.col("records") * LEAST_RECORD_BYTES
    is_sure = ~F.col("is_bound") | (size >= segments.SURE_BYTES)
    batches = (
        tables_of(inputs, "batches")
        .where((packed > 0) & (F.col("topic") != segments.METADATA_TOPIC))
        .dropDuplicates(["cluster", "topic", "partition", "base_offset"])
        .withColumn("ratio", ratio(F.when(is_sure, size).otherwise(F.greatest(fewest, packed)), packed))
    )
    is_large = size > memory
    # The first size that librdkafka tries may be above its limit already.
    tried = F.coalesce("content_size", 2 * packed)
    is_suspect = (F.col("codec") == "zstd") & ((size > segments.least_undecodable(limits[0])) | (tried > limits[0]))
    suspects = inputs.step("suspects", batches.where(is_large | is_suspect))
    by_size = Window.partitionBy("cluster", "topic").orderBy(F.desc("decompressed_bytes"), "partition", "base_offset")
    largest = (
        suspects.withColumn("rank", F.row_number().over(by_size))
        .groupBy("cluster", "topic")
        .agg(
            F.sum(F.when(is_large, 1).otherwise(0)).alias("large_batches"),
            F.sort_array(
                F.collect_list(F.when(F.col("rank") <= segments.MAX_BATCHES, F.struct(*_OF_BATCH))), asc=False
            ).alias("batches"),
        )
    )
    settings = effective_topics(inputs).select("cluster", "topic", "max_message_bytes")
    topics = inputs.step(
        "topics",
        batches.groupBy("cluster", "topic")
        .agg(F.percentile("ratio", F.lit(0.999)).alias("ratio"), F.count("*").alias("seen"))
        .join(settings, ["cluster", "topic"], "left")
        .join(largest, ["cluster", "topic"], "left")
        .fillna({"max_message_bytes": NUMBERS["max_message_bytes"][1]})
        .withColumns({"memory_bytes": F.lit(memory), "limits": F.lit(",".join(map(str, limits)))}),
    )
    above = F.col("batches").isNotNull() | (F.col("max_message_bytes") * F.round("ratio", 1) > memory)
    producers = suspects.groupBy("cluster", "topic", "producer_id").agg(
        F.count("*").alias("batches"),
        F.max("decompressed_bytes").alias("largest_bytes"),
        F.max("ratio").alias("largest_ratio"),
        F.min("path").alias("path"),
    )
    facts = topics.agg(
        F.sum("seen").alias("batches_seen"),
        F.coalesce(F.sum("large_batches"), F.lit(0)).alias("above_memory"),
        F.max("ratio").alias("largest_ratio"),
    )
    findings = findings_of(topics.where(above), segments.bomb_findings)
    return JobOutput(findings=findings, tables={"producers": producers}, facts=(facts,))
