"""Findings as frames: rows that an audit holds something against become sentences of the rules."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafkakit.core.findings import JOB_COLUMNS, NAMED_IN_WHERE, AuditFinding, finding_row
from kafkakit.core.fleet_tables import JobSpec
from kafkakit_spark.arrow_types import arrow_schema

ARROW_COLUMNS = arrow_schema(JOB_COLUMNS)


def findings_of(candidates: DataFrame, sentences: Callable[[Mapping[str, Any]], Iterable[AuditFinding]]) -> DataFrame:
    """The findings of each row of `candidates`, which holds only rows that something is held against.

    `sentences` is a function of a module that executors can import; it gets a row as a mapping. Linear in the
    candidates, in Python: whatever decides whether a row is one belongs into the frame before.
    """

    def convert(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [finding_row(f) for row in batch.to_pylist() for f in sentences(row)]
            yield pa.RecordBatch.from_pylist(rows, schema=ARROW_COLUMNS)

    return candidates.mapInArrow(convert, JOB_COLUMNS)


def findings_frame(spark: SparkSession, findings: Iterable[AuditFinding]) -> DataFrame:
    """Findings that the driver made, as a frame."""
    rows = [finding_row(f) for f in findings]
    return spark.createDataFrame([tuple(row[name] for name in ARROW_COLUMNS.names) for row in rows], JOB_COLUMNS)


def in_scope(spark: SparkSession, findings: DataFrame, spec: JobSpec) -> DataFrame:
    """The findings without those about a topic or broker that is not among the spec's. One join for each scope.

    Findings, and not the rows that jobs read: what disks, handles and peers carry is that of all topics.
    """
    for kind, names in (("topics", spec.topics), ("brokers", spec.brokers)):
        if names is None:
            continue
        rows = [(cluster, name) for cluster, own in sorted(names.items()) for name in own]
        chosen = F.broadcast(
            spark.createDataFrame(rows, "cluster string, named string").withColumn("is_in", F.lit(True))
        )
        parts = [F.regexp_extract("where", NAMED_IN_WHERE[kind], group) for group in (1, 2)]
        named = findings.withColumn("named", F.concat(*parts)).join(chosen, ["cluster", "named"], "left")
        findings = named.where((F.col("named") == "") | F.col("is_in")).select(*findings.columns)
    return findings
