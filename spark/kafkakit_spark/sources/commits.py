"""The table `commits` of one cluster from Kafka itself, with Spark's Kafka source, whose jars the user brings.

Slower than `kafkakit fleet collect`; for clusters whose `__consumer_offsets` is too large for one host.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafkakit.core.fleet_tables import TABLES
from kafkakit.rules.families.groups import OFFSETS_TOPIC
from kafkakit.streams.model.offsets_log.entries import Entry, decode_entry
from kafkakit_spark.arrow_types import arrow_schema

COLUMNS = ", ".join(f"{c.name} {c.type}" for c in TABLES["commits"].columns)
SCHEMA = arrow_schema(COLUMNS)
OLDER_LOOKUP = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"


def commits_from_kafka(spark: SparkSession, servers: str, partitions: int, properties: str) -> DataFrame:
    """The rows of all committed offsets that the topic still holds; of open and aborted transactions, none.

    `properties` is the path, if any, of a file of client settings (`security.protocol=...`) on the driver's host: no
    specification of a run has what it holds. Decodes about 300,000 records a second on two cores. Raises `ValueError`
    without the jars.
    """
    # The lookup of offsets that Spark 4.2 and 4.3 use by default leaves internal topics out, and reads nothing.
    spark.conf.set(OLDER_LOOKUP, "true")
    reader = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("kafka.isolation.level", "read_committed")
        .option("assign", json.dumps({OFFSETS_TOPIC: list(range(partitions))}))
        .option("failOnDataLoss", "false")  # compaction removes offsets while they are read
    )
    for key, value in _settings(properties).items():
        reader = reader.option(f"kafka.{key}", value)
    try:
        loaded = reader.load()
    except AnalysisException as error:
        raise ValueError("Spark has no Kafka source; docs/audits.md names its jars, for --conf spark.jars") from error
    records = loaded.select("key", "value", "partition", "offset", F.unix_millis("timestamp").alias("at_ms"))
    return records.mapInArrow(_decoded, COLUMNS)


def _settings(path: str) -> dict[str, str]:
    """The lines `key=value` of a file."""
    lines = Path(path).read_text(encoding="utf-8").splitlines() if path else []
    pairs = (line.partition("=") for line in lines if line.strip() and not line.lstrip().startswith(("#", "!")))
    return {key.strip(): value.strip() for key, _, value in pairs}


def _decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in batch.schema.names]
        rows = [row for record in zip(*columns, strict=True) if (row := _row(*record)) is not None]
        yield pa.RecordBatch.from_pylist(rows, SCHEMA)


def _row(key: bytes | None, value: bytes | None, partition: int, offset: int, at_ms: int) -> dict[str, object] | None:
    found = decode_entry(key, value)
    if not isinstance(found, Entry):
        return None
    commit = found.value
    return {
        "group": found.key.group,
        "topic": found.key.topic,
        "partition": found.key.partition,
        "committed": commit.offset if commit else None,
        "at_ms": commit.committed_ms if commit else at_ms,
        "log_partition": partition,
        "log_offset": offset,
        "metadata_bytes": len(commit.metadata) if commit else 0,
    }
