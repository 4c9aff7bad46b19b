"""Spark data source `kafka_segments`: log segments of the hosts that run tasks, by their headers.

    spark.dataSource.register(SegmentSource)
    spark.read.format("kafka_segments").option("paths", json.dumps([...])).load()

Options: `paths`, a JSON list of folders; `rows`, `segments` (the default) or `batches`, a table of
`kafkakit.core.fleet_tables`; `crc`, `true` to check checksums; `task_bytes`, the bytes of files that a task takes;
`seen_at_ms`. A further column `cluster` holds the id that `meta.properties` gives.
"""

import json
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kafkakit.core.fleet_tables import TABLES
from kafkakit.streams.model.log_dirs import (
    FileReader,
    PartitionFiles,
    SeenFile,
    content_before_zeros,
    partitions_below,
    seen_files,
)
from kafkakit.streams.model.segment_rows import Row, ScanOptions, read_partition
from kafkakit_spark.arrow_types import ARROW_TYPES

TASK_BYTES = 4 << 30
_ROWS_AT_ONCE = 10_000


class SegmentSource(DataSource):  # type: ignore[misc]
    """The data source; reads nothing before a query runs."""

    @classmethod
    def name(cls) -> str:
        """What `spark.read.format` takes."""
        return "kafka_segments"

    def schema(self) -> str:
        """The columns of the table, and the cluster."""
        return ", ".join(f"`{c.name}` {c.type}" for c in TABLES[self._kind].columns) + ", cluster string"

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the paths."""
        del schema
        options = ScanOptions(
            with_crc=self.options.get("crc", "false") == "true",
            with_batches=self._kind == "batches",
            seen_at_ms=int(self.options.get("seen_at_ms", "0")),
        )
        paths = tuple(json.loads(self.options["paths"]))
        return SegmentReader(paths, self._kind, options, int(self.options.get("task_bytes", TASK_BYTES)))

    @property
    def _kind(self) -> str:
        return str(self.options.get("rows", "segments"))


@dataclass
class Directories(InputPartition):  # type: ignore[misc]
    """The directories of a task, without their files: these are listed again when it runs."""

    found: Sequence[PartitionFiles]


@dataclass
class SegmentReader(DataSourceReader):  # type: ignore[misc]
    """Splits trees into tasks, and reads the directories of one."""

    paths: Sequence[str]
    kind: str
    options: ScanOptions
    task_bytes: int

    def partitions(self) -> Sequence[InputPartition]:
        """Tasks of about `task_bytes`, largest directories first into the emptiest task; a directory is never split."""
        found = [directory for path in self.paths for directory in _directories(path)]
        count = max(-(-sum(d.log_bytes for d in found) // self.task_bytes), min(2, len(found)), 1)
        tasks: list[list[PartitionFiles]] = [[] for _ in range(count)]
        loads = [0] * count
        for directory in sorted(found, key=lambda d: (-d.log_bytes, d.path)):
            task = loads.index(min(loads))
            loads[task] += max(directory.log_bytes, 1)
            tasks[task].append(directory)
        return [Directories([replace(d, files=()) for d in task]) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task's directories; the same at every call as long as the files are."""
        if not isinstance(partition, Directories):
            raise TypeError(f"{type(partition).__name__} is not a task of this source")
        columns = TABLES[self.kind].columns
        schema = pa.schema([*((c.name, ARROW_TYPES[c.type]) for c in columns), ("cluster", pa.string())])
        rows: list[Row] = []
        for directory in partition.found:
            listed = directory if directory.fault else directory.listed(LOCAL_FILES)
            for each in read_partition(listed, LOCAL_FILES, self.options):
                rows += [each.segment] if self.kind == "segments" else each.batches
                if len(rows) >= _ROWS_AT_ONCE:
                    yield _record_batch(rows, schema)
                    rows = []
        yield _record_batch(rows, schema)


def _record_batch(rows: Sequence[Mapping[str, object]], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(row) for row in rows], schema=schema)


def _directories(uri: str) -> Iterator[PartitionFiles]:
    """The directories below a path or a `file:` URI; a root that cannot be listed comes with its fault."""
    parts = urlsplit(uri)
    path = unquote(parts.path) if parts.scheme == "file" else uri
    try:
        yield from partitions_below(path, LOCAL_FILES)
    except OSError as error:
        yield PartitionFiles(log_dir=path, path=path, name=None, fault=f"cannot be listed: {error.strerror}")


# As in kafkakit.adapters.files, which executors do not get: what is read is decided in `log_tree`.


def _listing(path: str) -> Sequence[SeenFile]:
    with os.scandir(path) as entries:
        return seen_files(entries)


@contextmanager
def _mapped(path: str, size: int, may_shrink: bool) -> Iterator[memoryview]:
    with Path(path).open("rb") as stream:
        size = min(size, os.fstat(stream.fileno()).st_size)
        if not size:
            yield memoryview(b"")
        elif may_shrink:
            yield memoryview(stream.read(size))
        else:
            with mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as buffer:
                yield buffer


def _content(path: str) -> bytes:
    with Path(path).open("rb") as stream:
        return content_before_zeros(stream)


LOCAL_FILES = FileReader(_listing, _mapped, _content)
