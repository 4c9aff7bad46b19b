"""What a job is: a function from a run's inputs to frames; reads of a store, and findings.

Each kind of a store of snapshots is read as one frame of complete clusters, with what had to be left out. Rows that an
audit holds something against become sentences of the rules. Columns that code of Python fills have Arrow's types.
"""

import json
import re
import shutil
import tempfile
from base64 import b64decode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kafkakit.core.findings import JOB_COLUMNS, NAMED_IN_WHERE, AuditFinding, finding_row
from kafkakit.core.fleet_tables import (
    MANIFESTS,
    TABLES,
    VERSION_COLUMN,
    JobSpec,
    Manifest,
    manifest_of,
    merged_manifest,
    repeated_clusters,
)

STEPS = "steps"
"""The folder of a job's results that holds the frames of `JobInput.step` while it runs."""


ROWS_OF_TURN = 4_000_000
"""The rows that `SnapshotStore.turns` puts together: a window over as many segments takes 3 GB in Sail."""

Pair = tuple[str, str]
"""A date and a cluster."""


class StoreFiles(Protocol):
    """How the files of a store are reached."""

    def manifests(self) -> Iterable[tuple[str, str]]:
        """Name and text of each manifest."""
        ...

    def counts(self, kind: str, pairs: Collection[Pair]) -> Mapping[Pair, tuple[int, int]]:
        """How many rows of a kind can be read, and how many of them a newer version wrote; nothing where none can."""
        ...

    def frame(self, kind: str, pairs: Collection[Pair]) -> DataFrame:
        """The rows of a kind, with date and cluster; `pairs` have some."""
        ...

    def rows(self, kind: str, pairs: Collection[Pair], names: Sequence[str]) -> Iterable[Mapping[str, Any]]:
        """The rows of `frame` on this host, with these columns alone."""
        ...

    def changed(self) -> Collection[tuple[str, Pair]]:
        """Of which kinds and pairs a file is gone or another one since it was counted, as far as that can be seen."""
        ...

    def close(self) -> None:
        """Remove what was made for reading."""
        ...


class DistantFiles:
    """Implements `StoreFiles` through Spark, wherever its tasks read."""

    def __init__(self, spark: SparkSession, base: str) -> None:
        self._spark, self._base = spark, base
        self._raw: dict[str, DataFrame | None] = {}

    def manifests(self) -> Iterable[tuple[str, str]]:
        try:
            lines = (
                self._spark.read.text(f"{self._base}/{MANIFESTS}", wholetext=True, recursiveFileLookup=True)
                .select("value", F.input_file_name().alias("file"))
                .collect()
            )
        except AnalysisException as error:
            if "PATH_NOT_FOUND" not in str(error):
                raise
            return []
        return [(row["file"].rsplit("/", 1)[-1], row["value"]) for row in lines]

    def counts(self, kind: str, pairs: Collection[Pair]) -> Mapping[Pair, tuple[int, int]]:
        """See the port. Costs one count of the files' footers."""
        raw = self._table(kind)
        if raw is None:
            return {}
        newer = F.coalesce(F.col(VERSION_COLUMN), F.lit(1)) > TABLES[kind].version
        counted = (
            raw.where(_is_among(pairs))
            .groupBy("snapshot_date", "cluster")
            .agg(F.count("*").alias("n"), F.sum(newer.cast("int")).alias("newer"))
        )
        return {(r["snapshot_date"], r["cluster"]): (int(r["n"]), int(r["newer"])) for r in counted.collect()}

    def frame(self, kind: str, pairs: Collection[Pair]) -> DataFrame:
        raw = self._table(kind)
        if raw is None:
            raise ValueError(f"{self._base} has no {kind}")
        return raw.where(_is_among(pairs)).where(F.coalesce(F.col(VERSION_COLUMN), F.lit(1)) <= TABLES[kind].version)

    def rows(self, kind: str, pairs: Collection[Pair], names: Sequence[str]) -> Iterable[Mapping[str, Any]]:
        """See the port. Costs a job."""
        return (row.asDict() for row in self.frame(kind, pairs).select(*names).collect())

    def changed(self) -> Collection[tuple[str, Pair]]:
        """See the port; nothing can be seen."""
        return ()

    def close(self) -> None:
        """Nothing was made for reading."""

    def _table(self, kind: str) -> DataFrame | None:
        # Spark lists the folders of all dates and clusters when a frame is made, so one serves all reads.
        if kind not in self._raw:
            try:
                self._raw[kind] = self._spark.read.schema(TABLES[kind].ddl).parquet(read_path(f"{self._base}/{kind}"))
            except AnalysisException as error:
                if "PATH_NOT_FOUND" not in str(error):
                    raise
                self._raw[kind] = None
        return self._raw[kind]


class FilesHere:
    """Implements `StoreFiles` where the engine runs on this host: the driver reads manifests itself, and checks files.

    The engine reads a folder of links to those files alone that are asked for and whole, so that it lists no others
    and meets no damaged one.
    """

    def __init__(self, spark: SparkSession, base: Path, links: Path | None) -> None:
        self._spark, self._base = spark, base
        if links is not None:
            shutil.rmtree(links, ignore_errors=True)  # of a run that was killed
            links.mkdir(parents=True)
        # A new name each time: an engine may remember what a folder held. The object removes it when it goes.
        self._own = tempfile.TemporaryDirectory(prefix="kafkakit-store-", dir=links)
        self._links = Path(self._own.name)
        self._whole: dict[tuple[str, Pair], tuple[dict[Path, _Mark], int]] = {}
        self._frames: dict[tuple[str, frozenset[Pair]], DataFrame] = {}

    def manifests(self) -> Iterable[tuple[str, str]]:
        found = sorted((self._base / MANIFESTS).rglob("*.json"))
        return [(path.name, path.read_text("utf-8", "replace")) for path in found if not path.name.startswith(".")]

    def counts(self, kind: str, pairs: Collection[Pair]) -> Mapping[Pair, tuple[int, int]]:
        """See the port. Reads each file to its end, where damaged pages show: about 0.3 s a million rows."""
        found = {}
        for pair in sorted(pairs):
            rows = newer = 0
            whole = {}
            for path in sorted(self._folder(self._base, kind, pair).glob("*.parquet")):
                try:
                    mark = _mark_of(path)
                    with pq.ParquetFile(path, page_checksum_verification=True) as file:
                        own = sum(batch.num_rows for batch in file.iter_batches()) if _has_sound_names(file) else 0
                        newer += _newer_rows(file, TABLES[kind].version)
                    rows += own
                    whole[path] = mark
                except (OSError, pa.ArrowException):
                    continue
            if rows:
                found[pair] = (rows, newer)
                self._whole[kind, pair] = (whole, newer)
        return found

    def frame(self, kind: str, pairs: Collection[Pair]) -> DataFrame:
        wanted = frozenset(pairs)
        if (kind, wanted) not in self._frames:
            root = self._links / str(len(self._frames))
            for pair in sorted(wanted):
                folder = self._folder(root, kind, pair)
                folder.mkdir(parents=True)
                for path in self._whole[kind, pair][0]:
                    (folder / path.name).symlink_to(path)
            frame = self._spark.read.schema(TABLES[kind].ddl).parquet(read_path(engine_path(self._spark, root / kind)))
            if any(self._whole[kind, pair][1] for pair in wanted):
                frame = frame.where(F.coalesce(F.col(VERSION_COLUMN), F.lit(1)) <= TABLES[kind].version)
            self._frames[kind, wanted] = frame
        return self._frames[kind, wanted]

    def rows(self, kind: str, pairs: Collection[Pair], names: Sequence[str]) -> Iterable[Mapping[str, Any]]:
        for pair in sorted(pairs):
            of_path = {"snapshot_date": pair[0], "cluster": pair[1]}
            for path in self._whole[kind, pair][0]:
                with pq.ParquetFile(path) as file:
                    there = [name for name in (*names, VERSION_COLUMN) if name in file.schema_arrow.names]
                    for row in file.read(there).to_pylist():
                        if (row.pop(VERSION_COLUMN, None) or 1) <= TABLES[kind].version:
                            yield {**dict.fromkeys(names), **row, **{n: of_path[n] for n in names if n in of_path}}

    def changed(self) -> Collection[tuple[str, Pair]]:
        """See the port. A look at each file."""
        return [key for key, (files, _) in self._whole.items() if any(_mark_of(p) != m for p, m in files.items())]

    def close(self) -> None:
        self._own.cleanup()

    def _folder(self, root: Path, kind: str, pair: Pair) -> Path:
        return root / kind / f"snapshot_date={pair[0]}" / f"cluster={quote(pair[1], safe='')}"


_Mark = tuple[int, int, int] | None


def _mark_of(path: Path) -> _Mark:
    """What changes when a file is another one; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def local_path(location: str) -> Path | None:
    """The place on this host that a path or a `file:` URI names; None for any other URI.

    Only a URI is decoded: in a path `%20` and `?` are parts of a name.
    """
    if location.startswith("file:"):
        return Path(unquote(urlsplit(location.replace("?", "%3F").replace("#", "%23")).path)).absolute()
    return None if "://" in location else Path(location).absolute()


def engine_path(spark: SparkSession, path: Path) -> str:
    """A place on this host as its engine takes it: Sail reads signs like `?` as patterns in paths, not in URIs.

    Spark in a JVM does not decode URIs of its own files.
    """
    return path.as_uri() if type(spark).__module__.startswith("pyspark.sql.connect.") else str(path)


def read_path(location: str) -> str:
    """A location as engines read it: Spark takes signs like `*` for patterns where it reads, not where it writes."""
    return location if location.startswith("file:") else re.sub(r"([\\{}\[\]*?])", r"\\\1", location)


def _has_sound_names(file: pq.ParquetFile) -> bool:
    """True when both schemas of a footer, Parquet's and the Arrow one in its metadata, have the same columns."""
    written = (file.metadata.metadata or {}).get(b"ARROW:schema")
    try:
        return written is None or pa.ipc.read_schema(pa.py_buffer(b64decode(written))).names == file.schema_arrow.names
    except ValueError:
        return False


def _newer_rows(file: pq.ParquetFile, version: int) -> int:
    """The rows that a newer version wrote: none by the footer's statistics, or counted."""
    column = file.schema_arrow.get_field_index(VERSION_COLUMN)
    if column < 0:
        return 0
    largest = [file.metadata.row_group(n).column(column).statistics for n in range(file.metadata.num_row_groups)]
    if all(one is not None and one.has_min_max and one.max <= version for one in largest):
        return 0
    values = file.read([VERSION_COLUMN]).column(0)
    return int(pc.sum(pc.greater(values, version)).as_py() or 0)


class SnapshotStore:
    """The snapshots below a URI, limited to some dates, and to some clusters where they are named.

    `left_out` collects in sentences what was not read: clusters that were not collected whole, files that are damaged
    or gone, rows that a newer version wrote. `kinds_read` collects what was read, until its owner clears it. `is_here`
    says that the engine and its tasks run on this host; then `links` is a folder that is made for reading, one below
    the temporary folder if not given.
    """

    def __init__(
        self,
        spark: SparkSession,
        base: str,
        dates: Collection[str],
        clusters: Collection[str] | None = None,
        *,
        is_here: bool = True,
        links: Path | None = None,
    ) -> None:
        base = base.rstrip("/")
        self._spark, self._only = spark, clusters
        folder = local_path(base) if is_here else None
        self.is_here = folder is not None
        self._files: StoreFiles = FilesHere(spark, folder, links) if folder else DistantFiles(spark, base)
        self.left_out: list[str] = []
        self.kinds_read: set[str] = set()
        self.manifests = self._read_manifests(frozenset(dates))
        self._bad: set[tuple[str, str, str]] = set()
        self._counted: set[tuple[str, str, str]] = set()

    def close(self) -> None:
        """Remove what was made for reading."""
        self._files.close()

    def dates(self) -> tuple[str, ...]:
        """The dates of which a cluster was collected whole, oldest first."""
        return tuple(sorted({m.snapshot_date for m in self.manifests.values() if m.is_complete}))

    def clusters(self, snapshot_date: str) -> tuple[str, ...]:
        """The clusters that were collected whole on a date."""
        return tuple(
            sorted(m.cluster for m in self.manifests.values() if m.is_complete and m.snapshot_date == snapshot_date)
        )

    def note_changed(self) -> None:
        """Note what was collected anew, or removed, since it was counted: what was read of it may not be whole."""
        for kind, (day, name) in sorted(self._files.changed()):
            if (kind, day, name) not in self._bad:
                self._bad.add((kind, day, name))
                self.left_out.append(f"{kind} of {name} on {day}: its files changed while they were read; run it again")

    def looked_at(self, snapshot_date: str) -> dict[str, tuple[str, ...]]:
        """The clusters of `clusters`, each with those kinds of `kinds_read` that it has, none of them damaged."""
        return {
            name: tuple(
                sorted(
                    kind
                    for kind in self.kinds_read & self.manifests[snapshot_date, name].rows.keys()
                    if (kind, snapshot_date, name) not in self._bad
                )
            )
            for name in self.clusters(snapshot_date)
        }

    def whole(self, kinds: Collection[str], snapshot_date: str) -> tuple[str, ...]:
        """The clusters of `clusters` of which no kind is damaged. One that has no rows of a kind is whole in it."""
        for kind in kinds:
            self._whole(kind, [snapshot_date])
        return tuple(
            n for n in self.clusters(snapshot_date) if not any((k, snapshot_date, n) in self._bad for k in kinds)
        )

    def repeated(self, snapshot_date: str) -> tuple[str, ...]:
        """A sentence for each cluster that the store has under several names on a date."""
        return repeated_clusters({n: self.manifests[snapshot_date, n].cluster_id for n in self.clusters(snapshot_date)})

    def days(self, kind: str) -> dict[str, tuple[str, ...]]:
        """The dates on which a kind is known of each cluster, be it empty, oldest first."""
        self._whole(kind, list(self.dates()))
        found: dict[str, tuple[str, ...]] = {}
        for (day, name), manifest in sorted(self.manifests.items()):
            if manifest.is_complete and kind in manifest.rows and (kind, day, name) not in self._bad:
                found[name] = (*found.get(name, ()), day)
        return found

    def read(self, kind: str, dates: Collection[str], clusters: Collection[str] | None = None) -> DataFrame:
        """The rows of a kind on some dates, of some clusters or all; a frame without any has the same columns."""
        self.kinds_read.add(kind)
        whole = self._whole(kind, sorted(set(dates)))
        if clusters is not None:
            whole = {pair for pair in whole if pair[1] in clusters}
        return self._files.frame(kind, whole) if whole else self._spark.createDataFrame([], TABLES[kind].ddl)

    def rows(self, kind: str, dates: Collection[str], *names: str) -> list[Mapping[str, Any]]:
        """The rows of a small kind on this host, with these columns, in no order."""
        self.kinds_read.add(kind)
        whole = self._whole(kind, sorted(set(dates)))
        return list(self._files.rows(kind, whole, names)) if whole else []

    def having(self, kind: str, date: str) -> frozenset[str]:
        """The clusters that have rows of a kind on a date, none of them damaged."""
        self.kinds_read.add(kind)
        return frozenset(cluster for _, cluster in self._whole(kind, [date]))

    def turns(self, kind: str, date: str, rows: int = ROWS_OF_TURN) -> list[list[str]]:
        """The clusters in groups whose rows of a kind are about as many as given, and one group at least.

        For sorts and windows of large kinds on one host, whose memory is then that of the largest group. Where tasks
        run on many hosts all is one group.
        """
        counts = {c: self.manifests[date, c].rows.get(kind, 0) for c in self.clusters(date)}
        if not self.is_here:
            return [sorted(counts)]
        found: list[list[str]] = [[]]
        filled = 0
        for cluster, count in sorted(counts.items()):
            if found[-1] and filled + count > rows:
                found.append([])
                filled = 0
            found[-1].append(cluster)
            filled += count
        return found

    def _whole(self, kind: str, dates: list[str]) -> set[Pair]:
        """The (date, cluster) pairs whose files hold as many rows as their manifests say."""
        wanted = {
            (m.snapshot_date, m.cluster): m.rows[kind]
            for m in self.manifests.values()
            if m.is_complete and m.snapshot_date in dates and m.rows.get(kind)
        }
        unseen = {pair for pair in wanted if (kind, *pair) not in self._counted}
        found = self._files.counts(kind, unseen) if unseen else {}
        for pair in sorted(unseen):
            self._counted.add((kind, *pair))
            rows, newer = found.get(pair, (0, 0))
            if newer:
                self.left_out.append(f"{kind} of {pair[1]} on {pair[0]}: {newer} rows were written by a newer kafkakit")
            if rows != wanted[pair]:
                self._bad.add((kind, *pair))
                self.left_out.append(
                    f"{kind} of {pair[1]} on {pair[0]}: {rows} of {wanted[pair]} rows can be read; left out"
                )
        return {pair for pair in wanted if (kind, *pair) not in self._bad}

    def _read_manifests(self, dates: frozenset[str]) -> dict[Pair, Manifest]:
        sources: dict[Pair, list[Manifest]] = {}
        for name, text in self._files.manifests():
            try:
                manifest = manifest_of(json.loads(text))
            except (ValueError, TypeError) as error:
                self.left_out.append(f"{name}: damaged manifest ({error}); left out")
                continue
            if manifest.snapshot_date in dates and (self._only is None or manifest.cluster in self._only):
                sources.setdefault((manifest.snapshot_date, manifest.cluster), []).append(manifest)
                if not manifest.is_complete:
                    self.left_out.append(
                        f"cluster {manifest.cluster} on {manifest.snapshot_date}: not collected: {manifest.error}"
                    )
        self.left_out.sort()
        return {pair: merged_manifest(parts) for pair, parts in sources.items()}


@dataclass(frozen=True, kw_only=True)
class JobInput:
    """What a job reads: the store's frames and the run's parameters. Jobs write only their steps and read no clock."""

    spark: SparkSession
    store: SnapshotStore
    spec: JobSpec
    job: str
    folder: str
    """Where the job's results go, as the engine takes it."""
    written: set[str] = field(default_factory=set)
    """The names of the tables of `table`, which are there."""

    def today(self, kind: str, clusters: Collection[str] | None = None) -> DataFrame:
        """The rows of a kind on the day that is looked at, of some clusters or all."""
        return self.store.read(kind, (self.spec.snapshot_date,), clusters)

    def history(self, kind: str) -> DataFrame:
        """The rows of a kind on all dates of the run, with their `snapshot_date`."""
        return self.store.read(kind, self.spec.dates)

    def has(self, kind: str) -> bool:
        """True when a cluster of the day that is looked at has rows of a kind, by the manifests."""
        day = self.spec.snapshot_date
        return any(m.rows.get(kind) for (at, _), m in self.store.manifests.items() if at == day and m.is_complete)

    def step(self, name: str, *frames: DataFrame) -> DataFrame:
        """The rows of one frame or several, computed now, one after another, and read from a file from here on.

        The runner removes the file. For what is used more than once: Spark plans what follows over a table, not over
        all that led to it, which takes longer than the data of most fleets. A lost executor takes nothing of it along,
        unlike with a cache.
        """
        return self._kept(f"{self.folder}/{STEPS}/{name}.parquet", *frames)

    def table(self, name: str, frame: DataFrame) -> DataFrame:
        """The rows of a table of the job's results, computed and written now, for what is used further like a step."""
        self.written.add(name)
        return self._kept(f"{self.folder}/{name}.parquet", frame)

    def _kept(self, path: str, *frames: DataFrame) -> DataFrame:
        for number, frame in enumerate(frames):
            frame.write.mode("append" if number else "overwrite").parquet(path)
        return self.spark.read.schema(frames[0].schema).parquet(read_path(path))

    def number(self, name: str, otherwise: float) -> float:
        """A threshold of the run's parameters."""
        return float(self.spec.parameters.get(f"{self.job}.{name}", otherwise))


@dataclass(frozen=True, kw_only=True)
class JobOutput:
    """What a job found: frames that the runner evaluates and writes.

    `findings` has the columns of `kafkakit.core.findings.JOB_COLUMNS`. `tables` are written beside them by name, unless
    `JobInput.table` did so. `facts` are frames of one row whose columns become single numbers of the summary. `skipped`
    says in sentences what was not looked at.
    """

    findings: DataFrame
    tables: Mapping[str, DataFrame] = field(default_factory=dict)
    facts: tuple[DataFrame, ...] = ()
    skipped: tuple[str, ...] = ()


def _is_among(pairs: Collection[tuple[str, str]]) -> Column:
    """True for rows of the given dates and clusters; columns of the path, so that no other file is opened."""
    by_date: dict[str, list[str]] = {}
    for snapshot_date, cluster in sorted(pairs):
        by_date.setdefault(snapshot_date, []).append(cluster)
    each = [(F.col("snapshot_date") == day) & F.col("cluster").isin(names) for day, names in by_date.items()]
    return reduce(lambda a, b: a | b, each) if each else F.lit(False)


_PARTS = float(1 << 20)


def total(doubles: Column | str) -> Column:
    """The sum of doubles, the same in any order and engine; null where all are null or not finite.

    Each is taken to a millionth (2**-20), and added up as a whole number of those.
    """
    column = F.col(doubles) if isinstance(doubles, str) else doubles
    return F.sum(F.round(column * _PARTS).try_cast("decimal(38,0)")).cast("double") / _PARTS


def ratio(number: Column, divisor: Column | str) -> Column:
    """`number / divisor`, null where the divisor is 0 or null: engines do not agree on null / 0."""
    return number / F.nullif(divisor, F.lit(0))


Job = Callable[[JobInput], JobOutput]


def arrow_schema(ddl: str) -> pa.Schema:
    """The columns of a schema of Spark that names these types alone."""
    return pa.schema([(name, ARROW_TYPES[kind]) for name, kind in (part.split() for part in ddl.split(","))])


ARROW_TYPES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}
"""By the name that Spark's DDL has for them."""

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
