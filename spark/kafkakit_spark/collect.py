"""Collecting a fleet as one task a cluster: each runs `kafkakit fleet collect` where it is."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from kafkakit_spark.arrow_types import arrow_schema

SCHEMA = "cluster string, code int, output string, errors string"
_COLUMNS = arrow_schema(SCHEMA)
_ERROR_CHARACTERS = 2_000


def collect_clusters(spark: SparkSession, clusters: Sequence[str], words: Sequence[str]) -> list[dict[str, object]]:
    """Run the command for each cluster and return what each printed, in the order of `clusters`.

    kafkakit's dependencies must be installed where tasks run; profiles and the file of the fleet are read there, and
    nothing of them is in the job.
    """
    each = spark.range(0, len(clusters), 1, len(clusters))
    rows = each.mapInArrow(_task(tuple(clusters), tuple(words)), SCHEMA).collect()
    return sorted((row.asDict() for row in rows), key=lambda row: clusters.index(row["cluster"]))


def _task(
    clusters: tuple[str, ...], words: tuple[str, ...]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def collect(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the command for each cluster of the batches."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                done = subprocess.run(
                    [sys.executable, "-m", "kafkakit", "fleet", "collect", "--profiles", clusters[number], *words],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    check=False,
                    # The zip of the code is on this process's path alone.
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
                )
                values = (clusters[number], done.returncode, done.stdout, done.stderr[-_ERROR_CHARACTERS:])
                yield pa.RecordBatch.from_pylist([dict(zip(_COLUMNS.names, values, strict=True))], schema=_COLUMNS)

    return collect
