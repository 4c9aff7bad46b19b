"""Runs of Spark: the session, the jobs of a spec with their results, and collecting a fleet.

The session is opened with what must hold for every answer to be the same everywhere. Each job's files are written
first, the summary last. A fleet is collected as one task a cluster: each runs `kafkakit fleet collect` where it is.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from kafkakit.core.fleet_tables import STORE_LINKS, JobResult, JobSpec, summary_data
from kafkakit_spark.job import (
    STEPS,
    Job,
    JobInput,
    SnapshotStore,
    arrow_schema,
    engine_path,
    in_scope,
    local_path,
    read_path,
)

NAMES = ("segments", "retention", "drift", "capacity", "hotspots", "bombs", "lag", "mirror")


def job_named(name: str) -> Job:
    """The function of a job; `ValueError` for a name that is none."""
    if name not in NAMES:
        raise ValueError(f"no audit is called {name}; there are {', '.join(NAMES)}")
    found: Job = import_module(f"kafkakit_spark.jobs.{name}").run
    return found


Say = Callable[[dict[str, object]], None]


def say_line(fields: dict[str, object]) -> None:
    """One line of JSON on stderr, which the command that submitted the run reads."""
    sys.stderr.write(json.dumps({"kafkakit": "progress", **fields}) + "\n")
    sys.stderr.flush()


def run_spec(
    spark: SparkSession, spec: JobSpec, say: Say = say_line, *, is_here: bool = False
) -> tuple[JobResult, ...]:
    """Run the jobs one after another; one that fails is reported in its result and does not keep the others.

    `is_here` says that the engine runs on this host with all its tasks.

    Results lie in `OUTPUT/RUN/JOB/{findings.parquet, TABLE.parquet}`, then `OUTPUT/RUN/summary.json`, which exists
    only for a run that came to its end.
    """
    base = f"{spec.output.rstrip('/')}/{spec.run_id}"
    folder = local_path(base)
    links = None if folder is None else folder / STORE_LINKS
    if is_here and folder is not None:
        base = engine_path(spark, folder)
    store = SnapshotStore(spark, spec.input, spec.dates, spec.clusters, is_here=is_here, links=links)
    try:
        results = _run_jobs(spark, spec, store, base, say)
    finally:
        store.close()
        if links is not None:
            shutil.rmtree(links, ignore_errors=True)
    write_text(spark, base, "summary.json", json.dumps(summary_data(spec, results), indent=1) + "\n")
    return results


def _run_jobs(spark: SparkSession, spec: JobSpec, store: SnapshotStore, base: str, say: Say) -> tuple[JobResult, ...]:
    results = []
    for number, name in enumerate(spec.jobs):
        say({"job": name, "phase": "start", "number": number + 1, "of": len(spec.jobs)})
        began = time.monotonic()
        try:
            result = _run_job(spark, spec, name, store, f"{base}/{name}")
        except Exception as error:
            result = JobResult(job=name, error=f"{type(error).__name__}: {' '.join(str(error).split())[:2000]}")
            _remove(spark, f"{base}/{name}")  # what it had written is not whole
        finally:
            _remove(spark, f"{base}/{name}/{STEPS}")
        result = replace(result, seconds=round(time.monotonic() - began, 3))
        results.append(result)
        phase = "failed" if result.error else "end"
        say({"job": name, "phase": phase, "seconds": result.seconds, "error": result.error[:300]})
    return tuple(results)


def _run_job(spark: SparkSession, spec: JobSpec, name: str, store: SnapshotStore, folder: str) -> JobResult:
    store.kinds_read.clear()
    inputs = JobInput(spark=spark, store=store, spec=spec, job=name, folder=folder)
    output = job_named(name)(inputs)
    for table in output.tables.keys() - inputs.written:
        output.tables[table].write.mode("overwrite").parquet(f"{folder}/{table}.parquet")
    tables = {
        table: _write_frame(spark, frame, f"{folder}/{table}.parquet", store.is_here)
        for table, frame in sorted(output.tables.items())
    }
    # Not orderBy, which runs all of it once more to find the ranges.
    ordered = (
        in_scope(spark, output.findings, spec)
        .repartition(1)
        .sortWithinPartitions(F.desc("score"), "rule", "cluster", "where", "fingerprint")
    )
    ordered.write.mode("overwrite").parquet(f"{folder}/findings.parquet")
    written = _write_frame(spark, ordered, f"{folder}/findings.parquet", store.is_here)
    severities: dict[str, int] = {}
    rules: dict[str, int] = {}
    for severity, rule, number in written.numbers("severity", "rule"):
        severities[severity] = severities.get(severity, 0) + number
        rules[rule] = rules.get(rule, 0) + number
    facts: dict[str, int | float | str] = {}
    if output.facts:  # each has one row
        row = reduce(DataFrame.crossJoin, output.facts).collect()[0]
        facts = {name: value for name, value in row.asDict().items() if value is not None}
    store.note_changed()
    return JobResult(
        job=name,
        findings=dict(sorted(severities.items())),
        rules=dict(sorted(rules.items())),
        facts=facts,
        tables={table: written.rows() for table, written in tables.items()},
        skipped=(*output.skipped, *store.repeated(spec.snapshot_date)),
        left_out=tuple(store.left_out),
        clusters=store.looked_at(spec.snapshot_date),
    )


class WrittenFrame(Protocol):
    """A frame that was written."""

    def rows(self) -> int:
        """How many rows it has."""
        ...

    def numbers(self, *columns: str) -> Iterable[tuple[Any, ...]]:
        """Each value of these columns, and at the end how many rows have it."""
        ...


@dataclass(frozen=True, slots=True)
class WrittenHere:
    """Implements `WrittenFrame` by the files of a folder of this host."""

    folder: Path

    def rows(self) -> int:
        """By the footers."""
        return sum(pq.read_metadata(path).num_rows for path in self.files())

    def numbers(self, *columns: str) -> Iterable[tuple[Any, ...]]:
        found: Counter[tuple[Any, ...]] = Counter()
        for path in self.files():
            table = pq.ParquetFile(path).read(list(columns))
            found.update(zip(*(column.to_pylist() for column in table.columns), strict=True))
        return [(*values, number) for values, number in sorted(found.items())]

    def files(self) -> list[Path]:
        """Those with rows, and at least one."""
        return sorted(path for path in self.folder.glob("*.parquet") if not path.name.startswith(("_", ".")))


@dataclass(frozen=True, slots=True)
class WrittenThere:
    """Implements `WrittenFrame` through Spark."""

    frame: DataFrame

    def rows(self) -> int:
        """By a count."""
        return int(self.frame.count())

    def numbers(self, *columns: str) -> Iterable[tuple[Any, ...]]:
        counted = self.frame.groupBy(*columns).agg(F.count("*").alias("n")).collect()
        return sorted((*(row[name] for name in columns), int(row["n"])) for row in counted)


def _write_frame(spark: SparkSession, frame: DataFrame, uri: str, is_here: bool) -> WrittenFrame:
    """A frame's folder of Parquet files, with one file at least, so that readers learn the columns."""
    folder = local_path(uri)
    if folder is not None and is_here:
        folder.mkdir(parents=True, exist_ok=True)  # Sail makes none for no rows
    if folder is None or not folder.is_dir():
        return WrittenThere(spark.read.schema(frame.schema).parquet(read_path(uri)))
    written = WrittenHere(folder)
    if not written.files():
        pq.write_table(to_arrow_schema(frame.schema).empty_table(), written.folder / "part-00000.parquet")
    return written


def _remove(spark: SparkSession, uri: str) -> None:
    """Remove a folder with all below it; beyond a local disk not through Connect, which gives no file system."""
    folder, jvm = local_path(uri), getattr(spark, "_jvm", None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    elif jvm is not None:
        path = jvm.org.apache.hadoop.fs.Path(uri)
        path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).delete(path, True)


def write_text(spark: SparkSession, base: str, name: str, text: str) -> None:
    """Write a small file below a URI: whole or not at all on a local disk, through Spark (as a folder) elsewhere."""
    folder = local_path(base)
    if folder is None:
        spark.createDataFrame([(text,)], "value string").coalesce(1).write.mode("overwrite").text(f"{base}/{name}")
        return
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{name}.part"
    with part.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(folder / name)
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


FIXED: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # Clusters may be named 007.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # A damaged file must not end the audit of the other clusters; `SnapshotStore` finds what is missing by counting.
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
DEFAULTS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Else each operator looks up and sends the line of Python that made it.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
}


def open_session(
    name: str, *, master: str | None = None, remote: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session; without `master` and `remote` that of spark-submit, or of the environment.

    `settings` replace the defaults, which spark-submit gives itself. Starting takes about 5 s, 15 s with Connect.
    """
    builder = SparkSession.builder.appName(name)
    if remote is not None:
        builder = builder.remote(remote)
    elif master is not None:
        builder = builder.master(master).config("spark.driver.host", "127.0.0.1")
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    defaults = DEFAULTS if master is not None or remote is not None else {}
    for key, value in {**defaults, **(settings or {}), **FIXED}.items():
        if remote is None or key.startswith("spark.sql."):
            builder = builder.config(key, value)
    session = builder.getOrCreate()
    for key, value in FIXED.items():
        session.conf.set(key, value)
    return session


@contextmanager
def spark_session(
    name: str, *, master: str | None = None, remote: str | None = None, conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session of Spark, as `open_session`, that ends with the block."""
    session = open_session(name, master=master, remote=remote, settings=conf)
    try:
        yield session
    finally:
        session.stop()


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
